//! Input as it comes in practice, through the real binary: broken lines, CSV, standard input, folders that grow, silence.

use crate::support::process::{Process, wait_until};
use crate::support::{command, folder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder to run in: `input`, `data` and `output` are in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().expect("a folder can be made"));
        fs::create_dir(place.path("input")).expect("the folder is new");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path("input").join(name), text).expect("the disk has room");
    }

    fn append(&self, name: &str, text: &str) {
        let file = OpenOptions::new().append(true).open(self.path("input").join(name));
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the file is there");
    }

    fn run(&self, rule: &Path, settings: &[&str]) -> Command {
        self.run_on(&self.path("input"), rule, settings)
    }

    fn run_on(&self, input: &Path, rule: &Path, settings: &[&str]) -> Command {
        let mut call = command::keyfold(["run", "--quiet", "--input"]);
        call.arg(input)
            .arg("--data")
            .arg(self.path("data"))
            .arg("--output")
            .arg(self.path("output"))
            .args(settings)
            .arg(rule);
        call
    }

    /// The states of all keys.
    fn states(&self) -> BTreeMap<String, Value> {
        let states = command::finish(command::keyfold(["state", "ls"]).arg(self.path("data"))).ok().json_lines();
        states.into_iter().map(|state| (text(&state["key"]), state["value"].clone())).collect()
    }

    /// Of each dead letter: the file's name, the line, the reason.
    fn dead_letters(&self) -> Vec<(String, u64, String)> {
        let letters = command::finish(command::keyfold(["dead-letters"]).arg(self.path("data"))).ok().json_lines();
        let of = |letter: &Value| {
            let event = &letter["events"][0];
            let file = text(&event["file"]);
            let name = file.rsplit('/').next().unwrap_or_default().to_owned();
            (name, event["line"].as_u64().expect("a line is a number"), text(&letter["reason"]))
        };
        letters.iter().map(of).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}

fn payment(user: &str, minute: i64) -> String {
    format!("{{\"user_id\":\"{user}\",\"ts\":{},\"amount_minor\":100}}\n", 1_767_571_200_000 + minute * 60_000)
}

#[test]
fn lines_that_are_no_events_go_to_the_dead_letters_and_the_others_are_handled() {
    let place = Place::new();
    let rule = place.path("rule.toml");
    let component = command::example("card-sessions").join("rule.wasm");
    let settings =
        format!("component = {component:?}\nkey = \"/user_id\"\nevent-time = \"/ts\"\nrecord-bytes-max = 300\n");
    fs::write(&rule, settings).expect("the disk has room");
    let (first, last) = (payment("U1", 0), payment("U1", 1));
    let lines: [(&[u8], Option<&str>); 12] = [
        (first.trim_end().as_bytes(), None),
        (b"{\"user_id\": oh no", Some("invalid-json")),
        (b"{\"ts\":1767571200000,\"amount_minor\":100}", Some("missing-key")),
        (b"{\"user_id\":null,\"ts\":1767571200000,\"amount_minor\":100}", Some("null-key")),
        (b"{\"user_id\":\"U\xff\",\"ts\":1767571200000,\"amount_minor\":100}", Some("invalid-utf8")),
        (b"{\"user_id\":\"U1\",\"ts\":1767571200000000,\"amount_minor\":100}", Some("event-time-out-of-range")),
        (b"{\"user_id\":\"U1\",\"ts\":\"today\",\"amount_minor\":100}", Some("invalid-event-time")),
        (b"{\"user_id\":\"U1\",\"amount_minor\":100}", Some("missing-event-time")),
        (&[b'x'; 301], Some("record-too-long")),
        (b"[1, 2]", Some("not-an-object")),
        (b"", None),
        (last.trim_end().as_bytes(), None),
    ];
    let mut file = lines.iter().flat_map(|(line, _)| [line, &b"\n"[..]].concat()).collect::<Vec<u8>>();
    file.extend(payment("U2", 2).trim_end().as_bytes());
    place.write("mixed.jsonl", file);
    command::finish(&mut place.run(&rule, &[])).ok();
    let reasons = lines
        .iter()
        .zip(1..)
        .filter_map(|((_, reason), line)| Some(("mixed.jsonl".to_owned(), line, (*reason)?.to_owned())));
    assert_eq!(place.dead_letters(), reasons.collect::<Vec<_>>());
    let counts: Vec<_> = place.states().into_iter().map(|(key, state)| (key, state["count"].as_u64())).collect();
    assert_eq!(counts, [("U1".to_owned(), Some(2)), ("U2".to_owned(), Some(1))]);
}

#[test]
fn csv_with_a_header_is_the_same_as_json_lines() {
    let rule = command::example("card-sessions");
    let (csv, json) = (Place::new(), Place::new());
    csv.write(
        "a.csv",
        "user_id,ts,amount_minor\nU1,1767571200000,100\nU2,1767571260000,100\nU1,17675\nU1,1767571320000,100\n",
    );
    json.write("a.jsonl", payment("U1", 0) + &payment("U2", 1) + &payment("U1", 2));
    for place in [&csv, &json] {
        command::finish(&mut place.run(&rule, &[])).ok();
    }
    assert_eq!(csv.states(), json.states());
    assert_eq!(csv.states().len(), 2);
    assert_eq!(csv.dead_letters(), [("a.csv".to_owned(), 4, "csv-columns".to_owned())]);
}

/// Events handled so far, when every one is counted.
fn handled(place: &Place) -> u64 {
    if !place.path("data/partition-0003.db").exists() {
        return 0;
    }
    let listed = command::finish(command::keyfold(["state", "ls"]).arg(place.path("data")));
    // The folder may be in the making.
    if listed.code != Some(0) {
        0
    } else {
        listed.json_lines().iter().filter_map(|state| state["value"].as_u64()).sum()
    }
}

fn events(users: std::ops::Range<u32>) -> String {
    users.map(|user| payment(&format!("U{}", user % 50), user.into())).collect()
}

#[test]
fn standard_input_goes_on_after_a_kill_with_what_was_not_sent_yet() {
    let place = Place::new();
    let rule = command::example("running-count");
    let start = || Process::start(place.run_on(Path::new("-"), &rule, &[]).stdin(Stdio::piped()));
    let mut first = start();
    first.write(events(0..1000).as_bytes());
    wait_until("the first events were handled", || handled(&place) == 1000);
    // An input that pauses has not ended.
    assert!(first.is_running(), "the run waits for the end of its input");
    first.write(events(1000..2000).as_bytes());
    first.write(b"{\"user_id\":\"U1\",\"am");
    let spool = place.path("data/stdin/000000.jsonl");
    let sent = events(0..2000).len() as u64 + 19;
    wait_until("all of it was copied", || fs::metadata(&spool).is_ok_and(|metadata| metadata.len() == sent));
    first.kill();
    let mut second = start();
    second.write(events(2000..2500).as_bytes());
    second.close_stdin();
    second.finish().ok();
    assert_eq!(handled(&place), 2500);
    assert_eq!(place.dead_letters(), [("000000.jsonl".to_owned(), 2001, "invalid-json".to_owned())], "the half line");
}

#[test]
fn a_followed_folder_is_read_on_until_the_run_is_asked_to_end() {
    let place = Place::new();
    let rule = command::example("running-count");
    let follow = Process::start(&mut place.run(&rule, &["--follow"]));
    place.write("a.jsonl", events(0..100));
    wait_until("a new file was read", || handled(&place) == 100);
    place.append("a.jsonl", &(events(100..150) + "{\"user_id\":\"U1\""));
    wait_until("appended lines were read", || handled(&place) == 150);
    place.append("a.jsonl", "}\n");
    wait_until("the line was read when it was complete", || handled(&place) == 151);
    place.write("0-sorts-before.jsonl", events(150..200));
    wait_until("a second file was read", || handled(&place) == 201);
    follow.terminate().ok();
    let outputs = folder::files(&place.path("output"));
    command::finish(&mut place.run(&rule, &[])).ok();
    assert_eq!(folder::files(&place.path("output")), outputs, "everything was delivered before the run ended");
    assert_eq!((handled(&place), place.dead_letters()), (201, vec![]));
}

#[test]
fn a_timeout_in_processing_time_fires_without_a_new_event() {
    let place = Place::new();
    place.write("a.jsonl", "{\"device_id\":\"D1\",\"type\":\"heartbeat\",\"seq\":1}\n");
    let settings =
        ["interval_ms=1000", "late_ms=1500", "offline_ms=3000"].map(|setting| ["--parameter", setting]).concat();
    let settings = [&["--follow"], &settings[..]].concat();
    let follow = Process::start(&mut place.run(&command::example("device-lifecycle"), &settings));
    wait_until("the device was reported", || folder::lines(&place.path("output")).len() == 1);
    follow.terminate().ok();
    let report: Value = serde_json::from_str(&folder::lines(&place.path("output"))[0]).expect("outputs are JSON");
    assert_eq!((report["kind"].as_str(), report["device_id"].as_str()), (Some("device.offline"), Some("D1")));
    let silence_ms = report["at_ms"].as_i64().zip(report["since_ms"].as_i64()).map(|(at, since)| at - since);
    assert_eq!(silence_ms, Some(3000));
    assert_eq!(place.states()["D1"]["stage"].as_str().map(str::to_lowercase).as_deref(), Some("offline"));
}
