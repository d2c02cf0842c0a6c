//! The cap on the records that make a page: of a hot page as well no more are read, whether they are in the log, in runs that nobody has
//! merged, or in merged ones, as of whichever record; over evictions and restarts, in both modes of recovery.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::archived;
use crate::common::open::{open_as, small_log};
use crate::common::{self, read, row, rows_table};
use resurgam_archive::{Archive, History, PageBase, PageMaker, View, verify};
use resurgam_engine::*;
use resurgam_page::{PageBuf, PageOp, op};
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

const ARCHIVE: &str = "/disk5/archive";
const ROWS: i64 = 900;

fn store(sim: &SimVfs) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(ARCHIVE)).map_err(Error::from)?))
}

fn view(sim: &SimVfs) -> Result<Arc<View>> {
    Archive::open_view(store(sim)?, None)?.ok_or_else(|| Error::internal("there is no archive"))
}

fn options(traditional: bool, max: u64) -> Options {
    Options { archive: Some(ARCHIVE.into()), archive_records_per_page_max: max, ..small_log(traditional) }
}

fn begin(sim: &SimVfs, db: &Database) -> Result<()> {
    sim.sync_dir(Path::new("/"))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(rows_table("t"))?.done()?;
    for id in 0..ROWS {
        tx.insert(&table, &row(id, 0, "begun, and kept as it is"))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(())
}

/// One row again and again, and some others. All of it is durable then.
fn heat(db: &Database, from: i64, transactions: i64) -> Result<()> {
    let last = from + transactions - 1;
    for n in from..=last {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
        for id in [7, 8 + n * 37 % (ROWS - 8)] {
            let key = common::key(&table, id)?;
            tx.update(&table, &key, Seen::Snapshot, &row(id, n, "changed"))?.done()?;
        }
        match n % 10 {
            _ if n == last => tx.commit(Durability::Sync)?.wait()?,
            3 => tx.rollback()?,
            _ => tx.commit(Durability::Async)?.wait()?,
        }
    }
    Ok(())
}

/// Makes pages from the archive alone, as of records all over it; returns the most records that one took, and how many a page has at most.
/// `begun_late`: from the first image of each on only, for the archive has log of before there were any.
fn most(view: &Arc<View>, begun_late: bool) -> Result<(u64, u64)> {
    let mut records: HashMap<PageId, Vec<Lsn>> = HashMap::new();
    let to = Lsn(view.end().0 - 1);
    let mut scan = view.scan(PageId(0)..PageId(u64::MAX), Lsn::NONE, to, History::All)?;
    while let Some(page) = scan.next_page()? {
        let (mut is_imaged, of_page) = (false, records.entry(page).or_default());
        while let Some(record) = scan.next_record()? {
            is_imaged |= matches!(op::decode(record.body).next(), Some(Ok(PageOp::Image(_))));
            if is_imaged || !begun_late {
                of_page.push(record.lsn);
            }
        }
    }
    let (mut most, mut longest) = (0, 0);
    for (page, lsns) in &records {
        longest = longest.max(lsns.len() as u64);
        // All would take a while.
        let step = (lsns.len() / 40).max(1);
        for lsn in lsns.iter().step_by(step).chain(lsns.last()) {
            let maker = PageMaker::new(PageBase::unchecked(None), Arc::clone(view), *lsn)?;
            let mut made = [PageBuf::zeroed()];
            most = most.max(maker.make(*page, &mut made)?.records);
            assert_eq!(made[0].lsn(), *lsn);
            made[0].verify(*page)?;
        }
    }
    Ok((most, longest))
}

fn bounded(traditional: bool, max: u64) -> Result<()> {
    let mut sim = SimVfs::new(9);
    sim.make_folder(Path::new("/disk5"))?;
    let mut db = open_as(&sim, options(traditional, max))?;
    begin(&sim, &db)?;
    let mut hold = db.hold_log("the test", db.log_status().oldest)?;
    let (mut images, mut redone) = (0, 0);
    for round in 0..12 {
        heat(&db, round * 1000, max as i64 / 3 + 20)?;
        db.archive_now()?;
        match round % 3 {
            0 => {
                while db.write_back()? > 0 {}
                db.evict_pages();
                db.checkpoint()?;
            }
            1 => {
                // What analysis finds is redone, and counted on from there.
                images += db.stats().pool.images_logged;
                drop((hold, db));
                sim = sim.crash();
                db = open_as(&sim, options(traditional, max))?;
                db.finish_recovery()?;
                hold = db.hold_log("the test", db.log_status().oldest)?;
                let pool = db.stats().pool;
                redone += pool.redone_pages;
                // An image is no record less: the chain goes back to it, or to the page in the file.
                assert!(pool.redone_records <= pool.redone_pages * max, "{pool:?}");
            }
            _ => {}
        }
    }
    images += db.stats().pool.images_logged;
    assert!(images > 6 && redone > 0, "{images} images, {redone} pages redone");
    db.archive_now()?;
    let unmerged = view(&sim)?;
    let runs = &unmerged.manifest().runs;
    assert!(runs.len() > 8 && runs.iter().all(|run| run.id.level == 0), "{runs:?}");
    let (most_unmerged, records) = most(&unmerged, false)?;
    assert!(most_unmerged <= max && most_unmerged * 2 > max, "{most_unmerged} in runs that are not merged");
    assert!(records > 2 * max, "no page is hot: {records}");
    db.merge_archive()?;
    let merged = view(&sim)?;
    assert!(merged.manifest().runs.iter().any(|run| run.id.level > 0));
    let (most_merged, _) = most(&merged, false)?;
    assert!(most_merged <= max, "{most_merged} in merged runs");
    let rows = read(&db)?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()?;
    drop((hold, db));
    let report = verify(store(&sim)?, None)?;
    assert!(report.problems.is_empty(), "{report}");
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let compared = archived::compare(&vfs, Path::new("/db"), None, 1 << 20, Path::new(ARCHIVE));
    let (_, _, chains) = compared.unwrap_or_else(|what| panic!("{what}")).expect("the log from its beginning on");
    assert!(chains.longest < max && chains.images == images, "{chains:?}, of {images}");
    // The whole file from the archive.
    vfs.remove(Path::new("/db/data"))?;
    let db = open_as(&sim, options(traditional, max))?;
    db.finish_restore()?;
    assert_eq!(read(&db)?, rows);
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

#[test]
fn a_hot_page_takes_no_more_than_the_cap() -> Result<()> {
    for traditional in [false, true] {
        bounded(traditional, 256)?;
        bounded(traditional, 5)?;
        bounded(traditional, 40)?;
    }
    Ok(())
}

/// What was changed before there was an archive is in none. A page that goes on being changed is in it all the same, whole, before the cap
/// is reached: its records from before count.
#[test]
fn an_archive_that_begins_late_gets_images() -> Result<()> {
    for traditional in [false, true] {
        let max = 60;
        let sim = SimVfs::new(9);
        sim.make_folder(Path::new("/disk5"))?;
        let db = open_as(&sim, Options { archive: None, ..options(traditional, max) })?;
        begin(&sim, &db)?;
        heat(&db, 0, 100)?;
        assert_eq!(db.stats().pool.images_logged, 0, "there is no archive");
        db.close()?;
        let db = open_as(&sim, options(traditional, max))?;
        heat(&db, 1000, 200)?;
        assert!(db.stats().pool.images_logged > 2);
        db.archive_now()?;
        let view = view(&sim)?;
        let (most, records) = most(&view, true)?;
        assert!(most <= max && records > max, "{most} of {records}");
        db.close()?;
    }
    Ok(())
}
