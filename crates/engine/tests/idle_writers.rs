//! Threads that write and then sit there, prepared or not, beside others who replace rows all the
//! time and background threads that free their versions: whoever reads must find the version that
//! he needs, and a rollback after a long pause must come to what was there.
//!
//! Every earlier version is off-row (in memory in the traditional mode). Rows keep a sum.
//! `RESURGAM_THREADS_SECONDS=n` runs longer.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::open::{is_traditional, open_as};
use common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

const ROWS: i64 = 600;
const SUM: i64 = ROWS * 100;
const IDLERS: i64 = 3;
/// Rows of each idler, from the first on; those behind are the movers'.
const OWN: i64 = 100;

fn options() -> Options {
    Options {
        versions: VersionCaps { in_row: false, ..VersionCaps::default() },
        buffer_bytes: 128 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 512 << 10,
        log_bytes_max: 8 << 20,
        cleaner_interval_s: 0.05,
        short_rollback_operations: 20,
        accelerated_database_recovery: !is_traditional(),
        ..Options::default()
    }
}

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, options())
}

struct Random(u64);
impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as i64
    }
}

fn table(tx: &Transaction) -> Result<Arc<Table>> {
    tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))
}

/// Number of rows and their sum.
fn total(view: &ReadView, table: &Arc<Table>) -> Result<(i64, i64)> {
    let mut cursor = view.scan(table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut found) = (RowBatch::default(), (0, 0));
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 64)? {
            return Ok(found);
        }
        for i in 0..batch.len() {
            let DatumRef::Int8(v) = table.column(batch.row(i), 1)? else { panic!("a bigint") };
            found = (found.0 + 1, found.1 + v);
        }
    }
}

fn value(view: &ReadView, table: &Table, id: i64) -> Result<i64> {
    let mut found = RowBuf::default();
    assert!(view.get(table, &key(table, id)?, &mut found)?, "row {id}");
    match table.column(found.raw(), 1)? {
        DatumRef::Int8(v) => Ok(v),
        _ => panic!("a bigint"),
    }
}

/// Moves an amount between two rows that nobody else writes to.
fn shift(tx: &Transaction, table: &Arc<Table>, ids: [i64; 2], amount: i64, text: &str) -> Result<()> {
    for (id, amount) in ids.into_iter().zip([-amount, amount]) {
        let view = tx.statement(StatementKind::PointWrite)?;
        let v = value(&view, table, id)? + amount;
        let (key, new) = (key(table, id)?, row(id, v, text));
        // In the traditional mode its own last rollback may be under way still.
        let write = || tx.update(table, &key, Seen::Snapshot, &new);
        let change = write()?.wait(write)?;
        assert_eq!(change, Change::Done, "row {id}");
    }
    Ok(())
}

struct Shared {
    db: Database,
    stop: AtomicBool,
    ended: AtomicU64,
    moves: AtomicU64,
    scans: AtomicU64,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn idler(shared: &Shared, me: i64) -> Result<()> {
    let mut random = Random(0x1234_5678_9ABC + me as u64);
    let pick = |random: &mut Random| me * OWN + random.below(OWN);
    let mut round = 0;
    while shared.goes_on() {
        round += 1;
        let tx = shared.db.begin(Isolation::ReadCommitted);
        let t = table(&tx)?;
        let text = "i".repeat(100 + random.below(600) as usize);
        for _ in 0..random.below(30) {
            let ids = [pick(&mut random), pick(&mut random)];
            match random.below(4) {
                // Ids of sub-transactions; some are taken back at once.
                0 => {
                    let savepoint = tx.savepoint()?;
                    shift(&tx, &t, ids, 1 + random.below(9), &text)?;
                    if random.below(2) == 0 {
                        tx.rollback_to(savepoint)?;
                    }
                }
                _ => shift(&tx, &t, ids, 1 + random.below(9), &text)?,
            }
            tx.end_statement();
        }
        let own = |tx: &Transaction| -> Result<(i64, i64)> { total(&tx.statement(StatementKind::Read)?, &t) };
        assert_eq!(own(&tx)?, (ROWS, SUM), "an idler's own rows");
        tx.end_statement();
        std::thread::sleep(Duration::from_millis(random.below(150) as u64));
        let commits = random.below(2) == 0;
        if random.below(2) == 0 {
            let gid = format!("idler {me} {round}");
            tx.prepare(&gid, "owner", "database")?.wait()?;
            std::thread::sleep(Duration::from_millis(random.below(150) as u64));
            let ticket = if commits { shared.db.commit_prepared(&gid)? } else { shared.db.rollback_prepared(&gid)? };
            ticket.wait()?;
        } else {
            assert_eq!(own(&tx)?, (ROWS, SUM), "after a pause");
            if commits { tx.commit(Durability::Sync)?.wait()? } else { tx.rollback()? }
        }
        shared.ended.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn mover(shared: &Shared, me: i64) -> Result<()> {
    let mut random = Random(0xABCD_EF01 + me as u64);
    let from = IDLERS * OWN;
    let half = (ROWS - from) / 2;
    let pick = |random: &mut Random| from + me * half + random.below(half);
    while shared.goes_on() {
        let tx = shared.db.begin(Isolation::ReadCommitted);
        let t = table(&tx)?;
        let text = "m".repeat(100 + random.below(600) as usize);
        for _ in 0..1 + random.below(4) {
            shift(&tx, &t, [pick(&mut random), pick(&mut random)], 1 + random.below(9), &text)?;
        }
        if random.below(10) == 0 {
            tx.rollback()?;
        } else {
            tx.commit(if random.below(8) == 0 { Durability::Sync } else { Durability::Async })?.wait()?;
            shared.moves.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn reader(shared: &Shared) -> Result<()> {
    let mut random = Random(0x7777);
    while shared.goes_on() {
        let isolation = if random.below(3) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let tx = shared.db.begin(isolation);
        let t = table(&tx)?;
        for _ in 0..1 + random.below(3) {
            let view = tx.statement(StatementKind::Read)?;
            assert_eq!(total(&view, &t)?, (ROWS, SUM), "{isolation:?}");
            shared.scans.fetch_add(1, Ordering::Relaxed);
            drop(view);
            tx.end_statement();
            std::thread::sleep(Duration::from_millis(random.below(4) as u64));
        }
        tx.commit(Durability::Sync)?.wait()?;
    }
    Ok(())
}

fn check(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    assert_eq!(total(&tx.statement(StatementKind::Read)?, &table(&tx)?)?, (ROWS, SUM));
    Ok(())
}

#[test]
fn idle_writers_beside_cleaning() -> Result<()> {
    let seconds = std::env::var("RESURGAM_THREADS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(3.0);
    let vfs = SimVfs::new(9);
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    let t = tx.create_table(spec)?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    (0..ROWS).try_for_each(|id| tx.insert(&t, &row(id, 100, "new"))?.done())?;
    tx.commit(Durability::Sync)?.wait()?;
    let shared = Shared {
        db: db.clone(),
        stop: AtomicBool::new(false),
        ended: AtomicU64::new(0),
        moves: AtomicU64::new(0),
        scans: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        let mut threads: Vec<_> = (0..IDLERS).map(|me| scope.spawn(move || idler(shared, me))).collect();
        threads.extend((0..2).map(|me| scope.spawn(move || mover(shared, me))));
        threads.push(scope.spawn(move || reader(shared)));
        // Besides what the background does once a second and after each sweep.
        threads.push(scope.spawn(move || {
            while shared.goes_on() {
                shared.db.free_versions()?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }));
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < end && threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("a thread ended with {error:?}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let versions = db.stats().versions;
    eprintln!(
        "{} ended after a pause, {} moves, {} scans, {versions:?}",
        count(&shared.ended),
        count(&shared.moves),
        count(&shared.scans)
    );
    assert!(count(&shared.ended) > 0 && count(&shared.moves) > 0 && count(&shared.scans) > 0);
    drop(shared);
    check(&db)?;
    let after = vfs.crash();
    drop(db);
    let db = open(&after)?;
    check(&db)?;
    db.finish_recovery()?;
    db.close()?;
    drop(db);
    let vfs: Arc<dyn Vfs> = Arc::new(after.clone());
    let db = Database::open_with(vfs, Path::new("/db"), Options { background: false, ..options() }, |_| {})?;
    check(&db)?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
