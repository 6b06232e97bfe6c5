//! [`Signals`]: what a service manager asks of a server.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{self, SignalKind};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Stop in order.
    Stop,
    /// Read the settings again.
    Reload,
}

/// Signals that came.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    stops: bool,
}

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

impl Signals {
    /// Catches signals from now on.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        let _inside = runtime.enter();
        let catch = |kind| unix::signal(kind).context("signals cannot be caught");
        Ok(Signals {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
            stops: false,
        })
    }

    /// The next signal. The second one that says stop ends the process.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => return Signal::Reload,
        }
        if self.stops {
            std::process::exit(INTERRUPTED);
        }
        self.stops = true;
        anstream::eprintln!("stopping after the running requests and batches; once more to stop at once");
        Signal::Stop
    }
}
