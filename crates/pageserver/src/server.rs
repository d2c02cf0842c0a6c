//! The server: applies log, answers for pages, and says what is durable. It has no threads (but while it applies many blocks at once,
//! `batch.rs`) and no sockets of its own: who drives it calls [`PageServer::apply`] with blocks in order, and [`PageServer::checkpoint`] and [`PageServer::fill`] now
//! and then; anybody may ask for pages meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::RecordRef;
use resurgam_page::PageBuf;
use resurgam_vfs::{FileLock, Vfs};

use crate::cover::{Cover, Gap, PageRecord, check_file};
use crate::files::PageFiles;
use crate::mark::Mark;
use crate::partition::Partitions;
use crate::seed::Seed;

/// Settings.
#[derive(Clone, Debug)]
pub struct PageServerConfig {
    /// Memory for pages, in bytes.
    pub memory_bytes: usize,
    /// Which pages it has.
    pub partitions: Partitions,
    /// A mistake that tests make on purpose: it gives any page that it is asked for.
    #[doc(hidden)]
    pub gives_any: bool,
    /// A mistake that tests make on purpose: the mark is written without the pages.
    #[doc(hidden)]
    pub early_mark: bool,
}

impl Default for PageServerConfig {
    fn default() -> Self {
        Self { memory_bytes: 128 << 20, partitions: Partitions::all(), gives_any: false, early_mark: false }
    }
}

/// What it has done since the start, and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageServerStats {
    /// All log below is applied.
    pub applied: Lsn,
    /// All log below is durable here, in pages: from here on it is read again after a crash.
    pub durable: Lsn,
    pub records_applied: u64,
    /// Times that several threads applied blocks together.
    pub batches: u64,
    pub pages_served: u64,
    /// Requests that had to wait for log.
    pub waited: u64,
    /// Requests for pages that it does not have.
    pub refused: u64,
    /// Times that a record showed that one before it had been left out, and the log was applied again.
    pub gaps: u64,
    /// Pages found in memory, and read from the file.
    pub hits: u64,
    pub reads: u64,
    pub pages_written: u64,
    pub pages_in_memory: u64,
    /// Segments fetched from archive and backup, and those that are missing still.
    pub segments_seeded: u64,
    /// Pages that were fetched from there before their segments.
    pub pages_seeded_alone: u64,
    pub segments_missing: u64,
    /// Pages of those at most.
    pub pages_missing: u64,
    /// Pages that were damaged or old in the file, and made again.
    pub pages_mended: u64,
}

/// See the module.
pub struct PageServer {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    database: [u8; 16],
    partitions: Partitions,
    seed: Option<Arc<dyn Seed>>,
    cover: Cover,
    /// Where the next block starts. Under the lock it is raised, and waited for.
    applied: Mutex<Lsn>,
    raised: Condvar,
    early_mark: bool,
    gives_any: bool,
    /// Held while a mark is made, and while the position goes back.
    marking: Mutex<u64>,
    durable: AtomicU64,
    records: AtomicU64,
    batches: AtomicU64,
    served: AtomicU64,
    waited: AtomicU64,
    refused: AtomicU64,
    gaps: AtomicU64,
    _lock: Box<dyn FileLock>,
}

impl PageServer {
    /// Opens the server in `dir`, which is made if it is missing, for a database whose log begins at `first`.
    ///
    /// A new one begins at the end of the seed, with no page: they are fetched as they are asked for, and by
    /// [`PageServer::fill`]. Without a seed, or with an empty one, it begins where the database began.
    ///
    /// One that has other partitions than it had gives up those that it has no more, and begins with the others as a new one does.
    ///
    /// # Errors
    /// `InUse`; `NotADatabase` for a folder of another database; `Corrupt`; `Io` when the archive is behind what is to be got from it; those of
    /// file and seed.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        database: [u8; 16],
        first: Lsn,
        seed: Option<Arc<dyn Seed>>,
        config: PageServerConfig,
    ) -> Result<Self> {
        vfs.make_folder(dir)?;
        let lock = vfs.lock(&dir.join("lock"))?;
        let partitions = config.partitions;
        let mark = match Mark::read(&vfs, dir, database)? {
            Some(mark) if mark.partitions == partitions => mark,
            Some(mark) => change(&vfs, dir, &mark, &partitions, seed.as_ref(), first)?,
            None => begin(&vfs, dir, database, &partitions, seed.as_ref(), first)?,
        };
        // Those of partitions that it had, and of attempts that came to nothing.
        PageFiles::remove(&vfs, dir, |partition| has_file(&partitions, partition))?;
        let files = PageFiles::new(Arc::clone(&vfs), dir, partitions.clone())?;
        let cover =
            Cover::new(files, &partitions, seed.clone(), config.memory_bytes, &mark.there, mark.position <= first);
        Ok(Self {
            vfs,
            dir: dir.to_path_buf(),
            database,
            partitions,
            seed,
            cover,
            applied: Mutex::new(mark.position),
            raised: Condvar::new(),
            early_mark: config.early_mark,
            gives_any: config.gives_any,
            marking: Mutex::default(),
            durable: AtomicU64::new(mark.position.0),
            records: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            served: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            _lock: lock,
        })
    }

    /// The database whose pages are in `dir`; none when there are none yet.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`; those of reading.
    pub fn database_of(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<[u8; 16]>> {
        Mark::read_any(vfs, dir).map(|mark| mark.map(|mark| mark.database))
    }

    /// Forgets what is in `dir`, where no server is open: the next one begins anew, from archive and backup.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn forget(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        Mark::remove(vfs, dir)
    }

    /// Which pages it has.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Whether it has the page; a request for one that it does not have is counted.
    pub fn has(&self, page: PageId) -> bool {
        let has = self.partitions.covers(page) || self.gives_any;
        self.refused.fetch_add(u64::from(!has), Ordering::Relaxed);
        has
    }

    /// All log below is applied: where the next block starts.
    pub fn position(&self) -> Lsn {
        *self.applied.lock()
    }

    /// All log below is in the file: what is needed again after a crash begins here.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::SeqCst))
    }

    /// Applies a durable block of the log: the one at [`PageServer::position`], which ends at `next`. One caller at a time.
    /// After an error the same block is to be applied again. Records of pages that it does not have are left out.
    ///
    /// # Errors
    /// `InvalidParameter` for another block; `Corrupt` for one that does not fit the pages; those of file and seed.
    pub fn apply<'b>(&self, at: Lsn, next: Lsn, records: impl Iterator<Item = Result<RecordRef<'b>>>) -> Result<()> {
        if at != self.position() {
            return Err(self.does_not_follow(at, self.position()));
        }
        self.apply_block(at, next, records, false).map(drop)
    }

    /// As [`PageServer::apply`], where blocks without records of its pages are left out: `at` may be behind the position. Whether a record is
    /// missing shows at the next one of its page: then nothing is applied from there on, and [`PageServer::go_back`] is to be called.
    ///
    /// # Errors
    /// As [`PageServer::apply`].
    pub fn apply_filtered<'b>(
        &self,
        at: Lsn,
        next: Lsn,
        records: impl Iterator<Item = Result<RecordRef<'b>>>,
    ) -> Result<Option<Gap>> {
        self.apply_block(at, next, records, true)
    }

    /// There is no record of its pages from the position on to there.
    ///
    /// # Errors
    /// `InvalidParameter` where it is there already.
    pub fn skip_to(&self, next: Lsn) -> Result<()> {
        if next < self.position() {
            return Err(self.does_not_follow(next, self.position()));
        }
        self.raise(next);
        Ok(())
    }

    /// A record was left out: all log is to be applied again from what is durable here, whole, for the record may be anywhere behind it; what
    /// was left out before it is in the archive. Returns where.
    pub fn go_back(&self) -> Lsn {
        let mut times = self.marking.lock();
        *times += 1;
        self.gaps.fetch_add(1, Ordering::Relaxed);
        let durable = self.durable();
        *self.applied.lock() = durable;
        durable
    }

    fn raise(&self, next: Lsn) {
        *self.applied.lock() = next;
        self.raised.notify_all();
    }

    /// All log below is applied, if not more is.
    pub(crate) fn raise_to(&self, next: Lsn) {
        let mut applied = self.applied.lock();
        if next > *applied {
            *applied = next;
            drop(applied);
            self.raised.notify_all();
        }
    }

    #[cold]
    pub(crate) fn does_not_follow(&self, at: Lsn, applied: Lsn) -> Error {
        Error::new(
            ErrorKind::InvalidParameter,
            format!("the block at LSN {at} is not the one that follows: all log below LSN {applied} is applied"),
        )
    }

    /// The record, if it is of a page that the server has, with the page's segment.
    ///
    /// # Errors
    /// `NotSupported` for a page that no page server has.
    pub(crate) fn record_of_page<'b>(&self, record: RecordRef<'b>) -> Result<Option<(u64, PageRecord<'b>)>> {
        let page = record.header.page;
        if page.is_none() || !record.header.kind.is_of_page() {
            return Ok(None);
        }
        check_file(page)?;
        if !self.partitions.covers(page) {
            return Ok(None);
        }
        let (segment, previous) = (self.cover.segment(page), record.header.prev_page);
        Ok(Some((segment, PageRecord { lsn: record.lsn, page, previous, body: record.body })))
    }

    /// The shard of a segment's pages.
    pub(crate) fn shard_of(&self, segment: u64) -> u64 {
        self.cover.shard_of(segment) as u64
    }

    /// Blocks were applied together, by so many threads.
    pub(crate) fn count_batch(&self, threads: usize) {
        self.batches.fetch_add(u64::from(threads > 1), Ordering::Relaxed);
    }

    fn apply_block<'b>(
        &self,
        at: Lsn,
        next: Lsn,
        records: impl Iterator<Item = Result<RecordRef<'b>>>,
        filtered: bool,
    ) -> Result<Option<Gap>> {
        if at < self.position() || next < at {
            return Err(self.does_not_follow(at, self.position()));
        }
        let mut of_pages: Vec<(u64, PageRecord<'b>)> = Vec::new();
        for record in records {
            of_pages.extend(self.record_of_page(record?)?);
        }
        let gap = self.apply_records(of_pages.into_iter(), filtered)?;
        if gap.is_none() {
            self.raise(next);
        }
        Ok(gap)
    }

    /// Applies records of a block; of one page one caller at a time.
    ///
    /// # Errors
    /// As [`PageServer::apply`].
    pub(crate) fn apply_records<'b>(
        &self,
        of_pages: impl Iterator<Item = (u64, PageRecord<'b>)>,
        filtered: bool,
    ) -> Result<Option<Gap>> {
        let mut of_pages: Vec<(u64, PageRecord<'b>)> = of_pages.collect();
        // Stable: of one segment they stay in order.
        of_pages.sort_by_key(|(segment, _)| *segment);
        let mut rest = of_pages.into_iter().peekable();
        while let Some((segment, first)) = rest.next() {
            let mut records = vec![first];
            while let Some((_, record)) = rest.next_if(|(of, _)| *of == segment) {
                records.push(record);
            }
            let (applied, gap) = self.cover.apply(segment, &records, filtered)?;
            self.records.fetch_add(applied, Ordering::Relaxed);
            if gap.is_some() {
                return Ok(gap);
            }
        }
        Ok(None)
    }

    /// Fills `buf` with the page, with its record at `at_least` or later ones, sealed. Waits for so long until that is applied.
    ///
    /// # Errors
    /// `InvalidParameter` for a page of another partition; `Io` when it is not applied in time; `Corrupt` for a page that does not exist, or is damaged; those of file and seed.
    pub fn get_page(&self, page: PageId, at_least: Lsn, wait: Duration, buf: &mut PageBuf) -> Result<()> {
        self.show_page(page, at_least, wait, |page| buf.copy_from(page))
    }

    /// As [`PageServer::get_page`], without a copy. `show` is not to wait: others wait for it.
    ///
    /// # Errors
    /// As there.
    pub fn show_page<T>(
        &self,
        page: PageId,
        at_least: Lsn,
        wait: Duration,
        show: impl FnOnce(&PageBuf) -> T,
    ) -> Result<T> {
        check_file(page)?;
        if !self.has(page) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "page {page} is in partition {}, and this page server has {}",
                    self.partitions.partition_of(page),
                    self.partitions
                ),
            ));
        }
        let mut applied = self.applied.lock();
        if *applied <= at_least {
            self.waited.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + wait;
            while *applied <= at_least {
                if self.raised.wait_until(&mut applied, until).timed_out() && *applied <= at_least {
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!(
                            "the page server has applied the log up to LSN {applied}, and page {page} is wanted with LSN {at_least}"
                        ),
                    ));
                }
            }
        }
        drop(applied);
        let shown = self.cover.show(page, show)?;
        self.served.fetch_add(1, Ordering::Relaxed);
        Ok(shown)
    }

    /// Makes what is applied durable, as far as the archive reaches, and returns up to where it is.
    ///
    /// # Errors
    /// Those of file and seed; what was durable before stays so.
    pub fn checkpoint(&self) -> Result<Lsn> {
        // Before the pages are written: they have at least all below.
        let (times, position) = {
            let times = self.marking.lock();
            (*times, self.position())
        };
        let position = match &self.seed {
            Some(seed) => position.min(seed.end()?),
            None => position,
        };
        if position <= self.durable() && self.cover.missing() == 0 {
            return Ok(self.durable());
        }
        if self.early_mark {
            let there = self.cover.there();
            self.mark(position, there).write(&self.vfs, &self.dir)?;
            self.durable.store(position.0, Ordering::SeqCst);
            return Ok(position);
        }
        let there = match self.cover.write_all() {
            Ok(there) => there,
            Err(error) => {
                if self.has_failed() {
                    // So that the next start does not rely on it. Where this fails as well the disk is gone.
                    let _ = Mark::remove(&self.vfs, &self.dir);
                }
                return Err(error);
            }
        };
        let marking = self.marking.lock();
        if *marking != times {
            // What was written may lack a record.
            return Ok(self.durable());
        }
        let position = position.max(self.durable());
        self.mark(position, there).write(&self.vfs, &self.dir)?;
        self.durable.store(position.0, Ordering::SeqCst);
        Ok(position)
    }

    fn mark(&self, position: Lsn, there: Vec<bool>) -> Mark {
        Mark { database: self.database, position, there, partitions: self.partitions.clone() }
    }

    /// A sync of its file has failed: it answers no more, and is to be opened anew, from archive and backup.
    pub fn has_failed(&self) -> bool {
        self.cover.check().is_err()
    }

    /// Fetches up to `limit` segments that nobody has asked for yet; returns how many are missing still.
    ///
    /// # Errors
    /// Those of file and seed.
    pub fn fill(&self, limit: usize) -> Result<u64> {
        self.cover.fill(limit)
    }

    /// Of its partitions those of which pages are missing, and how many at most; none where it has all pages.
    pub fn missing_by_partition(&self) -> Vec<(u64, u64)> {
        if self.partitions.is_all() {
            return Vec::new();
        }
        let mut all = BTreeMap::new();
        let pages = self.partitions.segment_pages();
        for number in self.cover.missing_segments() {
            *all.entry(self.partitions.partition_of(PageId(number * pages))).or_insert(0) += pages;
        }
        all.into_iter().collect()
    }

    /// Where it is, and what it has done.
    pub fn stats(&self) -> PageServerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.cover.counts;
        PageServerStats {
            applied: self.position(),
            durable: self.durable(),
            records_applied: read(&self.records),
            batches: read(&self.batches),
            pages_served: read(&self.served),
            waited: read(&self.waited),
            refused: read(&self.refused),
            gaps: read(&self.gaps),
            hits: read(&counts.hits),
            reads: read(&counts.reads),
            pages_written: read(&counts.written),
            pages_in_memory: self.cover.in_memory() as u64,
            segments_seeded: read(&counts.seeded_segments),
            pages_seeded_alone: read(&counts.alone),
            segments_missing: self.cover.missing(),
            pages_missing: self.cover.missing() * self.partitions.segment_pages(),
            pages_mended: read(&counts.mended),
        }
    }
}

/// Which segments a server begins without: those that the seed has.
fn none_there(seed: &Arc<dyn Seed>, partitions: &Partitions) -> Result<Vec<bool>> {
    Ok(vec![false; seed.pages()?.div_ceil(partitions.segment_pages()) as usize])
}

/// Whether a server that has these partitions has a file for this one; none: the one for all pages.
fn has_file(partitions: &Partitions, partition: Option<u64>) -> bool {
    match partition {
        None => partitions.is_all(),
        Some(number) => !partitions.is_all() && partitions.has(number),
    }
}

/// A new server: with no page, at the end of the seed.
fn begin(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    database: [u8; 16],
    partitions: &Partitions,
    seed: Option<&Arc<dyn Seed>>,
    first: Lsn,
) -> Result<Mark> {
    let (end, there) = match seed {
        Some(seed) => (seed.end()?, none_there(seed, partitions)?),
        None => (Lsn::NONE, Vec::new()),
    };
    let there = if end > first { there } else { Vec::new() };
    let mark = Mark { database, position: end.max(first), there, partitions: partitions.clone() };
    // Files that an attempt before the first mark has left are of no use.
    PageFiles::remove(vfs, dir, |_| false)?;
    vfs.sync_dir(dir)?;
    mark.write(vfs, dir)?;
    Ok(mark)
}

/// A server that has other partitions than it had. Those that it had already stay as they are; the others are missing, and are made as of the
/// archive's end, which is not before the mark.
fn change(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    mark: &Mark,
    partitions: &Partitions,
    seed: Option<&Arc<dyn Seed>>,
    first: Lsn,
) -> Result<Mark> {
    let (old, position) = (&mark.partitions, mark.position);
    let alike = !old.is_all() && !partitions.is_all() && old.pages() == partitions.pages();
    let Some(seed) = seed.filter(|_| alike) else {
        tracing::warn!(
            "the page server had {old:?} and has {partitions:?} now: it begins anew, from archive and backup"
        );
        // The mark goes first: it must not speak of files that are gone.
        Mark::remove(vfs, dir)?;
        return begin(vfs, dir, mark.database, partitions, seed, first);
    };
    let end = seed.end()?.max(first);
    if end < position {
        return Err(Error::new(
            ErrorKind::Io,
            format!(
                "the page server has {partitions} now, and had {old}: what it does not have it gets from the archive, which ends at LSN \
                 {end}, before LSN {position}"
            ),
        ));
    }
    let seeded = none_there(seed, partitions)?.len().max(mark.there.len());
    let there = (0..seeded)
        .map(|number| old.has_segment(number as u64) && mark.there.get(number).copied().unwrap_or(true))
        .collect::<Vec<_>>();
    // What it has had of them at another time is old.
    PageFiles::remove(vfs, dir, |partition| has_file(old, partition))?;
    let mark = Mark { database: mark.database, position, there, partitions: partitions.clone() };
    mark.write(vfs, dir)?;
    tracing::warn!(
        "the page server had {old} and has {partitions} now: the others are given up, and what is new is fetched"
    );
    Ok(mark)
}
