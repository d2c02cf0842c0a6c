//! Rows of aborted transactions that move while a sweep runs. A transaction may be forgotten
//! only when every page with versions of its was visited: afterwards its id counts as
//! committed.
//!
//! The aborted versions here are short and hide long committed ones, so a full page cannot
//! revert them in place: whoever needs room there splits the page with the versions on it.

use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};
use std::path::Path;
use std::sync::Arc;

use crate::support::*;

/// Committed rows with gaps between their ids, about ten a page.
fn filled(vfs: &Watched, ids: i64) -> Result<(Database, Rows)> {
    let db = open_as(vfs, options())?;
    create(&db)?;
    let expected: Rows = (0..ids).map(|id| (id * 1000, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.clean()?;
    Ok((db, expected))
}

fn reopened(db: Database, vfs: &Watched) -> Result<Database> {
    db.close()?;
    drop(db);
    open_as(vfs, options())
}

/// After a power loss only the log and the pages know what was forgotten.
fn reopened_and_compared(db: Database, vfs: &Watched, mut expected: Rows) -> Result<()> {
    compare(&rows(&db)?, &expected, "after the sweep");
    commit(&db, |tx| insert(tx, -1, "makes the log durable"))?;
    expected.insert(-1, "makes the log durable".into());
    let sim = vfs.sim.crash();
    drop(db);
    let db = open(&sim)?;
    compare(&rows(&db)?, &expected, "after the sweep and a power loss");
    verify(&db, "after the sweep and a power loss")
}

/// A writer splits a page between the moment in which the sweep listed the marked pages and
/// the moment in which it comes to that page.
#[test]
fn a_split_by_a_writer_during_the_sweep() -> Result<()> {
    let vfs = Watched::new(SimVfs::new(1));
    let (db, mut expected) = filled(&vfs, 400)?;
    let tx = db.begin(Isolation::ReadCommitted);
    // One on an early page, so that the sweep stops there first, and all of a page far behind.
    for id in [3_000].into_iter().chain((300..312).map(|id| id * 1000)) {
        assert_eq!(update(&tx, id, "aborted")?, Change::Done);
    }
    tx.rollback()?;
    let db = reopened(db, &vfs)?;
    // Which page is the early one: the last that reading another row of it reads.
    let read = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let reads = Arc::clone(&read);
    vfs.on_read(Box::new(move |page| {
        reads.lock().push(page);
        false
    }));
    note_of(&db, 2_000)?;
    vfs.on_read(Box::new(|_| true));
    let early = *read.lock().last().expect("the row was read from the file");
    let db = reopened(db, &vfs)?;

    // Rows between the aborted ones fill their page, which then splits in its middle. They
    // are shorter than what reverting one takes.
    let added: Rows = (0..40).map(|i| (300_001 + i % 11 * 1000 + i, note(-i, 400))).collect();
    let (writer, rows_to_add) = (db.clone(), added.clone());
    let split = Arc::new(parking_lot::Mutex::new(None));
    let outcome = Arc::clone(&split);
    vfs.on_read(Box::new(move |page| {
        if page != early {
            return false;
        }
        let before = writer.stats().pool.pages_allocated;
        let done = commit(&writer, |tx| rows_to_add.iter().try_for_each(|(id, note)| insert(tx, *id, note)));
        *outcome.lock() = Some(done.map(|()| writer.stats().pool.pages_allocated - before));
        true
    }));
    let report = db.clean()?;
    vfs.on_read(Box::new(|_| true)); // lets go of its database
    let split = split.lock().take().expect("the writer came in the middle of the sweep")?;
    assert!(split > 0, "the writer split a page");
    assert_eq!(report.forgotten, 1, "the sweep forgot the transaction: {report:?}");
    expected.extend(added);
    reopened_and_compared(db, &vfs, expected)
}

/// The sweep itself splits a page that has no room for what it reverts.
#[test]
fn a_split_by_the_sweep() -> Result<()> {
    let vfs = Watched::new(SimVfs::new(2));
    let db = open_as(&vfs, options())?;
    create(&db)?;
    let mut expected: Rows = (0..7).map(|id| (id * 1000, note(id, 950))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.clean()?;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..7 {
        assert_eq!(update(&tx, id * 1000, "aborted")?, Change::Done);
    }
    // Others take the room, all over the page, before it is clear that it will be needed.
    let others: Rows = (0..17).map(|i| (i % 6 * 1000 + 1 + i, note(i, 400))).collect();
    let before = db.stats().pool.pages_allocated;
    commit(&db, |tx| others.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    assert_eq!(db.stats().pool.pages_allocated, before, "all on one page");
    expected.extend(others);
    tx.rollback()?;
    let report = db.clean()?;
    assert!(db.stats().pool.pages_allocated > before, "the sweep split a page: {report:?}");
    assert_eq!((report.forgotten, report.reverted), (1, 7), "{report:?}");
    reopened_and_compared(db, &vfs, expected)
}

/// The sweep leaves one row on a page and merges it with its right neighbour, which it has not
/// visited.
#[test]
fn a_merge_by_the_sweep() -> Result<()> {
    let vfs = Watched::new(SimVfs::new(3));
    let db = open_as(&vfs, options())?;
    create(&db)?;
    let mut expected: Rows = (1000..1003).map(|id| (id, note(id, 700))).collect();
    // On the first page, which has no left neighbour; an empty one would not be merged.
    expected.insert(-5, note(-5, 100));
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.clean()?;
    let tx = db.begin(Isolation::ReadCommitted);
    // Downwards: pages are split in their middle, and stay half full.
    for id in (0..60).rev() {
        insert(&tx, id, &note(id, 700))?;
    }
    assert_eq!(update(&tx, 1001, "aborted")?, Change::Done);
    tx.rollback()?;
    let report = db.clean()?;
    assert!(report.merged > 0, "{report:?}");
    assert_eq!(report.forgotten, 1, "{report:?}");
    reopened_and_compared(db, &vfs, expected)
}

/// A page that cannot be read may hold versions of anyone: nobody is forgotten.
#[test]
fn a_page_that_the_sweep_cannot_read() -> Result<()> {
    let vfs = Watched::new(SimVfs::new(4));
    let (db, mut expected) = filled(&vfs, 100)?;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in [3_000, 90_000] {
        assert_eq!(update(&tx, id, "aborted")?, Change::Done);
    }
    tx.rollback()?;
    let db = reopened(db, &vfs)?;
    let read = Arc::new(parking_lot::Mutex::new(0));
    let last = Arc::clone(&read);
    vfs.on_read(Box::new(move |page| {
        *last.lock() = page;
        false
    }));
    note_of(&db, 90_000)?;
    vfs.on_read(Box::new(|_| true));
    let page = *read.lock();
    let db = reopened(db, &vfs)?;
    vfs.sim.flip_bit(&Path::new(DIR).join("data"), page * 8192 * 8 + 40_000)?;
    let report = db.clean()?;
    assert!(report.pages_skipped > 0 && report.forgotten == 0, "{report:?}");
    // The page is mended (by a backup, say); the versions on it are still known as aborted.
    drop(db);
    vfs.sim.flip_bit(&Path::new(DIR).join("data"), page * 8192 * 8 + 40_000)?;
    // Nothing was ever wrong with the file's length.
    assert!(vfs.sim.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly)?.len()? > 0);
    let db = open_as(&vfs, options())?;
    assert_eq!(note_of(&db, 90_000)?, expected.get(&90_000).cloned());
    assert_eq!(db.clean()?.forgotten, 1);
    commit(&db, |tx| insert(tx, 1, "one"))?;
    expected.insert(1, "one".into());
    reopened_and_compared(db, &vfs, expected)
}
