//! [`Activation`]: another version of a rule, and what becomes of the states that earlier versions wrote.

use super::Host;
use crate::event::BatchId;
use crate::limits::Limits;
use crate::wasm::Component;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Another version of a rule, or the same one with other parameters or limits.
pub struct Activation {
    /// Its code.
    pub component: Arc<Component>,
    /// Its parameters.
    pub parameters: serde_json::Value,
    /// What it may use.
    pub limits: Limits,
    /// What becomes of the states that are there.
    pub state: StateChoice,
}

/// What becomes of the states that earlier versions wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateChoice {
    /// The new version reads them as they are. Refused when there is a schema that it does not read.
    Keep,
    /// The new version rewrites them: each when its key is called, the others little by little.
    Migrate,
    /// They are forgotten, and their timeouts with them.
    Fresh,
    /// Keys that have one go on with the version that wrote it until it is gone; other keys begin with the new version.
    Drain,
}

/// An activation that has taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swapped {
    /// The first batch that runs with it.
    pub batch: BatchId,
    /// Keys with state that an earlier version wrote and that are still to be migrated, forgotten or drained.
    pub rows_left: u64,
}

impl Host {
    /// Runs another version from the next batch on, when somebody asked for one. No batch may be running.
    pub(super) fn activate_what_was_asked(&mut self) {
        let Some(requested) = self.settings.control.take_activation() else { return };
        let swapped = self.swap(&requested.activation);
        if let Err(error) = &swapped {
            tracing::warn!("the version {} was not activated: {error:#}", requested.activation.component.digest());
        }
        requested.reply(swapped);
    }

    /// Until it returns, nothing has changed: a version that is refused leaves the one that runs.
    fn swap(&mut self, activation: &Activation) -> Result<Swapped> {
        let Activation { component, parameters, limits, .. } = activation;
        let description = component.description();
        self.settings.check_event_time(description)?;
        self.components.keep(component)?;
        self.plan_log.set_description(description).context("failed to write down the activation")?;
        self.component = Arc::clone(component);
        self.settings.parameters = parameters.clone();
        self.settings.limits = limits.clone();
        Ok(Swapped { batch: self.next_batch(), rows_left: 0 })
    }
}
