//! The audit: what is in it, and what of it can be changed unseen: nothing.

use super::kit::{Server, counting};
use crate::support::command::run;
use crate::support::folder;
use keyfold::service::AuditQuery;
use keyfold::service::model::{Activate, Quotas};
use keyfold::state::catalogue::{AuditFound, verify_audit};
use rusqlite::{Connection, params};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with some lines of audit, closed in order.
fn audited() -> (TempDir, u64) {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    server.service.delete_tenant(&tenant.admin, "acme").unwrap_err();
    let lines = server.service.audit(&server.platform, AuditQuery::default()).unwrap().len() as u64;
    let Server { service, folder, .. } = server;
    service.stop();
    drop(service);
    (folder, lines)
}

fn verified(folder: &Path) -> AuditFound {
    verify_audit(folder).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Changes a copy of the folder's catalogue, and verifies it.
fn changed(folder: &Path, change: impl FnOnce(&Connection)) -> AuditFound {
    let copy = folder::fast();
    folder::copy(folder, copy.path());
    let connection = Connection::open(copy.path().join("catalogue.db")).unwrap();
    change(&connection);
    drop(connection);
    verified(copy.path())
}

fn execute(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap();
}

#[test]
fn everything_that_was_done_is_there_with_who_did_it_and_refused_attempts_too() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let second = server.upload(&tenant, "count", &counting(1));
    let caller = tenant.operator.clone().with_request_id("r-1");
    let activate = Activate { version: second.digest.clone(), state: Some(keyfold::host::StateChoice::Keep) };
    server.service.activate(&caller, "count", &activate).unwrap();
    server.service.activate(&tenant.author, "count", &activate).unwrap_err();
    server.service.delete_stream(&tenant.author, "nothing").unwrap_err();
    let query = AuditQuery { limit: Some(1_000), ..AuditQuery::default() };
    let lines = server.service.audit(&tenant.admin, query).unwrap();
    let said: Vec<String> =
        lines.iter().map(|line| format!("{} {} {} {}", line.by, line.action, line.target, line.outcome)).collect();
    for expected in [
        "first tenant.create acme done",
        "first tenant.token.create acme done",
        "author stream.put events done",
        "author rule.put count done",
        "author version.upload count done",
        "keyfold version.check count ready",
        "operator rule.activate count accepted",
        "operator rule.activate count done",
        "author rule.activate count forbidden",
        "author stream.delete nothing stream-not-found",
    ] {
        assert!(said.iter().any(|line| line == expected), "{expected} is not in\n{}", said.join("\n"));
    }
    let done = lines.iter().rfind(|line| line.action == "rule.activate" && line.outcome == "done").unwrap();
    assert_eq!((done.digest.as_deref(), done.request_id.as_deref()), (Some(second.digest.as_str()), Some("r-1")));
    let next = server.service.audit(&tenant.admin, AuditQuery { after: lines[2].seq, limit: Some(2) }).unwrap();
    assert_eq!(next, lines[3..5]);
    assert_eq!(verified(server.folder.path()).fault, None, "also while the server runs");
}

#[test]
fn each_byte_of_a_line_is_covered() {
    let (folder, lines) = audited();
    let found = verified(folder.path());
    assert_eq!((found.lines, found.fault, found.remark), (lines, None, None));
    let copy = folder::fast();
    folder::copy(folder.path(), copy.path());
    let connection = Connection::open(copy.path().join("catalogue.db")).unwrap();
    let seq = lines - 2;
    let line: String = connection.query_row("SELECT line FROM audit WHERE seq = ?1", [seq], |row| row.get(0)).unwrap();
    let put = |text: &[u8]| {
        // As text, whatever the bytes are: what an editor of the file does is not checked by anybody.
        let sql = "UPDATE audit SET line = CAST(?1 AS TEXT) WHERE seq = ?2";
        connection.execute(sql, params![text, seq]).unwrap();
    };
    for place in 0..line.len() {
        let mut bytes = line.clone().into_bytes();
        bytes[place] ^= 1;
        put(&bytes);
        let found = verified(copy.path());
        let fault = found.fault.unwrap_or_else(|| panic!("byte {place} of {line}"));
        assert!(fault.contains(&format!("line {seq} was changed")) && found.lines == seq - 1, "{fault}");
    }
    put(line.as_bytes());
    assert_eq!(verified(copy.path()).fault, None);
}

#[test]
fn a_line_that_is_changed_taken_out_moved_or_put_in_is_named() {
    let (folder, lines) = audited();
    let fault = |sql: &str| changed(folder.path(), |connection| execute(connection, sql)).fault.expect(sql);
    for (sql, part) in [
        ("DELETE FROM audit WHERE seq = 3", "line 3 is missing"),
        ("DELETE FROM audit WHERE seq = 1", "line 1 is missing"),
        ("UPDATE audit SET hash = zeroblob(32) WHERE seq = 2", "line 2 was changed"),
        ("UPDATE audit SET tenant = 'other' WHERE seq = 4", "line 4 was moved to another tenant"),
        ("UPDATE audit SET tenant = NULL WHERE seq = 4", "line 4 was moved to another tenant"),
        ("UPDATE audit SET seq = seq + 1000 WHERE seq > 4", "line 5 is missing"),
        (
            "UPDATE audit SET line = (SELECT line FROM audit AS other WHERE other.seq = 2) WHERE seq = 3",
            "line 3 was changed",
        ),
    ] {
        assert!(fault(sql).contains(part), "{sql}: {}", fault(sql));
    }
    let added = fault("INSERT INTO audit SELECT seq + 1, tenant, line, hash FROM audit ORDER BY seq DESC LIMIT 1");
    assert!(added.contains(&format!("line {} was changed", lines + 1)), "{added}");
}

#[test]
fn an_end_that_is_cut_off_is_found() {
    let (folder, lines) = audited();
    for left in 0..lines {
        let found = changed(folder.path(), |connection| {
            connection.execute("DELETE FROM audit WHERE seq > ?1", [left]).unwrap();
        });
        let fault = found.fault.expect("lines are missing");
        assert!(fault.contains(&format!("line {} is missing", left + 1)), "{fault}");
    }
    let old = folder::fast();
    folder::copy(folder.path(), old.path());
    let head = fs::read(old.path().join("audit.head")).unwrap();
    fs::remove_file(old.path().join("audit.head")).unwrap();
    assert!(verified(old.path()).fault.unwrap().contains("audit.head is gone"));
    let mut torn = head.clone();
    torn.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(old.path().join("audit.head"), torn).unwrap();
    assert!(verified(old.path()).fault.unwrap().contains("audit.head is gone or damaged"));
}

#[test]
fn one_slot_of_the_head_may_be_torn() {
    let (folder, lines) = audited();
    let path = folder.path().join("audit.head");
    let head = fs::read(&path).unwrap();
    let newest = (0..2).max_by_key(|slot| {
        let text = String::from_utf8_lossy(&head[slot * 256..(slot + 1) * 256]).into_owned();
        text.split("\"seq\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok())
    });
    let mut torn = head;
    torn[newest.unwrap() * 256 + 30] ^= 1;
    fs::write(&path, torn).unwrap();
    let found = verified(folder.path());
    assert!(found.fault.unwrap().contains("audit.head is older"), "a whole older head is no proof of the end");
    assert_eq!(found.lines, lines);
}

#[test]
fn that_the_audit_was_cut_stays_in_the_audit_when_the_server_goes_on() {
    let (folder, lines) = audited();
    let connection = Connection::open(folder.path().join("catalogue.db")).unwrap();
    connection.execute("DELETE FROM audit WHERE seq > ?1", [lines - 2]).unwrap();
    drop(connection);
    let service = super::kit::open(folder.path(), keyfold::clock::Clock::System);
    service.stop();
    drop(service);
    assert_eq!(verified(folder.path()).fault, None, "the chain goes on");
    let connection = Connection::open(folder.path().join("catalogue.db")).unwrap();
    let sql = "SELECT line FROM audit WHERE seq = ?1";
    let line: String = connection.query_row(sql, [lines - 1], |row| row.get(0)).unwrap();
    assert!(line.contains("audit.cut") && line.contains(&format!("\"seq\":{lines}")), "{line}");
}

#[test]
fn the_command_verifies_a_folder_and_names_the_first_wrong_line() {
    let (folder, lines) = audited();
    let data = folder.path().to_string_lossy().into_owned();
    let good = run(["audit", "verify", &data]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.stderr.contains(&format!("{lines} lines")), "{good:?}");
    let connection = Connection::open(folder.path().join("catalogue.db")).unwrap();
    execute(&connection, "UPDATE audit SET line = replace(line, 'acme', 'acne') WHERE seq = 3");
    drop(connection);
    let bad = run(["audit", "verify", &data, "--json"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.stdout.contains("line 3 was changed"), "{bad:?}");
}

#[test]
fn platform_and_tenant_see_what_is_theirs() {
    let server = Server::new();
    server.tenant("one");
    let two = server.tenant("two");
    server.service.change_tenant(&server.platform, "one", &Quotas { rules: Some(1), ..Quotas::default() }).unwrap();
    let of = |caller: &keyfold::service::Caller| server.service.audit(caller, AuditQuery::default()).unwrap();
    assert!(of(&server.platform).iter().any(|line| line.tenant.as_deref() == Some("one")));
    assert!(of(&two.admin).iter().all(|line| line.tenant.as_deref() == Some("two")));
    assert!(server.service.audit(&two.operator, AuditQuery::default()).is_err());
}
