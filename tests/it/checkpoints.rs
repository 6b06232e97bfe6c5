//! What a rule needs to go on elsewhere: checkpoints in a folder and in S3, written, taken over and fenced off, in stores that fail,
//! and read back whole and damaged; and backups.

mod backup;
mod bench;
mod damage;
mod faults;
mod fencing;
mod kills;
mod restore;
mod s3;
mod trial;
mod verify;
mod writing;
