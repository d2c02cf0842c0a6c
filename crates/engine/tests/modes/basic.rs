//! The embedded API on a simulated disk, inline: rows, indexes, conflicts, reopening.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open_as, small_log};

fn options() -> Options {
    small_log(is_traditional())
}

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, options())
}

fn accounts() -> TableSpec {
    TableSpec::new("public", "accounts")
        .column("id", ColumnType::Int8)
        .column("balance", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_balance", &["balance"], false)
        .index("by_note", &["note"], true)
}

fn row<'a>(id: i64, balance: i64, note: &'a str) -> [DatumRef<'a>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(balance), DatumRef::Text(note)]
}

fn all(db: &Database) -> Result<Vec<(i64, i64, String)>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "accounts")?.expect("table");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let mut batch = RowBatch::default();
    let mut rows = Vec::new();
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 7)? {
            break;
        }
        for i in 0..batch.len() {
            let raw = batch.row(i);
            let (DatumRef::Int8(id), DatumRef::Int8(balance), DatumRef::Text(note)) =
                (table.column(raw, 0)?, table.column(raw, 1)?, table.column(raw, 2)?)
            else {
                panic!("types");
            };
            rows.push((id, balance, note.to_owned()));
        }
    }
    Ok(rows)
}

#[test]
fn rows_survive_and_roll_back() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(accounts())?.done()?;
    for id in 0..2000 {
        tx.insert(&table, &row(id, id * 10, &format!("note {id}")))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(all(&db)?.len(), 2000);

    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "accounts")?.expect("table");
    tx.statement(StatementKind::BulkWrite)?;
    let mut key = Vec::new();
    for id in 0..500 {
        key.clear();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        assert_eq!(
            tx.update(&table, &key, Seen::Snapshot, &row(id, -1, &format!("changed {id}")))?.done()?,
            Change::Done
        );
    }
    for id in 500..700 {
        key.clear();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        assert_eq!(tx.delete(&table, &key, Seen::Snapshot)?.done()?, Change::Done);
    }
    tx.rollback()?;
    let rows = all(&db)?;
    assert_eq!(rows.len(), 2000);
    assert!(rows.iter().all(|(id, balance, _)| *balance == id * 10));

    // The unique index speaks up, and the transaction goes on.
    let tx = db.begin(Isolation::ReadCommitted);
    let error = tx.insert(&table, &row(9999, 0, "note 7")).err().expect("duplicate");
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(error.detail(), Some("Key (note)=(note 7) already exists."));
    tx.insert(&table, &row(9999, 0, "new"))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(all(&db)?.len(), 2001);

    let swept = db.clean()?;
    // In the traditional mode nothing was left to revert.
    assert!(!db.is_recovery_accelerated() || swept.reverted > 0 && swept.forgotten > 0, "{swept:?}");
    assert_eq!(all(&db)?.len(), 2001);
    db.close()?;
    drop(db);
    let db = open(&vfs)?;
    assert!(db.recovery().was_clean);
    assert_eq!(all(&db)?.len(), 2001);
    Ok(())
}

#[test]
fn a_crash_keeps_what_was_committed_and_nothing_else() -> Result<()> {
    for seed in 0..20 {
        let vfs = SimVfs::new(seed);
        let db = open(&vfs)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(accounts())?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        for id in 0..50 {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.insert(&table, &row(id, 1, &format!("n{id}")))?.done()?;
            tx.commit(Durability::Sync)?.wait()?;
            if id % 10 == 3 {
                db.checkpoint()?;
                db.write_back()?;
            }
        }
        let open_tx = db.begin(Isolation::ReadCommitted);
        for id in 100..400 {
            open_tx.insert(&table, &row(id, 1, &format!("n{id}")))?.done()?;
        }
        let vfs = vfs.crash();
        std::mem::forget(open_tx);
        let db = open(&vfs)?;
        assert!(!db.recovery().was_clean);
        let rows = all(&db)?;
        assert_eq!(rows.len(), 50, "seed {seed}");
        db.finish_recovery()?;
        db.clean()?;
        assert_eq!(all(&db)?.len(), 50);
    }
    Ok(())
}

#[test]
fn large_values_and_conflicts() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx
        .create_table(
            TableSpec::new("public", "blobs")
                .column("id", ColumnType::Int4)
                .column("data", ColumnType::Bytes)
                .primary_key(&["id"]),
        )?
        .done()?;
    let big = vec![7u8; 300_000];
    tx.insert(&table, &[DatumRef::Int4(1), DatumRef::Bytes(&big)])?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int4(1)], &mut key)?;

    let a = db.begin(Isolation::ReadCommitted);
    let b = db.begin(Isolation::RepeatableRead);
    b.statement(StatementKind::PointWrite)?;
    a.statement(StatementKind::PointWrite)?;
    assert_eq!(
        a.update(&table, &key, Seen::Snapshot, &[DatumRef::Int4(1), DatumRef::Bytes(b"small")])?.done()?,
        Change::Done
    );
    assert!(matches!(b.delete(&table, &key, Seen::Snapshot)?, Attempt::Wait(_)));
    a.commit(Durability::Sync)?.wait()?;
    let error = b.delete(&table, &key, Seen::Snapshot).err().expect("conflict");
    assert_eq!(error.kind(), ErrorKind::SerializationFailure);
    // The old snapshot still reads the large value.
    let view = b.statement(StatementKind::Read)?;
    let mut buf = RowBuf::default();
    assert!(view.get(&table, &key, &mut buf)?);
    let DatumRef::External(reference) = table.column(buf.raw(), 1)? else { panic!("large value") };
    assert_eq!(view.read_external(reference)?, big);
    drop(view);
    b.rollback()?;
    let swept = db.clean()?;
    assert!(swept.pending_frees_done >= 1, "{swept:?}");
    Ok(())
}

/// Of two who insert NULL where NULLs are equal, the second waits for the first; a rollback makes way, and a reopening
/// finds the index as it was.
#[test]
fn nulls_that_are_equal_meet() -> Result<()> {
    let vfs = SimVfs::new(5);
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let mut spec = accounts();
    spec.indexes[1].nulls_alike = true;
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let insert = |tx: &Transaction, id: i64| {
        tx.statement(StatementKind::PointWrite)?;
        let table = tx.table("public", "accounts")?.expect("table");
        tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Int8(1), DatumRef::Null])
    };
    let (a, b) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    insert(&a, 1)?.done()?;
    assert!(matches!(insert(&b, 2)?, Attempt::Wait(_)));
    a.rollback()?;
    insert(&b, 2)?.done()?;
    b.commit(Durability::Sync)?.wait()?;
    // A transaction keeps the database open.
    drop((tx, a, b, db));
    let db = open(&vfs)?;
    let c = db.begin(Isolation::ReadCommitted);
    assert!(insert(&c, 3).is_err_and(|error| error.kind() == ErrorKind::UniqueViolation));
    c.rollback()?;
    Ok(())
}
