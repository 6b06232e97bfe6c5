//! The client's commands against a running server: what they print, what they refuse, and what they leave behind.

use super::served::{Served, lines, run_guest};
use crate::support::command::{self, Finished};
use crate::support::process::{Process, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Somebody at a terminal of their own.
struct Person {
    home: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        Person { home: tempfile::tempdir().expect("a folder can be made") }
    }

    /// Somebody who has logged in.
    fn logged_in(served: &Served, token: &str) -> Self {
        let person = Person::new();
        let path = person.home.path().join("token");
        fs::write(&path, token).expect("the disk has room");
        let file = fs::File::open(path).expect("it is there");
        command::finish(person.call(&["login", &served.url]).stdin(Stdio::from(file))).ok();
        person
    }

    fn call(&self, args: &[&str]) -> Command {
        let mut call = command::keyfold(args);
        for name in ["KEYFOLD_URL", "KEYFOLD_TOKEN", "KEYFOLD_CA", "XDG_CONFIG_HOME"] {
            call.env_remove(name);
        }
        call.env("HOME", self.home.path()).current_dir(self.home.path());
        call
    }

    fn run(&self, args: &[&str]) -> Finished {
        command::finish(&mut self.call(args))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, text).expect("the disk has room");
        path.display().to_string()
    }
}

#[test]
fn a_login_is_kept_where_only_its_owner_can_read_it_and_can_be_forgotten() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    let person = Person::logged_in(&served, admin.token.as_deref().expect("it has one"));
    let file = person.home.path().join(".config/keyfold/login.json");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().expect("it has one"))), (0o600, 0o700));
    let me = person.run(&["whoami", "--json"]).ok().json_lines().remove(0);
    assert_eq!(me, json!({ "tenant": "acme", "token": "acme-admin", "role": "admin" }));
    assert_eq!(person.run(&["whoami"]).ok().stdout, "token acme-admin of tenant acme, role admin\n");
    person.run(&["login", "--forget"]).ok();
    assert!(!file.exists());
    person.run(&["whoami"]).fails_with(&["keyfold login URL", "KEYFOLD_URL"]);
}

#[test]
fn a_token_goes_only_to_the_server_it_is_for() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    let token = admin.token.as_deref().expect("it has one");
    let person = Person::logged_in(&served, token);
    person.run(&["whoami", "--url", "http://127.0.0.1:9"]).fails_with(&["no token is known for http://127.0.0.1:9"]);
    person.run(&["whoami", "--url", "http://rules.example"]).fails_with(&["no token is known"]);
    let mut call = person.call(&["whoami", "--url", "http://rules.example"]);
    command::finish(call.env("KEYFOLD_TOKEN", token)).fails_with(&["not encrypted", "--insecure-http"]);
    let stranger = Person::new();
    let mut call = stranger.call(&["whoami"]);
    command::finish(call.env("KEYFOLD_TOKEN", token).env("KEYFOLD_URL", &served.url)).ok();
    let mut call = stranger.call(&["login", &served.url]);
    command::finish(call.env("KEYFOLD_TOKEN", "kf_wrong")).fails_with(&["unauthorized", "401"]);
    assert!(!stranger.home.path().join(".config/keyfold/login.json").exists(), "a wrong token is not kept");
}

#[test]
fn an_example_is_pushed_fed_swapped_followed_and_rolled_back_with_commands() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    let person = Person::logged_in(&served, admin.token.as_deref().expect("it has one"));
    let example = command::example("card-sessions").display().to_string();
    person.run(&["push", &example]).fails_with(&["--stream"]);
    person.run(&["streams", "create", "payments", "--id", "/payment_id"]).ok();
    let pushed = person.run(&["push", &example, "--stream", "payments", "--activate"]).ok();
    assert!(pushed.stdout.starts_with("card-sessions: "), "{}", pushed.stdout);
    let event = json!({ "user_id": "ada", "ts": 1_767_607_200_000_i64, "amount_minor": 60_000 });
    let events: String = (0..6).map(|_| format!("{event}\n")).collect();
    let file = person.file("events.jsonl", &events);
    assert_eq!(person.run(&["streams", "send", "payments", &file]).ok().stdout, "6 events taken\n");
    let followed = person.run(&["tail", "card-sessions", "--from-start", "--limit", "1"]).ok().json_lines().remove(0);
    assert_eq!(followed["output"]["user_id"], "ada", "{followed}");
    let row = person.run(&["rules", "state", "card-sessions", "--key", "ada", "--json"]).ok().json_lines().remove(0);
    assert_eq!(row["key"], "ada");
    let shown = person.run(&["rules", "ls"]).ok().stdout;
    assert!(shown.contains("card-sessions") && shown.contains("running"), "{shown}");
    let versions = person.run(&["rules", "versions", "card-sessions", "--json"]).ok().json_lines();
    let digest = versions[0]["digest"].as_str().expect("it has one");
    person.run(&["activate", "card-sessions", digest, "--state", "fresh"]).ok();
    let back = person.run(&["rollback", "card-sessions", "--state", "keep", "--json"]);
    assert!(back.code == Some(0) || back.stderr.contains("rollback"), "{back:?}");
    let read = person.run(&["streams", "read", "payments", "--from", "4", "--limit", "10"]).ok().json_lines();
    assert_eq!(read.iter().map(|line| line["number"].clone()).collect::<Vec<_>>(), [4, 5]);
    person.run(&["rules", "rm", "card-sessions"]).fails_with(&["--yes"]);
    person.run(&["rules", "rm", "card-sessions", "--yes"]).ok();
    person.run(&["rules", "show", "card-sessions"]).fails_with(&["there is no such rule", "404"]);
    let actions = person.run(&["audit", "export"]).ok().json_lines();
    assert!(actions.iter().any(|entry| entry["action"] == "rule.delete" && entry["by"] == "acme-admin"), "{actions:?}");
}

#[test]
fn dead_letters_of_a_server_are_listed_run_again_and_deleted_by_name() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    run_guest(&admin, "r", "s", "fail");
    super::served::send(&admin, "s", &lines(["bad1", "good", "bad2"]));
    let person = Person::logged_in(&served, admin.token.as_deref().expect("it has one"));
    let list = |args: &[&str]| person.run(&[&["dead-letters", "r", "--server"], args].concat()).ok().json_lines();
    wait_until("both letters are there", || list(&[]).len() == 2);
    assert_eq!(list(&["--key", "bad1"])[0]["key"], "bad1");
    person.run(&["dead-letters", "r", "--server", "--purge"]).fails_with(&["--reason, --key, or --all"]);
    let purged = person.run(&["dead-letters", "r", "--server", "--purge", "--key", "bad1"]).ok().stdout;
    assert!(purged.starts_with("1 dead letters with 1 events"), "{purged}");
    wait_until("it is gone", || list(&[]).len() == 1);
    let driven = person.run(&["dead-letters", "r", "--server", "--re-drive", "--all", "--json"]).ok().json_lines();
    assert_eq!(driven[0]["events"], 1);
}

#[test]
fn the_platform_makes_tenants_and_tokens_with_commands() {
    let served = Served::start();
    let person = Person::logged_in(&served, served.platform.token.as_deref().expect("it has one"));
    let made = person.run(&["tenants", "create", "acme", "--quota", "rules=2", "--json"]).ok().json_lines().remove(0);
    assert_eq!((&made["name"], &made["quotas"]["rules"]), (&json!("acme"), &json!(2)));
    person.run(&["tenants", "create", "acme", "--quota", "ruls=2"]).fails_with(&["no such quota", "ruls"]);
    let changed = person.run(&["tenants", "set", "acme", "--quota", "streams=3", "--json"]).ok().json_lines().remove(0);
    assert_eq!((&changed["quotas"]["rules"], &changed["quotas"]["streams"]), (&json!(2), &json!(3)));
    let secret = person.run(&["tenants", "token", "acme", "boss", "--role", "admin"]).ok().stdout;
    let boss = Person::logged_in(&served, &secret);
    let author = boss.run(&["tokens", "create", "ann", "--role", "author", "--expires-in", "1h"]).ok().stdout;
    assert!(author.starts_with("kf_") && author.lines().count() == 1, "a script can take it");
    let listed: Vec<Value> = boss.run(&["tokens", "ls", "--json"]).ok().json_lines();
    assert!(listed.iter().any(|token| token["name"] == "ann" && token["expires"].is_string()), "{listed:?}");
    assert!(!format!("{listed:?}").contains("kf_"));
    let rotated = boss.run(&["tokens", "rotate", "ann"]).ok().stdout;
    assert_ne!(rotated, author);
    boss.run(&["tokens", "revoke", "ann"]).ok();
    boss.run(&["tokens", "create", "bad", "--role", "king"]).with_code(2);
    person.run(&["tenants", "rm", "acme"]).fails_with(&["--yes"]);
    person.run(&["tenants", "rm", "acme", "--yes"]).ok();
    boss.run(&["whoami"]).fails_with(&["401"]);
}

#[test]
fn a_tail_ends_when_nobody_reads_or_the_token_is_revoked() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let secret = served.token("acme", "watcher", "reader");
    let person = Person::logged_in(&served, &secret);
    let tail = Process::start(&mut person.call(&["tail", "--stream", "s", "--from-start"]));
    admin.delete("/v1/tokens/watcher").with_status(204);
    let finished = tail.finish();
    assert!(finished.code == Some(0) || finished.stderr.contains("401"), "{finished:?}");
}

#[test]
fn every_command_that_asks_a_server_has_examples_and_the_shells_complete_them() {
    let commands =
        "serve login whoami push rules activate rollback decide tail streams tokens tenants audit completions";
    for command in commands.split(' ') {
        let help = command::run([command, "--help"]).ok().stdout;
        assert!(help.contains(&format!("Examples:\n  keyfold {command}")) || command == "decide", "{help}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = command::run(["completions", shell]).ok().stdout;
        assert!(script.contains("rollback") && script.contains("from-start"), "{shell}");
    }
}
