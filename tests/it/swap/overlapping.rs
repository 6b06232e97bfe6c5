//! Batches that run while another version is activated: they end with the version that they were planned with, and are not waited for.

use super::running::{Interrupted, outputs, stream};
use super::second;
use crate::support::host::Stream;
use crate::support::rules::{event, guest, loader};
use crate::support::{few, folder};
use keyfold::event::BatchId;
use keyfold::host::{Activation, Control, Observer, Requested, StateChoice, Swapped, Trigger};
use keyfold::limits::Limits;
use keyfold::partition::PartitionReport;
use keyfold::plan::Plan;
use keyfold::progress::Progress;
use keyfold::sink::FilesSink;
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Each of them is slow: the batch takes far longer than the host takes to look for an activation.
const KEYS: usize = 40;

/// What happened on the host's thread, in order.
#[derive(Debug, PartialEq, Eq)]
enum Happened {
    Activated,
    Refused(String),
    Committed(BatchId),
}

struct Watch<'h>(&'h Mutex<Vec<Happened>>);

impl Observer for Watch<'_> {
    fn batch(&mut self, _: &Progress, _: Option<(u64, u64)>) {}

    fn committed(&mut self, plan: &Plan, _: &[PartitionReport]) {
        self.0.lock().unwrap().push(Happened::Committed(plan.batch));
    }
}

/// Two batches with an event of each key; another version is asked for when the first one has been read. Returns what happened, and the
/// outputs of the second one.
fn run(rule: Vec<u8>, state: StateChoice) -> (Vec<Happened>, Vec<Value>) {
    let work = folder::fast();
    let lines: Vec<String> = (0..2 * KEYS).map(|number| event(&format!("slow-{}", number % KEYS), 1_000)).collect();
    few::write(&work.path().join("input"), &lines, 1);
    let stream = Stream { component: guest("slow"), batch_events: KEYS, ..stream(work.path()) };
    let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
    let component = Arc::new(loader.load(&rule).unwrap());
    let happened = Arc::<Mutex<Vec<Happened>>>::default();
    let act = {
        let (control, happened) = (Arc::clone(&control), Arc::clone(&happened));
        let activation = Activation { component, parameters: serde_json::json!({}), limits: Limits::default(), state };
        let reply = move |swapped: anyhow::Result<Swapped>| {
            happened.lock().unwrap().push(match swapped {
                Ok(_) => Happened::Activated,
                Err(error) => Happened::Refused(format!("{error:#}")),
            });
        };
        move || assert!(control.request(Requested::new(activation, reply)).is_none())
    };
    let mut source = Interrupted { files: stream.source().unwrap(), reads_left: 0, act: Some(act), fails: false };
    let sink = Box::new(FilesSink::open(&stream.output).unwrap());
    let mut host = stream.open_controlled(sink, control, &loader).unwrap();
    host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut Watch(&happened)).unwrap();
    drop(host);
    let happened = std::mem::take(&mut *happened.lock().unwrap());
    (happened, outputs(&stream.output).remove(&1).unwrap_or_default())
}

/// Asserts that the version was activated while the first batch ran, and what it counted for each key in the second one.
fn activates_while_a_batch_runs(rule: Vec<u8>, state: StateChoice, count: u64, schema: Option<u64>) {
    let (happened, outputs) = run(rule, state);
    assert_eq!(happened[..2], [Happened::Activated, Happened::Committed(BatchId(0))], "{state:?}");
    assert_eq!(outputs.len(), KEYS);
    for output in outputs {
        assert_eq!((output["count"].as_u64(), output["schema"].as_u64()), (Some(count), schema), "{state:?}: {output}");
    }
}

#[test]
fn states_that_the_running_batch_writes_first_are_kept_as_all_others() {
    activates_while_a_batch_runs(guest("event-time-timeout"), StateChoice::Keep, 2, None);
}

#[test]
fn states_that_the_running_batch_writes_first_are_migrated_as_all_others() {
    activates_while_a_batch_runs(second(), StateChoice::Migrate, 2, Some(2));
}

#[test]
fn states_that_the_running_batch_writes_first_are_forgotten_as_all_others() {
    activates_while_a_batch_runs(second(), StateChoice::Fresh, 1, Some(2));
}

#[test]
fn states_that_the_running_batch_writes_first_are_drained_as_all_others() {
    activates_while_a_batch_runs(second(), StateChoice::Drain, 2, None);
}

#[test]
fn a_version_that_may_not_read_what_the_running_batch_writes_waits_for_it_and_is_refused_for_what_is_there() {
    let (happened, outputs) = run(second(), StateChoice::Keep);
    let [Happened::Committed(BatchId(0)), Happened::Refused(why), ..] = &happened[..] else { panic!("{happened:?}") };
    assert!(why.contains(&format!("{KEYS} states of schema 1")), "{why}");
    assert!(outputs.iter().all(|output| output["count"] == 2 && output["schema"].is_null()), "{outputs:?}");
}
