//! `keyfold run`: one rule over files or standard input.

mod checkpoint_args;
mod report;

use super::load::{self, CacheArgs};
use super::{dead_letters, interrupt};
use anyhow::{Context, Result, ensure};
use checkpoint_args::CheckpointArgs;
use keyfold::clock::Clock;
use keyfold::config::{Config, Input, OneOrMany, PARTITIONS_DEFAULT, Settings, WebhookTable};
use keyfold::event::InputId;
use keyfold::host::{self, Delivery, Host, InputSettings, Retry};
use keyfold::plan::{Identity, InputIdentity};
use keyfold::sink::{FilesSink, Sink, StdoutSink, WebhookSink};
use keyfold::source::{FileOptions, FileSource, Inputs, ReadLimit, Source, StdinSpool};
use keyfold::state::{Budget, PlanLog};
use keyfold::wasm::Component;
use keyfold::wasm::engine::INSTANCES_MAX;
use keyfold::watermark::WatermarkPolicy;
use report::Report;
use std::path::{Path, PathBuf};

/// Run a rule over a stream of events
///
/// The same command again continues where the last one stopped, also after a crash: with a data folder, every event has its
/// effect on state and outputs exactly once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// A rule file, a folder with a rule.toml, or a component
    #[arg(value_name = "RULE")]
    rule: PathBuf,

    /// A file, glob or folder of JSON lines or CSV (.gz and .zst too), or - for standard input; may be repeated. For a rule
    /// file with several inputs, NAME=PATH
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<String>,

    /// JSON Pointer to the key, such as /user_id; repeated for a composite key
    #[arg(long, value_name = "POINTER")]
    key: Vec<String>,

    /// JSON Pointer to the event time
    #[arg(long, value_name = "POINTER")]
    event_time: Option<String>,

    /// How event times are written [default: epoch-ms]
    #[arg(long, value_name = "FORMAT", value_parser = ["epoch-ms", "epoch-s", "rfc3339"])]
    event_time_format: Option<String>,

    /// How far the watermark stays behind the greatest event time, such as 10s [default: 0s]
    #[arg(long, value_name = "TIME")]
    watermark_delay: Option<String>,

    /// Which of several inputs' watermarks is the rule's: the slowest or the fastest [default: min]
    #[arg(long, value_name = "POLICY", value_parser = ["min", "max"])]
    watermark_policy: Option<String>,

    /// States that a new data folder begins with, as `keyfold state ls` prints them: {"key": …, "value": …} on each line
    #[arg(long, value_name = "FILE")]
    initial_state: Option<PathBuf>,

    /// Run the rule once over all of the input, one call for each key, and keep no state
    #[arg(long)]
    batch: bool,

    /// Partitions of a new data folder [default: 4]
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,

    /// The folder for state, plans and outputs on their way [default: one that is thrown away]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// A folder that gets a file for each batch, or - for standard output [default: -]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// A URL that outputs are posted to, instead of a folder; the rule file's [webhook] says how
    #[arg(long, value_name = "URL", conflicts_with = "output")]
    webhook: Option<String>,

    /// So many bytes of outputs may wait for a sink that is down; then no more is read [default: 1073741824]
    #[arg(long, value_name = "N")]
    outbox_bytes_max: Option<u64>,

    /// available-now: until the input is used up; or, with --follow, the interval between batches such as 1s
    #[arg(long, value_name = "TRIGGER")]
    trigger: Option<String>,

    /// Wait for more input instead of ending with it
    #[arg(long)]
    follow: bool,

    /// Records of one batch at most [default: 100000]
    #[arg(long, value_name = "N")]
    batch_events: Option<usize>,

    /// Batches before the last one whose state `keyfold state` can read; 0 for none [default: 100]
    #[arg(long, value_name = "N")]
    history_batches: Option<u64>,

    #[command(flatten)]
    checkpoint: CheckpointArgs,

    /// A parameter of the rule, with a JSON value or plain text; may be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// Threads for the partitions [default: the machine's cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Print one line of JSON for each batch, with Spark's field names: to standard output when outputs go elsewhere, else to
    /// standard error
    #[arg(long)]
    json: bool,

    /// Print nothing but outputs and errors
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    cache: CacheArgs,
}

/// Dead letters of a batch query that are shown.
const DEAD_LETTERS_SHOWN: usize = 100;

const EXAMPLES: &str = "\
Examples:
  keyfold run examples/fraud-session --input 'data/*.jsonl.zst' --data state --output alerts
  keyfold run examples/fraud-session --input data --data state --webhook https://alerts.example/in
  keyfold run rule.wasm --input events.csv --key /card --event-time /time --event-time-format rfc3339
  keyfold run sessions --input data --data state --output alerts --checkpoint s3://backups/sessions
  tail -f events.jsonl | keyfold run rule.wasm --input - --key /user_id --data state";

/// Runs the rule.
pub fn run(args: &RunArgs) -> Result<()> {
    let mut config = settings(args)?.check()?;
    check_paths(&config)?;
    let loader = load::loader(&args.cache, &config.limits)?;
    let component = load::load(&loader, &config.component)?;
    loader
        .check_parameters(&component, config.parameters.to_string().as_bytes())
        .with_context(|| format!("the rule {} does not start", component.description().name))?;
    let stop = interrupt::stop_on_signal()?;
    // Lives to the end of the function, and takes the folder with it.
    let throw_away = if config.data.is_none() { Some(tempfile::tempdir()?) } else { None };
    let folder = config.data.take().or(throw_away.as_ref().map(|folder| folder.path().to_owned()));
    let folder = folder.expect("a folder was named, or made just above");

    let checkpoint = args.checkpoint.open(&config, &folder)?;
    let identity = identity(&config, &component, &folder)?;
    if let Some(output) = config.output.as_ref().filter(|output| config.batch && output.exists()) {
        let is_empty = std::fs::read_dir(output).is_ok_and(|mut files| files.next().is_none());
        ensure!(
            is_empty,
            "{} is not empty, and a batch query writes all of its outputs: use a new folder",
            output.display()
        );
    }
    let sink: Box<dyn Sink> = match (&config.output, &config.webhook) {
        (Some(output), _) => Box::new(FilesSink::open(output)?),
        (None, Some(webhook)) => Box::new(WebhookSink::open(webhook, &identity.rule, &identity.id)?),
        (None, None) => Box::new(StdoutSink),
    };
    let settings = host::Settings { checkpoint, ..host_settings(&config, identity, folder.clone(), args.threads)? };
    let mut host = Host::open(settings, Clock::System, component.clone(), loader, sink)?;
    let mut source = source(&config, &folder)?;
    let mut report = Report::new(args, &config);
    report.begin(&component, throw_away.is_some() && !config.batch);
    let ran = host.run(&mut source, config.trigger, &stop, &mut report);
    let where_letters_are = match &throw_away {
        _ if config.batch => format!("the first {DEAD_LETTERS_SHOWN} of them follow"),
        Some(_) => "run with --data to keep them".to_owned(),
        None => format!("see them with: keyfold dead-letters {}", folder.display()),
    };
    report.end(&where_letters_are, ran.is_ok());
    if !config.batch {
        report.say_what_waits(throw_away.is_none());
    }
    if config.batch {
        // The folder that they lie in is about to be thrown away.
        drop(host);
        let printed = dead_letters::print_first(&folder, DEAD_LETTERS_SHOWN);
        return ran.and(printed);
    }
    ran
}

fn settings(args: &RunArgs) -> Result<Settings> {
    let many = |list: &Vec<String>| (!list.is_empty()).then(|| OneOrMany::Many(list.clone()));
    let flags = Settings {
        input: many(&args.input),
        key: many(&args.key),
        event_time: args.event_time.clone(),
        event_time_format: args.event_time_format.clone(),
        watermark_delay: args.watermark_delay.clone(),
        watermark_policy: match args.watermark_policy.as_deref() {
            None => None,
            Some("max") => Some(WatermarkPolicy::Max),
            Some(_) => Some(WatermarkPolicy::Min),
        },
        initial_state: args.initial_state.clone(),
        batch: args.batch.then_some(true),
        partitions: args.partitions,
        data: args.data.clone(),
        output: args.output.clone(),
        webhook: args.webhook.clone().map(|url| WebhookTable { url: Some(url), ..WebhookTable::default() }),
        outbox_bytes_max: args.outbox_bytes_max,
        trigger: args.trigger.clone(),
        follow: args.follow.then_some(true),
        batch_events: args.batch_events,
        history_batches: args.history_batches,
        checkpoint: args.checkpoint.checkpoint.clone(),
        release: args.checkpoint.release(),
        snapshot_batches: args.checkpoint.snapshot_batches,
        checkpoints_retained: args.checkpoint.checkpoints_retained,
        checkpoint_lag_batches: args.checkpoint.checkpoint_lag_batches,
        parameters: parameters(&args.parameters)?,
        ..Settings::default()
    };
    let is_rule_file = args.rule.extension().is_some_and(|extension| extension == "toml");
    let mut file = match &args.rule {
        rule if rule.is_dir() => Settings::read(&rule.join("rule.toml"))?,
        rule if is_rule_file => Settings::read(rule)?,
        rule => Settings { component: Some(rule.clone()), ..Settings::default() },
    };
    if args.batch {
        // What the file says of the stream does not hold for a batch query.
        (file.data, file.trigger, file.follow) = (None, None, None);
        (file.checkpoint, file.release, file.snapshot_batches) = (None, None, None);
        (file.checkpoints_retained, file.checkpoint_lag_batches) = (None, None);
    }
    Ok(flags.or(file))
}

fn parameters(texts: &[String]) -> Result<Option<toml::Table>> {
    let mut table = toml::Table::new();
    for text in texts {
        let (name, value) = text.split_once('=').with_context(|| format!("--parameter {text} is not NAME=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| toml::Value::String(value.to_owned()));
        table.insert(name.to_owned(), value);
    }
    Ok((!table.is_empty()).then_some(table))
}

/// What the data folder belongs to. A folder that is there keeps its number of partitions unless another is asked for.
fn identity(config: &Config, component: &Component, folder: &Path) -> Result<Identity> {
    let found = PlanLog::identity(folder)?;
    let partitions = config.partitions.or(found.as_ref().map(|found| found.partitions)).unwrap_or(PARTITIONS_DEFAULT);
    // A folder keeps its policy, too: another one would give other late events.
    let kept_policy = found.as_ref().map(|found| found.watermark_policy);
    let of_input = |input: &Input| InputIdentity {
        name: input.name.clone(),
        key: input.key.clone(),
        event_time: input.event_time.as_ref().map(|(pointer, format)| (pointer.clone(), format.name().to_owned())),
    };
    Ok(Identity {
        rule: component.description().name.clone(),
        partitions,
        inputs: config.inputs.iter().map(of_input).collect(),
        watermark_policy: config.watermark_policy.or(kept_policy).unwrap_or_default(),
        record_bytes_max: config.record_bytes_max,
        csv_text: config.csv_text.clone(),
        id: found.map_or_else(|| Identity::new_id(&Clock::System), |found| found.id),
    })
}

fn host_settings(
    config: &Config,
    identity: Identity,
    folder: PathBuf,
    threads: Option<usize>,
) -> Result<host::Settings> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(host::Settings {
        folder,
        identity,
        inputs: config.inputs.iter().map(InputSettings::of).collect::<Result<_>>()?,
        initial_state: config.initial_state.clone(),
        parameters: config.parameters.clone(),
        limits: config.limits.clone(),
        batch: ReadLimit { records_max: config.batch_events, bytes_max: config.batch_bytes },
        threads: threads.unwrap_or(cores).min(INSTANCES_MAX as usize),
        batch_query: config.batch,
        checkpoint: None,
        history_batches: if config.batch { 0 } else { config.history_batches },
        overlay_budget: Budget::new(config.overlay_bytes_max),
        twice: false,
        control: Default::default(),
        hosting: Default::default(),
        delivery: Delivery {
            outbox_bytes_max: config.outbox_bytes_max,
            retry: config.webhook.as_ref().map_or_else(Retry::default, |webhook| Retry {
                pause_max: webhook.retry_interval_max,
                ..Retry::default()
            }),
            ..Delivery::default()
        },
    })
}

/// Every input is somewhere.
fn check_paths(config: &Config) -> Result<()> {
    for input in &config.inputs {
        let (name, several) = (&input.name, config.inputs.len() > 1);
        ensure!(
            !input.paths.is_empty(),
            "no path is named{}: give --input {}PATH with a file, a glob, a folder, or -",
            if several { format!(" for the input {name}") } else { String::new() },
            if several { format!("{name}=") } else { String::new() }
        );
    }
    Ok(())
}

fn source(config: &Config, folder: &Path) -> Result<Inputs> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for (number, input) in (0..).zip(&config.inputs) {
        let options = FileOptions {
            input: InputId(number),
            follow: config.follow,
            record_bytes_max: config.record_bytes_max,
            csv_text: config.csv_text.clone(),
        };
        sources.push(if input.paths.iter().any(|path| path == "-") {
            ensure!(input.paths.len() == 1, "standard input (-) cannot be read together with files");
            Box::new(StdinSpool::new(folder, std::io::stdin(), options)?)
        } else {
            Box::new(FileSource::new(input.paths.clone(), options)?)
        });
    }
    Ok(Inputs::new(sources))
}
