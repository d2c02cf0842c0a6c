//! Backups: images of all pages of a database, in segments with random access, each with the LSN from which its log is needed.
//!
//! # Objects, below `backups/`
//! | name | is |
//! |---|---|
//! | `NAME.begun` | that a backup was begun, of which database and when: created first |
//! | `NAME/NUMBER-NONCE.part` | segments, compressed, each under a checksum; an index (`format.rs`) |
//! | `NAME/NUMBER.resumed` | that it was gone on with: with its name those of the parts before it are durable; nothing reads it |
//! | `NAME.backup` | the summary: which parts count, in numbers; created last. A backup without it does not exist (`summary.rs`) |
//!
//! | file | concept |
//! |---|---|
//! | `format.rs` | parts: header, segments, index, trailer |
//! | `summary.rs` | the summary |
//! | `writer.rs` | making a backup, going on with one that was interrupted |
//! | `remake.rs` | a backup from an earlier one and the archive |
//! | `verify.rs` | listing, reading everything, deleting |
//!
//! # Invariants
//! 1. A summary is created after all its parts are durable, and only if there is none of that name. Nothing is ever changed.
//! 2. Images of a segment hold every record of its pages below the segment's LSN. They may hold later ones, none at or
//!    behind the backup's end. Pages without a frame, or behind the last one of a segment, were all zero when the backup was
//!    begun or later, or not there yet: no record of them is below the backup's begin, or the segment's LSN.
//! 3. Nothing that is read is believed before its checksum is right: a frame's own, which its object's header and its place are
//!    part of, and each page's.

mod format;
mod remake;
mod summary;
pub(crate) mod verify;
pub(crate) mod writer;

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_xstore::{Store, StoreErrorKind};

use crate::format::DatabaseId;
use crate::frame::{Frame, FrameKind, FrameReader, damaged};
use format::{HEADER_BYTES, PartId, PartTrailer, Segment, SegmentPlace, TRAILER_BYTES};
pub use format::{PageKind, PartMeta, SEGMENT_PAGES, segment_key, segment_page};
pub use remake::{Remaking, pages_of, remake};
pub use summary::BackupSummary;
pub use verify::{BackupEntry, BackupReport, delete_backup, list_backups, verify_backup};
pub use writer::{BackupPlan, BackupWriter};

/// A part that is open.
pub(crate) struct Part {
    pub name: String,
    pub id: PartId,
    pub trailer: PartTrailer,
    pub trailer_crc: u32,
    pub len: u64,
    seed: u32,
    pub places: Vec<SegmentPlace>,
    store: Arc<dyn Store>,
}

impl Part {
    /// Opens a part of backup `number` of `database`: header, trailer, index.
    pub fn open(store: &Arc<dyn Store>, name: String, database: DatabaseId, number: u64) -> Result<Self> {
        let len = store.len(&name)?;
        if len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(damaged(&**store, &name, 0, "it is too short"));
        }
        let at = len - TRAILER_BYTES as u64;
        let located = |offset: u64, e: Error| match e.kind() {
            ErrorKind::Corrupt => damaged(&**store, &name, offset, e.message()),
            kind => Error::new(kind, format!("backup file \"{name}\" cannot be read: {}", e.message())),
        };
        let block = |offset: u64| -> Result<[u8; 64]> {
            let bytes = store.read(&name, offset, 64)?;
            bytes.first_chunk::<64>().copied().ok_or_else(|| damaged(&**store, &name, offset, "fewer bytes were read"))
        };
        let (id, seed) = PartId::decode(&block(0)?).map_err(|e| located(0, e))?;
        if (id.database, id.backup) != (database, number) {
            return Err(damaged(&**store, &name, 0, "it is a part of another backup"));
        }
        let (trailer, trailer_crc) = PartTrailer::decode(&block(at)?, len).map_err(|e| located(at, e))?;
        if trailer.seed != seed {
            return Err(damaged(&**store, &name, at, "header and trailer are not of the same part"));
        }
        let mut reader = FrameReader::new(Arc::clone(store), &name, seed, trailer.at, 0);
        let mut frame = Frame::default();
        reader.read(trailer.index_at, FrameKind::Segments, &mut frame)?;
        if frame.next != trailer.at {
            return Err(damaged(&**store, &name, frame.next, "something is between the index and the trailer"));
        }
        let places =
            format::decode_index(&frame.content, id.from, &trailer).map_err(|e| located(trailer.index_at, e))?;
        Ok(Self { name, id, trailer, trailer_crc, len, seed, places, store: Arc::clone(store) })
    }

    /// Reads frame and segment at `place`, and hands it to `then` with the bytes that were read.
    pub fn segment<T>(&self, place: &SegmentPlace, then: impl FnOnce(&Segment<'_>, &Frame) -> Result<T>) -> Result<T> {
        self.segment_prefix(place, SEGMENT_PAGES, then)
    }

    /// The same where only the first `pages` pages are wanted: the others are not decompressed.
    pub fn segment_prefix<T>(
        &self,
        place: &SegmentPlace,
        pages: usize,
        then: impl FnOnce(&Segment<'_>, &Frame) -> Result<T>,
    ) -> Result<T> {
        // The index knows where the next one begins: one read.
        let next = self.places.partition_point(|other| other.at <= place.at);
        let end = self.places.get(next).map_or(self.trailer.index_at, |next| next.at);
        let ahead = usize::try_from(end.saturating_sub(place.at)).unwrap_or(0);
        let mut reader = FrameReader::new(Arc::clone(&self.store), &self.name, self.seed, self.trailer.index_at, ahead);
        let Spare { content, window } = Spare::take();
        reader = reader.reading_into(window);
        let mut frame = Frame { content, ..Frame::default() };
        let of_segment = |e: Error| match e.kind() {
            ErrorKind::Corrupt => {
                let told = Error::corrupt(format!(
                    "segment {} of a backup (pages from {} on): {}",
                    place.key,
                    segment_page(place.key),
                    e.message()
                ));
                match e.detail() {
                    Some(detail) => told.with_detail(detail.to_owned()),
                    None => told,
                }
            }
            _ => e,
        };
        let most = if pages < SEGMENT_PAGES { format::prefix_bytes(pages) } else { usize::MAX };
        let len = reader.read_prefix(place.at, FrameKind::Segment, most, &mut frame).map_err(of_segment)?;
        let decoded = Segment::decode(&frame.content, place.key, len).and_then(|segment| {
            if segment.lsn != place.lsn {
                return Err(Error::corrupt(format!("its LSN is {}, the index says {}", segment.lsn, place.lsn)));
            }
            Ok(segment)
        });
        let segment = decoded.map_err(|e| of_segment(reader.located(place.at, e)))?;
        let done = then(&segment, &frame);
        Spare { content: frame.content, window: reader.into_window() }.give();
        done
    }
}

/// Memory for reading one segment, as whoever was done last has left it: fresh memory of that size is faulted in page by page, whenever one
/// page is read from a backup.
#[derive(Default)]
struct Spare {
    content: Vec<u8>,
    window: Vec<u8>,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare { content: Vec::new(), window: Vec::new() });

impl Spare {
    /// Longer memory than that is not kept: twice what a segment takes.
    const BYTES_MAX: usize = 2 * SEGMENT_PAGES * resurgam_base::limits::PAGE_SIZE;

    fn take() -> Self {
        SPARE.try_lock().map(|mut spare| std::mem::take(&mut *spare)).unwrap_or_default()
    }

    fn give(self) {
        if self.content.capacity().max(self.window.capacity()) <= Self::BYTES_MAX
            && let Some(mut spare) = SPARE.try_lock()
        {
            *spare = self;
        }
    }
}

/// An opened, durable backup.
pub struct Backup {
    store: Arc<dyn Store>,
    summary: BackupSummary,
    /// Opened when first needed, so that one damaged part keeps nobody from the others.
    parts: Vec<Mutex<Option<Arc<Part>>>>,
}

impl Backup {
    /// Opens the backup of that name.
    ///
    /// # Errors
    /// `UndefinedObject` when there is none; `Corrupt`, naming the object; `NewerFormat`; those of the store.
    pub fn open(store: &Arc<dyn Store>, name: &str) -> Result<Arc<Backup>> {
        let bytes =
            store.get(&BackupSummary::object_of(name), summary::SUMMARY_BYTES_MAX).map_err(|e| match e.kind() {
                StoreErrorKind::Missing => Error::new(
                    ErrorKind::InvalidParameter,
                    format!("there is no backup \"{name}\" in {}", store.place()),
                )
                .with_hint("\"resurgam backup list\" shows which there are."),
                _ => e.into(),
            })?;
        let summary = BackupSummary::decode(&bytes, name, false)?;
        let parts = summary.parts.iter().map(|_| Mutex::default()).collect();
        Ok(Arc::new(Self { store: Arc::clone(store), summary, parts }))
    }

    /// The best backup of that database, as [`BackupSummary::rank`] has it, that needs no log below `log_from` (where the archive
    /// begins; none: any) and whose end is not above `complete_before` (`Lsn(u64::MAX)`: any). One whose summary is damaged is
    /// passed over.
    ///
    /// # Errors
    /// Those of the store.
    pub fn newest(
        store: &Arc<dyn Store>,
        database_id: DatabaseId,
        log_from: Lsn,
        complete_before: Lsn,
    ) -> Result<Option<Arc<Backup>>> {
        let mut newest: Option<Arc<Backup>> = None;
        for name in verify::complete_names(&**store)? {
            let backup = match Self::open(store, &name) {
                Ok(backup) => backup,
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                // It is damaged, of a newer format, or was deleted just now.
                Err(_) => continue,
            };
            let summary = &backup.summary;
            let reaches = summary.begin >= log_from && summary.end <= complete_before;
            let fits = summary.database == database_id && reaches;
            if fits && newest.as_ref().is_none_or(|newest| newest.summary.rank() < summary.rank()) {
                newest = Some(backup);
            }
        }
        Ok(newest)
    }

    /// What it is.
    pub fn summary(&self) -> &BackupSummary {
        &self.summary
    }

    /// Opens all its parts: whether they are there and their headers, trailers and indexes are sound.
    ///
    /// # Errors
    /// `Corrupt`, naming the object; those of the store.
    pub fn open_parts(&self) -> Result<()> {
        (0..self.parts.len()).try_for_each(|number| self.part(number).map(drop))
    }

    /// Where it is.
    pub fn place(&self) -> String {
        self.store.place()
    }

    /// The pages from `first` on, all of one segment, and the LSN behind which their records are needed: all records of these
    /// pages with a lower one are in the images (later ones may be). A page that was all zero, or is none of the backup's, is left
    /// all zero. One that was damaged when the backup was made is filled with bytes that pass for no page.
    ///
    /// # Errors
    /// `Corrupt`, naming object, offset and segment; those of the store.
    pub fn segment(&self, first: PageId, pages: &mut [PageBuf]) -> Result<Lsn> {
        self.read_segment(first, pages).map(|(lsn, _)| lsn)
    }

    /// As [`Backup::segment`], with the bytes that were read.
    pub(crate) fn read_segment(&self, first: PageId, pages: &mut [PageBuf]) -> Result<(Lsn, u64)> {
        let key = segment_key(first);
        let skip = (first.0 - segment_page(key).0) as usize;
        if skip + pages.len() > SEGMENT_PAGES {
            return Err(Error::internal("pages of more than one segment of a backup were asked for"));
        }
        let number = self.summary.parts.partition_point(|part| part.to <= key);
        let covering = self.summary.parts.get(number).filter(|part| part.from <= key);
        if covering.is_some() {
            let part = self.part(number)?;
            if let Ok(at) = part.places.binary_search_by_key(&key, |place| place.key) {
                return part.segment_prefix(&part.places[at], skip + pages.len(), |segment, frame| {
                    segment.fill(skip, pages);
                    for (i, page) in pages.iter().enumerate() {
                        if segment.kind(skip + i) != PageKind::Image {
                            continue;
                        }
                        let id = PageId(first.0 + i as u64);
                        page.verify(id).map_err(|fault| {
                            damaged(&*self.store, &part.name, frame.offset, &format!("segment {key}: {fault}"))
                        })?;
                    }
                    Ok((segment.lsn, frame.next - frame.offset))
                });
            }
        }
        // It was all zero or not there: nothing of it has a record below the backup's begin.
        pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
        Ok((self.summary.begin, 0))
    }

    /// The backup's part of that number, opened.
    pub(crate) fn part(&self, number: usize) -> Result<Arc<Part>> {
        let (Some(slot), Some(meta)) = (self.parts.get(number), self.summary.parts.get(number)) else {
            return Err(Error::internal("there is no such part of a backup"));
        };
        let mut slot = slot.lock();
        if let Some(part) = &*slot {
            return Ok(Arc::clone(part));
        }
        let name = format::part_name(&self.summary.name, meta.number, meta.nonce);
        let part = Part::open(&self.store, name, self.summary.database, self.summary.number)?;
        if part.meta(meta.nonce) != *meta {
            return Err(damaged(&*self.store, &part.name, 0, "it is not the part that the summary names"));
        }
        let part = Arc::new(part);
        *slot = Some(Arc::clone(&part));
        Ok(part)
    }
}

impl Part {
    /// What a summary says of it.
    pub fn meta(&self, nonce: u64) -> PartMeta {
        PartMeta {
            number: self.id.number,
            nonce,
            from: self.id.from,
            to: self.trailer.to,
            least: self.trailer.least,
            segments: self.trailer.segments,
            images: self.trailer.images,
            len: self.len,
            trailer_crc: self.trailer_crc,
        }
    }
}
