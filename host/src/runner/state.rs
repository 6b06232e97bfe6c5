//! [`State`]: what changes of a rule, and [`Running`]: a run of its host.

use super::judge::{Judge, Trial};
use super::settings::{Parked, RuleVersion, Stopped};
use super::status::{RunnerState, Totals};
use crate::event::{BatchId, Millis, Position};
use crate::host::{Control, Outbox, Requested};
use crate::progress::Progress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What changes of a rule.
pub(super) struct State {
    /// The run, while the rule is open.
    pub running: Option<Arc<Running>>,
    pub version: RuleVersion,
    pub trial: Option<Trial>,
    pub judge: Judge,
    pub stopped: Option<Stopped>,
    /// The quota of the tenant that holds it back.
    pub held: Option<String>,
    /// It is never opened again.
    pub is_closed: bool,
    /// Where reading ends for good.
    pub draining: Option<Vec<Vec<Position>>>,
    pub is_drained: bool,
    /// What it waits for while it is not open; none when only its data folder knows.
    pub parked: Option<Parked>,
    /// Whether whoever keeps the records holds it for parked.
    pub is_recorded: bool,
    /// Whether something is there that no stream tells of.
    pub is_wanted: bool,
    /// An activation that the last run has not seen any more.
    pub requested: Option<Requested>,
    pub failed: Option<Failed>,
    /// Runs that failed one after another.
    pub failures: u32,
    /// Since when it does what it does.
    pub since: Millis,
    pub positions: Option<Vec<Vec<Position>>>,
    pub last_batch: Option<BatchId>,
    pub keys: u64,
    pub rows_left: u64,
    pub outbox: Outbox,
    pub progress: Option<Arc<Progress>>,
    pub totals: Totals,
}

/// A run of the host.
#[derive(Default)]
pub(super) struct Running {
    pub control: Arc<Control>,
    pub stop: AtomicBool,
}

/// Why a rule does not run, and when it tries again.
pub(super) struct Failed {
    pub error: String,
    pub retry_at: Millis,
}

impl Running {
    /// Ends the run at the next batch boundary.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.control.notify();
    }
}

impl State {
    /// A new run. It takes along an activation that waits.
    pub fn begin(&mut self) -> Arc<Running> {
        let running = Arc::new(Running::default());
        if let Some(requested) = self.requested.take() {
            let replaced = running.control.request(requested);
            assert!(replaced.is_none(), "a new run was asked for something before it began");
        }
        // A rule that is stopped is opened for an activation only.
        running.stop.store(self.is_stopped(), Ordering::Relaxed);
        self.is_wanted = false;
        self.running = Some(Arc::clone(&running));
        running
    }

    pub fn is_stopped(&self) -> bool {
        self.is_closed || self.stopped.is_some() || self.held.is_some()
    }

    pub fn says(&self) -> RunnerState {
        match (&self.stopped, &self.held, &self.failed) {
            _ if self.is_closed => RunnerState::Stopped,
            (Some(Stopped::Paused { by }), ..) => RunnerState::Paused { by: by.clone() },
            (Some(Stopped::Quarantined { reason, .. }), ..) => RunnerState::Quarantined { reason: reason.clone() },
            (None, Some(quota), _) => RunnerState::Held { quota: quota.clone() },
            (None, None, Some(failed)) => {
                RunnerState::Failed { error: failed.error.clone(), retry_at: failed.retry_at }
            }
            (None, None, None) if self.running.is_some() => RunnerState::Running,
            (None, None, None) => RunnerState::Parked,
        }
    }
}
