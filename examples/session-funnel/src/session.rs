//! [`Session`]: one visit, from the first event to the last.

use crate::{Cart, FunnelEvent, Report, Summary};
use serde::{Deserialize, Serialize};

/// One visit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The user and the beginning, so that it is the same on every run.
    session_id: String,
    /// The time of the event that opened it. A late event moves neither end.
    opened_ms: i64,
    last_ms: i64,
    stage: Stage,
    reached: Reached,
    events: u64,
    cart: Cart,
    paid_minor: u64,
}

/// How far a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Somewhere in the shop.
    Browsing,
    /// Looked at a product.
    Viewed,
    /// Has something in the cart.
    Carted,
    /// Began to pay.
    Checkout,
    /// Paid.
    Purchased,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A single event, and nothing in the cart.
    Bounced,
    /// A cart that was not paid.
    Abandoned,
    /// Any other way.
    Closed,
}

/// When a session first came to each stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reached {
    /// Looked at a product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewed_ms: Option<i64>,
    /// Put something into the cart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carted_ms: Option<i64>,
    /// Began to pay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout_ms: Option<i64>,
    /// Paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purchased_ms: Option<i64>,
}

impl Session {
    /// A session without events yet.
    pub fn open(user_id: &str, at_ms: i64) -> Self {
        Session {
            session_id: format!("{user_id}@{at_ms}"),
            opened_ms: at_ms,
            last_ms: at_ms,
            stage: Stage::Browsing,
            reached: Reached::default(),
            events: 0,
            cart: Cart::default(),
            paid_minor: 0,
        }
    }

    /// When it ends if nothing more happens. It has ended at this time.
    pub fn idle_deadline_ms(&self, idle_ms: i64) -> i64 {
        self.last_ms + idle_ms
    }

    /// Whether an event of this time would have been part of it, had it come in order.
    pub fn covers(&self, at_ms: i64, idle_ms: i64) -> bool {
        self.opened_ms - idle_ms < at_ms && at_ms < self.idle_deadline_ms(idle_ms)
    }

    /// Whether it began later than this.
    pub fn opened_after(&self, at_ms: i64) -> bool {
        at_ms < self.opened_ms
    }

    /// Keeps it open until later. A late event does not shorten it.
    pub fn extend(&mut self, at_ms: i64) {
        self.last_ms = self.last_ms.max(at_ms);
    }

    /// Counts one event and moves the stage.
    pub fn apply(&mut self, event: FunnelEvent, at_ms: i64, reports: &mut Vec<Report>) {
        self.events += 1;
        match event {
            FunnelEvent::PageView | FunnelEvent::Unknown => {}
            FunnelEvent::ProductView { .. } => self.reach(Stage::Viewed, at_ms),
            FunnelEvent::CartAdd { sku, value_minor } => {
                self.cart.add(sku, value_minor);
                self.reach(Stage::Carted, at_ms);
            }
            FunnelEvent::CartRemove { sku } => {
                self.cart.remove(&sku);
                // Who empties the cart has not abandoned it. The times that the stages were reached stay.
                if self.cart.items == 0 && self.is_buying() {
                    self.stage = Stage::Viewed;
                }
            }
            FunnelEvent::CheckoutStart => self.reach(Stage::Checkout, at_ms),
            FunnelEvent::PaymentOk { order, value_minor } => {
                self.cart = Cart::default();
                self.paid_minor = self.paid_minor.saturating_add(value_minor);
                self.reach(Stage::Purchased, at_ms);
                let session_id = self.session_id.clone();
                reports.push(Report::Purchased { session_id, at_ms, order, value_minor });
            }
        }
    }

    /// What is said when it ends, in order.
    pub fn close(&self, reports: &mut Vec<Report>) {
        let session_id = self.session_id.clone();
        match self.outcome() {
            Outcome::Abandoned => reports.push(Report::Abandoned {
                session_id,
                stage: self.stage,
                items: self.cart.items,
                value_minor: self.cart.value_minor,
            }),
            Outcome::Bounced => reports.push(Report::Bounced { session_id, at_ms: self.opened_ms }),
            Outcome::Closed => {}
        }
        reports.push(Report::Summary(self.summary()));
    }

    /// All of it.
    pub fn summary(&self) -> Summary {
        Summary {
            session_id: self.session_id.clone(),
            from_ms: self.opened_ms,
            to_ms: self.last_ms,
            duration_ms: self.last_ms - self.opened_ms,
            events: self.events,
            outcome: self.outcome(),
            stage: self.stage,
            reached: self.reached,
            items: self.cart.items,
            value_minor: self.cart.value_minor,
            cart_truncated: self.cart.is_truncated(),
            paid_minor: self.paid_minor,
        }
    }

    fn outcome(&self) -> Outcome {
        match self.stage {
            Stage::Carted | Stage::Checkout => Outcome::Abandoned,
            Stage::Browsing | Stage::Viewed if self.events == 1 => Outcome::Bounced,
            Stage::Browsing | Stage::Viewed | Stage::Purchased => Outcome::Closed,
        }
    }

    fn is_buying(&self) -> bool {
        matches!(self.stage, Stage::Carted | Stage::Checkout)
    }

    fn reach(&mut self, stage: Stage, at_ms: i64) {
        self.stage = self.stage.max(stage);
        let first = match stage {
            Stage::Browsing => return,
            Stage::Viewed => &mut self.reached.viewed_ms,
            Stage::Carted => &mut self.reached.carted_ms,
            Stage::Checkout => &mut self.reached.checkout_ms,
            Stage::Purchased => &mut self.reached.purchased_ms,
        };
        *first = Some(first.map_or(at_ms, |known_ms| known_ms.min(at_ms)));
    }
}
