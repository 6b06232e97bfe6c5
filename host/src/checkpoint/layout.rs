//! [`Object`]: the objects of a checkpoint and their names.

use crate::event::{BatchId, PartitionId};
use object_store::path::Path;

/// An object of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// Which rule, how many partitions, the version of the format.
    Metadata,
    /// A host that wrote here. Numbers begin at 1.
    Epoch(u64),
    /// The plan of a batch.
    Offsets(BatchId),
    /// How far all plans up to a batch have read every file, so that older plans can be deleted.
    Positions(BatchId),
    /// That all partitions have committed a batch.
    Commit(BatchId),
    /// What a batch did in a partition.
    Delta(PartitionId, BatchId),
    /// All rows of a partition after a batch.
    Snapshot(PartitionId, BatchId),
    /// A component, by its digest without the name of the hash.
    Component(String),
    /// A file of imported states, by its name in the data folder.
    Import(String),
}

/// The objects of one kind, as they can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// All objects.
    All,
    /// The epochs.
    Epochs,
    /// The plans.
    Offsets,
    /// How far files were read.
    Positions,
    /// The commits.
    Commits,
    /// Deltas and snapshots of a partition.
    Partition(PartitionId),
}

/// Spark's number of the operator, of which a rule has one.
const OPERATOR: &str = "state/0";

impl Object {
    /// The name, relative to the checkpoint.
    pub fn name(&self) -> String {
        match self {
            Object::Metadata => "metadata".to_owned(),
            Object::Epoch(epoch) => format!("epoch/{epoch}"),
            Object::Offsets(batch) => format!("offsets/{batch}"),
            Object::Positions(batch) => format!("positions/{batch}"),
            Object::Commit(batch) => format!("commits/{batch}"),
            Object::Delta(partition, batch) => format!("{OPERATOR}/{partition}/{batch}.delta"),
            Object::Snapshot(partition, batch) => format!("{OPERATOR}/{partition}/{batch}.snapshot"),
            Object::Component(digest) => format!("components/{digest}.wasm"),
            Object::Import(file) => format!("imports/{file}"),
        }
    }

    /// The object with this name; none for names that are not ours.
    pub fn of_name(name: &str) -> Option<Self> {
        let batch = |text: &str| number(text).map(BatchId);
        if name == "metadata" {
            return Some(Object::Metadata);
        }
        if let Some(rest) = name.strip_prefix(OPERATOR).and_then(|rest| rest.strip_prefix('/')) {
            let (partition, file) = rest.split_once('/')?;
            let partition = PartitionId(number(partition)?.try_into().ok()?);
            return match file.rsplit_once('.')? {
                (number, "delta") => Some(Object::Delta(partition, batch(number)?)),
                (number, "snapshot") => Some(Object::Snapshot(partition, batch(number)?)),
                _ => None,
            };
        }
        match name.split_once('/')? {
            ("epoch", rest) => Some(Object::Epoch(number(rest)?)),
            ("offsets", rest) => Some(Object::Offsets(batch(rest)?)),
            ("positions", rest) => Some(Object::Positions(batch(rest)?)),
            ("commits", rest) => Some(Object::Commit(batch(rest)?)),
            ("components", rest) => Some(Object::Component(rest.strip_suffix(".wasm")?.to_owned())),
            ("imports", rest) => Some(Object::Import(rest.to_owned())),
            _ => None,
        }
    }

    pub(super) fn path(&self, root: &Path) -> Path {
        self.name().split('/').fold(root.clone(), |path, part| path.join(part))
    }
}

impl Folder {
    /// The name that all of its objects begin with; none for all objects.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Folder::All => None,
            Folder::Epochs => Some("epoch".to_owned()),
            Folder::Offsets => Some("offsets".to_owned()),
            Folder::Positions => Some("positions".to_owned()),
            Folder::Commits => Some("commits".to_owned()),
            Folder::Partition(partition) => Some(format!("{OPERATOR}/{partition}")),
        }
    }
}

/// Only the way in which we write numbers: `+1` and `01` are somebody else's.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_by_its_name_and_nothing_else_is() {
        for object in [
            Object::Metadata,
            Object::Epoch(7),
            Object::Offsets(BatchId(0)),
            Object::Positions(BatchId(7)),
            Object::Commit(BatchId(12)),
            Object::Delta(PartitionId(3), BatchId(12)),
            Object::Snapshot(PartitionId(0), BatchId(9)),
            Object::Component("ab12".to_owned()),
            Object::Import("000000-initial.jsonl".to_owned()),
        ] {
            assert_eq!(Object::of_name(&object.name()), Some(object));
        }
        for name in
            ["", "offsets", "offsets/01", "offsets/+1", "commits/x", "state/0/1/2", "state/1/0/2.delta", "other/1"]
        {
            assert_eq!(Object::of_name(name), None, "{name}");
        }
    }
}
