//! [`Usage`]: what a command took, with all the processes that it started.

use super::cpu::CpuTime;
use super::memory::Peak;
use anyhow::{Context, Result, anyhow};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What a command took.
pub struct Usage {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end, by the clock.
    pub seconds: f64,
    /// In the processors, of it and of the processes that it waited for.
    pub cpu_seconds: f64,
    /// The most memory of it and its descendants at once, in bytes.
    pub peak_bytes: u64,
    /// The share of the machine's CPU time that others took meanwhile, from 0 to 1.
    pub others_share: f64,
    /// What it printed on standard output.
    pub lines: Vec<Line>,
}

/// A line of standard output.
pub struct Line {
    /// When it came, in seconds since the start.
    pub at_seconds: f64,
    /// Without its end.
    pub text: String,
}

/// How often memory is looked at. Often enough for a run of a second; a look takes a millisecond or two.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a command. `log` gets what it prints on standard error.
pub fn measure(command: &mut Command, log: &Path) -> Result<Usage> {
    let stderr = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let program = command.get_program().to_string_lossy().into_owned();
    let before = CpuTime::read()?;
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let stdout = child.stdout.take().context("the command has no standard output")?;
    let (ended, until_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let lines = scope.spawn(move || read(stdout, started));
        let peak = scope.spawn(move || {
            let mut peak = Peak::default();
            while let Err(RecvTimeoutError::Timeout) = until_ended.recv_timeout(LOOK_EVERY) {
                peak.look();
            }
            peak.bytes()
        });
        let status = child.wait().with_context(|| format!("cannot wait for {program}"));
        let seconds = started.elapsed().as_secs_f64();
        let used = CpuTime::read()?.since(&before);
        drop(ended);
        let panicked = |_| anyhow!("a thread that watches {program} has panicked");
        Ok(Usage {
            status: status?,
            seconds,
            cpu_seconds: used.children_seconds,
            others_share: used.others_share,
            peak_bytes: peak.join().map_err(panicked)?,
            lines: lines.join().map_err(panicked)?,
        })
    })
}

/// Until the end. What is no UTF-8 is read all the same: a command whose pipe is full waits for ever.
fn read(stdout: ChildStdout, started: Instant) -> Vec<Line> {
    let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
    let line = |line: Vec<u8>| Line {
        at_seconds: started.elapsed().as_secs_f64(),
        text: String::from_utf8_lossy(&line).into_owned(),
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_what_it_starts_are_measured() {
        let log = std::env::temp_dir().join(format!("keyfold-usage-{}.log", std::process::id()));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; echo why >&2; exit 3"]);
        let usage = measure(&mut shell, &log).unwrap();
        assert_eq!((usage.status.code(), usage.lines.len(), usage.lines[0].text.as_str()), (Some(3), 1, "done"));
        assert!(usage.cpu_seconds > 0.0 && usage.lines[0].at_seconds > 0.0);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "why\n");
        std::fs::remove_file(&log).unwrap();
    }
}
