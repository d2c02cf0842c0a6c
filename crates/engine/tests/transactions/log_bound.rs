//! The log stays below its bound while one transaction of any size runs: nothing of it is
//! needed to roll the transaction back. (In the traditional mode it is, and small
//! transactions are what the log is bounded beside.)

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::common::hooked::{Call, Hooked};
use resurgam_engine::*;
use resurgam_vfs::{Failing, FaultPlan, SimVfs, Vfs};

const BOUND: u64 = 16 << 20;

fn options(accelerated: bool) -> Options {
    Options {
        buffer_bytes: 4 << 20,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 2 << 20,
        log_bytes_max: BOUND,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    }
}

/// A database of that mode with an empty table.
fn made(vfs: &SimVfs, accelerated: bool) -> Result<(Database, Arc<Table>)> {
    made_with(vfs, options(accelerated))
}

fn made_with(vfs: &SimVfs, options: Options) -> Result<(Database, Arc<Table>)> {
    made_on(Arc::new(vfs.clone()), options)
}

fn made_on(shared: Arc<dyn Vfs>, options: Options) -> Result<(Database, Arc<Table>)> {
    let db = Database::open_with(shared, Path::new("/db"), options, |_| {})?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("filler", ColumnType::Text)
        .primary_key(&["id"]);
    let table = tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok((db, table))
}

#[test]
fn small_transactions_do_not_hold_the_log_in_the_traditional_mode() -> Result<()> {
    let (db, table) = made(&SimVfs::new(4), false)?;
    let filler = "f".repeat(180);
    let mut most = 0;
    for first in (0..280_000).step_by(500) {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::BulkWrite)?;
        for id in first..first + 500 {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&filler)])?.done()?;
        }
        tx.commit(Durability::Async)?.wait()?;
        most = most.max(db.log_status().bytes_in_use);
    }
    let written = db.stats().log.written_bytes;
    assert!(written > 4 * BOUND, "{written} bytes of log were written");
    assert!(most <= BOUND, "{most} bytes of log were kept at one time, the bound is {BOUND}");
    Ok(())
}

#[test]
fn one_large_transaction_does_not_hold_the_log() -> Result<()> {
    let vfs = SimVfs::new(3);
    let (db, table) = made(&vfs, true)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let filler = "f".repeat(180);
    let mut most = 0;
    for id in 0..500_000 {
        tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&filler)])?.done()?;
        if id % 256 == 0 {
            most = most.max(db.log_status().bytes_in_use);
        }
    }
    let written = db.stats().log.written_bytes;
    assert!(written > 6 * BOUND, "the transaction wrote {written} bytes of log");
    eprintln!("{written} bytes of log, {most} at one time; slowed down {} times", db.log_status().writers_slowed);
    assert!(most <= BOUND, "{most} bytes of log were kept at one time, the bound is {BOUND}");

    // And it still rolls back, by a crash in the middle of it.
    let after = vfs.crash();
    drop((tx, db));
    let shared: Arc<dyn Vfs> = Arc::new(after.clone());
    let db = Database::open_with(shared, Path::new("/db"), options(true), |_| {})?;
    assert!(db.recovery().log_bytes <= BOUND, "{} bytes were read to recover", db.recovery().log_bytes);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut batch = RowBatch::default();
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    assert!(!cursor.next_batch(&mut batch, 10)?, "no row is left");
    Ok(())
}

/// Told when this goes, also by a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The disk does not take pages for a while: the log stays below its bound, writers wait and then go
/// on; those that are interrupted end at once.
#[test]
fn the_bound_holds_while_pages_cannot_be_written() -> Result<()> {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(5);
        // All changed pages fit in memory: what is waited for is the log.
        let (db, table) = made_with(&vfs, Options { buffer_bytes: 64 << 20, ..options(accelerated) })?;
        let filler = "f".repeat(1000);
        let (next, stop) = (AtomicI64::new(0), AtomicBool::new(false));
        let failing = Failing { path: "/db/doublewrite".into(), writes: true, ..Failing::default() };
        vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
        let mut most = 0;
        std::thread::scope(|scope| -> Result<()> {
            let _stop = Stop(&stop);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _ = write_one(&db, &table, next.fetch_add(1, Ordering::Relaxed) % 2500, &filler);
                    }
                });
            }
            {
                let begun = Instant::now();
                while db.log_status().bytes_in_use < BOUND / 8 * 7 {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", db.log_status());
                    std::thread::sleep(Duration::from_millis(5));
                }
                for _ in 0..200 {
                    most = most.max(db.log_status().bytes_in_use);
                    std::thread::sleep(Duration::from_millis(5));
                }
                // Somebody who is told to stop.
                let tx = db.begin(Isolation::ReadCommitted);
                let told = Instant::now();
                tx.set_interrupt(Some(Arc::new(move || match told.elapsed() {
                    waited if waited < Duration::from_millis(200) => Ok(()),
                    _ => Err(Error::new(ErrorKind::Cancelled, "enough")),
                })));
                let outcome = tx.insert(&table, &[DatumRef::Int8(-1), DatumRef::Text("y")]);
                assert_eq!(outcome.err().map(|e| e.kind()), Some(ErrorKind::Cancelled));
                assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
                tx.rollback()?;
                let written = db.stats().log.written_bytes;
                vfs.set_faults(FaultPlan::default());
                let begun = Instant::now();
                while db.stats().log.written_bytes < written + 2 * BOUND {
                    most = most.max(db.log_status().bytes_in_use);
                    assert!(begun.elapsed() < Duration::from_secs(60), "writers do not go on: {:?}", db.log_status());
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        })?;
        eprintln!("accelerated: {accelerated}: {most} bytes of log at one time");
        assert!(most <= BOUND, "accelerated: {accelerated}: {most} bytes of log, the bound is {BOUND}");
    }
    Ok(())
}

/// The disk takes pages, all the time, and much slower than they are changed: the log stays below its bound, and the writers go on at the
/// disk's pace.
#[test]
fn the_bound_holds_while_pages_are_written_slowly() -> Result<()> {
    const ROWS: i64 = 20_000;
    for accelerated in [true, false] {
        let slow = Arc::new(AtomicBool::new(false));
        let hook = {
            let slow = Arc::clone(&slow);
            move |call: Call, path: &Path| {
                let of_pages = path.ends_with("doublewrite") || path.ends_with("data");
                if call != Call::Read && of_pages && slow.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(30));
                }
            }
        };
        let shared: Arc<dyn Vfs> = Arc::new(Hooked::new(SimVfs::new(6), hook));
        let (db, table) = made_on(shared, Options { buffer_bytes: 64 << 20, ..options(accelerated) })?;
        let filler = "f".repeat(1000);
        slow.store(true, Ordering::Relaxed);
        let (next, stop, mut most) = (AtomicI64::new(0), AtomicBool::new(false), 0);
        std::thread::scope(|scope| -> Result<()> {
            let _stop = Stop(&stop);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // Far apart: each changes a page of its own.
                        let id = next.fetch_add(1, Ordering::Relaxed) * 7919 % ROWS;
                        let _ = write_one(&db, &table, id, &filler);
                    }
                });
            }
            let begun = Instant::now();
            while db.stats().log.written_bytes < 2 * BOUND {
                most = most.max(db.log_status().bytes_in_use);
                assert!(begun.elapsed() < Duration::from_secs(300), "writers do not go on: {:?}", db.log_status());
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })?;
        slow.store(false, Ordering::Relaxed);
        let slowed = db.log_status().writers_slowed;
        eprintln!("accelerated: {accelerated}: {most} bytes of log at one time; slowed down {slowed} times");
        assert!(slowed > 0, "the disk was not slow enough to be waited for");
        assert!(most <= BOUND, "accelerated: {accelerated}: {most} bytes of log, the bound is {BOUND}");
    }
    Ok(())
}

fn write_one(db: &Database, table: &Arc<Table>, id: i64, filler: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    tx.statement(StatementKind::PointWrite)?;
    let row = [DatumRef::Int8(id), DatumRef::Text(filler)];
    if let Attempt::Done(Change::Gone) = tx.update(table, &key, Seen::Snapshot, &row)? {
        tx.insert(table, &row)?.done()?;
    }
    tx.commit(Durability::Async)?.wait()
}

/// Pages that wait for redo need the log as well.
#[test]
fn a_log_is_shortened_after_a_crash() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(78);
        let options = || Options { buffer_bytes: 16 << 20, ..crate::common::open::small_log(traditional) };
        let db = crate::common::open::open_as(&vfs, options())?;
        crate::support::create(&db)?;
        let note = "n".repeat(1000);
        crate::support::commit(&db, |tx| (0..3000).try_for_each(|id| crate::support::insert(tx, id, &note)))?;
        let vfs = vfs.crash();
        let db = crate::common::open::open_as(&vfs, options())?;
        let waiting = db.stats().pages_awaiting_redo;
        let before = db.stats().log_bytes_in_use;
        db.shorten_log()?;
        let after = db.stats().log_bytes_in_use;
        assert!(waiting > 100, "{waiting} pages to redo");
        assert_eq!(db.stats().pages_awaiting_redo, 0);
        assert!(before > 3 << 20 && after <= 1 << 20, "{before} bytes of log, then {after}");
        let db = crate::common::open::open_recovered(&vfs.crash(), options())?;
        assert_eq!(crate::support::rows(&db)?.len(), 3000);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// The log is kept for pages that are not written out: with these on the disk it is short.
#[test]
fn a_log_is_shortened() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(77);
        let options = || Options { buffer_bytes: 16 << 20, ..crate::common::open::small_log(traditional) };
        let db = crate::common::open::open_as(&vfs, options())?;
        crate::support::create(&db)?;
        let note = "n".repeat(1000);
        crate::support::commit(&db, |tx| (0..6000).try_for_each(|id| crate::support::insert(tx, id, &note)))?;
        db.checkpoint()?;
        let before = db.stats().log_bytes_in_use;
        db.shorten_log()?;
        let after = db.stats().log_bytes_in_use;
        assert!(before > 5 << 20 && after <= 1 << 20, "{before} bytes of log, then {after}");
        let db = crate::common::open::open_recovered(&vfs.crash(), options())?;
        assert_eq!(crate::support::rows(&db)?.len(), 6000);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}
