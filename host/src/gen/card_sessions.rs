//! `card-sessions`: card payments of users of very different activity, for sessions by inactivity and high amounts in them.
//!
//! The last event, of a user who has no other, lies a day after the rest: a rule with an event-time timeout then closes
//! every session.

use super::{Line, Pace, Random, Scenario, Settings, Share, Zipf};
use crate::event::Millis;

/// From here on an amount is high; the other amounts lie below.
const HIGH_MINOR: u32 = 50_000;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The payments, in time order.
pub struct CardSessions {
    random: Random,
    users: Zipf,
    pace: Pace,
    high_share: Share,
    events: u64,
    made: u64,
}

impl CardSessions {
    /// `settings.events` payments and the last one.
    pub fn new(settings: &Settings) -> Self {
        let mut random = Random::new(settings.seed, 0);
        CardSessions {
            users: Zipf::new(settings.keys, settings.zipf, &mut random),
            pace: Pace::new(settings.start, settings.span_ms, settings.events),
            high_share: settings.high_share,
            events: settings.events,
            made: 0,
            random,
        }
    }
}

impl Scenario for CardSessions {
    fn next(&mut self, line: &mut Vec<u8>) -> Option<Millis> {
        let number = self.made;
        self.made += 1;
        if number >= self.events {
            let end = Millis(self.pace.slot_start(number).0 + DAY_MS);
            return (number == self.events).then(|| last(number, end, line));
        }
        let user = self.users.draw(&mut self.random);
        let high = self.random.chance(self.high_share);
        let amount =
            if high { self.random.between(HIGH_MINOR, 499_999) } else { self.random.between(100, HIGH_MINOR - 1) };
        let time = self.pace.time(number, &mut self.random);
        let place = self.random.draw();
        Line::with_id(line, "id", b't', number, 7)
            .id("user_id", b'u', user, 6)
            .time("ts", time)
            .number("amount_minor", amount)
            .text("currency", ["EUR", "USD", "GBP"][(place % 3) as usize])
            .id("merchant", b'm', place % 5000, 4)
            .text("country", ["DE", "FR", "IT", "ES"][(place % 4) as usize])
            .id("device", b'd', place % 9973, 4)
            .end();
        Some(time)
    }
}

fn last(number: u64, time: Millis, line: &mut Vec<u8>) -> Millis {
    Line::with_id(line, "id", b't', number, 7)
        .text("user_id", "zzz-end")
        .time("ts", time)
        .number("amount_minor", 100u32)
        .text("currency", "EUR")
        .id("merchant", b'm', 0u32, 4)
        .text("country", "DE")
        .id("device", b'd', 0u32, 4)
        .end();
    time
}
