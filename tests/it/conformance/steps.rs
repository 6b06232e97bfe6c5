//! The steps of a case through the host, in several ways that must come to the same.

use super::check::check;
use super::fact::{Case, Restart, Step};
use super::play::{Play, Ran};
use super::report::Failure;
use super::sink::SinkFails;
use super::stage::{Setup, Stage};
use anyhow::{Context, Result};

/// How the steps are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As they are written.
    Plain,
    /// With a restart before every step.
    Restarted,
    /// Every step first fails when it delivers its first batch.
    CrashedBeforeDelivery,
    /// Every step first fails when it has delivered its first batch.
    CrashedAfterDelivery,
}

impl Way {
    /// The ways that a case is run in with its first, second, ... number of partitions. Each way is run with one of them: every
    /// batch is synced several times, and all ways with all numbers would take minutes.
    pub fn of(case: &Case, number: usize) -> &'static [Way] {
        const ALL: [Way; 4] = [Way::Plain, Way::CrashedAfterDelivery, Way::Restarted, Way::CrashedBeforeDelivery];
        match (case.partitions.all().len(), number % 2) {
            // A batch query keeps nothing that could be taken up again.
            _ if case.batch => &ALL[..1],
            (1, _) => &ALL,
            (_, 0) => &ALL[..2],
            _ => &ALL[2..],
        }
    }
}

/// Runs the steps and returns what did not hold, with the number of the step.
pub fn play(stage: &Stage, case: &Case, setup: Setup, way: Way) -> Result<Vec<(usize, Failure)>> {
    let mut play = Play::start(stage, case, setup)?;
    let mut failures = Vec::new();
    for (number, step) in (1..).zip(&case.steps) {
        let ran = run(&mut play, step, way).with_context(|| format!("step {number}"))?;
        let Some(ran) = ran else { continue };
        let counts = matches!(way, Way::Plain | Way::Restarted);
        failures.extend(check(step, &ran, &play, counts)?.into_iter().map(|failure| (number, failure)));
    }
    Ok(failures)
}

fn run(play: &mut Play<'_>, step: &Step, way: Way) -> Result<Option<Ran>> {
    if let Some(restart) = &step.restart {
        play.restart(restart)?;
        return Ok(None);
    }
    if way == Way::Restarted {
        play.restart(&Restart::Same(true))?;
    }
    if let Some(now) = step.now {
        play.set_now(now);
    }
    for event in &step.add {
        play.add(event)?;
    }
    let fails = match way {
        Way::Plain | Way::Restarted => None,
        Way::CrashedBeforeDelivery => Some(SinkFails::BeforeDelivery),
        Way::CrashedAfterDelivery => Some(SinkFails::AfterDelivery),
    };
    if let Some(fails) = fails {
        play.run_into(fails)?;
    }
    play.run().map(Some)
}
