//! [`Evaluator`]: runs a rule over groups so that a group that fails, fails alone.
//!
//! A failed call gives nothing, so nothing has to be undone: the group that the rule was working on is run again alone, to
//! confirm, and the groups before and after it without it. When nobody can say which group it was, the groups are halved.
//! Each of these parts gets an instance of its own: what one group did to the memory must not be blamed on the next. When so many
//! groups have failed as `failures-per-batch-max` says, the rule is not called for those that are left.

use crate::fair::{CpuShare, Turn};
use crate::fault;
use crate::group::{BatchContext, GroupColumns};
use crate::limits::Limits;
use crate::rule_log::{RuleLine, RuleLog};
use crate::wasm::answer::Outcome;
use crate::wasm::{Answer, CallError, Component, Reason, Sandbox};
use anyhow::{Context, Result};
use std::ops::Range;
use std::sync::Arc;

/// Runs a rule over the groups of one batch in one partition.
pub struct Evaluator<'a> {
    version: Version<'a>,
    context: &'a BatchContext,
    /// The instance; none before the first call and after a failed one.
    sandbox: Option<Sandbox>,
    /// With which it computes.
    turn: Arc<Turn>,
    log: &'a dyn RuleLog,
    /// Groups that have failed so far.
    failed: u64,
    /// Calls into the rule so far.
    pub calls: u64,
    /// Bytes of memory of the largest instance so far.
    pub memory_bytes: u64,
}

/// A version of the rule, as a batch was planned with it.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    /// Its code.
    pub component: &'a Component,
    /// Its parameters, as JSON text.
    pub parameters: &'a str,
    /// What it may use.
    pub limits: &'a Limits,
}

/// What became of one group.
pub struct Evaluated<'a> {
    /// The outcome, or why there is none.
    pub outcome: Result<Outcome<'a>, &'a CallError>,
    /// The fuel that the group used.
    pub fuel: u64,
}

impl<'a> Evaluator<'a> {
    /// Nothing runs yet.
    pub fn new(version: Version<'a>, context: &'a BatchContext, cpu: &CpuShare, log: &'a dyn RuleLog) -> Self {
        Evaluator { version, context, sandbox: None, turn: cpu.turn(), log, failed: 0, calls: 0, memory_bytes: 0 }
    }

    /// The version that it runs.
    pub fn version(&self) -> Version<'a> {
        self.version
    }

    /// Runs the rule over groups and tells what became of each, in their order.
    ///
    /// An error is not a group's fault: the rule could not be started.
    pub fn evaluate(&mut self, groups: &GroupColumns, mut each: impl FnMut(usize, Evaluated<'_>)) -> Result<()> {
        // The parts that are still to be run, the next one last.
        let whole = 0..groups.len();
        let mut parts = vec![whole];
        while let Some(part) = parts.pop() {
            if let Some(failures) = self.has_failed() {
                let error = rule_failing(failures);
                part.for_each(|group| each(group, Evaluated { outcome: Err(&error), fuel: 0 }));
                continue;
            }
            let called = if part.len() == groups.len() {
                self.call(groups)?
            } else {
                self.sandbox = None;
                self.call(&groups.slice(part.clone()))?
            };
            match called {
                Ok(answer) => {
                    self.report_log(groups, part.start, &answer);
                    for (number, group) in part.enumerate() {
                        let outcome = answer.outcome(number);
                        self.failed += u64::from(outcome.is_err());
                        each(group, Evaluated { outcome, fuel: answer.fuel_of(number) });
                    }
                }
                Err(error) if part.len() == 1 => {
                    self.failed += 1;
                    each(part.start, Evaluated { outcome: Err(&error), fuel: error.fuel });
                }
                Err(error) => parts.extend(split(part, &error).into_iter().rev().filter(|part| !part.is_empty())),
            }
        }
        Ok(())
    }

    /// Lets the rule rewrite states of one schema as it writes them, and tells what became of each, in their order. What is said
    /// of groups holds for states: one that fails, fails alone.
    pub fn migrate(
        &mut self,
        from_schema: u32,
        states: &[&[u8]],
        mut each: impl FnMut(usize, Result<&[u8], &CallError>),
    ) -> Result<()> {
        let whole = 0..states.len();
        let mut parts = vec![whole];
        while let Some(part) = parts.pop() {
            if let Some(failures) = self.has_failed() {
                let error = rule_failing(failures);
                part.for_each(|state| each(state, Err(&error)));
                continue;
            }
            if part.len() != states.len() {
                self.sandbox = None;
            }
            self.calls += 1;
            let mut sandbox = self.take_sandbox()?;
            let migrated = sandbox.migrate(from_schema, self.version.component, &states[part.clone()]);
            self.memory_bytes = self.memory_bytes.max(sandbox.memory_bytes());
            match migrated {
                Ok(migrated) => {
                    self.sandbox = Some(sandbox);
                    for (number, state) in part.enumerate() {
                        let migrated = migrated.state(number);
                        self.failed += u64::from(migrated.is_err());
                        each(state, migrated);
                    }
                }
                Err(error) if part.len() == 1 => {
                    self.failed += 1;
                    each(part.start, Err(&error));
                }
                Err(error) => parts.extend(split(part, &error).into_iter().rev().filter(|part| !part.is_empty())),
            }
        }
        Ok(())
    }

    fn take_sandbox(&mut self) -> Result<Sandbox> {
        let Version { component, parameters, limits } = self.version;
        match self.sandbox.take() {
            Some(sandbox) => Ok(sandbox),
            None => Sandbox::start_on(&self.turn, component, limits, parameters.as_bytes(), self.context)
                .context("failed to start the rule"),
        }
    }

    /// After how many failures the rule is not called any more, when there were so many.
    fn has_failed(&self) -> Option<u64> {
        self.version.limits.failures_per_batch_max.filter(|&max| self.failed >= max)
    }

    fn call(&mut self, groups: &GroupColumns) -> Result<Result<Answer, CallError>> {
        self.calls += 1;
        let mut sandbox = self.take_sandbox()?;
        fault::point("call-begin");
        let called = sandbox.call(self.context, groups);
        self.memory_bytes = self.memory_bytes.max(sandbox.memory_bytes());
        if called.is_ok() {
            self.sandbox = Some(sandbox);
        }
        Ok(called)
    }

    /// `first`: which of the groups the answer's first one is.
    fn report_log(&self, groups: &GroupColumns, first: usize, answer: &Answer) {
        let rule = &self.version.component.description().name;
        for line in answer.log() {
            let key = line
                .group
                .map_or_else(String::new, |group| String::from_utf8_lossy(groups.key_of(first + group)).into_owned());
            self.log.line(RuleLine { rule, level: line.level, key: &key, text: &line.text });
        }
        if answer.log_lines_dropped() > 0 {
            const WARN: u8 = 3;
            let text = format!("{} further log lines were dropped", answer.log_lines_dropped());
            self.log.line(RuleLine { rule, level: WARN, key: "", text: &text });
        }
    }
}

/// Why the rule is not called for a group.
fn rule_failing(failures: u64) -> CallError {
    let message = format!(
        "{failures} groups of this batch had failed before, and the rule was not called any more (failures-per-batch-max): \
         mend the rule, and let the events run again"
    );
    CallError::new(Reason::RuleFailing, message)
}

/// Cuts a part that failed into smaller ones: the blamed group alone, or halves.
fn split(part: Range<usize>, error: &CallError) -> Vec<Range<usize>> {
    match error.group {
        Some(group) if group < part.len() => {
            let blamed = part.start + group;
            vec![part.start..blamed, blamed..blamed + 1, blamed + 1..part.end]
        }
        _ => {
            let middle = part.start + part.len() / 2;
            vec![part.start..middle, middle..part.end]
        }
    }
}
