//! Looking at what others have committed meanwhile.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open_as, small_log};

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, small_log(is_traditional()))
}

fn row(id: i64, code: i64, note: &str) -> [DatumRef<'_>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(code), DatumRef::Text(note)]
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// A table `(id primary key, code unique, note)` with rows (1, 10, a), (2, 20, a), (3, 30, a).
fn filled(db: &Database) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("code", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_code", &["code"], true);
    let table = tx.create_table(spec)?.done()?;
    for id in 1..4 {
        tx.insert(&table, &row(id, id * 10, "a"))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(Isolation::ReadCommitted);
    Ok(tx.table("public", "t")?.expect("the table"))
}

/// Another transaction gives row 3 the key 4.
fn moved(db: &Database, table: &Arc<Table>) -> Result<()> {
    let other = db.begin(Isolation::ReadCommitted);
    other.statement(StatementKind::PointWrite)?;
    assert_eq!(other.update(table, &key(table, 3)?, Seen::Snapshot, &row(4, 30, "moved"))?.done()?, Change::Done);
    other.commit(Durability::Sync)?.wait()
}

#[test]
fn the_newest_state_through_an_index() -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = open(&vfs)?;
    let table = filled(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::PointWrite)?;
    moved(&db, &table)?;
    let mut code = Vec::new();
    table.encode_index_key(0, &[DatumRef::Int8(30)], &mut code)?;
    for (view, id) in [(&view, 3), (&view.newest(), 4)] {
        let mut row = RowBuf::default();
        assert!(view.get_by_index(&table, &table.indexes[0], &code, &mut row)?);
        assert_eq!(row.raw().key, key(&table, id)?);
    }
    Ok(())
}

#[test]
fn the_definitions_of_a_snapshot() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs)?;
    filled(&db)?;
    let (frozen, free) = (db.begin(Isolation::RepeatableRead), db.begin(Isolation::ReadCommitted));
    let (seen, before) = (frozen.statement(StatementKind::Read)?.catalog_version(), db.catalog_version());
    free.statement(StatementKind::Read)?;
    assert_eq!((seen, frozen.catalog_version(), free.catalog_version()), (before, before, before));
    let tx = db.begin(Isolation::ReadCommitted);
    tx.create_table(TableSpec::new("public", "u").column("id", ColumnType::Int8))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert!(db.catalog_version() > before);
    assert_eq!((frozen.catalog_version(), free.catalog_version()), (before, db.catalog_version()));
    assert_eq!(free.statement(StatementKind::Read)?.catalog_version(), db.catalog_version());
    assert_eq!(frozen.statement(StatementKind::Read)?.catalog_version(), before);
    Ok(())
}
