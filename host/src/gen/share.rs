//! [`Share`]: a part of the whole, from 0 to 1.

use anyhow::{Context, ensure};
use std::str::FromStr;

/// A part of the whole, from 0 to 1. Held as a whole number, so that drawing with it gives the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    millionths: u32,
}

impl Share {
    /// Nothing.
    pub const ZERO: Share = Share { millionths: 0 };

    /// So many hundredths.
    pub const fn percent(percent: u32) -> Self {
        Share { millionths: percent * 10_000 }
    }

    /// So many hundred-thousandths.
    pub const fn per_100_000(parts: u32) -> Self {
        Share { millionths: parts * 10 }
    }

    /// This share of a count, rounded down.
    pub fn of(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.millionths) / 1_000_000) as u64
    }

    /// The number below which a draw below 2^32 belongs to this share.
    pub(super) fn threshold(self) -> u64 {
        (u64::from(self.millionths) << 32) / 1_000_000
    }
}

impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let share: f64 = text.parse().with_context(|| format!("'{text}' is not a number from 0 to 1, such as 0.05"))?;
        ensure!((0.0..=1.0).contains(&share), "{text} is not from 0 to 1: 5 % is written 0.05");
        Ok(Share { millionths: (share * 1e6).round() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_millionths() {
        assert_eq!("0.1".parse::<Share>().unwrap(), Share::percent(10));
        assert_eq!("1".parse::<Share>().unwrap().of(7), 7);
        assert_eq!("0.0002".parse::<Share>().unwrap(), Share::per_100_000(20));
    }

    #[test]
    fn a_percentage_is_refused_with_the_way_to_write_it() {
        assert_eq!("5".parse::<Share>().unwrap_err().to_string(), "5 is not from 0 to 1: 5 % is written 0.05");
        assert!("NaN".parse::<Share>().is_err());
    }
}
