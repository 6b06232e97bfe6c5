//! A small input in which everything happens: sessions that end, alerts, a late payment, and lines that cannot be handled.

use serde_json::json;
use std::fs;
use std::path::Path;

const START_MS: i64 = 1_767_571_200_000;
/// Half of the users pay in turn; then the other half does, until the sessions of the first are over.
const TURN: u32 = 6;
/// Between two payments: a session ends after half an hour, which is less than a turn.
const PAUSE_MS: i64 = 400_000;
/// Which payment comes far too late.
const LATE: u32 = 23;

/// The lines of so many payments and a burst of others, and three that are none, in time order but for the late one.
pub fn payments(count: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for number in 0..count {
        let user = format!("user-{}", number % 3 + 3 * (number / TURN % 2));
        let late_ms = if number == LATE { 3 * 3_600_000 } else { 0 };
        let at = START_MS + i64::from(number) * PAUSE_MS - late_ms;
        let amount = if number % 4 == 3 { 900 } else { 60_000 + i64::from(number) };
        lines.push(json!({"id": format!("t{number}"), "user_id": user, "ts": at, "amount_minor": amount}).to_string());
        match number {
            2 => lines.push("no JSON".to_owned()),
            7 => lines.push(json!({"user_id": null, "ts": at}).to_string()),
            // A group that the rule refuses.
            9 => lines.push(json!({"user_id": "refused", "ts": at, "amount_minor": "much"}).to_string()),
            // Enough for an alert.
            12 => {
                let burst =
                    |second: i64| json!({"user_id": "burst", "ts": at + second * 1_000, "amount_minor": 70_000});
                lines.extend((0..7).map(|second| burst(second).to_string()));
            }
            _ => {}
        }
    }
    lines
}

/// Writes these lines to so many files of a folder, one after another.
pub fn write(folder: &Path, lines: &[String], files: usize) {
    fs::create_dir_all(folder).expect("a folder can be made");
    for (number, lines) in lines.chunks(lines.len().div_ceil(files)).enumerate() {
        fs::write(folder.join(format!("events-{number:03}.jsonl")), lines.join("\n") + "\n")
            .expect("the disk has room");
    }
}

/// States of sessions as `keyfold state import` takes them: of a user who pays, and of one who does not.
pub fn sessions() -> String {
    ["user-1", "only-imported"]
        .map(|user| {
            let session = json!({"start_ms": START_MS, "last_ms": START_MS, "count": 1, "hv_count": 0,
                "total_minor": 7, "flagged": false});
            format!("{}\n", json!({"key": user, "value": session}))
        })
        .concat()
}
