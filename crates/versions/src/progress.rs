//! What operators see of the cleaner: the sweep that runs, the last one, totals.
//!
//! Sweeps count into a [`SweepReport`] of each thread; [`Progress`] holds what is shared
//! while a sweep runs. Nothing here decides anything.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{PageId, TxId};

/// Pages that were passed over for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedPages {
    pub count: u64,
    /// One of them: the first that was met.
    pub example: Option<PageId>,
}

impl SkippedPages {
    pub(crate) fn note(&mut self, page: PageId) {
        self.count += 1;
        self.example.get_or_insert(page);
    }
    /// `pages` of them are to be tried again.
    pub(crate) fn take_back(&mut self, pages: u64) {
        self.count = self.count.saturating_sub(pages);
        self.example = self.example.filter(|_| self.count > 0);
    }
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.example = self.example.or(other.example);
    }
}

/// Pages that a sweep could not clean, by cause. While there are any, aborted transactions that may
/// have versions on them are not forgotten: of a page that cannot be loaded, those that began before
/// that was found; of a space map, those with large values in its interval; else all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The page's content contradicts itself.
    pub damaged: SkippedPages,
    /// The page (or a space map, or something that a pending free is of) cannot be read now: the
    /// device says so.
    pub unreadable: SkippedPages,
    /// The page must be split for what it gets back, and no file has room for another one. It was tried
    /// again after what could be freed was freed.
    pub no_room: SkippedPages,
    /// The page must be split, and the definition that owns it is not known (yet).
    pub object_unknown: SkippedPages,
    /// A space map is damaged: the pages of its interval are looked at one by one, and nothing of them is freed.
    pub damaged_maps: SkippedPages,
    /// Pending frees that could not be carried out for damaged pages (no page is named).
    pub pending_frees: SkippedPages,
    /// Ids below this one are not forgotten, for damaged and unreadable pages.
    pub(crate) kept_below: TxId,
}

impl Skipped {
    /// All causes together.
    pub fn total(&self) -> u64 {
        self.damaged.count
            + self.unreadable.count
            + self.no_room.count
            + self.object_unknown.count
            + self.damaged_maps.count
            + self.pending_frees.count
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Pages with versions that were visited.
    pub pages: u64,
    /// Rows whose aborted version gave way to the committed one, or to nothing.
    pub reverted: u64,
    /// Rows that lost tag and earlier version.
    pub stripped: u64,
    /// Deleted rows removed for good.
    pub removed: u64,
    /// Pages joined with a neighbour, or taken out of their tree because nothing was left.
    pub merged: u64,
    /// Of these, leaves whose rows were put on partly free neighbours, where the sweep was followed by that (VACUUM).
    pub packed: u64,
    /// Pages that were looked at because their space map cannot be read.
    pub unmapped: u64,
    /// Of these, pages that may be lost and were not tried again, since that was in vain some minutes ago at most. They are in `skipped` all the same.
    pub not_tried: u64,
    /// Ids of aborted transactions forgotten.
    pub forgotten: u64,
    /// Ids of aborted transactions that the sweep began with and did not forget: for the pages in `skipped`, or since what
    /// they have pending is not freed.
    pub kept: u64,
    pub version_pages_freed: u64,
    pub value_pages_freed: u64,
    /// Pages that could not be cleaned: damaged or not to be read, without room for what they get
    /// back, or of an object that is not known (yet); a damaged space map counts as one. The sum of
    /// `skipped`.
    /// While there are any, some aborted transactions are not forgotten.
    pub pages_skipped: u64,
    /// The same by cause.
    pub skipped: Skipped,
    pub pending_frees_done: u64,
    /// Where it was followed by giving back what is free: pages that moved from the end of a file to free places below, bytes by which
    /// files are shorter, and bytes of holes that were made in them.
    pub pages_moved: u64,
    pub bytes_cut: u64,
    pub bytes_punched: u64,
}

impl SweepReport {
    /// Bytes that the file system has back.
    pub fn bytes_given_back(&self) -> u64 {
        self.bytes_cut + self.bytes_punched
    }

    /// Adds what another thread, or another sweep, did.
    pub fn add(&mut self, o: &Self) {
        self.pages += o.pages;
        self.reverted += o.reverted;
        self.stripped += o.stripped;
        self.removed += o.removed;
        self.merged += o.merged;
        self.packed += o.packed;
        self.unmapped += o.unmapped;
        self.not_tried += o.not_tried;
        self.forgotten += o.forgotten;
        self.kept += o.kept;
        self.version_pages_freed += o.version_pages_freed;
        self.value_pages_freed += o.value_pages_freed;
        self.pending_frees_done += o.pending_frees_done;
        self.pages_moved += o.pages_moved;
        self.bytes_cut += o.bytes_cut;
        self.bytes_punched += o.bytes_punched;
        self.skipped.damaged.add(o.skipped.damaged);
        self.skipped.unreadable.add(o.skipped.unreadable);
        self.skipped.no_room.add(o.skipped.no_room);
        self.skipped.object_unknown.add(o.skipped.object_unknown);
        self.skipped.damaged_maps.add(o.skipped.damaged_maps);
        self.skipped.pending_frees.add(o.skipped.pending_frees);
        self.skipped.kept_below = self.skipped.kept_below.max(o.skipped.kept_below);
        self.pages_skipped = self.skipped.total();
    }
}

/// What the cleaner is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SweepPhase {
    /// No sweep runs.
    #[default]
    Idle,
    /// Reading the space maps, to know which pages have versions.
    Listing,
    /// Visiting the pages that are marked as having versions.
    Visiting,
    /// Visiting pages that received rows of others meanwhile.
    VisitingMoved,
    /// Freeing dropped tables, trees of aborted transactions, large values.
    Freeing,
    /// Forgetting the aborted transactions that it began with.
    Forgetting,
    /// Freeing version pages.
    FreeingVersions,
}

impl SweepPhase {
    const ALL: [Self; 7] = [
        Self::Idle,
        Self::Listing,
        Self::Visiting,
        Self::VisitingMoved,
        Self::Freeing,
        Self::Forgetting,
        Self::FreeingVersions,
    ];
    /// A short name for views.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Listing => "listing",
            Self::Visiting => "visiting",
            Self::VisitingMoved => "visiting moved rows",
            Self::Freeing => "freeing storage",
            Self::Forgetting => "forgetting",
            Self::FreeingVersions => "freeing versions",
        }
    }
}

impl fmt::Display for SweepPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why the cleaner goes as fast as it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaceReason {
    /// As the settings say.
    #[default]
    Settings,
    /// Somebody asked for a complete sweep now and waits for it, or the mode is being changed.
    Asked,
    /// Off-row versions take much space.
    VersionStore,
    /// The aborted-transaction map holds many ids.
    AbortedMap,
    /// The oldest aborted transaction has been waiting for long.
    AbortedAge,
}

impl PaceReason {
    /// In words, for views and the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Asked => "asked for now",
            Self::VersionStore => "the version store is large",
            Self::AbortedMap => "the aborted-transaction map is large",
            Self::AbortedAge => "the oldest aborted transaction waits for long",
        }
    }
}

impl fmt::Display for PaceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How fast the cleaner goes, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Most pages a second, of all threads together; 0 = unlimited.
    pub pages_per_second: u64,
    /// Most of its time that each thread works, in percent; 100 = without a pause.
    pub cpu_percent: u32,
    pub reason: PaceReason,
}

/// A sweep that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepProgress {
    pub phase: SweepPhase,
    /// When it began, in microseconds since 2000-01-01 UTC.
    pub began_us: i64,
    pub running: Duration,
    /// Pages that were marked when it began, those of them that were visited, and those freed of
    /// dropped tables and large values, which nobody has counted before; 0 until they are known.
    pub pages_total: u64,
    /// Visited, or freed.
    pub pages_visited: u64,
    /// 0 to 100.
    pub percent: f64,
    /// Estimated, from the pages so far; none while there is nothing to estimate from, as when
    /// dropped tables are freed.
    pub left: Option<Duration>,
    pub threads: u32,
    pub pace: Pace,
}

/// A sweep that came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinishedSweep {
    pub report: SweepReport,
    /// It visited everything; false when it was stopped or had to pass over pages.
    pub complete: bool,
    /// When it began, in microseconds since 2000-01-01 UTC.
    pub began_us: i64,
    pub took: Duration,
    pub ended: Instant,
    pub threads: u32,
}

/// Sums over all sweeps since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerTotals {
    pub sweeps: u64,
    /// What they did together. Pages skipped by every one of them count every time.
    pub report: SweepReport,
    /// Version pages freed by sweeps and between them.
    pub version_pages_freed: u64,
    /// Time in which a sweep ran.
    pub sweeping: Duration,
    /// Deleted rows that were in the way of readers, who had them removed.
    pub removed_by_readers: u64,
}

/// The sweep that runs, as shared by its threads.
#[derive(Default)]
pub(crate) struct Progress {
    phase: AtomicU64,
    pub pages_total: AtomicU64,
    pub pages_visited: AtomicU64,
    /// Of dropped tables and large values.
    pub pages_freed: AtomicU64,
    /// 0 until visits begin.
    pub threads: AtomicU64,
    began: Mutex<Option<(i64, Instant)>>,
}

impl Progress {
    pub fn begin(&self, began_us: i64) {
        for counter in [&self.pages_total, &self.pages_visited, &self.pages_freed, &self.threads] {
            counter.store(0, Ordering::Relaxed);
        }
        *self.began.lock() = Some((began_us, Instant::now()));
    }
    pub fn end(&self) {
        self.enter(SweepPhase::Idle);
        *self.began.lock() = None;
    }
    pub fn enter(&self, phase: SweepPhase) {
        self.phase.store(phase as u64, Ordering::Relaxed);
    }
    /// The sweep that runs, if one does.
    pub fn read(&self, pace: Pace) -> Option<SweepProgress> {
        let (began_us, began) = (*self.began.lock())?;
        let phase = SweepPhase::ALL.get(self.phase.load(Ordering::Relaxed) as usize).copied().unwrap_or_default();
        let visited = self.pages_visited.load(Ordering::Relaxed);
        // Pages can be marked while it runs.
        let total = self.pages_total.load(Ordering::Relaxed).max(visited);
        let running = began.elapsed();
        let freed = self.pages_freed.load(Ordering::Relaxed);
        let threads = self.threads.load(Ordering::Relaxed);
        let share = match phase {
            SweepPhase::Idle | SweepPhase::Listing => 0.0,
            SweepPhase::Visiting => visited as f64 / total.max(1) as f64,
            // Also before the visits.
            SweepPhase::Freeing if threads == 0 => 0.0,
            _ => 1.0,
        };
        // How many pages are still to be freed is not known.
        let left = (share > 0.0 && phase != SweepPhase::Freeing).then(|| running.mul_f64((1.0 - share) / share));
        Some(SweepProgress {
            phase,
            began_us,
            running,
            pages_total: total + freed,
            pages_visited: visited + freed,
            percent: share * 100.0,
            left,
            threads: threads as u32,
            pace,
        })
    }
}
