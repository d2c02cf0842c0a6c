//! What must hold of rows that are deleted several at a time.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open, small_log};
use crate::support::{Rows, commit, compare, create, delete, insert, key_of, note, rows, rows_of, table, update};

const ROWS: i64 = 600;

/// A few rows are as long as rows get, most are short.
fn content(id: i64) -> String {
    note(id, if id % 50 == 7 { 1400 } else { 20 + id as usize % 50 })
}

fn filled(db: &Database) -> Result<Rows> {
    create(db)?;
    commit(db, |tx| (0..ROWS).try_for_each(|id| insert(tx, id, &content(id))))?;
    Ok((0..ROWS).map(|id| (id, content(id))).collect())
}

/// Deletes rows in one statement; how many are deleted, and what became of the one behind them.
fn delete_many(tx: &Transaction, ids: &[i64]) -> Result<(usize, Attempt<Change>)> {
    let table = table(tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    let keys: Vec<Vec<u8>> = ids.iter().map(|id| key_of(&table, *id)).collect::<Result<_>>()?;
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut done = 0;
    let outcome = tx.delete_many(&table, &keys, Seen::Snapshot, &mut done)?;
    Ok((done, outcome))
}

fn delete_all(tx: &Transaction, ids: &[i64]) -> Result<()> {
    let (done, outcome) = delete_many(tx, ids)?;
    assert_eq!((done, outcome.done()?), (ids.len(), Change::Done));
    Ok(())
}

/// Which rows go: every other one of the first half, and all from there on but for some.
fn going() -> Vec<i64> {
    (0..ROWS).filter(|id| if *id < ROWS / 2 { id % 2 == 0 } else { id % 9 != 0 }).collect()
}

fn without(all: &Rows, ids: &[i64]) -> Rows {
    all.iter().filter(|(id, _)| !ids.contains(id)).map(|(id, note)| (*id, note.clone())).collect()
}

pub fn who_looks_sees_them_or_not_as_of_his_time() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, is_traditional())?;
    let all = filled(&db)?;
    let left = without(&all, &going());

    let old = db.begin(Isolation::RepeatableRead);
    compare(&rows_of(&old)?, &all, "before");
    // Rows that it does not see, also once they are gone.
    let later: Vec<i64> = (ROWS..ROWS + 40).collect();
    commit(&db, |tx| later.iter().try_for_each(|id| insert(tx, *id, "later")))?;
    commit(&db, |tx| delete_all(tx, &later))?;
    compare(&rows_of(&old)?, &all, "before rows that came and went");
    let tx = db.begin(Isolation::ReadCommitted);
    delete_all(&tx, &going())?;
    compare(&rows_of(&tx)?, &left, "its own");
    compare(&rows(&db)?, &all, "another's");
    tx.rollback()?;
    compare(&rows(&db)?, &all, "after a rollback");

    let tx = db.begin(Isolation::ReadCommitted);
    let savepoint = tx.savepoint()?;
    delete_all(&tx, &[3, 4, 5, 6])?;
    tx.rollback_to(savepoint)?;
    compare(&rows_of(&tx)?, &all, "after going back");
    delete_all(&tx, &going())?;
    tx.commit(Durability::Sync)?.wait()?;
    compare(&rows(&db)?, &left, "after the commit");
    compare(&rows_of(&old)?, &all, "of an older snapshot");
    drop(old);
    // And they can come again.
    commit(&db, |tx| going().iter().try_for_each(|id| insert(tx, *id, &content(*id))))?;
    compare(&rows(&db)?, &all, "put in again");
    let in_runs = db.stats().rows_deleted_in_runs;
    match is_traditional() {
        true => assert_eq!(in_runs, 0, "undo through the log is row by row"),
        false => assert!(in_runs > going().len() as u64, "{in_runs} rows in runs"),
    }
    db.clean()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

pub fn a_run_is_one_record() -> Result<()> {
    if is_traditional() {
        return Ok(());
    }
    let records = |runs: bool| -> Result<u64> {
        let vfs = SimVfs::new(2);
        let db = open(&vfs, false)?;
        create(&db)?;
        commit(&db, |tx| (0..400).try_for_each(|id| insert(tx, id, "short")))?;
        db.clean()?;
        let before = db.stats().log.records;
        let ids: Vec<i64> = (0..400).collect();
        commit(
            &db,
            |tx| if runs { delete_all(tx, &ids) } else { ids.iter().try_for_each(|id| delete(tx, *id).map(drop)) },
        )?;
        Ok(db.stats().log.records - before)
    };
    let (one, many) = (records(false)?, records(true)?);
    assert!(one >= 400 && many < 40, "{one} records one by one, {many} in runs");
    Ok(())
}

/// One row of a leaf is deleted as by itself, and not counted.
pub fn rows_far_apart_are_no_run() -> Result<()> {
    let vfs = SimVfs::new(7);
    let db = open(&vfs, is_traditional())?;
    let all = filled(&db)?;
    let apart: Vec<i64> = (0..ROWS).step_by(150).collect();
    commit(&db, |tx| delete_all(tx, &apart))?;
    compare(&rows(&db)?, &without(&all, &apart), "far apart");
    assert_eq!(db.stats().rows_deleted_in_runs, 0);
    let together = [10, 11, 12];
    commit(&db, |tx| delete_all(tx, &together))?;
    assert_eq!(db.stats().rows_deleted_in_runs, if is_traditional() { 0 } else { 3 });
    Ok(())
}

pub fn what_is_in_the_way_ends_it_there() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs, is_traditional())?;
    let all = filled(&db)?;
    let ids: Vec<i64> = (100..140).collect();

    // Somebody holds a row.
    let holder = db.begin(Isolation::ReadCommitted);
    assert_eq!(update(&holder, 120, "held")?, Change::Done);
    let tx = db.begin(Isolation::ReadCommitted);
    let (done, outcome) = delete_many(&tx, &ids)?;
    assert_eq!(done, 20);
    let Attempt::Wait(wait) = outcome else { panic!("it did not wait") };
    assert_eq!(Some(wait.holder()), holder.id());
    drop(wait);
    compare(&rows_of(&tx)?, &without(&all, &ids[..20]), "so far");
    holder.rollback()?;
    delete_all(&tx, &ids[20..])?;
    tx.rollback()?;
    compare(&rows(&db)?, &all, "after a rollback");

    // Somebody is putting a row in.
    let holder = db.begin(Isolation::ReadCommitted);
    insert(&holder, ROWS + 2, "held")?;
    commit(&db, |other| (ROWS..ROWS + 2).try_for_each(|id| insert(other, id, "there")))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let (done, outcome) = delete_many(&tx, &[ROWS, ROWS + 1, ROWS + 2])?;
    assert!(done == 2 && matches!(outcome, Attempt::Wait(_)), "{done} were deleted");
    drop(outcome);
    holder.rollback()?;
    tx.rollback()?;

    // It was put in after the statement began.
    let tx = db.begin(Isolation::ReadCommitted);
    let of = table(&tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    commit(&db, |other| insert(other, ROWS + 2, "new"))?;
    let keys: Vec<Vec<u8>> = (ROWS..ROWS + 3).map(|id| key_of(&of, id)).collect::<Result<_>>()?;
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut done = 0;
    assert_eq!(tx.delete_many(&of, &keys, Seen::Snapshot, &mut done)?.done()?, Change::Changed);
    assert_eq!(done, 2);
    tx.rollback()?;

    // It was changed, or is gone, by the time it is looked at.
    for (gone, expected) in [(false, Change::Changed), (true, Change::Gone)] {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = table(&tx)?;
        tx.statement(StatementKind::BulkWrite)?;
        commit(&db, |other| match gone {
            true => delete(other, 130).map(drop),
            false => update(other, 130, "changed").map(drop),
        })?;
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key_of(&table, *id)).collect::<Result<_>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        let outcome = tx.delete_many(&table, &keys, Seen::Snapshot, &mut done)?.done()?;
        assert_eq!((done, outcome), (30, expected));
        tx.rollback()?;
    }
    // And in REPEATABLE READ that is an error.
    let tx = db.begin(Isolation::RepeatableRead);
    rows_of(&tx)?;
    commit(&db, |other| update(other, 110, "changed").map(drop))?;
    match delete_many(&tx, &ids) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::SerializationFailure),
        Ok((done, _)) => panic!("{done} were deleted"),
    }
    Ok(())
}

pub fn versions_that_older_snapshots_need_stay_below_it() -> Result<()> {
    over_versions(small_log(is_traditional()), false)
}

/// Also what was rolled back lies there, until somebody comes by.
pub fn so_they_do_where_what_lies_over_them_is_aborted() -> Result<()> {
    over_versions(Options { short_rollback_operations: 0, ..small_log(is_traditional()) }, true)
}

/// What becomes of the transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
    Crash,
}

/// Rows with none, one and two versions before their newest, of which each is somebody's, are deleted in one statement.
fn over_versions(options: Options, aborted: bool) -> Result<()> {
    for end in [End::Commit, End::Rollback, End::Crash] {
        let vfs = SimVfs::new(8);
        let db = crate::common::open::open_as(&vfs, options.clone())?;
        let all = filled(&db)?;
        db.clean()?;
        let change = |ids: std::ops::Range<i64>, rows: &Rows, text: &str| -> Result<Rows> {
            let mut rows = rows.clone();
            commit(&db, |tx| {
                for id in ids {
                    let note = format!("{text} of {id}");
                    assert_eq!(update(tx, id, &note)?, Change::Done);
                    rows.insert(id, note);
                }
                Ok(())
            })?;
            Ok(rows)
        };
        let snapshot = |expected: &Rows| -> Result<Transaction> {
            let tx = db.begin(Isolation::RepeatableRead);
            compare(&rows_of(&tx)?, expected, "at first");
            Ok(tx)
        };
        let old = snapshot(&all)?;
        let first = change(10..20, &all, "first")?;
        let mid = snapshot(&first)?;
        let second = change(10..15, &first, "second")?;
        let young = snapshot(&second)?;
        if aborted {
            let tx = db.begin(Isolation::ReadCommitted);
            for id in 10..15 {
                assert_eq!(update(&tx, id, "aborted")?, Change::Done);
            }
            tx.rollback()?;
        }

        let reopened = |expected: &Rows, what: &str| -> Result<()> {
            let db = crate::common::open::open_recovered(&vfs.crash(), options.clone())?;
            compare(&rows(&db)?, expected, what);
            db.clean()?;
            compare(&rows(&db)?, expected, &format!("{what}, cleaned"));
            assert_eq!(db.verify()?, Vec::<String>::new());
            Ok(())
        };
        let ids: Vec<i64> = (5..25).collect();
        let left = without(&second, &ids);
        let tx = db.begin(Isolation::ReadCommitted);
        delete_all(&tx, &ids)?;
        if !is_traditional() {
            let in_runs = db.stats().rows_deleted_in_runs;
            assert!(in_runs >= 10, "{in_runs} rows in runs");
        }
        let look = |newest: &Rows, what: &str| -> Result<()> {
            for (tx, then, whose) in [(&old, &all, "old"), (&mid, &first, "mid"), (&young, &second, "young")] {
                compare(&rows_of(tx)?, then, &format!("{what}, the {whose} one"));
            }
            compare(&rows(&db)?, newest, &format!("{what}, the newest"));
            Ok(())
        };
        compare(&rows_of(&tx)?, &left, "its own");
        look(&second, "while they are deleted")?;
        let newest = if end == End::Commit { &left } else { &second };
        match end {
            End::Commit => tx.commit(Durability::Sync)?.wait()?,
            End::Rollback => tx.rollback()?,
            End::Crash => {
                db.clean()?;
                look(newest, "cleaned beside it")?;
                db.sync_log()?;
                reopened(newest, "after a crash in it")?;
                continue;
            }
        }
        look(newest, "afterwards")?;
        db.clean()?;
        look(newest, "cleaned")?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        // Nobody needs them any more.
        [&old, &mid, &young].into_iter().try_for_each(Transaction::rollback)?;
        db.clean()?;
        compare(&rows(&db)?, newest, "cleaned, without snapshots");
        assert_eq!(db.verify()?, Vec::<String>::new());
        reopened(newest, "after a crash")?;
    }
    Ok(())
}

pub fn of_its_own_rows_and_of_none() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, is_traditional())?;
    let all = filled(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    (ROWS..ROWS + 20).try_for_each(|id| insert(&tx, id, "new"))?;
    assert_eq!(update(&tx, 599, "changed")?, Change::Done);
    let ids: Vec<i64> = (590..ROWS + 20).collect();
    delete_all(&tx, &ids)?;
    // One statement deletes a row once.
    let table = table(&tx)?;
    let key = key_of(&table, 580)?;
    tx.statement(StatementKind::BulkWrite)?;
    let twice = [key.as_slice(), key.as_slice()];
    let mut done = 0;
    assert_eq!(tx.delete_many(&table, &twice, Seen::Snapshot, &mut done)?.done()?, Change::SelfModified);
    assert_eq!((done, tx.delete_many(&table, &[], Seen::Snapshot, &mut 0)?.done()?), (1, Change::Done));
    tx.commit(Durability::Sync)?.wait()?;
    compare(&rows(&db)?, &without(&all, &(590..600).chain([580]).collect::<Vec<_>>()), "after");
    db.clean()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

pub fn a_crash_takes_back_what_was_not_committed() -> Result<()> {
    for committed in [false, true] {
        let vfs = SimVfs::new(5);
        let options = || small_log(is_traditional());
        let db = crate::common::open::open_as(&vfs, options())?;
        let all = filled(&db)?;
        db.checkpoint()?;
        let tx = db.begin(Isolation::ReadCommitted);
        delete_all(&tx, &going())?;
        let expected = if committed { without(&all, &going()) } else { all.clone() };
        if committed {
            tx.commit(Durability::Sync)?.wait()?;
        } else {
            db.sync_log()?;
        }
        let vfs = vfs.crash();
        let db = crate::common::open::open_recovered(&vfs, options())?;
        compare(&rows(&db)?, &expected, "after a crash");
        db.clean()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        // What the crash took back can be done again.
        if !committed {
            commit(&db, |tx| delete_all(tx, &going()))?;
            compare(&rows(&db)?, &without(&all, &going()), "once more");
        }
    }
    Ok(())
}

/// A short transaction takes back row by row what it deleted: nothing of it is known afterwards.
pub fn a_short_one_takes_back_all_of_it() -> Result<()> {
    let vfs = SimVfs::new(6);
    let options = || small_log(is_traditional());
    let db = crate::common::open::open_as(&vfs, options())?;
    let all = filled(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    delete_all(&tx, &(200..230).collect::<Vec<_>>())?;
    tx.rollback()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0);
    db.shorten_log()?;
    let db = crate::common::open::open_recovered(&vfs.crash(), options())?;
    compare(&rows(&db)?, &all, "after a rollback and a restart");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
