//! [`Measured`]: what came out, as a table or as JSON.

use super::input::{Input, Shape};
use super::machine::Machine;
use super::series::Series;
use super::table::{Table, right_medians};
use serde_json::{Value, json};

/// What came out.
pub struct Measured {
    /// Where and with what.
    pub machine: Machine,
    /// What was read.
    pub input: Input,
    /// How often each engine ran.
    pub runs: u32,
    /// A sync of the disk before all runs and after them, in milliseconds.
    pub synced_ms: [f64; 2],
    /// The engines that ran.
    pub series: Vec<Series>,
    /// What is to be done for the others.
    pub not_set_up: Vec<String>,
}

impl Measured {
    /// Whether all rows of all runs were those that are expected.
    pub fn is_right(&self) -> bool {
        self.series.iter().all(|series| series.faults.is_empty())
    }

    /// Prints the table, and above it what one must know to read it.
    pub fn show(&self, with_quarters: bool) {
        let Shape { events, users, files } = self.input.shape;
        let [before, after] = self.synced_ms;
        println!("{}", self.machine);
        println!(
            "{events} events of {users} users in {files} files, {:.0} MB; {} rows expected",
            self.input.bytes as f64 / 1e6,
            self.input.expected.count()
        );
        println!(
            "medians of {} runs in turns; 4 KiB and fdatasync: {before:.2} ms before, {after:.2} ms after",
            self.runs
        );
        println!("\n{}", Table::of_figures(&self.series, with_quarters));
        if let Some(quarters) = Table::of_quarters(&self.series).filter(|_| with_quarters) {
            println!("{quarters}");
        }
        for line in &self.not_set_up {
            println!("{line}");
        }
        for series in &self.series {
            for fault in &series.faults {
                println!("{}: WRONG: {fault}", series.engine.name);
            }
        }
    }

    /// Everything, each run by itself too.
    pub fn json(&self) -> Value {
        let engine = |series: &Series| {
            json!({
                "engine": series.engine.name,
                "what": series.engine.what,
                "version": series.version,
                "medians": right_medians(series),
                "runs": series.runs,
                "faults": series.faults,
            })
        };
        json!({
            "machine": self.machine,
            "input": self.input.shape,
            "input_bytes": self.input.bytes,
            "rows": self.input.expected.count(),
            "fdatasync_ms": { "before": self.synced_ms[0], "after": self.synced_ms[1] },
            "engines": self.series.iter().map(engine).collect::<Vec<_>>(),
            "not_set_up": self.not_set_up,
        })
    }
}
