//! Items: how a record, and an entry of the transaction stream, is kept in a run.
//!
//! An item is a key (a page's id; in the stream the kind of entry), an LSN and a rest. The rest does not depend on where
//! the item stands, so merging copies it. All numbers are varints unless a width is given.
//!
//! ```text
//! rest of a record:  kind u8 | flags u8 | [tx] | [lsn - prev_tx] | [lsn - prev_page] | [object] | offset in block | body
//!      flags: 1 first of group, 2 last of group, 4 tx, 8 prev_tx, 16 prev_page, 32 object follow, 64 made by a merge
//! rest in the stream, by kind of entry:
//!      1 record           page | rest of the record
//!      2 first of a tx    tx
//!      3 undo             tx | page | [the id that the row was changed under, where it is another]
//!      4 block            next - lsn | payload bytes | epoch
//! ```
//! Differences wrap around: any header survives.

use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_log::{Block, RECORD_HEADER_BYTES, RecordHeader, RecordKind, RecordRef};
use resurgam_page::codec::{Reader, put_varint64};
use resurgam_page::{PageOp, op};

const FIRST: u8 = 1;
const LAST: u8 = 2;
const TX: u8 = 4;
const PREV_TX: u8 = 8;
const PREV_PAGE: u8 = 16;
const OBJECT: u8 = 32;
const MADE: u8 = 64;
const FLAGS: u8 = 127;

pub(crate) const STREAM_RECORD: u64 = 1;
pub(crate) const STREAM_FIRST: u64 = 2;
pub(crate) const STREAM_UNDO: u64 = 3;
pub(crate) const STREAM_BLOCK: u64 = 4;

/// A key, an LSN and a rest; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub key: u64,
    pub lsn: Lsn,
    pub rest: &'a [u8],
}

/// Whether the archive keeps it by its page; otherwise it is in the transaction stream.
pub(crate) fn is_by_page(header: &RecordHeader) -> bool {
    header.kind.is_of_page() && header.page.is_some()
}

/// Appends the rest of a record.
pub(crate) fn put_record(out: &mut Vec<u8>, record: &RecordRef<'_>) {
    put_parts(out, &record.header, record.lsn, record.body, 0);
}

/// Appends the rest of an image that a merge made: a page as the record at `lsn` left it.
pub(crate) fn put_image(out: &mut Vec<u8>, page: PageId, object: ObjectId, lsn: Lsn, body: &[u8]) {
    let header = RecordHeader {
        len: 0,
        offset_in_block: 0,
        kind: RecordKind::Page,
        first_of_group: true,
        last_of_group: true,
        object,
        tx: TxId::NONE,
        prev_tx: Lsn::NONE,
        page,
        prev_page: Lsn::NONE,
    };
    put_parts(out, &header, lsn, body, MADE);
}

fn put_parts(out: &mut Vec<u8>, header: &RecordHeader, lsn: Lsn, body: &[u8], more: u8) {
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let flags = more
        | flag(header.first_of_group, FIRST)
        | flag(header.last_of_group, LAST)
        | flag(header.tx.is_some(), TX)
        | flag(header.prev_tx.is_some(), PREV_TX)
        | flag(header.prev_page.is_some(), PREV_PAGE)
        | flag(header.object.is_some(), OBJECT);
    out.extend_from_slice(&[header.kind.code(), flags]);
    if flags & TX != 0 {
        put_varint64(out, header.tx.0);
    }
    if flags & PREV_TX != 0 {
        put_varint64(out, lsn.0.wrapping_sub(header.prev_tx.0));
    }
    if flags & PREV_PAGE != 0 {
        put_varint64(out, lsn.0.wrapping_sub(header.prev_page.0));
    }
    if flags & OBJECT != 0 {
        put_varint64(out, u64::from(header.object.0));
    }
    put_varint64(out, u64::from(header.offset_in_block));
    out.extend_from_slice(body);
}

/// Whether the rest is that of an image that a merge made.
pub(crate) fn is_made(rest: &[u8]) -> bool {
    rest.get(1).is_some_and(|flags| flags & MADE != 0)
}

/// A record out of its rest.
///
/// # Errors
/// `Corrupt`, with page and LSN.
pub(crate) fn record(page: PageId, lsn: Lsn, rest: &[u8]) -> Result<RecordRef<'_>> {
    let mut r = Reader::new(rest, "archived record");
    parse(page, lsn, &mut r)
        .map_err(|e| Error::corrupt(format!("archived record of page {page} at LSN {lsn}: {}", e.message())))
}

fn parse<'a>(page: PageId, lsn: Lsn, r: &mut Reader<'a>) -> Result<RecordRef<'a>> {
    let kind = r.u8()?;
    let kind = RecordKind::from_code(kind).ok_or_else(|| r.bad("unknown kind of record"))?;
    let flags = r.u8()?;
    if flags & !FLAGS != 0 {
        return Err(r.bad("unknown flags"));
    }
    let mut number = |flag: u8| if flags & flag != 0 { r.varint64() } else { Ok(0) };
    let tx = TxId(number(TX)?);
    let (prev_tx, prev_page) = (number(PREV_TX)?, number(PREV_PAGE)?);
    let object = number(OBJECT)?;
    let offset = r.varint64()?;
    let (Ok(object), Ok(offset)) = (u32::try_from(object), u32::try_from(offset)) else {
        return Err(r.bad("a number is too large"));
    };
    let body = r.rest();
    let len = u32::try_from(RECORD_HEADER_BYTES + body.len()).map_err(|_| r.bad("too long"))?;
    let back = |flag: u8, distance: u64| if flags & flag != 0 { Lsn(lsn.0.wrapping_sub(distance)) } else { Lsn::NONE };
    let header = RecordHeader {
        len,
        offset_in_block: offset,
        kind,
        first_of_group: flags & FIRST != 0,
        last_of_group: flags & LAST != 0,
        object: ObjectId(object),
        tx,
        prev_tx: back(PREV_TX, prev_tx),
        page,
        prev_page: back(PREV_PAGE, prev_page),
    };
    Ok(RecordRef { lsn, block: Lsn(lsn.0.saturating_sub(u64::from(offset))), header, body })
}

/// Whether a record makes its page anew: nothing before it is needed for what the page is after it.
pub(crate) fn makes_anew(body: &[u8]) -> bool {
    matches!(op::decode(body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image(_))))
}

/// An entry of the transaction stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamEntry<'a> {
    /// A block of the log begins; its records follow as far as they have no page.
    Block {
        lsn: Lsn,
        /// Where the next block begins.
        next: Lsn,
        /// Bytes of its records; 0 for one that only skips to the next segment.
        payload_bytes: u32,
        epoch: u32,
    },
    /// A record without a page.
    Record(RecordRef<'a>),
    /// The transaction's first record in this run (a page record, which has no entry of its own).
    FirstOf { tx: TxId, lsn: Lsn },
    /// A page record that says how it is undone: a link of the transaction's chain. It is found by page and LSN.
    /// `writer` is the id under which the row was changed: `tx`, or that of one of its savepoints.
    Undo { tx: TxId, lsn: Lsn, page: PageId, writer: TxId },
}

impl StreamEntry<'_> {
    /// Where it stands.
    pub fn lsn(&self) -> Lsn {
        match self {
            Self::Block { lsn, .. } | Self::FirstOf { lsn, .. } | Self::Undo { lsn, .. } => *lsn,
            Self::Record(record) => record.lsn,
        }
    }
}

/// Appends the rest of a record in the stream.
pub(crate) fn put_stream_record(out: &mut Vec<u8>, record: &RecordRef<'_>) {
    put_varint64(out, record.header.page.0);
    put_record(out, record);
}

/// Appends the rest of a block in the stream.
pub(crate) fn put_block(out: &mut Vec<u8>, block: &Block<'_>) {
    put_varint64(out, block.next().0.saturating_sub(block.lsn().0));
    put_varint64(out, u64::from(block.header().payload_len));
    put_varint64(out, u64::from(block.header().epoch));
}

/// Appends the rest of an entry that says how a page record is undone.
pub(crate) fn put_undo(out: &mut Vec<u8>, header: &RecordHeader, body: &[u8]) {
    put_varint64(out, header.tx.0);
    put_varint64(out, header.page.0);
    // Its action, and then that id (`versions/src/row_undo.rs`).
    let writer = op::undo_of(body).and_then(|undo| Reader::new(undo.get(1..).unwrap_or_default(), "undo").varint64());
    if let Ok(writer) = writer
        && writer != header.tx.0
    {
        put_varint64(out, writer);
    }
}

/// An entry of the stream out of its item.
///
/// # Errors
/// `Corrupt`, with the LSN.
pub(crate) fn entry<'a>(item: &Item<'a>) -> Result<StreamEntry<'a>> {
    let lsn = item.lsn;
    let mut r = Reader::new(item.rest, "transaction stream");
    let entry = (|| {
        let entry = match item.key {
            STREAM_RECORD => {
                let page = PageId(r.varint64()?);
                let record = parse(page, lsn, &mut Reader::new(r.rest(), "transaction stream"))?;
                StreamEntry::Record(record)
            }
            STREAM_FIRST => StreamEntry::FirstOf { tx: TxId(r.varint64()?), lsn },
            STREAM_UNDO => {
                let (tx, page) = (TxId(r.varint64()?), PageId(r.varint64()?));
                let writer = if r.is_empty() { tx } else { TxId(r.varint64()?) };
                StreamEntry::Undo { tx, page, lsn, writer }
            }
            STREAM_BLOCK => {
                let (length, payload, epoch) = (r.varint64()?, r.varint64()?, r.varint64()?);
                match (lsn.0.checked_add(length), u32::try_from(payload), u32::try_from(epoch)) {
                    (Some(next), Ok(payload_bytes), Ok(epoch)) if length > 0 => {
                        StreamEntry::Block { lsn, next: Lsn(next), payload_bytes, epoch }
                    }
                    _ => return Err(r.bad("a block that cannot be")),
                }
            }
            _ => return Err(r.bad("unknown kind of entry")),
        };
        if r.is_empty() { Ok(entry) } else { Err(r.bad("more bytes than expected")) }
    })();
    entry.map_err(|e: Error| Error::corrupt(format!("transaction stream at LSN {lsn}: {}", e.message())))
}

/// Bytes of the log that a kept record had; none for an image that a merge made.
pub(crate) fn log_bytes(record: &RecordRef<'_>, rest: &[u8]) -> u64 {
    if is_made(rest) { 0 } else { u64::from(record.header.len) }
}

/// Items back to back in a frame.
///
/// ```text
/// key - key before | lsn (of another key: whole; of the same: - lsn before) | length of the rest | rest
/// ```
/// In a frame of the stream keys do not ascend: there the key is whole, and the LSN less the one before it.
#[derive(Default)]
pub(crate) struct ItemWriter {
    pub bytes: Vec<u8>,
    pub count: u32,
    key: u64,
    lsn: u64,
}

impl ItemWriter {
    /// Appends an item of a page; they ascend by (page, LSN). Returns its offset.
    pub fn put_page(&mut self, item: &Item<'_>) -> usize {
        let at = self.bytes.len();
        let same = self.count > 0 && item.key == self.key;
        put_varint64(&mut self.bytes, item.key - self.key);
        put_varint64(&mut self.bytes, if same { item.lsn.0 - self.lsn } else { item.lsn.0 });
        self.put_rest(item);
        at
    }

    /// Appends an item of the stream; they ascend by LSN.
    pub fn put_stream(&mut self, item: &Item<'_>) {
        put_varint64(&mut self.bytes, item.key);
        put_varint64(&mut self.bytes, item.lsn.0 - self.lsn);
        self.put_rest(item);
    }

    fn put_rest(&mut self, item: &Item<'_>) {
        put_varint64(&mut self.bytes, item.rest.len() as u64);
        self.bytes.extend_from_slice(item.rest);
        (self.key, self.lsn) = (item.key, item.lsn.0);
        self.count += 1;
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.key, self.lsn) = (0, 0, 0);
    }
}

/// Where a reader is in a frame of items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemPlace {
    pub at: usize,
    /// Key and LSN of the item before; none at the start of a frame.
    before: Option<(u64, u64)>,
    /// What the next item is known to be, whatever it is written as a difference to.
    known: Option<(u64, u64)>,
}

impl ItemPlace {
    /// At `offset`, where the first item of page `key` stands.
    pub fn inside(offset: usize, key: u64) -> Self {
        // The item names its LSN in full, and its page as a difference that is already known to lead to `key`.
        Self { at: offset, before: if offset == 0 { None } else { Some((key, u64::MAX)) }, known: None }
    }

    /// At `offset`, where the item of page `key` with that LSN stands, as the page table says.
    pub fn at_known(offset: usize, key: u64, lsn: Lsn) -> Self {
        Self { at: offset, before: None, known: Some((key, lsn.0)) }
    }

    /// The next item of a page.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn next_page<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Item<'a>>> {
        let Some(mut r) = self.reader(bytes)? else { return Ok(None) };
        let (key, lsn) = (r.varint64()?, r.varint64()?);
        let known = self.known.take();
        let (key, lsn) = match self.before {
            _ if known.is_some() => known.unwrap_or_default(),
            // Entered in the middle.
            Some((at, u64::MAX)) => (at, lsn),
            Some((before, before_lsn)) if key == 0 => match before_lsn.checked_add(lsn) {
                Some(lsn) => (before, lsn),
                None => return Err(r.bad("an LSN that cannot be")),
            },
            Some((before, _)) => match before.checked_add(key) {
                Some(key) => (key, lsn),
                None => return Err(r.bad("a page that cannot be")),
            },
            None => (key, lsn),
        };
        self.finish(key, lsn, r, bytes)
    }

    /// The next item of the stream.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn next_stream<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Item<'a>>> {
        let Some(mut r) = self.reader(bytes)? else { return Ok(None) };
        let (key, lsn) = (r.varint64()?, r.varint64()?);
        let before = self.before.map_or(0, |(_, lsn)| lsn);
        let Some(lsn) = before.checked_add(lsn) else { return Err(r.bad("an LSN that cannot be")) };
        self.finish(key, lsn, r, bytes)
    }

    fn reader<'a>(&self, bytes: &'a [u8]) -> Result<Option<Reader<'a>>> {
        match bytes.get(self.at..) {
            Some([]) => Ok(None),
            Some(rest) => Ok(Some(Reader::new(rest, "items of a run"))),
            None => Err(Error::corrupt("items of a run: a place past the end of its frame")),
        }
    }

    fn finish<'a>(&mut self, key: u64, lsn: u64, mut r: Reader<'a>, bytes: &'a [u8]) -> Result<Option<Item<'a>>> {
        if lsn == u64::MAX {
            return Err(r.bad("an LSN that cannot be"));
        }
        let len = usize::try_from(r.varint64()?).unwrap_or(usize::MAX);
        let rest = r.take(len)?;
        debug_assert!(self.at + r.position() <= bytes.len());
        self.at += r.position();
        self.before = Some((key, lsn));
        Ok(Some(Item { key, lsn: Lsn(lsn), rest }))
    }
}
