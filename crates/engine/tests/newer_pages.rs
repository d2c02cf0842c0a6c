//! Pages that are newer than the log: its end is lost, or files of different times are together. They are
//! refused with both positions; what they do not concern is served.

#[allow(dead_code)]
mod common;

use std::path::Path;
use std::sync::Arc;

use common::{key, row};
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const ROWS: i64 = 2000;

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options {
        buffer_bytes: 8 << 20,
        log_segment_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    };
    Database::open_with(shared, Path::new("/db"), options, |_| {})
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
        let spec = TableSpec::new("public", "t")
            .column("id", ColumnType::Int8)
            .column("v", ColumnType::Int8)
            .column("note", ColumnType::Text)
            .primary_key(&["id"]);
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
