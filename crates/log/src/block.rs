//! The block header: what makes a stretch of the log trustworthy.
//!
//! All numbers little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `RSLB` |
//! | 4..6 | format version |
//! | 6..8 | flags: bit 0 = SKIP (no payload; the next block starts the next segment) |
//! | 8..16 | LSN of the block: its own position in the stream |
//! | 16..24 | LSN of the block before; 0 for the first of all |
//! | 24..32 | durable LSN: every byte below was durable when this block was written |
//! | 32..36 | epoch |
//! | 36..40 | payload length |
//! | 40..44 | CRC-32C over header (this field zero) and payload |
//! | 44..48 | the opening that wrote it: a random number, not 0; 0 in blocks of earlier versions |
//!
//! The number of the opening tells histories apart: a copy of a data folder that is opened counts the same epochs and gives out the
//! same LSNs as the original, but draws another number.
//!
//! The durable LSN tells damage from an ordinary end: when a block fails its
//! checksum although a later one says that it had been durable, the medium lost
//! it (see [`LogReader::check_end`](crate::LogReader::check_end)).

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum, checksum_append};

/// Blocks start at multiples of this many bytes.
pub const BLOCK_ALIGN: usize = 512;
/// Length of the encoded header.
pub const BLOCK_HEADER_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"RSLB";
const VERSION: u16 = 1;
const FLAG_SKIP: u16 = 1;
const CRC_AT: usize = 40;

const _: () = assert!(BLOCK_HEADER_BYTES <= BLOCK_ALIGN);

/// An encoded header, with its checksum.
pub(crate) struct Head {
    pub(crate) bytes: [u8; BLOCK_HEADER_BYTES],
}

impl Head {
    /// What its checksum is over, but for the payload: the same without it.
    pub(crate) fn unsealed(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = self.bytes;
        bytes[CRC_AT..CRC_AT + 4].fill(0);
        bytes
    }

    /// Of the header without it, and the payload.
    pub(crate) fn checksum(&self) -> u32 {
        let at = |n: usize| self.bytes[CRC_AT + n];
        u32::from_le_bytes([at(0), at(1), at(2), at(3)])
    }
}

/// A decoded block header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The block's own position.
    pub lsn: Lsn,
    /// Position of the block before, or none.
    pub prev: Lsn,
    /// Every byte below was durable when this block was written.
    pub durable: Lsn,
    /// Which opening of the log wrote it.
    pub epoch: u32,
    /// Bytes of records after the header.
    pub payload_len: u32,
    /// The random number that the opening drew; 0 in blocks of earlier versions.
    pub opening: u32,
    /// Whether the rest of the segment is unused.
    pub skip: bool,
}

impl BlockHeader {
    /// Bytes of header and payload.
    pub fn len(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.payload_len)
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.payload_len == 0
    }

    /// Where the block after this one must start.
    pub fn next(&self, segment_bytes: u64) -> Lsn {
        if self.skip {
            Lsn((self.lsn.0 / segment_bytes + 1) * segment_bytes)
        } else {
            Lsn(self.lsn.0 + self.len().next_multiple_of(BLOCK_ALIGN as u64))
        }
    }

    /// The header of this payload, checksum included.
    pub(crate) fn head_of(&self, payload: &[u8]) -> Head {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(if self.skip { FLAG_SKIP } else { 0 }).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.prev.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.opening.to_le_bytes());
        let crc = checksum_append(checksum(&bytes), payload);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        Head { bytes }
    }

    /// Writes the header, checksum included, in front of its payload.
    ///
    /// # Panics
    /// When `block` is not header and payload exactly: a bug of the caller.
    #[cfg(test)]
    pub(crate) fn seal(&self, block: &mut [u8]) {
        assert_eq!(block.len() as u64, self.len(), "block length");
        let (head, payload) = block.split_at_mut(BLOCK_HEADER_BYTES);
        head.copy_from_slice(&self.head_of(payload).bytes);
    }

    /// Decodes a header, of whichever position it says that it is; checksum not looked at. `None` when these bytes are no
    /// block header.
    pub fn read(head: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
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
        if head[0..4] != MAGIC {
            return None;
        }
        Some(Self {
            lsn: Lsn(u64_at(8)),
            prev: Lsn(u64_at(16)),
            durable: Lsn(u64_at(24)),
            epoch: u32_at(32),
            payload_len: u32_at(36),
            opening: u32_at(44),
            skip: u16::from_le_bytes([head[6], head[7]]) & FLAG_SKIP != 0,
        })
    }

    /// The same of the header expected at `lsn`. `None` when these bytes are not a block header of that position.
    pub(crate) fn decode(head: &[u8; BLOCK_HEADER_BYTES], lsn: Lsn) -> Option<Self> {
        Self::read(head).filter(|header| header.lsn == lsn)
    }

    /// Whether a whole block, whose header was decoded, has its checksum.
    ///
    /// # Errors
    /// `NewerFormat` when the bytes are intact but of a later version.
    pub fn verify(block: &[u8]) -> Result<bool> {
        let Some((head, payload)) = block.split_first_chunk::<BLOCK_HEADER_BYTES>() else {
            return Ok(false);
        };
        let known = Head { bytes: *head };
        if known.checksum() != checksum_append(checksum(&known.unsealed()), payload) {
            return Ok(false);
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("the log has format version {version}; this program knows up to {VERSION}"),
            ));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(lsn: u64, prev: u64, durable: u64, epoch: u32, opening: u32, skip: bool,
                      payload in prop::collection::vec(any::<u8>(), 0..300), flip in 0usize..4000) {
            let header = BlockHeader {
                lsn: Lsn(lsn), prev: Lsn(prev), durable: Lsn(durable), epoch,
                payload_len: payload.len() as u32, opening, skip,
            };
            let mut block = vec![0xaa; BLOCK_HEADER_BYTES];
            block.extend_from_slice(&payload);
            header.seal(&mut block);
            let head = block.first_chunk().unwrap();
            prop_assert_eq!(BlockHeader::decode(head, Lsn(lsn)), Some(header));
            prop_assert_eq!(BlockHeader::decode(head, Lsn(lsn ^ 1)), None);
            prop_assert!(BlockHeader::verify(&block).unwrap());

            let flip = flip % (block.len() * 8);
            block[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(!BlockHeader::verify(&block).unwrap());
        }
    }

    #[test]
    fn the_next_block() {
        let mut header = BlockHeader {
            lsn: Lsn(4096 + 512),
            prev: Lsn(4096),
            durable: Lsn(4096),
            epoch: 1,
            payload_len: 512 - 48,
            opening: 7,
            skip: false,
        };
        assert_eq!(header.next(4096), Lsn(4096 + 1024));
        header.payload_len += 1;
        assert_eq!(header.next(4096), Lsn(4096 + 1536));
        header.skip = true;
        assert_eq!(header.next(4096), Lsn(8192));
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let header = BlockHeader {
            lsn: Lsn(4096),
            prev: Lsn(0),
            durable: Lsn(0),
            epoch: 1,
            payload_len: 0,
            opening: 0,
            skip: true,
        };
        let mut block = [0; BLOCK_HEADER_BYTES];
        header.seal(&mut block);
        block[4] = 9;
        block[40..44].fill(0);
        let crc = checksum(&block);
        block[40..44].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(BlockHeader::verify(&block).unwrap_err().kind(), ErrorKind::NewerFormat);
    }
}
