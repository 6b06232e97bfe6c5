//! [`App`]: what all handlers share.

use super::HttpLimits;
use super::measured::Measured;
use super::shares::Shares;
use super::work::Work;
use crate::service::Service;
use std::sync::Arc;
use tokio::sync::watch;

/// What all handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// What they share.
pub struct Shared {
    /// What does everything.
    pub service: Arc<Service>,
    /// Where it does it.
    pub work: Work,
    /// How much a client may ask.
    pub limits: HttpLimits,
    /// Memory for bodies, in KiB.
    pub receiving: Shares,
    /// Places for tails.
    pub tails: Shares,
    /// What requests took.
    pub measured: Measured,
    stopping: watch::Sender<bool>,
}

const KIB: usize = 1024;

impl App {
    /// For this service.
    pub fn new(service: Arc<Service>, limits: HttpLimits) -> Self {
        App(Arc::new(Shared {
            work: Work::new(Arc::clone(&service), limits.waiting_requests),
            service,
            receiving: Shares::new(limits.receiving_bytes / KIB),
            tails: Shares::new(limits.tails),
            measured: Measured::default(),
            stopping: watch::channel(false).0,
            limits,
        }))
    }

    /// Ends what has no end of its own, and tells load balancers to ask elsewhere.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Whether it stops.
    pub fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }

    /// Tells when it stops.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
