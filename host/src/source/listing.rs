//! Which files the input patterns mean at this moment.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The files that the patterns mean below `root`, in name order, each once.
///
/// A pattern is a file, a folder (all files in it) or a glob (which may match files and folders). Names that begin with
/// `.` or `_` are how writers mark what is unfinished or not data; a folder or a glob leaves them out, unless the last
/// part of the glob begins with that character itself. `may_be_empty`: a pattern may mean nothing yet.
pub(super) fn list(root: &Path, patterns: &[String], may_be_empty: bool) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for pattern in patterns {
        let path = root.join(pattern);
        let is_folder = path.is_dir();
        let matched = if is_folder {
            add_folder(root, &path, &mut files)?
        } else if path.exists() {
            files.insert(name_of(root, &path)?);
            true
        } else {
            add_glob(root, &path, &mut files)?
        };
        let name = path.display();
        ensure!(matched || may_be_empty || !is_folder, "the folder {name} has no files to read");
        ensure!(
            matched || may_be_empty,
            "no file matches {name}; check the path, or follow it so that files may come later"
        );
    }
    Ok(files)
}

fn add_glob(root: &Path, pattern: &Path, files: &mut BTreeSet<String>) -> Result<bool> {
    let text = pattern.to_str().with_context(|| format!("the pattern {} is not valid UTF-8", pattern.display()))?;
    let asks_for_hidden = pattern.file_name().and_then(|name| name.to_str()).is_some_and(is_hidden);
    let mut matched = false;
    for found in glob::glob(text).with_context(|| format!("{text} is not a glob pattern"))? {
        let path = found.with_context(|| format!("cannot list {text}"))?;
        if !asks_for_hidden && path.file_name().and_then(|name| name.to_str()).is_some_and(is_hidden) {
            continue;
        }
        if path.is_dir() {
            matched |= add_folder(root, &path, files)?;
        } else {
            files.insert(name_of(root, &path)?);
            matched = true;
        }
    }
    Ok(matched)
}

fn add_folder(root: &Path, folder: &Path, files: &mut BTreeSet<String>) -> Result<bool> {
    let mut matched = false;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list the folder {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list the folder {}", folder.display()))?.path();
        let hidden = path.file_name().and_then(|name| name.to_str()).is_some_and(is_hidden);
        if !hidden && path.is_file() {
            files.insert(name_of(root, &path)?);
            matched = true;
        }
    }
    Ok(matched)
}

fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// The name under which a file's positions are kept: its path below `root`, without `./`, so that two patterns that
/// mean the same file give one name.
fn name_of(root: &Path, path: &Path) -> Result<String> {
    let below = path.strip_prefix(root).unwrap_or(path);
    let plain: PathBuf = below.components().filter(|part| *part != Component::CurDir).collect();
    match plain.to_str() {
        Some(name) => Ok(name.to_owned()),
        None => bail!("the file name {} is not valid UTF-8; positions are kept by name: rename it", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}\n").unwrap();
        }
        folder
    }

    fn listed(folder: &tempfile::TempDir, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
        list(folder.path(), &patterns, false).unwrap().into_iter().collect()
    }

    #[test]
    fn files_of_all_patterns_come_in_name_order_and_once() {
        let folder = folder_with(&["b/2.jsonl", "a/9.jsonl", "a/1.jsonl", "c.jsonl"]);
        assert_eq!(
            listed(&folder, &["c.jsonl", "b", "a/*.jsonl", "./a/1.jsonl"]),
            ["a/1.jsonl", "a/9.jsonl", "b/2.jsonl", "c.jsonl"]
        );
    }

    #[test]
    fn folders_and_globs_leave_hidden_files_out() {
        let folder = folder_with(&["d/_SUCCESS", "d/.tmp", "d/a.jsonl", "d/inner/b.jsonl"]);
        assert_eq!(listed(&folder, &["d"]), ["d/a.jsonl"]);
        assert_eq!(listed(&folder, &["d/*.jsonl"]), ["d/a.jsonl"]);
        assert_eq!(listed(&folder, &["d/_*"]), ["d/_SUCCESS"]);
        assert_eq!(listed(&folder, &["*"]), ["d/a.jsonl"], "a glob may match a folder");
    }

    #[test]
    fn a_file_whose_name_looks_like_a_glob_is_that_file() {
        let folder = folder_with(&["a[1].jsonl", "a1.jsonl"]);
        assert_eq!(listed(&folder, &["a[1].jsonl"]), ["a[1].jsonl"]);
    }

    #[test]
    fn a_pattern_that_means_nothing_is_an_error_unless_files_may_come_later() {
        let folder = folder_with(&["a.jsonl"]);
        fs::create_dir(folder.path().join("empty")).unwrap();
        for (pattern, said) in [("*.csv", "no file matches"), ("nothing", "no file matches"), ("empty", "has no files")]
        {
            let error = list(folder.path(), &[pattern.to_owned()], false).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(pattern), "{error}");
            assert!(list(folder.path(), &[pattern.to_owned()], true).unwrap().is_empty());
        }
    }

    #[test]
    fn patterns_that_mean_the_same_files_are_no_error() {
        let folder = folder_with(&["a.jsonl"]);
        assert_eq!(listed(&folder, &["a.jsonl", "*.jsonl"]), ["a.jsonl"]);
    }
}
