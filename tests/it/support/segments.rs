//! What is claimed of the files of streams, for bytes that the fuzzer or a test has made up.

use keyfold::clock::Clock;
use keyfold::event::{InputId, Millis, RecordBatch};
use keyfold::source::{ReadLimit, Source};
use keyfold::stream::{AppendRequest, EventNumber, NewEvent, StreamLimits, StreamLog, StreamSettings, StreamSource};
use std::path::Path;
use std::sync::{Arc, OnceLock};

const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
const EVENTS: u64 = 40;

/// Whatever is in a stream's file: no panic, and what can be read is what was written. The first byte says whether the rest is the file,
/// or changes of one: places and bytes.
pub fn check(bytes: &[u8], folder: &Path) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let mut file = segment().clone();
    if first % 8 == 0 {
        file = rest.to_vec();
    } else {
        for change in rest.chunks_exact(4) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
            match (change[3] % 4, file.get_mut(at)) {
                (0, Some(_)) => file.truncate(at),
                (1, Some(_)) => drop(file.splice(at..at, [change[2]])),
                (_, Some(byte)) => *byte = change[2],
                (_, None) => file.push(change[2]),
            }
        }
    }
    let place = folder.join("0/00000000000000000000.seg");
    std::fs::create_dir_all(folder.join("0")).expect("a folder can be made");
    std::fs::write(&place, &file).expect("there is space");
    let Ok(log) = open(folder) else { return };
    let whole = whole();
    let stored = log.read(0, EventNumber(0), ALL).unwrap_or_default();
    assert!(stored.iter().zip(&whole).all(|(found, expected)| found.json == expected.json()), "something else is read");
    assert!(stored.len() <= whole.len());
    let mut source = StreamSource::new(InputId(0), Arc::clone(&log), log.starts());
    let mut batch = RecordBatch::default();
    let _ = source.seek(&Default::default()).and_then(|()| source.read(ALL, &mut batch).map(drop));
    let end = log.ends()[0].line;
    append(&log, vec![whole[0].clone()]);
    drop(log);
    assert_eq!(open(folder).expect("it was opened before").ends()[0].line, end + 1);
    std::fs::remove_dir_all(folder.join("0")).expect("it was just made");
}

fn whole() -> Vec<NewEvent> {
    (0..EVENTS).map(|number| NewEvent::new(format!("{{\"n\":{number}}}")).expect("it is JSON")).collect()
}

fn open(folder: &Path) -> anyhow::Result<Arc<StreamLog>> {
    let limits = StreamLimits { block_bytes: 60, ..StreamLimits::default() };
    StreamLog::open(folder, StreamSettings::default(), Clock::manual(Millis(1)), limits).map(Arc::new)
}

fn append(log: &StreamLog, events: Vec<NewEvent>) {
    let request = AppendRequest { events, ..AppendRequest::default() };
    log.append(request).unwrap_or_else(|error| panic!("{error}"));
}

/// The file of a stream with several commits of several blocks.
fn segment() -> &'static Vec<u8> {
    static SEGMENT: OnceLock<Vec<u8>> = OnceLock::new();
    SEGMENT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let log = open(folder.path()).expect("it is new");
        whole().chunks(15).for_each(|events| append(&log, events.to_vec()));
        std::fs::read(folder.path().join("0/00000000000000000000.seg")).expect("it was just written")
    })
}
