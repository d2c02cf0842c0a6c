//! Merging runs of an archive at a pace: one step, whoever makes it, a server or a log service that archives (`keeper.rs`).
//!
//! While others want the processors runs are merged more at once, so that each record is merged fewer times, in short steps with rests in between. What may
//! wait has a bound: the share grows with the runs that wait, *during* a merge as well, and from [`WAITING_MAX`] on nothing rests.
//!
//! A merge that fails is tried again with as few runs as it takes when nothing else is at work: otherwise a damaged run would be told of while the machine is idle, and
//! not while it is busy and more runs have to wait before there is anything to merge.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{
    Archive, ArchiveConfig, Backup, Lease, Mark, MarkKind, MergePolicy, Merged, PageBase, PageMaker, View,
};
use resurgam_base::{ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_vfs::{MachineTime, Vfs, thread_time};
use resurgam_xstore::Store;

use crate::keeper::ArchiveKept;
use crate::pace::{Pace, Yields, processors};

/// While others want the processors runs are merged when so many of them wait, and in short steps with rests in between.
const FAN_IN_BUSY: usize = 32;
const MERGE_STEP: Duration = Duration::from_millis(10);
/// With more runs waiting than half of it merging has a growing share of the processors, and with so many it does not rest any more: whoever
/// reads a page's records looks at them all.
const WAITING_MAX: usize = 128;
/// A rest ends this soon when merges are to end.
const WAKE: Duration = Duration::from_millis(20);

/// What merging has done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeTotals {
    pub merges: u64,
    /// Runs that were merged, and bytes of those that were made of them.
    pub runs: u64,
    pub bytes: u64,
    /// Why the last one failed, until one does not.
    pub error: Option<String>,
}

/// Settings of how runs are made and merged.
pub(crate) fn config() -> ArchiveConfig {
    ArchiveConfig::default()
}

/// Merging's share of the processors while others want them, in per cent: `least` while few runs wait, all of them at [`WAITING_MAX`].
fn percent_of(least: u32, waiting: usize) -> u32 {
    let some = WAITING_MAX / 2;
    let more = waiting.saturating_sub(some).min(WAITING_MAX - some) as u32;
    least + 100u32.saturating_sub(least) * more / (WAITING_MAX - some) as u32
}

/// See the module. Used by one thread.
pub(crate) struct Merger {
    pace: Pace,
    /// The share of the processors' time that it always has, in per cent.
    cpu_percent: u32,
    is_failing: AtomicBool,
    totals: Mutex<MergeTotals>,
}

impl Merger {
    pub fn new(cpu_percent: u32) -> Self {
        let pace = Pace::new(cpu_percent, Yields::SOON, processors());
        Self { pace, cpu_percent, is_failing: AtomicBool::new(false), totals: Mutex::default() }
    }

    /// How runs are merged now. To be asked before each merge.
    pub fn how(&self, archive: &Archive) -> ArchiveConfig {
        self.pace.worked(Duration::ZERO, Duration::ZERO, MachineTime::now());
        self.look_at(archive);
        self.how_paced()
    }

    fn how_paced(&self) -> ArchiveConfig {
        let config = config();
        let waits_for_more = self.pace.steps_back() && !self.is_failing.load(Ordering::Relaxed);
        let fan_in = if waits_for_more { FAN_IN_BUSY } else { config.fan_in };
        ArchiveConfig { fan_in, ..config }
    }

    /// The share is what the runs want that wait by now.
    fn look_at(&self, archive: &Archive) {
        self.pace.set_percent(percent_of(self.cpu_percent, archive.runs_waiting(&config())));
    }

    /// What a merge of `archive` is to call between its pieces: it rests there.
    pub fn rests<'a>(&'a self, archive: &'a Archive) -> impl Fn() + 'a {
        let begun = Cell::new((Instant::now(), thread_time()));
        move || {
            let (at, ran) = begun.get();
            let took = at.elapsed();
            if took < MERGE_STEP {
                return;
            }
            self.look_at(archive);
            self.pace.worked(thread_time().saturating_sub(ran), took, MachineTime::now());
            let until = Instant::now() + self.pace.take_rest();
            while !archive.merges_are_stopped() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(WAKE));
            }
            begun.set((Instant::now(), thread_time()));
        }
    }

    /// Notes what a step has come to. One that `was_given_up` says nothing of how merging is.
    pub fn ended(&self, outcome: &Result<Option<Merged>>, was_given_up: bool) {
        if was_given_up && matches!(outcome, Ok(None)) {
            return;
        }
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::InUse) {
            // It is another one's to merge.
            return;
        }
        self.is_failing.store(outcome.is_err(), Ordering::Relaxed);
        let mut totals = self.totals.lock();
        totals.error = outcome.as_ref().err().map(ToString::to_string);
        if let Ok(Some(merged)) = outcome {
            totals.merges += 1;
            totals.runs += merged.inputs as u64;
            totals.bytes += merged.run.len;
        }
    }

    pub fn totals(&self) -> MergeTotals {
        self.totals.lock().clone()
    }

    /// What it has done and how far it is with `archive`, beside what `passes` have given up.
    pub fn kept(&self, archive: Option<&Archive>, passes: ArchiveKept) -> ArchiveKept {
        let MergeTotals { merges, runs, bytes, error } = self.totals();
        ArchiveKept {
            merges,
            merged_runs: runs,
            merged_bytes: bytes,
            merging: archive.and_then(Archive::merge_progress),
            rested: self.rested(),
            merge_error: error,
            ..passes
        }
    }

    /// The share of the processors' time that it may always have now.
    #[cfg(test)]
    pub fn share(&self) -> f64 {
        self.pace.share()
    }

    /// How long it has rested for others, altogether.
    pub fn rested(&self) -> Duration {
        self.pace.rested()
    }
}

/// One merge, and what it may leave out and put in.
pub(crate) struct MergeStep<'a> {
    pub archive: &'a Arc<Archive>,
    pub config: &'a ArchiveConfig,
    /// Retention's last word: no state below is promised. None: nothing is left out.
    pub leave_out_below: Lsn,
    /// By when leases are judged that count for a time.
    pub now_us: i64,
    pub records_per_page_max: u64,
    /// Of the database; none: there are none.
    pub backups: &'a dyn Fn() -> Result<Option<Arc<dyn Store>>>,
    pub rest: Option<&'a dyn Fn()>,
    pub vfs: &'a Arc<dyn Vfs>,
}

impl MergeStep<'_> {
    /// None: there is nothing to merge, or another one has merged it.
    ///
    /// # Errors
    /// Those of the store; `Corrupt` for a run that is damaged: nothing was changed.
    pub fn run(&self) -> Result<Option<Merged>> {
        let archive = self.archive;
        if !archive.wants_merge(self.config) {
            return Ok(None);
        }
        let view = archive.view();
        let mut leave_out_below = self.leave_out_below;
        let mut mark = None;
        if leave_out_below.is_some() {
            let nonce = self.vfs.random_u64();
            mark = Some(Mark::announce(archive.store(), MarkKind::States, leave_out_below, nonce)?);
            let leases = Lease::in_force(&**archive.store(), self.now_us);
            let bound = leases.map(|(leases, _)| leases.iter().map(|lease| lease.cut.min(lease.undo_from)).min());
            match bound {
                Ok(bound) => leave_out_below = bound.map_or(leave_out_below, |bound| bound.min(leave_out_below)),
                // One that cannot be read: nothing is left out.
                Err(_) => leave_out_below = Lsn::NONE,
            }
        }
        let mut bases = Bases { backups: self.backups, view: &view, backup: None };
        let mut base = |page, before| bases.page(page, before);
        let mut policy = MergePolicy {
            retention: leave_out_below,
            records_per_page_max: self.records_per_page_max,
            base: Some(&mut base),
            rest: self.rest,
        };
        let merged = archive.merge(self.config, &mut policy);
        if let Some(mark) = mark {
            mark.remove();
        }
        merged
    }
}

/// Pages before a merge's first records, from a backup and earlier runs.
struct Bases<'a> {
    backups: &'a dyn Fn() -> Result<Option<Arc<dyn Store>>>,
    view: &'a Arc<View>,
    /// The newest backup that ends before the LSN of which it was asked for last; none: not looked for yet.
    backup: Option<Option<Arc<Backup>>>,
}

impl Bases<'_> {
    /// The page as its record of `before` has left it; none where it cannot be had: then it gets no image.
    fn page(&mut self, page: PageId, before: Lsn) -> Result<Option<PageBuf>> {
        if before.is_none() {
            return Ok(None);
        }
        let made = self.make(page, before);
        match made {
            Ok(buf) => Ok(buf),
            Err(error) => {
                tracing::debug!("page {page} gets no image in a merged run: {error}");
                Ok(None)
            }
        }
    }

    fn make(&mut self, page: PageId, before: Lsn) -> Result<Option<PageBuf>> {
        // Of the archive alone, if it has an image: that costs least.
        if let Ok(Some(made)) = self.made_of(None, page, before) {
            return Ok(Some(made));
        }
        let backup = self.backup_before(before)?;
        self.made_of(backup, page, before)
    }

    fn made_of(&self, backup: Option<Arc<Backup>>, page: PageId, before: Lsn) -> Result<Option<PageBuf>> {
        let maker = PageMaker::new(PageBase::unchecked(backup), Arc::clone(self.view), before)?;
        let mut made = [PageBuf::zeroed()];
        maker.make(page, &mut made)?;
        let [made] = made;
        Ok(Some(made).filter(|made| made.verify(page).is_ok()))
    }

    /// The newest backup that ends before that LSN.
    fn backup_before(&mut self, before: Lsn) -> Result<Option<Arc<Backup>>> {
        let most = Lsn(before.0.saturating_add(1));
        if let Some(known) = &self.backup
            && known.as_ref().is_none_or(|backup| backup.summary().end <= most)
        {
            return Ok(known.clone());
        }
        let found = match (self.backups)()? {
            Some(store) => Backup::newest(&store, self.view.manifest().database, self.view.start(), most)?,
            None => None,
        };
        Ok(self.backup.insert(found).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_has_a_growing_share_of_the_processors_when_it_falls_behind() {
        assert_eq!([0, 64, 80, 96, 127].map(|waiting| percent_of(1, waiting)), [1, 1, 25, 50, 98]);
        assert_eq!([128, 129, 5000].map(|waiting| percent_of(1, waiting)), [100; 3]);
        assert_eq!([0, 100, 128].map(|waiting| percent_of(100, waiting)), [100; 3]);
    }

    /// It begins with care, as on a busy machine: more runs have to wait then, but for one that fails, which is told of all the time.
    #[test]
    fn what_fails_does_not_wait_for_more() {
        let merger = Merger::new(1);
        assert_eq!(merger.how_paced().fan_in, FAN_IN_BUSY);
        merger.ended(&Err(resurgam_base::Error::corrupt("a damaged run")), false);
        assert_eq!(merger.how_paced().fan_in, config().fan_in);
        assert!(merger.totals().error.is_some_and(|error| error.contains("a damaged run")));
        merger.ended(&Err(resurgam_base::Error::new(ErrorKind::InUse, "it is another one's")), false);
        assert!(merger.totals().error.is_some());
        merger.ended(&Ok(None), true);
        assert!(merger.totals().error.is_some(), "one that was stopped has mended nothing");
        merger.ended(&Ok(None), false);
        assert_eq!((merger.how_paced().fan_in, merger.totals().error), (FAN_IN_BUSY, None));
    }
}
