//! Making a backup: segments in order, gathered into parts; at the end the summary.
//!
//! # After an interruption
//! A part is durable when it was published, and says which segments it covers. So a backup goes on behind the last part that
//! follows the ones before it without a gap; what was gathered in memory is read again. Its name, and when it was begun, is in
//! the object that is created first. Who goes on is the only one that writes to this place (as with the archive: it is of one
//! database, and one process has its data folder). Of a backup made from the archive that is so where what says that it was begun
//! has an identity: the database's own process made it, and that goes on with it. Without one it is a tool's, which may be at work.
//!
//! Damaged pages are in no summary before the end, so an object beside a part says how many it has: a backup that lacks pages passes
//! for whole after no interruption.
//!
//! # An outcome that is not known
//! A part is written again under another name; what then may be left is named by no summary. A summary is tried again: that
//! its name is taken then means that it is durable, if it is the same one.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_page::PageBuf;
use resurgam_xstore::{Store, StoreErrorKind};

use super::format::{self, PageKind, PartId, PartMeta, PartTrailer, SegmentPlace};
use super::summary::{BackupSummary, SUMMARY_BYTES_MAX};
use super::{Part, verify};
use crate::format::DatabaseId;
use crate::frame::{Effort, FrameKind, compressor, encode};

/// A part is published when it has so many bytes: what has to be read again after an interruption, and is held in memory.
const PART_BYTES: usize = 32 << 20;
/// Segments that a part covers at most: a file that is mostly all zero makes progress durable as well.
const PART_SEGMENTS_MAX: u64 = 4096;
/// What was begun so long ago is under way no more, in microseconds.
const STALE_US: i64 = 48 * 3600 * 1_000_000;
/// How often a create is tried whose outcome is not known.
const TRIES: u32 = 3;
/// What follows the name of a part in that of the object that says how many pages it lacks.
const DAMAGED: &str = ".damaged";
/// Longest such object: a number.
const DAMAGED_BYTES_MAX: u64 = 20;

/// What a new backup is to be.
#[derive(Clone, Debug)]
pub struct BackupPlan {
    pub database: DatabaseId,
    /// A random number.
    pub number: u64,
    pub from_archive: bool,
    /// Now, microseconds since 2000-01-01 UTC.
    pub now_us: i64,
    /// An interrupted one that was begun after this moment is gone on with; `i64::MAX`: none is.
    pub resume_since_us: i64,
    /// Log below this LSN is not kept: an interrupted one that needs it is not gone on with.
    pub log_from: Lsn,
    pub data_pages: u64,
    pub version_pages: Option<(u32, u64)>,
    /// The identity of the database, said by the one process that has its data folder; empty: another one makes the backup.
    pub identity: Vec<u8>,
}

/// See the module.
pub struct BackupWriter {
    store: Arc<dyn Store>,
    summary: BackupSummary,
    /// Key of the next segment.
    next: u64,
    /// Draws names of parts.
    nonce: u64,
    /// The least LSN of all segments so far.
    least: Lsn,
    part_bytes: usize,
    compressor: zstd::bulk::Compressor<'static>,
    open: Option<OpenPart>,
    content: Vec<u8>,
    frame: Vec<u8>,
    #[cfg(test)]
    withheld: Vec<(String, Vec<u8>)>,
}

/// A bug that tests plant: parts are written after the summary that names them.
#[cfg(test)]
pub(crate) mod planted {
    thread_local! {
        pub static SUMMARY_FIRST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
}

/// The part that is being gathered.
struct OpenPart {
    id: PartId,
    seed: u32,
    bytes: Vec<u8>,
    places: Vec<SegmentPlace>,
    images: u32,
    damaged: u64,
    least: Lsn,
}

impl BackupWriter {
    /// Goes on with an interrupted backup that the plan allows, or begins a new one. Others that are no longer of use are deleted.
    ///
    /// # Errors
    /// Those of the store.
    pub fn begin(store: Arc<dyn Store>, plan: &BackupPlan) -> Result<Self> {
        let mut resumed: Option<BackupWriter> = None;
        for name in verify::begun_names(&*store)? {
            let begun = load_begun(&*store, &name)?;
            let Some(begun) = begun.filter(|begun| begun.database == plan.database) else { continue };
            let own = !begun.from_archive || !begun.identity.is_empty() && !plan.identity.is_empty();
            let fits = begun.started_us >= plan.resume_since_us
                && begun.started_us <= plan.now_us
                && begun.from_archive == plan.from_archive
                && own
                && begun.version_pages.map(|(number, _)| number) == plan.version_pages.map(|(number, _)| number);
            let gone = own && begun.from_archive == plan.from_archive || begun.started_us < plan.now_us - STALE_US;
            if fits && resumed.is_none() {
                let writer = Self::resume(Arc::clone(&store), begun, plan)?;
                if writer.summary.parts.is_empty() || writer.least >= plan.log_from {
                    resumed = Some(writer);
                    continue;
                }
            }
            if gone {
                delete_interrupted(&*store, &name);
            }
        }
        if let Some(writer) = resumed {
            return Ok(writer);
        }
        let summary = BackupSummary {
            name: name_of(plan.now_us, plan.number),
            database: plan.database,
            number: plan.number,
            from_archive: plan.from_archive,
            started_us: plan.now_us,
            data_pages: plan.data_pages,
            version_pages: plan.version_pages,
            identity: plan.identity.clone(),
            ..BackupSummary::default()
        };
        publish(&*store, &BackupSummary::begun_object_of(&summary.name), &summary.encode(true)?)?;
        Self::new(store, summary, plan.number)
    }

    fn new(store: Arc<dyn Store>, summary: BackupSummary, nonce: u64) -> Result<Self> {
        Ok(Self {
            store,
            summary,
            next: 0,
            nonce,
            least: Lsn(u64::MAX),
            part_bytes: PART_BYTES,
            compressor: compressor(Effort::Little)?,
            open: None,
            content: Vec::new(),
            frame: Vec::new(),
            #[cfg(test)]
            withheld: Vec::new(),
        })
    }

    /// Finds the parts of `begun` that are durable.
    fn resume(store: Arc<dyn Store>, begun: BackupSummary, plan: &BackupPlan) -> Result<Self> {
        let mut parts: Vec<PartMeta> = Vec::new();
        let found = store.list(&format::part_folder(&begun.name))?.into_iter();
        // Objects that say what parts lack. (Of a part that was not published it is said as well, and counts for nothing.)
        let (said, mut found): (Vec<_>, Vec<_>) = found.partition(|name| name.ends_with(DAMAGED));
        found.sort_unstable();
        let mut damaged = 0u64;
        for name in found {
            let Some((number, nonce)) = format::part_of_name(&begun.name, &name) else { continue };
            let lacks = format!("{name}{DAMAGED}");
            // One that cannot be read is written again, under another name.
            let part = match Part::open(&store, name, begun.database, begun.number) {
                Ok(part) => part,
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                Err(_) => continue,
            };
            let at = parts.last().map_or(0, |part| part.to);
            let meta = part.meta(nonce);
            if number as usize != parts.len() || meta.number != number || meta.from != at {
                continue;
            }
            if said.contains(&lacks) {
                match damaged_of(&*store, &lacks) {
                    Ok(pages) => damaged = damaged.saturating_add(pages),
                    Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                    // Nobody knows what it lacks: it is made again like one that cannot be read.
                    Err(_) => continue,
                }
            }
            parts.push(meta);
        }
        let folder = format::part_folder(&begun.name);
        // Nobody else writes there: what a crash has left unfinished.
        let _ = store.tidy(folder.trim_end_matches('/'));
        if !parts.is_empty() {
            // The last of them may have been named by a process that was killed before its name was durable. It is when this is.
            publish(&*store, &format!("{folder}{:016X}.resumed", plan.number), b"resumed")?;
        }
        let mut writer = Self::new(store, begun, plan.number)?;
        writer.next = parts.last().map_or(0, |part| part.to);
        writer.least = parts.iter().map(|part| part.least).min().unwrap_or(Lsn(u64::MAX));
        writer.summary.parts = parts;
        writer.summary.damaged = damaged;
        // What was added to the files since.
        writer.summary.data_pages = plan.data_pages.max(writer.summary.data_pages);
        writer.summary.version_pages = plan.version_pages;
        Ok(writer)
    }

    /// Parts of so many bytes, for tests.
    #[must_use]
    pub fn with_part_bytes(mut self, bytes: usize) -> Self {
        self.part_bytes = bytes.max(1);
        self
    }

    /// The name of the backup.
    pub fn name(&self) -> &str {
        &self.summary.name
    }

    /// What it is so far.
    pub fn summary(&self) -> &BackupSummary {
        &self.summary
    }

    /// The segment that comes next: all before it are in parts or were left out as all zero.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The least LSN from which log is needed so far; none: nothing was put yet.
    pub fn least(&self) -> Option<Lsn> {
        (self.least.0 != u64::MAX).then_some(self.least)
    }

    /// Puts a segment: its pages (sealed, the last ones of a file may be missing) hold every record below `lsn`. Returns whether
    /// a part became durable with it.
    ///
    /// # Errors
    /// Those of the store; the part that is being gathered stays, and [`BackupWriter::flush`] tries it again.
    pub fn put(&mut self, key: u64, lsn: Lsn, pages: &[PageBuf], kinds: &[PageKind]) -> Result<bool> {
        if key < self.next || lsn.is_none() {
            return Err(Error::internal("segments of a backup come in order of their keys, each with an LSN"));
        }
        let some = format::encode_segment(key, lsn, pages, kinds, &mut self.content)?;
        let images = kinds.iter().filter(|kind| **kind == PageKind::Image).count() as u32;
        let damaged = kinds.iter().filter(|kind| **kind == PageKind::Damaged).count() as u64;
        self.summary.damaged += damaged;
        let from = self.next;
        let part = self.open.get_or_insert_with(|| {
            let (database, backup) = (self.summary.database, self.summary.number);
            let id = PartId { database, backup, number: self.summary.parts.len() as u32, from };
            let (header, seed) = id.encode();
            let (bytes, least) = (header.to_vec(), Lsn(u64::MAX));
            OpenPart { id, seed, bytes, places: Vec::new(), images: 0, damaged: 0, least }
        });
        if some {
            let at = part.bytes.len() as u64;
            encode(&mut self.compressor, part.seed, at, FrameKind::Segment, images, &self.content, &mut self.frame)?;
            part.bytes.extend_from_slice(&self.frame);
            part.places.push(SegmentPlace { key, at, lsn });
            part.images += images;
        }
        part.damaged += damaged;
        // Of those that are all zero as well: a page that comes to be later has no record below.
        part.least = part.least.min(lsn);
        self.least = self.least.min(lsn);
        self.next = key + 1;
        if part.bytes.len() >= self.part_bytes || self.next - part.id.from >= PART_SEGMENTS_MAX {
            self.flush()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes what was put durable.
    ///
    /// # Errors
    /// Those of the store; may be called again.
    pub fn flush(&mut self) -> Result<()> {
        let Some(part) = &mut self.open else { return Ok(()) };
        let index_at = part.bytes.len();
        let index = format::encode_index(&part.places);
        let segments = part.places.len() as u32;
        let at = index_at as u64;
        encode(&mut self.compressor, part.seed, at, FrameKind::Segments, segments, &index, &mut self.frame)?;
        part.bytes.extend_from_slice(&self.frame);
        let trailer = PartTrailer {
            index_at: at,
            at: part.bytes.len() as u64,
            to: self.next,
            least: part.least,
            seed: part.seed,
            segments,
            images: part.images,
        };
        let (trailer, trailer_crc) = trailer.encode();
        part.bytes.extend_from_slice(&trailer);
        let len = part.bytes.len() as u64;
        for tries in 1.. {
            self.nonce = self.nonce.wrapping_add(1);
            let name = format::part_name(&self.summary.name, part.id.number, self.nonce);
            #[cfg(test)]
            if planted::SUMMARY_FIRST.get() {
                self.withheld.push((name, part.bytes.clone()));
                break;
            }
            // Before the part counts.
            let outcome = match part.damaged {
                0 => Ok(()),
                damaged => self.store.put(&format!("{name}{DAMAGED}"), damaged.to_string().as_bytes()),
            };
            let Err(error) = outcome.and_then(|()| self.store.put(&name, &part.bytes)) else { break };
            // What may be there under that name is named by nobody.
            let _ = self.store.delete(&name);
            let again = matches!(error.kind(), StoreErrorKind::Exists | StoreErrorKind::Uncertain);
            if !again || tries >= TRIES {
                part.bytes.truncate(index_at);
                return Err(error.into());
            }
        }
        self.summary.parts.push(PartMeta {
            number: part.id.number,
            nonce: self.nonce,
            from: part.id.from,
            to: self.next,
            least: part.least,
            segments,
            images: part.images,
            len,
            trailer_crc,
        });
        self.open = None;
        Ok(())
    }

    /// Makes the backup durable, and with it something that exists: of log below `end`, identity `identity`.
    ///
    /// # Errors
    /// Those of the store; may be called again.
    pub fn finish(&mut self, end: Lsn, finished_us: i64, identity: Vec<u8>) -> Result<BackupSummary> {
        self.flush()?;
        // Somebody may have taken them for those of an interrupted backup.
        let written = &self.summary.parts;
        #[cfg(test)]
        let written = if self.withheld.is_empty() { written } else { &Vec::new() };
        for part in written {
            let name = format::part_name(&self.summary.name, part.number, part.nonce);
            if self.store.len(&name)? != part.len {
                return Err(Error::corrupt(format!("backup file \"{name}\" is not as it was written")));
            }
        }
        let summary = &mut self.summary;
        summary.begin = self.least.min(end);
        (summary.end, summary.finished_us, summary.identity) = (end, finished_us, identity);
        publish(&*self.store, &BackupSummary::object_of(&summary.name), &summary.encode(false)?)?;
        #[cfg(test)]
        for (name, bytes) in self.withheld.drain(..) {
            self.store.put(&name, &bytes)?;
        }
        // It says nothing any more, and is passed over where the summary is there.
        let _ = self.store.delete(&BackupSummary::begun_object_of(&summary.name));
        Ok(summary.clone())
    }
}

/// Creates an object of these bytes; one that is there already must be the same.
fn publish(store: &dyn Store, name: &str, bytes: &[u8]) -> Result<()> {
    let mut tries = 0;
    loop {
        let error = match store.put(name, bytes) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        tries += 1;
        match error.kind() {
            StoreErrorKind::Exists if store.get(name, SUMMARY_BYTES_MAX)? == bytes => return Ok(()),
            StoreErrorKind::Uncertain if tries < TRIES => {}
            _ => return Err(error.into()),
        }
    }
}

/// How many pages an object says that a part lacks.
fn damaged_of(store: &dyn Store, name: &str) -> Result<u64> {
    let bytes = store.get(name, DAMAGED_BYTES_MAX)?;
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::corrupt(format!("backup file \"{name}\" is damaged: it is no number")))
}

/// What was begun under that name; none: it is gone, or cannot be understood.
fn load_begun(store: &dyn Store, name: &str) -> Result<Option<BackupSummary>> {
    match store.get(&BackupSummary::begun_object_of(name), SUMMARY_BYTES_MAX) {
        Ok(bytes) => Ok(BackupSummary::decode(&bytes, name, true).ok()),
        Err(error) if error.kind() == StoreErrorKind::Missing => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What fails is tried again by the next backup: that it was begun is deleted last.
fn delete_interrupted(store: &dyn Store, name: &str) {
    let all = || -> Result<()> {
        let folder = format::part_folder(name);
        for part in store.list(&folder)? {
            store.delete(&part)?;
        }
        let _ = store.tidy(folder.trim_end_matches('/'));
        Ok(store.delete(&BackupSummary::begun_object_of(name))?)
    };
    let _ = all();
}

/// `20261123T013327-1A2B3C4D`: when it was begun (UTC), and a part of its number.
fn name_of(us: i64, number: u64) -> String {
    let seconds = us.div_euclid(1_000_000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + 10_957 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}-{:08X}", number as u32)
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn names_say_when() {
        assert_eq!(name_of(0, 7), "20000101T000000-00000007");
        // 2024-02-29 23:59:59 is 8825 days and 86399 seconds later.
        assert_eq!(name_of((8825 * 86_400 + 86_399) * 1_000_000, u64::MAX), "20240229T235959-FFFFFFFF");
    }
}
