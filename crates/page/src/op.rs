//! Page operations: the body of a page's log record, and the one function that applies them.
//!
//! `page = redo(base, records)`: the page is what [`apply`] makes of a base image and
//! the bodies of the page's records in LSN order. The same function runs when the
//! change is first made, so that run time and redo cannot differ.
//!
//! A body is a sequence of operations, each a tag byte and its fields. Slots and
//! offsets are u16, lengths and counts varints, `bytes` a varint length and bytes:
//! ```text
//!  1 Format      type u8, level u8, object u32, lower bytes, upper
//!  2 Image       hole offset u16, hole length u16, the page's bytes without the hole
//!  3 Insert      slot, bytes
//!  4 Remove      slot
//!  5 Replace     slot, bytes
//!  6 Patch       slot, diff bytes      (module `diff`: old record -> new record)
//!  7 InsertMany  slot, count, bytes...
//!  8 RemoveMany  slot, count
//!  9 Truncate    from slot, upper
//! 10 SetFences   lower bytes, upper
//! 11 SetFlags    set u8, clear u8
//! 12 SetBytes    offset u16, bytes     (pages that are not slotted)
//! 13 CleanRows   runs of slots         (leaves; module `clean`)
//! 14 ChangeRow   slot, change bytes    (leaves; module `row_change`)
//! 15 Undo        bytes                 changes nothing: how to undo the change of this record
//! ```
//! `upper` is one byte 0 for plus infinity, or 1 and bytes.
//!
//! # Invariants
//! 1. Pure and deterministic: same page, id, body and LSN give the same bytes
//!    (the stored checksum, stale in memory, is not touched).
//! 2. Only `Format` and `Image` may be first on a page that has another id or no type.
//! 3. On a leaf, a record that is written raises the page's highest xid to its tags, and
//!    sets HAS_VERSIONS if it is tagged or a ghost: the mark is in the same log record as
//!    the version, so never durable later. On a version page the pusher counts.
//! 4. The page counts its records since the one that made it anew (one that begins with `Format` or `Image`): each other one adds 1,
//!    `Format` begins at 0, `Image` at what the image says. So the count is of the page as its records are, whatever base
//!    they are applied to, and is there after eviction and restart.
//! 5. Any bytes give `Ok` or a `Corrupt` error that names page, LSN and operation. After an
//!    error the page's content is of no use: the caller drops it.

use crate::buf::{FENCE_INFINITE, HAS_VERSIONS, HEADER_SIZE, PageBuf, PageType, RECORDS_SINCE_ANEW};
use crate::clean::{self, Runs, Treatment};
use crate::codec::{Reader, put_counted, put_varint, varint_len};
use crate::leaf::{self, GHOST, LeafBuilder, TAGGED};
use crate::slotted::{SLOT_SIZE, SPACE};
use crate::{diff, row_change, version};
use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, TxId};

/// Bytes of an `Image` before the page's own.
const IMAGE_HEAD: usize = 5;

const FORMAT: u8 = 1;
const IMAGE: u8 = 2;
const INSERT: u8 = 3;
const REMOVE: u8 = 4;
const REPLACE: u8 = 5;
const PATCH: u8 = 6;
const INSERT_MANY: u8 = 7;
const REMOVE_MANY: u8 = 8;
const TRUNCATE: u8 = 9;
const SET_FENCES: u8 = 10;
const SET_FLAGS: u8 = 11;
const SET_BYTES: u8 = 12;
const CLEAN_ROWS: u8 = 13;
const CHANGE_ROW: u8 = 14;
const UNDO: u8 = 15;

/// One decoded operation; slices borrow from the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOp<'a> {
    /// Makes the page an empty one of this type. No `upper` = plus infinity.
    Format {
        ty: PageType,
        level: u8,
        object: ObjectId,
        lower: &'a [u8],
        upper: Option<&'a [u8]>,
    },
    /// Sets the whole page.
    Image(PageImage<'a>),
    Insert {
        slot: SlotId,
        bytes: &'a [u8],
    },
    Remove {
        slot: SlotId,
    },
    Replace {
        slot: SlotId,
        bytes: &'a [u8],
    },
    /// Changes a record by a diff from its old bytes to its new ones.
    Patch {
        slot: SlotId,
        diff: &'a [u8],
    },
    /// Inserts records as `slot`, `slot`+1, …
    InsertMany {
        slot: SlotId,
        records: Records<'a>,
    },
    RemoveMany {
        slot: SlotId,
        count: u16,
    },
    /// Removes `from_slot` and all after it, and sets the upper fence (`None` = plus infinity).
    Truncate {
        from_slot: SlotId,
        upper: Option<&'a [u8]>,
    },
    SetFences {
        lower: &'a [u8],
        upper: Option<&'a [u8]>,
    },
    /// Header flags: sets the bits of `set`, then clears those of `clear`.
    SetFlags {
        set: u8,
        clear: u8,
    },
    /// Sets bytes of a page that is not slotted; `offset` is past the header.
    SetBytes {
        offset: u16,
        bytes: &'a [u8],
    },
    /// Treats rows of a leaf by what they hold themselves.
    CleanRows(Runs<'a>),
    /// Changes a row of a leaf by what is new.
    ChangeRow {
        slot: SlotId,
        change: &'a [u8],
    },
    /// Not a change: how the record's change is undone, for those who know what that is.
    Undo(&'a [u8]),
}

/// A page without its hole of zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImage<'a> {
    /// The bytes before the hole; the hole starts at `head.len()`.
    pub head: &'a [u8],
    /// The bytes after the hole, up to the page's end.
    pub tail: &'a [u8],
}

/// The records of an `InsertMany`, checked when decoded: iterating yields them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let count = r.varint()?;
        let mut probe = *r;
        for _ in 0..count {
            probe.counted()?;
        }
        let bytes = r.take(probe.position() - r.position())?;
        Ok(Self { count, bytes })
    }
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let mut r = Reader::new(self.bytes, "records");
        std::iter::from_fn(move || if r.is_empty() { None } else { r.counted().ok() })
    }
}

// ---- writing ----------------------------------------------------------------------------

fn put_slot(out: &mut Vec<u8>, tag: u8, slot: SlotId) {
    let [a, b] = slot.0.to_le_bytes();
    out.extend_from_slice(&[tag, a, b]);
}

fn put_upper(out: &mut Vec<u8>, upper: Option<&[u8]>) {
    match upper {
        None => out.push(0),
        Some(upper) => {
            out.push(1);
            put_counted(out, upper);
        }
    }
}

/// Appends a [`PageOp::Format`].
pub fn format(out: &mut Vec<u8>, ty: PageType, level: u8, object: ObjectId, lower: &[u8], upper: Option<&[u8]>) {
    out.extend_from_slice(&[FORMAT, ty as u8, level]);
    out.extend_from_slice(&object.0.to_le_bytes());
    put_counted(out, lower);
    put_upper(out, upper);
}

/// Appends a [`PageOp::Image`] of `page` as it is now.
pub fn image(out: &mut Vec<u8>, page: &PageBuf) {
    let bytes = page.as_bytes();
    let slotted = page.page_type().is_some_and(PageType::is_slotted);
    let slots_end = HEADER_SIZE + SLOT_SIZE * page.slot_count() as usize;
    let (mut start, mut end) = (PAGE_SIZE, PAGE_SIZE);
    if slotted && (slots_end..=PAGE_SIZE).contains(&(page.heap_start() as usize)) {
        (start, end) = (slots_end, page.heap_start() as usize);
    }
    if !slotted || bytes[start..end].iter().any(|&b| b != 0) {
        // Not slotted, or damaged: what can be left out is the zero tail.
        end = PAGE_SIZE;
        start = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1).max(HEADER_SIZE);
    }
    out.push(IMAGE);
    out.extend_from_slice(&(start as u16).to_le_bytes());
    out.extend_from_slice(&((end - start) as u16).to_le_bytes());
    // The checksum is stale in memory and written as zero.
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&bytes[4..start]);
    out.extend_from_slice(&bytes[end..]);
}

/// As [`image`], of a page that needs no earlier record from now on: its count begins anew. For a record of its own; an image that
/// stands for the record of its LSN as well (of a merge) keeps the count, so that the page comes out alike with and without it.
pub fn image_anew(out: &mut Vec<u8>, page: &PageBuf) {
    let at = out.len() + IMAGE_HEAD + RECORDS_SINCE_ANEW;
    image(out, page);
    out[at..at + 4].fill(0);
}

/// Appends a [`PageOp::Insert`].
pub fn insert(out: &mut Vec<u8>, slot: SlotId, bytes: &[u8]) {
    put_slot(out, INSERT, slot);
    put_counted(out, bytes);
}

/// As [`insert`], of a leaf's record that is encoded in its place.
///
/// # Errors
/// Those of encoding it; `out` is of no use then.
pub fn insert_row(out: &mut Vec<u8>, slot: SlotId, record: &LeafBuilder<'_>) -> Result<()> {
    put_slot(out, INSERT, slot);
    put_varint(out, record.encoded_len());
    record.encode_into(out)
}

/// Appends the insertion of a leaf's records as `slot`, `slot`+1, …, each encoded in its place: a [`PageOp::InsertMany`], of one record a
/// [`PageOp::Insert`].
///
/// # Errors
/// Those of encoding them; `out` is of no use then.
pub fn insert_rows<'r>(
    out: &mut Vec<u8>,
    slot: SlotId,
    mut rows: impl ExactSizeIterator<Item = LeafBuilder<'r>>,
) -> Result<()> {
    let put = |out: &mut Vec<u8>, record: LeafBuilder<'_>| {
        put_varint(out, record.encoded_len());
        record.encode_into(out)
    };
    let count = rows.len();
    put_slot(out, if count == 1 { INSERT } else { INSERT_MANY }, slot);
    if count != 1 {
        put_varint(out, count);
    }
    rows.try_for_each(|record| put(out, record))
}

/// Appends a [`PageOp::InsertMany`].
pub fn insert_many<'r, I>(out: &mut Vec<u8>, slot: SlotId, records: I)
where
    I: IntoIterator<Item = &'r [u8]>,
    I::IntoIter: Clone,
{
    let records = records.into_iter();
    put_slot(out, INSERT_MANY, slot);
    put_varint(out, records.clone().count());
    for record in records {
        put_counted(out, record);
    }
}

/// Appends a [`PageOp::Remove`].
pub fn remove(out: &mut Vec<u8>, slot: SlotId) {
    put_slot(out, REMOVE, slot);
}

/// Appends a [`PageOp::RemoveMany`].
pub fn remove_many(out: &mut Vec<u8>, slot: SlotId, count: u16) {
    put_slot(out, REMOVE_MANY, slot);
    put_varint(out, count as usize);
}

/// Appends a [`PageOp::Replace`].
pub fn replace(out: &mut Vec<u8>, slot: SlotId, bytes: &[u8]) {
    put_slot(out, REPLACE, slot);
    put_counted(out, bytes);
}

/// Appends a [`PageOp::Patch`] that turns the record `old` into `new`.
pub fn patch(out: &mut Vec<u8>, slot: SlotId, old: &[u8], new: &[u8]) {
    put_slot(out, PATCH, slot);
    // One byte is enough for the length of most patches: write it in place, and make room
    // in the rare case that it is not.
    let at = out.len();
    out.push(0);
    diff::diff(old, new, out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
    } else {
        let body = out.split_off(at + 1);
        out.truncate(at);
        put_counted(out, &body);
    }
}

/// Appends a [`PageOp::Patch`] or a [`PageOp::Replace`], whichever is shorter.
pub fn patch_or_replace(out: &mut Vec<u8>, slot: SlotId, old: &[u8], new: &[u8]) {
    let start = out.len();
    patch(out, slot, old, new);
    if out.len() - start > 3 + varint_len(new.len()) + new.len() {
        out.truncate(start);
        replace(out, slot, new);
    }
}

/// Appends how the row `old` of a leaf becomes `new`, as short as may be: a [`PageOp::ChangeRow`], a
/// [`PageOp::Patch`] or a [`PageOp::Replace`].
pub fn change_row(out: &mut Vec<u8>, slot: SlotId, old: &[u8], new: &[u8]) {
    let start = out.len();
    put_slot(out, CHANGE_ROW, slot);
    // As in `patch`: one byte of length is enough for most.
    let at = out.len();
    out.push(0);
    if !row_change::encode(old, new, out) {
        out.truncate(start);
        return patch_or_replace(out, slot, old, new);
    }
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
    } else {
        let change = out.split_off(at + 1);
        out.truncate(at);
        put_counted(out, &change);
    }
    // Records of one length may differ in fewer bytes than a header has.
    let len = out.len() - start;
    if old.len() == new.len() || len > new.len() {
        let mut other = Vec::with_capacity(len);
        patch_or_replace(&mut other, slot, old, new);
        if other.len() < len {
            out.truncate(start);
            out.extend_from_slice(&other);
        }
    }
}

/// As [`change_row`] where `old` is deleted by `xid` and goes into the row as it is; `keeps`: with its tag and pointer, else as one that all
/// see. (Whether that may be is the caller's to know: `row_change.rs`.)
pub fn delete_row(out: &mut Vec<u8>, slot: SlotId, xid: TxId, keeps: bool) {
    put_slot(out, CHANGE_ROW, slot);
    let at = out.len();
    out.push(0);
    row_change::encode_deletion(xid, keeps, out);
    out[at] = (out.len() - at - 1) as u8;
}

/// Appends a [`PageOp::Undo`].
pub fn undo(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(UNDO);
    put_counted(out, bytes);
}

/// The first [`PageOp::Undo`] of a body.
///
/// # Errors
/// `Corrupt` when there is none.
pub fn undo_of(body: &[u8]) -> Result<&[u8]> {
    let found = decode(body).find_map(|op| match op {
        Ok(PageOp::Undo(bytes)) => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    found.unwrap_or_else(|| Err(Error::corrupt("a page's record does not say how to undo it")))
}

/// Appends a [`PageOp::Truncate`].
pub fn truncate(out: &mut Vec<u8>, from_slot: SlotId, upper: Option<&[u8]>) {
    put_slot(out, TRUNCATE, from_slot);
    put_upper(out, upper);
}

/// Appends a [`PageOp::SetFences`].
pub fn set_fences(out: &mut Vec<u8>, lower: &[u8], upper: Option<&[u8]>) {
    out.push(SET_FENCES);
    put_counted(out, lower);
    put_upper(out, upper);
}

/// Appends a [`PageOp::SetFlags`].
pub fn set_flags(out: &mut Vec<u8>, set: u8, clear: u8) {
    out.extend_from_slice(&[SET_FLAGS, set, clear]);
}

/// Appends a [`PageOp::SetBytes`].
pub fn set_bytes(out: &mut Vec<u8>, offset: u16, bytes: &[u8]) {
    let [a, b] = offset.to_le_bytes();
    out.extend_from_slice(&[SET_BYTES, a, b]);
    put_counted(out, bytes);
}

/// Appends a [`PageOp::CleanRows`]; `rows` ascend by slot.
pub fn clean_rows(out: &mut Vec<u8>, rows: &[(SlotId, Treatment)]) {
    out.push(CLEAN_ROWS);
    clean::encode_into(out, rows);
}

// ---- reading ----------------------------------------------------------------------------

/// The operations of `body`, in order; ends after the first error.
pub fn decode(body: &[u8]) -> Ops<'_> {
    Ops { r: Reader::new(body, "page operations"), failed: false }
}

/// Iterator of [`decode`].
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    r: Reader<'a>,
    failed: bool,
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<PageOp<'a>>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.r.is_empty() {
            return None;
        }
        let op = decode_one(&mut self.r);
        self.failed = op.is_err();
        Some(op)
    }
}

fn upper<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    match r.u8()? {
        0 => Ok(None),
        1 => Ok(Some(r.counted()?)),
        _ => Err(r.bad("unknown kind of upper fence")),
    }
}

fn decode_one<'a>(r: &mut Reader<'a>) -> Result<PageOp<'a>> {
    Ok(match r.u8()? {
        FORMAT => {
            let Some(ty) = PageType::from_u8(r.u8()?) else {
                return Err(r.bad("unknown page type"));
            };
            let (level, object) = (r.u8()?, ObjectId(r.u32()?));
            PageOp::Format { ty, level, object, lower: r.counted()?, upper: upper(r)? }
        }
        IMAGE => {
            let (start, len) = (r.u16()? as usize, r.u16()? as usize);
            if start < HEADER_SIZE || start + len > PAGE_SIZE {
                return Err(r.bad("image with an impossible hole"));
            }
            let (head, tail) = (r.take(start)?, r.take(PAGE_SIZE - start - len)?);
            PageOp::Image(PageImage { head, tail })
        }
        INSERT => PageOp::Insert { slot: SlotId(r.u16()?), bytes: r.counted()? },
        REMOVE => PageOp::Remove { slot: SlotId(r.u16()?) },
        REPLACE => PageOp::Replace { slot: SlotId(r.u16()?), bytes: r.counted()? },
        PATCH => PageOp::Patch { slot: SlotId(r.u16()?), diff: r.counted()? },
        INSERT_MANY => PageOp::InsertMany { slot: SlotId(r.u16()?), records: Records::decode(r)? },
        REMOVE_MANY => {
            let slot = SlotId(r.u16()?);
            match u16::try_from(r.varint()?) {
                Ok(count) => PageOp::RemoveMany { slot, count },
                Err(_) => return Err(r.bad("too many slots")),
            }
        }
        TRUNCATE => PageOp::Truncate { from_slot: SlotId(r.u16()?), upper: upper(r)? },
        SET_FENCES => PageOp::SetFences { lower: r.counted()?, upper: upper(r)? },
        SET_FLAGS => PageOp::SetFlags { set: r.u8()?, clear: r.u8()? },
        SET_BYTES => PageOp::SetBytes { offset: r.u16()?, bytes: r.counted()? },
        CLEAN_ROWS => PageOp::CleanRows(Runs::decode(r)?),
        CHANGE_ROW => PageOp::ChangeRow { slot: SlotId(r.u16()?), change: r.counted()? },
        UNDO => PageOp::Undo(r.counted()?),
        _ => return Err(r.bad("unknown operation")),
    })
}

// ---- applying ---------------------------------------------------------------------------

/// Applies all operations of `body` to `page`, then sets its id and LSN. Used when a
/// change is made and in redo; the caller has checked that the page is older than `lsn`.
///
/// # Errors
/// `Corrupt`, with page, LSN and operation; the page is then of no use.
pub fn apply(page: &mut PageBuf, id: PageId, body: &[u8], lsn: Lsn) -> Result<()> {
    let mut anew = false;
    for (i, op) in decode(body).enumerate() {
        anew |= i == 0 && matches!(op, Ok(PageOp::Format { .. } | PageOp::Image(_)));
        op.and_then(|op| apply_one(page, id, &op)).map_err(|e| at(id, lsn, i, &e))?;
    }
    if !anew {
        page.set_records_since_anew(page.records_since_anew().saturating_add(1));
    }
    page.set_page_id(id);
    page.set_lsn(lsn);
    Ok(())
}

#[cold]
fn at(id: PageId, lsn: Lsn, index: usize, error: &Error) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("redo of page {id}, record at {lsn:?}, operation {index}: {}", error.message()),
    )
}

fn apply_one(page: &mut PageBuf, id: PageId, op: &PageOp<'_>) -> Result<()> {
    match op {
        PageOp::Format { ty, level, object, lower, upper } => {
            page.format(*ty, id, *level, *object);
            if ty.is_slotted() {
                return page.set_fences(lower, *upper);
            }
            return Ok(());
        }
        PageOp::Image(image) => return set_image(page, id, image),
        PageOp::Undo(_) => return Ok(()),
        _ => {}
    }
    if page.page_id() != id {
        return Err(Error::corrupt(format!("the page at hand is {}", page.page_id())));
    }
    let Some(ty) = page.page_type() else {
        return Err(Error::corrupt(format!("the page has unknown type {}", page.type_byte())));
    };
    match op {
        PageOp::SetFlags { set, clear } => {
            page.set_flags((page.flags() | set) & !clear);
            return Ok(());
        }
        PageOp::SetBytes { offset, bytes } => {
            let start = *offset as usize;
            if ty.is_slotted() {
                return Err(Error::corrupt("bytes set on a slotted page"));
            }
            if start < HEADER_SIZE || start + bytes.len() > PAGE_SIZE {
                return Err(Error::corrupt(format!("{} bytes set at offset {start}", bytes.len())));
            }
            page.as_bytes_mut()[start..start + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        _ if !ty.is_slotted() => {
            return Err(Error::corrupt(format!("slot operation on a page of type {ty:?}")));
        }
        _ => {}
    }
    match op {
        PageOp::Insert { slot, bytes } => {
            page.insert(*slot, bytes)?;
            note_record(page, ty, bytes);
        }
        PageOp::Remove { slot } => page.remove(*slot)?,
        PageOp::Replace { slot, bytes } => {
            page.replace(*slot, bytes)?;
            note_record(page, ty, bytes);
        }
        PageOp::Patch { slot, diff } => {
            // The limit keeps the result within what a page can hold.
            let mut new = Vec::with_capacity(256);
            diff::apply(page.record(*slot)?, diff, SPACE, &mut new)?;
            page.replace(*slot, &new)?;
            note_record(page, ty, &new);
        }
        PageOp::InsertMany { slot, records } => {
            page.insert_many(*slot, records.iter())?;
            for record in records.iter() {
                note_record(page, ty, record);
            }
        }
        PageOp::RemoveMany { slot, count } => page.remove_many(*slot, *count)?,
        PageOp::Truncate { from_slot, upper } => {
            page.truncate_from(*from_slot)?;
            page.set_upper_fence(*upper)?;
        }
        PageOp::SetFences { lower, upper } => page.set_fences(lower, *upper)?,
        PageOp::CleanRows(_) | PageOp::ChangeRow { .. } if ty != PageType::Leaf => {
            return Err(Error::corrupt(format!("rows treated on a page of type {ty:?}")));
        }
        PageOp::ChangeRow { slot, change } => {
            let mut new = Vec::with_capacity(256);
            row_change::apply(page.record(*slot)?, change, &mut new)?;
            page.replace(*slot, &new)?;
            note_record(page, ty, &new);
        }
        // No tag is written that was not on the page before.
        PageOp::CleanRows(runs) => clean::apply(page, runs)?,
        PageOp::Format { .. }
        | PageOp::Image(_)
        | PageOp::SetFlags { .. }
        | PageOp::SetBytes { .. }
        | PageOp::Undo(_) => {}
    }
    Ok(())
}

/// Invariant 3: what a written record says about its page.
#[inline]
fn note_record(page: &mut PageBuf, ty: PageType, record: &[u8]) {
    match ty {
        PageType::Leaf => {
            page.raise_highest_xid(leaf::highest_xid_of(record));
            if leaf::flags_of(record) & (TAGGED | GHOST) != 0 && !page.has_versions() {
                page.set_flags(page.flags() | HAS_VERSIONS);
            }
        }
        PageType::Version => page.raise_highest_xid(version::pusher_of(record)),
        _ => {}
    }
}

fn set_image(page: &mut PageBuf, id: PageId, image: &PageImage<'_>) -> Result<()> {
    let (head, tail) = (image.head, image.tail);
    if head.len() < HEADER_SIZE || head.len() + tail.len() > PAGE_SIZE {
        return Err(Error::corrupt("image with an impossible hole"));
    }
    let bytes = page.as_bytes_mut();
    bytes[..head.len()].copy_from_slice(head);
    bytes[head.len()..PAGE_SIZE - tail.len()].fill(0);
    bytes[PAGE_SIZE - tail.len()..].copy_from_slice(tail);
    if page.page_type().is_none() {
        return Err(Error::corrupt(format!("image of unknown page type {}", page.type_byte())));
    }
    page.set_page_id(id);
    Ok(())
}

const _: () = assert!(FENCE_INFINITE as usize > SPACE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::{Earlier, EarlierTag, LeafBuilder};
    use resurgam_base::TxId;

    const ID: PageId = PageId(4);

    fn page(ty: PageType) -> PageBuf {
        let mut body = Vec::new();
        format(&mut body, ty, 0, ObjectId(1), b"", None);
        let mut page = PageBuf::zeroed();
        apply(&mut page, ID, &body, Lsn(5)).unwrap();
        page
    }

    fn run(page: &mut PageBuf, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut body = Vec::new();
        write(&mut body);
        apply(page, ID, &body, Lsn(6))
    }

    #[test]
    fn bytes_are_set_within_the_payload_of_plain_pages_only() {
        let mut plain = page(PageType::SpaceMap);
        run(&mut plain, |b| set_bytes(b, 8190, &[1, 2])).unwrap();
        assert_eq!(&plain.as_bytes()[8190..], &[1, 2]);
        for (offset, len) in [(8191, 2), (63, 1), (0, 1), (u16::MAX, 0), (64, 9000)] {
            let error = run(&mut plain.clone(), |b| set_bytes(b, offset, &vec![0; len]));
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{offset}+{len}");
        }
        assert!(run(&mut page(PageType::Leaf), |b| set_bytes(b, 64, &[1])).is_err());
        assert!(run(&mut plain, |b| insert(b, SlotId(0), b"x")).is_err());
    }

    #[test]
    fn another_page_or_none_takes_only_format_and_image() {
        let mut other = page(PageType::Leaf);
        other.set_page_id(PageId(9));
        assert!(run(&mut other.clone(), |b| insert(b, SlotId(0), b"x")).is_err());
        assert!(run(&mut PageBuf::zeroed(), |b| set_flags(b, 1, 0)).is_err());
        let source = page(PageType::Inner);
        run(&mut other, |b| image(b, &source)).unwrap();
        assert_eq!((other.page_id(), other.lsn()), (ID, Lsn(6)));
        assert!(other.is(PageType::Inner));
    }

    #[test]
    fn records_are_counted_since_the_page_was_made_anew() {
        let mut counted = page(PageType::Leaf);
        assert_eq!(counted.records_since_anew(), 0);
        for n in 1..=3 {
            run(&mut counted, |b| insert(b, SlotId(0), &LeafBuilder::plain(b"k", b"v").encode().unwrap())).unwrap();
            assert_eq!(counted.records_since_anew(), n);
        }
        // What stands for the last record is the same page.
        let mut made = PageBuf::zeroed();
        run(&mut made, |b| image(b, &counted)).unwrap();
        assert!(made.same_content(&counted));
        // A record of its own begins anew, and changes nothing else.
        run(&mut made, |b| image_anew(b, &counted)).unwrap();
        assert_eq!(made.records_since_anew(), 0);
        made.set_records_since_anew(3);
        assert!(made.same_content(&counted));
        // Behind other operations an image does not make the page anew for who looks for such records.
        run(&mut made, |b| {
            undo(b, b"how");
            image(b, &counted);
        })
        .unwrap();
        assert_eq!(made.records_since_anew(), 4);
        run(&mut made, |b| format(b, PageType::Leaf, 0, ObjectId(1), b"", None)).unwrap();
        assert_eq!(made.records_since_anew(), 0);
        made.set_records_since_anew(u32::MAX);
        run(&mut made, |b| set_flags(b, 1, 0)).unwrap();
        assert_eq!(made.records_since_anew(), u32::MAX);
    }

    #[test]
    fn rows_that_are_encoded_in_place_are_the_records_that_they_are_alone() {
        let rows = [LeafBuilder::inserted(TxId(7), b"a", b"1"), LeafBuilder::inserted(TxId(7), b"b", &[3; 300])];
        let encoded: Vec<Vec<u8>> = rows.iter().map(|row| row.encode().unwrap()).collect();
        let (mut made, mut expected) = (Vec::new(), Vec::new());
        insert_rows(&mut made, SlotId(3), rows.into_iter()).unwrap();
        insert_many(&mut expected, SlotId(3), encoded.iter().map(Vec::as_slice));
        assert_eq!(made, expected);
        (made, expected) = (Vec::new(), Vec::new());
        insert_rows(&mut made, SlotId(3), rows[1..].iter().copied()).unwrap();
        insert(&mut expected, SlotId(3), &encoded[1]);
        assert_eq!(made, expected);
    }

    /// A record of several rows whose numbers are not those of its bytes is refused, and takes no memory for them.
    #[test]
    fn rows_of_impossible_numbers_are_refused() {
        let row = LeafBuilder::inserted(TxId(7), b"k", b"v").encode().unwrap();
        let mut whole = Vec::new();
        insert_many(&mut whole, SlotId(0), [&row[..], &row[..], &row[..]]);
        let leaf = page(PageType::Leaf);
        run(&mut leaf.clone(), |b| b.extend_from_slice(&whole)).unwrap();
        let mut bad: Vec<Vec<u8>> = (1..whole.len()).map(|len| whole[..len].to_vec()).collect();
        // More rows than there are; none of them behind the page's slots; a row as long as nothing is.
        for count in [4u64, 200, 1 << 14, u64::from(u32::MAX), u64::MAX] {
            let mut body = vec![INSERT_MANY, 0, 0];
            crate::codec::put_varint64(&mut body, count);
            body.extend_from_slice(&whole[4..]);
            bad.push(body);
        }
        let mut behind = whole.clone();
        behind[1] = 1;
        bad.push(behind);
        for len in [1u64 << 20, u64::from(u32::MAX), u64::MAX] {
            let mut body = vec![INSERT_MANY, 0, 0, 2];
            crate::codec::put_varint64(&mut body, len);
            body.extend_from_slice(&row);
            bad.push(body);
        }
        let mut over = Vec::new();
        insert_many(&mut over, SlotId(0), std::iter::repeat_n(&[7u8; 1000][..], 9));
        bad.push(over);
        for body in bad {
            let error = run(&mut leaf.clone(), |b| b.extend_from_slice(&body)).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{body:?}: {error}");
        }
    }

    #[test]
    fn records_mark_their_page() {
        let plain = LeafBuilder::plain(b"k", b"v");
        let mut leaf = page(PageType::Leaf);
        run(&mut leaf, |b| insert(b, SlotId(0), &plain.encode().unwrap())).unwrap();
        assert!(!leaf.has_versions() && leaf.highest_xid().is_none());
        let ghost = LeafBuilder { ghost: true, ..plain }.encode().unwrap();
        let mut marked = leaf.clone();
        run(&mut marked, |b| replace(b, SlotId(0), &ghost)).unwrap();
        assert!(marked.has_versions());
        let tag = EarlierTag { ghost: false, xid: TxId(70), offrow: None };
        let sub = LeafBuilder { xid: TxId(60), earlier: Earlier::InRow(tag, &[]), ..plain }.encode();
        run(&mut leaf, |b| insert_many(b, SlotId(1), [&sub.unwrap()[..]])).unwrap();
        assert!(leaf.has_versions());
        assert_eq!(leaf.highest_xid(), TxId(70));
        let mut record = Vec::new();
        version::encode_into(ObjectId(1), TxId(80), &ghost, &mut record);
        let mut versions = page(PageType::Version);
        run(&mut versions, |b| insert(b, SlotId(0), &record)).unwrap();
        assert_eq!(versions.highest_xid(), TxId(80));
    }

    /// A page of rows of all kinds, cleaned in one operation, against the same by Remove and
    /// Replace.
    #[test]
    fn cleaned_rows_are_what_their_own_bytes_say() {
        let tag = |xid| EarlierTag { ghost: false, xid: TxId(xid), offrow: None };
        let offrow = resurgam_base::PageId(77);
        let pointer = crate::VersionPtr { page: offrow, slot: SlotId(3) };
        let mut older = Vec::new();
        diff::diff(b"new value", b"an older value", &mut older);
        let build =
            |key: &'static [u8], earlier| LeafBuilder { ghost: false, xid: TxId(9), key, value: b"new value", earlier };
        let rows = [
            (LeafBuilder::plain(b"a", b"left alone"), None, Some(LeafBuilder::plain(b"a", b"left alone"))),
            (build(b"b", Earlier::None), Some(Treatment::Remove), None),
            (
                build(b"c", Earlier::OffRow(pointer)),
                Some(Treatment::Strip),
                Some(LeafBuilder::plain(b"c", b"new value")),
            ),
            (
                build(b"d", Earlier::InRow(tag(0), &older)),
                Some(Treatment::Revert),
                Some(LeafBuilder::plain(b"d", b"an older value")),
            ),
            (
                build(b"e", Earlier::InRow(EarlierTag { offrow: Some(pointer), ..tag(4) }, &older)),
                Some(Treatment::RevertTagged),
                Some(LeafBuilder {
                    ghost: false,
                    xid: TxId(4),
                    key: b"e",
                    value: b"an older value",
                    earlier: Earlier::OffRow(pointer),
                }),
            ),
            (build(b"f", Earlier::InRow(tag(4), &older)), Some(Treatment::Shorten), Some(build(b"f", Earlier::None))),
            (
                LeafBuilder { ghost: true, ..build(b"g", Earlier::InRow(tag(0), &[])) },
                Some(Treatment::Revert),
                Some(LeafBuilder::plain(b"g", b"new value")),
            ),
        ];
        let mut leaf = page(PageType::Leaf);
        let mut expected = page(PageType::Leaf);
        run(&mut leaf, |b| set_fences(b, b"a", Some(b"z"))).unwrap();
        run(&mut expected, |b| set_fences(b, b"a", Some(b"z"))).unwrap();
        let encoded: Vec<Vec<u8>> = rows.iter().map(|(row, ..)| row.encode().unwrap()).collect();
        run(&mut leaf, |b| insert_many(b, SlotId(0), encoded.iter().map(Vec::as_slice))).unwrap();
        let after: Vec<Vec<u8>> = rows.iter().filter_map(|(.., row)| row.map(|row| row.encode().unwrap())).collect();
        run(&mut expected, |b| insert_many(b, SlotId(0), after.iter().map(Vec::as_slice))).unwrap();
        for (i, (row, treatment, after)) in rows.iter().enumerate() {
            let bytes = row.encode().unwrap();
            let record = leaf::LeafRecord::parse(&bytes).unwrap();
            let len = treatment.map_or(bytes.len(), |t| t.len_after(&record).unwrap());
            assert_eq!(len, after.map_or(0, |after| after.encoded_len()), "row {i}");
        }
        let treated: Vec<(SlotId, Treatment)> =
            rows.iter().enumerate().filter_map(|(i, (_, t, _))| t.map(|t| (SlotId(i as u16), t))).collect();
        let before = leaf.clone();
        run(&mut leaf, |b| clean_rows(b, &treated)).unwrap();
        assert_eq!(leaf.slot_count(), 6);
        for s in 0..6 {
            assert_eq!(leaf.rec(SlotId(s)), expected.rec(SlotId(s)), "slot {s}");
        }
        assert_eq!(leaf.as_bytes()[HEADER_SIZE..], expected.as_bytes()[HEADER_SIZE..], "as compacted");
        assert_eq!((leaf.lower_fence(), leaf.upper_fence()), (&b"a"[..], Some(&b"z"[..])));
        // A whole page is a few bytes.
        let mut body = Vec::new();
        let all: Vec<(SlotId, Treatment)> = (0..200).map(|s| (SlotId(s), Treatment::Strip)).collect();
        clean_rows(&mut body, &all);
        assert_eq!(body.len(), 7);
        // What does not suit the rows is refused.
        for (slot, treatment) in
            [(1, Treatment::Revert), (2, Treatment::RevertTagged), (3, Treatment::RevertTagged), (7, Treatment::Remove)]
        {
            let error = run(&mut before.clone(), |b| clean_rows(b, &[(SlotId(slot), treatment)]));
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{treatment:?} of slot {slot}");
        }
        assert!(run(&mut page(PageType::Inner), |b| clean_rows(b, &[])).is_err());
        for bad in
            [&[CLEAN_ROWS, 1, 5, 0, 0, 1][..], &[CLEAN_ROWS, 1, 0, 0, 0, 0], &[CLEAN_ROWS, 2, 0, 1, 0, 1, 0, 1, 0, 1]]
        {
            assert!(run(&mut before.clone(), |b| b.extend_from_slice(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_update_of_four_bytes_is_a_short_record() {
        let old = [7u8; 200];
        let mut new = old;
        new[150..154].copy_from_slice(&[1, 2, 3, 4]);
        let mut body = Vec::new();
        patch_or_replace(&mut body, SlotId(3), &old, &new);
        assert!(body.len() <= 12, "{}", body.len());
        // All bytes different: a replace is shorter than a patch.
        body.clear();
        patch_or_replace(&mut body, SlotId(3), &old, &[8; 200]);
        assert_eq!(body[0], REPLACE);
    }

    #[test]
    fn an_image_leaves_the_hole_out() {
        let mut body = Vec::new();
        image(&mut body, &page(PageType::Leaf));
        assert_eq!(body.len(), 5 + HEADER_SIZE);
        for hole in [(63u16, 1u16), (64, 8129), (8192, 1), (u16::MAX, u16::MAX)] {
            let mut bad = vec![IMAGE];
            bad.extend_from_slice(&hole.0.to_le_bytes());
            bad.extend_from_slice(&hole.1.to_le_bytes());
            bad.resize(9000, 0);
            assert!(apply(&mut PageBuf::zeroed(), ID, &bad, Lsn(1)).is_err(), "{hole:?}");
        }
    }
}
