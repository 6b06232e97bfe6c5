//! Functions that count and set no timeout that matters: `count-to-three`, `rows`, `rows-with-previous`.

use crate::function::Group;
use keyfold_sdk::Form;
use keyfold_sdk::prelude::*;
use serde_json::{Value, json};

/// Counts rows, and forgets a key at its third one. For F01 to F04, F12 to F14, T01, T05, T11 and T12.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CountToThree {
    /// One step, and one output, for each row instead of one for all (F03).
    #[serde(default)]
    per_row: bool,
    /// The event of a key that fails, counted from 1 (F12).
    fail_on: Option<i64>,
    /// Another number than three.
    #[serde(default = "three")]
    limit: i64,
}

fn three() -> i64 {
    3
}

impl CountToThree {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let rows = group.row_count();
        let steps = if self.per_row { vec![1; group.rows.len()] } else { vec![rows] };
        let mut outputs = Vec::new();
        for rows in steps {
            outputs.extend(self.step(rows, group)?);
        }
        Ok(outputs)
    }

    fn step(&self, rows: i64, group: &mut Group) -> Result<Option<Value>> {
        let before = group.count()?;
        let count = before + rows;
        if let Some(number) = self.fail_on.filter(|number| (before + 1..=count).contains(number)) {
            bail!("event {number} of {} fails", group.key);
        }
        if count != self.limit {
            group.state.update(&count.into())?;
            return Ok(Some(json!([group.key, count])));
        }
        group.state.remove();
        // In the map form, where every call has an output, Spark's function says so (F04).
        Ok((group.form == Form::Map).then(|| json!([group.key, -1])))
    }
}

/// Says how many rows there are, and whether there was state. For F06 and F07.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rows {
    /// Sets a timeout in event time and a state before that: in a batch query, both are accepted (F07).
    #[serde(default)]
    set_timeout: bool,
}

impl Rows {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let exists = group.state.exists();
        if self.set_timeout {
            group.state.set_timeout_timestamp_after(0, "1 hour")?;
            group.state.update(&10.into())?;
        }
        Ok(vec![json!([group.key, group.row_count(), exists])])
    }
}

/// Says of each row how many the key had before this batch. For F17.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsWithPrevious {}

impl RowsWithPrevious {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let previous = group.count()?;
        group.state.update(&(previous + group.row_count()).into())?;
        Ok(group.rows.iter().map(|row| json!([group.key, row.v, previous])).collect())
    }
}
