//! [`planned_version`]: what the data folder of a rule knows to run.

use crate::state::{NextRun, PlanLog};
use anyhow::Result;
use std::path::Path;

/// What the data folder of a rule knows to run; none when it has planned nothing. An activation that is not known there has not taken
/// effect, and is to be asked for again.
pub fn planned_version(folder: &Path) -> Result<Option<NextRun>> {
    PlanLog::running(folder)
}
