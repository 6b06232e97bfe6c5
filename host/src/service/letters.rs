//! Dead letters of a rule: listed, run again, deleted. All of it works while the rule runs.

use super::model::{LetterFilter, LettersTaken};
use super::rule_entry::RuleEntry;
use super::{Answer, Caller, Operation, Service, ServiceError};
use crate::event::PartitionId;
use crate::imports::{self, Edit, LetterId, LettersToPurge, OUTPUT_REFUSED, RedrivenEvent};
use crate::state::reader::PartitionReader;
use crate::state::{KeptLetter, PlanLog, RefusedOutput};
use anyhow::Result;
use serde_json::{Value, json};

/// Letters that are run again or deleted by one request.
const LETTERS_MAX: usize = 100_000;

impl Service {
    /// Dead letters, oldest first, as `keyfold dead-letters` shows them, at most `limit`. With `all`, those whose events ran again, too.
    pub fn dead_letters(&self, caller: &Caller, name: &str, filter: &LetterFilter, limit: usize) -> Answer<Vec<Value>> {
        let tenant = self.looking(caller, Operation::LETTERS_READ)?;
        let rule = tenant.rule(name)?;
        let mut lines = Vec::new();
        each(&rule, |partition, kept| {
            let is_open = filter.all || kept.re_driven.is_none();
            if lines.len() < limit && is_open && is_asked_for(filter, &kept) {
                lines.push(line(&rule, partition, &kept)?);
            }
            Ok(lines.len() < limit)
        })?;
        let asks_for_refused = filter.reason.as_ref().is_none_or(|reason| reason == OUTPUT_REFUSED);
        if lines.len() < limit && filter.key.is_none() && asks_for_refused && rule.folder.join("plan.db").exists() {
            PlanLog::refused_outputs(&rule.folder, |refused| {
                if lines.len() < limit {
                    lines.push(line_of_refused(refused));
                }
                Ok(())
            })?;
        }
        Ok(lines)
    }

    /// Lets the events of dead letters run again, each with its own event time.
    pub fn re_drive(&self, caller: &Caller, name: &str, filter: &LetterFilter) -> Answer<LettersTaken> {
        self.changing_in(caller, Operation::LETTERS_RE_DRIVE, name, |deed, tenant| {
            let rule = tenant.rule(name)?;
            let _lock = rule.lock()?;
            says_which(filter)?;
            let runner = self.runner_of(&rule)?;
            let mut events = Vec::new();
            let mut letters = 0;
            each(&rule, |partition, kept| {
                if kept.re_driven.is_none() && is_asked_for(filter, &kept) {
                    letters += 1;
                    let letter = LetterId { partition, batch: kept.batch, number: kept.number };
                    events.extend(kept.letter.events.into_iter().filter_map(|event| {
                        let (text, input, file, line) = (event.text, event.input?, event.file, event.line);
                        Some(RedrivenEvent { text, input, file, line, letter })
                    }));
                }
                Ok(letters < LETTERS_MAX)
            })?;
            let edit = Edit { by: format!("{}/{}", tenant.name, deed.by()), ..Edit::new("re-drive", None) };
            let driven = imports::re_drive_as(&rule.folder, &events, &edit)?;
            runner.wake_for_imports();
            let taken = LettersTaken { letters: letters as u64, events: driven };
            self.catalogue.record(deed.line(json!({ "filter": filter, "taken": taken })))?;
            Ok(taken)
        })
    }

    /// Deletes dead letters.
    pub fn purge_letters(&self, caller: &Caller, name: &str, filter: &LetterFilter) -> Answer<LettersTaken> {
        self.changing_in(caller, Operation::LETTERS_PURGE, name, |deed, tenant| {
            let rule = tenant.rule(name)?;
            let _lock = rule.lock()?;
            says_which(filter)?;
            let runner = self.runner_of(&rule)?;
            let (mut letters, mut events) = (0, 0);
            each(&rule, |_, kept| {
                if is_asked_for(filter, &kept) {
                    letters += 1;
                    events += kept.letter.events.len() as u64;
                }
                Ok(true)
            })?;
            let which = LettersToPurge { reason: filter.reason.clone(), key: filter.key.clone() };
            imports::purge(&rule.folder, &which, &format!("{}/{}", tenant.name, deed.by()), None)?;
            runner.wake_for_imports();
            let taken = LettersTaken { letters, events };
            self.catalogue.record(deed.line(json!({ "filter": filter, "taken": taken })))?;
            Ok(taken)
        })
    }
}

/// A filter that says nothing would take all by mistake.
fn says_which(filter: &LetterFilter) -> Answer<()> {
    if filter.reason.is_some() || filter.key.is_some() || filter.all {
        return Ok(());
    }
    Err(ServiceError::invalid("invalid", "say which dead letters: with a reason, a key, or all"))
}

fn is_asked_for(filter: &LetterFilter, kept: &KeptLetter) -> bool {
    filter.reason.as_ref().is_none_or(|reason| *reason == kept.letter.reason)
        && filter.key.as_ref().is_none_or(|key| kept.letter.key.as_ref() == Some(key))
}

/// Calls `each` with every letter, until it says that this is enough. A rule that has not run has none.
fn each(rule: &RuleEntry, mut each: impl FnMut(PartitionId, KeptLetter) -> Result<bool>) -> Result<()> {
    let partitions = rule.known().checked.partitions;
    let mut goes_on = true;
    for partition in (0..partitions).map(PartitionId) {
        if !goes_on || !rule.folder.join("plan.db").exists() {
            break;
        }
        let Ok(reader) = PartitionReader::open(&rule.folder, partition) else { continue };
        reader.kept_letters(|kept| {
            if goes_on {
                goes_on = each(partition, kept)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn line(rule: &RuleEntry, partition: PartitionId, kept: &KeptLetter) -> Result<Value> {
    let known = rule.known();
    let inputs = &known.checked.inputs;
    let mut line = serde_json::to_value(&kept.letter)?;
    for event in line["events"].as_array_mut().into_iter().flatten() {
        let Some(event) = event.as_object_mut() else { continue };
        let number = event.shift_remove("input").and_then(|input| input.as_u64());
        if let Some(input) = number.and_then(|number| inputs.get(number as usize)).filter(|_| inputs.len() > 1) {
            event.insert("input".to_owned(), input.name.as_str().into());
        }
    }
    line["partition"] = partition.0.into();
    line["batch"] = kept.batch.0.into();
    line["number"] = kept.number.into();
    if let Some(batch) = kept.re_driven {
        line["re_driven"] = batch.0.into();
    }
    Ok(line)
}

/// With the members that every letter has, so that they can be read by one program.
fn line_of_refused(refused: RefusedOutput) -> Value {
    let RefusedOutput { batch, partition, number, output, message } = refused;
    json!({
        "reason": OUTPUT_REFUSED,
        "message": message,
        "timed_out": false,
        "events": [],
        "output": serde_json::from_str(&output).unwrap_or(Value::String(output)),
        "number": number,
        "partition": partition.0,
        "batch": batch.0,
    })
}
