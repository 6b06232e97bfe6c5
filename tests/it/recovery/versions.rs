//! A new version of the rule takes over between two batches, also when a crash lies between them.

use crate::support::host::{Fault, Stream};
use crate::support::{data, folder};
use keyfold::wasm::component::digest_of;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The same rule with another digest: a component may have sections that nobody reads.
fn other_version(component: &[u8]) -> Vec<u8> {
    const CUSTOM: u8 = 0;
    let name = b"version-2";
    let mut other = component.to_vec();
    other.extend([CUSTOM, name.len() as u8 + 1, name.len() as u8]);
    other.extend(name);
    other
}

/// A stream that stopped with batches 3, 4 and 5 planned and not committed, and groups that fail in every batch: their
/// dead letters name the version that failed.
fn stopped(work: &Path) -> Stream {
    data::card_sessions(&work.join("input"), 12_000, 5);
    data::spoil(&work.join("input/events-000.jsonl"));
    data::spoil(&work.join("input/events-003.jsonl"));
    let stream = Stream { event_time: Some("/ts"), ..Stream::of_example("card-sessions", work, "stopped") };
    let stream = Stream { batch_events: 500, ..stream };
    stream.run_into(Fault::BeforeDelivery(1));
    stream.save(&work.join("older"));
    stream.run_into(Fault::BeforeDelivery(4));
    for partition in 0..stream.partitions {
        folder::restore_partition(&work.join("older"), &stream.data, partition);
    }
    stream
}

#[test]
fn planned_batches_are_finished_by_the_version_that_they_were_planned_with() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let old = stopped(work.path());
    let new = Stream { component: other_version(&old.component), ..old.clone() };
    new.run_to_the_end();
    let [old_digest, new_digest] = [&old, &new].map(|stream| digest_of(&stream.component));
    let mut failed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (_, batch, letter) in new.dead_letters() {
        failed.entry(batch.0).or_default().extend(letter.digest);
    }
    let digests_of = |first: u64, last: u64| failed.range(first..=last).flat_map(|(_, digests)| digests.clone());
    assert!(digests_of(3, 5).count() > 0 && digests_of(6, u64::MAX).count() > 0, "groups fail in both: {failed:?}");
    assert!(digests_of(0, 5).all(|digest| digest == old_digest), "planned with {old_digest}: {failed:?}");
    assert!(digests_of(6, u64::MAX).all(|digest| digest == new_digest), "planned with {new_digest}: {failed:?}");
    let kept = folder::files(&new.data.join("components"));
    assert_eq!(kept.len(), 2, "the folder keeps both versions: {:?}", kept.keys());
}

#[test]
fn without_the_version_that_was_planned_with_the_run_says_what_is_missing() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let old = stopped(work.path());
    fs::remove_dir_all(old.data.join("components")).expect("the version is kept there");
    let new = Stream { component: other_version(&old.component), ..old.clone() };
    let error = format!("{:#}", new.run(Fault::None).expect_err("the planned batches need the old version"));
    let digest = digest_of(&old.component);
    let name = digest.strip_prefix("sha256:").expect("a digest says how it is made");
    assert!(error.contains("planned with") && error.contains(name), "{error}");
    assert_eq!(old.committed(), new.committed());
}
