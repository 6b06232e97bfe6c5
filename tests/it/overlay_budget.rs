//! Changed states take no more memory than they are given.

use crate::support::rules::{Setup, event, example};
use keyfold::r#gen::Random;

const BATCHES: u64 = 150;
const KEYS: u32 = 2000;
const EVENTS: usize = 40;
/// Some 600 rows of 170 bytes, of the 2,000 that there are.
const BYTES_MAX: usize = 100 * 1024;

fn setup(overlay_bytes_max: usize) -> Setup {
    Setup { partitions: 3, overlay_bytes_max, ..Setup::new(example("running-count")) }
}

#[test]
fn a_small_budget_is_kept_and_changes_no_state() {
    let (mut small, mut large) = (setup(BYTES_MAX).open(), setup(usize::MAX).open());
    let mut random = Random::new(7, 0);
    let mut most = 0;
    for number in 0..BATCHES {
        let key = |_| event(&format!("key-{:04}", random.between(0, KEYS - 1)), 1);
        let lines: Vec<String> = (0..EVENTS).map(key).collect();
        let of_small = small.run(&lines);
        assert!(
            of_small.progress.memory_used_bytes <= BYTES_MAX as u64,
            "{} bytes after batch {number}",
            of_small.progress.memory_used_bytes
        );
        let of_large = large.run(&lines);
        most = most.max(of_large.progress.memory_used_bytes);
        assert_eq!(of_small.outputs, of_large.outputs, "batch {number}");
    }
    assert!(most > BYTES_MAX as u64, "{most} bytes without the budget: it had nothing to do");
    assert_eq!(small.rows(), large.rows());
}
