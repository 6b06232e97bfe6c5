//! [`Alarm`]: the one thread that knows when rules that are not open want to be woken.

use crate::clock::Clock;
use crate::event::Millis;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Whoever is woken; by its number, so that it can be woken once at most.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The thread looks again after so long although nothing is due: the machine's clock may have been set.
const LOOK: Duration = Duration::from_secs(60);

/// Wakes rules when their time has come.
pub(super) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    clock: Clock,
    times: Mutex<Times>,
    changed: Condvar,
}

#[derive(Default)]
struct Times {
    by_time: BTreeSet<(Millis, u64)>,
    wakes: HashMap<u64, (Millis, Wake)>,
    is_closed: bool,
}

impl Alarm {
    pub fn start(clock: Clock) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { clock, times: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("alarm".to_owned()).spawn(move || of_thread.run())?;
        Ok(Alarm { shared, thread: Some(thread) })
    }

    /// Wakes at this time instead of any that was said before.
    pub fn set(&self, number: u64, at: Millis, wake: Wake) {
        let mut times = self.shared.lock();
        times.forget(number);
        times.by_time.insert((at, number));
        times.wakes.insert(number, (at, wake));
        let is_next = times.by_time.first() == Some(&(at, number));
        drop(times);
        if is_next {
            self.shared.changed.notify_all();
        }
    }

    /// Does not wake it.
    pub fn forget(&self, number: u64) {
        self.shared.lock().forget(number);
    }

    /// The clock was moved by hand.
    pub fn look(&self) {
        self.shared.changed.notify_all();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic in it was reported.
            let _ = thread.join();
        }
    }
}

impl Times {
    fn forget(&mut self, number: u64) {
        if let Some((at, _)) = self.wakes.remove(&number) {
            self.by_time.remove(&(at, number));
        }
    }

    /// Those whose time has come.
    fn take(&mut self, now: Millis) -> BTreeMap<u64, Wake> {
        let mut due = BTreeMap::new();
        while let Some(&(at, number)) = self.by_time.first().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, number));
            due.extend(self.wakes.remove(&number).map(|(_, wake)| (number, wake)));
        }
        due
    }
}

impl Shared {
    fn run(&self) {
        let mut times = self.lock();
        while !times.is_closed {
            let now = self.clock.now();
            let due = times.take(now);
            if !due.is_empty() {
                drop(times);
                due.values().for_each(|wake| wake());
                times = self.lock();
                continue;
            }
            let next =
                times.by_time.first().map(|(at, _)| Duration::from_millis(at.0.saturating_sub(now.0).max(1) as u64));
            times = match next {
                Some(next) => {
                    let waited = self.changed.wait_timeout(times, next.min(LOOK));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(times).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn each_is_woken_once_at_the_time_that_was_said_last() {
        let clock = Clock::manual(Millis(0));
        let alarm = Alarm::start(clock.clone()).expect("a thread can be started");
        let (send, woken) = channel();
        let wake = |number: u64| -> Wake {
            let send = send.clone();
            Arc::new(move || send.send(number).expect("the test listens"))
        };
        alarm.set(1, Millis(10), wake(1));
        alarm.set(2, Millis(20), wake(2));
        alarm.set(3, Millis(30), wake(3));
        alarm.set(1, Millis(40), wake(1));
        alarm.forget(3);
        clock.advance_to(Millis(100));
        alarm.look();
        let both = [woken.recv(), woken.recv()].map(|number| number.expect("both are woken"));
        assert_eq!(both, [1, 2]);
        drop(alarm);
        assert!(woken.try_recv().is_err());
    }
}
