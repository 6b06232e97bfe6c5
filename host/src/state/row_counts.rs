//! [`RowCounts`]: how many rows there are of each generation and schema. They are kept with every commit, so that nobody has to look
//! through all rows to know whether a version can read them, or whether a generation has any left.

use crate::generation::{Generation, Mark};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// How many rows there are of each generation and schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowCounts(BTreeMap<u32, u64>);

/// By how much the numbers of rows change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowChanges(BTreeMap<u32, i64>);

impl RowCounts {
    /// Counts one more row.
    pub fn add(&mut self, mark: Mark) {
        *self.0.entry(mark.number()).or_default() += 1;
    }

    /// Counts what others have counted, too.
    pub fn join(mut self, other: &RowCounts) -> Self {
        for (&number, &rows) in &other.0 {
            *self.0.entry(number).or_default() += rows;
        }
        self
    }

    /// After changes.
    pub fn changed(mut self, changes: &RowChanges) -> Self {
        for (&number, &change) in &changes.0 {
            let rows = self.0.entry(number).or_default();
            *rows = rows.saturating_add_signed(change);
        }
        self.0.retain(|_, rows| *rows > 0);
        self
    }

    /// All rows.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The rows of a generation.
    pub fn of_generation(&self, generation: Generation) -> u64 {
        self.iter().filter(|(mark, _)| mark.generation == generation).map(|(_, rows)| rows).sum()
    }

    /// How many rows there are of each kind that there is.
    pub fn iter(&self) -> impl Iterator<Item = (Mark, u64)> {
        self.0.iter().map(|(&number, &rows)| (Mark::of(Some(number)), rows))
    }

    /// As text of JSON, for the file.
    pub(super) fn to_text(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0)?)
    }

    pub(super) fn from_text(text: &str) -> Result<Self> {
        let counts = serde_json::from_str(text).context("failed to read how many rows there are of each schema")?;
        Ok(RowCounts(counts))
    }
}

impl RowChanges {
    /// A row is another one now.
    pub fn replace(&mut self, before: Option<Mark>, after: Option<Mark>) {
        for (mark, change) in [(before, -1), (after, 1)] {
            if let Some(mark) = mark {
                *self.0.entry(mark.number()).or_default() += change;
            }
        }
    }

    /// By how much the number of all rows changes.
    pub fn total(&self) -> i64 {
        self.0.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(generation: u8, schema: u32) -> Mark {
        Mark { generation: Generation(generation), schema: Some(schema) }
    }

    #[test]
    fn rows_are_counted_by_generation_and_schema() {
        let mut counts = RowCounts::default();
        [mark(0, 1), mark(0, 1), mark(0, 2), mark(1, 2)].into_iter().for_each(|mark| counts.add(mark));
        let mut changes = RowChanges::default();
        changes.replace(Some(mark(0, 1)), Some(mark(1, 2)));
        changes.replace(Some(mark(0, 2)), None);
        changes.replace(None, Some(mark(1, 3)));
        assert_eq!(changes.total(), 0);
        let counts = counts.changed(&changes);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(mark(0, 1), 1), (mark(1, 2), 2), (mark(1, 3), 1)]);
        assert_eq!((counts.total(), counts.of_generation(Generation(1))), (4, 3));
        assert_eq!(RowCounts::from_text(&counts.to_text().unwrap()).unwrap(), counts);
    }
}
