//! `cargo xtask fuzz`: the fuzz targets, with the Rust that builds everything else.
//!
//! The fuzzer needs to see which edges of the code were taken; the flags for that are stable, so no nightly Rust and no further
//! program is installed. What is missing is the address sanitizer: the targets are Rust without `unsafe`.

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Feed the fuzz targets with what the fuzzer finds, and stop at the first crash
#[derive(clap::Args)]
pub struct FuzzArgs {
    /// Only these targets; each is a file in fuzz/fuzz_targets
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// For how long each
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

/// What makes the compiler tell the fuzzer which edges are taken, and every overflow and failed assertion a crash.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=4",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];
/// Bytes of one input at most: what is refused for its size is refused in one line.
const INPUT_BYTES_MAX: u32 = 16 * 1024;
/// A target that thinks this long about one input has crashed, too.
const INPUT_SECONDS_MAX: u32 = 10;

/// Builds the targets and runs each.
pub fn fuzz(workspace: &Workspace, args: &FuzzArgs) -> Result<()> {
    let folder = workspace.root.join("fuzz");
    let known = targets(&folder.join("fuzz_targets"))?;
    for target in &args.targets {
        ensure!(known.contains(target), "there is no fuzz target {target}; there are {}", known.join(", "));
    }
    let target_folder = workspace.target.join("fuzz");
    // Named, so that programs which only run while building are built without the flags.
    let triple = host_triple()?;
    step("Building the fuzz targets (a quarter of an hour the first time: wasmtime is built for the fuzzer)", || {
        step::run(
            Command::new("cargo")
                .current_dir(&folder)
                .args(["build", "--release", "--target", &triple])
                .env("CARGO_TARGET_DIR", &target_folder)
                .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")),
        )
    })?;
    let chosen = if args.targets.is_empty() { &known } else { &args.targets };
    for target in chosen {
        let corpus = target_folder.join("corpus").join(target);
        fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
        step(&format!("Fuzzing {target} for {} s", args.seconds), || {
            step::run(
                Command::new(target_folder.join(&triple).join("release").join(target))
                    .current_dir(&target_folder)
                    .arg(format!("-max_total_time={}", args.seconds))
                    .arg(format!("-max_len={INPUT_BYTES_MAX}"))
                    .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
                    .args(["-print_final_stats=1", "-verbosity=1"])
                    .arg(&corpus),
            )
        })?;
    }
    println!("{} fuzz targets, {} s each: no crash", chosen.len(), args.seconds);
    Ok(())
}

fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|suffix| suffix == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn host_triple() -> Result<String> {
    let text = step::output(Command::new("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}
