//! The state as of earlier batches, and what each batch changed: as long as they are kept, they read as they did when they
//! were new.

mod command_line;
mod random;
mod retention;

use crate::support::rules::Trial;
use keyfold::event::BatchId;
use keyfold::inspection::{StateDecoder, change_to_json, row_to_json};
use keyfold::state::folder_reader::FolderReader;
use serde_json::Value;
use std::path::Path;

/// No events: a batch for timeouts alone.
const NOTHING: [&str; 0] = [];

/// What can be read of a rule.
struct Readable {
    reader: FolderReader,
    decoder: StateDecoder,
}

impl Readable {
    fn of(trial: &Trial) -> Self {
        Readable::of_folder(trial.path(), trial.partitions)
    }

    fn of_folder(folder: &Path, partitions: u32) -> Self {
        let reader = FolderReader::open(folder, 0..partitions).expect("the files can be read");
        Readable { reader, decoder: StateDecoder::of_folder(folder).expect("the folder has a plan log") }
    }

    /// The first and the last batch.
    fn batches(&self) -> (u64, u64) {
        let batches = self.reader.readable().expect("all partitions have committed");
        (batches.start().0, batches.end().0)
    }

    /// The lines of `keyfold state ls`.
    fn newest(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        let scanned = self.reader.scan(|partition, row| {
            lines.push(row_to_json(&row, &self.decoder, Some(partition)));
            Ok(())
        });
        scanned.expect("the last batch can be read");
        lines
    }

    /// The lines of `keyfold state ls --batch`.
    fn at(&self, batch: u64) -> Vec<Value> {
        let mut lines = Vec::new();
        let scanned = self.reader.scan_at(BatchId(batch), |partition, row| {
            lines.push(row_to_json(&row, &self.decoder, Some(partition)));
            Ok(())
        });
        scanned.unwrap_or_else(|error| panic!("batch {batch}: {error:#}"));
        lines
    }

    /// The line of `keyfold state get --batch`.
    fn get_at(&self, batch: u64, key: &str) -> Option<Value> {
        let row = self.reader.get_at(BatchId(batch), key.as_bytes());
        let row = row.unwrap_or_else(|error| panic!("batch {batch}: {error:#}"));
        row.map(|row| row_to_json(&row, &self.decoder, None))
    }

    /// The lines of `keyfold state changes` for these batches, both included.
    fn changes(&self, from: u64, to: u64) -> Vec<Value> {
        let mut lines = Vec::new();
        let read = self.reader.changes(BatchId(from)..=BatchId(to), |batch, partition, row| {
            lines.push(change_to_json(batch, &row, &self.decoder, partition));
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("batches {from} to {to}: {error:#}"));
        lines
    }

    /// Why a batch cannot be read.
    fn refusal(&self, batch: u64) -> String {
        let refused = self.reader.scan_at(BatchId(batch), |_, _| Ok(()));
        format!("{:#}", refused.expect_err("the batch cannot be read"))
    }
}
