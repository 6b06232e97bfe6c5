//! The thread alone: what leaves when, and what is reported.

use super::*;
use crate::release::AfterCommit;
use crate::sink::MemorySink;
use anyhow::anyhow;
use std::path::Path;

/// A test waits no longer; nothing takes so long.
const DEADLINE: Duration = Duration::from_secs(60);
const QUICK: Retry =
    Retry { pause_min: Duration::from_millis(1), pause_max: Duration::from_millis(2), failures_max: 2 };

fn start(sink: impl Sink + 'static, release: Arc<dyn Release>) -> Deliverer {
    let outbox = OutboxReader::new(Path::new("no outbox is read"), 1);
    let delivering = Delivering { sink: Box::new(sink), release, outbox, retry: QUICK, control: Arc::default() };
    Deliverer::start(delivering, usize::MAX).expect("a thread can be started")
}

fn block(batch: u64, outputs: u64) -> Option<Vec<OutputBlock>> {
    let lines: String = (0..outputs).map(|number| format!("{batch}.{number}\n")).collect();
    Some(vec![OutputBlock { outputs, lines: lines.into_bytes() }])
}

fn delivered(deliverer: &Deliverer) -> Delivered {
    match deliverer.news_within(DEADLINE).expect("the thread lives") {
        Some(News::Delivered(delivered)) => delivered,
        Some(News::Failed(error)) => panic!("{error:#}"),
        None => panic!("nothing was delivered"),
    }
}

/// Lets out batches before a number.
struct Gate {
    open_before: Mutex<u64>,
    moved: Condvar,
}

impl Gate {
    fn open(&self, before: u64) {
        *self.open_before.lock().expect("nobody panics") = before;
        self.moved.notify_all();
    }
}

impl Release for Gate {
    fn wait(&self, batch: BatchId, give_up: &AtomicBool) -> Result<bool> {
        let mut open_before = self.open_before.lock().expect("nobody panics");
        while *open_before <= batch.0 {
            if give_up.load(Ordering::Relaxed) {
                return Ok(false);
            }
            open_before = self.moved.wait_timeout(open_before, Duration::from_millis(1)).expect("nobody panics").0;
        }
        anyhow::ensure!(batch.0 < 100, "another host has taken over");
        Ok(true)
    }
}

#[test]
fn a_batch_leaves_when_it_is_released_and_not_before() {
    let (sink, gate) = (MemorySink::default(), Arc::new(Gate { open_before: Mutex::new(0), moved: Condvar::new() }));
    let deliverer = start(sink.clone(), Arc::clone(&gate) as _);
    (0..3).for_each(|batch| deliverer.push(BatchId(batch), block(batch, 1)));
    gate.open(2);
    assert_eq!([delivered(&deliverer).batch, delivered(&deliverer).batch], [BatchId(0), BatchId(1)]);
    // A pause ends the waiting for the release as well.
    deliverer.pause();
    assert_eq!(sink.take(), ["0.0", "1.0"]);
    gate.open(3);
    assert!(deliverer.news().is_none() && sink.take().is_empty(), "it pauses");
    deliverer.resume();
    assert_eq!(delivered(&deliverer).batch, BatchId(2));
    assert_eq!(sink.take(), ["2.0"]);
}

#[test]
fn a_batch_that_may_never_leave_ends_the_run() {
    let gate = Arc::new(Gate { open_before: Mutex::new(u64::MAX), moved: Condvar::new() });
    let sink = MemorySink::default();
    let deliverer = start(sink.clone(), gate);
    deliverer.push(BatchId(100), block(100, 1));
    let Ok(Some(News::Failed(error))) = deliverer.news_within(DEADLINE) else { panic!("it was delivered") };
    assert!(format!("{error:#}").contains("another host"), "{error:#}");
    assert!(sink.take().is_empty());
    deliverer.pause();
    deliverer.news_within(DEADLINE).err().expect("the thread has ended");
}

/// Refuses every third output, and fails in between.
struct Picky {
    sent: u64,
    failed: bool,
}

impl Sink for Picky {
    fn deliver(&mut self, _: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        while self.sent < blocks[0].outputs {
            self.sent += 1;
            self.failed = !self.failed;
            if self.failed {
                self.sent -= 1;
                return Err(SinkError::Unavailable(anyhow!("not now").into()));
            }
            if self.sent.is_multiple_of(3) {
                return Err(SinkError::Refused {
                    partition: PartitionId(0),
                    number: self.sent - 1,
                    error: anyhow!("never"),
                });
            }
        }
        self.sent = 0;
        Ok(())
    }

    fn description(&self) -> String {
        "picky".to_owned()
    }

    fn refused(&self) -> Refused {
        Refused::DeadLetter
    }
}

#[test]
fn refused_outputs_are_reported_with_their_batch() {
    let deliverer = start(Picky { sent: 0, failed: false }, Arc::new(AfterCommit));
    (0..4).for_each(|batch| deliverer.push(BatchId(batch), block(batch, 3 * batch)));
    for batch in 0..4 {
        let Delivered { batch: found, refused, .. } = delivered(&deliverer);
        assert_eq!(found, BatchId(batch));
        let outputs: Vec<&str> = refused.iter().map(|refused| refused.output.as_str()).collect();
        let expected: Vec<String> = (0..batch).map(|third| format!("{batch}.{}", third * 3 + 2)).collect();
        assert_eq!(outputs, expected);
        assert!(refused.iter().all(|refused| refused.message == "never" && refused.batch == found));
    }
}

/// Breaks as a fault of ours would.
struct Panics;

impl Sink for Panics {
    fn deliver(&mut self, _: BatchId, _: &[OutputBlock]) -> Result<(), SinkError> {
        panic!("seven is no number");
    }

    fn description(&self) -> String {
        "panics".to_owned()
    }
}

#[test]
fn a_panic_in_a_sink_is_reported_and_nobody_waits_for_ever() {
    let deliverer = start(Panics, Arc::new(AfterCommit));
    deliverer.push(BatchId(0), block(0, 1));
    let Ok(Some(News::Failed(error))) = deliverer.news_within(DEADLINE) else { panic!("it was delivered") };
    assert!(format!("{error:#}").contains("seven is no number"), "{error:#}");
    deliverer.pause();
}

/// A receiver that hangs until it is told that nobody waits.
#[derive(Default)]
struct Hangs(Arc<AtomicBool>);

impl Sink for Hangs {
    fn deliver(&mut self, _: BatchId, _: &[OutputBlock]) -> Result<(), SinkError> {
        while !self.0.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Err(SinkError::Unavailable(anyhow!("interrupted").into()))
    }

    fn description(&self) -> String {
        "hangs".to_owned()
    }

    fn set_give_up(&mut self, give_up: &Arc<AtomicBool>) {
        self.0 = Arc::clone(give_up);
    }
}

#[test]
fn a_sink_that_hangs_is_told_to_give_up_and_that_is_no_failure() {
    let deliverer = start(Hangs::default(), Arc::new(AfterCommit));
    deliverer.push(BatchId(0), block(0, 1));
    deliverer.pause();
    assert!(!deliverer.is_failing());
    deliverer.resume();
    drop(deliverer);
}
