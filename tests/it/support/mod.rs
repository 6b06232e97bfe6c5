//! What several tests share.

pub mod answers;
pub mod card_sessions;
pub mod checkpoint;
pub mod command;
pub mod data;
pub mod faulty_store;
pub mod folder;
pub mod host;
pub mod place;
pub mod process;
pub mod receiver;
pub mod rules;
pub mod seaweedfs;
