//! [`Report`]: what the user sees while a rule runs.

use super::RunArgs;
use crate::cli::style;
use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use keyfold::clock::Stopwatch;
use keyfold::config::Config;
use keyfold::event::BatchId;
use keyfold::host::{Observer, Outbox};
use keyfold::progress::Progress;
use keyfold::wasm::Component;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// What the user sees while the rule runs.
pub(super) struct Report {
    bar: ProgressBar,
    json: bool,
    quiet: bool,
    json_to_stdout: bool,
    started: Stopwatch,
    batches: u64,
    rows: u64,
    outputs: u64,
    late: u64,
    dead_letters: u64,
    rows_total: u64,
    memory_bytes: u64,
    batch: Option<BatchId>,
    outbox: Outbox,
}

impl Report {
    pub fn new(args: &RunArgs, config: &Config) -> Self {
        let visible = !args.quiet && !args.json && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let template = "{bar:30} {bytes}/{total_bytes} · {msg}";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Report {
            bar,
            json: args.json,
            quiet: args.quiet,
            json_to_stdout: config.output.is_some() || config.webhook.is_some(),
            started: Stopwatch::start(),
            batches: 0,
            rows: 0,
            outputs: 0,
            late: 0,
            dead_letters: 0,
            rows_total: 0,
            memory_bytes: 0,
            batch: None,
            outbox: Outbox::default(),
        }
    }

    pub fn begin(&self, component: &Component, thrown_away: bool) {
        if self.quiet || self.json {
            return;
        }
        let description = component.description();
        anstream::eprintln!(
            "{} {} {}",
            style::strong(&description.name),
            description.version,
            style::faint(&component.digest()[..19])
        );
        if thrown_away {
            anstream::eprintln!("{}", style::faint("without --data the state is thrown away at the end"));
        }
    }

    /// `where_letters_are`: how to see the dead letters.
    pub fn end(&self, where_letters_are: &str, ran: bool) {
        self.bar.finish_and_clear();
        if self.quiet || self.json {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = (self.rows as f64 / seconds.max(0.001)) as u64;
        anstream::eprintln!(
            "{} {} events in {} batches, {} outputs, {} keys with state; {:.1} s, {} events/s",
            if ran { style::good("done:") } else { style::error("stopped:") },
            HumanCount(self.rows),
            self.batches,
            HumanCount(self.outputs),
            HumanCount(self.rows_total),
            seconds,
            HumanCount(rate)
        );
        if self.late > 0 {
            anstream::eprintln!("{} late events were dropped", HumanCount(self.late));
        }
        if self.dead_letters > 0 {
            anstream::eprintln!("{} dead letters; {where_letters_are}", HumanCount(self.dead_letters));
        }
        if self.outbox.refused > 0 {
            anstream::eprintln!("{} outputs were refused; {where_letters_are}", HumanCount(self.outbox.refused));
        }
    }

    /// Says, also to those who asked for silence, what was not delivered. `is_kept`: whether there is a data folder.
    pub fn say_what_waits(&self, is_kept: bool) {
        let Outbox { batches, outputs, .. } = self.outbox;
        if outputs == 0 {
            return;
        }
        let fate = if is_kept {
            "wait in the outbox: the same command delivers them"
        } else {
            "are lost: run with --data to keep them"
        };
        anstream::eprintln!(
            "{} {} outputs of {batches} batches were not delivered and {fate}",
            style::error("note:"),
            HumanCount(outputs)
        );
    }

    fn show(&self) {
        let elapsed = self.started.elapsed();
        let rate = (self.rows as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
        // One batch waits nearly always, for the moment that the sink takes.
        let waiting = match self.outbox {
            Outbox { is_failing: false, batches: 0..=1, .. } => String::new(),
            Outbox { is_failing, batches, bytes, .. } => {
                let why = if is_failing { ", the sink is failing" } else { "" };
                format!("{batches} batches ({}) wait for the sink{why}, ", HumanBytes(bytes))
            }
        };
        self.bar.set_message(format!(
            "{}{waiting}{} events, {}/s, {} outputs, {} keys, state {} in memory, {}",
            self.batch.map_or_else(String::new, |batch| format!("batch {batch}, ")),
            HumanCount(self.rows),
            HumanCount(rate),
            HumanCount(self.outputs),
            HumanCount(self.rows_total),
            HumanBytes(self.memory_bytes),
            HumanDuration(elapsed)
        ));
    }

    fn print_json(&self, progress: &Progress) {
        let Ok(line) = serde_json::to_string(progress) else { return };
        // A reader that went away must not stop the rule.
        let _ = if self.json_to_stdout {
            writeln!(std::io::stdout().lock(), "{line}")
        } else {
            writeln!(std::io::stderr().lock(), "{line}")
        };
    }
}

impl Observer for Report {
    fn batch(&mut self, progress: &Progress, bytes: Option<(u64, u64)>) {
        let operator = &progress.state_operators[0];
        self.batches += 1;
        self.rows += progress.num_input_rows;
        self.outputs += progress.sink.num_output_rows;
        self.late += operator.num_rows_dropped_by_watermark;
        self.dead_letters += operator.custom_metrics.num_dead_letters;
        self.rows_total = operator.num_rows_total;
        if self.json {
            self.print_json(progress);
        }
        if let Some((read, total)) = bytes {
            self.bar.set_length(total);
            self.bar.set_position(read);
        }
        (self.batch, self.memory_bytes) = (Some(progress.batch_id), operator.memory_used_bytes);
        self.show();
    }

    fn outbox(&mut self, outbox: &Outbox) {
        // Text is made only for somebody who sees it.
        if std::mem::replace(&mut self.outbox, *outbox) != *outbox && !self.bar.is_hidden() {
            self.show();
        }
    }
}
