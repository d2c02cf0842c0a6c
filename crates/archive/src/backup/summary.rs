//! The summary of a backup: an object that is created last, and only if there is none. A backup without it does not exist.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `RSABKP01` |
//! | 8..10 | format version |
//! | 10..12 | 0 = read from the files of a running database, 1 = made from a backup and the archive |
//! | 12..16 | number of parts |
//! | 16..32 | database |
//! | 32..40 | the backup's number, as in the headers of its parts |
//! | 40..48, 48..56 | begin and end LSN |
//! | 56..64, 64..72 | begun and finished, microseconds since 2000-01-01 UTC |
//! | 72..80 | pages of the data file |
//! | 80..84, 84..88, 88..96 | number of the version-store file (0: none), zero, its pages |
//! | 96..104 | damaged pages |
//! | 104..106, … | length of the name, the name |
//! | u32, … | length of the identity, the identity: body of kind 13 of a checkpoint (`recovery/src/identity.rs`), as of the end |
//! | 56 bytes each | parts: number u32, segments u32, nonce, first key, end key, least LSN, length (u64 each), images u32, CRC of the trailer u32 |
//! | last 4 | CRC-32C of all before |
//!
//! The object that says that a backup was begun (`backups/NAME.begun`) has the same format, with magic `RSABKB01`, no parts and no end.

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_page::codec::Reader;

use super::format::PartMeta;
use crate::format::DatabaseId;

const MAGIC: [u8; 8] = *b"RSABKP01";
const BEGUN_MAGIC: [u8; 8] = *b"RSABKB01";
const VERSION: u16 = 1;
/// Longest summary that is read: more than a million parts.
pub(crate) const SUMMARY_BYTES_MAX: u64 = 64 << 20;
/// The folder of summaries, with its slash.
pub(crate) const FOLDER: &str = "backups/";
const PART_BYTES: usize = 56;

/// What a backup is, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupSummary {
    pub name: String,
    pub database: DatabaseId,
    /// A random number that its parts carry.
    pub number: u64,
    /// Made from an earlier backup and the archive, and not from the files of the database.
    pub from_archive: bool,
    /// Log from here on is needed to bring its pages up to date.
    pub begin: Lsn,
    /// Pages are no newer than this: the oldest point in time that can be made from it is the log up to here.
    pub end: Lsn,
    /// Microseconds since 2000-01-01 UTC.
    pub started_us: i64,
    pub finished_us: i64,
    /// Pages of the data file.
    pub data_pages: u64,
    /// Number and pages of the version-store file, where version pages are in one of their own.
    pub version_pages: Option<(u32, u64)>,
    /// Pages that could not be had, damaged in their file and not to be rebuilt, as far as the last process that made it knows.
    pub damaged: u64,
    /// The identity of the database as of the end (body of kind 13 of a checkpoint).
    pub identity: Vec<u8>,
    pub parts: Vec<PartMeta>,
}

impl BackupSummary {
    /// Which of two is taken: one that has all its pages before one that lacks some, then the one that ends later, then the one that
    /// needs less log.
    pub fn rank(&self) -> (bool, Lsn, Lsn) {
        (self.damaged == 0, self.end, self.begin)
    }

    /// Bytes of all its parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Pages in it.
    pub fn images(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.images)).sum()
    }

    pub(crate) fn object_of(name: &str) -> String {
        format!("{FOLDER}{name}.backup")
    }

    pub(crate) fn begun_object_of(name: &str) -> String {
        format!("{FOLDER}{name}.begun")
    }

    pub(crate) fn encode(&self, begun: bool) -> Result<Vec<u8>> {
        let long = |_| Error::internal("a field of the summary of a backup is too long");
        let mut out = Vec::with_capacity(256 + self.parts.len() * PART_BYTES);
        out.extend_from_slice(if begun { &BEGUN_MAGIC } else { &MAGIC });
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u16::from(self.from_archive).to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.parts.len()).map_err(long)?.to_le_bytes());
        out.extend_from_slice(&self.database);
        let (started, finished) = (self.started_us as u64, self.finished_us as u64);
        for number in [self.number, self.begin.0, self.end.0, started, finished, self.data_pages] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let (number, pages) = self.version_pages.unwrap_or_default();
        out.extend_from_slice(&u64::from(number).to_le_bytes());
        for number in [pages, self.damaged] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&u16::try_from(self.name.len()).map_err(long)?.to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&u32::try_from(self.identity.len()).map_err(long)?.to_le_bytes());
        out.extend_from_slice(&self.identity);
        for part in &self.parts {
            out.extend_from_slice(&part.number.to_le_bytes());
            out.extend_from_slice(&part.segments.to_le_bytes());
            for number in [part.nonce, part.from, part.to, part.least.0, part.len] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&part.images.to_le_bytes());
            out.extend_from_slice(&part.trailer_crc.to_le_bytes());
        }
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    /// Decodes the summary of backup `name`, or what says that it was begun.
    ///
    /// # Errors
    /// `Corrupt`, naming the object; `NewerFormat`.
    pub(crate) fn decode(bytes: &[u8], name: &str, begun: bool) -> Result<Self> {
        let object = if begun { Self::begun_object_of(name) } else { Self::object_of(name) };
        let bad = |what: &str| Error::corrupt(format!("backup file \"{object}\" is damaged: {what}"));
        let Some((content, crc)) = bytes.split_last_chunk::<4>() else { return Err(bad("it is too short")) };
        if checksum(content) != u32::from_le_bytes(*crc) {
            return Err(bad("its checksum is wrong"));
        }
        let summary = Self::parse(content, begun).map_err(|e| match e.kind() {
            ErrorKind::Corrupt => bad(e.message()),
            _ => e,
        })?;
        if summary.name != name {
            return Err(bad(&format!("it says that it is that of backup \"{}\"", summary.name)));
        }
        summary.check().map_err(|what| bad(&what))?;
        Ok(summary)
    }

    fn parse(content: &[u8], begun: bool) -> Result<Self> {
        let mut r = Reader::new(content, "summary");
        if r.array::<8>()? != *(if begun { &BEGUN_MAGIC } else { &MAGIC }) {
            return Err(r.bad("it is none of a backup"));
        }
        let version = r.u16()?;
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("the backup has format version {version}; this program knows up to {VERSION}"),
            ));
        }
        let from_archive = r.u16()? == 1;
        let count = r.u32()? as usize;
        let database = r.array::<16>()?;
        let (number, begin, end) = (r.u64()?, Lsn(r.u64()?), Lsn(r.u64()?));
        let (started_us, finished_us, data_pages) = (r.i64()?, r.i64()?, r.u64()?);
        let (version_number, _, version_pages) = (r.u32()?, r.u32()?, r.u64()?);
        let damaged = r.u64()?;
        let name_len = usize::from(r.u16()?);
        let name = String::from_utf8(r.take(name_len)?.to_vec()).map_err(|_| r.bad("a name that is none"))?;
        let identity_len = r.u32()? as usize;
        let identity = r.take(identity_len)?.to_vec();
        if r.remaining() != count.saturating_mul(PART_BYTES) {
            return Err(r.bad("its length is wrong"));
        }
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let (number, segments) = (r.u32()?, r.u32()?);
            let (nonce, from, to, least, len) = (r.u64()?, r.u64()?, r.u64()?, Lsn(r.u64()?), r.u64()?);
            let (images, trailer_crc) = (r.u32()?, r.u32()?);
            parts.push(PartMeta { number, nonce, from, to, least, segments, images, len, trailer_crc });
        }
        Ok(Self {
            name,
            database,
            number,
            from_archive,
            begin,
            end,
            started_us,
            finished_us,
            data_pages,
            version_pages: (version_number > 0).then_some((version_number, version_pages)),
            damaged,
            identity,
            parts,
        })
    }

    /// That its parts follow each other, and none needs log from before the beginning.
    fn check(&self) -> Result<(), String> {
        let mut at = 0;
        for (i, part) in self.parts.iter().enumerate() {
            if part.number as usize != i || part.from != at || part.to < part.from {
                return Err(format!(
                    "part {} of segments {} to {} follows where part {i} and segment {at} are expected",
                    part.number, part.from, part.to
                ));
            }
            if part.least < self.begin {
                return Err(format!("part {i} needs log from LSN {} on, the backup from {}", part.least, self.begin));
            }
            at = part.to;
        }
        Ok(())
    }
}
