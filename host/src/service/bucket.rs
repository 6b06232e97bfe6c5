//! [`Bucket`]: how much of something may be taken in a second, with a second's worth in reserve.

use crate::clock::Stopwatch;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whoever may take nothing at all is told to come back after this time: the quota may be changed meanwhile.
const RETRY_NOTHING: Duration = Duration::from_secs(60);

/// How much may be taken in a second. The rate is given with each taking, so that it can change.
pub(super) struct Bucket {
    since: Stopwatch,
    level: Mutex<Level>,
}

#[derive(Default)]
struct Level {
    /// What was taken and has not flowed back. Measured from a full bucket, so that a new rate holds at once.
    taken: f64,
    at: Duration,
    refused: u64,
}

impl Bucket {
    /// A full one.
    pub(super) fn new() -> Self {
        Bucket { since: Stopwatch::start(), level: Mutex::default() }
    }

    /// Takes so much, or says when there will be something. Who finds something may take more than is there: a large request is
    /// possible at any rate, and the next ones wait for it.
    pub(super) fn take(&self, amount: u64, per_second: u64) -> Result<(), Duration> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        level.take_at(self.since.elapsed(), amount, per_second)
    }

    /// How much was refused.
    pub(super) fn refused(&self) -> u64 {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).refused
    }
}

impl Level {
    fn take_at(&mut self, now: Duration, amount: u64, per_second: u64) -> Result<(), Duration> {
        let rate = per_second as f64;
        let flowed_back = now.saturating_sub(self.at).as_secs_f64() * rate;
        self.taken = (self.taken - flowed_back).max(0.0);
        self.at = now;
        if self.taken < rate {
            self.taken += amount as f64;
            return Ok(());
        }
        self.refused += amount;
        if per_second == 0 {
            return Err(RETRY_NOTHING);
        }
        // Until something is there, and not until all is: others may be faster, who then waits again.
        Err(Duration::from_secs_f64(((self.taken - rate + 1.0) / rate).min(RETRY_NOTHING.as_secs_f64())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_second_s_worth_is_in_reserve_and_the_rest_flows() {
        let mut level = Level::default();
        for _ in 0..10 {
            level.take_at(ms(0), 1, 10).unwrap();
        }
        let wait = level.take_at(ms(0), 1, 10).unwrap_err();
        assert_eq!(wait, ms(100));
        level.take_at(wait, 1, 10).unwrap();
        assert_eq!((level.take_at(wait, 1, 10).is_err(), level.refused), (true, 2));
    }

    #[test]
    fn a_request_larger_than_the_rate_goes_through_and_the_next_ones_wait_for_it() {
        let mut level = Level::default();
        level.take_at(ms(0), 50, 10).unwrap();
        let wait = level.take_at(ms(0), 1, 10).unwrap_err();
        assert!(wait > Duration::from_secs(4), "{wait:?}");
        assert!(level.take_at(Duration::from_secs(5), 1, 10).is_ok());
    }

    #[test]
    fn a_new_rate_holds_at_once_and_nothing_may_be_taken_at_a_rate_of_none() {
        let mut level = Level::default();
        level.take_at(ms(0), 10, 10).unwrap();
        assert!(level.take_at(ms(0), 1, 10).is_err());
        level.take_at(ms(0), 1, 1000).unwrap();
        assert_eq!(Level::default().take_at(ms(0), 1, 0), Err(RETRY_NOTHING));
    }
}
