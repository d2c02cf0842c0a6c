//! Tables that are used as queues: rows come at one end and are taken from the other, and who takes the next one does not walk
//! over all that were taken before (`engine/src/met_ghosts.rs`). Without background threads, so that nobody else removes them.

#[path = "queues/model.rs"]
mod model;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::common::{key, row};
use model::{made, open};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

/// From where the next row is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
    FirstOfIndex,
}

/// The id of the row that a view finds there.
fn found(view: &ReadView, table: &Arc<Table>, end: End) -> Result<Option<i64>> {
    let mut cursor = match end {
        End::First => view.scan(table, KeyRange::all(), Direction::Forward),
        End::Last => view.scan(table, KeyRange::all(), Direction::Backward),
        End::FirstOfIndex => view.scan_index(table, 0, KeyRange::all(), Direction::Forward),
    };
    let mut batch = RowBatch::default();
    if !cursor.next_batch(&mut batch, 1)? {
        return Ok(None);
    }
    let DatumRef::Int8(id) = table.column(batch.row(0), 0)? else { panic!("the id is an int8") };
    Ok(Some(id))
}

/// Takes one row, in a transaction of its own.
fn pop(db: &Database, table: &Arc<Table>, end: End) -> Result<Option<i64>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::Read)?;
    let Some(id) = found(&view, table, end)? else { return Ok(None) };
    drop(view);
    tx.statement(StatementKind::PointWrite)?;
    let change = tx.delete(table, &key(table, id)?, Seen::Snapshot)?.done()?;
    assert_eq!(change, Change::Done);
    tx.commit(Durability::Async)?.wait()?;
    Ok(Some(id))
}

/// Pages that are touched by finding the next row.
fn pages_touched(db: &Database, table: &Arc<Table>, end: End) -> Result<u64> {
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::Read)?;
    let before = db.stats().pool;
    found(&view, table, end)?;
    let after = db.stats().pool;
    Ok(after.hits + after.misses - before.hits - before.misses)
}

const ROWS: i64 = 6000;

#[test]
fn the_next_row_is_found_at_once_however_many_were_taken() -> Result<()> {
    for traditional in [false, true] {
        for end in [End::First, End::Last, End::FirstOfIndex] {
            let db = open(&SimVfs::new(1), traditional)?;
            let table = made(&db, ROWS)?;
            for at in 0..ROWS - 10 {
                let expected = if end == End::First { at } else { ROWS - 1 - at };
                assert_eq!(pop(&db, &table, end)?, Some(expected));
                if at % 500 == 0 {
                    // A way down the tree, and a leaf that was not worth cleaning.
                    let pages = pages_touched(&db, &table, end)?;
                    assert!(
                        pages < 20,
                        "{pages} pages for the next row after {at}, {end:?}, traditional {traditional}"
                    );
                }
            }
            let removed = db.cleaner_status().totals.removed_by_readers;
            assert!(removed as i64 > ROWS / 2, "{removed} rows were removed");
            for _ in 0..10 {
                assert!(pop(&db, &table, end)?.is_some());
            }
            assert_eq!(pop(&db, &table, end)?, None);
            db.clean()?;
            assert_eq!(db.verify()?, Vec::<String>::new());
        }
    }
    Ok(())
}

/// What an older snapshot sees stays until it has gone.
#[test]
fn nothing_goes_that_somebody_sees() -> Result<()> {
    for traditional in [false, true] {
        for end in [End::First, End::Last, End::FirstOfIndex] {
            let db = open(&SimVfs::new(2), traditional)?;
            let table = made(&db, 600)?;
            for _ in 0..200 {
                pop(&db, &table, end)?;
            }
            let early = db.begin(Isolation::RepeatableRead);
            let view = early.statement(StatementKind::Read)?;
            let removed = db.cleaner_status().totals.removed_by_readers;
            for _ in 0..200 {
                pop(&db, &table, end)?;
            }
            // At most those go that were taken before it.
            let more = db.cleaner_status().totals.removed_by_readers - removed;
            assert!(more <= 200 * 2, "{more} more were removed, of the table and its index");
            let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
            let mut batch = RowBatch::default();
            while cursor.next_batch(&mut batch, 100)? {}
            let mut seen = Vec::new();
            for at in 0..batch.len() {
                let DatumRef::Int8(id) = table.column(batch.row(at), 0)? else { panic!("the id is an int8") };
                seen.push(id);
            }
            let expected: Vec<i64> = if end == End::First { (200..600).collect() } else { (0..400).collect() };
            assert_eq!(seen, expected, "{end:?}, traditional {traditional}");
            drop((view, cursor));
            early.rollback()?;
            // Whoever looks next clears the way, once.
            pages_touched(&db, &table, end)?;
            let pages = pages_touched(&db, &table, end)?;
            assert!(pages < 20, "{pages} pages, {end:?}, traditional {traditional}");
            assert_eq!(db.verify()?, Vec::<String>::new());
        }
    }
    Ok(())
}

/// Deletions that are taken back leave their rows.
#[test]
fn what_was_not_committed_comes_back() -> Result<()> {
    for traditional in [false, true] {
        let db = open(&SimVfs::new(3), traditional)?;
        let table = made(&db, 300)?;
        for _ in 0..100 {
            pop(&db, &table, End::First)?;
        }
        let tx = db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::BulkWrite)?;
        for id in 100..200 {
            tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?;
        }
        let other = db.begin(Isolation::ReadCommitted);
        let view = other.statement(StatementKind::Read)?;
        assert_eq!(found(&view, &table, End::First)?, Some(100));
        tx.rollback()?;
        for expected in 100..300 {
            assert_eq!(pop(&db, &table, End::First)?, Some(expected), "traditional {traditional}");
        }
        assert_eq!(pop(&db, &table, End::First)?, None);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Workers at both ends, and somebody who adds rows: each row is taken once, in spite of splits and merges below.
#[test]
fn each_row_is_taken_once_by_many() -> Result<()> {
    for traditional in [false, true] {
        let db = open(&SimVfs::new(4), traditional)?;
        let table = made(&db, 500)?;
        let (next, done) = (AtomicI64::new(500), AtomicBool::new(false));
        const LAST: i64 = 4000;
        let mut taken = Vec::new();
        std::thread::scope(|scope| -> Result<()> {
            let add = scope.spawn(|| -> Result<()> {
                loop {
                    let id = next.fetch_add(1, Ordering::SeqCst);
                    if id >= LAST {
                        done.store(true, Ordering::SeqCst);
                        return Ok(());
                    }
                    let tx = db.begin(Isolation::ReadCommitted);
                    tx.statement(StatementKind::PointWrite)?;
                    tx.insert(&table, &row(id, -id, &"n".repeat((id % 400) as usize)))?.done()?;
                    if id % 7 == 0 {
                        // Not at all; and another one under the same key.
                        tx.rollback()?;
                        let tx = db.begin(Isolation::ReadCommitted);
                        tx.statement(StatementKind::PointWrite)?;
                        tx.insert(&table, &row(id, -id, "again"))?.done()?;
                        tx.commit(Durability::Async)?.wait()?;
                        continue;
                    }
                    tx.commit(Durability::Async)?.wait()?;
                }
            });
            let workers: Vec<_> = [End::First, End::Last, End::FirstOfIndex, End::First]
                .into_iter()
                .map(|end| {
                    let (db, table, done) = (&db, &table, &done);
                    scope.spawn(move || -> Result<Vec<i64>> {
                        let mut taken = Vec::new();
                        loop {
                            let ended = done.load(Ordering::SeqCst);
                            let tx = db.begin(Isolation::ReadCommitted);
                            let view = tx.statement(StatementKind::Read)?;
                            let id = found(&view, table, end)?;
                            drop(view);
                            let Some(id) = id else {
                                tx.rollback()?;
                                if ended {
                                    return Ok(taken);
                                }
                                std::thread::yield_now();
                                continue;
                            };
                            tx.statement(StatementKind::PointWrite)?;
                            match tx.delete(table, &key(table, id)?, Seen::Snapshot)? {
                                Attempt::Done(Change::Done) => {
                                    tx.commit(Durability::Async)?.wait()?;
                                    taken.push(id);
                                }
                                // Somebody else has it.
                                Attempt::Done(_) | Attempt::Wait(_) => tx.rollback()?,
                            }
                        }
                    })
                })
                .collect();
            add.join().expect("no panic")?;
            for worker in workers {
                taken.extend(worker.join().expect("no panic")?);
            }
            Ok(())
        })?;
        let unique: BTreeSet<i64> = taken.iter().copied().collect();
        assert_eq!(unique.len(), taken.len(), "a row was taken twice");
        assert_eq!(unique, (0..LAST).collect(), "traditional {traditional}");
        assert!(db.cleaner_status().totals.removed_by_readers > 1000);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Rows that must stay, for an older snapshot, are jumped over; when it has gone they go.
#[test]
fn an_older_snapshot_slows_nobody_down() -> Result<()> {
    for traditional in [false, true] {
        for end in [End::First, End::Last, End::FirstOfIndex] {
            let db = open(&SimVfs::new(5), traditional)?;
            let table = made(&db, ROWS)?;
            let early = db.begin(Isolation::RepeatableRead);
            let view = early.statement(StatementKind::Read)?;
            for at in 0..ROWS - 100 {
                let expected = if end == End::First { at } else { ROWS - 1 - at };
                assert_eq!(pop(&db, &table, end)?, Some(expected));
                if at % 500 == 499 {
                    let pages = pages_touched(&db, &table, end)?;
                    assert!(pages < 30, "{pages} pages after {at}, {end:?}, traditional {traditional}");
                    assert_eq!(found(&view, &table, end)?, Some(if end == End::First { 0 } else { ROWS - 1 }));
                }
            }
            assert_eq!(db.cleaner_status().totals.removed_by_readers, 0);
            assert!(db.cleaner_status().reader_jumps > 1000);
            let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
            let mut batch = RowBatch::default();
            while cursor.next_batch(&mut batch, 1000)? {}
            assert_eq!(batch.len() as i64, ROWS);
            drop((view, cursor));
            early.rollback()?;
            for _ in 0..90 {
                assert!(pop(&db, &table, end)?.is_some());
            }
            let removed = db.cleaner_status().totals.removed_by_readers as i64;
            assert!(removed > ROWS * 9 / 10, "{removed} rows removed, {end:?}, traditional {traditional}");
            let pages = pages_touched(&db, &table, end)?;
            assert!(pages < 20, "{pages} pages, {end:?}, traditional {traditional}");
            assert_eq!(db.verify()?, Vec::<String>::new());
        }
    }
    Ok(())
}

/// Rows that one transaction takes one after the other; some of them it puts back.
#[test]
fn a_transaction_jumps_over_what_it_has_taken_itself() -> Result<()> {
    for traditional in [false, true] {
        let db = open(&SimVfs::new(6), traditional)?;
        let table = made(&db, 3000)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let take = |count: i64, from: i64| -> Result<u64> {
            let before = db.stats().pool;
            for id in from..from + count {
                let view = tx.statement(StatementKind::Read)?;
                assert_eq!(found(&view, &table, End::First)?, Some(id), "traditional {traditional}");
                drop(view);
                tx.statement(StatementKind::PointWrite)?;
                assert_eq!(tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?, Change::Done);
            }
            let after = db.stats().pool;
            Ok((after.hits + after.misses - before.hits - before.misses) / count as u64)
        };
        take(1000, 0)?;
        let pages = take(500, 1000)?;
        assert!(pages < 40, "{pages} pages for a row, traditional {traditional}");
        let savepoint = tx.savepoint()?;
        take(500, 1500)?;
        // Others see all of them.
        let other = db.begin(Isolation::ReadCommitted);
        assert_eq!(found(&other.statement(StatementKind::Read)?, &table, End::First)?, Some(0));
        tx.rollback_to(savepoint)?;
        take(100, 1500)?;
        // One is put in where there is nothing.
        tx.statement(StatementKind::PointWrite)?;
        tx.insert(&table, &row(700, 7, "again"))?.done()?;
        assert_eq!(found(&tx.statement(StatementKind::Read)?, &table, End::First)?, Some(700));
        assert_eq!(found(&other.statement(StatementKind::Read)?, &table, End::First)?, Some(0));
        tx.rollback()?;
        assert_eq!(found(&other.statement(StatementKind::Read)?, &table, End::First)?, Some(0));
        other.rollback()?;
        assert_eq!(pop(&db, &table, End::First)?, Some(0));
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn cursors_find_what_a_plain_map_has() -> Result<()> {
    for seed in 1..=12 {
        model::run(seed)?;
    }
    Ok(())
}
