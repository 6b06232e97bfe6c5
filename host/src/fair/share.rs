//! [`FairShare`]: the permits of a process, [`TenantShare`]: what a tenant has of them, [`CpuShare`]: whose share a rule computes on.

use super::bucket::Bucket;
use super::scheduler::Scheduler;
use super::slots::{Slot, Slots};
use super::turn::{Turn, Waiter};
use crate::clock::Stopwatch;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Outputs of so long may come at once.
const OUTPUTS_BURST_SECONDS: f64 = 2.0;

/// The permits of a process to compute, and the places for its instances.
#[derive(Clone)]
pub struct FairShare {
    shared: Arc<Shared>,
    tenants: Arc<Mutex<HashMap<String, Weak<Tenant>>>>,
}

/// What all tenants share.
pub(super) struct Shared {
    pub scheduler: Mutex<Scheduler<Arc<Waiter>>>,
    pub slots: Slots,
    started: Stopwatch,
}

/// What a tenant may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Its part of the cores beside the weights of the others.
    pub weight: u32,
    /// Cores, also when nobody else wants them; none for all.
    pub cpu: Option<f64>,
    /// Instances at the same time; none for as many as there are.
    pub instances_max: Option<u32>,
    /// Outputs in a second; none for any number.
    pub outputs_per_second: Option<u32>,
}

impl Default for Share {
    fn default() -> Self {
        Share { weight: 100, cpu: None, instances_max: None, outputs_per_second: None }
    }
}

/// What a tenant has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantUse {
    /// CPU time of its rules.
    pub cpu: Duration,
    /// Instances now.
    pub instances: u32,
}

/// What a tenant has of the cores. Its clones are the same.
#[derive(Clone)]
pub struct TenantShare(Arc<Tenant>);

pub(super) struct Tenant {
    pub shared: Arc<Shared>,
    /// Its number in the scheduler.
    pub number: usize,
    outputs: Mutex<Option<Bucket>>,
}

/// Whose share a rule computes on. Without one it computes whenever it likes, and that costs nothing.
#[derive(Clone, Default)]
pub struct CpuShare(Option<TenantShare>);

impl FairShare {
    /// So many may compute at the same time, and so many instances may live.
    pub fn new(permits: usize, instances_max: usize) -> Self {
        let shared = Shared {
            scheduler: Mutex::new(Scheduler::new(permits)),
            slots: Slots::new(instances_max),
            started: Stopwatch::start(),
        };
        FairShare { shared: Arc::new(shared), tenants: Arc::default() }
    }

    /// The share of a tenant, which is made or changed.
    pub fn tenant(&self, id: &str, share: Share) -> TenantShare {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants.get(id).and_then(Weak::upgrade) {
            let tenant = TenantShare(tenant);
            tenant.set(share);
            return tenant;
        }
        tenants.retain(|_, tenant| tenant.strong_count() > 0);
        let shared = Arc::clone(&self.shared);
        let number = shared.lock().add(share.weight, share.cpu, shared.now());
        shared.slots.add(number, share.instances_max);
        let tenant = Arc::new(Tenant { shared, number, outputs: Mutex::new(None) });
        tenants.insert(id.to_owned(), Arc::downgrade(&tenant));
        let tenant = TenantShare(tenant);
        tenant.set_outputs(share.outputs_per_second);
        tenant
    }
}

impl TenantShare {
    /// Changes what the tenant may have. It holds at once.
    pub fn set(&self, share: Share) {
        let Tenant { shared, number, .. } = &*self.0;
        let mut scheduler = shared.lock();
        scheduler.set(*number, share.weight, share.cpu, shared.now());
        shared.grant(&mut scheduler);
        drop(scheduler);
        shared.slots.set(*number, share.instances_max);
        self.set_outputs(share.outputs_per_second);
    }

    /// What it has used.
    pub fn used(&self) -> TenantUse {
        let Tenant { shared, number, .. } = &*self.0;
        TenantUse { cpu: shared.lock().used(*number), instances: shared.slots.of(*number) }
    }

    /// So many outputs were made.
    pub fn made_outputs(&self, outputs: u64) {
        let now = self.0.shared.now();
        if let Some(bucket) = &mut *self.outputs() {
            bucket.take(outputs as f64, now);
        }
    }

    /// How long no further outputs are to be made; zero when there may be some.
    pub fn outputs_wait(&self) -> Duration {
        let now = self.0.shared.now();
        self.outputs().as_mut().map_or(Duration::ZERO, |bucket| bucket.empty_for(now))
    }

    fn set_outputs(&self, per_second: Option<u32>) {
        let now = self.0.shared.now();
        let mut outputs = self.outputs();
        match (&mut *outputs, per_second.map(f64::from)) {
            (Some(bucket), Some(rate)) => bucket.set(rate, rate * OUTPUTS_BURST_SECONDS, now),
            (bucket, rate) => *bucket = rate.map(|rate| Bucket::new(rate, rate * OUTPUTS_BURST_SECONDS, now)),
        }
    }

    fn outputs(&self) -> MutexGuard<'_, Option<Bucket>> {
        self.0.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CpuShare {
    /// That of a tenant.
    pub fn of(tenant: &TenantShare) -> Self {
        CpuShare(Some(tenant.clone()))
    }

    /// Waits for a place for an instance. No permit may be held meanwhile.
    pub fn slot(&self) -> Option<Slot> {
        self.0.as_ref().map(|tenant| Slot::take(&tenant.0))
    }

    /// What a thread takes its turns with.
    pub fn turn(&self) -> Arc<Turn> {
        Arc::new(Turn::new(self.0.as_ref().map(|tenant| Arc::clone(&tenant.0))))
    }

    /// So many outputs were made.
    pub fn made_outputs(&self, outputs: u64) {
        if let Some(tenant) = &self.0 {
            tenant.made_outputs(outputs);
        }
    }

    /// How long no further outputs are to be made.
    pub fn outputs_wait(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, TenantShare::outputs_wait)
    }
}

impl Shared {
    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn lock(&self) -> MutexGuard<'_, Scheduler<Arc<Waiter>>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those compute that may now.
    pub fn grant(&self, scheduler: &mut Scheduler<Arc<Waiter>>) {
        for waiter in scheduler.dispatch(self.now()) {
            waiter.grant();
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.shared.lock().remove(self.number);
        self.shared.slots.remove(self.number);
    }
}

#[cfg(test)]
mod tests;
