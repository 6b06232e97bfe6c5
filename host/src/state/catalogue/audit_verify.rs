//! Verifying the audit: every line is hashed anew, and the end is compared with what lies beside the catalogue.
//!
//! What is found: a line that was changed, taken out, put in or moved, wherever it is; lines cut off at the end, as long as
//! `audit.head` was not changed to match. What is not found: somebody who may write both files and hashes everything anew from some
//! line on. Against that, keep a hash of `keyfold audit export` elsewhere: it covers all lines before it. While a line is being
//! written, a crash leaves it begun and not there; that looks like the last line cut off at that very moment, and is said as such.

use super::audit_head::{self, Head};
use super::audit_table::{self, AuditLine, Link, RawRow, hex};
use super::{FILE, settings};
use anyhow::{Context, Result};
use rusqlite::Connection;
use serde::Serialize;
use std::path::Path;

/// How often the end is looked at while a server writes lines.
const ATTEMPTS: usize = 100;

/// What verifying found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFound {
    /// Lines that are right, from the first on.
    pub lines: u64,
    /// The hash of the last of them, in hexadecimal: covers all before it.
    pub hash: String,
    /// The first thing that is wrong.
    pub fault: Option<String>,
    /// What is no fault, and may be of interest.
    pub remark: Option<String>,
}

/// Verifies the audit of a data folder. A server may be running with it.
pub fn verify_audit(folder: &Path) -> Result<AuditFound> {
    let path = folder.join(FILE);
    let connection = settings::open_read_only(&path)?
        .with_context(|| format!("{} has no tables yet: the first start was cut short", path.display()))?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let before = head(folder)?;
        // One look at the table and one at the head, which nobody has changed meanwhile.
        let transaction = connection.unchecked_transaction()?;
        let mut found = chain(&transaction)?;
        if head(folder)? != before && attempt < ATTEMPTS {
            continue;
        }
        if found.1.fault.is_none() {
            compare(&mut found.1, found.0, before.as_ref());
        }
        return Ok(found.1);
    }
}

fn head(folder: &Path) -> Result<Option<Head>> {
    Ok(audit_head::read(folder)?.map(|(head, _)| head))
}

/// Follows the chain until it breaks.
fn chain(connection: &Connection) -> Result<(Link, AuditFound)> {
    let mut end = Link::NONE;
    let mut fault = None;
    audit_table::scan(connection, |row| {
        match check(end, &row) {
            Ok(link) => end = link,
            Err(message) => fault = Some(message),
        }
        Ok(fault.is_none())
    })?;
    Ok((end, AuditFound { lines: end.seq, hash: hex(&end.hash), fault, remark: None }))
}

/// The link of a row, when it follows from the one before.
fn check(end: Link, row: &RawRow) -> Result<Link, String> {
    let next = end.next(&row.line);
    if row.seq != next.seq {
        return Err(format!("line {} is missing: after line {} comes line {}", next.seq, end.seq, row.seq));
    }
    if row.hash != next.hash {
        return Err(format!(
            "line {} was changed: its hash does not follow from what it says and the line before",
            row.seq
        ));
    }
    let line: AuditLine = serde_json::from_slice(&row.line)
        .map_err(|error| format!("line {} is not one that Keyfold wrote: {error}", row.seq))?;
    if line.seq != row.seq {
        return Err(format!("line {} says that it is line {}", row.seq, line.seq));
    }
    if line.tenant_id.as_ref().map(|id| id.as_str()) != row.tenant.as_deref() {
        return Err(format!("line {} was moved to another tenant", row.seq));
    }
    Ok(next)
}

fn compare(found: &mut AuditFound, end: Link, head: Option<&Head>) {
    let Some(head) = head else {
        if end.seq > 0 {
            found.fault = Some("audit.head is gone or damaged: lines after the last one may be missing".to_owned());
        }
        return;
    };
    if head.agrees(end) {
        if head.seq > end.seq {
            found.remark = Some(format!(
                "line {} was begun and is not there: the process ended while it was written, or it was cut off just then",
                head.seq
            ));
        }
    } else if head.seq > end.seq {
        let missing = end.seq + 1;
        found.fault = Some(format!(
            "the end was cut off: line {missing} is missing, and audit.head says that there were {}",
            head.seq
        ));
    } else if head.seq < end.seq {
        found.fault = Some(format!(
            "audit.head is older than the audit: it says that line {} is the last one, and there are {}",
            head.seq, end.seq
        ));
    } else {
        found.fault = Some(format!("line {} is not the one that audit.head has: all was hashed anew", end.seq));
    }
}
