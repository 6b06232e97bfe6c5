//! `keyfold checkpoint`: what a checkpoint has.

use super::restore::tell_faults;
use super::style;
use super::table::{or_none, table};
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use keyfold::checkpoint::CheckpointStore;
use keyfold::checkpoint::summary::{PartitionSummary, Summary};
use keyfold::clock::Clock;
use std::io::Write;
use std::time::Duration;

/// Look into a checkpoint
#[derive(Debug, clap::Subcommand)]
pub enum CheckpointCommand {
    Ls(LsArgs),
}

/// Show the batches, snapshots and epochs of a checkpoint, their sizes and ages, and how far it is behind
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold checkpoint ls s3://backups/sessions --json | jq .lagBatches")]
pub struct LsArgs {
    /// Where the checkpoint is: s3://BUCKET/PATH, or a folder
    #[arg(value_name = "URL")]
    url: String,

    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub const EXAMPLES: &str = "Examples:\n  keyfold checkpoint ls s3://backups/sessions";

/// Looks into a checkpoint.
pub fn checkpoint(command: &CheckpointCommand) -> Result<()> {
    let CheckpointCommand::Ls(args) = command;
    let store = CheckpointStore::open_to_read(&args.url)?;
    let summary = Summary::read(&store, &Clock::System)?;
    let mut stdout = anstream::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string(&summary)?)?;
        return Ok(());
    }
    let range = |ends: Option<(keyfold::event::BatchId, keyfold::event::BatchId)>| match ends {
        None => "none".to_owned(),
        Some((first, last)) => format!("{first} to {last}"),
    };
    writeln!(stdout, "{} {}", style::strong(&summary.rule), style::faint(&summary.id))?;
    writeln!(stdout, "{} objects, {}", HumanCount(summary.objects), HumanBytes(summary.bytes))?;
    let age = summary.committed_age_ms.map_or_else(String::new, |age| format!(", the last of {}", ago(age)));
    writeln!(stdout, "commits: {}{age}; delivered: {}", range(summary.committed), or_none(summary.delivered))?;
    writeln!(stdout, "plans: {}; {} not committed", range(summary.planned), summary.lag_batches)?;
    let rows: Vec<_> = summary.partitions.iter().map(row).collect();
    let heads = ["partition", "keys", "snapshots", "newest", "size", "age", "deltas", "size"];
    table(heads, &rows).into_iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
    for epoch in &summary.epochs {
        writeln!(stdout, "epoch {}: {}, {} on {}", epoch.epoch, epoch.time, epoch.folder, epoch.machine)?;
    }
    tell_faults(&summary.faults);
    Ok(())
}

fn row(partition: &PartitionSummary) -> [String; 8] {
    let newest = partition.snapshots.last();
    [
        partition.partition.to_string(),
        or_none(partition.keys),
        partition.snapshots.len().to_string(),
        or_none(newest.map(|newest| newest.batch)),
        or_none(newest.map(|newest| HumanBytes(newest.bytes))),
        newest.map_or_else(|| "-".to_owned(), |newest| ago(newest.age_ms)),
        partition.deltas.to_string(),
        HumanBytes(partition.delta_bytes).to_string(),
    ]
}

/// An age for people.
pub fn ago(ms: i64) -> String {
    // The clock of the store may be ahead of ours.
    format!("{} ago", HumanDuration(Duration::from_millis(ms.max(0) as u64)))
}
