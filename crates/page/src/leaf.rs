//! Leaf records: a row with its version header (Constant Time Recovery, section 3.2).
//!
//! ```text
//! 0 flags u8          GHOST 1    this version deletes the row
//!                     TAGGED 2   the writer's xid follows
//!                     DIFF 4     the earlier version is in the row, as a diff
//!                     OFFROW 8   the earlier version is on a version page
//! 1 key_len u16
//! 3 [TAGGED] xid u64
//!   [OFFROW] page u64, slot u16
//!   [DIFF]   diff_len u16        bytes of the diff section
//!   key | value | diff section
//! ```
//! The diff section describes the earlier version:
//! ```text
//! 0 flags u8          GHOST, TAGGED, OFFROW
//! 1 [TAGGED] xid u64
//!   [OFFROW] page u64, slot u16  the version before the earlier one
//!   value diff                   rebuilds the earlier value from this value
//! ```
//!
//! # Invariants
//! 1. Not TAGGED = committed and visible to all; then neither DIFF nor OFFROW.
//! 2. TAGGED with neither DIFF nor OFFROW = inserted by that xid, nothing earlier.
//! 3. DIFF and OFFROW exclude each other: with DIFF, the chain goes on in the diff section.
//! 4. The diff section obeys 1 too. A tag names a transaction and a pointer names a page:
//!    zero is corrupt.
//! 5. The key of a row never changes: an earlier version has the same key.
//!
//! A delete sets GHOST and keeps the content, so its earlier version is an empty diff.

use crate::buf::PageBuf;
use crate::codec::Reader;
use crate::{diff, probe};
use resurgam_base::limits::{KEY_BYTES_MAX, RECORD_BYTES_MAX};
use resurgam_base::{Error, PageId, Result, SlotId, TxId};

/// Record flag: this version deletes the row.
pub const GHOST: u8 = 1;
/// Record flag: the writer's xid is in the record.
pub const TAGGED: u8 = 2;
/// Record flag: the earlier version is in the row.
pub const DIFF: u8 = 4;
/// Record flag: the earlier version is on a version page.
pub const OFFROW: u8 = 8;

const FIXED: usize = 3;
const XID_SIZE: usize = 8;
const POINTER_SIZE: usize = 10;
const DIFF_LEN_SIZE: usize = 2;

/// Most bytes of a record besides key and value when its earlier version is off-row.
pub const OVERHEAD_OFFROW: usize = FIXED + XID_SIZE + POINTER_SIZE;
/// Most bytes of a record besides key and value when its earlier version is in the row and has the same value, as after a deletion:
/// both tags, and where the chain goes on.
pub const OVERHEAD_MAX: usize = FIXED + XID_SIZE + DIFF_LEN_SIZE + 1 + XID_SIZE + POINTER_SIZE;
const _: () = assert!(OVERHEAD_OFFROW <= OVERHEAD_MAX && KEY_BYTES_MAX + OVERHEAD_MAX < RECORD_BYTES_MAX);

/// Place of a record on a version page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionPtr {
    pub page: PageId,
    pub slot: SlotId,
}

/// Who wrote an in-row earlier version, and what was before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierTag {
    /// The earlier version deletes the row.
    pub ghost: bool,
    /// Its writer; `TxId::NONE` = committed and visible to all.
    pub xid: TxId,
    /// The version before it, off-row.
    pub offrow: Option<VersionPtr>,
}

/// Where the version before this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier<'a> {
    /// Nothing earlier: the row was inserted by this version, or all see this one.
    None,
    /// In the row: its tag and the diff that rebuilds its value ([`rebuild_earlier`]).
    InRow(EarlierTag, &'a [u8]),
    /// On a version page, as a full leaf record.
    OffRow(VersionPtr),
}

/// A parsed leaf record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRecord<'a> {
    pub flags: u8,
    /// The writer; `TxId::NONE` = committed and visible to all.
    pub xid: TxId,
    /// The earlier version, if it is off-row.
    pub offrow: Option<VersionPtr>,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The value diff of the in-row earlier version, without its tag.
    pub diff: Option<&'a [u8]>,
    tag: Option<EarlierTag>,
}

fn parse_xid(r: &mut Reader<'_>) -> Result<TxId> {
    let xid = TxId(r.u64()?);
    if xid.is_none() { Err(r.bad("tag without a writer")) } else { Ok(xid) }
}

fn parse_pointer(r: &mut Reader<'_>) -> Result<VersionPtr> {
    let (page, slot) = (PageId(r.u64()?), SlotId(r.u16()?));
    if page.is_none() {
        return Err(r.bad("version pointer to page 0"));
    }
    Ok(VersionPtr { page, slot })
}

impl<'a> LeafRecord<'a> {
    /// Parses and checks a record. `Corrupt` with the position if an invariant is broken.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "leaf record");
        let flags = r.u8()?;
        if flags & !(GHOST | TAGGED | DIFF | OFFROW) != 0 {
            return Err(r.bad("unknown flags"));
        }
        if flags & (DIFF | OFFROW) == DIFF | OFFROW {
            return Err(r.bad("earlier version both in the row and off-row"));
        }
        if flags & TAGGED == 0 && flags & (DIFF | OFFROW) != 0 {
            return Err(r.bad("earlier version without a tag"));
        }
        let key_len = r.u16()? as usize;
        if key_len > KEY_BYTES_MAX {
            return Err(r.bad("key too long"));
        }
        let xid = if flags & TAGGED != 0 { parse_xid(&mut r)? } else { TxId::NONE };
        let offrow = if flags & OFFROW != 0 { Some(parse_pointer(&mut r)?) } else { None };
        let diff_len = if flags & DIFF != 0 { r.u16()? as usize } else { 0 };
        let key = r.take(key_len)?;
        let Some(value_len) = r.remaining().checked_sub(diff_len) else {
            return Err(r.bad("diff section longer than the record"));
        };
        let value = r.take(value_len)?;
        let (mut tag, mut diff) = (None, None);
        if flags & DIFF != 0 {
            let flags = r.u8()?;
            if flags & !(GHOST | TAGGED | OFFROW) != 0 {
                return Err(r.bad("unknown flags of the earlier version"));
            }
            if flags & (TAGGED | OFFROW) == OFFROW {
                return Err(r.bad("earlier version has a pointer and no tag"));
            }
            let xid = if flags & TAGGED != 0 { parse_xid(&mut r)? } else { TxId::NONE };
            let offrow = if flags & OFFROW != 0 { Some(parse_pointer(&mut r)?) } else { None };
            tag = Some(EarlierTag { ghost: flags & GHOST != 0, xid, offrow });
            diff = Some(r.rest());
        }
        Ok(Self { flags, xid, offrow, key, value, diff, tag })
    }

    /// Whether this version deletes the row.
    #[inline]
    pub fn is_ghost(&self) -> bool {
        self.flags & GHOST != 0
    }
    /// Whether this version carries a writer's xid.
    #[inline]
    pub fn is_tagged(&self) -> bool {
        self.flags & TAGGED != 0
    }
    /// The version before this one.
    #[inline]
    pub fn earlier(&self) -> Earlier<'a> {
        match (self.tag, self.diff, self.offrow) {
            (Some(tag), Some(diff), _) => Earlier::InRow(tag, diff),
            (_, _, Some(pointer)) => Earlier::OffRow(pointer),
            _ => Earlier::None,
        }
    }
    /// Bytes of the record that are there for versions: the writer, and the earlier version or what leads to it. 0 once the row is committed
    /// and visible to all.
    pub fn version_bytes(&self) -> usize {
        self.to_builder().encoded_len() - LeafBuilder::plain(self.key, self.value).encoded_len()
    }
    /// Rebuilds the in-row earlier version's value into `out` (cleared first).
    /// `false` if the earlier version is not in the row.
    pub fn rebuild_earlier(&self, out: &mut Vec<u8>) -> Result<bool> {
        match self.diff {
            Some(diff) => rebuild_earlier(self.value, diff, out).map(|()| true),
            None => Ok(false),
        }
    }
    /// A builder that encodes this record again.
    pub fn to_builder(&self) -> LeafBuilder<'a> {
        LeafBuilder { ghost: self.is_ghost(), xid: self.xid, key: self.key, value: self.value, earlier: self.earlier() }
    }
}

/// Rebuilds an earlier version's value from the current `value` and its diff; `out` is
/// cleared first.
#[inline]
pub fn rebuild_earlier(value: &[u8], diff: &[u8], out: &mut Vec<u8>) -> Result<()> {
    diff::apply(value, diff, RECORD_BYTES_MAX, out)
}

/// What a leaf record is encoded from.
#[derive(Clone, Copy, Debug)]
pub struct LeafBuilder<'a> {
    /// This version deletes the row.
    pub ghost: bool,
    /// The writer; `TxId::NONE` = committed and visible to all (then nothing is earlier).
    pub xid: TxId,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub earlier: Earlier<'a>,
}

impl<'a> LeafBuilder<'a> {
    /// A committed row that all see.
    pub fn plain(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { ghost: false, xid: TxId::NONE, key, value, earlier: Earlier::None }
    }
    /// A row inserted by `xid`.
    pub fn inserted(xid: TxId, key: &'a [u8], value: &'a [u8]) -> Self {
        Self { ghost: false, xid, key, value, earlier: Earlier::None }
    }

    /// Bytes that [`Self::encode_into`] appends.
    pub fn encoded_len(&self) -> usize {
        let earlier = match self.earlier {
            Earlier::None => tag_len(self.xid, false),
            Earlier::OffRow(_) => tag_len(self.xid, true),
            Earlier::InRow(tag, diff) => tag_len(self.xid, false) + DIFF_LEN_SIZE + section_len(&tag, diff),
        };
        FIXED + self.key.len() + self.value.len() + earlier
    }

    /// Appends the record. `Internal` if the parts contradict each other or a length
    /// passes its field; the caller keeps records below `RECORD_BYTES_MAX`.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.xid.is_none() && self.earlier != Earlier::None {
            return Err(Error::internal("leaf record with an earlier version but no writer"));
        }
        if self.key.len() > KEY_BYTES_MAX || self.encoded_len() > u16::MAX as usize {
            return Err(Error::internal(format!(
                "leaf record too long: key {}, value {}",
                self.key.len(),
                self.value.len()
            )));
        }
        out.reserve(self.encoded_len());
        let flags = if self.ghost { GHOST } else { 0 }
            | if self.xid.is_some() { TAGGED } else { 0 }
            | match self.earlier {
                Earlier::None => 0,
                Earlier::InRow(..) => DIFF,
                Earlier::OffRow(_) => OFFROW,
            };
        out.push(flags);
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        put_tag(self.xid, None, out);
        match self.earlier {
            Earlier::None => {}
            Earlier::OffRow(pointer) => put_tag(TxId::NONE, Some(pointer), out),
            Earlier::InRow(tag, diff) => {
                if tag.xid.is_none() && tag.offrow.is_some() {
                    return Err(Error::internal("earlier version with a pointer but no writer"));
                }
                out.extend_from_slice(&(section_len(&tag, diff) as u16).to_le_bytes());
            }
        }
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
        if let Earlier::InRow(tag, diff) = self.earlier {
            out.push(
                if tag.ghost { GHOST } else { 0 }
                    | if tag.xid.is_some() { TAGGED } else { 0 }
                    | if tag.offrow.is_some() { OFFROW } else { 0 },
            );
            put_tag(tag.xid, tag.offrow, out);
            out.extend_from_slice(diff);
        }
        Ok(())
    }

    /// The record's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut out)?;
        Ok(out)
    }
}

#[inline]
fn tag_len(xid: TxId, pointer: bool) -> usize {
    let xid = if xid.is_some() { XID_SIZE } else { 0 };
    xid + if pointer { POINTER_SIZE } else { 0 }
}

/// Bytes of a diff section.
fn section_len(tag: &EarlierTag, diff: &[u8]) -> usize {
    1 + tag_len(tag.xid, tag.offrow.is_some()) + diff.len()
}

fn put_tag(xid: TxId, pointer: Option<VersionPtr>, out: &mut Vec<u8>) {
    if xid.is_some() {
        out.extend_from_slice(&xid.0.to_le_bytes());
    }
    if let Some(pointer) = pointer {
        out.extend_from_slice(&pointer.page.0.to_le_bytes());
        out.extend_from_slice(&pointer.slot.0.to_le_bytes());
    }
}

/// A record's key, quickly; empty for nonsense.
#[inline]
pub fn key_of(record: &[u8]) -> &[u8] {
    let Some((&[flags, a, b], rest)) = record.split_first_chunk::<FIXED>() else {
        return &[];
    };
    let start = if flags & TAGGED != 0 { XID_SIZE } else { 0 }
        + if flags & OFFROW != 0 { POINTER_SIZE } else { 0 }
        + if flags & DIFF != 0 { DIFF_LEN_SIZE } else { 0 };
    rest.get(start..start + u16::from_le_bytes([a, b]) as usize).unwrap_or(&[])
}

/// A record's writer, quickly; `TxId::NONE` if it is untagged or nonsense.
#[inline]
pub fn xid_of(record: &[u8]) -> TxId {
    match record.first_chunk::<{ FIXED + XID_SIZE }>() {
        Some(&[flags, _, _, a, b, c, d, e, f, g, h]) if flags & TAGGED != 0 => {
            TxId(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
        }
        _ => TxId::NONE,
    }
}

/// The highest xid in a record: its writer's, or that of its in-row earlier version (which
/// may be higher: a sub-transaction's row written again by its parent). `TxId::NONE` for none.
#[inline]
pub fn highest_xid_of(record: &[u8]) -> TxId {
    let xid = xid_of(record);
    if flags_of(record) & (TAGGED | DIFF) != TAGGED | DIFF {
        return xid;
    }
    let at = FIXED + XID_SIZE;
    let Some(Ok(len)) = record.get(at..at + DIFF_LEN_SIZE).map(<[u8; 2]>::try_from) else {
        return xid;
    };
    let section = record.len().checked_sub(u16::from_le_bytes(len) as usize);
    match section.and_then(|at| record[at..].first_chunk::<{ 1 + XID_SIZE }>()) {
        Some(&[flags, a, b, c, d, e, f, g, h]) if flags & TAGGED != 0 => {
            xid.max(TxId(u64::from_le_bytes([a, b, c, d, e, f, g, h])))
        }
        _ => xid,
    }
}

/// A record without an earlier version, as far as a reader needs it.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// Its writer; `TxId::NONE` = committed and visible to all.
    pub xid: TxId,
    /// It deletes the row.
    pub ghost: bool,
    /// Key and value, which follow each other.
    pub content: &'a [u8],
    /// Bytes of the key.
    pub key_len: usize,
}

impl<'a> Plain<'a> {
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        &self.content[self.key_len..]
    }
}

/// What most records are, without the checks that others need. `None` where [`LeafRecord::parse`] is to be asked: an earlier version
/// is there, or it is nonsense.
#[inline]
pub fn plain_of(record: &[u8]) -> Option<Plain<'_>> {
    let (&[flags, a, b], rest) = record.split_first_chunk::<FIXED>()?;
    let (xid, content) = match flags & !GHOST {
        0 => (TxId::NONE, rest),
        TAGGED => {
            let (xid, content) = rest.split_first_chunk::<XID_SIZE>()?;
            let xid = TxId(u64::from_le_bytes(*xid));
            if xid.is_none() {
                return None;
            }
            (xid, content)
        }
        _ => return None,
    };
    let key_len = usize::from(u16::from_le_bytes([a, b]));
    let whole = key_len <= KEY_BYTES_MAX && key_len <= content.len();
    whole.then_some(Plain { xid, ghost: flags & GHOST != 0, content, key_len })
}

/// A record's flags, quickly; 0 for nonsense.
#[inline]
pub fn flags_of(record: &[u8]) -> u8 {
    record.first().copied().unwrap_or(0)
}

/// The slot of `key` (`Ok`), or the slot where it is to be inserted (`Err`).
#[inline]
pub fn search(page: &PageBuf, key: &[u8]) -> Result<SlotId, SlotId> {
    probe::find(page, 0, page.slot_count(), |record| probe::compare(key_of(record), key))
}

/// As [`search`], of a key that is known to be in slot `from` or behind it, probably near.
#[inline]
pub fn search_from(page: &PageBuf, key: &[u8], from: u16) -> Result<SlotId, SlotId> {
    /// Slots that are looked at one after the other.
    const NEAR: u16 = 4;
    let count = page.slot_count();
    let near = count.min(from.saturating_add(NEAR));
    for slot in from..near {
        match probe::compare(key_of(page.rec(SlotId(slot))), key) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(SlotId(slot)),
            std::cmp::Ordering::Greater => return Err(SlotId(slot)),
        }
    }
    probe::find(page, near.max(from), count, |record| probe::compare(key_of(record), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointer() -> impl Strategy<Value = VersionPtr> {
        (1u64.., any::<u16>()).prop_map(|(p, s)| VersionPtr { page: PageId(p), slot: SlotId(s) })
    }

    #[derive(Clone, Debug)]
    enum Spec {
        None,
        InRow(bool, u64, Option<VersionPtr>, Vec<u8>),
        OffRow(VersionPtr),
    }

    fn spec() -> impl Strategy<Value = Spec> {
        prop_oneof![
            Just(Spec::None),
            (any::<bool>(), 0..3u64, proptest::option::of(pointer()), bytes(20)).prop_map(|(g, x, p, d)| Spec::InRow(
                g,
                x,
                p.filter(|_| x > 0),
                d
            )),
            pointer().prop_map(Spec::OffRow),
        ]
    }

    fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..max)
    }

    /// What is kept free of a row for its versions is what they take.
    #[test]
    fn overheads_are_those_of_records() {
        let pointer = VersionPtr { page: PageId(u64::MAX), slot: SlotId(u16::MAX) };
        let tag = EarlierTag { ghost: false, xid: TxId(u64::MAX), offrow: Some(pointer) };
        let len =
            |earlier| LeafBuilder { ghost: true, xid: TxId(1), key: b"key", value: b"value", earlier }.encoded_len();
        assert_eq!(len(Earlier::OffRow(pointer)), OVERHEAD_OFFROW + 8);
        assert_eq!(len(Earlier::InRow(tag, &[])), OVERHEAD_MAX + 8);
    }

    proptest! {
        #[test]
        fn records_round_trip(
            ghost: bool, xid in 1u64.., key in bytes(40), value in bytes(80), spec in spec(),
        ) {
            let earlier = match &spec {
                Spec::None => Earlier::None,
                Spec::OffRow(p) => Earlier::OffRow(*p),
                Spec::InRow(ghost, xid, offrow, diff) => Earlier::InRow(
                    EarlierTag { ghost: *ghost, xid: TxId(*xid), offrow: *offrow },
                    diff,
                ),
            };
            let built = LeafBuilder { ghost, xid: TxId(xid), key: &key, value: &value, earlier };
            let bytes = built.encode().unwrap();
            prop_assert_eq!(bytes.len(), built.encoded_len());
            prop_assert_eq!(key_of(&bytes), &key[..]);
            prop_assert_eq!(xid_of(&bytes), TxId(xid));
            let earlier_xid = if let Earlier::InRow(tag, _) = earlier { tag.xid } else { TxId::NONE };
            prop_assert_eq!(highest_xid_of(&bytes), TxId(xid).max(earlier_xid));
            let parsed = LeafRecord::parse(&bytes).unwrap();
            prop_assert_eq!(parsed.is_ghost(), ghost);
            prop_assert_eq!(parsed.xid, TxId(xid));
            prop_assert_eq!(parsed.key, &key[..]);
            prop_assert_eq!(parsed.value, &value[..]);
            prop_assert_eq!(parsed.earlier(), earlier);
            prop_assert_eq!(plain_of(&bytes).is_some(), earlier == Earlier::None);
            prop_assert_eq!(parsed.to_builder().encode().unwrap(), bytes);
        }

        #[test]
        fn a_search_from_before_the_slot_finds_the_same(
            keys in proptest::collection::btree_set(proptest::collection::vec(0..4u8, 0..5), 0..60),
            probe in proptest::collection::vec(0..5u8, 0..6),
        ) {
            let mut page = PageBuf::zeroed();
            page.format(crate::PageType::Leaf, PageId(7), 0, resurgam_base::ObjectId(1));
            for (at, key) in keys.iter().enumerate() {
                let record = LeafBuilder::inserted(TxId(3), key, b"v").encode().unwrap();
                page.insert(SlotId(at as u16), &record).unwrap();
            }
            for key in keys.iter().chain([&probe]) {
                let found = search(&page, key);
                let (Ok(slot) | Err(slot)) = found;
                for from in 0..=slot.0 {
                    prop_assert_eq!(search_from(&page, key, from), found);
                }
            }
        }

        #[test]
        fn random_bytes_parse_or_fail(bytes in bytes(60)) {
            let _ = (key_of(&bytes), highest_xid_of(&bytes));
            let parsed = LeafRecord::parse(&bytes);
            // What is taken for plain is just what a look at all of it says.
            let plain = plain_of(&bytes).map(|plain| {
                let (key, value) = plain.content.split_at(plain.key_len);
                assert_eq!(value, plain.value());
                (plain.xid, plain.ghost, key, value)
            });
            let full = parsed.as_ref().ok().filter(|record| record.earlier() == Earlier::None);
            prop_assert_eq!(plain, full.map(|record| (record.xid, record.is_ghost(), record.key, record.value)));
            if let Ok(record) = parsed {
                // A record has one encoding only.
                prop_assert_eq!(record.to_builder().encode().unwrap(), bytes.clone());
                prop_assert_eq!(key_of(&bytes), record.key);
                let _ = record.rebuild_earlier(&mut Vec::new());
            }
        }
    }

    #[test]
    fn layout_is_the_documented_one() {
        let tag = EarlierTag { ghost: false, xid: TxId(5), offrow: None };
        let bytes =
            LeafBuilder { ghost: true, xid: TxId(9), key: b"k", value: b"vv", earlier: Earlier::InRow(tag, b"D") }
                .encode()
                .unwrap();
        let want: &[u8] = &[
            GHOST | TAGGED | DIFF,
            1,
            0,
            9,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            10,
            0,
            b'k',
            b'v',
            b'v',
            TAGGED,
            5,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            b'D',
        ];
        assert_eq!(bytes, want);
        assert_eq!(LeafBuilder::plain(b"k", b"v").encode().unwrap(), [0, 1, 0, b'k', b'v']);
    }

    #[test]
    fn contradictions_are_corrupt() {
        assert!(LeafRecord::parse(&[]).is_err());
        assert!(LeafRecord::parse(&[16, 0, 0]).is_err());
        assert!(LeafRecord::parse(&[DIFF, 0, 0, 0, 0]).is_err());
        assert!(LeafRecord::parse(&[TAGGED, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let record = LeafBuilder {
            earlier: Earlier::OffRow(VersionPtr { page: PageId(1), slot: SlotId(0) }),
            ..LeafBuilder::plain(b"k", b"v")
        };
        assert!(record.encode().is_err());
    }
}
