//! How many bytes the rows of a batch have, to gather no more of them than fit.
//!
//! What is of fixed width is of no weight here: the number of rows bounds it.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;

/// Whether values of a type have a weight.
pub(crate) fn has_weight(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8View | DataType::BinaryView | DataType::Utf8 | DataType::Binary)
}

/// Adds the bytes of the rows `from` and up to `sums`, as many as it has.
fn add(column: &ArrayRef, from: usize, sums: &mut [usize]) {
    let mut lengths = |lengths: &mut dyn Iterator<Item = usize>| {
        for (sum, length) in sums.iter_mut().zip(lengths) {
            *sum += length;
        }
    };
    match column.data_type() {
        DataType::Utf8View => lengths(&mut column.as_string_view().lengths().skip(from).map(|length| length as usize)),
        DataType::BinaryView => {
            lengths(&mut column.as_binary_view().lengths().skip(from).map(|length| length as usize))
        }
        DataType::Utf8 => lengths(&mut column.as_string::<i32>().offsets().lengths().skip(from)),
        DataType::Binary => lengths(&mut column.as_binary::<i32>().offsets().lengths().skip(from)),
        _ => {}
    }
}

/// How many rows of a batch, from `from` and `rows` at most, have no more than `bytes` together; at
/// least one, if there is any.
pub(crate) fn fitting(batch: &RecordBatch, from: usize, rows: usize, bytes: usize) -> usize {
    let rows = batch.num_rows().saturating_sub(from).min(rows);
    let mut sums = vec![0usize; rows];
    for column in batch.columns() {
        add(column, from, &mut sums);
    }
    let mut together = 0usize;
    let fit = sums.iter().take_while(|sum| {
        together = together.saturating_add(**sum);
        together <= bytes
    });
    fit.count().max(1).min(rows)
}

/// Texts that are shorter are of no account.
const TEXT_BYTES_MIN: usize = 64 << 10;

/// About what reading, planning and running a statement's text takes at most, in bytes; 0 for one that is short. Measured: a
/// literal is copied some ten times on its way, an element of a list takes some hundred bytes.
pub(crate) fn of_text(text: &str) -> usize {
    const COPIES: usize = 10;
    const ELEMENT_BYTES: usize = 500;
    if text.len() < TEXT_BYTES_MIN {
        return 0;
    }
    let elements = text.bytes().filter(|byte| matches!(byte, b',' | b' ' | b'(')).count();
    text.len().saturating_mul(COPIES).saturating_add(elements.saturating_mul(ELEMENT_BYTES))
}

/// The bytes of all rows.
pub(crate) fn of(batch: &RecordBatch) -> usize {
    let mut sums = vec![0usize; batch.num_rows()];
    for column in batch.columns() {
        add(column, 0, &mut sums);
    }
    sums.into_iter().fold(0, usize::saturating_add)
}

/// About what a batch that is kept takes, in bytes. Values of several rows may be one in memory, and a batch may share what
/// its values are in with others: both ways to count give too much at times.
pub(crate) fn kept(batch: &RecordBatch) -> usize {
    of(batch).min(batch.get_array_memory_size())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{BinaryArray, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn rows_fit_by_their_bytes() {
        let texts: StringViewArray =
            [Some("0123456789"), None, Some("0123456789abcdef"), Some("")].into_iter().collect();
        let bytes: BinaryArray = [Some(&b"xx"[..]), Some(b""), None, Some(b"yyyy")].into_iter().collect();
        let numbers = Int64Array::from(vec![1, 2, 3, 4]);
        let columns: [(&str, ArrayRef); 3] = [("t", Arc::new(texts)), ("b", Arc::new(bytes)), ("n", Arc::new(numbers))];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).expect("a batch");
        assert_eq!(of(&batch), 10 + 16 + 2 + 4);
        assert_eq!(fitting(&batch, 0, 9, 12), 2);
        assert_eq!(fitting(&batch, 0, 9, 27), 2);
        assert_eq!(fitting(&batch, 0, 9, 28), 3);
        assert_eq!(fitting(&batch, 0, 1, 100), 1);
        // One is more than fits.
        assert_eq!(fitting(&batch, 2, 9, 3), 1);
        assert_eq!(fitting(&batch, 4, 9, 3), 0);
        assert_eq!(of(&batch.slice(1, 2)), 16);
    }
}
