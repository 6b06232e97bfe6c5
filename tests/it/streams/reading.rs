//! Reading: from every position, in batches of any size, by many rules at once.

use super::scene::{ALL, Scene, append, batches, event, events, records, source};
use keyfold::event::{InputId, OffsetRange, Position, Positions, RecordBatch};
use keyfold::r#gen::Random;
use keyfold::source::{ReadLimit, ReadStatus, Source};
use keyfold::stream::{EventNumber, StreamLog, StreamSettings, StreamSource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Another seed reads other parts.
const SEED: u64 = 20_261_130;

fn spread(partitions: u32) -> StreamSettings {
    StreamSettings { partitions, key: Some("/k".to_owned()), ..StreamSettings::default() }
}

/// Many blocks in many segments.
fn filled(scene: &Scene) -> Arc<StreamLog> {
    let log = scene.open();
    let mut next = 0;
    for request in 0..60 {
        let count = [1, 5, 40][request % 3];
        append(&log, events(next..next + count));
        next += count;
    }
    log
}

fn of_partition(batch: &RecordBatch) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (text, _, file) in records(batch) {
        found.entry(file).or_default().push(text);
    }
    found
}

/// What comes next of each partition, from its position.
fn positions(ranges: &[OffsetRange], before: &mut Positions) {
    before.extend(ranges.iter().map(|range| ((range.input, range.file.clone()), range.to)));
}

#[test]
fn every_event_can_be_read_from_its_number_and_has_its_position() {
    let scene = Scene::small(spread(1), 3000, 200);
    let log = filled(&scene);
    let all = log.read(0, EventNumber(0), ALL).expect("it is whole");
    let again = scene.open();
    let mut offset = 0;
    for (number, stored) in (0..).zip(&all) {
        for log in [&log, &again] {
            let one =
                log.read(0, EventNumber(number), ReadLimit { records_max: 1, bytes_max: 0 }).expect("it is whole");
            assert_eq!(one, std::slice::from_ref(stored));
            assert_eq!(
                log.position_of(0, EventNumber(number)).expect("it is whole"),
                Position { offset, line: number }
            );
        }
        offset += stored.json.len() as u64 + 1;
    }
    let end = Position { offset, line: all.len() as u64 };
    assert_eq!((log.ends(), again.ends()), (vec![end], vec![end]));
    assert_eq!(log.position_of(0, EventNumber(1 << 40)).expect("it is whole"), end);
    assert!(log.read(0, EventNumber(end.line), ALL).expect("nothing is wrong").is_empty());
    assert!(log.read(1, EventNumber(0), ALL).is_err(), "there is one partition");
    assert!(scene.segments(0).len() > 5);
}

#[test]
fn batches_of_any_size_give_every_event_once_and_replay_gives_the_same_bytes() {
    println!("seed {SEED}");
    let mut random = Random::new(SEED, 0);
    for partitions in [1, 3] {
        let scene = Scene::small(spread(partitions), 3000, 200);
        let log = filled(&scene);
        let whole: BTreeMap<String, Vec<String>> = (0..partitions)
            .map(|number| (number.to_string(), super::scene::read(&log, number)))
            .filter(|(_, events)| !events.is_empty())
            .collect();
        let mut at = Positions::new();
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        loop {
            // Every batch is read by a new reader over a stream that was opened anew, which knows only the positions.
            let log = if random.below(2) == 0 { scene.open() } else { Arc::clone(&log) };
            let mut reader = source(&log);
            reader.seek(&at).unwrap_or_else(|error| panic!("{error:#}"));
            let limit =
                ReadLimit { records_max: random.between(1, 60) as usize, bytes_max: random.between(1, 4000) as usize };
            let mut batch = RecordBatch::default();
            let status = reader.read(limit, &mut batch).unwrap_or_else(|error| panic!("{error:#}"));
            let count = batch.records.len();
            assert!(count <= limit.records_max.max(partitions as usize), "{count} records, {limit:?}");
            assert!(batch.text.len() <= limit.bytes_max.max(200 * partitions as usize), "{limit:?}");
            let mut again = RecordBatch::default();
            source(&scene.open()).replay(&batch.ranges, &mut again).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!((records(&again), &again.ranges), (records(&batch), &batch.ranges));
            positions(&batch.ranges, &mut at);
            for (file, mut events) in of_partition(&batch) {
                found.entry(file).or_default().append(&mut events);
            }
            if status != ReadStatus::More {
                assert_eq!(status, ReadStatus::Caught);
                break;
            }
            assert!(count > 0, "a read with more to come moves on");
        }
        assert_eq!(found, whole);
    }
}

#[test]
fn records_have_the_number_of_their_event_as_their_line_and_ranges_touch() {
    let scene = Scene::small(spread(1), 3000, 200);
    let log = filled(&scene);
    let all = batches(&mut source(&log), ReadLimit { records_max: 7, bytes_max: 1 << 20 });
    let mut end = Position::default();
    let mut line = 0;
    for batch in &all {
        let [range] = &batch.ranges[..] else { panic!("{:?}", batch.ranges) };
        assert_eq!((range.from, range.file.as_str(), range.input), (end, "0", InputId(0)));
        for (_, found, _) in records(batch) {
            line += 1;
            assert_eq!(found, line);
        }
        assert_eq!(range.to.line, line);
        end = range.to;
    }
    assert_eq!(vec![end], log.ends());
}

#[test]
fn a_reader_waits_for_more_and_one_that_is_to_end_ends_where_it_was_told() {
    let scene = Scene::new(spread(1));
    let log = scene.open();
    let mut reader = source(&log);
    let mut batch = RecordBatch::default();
    assert_eq!(reader.read(ALL, &mut batch).expect("nothing is wrong"), ReadStatus::Caught);
    append(&log, events(0..3));
    let mut bounded = StreamSource::new(InputId(0), Arc::clone(&log), log.starts()).until(log.ends());
    append(&log, events(3..5));
    assert_eq!(reader.read(ALL, &mut batch).expect("nothing is wrong"), ReadStatus::Caught);
    assert_eq!(batch.records.len(), 5);
    let mut two = RecordBatch::default();
    let limit = ReadLimit { records_max: 2, ..ALL };
    assert_eq!(bounded.read(limit, &mut two).expect("nothing is wrong"), ReadStatus::More);
    assert_eq!(bounded.read(ALL, &mut two).expect("nothing is wrong"), ReadStatus::Ended);
    assert_eq!((two.records.len(), two.ranges.len()), (3, 1), "a batch that is read into again has one range");
    let [status] = &reader.status()[..] else { panic!() };
    assert_eq!(status.bytes.map(|(read, total)| total - read), Some(0));
}

#[test]
fn a_rule_begins_where_it_is_told_and_other_positions_are_refused() {
    let scene = Scene::new(spread(1));
    let log = scene.open();
    append(&log, events(0..10));
    let start = log.position_of(0, EventNumber(4)).expect("it is there");
    let mut reader = StreamSource::new(InputId(2), Arc::clone(&log), vec![start]);
    reader.seek(&Positions::new()).expect("it is there");
    let mut batch = RecordBatch::default();
    reader.read(ALL, &mut batch).expect("nothing is wrong");
    assert_eq!(batch.text_of(&batch.records[0]), event(4).json());
    assert_eq!(batch.ranges[0].input, InputId(2));
    let wrong = Position { offset: start.offset + 1, line: 4 };
    let mut reader = StreamSource::new(InputId(0), Arc::clone(&log), vec![wrong]).named("payments");
    reader.seek(&Positions::new()).expect("it is within the stream");
    let error = format!("{:#}", reader.read(ALL, &mut RecordBatch::default()).expect_err("no event begins there"));
    assert!(error.contains("stream[payments] has event 4") && error.contains("not the one"), "{error}");
    let error = format!("{:#}", StreamSource::new(InputId(0), log, Vec::new()).seek(&Positions::new()).unwrap_err());
    assert!(error.contains("has 1 partitions, the rule knows 0"), "{error}");
}

#[test]
fn many_rules_that_read_the_same_events_unpack_them_once() {
    const READERS: usize = 20;
    let mut scene = Scene::small(spread(1), 1 << 20, 4000);
    let log = scene.open();
    (0..40).for_each(|request| drop(append(&log, events(request * 100..(request + 1) * 100))));
    let blocks = (log.ends()[0].offset / 4000) as usize;
    drop(log);
    scene.limits.cache = Arc::default();
    let log = scene.open();
    let (_, before) = scene.limits.cache.hits_and_misses();
    let read = |_| {
        let found = batches(&mut source(&log), ReadLimit { records_max: 150, bytes_max: 1 << 20 });
        found.iter().map(|batch| batch.records.len()).sum::<usize>()
    };
    assert!((0..READERS).map(read).all(|count| count == 4000));
    let (hits, misses) = scene.limits.cache.hits_and_misses();
    println!("{READERS} readers of {blocks} blocks: {hits} found in the cache, {} read from the disk", misses - before);
    assert!(misses - before <= blocks as u64, "{misses} misses");
    assert!(hits >= ((READERS - 1) * blocks) as u64, "{hits} hits");
}
