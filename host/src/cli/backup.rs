//! `keyfold backup`: a copy of a data folder, also while a host runs.

use super::bytes_bar::BytesBar;
use super::style;
use anyhow::Result;
use indicatif::HumanBytes;
use keyfold::checkpoint::restore::RestoreObserver;
use keyfold::clock::Stopwatch;
use std::path::PathBuf;

/// Copy a data folder, also while a host runs
///
/// The copy is what the folder would be after a crash at this moment: a run with it goes on from there. Give that run a copy of
/// the output folder, too, or a new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold backup state backup/2026-01-05")]
pub struct BackupArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The folder to make
    #[arg(value_name = "TO")]
    to: PathBuf,

    /// Print what was copied as JSON
    #[arg(long)]
    json: bool,
}

/// Copies the folder.
pub fn backup(args: &BackupArgs) -> Result<()> {
    let started = Stopwatch::start();
    let copied = {
        let mut bar = BytesBar::new("copying", !args.json);
        keyfold::backup::backup(&args.data, &args.to, |bytes, total| bar.read(bytes, total))?
    };
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut line = serde_json::to_value(&copied)?;
        line["seconds"] = seconds.into();
        anstream::println!("{line}");
        return Ok(());
    }
    let batch = copied.committed.iter().min().copied().flatten();
    anstream::eprintln!(
        "{} {} as of batch {} to {}, {} of state and {} other files; {seconds:.1} s",
        style::good("copied:"),
        style::strong(&copied.rule),
        super::table::or_none(batch),
        args.to.display(),
        HumanBytes(copied.state_bytes),
        copied.other_files
    );
    Ok(())
}
