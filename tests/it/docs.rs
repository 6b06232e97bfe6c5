//! The documents, held to the truth: commands are run, code is the code that is compiled.

use crate::support::command;
use keyfold::config::Settings;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the package lies in the checkout")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of a document in this language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let found = document.split(&fence).skip(1);
    found.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_commands_of_the_readme_work_one_after_another() {
    let program = Path::new(env!("CARGO_BIN_EXE_keyfold"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = format!(
        "{}:{}",
        program.parent().expect("a program lies in a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let blocks = blocks(&read("README.md"), "sh");
    assert_eq!(blocks.len(), 3, "the README has three blocks of commands for a shell");
    for command in blocks.iter().flat_map(|block| block.lines()) {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path())
            .env("PATH", &path)
            // Compiling a rule from nothing takes a minute; other tests have done it.
            .env("CARGO_TARGET_DIR", root().join("target/test-rules"))
            .env("KEYFOLD_CACHE", root().join("target/test-cache"))
            .output()
            .expect("there is a shell");
        assert!(
            output.status.success(),
            "{command}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_rules_in_the_documents_are_those_that_the_sdk_compiles() {
    let bare = |text: &str| {
        let lines = text.lines().map(|line| line.trim_start_matches(['/', '!']).trim()).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    // Their documentation has the rules as tests.
    let compiled = ["lib", "rule"].map(|file| bare(&read(&format!("guest-sdk/rust/src/{file}.rs"))));
    for (document, count) in [("README.md", 1), ("docs/spark.md", 2)] {
        let blocks = blocks(&read(document), "rust");
        assert_eq!(blocks.len(), count, "{document} has so many rules");
        for block in blocks {
            let block = bare(&block);
            assert!(
                compiled.iter().any(|text| text.contains(&block)),
                "a rule of {document} is not in the SDK's documentation:\n{block}"
            );
        }
    }
}

/// The tests that a document names, as `module::name` between backticks.
fn tests_named_in(document: &str) -> Vec<String> {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    let is_path = |text: &&str| text.contains("::") && text.split("::").all(is_part);
    document.split('`').filter(is_path).map(str::to_owned).collect()
}

/// Whether a module of the tests or of the host has this test.
fn is_test(path: &str) -> bool {
    let (module, name) = path.rsplit_once("::").expect("a test lies in a module");
    let test = format!("#[test]\nfn {name}(");
    let file = module.trim_end_matches("::tests").replace("::", "/");
    let own_file = module.replace("::", "/");
    let places = [
        format!("tests/it/{file}.rs"),
        format!("tests/it/{file}/mod.rs"),
        format!("host/src/{file}.rs"),
        format!("host/src/{own_file}.rs"),
    ];
    let has = |place: &String| {
        let text = fs::read_to_string(root().join(place)).unwrap_or_default();
        text.lines().map(str::trim).collect::<Vec<_>>().join("\n").contains(&test)
    };
    places.iter().any(has)
}

#[test]
fn every_complaint_about_spark_is_shown_by_a_test_that_exists() {
    let page = read("docs/spark.md");
    let (_, complaints) = page.split_once("## Complaints that do not happen here").expect("the page has complaints");
    let rows: Vec<&str> =
        complaints.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).collect();
    assert!(rows.len() >= 20, "{} complaints", rows.len());
    for (number, row) in (1..).zip(&rows) {
        let tests = tests_named_in(row);
        assert!(row.starts_with(&format!("| {number} |")) && !tests.is_empty(), "{number} is out of order: {row}");
        let missing: Vec<&String> = tests.iter().filter(|test| !is_test(test)).collect();
        assert!(missing.is_empty(), "there are no tests {missing:?}");
    }
    assert!(!is_test("spark::nobody_wrote_this"));
}

#[test]
fn every_crash_point_is_shown_by_a_test_that_exists() {
    let page = read("docs/guarantees.md");
    let (_, points) = page.split_once("## Crash points").expect("the page has crash points");
    let rows: Vec<&str> = points.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).collect();
    assert!(rows.len() >= 40, "{} crash points", rows.len());
    let tests: Vec<String> = rows.iter().flat_map(|row| tests_named_in(row)).collect();
    let missing: BTreeSet<&String> = tests.iter().filter(|test| !is_test(test)).collect();
    assert!(missing.is_empty(), "there are no tests {missing:?}");
    for row in rows {
        let says_why =
            ["not there yet", "no clock is compared", "tests/conformance"].iter().any(|why| row.contains(why));
        assert!(says_why || !tests_named_in(row).is_empty(), "neither a test nor a reason: {row}");
    }
}

/// What follows `start` between backticks, as far as it is a name.
fn names_after<'d>(document: &'d str, start: &str, is_part: impl Fn(char) -> bool + Copy) -> BTreeSet<&'d str> {
    let quoted = document.split('`').skip(1).step_by(2);
    let found = quoted.flat_map(|text| text.split_whitespace()).filter_map(|word| word.strip_prefix(start));
    found.map(|word| word.split(|letter| !is_part(letter)).next().unwrap_or_default()).collect()
}

#[test]
fn every_flag_and_method_on_the_page_about_spark_is_one_that_there_is() {
    let page = read("docs/spark.md");
    let commands: [&[&str]; 7] = [
        &["run"],
        &["progress"],
        &["state", "ls"],
        &["state", "changes"],
        &["state", "metadata"],
        &["state", "import"],
        &["state", "split"],
    ];
    let help: String = commands.iter().map(|args| command::run(args.iter().chain([&"--help"])).ok().stdout).collect();
    let flags = names_after(&page, "--", |letter| letter.is_ascii_lowercase() || letter == '-');
    assert!(flags.len() >= 12, "{flags:?}");
    for flag in flags {
        assert!(help.contains(&format!("--{flag}")), "no command has --{flag}");
    }
    let sdk = ["group_state", "events", "testing"].map(|file| read(&format!("guest-sdk/rust/src/{file}.rs"))).concat();
    // Spark's names have no underscore, ours have one as soon as they have two words.
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = names_after(&page, "", is_part);
    let methods: Vec<&str> =
        words.into_iter().filter(|word| word.contains('_') && page.contains(&format!("{word}("))).collect();
    assert!(methods.len() >= 12, "{methods:?}");
    for method in methods {
        assert!(sdk.contains(&format!("fn {method}")), "the SDK has no {method}");
    }
}

#[test]
fn the_rule_files_in_the_readme_are_right() {
    let blocks = blocks(&read("README.md"), "toml");
    assert_eq!(blocks.len(), 1, "the README shows one rule file");
    for block in blocks {
        let settings = Settings::parse(&format!("component = 'rule.wasm'\n{block}"));
        let config = settings.and_then(Settings::check).unwrap_or_else(|error| panic!("{error:#}\n{block}"));
        assert_eq!(config.inputs.len(), 2);
    }
}

#[test]
fn the_table_for_a_webhook_is_right_and_shows_the_defaults() {
    let blocks = blocks(&read("docs/webhook.md"), "toml");
    assert_eq!(blocks.len(), 1, "the page shows one table");
    let check = |table: &str| {
        let settings = Settings::parse(&format!("component = 'rule.wasm'\nkey = '/k'\n{table}"));
        settings
            .and_then(Settings::check)
            .unwrap_or_else(|error| panic!("{error:#}\n{table}"))
            .webhook
            .expect("it has one")
    };
    let (shown, default) = (check(&blocks[0]), check("[webhook]\nurl = 'https://alerts.example/in'"));
    assert_eq!(
        (shown.url, shown.timeout, shown.retry_interval_max),
        (default.url, default.timeout, default.retry_interval_max)
    );
    assert_eq!((shown.form, shown.concurrency, shown.refused), (default.form, default.concurrency, default.refused));
}

#[test]
fn every_file_that_a_document_links_to_is_there() {
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/service.md",
        "docs/spark.md",
        "docs/webhook.md",
        "tests/conformance/README.md",
        "examples/README.md",
        "guest-sdk/README.md",
        "wit/README.md",
    ];
    let mut missing = Vec::new();
    for document in documents {
        let folder = root().join(document).parent().expect("a document lies in a folder").to_owned();
        for rest in read(document).split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let is_file = !target.contains("://") && !target.starts_with('#');
            if is_file && !folder.join(target.split('#').next().unwrap_or_default()).exists() {
                missing.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
