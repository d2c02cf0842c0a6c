//! Large transactions: thousands of rows changed and rolled back, all rows changed and
//! committed at once, and one transaction that only the end of the server ends.

use std::sync::atomic::Ordering;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::round::{Round, Session, Stop};

/// Rows of `bulk`, numbered from 0; all have the same `grp` in every committed state.
pub const ROWS: i64 = 5000;
/// Rows of `left_open`, numbered from -1 down; all that is ever committed there.
pub const SENTINELS: i64 = 10;
/// Rows that a statement of the transaction that stays open inserts.
const CHUNK: u64 = 10_000;

/// The writer of `bulk`, over all rounds.
pub struct Bulk {
    /// What `grp` is in all rows.
    pub version: i64,
    /// What it is if the commit in doubt happened.
    pub doubt: Option<i64>,
    rng: SmallRng,
}

impl Bulk {
    pub fn new(seed: u64) -> Self {
        Self { version: 0, doubt: None, rng: SmallRng::seed_from_u64(seed ^ 0xb01c) }
    }

    pub fn work(&mut self, round: &Round) {
        let Ok(mut session) = Session::open(round, "bulk") else { return };
        while round.running() {
            let mut asked = false;
            let new = self.version + 1;
            let choice = self.rng.random_range(0..10);
            let rng = &mut self.rng;
            let done = session.transaction(&mut asked, |session| {
                match choice {
                    0..2 => session.run(&format!("update bulk set grp = {new}"))?,
                    2..4 => {
                        let cut = rng.random_range(0..ROWS);
                        session.run(&format!("delete from bulk where id >= {cut}"))?;
                        session.run(&format!("update bulk set grp = {new}"))?;
                        let rest = format!("generate_series({cut}, {}) as g(i)", ROWS - 1);
                        session.run(&format!("insert into bulk select i, {new}, 'b' || i from {rest}"))?;
                    }
                    _ => {
                        let rows = rng.random_range(500..8000);
                        let extra = format!("generate_series(1, {rows}) as g(i)");
                        session.run(&format!("insert into bulk select -i, -1, 'rolled back' from {extra}"))?;
                        if rng.random() {
                            session.run("update bulk set grp = -2, body = 'rolled back ' || id")?;
                        }
                        session.run(&format!("delete from bulk where id % {} = 0", rng.random_range(2..5)))?;
                        session.round.undone_rows.fetch_add(rows, Ordering::Relaxed);
                        return Ok(false);
                    }
                }
                Ok(true)
            });
            match done {
                Ok(true) => self.version = new,
                Ok(false) => {}
                Err(_) => {
                    self.doubt = asked.then_some(new);
                    return;
                }
            }
            round.pause(self.rng.random_range(1..200));
        }
    }
}

/// Inserts up to `rows` into `left_open` and never ends the transaction.
pub fn leave_open(round: &Round, rows: u64) {
    let _: Result<(), Stop> = (|| {
        let mut session = Session::open(round, "the transaction that stays open")?;
        session.run("begin")?;
        session.run("update left_open set body = 'changed'")?;
        let mut at = 0;
        while at < rows && round.running() {
            let ids = format!("generate_series({}, {}) as g(i)", at, at + CHUNK - 1);
            session.run(&format!("insert into left_open select i, 'row ' || i from {ids}"))?;
            at += CHUNK;
            round.undone_rows.fetch_add(CHUNK, Ordering::Relaxed);
        }
        session.run("delete from left_open where id < -3")?;
        while round.running() {
            round.pause(50);
        }
        Ok(())
    })();
}
