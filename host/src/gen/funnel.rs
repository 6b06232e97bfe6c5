//! `funnel`: visitors of a shop, from the first page to the payment, most of whom leave on the way.

use super::{Line, Pace, Random, Scenario, Settings, Share, Zipf};
use crate::event::Millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many events a visit has on average, to spread the beginnings of visits over the span.
const EVENTS_AVERAGE: u64 = 6;

/// Visits that stop for longer than any session's gap and go on.
const LONG_PAUSE: Share = Share::percent(1);

/// The events of all visits, in time order.
pub struct Funnel {
    random: Random,
    users: Zipf,
    pace: Pace,
    visits_begun: u64,
    /// The next event of each visit that goes on, the earliest on top.
    open: BinaryHeap<Reverse<Visit>>,
    /// The visit that begins next.
    coming: Visit,
    events_left: u64,
    orders: u64,
}

/// A visit before its next event. The order is that of the next events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    time: Millis,
    user: u32,
    stage: Stage,
    /// What lies in the cart, the last item added, and what it costs.
    items: u32,
    value_minor: u32,
    sku: u32,
    price_minor: u32,
}

/// The next event of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Page,
    Product,
    AddToCart,
    RemoveFromCart,
    Checkout,
    Pay,
}

impl Funnel {
    /// `settings.events` events.
    pub fn new(settings: &Settings) -> Self {
        let mut random = Random::new(settings.seed, 0);
        let users = Zipf::new(settings.keys, settings.zipf, &mut random);
        let pace = Pace::new(settings.start, settings.span_ms, settings.events.div_ceil(EVENTS_AVERAGE));
        let coming = Visit::begin(0, &users, &pace, &mut random);
        let events_left = settings.events;
        Funnel { random, users, pace, visits_begun: 1, open: BinaryHeap::new(), coming, events_left, orders: 0 }
    }

    /// The visit whose next event is the earliest.
    fn take_earliest(&mut self) -> Visit {
        match self.open.peek() {
            Some(Reverse(visit)) if visit.time <= self.coming.time => {
                let visit = *visit;
                self.open.pop();
                visit
            }
            _ => {
                let visit = self.coming;
                self.coming = Visit::begin(self.visits_begun, &self.users, &self.pace, &mut self.random);
                self.visits_begun += 1;
                visit
            }
        }
    }
}

impl Scenario for Funnel {
    fn next(&mut self, line: &mut Vec<u8>) -> Option<Millis> {
        self.events_left = self.events_left.checked_sub(1)?;
        let mut visit = self.take_earliest();
        let time = visit.time;
        if visit.stage == Stage::Pay {
            self.orders += 1;
        }
        visit.write(self.orders, line);
        if visit.go_on(&mut self.random) {
            self.open.push(Reverse(visit));
        }
        Some(time)
    }
}

impl Visit {
    fn begin(number: u64, users: &Zipf, pace: &Pace, random: &mut Random) -> Self {
        Visit {
            time: pace.time(number, random),
            user: users.draw(random),
            stage: Stage::Page,
            items: 0,
            value_minor: 0,
            sku: random.below(2_000),
            price_minor: random.between(500, 15_000),
        }
    }

    /// Writes the event of the stage.
    fn write(&self, orders: u64, line: &mut Vec<u8>) {
        let begin = |line, kind| Line::new(line, "type", kind).id("user_id", b'u', self.user, 6).time("ts", self.time);
        match self.stage {
            Stage::Page => begin(line, "page.view"),
            Stage::Product => begin(line, "product.view").id("sku", b'p', self.sku, 4),
            Stage::AddToCart => {
                begin(line, "cart.add").id("sku", b'p', self.sku, 4).number("value_minor", self.price_minor)
            }
            Stage::RemoveFromCart => {
                begin(line, "cart.remove").id("sku", b'p', self.sku, 4).number("value_minor", self.price_minor)
            }
            Stage::Checkout => begin(line, "checkout.start"),
            Stage::Pay => {
                begin(line, "payment.ok").id("order", b'o', orders, 6).number("value_minor", self.value_minor)
            }
        }
        .end();
    }

    /// Chooses the next event, or ends the visit.
    fn go_on(&mut self, random: &mut Random) -> bool {
        match self.stage {
            Stage::AddToCart => {
                self.items += 1;
                self.value_minor += self.price_minor;
            }
            Stage::RemoveFromCart => {
                self.items -= 1;
                self.value_minor -= self.price_minor;
            }
            _ => {}
        }
        let draw = random.below(100);
        let next = match (self.stage, draw) {
            (Stage::Page, 0..30) => Stage::Page,
            (Stage::Page | Stage::Product, 30..75) => Stage::Product,
            (Stage::Product, 0..30) => Stage::AddToCart,
            (Stage::AddToCart, 0..35) | (Stage::RemoveFromCart, 0..40) => Stage::Product,
            (Stage::AddToCart, 35..45) => Stage::RemoveFromCart,
            (Stage::AddToCart, 45..85) => Stage::Checkout,
            (Stage::RemoveFromCart, 40..80) if self.items > 0 => Stage::Checkout,
            (Stage::Checkout, 0..70) => Stage::Pay,
            _ => return false,
        };
        if next == Stage::Product {
            self.sku = random.below(2_000);
            self.price_minor = random.between(500, 15_000);
        }
        self.stage = next;
        let wait_ms = if random.chance(LONG_PAUSE) {
            random.between(1_800_001, 3_000_000)
        } else {
            random.between(3_000, 150_000)
        };
        self.time = Millis(self.time.0 + i64::from(wait_ms));
        true
    }
}
