//! Inner pages: slotted pages whose records lead to children.
//!
//! ```text
//! 0 key_len u16 | key | child u64
//! ```
//!
//! # Invariants
//! 1. Keys ascend strictly; slot 0's key is the page's lower fence (empty for minus
//!    infinity), so every key of the page's range has a child.
//! 2. Slot i's child covers keys from slot i's key up to slot i+1's key (or the
//!    page's upper fence).

use crate::buf::PageBuf;
use crate::codec::Reader;
use crate::probe;
use resurgam_base::limits::KEY_BYTES_MAX;
use resurgam_base::{PageId, Result, SlotId};

/// Bytes of an inner record beside its key.
pub const OVERHEAD: usize = 2 + 8;

/// A parsed inner record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerRecord<'a> {
    /// Lowest key of the child's range.
    pub key: &'a [u8],
    pub child: PageId,
}

impl<'a> InnerRecord<'a> {
    /// Parses and checks a record.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "inner record");
        let key_len = r.u16()? as usize;
        if key_len > KEY_BYTES_MAX {
            return Err(r.bad("key too long"));
        }
        let key = r.take(key_len)?;
        let child = PageId(r.u64()?);
        if !r.is_empty() {
            return Err(r.bad("bytes left over"));
        }
        if child.is_none() {
            return Err(r.bad("child is page 0"));
        }
        Ok(Self { key, child })
    }
}

/// Appends a record.
pub fn encode_into(key: &[u8], child: PageId, out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&child.0.to_le_bytes());
}

/// A record's bytes.
pub fn encode(key: &[u8], child: PageId) -> Vec<u8> {
    let mut out = Vec::with_capacity(OVERHEAD + key.len());
    encode_into(key, child, &mut out);
    out
}

/// A record's key, quickly; empty for nonsense.
#[inline]
pub fn key_of(record: &[u8]) -> &[u8] {
    match record.split_first_chunk::<2>() {
        Some((len, rest)) => rest.get(..u16::from_le_bytes(*len) as usize).unwrap_or(&[]),
        None => &[],
    }
}

/// A record's child, quickly; `PageId::NONE` for nonsense.
#[inline]
pub fn child_of(record: &[u8]) -> PageId {
    match record.last_chunk::<8>() {
        Some(child) => PageId(u64::from_le_bytes(*child)),
        None => PageId::NONE,
    }
}

/// The child whose range holds `key`: the last slot whose key is at or below it.
/// On a page without slots the child is `PageId::NONE`.
#[inline]
pub fn child_for(page: &PageBuf, key: &[u8]) -> (SlotId, PageId) {
    // Slot 0 counts as at or below every key: its key is the lower fence.
    let slot = match probe::find(page, 1, page.slot_count(), |record| probe::compare(key_of(record), key)) {
        Ok(slot) => slot,
        Err(above) => SlotId(above.0 - 1),
    };
    (slot, child_of(page.rec(slot)))
}

/// The slot whose key is exactly `key` (`Ok`), or where it would be inserted (`Err`).
pub fn search(page: &PageBuf, key: &[u8]) -> Result<SlotId, SlotId> {
    probe::find(page, 0, page.slot_count(), |record| probe::compare(key_of(record), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::PageType;
    use resurgam_base::ObjectId;

    #[test]
    fn child_for_takes_the_last_key_at_or_below() {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Inner, PageId(2), 1, ObjectId(1));
        assert_eq!(child_for(&page, b"x"), (SlotId(0), PageId::NONE));
        for (i, key) in ["", "d", "m"].iter().enumerate() {
            page.insert(SlotId(i as u16), &encode(key.as_bytes(), PageId(10 + i as u64))).unwrap();
        }
        for (key, slot) in [("", 0), ("a", 0), ("d", 1), ("dd", 1), ("l", 1), ("m", 2), ("zz", 2)] {
            let want = (SlotId(slot), PageId(10 + u64::from(slot)));
            assert_eq!(child_for(&page, key.as_bytes()), want, "{key}");
        }
        assert_eq!(search(&page, b"m"), Ok(SlotId(2)));
        assert_eq!(search(&page, b"e"), Err(SlotId(2)));
    }

    #[test]
    fn parse_checks_lengths() {
        let good = encode(b"key", PageId(9));
        let want = InnerRecord { key: b"key", child: PageId(9) };
        assert_eq!(InnerRecord::parse(&good).unwrap(), want);
        for cut in 0..good.len() {
            assert!(InnerRecord::parse(&good[..cut]).is_err());
        }
        assert!(InnerRecord::parse(&[&good[..], &[0]].concat()).is_err());
        assert!(InnerRecord::parse(&encode(b"k", PageId::NONE)).is_err());
    }
}
