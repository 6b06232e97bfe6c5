//! Events made up for trials, tests and measurements: the same bytes for the same settings on every machine.
//!
//! A [`Scenario`] writes events in time order; [`Disorder`] lets some arrive late or twice; an [`Output`] takes the lines.

mod card_sessions;
mod devices;
mod disorder;
mod episode;
mod fraud;
mod funnel;
mod line;
mod output;
mod pace;
mod random;
mod share;
mod zipf;

pub use devices::HEARTBEAT_MS;
pub use disorder::{Disorder, DisorderSettings, LATE_MS};
pub use episode::{Kind, Label};
pub use line::Line;
pub use output::{Compression, Output};
pub use pace::Pace;
pub use random::Random;
pub use share::Share;
pub use zipf::{Exponent, Zipf};

use crate::event::Millis;
use anyhow::{Result, ensure};

/// What is made, checked by [`Settings::check`].
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Which scenario.
    pub scenario: ScenarioName,
    /// How many events. `card-sessions` adds one, duplicates are added too.
    pub events: u64,
    /// How many users or devices.
    pub keys: u32,
    /// The length of the stream in event time; not used by `devices`.
    pub span_ms: u64,
    /// How uneven users' activity is.
    pub zipf: Exponent,
    /// The seed of all draws.
    pub seed: u64,
    /// The event time at which the stream begins.
    pub start: Millis,
    /// Payments of a high amount, outside of episodes of fraud.
    pub high_share: Share,
    /// Payments that belong to episodes of fraud.
    pub fraud_share: Share,
    /// What happens to the order.
    pub disorder: DisorderSettings,
}

/// The scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioName {
    /// Payments in sessions of users, and a last payment that lets all of them end.
    CardSessions,
    /// Payments, with episodes of fraud among them.
    Fraud,
    /// Heartbeats of devices, which fall silent, restart and are maintained.
    Devices,
    /// Visits to a shop, from the first page to the payment or away.
    Funnel,
}

/// A stream of events in time order.
pub trait Scenario {
    /// Adds the next event to `line`, without a line break, and returns its time. None after the last.
    fn next(&mut self, line: &mut Vec<u8>) -> Option<Millis>;

    /// What a rule should find in it, when that is known.
    fn labels(&self) -> &[Label] {
        &[]
    }
}

impl Settings {
    /// Refuses what cannot be made, in words for whoever typed it.
    pub fn check(&self) -> Result<()> {
        ensure!(self.events > 0, "no events: give --events at least 1");
        ensure!(self.keys > 0, "no users: give --users at least 1");
        ensure!(self.span_ms > 0, "the stream has no length: give --hours more than 0");
        const SPAN_MS_MAX: u64 = 366 * 24 * 3_600_000;
        ensure!(self.span_ms <= SPAN_MS_MAX, "the stream is longer than a year: give --hours at most 8784");
        // Four times as many as the largest benchmark; drawing among them takes 12 bytes each.
        const KEYS_MAX: u32 = 40_000_000;
        ensure!(self.keys <= KEYS_MAX, "{} users are more than the limit of {KEYS_MAX}", self.keys);
        Ok(())
    }

    fn scenario(&self) -> Result<Box<dyn Scenario>> {
        Ok(match self.scenario {
            ScenarioName::CardSessions => Box::new(card_sessions::CardSessions::new(self)),
            ScenarioName::Fraud => Box::new(fraud::Fraud::new(self)?),
            ScenarioName::Devices => Box::new(devices::Devices::new(self)),
            ScenarioName::Funnel => Box::new(funnel::Funnel::new(self)),
        })
    }
}

/// Makes the events and writes them, cut into as many files as the output has, by equal numbers of events. Calls
/// `progress` with the number of events made, now and then. Returns the labels.
pub fn generate(settings: &Settings, output: &mut Output, mut progress: impl FnMut(u64)) -> Result<Vec<Label>> {
    settings.check()?;
    ensure!(
        u64::from(output.files()) <= settings.events,
        "{} events do not fill {} files: lower --files",
        settings.events,
        output.files()
    );
    let mut scenario = settings.scenario()?;
    let mut disorder = Disorder::new(settings.disorder, settings.seed);
    let cut = |file: u32| (u128::from(settings.events) * u128::from(file + 1) / u128::from(output.files())) as u64;
    let cuts: Vec<u64> = (0..output.files() - 1).map(cut).collect();
    let mut cuts = cuts.into_iter().peekable();

    const ARRIVED_BYTES: usize = 256 * 1024;
    const PROGRESS_EVENTS: u64 = 16 * 1024;
    let (mut line, mut arrived) = (Vec::new(), Vec::with_capacity(ARRIVED_BYTES + 4096));
    let mut made = 0;
    while let Some(time) = scenario.next(&mut line) {
        if cuts.next_if_eq(&made).is_some() {
            output.write(&arrived)?;
            arrived.clear();
            output.begin_next_file()?;
        }
        line.push(b'\n');
        disorder.pass(time, &line, &mut arrived);
        line.clear();
        made += 1;
        if arrived.len() >= ARRIVED_BYTES {
            output.write(&arrived)?;
            arrived.clear();
        }
        if made % PROGRESS_EVENTS == 0 {
            progress(made);
        }
    }
    disorder.finish(&mut arrived);
    output.write(&arrived)?;
    progress(made);
    Ok(scenario.labels().to_vec())
}

#[cfg(test)]
mod tests;
