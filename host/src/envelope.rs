//! [`Envelope`]: what is written around an output, so that whoever reads it knows where it comes from.

use crate::event::PartitionId;
use crate::plan::Plan;
use crate::wasm::Component;
use serde_json::Value;
use std::io::Write;

/// What is written around the outputs of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The id of the data folder: with it begins each output's id.
    folder_id: String,
    /// The rule's name, as JSON.
    rule: String,
}

impl Envelope {
    /// Around the outputs of a rule with this data folder.
    pub fn new(folder_id: &str, rule: &str) -> Self {
        Envelope { folder_id: folder_id.to_owned(), rule: text(rule) }
    }

    /// Writes an output as one line. `number` is that of the output in its batch and partition, from 0, so that its id is that of
    /// the request in which a webhook sends it alone.
    pub fn write(&self, lines: &mut Vec<u8>, number: u64, of: &Enveloped<'_>, output: &[u8]) {
        let Enveloped { partition, plan, component, key } = of;
        let Envelope { folder_id, rule } = self;
        let batch = plan.batch;
        let id = text(&format!("{folder_id}/{partition}/{batch}/{number}"));
        let version = text(&component.description().version);
        let (digest, time, key) = (component.digest(), plan.time.0, text(&String::from_utf8_lossy(key)));
        let written = write!(
            lines,
            r#"{{"id":{id},"rule":{rule},"version":{version},"digest":"{digest}","batch":{batch},"time_ms":{time},"key":{key},"output":"#
        );
        written.expect("memory can always be written");
        lines.extend_from_slice(output);
        lines.push(b'}');
    }
}

/// Where outputs come from.
pub struct Enveloped<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The batch.
    pub plan: &'a Plan,
    /// The component that made it.
    pub component: &'a Component,
    /// The key that it was made for.
    pub key: &'a [u8],
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}
