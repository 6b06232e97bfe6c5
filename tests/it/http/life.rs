//! A rule's life over HTTP: made, filled, swapped, rolled back, watched, mended, deleted.

use super::served::{Served, events, lines, manifest, run_guest, send, upload};
use crate::support::process::wait_until;
use crate::support::rules;
use reqwest::Method;
use serde_json::{Value, json};

#[test]
fn a_rule_puts_out_what_its_versions_say_and_each_output_names_its_digest() {
    let served = Served::start();
    let [admin, author, operator, reader] = served.tenant("acme");
    author.put("/v1/streams/s", json!({})).with_status(201);
    author.put("/v1/streams/s", json!({})).with_status(200);
    author.put("/v1/rules/r", manifest("s")).with_status(201);
    author.put("/v1/rules/r", manifest("s")).with_status(200);
    let first = upload(&author, "r", rules::guest("slow"));
    assert_eq!(first["status"], "ready", "{first}");
    let path = "/v1/rules/r/versions";
    author.send(Method::POST, path, "application/wasm", rules::guest("slow")).with_status(200);
    author.post("/v1/rules/r/activate", json!({ "version": first["digest"] })).with_status(403);
    operator.post("/v1/rules/r/activate", json!({ "version": first["digest"] })).with_status(200);
    send(&author, "s", &lines(["a", "b"]));
    wait_until("the outputs are there", || events(&reader, "r.outputs").len() == 2);
    let second = upload(&author, "r", rules::guest("fail"));
    let activation = json!({ "version": second["digest"], "state": "keep" });
    let record = operator.post("/v1/rules/r/activate", activation).ok();
    assert_eq!(record["from"]["digest"], first["digest"]);
    send(&author, "s", &lines(["a", "c", "bad"]));
    wait_until("the outputs are there", || events(&reader, "r.outputs").len() == 4);
    let outputs = events(&reader, "r.outputs");
    let digests: Vec<&Value> = outputs.iter().map(|output| &output["digest"]).collect();
    assert_eq!(digests, [&first["digest"], &first["digest"], &second["digest"], &second["digest"]]);
    let kept = outputs.iter().filter(|output| output["output"]["key"] == "a").map(|output| &output["output"]["count"]);
    assert_eq!(kept.collect::<Vec<_>>(), [&json!(1), &json!(2)], "the state was kept");
    let letters = reader.get("/v1/rules/r/dead-letters").ok();
    assert_eq!(letters.as_array().map(Vec::len), Some(1), "{letters}");
    let back = operator.post("/v1/rules/r/rollback", json!({ "state": "keep" })).ok();
    assert_eq!(back["to"]["digest"], first["digest"]);
    let driven = operator.post("/v1/rules/r/dead-letters/re-drive", json!({ "all": true })).ok();
    assert_eq!(driven["events"], 1);
    wait_until("the letter's event has run", || events(&reader, "r.outputs").len() == 5);
    assert_eq!(reader.get("/v1/rules/r/dead-letters").ok(), json!([]), "its event ran again");
    let all = reader.get("/v1/rules/r/dead-letters?all=true").ok();
    assert!(all[0]["re_driven"].is_u64(), "{all}");
    let state = reader.get("/v1/rules/r/state?key=bad").ok();
    assert_eq!(state["key"], "bad");
    let record = reader.get("/v1/rules/r/activations").ok();
    assert_eq!(record.as_array().map(Vec::len), Some(3));
    let audit = admin.get("/v1/audit?limit=1000").ok();
    let done = |action: &str, outcome: &str| {
        let entries = audit.as_array().expect("it is a list").iter();
        entries.filter(|entry| entry["action"] == action && entry["outcome"] == outcome).count()
    };
    assert_eq!((done("rule.activate", "done"), done("rule.activate", "forbidden")), (2, 1), "{audit}");
    assert_eq!((done("rule.rollback", "done"), done("version.upload", "done") >= 2), (1, true), "{audit}");
}

#[test]
fn a_component_that_is_no_rule_is_refused_and_cannot_be_activated() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    admin.put("/v1/rules/r", manifest("s")).ok();
    for (guest, part) in
        [("asks-for-network", "evil:net"), ("describe-garbage", "description"), ("wrong-world", "export")]
    {
        let version = upload(&admin, "r", rules::guest(guest));
        assert_eq!(version["status"], "refused", "{version}");
        assert!(version["reason"].as_str().is_some_and(|reason| reason.contains(part)), "{version}");
        let refused = admin.post("/v1/rules/r/activate", json!({ "version": version["digest"] }));
        assert!((400..500).contains(&refused.status), "{}", refused.text);
    }
    let version = upload(&admin, "r", b"no component at all".to_vec());
    assert_eq!(version["status"], "refused", "{version}");
}

#[test]
fn a_form_brings_the_same_version_as_the_bytes_alone() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    admin.put("/v1/rules/r", manifest("s")).ok();
    let component = rules::guest("no-imports");
    let mut form =
        b"--b\r\ncontent-disposition: form-data; name=\"component\"; filename=\"rule.wasm\"\r\n\r\n".to_vec();
    form.extend_from_slice(&component);
    form.extend_from_slice(b"\r\n--b--\r\n");
    let formed = admin.send(Method::POST, "/v1/rules/r/versions", "multipart/form-data; boundary=b", form).ok();
    assert_eq!(formed["digest"], upload(&admin, "r", component)["digest"]);
    assert_eq!(admin.get("/v1/rules/r/versions").ok().as_array().map(Vec::len), Some(1));
}

#[test]
fn events_are_read_back_as_they_were_sent_and_repeated_requests_are_taken_once() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/s", json!({})).ok();
    let repeat = |body: &str| {
        let request = admin.request(Method::POST, "/v1/streams/s/events").header("idempotency-key", "once");
        let request = request.header("content-type", "application/json").body(body.to_owned());
        super::ask::Reply::of(request.send().expect("the server answers"))
    };
    let first = repeat("[{\"n\":1},{\"n\":2}]").ok();
    assert_eq!(repeat("[{\"n\":1},{\"n\":2}]").ok()["placed"], first["placed"]);
    let other = repeat("[{\"n\":3}]");
    assert_eq!(other.problem(), "idempotency-key-reused");
    let cloud_event = json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": { "n": 4 } });
    admin.send(Method::POST, "/v1/streams/s/events", "application/cloudevents+json", cloud_event.to_string()).ok();
    let page = admin.get("/v1/streams/s/events?from=1&limit=1").with_status(200);
    assert_eq!((page.header("keyfold-next"), page.header("content-type")), ("2", "application/x-ndjson"));
    assert_eq!(events(&admin, "s"), [json!({ "n": 1 }), json!({ "n": 2 }), cloud_event]);
}

#[test]
fn a_decision_answers_after_the_commit_and_names_its_version() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    let record = run_guest(&admin, "r", "s", "no-imports");
    let decision = admin.post("/v1/rules/r/decide", json!({ "key": "a", "at": 1000 })).ok();
    assert_eq!((&decision["decided"], &decision["key"]), (&json!(true), &json!("a")), "{decision}");
    assert_eq!(decision["outputs"].as_array().map(Vec::len), Some(1), "{decision}");
    assert_eq!(decision["version"]["digest"], record["to"]["digest"]);
    assert_eq!(admin.get("/v1/rules/r/state?key=a").ok()["key"], "a", "it was committed before the answer");
}

#[test]
fn a_paused_rule_keeps_its_place_and_answers_with_the_declared_default() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    run_guest(&admin, "r", "s", "no-imports");
    let mut declared = manifest("s");
    declared["decide"] = json!({ "deadline": "100ms", "default": { "allow": true } });
    admin.put("/v1/rules/r", declared).ok();
    assert_eq!(admin.post("/v1/rules/r/pause", json!({})).ok()["status"]["state"], "paused");
    let decision = admin.post("/v1/rules/r/decide", json!({ "key": "a", "at": 1000 })).ok();
    assert_eq!((&decision["decided"], &decision["answer"]), (&json!(false), &json!({ "allow": true })), "{decision}");
    admin.post("/v1/rules/r/resume", json!({})).ok();
    wait_until("the event was put through the rule all the same", || events(&admin, "r.outputs").len() == 1);
}

#[test]
fn metrics_show_a_tenant_its_own_and_the_platform_all() {
    let served = Served::start();
    let [one, ..] = served.tenant("one");
    let [other, ..] = served.tenant("other");
    run_guest(&one, "r", "s", "no-imports");
    run_guest(&other, "q", "s", "no-imports");
    send(&one, "s", &lines(["a"]));
    wait_until("the key is counted", || {
        one.get("/metrics").text.contains("keyfold_state_keys{tenant=\"one\",rule=\"r\"} 1")
    });
    let text = one.get("/metrics").with_status(200).text;
    assert!(!text.contains("other") && text.ends_with("# EOF\n"), "{text}");
    let all = served.platform.get("/metrics").text;
    assert!(all.contains("tenant=\"one\"") && all.contains("tenant=\"other\""), "{all}");
    assert!(all.contains("keyfold_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"200\"}"), "{all}");
}

#[test]
fn a_rule_that_is_deleted_with_drain_finishes_and_is_gone() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    run_guest(&admin, "r", "s", "no-imports");
    send(&admin, "s", &lines(["a", "b"]));
    admin.delete("/v1/streams/s").with_status(409);
    admin.delete("/v1/rules/r?drain=1s").with_status(204);
    wait_until("the rule is gone", || admin.get("/v1/rules/r").status == 404);
    assert_eq!(events(&admin, "r.outputs").len(), 2);
    admin.delete("/v1/streams/s").with_status(204);
}
