//! `keyfold state`: the state of a rule, read from its files, under the names of Spark's state readers.

mod changes;
mod edits;
mod export;
mod import;
mod metadata;
mod set;

use anyhow::{Context, Result, bail, ensure};
use keyfold::event::{BatchId, KeyGroup};
use keyfold::inspection::{StateDecoder, row_to_json};
use keyfold::plan::Identity;
use keyfold::state::PlanLog;
use keyfold::state::folder_reader::FolderReader;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Look into the state of a rule, and change it
#[derive(Debug, clap::Subcommand)]
pub enum StateCommand {
    Ls(LsArgs),
    Get(GetArgs),
    Changes(changes::ChangesArgs),
    Metadata(metadata::MetadataArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Set(set::SetArgs),
    Rm(set::RmArgs),
    Edits(edits::EditsArgs),
}

/// List the keys with their state and timeout, one line of JSON for each
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state ls state | jq 'select(.value.stage == \"flagged\") | .key'
  diff <(keyfold state ls state --batch 41) <(keyfold state ls state --batch 42)")]
pub struct LsArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The state as it was after this batch [default: the last one]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,

    /// Only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,

    /// At most so many keys
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Print the state and timeout of one key as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state get state u012345
  keyfold state get state u012345 --batch 41
  keyfold state get state '[\"acme\",42]'")]
pub struct GetArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The key; a composite one as a JSON array
    #[arg(value_name = "KEY")]
    key: String,

    /// The state as it was after this batch [default: the last one]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
}

pub const EXAMPLES: &str = "\
Examples:
  keyfold state ls state --limit 10
  keyfold state get state u012345 --batch 41
  keyfold state changes state --from 41
  keyfold state metadata state
  keyfold state export state --output states.jsonl
  keyfold state import state states.jsonl
  keyfold state set state u012345 '{\"count\":3}' --reason 'counted twice by mistake'
  keyfold state rm state u012345
  keyfold state edits state";

/// Looks into the state.
pub fn state(command: &StateCommand) -> Result<()> {
    match command {
        StateCommand::Ls(args) => ls(args),
        StateCommand::Get(args) => get(args),
        StateCommand::Changes(args) => changes::changes(args),
        StateCommand::Metadata(args) => metadata::metadata(args),
        StateCommand::Export(args) => export::export(args),
        StateCommand::Import(args) => import::import(args),
        StateCommand::Set(args) => set::set(args),
        StateCommand::Rm(args) => set::rm(args),
        StateCommand::Edits(args) => edits::edits(args),
    }
}

fn ls(args: &LsArgs) -> Result<()> {
    let partitions = partitions(&args.data, args.partition)?;
    let decoder = StateDecoder::of_folder(&args.data)?;
    let reader = FolderReader::open(&args.data, partitions)?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    let print = |partition, row| {
        if left > 0 {
            left -= 1;
            writeln!(stdout, "{}", row_to_json(&row, &decoder, Some(partition)))?;
        }
        Ok(())
    };
    match args.batch {
        Some(batch) => reader.scan_at(BatchId(batch), print)?,
        None => reader.scan(print)?,
    }
    Ok(stdout.flush()?)
}

fn get(args: &GetArgs) -> Result<()> {
    let key = args.key.as_bytes();
    let partition = KeyGroup::of(key).partition(identity(&args.data)?.partitions);
    let decoder = StateDecoder::of_folder(&args.data)?;
    let reader = FolderReader::open(&args.data, partition.0..partition.0 + 1)?;
    let found = match args.batch {
        Some(batch) => reader.get_at(BatchId(batch), key)?,
        None => reader.get(key)?,
    };
    match (found, args.batch) {
        (Some(row), _) => {
            anstream::println!("{}", row_to_json(&row, &decoder, Some(partition)));
            Ok(())
        }
        (None, None) => bail!("the key {} has no state", args.key),
        (None, Some(batch)) => bail!("the key {} had no state after batch {batch}", args.key),
    }
}

/// The partition that was asked for, or all.
fn partitions(data: &Path, asked: Option<u32>) -> Result<Range<u32>> {
    let all = identity(data)?.partitions;
    let Some(partition) = asked else { return Ok(0..all) };
    ensure!(partition < all, "there is no partition {partition}: the rule has {all}");
    Ok(partition..partition + 1)
}

fn identity(data: &Path) -> Result<Identity> {
    PlanLog::identity(data)?.with_context(|| format!("{} is not the data folder of a rule", data.display()))
}
