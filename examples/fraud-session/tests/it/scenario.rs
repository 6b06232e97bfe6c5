//! [`Scenario`]: the files in `scenarios/`, read natively.

use jiff::civil::{Date, Time};
use jiff::{Timestamp, ToSpan};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// One file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub about: String,
    day: String,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    pub parameters: Map<String, Value>,
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// An event, or the advance of a clock, and what is expected then.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    pub at: Option<String>,
    pub event: Option<Value>,
    pub advance_event_to: Option<String>,
    pub advance_wall_to: Option<String>,
    #[serde(default)]
    pub expect: Expect,
}

/// What is expected after a step. `false` means no state, or no timeout.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    pub outputs: Vec<Value>,
    pub state: BTreeMap<String, Value>,
    pub timeout: BTreeMap<String, Value>,
}

/// All scenarios with their names.
pub fn all() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let scenario = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, scenario)
    };
    paths.iter().map(|path| read(path)).collect()
}

impl Scenario {
    /// A time of the scenario in milliseconds since 1970: on its day, some days after it, or with its own date.
    pub fn time_ms(&self, text: &str) -> i64 {
        if let Ok(time) = text.parse::<Timestamp>() {
            return time.as_millisecond();
        }
        let (days, time) = match text.strip_prefix('+') {
            Some(rest) => rest.split_once("d ").expect("days are written as in `+7d 10:00:00`"),
            None => ("0", text),
        };
        let day: Date = self.day.parse().unwrap();
        let day = day.checked_add(days.parse::<i64>().unwrap().days()).unwrap();
        let time: Time = time.parse().unwrap();
        format!("{day}T{time}Z").parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// The watermark delay: the scenario's, or that of `rule.toml`.
    pub fn delay_ms(&self) -> i64 {
        use keyfold_sdk::Interval;
        let rule: Value = toml::from_str(include_str!("../../rule.toml")).unwrap();
        let delay =
            self.settings.get("watermark-delay").map_or(rule["watermark-delay"].as_str().unwrap(), String::as_str);
        delay.to_millis().unwrap()
    }
}

/// Whether every field that is named in `part` is in `whole`, with this value.
pub fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| is_part(value, found)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        _ => part == whole,
    }
}
