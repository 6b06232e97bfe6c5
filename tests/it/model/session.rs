//! [`Session`]: a host and a model of it, to which the same happens.

use super::reference::{BATCH_RECORDS, DELAY_MS, Line, Model, Row};
use super::{Line as NewLine, Step};
use crate::support::deliveries::Deliveries;
use crate::support::host::Stream;
use crate::support::rules::guest;
use crate::support::vfs::{Disk, Watch};
use crate::support::{deliveries::Delivery, folder};
use keyfold::imports;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub struct Session {
    place: TempDir,
    stream: Stream,
    delivered: BTreeMap<u64, Delivery>,
    model: Model,
    /// The time of the last event.
    now_ms: i64,
}

impl Session {
    pub fn new(partitions: u32) -> Self {
        let place = folder::fast();
        let path = place.path();
        fs::create_dir(path.join("input")).expect("the folder is new");
        fs::write(path.join("input/events.jsonl"), "").expect("the disk has room");
        let stream = Stream {
            component: guest("event-time-timeout"),
            input: path.join("input"),
            data: path.join("data"),
            output: path.join("output"),
            key: "/key",
            event_time: Some("/at"),
            delay: Duration::from_millis(DELAY_MS as u64),
            partitions,
            threads: 2,
            batch_events: BATCH_RECORDS,
            ..Stream::of_example("card-sessions", path, "")
        };
        let mut session =
            Session { place, stream, delivered: BTreeMap::new(), model: Model::default(), now_ms: 60_000 };
        // Whatever comes next finds a data folder.
        session.run();
        session
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Add(lines) => self.add(lines),
            Step::Run => self.run(),
            Step::LosePower { share, seed } => self.lose_power(*share, *seed),
            Step::Import(rows) => self.import(rows),
        }
    }

    fn add(&mut self, lines: &[NewLine]) {
        let mut file =
            OpenOptions::new().append(true).open(self.stream.input.join("events.jsonl")).expect("it is there");
        for line in lines {
            match line {
                NewLine::Garbage => {
                    writeln!(file, "no JSON").expect("the disk has room");
                    self.model.lines.push_back(Line::Garbage);
                }
                NewLine::Event { key, after_s } => {
                    let at = self.now_ms + i64::from(*after_s) * 1_000;
                    self.now_ms = self.now_ms.max(at);
                    let key = format!("key-{key}");
                    writeln!(file, "{}", json!({"key": key, "at": at})).expect("the disk has room");
                    self.model.lines.push_back(Line::Event { key, at });
                }
            }
        }
    }

    fn import(&mut self, rows: &[(u8, u64, Option<i8>)]) {
        // A key has one state in a file.
        let rows: BTreeMap<u8, (u64, Option<i64>)> = rows
            .iter()
            .map(|&(key, count, after_s)| {
                (key, (count, after_s.map(|after_s| self.now_ms + i64::from(after_s) * 1_000)))
            })
            .collect();
        let mut text = String::new();
        self.model.imports.push_back(None);
        for (key, (count, timeout)) in rows {
            let key = format!("key-{key}");
            let mut row = json!({"key": key, "value": {"count": count}});
            if let Some(at) = timeout {
                row["timeout"] = json!({"clock": "event-time", "ms": at});
            }
            text += &format!("{row}\n");
            self.model.imports.push_back(Some((key, Row { count, timeout })));
        }
        let file = self.place.path().join("states.jsonl");
        fs::write(&file, text).expect("the disk has room");
        imports::add(&self.stream.data, &file, true, None).expect("the rows are right");
    }

    /// Runs to the end, and compares.
    fn run(&mut self) {
        let sink = Deliveries::with(self.delivered.clone());
        self.stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{error:#}"));
        self.delivered = sink.all();
        self.model.run(None);
        self.compare();
    }

    /// Runs, and goes back to what a loss of power in the middle of it has left.
    fn lose_power(&mut self, share: f64, seed: u64) {
        let mut disk = Disk::of_folder(&self.stream.data);
        let watch = Arc::new(Watch::recording(&self.stream.data));
        let sink = Deliveries { watch: Some(Arc::clone(&watch)), ..Deliveries::with(self.delivered.clone()) };
        self.stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{error:#}"));
        let events = watch.take_events();
        let moment = (share * events.len() as f64) as usize;
        events[..moment].iter().for_each(|event| disk.see(event));
        for name in folder::files(&self.stream.data).into_keys().filter(|name| name.contains(".db")) {
            fs::remove_file(self.stream.data.join(name)).expect("it is there");
        }
        disk.lose_power(seed, &self.stream.data);
        // What an earlier run delivered has no moment of this one.
        let before = &self.delivered;
        let had = sink.all().into_iter().filter(|(batch, new)| before.contains_key(batch) || new.moment < moment);
        self.delivered = had.collect();
        let (planned, settled) = written(&self.stream.data, &self.place.path().join("look"));
        self.model.run(Some(planned));
        assert_eq!(self.model.next_batch(), planned, "the model plans as many batches from the same input");
        self.model.know_settled(settled);
    }

    fn compare(&self) {
        let sorted = |delivery: &Delivery| {
            let mut lines: Vec<String> = delivery.lines.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let outputs: BTreeMap<u64, Vec<String>> =
            self.delivered.iter().map(|(batch, delivery)| (*batch, sorted(delivery))).collect();
        assert_eq!(outputs, self.model.outputs, "outputs: the host's, and the model's");
        let mut letters: Vec<_> =
            self.stream.dead_letters().into_iter().map(|(_, batch, letter)| (batch.0, letter.key)).collect();
        letters.sort();
        let mut expected = self.model.letters.clone();
        expected.sort();
        assert_eq!(letters, expected, "dead letters: the host's, and the model's");
        let rows: BTreeMap<String, Row> = self.stream.states().iter().map(row).collect();
        assert_eq!(rows, self.model.rows, "rows: the host's, and the model's");
    }
}

fn row(state: &Value) -> (String, Row) {
    let count = state["value"]["count"].as_u64().expect("every row has a count");
    (state["key"].as_str().expect("keys are text").to_owned(), Row { count, timeout: state["timeout"]["ms"].as_i64() })
}

/// How many batches are planned in a folder, and how far the watermark is written to have come when the input was used up, and
/// after which batch. Looked at in a copy: opening the files repairs what a loss of power left.
fn written(data: &Path, copy: &Path) -> (u64, Option<(u64, i64)>) {
    fs::create_dir_all(copy).expect("a folder can be made");
    for (name, bytes) in folder::files(data).into_iter().filter(|(name, _)| name.starts_with("plan.db")) {
        fs::write(copy.join(name), bytes).expect("the disk has room");
    }
    let open = Connection::open(copy.join("plan.db")).expect("the plan log is there");
    let last: Option<u64> =
        open.query_row("SELECT max(batch) FROM plan", [], |row| row.get(0)).expect("the plan log has plans");
    let settled: Option<String> = open
        .query_row("SELECT value FROM meta WHERE name = 'settled'", [], |row| row.get(0))
        .optional()
        .expect("the plan log can be read");
    drop(open);
    fs::remove_dir_all(copy).expect("it was just made");
    let settled = settled.map(|text| {
        let settled: Value = serde_json::from_str(&text).expect("it is JSON");
        (settled["batch"].as_u64().expect("a batch"), settled["watermark"].as_i64().expect("a time"))
    });
    (last.map_or(0, |last| last + 1), settled)
}
