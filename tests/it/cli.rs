//! The command line as a user meets it: from an empty folder to a tested rule, what is printed, and what is refused.

use crate::support::{command, data, folder};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs the binary in a folder.
fn run_in(folder: &Path, args: &[&str]) -> command::Finished {
    let mut call = command::keyfold(args);
    // Compiling the SDK takes a minute; later runs of the tests find it compiled.
    call.current_dir(folder).env("CARGO_TARGET_DIR", command::target().join("test-rules"));
    command::finish(&mut call)
}

#[test]
fn a_new_rule_can_be_built_tested_and_run_at_once() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let made = run_in(work.path(), &["new", "trial-of-new"]).ok();
    assert!(made.stdout.contains("keyfold build trial-of-new"), "it says what comes next:\n{}", made.stdout);
    let built = run_in(work.path(), &["build", "trial-of-new", "--json"]).ok();
    let line: Value = serde_json::from_str(built.stdout.lines().last().expect("it prints a line")).expect("it is JSON");
    let component = fs::read(work.path().join("trial-of-new/rule.wasm")).expect("the component was written");
    assert_eq!(line["component"], "trial-of-new/rule.wasm");
    assert_eq!(line["digest"], keyfold::wasm::component::digest_of(&component));
    assert_eq!(line["bytes"], component.len());
    let tested = run_in(work.path(), &["test", "trial-of-new"]).ok();
    assert!(tested.stdout.ends_with("1 passed, 0 failed\n"), "{}", tested.stdout);
    let events = "{\"user_id\":\"ada\",\"ts\":1767607200000,\"amount_minor\":1200}\n";
    fs::write(work.path().join("events.jsonl"), events).expect("the disk has room");
    run_in(work.path(), &["run", "trial-of-new", "--input", "events.jsonl", "--data", "state"]).ok();
    let state = run_in(work.path(), &["state", "get", "state", "ada"]).ok().json_lines().remove(0);
    assert_eq!((&state["key"], &state["value"]["total_minor"]), (&"ada".into(), &1200.into()));
}

#[test]
fn a_component_of_the_sdk_imports_nothing_but_what_the_contract_names() {
    for example in ["card-sessions", "running-count"] {
        let component = command::example(example).join("rule.wasm");
        let inspected =
            command::finish(command::keyfold(["inspect", "--json"]).arg(component)).ok().json_lines().remove(0);
        let imports = inspected["imports"].as_array().expect("it is a list");
        let allowed = ["log", "progress", "types"].map(|name| format!("keyfold:rule/{name}@0.1.0"));
        assert!(imports.iter().all(|import| allowed.iter().any(|name| import == name)), "{imports:?}");
        assert_eq!(inspected["description"]["name"], example);
    }
}

#[test]
fn inspect_shows_the_form_and_the_output_mode() {
    let rules = [
        (command::example("running-count").join("rule.wasm"), "flat-map", "update"),
        (command::target().join("guests/facts-map.wasm"), "map", "update"),
        (command::example("card-sessions").join("rule.wasm"), "flat-map", "append"),
    ];
    for (component, form, output_mode) in rules {
        let shown = command::finish(command::keyfold(["inspect"]).arg(&component)).ok().stdout;
        let value = |name: &str| shown.lines().find_map(|line| line.trim_start().strip_prefix(name)).map(str::trim);
        assert_eq!((value("form"), value("output mode")), (Some(form), Some(output_mode)), "{shown}");
        let inspected =
            command::finish(command::keyfold(["inspect", "--json"]).arg(&component)).ok().json_lines().remove(0);
        assert_eq!(
            (&inspected["description"]["form"], &inspected["description"]["output_mode"]),
            (&form.into(), &output_mode.into())
        );
    }
}

/// A copy of an example with one scenario, in which a text is replaced.
fn example_with(work: &Path, scenario: &str, from: &str, to: &str) {
    let example = command::example("card-sessions");
    fs::create_dir_all(work.join("scenarios")).expect("a folder can be made");
    for name in ["rule.toml", "rule.wasm"] {
        fs::copy(example.join(name), work.join(name)).expect("the example has it");
    }
    let text = fs::read_to_string(example.join("scenarios").join(scenario)).expect("the example has it");
    assert!(text.contains(from), "{scenario} has no '{from}' any more");
    fs::write(work.join("scenarios").join(scenario), text.replacen(from, to, 1)).expect("the disk has room");
}

#[test]
fn a_scenario_that_does_not_hold_shows_what_differs_and_fails() {
    let work = tempfile::tempdir().expect("a folder can be made");
    example_with(work.path(), "timeout-strictly-after.toml", "total_minor = 100", "total_minor = 101");
    let failed = run_in(work.path(), &["test"]).with_code(1);
    let changes = failed.stdout.lines().map(str::trim_start).filter(|line| line.starts_with(['-', '+']));
    assert_eq!(changes.collect::<Vec<_>>(), ["-     \"total_minor\": 101,", "+     \"total_minor\": 100,"]);
    assert!(failed.stdout.contains("FAIL timeout-strictly-after") && failed.stdout.ends_with("0 passed, 1 failed\n"));
    assert!(failed.stderr.contains("1 scenario failed"), "{}", failed.stderr);
    let json = run_in(work.path(), &["test", "--json"]).with_code(1).json_lines();
    assert_eq!((&json[0]["scenario"], &json[0]["passed"]), (&"timeout-strictly-after".into(), &false.into()));
}

#[test]
fn unknown_keys_of_a_rule_file_are_all_named() {
    let work = tempfile::tempdir().expect("a folder can be made");
    example_with(work.path(), "timeout-strictly-after.toml", "", "");
    fs::write(work.path().join("rule.toml"), "key = '/user_id'\nevent-tiem = '/ts'\nbatches = 1\n[limits]\nfuel = 2\n")
        .expect("the disk has room");
    for args in [&["test"][..], &["run", ".", "--input", "."]] {
        run_in(work.path(), args).fails_with(&["rule.toml", "unknown keys: batches, event-tiem, limits.fuel"]);
    }
}

#[test]
fn a_wrong_command_line_exits_with_2_and_a_failure_with_1() {
    let work = tempfile::tempdir().expect("a folder can be made");
    for args in [&[][..], &["fly"], &["run"], &["run", "rule.wasm", "--inptu", "x"], &["state", "get", "data"]] {
        run_in(work.path(), args).with_code(2);
    }
    let component = command::example("card-sessions").join("rule.wasm");
    let component = component.to_str().expect("the checkout's path is UTF-8");
    let failures: [(&[&str], &str); 6] = [
        (&["run", "missing.wasm", "--key", "/a", "--input", "."], "missing.wasm"),
        (&["run", component, "--input", "."], "--key"),
        (&["run", component, "--key", "/a", "--input", "."], "--event-time"),
        (&["run", component, "--key", "/a", "--event-time", "/t", "--input", "no-such-file"], "no-such-file"),
        (&["state", "ls", "nowhere"], "nowhere is not the data folder of a rule"),
        (&["run", component, "--key", "/a", "--event-time", "/t", "--input", ".", "--parameter", "gap=1"], "gap"),
    ];
    for (args, part) in failures {
        run_in(work.path(), args).fails_with(&["error:", part]);
    }
}

#[test]
fn progress_is_a_line_of_json_for_each_batch_with_the_names_of_spark() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 2_500, 1);
    let rule = command::example("card-sessions");
    let rule = rule.to_str().expect("the checkout's path is UTF-8");
    let args =
        ["run", rule, "--input", "input", "--data", "state", "--output", "out", "--batch-events", "1000", "--json"];
    let run = run_in(work.path(), &args).ok();
    let lines = run.json_lines();
    let ids: Vec<u64> = lines.iter().filter_map(|line| line["batchId"].as_u64()).collect();
    assert_eq!(ids, [0, 1, 2, 3], "three batches of events, and one for the timeouts");
    let sum = |of: fn(&Value) -> &Value| lines.iter().filter_map(|line| of(line).as_u64()).sum::<u64>();
    assert_eq!(sum(|line| &line["numInputRows"]), 2_501);
    assert_eq!(sum(|line| &line["sink"]["numOutputRows"]), folder::lines(&work.path().join("out")).len() as u64);
    let operator = &lines[3]["stateOperators"][0];
    assert_eq!((&operator["numRowsTotal"], &operator["numRowsDroppedByWatermark"]), (&1.into(), &0.into()));
    for name in
        ["operatorName", "numRowsUpdated", "numRowsRemoved", "allUpdatesTimeMs", "commitTimeMs", "memoryUsedBytes"]
    {
        assert!(!operator[name].is_null(), "{name} is missing: {operator}");
    }
    for pointer in ["/id", "/name", "/timestamp", "/batchDuration", "/processedRowsPerSecond", "/eventTime/watermark"] {
        assert!(lines[0].pointer(pointer).is_some(), "{pointer} is missing: {}", lines[0]);
    }
    for pointer in
        ["/durationMs/addBatch", "/durationMs/walCommit", "/sources/0/description", "/sources/0/numInputRows"]
    {
        assert!(lines[0].pointer(pointer).is_some(), "{pointer} is missing: {}", lines[0]);
    }
    assert_eq!(run.stderr, "", "with --json nothing else is printed");
}

#[test]
fn states_are_lines_of_json_that_can_be_cut_short() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 1_000, 1);
    let rule = command::example("running-count");
    let rule = rule.to_str().expect("the checkout's path is UTF-8");
    let outputs = run_in(work.path(), &["run", rule, "--input", "input", "--data", "state", "--partitions", "2"]).ok();
    let all = run_in(work.path(), &["state", "ls", "state"]).ok().json_lines();
    assert_eq!(outputs.json_lines().len(), all.len(), "one batch: one output for each key");
    assert_eq!(run_in(work.path(), &["state", "ls", "state", "--limit", "3"]).ok().json_lines(), all[..3]);
    let of = |partition| run_in(work.path(), &["state", "ls", "state", "--partition", partition]).ok().json_lines();
    assert_eq!([of("0"), of("1")].concat(), all);
    assert!(all.iter().any(|state| state["partition_id"] == 1));
    run_in(work.path(), &["state", "ls", "state", "--partition", "2"]).fails_with(&["no partition 2", "has 2"]);
    let key = all[7]["key"].as_str().expect("a key is text");
    assert_eq!(run_in(work.path(), &["state", "get", "state", key]).ok().json_lines(), all[7..8]);
}

#[test]
fn the_help_of_every_subcommand_has_examples() {
    let mut commands = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = commands.pop() {
        let help = command::run(path.iter().map(String::as_str).chain(["--help"])).ok().stdout;
        assert!(help.contains("Examples:\n  ") && help.contains("keyfold"), "`{}` has none:\n{help}", path.join(" "));
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default().lines().take_while(|line| !line.is_empty());
        let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        commands.extend(names.map(|name| [&path[..], &[name.to_owned()]].concat()));
        seen += 1;
    }
    assert!(seen > 10, "only {seen} commands were found");
}
