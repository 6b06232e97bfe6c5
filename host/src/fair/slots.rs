//! [`Slots`]: places for instances. What lives takes memory, whether it computes or waits.

use super::share::Tenant;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Places for instances, of all tenants and of each.
pub(super) struct Slots {
    taken: Mutex<Taken>,
    changed: Condvar,
    all_max: u32,
}

#[derive(Default)]
struct Taken {
    all: u32,
    tenants: HashMap<usize, OfTenant>,
}

#[derive(Default)]
struct OfTenant {
    taken: u32,
    max: Option<u32>,
}

/// A place for one instance, or for those that one batch of a partition has one after another.
pub struct Slot(Arc<Tenant>);

impl Slots {
    pub fn new(all_max: usize) -> Self {
        Slots { taken: Mutex::default(), changed: Condvar::new(), all_max: all_max.max(1) as u32 }
    }

    pub fn add(&self, tenant: usize, max: Option<u32>) {
        self.lock().tenants.insert(tenant, OfTenant { taken: 0, max });
    }

    pub fn set(&self, tenant: usize, max: Option<u32>) {
        self.lock().tenants.entry(tenant).or_default().max = max;
        self.changed.notify_all();
    }

    pub fn remove(&self, tenant: usize) {
        self.lock().tenants.remove(&tenant);
    }

    /// How many a tenant has.
    pub fn of(&self, tenant: usize) -> u32 {
        self.lock().tenants.get(&tenant).map_or(0, |of| of.taken)
    }

    fn take(&self, tenant: usize) {
        let mut taken = self.lock();
        loop {
            let is_free = taken.all < self.all_max;
            let of = taken.tenants.entry(tenant).or_default();
            // A limit of none at all would let nothing ever go on.
            if is_free && of.max.is_none_or(|max| of.taken < max.max(1)) {
                of.taken += 1;
                taken.all += 1;
                return;
            }
            taken = self.changed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, tenant: usize) {
        let mut taken = self.lock();
        taken.all -= 1;
        if let Some(of) = taken.tenants.get_mut(&tenant) {
            of.taken -= 1;
        }
        drop(taken);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(super) fn take(tenant: &Arc<Tenant>) -> Self {
        tenant.shared.slots.take(tenant.number);
        Slot(Arc::clone(tenant))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.shared.slots.give_back(self.0.number);
    }
}
