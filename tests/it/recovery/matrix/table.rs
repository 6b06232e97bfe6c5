//! The points of the binary and what each of them stands for.

/// Each point with the moment that it stands for, in the words of the list of crash points in `docs/guarantees.md`.
pub const POINTS_IN_ROWS: &[(&str, &str)] = &[
    ("folder-made", "start of a new folder: before it is locked"),
    ("tables-begin", "start of a new folder: a file without tables"),
    ("plan-log-made", "start of a new folder: a plan log that belongs to nobody"),
    ("partition-made", "start of a new folder: a partition that is not marked"),
    ("import-written", "import: the copy is written and has no name"),
    ("import-placed", "import: the copy has its name, the folder is not synced"),
    ("recover-begin", "before anything is recovered"),
    ("replay-read", "4: events of a planned batch are read again"),
    ("component-written", "7: the component is written and has no name"),
    ("component-placed", "7: the component has its name, the folder is not synced"),
    ("activation-begin", "42: before an activation is looked at"),
    ("activation-written", "42: the activation is written, nobody knows"),
    ("activation-told", "42: whoever asked for it knows, no plan names the version"),
    ("read", "3: events are read, nothing is planned"),
    ("plan-begin", "1: before the plan is written"),
    ("plan-log-write", "1: in the transaction of the plan or of what is delivered"),
    ("plan-written", "2: after the plan is written, before any partition has it"),
    ("call-begin", "4: before the call of the rule"),
    ("in-call", "5: in the call of the rule"),
    ("commit-begin", "8: before BEGIN"),
    ("commit-fold", "10, 11: after the fold, which has the timeouts as well"),
    ("commit-delta", "9: after the delta"),
    ("commit-outbox", "9: after the outputs"),
    ("commit-end", "12: before COMMIT"),
    ("committed", "15: after COMMIT, before the host knows"),
    ("partition-done", "16: one partition has committed, another has not"),
    ("wal-checkpoint-begin", "19: before the log is copied to the file"),
    ("wal-checkpoint-end", "19: after the log was copied to the file"),
    ("deliver-begin", "23: outputs are at hand, the sink has nothing"),
    ("output-written", "24: the file of outputs is written and has no name"),
    ("output-placed", "24: the file of outputs has its name, the folder is not synced"),
    ("delivered", "25: the sink has the outputs, nobody has noted it"),
    ("progress-kept", "25: noted in memory"),
    ("delivered-begin", "25: before it is noted in the plan log"),
    ("delivered-written", "25: after it is noted in the plan log"),
    ("partition-close", "19: some partitions are closed, their logs copied, others are not"),
];

/// Points that only a partition with much state comes to.
pub const LONG_LOG: &[&str] = &["wal-checkpoint-begin", "wal-checkpoint-end"];

/// Points that only a host comes to whose rule is replaced while it runs; see `swap::crashes`.
pub const OF_SWAPS: &[&str] = &["activation-begin", "activation-written", "activation-told"];
