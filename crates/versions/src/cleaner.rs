//! The sweep (Constant Time Recovery, section 3.7): visits every page that is marked as
//! having versions, reverts aborted rows, strips what nobody needs, then forgets the
//! aborted transactions that it started with.
//!
//! It takes page latches only, one page at a time (a merge: parent and two children), so
//! nothing it does can be starved by a lock and a sweep always completes. It works with
//! several threads, which share the marked pages (`sweep.rs`), at a pace (`pace.rs`).
//!
//! # Invariants
//! 1. *The ids that are forgotten were aborted before the first map is read.* The set is copied
//!    first; a version of one of these ids was written, and its page marked in the same log
//!    group, before its transaction aborted. So whatever thread reads a map, and however late:
//!    a page that has such a version is marked there, or the rows were moved since.
//! 2. *Rows that move are watched before anybody can visit the page that they leave.* A split
//!    takes rows to a page that the sweep may have passed, a merge to a neighbour that it may
//!    have passed. Both note the receiving page while both pages are latched exclusively
//!    ([`resurgam_buffer::Space::watch`]; a root that takes over its only child is such a
//!    receiver as well). With several threads this is what counts: whoever visits the page
//!    that was left does so after the note was made, and notes are looked at after all threads
//!    have come to their end, again and again until there are none. From then on, every page
//!    that has (or had) rows of these ids has been visited since they aborted, and what is
//!    moved afterwards carries none of them. A thread that waits for the latch of a receiving
//!    page gets it when the move is done.
//! 3. *Nobody is forgotten unless every page was visited that can have versions of his*: threads that meet
//!    an error or are told to stop leave the sweep incomplete. What concerns one page (it is
//!    damaged, cannot be read, or finds no room to be split) does not keep the sweep from the others, nor
//!    from freeing what is to be freed; pages without room are tried once more after that, and rows are
//!    watched until then. A page that cannot be loaded has got nothing since that was found, so it keeps
//!    those with lower ids than the next one of that moment. A part of the pending frees that
//!    cannot be read keeps those whose entries would be there. Where a space map cannot be read the pages of its
//!    interval are all looked at (`unmapped.rs`): large values that cannot be freed keep their writers. Any other page
//!    that was passed over keeps all.
//! 4. One sweep at a time (`turns.rs`). Who wants one while one runs waits for the next.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_btree::{MergeOutcome, Tree};
use resurgam_buffer::{Access, BufferPool, Mtr, Planted};
use resurgam_log::{RecordKind, is_log_full};
use resurgam_page::{PageType, overflow, space};
use resurgam_txn::{EndedIds, Status, TxIdSet, TxManager};

use crate::overflow::OVERFLOW_OBJECT;
use crate::pace::{PaceSettings, Pacer, Pressure, Stride};
use crate::pending_frees::{FreeWork, Freed, PendingFrees};
use crate::progress::{
    CleanerTotals, FinishedSweep, Pace, Progress, Skipped, SkippedPages, SweepPhase, SweepProgress, SweepReport,
};
use crate::prune::{MERGE_BELOW_BYTES, Marks, Planned, unlink_emptied, unmark};
use crate::reclaim::Past;
use crate::store::VersionStore;
use crate::sweep::{Marked, Work};
use crate::turns::{Asked, Held, Turns};
use crate::unmapped::{Found, Unmapped};

/// Pages between two looks at the pace.
const STRIDE_PAGES: u64 = 16;
/// Threads for a unit of pages, at most: for fewer pages starting another one costs more.
const THREADS_PER_UNIT: u64 = 4;
/// Pages without room that a thread remembers, to try them again.
const NO_ROOM_KEPT: usize = 1024;
/// Moments that are remembered: with a thousand ranges of ids each, which is rare, they take 2 MB.
const SAMPLES_MAX: usize = 128;
/// How long what was dropped is freed before the visits of a sweep; the rest is freed after them.
const FREEING_FIRST: Duration = Duration::from_secs(5);

/// What a sweep works on, and how.
pub struct Sweeping<'a> {
    pub pool: &'a BufferPool,
    pub txs: &'a TxManager,
    pub store: &'a VersionStore,
    pub pending_frees: &'a PendingFrees,
    /// The tree of an object; `None`: not known. Those of pending frees are looked up besides.
    pub tree_of: &'a (dyn Fn(ObjectId) -> Option<Tree> + Sync),
    /// The trees of all committed definitions as they are now; an error: they cannot be read.
    pub trees: &'a (dyn Fn() -> Result<Vec<Tree>> + Sync),
    /// Called for each tree that was freed: nothing leads to it any more.
    pub tree_freed: &'a (dyn Fn(ObjectId) + Sync),
    /// Asked again and again; true ends the sweep, which is then not complete.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Most threads, the caller's included.
    pub threads: usize,
    /// Pages of a unit of work ([`crate::UNIT_PAGES`]; fewer in tests). A thread is used for each
    /// quarter of a unit.
    pub unit_pages: u64,
    pub pace: PaceSettings,
    pub pressure: &'a (dyn Fn() -> Pressure + Sync),
    /// The time now, in microseconds since 2000-01-01 UTC.
    pub now_us: i64,
}

/// The cleaner's memory between sweeps.
#[derive(Default)]
pub struct Cleaner {
    turns: Turns,
    pacer: Pacer,
    progress: Progress,
    /// Pages that could not be loaded: since which failure ([`BufferPool::failing_since`]), and the next
    /// id when a sweep found it.
    failing: Mutex<HashMap<PageId, (u64, TxId)>>,
    unmapped: Unmapped,
    /// Who had ended, at moments one after the other; see [`Cleaner::past`].
    samples: Mutex<Vec<EndedIds>>,
    /// The last sweep that came to its end.
    last: Mutex<Option<FinishedSweep>>,
    totals: Mutex<CleanerTotals>,
    removed_by_readers: AtomicU64,
}

/// Shows a sweep while it runs; not any more when it is dropped, also by a panic.
struct Shown<'p>(&'p Progress);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Cleaner {
    /// Waits for the sweep that runs, and keeps others from beginning until the guard is dropped: for who
    /// looks at all pages at once. None once `stop` says so. Not to be asked for by who holds it.
    pub fn hold(&self, stop: &dyn Fn() -> bool) -> Option<Held<'_>> {
        let _asking = self.pacer.ask();
        self.turns.hold(stop)
    }

    /// A moment that all snapshots have passed: they see every commit that was decided by then.
    /// Who had ended at that moment matters to nobody any more, but for what is aborted with
    /// versions in rows (`reclaim.rs` has the proof). The moment of a call is noted for later
    /// ones, and the newest that the horizon has reached is returned.
    fn past(&self, txs: &TxManager) -> Option<EndedIds> {
        let now = txs.ended_by_now();
        // The horizon only goes forward, so the sample of now may have been reached by now.
        let horizon = txs.horizon();
        let mut samples = self.samples.lock();
        if samples.last() != Some(&now) {
            samples.push(now);
        }
        if samples.len() > SAMPLES_MAX {
            // The one whose neighbours are nearest to each other: while a snapshot is old they come
            // to lie ever farther apart, and however far the horizon goes then, one is not far behind.
            let gap = |at: &usize| {
                let (before, after) = (&samples[at - 1], &samples[at + 1]);
                after.decided().0.saturating_sub(before.decided().0)
            };
            if let Some(at) = (1..samples.len() - 1).min_by_key(gap) {
                samples.remove(at);
            }
        }
        let at = samples.iter().rposition(|sample| sample.decided() <= horizon)?;
        samples.drain(..at);
        samples.first().cloned()
    }

    /// What the last finished sweep did.
    pub fn last(&self) -> Option<FinishedSweep> {
        *self.last.lock()
    }
    /// Sums since the database was opened.
    pub fn totals(&self) -> CleanerTotals {
        let removed_by_readers = self.removed_by_readers.load(Ordering::Relaxed);
        CleanerTotals { removed_by_readers, ..*self.totals.lock() }
    }
    /// Counts rows that readers had removed ([`crate::remove_ghosts`]).
    pub fn add_removed_by_readers(&self, rows: u32) {
        self.removed_by_readers.fetch_add(rows.into(), Ordering::Relaxed);
    }
    /// The sweep that runs, if one does.
    pub fn current(&self, pace: Pace) -> Option<SweepProgress> {
        self.progress.read(pace)
    }
    /// How fast it goes now, or would go.
    pub fn pace(&self, settings: &PaceSettings, pressure: &dyn Fn() -> Pressure) -> Pace {
        self.pacer.pace(settings, pressure)
    }

    /// A complete sweep that begins after this call; `asked` = somebody waits for it, so that it
    /// is not paced, nor the one that it must wait for. Callers that come together share one. When
    /// `on.stop` ends it, also while it waits for its turn, the report says what was done until then.
    ///
    /// # Errors
    /// Those of the log, and of version pages that cannot be read when all else is done. Pages that
    /// cannot be cleaned are passed over.
    pub fn sweep(&self, on: &Sweeping<'_>, asked: bool) -> Result<SweepReport> {
        let _asking = asked.then(|| self.pacer.ask());
        let mut turn = match self.turns.sweep(&on.stop) {
            Asked::Turn(turn) => turn,
            Asked::Shared(outcome) => return outcome,
            Asked::Stopped => return Ok(SweepReport::default()),
        };
        let _shown = Shown(&self.progress);
        let outcome = self.run(on);
        // What one caller broke off is not what the others asked for.
        turn.outcome = (!(on.stop)()).then(|| outcome.clone());
        outcome
    }

    fn run(&self, on: &Sweeping<'_>) -> Result<SweepReport> {
        let Sweeping { pool, txs, store, .. } = *on;
        let begun = Instant::now();
        self.progress.begin(on.now_us);
        self.progress.enter(SweepPhase::Listing);
        let mut report = SweepReport::default();
        // Before any map is read: invariant 1.
        let aborted = txs.consistent_aborted();
        // What is due already does not wait for all the visits, nor need its pages be visited.
        // It is bounded, since rows and versions wait for the visits.
        let bounded = || (on.stop)() || begun.elapsed() >= FREEING_FIRST;
        // What it cannot do is told of by the one after the visits.
        if let Ok(before) = self.free_pending(&Sweeping { stop: &bounded, ..*on }, &mut SweepReport::default()) {
            report.pending_frees_done = before.entries;
        }
        if (on.stop)() {
            return Ok(report);
        }
        self.progress.enter(SweepPhase::Listing);
        // It takes a tree to make room for what a revert brings back, or to merge. Those that no
        // definition names any more, or yet, the pending frees may know; and which of them may be half
        // freed. Looked up in the sweep's own turn: nobody frees trees beside it, and until its end
        // the first freeing was the last.
        // Pending frees that cannot be read are told of when they are carried out.
        let (whole, due, all) = on.pending_frees.trees(pool, txs).unwrap_or_default();
        let pending = all.then(|| whole.clone());
        let whole: HashMap<ObjectId, Tree> = whole.into_iter().map(|tree| (tree.object, tree)).collect();
        let tree_of = |object| {
            if due.contains(&object) {
                return None;
            }
            (on.tree_of)(object).or_else(|| whole.get(&object).copied())
        };
        let on = &Sweeping { tree_of: &tree_of, ..*on };
        // Where nobody is to be forgotten, it does not matter what moves.
        let watching = (!aborted.is_empty()).then(|| Watching::begin(pool));
        let Visits { everything: mut visited, no_room, kept } = self.visit_all(on, &aborted, pending, &mut report)?;
        if !visited && (on.stop)() {
            return Ok(report);
        }
        let freed = self.free_pending(on, &mut report)?;
        if freed.stopped {
            return Ok(report);
        }
        if visited && !no_room.is_empty() {
            // What was freed may have left pages.
            report.skipped.no_room.take_back(no_room.len() as u64);
            visited = self.visit_moved(on, no_room, &mut report)?.everything;
            if !visited && (on.stop)() {
                return Ok(report);
            }
        }
        drop(watching);
        // Also an entry that waits for an aborted transaction to be acted on is something left.
        let complete = visited && !freed.stopped && freed.skipped == 0 && report.skipped.total() == 0;
        let began_with = aborted.len();
        let mut forgotten = aborted;
        forgotten.remove_all(&freed.kept);
        forgotten.remove_all(&kept);
        let skipped = &report.skipped;
        let keeps_all = skipped.no_room.count + skipped.object_unknown.count > 0;
        if keeps_all || !visited {
            forgotten = TxIdSet::default();
        } else if skipped.kept_below.is_some() {
            forgotten.remove_range(TxId(1), TxId(skipped.kept_below.0 - 1));
        }
        report.pending_frees_done += freed.entries;
        report.skipped.pending_frees = SkippedPages { count: freed.skipped - freed.unreadable, example: None };
        report.skipped.unreadable.count += freed.unreadable;
        report.pages_skipped = report.skipped.total();
        report.kept = began_with - forgotten.len();
        if !forgotten.is_empty() {
            self.progress.enter(SweepPhase::Forgetting);
            self.forget(pool, txs, &forgotten)?;
            report.forgotten = forgotten.len();
        }
        self.progress.enter(SweepPhase::FreeingVersions);
        let freed = self.free_versions(pool, txs, store, on.stop);
        report.version_pages_freed = *freed.as_ref().unwrap_or(&0);
        let finished = FinishedSweep {
            report,
            complete,
            began_us: on.now_us,
            took: begun.elapsed(),
            ended: Instant::now(),
            threads: self.progress.threads.load(Ordering::Relaxed) as u32,
        };
        *self.last.lock() = Some(finished);
        let mut totals = self.totals.lock();
        totals.sweeps += 1;
        totals.report.add(&report);
        totals.sweeping += finished.took;
        // A version page that cannot be read takes nothing from what was done.
        freed.map(|_| report)
    }

    /// Carries out the pending frees that are due, at the pace of the sweep. If a page of their tree or of a
    /// tree cannot be read, or there is no room, the rest waits for the next sweep and `report` says so.
    fn free_pending(&self, on: &Sweeping<'_>, report: &mut SweepReport) -> Result<Freed> {
        self.progress.enter(SweepPhase::Freeing);
        let (stride, since_look) = (RefCell::new(Stride::new(&self.pacer)), Cell::new(0));
        let page_freed = || {
            self.progress.pages_freed.fetch_add(1, Ordering::Relaxed);
            since_look.set(since_look.get() + 1);
            if since_look.get() >= STRIDE_PAGES {
                let pages = since_look.take();
                stride.borrow_mut().keep(pages, || self.pacer.pace(&on.pace, on.pressure), on.stop);
            }
        };
        let Sweeping { pool, txs, store, stop, tree_freed, .. } = *on;
        let work = FreeWork { pool, txs, store, stop, page_freed: &page_freed, tree_freed };
        on.pending_frees.free_due(&work).or_else(|error| match Passed::why(&error) {
            // Their own tree is damaged or cannot be read at all, or there is no room to go on.
            Some(why) => {
                why.of(&mut report.skipped).count += 1;
                report.skipped.kept_below = TxId(u64::MAX);
                Ok(Freed::default())
            }
            None => Err(error),
        })
    }

    /// Frees version pages that nobody needs any more; sweeps do so at their end, and it may be
    /// done at any time beside them. Returns how many.
    pub fn free_versions(
        &self,
        pool: &BufferPool,
        txs: &TxManager,
        store: &VersionStore,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64> {
        // Not only at the end of a sweep, which may be far.
        txs.status_table().retire(txs.consistent_next_id(), txs.horizon());
        let Some(ended) = self.past(txs) else { return Ok(0) };
        // After that: whoever is among them and aborted came into the map before he had ended.
        let aborted = txs.status_table().aborted().ids();
        let freed = store.free_unneeded(pool, &ended, &aborted, stop)?;
        let past = Past { ended: &ended, aborted: &aborted };
        txs.temporary().free_past(&|first, last| past.holds_all(first, last));
        self.totals.lock().version_pages_freed += freed;
        Ok(freed)
    }

    /// Visits all pages. `pending`: trees that pending frees named when the sweep began, if all could be read.
    fn visit_all(
        &self,
        on: &Sweeping<'_>,
        aborted: &TxIdSet,
        pending: Option<Vec<Tree>>,
        report: &mut SweepReport,
    ) -> Result<Visits> {
        let mut unmapped = Vec::new();
        let work = Work::lay_out(on.pool, aborted, on.unit_pages, on.stop, |map, error| {
            unmapped.push(map);
            pass_over_map(error, map, &mut report.skipped)
        })?;
        self.unmapped.begin(on.pool, &unmapped);
        self.progress.pages_total.store(work.pages(), Ordering::Relaxed);
        self.progress.enter(SweepPhase::Visiting);
        let threads = (work.pages() / (on.unit_pages / THREADS_PER_UNIT).max(1))
            .clamp(1, on.threads.clamp(1, work.len().max(1)) as u64);
        self.progress.threads.store(threads, Ordering::Relaxed);
        // One that fails ends the others.
        let failed = AtomicBool::new(false);
        let mut outcomes = Vec::new();
        std::thread::scope(|scope| {
            let part = || {
                let done = self.visit_units(on, &work, &failed);
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                done
            };
            let others: Vec<_> = (1..threads)
                .filter_map(|i| {
                    // Without it the others have more to do.
                    std::thread::Builder::new().name(format!("resurgam-clean-{i}")).spawn_scoped(scope, part).ok()
                })
                .collect();
            outcomes.push(part());
            for other in others {
                outcomes.push(other.join().unwrap_or_else(|_| Err(Error::internal("a cleaner thread panicked"))));
            }
        });
        let mut all = Visits { everything: true, ..Visits::default() };
        for outcome in outcomes {
            let (part, counts) = outcome?;
            report.add(&counts);
            all.add(part);
        }
        if all.everything {
            all.add(self.settle_unwritten(on, pending, report)?);
        }
        if all.everything {
            all.add(self.visit_moved(on, Vec::new(), report)?);
        }
        Ok(all)
    }

    /// Of the pages that read as never written those that may be leaves are passed over as lost.
    fn settle_unwritten(
        &self,
        on: &Sweeping<'_>,
        pending: Option<Vec<Tree>>,
        report: &mut SweepReport,
    ) -> Result<Visits> {
        if !self.unmapped.has_open() || Planted::LostTakenForUnused.is_planted() {
            return Ok(Visits { everything: true, ..Visits::default() });
        }
        // Those made since the sweep began have no versions of whom it may forget. One that is dropped meanwhile is a
        // pending free by then; one that was not committed when it began was one.
        let defined = (on.trees)().ok();
        // Of one that is being freed nobody says which leaves it has; its rows may have large values of whoever is forgotten.
        let known = |(_, due, all): &(Vec<Tree>, HashSet<ObjectId>, bool)| *all && due.is_empty();
        let dropped = on.pending_frees.trees(on.pool, on.txs).ok().filter(known).map(|(whole, ..)| whole);
        let trees = pending.zip(defined).zip(dropped).map(|((pending, defined), dropped)| {
            let mut trees = [pending, defined, dropped].concat();
            trees.sort_unstable_by_key(|tree| tree.root);
            trees.dedup();
            trees
        });
        let failed = AtomicBool::new(false);
        let mut walk = Walk::new(on, self, false, &failed);
        let (lost, asked) = self.unmapped.resolve(on.pool, trees.as_deref(), on.stop);
        for page in lost {
            // A page that a tree names is worth a look each time.
            let found = if asked { None } else { self.unmapped.found(page, on.now_us) };
            let passed = match found {
                Some(found) => {
                    let passed = Passed::from(found);
                    passed.of(&mut report.skipped).note(page);
                    report.not_tried += 1;
                    Some(passed)
                }
                None if (on.stop)() => break,
                None => pass_over(on.pool.read(page, Access::Scan).map(drop), page, &mut report.skipped)?,
            };
            match passed {
                Some(passed) => {
                    if let Some(tried) = passed.found().filter(|_| !asked && found.is_none()) {
                        self.unmapped.note_found(page, tried, on.now_us);
                    }
                    let kept = self.kept_below(on, page);
                    report.skipped.kept_below = report.skipped.kept_below.max(kept);
                }
                // It came back.
                None => drop(walk.visit_pages(vec![(page, ObjectId::NONE)], report)?),
            }
        }
        Ok(walk.end(!(on.stop)()))
    }

    /// Visits `pages`, and those that have received rows of others since they are watched, until there
    /// are none left.
    fn visit_moved(&self, on: &Sweeping<'_>, pages: Vec<Marked>, report: &mut SweepReport) -> Result<Visits> {
        self.progress.enter(SweepPhase::VisitingMoved);
        let failed = AtomicBool::new(false);
        let mut walk = Walk::new(on, self, true, &failed);
        let mut everything = walk.visit_pages(pages, report)?;
        while everything {
            let mut moved = on.pool.space().take_watched();
            if moved.is_empty() {
                break;
            }
            // A page is noted each time it receives any.
            moved.sort_unstable();
            moved.dedup();
            everything = walk.visit_pages(moved, report)?;
        }
        Ok(walk.end(everything))
    }

    fn visit_units(&self, on: &Sweeping<'_>, work: &Work, failed: &AtomicBool) -> Result<(Visits, SweepReport)> {
        let mut report = SweepReport::default();
        let mut walk = Walk::new(on, self, false, failed);
        while let Some(unit) = work.next() {
            let pages = match unit.pages(on.pool) {
                Ok(pages) => pages,
                Err(error) => {
                    pass_over_map(error, unit.map, &mut report.skipped)?;
                    self.unmapped.add(on.pool, unit.map);
                    unit.all_pages(on.pool)
                }
            };
            if !walk.visit_pages(pages, &mut report)? {
                return Ok((walk.end(false), report));
            }
        }
        Ok((walk.end(true), report))
    }

    /// Ids from this one on have no versions on `page`, which could not be visited.
    fn kept_below(&self, on: &Sweeping<'_>, page: PageId) -> TxId {
        // Before that is looked at: whoever begins from here on writes later.
        let next = on.txs.next_id();
        let mut failing = self.failing.lock();
        // It is readable, and something else was not that its rows need.
        let Some(since) = on.pool.failing_since(page) else {
            failing.remove(&page);
            return TxId(u64::MAX);
        };
        match failing.get(&page) {
            Some((same, bound)) if *same == since => *bound,
            _ => {
                failing.insert(page, (since, next));
                next
            }
        }
    }

    /// Logs and applies FORGET for transactions of which no version is left.
    fn forget(&self, pool: &BufferPool, txs: &TxManager, ids: &TxIdSet) -> Result<()> {
        for body in ids.encode() {
            let part = decode_forget(&body)?;
            let mut mtr = Mtr::new(pool);
            mtr.record(RecordKind::Forget, TxId::NONE, Lsn::NONE, body);
            mtr.commit()?;
            txs.status_table().aborted().forget(&part);
        }
        Ok(())
    }
}

/// Rows that move are watched while it lives.
struct Watching<'a>(&'a BufferPool);

impl<'a> Watching<'a> {
    fn begin(pool: &'a BufferPool) -> Self {
        pool.space().watch(true);
        Self(pool)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.space().watch(false);
    }
}

/// What visits came to.
#[derive(Default)]
struct Visits {
    /// Every page was visited, but for those that were passed over.
    everything: bool,
    /// Some of those that found no room.
    no_room: Vec<Marked>,
    /// These must not be forgotten.
    kept: TxIdSet,
}

impl Visits {
    fn add(&mut self, other: Self) {
        self.everything &= other.everything;
        self.no_room.extend(other.no_room);
        self.kept.insert_all(&other.kept);
    }
}

/// One thread's way through its pages.
struct Walk<'a> {
    on: &'a Sweeping<'a>,
    cleaner: &'a Cleaner,
    stride: Stride<'a>,
    /// Since the last look at the pace.
    visited: u64,
    /// Goes as fast as it can: writers that split pages must not outrun it.
    unpaced: bool,
    failed: &'a AtomicBool,
    /// Pages to be tried again.
    no_room: Vec<Marked>,
    /// Writers of large values that cannot be freed.
    kept: TxIdSet,
}

impl<'a> Walk<'a> {
    fn new(on: &'a Sweeping<'a>, cleaner: &'a Cleaner, unpaced: bool, failed: &'a AtomicBool) -> Self {
        let stride = Stride::new(&cleaner.pacer);
        Self { on, cleaner, stride, visited: 0, unpaced, failed, no_room: Vec::new(), kept: TxIdSet::default() }
    }

    fn end(self, everything: bool) -> Visits {
        Visits { everything, no_room: self.no_room, kept: self.kept }
    }

    /// False when it was told to stop.
    fn visit_pages(&mut self, pages: Vec<Marked>, report: &mut SweepReport) -> Result<bool> {
        let on = self.on;
        let stop = || (on.stop)() || self.failed.load(Ordering::Relaxed);
        for (page, owner) in pages {
            if stop() {
                return Ok(false);
            }
            let visited = match owner {
                ObjectId::NONE => self.visit_unmapped(page, report),
                OVERFLOW_OBJECT => self.visit_overflow(page, report),
                _ => self.visit(page, owner, report),
            };
            match pass_over(visited, page, &mut report.skipped)? {
                Some(Passed::NoRoom) if self.no_room.len() < NO_ROOM_KEPT => self.no_room.push((page, owner)),
                Some(Passed::Damaged | Passed::Unreadable) => {
                    let kept = self.cleaner.kept_below(on, page);
                    report.skipped.kept_below = report.skipped.kept_below.max(kept);
                }
                _ => {}
            }
            self.cleaner.progress.pages_visited.fetch_add(1, Ordering::Relaxed);
            self.visited += 1;
            if self.visited >= STRIDE_PAGES && !self.unpaced {
                let pages = std::mem::take(&mut self.visited);
                self.stride.keep(pages, || self.cleaner.pacer.pace(&on.pace, on.pressure), &stop);
            }
        }
        Ok(true)
    }

    /// A page of an interval without a map: its header says what it is.
    fn visit_unmapped(&mut self, id: PageId, report: &mut SweepReport) -> Result<()> {
        let Sweeping { pool, txs, .. } = *self.on;
        let unmapped = &self.cleaner.unmapped;
        report.unmapped += 1;
        if Planted::IntervalSkipped.is_planted() || unmapped.is_unused(id) {
            return Ok(());
        }
        // Where the file cannot be read, the pool says so.
        if pool.is_unwritten(id).unwrap_or(false) && unmapped.note_unwritten(id) {
            return Ok(());
        }
        let page = pool.read(id, Access::Scan)?;
        let owner = page.object();
        if page.is(PageType::Overflow) {
            let writer = overflow::writer(&page)?;
            if txs.status(writer) == Status::Aborted {
                self.kept.insert(writer);
            }
            return Ok(());
        }
        let has_versions = page.is(PageType::Leaf) && page.has_versions();
        drop(page);
        if has_versions { self.visit(id, owner, report) } else { Ok(()) }
    }

    fn visit(&self, id: PageId, owner: ObjectId, report: &mut SweepReport) -> Result<()> {
        let Sweeping { pool, txs, .. } = *self.on;
        let tree = || (self.on.tree_of)(owner);
        let watch = |receiver| pool.space().watch_page(receiver, owner);
        report.pages += 1;
        // Each page of the interval would try to read it.
        let marks = if self.cleaner.unmapped.lacks_map_of(id) { Marks::Stay } else { Marks::Go };
        let mut tried = false;
        loop {
            let page = pool.write(id, Access::Scan)?;
            if page.object() != owner {
                return Ok(());
            }
            if !page.is(PageType::Leaf) || !page.has_versions() {
                // A root that was a leaf when it was marked, for instance. Whoever writes a version to
                // a page without any marks it again, under its latch.
                if marks == Marks::Stay {
                    return Ok(());
                }
                let mut mtr = Mtr::new(pool);
                mtr.add(page);
                unmark(&mut mtr, id)?;
                mtr.commit()?;
                return Ok(());
            }
            let lower = page.lower_fence().to_vec();
            let planned = Planned::of(pool, txs, page)?.with(marks);
            // A page of which nothing is left goes as a whole, its rows with it.
            if !std::mem::replace(&mut tried, true)
                && planned.empties()
                && let Some(tree) = tree().filter(|tree| tree.root != id)
            {
                drop(planned);
                // Where its neighbours or a space map cannot be read it is cleaned, and stays.
                if let Some((reverted, removed)) =
                    unless_unreadable(unlink_emptied(pool, txs, tree, id, &lower, watch))?.flatten()
                {
                    report.reverted += u64::from(reverted);
                    report.removed += u64::from(removed);
                    report.merged += 1;
                }
                continue;
            }
            let done = planned.apply(pool)?;
            report.reverted += u64::from(done.reverted);
            report.stripped += u64::from(done.stripped);
            report.removed += u64::from(done.removed);
            if let Some((key, len)) = done.needs_room {
                let Some(tree) = tree() else {
                    report.skipped.object_unknown.note(id);
                    return Ok(());
                };
                tree.make_room(pool, &key, len)?;
                continue;
            }
            if done.used_left < MERGE_BELOW_BYTES
                && done.reverted + done.removed > 0
                && let Some(tree) = tree()
                && matches!(
                    unless_unreadable(tree.merge_leaf(pool, &lower, |page| page.slot_count() == 0, watch))?,
                    Some(MergeOutcome::Merged | MergeOutcome::Unlinked)
                )
            {
                report.merged += 1;
            }
            return Ok(());
        }
    }

    /// A page of a large value: freed if its writer aborted, no longer suspect once its
    /// writer is committed for all.
    fn visit_overflow(&mut self, id: PageId, report: &mut SweepReport) -> Result<()> {
        let Sweeping { pool, txs, .. } = *self.on;
        let page = pool.write(id, Access::Scan)?;
        if !page.is(PageType::Overflow) {
            return Ok(());
        }
        let writer = overflow::writer(&page)?;
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        match txs.status(writer) {
            Status::Aborted => {
                if unless_unreadable(pool.space().free(&mut mtr, id, OVERFLOW_OBJECT, at))?.is_none() {
                    // Its space map was readable a moment ago.
                    self.kept.insert(writer);
                    return Ok(());
                }
                mtr.commit()?;
                report.value_pages_freed += 1;
            }
            Status::Committed(ts) if ts <= txs.horizon() => {
                let cleared = pool.space().set_flags(&mut mtr, id, 0, space::PFS_POTENTIALLY_UNUSED);
                if unless_unreadable(cleared)?.is_some() {
                    mtr.commit()?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Why a page was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Damaged,
    Unreadable,
    NoRoom,
}

impl Passed {
    /// What concerns one page only. A log that is full, or has stopped, concerns all of them.
    fn why(error: &Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::Corrupt => Some(Self::Damaged),
            ErrorKind::Io => Some(Self::Unreadable),
            ErrorKind::DiskFull if !is_log_full(error) => Some(Self::NoRoom),
            _ => None,
        }
    }
    /// As it is remembered; none: nothing is wrong with the page itself.
    fn found(self) -> Option<Found> {
        match self {
            Self::Damaged => Some(Found::Damaged),
            Self::Unreadable => Some(Found::Unreadable),
            Self::NoRoom => None,
        }
    }
    fn of(self, skipped: &mut Skipped) -> &mut SkippedPages {
        match self {
            Self::Damaged => &mut skipped.damaged,
            Self::Unreadable => &mut skipped.unreadable,
            Self::NoRoom => &mut skipped.no_room,
        }
    }
}

impl From<Found> for Passed {
    fn from(found: Found) -> Self {
        match found {
            Found::Damaged => Self::Damaged,
            Found::Unreadable => Self::Unreadable,
        }
    }
}

/// A page that cannot be cleaned does not stop the sweep.
fn pass_over(visited: Result<()>, page: PageId, skipped: &mut Skipped) -> Result<Option<Passed>> {
    let Err(error) = visited else { return Ok(None) };
    let why = Passed::why(&error).ok_or(error)?;
    why.of(skipped).note(page);
    Ok(Some(why))
}

/// What did not come about because other pages cannot be read; the page that it was tried for needs it not.
fn unless_unreadable<T>(tried: Result<T>) -> Result<Option<T>> {
    match tried {
        Ok(done) => Ok(Some(done)),
        Err(error) => match Passed::why(&error) {
            Some(Passed::Damaged | Passed::Unreadable) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Nor does a space map that cannot be read.
fn pass_over_map(error: Error, map: PageId, skipped: &mut Skipped) -> Result<()> {
    match Passed::why(&error).ok_or(error)? {
        Passed::Damaged => skipped.damaged_maps.note(map),
        why => why.of(skipped).note(map),
    }
    Ok(())
}

/// Reads the body of a FORGET record: a set of ids (`resurgam_txn`, `id_set/codec.rs`).
///
/// # Errors
/// `Corrupt` when it is not one.
pub fn decode_forget(body: &[u8]) -> Result<TxIdSet> {
    TxIdSet::decode(body).map_err(|e| Error::corrupt(format!("a FORGET record cannot be read: {}", e.message())))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use resurgam_base::CommitTs;
    use resurgam_txn::Visible;

    use super::*;

    fn commit(txs: &TxManager) -> Result<TxId> {
        let tx = txs.begin();
        txs.commit(&tx, Visible::AtOnce, || Ok(Lsn(1)))?;
        Ok(tx.id)
    }

    /// However old the oldest snapshot is, and while it moves on: few moments are remembered, and
    /// the one that counts is not far behind.
    #[test]
    fn moments_are_few_and_near() -> Result<()> {
        const AGE: usize = 1000;
        let (txs, cleaner) = (TxManager::new(TxId(1)), Cleaner::default());
        let idle = txs.begin();
        let mut held = VecDeque::new();
        let (mut reached, mut last) = (0, CommitTs::NONE);
        for round in 0..10 * AGE {
            commit(&txs)?;
            held.push_back(txs.snapshot());
            if held.len() > AGE {
                held.pop_front();
            }
            let horizon = txs.horizon();
            let Some(past) = cleaner.past(&txs) else { continue };
            assert!(past.decided() <= horizon && past.decided() >= last, "{past:?}, the horizon is {horizon:?}");
            assert!(!past.holds_all(idle.id, idle.id));
            last = past.decided();
            if round > 3 * AGE {
                let behind = horizon.0 - last.0;
                assert!(behind < AGE as u64 / 10, "round {round}: {behind} commits behind");
                reached += 1;
            }
            assert!(cleaner.samples.lock().len() <= SAMPLES_MAX);
        }
        assert!(reached > AGE);
        held.clear();
        let newest = commit(&txs)?;
        let past = cleaner.past(&txs).unwrap_or_default();
        assert!(past.holds_all(TxId(idle.id.0 + 1), newest), "at once, when nobody is behind");
        assert_eq!(cleaner.samples.lock().len(), 1);
        Ok(())
    }

    /// A commit that snapshots do not see yet, though nobody holds an old one.
    #[test]
    fn what_is_not_visible_is_not_past() -> Result<()> {
        let (txs, cleaner) = (TxManager::new(TxId(1)), Cleaner::default());
        let tx = txs.begin();
        txs.commit(&tx, Visible::WhenDurable, || Ok(Lsn(10)))?;
        assert_eq!(cleaner.past(&txs), None);
        let early = txs.begin();
        assert_eq!(cleaner.past(&txs), None);
        txs.on_durable(Lsn(10));
        let past = cleaner.past(&txs).unwrap_or_default();
        assert!(past.holds_all(tx.id, tx.id) && !past.holds_all(early.id, early.id));
        Ok(())
    }
}
