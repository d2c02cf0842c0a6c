//! The log stays below its bound while one transaction of any size runs: nothing of it is
//! needed to roll the transaction back. (In the traditional mode it is, and small
//! transactions are what the log is bounded beside.)

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

const BOUND: u64 = 16 << 20;

fn options(accelerated: bool) -> Options {
    Options {
        buffer_bytes: 4 << 20,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 2 << 20,
        log_bytes_max: BOUND,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    }
}

/// A database of that mode with an empty table.
fn made(vfs: &SimVfs, accelerated: bool) -> Result<(Database, Arc<Table>)> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let db = Database::open_with(shared, Path::new("/db"), options(accelerated), |_| {})?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("filler", ColumnType::Text)
        .primary_key(&["id"]);
    let table = tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok((db, table))
}

#[test]
fn small_transactions_do_not_hold_the_log_in_the_traditional_mode() -> Result<()> {
    let (db, table) = made(&SimVfs::new(4), false)?;
    let filler = "f".repeat(180);
    let mut most = 0;
    for first in (0..250_000).step_by(500) {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::BulkWrite)?;
        for id in first..first + 500 {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&filler)])?.done()?;
        }
        tx.commit(Durability::Async)?.wait()?;
        most = most.max(db.log_status().bytes_in_use);
    }
    let written = db.stats().log.written_bytes;
    assert!(written > 4 * BOUND, "{written} bytes of log were written");
    // Writers are slowed down near the bound, not stopped at it: for a moment there is more.
    assert!(most <= BOUND + BOUND / 2, "{most} bytes of log were kept at one time, the bound is {BOUND}");
    Ok(())
}

#[test]
fn one_large_transaction_does_not_hold_the_log() -> Result<()> {
    let vfs = SimVfs::new(3);
    let (db, table) = made(&vfs, true)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let filler = "f".repeat(180);
    let mut most = 0;
    for id in 0..500_000 {
        tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&filler)])?.done()?;
        if id % 256 == 0 {
            most = most.max(db.log_status().bytes_in_use);
        }
    }
    let written = db.stats().log.written_bytes;
    assert!(written > 6 * BOUND, "the transaction wrote {written} bytes of log");
    eprintln!("{written} bytes of log, {most} at one time; slowed down {} times", db.log_status().writers_slowed);
    assert!(most <= BOUND, "{most} bytes of log were kept at one time, the bound is {BOUND}");

    // And it still rolls back, by a crash in the middle of it.
    let after = vfs.crash();
    drop((tx, db));
    let shared: Arc<dyn Vfs> = Arc::new(after.clone());
    let db = Database::open_with(shared, Path::new("/db"), options(true), |_| {})?;
    assert!(db.recovery().log_bytes <= BOUND, "{} bytes were read to recover", db.recovery().log_bytes);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut batch = RowBatch::default();
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    assert!(!cursor.next_batch(&mut batch, 10)?, "no row is left");
    Ok(())
}
