//! [`Scenario`]: a rule's scenario file, and playing it through the real component and the real host.
//!
//! A scenario is a list of steps: events, and moves of the two clocks. It is played twice: with every event a batch of its
//! own, when outputs, states and timeouts are checked after each step; and with all events between two moves of a clock as
//! one batch, when the outputs must be the same.

mod matching;
mod player;

use crate::config::{Config, Settings as FileSettings};
use crate::event::Millis;
use crate::wasm::Component;
use crate::wasm::component::Loader;
use anyhow::{Context, Result};
use player::Player;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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
