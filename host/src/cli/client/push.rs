//! `keyfold push`: a rule and a version of it are brought to a server.

use super::activate::{self, StateArgs};
use super::connection::{ConnectArgs, Connection, Refused};
use super::{rule_manifest, shown};
use anyhow::{Context, Result, bail, ensure};
use keyfold::service::model::{Activate, ActivationRecord, Manifest, Rule, Version, VersionStatus};
use reqwest::Method;
use std::path::PathBuf;
use std::time::Duration;

/// Bring a rule to a server: make it or change it as its rule.toml says, upload its component, and wait for the checks
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold push fraud-session --stream payments
  keyfold push fraud-session --activate --state migrate
  keyfold push rule.wasm --rule fraud-session
  keyfold push two-inputs --stream payments=pay --stream logins=auth")]
pub struct PushArgs {
    /// A folder with a rule.toml, a rule file, or a component for a rule that is there
    #[arg(value_name = "FOLDER|WASM")]
    path: PathBuf,

    /// The rule's name on the server [default: that of the folder]
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,

    /// The stream that the rule reads; for several inputs, INPUT=STREAM for each [default: what the server has]
    #[arg(long = "stream", value_name = "STREAM")]
    streams: Vec<String>,

    /// Let the version run once it is checked
    #[arg(long)]
    activate: bool,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// How often the server is asked how far the checks are.
const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// Pushes.
pub fn push(args: &PushArgs) -> Result<()> {
    ensure!(args.state.state.is_none() || args.activate, "--state is for --activate");
    let found = rule_manifest::find(&args.path)?;
    let rule = args.rule.clone().unwrap_or(found.name);
    let bytes = std::fs::read(&found.component).with_context(|| {
        format!("failed to read the component {}: make it with `keyfold build`", found.component.display())
    })?;
    let connection = args.connect.connect()?;
    let known = match connection.get::<Rule>(["rules", &rule]) {
        Ok(known) => Some(known.manifest),
        Err(error) if Refused::is_not_found(&error) => None,
        Err(error) => return Err(error),
    };
    match &found.rule_file {
        Some(file) => {
            let manifest = rule_manifest::manifest(file, &args.streams, known.as_ref())?;
            put(&connection, &rule, &manifest, known.as_ref())?;
        }
        None => ensure!(known.is_some(), "there is no rule {rule} yet: push a folder with a rule.toml first"),
    }
    let request = connection.request(Method::POST, ["rules", &rule, "versions"]).again_when_busy();
    let uploaded: Version = request.body("application/wasm", bytes).answer()?;
    let version = checked(&connection, &rule, uploaded)?;
    if version.status == VersionStatus::Refused {
        let why = version.reason.unwrap_or_default();
        bail!("{rule} {} is refused: {why}", shown::short(&version.digest));
    }
    let label = format!("{rule}: {} {} is ready", version.version, shown::short(&version.digest));
    if !args.activate {
        return if args.connect.json { shown::line(&version) } else { shown::print(&label) };
    }
    shown::say(args.connect.json, &label);
    let body = Activate { version: version.digest, state: args.state.state };
    let request = connection.request(Method::POST, ["rules", &rule, "activate"]);
    let record: ActivationRecord = request.json(&body)?.answer()?;
    activate::said(args.connect.json, &rule, &record)
}

fn put(connection: &Connection, rule: &str, manifest: &Manifest, known: Option<&Manifest>) -> Result<()> {
    if known == Some(manifest) {
        return Ok(());
    }
    connection.request(Method::PUT, ["rules", rule]).json(manifest)?.done()
}

/// The version, once its checks are over.
fn checked(connection: &Connection, rule: &str, mut version: Version) -> Result<Version> {
    while version.status == VersionStatus::Checking {
        std::thread::sleep(ASK_INTERVAL);
        version = connection.get(["rules", rule, "versions", &version.digest])?;
    }
    Ok(version)
}
