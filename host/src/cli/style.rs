//! Colours. `anstream` leaves them out where there is no terminal.

use owo_colors::OwoColorize;

/// What went wrong.
pub fn error(text: &str) -> String {
    text.red().bold().to_string()
}

/// What went well.
pub fn good(text: &str) -> String {
    text.green().to_string()
}

/// What matters.
pub fn strong(text: &str) -> String {
    text.bold().to_string()
}

/// What can be passed over.
pub fn faint(text: &str) -> String {
    text.dimmed().to_string()
}
