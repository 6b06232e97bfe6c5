//! Spark's facts: the table of them in `docs/spark.md`, and what the tests found out about them.

use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The groups: their files in `tests/conformance`, and what they are about.
const GROUPS: [(&str, &str); 5] = [
    ("object", "The methods of GroupState"),
    ("write-back", "What a call leaves of a key's row"),
    ("streaming", "Runs of mapGroupsWithState and flatMapGroupsWithState"),
    ("watermark", "The watermark"),
    ("transform", "transformWithState"),
];

/// How many facts there are.
pub const FACTS: usize = 131;

const PAGE: &str = "docs/spark.md";
const BEGIN: &str = "<!-- facts: begin -->\n";
const END: &str = "<!-- facts: end -->";

#[derive(Deserialize)]
struct Group {
    #[serde(rename = "fact")]
    facts: Vec<Fact>,
}

/// A fact, as far as the table shows it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Fact {
    id: String,
    says: String,
    differs: Option<String>,
    does_not_apply: Option<String>,
}

/// What the tests found out about a fact.
#[derive(Deserialize)]
struct Found {
    id: String,
    says: String,
    status: String,
    reason: Option<String>,
    host: bool,
    failures: Vec<String>,
}

/// Writes the table into the page.
pub fn write(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(PAGE);
    let page = page(&workspace.root)?;
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{PAGE} has the table of {FACTS} facts");
    Ok(())
}

/// The page as it should be: what is between the markers comes from the facts, the rest is left as it is.
fn page(root: &Path) -> Result<String> {
    let text = read(&root.join(PAGE))?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{PAGE} has no line {}", BEGIN.trim_end()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no line {END} after the other"))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(root)?))
}

fn table(root: &Path) -> Result<String> {
    let mut table = String::new();
    for (name, about) in GROUPS {
        let path = root.join("tests/conformance").join(format!("{name}.toml"));
        let group: Group = toml::from_str(&read(&path)?).with_context(|| format!("cannot read {}", path.display()))?;
        table += &format!("\n### {about}\n\n| fact | what it says | Keyfold |\n|---|---|---|\n");
        for Fact { id, says, differs, does_not_apply } in group.facts {
            let keyfold = match (differs, does_not_apply) {
                (Some(differs), _) => format!("differs: {differs}"),
                (None, Some(reason)) => format!("does not apply: {reason}"),
                (None, None) => "same".to_owned(),
            };
            table += &format!("| {id} | {} | {} |\n", cell(&says), cell(&keyfold));
        }
    }
    Ok(table + "\n")
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Forgets what earlier tests found out, so that nothing of it is taken for what these find out.
pub fn forget(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("conformance");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Prints what the tests found out. An error when a fact is missing.
pub fn summary(workspace: &Workspace) -> Result<()> {
    let mut found = Vec::new();
    for (name, _) in GROUPS {
        let path = workspace.target.join("conformance").join(format!("{name}.json"));
        let group: Vec<Found> =
            serde_json::from_str(&read(&path)?).with_context(|| format!("cannot read {}", path.display()))?;
        found.extend(group);
    }
    println!("{}", told(&found));
    ensure!(found.len() == FACTS, "{} facts were tried, and there are {FACTS}", found.len());
    Ok(())
}

/// What was found, for people.
fn told(found: &[Found]) -> String {
    let holds =
        |status: &'static str| found.iter().filter(move |fact| fact.failures.is_empty() && fact.status == status);
    let reasons = |status: &'static str, word: &str| -> String {
        let line = |Found { id, says, reason, .. }: &Found| {
            format!("  {id}  {says}\n       {word}: {}\n", reason.as_deref().unwrap_or_default())
        };
        holds(status).map(line).collect()
    };
    let in_host = found.iter().filter(|fact| fact.host).count();
    let mut text = format!(
        "\nSpark's {} facts about stateful functions, {in_host} of them tried through the host:\n",
        found.len()
    );
    text += &format!("\n{} differ by design:\n{}", holds("differs").count(), reasons("differs", "Keyfold"));
    text += &format!("\n{} do not apply:\n{}", holds("does-not-apply").count(), reasons("does-not-apply", "because"));
    let failed: Vec<&Found> = found.iter().filter(|fact| !fact.failures.is_empty()).collect();
    if !failed.is_empty() {
        text += &format!("\n{} FAILED:\n", failed.len());
    }
    for Found { id, says, failures, .. } in &failed {
        text += &format!("  {id}  {says}\n       {}\n", failures.join("\n       "));
    }
    text += &format!(
        "\n{} of {FACTS} hold as in Spark, {} differ by design, {} do not apply, {} failed\n",
        holds("same").count(),
        holds("differs").count(),
        holds("does-not-apply").count(),
        failed.len()
    );
    text
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_page_is_that_of_the_facts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the checkout");
        let found = read(&root.join(PAGE)).expect("the page is there");
        let expected = page(root).expect("the page has both markers");
        assert!(found == expected, "{PAGE} has another table than the facts: run `cargo xtask facts`");
        let rows = table(root).expect("the facts can be read");
        let rows = rows.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| fact"));
        assert_eq!(rows.count(), FACTS);
    }

    #[test]
    fn what_differs_does_not_apply_or_failed_is_told_with_its_reason() {
        let found = |id: &str, status: &str, reason: Option<&str>, failures: &[&str]| Found {
            id: id.to_owned(),
            says: format!("What {id} says."),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            host: true,
            failures: failures.iter().map(|&failure| failure.to_owned()).collect(),
        };
        let text = told(&[
            found("S01", "same", None, &[]),
            found("S02", "same", None, &["2 instead of 1"]),
            found("W05", "differs", Some("no trigger Once"), &[]),
            found("F16", "does-not-apply", Some("no planner"), &[]),
        ]);
        for part in [
            "1 differ by design:\n  W05  What W05 says.\n       Keyfold: no trigger Once\n",
            "1 do not apply:\n  F16  What F16 says.\n       because: no planner\n",
            "1 FAILED:\n  S02  What S02 says.\n       2 instead of 1\n",
            "1 of 131 hold as in Spark, 1 differ by design, 1 do not apply, 1 failed\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn bars_do_not_end_a_cell() {
        assert_eq!(cell("a|b"), "a\\|b");
    }
}
