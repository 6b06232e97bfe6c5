//! A rule whose outputs are posted to a URL, and what they must be.

use crate::support::place::Place;
use crate::support::process::Process;
use crate::support::receiver::Post;
use crate::support::{command, data, folder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// The card sessions over generated payments.
pub struct Trial {
    pub place: Place,
    /// The outputs, as a run into a folder writes them.
    pub expected: Vec<String>,
}

impl Trial {
    /// Posts to this URL, with these lines in the table `[webhook]`.
    pub fn new(events: u64, url: &str, webhook: &str) -> Self {
        let component = command::example("card-sessions").join("rule.wasm");
        let settings = format!(
            "input = 'input'\nkey = '/user_id'\nevent-time = '/ts'\nwatermark-delay = '10s'\nbatch-events = 500\n\
             [webhook]\nurl = '{url}'\ntimeout = '20s'\nretry-max-interval = '20ms'\n{webhook}\n"
        );
        let place = Place::with_rule(&component, &settings);
        data::card_sessions(&place.path("input"), events, 11);
        place.finish(&["run", ".", "--quiet", "--data", "reference", "--output", "expected"]).ok();
        let expected = folder::lines(&place.path("expected"));
        assert!(expected.len() > 100, "the input gives only {} outputs", expected.len());
        Trial { place, expected }
    }

    pub fn call(&self, settings: &[&str]) -> Command {
        self.place.keyfold(&[&["run", ".", "--quiet", "--data", "data"], settings].concat())
    }

    pub fn start(&self, settings: &[&str]) -> Process {
        Process::start(&mut self.call(settings))
    }

    /// Runs until everything is delivered.
    pub fn run(&self) -> command::Finished {
        command::finish(&mut self.call(&[])).ok()
    }

    /// Panics unless these requests are all outputs: each id once but for repetitions with the same bytes, each partition in its
    /// order.
    pub fn assert_complete(&self, posts: &[Post]) {
        let mut outputs = outputs_in_order(posts);
        let mut expected = self.expected.clone();
        assert_eq!(by_user(&outputs), by_user(&expected), "each user's outputs, in their order");
        outputs.sort();
        expected.sort();
        assert_eq!(outputs.len(), expected.len());
        assert!(outputs == expected, "other outputs");
    }
}

/// The outputs in the order in which they came first. Panics when an id is repeated with other bytes, or when outputs of a
/// partition come out of order.
pub fn outputs_in_order(posts: &[Post]) -> Vec<String> {
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    let mut last: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut outputs = Vec::new();
    for post in posts {
        if let Some(before) = bodies.insert(&post.key, &post.body) {
            assert_eq!(before, post.body, "{} has other bytes the second time", post.key);
            continue;
        }
        let (first, to) = post.numbers;
        let before = last.insert(post.partition, (post.batch, to));
        assert!(before.is_none_or(|before| before < (post.batch, first)), "{} comes after {before:?}", post.key);
        assert_eq!(post.body.lines().count() as u64, to - first + 1, "{} names its outputs", post.key);
        outputs.extend(post.body.lines().map(str::to_owned));
    }
    outputs
}

/// Each user's outputs, in their order.
pub fn by_user(outputs: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut by_user: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for output in outputs {
        by_user.entry(user(output)).or_default().push(output.clone());
    }
    by_user
}

pub fn user(output: &str) -> String {
    let output: Value = serde_json::from_str(output).expect("outputs are JSON");
    output["user_id"].as_str().expect("outputs name their user").to_owned()
}
