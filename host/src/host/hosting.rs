//! [`Hosting`]: how a host shares its process with others.

use crate::decisions::Decisions;
use crate::fair::CpuShare;
use crate::rule_log::{RuleLog, ToTracing};
use std::sync::Arc;
use std::time::Duration;

/// How a host shares its process with others. The default is a host that has it for itself.
#[derive(Clone)]
pub struct Hosting {
    /// Whose share of the cores it computes on.
    pub cpu: CpuShare,
    /// Whether whoever runs it notifies its [`super::Control`] when the source has more. Otherwise the source is asked again and again.
    pub is_told: bool,
    /// A run that follows its source ends when there was nothing to do for so long; none for never.
    pub park_after: Option<Duration>,
    /// Whether each output is put out with its id and where it comes from.
    pub envelope: bool,
    /// The events that somebody waits for.
    pub decisions: Option<Arc<Decisions>>,
    /// What the rule logs.
    pub log: Arc<dyn RuleLog>,
}

impl Default for Hosting {
    fn default() -> Self {
        Hosting {
            cpu: CpuShare::default(),
            is_told: false,
            park_after: None,
            envelope: false,
            decisions: None,
            log: Arc::new(ToTracing),
        }
    }
}
