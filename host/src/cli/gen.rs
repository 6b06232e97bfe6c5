//! `keyfold gen`: makes events for trials.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use keyfold::event::Millis;
use keyfold::r#gen::{
    Compression, DisorderSettings, Exponent, HEARTBEAT_MS, Label, Output, ScenarioName, Settings, Share,
};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Make events as JSON lines: the same bytes for the same settings on every machine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct GenArgs {
    /// What the events are about
    #[arg(value_enum)]
    scenario: Scenario,

    /// How many events; `card-sessions` adds a last one, and duplicates come on top
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,

    /// How many users or devices [default: a user for 20 events; devices so that the events last for --hours]
    #[arg(long, value_name = "N")]
    users: Option<u32>,

    /// The length of the stream in event time; for `devices`, when --users is not given
    #[arg(long, value_name = "HOURS", default_value = "12", value_parser = hours)]
    hours: u64,

    /// How uneven users' activity is, 0 for even [default: card-sessions 1, fraud 0.5, funnel 0.7]
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<Exponent>,

    /// Another seed makes other events
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Payments of 500.00 and more [default: card-sessions 0.1, fraud 0.01]
    #[arg(long, value_name = "SHARE")]
    high_share: Option<Share>,

    /// Payments that belong to episodes of fraud, only in `fraud` [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    fraud_share: Option<Share>,

    /// Events that arrive after younger ones, by up to --disorder-by
    #[arg(long, value_name = "SHARE", default_value = "0")]
    out_of_order: Share,

    /// How far events are displaced at most, such as 30s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = disorder_by)]
    disorder_by: u32,

    /// Events that arrive ten minutes to an hour late
    #[arg(long, value_name = "SHARE", default_value = "0")]
    late: Share,

    /// Events that arrive twice, the second time within --disorder-by
    #[arg(long, value_name = "SHARE", default_value = "0")]
    duplicates: Share,

    /// The event time at which the stream begins: a day, RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "TIME", default_value = "2026-01-05", value_parser = start)]
    start: Millis,

    /// The folder for events-000.jsonl and so on [default: standard output]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How many files the events are cut into
    #[arg(long, value_name = "N", default_value_t = 1, requires = "output")]
    files: u32,

    /// Compress the files
    #[arg(long, value_enum, value_name = "HOW", requires = "output")]
    compress: Option<Compress>,

    /// The file for what a rule should find, only in `fraud`: one line for each episode, with the user, the kind, and the
    /// times of the first and the last payment
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  keyfold gen fraud --events 5
  keyfold gen fraud --events 1000000 --output data --files 8 --labels labels.jsonl
  keyfold gen card-sessions --out-of-order 0.1 --late 0.001 --duplicates 0.01 | head
  keyfold gen devices --users 500 --output data --compress zst";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Card payments of users of very different activity, for sessions by inactivity
    CardSessions,
    /// Card payments with labelled episodes of fraud
    Fraud,
    /// Devices that send heartbeats, reboot, are maintained and fall silent
    Devices,
    /// Visitors of a shop, from the first page to the payment
    Funnel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compress {
    /// gzip
    Gz,
    /// zstd
    Zst,
}

/// Makes the events.
pub fn r#gen(args: &GenArgs) -> Result<()> {
    let settings = args.settings()?;
    settings.check()?;
    let mut output = args.open()?;
    let bar = progress_bar(args);
    let made = keyfold::r#gen::generate(&settings, &mut output, |events| bar.set_position(events));
    bar.finish_and_clear();
    let labels = made?;
    let bytes = output.finish()?;
    if let Some(path) = &args.labels {
        write_labels(path, &labels).with_context(|| format!("cannot write the labels to {}", path.display()))?;
    }
    if let Some(folder) = &args.output {
        let files = if args.files == 1 { "1 file".to_owned() } else { format!("{} files", args.files) };
        let megabytes = bytes as f64 / 1e6;
        eprintln!("made {} events in {}: {files}, {megabytes:.1} MB of JSON", args.events, folder.display());
    }
    Ok(())
}

impl GenArgs {
    fn settings(&self) -> Result<Settings> {
        let fraud = self.scenario == Scenario::Fraud;
        ensure!(fraud || self.labels.is_none(), "--labels is for `fraud`: the other scenarios have no labels");
        ensure!(fraud || self.fraud_share.is_none(), "--fraud-share is for `fraud`: the other scenarios have none");
        let payments = fraud || self.scenario == Scenario::CardSessions;
        ensure!(payments || self.high_share.is_none(), "--high-share is for `card-sessions` and `fraud`");
        let (scenario, zipf, high_percent) = match self.scenario {
            Scenario::CardSessions => (ScenarioName::CardSessions, 10, 10),
            Scenario::Fraud => (ScenarioName::Fraud, 5, 1),
            Scenario::Devices => (ScenarioName::Devices, 0, 0),
            Scenario::Funnel => (ScenarioName::Funnel, 7, 0),
        };
        Ok(Settings {
            scenario,
            events: self.events,
            keys: self.users.unwrap_or_else(|| self.users_default()),
            span_ms: self.hours,
            zipf: self.zipf.unwrap_or(Exponent::tenths(zipf)),
            seed: self.seed,
            start: self.start,
            high_share: self.high_share.unwrap_or(Share::percent(high_percent)),
            fraud_share: if fraud { self.fraud_share.unwrap_or(Share::percent(1)) } else { Share::ZERO },
            disorder: DisorderSettings {
                out_of_order: self.out_of_order,
                displaced_ms_max: self.disorder_by,
                late: self.late,
                duplicates: self.duplicates,
            },
        })
    }

    fn users_default(&self) -> u32 {
        const EVENTS_OF_A_USER: u64 = 20;
        let events_of_one = match self.scenario {
            Scenario::Devices => self.hours / u64::from(HEARTBEAT_MS),
            _ => EVENTS_OF_A_USER,
        };
        u32::try_from(self.events.div_ceil(events_of_one.max(1))).unwrap_or(u32::MAX)
    }

    fn open(&self) -> Result<Output> {
        let compression = self.compress.map(|compress| match compress {
            Compress::Gz => Compression::Gzip,
            Compress::Zst => Compression::Zstd,
        });
        match &self.output {
            Some(folder) => Output::folder(folder, self.files, compression),
            None => Ok(Output::stream(io::stdout())),
        }
    }
}

/// On a terminal, unless the events themselves go there.
fn progress_bar(args: &GenArgs) -> ProgressBar {
    if args.output.is_none() && io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(args.events);
    match ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} events, {per_sec}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn write_labels(path: &Path, labels: &[Label]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for label in labels {
        serde_json::to_writer(&mut file, label)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

fn hours(text: &str) -> Result<u64> {
    let hours: f64 = text.parse().context("not a number of hours")?;
    ensure!(hours > 0.0 && hours <= 8784.0, "the stream must be longer than 0 hours and at most a year, 8784 hours");
    Ok((hours * 3_600_000.0).round() as u64)
}

fn disorder_by(text: &str) -> Result<u32> {
    let duration = keyfold::config::duration("disorder-by", text)?;
    u32::try_from(duration.as_millis()).context("longer than 49 days")
}

fn start(text: &str) -> Result<Millis> {
    if let Ok(millis) = text.parse() {
        return Ok(Millis(millis));
    }
    let time: jiff::Timestamp = text
        .parse()
        .or_else(|_| format!("{text}T00:00:00Z").parse())
        .ok()
        .context("not a day (2026-01-05), a time (2026-01-05T10:00:00Z) or milliseconds since 1970")?;
    Ok(Millis(time.as_millisecond()))
}
