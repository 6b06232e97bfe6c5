//! [`PlannedVersion`]: what the data folder of a rule knows to run.

use crate::event::BatchId;
use crate::state::PlanLog;
use anyhow::Result;
use std::path::Path;

/// What the data folder of a rule knows to run: of the last activation, or of the last batch when there was none after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedVersion {
    /// The digest of the component.
    pub digest: String,
    /// The first batch that runs with it; when it was not activated, the last one that did.
    pub since: BatchId,
    /// The parameters of the last batch, as JSON; none when an activation came after it: then they are those that were asked for.
    pub parameters: Option<String>,
}

/// What the data folder of a rule knows to run; none when it has planned nothing. An activation that is not known there has not taken
/// effect, and is to be asked for again.
pub fn planned_version(folder: &Path) -> Result<Option<PlannedVersion>> {
    let Some((last, activated)) = PlanLog::last_version(folder)? else { return Ok(None) };
    let after = last.as_ref().map(|last| last.batch);
    Ok(match (activated.filter(|activated| activated.after == after), last) {
        (Some(activated), _) => Some(PlannedVersion {
            digest: activated.digest,
            since: BatchId(after.map_or(0, |after| after.0 + 1)),
            parameters: None,
        }),
        (None, Some(last)) => {
            Some(PlannedVersion { digest: last.digest, since: last.batch, parameters: Some(last.parameters) })
        }
        (None, None) => None,
    })
}
