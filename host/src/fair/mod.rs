//! Fair share of the cores between tenants: whoever computes holds a permit, and hands it over when another tenant has had less.
//!
//! A guest that computes asks for a permit first and gives it back afterwards. In between it looks now and then whether it has
//! computed for a slice and somebody with less virtual time waits; then the other goes on. Virtual time is CPU time by weight, so a
//! busy tenant can slow down itself and no other: one that was idle waits for a slice of each core at most, and one that comes again and
//! again finds a core free, because a busy tenant leaves the last one to whoever computed not long ago.

mod bucket;
mod scheduler;
mod share;
mod slots;
mod turn;

pub use share::{CpuShare, FairShare, Share, TenantShare, TenantUse};
pub use slots::Slot;
pub use turn::Turn;
