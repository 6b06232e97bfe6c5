//! [`Imports`]: states that are put in from outside. They are files in the data folder, read and planned as events are, so that
//! a crash, a re-run and a restart do to them what they do to events: each has its effect exactly once.

use crate::description::StateFormat;
use crate::event::{InputId, OffsetRange, Positions, RecordBatch};
use crate::extract::imported_key;
use crate::group::{Timeout, TimeoutClock};
use crate::source::file::RECORD_BYTES_MAX;
use crate::source::{FileOptions, FileSource, ReadLimit, ReadStatus, Source};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The folder of imported states below a data folder.
const FOLDER: &str = "imports";
/// The first file: the state that a rule was started with. Its name sorts before all others.
const INITIAL: &str = "000000-initial.jsonl";
/// How the name of a file ends whose rows are put as they are, without a call of the rule.
const AS_IS: &str = "-as-is.jsonl";

/// The imported states of a data folder, as a source.
pub struct Imports {
    folder: PathBuf,
    /// None before the first import.
    files: Option<FileSource>,
    positions: Positions,
}

/// One imported row: the state of a key.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportRow {
    /// The key.
    pub key: Vec<u8>,
    /// The state, as JSON text; none when the row has only a timeout.
    pub value: Option<String>,
    /// The number of the state's schema; none for the one that the rule writes.
    pub schema: Option<u32>,
    /// When the key wants to be called.
    pub timeout: Option<Timeout>,
}

/// A row as it is written. What `keyfold state ls` prints can be imported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    schema: Option<u32>,
    timeout: Option<WrittenTimeout>,
    #[serde(rename = "partition_id")]
    _partition_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WrittenTimeout {
    clock: TimeoutClock,
    ms: crate::event::Millis,
}

impl Imports {
    /// The imported states of a data folder.
    pub fn new(data_folder: &Path) -> Self {
        Imports { folder: data_folder.join(FOLDER), files: None, positions: Positions::new() }
    }

    /// Continues after these positions.
    pub fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.positions = positions.clone();
        self.files = None;
        Ok(())
    }

    /// Adds imported rows to a batch: [`ReadStatus::More`] when there are further ones.
    pub fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        match self.files()? {
            Some(files) => files.read(limit, batch),
            None => Ok(ReadStatus::Caught),
        }
    }

    /// Reads ranges again.
    pub fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        match self.files()? {
            Some(files) => files.replay(ranges, batch),
            None => bail!("the imported states in {} are gone", self.folder.display()),
        }
    }

    fn files(&mut self) -> Result<Option<&mut FileSource>> {
        if self.files.is_none() && self.folder.is_dir() {
            // Followed, so that states can be imported while the rule runs.
            let options = FileOptions {
                input: InputId::IMPORTS,
                follow: true,
                record_bytes_max: RECORD_BYTES_MAX,
                ..FileOptions::default()
            };
            let mut files = FileSource::within(self.folder.clone(), vec![String::new()], options)?;
            files.seek(&self.positions)?;
            self.files = Some(files);
        }
        Ok(self.files.as_mut())
    }
}

/// Whether the rows of this file are put as they are, without a call of the rule.
pub fn is_as_is(file: &str) -> bool {
    file.ends_with(AS_IS)
}

/// Gives a new data folder the state to begin with. A folder that has it already is left alone: as in Spark, a restart does not
/// apply it again. `has_batches`: the folder is not new.
pub fn add_initial(data_folder: &Path, path: &Path, has_batches: bool) -> Result<()> {
    let place = data_folder.join(FOLDER).join(INITIAL);
    if place.exists() {
        let same = fs::read(&place)? == fs::read(path).with_context(|| cannot_read(path))?;
        ensure!(
            same,
            "the data folder {} was started with another initial state than {}: import more with `keyfold state import`",
            data_folder.display(),
            path.display()
        );
        return Ok(());
    }
    ensure!(
        !has_batches,
        "the data folder {} has run already, and an initial state is for its first batch: use `keyfold state import`",
        data_folder.display()
    );
    copy(path, &place).map(|_| ())
}

/// Adds states to a data folder, which the rule's next batch takes. Returns how many.
pub fn add(data_folder: &Path, path: &Path, as_is: bool) -> Result<u64> {
    let folder = data_folder.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let mut last = 0;
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.split_once('-')).and_then(|(number, _)| number.parse().ok());
        last = last.max(number.unwrap_or(0));
    }
    let kind = if as_is { AS_IS } else { "-import.jsonl" };
    copy(path, &folder.join(format!("{:06}{kind}", last + 1)))
}

/// Checks every row, and copies them to a file that appears whole.
fn copy(path: &Path, to: &Path) -> Result<u64> {
    ensure!(
        path != Path::new("-") && !path.is_dir(),
        "{}: states are imported from a file, not from a stream or a folder",
        path.display()
    );
    let folder = to.parent().context("an imported file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let mut input = BufReader::new(File::open(path).with_context(|| cannot_read(path))?);
    let mut output = BufWriter::new(tempfile::Builder::new().prefix(".").tempfile_in(folder)?);
    let mut lines: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if input.read_line(&mut text).with_context(|| cannot_read(path))? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        let place = || format!("{} line {line}", path.display());
        let row = ImportRow::parse(text.trim()).map_err(anyhow::Error::msg).with_context(place)?;
        match lines.entry(row.key) {
            Entry::Vacant(entry) => entry.insert(line),
            Entry::Occupied(entry) => bail!(
                "{} lines {} and {line} both have the key {}: a key has one state",
                path.display(),
                entry.get(),
                String::from_utf8_lossy(entry.key())
            ),
        };
        writeln!(output, "{}", text.trim())?;
    }
    let file = output.into_inner().map_err(|error| error.into_error())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(to).with_context(|| format!("failed to write {}", to.display()))?;
    File::open(folder)?.sync_all()?;
    Ok(lines.len() as u64)
}

fn cannot_read(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

impl ImportRow {
    /// Reads a line. An error is a sentence without the place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let row: WrittenRow<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let value = row.value.map(|value| value.get().to_owned()).filter(|text| text != "null");
        if value.is_none() && row.timeout.is_none() {
            return Err("the row has neither a value nor a timeout".to_owned());
        }
        if row.schema == Some(0) {
            return Err("the schema is 0: schema numbers begin at 1".to_owned());
        }
        let timeout = row.timeout.map(|timeout| Timeout { clock: timeout.clock, at: timeout.ms });
        Ok(ImportRow { key: imported_key(row.key)?, value, schema: row.schema, timeout })
    }

    /// The state's bytes in the format of the rule's states. An error is a sentence.
    pub fn state(&self, format: StateFormat) -> Result<Option<Vec<u8>>, String> {
        let Some(text) = &self.value else { return Ok(None) };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(digits) = hexadecimal(&value) {
            return digits.map(Some);
        }
        match format {
            StateFormat::Json => Ok(Some(text.clone().into_bytes())),
            StateFormat::Msgpack => rmp_serde::to_vec_named(&value).map(Some).map_err(|error| error.to_string()),
            StateFormat::Opaque => {
                Err("only the rule understands its states: give the value as {\"hex\": \"…\"}".into())
            }
        }
    }
}

/// The bytes of a state that is shown in hexadecimal, because only the rule can read it.
fn hexadecimal(value: &serde_json::Value) -> Option<Result<Vec<u8>, String>> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let digits = object.get("hex")?.as_str()?.as_bytes();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok()).ok_or_else(|| "hex has a digit that is none".to_owned())
    };
    Some(digits.chunks(2).map(byte).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("states.jsonl");
        fs::write(&path, lines).expect("the folder is ours");
        (folder, path)
    }

    #[test]
    fn keys_are_those_that_events_would_have() {
        for (key, expected) in [
            (r#""u1""#, "u1"),
            ("7", "7"),
            (r#"["acme",42]"#, r#"["acme",42]"#),
            (r#""[\"acme\",42]""#, r#"["acme",42]"#),
            ("true", "true"),
        ] {
            let row = ImportRow::parse(&format!("{{\"key\":{key},\"value\":1}}")).expect("the row is right");
            assert_eq!(String::from_utf8_lossy(&row.key), expected);
        }
    }

    #[test]
    fn what_cannot_be_a_row_is_refused_with_its_line() {
        for (line, part) in [
            ("{\"key\":null,\"value\":1}", "null"),
            ("{\"key\":\"b\"}", "neither"),
            ("{\"key\":\"b\",\"valeu\":1}", "valeu"),
            ("{\"key\":\"b\",\"value\":1,\"schema\":0}", "schema"),
            ("nonsense", "expected"),
            ("{\"key\":\"a\",\"value\":2}", "lines 1 and 2 both have the key a"),
        ] {
            let (folder, path) = file(&format!("{{\"key\":\"a\",\"value\":1}}\n{line}\n"));
            let error = add(folder.path(), &path, false).expect_err(line);
            let text = format!("{error:#}");
            assert!(text.contains(part) && text.contains("2"), "{text}");
            let left = fs::read_dir(folder.path().join(FOLDER)).expect("it was made").count();
            assert_eq!(left, 0, "a refused file leaves nothing behind");
        }
    }

    #[test]
    fn an_initial_state_is_applied_once() {
        let (folder, path) = file("{\"key\":\"a\",\"value\":1}\n");
        add_initial(folder.path(), &path, false).expect("the folder is new");
        add_initial(folder.path(), &path, true).expect("it is the same file");
        fs::write(&path, "{\"key\":\"a\",\"value\":2}\n").expect("the folder is ours");
        assert!(add_initial(folder.path(), &path, true).is_err(), "another file");
        let (other, path) = file("{\"key\":\"a\",\"value\":1}\n");
        assert!(add_initial(other.path(), &path, true).is_err(), "a folder that has run without");
    }

    #[test]
    fn states_are_encoded_as_the_rule_writes_them() {
        let row = ImportRow::parse(r#"{"key":"a","value":{"n":1}}"#).expect("the row is right");
        assert_eq!(row.state(StateFormat::Json), Ok(Some(br#"{"n":1}"#.to_vec())));
        assert_eq!(row.state(StateFormat::Msgpack), Ok(Some(vec![0x81, 0xa1, b'n', 1])));
        assert!(row.state(StateFormat::Opaque).is_err());
        let row = ImportRow::parse(r#"{"key":"a","value":{"hex":"00ff"}}"#).expect("the row is right");
        assert_eq!(row.state(StateFormat::Opaque), Ok(Some(vec![0, 255])));
    }
}
