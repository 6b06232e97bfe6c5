//! [`Machine`]: where and with what was measured.

use super::figures::median;
use crate::step;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where and with what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The model of the processors.
    pub processor: String,
    /// How many the programs may use.
    pub cores: usize,
    /// In GiB.
    pub memory_gib: u64,
    /// The operating system's version.
    pub kernel: String,
    /// The compiler of Keyfold and of the native limit.
    pub rustc: String,
    /// What runs Spark and Flink; absent when there is none.
    pub java: Option<String>,
    /// Its version.
    pub keyfold: String,
    /// The commit that it was built from; absent outside of a checkout.
    pub commit: Option<String>,
}

impl Machine {
    /// This one.
    pub fn read(workspace: &Workspace, keyfold: &Path) -> Result<Self> {
        let first_line = |command: &mut Command| Some(step::output(command).ok()?.lines().next()?.trim().to_owned());
        let field = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kibibytes =
            field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix("kB")?.trim().parse().ok());
        let version = first_line(Command::new(keyfold).arg("--version"));
        let mut describe = workspace.command("git");
        describe.args(["describe", "--always", "--dirty", "--exclude", "*"]);
        Ok(Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (kibibytes.unwrap_or(0u64) + (1 << 19)) >> 20,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            rustc: first_line(workspace.command("rustc").arg("--version"))
                .context("rustc does not tell its version")?,
            java: first_line(Command::new("java").arg("--version")),
            keyfold: version.with_context(|| format!("{} does not tell its version", keyfold.display()))?,
            commit: first_line(&mut describe),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, memory_gib, kernel, rustc, keyfold, .. } = self;
        write!(formatter, "{cores} cores ({processor}), {memory_gib} GiB, Linux {kernel}; {rustc}; {keyfold}")?;
        if let Some(commit) = &self.commit {
            write!(formatter, " ({commit})")?;
        }
        match &self.java {
            Some(java) => write!(formatter, "; {java}"),
            None => write!(formatter, "; no Java"),
        }
    }
}

/// What a sync costs on the disk of a folder: the median of 4 KiB appended and synced by `fdatasync`, in milliseconds.
pub fn fdatasync_ms(folder: &Path) -> Result<f64> {
    const SYNCS: usize = 100;
    let path = folder.join("synced");
    let context = || format!("cannot write {}", path.display());
    let mut file = File::create(&path).with_context(context)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).with_context(context)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    median(times).context("nothing was synced")
}
