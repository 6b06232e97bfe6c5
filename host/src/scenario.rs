//! [`Scenario`]: a rule's scenario file, and playing it through the real component and the real host.
//!
//! A scenario is a list of steps: events, and moves of the two clocks. It is played twice: with every event a batch of its
//! own, when outputs, states and timeouts are checked after each step; and with all events between two moves of a clock as
//! one batch, when the outputs must be the same.

mod matching;

use crate::clock::Clock;
use crate::config::{Config, Input, Settings as FileSettings};
use crate::event::{InputId, KeyGroup, Millis, OffsetRange, PartitionId, Position, Record, RecordBatch};
use crate::extract::TimeFormat;
use crate::host::{Delivery, Host, InputSettings, Settings};
use crate::inspection::{StateDecoder, row_to_json};
use crate::plan::{Identity, InputIdentity};
use crate::sink::MemorySink;
use crate::source::ReadLimit;
use crate::state::reader::PartitionReader;
use crate::wasm::Component;
use crate::wasm::component::Loader;
use anyhow::{Context, Result, bail, ensure};
use matching::{holds, narrow, narrow_all, pretty, put};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Partitions that scenarios run with: more than one, so that a rule that depends on its neighbours is found out.
const PARTITIONS: u32 = 2;

/// A scenario file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// One sentence.
    pub about: String,
    /// The day of times such as `10:00:00`, in UTC.
    day: Option<String>,
    /// Overrides of the rule file.
    #[serde(default)]
    settings: toml::Table,
    /// Overrides of the rule's parameters.
    #[serde(default)]
    parameters: toml::Table,
    /// What happens.
    #[serde(rename = "step")]
    steps: Vec<Step>,
}

/// One step: an event, or a move of a clock.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Step {
    /// Which input the event comes from, for rules with several.
    input: Option<String>,
    at: Option<String>,
    event: Option<toml::Value>,
    advance_event_to: Option<String>,
    advance_wall_to: Option<String>,
    #[serde(default)]
    expect: Expectation,
}

/// What must be true after a step.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Expectation {
    /// All outputs of the step, in order; of each, the members that are named.
    #[serde(default)]
    outputs: Vec<toml::Value>,
    /// The members of a key's state that are named; `false` for no state.
    #[serde(default)]
    state: BTreeMap<String, toml::Value>,
    /// `event TIME` or `processing TIME`; `false` for none.
    #[serde(default)]
    timeout: BTreeMap<String, toml::Value>,
    /// Parts of the messages of all dead letters of the step.
    #[serde(default)]
    dead_letters: Vec<String>,
}

/// How a scenario's events are cut into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// Each event is a batch.
    Each,
    /// All events between two moves of a clock are a batch.
    Together,
}

/// One expectation that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Which step, from 1, and what it does.
    pub step: String,
    /// What was looked at, such as `outputs` or `state of U1`.
    pub what: String,
    /// What the scenario says, as pretty JSON.
    pub expected: String,
    /// What was found.
    pub found: String,
}

/// What a rule's scenarios are played with.
pub struct Stage {
    /// The rule file's settings.
    pub settings: FileSettings,
    /// The component.
    pub component: Arc<Component>,
    /// What loaded it.
    pub loader: Arc<Loader>,
}

impl Scenario {
    /// Reads a scenario file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a scenario", path.display()))
    }

    /// Plays the scenario and returns what did not hold.
    pub fn play(&self, stage: &Stage, batches: Batches) -> Result<Vec<Mismatch>> {
        let config = self.config(stage)?;
        let folder = tempfile::tempdir()?;
        let mut player = Player::start(self, stage, &config, folder.path())?;
        let mut mismatches = Vec::new();
        let mut number = 0;
        while number < self.steps.len() {
            let together = match batches {
                Batches::Each => 1,
                Batches::Together => self.steps[number..].iter().take_while(|step| step.event.is_some()).count().max(1),
            };
            let steps = &self.steps[number..number + together];
            let name = step_name(number, steps);
            player.play(steps).with_context(|| name.clone())?;
            player.check(steps, &name, together == 1, &mut mismatches).with_context(|| name.clone())?;
            number += together;
        }
        Ok(mismatches)
    }

    fn config(&self, stage: &Stage) -> Result<Config> {
        let overrides =
            toml::to_string(&self.settings).map_err(anyhow::Error::from).and_then(|text| FileSettings::parse(&text));
        let mut settings = overrides.context("[settings]")?;
        settings.parameters = Some(self.parameters.clone());
        settings.or(stage.settings.clone()).check()
    }
}

/// A scenario on its way.
struct Player<'a> {
    scenario: &'a Scenario,
    inputs: Vec<Input>,
    host: Host,
    clock: Clock,
    outputs: MemorySink,
    folder: &'a Path,
    decoder: StateDecoder,
    dead_letters_seen: usize,
    line: u64,
}

impl<'a> Player<'a> {
    fn start(scenario: &'a Scenario, stage: &Stage, config: &Config, folder: &'a Path) -> Result<Self> {
        let clock = Clock::manual(scenario.start()?);
        let outputs = MemorySink::default();
        let description = stage.component.description();
        let of_input = |input: &Input| InputIdentity {
            name: input.name.clone(),
            key: input.key.clone(),
            event_time: input.event_time.clone().map(|(pointer, format)| (pointer, format.name().to_owned())),
        };
        let identity = Identity {
            rule: description.name.clone(),
            partitions: PARTITIONS,
            inputs: config.inputs.iter().map(of_input).collect(),
            watermark_policy: config.watermark_policy.unwrap_or_default(),
            record_bytes_max: config.record_bytes_max,
            csv_text: Vec::new(),
            id: "scenario".to_owned(),
        };
        let settings = Settings {
            folder: folder.to_owned(),
            identity,
            inputs: config.inputs.iter().map(InputSettings::of).collect::<Result<_>>()?,
            initial_state: None,
            parameters: config.parameters.clone(),
            limits: config.limits.clone(),
            batch: ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX },
            threads: 1,
            batch_query: false,
            history_batches: 0,
            checkpoint: None,
            delivery: Delivery::default(),
        };
        stage.loader.check_parameters(&stage.component, config.parameters.to_string().as_bytes())?;
        let (component, loader) = (Arc::clone(&stage.component), Arc::clone(&stage.loader));
        let host = Host::open(settings, clock.clone(), component, loader, Box::new(outputs.clone()))?;
        Ok(Player {
            scenario,
            inputs: config.inputs.clone(),
            host,
            clock,
            outputs,
            folder,
            decoder: StateDecoder::new(description.state_format),
            dead_letters_seen: 0,
            line: 0,
        })
    }

    fn play(&mut self, steps: &[Step]) -> Result<()> {
        let mut records = RecordBatch::default();
        let mut watermark = None;
        for step in steps {
            match step {
                Step { event: Some(event), at, .. } => {
                    let at = at.as_deref().map(|text| self.scenario.time(text)).transpose()?;
                    if let Some(at) = at {
                        self.clock.advance_to(at);
                    }
                    self.add(step.input.as_deref(), event, at, &mut records)?;
                }
                Step { advance_event_to: Some(time), .. } => watermark = Some(self.scenario.time(time)?),
                Step { advance_wall_to: Some(time), .. } => self.clock.advance_to(self.scenario.time(time)?),
                _ => bail!("the step has neither event nor advance-event-to nor advance-wall-to"),
            }
        }
        self.host.run_batch(records, watermark)?;
        // What the batch made due fires in the next one, as in a running stream.
        while self.host.has_due(self.host.next_watermark())? {
            self.host.run_batch(RecordBatch::default(), None)?;
        }
        Ok(())
    }

    /// Adds an event to a batch, with its time filled in when it has none.
    fn add(
        &mut self,
        input: Option<&str>,
        event: &toml::Value,
        at: Option<Millis>,
        records: &mut RecordBatch,
    ) -> Result<()> {
        let number = match input {
            None => 0,
            Some(name) => self.inputs.iter().position(|input| input.name == name).with_context(|| {
                let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
                format!("the rule has no input {name}: it has {}", names.join(", "))
            })?,
        };
        let mut event = serde_json::to_value(event)?;
        if let (Some((pointer, format)), Some(at)) = (&self.inputs[number].event_time, at)
            && event.pointer(pointer).is_none()
        {
            let time = match format {
                TimeFormat::EpochMs => at.0.into(),
                TimeFormat::EpochS => serde_json::json!(at.0 as f64 / 1000.0),
                TimeFormat::Rfc3339 => at.to_string().into(),
            };
            put(&mut event, pointer, time)?;
        }
        let id = InputId(number as u32);
        if records.ranges.last().is_none_or(|last| last.input != id) {
            let from = Position { offset: self.line, line: self.line };
            records.ranges.push(OffsetRange { input: id, file: "scenario".to_owned(), from, to: from });
        }
        let range = records.ranges.len() - 1;
        self.line += 1;
        let start = records.text.len() as u32;
        serde_json::to_writer(&mut records.text, &event)?;
        records.records.push(Record { start, end: records.text.len() as u32, range: range as u32, line: self.line });
        records.ranges[range].to = Position { offset: self.line, line: self.line };
        Ok(())
    }

    fn check(&mut self, steps: &[Step], name: &str, states: bool, mismatches: &mut Vec<Mismatch>) -> Result<()> {
        let mut differs = |what: &str, expected: &Value, found: &Value| {
            mismatches.push(Mismatch {
                step: name.to_owned(),
                what: what.to_owned(),
                expected: pretty(expected),
                found: pretty(found),
            });
        };
        let expected: Vec<Value> =
            steps.iter().flat_map(|step| &step.expect.outputs).map(serde_json::to_value).collect::<Result<_, _>>()?;
        let found: Vec<Value> =
            self.outputs.take().iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
        if expected.len() != found.len() || !expected.iter().zip(&found).all(|(expected, found)| holds(expected, found))
        {
            let shown = narrow_all(&expected, &found);
            differs("outputs", &expected.into(), &shown);
        }
        let letters = self.new_dead_letters()?;
        let parts: Vec<&String> = steps.iter().flat_map(|step| &step.expect.dead_letters).collect();
        if parts.len() != letters.len() || !parts.iter().zip(&letters).all(|(part, letter)| letter.contains(*part)) {
            differs("dead letters", &serde_json::json!(parts), &serde_json::json!(letters));
        }
        if !states {
            return Ok(());
        }
        for step in steps {
            for (key, expected) in &step.expect.state {
                let row = self.row(key)?;
                let found = row.get("value").cloned().unwrap_or(Value::Bool(false));
                let expected = serde_json::to_value(expected)?;
                if !holds(&expected, &found) {
                    differs(&format!("state of {key}"), &expected, &narrow(&expected, &found));
                }
            }
            for (key, expected) in &step.expect.timeout {
                let found = self.row(key)?.get("timeout").cloned().unwrap_or(Value::Bool(false));
                let expected = self.expected_timeout(expected)?;
                if !holds(&expected, &found) {
                    differs(&format!("timeout of {key}"), &expected, &narrow(&expected, &found));
                }
            }
        }
        Ok(())
    }

    fn expected_timeout(&self, expected: &toml::Value) -> Result<Value> {
        match expected {
            toml::Value::Boolean(false) => Ok(Value::Bool(false)),
            toml::Value::String(text) => {
                let (clock, time) = text.split_once(' ').context("a timeout is 'event TIME' or 'processing TIME'")?;
                ensure!(
                    matches!(clock, "event" | "processing"),
                    "a timeout's clock is event or processing, not {clock}"
                );
                let at = self.scenario.time(time)?;
                Ok(serde_json::json!({ "clock": format!("{clock}-time"), "time": at.to_string() }))
            }
            other => bail!("a timeout is 'event TIME', 'processing TIME' or false, not {other}"),
        }
    }

    fn row(&self, key: &str) -> Result<Value> {
        let partition = KeyGroup::of(key.as_bytes()).partition(PARTITIONS);
        let row = PartitionReader::open(self.folder, partition)?.get(key.as_bytes())?;
        Ok(row.map_or(Value::Null, |row| row_to_json(&row, &self.decoder, None)))
    }

    fn new_dead_letters(&mut self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for partition in 0..PARTITIONS {
            PartitionReader::open(self.folder, PartitionId(partition))?.dead_letters(|batch, letter| {
                all.push((batch, partition, format!("{}: {}", letter.reason, letter.message)));
                Ok(())
            })?;
        }
        all.sort();
        let new = all.split_off(self.dead_letters_seen.min(all.len()));
        self.dead_letters_seen += new.len();
        Ok(new.into_iter().map(|(_, _, text)| text).collect())
    }
}

impl Scenario {
    /// Processing time begins at the first event, so that a rule never sees a clock before its events.
    fn start(&self) -> Result<Millis> {
        let first = self.steps.iter().find_map(|step| step.at.as_ref());
        first.map_or(Ok(Millis(0)), |text| self.time(text))
    }

    /// `10:00`, `10:00:00.5`, `+7d 10:00:00` relative to the scenario's day, or RFC 3339.
    fn time(&self, text: &str) -> Result<Millis> {
        let attempt = || format!("'{text}' is not a time: write 10:00:00, +1d 10:00:00 or 2026-01-05T10:00:00Z");
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Millis(time.as_millisecond()));
        }
        let (days, clock) = match text.strip_prefix('+').and_then(|rest| rest.split_once("d ")) {
            Some((days, clock)) => (days.parse::<i64>().with_context(attempt)?, clock),
            None => (0, text),
        };
        let day = self.day.as_deref().context("times such as 10:00:00 need the scenario's `day`")?;
        let day: jiff::civil::Date = day.parse().with_context(|| format!("the day '{day}' is not a date"))?;
        let time: jiff::civil::Time = clock.parse().with_context(attempt)?;
        let at = jiff::tz::TimeZone::UTC.to_timestamp(day.to_datetime(time))?;
        const DAY_MS: i64 = 24 * 3600 * 1000;
        let at_ms = days.checked_mul(DAY_MS).and_then(|ms| ms.checked_add(at.as_millisecond()));
        at_ms.map(Millis).with_context(attempt)
    }
}

fn step_name(number: usize, steps: &[Step]) -> String {
    let first = &steps[0];
    let what = match (&first.event, &first.advance_event_to, &first.advance_wall_to) {
        (Some(_), ..) => format!("event at {}", first.at.as_deref().unwrap_or("no time")),
        (_, Some(time), _) => format!("advance-event-to {time}"),
        (_, _, Some(time)) => format!("advance-wall-to {time}"),
        _ => "nothing".to_owned(),
    };
    match steps.len() {
        1 => format!("step {} ({what})", number + 1),
        many => format!("steps {} to {} together ({what} …)", number + 1, number + many),
    }
}
