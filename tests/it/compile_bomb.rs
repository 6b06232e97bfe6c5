//! A small, valid component that takes the compiler minutes and gigabytes: what an upload must not do to the host.

use wasm_encoder::{
    BlockType, CodeSection, Component, Function, FunctionSection, Module, ModuleSection, TypeSection, ValType,
};

/// Below the thousand that a careful limit on locals lets through.
const LOCALS: u32 = 960;

/// Below the 65,520 that the validator lets through. Each takes one byte.
const ARMS: usize = 60_000;

/// About 70 KB with one function: a jump table whose arms all lead to the same place, where locals arrive with other values
/// than on the path around the table.
///
/// The compiler turns that into static single assignment, where every arm passes every local on: 58 million values. Measured
/// with Cranelift: more than a minute of CPU time, and 4.9 GB. A compiler held to 2 GiB aborts after about ten seconds.
pub fn compile_bomb() -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut code = CodeSection::new();
    code.function(&jump_table());
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    let mut component = Component::new();
    component.section(&ModuleSection(&module));
    component.finish()
}

fn jump_table() -> Function {
    let mut function = Function::new([(LOCALS - 1, ValType::I32)]);
    let mut code = function.instructions();
    code.block(BlockType::Empty).local_get(0).br_if(0);
    for local in 1..LOCALS {
        code.local_get(local - 1).i32_const(1).i32_add().local_set(local);
    }
    code.local_get(0).br_table(vec![0; ARMS], 0).end();
    // Every local is used afterwards; one that were not would not have to be passed on.
    code.local_get(0);
    for local in 1..LOCALS {
        code.local_get(local).i32_xor();
    }
    code.end();
    function
}
