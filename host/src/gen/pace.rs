//! [`Pace`]: event times spread evenly over a span, each at a random place in its own slot.

use super::Random;
use crate::event::Millis;

/// Event times that only go forward: time `i` of `count` lies in the i-th of `count` equal slots of the span.
pub struct Pace {
    start: Millis,
    /// The length of a slot, in 2^-32 ms.
    slot: u128,
}

impl Pace {
    /// `count` is not 0.
    pub fn new(start: Millis, span_ms: u64, count: u64) -> Self {
        Pace { start, slot: (u128::from(span_ms) << 32) / u128::from(count) }
    }

    /// A time in the slot of this number, which may lie beyond `count`.
    pub fn time(&self, number: u64, random: &mut Random) -> Millis {
        let place = (u128::from(number) << 32) + u128::from(random.draw());
        Millis(self.start.0 + ((place * self.slot) >> 64) as i64)
    }

    /// Where the slot of this number begins.
    pub fn slot_start(&self, number: u64) -> Millis {
        Millis(self.start.0 + ((u128::from(number) * self.slot) >> 32) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_forward_and_fill_the_span() {
        let pace = Pace::new(Millis(1_000), 3_600_000, 7_001);
        let mut random = Random::new(1, 0);
        let times: Vec<i64> = (0..7_001).map(|number| pace.time(number, &mut random).0).collect();
        assert!(times.is_sorted());
        assert!(times[0] < 1_515, "{}", times[0]);
        assert!((3_600_000..3_601_000).contains(&times[7_000]), "{}", times[7_000]);
        assert_eq!(pace.slot_start(7_001), Millis(3_600_999));
    }
}
