//! The server: applies log, answers for pages, and says what is durable. It has no threads and no sockets of its own: who
//! drives it calls [`PageServer::apply`] with blocks in order, and [`PageServer::checkpoint`] and [`PageServer::fill`] now
//! and then; anybody may ask for pages meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::RecordRef;
use resurgam_page::PageBuf;
use resurgam_vfs::{FileLock, OpenMode, Vfs};

use crate::cover::{Cover, PageRecord, SEGMENT_PAGES, segment_of};
use crate::mark::Mark;
use crate::seed::Seed;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct PageServerConfig {
    /// Memory for pages, in bytes.
    pub memory_bytes: usize,
    /// A mistake that tests make on purpose: the mark is written without the pages.
    #[doc(hidden)]
    pub early_mark: bool,
}

impl Default for PageServerConfig {
    fn default() -> Self {
        Self { memory_bytes: 128 << 20, early_mark: false }
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
    pub pages_served: u64,
    /// Requests that had to wait for log.
    pub waited: u64,
    /// Pages found in memory, and read from the file.
    pub hits: u64,
    pub reads: u64,
    pub pages_written: u64,
    pub pages_in_memory: u64,
    /// Segments fetched from archive and backup, and those that are missing still.
    pub segments_seeded: u64,
    pub segments_missing: u64,
    /// Pages that were damaged or old in the file, and made again.
    pub pages_mended: u64,
}

/// See the module.
pub struct PageServer {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    database: [u8; 16],
    seed: Option<Arc<dyn Seed>>,
    cover: Cover,
    /// Where the next block starts. Under the lock it is raised, and waited for.
    applied: Mutex<Lsn>,
    raised: Condvar,
    early_mark: bool,
    durable: AtomicU64,
    records: AtomicU64,
    served: AtomicU64,
    waited: AtomicU64,
    _lock: Box<dyn FileLock>,
}

impl PageServer {
    /// Opens the server in `dir`, which is made if it is missing, for a database whose log begins at `first`.
    ///
    /// A new one begins at the end of the seed, with no page: they are fetched as they are asked for, and by
    /// [`PageServer::fill`]. Without a seed, or with an empty one, it begins where the database began.
    ///
    /// # Errors
    /// `InUse`; `NotADatabase` for a folder of another database; `Corrupt`; those of file and seed.
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
        let mark = match Mark::read(&vfs, dir, database)? {
            Some(mark) => mark,
            None => {
                let (end, pages) = match &seed {
                    Some(seed) => (seed.end()?, seed.pages()?),
                    None => (Lsn::NONE, 0),
                };
                let there = if end > first { vec![false; pages.div_ceil(SEGMENT_PAGES) as usize] } else { Vec::new() };
                let mark = Mark { database, position: end.max(first), there };
                // A file that an attempt before the first mark has left is of no use.
                let file = vfs.open(&dir.join("pages"), OpenMode::Create)?;
                file.set_len(0)?;
                file.sync()?;
                vfs.sync_dir(dir)?;
                mark.write(&vfs, dir)?;
                mark
            }
        };
        let file = vfs.open(&dir.join("pages"), OpenMode::Create)?;
        let cover = Cover::new(file, seed.clone(), config.memory_bytes, &mark.there);
        Ok(Self {
            vfs,
            dir: dir.to_path_buf(),
            database,
            seed,
            cover,
            applied: Mutex::new(mark.position),
            raised: Condvar::new(),
            early_mark: config.early_mark,
            durable: AtomicU64::new(mark.position.0),
            records: AtomicU64::new(0),
            served: AtomicU64::new(0),
            waited: AtomicU64::new(0),
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

    /// All log below is applied: where the next block starts.
    pub fn position(&self) -> Lsn {
        *self.applied.lock()
    }

    /// All log below is in the file: what is needed again after a crash begins here.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::SeqCst))
    }

    /// Applies a durable block of the log: the one at [`PageServer::position`], which ends at `next`. One caller at a time.
    /// After an error the same block is to be applied again.
    ///
    /// # Errors
    /// `InvalidParameter` for another block; `Corrupt` for one that does not fit the pages; those of file and seed.
    pub fn apply<'b>(&self, at: Lsn, next: Lsn, records: impl Iterator<Item = Result<RecordRef<'b>>>) -> Result<()> {
        let position = self.position();
        if at != position || next < at {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the block at LSN {at} is not the one that follows: all log below LSN {position} is applied"),
            ));
        }
        let mut of_pages: Vec<(u64, PageRecord<'b>)> = Vec::new();
        for record in records {
            let record = record?;
            if record.header.page.is_some() && record.header.kind.is_of_page() {
                let segment = segment_of(record.header.page)?;
                let (page, previous) = (record.header.page, record.header.prev_page);
                of_pages.push((segment, PageRecord { lsn: record.lsn, page, previous, body: record.body }));
            }
        }
        // Stable: of one segment they stay in order.
        of_pages.sort_by_key(|(segment, _)| *segment);
        let mut rest = of_pages.into_iter().peekable();
        while let Some((segment, first)) = rest.next() {
            let mut records = vec![first];
            while let Some((_, record)) = rest.next_if(|(of, _)| *of == segment) {
                records.push(record);
            }
            self.records.fetch_add(self.cover.apply(segment, &records)?, Ordering::Relaxed);
        }
        *self.applied.lock() = next;
        self.raised.notify_all();
        Ok(())
    }

    /// Fills `buf` with the page, with its record at `at_least` or later ones, sealed. Waits for so long until that is applied.
    ///
    /// # Errors
    /// `Io` when it is not applied in time; `Corrupt` for a page that does not exist, or is damaged; those of file and seed.
    pub fn get_page(&self, page: PageId, at_least: Lsn, wait: Duration, buf: &mut PageBuf) -> Result<()> {
        segment_of(page)?;
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
        self.cover.copy(page, buf)?;
        self.served.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes what is applied durable, as far as the archive reaches, and returns up to where it is.
    ///
    /// # Errors
    /// Those of file and seed; what was durable before stays so.
    pub fn checkpoint(&self) -> Result<Lsn> {
        // Before the pages are written: they have at least all below.
        let position = self.position();
        let position = match &self.seed {
            Some(seed) => position.min(seed.end()?),
            None => position,
        };
        if position <= self.durable() && self.cover.missing() == 0 {
            return Ok(self.durable());
        }
        if self.early_mark {
            let there = self.cover.there();
            Mark { database: self.database, position, there }.write(&self.vfs, &self.dir)?;
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
        let position = position.max(self.durable());
        Mark { database: self.database, position, there }.write(&self.vfs, &self.dir)?;
        self.durable.store(position.0, Ordering::SeqCst);
        Ok(position)
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

    /// Where it is, and what it has done.
    pub fn stats(&self) -> PageServerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.cover.counts;
        PageServerStats {
            applied: self.position(),
            durable: self.durable(),
            records_applied: read(&self.records),
            pages_served: read(&self.served),
            waited: read(&self.waited),
            hits: read(&counts.hits),
            reads: read(&counts.reads),
            pages_written: read(&counts.written),
            pages_in_memory: self.cover.in_memory() as u64,
            segments_seeded: read(&counts.seeded_segments),
            segments_missing: self.cover.missing(),
            pages_mended: read(&counts.mended),
        }
    }
}
