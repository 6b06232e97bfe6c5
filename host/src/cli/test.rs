//! `keyfold test`: a rule's scenarios, through the real component and the real host.

use super::load::{self, CacheArgs};
use super::style;
use anyhow::{Context, Result, bail, ensure};
use keyfold::config::Settings;
use keyfold::scenario::{Batches, Mismatch, Scenario, Stage};
use similar::{ChangeTag, TextDiff};
use std::path::{Path, PathBuf};

/// Play a rule's scenarios and show what does not hold
///
/// Each file in the folder `scenarios` beside the rule is played twice: with every event a batch of its own, and with all
/// events between two moves of a clock as one batch.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold test\n  keyfold test examples/fraud-session --only path-a")]
pub struct TestArgs {
    /// The folder with rule.toml, rule.wasm and scenarios/
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,

    /// Only scenarios whose file name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print one line of JSON for each scenario
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: CacheArgs,
}

/// Plays the scenarios.
pub fn test(args: &TestArgs) -> Result<()> {
    let settings = Settings::read(&args.folder.join("rule.toml"))?;
    let limits = settings.limits.clone().unwrap_or_default();
    let loader = load::loader(&args.cache, &limits)?;
    let component = settings.component.clone().context("a rule file always has a component")?;
    let component = load::load(&loader, &component)?;
    let stage = Stage { settings, component, loader };
    let files = files(&args.folder.join("scenarios"), args.only.as_deref())?;
    let mut failed = 0;
    for file in &files {
        let scenario = Scenario::read(file)?;
        let mut mismatches = Vec::new();
        for batches in [Batches::Each, Batches::Together] {
            for mismatch in scenario.play(&stage, batches).with_context(|| file.display().to_string())? {
                // Where both ways of cutting are the same, both find the same.
                if !mismatches.contains(&mismatch) {
                    mismatches.push(mismatch);
                }
            }
        }
        failed += usize::from(!mismatches.is_empty());
        report(file, &scenario, &mismatches, args.json);
    }
    if !args.json {
        anstream::println!("{} passed, {failed} failed", files.len() - failed);
    }
    match failed {
        0 => Ok(()),
        1 => bail!("1 scenario failed"),
        _ => bail!("{failed} scenarios failed"),
    }
}

fn files(folder: &Path, only: Option<&str>) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".toml") && only.is_none_or(|text| name.contains(text))
    };
    let mut files: Vec<PathBuf> = paths.into_iter().filter(wanted).collect();
    files.sort();
    ensure!(!files.is_empty(), "there is no matching scenario in {}", folder.display());
    Ok(files)
}

fn report(file: &Path, scenario: &Scenario, mismatches: &[Mismatch], json: bool) {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    if json {
        let mismatches: Vec<_> = mismatches
            .iter()
            .map(|m| serde_json::json!({"step": m.step, "what": m.what, "expected": m.expected, "found": m.found}))
            .collect();
        let line = serde_json::json!({"scenario": name, "passed": mismatches.is_empty(), "mismatches": mismatches});
        anstream::println!("{line}");
        return;
    }
    let verdict = if mismatches.is_empty() { style::good("ok  ") } else { style::error("FAIL") };
    anstream::println!("{verdict} {name}: {}", scenario.about);
    for mismatch in mismatches {
        anstream::println!("     {}: {} differ", mismatch.step, style::strong(&mismatch.what));
        print_diff(mismatch);
    }
}

/// What is expected is marked with `-`, what was found with `+`.
fn print_diff(mismatch: &Mismatch) {
    for change in TextDiff::from_lines(&mismatch.expected, &mismatch.found).iter_all_changes() {
        let line = change.value().trim_end_matches('\n');
        match change.tag() {
            ChangeTag::Delete => anstream::println!("       {}", style::error(&format!("- {line}"))),
            ChangeTag::Insert => anstream::println!("       {}", style::good(&format!("+ {line}"))),
            ChangeTag::Equal => anstream::println!("         {line}"),
        }
    }
}
