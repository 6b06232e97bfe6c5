//! Answers as a person or a program reads them.

use crate::cli::table;
use anyhow::Result;
use serde::Serialize;
use std::io::Write;

/// Prints a list: as a table, or one line of JSON for each.
pub fn list<T: Serialize, const COLUMNS: usize>(
    json: bool,
    items: &[T],
    heads: [&str; COLUMNS],
    row: impl Fn(&T) -> [String; COLUMNS],
) -> Result<()> {
    if json {
        return items.iter().try_for_each(line);
    }
    let rows: Vec<[String; COLUMNS]> = items.iter().map(row).collect();
    print(&table::table(heads, &rows).join("\n"))
}

/// Prints one thing: as JSON on one line, or indented for people.
pub fn one(json: bool, thing: &impl Serialize) -> Result<()> {
    if json { line(thing) } else { print(&serde_json::to_string_pretty(thing)?) }
}

/// Prints one thing as JSON on one line.
pub fn line(thing: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string(thing)?)
}

/// Prints a line.
pub fn print(text: &str) -> Result<()> {
    // Unlike `println!`, this does not panic when nobody reads any more.
    let mut stdout = anstream::stdout().lock();
    Ok(writeln!(stdout, "{text}")?)
}

/// Says to the user what was done, unless a program reads.
pub fn say(json: bool, text: &str) {
    if !json {
        anstream::eprintln!("{text}");
    }
}

/// The beginning of a digest, which is enough for people.
pub fn short(digest: &str) -> String {
    let hash = digest.strip_prefix("sha256:").unwrap_or(digest);
    hash.chars().take(12).collect()
}
