//! Steps that say what they do and how long they took, and the programs that they run.

use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Instant;

/// Does one step.
pub fn step<T>(what: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {what}");
    let begin = Instant::now();
    let result = action()?;
    eprintln!("    done in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(result)
}

/// Runs a program that shows its own progress. Fails when it does.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// Runs a program and returns what it printed on standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output =
        command.stderr(std::process::Stdio::inherit()).output().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(output.status.success(), "`{line}` failed: {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something that is not UTF-8"))
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
