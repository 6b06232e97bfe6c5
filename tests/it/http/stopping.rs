//! Stopping: in order and by a kill. What was answered is there afterwards.

use super::ask::Reply;
use super::served::{Served, events, lines, run_guest, send};
use crate::support::process::wait_until;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Clients that send at the same time.
const CLIENTS: usize = 4;
/// Events that are answered before the server is stopped.
const ENOUGH: usize = 200;

/// Sends events from several clients until the server is gone. Returns the keys that were answered for.
fn load(
    served: Served,
    end: impl FnOnce(Served) -> super::served::Stopped + Send,
) -> (BTreeSet<String>, super::served::Stopped) {
    let [_, author, ..] = served.tenant("acme");
    author.put("/v1/streams/s", json!({})).ok();
    let (answered, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (author, answered, is_over) = (author.clone(), &answered, &is_over);
                scope.spawn(move || {
                    let mut keys = Vec::new();
                    for number in 0.. {
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                        let key = format!("{client}-{number}");
                        let request = author.request(Method::POST, "/v1/streams/s/events");
                        let request =
                            request.header("content-type", "application/x-ndjson").body(lines([key.as_str()]));
                        match request.send().map(Reply::of) {
                            Ok(reply) if reply.status == 200 => {
                                keys.push(key);
                                answered.fetch_add(1, Ordering::SeqCst);
                            }
                            Ok(reply) => assert_eq!(reply.status, 503, "{}", reply.text),
                            Err(_) => break,
                        }
                    }
                    keys
                })
            })
            .collect();
        wait_until("enough is answered", || answered.load(Ordering::SeqCst) >= ENOUGH);
        let stopped = end(served);
        is_over.store(true, Ordering::SeqCst);
        let keys = clients.into_iter().flat_map(|client| client.join().expect("no client panicked")).collect();
        (keys, stopped)
    })
}

/// The keys in the stream, each of which must be there once.
fn stored(served: &Served) -> BTreeSet<String> {
    let reader = served.platform.with(&served.token("acme", "look", "reader"));
    let events = events(&reader, "s");
    let keys: BTreeSet<String> =
        events.iter().map(|event| event["key"].as_str().expect("it has one").to_owned()).collect();
    assert_eq!(keys.len(), events.len(), "nothing is there twice");
    keys
}

#[test]
fn a_stop_in_order_under_load_loses_nothing_that_was_answered() {
    let (answered, stopped) = load(Served::start(), |served| {
        let (finished, stopped) = served.stop();
        finished.ok();
        stopped
    });
    let stored = stored(&stopped.start());
    assert!(answered.is_subset(&stored), "lost: {:?}", answered.difference(&stored));
    // In order no request is broken off either: what is there was answered.
    assert_eq!(answered, stored);
}

#[test]
fn a_kill_under_load_loses_nothing_that_was_answered() {
    let (answered, stopped) = load(Served::start(), Served::kill);
    let stored = stored(&stopped.start());
    assert!(answered.is_subset(&stored), "lost: {:?}", answered.difference(&stored));
}

#[test]
fn after_a_kill_rules_go_on_where_they_were_and_put_out_everything_once() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    run_guest(&admin, "r", "s", "no-imports");
    let token = admin.token.clone().expect("it has one");
    let mut stopped = None;
    let mut server = Some(served);
    for round in 0..3 {
        let served =
            server.take().unwrap_or_else(|| stopped.take().map(super::served::Stopped::start).expect("one of both"));
        let keys: Vec<String> = (0..50).map(|number| format!("k{round}-{number}")).collect();
        send(&served.nobody().with(&token), "s", &lines(keys.iter().map(String::as_str)));
        stopped = Some(served.kill());
    }
    let served = stopped.expect("it was killed").start();
    let admin = served.nobody().with(&token);
    let mut outputs: Vec<Value> = Vec::new();
    wait_until("all outputs are there", || {
        outputs = events(&admin, "r.outputs");
        outputs.len() >= 150
    });
    let keys: BTreeSet<&str> = outputs.iter().filter_map(|output| output["key"].as_str()).collect();
    assert_eq!((keys.len(), outputs.len()), (150, 150), "one for each key, and none twice");
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let served = Served::start();
    // A tail would end by itself; a request that is half sent holds the first stop up.
    let mut stuck = std::net::TcpStream::connect(served.url.trim_start_matches("http://")).expect("it listens");
    let head = format!(
        "POST /v1/tenants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{{",
        served.platform.token.as_deref().expect("it has one")
    );
    std::io::Write::write_all(&mut stuck, head.as_bytes()).expect("it reads");
    wait_until("the request is there", || served.platform.get("/metrics").status == 200);
    served.process().signal("-TERM");
    wait_until("it has said so", || served.process().has_said("once more"));
    served.process().signal("-TERM");
    let (finished, _) = served.finish();
    assert_eq!(finished.code, Some(130));
}

#[test]
fn while_the_server_stops_it_is_not_ready() {
    let served = Served::start();
    assert_eq!(served.nobody().get("/readyz").ok()["status"], "ok");
    let (finished, stopped) = served.stop();
    finished.ok();
    assert!(stopped.data().join("catalogue.db").is_file());
}
