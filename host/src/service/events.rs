//! Events: taken, read back, followed.

use super::model::{Appended, PlacedRange, ReadEvent};
use super::registry::TenantEntry;
use super::{
    Answer, Caller, EVENTS_DEFAULT, EVENTS_MAX, ErrorKind, EventsBody, EventsPage, EventsQuery, Operation, Service,
    ServiceError, StreamTail, Wake, quota,
};
use crate::fair::CpuShare;
use crate::source::ReadLimit;
use crate::source::file::RECORD_BYTES_MAX_DEFAULT;
use crate::stream::decode::{Body, decode};
use crate::stream::{AppendError, AppendRequest, EventNumber, NewEvent, Placed, StoredEvent};
use std::collections::BTreeMap;

/// Events of one request at most: more belong into several requests, which share a sync.
const EVENTS_OF_A_REQUEST_MAX: usize = 100_000;
/// Bytes of events that are read at once.
const READ_BYTES_MAX: usize = 8 << 20;

impl Service {
    /// Takes events. Returns when they are on the disk.
    pub fn append(&self, caller: &Caller, stream: &str, body: &EventsBody<'_>) -> Answer<Appended> {
        self.allow(caller, Operation::EVENTS_APPEND, stream)?;
        let tenant = self.tenant_of(caller)?;
        let stream = tenant.stream(stream)?;
        // Whoever floods the server with bodies does so on its own share of the cores.
        let turn = CpuShare::of(self.share_of(&tenant)).turn();
        let computing = turn.begin();
        let events = decoded(body, EVENTS_OF_A_REQUEST_MAX)?;
        drop(computing);
        self.check_flow(&tenant, events.len() as u64)?;
        let request = AppendRequest {
            events,
            idempotency_key: body.idempotency_key.map(str::to_owned),
            ..AppendRequest::default()
        };
        let appended = self.log_of(&stream)?.append(request).map_err(of_append)?;
        self.sweeper.wake();
        Ok(Appended { accepted: appended.accepted, duplicates: appended.duplicates, placed: ranges(&appended.placed) })
    }

    /// Reads events back.
    pub fn read_events(&self, caller: &Caller, stream: &str, query: &EventsQuery) -> Answer<EventsPage> {
        let tenant = self.looking(caller, Operation::EVENTS_READ)?;
        let log = self.log_of(&*tenant.stream(stream)?)?;
        let starts = log.starts();
        let Some(start) = starts.get(query.partition as usize) else {
            let message = format!("there is no partition {}: the stream has {}", query.partition, starts.len());
            return Err(ServiceError::invalid_field("partition", message));
        };
        if query.limit == Some(0) {
            return Err(ServiceError::invalid_field("limit", "limit is 0: it must be at least 1"));
        }
        let from = query.from.unwrap_or(0).max(start.line);
        let limit = query.limit.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX);
        let limit = ReadLimit { records_max: limit, bytes_max: READ_BYTES_MAX };
        let stored = log.read(query.partition, EventNumber(from), limit)?;
        let next = stored.last().map_or(from, |last| last.number.0 + 1);
        Ok(EventsPage { events: stored.into_iter().map(|event| shown(query.partition, event)).collect(), next })
    }

    /// Follows a stream from its end on, all partitions.
    pub fn tail_stream(&self, caller: &Caller, stream: &str, wake: Wake) -> Answer<StreamTail> {
        let tenant = self.looking(caller, Operation::EVENTS_READ)?;
        let log = self.log_of(&*tenant.stream(stream)?)?;
        Ok(StreamTail::new(self.still(caller), log, wake))
    }

    /// Whether a tenant may send so many events now.
    pub(super) fn check_flow(&self, tenant: &TenantEntry, events: u64) -> Answer<()> {
        let quotas = self.quotas_of(tenant);
        quota::within("stream_bytes", quotas.stream_bytes, tenant.stream_bytes())?;
        let rate = quotas.events_per_second.map_or(u64::MAX, u64::from);
        tenant.events.take(events, rate).map_err(|retry_after| {
            let message = format!("more than {rate} events in a second: send them again later, none was taken");
            ServiceError::too_many("too-many-events", retry_after, message)
        })
    }
}

/// The events of a body.
pub(super) fn decoded(body: &EventsBody<'_>, events_max: usize) -> Answer<Vec<NewEvent>> {
    let bytes = body.body;
    let content_type = Some(body.content_type).filter(|text| !text.is_empty());
    let body = Body { content_type, headers: body.cloud_event_headers, bytes };
    decode(&body, RECORD_BYTES_MAX_DEFAULT, events_max).map_err(|error| {
        let kind = match error.is_unsupported_type() {
            true => ErrorKind::UnsupportedType,
            false => ErrorKind::Invalid { field: None },
        };
        ServiceError { kind, code: error.refusal.code, message: error.to_string() }
    })
}

/// Why events were not taken.
pub(super) fn of_append(error: AppendError) -> ServiceError {
    let (code, message) = (error.code(), error.to_string());
    let kind = match error {
        AppendError::Invalid(_) | AppendError::InvalidKey(_) => ErrorKind::Invalid { field: None },
        AppendError::KeyReused => ErrorKind::Conflict,
        AppendError::Busy { retry_after } => ErrorKind::TooMany { retry_after },
        AppendError::Full(error) => {
            // Where the disk is, is not the caller's business.
            tracing::error!("events were refused: {error:#}");
            return ServiceError::unavailable("storage-full", "the server has no space for the events: none was taken");
        }
        AppendError::Failed(error) => return ServiceError::internal(&error),
    };
    ServiceError { kind, code, message }
}

/// For each partition that got some: the first and the last one.
pub(super) fn ranges(placed: &[Placed]) -> Vec<PlacedRange> {
    let mut ranges: BTreeMap<u32, PlacedRange> = BTreeMap::new();
    for Placed { partition, number: EventNumber(number), .. } in placed.iter().copied() {
        let range = ranges.entry(partition).or_insert(PlacedRange { partition, first: number, last: number });
        range.first = range.first.min(number);
        range.last = range.last.max(number);
    }
    ranges.into_values().collect()
}

/// An event as it is read back.
pub(super) fn shown(partition: u32, event: StoredEvent) -> ReadEvent {
    ReadEvent {
        partition,
        number: event.number.0,
        received: event.received.to_string(),
        // What was taken was JSON; a file that was changed gives text.
        event: serde_json::from_slice(&event.json)
            .unwrap_or_else(|_| String::from_utf8_lossy(&event.json).into_owned().into()),
    }
}
