//! [`Breaker`]: when a sink that failed is tried again, and when it counts as down.

use crate::sink::Outage;
use std::time::Duration;

/// A receiver may ask for a pause of any length. One that was mistaken for a date far away must not stop a rule for ever.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// How a sink that fails is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The pause after the first failure; it doubles with each further one.
    pub pause_min: Duration,
    /// No pause is longer, unless the receiver asks for it.
    pub pause_max: Duration,
    /// After so many failures in a row the sink counts as down.
    pub failures_max: u32,
}

impl Default for Retry {
    /// A receiver that restarts is tried every second or two and not told of; one that is down for long is asked twice a minute.
    fn default() -> Self {
        Retry { pause_min: Duration::from_millis(100), pause_max: Duration::from_secs(30), failures_max: 5 }
    }
}

/// Counts failures in a row. While it is open, each attempt is a single probe.
#[derive(Debug)]
pub(super) struct Breaker {
    retry: Retry,
    failures: u32,
    /// When it opened, by the caller's stopwatch.
    open_since: Option<Duration>,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    /// How long to wait before the next attempt.
    pub length: Duration,
    /// Whether this failure opened the breaker.
    pub has_opened: bool,
}

impl Breaker {
    pub fn new(retry: Retry) -> Self {
        Breaker { retry, failures: 0, open_since: None }
    }

    /// An attempt failed at this time. `random` spreads the attempts of many hosts: without it all of them would come back to
    /// a receiver at the same moment.
    pub fn failed(&mut self, outage: &Outage, now: Duration, random: u64) -> Pause {
        if outage.took_some {
            self.failures = 0;
        }
        let pause = self.pause(random);
        self.failures = self.failures.saturating_add(1);
        let has_opened = self.open_since.is_none() && self.failures >= self.retry.failures_max.max(1);
        if has_opened {
            self.open_since = Some(now);
        }
        let length = outage.retry_after.map_or(pause, |asked| pause.max(asked.min(RETRY_AFTER_MAX)));
        Pause { length, has_opened }
    }

    /// An attempt succeeded. Returns how long the breaker was open, if it was.
    pub fn succeeded(&mut self, now: Duration) -> Option<Duration> {
        self.failures = 0;
        self.open_since.take().map(|since| now.saturating_sub(since))
    }

    /// At least half of the pause, and at most all of it.
    fn pause(&self, random: u64) -> Duration {
        let doubled = self.retry.pause_min.saturating_mul(2_u32.saturating_pow(self.failures));
        let half = doubled.min(self.retry.pause_max) / 2;
        let spread_ns = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(random % spread_ns.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    const RETRY: Retry =
        Retry { pause_min: Duration::from_millis(100), pause_max: Duration::from_secs(1), failures_max: 3 };

    fn outage() -> Outage {
        anyhow!("connection refused").into()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_their_second_half() {
        let lengths = |random: u64| {
            let mut breaker = Breaker::new(RETRY);
            (0..40).map(|_| breaker.failed(&outage(), at(0), random).length.as_millis()).collect::<Vec<_>>()
        };
        let (shortest, longest) = (lengths(0), lengths(u64::MAX));
        assert_eq!(shortest[..6], [50, 100, 200, 400, 500, 500]);
        for (number, (shortest, longest)) in shortest.iter().zip(&longest).enumerate() {
            assert!(shortest <= longest && *longest <= (100 << number.min(5)).min(1000), "{shortest} {longest}");
        }
        assert!(longest[39] > shortest[39], "random numbers make a difference");
    }

    #[test]
    fn it_opens_once_after_so_many_failures_in_a_row_and_says_how_long_it_was_open() {
        let mut breaker = Breaker::new(RETRY);
        let opened: Vec<bool> = (1..=6).map(|now| breaker.failed(&outage(), at(now), 0).has_opened).collect();
        assert_eq!(opened, [false, false, true, false, false, false]);
        assert_eq!(breaker.succeeded(at(10)), Some(at(7)));
        assert_eq!(breaker.succeeded(at(11)), None, "it is closed already");
        assert_eq!(breaker.failed(&outage(), at(12), 0).length, Duration::from_millis(50), "it begins anew");
    }

    #[test]
    fn a_success_or_a_part_that_was_taken_begins_the_row_anew() {
        let mut breaker = Breaker::new(RETRY);
        for now in 0..20 {
            let has_opened = breaker.failed(&outage(), at(now), 0).has_opened
                || breaker.failed(&Outage { took_some: true, ..outage() }, at(now), 0).has_opened;
            assert!(!has_opened, "two failures in a row are less than three");
        }
        breaker.succeeded(at(20));
        assert!(!breaker.failed(&outage(), at(21), 0).has_opened);
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_but_not_for_ever() {
        let asked = |seconds: u64| Outage { retry_after: Some(at(seconds)), ..outage() };
        let length = |outage: &Outage| Breaker::new(RETRY).failed(outage, at(0), 0).length;
        assert_eq!(length(&asked(0)), Duration::from_millis(50));
        assert_eq!(length(&asked(120)), at(120));
        assert_eq!(length(&asked(u64::MAX)), RETRY_AFTER_MAX);
    }

    #[test]
    fn no_setting_overflows() {
        for pause in [Duration::ZERO, Duration::MAX] {
            let retry = Retry { pause_min: pause, pause_max: pause, failures_max: 0 };
            let mut breaker = Breaker::new(retry);
            (0..100).for_each(|_| assert!(breaker.failed(&outage(), at(0), u64::MAX).length <= pause));
        }
    }
}
