//! [`Shares`]: something bounded of which no tenant can take all: places for waiting requests, memory for bodies, tails.

use crate::state::catalogue::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whoever gets none in this time is told to come again: long enough for a burst, short enough that nobody hangs.
const WAIT: Duration = Duration::from_secs(2);
/// A tenant gets this part at most, so that three more find something.
const PART: usize = 4;

/// Something bounded of which no tenant can take all.
pub struct Shares {
    all: Arc<Semaphore>,
    of_one: usize,
    /// Only tenants that have a share: the others' places are forgotten when the next one comes.
    tenants: Mutex<HashMap<Option<TenantId>, Weak<Semaphore>>>,
}

/// A share, which goes back when it is dropped.
pub struct Share {
    _of_all: OwnedSemaphorePermit,
    _of_one: OwnedSemaphorePermit,
    // Keeps the tenant's place known while somebody has a share of it.
    _tenant: Arc<Semaphore>,
}

impl Shares {
    /// So many units for all.
    pub fn new(units: usize) -> Self {
        let units = units.min(Semaphore::MAX_PERMITS);
        Shares {
            all: Arc::new(Semaphore::new(units)),
            of_one: (units / PART).max(1),
            tenants: Mutex::new(HashMap::new()),
        }
    }

    /// Takes units for a tenant, or None when there are none for too long. More than a tenant may have count as all it may have.
    pub async fn take(&self, tenant: &Option<TenantId>, units: usize) -> Option<Share> {
        let own = self.tenant(tenant);
        let units = u32::try_from(units.clamp(1, self.of_one)).unwrap_or(u32::MAX);
        let both = async {
            // The tenant's own first: while it waits for that, it holds back nobody else.
            let of_one = Arc::clone(&own).acquire_many_owned(units).await.ok()?;
            let of_all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
            Some(Share { _of_all: of_all, _of_one: of_one, _tenant: Arc::clone(&own) })
        };
        tokio::time::timeout(WAIT, both).await.ok().flatten()
    }

    fn tenant(&self, tenant: &Option<TenantId>) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.of_one));
        tenants.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime starts").block_on(future)
    }

    #[test]
    fn a_tenant_that_takes_all_it_gets_leaves_something_for_the_others() {
        block_on(async {
            let shares = Shares::new(8);
            let (one, other) = (Some(TenantId::new()), Some(TenantId::new()));
            let first = shares.take(&one, 1).await.expect("there are some");
            let _second = shares.take(&one, 1).await.expect("a quarter is two");
            assert!(shares.take(&one, 1).await.is_none(), "it has its quarter");
            assert!(shares.take(&other, 2).await.is_some(), "the other one has its own");
            drop(first);
            assert!(shares.take(&one, 1).await.is_some(), "what was given back can be had again");
        });
    }

    #[test]
    fn more_than_a_tenant_may_have_is_all_that_it_may_have() {
        block_on(async {
            let shares = Shares::new(8);
            let tenant = Some(TenantId::new());
            let _all = shares.take(&tenant, 100).await.expect("it counts as two");
            assert!(shares.take(&tenant, 1).await.is_none());
        });
    }

    #[test]
    fn tenants_without_a_share_are_forgotten() {
        block_on(async {
            let shares = Shares::new(8);
            for _ in 0..100 {
                drop(shares.take(&Some(TenantId::new()), 1).await);
            }
            assert!(shares.tenants.lock().expect("nobody panicked").len() <= 1);
        });
    }
}
