//! Rows that are locked in PostgreSQL's four modes, by several transactions at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resurgam_engine::RowLockMode::{KeyShare, NoKeyUpdate, Share, Update};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{open_as, small_log};

const ALL: [RowLockMode; 4] = [KeyShare, Share, NoKeyUpdate, Update];

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    open_as(vfs, small_log(!accelerated))
}

/// A table of an id, a unique code and a value, with a few rows.
fn table(db: &Database) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let mut spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("code", ColumnType::Int8)
        .column("value", ColumnType::Int8)
        .primary_key(&["id"]);
    spec.indexes.push(IndexSpec {
        name: "t_code".into(),
        columns: vec![1],
        orders: Vec::new(),
        unique: true,
        constraint: false,
        nulls_alike: false,
        deferral: Deferral::Never,
    });
    let table = tx.create_table(spec)?.done()?;
    for id in 0..10 {
        tx.insert(&table, &row(id, id, 0))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(table)
}

fn row(id: i64, code: i64, value: i64) -> [DatumRef<'static>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(code), DatumRef::Int8(value)]
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

fn begin(db: &Database) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::PointWrite)?;
    Ok(tx)
}

/// What locking row 1 comes to: `None` if it would wait.
fn lock(tx: &Transaction, table: &Arc<Table>, mode: RowLockMode) -> Result<Option<Change>> {
    tx.statement(StatementKind::PointWrite)?;
    Ok(match tx.lock_row_as(table, &key(table, 1)?, Seen::Snapshot, mode)? {
        Attempt::Done(change) => Some(change),
        Attempt::Wait(_) => None,
    })
}

fn update(tx: &Transaction, table: &Arc<Table>, id: i64, new: [DatumRef<'static>; 3]) -> Result<Option<Change>> {
    tx.statement(StatementKind::PointWrite)?;
    Ok(match tx.update(table, &key(table, id)?, Seen::Snapshot, &new)? {
        Attempt::Done(change) => Some(change),
        Attempt::Wait(_) => None,
    })
}

#[test]
fn modes_exclude_each_other_as_in_postgresql() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(1), accelerated)?;
        let table = table(&db)?;
        for (held, line) in ALL.into_iter().zip(["...x", "..xx", ".xxx", "xxxx"]) {
            for (asked, mark) in ALL.into_iter().zip(line.chars()) {
                let (a, b) = (begin(&db)?, begin(&db)?);
                assert_eq!(lock(&a, &table, held)?, Some(Change::Done));
                let expected = (mark == '.').then_some(Change::Done);
                assert_eq!(lock(&b, &table, asked)?, expected, "{asked:?} beside {held:?}, {accelerated}");
                a.rollback()?;
                assert!(lock(&b, &table, asked)?.is_some(), "{asked:?} after {held:?}");
                b.rollback()?;
            }
        }
        assert_eq!(db.stats().transactions.shared_row_locks, 0);
    }
    Ok(())
}

#[test]
fn changes_wait_for_those_whom_they_concern() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(2), accelerated)?;
        let table = table(&db)?;
        for (held, plain, of_keys) in [(KeyShare, true, false), (Share, false, false)] {
            let (a, b) = (begin(&db)?, begin(&db)?);
            assert_eq!(lock(&a, &table, held)?, Some(Change::Done));
            assert_eq!(update(&b, &table, 1, row(1, 1, 5))?.is_some(), plain, "{held:?}");
            assert_eq!(update(&b, &table, 1, row(1, 77, 5))?.is_some(), of_keys, "a unique column, {held:?}");
            assert_eq!(update(&b, &table, 1, row(77, 1, 5))?.is_some(), of_keys, "the primary key, {held:?}");
            b.statement(StatementKind::PointWrite)?;
            assert!(matches!(b.delete(&table, &key(&table, 1)?, Seen::Snapshot)?, Attempt::Wait(_)), "{held:?}");
            // By a run of rows, too.
            let keys = [key(&table, 0)?, key(&table, 1)?, key(&table, 2)?];
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut done = 0;
            b.statement(StatementKind::BulkWrite)?;
            assert!(matches!(b.delete_many(&table, &keys, Seen::Snapshot, &mut done)?, Attempt::Wait(_)));
            assert_eq!(done, 1, "{held:?}");
            // Its own rows the holder may change.
            b.rollback()?;
            assert_eq!(update(&a, &table, 1, row(1, 78, 6))?, Some(Change::Done));
            a.rollback()?;
        }
    }
    Ok(())
}

#[test]
fn key_share_is_content_with_a_row_whose_keys_stay() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(3), accelerated)?;
        let table = table(&db)?;
        let (reader, writer) = (begin(&db)?, begin(&db)?);
        assert_eq!(update(&writer, &table, 1, row(1, 1, 9))?, Some(Change::Done));
        assert_eq!(lock(&reader, &table, KeyShare)?, Some(Change::Done), "somebody changes its value");
        assert_eq!(lock(&reader, &table, Share)?, None);
        assert_eq!(update(&writer, &table, 1, row(1, 55, 9))?, None, "the keys are shared now");
        reader.rollback()?;
        assert_eq!(update(&writer, &table, 1, row(1, 55, 9))?, Some(Change::Done));
        let reader = begin(&db)?;
        assert_eq!(lock(&reader, &table, KeyShare)?, None, "somebody changes its code");
        writer.rollback()?;
        reader.rollback()?;

        // What was committed since the snapshot.
        for (mode, isolation, new, expected) in [
            (KeyShare, Isolation::RepeatableRead, row(1, 1, 10), true),
            (Share, Isolation::RepeatableRead, row(1, 1, 11), false),
            (KeyShare, Isolation::RepeatableRead, row(1, 56, 11), false),
        ] {
            let reader = db.begin(isolation);
            reader.statement(StatementKind::PointWrite)?;
            let writer = begin(&db)?;
            assert_eq!(update(&writer, &table, 1, new)?, Some(Change::Done));
            writer.commit(Durability::Sync)?.wait()?;
            match reader.lock_row_as(&table, &key(&table, 1)?, Seen::Snapshot, mode) {
                Ok(Attempt::Done(Change::Done)) => assert!(expected, "{mode:?}"),
                Err(error) if error.kind() == ErrorKind::SerializationFailure => assert!(!expected, "{mode:?}"),
                other => panic!("{mode:?}: {:?}", other.map(|_| ())),
            }
            reader.rollback()?;
        }
    }
    Ok(())
}

/// A version shows what all changes of one id come to: who has done more than it shows is waited for.
#[test]
fn key_share_waits_for_more_than_a_version_shows() -> Result<()> {
    type Does = fn(&Transaction, &Arc<Table>) -> Result<()>;
    let all: [(&str, Does); 5] = [
        ("locked, then changed", |tx, table| {
            assert_eq!(lock(tx, table, Update)?, Some(Change::Done));
            assert_eq!(update(tx, table, 1, row(1, 1, 5))?, Some(Change::Done));
            Ok(())
        }),
        ("changed, then locked", |tx, table| {
            assert_eq!(update(tx, table, 1, row(1, 1, 5))?, Some(Change::Done));
            assert_eq!(lock(tx, table, Update)?, Some(Change::Done));
            Ok(())
        }),
        ("locked twice", |tx, table| {
            assert_eq!(lock(tx, table, NoKeyUpdate)?, Some(Change::Done));
            assert_eq!(lock(tx, table, Update)?, Some(Change::Done));
            Ok(())
        }),
        ("deleted and put in again", |tx, table| {
            tx.statement(StatementKind::PointWrite)?;
            assert_eq!(tx.delete(table, &key(table, 1)?, Seen::Snapshot)?.done()?, Change::Done);
            tx.insert(table, &row(1, 1, 7))?.done()
        }),
        ("another code and back", |tx, table| {
            assert_eq!(update(tx, table, 1, row(1, 99, 0))?, Some(Change::Done));
            assert_eq!(update(tx, table, 1, row(1, 1, 3))?, Some(Change::Done));
            Ok(())
        }),
    ];
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(8), accelerated)?;
        let table = table(&db)?;
        for (what, does) in all {
            let (writer, reader) = (begin(&db)?, begin(&db)?);
            does(&writer, &table)?;
            assert_eq!(lock(&reader, &table, KeyShare)?, None, "{what}, {accelerated}");
            writer.rollback()?;
            reader.rollback()?;
        }
        // Again and again in later statements: one lock.
        let tx = begin(&db)?;
        for _ in 0..5 {
            let _ = tx.savepoint()?;
            assert_eq!(lock(&tx, &table, Share)?, Some(Change::Done));
        }
        assert_eq!(db.stats().transactions.shared_row_locks, 1);
        tx.rollback()?;
    }
    Ok(())
}

#[test]
fn a_rollback_to_a_savepoint_gives_locks_back() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(4), accelerated)?;
        let table = table(&db)?;
        let (a, b) = (begin(&db)?, begin(&db)?);
        assert_eq!(lock(&a, &table, KeyShare)?, Some(Change::Done));
        let savepoint = a.savepoint()?;
        assert_eq!(lock(&a, &table, Share)?, Some(Change::Done));
        assert_eq!(update(&b, &table, 1, row(1, 1, 5))?, None);
        a.rollback_to(savepoint)?;
        assert_eq!(update(&b, &table, 1, row(1, 1, 5))?, Some(Change::Done), "accelerated: {accelerated}");
        b.rollback()?;
        let b = begin(&db)?;
        assert_eq!(lock(&b, &table, Update)?, None, "what came before it stays");
        a.commit(Durability::Sync)?.wait()?;
        assert_eq!(lock(&b, &table, Update)?, Some(Change::Done));
        b.rollback()?;
        assert_eq!(db.stats().transactions.shared_row_locks, 0);
    }
    Ok(())
}

#[test]
fn a_prepared_transaction_keeps_its_locks_over_a_crash() -> Result<()> {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(5);
        let db = open(&vfs, accelerated)?;
        let table = table(&db)?;
        let (a, b) = (begin(&db)?, begin(&db)?);
        assert_eq!(lock(&a, &table, Share)?, Some(Change::Done));
        assert_eq!(lock(&b, &table, Share)?, Some(Change::Done));
        assert_eq!(a.prepare("a", "o", "d").err().map(|error| error.kind()), Some(ErrorKind::NotSupported));
        b.rollback()?;
        a.prepare("a", "o", "d")?.wait()?;
        let after = vfs.crash();
        drop((a, db));
        let db = open(&after, accelerated)?;
        let table = db.begin(Isolation::ReadCommitted).table("public", "t")?.expect("the table");
        let writer = begin(&db)?;
        assert_eq!(update(&writer, &table, 1, row(1, 1, 5))?, None, "accelerated: {accelerated}");
        db.rollback_prepared("a")?.wait()?;
        assert_eq!(update(&writer, &table, 1, row(1, 1, 5))?, Some(Change::Done));
        writer.commit(Durability::Sync)?.wait()?;
    }
    Ok(())
}

#[test]
fn who_gets_no_more_shared_locks_has_rows_for_itself() -> Result<()> {
    let db = open_as(&SimVfs::new(6), Options { shared_row_locks_max: 1, ..small_log(false) })?;
    let table = table(&db)?;
    let (a, b) = (begin(&db)?, begin(&db)?);
    a.statement(StatementKind::PointWrite)?;
    assert!(matches!(a.lock_row_as(&table, &key(&table, 2)?, Seen::Snapshot, Share)?, Attempt::Done(Change::Done)));
    assert_eq!(lock(&a, &table, Share)?, Some(Change::Done));
    assert_eq!(lock(&b, &table, Share)?, None, "a has it alone");
    assert_eq!(db.stats().transactions.row_locks_refused, 1);
    a.commit(Durability::Sync)?.wait()?;
    assert_eq!(lock(&b, &table, Share)?, Some(Change::Done));
    b.rollback()
}

/// While a transaction shares a row nobody changes it, and while it shares its keys nobody deletes it: with threads, both ways.
#[test]
fn nobody_changes_what_others_share() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(7), accelerated)?;
        let table = table(&db)?;
        let (stop, changed, shared) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let settle = |tx: &Transaction, seen: Seen, run: &dyn Fn(Seen) -> Result<Attempt<Change>>| -> Result<bool> {
            let mut seen = seen;
            loop {
                match run(seen) {
                    Ok(Attempt::Done(Change::Done)) => return Ok(true),
                    Ok(Attempt::Done(Change::Changed)) => {
                        let mut row = RowBuf::default();
                        match tx.latest(&table, &key(&table, 1)?, &mut row)? {
                            Some(newest) => seen = newest,
                            None => return Ok(false),
                        }
                    }
                    Ok(Attempt::Done(_)) => return Ok(false),
                    Ok(Attempt::Wait(wait)) => drop(wait.wait_timeout(std::time::Duration::from_millis(200))),
                    Err(error) if error.kind() == ErrorKind::DeadlockDetected => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        };
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..4_i64 {
                let (db, table, stop, changed, shared, settle) = (&db, &table, &stop, &changed, &shared, &settle);
                threads.push(scope.spawn(move || -> Result<()> {
                    for round in 0..400_i64 {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let tx = begin(db)?;
                        let at = key(table, 1)?;
                        if number < 2 {
                            let mode = if round % 2 == 0 { Share } else { KeyShare };
                            if settle(&tx, Seen::Snapshot, &|seen| tx.lock_row_as(table, &at, seen, mode))? {
                                let mut before = RowBuf::default();
                                let version = tx.latest(table, &at, &mut before)?;
                                assert!(version.is_some(), "a row that is shared is gone");
                                std::thread::yield_now();
                                let mut after = RowBuf::default();
                                assert!(
                                    tx.latest(table, &at, &mut after)?.is_some(),
                                    "a row that is shared was deleted"
                                );
                                if mode == Share {
                                    assert_eq!(
                                        before.raw().value,
                                        after.raw().value,
                                        "a row that is shared was changed"
                                    );
                                }
                                shared.fetch_add(1, Ordering::Relaxed);
                            }
                            tx.rollback()?;
                        } else {
                            let value = number * 1000 + round;
                            let done = if round % 3 == 0 {
                                settle(&tx, Seen::Snapshot, &|seen| tx.delete(table, &at, seen))?
                                    && tx.insert(table, &row(1, 1, value))?.done().is_ok()
                            } else {
                                settle(&tx, Seen::Snapshot, &|seen| tx.update(table, &at, seen, &row(1, 1, value)))?
                            };
                            changed.fetch_add(u64::from(done), Ordering::Relaxed);
                            if done {
                                tx.commit(Durability::Sync)?.wait()?
                            } else {
                                tx.rollback()?
                            };
                        }
                    }
                    Ok(())
                }));
            }
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let (changed, shared) = (changed.into_inner(), shared.into_inner());
        assert!(changed > 20 && shared > 20, "{changed} changes, {shared} shares");
        assert_eq!(db.stats().transactions.shared_row_locks, 0);
    }
    Ok(())
}

/// As in PostgreSQL: it may come back, by a savepoint or since the change cannot be made after all.
#[test]
fn a_key_that_an_update_gives_up_stays_its_transactions() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(5), accelerated)?;
        let table = table(&db)?;
        // Both of its own, and under one id.
        for (new, moves) in [(row(101, 100, 1), true), (row(100, 101, 1), false)] {
            let (a, b) = (begin(&db)?, begin(&db)?);
            a.insert(&table, &row(100, 100, 0))?.done()?;
            assert_eq!(update(&a, &table, 100, new)?, Some(Change::Done));
            let waits = |new: [DatumRef<'_>; 3]| Ok::<_, Error>(matches!(b.insert(&table, &new)?, Attempt::Wait(_)));
            assert!(waits(row(100, 200, 0))?, "the id, which it has or had");
            assert!(waits(row(200, 100, 0))?, "the code");
            a.commit(Durability::Sync)?.wait()?;
            // What it gave up is free.
            let left = if moves { row(100, 200, 0) } else { row(200, 100, 0) };
            b.insert(&table, &left)?.done()?;
            b.rollback()?;
            let tx = begin(&db)?;
            for id in [100, 101] {
                tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?;
            }
            tx.commit(Durability::Sync)?.wait()?;
        }
        // One that cannot be made leaves the row as it was, and everything of it.
        let (a, b) = (begin(&db)?, begin(&db)?);
        a.insert(&table, &row(100, 100, 0))?.done()?;
        for taken in [row(3, 100, 1), row(100, 3, 1)] {
            let refused = a.update(&table, &key(&table, 100)?, Seen::Snapshot, &taken);
            assert!(refused.is_err_and(|error| error.kind() == ErrorKind::UniqueViolation), "{taken:?}");
            assert!(matches!(b.insert(&table, &row(100, 300, 0))?, Attempt::Wait(_)));
            assert!(matches!(b.insert(&table, &row(300, 100, 0))?, Attempt::Wait(_)));
        }
        a.rollback()?;
        b.insert(&table, &row(100, 100, 0))?.done()?;
        b.rollback()?;
        assert_eq!(db.verify()?, [""; 0]);
    }
    Ok(())
}
