//! `keyfold dead-letters`: what could not be handled, and why.

use anyhow::{Context, Result};
use keyfold::event::PartitionId;
use keyfold::state::reader::PartitionReader;
use keyfold::state::{DeadLetter, PlanLog, RefusedOutput};
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// List groups that failed, records that could not be read and outputs that were refused, one line of JSON for each
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

/// The reason of an output that the sink refused.
const OUTPUT_REFUSED: &str = "output-refused";

/// Lists the dead letters.
pub fn dead_letters(args: &DeadLettersArgs) -> Result<()> {
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    each(&args.data, |letter, line| {
        if args.reason.as_ref().is_none_or(|reason| *reason == letter.reason) {
            writeln!(stdout, "{line}")?;
        }
        Ok(())
    })?;
    Ok(stdout.flush()?)
}

/// Prints the first dead letters of a folder that is about to be thrown away.
pub fn print_first(folder: &Path, most: usize) -> Result<()> {
    let mut left = most;
    each(folder, |_, line| {
        if left > 0 {
            left -= 1;
            anstream::eprintln!("{line}");
        }
        Ok(())
    })
}

fn each(folder: &Path, mut each: impl FnMut(&DeadLetter, Value) -> Result<()>) -> Result<()> {
    let identity =
        PlanLog::identity(folder)?.with_context(|| format!("{} is not the data folder of a rule", folder.display()))?;
    for partition in 0..identity.partitions {
        PartitionReader::open(folder, PartitionId(partition))?.dead_letters(|batch, letter| {
            let mut line = serde_json::to_value(&letter)?;
            line["partition"] = partition.into();
            line["batch"] = batch.0.into();
            each(&letter, line)
        })?;
    }
    PlanLog::refused_outputs(folder, |refused| {
        let RefusedOutput { batch, partition, number, output, message } = refused;
        let letter = DeadLetter {
            reason: OUTPUT_REFUSED.to_owned(),
            message,
            key: None,
            digest: None,
            fuel: None,
            timed_out: false,
            events: Vec::new(),
        };
        let mut line = serde_json::to_value(&letter)?;
        line["output"] = serde_json::from_str(&output).unwrap_or(Value::String(output));
        line["number"] = number.into();
        line["partition"] = partition.0.into();
        line["batch"] = batch.0.into();
        each(&letter, line)
    })
}
