//! A WASI that hears and sees nothing, for languages whose tools bring it along.
//!
//! Time is the batch's, random numbers come from the batch's seed, the environment, arguments and preopened folders are
//! empty, and what is written to standard output goes to the rule's log. Every other function traps when it is called, and
//! its name is in the message. There is no socket and no file, not even a closed one.

use super::store::StoreData;
use super::{CallError, Reason};
use wasmtime::StoreContextMut;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceAny, ResourceType, Val};

/// Interfaces that are answered, any 0.2 version. Networking and HTTP are not among them.
const ANSWERED: &[&str] = &["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/"];

/// Stands behind every WASI resource handle; it holds nothing.
struct Nothing;

/// Whether an import is one that is answered.
pub(super) fn answers(import: &str) -> bool {
    ANSWERED.iter().any(|prefix| import.starts_with(prefix)) && import.contains("@0.2.")
}

/// Defines whatever WASI the component imports.
pub(super) fn add_imports(linker: &mut Linker<StoreData>, component: &Component) -> wasmtime::Result<()> {
    let engine = linker.engine().clone();
    for (interface, item) in component.component_type().imports(&engine) {
        if let ComponentItem::ComponentInstance(instance) = item.ty
            && answers(interface)
        {
            let mut linked = linker.instance(interface)?;
            for (name, item) in instance.exports(&engine) {
                define(&mut linked, interface, name, &item.ty)?;
            }
        }
    }
    Ok(())
}

fn define(
    linker: &mut LinkerInstance<'_, StoreData>,
    interface: &str,
    name: &str,
    item: &ComponentItem,
) -> wasmtime::Result<()> {
    match item {
        ComponentItem::Resource(_) => linker.resource(name, ResourceType::host::<Nothing>(), |_, _| Ok(())),
        ComponentItem::ComponentFunc(_) => {
            let full_name = format!("{}#{name}", interface.split('@').next().unwrap_or(interface));
            linker.func_new(name, move |store, _, parameters, results| answer(store, &full_name, parameters, results))
        }
        _ => Ok(()),
    }
}

fn answer(
    mut store: StoreContextMut<'_, StoreData>,
    function: &str,
    parameters: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    const NANOS_PER_MS: u64 = 1_000_000;
    let time_ms = store.data().wasi.time.0.max(0) as u64;
    let result = match function {
        "wasi:clocks/monotonic-clock#now" => Val::U64(time_ms.saturating_mul(NANOS_PER_MS)),
        "wasi:clocks/monotonic-clock#resolution" => Val::U64(NANOS_PER_MS),
        "wasi:clocks/wall-clock#now" => datetime(time_ms / 1000, (time_ms % 1000) as u32 * NANOS_PER_MS as u32),
        "wasi:clocks/wall-clock#resolution" => datetime(0, NANOS_PER_MS as u32),
        "wasi:random/random#get-random-u64" | "wasi:random/insecure#get-insecure-random-u64" => {
            Val::U64(store.data_mut().wasi.next_random())
        }
        "wasi:random/random#get-random-bytes" | "wasi:random/insecure#get-insecure-random-bytes" => {
            random_bytes(&mut store, parameters)?
        }
        "wasi:random/insecure-seed#insecure-seed" => {
            let wasi = &mut store.data_mut().wasi;
            Val::Tuple(vec![Val::U64(wasi.next_random()), Val::U64(wasi.next_random())])
        }
        "wasi:cli/environment#get-environment"
        | "wasi:cli/environment#get-arguments"
        | "wasi:filesystem/preopens#get-directories" => Val::List(Vec::new()),
        "wasi:cli/environment#initial-cwd"
        | "wasi:cli/terminal-stdin#get-terminal-stdin"
        | "wasi:cli/terminal-stdout#get-terminal-stdout"
        | "wasi:cli/terminal-stderr#get-terminal-stderr" => Val::Option(None),
        "wasi:cli/stdin#get-stdin" | "wasi:cli/stdout#get-stdout" | "wasi:cli/stderr#get-stderr" => {
            Val::Resource(ResourceAny::try_from_resource(Resource::<Nothing>::new_own(0), &mut store)?)
        }
        "wasi:io/streams#[method]output-stream.check-write" => ok(Some(Val::U64(4096))),
        "wasi:io/streams#[method]output-stream.write"
        | "wasi:io/streams#[method]output-stream.blocking-write-and-flush" => {
            write_log(&mut store, parameters)?;
            ok(None)
        }
        "wasi:io/streams#[method]output-stream.flush" | "wasi:io/streams#[method]output-stream.blocking-flush" => {
            ok(None)
        }
        _ => {
            let message = format!("the rule called {function}: a rule can compute and nothing else");
            return Err(wasmtime::Error::new(super::store::HostStop(CallError::new(Reason::Trap, message))));
        }
    };
    if let Some(place) = results.first_mut() {
        *place = result;
    }
    Ok(())
}

fn datetime(seconds: u64, nanoseconds: u32) -> Val {
    Val::Record(vec![("seconds".into(), Val::U64(seconds)), ("nanoseconds".into(), Val::U32(nanoseconds))])
}

fn ok(value: Option<Val>) -> Val {
    Val::Result(Ok(value.map(Box::new)))
}

fn random_bytes(store: &mut StoreContextMut<'_, StoreData>, parameters: &[Val]) -> wasmtime::Result<Val> {
    /// As much as anyone needs for a seed, and little enough that a rule cannot fill the host's memory.
    const BYTES_MAX: u64 = 4096;
    let Some(Val::U64(count @ ..=BYTES_MAX)) = parameters.first() else {
        let message = format!("the rule asked for more than {BYTES_MAX} random bytes at once");
        return Err(wasmtime::Error::new(super::store::HostStop(CallError::new(Reason::Trap, message))));
    };
    let wasi = &mut store.data_mut().wasi;
    Ok(Val::List((0..*count).map(|_| Val::U8(wasi.next_random() as u8)).collect()))
}

fn write_log(store: &mut StoreContextMut<'_, StoreData>, parameters: &[Val]) -> wasmtime::Result<()> {
    const LEVEL_INFO: u8 = 2;
    let Some(Val::List(bytes)) = parameters.get(1) else { return Ok(()) };
    let text: Vec<u8> =
        bytes.iter().filter_map(|byte| if let Val::U8(byte) = byte { Some(*byte) } else { None }).collect();
    store.data_mut().write_log(LEVEL_INFO, text.trim_ascii_end())
}

impl super::store::WasiAnswers {
    /// SplitMix64 over the batch's seed: the same numbers on every re-run.
    fn next_random(&mut self) -> u64 {
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
