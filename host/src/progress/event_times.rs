//! [`EventTimes`]: the event times of a batch in four numbers.

use crate::event::Millis;

/// The event times of a batch: how many, the least, the greatest, and their exact sum.
///
/// Spark keeps a running average in floating point. A sum of 128 bits holds 2^64 times of 64 bits, so here nothing is
/// rounded before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTimes {
    count: u64,
    sum: i128,
    /// None when there are no events.
    ends: Option<(Millis, Millis)>,
}

impl EventTimes {
    /// Adds one event.
    pub fn add(&mut self, time: Millis) {
        self.merge(&EventTimes { count: 1, sum: i128::from(time.0), ends: Some((time, time)) });
    }

    /// Adds the events of another part of the batch. A part without events changes nothing.
    pub fn merge(&mut self, other: &EventTimes) {
        self.count += other.count;
        self.sum += other.sum;
        self.ends = match (self.ends, other.ends) {
            (Some((min, max)), Some((other_min, other_max))) => Some((min.min(other_min), max.max(other_max))),
            (ends, other) => ends.or(other),
        };
    }

    /// The earliest.
    pub fn min(&self) -> Option<Millis> {
        self.ends.map(|(min, _)| min)
    }

    /// The latest.
    pub fn max(&self) -> Option<Millis> {
        self.ends.map(|(_, max)| max)
    }

    /// The average; what is left of a millisecond is dropped, as in Spark.
    pub fn avg(&self) -> Option<Millis> {
        let avg = self.sum.checked_div(i128::from(self.count))?;
        Some(Millis(i64::try_from(avg).expect("an average lies between the least and the greatest")))
    }
}

impl FromIterator<Millis> for EventTimes {
    fn from_iter<I: IntoIterator<Item = Millis>>(times: I) -> Self {
        let mut all = EventTimes::default();
        times.into_iter().for_each(|time| all.add(time));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times: &[i64]) -> EventTimes {
        times.iter().copied().map(Millis).collect()
    }

    #[test]
    fn the_average_of_times_whose_sum_is_no_longer_a_64_bit_number_is_exact() {
        assert_eq!(of(&[i64::MAX, i64::MAX - 2]).avg(), Some(Millis(i64::MAX - 1)));
        assert_eq!(of(&[i64::MAX; 1000]).avg(), Some(Millis(i64::MAX)));
        assert_eq!(of(&[i64::MIN; 1000]).avg(), Some(Millis(i64::MIN)));
        assert_eq!(of(&[i64::MIN, i64::MAX]).avg(), Some(Millis(0)));
        // Beyond 2^53 floating point no longer tells neighbours apart.
        let large = 1 << 60;
        assert_eq!(of(&[large + 1, large + 2, large + 3]).avg(), Some(Millis(large + 2)));
        assert_eq!(of(&[10, 12, 15]).avg(), Some(Millis(12)));
    }

    #[test]
    fn no_events_are_neutral_and_have_no_average() {
        let none = EventTimes::default();
        assert_eq!((none.min(), none.avg(), none.max()), (None, None, None));
        let some = of(&[-5, 7, 10]);
        for (mut left, right) in [(none, some), (some, none)] {
            left.merge(&right);
            assert_eq!(left, some);
        }
        assert_eq!((some.min(), some.avg(), some.max()), (Some(Millis(-5)), Some(Millis(4)), Some(Millis(10))));
    }

    proptest! {
        #[test]
        fn parts_in_any_division_give_what_the_whole_gives(times in proptest::collection::vec(any::<i64>(), 0..20), cut in 0..20_usize) {
            let (left, right) = times.split_at(cut.min(times.len()));
            let mut merged = of(left);
            merged.merge(&of(right));
            prop_assert_eq!(merged, of(&times));
            prop_assert_eq!(merged.min().map(|min| min.0), times.iter().min().copied());
            prop_assert_eq!(merged.max().map(|max| max.0), times.iter().max().copied());
        }
    }
}
