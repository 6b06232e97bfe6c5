//! Looking into a rule while it runs: its progress, the state of a key, its log, its outputs.

use super::rule_entry::RuleEntry;
use super::{Answer, Caller, LogTail, Operation, Service, ServiceError, StreamTail, Wake};
use crate::event::KeyGroup;
use crate::inspection::{StateDecoder, row_to_json};
use crate::state::PlanLog;
use crate::state::reader::PartitionReader;
use serde_json::Value;
use std::sync::Arc;

impl Service {
    /// What its last batches did, oldest first: `StreamingQueryProgress` of Spark.
    pub fn progress(&self, caller: &Caller, name: &str) -> Answer<Vec<Value>> {
        let tenant = self.looking(caller, Operation::RULE_PROGRESS)?;
        let rule = tenant.rule(name)?;
        let kept = PlanLog::recent_progress(&rule.folder)?.unwrap_or_default();
        let mut lines: Vec<Value> = kept.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        // That of the last batches is written with the next plan; the runner has it already.
        let last = rule.status().and_then(|status| status.progress);
        if let Some(last) = last.and_then(|last| serde_json::to_value(&*last).ok()) {
            let is_newer = |lines: &[Value]| lines.last().is_none_or(|line| batch_of(line) < batch_of(&last));
            if is_newer(&lines) {
                lines.push(last);
            }
        }
        Ok(lines)
    }

    /// Follows what a rule logs.
    pub fn tail_log(&self, caller: &Caller, name: &str, wake: Wake) -> Answer<LogTail> {
        let tenant = self.looking(caller, Operation::RULE_LOG)?;
        let rule = tenant.rule(name)?;
        Ok(LogTail::new(self.still(caller), Arc::clone(&rule.logs), wake))
    }

    /// Follows the outputs of a rule whose outputs go to a stream.
    pub fn tail_outputs(&self, caller: &Caller, name: &str, wake: Wake) -> Answer<StreamTail> {
        let tenant = self.looking(caller, Operation::RULE_OUTPUTS)?;
        let rule = tenant.rule(name)?;
        let stream = rule.output_stream().and_then(|id| tenant.stream_with_id(&id)).ok_or_else(|| {
            ServiceError::conflict(
                "outputs-not-kept",
                "the outputs of the rule go to a webhook: there is no stream to follow",
            )
        })?;
        Ok(StreamTail::new(self.still(caller), self.log_of(&stream)?, wake))
    }

    /// The state of a key as JSON, with its schema and its timeout.
    pub fn state(&self, caller: &Caller, name: &str, key: &str) -> Answer<Value> {
        let tenant = self.looking(caller, Operation::STATE_READ)?;
        let rule = tenant.rule(name)?;
        state_of(&rule, key)?.ok_or_else(|| ServiceError::not_found("key-not-found", "key"))
    }
}

fn state_of(rule: &RuleEntry, key: &str) -> anyhow::Result<Option<Value>> {
    let partitions = rule.known().checked.partitions;
    let partition = KeyGroup::of(key.as_bytes()).partition(partitions);
    if !rule.folder.join("plan.db").exists() {
        return Ok(None);
    }
    // Before its first commit a rule has no states.
    let Ok(reader) = PartitionReader::open(&rule.folder, partition) else { return Ok(None) };
    let decoder = StateDecoder::of_folder(&rule.folder)?;
    Ok(reader.get(key.as_bytes())?.map(|row| row_to_json(&row, &decoder, Some(partition))))
}

fn batch_of(line: &Value) -> Option<u64> {
    line["batchId"].as_u64()
}
