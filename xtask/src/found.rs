//! [`Found`]: what the demo's rule wrote, compared with what was hidden in the payments.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The outputs of a run.
pub struct Found {
    /// How often each kind occurs.
    kinds: BTreeMap<String, u64>,
    /// Flagged and suspicious users by name, each with the event times in milliseconds.
    flagged: BTreeMap<String, Vec<i64>>,
    suspicious: BTreeMap<String, Vec<i64>>,
    /// The first flagged ones.
    examples: Vec<Value>,
}

/// How the episodes of one kind fared.
#[derive(Default)]
struct Score {
    episodes: u64,
    suspicious: u64,
    flagged: u64,
}

const EXAMPLES: usize = 3;

impl Found {
    /// Reads the files of a folder in the order of their names.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut found = Found {
            kinds: BTreeMap::new(),
            flagged: BTreeMap::new(),
            suspicious: BTreeMap::new(),
            examples: Vec::new(),
        };
        for (name, bytes) in files(folder)? {
            let text = String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))?;
            for line in text.lines() {
                found.add(
                    serde_json::from_str(line)
                        .with_context(|| format!("{name} holds a line that is not JSON: {line}"))?,
                );
            }
        }
        Ok(found)
    }

    fn add(&mut self, output: Value) {
        let kind = output["kind"].as_str().unwrap_or("(no kind)").to_owned();
        let times = match kind.as_str() {
            "alert.flagged" => Some(&mut self.flagged),
            "alert.suspicious" => Some(&mut self.suspicious),
            _ => None,
        };
        if let (Some(times), Some(user), Some(at)) = (times, output["user_id"].as_str(), output["at"].as_i64()) {
            times.entry(user.to_owned()).or_default().push(at);
        }
        if kind == "alert.flagged" && self.examples.len() < EXAMPLES {
            self.examples.push(output);
        }
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Says what was found.
    pub fn show(&self, labels: &Path) -> Result<()> {
        println!("\nThe rule wrote:");
        for (kind, count) in &self.kinds {
            println!("  {count:>8}  {kind}");
        }
        if !self.examples.is_empty() {
            println!("\nThe first that it flagged:");
        }
        for output in &self.examples {
            println!(
                "  {}: {} high payments, {}.{:02} in all, because of {}",
                output["user_id"].as_str().unwrap_or("?"),
                output["hv_count"],
                output["hv_total_minor"].as_i64().unwrap_or(0) / 100,
                output["hv_total_minor"].as_i64().unwrap_or(0) % 100,
                output["reason"].as_str().unwrap_or("?").replace('_', " "),
            );
        }
        self.show_scores(labels)
    }

    fn show_scores(&self, labels: &Path) -> Result<()> {
        let text = fs::read_to_string(labels).with_context(|| format!("cannot read {}", labels.display()))?;
        let (mut confirmed, mut dropped) = (BTreeMap::<String, Score>::new(), Score::default());
        let mut flagged_in_episodes = 0;
        for line in text.lines() {
            let label: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
            let score = match label["confirmed"].as_bool() {
                Some(true) => confirmed.entry(label["kind"].as_str().unwrap_or("?").to_owned()).or_default(),
                _ => &mut dropped,
            };
            score.episodes += 1;
            score.suspicious += u64::from(during(&self.suspicious, &label));
            score.flagged += u64::from(during(&self.flagged, &label));
            flagged_in_episodes += u64::from(during(&self.flagged, &label));
        }
        println!("\nWhat was hidden in the payments:");
        for (kind, score) in &confirmed {
            let Score { episodes, flagged, .. } = score;
            println!("  {episodes:>8}  episodes of kind {kind}: {flagged} flagged");
        }
        let Score { episodes, suspicious, flagged } = dropped;
        println!("  {episodes:>8}  episodes that end after six payments: {suspicious} suspicious, {flagged} flagged");
        let all: u64 = self.flagged.values().map(|times| times.len() as u64).sum();
        println!("  {:>8}  flagged outside of all episodes", all.saturating_sub(flagged_in_episodes));
        let (found, of) = confirmed.values().fold((0, 0), |sum, score| (sum.0 + score.flagged, sum.1 + score.episodes));
        println!("\n{found} of {of} confirmed episodes were flagged.");
        Ok(())
    }
}

/// Whether one of the user's times lies in the labelled episode.
fn during(times: &BTreeMap<String, Vec<i64>>, label: &Value) -> bool {
    let (Some(user), Some(start), Some(end)) =
        (label["user_id"].as_str(), label["start"].as_i64(), label["end"].as_i64())
    else {
        return false;
    };
    times.get(user).is_some_and(|times| times.iter().any(|at| (start..=end).contains(at)))
}

/// The names and contents of the files of a folder, by name. Hidden files are left out: they are not finished.
pub fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let context = || format!("cannot read the outputs in {}", folder.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.file_type().with_context(context)?.is_file() {
            files.insert(name, fs::read(entry.path()).with_context(context)?);
        }
    }
    Ok(files)
}
