//! Version pages: slotted, append-only pages of the off-row version store
//! (Constant Time Recovery, section 3.2.2). A record is a full earlier version.
//!
//! ```text
//! 0 object u32        the tree the row belongs to
//! 4 pusher xid u64    the transaction that pushed the version out of the row
//! 12 leaf record      as in the module `leaf`, its own tag and pointer included
//! ```

use crate::codec::Reader;
use crate::leaf::LeafRecord;
use resurgam_base::{ObjectId, Result, TxId};

/// Bytes before the leaf record.
pub const OVERHEAD: usize = 4 + 8;

/// A parsed record of a version page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRecord<'a> {
    pub object: ObjectId,
    /// The transaction that made this version an off-row one.
    pub pusher: TxId,
    /// The earlier version itself.
    pub record: LeafRecord<'a>,
}

impl<'a> VersionRecord<'a> {
    /// Parses and checks a record.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "version record");
        let object = ObjectId(r.u32()?);
        let pusher = TxId(r.u64()?);
        if pusher.is_none() {
            return Err(r.bad("no pusher"));
        }
        Ok(Self { object, pusher, record: LeafRecord::parse(r.rest())? })
    }
}

/// Appends a record; `leaf` is an encoded leaf record.
pub fn encode_into(object: ObjectId, pusher: TxId, leaf: &[u8], out: &mut Vec<u8>) {
    out.reserve(OVERHEAD + leaf.len());
    out.extend_from_slice(&object.0.to_le_bytes());
    out.extend_from_slice(&pusher.0.to_le_bytes());
    out.extend_from_slice(leaf);
}

/// A record's pusher, quickly; `TxId::NONE` for nonsense.
#[inline]
pub fn pusher_of(record: &[u8]) -> TxId {
    match record.first_chunk::<OVERHEAD>() {
        Some(&[_, _, _, _, a, b, c, d, e, f, g, h]) => TxId(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
        None => TxId::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::LeafBuilder;

    #[test]
    fn round_trip_and_cuts() {
        let leaf = LeafBuilder::inserted(TxId(4), b"key", b"value").encode().unwrap();
        let mut bytes = Vec::new();
        encode_into(ObjectId(3), TxId(8), &leaf, &mut bytes);
        let parsed = VersionRecord::parse(&bytes).unwrap();
        assert_eq!((parsed.object, parsed.pusher), (ObjectId(3), TxId(8)));
        assert_eq!(parsed.record, LeafRecord::parse(&leaf).unwrap());
        assert_eq!(pusher_of(&bytes), TxId(8));
        for cut in 0..OVERHEAD + 3 {
            assert!(VersionRecord::parse(&bytes[..cut]).is_err());
        }
    }
}
