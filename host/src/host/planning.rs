//! Planning: what the next batch reads and under which clocks, written down before the partitions have it.

use super::{Host, InFlight, InputSettings};
use crate::decisions::Awaited;
use crate::description;
use crate::event::{BatchId, Millis, RecordBatch};
use crate::fault;
use crate::generation::{self, Older};
use crate::imports::LettersToPurge;
use crate::input::BatchInput;
use crate::partition::Work;
use crate::plan::{Plan, Settled};
use crate::progress::BatchTimes;
use crate::wasm::Component;
use anyhow::Result;
use std::borrow::Cow;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128_with_seed;

impl Host {
    /// The plan of the batch that was planned last.
    pub fn last_plan(&self) -> Option<&Plan> {
        self.last.as_ref()
    }

    /// The watermark that the next batch would have.
    pub fn next_watermark(&self) -> Option<Millis> {
        let next = || match self.settings.batch_query {
            // As in Spark: there is none in a batch query, and this says so.
            true => Millis(-1),
            false => self.watermarks.next(self.last.as_ref(), self.now()),
        };
        self.settings.identity.has_event_time().then(next)
    }

    /// The members of an event that a version and those that are drained beside it read; none when one of them reads all.
    pub(super) fn event_members(&self, component: &Component, older: &[Older]) -> Result<Option<Vec<String>>> {
        let drained = self.drained(older)?;
        let versions = drained.iter().map(|drained| &**drained).chain([component]);
        Ok(description::event_members(versions.map(Component::description)))
    }

    /// Finds what a version reads of these records, and the versions that are drained beside it.
    pub(super) fn batch_input(
        &self,
        records: RecordBatch,
        component: &Component,
        older: &[Older],
    ) -> Result<BatchInput> {
        let members = self.event_members(component, older)?;
        let extractors = self.settings.inputs.iter().map(|InputSettings { extractor, .. }| match &members {
            Some(members) => Cow::Owned(extractor.keeping(members)),
            None => Cow::Borrowed(extractor),
        });
        let extractors: Vec<_> = extractors.collect();
        let turn = self.settings.hosting.cpu.turn();
        let _computing = turn.begin();
        Ok(BatchInput::new(records, extractors.iter().map(AsRef::as_ref), self.settings.identity.partitions))
    }

    /// The input is used up: notes how far the watermark has come.
    pub(super) fn settle_watermark(&mut self) {
        let Some(last) = &self.last else { return };
        let before = self.settled.map_or(Millis(i64::MIN), |settled| settled.watermark);
        if let Some(watermark) = self.next_watermark().map(|next| next.max(before)) {
            self.settled = Some(Settled { batch: last.batch, watermark });
            self.plan_log.set_settled(self.settled);
        }
    }

    pub(super) fn now(&self) -> Millis {
        if let Some(began) = self.query_time {
            return began;
        }
        // A clock that was set back must not take processing time back: timeouts would fire again.
        self.clock.now().max(self.last.as_ref().map_or(Millis(i64::MIN), |plan| plan.time))
    }

    pub(super) fn begin(
        &mut self,
        records: RecordBatch,
        mut times: BatchTimes,
        watermark_at_least: Option<Millis>,
    ) -> Result<()> {
        times.waited();
        let input = self.batch_input(records, &self.component, self.generations.older())?;
        times.keyed();
        let plan = self.plan(&input, watermark_at_least);
        if input.purges().iter().any(LettersToPurge::has_refused_outputs) {
            self.plan_log.purge_refused();
        }
        self.plan_log.append(&plan, self.delivered)?;
        fault::point("plan-written");
        self.tell_planned(plan.batch)?;
        times.planned();
        self.start(plan, Arc::clone(&self.component), input, times)
    }

    pub(super) fn start(
        &mut self,
        plan: Plan,
        component: Arc<Component>,
        input: BatchInput,
        times: BatchTimes,
    ) -> Result<()> {
        if self.last.as_ref().is_none_or(|last| last.batch < plan.batch) {
            self.set_last(plan.clone());
        }
        let awaited = self.awaited(&plan, &component, &input);
        let drained = self.drained(&plan.older)?;
        let work = Work {
            drained,
            plan: Arc::new(plan),
            component,
            input: Arc::new(input),
            delivered: self.delivered,
            shipped: self.shipped(),
            cpu: self.settings.hosting.cpu.clone(),
            log: Arc::clone(&self.settings.hosting.log),
            envelope: self.envelope.clone(),
            awaited,
            twice: self.settings.twice,
        };
        self.dues.set(None);
        self.workers.run(&work)?;
        let reports = vec![None; self.settings.identity.partitions as usize];
        self.in_flight.push_back(InFlight { work, reports, times });
        Ok(())
    }

    /// The first batch without a plan.
    pub fn next_batch(&self) -> BatchId {
        BatchId(self.last.as_ref().map_or(0, |last| last.batch.0 + 1))
    }

    /// What of a batch somebody waits for.
    fn awaited(&self, plan: &Plan, component: &Component, input: &BatchInput) -> Option<Arc<Awaited>> {
        let decisions = self.settings.hosting.decisions.as_ref()?;
        // With versions that are drained, it depends on the key.
        let is_one = generation::drained(&plan.older).next().is_none();
        let drops_late = is_one && component.description().timeout.allows_event_time() && !plan.batch_query;
        decisions.of_batch(plan, input, plan.late_watermark.filter(|_| drops_late))
    }

    pub(super) fn plan(&self, input: &BatchInput, watermark_at_least: Option<Millis>) -> Plan {
        let batch = self.next_batch();
        let settled = self.settled.map(|settled| settled.watermark);
        let at_least = watermark_at_least.into_iter().chain(settled).max();
        let watermark = self.next_watermark().map(|watermark| watermark.max(at_least.unwrap_or(watermark)));
        let mut event_times_max = match self.settings.identity.has_event_time() {
            true => input.event_times_max(self.settings.inputs.len()),
            false => Vec::new(),
        };
        let before = self.last.iter().flat_map(|last| &last.event_times_max);
        for (max, before) in event_times_max.iter_mut().zip(before) {
            *max = (*max).max(*before);
        }
        Plan {
            batch,
            ranges: input.records.ranges.clone(),
            time: self.now(),
            watermark,
            late_watermark: match &self.last {
                Some(last) => settled.filter(|_| watermark.is_some()).or(last.watermark),
                None => watermark.map(|_| Millis(0)),
            },
            event_times_max,
            seed: format!("{:032x}", xxh3_128_with_seed(self.id.as_bytes(), batch.0)),
            digest: self.component.digest().to_owned(),
            parameters: self.settings.parameters.to_string(),
            limits: self.settings.limits.clone(),
            batch_query: self.settings.batch_query,
            generation: self.generations.current(),
            older: self.generations.older().to_vec(),
            sweep: self.generations.sweep(),
        }
    }

    /// A plan is in the log.
    pub(super) fn set_last(&mut self, plan: Plan) {
        self.generations.planned(&plan);
        self.last = Some(plan);
        self.settled = None;
    }

    /// The components that are drained, in the order of their numbers.
    pub(super) fn drained(&self, older: &[Older]) -> Result<Vec<Arc<Component>>> {
        generation::drained(older).map(|drained| self.components.get(&drained.digest, &self.component)).collect()
    }
}
