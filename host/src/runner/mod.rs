//! Rules that live in one process: each is opened when there is something to do, and costs nothing but a little memory while there
//! is not.
//!
//! A [`RuleRunner`] is one rule's life. A stream that has more wakes it, and so does a timeout that is due; then it opens a
//! [`crate::host::Host`] on a thread of its own, which runs until there was nothing to do for a while. Meanwhile it counts what fails:
//! a new version that fails its first batches goes back to the one before, and a rule that fails again and again is left alone until
//! somebody looks. [`Runners`] is what all of them share: the cores, the memory for changed states, and one thread that knows when
//! the next timeout of all parked rules is due.

mod alarm;
mod decide;
mod events;
mod judge;
mod life;
mod rule_runner;
mod runners;
mod settings;
mod state;
mod status;
mod waking;
mod watch;

pub use decide::{Decision, Outcome};
pub use events::{RolledBack, RunnerEvents};
pub use judge::{QuarantineSettings, RollbackSettings, Trial};
pub use rule_runner::RuleRunner;
pub use runners::Runners;
pub use settings::{Parked, RuleInput, RuleVersion, RunnerSettings, SinkSettings, Stopped};
pub use status::{BATCH_SECONDS, Histogram, RunnerState, RunnerStatus, Totals};
