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

mod catalogue;
mod deltas;
pub mod fault;
pub mod import;
pub mod layout;
pub mod listing;
pub mod object;
mod partition_restore;
pub mod positions;
pub mod restore;
mod restored_plans;
pub mod snapshot;
pub mod store;
pub mod summary;
pub mod verify;

pub use layout::Object;
pub use store::{CheckpointStore, Created};
