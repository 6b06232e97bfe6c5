//! Tenants: what the platform does with them.

use super::model::{NewTenant, NewToken, Quotas, Role, Tenant, TokenSecret, Usage};
use super::registry::TenantEntry;
use super::{Answer, Caller, Operation, Service, ServiceError, quota, tokens};
use crate::fault;
use crate::state::catalogue::{Change, TenantId, TenantRow};
use anyhow::Result;
use serde_json::json;
use std::sync::{Arc, PoisonError};

impl Service {
    /// Makes a tenant.
    pub fn create_tenant(&self, caller: &Caller, new: &NewTenant) -> Answer<Tenant> {
        self.changing(caller, Operation::TENANT_CREATE, &new.name, |deed| {
            super::check_name("name", &new.name)?;
            quota::check(&new.quotas)?;
            let row = TenantRow {
                id: TenantId::new(),
                name: new.name.clone(),
                created: deed.time,
                quotas: to_json(&new.quotas)?,
            };
            let tenant = self.entry_of(&row)?;
            deed.of_tenant(&tenant);
            self.make_folder(&tenant.path)?;
            let change = |change: &Change<'_>| {
                if change.has_tenant(&row.name)? {
                    let message = format!("there is a tenant {} already", row.name);
                    return Err(ServiceError::conflict("tenant-exists", message).into());
                }
                change.add_tenant(&row)?;
                change.record(deed.line(json!({ "quotas": new.quotas })));
                Ok(())
            };
            let made = self.catalogue.change_and(change, |()| self.registry.add(Arc::clone(&tenant)));
            made.inspect_err(|_| self.unmake_folder(&tenant.path))?;
            self.show_tenant(&tenant)
        })
    }

    /// All tenants, in the order of their names.
    pub fn tenants(&self, caller: &Caller) -> Answer<Vec<Tenant>> {
        self.allow(caller, Operation::TENANT_LIST, "")?;
        self.registry.all().iter().map(|tenant| self.show_tenant(tenant)).collect()
    }

    /// A tenant.
    pub fn tenant(&self, caller: &Caller, name: &str) -> Answer<Tenant> {
        self.allow(caller, Operation::TENANT_READ, "")?;
        self.show_tenant(&*self.registry.named(name)?)
    }

    /// Changes the quotas that are named, while its rules run.
    pub fn change_tenant(&self, caller: &Caller, name: &str, quotas: &Quotas) -> Answer<Tenant> {
        self.changing(caller, Operation::TENANT_CHANGE, name, |deed| {
            quota::check(quotas)?;
            let tenant = self.registry.named(name)?;
            deed.of_tenant(&tenant);
            let _lock = tenant.lock()?;
            let merged = quota::merged(&tenant.own_quotas(), quotas);
            let text = to_json(&merged)?;
            self.catalogue.change(|change| {
                change.set_quotas(&tenant.id, &text)?;
                change.record(deed.line(json!({ "quotas": quotas })));
                Ok(())
            })?;
            *tenant.quotas.write().unwrap_or_else(PoisonError::into_inner) = merged;
            self.quotas_changed(&tenant);
            self.show_tenant(&tenant)
        })
    }

    /// Deletes a tenant with all it has.
    pub fn delete_tenant(&self, caller: &Caller, name: &str) -> Answer<()> {
        self.changing(caller, Operation::TENANT_DELETE, name, |deed| {
            let tenant = self.registry.named(name)?;
            deed.of_tenant(&tenant);
            let mut lock = tenant.lock()?;
            let rules = tenant.all_rules();
            // All are told before one is waited for.
            rules.iter().filter_map(|rule| rule.runner()).for_each(|runner| runner.ask_to_stop());
            rules.iter().for_each(|rule| rule.stop());
            self.catalogue
                .change(|change| {
                    for rule in &rules {
                        change.forget_rule(&rule.id)?;
                    }
                    tenant.all_streams().iter().try_for_each(|stream| change.delete_stream(&stream.id))?;
                    change.delete_tokens_of(&tenant.id)?;
                    change.delete_tenant(&tenant.id)?;
                    change.add_removal(&tenant.path)?;
                    change.record(deed.line(json!({ "rules": rules.len(), "streams": tenant.all_streams().len() })));
                    Ok(())
                })
                // What was stopped for nothing goes on.
                .inspect_err(|_| rules.iter().for_each(|rule| self.start_rule(&tenant, rule)))?;
            lock.0 = true;
            tokens::forget(self, &tenant.id);
            self.registry.remove(&tenant);
            fault::point("service-deleted");
            self.remove(&tenant.path);
            Ok(())
        })
    }

    /// Makes a token of a tenant.
    pub fn create_tenant_token(&self, caller: &Caller, tenant: &str, new: &NewToken) -> Answer<TokenSecret> {
        self.changing(caller, Operation::TENANT_TOKEN_CREATE, tenant, |deed| {
            let tenant = self.registry.named(tenant)?;
            deed.of_tenant(&tenant);
            if new.role == Role::Platform {
                return Err(ServiceError::invalid_field("role", "a tenant has no platform token"));
            }
            self.make_token(deed, Some(&tenant), new)
        })
    }

    /// What holds for a tenant.
    pub(super) fn quotas_of(&self, tenant: &TenantEntry) -> Quotas {
        let server = self.default_quotas.read().unwrap_or_else(PoisonError::into_inner);
        quota::effective(&tenant.own_quotas(), &server)
    }

    pub(super) fn entry_of(&self, row: &TenantRow) -> Result<Arc<TenantEntry>> {
        let quotas = serde_json::from_str(&row.quotas)?;
        Ok(Arc::new(TenantEntry::new(&self.data, row.id.clone(), row.name.clone(), row.created, quotas)))
    }

    pub(super) fn usage_of(&self, tenant: &TenantEntry) -> Answer<Usage> {
        let rules = tenant.all_rules();
        let components = self.catalogue.look(|look| look.components_of(&tenant.id))?;
        Ok(Usage {
            rules: rules.len() as u64,
            streams: tenant.all_streams().len() as u64,
            component_bytes: components.iter().map(|(_, bytes)| bytes).sum(),
            state_keys: rules.iter().map(|rule| rule.keys()).sum(),
            state_bytes: rules.iter().map(|rule| rule.state_bytes()).sum(),
            stream_bytes: tenant.stream_bytes(),
        })
    }

    fn show_tenant(&self, tenant: &TenantEntry) -> Answer<Tenant> {
        Ok(Tenant {
            name: tenant.name.clone(),
            created: tenant.created.to_string(),
            quotas: self.quotas_of(tenant),
            usage: self.usage_of(tenant)?,
        })
    }
}

fn to_json(quotas: &Quotas) -> Result<String> {
    Ok(serde_json::to_string(quotas)?)
}
