//! Records: a fixed header and an opaque body.
//!
//! All numbers little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | length of the record, header included |
//! | 4..8 | distance from the start of its block, so that a record found by its LSN leads to its block |
//! | 8 | kind |
//! | 9 | flags: bit 0 = first of its group, bit 1 = last |
//! | 10..12 | zero |
//! | 12..16 | object |
//! | 16..24 | transaction |
//! | 24..32 | previous record of the same transaction |
//! | 32..40 | page, or none |
//! | 40..48 | previous record of the same page |

use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, TxId};

use crate::block::BLOCK_HEADER_BYTES;

/// Length of the encoded header.
pub const RECORD_HEADER_BYTES: usize = 48;

pub(crate) const OFFSET_AT: usize = 4;
pub(crate) const FLAGS_AT: usize = 9;
pub(crate) const PREV_TX_AT: usize = 24;
pub(crate) const PREV_PAGE_AT: usize = 40;
pub(crate) const FLAG_FIRST: u8 = 1;
pub(crate) const FLAG_LAST: u8 = 2;

/// Kinds below this are named by this crate; from it on they are free for the
/// crates above.
const OTHER_MIN: u8 = 64;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// What a record says. The numbers are part of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RecordKind {
            $($(#[$doc])* $name,)*
            /// A kind of the crates above: 64 or more.
            Other(u8),
        }
        impl RecordKind {
            /// The number on disk.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Other(code) => code,
                }
            }
            /// The kind of that number; `None` when no kind has it.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    OTHER_MIN.. => Some(Self::Other(code)),
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A change of one page.
    Page = 1,
    /// The transaction committed.
    Commit = 2,
    /// The transaction aborted; its versions stay until they are reverted.
    Abort = 3,
    /// No version of this aborted transaction is left.
    Forget = 4,
    /// A checkpoint starts.
    CheckpointBegin = 5,
    /// A piece of what a checkpoint saves.
    CheckpointData = 6,
    /// The checkpoint is complete.
    CheckpointEnd = 7,
    /// A change of the boot page.
    Boot = 8,
    /// A non-versioned operation (Constant Time Recovery, section 3.4).
    SLog = 9,
    /// The undo of a non-versioned operation.
    SLogUndo = 10,
    /// The transaction is prepared: in doubt until decided.
    Prepare = 11,
    /// The change of the same group undoes an earlier one and is never undone itself. The
    /// transaction's chain goes on behind what was undone.
    Compensation = 12,
    /// The transaction's chain starts here.
    Begin = 13,
    /// Says nothing; tests and markers.
    Note = 14,
    /// How to undo the row change of the same group.
    RowUndo = 15,
    /// The transaction rolled back and nothing is left of it.
    Undone = 16,
    /// A change of one page, as `Page`, that says in itself how it is undone, as `RowUndo`: it is the next
    /// one of the transaction's chain.
    PageUndo = 17,
}

/// A decoded record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the record, header included.
    pub len: u32,
    /// Distance of the record from the start of its block, in bytes.
    pub offset_in_block: u32,
    /// What it says.
    pub kind: RecordKind,
    /// Whether it starts its group.
    pub first_of_group: bool,
    /// Whether it ends its group.
    pub last_of_group: bool,
    /// The object it belongs to, or none.
    pub object: ObjectId,
    /// The transaction it belongs to, or none.
    pub tx: TxId,
    /// Previous record of that transaction, or none.
    pub prev_tx: Lsn,
    /// The page it changes, or none.
    pub page: PageId,
    /// Previous record of that page, or none.
    pub prev_page: Lsn,
}

impl RecordKind {
    /// Whether it changes a page: its body is page operations.
    pub const fn is_of_page(self) -> bool {
        matches!(self, Self::Page | Self::PageUndo)
    }
}

impl RecordHeader {
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        out[0..4].copy_from_slice(&self.len.to_le_bytes());
        out[4..8].copy_from_slice(&self.offset_in_block.to_le_bytes());
        out[8] = self.kind.code();
        out[9] = u8::from(self.first_of_group) * FLAG_FIRST + u8::from(self.last_of_group) * FLAG_LAST;
        out[12..16].copy_from_slice(&self.object.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.tx.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.prev_tx.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.page.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.prev_page.0.to_le_bytes());
        out
    }

    /// Decodes the header at the start of `bytes`, which is at `lsn`, and checks
    /// that the record ends within `bytes`.
    ///
    /// # Errors
    /// `Corrupt`, naming the position and what is wrong there.
    pub(crate) fn decode(bytes: &[u8], lsn: Lsn) -> Result<Self> {
        let bad = |what: String| Error::corrupt(format!("log record at LSN {lsn}: {what}"));
        let Some((head, body)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(bad(format!("{} bytes are left, too few for a header", bytes.len())));
        };
        let header = Self::decode_head(head).map_err(bad)?;
        if header.len as usize > RECORD_HEADER_BYTES + body.len() {
            return Err(bad(format!("length {} leads past the end of its block", header.len)));
        }
        Ok(header)
    }

    /// Decodes a header whose body is not at hand.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn decode_head(head: &[u8; RECORD_HEADER_BYTES]) -> Result<Self, String> {
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let u32_at = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let len = u32_at(0);
        if (len as usize) < RECORD_HEADER_BYTES {
            return Err(format!("length {len} is shorter than a header"));
        }
        let kind = RecordKind::from_code(head[8]).ok_or_else(|| format!("record kind {} is unknown", head[8]))?;
        let flags = head[FLAGS_AT];
        if flags & !(FLAG_FIRST | FLAG_LAST) != 0 || head[10..12] != [0, 0] {
            return Err(format!("unknown flags {flags:#04x}"));
        }
        Ok(Self {
            len,
            offset_in_block: u32_at(OFFSET_AT),
            kind,
            first_of_group: flags & FLAG_FIRST != 0,
            last_of_group: flags & FLAG_LAST != 0,
            object: ObjectId(u32_at(12)),
            tx: TxId(u64_at(16)),
            prev_tx: Lsn(u64_at(PREV_TX_AT)),
            page: PageId(u64_at(32)),
            prev_page: Lsn(u64_at(PREV_PAGE_AT)),
        })
    }
}

/// A record in a buffer of the reader.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its position.
    pub lsn: Lsn,
    /// Start of its block.
    pub block: Lsn,
    /// The fixed part.
    pub header: RecordHeader,
    /// What only the crates above understand.
    pub body: &'a [u8],
}

/// A record on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its position.
    pub lsn: Lsn,
    /// Start of its block.
    pub block: Lsn,
    /// The fixed part.
    pub header: RecordHeader,
    /// What only the crates above understand.
    pub body: Vec<u8>,
}

impl RecordRef<'_> {
    /// A copy that needs no buffer.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord { lsn: self.lsn, block: self.block, header: self.header, body: self.body.to_vec() }
    }
}

/// Decodes the record at `offset` of `block` (header included in both), which
/// starts at `start`.
///
/// # Errors
/// `Corrupt` when there is no well-formed record there that says so itself.
pub(crate) fn record_at(block: &[u8], start: Lsn, offset: usize) -> Result<RecordRef<'_>> {
    let lsn = Lsn(start.0.saturating_add(offset as u64));
    let bytes = block
        .get(offset..)
        .filter(|_| offset >= BLOCK_HEADER_BYTES)
        .ok_or_else(|| Error::corrupt(format!("LSN {lsn} is not that of a log record")))?;
    let header = RecordHeader::decode(bytes, lsn)?;
    if header.offset_in_block as usize != offset {
        return Err(Error::corrupt(format!(
            "log record at LSN {lsn}: it claims to be {} bytes into the block at LSN {start}, but is {offset}",
            header.offset_in_block
        )));
    }
    let body = &bytes[RECORD_HEADER_BYTES..header.len as usize];
    Ok(RecordRef { lsn, block: start, header, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> impl Strategy<Value = RecordKind> {
        any::<u8>().prop_filter_map("kind", RecordKind::from_code)
    }

    proptest! {
        #[test]
        fn round_trip(offset in 48usize..200, kind in kind(), first: bool, last: bool, object: u32,
                      tx: u64, prev_tx: u64, page: u64, prev_page: u64,
                      body in prop::collection::vec(any::<u8>(), 0..100)) {
            let header = RecordHeader {
                len: (RECORD_HEADER_BYTES + body.len()) as u32,
                offset_in_block: offset as u32,
                kind, first_of_group: first, last_of_group: last, object: ObjectId(object),
                tx: TxId(tx), prev_tx: Lsn(prev_tx), page: PageId(page), prev_page: Lsn(prev_page),
            };
            let mut block = vec![0; offset];
            block.extend_from_slice(&header.encode());
            block.extend_from_slice(&body);
            block.extend_from_slice(&[0xee; 7]);
            let record = record_at(&block, Lsn(4096), offset).unwrap();
            prop_assert_eq!(record.header, header);
            prop_assert_eq!(record.body, &body[..]);
            prop_assert_eq!(record.lsn, Lsn(4096 + offset as u64));
            for cut in 0..RECORD_HEADER_BYTES + body.len() {
                prop_assert!(record_at(&block[..offset + cut], Lsn(4096), offset).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200),
                                    offset in 0usize..300, start: u64) {
            if let Ok(record) = record_at(&bytes, Lsn(start), offset) {
                prop_assert!(record.body.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn kinds_are_fixed() {
        for code in 0..=255 {
            match RecordKind::from_code(code) {
                Some(kind) => assert_eq!(kind.code(), code),
                None => assert!(code == 0 || (17..64).contains(&code)),
            }
        }
    }
}
