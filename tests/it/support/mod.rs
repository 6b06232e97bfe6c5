//! What several tests share.

pub mod answers;
pub mod bodies;
pub mod card_sessions;
pub mod checkpoint;
pub mod command;
pub mod data;
pub mod deliveries;
pub mod faulty_store;
pub mod few;
pub mod folder;
pub mod host;
pub mod manifests;
pub mod place;
pub mod process;
pub mod receiver;
pub mod rules;
pub mod seaweedfs;
pub mod segments;
pub mod uploads;
pub mod vfs;
