//! `keyfold state set` and `keyfold state rm`: one key's state, changed by hand.

use super::identity;
use anyhow::{Context, Result, bail, ensure};
use keyfold::imports;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Set the state of one key, without calling the rule
///
/// It takes effect with the next batch, in `keyfold run`, and at once when the rule runs. Like every edit it is planned as events are, so
/// it happens exactly once, and it is on record: see `keyfold state edits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  keyfold state set state u012345 '{\"count\":3}' --reason 'counted twice by mistake'
  keyfold state set state u012345 '{\"count\":3}' --timeout event-time=1767571200000
  keyfold state set state '[\"acme\",42]' 7 --timeout none")]
pub struct SetArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The key; a composite one as a JSON array
    #[arg(value_name = "KEY")]
    key: String,

    /// The state as JSON; with --hex its bytes
    #[arg(value_name = "STATE", allow_hyphen_values = true)]
    state: String,

    /// STATE is bytes in hexadecimal, for states that only the rule understands
    #[arg(long)]
    hex: bool,

    /// The number of the state's schema [default: the one that the rule writes]
    #[arg(long, value_name = "N")]
    schema: Option<u32>,

    /// keep, none, event-time=MS or processing-time=MS
    #[arg(long, value_name = "TIMEOUT", default_value = "keep")]
    timeout: String,

    /// Why, for `keyfold state edits`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Remove the state and timeout of keys, without calling the rule
///
/// It takes effect with the next batch, and is on record: see `keyfold state edits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state rm state u012345 u012346 --reason 'asked to be forgotten'")]
pub struct RmArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The keys; composite ones as JSON arrays
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    /// Why, for `keyfold state edits`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Sets a state.
pub fn set(args: &SetArgs) -> Result<()> {
    identity(&args.data)?;
    let mut row = json!({ "key": args.key });
    if args.hex {
        row["value_hex"] = args.state.as_str().into();
    } else {
        let state = serde_json::from_str::<Value>(&args.state);
        row["value"] = state.with_context(|| format!("the state {} is not JSON: put texts in quotes", args.state))?;
        ensure!(!row["value"].is_null(), "null is no state: remove the key with `keyfold state rm`");
    }
    if let Some(schema) = args.schema {
        row["schema"] = schema.into();
    }
    match args.timeout.as_str() {
        "keep" => row["keep_timeout"] = true.into(),
        "none" => {}
        timeout => {
            let parts = timeout.split_once('=').and_then(|(clock, ms)| Some((clock, ms.parse::<i64>().ok()?)));
            let Some((clock @ ("event-time" | "processing-time"), ms)) = parts else {
                bail!("--timeout is '{timeout}': keep, none, event-time=MS and processing-time=MS are possible");
            };
            row["timeout"] = json!({ "clock": clock, "ms": ms });
        }
    }
    imports::set(&args.data, &row.to_string(), args.reason.as_deref())?;
    anstream::eprintln!("the state of {} is set with the next batch", args.key);
    Ok(())
}

/// Removes keys.
pub fn rm(args: &RmArgs) -> Result<()> {
    identity(&args.data)?;
    imports::remove(&args.data, args.keys.iter().map(String::as_str), args.reason.as_deref())?;
    anstream::eprintln!("{} keys are removed with the next batch", args.keys.len());
    Ok(())
}
