//! `fraud`: card payments with labelled episodes of fraud among them.
//!
//! Users pay low amounts in their own country, and now and then a high one. An episode is six high payments of one user
//! in one session, and then what confirms the suspicion, or nothing. A user has at most one episode.

use super::episode::{self, Payment};
use super::{Label, Line, Pace, Random, Scenario, Settings, Share, Zipf};
use crate::event::Millis;
use anyhow::Result;
use std::iter::Peekable;
use std::vec;

/// From here on an amount is high.
pub(super) const HIGH_MINOR: u32 = 50_000;

/// Where users live, and the money there.
const HOMES: [(&str, &str); 6] =
    [("DE", "EUR"), ("FR", "EUR"), ("IT", "EUR"), ("ES", "EUR"), ("GB", "GBP"), ("PL", "PLN")];

/// The payments, in time order.
pub struct Fraud {
    random: Random,
    users: Zipf,
    pace: Pace,
    high_share: Share,
    /// Payments of episodes that are not written yet, in time order.
    fraudulent: Peekable<vec::IntoIter<Payment>>,
    labels: Vec<Label>,
    /// The next payment that belongs to no episode, and how many there are left to make after it.
    ordinary: Option<Payment>,
    ordinary_left: u64,
    ordinary_made: u64,
    written: u64,
}

impl Fraud {
    /// `settings.events` payments. Refuses a share of fraud that needs more episodes than there are users.
    pub fn new(settings: &Settings) -> Result<Self> {
        let mut random = Random::new(settings.seed, 0);
        let users = Zipf::new(settings.keys, settings.zipf, &mut random);
        let (fraudulent, labels) = episode::all(settings)?;
        let ordinary = settings.events - fraudulent.len() as u64;
        let mut fraud = Fraud {
            users,
            pace: Pace::new(settings.start, settings.span_ms, ordinary.max(1)),
            high_share: settings.high_share,
            fraudulent: fraudulent.into_iter().peekable(),
            labels,
            ordinary: None,
            ordinary_left: ordinary,
            ordinary_made: 0,
            written: 0,
            random,
        };
        fraud.draw_ordinary();
        Ok(fraud)
    }

    fn draw_ordinary(&mut self) {
        if self.ordinary_left == 0 {
            return;
        }
        let user = self.users.draw(&mut self.random);
        let high = self.random.chance(self.high_share);
        let amount_minor =
            if high { self.random.between(HIGH_MINOR, 250_000) } else { self.random.between(150, HIGH_MINOR - 1) };
        let time = self.pace.time(self.ordinary_made, &mut self.random);
        self.ordinary = Some(Payment { time, user, amount_minor, abroad: None, stolen: false });
        self.ordinary_left -= 1;
        self.ordinary_made += 1;
    }

    fn next_payment(&mut self) -> Option<Payment> {
        let fraud_is_next = match (&self.ordinary, self.fraudulent.peek()) {
            (Some(ordinary), Some(fraudulent)) => fraudulent.time < ordinary.time,
            (ordinary, _) => ordinary.is_none(),
        };
        if fraud_is_next {
            return self.fraudulent.next();
        }
        let payment = self.ordinary.take();
        self.draw_ordinary();
        payment
    }
}

impl Scenario for Fraud {
    fn next(&mut self, line: &mut Vec<u8>) -> Option<Millis> {
        let payment = self.next_payment()?;
        let (country, currency) = HOMES[payment.user as usize % HOMES.len()];
        // Two devices for each user; a thief brings his own.
        let device =
            if payment.stolen { 5_000_000 + payment.user } else { payment.user * 2 + payment.amount_minor % 2 };
        Line::new(line, "type", "payment.authorized.v1")
            .id("txn_id", b't', self.written, 7)
            .id("user_id", b'u', payment.user, 6)
            .time("ts", payment.time)
            .number("amount_minor", payment.amount_minor)
            .text("currency", currency)
            .id("merchant_id", b'm', self.random.below(5000), 4)
            .text("country", payment.abroad.unwrap_or(country))
            .id("device_id", b'd', device, 7)
            .end();
        self.written += 1;
        Some(payment.time)
    }

    fn labels(&self) -> &[Label] {
        &self.labels
    }
}
