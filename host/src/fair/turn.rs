//! [`Turn`]: a thread's way to a permit: it waits for its turn, computes, and lets others go on now and then.

use super::scheduler::Scheduler;
use super::share::{Shared, Tenant};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// Nobody gives a permit back before this, so that changing hands costs little beside the work. It bounds what a tenant waits that
/// wants a core after a pause.
const SLICE: Duration = Duration::from_millis(1);

/// How often somebody who waits looks whether its tenant has used up its quota meanwhile. Nobody waits on an idle machine.
const LOOK: Duration = Duration::from_millis(10);

/// A thread's way to a permit. Between [`Turn::begin`] and the end of what it returns the thread computes.
#[derive(Default)]
pub struct Turn {
    /// None: it is always its turn.
    tenant: Option<Arc<Tenant>>,
    /// Since when it computes without having been charged for it, in nanoseconds.
    since: AtomicU64,
    /// How long it has waited in all, in nanoseconds.
    waited: AtomicU64,
}

/// While this lives, the thread computes.
pub struct Computing<'t>(&'t Turn);

/// Somebody who waits for a permit.
#[derive(Default)]
pub(super) struct Waiter {
    is_granted: AtomicBool,
    granted: Condvar,
}

impl Waiter {
    pub fn grant(&self) {
        self.is_granted.store(true, Ordering::Relaxed);
        self.granted.notify_one();
    }
}

impl Turn {
    pub(super) fn new(tenant: Option<Arc<Tenant>>) -> Self {
        Turn { tenant, ..Turn::default() }
    }

    /// Waits for a permit.
    pub fn begin(&self) -> Computing<'_> {
        if let Some(tenant) = &self.tenant {
            self.wait(tenant, tenant.shared.lock());
        }
        Computing(self)
    }

    /// Lets others go on, when this thread has had its slice and somebody waits who has had less.
    pub fn look(&self) {
        let Some(tenant) = &self.tenant else { return };
        let now = tenant.shared.now();
        if now.saturating_sub(self.since()) < SLICE {
            return;
        }
        let mut scheduler = tenant.shared.lock();
        self.charge(tenant, &mut scheduler, now);
        if scheduler.is_to_hand_over(tenant.number, now) {
            scheduler.release(tenant.number, now);
            self.wait(tenant, scheduler);
        }
    }

    /// How long it has waited for permits in all.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    fn wait(&self, tenant: &Tenant, mut scheduler: MutexGuard<'_, Scheduler<Arc<Waiter>>>) {
        let Tenant { shared, number, .. } = tenant;
        let began = shared.now();
        let waiter = Arc::new(Waiter::default());
        scheduler.ask(*number, Arc::clone(&waiter));
        shared.grant(&mut scheduler);
        while !waiter.is_granted.load(Ordering::Relaxed) {
            let throttled = scheduler.throttled_for(*number, shared.now());
            let at_most = if throttled.is_zero() { LOOK } else { throttled };
            let waited = waiter.granted.wait_timeout(scheduler, at_most);
            scheduler = waited.unwrap_or_else(PoisonError::into_inner).0;
            // Nobody but those who wait notices that a quota allows something again.
            shared.grant(&mut scheduler);
        }
        drop(scheduler);
        let now = shared.now();
        self.waited.fetch_add(nanos(now.saturating_sub(began)), Ordering::Relaxed);
        self.since.store(nanos(now), Ordering::Relaxed);
    }

    fn end(&self) {
        let Some(tenant) = &self.tenant else { return };
        let shared: &Shared = &tenant.shared;
        let mut scheduler = shared.lock();
        let now = shared.now();
        self.charge(tenant, &mut scheduler, now);
        scheduler.release(tenant.number, now);
        shared.grant(&mut scheduler);
    }

    fn charge(&self, tenant: &Tenant, scheduler: &mut Scheduler<Arc<Waiter>>, now: Duration) {
        scheduler.charge(tenant.number, now.saturating_sub(self.since()), now);
        self.since.store(nanos(now), Ordering::Relaxed);
    }

    fn since(&self) -> Duration {
        Duration::from_nanos(self.since.load(Ordering::Relaxed))
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}
