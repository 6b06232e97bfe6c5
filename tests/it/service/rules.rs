//! Manifests: what is wrong is named, what cannot change is refused, what changes takes effect.

use super::kit::{Server, counting, manifest};
use crate::support::rules::guest;
use keyfold::host::StateChoice;
use keyfold::service::model::{Activate, Manifest, OutputManifest, StreamSettings, VersionStatus};
use keyfold::service::{ErrorKind, Service};
use serde_json::{Value, json};

fn field_of(error: &keyfold::service::ServiceError) -> Option<&str> {
    match &error.kind {
        ErrorKind::Invalid { field } => field.as_deref(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_manifest_that_cannot_be_read_names_the_field_with_its_path() {
    let input = json!({ "stream": "events", "key": ["/key"] });
    for (text, field) in [
        (json!({ "inputs": { "a": input }, "partitons": 2 }), Some("partitons")),
        (json!({ "inputs": { "a": { "stream": "events", "key": ["/key"], "delay": "1s" } } }), Some("inputs.a.delay")),
        (json!({ "inputs": { "a": { "key": ["/key"] } } }), Some("inputs.a.stream")),
        (json!({ "inputs": { "a": input }, "batch": { "event": 3 } }), Some("batch.event")),
        (json!({ "inputs": { "a": input }, "batch": 3 }), Some("batch")),
        (json!({ "partitions": 1 }), Some("inputs")),
        (json!([]), None),
    ] {
        let error = Service::parse_manifest(text.to_string().as_bytes()).unwrap_err();
        assert_eq!(field_of(&error), field, "{text}: {error}");
    }
    Service::parse_manifest(json!({ "inputs": { "a": input } }).to_string().as_bytes()).unwrap();
}

#[test]
fn a_manifest_that_makes_no_sense_is_refused_with_the_field() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
    let with = |change: Value| {
        let mut value = serde_json::to_value(manifest("events")).unwrap();
        for (pointer, new) in change.as_object().unwrap() {
            let (path, name) = pointer.rsplit_once('/').unwrap();
            value.pointer_mut(path).unwrap()[name] = new.clone();
        }
        serde_json::from_value::<Manifest>(value).unwrap()
    };
    for (change, field) in [
        (json!({ "/inputs/input/stream": "none" }), "inputs.input.stream"),
        (json!({ "/inputs/input/key": [] }), "inputs.input.key"),
        (json!({ "/inputs/input/key": ["key"] }), "inputs.input.key"),
        (json!({ "/inputs/input/watermark_delay": "1s" }), "inputs.input.event_time"),
        (json!({ "/partitions": 0 }), "partitions"),
        (json!({ "/limits": { "fuel": 1 } }), "limits.fuel"),
        (json!({ "/limits": { "fuel-per-group": 0 } }), "limits.fuel-per-group"),
        (json!({ "/limits": { "memory-bytes-max": 1_u64 << 40 } }), "limits.memory-bytes-max"),
        (json!({ "/limits": { "compile-deadline-ms": 1 } }), "limits.compile-deadline-ms"),
        (json!({ "/batch": { "events": 0 } }), "batch.events"),
        (json!({ "/batch": { "interval": "soon" } }), "batch.interval"),
        (json!({ "/decide": { "deadline": "1h" } }), "decide.deadline"),
        (json!({ "/decide": { "input": "other" } }), "decide.input"),
        (json!({ "/watermark_policy": "both" }), "watermark_policy"),
        (json!({ "/errors": { "rollback_share": 2.0 } }), "errors.rollback_share"),
        (json!({ "/output": { "stream": "events" } }), "output.stream"),
        (json!({ "/output": { "stream": "a", "webhook": {} } }), "output"),
        (json!({ "/output": { "webhook": { "url": "http://127.0.0.1:1" } } }), "output.webhook"),
        (json!({ "/output": { "webhook": { "url": "http://[::1]" } } }), "output.webhook"),
        (json!({ "/output": { "webhook": { "url": "http://169.254.169.254/latest" } } }), "output.webhook"),
        (
            json!({ "/output": { "webhook": { "url": "https://a.example", "headers": { "A": "$HOME" } } } }),
            "output.webhook",
        ),
        (json!({ "/output": { "webhook": { "url": "https://a.example", "header": {} } } }), "output.webhook"),
    ] {
        let error = server.service.put_rule(&tenant.author, "count", &with(change.clone())).unwrap_err();
        assert_eq!(field_of(&error), Some(field), "{change}: {error}");
    }
    let streams = server.service.streams(&tenant.reader).unwrap();
    assert_eq!(streams.len(), 1, "no stream was made for the outputs of a rule that is none");
}

#[test]
fn what_cannot_change_once_a_rule_has_run_is_refused_and_can_before() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    let other_key = |key: &str| {
        let mut manifest = manifest("events");
        manifest.inputs.get_mut("input").unwrap().key = vec![key.to_owned()];
        manifest
    };
    let put = |manifest: &Manifest| server.service.put_rule(&tenant.author, "count", manifest);
    assert!(!put(&other_key("/other")).unwrap().is_new);
    put(&other_key("/key")).unwrap();
    server.run(&tenant, "count", &counting(0));
    let error = put(&other_key("/other")).unwrap_err();
    assert_eq!((error.code, field_of(&error)), ("cannot-change", Some("inputs.input.key")));
    let error = put(&Manifest { partitions: Some(2), ..manifest("events") }).unwrap_err();
    assert_eq!(field_of(&error), Some("partitions"));
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
}

#[test]
fn parameters_take_effect_as_an_activation_and_wrong_ones_leave_everything_as_it_was() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    let with = |parameters: Value| Manifest { parameters, ..manifest("events") };
    let put = |parameters: Value| server.service.put_rule(&tenant.author, "count", &with(parameters));
    put(json!({ "limit": 1 })).unwrap();
    server.run(&tenant, "count", &guest("configure"));
    put(json!({ "limit": 2 })).unwrap();
    let ran = server.service.activations(&tenant.reader, "count").unwrap();
    assert_eq!((ran.len(), ran[0].state, ran[0].by.as_deref()), (2, StateChoice::Keep, Some("author")));
    let error = put(json!({ "limit": 0 })).unwrap_err();
    assert_eq!(field_of(&error), Some("parameters"));
    let rule = server.service.rule(&tenant.reader, "count").unwrap();
    assert_eq!(rule.manifest.parameters, json!({ "limit": 2 }));
    let back = keyfold::service::model::Rollback { state: Some(StateChoice::Keep) };
    server.service.rollback(&tenant.operator, "count", &back).unwrap();
    let rule = server.service.rule(&tenant.reader, "count").unwrap();
    assert_eq!(rule.manifest.parameters, json!({ "limit": 1 }), "the manifest goes back with what runs");
    let server = server.again();
    let rule = server.service.rule(&tenant.reader, "count").unwrap();
    assert_eq!(rule.manifest.parameters, json!({ "limit": 1 }));
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
}

#[test]
fn a_version_that_needs_other_parameters_is_refused_and_says_which() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
    let wrong = Manifest { parameters: json!({ "limit": 0 }), ..manifest("events") };
    server.service.put_rule(&tenant.author, "count", &wrong).unwrap();
    let refused = server.upload(&tenant, "count", &guest("configure"));
    assert_eq!(refused.status, VersionStatus::Refused);
    assert!(refused.reason.unwrap().contains("limit"));
    let right = Manifest { parameters: json!({ "limit": 1 }), ..manifest("events") };
    server.service.put_rule(&tenant.author, "count", &right).unwrap();
    assert_eq!(
        server.upload(&tenant, "count", &guest("configure")).status,
        VersionStatus::Ready,
        "sent again, checked again"
    );
}

#[test]
fn a_rule_may_write_to_a_stream_that_others_read() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let mut second = manifest("count.outputs");
    second.output = Some(OutputManifest { stream: Some("both".to_owned()), webhook: None });
    server.service.put_rule(&tenant.author, "second", &second).unwrap();
    let version = server.upload(&tenant, "second", &counting(0));
    let activate = Activate { version: version.digest, state: None };
    server.service.activate(&tenant.operator, "second", &activate).unwrap();
    server.send(&tenant, &["a", "b"]);
    crate::support::process::wait_until("the second rule has put out", || server.read(&tenant, "both").len() == 2);
    let error = server.service.delete_stream(&tenant.author, "count.outputs").unwrap_err();
    assert_eq!(error.code, "stream-in-use");
    assert!(error.message.contains("count, second"), "{error}");
}
