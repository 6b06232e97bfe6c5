//! Compiled code on disk: only what this host wrote is ever run.

use crate::support::command::KEYFOLD;
use crate::support::rules::{compiler, guest};
use keyfold::limits::Limits;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A loader whose cache is in this folder.
fn loader(folder: &Path, compiler: Compiler) -> Loader {
    let cache = Cache::open(folder).expect("the folder can be used");
    Loader::new(Limits::default(), cache, compiler).expect("wasmtime starts")
}

/// A compiler that cannot be started: whatever is loaded came from the cache.
fn no_compiler() -> Compiler {
    Compiler::with_program(PathBuf::from(KEYFOLD).join("does-not-exist"))
}

/// A folder with the compiled code of `no-imports`, and the path of that code.
fn filled() -> (TempDir, PathBuf) {
    let folder = private_folder();
    loader(folder.path(), compiler()).load(&guest("no-imports")).expect("the rule is right");
    let code = code_files(folder.path()).pop().expect("the code was kept");
    (folder, code)
}

/// A folder for this user alone, as the cache wants it.
fn private_folder() -> TempDir {
    let only_this_user = fs::Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().permissions(only_this_user).tempdir();
    made.expect("the folder for temporary files can be written")
}

fn code_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "code")).collect()
}

#[test]
fn a_second_load_starts_no_compiler() {
    let (folder, _) = filled();
    let loader = loader(folder.path(), no_compiler());
    loader.load(&guest("no-imports")).expect("the code is in the cache");
    let Err(error) = loader.load(&guest("trap")) else { panic!("that was never compiled") };
    assert!(format!("{error:#}").contains("failed to start the compiling child"), "{error:#}");
}

#[test]
fn code_that_was_changed_is_not_loaded() {
    let (folder, path) = filled();
    let good = fs::read(&path).expect("the code was kept");
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let forged = [
        ("empty", Vec::new()),
        ("shorter than a seal", good[..31].to_vec()),
        ("nothing but the seal", good[..32].to_vec()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("one byte short", good[..good.len() - 1].to_vec()),
        ("one byte long", [&good[..], b"\0"].concat()),
        ("another seal", flipped(0)),
        ("another first byte", flipped(32)),
        ("another last byte", flipped(good.len() - 1)),
    ];
    for (what, bytes) in forged {
        fs::write(&path, bytes).expect("the folder is ours");
        let loaded = loader(folder.path(), no_compiler()).load(&guest("no-imports"));
        assert!(loaded.is_err(), "code was loaded that is {what}");
    }
    // It is compiled again, and then it is in the cache again.
    loader(folder.path(), compiler()).load(&guest("no-imports")).expect("the rule is right");
    assert!(fs::read(&path).expect("the code was kept") == good, "the same component gives the same code");
    loader(folder.path(), no_compiler()).load(&guest("no-imports")).expect("the code is in the cache");
}

/// A seal holds for one component: the code of another one that this host wrote is not taken for it.
#[test]
fn code_of_another_component_is_not_loaded() {
    let (folder, path) = filled();
    loader(folder.path(), compiler()).load(&guest("trap")).expect("the rule is right");
    let other = code_files(folder.path()).into_iter().find(|other| *other != path).expect("both were kept");
    fs::copy(&other, &path).expect("the folder is ours");
    assert!(loader(folder.path(), no_compiler()).load(&guest("no-imports")).is_err());
}

#[test]
fn code_that_another_host_sealed_is_not_loaded() {
    let (folder, path) = filled();
    let (_other_folder, other_path) = filled();
    assert_eq!(path.file_name(), other_path.file_name());
    fs::copy(&other_path, &path).expect("the folder is ours");
    assert!(loader(folder.path(), no_compiler()).load(&guest("no-imports")).is_err());
}

#[test]
fn only_this_user_can_read_the_cache() {
    let parent = tempfile::tempdir().expect("the folder for temporary files can be written");
    let folder = parent.path().join("cache");
    loader(&folder, compiler()).load(&guest("no-imports")).expect("the rule is right");
    let mode = |path: &Path| fs::metadata(path).expect("it was just made").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let (folder, _) = filled();
    for mode in [0o755, 0o770, 0o701] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("the folder is ours");
        let error = Cache::open(folder.path()).expect_err("others could put code into it");
        assert!(error.to_string().contains("chmod 700"), "{mode:o}: {error}");
    }
}

#[test]
fn a_key_that_is_not_one_is_refused_rather_than_used() {
    let (folder, _) = filled();
    fs::write(folder.path().join("seal.key"), b"short").expect("the folder is ours");
    let error = Cache::open(folder.path()).expect_err("a short key is easily guessed");
    assert!(error.to_string().contains("delete the folder"), "{error}");
}
