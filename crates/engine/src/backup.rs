//! A full backup of the running database: images of all pages, segment by segment, read from their files beside the work of
//! the pool.
//!
//! # Why it is whole
//! Before a segment is read, [`BufferPool::complete_below`](resurgam_buffer::BufferPool::complete_below) gives a position below
//! which every record is in the files (the oldest change that is not written out, or the end of the log). That is the segment's LSN:
//! what is read has every record below it, and perhaps later ones, which each page says by its own LSN. Pages that are torn by a
//! write under way are read again; a page that stays damaged is taken from the pool, which rebuilds it. Pages that are added
//! while the backup is made are none of it: their first record is at or behind the end of the log before the pages were
//! counted. What the backup says of pages behind the count reaches no further: the LSN of the first segment (with it the backup's
//! begin, which stands for segments that are not in it) and that of a segment that the count cuts off. So
//! `page = redo(image, records of the archive behind the image)`, as long as the archive has the log from the least of these
//! positions to the backup's end, which no image reaches. A backup exists only when the archive has reached that end.
//!
//! # Invariants
//! 1. One at a time. Nobody waits for it, and it holds no latch, no lock and no log: the archive holds what is not archived.
//! 2. The summary is created when all parts are durable and the archive has the log up to the end.
//! 3. Interrupted (an error, a cancel, a crash), it goes on the next time behind the last durable part, within a day. So neither an
//!    image nor what is said of a segment reaches beyond the durable log: a crash takes back what is behind it.
//!
//! # From the archive
//! Pages are made of the newest backup and the archive's records, by several threads, and put in order; such a backup goes on
//! after an interruption as well, with segments as of the archive's end by then. A page that cannot be made is left out and counted, and an
//! older backup is kept for it.
//!
//! Where log services write the archive, they merge it meanwhile, and may give up of it what no lease needs: such a backup has one (`backup_lease.rs`), and goes
//! on with the archive as it is by then when a run is gone that it reads.
//!
//! Memory: one part, and two segments; from the archive one part, and four segments for each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use resurgam_archive::{
    Backup, BackupPlan, BackupSummary, BackupWriter, MadePages, PageBase, PageKind, PageMaker, Remaking, SEGMENT_PAGES,
    View, pages_of, remake, segment_key, segment_page,
};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_buffer::FilePage;
use resurgam_page::{PageBuf, boot, space};

use crate::backup_lease::BackupLease;
use crate::backup_places::{Backups, Claim, Running};
use crate::database::Database;

/// An interrupted backup is gone on with when it was begun no longer ago, in microseconds.
const RESUME_US: i64 = 24 * 3600 * 1_000_000;
/// The position below which everything is in the files is looked up again after so many segments or so long: an older
/// one is as right, and the log that is needed a little longer.
const LOOK_SEGMENTS: u64 = 16;
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks whether it is to be stopped, or whether the archive is where it must be.
const STEP: Duration = Duration::from_millis(20);
/// Threads that make the pages of a backup from the archive.
const THREADS_MAX: usize = 4;
/// Damaged pages that are named in the log.
const NAMED_MAX: u64 = 20;

/// Bugs that tests plant, to see that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum PlantedInBackup {
    None,
    /// A segment claims to have every record up to the end of the log.
    ImageOlderThanItClaims,
    /// A segment is left out.
    SkippedSegment,
}

/// How fast, and until when.
struct Pacer<'a> {
    db: &'a Database,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    begun: Instant,
    bytes: u64,
}

impl Pacer<'_> {
    fn check(&self) -> Result<()> {
        if (self.cancelled)() {
            return Err(Error::new(ErrorKind::Cancelled, "the backup was cancelled")
                .with_hint("The next one goes on where this one was."));
        }
        if self.db.inner().stopping.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Stopped, "the database is being closed"));
        }
        self.db.inner().pool.check_poisoned()
    }

    /// So many bytes were read: waits as long as the limit wants it.
    fn read(&mut self, bytes: u64) -> Result<()> {
        self.bytes += bytes;
        let limit = self.db.options().backup_bytes_per_second;
        loop {
            self.check()?;
            if limit == 0 {
                return Ok(());
            }
            let due = Duration::from_secs_f64(self.bytes as f64 / limit as f64);
            let Some(early) = due.checked_sub(self.begun.elapsed()).filter(|early| !early.is_zero()) else {
                return Ok(());
            };
            std::thread::sleep(early.min(STEP));
        }
    }
}

impl Database {
    /// Makes a full backup and returns its name when it is durable and the archive has all log that it needs. `from_archive`:
    /// made from the newest backup and the archive alone, without reading the files of the database. Blocks; asks
    /// `cancelled` again and again.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` without a place for backups or an archive, and when the archive does not get to the end of the
    /// backup in time; `InUse` while another one is being made; `Cancelled`; `Stopped`; those of the store and of reading.
    pub fn backup(&self, from_archive: bool, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<String> {
        self.backup_planted(from_archive, PlantedInBackup::None, cancelled)
    }

    /// As [`Database::backup`], with a bug, for tests.
    ///
    /// # Errors
    /// As [`Database::backup`].
    #[doc(hidden)]
    pub fn backup_planted(
        &self,
        from_archive: bool,
        planted: PlantedInBackup,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<String> {
        self.backup_of(from_archive, false, planted, cancelled).map(|made| made.summary().name.clone())
    }

    /// See [`Database::backup_planted`]; the backup itself. One that is made by itself makes way for one that is asked for, which waits for
    /// that; the next one of its kind goes on where it was.
    ///
    /// # Errors
    /// As [`Database::backup`].
    pub(crate) fn backup_of(
        &self,
        from_archive: bool,
        by_itself: bool,
        planted: PlantedInBackup,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<Backup>> {
        let inner = self.inner();
        let missing = |what: &str, hint: &str| {
            Err(Error::new(ErrorKind::NotInPrerequisiteState, what.to_owned()).with_hint(hint.to_owned()))
        };
        let Some(backups) = inner.backups.as_deref() else {
            return missing("there is no place for backups", "Start the server with --backups and a folder.");
        };
        if inner.archiver.is_none() {
            return missing(
                "a backup needs an archive of the log",
                "Start the server with --archive and a folder: without the log a backup is of no use.",
            );
        }
        let now_us = inner.vfs.wall_clock_us();
        let claim = loop {
            match backups.claim(Running { started_us: now_us, from_archive, by_itself, ..Running::default() }) {
                Err(error) if error.kind() == ErrorKind::InUse && !by_itself && backups.must_make_way() => {
                    if cancelled() {
                        return Err(Error::new(ErrorKind::Cancelled, "the backup was cancelled"));
                    }
                    std::thread::sleep(STEP);
                }
                claimed => break claimed?,
            }
        };
        let made = self.make_backup(backups, &claim, from_archive, planted, cancelled);
        let outcome = made.and_then(|summary| Backup::open(&backups.store()?, &summary.name).map(Some));
        claim.ended(&outcome, inner.vfs.wall_clock_us());
        // It may be what protects pages from now on.
        self.decide_double_writes();
        match outcome {
            Ok(Some(backup)) => {
                let summary = backup.summary();
                tracing::info!(
                    "backup {} is complete: {} pages, {} bytes, LSN {} to {}, {} damaged pages",
                    summary.name,
                    summary.images(),
                    summary.bytes(),
                    summary.begin,
                    summary.end,
                    summary.damaged
                );
                Ok(backup)
            }
            Ok(None) => Err(Error::internal("a backup that was made is not there")),
            Err(error) => {
                tracing::warn!("the backup was not made: {error}");
                Err(error)
            }
        }
    }

    fn make_backup(
        &self,
        backups: &Backups,
        claim: &Claim<'_>,
        from_archive: bool,
        planted: PlantedInBackup,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<BackupSummary> {
        let mut pacer = Pacer { db: self, cancelled, begun: Instant::now(), bytes: 0 };
        pacer.check()?;
        let store = backups.store()?;
        // The pages are in no file: the archive has what they are made of.
        if from_archive || self.inner().pool.is_remote() {
            return self.backup_from_archive(backups, claim, &mut pacer);
        }
        let inner = self.inner();
        let mut plan = self.plan(false);
        // What the archive does not have, and what it will not get: the log behind its end is kept for it.
        plan.log_from = self.archive_start()?;
        // Before the pages are counted: a page that is not counted has no record below this. (Its allocation raises the high
        // water before it logs anything.) It may well have some, written out, by the time the first segment is read.
        let counted_at = inner.log.end_lsn();
        let (data_pages, version_pages) = self.pages_in_use()?;
        (plan.data_pages, plan.version_pages) = (data_pages, version_pages);
        let mut writer = self.sized(BackupWriter::begin(store, &plan)?);
        let files = [Some((0, data_pages)), plan.version_pages.map(|(number, pages)| (u64::from(number), pages))];
        let total: u64 = files.iter().flatten().map(|(_, pages)| pages).sum();
        claim.note(|running| {
            running.name = writer.name().to_owned();
            running.started_us = writer.summary().started_us;
            running.least = writer.least();
            running.total = total;
        });
        let copied = self.copy_segments(claim, &mut writer, &files, counted_at, &mut pacer, planted);
        if let Err(error) = copied {
            // So that the next one goes on here.
            if error.kind() != ErrorKind::Stopped {
                let _ = writer.flush();
            }
            return Err(error);
        }
        writer.flush()?;
        // No image is as new as this.
        let end = inner.log.end_lsn();
        inner.log.flush(end)?;
        self.wait_for_archive(end, &pacer)?;
        // Also if something was given up of it meanwhile.
        let begins = self.archive_start()?;
        if writer.least().is_some_and(|least| least < begins) {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                "the archive begins behind the oldest change that was not in the files",
            )
            .with_hint("Take a checkpoint (CHECKPOINT) and make the backup again."));
        }
        writer.finish(end, inner.vfs.wall_clock_us(), self.identity().encode())
    }

    /// Pages of the data file, and number and pages of the version-store file.
    fn pages_in_use(&self) -> Result<(u64, Option<(u32, u64)>)> {
        let inner = self.inner();
        // A file that is being restored is shorter than what belongs into it.
        let space = inner.pool.space();
        let data_pages = inner.pool.file().len()?.div_ceil(PAGE_SIZE as u64).max(space.high_water());
        let version_pages = inner.pool.version_file().map(|version| {
            let number = u32::try_from(version.number()).unwrap_or(u32::MAX);
            let given = space.version_high_water();
            let given = if given.file() == version.number() { given.in_file() } else { 0 };
            (number, version.bytes().div_ceil(PAGE_SIZE as u64).max(given))
        });
        Ok((data_pages, version_pages))
    }

    fn plan(&self, from_archive: bool) -> BackupPlan {
        let inner = self.inner();
        let now_us = inner.vfs.wall_clock_us();
        BackupPlan {
            database: inner.boot.database_id,
            number: inner.vfs.random_u64(),
            from_archive,
            now_us,
            resume_since_us: now_us - RESUME_US,
            log_from: Lsn::NONE,
            data_pages: 0,
            version_pages: None,
            // This process alone has the data folder.
            identity: self.identity().encode(),
        }
    }

    fn sized(&self, writer: BackupWriter) -> BackupWriter {
        match self.options().backup_part_bytes {
            0 => writer,
            bytes => writer.with_part_bytes(bytes),
        }
    }

    /// Where the archive begins, or will begin: none if it has nothing yet, and will have all that is kept of the log.
    fn archive_start(&self) -> Result<Lsn> {
        let archiver = self.inner().archiver.as_ref();
        let view = archiver.and_then(|archiver| archiver.view()).ok_or_else(|| {
            Error::new(ErrorKind::NotInPrerequisiteState, "the archive cannot be reached now")
                .with_hint("The view resurgam_archive says why.")
        })?;
        Ok(view.start())
    }

    fn copy_segments(
        &self,
        claim: &Claim<'_>,
        writer: &mut BackupWriter,
        files: &[Option<(u64, u64)>],
        counted_at: Lsn,
        pacer: &mut Pacer<'_>,
        planted: PlantedInBackup,
    ) -> Result<()> {
        let inner = self.inner();
        let mut first_of_all = true;
        let mut pages: Vec<PageBuf> = (0..SEGMENT_PAGES).map(|_| PageBuf::zeroed()).collect();
        let mut states = [FilePage::Zero; SEGMENT_PAGES];
        let mut complete: Option<(Lsn, Instant, u64)> = None;
        let mut named = 0;
        for (file, count) in files.iter().flatten().copied() {
            for number in 0..count.div_ceil(SEGMENT_PAGES as u64) {
                let first = PageId::of_file(file, number * SEGMENT_PAGES as u64);
                let key = segment_key(first);
                let here = (count - number * SEGMENT_PAGES as u64).min(SEGMENT_PAGES as u64) as usize;
                if key < writer.next() {
                    claim.note(|running| running.done += here as u64);
                    continue;
                }
                let known = complete.filter(|(_, at, segment)| at.elapsed() < LOOK && number < segment + LOOK_SEGMENTS);
                let mut lsn = match known {
                    Some((lsn, ..)) => lsn,
                    None => {
                        // Not behind what is durable: after a crash those positions are given to other records, and the backup
                        // may be gone on with then.
                        let durable = inner.log.flushed_lsn();
                        let lsn = inner.pool.complete_below().min(durable);
                        complete = Some((lsn, Instant::now(), number));
                        lsn
                    }
                };
                if std::mem::take(&mut first_of_all) || here < SEGMENT_PAGES {
                    lsn = lsn.min(counted_at);
                }
                // Before it is read, so that nobody gives up what it needs.
                claim.note(|running| running.least = Some(running.least.map_or(lsn, |least| least.min(lsn))));
                let (pages, states) = (&mut pages[..here], &mut states[..here]);
                inner.pool.copy_from_file(segment_page(key), pages, states)?;
                if planted == PlantedInBackup::ImageOlderThanItClaims {
                    lsn = inner.log.end_lsn();
                }
                let kinds = self.mend(segment_page(key), pages, states, &mut named)?;
                // For the same reason: a page that came from memory may be ahead of the log on disk.
                if let Some(newest) = pages.iter().map(PageBuf::lsn).max()
                    && newest >= inner.log.flushed_lsn()
                {
                    inner.log.flush(inner.log.end_lsn())?;
                }
                if planted != PlantedInBackup::SkippedSegment || number != 0 {
                    writer.put(key, lsn, pages, &kinds)?;
                }
                claim.note(|running| {
                    let summary = writer.summary();
                    running.done += here as u64;
                    running.bytes = summary.bytes();
                    running.pages = summary.images();
                    running.damaged = summary.damaged;
                });
                pacer.read((here * PAGE_SIZE) as u64)?;
            }
            complete = None;
        }
        Ok(())
    }

    /// Pages that are of no use in the file are taken from the pool, which rebuilds them.
    fn mend(
        &self,
        first: PageId,
        pages: &mut [PageBuf],
        states: &[FilePage],
        named: &mut u64,
    ) -> Result<Vec<PageKind>> {
        let inner = self.inner();
        let mut kinds = Vec::with_capacity(pages.len());
        for (i, (page, state)) in pages.iter_mut().zip(states).enumerate() {
            let id = PageId(first.0 + i as u64);
            let state = match state {
                // One that somebody has is no page that was never written: it is in memory, or the device lost it.
                // (A space map is made with the first page that it gives out.)
                FilePage::Zero
                    if id.in_file() > 0
                        && space::map_page_of(id) != id
                        && matches!(inner.pool.is_free(id), Ok(false)) =>
                {
                    &FilePage::Bad
                }
                state => state,
            };
            kinds.push(match state {
                FilePage::Zero => PageKind::Zero,
                FilePage::Sound => PageKind::Image,
                FilePage::Bad if id == PageId(0) => {
                    *page = boot::page(&inner.boot, Lsn(1))?;
                    PageKind::Image
                }
                // Whatever its place holds.
                FilePage::Bad if inner.pool.is_nobodys(id) => PageKind::Zero,
                // Each page would wait for the device's replacement.
                FilePage::Bad if !inner.pool.dead_devices().is_empty() => {
                    return Err(Error::new(
                        ErrorKind::Io,
                        "a device is dead: the backup can go on when its file is restored",
                    ));
                }
                FilePage::Bad => match inner.pool.copy_of(id, page) {
                    Ok(()) => PageKind::Image,
                    // Nobody's: whoever gets it formats it.
                    Err(_) if inner.pool.is_free(id).unwrap_or(false) => PageKind::Zero,
                    // It may be readable later: a backup of a device that fails would hide the one before it.
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        *named += 1;
                        if *named <= NAMED_MAX {
                            tracing::error!("page {id} is damaged and is not in the backup: {error}");
                        }
                        PageKind::Damaged
                    }
                    Err(error) => return Err(error),
                },
            });
        }
        Ok(kinds)
    }

    /// Waits until the archive has the log up to `end`.
    fn wait_for_archive(&self, end: Lsn, pacer: &Pacer<'_>) -> Result<()> {
        let inner = self.inner();
        let archived = || self.archive_status().and_then(|status| status.archived).unwrap_or(Lsn::NONE);
        let (mut best, mut since) = (archived(), Instant::now());
        loop {
            if best >= end {
                return Ok(());
            }
            pacer.check()?;
            if inner.options.background {
                std::thread::sleep(STEP);
            } else {
                self.archive_step(Duration::ZERO, true)?;
            }
            let now = archived();
            if now > best {
                (best, since) = (now, Instant::now());
            } else if since.elapsed() > inner.options.log_wait_max {
                let status = self.archive_status();
                let why = status.and_then(|status| status.error).map_or(String::new(), |error| format!(": {error}"));
                return Err(Error::new(
                    ErrorKind::NotInPrerequisiteState,
                    format!(
                        "the backup has all pages, but the archive stays at LSN {now} and must get to LSN {end} before it is complete{why}"
                    ),
                )
                .with_hint("The view resurgam_archive says what is wrong; the next backup goes on with this one."));
            }
        }
    }

    /// The archive as it is now, with all its runs open.
    fn opened_archive(&self) -> Result<Arc<View>> {
        let unreachable = || Error::new(ErrorKind::Io, "the archive cannot be reached now");
        let archiver = self.inner().archiver.as_ref().ok_or_else(unreachable)?;
        let view = || archiver.view().ok_or_else(unreachable);
        let opened = view()?;
        if archiver.is_elsewhere() && pages_of(None, &opened).is_err() {
            // Others have merged runs since it was looked at.
            archiver.look_again()?;
            return view();
        }
        Ok(opened)
    }

    fn backup_from_archive(
        &self,
        backups: &Backups,
        claim: &Claim<'_>,
        pacer: &mut Pacer<'_>,
    ) -> Result<BackupSummary> {
        let inner = self.inner();
        let end = inner.log.end_lsn();
        inner.log.flush(end)?;
        self.wait_for_archive(end, pacer)?;
        let view = self.opened_archive()?;
        let store = backups.store()?;
        let as_of = Lsn(view.end().0 - 1);
        let newest = PageBase::newest(Some(&store), &view, view.end(), inner.log.config().first_lsn());
        let parent = self.made_of();
        let of_parent = || -> Result<Option<PageMaker>> {
            let Some(parent) = &parent else { return Ok(None) };
            let dir = inner.data_dir.lock().clone();
            let pages = parent.maker(&inner.vfs, &dir, inner.boot.database_id)?;
            let base = PageBase::of_parent(pages, Some(&view), parent.log_begins(inner.log.config().segment_bytes))?;
            PageMaker::new(base, Arc::clone(&view), as_of).map(Some)
        };
        let files = "Make the first backup from the files: SELECT resurgam_backup().";
        let with_hint = |error: Error| match error.hint() {
            Some(hint) => {
                let hint = format!("{hint} {files}");
                error.with_hint(hint)
            }
            None => error.with_hint(files),
        };
        let is_layered = newest.is_err();
        let base = newest.as_ref().ok().cloned();
        let (maker, data_pages, version_pages) = match newest {
            Ok(base) => {
                let (data_pages, version_pages) = pages_of(base.backup().map(|backup| &**backup), &view)?;
                (PageMaker::new(base, Arc::clone(&view), as_of)?, data_pages, version_pages)
            }
            Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => {
                let maker = of_parent().map_err(with_hint)?.ok_or_else(|| with_hint(error))?;
                // Opens all runs: one that is bad ends it here, and not as many pages that cannot be made.
                pages_of(None, &view)?;
                // How many pages there were at the cut, its own records do not say. Some may be later ones: they are all zero.
                let (data_pages, version_pages) = self.pages_in_use()?;
                (maker, data_pages, version_pages)
            }
            Err(error) => return Err(error),
        };
        // One that was interrupted needs what its segments lack, of the archive as it is now.
        let plan = BackupPlan { data_pages, version_pages, log_from: view.start(), ..self.plan(true) };
        let mut writer = self.sized(BackupWriter::begin(Arc::clone(&store), &plan)?);
        let mut lease = match inner.archiver.as_ref().filter(|archiver| archiver.is_elsewhere()) {
            Some(archiver) => {
                let unreachable = || Error::new(ErrorKind::Io, "the archive cannot be reached now");
                let archive = archiver.archive().ok_or_else(unreachable)?;
                let base = base.as_ref().and_then(PageBase::backup);
                let least = writer.least();
                Some(BackupLease::make(&inner.vfs, archive.store(), &view, base, &store, writer.name(), least)?)
            }
            None => None,
        };
        // Of the same state, from the archive as it is now.
        let of_now = || -> Result<Option<PageMaker>> {
            let (Some(archiver), Some(base)) = (&inner.archiver, &base) else { return Ok(None) };
            if !archiver.look_again()? {
                return Ok(None);
            }
            archiver.view().map(|view| PageMaker::new(base.clone(), view, as_of)).transpose()
        };
        claim.note(|running| {
            running.name = writer.name().to_owned();
            running.started_us = writer.summary().started_us;
            running.least = Some(writer.least().map_or(view.end(), |least| least.min(view.end())));
            running.total = data_pages + version_pages.map_or(0, |(_, pages)| pages);
        });
        let boot = boot::page(&inner.boot, Lsn(1))?;
        let named = AtomicU64::new(0);
        let making = Remaking {
            maker: Arc::new(maker),
            again: &|| if is_layered { of_parent() } else { of_now() },
            boot: &boot,
            failed: &|page, error| {
                if named.fetch_add(1, Ordering::Relaxed) < NAMED_MAX {
                    tracing::error!("page {page} cannot be made and is not in the backup: {error}");
                }
            },
            threads: match inner.options.background {
                true => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
                false => 1,
            },
        };
        let remade = remake(making, &mut writer, &mut |writer, made: &MadePages, pages| {
            claim.note(|running| {
                running.done += pages;
                running.bytes = writer.summary().bytes();
                running.pages = writer.summary().images();
                running.damaged = writer.summary().damaged;
            });
            lease.iter_mut().for_each(BackupLease::renew);
            pacer.read(made.bytes_read)
        });
        if let Err(error) = remade {
            // So that the next one goes on here.
            if error.kind() != ErrorKind::Stopped {
                let _ = writer.flush();
            }
            return Err(error);
        }
        // As with one from the files: also if something was given up of it meanwhile, by whom ever.
        if let Some(archiver) = &inner.archiver {
            archiver.look_again()?;
        }
        let begins = self.archive_start()?;
        if writer.least().is_some_and(|least| least.min(view.end()) < begins) {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                "the archive begins behind the oldest change that is not in the backup",
            )
            .with_hint("Make the backup again."));
        }
        writer.finish(view.end(), inner.vfs.wall_clock_us(), self.identity().encode())
    }
}
