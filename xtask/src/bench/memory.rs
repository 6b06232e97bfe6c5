//! [`Peak`]: the most memory that a program and the processes which it starts had at once.

use std::collections::BTreeMap;
use std::fs;

/// The most that was seen.
#[derive(Debug, Default)]
pub struct Peak {
    /// In bytes.
    bytes: u64,
}

impl Peak {
    /// Looks at all descendants of this process. Processes may come and go meanwhile.
    pub fn look(&mut self) {
        let parents = parents();
        let own = std::process::id();
        let mut together = 0;
        for &process in parents.keys().filter(|&&process| descends(process, own, &parents)) {
            let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { continue };
            together += bytes(&status, "VmRSS:");
            // What a process alone has had since it began, also between two looks. The kernel tells it at the end, too, but of a
            // child that began as a copy of this process it would be at least what this process had.
            self.bytes = self.bytes.max(bytes(&status, "VmHWM:"));
        }
        self.bytes = self.bytes.max(together);
    }

    /// In bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter_map(|process: u32| Some((process, parent(process)?))).collect()
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name in parentheses may hold anything; the state and the parent come after it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn descends(process: u32, from: u32, parents: &BTreeMap<u32, u32>) -> bool {
    // Bounded, because the table was not read at one moment.
    let ancestors = std::iter::successors(parents.get(&process), |parent| parents.get(parent)).take(parents.len());
    ancestors.into_iter().any(|&ancestor| ancestor == from)
}

/// The value of a line such as `VmRSS: 1234 kB`; 0 without one, as of a process that has ended.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grandchildren_count_and_strangers_do_not() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 1), (14, 14)]);
        let descend = |process| descends(process, 10, &parents);
        assert_eq!([10, 11, 12, 13, 14].map(descend), [false, true, true, false, false]);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tkeyfold\nVmHWM:\t    2048 kB\nVmRSS:\t    1000 kB\n";
        assert_eq!(
            (bytes(status, "VmHWM:"), bytes(status, "VmRSS:"), bytes(status, "VmSwap:")),
            (2 << 20, 1_024_000, 0)
        );
    }
}
