//! `keyfold state edits`: who changed states from outside.

use super::identity;
use anyhow::Result;
use keyfold::imports;
use serde_json::Value;
use std::path::PathBuf;

/// List what was put in from outside, one line of JSON for each edit: who, when, why, and the batch that took it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state edits state
  keyfold state edits state | jq 'select(.batch == null)'")]
pub struct EditsArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,
}

/// Lists the edits.
pub fn edits(args: &EditsArgs) -> Result<()> {
    identity(&args.data)?;
    for done in imports::edits(&args.data)? {
        let time = done.edit.as_ref().map(|edit| edit.time.to_string());
        let mut line = serde_json::to_value(&done)?;
        if let Some(time) = time {
            line["time"] = Value::from(time);
        }
        anstream::println!("{line}");
    }
    Ok(())
}
