//! What a process has used: processor time, memory, threads, as Linux tells it.

use anyhow::{Context, Result};
use std::fs;

/// Megabytes that a process holds now.
pub fn memory_mb(pid: u32) -> Result<u64> {
    status(pid, "VmRSS:").map(|kb| kb / 1024)
}

/// Megabytes that this process has held at most since it was asked to forget.
pub fn own_peak_mb() -> Result<u64> {
    status(std::process::id(), "VmHWM:").map(|kb| kb / 1024)
}

/// From now on [`own_peak_mb`] counts anew.
pub fn forget_own_peak() -> Result<()> {
    const PEAK: &str = "5";
    fs::write("/proc/self/clear_refs", PEAK).context("cannot forget the peak of memory")
}

/// Threads of a process.
pub fn threads(pid: u32) -> Result<u64> {
    status(pid, "Threads:")
}

/// Seconds of processor time that a process has used.
pub fn cpu(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = text.rsplit_once(')').context("no name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // Linux counts in hundredths of a second on every machine that it runs on today.
    Ok(ticks / 100.0)
}

/// The same of this process.
pub fn own_cpu() -> Result<f64> {
    cpu(std::process::id())
}

/// How busy the machine was in the last minute.
pub fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().context("the load is empty")?.to_owned())
}

fn status(pid: u32, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    Ok(line.split_whitespace().next().context("no number")?.parse()?)
}
