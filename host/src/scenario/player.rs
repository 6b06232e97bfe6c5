//! [`Player`]: a scenario on its way through a host.

use super::matching::{holds, narrow, narrow_all, pretty, put};
use super::{Mismatch, Scenario, Stage, Step};
use crate::clock::Clock;
use crate::config::{Config, Input};
use crate::event::{InputId, KeyGroup, Millis, OffsetRange, PartitionId, Position, Record, RecordBatch};
use crate::extract::TimeFormat;
use crate::host::{Delivery, Host, InputSettings, Settings};
use crate::inspection::{StateDecoder, row_to_json};
use crate::plan::{Identity, InputIdentity};
use crate::sink::MemorySink;
use crate::source::ReadLimit;
use crate::state::reader::PartitionReader;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Partitions that scenarios run with: more than one, so that a rule that depends on its neighbours is found out.
const PARTITIONS: u32 = 2;

/// A scenario on its way.
pub(super) struct Player<'a> {
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
    pub fn start(scenario: &'a Scenario, stage: &Stage, config: &Config, folder: &'a Path) -> Result<Self> {
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
            overlay_budget: Default::default(),
            twice: false,
            control: Default::default(),
            hosting: Default::default(),
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

    pub fn play(&mut self, steps: &[Step]) -> Result<()> {
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

    pub fn check(&mut self, steps: &[Step], name: &str, states: bool, mismatches: &mut Vec<Mismatch>) -> Result<()> {
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
