//! [`point`]: named moments at which a test ends or stops this process, as a crash or a pause would.
//!
//! `KEYFOLD_FAULT="plan-written:2=abort"` ends the process when it comes to the point `plan-written` for the second time. The
//! actions are `abort` (nothing is cleaned up, as in a crash), `exit` (no more than what the end of a process does) and `stop`
//! (SIGSTOP: the process stands still until it gets SIGCONT). `KEYFOLD_FAULT=trace` only says on standard error which points
//! are met. Without debug assertions all of this is left out of the program.

/// All points, in the order in which a run meets them first.
pub const POINTS: &[&str] = &[
    // A new data folder.
    "folder-made",
    "tables-begin",
    "plan-log-made",
    "partition-made",
    "import-written",
    "import-placed",
    // What a crash left.
    "recover-begin",
    "replay-read",
    "component-written",
    "component-placed",
    // Another version is activated.
    "activation-begin",
    "activation-written",
    "activation-told",
    // A batch is planned.
    "read",
    "plan-begin",
    "plan-log-write",
    "plan-written",
    // A batch runs in a partition.
    "call-begin",
    "in-call",
    "commit-begin",
    "commit-fold",
    "commit-delta",
    "commit-outbox",
    "commit-end",
    "committed",
    "partition-done",
    "wal-checkpoint-begin",
    "wal-checkpoint-end",
    // A batch is delivered.
    "deliver-begin",
    "output-written",
    "output-placed",
    "delivered",
    "progress-kept",
    // The end of a run.
    "delivered-begin",
    "delivered-written",
    "partition-close",
];

/// The points of streams, in the order in which a stream meets them first.
pub const STREAM_POINTS: &[&str] = &[
    "block-begin",
    "segment-begin",
    "segment-written",
    "segment-placed",
    "block-half-written",
    "block-written",
    "block-sync",
    "block-synced",
    "stream-shown",
    "segment-deleted",
];

/// The points of the service: what it knows changes.
pub const SERVICE_POINTS: &[&str] = &[
    "service-folder-made",
    "audit-head-written",
    "catalogue-committed",
    "service-deleted",
    "service-removed",
    "version-written",
    "version-placed",
    "activation-wanted",
    "activation-taken",
];

/// What exits with this code was ended by a fault that a test asked for.
pub const EXIT_CODE: i32 = 86;

/// A moment at which the process may end. Its name is one of [`POINTS`], [`STREAM_POINTS`] or [`SERVICE_POINTS`].
#[inline]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    {
        watched::meet(name);
        let _ = asked::meet(name);
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// A moment at which the process may end, or the disk may fail. Two more actions are possible here: `full` (there is no space) and
/// `eio` (the disk fails).
#[inline]
pub fn io(name: &'static str) -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    return asked::meet(name).map_or(Ok(()), Err);
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        Ok(())
    }
}

/// Does some work, and calls `each` at every point that this thread meets: what lies on the disk then is what a crash would leave.
#[cfg(debug_assertions)]
pub fn watch<T>(each: impl FnMut(&'static str) + 'static, work: impl FnOnce() -> T) -> T {
    watched::watch(Box::new(each), work)
}

#[cfg(debug_assertions)]
mod watched {
    use std::cell::RefCell;

    type Each = Box<dyn FnMut(&'static str)>;

    thread_local! {
        static EACH: RefCell<Option<Each>> = const { RefCell::new(None) };
    }

    pub(super) fn watch<T>(each: Each, work: impl FnOnce() -> T) -> T {
        EACH.set(Some(each));
        let done = work();
        EACH.set(None);
        done
    }

    pub(super) fn meet(name: &'static str) {
        // Taken out meanwhile: what is done at a point may meet points itself.
        let Some(mut each) = EACH.take() else { return };
        each(name);
        EACH.set(Some(each));
    }
}

#[cfg(debug_assertions)]
mod asked {
    use super::{EXIT_CODE, POINTS, SERVICE_POINTS, STREAM_POINTS};
    use anyhow::{Context, Result, bail, ensure};
    use std::io::{self, ErrorKind};
    use std::process::Command;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    const VARIABLE: &str = "KEYFOLD_FAULT";

    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Asked {
        Nothing,
        Trace,
        Fault { name: String, nth: u32, action: Action },
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Action {
        Abort,
        Exit,
        Stop,
        Full,
        Eio,
    }

    fn is_listed(name: &str) -> bool {
        [POINTS, STREAM_POINTS, SERVICE_POINTS].iter().any(|points| points.contains(&name))
    }

    pub(super) fn meet(name: &'static str) -> Option<io::Error> {
        static ASKED: OnceLock<Asked> = OnceLock::new();
        static MET: AtomicU32 = AtomicU32::new(0);
        assert!(is_listed(name), "{name} is not in the list of points");
        let asked = ASKED.get_or_init(|| {
            let text = std::env::var(VARIABLE).unwrap_or_default();
            // A misspelled fault would let a test pass in which nothing has failed.
            parse(&text).unwrap_or_else(|error| panic!("{VARIABLE}={text}: {error:#}"))
        });
        match asked {
            Asked::Nothing => {}
            Asked::Trace => eprintln!("fault point {name}"),
            Asked::Fault { name: wanted, nth, action } => {
                if wanted == name && MET.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
                    return action.take();
                }
            }
        }
        None
    }

    pub(super) fn parse(text: &str) -> Result<Asked> {
        match text {
            "" => return Ok(Asked::Nothing),
            "trace" => return Ok(Asked::Trace),
            _ => {}
        }
        let (place, action) = text.split_once('=').context("write NAME[:NTH]=ACTION, or trace")?;
        let (name, nth) = place.split_once(':').unwrap_or((place, "1"));
        ensure!(is_listed(name), "there is no point {name}");
        let nth = nth.parse().with_context(|| format!("{nth} is not a number"))?;
        ensure!(nth > 0, "occurrences are counted from 1");
        let action = match action {
            "abort" => Action::Abort,
            "exit" => Action::Exit,
            "stop" => Action::Stop,
            "full" => Action::Full,
            "eio" => Action::Eio,
            other => bail!("the action {other} is not abort, exit, stop, full or eio"),
        };
        Ok(Asked::Fault { name: name.to_owned(), nth, action })
    }

    impl Action {
        fn take(self) -> Option<io::Error> {
            match self {
                Action::Abort => std::process::abort(),
                Action::Exit => std::process::exit(EXIT_CODE),
                Action::Stop => {
                    // A program of its own sends the signal, which saves unsafe code. It is waited for, so that this thread goes no
                    // further than it may have come before the others stand still.
                    let id = std::process::id().to_string();
                    let sent = Command::new("kill").args(["-STOP", &id]).status();
                    assert!(sent.is_ok_and(|status| status.success()), "the process {id} could not be stopped");
                    None
                }
                Action::Full => Some(ErrorKind::StorageFull.into()),
                Action::Eio => Some(io::Error::other("the disk fails")),
            }
        }
    }
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use super::asked::{Action, Asked, parse};
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_point_is_listed_once() {
        assert_eq!(
            POINTS.iter().chain(STREAM_POINTS).chain(SERVICE_POINTS).collect::<HashSet<_>>().len(),
            POINTS.len() + STREAM_POINTS.len() + SERVICE_POINTS.len()
        );
    }

    #[test]
    fn a_fault_names_a_point_an_occurrence_and_an_action() {
        let fault = |nth, action| Asked::Fault { name: "plan-written".to_owned(), nth, action };
        assert_eq!(parse("").unwrap(), Asked::Nothing);
        assert_eq!(parse("trace").unwrap(), Asked::Trace);
        assert_eq!(parse("plan-written=abort").unwrap(), fault(1, Action::Abort));
        assert_eq!(parse("plan-written:3=exit").unwrap(), fault(3, Action::Exit));
        assert_eq!(parse("plan-written:1=stop").unwrap(), fault(1, Action::Stop));
        assert_eq!(parse("plan-written=full").unwrap(), fault(1, Action::Full));
    }

    #[test]
    fn a_fault_that_would_never_come_is_refused() {
        for (text, part) in [
            ("plan-written", "NAME[:NTH]=ACTION"),
            ("plan-writen=abort", "no point plan-writen"),
            ("plan-written:0=abort", "counted from 1"),
            ("plan-written:x=abort", "x is not a number"),
            ("plan-written=panic", "panic is not abort"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    #[should_panic(expected = "is not in the list")]
    fn a_point_that_is_not_listed_is_a_fault_of_ours() {
        point("nowhere");
    }
}
