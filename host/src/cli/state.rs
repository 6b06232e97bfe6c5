//! `keyfold state`: the state of a rule, read from its files.

use anyhow::{Context, Result, bail};
use keyfold::event::{KeyGroup, PartitionId};
use keyfold::inspection::{StateDecoder, row_to_json};
use keyfold::state::PlanLog;
use keyfold::state::reader::PartitionReader;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Look into the state of a rule
#[derive(Debug, clap::Subcommand)]
pub enum StateCommand {
    Ls(LsArgs),
    Get(GetArgs),
}

/// List the keys with their state and timeout, one line of JSON for each
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold state ls state | jq 'select(.value.stage == \"flagged\") | .key'")]
pub struct LsArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// Only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,

    /// At most so many keys
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Print the state and timeout of one key as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold state get state u012345\n  keyfold state get state '[\"acme\",42]'")]
pub struct GetArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The key; a composite one as a JSON array
    #[arg(value_name = "KEY")]
    key: String,
}

pub const EXAMPLES: &str = "\
Examples:
  keyfold state ls state --limit 10
  keyfold state get state u012345";

/// Looks into the state.
pub fn state(command: &StateCommand) -> Result<()> {
    match command {
        StateCommand::Ls(args) => ls(args),
        StateCommand::Get(args) => get(args),
    }
}

fn ls(args: &LsArgs) -> Result<()> {
    let identity = PlanLog::identity(&args.data)?.with_context(|| no_folder(&args.data))?;
    let decoder = StateDecoder::of_folder(&args.data)?;
    let partitions = match args.partition {
        Some(partition) if partition >= identity.partitions => {
            bail!("there is no partition {partition}: the rule has {}", identity.partitions)
        }
        Some(partition) => partition..partition + 1,
        None => 0..identity.partitions,
    };
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    for partition in partitions.map(PartitionId) {
        PartitionReader::open(&args.data, partition)?.scan(|row| {
            if left > 0 {
                left -= 1;
                writeln!(stdout, "{}", row_to_json(&row, &decoder, Some(partition)))?;
            }
            Ok(())
        })?;
    }
    Ok(stdout.flush()?)
}

fn get(args: &GetArgs) -> Result<()> {
    let identity = PlanLog::identity(&args.data)?.with_context(|| no_folder(&args.data))?;
    let decoder = StateDecoder::of_folder(&args.data)?;
    let partition = KeyGroup::of(args.key.as_bytes()).partition(identity.partitions);
    match PartitionReader::open(&args.data, partition)?.get(args.key.as_bytes())? {
        Some(row) => {
            anstream::println!("{}", row_to_json(&row, &decoder, Some(partition)));
            Ok(())
        }
        None => bail!("the key {} has no state", args.key),
    }
}

fn no_folder(folder: &std::path::Path) -> String {
    format!("{} is not the data folder of a rule", folder.display())
}
