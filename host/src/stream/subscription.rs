//! [`Subscription`]: somebody who is told when a stream has more.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is called when there is more. It must be quick: whoever appends waits for it.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Somebody is told when a stream has more, as long as this lives.
pub struct Subscription {
    number: u64,
    all: Weak<Subscribers>,
}

/// Everybody who is told.
#[derive(Default)]
pub(super) struct Subscribers(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    next: u64,
    wakes: Vec<(u64, Wake)>,
}

impl Subscribers {
    pub fn add(self: &Arc<Self>, wake: Wake) -> Subscription {
        let mut numbered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbered.next;
        numbered.next += 1;
        numbered.wakes.push((number, wake));
        Subscription { number, all: Arc::downgrade(self) }
    }

    /// Calls everybody. Not under the lock: somebody may end its subscription meanwhile.
    pub fn wake(&self) {
        let wakes: Vec<Wake> = {
            let numbered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            numbered.wakes.iter().map(|(_, wake)| Arc::clone(wake)).collect()
        };
        wakes.iter().for_each(|wake| wake());
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let mut numbered = all.0.lock().unwrap_or_else(PoisonError::into_inner);
            numbered.wakes.retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_subscription_that_ended_is_not_called_any_more() {
        let (all, calls) = (Arc::new(Subscribers::default()), Arc::new(AtomicU32::new(0)));
        let count = |by: u32| {
            let calls = Arc::clone(&calls);
            all.add(Arc::new(move || {
                calls.fetch_add(by, Ordering::Relaxed);
            }))
        };
        let (_stays, goes) = (count(1), count(100));
        all.wake();
        drop(goes);
        all.wake();
        assert_eq!(calls.load(Ordering::Relaxed), 102);
    }
}
