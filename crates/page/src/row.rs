//! Row values: the columns of a row that are not in its key.
//!
//! ```text
//! 0 count u16       columns stored; bit 15: end offsets are u32
//! 2 null bitmap     one bit a column, (count+7)/8 bytes, least significant bit first
//!   fixed area      fixed-width columns in order, little-endian; a NULL is zero bytes
//!   end offsets     u16 or u32, one for each variable-width column: where its bytes end,
//!                   counted from the end of this array; top bit: the bytes are an
//!                   ExternalRef. A NULL ends where it starts
//!   variable area
//! ```
//!
//! # Invariants
//! 1. A column's place depends on the layout and `count` alone (and for variable width on the
//!    end offsets): reading one is O(1), and changing a fixed-width value changes its own
//!    bytes and at most its null bit.
//! 2. A row may store fewer columns than the layout (it was written before ADD COLUMN): the
//!    others read as NULL, and [`RowView::stored_columns`] tells the caller to use defaults.
//! 3. Offsets are u16 whenever the variable area is under 32 KiB: one value, one encoding.

use crate::types::{ColumnType, DatumRef, ExternalRef, Interval, NUMERIC_PRECISION_MAX};
use resurgam_base::limits::COLUMNS_MAX;
use resurgam_base::{Error, ErrorKind, Result};

const WIDE: u16 = 1 << 15;
const NARROW_MAX: usize = (1 << 15) - 1;
const WIDE_MAX: usize = (1 << 31) - 1;
pub(crate) const EXTERNAL_NARROW: u16 = 1 << 15;
const EXTERNAL_WIDE: u32 = 1 << 31;

const _: () = assert!(COLUMNS_MAX < WIDE as usize);

/// What a numeric of a precision is less than.
const NUMERIC_LIMITS: [u128; NUMERIC_PRECISION_MAX as usize + 1] = {
    let mut limits = [1; NUMERIC_PRECISION_MAX as usize + 1];
    let mut at = 1;
    while at < limits.len() {
        limits[at] = limits[at - 1] * 10;
        at += 1;
    }
    limits
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub ty: ColumnType,
    /// Of a value in the fixed area; 0: the column is of variable width.
    pub width: u8,
    /// Fixed width: offset in the fixed area.
    pub fixed_before: usize,
    /// Number of variable-width columns before this one.
    pub var_before: usize,
}

/// Where the columns of a table's rows are; made once for a table.
#[derive(Clone, Debug)]
pub struct RowLayout {
    pub(crate) columns: Box<[Column]>,
    pub(crate) fixed_total: usize,
    pub(crate) var_total: usize,
}

#[cold]
fn bad(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("row: {what}"))
}

#[cold]
fn mismatch(i: usize, ty: ColumnType, datum: &DatumRef<'_>) -> Error {
    Error::internal(format!("column {i} of type {ty} given a {}", datum.kind()))
}

impl RowLayout {
    /// The layout of rows with these columns. Dropped columns stay in it.
    pub fn new(types: &[ColumnType]) -> Self {
        let (mut fixed_total, mut var_total) = (0, 0);
        let columns = types
            .iter()
            .map(|&ty| {
                let width = ty.fixed_width().unwrap_or(0);
                let column = Column { ty, width: width as u8, fixed_before: fixed_total, var_before: var_total };
                fixed_total += width;
                var_total += usize::from(width == 0);
                column
            })
            .collect();
        Self { columns, fixed_total, var_total }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
    /// How many columns `row` stores; it may be of a later definition, which has more of them.
    ///
    /// # Errors
    /// `Corrupt`: it is too short to say.
    pub fn stored_columns(row: &[u8]) -> Result<usize> {
        let head = row.first_chunk::<2>().ok_or_else(|| bad("shorter than its column count"))?;
        Ok((u16::from_le_bytes(*head) & !WIDE) as usize)
    }
    /// Type of column `i`.
    pub fn column_type(&self, i: usize) -> Option<ColumnType> {
        self.columns.get(i).map(|column| column.ty)
    }

    /// Fixed bytes and variable columns of a row that stores `count` columns.
    #[inline]
    fn extent(&self, count: usize) -> (usize, usize) {
        match self.columns.get(count) {
            Some(column) => (column.fixed_before, column.var_before),
            None => (self.fixed_total, self.var_total),
        }
    }

    /// Bytes that [`RowLayout::encode`] appends for these values.
    pub fn encoded_len(&self, values: &[DatumRef<'_>]) -> usize {
        let var_bytes: usize = values.iter().map(var_bytes_len).sum();
        let end = if var_bytes > NARROW_MAX { 4 } else { 2 };
        2 + self.columns.len().div_ceil(8) + self.fixed_total + self.var_total * end + var_bytes
    }

    /// Appends a row; `values` has one value for each column.
    ///
    /// # Errors
    /// `Internal` if the values are not of the columns' types, `NumericOutOfRange` for a
    /// numeric beyond its precision, `LimitExceeded` for more than 2 GiB or 1600 columns.
    /// `out` is then as it was.
    pub fn encode(&self, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let result = self.encode_inner(values, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn encode_inner(&self, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        let count = self.columns.len();
        if values.len() != count {
            return Err(Error::internal(format!("{} values for {count} columns", values.len())));
        }
        if count > COLUMNS_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, format!("{count} columns; the maximum is {COLUMNS_MAX}")));
        }
        let var_bytes: usize =
            if self.var_total == 0 { 0 } else { values.iter().map(|value| var_bytes_len(value)).sum() };
        let wide = var_bytes > NARROW_MAX;
        if var_bytes > WIDE_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "row is longer than 2 GiB"));
        }
        let bitmap = out.len() + 2;
        let fixed = bitmap + count.div_ceil(8);
        let ends = fixed + self.fixed_total;
        let var = ends + self.var_total * if wide { 4 } else { 2 };
        out.reserve(var + var_bytes - out.len());
        out.extend_from_slice(&(count as u16 | if wide { WIDE } else { 0 }).to_le_bytes());
        out.resize(var, 0);
        for (i, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if value.is_null() {
                out[bitmap + i / 8] |= 1 << (i % 8);
            }
            match usize::from(column.width) {
                width @ 1.. => {
                    let at = fixed + column.fixed_before;
                    put_fixed(i, column.ty, value, &mut out[at..at + width])?;
                }
                0 => {
                    let external = put_var(i, column.ty, value, out)?;
                    let end = out.len() - var;
                    let n = column.var_before;
                    if wide {
                        let end = end as u32 | if external { EXTERNAL_WIDE } else { 0 };
                        out[ends + 4 * n..ends + 4 * n + 4].copy_from_slice(&end.to_le_bytes());
                    } else {
                        let end = end as u16 | if external { EXTERNAL_NARROW } else { 0 };
                        out[ends + 2 * n..ends + 2 * n + 2].copy_from_slice(&end.to_le_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks a row's frame, for reading several of its columns.
    #[inline]
    pub fn view<'a>(&'a self, row: &'a [u8]) -> Result<RowView<'a>> {
        let Some(head) = row.first_chunk::<2>() else {
            return Err(bad("shorter than its column count"));
        };
        let head = u16::from_le_bytes(*head);
        let (count, wide) = ((head & !WIDE) as usize, head & WIDE != 0);
        if count > self.columns.len() {
            return Err(bad(format_args!("stores {count} columns, the table has {}", self.columns.len())));
        }
        let (fixed_len, vars) = self.extent(count);
        let fixed = 2 + count.div_ceil(8);
        let ends = fixed + fixed_len;
        let var = ends + vars * if wide { 4 } else { 2 };
        if var > row.len() {
            return Err(bad(format_args!("{} bytes, its columns need {var}", row.len())));
        }
        Ok(RowView { layout: self, row, count, wide, fixed, ends, var })
    }

    /// Column `i` of a row; NULL if the row does not store it (see invariant 2).
    #[inline]
    pub fn column<'a>(&'a self, row: &'a [u8], i: usize) -> Result<DatumRef<'a>> {
        self.view(row)?.column(i)
    }
}

/// A row whose frame has been checked.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    layout: &'a RowLayout,
    row: &'a [u8],
    count: usize,
    wide: bool,
    fixed: usize,
    ends: usize,
    var: usize,
}

impl<'a> RowView<'a> {
    /// Number of columns that the row stores; later ones were added after it was written.
    #[inline]
    pub fn stored_columns(&self) -> usize {
        self.count
    }

    /// Whether column `i` is NULL or not stored.
    #[inline]
    pub fn is_null(&self, i: usize) -> bool {
        i >= self.count || self.row.get(2 + i / 8).is_none_or(|byte| byte >> (i % 8) & 1 == 1)
    }

    /// Column `i`; NULL if the row does not store it. `Internal` if the layout has no such
    /// column, `Corrupt` if the bytes make no value.
    #[inline]
    pub fn column(&self, i: usize) -> Result<DatumRef<'a>> {
        let Some(column) = self.layout.columns.get(i) else {
            return Err(Error::internal(format!("row has no column {i}")));
        };
        if self.is_null(i) {
            return Ok(DatumRef::Null);
        }
        if column.width == 0 {
            return self.variable(i, column);
        }
        let at = self.fixed + column.fixed_before;
        match self.row.get(at..at + usize::from(column.width)) {
            Some(bytes) => get_fixed(column.ty, bytes),
            None => Err(bad(format_args!("column {i} cut off"))),
        }
    }

    /// End offset and external flag of the n-th variable column.
    #[inline]
    fn end(&self, n: usize) -> Option<(usize, bool)> {
        if self.wide {
            let raw = u32::from_le_bytes(*self.row.get(self.ends + 4 * n..)?.first_chunk()?);
            Some(((raw & !EXTERNAL_WIDE) as usize, raw & EXTERNAL_WIDE != 0))
        } else {
            let raw = u16::from_le_bytes(*self.row.get(self.ends + 2 * n..)?.first_chunk()?);
            Some(((raw & !EXTERNAL_NARROW) as usize, raw & EXTERNAL_NARROW != 0))
        }
    }

    /// Large values that the row refers to; the values that are in it are not looked at.
    #[inline]
    pub fn externals(&self) -> Result<Vec<ExternalRef>> {
        let mut found = Vec::new();
        let (_, vars) = self.layout.extent(self.count);
        if (0..vars).all(|n| self.end(n).is_none_or(|(_, external)| !external)) {
            return Ok(found);
        }
        for (i, column) in self.layout.columns.iter().enumerate().take(self.count) {
            if column.width == 0
                && !self.is_null(i)
                && let (bytes, true) = self.bytes(i, column)?
            {
                found.push(ExternalRef::decode(bytes)?);
            }
        }
        Ok(found)
    }

    /// Bytes of a column of variable width, and whether they say where its value is.
    #[inline]
    fn bytes(&self, i: usize, column: &Column) -> Result<(&'a [u8], bool)> {
        let n = column.var_before;
        let start = if n == 0 { Some((0, false)) } else { self.end(n - 1) };
        let bytes = match (start, self.end(n)) {
            (Some((start, _)), Some((end, external))) => {
                let area = self.row.get(self.var..).unwrap_or(&[]);
                area.get(start..end).map(|bytes| (bytes, external))
            }
            _ => None,
        };
        bytes.ok_or_else(|| bad(format_args!("column {i} lies outside the row")))
    }

    #[inline]
    fn variable(&self, i: usize, column: &Column) -> Result<DatumRef<'a>> {
        let (bytes, external) = self.bytes(i, column)?;
        if external {
            return ExternalRef::decode(bytes).map(DatumRef::External);
        }
        if column.ty.is_text() {
            return match std::str::from_utf8(bytes) {
                Ok(text) => Ok(DatumRef::Text(text)),
                Err(_) => Err(bad(format_args!("column {i} is not UTF-8"))),
            };
        }
        Ok(DatumRef::Bytes(bytes))
    }
}

fn var_bytes_len(value: &DatumRef<'_>) -> usize {
    match value {
        DatumRef::Text(text) => text.len(),
        DatumRef::Bytes(bytes) => bytes.len(),
        DatumRef::External(_) => ExternalRef::SIZE,
        _ => 0,
    }
}

/// Appends a variable-width value; answers whether it is external.
fn put_var(i: usize, ty: ColumnType, value: &DatumRef<'_>, out: &mut Vec<u8>) -> Result<bool> {
    match value {
        DatumRef::Null => {}
        DatumRef::Text(text) if ty.is_text() => out.extend_from_slice(text.as_bytes()),
        DatumRef::Bytes(bytes) if ty.fixed_width().is_none() && !ty.is_text() => {
            out.extend_from_slice(bytes);
        }
        DatumRef::External(external) => {
            external.encode_into(out);
            return Ok(true);
        }
        _ => return Err(mismatch(i, ty, value)),
    }
    Ok(false)
}

#[inline]
pub(crate) fn put_fixed(i: usize, ty: ColumnType, value: &DatumRef<'_>, to: &mut [u8]) -> Result<()> {
    use ColumnType as T;
    match (ty, *value) {
        (_, DatumRef::Null) => {}
        (T::Bool, DatumRef::Bool(v)) => to.copy_from_slice(&[u8::from(v)]),
        (T::Int2, DatumRef::Int2(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (T::Int4, DatumRef::Int4(v)) | (T::Date, DatumRef::Date(v)) => {
            to.copy_from_slice(&v.to_le_bytes());
        }
        (T::Int8 | T::Enum(_), DatumRef::Int8(v))
        | (T::Time(_), DatumRef::Time(v))
        | (T::Timestamp(_), DatumRef::Timestamp(v))
        | (T::TimestampTz(_), DatumRef::TimestampTz(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (T::Float4, DatumRef::Float4(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (T::Float8, DatumRef::Float8(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (T::Uuid, DatumRef::Uuid(v)) => to.copy_from_slice(&v),
        (T::Interval(_), DatumRef::Interval(v)) => to.copy_from_slice(&v.to_bytes()),
        (T::Numeric { precision, .. }, DatumRef::Numeric(v)) => {
            if v.unsigned_abs() >= NUMERIC_LIMITS[usize::from(precision.min(NUMERIC_PRECISION_MAX))] {
                return Err(Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
                    .with_detail(format!("A field of type {ty} cannot hold the value.")));
            }
            let bytes = v.to_le_bytes();
            to.copy_from_slice(&bytes[..to.len()]);
        }
        (ty, value) => return Err(mismatch(i, ty, &value)),
    }
    Ok(())
}

/// The first N bytes; the caller has cut `bytes` to the type's width.
#[inline]
fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    match bytes.first_chunk() {
        Some(array) => Ok(*array),
        None => Err(bad("value cut off")),
    }
}

#[inline]
pub(crate) fn get_fixed<'a>(ty: ColumnType, bytes: &[u8]) -> Result<DatumRef<'a>> {
    use ColumnType as T;
    Ok(match ty {
        T::Bool => match bytes {
            [0] => DatumRef::Bool(false),
            [1] => DatumRef::Bool(true),
            _ => return Err(bad("boolean is neither 0 nor 1")),
        },
        T::Int2 => DatumRef::Int2(i16::from_le_bytes(array(bytes)?)),
        T::Int4 => DatumRef::Int4(i32::from_le_bytes(array(bytes)?)),
        T::Date => DatumRef::Date(i32::from_le_bytes(array(bytes)?)),
        T::Int8 | T::Enum(_) => DatumRef::Int8(i64::from_le_bytes(array(bytes)?)),
        T::Time(_) => DatumRef::Time(i64::from_le_bytes(array(bytes)?)),
        T::Timestamp(_) => DatumRef::Timestamp(i64::from_le_bytes(array(bytes)?)),
        T::TimestampTz(_) => DatumRef::TimestampTz(i64::from_le_bytes(array(bytes)?)),
        T::Float4 => DatumRef::Float4(f32::from_le_bytes(array(bytes)?)),
        T::Float8 => DatumRef::Float8(f64::from_le_bytes(array(bytes)?)),
        T::Uuid => DatumRef::Uuid(array(bytes)?),
        T::Interval(_) => DatumRef::Interval(Interval::from_bytes(array(bytes)?)),
        T::Numeric { .. } if bytes.len() == 8 => DatumRef::Numeric(i128::from(i64::from_le_bytes(array(bytes)?))),
        T::Numeric { .. } => DatumRef::Numeric(i128::from_le_bytes(array(bytes)?)),
        T::VarNumeric(_)
        | T::Text
        | T::Varchar(_)
        | T::Char(_)
        | T::Bytes
        | T::Ordered(_)
        | T::Json
        | T::Jsonb
        | T::Folded
        | T::Array(_) => {
            return Err(Error::internal("variable-width type in the fixed area"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff;
    use crate::types::{Datum, strategies};
    use proptest::prelude::*;
    use resurgam_base::PageId;

    fn encode(types: &[ColumnType], row: &[Datum]) -> Vec<u8> {
        let values: Vec<_> = row.iter().map(Datum::as_ref).collect();
        let mut out = Vec::new();
        RowLayout::new(types).encode(&values, &mut out).unwrap();
        out
    }

    /// Equality that takes NaN for equal to itself.
    fn same(a: &Datum, b: &Datum) -> bool {
        a == b || format!("{a:?}") == format!("{b:?}")
    }

    proptest! {
        #[test]
        fn rows_round_trip((types, rows) in strategies::rows(12, 1), added in strategies::column_type()) {
            let bytes = encode(&types, &rows[0]);
            // Read with one more column than was written, as after ADD COLUMN.
            let mut longer = types.clone();
            longer.push(added);
            for layout in [RowLayout::new(&types), RowLayout::new(&longer)] {
                let view = layout.view(&bytes).unwrap();
                prop_assert_eq!(view.stored_columns(), types.len());
                for (i, datum) in rows[0].iter().enumerate() {
                    let back = view.column(i).unwrap().to_owned();
                    prop_assert!(same(&back, datum), "{:?} {:?}", back, datum);
                    prop_assert_eq!(view.is_null(i), datum.is_null());
                }
                if layout.len() > types.len() {
                    prop_assert_eq!(view.column(types.len()).unwrap(), DatumRef::Null);
                }
                prop_assert!(view.column(layout.len()).is_err());
            }
        }

        #[test]
        fn damaged_rows_never_panic(
            (types, rows) in strategies::rows(6, 1),
            damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
            cut in any::<u16>(),
        ) {
            let mut bytes = encode(&types, &rows[0]);
            bytes.truncate(cut as usize % (2 * bytes.len()));
            for (at, byte) in damage {
                if !bytes.is_empty() {
                    let at = at as usize % bytes.len();
                    bytes[at] = byte;
                }
            }
            let layout = RowLayout::new(&types);
            for i in 0..layout.len() {
                let _ = layout.column(&bytes, i);
            }
        }
    }

    #[test]
    fn layout_is_the_documented_one() {
        use ColumnType::*;
        let row = [Datum::Int4(258), Datum::Text("hi".into()), Datum::Null, Datum::Bool(true)];
        let want: &[u8] = &[4, 0, 0b100, 2, 1, 0, 0, 1, 2, 0, 2, 0, b'h', b'i'];
        assert_eq!(encode(&[Int4, Text, Bytes, Bool], &row), want);
    }

    #[test]
    fn an_updated_int4_changes_four_bytes() {
        let types = [ColumnType::Text, ColumnType::Int4, ColumnType::Int8];
        let row = |v| [Datum::Text("abc".into()), Datum::Int4(v), Datum::Int8(7)];
        let (old, new) = (encode(&types, &row(0)), encode(&types, &row(-1)));
        assert_eq!(old.len(), new.len());
        assert_eq!(old.iter().zip(&new).filter(|(a, b)| a != b).count(), 4);
        let mut d = Vec::new();
        diff::diff(&new, &old, &mut d);
        assert!(d.len() <= 7);
    }

    #[test]
    fn long_rows_take_wide_offsets_and_externals_stay_narrow() {
        let types = [ColumnType::Text, ColumnType::Bytes];
        for len in [NARROW_MAX - 3, NARROW_MAX - 2, 200_000] {
            let row = [Datum::Text("x".repeat(len)), Datum::Bytes(vec![1, 2, 3])];
            let bytes = encode(&types, &row);
            assert_eq!(bytes[1] & 0x80 != 0, len > NARROW_MAX - 3, "{len}");
            let layout = RowLayout::new(&types);
            assert_eq!(layout.column(&bytes, 0).unwrap().to_owned(), row[0]);
            assert_eq!(layout.column(&bytes, 1).unwrap().to_owned(), row[1]);
        }
        let external = ExternalRef { len: 1 << 30, page: PageId(5), is_text: true };
        let row = [Datum::External(external), Datum::Bytes(vec![9])];
        let bytes = encode(&types, &row);
        assert!(bytes.len() < 30);
        let layout = RowLayout::new(&types);
        assert_eq!(layout.column(&bytes, 0).unwrap(), DatumRef::External(external));
        assert_eq!(layout.column(&bytes, 1).unwrap(), DatumRef::Bytes(&[9]));
    }

    #[test]
    fn errors_leave_the_buffer_alone() {
        let layout = RowLayout::new(&[ColumnType::Text, ColumnType::Numeric { precision: 3, scale: 1 }]);
        let mut out = vec![1];
        let kind = |values: &[DatumRef<'_>], out: &mut Vec<u8>| layout.encode(values, out).unwrap_err().kind();
        let text = DatumRef::Text("t");
        assert_eq!(kind(&[text], &mut out), ErrorKind::Internal);
        assert_eq!(kind(&[text, text], &mut out), ErrorKind::Internal);
        let big = DatumRef::Numeric(1000);
        assert_eq!(kind(&[text, big], &mut out), ErrorKind::NumericOutOfRange);
        assert_eq!(out, [1]);
        layout.encode(&[text, DatumRef::Numeric(-999)], &mut out).unwrap();
        assert_eq!(layout.column(&out[1..], 1).unwrap(), DatumRef::Numeric(-999));
    }
}
