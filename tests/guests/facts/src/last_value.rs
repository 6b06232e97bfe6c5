//! `last-value`: a state whose shape gains a field and loses it again.

use crate::function::Group;
use keyfold_sdk::prelude::*;
use serde_json::{Value, json};

/// Says of each row which value came before it. For T10, T16, T18 and T22.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LastValue {
    /// The state has a count as well. A state without one can be read, and a count that is not wanted is dropped.
    #[serde(default)]
    with_count: bool,
}

/// The state, in both shapes.
#[derive(Serialize, Deserialize)]
struct State {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    last: Value,
}

impl LastValue {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let mut state = match group.state.get_option()? {
            Some(state) => serde_json::from_value(state)?,
            None => State { count: None, last: "".into() },
        };
        let mut outputs = Vec::new();
        for row in &group.rows {
            state.count = self.with_count.then(|| state.count.unwrap_or(0) + 1);
            outputs.push(match state.count {
                Some(count) => json!([group.key, count, state.last]),
                None => json!([group.key, state.last]),
            });
            state.last = row.v.clone();
        }
        if !group.rows.is_empty() {
            group.state.update(&serde_json::to_value(&state)?)?;
        }
        Ok(outputs)
    }
}
