//! Groups: the events of one key in one batch, or a key whose timeout is due. In columns, as they cross into a rule.

use crate::event::{BatchId, Millis, PartitionId};
use serde::{Deserialize, Serialize};

/// When a key wants to be called again: strictly after `at` on `clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeout {
    /// The clock that the time is on.
    pub clock: TimeoutClock,
    /// The time.
    pub at: Millis,
}

/// The two clocks. The numbers are those of the contract and of the state files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutClock {
    /// The time of the batch.
    ProcessingTime = 1,
    /// The watermark.
    EventTime = 2,
}

impl TimeoutClock {
    /// The clock with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(TimeoutClock::ProcessingTime),
            2 => Some(TimeoutClock::EventTime),
            _ => None,
        }
    }
}

/// What is the same for all groups of one batch in one partition.
#[derive(Debug, Clone)]
pub struct BatchContext {
    /// The partition.
    pub partition: PartitionId,
    /// The batch.
    pub batch: BatchId,
    /// Processing time, fixed in the plan.
    pub time: Millis,
    /// The watermark of this batch; none when the input has no event time.
    pub watermark: Option<Millis>,
    /// The same on every re-run.
    pub seed: [u8; 16],
    /// A batch query: timeouts may be set and never fire.
    pub batch_query: bool,
}

/// Groups in columns: what crosses into a rule. See `wit/rule.wit` for the meaning of each column.
#[derive(Debug, Clone, Default)]
pub struct GroupColumns {
    /// Keys.
    pub keys: Vec<u8>,
    /// End of each key.
    pub key_ends: Vec<u32>,
    /// States.
    pub states: Vec<u8>,
    /// End of each state.
    pub state_ends: Vec<u32>,
    /// Schema number of each state, 0 for none.
    pub state_schemas: Vec<u32>,
    /// [`GROUP_TIMED_OUT`] and its neighbours.
    pub flags: Vec<u8>,
    /// End of each group's events, counted in events.
    pub event_ends: Vec<u32>,
    /// Event times; empty when the input has none.
    pub event_times_ms: Vec<i64>,
    /// Payloads.
    pub payloads: Vec<u8>,
    /// End of each payload.
    pub payload_ends: Vec<u32>,
}

/// The group is called because its timeout is due.
pub const GROUP_TIMED_OUT: u8 = 1;
/// The group is called with imported state.
pub const GROUP_INITIAL: u8 = 1 << 1;
/// With [`GROUP_TIMED_OUT`]: the timeout was set in processing time.
pub const GROUP_TIMED_OUT_IN_PROCESSING_TIME: u8 = 1 << 2;

impl GroupColumns {
    /// How many groups.
    pub fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.key_ends.is_empty()
    }

    /// Bytes in all columns together, roughly: what one call is limited by.
    pub fn bytes(&self) -> usize {
        self.keys.len() + self.states.len() + self.payloads.len() + 20 * self.payload_ends.len() + 25 * self.len()
    }

    /// The number of events of a group.
    pub fn events_of(&self, group: usize) -> u32 {
        self.event_ends[group] - start_of(&self.event_ends, group)
    }

    /// The key of a group.
    pub fn key_of(&self, group: usize) -> &[u8] {
        item(&self.keys, &self.key_ends, group)
    }

    /// Ends the group whose key, state, schema, flags and events were added.
    pub fn close_group(&mut self) {
        self.key_ends.push(self.keys.len() as u32);
        self.state_ends.push(self.states.len() as u32);
        self.event_ends.push(self.payload_ends.len() as u32);
    }

    /// Forgets all groups and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.states.clear();
        self.state_ends.clear();
        self.state_schemas.clear();
        self.flags.clear();
        self.event_ends.clear();
        self.event_times_ms.clear();
        self.payloads.clear();
        self.payload_ends.clear();
    }

    /// A copy of some of the groups: what is run again after a call failed.
    pub fn slice(&self, groups: std::ops::Range<usize>) -> GroupColumns {
        let mut slice = GroupColumns::default();
        for group in groups {
            slice.keys.extend_from_slice(self.key_of(group));
            slice.states.extend_from_slice(item(&self.states, &self.state_ends, group));
            slice.state_schemas.push(self.state_schemas[group]);
            slice.flags.push(self.flags[group]);
            for event in start_of(&self.event_ends, group) as usize..self.event_ends[group] as usize {
                slice.payloads.extend_from_slice(item(&self.payloads, &self.payload_ends, event));
                slice.payload_ends.push(slice.payloads.len() as u32);
                slice.event_times_ms.extend(self.event_times_ms.get(event));
            }
            slice.close_group();
        }
        slice
    }
}

/// Item `number` of a column.
pub fn item<'b>(bytes: &'b [u8], ends: &[u32], number: usize) -> &'b [u8] {
    &bytes[start_of(ends, number) as usize..ends[number] as usize]
}

/// Where item `number` begins.
pub fn start_of(ends: &[u32], number: usize) -> u32 {
    if number == 0 { 0 } else { ends[number - 1] }
}

/// What a rule decided for one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange<'a> {
    /// Leave the state as it is.
    Keep,
    /// Write this state.
    Update(&'a [u8]),
    /// Have no state.
    Remove,
}
