//! Freeing what was dropped: in parts, so that it can be stopped anywhere, goes on where it was,
//! and takes as little memory for a million pending frees as for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open_recovered;

fn open(vfs: &SimVfs) -> Result<Database> {
    let options = Options {
        buffer_bytes: 4096 * limits::PAGE_SIZE,
        log_segment_bytes: 4 << 20,
        background: false,
        ..Options::default()
    };
    open_recovered(vfs, options)
}

fn commit(db: &Database, work: impl FnOnce(&Transaction) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    work(&tx)?;
    tx.commit(Durability::Sync)?.wait()
}

fn find(tx: &Transaction) -> Result<Arc<Table>> {
    tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))
}

/// Table `t`: every row has a value of its own pages, if `large`.
fn fill(db: &Database, rows: i64, large: bool) -> Result<()> {
    let note = if large { "x".repeat(20_000) } else { "y".repeat(900) };
    commit(db, |tx| {
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("note", ColumnType::Text);
        let table = tx.create_table(spec.primary_key(&["id"]).index("i", &["id"], false))?.done()?;
        (0..rows).try_for_each(|id| tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&note)])?.done())
    })
}

fn pages_in_use(db: &Database) -> u64 {
    let space = db.stats().space;
    space.high_water - space.extents * limits::EXTENT_PAGES - space.pages_in_owned_extents
}

/// Sweeps until nothing is left to do: what was dropped last waits for its dropper to be seen by all.
fn clean(db: &Database) -> Result<()> {
    for _ in 0..3 {
        commit(db, |tx| {
            let spec = TableSpec::new("public", "moves the horizon").column("id", ColumnType::Int8);
            let table = tx.create_table(spec)?.done()?;
            tx.drop_table(&table)?.done()
        })?;
        db.clean()?;
    }
    Ok(())
}

/// A sweep that is told to stop the `budget`th time it asks.
fn clean_until(db: &Database, budget: u64) -> Result<bool> {
    let asked = AtomicU64::new(0);
    match db.clean_unless(&|| asked.fetch_add(1, Ordering::Relaxed) >= budget) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(false),
        Err(error) => Err(error),
    }
}

#[test]
fn freeing_a_dropped_table_can_be_stopped() -> Result<()> {
    for large in [true, false] {
        let mut vfs = SimVfs::new(1);
        let mut db = open(&vfs)?;
        clean(&db)?;
        let empty = pages_in_use(&db);
        fill(&db, if large { 300 } else { 3000 }, large)?;
        let full = pages_in_use(&db);
        assert!(full > empty + 300, "{full} pages, {empty} without the table");
        commit(&db, |tx| tx.drop_table(&find(tx)?)?.done())?;
        let (mut stopped, mut before) = (0, full);
        while !clean_until(&db, 40 + stopped / 20)? {
            stopped += 1;
            let now = pages_in_use(&db);
            assert!(before <= now + 100, "{} pages freed after it was told to stop", before - now);
            before = now;
            if stopped % 4 == 0 {
                assert_eq!(db.verify()?, Vec::<String>::new(), "large: {large}, stopped {stopped} times");
            }
            if stopped == 5 {
                db.write_back()?;
                db.checkpoint()?;
            }
            if stopped == 7 {
                vfs = vfs.crash();
                drop(db);
                db = open(&vfs)?;
                before = pages_in_use(&db);
            }
            assert!(stopped < 500, "it does not come to an end: {now} of {full} pages");
        }
        assert!(stopped > 7, "stopped {stopped} times only");
        clean(&db)?;
        assert_eq!(pages_in_use(&db), empty, "large: {large}");
        assert_eq!(db.verify()?, Vec::<String>::new(), "large: {large}");
    }
    Ok(())
}

/// A database that verifies itself holds its sweeps off meanwhile: what they free would look like damage.
#[test]
fn verifying_beside_sweeps() -> Result<()> {
    let db = open(&SimVfs::new(3))?;
    let verified = AtomicU64::new(0);
    for round in 0..2 {
        fill(&db, 1500, true)?;
        commit(&db, |tx| tx.drop_table(&find(tx)?)?.done())?;
        // So that the horizon passes it.
        commit(&db, |tx| {
            tx.create_table(TableSpec::new("public", &format!("after {round}")).column("id", ColumnType::Int8))?
                .done()
                .map(drop)
        })?;
        std::thread::scope(|scope| {
            let (begun, before) = (Instant::now(), verified.load(Ordering::Relaxed));
            let (verified, db) = (&verified, &db);
            let sweeps = scope.spawn(move || -> Result<()> {
                let mut sweeps = 0;
                // Until some verifications have begun and ended beside them.
                while sweeps < 3 || verified.load(Ordering::Relaxed) < before + 3 {
                    assert!(begun.elapsed() < Duration::from_secs(60), "nothing is verified beside sweeps");
                    db.clean()?;
                    sweeps += 1;
                }
                Ok(())
            });
            while !sweeps.is_finished() {
                assert_eq!(db.verify()?, Vec::<String>::new());
                verified.fetch_add(1, Ordering::Relaxed);
            }
            sweeps.join().map_err(|_| Error::internal("a sweep panicked"))?
        })?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// More entries than are looked up together, of several transactions, among some that are not due.
#[test]
fn thousands_of_entries() -> Result<()> {
    const ROWS: i64 = 3300;
    let db = open(&SimVfs::new(2))?;
    clean(&db)?;
    let empty = pages_in_use(&db);
    fill(&db, ROWS, true)?;
    clean(&db)?;
    let full = pages_in_use(&db);
    let delete = |tx: &Transaction, id: i64| -> Result<()> {
        let table = find(tx)?;
        tx.statement(StatementKind::PointWrite)?;
        let mut key = Vec::new();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        tx.delete(&table, &key, Seen::Snapshot)?.done().map(|change| assert_eq!(change, Change::Done))
    };
    // In doubt, so that it holds no snapshot.
    let other = db.begin(Isolation::ReadCommitted);
    delete(&other, 0)?;
    other.prepare("not due", "owner", "database")?.wait()?;
    commit(&db, |tx| (1..1500).try_for_each(|id| delete(tx, id)))?;
    commit(&db, |tx| (1500..ROWS).try_for_each(|id| delete(tx, id)))?;
    // All in one sweep.
    db.clean()?;
    // A value of three pages is left, and what the tree has not given back.
    let left = pages_in_use(&db);
    assert!(left > empty && left < empty + (full - empty) / 20, "{left} pages of {full}, {empty} without the table");
    db.rollback_prepared("not due")?.wait()?;
    commit(&db, |tx| tx.drop_table(&find(tx)?)?.done())?;
    clean(&db)?;
    // The tree of the pending frees keeps the pages that its entries were on.
    let left = pages_in_use(&db);
    assert!(left <= empty + 40, "{left} pages, {empty} without the table");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
