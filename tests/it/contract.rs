//! The contract keeps its word: `wit/` against the snapshot of what was published, and the core-module layout that
//! `wit/README.md` documents against the canonical ABI.

use std::fs;
use std::path::{Path, PathBuf};
use wit_component::{OutputToString, WitPrinter};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Function, InterfaceId, PackageId, Resolve, SizeAlign, Type, TypeDefKind, WorldItem, WorldKey};

/// Set to record what was added to the contract. What was published cannot be replaced this way.
const ACCEPT: &str = "KEYFOLD_ACCEPT_CONTRACT";

#[test]
fn a_published_contract_never_changes() {
    let (resolve, package) = contract();
    let now = printed(&resolve, package);
    let name = &resolve.packages[package].name;
    let path = snapshot_path(&name.to_string());
    let published = fs::read_to_string(&path).unwrap_or_default();
    let Difference { changed, added } = compare(&published, &now);
    assert!(
        changed.is_empty(),
        "wit/ changes what {name} says, and rules in use are compiled against that. A published version never changes: put \
         the change into a new interface of this package, or into a package with the next minor version. Before its release, \
         delete {} and record it anew.\nPublished, and no longer in wit/:\n{}",
        path.display(),
        changed.join("\n")
    );
    if !added.is_empty() && std::env::var_os(ACCEPT).is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    assert!(
        added.is_empty(),
        "wit/ adds to {name}, which old rules do not notice. Run this test again with {ACCEPT}=1 to record it in {}; after \
         that it cannot change.\nAdded:\n{}",
        path.display(),
        added.join("\n")
    );
}

#[test]
fn a_new_field_is_a_change_and_a_new_interface_an_addition() {
    let published = "package a:b@0.1.0;\n\ninterface x {\n  f: func(r: u8);\n}\n";
    let field = published.replace("r: u8", "r: u8, s: u8");
    assert_eq!(compare(published, &field).changed, ["interface x {\n  f: func(r: u8);\n}"]);
    let interface = format!("{published}\ninterface y {{\n  g: func();\n}}\n");
    let expected = Difference { changed: vec![], added: vec!["interface y {\n  g: func();\n}".into()] };
    assert_eq!(compare(published, &interface), expected);
}

#[test]
fn the_documented_layout_is_that_of_the_canonical_abi() {
    let (resolve, package) = contract();
    let call = &resolve.interfaces[interface(&resolve, package, "state-function")].functions["call"];
    let signature = resolve.wasm_signature(AbiVariant::GuestExport, call);
    assert!(signature.indirect_params && signature.retptr, "`call` passes structs by pointer: {signature:?}");
    let layout = Layout::of(&resolve);
    assert_eq!(documented("The argument of `call`"), layout.argument(call));
    assert_eq!(documented("The result of `call`"), layout.result(call));
}

#[test]
fn the_documented_functions_are_those_of_the_core_module() {
    let (resolve, package) = contract();
    let world = &resolve.worlds[resolve.packages[package].worlds["rule-with-migration"]];
    let mut exports = Vec::new();
    for (function, interface) in functions(&resolve, world.exports.iter()) {
        let name = function.legacy_core_export_name(Some(&interface));
        exports.push(format!("| `{name}` | {} |", signature(&resolve, AbiVariant::GuestExport, function)));
    }
    assert_eq!(documented("Exports"), exports);
    let mut imports = Vec::new();
    for (function, interface) in functions(&resolve, world.imports.iter()) {
        let signature = signature(&resolve, AbiVariant::GuestImport, function);
        imports.push(format!("| `{interface}` | `{}` | {signature} |", function.name));
    }
    assert_eq!(documented("Imports"), imports);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).unwrap();
    (resolve, package)
}

fn snapshot_path(package: &str) -> PathBuf {
    root().join("tests/contract").join(package.replace([':', '@'], "-") + ".wit")
}

/// The package without its comments, in one fixed form.
fn printed(resolve: &Resolve, package: PackageId) -> String {
    let mut printer = WitPrinter::new(OutputToString::default());
    printer.emit_docs(false).print(resolve, package, &[]).unwrap();
    printer.output.to_string()
}

#[derive(Debug, PartialEq)]
struct Difference {
    changed: Vec<String>,
    added: Vec<String>,
}

/// Compares interface by interface and world by world. A function added to an interface counts as a change, because a
/// rule that calls it would not load on a host that is also of this version.
fn compare(published: &str, now: &str) -> Difference {
    let (published, now) = (items(published), items(now));
    let missing =
        |from: &[String], other: &[String]| from.iter().filter(|item| !other.contains(item)).cloned().collect();
    Difference { changed: missing(&published, &now), added: missing(&now, &published) }
}

/// The parts of a printed package that begin in the first column.
fn items(printed: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in printed.lines().filter(|line| !line.is_empty()) {
        match items.last_mut() {
            Some(item) if line.starts_with([' ', '}']) => *item += &format!("\n{line}"),
            _ => items.push(line.to_owned()),
        }
    }
    items
}

/// The rows of the table under a heading of `wit/README.md`.
fn documented(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("wit/README.md")).unwrap();
    let (_, section) = text.split_once(&format!("# {heading}\n")).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n#").next().unwrap_or_default();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(str::to_owned).collect()
}

fn interface(resolve: &Resolve, package: PackageId, name: &str) -> InterfaceId {
    resolve.packages[package].interfaces[name]
}

fn functions<'r>(
    resolve: &'r Resolve,
    items: impl Iterator<Item = (&'r WorldKey, &'r WorldItem)>,
) -> Vec<(&'r Function, String)> {
    let of_interface = |(key, item): (&WorldKey, &WorldItem)| match item {
        WorldItem::Interface { id, .. } => {
            let name = resolve.name_world_key(key);
            resolve.interfaces[*id].functions.values().map(|function| (function, name.clone())).collect()
        }
        _ => Vec::new(),
    };
    items.flat_map(of_interface).collect()
}

fn signature(resolve: &Resolve, variant: AbiVariant, function: &Function) -> String {
    let names = |types: &[WasmType]| types.iter().map(core_name).collect::<Vec<_>>().join(", ");
    let signature = resolve.wasm_signature(variant, function);
    format!("({}) -> ({})", names(&signature.params), names(&signature.results))
}

fn core_name(core: &WasmType) -> &'static str {
    match core {
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
    }
}

/// Where the fields of structs lie in a module with 32-bit addresses.
struct Layout<'r> {
    resolve: &'r Resolve,
    sizes: SizeAlign,
}

impl<'r> Layout<'r> {
    fn of(resolve: &'r Resolve) -> Self {
        let mut sizes = SizeAlign::default();
        sizes.fill(resolve).unwrap();
        Layout { resolve, sizes }
    }

    /// The rows for the struct of the parameters, and one for its end.
    fn argument(&self, function: &Function) -> Vec<String> {
        let types = || function.params.iter().map(|param| &param.ty);
        let mut rows = Vec::new();
        for (param, (offset, ty)) in function.params.iter().zip(self.sizes.field_offsets(types())) {
            rows.extend(self.fields(&param.name, ty, offset.size_wasm32()));
        }
        let whole = self.sizes.params(types());
        rows.push(format!("| {} | end, aligned to {} | |", whole.size.size_wasm32(), whole.align.align_wasm32()));
        rows
    }

    /// The rows for the discriminant, for both arms, and one for the end.
    fn result(&self, function: &Function) -> Vec<String> {
        let ty = function.result.as_ref().unwrap();
        let TypeDefKind::Result(result) = self.kind(ty) else { panic!("`{}` returns no result", function.name) };
        let arms = [("ok", result.ok.as_ref()), ("err", result.err.as_ref())];
        let tag = wit_parser::Int::U8;
        let payload = self.sizes.payload_offset(tag, arms.iter().map(|(_, ty)| *ty)).size_wasm32();
        let mut rows = vec!["| 0 | 0 is `ok`, 1 is `err` | `u8` |".to_owned()];
        for (name, ty) in arms {
            rows.extend(ty.into_iter().flat_map(|ty| self.fields(name, ty, payload)));
        }
        let (size, align) = (self.sizes.size(ty).size_wasm32(), self.sizes.align(ty).align_wasm32());
        rows.push(format!("| {size} | end, aligned to {align} | |"));
        rows
    }

    fn fields(&self, of: &str, ty: &Type, start: usize) -> Vec<String> {
        let TypeDefKind::Record(record) = self.kind(ty) else { panic!("`{of}` is no record") };
        let offsets = self.sizes.field_offsets(record.fields.iter().map(|field| &field.ty));
        let row = |(field, (offset, ty)): (&wit_parser::Field, (wit_parser::ArchitectureSize, &Type))| {
            format!("| {} | `{of}.{}` | `{}` |", start + offset.size_wasm32(), field.name, self.name(ty))
        };
        record.fields.iter().zip(offsets).map(row).collect()
    }

    /// What a type is, behind the names that it goes by.
    fn kind(&self, ty: &Type) -> &'r TypeDefKind {
        let Type::Id(id) = ty else { panic!("{ty:?} is no type of the package") };
        match &self.resolve.types[*id].kind {
            TypeDefKind::Type(alias) => self.kind(alias),
            kind => kind,
        }
    }

    fn name(&self, ty: &Type) -> String {
        let mut printer = WitPrinter::new(OutputToString::default());
        printer.print_type_name(self.resolve, ty).unwrap();
        printer.output.to_string()
    }
}
