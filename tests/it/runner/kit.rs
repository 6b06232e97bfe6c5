//! [`World`]: rules of some tenants in this process, with the streams that they read and write.

use crate::support::process::wait_until;
use crate::support::rules::{guest, loader};
use anyhow::Result;
use keyfold::clock::Clock;
use keyfold::event::{InputId, Millis};
use keyfold::fair::{FairShare, Share, TenantShare};
use keyfold::host::StateChoice;
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::rule_log::ToTracing;
use keyfold::runner::{
    Decision, Outcome, Parked, QuarantineSettings, RollbackSettings, RolledBack, RuleInput, RuleRunner, RuleVersion,
    RunnerEvents, RunnerSettings, RunnerState, Runners, SinkSettings,
};
use keyfold::source::ReadLimit;
use keyfold::source::file::RECORD_BYTES_MAX_DEFAULT;
use keyfold::state::{Budget, OVERLAY_BYTES_DEFAULT};
use keyfold::stream::{AppendRequest, EventNumber, NewEvent, StreamLimits, StreamLog, StreamSettings};
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Nobody waits longer for a decision that comes.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// So long that a test ends first.
pub const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Rules of some tenants in this process.
pub struct World {
    pub folder: TempDir,
    pub clock: Clock,
    pub share: FairShare,
    pub told: Arc<Told>,
    pub runners: Arc<Runners>,
    pub loader: Arc<Loader>,
}

/// What runners told.
#[derive(Default)]
pub struct Told {
    pub parked: Mutex<BTreeMap<String, Parked>>,
    pub quarantined: Mutex<Vec<(String, String)>>,
    pub rolled_back: Mutex<Vec<(String, StateChoice, String)>>,
    pub drained: Mutex<Vec<String>>,
}

impl RunnerEvents for Told {
    fn parked(&self, rule: &str, parked: Option<&Parked>) -> Result<()> {
        let mut known = self.parked.lock().unwrap();
        match parked {
            Some(parked) => known.insert(rule.to_owned(), parked.clone()),
            None => known.remove(rule),
        };
        Ok(())
    }

    fn quarantined(&self, rule: &str, reason: &str, _: Millis) {
        self.quarantined.lock().unwrap().push((rule.to_owned(), reason.to_owned()));
    }

    fn rolled_back(&self, rule: &str, rolled_back: &RolledBack) {
        let to = rolled_back.to.digest().to_owned();
        self.rolled_back.lock().unwrap().push((rule.to_owned(), rolled_back.state, to));
    }

    fn drained(&self, rule: &str) {
        self.drained.lock().unwrap().push(rule.to_owned());
    }
}

impl World {
    /// On the machine's clock, with so many permits.
    pub fn new(permits: usize) -> Self {
        Self::with_clock(permits, Clock::System)
    }

    pub fn with_clock(permits: usize, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let share = FairShare::new(permits, 32);
        let told = Arc::new(Told::default());
        let budget = Budget::new(OVERLAY_BYTES_DEFAULT);
        let runners = Runners::new(clock.clone(), share.clone(), budget, Arc::clone(&told) as _).unwrap();
        World { folder, clock, share, told, runners, loader: Arc::new(loader(&Limits::default())) }
    }

    pub fn tenant(&self, name: &str) -> TenantShare {
        self.share.tenant(name, Share::default())
    }

    /// A stream, new or as it was left.
    pub fn stream(&self, name: &str) -> Arc<StreamLog> {
        let folder = self.folder.path().join("streams").join(name);
        fs::create_dir_all(&folder).unwrap();
        let (settings, limits) = (StreamSettings::default(), StreamLimits::default());
        Arc::new(StreamLog::open(&folder, settings, self.clock.clone(), limits).unwrap())
    }

    pub fn version(&self, name: &str) -> RuleVersion {
        let component = Arc::new(self.loader.load(&guest(name)).unwrap());
        let limits = Limits { failures_per_batch_max: Some(100), ..Limits::default() };
        RuleVersion { component, parameters: json!({}), limits }
    }

    /// A rule that reads `input` and writes `output`.
    pub fn rule(&self, name: &str, version: RuleVersion, input: &Arc<StreamLog>, output: &Arc<StreamLog>) -> Rule {
        let settings = RunnerSettings {
            id: name.to_owned(),
            name: format!("test/{name}"),
            folder: self.folder.path().join("rules").join(name),
            identity: Identity {
                rule: name.to_owned(),
                partitions: 1,
                inputs: vec![InputIdentity {
                    name: "input".to_owned(),
                    key: vec!["/key".to_owned()],
                    event_time: None,
                }],
                watermark_policy: WatermarkPolicy::Min,
                record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
                csv_text: Vec::new(),
                id: format!("folder-of-{name}"),
            },
            inputs: vec![RuleInput {
                stream: "input".to_owned(),
                key: vec!["/key".to_owned()],
                event_time: None,
                watermark: InputWatermark::default(),
                log: Arc::clone(input),
                start: input.starts(),
            }],
            sink: SinkSettings::Stream { log: Arc::clone(output), name: "output".to_owned() },
            loader: Arc::clone(&self.loader),
            share: self.tenant("tenant"),
            version,
            trial: None,
            batch: ReadLimit { records_max: 1000, bytes_max: 1 << 24 },
            interval: None,
            threads: 1,
            history_batches: 0,
            park_after: Some(NEVER),
            quarantine: QuarantineSettings::default(),
            rollback: RollbackSettings::default(),
            log: Arc::new(ToTracing),
            stopped: None,
            twice: true,
        };
        Rule(settings)
    }
}

/// A rule before it lives.
pub struct Rule(pub RunnerSettings);

impl Rule {
    pub fn of_tenant(mut self, tenant: &TenantShare) -> Self {
        self.0.share = tenant.clone();
        self
    }

    pub fn parks_after(mut self, time: Duration) -> Self {
        self.0.park_after = Some(time);
        self
    }

    /// Batches of one event each.
    pub fn one_by_one(mut self) -> Self {
        self.0.batch.records_max = 1;
        self
    }

    pub fn start(self, world: &World, parked: Option<Parked>) -> Arc<RuleRunner> {
        RuleRunner::new(self.0, &world.runners, parked)
    }
}

pub fn event(key: &str) -> NewEvent {
    NewEvent::new(json!({ "key": key }).to_string()).unwrap()
}

/// Appends an event for each key.
pub fn send<'k>(stream: &StreamLog, keys: impl IntoIterator<Item = &'k str>) {
    let events = keys.into_iter().map(event).collect();
    stream.append(AppendRequest { events, ..AppendRequest::default() }).unwrap();
}

/// All events of a stream.
pub fn read(stream: &StreamLog) -> Vec<Value> {
    let all = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
    let events = stream.read(0, EventNumber(0), all).unwrap();
    events.iter().map(|event| serde_json::from_slice(&event.json).unwrap()).collect()
}

/// The counts that a rule has put out, by key: the outputs of the guests of this test.
pub fn counts(stream: &StreamLog) -> BTreeMap<String, Vec<u64>> {
    let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for output in read(stream) {
        let key = output["key"].as_str().unwrap().to_owned();
        assert_eq!(output["output"]["key"], output["key"]);
        counts.entry(key).or_default().extend(output["output"]["count"].as_u64());
    }
    counts
}

pub fn wait_for_state(runner: &RuleRunner, what: &str, is: impl Fn(&RunnerState) -> bool) {
    wait_until(&format!("{} is {what}", runner.id()), || is(&runner.status().state));
}

pub fn wait_until_parked(runner: &RuleRunner) {
    wait_for_state(runner, "parked", |state| *state == RunnerState::Parked);
}

/// Waits until a rule has read all of its stream, committed it, and delivered what it put out.
pub fn wait_until_read(runner: &RuleRunner) {
    wait_until(&format!("{} has read everything", runner.id()), || {
        let status = runner.status();
        let delivered = status.progress.as_ref().map(|progress| progress.batch_id);
        status.positions.is_some() && status.lag == 0 && (status.totals.batches == 0 || delivered == status.last_batch)
    });
}

pub fn decide(runner: &RuleRunner, key: &str, deadline: Duration) -> Decision {
    runner.decide(InputId(0), event(key), deadline).unwrap()
}

/// Why an event was not decided; none when it was.
pub fn undecided(decision: &Decision) -> Option<&'static str> {
    match &decision.outcome {
        Outcome::Decided(_) => None,
        Outcome::Undecided { reason, .. } => Some(reason),
    }
}

/// The files below a folder that this process has open.
pub fn open_files(below: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).filter(|path| path.starts_with(below)).collect()
}
