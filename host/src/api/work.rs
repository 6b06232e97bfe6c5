//! [`Work`]: what the service does, on threads that may wait. How many wait is bounded, and a tenant has its part of them.

use super::problem::Problem;
use super::shares::Shares;
use crate::service::{Answer, Caller, Service};
use axum::http::StatusCode;
use std::sync::Arc;
use tracing::Span;

/// Threads for short work that waits for nothing but the processor: looking something up must go on when appends are many.
const SHORT_WORK: usize = 32;

/// Where the service does what is asked.
pub struct Work {
    service: Arc<Service>,
    short: Shares,
    waiting: Shares,
}

impl Work {
    /// For this service, with so many places for work that waits.
    pub fn new(service: Arc<Service>, waiting: usize) -> Self {
        Work { service, short: Shares::new(SHORT_WORK), waiting: Shares::new(waiting) }
    }

    /// Threads that this needs at most.
    pub fn threads(waiting: usize) -> usize {
        SHORT_WORK + waiting
    }

    /// Looks something up or changes it.
    pub async fn short<T: Send + 'static>(
        &self,
        caller: Caller,
        work: impl FnOnce(&Service, &Caller) -> Answer<T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.run(&self.short, caller, work).await
    }

    /// Does something that waits: for the disk, for a batch.
    pub async fn waiting<T: Send + 'static>(
        &self,
        caller: Caller,
        work: impl FnOnce(&Service, &Caller) -> Answer<T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.run(&self.waiting, caller, work).await
    }

    async fn run<T: Send + 'static>(
        &self,
        shares: &Shares,
        caller: Caller,
        work: impl FnOnce(&Service, &Caller) -> Answer<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let share = shares.take(&caller.tenant, 1).await.ok_or_else(Problem::busy)?;
        let (service, span) = (Arc::clone(&self.service), Span::current());
        let done = tokio::task::spawn_blocking(move || {
            // Whoever asked may be gone: the work is done all the same, and its place is taken until then.
            let _share = share;
            span.in_scope(|| work(&service, &caller))
        });
        match done.await {
            Ok(answer) => answer.map_err(Problem::from),
            Err(error) => {
                tracing::error!("the work on a request ended early: {error}");
                let detail = "the server failed to do this: its log has the reason under the id of the request";
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
            }
        }
    }
}
