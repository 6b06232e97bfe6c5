//! Tails: server-sent events that end with the token or the server, and that a client can go on with where it was.

use super::answers::Answered;
use super::app::App;
use super::problem::Problem;
use super::shares::Share;
use crate::service::model::{ReadEvent, Stream};
use crate::service::{Caller, EventsQuery, LogTail, StreamTail, Wake};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A tail looks so often whether its token still holds, when nothing happens.
const TOKEN_INTERVAL: Duration = Duration::from_millis(250);
/// A comment is sent so often when nothing happens, so that nothing between closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events that are read at once.
const READ_MAX: usize = 256;

/// Where a tail begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With what comes from now on.
    End,
    /// With the oldest event that is there.
    Oldest,
    /// With these numbers, one for each partition.
    At(Vec<u64>),
}

impl Start {
    /// After the event that had this id.
    pub fn after(id: &str) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = id.split('.').map(str::parse).collect();
        numbers.ok().map(Start::At)
    }
}

/// Follows a stream.
pub async fn of_stream(app: App, caller: Caller, name: String, start: Start) -> Answered<Response> {
    let base = Base::new(app, caller).await?;
    let (wake, stream_name) = (base.wake(), name.clone());
    let begin = base.app.work.short(base.caller.clone(), move |service, caller| {
        // Awake before it is asked where the stream ends: what comes between wakes it.
        let awake = service.tail_stream(caller, &stream_name, wake)?;
        Ok((awake, service.stream(caller, &stream_name)?))
    });
    let (awake, stream) = begin.await?;
    Ok(follow(base, Events { awake: Some(awake), next: numbers(&stream, start), stream: name, from_rule: None }))
}

/// Follows what a rule puts out.
pub async fn of_outputs(app: App, caller: Caller, rule: String, start: Start) -> Answered<Response> {
    let base = Base::new(app, caller).await?;
    let (wake, rule_name) = (base.wake(), rule.clone());
    let begin = base.app.work.short(base.caller.clone(), move |service, caller| {
        let awake = service.tail_outputs(caller, &rule_name, wake)?;
        let output = service.rule(caller, &rule_name)?.manifest.output;
        let name = output.and_then(|output| output.stream).unwrap_or_else(|| format!("{rule_name}.outputs"));
        Ok((awake, service.stream(caller, &name)?))
    });
    let (awake, stream) = begin.await?;
    let next = numbers(&stream, start);
    Ok(follow(base, Events { awake: Some(awake), next, stream: stream.name, from_rule: Some(rule) }))
}

/// Follows what a rule logs.
pub async fn of_log(app: App, caller: Caller, rule: String) -> Answered<Response> {
    let base = Base::new(app, caller).await?;
    let wake = base.wake();
    let tail = base.app.work.short(base.caller.clone(), move |service, caller| service.tail_log(caller, &rule, wake));
    let tail = tail.await?;
    Ok(follow(base, Lines(Arc::new(Mutex::new(tail)))))
}

/// The first number of each partition.
fn numbers(stream: &Stream, start: Start) -> Vec<u64> {
    let partitions = stream.partitions.iter();
    match start {
        Start::End => partitions.map(|partition| partition.next).collect(),
        Start::Oldest => partitions.map(|partition| partition.first).collect(),
        // Beyond the end nothing would ever come: the stream is another one than the client knew.
        Start::At(numbers) => partitions
            .enumerate()
            .map(|(index, partition)| numbers.get(index).map_or(partition.next, |number| *number.min(&partition.next)))
            .collect(),
    }
}

/// What every tail has.
struct Base {
    app: App,
    caller: Caller,
    news: Arc<Notify>,
    stopping: watch::Receiver<bool>,
    _share: Share,
}

impl Base {
    async fn new(app: App, caller: Caller) -> Result<Self, Problem> {
        let share = app.tails.take(&caller.tenant, 1).await.ok_or_else(Problem::busy)?;
        let stopping = app.stopping();
        Ok(Base { app, caller, news: Arc::new(Notify::new()), stopping, _share: share })
    }

    fn wake(&self) -> Wake {
        let news = Arc::clone(&self.news);
        Arc::new(move || news.notify_one())
    }

    /// Waits for news. Some when the tail is over, and why.
    async fn wait(&mut self) -> Option<&'static str> {
        tokio::select! {
            () = self.news.notified() => {}
            () = tokio::time::sleep(TOKEN_INTERVAL) => {}
            _ = self.stopping.wait_for(|is_stopping| *is_stopping) => {}
        }
        self.over()
    }

    fn over(&self) -> Option<&'static str> {
        if self.app.is_stopping() {
            return Some("the server stops");
        }
        (!self.app.service.is_valid(&self.caller)).then_some("the token does not hold any more")
    }
}

/// Where the events of a tail come from.
trait Source: Send + 'static {
    /// What there is now.
    fn read(&mut self, base: &Base) -> impl Future<Output = Result<Vec<Event>, Problem>> + Send;
}

/// Events of a stream.
struct Events {
    // Wakes the tail as long as it lives.
    #[allow(dead_code, reason = "it is held, and not read")]
    awake: Option<StreamTail>,
    stream: String,
    next: Vec<u64>,
    from_rule: Option<String>,
}

impl Source for Events {
    async fn read(&mut self, base: &Base) -> Result<Vec<Event>, Problem> {
        let (stream, mut next) = (self.stream.clone(), self.next.clone());
        let read = base.app.work.short(base.caller.clone(), move |service, caller| {
            let mut found = Vec::new();
            for partition in 0..next.len() {
                let from = Some(next[partition]);
                let query = EventsQuery { partition: partition as u32, from, limit: Some(READ_MAX) };
                for event in service.read_events(caller, &stream, &query)?.events {
                    next[partition] = event.number + 1;
                    found.push((event, next.clone()));
                }
            }
            Ok((found, next))
        });
        let (found, next) = read.await?;
        self.next = next;
        Ok(found.iter().map(|(event, next)| sent(event, next, self.from_rule.is_some())).collect())
    }
}

fn sent(event: &ReadEvent, next: &[u64], is_output: bool) -> Event {
    let id: Vec<String> = next.iter().map(u64::to_string).collect();
    let name = if is_output { "output" } else { "event" };
    Event::default().event(name).id(id.join(".")).data(serde_json::to_string(event).unwrap_or_default())
}

/// Lines of a rule's log.
struct Lines(Arc<Mutex<LogTail>>);

impl Source for Lines {
    async fn read(&mut self, base: &Base) -> Result<Vec<Event>, Problem> {
        let tail = Arc::clone(&self.0);
        let read =
            move |_: &crate::service::Service, _: &Caller| tail.lock().unwrap_or_else(PoisonError::into_inner).read();
        let lines = base.app.work.short(base.caller.clone(), read).await?;
        Ok(lines.iter().map(|line| Event::default().event("log").data(line.to_string())).collect())
    }
}

struct Tail<S> {
    base: Base,
    source: S,
    ready: VecDeque<Event>,
    is_over: bool,
}

fn follow<S: Source>(base: Base, source: S) -> Response {
    let tail = Tail { base, source, ready: VecDeque::new(), is_over: false };
    let events = stream::unfold(tail, |mut tail| async move {
        let event = tail.next().await?;
        Some((Ok::<Event, Infallible>(event), tail))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl<S: Source> Tail<S> {
    async fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        loop {
            // Asked before each event: what was read while the token held is not sent once it does not.
            if let Some(why) = self.base.over() {
                return self.end(why);
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.source.read(&self.base).await {
                Ok(found) => self.ready.extend(found),
                // No room just now: later.
                Err(problem) if problem.status == 429 => {}
                Err(problem) => return self.end(&problem.detail),
            }
            if self.ready.is_empty()
                && let Some(why) = self.base.wait().await
            {
                return self.end(why);
            }
        }
    }

    /// The last event says why there are no more.
    fn end(&mut self, why: &str) -> Option<Event> {
        self.is_over = true;
        Some(Event::default().event("end").data(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::model::{StreamPartition, StreamSettings};

    #[test]
    fn an_id_says_where_each_partition_goes_on_and_nothing_else_is_one() {
        assert_eq!(Start::after("3.0.17"), Some(Start::At(vec![3, 0, 17])));
        for id in ["", "a", "1.", "-1", "1.2.x"] {
            assert_eq!(Start::after(id), None, "{id}");
        }
    }

    #[test]
    fn a_client_that_was_further_than_the_stream_begins_at_its_end() {
        let partition = |first, next| StreamPartition { first, next };
        let stream = Stream {
            name: "s".into(),
            created: String::new(),
            settings: StreamSettings::default(),
            partitions: vec![partition(2, 5), partition(0, 9)],
            bytes: 0,
            readers: Vec::new(),
        };
        assert_eq!(numbers(&stream, Start::End), [5, 9]);
        assert_eq!(numbers(&stream, Start::Oldest), [2, 0]);
        assert_eq!(numbers(&stream, Start::At(vec![7, 3])), [5, 3]);
        assert_eq!(numbers(&stream, Start::At(vec![1])), [1, 9]);
    }
}
