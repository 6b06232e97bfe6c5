//! The state layer alone: batches of changed keys read and committed by the host's partition, by direct upserts into the same
//! table, and the time that the disk takes for a sync, in turns.
//!
//! `cargo build --release -p keyfold -p keyfold-bench && target/release/state_layer [KEYS] [FOLDER]`.

use anyhow::{Context, Result, ensure};
use keyfold::event::{BatchId, KeyGroup, PartitionId};
use keyfold::r#gen::Random;
use keyfold::generation::Mark;
use keyfold::state::delta::DeltaRow;
use keyfold::state::partition_db::Thresholds;
use keyfold::state::{Budget, Commit, DeltaBuilder, OutputBlock, PartitionDb, RowChanges, Shipped};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

const KEYS: u32 = 1_000_000;
const STATE_BYTES: usize = 256;
/// Keys of one batch while the stores are filled.
const FILL_KEYS: usize = 10_000;
/// Turns that each store has for each kind of batch.
const TURNS: usize = 3;
/// Batches of one turn.
const BATCHES: usize = 40;
const SYNCS: usize = 200;
/// Batches before those that are measured: so many commits fold every key group, and what filling left in memory is gone.
const WARM_UP: usize = 256;

/// Keeps states.
trait Store {
    fn name(&self) -> &'static str;
    /// Reads the states of these keys and commits new ones.
    fn batch(&mut self, keys: &[Vec<u8>], state: &[u8]) -> Result<()>;
}

/// The host's: a delta for each batch, folded into the table a slice at a time.
struct DeltaAndFold {
    name: &'static str,
    db: PartitionDb,
    batch: u64,
    loaded: Vec<u8>,
}

/// One row for each key, written at once.
struct DirectUpsert(Connection);

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let keys = args.next().map_or(Ok(KEYS), |keys| keys.parse()).context("the first argument is the number of keys")?;
    let within = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(within)?;
    let mut stores: Vec<Box<dyn Store>> = vec![
        Box::new(DeltaAndFold::open("delta and fold", &folder.path().join("fold"), 0)?),
        Box::new(DeltaAndFold::open("the same, 100 batches kept", &folder.path().join("history"), 100)?),
        Box::new(DirectUpsert::open(&folder.path().join("direct.db"))?),
    ];
    println!("load average {}", load()?);
    for store in &mut stores {
        let started = Instant::now();
        for first in (0..keys).step_by(FILL_KEYS) {
            let numbers = first..keys.min(first + FILL_KEYS as u32);
            store.batch(&numbers.map(key).collect::<Vec<_>>(), &[1; STATE_BYTES])?;
        }
        let seconds = started.elapsed().as_secs_f64();
        println!("{}: filled with {keys} keys, {:.0} keys/s", store.name(), f64::from(keys) / seconds);
    }
    let zipf = Zipf::new(keys);
    println!("\n{:<34}{:>12}{:>12}{:>12}{:>12}", "", "keys/s", "median ms", "p99 ms", "worst ms");
    for (kind, zipf) in [("uniform", None), ("Zipf", Some(&zipf))] {
        for size in [1_000, 10_000] {
            measure(&mut stores, &format!("{kind}, {size} keys"), size, keys, zipf, folder.path())?;
        }
    }
    println!("load average {}", load()?);
    Ok(())
}

fn measure(
    stores: &mut [Box<dyn Store>],
    kind: &str,
    size: usize,
    keys: u32,
    zipf: Option<&Zipf>,
    folder: &Path,
) -> Result<()> {
    let mut random = Random::new(size as u64, u64::from(zipf.is_some()));
    for _ in 0..WARM_UP * 1_000 / size {
        let batch = distinct(&mut random, size, keys, zipf);
        stores.iter_mut().try_for_each(|store| store.batch(&batch, &[0; STATE_BYTES]))?;
    }
    let mut times = vec![Vec::new(); stores.len()];
    let mut syncs = Vec::new();
    for turn in 0..TURNS {
        let batches: Vec<_> = (0..BATCHES).map(|_| distinct(&mut random, size, keys, zipf)).collect();
        // Another one begins each time, so that none always follows the same neighbour.
        for place in 0..stores.len() {
            let number = (place + turn) % stores.len();
            for (batch, keys) in batches.iter().enumerate() {
                let started = Instant::now();
                stores[number].batch(keys, &[batch as u8; STATE_BYTES])?;
                times[number].push(started.elapsed());
            }
        }
        sync_times(&folder.join("syncs"), &mut syncs)?;
    }
    println!("{kind}");
    for (store, times) in stores.iter().zip(times) {
        let seconds = times.iter().sum::<Duration>().as_secs_f64();
        print_row(store.name(), Some((size * TURNS * BATCHES) as f64 / seconds), times);
    }
    print_row("4 KiB appended, fdatasync", None, syncs);
    Ok(())
}

fn print_row(name: &str, rate: Option<f64>, mut times: Vec<Duration>) {
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1000.0;
    let (median, p99, worst) = (ms(times.len() / 2), ms(times.len() * 99 / 100), ms(times.len() - 1));
    let rate = rate.map_or_else(String::new, |rate| format!("{rate:.0}"));
    println!("  {name:<32}{rate:>12}{median:>12.2}{p99:>12.2}{worst:>12.2}");
}

impl DeltaAndFold {
    fn open(name: &'static str, folder: &Path, history: u64) -> Result<Self> {
        std::fs::create_dir(folder)?;
        let db = PartitionDb::open(folder, PartitionId(0), 1, history, &Budget::default())?;
        Ok(DeltaAndFold { name, db, batch: 0, loaded: Vec::new() })
    }
}

impl Store for DeltaAndFold {
    fn name(&self) -> &'static str {
        self.name
    }

    fn batch(&mut self, keys: &[Vec<u8>], state: &[u8]) -> Result<()> {
        let mut delta = DeltaBuilder::default();
        let mut rows_changed = RowChanges::default();
        self.loaded.clear();
        for key in keys {
            let before = self.db.load(xxh3_64(key), key, &mut self.loaded)?;
            rows_changed.replace(before.map(|row| row.mark), Some(Mark::of(Some(1))));
            delta.push(DeltaRow { key, state: Some((state, 1)), timeout: None });
        }
        self.db.commit(Commit {
            batch: BatchId(self.batch),
            delta,
            rows_changed,
            outputs: &OutputBlock::default(),
            dead_letters: &[],
            delivered: None,
            re_driven: &[],
            purges: &[],
            shipped: Shipped::NoCheckpoint,
            thresholds: Thresholds { processing_time: None, event_time: None },
        })?;
        self.batch += 1;
        Ok(())
    }
}

impl DirectUpsert {
    fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        // The settings and the table of the host's partitions.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA cache_size = -32768;
             PRAGMA wal_autocheckpoint = 4000;
             CREATE TABLE state (
                 key_group INTEGER NOT NULL CHECK (key_group BETWEEN 0 AND 1023),
                 key BLOB NOT NULL,
                 state BLOB,
                 schema INTEGER,
                 timeout_clock INTEGER CHECK (timeout_clock IN (1, 2)),
                 timeout_ms INTEGER,
                 checksum INTEGER NOT NULL,
                 PRIMARY KEY (key_group, key),
                 CHECK ((state IS NULL) = (schema IS NULL)),
                 CHECK ((timeout_clock IS NULL) = (timeout_ms IS NULL)),
                 CHECK (state IS NOT NULL OR timeout_clock IS NOT NULL)
             ) STRICT, WITHOUT ROWID;
             CREATE INDEX state_due ON state (timeout_clock, timeout_ms) WHERE timeout_clock IS NOT NULL;",
        )?;
        Ok(DirectUpsert(connection))
    }
}

impl Store for DirectUpsert {
    fn name(&self) -> &'static str {
        "direct upsert"
    }

    fn batch(&mut self, keys: &[Vec<u8>], state: &[u8]) -> Result<()> {
        let transaction = self.0.transaction()?;
        {
            let mut read = transaction.prepare_cached("SELECT state FROM state WHERE key_group = ?1 AND key = ?2")?;
            for key in keys {
                let found =
                    read.query_row(params![KeyGroup::of(key).0, key], |row| row.get::<_, Vec<u8>>(0)).optional()?;
                ensure!(found.is_none_or(|state| state.len() == STATE_BYTES), "a state is not what was written");
            }
            let mut write = transaction.prepare_cached(
                "INSERT OR REPLACE INTO state (key_group, key, state, schema, timeout_clock, timeout_ms, checksum)
                 VALUES (?1, ?2, ?3, 1, NULL, NULL, ?4)",
            )?;
            // In the order of the table, as a fold writes.
            let mut sorted: Vec<(u16, &Vec<u8>)> = keys.iter().map(|key| (KeyGroup::of(key).0, key)).collect();
            sorted.sort_unstable();
            for (group, key) in sorted {
                write.execute(params![group, key, state, xxh3_64(state) as i32])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Ranks by how often they come: rank n comes 1/n times as often as the first.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u32) -> Self {
        let mut sum = 0.0;
        Zipf(
            (1..=keys)
                .map(|rank| {
                    sum += 1.0 / f64::from(rank);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let all = self.0.last().copied().unwrap_or_default();
        let at = f64::from(random.between(0, u32::MAX - 1)) / f64::from(u32::MAX) * all;
        self.0.partition_point(|&sum| sum < at) as u32
    }
}

fn distinct(random: &mut Random, size: usize, keys: u32, zipf: Option<&Zipf>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut drawn = Vec::new();
    while drawn.len() < size {
        let number = match zipf {
            Some(zipf) => zipf.draw(random),
            None => random.between(0, keys - 1),
        };
        if seen.insert(number) {
            drawn.push(key(number));
        }
    }
    drawn
}

fn key(number: u32) -> Vec<u8> {
    format!("user-{number:07}").into_bytes()
}

fn sync_times(path: &Path, times: &mut Vec<Duration>) -> Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(())
}

fn load() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
