//! [`Stage`]: the guests, and hosts for them that are set up as a user's rule file sets them up.

use super::calls::CLOCK_AHEAD_MS;
use super::fact::{Case, Inputs};
use crate::support::rules::{guest, loader};
use anyhow::{Context, Result};
use keyfold::clock::Clock;
use keyfold::config::{Config, Input, Settings as FileSettings};
use keyfold::event::InputId;
use keyfold::host::{Delivery, Host, InputSettings, Settings};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::sink::Sink;
use keyfold::source::ReadLimit;
use keyfold::wasm::Component;
use keyfold::wasm::component::Loader;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The guests, compiled once for all cases.
pub struct Stage {
    loader: Arc<Loader>,
    components: RefCell<BTreeMap<String, Arc<Component>>>,
}

/// What a host is opened with. Restarts may change it.
#[derive(Debug, Clone)]
pub struct Setup {
    pub rule: String,
    pub parameters: toml::Table,
    pub policy: Option<String>,
    pub partitions: u32,
    /// The file of the initial state.
    pub initial_state: Option<PathBuf>,
}

impl Stage {
    pub fn new() -> Self {
        Stage { loader: Arc::new(loader(&Limits::default())), components: RefCell::default() }
    }

    /// Opens a host, or says what is refused.
    pub fn open(&self, case: &Case, setup: &Setup, folder: &Path, clock: &Clock, sink: Box<dyn Sink>) -> Result<Host> {
        let component = self.component(&setup.rule)?;
        let config = FileSettings::parse(&rule_file(case, setup))?.check()?;
        self.loader.check_parameters(&component, config.parameters.to_string().as_bytes())?;
        Host::open(settings(config, setup, folder)?, clock.clone(), component, Arc::clone(&self.loader), sink)
    }

    /// The component of a guest, or why it is refused.
    pub fn component(&self, name: &str) -> Result<Arc<Component>> {
        if let Some(component) = self.components.borrow().get(name) {
            return Ok(Arc::clone(component));
        }
        let component = Arc::new(self.loader.load(&guest(name)).with_context(|| name.to_owned())?);
        self.components.borrow_mut().insert(name.to_owned(), Arc::clone(&component));
        Ok(component)
    }
}

/// What the case is, as a rule file says it.
fn rule_file(case: &Case, setup: &Setup) -> String {
    let mut file = toml::Table::new();
    let mut set = |name: &str, value: toml::Value| file.insert(name.to_owned(), value);
    set("component", format!("{}.wasm", setup.rule).into());
    set("key", case.key.clone().unwrap_or_else(|| vec!["/key".to_owned()]).into());
    if case.has_event_time() {
        set("event-time", "/ts".into());
    }
    if let Some(delay) = &case.delay {
        set("watermark-delay", delay.as_str().into());
    } else if case.watermark.is_some() {
        set("watermark-delay", format!("{CLOCK_AHEAD_MS}ms").into());
    }
    if let Some(policy) = &setup.policy {
        set("watermark-policy", policy.as_str().into());
    }
    if let Some(events) = case.batch_events {
        set("batch-events", toml::Value::Integer(events as i64));
    }
    if let Some(batches) = case.history_batches {
        set("history-batches", toml::Value::Integer(batches as i64));
    }
    set("batch", case.batch.into());
    set("parameters", setup.parameters.clone().into());
    let delays = case.inputs.iter().flat_map(Inputs::delays).map(|(name, delay)| {
        let delay = delay.map(|delay| ("watermark-delay".to_owned(), delay.into()));
        (name.to_owned(), delay.into_iter().collect::<toml::Table>().into())
    });
    let inputs: toml::Table = delays.collect();
    if !inputs.is_empty() {
        set("inputs", inputs.into());
    }
    toml::to_string(&file).expect("tables can be written as TOML")
}

fn settings(config: Config, setup: &Setup, folder: &Path) -> Result<Settings> {
    let of_input = |input: &Input| InputIdentity {
        name: input.name.clone(),
        key: input.key.clone(),
        event_time: input.event_time.clone().map(|(pointer, format)| (pointer, format.name().to_owned())),
    };
    Ok(Settings {
        folder: folder.to_owned(),
        identity: Identity {
            // The guests are versions of one rule, so that a restart may bring another one.
            rule: "fact".to_owned(),
            partitions: setup.partitions,
            inputs: config.inputs.iter().map(of_input).collect(),
            watermark_policy: config.watermark_policy.unwrap_or_default(),
            record_bytes_max: config.record_bytes_max,
            csv_text: config.csv_text,
            id: "fact".to_owned(),
        },
        inputs: config.inputs.iter().map(InputSettings::of).collect::<Result<_>>()?,
        initial_state: setup.initial_state.clone(),
        parameters: config.parameters,
        limits: config.limits,
        batch: ReadLimit { records_max: config.batch_events, bytes_max: config.batch_bytes },
        threads: 2,
        history_batches: config.history_batches,
        checkpoint: None,
        overlay_budget: Default::default(),
        twice: true,
        control: Default::default(),
        hosting: Default::default(),
        batch_query: config.batch,
        // A run that is stopped at a batch must not have got further by chance.
        delivery: Delivery { outbox_batches_max: 1, ..Delivery::default() },
    })
}

impl Case {
    /// Whether events have a time, in `/ts`.
    pub fn has_event_time(&self) -> bool {
        self.delay.is_some() || self.watermark.is_some() || matches!(self.inputs, Some(Inputs::Delays(_)))
    }

    /// The inputs' names, in order; none when there is one input without a name.
    pub fn input_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.inputs.iter().flat_map(Inputs::delays).map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// The number of an input: they are numbered in the order of their names.
    pub fn input(&self, name: Option<&str>) -> Result<InputId> {
        let Some(name) = name else { return Ok(InputId(0)) };
        let number = self.input_names().iter().position(|&known| known == name);
        Ok(InputId(number.with_context(|| format!("there is no input {name}"))? as u32))
    }
}

impl Inputs {
    fn delays(&self) -> Vec<(&str, Option<&str>)> {
        match self {
            Inputs::Names(names) => names.iter().map(|name| (name.as_str(), None)).collect(),
            Inputs::Delays(delays) => {
                delays.iter().map(|(name, delay)| (name.as_str(), Some(delay.as_str()))).collect()
            }
        }
    }
}
