//! Stopping on a signal: the first one lets the running batches finish, the second one ends the process.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Set once somebody asked to stop: Ctrl-C, or the terminate signal of a service manager.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().context("failed to wait for signals")?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                if asked.swap(true, Ordering::Relaxed) {
                    const INTERRUPTED: i32 = 130;
                    std::process::exit(INTERRUPTED);
                }
                anstream::eprintln!("stopping after the running batch; once more to stop at once");
            }
        });
    })?;
    Ok(stop)
}
