//! `initial-count`: a count that goes on from what was there before the first batch.

use crate::function::Group;
use keyfold_sdk::prelude::*;
use serde_json::{Value, json};

/// Adds rows to the state, and says what it added. For F18 to F22, F24, F25 and T32 to T34.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialCount {
    /// Adds the rows' values instead of their number (T33).
    #[serde(default)]
    sum: bool,
}

/// Keys that begin with this are never updated: what was imported must stay all the same (F18).
const NOT_UPDATED: &str = "noUpd";

impl InitialCount {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let mut count = group.count()?;
        for row in &group.rows {
            count += if self.sum { whole(&row.v)? } else { 1 };
        }
        if !group.key.starts_with(NOT_UPDATED) {
            group.state.update(&count.into())?;
        }
        let values: Vec<Value> =
            group.rows.iter().map(|row| if row.v.is_null() { group.key.into() } else { row.v.clone() }).collect();
        Ok(vec![json!([group.key, values, count])])
    }
}

fn whole(value: &Value) -> Result<i64> {
    value.as_i64().ok_or_else(|| Error::new(format_args!("v is {value}, not a whole number")))
}
