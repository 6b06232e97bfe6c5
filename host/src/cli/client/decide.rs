//! `keyfold decide`: what a rule says to one event.

use super::connection::ConnectArgs;
use super::shown;
use anyhow::{Context, Result};
use keyfold::service::model::Decision;
use reqwest::Method;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Put one event through a rule and print what it says to it, as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  echo '{\"user_id\":\"ada\",\"ts\":1767607200000,\"amount_minor\":1200}' | keyfold decide fraud-session
  keyfold decide fraud-session payment.json | jq '.outputs[]'")]
pub struct DecideArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    /// A file with the event, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    event: PathBuf,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Asks for a decision.
pub fn decide(args: &DecideArgs) -> Result<()> {
    let connection = args.connect.connect()?;
    let mut event = Vec::new();
    if args.event == Path::new("-") {
        std::io::stdin().read_to_end(&mut event).context("no event could be read from standard input")?;
    } else {
        event = std::fs::read(&args.event).with_context(|| format!("cannot read {}", args.event.display()))?;
    }
    let request = connection.request(Method::POST, ["rules", &args.rule, "decide"]);
    let decision: Decision = request.body("application/json", event).answer()?;
    shown::one(args.connect.json, &decision)
}
