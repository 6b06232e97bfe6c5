//! `keyfold build`: compiles a rule crate and wraps it into a component.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, process};
use wit_component::{ComponentEncoder, metadata};

/// Compile a rule crate to DIR/rule.wasm
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BuildArgs {
    /// The folder of the crate
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,

    /// Print one line of JSON for programs: component, digest, bytes
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  keyfold build
  keyfold build examples/fraud-session
  keyfold build rules/late-orders --json | jq -r .digest";

/// No operating system: the result can import nothing but what the contract names.
const TARGET: &str = "wasm32-unknown-unknown";

/// What makes a component a rule, in any version.
const STATE_FUNCTION: &str = "keyfold:rule/state-function";

/// Small components that start fast. They override the profile of the workspace that the crate is in, so that a crate gives
/// the same component inside a workspace and alone.
const PROFILE: [&str; 4] = [
    "profile.release.lto=true",
    "profile.release.codegen-units=1",
    "profile.release.panic=\"abort\"",
    "profile.release.strip=true",
];

/// Compiles, wraps, writes and says what came out.
pub fn build(args: &BuildArgs) -> Result<()> {
    let folder = &args.folder;
    let manifest = folder.join("Cargo.toml");
    ensure!(
        manifest.is_file(),
        "{} is not a crate: it has no Cargo.toml. `keyfold new NAME` makes one to start from",
        folder.display()
    );
    check_target(folder)?;
    let module_path = compile(folder, &manifest)?;
    let module = fs::read(&module_path).with_context(|| format!("cannot read {}", module_path.display()))?;
    let component = componentize(&module)?;
    let path = folder.join("rule.wasm");
    write_whole(&path, &component)?;
    let digest = digest(&component);
    if args.json {
        println!("{}", serde_json::json!({ "component": path, "digest": digest, "bytes": component.len() }));
    } else {
        println!("{}  {} KiB  {digest}", path.display(), component.len().div_ceil(1024));
    }
    Ok(())
}

/// Asks the toolchain that cargo will use in this folder, which may differ from the one elsewhere.
fn check_target(folder: &Path) -> Result<()> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run rustc: install Rust from https://rustup.rs")?;
    ensure!(output.status.success(), "`rustc --print sysroot` failed in {}: {}", folder.display(), output.status);
    let sysroot = String::from_utf8(output.stdout).context("rustc printed a path that is not UTF-8")?;
    let libraries = Path::new(sysroot.trim_end()).join("lib/rustlib").join(TARGET);
    ensure!(
        libraries.is_dir(),
        "Rust's libraries for {TARGET} are not installed. With rustup: `rustup target add {TARGET}`"
    );
    Ok(())
}

/// One of cargo's messages, of which artifacts matter.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: MessageTarget,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
struct MessageTarget {
    #[serde(default)]
    crate_types: Vec<String>,
}

impl Message {
    fn module_of(self, manifest: &Path) -> Option<PathBuf> {
        let ours = self.reason == "compiler-artifact" && self.manifest_path == manifest;
        let has_module = self.target.crate_types.iter().any(|kind| kind == "cdylib");
        let is_module = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wasm");
        if ours && has_module { self.filenames.into_iter().find(is_module) } else { None }
    }
}

/// Runs cargo and returns the path of the core module. What cargo has to say to people goes to standard error, as always.
fn compile(folder: &Path, manifest: &Path) -> Result<PathBuf> {
    let manifest = manifest.canonicalize().with_context(|| format!("cannot resolve {}", manifest.display()))?;
    let mut cargo = Command::new("cargo")
        .args(["build", "--release", "--lib", "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .args(PROFILE.iter().flat_map(|setting| ["--config", setting]))
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo: install Rust from https://rustup.rs")?;
    let messages = cargo.stdout.take().context("cargo's standard output was not piped")?;
    let mut module = None;
    for line in BufReader::new(messages).lines() {
        let line = line.context("cannot read what cargo prints")?;
        // Build scripts may print what is no message.
        if let Ok(message) = serde_json::from_str::<Message>(&line) {
            module = message.module_of(&manifest).or(module);
        }
    }
    let status = cargo.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "cargo could not build {}: its messages are above", folder.display());
    module.with_context(|| {
        format!(
            "{} builds no module: add to it\n\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
            folder.join("Cargo.toml").display()
        )
    })
}

/// Wraps a core module into a component, and checks that it is one.
fn componentize(module: &[u8]) -> Result<Vec<u8>> {
    let (_, description) = metadata::decode(module).context("what cargo built is not a WebAssembly module")?;
    // A crate that only depends on the SDK describes the SDK's imports; exports come from the macro.
    let world = &description.resolve.worlds[description.world];
    let is_rule = world.exports.keys().any(|key| description.resolve.name_world_key(key).starts_with(STATE_FUNCTION));
    if !is_rule {
        bail!(
            "the crate is not a Keyfold rule: it does not export {STATE_FUNCTION}. Call `keyfold_sdk::export!(YourRule);` \
             once, at the end of src/lib.rs"
        );
    }
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.encode())
        .context("the module does not fit into a component")
}

/// Writes beside the file and renames, so that a host that starts meanwhile reads the old component or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension(format!("wasm.{}.unfinished", process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Nothing more can be done when this fails too; the first error says why.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn a_module_of_no_rule_is_refused_with_what_to_add() {
        let error = componentize(EMPTY_MODULE).unwrap_err().to_string();
        assert!(error.contains("keyfold_sdk::export!"), "{error}");
        assert!(componentize(b"text").unwrap_err().to_string().contains("not a WebAssembly module"));
    }

    #[test]
    fn a_folder_without_a_crate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let args = BuildArgs { folder: folder.path().to_owned(), json: false };
        assert!(build(&args).unwrap_err().to_string().contains("keyfold new NAME"));
    }

    #[test]
    fn only_the_module_of_the_crate_itself_counts() {
        let message = |manifest: &str, kind: &str| -> Message {
            serde_json::from_value(serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": manifest,
                "target": { "crate_types": [kind, "rlib"] },
                "filenames": ["/t/librule.rlib", "/t/rule.wasm"],
            }))
            .unwrap()
        };
        let module = |message: Message| message.module_of(Path::new("/rule/Cargo.toml"));
        assert_eq!(module(message("/rule/Cargo.toml", "cdylib")), Some(PathBuf::from("/t/rule.wasm")));
        assert_eq!(module(message("/rule/Cargo.toml", "lib")), None);
        assert_eq!(module(message("/other/Cargo.toml", "cdylib")), None);
        let other: Message = serde_json::from_str(r#"{"reason":"build-finished","success":true}"#).unwrap();
        assert_eq!(module(other), None);
    }

    #[test]
    fn a_digest_is_sha256_in_hex() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(b""), empty);
    }
}
