//! Order-preserving keys: comparing the bytes compares the values.
//!
//! A key is its columns one after another; each column is a marker byte and, unless
//! NULL, the value:
//! ```text
//! marker 1 not null, 2 null        so NULL sorts last ascending, as in PostgreSQL
//!        0 null                    in a column whose NULLs are at the other end
//! bool             1 byte
//! int2/4/8, date, time, timestamps big-endian, sign bit flipped
//! numeric          i128 big-endian, sign bit flipped
//! float4/8         bits big-endian; sign bit flipped if positive, all bits if negative;
//!                  -0 is stored as 0, every NaN as one NaN above all numbers
//! text, bytes      0x00 -> 0x00 0xFF; terminator 0x00 0x00
//! var numeric      as bytes, without the display scale at its end: values that are equal have one key
//! uuid             16 bytes
//! interval         i128 big-endian, sign bit flipped: its length, of which a month has 30 days
//! array            each element as a column of its own, marker included (NULL is above all), then 0x00
//! jsonb            as bytes, its order key
//! folded           as text, what it is compared by
//! ```
//! A descending column has all its bytes, marker included, inverted (so a NULL of marker 2 comes first).
//!
//! # Invariants
//! 1. `a < b` (column by column) if and only if `encode(a) < encode(b)`.
//! 2. The encoding of the first columns is a prefix of the encoding of them all, and of
//!    no other key's: a column's bytes tell where it ends.
//! 3. A key is decoded from its bytes and types alone (except that -0 comes back as 0, and a var numeric
//!    with a display scale of 0, whatever its digits are; an interval as another of the same length; a jsonb as the
//!    bytes of its order key; a folded text as the one that shows what it is compared by).

use crate::array::{self, ArrayView};
use crate::document;
use crate::folded;
use crate::types::{ColumnType, DISPLAY_SCALE_BYTES, Datum, DatumRef, Interval};
use resurgam_base::limits::KEY_BYTES_MAX;
use resurgam_base::{Error, ErrorKind, Result};

const NULL_BELOW: u8 = 0;
const NOT_NULL: u8 = 1;
const NULL: u8 = 2;
const TERMINATOR: u8 = 0;
const ESCAPED: u8 = 0xff;
/// Below the markers of elements: of two arrays the one that ends first comes first.
const ARRAY_END: u8 = 0;

/// In which order a key column has its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnOrder {
    pub descending: bool,
    /// NULLs come before all values, else behind them.
    pub nulls_first: bool,
}

impl ColumnOrder {
    /// Ascending with NULLs last, as is usual.
    pub const ASCENDING: Self = Self { descending: false, nulls_first: false };
    /// Descending with NULLs first: the exact reverse.
    pub const DESCENDING: Self = Self { descending: true, nulls_first: true };

    /// The order in which a walk from the end meets the values.
    pub const fn reversed(self) -> Self {
        Self { descending: !self.descending, nulls_first: !self.nulls_first }
    }
    /// What each byte is combined with by exclusive or.
    const fn flip(self) -> u8 {
        if self.descending { 0xff } else { 0 }
    }
    /// The marker of NULL, before it is inverted.
    const fn null(self) -> u8 {
        if self.descending == self.nulls_first { NULL } else { NULL_BELOW }
    }
}

/// Type and order of a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyColumn {
    pub ty: ColumnType,
    pub order: ColumnOrder,
}

impl KeyColumn {
    pub const fn ascending(ty: ColumnType) -> Self {
        Self { ty, order: ColumnOrder::ASCENDING }
    }
    pub const fn descending(ty: ColumnType) -> Self {
        Self { ty, order: ColumnOrder::DESCENDING }
    }
}

impl From<ColumnType> for KeyColumn {
    fn from(ty: ColumnType) -> Self {
        Self::ascending(ty)
    }
}

/// Bytes of a value in a key without its marker; `None` = until the terminator.
const fn width(ty: ColumnType) -> Option<usize> {
    match ty {
        ColumnType::Numeric { .. } | ColumnType::Interval(_) => Some(16),
        ty => ty.fixed_width(),
    }
}

// ---- encoding ---------------------------------------------------------------------------

/// Appends the key of `values`; fewer values than `types` make a prefix.
///
/// # Errors
/// `LimitExceeded` if the key passes [`KEY_BYTES_MAX`] or a value is external,
/// `Internal` if a value is not of its column's type. `out` is then as it was.
pub fn encode(values: &[DatumRef<'_>], types: &[KeyColumn], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let result = encode_columns(values, types, out).and_then(|()| match out.len() - start {
        0..=KEY_BYTES_MAX => Ok(()),
        len => Err(too_long(len)),
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

#[cold]
fn too_long(len: usize) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!("key of {len} bytes is longer than the maximum of {KEY_BYTES_MAX} bytes"),
    )
    .with_hint("Values this long cannot be indexed; consider an index on a hash of the value.")
}

fn encode_columns(values: &[DatumRef<'_>], types: &[KeyColumn], out: &mut Vec<u8>) -> Result<()> {
    if values.len() > types.len() {
        return Err(Error::internal(format!("{} values for a key of {} columns", values.len(), types.len())));
    }
    for (value, column) in values.iter().zip(types) {
        let start = out.len();
        match value {
            DatumRef::Null => out.push(column.order.null()),
            value => encode_column(value, column.ty, KEY_BYTES_MAX, out)?,
        }
        if column.order.descending {
            out[start..].iter_mut().for_each(|b| *b = !*b);
        }
    }
    Ok(())
}

/// Appends the ascending key of a value that is not NULL, however long: to compare by, not to be kept.
///
/// # Errors
/// `Internal` if the value is not of the type, `Corrupt` if it cannot be read. `out` then has a part of it.
pub fn encode_unbounded(value: DatumRef<'_>, ty: ColumnType, out: &mut Vec<u8>) -> Result<()> {
    encode_column(&value, ty, usize::MAX, out)
}

/// The key of one ascending `int4` column.
#[inline]
pub fn int4(value: i32) -> [u8; 5] {
    let [a, b, c, d] = ((value as u32) ^ (1 << 31)).to_be_bytes();
    [NOT_NULL, a, b, c, d]
}

/// The key of one ascending `int8` column.
#[inline]
pub fn int8(value: i64) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = ((value as u64) ^ (1 << 63)).to_be_bytes();
    [NOT_NULL, a, b, c, d, e, f, g, h]
}

fn ordered_f32(value: f32) -> u32 {
    let value = if value.is_nan() { f32::NAN } else { value };
    let bits = (if value == 0.0 { 0.0 } else { value }).to_bits();
    let bits = if value.is_nan() { bits & !(1 << 31) } else { bits };
    if bits >> 31 == 0 { bits ^ (1 << 31) } else { !bits }
}

fn ordered_f64(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value };
    let bits = (if value == 0.0 { 0.0 } else { value }).to_bits();
    let bits = if value.is_nan() { bits & !(1 << 63) } else { bits };
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// A value that is not NULL.
#[inline]
fn encode_column(value: &DatumRef<'_>, ty: ColumnType, max: usize, out: &mut Vec<u8>) -> Result<()> {
    use ColumnType as T;
    match (ty, *value) {
        (T::Int4, DatumRef::Int4(v)) | (T::Date, DatumRef::Date(v)) => {
            out.extend_from_slice(&int4(v));
        }
        (T::Int8 | T::Enum(_), DatumRef::Int8(v))
        | (T::Time(_), DatumRef::Time(v))
        | (T::Timestamp(_), DatumRef::Timestamp(v))
        | (T::TimestampTz(_), DatumRef::TimestampTz(v)) => out.extend_from_slice(&int8(v)),
        (T::Bool, DatumRef::Bool(v)) => out.extend_from_slice(&[NOT_NULL, u8::from(v)]),
        (T::Int2, DatumRef::Int2(v)) => {
            let [a, b] = ((v as u16) ^ (1 << 15)).to_be_bytes();
            out.extend_from_slice(&[NOT_NULL, a, b]);
        }
        (T::Numeric { .. }, DatumRef::Numeric(v)) => {
            out.push(NOT_NULL);
            out.extend_from_slice(&((v as u128) ^ (1 << 127)).to_be_bytes());
        }
        (T::Float4, DatumRef::Float4(v)) => {
            out.push(NOT_NULL);
            out.extend_from_slice(&ordered_f32(v).to_be_bytes());
        }
        (T::Float8, DatumRef::Float8(v)) => {
            out.push(NOT_NULL);
            out.extend_from_slice(&ordered_f64(v).to_be_bytes());
        }
        (T::Uuid, DatumRef::Uuid(v)) => {
            out.push(NOT_NULL);
            out.extend_from_slice(&v);
        }
        (ty, DatumRef::Text(v)) if ty.is_text() => put_escaped(v.as_bytes(), max, out)?,
        (T::Bytes | T::Ordered(_), DatumRef::Bytes(v)) => put_escaped(v, max, out)?,
        (T::Interval(_), DatumRef::Interval(v)) => {
            out.push(NOT_NULL);
            out.extend_from_slice(&((v.span() as u128) ^ (1 << 127)).to_be_bytes());
        }
        (T::Jsonb, DatumRef::Bytes(v)) => {
            let mut order = Vec::new();
            document::order_key(v, &mut order)?;
            put_escaped(&order, max, out)?;
        }
        (T::Folded, DatumRef::Bytes(v)) => put_escaped(folded::decode(v)?.key, max, out)?,
        (T::Array(element), DatumRef::Bytes(v)) => {
            let ty = element.column_type();
            let start = out.len();
            out.push(NOT_NULL);
            for element in ArrayView::new(v, ty)?.iter() {
                match element? {
                    DatumRef::Null => out.push(NULL),
                    element => encode_column(&element, ty, max, out)?,
                }
                if out.len() - start > max {
                    return Err(too_long(out.len() - start));
                }
            }
            out.push(ARRAY_END);
        }
        (T::VarNumeric(_), DatumRef::Bytes(v)) => match v.len().checked_sub(DISPLAY_SCALE_BYTES) {
            Some(len) => put_escaped(&v[..len], max, out)?,
            None => return Err(Error::internal("a numeric without a display scale")),
        },
        (_, DatumRef::External(e)) => {
            return Err(too_long(usize::try_from(e.len).unwrap_or(usize::MAX)));
        }
        (ty, value) => {
            return Err(Error::internal(format!("key column {ty} given a {}", value.kind())));
        }
    }
    Ok(())
}

fn put_escaped(bytes: &[u8], max: usize, out: &mut Vec<u8>) -> Result<()> {
    if bytes.len() > max {
        return Err(too_long(bytes.len()));
    }
    out.reserve(bytes.len() + 3);
    out.push(NOT_NULL);
    if bytes.contains(&0) {
        let mut parts = bytes.split(|&b| b == 0);
        out.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            out.extend_from_slice(&[0, ESCAPED]);
            out.extend_from_slice(part);
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[TERMINATOR, TERMINATOR]);
    Ok(())
}

// ---- decoding ---------------------------------------------------------------------------

/// A decoded key column: borrowed from the key where its bytes allow that.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyDatum<'a> {
    Ref(DatumRef<'a>),
    /// Text or bytes that had to be unescaped or inverted.
    Owned(Datum),
}

impl KeyDatum<'_> {
    /// The value, borrowed.
    pub fn as_ref(&self) -> DatumRef<'_> {
        match self {
            Self::Ref(datum) => *datum,
            Self::Owned(datum) => datum.as_ref(),
        }
    }
    /// The value, owned.
    pub fn into_owned(self) -> Datum {
        match self {
            Self::Ref(datum) => datum.to_owned(),
            Self::Owned(datum) => datum,
        }
    }
}

#[cold]
fn bad(what: &str, at: usize) -> Error {
    Error::corrupt(format!("key: {what} at byte {at}"))
}

/// End of the column that starts at `at`.
fn column_end(key: &[u8], column: KeyColumn, at: usize) -> Result<usize> {
    let flip = column.order.flip();
    match key.get(at).map(|b| b ^ flip) {
        Some(NOT_NULL) => {}
        Some(marker) if marker == column.order.null() => return Ok(at + 1),
        Some(_) => return Err(bad("unknown marker", at)),
        None => return Err(bad("column missing", at)),
    }
    let body = at + 1;
    if let ColumnType::Array(element) = column.ty {
        // Elements stand as columns whose NULLs are last, inverted with the array.
        let nulls_first = column.order.descending;
        let order = ColumnOrder { descending: column.order.descending, nulls_first };
        let element = KeyColumn { ty: element.column_type(), order };
        let mut pos = body;
        loop {
            match key.get(pos).map(|b| b ^ flip) {
                Some(ARRAY_END) => return Ok(pos + 1),
                // No type of elements is an array, so this goes no deeper.
                Some(_) => pos = column_end(key, element, pos)?,
                None => return Err(bad("array without an end", at)),
            }
        }
    }
    if let Some(width) = width(column.ty) {
        return if body + width <= key.len() { Ok(body + width) } else { Err(bad("column cut off", at)) };
    }
    let mut pos = body;
    while let Some(zero) = key[pos..].iter().position(|b| b ^ flip == 0) {
        match key.get(pos + zero + 1).map(|b| b ^ flip) {
            Some(TERMINATOR) => return Ok(pos + zero + 2),
            Some(ESCAPED) => pos += zero + 2,
            _ => return Err(bad("bad escape", pos + zero)),
        }
    }
    Err(bad("text without an end", at))
}

/// Offset of column `i`; `types.len()` gives the key's end.
pub fn column_offset(key: &[u8], types: &[KeyColumn], i: usize) -> Result<usize> {
    let mut at = 0;
    for column in types.iter().take(i) {
        at = column_end(key, *column, at)?;
    }
    Ok(at)
}

fn inverted<const N: usize>(bytes: &[u8], flip: u8) -> [u8; N] {
    let mut out = [0; N];
    for (out, byte) in out.iter_mut().zip(bytes) {
        *out = byte ^ flip;
    }
    out
}

/// The value whose column is exactly `bytes`, marker included.
fn decode_one<'a>(bytes: &'a [u8], column: KeyColumn, at: usize) -> Result<KeyDatum<'a>> {
    use ColumnType as T;
    let flip = column.order.flip();
    let Some((marker, body)) = bytes.split_first() else {
        return Err(bad("column missing", at));
    };
    if marker ^ flip == column.order.null() {
        return Ok(KeyDatum::Ref(DatumRef::Null));
    }
    let int4 = || (u32::from_be_bytes(inverted(body, flip)) ^ (1 << 31)) as i32;
    let int8 = || (u64::from_be_bytes(inverted(body, flip)) ^ (1 << 63)) as i64;
    Ok(KeyDatum::Ref(match column.ty {
        T::Bool => match body.first().map(|b| b ^ flip) {
            Some(0) => DatumRef::Bool(false),
            Some(1) => DatumRef::Bool(true),
            _ => return Err(bad("bad boolean", at)),
        },
        T::Int2 => DatumRef::Int2((u16::from_be_bytes(inverted(body, flip)) ^ (1 << 15)) as i16),
        T::Int4 => DatumRef::Int4(int4()),
        T::Date => DatumRef::Date(int4()),
        T::Int8 | T::Enum(_) => DatumRef::Int8(int8()),
        T::Time(_) => DatumRef::Time(int8()),
        T::Timestamp(_) => DatumRef::Timestamp(int8()),
        T::TimestampTz(_) => DatumRef::TimestampTz(int8()),
        T::Numeric { .. } => DatumRef::Numeric((u128::from_be_bytes(inverted(body, flip)) ^ (1 << 127)) as i128),
        T::Float4 => {
            let bits = u32::from_be_bytes(inverted(body, flip));
            let bits = if bits >> 31 == 1 { bits ^ (1 << 31) } else { !bits };
            DatumRef::Float4(f32::from_bits(bits))
        }
        T::Float8 => {
            let bits = u64::from_be_bytes(inverted(body, flip));
            let bits = if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits };
            DatumRef::Float8(f64::from_bits(bits))
        }
        T::Uuid => DatumRef::Uuid(inverted(body, flip)),
        T::Interval(_) => {
            let span = (u128::from_be_bytes(inverted(body, flip)) ^ (1 << 127)) as i128;
            DatumRef::Interval(Interval::of_span(span))
        }
        T::Array(element) => {
            let ty = element.column_type();
            let order = ColumnOrder { descending: column.order.descending, nulls_first: column.order.descending };
            let element = KeyColumn { ty, order };
            let mut elements = Vec::new();
            let mut pos = 1;
            while bytes.get(pos).is_some_and(|b| b ^ flip != ARRAY_END) {
                let end = column_end(bytes, element, pos)?;
                elements.push(decode_one(&bytes[pos..end], element, at + pos)?.into_owned());
                pos = end;
            }
            let refs: Vec<_> = elements.iter().map(Datum::as_ref).collect();
            let mut out = Vec::new();
            array::encode(&refs, ty, &mut out)?;
            return Ok(KeyDatum::Owned(Datum::Bytes(out)));
        }
        T::Bytes
        | T::Ordered(_)
        | T::Jsonb
        | T::VarNumeric(_)
        | T::Folded
        | T::Text
        | T::Varchar(_)
        | T::Char(_)
        | T::Json => {
            let Some(body) = body.len().checked_sub(2).and_then(|len| body.get(..len)) else {
                return Err(bad("text cut off", at));
            };
            return decode_text(body, column, at);
        }
    }))
}

fn decode_text<'a>(body: &'a [u8], column: KeyColumn, at: usize) -> Result<KeyDatum<'a>> {
    let utf8 = |_| bad("text is not UTF-8", at);
    // What a value has behind what is compared.
    let tail: &[u8] = match column.ty {
        ColumnType::VarNumeric(_) => &[0; DISPLAY_SCALE_BYTES],
        ColumnType::Folded => &[folded::AS_IT_IS],
        _ => &[],
    };
    if !column.order.descending && tail.is_empty() && !body.contains(&0) {
        return Ok(KeyDatum::Ref(if column.ty.is_text() {
            DatumRef::Text(std::str::from_utf8(body).map_err(utf8)?)
        } else {
            DatumRef::Bytes(body)
        }));
    }
    let flip = column.order.flip();
    let mut out = Vec::with_capacity(body.len());
    let mut bytes = body.iter().map(|b| b ^ flip);
    while let Some(byte) = bytes.next() {
        out.push(byte);
        if byte == 0 {
            bytes.next();
        }
    }
    out.extend_from_slice(tail);
    Ok(KeyDatum::Owned(if column.ty.is_text() {
        Datum::Text(String::from_utf8(out).map_err(|e| utf8(e.utf8_error()))?)
    } else {
        Datum::Bytes(out)
    }))
}

/// All columns of a key. `Corrupt` if the bytes are not a key of `types`, no more, no less.
pub fn decode(key: &[u8], types: &[KeyColumn]) -> Result<Vec<Datum>> {
    let mut out = Vec::with_capacity(types.len());
    let mut at = 0;
    for column in types {
        let end = column_end(key, *column, at)?;
        out.push(decode_one(&key[at..end], *column, at)?.into_owned());
        at = end;
    }
    if at != key.len() {
        return Err(bad("bytes left over", at));
    }
    Ok(out)
}

/// Column `i` of a key, without allocation unless text has to be unescaped.
pub fn decode_column<'a>(key: &'a [u8], types: &[KeyColumn], i: usize) -> Result<KeyDatum<'a>> {
    let Some(column) = types.get(i) else {
        return Err(Error::internal(format!("key of {} columns has no column {i}", types.len())));
    };
    let at = column_offset(key, types, i)?;
    let end = column_end(key, *column, at)?;
    decode_one(&key[at..end], *column, at)
}

/// The smallest byte string above `key`.
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    out.extend_from_slice(key);
    out.push(0);
    out
}

/// The smallest byte string above every string that starts with `prefix`; `None` if there is
/// none (the prefix is empty or all 0xFF).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut out = prefix[..=last].to_vec();
    out[last] += 1;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::strategies;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn refs(row: &[Datum]) -> Vec<DatumRef<'_>> {
        row.iter().map(Datum::as_ref).collect()
    }

    fn compare_values(a: &Datum, b: &Datum, ty: ColumnType) -> Ordering {
        let (ColumnType::Array(element), Datum::Bytes(a), Datum::Bytes(b)) = (ty, a, b) else {
            return a.as_ref().key_cmp(&b.as_ref()).unwrap();
        };
        let ty = element.column_type();
        let (a, b) = (ArrayView::new(a, ty).unwrap(), ArrayView::new(b, ty).unwrap());
        for (a, b) in a.iter().zip(b.iter()) {
            let order = compare_values(&a.unwrap().to_owned(), &b.unwrap().to_owned(), ty);
            if order.is_ne() {
                return order;
            }
        }
        a.len().cmp(&b.len())
    }

    fn compare(a: &[Datum], b: &[Datum], types: &[KeyColumn]) -> Ordering {
        for ((a, b), ty) in a.iter().zip(b).zip(types) {
            let order = match (a.as_ref().is_null(), b.as_ref().is_null()) {
                (false, false) => {
                    let order = compare_values(a, b, ty.ty);
                    if ty.order.descending { order.reverse() } else { order }
                }
                (a, b) if ty.order.nulls_first => b.cmp(&a),
                (a, b) => a.cmp(&b),
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    proptest! {
        #[test]
        fn order_of_keys_is_order_of_values(
            (types, rows) in strategies::rows(3, 2), orders: [(bool, bool); 3], cut in 0..4usize,
        ) {
            let types: Vec<_> = types
                .iter()
                .zip(orders)
                .map(|(&ty, (descending, nulls_first))| KeyColumn { ty, order: ColumnOrder { descending, nulls_first } })
                .collect();
            let mut keys = Vec::new();
            for row in &rows {
                let mut key = Vec::new();
                encode(&refs(row), &types, &mut key).unwrap();
                let back = decode(&key, &types).unwrap();
                prop_assert_eq!(compare(&back, row, &types), Ordering::Equal);
                for (i, datum) in back.iter().enumerate() {
                    let column = decode_column(&key, &types, i).unwrap().into_owned();
                    prop_assert_eq!(compare(&[column], std::slice::from_ref(datum), &types[i..]), Ordering::Equal);
                }
                prop_assert_eq!(column_offset(&key, &types, types.len()).unwrap(), key.len());
                let cut = cut.min(types.len());
                let mut prefix = Vec::new();
                encode(&refs(&row[..cut]), &types, &mut prefix).unwrap();
                prop_assert!(key.starts_with(&prefix));
                keys.push(key);
            }
            prop_assert_eq!(keys[0].cmp(&keys[1]), compare(&rows[0], &rows[1], &types));
        }

        #[test]
        fn random_bytes_never_panic(
            key in proptest::collection::vec(any::<u8>(), 0..40),
            markers in proptest::collection::vec((0usize..40, 0u8..3), 0..4),
            types in proptest::collection::vec(strategies::column_type(), 1..4),
            descending: bool, nulls_first: bool,
        ) {
            let mut key = key;
            for (at, marker) in markers {
                if let Some(byte) = key.get_mut(at) {
                    *byte = marker;
                }
            }
            let types: Vec<_> = types
                .iter()
                .map(|&ty| KeyColumn { ty, order: ColumnOrder { descending, nulls_first } })
                .collect();
            let _ = decode(&key, &types);
            for i in 0..5 {
                let _ = decode_column(&key, &types, i);
            }
        }

        #[test]
        fn prefix_end_is_the_least_above(
            prefix in proptest::collection::vec(prop_oneof![Just(0xffu8), 0..3u8], 0..5),
            rest in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            match prefix_end(&prefix) {
                None => prop_assert!(prefix.iter().all(|&b| b == 0xff)),
                Some(end) => {
                    prop_assert!([&prefix[..], &rest].concat() < end);
                    prop_assert!(!end.starts_with(&prefix));
                    // Nothing between: one step down is a string that starts with the prefix.
                    let mut below = end.clone();
                    *below.last_mut().unwrap() -= 1;
                    prop_assert!(prefix.starts_with(&below));
                }
            }
        }
    }

    #[test]
    fn nan_is_greatest_and_null_last() {
        let key = |datum, ty| {
            let mut out = Vec::new();
            encode(&[datum], &[KeyColumn::ascending(ty)], &mut out).unwrap();
            out
        };
        let f8 = |v| key(DatumRef::Float8(v), ColumnType::Float8);
        let f4 = |v| key(DatumRef::Float4(v), ColumnType::Float4);
        assert!(f8(-f64::NAN) > f8(f64::INFINITY));
        assert!(f4(-f32::NAN) > f4(f32::INFINITY));
        assert_eq!(f8(-f64::NAN), f8(f64::NAN));
        assert_eq!(f4(-f32::NAN), f4(f32::NAN));
        assert_eq!(f8(-0.0), f8(0.0));
        assert_eq!(f4(-0.0), f4(0.0));
        assert!(key(DatumRef::Null, ColumnType::Float8) > f8(f64::NAN));
        assert!(key(DatumRef::Null, ColumnType::Float4) > f4(f32::NAN));
    }

    #[test]
    fn limits_and_mismatches_leave_the_buffer_alone() {
        let types = [KeyColumn::ascending(ColumnType::Text)];
        let mut out = vec![9];
        let long = "x".repeat(KEY_BYTES_MAX - 2);
        let error = encode(&[DatumRef::Text(&long)], &types, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        let error = encode(&[DatumRef::Int4(1)], &types, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(out, [9]);
        encode(&[DatumRef::Text(&long[1..])], &types, &mut out).unwrap();
        assert_eq!(out.len(), 1 + KEY_BYTES_MAX);
    }

    #[test]
    fn fast_paths_agree() {
        for v in [i32::MIN, -1, 0, 1, i32::MAX] {
            let mut out = Vec::new();
            encode(&[DatumRef::Int4(v)], &[ColumnType::Int4.into()], &mut out).unwrap();
            assert_eq!(out, int4(v));
            out.clear();
            let v = i64::from(v) << 20;
            encode(&[DatumRef::Int8(v)], &[ColumnType::Int8.into()], &mut out).unwrap();
            assert_eq!(out, int8(v));
        }
    }
}
