//! A page that redo cannot mend is set aside when the log gets too long for it: the log goes, the rest
//! goes on, and what the file holds of that page is never taken for current unless it is.

use std::path::Path;
use std::sync::Arc;

use crate::common::open::open_as;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_page::PageBuf;
use resurgam_vfs::{Failing, FaultPlan, OpenMode, SimVfs, Vfs};

const PAGE: usize = limits::PAGE_SIZE;
const LOG_MAX: u64 = 4 << 20;
const MARK: &str = "the row on the page that is damaged";

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 2 << 20,
        log_segment_bytes: 512 << 10,
        log_bytes_wanted: 1 << 20,
        log_bytes_max: LOG_MAX,
        background: false,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    };
    open_as(vfs, options)
}

fn write(db: &Database, work: impl FnOnce(&Transaction, &Arc<Table>) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    tx.statement(StatementKind::PointWrite)?;
    work(&tx, &t)?;
    tx.commit(Durability::Sync)?.wait()
}

/// The second column of a row.
fn value(db: &Database, id: i64) -> Result<i64> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let mut row = RowBuf::default();
    assert!(tx.statement(StatementKind::Read)?.get(&t, &key(&t, id)?, &mut row)?);
    match t.column(row.raw(), 1)? {
        DatumRef::Int8(value) => Ok(value),
        other => panic!("{other:?}"),
    }
}

fn write_out(db: &Database) -> Result<()> {
    while db.write_back()? > 0 {}
    db.checkpoint()
}

fn data(vfs: &SimVfs) -> Result<Vec<u8>> {
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn put(vfs: &SimVfs, page: usize, image: &[u8]) -> Result<()> {
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    file.write_at(image, (page * PAGE) as u64)?;
    file.sync()
}

fn refused(db: &Database, page: usize) {
    let error = value(db, 500).expect_err("a damaged page was read");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&format!("page {page}")), "{error}");
}

/// The table of these tests.
fn table() -> TableSpec {
    rows_table("t")
}

#[test]
fn a_page_that_cannot_be_mended_does_not_hold_the_log() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.create_table(table())?.done()?;
        for id in 0..1000 {
            let note = if id == 500 { MARK.to_owned() } else { "x".repeat(400) };
            tx.insert(&t, &row(id, id, &note))?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        // So that the log has not the page's begin any more.
        for round in 0..30 {
            let wide = "y".repeat(1000);
            write(&db, |tx, t| {
                (0..200).try_for_each(|id| {
                    tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, round, &wide))?.done().map(|_| ())
                })
            })?;
            db.clean()?;
            write_out(&db)?;
        }
        db.close()?;
        drop(db);
        let before = data(&vfs)?;
        let at = before.windows(MARK.len()).position(|bytes| bytes == MARK.as_bytes()).expect("in the file");
        let page = at / PAGE;
        let old = before[page * PAGE..][..PAGE].to_vec();
        let db = open(&vfs, traditional)?;
        write(&db, |tx, t| tx.update(t, &key(t, 500)?, Seen::Snapshot, &row(500, -1, MARK))?.done().map(|_| ()))?;
        let vfs = vfs.crash();
        drop(db);
        // As it is where nothing is damaged.
        let healthy = vfs.fork(1);
        let db = open(&healthy, traditional)?;
        assert_eq!(value(&db, 500)?, -1);
        write_out(&db)?;
        drop(db);
        // As a backup has it, which does not say who wrote it to the file: that was another history's process.
        let mut image = PageBuf::zeroed();
        image.as_bytes_mut().copy_from_slice(&data(&healthy)?[page * PAGE..][..PAGE]);
        image.forget_writer();
        let new = image.as_bytes().to_vec();
        assert!(new != old);

        let mut damaged = old.clone();
        damaged[100..200].fill(0xEE);
        put(&vfs, page, &damaged)?;
        vfs.remove(Path::new("/db/doublewrite"))?;
        let db = open(&vfs, traditional)?;
        db.finish_recovery()?;
        let list = db.damaged_page_list();
        assert_eq!(list.len(), 1, "{list:?}");
        assert!(list[0].page.0 == page as u64 && !list[0].set_aside && list[0].object.is_some(), "{list:?}");
        refused(&db, page);
        // Much work elsewhere.
        for round in 0..60 {
            let wide = "z".repeat(1000);
            write(&db, |tx, t| {
                (0..200).try_for_each(|id| {
                    tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, round, &wide))?.done().map(|_| ())
                })
            })?;
            db.clean()?;
            write_out(&db)?;
        }
        let used = db.stats().log_bytes_in_use;
        assert!(used <= LOG_MAX, "traditional: {traditional}: one page holds {used} bytes of log");
        let list = db.damaged_page_list();
        assert!(list.len() == 1 && list[0].set_aside && list[0].error.contains("cannot be read"), "{list:?}");
        refused(&db, page);
        assert_eq!((value(&db, 1)?, value(&db, 900)?), (59, 900), "the table is readable around it");

        // After a restart, too, and whatever old content the file has.
        let vfs = vfs.crash();
        drop(db);
        for image in [&damaged, &old] {
            put(&vfs, page, image)?;
            let db = open(&vfs, traditional)?;
            refused(&db, page);
            db.finish_recovery()?;
            refused(&db, page);
            let list = db.damaged_page_list();
            assert!(list.len() == 1 && list[0].set_aside, "{list:?}");
            write_out(&db)?;
            db.close()?;
        }
        // The page as it was mends it.
        put(&vfs, page, &new)?;
        let db = open(&vfs, traditional)?;
        assert_eq!(value(&db, 500)?, -1);
        assert_eq!((db.damaged_pages(), db.damaged_page_list().len()), (0, 0));
        db.finish_recovery()?;
        write_out(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
        drop(db);
        let db = open(&vfs, traditional)?;
        assert_eq!(value(&db, 500)?, -1);
    }
    Ok(())
}

/// An archive and a backup that could not be asked while the page was set aside: once they can, it is rebuilt, and no longer
/// one that cannot be brought up to date.
#[test]
fn a_page_that_was_set_aside_heals_with_an_archive() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(2);
        vfs.make_folder(Path::new("/disk2"))?;
        let open = |vfs: &SimVfs, page_repair: bool| {
            let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
            let options = Options {
                archive: Some("/disk2/archive".into()),
                page_repair,
                buffer_bytes: 2 << 20,
                log_segment_bytes: 512 << 10,
                log_bytes_wanted: 1 << 20,
                log_bytes_max: LOG_MAX,
                background: false,
                accelerated_database_recovery: !traditional,
                ..Options::default()
            };
            Database::open_with(shared, Path::new("/db"), options, |_| {})
        };
        let work = |db: &Database, rounds: i64| -> Result<()> {
            for round in 0..rounds {
                let wide = "z".repeat(1000);
                write(db, |tx, t| {
                    (0..200).try_for_each(|id| {
                        tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, round, &wide))?.done().map(|_| ())
                    })
                })?;
                db.clean()?;
                db.archive_now()?;
                write_out(db)?;
            }
            Ok(())
        };
        let db = open(&vfs, false)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.create_table(table())?.done()?;
        for id in 0..1000 {
            let note = if id == 500 { MARK.to_owned() } else { "x".repeat(400) };
            tx.insert(&t, &row(id, id, &note))?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        work(&db, 30)?;
        db.close()?;
        drop(db);
        let before = data(&vfs)?;
        let page = before.windows(MARK.len()).position(|bytes| bytes == MARK.as_bytes()).expect("in the file") / PAGE;
        let db = open(&vfs, false)?;
        write(&db, |tx, t| tx.update(t, &key(t, 500)?, Seen::Snapshot, &row(500, -1, MARK))?.done().map(|_| ()))?;
        let vfs = vfs.crash();
        drop(db);
        put(&vfs, page, &[0xEE; PAGE])?;
        if vfs.exists(Path::new("/db/doublewrite"))? {
            vfs.remove(Path::new("/db/doublewrite"))?;
        }
        let db = open(&vfs, false)?;
        db.finish_recovery()?;
        refused(&db, page);
        work(&db, 60)?;
        let list = db.damaged_page_list();
        assert!(list.len() == 1 && list[0].set_aside, "{list:?}");
        refused(&db, page);
        let vfs = vfs.crash();
        drop(db);
        let db = open(&vfs, true)?;
        db.finish_recovery()?;
        assert_eq!((value(&db, 500)?, value(&db, 1)?), (-1, 59));
        assert_eq!(db.damaged_page_list().len(), 0);
        write_out(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
        drop(db);
        // It is in its place again, and nothing is left of it in a checkpoint.
        let db = open(&vfs, false)?;
        assert_eq!((value(&db, 500)?, db.damaged_page_list().len()), (-1, 0));
    }
    Ok(())
}

/// Recovery meets a device that takes no writes for a while, with memory full of pages that have to be written: the ones
/// that still await redo are as good as ever, and keep their log, however little of it is wanted.
#[test]
fn no_page_is_set_aside_because_others_cannot_be_written() -> Result<()> {
    const ROWS: i64 = 3000;
    for traditional in [false, true] {
        let vfs = SimVfs::new(3);
        let open = |vfs: &SimVfs, pages: usize, log_bytes_wanted: u64| {
            let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
            let options = Options {
                buffer_bytes: pages * PAGE,
                log_segment_bytes: 512 << 10,
                log_bytes_wanted,
                log_bytes_max: 16 << 20,
                background: false,
                accelerated_database_recovery: !traditional,
                ..Options::default()
            };
            Database::open_with(shared, Path::new("/db"), options, |_| {})
        };
        let db = open(&vfs, 1024, 8 << 20)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.create_table(table())?.done()?;
        (0..ROWS).try_for_each(|id| tx.insert(&t, &row(id, id, &"x".repeat(400)))?.done().map(|_| ()))?;
        tx.commit(Durability::Sync)?.wait()?;
        write_out(&db)?;
        write(&db, |tx, t| {
            (0..ROWS).try_for_each(|id| {
                tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, -id, &"x".repeat(400)))?.done().map(|_| ())
            })
        })?;
        let vfs = vfs.crash();
        drop(db);
        let db = open(&vfs, 64, 1)?;
        let failing = Failing { path: "/db/doublewrite".into(), reads: false, writes: true, syncs: false };
        vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
        for _ in 0..4 {
            assert_eq!(db.finish_recovery().map_err(|error| error.kind()), Err(ErrorKind::Io));
            let _ = db.checkpoint();
        }
        assert_eq!(db.damaged_page_list().len(), 0, "traditional: {traditional}");
        // It is well again, and there is work elsewhere.
        vfs.set_faults(FaultPlan::default());
        for round in 0..30 {
            let wide = "z".repeat(1000);
            write(&db, |tx, t| {
                (0..60).try_for_each(|id| {
                    tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, round, &wide))?.done().map(|_| ())
                })
            })?;
            write_out(&db)?;
        }
        for id in 60..ROWS {
            assert_eq!(value(&db, id)?, -id);
        }
        db.finish_recovery()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Recovery meets a device that cannot be read for long, there is no archive, and the log gets long meanwhile: that is no fault
/// of the pages, none of which loses its log.
#[test]
fn no_page_is_set_aside_because_the_device_cannot_be_read() -> Result<()> {
    const ROWS: i64 = 3000;
    const WANTED: u64 = 1 << 20;
    for traditional in [false, true] {
        let vfs = SimVfs::new(4);
        let open = |vfs: &SimVfs| {
            let options = Options {
                buffer_bytes: 1024 * PAGE,
                log_segment_bytes: 512 << 10,
                log_bytes_wanted: WANTED,
                log_bytes_max: 32 << 20,
                background: false,
                accelerated_database_recovery: !traditional,
                ..Options::default()
            };
            open_as(vfs, options)
        };
        let db = open(&vfs)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.create_table(table())?.done()?;
        (0..ROWS).try_for_each(|id| tx.insert(&t, &row(id, id, &"x".repeat(400)))?.done().map(|_| ()))?;
        tx.commit(Durability::Sync)?.wait()?;
        db.clean()?;
        write_out(&db)?;
        write(&db, |tx, t| {
            (0..ROWS).try_for_each(|id| {
                tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, -id, &"x".repeat(400)))?.done().map(|_| ())
            })
        })?;
        let vfs = vfs.crash();
        drop(db);
        let db = open(&vfs)?;
        // What is written to meanwhile is in memory.
        let update = |id: i64, v: i64| {
            write(&db, |tx, t| {
                tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, v, &"x".repeat(400)))?.done().map(|_| ())
            })
        };
        update(1, 0)?;
        let awaiting = db.stats().pages_awaiting_redo;
        assert!(awaiting > 100, "{awaiting} pages await redo");
        let failing = Failing { path: "/db/data".into(), reads: true, writes: false, syncs: false };
        vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
        let (begin, mut round) = (db.log_status().end.0, 0);
        while db.log_status().end.0 < begin + 6 * WANTED {
            round += 1;
            update(1, round)?;
            if round % 2000 == 0 {
                // As the background does every few seconds.
                let outcome = db.finish_recovery().map_err(|error| error.kind());
                assert_eq!(
                    outcome,
                    Err(ErrorKind::Io),
                    "traditional: {traditional}: {:?}",
                    db.damaged_page_list().first()
                );
                write_out(&db)?;
            }
        }
        let set_aside = db.damaged_page_list().iter().filter(|page| page.set_aside).count();
        assert_eq!(set_aside, 0, "traditional: {traditional}: of {awaiting} pages that await redo");
        assert!(db.stats().log_bytes_in_use > 6 * WANTED, "their log is kept");
        // It is well again.
        vfs.set_faults(FaultPlan::default());
        db.finish_recovery()?;
        assert_eq!((db.damaged_page_list().len(), db.stats().pages_awaiting_redo), (0, 0));
        assert_eq!(value(&db, 1)?, round);
        for id in 2..ROWS {
            assert_eq!(value(&db, id)?, -id);
        }
        write_out(&db)?;
        write_out(&db)?;
        assert!(db.stats().log_bytes_in_use < 3 * WANTED, "their log goes with them");
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}
