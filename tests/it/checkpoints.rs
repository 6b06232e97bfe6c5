//! What a rule needs to go on elsewhere: checkpoints in a folder and in S3, read back whole and damaged, and backups.

mod backup;
mod damage;
mod kills;
mod restore;
mod s3;
mod trial;
mod verify;
