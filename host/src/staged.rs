//! [`Staged`]: what a batch will change in one partition, collected in memory until it is committed.

use crate::decisions::{OfKey, Verdict};
use crate::envelope::Enveloped;
use crate::event::PartitionId;
use crate::generation::{Generation, Mark};
use crate::group::{StateChange, Timeout};
use crate::partition::Work;
use crate::state::delta::DeltaRow;
use crate::state::{DeadEvent, DeadLetter, DeltaBuilder, Loaded, OutputBlock, RowChanges};
use crate::wasm::answer::Outcome;
use crate::wasm::{CallError, Component, Reason};

/// What a batch will change in one partition.
#[derive(Debug, Default, PartialEq)]
pub struct Staged {
    /// The changed rows.
    pub delta: DeltaBuilder,
    /// By how much the numbers of rows change.
    pub rows_changed: RowChanges,
    /// What is put out.
    pub outputs: OutputBlock,
    /// What failed.
    pub dead_letters: Vec<DeadLetter>,
    /// What was said for keys that somebody waits for.
    pub decided: Vec<OfKey>,
    /// Spark's `numRowsUpdated`.
    pub rows_updated: u64,
    /// Spark's `numRowsRemoved`.
    pub rows_removed: u64,
}

/// What a batch is, and who was called.
#[derive(Clone, Copy)]
pub struct Calling<'a> {
    /// The batch.
    pub work: &'a Work,
    /// The partition.
    pub partition: PartitionId,
    /// The component.
    pub component: &'a Component,
}

/// A group as it was before its call.
pub struct GroupBefore<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its row as the version that runs it sees it: imported or migrated in this batch perhaps; none when there is none for it.
    pub loaded: Option<Loaded>,
    /// The row that the table has, whatever became of it.
    pub stored: Option<Mark>,
    /// Whether the row is imported or migrated in this batch, and so must be written even when the call changes nothing.
    pub rewritten: bool,
    /// The generation of what the call writes.
    pub generation: Generation,
    /// The schema of the states that the call writes.
    pub state_schema: u32,
    /// The component that is called.
    pub digest: &'a str,
    /// Its state, empty when it had none.
    pub state: &'a [u8],
    /// Whether it was called for its timeout.
    pub timed_out: bool,
    /// Whether its timeout was due in this batch, also when it was called for its events.
    pub was_due: bool,
}

/// A row to be written.
pub struct NewRow<'a> {
    /// Its generation and schema.
    pub mark: Mark,
    /// Its state; empty when the mark has no schema.
    pub state: &'a [u8],
    /// Its timeout.
    pub timeout: Option<Timeout>,
}

/// Bytes that one batch may write in one partition. Every group has limits of its own; this bounds their sum, which is held in
/// memory and written as one transaction. SQLite takes no blob of more than a gigabyte.
const STAGED_BYTES_MAX: usize = 512 * 1024 * 1024;

impl Staged {
    /// Takes what a call decided, or its failure when the batch has no room left for it.
    pub fn take(
        &mut self,
        before: &GroupBefore<'_>,
        outcome: &Outcome<'_>,
        calling: Calling<'_>,
        fuel: u64,
        events: impl FnOnce() -> Vec<DeadEvent>,
    ) {
        let state_bytes = match outcome.change {
            _ if calling.work.plan.batch_query => 0,
            StateChange::Update(state) => state.len(),
            _ => before.state.len(),
        };
        let bytes = self.delta.bytes() + self.outputs.lines.len() + state_bytes + outcome.outputs.len();
        if bytes <= STAGED_BYTES_MAX {
            self.take_outputs(before.key, outcome, calling);
            // In a batch query states and timeouts may be set, and nothing will ever look at them.
            if !calling.work.plan.batch_query {
                self.take_outcome(before, outcome);
            }
            return;
        }
        let message = format!(
            "the states and outputs of the batch are over {} MiB in this partition: write less, or lower batch-events (batch-bytes in a batch query)",
            STAGED_BYTES_MAX / (1024 * 1024)
        );
        let error = CallError::new(Reason::OutputLimit, message);
        self.take_failure(before, &error, fuel, calling, events());
    }

    /// Takes what a call decided: Spark's write-back table.
    ///
    /// | after the call | row | counted as |
    /// |---|---|---|
    /// | removed, no timeout | deleted | removed |
    /// | removed, timeout | timeout without state | updated |
    /// | updated | state, new timeout or none | updated |
    /// | neither, timeout changed | old state, new timeout or none | updated |
    /// | neither, timeout the same | left alone | - |
    ///
    /// One difference: a row that would have neither state nor timeout is deleted, where Spark keeps it for ever.
    fn take_outcome(&mut self, before: &GroupBefore<'_>, outcome: &Outcome<'_>) {
        let timeout = outcome.timeout;
        let old_timeout = before.loaded.and_then(|loaded| loaded.timeout);
        let old_schema = before.loaded.and_then(|loaded| loaded.mark.schema);
        let mut put = |schema: Option<u32>, state| {
            let mark = Mark { generation: before.generation, schema };
            self.put(before.key, before.stored, NewRow { mark, state, timeout });
        };
        match outcome.change {
            StateChange::Update(state) => {
                put(Some(before.state_schema), state);
                self.rows_updated += 1;
            }
            StateChange::Remove => {
                put(None, &[]);
                match timeout {
                    None => self.rows_removed += 1,
                    Some(_) => self.rows_updated += 1,
                }
            }
            StateChange::Keep if timeout != old_timeout => {
                put(old_schema, before.state);
                self.rows_updated += 1;
            }
            // Putting it in is not counted, as in Spark.
            StateChange::Keep if before.rewritten => put(old_schema, before.state),
            StateChange::Keep => {}
        }
    }

    fn take_outputs(&mut self, key: &[u8], outcome: &Outcome<'_>, calling: Calling<'_>) {
        let Calling { work, partition, component } = calling;
        let mut start = outcome.outputs_start;
        for &end in outcome.output_ends {
            let from = (start - outcome.outputs_start) as usize;
            let output = &outcome.outputs[from..(end - outcome.outputs_start) as usize];
            match &work.envelope {
                Some(envelope) => {
                    let of = Enveloped { partition, plan: &work.plan, component, key };
                    envelope.write(&mut self.outputs.lines, self.outputs.outputs, &of, output);
                }
                None => self.outputs.lines.extend_from_slice(output),
            }
            self.outputs.lines.push(b'\n');
            self.outputs.outputs += 1;
            start = end;
        }
        if calling.awaits(key) {
            let said = calling.said(key, Verdict::Outputs(outputs_of(outcome)));
            self.decided.push(said);
        }
    }

    /// Whether another evaluation of the same batch gave the same. What ran into the deadline proves nothing: that is the machine's
    /// verdict and not the rule's.
    pub fn agrees_with(&self, other: &Staged) -> bool {
        let deadline = Reason::Deadline.to_string();
        let was_stopped = |staged: &Staged| staged.dead_letters.iter().any(|letter| letter.reason == deadline);
        self == other || was_stopped(self) || was_stopped(other)
    }

    /// Where another evaluation of the same batch gave something else, for people.
    pub fn first_difference(&self, other: &Staged) -> String {
        let lines = |staged: &Staged| String::from_utf8_lossy(&staged.outputs.lines).into_owned();
        let (ours, theirs) = (lines(self), lines(other));
        let ours = ours.lines().map(Some).chain([None]);
        let mut pairs = ours.zip(theirs.lines().map(Some).chain([None]));
        match pairs.find(|(one, other)| one != other) {
            Some((one, other)) => {
                format!("an output was {} and then {}", one.unwrap_or("none"), other.unwrap_or("none"))
            }
            None => "the outputs are the same, the states or the dead letters are not".to_owned(),
        }
    }

    /// Takes a group that failed: its state stays, its events become a dead letter.
    ///
    /// Its timeout stays as well, unless that is what it was called for: it would be due again at once, for ever. It stays, and there
    /// is no letter, when the rule was not called because other groups had failed: the next batch calls it for the ones that are left.
    pub fn take_failure(
        &mut self,
        before: &GroupBefore<'_>,
        error: &CallError,
        fuel: u64,
        calling: Calling<'_>,
        events: Vec<DeadEvent>,
    ) {
        let mark = before.loaded.map(|loaded| loaded.mark).unwrap_or_default();
        let put = |staged: &mut Self, timeout| {
            staged.put(before.key, before.stored, NewRow { mark, state: before.state, timeout });
        };
        if before.timed_out && error.reason == Reason::RuleFailing {
            return put(self, before.loaded.and_then(|loaded| loaded.timeout));
        }
        if before.timed_out {
            put(self, None);
        } else if before.was_due || before.rewritten {
            // The row is written again as it is, so that its timeout, which was due and not called, is found again.
            put(self, before.loaded.and_then(|loaded| loaded.timeout));
        }
        // A group that the rule itself refused has no fuel of interest; zero would look like a measurement.
        let fuel = (!matches!(error.reason, Reason::UnreadableState | Reason::RuleFailing)).then_some(fuel);
        if calling.awaits(before.key) {
            let verdict = Verdict::Failed { reason: error.reason.to_string(), message: error.message.clone() };
            self.decided.push(calling.said(before.key, verdict));
        }
        self.dead_letters.push(DeadLetter {
            reason: error.reason.to_string(),
            message: error.message.clone(),
            key: Some(String::from_utf8_lossy(before.key).into_owned()),
            digest: Some(before.digest.to_owned()),
            fuel,
            timed_out: before.timed_out,
            events,
        });
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: &[u8], stored: Mark) {
        self.put(key, Some(stored), NewRow { mark: Mark::default(), state: &[], timeout: None });
    }

    /// Writes a row, or deletes it when it would have neither state nor timeout. `stored`: what the key had before this batch.
    pub fn put(&mut self, key: &[u8], stored: Option<Mark>, row: NewRow<'_>) {
        let NewRow { mark, state, timeout } = row;
        let exists = mark.schema.is_some() || timeout.is_some();
        self.rows_changed.replace(stored, exists.then_some(mark));
        if stored.is_some() || exists {
            let state = if exists { mark.stored(state) } else { None };
            self.delta.push(DeltaRow { key, state, timeout });
        }
    }
}

impl Calling<'_> {
    fn awaits(&self, key: &[u8]) -> bool {
        self.work.awaited.as_ref().is_some_and(|awaited| awaited.contains(key))
    }

    fn said(&self, key: &[u8], verdict: Verdict) -> OfKey {
        let (digest, version) = (self.component.digest().to_owned(), self.component.description().version.clone());
        OfKey { key: key.to_owned(), digest, version, verdict }
    }
}

/// The outputs of one group, each as JSON.
fn outputs_of(outcome: &Outcome<'_>) -> Vec<String> {
    let mut start = 0;
    let cut = |&end: &u32| {
        let end = (end - outcome.outputs_start) as usize;
        let output = &outcome.outputs[std::mem::replace(&mut start, end)..end];
        String::from_utf8_lossy(output).into_owned()
    };
    outcome.output_ends.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(lines: &str) -> Staged {
        Staged { outputs: OutputBlock { outputs: 1, lines: lines.into() }, ..Staged::default() }
    }

    #[test]
    fn two_answers_to_one_batch_are_told_apart_by_their_first_difference() {
        let one = staged("1\n2\n");
        assert!(one.agrees_with(&staged("1\n2\n")));
        for (other, said) in [("1\n3\n", "an output was 2 and then 3"), ("1\n", "an output was 2 and then none")] {
            assert!(!one.agrees_with(&staged(other)));
            assert_eq!(one.first_difference(&staged(other)), said);
        }
        let mut other = staged("1\n2\n");
        other.put(b"key", None, NewRow { mark: Mark::of(Some(1)), state: b"state", timeout: None });
        assert!(!one.agrees_with(&other));
        assert!(one.first_difference(&other).contains("the states or the dead letters are not"));
    }

    #[test]
    fn what_the_deadline_stopped_is_no_second_answer() {
        let (one, mut other) = (staged("1\n"), staged("2\n"));
        other.dead_letters.push(DeadLetter {
            reason: Reason::Deadline.to_string(),
            message: String::new(),
            key: None,
            digest: None,
            fuel: None,
            timed_out: false,
            events: Vec::new(),
        });
        assert!(one.agrees_with(&other) && other.agrees_with(&one));
    }
}
