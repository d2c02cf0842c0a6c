//! The disk is full: whoever needs space gets an error that says so, and nothing else
//! happens. Others go on as far as they need none, nothing that was committed is lost, and
//! with space found all goes on without a restart.

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};
use std::path::Path;

use crate::support::*;

fn used(vfs: &SimVfs) -> Result<u64> {
    let mut total = 0;
    for dir in [DIR.to_owned(), format!("{DIR}/log")] {
        for name in vfs.list(Path::new(&dir))? {
            let path = format!("{dir}/{name}");
            if let Ok(file) = vfs.open(Path::new(&path), OpenMode::ReadOnly) {
                total += file.len()?;
            }
        }
    }
    Ok(total)
}

/// From now on no file may grow.
fn fill(vfs: &SimVfs) -> Result<()> {
    vfs.set_faults(FaultPlan { capacity_bytes: Some(used(vfs)?), ..FaultPlan::default() });
    Ok(())
}

fn free(vfs: &SimVfs) {
    vfs.set_faults(FaultPlan::default());
}

fn is_full<T>(outcome: Result<T>, names: &str) {
    match outcome {
        Ok(_) => panic!("it went through"),
        Err(error) => {
            assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::DiskFull, "53100"), "{error}");
            assert!(error.to_string().contains(names), "{error}");
        }
    }
}

/// Inserts until there is no room; what it inserted is in `tx`.
fn insert_until_full(tx: &Transaction, from: i64, len: usize) -> (i64, Error) {
    for id in from..from + 100_000 {
        if let Err(error) = insert(tx, id, &note(id, len)) {
            return (id - from, error);
        }
    }
    panic!("the disk is never full")
}

fn filled(vfs: &SimVfs, options: Options) -> Result<(Database, Rows)> {
    let db = open_as(vfs, options)?;
    create(&db)?;
    let expected: Rows = (0..200).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    // What is free is known from the start.
    db.finish_recovery()?;
    Ok((db, expected))
}

/// A note that differs little, so that the one before it stays in the row.
fn like(note: &str) -> String {
    format!("changed{}", &note[7..])
}

/// The data file cannot grow; the log has room.
#[test]
fn no_room_for_pages() -> Result<()> {
    let vfs = SimVfs::new(1);
    let large_log = Options { log_segment_bytes: 64 << 20, buffer_bytes: 32 << 20, ..options() };
    let (db, mut expected) = filled(&vfs, large_log.clone())?;
    let reader = db.begin(Isolation::RepeatableRead);
    let before = rows_of(&reader)?;
    fill(&vfs)?;
    let writer = db.begin(Isolation::ReadCommitted);
    let (done, error) = insert_until_full(&writer, 1000, 700);
    is_full::<()>(Err(error), "data");
    assert!(done > 100, "it used up what the file had: {done}");
    // The one that failed goes on with what needs no space, and may commit the rest.
    assert_eq!(update(&writer, 1000, "in place")?, Change::Done);
    assert_eq!(rows_of(&writer)?.len(), 200 + done as usize);
    // So do others.
    let other = like(&expected[&5]);
    commit(&db, |tx| update(tx, 5, &other).map(|_| ()))?;
    expected.insert(5, other);
    compare(&rows(&db)?, &expected, "beside the failed writer");
    compare(&rows_of(&reader)?, &before, "the old snapshot");
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    db.clean()?;
    // Its rollback takes nothing; the cleaner then gives its pages to others.
    writer.rollback()?;
    reader.rollback()?;
    db.clean()?;
    let again = db.begin(Isolation::ReadCommitted);
    for id in 2000..2000 + done / 2 {
        insert(&again, id, &note(id, 700))?;
        expected.insert(id, note(id, 700));
    }
    again.commit(Durability::Sync)?.wait()?;
    compare(&rows(&db)?, &expected, "in the space of what was rolled back");
    // A crash and a restart, still without space.
    let crashed = vfs.crash();
    drop(db);
    fill(&crashed)?;
    let db = open_as(&crashed, large_log)?;
    compare(&rows(&db)?, &expected, "after a restart on the full disk");
    verify(&db, "after a restart on the full disk")?;
    free(&crashed);
    commit(&db, |tx| (100_000..101_500).try_for_each(|id| insert(tx, id, &note(id, 700))))?;
    expected.extend((100_000..101_500).map(|id| (id, note(id, 700))));
    compare(&rows(&db)?, &expected, "with space");
    verify(&db, "with space")
}

/// The version store cannot grow: long old versions of a held snapshot.
#[test]
fn no_room_for_versions() -> Result<()> {
    let vfs = SimVfs::new(2);
    let large_log = Options { log_segment_bytes: 64 << 20, buffer_bytes: 32 << 20, ..options() };
    let (db, mut expected) = filled(&vfs, large_log)?;
    let reader = db.begin(Isolation::RepeatableRead);
    let before = rows_of(&reader)?;
    fill(&vfs)?;
    let mut rounds = 0;
    let error = 'full: loop {
        rounds += 1;
        for id in 0..200 {
            let text = note(id + rounds * 1000, 700);
            match commit(&db, |tx| update(tx, id, &text).map(|_| ())) {
                Ok(()) => expected.insert(id, text),
                Err(error) => break 'full error,
            };
        }
        assert!(rounds < 1000, "the version store is never full");
    };
    is_full::<()>(Err(error), "data");
    compare(&rows_of(&reader)?, &before, "the old snapshot loses nothing");
    compare(&rows(&db)?, &expected, "what was committed before");
    // What holds the versions ends: without any space from outside, writers go on.
    reader.rollback()?;
    for turn in 0..4 {
        db.clean()?;
        assert_eq!(db.stats().transactions.aborted_in_map, 0, "turn {turn}");
        let ticket = db.begin(Isolation::ReadCommitted);
        ticket.commit(Durability::Sync)?.wait()?;
    }
    commit(&db, |tx| (0..200).try_for_each(|id| update(tx, id, &note(-id, 700)).map(|_| ())))?;
    expected.extend((0..200).map(|id| (id, note(-id, 700))));
    compare(&rows(&db)?, &expected, "after the snapshot's end");
    verify(&db, "after the snapshot's end")
}

/// The log cannot grow: no transaction can write or commit, all can read, and rolling back
/// works. With space everything goes on.
#[test]
fn no_room_for_the_log() -> Result<()> {
    let vfs = SimVfs::new(3);
    let (db, mut expected) = filled(&vfs, Options { buffer_bytes: 4 << 20, ..options() })?;
    while db.write_back()? > 0 {}
    let (committer, roller) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert_eq!(update(&committer, 7, "of the committer")?, Change::Done);
    assert_eq!(update(&roller, 8, "of the roller")?, Change::Done);
    fill(&vfs)?;
    let writer = db.begin(Isolation::ReadCommitted);
    let mut turn = 0;
    let error = loop {
        turn += 1;
        if let Err(error) = update(&writer, 9, &note(turn, 700)) {
            break error;
        }
        assert!(turn < 100_000, "the log is never full");
    };
    is_full::<()>(Err(error), ".log");
    // Fill the rest of the segment with ever smaller records.
    for id in 100..200 {
        let _ = delete(&writer, id);
    }
    let expect_readers = |db: &Database, expected: &Rows, when: &str| -> Result<()> {
        compare(&rows(db)?, expected, when);
        Ok(())
    };
    expect_readers(&db, &expected, "while the log is full")?;
    is_full(db.checkpoint(), ".log");
    // No page can be cleaned, and it is not the pages' fault.
    is_full(db.clean(), ".log");
    expect_readers(&db, &expected, "after a checkpoint that failed")?;
    // A commit that does not fit is a rollback; others need not wait for it.
    is_full(committer.commit(Durability::Sync).and_then(CommitTicket::wait), ".log");
    assert_eq!(note_of(&db, 7)?, expected.get(&7).cloned());
    // A rollback needs no log to be one.
    roller.rollback()?;
    writer.rollback()?;
    expect_readers(&db, &expected, "after the rollbacks")?;
    let late = db.begin(Isolation::ReadCommitted);
    is_full(update(&late, 8, "late"), ".log");
    drop(late);
    // Power loss now: nothing of it counts.
    let crashed = vfs.crash_clone(5);
    let other = open(&crashed)?;
    compare(&rows(&other)?, &expected, "after a power loss with the log full");
    verify(&other, "after a power loss with the log full")?;
    drop(other);
    // Space is found.
    free(&vfs);
    for id in [7, 8, 9, 150] {
        commit(&db, |tx| update(tx, id, "at last").map(|_| ()))?;
        expected.insert(id, "at last".into());
    }
    db.checkpoint()?;
    db.clean()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0);
    compare(&rows(&db)?, &expected, "with space");
    let crashed = vfs.crash();
    drop(db);
    let db = open(&crashed)?;
    compare(&rows(&db)?, &expected, "with space, after a power loss");
    verify(&db, "with space, after a power loss")
}

/// Memory full of dirty pages and no space at all: readers get their pages all the same,
/// since writing pages back needs none.
#[test]
fn no_room_for_double_writes() -> Result<()> {
    let vfs = SimVfs::new(4);
    let large = Options { log_segment_bytes: 64 << 20, ..options() };
    let db = open_as(&vfs, large.clone())?;
    create(&db)?;
    let mut expected: Rows = (0..60).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.close()?;
    drop(db);
    let db = open_as(&vfs, large)?;
    fill(&vfs)?;
    let mut id = 60;
    let error = loop {
        let text = note(id, 700);
        match commit(&db, |tx| insert(tx, id, &text)) {
            Ok(()) => expected.insert(id, text),
            Err(error) => break error,
        };
        id += 1;
    };
    is_full::<()>(Err(error), "");
    // Memory holds 64 pages, of about ten rows.
    assert!(id > 2000, "pages were written back though the disk is full: {id} rows");
    compare(&rows(&db)?, &expected, "on the full disk");
    Ok(())
}

/// A page that the sweep must split, and no room for another one. The rest is cleaned, what is to be
/// freed is freed, and the page gets what that leaves.
#[test]
fn no_room_for_the_sweep() -> Result<()> {
    let vfs = SimVfs::new(6);
    let large_log = Options { log_segment_bytes: 64 << 20, buffer_bytes: 32 << 20, ..options() };
    let db = open_as(&vfs, large_log.clone())?;
    create(&db)?;
    let mut expected: Rows = (0..7).map(|id| (id * 1000, note(id, 950))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    let big = TableSpec::new("public", "big").column("id", ColumnType::Int8).column("note", ColumnType::Text);
    commit(&db, |tx| {
        let big = tx.create_table(big.clone())?.done()?;
        (0..500).try_for_each(|id| tx.insert(&big, &[DatumRef::Int8(id), DatumRef::Text(&note(id, 700))])?.done())
    })?;
    db.finish_recovery()?;
    db.clean()?;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..7 {
        assert_eq!(update(&tx, id * 1000, "aborted")?, Change::Done);
    }
    // Others take the room, all over the page.
    let others: Rows = (0..17).map(|i| (i % 6 * 1000 + 1 + i, note(i, 400))).collect();
    commit(&db, |tx| others.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    expected.extend(others);
    // And behind it, up to the end of the file.
    fill(&vfs)?;
    let writer = db.begin(Isolation::ReadCommitted);
    let (done, error) = insert_until_full(&writer, 1_000_000, 700);
    is_full::<()>(Err(error), "data");
    expected.extend((1_000_000..1_000_000 + done).map(|id| (id, note(id, 700))));
    writer.commit(Durability::Sync)?.wait()?;
    tx.rollback()?;
    for turn in 0..3 {
        let report = db.clean()?;
        let no_room = report.skipped.no_room;
        assert!(no_room.count == 1 && no_room.example.is_some(), "turn {turn}: {report:?}");
        assert_eq!((report.pages_skipped, report.forgotten), (1, 0), "turn {turn}: {report:?}");
        assert!(db.aborted_count() > 0, "turn {turn}");
        compare(&rows(&db)?, &expected, "with a page that is not cleaned");
    }
    // Somebody makes room, in the only way there is.
    commit(&db, |tx| {
        let big = tx.table("public", "big")?.ok_or_else(|| Error::internal("the table is gone"))?;
        tx.drop_table(&big)?.done()
    })?;
    let report = db.clean()?;
    assert_eq!((report.skipped.total(), report.reverted), (0, 7), "{report:?}");
    assert!(report.pending_frees_done > 0 && report.forgotten > 0, "{report:?}");
    assert_eq!((db.pending_frees_len()?, db.aborted_count()), (0, 0));
    compare(&rows(&db)?, &expected, "cleaned");
    let crashed = vfs.crash();
    drop(db);
    let db = open_as(&crashed, large_log)?;
    compare(&rows(&db)?, &expected, "after a restart");
    verify(&db, "after a restart")
}
