//! A batch gives the same however the host is cut: with more or fewer partitions and threads, and evaluated twice.

use crate::support::deliveries::Deliveries;
use crate::support::host::Nobody;
use crate::support::{command, folder, rules};
use anyhow::Result;
use keyfold::clock::Clock;
use keyfold::config::{Config, Input, Settings as FileSettings};
use keyfold::event::{Millis, OffsetRange, PartitionId, Positions, RecordBatch};
use keyfold::r#gen::{DisorderSettings, Exponent, Output, ScenarioName, Settings as Made, Share, generate};
use keyfold::host::{Delivery, Host, InputSettings, Settings, Trigger};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::source::{FileOptions, FileSource, ReadLimit, ReadStatus, Source, SourceStatus};
use keyfold::state::reader::{KeyRow, PartitionReader};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const EVENTS: u64 = 900;
const BATCHES: [usize; 2] = [130, 400];
/// Partitions and threads. More threads than partitions are not started.
const CUTS: [(u32, usize); 6] = [(1, 1), (2, 1), (2, 2), (7, 1), (7, 2), (7, 4)];
const START: Millis = Millis(1_767_571_200_000);

/// What a run gave.
struct Given {
    /// The outputs of each batch, partition by partition.
    outputs: BTreeMap<u64, String>,
    rows: Vec<KeyRow>,
    letters: Vec<String>,
}

impl Given {
    /// The outputs of each batch, in no order.
    fn as_sets(&self) -> BTreeMap<u64, Vec<&str>> {
        self.outputs
            .iter()
            .map(|(batch, lines)| {
                let mut lines: Vec<&str> = lines.lines().collect();
                lines.sort_unstable();
                (*batch, lines)
            })
            .collect()
    }
}

/// Moves the clock with each read, so that timeouts in processing time come due, and in every run after the same read.
struct Ticking {
    files: FileSource,
    clock: Clock,
    now: Millis,
}

impl Source for Ticking {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.files.seek(positions)
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        const TICK_MS: i64 = 400_000;
        self.now.0 += TICK_MS;
        self.clock.advance_to(self.now);
        self.files.read(limit, batch)
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        self.files.replay(ranges, batch)
    }

    fn status(&self) -> Vec<SourceStatus> {
        self.files.status()
    }
}

fn make(scenario: ScenarioName, folder: &Path) {
    let made = Made {
        scenario,
        events: EVENTS,
        keys: 40,
        span_ms: 6 * 3_600_000,
        zipf: Exponent::tenths(10),
        seed: 11,
        start: START,
        high_share: Share::percent(20),
        fraud_share: Share::percent(10),
        disorder: DisorderSettings {
            out_of_order: Share::percent(10),
            displaced_ms_max: 60_000,
            late: Share::percent(2),
            duplicates: Share::percent(2),
        },
    };
    let mut output = Output::folder(folder, 2, None).expect("the folder is new");
    generate(&made, &mut output, |_| {}).expect("the settings are right");
    output.finish().expect("the disk has room");
}

fn settings(config: &Config, folder: &Path, (partitions, threads): (u32, usize), batch_events: usize) -> Settings {
    let of_input = |input: &Input| InputIdentity {
        name: input.name.clone(),
        key: input.key.clone(),
        event_time: input.event_time.clone().map(|(pointer, format)| (pointer, format.name().to_owned())),
    };
    Settings {
        folder: folder.to_owned(),
        identity: Identity {
            rule: "determinism".to_owned(),
            partitions,
            inputs: config.inputs.iter().map(of_input).collect(),
            watermark_policy: config.watermark_policy.unwrap_or_default(),
            record_bytes_max: config.record_bytes_max,
            csv_text: Vec::new(),
            id: "determinism".to_owned(),
        },
        inputs: config.inputs.iter().map(InputSettings::of).collect::<Result<_>>().expect("the example is right"),
        initial_state: None,
        parameters: config.parameters.clone(),
        limits: config.limits.clone(),
        batch: ReadLimit { records_max: batch_events, bytes_max: 1 << 24 },
        threads,
        batch_query: false,
        history_batches: config.history_batches,
        checkpoint: None,
        delivery: Delivery::default(),
        overlay_budget: Default::default(),
        twice: true,
        control: Default::default(),
        hosting: Default::default(),
    }
}

fn run(example: &str, input: &Path, cut: (u32, usize), batch_events: usize) -> Given {
    let place = folder::fast();
    let rule_file = command::example(example).join("rule.toml");
    let config = FileSettings::read(&rule_file).and_then(FileSettings::check).expect("the example is right");
    let loader = Arc::new(rules::loader(&Limits::default()));
    let component = Arc::new(loader.load(&rules::example(example)).expect("it can be loaded"));
    let (clock, sink) = (Clock::manual(START), Deliveries::default());
    let settings = settings(&config, place.path(), cut, batch_events);
    let mut host =
        Host::open(settings, clock.clone(), component, loader, Box::new(sink.clone())).expect("a new folder");
    let files = FileSource::new(vec![input.display().to_string()], FileOptions::default()).expect("the input is there");
    let mut source = Ticking { files, clock, now: START };
    host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut Nobody)
        .unwrap_or_else(|error| panic!("{example} {cut:?}: {error:#}"));
    let (mut rows, mut letters) = (Vec::new(), Vec::new());
    for partition in 0..cut.0 {
        let reader = PartitionReader::open(place.path(), PartitionId(partition)).expect("the host made it");
        let scanned = reader.scan(|row| {
            rows.push(row);
            Ok(())
        });
        let read = reader.dead_letters(|batch, letter| {
            letters.push(format!("{batch} {letter:?}"));
            Ok(())
        });
        scanned.and(read).expect("the partition can be read");
    }
    rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    letters.sort_unstable();
    Given { outputs: sink.lines(), rows, letters }
}

fn assert_deterministic(example: &str, scenario: ScenarioName) {
    let work = folder::fast();
    let input = work.path().join("input");
    make(scenario, &input);
    for batch_events in BATCHES {
        let mut of_partitions: BTreeMap<u32, Given> = BTreeMap::new();
        let first = run(example, &input, CUTS[0], batch_events);
        assert!(first.outputs.len() > 1, "{example} gives too little to be compared");
        for cut in CUTS {
            let why = format!("{example}, batches of {batch_events}, partitions and threads {cut:?}");
            let given = run(example, &input, cut, batch_events);
            assert_eq!(given.as_sets(), first.as_sets(), "other outputs: {why}");
            assert_eq!(given.rows, first.rows, "other states: {why}");
            assert_eq!(given.letters, first.letters, "other dead letters: {why}");
            let before = of_partitions.entry(cut.0).or_insert_with(|| run(example, &input, cut, batch_events));
            assert_eq!(given.outputs, before.outputs, "other bytes: {why}");
        }
    }
}

#[test]
fn card_sessions_gives_the_same_however_the_host_is_cut() {
    assert_deterministic("card-sessions", ScenarioName::CardSessions);
}

#[test]
fn fraud_session_gives_the_same_however_the_host_is_cut() {
    assert_deterministic("fraud-session", ScenarioName::Fraud);
}

#[test]
fn device_lifecycle_gives_the_same_however_the_host_is_cut() {
    assert_deterministic("device-lifecycle", ScenarioName::Devices);
}

#[test]
fn session_funnel_gives_the_same_however_the_host_is_cut() {
    assert_deterministic("session-funnel", ScenarioName::Funnel);
}

#[test]
fn running_count_gives_the_same_however_the_host_is_cut() {
    assert_deterministic("running-count", ScenarioName::CardSessions);
}
