//! [`Engine`]: the one wasmtime configuration. The compiling child and the host use the same, so that code fits.

use crate::limits::Limits;
use anyhow::{Context, Result};
use std::hash::{Hash, Hasher};
use wasmtime::{Config, InstanceAllocationStrategy, OperatorCost, PoolingAllocationConfig, WasmFeatures};

/// Bytes of stack that a rule may use: bounds recursion. A deeper one is a trap.
const WASM_STACK_BYTES: usize = 512 * 1024;
/// What host functions get on top; overrunning it would abort the process.
const HOST_STACK_BYTES: usize = 512 * 1024;
/// Core instances, memories and tables of one component: interpreters link some ten modules.
pub(super) const CORE_INSTANCES_MAX: u32 = 32;
pub(super) const MEMORIES_MAX: u32 = 8;
pub(super) const TABLES_MAX: u32 = 16;
/// Elements of one table; 10,000 was enough for every SDK that was tried.
pub(super) const TABLE_ELEMENTS_MAX: usize = 20_000;
/// Instances alive at once: a few for each worker thread. Each slot reserves address space, not memory.
pub const INSTANCES_MAX: u32 = 32;
/// Instances alive at once in a process with many rules. A slot reserves some 33 GiB of address space, so this is a quarter of what
/// there is.
pub const INSTANCES_MAX_SERVICE: u32 = 1000;

/// wasmtime, configured for untrusted code and equal results.
#[derive(Clone)]
pub struct Engine {
    pub(super) engine: wasmtime::Engine,
}

impl Engine {
    /// The engine that runs rules. Falls back to allocating on demand when the pool cannot be had.
    pub fn new(limits: &Limits) -> Result<Self> {
        Self::for_instances(limits, INSTANCES_MAX)
    }

    /// The same for so many instances alive at once.
    pub fn for_instances(limits: &Limits, instances: u32) -> Result<Self> {
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits, instances)));
        if let Ok(engine) = wasmtime::Engine::new(&config) {
            return Ok(Engine { engine });
        }
        tracing::warn!("no address space for a pool of instances: allocating on demand, which is slower");
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        let engine = wasmtime::Engine::new(&config).map_err(anyhow::Error::from).context("failed to start wasmtime")?;
        Ok(Engine { engine })
    }

    /// The engine of the compiling child: no pool, so that a tight limit on address space suffices.
    pub fn for_compiling() -> Result<Self> {
        let engine =
            wasmtime::Engine::new(&config()).map_err(anyhow::Error::from).context("failed to start wasmtime")?;
        Ok(Engine { engine })
    }

    /// Says which compiled code fits: the configuration, the CPU's features, wasmtime's version and ours.
    pub fn fingerprint(&self) -> String {
        let mut hasher = std::hash::DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())
    }
}

fn config() -> Config {
    let mut config = Config::new();
    // Component-model async would make every call four to five times slower.
    config.concurrency_support(false);
    config.consume_fuel(true);
    // Growing memory costs the host page faults; by default it costs a rule nothing.
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = u8::MAX;
    config.operator_cost(cost);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.async_stack_size(WASM_STACK_BYTES + HOST_STACK_BYTES);
    // Pooled stacks pass from tenant to tenant.
    config.async_stack_zeroing(true);
    // Equal results on every machine and run.
    config.cranelift_nan_canonicalization(true);
    config.wasm_relaxed_simd(false);
    // Whatever no SDK needs is off: most of wasmtime's past escapes came from optional parts.
    for feature in [
        WasmFeatures::SIMD,
        WasmFeatures::MEMORY64,
        WasmFeatures::TAIL_CALL,
        WasmFeatures::CUSTOM_PAGE_SIZES,
        WasmFeatures::WIDE_ARITHMETIC,
    ] {
        config.wasm_features(feature, false);
    }
    config.gc_support(false);
    config.native_unwind_info(false);
    config
}

fn pool(limits: &Limits, instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances * CORE_INSTANCES_MAX)
        .total_memories(instances * MEMORIES_MAX)
        .total_tables(instances * TABLES_MAX)
        .total_stacks(instances)
        .total_gc_heaps(0)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(limits.memory_bytes_max as usize);
    pool
}
