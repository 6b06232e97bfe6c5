//! [`Event`]: an event of a case, and where it is put.

use super::fact::{Add, json, millis};
use anyhow::{Result, bail};
use serde_json::Value;

/// An event, and where it is put.
pub struct Event {
    pub input: Option<String>,
    pub file: Option<String>,
    pub text: Value,
}

impl Event {
    /// Reads it.
    pub fn of(add: &Add) -> Result<Self> {
        let mut members = match add {
            Add::Long(members) => members.clone(),
            Add::Short(text) => short(text),
        };
        let mut text_of = |name: &str| match members.remove(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) => Ok(Some(text)),
            Some(other) => bail!("{name} is {other}, not a text"),
        };
        let (input, file, at) = (text_of("input")?, text_of("file")?, text_of("at")?);
        let mut text = json(&members.into());
        if let Some(at) = at {
            text["ts"] = millis(&at).into();
        }
        Ok(Event { input, file, text })
    }
}

/// `key`, `key@time` or `input/key@time`.
fn short(text: &str) -> toml::Table {
    let (input, rest) = text.split_once('/').map_or((None, text), |(input, rest)| (Some(input), rest));
    let (key, at) = rest.split_once('@').map_or((rest, None), |(key, at)| (key, Some(at)));
    let members = [("input", input), ("key", Some(key)), ("at", at)];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}
