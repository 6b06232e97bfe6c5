//! [`Scheduler`]: who computes next. It knows no threads and no clock, so that it can be tried with any course of time.

use super::bucket::Bucket;
use std::collections::VecDeque;
use std::time::Duration;

/// A tenant may use its CPU quota of so long at once: long enough for one call of an ordinary rule, too short to be noticed.
const BURST: Duration = Duration::from_millis(100);
/// A quota that allows less at once than this would let every call be cut into pieces that cost more than they do.
const BURST_MIN: Duration = Duration::from_millis(2);
/// For so long after another tenant has computed, a busy one leaves the last permit to it: who computes now and then finds one free.
const KEPT_FREE: Duration = Duration::from_secs(1);
/// Virtual time is counted in so many parts of a nanosecond, so that weights divide it well.
const PARTS: u128 = 1 << 20;

/// Permits to compute, and the tenants that want them. `T` is whoever waits.
pub(super) struct Scheduler<T> {
    permits: usize,
    permits_free: usize,
    tenants: Vec<Option<Tenant<T>>>,
    /// The tenants that compute or wait.
    active: Vec<usize>,
    /// The tenants that have computed lately and rest.
    resting: VecDeque<usize>,
    /// How far virtual time has come for those that are active: what a tenant begins with that was idle.
    floor: u128,
}

struct Tenant<T> {
    weight: u32,
    quota: Option<Bucket>,
    /// CPU time by weight.
    virtual_time: u128,
    waiting: VecDeque<T>,
    computing: usize,
    /// Whether it waits for its quota.
    is_throttled: bool,
    /// When it last stopped to compute, and whether it is in the list of those that rest.
    rests_since: Duration,
    is_resting: bool,
    used: Duration,
}

impl<T> Scheduler<T> {
    pub fn new(permits: usize) -> Self {
        let permits = permits.max(1);
        let (tenants, active, resting) = Default::default();
        Scheduler { permits, permits_free: permits, tenants, active, resting, floor: 0 }
    }

    /// A new tenant; its number.
    pub fn add(&mut self, weight: u32, cores: Option<f64>, now: Duration) -> usize {
        let tenant = Tenant {
            weight: weight.max(1),
            quota: cores.map(|cores| Bucket::new(rate(cores), burst(cores), now)),
            virtual_time: self.floor,
            waiting: VecDeque::new(),
            computing: 0,
            is_throttled: false,
            rests_since: Duration::ZERO,
            is_resting: false,
            used: Duration::ZERO,
        };
        match self.tenants.iter().position(Option::is_none) {
            Some(place) => {
                self.tenants[place] = Some(tenant);
                place
            }
            None => {
                self.tenants.push(Some(tenant));
                self.tenants.len() - 1
            }
        }
    }

    /// Changes what a tenant may have.
    pub fn set(&mut self, tenant: usize, weight: u32, cores: Option<f64>, now: Duration) {
        let tenant = self.tenant(tenant);
        tenant.weight = weight.max(1);
        match (&mut tenant.quota, cores) {
            (Some(quota), Some(cores)) => quota.set(rate(cores), burst(cores), now),
            (quota, cores) => *quota = cores.map(|cores| Bucket::new(rate(cores), burst(cores), now)),
        }
    }

    /// Forgets a tenant, of which nobody computes or waits.
    pub fn remove(&mut self, tenant: usize) {
        self.tenants[tenant] = None;
        self.active.retain(|&active| active != tenant);
        self.resting.retain(|&resting| resting != tenant);
    }

    /// Somebody wants to compute. [`Scheduler::dispatch`] says when.
    pub fn ask(&mut self, tenant: usize, who: T) {
        let floor = self.floor();
        let asking = self.tenant(tenant);
        if asking.rests() {
            // Whoever was idle has no claim for that time.
            asking.virtual_time = asking.virtual_time.max(floor);
            self.tenant(tenant).waiting.push_back(who);
            self.active.push(tenant);
        } else {
            asking.waiting.push_back(who);
        }
    }

    /// Somebody has computed for so long, and goes on.
    pub fn charge(&mut self, tenant: usize, used: Duration, now: Duration) {
        let tenant = self.tenant(tenant);
        tenant.used += used;
        tenant.virtual_time += used.as_nanos() * PARTS / u128::from(tenant.weight);
        if let Some(quota) = &mut tenant.quota {
            quota.take(micros(used), now);
        }
    }

    /// Somebody computes no longer.
    pub fn release(&mut self, tenant: usize, now: Duration) {
        self.permits_free += 1;
        let of = self.tenant(tenant);
        of.computing -= 1;
        if of.rests() {
            of.rests_since = now;
            if !std::mem::replace(&mut of.is_resting, true) {
                self.resting.push_back(tenant);
            }
            self.floor();
            self.active.retain(|&active| active != tenant);
        }
    }

    /// Whether somebody of this tenant, who computes, is to let another go on.
    pub fn is_to_hand_over(&mut self, tenant: usize, now: Duration) -> bool {
        let computing = self.tenant(tenant);
        if !computing.waiting.is_empty() || computing.is_over_quota(now) {
            return true;
        }
        let virtual_time = computing.virtual_time;
        self.next(now).is_some_and(|next| self.tenant(next).virtual_time < virtual_time)
    }

    /// Who may compute now.
    pub fn dispatch(&mut self, now: Duration) -> Vec<T> {
        let mut granted = Vec::new();
        while self.permits_free > 0 {
            let Some(next) = self.next(now) else { break };
            let next = self.tenant(next);
            next.computing += 1;
            granted.extend(next.waiting.pop_front());
            self.permits_free -= 1;
        }
        granted
    }

    /// How long a tenant has used up its quota; zero when it has not.
    pub fn throttled_for(&mut self, tenant: usize, now: Duration) -> Duration {
        self.tenant(tenant).quota.as_mut().map_or(Duration::ZERO, |quota| quota.empty_for(now))
    }

    /// How long a tenant has computed in all.
    pub fn used(&self, tenant: usize) -> Duration {
        self.tenants[tenant].as_ref().map_or(Duration::ZERO, |tenant| tenant.used)
    }

    /// Whether the last permit is not for this tenant: it computes already, and one that rests has computed not long ago.
    fn is_kept_free(&mut self, tenant: usize, now: Duration) -> bool {
        if self.permits == 1 || self.permits_free > 1 || self.tenant(tenant).computing == 0 {
            return false;
        }
        let is_over = |of: &Tenant<T>| now.saturating_sub(of.rests_since) >= KEPT_FREE;
        while let Some(&first) = self.resting.front()
            && is_over(self.tenant(first))
        {
            self.tenant(first).is_resting = false;
            self.resting.pop_front();
        }
        let rests = |&other: &usize| self.tenants[other].as_ref().is_some_and(|of| of.rests() && !is_over(of));
        self.resting.iter().any(|other| *other != tenant && rests(other))
    }

    /// The waiting tenant that has had the least.
    fn next(&mut self, now: Duration) -> Option<usize> {
        let mut back = Vec::new();
        // Of two that have had as much, the one that computes less.
        let mut next: Option<((u128, usize), usize)> = None;
        for place in 0..self.active.len() {
            let number = self.active[place];
            if self.tenant(number).waiting.is_empty() || self.is_kept_free(number, now) {
                continue;
            }
            let tenant = self.tenant(number);
            let was_throttled = std::mem::replace(&mut tenant.is_throttled, false);
            if tenant.is_over_quota(now) {
                tenant.is_throttled = true;
            } else if was_throttled {
                back.push(number);
            } else {
                let has = (tenant.virtual_time, tenant.computing);
                next = next.filter(|&(least, _)| least <= has).or(Some((has, number)));
            }
        }
        if back.is_empty() {
            return next.map(|(_, number)| number);
        }
        // Whoever waited for its quota has no claim for that time either.
        let floor = self.floor();
        for number in back {
            let tenant = self.tenant(number);
            tenant.virtual_time = tenant.virtual_time.max(floor);
        }
        self.next(now)
    }

    /// The least virtual time of the tenants that could compute. It never goes back.
    fn floor(&mut self) -> u128 {
        let tenants = self.active.iter().filter_map(|&tenant| self.tenants[tenant].as_ref());
        let least = tenants.filter(|tenant| !tenant.is_throttled).map(|tenant| tenant.virtual_time).min();
        self.floor = self.floor.max(least.unwrap_or(0));
        self.floor
    }

    fn tenant(&mut self, tenant: usize) -> &mut Tenant<T> {
        self.tenants[tenant].as_mut().expect("a tenant is forgotten when nobody has it any more")
    }
}

impl<T> Tenant<T> {
    fn rests(&self) -> bool {
        self.computing == 0 && self.waiting.is_empty()
    }

    fn is_over_quota(&mut self, now: Duration) -> bool {
        self.quota.as_mut().is_some_and(|quota| !quota.empty_for(now).is_zero())
    }
}

/// Quotas are counted in microseconds of CPU time: so many in a second.
fn rate(cores: f64) -> f64 {
    cores.max(0.0) * 1e6
}

fn burst(cores: f64) -> f64 {
    (micros(BURST) * cores.max(0.0)).max(micros(BURST_MIN))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests;
