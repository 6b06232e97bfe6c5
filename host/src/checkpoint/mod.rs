//! Checkpoints: what a rule needs to go on elsewhere, in an object store.
//!
//! ```text
//! metadata                            which rule, how many partitions, the version of the format
//! epoch/<e>                           who wrote here, one object for each start of a host
//! offsets/<batch>                     the plan of a batch
//! positions/<batch>                   how far the plans up to a batch have read every file; plans before it may be gone
//! commits/<batch>                     that all partitions have committed it, and what the objects below must hold
//! state/0/<partition>/<batch>.delta     changed rows, outputs and dead letters of a batch
//! state/0/<partition>/<batch>.snapshot  all rows and dead letters after a batch
//! components/<digest>.wasm            the code that plans name
//! imports/<file>                      the imported states that plans name
//! ```
//!
//! Objects are only ever created. One that is there already is either the same, and then all is well, or somebody else's. A batch's
//! objects appear in the order plan, deltas, commit: who finds a commit finds everything before it.

mod after_checkpoint;
mod backoff;
mod beginning;
mod catalogue;
mod checkpointer;
mod deltas;
mod epochs;
pub mod fault;
mod fence;
pub mod import;
pub mod layout;
mod ledger;
pub mod listing;
pub mod object;
mod partition_restore;
pub mod positions;
mod refusal;
pub mod restore;
mod restored_plans;
pub mod retention;
pub mod settings;
pub mod snapshot;
mod snapshots;
pub mod store;
pub mod summary;
pub mod take_over;
mod uploader;
pub mod verify;
mod writer;

pub use checkpointer::Checkpointer;
pub use layout::Object;
pub use settings::{CheckpointSettings, ReleaseMode};
pub use store::{CheckpointStore, Created};
pub use take_over::take_over;
