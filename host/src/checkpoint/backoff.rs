//! [`Backoff`]: how long to wait before the next attempt, longer each time.

use crate::clock::Stopwatch;
use std::time::Duration;

/// The object store's own retries come before the first of ours.
const FIRST: Duration = Duration::from_millis(200);
/// A store that was away for hours is found again within this time.
const LONGEST: Duration = Duration::from_secs(20);

/// Attempts that failed one after another.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    since: Option<Stopwatch>,
}

impl Backoff {
    /// An attempt has failed. Returns how long to wait, and whether this was the first failure since all went well.
    pub fn failed(&mut self) -> (Duration, bool) {
        self.since.get_or_insert_with(Stopwatch::start);
        let wait = LONGEST.min(FIRST * 2_u32.pow(self.failures.min(16)));
        self.failures += 1;
        (wait, self.failures == 1)
    }

    /// An attempt has come further than the one before: the next failure is waited for as if it were the second.
    pub fn came_further(&mut self) {
        self.failures = self.failures.min(1);
    }

    /// An attempt went well. Returns how long none had, when one had failed before.
    pub fn worked(&mut self) -> Option<Duration> {
        self.failures = 0;
        self.since.take().map(|since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_anew_once_all_is_well() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.failed().0).collect();
        assert!(waits.is_sorted() && waits[0] == FIRST && waits[39] == LONGEST);
        assert!(backoff.worked().is_some() && backoff.worked().is_none());
        assert_eq!(backoff.failed(), (FIRST, true));
        assert!((0..10).all(|_| !backoff.failed().1));
        backoff.came_further();
        assert_eq!(backoff.failed(), (2 * FIRST, false));
    }
}
