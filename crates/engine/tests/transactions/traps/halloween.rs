//! A statement never sees what it wrote itself: one that moves rows ahead of its own scan
//! meets each row once.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::support::*;

/// `UPDATE t SET id = id + by`, row by row while the scan goes on. Returns rows changed.
fn move_all(tx: &Transaction, by: i64) -> Result<u64> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::BulkWrite)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut moved) = (RowBatch::default(), 0);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 1)? {
            return Ok(moved);
        }
        let row = batch.row(0);
        let (DatumRef::Int8(id), DatumRef::Text(text)) = (table.column(row, 0)?, table.column(row, 1)?) else {
            return Err(Error::internal("a row of other types"));
        };
        let new = [DatumRef::Int8(id + by), DatumRef::Text(text)];
        assert_eq!(tx.update(&table, row.key, Seen::Snapshot, &new)?.done()?, Change::Done, "row {id}");
        moved += 1;
        assert!(moved <= 1000, "the statement runs after its own rows");
    }
}

/// `INSERT INTO t SELECT id + by, note FROM t`.
fn copy_all(tx: &Transaction, by: i64) -> Result<u64> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::BulkWrite)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut copied) = (RowBatch::default(), 0);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 1)? {
            return Ok(copied);
        }
        let (DatumRef::Int8(id), DatumRef::Text(text)) =
            (table.column(batch.row(0), 0)?, table.column(batch.row(0), 1)?)
        else {
            return Err(Error::internal("a row of other types"));
        };
        tx.insert(&table, &[DatumRef::Int8(id + by), DatumRef::Text(text)])?.done()?;
        copied += 1;
        assert!(copied <= 1000, "the statement runs after its own rows");
    }
}

fn filled() -> Result<(SimVfs, Database, Rows)> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs)?;
    create(&db)?;
    let expected: Rows = (0..100).map(|id| (id * 10, note(id, 200))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    Ok((vfs, db, expected))
}

#[test]
fn rows_that_move_ahead_of_the_scan() -> Result<()> {
    // The transaction's first statement, and one after others of its own.
    for earlier in [false, true] {
        let (_vfs, db, mut expected) = filled()?;
        let tx = db.begin(Isolation::ReadCommitted);
        if earlier {
            assert_eq!(update(&tx, 500, "changed before")?, Change::Done);
            insert(&tx, 5, "new before")?;
            expected.insert(500, "changed before".into());
            expected.insert(5, "new before".into());
        }
        assert_eq!(move_all(&tx, 13)?, expected.len() as u64);
        let moved: Rows = expected.iter().map(|(id, note)| (id + 13, note.clone())).collect();
        compare(&rows_of(&tx)?, &moved, "after the statement");
        // The next statement sees all of it.
        assert_eq!(move_all(&tx, 1)?, expected.len() as u64);
        tx.commit(Durability::Sync)?.wait()?;
        let moved: Rows = expected.iter().map(|(id, note)| (id + 14, note.clone())).collect();
        compare(&rows(&db)?, &moved, "after the commit");
        verify(&db, "after the commit")?;
    }
    Ok(())
}

#[test]
fn rows_inserted_ahead_of_the_scan() -> Result<()> {
    for earlier in [false, true] {
        let (_vfs, db, mut expected) = filled()?;
        let tx = db.begin(Isolation::ReadCommitted);
        if earlier {
            insert(&tx, 5, "new before")?;
            expected.insert(5, "new before".into());
        }
        assert_eq!(copy_all(&tx, 3)?, expected.len() as u64);
        assert_eq!(rows_of(&tx)?.len(), expected.len() * 2);
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(rows(&db)?.len(), expected.len() * 2);
        verify(&db, "after the commit")?;
    }
    Ok(())
}

/// A row that two source rows want to change is changed by the first alone.
#[test]
fn a_row_is_changed_once_a_statement() -> Result<()> {
    let (_vfs, db, _) = filled()?;
    let tx = db.begin(Isolation::ReadCommitted);
    assert_eq!(update(&tx, 20, "before")?, Change::Done);
    let table = table(&tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    let key = key_of(&table, 20)?;
    let change =
        |text: &str| tx.update(&table, &key, Seen::Snapshot, &[DatumRef::Int8(20), DatumRef::Text(text)])?.done();
    assert_eq!(change("first")?, Change::Done);
    assert_eq!(change("second")?, Change::SelfModified);
    assert_eq!(tx.delete(&table, &key, Seen::Snapshot)?.done()?, Change::SelfModified);
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(note_of(&db, 20)?.as_deref(), Some("first"));
    Ok(())
}
