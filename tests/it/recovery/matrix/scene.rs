//! [`Scene`]: calls of the binary, one after another, each of which can be ended at a point.

use crate::support::{command, few, folder};
use keyfold::event::{BatchId, PartitionId};
use keyfold::inspection::{StateDecoder, row_to_json};
use keyfold::state::reader::PartitionReader;
use keyfold::state::{DeadLetter, PlanLog};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PARTITIONS: u32 = 2;
/// How often each point was met.
type Met = BTreeMap<String, usize>;

/// Calls over one input. Each place that they are played in has a data folder and a folder of outputs.
pub struct Scene {
    work: PathBuf,
    component: PathBuf,
    settings: Vec<&'static str>,
    steps: Vec<Step>,
}

enum Step {
    /// `keyfold run` over the first so many files.
    Run(usize),
    /// `keyfold state import`.
    Import,
}

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Crashed,
}

/// Everything that a user can see.
#[derive(Debug, PartialEq)]
pub struct Seen {
    outputs: BTreeMap<String, Vec<u8>>,
    states: Vec<Value>,
    letters: Vec<(u32, BatchId, DeadLetter)>,
    committed: Vec<Option<BatchId>>,
    offsets: Vec<Value>,
}

impl Scene {
    /// Two runs and an import between them.
    pub fn whole(work: &Path) -> Self {
        few::write(&work.join("input"), &few::payments(44), 2);
        fs::write(work.join("states.jsonl"), few::sessions()).expect("the disk has room");
        Scene::card_sessions(work, "9", vec![Step::Run(1), Step::Import, Step::Run(2)])
    }

    /// One run of two batches.
    pub fn smallest(work: &Path) -> Self {
        few::write(&work.join("input"), &few::payments(10), 1);
        Scene::card_sessions(work, "7", vec![Step::Run(1)])
    }

    fn card_sessions(work: &Path, batch_events: &'static str, steps: Vec<Step>) -> Self {
        let component = command::example("card-sessions").join("rule.wasm");
        let settings = vec![
            "--key",
            "/user_id",
            "--event-time",
            "/ts",
            "--watermark-delay",
            "10s",
            "--batch-events",
            batch_events,
        ];
        Scene { work: work.to_owned(), component, settings, steps }
    }

    /// A run that imports so much state that the log of a partition becomes long.
    pub fn with_long_log(work: &Path) -> Self {
        let ballast = "x".repeat(20_000);
        let row = |number| json!({"key": format!("k{number}"), "value": {"count": number, "ballast": ballast}});
        few::write(&work.join("input"), &[json!({"key": "k1", "at": 1000}).to_string()], 1);
        fs::write(work.join("states.jsonl"), (0..3_000).map(|number| format!("{}\n", row(number))).collect::<String>())
            .expect("the disk has room");
        let component = command::target().join("guests/event-time-timeout.wasm");
        let settings = vec!["--key", "/key", "--event-time", "/at", "--initial-state", "states.jsonl"];
        Scene { work: work.to_owned(), component, settings, steps: vec![Step::Run(1)] }
    }

    /// How many calls there are.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Plays all steps without a crash, and keeps what each of them found. Returns what can be seen at the end, and which points
    /// each step meets.
    pub fn undisturbed(&self) -> (Seen, Vec<Met>) {
        let place = self.work.join("undisturbed");
        fs::create_dir(&place).expect("the folder is new");
        let mut met = Vec::new();
        for step in 0..self.steps.len() {
            folder::copy(&place, &self.before(step));
            let traced = command::finish(self.call(step, &place).env("KEYFOLD_FAULT", "trace")).ok();
            let mut points = Met::new();
            for point in traced.stderr.lines().filter_map(|line| line.strip_prefix("fault point ")) {
                *points.entry(point.to_owned()).or_default() += 1;
            }
            met.push(points);
        }
        (self.seen(&place), met)
    }

    /// Makes a place as it is before a step.
    pub fn copy_before(&self, step: usize, place: &Path) {
        folder::copy(&self.before(step), place);
    }

    fn before(&self, step: usize) -> PathBuf {
        self.work.join(format!("before-{step}"))
    }

    /// Plays a step, which is ended at a point when it meets that so many times.
    pub fn play(&self, step: usize, place: &Path, crash: Option<(&str, usize)>) -> Ended {
        // Whether an import has come through before a crash is plain to see: its file is there.
        if matches!(self.steps[step], Step::Import) && !folder::visible_files(&place.join("data/imports")).is_empty() {
            return Ended::Well;
        }
        let mut call = self.call(step, place);
        if let Some((point, nth)) = crash {
            call.env("KEYFOLD_FAULT", format!("{point}:{nth}=abort"));
        }
        let ended = command::finish(&mut call);
        match (ended.code, crash) {
            (Some(0), _) => Ended::Well,
            (None, Some(_)) => Ended::Crashed,
            _ => panic!("step {step}, {crash:?}: {ended:?}"),
        }
    }

    fn call(&self, step: usize, place: &Path) -> Command {
        let (data, output) = (place.join("data"), place.join("output"));
        let mut call = match self.steps[step] {
            Step::Import => {
                let mut call = command::keyfold(["state", "import"]);
                call.arg(data).arg("states.jsonl");
                call
            }
            Step::Run(files) => {
                let partitions = PARTITIONS.to_string();
                let mut call = command::keyfold(["run", "--quiet", "--threads", "1", "--partitions", &partitions]);
                call.arg("--data").arg(data).arg("--output").arg(output).args(&self.settings).arg(&self.component);
                call.arg("--input");
                call.args((0..files).map(|number| format!("input/events-{number:03}.jsonl")));
                call
            }
        };
        call.current_dir(&self.work);
        call
    }

    /// What can be seen in a place.
    pub fn seen(&self, place: &Path) -> Seen {
        let data = place.join("data");
        let decoder = StateDecoder::of_folder(&data).expect("the folder has a plan log");
        let (mut states, mut letters, mut committed) = (Vec::new(), Vec::new(), Vec::new());
        for partition in 0..PARTITIONS {
            let reader = PartitionReader::open(&data, PartitionId(partition)).expect("the partition was made");
            let scanned = reader.scan(|row| {
                states.push(row_to_json(&row, &decoder, None));
                Ok(())
            });
            let letters = reader.dead_letters(|batch, letter| {
                letters.push((partition, batch, letter));
                Ok(())
            });
            scanned.and(letters).expect("the partition can be read");
            committed.push(reader.committed());
        }
        Seen { outputs: folder::files(&place.join("output")), states, letters, committed, offsets: offsets(&data) }
    }
}

/// What the last batch that was reported had read: batch and offsets. A crash may have taken the reports of batches before it.
fn offsets(data: &Path) -> Vec<Value> {
    let reports = PlanLog::recent_progress(data).expect("the plan log can be read").expect("there is a plan log");
    let last: Value = serde_json::from_str(reports.last().expect("a batch was reported")).expect("reports are JSON");
    let ends = last["sources"].as_array().into_iter().flatten().map(|source| source["endOffset"].clone());
    std::iter::once(last["batchId"].clone()).chain(ends).collect()
}

impl Seen {
    /// Panics with the first difference.
    pub fn assert_same(&self, expected: &Seen, why: &str) {
        let names = |seen: &Seen| seen.outputs.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(expected), "other files of outputs {why}");
        for (name, bytes) in &expected.outputs {
            assert!(self.outputs[name] == *bytes, "{name} has other bytes {why}");
        }
        assert_eq!(self.states, expected.states, "other states {why}");
        assert_eq!(self.letters, expected.letters, "other dead letters {why}");
        assert_eq!(self.committed, expected.committed, "other batches are committed {why}");
        assert_eq!(self.offsets, expected.offsets, "other offsets {why}");
    }
}
