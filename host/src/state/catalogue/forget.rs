//! What goes with a rule.

use super::{Change, RuleId};
use anyhow::Result;

impl Change<'_> {
    /// Deletes all rows of a rule.
    pub fn forget_rule(&self, rule: &RuleId) -> Result<()> {
        self.delete_references(rule)?;
        self.delete_versions(rule)?;
        self.delete_activations(rule)?;
        self.delete_rule(rule)
    }
}
