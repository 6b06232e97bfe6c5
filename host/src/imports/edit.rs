//! [`Edit`]: what somebody puts in, with a word on who, when and why. Every edit is a file, which the rule's next batch reads; none
//! is ever deleted, so they are the record of what was done.

use super::purge::{LettersToPurge, PurgeLine};
use super::rows::{Rows, texts};
use super::{AS_IS, FOLDER, ImportLine, ImportRow, LetterId, RedrivenEvent};
use crate::clock::Clock;
use crate::description::StateFormat;
use crate::event::{BatchId, Millis};
use crate::fault;
use crate::state::PlanLog;
use crate::synced;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_128;

/// The first file: the state that a rule was started with. Its name sorts before all others.
const INITIAL: &str = "000000-initial.jsonl";
const RE_DRIVE: &str = "-re-drive.jsonl";
/// Edits that come at the same time take numbers one after another.
const TRIES: u32 = 100;

/// Who put something in, and why. The first line of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The command: import, set, rm, re-drive, purge.
    pub command: String,
    /// The user of the machine, or of the service.
    pub by: String,
    /// When.
    pub time: Millis,
    /// Why, as they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An edit that was made.
#[derive(Debug, Serialize)]
pub struct EditDone {
    /// Its file in the data folder.
    pub file: String,
    /// Who and why; none for the initial state.
    #[serde(flatten)]
    pub edit: Option<Edit>,
    /// Rows or events.
    pub rows: u64,
    /// Whether a batch has taken it.
    pub taken: bool,
    /// The first batch that did; none while it waits, and when a restored folder does not know.
    pub batch: Option<BatchId>,
}

impl Edit {
    /// An edit by the user who runs this process.
    pub fn new(command: &str, reason: Option<&str>) -> Self {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let number =
            || fs::metadata("/proc/self").map_or_else(|_| "unknown".to_owned(), |own| format!("uid {}", own.uid()));
        Edit {
            command: command.to_owned(),
            by: name.unwrap_or_else(number),
            time: Clock::System.now(),
            reason: reason.map(str::to_owned),
        }
    }
}

/// Gives a new data folder the state to begin with. A folder that has it already is left alone: as in Spark, a restart does not
/// apply it again. `has_batches`: the folder is not new.
pub fn add_initial(data_folder: &Path, path: &Path, format: StateFormat, has_batches: bool) -> Result<()> {
    let place = data_folder.join(FOLDER).join(INITIAL);
    let was_applied = has_batches && PlanLog::imported_files(data_folder)?.iter().any(|(file, _)| file == INITIAL);
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
    let mut unfinished = Unfinished::new(data_folder)?;
    unfinished.copy(path, format, false)?;
    ensure!(unfinished.persist(INITIAL)?, "{} was made by somebody else just now", place.display());
    Ok(())
}

/// Adds the states of a file, which the rule's next batch takes. Returns how many.
pub fn add(data_folder: &Path, path: &Path, as_is: bool, reason: Option<&str>) -> Result<u64> {
    let format = PlanLog::description(data_folder)?.map_or(StateFormat::Opaque, |rule| rule.state_format);
    let mut unfinished = Unfinished::with_edit(data_folder, &Edit::new("import", reason))?;
    let rows = unfinished.copy(path, format, as_is)?;
    unfinished.number(if as_is { AS_IS } else { "-import.jsonl" })?;
    Ok(rows)
}

/// Sets the state of a key to a row, as imports have it, without calling the rule.
pub fn set(data_folder: &Path, row: &str, reason: Option<&str>) -> Result<()> {
    let format = PlanLog::description(data_folder)?.map_or(StateFormat::Opaque, |rule| rule.state_format);
    ImportRow::parse(row).and_then(|row| row.state(format).map(|_| ())).map_err(anyhow::Error::msg)?;
    let mut unfinished = Unfinished::with_edit(data_folder, &Edit::new("set", reason))?;
    unfinished.line(row)?;
    unfinished.number(&format!("-set{AS_IS}"))
}

/// Removes the state and timeout of keys, without calling the rule.
pub fn remove<'k>(data_folder: &Path, keys: impl Iterator<Item = &'k str>, reason: Option<&str>) -> Result<()> {
    let mut unfinished = Unfinished::with_edit(data_folder, &Edit::new("rm", reason))?;
    for key in keys {
        unfinished.line(&json!({"key": key, "removed": true}).to_string())?;
    }
    unfinished.number(&format!("-rm{AS_IS}"))
}

/// Lets events of dead letters run again with the next batch. Letters that were driven again before are left out. Returns the
/// events that are driven.
pub fn re_drive(data_folder: &Path, events: &[RedrivenEvent], reason: Option<&str>) -> Result<u64> {
    re_drive_as(data_folder, events, &Edit::new("re-drive", reason))
}

/// The same, in the name of somebody.
pub fn re_drive_as(data_folder: &Path, events: &[RedrivenEvent], edit: &Edit) -> Result<u64> {
    let before = re_driven(data_folder)?;
    let mut unfinished = Unfinished::with_edit(data_folder, edit)?;
    let mut driven = 0;
    for event in events.iter().filter(|event| !before.contains(&event.letter)) {
        unfinished.line(&serde_json::to_string(event)?)?;
        driven += 1;
    }
    if driven > 0 {
        unfinished.number(RE_DRIVE)?;
    }
    Ok(driven)
}

/// Deletes dead letters of all batches before the next one, which does it.
///
/// A folder that is restored from a checkpoint has them again until the first snapshot after that.
pub fn purge(data_folder: &Path, which: &LettersToPurge, by: &str, reason: Option<&str>) -> Result<()> {
    let edit = Edit { by: by.to_owned(), ..Edit::new("purge", reason) };
    let mut unfinished = Unfinished::with_edit(data_folder, &edit)?;
    unfinished.line(&serde_json::to_string(&PurgeLine { purge: which.clone() })?)?;
    unfinished.number("-purge.jsonl")
}

/// All edits of a data folder, oldest first.
pub fn edits(data_folder: &Path) -> Result<Vec<EditDone>> {
    let taken: HashMap<String, Option<BatchId>> = PlanLog::imported_files(data_folder)?.into_iter().collect();
    let mut edits = Vec::new();
    for (file, path) in files(data_folder)? {
        let mut edit = None;
        let mut rows = 0;
        for line in lines(&path)? {
            match line? {
                ImportLine::Edit(found) => edit = Some(found),
                _ => rows += 1,
            }
        }
        let batch = taken.get(&file).copied();
        edits.push(EditDone { file, edit, rows, taken: batch.is_some(), batch: batch.flatten() });
    }
    Ok(edits)
}

/// Whether events of dead letters wait for a batch that takes them.
pub fn re_drive_waits(data_folder: &Path) -> Result<bool> {
    Ok(edits(data_folder)?.iter().any(|edit| !edit.taken && edit.file.ends_with(RE_DRIVE)))
}

/// Whether something waits for a batch that takes it.
pub fn waits(data_folder: &Path) -> Result<bool> {
    let names = files(data_folder)?;
    if names.is_empty() {
        return Ok(false);
    }
    let taken: HashSet<String> = PlanLog::imported_files(data_folder)?.into_iter().map(|(file, _)| file).collect();
    Ok(names.iter().any(|(name, _)| !taken.contains(name)))
}

/// The dead letters that were driven again, also those that wait for it.
fn re_driven(data_folder: &Path) -> Result<HashSet<LetterId>> {
    let mut letters = HashSet::new();
    for (_, path) in files(data_folder)?.into_iter().filter(|(file, _)| file.ends_with(RE_DRIVE)) {
        for line in lines(&path)? {
            if let ImportLine::Event(event) = line? {
                letters.insert(event.letter);
            }
        }
    }
    Ok(letters)
}

/// The files of imports, in the order in which they are read.
fn files(data_folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let folder = data_folder.join(FOLDER);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Files that are being written begin with a dot.
        if !name.starts_with('.') {
            files.push((name, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<ImportLine>>> {
    let file = File::open(path).with_context(|| format!("failed to read {}", path.display()))?;
    let place = path.display().to_string();
    Ok((1..).zip(BufReader::new(file).lines()).map(move |(number, line)| {
        let place = || format!("{place} line {number}");
        ImportLine::parse(&line.with_context(place)?).map_err(anyhow::Error::msg).with_context(place)
    }))
}

/// An import that is being written. It appears whole, or not at all.
struct Unfinished {
    data_folder: PathBuf,
    output: BufWriter<NamedTempFile>,
}

impl Unfinished {
    fn new(data_folder: &Path) -> Result<Self> {
        let folder = data_folder.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
        // As other files are made: the host may be another user.
        let permissions = fs::Permissions::from_mode(0o666);
        let unfinished = tempfile::Builder::new().prefix(".").permissions(permissions).tempfile_in(folder)?;
        Ok(Unfinished { data_folder: data_folder.to_owned(), output: BufWriter::new(unfinished) })
    }

    fn with_edit(data_folder: &Path, edit: &Edit) -> Result<Self> {
        let mut unfinished = Self::new(data_folder)?;
        unfinished.line(&json!({ "edit": edit }).to_string())?;
        Ok(unfinished)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.output, "{text}")?)
    }

    /// Checks every row of a file, and copies them.
    fn copy(&mut self, path: &Path, format: StateFormat, as_is: bool) -> Result<u64> {
        ensure!(
            path != Path::new("-") && !path.is_dir(),
            "{}: states are imported from a file, not from a stream or a folder",
            path.display()
        );
        // By their hash: keys themselves would take far more memory.
        let mut lines: HashMap<u128, u64> = HashMap::new();
        for row in Rows::open(path)? {
            let (line, text) = row?;
            let place = || format!("{} line {line}", path.display());
            let row = ImportRow::parse(&text).and_then(|row| row.state(format).map(|_| row));
            let row = row.map_err(anyhow::Error::msg).with_context(place)?;
            ensure!(as_is || !row.is_only_as_is(), "{}: such a row can only be put as it is, with --as-is", place());
            if let Some(first) = lines.insert(xxh3_128(&row.key), line) {
                bail!(
                    "{} lines {first} and {line} both have the key {}: a key has one state",
                    path.display(),
                    String::from_utf8_lossy(&row.key)
                );
            }
            self.line(&text)?;
        }
        Ok(lines.len() as u64)
    }

    /// Gives the file the next number, and a name that ends so.
    fn number(mut self, ending: &str) -> Result<()> {
        for _ in 0..TRIES {
            // Positions are kept by name, also of files that somebody has deleted.
            let taken = PlanLog::imported_files(&self.data_folder)?.into_iter().map(|(name, _)| name);
            let names = taken.chain(files(&self.data_folder)?.into_iter().map(|(name, _)| name));
            let number = |name: String| name.split_once('-').and_then(|(number, _)| number.parse::<u32>().ok());
            let last = names.filter_map(number).max().unwrap_or(0);
            if self.persist(&format!("{:06}{ending}", last + 1))? {
                return Ok(());
            }
        }
        bail!("others put in states all the time: try again")
    }

    /// Gives the file its name; false when somebody has taken it just now.
    fn persist(&mut self, name: &str) -> Result<bool> {
        self.output.flush()?;
        let file = self.output.get_ref();
        synced::file(file.as_file(), file.path());
        fault::point("import-written");
        let folder = self.data_folder.join(FOLDER);
        // A link, unlike a rename, never takes the place of another file.
        match fs::hard_link(file.path(), folder.join(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => {
                return Err(error).with_context(|| format!("failed to write {}", folder.join(name).display()));
            }
        }
        fault::point("import-placed");
        for folder in [&folder, &self.data_folder] {
            synced::folder(folder)?;
        }
        Ok(true)
    }
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
    fn what_cannot_be_a_row_is_refused_with_its_line() {
        for (line, part) in [
            ("{\"key\":null,\"value\":1}", "null"),
            ("{\"key\":\"b\"}", "neither"),
            ("{\"key\":\"b\",\"valeu\":1}", "valeu"),
            ("{\"key\":\"b\",\"value\":1,\"schema\":0}", "schema"),
            ("nonsense", "expected"),
            ("{\"key\":\"b\",\"value\":1,\"value_hex\":\"00\"}", "both value and value_hex"),
            ("{\"key\":\"a\",\"value\":2}", "lines 1 and 2 both have the key a"),
            ("{\"key\":\"b\",\"removed\":true}", "--as-is"),
            ("{\"key\":\"b\",\"removed\":true,\"value\":1}", "removed"),
            ("{\"edit\":{}}", "edit"),
            ("{\"event\":\"x\"}", "event"),
        ] {
            let (folder, path) = file(&format!("{{\"key\":\"a\",\"value\":1}}\n{line}\n"));
            let mut unfinished = Unfinished::new(folder.path()).expect("the folder is ours");
            let error = unfinished.copy(&path, StateFormat::Json, false).expect_err(line);
            drop(unfinished);
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
}
