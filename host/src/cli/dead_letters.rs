//! `keyfold dead-letters`: what could not be handled, and why.

use super::client::ConnectArgs;
use super::client::letters::{What, letters};
use anyhow::{Context, Result, ensure};
use keyfold::event::PartitionId;
use keyfold::imports::{self, LetterId, RedrivenEvent};
use keyfold::plan::Identity;
use keyfold::service::model::LetterFilter;
use keyfold::state::reader::PartitionReader;
use keyfold::state::{KeptLetter, PlanLog, RefusedOutput};
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// List groups that failed, records that could not be read and outputs that were refused, one line of JSON for each; or let the
/// events of groups that failed run again
///
/// Of a data folder on this machine, or with --server of a rule on a server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold dead-letters state | jq -r .reason | sort | uniq -c
  keyfold dead-letters state --key u012345
  keyfold dead-letters state --re-drive --reason trap --why 'mended in 1.1'
  keyfold dead-letters fraud-session --server
  keyfold dead-letters fraud-session --server --purge --reason trap")]
pub struct DeadLettersArgs {
    /// The data folder; with --server the name of a rule
    #[arg(value_name = "DATA|RULE")]
    data: PathBuf,

    /// Of a rule on the server of `keyfold login`
    #[arg(long)]
    server: bool,

    /// Only with this reason
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,

    /// Only of this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Also those whose events ran again since; with --server and --re-drive or --purge: whatever their reason and key
    #[arg(long)]
    all: bool,

    /// Let their events run again with the next batch, each with its own event time, and never late
    #[arg(long)]
    re_drive: bool,

    /// Delete them
    #[arg(long, requires = "server", conflicts_with = "re_drive")]
    purge: bool,

    /// Why they run again, for `keyfold state edits`
    #[arg(long, value_name = "TEXT", requires = "re_drive", conflicts_with = "server")]
    why: Option<String>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// The reason of an output that the sink refused.
const OUTPUT_REFUSED: &str = "output-refused";

/// Lists the dead letters, or lets them run again.
pub fn dead_letters(args: &DeadLettersArgs) -> Result<()> {
    if args.server {
        return of_server(args);
    }
    ensure!(!(args.all && args.re_drive), "--all is for listing: events that ran again do not run once more");
    let is_asked_for = |kept: &KeptLetter| {
        let letter = &kept.letter;
        args.reason.as_ref().is_none_or(|reason| *reason == letter.reason)
            && args.key.as_ref().is_none_or(|key| letter.key.as_ref() == Some(key))
            && (args.all || kept.re_driven.is_none())
    };
    if args.re_drive {
        return re_drive(args, is_asked_for);
    }
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    let identity = identity(&args.data)?;
    each(&args.data, &identity, |partition, kept| {
        if is_asked_for(&kept) {
            writeln!(stdout, "{}", line(&identity, partition, &kept)?)?;
        }
        Ok(())
    })?;
    // What was put out has a key only if the rule says so in it.
    if args.key.is_none() && args.reason.as_ref().is_none_or(|reason| reason == OUTPUT_REFUSED) {
        PlanLog::refused_outputs(&args.data, |refused| Ok(writeln!(stdout, "{}", line_of_refused(refused))?))?;
    }
    Ok(stdout.flush()?)
}

/// Prints the first dead letters of a folder that is about to be thrown away.
pub fn print_first(folder: &Path, most: usize) -> Result<()> {
    let mut left = most;
    let identity = identity(folder)?;
    each(folder, &identity, |partition, kept| {
        if left > 0 {
            left -= 1;
            anstream::eprintln!("{}", line(&identity, partition, &kept)?);
        }
        Ok(())
    })?;
    PlanLog::refused_outputs(folder, |refused| {
        if left > 0 {
            left -= 1;
            anstream::eprintln!("{}", line_of_refused(refused));
        }
        Ok(())
    })
}

fn of_server(args: &DeadLettersArgs) -> Result<()> {
    let rule = args.data.to_str().context("a rule's name is text")?;
    let what = match (args.re_drive, args.purge) {
        (true, _) => What::ReDrive,
        (_, true) => What::Purge,
        _ => What::List,
    };
    let filter = LetterFilter { reason: args.reason.clone(), key: args.key.clone(), all: args.all };
    letters(&args.connect.connect()?, args.connect.json, rule, what, filter)
}

fn re_drive(args: &DeadLettersArgs, is_asked_for: impl Fn(&KeptLetter) -> bool) -> Result<()> {
    let mut events = Vec::new();
    let (mut letters, mut without_events) = (0_u64, 0_u64);
    each(&args.data, &identity(&args.data)?, |partition, kept| {
        if !is_asked_for(&kept) {
            return Ok(());
        }
        letters += 1;
        let letter = LetterId { partition, batch: kept.batch, number: kept.number };
        let before = events.len();
        // What has no input is an imported state: it is put right in the file, and imported again.
        events.extend(kept.letter.events.into_iter().filter_map(|event| {
            Some(RedrivenEvent { text: event.text, input: event.input?, file: event.file, line: event.line, letter })
        }));
        without_events += u64::from(events.len() == before);
        Ok(())
    })?;
    let driven = imports::re_drive(&args.data, &events, args.why.as_deref())?;
    anstream::eprintln!(
        "{letters} dead letters with {} events: {driven} events run again with the next batch",
        events.len()
    );
    let waiting = events.len() as u64 - driven;
    if waiting > 0 {
        anstream::eprintln!("{waiting} events were sent before, and wait for the next batch already");
    }
    if without_events > 0 {
        anstream::eprintln!(
            "{without_events} letters have no events that could run again: timeouts, or imported states"
        );
    }
    Ok(())
}

fn identity(folder: &Path) -> Result<Identity> {
    PlanLog::identity(folder)?.with_context(|| format!("{} is not the data folder of a rule", folder.display()))
}

fn each(folder: &Path, identity: &Identity, mut each: impl FnMut(PartitionId, KeptLetter) -> Result<()>) -> Result<()> {
    for partition in (0..identity.partitions).map(PartitionId) {
        PartitionReader::open(folder, partition)?.kept_letters(|kept| each(partition, kept))?;
    }
    Ok(())
}

fn line(identity: &Identity, partition: PartitionId, kept: &KeptLetter) -> Result<Value> {
    let mut line = serde_json::to_value(&kept.letter)?;
    for event in line["events"].as_array_mut().into_iter().flatten() {
        let Some(event) = event.as_object_mut() else { continue };
        // By its name, and for a rule with one input not at all: nobody has named that.
        let number = event.shift_remove("input").and_then(|input| input.as_u64());
        let input = number.and_then(|number| identity.inputs.get(number as usize));
        if let Some(input) = input.filter(|_| identity.inputs.len() > 1) {
            event.insert("input".to_owned(), input.name.as_str().into());
        }
    }
    line["partition"] = partition.0.into();
    line["batch"] = kept.batch.0.into();
    if let Some(batch) = kept.re_driven {
        line["re_driven"] = batch.0.into();
    }
    Ok(line)
}

/// With the members that every letter has, so that they can be read by one program.
fn line_of_refused(refused: RefusedOutput) -> Value {
    let RefusedOutput { batch, partition, number, output, message } = refused;
    serde_json::json!({
        "reason": OUTPUT_REFUSED,
        "message": message,
        "timed_out": false,
        "events": [],
        "output": serde_json::from_str(&output).unwrap_or(Value::String(output)),
        "number": number,
        "partition": partition.0,
        "batch": batch.0,
    })
}
