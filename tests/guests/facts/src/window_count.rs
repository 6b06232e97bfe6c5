//! `window-count`: Spark's aggregate over windows of event time, as a function with a timeout at the end of the window.

use crate::function::Group;
use keyfold_sdk::prelude::*;
use serde_json::{Value, json};

/// Counts the events of a window of five seconds, whose start in seconds is the key. For W01 to W03 and W05 to W07.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowCount {
    /// When it says the count.
    #[serde(default)]
    mode: Mode,
}

/// Spark's output modes.
#[derive(Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Once, when the watermark has reached the end of the window.
    #[default]
    Append,
    /// After every change.
    Update,
}

impl WindowCount {
    const LENGTH_S: i64 = 5;

    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let start_s: i64 = group.key.parse()?;
        let end_ms = start_s.saturating_add(Self::LENGTH_S).saturating_mul(1000);
        let count = group.count()? + group.row_count();
        // Events are let in by the watermark of the batch before, so a window can end in the call that opens it.
        let has_ended = group.state.has_timed_out() || end_ms <= group.state.current_watermark_ms()?;
        if has_ended {
            group.state.remove();
        } else {
            group.state.update(&count.into())?;
            // A timeout is due strictly after its time, a window ends when the watermark reads its end.
            group.state.set_timeout_timestamp(end_ms - 1)?;
        }
        let is_due = match self.mode {
            Mode::Append => has_ended,
            Mode::Update => !group.rows.is_empty(),
        };
        Ok(if is_due { vec![json!([start_s, count])] } else { Vec::new() })
    }
}
