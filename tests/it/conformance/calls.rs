//! The calls of a case through the host. Keys stand for prefixes: the first has none of the calls made for it, the second the first
//! one, and so on. So the host shows what every single call leaves behind, and it must be what the test kit says.

use super::fact::{Case, Row, json};
use super::kit::{After, row};
use super::play::Play;
use super::report::Failure;
use super::stage::{Setup, Stage};
use anyhow::Result;
use serde_json::{Value, json};

/// A key that no call is about; its event moves the watermark.
const CLOCK: &str = "clock";
/// The watermark's delay in these cases: how far the clock's event is ahead of the watermark.
pub const CLOCK_AHEAD_MS: i64 = 1_000;

/// Makes the calls of a case in a host and compares with what the test kit gave.
pub fn play(stage: &Stage, case: &Case, mut setup: Setup, prior: &Row, kit: &[After]) -> Result<Vec<Failure>> {
    if case.timed_out {
        let calls: Vec<Value> = case.calls.iter().flatten().map(|call| call.json()).collect();
        setup.parameters.insert("on-timeout".to_owned(), toml::Value::try_from(calls)?);
    }
    let with_events = !case.timed_out && !case.not_called;
    // A call for a timeout makes all of the calls at once.
    let kit = if with_events { kit } else { &kit[kit.len() - 1..] };
    let keys: Vec<String> = (0..kit.len()).map(|number| format!("k{number:02}")).collect();
    let mut play = Play::start(stage, case, setup.clone())?;
    if *prior != Row::default() {
        let clock = if setup.rule == "facts-event" { "event-time" } else { "processing-time" };
        play.import_as_is(keys.iter().map(|key| imported(key, prior, clock)))?;
        play.run()?;
    }
    play.set_now(case.now.unwrap_or(0));
    let mut outputs = Vec::new();
    let mut counts = (0, 0);
    if let Some(watermark) = case.watermark.filter(|&watermark| watermark > 0) {
        play.put(&event(CLOCK, &[], Some(watermark + CLOCK_AHEAD_MS)));
        let ran = play.run()?;
        counts = (counts.0 + ran.updated(), counts.1 + ran.removed());
        outputs.extend(ran.outputs);
        // Without events a script puts out the empty list: of what it did for the clock.
        let of_clock = outputs.iter().position(|output| *output == json!([]));
        outputs.remove(of_clock.expect("the clock's event is a call"));
    }
    if with_events {
        // Not late, and not so far ahead that it moves the watermark.
        let at = case.has_event_time().then(|| case.watermark.unwrap_or(0) + 1);
        for (number, key) in keys.iter().enumerate() {
            let calls: Vec<Value> = case.calls.iter().flatten().take(number).map(|call| call.json()).collect();
            play.put(&event(key, &calls, at));
        }
    }
    let ran = play.run()?;
    counts = (counts.0 + ran.updated(), counts.1 + ran.removed());
    outputs.extend(ran.outputs);

    let mut failures = Vec::new();
    let mut check = |what: &str, expected: Value, found: Value| {
        failures.extend(Failure::unless_equal(what, &expected, &found).err());
    };
    outputs.sort_by_key(|output| output.as_array().map_or(0, Vec::len));
    let expected: Value =
        if case.not_called { json!([]) } else { kit.iter().map(|after| json!(after.results)).collect() };
    check("what the calls give in the host", expected, outputs.into());
    if case.batch {
        return Ok(failures);
    }
    for (number, (key, after)) in keys.iter().zip(kit).enumerate() {
        let found = play.row(key)?;
        let expected = row(&after.value, after.timeout);
        check(&format!("the row in the host after {number} calls"), expected, row(&found.value, found.timeout));
    }
    let counted = |of: fn(&After, &Row) -> bool| kit.iter().filter(|after| of(after, prior)).count();
    check("numRowsUpdated", counted(counts_as_updated).into(), counts.0.into());
    check("numRowsRemoved", counted(|after, _| after.removed && after.timeout.is_none()).into(), counts.1.into());
    if let Some(leaves) = &case.leaves {
        let found = play.row(keys.last().map_or("", String::as_str))?;
        check(
            "the row that is left",
            row(&leaves.value.as_ref().map(json), leaves.timeout),
            row(&found.value, found.timeout),
        );
    }
    Ok(failures)
}

/// Spark's table of what is written after a call.
fn counts_as_updated(after: &After, prior: &Row) -> bool {
    after.updated || (after.timeout.is_some() && after.removed) || (!after.removed && after.timeout != prior.timeout)
}

fn imported(key: &str, prior: &Row, clock: &str) -> Value {
    let mut line = json!({ "key": key });
    if let Some(value) = &prior.value {
        line["value"] = json(value);
    }
    if let Some(ms) = prior.timeout {
        line["timeout"] = json!({ "clock": clock, "ms": ms });
    }
    line
}

/// An event whose calls the guests make.
fn event(key: &str, calls: &[Value], at: Option<i64>) -> Value {
    let mut event = json!({ "key": key, "do": calls });
    if let Some(at) = at {
        event["ts"] = at.into();
    }
    event
}
