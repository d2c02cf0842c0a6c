//! Manifests: which runs the archive is made of. Numbered objects that are created once; the highest number counts.
//!
//! A manifest lists all runs, in order and without a gap, so that one create is one step from a whole archive to the next:
//! a run was added, or one takes the place of several. Who creates number *n* + 1 has seen number *n*; of two that try, one
//! is told that it exists. Each names who wrote it: at its opening a writer claims the archive with a manifest of its own,
//! and another one that is still running finds the next number taken by a stranger, and stops.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `RSARMAN1` |
//! | 8..10 | format version |
//! | 10..12 | zero |
//! | 12..16 | number of runs |
//! | 16..32 | database |
//! | 32..40 | its number |
//! | 40..48 | who wrote it |
//! | 48..56 | LSN where the archive begins; 0 = nothing was archived yet |
//! | 56.. | 64 bytes each run: level u16, zero u16, last epoch u32, start, end, generation, length of the file, CRC of its trailer u32, zero u32, complete from, page records |
//! | last 4 | CRC-32C of all before |

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_page::codec::Reader;

use crate::format::{DatabaseId, RunId};

const MAGIC: [u8; 8] = *b"RSARMAN1";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 56;
const RUN_BYTES: usize = 64;
/// Longest manifest that is read: a million runs.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// The folder of manifests, with its slash.
pub(crate) const FOLDER: &str = "manifests/";

/// What a manifest says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMeta {
    pub id: RunId,
    /// Bytes of the file.
    pub len: u64,
    pub(crate) trailer_crc: u32,
    /// See [`RunSummary::complete_from`](crate::RunSummary::complete_from).
    pub complete_from: Lsn,
    pub page_records: u64,
    pub last_epoch: u32,
}

/// A decoded manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub database: DatabaseId,
    pub number: u64,
    /// Who wrote it: a random number that each opening draws.
    pub owner: u64,
    /// Where the archive begins; none: nothing was archived yet.
    pub start: Lsn,
    /// In order, each beginning where the one before ends.
    pub runs: Vec<RunMeta>,
}

impl Manifest {
    /// The name of manifest `number`.
    pub fn name_of(number: u64) -> String {
        format!("{FOLDER}{number:016X}.manifest")
    }

    /// The number in a name.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_prefix(FOLDER)?.strip_suffix(".manifest")?;
        u64::from_str_radix(digits, 16).ok().filter(|number| Self::name_of(*number) == name)
    }

    /// Everything below is archived; where the archive begins if there is no run; none if nothing was archived yet.
    pub fn end(&self) -> Lsn {
        self.runs.last().map_or(self.start, |run| run.id.end)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.runs.len() * RUN_BYTES + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.database);
        for number in [self.number, self.owner, self.start.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for run in &self.runs {
            out.extend_from_slice(&run.id.level.to_le_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&run.last_epoch.to_le_bytes());
            for number in [run.id.start.0, run.id.end.0, run.id.generation, run.len] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&run.trailer_crc.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            for number in [run.complete_from.0, run.page_records] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out
    }

    /// Decodes manifest `number`.
    ///
    /// # Errors
    /// `Corrupt`, naming the object; `NewerFormat`.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(format!("archive file \"{}\" is damaged: {what}", Self::name_of(number)));
        let Some((content, crc)) = bytes.split_last_chunk::<4>() else { return Err(bad("it is too short")) };
        if checksum(content) != u32::from_le_bytes(*crc) {
            return Err(bad("its checksum is wrong"));
        }
        let manifest = Self::parse(content).map_err(|e| match e.kind() {
            ErrorKind::Corrupt => bad(e.message()),
            _ => e,
        })?;
        if manifest.number != number {
            return Err(bad(&format!("it says that it is number {}", manifest.number)));
        }
        manifest.check().map_err(|what| bad(&what))?;
        Ok(manifest)
    }

    fn parse(content: &[u8]) -> Result<Self> {
        let mut r = Reader::new(content, "manifest");
        if r.array::<8>()? != MAGIC {
            return Err(r.bad("it is no manifest"));
        }
        let version = r.u16()?;
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("the archive's manifest has format version {version}; this program knows up to {VERSION}"),
            ));
        }
        r.u16()?;
        let count = r.u32()? as usize;
        let database = r.array::<16>()?;
        let (number, owner, start) = (r.u64()?, r.u64()?, Lsn(r.u64()?));
        if r.remaining() != count.saturating_mul(RUN_BYTES) {
            return Err(r.bad("its length is wrong"));
        }
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let level = r.u16()?;
            r.u16()?;
            let last_epoch = r.u32()?;
            let (start, end, generation, len) = (Lsn(r.u64()?), Lsn(r.u64()?), r.u64()?, r.u64()?);
            let trailer_crc = r.u32()?;
            r.u32()?;
            let (complete_from, page_records) = (Lsn(r.u64()?), r.u64()?);
            let id = RunId { database, level, start, end, generation };
            runs.push(RunMeta { id, len, trailer_crc, complete_from, page_records, last_epoch });
        }
        Ok(Self { database, number, owner, start, runs })
    }

    /// That there is no gap.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut at = self.start;
        for run in &self.runs {
            if run.id.start != at || run.id.end <= at {
                return Err(format!(
                    "a run of LSN {} to {} follows where LSN {at} is expected",
                    run.id.start, run.id.end
                ));
            }
            at = run.id.end;
        }
        Ok(())
    }
}
