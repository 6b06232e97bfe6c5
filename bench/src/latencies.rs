//! Latencies: percentiles of them, and the disk's own beside which they stand.

use anyhow::Result;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Times of 4 KiB that are appended to a file and synced, sorted.
pub fn syncs(folder: &Path, count: usize) -> Result<Vec<Duration>> {
    let path = folder.join("synced");
    let mut file = std::fs::File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    std::fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times)
}

/// The time below which this share of the sorted times lies.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// In milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A line of a table with percentiles, in milliseconds.
pub fn line(name: &str, sorted: &[Duration]) -> String {
    let ms = |share| format!("{:>9.2}", ms(percentile(sorted, share)));
    format!("{name:<44}{}{}{}", ms(0.5), ms(0.99), ms(0.999))
}

/// The head of that table.
pub fn head(what: &str) -> String {
    format!("{what:<44}{:>9}{:>9}{:>9}", "p50", "p99", "p99.9")
}
