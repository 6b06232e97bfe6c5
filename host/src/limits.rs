//! [`Limits`]: how much one rule may use. Every limit has a default with its reason.

use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// How much one rule may use. A group that goes over a limit fails alone; its dead letter names the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Limits {
    /// Fuel of each group: about one unit for each WebAssembly instruction, 2 million in about a millisecond.
    /// The default is some 10 ms: a hundred times what a detector needs, and an endless loop ends at once.
    pub fuel_per_group: u64,
    /// Fuel that each event adds to its group's. JSON parsing takes some 7,000 in Rust and 400,000 in an interpreter.
    pub fuel_per_event: u64,
    /// Memory of one instance, all its memories and tables together, in bytes. Interpreters need some 150 MiB.
    pub memory_bytes_max: u64,
    /// The state of one key, in bytes. Larger states are a sign of growth without end, and every call copies them.
    pub state_bytes_max: u64,
    /// Outputs of one group.
    pub outputs_max: u64,
    /// Bytes of all outputs of one group.
    pub output_bytes_max: u64,
    /// Log lines of one group. A group that writes more fails.
    pub log_lines_max: u64,
    /// Bytes of one log line; what is longer is cut.
    pub log_line_bytes_max: u64,
    /// Log bytes of one call that are kept; further lines are counted and dropped.
    pub log_bytes_max: u64,
    /// Wall time of one call, in milliseconds. Fuel ends a runaway rule long before, on an idle machine; this is for a
    /// machine that is not.
    pub call_deadline_ms: u64,
    /// After so many failed groups in one batch of a partition, the rule is not called for the rest of them; none for no limit.
    /// Each failed group takes a call of its own, and a rule that fails them all is better left alone soon.
    pub failures_per_batch_max: Option<u64>,
    /// Bytes of an uploaded component. JavaScript and Python components weigh 12 to 18 MiB.
    pub component_bytes_max: u64,
    /// Time that compiling a component may take, in milliseconds: 35 s were seen for Python on a loaded machine.
    pub compile_deadline_ms: u64,
    /// Address space that compiling a component may take, in bytes.
    pub compile_memory_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            fuel_per_group: 20_000_000,
            fuel_per_event: 1_000_000,
            memory_bytes_max: 256 * MIB,
            state_bytes_max: MIB,
            outputs_max: 10_000,
            output_bytes_max: 4 * MIB,
            log_lines_max: 1_000,
            log_line_bytes_max: 4096,
            log_bytes_max: MIB,
            call_deadline_ms: 10_000,
            failures_per_batch_max: None,
            component_bytes_max: 64 * MIB,
            compile_deadline_ms: 120_000,
            compile_memory_bytes_max: 4096 * MIB,
        }
    }
}

impl Limits {
    /// The fuel of a group with this many events.
    pub fn fuel(&self, events: u64) -> u64 {
        self.fuel_per_group.saturating_add(self.fuel_per_event.saturating_mul(events))
    }

    /// Wall time of one call.
    pub fn call_deadline(&self) -> Duration {
        Duration::from_millis(self.call_deadline_ms)
    }

    /// Wall time of one compilation.
    pub fn compile_deadline(&self) -> Duration {
        Duration::from_millis(self.compile_deadline_ms)
    }
}
