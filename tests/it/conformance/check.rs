//! What must have come of a step, compared with what did.

use super::fact::{Read, Step, json, millis, table};
use super::play::{Play, Ran};
use super::report::Failure;
use crate::support::command::{self, Finished};
use anyhow::{Result, ensure};
use keyfold::event::Millis;
use serde_json::Value;

/// What did not hold. After a crash the counts of the batches that were run again are not those of one run, so `counts` says
/// whether they are looked at.
pub fn check(step: &Step, ran: &Ran, play: &Play<'_>, counts: bool) -> Result<Vec<Failure>> {
    let mut failures = Vec::new();
    let mut check = |what: &str, expected: Value, found: Value| {
        failures.extend(Failure::unless_equal(what, &expected, &found).err());
    };
    if let Some(gives) = &step.gives {
        check("outputs", by_key(gives.iter().map(json)), by_key(ran.outputs.iter().cloned()));
    }
    if letters_differ(&step.dead_letters, &ran.letters) {
        check("dead letters", step.dead_letters.clone().into(), ran.letters.clone().into());
    }
    for (key, expected) in &step.state {
        check(&format!("state of {key}"), json(expected), play.row(key)?.value.unwrap_or(Value::Bool(false)));
    }
    for (key, expected) in &step.timeout {
        let found = play.row(key)?.timeout.map_or(Value::Bool(false), Value::from);
        check(&format!("timeout of {key}"), json(expected), found);
    }
    if let Some(expected) = &step.next_watermark {
        let found = play.next_watermark().map_or(Value::Null, |watermark| watermark.0.into());
        check("the watermark of the next batch", millis(expected).into(), found);
    }
    if let Some(expected) = &step.metadata {
        let printed = printed(&command::run(["state".as_ref(), "metadata".as_ref(), play.folder().as_os_str()]))?;
        let expected = table(expected);
        check("metadata", expected.clone(), narrowed(&expected, &printed));
    }
    if let Some(read) = &step.read {
        failures.extend(read_back(read, play)?);
    }
    if !counts {
        return Ok(failures);
    }
    let mut check = |what: &str, expected: Value, found: Value| {
        failures.extend(Failure::unless_equal(what, &expected, &found).err());
    };
    for (name, expected, found) in [
        ("numRowsTotal", step.total, ran.total()),
        ("numRowsUpdated", step.updated, ran.updated()),
        ("numRowsRemoved", step.removed, ran.removed()),
        ("numRowsDroppedByWatermark", step.dropped, ran.dropped()),
        ("batches", step.batches, ran.batches.len() as u64),
    ] {
        if let Some(expected) = expected {
            check(name, expected.into(), found.into());
        }
    }
    if let Some(expected) = &step.watermarks {
        let expected: Vec<Value> = expected.iter().map(|text| time(text)).collect();
        let found: Value = ran.event_times("watermark").collect();
        check("the watermarks of the batches", expected.into(), found);
    }
    for (name, expected) in &step.event_times {
        check(&format!("{name} of the event times"), time(expected), ran.event_times(name).next().unwrap_or_default());
    }
    Ok(failures)
}

/// The state after an earlier batch, as the command line shows it.
fn read_back(read: &Read, play: &Play<'_>) -> Result<Vec<Failure>> {
    let batch = read.batch.to_string();
    let get = |key: &str| {
        let folder = play.folder().to_string_lossy();
        command::run(["state", "get", folder.as_ref(), key, "--batch", &batch])
    };
    if let Some(part) = &read.refused {
        let message = get("a").stderr;
        let found = if message.contains(part) { part.clone() } else { message };
        return Ok(Failure::unless_equal("reading back", &part.as_str().into(), &found.into())
            .err()
            .into_iter()
            .collect());
    }
    let mut failures = Vec::new();
    for (key, expected) in &read.state {
        let found = printed(&get(key))?["value"].clone();
        let what = format!("state of {key} after batch {batch}");
        failures.extend(Failure::unless_equal(&what, &json(expected), &found).err());
    }
    Ok(failures)
}

/// The line that a command printed.
fn printed(finished: &Finished) -> Result<Value> {
    ensure!(finished.code == Some(0), "the command says: {}", finished.stderr);
    Ok(serde_json::from_str(&finished.stdout)?)
}

/// Of what was found, the members that are expected.
fn narrowed(expected: &Value, found: &Value) -> Value {
    match expected.as_object() {
        Some(members) => {
            members.iter().map(|(name, expected)| (name.clone(), narrowed(expected, &found[name]))).collect()
        }
        None => found.clone(),
    }
}

impl Ran {
    fn total(&self) -> u64 {
        self.batches.last().map_or(0, |batch| batch.state_operators[0].num_rows_total)
    }

    pub fn updated(&self) -> u64 {
        self.batches.iter().map(|batch| batch.state_operators[0].num_rows_updated).sum()
    }

    pub fn removed(&self) -> u64 {
        self.batches.iter().map(|batch| batch.state_operators[0].num_rows_removed).sum()
    }

    fn dropped(&self) -> u64 {
        self.batches.iter().map(|batch| batch.state_operators[0].num_rows_dropped_by_watermark).sum()
    }

    /// A member of each batch's `eventTime`, as the progress report shows it.
    fn event_times(&self, name: &str) -> impl Iterator<Item = Value> {
        let of = move |batch| serde_json::to_value(batch).map(|batch: Value| batch["eventTime"][name].clone());
        self.batches.iter().map(move |batch| of(batch).expect("a report can be written as JSON"))
    }
}

fn time(text: &str) -> Value {
    Millis(millis(text)).to_string().into()
}

/// Outputs in the order of their keys, which come first in them. Spark promises no order between keys; Keyfold promises one
/// within a key.
fn by_key(outputs: impl Iterator<Item = Value>) -> Value {
    let mut outputs: Vec<Value> = outputs.collect();
    outputs.sort_by_key(|output| output[0].to_string());
    outputs.into()
}

fn letters_differ(parts: &[String], letters: &[String]) -> bool {
    parts.len() != letters.len() || !parts.iter().zip(letters).all(|(part, letter)| letter.contains(part))
}
