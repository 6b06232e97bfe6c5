//! Spark's facts, one by one: `tests/conformance` says what each of them is, and this tries it.

mod calls;
mod check;
mod event;
mod fact;
mod kit;
mod play;
mod report;
mod sink;
mod source;
mod stage;
mod steps;
mod trial;

use fact::GROUPS;
use stage::Stage;

fn group(name: &str) {
    let stage = Stage::new();
    let reports: Vec<_> = fact::read(name).iter().map(|fact| trial::of(&stage, fact)).collect();
    report::write(name, &reports);
    let failures: Vec<&str> = reports.iter().flat_map(|report| &report.failures).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} expectations do not hold\n\n{}\n", failures.len(), failures.join("\n\n"));
}

#[test]
fn the_methods_of_group_state_answer_as_sparks() {
    group("object");
}

#[test]
fn what_is_left_of_a_key_is_what_spark_leaves() {
    group("write-back");
}

#[test]
fn runs_give_what_sparks_runs_give() {
    group("streaming");
}

#[test]
fn the_watermark_is_where_sparks_is() {
    group("watermark");
}

#[test]
fn what_transform_with_state_says_of_one_state_and_one_timeout_holds() {
    group("transform");
}

#[test]
fn every_fact_is_there_once_with_cases_or_a_reason() {
    let mut through_the_host = 0;
    for (name, letter, count) in GROUPS {
        let facts = fact::read(name);
        let expected: Vec<String> = (1..=count).map(|number| format!("{letter}{number:02}")).collect();
        assert_eq!(facts.iter().map(|fact| fact.id.clone()).collect::<Vec<_>>(), expected);
        for fact in &facts {
            let id = &fact.id;
            assert!(fact.says.ends_with(['.', ')']), "{id}: a sentence ends with a full stop");
            assert_eq!(
                fact.cases.is_empty(),
                fact.does_not_apply.is_some(),
                "{id}: cases, or a reason why there are none"
            );
            for case in &fact.cases {
                assert!(case.expects_something(), "{id}: a case that expects nothing");
            }
            assert!(fact.differs.is_none() || fact.does_not_apply.is_none(), "{id}: it differs or does not apply");
        }
        through_the_host += facts.iter().filter(|fact| fact.cases.iter().any(trial::needs_host)).count();
    }
    assert_eq!(GROUPS.iter().map(|(.., count)| count).sum::<usize>(), 131);
    assert!(through_the_host >= 85, "only {through_the_host} facts are tried in the host");
}
