//! [`Flaps`]: when a device came back from being offline.

use serde::{Deserialize, Serialize};

/// How many are kept. The oldest goes first; the count that makes a device flapping is at most this, so nothing is lost.
pub const FLAPS_MAX: usize = 8;

/// The last times that a device came back, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flaps(Vec<i64>);

impl Flaps {
    /// Adds the latest.
    pub fn push(&mut self, at_ms: i64) {
        if self.0.len() == FLAPS_MAX {
            self.0.remove(0);
        }
        self.0.push(at_ms);
    }

    /// How many lie in the window that ends at `now_ms`: after its beginning, and up to its end.
    pub fn count(&self, now_ms: i64, window_ms: i64) -> u32 {
        self.0.iter().filter(|&&at_ms| now_ms - window_ms < at_ms && at_ms <= now_ms).count() as u32
    }

    /// From when on fewer than `count` lie in the window, if no more are added. None when so few are known at all.
    pub fn calm_ms(&self, count: u32, window_ms: i64) -> Option<i64> {
        let oldest_that_counts = self.0.len().checked_sub(count as usize)?;
        self.0.get(oldest_that_counts).map(|at_ms| at_ms + window_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_open_at_its_beginning() {
        let mut flaps = Flaps::default();
        flaps.push(1_000);
        assert_eq!(flaps.count(10_999, 10_000), 1);
        assert_eq!(flaps.count(11_000, 10_000), 0);
        assert_eq!(flaps.calm_ms(1, 10_000), Some(11_000));
        assert_eq!(flaps.calm_ms(2, 10_000), None);
    }

    #[test]
    fn over_the_limit_the_oldest_goes() {
        let mut flaps = Flaps::default();
        (0..20).for_each(|at_ms| flaps.push(at_ms));
        assert_eq!(flaps.0, (12..20).collect::<Vec<_>>());
    }
}
