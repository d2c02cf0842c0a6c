//! Pages that are newer than the log: its end is lost, or files of different times are together. They are
//! refused with both positions; what they do not concern is served.

use std::path::Path;

use crate::common::open::open_as;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const ROWS: i64 = 2000;

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 8 << 20,
        log_segment_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    };
    open_as(vfs, options)
}

fn update(db: &Database, id: i64, v: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    tx.statement(StatementKind::PointWrite)?;
    tx.update(&t, &key(&t, id)?, Seen::Snapshot, &row(id, v, &"x".repeat(300)))?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

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

fn read(vfs: &SimVfs, path: &str) -> Result<Vec<u8>> {
    let file = vfs.open(Path::new(path), OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Puts the log and the control file of `from` in place of those of `to`.
fn copy_log(from: &SimVfs, to: &SimVfs) -> Result<()> {
    let dir = Path::new("/db/log");
    for name in to.list(dir)? {
        to.remove(&dir.join(name))?;
    }
    let names = from.list(dir)?.into_iter().map(|name| format!("/db/log/{name}"));
    for path in names.chain(["/db/control".to_owned()]) {
        let file = to.open(Path::new(&path), OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(&read(from, &path)?, 0)?;
        file.sync()?;
    }
    to.sync_dir(dir)
}

fn says_both(error: &Error, end: Lsn) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("was changed at LSN") && error.hint().is_some(), "{error}");
    assert!(error.message().contains(&format!("ends at LSN {end}")), "{error}");
}

#[test]
fn pages_from_beyond_the_log_are_refused() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = rows_table("t");
        let t = tx.create_table(spec)?.done()?;
        (0..ROWS).try_for_each(|id| tx.insert(&t, &row(id, id, &"x".repeat(300)))?.done())?;
        tx.commit(Durability::Sync)?.wait()?;
        drop(tx);
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        let end = db.log_status().end;
        let before = vfs.fork(1);
        for turn in 0..50 {
            update(&db, 500, -turn)?;
        }
        while db.write_back()? > 0 {}
        drop(db);
        // All of it together is as it should be.
        let whole = vfs.fork(2);
        let db = open(&whole, traditional)?;
        assert_eq!(value(&db, 500)?, -49);
        drop(db);
        copy_log(&before, &vfs)?;
        // The double-write area is newer as well, and says it before anything is changed.
        let content = read(&vfs, "/db/data")?;
        says_both(&open(&vfs, traditional).err().expect("it opened"), end);
        assert!(content == read(&vfs, "/db/data")?, "the failed open changed the data file");
        vfs.remove(Path::new("/db/doublewrite"))?;
        let db = open(&vfs, traditional)?;
        for _ in 0..2 {
            says_both(&value(&db, 500).expect_err("a page of another time was read"), end);
        }
        // Its transactions' ids are given out again: nothing of theirs shows.
        for turn in 0..60 {
            update(&db, 1500, turn)?;
        }
        assert_eq!((value(&db, 1)?, value(&db, 1500)?), (1, 59));
        says_both(&value(&db, 500).expect_err("a page of another time was read"), end);
        says_both(&update(&db, 500, 7).expect_err("a page of another time was changed"), end);
    }
    Ok(())
}

fn made(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let db = open(vfs, traditional)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    let t = tx.create_table(spec)?.done()?;
    (0..ROWS).try_for_each(|id| tx.insert(&t, &row(id, id, &"x".repeat(300)))?.done())?;
    tx.commit(Durability::Sync)?.wait()?;
    drop(tx);
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    Ok(db)
}

fn write_out(db: &Database) -> Result<()> {
    while db.write_back()? > 0 {}
    db.checkpoint()
}

/// The end of the log is lost, nobody asks for the pages that it concerns, the log grows past them, and the database is opened again
/// and again: they are of another log for ever, also beside pages that were written since at the same LSNs.
#[test]
fn a_page_of_a_lost_log_is_refused_for_ever() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = made(&vfs, traditional)?;
        let end = db.log_status().end;
        let before = vfs.fork(1);
        for turn in 0..50 {
            update(&db, 500, -turn)?;
        }
        while db.write_back()? > 0 {}
        let beyond = db.log_status().end;
        drop(db);
        copy_log(&before, &vfs)?;
        vfs.remove(Path::new("/db/doublewrite"))?;
        for life in 0..4 {
            let db = open(&vfs, traditional)?;
            for turn in 0..100 {
                update(&db, 1500, turn)?;
            }
            write_out(&db)?;
            if life > 0 {
                assert!(db.log_status().end > beyond, "the log has not grown past what was lost");
                let error = value(&db, 500).expect_err("a page of another log was read");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.message().contains(&format!("went on at LSN {end} without it")), "{error}");
                assert!(error.hint().is_some());
                assert!(update(&db, 500, 7).is_err(), "a page of another log was changed");
            }
            assert_eq!((value(&db, 1)?, value(&db, 1500)?), (1, 99));
            if life % 2 == 0 {
                db.close()?;
            }
        }
    }
    Ok(())
}

/// Log and control file of an earlier time beside the data file, which has pages of openings that these do not know: their epochs
/// are used again, by others.
#[test]
fn pages_of_openings_to_come_are_refused() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(2);
        let db = made(&vfs, traditional)?;
        db.close()?;
        drop(db);
        let before = vfs.fork(1);
        for turn in 0..3 {
            let db = open(&vfs, traditional)?;
            update(&db, 500, -turn)?;
            write_out(&db)?;
            db.close()?;
        }
        let boot = read(&before, "/db/data")?[..limits::PAGE_SIZE].to_vec();
        copy_log(&before, &vfs)?;
        vfs.remove(Path::new("/db/doublewrite"))?;
        // The file as a whole is refused; so is each such page where only the boot page is the right one.
        let error = open(&vfs, traditional).err().expect("it opened");
        assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("newer"), "{error}");
        vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?.write_at(&boot, 0)?;
        for _ in 0..6 {
            let db = open(&vfs, traditional)?;
            for turn in 0..100 {
                update(&db, 1500, turn)?;
            }
            write_out(&db)?;
            assert_eq!(value(&db, 500).expect_err("a page of another log was read").kind(), ErrorKind::Corrupt);
            assert_eq!(value(&db, 1500)?, 99);
            db.close()?;
        }
    }
    Ok(())
}

/// A data file of an earlier time beside a later log: its pages lack what the log has no more.
#[test]
fn an_old_data_file_is_refused() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(3);
        let db = made(&vfs, traditional)?;
        db.close()?;
        drop(db);
        let before = read(&vfs, "/db/data")?;
        let db = open(&vfs, traditional)?;
        update(&db, 500, -1)?;
        write_out(&db)?;
        db.close()?;
        drop(db);
        let now = read(&vfs, "/db/data")?;
        let put = |bytes: &[u8]| -> Result<()> {
            let file = vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
            file.write_at(bytes, 0)?;
            file.sync()
        };
        put(&before)?;
        for _ in 0..2 {
            let error = open(&vfs, traditional).err().expect("an old data file was opened");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains("old copy") && error.hint().is_some(), "{error}");
        }
        assert!(read(&vfs, "/db/data")? == before, "the refused open changed it");
        put(&now)?;
        let db = open(&vfs, traditional)?;
        assert_eq!(value(&db, 500)?, -1);
        db.close()?;
    }
    Ok(())
}
