//! What tests of rows `(id int8, v int8, note text)` share.

#![allow(dead_code)] // each test takes what it needs

pub mod hooked;
pub mod open;

use std::collections::BTreeMap;

use resurgam_engine::*;

/// Such a table, by its `id`.
pub fn rows_table(name: &str) -> TableSpec {
    TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("v", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
}

/// A sequence from 1 on.
pub fn ascending() -> Sequence {
    Sequence {
        width: 8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        values: 0,
        begin: 1,
        begin_called: false,
        owner: None,
    }
}

/// A row of such a table.
pub fn row(id: i64, v: i64, note: &str) -> [DatumRef<'_>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text(note)]
}

/// The key of its row `id`.
pub fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// All rows of the table `public.t`, its first two columns: both `int8`.
pub fn read(db: &Database) -> Result<BTreeMap<i64, i64>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut rows) = (RowBatch::default(), BTreeMap::new());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 500)? {
            return Ok(rows);
        }
        for i in 0..batch.len() {
            let (DatumRef::Int8(id), DatumRef::Int8(v)) =
                (table.column(batch.row(i), 0)?, table.column(batch.row(i), 1)?)
            else {
                panic!("no numbers")
            };
            rows.insert(id, v);
        }
    }
}
