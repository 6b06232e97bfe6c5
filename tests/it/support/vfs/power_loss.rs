//! [`Disk`]: the files that a loss of power may leave: what was synced is there, what was not is there, is not, or is there in
//! part.

use super::Event;
use keyfold::r#gen::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a disk writes at once.
const SECTOR_BYTES: u64 = 512;

/// The files of a folder at one moment, as the disk and as the programs see them.
#[derive(Default)]
pub struct Disk(BTreeMap<String, File>);

#[derive(Default, Clone)]
struct File {
    /// What is safe; none when not even the name is.
    synced: Option<Vec<u8>>,
    /// What came after, in order.
    changes: Vec<Change>,
    /// Whether it was deleted, and that may be lost.
    is_deleted: bool,
}

#[derive(Clone)]
enum Change {
    Written { offset: u64, bytes: Vec<u8> },
    Cut(u64),
}

/// What becomes of a change that was not synced.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Dropped,
    /// Each sector for itself.
    Torn,
}

impl Disk {
    /// The files of a folder, all of them synced.
    pub fn of_folder(folder: &Path) -> Self {
        let whole = |bytes| File { synced: Some(bytes), ..File::default() };
        let files = crate::support::folder::files(folder).into_iter();
        Disk(
            files
                .filter(|(name, _)| name.contains(".db") && !name.ends_with("-shm"))
                .map(|(name, bytes)| (name, whole(bytes)))
                .collect(),
        )
    }

    /// One thing more has happened.
    pub fn see(&mut self, event: &Event) {
        match event {
            Event::Created(name) => {
                let file = self.0.entry(name.clone()).or_default();
                if file.is_deleted {
                    *file = File::default();
                }
            }
            Event::Written { name, offset, bytes } => {
                self.file(name).changes.push(Change::Written { offset: *offset, bytes: bytes.clone() });
            }
            Event::Cut { name, length } => self.file(name).changes.push(Change::Cut(*length)),
            Event::Synced { name, with_folder } => {
                let file = self.file(name);
                let mut bytes = file.synced.take().unwrap_or_default();
                file.changes.drain(..).for_each(|change| change.apply(&mut bytes, |_| true));
                file.synced = Some(bytes);
                if *with_folder {
                    self.0.retain(|_, file| !file.is_deleted);
                    for file in self.0.values_mut() {
                        file.synced.get_or_insert_default();
                    }
                }
            }
            Event::Deleted { name, synced: true } => drop(self.0.remove(name)),
            Event::Deleted { name, synced: false } => self.file(name).is_deleted = true,
        }
    }

    /// Writes the files that a loss of power leaves now. The seed decides what becomes of what was not synced; among the seeds are
    /// the two extremes, everything (as when only the process is killed) and nothing.
    pub fn lose_power(&self, seed: u64, to: &Path) {
        let mut random = Random::new(seed, 0);
        let extreme = match seed % 5 {
            0 => Some(Fate::Kept),
            1 => Some(Fate::Dropped),
            _ => None,
        };
        fs::create_dir_all(to).expect("a folder can be made");
        for (name, file) in &self.0 {
            if let Some(bytes) = file.left(extreme, &mut random) {
                fs::write(to.join(name), bytes).expect("the disk has room");
            }
        }
    }

    fn file(&mut self, name: &str) -> &mut File {
        self.0.entry(name.to_owned()).or_default()
    }
}

impl File {
    /// What is left of it; none when it is gone.
    fn left(&self, extreme: Option<Fate>, random: &mut Random) -> Option<Vec<u8>> {
        let fates = [Fate::Kept, Fate::Dropped, Fate::Torn];
        let fate = |random: &mut Random| extreme.unwrap_or_else(|| random.one_of(&fates));
        let takes_place = |fate| matches!(fate, Fate::Kept);
        if self.is_deleted && takes_place(fate(random)) {
            return None;
        }
        if self.synced.is_none() && !takes_place(fate(random)) {
            return None;
        }
        let mut bytes = self.synced.clone().unwrap_or_default();
        for change in &self.changes {
            let fate = fate(random);
            change.apply(&mut bytes, |_| match fate {
                Fate::Kept => true,
                Fate::Dropped => false,
                Fate::Torn => random.below(2) == 0,
            });
        }
        Some(bytes)
    }
}

impl Change {
    /// Applies those sectors of it that are wanted; a cut is one.
    fn apply(&self, to: &mut Vec<u8>, mut wanted: impl FnMut(u64) -> bool) {
        let (offset, bytes) = match self {
            Change::Cut(length) => {
                if wanted(0) {
                    to.resize(*length as usize, 0);
                }
                return;
            }
            Change::Written { offset, bytes } => (*offset, bytes),
        };
        let mut from = 0;
        while from < bytes.len() {
            let at = offset + from as u64;
            let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
            let until = (from + room).min(bytes.len());
            if wanted(at / SECTOR_BYTES) {
                let end = at as usize + (until - from);
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[at as usize..end].copy_from_slice(&bytes[from..until]);
            }
            from = until;
        }
    }
}

#[test]
fn what_was_synced_survives_and_what_was_not_is_kept_dropped_or_torn() {
    let written =
        |offset, byte, count: usize| Event::Written { name: "a.db".to_owned(), offset, bytes: vec![byte; count] };
    let synced = Event::Synced { name: "a.db".to_owned(), with_folder: false };
    let mut disk = Disk::default();
    for event in [Event::Created("a.db".to_owned()), written(0, 1, 1024), synced, written(256, 2, 1024)] {
        disk.see(&event);
    }
    let mut lengths = std::collections::BTreeSet::new();
    let mut were_torn = false;
    for seed in 0..60 {
        let folder = tempfile::tempdir().expect("a folder can be made");
        disk.lose_power(seed, folder.path());
        let bytes = fs::read(folder.path().join("a.db")).expect("its name is safe");
        assert!(bytes[..256].iter().all(|&byte| byte == 1), "what was not written again is as it was synced");
        // The sectors of the second write: 256 bytes, 512, and 256 behind what was synced.
        let new = [bytes[256] == 2, bytes[512] == 2, bytes.len() > 1024];
        assert!(bytes[256..512].iter().all(|&byte| (byte == 2) == new[0]), "a sector is whole");
        were_torn |= new.contains(&true) && new.contains(&false);
        lengths.insert(bytes.len());
    }
    assert!(were_torn);
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [1024, 1280]);
}
