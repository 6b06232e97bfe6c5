//! Outputs that are posted to a URL: ids, order, crashes, and a receiver that is not there or asks to wait.

use super::trial::{Trial, outputs_in_order};
use crate::support::command;
use crate::support::process::wait_until;
use crate::support::receiver::{Answer, Receiver, url};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const OK: fn() -> Answer = || Answer::status(200);

#[test]
fn outputs_of_a_key_and_of_a_partition_come_in_order_each_with_its_id_and_headers() {
    let receiver = Receiver::start(|_| OK());
    let headers = "headers = { Authorization = 'Bearer $ALERTS_TOKEN', Costs = '5 $$' }";
    let trial = Trial::new(6_000, &receiver.url(), headers);
    let ran = command::finish(trial.call(&["--log", "trace"]).env("ALERTS_TOKEN", "secret-word\n")).ok();
    assert!(!ran.stderr.contains("secret-word"), "{}", ran.stderr);
    let posts = receiver.taken();
    trial.assert_complete(&posts);
    let ids: BTreeSet<_> = posts.iter().map(|post| &post.key).collect();
    assert_eq!(ids.len(), trial.expected.len(), "one output a request");
    // A connection that breaks on a busy machine is a reason to send again; nothing else is.
    assert!(posts.len() <= ids.len() + ids.len() / 20, "{} requests for {} outputs", posts.len(), ids.len());
    assert!(posts.iter().map(|post| post.partition).collect::<BTreeSet<_>>().len() > 1, "several partitions");
    for post in &posts {
        let header = |name: &str| post.headers.get(name).map(String::as_str);
        assert_eq!(header("keyfold-rule"), Some("card-sessions"));
        assert_eq!(header("keyfold-batch"), Some(post.batch.to_string().as_str()));
        assert_eq!(header("content-type"), Some("application/json"));
        assert_eq!((header("authorization"), header("costs")), (Some("Bearer secret-word"), Some("5 $")));
    }
    let records = trial.place.finish(&["progress", "data", "--json"]).ok().json_lines();
    assert_eq!(records[0]["sink"]["description"], format!("webhook[{}]", receiver.url()));
}

#[test]
fn lines_of_a_partition_share_a_request_whose_id_names_them() {
    let receiver = Receiver::start(|_| OK());
    let trial = Trial::new(6_000, &receiver.url(), "batch = 'lines'");
    trial.run();
    let posts = receiver.taken();
    trial.assert_complete(&posts);
    assert!(posts.len() * 2 < trial.expected.len(), "{} requests for {} outputs", posts.len(), trial.expected.len());
    assert!(posts.iter().all(|post| post.headers["content-type"] == "application/x-ndjson"));
}

#[test]
fn a_run_that_is_killed_again_and_again_posts_every_output_and_repeats_only_with_the_same_id_and_bytes() {
    for form in ["one", "lines"] {
        let receiver = Receiver::start(|_| OK());
        let trial = Trial::new(20_000, &receiver.url(), &format!("batch = '{form}'"));
        let requests = if form == "one" { trial.expected.len() } else { 150 };
        let kills = 8;
        for kill in 1..=kills {
            let mut process = trial.start(&[]);
            let wanted = requests * kill / (kills + 2);
            wait_until("more was posted", || receiver.taken_count() >= wanted || !process.is_running());
            assert!(process.is_running(), "the run ended before it could be killed");
            process.kill();
        }
        trial.run();
        trial.assert_complete(&receiver.taken());
    }
}

#[test]
fn a_receiver_that_asks_to_wait_is_left_in_peace_so_long() {
    let mut count = 0;
    let receiver = Receiver::start(move |_| {
        count += 1;
        if count == 1 { Answer { status: 503, retry_after: Some("1") } } else { OK() }
    });
    let trial = Trial::new(6_000, &receiver.url(), "concurrency = 1");
    trial.run();
    let posts = receiver.posts();
    assert_eq!((posts[0].status, posts[1].status), (503, 200));
    assert!(posts[1].at - posts[0].at >= Duration::from_secs(1), "{:?}", posts[1].at - posts[0].at);
    assert_eq!(posts[0].key, posts[1].key, "the same output comes first");
    trial.assert_complete(&receiver.taken());
}

#[test]
fn a_receiver_that_is_not_there_is_waited_for_and_told_of_once() {
    let port = Receiver::free_port();
    let trial = Trial::new(6_000, &url(port), "");
    let mut process = trial.start(&[]);
    wait_until("the sink is down", || process.has_said("is down") || !process.is_running());
    let receiver = Receiver::start_on(port, |_| OK());
    wait_until("the run ended", || !process.is_running());
    let ended = process.finish().ok();
    for word in ["is down", "is back after"] {
        assert_eq!(ended.stderr.matches(word).count(), 1, "{word}:\n{}", ended.stderr);
    }
    assert!(ended.stderr.contains(&format!("{}/alerts", port)), "it names the URL:\n{}", ended.stderr);
    trial.assert_complete(&receiver.taken());
}

#[test]
fn a_receiver_that_fails_now_and_then_gets_everything_in_order() {
    let mut count = 0;
    let receiver = Receiver::start(move |_| {
        count += 1;
        match count % 7 {
            3 => Answer::status(500),
            5 => Answer { status: 429, retry_after: Some("0") },
            _ => OK(),
        }
    });
    let trial = Trial::new(6_000, &receiver.url(), "");
    let ran = trial.run();
    let posts = receiver.taken();
    trial.assert_complete(&posts);
    assert_eq!(posts.len(), trial.expected.len(), "what was taken is not sent again");
    assert!(!ran.stderr.contains("is down"), "a receiver that takes most of them is not down:\n{}", ran.stderr);
}

#[test]
fn a_password_that_has_run_out_holds_the_outputs_even_when_refused_ones_are_passed_over() {
    let receiver = Receiver::start(|_| Answer::status(401));
    let trial = Trial::new(6_000, &receiver.url(), "refused = 'dead-letter'");
    let mut process = trial.start(&[]);
    wait_until("the sink is down", || process.has_said("is down") || !process.is_running());
    receiver.answer(|_| OK());
    wait_until("the run ended", || !process.is_running());
    process.finish().ok();
    trial.assert_complete(&receiver.taken());
    assert_eq!(trial.place.finish(&["dead-letters", "data"]).ok().stdout, "");
}

#[test]
fn a_stopped_run_leaves_what_was_not_delivered_to_the_next_one_which_runs_nothing_again() {
    let receiver = Receiver::start(|_| Answer::status(503));
    let trial = Trial::new(6_000, &receiver.url(), "");
    let process = trial.start(&["--outbox-bytes-max", "2000"]);
    wait_until("the source is held back", || {
        process.has_said("the source is held back") && process.has_said("is down")
    });
    let stopped = process.terminate().ok();
    assert!(stopped.stderr.contains("were not delivered and wait in the outbox"), "{}", stopped.stderr);
    assert_eq!(stopped.stderr.matches("held back").count(), 1, "{}", stopped.stderr);
    receiver.answer(|_| OK());
    let ran = trial.run();
    assert!(!ran.stderr.contains("were not delivered"), "{}", ran.stderr);
    trial.assert_complete(&receiver.taken());
    let records = trial.place.finish(&["progress", "data", "--json"]).ok().json_lines();
    let is_not_run = |record: &&Value| record["stateOperators"][0]["customMetrics"]["numCalls"] == 0;
    let (_, waited) = stopped.stderr.rsplit_once(" outputs of ").expect("it says how many");
    let waited: usize = waited.split(' ').next().and_then(|count| count.parse().ok()).expect("it is a number");
    assert_eq!(
        records.iter().filter(is_not_run).count(),
        waited,
        "the batches that waited are those that were not run"
    );
    assert!(waited > 0);
}

#[test]
fn without_a_data_folder_a_stopped_run_says_that_outputs_are_lost() {
    let receiver = Receiver::start(|_| Answer::status(503));
    let trial = Trial::new(6_000, &receiver.url(), "");
    let process = crate::support::process::Process::start(&mut trial.place.keyfold(&["run", ".", "--quiet"]));
    wait_until("the sink is down", || process.has_said("is down"));
    let stopped = process.terminate().ok();
    assert!(stopped.stderr.contains("are lost: run with --data"), "{}", stopped.stderr);
    assert!(outputs_in_order(&receiver.taken()).is_empty());
}

#[test]
fn a_header_without_its_variable_is_refused_before_anything_runs() {
    let trial = Trial::new(6_000, "http://user:secret@127.0.0.1:9/alerts?token=secret", "headers = { A = '$NOT_SET' }");
    let refused = command::finish(trial.call(&[]).env_remove("NOT_SET"));
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    refused.fails_with(&["the header A", "no variable NOT_SET"]);
    assert!(!trial.place.path("data/plan.db").exists());
}
