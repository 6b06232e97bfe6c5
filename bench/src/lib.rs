//! What the measurements share.

pub mod fed;
pub mod latencies;
pub mod one_partition;
pub mod payments;
pub mod process;
pub mod rules;
pub mod states;

use anyhow::{Context, Result};
use std::path::Path;
use tempfile::TempDir;

/// Less of what is measured in a development build, which only shows that a measurement works.
pub const fn scaled(full: usize) -> usize {
    if cfg!(debug_assertions) { full.div_ceil(100) } else { full }
}

/// Where files lie that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// In memory, where a sync costs nothing; on the disk when the machine has no such folder.
    Memory,
    /// On the disk, in the folder for temporary files.
    Disk,
}

impl Medium {
    /// A new folder.
    pub fn folder(self) -> Result<TempDir> {
        let memory = Path::new("/dev/shm");
        match self {
            Medium::Memory if memory.is_dir() => tempfile::tempdir_in(memory),
            _ => tempfile::tempdir(),
        }
        .context("cannot make a folder for what is measured")
    }
}
