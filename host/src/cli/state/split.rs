//! `keyfold state split`: another number of partitions.

use super::identity;
use anyhow::{Result, ensure};
use keyfold::imports;
use keyfold::state::split;
use std::path::PathBuf;

/// Change the number of partitions, to more or to fewer
///
/// The rule must be stopped, and everything that was planned done: run it once before, if it was not stopped in order. A crash
/// leaves the old partitions or the new ones, and the next command goes on. States of batches before the last one can
/// no longer be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state split state --partitions 16
  keyfold run sessions --data state --input data")]
pub struct SplitArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The number of partitions that it shall have
    #[arg(long, value_name = "N")]
    partitions: u32,
}

/// Splits the partitions.
pub fn split(args: &SplitArgs) -> Result<()> {
    // Letters are named by their partition. Those of partitions that go get other names.
    let loses_names = args.partitions < identity(&args.data)?.partitions;
    ensure!(
        !loses_names || !imports::re_drive_waits(&args.data)?,
        "events of dead letters wait to run again: run the rule once more, and split then"
    );
    let split::Split { before, after, rows, batch } = split::split(&args.data, args.partitions)?;
    let history = match batch {
        Some(batch) if batch.0 > 0 => format!("; batches before {batch} can no longer be read"),
        _ => String::new(),
    };
    anstream::eprintln!("{rows} keys of {before} partitions are in {after} partitions now{history}");
    Ok(())
}
