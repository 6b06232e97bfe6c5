//! Compiling uploads in a child process that can be killed.
//!
//! A valid module of 169 KB can make Cranelift work for 22 s in 1.5 GB, and wasmtime's security policy leaves that to the
//! host. So this binary runs itself again with limits on memory, CPU time and wall time; whatever happens to the child, the
//! host goes on and the upload is refused.

use super::engine::Engine;
use crate::clock::Deadline;
use crate::limits::Limits;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The hidden subcommand that the child is started with.
pub const SUBCOMMAND: &str = "compile-component";
/// Compiled code larger than this is refused; JavaScript and Python components come to some 40 MiB.
const CODE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How much of the child's complaint is shown.
const STDERR_BYTES_MAX: u64 = 16 * 1024;
/// How often the child is looked after.
const POLL: Duration = Duration::from_millis(2);

const CORE_MODULE_HEADER: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT_HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

/// Starts compiling children.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// The `keyfold` binary.
    program: PathBuf,
}

impl Compiler {
    /// Compiles with this binary.
    pub fn this_binary() -> Result<Self> {
        let program = std::env::current_exe().context("failed to find the path of this program")?;
        Ok(Compiler { program })
    }

    /// Compiles with another `keyfold` binary of the same version.
    pub fn with_program(program: PathBuf) -> Self {
        Compiler { program }
    }

    /// Compiles a component or core module to native code.
    pub fn compile(&self, bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        ensure!(
            bytes.starts_with(COMPONENT_HEADER) || bytes.starts_with(CORE_MODULE_HEADER),
            "this is not a WebAssembly file: it does not begin with \\0asm and a known version"
        );
        ensure!(
            bytes.len() as u64 <= limits.component_bytes_max,
            "the component has {} bytes, the limit component-bytes-max is {}",
            bytes.len(),
            limits.component_bytes_max
        );
        let mut child = Command::new(&self.program)
            .arg(SUBCOMMAND)
            .arg(limits.compile_memory_bytes_max.to_string())
            .arg(limits.compile_deadline().as_secs().max(1).to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start the compiling child {}", self.program.display()))?;
        let stdin = child.stdin.take().expect("stdin was piped just above");
        let code = reader(child.stdout.take().expect("stdout was piped just above"), CODE_BYTES_MAX + 1);
        let complaint = reader(child.stderr.take().expect("stderr was piped just above"), STDERR_BYTES_MAX);
        let bytes = bytes.to_vec();
        // Writing must not block the deadline, and a child that dies early closes the pipe: the exit status tells more.
        let writer = std::thread::spawn(move || {
            let mut stdin = stdin;
            let _ = stdin.write_all(&bytes);
        });
        let status = wait(&mut child, limits);
        let _ = writer.join();
        let code = code.join().unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint.join().unwrap_or_default()).trim().to_owned();
        // Checked before the status: a child whose output is not read to the end complains about that.
        ensure!(code.len() as u64 <= CODE_BYTES_MAX, "the compiled code is over the limit of {CODE_BYTES_MAX} bytes");
        match status? {
            status if status.success() => {}
            status => bail!("{}", refusal(status, &complaint, limits)),
        }
        Ok(code)
    }
}

/// The child's whole life: limits on itself, a component from standard input, native code to standard output.
pub fn child_main(memory_bytes_max: u64, cpu_seconds_max: u64) -> Result<()> {
    rlimit::setrlimit(rlimit::Resource::AS, memory_bytes_max, memory_bytes_max)
        .context("failed to limit the compiler's memory")?;
    rlimit::setrlimit(rlimit::Resource::CPU, cpu_seconds_max, cpu_seconds_max + 1)
        .context("failed to limit the compiler's time")?;
    rlimit::setrlimit(rlimit::Resource::CORE, 0, 0).context("failed to switch core dumps off")?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).context("failed to read the component")?;
    let engine = Engine::for_compiling()?;
    let component = checked(&engine, bytes)?;
    let code = engine.engine.precompile_component(&component).map_err(anyhow::Error::from)?;
    std::io::stdout().lock().write_all(&code).context("failed to hand over the compiled code")
}

/// What can be compiled: a component, or a core module that is valid and has become one.
pub fn checked(engine: &Engine, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if bytes.starts_with(CORE_MODULE_HEADER) {
        // What wraps a module into a component trusts it, and panics when a part of it is missing.
        wasmtime::Module::validate(&engine.engine, &bytes)
            .map_err(anyhow::Error::from)
            .context("this file is damaged, or uses a proposal that is switched off")?;
    }
    to_component(bytes)
}

/// A core module becomes a component; a component stays as it is.
pub fn to_component(bytes: Vec<u8>) -> Result<Vec<u8>> {
    if !bytes.starts_with(CORE_MODULE_HEADER) {
        return Ok(bytes);
    }
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|encoder| encoder.encode())
        .context("this core module is not a Keyfold rule: build it with an SDK, or with `keyfold build`")
}

fn reader(pipe: impl Read + Send + 'static, bytes_max: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth showing; the exit status decides.
        let _ = pipe.take(bytes_max).read_to_end(&mut bytes);
        bytes
    })
}

/// Waits for the child until its deadline, then kills it.
fn wait(child: &mut Child, limits: &Limits) -> Result<ExitStatus> {
    let deadline = Deadline::after(limits.compile_deadline());
    loop {
        if let Some(status) = child.try_wait().context("failed to wait for the compiling child")? {
            return Ok(status);
        }
        if deadline.passed() {
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "compiling took longer than {} ms and was stopped: the component holds a function that is too complex, or \
                 compile-deadline-ms is too low",
                limits.compile_deadline_ms
            );
        }
        std::thread::sleep(POLL);
    }
}

fn refusal(status: ExitStatus, complaint: &str, limits: &Limits) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        None => complaint.to_owned(),
        Some(_) if complaint.contains("memory allocation") => format!(
            "compiling needs more memory than the limit of {} MiB: the component holds a function that is too complex, or \
             compile-memory-bytes-max is too low",
            limits.compile_memory_bytes_max / (1024 * 1024)
        ),
        Some(signal) => format!(
            "compiling was stopped by signal {signal}: the component holds a function that is too complex for the limits \
             compile-deadline-ms and compile-memory-bytes-max {complaint}"
        ),
    }
}
