//! A change of a row as the log has it: what is new, not the row (Constant Time Recovery, section 3.2).
//!
//! A version header makes a record longer and a version in the row follows its value, so that two
//! records of one row have little in common byte by byte. Their parts do: the key is the same,
//! the value differs in a few bytes, and the version that goes into the row is the record that was
//! there. So only the header and the difference of the values are kept:
//! ```text
//! 0 kind u8       GHOST, TAGGED, DIFF, OFFROW   flags of the new record
//!                 OWN 16    with DIFF: the version in the row stays the one that it was
//!                 KEEP 32   with DIFF, not OWN: the record that was there goes into the row with
//!                           its tag and pointer; else without: all see it
//! 1 [TAGGED] xid  varint of up to ten bytes
//!   [OFFROW] page varint of up to ten bytes, slot u16
//!   value diff    from the old value to the new one, to the end
//! ```
//!
//! # Invariants
//! 1. [`apply`] of what [`encode`] made of two records gives the second one, byte for byte: what
//!    cannot be said this way is not encoded.
//! 2. The version in the row is computed by [`diff::diff`]: its result for a pair of values is a part
//!    of the log's format (`diff.rs` has a test of it).
//! 3. Any bytes give `Ok` or `Corrupt`.

use resurgam_base::limits::RECORD_BYTES_MAX;
use resurgam_base::{Error, PageId, Result, SlotId, TxId};

use crate::codec::{Reader, put_varint64};
use crate::diff;
use crate::leaf::{self, DIFF, Earlier, EarlierTag, GHOST, LeafBuilder, LeafRecord, OFFROW, TAGGED, VersionPtr};

const OWN: u8 = 16;
const KEEP: u8 = 32;

/// Appends how the record `old` becomes `new`. False, and nothing is appended, if that cannot be
/// said this way: they are of different keys, are no records, or the version in the row of `new`
/// is neither that of `old` nor `old` itself.
pub fn encode(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if try_encode(old, new, out) == Some(true) {
        let mut made = Vec::with_capacity(new.len());
        if apply(old, &out[start..], &mut made).is_ok() && made == new {
            return true;
        }
    }
    out.truncate(start);
    false
}

fn try_encode(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    let (old, new) = (LeafRecord::parse(old).ok()?, LeafRecord::parse(new).ok()?);
    if old.key != new.key {
        return Some(false);
    }
    let how = match (new.earlier(), old.earlier()) {
        (Earlier::InRow(tag, _), Earlier::InRow(before, _)) if tag == before && old.xid == new.xid => OWN,
        (Earlier::InRow(tag, _), _) if tag.xid.is_some() => KEEP,
        _ => 0,
    };
    out.push(new.flags | how);
    if new.is_tagged() {
        put_varint64(out, new.xid.0);
    }
    if let Some(pointer) = new.offrow {
        put_varint64(out, pointer.page.0);
        out.extend_from_slice(&pointer.slot.0.to_le_bytes());
    }
    diff::diff(old.value, new.value, out);
    Some(true)
}

/// Appends how a record is deleted by `xid`, with its content as the version in the row: with its tag and pointer (`keeps`; it has a tag, and
/// no version in the row itself), or as one that all see. At most twelve bytes.
pub fn encode_deletion(xid: TxId, keeps: bool, out: &mut Vec<u8>) {
    out.push(GHOST | TAGGED | DIFF | if keeps { KEEP } else { 0 });
    put_varint64(out, xid.0);
}

/// Appends to `out` what `change` makes of the record `old`.
///
/// # Errors
/// `Corrupt` when the change is nonsense or does not suit the record; `out` then holds nothing of use.
pub fn apply(old: &[u8], change: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let old = LeafRecord::parse(old)?;
    let mut r = Reader::new(change, "change of a row");
    let kind = r.u8()?;
    if kind & !(GHOST | TAGGED | DIFF | OFFROW | OWN | KEEP) != 0
        || kind & (OWN | KEEP) == OWN | KEEP
        || kind & (DIFF | OWN | KEEP) & !DIFF != 0 && kind & DIFF == 0
        || kind & (DIFF | OFFROW) == DIFF | OFFROW
        || kind & TAGGED == 0 && kind & (DIFF | OFFROW) != 0
    {
        return Err(r.bad("flags that contradict each other"));
    }
    let xid = if kind & TAGGED != 0 { TxId(r.varint64()?) } else { TxId::NONE };
    if kind & TAGGED != 0 && xid.is_none() {
        return Err(r.bad("tag without a writer"));
    }
    let offrow = match kind & OFFROW {
        0 => None,
        _ => Some(VersionPtr { page: PageId(r.varint64()?), slot: SlotId(r.u16()?) }),
    };
    if offrow.is_some_and(|pointer| pointer.page.is_none()) {
        return Err(r.bad("version pointer to page 0"));
    }
    let difference = r.rest();
    // A deletion, and a lock, leave the value as it is.
    let same = difference.is_empty() && old.value.len() <= RECORD_BYTES_MAX;
    let mut changed = Vec::new();
    if !same {
        changed.reserve(old.value.len());
        diff::apply(old.value, difference, RECORD_BYTES_MAX, &mut changed)?;
    }
    let value = if same { old.value } else { changed.as_slice() };
    let mut back = Vec::new();
    let earlier = match offrow {
        Some(pointer) => Earlier::OffRow(pointer),
        None if kind & DIFF == 0 => Earlier::None,
        None if kind & OWN != 0 => {
            let Earlier::InRow(tag, before) = old.earlier() else {
                return Err(Error::corrupt("a version in the row is to stay that is not there"));
            };
            let mut older = Vec::with_capacity(old.value.len());
            leaf::rebuild_earlier(old.value, before, &mut older)?;
            diff::diff(value, &older, &mut back);
            Earlier::InRow(tag, &back)
        }
        None => {
            let kept = kind & KEEP != 0;
            if kept && (old.xid.is_none() || old.diff.is_some()) {
                return Err(Error::corrupt("a record cannot go into the row with its tag"));
            }
            if !same {
                diff::diff(value, old.value, &mut back);
            }
            let tag = EarlierTag {
                ghost: old.is_ghost(),
                xid: if kept { old.xid } else { TxId::NONE },
                offrow: old.offrow.filter(|_| kept),
            };
            Earlier::InRow(tag, &back)
        }
    };
    let made = LeafBuilder { ghost: kind & GHOST != 0, xid, key: old.key, value, earlier };
    if made.encoded_len() > u16::MAX as usize {
        return Err(Error::corrupt("a change makes a record too long"));
    }
    made.encode_into(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(value_bytes: usize) -> Vec<u8> {
        (0..value_bytes).map(|i| (i * 7) as u8).collect()
    }

    /// The change of four bytes of a row of `bytes`, for the first time.
    fn first_change(bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let old = row(bytes);
        let mut new = old.clone();
        new[bytes / 2..bytes / 2 + 4].fill(1);
        let mut back = Vec::new();
        diff::diff(&new, &old, &mut back);
        let tag = EarlierTag { ghost: false, xid: TxId::NONE, offrow: None };
        let earlier = Earlier::InRow(tag, &back);
        let new = LeafBuilder { ghost: false, xid: TxId(70_000), key: b"a key", value: &new, earlier };
        (LeafBuilder::plain(b"a key", &old).encode().unwrap(), new.encode().unwrap())
    }

    #[test]
    fn the_first_change_of_a_clean_row_costs_what_changed() {
        for bytes in [50, 100, 200, 1000, 1500] {
            let (old, new) = first_change(bytes);
            let mut change = Vec::new();
            assert!(encode(&old, &new, &mut change), "{bytes}");
            assert!(change.len() <= 13, "{bytes} bytes: {} to say it", change.len());
            let mut made = Vec::new();
            apply(&old, &change, &mut made).unwrap();
            assert_eq!(made, new);
            // And back, as undo does it.
            let mut change = Vec::new();
            assert!(encode(&new, &old, &mut change));
            assert!(change.len() <= 9, "{bytes} bytes back: {}", change.len());
        }
    }

    #[test]
    fn a_deletion_costs_its_tag() {
        let value = row(300);
        let old = LeafBuilder::plain(b"k", &value).encode().unwrap();
        let tag = EarlierTag { ghost: false, xid: TxId::NONE, offrow: None };
        let new =
            LeafBuilder { ghost: true, xid: TxId(9), key: b"k", value: &value, earlier: Earlier::InRow(tag, &[]) };
        let mut change = Vec::new();
        assert!(encode(&old, &new.encode().unwrap(), &mut change));
        assert_eq!(change, [GHOST | TAGGED | DIFF, 9]);
    }

    fn pointer() -> impl Strategy<Value = Option<VersionPtr>> {
        proptest::option::of(
            (1u64.., any::<u16>()).prop_map(|(page, slot)| VersionPtr { page: PageId(page), slot: SlotId(slot) }),
        )
    }

    /// A record of one row with values that resemble each other.
    fn record() -> impl Strategy<Value = Vec<u8>> {
        let value = || proptest::collection::vec(0u8..3, 0..60);
        (any::<bool>(), 0u64..4, value(), proptest::option::of((any::<bool>(), 0u64..4, pointer(), value())), pointer())
            .prop_map(|(ghost, xid, value, inner, offrow)| {
                let mut back = Vec::new();
                let earlier = match (&inner, offrow) {
                    _ if xid == 0 => Earlier::None,
                    (Some((ghost, xid, pointer, older)), _) => {
                        diff::diff(&value, older, &mut back);
                        let offrow = pointer.filter(|_| *xid > 0);
                        Earlier::InRow(EarlierTag { ghost: *ghost, xid: TxId(*xid), offrow }, &back)
                    }
                    (None, Some(pointer)) => Earlier::OffRow(pointer),
                    (None, None) => Earlier::None,
                };
                LeafBuilder { ghost, xid: TxId(xid), key: b"key", value: &value, earlier }.encode().unwrap()
            })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_made(old in record(), new in record()) {
            let mut change = vec![7];
            if encode(&old, &new, &mut change) {
                let mut made = Vec::new();
                apply(&old, &change[1..], &mut made).unwrap();
                prop_assert_eq!(made, new);
            } else {
                prop_assert_eq!(change, vec![7]);
                // Only a version in the row that is of neither cannot be said.
                prop_assert!(LeafRecord::parse(&new).unwrap().diff.is_some());
            }
        }

        #[test]
        fn a_deletion_is_said_as_any_change(old in record(), xid in 1u64..) {
            let record = LeafRecord::parse(&old).unwrap();
            let keeps = record.is_tagged() && record.diff.is_none();
            for keeps in [false, keeps] {
                let tag = if keeps { record.xid } else { TxId::NONE };
                let tag = EarlierTag { ghost: record.is_ghost(), xid: tag, offrow: record.offrow.filter(|_| keeps) };
                let new = LeafBuilder {
                    ghost: true, xid: TxId(xid), key: record.key, value: record.value, earlier: Earlier::InRow(tag, &[]),
                };
                let (mut change, mut made) = (Vec::new(), Vec::new());
                encode_deletion(TxId(xid), keeps, &mut change);
                prop_assert!(change.len() <= 12);
                apply(&old, &change, &mut made).unwrap();
                prop_assert_eq!(made, new.encode().unwrap());
            }
        }

        #[test]
        fn nonsense_never_panics(
            old in record(), change in proptest::collection::vec(any::<u8>(), 0..30), kind in 0u8..64,
        ) {
            let _ = apply(&old, &change, &mut Vec::new());
            let change: Vec<u8> = std::iter::once(kind).chain(change).collect();
            let mut made = Vec::new();
            if apply(&old, &change, &mut made).is_ok() {
                LeafRecord::parse(&made).unwrap();
            }
        }
    }
}
