//! Keying: rules that look for the same key and event time in a stream share what is found, and find what each alone would.

use super::scene::{Scene, append, batches};
use keyfold::event::{InputId, Position, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::r#gen::Random;
use keyfold::input::BatchInput;
use keyfold::source::{ReadLimit, Source};
use keyfold::stream::{NewEvent, StreamLog, StreamSettings, StreamSource};
use std::sync::Arc;

/// Another seed reads other parts.
const SEED: u64 = 20_261_131;
const PARTITIONS: u32 = 3;

/// What a rule looks for.
type Fields<'f> = (&'f [&'f str], Option<(&'f str, TimeFormat)>);

/// Of each event in turn: its key, its time, and its record. Then why others are none, with their line.
type Found = (Vec<(String, i64, u32)>, Vec<(u64, &'static str, String)>);

/// Events of which some have no key, some no time, and some a key that is written in another way.
fn event(number: u64) -> NewEvent {
    let json = match number % 10 {
        3 => format!(r#"{{"n":{number},"ts":{number}}}"#),
        5 => format!(r#"{{"k":"key-{}","n":{number}}}"#, number % 7),
        7 => format!(r#"{{"k":"\u006bey-{}","n":{number},"ts":"{number}"}}"#, number % 7),
        _ => format!(r#"{{"k":"key-{}","n":{number},"ts":{number}}}"#, number % 7),
    };
    NewEvent::new(json).expect("it is JSON")
}

/// A stream of blocks with one event and of blocks with many.
fn filled(scene: &Scene) -> Arc<StreamLog> {
    let log = scene.open();
    let mut next = 0;
    for request in 0..60 {
        let count = [1, 5, 40][request % 3];
        append(&log, (next..next + count).map(event).collect());
        next += count;
    }
    log
}

fn scene() -> Scene {
    // All events of a key that is missing in some cannot be spread by it.
    Scene::small(
        StreamSettings { partitions: PARTITIONS, key: Some("/n".to_owned()), ..StreamSettings::default() },
        20_000,
        400,
    )
}

fn reader(log: &Arc<StreamLog>, fields: Option<Fields<'_>>) -> StreamSource {
    let start = vec![Position::default(); log.partitions() as usize];
    let source = StreamSource::new(InputId(0), Arc::clone(log), start);
    let mut source = match fields {
        Some((key, time)) => {
            let time = time.map(|(pointer, format)| (pointer.to_owned(), format));
            source
                .keyed_by(&key.iter().map(|&part| part.to_owned()).collect::<Vec<_>>(), time.as_ref())
                .expect("pointers")
        }
        None => source,
    };
    source.seek(&Default::default()).unwrap_or_else(|error| panic!("{error:#}"));
    source
}

fn keyed(records: RecordBatch, (key, time): Fields<'_>) -> Found {
    let time = time.map(|(pointer, format)| (pointer.to_owned(), format));
    let extractor = Extractor::new(key.iter().map(|&part| part.to_owned()).collect(), time).expect("pointers");
    let input = BatchInput::new(records, [&extractor], 2);
    let extracted = &input.extracted;
    let key = |event| String::from_utf8(extracted.key_of(event).to_vec()).expect("it is UTF-8");
    let events: Vec<_> = extracted.events.iter().map(|event| (key(event), event.time_ms, event.record)).collect();
    let in_partitions: usize =
        [0, 1].map(|number| input.events_of(keyfold::event::PartitionId(number)).len()).iter().sum();
    assert_eq!(in_partitions, events.len());
    let rejected = extracted.rejected.iter().map(|rejected| {
        (rejected.line, rejected.reason, format!("{} {} {:?}", rejected.range, rejected.message, rejected.text))
    });
    (events, rejected.collect())
}

const ALL: [Fields<'static>; 4] =
    [(&["/k"], None), (&["/k"], Some(("/ts", TimeFormat::EpochMs))), (&["/n"], None), (&["/k", "/n"], None)];

#[test]
fn rules_find_in_shared_blocks_what_each_would_find_alone() {
    println!("seed {SEED}");
    let mut random = Random::new(SEED, 0);
    let scene = scene();
    let log = filled(&scene);
    for _ in 0..30 {
        let limit =
            ReadLimit { records_max: random.between(1, 90) as usize, bytes_max: random.between(100, 4000) as usize };
        for fields in ALL {
            let alone = batches(&mut reader(&log, None), limit);
            let shared = batches(&mut reader(&log, Some(fields)), limit);
            assert_eq!(alone.len(), shared.len());
            assert!(
                shared.iter().any(|batch| !batch.keyed.is_empty()) && alone.iter().all(|batch| batch.keyed.is_empty())
            );
            for (alone, shared) in alone.into_iter().zip(shared) {
                let mut again = RecordBatch::default();
                reader(&log, Some(fields))
                    .replay(&shared.ranges, &mut again)
                    .unwrap_or_else(|error| panic!("{error:#}"));
                let found = keyed(alone, fields);
                assert_eq!(keyed(again, fields), found);
                assert_eq!(keyed(shared, fields), found);
            }
        }
    }
}

#[test]
fn each_block_is_keyed_once_for_each_key_however_many_rules_read_it() {
    const READERS: usize = 20;
    let scene = scene();
    let log = filled(&scene);
    let limit = ReadLimit { records_max: 50, bytes_max: 1 << 20 };
    let read = |fields| batches(&mut reader(&log, Some(fields)), limit);
    // Otherwise what the first rule has found could go with it.
    let _readers = ALL.map(|fields| reader(&log, Some(fields)));
    read(ALL[0]);
    let blocks = scene.limits.cache.blocks_keyed();
    assert!(blocks > 40, "{blocks} blocks are long enough to be shared");
    for _ in 0..READERS {
        ALL.into_iter().for_each(|fields| drop(read(fields)));
    }
    assert_eq!(scene.limits.cache.blocks_keyed(), ALL.len() as u64 * blocks);
}

#[test]
fn a_run_that_was_keyed_by_something_else_says_nothing() {
    let scene = scene();
    let log = filled(&scene);
    let limit = ReadLimit { records_max: 1000, bytes_max: 1 << 20 };
    let [alone, others] = [None, Some(ALL[2])].map(|fields| batches(&mut reader(&log, fields), limit).remove(0));
    assert!(!others.keyed.is_empty());
    assert_eq!(keyed(others, ALL[0]), keyed(alone, ALL[0]));
}
