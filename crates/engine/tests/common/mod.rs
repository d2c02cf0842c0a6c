//! What tests of rows `(id int8, v int8, note text)` share.

#[allow(dead_code)]
pub mod hooked;

use resurgam_engine::*;

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
