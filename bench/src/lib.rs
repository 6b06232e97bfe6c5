//! What the measurements share.

pub mod fed;
pub mod latencies;
pub mod process;

use anyhow::Result;
use keyfold::group::GroupColumns;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The groups of one call: as many as the host puts into one.
pub const GROUPS: usize = 1000;

/// The component of an example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).join("rule.wasm")
}

/// Groups of keys without state, with this many events of about 120 bytes each.
pub fn groups(events: usize) -> GroupColumns {
    let mut groups = GroupColumns::default();
    for group in 0..GROUPS {
        groups.keys.extend(format!("user-{group:06}").bytes());
        groups.state_schemas.push(0);
        groups.flags.push(0);
        for event in 0..events {
            let payload = format!(
                r#"{{"id":"tx-{group:06}-{event:02}","user_id":"user-{group:06}","ts":1767571200000,"amount_minor":12345,"country":"CH","mcc":"5411"}}"#
            );
            groups.payloads.extend(payload.bytes());
            groups.payload_ends.push(groups.payloads.len() as u32);
            groups.event_times_ms.push(1_767_571_200_000);
        }
        groups.close_group();
    }
    groups
}

/// The shortest time of several runs.
pub fn shortest(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut shortest = Duration::MAX;
    for _ in 0..runs {
        let started = Instant::now();
        run()?;
        shortest = shortest.min(started.elapsed());
    }
    Ok(shortest)
}
