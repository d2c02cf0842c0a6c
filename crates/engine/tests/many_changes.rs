//! One transaction with thousands of schema changes: a crash in the middle, or a PREPARE. What it
//! is remembered by stays small: definitions are rows, and what is to be freed is in the ledger
//! (see docs/slog.md).

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 1024 * limits::PAGE_SIZE,
        log_segment_bytes: 4 << 20,
        background: false,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    };
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    Database::open_with(vfs, Path::new("/db"), options, |_| {})
}

fn spec(name: &str) -> TableSpec {
    TableSpec::new("public", name).column("id", ColumnType::Int8).primary_key(&["id"])
}

/// Tables that were there before.
const KEPT: usize = 20;

fn begin(db: &Database) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    for i in 0..KEPT {
        tx.create_table(spec(&format!("kept{i}")))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(db.begin(Isolation::ReadCommitted))
}

/// Creates and drops tables, and rows of them; every hundredth stays. Those from before go.
fn change(tx: &Transaction, turns: std::ops::Range<usize>) -> Result<()> {
    for i in turns {
        let table = tx.create_table(spec(&format!("new{i}")))?.done()?;
        tx.insert(&table, &[DatumRef::Int8(1)])?.done()?;
        if i % 100 != 0 {
            tx.drop_table(&table)?.done()?;
        }
        if i < KEPT {
            let old = tx.table("public", &format!("kept{i}"))?.ok_or_else(|| Error::internal("no table"))?;
            tx.drop_table(&old)?.done()?;
        }
    }
    Ok(())
}

fn names(db: &Database) -> Result<usize> {
    Ok(db.begin(Isolation::ReadCommitted).tables()?.len())
}

/// Everything is freed, and nothing but it.
fn settled(db: &Database, said: &str) -> Result<()> {
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    for _ in 0..4 {
        db.clean()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(spec("one more"))?.done()?;
        tx.insert(&table, &[DatumRef::Int8(1)])?.done()?;
        tx.rollback()?;
    }
    db.clean()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0, "{said}");
    assert_eq!(db.ledger_len()?, 0, "{said}: storage is still to be freed");
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    Ok(())
}

fn changes(accelerated: bool) -> usize {
    // In the traditional mode names that were taken and given back stay as ghosts until the end.
    if accelerated { 5000 } else { 1500 }
}

#[test]
fn cut_off_by_a_crash() -> Result<()> {
    for accelerated in [true, false] {
        let (said, many) = (format!("accelerated: {accelerated}"), changes(accelerated));
        let vfs = SimVfs::new(1);
        let db = open(&vfs, accelerated)?;
        let tx = begin(&db)?;
        change(&tx, 0..many / 2)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        // What the checkpoint says of all this is a handful of records.
        let after_checkpoint = open(&vfs.crash_clone(7), accelerated)?;
        let records = after_checkpoint.recovery().log_records;
        assert!(records <= 12, "{said}: {records} records from the checkpoint on");
        assert_eq!(names(&after_checkpoint)?, KEPT, "{said}");
        drop(after_checkpoint);
        change(&tx, many / 2..many)?;
        let other = db.begin(Isolation::ReadCommitted);
        other.create_table(spec("the last sync"))?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        let crashed = vfs.crash();
        std::mem::forget(tx);
        drop(db);
        let db = open(&crashed, accelerated)?;
        assert_eq!(names(&db)?, KEPT + 1, "{said}");
        settled(&db, &said)?;
        assert_eq!(names(&db)?, KEPT + 1, "{said}");
    }
    Ok(())
}

#[test]
fn prepared() -> Result<()> {
    for (accelerated, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        let said = format!("accelerated: {accelerated}, commit: {commits}");
        let many = changes(accelerated) / 2;
        let vfs = SimVfs::new(2);
        let db = open(&vfs, accelerated)?;
        let tx = begin(&db)?;
        change(&tx, 0..many)?;
        tx.prepare("many", "owner", "database")?.wait()?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        let crashed = vfs.crash();
        drop((tx, db));
        let db = open(&crashed, accelerated)?;
        // And its table locks: a few thousand in each record.
        let records = db.recovery().log_records;
        assert!(records <= 16, "{said}: {records} records from the checkpoint on");
        assert_eq!(names(&db)?, KEPT, "{said}");
        let resolved = if commits { db.commit_prepared("many")? } else { db.rollback_prepared("many")? };
        resolved.wait()?;
        let left = if commits { many.div_ceil(100) } else { KEPT };
        assert_eq!(names(&db)?, left, "{said}");
        settled(&db, &said)?;
        assert_eq!(names(&db)?, left, "{said}");
    }
    Ok(())
}
