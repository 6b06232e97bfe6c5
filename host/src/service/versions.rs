//! Versions of a rule: uploaded, listed, found by what people call them.

use super::checks::Report;
use super::model::{Version, VersionStatus};
use super::registry::TenantEntry;
use super::rule_entry::RuleEntry;
use super::{Answer, Caller, ErrorKind, Operation, Put, Service, ServiceError, quota};
use crate::fault;
use crate::limits::Limits;
use crate::state::catalogue::{CheckStatus, VersionRow};
use crate::synced;
use crate::wasm::component::digest_of;
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Digits of a digest that are enough to name it.
const DIGITS_MIN: usize = 6;
/// Versions of one rule: each is a row that is listed.
const VERSIONS_MAX: usize = 1_000;

impl Service {
    /// Takes the bytes of a component. Its checks run in the background. The same bytes are the same version; when it was refused, it is
    /// checked again.
    pub fn upload_version(&self, caller: &Caller, rule: &str, bytes: &[u8]) -> Answer<Put<Version>> {
        self.changing_in(caller, Operation::VERSION_UPLOAD, rule, |deed, tenant| {
            let rule = tenant.rule(rule)?;
            super::activations::not_draining(&rule)?;
            let most = Limits::default().component_bytes_max;
            if bytes.len() as u64 > most {
                let message = format!("the component has {} bytes, {most} are possible", bytes.len());
                return Err(ServiceError { kind: ErrorKind::TooLarge, code: "component-too-large", message });
            }
            let digest = digest_of(bytes);
            let lock = tenant.lock()?;
            let found = self.catalogue.look(|look| look.version(&rule.id, &digest))?;
            if let Some(row) = found.as_ref().filter(|row| row.status != CheckStatus::Refused) {
                return Ok(Put { value: shown(row)?, is_new: false });
            }
            self.checks.has_room(&tenant.id)?;
            let row = VersionRow {
                rule: rule.id.clone(),
                digest: digest.clone(),
                bytes: bytes.len() as u64,
                uploaded: deed.time,
                uploaded_by: deed.by().to_owned(),
                status: CheckStatus::Checking,
                reason: None,
                description: None,
                report: None,
            };
            self.check_component_bytes(tenant, &row)?;
            self.keep_bytes(tenant, &digest, bytes)?;
            let limit = self.quotas_of(tenant).component_bytes;
            self.catalogue
                .change(|change| {
                    if change.versions(&rule.id)?.len() >= VERSIONS_MAX {
                        let message = format!("the rule has {VERSIONS_MAX} versions: make another rule");
                        return Err(ServiceError::conflict("too-many-versions", message).into());
                    }
                    change.put_version(&row)?;
                    let used = change.components_of(&tenant.id)?.iter().map(|(_, bytes)| bytes).sum();
                    quota::within("component_bytes", limit, used)?;
                    change.record(deed.line_of(&digest, json!({ "bytes": row.bytes })));
                    Ok(())
                })
                .inspect_err(|_| self.drop_unknown_component(tenant, &digest))?;
            drop(lock);
            self.checks.add(tenant.clone(), rule, digest);
            Ok(Put { value: shown(&row)?, is_new: found.is_none() })
        })
    }

    /// The versions of a rule, newest first.
    pub fn versions(&self, caller: &Caller, rule: &str) -> Answer<Vec<Version>> {
        let tenant = self.looking(caller, Operation::VERSION_LIST)?;
        let rule = tenant.rule(rule)?;
        let rows = self.catalogue.look(|look| look.versions(&rule.id))?;
        Ok(rows.iter().map(shown).collect::<Result<_>>()?)
    }

    /// A version by its digest, the beginning of it, or what the component calls it when that is unique.
    pub fn version(&self, caller: &Caller, rule: &str, version: &str) -> Answer<Version> {
        let tenant = self.looking(caller, Operation::VERSION_READ)?;
        let rule = tenant.rule(rule)?;
        Ok(shown(&self.find_version(&rule, version)?)?)
    }

    /// A version by what somebody calls it.
    pub(super) fn find_version(&self, rule: &RuleEntry, text: &str) -> Answer<VersionRow> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let rows = self.catalogue.look(|look| look.versions(&rule.id))?;
        let is_digest = digits.len() >= DIGITS_MIN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let matches = |row: &VersionRow| {
            let begins = row.digest.strip_prefix("sha256:").is_some_and(|digest| digest.starts_with(digits));
            (is_digest && begins) || label_of(row).is_ok_and(|label| label.as_deref() == Some(text))
        };
        let mut found: Vec<VersionRow> = rows.into_iter().filter(matches).collect();
        match found.len() {
            0 => Err(ServiceError::not_found("version-not-found", "version")),
            1 => Ok(found.remove(0)),
            many => {
                let message = format!("{many} versions are called {text}: name the digest");
                Err(ServiceError::conflict("version-ambiguous", message))
            }
        }
    }

    /// Whether there is room for a component, before it is written.
    fn check_component_bytes(&self, tenant: &TenantEntry, row: &VersionRow) -> Answer<()> {
        let components = self.catalogue.look(|look| look.components_of(&tenant.id))?;
        let is_there = components.iter().any(|(digest, _)| *digest == row.digest);
        let used: u64 = components.iter().map(|(_, bytes)| bytes).sum();
        let used = if is_there { used } else { used + row.bytes };
        quota::within("component_bytes", self.quotas_of(tenant).component_bytes, used)
    }

    /// Removes the bytes of a component that no rule of the tenant has. The tenant is locked.
    pub(super) fn drop_unknown_component(&self, tenant: &TenantEntry, digest: &str) {
        let known = self.catalogue.look(|look| look.components_of(&tenant.id));
        if known.is_ok_and(|known| known.iter().all(|(other, _)| other != digest)) {
            // If it cannot be removed, the next start does.
            let _ = fs::remove_file(self.data.join(tenant.component_path(digest)));
        }
    }

    /// Writes the bytes of a component, before the row that names them.
    fn keep_bytes(&self, tenant: &TenantEntry, digest: &str, bytes: &[u8]) -> Result<()> {
        let path = self.data.join(tenant.component_path(digest));
        if path.exists() {
            return Ok(());
        }
        let write = |folder: &Path| -> Result<()> {
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(bytes)?;
            synced::file(file.as_file(), file.path());
            fault::point("version-written");
            file.persist(&path)?;
            synced::folder(folder)?;
            synced::folder(&tenant.folder)?;
            fault::point("version-placed");
            Ok(())
        };
        let folder = path.parent().context("a component lies in a folder")?;
        write(folder).with_context(|| format!("failed to write {}", path.display()))
    }
}

/// What the component calls its version, once it was asked.
fn label_of(row: &VersionRow) -> Result<Option<String>> {
    let Some(text) = &row.description else { return Ok(None) };
    let description: crate::description::Description = serde_json::from_str(text)?;
    Ok(Some(description.version))
}

fn shown(row: &VersionRow) -> Result<Version> {
    let description: Option<crate::description::Description> =
        row.description.as_ref().map(|text| serde_json::from_str(text)).transpose()?;
    let report: Report = row.report.as_ref().map_or(Ok(Report::default()), |text| serde_json::from_str(text))?;
    Ok(Version {
        version: description.as_ref().map(|description| description.version.clone()).unwrap_or_default(),
        digest: row.digest.clone(),
        bytes: row.bytes,
        uploaded: row.uploaded.to_string(),
        uploaded_by: row.uploaded_by.clone(),
        status: match row.status {
            CheckStatus::Checking => VersionStatus::Checking,
            CheckStatus::Ready => VersionStatus::Ready,
            CheckStatus::Refused => VersionStatus::Refused,
        },
        reason: row.reason.clone(),
        state_schema: description.map(|description| description.state_schema),
        possible: report.possible,
        trial: report.trial,
    })
}
