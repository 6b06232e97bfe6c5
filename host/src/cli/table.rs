//! Tables: columns as wide as their widest cell, aligned to the right, so that numbers can be compared.

use super::style;

/// The lines of a table.
pub fn table<const COLUMNS: usize>(heads: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> Vec<String> {
    let heads = heads.map(str::to_owned);
    let width = |column: usize| rows.iter().chain([&heads]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ")
    };
    [style::faint(&line(&heads))].into_iter().chain(rows.iter().map(line)).collect()
}

/// A number that may be missing.
pub fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
