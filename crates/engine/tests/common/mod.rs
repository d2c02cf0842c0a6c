//! What tests of rows `(id int8, v int8, note text)` share.

#![allow(dead_code)] // each test takes what it needs

pub mod hooked;
pub mod open;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// Whether a check passes: of a database that a planted bug has broken a panic is a finding like an error.
pub fn is_well(check: fn() -> Result<()>) -> bool {
    matches!(catch_unwind(AssertUnwindSafe(check)), Ok(Ok(())))
}

/// Those of `bugs` that none of the checks notices. Each is planted alone, by `plant`, and taken out by `none`.
pub fn unnoticed<B: Debug>(
    bugs: impl IntoIterator<Item = B>,
    plant: impl Fn(&B),
    none: impl Fn(),
    checks: &[fn() -> Result<()>],
) -> Vec<String> {
    let is_missed = |bug: &B| {
        plant(bug);
        let missed = checks.iter().all(|check| is_well(*check));
        none();
        missed
    };
    bugs.into_iter().filter(is_missed).map(|bug| format!("{bug:?}")).collect()
}
