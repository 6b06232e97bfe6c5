//! [`Disorder`]: events that arrive after younger ones, far too late, or twice.

use super::{Random, Share};
use crate::event::Millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How the stream is disturbed between its making and its writing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DisorderSettings {
    /// Events that arrive up to `displaced_ms_max` late.
    pub out_of_order: Share,
    /// See `out_of_order`.
    pub displaced_ms_max: u32,
    /// Events that arrive [`LATE_MS`] late.
    pub late: Share,
    /// Events that arrive a second time, up to `displaced_ms_max` later.
    pub duplicates: Share,
}

/// Far behind every sensible watermark delay.
pub const LATE_MS: std::ops::RangeInclusive<u32> = 600_000..=3_600_000;

/// Holds events back.
pub struct Disorder {
    settings: DisorderSettings,
    random: Random,
    /// By the time at which they arrive, then by the order in which they were held back.
    held: BinaryHeap<Reverse<(Millis, u64, Vec<u8>)>>,
    held_count: u64,
}

impl Disorder {
    /// Draws from its own sequence, so that the events are the same with and without disorder.
    pub fn new(settings: DisorderSettings, seed: u64) -> Self {
        const SEQUENCE: u64 = 2;
        Disorder { settings, random: Random::new(seed, SEQUENCE), held: BinaryHeap::new(), held_count: 0 }
    }

    /// Takes the next event (with its line break) and adds to `arrived` what arrives now.
    pub fn pass(&mut self, time: Millis, line: &[u8], arrived: &mut Vec<u8>) {
        while let Some(Reverse(held)) = self.held.peek()
            && held.0 <= time
        {
            self.release(arrived);
        }
        let displaced_ms_max = self.settings.displaced_ms_max.max(1);
        if self.random.chance(self.settings.duplicates) {
            let delay_ms = self.random.below(displaced_ms_max);
            self.hold(time, delay_ms, line);
        }
        if self.random.chance(self.settings.late) {
            let delay_ms = self.random.between(*LATE_MS.start(), *LATE_MS.end());
            self.hold(time, delay_ms, line);
        } else if self.random.chance(self.settings.out_of_order) {
            let delay_ms = self.random.between(1, displaced_ms_max);
            self.hold(time, delay_ms, line);
        } else {
            arrived.extend_from_slice(line);
        }
    }

    /// Adds to `arrived` what is still held back.
    pub fn finish(&mut self, arrived: &mut Vec<u8>) {
        while !self.held.is_empty() {
            self.release(arrived);
        }
    }

    fn hold(&mut self, time: Millis, delay_ms: u32, line: &[u8]) {
        self.held.push(Reverse((Millis(time.0 + i64::from(delay_ms)), self.held_count, line.to_vec())));
        self.held_count += 1;
    }

    fn release(&mut self, arrived: &mut Vec<u8>) {
        if let Some(Reverse((_, _, line))) = self.held.pop() {
            arrived.extend_from_slice(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(settings: DisorderSettings) -> Vec<i64> {
        let mut disorder = Disorder::new(settings, 1);
        let mut arrived = Vec::new();
        for second in 0..20_000 {
            disorder.pass(Millis(second * 1000), format!("{second}\n").as_bytes(), &mut arrived);
        }
        disorder.finish(&mut arrived);
        String::from_utf8(arrived).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// How many seconds each event lies behind the youngest before it.
    fn behind(arrivals: &[i64]) -> Vec<i64> {
        let mut youngest = 0;
        let behind = |&second: &i64| {
            youngest = youngest.max(second);
            youngest - second
        };
        arrivals.iter().map(behind).collect()
    }

    #[test]
    fn without_shares_nothing_changes() {
        assert!(arrivals(DisorderSettings::default()).iter().copied().eq(0..20_000));
    }

    #[test]
    fn displaced_events_stay_within_the_limit() {
        let settings =
            DisorderSettings { out_of_order: Share::percent(20), displaced_ms_max: 30_000, ..Default::default() };
        let arrivals = arrivals(settings);
        assert_eq!(arrivals.len(), 20_000);
        let behind = behind(&arrivals);
        assert!(behind.iter().all(|&seconds| seconds <= 30));
        assert!(behind.iter().filter(|&&seconds| seconds > 0).count() > 3_000);
    }

    #[test]
    fn late_events_are_far_behind_and_duplicates_are_added() {
        let settings =
            DisorderSettings { late: Share::percent(1), duplicates: Share::percent(5), ..Default::default() };
        let mut arrivals = arrivals(settings);
        // Some of the last ones are late as well, but nothing younger comes before they are let go.
        let late = behind(&arrivals).iter().filter(|&&seconds| seconds >= 590).count();
        assert!((150..250).contains(&late), "{late}");
        assert!((20_900..21_100).contains(&arrivals.len()), "{}", arrivals.len());
        arrivals.sort_unstable();
        arrivals.dedup();
        assert_eq!(arrivals.len(), 20_000);
    }
}
