//! What is durable of a page server: up to where the log is applied, and which segments are there. `DIR/mark`, replaced as a
//! whole.
//!
//! ```text
//! magic "RSPS" u32 | version u16 | zero u16 | database id | position u64 | segments u64 | a bit for each, in bytes |
//!   from version 2 on: pages of a partition u64 | count u32 | a bit for each number below it, whether it is there, in bytes |
//! crc u32
//! ```
//! Version 1 is of a server that has all pages, and is written for it.
//!
//! # Invariant
//! It is written only when the file has all pages as of the position, synced, and the archive reaches at least as far.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_vfs::{Vfs, read_small, replace_small};

use crate::partition::{PARTITION_COUNT_MAX, Partitions};

const NAME: &str = "mark";
const MAGIC: u32 = u32::from_le_bytes(*b"RSPS");
const VERSION: u16 = 2;
const HEAD: usize = 40;
/// A mark is never longer: eight petabytes of pages.
const BYTES_MAX: u64 = 1 << 30;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub database: [u8; 16],
    /// All log below is applied.
    pub position: Lsn,
    /// Segments that existed when the server was seeded: whether each is there. All behind them are.
    pub there: Vec<bool>,
    /// Which pages it has.
    pub partitions: Partitions,
}

impl Mark {
    /// Reads it; none when there is none.
    ///
    /// # Errors
    /// `NotADatabase` when it is of another database; `NewerFormat`; `Corrupt`; those of reading.
    pub fn read(vfs: &Arc<dyn Vfs>, dir: &Path, database: [u8; 16]) -> Result<Option<Self>> {
        let mark = Self::read_any(vfs, dir)?;
        if mark.as_ref().is_some_and(|mark| mark.database != database) {
            let what = format!("\"{}\" has the pages of another database", dir.display());
            return Err(Error::new(ErrorKind::NotADatabase, what));
        }
        Ok(mark)
    }

    /// As [`Mark::read`], whichever database it is of.
    ///
    /// # Errors
    /// `NewerFormat`; `Corrupt`; those of reading.
    pub fn read_any(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else { return Ok(None) };
        if bytes.get(..4) == Some(&MAGIC.to_le_bytes())
            && bytes.get(4..6).is_some_and(|v| v > &VERSION.to_le_bytes()[..])
        {
            let what = format!("\"{}\" was written by a newer version of this program", path.display());
            return Err(Error::new(ErrorKind::NewerFormat, what));
        }
        let mark = Self::decode(&bytes)
            .ok_or_else(|| Error::corrupt(format!("the file \"{}\" is damaged", path.display())))?;
        Ok(Some(mark))
    }

    /// Replaces the file and makes that durable.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        replace_small(&**vfs, &dir.join(NAME), &self.encode())
    }

    /// Removes it: the server is made anew at the next start.
    ///
    /// # Errors
    /// Those of removing.
    pub fn remove(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        let path = dir.join(NAME);
        if vfs.exists(&path)? {
            vfs.remove(&path)?;
        }
        vfs.sync_dir(dir)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_le_bytes().to_vec();
        let version = if self.partitions.is_all() { 1 } else { VERSION };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.database);
        out.extend_from_slice(&self.position.0.to_le_bytes());
        out.extend_from_slice(&(self.there.len() as u64).to_le_bytes());
        put_bits(&mut out, self.there.iter().copied());
        if version > 1 {
            out.extend_from_slice(&self.partitions.pages().to_le_bytes());
            out.extend_from_slice(&self.partitions.count().to_le_bytes());
            put_bits(&mut out, (0..self.partitions.count()).map(|number| self.partitions.has(number.into())));
        }
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if checksum(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (head, rest) = body.split_at_checked(HEAD)?;
        let version = u16::from_le_bytes([head[4], head[5]]);
        if head[..4] != MAGIC.to_le_bytes() || !(1..=VERSION).contains(&version) {
            return None;
        }
        let word = |at: usize| head[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        let count = usize::try_from(word(32)?).ok()?;
        let (there, rest) = bits(rest, count)?;
        let partitions = if version == 1 { Partitions::all() } else { partitions(rest)? };
        if version == 1 && !rest.is_empty() {
            return None;
        }
        Some(Self { database: head[8..24].try_into().ok()?, position: Lsn(word(24)?), there, partitions })
    }
}

fn put_bits(out: &mut Vec<u8>, bits: impl ExactSizeIterator<Item = bool>) {
    let at = out.len();
    out.resize(at + bits.len().div_ceil(8), 0);
    for (number, _) in bits.enumerate().filter(|(_, bit)| *bit) {
        out[at + number / 8] |= 1 << (number % 8);
    }
}

fn bits(bytes: &[u8], count: usize) -> Option<(Vec<bool>, &[u8])> {
    let (bits, rest) = bytes.split_at_checked(count.div_ceil(8))?;
    Some(((0..count).map(|number| bits[number / 8] & 1 << (number % 8) != 0).collect(), rest))
}

fn partitions(bytes: &[u8]) -> Option<Partitions> {
    let (pages, rest) = bytes.split_first_chunk::<8>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let count = Some(u32::from_le_bytes(*count)).filter(|count| *count <= PARTITION_COUNT_MAX)?;
    let (mine, rest) = bits(rest, count as usize)?;
    let numbers: Vec<u32> = (0..).zip(mine).filter(|(_, mine)| *mine).map(|(number, _)| number).collect();
    Partitions::new(u64::from_le_bytes(*pages), count, &numbers).ok().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let some = Partitions::new(256, 11, &[0, 9]).unwrap();
        for (count, partitions) in [0, 1, 8, 77].into_iter().flat_map(|n| [(n, Partitions::all()), (n, some.clone())]) {
            let there = (0..count).map(|n| n % 3 != 0).collect();
            let mark = Mark { database: [3; 16], position: Lsn(77_000), there, partitions };
            let bytes = mark.encode();
            assert_eq!(Mark::decode(&bytes), Some(mark));
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 4;
                assert!(Mark::decode(&bad).is_none() && Mark::decode(&bytes[..at]).is_none(), "byte {at}");
            }
        }
    }
}
