//! `keyfold activate` and `keyfold rollback`: another version of a rule takes over, at the end of a batch.

use super::connection::ConnectArgs;
use super::shown;
use anyhow::Result;
use keyfold::host::StateChoice;
use keyfold::service::model::{Activate, ActivationRecord, Rollback};
use reqwest::Method;

/// Let a version of a rule run, from its next batch on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold activate fraud-session 1.1.0 --state migrate
  keyfold activate fraud-session 3fa9c1d2 --state keep

What becomes of the states that are there (--state):
  keep      the new version reads them as they are
  migrate   the new version changes each one, when its key is next met and by and by
  fresh     they are forgotten
  drain     the version before goes on with their keys until they are gone")]
pub struct ActivateArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    /// The version: its digest, the beginning of it, or what the component calls its version
    #[arg(value_name = "VERSION")]
    component: String,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Let the version that ran before run again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold rollback fraud-session --state keep
  keyfold rollback fraud-session --state drain --json | jq .batch")]
pub struct RollbackArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// What becomes of states.
#[derive(Debug, clap::Args)]
pub struct StateArgs {
    /// What becomes of the states that are there; must be said when there are some
    #[arg(long, value_name = "CHOICE", value_parser = parse_choice)]
    pub state: Option<StateChoice>,
}

/// Activates a version.
pub fn activate(args: &ActivateArgs) -> Result<()> {
    let body = Activate { version: args.component.clone(), state: args.state.state };
    let request = args.connect.connect()?;
    let record = request.request(Method::POST, ["rules", &args.rule, "activate"]).json(&body)?.answer()?;
    said(args.connect.json, &args.rule, &record)
}

/// Goes back.
pub fn rollback(args: &RollbackArgs) -> Result<()> {
    let body = Rollback { state: args.state.state };
    let connection = args.connect.connect()?;
    let record = connection.request(Method::POST, ["rules", &args.rule, "rollback"]).json(&body)?.answer()?;
    said(args.connect.json, &args.rule, &record)
}

/// Tells what an activation did.
pub fn said(json: bool, rule: &str, record: &ActivationRecord) -> Result<()> {
    if json {
        return shown::line(record);
    }
    let since =
        record.batch.map_or_else(|| "as soon as it runs".to_owned(), |batch| format!("since batch {}", batch.0));
    shown::print(&format!("{rule}: {} {} {since}", record.to.version, shown::short(&record.to.digest)))
}

/// A choice as it is written.
pub fn parse_choice(word: &str) -> Result<StateChoice, String> {
    serde_json::from_value(word.into()).map_err(|_| "a choice is keep, migrate, fresh or drain".to_owned())
}

/// A choice as it is written.
pub fn choice_word(choice: StateChoice) -> String {
    let word = serde_json::to_value(choice).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
