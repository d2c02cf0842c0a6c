//! The fixed parts of a run's file: header, trailer, summary; and its name.
//!
//! ```text
//! header | frames of page records, those of the page table between them | frames of the stream | index | summary | trailer
//! ```
//! Every byte of the file is under one of the checksums: header and trailer have their own, a frame each has one.
//! All numbers little-endian.
//!
//! | header | |
//! |---|---|
//! | 0..8 | magic `RSARUN01` |
//! | 8..10 | format version |
//! | 10..12 | level: 0 = as it was sorted, each merge adds one |
//! | 12..16 | zero |
//! | 16..32 | database |
//! | 32..40, 40..48 | LSNs: the first block, and where the block behind the last one begins |
//! | 48..56 | generation: no two files of one range have the same |
//! | 56..60 | CRC-32C of the bytes before |
//! | 60..64 | zero, as 12..16: looked at |
//!
//! | trailer | |
//! |---|---|
//! | 0..8 | magic `RSAREND1` |
//! | 8..40 | offsets: stream, index, summary, the trailer itself |
//! | 40..44 | the header's CRC |
//! | 44..56 | zero |
//! | 56..60 | CRC-32C of the bytes before |
//! | 60..64 | zero |

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, TxId, checksum};
use resurgam_log::BlockMark;
use resurgam_page::codec::{Reader, put_varint64};

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 64;
const HEADER_MAGIC: [u8; 8] = *b"RSARUN01";
const TRAILER_MAGIC: [u8; 8] = *b"RSAREND1";
/// 2: merged runs have an entry of the page table for each record that makes a page anew. 3: the summary has the mark of the
/// last block.
const VERSION: u16 = 3;
const CRC_AT: usize = 56;

/// A database's identity, as its boot page has it.
pub type DatabaseId = [u8; 16];

/// What a run is: whose, of which range, and which of several files of that range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    pub database: DatabaseId,
    /// 0 = as it was sorted; each merge adds one.
    pub level: u16,
    /// Where its first block begins.
    pub start: Lsn,
    /// Where the block behind its last one begins.
    pub end: Lsn,
    /// No two files of one range have the same.
    pub generation: u64,
}

impl RunId {
    /// The object's name.
    pub fn name(&self) -> String {
        format!("runs/{:016X}-{:016X}-L{:02}-{:016X}.run", self.start.0, self.end.0, self.level, self.generation)
    }

    /// The end in an object's name.
    pub(crate) fn end_in_name(name: &str) -> Option<Lsn> {
        let end = name.strip_prefix("runs/")?.split('-').nth(1)?;
        u64::from_str_radix(end, 16).ok().map(Lsn)
    }

    /// The generation in an object's name.
    pub(crate) fn generation_in_name(name: &str) -> Option<u64> {
        let (_, generation) = name.strip_prefix("runs/")?.strip_suffix(".run")?.rsplit_once('-')?;
        u64::from_str_radix(generation, 16).ok()
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&HEADER_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&self.level.to_le_bytes());
        out[16..32].copy_from_slice(&self.database);
        out[32..40].copy_from_slice(&self.start.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.end.0.to_le_bytes());
        out[48..56].copy_from_slice(&self.generation.to_le_bytes());
        seal(&mut out);
        out
    }

    /// Decodes a header; with it its checksum, which is the seed of those of the frames.
    ///
    /// # Errors
    /// `Corrupt` without a place; `NewerFormat`.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, u32)> {
        let crc = check(bytes, HEADER_MAGIC, "header")?;
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("it has format version {version}; this program knows up to {VERSION}"),
            ));
        }
        let mut database = [0; 16];
        database.copy_from_slice(&bytes[16..32]);
        let id = Self {
            database,
            level: u16::from_le_bytes([bytes[10], bytes[11]]),
            start: Lsn(u64_at(bytes, 32)),
            end: Lsn(u64_at(bytes, 40)),
            generation: u64_at(bytes, 48),
        };
        Ok((id, crc))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn seal(out: &mut [u8; HEADER_BYTES]) {
    let crc = checksum(&out[..CRC_AT]);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Checks magic and checksum; returns the checksum.
fn check(bytes: &[u8; HEADER_BYTES], magic: [u8; 8], what: &str) -> Result<u32> {
    if bytes[0..8] != magic {
        return Err(Error::corrupt(format!("there is no {what} of a run")));
    }
    let crc = checksum(&bytes[..CRC_AT]);
    if bytes[CRC_AT..CRC_AT + 4] != crc.to_le_bytes() || bytes[CRC_AT + 4..] != [0; 4] {
        return Err(Error::corrupt(format!("the checksum of its {what} is wrong")));
    }
    Ok(crc)
}

/// Where the parts of the file begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub stream_at: u64,
    pub index_at: u64,
    pub summary_at: u64,
    /// The trailer itself.
    pub at: u64,
    /// The header's checksum.
    pub seed: u32,
}

impl Trailer {
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut out = [0; TRAILER_BYTES];
        out[0..8].copy_from_slice(&TRAILER_MAGIC);
        let offsets = [self.stream_at, self.index_at, self.summary_at, self.at];
        for (i, offset) in offsets.iter().enumerate() {
            out[8 + i * 8..16 + i * 8].copy_from_slice(&offset.to_le_bytes());
        }
        out[40..44].copy_from_slice(&self.seed.to_le_bytes());
        seal(&mut out);
        out
    }

    /// Decodes the trailer of a file of `len` bytes; with it its checksum.
    ///
    /// # Errors
    /// `Corrupt` without a place.
    pub fn decode(bytes: &[u8; TRAILER_BYTES], len: u64) -> Result<(Self, u32)> {
        let crc = check(bytes, TRAILER_MAGIC, "trailer")?;
        let trailer = Self {
            stream_at: u64_at(bytes, 8),
            index_at: u64_at(bytes, 16),
            summary_at: u64_at(bytes, 24),
            at: u64_at(bytes, 32),
            seed: u32::from_le_bytes([bytes[40], bytes[41], bytes[42], bytes[43]]),
        };
        let t = &trailer;
        let order = [HEADER_BYTES as u64, t.stream_at, t.index_at, t.summary_at, t.at];
        if !order.is_sorted() || t.at.checked_add(TRAILER_BYTES as u64) != Some(len) {
            return Err(Error::corrupt("its parts are not where its trailer says"));
        }
        Ok((trailer, crc))
    }
}

/// What is in a run, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Blocks of the log in the range.
    pub blocks: u64,
    /// Bytes of records in those blocks.
    pub payload_bytes: u64,
    /// Page records in the run, images made by merges included.
    pub page_records: u64,
    /// Pages with a record.
    pub pages: u64,
    /// Entries of the transaction stream.
    pub stream_entries: u64,
    /// Bytes that the records of the stream had in the log.
    pub stream_bytes: u64,
    /// Page records that merges left out, because a later one makes the page anew.
    pub dropped_records: u64,
    /// Bytes that they had in the log.
    pub dropped_bytes: u64,
    /// Page images that merges put in.
    pub images: u64,
    /// The state of a page before this LSN may not be reproducible: what led to it was left out.
    pub complete_from: Lsn,
    /// The highest page of the data file that a record names.
    pub highest_page: PageId,
    /// The same of version-store files.
    pub highest_version_page: PageId,
    pub highest_object: u32,
    pub highest_tx: TxId,
    pub first_epoch: u32,
    pub last_epoch: u32,
    /// The earliest and latest time that a COMMIT says, microseconds since 2000-01-01; none: 0 of both.
    pub first_commit_us: i64,
    pub last_commit_us: i64,
    /// The last block of the log in the range: what tells the archived history from that of a copy of the database. Without
    /// a position in runs of format versions 1 and 2, and in those merged of them.
    pub last_block: BlockMark,
}

impl RunSummary {
    fn numbers(&self) -> [u64; 22] {
        [
            self.blocks,
            self.payload_bytes,
            self.page_records,
            self.pages,
            self.stream_entries,
            self.stream_bytes,
            self.dropped_records,
            self.dropped_bytes,
            self.images,
            self.complete_from.0,
            self.highest_page.0,
            self.highest_version_page.0,
            u64::from(self.highest_object),
            self.highest_tx.0,
            u64::from(self.first_epoch),
            u64::from(self.last_epoch),
            self.first_commit_us as u64,
            self.last_commit_us as u64,
            self.last_block.lsn.0,
            u64::from(self.last_block.epoch),
            u64::from(self.last_block.opening),
            u64::from(self.last_block.checksum),
        ]
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.numbers().iter().for_each(|number| put_varint64(&mut out, *number));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "summary of a run");
        let mut next = || r.varint64();
        let mut summary = Self {
            blocks: next()?,
            payload_bytes: next()?,
            page_records: next()?,
            pages: next()?,
            stream_entries: next()?,
            stream_bytes: next()?,
            dropped_records: next()?,
            dropped_bytes: next()?,
            images: next()?,
            complete_from: Lsn(next()?),
            highest_page: PageId(next()?),
            highest_version_page: PageId(next()?),
            highest_object: u32::try_from(next()?).unwrap_or(u32::MAX),
            highest_tx: TxId(next()?),
            first_epoch: u32::try_from(next()?).unwrap_or(u32::MAX),
            last_epoch: u32::try_from(next()?).unwrap_or(u32::MAX),
            first_commit_us: next()? as i64,
            last_commit_us: next()? as i64,
            last_block: BlockMark::default(),
        };
        if !r.is_empty() {
            let lsn = Lsn(r.varint64()?);
            let mut number = || {
                let number = r.varint64()?;
                u32::try_from(number).map_err(|_| r.bad("a number is too large"))
            };
            let (epoch, opening, checksum) = (number()?, number()?, number()?);
            summary.last_block = BlockMark { lsn, epoch, opening, checksum };
        }
        if r.is_empty() { Ok(summary) } else { Err(r.bad("more bytes than expected")) }
    }

    pub(crate) fn note_page(&mut self, page: PageId) {
        let highest = if page.file() == 0 { &mut self.highest_page } else { &mut self.highest_version_page };
        *highest = page.max(*highest);
    }

    pub(crate) fn note_commit(&mut self, us: i64) {
        if (self.first_commit_us, self.last_commit_us) == (0, 0) {
            (self.first_commit_us, self.last_commit_us) = (us, us);
        } else {
            self.first_commit_us = self.first_commit_us.min(us);
            self.last_commit_us = self.last_commit_us.max(us);
        }
    }

    /// What merging keeps of that of an input, which is the next one: all that is not counted anew while it is written.
    pub(crate) fn inherit(&mut self, input: &RunSummary) {
        self.last_block = input.last_block;
        self.dropped_records += input.dropped_records;
        self.dropped_bytes += input.dropped_bytes;
        self.complete_from = self.complete_from.max(input.complete_from);
        self.highest_page = self.highest_page.max(input.highest_page);
        self.highest_version_page = self.highest_version_page.max(input.highest_version_page);
        self.highest_object = self.highest_object.max(input.highest_object);
        self.highest_tx = self.highest_tx.max(input.highest_tx);
        if (input.first_commit_us, input.last_commit_us) != (0, 0) {
            self.note_commit(input.first_commit_us);
            self.note_commit(input.last_commit_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_earlier_versions_are_read() {
        let last_block = BlockMark { lsn: Lsn(4096), epoch: 3, opening: u32::MAX, checksum: 77 };
        let summary = RunSummary { blocks: 300, last_commit_us: -5, last_block, ..RunSummary::default() };
        assert_eq!(RunSummary::decode(&summary.encode()).unwrap(), summary);
        let old = RunSummary { last_block: BlockMark::default(), ..summary };
        let bytes = old.encode();
        assert_eq!(RunSummary::decode(&bytes[..bytes.len() - 4]).unwrap(), old);
        assert!(RunSummary::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
