//! The trial of a version: the last events of the rule's inputs, with the states of their keys, are put through it, and nothing of what
//! comes out is kept.

use super::Service;
use super::model::VersionTrial;
use super::registry::TenantEntry;
use super::rule_entry::RuleEntry;
use crate::event::{BatchId, InputId, KeyGroup, Millis, OffsetRange, PartitionId, Position, Record, RecordBatch};
use crate::extract::{Extracted, Extractor};
use crate::group::{BatchContext, GroupColumns};
use crate::source::ReadLimit;
use crate::state::reader::PartitionReader;
use crate::stream::EventNumber;
use crate::wasm::{Component, Sandbox};
use anyhow::Result;
use std::collections::BTreeMap;

/// Events that are tried, of each partition of each input.
const EVENTS_MAX: u64 = 50;
/// Keys that are tried.
const GROUPS_MAX: usize = 50;
/// Bytes of events that are tried.
const BYTES_MAX: usize = 1 << 20;

/// The events of one key: times and payloads.
type Events = Vec<(i64, Vec<u8>)>;

impl Service {
    /// Tries a version. None when there are no events to try it with. An error: it could not even be started.
    pub(super) fn try_version(
        &self,
        tenant: &TenantEntry,
        rule: &RuleEntry,
        component: &Component,
    ) -> Result<Option<VersionTrial>> {
        let checked = std::sync::Arc::clone(&rule.known().checked);
        let mut by_key: BTreeMap<Vec<u8>, Events> = BTreeMap::new();
        for (input, stream) in checked.inputs.iter().zip(rule.input_streams()) {
            let Some(stream) = tenant.stream_with_id(&stream) else { continue };
            let log = self.log_of(&stream)?;
            let whole = Extractor::new(input.key.clone(), input.event_time.clone())?;
            let members = component.description().event_members.as_ref();
            let extractor = members.map_or_else(|| whole.clone(), |members| whole.keeping(members));
            for (partition, end) in (0..).zip(log.ends()) {
                let from = EventNumber(end.line.saturating_sub(EVENTS_MAX));
                let limit = ReadLimit { records_max: EVENTS_MAX as usize, bytes_max: BYTES_MAX };
                let events = log.read(partition, from, limit)?;
                extract(&extractor, events.iter().map(|event| event.json.as_slice()), &mut by_key);
            }
        }
        if by_key.is_empty() {
            return Ok(None);
        }
        let has_time = checked.inputs.iter().any(|input| input.event_time.is_some());
        let context = BatchContext {
            partition: PartitionId(0),
            batch: BatchId(0),
            time: self.clock.now(),
            // The watermark that lets no event be late.
            watermark: has_time.then_some(Millis(0)),
            seed: [0; 16],
            batch_query: false,
        };
        let parameters = checked.parameters.to_string();
        let start = || Sandbox::start(component, &checked.limits, parameters.as_bytes(), &context);
        let mut sandbox = None;
        let mut trial = VersionTrial { groups: 0, failed: 0, message: None };
        for (key, events) in by_key.into_iter().take(GROUPS_MAX) {
            let state = state_of(rule, checked.partitions, &key, component);
            let group = group_of(&key, state, events, has_time);
            // After an error an instance is of no use any more.
            let mut running = sandbox.take().map_or_else(start, Ok).map_err(|error| anyhow::anyhow!("{error}"))?;
            trial.groups += 1;
            let failed = match running.call(&context, &group) {
                Ok(answer) => {
                    sandbox = Some(running);
                    answer.outcome(0).err().map(ToString::to_string)
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(message) = failed {
                trial.failed += 1;
                trial.message.get_or_insert(message);
            }
        }
        Ok(Some(trial))
    }
}

/// Finds the keys of events, and what the rule reads of them.
fn extract<'e>(extractor: &Extractor, events: impl Iterator<Item = &'e [u8]>, by_key: &mut BTreeMap<Vec<u8>, Events>) {
    let range =
        OffsetRange { input: InputId(0), file: String::new(), from: Position::default(), to: Position::default() };
    let mut batch = RecordBatch { ranges: vec![range], ..RecordBatch::default() };
    for (line, event) in (1..).zip(events) {
        let start = batch.text.len() as u32;
        batch.text.extend_from_slice(event);
        batch.records.push(Record { start, end: batch.text.len() as u32, range: 0, line });
    }
    let mut extracted = Extracted::default();
    extractor.extract(&batch, 0..batch.records.len(), &mut extracted);
    for event in &extracted.events {
        let whole = || batch.text_of(&batch.records[event.record as usize]);
        let payload = extracted.payload_of(event).unwrap_or_else(whole);
        by_key.entry(extracted.key_of(event).to_vec()).or_default().push((event.time_ms, payload.to_vec()));
    }
}

/// The state of a key, if the component reads its schema.
fn state_of(rule: &RuleEntry, partitions: u32, key: &[u8], component: &Component) -> Option<(Vec<u8>, u32)> {
    let partition = KeyGroup::of(key).partition(partitions);
    let row = PartitionReader::open(&rule.folder, partition).ok()?.get(key).ok()??;
    row.state.filter(|(_, schema)| component.description().readable_schemas.contains(schema))
}

fn group_of(key: &[u8], state: Option<(Vec<u8>, u32)>, events: Events, has_time: bool) -> GroupColumns {
    let mut group = GroupColumns::default();
    let (state, schema) = state.unwrap_or_default();
    group.keys.extend_from_slice(key);
    group.states.extend_from_slice(&state);
    group.state_schemas.push(schema);
    group.flags.push(0);
    for (time, payload) in events {
        group.payloads.extend_from_slice(&payload);
        group.payload_ends.push(group.payloads.len() as u32);
        if has_time {
            group.event_times_ms.push(time);
        }
    }
    group.close_group();
    group
}
