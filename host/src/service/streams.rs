//! Streams: made, changed, deleted.

use super::deed::Deed;
use super::model::{Stream, StreamPartition, StreamReader, StreamSettings};
use super::registry::{StreamEntry, TenantEntry};
use super::rule_entry::RuleEntry;
use super::tokens::parsed;
use super::{Answer, Caller, Operation, Put, Service, ServiceError, quota};
use crate::extract::Extractor;
use crate::fault;
use crate::state::catalogue::{StreamId, StreamRow};
use crate::stream::{self, Dedup, Retention, StreamLog};
use anyhow::Result;
use serde_json::json;
use std::sync::{Arc, PoisonError};

impl Service {
    /// Makes a stream, or changes what can be changed of it.
    pub fn put_stream(&self, caller: &Caller, name: &str, settings: &StreamSettings) -> Answer<Put<Stream>> {
        self.changing_in(caller, Operation::STREAM_PUT, name, |deed, tenant| {
            super::check_name("stream", name)?;
            let checked = of_model(settings)?;
            let _lock = tenant.lock()?;
            let (stream, is_new) = match tenant.stream(name) {
                Ok(stream) => {
                    self.change_stream(deed, &stream, settings, checked)?;
                    (stream, false)
                }
                Err(_) => (self.make_stream(deed, tenant, name, settings)?, true),
            };
            Ok(Put { value: self.show_stream(tenant, &stream)?, is_new })
        })
    }

    /// The streams of the caller's tenant, in the order of their names.
    pub fn streams(&self, caller: &Caller) -> Answer<Vec<Stream>> {
        let tenant = self.looking(caller, Operation::STREAM_LIST)?;
        tenant.all_streams().iter().map(|stream| self.show_stream(&tenant, stream)).collect()
    }

    /// A stream.
    pub fn stream(&self, caller: &Caller, name: &str) -> Answer<Stream> {
        let tenant = self.looking(caller, Operation::STREAM_READ)?;
        self.show_stream(&tenant, &*tenant.stream(name)?)
    }

    /// Deletes a stream that no rule reads or writes.
    pub fn delete_stream(&self, caller: &Caller, name: &str) -> Answer<()> {
        self.changing_in(caller, Operation::STREAM_DELETE, name, |deed, tenant| {
            let _lock = tenant.lock()?;
            let stream = tenant.stream(name)?;
            self.catalogue.change(|change| {
                let rules = change.rules_using(&stream.id)?;
                if !rules.is_empty() {
                    let message = format!("the stream is used by {}: delete the rules first", rules.join(", "));
                    return Err(ServiceError::conflict("stream-in-use", message).into());
                }
                change.delete_stream(&stream.id)?;
                change.add_removal(&stream.path)?;
                change.record(deed.line(json!({ "bytes": stream.bytes() })));
                Ok(())
            })?;
            tenant.streams.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            fault::point("service-deleted");
            self.remove(&stream.path);
            Ok(())
        })
    }

    /// Makes a stream. The tenant is locked.
    pub(super) fn make_stream(
        &self,
        deed: &Deed<'_>,
        tenant: &TenantEntry,
        name: &str,
        settings: &StreamSettings,
    ) -> Answer<Arc<StreamEntry>> {
        let limit = self.quotas_of(tenant).streams;
        let row = StreamRow {
            id: StreamId::new(),
            tenant: tenant.id.clone(),
            name: name.to_owned(),
            created: deed.time,
            settings: serde_json::to_string(settings).map_err(anyhow::Error::from)?,
        };
        let stream = Arc::new(self.stream_entry(&row)?);
        self.make_folder(&stream.path)?;
        self.catalogue
            .change(|change| {
                quota::within("streams", limit, change.count_streams(&tenant.id)? + 1)?;
                change.add_stream(&row)?;
                change.record(deed.line(json!({ "stream": name, "settings": settings })));
                Ok(())
            })
            .inspect_err(|_| self.unmake_folder(&stream.path))?;
        tenant.streams.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&stream));
        Ok(stream)
    }

    fn change_stream(
        &self,
        deed: &Deed<'_>,
        stream: &StreamEntry,
        settings: &StreamSettings,
        checked: stream::StreamSettings,
    ) -> Answer<()> {
        let before = stream.settings();
        if before == *settings {
            return Ok(());
        }
        let found = of_model(&before)?;
        for (field, is_same) in
            [("partitions", found.partitions == checked.partitions), ("key", found.key == checked.key)]
        {
            if !is_same {
                let message = format!("{field} cannot change: make another stream, and send its events there");
                return Err(ServiceError { code: "cannot-change", ..ServiceError::invalid_field(field, message) });
            }
        }
        let text = serde_json::to_string(settings).map_err(anyhow::Error::from)?;
        self.catalogue.change(|change| {
            change.set_stream_settings(&stream.id, &text)?;
            change.record(deed.line(json!({ "settings": settings })));
            Ok(())
        })?;
        *stream.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
        match stream.open_log() {
            Some(log) => Ok(log.set_settings(checked)?),
            None => Ok(()),
        }
    }

    pub(super) fn stream_entry(&self, row: &StreamRow) -> Result<StreamEntry> {
        let settings = serde_json::from_str(&row.settings)?;
        Ok(StreamEntry::new(&self.data, &row.tenant, row.id.clone(), row.name.clone(), row.created, settings))
    }

    /// The log of a stream, opened if it was not.
    pub(super) fn log_of(&self, stream: &StreamEntry) -> Result<Arc<StreamLog>> {
        stream.log(|stream| {
            let settings = of_model(&stream.settings())?;
            StreamLog::open(&stream.folder, settings, self.clock.clone(), self.stream_limits.clone())
        })
    }

    pub(super) fn show_stream(&self, tenant: &TenantEntry, stream: &StreamEntry) -> Answer<Stream> {
        let log = self.log_of(stream)?;
        let ends = log.ends();
        let parts = log.starts().into_iter().zip(&ends);
        Ok(Stream {
            name: stream.name.clone(),
            created: stream.created.to_string(),
            settings: with_defaults(stream.settings()),
            partitions: parts.map(|(start, end)| StreamPartition { first: start.line, next: end.line }).collect(),
            bytes: log.bytes(),
            readers: self.readers_of(tenant, stream)?,
        })
    }

    fn readers_of(&self, tenant: &TenantEntry, stream: &StreamEntry) -> Answer<Vec<StreamReader>> {
        let (held, log) = (stream.held_by(), self.log_of(stream)?);
        let readers = tenant.all_rules().into_iter().filter(|rule| rule.reads(&stream.id)).map(|rule| StreamReader {
            lag: lag_of(&rule, stream, &log),
            holds_retention: held.contains(&rule.name),
            rule: rule.name.clone(),
        });
        Ok(readers.collect())
    }
}

/// Events of a stream that a rule has not read.
fn lag_of(rule: &RuleEntry, stream: &StreamEntry, log: &StreamLog) -> u64 {
    let inputs = rule.input_streams().into_iter().zip(rule.needed());
    let of_stream = inputs.filter(|(id, _)| *id == stream.id).flat_map(|(_, read)| log.ends().into_iter().zip(read));
    of_stream.map(|(end, read)| end.line.saturating_sub(read.line)).sum()
}

/// The settings that the log takes.
pub(super) fn of_model(settings: &StreamSettings) -> Answer<stream::StreamSettings> {
    for (field, pointer) in [("key", &settings.key), ("id", &settings.id)] {
        // The log will look with it, and must be able to.
        if let Some(error) = pointer.iter().find_map(|text| Extractor::new(vec![text.clone()], None).err()) {
            return Err(ServiceError::invalid_field(field, format!("{field}: {error:#}")));
        }
    }
    if settings.retention_bytes.is_some_and(|bytes| i64::try_from(bytes).is_err()) {
        return Err(ServiceError::invalid_field("retention_bytes", "retention_bytes is more than any disk has"));
    }
    let ids = settings.ids_remembered.map(|ids| usize::try_from(ids).unwrap_or(usize::MAX));
    let checked = stream::StreamSettings {
        partitions: settings.partitions.unwrap_or(1),
        key: settings.key.clone(),
        retention: Retention {
            age: settings.retention_age.as_ref().map(|text| parsed("retention_age", text)).transpose()?,
            bytes: settings.retention_bytes,
        },
        dedup: Dedup { id: settings.id.clone(), events: ids.unwrap_or(Dedup::default().events) },
        ..stream::StreamSettings::default()
    };
    checked.check().map_err(|error| ServiceError::invalid("invalid", format!("{error:#}")))?;
    Ok(checked)
}

fn with_defaults(settings: StreamSettings) -> StreamSettings {
    StreamSettings {
        partitions: settings.partitions.or(Some(1)),
        ids_remembered: settings.ids_remembered.or(Some(Dedup::default().events as u64)),
        ..settings
    }
}
