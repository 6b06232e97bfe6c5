//! docs/service.md: its commands run one after another, its configuration is one, and its tables have what the code has.

use super::served::Served;
use crate::support::command;
use keyfold::api::ServerSettings;
use keyfold::service::Operation;
use std::fs;
use std::net::TcpListener;
use std::process::Command;

fn page() -> String {
    fs::read_to_string(command::root().join("docs/service.md")).expect("it is there")
}

/// The fenced blocks of a document in this language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    document.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Runs blocks of a document in one shell, in an empty folder with the examples beside it. The server's port is a free one.
fn run(blocks: &[String]) -> String {
    let home = tempfile::tempdir().expect("a folder can be made");
    let examples = home.path().join("examples");
    std::os::unix::fs::symlink(command::root().join("examples"), examples).expect("a link can be made");
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("there are free ports").port();
    // What the shell has started ends with it.
    let script = format!("set -e\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{}", blocks.concat());
    let script = script.replace("127.0.0.1:8420", &format!("127.0.0.1:{port}"));
    let program = std::path::Path::new(command::KEYFOLD).parent().expect("a program lies in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(home.path()).env("HOME", home.path()).env("PATH", path);
    shell.env("KEYFOLD_CACHE", command::cache()).env("NO_COLOR", "1");
    let finished = command::finish(&mut shell);
    assert_eq!(finished.code, Some(0), "{script}\n{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

#[test]
fn the_commands_of_the_page_work_one_after_another() {
    let blocks = blocks(&page(), "sh");
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    let said = run(&blocks);
    assert!(said.contains("\"decided\": true"), "{said}");
}

#[test]
fn the_commands_of_the_readme_about_the_service_work() {
    let readme = fs::read_to_string(command::root().join("README.md")).expect("it is there");
    let (_, section) = readme.split_once("## Many tenants, one process").expect("the README has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    run(&blocks(section, "bash"));
}

#[test]
fn the_configuration_of_the_page_is_one_and_shows_every_setting() {
    let page = page();
    let blocks = blocks(&page, "toml");
    let settings = ServerSettings::parse(&blocks[0]).expect("it is right");
    assert_eq!(settings.http, ServerSettings::default().http, "it shows the defaults");
    for setting in [
        "data",
        "listen",
        "admin-token-file",
        "log",
        "log-json",
        "otlp",
        "insecure-http",
        "[tls]",
        "[http]",
        "[quotas]",
    ] {
        assert!(blocks[0].contains(setting), "{setting} is not shown");
    }
}

#[test]
fn the_page_has_every_route_with_its_roles() {
    let served = Served::start();
    let document = served.nobody().get("/openapi.json").ok();
    let page = page();
    for (path, item) in document["paths"].as_object().expect("it has paths") {
        for (method, operation) in item.as_object().expect("it has operations") {
            let route = format!("`{} {path}`", method.to_uppercase());
            let line = page.lines().find(|line| line.starts_with(&format!("| {route} |")));
            let line = line.unwrap_or_else(|| panic!("the page does not have {route}"));
            for role in operation["x-keyfold-roles"].as_array().into_iter().flatten() {
                assert!(line.contains(role.as_str().expect("it is a word")), "{line} lacks {role}");
            }
        }
    }
    assert!(Operation::ALL.len() > 30);
}
