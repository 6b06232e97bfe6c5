//! Which rule reads and writes which stream.

use super::{Change, RuleId, StreamId};
use anyhow::Result;
use rusqlite::params;

pub(super) const SCHEMA: &str = "
    -- By ids: a stream that is deleted and made again under its name is not what the rule was bound to. So a stream that a
    -- rule uses is not deleted.
    CREATE TABLE reference (
        rule TEXT NOT NULL,
        -- The name of the rule's input; '' for its outputs.
        input TEXT NOT NULL,
        stream TEXT NOT NULL,
        PRIMARY KEY (rule, input)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX reference_stream ON reference (stream);
";

/// What a rule does with a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// It writes its outputs there.
    Outputs,
    /// It reads it as the input of this name.
    Input(String),
}

/// That a rule uses a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The rule.
    pub rule: RuleId,
    /// What for.
    pub r#use: Use,
    /// The stream.
    pub stream: StreamId,
}

impl Change<'_> {
    /// Which rule uses which stream.
    pub fn references(&self) -> Result<Vec<Reference>> {
        let mut statement = self.transaction.prepare_cached("SELECT rule, input, stream FROM reference")?;
        let rows = statement.query_map([], |row| {
            let input: String = row.get(1)?;
            Ok(Reference {
                rule: RuleId::from_text(row.get(0)?),
                r#use: if input.is_empty() { Use::Outputs } else { Use::Input(input) },
                stream: StreamId::from_text(row.get(2)?),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The names of the rules that use a stream.
    pub fn rules_using(&self, stream: &StreamId) -> Result<Vec<String>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT DISTINCT rule.name FROM reference JOIN rule ON rule.id = reference.rule
             WHERE reference.stream = ?1 ORDER BY rule.name",
        )?;
        let rows = statement.query_map([stream.as_str()], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Sets what a rule uses.
    pub fn set_references(&self, rule: &RuleId, references: &[(Use, StreamId)]) -> Result<()> {
        self.delete_references(rule)?;
        let mut statement =
            self.transaction.prepare_cached("INSERT INTO reference (rule, input, stream) VALUES (?1, ?2, ?3)")?;
        for (r#use, stream) in references {
            let input = match r#use {
                Use::Outputs => "",
                Use::Input(name) => name,
            };
            statement.execute(params![rule.as_str(), input, stream.as_str()])?;
        }
        Ok(())
    }

    /// Forgets what a rule uses.
    pub fn delete_references(&self, rule: &RuleId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM reference WHERE rule = ?1")?.execute([rule.as_str()])?;
        Ok(())
    }
}
