//! A checkpoint of a run that has ended, written by its format: what a host would have uploaded batch by batch.

use super::host::Stream;
use bytes::Bytes;
use keyfold::checkpoint::object::{Commit, Delta, Epoch, Metadata, Offsets, PartitionCommit, checksum_of, to_text};
use keyfold::checkpoint::positions::{ReadPositions, advance};
use keyfold::checkpoint::snapshot::SnapshotWriter;
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::clock::Clock;
use keyfold::event::{BatchId, InputId, KeyGroup, Millis, PartitionId, Positions};
use keyfold::plan::{Identity, Plan};
use keyfold::state::delta::DeltaRow;
use keyfold::state::reader::{KeyRow, PartitionReader};
use keyfold::state::{DeltaBuilder, OutputBlock, PlanLog};
use serde_json::Value;
use std::fs;

/// What of a run is in its checkpoint.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Batches after which every partition has a snapshot.
    pub snapshots: Vec<u64>,
    /// The last plans are not committed: so many.
    pub uncommitted: u64,
    /// A commit knows that the batch so many before it was delivered.
    pub undelivered: u64,
}

/// Writes the checkpoint of a run whose whole history can be read.
pub fn write(stream: &Stream, store: &CheckpointStore, contents: &Contents) -> u64 {
    let identity = PlanLog::identity(&stream.data).expect("it can be read").expect("it has run");
    let plans = plans(stream, &identity);
    let description = PlanLog::description(&stream.data).expect("it can be read").expect("it has run");
    let description = serde_json::to_value(description).expect("it is JSON");
    put(store, &Object::Metadata, to_text(&Metadata { identity, description }).expect("it is JSON"));
    let epoch = Epoch::new(stream.data.display().to_string(), &Clock::System);
    put(store, &Object::Epoch(1), to_text(&epoch).expect("it is JSON"));
    let mut positions = Positions::new();
    let last = plans.len() as u64 - 1 - contents.uncommitted;
    for plan in &plans {
        let batch = plan.batch;
        files_of(stream, store, plan);
        put(store, &Object::Offsets(batch), to_text(&Offsets { epoch: 1, plan: plan.clone() }).expect("it is JSON"));
        advance(&mut positions, &plan.ranges);
        if batch.0 > last {
            continue;
        }
        let mut partitions = Vec::new();
        for partition in (0..stream.partitions).map(PartitionId) {
            let delta = delta_of(stream, partition, batch);
            let mut commit = PartitionCommit { rows: delta.rows, delta: None };
            if !delta.is_empty() {
                let bytes = delta.to_bytes().expect("it can be written");
                commit.delta = checksum_of(&bytes);
                put(store, &Object::Delta(partition, batch), bytes);
            }
            partitions.push(commit);
        }
        let delivered = batch.0.checked_sub(contents.undelivered).map(BatchId);
        let commit = Commit { epoch: 1, time: Millis(batch.0 as i64), delivered, partitions };
        put(store, &Object::Commit(batch), to_text(&commit).expect("it is JSON"));
        if contents.snapshots.contains(&batch.0) {
            for partition in (0..stream.partitions).map(PartitionId) {
                snapshot(stream, store, partition, batch);
            }
            let read = ReadPositions::new(batch, &positions);
            put(store, &Object::Positions(batch), to_text(&read).expect("it is JSON"));
        }
    }
    last
}

/// All rows of a partition after a batch.
pub fn rows_at(stream: &Stream, partition: PartitionId, batch: BatchId) -> Vec<KeyRow> {
    let mut rows = Vec::new();
    let scanned = reader(stream, partition).scan_at(batch, |row| {
        rows.push(row);
        Ok(())
    });
    scanned.unwrap_or_else(|error| panic!("{error:#}"));
    rows
}

fn reader(stream: &Stream, partition: PartitionId) -> PartitionReader {
    PartitionReader::open(&stream.data, partition).unwrap_or_else(|error| panic!("{error:#}"))
}

fn plans(stream: &Stream, identity: &Identity) -> Vec<Plan> {
    let log = PlanLog::open(&stream.data, identity).expect("no host has it");
    log.from(BatchId(0)).expect("all plans are kept")
}

fn delta_of(stream: &Stream, partition: PartitionId, batch: BatchId) -> Delta {
    let reader = reader(stream, partition);
    let mut changes = DeltaBuilder::default();
    let read = reader.changes(batch..=batch, |_, row| {
        changes.push(delta_row(&row));
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{error:#}"));
    let mut dead_letters = Vec::new();
    let read = reader.dead_letters(|of, letter| {
        if of == batch {
            dead_letters.push(letter);
        }
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{error:#}"));
    Delta {
        changes: if changes.rows() == 0 { Vec::new() } else { changes.finish() },
        rows: rows_at(stream, partition, batch).len() as u64,
        outputs: outputs_of(stream, partition, batch),
        dead_letters,
    }
}

/// The outputs of a partition in the file of a batch, found by their keys.
fn outputs_of(stream: &Stream, partition: PartitionId, batch: BatchId) -> OutputBlock {
    let mut block = OutputBlock::default();
    let file = stream.output.join(format!("batch-{:010}.jsonl", batch.0));
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        let output: Value = serde_json::from_str(line).expect("outputs are JSON");
        let key = output["user_id"].as_str().or(output["key"].as_str()).expect("outputs name their key");
        if KeyGroup::of(key.as_bytes()).partition(stream.partitions) == partition {
            block.outputs += 1;
            block.lines.extend_from_slice(line.as_bytes());
            block.lines.push(b'\n');
        }
    }
    block
}

fn snapshot(stream: &Stream, store: &CheckpointStore, partition: PartitionId, batch: BatchId) {
    let mut writer = SnapshotWriter::new(Vec::new()).expect("memory can be written");
    for row in rows_at(stream, partition, batch) {
        writer.row(delta_row(&row)).expect("memory can be written");
    }
    let letters = reader(stream, partition).dead_letters(|of, letter| match of <= batch {
        true => writer.dead_letter(of, &letter),
        false => Ok(()),
    });
    letters.expect("memory can be written");
    let (bytes, _) = writer.finish().expect("memory can be written");
    store.upload(&Object::Snapshot(partition, batch), bytes.as_slice()).expect("the store takes it");
}

fn delta_row(row: &KeyRow) -> DeltaRow<'_> {
    let state = row.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema));
    DeltaRow { key: &row.key, state, timeout: row.timeout }
}

/// What a plan names.
fn files_of(stream: &Stream, store: &CheckpointStore, plan: &Plan) {
    let digest = plan.digest.trim_start_matches("sha256:").to_owned();
    let component = fs::read(stream.data.join("components").join(format!("{digest}.wasm"))).expect("it is kept");
    put(store, &Object::Component(digest), component.into());
    for range in plan.ranges.iter().filter(|range| range.input == InputId::IMPORTS) {
        let file = fs::read(stream.data.join("imports").join(&range.file)).expect("it is kept");
        let mut object = Vec::new();
        keyfold::checkpoint::import::write(file.as_slice(), &mut object).expect("memory can be written");
        put(store, &Object::Import(range.file.clone()), object.into());
    }
}

fn put(store: &CheckpointStore, object: &Object, bytes: Bytes) {
    store.create(object, bytes).unwrap_or_else(|error| panic!("{error:#}"));
}
