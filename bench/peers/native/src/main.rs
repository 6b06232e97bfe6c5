//! The limit: card sessions as a program for this one job, in memory, with nothing durable and no sandbox.
//!
//!     card-sessions-native INPUT OUTPUT THREADS
//!
//! Reads the files of INPUT in the order of their names; each thread writes its rows to a file in OUTPUT/rows. With several threads
//! each reads all lines, finds the user by a search for the field's name, and parses only the lines of its own users: that is
//! faster than to hand lines from thread to thread.

mod sessions;

use sessions::{Payment, Sessions};
use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let started = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, threads] = arguments.as_slice() else {
        return Err("usage: card-sessions-native INPUT OUTPUT THREADS".into());
    };
    let files = files(Path::new(input))?;
    let rows = Path::new(output).join("rows");
    fs::create_dir_all(&rows)?;
    let threads: u64 = threads.parse()?;
    thread::scope(|scope| {
        let work = |thread| {
            let (files, rows) = (&files, &rows);
            scope.spawn(move || work(files, rows, Share { thread, threads }))
        };
        let workers: Vec<_> = (0..threads).map(work).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread has panicked")?)
    })?;
    println!("measured: {{\"seconds_processing\": {:.4}}}", started.elapsed().as_secs_f64());
    Ok(())
}

fn files(input: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(input)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"events-") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// The users of one thread.
#[derive(Clone, Copy)]
struct Share {
    thread: u64,
    threads: u64,
}

impl Share {
    /// Whether the line's user belongs to this thread.
    fn has(self, line: &[u8]) -> Result<bool> {
        const NAME: &[u8] = b"\"user_id\":\"";
        if self.threads == 1 {
            return Ok(true);
        }
        let at = memchr::memmem::find(line, NAME).ok_or("a line without user_id")? + NAME.len();
        let len = memchr::memchr(b'"', &line[at..]).ok_or("a user_id without an end")?;
        // FNV-1a; its upper half, because the lowest bits depend on the lowest bits of the letters only.
        let hash = line[at..at + len]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Ok((hash >> 32) % self.threads == self.thread)
    }
}

fn work(files: &[PathBuf], rows: &Path, share: Share) -> Result<()> {
    const WRITTEN_AT_ONCE_BYTES: usize = 256 * 1024;
    let file = File::create(rows.join(format!("thread-{}.jsonl", share.thread)))?;
    let mut sessions = Sessions::new(BufWriter::with_capacity(WRITTEN_AT_ONCE_BYTES, file));
    for path in files {
        let text = fs::read(path)?;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &text) {
            let line = &text[start..end];
            start = end + 1;
            if share.has(line)? {
                sessions.pay(&serde_json::from_slice(line)?)?;
            } else if start == text.len() {
                // The last line of a file moves the time of every thread.
                sessions.advance(serde_json::from_slice::<Payment>(line)?.ts)?;
            }
        }
    }
    sessions.finish()
}
