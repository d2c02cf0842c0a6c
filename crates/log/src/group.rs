//! A group under construction: the records of one atomic step.
//!
//! The records lie back to back in one buffer, encoded except for what is only
//! known when the group gets its place in the log: distances from the block
//! start, and links between records *of this group*. When two records of a group
//! touch the same page (or belong to the same transaction), the later one is
//! linked to the earlier one, whatever previous LSN the caller gave.

use resurgam_base::{Lsn, ObjectId, PageId, TxId};

use crate::record::{
    FLAG_FIRST, FLAG_LAST, FLAGS_AT, OFFSET_AT, PREV_PAGE_AT, PREV_TX_AT, RECORD_HEADER_BYTES, RecordHeader, RecordKind,
};

struct Entry {
    /// Where the record starts in the buffer.
    at: u32,
    tx: TxId,
    page: PageId,
}

/// A link to be filled in: the field at `at` becomes the LSN of record `target`.
struct Link {
    at: u32,
    target: u32,
}

/// A reusable builder of groups.
#[derive(Default)]
pub struct Group {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    links: Vec<Link>,
    open: bool,
}

impl Group {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the records, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.links.clear();
        self.open = false;
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the group takes in the log.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Starts a record that changes `page`; append its body to [`Group::body`],
    /// then call [`Group::end`]. `prev_tx` and `prev_page` are the previous
    /// records of the transaction and of the page *before this group*.
    pub fn begin_page(&mut self, tx: TxId, prev_tx: Lsn, page: PageId, prev_page: Lsn, object: ObjectId) {
        self.begin(RecordKind::Page, tx, prev_tx, page, prev_page, object);
    }

    /// Like [`Group::begin_page`], for a record of any kind.
    ///
    /// # Panics
    /// When the record before was not ended: a bug of the caller.
    pub fn begin(&mut self, kind: RecordKind, tx: TxId, prev_tx: Lsn, page: PageId, prev_page: Lsn, object: ObjectId) {
        assert!(!self.open, "the log record before was not ended");
        self.open = true;
        let at = self.bytes.len() as u32;
        let same_tx = self.entries.iter().rposition(|e| tx.is_some() && e.tx == tx);
        let same_page = self.entries.iter().rposition(|e| page.is_some() && e.page == page);
        for (found, field) in [(same_tx, PREV_TX_AT), (same_page, PREV_PAGE_AT)] {
            if let Some(target) = found {
                self.links.push(Link { at: at + field as u32, target: target as u32 });
            }
        }
        let header = RecordHeader {
            len: 0,
            offset_in_block: 0,
            kind,
            first_of_group: self.entries.is_empty(),
            last_of_group: false,
            object,
            tx,
            prev_tx,
            page,
            prev_page,
        };
        self.bytes.extend_from_slice(&header.encode());
        self.entries.push(Entry { at, tx, page });
    }

    /// The buffer to append the body of the open record to. What is in it
    /// already must not be touched.
    pub fn body(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.open, "no log record is open");
        &mut self.bytes
    }

    /// Ends the open record and returns its index in the group.
    ///
    /// # Panics
    /// When no record is open, or its header was cut off: a bug of the caller.
    pub fn end(&mut self) -> usize {
        assert!(self.open, "no log record is open");
        self.open = false;
        let index = self.entries.len() - 1;
        let at = self.entries[index].at as usize;
        let len = self.bytes.len().saturating_sub(at);
        assert!(len >= RECORD_HEADER_BYTES, "the header of the log record was cut off");
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        index
    }

    /// Adds a record that changes no page, and returns its index.
    pub fn record(&mut self, kind: RecordKind, tx: TxId, prev_tx: Lsn, body: &[u8]) -> usize {
        self.begin(kind, tx, prev_tx, PageId::NONE, Lsn::NONE, ObjectId::NONE);
        self.bytes.extend_from_slice(body);
        self.end()
    }

    /// LSN of record `index` of this group, appended at `base`
    /// ([`Appended::base`](crate::Appended::base)).
    ///
    /// # Panics
    /// When the group has no such record.
    pub fn lsn_of(&self, base: Lsn, index: usize) -> Lsn {
        Lsn(base.0 + u64::from(self.entries[index].at))
    }

    /// Whether a record was begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Copies the group behind what `block` (which starts at `block_lsn`)
    /// already holds, fills in what depends on the place, and returns the LSN of
    /// record 0.
    pub(crate) fn place(&self, block: &mut Vec<u8>, block_lsn: Lsn) -> Lsn {
        let start = block.len();
        let base = Lsn(block_lsn.0 + start as u64);
        block.extend_from_slice(&self.bytes);
        let placed = &mut block[start..];
        for entry in &self.entries {
            let at = entry.at as usize + OFFSET_AT;
            let offset = start as u32 + entry.at;
            placed[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        }
        for link in &self.links {
            let lsn = self.lsn_of(base, link.target as usize);
            placed[link.at as usize..link.at as usize + 8].copy_from_slice(&lsn.0.to_le_bytes());
        }
        if let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) {
            placed[first.at as usize + FLAGS_AT] |= FLAG_FIRST;
            placed[last.at as usize + FLAGS_AT] |= FLAG_LAST;
        }
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BLOCK_HEADER_BYTES;
    use crate::record::record_at;

    #[test]
    fn records_of_a_group_are_linked_to_each_other() {
        let mut group = Group::new();
        group.begin_page(TxId(5), Lsn(100), PageId(7), Lsn(200), ObjectId(3));
        group.body().extend_from_slice(b"one");
        assert_eq!(group.end(), 0);
        group.begin_page(TxId::NONE, Lsn::NONE, PageId(8), Lsn(300), ObjectId(3));
        assert_eq!(group.end(), 1);
        group.begin_page(TxId(5), Lsn(100), PageId(7), Lsn(200), ObjectId(3));
        assert_eq!(group.end(), 2);
        assert_eq!(group.record(RecordKind::Commit, TxId(5), Lsn(100), b"now"), 3);
        assert_eq!(group.records(), 4);

        let mut block = vec![0; BLOCK_HEADER_BYTES + 10];
        let base = group.place(&mut block, Lsn(4096));
        assert_eq!(base, Lsn(4096 + 58));
        let record = |index| {
            let lsn = group.lsn_of(base, index);
            record_at(&block, Lsn(4096), (lsn.0 - 4096) as usize).unwrap()
        };
        let (a, b, c, d) = (record(0), record(1), record(2), record(3));
        assert_eq!((a.header.prev_tx, a.header.prev_page, a.body), (Lsn(100), Lsn(200), &b"one"[..]));
        assert_eq!((b.header.prev_tx, b.header.prev_page), (Lsn::NONE, Lsn(300)));
        assert_eq!((c.header.prev_tx, c.header.prev_page), (a.lsn, a.lsn));
        assert_eq!((d.header.prev_tx, d.header.prev_page, d.body), (c.lsn, Lsn::NONE, &b"now"[..]));
        assert!(a.header.first_of_group && !a.header.last_of_group);
        assert!(!d.header.first_of_group && d.header.last_of_group);
        group.clear();
        assert_eq!((group.records(), group.is_empty()), (0, true));
    }
}
