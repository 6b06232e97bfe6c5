//! [`Input`]: the payments that all engines read, and the rows that each must give for them.

use super::reference::{Reference, Rows};
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What is made.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Shape {
    /// How many payments; a last one is added, which lets every session end.
    pub events: u64,
    /// Of so many users.
    pub users: u64,
    /// Cut into so many files.
    pub files: u32,
}

/// The payments.
pub struct Input {
    /// What was made.
    pub shape: Shape,
    /// The folder with the files.
    pub folder: PathBuf,
    /// How many bytes they have.
    pub bytes: u64,
    /// What an engine must write.
    pub expected: Rows,
    paths: Vec<PathBuf>,
}

impl Input {
    /// Makes the payments below `target`, unless they are there, and works out the rows.
    pub fn make(workspace: &Workspace, keyfold: &Path, shape: Shape) -> Result<Self> {
        let parent = workspace.target.join("bench");
        let (folder, note) = (parent.join("input"), parent.join("input-made-by"));
        let mut r#gen = workspace.command(keyfold);
        r#gen.args(["gen", "card-sessions", "--events", &shape.events.to_string()]);
        r#gen.args(["--users", &shape.users.to_string(), "--files", &shape.files.to_string(), "--output"]).arg(&folder);
        let line = step::line(&r#gen);
        if fs::read_to_string(&note).is_ok_and(|made_by| made_by == line) {
            eprintln!("==> {} payments are in {} already", shape.events, folder.display());
        } else {
            for path in [&note, &folder] {
                remove(path)?;
            }
            fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
            step(&format!("Making {} payments", shape.events), || step::run(&mut r#gen))?;
            age_in_order(&paths(&folder)?)?;
            // Written last, so that what was interrupted is made anew.
            fs::write(&note, line).with_context(|| format!("cannot write {}", note.display()))?;
        }
        Self::read(shape, folder)
    }

    /// Reads all of it, so that no engine waits for the disk.
    pub fn fill_page_cache(&self) -> Result<()> {
        for path in &self.paths {
            let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            std::io::copy(&mut file, &mut std::io::sink())
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(())
    }

    fn read(shape: Shape, folder: PathBuf) -> Result<Self> {
        let paths = paths(&folder)?;
        let mut bytes = 0;
        let expected = step("Working out the rows", || {
            let mut reference = Reference::default();
            for path in &paths {
                let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                bytes += text.len() as u64;
                reference.read(&text).with_context(|| path.display().to_string())?;
            }
            reference.finish()
        })?;
        Ok(Input { shape, folder, bytes, expected, paths })
    }
}

/// The rows that an engine has written into a folder. Whatever has a name that begins with a dot or an underscore is its own.
pub fn written(folder: &Path) -> Result<Rows> {
    let mut rows = Rows::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let context = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(context)? {
            let entry = entry.with_context(context)?;
            let path = entry.path();
            if matches!(entry.file_name().as_encoded_bytes().first(), Some(b'.' | b'_')) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).with_context(context)?;
                rows.read(&text).with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(rows)
}

/// Removes a file, or a folder with all that is in it, when it is there.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The files of the input in the order of their names.
fn paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Makes each file a second younger than the one before: Spark reads a folder from the oldest file to the youngest.
fn age_in_order(paths: &[PathBuf]) -> Result<()> {
    let youngest = SystemTime::now();
    for (seconds, path) in (0..).zip(paths.iter().rev()) {
        let time = youngest - Duration::from_secs(seconds);
        let file = File::options().append(true).open(path);
        file.and_then(|file| file.set_modified(time)).with_context(|| format!("cannot date {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_all_files_that_are_not_an_engines_own() {
        let folder = std::env::temp_dir().join(format!("keyfold-rows-{}", std::process::id()));
        let row = |user: &str| {
            format!("{{\"kind\":\"alert\",\"user_id\":\"{user}\",\"session_start\":1,\"ts\":2,\"hv_count\":6}}\n")
        };
        for (name, user) in
            [("part-0", "a"), ("2026-01-05--00/part-1", "b"), ("_spark_metadata/0", "c"), (".part-2.crc", "d")]
        {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, row(user)).unwrap();
        }
        let found = written(&folder).unwrap();
        let mut expected = Rows::default();
        expected.read(&(row("b") + &row("a") + &row("zzz-end"))).unwrap();
        assert_eq!(found, expected);
        remove(&folder).unwrap();
        remove(&folder).unwrap();
    }
}
