//! Durable state: one SQLite file for each partition, and the plan log. The only folder that knows SQLite.
//!
//! A batch's changed states are written as one delta row, and in rotation one slice of the key groups is folded into the
//! table at each commit; see [`partition_db`]. What a fold replaces is kept for a while, so that earlier batches can be read;
//! see `history.rs`. State, timeouts, outputs, dead letters and offsets of a partition change in
//! one transaction.

pub mod backup;
mod budget;
pub mod catalogue;
mod clean;
mod damage;
mod dead_letter_table;
pub mod delta;
mod delta_table;
mod due_times;
mod fold;
mod fold_table;
pub mod folder_reader;
mod history;
mod hold;
mod meta_table;
pub mod outbox_reader;
mod outbox_table;
// For its benchmarks.
#[doc(hidden)]
pub mod overlay;
pub mod partition_db;
pub mod plan_log;
mod progress_table;
pub mod reader;
mod refused_table;
pub mod restored;
mod row_counts;
mod settings;
pub mod shipping;
pub mod split;
mod state_table;
mod switch;
mod undo_table;
mod view;

pub use budget::{Budget, OVERLAY_BYTES_DEFAULT};
pub use dead_letter_table::{DeadEvent, DeadLetter, KeptLetter};
pub use delta::DeltaBuilder;
pub use hold::Hold;
pub use outbox_reader::{OutboxReader, OutputSize};
pub use outbox_table::OutputBlock;
pub use partition_db::{Commit, Loaded, PartitionDb};
pub use plan_log::{NextRun, PlanLog};
pub use refused_table::RefusedOutput;
pub use row_counts::{RowChanges, RowCounts};
pub use shipping::Shipped;
