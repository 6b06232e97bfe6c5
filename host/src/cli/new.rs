//! `keyfold new`: makes a rule crate to start from.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Make a folder with a small rule that works
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct NewArgs {
    /// The name of the crate, which is also the name of the rule
    name: String,

    /// The folder to make [default: the name]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// A folder with the SDK for Rust [default: the one that this program was built with, or else the published one]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  keyfold new late-orders
  keyfold new late-orders --path rules/late-orders --sdk ~/keyfold/guest-sdk/rust";

/// The files, with `{{name}}` and `{{sdk}}` for what differs. Where a file's own name would mean something to cargo or git
/// here, it is stored under another.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("new/Cargo.toml.template")),
    ("README.md", include_str!("new/README.md.template")),
    (".gitignore", include_str!("new/gitignore.template")),
    ("rule.toml", include_str!("new/rule.toml")),
    ("scenarios/first.toml", include_str!("new/first.toml")),
    ("src/lib.rs", include_str!("new/lib.rs.template")),
];

/// The versions that this program was tested with. Cargo drops from it what a rule does not use.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// Makes the folder.
pub fn new(args: &NewArgs) -> Result<()> {
    check_name(&args.name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    ensure!(
        !folder.exists(),
        "{} already exists: choose another name, or another folder with --path",
        folder.display()
    );
    let sdk = sdk_dependency(args.sdk.as_deref())?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make the folder {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (name, template) in FILES {
        write(name, &template.replace("{{name}}", &args.name).replace("{{sdk}}", &sdk))?;
    }
    write("Cargo.lock", LOCK)?;
    print_next(&args.name, &folder);
    Ok(())
}

/// What is allowed is what cargo allows, without the names that Rust, cargo or the SDK use themselves.
fn check_name(name: &str) -> Result<()> {
    const BYTES_MAX: usize = 64;
    const RULE: &str = "a name begins with a letter, goes on with letters, digits, - and _, and has at most 64 of them";
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    ensure!(letters && begins && name.len() <= BYTES_MAX, "'{name}' cannot be the name of a rule: {RULE}");
    if TAKEN.contains(&name.replace('-', "_").as_str()) {
        bail!("'{name}' cannot be the name of a rule: Rust, cargo or the SDK use it. Add a word to it");
    }
    Ok(())
}

#[rustfmt::skip]
const TAKEN: [&str; 64] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "build", "const", "continue", "core", "crate",
    "deps", "do", "dyn", "else", "enum", "examples", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
    "incremental", "keyfold", "keyfold_sdk", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv",
    "proc_macro", "pub", "ref", "return", "schemars", "self", "serde", "static", "std", "struct", "super", "test", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The right side of `keyfold-sdk = …`.
fn sdk_dependency(given: Option<&Path>) -> Result<String> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let built_with = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-sdk/rust"));
    let folder = match given {
        Some(folder) => folder,
        None if built_with.join("Cargo.toml").exists() => built_with,
        None => return Ok(format!("\"{VERSION}\"")),
    };
    let folder = folder.canonicalize().with_context(|| format!("there is no SDK in {}", folder.display()))?;
    ensure!(folder.join("Cargo.toml").exists(), "there is no SDK in {}: it has no Cargo.toml", folder.display());
    let text = folder.to_str().with_context(|| format!("the path {} is not UTF-8", folder.display()))?;
    // TOML takes the escapes of JSON strings.
    Ok(format!("{{ path = {} }}", serde_json::to_string(text)?))
}

fn print_next(name: &str, folder: &Path) {
    let folder = folder.display();
    println!(
        "\
Made the rule {name} in {folder}. What it does is in {folder}/src/lib.rs. Next:

  keyfold build {folder}     compile it to {folder}/rule.wasm
  keyfold test {folder}      run its scenarios
  keyfold run {folder}/rule.toml --input DIR"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_with_what_is_allowed() {
        for name in ["late-orders", "a", "Rule_7"] {
            check_name(name).unwrap();
        }
        for name in ["", "7days", "-x", "späte", "a b", "a/b", &"x".repeat(65)] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("begins with a letter"), "{error}");
        }
        for name in ["fn", "test", "keyfold-sdk", "serde"] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("use it"), "{error}");
        }
    }

    #[test]
    fn an_existing_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let args = NewArgs { name: "orders".into(), path: Some(folder.path().to_owned()), sdk: None };
        assert!(new(&args).unwrap_err().to_string().contains("already exists"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orders");
        new(&NewArgs { name: "orders".into(), path: Some(path.clone()), sdk: None }).unwrap();
        for (name, _) in FILES {
            let text = fs::read_to_string(path.join(name)).unwrap();
            assert!(!text.contains("{{"), "{name}: {text}");
        }
        assert!(path.join("Cargo.lock").exists());
    }
}
