//! [`CheckpointArgs`]: the flags of `keyfold run` that say where the state is kept besides the data folder.

use anyhow::{Context, Result};
use keyfold::checkpoint::{CheckpointSettings, CheckpointStore, ReleaseMode, take_over};
use keyfold::clock::Clock;
use keyfold::config::Config;
use std::path::Path;
use std::sync::Arc;

/// Where the state is kept besides the data folder.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Checkpoint")]
pub(super) struct CheckpointArgs {
    /// Also keep the state at s3://BUCKET/PATH or in a folder, to go on from there when this machine is lost. Keys and region for S3
    /// come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION; AWS_ENDPOINT for servers other than Amazon's,
    /// with AWS_ALLOW_HTTP=true when they are reached without TLS
    #[arg(long, value_name = "URL")]
    pub checkpoint: Option<String>,

    /// When outputs leave: when their batch is committed here, or when it is in the checkpoint too, so that no host that goes on from
    /// there is behind what was put out [default: after-commit]
    #[arg(long, value_name = "WHEN", value_parser = ["after-commit", "after-checkpoint"])]
    pub release: Option<String>,

    /// Go on in place of the host that wrote the checkpoint, which then stops by itself: with a new data folder, which is restored
    /// first, or one that `keyfold restore` has made
    #[arg(long)]
    pub take_over: bool,

    /// Batches from one snapshot of a partition to the next [default: 100]
    #[arg(long, value_name = "N")]
    pub snapshot_batches: Option<u64>,

    /// Snapshots of each partition that are kept in the checkpoint, with everything after them [default: 2]
    #[arg(long, value_name = "N")]
    pub checkpoints_retained: Option<usize>,

    /// Batches that may wait for the checkpoint before no more input is read [default: 100]
    #[arg(long, value_name = "N")]
    pub checkpoint_lag_batches: Option<u64>,
}

impl CheckpointArgs {
    pub fn release(&self) -> Option<ReleaseMode> {
        self.release.as_deref().map(|release| match release {
            "after-checkpoint" => ReleaseMode::AfterCheckpoint,
            _ => ReleaseMode::AfterCommit,
        })
    }

    /// Opens the checkpoint of a data folder, and takes it over when that is asked for.
    pub fn open(&self, config: &Config, folder: &Path) -> Result<Option<CheckpointSettings>> {
        let Some(checkpoint) = &config.checkpoint else {
            anyhow::ensure!(
                !self.take_over,
                "--take-over needs the checkpoint that is taken over: add --checkpoint URL"
            );
            return Ok(None);
        };
        let store = Arc::new(CheckpointStore::open(&checkpoint.url)?);
        if self.take_over {
            let attempt = || format!("failed to take over the checkpoint {}", checkpoint.url);
            take_over(&store, folder, &Clock::System).with_context(attempt)?;
        }
        Ok(Some(CheckpointSettings {
            store,
            release: checkpoint.release,
            snapshot_batches: checkpoint.snapshot_batches,
            retained: checkpoint.retained,
            lag_batches: checkpoint.lag_batches,
        }))
    }
}
