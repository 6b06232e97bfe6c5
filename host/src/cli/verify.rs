//! `keyfold verify`: whether a checkpoint can be relied on.

use super::bytes_bar::BytesBar;
use super::checkpoint::ago;
use super::restore::tell_faults;
use super::style;
use super::table::or_none;
use anyhow::{Context, Result, ensure};
use indicatif::{HumanBytes, HumanCount};
use keyfold::checkpoint::CheckpointStore;
use keyfold::checkpoint::verify::verify as verify_checkpoint;
use keyfold::clock::{Clock, Stopwatch};

/// Check a checkpoint: read every object, and restore all of it for trial
///
/// The folder for temporary files ($TMPDIR) must have room for the state. A host may be running with the checkpoint.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  keyfold verify s3://backups/sessions\n\nExit code 1 when anything is wrong with it."
)]
pub struct VerifyArgs {
    /// Where the checkpoint is: s3://BUCKET/PATH, or a folder
    #[arg(value_name = "URL")]
    url: String,

    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the checkpoint.
pub fn verify(args: &VerifyArgs) -> Result<()> {
    let store = CheckpointStore::open_to_read(&args.url)?;
    let scratch = tempfile::tempdir().context("failed to make a folder to restore to")?;
    let started = Stopwatch::start();
    let found = {
        let mut bar = BytesBar::new("checking", !args.json);
        verify_checkpoint(&store, scratch.path(), &Clock::System, &mut bar)?
    };
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut line = serde_json::to_value(&found)?;
        line["seconds"] = seconds.into();
        anstream::println!("{line}");
    } else {
        tell_faults(&found.faults);
        let keys: Option<u64> = found.restored.as_ref().map(|all| all.partitions.iter().map(|done| done.keys).sum());
        anstream::eprintln!(
            "{} {}: {} objects, {}; batch {} of {}, {} keys, oldest snapshot in use of {}; {seconds:.1} s",
            if found.faults.is_empty() { style::good("whole:") } else { style::error("wrong:") },
            style::strong(&found.rule),
            HumanCount(found.objects),
            HumanBytes(found.bytes),
            or_none(found.batch),
            found.batch_age_ms.map_or_else(|| "-".to_owned(), ago),
            keys.map_or_else(|| "-".to_owned(), |keys| HumanCount(keys).to_string()),
            found.snapshot_age_ms.map_or_else(|| "-".to_owned(), ago),
        );
    }
    let count = found.faults.len();
    ensure!(count == 0, "{count} things are wrong with the checkpoint {}", args.url);
    Ok(())
}
