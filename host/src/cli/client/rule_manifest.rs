//! The manifest of a rule, from its folder: what `rule.toml` says to `keyfold run`, said to a server.

use anyhow::{Context, Result, bail, ensure};
use keyfold::config::{Config, Input, Settings};
use keyfold::service::model::{BatchManifest, From, InputManifest, Manifest, OutputManifest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The rule file of a folder.
const RULE_FILE: &str = "rule.toml";

/// What lies in a folder, or at a path.
pub struct Found {
    /// The component.
    pub component: PathBuf,
    /// The rule file, when there is one.
    pub rule_file: Option<PathBuf>,
    /// What the rule is called when nobody says: the name of the folder, or of the file.
    pub name: String,
}

/// Looks what a user has named: a folder with a rule file, a rule file, or a component.
pub fn find(path: &Path) -> Result<Found> {
    let rule_file = if path.is_dir() { path.join(RULE_FILE) } else { path.to_owned() };
    let is_rule_file = rule_file.extension().is_some_and(|extension| extension == "toml");
    let named = if is_rule_file { rule_file.parent() } else { None };
    let named = match named {
        Some(folder) => std::path::absolute(folder)?.file_name().map(|name| name.to_owned()),
        None => path.file_stem().map(|name| name.to_owned()),
    };
    let name = named.map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    if !is_rule_file {
        return Ok(Found { component: path.to_owned(), rule_file: None, name });
    }
    let component = Settings::read(&rule_file)?.component.context("a rule file has a component")?;
    Ok(Found { component, rule_file: Some(rule_file), name })
}

/// What a rule file says, as a manifest. `streams` says where inputs come from: `STREAM`, or `INPUT=STREAM` for each.
pub fn manifest(rule_file: &Path, streams: &[String], known: Option<&Manifest>) -> Result<Manifest> {
    let config = Settings::read(rule_file)?.check()?;
    let raw: toml::Table = toml::from_str(&std::fs::read_to_string(rule_file)?)?;
    let named = streams_by_input(&config, streams)?;
    let mut inputs = BTreeMap::new();
    for input in &config.inputs {
        let before = known.and_then(|known| known.inputs.get(&input.name));
        let stream = named.get(&input.name).cloned().or_else(|| before.map(|before| before.stream.clone()));
        let stream = stream.with_context(|| match config.inputs.len() {
            1 => "which stream does the rule read? Say --stream STREAM".to_owned(),
            _ => format!("which stream is {}? Say --stream {0}=STREAM", input.name),
        })?;
        inputs.insert(input.name.clone(), input_manifest(input, stream, before.map_or(From::Earliest, |b| b.from)));
    }
    let limits = raw.get("limits").map(|limits| limits.clone().try_into());
    let webhook = raw.get("webhook").map(serde_json::to_value).transpose()?;
    let before = known.cloned().unwrap_or_else(nothing);
    Ok(Manifest {
        inputs,
        partitions: config.partitions.or(before.partitions),
        parameters: config.parameters,
        output: webhook.map(|webhook| OutputManifest { stream: None, webhook: Some(webhook) }).or(before.output),
        limits: limits.transpose().context("[limits] has numbers only")?.unwrap_or_default(),
        batch: BatchManifest {
            events: raw
                .get("batch-events")
                .and_then(toml::Value::as_integer)
                .map(i64::unsigned_abs)
                .or(before.batch.events),
            interval: before.batch.interval,
        },
        watermark_policy: raw.get("watermark-policy").and_then(toml::Value::as_str).map(str::to_owned),
        decide: before.decide,
        errors: before.errors,
    })
}

/// A manifest that says nothing.
fn nothing() -> Manifest {
    Manifest {
        inputs: BTreeMap::new(),
        partitions: None,
        parameters: serde_json::Value::Null,
        output: None,
        limits: BTreeMap::new(),
        batch: BatchManifest::default(),
        watermark_policy: None,
        decide: Default::default(),
        errors: Default::default(),
    }
}

fn input_manifest(input: &Input, stream: String, from: From) -> InputManifest {
    let written = |time: Duration| format!("{}ms", time.as_millis());
    InputManifest {
        stream,
        key: input.key.clone(),
        event_time: input.event_time.as_ref().map(|(pointer, _)| pointer.clone()),
        event_time_format: input.event_time.as_ref().map(|(_, format)| format.name().to_owned()),
        watermark_delay: Some(input.watermark.delay).filter(|delay| !delay.is_zero()).map(written),
        idle_after: input.watermark.idle_after.map(written),
        from,
    }
}

fn streams_by_input(config: &Config, streams: &[String]) -> Result<BTreeMap<String, String>> {
    let mut named = BTreeMap::new();
    for text in streams {
        let (input, stream) = match (text.split_once('='), config.inputs.as_slice()) {
            (Some((input, stream)), _) => (input.to_owned(), stream.to_owned()),
            (None, [only]) => (only.name.clone(), text.clone()),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|input| input.name.as_str()).collect();
                bail!("the rule has the inputs {}: say --stream {}={text}", names.join(", "), names[0]);
            }
        };
        ensure!(config.inputs.iter().any(|known| known.name == input), "the rule has no input {input}");
        named.insert(input, stream);
    }
    Ok(named)
}
