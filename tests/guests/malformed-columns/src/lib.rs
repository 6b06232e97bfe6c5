//! Answers with malformed columns for keys `bad-KIND`, each kind malformed in one way and well-formed in all others.
#![cfg(target_arch = "wasm32")]

use columns::{Answer, Failure, Guest, Outcomes, VERDICT_FAILED, VERDICT_KEEP};

struct MalformedColumns;

/// Empty outputs cost the guest four bytes each; a host that makes an object of every output pays much more.
const HUGE_COUNT: usize = 4_000_000;

impl Guest for MalformedColumns {
    fn answer(key: &str, count: u64) -> Answer {
        let mut answer = Answer::counted(key, count);
        match key {
            "bad-unknown-verdict" => answer.verdict = 4,
            "bad-state-without-update" => answer.verdict = VERDICT_KEEP,
            "bad-timeout-clock-9" => answer.timeout_clock = 9,
            "bad-outputs-not-json" => answer.outputs = vec![b"not json".to_vec()],
            "bad-output-with-newline" => answer.outputs = vec![b"{\"key\":\n\"bad\"}".to_vec()],
            "bad-errors-not-utf8" => {
                let error = b"\xff\xfe".to_vec();
                answer = Answer { verdict: VERDICT_FAILED, state: Vec::new(), outputs: Vec::new(), error, ..answer };
            }
            _ => {}
        }
        answer
    }

    fn finish(mut outcomes: Outcomes, keys: &[&str]) -> Result<Outcomes, Failure> {
        for key in keys {
            malform(&mut outcomes, key);
        }
        Ok(outcomes)
    }
}

fn malform(outcomes: &mut Outcomes, key: &str) {
    let bytes = outcomes.outputs.len() as u32;
    match key {
        "bad-short-verdicts" => outcomes.verdicts.truncate(outcomes.verdicts.len() - 1),
        "bad-decreasing-ends" => add_outputs(outcomes, &[bytes - 1, bytes]),
        "bad-ends-past-bytes" => add_outputs(outcomes, &[u32::MAX]),
        "bad-ends-before-bytes" => outcomes.outputs.extend(b"{}"),
        "bad-group-output-ends" => outcomes.group_output_ends.iter_mut().for_each(|end| *end += 1),
        "bad-huge-counts" => add_outputs(outcomes, &vec![bytes; HUGE_COUNT]),
        _ => {}
    }
}

/// Gives the last group more outputs, which end where `ends` says.
fn add_outputs(outcomes: &mut Outcomes, ends: &[u32]) {
    outcomes.output_ends.extend(ends);
    if let Some(last) = outcomes.group_output_ends.last_mut() {
        *last += ends.len() as u32;
    }
}

columns::export!(MalformedColumns);
