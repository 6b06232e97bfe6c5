//! [`Report`]: what a measurement found, as a table, as JSON, and as a plot.

use crate::plot::Plot;
use anyhow::Result;
use keyfold_bench::process;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What a measurement found.
pub struct Report {
    /// The measurement.
    pub name: &'static str,
    /// What was measured, in a sentence.
    pub what: String,
    /// The columns, each with its unit.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// The same as a picture, where a line says more than a few numbers.
    pub plot: Option<Plot>,
}

/// A value in a table.
#[derive(Clone)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number with so many decimals.
    Number(f64, usize),
}

impl Report {
    /// Prints the table.
    pub fn print(&self) -> Result<()> {
        println!("{}: {}; load average {}", self.name, self.what, process::load()?);
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let width = |column: usize| {
            let cells = cells.iter().map(|row| row[column].chars().count());
            cells.chain([self.columns[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        print_line(self.columns.iter().copied(), &widths);
        cells.iter().for_each(|row| print_line(row.iter().map(String::as_str), &widths));
        println!();
        Ok(())
    }

    /// Prints an object for each row on a line of its own.
    pub fn print_json(&self) -> Result<()> {
        for row in &self.rows {
            let values = self.columns.iter().map(|column| (*column).to_owned()).zip(row.iter().map(Cell::json));
            let mut line: Map<String, Value> = [("measurement".to_owned(), json!(self.name))].into_iter().collect();
            line.extend(values);
            line.insert("load".to_owned(), json!(process::load()?));
            println!("{}", Value::Object(line));
        }
        Ok(())
    }

    /// Writes the plot to a folder.
    pub fn draw(&self, folder: &Path) -> Result<()> {
        self.plot.iter().try_for_each(|plot| plot.write(&folder.join(format!("{}.svg", self.name))))
    }
}

/// The first column to the left, the others to the right.
fn print_line<'c>(cells: impl Iterator<Item = &'c str>, widths: &[usize]) {
    let cells = cells.zip(widths).enumerate().map(|(number, (cell, width))| match number {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => grouped(&count.to_string()),
            Cell::Number(number, decimals) => {
                let text = format!("{number:.decimals$}");
                let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
                format!("{}{rest}", grouped(whole))
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) => json!(count),
            Cell::Number(number, _) => json!(number),
        }
    }
}

/// A whole number with a comma before each three digits.
pub fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of keys or events as it is said: 100, 10 k, 1 M.
pub fn short(number: u64) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(100_000) => format!("{} M", number as f64 / 1e6),
        1_000.. if number.is_multiple_of(100) => format!("{} k", number as f64 / 1e3),
        _ => number.to_string(),
    }
}
