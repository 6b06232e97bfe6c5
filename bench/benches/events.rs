//! From a file to events: reading a batch of payments, finding the key and the time of each, and sorting them to partitions.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use keyfold::event::RecordBatch;
use keyfold::extract::Extracted;
use keyfold::input::BatchInput;
use keyfold_bench::payments::{self, BATCH_EVENTS, Payments};

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 30)]
fn read(bencher: Bencher) {
    let payments = Payments::make(1).expect("they can be made");
    let read = |mut source| payments::read(&mut source).expect("they are there");
    let bytes = read(payments.source().expect("it is there")).text.len();
    let bencher = bencher.with_inputs(|| payments.source().expect("it is there"));
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).counter(BytesCount::new(bytes)).bench_local_values(read);
}

#[divan::bench(sample_count = 30)]
fn extract(bencher: Bencher) {
    let batch = batch();
    let extractor = payments::extractor().expect("its pointers are right");
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(|| {
        let mut extracted = Extracted::default();
        extractor.extract(&batch, 0..batch.records.len(), &mut extracted);
        extracted
    });
}

/// Extracts, and sorts to two partitions.
#[divan::bench(sample_count = 30)]
fn extract_and_partition(bencher: Bencher) {
    let batch = batch();
    let extractor = payments::extractor().expect("its pointers are right");
    let bencher = bencher.counter(ItemsCount::new(BATCH_EVENTS)).with_inputs(|| batch.clone());
    bencher.bench_local_values(|batch| BatchInput::new(batch, [&extractor], 2));
}

fn batch() -> RecordBatch {
    let payments = Payments::make(1).expect("they can be made");
    payments::read(&mut payments.source().expect("it is there")).expect("they are there")
}
