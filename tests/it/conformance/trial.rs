//! A fact is tried: each of its cases with every rule, row before it, number of partitions and way of running.

use super::fact::{Case, Fact, Row, json};
use super::report::{Failure, Report};
use super::stage::{Setup, Stage};
use super::steps::{self, Way};
use super::{calls, kit, play};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::NamedTempFile;

/// Tries a fact.
pub fn of(stage: &Stage, fact: &Fact) -> Report {
    let mut report = Report::new(fact);
    for (number, case) in (1..).zip(&fact.cases) {
        let name = case.name.clone().unwrap_or_else(|| format!("case {number}"));
        report.host |= needs_host(case);
        report.kit |= case.calls.is_some() || case.test_kit;
        for rule in case.rule.all() {
            let place = format!("{} {name}, {rule}", fact.id);
            let (tried, failures) = of_rule(stage, case, rule, &place);
            report.cases += tried;
            report.failures.extend(failures);
        }
    }
    report
}

/// Whether a case can be tried in the host; otherwise only the test kit can do what it does.
pub fn needs_host(case: &Case) -> bool {
    !case.test_kit
}

/// How many times it was tried, and what did not hold.
fn of_rule(stage: &Stage, case: &Case, rule: &str, place: &str) -> (usize, Vec<String>) {
    let mut tried = 0;
    let mut failures = Vec::new();
    let mut note = |place: String, result: Result<Vec<String>>| {
        tried += 1;
        match result {
            Ok(found) => failures.extend(found.into_iter().map(|failure| format!("{place}{failure}"))),
            Err(error) => failures.push(format!("{place}: {error:#}")),
        }
    };
    if case.test_kit {
        let expected = case.refused.as_deref();
        let found = kit::refusal(case, rule);
        let failure = Failure::unless_equal("the test kit refuses", &json!(expected), &json!(found)).err();
        note(place.to_owned(), Ok(failure.iter().map(|failure| failure.at("")).collect()));
        return (tried, failures);
    }
    let is_about_calls = case.calls.is_some() || case.not_called;
    for (number, &partitions) in case.partitions.all().iter().enumerate() {
        let place = format!("{place}, {partitions} partitions");
        let setup = |initial: &Option<Initial>| Setup {
            rule: rule.to_owned(),
            parameters: case.parameters.clone(),
            policy: case.policy.clone(),
            partitions,
            initial_state: initial.as_ref().map(Initial::path),
        };
        let initial = match Initial::of(stage, case, &setup(&None)) {
            Ok(initial) => initial,
            Err(error) => {
                note(place, Err(error.context("the initial state")));
                continue;
            }
        };
        if let Some(part) = &case.refused {
            note(place, refused(stage, case, setup(&initial), part).map(|()| Vec::new()));
        } else if is_about_calls {
            if number + 1 < case.partitions.all().len() {
                // How many partitions there are says nothing about one call.
                continue;
            }
            for prior in case.prior.all() {
                let place = format!("{place}, {prior:?}");
                note(place, of_calls(stage, case, setup(&initial), prior));
            }
        } else {
            for &way in Way::of(case, number) {
                let played = steps::play(stage, case, setup(&initial), way);
                let placed = |(step, failure): (usize, Failure)| failure.at(&format!(", step {step}"));
                let failures = played.map(|found| found.into_iter().map(placed).collect());
                note(format!("{place}, {way:?}"), failures);
            }
        }
    }
    (tried, failures)
}

fn of_calls(stage: &Stage, case: &Case, setup: Setup, prior: &Row) -> Result<Vec<String>> {
    // Only the host decides whether a key is called.
    let played = if case.not_called { Ok(vec![kit::After::of(prior)]) } else { kit::play(case, &setup.rule, prior) };
    let after = match played {
        Ok(after) => after,
        Err(failure) => return Ok(vec![failure.at("")]),
    };
    let failures = calls::play(stage, case, setup, prior, &after)?;
    Ok(failures.iter().map(|failure| failure.at("")).collect())
}

/// Nothing may run: the refusal comes when the host is opened, or at the latest when its first run begins.
fn refused(stage: &Stage, case: &Case, setup: Setup, part: &str) -> Result<()> {
    let ran = play::Play::start(stage, case, setup).and_then(|mut play| play.run());
    let refusal = ran.err().with_context(|| format!("it is not refused with '{part}'"))?;
    ensure!(format!("{refusal:#}").contains(part), "it is refused without '{part}': {refusal:#}");
    Ok(())
}

/// The file of an initial state.
enum Initial {
    Written(NamedTempFile),
    Named(PathBuf),
}

impl Initial {
    fn path(&self) -> PathBuf {
        match self {
            Initial::Written(file) => file.path().to_owned(),
            Initial::Named(path) => path.clone(),
        }
    }

    fn of(stage: &Stage, case: &Case, setup: &Setup) -> Result<Option<Self>> {
        if let Some(name) = &case.initial_file {
            return Ok(Some(Initial::Named(name.into())));
        }
        let lines: Vec<Value> = match (&case.initial, &case.initial_from) {
            (Some(rows), _) => rows.iter().map(|row| json(&row.clone().into())).collect(),
            (None, Some(events)) => {
                let query = Case { batch: true, initial_from: None, ..case.clone() };
                let mut play = play::Play::start(stage, &query, setup.clone())?;
                events.iter().try_for_each(|event| play.add(event))?;
                // What the functions of the guests put out begins with the key and ends with the value.
                let row =
                    |output: &Value| json!({ "key": output[0], "value": output.as_array().and_then(|row| row.last()) });
                play.run()?.outputs.iter().map(row).collect()
            }
            (None, None) => return Ok(None),
        };
        let file = NamedTempFile::new()?;
        fs::write(file.path(), lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        Ok(Some(Initial::Written(file)))
    }
}
