//! [`Judge`]: counts what fails, and says when an activation is to be taken back and when a rule is to be left alone.

use super::settings::RuleVersion;
use crate::event::BatchId;
use serde::{Deserialize, Serialize};

/// When a rule is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuarantineSettings {
    /// It fails more than this share of its groups.
    pub share: f64,
    /// In so many batches with groups, one after another; 0 for never.
    pub batches: u64,
}

impl Default for QuarantineSettings {
    /// What fails nearly always for ten batches will fail for the eleventh.
    fn default() -> Self {
        QuarantineSettings { share: 0.9, batches: 10 }
    }
}

/// When an activation is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RollbackSettings {
    /// In its first batches with groups, so many of them; 0 for never.
    pub batches: u64,
    /// It fails more than this share of all their groups.
    pub share: f64,
    /// Of so many groups at least: a few bad events say nothing about a version.
    pub groups_min: u64,
}

impl Default for RollbackSettings {
    fn default() -> Self {
        RollbackSettings { batches: 10, share: 0.5, groups_min: 10 }
    }
}

/// The first batches of an activation.
#[derive(Clone)]
pub struct Trial {
    /// What ran before.
    pub before: RuleVersion,
    /// The first batch of the activation.
    pub since: BatchId,
}

/// What is to be done about a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// The activation has proven itself.
    Proven,
    /// The activation is to be taken back, for this reason.
    RollBack(String),
    /// The rule is to be left alone, for this reason.
    Quarantine(String),
}

/// Counts what fails.
pub(super) struct Judge {
    quarantine: QuarantineSettings,
    rollback: RollbackSettings,
    /// The first batch of the version that runs. Those before it say nothing about it.
    since: BatchId,
    /// Batches one after another that failed more than their share.
    failing_batches: u64,
    trial: Option<Count>,
}

/// What the batches of an activation did.
struct Count {
    batches: u64,
    groups: u64,
    failed: u64,
}

impl Judge {
    pub fn new(quarantine: QuarantineSettings, rollback: RollbackSettings) -> Self {
        Judge { quarantine, rollback, since: BatchId(0), failing_batches: 0, trial: None }
    }

    /// Another version runs from this batch on. `is_trial`: it can be taken back.
    pub fn activated(&mut self, since: BatchId, is_trial: bool) {
        self.since = since;
        self.failing_batches = 0;
        let is_trial = is_trial && self.rollback.batches > 0;
        self.trial = is_trial.then_some(Count { batches: 0, groups: 0, failed: 0 });
    }

    /// Somebody has looked at it.
    pub fn forgive(&mut self) {
        self.failing_batches = 0;
    }

    /// A batch is committed: so many groups, of which so many failed.
    pub fn judge(&mut self, batch: BatchId, groups: u64, failed: u64) -> Verdict {
        if groups == 0 || batch < self.since {
            return Verdict::Fine;
        }
        let mut verdict = Verdict::Fine;
        if let Some(trial) = &mut self.trial {
            trial.batches += 1;
            trial.groups += groups;
            trial.failed += failed;
            if trial.groups >= self.rollback.groups_min && is_over(trial.failed, trial.groups, self.rollback.share) {
                let reason = format!(
                    "{} of {} groups failed in its first {} batches",
                    trial.failed, trial.groups, trial.batches
                );
                self.trial = None;
                self.failing_batches = 0;
                return Verdict::RollBack(reason);
            }
            if trial.batches >= self.rollback.batches {
                self.trial = None;
                verdict = Verdict::Proven;
            }
        }
        let is_failing = is_over(failed, groups, self.quarantine.share);
        self.failing_batches = if is_failing { self.failing_batches + 1 } else { 0 };
        if self.quarantine.batches > 0 && self.failing_batches >= self.quarantine.batches {
            self.failing_batches = 0;
            return Verdict::Quarantine(format!(
                "more than {}% of the groups failed in {} batches one after another, the last of them batch {batch}: see its dead \
                 letters",
                self.quarantine.share * 100.0,
                self.quarantine.batches
            ));
        }
        verdict
    }
}

fn is_over(failed: u64, groups: u64, share: f64) -> bool {
    failed as f64 > share * groups as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge() -> Judge {
        Judge::new(
            QuarantineSettings { share: 0.9, batches: 3 },
            RollbackSettings { batches: 2, share: 0.5, groups_min: 10 },
        )
    }

    #[test]
    fn batches_that_fail_one_after_another_lead_to_quarantine_and_one_that_does_not_begins_anew() {
        let mut judge = judge();
        let mut said = |failed: u64| judge.judge(BatchId(0), 10, failed);
        for failed in [10, 10, 9, 10, 10] {
            assert_eq!(said(failed), Verdict::Fine);
        }
        assert!(matches!(said(10), Verdict::Quarantine(_)));
        assert_eq!(said(10), Verdict::Fine, "it begins anew");
    }

    #[test]
    fn batches_without_groups_say_nothing() {
        let mut judge = judge();
        judge.activated(BatchId(0), true);
        for _ in 0..100 {
            assert_eq!(judge.judge(BatchId(1), 0, 0), Verdict::Fine);
        }
        assert!(matches!(judge.judge(BatchId(2), 10, 6), Verdict::RollBack(_)));
    }

    #[test]
    fn an_activation_is_taken_back_for_its_own_first_batches_only() {
        let mut judge = judge();
        judge.activated(BatchId(5), true);
        assert_eq!(judge.judge(BatchId(4), 100, 100), Verdict::Fine, "that was the version before");
        assert_eq!(judge.judge(BatchId(5), 9, 9), Verdict::Fine, "too few to tell");
        assert!(matches!(judge.judge(BatchId(6), 9, 1), Verdict::RollBack(_)));
        judge.activated(BatchId(7), true);
        assert_eq!(judge.judge(BatchId(7), 100, 50), Verdict::Fine);
        assert_eq!(judge.judge(BatchId(8), 100, 50), Verdict::Proven);
        assert_eq!(judge.judge(BatchId(9), 100, 80), Verdict::Fine);
    }

    #[test]
    fn what_cannot_be_taken_back_is_not() {
        let mut judge = judge();
        judge.activated(BatchId(0), false);
        assert_eq!(judge.judge(BatchId(0), 100, 80), Verdict::Fine);
    }
}
