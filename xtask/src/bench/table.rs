//! [`Table`]: the engines beside each other, as Markdown that is also easy to read on a terminal.

use super::engine::Family;
use super::figures::Figures;
use super::series::Series;
use std::fmt;

/// Rows of text under a head.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// What the other engines are compared with: a column for each that ran.
const MEASURES: [&str; 4] = ["native-1", "native-2", "keyfold-1", "keyfold-2"];

impl Table {
    /// Medians, and how many times as fast the limit and Keyfold are. An engine with a run that was wrong has neither.
    /// `with_warm`: engines that take a while until they are as fast as they can be have a second line for the time after it.
    pub fn of_figures(series: &[Series], with_warm: bool) -> Self {
        let lines: Vec<(&Series, Option<Figures>)> =
            series.iter().map(|series| (series, right_medians(series))).collect();
        let rate = |name: &str| {
            let (_, medians) = lines.iter().find(|(series, _)| series.engine.name == name)?;
            medians.as_ref().map(|medians| medians.events_per_s)
        };
        let measures: Vec<(&str, f64)> = MEASURES.iter().filter_map(|&name| Some((name, rate(name)?))).collect();
        let mut head =
            ["engine", "rows", "events/s", "s", "s in all", "CPU s per million", "peak MB"].map(str::to_owned).to_vec();
        head.extend(measures.iter().map(|(name, _)| format!("{name} is")));
        head.extend(["others' CPU", "load"].map(str::to_owned));
        let mut rows = Vec::new();
        for (series, medians) in &lines {
            rows.push(engine_row(series, medians.as_ref(), &measures));
            if let Some(warm) = medians.as_ref().and_then(|medians| medians.warm_events_per_s)
                && with_warm
                && series.engine.family != Family::Keyfold
            {
                rows.push(warm_row(&format!("{}, warm batches", title(series)), warm, &measures));
            }
        }
        Table { head, rows }
    }

    /// Whether engines slow down or speed up: events/s by the quarter of the input. None when no engine tells.
    pub fn of_quarters(series: &[Series]) -> Option<Self> {
        let row = |series: &Series| {
            let quarters = right_medians(series)?.quarters?;
            Some(std::iter::once(title(series)).chain(quarters.map(thousands)).collect())
        };
        let rows: Vec<Vec<String>> = series.iter().filter_map(row).collect();
        let head = ["events/s by the quarter of the input", "1st", "2nd", "3rd", "4th"].map(str::to_owned).to_vec();
        (!rows.is_empty()).then_some(Table { head, rows })
    }
}

/// None when a run was wrong.
pub fn right_medians(series: &Series) -> Option<Figures> {
    series.faults.is_empty().then(|| Figures::medians(&series.runs)).flatten()
}

fn engine_row(series: &Series, medians: Option<&Figures>, measures: &[(&str, f64)]) -> Vec<String> {
    let runs = series.runs.len() + series.faults.len();
    let verdict = match series.faults.len() {
        0 => "equal".to_owned(),
        faults => format!("WRONG in {faults} of {runs}"),
    };
    let Some(medians) = medians else {
        let mut row = vec![title(series), verdict];
        row.resize(9 + measures.len(), "-".to_owned());
        return row;
    };
    let mut row = vec![
        title(series),
        verdict,
        thousands(medians.events_per_s),
        format!("{:.2}", medians.seconds_processing),
        format!("{:.2}", medians.seconds_total),
        format!("{:.2}", medians.cpu_seconds_per_million),
        megabytes(medians.peak_mb),
    ];
    row.extend(measures.iter().map(|(_, rate)| times(rate / medians.events_per_s)));
    row.extend([format!("{:.0} %", medians.others_share * 100.0), format!("{:.1}", medians.load)]);
    row
}

fn warm_row(title: &str, warm: f64, measures: &[(&str, f64)]) -> Vec<String> {
    let mut row = vec![title.to_owned(), String::new(), thousands(warm)];
    row.resize(7, String::new());
    row.extend(measures.iter().map(|(_, rate)| times(rate / warm)));
    row.resize(9 + measures.len(), String::new());
    row
}

fn title(series: &Series) -> String {
    match &series.version {
        Some(version) => format!("{} ({version})", series.engine.name),
        None => series.engine.name.to_owned(),
    }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// A run may be over before anybody looks.
fn megabytes(peak: f64) -> String {
    if peak > 0.0 { format!("{peak:.0}") } else { "-".to_owned() }
}

/// Rounded to thousands, which is finer than runs agree: `1,063,000`.
fn thousands(rate: f64) -> String {
    let thousands = (rate / 1e3).round() as u64;
    match (thousands / 1000, thousands % 1000) {
        (0, 0) => format!("{rate:.0}"),
        (0, thousands) => format!("{thousands},000"),
        (millions, thousands) => format!("{millions},{thousands:03},000"),
    }
}

/// The first column to the left, the others to the right.
impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut line = |row: &[String]| {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(formatter, "| {cell:width$} ")?;
                } else {
                    write!(formatter, "| {cell:>width$} ")?;
                }
            }
            writeln!(formatter, "|")
        };
        line(&self.head)?;
        let dashes = |(column, width): (usize, &usize)| {
            if column == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
        };
        line(&widths.iter().enumerate().map(dashes).collect::<Vec<_>>())?;
        self.rows.iter().try_for_each(|row| line(row))
    }
}

#[cfg(test)]
mod tests;
