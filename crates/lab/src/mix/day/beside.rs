//! What happens beside the mix. Each part works on tables of its own, except the snapshots,
//! which read the mix's; each checks its own results and fails the run if one is wrong.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::until_stopped;
use crate::Result;
use crate::mix::drive::Running;
use crate::mix::{Db, Stop};
use crate::servers::Server;
use crate::wire::Row;

/// Rows of the table of savepoints, and how many a large step changes: more than a short
/// rollback undoes at once.
const STEPS: i64 = 2000;
const LARGE: i64 = 500;

/// See the module's head.
pub struct Beside {
    port: u16,
    rows: u64,
    snapshot: Duration,
    seed: u64,
    snapshots: AtomicU64,
    loads: AtomicU64,
    definitions: AtomicU64,
    savepoints: AtomicU64,
    conflicts: AtomicU64,
    /// The sum that the table of savepoints must have.
    sum: AtomicI64,
}

fn text(stop: Stop) -> String {
    match stop {
        Stop::Conflict => "a conflict with nobody".into(),
        Stop::Failed(message) => message,
    }
}

impl Beside {
    /// Makes the tables.
    pub fn new(server: &Server, rows: u64, snapshot: Duration, seed: u64) -> Result<Self> {
        let mut client = server.client()?;
        client.query("create table bulk (id bigint primary key, n integer not null, filler text not null)")?;
        client.query(&insert("bulk", 1, rows))?;
        client.query("create table steps (id bigint primary key, n integer not null, filler text not null)")?;
        client.query(&insert("steps", 1, STEPS.unsigned_abs()))?;
        let zero = AtomicU64::default;
        Ok(Self {
            port: server.port,
            rows,
            snapshot,
            seed,
            snapshots: zero(),
            loads: zero(),
            definitions: zero(),
            savepoints: zero(),
            conflicts: zero(),
            sum: AtomicI64::new(0),
        })
    }

    /// Does all of it until the time is over or the run fails.
    pub fn work(&self, run: &Running, time: Duration) {
        let rng = |n: u64| SmallRng::seed_from_u64(self.seed.wrapping_add(n << 32));
        std::thread::scope(|scope| {
            scope.spawn(|| self.part(run, "snapshots", rng(1), Self::snapshot));
            scope.spawn(|| self.part(run, "loads", rng(2), Self::load));
            scope.spawn(|| self.part(run, "definitions", rng(3), Self::define));
            scope.spawn(|| self.part(run, "savepoints", rng(4), Self::step));
            run.pause(time);
            run.stop();
        });
    }

    fn part(
        &self,
        run: &Running,
        name: &str,
        mut rng: SmallRng,
        step: fn(&Self, &Running, &mut Db, &mut SmallRng) -> Result<(), Stop>,
    ) {
        let mut db = match Db::connect(self.port, &[]) {
            Ok(db) => db,
            Err(message) => return run.fail(format!("{name}: {message}")),
        };
        until_stopped(run, name, || match step(self, run, &mut db, &mut rng) {
            Err(Stop::Conflict) => {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            done => done.map_err(text),
        });
    }

    /// A snapshot of the mix's sums, which agree and do not move while it is held.
    fn snapshot(&self, run: &Running, db: &mut Db, rng: &mut SmallRng) -> Result<(), Stop> {
        let hold = self.snapshot.mul_f64(rng.random_range(0.3..1.0));
        db.query("begin transaction isolation level repeatable read")?;
        let first = sums(db)?;
        if first.first() != first.get(1) {
            return Err(Stop::Failed(format!("in a snapshot w_ytd and d_ytd disagree: {first:?}")));
        }
        let begun = Instant::now();
        while begun.elapsed() < hold && run.pause(Duration::from_secs(1)) {
            let again = sums(db)?;
            if again != first {
                return Err(Stop::Failed(format!("a snapshot moved from {first:?} to {again:?}")));
            }
        }
        db.query("commit")?;
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        run.pause(hold / 10);
        Ok(())
    }

    /// A large insert, update or delete that is rolled back.
    fn load(&self, run: &Running, db: &mut Db, rng: &mut SmallRng) -> Result<(), Stop> {
        let sql = match rng.random_range(0..3) {
            0 => insert("bulk", self.rows + 1, self.rows),
            1 => "update bulk set n = n + 1".to_owned(),
            _ => "delete from bulk".to_owned(),
        };
        let committed = db.transaction(|db| {
            db.query(&sql)?;
            Ok(false)
        })?;
        debug_assert!(!committed);
        expect(db, "select count(*), sum(n) from bulk", &[&self.rows.to_string(), "0"])?;
        self.loads.fetch_add(1, Ordering::Relaxed);
        run.pause(Duration::from_millis(rng.random_range(500..3000)));
        Ok(())
    }

    /// A table that comes and goes, committed or not.
    fn define(&self, run: &Running, db: &mut Db, rng: &mut SmallRng) -> Result<(), Stop> {
        let rows = rng.random_range(1..5000);
        let create = "create table passing (id bigint primary key, n integer not null, filler text not null)";
        let (fill, index) = (insert("passing", 1, rows), "create index passing_n on passing (n, id)");
        let counted = format!("select count(*) from passing where n = 0 and id <= {rows}");
        // All of it in one transaction, rolled back: nothing is left.
        db.transaction(|db| {
            for sql in [create, &fill, index] {
                db.query(sql)?;
            }
            expect(db, &counted, &[&rows.to_string()])?;
            Ok(false)
        })?;
        // The same for good, step by step; a truncation and a drop that are taken back.
        for sql in [create, &fill, index] {
            db.query(sql)?;
        }
        for sql in ["truncate passing", "drop index passing_n", "drop table passing"] {
            db.transaction(|db| {
                db.query(sql)?;
                Ok(false)
            })?;
            expect(db, &counted, &[&rows.to_string()])?;
        }
        db.query("truncate passing")?;
        expect(db, &counted, &["0"])?;
        db.query("drop table passing")?;
        self.definitions.fetch_add(1, Ordering::Relaxed);
        run.pause(Duration::from_millis(rng.random_range(100..1000)));
        Ok(())
    }

    /// Changes, some of which are taken back by going back to a savepoint.
    fn step(&self, run: &Running, db: &mut Db, rng: &mut SmallRng) -> Result<(), Stop> {
        let (small, large) = (rng.random_range(1..=STEPS), rng.random_range(1..=STEPS - LARGE));
        let back = rng.random::<bool>();
        let commit = rng.random_ratio(9, 10);
        let committed = db.transaction(|db| {
            let bump = |from: i64, to: i64| format!("update steps set n = n + 1 where id between {from} and {to}");
            db.query(&bump(small, small))?;
            db.query("savepoint one")?;
            db.query(&bump(large, large + LARGE - 1))?;
            db.query("savepoint two")?;
            db.query(&bump(small, small))?;
            db.query("rollback to savepoint two")?;
            if back {
                db.query("rollback to savepoint one")?;
            } else {
                db.query("release savepoint one")?;
            }
            db.query(&bump(small, small))?;
            Ok(commit)
        })?;
        if committed {
            self.sum.fetch_add(if back { 2 } else { 2 + LARGE }, Ordering::Relaxed);
        }
        self.savepoints.fetch_add(1, Ordering::Relaxed);
        run.pause(Duration::from_millis(rng.random_range(10..200)));
        Ok(())
    }

    /// Checks what must be there when the load has ended.
    pub fn check(&self, server: &Server) -> Result<()> {
        let mut db = Db::connect(server.port, &[])?;
        let sum = self.sum.load(Ordering::Relaxed).to_string();
        expect(&mut db, "select count(*), sum(n) from steps", &[&STEPS.to_string(), &sum]).map_err(text)?;
        expect(&mut db, "select count(*), sum(n) from bulk", &[&self.rows.to_string(), "0"]).map_err(text)
    }

    /// Drops the tables; one may be left of definitions that the end cut short.
    pub fn drop_tables(&self, server: &Server) -> Result<()> {
        let mut client = server.client()?;
        ["bulk", "steps", "passing"]
            .iter()
            .try_for_each(|table| client.query(&format!("drop table if exists {table}")).map(drop))
    }

    /// What happened how often.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        vec![
            ("snapshots", of(&self.snapshots)),
            ("large loads rolled back", of(&self.loads)),
            ("rounds of definitions", of(&self.definitions)),
            ("transactions with savepoints", of(&self.savepoints)),
            ("conflicts of these", of(&self.conflicts)),
        ]
    }
}

fn insert(table: &str, first: u64, rows: u64) -> String {
    let last = first + rows.max(1) - 1;
    format!("insert into {table} select i, 0, repeat('x', 80) from generate_series({first}, {last}) as s(i)")
}

fn sums(db: &mut Db) -> Result<Row, Stop> {
    let rows = db.rows(
        "select (select sum(w_ytd) from warehouse), (select sum(d_ytd) from district), \
         (select sum(d_next_o_id) from district), (select count(*) from new_order)",
    )?;
    rows.into_iter().next().ok_or_else(|| Stop::Failed("the sums have no row".into()))
}

/// Whether a query answers this one row.
fn expect(db: &mut Db, sql: &str, right: &[&str]) -> Result<(), Stop> {
    let rows = db.rows(sql)?;
    let found: Option<Vec<&str>> = rows.first().map(|row| row.iter().map(|v| v.as_deref().unwrap_or("null")).collect());
    if found.as_deref() == Some(right) {
        return Ok(());
    }
    Err(Stop::Failed(format!("\"{sql}\" answers {found:?}, and {right:?} is right")))
}
