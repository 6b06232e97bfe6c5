//! What is set of the checkpoint, checked.

use super::{Settings, at_least_one};
use crate::checkpoint::ReleaseMode;
use crate::checkpoint::settings::{
    CHECKPOINT_LAG_BATCHES_DEFAULT, CHECKPOINTS_RETAINED_DEFAULT, SNAPSHOT_BATCHES_DEFAULT,
};
use anyhow::{Result, ensure};

/// Where the checkpoint is, and how it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// `s3://BUCKET/PATH`, or a folder.
    pub url: String,
    /// When outputs may leave.
    pub release: ReleaseMode,
    /// A snapshot of each partition in so many batches.
    pub snapshot_batches: u64,
    /// So many snapshots of each partition are kept.
    pub retained: usize,
    /// Batches that may wait before the source is held back.
    pub lag_batches: u64,
}

impl Checkpoint {
    /// None when no checkpoint is named. Then nothing else may be said of one.
    pub(super) fn of(settings: &Settings) -> Result<Option<Self>> {
        let Some(url) = settings.checkpoint.clone() else {
            let names = [
                ("snapshot-batches", settings.snapshot_batches.is_some()),
                ("checkpoints-retained", settings.checkpoints_retained.is_some()),
                ("checkpoint-lag-batches", settings.checkpoint_lag_batches.is_some()),
                ("release after-checkpoint", settings.release == Some(ReleaseMode::AfterCheckpoint)),
            ];
            for (name, is_set) in names {
                ensure!(!is_set, "{name} is set, and no checkpoint is named: add --checkpoint URL");
            }
            return Ok(None);
        };
        ensure!(
            settings.batch != Some(true),
            "a batch query keeps no state: leave out the checkpoint, or run without --batch"
        );
        ensure!(
            settings.data.is_some(),
            "a checkpoint is made from a data folder that stays: name one with --data, or leave the checkpoint out"
        );
        let count = |name, set: Option<u64>, default: u64| -> Result<u64> {
            let count = usize::try_from(set.unwrap_or(default)).unwrap_or(usize::MAX);
            Ok(at_least_one(name, count)? as u64)
        };
        Ok(Some(Checkpoint {
            url,
            release: settings.release.unwrap_or_default(),
            snapshot_batches: count("snapshot-batches", settings.snapshot_batches, SNAPSHOT_BATCHES_DEFAULT)?,
            retained: at_least_one(
                "checkpoints-retained",
                settings.checkpoints_retained.unwrap_or(CHECKPOINTS_RETAINED_DEFAULT),
            )?,
            lag_batches: count(
                "checkpoint-lag-batches",
                settings.checkpoint_lag_batches,
                CHECKPOINT_LAG_BATCHES_DEFAULT,
            )?,
        }))
    }
}

/// A path of a rule file is relative to the file; a URL is not.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn check(text: &str) -> Result<Option<Checkpoint>> {
        Ok(Settings::parse(&format!("component = 'x'\nkey = '/a'\n{text}"))?.check()?.checkpoint)
    }

    #[test]
    fn what_is_not_said_of_a_checkpoint_has_a_default() {
        let found =
            check("data = 'd'\ncheckpoint = 's3://bucket/path'\nrelease = 'after-checkpoint'").expect("it is right");
        let expected = Checkpoint {
            url: "s3://bucket/path".to_owned(),
            release: ReleaseMode::AfterCheckpoint,
            snapshot_batches: 100,
            retained: 2,
            lag_batches: 100,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(check("data = 'd'\nrelease = 'after-commit'").expect("it is right"), None);
    }

    #[test]
    fn a_folder_in_a_rule_file_is_relative_to_it_and_a_url_is_not() {
        for (written, meant) in [("kept", "rules/kept"), ("s3://bucket/path", "s3://bucket/path")] {
            let settings = Settings::parse(&format!("checkpoint = '{written}'")).expect("it parses");
            assert_eq!(settings.relative_to(Path::new("rules")).checkpoint.as_deref(), Some(meant));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, part) in [
            ("checkpoint = 'c'", "--data"),
            ("data = 'd'\nsnapshot-batches = 3", "--checkpoint"),
            ("data = 'd'\nrelease = 'after-checkpoint'", "--checkpoint"),
            ("data = 'd'\ncheckpoint = 'c'\ncheckpoints-retained = 0", "checkpoints-retained"),
            ("data = 'd'\ncheckpoint = 'c'\nrelease = 'sometimes'", "sometimes"),
            ("batch = true\ncheckpoint = 'c'", "--batch"),
        ] {
            let error = check(text).expect_err(text);
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
}
