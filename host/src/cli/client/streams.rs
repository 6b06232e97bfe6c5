//! `keyfold streams`: durable logs of events, which rules read.

use super::connection::ConnectArgs;
use super::shown;
use anyhow::{Context, Result, bail, ensure};
use keyfold::service::model::{Appended, Stream, StreamSettings};
use reqwest::Method;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "Examples:
  keyfold streams create payments --id /payment_id --retention-age 7d
  keyfold gen fraud --events 10000 --output - | keyfold streams send payments -
  keyfold streams send payments monday.jsonl tuesday.jsonl
  keyfold streams read payments --from 0 --limit 10
  keyfold streams ls
  keyfold streams rm payments --yes";

/// Bytes of one request: far below what the server takes, and enough that requests are few.
const SEND_BYTES: usize = 1024 * 1024;

/// What to do with streams.
#[derive(Debug, clap::Subcommand)]
pub enum StreamsCommand {
    /// List the streams
    #[command(after_help = "Examples:\n  keyfold streams ls")]
    Ls(LsArgs),
    /// Show a stream, its partitions, and who reads it
    #[command(after_help = "Examples:\n  keyfold streams show payments")]
    Show(NameArgs),
    /// Make a stream, or change its settings
    #[command(after_help = "Examples:\n  keyfold streams create payments --id /payment_id --retention-age 7d")]
    Create(CreateArgs),
    /// Send events: files of JSON lines, or - for standard input. Each is on the server's disk before the next request
    #[command(after_help = "Examples:\n  keyfold streams send payments monday.jsonl tuesday.jsonl")]
    Send(SendArgs),
    /// Read events back, one line of JSON for each
    #[command(after_help = "Examples:\n  keyfold streams read payments --from 0 --limit 10")]
    Read(ReadArgs),
    /// Delete a stream with its events
    #[command(after_help = "Examples:\n  keyfold streams rm payments --yes")]
    Rm(RmArgs),
}

#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,

    /// Partitions; this never changes [default: 1]
    #[arg(long, value_name = "N", requires = "key")]
    partitions: Option<u32>,

    /// JSON Pointer to what events are spread over several partitions by; this never changes
    #[arg(long, value_name = "POINTER")]
    key: Option<String>,

    /// JSON Pointer to an id of each event: events whose id was seen lately are taken once
    #[arg(long, value_name = "POINTER")]
    id: Option<String>,

    /// How many ids are remembered [default: 100000]
    #[arg(long, value_name = "N")]
    ids_remembered: Option<u64>,

    /// Delete events older than this, unless a rule still needs them; such as 7d
    #[arg(long, value_name = "TIME")]
    retention_age: Option<String>,

    /// Above this size delete the oldest events, unless a rule still needs them
    #[arg(long, value_name = "BYTES")]
    retention_bytes: Option<u64>,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct SendArgs {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,

    /// Files of JSON lines, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct ReadArgs {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,

    /// The partition
    #[arg(long, value_name = "N", default_value_t = 0)]
    partition: u32,

    /// The number of the first event [default: the oldest that is there]
    #[arg(long, value_name = "N")]
    from: Option<u64>,

    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,

    /// That its events may go
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Does it.
pub fn streams(command: &StreamsCommand) -> Result<()> {
    match command {
        StreamsCommand::Ls(LsArgs { connect }) => {
            let streams: Vec<Stream> = connect.connect()?.get(["streams"])?;
            shown::list(connect.json, &streams, ["stream", "partitions", "events", "bytes", "readers"], |stream| {
                let events: u64 = stream.partitions.iter().map(|partition| partition.next - partition.first).sum();
                let numbers = [stream.partitions.len() as u64, events, stream.bytes, stream.readers.len() as u64];
                let [partitions, events, bytes, readers] = numbers.map(|number| number.to_string());
                [stream.name.clone(), partitions, events, bytes, readers]
            })
        }
        StreamsCommand::Show(NameArgs { stream, connect }) => {
            shown::one(connect.json, &connect.connect()?.get::<Stream>(["streams", stream])?)
        }
        StreamsCommand::Create(args) => create(args),
        StreamsCommand::Send(args) => send(args),
        StreamsCommand::Read(args) => read(args),
        StreamsCommand::Rm(RmArgs { stream, yes, connect }) => {
            ensure!(*yes, "{stream} would go with its events: say --yes");
            connect.connect()?.request(Method::DELETE, ["streams", stream]).done()?;
            shown::say(connect.json, &format!("{stream} is deleted"));
            Ok(())
        }
    }
}

fn create(args: &CreateArgs) -> Result<()> {
    let settings = StreamSettings {
        partitions: args.partitions,
        key: args.key.clone(),
        id: args.id.clone(),
        ids_remembered: args.ids_remembered,
        retention_age: args.retention_age.clone(),
        retention_bytes: args.retention_bytes,
    };
    let connection = args.connect.connect()?;
    let made: Stream = connection.request(Method::PUT, ["streams", &args.stream]).json(&settings)?.answer()?;
    shown::one(args.connect.json, &made)
}

fn send(args: &SendArgs) -> Result<()> {
    let connection = args.connect.connect()?;
    let mut sum = Appended { accepted: 0, duplicates: 0, placed: Vec::new() };
    for file in &args.files {
        let mut lines = open(file)?;
        let mut next_line = 1;
        loop {
            let (chunk, count) = chunk(&mut lines).with_context(|| format!("cannot read {}", file.display()))?;
            if chunk.is_empty() {
                break;
            }
            // With a key of its own a request can be sent again after an answer was lost or there was no room.
            let key = uuid::Uuid::now_v7().to_string();
            let request = connection.request(Method::POST, ["streams", &args.stream, "events"]);
            let request = request.header("idempotency-key", key).again_when_busy();
            let appended: Appended = request.body("application/x-ndjson", chunk).answer().with_context(|| {
                format!("{}: lines {next_line} to {} were not sent", file.display(), next_line + count - 1)
            })?;
            next_line += count;
            sum.accepted += appended.accepted;
            sum.duplicates += appended.duplicates;
        }
    }
    if args.connect.json {
        return shown::line(&serde_json::json!({ "accepted": sum.accepted, "duplicates": sum.duplicates }));
    }
    let known = if sum.duplicates > 0 { format!(", {} were there already", sum.duplicates) } else { String::new() };
    shown::print(&format!("{} events taken{known}", sum.accepted))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The next whole lines, and how many they are.
fn chunk(lines: &mut dyn BufRead) -> Result<(Vec<u8>, u64)> {
    let (mut bytes, mut count) = (Vec::new(), 0);
    while bytes.len() < SEND_BYTES {
        let before = bytes.len();
        // One line more than fits is read at most, so a line without end cannot fill the memory.
        let read = lines.take(16 * SEND_BYTES as u64).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        if bytes.len() - before == 16 * SEND_BYTES {
            bail!("a line is longer than {} bytes", 16 * SEND_BYTES);
        }
        count += 1;
    }
    Ok((bytes, count))
}

fn read(args: &ReadArgs) -> Result<()> {
    let connection = args.connect.connect()?;
    let request = connection.request(Method::GET, ["streams", &args.stream, "events"]);
    let request = request.query("partition", Some(args.partition)).query("from", args.from);
    let mut answer = request.query("limit", args.limit).send()?;
    let mut stdout = anstream::stdout().lock();
    std::io::copy(&mut answer, &mut stdout).context("the answer broke off")?;
    Ok(())
}
