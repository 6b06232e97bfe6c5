//! Tenants: what the platform does with them.

use super::model::{NewTenant, NewToken, Quotas, Tenant, TokenSecret};
use super::{Answer, Caller, Service, not_yet};

impl Service {
    /// Makes a tenant.
    pub fn create_tenant(&self, caller: &Caller, new: &NewTenant) -> Answer<Tenant> {
        let _ = (caller, new);
        not_yet()
    }

    /// All tenants, in the order of their names.
    pub fn tenants(&self, caller: &Caller) -> Answer<Vec<Tenant>> {
        let _ = caller;
        not_yet()
    }

    /// A tenant.
    pub fn tenant(&self, caller: &Caller, name: &str) -> Answer<Tenant> {
        let _ = (caller, name);
        not_yet()
    }

    /// Changes the quotas that are named, while its rules run.
    pub fn change_tenant(&self, caller: &Caller, name: &str, quotas: &Quotas) -> Answer<Tenant> {
        let _ = (caller, name, quotas);
        not_yet()
    }

    /// Deletes a tenant with all it has.
    pub fn delete_tenant(&self, caller: &Caller, name: &str) -> Answer<()> {
        let _ = (caller, name);
        not_yet()
    }

    /// Makes a token of a tenant.
    pub fn create_tenant_token(&self, caller: &Caller, tenant: &str, new: &NewToken) -> Answer<TokenSecret> {
        let _ = (caller, tenant, new);
        not_yet()
    }
}
