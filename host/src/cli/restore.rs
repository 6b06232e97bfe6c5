//! `keyfold restore`: a data folder from a checkpoint.

use super::bytes_bar::BytesBar;
use super::style;
use super::table::{or_none, table};
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use keyfold::checkpoint::CheckpointStore;
use keyfold::checkpoint::fault::Fault;
use keyfold::checkpoint::restore::{Options, Restored, restore as restore_folder};
use keyfold::clock::Stopwatch;
use keyfold::event::BatchId;
use std::path::{Path, PathBuf};

/// Make a data folder from a checkpoint
///
/// The next `keyfold run` goes on from there, on this machine or another. What is damaged in the checkpoint is named; as far as
/// possible an older part of it is used, and the run gets the rest from the input.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// Where the checkpoint is: s3://BUCKET/PATH, or a folder
    #[arg(value_name = "URL")]
    url: String,

    /// The data folder to make
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// The state after this batch; the run then does again what came after it, and gives the same [default: the newest]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,

    /// Forget what came after the batch: a new history begins there, which may go another way
    #[arg(long)]
    fork: bool,

    /// Print what was restored as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  keyfold restore s3://backups/sessions --data state
  keyfold restore s3://backups/sessions --data trial --batch 41 --fork

Keys and region for S3 come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION; AWS_ENDPOINT for servers
other than Amazon's, with AWS_ALLOW_HTTP=true when they are reached without TLS.";

/// Makes the folder.
pub fn restore(args: &RestoreArgs) -> Result<()> {
    let store = CheckpointStore::open_to_read(&args.url)?;
    let options = Options { batch: args.batch.map(BatchId), fork: args.fork, ..Options::default() };
    let started = Stopwatch::start();
    let restored = {
        let mut bar = BytesBar::new("restoring", !args.json);
        restore_folder(&store, &args.data, options, &mut bar)?
    };
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut line = serde_json::to_value(&restored)?;
        line["seconds"] = seconds.into();
        anstream::println!("{line}");
    } else {
        tell(&restored, &args.data, args.fork, seconds);
    }
    Ok(())
}

fn tell(restored: &Restored, folder: &Path, is_fork: bool, seconds: f64) {
    let keys = restored.partitions.iter().map(|done| done.keys).sum();
    anstream::eprintln!(
        "{} {} with {} keys after batch {}, from {}; {seconds:.1} s",
        style::good("restored:"),
        style::strong(&restored.rule),
        HumanCount(keys),
        or_none(restored.batch),
        HumanBytes(restored.bytes)
    );
    let row = |done: &keyfold::checkpoint::restore::PartitionRestored| {
        [
            done.partition.to_string(),
            or_none(done.snapshot),
            or_none(done.batch),
            done.keys.to_string(),
            done.dead_letters.to_string(),
            done.undelivered_outputs.to_string(),
        ]
    };
    let rows: Vec<_> = restored.partitions.iter().map(row).collect();
    let heads = ["partition", "snapshot", "batch", "keys", "dead letters", "undelivered"];
    table(heads, &rows).into_iter().for_each(|line| anstream::eprintln!("{line}"));
    tell_faults(&restored.faults);
    if let Some((first, last)) = restored.to_run_again {
        anstream::eprintln!(
            "the next run reads batches {first} to {last} from the input once more, and does them as before"
        );
    }
    if let Some(first) = restored.plans_left_out.first() {
        anstream::eprintln!(
            "{} batches from {first} on cannot be done as before, because a plan is damaged or they read standard input; \
             their events are planned anew, and their outputs may be delivered twice",
            style::error("left out:")
        );
    }
    anstream::eprintln!("go on with: keyfold run RULE --input PATH --data {}", folder.display());
    anstream::eprintln!(
        "{}",
        match is_fork {
            true => "this is a new history: give it an output folder of its own, and another URL for its checkpoint",
            false =>
                "to go on with the checkpoint as well, when its host has stopped for good, add: --checkpoint URL --take-over",
        }
    );
}

/// Names what is damaged or missing.
pub fn tell_faults(faults: &[Fault]) {
    if !faults.is_empty() {
        anstream::eprintln!("{}", style::error("damaged or missing:"));
        faults.iter().for_each(|fault| anstream::eprintln!("  {fault}"));
    }
}
