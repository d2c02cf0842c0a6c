//! Which segments are restored, durably: `DIR/restored-segments`, replaced as a whole.
//!
//! ```text
//! magic "RSMK" u32 | version u16 | zero u16 | database id | number of files u32 |
//! files x { number u64 | segments u64 | a bit for each, rounded up to bytes } | crc u32
//! ```
//!
//! # Invariant
//! A bit is written only when its segment is in the file and synced, and a checkpoint says what its pages lack.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, Result, checksum};
use resurgam_buffer::Segment;
use resurgam_vfs::{Vfs, read_small, replace_small};

/// Its name in the data folder.
pub(crate) const MARKS: &str = "restored-segments";
const MAGIC: u32 = u32::from_le_bytes(*b"RSMK");
const VERSION: u16 = 1;
const HEAD: usize = 28;
/// A file of marks is never longer: eight petabytes of pages.
const BYTES_MAX: u64 = 1 << 30;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub database_id: [u8; 16],
    /// In order, each once.
    pub segments: Vec<Segment>,
}

impl Marks {
    /// Reads them; none when the file is not there.
    ///
    /// # Errors
    /// `Corrupt`; those of reading.
    pub fn read(vfs: &Arc<dyn Vfs>, dir: &Path, database_id: [u8; 16]) -> Result<Self> {
        let path = dir.join(MARKS);
        let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else {
            return Ok(Self { database_id, segments: Vec::new() });
        };
        Self::decode(&bytes)
            .filter(|marks| marks.database_id == database_id)
            .ok_or_else(|| Error::corrupt(format!("the file \"{}\" is damaged", path.display())))
    }

    /// Replaces the file and makes that durable.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        replace_small(&**vfs, &dir.join(MARKS), &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut files: Vec<(u64, u64)> = Vec::new();
        for segment in &self.segments {
            match files.iter_mut().find(|(file, _)| *file == segment.file) {
                Some((_, count)) => *count = (*count).max(segment.number + 1),
                None => files.push((segment.file, segment.number + 1)),
            }
        }
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.database_id);
        out.extend_from_slice(&(files.len() as u32).to_le_bytes());
        for (file, count) in files {
            out.extend_from_slice(&file.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
            let at = out.len();
            out.resize(at + count.div_ceil(8) as usize, 0);
            for segment in self.segments.iter().filter(|segment| segment.file == file) {
                out[at + (segment.number / 8) as usize] |= 1 << (segment.number % 8);
            }
        }
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if checksum(body) != u32::from_le_bytes(*crc) || body.len() < HEAD {
            return None;
        }
        let (head, mut rest) = body.split_at_checked(HEAD)?;
        let word = |bytes: &[u8], at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if head[..4] != MAGIC.to_le_bytes() || head[4..6] != VERSION.to_le_bytes() {
            return None;
        }
        let database_id = head[8..24].try_into().ok()?;
        let mut segments = Vec::new();
        for _ in 0..u32::from_le_bytes(head[24..28].try_into().ok()?) {
            let (file, count) = (word(rest, 0)?, word(rest, 8)?);
            let bits = rest.get(16..)?.get(..usize::try_from(count.div_ceil(8)).ok()?)?;
            let is_set = |number: &u64| bits[(*number / 8) as usize] & 1 << (*number % 8) != 0;
            segments.extend((0..count).filter(is_set).map(|number| Segment { file, number }));
            rest = &rest[16 + bits.len()..];
        }
        segments.sort_unstable();
        rest.is_empty().then_some(Self { database_id, segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let segment = |file, number| Segment { file, number };
        let segments = (0..40).filter(|n| n % 3 != 0).map(|n| segment(0, n)).chain([segment(2, 0), segment(2, 77)]);
        for segments in [segments.collect(), Vec::new()] {
            let marks = Marks { database_id: [3; 16], segments };
            let bytes = marks.encode();
            assert_eq!(Marks::decode(&bytes), Some(marks));
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 4;
                assert!(Marks::decode(&bad).is_none() && Marks::decode(&bytes[..at]).is_none(), "byte {at}");
            }
        }
    }
}
