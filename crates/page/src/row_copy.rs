//! Copying columns of a row into a row of another layout as bytes: no value is decoded.
//!
//! # Contract
//! 1. What [`RowCopy::copy`] appends is what decoding the columns and encoding them anew comes to, byte for byte.
//! 2. It is for rows as most of a table are: of all columns of their layout, with short offsets, no large value stored elsewhere, and no
//!    NULL where the other layout's columns take none. Of any other row, and of one that makes no sense, it says so and appends nothing: the
//!    caller decodes it, and learns what is wrong.
//! 3. Text that is not UTF-8 is copied as it is: whoever reads it is told.

use crate::row::{EXTERNAL_NARROW, RowLayout};

/// Some neighbouring bytes of the fixed area, or columns of the variable one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    len: usize,
}

impl Piece {
    /// Adds what is at `at`, to the last piece if it goes on there.
    fn put(pieces: &mut Vec<Piece>, at: usize, len: usize) {
        match pieces.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.at + last.len == at => last.len += len,
            _ => pieces.push(Piece { at, len }),
        }
    }
}

/// How rows of one layout become rows of another one; made once for many rows.
#[derive(Clone, Debug)]
pub struct RowCopy {
    /// Columns of the rows that are read: the first two bytes of each, with short offsets.
    head: [u8; 2],
    /// Where the fixed area, the end offsets and the variable area of those begin.
    fixed: usize,
    ends: usize,
    vars: usize,
    /// Bits of their bitmap: columns that must not be NULL.
    not_null: Box<[u8]>,
    /// The column that each column of a new row is.
    sources: Box<[usize]>,
    /// What the fixed area of a new row consists of.
    fixed_pieces: Vec<Piece>,
    /// Its columns of variable width, as numbers among those.
    var_pieces: Vec<Piece>,
    /// Bytes before the variable area of a new row.
    new_vars: usize,
}

impl RowCopy {
    /// A way from rows of `from` to rows of `to`, of which column `i` is column `sources[i].0` of the other, and may be NULL if
    /// `sources[i].1`. None: a column's type is another one there, there is no such column, or it is used twice.
    pub fn new(from: &RowLayout, to: &RowLayout, sources: &[(usize, bool)]) -> Option<Self> {
        let count = from.columns.len();
        if sources.len() != to.columns.len() {
            return None;
        }
        let mut not_null = vec![0u8; count.div_ceil(8)];
        let (mut fixed_pieces, mut var_pieces) = (Vec::new(), Vec::new());
        for (i, (at, nullable)) in sources.iter().enumerate() {
            let (source, column) = (from.columns.get(*at)?, &to.columns[i]);
            if source.ty != column.ty || sources[..i].iter().any(|(other, _)| other == at) {
                return None;
            }
            if !nullable {
                not_null[at / 8] |= 1 << (at % 8);
            }
            if source.width == 0 {
                Piece::put(&mut var_pieces, source.var_before, 1);
            } else {
                Piece::put(&mut fixed_pieces, source.fixed_before, source.width.into());
            }
        }
        let fixed = 2 + count.div_ceil(8);
        let ends = fixed + from.fixed_total;
        Some(Self {
            head: (count as u16).to_le_bytes(),
            fixed,
            ends,
            vars: ends + 2 * from.var_total,
            not_null: not_null.into(),
            sources: sources.iter().map(|(at, _)| *at).collect(),
            fixed_pieces,
            var_pieces,
            new_vars: 2 + to.columns.len().div_ceil(8) + to.fixed_total + 2 * to.var_total,
        })
    }

    /// Appends what becomes of `row`. False: it is not such a row, and nothing was appended.
    #[inline]
    pub fn copy(&self, row: &[u8], out: &mut Vec<u8>) -> bool {
        if row.len() < self.vars || row[..2] != self.head {
            return false;
        }
        let nulls = &row[2..self.fixed];
        if nulls.iter().zip(&self.not_null).any(|(nulls, not_null)| nulls & not_null != 0) {
            return false;
        }
        let (ends, vars) = (&row[self.ends..self.vars], &row[self.vars..]);
        let mut before = 0;
        for end in ends.chunks_exact(2) {
            let end = u16::from_le_bytes([end[0], end[1]]);
            if end & EXTERNAL_NARROW != 0 || end < before {
                return false;
            }
            before = end;
        }
        if usize::from(before) > vars.len() {
            return false;
        }
        let end_of = |n: usize| usize::from(u16::from_le_bytes([ends[2 * n], ends[2 * n + 1]]));
        let begin_of = |n: usize| if n == 0 { 0 } else { end_of(n - 1) };

        out.reserve(self.new_vars + vars.len());
        out.extend_from_slice(&(self.sources.len() as u16).to_le_bytes());
        let bitmap = out.len();
        out.resize(bitmap + self.sources.len().div_ceil(8), 0);
        if nulls.iter().any(|byte| *byte != 0) {
            for (i, source) in self.sources.iter().enumerate() {
                out[bitmap + i / 8] |= (nulls[source / 8] >> (source % 8) & 1) << (i % 8);
            }
        }
        for piece in &self.fixed_pieces {
            let at = self.fixed + piece.at;
            out.extend_from_slice(&row[at..at + piece.len]);
        }
        let mut len = 0;
        for piece in &self.var_pieces {
            let begin = begin_of(piece.at);
            for n in piece.at..piece.at + piece.len {
                out.extend_from_slice(&((len + end_of(n) - begin) as u16).to_le_bytes());
            }
            len += end_of(piece.at + piece.len - 1) - begin;
        }
        for piece in &self.var_pieces {
            out.extend_from_slice(&vars[begin_of(piece.at)..end_of(piece.at + piece.len - 1)]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{ColumnType, Datum, DatumRef, ExternalRef, strategies};
    use resurgam_base::PageId;

    fn encode(types: &[ColumnType], row: &[Datum]) -> Vec<u8> {
        let values: Vec<_> = row.iter().map(Datum::as_ref).collect();
        let mut out = Vec::new();
        RowLayout::new(types).encode(&values, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn a_copy_is_what_decoding_and_encoding_makes(
            (types, rows) in strategies::rows(20, 1),
            left_out in any::<u32>(), moved in any::<bool>(), refused in any::<u32>(),
        ) {
            let mut sources: Vec<usize> = (0..types.len()).filter(|at| left_out >> at & 1 == 0).collect();
            if moved {
                sources.reverse();
            }
            let from = RowLayout::new(&types);
            let new_types: Vec<_> = sources.iter().map(|at| types[*at]).collect();
            let nullable = |at: usize| refused >> at & 1 == 0;
            let with_nulls: Vec<_> = sources.iter().map(|at| (*at, nullable(*at))).collect();
            let copy = RowCopy::new(&from, &RowLayout::new(&new_types), &with_nulls).unwrap();
            let bytes = encode(&types, &rows[0]);
            let mut out = vec![7];
            let copied = copy.copy(&bytes, &mut out);
            let is_refused = sources.iter().any(|at| rows[0][*at].as_ref().is_null() && !nullable(*at));
            let external = rows[0].iter().any(|datum| matches!(datum, Datum::External(_)));
            let wide = bytes[1] & 0x80 != 0;
            prop_assert_eq!(copied, !is_refused && !external && !wide);
            let new_row: Vec<Datum> = sources.iter().map(|at| rows[0][*at].clone()).collect();
            if copied {
                prop_assert_eq!(&out[1..], &encode(&new_types, &new_row));
            } else {
                prop_assert_eq!(out, [7]);
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
            let all: Vec<_> = (0..types.len()).map(|at| (at, true)).collect();
            RowCopy::new(&layout, &layout, &all).unwrap().copy(&bytes, &mut Vec::new());
        }
    }

    #[test]
    fn rows_that_are_not_copied() {
        let types = [ColumnType::Text, ColumnType::Int4, ColumnType::Bytes];
        let layout = RowLayout::new(&types);
        let copy = RowCopy::new(&layout, &layout, &[(0, false), (1, true), (2, true)]).unwrap();
        let is_copied = |row: &[Datum]| copy.copy(&encode(&types[..row.len()], row), &mut Vec::new());
        let (text, number) = (Datum::Text("t".into()), Datum::Int4(1));
        let external = Datum::External(ExternalRef { len: 1 << 20, page: PageId(5), is_text: false });
        assert!(is_copied(&[text.clone(), Datum::Null, Datum::Bytes(vec![1])]));
        // NULL where there must be none; a large value; a row from before a column was added; long offsets.
        assert!(!is_copied(&[Datum::Null, number.clone(), Datum::Null]));
        assert!(!is_copied(&[text.clone(), number.clone(), external]));
        assert!(!is_copied(&[text.clone(), number.clone()]));
        assert!(!is_copied(&[text, number, Datum::Bytes(vec![0; 40_000])]));
    }

    #[test]
    fn ways_that_there_are_not() {
        let from = RowLayout::new(&[ColumnType::Int4, ColumnType::Text]);
        let to = RowLayout::new(&[ColumnType::Text, ColumnType::Int8]);
        assert!(RowCopy::new(&from, &to, &[(1, true), (0, true)]).is_none());
        assert!(RowCopy::new(&from, &to, &[(1, true)]).is_none());
        let twice = RowLayout::new(&[ColumnType::Text, ColumnType::Text]);
        assert!(RowCopy::new(&from, &twice, &[(1, true), (1, true)]).is_none());
        assert!(RowCopy::new(&from, &twice, &[(1, true), (2, true)]).is_none());
        let copy = RowCopy::new(&from, &RowLayout::new(&[ColumnType::Text]), &[(1, true)]).unwrap();
        let mut out = Vec::new();
        let mut row = Vec::new();
        from.encode(&[DatumRef::Int4(1), DatumRef::Text("hi")], &mut row).unwrap();
        assert!(copy.copy(&row, &mut out));
        assert_eq!(out, [1, 0, 0, 2, 0, b'h', b'i']);
    }
}
