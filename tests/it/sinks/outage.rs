//! A sink that takes nothing for a while: the source is held back, nothing is dropped, and all goes on when it is back.

use crate::support::data;
use crate::support::host::{Fault, Nobody, Stream};
use crate::support::process::wait_until;
use anyhow::anyhow;
use keyfold::event::BatchId;
use keyfold::host::{Observer, Outbox};
use keyfold::progress::Progress;
use keyfold::sink::{MemorySink, Sink, SinkError};
use keyfold::state::OutputBlock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const LIMIT: u64 = 5;

/// Takes nothing while it is down.
#[derive(Clone, Default)]
struct Switch {
    is_down: Arc<AtomicBool>,
    attempts: Arc<AtomicU64>,
    outputs: MemorySink,
}

impl Sink for Switch {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) {
            return Err(SinkError::Unavailable(anyhow!("it is switched off").into()));
        }
        self.outputs.deliver(batch, blocks)
    }

    fn description(&self) -> String {
        "switch".to_owned()
    }
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<(Outbox, u64)>>);

impl Observer for Watch {
    fn batch(&mut self, _: &Progress, _: Option<(u64, u64)>) {}

    fn outbox(&mut self, outbox: &Outbox) {
        let mut seen = self.0.lock().unwrap();
        *seen = (*outbox, seen.1.max(outbox.batches));
    }
}

fn stream(work: &Path, name: &str) -> Stream {
    let stream = Stream::of_example("running-count", work, name);
    Stream { outbox_batches_max: LIMIT, memory_bytes_max: 0, ..stream }
}

/// What a run without an outage puts out.
fn undisturbed(work: &Path) -> Vec<String> {
    data::card_sessions(&work.join("input"), 20_000, 9);
    let sink = Switch::default();
    let stream = Stream { memory_bytes_max: usize::MAX, ..stream(work, "undisturbed") };
    stream.run_with(Box::new(sink.clone()), &AtomicBool::new(false), &mut Nobody).expect("nothing fails");
    sink.outputs.take()
}

#[test]
fn while_the_sink_is_down_the_source_is_held_back_and_then_everything_comes() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let expected = undisturbed(work.path());
    let (stream, sink, watch) = (stream(work.path(), "held"), Switch::default(), Watch::default());
    sink.is_down.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let run = || stream.run_with(Box::new(sink.clone()), &AtomicBool::new(false), &mut watch.clone());
        let running = scope.spawn(run);
        wait_until("the outbox is full", || watch.0.lock().unwrap().0.batches == LIMIT || running.is_finished());
        let attempts = sink.attempts.load(Ordering::SeqCst);
        wait_until("it was tried again and again", || sink.attempts.load(Ordering::SeqCst) > attempts + 10);
        let seen = watch.0.lock().unwrap().0;
        assert!(seen.is_failing && seen.batches == LIMIT && seen.outputs > 0, "{seen:?}");
        // The batch after the last that waits was planned before the outbox was full.
        assert!(stream.committed().iter().flatten().all(|batch| batch.0 <= LIMIT), "{:?}", stream.committed());
        sink.is_down.store(false, Ordering::SeqCst);
        running.join().expect("it does not panic").expect("the sink is back");
    });
    assert!(sink.outputs.take() == expected, "other outputs than without an outage");
    let (outbox, batches_max) = *watch.0.lock().unwrap();
    assert_eq!((outbox.batches, outbox.outputs, outbox.bytes), (0, 0, 0));
    assert!(batches_max <= LIMIT + 1, "{batches_max} batches waited");
}

#[test]
fn a_host_that_was_stopped_while_the_sink_was_down_goes_on_with_the_next_one() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let expected = undisturbed(work.path());
    let (stream, sink, watch) = (stream(work.path(), "stopped"), Switch::default(), Watch::default());
    let mut outputs = Vec::new();
    for round in 0..3 {
        sink.is_down.store(true, Ordering::SeqCst);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| stream.run_with(Box::new(sink.clone()), &stop, &mut watch.clone()));
            wait_until("the outbox is full", || watch.0.lock().unwrap().0.batches >= LIMIT || running.is_finished());
            if round == 1 {
                // Some are taken before it stops.
                sink.is_down.store(false, Ordering::SeqCst);
                let before = sink.attempts.load(Ordering::SeqCst);
                wait_until("some were taken", || sink.attempts.load(Ordering::SeqCst) > before + 2);
                sink.is_down.store(true, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
            running.join().expect("it does not panic").expect("a stop is no failure");
        });
        outputs.extend(sink.outputs.take());
        *watch.0.lock().unwrap() = Default::default();
    }
    sink.is_down.store(false, Ordering::SeqCst);
    stream.run_with(Box::new(sink.clone()), &AtomicBool::new(false), &mut Nobody).expect("the sink is back");
    outputs.extend(sink.outputs.take());
    assert!(outputs == expected, "other outputs than without an outage");
}

#[test]
fn outputs_that_are_read_from_the_outbox_have_the_bytes_that_were_put_out() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let expected = undisturbed(work.path());
    let stream = Stream { outbox_batches_max: 100, ..stream(work.path(), "outbox") };
    // All but the first batch wait where there is no memory for them.
    stream.run_into(Fault::BeforeDelivery(0));
    let sink = Switch::default();
    stream.run_with(Box::new(sink.clone()), &AtomicBool::new(false), &mut Nobody).expect("nothing fails");
    assert!(sink.outputs.take() == expected, "other outputs than from memory");
}
