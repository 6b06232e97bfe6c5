//! The only place that asks for the time.

use crate::event::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where processing time comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A clock that a test or a scenario moves.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands still until it is set.
    pub fn manual(now: Millis) -> Self {
        Clock::Manual(Arc::new(AtomicI64::new(now.0)))
    }

    /// The time now.
    pub fn now(&self) -> Millis {
        match self {
            // A machine whose clock is before 1970 gets 1970: its batches still run, with a time that is plainly wrong.
            Clock::System => {
                Millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
            }
            Clock::Manual(now) => Millis(now.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock; never backwards. The machine's clock is left alone.
    pub fn advance_to(&self, time: Millis) {
        if let Clock::Manual(now) = self {
            now.fetch_max(time.0, Ordering::SeqCst);
        }
    }
}

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whole milliseconds since the start.
    pub fn elapsed_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    /// The time from the start until now.
    pub fn span(&self) -> Span {
        Span { from: self.0, to: Instant::now() }
    }
}

/// A time that has passed, with its ends, so that those of several threads can be put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    from: Instant,
    to: Instant,
}

impl Span {
    /// From the earlier start to the later end.
    pub fn join(self, other: Span) -> Span {
        Span { from: self.from.min(other.from), to: self.to.max(other.to) }
    }

    /// Whole milliseconds.
    pub fn ms(&self) -> u64 {
        self.to.duration_since(self.from).as_millis() as u64
    }
}

/// The limit on one call's wall time.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline this far from now.
    pub fn after(duration: Duration) -> Self {
        Deadline(Instant::now() + duration)
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.passed_but_for(Duration::ZERO)
    }

    /// Whether it has passed, when time spent waiting for others does not count.
    pub fn passed_but_for(&self, waited: Duration) -> bool {
        Instant::now() >= self.0 + waited
    }
}
