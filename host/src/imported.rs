//! [`ImportedRows`]: the imported states of one partition in one batch, as the rule would have written them.

use crate::description::Description;
use crate::event::PartitionId;
use crate::generation::{Generation, Mark};
use crate::group::Timeout;
use crate::input::BatchInput;
use crate::state::{DeadLetter, Loaded};
use hashbrown::HashMap;

/// The imported states of one partition in one batch.
#[derive(Default)]
pub struct ImportedRows<'b> {
    rows: Vec<ImportedRow<'b>>,
    by_key: HashMap<&'b [u8], usize>,
}

/// The imported state of one key.
pub struct ImportedRow<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The encoded state and its schema.
    pub state: Option<(Vec<u8>, u32)>,
    /// The timeout.
    pub timeout: Option<Timeout>,
    /// Whether it keeps the timeout that the key has.
    keeps_timeout: bool,
    /// Whether the row is put as it is, without a call of the rule.
    pub as_is: bool,
    /// Whether the rule is called for the key in this batch.
    pub is_called: bool,
}

impl<'b> ImportedRows<'b> {
    /// Encodes the states in the format of a rule. What cannot be encoded becomes a dead letter.
    pub fn new(
        input: &'b BatchInput,
        partition: PartitionId,
        description: &Description,
        dead_letters: &mut Vec<DeadLetter>,
    ) -> Self {
        let mut found = ImportedRows::default();
        for imported in input.imported_to(partition) {
            let row = &imported.row;
            match row.state(description.state_format) {
                Ok(state) => {
                    let schema = row.schema.unwrap_or(description.state_schema);
                    found.by_key.insert(&row.key, found.rows.len());
                    found.rows.push(ImportedRow {
                        key: &row.key,
                        state: state.map(|state| (state, schema)),
                        timeout: row.timeout,
                        keeps_timeout: row.keeps_timeout,
                        as_is: imported.as_is,
                        is_called: false,
                    });
                }
                Err(message) => dead_letters.push(DeadLetter {
                    reason: "invalid-import".to_owned(),
                    message,
                    key: Some(String::from_utf8_lossy(&row.key).into_owned()),
                    digest: None,
                    fuel: None,
                    timed_out: false,
                    events: vec![input.dead_row(imported)],
                }),
            }
        }
        found
    }

    /// The row of a key.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut ImportedRow<'b>> {
        // Nearly every batch has none.
        if self.rows.is_empty() {
            return None;
        }
        self.by_key.get(key).map(|&place| &mut self.rows[place])
    }

    /// Whether a key's state is imported.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.by_key.contains_key(key)
    }

    /// All of them, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = &ImportedRow<'b>> {
        self.rows.iter()
    }
}

impl ImportedRow<'_> {
    /// Takes over the timeout that the key has, when the row is to keep it.
    pub fn keep_timeout_of(&mut self, before: Option<Loaded>) {
        if self.keeps_timeout {
            self.timeout = before.and_then(|before| before.timeout);
        }
    }

    /// The row as a batch finds it.
    pub fn loaded(&self, generation: Generation) -> Loaded {
        let schema = self.state.as_ref().map(|(_, schema)| *schema);
        Loaded { mark: Mark { generation, schema }, timeout: self.timeout }
    }

    /// The encoded state; empty when there is none.
    pub fn bytes(&self) -> &[u8] {
        self.state.as_ref().map_or(&[], |(state, _)| state)
    }
}
