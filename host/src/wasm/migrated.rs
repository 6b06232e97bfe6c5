//! [`Migrated`]: states that a rule has rewritten, checked.

use super::error::{CallError, Reason};
use crate::group::item;
use crate::limits::Limits;
use std::collections::BTreeMap;

/// States that a rule has rewritten. Those over the limit failed; the others can be used.
#[derive(Debug)]
pub struct Migrated {
    states: Vec<u8>,
    ends: Vec<u32>,
    failed: BTreeMap<usize, CallError>,
}

impl Migrated {
    /// Checks what a rule returned for so many states. An error means that no state can be told from another.
    pub fn check(states: Vec<u8>, ends: Vec<u32>, count: usize, limits: &Limits) -> Result<Self, CallError> {
        let malformed = |message: String| Err(CallError::new(Reason::MalformedAnswer, message));
        if ends.len() != count {
            return malformed(format!("the migration returned {} states for {count}", ends.len()));
        }
        if let Some(pair) = ends.windows(2).find(|pair| pair[0] > pair[1]) {
            return malformed(format!("state-ends of the migration decreases from {} to {}", pair[0], pair[1]));
        }
        let last = ends.last().map_or(0, |&end| end as usize);
        if last != states.len() {
            return malformed(format!(
                "state-ends of the migration ends at {last}, its column has {} bytes",
                states.len()
            ));
        }
        let mut migrated = Migrated { states, ends, failed: BTreeMap::new() };
        for number in 0..count {
            let bytes = item(&migrated.states, &migrated.ends, number).len() as u64;
            if bytes > limits.state_bytes_max {
                let message = format!(
                    "the migrated state has {bytes} bytes, the limit is {}: keep less in it, or raise state-bytes-max",
                    limits.state_bytes_max
                );
                migrated.failed.insert(number, CallError::new(Reason::StateLimit, message));
            }
        }
        Ok(migrated)
    }

    /// A rewritten state, or why there is none.
    pub fn state(&self, number: usize) -> Result<&[u8], &CallError> {
        match self.failed.get(&number) {
            Some(error) => Err(error),
            None => Ok(item(&self.states, &self.ends, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(states: &[u8], ends: &[u32], count: usize) -> Result<Migrated, CallError> {
        let limits = Limits { state_bytes_max: 3, ..Limits::default() };
        Migrated::check(states.to_vec(), ends.to_vec(), count, &limits)
    }

    #[test]
    fn each_state_is_found_by_its_end_and_one_that_is_too_large_fails_alone() {
        let migrated = check(b"abcdefg", &[2, 6, 6, 7], 4).unwrap();
        assert_eq!(migrated.state(0), Ok(&b"ab"[..]));
        assert_eq!(migrated.state(1).unwrap_err().reason, Reason::StateLimit);
        assert_eq!((migrated.state(2), migrated.state(3)), (Ok(&b""[..]), Ok(&b"g"[..])));
    }

    #[test]
    fn ends_that_do_not_fit_fail_the_call() {
        for (states, ends, count, part) in [
            (&b"ab"[..], &[1][..], 2, "returned 1 states for 2"),
            (b"ab", &[2, 1], 2, "decreases from 2 to 1"),
            (b"ab", &[1, 1], 2, "ends at 1"),
            (b"ab", &[1, 4_000_000_000], 2, "ends at 4000000000"),
            (b"ab", &[], 0, "ends at 0"),
        ] {
            let error = check(states, ends, count).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }
}
