//! `keyfold dead-letters`: what could not be handled, and why.

use anyhow::{Context, Result};
use keyfold::event::PartitionId;
use keyfold::state::PlanLog;
use keyfold::state::reader::PartitionReader;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// List groups that failed and records that could not be read, one line of JSON for each
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold dead-letters state | jq -r .reason | sort | uniq -c")]
pub struct DeadLettersArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// Only with this reason
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
}

/// Lists the dead letters.
pub fn dead_letters(args: &DeadLettersArgs) -> Result<()> {
    let identity = PlanLog::identity(&args.data)?
        .with_context(|| format!("{} is not the data folder of a rule", args.data.display()))?;
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    for partition in 0..identity.partitions {
        PartitionReader::open(&args.data, PartitionId(partition))?.dead_letters(|batch, letter| {
            if args.reason.as_ref().is_none_or(|reason| *reason == letter.reason) {
                let mut line = serde_json::to_value(&letter)?;
                line["partition"] = partition.into();
                line["batch"] = batch.0.into();
                writeln!(stdout, "{line}")?;
            }
            Ok(())
        })?;
    }
    Ok(stdout.flush()?)
}
