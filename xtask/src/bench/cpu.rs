//! [`CpuTime`]: what the machine's processors did, as Linux counts it in `/proc`.

use anyhow::{Context, Result};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// CPU time since the machine was started, in seconds summed over its processors.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    /// All of it.
    all: f64,
    /// That in which something ran, other machines on the same processors included.
    busy: f64,
    /// That of this process, and of the processes that it has started and waited for.
    own: f64,
    children: f64,
}

/// What passed between two readings.
#[derive(Debug, Clone, Copy)]
pub struct CpuUsed {
    /// CPU time of the child that was started and waited for, and of the processes that it waited for, in seconds.
    pub children_seconds: f64,
    /// The share of all CPU time that others took, from 0 to 1.
    pub others_share: f64,
    /// The share of all CPU time that nobody took, from 0 to 1.
    pub idle_share: f64,
}

/// Linux shows CPU times in hundredths of a second, whatever it counts in.
const TICKS_PER_SECOND: f64 = 100.0;

impl CpuTime {
    /// Until now.
    pub fn read() -> Result<Self> {
        let machine = fs::read_to_string("/proc/stat").context("cannot read /proc/stat, which only Linux has")?;
        let own = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        parse(&machine, &own).context("/proc/stat or /proc/self/stat has another form than Linux gives it")
    }

    /// What passed since then.
    pub fn since(&self, before: &CpuTime) -> CpuUsed {
        let all = (self.all - before.all).max(1.0 / TICKS_PER_SECOND);
        let busy = self.busy - before.busy;
        let children_seconds = self.children - before.children;
        let others = busy - children_seconds - (self.own - before.own);
        CpuUsed { children_seconds, others_share: (others / all).max(0.0), idle_share: 1.0 - busy / all }
    }
}

/// Waits until the machine has been idle for a moment, at most so long. Returns the share of CPU time that was idle at last.
pub fn wait_until_idle(longest: Duration) -> Result<f64> {
    const IDLE_SHARE: f64 = 0.92;
    // The load average would still hold the run before.
    const WATCHED: Duration = Duration::from_secs(3);
    let started = Instant::now();
    loop {
        let before = CpuTime::read()?;
        thread::sleep(WATCHED);
        let idle_share = CpuTime::read()?.since(&before).idle_share;
        if idle_share >= IDLE_SHARE || started.elapsed() >= longest {
            return Ok(idle_share);
        }
    }
}

/// The average number of processes that wanted a processor in the last minute.
pub fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    text.split(' ').next().and_then(|load| load.parse().ok()).context("/proc/loadavg does not begin with a number")
}

/// `machine` is the text of `/proc/stat`, `own` that of `/proc/self/stat`.
fn parse(machine: &str, own: &str) -> Option<CpuTime> {
    let seconds = |ticks: &str| ticks.parse::<u64>().ok().map(|ticks| ticks as f64 / TICKS_PER_SECOND);
    // user nice system idle iowait irq softirq steal; the two after them are part of the first two.
    let machine: Vec<f64> = machine.lines().next()?.split_whitespace().skip(1).take(8).map_while(seconds).collect();
    let all: f64 = machine.iter().sum();
    let idle = machine.get(3)? + machine.get(4)?;
    // The second field is the program's name in parentheses, which may hold anything; the next one is the third.
    let (_, own) = own.rsplit_once(')')?;
    let own: Vec<&str> = own.split_whitespace().collect();
    let field = |number: usize| seconds(own.get(number - 3)?);
    Some(CpuTime { all, busy: all - idle, own: field(14)? + field(15)?, children: field(16)? + field(17)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_what_neither_this_process_nor_its_children_did() {
        let own =
            |utime: u32, cutime: u32| format!("7 (a) name) R 1 7 7 0 -1 0 0 0 0 0 {utime} 10 {cutime} 30 20 0 1 0");
        let before = parse("cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1 2", &own(100, 200)).unwrap();
        let after = parse("cpu  1600 0 600 9000 600 50 50 100 7 7\n", &own(150, 700)).unwrap();
        let used = after.since(&before);
        assert!((used.children_seconds - 5.0).abs() < 1e-9, "{used:?}");
        // 20 s passed on the processors, 11 of them idle; 0.5 s were ours and 5 s the children's.
        assert!((used.idle_share - 11.0 / 20.0).abs() < 1e-9, "{used:?}");
        assert!((used.others_share - 3.5 / 20.0).abs() < 1e-9, "{used:?}");
    }
}
