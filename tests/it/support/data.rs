//! Input of tests: generated events in files of all kinds.

use keyfold::event::Millis;
use keyfold::r#gen::{DisorderSettings, Exponent, Output, ScenarioName, Settings, Share, generate};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Card payments in four files, of which the second is a `.gz` and the third a `.zst`. Returns the texts of the files.
pub fn card_sessions(folder: &Path, events: u64, seed: u64) -> Vec<String> {
    let settings = Settings {
        scenario: ScenarioName::CardSessions,
        events,
        keys: (events / 20) as u32,
        span_ms: 12 * 3_600_000,
        zipf: Exponent::tenths(10),
        seed,
        start: Millis(1_767_571_200_000),
        high_share: Share::percent(10),
        fraud_share: Share::ZERO,
        disorder: DisorderSettings::default(),
    };
    let mut output = Output::folder(folder, 4, None).expect("the folder is new");
    generate(&settings, &mut output, |_| {}).expect("the settings are right");
    output.finish().expect("the disk has room");
    let path = |number: u32| folder.join(format!("events-{number:03}.jsonl"));
    let texts = (0..4).map(|number| fs::read_to_string(path(number)).expect("it was just made")).collect::<Vec<_>>();
    replace(&path(1), "gz", |text| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory can be written")
    });
    replace(&path(2), "zst", |text| zstd::encode_all(text, 1).expect("memory can be written"));
    texts
}

fn replace(path: &Path, suffix: &str, compress: impl FnOnce(&[u8]) -> Vec<u8>) {
    let text = fs::read(path).expect("it was just made");
    fs::write(path.with_added_extension(suffix), compress(&text)).expect("the disk has room");
    fs::remove_file(path).expect("it was just made");
}

/// Adds a few lines to a file that cannot be handled: no JSON, no key, and an amount that the rule refuses.
pub fn spoil(path: &Path) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut spoiled = String::new();
    for (number, line) in text.lines().enumerate() {
        spoiled += line;
        spoiled.push('\n');
        match number % 900 {
            300 => spoiled += "no JSON\n",
            600 => spoiled += "{\"user_id\":null,\"ts\":1767571200000}\n",
            // The time of the line before, so that it is not late.
            899 => spoiled += &format!("{}\n", line.replace("\"amount_minor\":", "\"amount_minor\":\"much\",\"was\":")),
            _ => {}
        }
    }
    fs::write(path, spoiled).expect("the disk has room");
}
