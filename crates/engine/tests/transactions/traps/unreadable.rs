//! A page that the device cannot read. Whoever touches it gets the error; the rest goes on: recovery
//! comes to its end, the cleaner cleans what it can, and nothing is forgotten or let go that the page may
//! need once it can be read again.

use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::SimVfs;
use std::sync::Arc;

use crate::support::*;

/// The leaf of a row, by what is read to get at it.
fn leaf_of(vfs: &Watched, id: i64) -> Result<u64> {
    let db = open_as(vfs, options())?;
    let read = Arc::new(parking_lot::Mutex::new(0));
    let last = Arc::clone(&read);
    vfs.on_read(Box::new(move |page| {
        *last.lock() = page;
        false
    }));
    note_of(&db, id)?;
    vfs.on_read(Box::new(|_| true)); // lets go of it
    let page = *read.lock();
    note_of(&db, id)?;
    db.close()?;
    Ok(page)
}

/// Power was lost with aborted rows on several pages, one of which cannot be read now.
fn crashed(seed: u64) -> Result<(Watched, Rows, u64)> {
    let vfs = Watched::new(SimVfs::new(seed));
    let db = open_as(&vfs, options())?;
    create(&db)?;
    let mut expected: Rows = (0..100).map(|id| (id * 1000, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.clean()?;
    db.close()?;
    drop(db);
    let page = leaf_of(&vfs, 50_000)?;
    let db = open_as(&vfs, options())?;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in [3_000, 50_000, 90_000] {
        assert_eq!(update(&tx, id, "aborted")?, Change::Done);
    }
    commit(&db, |tx| insert(tx, 1, "makes the log durable"))?;
    expected.insert(1, "makes the log durable".into());
    let vfs = Watched::new(vfs.sim.crash());
    std::mem::forget(tx);
    vfs.unreadable(Some(page));
    Ok((vfs, expected, page))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn passed_over(report: &SweepReport, page: u64) {
    let skipped = report.skipped.unreadable;
    assert_eq!((skipped.count, skipped.example, report.pages_skipped), (1, Some(PageId(page)), 1), "{report:?}");
    assert_eq!(report.forgotten, 0, "{report:?}");
}

/// It can be read again; now everything is as it should be.
fn mended(db: &Database, vfs: &Watched, mut expected: Rows) -> Result<()> {
    assert_eq!(note_of(db, 50_000).err().map(|error| error.kind()), Some(ErrorKind::Io));
    assert_eq!(note_of(db, 90_000)?, expected.get(&90_000).cloned());
    commit(db, |tx| insert(tx, 2, "others go on"))?;
    expected.insert(2, "others go on".into());
    db.checkpoint()?;
    assert_eq!(db.damaged_pages(), 1);
    vfs.unreadable(None);
    db.finish_recovery()?;
    assert_eq!((db.damaged_pages(), db.stats().pages_awaiting_redo), (0, 0));
    compare(&rows(db)?, &expected, "readable again");
    let report = db.clean()?;
    assert!(report.skipped.total() == 0 && db.aborted_count() == 0, "{report:?}");
    compare(&rows(db)?, &expected, "cleaned");
    verify(db, "cleaned")
}

#[test]
fn after_a_crash() -> Result<()> {
    let (vfs, expected, page) = crashed(1)?;
    let db = open_as(&vfs, options())?;
    db.finish_recovery()?;
    assert_eq!((db.damaged_pages(), db.cleaner_status().waits_for_redo), (1, false));
    let report = db.clean()?;
    passed_over(&report, page);
    assert_eq!(report.reverted, 2, "the rest is cleaned: {report:?}");
    passed_over(&db.clean()?, page);
    mended(&db, &vfs, expected)
}

/// The same with the background threads: recovery ends, and the cleaner begins.
#[test]
fn after_a_crash_in_the_background() -> Result<()> {
    let (vfs, expected, page) = crashed(2)?;
    let background = Options { background: true, cleaner_interval_s: 0.05, ..options() };
    let db = open_as(&vfs, background)?;
    until("the cleaner has swept", || db.last_sweep().is_some());
    let (report, _) = db.last_sweep().ok_or_else(|| Error::internal("no sweep"))?;
    passed_over(&report, page);
    assert!(!db.cleaner_status().waits_for_redo);
    until("what is free is known", || db.stats().redo_time.is_some());
    // No background thread beside the proof.
    let crashed = Watched::new(vfs.sim.crash());
    drop(db);
    crashed.unreadable(Some(page));
    let db = open_as(&crashed, options())?;
    db.finish_recovery()?;
    mended(&db, &crashed, expected)
}

/// Those who began after the page was found unreadable have nothing on it: they are forgotten.
#[test]
fn it_keeps_only_those_that_it_may_have_rows_of() -> Result<()> {
    let (vfs, expected, page) = crashed(3)?;
    let db = open_as(&vfs, options())?;
    db.finish_recovery()?;
    passed_over(&db.clean()?, page);
    let kept = db.aborted_count();
    assert!(kept > 0);
    for round in 1..4 {
        let tx = db.begin(Isolation::ReadCommitted);
        for id in [3_000, 90_000] {
            assert_eq!(update(&tx, id, "aborted as well")?, Change::Done);
        }
        tx.rollback()?;
        assert_eq!(db.aborted_count(), kept + 1, "round {round}");
        let report = db.clean()?;
        assert_eq!((report.forgotten, report.pages_skipped), (1, 1), "round {round}: {report:?}");
        assert_eq!(db.aborted_count(), kept, "round {round}: the map grows while a page is unreadable");
    }
    // Readable for a moment, in which somebody writes to it: he is kept with the others.
    vfs.unreadable(None);
    let tx = db.begin(Isolation::ReadCommitted);
    assert_eq!(update(&tx, 51_000, "makes the page known")?, Change::Done);
    tx.rollback()?;
    drop(db);
    let crashed = Watched::new(vfs.sim.crash());
    crashed.unreadable(Some(page));
    let db = open_as(&crashed, options())?;
    db.finish_recovery()?;
    db.clean()?;
    let tx = db.begin(Isolation::ReadCommitted);
    assert_eq!(update(&tx, 3_000, "elsewhere")?, Change::Done);
    crashed.unreadable(None);
    assert_eq!(update(&tx, 50_000, "on the page, while it is readable")?, Change::Done);
    tx.rollback()?;
    while db.write_back()? > 0 {}
    // Out of memory, and unreadable again.
    for id in 0..100 {
        note_of(&db, id * 1000)?;
    }
    crashed.unreadable(Some(page));
    db.clean()?;
    mended_at_last(&db, &crashed, &expected)
}

fn mended_at_last(db: &Database, vfs: &Watched, expected: &Rows) -> Result<()> {
    vfs.unreadable(None);
    db.finish_recovery()?;
    compare(&rows(db)?, expected, "readable again");
    db.clean()?;
    compare(&rows(db)?, expected, "cleaned");
    assert_eq!(db.aborted_count(), 0);
    verify(db, "cleaned")
}
