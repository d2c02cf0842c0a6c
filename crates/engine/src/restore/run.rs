//! A restore under way: its segments on demand and in the background, its marks, its end.
//!
//! # Order
//! 1. At the open, before anybody can ask for a page: the pass over the log from the archive's end E on notes what the
//!    pages of unrestored segments lack behind E ([`resurgam_buffer::PendingRedo`]).
//! 2. The first checkpoint carries these pages; only then marks are written. From then on a checkpoint counts only
//!    when the marks of all segments that were in the file when it read the dirty pages are durable: a page that it leaves
//!    out is in a segment that is not made again.
//! 3. While the log is longer than it should be, the pages that hold it come before the rest of the segments.
//! 4. When every segment is marked, what was left in the log for its pages is applied, and `restore` is removed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::{BufferPool, Planted, Restoring, SEGMENT_PAGES, Segment};
use resurgam_log::{Log, LogHold};
use resurgam_vfs::{MachineTime, Vfs, thread_time};

use super::marks::Marks;
use super::origin::{Origin, OriginKind};
use crate::database::Database;
use crate::pace::{Pace, Yields, processors};

/// The background pass takes so many neighbouring segments at once, at most.
const STEP_MAX: usize = 32;
/// It steps aside for so long after a page was asked for.
const YIELD: Duration = Duration::from_millis(2);
/// Marks are written when so many segments wait for theirs, and when so much time has passed.
const UNMARKED_MAX: u64 = 256;
const MARK_EVERY: Duration = Duration::from_secs(2);
/// Threads of the background pass, at most.
const RESTORERS_MAX: usize = 4;

/// How a restore is, for operators.
#[derive(Clone, Debug)]
pub struct RestoreStatus {
    /// `data`, `version store`, or both.
    pub device: String,
    /// In a word: `restoring`, `failing` (tried again, see `error`), `on demand` (only what is asked for), `finishing`.
    pub state: &'static str,
    pub kind: OriginKind,
    /// Segments of 128 pages; restored so far, and since the open: asked for, by the background pass.
    pub segments: u64,
    pub restored: u64,
    pub on_demand: u64,
    pub in_background: u64,
    /// Pages that could not be made since the open: who reads one is told why.
    pub damaged_pages: u64,
    /// Bytes written since the open, in a second, and how long the rest takes at that rate.
    pub bytes: u64,
    pub bytes_per_second: f64,
    pub left: Option<Duration>,
    /// How long the background pass has rested since the open, because others wanted the processors.
    pub rested: Duration,
    /// Since when this process restores; microseconds since 2000-01-01 UTC.
    pub since_us: i64,
    /// Pages are made as of this LSN, before what the log has.
    pub as_of: Lsn,
    pub error: Option<String>,
}

/// See the module.
pub(crate) struct Restore {
    dir: PathBuf,
    pub origin: Origin,
    pub restoring: Arc<Restoring>,
    as_of: Lsn,
    /// A checkpoint was taken since the pass over the log.
    carried: AtomicBool,
    /// Marks are written by one at a time, and no more once another restore is to take the place of this one (true): its
    /// marks are of files that are given up.
    writing: Mutex<bool>,
    begun: Instant,
    since_us: i64,
    /// Of the background pass: what it takes next, how much at a time, what was asked for when it looked last.
    step: Mutex<(Option<Segment>, usize, u64)>,
    failing: AtomicU64,
    pace: Pace,
    /// The log from the archive's end on, until a checkpoint has it.
    hold: Mutex<Option<LogHold>>,
}

impl Restore {
    /// Of the files that `origin` names, with the marks that are durable. `carried`: there was no pass over the log.
    ///
    /// # Errors
    /// `Corrupt`, where damaged marks cannot be done without.
    pub fn new(
        vfs: &Arc<dyn Vfs>,
        dir: PathBuf,
        origin: Origin,
        restoring: Restoring,
        as_of: Lsn,
        hold: Option<LogHold>,
        cpu_percent: u32,
    ) -> Result<Arc<Self>> {
        let marks = match Marks::read(vfs, &dir, origin.database_id) {
            // Everything behind the archive's end is applied to what is restored again.
            Err(error) if origin.kind == OriginKind::Media && error.kind() == ErrorKind::Corrupt => {
                tracing::warn!("{error}; all segments are restored again");
                Marks { database_id: origin.database_id, segments: Vec::new() }
            }
            read => read?,
        };
        marks.segments.iter().for_each(|segment| restoring.is_marked(*segment));
        let carried = AtomicBool::new(origin.kind != OriginKind::Media);
        Ok(Arc::new(Self {
            dir,
            origin,
            restoring: Arc::new(restoring),
            as_of,
            carried,
            writing: Mutex::default(),
            begun: Instant::now(),
            since_us: vfs.wall_clock_us(),
            step: Mutex::new((None, 1, 0)),
            failing: AtomicU64::new(0),
            pace: Pace::new(cpu_percent, Yields::LATE, processors()),
            hold: Mutex::new(hold),
        }))
    }

    /// Notes what the pages of unrestored segments lack behind `from`, up to the log's durable end.
    ///
    /// # Errors
    /// Those of reading the log.
    pub fn pass(&self, log: &Log, pool: &BufferPool, from: Lsn) -> Result<u64> {
        let end = log.flushed_lsn();
        let mut pages = 0;
        let mut follower = log.follow(from)?;
        while follower.position() < end {
            let Some(block) = follower.next(Duration::ZERO)? else { break };
            for record in block.records() {
                let record = record?;
                let page = record.header.page;
                if record.header.kind.is_of_page() && !self.restoring.is_there(page) && !Planted::NoTail.is_planted() {
                    pool.pending_redo().note(page, record.lsn, record.lsn);
                    pages += 1;
                }
            }
        }
        Ok(pages)
    }

    /// A checkpoint has read the dirty pages and is durable, and does not count yet.
    ///
    /// # Errors
    /// Those of syncing and writing: then it must not count.
    pub fn before_checkpoint_counts(&self, vfs: &Arc<dyn Vfs>, pool: &BufferPool) -> Result<()> {
        if self.carried.load(Ordering::SeqCst) { self.write_marks(vfs, pool) } else { Ok(()) }
    }

    /// It counts.
    pub fn checkpoint_counts(&self) {
        self.carried.store(true, Ordering::SeqCst);
        *self.hold.lock() = None;
    }

    /// Makes the segments that are in their files durable, and then their marks.
    fn write_marks(&self, vfs: &Arc<dyn Vfs>, pool: &BufferPool) -> Result<()> {
        let superseded = self.writing.lock();
        if *superseded {
            return Err(Error::new(
                ErrorKind::Io,
                "another restore takes the place of this one, whose marks no longer count",
            ));
        }
        let segments = self.restoring.take_unmarked();
        if segments.is_empty() {
            return Ok(());
        }
        if !Planted::EarlyMark.is_planted() {
            pool.sync_restored()?;
        }
        let mut all = self.restoring.marked();
        all.extend(&segments);
        all.sort_unstable();
        Marks { database_id: self.origin.database_id, segments: all }.write(vfs, &self.dir)?;
        self.restoring.set_marked(&segments);
        Ok(())
    }

    /// Another restore is to take the place of this one: waits for marks that are being written, and none is written any
    /// more. A thread of the background pass may still be at work for this one, and would mark segments of a new,
    /// empty file.
    pub fn supersede(&self) {
        *self.writing.lock() = true;
    }

    /// Whether another one has taken its place.
    pub fn is_superseded(&self) -> bool {
        *self.writing.lock()
    }

    /// How it is.
    pub fn status(&self) -> RestoreStatus {
        let progress = self.restoring.progress();
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        let done = progress.on_demand + progress.in_background;
        let left = progress.segments.saturating_sub(progress.restored);
        let error = self.restoring.error();
        RestoreStatus {
            device: match (self.origin.data_pages > 0, self.origin.version_pages.is_some()) {
                (true, false) => "data",
                (false, _) => "version store",
                (true, true) => "data and version store",
            }
            .to_owned(),
            state: match () {
                () if error.is_some() => "failing",
                () if left == 0 => "finishing",
                () if self.origin.background => "restoring",
                () => "on demand",
            },
            kind: self.origin.kind,
            segments: progress.segments,
            restored: progress.restored,
            on_demand: progress.on_demand,
            in_background: progress.in_background,
            damaged_pages: progress.damaged,
            bytes: progress.bytes,
            bytes_per_second: progress.bytes as f64 / seconds,
            left: (done > 0).then(|| Duration::from_secs_f64((left as f64 * seconds / done as f64).min(1e9))),
            rested: self.pace.rested(),
            since_us: self.since_us,
            as_of: self.as_of,
            error: error.map(|error| error.to_string()),
        }
    }
}

/// Files and their pages, as the buffer pool knows them.
pub(crate) fn files_of(origin: &Origin) -> Vec<(u64, u64)> {
    let data = (origin.data_pages > 0).then_some((0, origin.data_pages));
    data.into_iter().chain(origin.version_pages.map(|(number, pages)| (u64::from(number), pages))).collect()
}

impl Database {
    /// How the restore under way is; `None`: all files are whole.
    pub fn restore_status(&self) -> Option<RestoreStatus> {
        self.restore_under_way().map(|restore| restore.status())
    }

    pub(crate) fn restore_under_way(&self) -> Option<Arc<Restore>> {
        self.inner().restore.lock().clone()
    }

    /// Restores everything and brings it to its end: for databases without background threads.
    ///
    /// # Errors
    /// Those of making a segment, of writing, and of a checkpoint.
    pub fn finish_restore(&self) -> Result<()> {
        while self.restore_step()? {}
        Ok(())
    }

    /// The next stretch of the background pass; false: there is nothing to do (or only what is asked for is restored).
    ///
    /// # Errors
    /// As [`Database::finish_restore`]; what was done stays done.
    pub fn restore_step(&self) -> Result<bool> {
        let Some(mut restore) = self.restore_under_way() else { return Ok(false) };
        if restore.is_superseded() {
            // A device has died, and what was to take its place could not be begun, so that nothing goes on until it is: the device,
            // or a place for another one, may be there by now.
            self.replace_dead_devices()?;
            let Some(now) = self.restore_under_way() else { return Ok(false) };
            restore = now;
        }
        let done = self.step_of(&restore);
        // A device has died in the middle of it, and another restore has taken its place: that one goes on. Where there is none
        // yet (it could not be begun), this one cannot go on, and says so.
        let is_current = |now: Arc<Restore>| Arc::ptr_eq(&now, &restore);
        match self.restore_under_way().map(is_current) {
            Some(false) if restore.is_superseded() => Ok(true),
            _ => done,
        }
    }

    fn step_of(&self, restore: &Arc<Restore>) -> Result<bool> {
        let inner = self.inner();
        if !restore.carried.load(Ordering::SeqCst) {
            self.checkpoint()?;
        }
        self.redo_for_space(restore)?;
        let segments = {
            let mut step = restore.step.lock();
            let on_demand = restore.restoring.progress().on_demand;
            if step.2 != on_demand {
                // Somebody waits for pages: they come first.
                (step.1, step.2) = (1, on_demand);
                if inner.options.background {
                    std::thread::sleep(YIELD);
                }
            }
            if !restore.origin.background {
                Vec::new()
            } else {
                let next = restore.restoring.next_unrestored(step.0, step.1);
                step.0 = next.last().map(|last| Segment { number: last.number + 1, ..*last });
                let most = if restore.pace.steps_back() { processors().min(RESTORERS_MAX) } else { STEP_MAX };
                step.1 = (step.1 * 2).min(most);
                next
            }
        };
        if segments.is_empty() {
            return self.end_restore(restore);
        }
        let begun = Instant::now();
        let ran = self.restore_segments(&segments)?;
        // A simulated schedule depends on nothing that is not in its seed.
        if inner.options.background {
            restore.pace.worked(ran, begun.elapsed(), MachineTime::now());
        }
        let waiting = restore.restoring.take_unmarked().len() as u64;
        let since = restore.failing.load(Ordering::Relaxed);
        let now = restore.begun.elapsed().as_millis() as u64;
        if waiting >= UNMARKED_MAX
            || now.saturating_sub(since) >= MARK_EVERY.as_millis() as u64
            || !inner.options.background
        {
            restore.failing.store(now, Ordering::Relaxed);
            restore.write_marks(&inner.data_vfs(), &inner.pool)?;
        }
        Ok(true)
    }

    /// What the log has behind the archive holds it until its pages are up to date: where the log is long, writers wait for that, and the rest of the segments
    /// comes later.
    fn redo_for_space(&self, restore: &Restore) -> Result<()> {
        const MOST: Duration = Duration::from_millis(250);
        let inner = self.inner();
        let begun = Instant::now();
        while inner.log.bytes_in_use() > self.log_wanted() {
            let damaged = |_, error: &Error| tracing::error!("the restore passes over a page: {error}");
            let left = inner.pool.redo_some(32, damaged)?;
            // A simulated schedule depends on nothing that is not in its seed.
            if left == 0 || !inner.options.background || begun.elapsed() >= MOST {
                break;
            }
        }
        // These segments nobody else has asked for.
        restore.step.lock().2 = restore.restoring.progress().on_demand;
        Ok(())
    }

    /// Returns how long its threads have run.
    fn restore_segments(&self, segments: &[Segment]) -> Result<Duration> {
        let inner = self.inner();
        let threads = match inner.options.background {
            true => processors().min(RESTORERS_MAX).min(segments.len()),
            false => 1,
        };
        if threads <= 1 {
            let before = thread_time();
            segments.iter().try_for_each(|segment| inner.pool.restore_segment(*segment))?;
            return Ok(thread_time().saturating_sub(before));
        }
        // Each takes the next one: some have much to replay.
        let next = AtomicUsize::new(0);
        let some = || -> Result<Duration> {
            while let Some(segment) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                inner.pool.restore_segment(*segment)?;
            }
            Ok(thread_time())
        };
        std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
            let failed = |_| Err(Error::internal("a thread that restores segments panicked"));
            let ended: Vec<_> = parts.into_iter().map(|part| part.join().unwrap_or_else(failed)).collect();
            ended.into_iter().sum()
        })
    }

    /// Nothing is left to be restored by the background pass; false also when only what is asked for is restored.
    fn end_restore(&self, restore: &Arc<Restore>) -> Result<bool> {
        let inner = self.inner();
        let progress = restore.restoring.progress();
        if progress.restored < progress.segments {
            if restore.carried.load(Ordering::SeqCst) {
                restore.write_marks(&inner.data_vfs(), &inner.pool)?;
            }
            return Ok(false);
        }
        restore.write_marks(&inner.data_vfs(), &inner.pool)?;
        if !restore.restoring.is_finished() {
            return Ok(true);
        }
        // Pages that were dropped from memory, or not asked for yet: their log need not be kept any longer.
        while inner.pool.redo_some(64, |_, error| tracing::error!("the restore passes over a page: {error}"))? > 0 {}
        self.checkpoint()?;
        // Checkpoints and replacements are under this lock.
        let _no_other = inner.control.lock();
        let mut slot = inner.restore.lock();
        if !slot.as_ref().is_some_and(|now| Arc::ptr_eq(now, restore)) {
            // A device has died, and another restore has taken the place of this one.
            return Ok(true);
        }
        let vfs = inner.data_vfs();
        // A crash from here on finds nothing that is to be restored, and goes on with the rest of this.
        let over = Origin { data_pages: 0, version_pages: None, ..restore.origin.clone() };
        over.write(&vfs, &restore.dir)?;
        inner.pool.set_restoring(None);
        *slot = None;
        drop(slot);
        if inner.lineage.as_ref().is_none_or(|lineage| lineage.source().is_none()) {
            inner.repairs.set_parent(None);
        }
        if let Err(error) = over.end(&vfs, &restore.dir, &inner.boot.database_id) {
            tracing::warn!(
                "what says that the folder was restored could not be removed, which the next start does: {error}"
            );
        }
        if progress.damaged > 0 {
            tracing::error!(
                "{} pages could not be made from archive and backup; whoever reads one is told why",
                progress.damaged
            );
        }
        tracing::warn!(
            "the restore is finished: {} segments ({} MB) in {:.1?}, {} of them on demand; every page is in its file again, \
             the archive and the log",
            progress.segments,
            (progress.segments * SEGMENT_PAGES * resurgam_base::limits::PAGE_SIZE as u64) >> 20,
            restore.begun.elapsed(),
            progress.on_demand
        );
        Ok(false)
    }

    /// How long the background pass is to rest before its next step, because others want the processors.
    pub(crate) fn restore_rest(&self) -> Duration {
        self.restore_under_way().map_or(Duration::ZERO, |restore| restore.pace.take_rest())
    }

    /// Whether a page may be looked at without waiting for a restore: a hint.
    pub fn is_restored(&self, page: PageId) -> bool {
        self.inner().pool.restoring().is_none_or(|restoring| restoring.is_there(page))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_vfs::SimVfs;

    use super::*;
    use crate::{ColumnType, DatumRef, Durability, Isolation, Options, StatementKind, TableSpec};

    /// A thread of the background pass has restored segments for a restore that another one has replaced meanwhile, and
    /// comes to write their marks: they would be of a file that has nothing but its first page.
    #[test]
    fn marks_of_a_superseded_restore_are_not_written() -> Result<()> {
        let (dir, log) = (Path::new("/db/main"), Path::new("/disk2/log"));
        let sim = SimVfs::new(77);
        for folder in ["/db", "/disk2", "/disk3"] {
            sim.make_folder(Path::new(folder))?;
            sim.sync_dir(Path::new("/"))?;
        }
        let options = Options {
            buffer_bytes: 64 * resurgam_base::limits::PAGE_SIZE,
            log_dir: Some(log.into()),
            archive: Some("/disk3/archive".into()),
            background: false,
            ..Options::default()
        };
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let db = Database::open_with(Arc::clone(&vfs), dir, options.clone(), |_| {})?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Text);
        let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
        tx.statement(StatementKind::BulkWrite)?;
        let text = "v".repeat(900);
        for id in 0..1500 {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&text)])?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        db.archive_now()?;
        db.checkpoint()?;
        db.fail_device("data")?;
        let old = db.restore_under_way().expect("a restore");
        db.checkpoint()?;
        let first = old.restoring.next_unrestored(None, 1);
        db.restore_segments(&first)?;
        assert_eq!(old.restoring.take_unmarked(), first, "it waits for its mark");
        // The replacement dies as well.
        db.fail_device("data")?;
        let late = old.write_marks(&vfs, &db.inner().pool);
        let marks = Marks::read(&vfs, dir, old.origin.database_id)?;
        assert_eq!(marks.segments, Vec::new(), "the file is a new one: {late:?}");
        assert!(late.is_err_and(|error| error.kind() == ErrorKind::Io));
        Ok(())
    }
}
