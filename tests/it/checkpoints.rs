//! What a rule needs to go on elsewhere: checkpoints that are written, taken over and fenced off, in stores that fail.

mod bench;
mod faults;
mod fencing;
mod writing;
