//! Episodes of fraud: which payments one consists of, and its [`Label`].

use super::fraud::HIGH_MINOR;
use super::{Random, Settings};
use crate::event::Millis;
use anyhow::{Result, ensure};
use serde::Serialize;

/// One payment, before it is written.
#[derive(Debug, Clone, Copy)]
pub struct Payment {
    pub time: Millis,
    /// The number of the user.
    pub user: u32,
    pub amount_minor: u32,
    /// The country, when it is not the user's own.
    pub abroad: Option<&'static str>,
    /// Made by a thief, from a device that the user does not own.
    pub stolen: bool,
}

/// What is known about one episode: the answer that a rule should find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The victim.
    pub user_id: String,
    /// How the episode goes.
    pub kind: Kind,
    /// The time of its first payment.
    pub start: Millis,
    /// The time of its last payment.
    pub end: Millis,
    /// How many payments it has.
    pub payments: u32,
    /// Whether it goes on in a way that confirms the suspicion.
    pub confirmed: bool,
}

/// How an episode goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Six high payments within minutes, and two to four more.
    Burst,
    /// Six high payments within minutes, and one in another country.
    Abroad,
    /// Six high payments, each up to 28 minutes after the one before, and two more within minutes. No window of an hour
    /// has more than a few of them; the session has all.
    Slow,
    /// Six high payments within minutes, and nothing more: the suspicion is to be dropped.
    Cleared,
}

/// So many high payments in one session are suspicious.
const SUSPICIOUS: u32 = 6;

/// What an episode has on average, kinds by their frequency (see [`Kind::draw`]).
const PAYMENTS_AVERAGE: u64 = 8;

const ABROAD: [&str; 8] = ["BR", "US", "TH", "NG", "TR", "MX", "AE", "VN"];

/// The payments of all episodes in time order, and the labels by their start.
pub fn all(settings: &Settings) -> Result<(Vec<Payment>, Vec<Label>)> {
    let mut random = Random::new(settings.seed, 1);
    let payments_max = settings.fraud_share.of(settings.events) as usize;
    let count = payments_max as u64 / PAYMENTS_AVERAGE;
    ensure!(
        count <= u64::from(settings.keys),
        "this share of fraud makes {count} episodes, and there are only {} users, each with at most one: \
         lower --fraud-share or raise --users",
        settings.keys
    );
    let victims = random.shuffled(settings.keys);
    let mut payments = Vec::with_capacity(payments_max);
    let mut labels = Vec::with_capacity(count as usize);
    for &user in &victims[..count as usize] {
        let first = payments.len();
        let kind = Kind::draw(&mut random);
        kind.play(user, settings, &mut random, &mut payments);
        if payments.len() > payments_max {
            payments.truncate(first);
            break;
        }
        labels.push(label(kind, &payments[first..]));
    }
    payments.sort_by_key(|payment| (payment.time, payment.user));
    labels.sort_by(|one, other| (one.start, &one.user_id).cmp(&(other.start, &other.user_id)));
    Ok((payments, labels))
}

impl Kind {
    fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..45 => Kind::Burst,
            45..70 => Kind::Abroad,
            70..80 => Kind::Slow,
            _ => Kind::Cleared,
        }
    }

    /// Adds the payments of one episode, in time order.
    fn play(self, user: u32, settings: &Settings, random: &mut Random, payments: &mut Vec<Payment>) {
        let gap_s = if self == Kind::Slow { (15 * 60, 28 * 60) } else { (20, 150) };
        let length_max_ms = u64::from(SUSPICIOUS * gap_s.1 + 10 * 60) * 1000;
        let room_s = settings.span_ms.saturating_sub(length_max_ms) / 1000;
        let begin_ms = u64::from(random.below(room_s.clamp(1, u64::from(u32::MAX)) as u32)) * 1000;
        let mut time = Millis(settings.start.0 + begin_ms as i64);
        let mut pay = |random: &mut Random, wait_s: (u32, u32), high: bool, abroad: Option<&'static str>| {
            time = Millis(time.0 + i64::from(random.between(wait_s.0 * 1000, wait_s.1 * 1000)));
            let amount_minor =
                if high { random.between(HIGH_MINOR, 480_000) } else { random.between(500, HIGH_MINOR - 1) };
            payments.push(Payment { time, user, amount_minor, abroad, stolen: true });
        };
        for _ in 0..SUSPICIOUS {
            pay(random, gap_s, true, None);
        }
        // A suspicion is dropped after ten minutes, so what confirms it comes sooner.
        match self {
            Kind::Burst => (0..random.between(2, 4)).for_each(|_| pay(random, (20, 120), true, None)),
            Kind::Slow => (0..2).for_each(|_| pay(random, (60, 240), true, None)),
            Kind::Abroad => {
                let country = random.one_of(&ABROAD);
                let high = random.below(2) == 0;
                pay(random, (60, 420), high, Some(country));
            }
            Kind::Cleared => {}
        }
    }
}

fn label(kind: Kind, payments: &[Payment]) -> Label {
    let (first, last) = (payments[0], payments[payments.len() - 1]);
    Label {
        user_id: format!("u{:06}", first.user),
        kind,
        start: first.time,
        end: last.time,
        payments: payments.len() as u32,
        confirmed: kind != Kind::Cleared,
    }
}
