//! How long it takes to restore a state of a million keys from a checkpoint, and whether every row is right.
//!
//! `cargo build --release -p keyfold-bench && target/release/restore [URL…]`: a folder on this machine, and each URL, such as
//! `s3://bucket/path` with what S3 needs in the environment.

use anyhow::{Context, Result, ensure};
use keyfold::checkpoint::object::{Commit, Delta, Metadata, Offsets, PartitionCommit, checksum_of, to_text};
use keyfold::checkpoint::restore::{Options, restore};
use keyfold::checkpoint::snapshot::SnapshotWriter;
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::clock::Clock;
use keyfold::event::{BatchId, InputId, KeyGroup, Millis, OffsetRange, PartitionId, Position};
use keyfold::group::{Timeout, TimeoutClock};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity, Plan};
use keyfold::state::delta::DeltaRow;
use keyfold::state::reader::PartitionReader;
use keyfold::state::{DeltaBuilder, OutputBlock};
use keyfold::watermark::WatermarkPolicy;
use std::fs::File;
use std::io::{BufWriter, Seek};
use std::time::Instant;

const KEYS: u64 = 1_000_000;
const PARTITIONS: u32 = 4;
/// Batches after the snapshot, and the keys that each changes.
const BATCHES: u64 = 100;
const CHANGED: u64 = 5_000;
const STATE_BYTES: usize = 100;

/// The version of a key's row: how often it was changed after the snapshot.
type Versions = Vec<u8>;

fn main() -> Result<()> {
    let work = tempfile::tempdir()?;
    let local = work.path().join("checkpoint").display().to_string();
    for url in [local].into_iter().chain(std::env::args().skip(1)) {
        let store = CheckpointStore::open(&url)?;
        let started = Instant::now();
        let versions = write(&store)?;
        let written = started.elapsed();
        let folder = work.path().join("data");
        let started = Instant::now();
        let restored = restore(&store, &folder, Options::default(), &mut ())?;
        let taken = started.elapsed();
        ensure!(restored.faults.is_empty() && restored.batch == Some(BatchId(BATCHES)), "{restored:?}");
        let started = Instant::now();
        compare(&folder, &versions)?;
        println!(
            "{url}: written in {:.1} s, {KEYS} keys of {:.1} MB restored in {:.2} s, every row read and compared in {:.1} s",
            written.as_secs_f64(),
            restored.bytes as f64 / 1e6,
            taken.as_secs_f64(),
            started.elapsed().as_secs_f64()
        );
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Writes a snapshot of all keys at batch 0 and a delta of each partition for each batch after it.
fn write(store: &CheckpointStore) -> Result<Versions> {
    put(store, &Object::Metadata, &Metadata { identity: identity(), description: serde_json::json!({}) })?;
    let mut keys: Vec<(KeyGroup, Vec<u8>, u64)> =
        (0..KEYS).map(|number| (KeyGroup::of(&key(number)), key(number), number)).collect();
    keys.sort_unstable();
    let mut versions = vec![0; KEYS as usize];
    let mut rows = vec![0; PARTITIONS as usize];
    for partition in (0..PARTITIONS).map(PartitionId) {
        let mut writer = SnapshotWriter::new(BufWriter::new(tempfile::tempfile()?))?;
        for (_, key, number) in keys.iter().filter(|(group, ..)| group.partition(PARTITIONS) == partition) {
            rows[partition.0 as usize] += 1;
            writer.row(row(key, &state(*number, 0), *number))?;
        }
        let mut file: File = writer.finish()?.0.into_inner()?;
        file.rewind()?;
        store.upload(&Object::Snapshot(partition, BatchId(0)), file)?;
    }
    commit(store, BatchId(0), rows.iter().map(|rows| PartitionCommit { rows: *rows, delta: None }).collect())?;
    for batch in (1..=BATCHES).map(BatchId) {
        let mut changes: Vec<DeltaBuilder> = (0..PARTITIONS).map(|_| DeltaBuilder::default()).collect();
        for step in 0..CHANGED {
            // Spread over all keys, and each at most once in a batch: the step is prime to their number.
            let number = (batch.0 * CHANGED + step) * 7_919 % KEYS;
            let version = &mut versions[number as usize];
            *version += 1;
            let key = key(number);
            let partition = KeyGroup::of(&key).partition(PARTITIONS).0 as usize;
            changes[partition].push(row(&key, &state(number, *version), number));
        }
        let mut objects = Vec::new();
        let mut commits = Vec::new();
        for ((partition, changes), rows) in (0..).map(PartitionId).zip(changes).zip(&rows) {
            let outputs = OutputBlock::default();
            let delta = Delta { changes: changes.finish(), rows: *rows, outputs, dead_letters: Vec::new() };
            let bytes = delta.to_bytes()?;
            commits.push(PartitionCommit { rows: *rows, delta: checksum_of(&bytes) });
            objects.push((Object::Delta(partition, batch), bytes));
        }
        store.create_all(&objects)?;
        commit(store, batch, commits)?;
    }
    Ok(versions)
}

/// Reads every row that was restored.
fn compare(folder: &std::path::Path, versions: &Versions) -> Result<()> {
    let mut found = 0;
    for partition in (0..PARTITIONS).map(PartitionId) {
        PartitionReader::open(folder, partition)?.scan(|row| {
            found += 1;
            let text = std::str::from_utf8(&row.key)?;
            let number: u64 = text.trim_start_matches("user-").parse().context("a key has another form")?;
            let expected = state(number, versions[number as usize]);
            ensure!(
                row.state == Some((expected, 1)) && row.timeout == Some(timeout(number)),
                "the row of {text} differs"
            );
            Ok(())
        })?;
    }
    ensure!(found == KEYS, "{found} rows were restored");
    Ok(())
}

fn key(number: u64) -> Vec<u8> {
    format!("user-{number:08}").into_bytes()
}

fn state(number: u64, version: u8) -> Vec<u8> {
    let mut state = format!("{{\"count\":{number},\"version\":{version},\"note\":\"").into_bytes();
    let mut random = number;
    while state.len() < STATE_BYTES - 2 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(version) + 1);
        state.push(b'a' + (random >> 60) as u8);
    }
    state.extend_from_slice(b"\"}");
    state
}

fn timeout(number: u64) -> Timeout {
    Timeout { clock: TimeoutClock::EventTime, at: Millis((number * 31 % KEYS) as i64) }
}

fn row<'r>(key: &'r [u8], state: &'r [u8], number: u64) -> DeltaRow<'r> {
    DeltaRow { key, state: Some((state, 1)), timeout: Some(timeout(number)) }
}

fn commit(store: &CheckpointStore, batch: BatchId, partitions: Vec<PartitionCommit>) -> Result<()> {
    let at = |batch: u64| Position { offset: batch, line: batch };
    let plan = Plan {
        batch,
        ranges: vec![OffsetRange {
            input: InputId(0),
            file: "bench".to_owned(),
            from: at(batch.0),
            to: at(batch.0 + 1),
        }],
        time: Millis(0),
        watermark: Some(Millis(0)),
        late_watermark: Some(Millis(0)),
        event_times_max: vec![Some(Millis(0))],
        seed: String::new(),
        digest: "sha256:00".to_owned(),
        parameters: "{}".to_owned(),
        limits: Limits::default(),
        batch_query: false,
    };
    put(store, &Object::Offsets(batch), &Offsets { epoch: 1, plan })?;
    let commit = Commit { epoch: 1, time: Clock::System.now(), delivered: Some(batch), partitions };
    put(store, &Object::Commit(batch), &commit)
}

fn put(store: &CheckpointStore, object: &Object, value: &impl serde::Serialize) -> Result<()> {
    store.overwrite(object, to_text(value)?)
}

fn identity() -> Identity {
    Identity {
        rule: "bench".to_owned(),
        partitions: PARTITIONS,
        inputs: vec![InputIdentity { name: "input".to_owned(), key: vec!["/key".to_owned()], event_time: None }],
        watermark_policy: WatermarkPolicy::Min,
        record_bytes_max: 0,
        csv_text: Vec::new(),
        id: "bench".to_owned(),
    }
}
