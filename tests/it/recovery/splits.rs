//! Another number of partitions: the rule goes on as if it always had it, also when a crash comes in between.

use crate::support::host::{Fault, Stream};
use crate::support::place::Place;
use crate::support::{command, data, folder};
use keyfold::state::DeadLetter;
use keyfold::state::split::{self, Split, prepare, split};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Input of which one half is there, and the other comes later.
struct Trial {
    work: TempDir,
}

impl Trial {
    fn new() -> Self {
        let trial = Trial { work: tempfile::tempdir().expect("a folder can be made") };
        data::card_sessions(&trial.path("made"), 12_000, 4);
        data::spoil(&trial.path("made/events-000.jsonl"));
        fs::create_dir(trial.path("input")).expect("the folder is new");
        trial.bring(2);
        trial
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.work.path().join(name)
    }

    /// So many files more.
    fn bring(&self, files: usize) {
        for name in folder::files(&self.path("made")).into_keys().take(files) {
            fs::rename(self.path("made").join(&name), self.path("input").join(&name)).expect("both are on one disk");
        }
    }

    /// A rule that has read what is there.
    fn stream(&self, name: &str, partitions: u32) -> Stream {
        let stream = Stream {
            event_time: Some("/ts"),
            partitions,
            ..Stream::of_example("card-sessions", self.work.path(), name)
        };
        stream.run_to_the_end();
        stream
    }
}

/// The same folder with another number of partitions.
fn with(stream: &Stream, partitions: u32) -> Stream {
    Stream { partitions, ..stream.clone() }
}

/// Everything that a user can see, in an order that does not depend on partitions.
fn seen(stream: &Stream) -> [Vec<String>; 3] {
    // What a group used up depends on the calls before it, and so on its neighbours.
    let letters = stream.dead_letters().into_iter();
    let letters = letters.map(|(_, batch, letter)| format!("{batch} {:?}", DeadLetter { fuel: None, ..letter }));
    let states = stream.states().into_iter().map(|state| state.to_string());
    [sorted(folder::lines(&stream.output)), sorted(states), sorted(letters)]
}

fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort();
    lines
}

/// Panics with the first line that differs.
fn assert_same(found: &[Vec<String>; 3], expected: &[Vec<String>; 3], why: &str) {
    for ((found, expected), what) in found.iter().zip(expected).zip(["outputs", "states", "dead letters"]) {
        let difference = found.iter().zip(expected).find(|(found, expected)| found != expected);
        assert!(difference.is_none(), "other {what}, {why}: {difference:?}");
        assert_eq!(found.len(), expected.len(), "another number of {what}, {why}");
    }
}

fn refusal(data: &Path, partitions: u32) -> String {
    format!("{:#}", split(data, partitions).expect_err("it is refused"))
}

#[test]
fn a_rule_goes_on_in_more_and_in_fewer_partitions_as_one_that_was_not_split() {
    let trial = Trial::new();
    let whole = trial.stream("whole", 3);
    let one = trial.stream("split", 1);
    let before = seen(&one);
    assert_same(&before, &seen(&whole), "before the split");
    let done = split(&one.data, 4).unwrap_or_else(|error| panic!("{error:#}"));
    let last = one.committed()[0];
    assert_eq!(done, Split { before: 1, after: 4, rows: before[1].len() as u64, batch: last });
    let four = with(&one, 4);
    assert_eq!(four.committed(), [last; 4]);
    assert_same(&seen(&four), &before, "splitting changed something");

    trial.bring(1);
    four.run_to_the_end();
    whole.run_to_the_end();
    assert_same(&seen(&four), &seen(&whole), "in four partitions");
    split(&four.data, 3).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!four.data.join("partition-0003.db").exists());

    trial.bring(1);
    let three = with(&one, 3);
    three.run_to_the_end();
    whole.run_to_the_end();
    assert_same(&seen(&three), &seen(&whole), "in three partitions");
    // The states lie where they would always have been.
    assert_eq!(three.states(), whole.states());
}

#[test]
fn a_crash_at_any_step_of_a_split_leaves_the_old_partitions_or_the_new_ones() {
    let trial = Trial::new();
    let of = |name: &str, partitions| trial.stream(name, partitions);
    let (one, four, whole) = (of("one", 1), of("four", 4), of("whole", 4));
    let folder_at = |from: &Stream, name: String, partitions| {
        let stream = Stream {
            data: trial.path(&format!("{name}-data")),
            output: trial.path(&format!("{name}-output")),
            ..with(from, partitions)
        };
        folder::copy(&from.data, &stream.data);
        folder::copy(&from.output, &stream.output);
        stream
    };
    let mut streams = Vec::new();
    // Before the decision, the new files are half made.
    let undecided = folder_at(&one, "undecided".to_owned(), 1);
    fs::create_dir(undecided.data.join("split")).expect("it is not there yet");
    fs::write(undecided.data.join("split/partition-0000.db"), "half").expect("the disk has room");
    streams.push(undecided);
    for (old, partitions) in [(&one, 4), (&four, 3)] {
        // After it, so many files are moved: the partitions in their order, and the plan log last.
        for moved in 0..=partitions + 1 {
            let stream = folder_at(old, format!("{partitions}-{moved}"), partitions);
            prepare(&stream.data, partitions).unwrap_or_else(|error| panic!("{error:#}"));
            let partition_names = (0..partitions).map(|id| format!("partition-{id:04}.db"));
            for name in partition_names.chain(["plan.db".to_owned()]).take(moved as usize) {
                fs::rename(stream.data.join("split-ready").join(&name), stream.data.join(&name)).expect("it was made");
            }
            streams.push(stream);
        }
    }
    trial.bring(2);
    whole.run_to_the_end();
    let expected = seen(&whole);
    for stream in streams {
        // Readers finish it, and so does the host.
        if stream.partitions == 3 {
            let listed = command::finish(command::keyfold(["state", "ls"]).arg(&stream.data)).ok().json_lines();
            assert_eq!(listed.len(), four.states().len(), "{}", stream.data.display());
        }
        stream.run_to_the_end();
        assert_same(&seen(&stream), &expected, &format!("in {}", stream.data.display()));
        let names: Vec<String> = folder::files(&stream.data).into_keys().filter(|name| name.ends_with(".db")).collect();
        assert_eq!(names.len(), stream.partitions as usize + 1, "{names:?}");
        assert!(!stream.data.join("split").exists() && !stream.data.join("split-ready").exists());
    }
}

#[test]
fn outputs_on_their_way_stay_in_their_partition() {
    let trial = Trial::new();
    let whole = trial.stream("whole", 1);
    let last = whole.committed()[0].expect("batches were committed").0;
    let one = Stream { partitions: 1, ..Stream::of_example("card-sessions", trial.work.path(), "one") };
    let one = Stream { event_time: Some("/ts"), ..one };
    one.run_into(Fault::BeforeDelivery(last));
    split(&one.data, 4).unwrap_or_else(|error| panic!("{error:#}"));
    with(&one, 4).run_to_the_end();
    folder::assert_same_files(&one.output, &whole.output, "after a split");

    let four = Stream { data: trial.path("four-data"), output: trial.path("four-output"), ..with(&one, 4) };
    four.run_into(Fault::BeforeDelivery(last));
    let refused = refusal(&four.data, 3);
    assert!(refused.contains("in partition 3 are not known to be delivered"), "{refused}");
    assert!(refused.contains("run the rule once more"), "{refused}");
    four.run_to_the_end();
    split(&four.data, 3).unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_split_that_cannot_be_made_is_refused_and_says_why() {
    let trial = Trial::new();
    let two = trial.stream("two", 2);
    assert!(refusal(&two.data, 2).contains("has 2 partitions already"));
    assert!(refusal(&two.data, 0).contains("1 to 1024 are possible"));
    assert!(refusal(&trial.path("made"), 2).contains("is not the data folder of a rule"));
    let older = trial.path("older");
    two.save(&older);
    trial.bring(2);
    two.run_to_the_end();
    folder::restore_partition(&older, &two.data, 1);
    let refused = refusal(&two.data, 4);
    assert!(refused.contains("not everything that was planned is done"), "{refused}");
    assert!(refused.contains("partition 1; run the rule once more"), "{refused}");
    two.run_to_the_end();
    split(&two.data, 4).unwrap_or_else(|error| panic!("{error:#}"));
    split::finish(&two.data).expect("there is nothing to finish");
}

#[test]
fn imports_and_standard_input_are_kept_by_the_command() {
    let place = Place::counting("key = '/key'\n");
    let run = |input: &str, partitions: &[&str]| {
        let args =
            [&["run", ".", "--quiet", "--input", "-", "--data", "data", "--output", "output"], partitions].concat();
        place.write("input", input);
        let input = fs::File::open(place.path("input")).expect("it was just written");
        command::finish(place.keyfold(&args).stdin(input))
    };
    run("{\"key\":\"a\"}\n{\"key\":\"b\"}\n", &["--partitions", "2"]).ok();
    place.write("more.jsonl", "{\"key\":\"c\",\"value\":7}\n");
    place.finish(&["state", "import", "data", "more.jsonl", "--as-is"]).ok();
    run("", &["--partitions", "5"]).fails_with(&["keyfold state split"]);
    let done = place.finish(&["state", "split", "data", "--partitions", "5"]).ok();
    assert!(done.stderr.contains("2 keys of 2 partitions are in 5 partitions now"), "{}", done.stderr);
    run("{\"key\":\"a\"}\n", &[]).ok();
    let mut rows: Vec<String> = place.rows().iter().map(|row| format!("{}={}", row["key"], row["value"])).collect();
    rows.sort();
    assert_eq!(rows, ["\"a\"=2", "\"b\"=1", "\"c\"=7"]);
}
