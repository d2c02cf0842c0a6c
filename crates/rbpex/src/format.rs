//! The bytes of the cache. `DIR/pages` has slots of 8 KB, each a sealed page. `DIR/directory`:
//!
//! ```text
//! header, 4096 bytes   magic "RSPX" u32 | version u16 | zero u16 | page bytes u32 | zero u32 | database id | number of this cache u64 | zeros |
//!                      crc u32 of what is before it, in the last four bytes
//! records of 32 bytes  one for each slot, in their order:
//!                      page u64 | lsn u64 | as of u64 | flags u32 (1 = it was used again) | crc u32 of what is before it and of the number of
//!                      this cache
//! ```
//! All integers are little-endian. A record lies in one sector; one that is all zero is none.

use resurgam_base::{Lsn, PageId, checksum, checksum_append, limits::PAGE_SIZE};

pub const HEADER_BYTES: usize = 4096;
pub const RECORD_BYTES: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"RSPX");
const VERSION: u16 = 1;
const USED_AGAIN: u32 = 1;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub database: [u8; 16],
    /// Drawn when the cache was made anew.
    pub number: u64,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.database);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.resize(HEADER_BYTES - 4, 0);
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Whether a file that begins like this may be taken for a cache's, to be made anew at least: a crash may have left zeros of one.
    pub fn is_ours(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes()) || bytes.iter().all(|byte| *byte == 0)
    }

    /// `None`: it is not one of this version, with pages of this size. A cache is not worth more than to be made anew then.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_at_checked(HEADER_BYTES - 4)?;
        if crc != checksum(content).to_le_bytes() {
            return None;
        }
        let header =
            Self { database: *content[16..].first_chunk()?, number: u64::from_le_bytes(*content[32..].first_chunk()?) };
        (header.encode() == bytes).then_some(header)
    }
}

/// What is said of a slot: it has `page` as of `lsn`, and the page had no later record below `as_of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub page: PageId,
    pub lsn: Lsn,
    pub as_of: Lsn,
    /// Somebody has asked for it again: it is not among those that go first.
    pub used_again: bool,
}

impl Record {
    pub fn encode(&self, number: u64) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        let flags = if self.used_again { USED_AGAIN } else { 0 };
        out[..8].copy_from_slice(&self.page.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.as_of.0.to_le_bytes());
        out[24..28].copy_from_slice(&flags.to_le_bytes());
        let crc = checksum_append(checksum(&number.to_le_bytes()), &out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None`: nothing is said.
    pub fn decode(bytes: &[u8], number: u64) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let flags = u32::from_le_bytes(*bytes.get(24..)?.first_chunk()?);
        let record = Self {
            page: PageId(word(0)?),
            lsn: Lsn(word(8)?),
            as_of: Lsn(word(16)?),
            used_again: flags & USED_AGAIN != 0,
        };
        let is_one = record.page.is_some() && record.lsn.is_some() && record.encode(number) == *bytes;
        is_one.then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(page in 1u64.., lsn in 1u64.., as_of: u64, used_again: bool, number: u64, database: [u8; 16]) {
            let record = Record { page: PageId(page), lsn: Lsn(lsn), as_of: Lsn(as_of), used_again };
            let bytes = record.encode(number);
            prop_assert_eq!(Record::decode(&bytes, number), Some(record));
            prop_assert_eq!(Record::decode(&bytes, number.wrapping_add(1)), None, "of another cache");
            for bit in 0..RECORD_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(Record::decode(&flipped, number), None);
            }
            let header = Header { database, number };
            prop_assert_eq!(Header::decode(&header.encode()), Some(header));
        }

        #[test]
        fn any_bytes_are_no_record(bytes in prop::collection::vec(any::<u8>(), 0..40), number: u64) {
            prop_assert_eq!(Record::decode(&bytes, number), None);
            prop_assert_eq!(Header::decode(&bytes), None);
        }
    }

    #[test]
    fn damaged_headers_are_none() {
        let bytes = Header { database: [7; 16], number: 9 }.encode();
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped), None);
        }
        assert_eq!(Header::decode(&vec![0; HEADER_BYTES]), None);
        assert_eq!(Record::decode(&[0; RECORD_BYTES], 0), None, "zeros say nothing");
    }
}
