//! Tails: server-sent events of streams, outputs and logs. They end with the token, and with the server.

use super::ask::Ask;
use super::served::{Served, events, lines, run_guest, send};
use crate::support::process::wait_until;
use reqwest::Method;
use reqwest::blocking::Response;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A tail that is read by a thread of its own.
struct Tail(Receiver<Sent>);

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    name: String,
    id: String,
    data: String,
}

impl Tail {
    fn open(ask: &Ask, path: &str, last: Option<&str>) -> Self {
        let mut request = ask.request(Method::GET, path).timeout(Duration::from_secs(120));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().expect("the server answers");
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (sender, receiver) = channel();
        thread::spawn(move || read(response, |sent| sender.send(sent).is_ok()));
        Tail(receiver)
    }

    fn next(&self) -> Sent {
        self.0.recv_timeout(Duration::from_secs(60)).expect("an event comes")
    }

    fn next_json(&self) -> Value {
        serde_json::from_str(&self.next().data).expect("it is JSON")
    }

    /// Why it ended.
    fn end(&self) -> String {
        let last = self.next();
        assert_eq!(last.name, "end", "{last:?}");
        assert!(self.0.recv_timeout(Duration::from_secs(60)).is_err(), "nothing comes after the end");
        last.data
    }
}

fn read(response: Response, mut each: impl FnMut(Sent) -> bool) {
    let mut sent = Sent { name: String::new(), id: String::new(), data: String::new() };
    for line in BufReader::new(response).lines().map_while(Result::ok) {
        match line.split_once(": ") {
            Some(("event", value)) => sent.name = value.to_owned(),
            Some(("id", value)) => sent.id = value.to_owned(),
            Some(("data", value)) => sent.data += value,
            _ if line.is_empty() && !sent.name.is_empty() => {
                if !each(sent.clone()) {
                    return;
                }
                sent = Sent { name: String::new(), id: String::new(), data: String::new() };
            }
            _ => {}
        }
    }
}

#[test]
fn a_tail_of_a_stream_shows_what_comes_and_goes_on_where_it_was() {
    let served = Served::start();
    let [admin, .., reader] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({ "partitions": 2, "key": "/key" })).ok();
    send(&admin, "s", &lines(["before"]));
    let tail = Tail::open(&reader, "/v1/streams/s/tail", None);
    send(&admin, "s", &lines(["a", "b", "c", "d"]));
    let seen: Vec<Sent> = (0..4).map(|_| tail.next()).collect();
    let key = |sent: &Sent| serde_json::from_str::<Value>(&sent.data).expect("it is JSON")["event"]["key"].clone();
    let mut keys: Vec<Value> = seen.iter().map(key).collect();
    keys.sort_by_key(Value::to_string);
    assert_eq!(keys, ["a", "b", "c", "d"]);
    let again = Tail::open(&reader, "/v1/streams/s/tail", Some(&seen[1].id));
    let rest = [again.next(), again.next()];
    assert_eq!(rest.each_ref().map(key), [key(&seen[2]), key(&seen[3])], "those after the second one, and no other");
    let whole = Tail::open(&reader, "/v1/streams/s/tail?from=start", None);
    assert!((0..5).map(|_| whole.next()).any(|sent| key(&sent) == "before"));
}

#[test]
fn a_revoked_token_ends_what_it_has_open() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let secret = served.token("acme", "short-lived", "reader");
    let tail = Tail::open(&admin.with(&secret), "/v1/streams/s/tail", None);
    send(&admin, "s", &lines(["a"]));
    assert_eq!(tail.next_json()["event"]["key"], "a");
    admin.delete("/v1/tokens/short-lived").with_status(204);
    send(&admin, "s", &lines(["b"]));
    assert!(tail.end().contains("token"));
}

#[test]
fn a_stopping_server_ends_tails_and_says_so() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let tail = Tail::open(&admin, "/v1/streams/s/tail", None);
    let (finished, _) = served.stop();
    finished.ok();
    assert!(tail.end().contains("server"));
}

#[test]
fn outputs_and_log_of_a_rule_can_be_followed() {
    let served = Served::start();
    let [admin, .., reader] = served.tenant("acme");
    run_guest(&admin, "r", "s", "log-long-line");
    let outputs = Tail::open(&reader, "/v1/rules/r/outputs", None);
    let log = Tail::open(&reader, "/v1/rules/r/log", None);
    send(&admin, "s", &lines(["a", "bad"]));
    let first = outputs.next_json();
    assert_eq!(first["event"]["output"]["key"], "a", "{first}");
    assert!(first["event"]["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{first}");
    assert_eq!(log.next().name, "log");
    wait_until("both outputs are in the stream", || events(&reader, "r.outputs").len() == 2);
}

#[test]
fn a_tail_that_cannot_be_is_refused() {
    let served = Served::start();
    let [.., reader] = served.tenant("acme");
    reader.get("/v1/streams/absent/tail").with_status(404);
    let request = reader.request(Method::GET, "/v1/streams/absent/tail").header("last-event-id", "x");
    assert_eq!(request.send().expect("the server answers").status().as_u16(), 400);
    reader.get("/v1/streams/absent/tail?from=middle").with_status(400);
}
