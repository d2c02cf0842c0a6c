//! A writer: transfers between shared accounts, and rows of its own of which it knows what
//! must be found (`model.rs`). Inserts one by one and many at once, updates, deletes, values
//! that are longer than a page, savepoints that are gone back to, rollbacks.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::model::{Delta, Item, Model};
use super::round::{Round, Session, Stop};

/// Accounts, and what each has at first.
pub const ACCOUNTS: i64 = 100;
pub const BALANCE: i64 = 1000;
/// Accounts that most transfers touch.
const HOT: i64 = 8;
/// Rows that a writer keeps; beyond it deletes its oldest.
const ROWS_MAX: usize = 2500;
/// Bytes of a statement's values, about.
const LONG_MAX: usize = 60_000;

/// A writer, over all rounds.
pub struct Writer {
    pub id: i32,
    pub model: Model,
    /// What a commit that was not answered would have changed.
    pub doubt: Option<Delta>,
    next: i64,
    stamp: u64,
    rng: SmallRng,
}

/// A transaction under way: what it has changed, and the savepoint's copy.
struct Work<'a, 'r> {
    session: &'a mut Session<'r>,
    delta: Delta,
}

impl Writer {
    pub fn new(id: i32, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed ^ (0x5851_f42d_4c95_7f2d_u64).wrapping_mul(id as u64 + 1));
        Self { id, model: Model::default(), doubt: None, next: 0, stamp: 0, rng }
    }

    /// Works until the round ends.
    pub fn work(&mut self, round: &Round) {
        let Ok(mut session) = Session::open(round, &format!("writer {}", self.id)) else { return };
        while round.running() && self.doubt.is_none() {
            if self.step(&mut session) == Err(Stop::Ended) {
                return;
            }
            if self.rng.random_ratio(1, 20) {
                round.pause(self.rng.random_range(1..30));
            }
        }
    }

    fn step(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        let choice = self.rng.random_range(0..100);
        if choice < 25 && self.model.items.len() < ROWS_MAX {
            return self.insert_alone(session);
        }
        let mut asked = false;
        let mut delta = Delta::default();
        let (seq, stamp) = (self.next, self.stamp);
        let done = {
            let mut at = Cursor { writer: self.id, model: &self.model, next: seq, stamp, rng: &mut self.rng };
            let done = session.transaction(&mut asked, |session| {
                let mut work = Work { session, delta: Delta::default() };
                let commit = at.body(&mut work, choice);
                delta = work.delta;
                commit
            });
            (self.next, self.stamp) = (at.next, at.stamp);
            done
        };
        match done {
            Ok(true) => self.model.apply(&delta),
            Err(Stop::Ended) if asked => self.doubt = Some(delta),
            _ => {}
        }
        done.map(drop)
    }

    /// One row in a transaction of its own, committed by the statement's end.
    fn insert_alone(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        let mut delta = Delta::default();
        let mut at =
            Cursor { writer: self.id, model: &self.model, next: self.next, stamp: self.stamp, rng: &mut self.rng };
        let sql = at.insert_text(&mut delta, 1, 200);
        (self.next, self.stamp) = (at.next, at.stamp);
        match session.run(&sql) {
            Ok(()) => {
                session.round.commits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.model.apply(&delta);
                Ok(())
            }
            Err(Stop::Ended) => {
                self.doubt = Some(delta);
                Err(Stop::Ended)
            }
            Err(Stop::Conflict) => Ok(()),
        }
    }
}

/// What a transaction's statements are made of.
struct Cursor<'a> {
    writer: i32,
    model: &'a Model,
    next: i64,
    stamp: u64,
    rng: &'a mut SmallRng,
}

impl Cursor<'_> {
    /// The statements of one transaction; whether to commit.
    fn body(&mut self, work: &mut Work<'_, '_>, choice: u32) -> Result<bool, Stop> {
        if self.model.items.len() >= ROWS_MAX {
            self.delete_oldest(work)?;
        }
        match choice {
            ..55 => self.transfer(work)?,
            55..65 => self.insert(work, 40, 300)?,
            65..73 => self.update(work, 300)?,
            73..79 => self.delete(work)?,
            79..84 => self.insert(work, 2, LONG_MAX)?,
            84..87 => self.update(work, LONG_MAX)?,
            87..95 => self.savepoints(work)?,
            _ => {
                self.transfer(work)?;
                self.insert(work, 60, 2000)?;
                self.update(work, 3000)?;
                self.delete(work)?;
                return Ok(false);
            }
        }
        Ok(!self.rng.random_ratio(1, 25))
    }

    fn item(&mut self, len_max: usize) -> Item {
        self.stamp += 1;
        // Long ones are of any length, so that all ways of storing a value are met.
        let longest = self.rng.random_range(10..=len_max.max(11));
        let len = self.rng.random_range(0..=longest);
        Item { val: self.rng.random_range(0..1_000_000), stamp: self.stamp, len }
    }

    fn insert_text(&mut self, delta: &mut Delta, rows: usize, len_max: usize) -> String {
        let mut values = Vec::new();
        for _ in 0..rows {
            let (seq, item) = (self.next, self.item(len_max));
            self.next += 1;
            let body = item.body(self.writer, seq);
            values.push(format!("({}, {seq}, {}, {}, '{body}')", self.writer, item.val, item.stamp));
            delta.items.insert(seq, Some(item));
        }
        format!("insert into item (writer, seq, val, stamp, body) values {}", values.join(", "))
    }

    fn insert(&mut self, work: &mut Work<'_, '_>, rows_max: usize, len_max: usize) -> Result<(), Stop> {
        let rows = self.rng.random_range(1..=rows_max);
        let sql = self.insert_text(&mut work.delta, rows, len_max);
        work.session.run(&sql)
    }

    /// A row of this writer that the transaction sees.
    fn pick(&mut self, work: &Work<'_, '_>) -> Option<i64> {
        let low = self.rng.random_range(0..self.next.max(1));
        let seq = *self.model.items.range(low..).next()?.0;
        work.delta.item(self.model, seq).map(|_| seq)
    }

    fn update(&mut self, work: &mut Work<'_, '_>, len_max: usize) -> Result<(), Stop> {
        for _ in 0..self.rng.random_range(1..4) {
            let Some(seq) = self.pick(work) else { continue };
            let mut item = self.item(len_max);
            let mut set = format!("stamp = {}, body = '{}'", item.stamp, item.body(self.writer, seq));
            if self.rng.random() {
                set += &format!(", val = {}", item.val);
            } else if let Some(old) = work.delta.item(self.model, seq) {
                item.val = old.val;
            }
            work.session.run(&format!("update item set {set} where writer = {} and seq = {seq}", self.writer))?;
            work.delta.items.insert(seq, Some(item));
        }
        Ok(())
    }

    fn delete(&mut self, work: &mut Work<'_, '_>) -> Result<(), Stop> {
        let Some(seq) = self.pick(work) else { return Ok(()) };
        let to = seq + self.rng.random_range(0..5);
        self.delete_range(work, seq, to)
    }

    fn delete_oldest(&mut self, work: &mut Work<'_, '_>) -> Result<(), Stop> {
        let seqs = self.model.items.keys();
        let (Some(first), Some(last)) = (seqs.clone().next(), seqs.clone().nth(ROWS_MAX / 4)) else { return Ok(()) };
        self.delete_range(work, *first, *last)
    }

    fn delete_range(&mut self, work: &mut Work<'_, '_>, from: i64, to: i64) -> Result<(), Stop> {
        let writer = self.writer;
        work.session.run(&format!("delete from item where writer = {writer} and seq between {from} and {to}"))?;
        let mut seqs: Vec<i64> = self.model.items.range(from..=to).map(|(seq, _)| *seq).collect();
        seqs.extend(work.delta.items.range(from..=to).map(|(seq, _)| *seq));
        work.delta.items.extend(seqs.into_iter().map(|seq| (seq, None)));
        Ok(())
    }

    /// From one account to another, with this writer's own account of it and a row.
    fn transfer(&mut self, work: &mut Work<'_, '_>) -> Result<(), Stop> {
        let accounts = if self.rng.random_ratio(7, 10) { HOT } else { ACCOUNTS };
        let from = self.rng.random_range(0..accounts);
        let to = (from + self.rng.random_range(1..accounts)) % accounts;
        let amount = self.rng.random_range(1..100);
        for (account, change) in [(from, -amount), (to, amount)] {
            work.session.run(&format!("update account set balance = balance + {change} where id = {account}"))?;
        }
        for (account, change) in [(from, -amount), (to, amount)] {
            let known = work.delta.tally.get(&account).or_else(|| self.model.tally.get(&account));
            let net = known.copied().unwrap_or(0) + change;
            work.session.run(&format!(
                "insert into tally (writer, account, net) values ({}, {account}, {net}) \
                 on conflict (writer, account) do update set net = excluded.net",
                self.writer
            ))?;
            work.delta.tally.insert(account, net);
        }
        self.insert(work, 1, 200)
    }

    /// Changes that are taken back in the midst of a transaction that then commits.
    fn savepoints(&mut self, work: &mut Work<'_, '_>) -> Result<(), Stop> {
        self.insert(work, 3, 300)?;
        for depth in 0..self.rng.random_range(1..4) {
            let before = work.delta.clone();
            work.session.run(&format!("savepoint s{depth}"))?;
            self.insert(work, 20, 3000)?;
            self.update(work, 500)?;
            self.delete(work)?;
            if self.rng.random_ratio(1, 3) {
                self.transfer(work)?;
            }
            match self.rng.random_range(0..3) {
                0 => {}
                1 => work.session.run(&format!("release savepoint s{depth}"))?,
                _ => {
                    work.session.run(&format!("rollback to savepoint s{depth}"))?;
                    work.delta = before;
                }
            }
        }
        self.insert(work, 3, 300)
    }
}
