//! [`RunnerEvents`]: what a runner tells whoever keeps the records of rules.

use super::settings::{Parked, RuleVersion};
use crate::event::Millis;
use crate::host::{StateChoice, Swapped};
use crate::progress::Progress;
use anyhow::Result;

/// What runners tell whoever keeps the records of rules. Rules are named by their ids. Nothing of the runner may be asked meanwhile
/// that waits for the rule.
pub trait RunnerEvents: Send + Sync {
    /// A rule was closed in order and waits for this; or, without anything, it is about to be opened, and what was said before holds no
    /// longer. Both must be durable when this returns.
    fn parked(&self, rule: &str, parked: Option<&Parked>) -> Result<()>;

    /// A rule failed again and again, and does not run until somebody resumes it or activates another version.
    fn quarantined(&self, rule: &str, reason: &str, since: Millis);

    /// An activation was taken back.
    fn rolled_back(&self, rule: &str, rolled_back: &RolledBack);

    /// The first batches of an activation went well: there is nothing to go back to any more.
    fn proven(&self, _rule: &str) {}

    /// A rule that is drained has nothing left.
    fn drained(&self, _rule: &str) {}

    /// A batch is committed and delivered.
    fn progress(&self, _rule: &str, _progress: &Progress) {}

    /// A rule cannot run, and tries again.
    fn failed(&self, _rule: &str, _error: &str, _retry_at: Millis) {}
}

/// An activation that was taken back.
pub struct RolledBack {
    /// What ran.
    pub from: RuleVersion,
    /// What runs again.
    pub to: RuleVersion,
    /// What becomes of the states.
    pub state: StateChoice,
    /// From which batch on.
    pub swapped: Swapped,
    /// Why.
    pub reason: String,
}
