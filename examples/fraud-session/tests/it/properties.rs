//! What holds for every sequence of events, controls and clocks.

use crate::diagram;
use fraud_session::{Clock, FraudSession, Limits, Parameters, Stage, Transition};
use keyfold_sdk::TimeoutClock;
use keyfold_sdk::testing::TestStream;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

const FIRST_MS: i64 = 1_767_607_200_000;
const MINUTE_MS: i64 = 60_000;
/// Events are out of order by less than this, so that the host drops none as late.
const DELAY_MS: i64 = 20 * MINUTE_MS;
const STEPS_MAX: usize = 80;

/// One thing that happens to the one user.
#[derive(Debug, Clone)]
enum Step {
    /// A payment after a pause, out of order by some time.
    Payment { pause_ms: i64, late_ms: i64, amount_minor: i64, country: &'static str },
    /// A control of this type after a pause.
    Control { pause_ms: i64, kind: &'static str },
    /// Other users' events move event time on by this much, and the watermark with it.
    EventTime(i64),
    /// Processing time moves on by this much.
    Wall(i64),
}

/// Short pauses, and those around every limit that the machine has.
fn pause_ms() -> impl Strategy<Value = i64> {
    let around = |minutes: i64| minutes * MINUTE_MS - 1..=minutes * MINUTE_MS + 1;
    prop_oneof![8 => 0..2 * MINUTE_MS, 2 => around(5), 2 => around(10), 1 => around(30), 1 => around(60)]
}

fn step() -> impl Strategy<Value = Step> {
    let late_ms = prop_oneof![4 => Just(0), 1 => 0..DELAY_MS];
    let amount_minor = prop_oneof![1 => 0..50_000_i64, 4 => 50_000..99_000_i64];
    let country = prop_oneof![30 => Just("DE"), 1 => Just("BR"), 1 => Just("FR")];
    let kind = prop::sample::select(&["anomaly.cleared", "pattern.confirmed", "case.closed", "card.blocked"][..]);
    prop_oneof![
        24 => (pause_ms(), late_ms, amount_minor, country).prop_map(|(pause_ms, late_ms, amount_minor, country)| {
            Step::Payment { pause_ms, late_ms, amount_minor, country }
        }),
        3 => (pause_ms(), kind).prop_map(|(pause_ms, kind)| Step::Control { pause_ms, kind }),
        1 => pause_ms().prop_map(|pause_ms| Step::EventTime(pause_ms + DELAY_MS)),
        1 => prop_oneof![Just(MINUTE_MS), Just(24 * 60 * MINUTE_MS), Just(8 * 24 * 60 * MINUTE_MS)].prop_map(Step::Wall),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=STEPS_MAX)
}

/// One user's stream as a host runs it: batches, a watermark, and both clocks.
struct Run {
    stream: TestStream<FraudSession>,
    limits: Limits,
    taken: Rc<RefCell<Vec<Transition>>>,
    outputs: Vec<Value>,
    wall_ms: i64,
    newest_ms: i64,
    watermark_ms: i64,
}

impl Run {
    fn new() -> Self {
        let taken = Rc::new(RefCell::new(Vec::new()));
        let seen = taken.clone();
        let rule = FraudSession::observed(Parameters::default(), move |&transition| seen.borrow_mut().push(transition));
        let stream = TestStream::new(rule.unwrap(), FIRST_MS);
        let limits = Parameters::default().check().unwrap();
        Run { stream, limits, taken, outputs: Vec::new(), wall_ms: FIRST_MS, newest_ms: 0, watermark_ms: 0 }
    }

    fn batch(&mut self, events: &[(i64, Value)]) {
        let on_time: Vec<_> = events.iter().filter(|(at_ms, _)| *at_ms > self.watermark_ms).cloned().collect();
        if !on_time.is_empty() {
            self.outputs.extend(self.stream.events("U1", &on_time).unwrap());
            self.newest_ms = on_time.iter().map(|(at_ms, _)| *at_ms).fold(self.newest_ms, i64::max);
            self.event_time(self.newest_ms);
        }
        self.check();
    }

    fn event_time(&mut self, newest_ms: i64) {
        self.newest_ms = self.newest_ms.max(newest_ms);
        self.watermark_ms = self.watermark_ms.max(self.newest_ms - DELAY_MS);
        self.outputs.extend(self.stream.advance_event_to(self.watermark_ms).unwrap());
        self.check();
    }

    fn wall(&mut self, by_ms: i64) {
        self.wall_ms += by_ms;
        self.outputs.extend(self.stream.advance_wall_to(self.wall_ms).unwrap());
        self.check();
    }

    /// What holds between any two calls.
    fn check(&self) {
        let row = self.stream.state("U1").unwrap();
        let timeout = self.stream.timeout("U1");
        let Some(row) = row else {
            assert_eq!(timeout, None, "no row, no timer");
            assert_eq!(self.stream.keys().count(), 0);
            return;
        };
        let deadline = row.stage.deadline(&self.limits).expect("a stored stage has a deadline");
        let clock = match deadline.clock {
            Clock::Event => TimeoutClock::EventTime,
            Clock::Wall => TimeoutClock::ProcessingTime,
        };
        let timeout = timeout.expect("the stage's timer is armed");
        assert_eq!(
            (timeout.clock, timeout.at_ms),
            (clock, deadline.at - 1),
            "the stage's timer is armed, and no other"
        );
        assert!(row.ids.len() <= self.limits.ids_cap);
        match &row.stage {
            Stage::Watching(session) => {
                assert!(
                    session.hv_count <= self.limits.velocity_limit,
                    "{} high payments are watched",
                    session.hv_count
                );
                assert!(session.evidence.len() <= self.limits.evidence_cap);
            }
            Stage::Suspicious(suspicion) => {
                let session_ends = suspicion.session.last_event_at + self.limits.session_gap_ms;
                assert!(suspicion.confirm_deadline < session_ends, "a suspicion ends before its session could");
            }
            _ => (),
        }
    }

    /// Each suspicion ends once, cleared or flagged, and nothing else is cleared or flagged.
    fn check_alerts(&self) {
        let mut open = false;
        for output in &self.outputs {
            match output["kind"].as_str().unwrap() {
                "alert.suspicious" => assert!(!std::mem::replace(&mut open, true), "{output} while one is open"),
                "alert.flagged" | "alert.cleared" => {
                    assert!(std::mem::replace(&mut open, false), "{output} without one")
                }
                _ => (),
            }
        }
    }
}

/// A step with its times.
enum Op {
    Event(i64, Value),
    EventTime(i64),
    Wall(i64),
}

/// The steps as they come in; `twice` says which events are delivered again at once.
fn ops(steps: &[Step], twice: impl Fn(usize, &Step) -> bool) -> Vec<Op> {
    let mut now_ms = FIRST_MS;
    let mut ops = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let event = match step {
            Step::Payment { pause_ms, late_ms, amount_minor, country } => {
                now_ms += pause_ms;
                let id = format!("t{number}");
                (now_ms - late_ms, json!({"txn_id": id, "amount_minor": amount_minor, "country": country}))
            }
            Step::Control { pause_ms, kind } => {
                now_ms += pause_ms;
                (now_ms, json!({"type": kind, "id": format!("c{number}"), "outcome": "false_positive"}))
            }
            Step::EventTime(by_ms) => {
                now_ms += by_ms;
                ops.push(Op::EventTime(now_ms));
                continue;
            }
            Step::Wall(by_ms) => {
                ops.push(Op::Wall(*by_ms));
                continue;
            }
        };
        if twice(number, step) {
            ops.push(Op::Event(event.0, event.1.clone()));
        }
        ops.push(Op::Event(event.0, event.1));
    }
    // Whatever is open in event time ends.
    ops.push(Op::EventTime(now_ms + DELAY_MS + 120 * MINUTE_MS));
    ops
}

fn once(_: usize, _: &Step) -> bool {
    false
}

/// Runs the steps; `cut` says whether a batch ends after each of them.
fn run(ops: &[Op], cut: impl Fn(usize) -> bool) -> Run {
    let mut run = Run::new();
    let mut events = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Event(at_ms, event) => events.push((*at_ms, event.clone())),
            Op::EventTime(newest_ms) => {
                run.batch(&std::mem::take(&mut events));
                run.event_time(*newest_ms);
            }
            Op::Wall(by_ms) => {
                run.batch(&std::mem::take(&mut events));
                run.wall(*by_ms);
            }
        }
        if cut(number) {
            run.batch(&std::mem::take(&mut events));
        }
    }
    run.check_alerts();
    run
}

/// Runs the steps with the watermark always as far as it can be without making an event late.
fn run_with_eager_watermark(ops: &[Op]) -> Run {
    let mut run = Run::new();
    for (number, op) in ops.iter().enumerate() {
        let later =
            ops[number..].iter().filter_map(|op| if let Op::Event(at_ms, _) = op { Some(*at_ms) } else { None });
        if let Some(first_ms) = later.min() {
            run.event_time(first_ms - 1 + DELAY_MS);
        }
        match op {
            Op::Event(at_ms, event) => run.batch(&[(*at_ms, event.clone())]),
            Op::EventTime(newest_ms) => run.event_time(*newest_ms),
            Op::Wall(by_ms) => run.wall(*by_ms),
        }
    }
    run
}

/// A flag for each step, or for each operation; there are at most two operations for each step, and one at the end.
fn flags() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), 2 * STEPS_MAX + 1)
}

proptest! {
    // No file of failures: the sequence of cases is the same on every run.
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_every_transition_is_an_arrow_of_the_diagram(steps in steps()) {
        let arrows = diagram::arrows();
        let run = run(&ops(&steps, once), |_| true);
        for transition in run.taken.borrow().iter() {
            prop_assert!(arrows.contains(&diagram::arrow(transition)), "{:?} is not in the diagram", transition);
        }
    }

    #[test]
    fn outputs_do_not_depend_on_how_batches_are_cut(steps in steps(), cuts in flags(), twice in flags()) {
        let ops = ops(&steps, |number, _| twice[number]);
        let whole = run(&ops, |_| false);
        let single = run(&ops, |_| true);
        let some = run(&ops, |number| cuts[number]);
        prop_assert_eq!(&whole.outputs, &single.outputs);
        prop_assert_eq!(&whole.outputs, &some.outputs);
        prop_assert_eq!(&*whole.taken.borrow(), &*some.taken.borrow());
    }

    #[test]
    fn outputs_do_not_depend_on_whether_the_watermark_or_the_event_comes_first(steps in steps()) {
        let ops = ops(&steps, once);
        prop_assert_eq!(run(&ops, |_| false).outputs, run_with_eager_watermark(&ops).outputs);
    }

    #[test]
    fn duplicates_change_nothing(steps in steps(), cuts in flags(), twice in flags()) {
        // A rejection may leave no row that could know the control again, so only payments are delivered twice here.
        let twice = ops(&steps, |number, step| twice[number] && matches!(step, Step::Payment { .. }));
        let once = run(&ops(&steps, once), |number| cuts[number]);
        let again = run(&twice, |number| cuts[number]);
        prop_assert_eq!(&once.outputs, &again.outputs);
        let stage = |run: &Run| run.stream.state("U1").unwrap().map(|row| (row.stage, row.ids));
        prop_assert_eq!(stage(&once), stage(&again));
        prop_assert_eq!(once.stream.timeout("U1"), again.stream.timeout("U1"));
    }
}
