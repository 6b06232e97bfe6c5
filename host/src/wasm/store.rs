//! [`StoreData`]: what the host keeps beside a running rule: the meter, the log, the memory limit.

use super::engine::{CORE_INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use super::error::{CallError, Reason};
use crate::clock::Deadline;
use crate::event::Millis;
use crate::fair::Turn;
use crate::limits::Limits;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

/// Fuel between two looks at the deadline, within one group: about a tenth of a millisecond of work.
pub(super) const FUEL_BETWEEN_DEADLINE_CHECKS: u64 = 200_000;

/// Levels of log lines are 0 to 4; this one marks the message of a panic.
const LEVEL_PANIC: u8 = 5;

/// A line that a rule wrote to its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// 0 trace to 4 error.
    pub level: u8,
    /// The group that was being worked on.
    pub group: Option<usize>,
    /// The text; invalid UTF-8 replaced.
    pub text: String,
}

/// What the host keeps beside a running rule.
pub(super) struct StoreData {
    pub limits: Limits,
    pub meter: Meter,
    pub log: Log,
    pub memory: MemoryLimiter,
    /// What a deaf WASI answers with.
    pub wasi: WasiAnswers,
}

/// The only time and randomness that a WASI guest gets: the batch's.
#[derive(Debug, Clone, Copy)]
pub(super) struct WasiAnswers {
    pub time: Millis,
    pub random_state: u64,
}

/// Whom the rule works on, and what it costs.
#[derive(Default)]
pub(super) struct Meter {
    /// The number of events of each group of this call.
    pub events: Vec<u32>,
    /// The group being worked on.
    pub group: Option<usize>,
    /// The fuel that was given last: for the group being worked on, else for the call, else for the start.
    pub budget: u64,
    /// The fuel of each finished group.
    pub spent: Vec<u64>,
    pub time: Option<CallTime>,
}

/// How long a call may take. Waiting for other tenants does not count.
#[derive(Clone)]
pub(super) struct CallTime {
    turn: Arc<Turn>,
    deadline: Deadline,
    waited_before: Duration,
}

impl CallTime {
    pub fn start(turn: &Arc<Turn>, limits: &Limits) -> Self {
        CallTime {
            turn: Arc::clone(turn),
            deadline: Deadline::after(limits.call_deadline()),
            waited_before: turn.waited(),
        }
    }

    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Lets others go on whose turn it is, and tells whether the call has taken too long.
    pub fn is_over(&self) -> bool {
        self.turn.look();
        self.deadline.passed_but_for(self.turn.waited().saturating_sub(self.waited_before))
    }
}

/// The lines of one call.
#[derive(Default)]
pub(super) struct Log {
    pub lines: Vec<LogLine>,
    pub dropped: u64,
    /// The message of a panic, which the trap that follows does not carry.
    pub panic: Option<String>,
    bytes: u64,
    lines_of_group: u64,
}

/// Sums what all memories and tables of an instance take. wasmtime's own limits hold for each alone.
pub(super) struct MemoryLimiter {
    bytes: u64,
    bytes_max: u64,
}

/// Why the host stopped a rule from inside an import or the limiter.
#[derive(Debug)]
pub(super) struct HostStop(pub CallError);

impl fmt::Display for HostStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for HostStop {}

fn stop(reason: Reason, message: String) -> wasmtime::Error {
    wasmtime::Error::new(HostStop(CallError::new(reason, message)))
}

impl StoreData {
    pub fn new(limits: &Limits, time: Millis, seed: [u8; 16]) -> Self {
        let random_state = u64::from_le_bytes(seed[..8].try_into().expect("a seed has 16 bytes"));
        StoreData {
            limits: limits.clone(),
            meter: Meter::default(),
            log: Log::default(),
            memory: MemoryLimiter { bytes: 0, bytes_max: limits.memory_bytes_max },
            wasi: WasiAnswers { time, random_state },
        }
    }

    /// Takes a line. A group that writes too many is stopped; a call that writes too much loses the rest.
    pub fn write_log(&mut self, level: u8, text: &[u8]) -> wasmtime::Result<()> {
        let line_bytes_max = self.limits.log_line_bytes_max as usize;
        let text = String::from_utf8_lossy(&text[..text.len().min(line_bytes_max)]).into_owned();
        if level >= LEVEL_PANIC {
            self.log.panic = Some(text);
            return Ok(());
        }
        self.log.lines_of_group += 1;
        if self.log.lines_of_group > self.limits.log_lines_max {
            let message = format!(
                "the rule wrote more than {} log lines in one group: log less, or raise log-lines-max",
                self.limits.log_lines_max
            );
            return Err(stop(Reason::LogLimit, message));
        }
        // Empty lines take memory, too.
        self.log.bytes += (text.len() + size_of::<LogLine>()) as u64;
        if self.log.bytes > self.limits.log_bytes_max {
            self.log.dropped += 1;
            return Ok(());
        }
        self.log.lines.push(LogLine { level, group: self.meter.group, text });
        Ok(())
    }
}

/// Defines the contract's two imports.
pub(super) fn add_imports(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.instance("keyfold:rule/log@0.1.0")?.func_wrap(
        "write",
        |mut store: StoreContextMut<'_, StoreData>, (level, text): (u8, WasmList<u8>)| {
            // Cut before it is copied: a rule must not make the host allocate what it likes.
            let kept = text.as_le_slice(&store);
            let kept = kept[..kept.len().min(store.data().limits.log_line_bytes_max as usize)].to_vec();
            store.data_mut().write_log(level, &kept)
        },
    )?;
    linker
        .instance("keyfold:rule/progress@0.1.0")?
        .func_wrap("enter", |store: StoreContextMut<'_, StoreData>, (group,): (u32,)| enter(store, group as usize))?;
    Ok(())
}

/// The rule begins with a group: settle the last one's fuel, fill up for this one.
fn enter(mut store: StoreContextMut<'_, StoreData>, group: usize) -> wasmtime::Result<()> {
    crate::fault::point("in-call");
    let fuel = store.get_fuel()?;
    let data = store.data_mut();
    let expected = data.meter.group.map_or(0, |last| last + 1);
    // In order and once each: entering a group again would be a way to get fuel without end.
    if group != expected || group >= data.meter.events.len() {
        let message = format!(
            "the rule entered group {group} where group {expected} of {} was to come: each is entered once, in order",
            data.meter.events.len()
        );
        return Err(stop(Reason::InvalidProgress, message));
    }
    // Small groups one after another never use up the fuel after which wasmtime gives control back.
    if data.meter.time.as_ref().is_some_and(CallTime::is_over) {
        return Err(deadline_passed(&data.limits));
    }
    data.meter.settle(fuel);
    let budget = data.limits.fuel(u64::from(data.meter.events[group]));
    data.meter.group = Some(group);
    data.meter.budget = budget;
    data.log.lines_of_group = 0;
    store.set_fuel(budget)
}

pub(super) fn deadline_passed(limits: &Limits) -> wasmtime::Error {
    let message = format!(
        "the call took longer than its deadline of {} ms: the machine is overloaded, or call-deadline-ms is too low",
        limits.call_deadline_ms
    );
    stop(Reason::Deadline, message)
}

impl Meter {
    /// Books the fuel of the group being worked on, if any.
    pub fn settle(&mut self, fuel_left: u64) {
        if self.group.is_some() {
            self.spent.push(self.used(fuel_left));
        }
    }

    /// What was used of the fuel that was given last.
    pub fn used(&self, fuel_left: u64) -> u64 {
        self.budget.saturating_sub(fuel_left)
    }
}

impl wasmtime::ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.grow((desired - current) as u64)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS_MAX {
            let message = format!("a table of {desired} elements is more than the limit of {TABLE_ELEMENTS_MAX}");
            return Err(stop(Reason::MemoryLimit, message));
        }
        self.grow(((desired - current) * size_of::<usize>()) as u64)
    }

    // The pool bounds these as well; an engine without one would let a component have thousands.
    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX as usize
    }

    fn tables(&self) -> usize {
        TABLES_MAX as usize
    }
}

impl MemoryLimiter {
    fn grow(&mut self, bytes: u64) -> wasmtime::Result<bool> {
        let wanted = self.bytes + bytes;
        if wanted > self.bytes_max {
            // A trap rather than a refusal: most languages turn a refused growth into a message about something else.
            let message = format!(
                "the rule asked for {} MiB of memory, the limit is {} MiB: keep less, or raise memory-bytes-max",
                wanted.div_ceil(1024 * 1024),
                self.bytes_max / (1024 * 1024)
            );
            return Err(stop(Reason::MemoryLimit, message));
        }
        self.bytes = wanted;
        Ok(true)
    }

    /// What the instance takes now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
