//! Folders of tests: what a run wrote, compared and copied.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder for tests that make very many small files: in memory where there is such a place. A crash of the process, or a loss of
/// power that a test makes up, leaves the same there.
pub fn fast() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("the folder for temporary files can be written")
}

/// The names and bytes of the files in a folder, hidden ones included; none when there is no folder.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    read(folder, |_| true)
}

/// The files that a reader of a folder looks at while it is written.
pub fn visible_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    read(folder, |name| !name.starts_with('.'))
}

fn read(folder: &Path, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let entries = entries.map(|entry| entry.expect("an open folder can be read"));
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let file = |(name, path): (String, PathBuf)| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (name, bytes)
    };
    named.filter(|(name, path)| wanted(name) && path.is_file()).map(file).collect()
}

/// The lines of all visible files in a folder.
pub fn lines(folder: &Path) -> Vec<String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("outputs are UTF-8");
    visible_files(folder)
        .into_values()
        .map(text)
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Panics unless two folders hold the same files with the same bytes.
pub fn assert_same_files(found: &Path, expected: &Path, why: &str) {
    let (found, expected) = (files(found), files(expected));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected), "other files, {why}");
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name} has other bytes, {why}");
    }
}

/// Copies a folder with all that is in it, over what is there.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("an open folder can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
        }
    }
}

/// Puts one partition's file, with its log, in place of another state of it.
pub fn restore_partition(from: &Path, to: &Path, partition: u32) {
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("partition-{partition:04}.db{suffix}");
        // A log that belongs to another state of the file would be replayed over it.
        let _ = fs::remove_file(to.join(&name));
        if from.join(&name).exists() {
            fs::copy(from.join(&name), to.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
