//! Dead letters of a running rule: their events run again, and they can be deleted.

use super::kit::{World, counts, send, wait_until_read};
use crate::support::process::wait_until;
use keyfold::event::{BatchId, PartitionId};
use keyfold::host::StateChoice;
use keyfold::imports::{self, LetterId, LettersToPurge, RedrivenEvent};
use keyfold::state::KeptLetter;
use keyfold::state::reader::PartitionReader;
use std::path::Path;

fn letters(folder: &Path) -> Vec<KeptLetter> {
    let mut letters = Vec::new();
    let reader = PartitionReader::open(folder, PartitionId(0)).unwrap();
    reader
        .kept_letters(|kept| {
            letters.push(kept);
            Ok(())
        })
        .unwrap();
    letters
}

fn keys(folder: &Path) -> Vec<String> {
    letters(folder).into_iter().filter_map(|kept| kept.letter.key).collect()
}

#[test]
fn events_of_dead_letters_run_again_with_a_new_version_while_the_rule_runs() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("trap"), &input, &output);
    let folder = rule.0.folder.clone();
    let runner = rule.start(&world, None);
    send(&input, ["bad-1", "good"]);
    wait_until_read(&runner);
    runner.activate(world.version("no-imports").activation(StateChoice::Keep)).unwrap();
    let events: Vec<RedrivenEvent> = letters(&folder)
        .into_iter()
        .flat_map(|kept| {
            let letter = LetterId { partition: PartitionId(0), batch: kept.batch, number: kept.number };
            kept.letter.events.into_iter().map(move |event| RedrivenEvent {
                text: event.text,
                input: event.input.unwrap(),
                file: event.file,
                line: event.line,
                letter,
            })
        })
        .collect();
    assert_eq!(imports::re_drive(&folder, &events, None).unwrap(), 1);
    runner.wake_for_imports();
    wait_until("the event has run again", || counts(&output).get("bad-1").is_some_and(|counts| counts == &[1]));
    assert_eq!(letters(&folder)[0].re_driven, Some(BatchId(1)));
}

#[test]
fn letters_are_deleted_by_reason_or_key_or_all_with_the_next_batch() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("trap"), &input, &output);
    let folder = rule.0.folder.clone();
    let runner = rule.start(&world, None);
    send(&input, ["bad-1", "bad-2", "bad-3"]);
    wait_until_read(&runner);
    let purge = |which: LettersToPurge| {
        imports::purge(&folder, &which, "somebody", Some("they are known")).unwrap();
        runner.wake_for_imports();
    };
    let all = LettersToPurge::default();
    purge(LettersToPurge { key: Some("bad-2".to_owned()), ..all.clone() });
    wait_until("the letter of the key is gone", || keys(&folder) == ["bad-1", "bad-3"]);
    purge(LettersToPurge { reason: Some("out-of-fuel".to_owned()), ..all.clone() });
    send(&input, ["bad-4"]);
    wait_until("the next letter is there", || keys(&folder) == ["bad-1", "bad-3", "bad-4"]);
    purge(LettersToPurge { reason: Some("trap".to_owned()), key: Some("bad-4".to_owned()) });
    wait_until("both had to fit", || keys(&folder) == ["bad-1", "bad-3"]);
    purge(all);
    wait_until("none is left", || keys(&folder).is_empty());
    let done = imports::edits(&folder).unwrap();
    let first = done[0].edit.as_ref().unwrap();
    assert_eq!((first.command.as_str(), first.by.as_str()), ("purge", "somebody"));
}
