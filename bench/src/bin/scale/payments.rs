//! [`Payments`]: card payments whose keys are drawn as a measurement wants.

use anyhow::Result;
use keyfold::event::Millis;
use keyfold::r#gen::{Line, Random, Share};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Monday, 5 January 2026.
const START_MS: i64 = 1_767_571_200_000;
/// The seed of all draws.
const SEED: u64 = 1;
/// Prime to every number of keys that is measured: all come once before one comes again, and not in the order of their names.
const STEP: u64 = 7_919;
/// So many events share a millisecond: twenty million take less than the half hour after which a session ends.
const EVENTS_OF_A_MS: u64 = 20;

/// Payments one after another, in the order of their times, all within one session: at the end every user has a state and a timeout.
pub struct Payments {
    users: u64,
    hot: Share,
    random: Random,
    made: u64,
}

impl Payments {
    /// Of so many users. User 0 has this share of the payments that are drawn.
    pub fn new(users: u64, hot: Share) -> Self {
        Payments { users, hot, random: Random::new(SEED, 0), made: 0 }
    }

    /// Writes a file in which each of these users, by number, pays once.
    pub fn write_once_each(&mut self, users: std::ops::Range<u64>, path: &Path) -> Result<()> {
        let all = self.users;
        self.write(users.end - users.start, path, move |number, _| (users.start + number) * STEP % all)
    }

    /// Writes a file of so many payments of users that are drawn.
    pub fn write_drawn(&mut self, events: u64, path: &Path) -> Result<()> {
        let (users, hot) = (self.users as u32, self.hot);
        self.write(events, path, move |_, random| if random.chance(hot) { 0 } else { random.below(users).into() })
    }

    /// So many payments of users that are drawn, as JSON.
    pub fn drawn(&mut self, events: u64) -> Vec<Vec<u8>> {
        let users = self.users as u32;
        let line = |_| {
            let mut line = Vec::new();
            let user = self.random.below(users).into();
            self.add(user, &mut line);
            line
        };
        (0..events).map(line).collect()
    }

    fn write(&mut self, events: u64, path: &Path, user: impl Fn(u64, &mut Random) -> u64) -> Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let mut line = Vec::new();
        for number in 0..events {
            line.clear();
            let user = user(number, &mut self.random);
            self.add(user, &mut line);
            line.push(b'\n');
            file.write_all(&line)?;
        }
        Ok(file.flush()?)
    }

    fn add(&mut self, user: u64, line: &mut Vec<u8>) {
        let place = self.random.draw();
        let time = Millis(START_MS + (self.made / EVENTS_OF_A_MS) as i64);
        Line::with_id(line, "id", b't', self.made, 7)
            .id("user_id", b'u', user, 7)
            .time("ts", time)
            .number("amount_minor", 100 + place % 70_000)
            .text("currency", "EUR")
            .id("merchant", b'm', place % 5000, 4)
            .text("country", ["DE", "FR", "IT", "ES"][(place % 4) as usize])
            .id("device", b'd', place % 9973, 4)
            .end();
        self.made += 1;
    }
}
