//! [`Fault`]: an object that is damaged or missing, by name.

use super::layout::Object;
use crate::event::BatchId;
use serde::Serialize;
use std::fmt;

/// An object that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// Its name.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Fault {
    /// An object that is not there.
    pub fn missing(object: &Object) -> Self {
        Self::new(object, "it is missing")
    }

    /// An object that cannot be read.
    pub fn damaged(object: &Object, error: &anyhow::Error) -> Self {
        // Errors of objects name them, and so does this.
        let causes: Vec<String> =
            error.chain().map(ToString::to_string).filter(|cause| !cause.contains(&object.name())).collect();
        Self::new(object, &causes.join(": "))
    }

    /// Something else about an object.
    pub fn new(object: &Object, problem: &str) -> Self {
        Fault { object: object.name(), problem: problem.to_owned() }
    }

    /// Keeps each object once, in the order of names.
    pub fn sort(faults: &mut Vec<Fault>) {
        faults.sort();
        faults.dedup_by(|a, b| a.object == b.object);
    }

    /// Names the batches that are missing between the first and the last one of what is there.
    pub(super) fn of_gaps(
        batches: impl Iterator<Item = BatchId>,
        object: impl Fn(BatchId) -> Object,
    ) -> impl Iterator<Item = Fault> {
        let mut next = None;
        batches.flat_map(move |batch| {
            let from = next.replace(batch.0 + 1).unwrap_or(batch.0);
            (from..batch.0).map(BatchId).map(|missing| Fault::missing(&object(missing))).collect::<Vec<_>>()
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.problem)
    }
}
