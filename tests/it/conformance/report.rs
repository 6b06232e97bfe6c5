//! [`Report`]: what became of a group's facts, for people who read the test's output and for `cargo xtask`.

use super::fact::Fact;
use crate::support::command::target;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;
use std::fs;

/// What became of a fact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    pub id: String,
    pub says: String,
    pub status: Status,
    /// What Keyfold does instead, or why the fact has no meaning here.
    pub reason: Option<String>,
    /// How many cases were tried: each with every rule, number of partitions and way to run it.
    pub cases: usize,
    /// Whether the host was part of it.
    pub host: bool,
    /// Whether the SDK's test kit was part of it.
    pub kit: bool,
    pub failures: Vec<String>,
}

/// How a fact of Spark stands in Keyfold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Same,
    Differs,
    DoesNotApply,
}

/// An expectation that did not hold.
#[derive(Debug)]
pub struct Failure(String);

impl Report {
    pub fn new(fact: &Fact) -> Self {
        let (status, reason) = match (&fact.does_not_apply, &fact.differs) {
            (Some(reason), _) => (Status::DoesNotApply, Some(reason)),
            (None, Some(reason)) => (Status::Differs, Some(reason)),
            (None, None) => (Status::Same, None),
        };
        Report {
            id: fact.id.clone(),
            says: fact.says.clone(),
            status,
            reason: reason.cloned(),
            cases: 0,
            host: false,
            kit: false,
            failures: Vec::new(),
        }
    }
}

/// Writes a group's reports to `target/conformance/GROUP.json`.
pub fn write(group: &str, reports: &[Report]) {
    let folder = target().join("conformance");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let text = serde_json::to_string_pretty(reports).expect("reports are plain data");
    fs::write(folder.join(format!("{group}.json")), text).expect("the target folder can be written");
}

impl Failure {
    /// Something else was found.
    pub fn found(what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Self {
        let (expected, found) = (format!("{expected}\n"), format!("{found}\n"));
        let diff = TextDiff::from_lines(&expected, &found);
        let lines = diff.iter_all_changes().map(|change| format!("      {}{change}", change.tag()));
        Failure(format!("{what}: (- expected, + found)\n{}", lines.collect::<String>().trim_end()))
    }

    /// A failure unless both are the same.
    pub fn unless_equal(what: &str, expected: &Value, found: &Value) -> Result<(), Self> {
        let is_same = expected == found;
        if is_same { Ok(()) } else { Err(Failure::found(what, lines(expected), lines(found))) }
    }

    /// The failure, with where it happened before it.
    pub fn at(&self, place: &str) -> String {
        format!("{place}: {}", self.0)
    }
}

/// A list line by line, so that a difference shows which of its items differ.
fn lines(value: &Value) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
        None => value.to_string(),
    }
}
