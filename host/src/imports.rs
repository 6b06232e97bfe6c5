//! [`Imports`]: states that are put in from outside. They are files in the data folder, read and planned as events are, so that
//! a crash, a re-run and a restart do to them what they do to events: each has its effect exactly once.

use crate::description::StateFormat;
use crate::event::{InputId, OffsetRange, Positions, RecordBatch};
use crate::extract::imported_key;
use crate::fault;
use crate::group::{Timeout, TimeoutClock};
use crate::source::file::RECORD_BYTES_MAX;
use crate::source::{FileOptions, FileSource, ReadLimit, ReadStatus, Source};
use crate::state::PlanLog;
use crate::synced;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

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
    /// The state; none when the row has only a timeout.
    pub value: Option<ImportValue>,
    /// The number of the state's schema; none for the one that the rule writes.
    pub schema: Option<u32>,
    /// When the key wants to be called.
    pub timeout: Option<Timeout>,
}

/// An imported state.
#[derive(Debug, PartialEq, Eq)]
pub enum ImportValue {
    /// As JSON text, to be encoded as the rule does.
    Json(String),
    /// The bytes, when only the rule understands them.
    Bytes(Vec<u8>),
}

/// A row as it is written. What `keyfold state ls` prints can be imported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    value_hex: Option<String>,
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
pub fn add_initial(data_folder: &Path, path: &Path, format: StateFormat, has_batches: bool) -> Result<()> {
    let place = data_folder.join(FOLDER).join(INITIAL);
    let was_applied = has_batches && PlanLog::imported_files(data_folder)?.iter().any(|file| file == INITIAL);
    if was_applied {
        // Neither the file nor our copy has to be kept.
        let same = !path.exists() || !place.exists() || texts(&place)?.eq(texts(path)?);
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
    // One that was copied and not applied may have been mended since.
    if place.exists() {
        fs::remove_file(&place).with_context(|| format!("failed to replace {}", place.display()))?;
    }
    copy(path, &place, format).map(|_| ())
}

/// Adds states to a data folder, which the rule's next batch takes. Returns how many.
pub fn add(data_folder: &Path, path: &Path, as_is: bool) -> Result<u64> {
    let format = PlanLog::description(data_folder)?.map_or(StateFormat::Opaque, |rule| rule.state_format);
    let folder = data_folder.join(FOLDER);
    // Positions are kept by name, also of files that somebody has deleted.
    let mut names = PlanLog::imported_files(data_folder)?;
    if folder.is_dir() {
        for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
    }
    let number = |name: &String| name.split_once('-').and_then(|(number, _)| number.parse::<u32>().ok());
    let last = names.iter().filter_map(number).max().unwrap_or(0);
    let kind = if as_is { AS_IS } else { "-import.jsonl" };
    copy(path, &folder.join(format!("{:06}{kind}", last + 1)), format)
}

/// Checks every row, and copies them to a file that appears whole.
fn copy(path: &Path, to: &Path, format: StateFormat) -> Result<u64> {
    ensure!(
        path != Path::new("-") && !path.is_dir(),
        "{}: states are imported from a file, not from a stream or a folder",
        path.display()
    );
    let folder = to.parent().context("an imported file lies in a folder")?;
    let data_folder = folder.parent().context("the folder of imports lies in a data folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    // As other files are made: the host may be another user.
    let permissions = fs::Permissions::from_mode(0o666);
    let unfinished = tempfile::Builder::new().prefix(".").permissions(permissions).tempfile_in(folder)?;
    let mut output = BufWriter::new(unfinished);
    // By their hash: keys themselves would take far more memory.
    let mut lines: HashMap<u128, u64> = HashMap::new();
    for row in Rows::open(path)? {
        let (line, text) = row?;
        let place = || format!("{} line {line}", path.display());
        let row = ImportRow::parse(&text).and_then(|row| row.state(format).map(|_| row));
        let row = row.map_err(anyhow::Error::msg).with_context(place)?;
        if let Some(first) = lines.insert(xxh3_128(&row.key), line) {
            bail!(
                "{} lines {first} and {line} both have the key {}: a key has one state",
                path.display(),
                String::from_utf8_lossy(&row.key)
            );
        }
        writeln!(output, "{text}")?;
    }
    let file = output.into_inner().map_err(|error| error.into_error())?;
    synced::file(file.as_file(), file.path());
    fault::point("import-written");
    file.persist_noclobber(to).with_context(|| format!("failed to write {}", to.display()))?;
    fault::point("import-placed");
    for folder in [folder, data_folder] {
        synced::folder(folder)?;
    }
    Ok(lines.len() as u64)
}

/// The rows of a file without their line numbers.
fn texts(path: &Path) -> Result<impl Iterator<Item = Option<String>>> {
    Ok(Rows::open(path)?.map(|row| row.ok().map(|(_, text)| text)))
}

fn cannot_read(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

/// The rows of a file of states, without blank lines, each with its line number from 1.
struct Rows {
    path: PathBuf,
    input: BufReader<File>,
    line: u64,
}

impl Rows {
    fn open(path: &Path) -> Result<Self> {
        let input = BufReader::new(File::open(path).with_context(|| cannot_read(path))?);
        Ok(Rows { path: path.to_owned(), input, line: 0 })
    }

    fn read(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        // One byte more than may be, so that a line that is too long is seen without being held.
        let limit = RECORD_BYTES_MAX as u64 + 1;
        (&mut self.input).take(limit).read_until(b'\n', &mut bytes).with_context(|| cannot_read(&self.path))?;
        self.line += 1;
        let place = || format!("{} line {}", self.path.display(), self.line);
        ensure!((bytes.len() as u64) < limit, "{} has more than {RECORD_BYTES_MAX} bytes", place());
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8(bytes).with_context(|| format!("{} is not valid UTF-8", place()))?;
        // Some programs put a mark before UTF-8 text.
        Ok(Some(text.trim_start_matches('\u{feff}').trim().to_owned()))
    }
}

impl Iterator for Rows {
    type Item = Result<(u64, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(text) if text.is_empty() => {}
                read => return Some(read.map(|text| (self.line, text))),
            }
        }
    }
}

impl ImportRow {
    /// Reads a line. An error is a sentence without the place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let row: WrittenRow<'_> = serde_json::from_str(text).map_err(|error| without_line(&error))?;
        let value = match (row.value.filter(|value| value.get() != "null"), row.value_hex) {
            (Some(_), Some(_)) => return Err("the row has both value and value_hex".to_owned()),
            (Some(value), None) => Some(ImportValue::Json(value.get().to_owned())),
            (None, Some(digits)) => Some(ImportValue::Bytes(bytes_of(&digits)?)),
            (None, None) if row.timeout.is_none() => {
                return Err("the row has neither a value nor a timeout".to_owned());
            }
            (None, None) => None,
        };
        if row.schema == Some(0) {
            return Err("the schema is 0: schema numbers begin at 1".to_owned());
        }
        let timeout = row.timeout.map(|timeout| Timeout { clock: timeout.clock, at: timeout.ms });
        Ok(ImportRow { key: imported_key(row.key)?, value, schema: row.schema, timeout })
    }

    /// The state's bytes in the format of the rule's states. An error is a sentence.
    pub fn state(&self, format: StateFormat) -> Result<Option<Vec<u8>>, String> {
        let text = match &self.value {
            None => return Ok(None),
            Some(ImportValue::Bytes(bytes)) => return Ok(Some(bytes.clone())),
            Some(ImportValue::Json(text)) => text,
        };
        match format {
            StateFormat::Json => Ok(Some(text.clone().into_bytes())),
            StateFormat::Msgpack => {
                let value: serde_json::Value = serde_json::from_str(text).map_err(|error| without_line(&error))?;
                rmp_serde::to_vec_named(&value).map(Some).map_err(|error| error.to_string())
            }
            StateFormat::Opaque => {
                Err("only the rule understands its states: give their bytes as value_hex".to_owned())
            }
        }
    }
}

/// A row is one line, and its place in the file is said already.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

fn bytes_of(digits: &str) -> Result<Vec<u8>, String> {
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok())
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "value_hex is not made of pairs of hexadecimal digits".to_owned())
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
            ("{\"key\":\"b\",\"value\":1,\"value_hex\":\"00\"}", "both value and value_hex"),
            ("{\"key\":\"a\",\"value\":2}", "lines 1 and 2 both have the key a"),
        ] {
            let (folder, path) = file(&format!("{{\"key\":\"a\",\"value\":1}}\n{line}\n"));
            let to = folder.path().join(FOLDER).join("000001-import.jsonl");
            let error = copy(&path, &to, StateFormat::Json).expect_err(line);
            let text = format!("{error:#}");
            assert!(text.contains(part) && text.contains("2"), "{text}");
            let left = fs::read_dir(folder.path().join(FOLDER)).expect("it was made").count();
            assert_eq!(left, 0, "a refused file leaves nothing behind");
        }
    }

    #[test]
    fn an_initial_state_that_was_not_applied_yet_can_be_mended() {
        let (folder, path) = file("{\"key\":\"a\",\"value\":1}\n");
        for value in [1, 2] {
            fs::write(&path, format!("\u{feff}{{\"key\":\"a\",\"value\":{value}}}\r\n\n")).expect("the folder is ours");
            add_initial(folder.path(), &path, StateFormat::Json, false).expect("nothing has run");
        }
        let copied = fs::read_to_string(folder.path().join(FOLDER).join(INITIAL)).expect("it was copied");
        assert_eq!(copied, "{\"key\":\"a\",\"value\":2}\n");
    }

    #[test]
    fn states_are_encoded_as_the_rule_writes_them() {
        let row = ImportRow::parse(r#"{"key":"a","value":{"n":1}}"#).expect("the row is right");
        assert_eq!(row.state(StateFormat::Json), Ok(Some(br#"{"n":1}"#.to_vec())));
        assert_eq!(row.state(StateFormat::Msgpack), Ok(Some(vec![0x81, 0xa1, b'n', 1])));
        assert!(row.state(StateFormat::Opaque).is_err());
        let row = ImportRow::parse(r#"{"key":"a","value_hex":"00ff"}"#).expect("the row is right");
        for format in [StateFormat::Opaque, StateFormat::Json] {
            assert_eq!(row.state(format), Ok(Some(vec![0, 255])));
        }
        for wrong in [r#"{"key":"a","value_hex":"00f"}"#, r#"{"key":"a","value_hex":"zz"}"#] {
            assert!(ImportRow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
