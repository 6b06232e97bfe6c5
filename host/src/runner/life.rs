//! A rule's life on its own thread: it is opened, runs, and is closed again when there was nothing to do for a while.

use super::rule_runner::RuleRunner;
use super::settings::{Parked, RuleVersion};
use super::state::{Failed, Running, State};
use super::watch::Watch;
use crate::event::{InputId, Millis, Position, Positions};
use crate::host::{Delivery, Host, Hosting, Retry, Settings, Trigger};
use crate::source::{Inputs, Source};
use crate::state::PlanLog;
use crate::stream::StreamSource;
use crate::workers::caught;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The pause after the first run that failed; each further one is twice as long.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Somebody who mends what keeps a rule from running waits for it no longer than this.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A run that has ended in order.
struct Closed {
    parked: Parked,
    /// Whether there is nothing left of it to be done.
    is_settled: bool,
}

impl RuleRunner {
    /// Runs until there is nothing to do, or something against it.
    pub(super) fn live(self: &Arc<Self>, first: Arc<Running>) {
        let mut running = first;
        loop {
            let ended = caught(|| self.run(&running));
            let mut state = self.lock();
            let is_drained = self.ended(&mut state, &running, ended);
            let failed = state.failed.as_ref().map(|failed| (failed.error.clone(), failed.retry_at));
            let goes_on = self.is_to_open(&state);
            if goes_on {
                running = state.begin();
            } else {
                state.running = None;
                self.shared.count_running(false);
                self.set_alarm(&state);
            }
            drop(state);
            self.notify();
            if let Some((error, retry_at)) = failed {
                self.shared.events.failed(self.id(), &error, retry_at);
            }
            if is_drained {
                self.shared.events.drained(self.id());
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Opens the rule, runs it, and closes it in order. What it then waits for is written down.
    fn run(self: &Arc<Self>, running: &Arc<Running>) -> Result<Closed> {
        let events = &self.shared.events;
        let (version, draining, is_recorded) = {
            let mut state = self.lock();
            let is_recorded = std::mem::take(&mut state.is_recorded);
            (state.version.clone(), state.draining.clone(), is_recorded)
        };
        if is_recorded {
            events.parked(self.id(), None).context("failed to write down that the rule is opened")?;
        }
        let mut host = self.shared.opening(|| self.open(running, &version))?;
        self.opened(&host)?;
        let mut source = self.source(draining.as_deref())?;
        let trigger = self.settings.interval.map_or(Trigger::Follow, Trigger::Interval);
        let mut watch = Watch::new(Arc::clone(self), Arc::clone(running));
        host.run(&mut source, trigger, &running.stop, &mut watch)?;
        let positions = self.positions(&host.committed_positions()?);
        let (next_due, next_batch) = (host.next_due_in_processing_time()?, host.next_batch());
        let is_settled = host.is_settled();
        drop(host);
        let closed = Closed { parked: Parked { positions, next_due, next_batch, keys: self.lock().keys }, is_settled };
        if is_settled {
            events.parked(self.id(), Some(&closed.parked)).context("failed to write down what the rule waits for")?;
            self.lock().is_recorded = true;
        }
        Ok(closed)
    }

    /// The run has ended. Tells whether the rule is drained since.
    fn ended(&self, state: &mut State, running: &Running, ended: Result<Closed>) -> bool {
        state.since = self.shared.clock.now();
        state.requested = running.control.take_activation();
        match ended {
            Ok(Closed { parked, is_settled }) => {
                (state.failed, state.failures) = (None, 0);
                state.positions = Some(parked.positions.clone());
                state.keys = parked.keys;
                let is_drained = is_settled && state.is_drained_by(&parked);
                // What is not settled waits for no event.
                state.parked = is_settled.then_some(parked);
                is_drained && !std::mem::replace(&mut state.is_drained, true)
            }
            Err(error) => {
                state.parked = None;
                // An activation that waits is not to be tried with every attempt: whoever asked is told.
                state.requested = None;
                self.has_failed(state, &error);
                false
            }
        }
    }

    /// It is tried again later.
    pub(super) fn has_failed(&self, state: &mut State, error: &anyhow::Error) {
        state.failures += 1;
        state.totals.failures += 1;
        let pause = RETRY_MAX.min(RETRY_MIN * 2_u32.saturating_pow(state.failures.saturating_sub(1).min(16)));
        let retry_at = Millis(self.shared.clock.now().0.saturating_add(pause.as_millis() as i64));
        let error = format!("{error:#}");
        tracing::error!(
            rule = self.settings.name,
            "the rule cannot run, next attempt in {} s: {error}",
            pause.as_secs()
        );
        state.failed = Some(Failed { error, retry_at });
    }

    fn open(&self, running: &Running, version: &RuleVersion) -> Result<Host> {
        let settings = &self.settings;
        let known = PlanLog::identity(&settings.folder)?;
        let folder_id = known.map_or_else(|| settings.identity.id.clone(), |known| known.id);
        let sink = settings.sink.open(&settings.identity.rule, &settings.id, &folder_id)?;
        let retry = match &settings.sink {
            super::SinkSettings::Webhook(webhook) => {
                Retry { pause_max: webhook.retry_interval_max, ..Retry::default() }
            }
            _ => Retry::default(),
        };
        let of_host = Settings {
            folder: settings.folder.clone(),
            identity: settings.identity.clone(),
            inputs: settings.inputs.iter().map(super::RuleInput::settings).collect::<Result<_>>()?,
            initial_state: None,
            parameters: version.parameters.clone(),
            limits: version.limits.clone(),
            batch: settings.batch,
            threads: settings.threads,
            history_batches: settings.history_batches,
            checkpoint: None,
            overlay_budget: self.shared.overlay_budget.clone(),
            batch_query: false,
            twice: settings.twice,
            control: Arc::clone(&running.control),
            hosting: Hosting {
                cpu: crate::fair::CpuShare::of(&settings.share),
                is_told: true,
                park_after: settings.park_after,
                envelope: true,
                decisions: Some(Arc::clone(self.decisions())),
                log: Arc::clone(&settings.log),
            },
            delivery: Delivery { retry, ..Delivery::default() },
        };
        let (component, loader) = (Arc::clone(&version.component), Arc::clone(&settings.loader));
        Host::open(of_host, self.shared.clock.clone(), component, loader, sink)
    }

    /// The host is open: what is committed is known.
    fn opened(&self, host: &Host) -> Result<()> {
        let positions = self.positions(&host.committed_positions()?);
        let mut state = self.lock();
        state.positions = Some(positions);
        state.keys = host.keys_at_start();
        state.rows_left = host.older_rows().total();
        state.last_batch = host.last_committed();
        state.totals.opened += 1;
        state.since = self.shared.clock.now();
        Ok(())
    }

    fn source(&self, draining: Option<&[Vec<Position>]>) -> Result<Inputs> {
        let of_input = |(number, input): (usize, &super::RuleInput)| -> Result<Box<dyn Source>> {
            let source = StreamSource::new(InputId(number as u32), Arc::clone(&input.log), input.start.clone());
            let source = source.named(&input.stream).keyed_by(&input.key, input.event_time.as_ref())?;
            Ok(match draining.and_then(|until| until.get(number)) {
                Some(until) => Box::new(source.until(until.clone())),
                None => Box::new(source),
            })
        };
        let sources: Result<_> = self.settings.inputs.iter().enumerate().map(of_input).collect();
        Ok(Inputs::new(sources?))
    }

    fn positions(&self, known: &Positions) -> Vec<Vec<Position>> {
        let of_input = |(number, input): (u32, &super::RuleInput)| input.positions(InputId(number), known);
        (0..).zip(&self.settings.inputs).map(of_input).collect()
    }

    /// The rule is left alone.
    pub(super) fn quarantine(&self, running: &Running, reason: String) {
        let since = self.shared.clock.now();
        {
            let mut state = self.lock();
            state.stopped = Some(super::Stopped::Quarantined { reason: reason.clone(), since });
            state.since = since;
        }
        tracing::warn!(rule = self.settings.name, "the rule is quarantined: {reason}");
        self.shared.events.quarantined(self.id(), &reason, since);
        running.stop.store(true, Ordering::Relaxed);
        running.control.notify();
    }
}

impl State {
    fn is_drained_by(&self, parked: &Parked) -> bool {
        let Some(until) = &self.draining else { return false };
        let has_read = parked.positions.iter().flatten().zip(until.iter().flatten()).all(|(read, until)| read >= until);
        has_read && parked.keys == 0
    }
}
