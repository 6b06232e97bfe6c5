//! Clients that mean harm, or do not know better: slow ones, large ones, many ones.

use super::ask::Reply;
use super::served::{Served, lines, run_guest};
use crate::support::process::wait_until;
use reqwest::Method;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Times that a test can wait for.
const HASTY: &str =
    "[http]\nheader-timeout = '300ms'\nbody-timeout = '300ms'\nconnections = 32\nheader-bytes = 16384\n";

fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
    stream
}

/// What the server says until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it closes the connection"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn headers_that_come_byte_by_byte_are_cut_off() {
    let served = Served::configured(HASTY);
    let mut slow = connect(&served);
    slow.write_all(b"GET /healthz HTTP/1.1\r\nx-a: ").expect("it reads");
    let said = rest(slow);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    let silent = connect(&served);
    assert_eq!(rest(silent), "", "whoever says nothing is cut off, too");
    served.nobody().get("/healthz").ok();
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let served = Served::configured(HASTY);
    let mut slow = connect(&served);
    let token = served.platform.token.clone().expect("it has one");
    let head = format!(
        "POST /v1/tenants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).expect("it reads");
    let said = rest(slow);
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("body-timeout"), "{said}");
}

#[test]
fn idle_connections_do_not_keep_others_out() {
    let served = Served::configured(HASTY);
    let idle: Vec<TcpStream> = (0..200).map(|_| connect(&served)).collect();
    wait_until("there is room again", || {
        served.nobody().client.get(format!("{}/healthz", served.url)).send().is_ok_and(|answer| answer.status() == 200)
    });
    drop(idle);
}

#[test]
fn headers_that_are_too_large_or_too_many_are_refused() {
    let served = Served::configured(HASTY);
    for head in [format!("x-large: {}\r\n", "x".repeat(100_000)), "x-many: y\r\n".repeat(1000)] {
        let mut stream = connect(&served);
        // It may close the connection before it has read all of it.
        let _ = stream.write_all(format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{head}\r\n").as_bytes());
        let said = rest(stream);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431") || said.starts_with("HTTP/1.1 400"), "{said}");
    }
    served.nobody().get("/healthz").ok();
}

#[test]
fn bodies_that_are_too_large_are_refused_before_they_are_read() {
    let served = Served::start();
    let [admin, .., reader] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let said_only = |length: u64, path: &str, kind: &str, token: &str| {
        let mut stream = connect(&served);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        rest(stream)
    };
    let token = admin.token.as_deref().expect("it has one");
    for (path, kind) in [
        ("/v1/streams/s/events", "application/x-ndjson"),
        ("/v1/rules/r/versions", "application/wasm"),
        ("/v1/tokens", "application/json"),
    ] {
        let said = said_only(1 << 40, path, kind, token);
        assert!(said.starts_with("HTTP/1.1 413") && said.contains("body-too-large"), "{path}: {said}");
        // Whoever may not send it hears that instead, and sends nothing either.
        let said = said_only(1 << 40, path, kind, reader.token.as_deref().expect("it has one"));
        assert!(said.starts_with("HTTP/1.1 403"), "{path}: {said}");
        let said = said_only(1 << 40, path, kind, "kf_nobody");
        assert!(said.starts_with("HTTP/1.1 401"), "{path}: {said}");
    }
    // One that does not say how long it is is read up to the limit.
    let body = reqwest::blocking::Body::new(std::io::repeat(b'x').take(20 << 20));
    let request = admin.request(Method::POST, "/v1/streams/s/events").header("content-type", "application/x-ndjson");
    if let Ok(response) = request.body(body).send() {
        assert_eq!(Reply::of(response).with_status(413).problem(), "body-too-large");
    }
    served.nobody().get("/healthz").ok();
}

#[test]
fn bodies_that_are_not_what_they_say_are_refused_with_reasons() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let rule = super::served::manifest("s");
    admin.put("/v1/rules/r", rule.clone()).ok();
    let put = |body: &str| admin.send(Method::PUT, "/v1/rules/r2", "application/json", body.to_owned());
    for body in [
        "",
        "{",
        "null",
        "[]",
        "{\"inputs\":{\"input\":[\"s\",[\"/k\"]]}}",
        "\"x\"",
        "{\"inputs\":{}}",
        "{\"inputs\":7}",
    ] {
        assert_eq!(put(body).status, 400, "{body}");
    }
    let mut wrong = rule;
    wrong["inputs"]["input"]["kye"] = json!(["/x"]);
    let reply = put(&wrong.to_string()).with_status(400);
    assert!(reply.text.contains("kye") && reply.text.contains("inputs.input"), "{}", reply.text);
    let upload = |kind: &str, body: &str| admin.send(Method::POST, "/v1/rules/r/versions", kind, body.to_owned());
    upload("application/json", "{}").with_status(415);
    upload("multipart/form-data", "x").with_status(400);
    upload(
        "multipart/form-data; boundary=b",
        "--b\r\ncontent-disposition: form-data; name=\"other\"\r\n\r\nx\r\n--b--\r\n",
    )
    .with_status(400);
    let send = |kind: &str, body: &str| admin.send(Method::POST, "/v1/streams/s/events", kind, body.to_owned()).status;
    assert_eq!(send("text/plain", "{}"), 415);
    assert_eq!(send("application/x-ndjson", "{}\n{"), 400);
    assert_eq!(send("application/json", "[{},7]"), 400);
    assert_eq!(send("application/cloudevents+json", "{\"id\":1}"), 400);
    assert_eq!(admin.get("/v1/streams/s").ok()["partitions"][0]["next"], 0, "nothing of a wrong body is taken");
}

#[test]
fn too_many_requests_and_events_are_told_when_to_come_again() {
    let served = Served::start();
    let quotas = json!({ "requests_per_second": 20, "events_per_second": 10 });
    let [admin, ..] = served.tenant_with("acme", quotas);
    admin.put("/v1/streams/s", json!({})).ok();
    let mut limited = None;
    wait_until("a request is too many", || {
        let reply = admin.get("/v1/streams");
        limited = (reply.status == 429).then_some(reply);
        limited.is_some()
    });
    let limited = limited.expect("it was waited for");
    assert!(limited.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{limited:?}");
    limited.problem();
    let [other, ..] = served.tenant("other");
    other.get("/v1/streams").ok();
    let mut said = String::new();
    wait_until("events are too many", || {
        let keys = vec!["k"; 10];
        let reply = admin.send(Method::POST, "/v1/streams/s/events", "application/x-ndjson", lines(keys));
        if reply.status == 429 {
            said = reply.problem()
        }
        said.contains("events")
    });
}

#[test]
fn a_rule_that_never_ends_costs_its_tenant_and_nobody_else() {
    let served = Served::start();
    let [hostile, ..] = served.tenant("hostile");
    let [quiet, ..] = served.tenant("quiet");
    run_guest(&hostile, "loop", "s", "endless-loop");
    run_guest(&quiet, "r", "s", "no-imports");
    let bad: Vec<String> = (0..200).map(|number| format!("bad{number}")).collect();
    super::served::send(&hostile, "s", &lines(bad.iter().map(String::as_str)));
    for number in 0..20 {
        let event = json!({ "key": format!("k{number}"), "at": 1000 });
        let decision = quiet.post("/v1/rules/r/decide", event).ok();
        assert_eq!(decision["decided"], true, "{decision}");
    }
}
