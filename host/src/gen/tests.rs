//! What every scenario promises.

use super::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

const ALL: [ScenarioName; 4] =
    [ScenarioName::CardSessions, ScenarioName::Fraud, ScenarioName::Devices, ScenarioName::Funnel];

fn settings(scenario: ScenarioName) -> Settings {
    Settings {
        scenario,
        events: 20_000,
        keys: 1_000,
        span_ms: 12 * 3_600_000,
        zipf: Exponent::tenths(10),
        seed: 1,
        start: Millis(1_700_000_000_000),
        high_share: Share::percent(10),
        fraud_share: Share::percent(5),
        disorder: DisorderSettings::default(),
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn text_and_labels(settings: &Settings) -> (String, Vec<Label>) {
    let sink = Sink::default();
    let mut output = Output::stream(sink.clone());
    let labels = generate(settings, &mut output, |_| {}).unwrap();
    output.finish().unwrap();
    (String::from_utf8(sink.0.lock().unwrap().clone()).unwrap(), labels)
}

fn events(settings: &Settings) -> Vec<Value> {
    text_and_labels(settings).0.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn time_ms(event: &Value) -> i64 {
    event["ts"].as_i64().unwrap()
}

#[test]
fn events_are_json_in_time_order_and_as_many_as_asked_for() {
    for scenario in ALL {
        let events = events(&settings(scenario));
        let last = usize::from(scenario == ScenarioName::CardSessions);
        assert_eq!(events.len(), 20_000 + last, "{scenario:?}");
        assert!(events.is_sorted_by_key(time_ms), "{scenario:?}");
        assert!(time_ms(&events[0]) >= 1_700_000_000_000, "{scenario:?}");
    }
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_gives_others() {
    for scenario in ALL {
        let one = text_and_labels(&settings(scenario)).0;
        assert_eq!(one, text_and_labels(&settings(scenario)).0, "{scenario:?}");
        assert_ne!(one, text_and_labels(&Settings { seed: 2, ..settings(scenario) }).0, "{scenario:?}");
    }
}

/// They may change only on purpose, with a line in the changelog: recorded results refer to what a seed gives.
#[test]
fn a_seed_gives_these_bytes_for_ever() {
    let hashes = ALL.map(|scenario| {
        let text = text_and_labels(&settings(scenario)).0;
        format!("{scenario:?} {:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    });
    let expected = [
        "CardSessions f159758af1e6e767",
        "Fraud 99361e999108a2c7",
        "Devices df10a13976a321c0",
        "Funnel 3b4dadbcb23473bc",
    ];
    assert_eq!(hashes, expected);
}

#[test]
fn disorder_moves_events_and_changes_none() {
    let ordered = settings(ScenarioName::Fraud);
    let disorder = DisorderSettings {
        out_of_order: Share::percent(20),
        displaced_ms_max: 30_000,
        late: Share::percent(1),
        duplicates: Share::percent(2),
    };
    let disordered = Settings { disorder, ..ordered };
    let (ordered, disordered) = (text_and_labels(&ordered).0, text_and_labels(&disordered).0);
    let lines = disordered.lines().count();
    assert!((20_300..20_500).contains(&lines), "{lines}");
    assert_ne!(ordered, disordered);
    assert_eq!(ordered.lines().collect::<BTreeSet<_>>(), disordered.lines().collect::<BTreeSet<_>>());
}

#[test]
fn card_sessions_end_a_day_later_with_a_user_of_their_own() {
    let events = events(&settings(ScenarioName::CardSessions));
    let last = events.last().unwrap();
    assert_eq!(last["user_id"], "zzz-end");
    assert_eq!(time_ms(last), 1_700_000_000_000 + 36 * 3_600_000);
    let high = events.iter().filter(|event| event["amount_minor"].as_u64().unwrap() >= 50_000).count();
    assert!((1_900..2_100).contains(&high), "{high}");
}

#[test]
fn labels_say_what_the_events_show() {
    let settings = settings(ScenarioName::Fraud);
    let (text, labels) = text_and_labels(&settings);
    let mut by_user: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        by_user.entry(event["user_id"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    assert!((100..=125).contains(&labels.len()), "{} labels", labels.len());
    let victims: BTreeSet<&str> = labels.iter().map(|label| label.user_id.as_str()).collect();
    assert_eq!(victims.len(), labels.len(), "a user has two episodes");
    for label in &labels {
        let within = |event: &&Value| (label.start.0..=label.end.0).contains(&time_ms(event));
        let payments: Vec<&Value> = by_user[&label.user_id].iter().filter(within).collect();
        let high = payments.iter().filter(|event| event["amount_minor"].as_u64().unwrap() >= 50_000).count();
        assert!(high >= 6, "{label:?} has {high} high payments");
        let countries: BTreeSet<&str> = payments.iter().map(|event| event["country"].as_str().unwrap()).collect();
        assert_eq!(countries.len() > 1, label.kind == Kind::Abroad, "{label:?}: {countries:?}");
        let long_gap = label.end.0 - label.start.0 > 75 * 60_000;
        assert_eq!(long_gap, label.kind == Kind::Slow, "{label:?}");
    }
    for kind in [Kind::Burst, Kind::Abroad, Kind::Slow, Kind::Cleared] {
        assert!(labels.iter().any(|label| label.kind == kind), "no episode is {kind:?}");
    }
}

#[test]
fn too_much_fraud_is_refused_by_its_number() {
    let settings = Settings { keys: 10, ..settings(ScenarioName::Fraud) };
    let error = generate(&settings, &mut Output::stream(Sink::default()), |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("this share of fraud makes 125 episodes, and there are only 10 users"), "{error}");
}

#[test]
fn devices_do_all_that_devices_do() {
    let settings = Settings { events: 200_000, keys: 300, ..settings(ScenarioName::Devices) };
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    let mut last_ms: BTreeMap<String, i64> = BTreeMap::new();
    let mut silences = 0;
    for event in events(&settings) {
        *kinds.entry(event["type"].as_str().unwrap().to_owned()).or_default() += 1;
        let before = last_ms.insert(event["device_id"].as_str().unwrap().to_owned(), time_ms(&event));
        silences += u32::from(before.is_some_and(|before| time_ms(&event) - before > 330_000));
    }
    let expected = ["decommissioned", "heartbeat", "maintenance.end", "maintenance.start", "provisioned", "reboot"];
    assert_eq!(kinds.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(silences > 300, "{silences}");
}

#[test]
fn funnels_narrow_and_orders_cost_what_the_cart_held() {
    let events = events(&Settings { zipf: Exponent::tenths(0), keys: 1_000_000, ..settings(ScenarioName::Funnel) });
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    let mut carts: BTreeMap<&str, i64> = BTreeMap::new();
    for event in &events {
        let kind = event["type"].as_str().unwrap();
        *kinds.entry(kind).or_default() += 1;
        let cart = carts.entry(event["user_id"].as_str().unwrap()).or_default();
        match kind {
            "cart.add" => *cart += event["value_minor"].as_i64().unwrap(),
            "cart.remove" => *cart -= event["value_minor"].as_i64().unwrap(),
            // A user who left a cart behind and came again would differ; with so many users few do.
            "payment.ok" => *cart -= event["value_minor"].as_i64().unwrap(),
            _ => {}
        }
        assert!(*cart >= 0);
    }
    assert_eq!(kinds.len(), 6);
    assert!(kinds["page.view"] > kinds["cart.add"] && kinds["cart.add"] > kinds["checkout.start"]);
    assert!(kinds["checkout.start"] > kinds["payment.ok"] && kinds["payment.ok"] > 300, "{kinds:?}");
}

#[test]
fn files_are_cut_by_events_and_compressed_by_their_ending() {
    let folder = tempfile::tempdir().unwrap();
    let whole = text_and_labels(&settings(ScenarioName::Funnel)).0;
    for (compression, ending) in [(None, ""), (Some(Compression::Gzip), ".gz"), (Some(Compression::Zstd), ".zst")] {
        let path = folder.path().join(format!("out{ending}"));
        let mut output = Output::folder(&path, 3, compression).unwrap();
        generate(&settings(ScenarioName::Funnel), &mut output, |_| {}).unwrap();
        assert_eq!(output.finish().unwrap(), whole.len() as u64);
        let mut names: Vec<String> =
            std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [0, 1, 2].map(|number| format!("events-00{number}.jsonl{ending}")));
        let texts: Vec<String> = names.iter().map(|name| read(&path.join(name), compression)).collect();
        assert_eq!(texts.iter().map(|text| text.lines().count()).collect::<Vec<_>>(), [6_666, 6_667, 6_667]);
        assert_eq!(texts.concat(), whole);
        let error = Output::folder(&path, 3, compression).err().unwrap().to_string();
        assert!(error.contains("already holds events-00"), "{error}");
    }
}

fn read(path: &std::path::Path, compression: Option<Compression>) -> String {
    let file = std::fs::File::open(path).unwrap();
    match compression {
        None => io::read_to_string(file),
        Some(Compression::Gzip) => io::read_to_string(flate2::read::GzDecoder::new(file)),
        Some(Compression::Zstd) => io::read_to_string(zstd::Decoder::new(file).unwrap()),
    }
    .unwrap()
}
