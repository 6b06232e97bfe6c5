//! The event time of a record.

use super::Refusal;
use super::decimal::Decimal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How an event time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFormat {
    /// Milliseconds since 1970-01-01T00:00:00Z: a number, or text that is one. Fractions are rounded down.
    EpochMs,
    /// Seconds since then, also with a fraction.
    EpochS,
    /// Text such as `2026-01-31T08:00:00.125+01:00`.
    Rfc3339,
}

/// 0001-01-01T00:00:00Z. What lies before it is more likely a mistake than a time.
const TIME_MS_MIN: i64 = -62_135_596_800_000;

/// 9999-12-31T23:59:59.999Z.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// How much of a value is shown in a message.
const SHOWN_CHARS: usize = 60;

impl TimeFormat {
    /// The name, as it is written in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            TimeFormat::EpochMs => "epoch-ms",
            TimeFormat::EpochS => "epoch-s",
            TimeFormat::Rfc3339 => "rfc3339",
        }
    }

    /// Reads a time from its JSON text, in milliseconds.
    pub(super) fn read(self, json: Option<&str>, pointer: &str) -> Result<i64, Box<Refusal>> {
        let refuse = |reason, message: String| Err(Box::new(Refusal::new(reason, message)));
        let Some(json) = json.filter(|json| *json != "null") else {
            return refuse("missing-event-time", format!("the event time {pointer} is missing or null"));
        };
        if let Some(time_ms) = self.plain(json) {
            return Ok(time_ms);
        }
        let shown = || json.chars().take(SHOWN_CHARS).collect::<String>();
        match self.parse(json) {
            Ok(Some(time_ms)) if (TIME_MS_MIN..=TIME_MS_MAX).contains(&time_ms) => Ok(time_ms),
            Ok(_) => {
                let (value, name, hint) = (shown(), self.name(), self.hint());
                let message =
                    format!("the event time {pointer} is {value}: as {name} outside the years 0001 to 9999{hint}");
                refuse("event-time-out-of-range", message)
            }
            Err(why) => {
                let message = format!("the event time {pointer} is {}, not {}: {why}", shown(), self.name());
                refuse("invalid-event-time", message)
            }
        }
    }

    /// None: it is a time, but beyond 64 bits.
    /// What nearly all times are: a whole number in digits, of this century or near it.
    fn plain(self, json: &str) -> Option<i64> {
        /// No time with so few digits is after the year 9999.
        const DIGITS_MAX: usize = 13;
        let is_plain = json.len() <= DIGITS_MAX && json.bytes().all(|byte| byte.is_ascii_digit());
        if self != TimeFormat::EpochMs || !is_plain {
            return None;
        }
        json.parse().ok()
    }

    fn parse(self, json: &str) -> Result<Option<i64>, String> {
        let quoted = json.starts_with('"');
        let unescaped: String;
        let text = match quoted {
            false => json,
            true if !json.contains('\\') => &json[1..json.len() - 1],
            true => {
                unescaped = serde_json::from_str(json).map_err(|error| error.to_string())?;
                &unescaped
            }
        };
        let shift = match self {
            TimeFormat::EpochMs => 0,
            TimeFormat::EpochS => 3,
            TimeFormat::Rfc3339 if quoted => {
                let time: Timestamp = text.parse().map_err(|error: jiff::Error| error.to_string())?;
                return Ok(Some(time.as_nanosecond().div_euclid(1_000_000) as i64));
            }
            TimeFormat::Rfc3339 => return Err("it has to be text; for numbers choose epoch-ms or epoch-s".to_owned()),
        };
        Ok(Decimal::parse(text).ok_or("it has to be a number, or text that is one")?.floor(shift))
    }

    fn hint(self) -> &'static str {
        match self {
            TimeFormat::EpochMs => "; it may be in microseconds or nanoseconds",
            TimeFormat::EpochS => "; it may be in milliseconds (epoch-ms) or microseconds",
            TimeFormat::Rfc3339 => "",
        }
    }
}
