//! Rows of a transaction that rolls back, and others who want them at that moment: what is taken back step by step must be free only as a whole,
//! and nobody may take a version of it for a committed one.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use common::open::{is_traditional, open_as, small};

/// Rolled back by each test.
const ROLLBACKS: u64 = 100_000;

fn open(short: bool) -> Result<(Database, Arc<Table>)> {
    let options = small(is_traditional());
    let options = if short { options } else { Options { short_rollback_operations: 0, ..options } };
    let db = open_as(&SimVfs::new(1), options)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("k", ColumnType::Int8)
        .primary_key(&["id"])
        .index("by_k", &["k"], false);
    let table = tx.create_table(spec)?.done()?;
    tx.statement(StatementKind::PointWrite)?;
    tx.insert(&table, &row(0, 0))?.done()?;
    tx.commit(Durability::Async)?.wait()?;
    Ok((db, table))
}

fn row(id: i64, k: i64) -> [DatumRef<'static>; 2] {
    [DatumRef::Int8(id), DatumRef::Int8(k)]
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// Gives row 0 another key of the index, whoever has it.
fn change(tx: &Transaction, table: &Arc<Table>, k: i64) -> Result<()> {
    let key = key(table, 0)?;
    tx.statement(StatementKind::PointWrite)?;
    let mut seen = Seen::Snapshot;
    loop {
        let new = row(0, k);
        match tx.update(table, &key, seen, &new)?.wait(|| tx.update(table, &key, seen, &new))? {
            Change::Done => return Ok(()),
            Change::Changed => seen = tx.latest(table, &key, &mut RowBuf::default())?.expect("it is never deleted"),
            other => panic!("{other:?}"),
        }
    }
}

/// `rolled_back` again and again, each in a transaction of its own, beside `other`, until there were enough of both.
fn beside(
    db: &Database,
    rolled_back: impl Fn(&Transaction) -> Result<()> + Sync,
    other: impl Fn(&Transaction) -> Result<()> + Sync,
) -> Result<()> {
    let (done, others) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let tx = db.begin(Isolation::ReadCommitted);
                other(&tx)?;
                tx.commit(Durability::Async)?.wait()?;
                others.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Error>(())
        });
        let mut count = 0;
        while (count < ROLLBACKS || others.load(Ordering::Relaxed) < ROLLBACKS / 10) && !beside.is_finished() {
            let tx = db.begin(Isolation::ReadCommitted);
            rolled_back(&tx)?;
            tx.rollback()?;
            count += 1;
        }
        done.store(true, Ordering::Relaxed);
        beside.join().expect("a thread")
    })?;
    assert_eq!(db.verify()?, [""; 0]);
    Ok(())
}

/// A row that was changed twice has entries that were made by the first change only. (Each row was reverted at its last change: before these
/// entries. Who changed it then found none to delete.)
fn changed_twice(short: bool) -> Result<()> {
    let (db, table) = open(short)?;
    let (mine, others) = (AtomicU64::new(1), AtomicU64::new(1));
    let twice = |tx: &Transaction| {
        let k = mine.fetch_add(2, Ordering::Relaxed) as i64;
        change(tx, &table, 1000 + k % 100)?;
        change(tx, &table, 1001 + k % 100)
    };
    let once = |tx: &Transaction| change(tx, &table, others.fetch_add(1, Ordering::Relaxed) as i64 % 100);
    beside(&db, twice, once)
}

#[test]
fn a_row_changed_twice_comes_back_after_its_entries() -> Result<()> {
    changed_twice(true)
}

#[test]
fn a_row_changed_twice_by_a_long_transaction() -> Result<()> {
    changed_twice(false)
}

/// A deletion that is taken back was none: the row was there all the time.
#[test]
fn nobody_inserts_over_a_deletion_that_is_taken_back() -> Result<()> {
    for short in [true, false] {
        let (db, table) = open(short)?;
        let delete = |tx: &Transaction| {
            tx.statement(StatementKind::PointWrite)?;
            match tx.delete(&table, &key(&table, 0)?, Seen::Snapshot)?.done()? {
                Change::Done => Ok(()),
                other => panic!("{other:?}"),
            }
        };
        let insert = |tx: &Transaction| {
            tx.statement(StatementKind::PointWrite)?;
            let again = || tx.insert(&table, &row(0, 7));
            match again().and_then(|attempt| attempt.wait(again)) {
                Err(error) if error.kind() == ErrorKind::UniqueViolation => Ok(()),
                other => panic!("a row that is there was inserted: {other:?}"),
            }
        };
        beside(&db, delete, insert)?;
    }
    Ok(())
}

/// And an insertion that is taken back is no duplicate.
#[test]
fn an_insertion_that_is_taken_back_is_no_duplicate() -> Result<()> {
    for short in [true, false] {
        let (db, table) = open(short)?;
        let insert = |tx: &Transaction| {
            tx.statement(StatementKind::PointWrite)?;
            let again = || tx.insert(&table, &row(9, 7));
            match again().and_then(|attempt| attempt.wait(again)) {
                Err(error) if error.kind() == ErrorKind::UniqueViolation => Ok(()),
                other => other,
            }
        };
        let insert_and_delete = |tx: &Transaction| {
            tx.statement(StatementKind::PointWrite)?;
            let again = || tx.insert(&table, &row(9, 8));
            again()?.wait(again)?;
            match tx.delete(&table, &key(&table, 9)?, Seen::Snapshot)?.done()? {
                Change::Done => Ok(()),
                other => panic!("{other:?}"),
            }
        };
        beside(&db, insert, insert_and_delete)?;
    }
    Ok(())
}
