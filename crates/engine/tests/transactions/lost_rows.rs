//! Rows of prepared transactions whose earlier versions a restart has lost (traditional mode).

use std::path::Path;
use std::sync::Arc;

use crate::common::open::open_as as open;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const DIR: &str = "/db";

fn options(background: bool) -> Options {
    Options {
        // What damage does is looked at here.
        page_repair: false,
        buffer_bytes: 16 << 20,
        log_segment_bytes: 1 << 20,
        background,
        accelerated_database_recovery: false,
        ..Options::default()
    }
}

fn create(db: &Database, name: &str, rows: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    make(&tx, name, rows)?;
    tx.commit(Durability::Sync)?.wait()
}

fn make(tx: &Transaction, name: &str, rows: i64) -> Result<()> {
    let spec = rows_table(name);
    let table = tx.create_table(spec)?.done()?;
    for id in 0..rows {
        tx.insert(&table, &row(id, 0, "note"))?.done()?;
    }
    Ok(())
}

fn find(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.table("public", name)?.ok_or_else(|| Error::internal("no table"))
}

/// Sets `v` of the rows to 1.
fn update(tx: &Transaction, name: &str, rows: std::ops::Range<i64>, note: &str) -> Result<()> {
    let table = find(tx, name)?;
    for id in rows {
        tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 1, note))?.done()?;
    }
    Ok(())
}

/// `v` of a row, as it is seen now.
fn read(db: &Database, name: &str, id: i64) -> Result<i64> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = find(&tx, name)?;
    let mut found = RowBuf::default();
    if !tx.statement(StatementKind::Read)?.get(&table, &key(&table, id)?, &mut found)? {
        return Err(Error::internal("no row"));
    }
    match table.column(found.raw(), 1)? {
        DatumRef::Int8(v) => Ok(v),
        _ => Err(Error::internal("no number")),
    }
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

/// A database of which power was lost while `rows` of "t" were in doubt as "g".
fn in_doubt(seed: u64, rows: i64, options: Options) -> Result<SimVfs> {
    let vfs = SimVfs::new(seed);
    let db = open(&vfs, Options { background: false, ..options })?;
    create(&db, "t", rows)?;
    let tx = db.begin(Isolation::ReadCommitted);
    update(&tx, "t", 0..rows, "x")?;
    tx.prepare("g", "anna", "postgres")?.wait()?;
    drop(tx);
    Ok(vfs.crash())
}

/// Readers wait while it goes from those in doubt to those that are undone.
#[test]
fn readers_beside_its_rollback() -> Result<()> {
    const ROWS: i64 = 12_000;
    let crashed = in_doubt(1, ROWS, options(false))?;
    for turn in 0..8i64 {
        let db = open(&crashed.fork(turn as u64), options(true))?;
        std::thread::scope(|scope| -> Result<()> {
            let threads: Vec<_> = (0..8i64)
                .map(|i| {
                    let db = &db;
                    scope.spawn(move || (0..60).try_for_each(|n| read(db, "t", (i * 977 + n * 13) % ROWS).map(drop)))
                })
                .collect();
            for _ in 0..turn {
                std::thread::yield_now();
            }
            db.rollback_prepared("g")?.wait()?;
            threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Error::internal("panic"))))
        })?;
        assert_eq!(read(&db, "t", 5)?, 0);
        db.close()?;
    }
    Ok(())
}

/// Right after a restart it waits for rows that cannot be read yet: also those of a table that
/// only the transaction in doubt knows.
#[test]
fn verify_after_a_restart() -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = open(&vfs, options(false))?;
    let tx = db.begin(Isolation::ReadCommitted);
    make(&tx, "made", 6000)?;
    tx.savepoint()?;
    update(&tx, "made", 0..6000, "x")?;
    tx.prepare("g", "anna", "postgres")?.wait()?;
    let crashed = vfs.crash();
    drop((tx, db));
    for turn in 0..3 {
        let db = open(&crashed.fork(turn), options(true))?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
    }
    Ok(())
}

/// What was within the bound of temporary versions before a restart keeps nobody from writing
/// after it.
#[test]
fn the_bound_of_temporary_versions() -> Result<()> {
    let options = Options { temporary_version_bytes_max: 1 << 20, ..options(false) };
    let crashed = in_doubt(3, 12_000, options.clone())?;
    let db = open(&crashed, options)?;
    assert!(db.stats().temporary.rebuilt_bytes > 100_000, "{:?}", db.stats().temporary);
    create(&db, "u", 1000)?;
    let tx = db.begin(Isolation::ReadCommitted);
    update(&tx, "u", 0..1000, "x")?;
    tx.rollback()?;
    assert_eq!(read(&db, "t", 7)?, 0);
    db.commit_prepared("g")?.wait()?;
    assert_eq!(read(&db, "t", 7)?, 1);
    for _ in 0..4 {
        let tx = db.begin(Isolation::ReadCommitted);
        update(&tx, "u", 0..1, "y")?;
        tx.commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    assert_eq!(db.stats().temporary.rebuilt_bytes, 0);
    Ok(())
}

/// Two in doubt, the first of which has a damaged chain of undo records.
#[test]
fn one_damaged_chain_and_the_others() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, options(false))?;
    for name in ["a", "b", "c"] {
        create(&db, name, 10)?;
    }
    let one = db.begin(Isolation::ReadCommitted);
    update(&one, "a", 1..2, "x")?;
    let first = db.active_transactions()[0].first_lsn;
    one.prepare("one", "anna", "postgres")?.wait()?;
    // Log that is not read at open, but for the undo.
    for _ in 0..9000 {
        let tx = db.begin(Isolation::ReadCommitted);
        update(&tx, "c", 1..2, "x")?;
        tx.commit(Durability::Async)?.wait()?;
    }
    let two = db.begin(Isolation::ReadCommitted);
    update(&two, "b", 1..2, "x")?;
    two.prepare("two", "anna", "postgres")?.wait()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    let crashed = vfs.crash();
    drop((one, two, db));
    let segment = Path::new(DIR).join("log").join(format!("{:016x}.log", first.0 >> 20));
    crashed.flip_bit(&segment, ((first.0 & 0xf_ffff) + 60) * 8)?;
    for background in [false, true] {
        for commits in [true, false] {
            let db = open(&crashed.fork(u64::from(commits)), options(background))?;
            if !background {
                db.finish_recovery()?;
            }
            assert_eq!((read(&db, "c", 1)?, read(&db, "b", 1)?, read(&db, "a", 2)?), (1, 0, 0));
            assert_eq!(kind(read(&db, "a", 1)), Some(ErrorKind::Corrupt), "and does not wait for ever");
            assert_eq!(db.prepared().len(), 2);
            if commits {
                // A commit needs none of it.
                db.commit_prepared("two")?.wait()?;
                db.commit_prepared("one")?.wait()?;
                assert_eq!((read(&db, "b", 1)?, read(&db, "a", 1)?), (1, 1));
            } else {
                db.rollback_prepared("two")?.wait()?;
                assert_eq!(read(&db, "b", 1)?, 0);
                // It cannot be undone either; its rows alone are concerned.
                db.rollback_prepared("one")?.wait()?;
                assert_eq!(kind(read(&db, "a", 1)), Some(ErrorKind::Corrupt));
                assert_eq!((read(&db, "b", 1)?, read(&db, "a", 2)?), (0, 0));
            }
        }
    }
    Ok(())
}

/// A page of one of its tables cannot be read.
#[test]
fn one_damaged_page_and_the_others() -> Result<()> {
    let vfs = SimVfs::new(5);
    let db = open(&vfs, options(false))?;
    create(&db, "a", 10)?;
    create(&db, "b", 10)?;
    let tx = db.begin(Isolation::ReadCommitted);
    // The chain is walked along from the last change on.
    update(&tx, "b", 0..3, "x")?;
    update(&tx, "a", 0..3, "to be found on the disk")?;
    tx.prepare("g", "anna", "postgres")?.wait()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    drop((tx, db));
    let crashed = vfs.crash();
    let files: Arc<dyn Vfs> = Arc::new(crashed.clone());
    let mut damaged = 0;
    for name in ["data", "doublewrite"] {
        let path = Path::new(DIR).join(name);
        let file = files.open(&path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let pattern = b"to be found on the disk";
        for at in 0..bytes.len().saturating_sub(pattern.len()) {
            if bytes[at..].starts_with(pattern) {
                crashed.flip_bit(&path, at as u64 * 8)?;
                damaged += 1;
            }
        }
    }
    assert!(damaged >= 3);
    let db = open(&crashed, options(false))?;
    assert_eq!(kind(read(&db, "a", 0)), Some(ErrorKind::Corrupt));
    for id in 0..4 {
        assert_eq!(read(&db, "b", id)?, 0, "row {id}");
    }
    db.commit_prepared("g")?.wait()?;
    assert_eq!(read(&db, "b", 0)?, 1);
    Ok(())
}
