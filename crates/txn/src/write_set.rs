//! What a transaction did, kept for undoing it.
//!
//! With persistent versions every row carries what undoes it, so a short transaction needs to
//! know only *which* rows it wrote ([`WriteSet`]): they are reverted when it rolls back, and it
//! leaves nothing behind. A long one stops counting and is marked as aborted instead. (The
//! paper undoes short transactions through the log, section 3.3.3; a list in memory serves the
//! same purpose without reading the log, and without keeping any of it.)
//!
//! In the traditional mode the log is what undoes a transaction ([`UndoChain`]), as in ARIES.

use std::collections::HashSet;

use resurgam_base::pauses::Mistake;
use resurgam_base::{Lsn, ObjectId, PageId};

/// A row that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WrittenRow<'a> {
    /// Root of its tree.
    pub root: PageId,
    pub object: ObjectId,
    pub key: &'a [u8],
}

#[derive(Clone, Copy)]
struct Span {
    root: PageId,
    object: ObjectId,
    end: u32,
}

/// The rows that a transaction wrote, as long as it is short.
#[derive(Default)]
pub struct WriteSet {
    rows: Vec<Span>,
    keys: Vec<u8>,
    log_bytes: u64,
    rows_max: u64,
    log_bytes_max: u64,
    long: bool,
}

impl WriteSet {
    pub(crate) fn new(rows_max: u64, log_bytes_max: u64) -> Self {
        Self { rows_max, log_bytes_max, long: rows_max == 0 || log_bytes_max == 0, ..Self::default() }
    }

    /// Notes a row and the bytes of log that writing it took.
    pub fn note(&mut self, row: WrittenRow<'_>, log_bytes: u64) {
        if self.long {
            return;
        }
        self.log_bytes += log_bytes;
        if self.rows.len() as u64 >= self.rows_max || self.log_bytes > self.log_bytes_max {
            self.give_up();
            return;
        }
        self.keys.extend_from_slice(row.key);
        self.rows.push(Span { root: row.root, object: row.object, end: self.keys.len() as u32 });
    }

    /// Treats the transaction as a long one from here on.
    pub fn give_up(&mut self) {
        self.long = true;
        self.rows = Vec::new();
        self.keys = Vec::new();
    }

    /// Rows noted so far; a place to go back to.
    pub fn mark(&self) -> usize {
        self.rows.len()
    }

    /// The rows noted since `mark`, each once; none when the transaction is long.
    ///
    /// They come in the order in which they are to be reverted: what was written *first* comes last, however often it was written
    /// again. A row is written before its index entries, so it comes after all of them: once it is reverted others may change it, and
    /// must not find an entry of it that is still this transaction's.
    pub fn since(&self, mark: usize) -> Option<impl Iterator<Item = WrittenRow<'_>>> {
        (!self.long).then(|| {
            let mut met = HashSet::new();
            let firsts: Vec<_> = (mark..self.rows.len())
                .map(|at| self.row(at))
                .filter(|row| met.insert(*row) || Mistake::LastWriteFirst.is_planted())
                .collect();
            firsts.into_iter().rev()
        })
    }

    fn row(&self, at: usize) -> WrittenRow<'_> {
        let start = if at == 0 { 0 } else { self.rows[at - 1].end };
        let Span { root, object, end } = self.rows[at];
        WrittenRow { root, object, key: &self.keys[start as usize..end as usize] }
    }

    /// Forgets what was noted since `mark`: it is undone.
    pub fn back_to(&mut self, mark: usize) {
        self.rows.truncate(mark);
        self.keys.truncate(self.rows.last().map_or(0, |span| span.end as usize));
    }
}

/// The chain of a transaction's undo records in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoChain {
    /// Its first record: the log is kept from here on.
    pub first: Lsn,
    /// The next one to be undone; none = nothing is left.
    pub last: Lsn,
}

impl UndoChain {
    /// Adds a record at `lsn`.
    pub fn push(&mut self, lsn: Lsn) {
        if self.first.is_none() {
            self.first = lsn;
        }
        self.last = lsn;
    }

    /// Bytes of log between what is undone next and the end of undoing.
    pub fn bytes_left(&self) -> u64 {
        self.last.0.saturating_sub(self.first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_chain() {
        let mut chain = UndoChain::default();
        assert_eq!(chain.bytes_left(), 0);
        chain.push(Lsn(100));
        chain.push(Lsn(350));
        assert_eq!((chain.first, chain.bytes_left()), (Lsn(100), 250));
        chain.last = Lsn::NONE;
        assert_eq!(chain.bytes_left(), 0);
    }

    #[test]
    fn what_was_written_first_comes_last() {
        let note = |write_set: &mut WriteSet, object, key| {
            write_set.note(WrittenRow { root: PageId(object), object: ObjectId(object as u32), key }, 1);
        };
        let mut write_set = WriteSet::new(100, 1000);
        // A row and its index entries, and the row once more, with other entries.
        for (object, key) in [(1, b"r"), (2, b"x"), (2, b"y"), (1, b"r"), (2, b"y"), (2, b"z")] {
            note(&mut write_set, object, key);
        }
        let rows =
            |mark| -> Vec<_> { write_set.since(mark).expect("short").map(|row| (row.object.0, row.key)).collect() };
        assert_eq!(rows(0), [(2, &b"z"[..]), (2, b"y"), (2, b"x"), (1, b"r")]);
        assert_eq!(rows(3), [(2, &b"z"[..]), (2, b"y"), (1, b"r")]);
    }

    #[test]
    fn a_short_list_and_a_long_one() {
        let row = |key| WrittenRow { root: PageId(9), object: ObjectId(3), key };
        let mut write_set = WriteSet::new(3, 1000);
        write_set.note(row(b"a"), 10);
        let mark = write_set.mark();
        write_set.note(row(b"bb"), 10);
        write_set.note(row(b""), 10);
        let keys = |write_set: &WriteSet, mark| {
            write_set.since(mark).map(|rows| rows.map(|r| r.key.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(keys(&write_set, 0), Some(vec![b"".to_vec(), b"bb".to_vec(), b"a".to_vec()]));
        assert_eq!(keys(&write_set, mark), Some(vec![b"".to_vec(), b"bb".to_vec()]));
        write_set.back_to(mark);
        write_set.note(row(b"c"), 10);
        assert_eq!(keys(&write_set, 0), Some(vec![b"c".to_vec(), b"a".to_vec()]));
        write_set.note(row(b"d"), 10);
        write_set.note(row(b"e"), 10);
        assert_eq!(keys(&write_set, 0), None, "too many rows");
        let mut write_set = WriteSet::new(100, 25);
        for _ in 0..3 {
            write_set.note(row(b"a"), 10);
        }
        assert_eq!(keys(&write_set, 0), None, "too much log");
        assert_eq!(keys(&WriteSet::new(0, 100), 0), None, "switched off");
    }
}
