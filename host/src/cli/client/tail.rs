//! `keyfold tail`: what a rule puts out or logs, or what comes into a stream, as it happens.

use super::connection::{ConnectArgs, Request};
use super::shown;
use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};

/// Follow the outputs of a rule, one line of JSON for each, until you interrupt it or your token ends
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold tail fraud-session | jq .output
  keyfold tail fraud-session --log-lines
  keyfold tail --stream payments --from-start --limit 10")]
pub struct TailArgs {
    /// The rule
    #[arg(value_name = "RULE", required_unless_present = "stream", conflicts_with = "stream")]
    rule: Option<String>,

    /// What it logs instead of what it puts out
    #[arg(long, conflicts_with = "stream")]
    log_lines: bool,

    /// A stream instead of a rule
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,

    /// Also what is there already, beginning with the oldest
    #[arg(long, conflicts_with = "log_lines")]
    from_start: bool,

    /// End after so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Follows it.
pub fn tail(args: &TailArgs) -> Result<()> {
    let connection = args.connect.connect()?;
    let request = match (&args.rule, &args.stream) {
        (Some(rule), _) if args.log_lines => connection.request(Method::GET, ["rules", rule, "log"]),
        (Some(rule), _) => connection.request(Method::GET, ["rules", rule, "outputs"]),
        (None, stream) => {
            let stream = stream.as_deref().unwrap_or_default();
            connection.request(Method::GET, ["streams", stream, "tail"])
        }
    };
    let from = args.from_start.then_some("start");
    follow(request.query("from", from), args.limit.unwrap_or(u64::MAX), |data| {
        // What came in or was put out is inside of where and when.
        let event = serde_json::from_str::<Value>(data).ok().and_then(|mut line| {
            let event = line.as_object_mut()?.remove("event")?;
            (!args.connect.json).then(|| event.to_string())
        });
        shown::print(event.as_deref().unwrap_or(data))
    })
}

/// Reads server-sent events until there are no more, or enough.
fn follow(request: Request<'_>, limit: u64, mut each: impl FnMut(&str) -> Result<()>) -> Result<()> {
    if limit == 0 {
        return Ok(());
    }
    let mut seen = 0;
    let mut lines = BufReader::new(request.header("accept", "text/event-stream").open()?);
    let (mut name, mut data, mut line) = (String::new(), String::new(), String::new());
    loop {
        line.clear();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.context("the connection broke")? == 0 {
            return Ok(());
        }
        match line.trim_end_matches(['\n', '\r']) {
            "" if name == "end" => {
                shown::say(false, &format!("the server has ended this: {data}"));
                return Ok(());
            }
            "" if !data.is_empty() => {
                each(&data)?;
                seen += 1;
                if seen == limit {
                    return Ok(());
                }
                name.clear();
                data.clear();
            }
            field => match field.split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => data.push_str(value),
                // Ids, and comments that keep the connection open.
                _ => {}
            },
        }
    }
}

/// Far more than an event or an output may be long.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
