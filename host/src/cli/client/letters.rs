//! Dead letters of a rule on a server: listed, run again, or deleted.

use super::connection::Connection;
use super::shown;
use anyhow::{Result, ensure};
use keyfold::service::model::{LetterFilter, LettersTaken};
use reqwest::Method;
use serde_json::Value;

/// What to do with dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Print them.
    List,
    /// Let their events run again.
    ReDrive,
    /// Delete them.
    Purge,
}

/// Does it.
pub fn letters(connection: &Connection, json: bool, rule: &str, what: What, filter: LetterFilter) -> Result<()> {
    if what == What::List {
        let request = connection.request(Method::GET, ["rules", rule, "dead-letters"]);
        let request = request.query("reason", filter.reason).query("key", filter.key);
        let letters: Vec<Value> = request.query("all", filter.all.then_some(true)).answer()?;
        return letters.iter().try_for_each(shown::line);
    }
    ensure!(
        filter.all || filter.reason.is_some() || filter.key.is_some(),
        "which ones: say --reason, --key, or --all for every one"
    );
    let taken: LettersTaken = if what == What::ReDrive {
        connection.request(Method::POST, ["rules", rule, "dead-letters", "re-drive"]).json(&filter)?.answer()?
    } else {
        let request = connection.request(Method::DELETE, ["rules", rule, "dead-letters"]);
        let request = request.query("reason", filter.reason).query("key", filter.key);
        request.query("all", filter.all.then_some(true)).answer()?
    };
    if json {
        return shown::line(&taken);
    }
    let done = if what == What::ReDrive { "run again with the next batch" } else { "are deleted" };
    shown::print(&format!("{} dead letters with {} events {done}", taken.letters, taken.events))
}
