//! `keyfold progress`: what the last batches of a rule did.

use super::table::table;
use anyhow::{Context, Result};
use keyfold::state::PlanLog;
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Show what the last hundred batches of a rule did, oldest first
///
/// The rule may be running. A batch appears when the next one is planned, when the host waits for input, or when it ends.
/// After a crash the last batches may be missing until the rule is run again, and then count only what had to be done again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProgressArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// Only the last so many batches
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Print the whole records, one line of JSON for each batch, with Spark's field names
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  keyfold progress state
  keyfold progress state --limit 10
  keyfold progress state --json | jq '{batchId, late: .stateOperators[0].numRowsDroppedByWatermark}'";

/// The columns of the table: each with the place of its value in a record.
const COLUMNS: [(&str, &str); 11] = [
    ("batch", "/batchId"),
    ("time", "/timestamp"),
    ("rows", "/numInputRows"),
    ("outputs", "/sink/numOutputRows"),
    ("keys", "/stateOperators/0/numRowsTotal"),
    ("updated", "/stateOperators/0/numRowsUpdated"),
    ("removed", "/stateOperators/0/numRowsRemoved"),
    ("dropped", "/stateOperators/0/numRowsDroppedByWatermark"),
    ("watermark", "/eventTime/watermark"),
    ("ms", "/batchDuration"),
    ("rows/s", "/processedRowsPerSecond"),
];

/// Shows what the last batches did.
pub fn progress(args: &ProgressArgs) -> Result<()> {
    let mut records = PlanLog::recent_progress(&args.data)?
        .with_context(|| format!("{} is not the data folder of a rule", args.data.display()))?;
    records.drain(..records.len().saturating_sub(args.limit.unwrap_or(usize::MAX)));
    let mut stdout = BufWriter::new(anstream::stdout().lock());
    if args.json {
        records.iter().try_for_each(|record| writeln!(stdout, "{record}"))?;
    } else {
        let rows = records.iter().map(|record| row(record)).collect::<Result<Vec<_>>>()?;
        let heads = COLUMNS.map(|(head, _)| head);
        table(heads, &rows).into_iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
    }
    Ok(stdout.flush()?)
}

fn row(record: &str) -> Result<[String; COLUMNS.len()]> {
    let record: Value = serde_json::from_str(record).context("failed to read the progress of a batch")?;
    Ok(COLUMNS.map(|(_, pointer)| match record.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }))
}
