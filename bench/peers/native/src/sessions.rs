//! [`Sessions`]: the open sessions of a thread's users, and when each may be over.

use crate::Result;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::rc::Rc;

const GAP_MS: i64 = 30 * 60 * 1000;
const HIGH_MINOR: i64 = 50_000;
const ALERT_AT: u64 = 6;

/// What is read of a line.
#[derive(Deserialize)]
pub struct Payment<'l> {
    /// The user.
    pub user_id: &'l str,
    /// Event time, in milliseconds since 1970.
    pub ts: i64,
    /// The amount, in the smallest unit of its currency.
    pub amount_minor: i64,
}

/// The open sessions.
pub struct Sessions<W> {
    open: FxHashMap<Rc<str>, Session>,
    /// When each open session may be over, earliest first: one entry for each, moved on when it comes up too early. To move it with
    /// each payment would cost more.
    ends: BinaryHeap<Reverse<(i64, Rc<str>)>>,
    out: W,
}

struct Session {
    start: i64,
    last: i64,
    count: u64,
    hv_count: u64,
    total_minor: i64,
    flagged: bool,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Row<'u> {
    Alert { user_id: &'u str, session_start: i64, ts: i64, hv_count: u64 },
    Session { user_id: &'u str, start: i64, end: i64, count: u64, hv_count: u64, total_minor: i64, flagged: bool },
}

impl<W: Write> Sessions<W> {
    /// None yet.
    pub fn new(out: W) -> Self {
        Sessions { open: FxHashMap::default(), ends: BinaryHeap::new(), out }
    }

    /// Takes the next payment, and writes the rows that it leads to. Payments come in time order.
    pub fn pay(&mut self, payment: &Payment) -> Result<()> {
        // Ends the user's own session, too, when it is over.
        self.advance(payment.ts)?;
        let session = match self.open.get_mut(payment.user_id) {
            Some(session) => session,
            None => {
                let user: Rc<str> = payment.user_id.into();
                self.ends.push(Reverse((payment.ts + GAP_MS, Rc::clone(&user))));
                self.open.entry(user).or_insert(Session::open(payment.ts))
            }
        };
        session.last = payment.ts;
        session.count += 1;
        session.total_minor += payment.amount_minor;
        if payment.amount_minor < HIGH_MINOR {
            return Ok(());
        }
        session.hv_count += 1;
        if session.hv_count != ALERT_AT {
            return Ok(());
        }
        session.flagged = true;
        let (session_start, hv_count) = (session.start, session.hv_count);
        write(&mut self.out, &Row::Alert { user_id: payment.user_id, session_start, ts: payment.ts, hv_count })
    }

    /// Ends the sessions that no payment from `ts` on can belong to.
    pub fn advance(&mut self, ts: i64) -> Result<()> {
        while let Some(Reverse((end, _))) = self.ends.peek()
            && *end < ts
        {
            let Some(Reverse((end, user))) = self.ends.pop() else { break };
            let last = self.open.get(&user).ok_or("an end without a session")?.last;
            if last + GAP_MS > end {
                self.ends.push(Reverse((last + GAP_MS, user)));
            } else if let Some(session) = self.open.remove(&user) {
                write(&mut self.out, &session.row(&user))?;
            }
        }
        Ok(())
    }

    /// Writes what is still in memory. Open sessions are not over.
    pub fn finish(mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

impl Session {
    fn open(ts: i64) -> Self {
        Session { start: ts, last: ts, count: 0, hv_count: 0, total_minor: 0, flagged: false }
    }

    fn row<'u>(&self, user_id: &'u str) -> Row<'u> {
        Row::Session {
            user_id,
            start: self.start,
            end: self.last,
            count: self.count,
            hv_count: self.hv_count,
            total_minor: self.total_minor,
            flagged: self.flagged,
        }
    }
}

fn write(out: &mut impl Write, row: &Row) -> Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    Ok(out.write_all(b"\n")?)
}
