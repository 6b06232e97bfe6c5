//! [`Bucket`]: a rate with some patience: tokens come in evenly, and so many are kept for a burst.

use std::time::Duration;

/// Tokens that come in evenly. It may be overdrawn: what was used was not known before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    tokens: f64,
    per_second: f64,
    tokens_max: f64,
    filled_at: Duration,
}

impl Bucket {
    /// A full one.
    pub fn new(per_second: f64, tokens_max: f64, now: Duration) -> Self {
        Bucket { tokens: tokens_max, per_second, tokens_max, filled_at: now }
    }

    /// Goes on with another rate. What was used stays used.
    pub fn set(&mut self, per_second: f64, tokens_max: f64, now: Duration) {
        self.fill(now);
        *self = Bucket { tokens: self.tokens.min(tokens_max), per_second, tokens_max, ..*self };
    }

    /// Takes tokens, also those that are not there.
    pub fn take(&mut self, tokens: f64, now: Duration) {
        self.fill(now);
        self.tokens -= tokens;
    }

    /// How long there is nothing; zero when there is something.
    pub fn empty_for(&mut self, now: Duration) -> Duration {
        self.fill(now);
        match self.tokens {
            tokens if tokens > 0.0 => Duration::ZERO,
            // A little more than nothing, so that it is not asked again for a fraction.
            tokens => Duration::from_secs_f64(((1.0 - tokens) / self.per_second.max(f64::MIN_POSITIVE)).min(WAIT_MAX)),
        }
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.tokens_max);
        self.filled_at = self.filled_at.max(now);
    }
}

/// Nobody waits longer than this without looking again, so that a rate that was raised is noticed. In seconds.
const WAIT_MAX: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_overdrawn_is_paid_back_at_the_rate() {
        let at = Duration::from_millis;
        let mut bucket = Bucket::new(1000.0, 10.0, at(0));
        bucket.take(60.0, at(0));
        assert_eq!(bucket.empty_for(at(0)), at(51));
        assert_eq!(bucket.empty_for(at(50)), at(1));
        assert_eq!(bucket.empty_for(at(51)), Duration::ZERO);
        bucket.take(0.0, at(10_000));
        bucket.take(10.0, at(10_000));
        assert!(bucket.empty_for(at(10_000)) > Duration::ZERO, "no more than a burst is saved up");
    }

    #[test]
    fn another_rate_forgives_nothing() {
        let at = Duration::from_millis;
        let mut bucket = Bucket::new(1.0, 1.0, at(0));
        bucket.take(3.0, at(0));
        bucket.set(1000.0, 100.0, at(0));
        assert_eq!(bucket.empty_for(at(0)), at(3));
    }
}
