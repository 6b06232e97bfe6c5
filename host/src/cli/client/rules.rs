//! `keyfold rules`: the rules of a tenant, their versions, and what they do.

use super::activate;
use super::connection::ConnectArgs;
use super::shown;
use crate::cli::table::or_none;
use anyhow::{Result, ensure};
use keyfold::service::model::{ActivationRecord, Rule, RuleState, Version, VersionStatus};
use reqwest::Method;
use serde_json::Value;

pub const EXAMPLES: &str = "Examples:
  keyfold rules ls
  keyfold rules show fraud-session
  keyfold rules versions fraud-session
  keyfold rules activations fraud-session --json | jq -r .to.digest
  keyfold rules pause fraud-session
  keyfold rules state fraud-session --key u000123
  keyfold rules rm fraud-session --drain 30m --yes";

/// What to do with rules.
#[derive(Debug, clap::Subcommand)]
pub enum RulesCommand {
    /// List the rules and what they do now
    #[command(after_help = "Examples:\n  keyfold rules ls --json | jq -r .name")]
    Ls(LsArgs),
    /// Show a rule with its manifest
    #[command(after_help = "Examples:\n  keyfold rules show fraud-session")]
    Show(NameArgs),
    /// List the versions of a rule, and how far their checks are
    #[command(after_help = "Examples:\n  keyfold rules versions fraud-session")]
    Versions(NameArgs),
    /// List what ran when, and who let it
    #[command(after_help = "Examples:\n  keyfold rules activations fraud-session")]
    Activations(NameArgs),
    /// Show what the last batches did, with Spark's field names
    #[command(after_help = "Examples:\n  keyfold rules progress fraud-session | jq .numInputRows")]
    Progress(NameArgs),
    /// Show the state of a key
    #[command(after_help = "Examples:\n  keyfold rules state fraud-session --key u000123")]
    State(StateArgs),
    /// Stop a rule at the end of its batch; it keeps its states and its place
    #[command(after_help = "Examples:\n  keyfold rules pause fraud-session")]
    Pause(NameArgs),
    /// Let a rule go on that was paused or quarantined
    #[command(after_help = "Examples:\n  keyfold rules resume fraud-session")]
    Resume(NameArgs),
    /// Delete a rule with its states
    #[command(after_help = "Examples:\n  keyfold rules rm fraud-session --drain 30m --yes")]
    Rm(RmArgs),
}

#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct StateArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    /// The key
    #[arg(long, value_name = "KEY")]
    key: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: String,

    /// Handle what was sent so far, and let timeouts fire for so long at most, such as 30m [default: delete at once]
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,

    /// That its states may go
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Does it.
pub fn rules(command: &RulesCommand) -> Result<()> {
    match command {
        RulesCommand::Ls(args) => ls(args),
        RulesCommand::Show(NameArgs { rule, connect }) => {
            shown::one(connect.json, &connect.connect()?.get::<Rule>(["rules", rule])?)
        }
        RulesCommand::Versions(args) => versions(args),
        RulesCommand::Activations(args) => activations(args),
        RulesCommand::Progress(NameArgs { rule, connect }) => {
            let batches: Vec<Value> = connect.connect()?.get(["rules", rule, "progress"])?;
            batches.iter().try_for_each(shown::line)
        }
        RulesCommand::State(StateArgs { rule, key, connect }) => {
            let connection = connect.connect()?;
            let row: Value =
                connection.request(Method::GET, ["rules", rule, "state"]).query("key", Some(key)).answer()?;
            shown::one(connect.json, &row)
        }
        RulesCommand::Pause(args) => change(args, "pause"),
        RulesCommand::Resume(args) => change(args, "resume"),
        RulesCommand::Rm(RmArgs { rule, drain, yes, connect }) => {
            ensure!(*yes, "{rule} would go with its states: say --yes");
            let request = connect.connect()?;
            let request = request.request(Method::DELETE, ["rules", rule]).query("drain", drain.as_ref());
            request.done()?;
            let done = if drain.is_some() { "is draining, and then gone" } else { "is deleted" };
            shown::say(connect.json, &format!("{rule} {done}"));
            Ok(())
        }
    }
}

fn ls(LsArgs { connect }: &LsArgs) -> Result<()> {
    let rules: Vec<Rule> = connect.connect()?.get(["rules"])?;
    shown::list(connect.json, &rules, ["rule", "state", "version", "batch", "keys", "lag"], |rule| {
        let Rule { name, status, active, .. } = rule;
        let version = or_none(active.as_ref().map(|active| &active.version));
        let batch = or_none(status.batch.map(|batch| batch.0));
        [name.clone(), state_word(status.state), version, batch, status.keys.to_string(), status.lag.to_string()]
    })
}

fn versions(NameArgs { rule, connect }: &NameArgs) -> Result<()> {
    let versions: Vec<Version> = connect.connect()?.get(["rules", rule, "versions"])?;
    shown::list(connect.json, &versions, ["version", "digest", "status", "bytes", "uploaded", "by"], |version| {
        let Version { version, digest, status, bytes, uploaded, uploaded_by, .. } = version;
        let status = match status {
            VersionStatus::Checking => "checking",
            VersionStatus::Ready => "ready",
            VersionStatus::Refused => "refused",
        };
        let (version, digest) = (version.clone(), shown::short(digest));
        [version, digest, status.to_owned(), bytes.to_string(), uploaded.clone(), uploaded_by.clone()]
    })
}

fn activations(NameArgs { rule, connect }: &NameArgs) -> Result<()> {
    let records: Vec<ActivationRecord> = connect.connect()?.get(["rules", rule, "activations"])?;
    shown::list(connect.json, &records, ["time", "by", "to", "digest", "from", "state", "batch"], |record| {
        let by = record.by.clone().unwrap_or_else(|| "keyfold".to_owned());
        let from = or_none(record.from.as_ref().map(|from| &from.version));
        let batch = or_none(record.batch.map(|batch| batch.0));
        let (to, digest) = (record.to.version.clone(), shown::short(&record.to.digest));
        [record.time.clone(), by, to, digest, from, activate::choice_word(record.state), batch]
    })
}

fn change(NameArgs { rule, connect }: &NameArgs, what: &str) -> Result<()> {
    let changed: Rule = connect.connect()?.request(Method::POST, ["rules", rule, what]).answer()?;
    if connect.json {
        return shown::line(&changed);
    }
    shown::print(&format!("{rule} is {}", state_word(changed.status.state)))
}

fn state_word(state: RuleState) -> String {
    let word = serde_json::to_value(state).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
