//! `keyfold audit`: who did what, as the server has it. `verify` asks no server, and is elsewhere.

use super::connection::{ConnectArgs, Connection};
use super::shown;
use crate::cli::audit::{VerifyAuditArgs, verify};
use anyhow::Result;
use keyfold::service::model::AuditEntry;
use reqwest::Method;
use std::collections::VecDeque;

/// Entries that are asked for at once.
const PAGE: u64 = 1000;

pub const EXAMPLES: &str = "Examples:
  keyfold audit ls --limit 20
  keyfold audit export > audit.jsonl
  keyfold audit export --after 1000 | jq -r .action | sort | uniq -c
  keyfold audit verify server";

/// What to do with the audit.
#[derive(Debug, clap::Subcommand)]
pub enum AuditCommand {
    /// List the newest entries
    #[command(after_help = "Examples:\n  keyfold audit ls --limit 20")]
    Ls(LsArgs),
    /// Print all entries, one line of JSON for each
    #[command(after_help = "Examples:\n  keyfold audit export --after 1000 > audit.jsonl")]
    Export(ExportArgs),
    Verify(VerifyAuditArgs),
}

#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// At most so many, the newest ones
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// Only what came after this entry
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Does it.
pub fn audit(command: &AuditCommand) -> Result<()> {
    match command {
        AuditCommand::Ls(args) => ls(args),
        AuditCommand::Export(ExportArgs { after, connect }) => {
            each(&connect.connect()?, *after, |entry| shown::line(&entry))
        }
        AuditCommand::Verify(args) => verify(args),
    }
}

fn ls(LsArgs { limit, connect }: &LsArgs) -> Result<()> {
    let mut newest = VecDeque::new();
    each(&connect.connect()?, 0, |entry| {
        newest.push_back(entry);
        if newest.len() > *limit {
            newest.pop_front();
        }
        Ok(())
    })?;
    let entries: Vec<AuditEntry> = newest.into();
    shown::list(connect.json, &entries, ["seq", "time", "by", "action", "target", "outcome"], |entry| {
        let AuditEntry { seq, time, by, action, target, outcome, .. } = entry;
        [seq.to_string(), time.clone(), by.clone(), action.clone(), target.clone(), outcome.clone()]
    })
}

/// Every entry after this one, in order.
fn each(connection: &Connection, mut after: u64, mut each: impl FnMut(AuditEntry) -> Result<()>) -> Result<()> {
    loop {
        let request = connection.request(Method::GET, ["audit"]).query("after", Some(after));
        let entries: Vec<AuditEntry> = request.query("limit", Some(PAGE)).answer()?;
        match entries.last() {
            Some(last) => after = last.seq,
            None => return Ok(()),
        }
        entries.into_iter().try_for_each(&mut each)?;
    }
}
