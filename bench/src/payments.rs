//! [`Payments`]: what the scenario `card-sessions` makes, in a file and as batches.

use crate::{Medium, scaled};
use anyhow::{Result, ensure};
use keyfold::event::{Millis, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::r#gen::{self, DisorderSettings, Exponent, Output, ScenarioName, Settings, Share};
use keyfold::input::BatchInput;
use keyfold::source::{FileOptions, FileSource, ReadLimit, Source};
use tempfile::TempDir;

/// Payments of a batch: as many as `batch-events` has by default. There are as many users.
pub const BATCH_EVENTS: usize = scaled(100_000);
/// The length of a batch in event time: that of 100,000 payments when 2,000,000 come in twelve hours.
const BATCH_MS: u64 = 12 * 3_600_000 / 20;
const LIMIT: ReadLimit = ReadLimit { records_max: BATCH_EVENTS, bytes_max: usize::MAX };

/// Payments in a file.
pub struct Payments(TempDir);

impl Payments {
    /// Enough for so many batches.
    pub fn make(batches: usize) -> Result<Self> {
        let folder = Medium::Memory.folder()?;
        let settings = Settings {
            scenario: ScenarioName::CardSessions,
            events: (batches * BATCH_EVENTS) as u64,
            keys: BATCH_EVENTS as u32,
            span_ms: batches as u64 * BATCH_MS,
            zipf: Exponent::tenths(10),
            seed: 1,
            start: Millis(1_767_571_200_000),
            high_share: Share::percent(10),
            fraud_share: Share::ZERO,
            disorder: DisorderSettings::default(),
        };
        let mut output = Output::folder(folder.path(), 1, None)?;
        r#gen::generate(&settings, &mut output, |_| {})?;
        output.finish()?;
        Ok(Payments(folder))
    }

    /// A source at the beginning of the file.
    pub fn source(&self) -> Result<FileSource> {
        FileSource::new(vec![self.0.path().to_string_lossy().into_owned()], FileOptions::default())
    }
}

/// Reads the next batch.
pub fn read(source: &mut FileSource) -> Result<RecordBatch> {
    let mut batch = RecordBatch::default();
    source.read(LIMIT, &mut batch)?;
    ensure!(batch.records.len() == BATCH_EVENTS, "a batch has {} payments", batch.records.len());
    Ok(batch)
}

/// Finds the user and the time of a payment.
pub fn extractor() -> Result<Extractor> {
    Extractor::new(vec!["/user_id".to_owned()], Some(("/ts".to_owned(), TimeFormat::EpochMs)))
}

/// A batch as the events of one partition.
pub fn input(batch: RecordBatch) -> Result<BatchInput> {
    Ok(BatchInput::new(batch, [&extractor()?], 1))
}
