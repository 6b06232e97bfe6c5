//! [`Description`]: what a rule says of itself.

use crate::generation::SCHEMA_NUMBER_END;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Members of an event that a rule may name: looking for more takes longer than handing over the whole event.
pub const EVENT_MEMBERS_MAX: usize = 64;

/// A description document larger than this is refused: parameters with a very large schema stay far below it.
pub const DESCRIPTION_BYTES_MAX: usize = 1024 * 1024;

/// What a rule says of itself; see `describe` in `wit/rule.wit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The rule's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How many outputs a call gives.
    #[serde(default)]
    pub form: Form,
    /// Which timeouts it sets.
    pub timeout: TimeoutKind,
    /// Whether its outputs add to or replace earlier ones.
    #[serde(default)]
    pub output_mode: OutputMode,
    /// The schema number under which it writes states.
    pub state_schema: u32,
    /// The schema numbers that it reads.
    pub readable_schemas: Vec<u32>,
    /// How states are encoded, for inspection.
    pub state_format: StateFormat,
    /// The members of an event that it reads; none when it reads all of them. Others need not reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_members: Option<Vec<String>>,
    /// The JSON Schema of its parameters.
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// The SDK that built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
}

/// Spark's two forms of a stateful function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Any number of outputs: `flatMapGroupsWithState`.
    #[default]
    FlatMap,
    /// Exactly one output: `mapGroupsWithState`.
    Map,
}

/// Which timeouts a rule sets: Spark's `GroupStateTimeout`, and either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutKind {
    /// None.
    None,
    /// In processing time.
    ProcessingTime,
    /// In event time.
    EventTime,
    /// One timeout for each key, on either clock.
    Either,
}

impl TimeoutKind {
    /// Whether timeouts in event time may be set; then late events are dropped, as in Spark.
    pub fn allows_event_time(self) -> bool {
        matches!(self, TimeoutKind::EventTime | TimeoutKind::Either)
    }

    /// Whether timeouts in processing time may be set.
    pub fn allows_processing_time(self) -> bool {
        matches!(self, TimeoutKind::ProcessingTime | TimeoutKind::Either)
    }
}

/// Spark's output modes of a stateful operator. A declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum OutputMode {
    /// Outputs add to earlier ones.
    #[default]
    Append,
    /// Outputs replace earlier ones of the same key.
    Update,
}

impl TryFrom<String> for OutputMode {
    type Error = String;

    /// Spark knows `complete` as well, and refuses it for these functions: the host never has all results of all keys at hand.
    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "append" => Ok(OutputMode::Append),
            "update" => Ok(OutputMode::Update),
            "complete" => Err("output_mode is complete, which is for aggregations: use append or update".to_owned()),
            _ => Err(format!("output_mode is {name}: use append or update")),
        }
    }
}

/// How states are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateFormat {
    /// MessagePack.
    Msgpack,
    /// JSON.
    Json,
    /// Something that only the rule understands.
    Opaque,
}

impl Description {
    /// Reads and checks the document.
    pub fn parse(document: &[u8]) -> Result<Self> {
        ensure!(
            document.len() <= DESCRIPTION_BYTES_MAX,
            "the description is {} bytes long, the limit is {DESCRIPTION_BYTES_MAX}",
            document.len()
        );
        let description: Description =
            serde_json::from_slice(document).context("the description is not the JSON object that it should be")?;
        if description.name.is_empty() {
            bail!("the description's name is empty");
        }
        ensure!(
            description.form == Form::FlatMap || description.output_mode == OutputMode::Update,
            "form is map and output_mode is append: with exactly one output for each call, newer ones replace older ones, so use update"
        );
        ensure!(description.state_schema >= 1, "state_schema is 0: schema numbers begin at 1");
        if let Some(number) = description.readable_schemas.iter().find(|&&number| number >= SCHEMA_NUMBER_END) {
            bail!("the schema number {number} is too large: schema numbers are below {SCHEMA_NUMBER_END}");
        }
        let members = description.event_members.as_ref().map_or(0, Vec::len);
        ensure!(
            members <= EVENT_MEMBERS_MAX,
            "event_members has {members} names, the limit is {EVENT_MEMBERS_MAX}: leave it out, and events come whole"
        );
        ensure!(
            description.readable_schemas.contains(&description.state_schema),
            "readable_schemas {:?} does not hold the rule's own state_schema {}",
            description.readable_schemas,
            description.state_schema
        );
        Ok(description)
    }
}

/// The members of an event that some of these versions read; none when one of them reads all.
pub fn event_members<'d>(versions: impl Iterator<Item = &'d Description>) -> Option<Vec<String>> {
    let members: Option<Vec<_>> = versions.map(|version| version.event_members.as_ref()).collect();
    let mut members: Vec<String> = members?.into_iter().flatten().cloned().collect();
    members.sort_unstable();
    members.dedup();
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_side_by_side_get_what_any_of_them_reads() {
        let version = |members: &str| {
            let members = if members.is_empty() { String::new() } else { format!(r#","event_members":{members}"#) };
            let document = format!(
                r#"{{"name":"r","version":"1","timeout":"none","state_schema":1,"readable_schemas":[1],"state_format":"json"{members}}}"#
            );
            Description::parse(document.as_bytes()).unwrap()
        };
        let (one, other, none, all) = (version(r#"["b","a"]"#), version(r#"["a","c"]"#), version("[]"), version(""));
        let members = |versions: &[&Description]| event_members(versions.iter().copied());
        assert_eq!(members(&[&one, &other, &none]).unwrap(), ["a", "b", "c"]);
        assert_eq!(members(&[&none]), Some(Vec::new()));
        assert_eq!(members(&[&one, &all]), None, "one that reads all gets all");
    }

    #[test]
    fn a_rule_that_names_too_many_members_is_told_to_name_none() {
        let names: Vec<String> = (0..=EVENT_MEMBERS_MAX).map(|number| number.to_string()).collect();
        let document = serde_json::json!({
            "name": "r", "version": "1", "timeout": "none", "state_schema": 1, "readable_schemas": [1],
            "state_format": "json", "event_members": names,
        });
        let refused = Description::parse(document.to_string().as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("event_members has 65 names, the limit is 64"), "{refused}");
    }
}
