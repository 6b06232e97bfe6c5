//! The diagram in `README.md` shows exactly the transitions of the machine.

use crate::replay;
use fraud_session::Transition;
use std::collections::BTreeSet;

const README: &str = include_str!("../../README.md");

/// The labelled arrows of the diagram, as `watching -> suspicious: T4`.
pub fn arrows() -> BTreeSet<String> {
    let (_, rest) = README.split_once("```mermaid\nstateDiagram-v2\n").expect("the README has a state diagram");
    let (diagram, _) = rest.split_once("```").unwrap();
    let arrow = |line: &str| {
        let (from, rest) = line.trim().split_once(" --> ")?;
        let (to, label) = rest.split_once(" : ")?;
        let label = label.split_whitespace().next()?;
        Some(format!("{} -> {}: {label}", from.to_lowercase(), to.to_lowercase()))
    };
    diagram.lines().filter_map(arrow).collect()
}

/// A transition as [`arrows`] writes it.
pub fn arrow(transition: &Transition) -> String {
    format!("{} -> {}: {}", transition.from, transition.to, transition.label)
}

#[test]
fn every_arrow_is_taken_by_a_scenario_and_every_transition_is_an_arrow() {
    let taken: BTreeSet<String> = replay::taken().iter().map(arrow).collect();
    assert_eq!(taken, arrows());
}

#[test]
fn the_table_lists_every_label() {
    for number in 1..=15 {
        let label = format!("**T{number}**");
        assert!(README.contains(&label), "the transition table lacks T{number}");
    }
}
