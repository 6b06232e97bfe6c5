//! [`Budget`]: the memory that the changed states of many partitions may take together.
//!
//! Partitions know of each other only through it. One that goes over folds more key groups into its table: a partition that
//! holds more than its even part of the budget makes room for all, one that holds less pays by its size. So memory goes to the
//! partitions that change most, and none is left with nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is free for batches that other partitions are committing: this part of the budget.
const HEADROOM: usize = 8;

/// What a host with one rule gives its changed states: with states of 256 bytes, those of a million keys.
pub const OVERLAY_BYTES_DEFAULT: usize = 512 * 1024 * 1024;

/// The budget of a rule, or of all rules of a host. Clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    bytes_max: usize,
    used: AtomicUsize,
    /// Among how many it is shared.
    shares: AtomicUsize,
    /// The budget that this one is a part of.
    parent: Option<Budget>,
}

/// What one partition takes of a budget.
#[derive(Debug)]
pub(super) struct BudgetShare {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Budget::of(bytes_max, None)
    }

    /// A budget within another: what is taken from it is taken from both.
    pub fn within(parent: &Budget, bytes_max: usize) -> Self {
        Budget::of(bytes_max, Some(parent.clone()))
    }

    fn of(bytes_max: usize, parent: Option<Budget>) -> Self {
        Budget(Arc::new(Pool { bytes_max, used: AtomicUsize::new(0), shares: AtomicUsize::new(0), parent }))
    }

    /// The bytes that are taken now.
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// A share, with nothing yet.
    pub(super) fn share(&self) -> BudgetShare {
        for budget in self.chain() {
            budget.0.shares.fetch_add(1, Relaxed);
        }
        BudgetShare { budget: self.clone(), bytes: 0 }
    }

    /// This budget and those that it is a part of.
    fn chain(&self) -> impl Iterator<Item = &Budget> {
        std::iter::successors(Some(self), |budget| budget.0.parent.as_ref())
    }

    /// How much a share of so many bytes is to give back.
    fn excess(&self, bytes: usize) -> usize {
        let limit = self.0.bytes_max - self.0.bytes_max / HEADROOM;
        let used = self.used();
        let over = used.saturating_sub(limit);
        if over == 0 || bytes > limit / self.0.shares.load(Relaxed).max(1) {
            return over.min(bytes);
        }
        (over as u128 * bytes as u128 / used as u128) as usize
    }
}

impl BudgetShare {
    /// Says how much it takes now.
    pub fn set(&mut self, bytes: usize) {
        for budget in self.budget.chain() {
            // The sum of all shares: it can neither overflow nor fall below one of them.
            if bytes >= self.bytes {
                budget.0.used.fetch_add(bytes - self.bytes, Relaxed);
            } else {
                budget.0.used.fetch_sub(self.bytes - bytes, Relaxed);
            }
        }
        self.bytes = bytes;
    }

    /// How many bytes it is to give back, so that all budgets hold.
    pub fn excess(&self) -> usize {
        self.budget.chain().map(|budget| budget.excess(self.bytes)).max().unwrap_or(0)
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.set(0);
        for budget in self.budget.chain() {
            budget.0.shares.fetch_sub(1, Relaxed);
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(OVERLAY_BYTES_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pays_for_all_and_the_smallest_by_its_size() {
        let budget = Budget::new(800);
        let (mut large, mut small) = (budget.share(), budget.share());
        large.set(600);
        small.set(100);
        assert_eq!((large.excess(), small.excess()), (0, 0), "700 are within what a budget of 800 gives out");
        small.set(200);
        assert_eq!(large.excess(), 100, "600 is more than half of 700: it pays all");
        assert_eq!(small.excess(), 25, "200 of 800 is a quarter");
        drop(large);
        assert_eq!((budget.used(), small.excess()), (200, 0));
    }

    #[test]
    fn what_one_rule_takes_is_missing_for_the_other() {
        let host = Budget::new(800);
        let (one, other) = (Budget::within(&host, 800), Budget::within(&host, 400));
        let (mut of_one, mut of_other) = (one.share(), other.share());
        of_one.set(650);
        of_other.set(100);
        assert_eq!(of_one.excess(), 50);
        of_other.set(400);
        assert_eq!(of_other.excess(), 350, "over the host's budget by more than over its own");
    }

    #[test]
    fn a_share_never_pays_more_than_it_has() {
        let budget = Budget::new(8);
        let (mut one, mut other) = (budget.share(), budget.share());
        one.set(1000);
        other.set(10);
        assert_eq!((one.excess(), other.excess()), (1000, 10));
    }
}
