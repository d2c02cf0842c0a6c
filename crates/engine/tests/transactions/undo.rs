//! Rollback by undo: short transactions, and the traditional mode with its restart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::open::open_as as open;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

fn options(accelerated: bool) -> Options {
    Options {
        buffer_bytes: 64 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    }
}

fn table(db: &Database, rows: i64) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    let table = tx.create_table(spec)?.done()?;
    for id in 0..rows {
        tx.insert(&table, &row(id, 0, &"as it was ".repeat(20)))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(table)
}

/// Sum of `v` and count of rows that are seen now.
fn sum(db: &Database) -> Result<(i64, usize)> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut sum, mut count) = (RowBatch::default(), 0, 0);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 500)? {
            return Ok((sum, count));
        }
        for i in 0..batch.len() {
            let DatumRef::Int8(v) = table.column(batch.row(i), 1)? else { panic!("no number") };
            sum += v;
            count += 1;
        }
    }
}

/// Changes, deletes and inserts in one transaction, left open.
fn write(db: &Database, table: &Arc<Table>, rows: i64) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..rows {
        match id % 3 {
            0 => {
                tx.update(table, &key(table, id)?, Seen::Snapshot, &row(id, 7, &"longer ".repeat(12)))?.done()?;
                // Once more: its own version is replaced.
                tx.update(table, &key(table, id)?, Seen::Snapshot, &row(id, 8, "x"))?.done()?;
            }
            1 => {
                tx.delete(table, &key(table, id)?, Seen::Snapshot)?.done()?;
            }
            _ => {
                tx.insert(table, &row(1_000_000 + id, 9, "new"))?.done()?;
            }
        }
    }
    Ok(tx)
}

#[test]
fn a_short_transaction_leaves_nothing_and_a_long_one_an_entry() -> Result<()> {
    for (rows, left) in [(100, 0), (1000, 1)] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, options(true))?;
        let table = table(&db, 3000)?;
        db.clean()?;
        let pages = db.stats().versions.pages;
        write(&db, &table, rows)?.rollback()?;
        let stats = db.stats();
        assert_eq!(stats.transactions.aborted_in_map, left, "{rows} rows");
        assert_eq!(stats.transactions.undone, 1 - left);
        assert_eq!(sum(&db)?, (0, 3000));
        if left == 0 {
            let swept = db.clean()?;
            assert_eq!((swept.reverted, swept.removed), (0, 0), "nothing is left to revert");
            assert!(db.stats().versions.pages <= pages + 1);
        }
        // Whatever the log says, it is the same after a crash.
        drop(db);
        let db = open(&vfs.crash(), options(true))?;
        assert_eq!(sum(&db)?, (0, 3000));
        assert!(db.verify()?.is_empty());
    }
    Ok(())
}

#[test]
fn going_back_to_a_savepoint_undoes_only_what_came_after() -> Result<()> {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(2);
        let db = open(&vfs, options(accelerated))?;
        let table = table(&db, 100)?;
        let tx = db.begin(Isolation::ReadCommitted);
        tx.update(&table, &key(&table, 1)?, Seen::Snapshot, &row(1, 10, "kept"))?.done()?;
        let savepoint = tx.savepoint()?;
        for id in [1, 2, 3] {
            tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 500, "lost"))?.done()?;
        }
        tx.insert(&table, &row(777, 500, "lost"))?.done()?;
        tx.rollback_to(savepoint)?;
        tx.update(&table, &key(&table, 2)?, Seen::Snapshot, &row(2, 20, "kept"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(sum(&db)?, (30, 100));
        assert_eq!(db.stats().transactions.aborted_in_map, 0, "accelerated: {accelerated}");
        drop(db);
        let db = open(&vfs.crash(), options(accelerated))?;
        assert_eq!(sum(&db)?, (30, 100));
    }
    Ok(())
}

/// A crash at every few writes of the undo: each restart goes on where the last one stopped.
#[test]
fn undo_makes_progress_through_repeated_crashes() -> Result<()> {
    let mut vfs = SimVfs::new(3);
    let db = open(&vfs, options(false))?;
    let table = table(&db, 6000)?;
    let tx = write(&db, &table, 6000)?;
    let other = db.begin(Isolation::ReadCommitted);
    other.insert(&table, &row(5_000_000, 1, "the last sync"))?.done()?;
    other.commit(Durability::Sync)?.wait()?;
    std::mem::forget(tx);
    std::mem::forget(db);
    vfs = vfs.crash();
    let mut crashes = 0;
    let db = loop {
        // A little later each time, so that the open gets past what stands before the undo.
        vfs.set_faults(FaultPlan { crash_after_ops: Some(12 + crashes), ..FaultPlan::default() });
        match open(&vfs, options(false)) {
            Ok(db) => break db,
            Err(_) if vfs.power_lost() => {
                crashes += 1;
                vfs = vfs.crash();
                assert!(crashes < 2000, "no progress");
            }
            Err(error) => return Err(error),
        }
    };
    vfs.set_faults(FaultPlan::default());
    let left = db.stats().undo_records;
    assert!(crashes > 3, "{crashes} crashes");
    // Two for each row that was updated twice.
    assert!(left < 7000, "the last open had {left} records left to undo: no progress before it");
    assert_eq!(sum(&db)?, (1, 6001));
    assert!(db.verify()?.is_empty());
    assert_eq!(db.stats().transactions.active, 0);
    Ok(())
}

/// The log is kept from the first record of the oldest transaction on, and given up after it.
#[test]
fn the_log_is_kept_for_undo() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, options(false))?;
    let table = table(&db, 10)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.update(&table, &key(&table, 3)?, Seen::Snapshot, &row(3, 99, "open for long"))?.done()?;
    for i in 0..40_000 {
        let other = db.begin(Isolation::ReadCommitted);
        other.update(&table, &key(&table, i % 3)?, Seen::Snapshot, &row(i % 3, 0, "short"))?.done()?;
        other.commit(Durability::Async)?.wait()?;
    }
    db.write_back()?;
    db.checkpoint()?;
    assert!(db.log_status().bytes_in_use > 3 << 20, "{:?}", db.log_status());
    assert!(db.log_status().held_by.contains("transaction"), "{}", db.log_status().held_by);
    tx.rollback()?;
    assert_eq!(sum(&db)?, (0, 10));
    db.write_back()?;
    db.checkpoint()?;
    assert!(db.log_status().bytes_in_use < 3 << 20, "{:?}", db.log_status());
    Ok(())
}

/// While the undo after a restart runs, its rows are locked: readers of them and writers wait,
/// all others go on.
#[test]
fn rows_are_locked_until_they_are_undone() -> Result<()> {
    let mut vfs = SimVfs::new(5);
    let options = Options { background: true, buffer_bytes: 32 << 20, ..options(false) };
    {
        let db = open(&vfs, options.clone())?;
        let table = table(&db, 60_000)?;
        let other = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "other").column("id", ColumnType::Int8).primary_key(&["id"]);
        let second = other.create_table(spec)?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        let tx = write(&db, &table, 60_000)?;
        let other = db.begin(Isolation::ReadCommitted);
        other.insert(&second, &[DatumRef::Int8(1)])?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        vfs = vfs.crash();
        std::mem::forget(tx);
    }
    let db = open(&vfs, options)?;
    assert_eq!(db.recovery().transactions_to_undo, 1);
    let tx = db.begin(Isolation::ReadCommitted);
    let second = tx.table("public", "other")?.ok_or_else(|| Error::internal("no table"))?;
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    tx.insert(&second, &[DatumRef::Int8(2)])?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let during = db.stats().undo_queue;
    // The first row to be changed is the last to be undone.
    let tx = db.begin(Isolation::ReadCommitted);
    let attempt = || tx.update(&table, &key(&table, 0)?, Seen::Snapshot, &row(0, 5, "after"));
    attempt()?.wait(attempt)?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(sum(&db)?, (5, 60_000));
    let started = Instant::now();
    while db.stats().undo_queue > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "the undo does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(during, 1, "the undo was over before anyone could meet it");
    assert_eq!(sum(&db)?, (5, 60_000));
    db.close()?;
    Ok(())
}

/// Definitions do not wait for the undo of a transaction that was changing them.
#[test]
fn definitions_are_readable_while_they_are_undone() -> Result<()> {
    let mut vfs = SimVfs::new(9);
    let options = Options { background: true, buffer_bytes: 32 << 20, ..options(false) };
    {
        let db = open(&vfs, options.clone())?;
        let table = table(&db, 30_000)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let new = ColumnSpec { name: "new".into(), ty: ColumnType::Int8, nullable: true, default_sql: None };
        let pushed = db.stats().temporary.pushed;
        let changed = tx.alter_table(&table, TableChange::AddColumn(new))?.done()?;
        let changed = tx.alter_table(&changed, TableChange::RenameTable("renamed".into()))?.done()?;
        assert_eq!(db.stats().temporary.pushed, pushed, "versions of definitions are on disk");
        for id in 0..30_000 {
            let note = "changed ".repeat(20);
            let row = [DatumRef::Int8(id), DatumRef::Int8(7), DatumRef::Text(&note), DatumRef::Int8(7)];
            tx.update(&changed, &key(&changed, id)?, Seen::Snapshot, &row)?.done()?;
        }
        let other = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "other").column("id", ColumnType::Int8).primary_key(&["id"]);
        other.create_table(spec)?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        vfs = vfs.crash();
        std::mem::forget(tx);
    }
    let db = open(&vfs, options)?;
    assert_eq!(db.recovery().transactions_to_undo, 1);
    let tx = db.begin(Isolation::ReadCommitted);
    let names: Vec<String> = tx.tables()?.iter().map(|t| t.name.clone()).collect();
    let during = db.stats().undo_queue;
    assert_eq!(names, ["other", "t"]);
    assert_eq!(during, 1, "they were read after the undo, not while it ran");
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    assert_eq!(table.columns.len(), 3);
    // Who changes it waits.
    let attempt = || tx.truncate(&table);
    attempt()?.wait(attempt)?;
    assert_eq!(db.stats().undo_queue, 0);
    tx.rollback()?;
    assert_eq!(sum(&db)?, (0, 30_000));
    db.close()?;
    Ok(())
}

/// The mode waits for writers, keeps new ones waiting, and can be given up.
#[test]
fn the_mode_changes_between_transactions() -> Result<()> {
    let vfs = SimVfs::new(6);
    let database = open(&vfs, options(true))?;
    let db = &database;
    let table = table(db, 100)?;
    let tx = write(db, &table, 30)?;
    let error = db.set_accelerated_recovery(false, &|| true).err().map(|e| e.kind());
    assert_eq!(error, Some(ErrorKind::Cancelled));
    assert!(db.is_recovery_accelerated());
    std::thread::scope(|scope| -> Result<()> {
        let started = Instant::now();
        let changing =
            scope.spawn(move || db.set_accelerated_recovery(false, &|| started.elapsed() > Duration::from_secs(60)));
        // A new writer waits, the old one goes on.
        let (late, wait) = loop {
            let late = db.begin(Isolation::ReadCommitted);
            match late.insert(&table, &row(70_000, 0, "late"))? {
                Attempt::Wait(wait) => break (late, wait),
                Attempt::Done(()) => late.rollback()?,
            }
            assert!(started.elapsed() < Duration::from_secs(30), "writers enter while the mode is being changed");
        };
        tx.update(&table, &key(&table, 50)?, Seen::Snapshot, &row(50, 1, "still the old mode"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        changing.join().map_err(|_| Error::internal("panic"))??;
        wait.wait()?;
        late.insert(&table, &row(70_000, 0, "late"))?.done()?;
        late.commit(Durability::Sync)?.wait()
    })?;
    assert!(!db.is_recovery_accelerated());
    let before = sum(db)?;
    write(db, &table, 30)
        .map(drop)
        .or_else(|e| if e.kind() == ErrorKind::UniqueViolation { Ok(()) } else { Err(e) })?;
    assert_eq!(sum(db)?, before);
    drop(database);
    let db = open(&vfs.crash(), options(true))?;
    assert!(!db.is_recovery_accelerated(), "the folder knows its mode");
    assert_eq!(sum(&db)?, before);
    Ok(())
}

#[test]
fn a_full_temporary_store_fails_one_statement_and_no_one_else() -> Result<()> {
    let vfs = SimVfs::new(7);
    let db = open(&vfs, Options { temporary_version_bytes_max: 128 << 10, ..options(false) })?;
    let table = table(&db, 3000)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let mut error = None;
    for id in 0..3000 {
        match tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 1, &"y".repeat(60))) {
            Ok(attempt) => assert_eq!(attempt.done()?, Change::Done),
            Err(e) => {
                error = Some(e);
                break;
            }
        }
    }
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::OutOfMemory));
    tx.rollback()?;
    for _ in 0..3 {
        // Something must move for the horizon to be seen to move.
        let other = db.begin(Isolation::ReadCommitted);
        other.insert(&table, &row(9000, 0, ""))?.done()?;
        other.delete(&table, &key(&table, 9000)?, Seen::Snapshot)?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    assert_eq!(sum(&db)?, (0, 3000));
    let tx = db.begin(Isolation::ReadCommitted);
    tx.update(&table, &key(&table, 1)?, Seen::Snapshot, &row(1, 1, "there is room again"))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(sum(&db)?, (1, 3000));
    Ok(())
}

/// A row that shrank, on a page that others have filled since: taking it back needs a split.
#[test]
fn a_row_comes_back_to_a_full_page() -> Result<()> {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(8);
        let db = open(&vfs, options(accelerated))?;
        let table = table(&db, 0)?;
        let fill = |ids: &mut dyn Iterator<Item = i64>, note: &str| -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            for id in ids {
                tx.insert(&table, &row(id, 0, note))?.done()?;
            }
            tx.commit(Durability::Sync)?.wait()
        };
        fill(&mut (0..12).map(|i| i * 100), &"large ".repeat(200))?;
        db.clean()?;
        let tx = db.begin(Isolation::ReadCommitted);
        for id in (0..12).map(|i| i * 100) {
            tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 1, "small"))?.done()?;
            // Twice: the first version's space is given up as well.
            tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 2, ""))?.done()?;
        }
        fill(&mut (0..12).flat_map(|i| (1..90).map(move |j| i * 100 + j)), "fills the page")?;
        tx.rollback()?;
        assert_eq!(db.stats().transactions.aborted_in_map, 0);
        assert_eq!(sum(&db)?, (0, 12 + 12 * 89), "accelerated: {accelerated}");
        assert!(db.verify()?.is_empty());
        drop(db);
        let db = open(&vfs.crash(), options(accelerated))?;
        assert_eq!(sum(&db)?, (0, 12 + 12 * 89));
        assert!(db.verify()?.is_empty());
    }
    Ok(())
}
