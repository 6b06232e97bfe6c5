//! How long a decision takes: single events at a steady rate through a rule with many keys, from the moment at which each is to be sent
//! to the answer, which comes after the commit. Beside it, the disk's own time for a sync in the same minutes.
//!
//! `cargo run -p keyfold-bench --bin decide -- [EVENTS_PER_SECOND [SECONDS [KEYS]]]`, after `cargo xtask build`.

use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::event::InputId;
use keyfold::extract::TimeFormat;
use keyfold::fair::{FairShare, Share};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::rule_log::ToTracing;
use keyfold::runner::{Outcome, RuleInput, RuleRunner, RuleVersion, RunnerSettings, Runners, SinkSettings};
use keyfold::source::ReadLimit;
use keyfold::source::file::RECORD_BYTES_MAX_DEFAULT;
use keyfold::state::{Budget, OVERLAY_BYTES_DEFAULT};
use keyfold::stream::{AppendRequest, NewEvent, StreamLimits, StreamLog, StreamSettings};
use keyfold::wasm::Engine;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use keyfold_bench::latencies::{head, line, ms};
use keyfold_bench::rules::{self, NoRecords, example};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads that ask. More than can wait at the same time: each event is sent at its time, however long others take.
const ASKERS: usize = 128;
/// Nobody waits longer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Events of one append while the keys are made.
const LOAD: usize = 10_000;
/// Batches of one event, after which all keys are folded from memory into the table.
const SETTLING_BATCHES: u64 = 260;
/// Between two syncs that are measured.
const SYNC_EVERY: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().context("arguments are numbers"));
    let mut number = |default| numbers.next().unwrap_or(Ok(default));
    let (rate, seconds, keys) = (number(500)?, number(20)?, number(100_000)?);
    let folder = tempfile::tempdir()?;
    let rule = open(folder.path())?;
    load(&rule, keys)?;
    let before = rule.runner.status().totals;
    let (mut asked, mut syncs) = ask(&rule, folder.path(), rate, seconds, keys)?;
    asked.sort_unstable();
    syncs.sort_unstable();
    let status = rule.runner.status();
    let batches = status.totals.batches - before.batches;
    println!("{rate} events/s for {seconds} s, {} keys, {batches} batches", status.keys);
    println!("{}", head("milliseconds"));
    println!("{}", line("a decision, committed", &asked));
    println!("{}", line("fdatasync of 4 KiB beside it", &syncs));
    rule.runner.stop();
    Ok(())
}

struct Rule {
    runner: Arc<RuleRunner>,
    input: Arc<StreamLog>,
}

fn open(folder: &Path) -> Result<Rule> {
    let limits = Limits::default();
    let started = Instant::now();
    let engine = Engine::for_instances(&limits, keyfold::wasm::engine::INSTANCES_MAX_SERVICE)?;
    println!("the pool of instances took {:.1} ms", ms(started.elapsed()));
    // The `keyfold` of the same profile as this program.
    let compiler = Compiler::with_program(std::env::current_exe()?.with_file_name("keyfold"));
    let loader = Arc::new(Loader::with_engine(engine, limits.clone(), Cache::open(&folder.join("cache"))?, compiler));
    let bytes = rules::read(&example("card-sessions"))?;
    let component = Arc::new(loader.load(&bytes)?);
    let clock = Clock::System;
    let stream = |name: &str| -> Result<Arc<StreamLog>> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let (settings, limits) = (StreamSettings::default(), StreamLimits::default());
        Ok(Arc::new(StreamLog::open(&folder, settings, clock.clone(), limits)?))
    };
    let (input, output) = (stream("input")?, stream("output")?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = FairShare::new(cores, 100);
    let tenant = share.tenant("tenant", Share::default());
    let runners = Runners::new(clock, share, Budget::new(OVERLAY_BYTES_DEFAULT), Arc::new(NoRecords))?;
    let event_time = ("/ts".to_owned(), TimeFormat::EpochMs);
    let settings = RunnerSettings {
        id: "rule".to_owned(),
        name: "bench/rule".to_owned(),
        folder: folder.join("rule"),
        identity: Identity {
            rule: "rule".to_owned(),
            partitions: 1,
            inputs: vec![InputIdentity {
                name: "input".to_owned(),
                key: vec!["/user_id".to_owned()],
                event_time: Some((event_time.0.clone(), event_time.1.name().to_owned())),
            }],
            watermark_policy: WatermarkPolicy::Min,
            record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
            csv_text: Vec::new(),
            id: "bench".to_owned(),
        },
        inputs: vec![RuleInput {
            stream: "input".to_owned(),
            key: vec!["/user_id".to_owned()],
            event_time: Some(event_time),
            watermark: InputWatermark { delay: Duration::from_secs(60), idle_after: None },
            start: input.starts(),
            log: Arc::clone(&input),
        }],
        sink: SinkSettings::Stream { log: output, name: "output".to_owned() },
        loader,
        share: tenant,
        version: RuleVersion { component, parameters: serde_json::json!({}), limits },
        trial: None,
        batch: ReadLimit { records_max: 10_000, bytes_max: 1 << 26 },
        interval: None,
        threads: 1,
        history_batches: 100,
        park_after: None,
        quarantine: Default::default(),
        rollback: Default::default(),
        log: Arc::new(ToTracing),
        stopped: None,
        twice: false,
    };
    Ok(Rule { runner: RuleRunner::new(settings, &runners, None), input })
}

/// Gives each key a state.
fn load(rule: &Rule, keys: u64) -> Result<()> {
    let started = Instant::now();
    let numbers: Vec<u64> = (0..keys).collect();
    for part in numbers.chunks(LOAD) {
        let events = part.iter().map(|&key| event(key)).collect::<Result<_>>()?;
        rule.input.append(AppendRequest { events, ..AppendRequest::default() })?;
    }
    loop {
        let status = rule.runner.status();
        if status.positions.is_some() && status.lag == 0 {
            break;
        }
        ensure!(started.elapsed() < Duration::from_secs(600), "the keys are not there after ten minutes: {status:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let loaded = started.elapsed();
    // Small batches fold what the large ones have left in memory: that is not what is measured.
    for number in 0..SETTLING_BATCHES {
        rule.runner.decide(InputId(0), event(number * 7 % keys)?, DEADLINE)?;
    }
    println!(
        "{keys} keys after {:.1} s, all folded after {:.1} s",
        loaded.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Sends events at their times, and measures each from then on. Returns the times of the decisions and those of the syncs.
fn ask(rule: &Rule, folder: &Path, rate: u64, seconds: u64, keys: u64) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let next = AtomicU64::new(0);
    let is_done = AtomicBool::new(false);
    let (asked, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let began = Instant::now() + Duration::from_millis(100);
    let asker = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rate * seconds {
                return Ok(());
            }
            let at = began + Duration::from_secs(1) * number as u32 / rate as u32;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            // Spread over all keys.
            let decision = rule.runner.decide(InputId(0), event(number.wrapping_mul(0x9e37_79b9) % keys)?, DEADLINE)?;
            let took = at.elapsed();
            let decided = matches!(decision.outcome, Outcome::Decided(_));
            ensure!(decided, "an event was not decided: {:?}", decision.outcome);
            asked.lock().expect("no thread panics").push(took);
        }
    };
    let syncs = std::thread::scope(|scope| {
        let syncs = scope.spawn(|| measure_syncs(folder, &is_done));
        let askers: Vec<_> = (0..ASKERS).map(|_| scope.spawn(asker)).collect();
        for asker in askers {
            failures.lock().expect("no thread panics").extend(asker.join().expect("no thread panics").err());
        }
        is_done.store(true, Ordering::Relaxed);
        syncs.join().expect("no thread panics")
    })?;
    match failures.into_inner().expect("no thread panics").pop() {
        Some(failure) => Err(failure),
        None => Ok((asked.into_inner().expect("no thread panics"), syncs)),
    }
}

fn measure_syncs(folder: &Path, is_done: &AtomicBool) -> Result<Vec<Duration>> {
    let file = File::create(folder.join("syncs"))?;
    let mut times = Vec::new();
    while !is_done.load(Ordering::Relaxed) {
        file.write_all_at(&[0; 4096], times.len() as u64 * 4096)?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed());
        std::thread::sleep(SYNC_EVERY);
    }
    Ok(times)
}

fn event(key: u64) -> Result<NewEvent> {
    let now = Clock::System.now().0;
    let json = format!(
        r#"{{"id":"t","user_id":"user-{key:06}","ts":{now},"amount_minor":12345,"country":"CH","mcc":"5411"}}"#
    );
    NewEvent::new(json).map_err(|refusal| anyhow::anyhow!(refusal.message))
}
