//! A workload after the CDB (DTU) benchmark of *Socrates*, section 7: six tables, of which two have a fixed size, three grow with
//! the scale, and one grows with the work; nine transactions, from reads of single rows to updates of many.
//!
//! Written anew from the benchmark's public description: shares of the default mix are its, sizes of rows are ours. Keys are
//! uniform, or skewed (80 % of the accesses to 20 % of the keys, and so on within them). What the clients have committed is
//! counted, so the sums over the tables must be exactly that.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Result;
use crate::mix::values::{copy_rows, letters};
use crate::mix::{Db, Expectation, Mix, Stop, Terminal};
use crate::wire::Client;

const KINDS: [&str; 9] = [
    "read-lite",
    "read-medium",
    "read-heavy",
    "update-lite",
    "update-heavy",
    "insert-lite",
    "insert-heavy",
    "delete",
    "cpu-heavy",
];
const SCALED: [&str; 3] = ["scaled_a", "scaled_b", "scaled_c"];
/// Rows of the tables of fixed size.
const FIXED: [i64; 2] = [1000, 10_000];
/// Rows that a transaction of this weight meets.
const MEDIUM: i64 = 20;
const HEAVY: i64 = 500;
const UPDATED: i64 = 100;
const INSERTED: usize = 50;
/// Letters that a row has beside its numbers.
const FILLER: usize = 280;
/// And a wide one that is inserted.
const WIDE_FILLER: usize = 1600;
/// What a row of the scaled tables takes in a file, about: to choose how many there are.
const ROW_BYTES: f64 = 350.0;
/// Exponent of the self-similar distribution: ln 0.2 / ln 0.8.
const SKEW: f64 = 7.2126;

/// Which transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Default,
    UpdateHeavy,
    UpdateLite,
    ReadLite,
    /// Wide rows: much log for little work.
    InsertWide,
}

impl Profile {
    /// Of a hundred, in the order of `KINDS`.
    fn shares(number: usize) -> [u32; 9] {
        match number {
            0 => [35, 20, 5, 20, 3, 3, 2, 2, 10],
            1 => [0, 0, 0, 0, 90, 0, 10, 0, 0],
            2 => [0, 0, 0, 100, 0, 0, 0, 0, 0],
            4 => [0, 0, 0, 0, 0, 0, 100, 0, 0],
            _ => [100, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

/// What all clients do at the moment.
#[derive(Default)]
struct Play {
    profile: AtomicUsize,
    skewed: AtomicBool,
    /// Only the first so many keys; 0: all.
    keys: AtomicI64,
}

/// The workload, and its size.
pub struct Cdb {
    /// Of each scaled table.
    rows: i64,
    seed: u64,
    play: Arc<Play>,
}

impl Cdb {
    /// Of about so many gigabytes.
    pub fn new(gb: f64, seed: u64) -> Self {
        let rows = (gb * 1e9 / ROW_BYTES / SCALED.len() as f64) as i64;
        Self { rows: rows.max(HEAVY * 4), seed, play: Arc::default() }
    }

    /// What all its clients do from now on.
    pub fn play(&self, profile: Profile, skewed: bool, keys: i64) {
        self.play.profile.store(profile as usize, Ordering::Relaxed);
        self.play.skewed.store(skewed, Ordering::Relaxed);
        self.play.keys.store(keys.min(self.rows), Ordering::Relaxed);
    }

    /// Rows of each scaled table.
    pub fn rows(&self) -> i64 {
        self.rows
    }
}

impl Mix for Cdb {
    fn name(&self) -> &'static str {
        "CDB-like"
    }

    fn counted(&self) -> Option<usize> {
        None
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn statements(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("insert".to_owned(), "insert into growing (client, id, n, filler) values ($1, $2, $3, $4)".to_owned()),
            ("delete".to_owned(), "delete from growing where client = $1 and id = $2".to_owned()),
            (
                "compute".to_owned(),
                "select count(*), sum(a.n * b.n % 97) from fixed_small a join fixed_large b on b.id = a.n * 10"
                    .to_owned(),
            ),
        ];
        for table in SCALED {
            all.extend([
                (format!("read {table}"), format!("select n, filler from {table} where id = $1")),
                (
                    format!("range {table}"),
                    format!("select count(*), sum(length(filler)) from {table} where id between $1 and $2"),
                ),
                (format!("add {table}"), format!("update {table} set n = n + 1 where id = $1")),
                (
                    format!("bulk {table}"),
                    format!("update {table} set n = n + 1, filler = $3 where id between $1 and $2"),
                ),
            ]);
        }
        all
    }

    fn load(&self, client: &mut Client) -> Result<()> {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        for (table, rows) in ["fixed_small", "fixed_large"].into_iter().zip(FIXED) {
            client.query(&format!(
                "create table {table} (id int primary key, n bigint not null, filler text not null)"
            ))?;
            let rng = &mut rng;
            copy_rows(client, table, (1..=rows).map(|id| format!("{id}\t{id}\t{}", letters(rng, 100..=100))))?;
        }
        for table in SCALED {
            client.query(&format!(
                "create table {table} (id bigint primary key, n bigint not null, filler text not null)"
            ))?;
            let rng = &mut rng;
            copy_rows(client, table, (1..=self.rows).map(|id| format!("{id}\t0\t{}", letters(rng, FILLER..=FILLER))))?;
        }
        client
            .query(
                "create table growing (client int, id bigint, n bigint not null, filler text not null, \
                 primary key (client, id))",
            )
            .map(drop)
    }

    fn terminals(&self, count: usize, seed: u64) -> Vec<Box<dyn Terminal>> {
        let clerk = |number: usize| {
            let mut rng = SmallRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
            let [filler, wide] = [FILLER, WIDE_FILLER].map(|length| letters(&mut rng, length..=length));
            let play = Arc::clone(&self.play);
            Box::new(Clerk { rng, number, rows: self.rows, play, filler, wide, there: 1..1, committed: [0; 4] })
                as Box<dyn Terminal>
        };
        (0..count).map(clerk).collect()
    }

    fn expectations(&self, terminals: &[Box<dyn Terminal>]) -> Vec<Expectation> {
        let total = |of: usize| terminals.iter().filter_map(|one| one.committed().get(of)).sum::<i64>();
        let mut all = Vec::new();
        for (at, table) in SCALED.into_iter().enumerate() {
            all.push(Expectation::new(
                "a scaled table has its rows, and each committed update once",
                format!("select count(*) || ' ' || sum(n) from {table}"),
                format!("{} {}", self.rows, total(at)),
            ));
        }
        all.push(Expectation::new(
            "the growing table has what was inserted and not deleted",
            "select count(*) from growing",
            total(3),
        ));
        for (table, rows) in ["fixed_small", "fixed_large"].into_iter().zip(FIXED) {
            all.push(Expectation::new(
                "a fixed table is as it was",
                format!("select count(*) || ' ' || sum(n) from {table}"),
                format!("{rows} {}", rows * (rows + 1) / 2),
            ));
        }
        all
    }

    fn spoils(&self) -> &'static [&'static str] {
        &[
            "update scaled_a set n = n + 1 where id = 1",
            "delete from scaled_b where id = 2",
            "update scaled_c set n = n - 1 where id = 1",
            "insert into growing values (-1, 1, 1, '')",
            "update fixed_small set n = 0 where id = 7",
            "delete from fixed_large where id = 7",
        ]
    }
}

/// One client.
struct Clerk {
    rng: SmallRng,
    number: usize,
    rows: i64,
    play: Arc<Play>,
    filler: String,
    wide: String,
    /// Ids of its own rows in the growing table.
    there: std::ops::Range<i64>,
    /// Rows updated, by scaled table; rows in the growing table.
    committed: [i64; 4],
}

impl Clerk {
    /// The first of `span` keys.
    fn key(&mut self, span: i64) -> i64 {
        let keys = match self.play.keys.load(Ordering::Relaxed) {
            0 => self.rows,
            some => some,
        };
        let last = (keys - span + 1).max(1);
        if !self.play.skewed.load(Ordering::Relaxed) {
            return self.rng.random_range(1..=last);
        }
        1 + ((last as f64 * skewed(self.rng.random_range(0.0..1.0))) as i64).min(last - 1)
    }

    fn range(&mut self, db: &mut Db, table: &str, span: i64) -> Result<bool, Stop> {
        let span = span.min(self.rows);
        let first = self.key(span);
        let row = db.one(&format!("range {table}"), &[&first, &(first + span - 1)])?;
        let found = row.first().cloned().flatten().unwrap_or_default();
        match found == span.to_string() {
            true => Ok(true),
            false => Err(Stop::Failed(format!("{table} from {first}: {found} rows, and {span} are there"))),
        }
    }
}

/// A place from 0 to 1, most often near 0.
fn skewed(uniform: f64) -> f64 {
    uniform.powf(SKEW)
}

impl Terminal for Clerk {
    fn choose(&mut self) -> usize {
        let shares = Profile::shares(self.play.profile.load(Ordering::Relaxed));
        let mut at = self.rng.random_range(0..100);
        for (kind, share) in shares.into_iter().enumerate() {
            if at < share {
                return kind;
            }
            at -= share;
        }
        0
    }

    fn run(&mut self, kind: usize, db: &mut Db) -> Result<bool, Stop> {
        let at = self.rng.random_range(0..SCALED.len());
        let table = SCALED[at];
        match kind {
            0 => {
                let id = self.key(1);
                db.one(&format!("read {table}"), &[&id]).map(|_| true)
            }
            1 => self.range(db, table, MEDIUM),
            2 => self.range(db, table, HEAVY),
            3 => {
                let id = self.key(1);
                db.change(&format!("add {table}"), &[&id])?;
                self.committed[at] += 1;
                Ok(true)
            }
            4 => {
                let (first, filler) = (self.key(UPDATED), self.filler.as_str());
                let changed = db.run(&format!("bulk {table}"), &[&first, &(first + UPDATED - 1), &filler])?.count;
                if changed != UPDATED as u64 {
                    return Err(Stop::Failed(format!("{table} from {first}: {changed} rows changed, not {UPDATED}")));
                }
                self.committed[at] += UPDATED;
                Ok(true)
            }
            5 | 6 => {
                let count = if kind == 5 { 1 } else { INSERTED };
                let is_wide = self.play.profile.load(Ordering::Relaxed) == Profile::InsertWide as usize;
                let filler = if is_wide { self.wide.as_str() } else { self.filler.as_str() };
                let (number, first) = (self.number, self.there.end);
                // One message, one transaction.
                let ids: Vec<i64> = (first..).take(count).collect();
                let mut sets: Vec<[&dyn Display; 4]> = Vec::with_capacity(count);
                for id in &ids {
                    sets.push([&number, id, id, &filler]);
                }
                let sets: Vec<&[&dyn Display]> = sets.iter().map(|set| &set[..]).collect();
                db.run_all("insert", &sets)?;
                self.there.end += count as i64;
                self.committed[3] += count as i64;
                Ok(true)
            }
            7 => {
                if self.there.is_empty() {
                    return Ok(false);
                }
                db.change("delete", &[&self.number, &self.there.start])?;
                self.there.start += 1;
                self.committed[3] -= 1;
                Ok(true)
            }
            _ => {
                let row = db.one("compute", &[])?;
                let found = row.first().cloned().flatten().unwrap_or_default();
                match found == FIXED[0].to_string() {
                    true => Ok(true),
                    false => Err(Stop::Failed(format!("the join of the fixed tables has {found} rows"))),
                }
            }
        }
    }

    fn committed(&self) -> &[i64] {
        &self.committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_a_hundred() {
        let all = [Profile::Default, Profile::UpdateHeavy, Profile::UpdateLite, Profile::ReadLite];
        for (number, profile) in all.into_iter().enumerate() {
            assert_eq!(profile as usize, number);
            assert_eq!(Profile::shares(number).iter().sum::<u32>(), 100);
        }
        let cdb = Cdb::new(0.01, 1);
        let mut clerks = cdb.terminals(1, 1);
        cdb.play(Profile::UpdateLite, false, 0);
        assert!((0..100).all(|_| clerks[0].choose() == 3));
        cdb.play(Profile::Default, false, 0);
        let reads = (0..10_000).filter(|_| clerks[0].choose() == 0).count();
        assert!((3300..3700).contains(&reads), "{reads}");
    }

    #[test]
    fn four_fifths_of_the_accesses_are_to_a_fifth_of_the_keys() {
        let mut rng = SmallRng::seed_from_u64(1);
        let near = (0..10_000).filter(|_| skewed(rng.random_range(0.0..1.0)) < 0.2).count();
        assert!((7800..8200).contains(&near), "{near}");
    }
}
