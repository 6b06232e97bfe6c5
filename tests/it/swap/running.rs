//! Activations that somebody asks for while the host runs.

use super::second;
use crate::support::host::Stream;
use crate::support::process::wait_until;
use crate::support::rules::{event, guest, loader};
use crate::support::{few, folder};
use anyhow::Result;
use keyfold::event::{BatchId, OffsetRange, Positions, RecordBatch};
use keyfold::host::{Activation, Control, Observer, OlderRows, StateChoice, Swapped, Trigger};
use keyfold::limits::Limits;
use keyfold::progress::Progress;
use keyfold::sink::{FilesSink, Sink, SinkError};
use keyfold::source::{FileSource, ReadLimit, ReadStatus, Source, SourceStatus};
use keyfold::state::OutputBlock;
use keyfold::wasm::Component;
use keyfold::wasm::component::Loader;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events of so many keys, one second after another. The first is not at 0, where the first watermark stands.
pub(super) fn events(first: usize, count: usize, keys: usize) -> Vec<String> {
    (first..first + count).map(|number| event(&format!("key-{}", number % keys), (number as i64 + 1) * 1_000)).collect()
}

/// The first version over `work/input`.
pub(super) fn stream(work: &Path) -> Stream {
    let stream = Stream::of_example("card-sessions", work, "swap");
    Stream {
        component: guest("event-time-timeout"),
        key: "/key",
        event_time: Some("/at"),
        delay: Duration::from_secs(1_000_000),
        outbox_batches_max: 100,
        batch_events: 500,
        ..stream
    }
}

/// Asks for the second version, from a thread of its own.
pub(super) fn ask(
    control: &Arc<Control>,
    loader: &Loader,
    rule: &[u8],
    state: StateChoice,
) -> JoinHandle<Result<Swapped>> {
    ask_for(control, Arc::new(loader.load(rule).expect("the rule can be loaded")), state)
}

pub(super) fn ask_for(
    control: &Arc<Control>,
    component: Arc<Component>,
    state: StateChoice,
) -> JoinHandle<Result<Swapped>> {
    let activation = Activation { component, parameters: serde_json::json!({}), limits: Limits::default(), state };
    let asked = Arc::clone(control);
    let asking = std::thread::spawn(move || asked.activate(activation));
    wait_until("the activation waits", || control.has_activation() || asking.is_finished());
    asking
}

/// A source that does something before its so-manyth read.
pub(super) struct Interrupted<F> {
    pub files: FileSource,
    pub reads_left: usize,
    pub act: Option<F>,
    /// Whether the read after that fails.
    pub fails: bool,
}

impl<F: FnOnce() + Send> Source for Interrupted<F> {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.files.seek(positions)
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        if self.reads_left == 0
            && let Some(act) = self.act.take()
        {
            act();
            anyhow::ensure!(!self.fails, "the disk of the source is gone");
        }
        self.reads_left = self.reads_left.saturating_sub(1);
        self.files.read(limit, batch)
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        self.files.replay(ranges, batch)
    }

    fn status(&self) -> Vec<SourceStatus> {
        self.files.status()
    }
}

/// When each batch was told of, and what was left then.
#[derive(Default)]
struct Watch {
    batches: Vec<(u64, Instant)>,
    left: Vec<OlderRows>,
}

impl Observer for Watch {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        self.batches.push((progress.batch_id.0, Instant::now()));
    }

    fn older_rows(&mut self, left: &OlderRows) {
        self.left.push(*left);
    }
}

/// The outputs of each batch.
pub(super) fn outputs(folder: &Path) -> BTreeMap<u64, Vec<Value>> {
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    let lines = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    folder::visible_files(folder).into_iter().map(|(name, bytes)| (digits(&name), lines(bytes))).collect()
}

#[test]
fn a_busy_host_swaps_between_two_batches_and_loses_and_doubles_nothing() {
    const EVENTS: usize = 20_000;
    const KEYS: usize = 700;
    for state in [StateChoice::Migrate, StateChoice::Fresh, StateChoice::Drain] {
        let work = folder::fast();
        few::write(&work.path().join("input"), &events(0, EVENTS, KEYS), 1);
        let stream = stream(work.path());
        let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
        let asking = Mutex::new(None);
        // Loaded before, so that the time around the swap is that of the swap.
        let component = Arc::new(loader.load(&second()).unwrap());
        let act = || *asking.lock().unwrap() = Some(ask_for(&control, component, state));
        let mut source = Interrupted { files: stream.source().unwrap(), reads_left: 12, act: Some(act), fails: false };
        let sink = Box::new(FilesSink::open(&stream.output).unwrap());
        let mut host = stream.open_controlled(sink, Arc::clone(&control), &loader).unwrap();
        let mut watch = Watch::default();
        host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut watch).unwrap();
        drop(host);
        drop(source);
        let asking = asking.into_inner().unwrap().expect("it was asked");
        let swapped = asking.join().unwrap().unwrap();
        // It was asked for before the read of batch 12, which was planned before the host looked.
        assert_eq!(swapped.batch.0, 13, "{state:?}");
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        let outputs = outputs(&stream.output);
        let per_batch = EVENTS as u64 / 500;
        for (batch, outputs) in outputs.iter().take_while(|(batch, _)| **batch < per_batch) {
            for output in outputs {
                let key = output["key"].as_str().unwrap().to_owned();
                let is_second = output["schema"] == 2;
                let is_drained = state == StateChoice::Drain && counts.contains_key(&key) && !is_second;
                assert!(is_second == (*batch >= 13) || is_drained, "batch {batch}: {output}");
                let count = output["count"].as_u64().unwrap();
                let before = counts.insert(key.clone(), count).unwrap_or(0);
                let begins_anew = state == StateChoice::Fresh && *batch >= 13 && count <= before;
                assert!(count > before || begins_anew, "batch {batch}: {output} after {before}");
                *seen.entry(key).or_default() += if begins_anew { count } else { count - before };
            }
        }
        assert_eq!(seen.values().sum::<u64>(), EVENTS as u64, "{state:?}: every event was counted once");
        let last = watch.left.last().expect("something was left at first");
        assert_eq!((last.to_migrate, last.to_forget), (0, 0), "{state:?}");
        say_gaps(&watch, swapped.batch.0, state);
    }
}

/// Stops a run also when the test fails, which would else wait for it.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Shows the longest time between two batches around the swap beside an ordinary batch. No time is asserted: machines differ.
fn say_gaps(watch: &Watch, swapped: u64, state: StateChoice) {
    let gap = |pair: &[(u64, Instant)]| (pair[1].0, pair[1].1 - pair[0].1);
    let gaps: Vec<(u64, Duration)> = watch.batches.windows(2).map(gap).collect();
    let around = |batch: u64| batch.abs_diff(swapped) <= 2;
    let longest = gaps.iter().filter(|(batch, _)| around(*batch)).map(|(_, gap)| *gap).max().unwrap_or_default();
    let mut ordinary: Vec<Duration> = gaps.iter().filter(|(batch, _)| !around(*batch)).map(|(_, gap)| *gap).collect();
    ordinary.sort();
    let median = ordinary.get(ordinary.len() / 2).copied().unwrap_or_default();
    println!("{state:?}: the longest gap around the swap was {longest:?}, an ordinary one is {median:?}");
}

#[test]
fn an_idle_host_swaps_at_once_and_sweeps_while_nothing_comes() {
    let work = folder::fast();
    few::write(&work.path().join("input"), &events(0, 6_000, 6_000), 1);
    let stream = Stream { batch_events: 6_000, ..stream(work.path()) };
    let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
    let sink = Box::new(FilesSink::open(&stream.output).unwrap());
    let mut host = stream.open_controlled(sink, Arc::clone(&control), &loader).unwrap();
    let options = keyfold::source::FileOptions { follow: true, ..Default::default() };
    let mut source = FileSource::new(vec![stream.input.display().to_string()], options).unwrap();
    let (stop, left) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    struct Left<'l>(&'l Mutex<Vec<u64>>);
    impl Observer for Left<'_> {
        fn batch(&mut self, _: &Progress, _: Option<(u64, u64)>) {}
        fn older_rows(&mut self, left: &OlderRows) {
            self.0.lock().unwrap().push(left.total());
        }
    }
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        let running = scope.spawn(|| host.run(&mut source, Trigger::Follow, &stop, &mut Left(&left)));
        wait_until("the input is read", || stream.committed().iter().all(Option::is_some));
        let swapped = ask(&control, &loader, &second(), StateChoice::Migrate).join().unwrap().unwrap();
        assert_eq!(swapped.rows_left, 6_000);
        wait_until("all is migrated", || left.lock().unwrap().last() == Some(&0));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    });
    drop(host);
    assert!(left.into_inner().unwrap().len() > 1, "one batch does not sweep so many");
    assert!(stream.states().iter().all(|row| row["schema"] == 2));
}

#[test]
fn an_activation_that_does_not_take_effect_is_refused() {
    let work = folder::fast();
    few::write(&work.path().join("input"), &events(0, 1_000, 10), 1);
    let stream = stream(work.path());
    let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
    // Another one comes before anybody has run the host.
    let first = ask(&control, &loader, &second(), StateChoice::Migrate);
    let component = Arc::new(loader.load(&second()).unwrap());
    let (parameters, limits) = (serde_json::json!({}), Limits::default());
    let other = control.clone();
    let asking = std::thread::spawn(move || {
        other.activate(Activation { component, parameters, limits, state: StateChoice::Fresh })
    });
    let why = format!("{:#}", first.join().unwrap().expect_err("it was replaced"));
    assert!(why.contains("another activation came"), "{why}");
    // A host that is to stop takes it first, and nobody has to wait for the next run.
    let open = || {
        let sink = Box::new(FilesSink::open(&stream.output).unwrap());
        stream.open_controlled(sink, Arc::clone(&control), &loader).unwrap()
    };
    let (stop, go) = (AtomicBool::new(true), AtomicBool::new(false));
    open().run(&mut stream.source().unwrap(), Trigger::AvailableNow, &stop, &mut Watch::default()).unwrap();
    assert_eq!(asking.join().unwrap().unwrap().batch.0, 0);
    // A run that fails takes nothing any more.
    let asking = Mutex::new(None);
    let act = || *asking.lock().unwrap() = Some(ask(&control, &loader, &second(), StateChoice::Migrate));
    let mut source = Interrupted { files: stream.source().unwrap(), reads_left: 1, act: Some(act), fails: true };
    let failed =
        open().run(&mut source, Trigger::AvailableNow, &go, &mut Watch::default()).expect_err("the source fails");
    assert!(format!("{failed:#}").contains("the disk of the source is gone"), "{failed:#}");
    drop(source);
    let asking = asking.into_inner().unwrap().expect("it was asked");
    let why = format!("{:#}", asking.join().unwrap().expect_err("the run has failed"));
    assert!(why.contains("the run failed before the activation took effect"), "{why}");
}

/// A sink that is never there.
struct Down;

impl Sink for Down {
    fn deliver(&mut self, _: BatchId, _: &[OutputBlock]) -> Result<(), SinkError> {
        Err(SinkError::Unavailable(anyhow::anyhow!("nobody is there").into()))
    }

    fn description(&self) -> String {
        "nowhere".to_owned()
    }
}

#[test]
fn a_host_that_waits_for_its_sink_swaps_all_the_same() {
    let work = folder::fast();
    few::write(&work.path().join("input"), &events(0, 5_000, 10), 1);
    let stream = Stream { outbox_batches_max: 1, ..stream(work.path()) };
    let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
    let mut host = stream.open_controlled(Box::new(Down), Arc::clone(&control), &loader).unwrap();
    let (mut source, stop) = (stream.source().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        let running = scope.spawn(|| host.run(&mut source, Trigger::AvailableNow, &stop, &mut Watch::default()));
        wait_until("the outbox is full", || stream.committed().iter().all(Option::is_some));
        let swapped = ask(&control, &loader, &second(), StateChoice::Drain).join().unwrap().unwrap();
        assert!(swapped.batch.0 <= 3, "the source waits for the sink: {swapped:?}");
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    });
}
