//! The document against the server: Schemathesis makes up requests from it, right ones and wrong ones, and holds every answer to
//! what the document says.

use super::ask::Ask;
use super::served::{Served, run_guest};
use crate::support::command;
use serde_json::json;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

/// The packages with their checksums, which `cargo xtask test` installs, too.
const REQUIREMENTS: &str = "tests/it/support/schemathesis.txt";
/// What the document cannot say.
const SETTINGS: &str = "tests/it/support/schemathesis.toml";
/// The same requests on every run.
const SEED: &str = "20260105";
/// For each of the three runs.
const SECONDS: &str = "40";

#[test]
fn every_answer_is_what_the_document_says() {
    let served = Served::configured("[quotas]\nrequests_per_second = 100000\nevents_per_second = 1000000\n");
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/payments", json!({ "partitions": 2, "key": "/key" })).ok();
    run_guest(&admin, "fraud", "events", "trap");
    // Tails have no end, and are tested by hand. Tokens come last: the run finds its own name in the list, and may revoke it.
    let of_tenant = ["--exclude-path-regex", "/(tail|outputs|log)$|^/v1/tokens/", "--exclude-tag", "tenants"];
    run(&served, &admin, &of_tenant);
    run(&served, &served.platform, &["--include-tag", "tenants"]);
    run(&served, &admin, &["--include-tag", "tokens"]);
}

fn run(served: &Served, ask: &Ask, args: &[&str]) {
    let mut call = Command::new(install());
    call.arg("--config-file").arg(command::root().join(SETTINGS));
    call.arg("run").arg(format!("{}/openapi.json", served.url)).current_dir(served.folder());
    call.arg("--header").arg(format!("Authorization: Bearer {}", ask.token.as_deref().expect("it has a token")));
    call.args(["--checks", "all", "--seed", SEED, "--max-time", SECONDS, "--request-timeout", "20", "--workers", "1"]);
    call.args(["--no-color"]).args(args).env("HYPOTHESIS_STORAGE_DIRECTORY", served.folder());
    let output = call.output().expect("it was installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let summary: Vec<&str> = said.lines().rev().take(12).collect();
    println!("{}", summary.into_iter().rev().collect::<Vec<_>>().join("\n"));
}

/// Installs the packages below the target folder, unless they are there. Returns the program.
fn install() -> PathBuf {
    let folder = command::target().join("schemathesis");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let lock = File::create(folder.join("lock")).expect("the target folder can be written");
    lock.lock().expect("a file can be locked");
    let (venv, program) = (folder.join("venv"), folder.join("venv/bin/schemathesis"));
    if !program.is_file() {
        done(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"]);
        done(pip.arg(command::root().join(REQUIREMENTS)));
    }
    program
}

fn done(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "Schemathesis, in {REQUIREMENTS}, needs Python 3 with venv, and a network the first time: {said}"
    );
}
