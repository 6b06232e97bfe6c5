//! `cargo xtask test`: all tests, and each micro-benchmark once, summed up, with what they found out about Spark's facts.

use crate::facts;
use crate::python_package::PACKAGES;
use crate::step::{line, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    passed: u64,
    failed: u64,
}

/// How the summaries of the two runners begin.
const NEXTEST: &str = "Summary [";
const CARGO: &str = "test result: ";

/// Runs all tests. Fails when one does, or when a runner does.
pub fn test(workspace: &Workspace) -> Result<ExitCode> {
    let has_nextest = Command::new("cargo")
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    // Benchmarks are targets, too: called as tests, each runs once and fails only when it does not work, however long it takes.
    let mut tests = workspace.command("cargo");
    if has_nextest {
        tests.args(["nextest", "run", "--workspace", "--all-targets", "--no-fail-fast"]);
    } else {
        tests.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    }
    let mut doc_tests = workspace.command("cargo");
    doc_tests.args(["test", "--workspace", "--doc", "--no-fail-fast"]);

    // Without one the tests that need it fail and say why; the others can still be run.
    for package in &PACKAGES {
        if let Err(error) = package.install(workspace) {
            eprintln!("error: {error:#}");
        }
    }
    facts::forget(workspace)?;
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let summaries = [if has_nextest { NEXTEST } else { CARGO }, CARGO];
    for (command, summary) in [&mut tests, &mut doc_tests].into_iter().zip(summaries) {
        let line = line(command);
        let (counts, success) = step(&format!("Testing: {line}"), || run_and_count(command, summary))?;
        sum.passed += counts.passed;
        sum.failed += counts.failed;
        if !success {
            broken.push(line);
        }
    }
    for line in &broken {
        eprintln!("error: `{line}` failed");
    }
    let facts = facts::summary(workspace);
    if let Err(error) = &facts {
        eprintln!("error: {error:#}");
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    Ok(if broken.is_empty() && sum.failed == 0 && facts.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a test runner, shows what it prints, and counts what its summaries say.
fn run_and_count(command: &mut Command, summary: &'static str) -> Result<(Counts, bool)> {
    let context = || "cannot run the tests";
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(context)?;
    let stdout = child.stdout.take().with_context(context)?;
    let stderr = child.stderr.take().with_context(context)?;
    // nextest prints its summary on standard error, cargo on standard output.
    let other = thread::spawn(move || show_and_count(stderr, summary));
    let mut counts = show_and_count(stdout, summary)?;
    let others = other.join().map_err(|_| anyhow::anyhow!("the thread that reads standard error panicked"))??;
    counts.passed += others.passed;
    counts.failed += others.failed;
    Ok((counts, child.wait()?.success()))
}

fn show_and_count(pipe: impl Read, summary: &str) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut pipe = BufReader::new(pipe);
    let mut bytes = Vec::new();
    // Tests may print anything, so this does not insist on UTF-8.
    while pipe.read_until(b'\n', &mut bytes).context("cannot read what the tests print")? > 0 {
        let line = String::from_utf8_lossy(&bytes);
        eprint!("{line}");
        if let Some(more) = counts_in(&line, summary) {
            counts.passed += more.passed;
            counts.failed += more.failed;
        }
        bytes.clear();
    }
    Ok(counts)
}

/// What a line of a summary says:
/// `     Summary [   0.1s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 0 skipped` (nextest) or
/// `test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out` (cargo). nextest also shows what failed tests
/// printed, cargo's summaries among it, so only the runner's own form counts.
fn counts_in(line: &str, summary: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix(summary)?;
    let mut counts = Counts::default();
    let words: Vec<&str> = rest.split([' ', ',', ';', '(', ')', ':']).filter(|word| !word.is_empty()).collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[0].parse::<u64>() else { continue };
        match pair[1] {
            "passed" => counts.passed += number,
            // "timed out" and "exec failed" are counted apart from "failed" by nextest.
            "failed" | "timed" | "exec" => counts.failed += number,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_of_both_runners_are_understood() {
        let counts = |passed, failed| Some(Counts { passed, failed });
        assert_eq!(
            counts_in("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", CARGO),
            counts(3, 0)
        );
        assert_eq!(counts_in("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured\n", CARGO), counts(3, 2));
        assert_eq!(counts_in("     Summary [   0.012s] 1 test run: 1 passed, 0 skipped\n", NEXTEST), counts(1, 0));
        let mixed = "     Summary [  61.2s] 14 tests run: 10 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 1 exec failed, 5 skipped";
        assert_eq!(counts_in(mixed, NEXTEST), counts(10, 4));
        assert_eq!(counts_in("    test result: FAILED. 0 passed; 1 failed", NEXTEST), None);
        assert_eq!(counts_in("3 passed yesterday", CARGO), None);
    }
}
