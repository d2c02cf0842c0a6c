//! Stored values as ORDER BY, DISTINCT and GROUP BY compare them, without making scalars of them.
//!
//! Order and equality are those of the plan: texts by their bytes, `char(n)` without the blanks at its end,
//! nulls equal to each other. Floating-point numbers (a zero with a sign, NaN) and JSON, which has no order,
//! are not compared here, nor is a large value, which would have to be read first.

use std::cmp::Ordering;

use datafusion::arrow::compute::SortOptions;
use resurgam_engine::{ColumnType, DatumRef, Table};
use resurgam_numeric::key::key_of;

use super::expr::Row;
use crate::wire::SqlError;

/// A value that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Comparable<'a> {
    Null,
    Number(i128),
    Bytes(&'a [u8]),
}

/// Whether values of that type are compared here.
pub(super) fn is_comparable(ty: &ColumnType) -> bool {
    // Of documents, arrays and intervals the keys are compared, which a plan makes.
    !matches!(
        ty,
        ColumnType::Float4
            | ColumnType::Float8
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Interval(_)
            | ColumnType::Array(_)
            | ColumnType::Folded
    )
}

/// The value, as it is compared; `None` of what is not.
fn comparable<'a>(datum: DatumRef<'a>, ty: &ColumnType) -> Option<Comparable<'a>> {
    Some(match datum {
        DatumRef::Null => Comparable::Null,
        DatumRef::Bool(v) => Comparable::Number(v.into()),
        DatumRef::Int2(v) => Comparable::Number(v.into()),
        DatumRef::Int4(v) | DatumRef::Date(v) => Comparable::Number(v.into()),
        DatumRef::Int8(v) | DatumRef::Time(v) | DatumRef::Timestamp(v) | DatumRef::TimestampTz(v) => {
            Comparable::Number(v.into())
        }
        // All of a column have its scale.
        DatumRef::Numeric(v) => Comparable::Number(v),
        DatumRef::Text(v) if matches!(ty, ColumnType::Char(_)) => Comparable::Bytes(v.trim_end_matches(' ').as_bytes()),
        DatumRef::Text(v) => Comparable::Bytes(v.as_bytes()),
        // Whatever digits they show.
        DatumRef::Bytes(v) if matches!(ty, ColumnType::VarNumeric(_)) => Comparable::Bytes(key_of(v)),
        DatumRef::Bytes(_) if ty.is_equal_by_key() => return None,
        DatumRef::Bytes(v) => Comparable::Bytes(v),
        // Without its sign the order of its bytes.
        DatumRef::Uuid(v) => Comparable::Number(i128::from_be_bytes(v) ^ i128::MIN),
        DatumRef::Float4(_) | DatumRef::Float8(_) | DatumRef::Interval(_) | DatumRef::External(_) => return None,
    })
}

/// `columns` of all rows, row by row; `None` if one of the values is not compared here.
pub(super) fn values<'a>(
    table: &Table,
    rows: &[Row<'a>],
    columns: impl Iterator<Item = usize> + Clone,
) -> Result<Option<Vec<Comparable<'a>>>, SqlError> {
    let mut values = Vec::with_capacity(rows.len() * columns.size_hint().0.max(1));
    for row in rows {
        for column in columns.clone() {
            let Some(value) = comparable(row.column(column)?, &table.columns[column].ty) else { return Ok(None) };
            values.push(value);
        }
    }
    Ok(Some(values))
}

/// How two values of a key of ORDER BY stand to each other.
pub(super) fn order(a: Comparable<'_>, b: Comparable<'_>, options: SortOptions) -> Ordering {
    let is_null = |value| value == Comparable::Null;
    match (is_null(a), is_null(b)) {
        (true, true) => Ordering::Equal,
        (true, false) if options.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if options.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if options.descending => b.cmp(&a),
        (false, false) => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_as_in_a_sort() {
        let text = |text| comparable(DatumRef::Text(text), &ColumnType::Text).expect("a text");
        let padded = |text| comparable(DatumRef::Text(text), &ColumnType::Char(4)).expect("a text");
        let uuid = |first: u8| comparable(DatumRef::Uuid([first; 16]), &ColumnType::Uuid).expect("a uuid");
        assert!(text("a") < text("a ") && padded("a   ") == padded("a") && padded("a") < padded("a\t"));
        assert!(uuid(0x7f) < uuid(0x80) && uuid(0) < uuid(0xff));
        assert_eq!(comparable(DatumRef::Float8(1.0), &ColumnType::Float8), None);
        let options = |descending, nulls_first| SortOptions { descending, nulls_first };
        for descending in [false, true] {
            assert_eq!(order(Comparable::Null, text("a"), options(descending, true)), Ordering::Less);
            assert_eq!(order(Comparable::Null, text("a"), options(descending, false)), Ordering::Greater);
        }
        assert_eq!(order(text("a"), text("b"), options(true, true)), Ordering::Greater);
    }
}
