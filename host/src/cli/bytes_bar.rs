//! [`BytesBar`]: how much of a known number of bytes is done, on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use keyfold::checkpoint::restore::RestoreObserver;
use std::io::IsTerminal;
use std::time::Duration;

/// A bar that is there only on a terminal, and gone when it is dropped.
pub struct BytesBar(ProgressBar);

impl BytesBar {
    /// Begins one with this text beside it.
    pub fn new(text: &'static str, is_wanted: bool) -> Self {
        let visible = is_wanted && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let template = "{msg} {bar:30} {bytes}/{total_bytes} · {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(text);
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        BytesBar(bar)
    }
}

impl RestoreObserver for BytesBar {
    fn read(&mut self, bytes: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(bytes);
    }
}

impl Drop for BytesBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
