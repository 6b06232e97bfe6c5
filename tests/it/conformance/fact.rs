//! [`Fact`]: one sentence about Spark and the cases that show it, as `tests/conformance/README.md` explains them.

use crate::support::command::root;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// The groups, as their files are named, with the letter and the number of their facts.
pub const GROUPS: [(&str, char, usize); 5] = [
    ("object", 'S', 18),
    ("write-back", 'M', 17),
    ("streaming", 'F', 33),
    ("watermark", 'W', 19),
    ("transform", 'T', 44),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "fact")]
    facts: Vec<Fact>,
}

/// One sentence about Spark.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fact {
    pub id: String,
    pub says: String,
    /// What Keyfold does instead, and why. The cases show that then.
    pub differs: Option<String>,
    /// Why the sentence has no meaning here. There are no cases then.
    pub does_not_apply: Option<String>,
    #[serde(rename = "case", default)]
    pub cases: Vec<Case>,
}

/// Something that is done, and what must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Case {
    pub name: Option<String>,
    /// The guests that it is done with, one after another.
    pub rule: OneOrMany<String>,
    #[serde(default)]
    pub parameters: toml::Table,
    /// Numbers of partitions that it is done with, one after another.
    #[serde(default = "partitions")]
    pub partitions: OneOrMany<u32>,
    /// JSON Pointers to the parts of the key.
    pub key: Option<Vec<String>>,
    /// How far the watermark stays behind. It declares an event time.
    pub delay: Option<String>,
    pub inputs: Option<Inputs>,
    pub policy: Option<String>,
    pub batch_events: Option<usize>,
    /// Batches before the last one whose state can be read.
    pub history_batches: Option<u64>,
    #[serde(default)]
    pub batch: bool,
    /// The lines of the initial state.
    pub initial: Option<Vec<toml::Table>>,
    /// The file of the initial state, where it is the file that matters.
    pub initial_file: Option<String>,
    /// Events for a batch query whose outputs are the initial state.
    pub initial_from: Option<Vec<Add>>,
    /// A part of the message with which it is refused before anything runs.
    pub refused: Option<String>,
    #[serde(default)]
    pub steps: Vec<Step>,

    /// The rows that the key may have before the calls, one after another.
    #[serde(default = "no_row")]
    pub prior: OneOrMany<Row>,
    pub now: Option<i64>,
    pub watermark: Option<i64>,
    /// Whether the calls are made because the timeout of the prior row is due.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether the key must be left alone.
    #[serde(default)]
    pub not_called: bool,
    pub calls: Option<Vec<Call>>,
    /// The row after the calls.
    pub leaves: Option<Row>,
    /// Whether only the SDK's test kit can do this. `refused` is the exception then.
    #[serde(default)]
    pub test_kit: bool,
}

impl Case {
    /// Whether it can fail: it has steps that expect something, calls, or a refusal. A restart expects nothing, and takes nothing.
    pub fn expects_something(&self) -> bool {
        let restarts_alone = self.steps.iter().filter(|step| step.restart.is_some()).all(|step| !step.is_a_run());
        let runs = self.steps.iter().any(|step| step.restart.is_none() && step.is_a_run());
        restarts_alone && (runs || self.calls.is_some() || self.not_called || self.refused.is_some())
    }
}

impl Step {
    /// Whether it takes events or expects something.
    fn is_a_run(&self) -> bool {
        let counts = [self.total, self.updated, self.removed, self.dropped, self.batches];
        let lists = [self.add.is_empty(), self.dead_letters.is_empty(), self.state.is_empty(), self.timeout.is_empty()];
        self.gives.is_some()
            || counts.iter().any(Option::is_some)
            || lists.contains(&false)
            || self.watermarks.is_some()
            || self.next_watermark.is_some()
            || self.metadata.is_some()
            || self.read.is_some()
            || !self.event_times.is_empty()
    }
}

/// One or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// The inputs, with the delay of each, or without event times.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Inputs {
    Names(Vec<String>),
    Delays(BTreeMap<String, String>),
}

/// A key's row.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub value: Option<toml::Value>,
    pub timeout: Option<i64>,
}

/// One method of the state, and what must be true after it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub call: String,
    pub with: Option<toml::Value>,
    /// What it gives; absent for nothing.
    pub gives: Option<toml::Value>,
    pub updated: Option<bool>,
    pub removed: Option<bool>,
    /// The timeout that was set so far, or false.
    pub timeout: Option<toml::Value>,
}

/// Events that come together, the run that takes them, and what must come of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    pub restart: Option<Restart>,
    pub now: Option<i64>,
    #[serde(default)]
    pub add: Vec<Add>,

    pub gives: Option<Vec<toml::Value>>,
    pub total: Option<u64>,
    pub updated: Option<u64>,
    pub removed: Option<u64>,
    pub dropped: Option<u64>,
    pub batches: Option<u64>,
    pub watermarks: Option<Vec<String>>,
    pub next_watermark: Option<String>,
    #[serde(default)]
    pub event_times: BTreeMap<String, String>,
    /// Members of what `keyfold state metadata` prints.
    pub metadata: Option<toml::Table>,
    /// What `keyfold state get --batch` prints.
    pub read: Option<Read>,
    #[serde(default)]
    pub state: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pub timeout: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pub dead_letters: Vec<String>,
}

/// The state as it was after a batch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    pub batch: u64,
    #[serde(default)]
    pub state: BTreeMap<String, toml::Value>,
    /// A part of the message with which it is refused.
    pub refused: Option<String>,
}

/// `true`, or what is different after it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Restart {
    Same(#[expect(dead_code, reason = "it is true, or there is no restart")] bool),
    With(Box<RestartWith>),
}

/// What is different after a restart.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartWith {
    pub rule: Option<String>,
    pub parameters: Option<toml::Table>,
    pub policy: Option<String>,
    /// A part of the message with which the restart is refused. The next step starts as before.
    pub refused: Option<String>,
}

/// An event: `key`, `key@time`, `input/key@time`, or a table whose members become the event's.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Add {
    Short(String),
    Long(toml::Table),
}

/// More than one, so that a rule or a host that mixes up neighbours is found out.
fn partitions() -> OneOrMany<u32> {
    OneOrMany::Many(vec![1, 3])
}

fn no_row() -> OneOrMany<Row> {
    OneOrMany::One(Row::default())
}

impl<T> OneOrMany<T> {
    pub fn all(&self) -> &[T] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// The facts of a group.
pub fn read(group: &str) -> Vec<Fact> {
    let path = root().join("tests/conformance").join(format!("{group}.toml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let group: Group = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    group.facts
}

/// A value as JSON. TOML has no null: the text `null` stands for it.
pub fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) if text == "null" => Value::Null,
        toml::Value::Array(items) => items.iter().map(json).collect(),
        toml::Value::Table(members) => table(members),
        other => serde_json::to_value(other).expect("every other value of TOML is one of JSON"),
    }
}

/// A table as JSON.
pub fn table(members: &toml::Table) -> Value {
    members.iter().map(|(name, value)| (name.clone(), json(value))).collect()
}

/// `10s` or `1799999999997ms`, in milliseconds.
pub fn millis(text: &str) -> i64 {
    let (digits, factor) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    digits.parse::<i64>().unwrap_or_else(|error| panic!("'{text}' is not a time: {error}")) * factor
}
