//! Outputs that the receiver will never take: held by default, to the dead letters when asked.

use super::trial::{Trial, user};
use crate::support::process::wait_until;
use crate::support::receiver::{Answer, Post, Receiver};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Refuses what holds an output of this user; nobody until one is named.
fn refuses(poison: &Arc<Mutex<Option<String>>>) -> impl FnMut(&Post) -> Answer + Send + 'static {
    let poison = Arc::clone(poison);
    move |post| {
        let poison = poison.lock().unwrap();
        let is_poison = post.body.lines().any(|line| poison.as_ref().is_some_and(|poison| user(line) == *poison));
        Answer::status(if is_poison { 422 } else { 200 })
    }
}

/// A user whose output is neither the first nor the last.
fn in_the_middle(trial: &Trial) -> String {
    user(&trial.expected[trial.expected.len() / 2])
}

#[test]
fn a_refused_output_is_held_with_what_comes_after_it_until_it_is_taken() {
    for form in ["one", "lines"] {
        let poison = Arc::default();
        let receiver = Receiver::start(refuses(&poison));
        let trial = Trial::new(6_000, &receiver.url(), &format!("batch = '{form}'"));
        let user_of_poison = in_the_middle(&trial);
        *poison.lock().unwrap() = Some(user_of_poison.clone());
        let mut process = trial.start(&[]);
        let refusals =
            || receiver.posts().into_iter().filter(|post| post.status == 422 && post.numbers.0 == post.numbers.1);
        wait_until("it was refused again and again", || refusals().count() > 10 || !process.is_running());
        let held = refusals().next().expect("it was refused");
        assert_eq!(user(&held.body), user_of_poison);
        assert!(refusals().all(|post| post.key == held.key && post.body == held.body), "one output is tried");
        let passed = receiver.taken().into_iter().find(|post| {
            (post.partition == held.partition && (post.batch, post.numbers) > (held.batch, held.numbers))
                || post.batch > held.batch
        });
        assert!(passed.is_none(), "{passed:?} has passed {held:?}");
        wait_until("the sink is down", || process.has_said("is down") || !process.is_running());
        assert!(process.has_said("was refused; it is held"), "it says why");
        *poison.lock().unwrap() = None;
        wait_until("the run ended", || !process.is_running());
        process.finish().ok();
        trial.assert_complete(&receiver.taken());
    }
}

#[test]
fn a_refused_output_goes_to_the_dead_letters_when_asked_and_the_rest_goes_on() {
    for form in ["one", "lines"] {
        let poison = Arc::default();
        let receiver = Receiver::start(refuses(&poison));
        let trial = Trial::new(6_000, &receiver.url(), &format!("batch = '{form}'\nrefused = 'dead-letter'"));
        let user_of_poison = in_the_middle(&trial);
        *poison.lock().unwrap() = Some(user_of_poison.clone());
        let ran = crate::support::command::finish(&mut trial.place.keyfold(&["run", ".", "--data", "data"])).ok();
        let of_user = |line: &&String| user(line) == user_of_poison;
        let (mut refused, mut others): (Vec<&String>, Vec<&String>) = trial.expected.iter().partition(of_user);
        assert!(ran.stderr.contains(&format!("{} outputs were refused", refused.len())), "{}", ran.stderr);
        let taken = receiver.taken();
        let mut outputs = super::trial::outputs_in_order(&taken);
        outputs.sort();
        others.sort();
        assert!(outputs.iter().eq(others), "all others were taken, form {form}");
        let letters = trial.place.finish(&["dead-letters", "data", "--reason", "output-refused"]).ok().json_lines();
        let mut found: Vec<String> = letters.iter().map(|letter| letter["output"].to_string()).collect();
        found.sort();
        let parse = |line: &&String| serde_json::from_str::<Value>(line).unwrap().to_string();
        refused.sort();
        let mut wanted: Vec<String> = refused.iter().map(parse).collect();
        wanted.sort();
        assert_eq!(found, wanted);
        for letter in &letters {
            let id = format!("/{}/{}/{}", letter["partition"], letter["batch"], letter["number"]);
            let post = receiver.posts().into_iter().find(|post| post.key.ends_with(&id)).expect("it was posted");
            assert_eq!(post.status, 422);
            assert!(letter["message"].as_str().unwrap().contains("422 Unprocessable Entity: so it is"), "{letter}");
        }
        // Nothing of it is tried once more.
        let posts = receiver.posts().len();
        trial.run();
        assert_eq!(receiver.posts().len(), posts);
    }
}

#[test]
fn a_crash_between_refusal_and_the_record_of_it_loses_neither() {
    let poison = Arc::default();
    let receiver = Receiver::start(refuses(&poison));
    let trial = Trial::new(6_000, &receiver.url(), "refused = 'dead-letter'");
    let user_of_poison = in_the_middle(&trial);
    *poison.lock().unwrap() = Some(user_of_poison.clone());
    let mut process = trial.start(&[]);
    let has_refused = || receiver.posts().iter().any(|post| post.status == 422);
    wait_until("an output was refused", || has_refused() || !process.is_running());
    process.kill();
    trial.run();
    let letters = trial.place.finish(&["dead-letters", "data"]).ok().json_lines();
    let refused = trial.expected.iter().filter(|line| user(line) == user_of_poison).count();
    assert_eq!(letters.len(), refused);
    assert_eq!(super::trial::outputs_in_order(&receiver.taken()).len(), trial.expected.len() - refused);
}
