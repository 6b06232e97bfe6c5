//! [`Report`]: what an engine says of its run.

use super::usage::Line;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What an engine says of its run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of the engine.
    #[serde(default)]
    pub version: Option<String>,
    /// How long it worked, without what it counts as its start. `bench/README.md` says what that is for each engine.
    pub seconds_processing: f64,
    /// The input piece by piece, when the engine knows how long each took.
    #[serde(default)]
    pub batches: Vec<Batch>,
}

/// A piece of the input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// How many events.
    pub events: u64,
    /// From the end of the piece before to its own.
    pub seconds: f64,
}

/// How the line of a peer begins; JSON follows.
const MARK: &str = "measured: ";

impl Report {
    /// From what a peer printed. Of several processes each prints a line, and the longest time counts.
    pub fn of_peer(lines: &[Line]) -> Result<Self> {
        let mut longest: Option<Report> = None;
        for json in lines.iter().filter_map(|line| line.text.strip_prefix(MARK)) {
            let report: Report = serde_json::from_str(json).with_context(|| format!("not a report: {json}"))?;
            if longest.as_ref().is_none_or(|longest| report.seconds_processing > longest.seconds_processing) {
                longest = Some(report);
            }
        }
        longest.with_context(|| format!("it printed no line that begins with \"{MARK}\""))
    }

    /// From what `keyfold run --json` printed: a line for each batch. All of its time counts, that for its start included.
    pub fn of_keyfold(lines: &[Line], seconds: f64) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress {
            num_input_rows: u64,
        }
        let (mut batches, mut before) = (Vec::new(), 0.0);
        for Line { at_seconds, text } in lines {
            let progress: Progress = serde_json::from_str(text).with_context(|| format!("not a progress: {text}"))?;
            batches.push(Batch { events: progress.num_input_rows, seconds: at_seconds - before });
            before = *at_seconds;
        }
        Ok(Report { version: None, seconds_processing: seconds, batches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        (1..).zip(texts).map(|(second, &text)| Line { at_seconds: f64::from(second), text: text.to_owned() }).collect()
    }

    #[test]
    fn of_several_processes_the_slowest_counts() {
        let report = Report::of_peer(&lines(&[
            "measured: {\"version\": \"0.21.1\", \"seconds_processing\": 36.5}",
            "something else",
            "measured: {\"version\": \"0.21.1\", \"seconds_processing\": 36.9}",
        ]));
        let expected = Report { version: Some("0.21.1".to_owned()), seconds_processing: 36.9, batches: Vec::new() };
        assert_eq!(report.unwrap(), expected);
    }

    #[test]
    fn batches_are_read() {
        let line = "measured: {\"seconds_processing\": 3, \"batches\": [{\"events\": 250000, \"seconds\": 1.5}]}";
        assert_eq!(Report::of_peer(&lines(&[line])).unwrap().batches, [Batch { events: 250_000, seconds: 1.5 }]);
    }

    #[test]
    fn a_peer_without_a_report_or_with_another_one_is_refused() {
        let refused = |line: &str| Report::of_peer(&lines(&[line])).unwrap_err().to_string();
        assert!(refused("done").contains("no line"));
        assert!(refused("measured: {\"seconds\": 1}").contains("{\"seconds\": 1}"));
    }

    #[test]
    fn a_batch_of_keyfold_lasts_from_the_line_before_to_its_own() {
        let report =
            Report::of_keyfold(&lines(&["{\"numInputRows\":100000,\"batchId\":0}", "{\"numInputRows\":1}"]), 2.5);
        let batches = vec![Batch { events: 100_000, seconds: 1.0 }, Batch { events: 1, seconds: 1.0 }];
        assert_eq!(report.unwrap(), Report { version: None, seconds_processing: 2.5, batches });
    }
}
