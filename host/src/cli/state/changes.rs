//! `keyfold state changes`: what each batch wrote, Spark's change feed.

use anyhow::{Result, ensure};
use keyfold::event::BatchId;
use keyfold::inspection::{StateDecoder, change_to_json};
use keyfold::state::folder_reader::FolderReader;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// List what batches changed, one line of JSON for each key and batch
///
/// Batch after batch, within a batch partition after partition. The change is an update, or a delete with no value.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state changes state --from 41 --to 41
  keyfold state changes state --from 41 | jq 'select(.change_type == \"delete\") | .key'")]
pub struct ChangesArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The first batch
    #[arg(long, value_name = "N")]
    from: u64,

    /// The last batch, which is listed, too [default: the last one there is]
    #[arg(long, value_name = "N")]
    to: Option<u64>,

    /// Only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
}

/// Lists the changes.
pub fn changes(args: &ChangesArgs) -> Result<()> {
    let partitions = super::partitions(&args.data, args.partition)?;
    let decoder = StateDecoder::of_folder(&args.data)?;
    let reader = FolderReader::open(&args.data, partitions)?;
    let from = BatchId(args.from);
    reader.check(from)?;
    let last = reader.readable().map_or(from, |batches| *batches.end());
    let to = args.to.map_or(last, BatchId);
    ensure!(from <= to, "there are no batches from {from} to {to}: --to must not lie before --from");
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    reader.changes(from..=to, |batch, partition, row| {
        writeln!(stdout, "{}", change_to_json(batch, &row, &decoder, partition))?;
        Ok(())
    })?;
    Ok(stdout.flush()?)
}
