//! `keyfold state import`: states that a rule did not write itself.

use super::identity;
use anyhow::Result;
use keyfold::imports;
use std::path::PathBuf;

/// Put states into a data folder: each replaces the one that its key has
///
/// The rule takes them in its next batch, in `keyfold run`, and at once when it runs. It is called once for each key, with the state
/// and the events that the key has in that batch, as Spark calls it for an initial state. A file that is not right is
/// refused as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file has a line of JSON for each key, as `keyfold state ls` prints them:
  {\"key\": \"u012345\", \"value\": {\"count\": 3}}
  {\"key\": [\"acme\", 42], \"value\": 7, \"timeout\": {\"clock\": \"event-time\", \"ms\": 1767571200000}}

Examples:
  keyfold state import state states.jsonl
  keyfold state export old --output states.jsonl && keyfold state import other states.jsonl --as-is")]
pub struct ImportArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The file of states
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Put states and timeouts as they are, without calling the rule
    #[arg(long)]
    as_is: bool,

    /// Why, for `keyfold state edits`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Puts them in.
pub fn import(args: &ImportArgs) -> Result<()> {
    identity(&args.data)?;
    let rows = imports::add(&args.data, &args.file, args.as_is, args.reason.as_deref())?;
    anstream::eprintln!("{rows} states are checked and kept: the rule takes them in its next batch");
    Ok(())
}
