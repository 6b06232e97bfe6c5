//! The count of a key is the number of its events, however they are cut into batches.
#![allow(clippy::unwrap_used)]

use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::TestStream;
use proptest::prelude::*;
use running_count::RunningCount;
use serde_json::json;

proptest! {
    // No file of failures: the sequence of cases is the same on every run.
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn one_row_for_each_batch_with_the_count_so_far(batches in prop::collection::vec((0..3_usize, 1..5_usize), 0..20)) {
        let mut stream = TestStream::new(RunningCount::new(NoParameters {}).unwrap(), 0);
        let mut counts = [0; 3];
        for (key, events) in batches {
            counts[key] += events as u64;
            let name = format!("u{key}");
            let rows = stream.events(&name, &vec![(0, json!({})); events]).unwrap();
            prop_assert_eq!(rows, [json!({ "key": name, "count": counts[key] })]);
            prop_assert_eq!(stream.state(&name).unwrap(), Some(counts[key]));
            prop_assert_eq!(stream.timeout(&name), None);
        }
    }
}
