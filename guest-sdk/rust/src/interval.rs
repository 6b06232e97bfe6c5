//! [`Interval`]: durations as Spark takes them.

use crate::StateError;
use std::time::Duration;

/// A length of time: milliseconds as `i64`, a [`Duration`], or text such as `"30 minutes"`, `"1 hour 30 minutes"`.
///
/// Text is Spark's interval: numbers with units `microsecond`, `millisecond`, `second`, `minute`, `hour`, `day`, `week`,
/// `month` (31 days) and `year` (12 months), singular or plural, and the short forms `ms`, `s`, `m`, `h`, `d`; an
/// optional leading `interval`. The parts are added up.
pub trait Interval {
    /// The length in milliseconds. Text that does not parse, or whose sum is negative, is an illegal argument.
    fn to_millis(&self) -> Result<i64, StateError>;
}

impl Interval for i64 {
    fn to_millis(&self) -> Result<i64, StateError> {
        Ok(*self)
    }
}

impl Interval for Duration {
    fn to_millis(&self) -> Result<i64, StateError> {
        i64::try_from(self.as_millis())
            .map_err(|_| StateError::IllegalArgument(format!("the duration {self:?} is longer than time itself")))
    }
}

impl Interval for str {
    fn to_millis(&self) -> Result<i64, StateError> {
        let illegal = |why: &str| StateError::IllegalArgument(format!("'{self}' is not an interval: {why}"));
        let mut micros: i128 = 0;
        let mut words = split(self).into_iter().peekable();
        if words.peek().is_some_and(|word| word.eq_ignore_ascii_case("interval")) {
            words.next();
        }
        if words.peek().is_none() {
            return Err(illegal("it is empty"));
        }
        while let Some(number) = words.next() {
            let count: i64 = number.parse().map_err(|_| illegal(&format!("'{number}' is not a whole number")))?;
            let unit = words.next().ok_or_else(|| illegal(&format!("{number} has no unit")))?;
            let unit_micros = micros_of(&unit).ok_or_else(|| illegal(&format!("'{unit}' is not a unit")))?;
            micros += i128::from(count) * i128::from(unit_micros);
        }
        if micros < 0 {
            return Err(illegal("it is negative"));
        }
        i64::try_from(micros / 1000).map_err(|_| illegal("it is too long"))
    }
}

impl Interval for String {
    fn to_millis(&self) -> Result<i64, StateError> {
        self.as_str().to_millis()
    }
}

impl<I: Interval + ?Sized> Interval for &I {
    fn to_millis(&self) -> Result<i64, StateError> {
        (**self).to_millis()
    }
}

/// Words, with `10s` cut into `10` and `s`.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(word.len());
        if digits > 0 && digits < word.len() {
            words.push(word[..digits].to_owned());
            words.push(word[digits..].to_owned());
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

fn micros_of(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 24 * 3600 * SECOND;
    let unit = unit.to_ascii_lowercase();
    Some(match unit.as_str() {
        "microsecond" | "microseconds" | "us" => 1,
        "millisecond" | "milliseconds" | "ms" => 1000,
        "second" | "seconds" | "s" => SECOND,
        "minute" | "minutes" | "m" => 60 * SECOND,
        "hour" | "hours" | "h" => 3600 * SECOND,
        "day" | "days" | "d" => DAY,
        "week" | "weeks" => 7 * DAY,
        "month" | "months" => 31 * DAY,
        "year" | "years" => 12 * 31 * DAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_summed_with_months_of_31_days() {
        assert_eq!("30 minutes".to_millis(), Ok(1_800_000));
        assert_eq!("interval 1 hour -10 minutes".to_millis(), Ok(3_000_000));
        assert_eq!("1 month".to_millis(), Ok(31 * 86_400_000));
        assert_eq!("10s".to_millis(), Ok(10_000));
        assert_eq!("0 seconds".to_millis(), Ok(0));
    }

    #[test]
    fn negative_sums_and_nonsense_are_illegal_arguments() {
        for text in ["-1 second", "1 day -25 hours", "", "ten minutes", "5", "5 fortnights"] {
            assert!(matches!(text.to_millis(), Err(StateError::IllegalArgument(_))), "{text}");
        }
    }
}
