//! [`Figures`]: what is compared, of one run or as medians of several.

use super::report::{Batch, Report};
use super::usage::Usage;
use serde::Serialize;

/// What is compared.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Events by the seconds that the engine counts as its work.
    pub events_per_s: f64,
    /// These seconds.
    pub seconds_processing: f64,
    /// From the start of the command to its end.
    pub seconds_total: f64,
    /// Of the processors, start included, by a million events.
    pub cpu_seconds_per_million: f64,
    /// The most memory at once, in MB of a million bytes.
    pub peak_mb: f64,
    /// The share of the machine's CPU time that others took, from 0 to 1.
    pub others_share: f64,
    /// The load average before the run.
    pub load: f64,
    /// Events/s of each quarter of the input; absent when the engine does not tell.
    pub quarters: Option<[f64; 4]>,
    /// The median of events/s over the batches of the second half; absent when the engine does not tell.
    pub warm_events_per_s: Option<f64>,
}

impl Figures {
    /// Of one run over so many events.
    pub fn new(events: u64, load: f64, usage: &Usage, report: &Report) -> Self {
        Figures {
            events_per_s: events as f64 / report.seconds_processing,
            seconds_processing: report.seconds_processing,
            seconds_total: usage.seconds,
            cpu_seconds_per_million: usage.cpu_seconds / events as f64 * 1e6,
            peak_mb: usage.peak_bytes as f64 / 1e6,
            others_share: usage.others_share,
            load,
            quarters: quarters(&report.batches),
            warm_events_per_s: warm_events_per_s(&report.batches),
        }
    }

    /// The median of each figure by itself; none of nothing.
    pub fn medians(runs: &[Figures]) -> Option<Figures> {
        let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure));
        let quarter = |number: usize| median(runs.iter().filter_map(|run| Some(run.quarters?[number])));
        Some(Figures {
            events_per_s: of(|run| run.events_per_s)?,
            seconds_processing: of(|run| run.seconds_processing)?,
            seconds_total: of(|run| run.seconds_total)?,
            cpu_seconds_per_million: of(|run| run.cpu_seconds_per_million)?,
            peak_mb: of(|run| run.peak_mb)?,
            others_share: of(|run| run.others_share)?,
            load: of(|run| run.load)?,
            quarters: quarter(0).zip(quarter(1)).zip(quarter(2).zip(quarter(3))).map(|((a, b), (c, d))| [a, b, c, d]),
            warm_events_per_s: median(runs.iter().filter_map(|run| run.warm_events_per_s)),
        })
    }
}

/// The one in the middle, or between the two in the middle; none of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// A batch belongs to the quarter in which its middle lies. One without events belongs to the last: it ends what is still open.
fn quarters(batches: &[Batch]) -> Option<[f64; 4]> {
    let all: u64 = batches.iter().map(|batch| batch.events).sum();
    let (mut events, mut seconds, mut before) = ([0; 4], [0.0; 4], 0);
    for batch in batches {
        let quarter = ((2 * before + batch.events) * 2 / all.max(1)).min(3) as usize;
        events[quarter] += batch.events;
        seconds[quarter] += batch.seconds;
        before += batch.events;
    }
    let rates: [f64; 4] = std::array::from_fn(|quarter| events[quarter] as f64 / seconds[quarter]);
    // Too few batches leave a quarter without one.
    events.iter().all(|&events| events > 0).then_some(rates)
}

/// The small ones at the end, with the rest of the input or with nothing but timeouts, would say nothing of the rate.
fn warm_events_per_s(batches: &[Batch]) -> Option<f64> {
    let largest = batches.iter().map(|batch| batch.events).max()?;
    let full: Vec<&Batch> = batches.iter().filter(|batch| batch.events > 0 && batch.events >= largest / 2).collect();
    let second_half = &full[full.len() / 2..];
    median(second_half.iter().map(|batch| batch.events as f64 / batch.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([]), None);
    }

    fn batches(pairs: &[(u64, f64)]) -> Vec<Batch> {
        pairs.iter().map(|&(events, seconds)| Batch { events, seconds }).collect()
    }

    #[test]
    fn quarters_have_the_rates_of_their_batches_and_the_last_one_the_end() {
        let batches = batches(&[(100, 4.0), (100, 2.0), (100, 1.0), (50, 0.5), (50, 0.25), (0, 0.25)]);
        assert_eq!(quarters(&batches), Some([25.0, 50.0, 100.0, 100.0]));
        assert_eq!(quarters(&batches[..3]), None);
        assert_eq!(quarters(&[]), None);
    }

    #[test]
    fn warm_is_the_median_of_the_second_half_without_the_rest_at_the_end() {
        let batches = batches(&[(100, 9.0), (100, 3.0), (100, 1.0), (100, 0.5), (1, 1.0), (0, 2.0)]);
        assert_eq!(warm_events_per_s(&batches), Some(150.0));
        assert_eq!(warm_events_per_s(&[]), None);
    }
}
