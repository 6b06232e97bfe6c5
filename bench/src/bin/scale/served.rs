//! [`Served`]: streams and rules as `keyfold serve` has them, in this process and without HTTP.

use crate::rule::{WATERMARK_DELAY, load};
use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::config::{BATCH_BYTES_DEFAULT, HISTORY_BATCHES_DEFAULT};
use keyfold::extract::TimeFormat;
use keyfold::fair::{FairShare, Share};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::rule_log::ToTracing;
use keyfold::runner::{
    QuarantineSettings, RollbackSettings, RuleInput, RuleRunner, RuleVersion, RunnerSettings, Runners, SinkSettings,
};
use keyfold::source::ReadLimit;
use keyfold::source::file::RECORD_BYTES_MAX_DEFAULT;
use keyfold::state::Budget;
use keyfold::stream::{BlockCache, StreamLimits, StreamLog, StreamSettings};
use keyfold::wasm::Component;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use keyfold_bench::rules::NoRecords;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// As in a service: so many events of a batch, unless a rule says otherwise.
pub const BATCH_EVENTS: usize = 10_000;
/// Instances alive at once, over all rules.
const INSTANCES_MAX: usize = 32;
/// Rules are given this long to read what there is.
const PATIENCE: Duration = Duration::from_secs(600);

/// Streams and rules of one tenant.
pub struct Served {
    folder: PathBuf,
    runners: Arc<Runners>,
    loader: Arc<Loader>,
    component: Arc<Component>,
    cache: Arc<BlockCache>,
}

impl Served {
    /// In a new folder in `scratch`, with this example for all rules.
    pub fn open(scratch: &Path, example: &str) -> Result<Self> {
        let (loader, component) = load(scratch, example)?;
        let cores = std::thread::available_parallelism()?.get();
        let share = FairShare::new(cores, INSTANCES_MAX);
        let runners = Runners::new(Clock::System, share, Budget::default(), Arc::new(NoRecords))?;
        let folder = scratch.join("served");
        std::fs::create_dir_all(&folder)?;
        Ok(Served { folder, runners, loader, component, cache: Arc::default() })
    }

    /// A new stream with one partition.
    pub fn stream(&self, name: &str) -> Result<Arc<StreamLog>> {
        let limits = StreamLimits { cache: Arc::clone(&self.cache), ..StreamLimits::default() };
        let folder = self.folder.join("streams").join(name);
        Ok(Arc::new(StreamLog::open(&folder, StreamSettings::default(), Clock::System, limits)?))
    }

    /// How often the events of a block were keyed.
    pub fn blocks_keyed(&self) -> u64 {
        self.cache.blocks_keyed()
    }

    /// A rule over a stream, keyed by `/user_id`. It begins to run at once.
    pub fn rule(
        &self,
        name: &str,
        event_time: Option<&str>,
        input: &Arc<StreamLog>,
        sink: SinkSettings,
        batch_events: usize,
    ) -> Arc<RuleRunner> {
        let key = vec!["/user_id".to_owned()];
        let event_time = event_time.map(|pointer| (pointer.to_owned(), TimeFormat::EpochMs));
        let of_input = InputIdentity {
            name: "input".to_owned(),
            key: key.clone(),
            event_time: event_time.as_ref().map(|(pointer, format)| (pointer.clone(), format.name().to_owned())),
        };
        let settings = RunnerSettings {
            id: name.to_owned(),
            name: name.to_owned(),
            folder: self.folder.join("rules").join(name),
            identity: Identity {
                rule: name.to_owned(),
                partitions: 1,
                inputs: vec![of_input],
                watermark_policy: WatermarkPolicy::Min,
                record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
                csv_text: Vec::new(),
                id: Identity::new_id(&Clock::System),
            },
            inputs: vec![RuleInput {
                stream: "input".to_owned(),
                key,
                event_time,
                watermark: InputWatermark { delay: WATERMARK_DELAY, idle_after: None },
                log: Arc::clone(input),
                start: input.starts(),
            }],
            sink,
            loader: Arc::clone(&self.loader),
            share: self.runners.share().tenant("tenant", Share::default()),
            version: RuleVersion {
                component: Arc::clone(&self.component),
                parameters: serde_json::json!({}),
                limits: Limits::default(),
            },
            trial: None,
            batch: ReadLimit { records_max: batch_events, bytes_max: BATCH_BYTES_DEFAULT },
            interval: None,
            threads: 1,
            history_batches: HISTORY_BATCHES_DEFAULT,
            park_after: None,
            quarantine: QuarantineSettings::default(),
            rollback: RollbackSettings::default(),
            log: Arc::new(ToTracing),
            stopped: None,
            twice: false,
        };
        RuleRunner::new(settings, &self.runners, None)
    }

    /// Waits until these rules have committed what the stream has, and checks that each has read so many events and failed for none.
    pub fn wait_for(&self, rules: &[Arc<RuleRunner>], events: u64) -> Result<()> {
        const POLL: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        for rule in rules {
            let totals = loop {
                let status = rule.status();
                if status.lag == 0 && status.totals.opened > 0 && status.totals.input_rows >= events {
                    break status.totals;
                }
                ensure!(begin.elapsed() < PATIENCE, "{} does not catch up: {status:?}", rule.id());
                std::thread::sleep(POLL);
            };
            ensure!(totals.input_rows == events, "{} has read {} events of {events}", rule.id(), totals.input_rows);
            let lost = totals.failed_groups + totals.dead_letters + totals.late + totals.failures;
            ensure!(lost == 0, "{} has failed: {totals:?}", rule.id());
        }
        Ok(())
    }

    /// Stops the rules and deletes everything.
    pub fn close(self, rules: Vec<Arc<RuleRunner>>) -> Result<()> {
        rules.iter().for_each(|rule| rule.ask_to_stop());
        rules.iter().for_each(|rule| rule.stop());
        drop(rules);
        std::fs::remove_dir_all(&self.folder).context("failed to delete the streams and rules")
    }
}
