//! Rows, keys and diffs of any bytes; what can be read is the same after it was written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_page::{ColumnType, KeyColumn, RowLayout, diff, key, row_change};

const TYPES: [ColumnType; 14] = [
    ColumnType::Bool,
    ColumnType::Int2,
    ColumnType::Int4,
    ColumnType::Int8,
    ColumnType::Float4,
    ColumnType::Float8,
    ColumnType::Numeric { precision: 12, scale: 2 },
    ColumnType::VarNumeric(None),
    ColumnType::Text,
    ColumnType::Varchar(20),
    ColumnType::Char(8),
    ColumnType::Bytes,
    ColumnType::Date,
    ColumnType::Time(None),
];

fuzz_target!(|data: &[u8]| {
    let [count, picks @ ..] = data else { return };
    let count = usize::from(count % 6) + 1;
    if picks.len() < count {
        return;
    }
    let (picks, bytes) = picks.split_at(count);
    let types: Vec<ColumnType> = picks.iter().map(|pick| TYPES[usize::from(*pick) % TYPES.len()]).collect();
    let layout = RowLayout::new(&types);
    let _ = RowLayout::stored_columns(bytes);
    if let Ok(view) = layout.view(bytes) {
        let values: Result<Vec<_>, _> = (0..layout.len()).map(|i| view.column(i)).collect();
        let mut out = Vec::new();
        if let Ok(values) = values
            && layout.encode(&values, &mut out).is_ok()
        {
            let again = layout.view(&out).expect("a row of our own");
            for (i, value) in values.iter().enumerate() {
                let read = again.column(i).expect("a value of our own");
                assert_eq!(format!("{read:?}"), format!("{value:?}"));
            }
        }
    }
    let columns: Vec<KeyColumn> = types
        .iter()
        .zip(picks)
        .map(|(ty, pick)| if pick & 128 == 0 { KeyColumn::ascending(*ty) } else { KeyColumn::descending(*ty) })
        .collect();
    let _ = key::decode(bytes, &columns);
    for i in 0..count {
        let _ = key::decode_column(bytes, &columns, i);
        let _ = key::column_offset(bytes, &columns, i);
    }
    let (base, change) = bytes.split_at(bytes.len() / 2);
    let mut out = Vec::new();
    let _ = diff::target_len(base.len(), change);
    let _ = diff::apply(base, change, 1 << 16, &mut out);
    out.clear();
    let _ = row_change::apply(base, change, &mut out);
    // What is made is read again.
    let (mut made, mut back) = (Vec::new(), Vec::new());
    diff::diff(base, change, &mut made);
    diff::apply(base, &made, change.len(), &mut back).expect("a diff of our own");
    assert_eq!(back, change);
});
