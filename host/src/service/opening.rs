//! Opening a data folder: what the catalogue knows comes into memory, what a crash left half is finished, and rules begin to wait for
//! their events.

use super::checks::Checks;
use super::manifest::CheckedManifest;
use super::model::{Manifest, Quotas};
use super::records::Records;
use super::registry::{Registry, TenantEntry};
use super::rule_entry::{Active, Known, RuleEntry};
use super::secrets::Secrets;
use super::sweep::Sweeper;
use super::{Service, ServiceSettings, Tuning};
use crate::fair::FairShare;
use crate::folder_lock::FolderLock;
use crate::limits::Limits;
use crate::runner::{Runners, Stopped};
use crate::state::catalogue::{ActivationRow, Catalogue, Reference, RuleRow, TenantId};
use crate::state::{Budget, OVERLAY_BYTES_DEFAULT};
use crate::stream::StreamLimits;
use crate::wasm::Engine;
use crate::wasm::engine::INSTANCES_MAX_SERVICE;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

/// Threads that check uploads.
const CHECK_THREADS: usize = 2;

impl Service {
    /// Opens or makes a data folder, with what only some servers and tests want otherwise.
    pub fn open_tuned(settings: ServiceSettings, tuning: Tuning) -> Result<Arc<Self>> {
        let ServiceSettings { data, clock, compiler, quotas } = settings;
        std::fs::create_dir_all(&data).with_context(|| format!("failed to make the data folder {}", data.display()))?;
        let lock = FolderLock::take(&data)?;
        let catalogue = Arc::new(Catalogue::open(&data)?);
        let sweeper = Arc::new(Sweeper::default());
        let records = Arc::new(Records::new(Arc::clone(&catalogue), clock.clone(), Arc::clone(&sweeper)));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let share = FairShare::new(cores, INSTANCES_MAX_SERVICE as usize);
        let budget = Budget::new(OVERLAY_BYTES_DEFAULT);
        let runners = Runners::new(clock.clone(), share, budget, Arc::clone(&records) as _)?;
        let mut stream_limits = StreamLimits::default();
        stream_limits.segment_bytes = tuning.segment_bytes.unwrap_or(stream_limits.segment_bytes);
        let service = Arc::new(Service {
            engine: Engine::for_instances(&Limits::default(), INSTANCES_MAX_SERVICE)?,
            secrets: Arc::new(Secrets::new(clock.clone())),
            data,
            clock,
            compiler,
            tuning,
            catalogue,
            registry: Arc::new(Registry::default()),
            default_quotas: RwLock::new(quotas),
            runners,
            records,
            checks: Arc::new(Checks::default()),
            sweeper,
            stream_limits,
            is_stopping: Arc::new(AtomicBool::new(false)),
            first_secret: Mutex::default(),
            threads: Mutex::default(),
            _lock: lock,
        });
        service.note_a_cut_audit()?;
        service.load_catalogue()?;
        service.remove_what_is_left()?;
        let first = service.load_tokens()?;
        *service.first_secret.lock().unwrap_or_else(PoisonError::into_inner) = first;
        service.start_all()?;
        service.start_threads()?;
        Ok(service)
    }

    /// That the audit did not end as was written down beside it is said in the audit, where it stays.
    fn note_a_cut_audit(&self) -> Result<()> {
        let Some(head) = self.catalogue.take_audit_disagreement()? else { return Ok(()) };
        tracing::error!(
            "the audit does not end as audit.head says: lines were cut off, or an older copy was put in place"
        );
        self.catalogue.record(self.own_line("audit.cut", "audit", head))
    }

    /// Everything that the catalogue knows, but for what is in folders.
    fn load_catalogue(&self) -> Result<()> {
        let (tenants, streams, rules, references, activations) = self.catalogue.look(|look| {
            Ok((look.tenants()?, look.streams()?, look.rules()?, look.references()?, look.last_activations()?))
        })?;
        let mut by_id: HashMap<TenantId, Arc<TenantEntry>> = HashMap::new();
        for row in &tenants {
            by_id.insert(row.id.clone(), self.entry_of(row)?);
        }
        let tenant_of = |id: &TenantId| by_id.get(id).with_context(|| format!("the catalogue has no tenant {id}"));
        for row in &streams {
            let stream = Arc::new(self.stream_entry(row)?);
            let mut streams = tenant_of(&row.tenant)?.streams.write().unwrap_or_else(PoisonError::into_inner);
            streams.insert(row.name.clone(), stream);
        }
        for row in rules {
            let tenant = tenant_of(&row.tenant)?;
            let rule = Arc::new(self.rule_entry(tenant, &row, &references, &activations)?);
            self.records.add(tenant, &rule);
            tenant.rules.write().unwrap_or_else(PoisonError::into_inner).insert(row.name.clone(), rule);
        }
        by_id.into_values().for_each(|tenant| self.registry.add(tenant));
        Ok(())
    }

    fn rule_entry(
        &self,
        tenant: &TenantEntry,
        row: &RuleRow,
        references: &[Reference],
        activations: &[ActivationRow],
    ) -> Result<RuleEntry> {
        let what = || format!("the catalogue's row of the rule {} cannot be read", row.name);
        let manifest: Manifest = serde_json::from_str(&row.manifest).with_context(what)?;
        // What was allowed when it was put stays so: quotas may be less now.
        let checked = CheckedManifest::new(&row.name, &manifest, &Quotas::default(), true).with_context(what)?;
        let uses = references.iter().filter(|reference| reference.rule == row.id);
        let paused: Option<Stopped> = parsed(row.paused.as_ref()).with_context(what)?;
        let known = Known {
            manifest,
            checked: Arc::new(checked),
            starts: serde_json::from_str(&row.starts).with_context(what)?,
            uses: uses.map(|reference| (reference.r#use.clone(), reference.stream.clone())).collect(),
            active: activations
                .iter()
                .rev()
                .find(|found| found.asked.rule == row.id && found.took_effect())
                .map(Active::of),
            stopped: paused.or(parsed(row.quarantined.as_ref()).with_context(what)?),
            parked: parsed(row.parked.as_ref()).with_context(what)?,
            draining: parsed(row.draining.as_ref()).with_context(what)?,
        };
        Ok(RuleEntry::new(&self.data, &tenant.id, row.id.clone(), row.name.clone(), row.created, known))
    }

    /// Lets every rule wait for its events. What was wanted when the process ended is asked for again.
    fn start_all(self: &Arc<Self>) -> Result<()> {
        for tenant in self.registry.all() {
            for rule in tenant.all_rules() {
                let wanted = self.finish_activation(&tenant, &rule);
                self.start_rule(&tenant, &rule);
                let asked =
                    wanted.and_then(|wanted| wanted.map_or(Ok(()), |wanted| self.ask_later(&tenant, &rule, wanted)));
                if let Err(error) = asked {
                    tracing::error!("an activation of {}/{} cannot be finished: {error:#}", tenant.name, rule.name);
                }
            }
        }
        for row in self.catalogue.look(|look| look.unchecked_versions())? {
            let rules = self
                .registry
                .all()
                .into_iter()
                .flat_map(|tenant| tenant.all_rules().into_iter().map(move |rule| (Arc::clone(&tenant), rule)));
            if let Some((tenant, rule)) = rules.into_iter().find(|(_, rule)| rule.id == row.rule) {
                self.checks.add(tenant, rule, row.digest);
            }
        }
        Ok(())
    }

    fn start_threads(self: &Arc<Self>) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..CHECK_THREADS {
            let (checks, service) = (Arc::clone(&self.checks), Arc::downgrade(self));
            let thread = thread::Builder::new().name("checks".to_owned());
            threads.push(thread.spawn(move || checks.run(&service)).context("failed to start a thread")?);
        }
        let (sweeper, service) = (Arc::clone(&self.sweeper), Arc::downgrade(self));
        let thread = thread::Builder::new().name("sweep".to_owned());
        threads.push(thread.spawn(move || sweeper.run(&service)).context("failed to start a thread")?);
        Ok(())
    }
}

fn parsed<T: DeserializeOwned>(text: Option<&String>) -> Result<Option<T>> {
    Ok(text.map(|text| serde_json::from_str(text)).transpose()?)
}
