//! [`RuleLogs`]: what a rule logged last, for whoever follows it.

use super::Wake;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Lines that are kept for whoever is slow. A rule that writes more than that while nobody reads loses the oldest.
const LINES_MAX: usize = 1_000;

/// What a rule logged last. Keeps nothing while nobody follows.
#[derive(Default)]
pub(super) struct RuleLogs(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// The number of the first line that is kept.
    first: u64,
    lines: VecDeque<Value>,
    watchers: Vec<(u64, Wake)>,
    next_watcher: u64,
}

/// Somebody follows, as long as this lives.
pub(super) struct Watching {
    number: u64,
    logs: Weak<RuleLogs>,
}

impl RuleLogs {
    /// A line was logged.
    pub(super) fn push(&self, line: impl FnOnce() -> Value) {
        let wakes: Vec<Wake> = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.watchers.is_empty() {
                return;
            }
            lines.lines.push_back(line());
            if lines.lines.len() > LINES_MAX {
                lines.lines.pop_front();
                lines.first += 1;
            }
            lines.watchers.iter().map(|(_, wake)| Arc::clone(wake)).collect()
        };
        wakes.iter().for_each(|wake| wake());
    }

    /// The lines from this number on, and the number to go on with.
    pub(super) fn read(&self, from: u64) -> (Vec<Value>, u64) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = lines.first.saturating_sub(from);
        let mut read: Vec<Value> = (dropped > 0).then(|| json!({ "dropped": dropped })).into_iter().collect();
        read.extend(lines.lines.iter().skip(from.saturating_sub(lines.first) as usize).cloned());
        (read, lines.first + lines.lines.len() as u64)
    }

    /// The number of the next line.
    pub(super) fn end(&self) -> u64 {
        self.read(u64::MAX).1
    }

    /// Calls `wake` after each line.
    pub(super) fn watch(self: &Arc<Self>, wake: Wake) -> Watching {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = lines.next_watcher;
        lines.next_watcher += 1;
        lines.watchers.push((number, wake));
        Watching { number, logs: Arc::downgrade(self) }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(logs) = self.logs.upgrade() else { return };
        let mut lines = logs.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.watchers.retain(|(number, _)| *number != self.number);
        if lines.watchers.is_empty() {
            lines.first += lines.lines.len() as u64;
            lines.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_too_slow_is_told_how_many_lines_are_gone() {
        let logs = Arc::new(RuleLogs::default());
        logs.push(|| panic!("nobody follows, so nothing is made"));
        let _watching = logs.watch(Arc::new(|| {}));
        for number in 0..LINES_MAX + 2 {
            logs.push(|| number.into());
        }
        let (lines, next) = logs.read(0);
        assert_eq!((&lines[0], &lines[1], lines.len()), (&json!({ "dropped": 2 }), &json!(2), LINES_MAX + 1));
        assert_eq!(logs.read(next), (vec![], next));
    }
}
