//! What whoever writes an archive does beside adding runs to it, without a database: merging runs, and giving up what no promised point needs. A log
//! service that archives does so ([`LogZone::archiver`](crate::LogZone::archiver)); a server has `retention.rs`, which makes the same steps.
//!
//! What readers elsewhere need they say in the store: leases of clones, restores, and of backups that are being made (`backup.rs`). Nothing that is leased
//! is given up, or left out by a merge.
//!
//! # Invariants
//! 1. A merge that fails changes nothing, and keeps nobody from giving up, nor the other way: each has its own last error, which stays until that one succeeds.
//! 2. Times of COMMITs are by the primary's clock, and this process has another one. Time is over by the earlier of both: [`judged_us`]. So a clock that is ahead
//!    here gives up nothing that is promised, and while nothing is committed, or there is no primary, nothing more goes.
//! 3. Nothing is given up without a window *and* a place of the backups.
//! 4. An object that is gone because somebody else has merged or given up beside is no error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_archive::{Archive, GivenUp, View};
use resurgam_base::{ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::Store;

use crate::merging::{MergeStep, Merger};
use crate::points::last_commit_us;
use crate::retention::{InUse, Pass, expire_every, say_given_up, since};

/// Reasons for keeping more than is promised that are listed.
const LISTED_MAX: usize = 20;

/// Opens the place of the backups.
pub type OpenBackups = Arc<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>;

/// Settings of an [`ArchiveKeeper`].
#[derive(Clone)]
pub struct ArchiveKeeperConfig {
    pub vfs: Arc<dyn Vfs>,
    /// None: there are no backups, and nothing is given up.
    pub backups: Option<OpenBackups>,
    /// How far back points are promised; zero: nothing is given up.
    pub recovery_window: Duration,
    /// As [`Options::archive_records_per_page_max`](crate::Options::archive_records_per_page_max).
    pub records_per_page_max: u64,
    /// As [`Options::archive_cpu_percent`](crate::Options::archive_cpu_percent).
    pub cpu_percent: u32,
    /// Rests where others want the processors.
    pub rests: bool,
}

impl fmt::Debug for ArchiveKeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveKeeperConfig").field("recovery_window", &self.recovery_window).finish_non_exhaustive()
    }
}

/// What has become of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptMerge {
    Merged,
    /// There is nothing to merge now, or merges are to end.
    Nothing,
    /// Somebody else has merged these runs, or given them up.
    ByAnother,
}

/// What was done for an archive since the start, and how that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveKept {
    /// Merges that were made, the runs that they merged, and bytes of those that were made of them.
    pub merges: u64,
    pub merged_runs: u64,
    pub merged_bytes: u64,
    /// Of the merge that is under way: records that are written, of how many.
    pub merging: Option<(u64, u64)>,
    /// How long merging has rested for others.
    pub rested: Duration,
    pub merge_error: Option<String>,
    /// How far back points are promised; none: nothing is given up here.
    pub recovery_window: Option<Duration>,
    /// What the last pass has found, and when: as in [`RecoverablePoints`](crate::RecoverablePoints).
    pub promised: Option<Lsn>,
    pub kept_from: Option<Lsn>,
    pub looked_us: Option<i64>,
    pub given_up: GivenUp,
    pub held_by: Vec<String>,
    pub expire_error: Option<String>,
}

#[derive(Default)]
struct Seen {
    kept: ArchiveKept,
    /// Merges may leave out what only states below need.
    leave_out_below: Lsn,
    /// By when the pass judged that has found it.
    judged_us: i64,
}

/// See the module. Used by one thread at a time.
pub struct ArchiveKeeper {
    config: ArchiveKeeperConfig,
    merger: Merger,
    backups: Mutex<Option<Arc<dyn Store>>>,
    seen: Mutex<Seen>,
}

impl ArchiveKeeper {
    pub fn new(config: ArchiveKeeperConfig) -> Self {
        let merger = Merger::new(config.cpu_percent);
        Self { config, merger, backups: Mutex::default(), seen: Mutex::default() }
    }

    fn window(&self) -> Option<Duration> {
        let config = &self.config;
        Some(config.recovery_window).filter(|window| !window.is_zero() && config.backups.is_some())
    }

    /// How long to wait between two passes; none: nothing is given up.
    pub fn expire_every(&self) -> Option<Duration> {
        self.window().map(expire_every)
    }

    /// The archive is this one's from now on, or not any more: what a pass of another time has found counts no longer for merges.
    pub fn begin(&self) {
        self.seen.lock().leave_out_below = Lsn::NONE;
    }

    /// What was done so far; `archive`: the one that is kept now, if one is.
    pub fn kept(&self, archive: Option<&Archive>) -> ArchiveKept {
        let passes = ArchiveKept { recovery_window: self.window(), ..self.seen.lock().kept.clone() };
        self.merger.kept(archive, passes)
    }

    fn backups(&self) -> Result<Option<Arc<dyn Store>>> {
        let Some(open) = &self.config.backups else { return Ok(None) };
        let mut backups = self.backups.lock();
        if let Some(store) = &*backups {
            return Ok(Some(Arc::clone(store)));
        }
        Ok(Some(Arc::clone(backups.insert(open()?))))
    }

    /// Merges runs once, if enough of them wait. `archive` is open for writing, here.
    ///
    /// # Errors
    /// `InUse` when another process has taken the archive over; `Corrupt` for a run that is damaged; those of the store. Nothing was changed.
    pub fn merge(&self, archive: &Arc<Archive>) -> Result<KeptMerge> {
        if let Err(error) = archive.catch_up() {
            self.merger.ended(&Err(error.clone()), false);
            return Err(error);
        }
        let known = archive.view();
        let config = if self.config.rests { self.merger.how(archive) } else { crate::merging::config() };
        let wanted = archive.wants_merge(&config);
        let rest = self.merger.rests(archive);
        let (leave_out_below, judged_us) = {
            let seen = self.seen.lock();
            (seen.leave_out_below, seen.judged_us)
        };
        let step = MergeStep {
            archive,
            config: &config,
            leave_out_below,
            now_us: judged_us,
            records_per_page_max: self.config.records_per_page_max,
            backups: &|| self.backups(),
            rest: if self.config.rests { Some(&rest) } else { None },
            vfs: &self.config.vfs,
        };
        let outcome = step.run();
        if outcome.as_ref().is_err_and(|error| error.kind() != ErrorKind::InUse) && has_lost_runs(archive, &known) {
            return Ok(KeptMerge::ByAnother);
        }
        // One that was wanted and not made was given up: it says nothing of what is damaged.
        self.merger.ended(&outcome, wanted || archive.merges_are_stopped());
        drop(known);
        if matches!(outcome, Ok(Some(_))) {
            // Nothing here uses what was merged any more; what cannot be deleted now is the next time.
            let _ = archive.delete_replaced();
        }
        Ok(match outcome? {
            Some(_) => KeptMerge::Merged,
            None if wanted && !archive.merges_are_stopped() => KeptMerge::ByAnother,
            None => KeptMerge::Nothing,
        })
    }

    /// Gives up what no promised point, no lease and no backup needs. Nothing without a window.
    ///
    /// # Errors
    /// Those of the places; `InUse` when another process has taken the archive over; `Corrupt` for an object that is damaged: nothing was given up.
    pub fn expire(&self, archive: &Arc<Archive>) -> Result<GivenUp> {
        let outcome = self.pass(archive);
        if outcome.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::InUse) {
            self.seen.lock().kept.expire_error = outcome.as_ref().err().map(ToString::to_string);
        }
        outcome
    }

    fn pass(&self, archive: &Arc<Archive>) -> Result<GivenUp> {
        let Some(window) = self.window() else { return Ok(GivenUp::default()) };
        archive.catch_up()?;
        let vfs = &self.config.vfs;
        let (backups, now_us) = (self.backups()?, vfs.wall_clock_us());
        let judged_us = judged_us(now_us, &archive.view())?;
        let pass = Pass {
            archive,
            store: archive.store(),
            backups: backups.as_ref(),
            since_us: since(judged_us, window),
            now_us: judged_us,
            nonce: vfs.random_u64(),
            dry_run: false,
        };
        let (promised, plan, given_up) = pass.run(&InUse::default)?;
        say_given_up(promised.as_ref(), &plan, given_up);
        let mut seen = self.seen.lock();
        (seen.leave_out_below, seen.judged_us) = (plan.leave_out_below, judged_us);
        let kept = &mut seen.kept;
        kept.promised = promised.map(|promised| promised.cut);
        kept.kept_from = Some(plan.keep_from).filter(|lsn| lsn.is_some());
        kept.looked_us = Some(now_us);
        kept.given_up.runs += given_up.runs;
        kept.given_up.backups += given_up.backups;
        kept.given_up.bytes += given_up.bytes;
        if kept.held_by != plan.held_by {
            plan.held_by.iter().take(LISTED_MAX).for_each(|what| tracing::warn!("retention: {what}"));
        }
        kept.held_by = plan.held_by;
        kept.held_by.truncate(LISTED_MAX);
        Ok(given_up)
    }
}

/// By when it is judged what is over: now, or when the last COMMIT was that is archived, if that is earlier; without one nothing is ever over.
fn judged_us(now_us: i64, view: &Arc<View>) -> Result<i64> {
    Ok(last_commit_us(view)?.map_or(i64::MIN, |newest| newest.min(now_us)))
}

/// Whether runs are gone that were there before: somebody beside has merged them, or given them up.
pub(crate) fn has_lost_runs(archive: &Archive, before: &View) -> bool {
    archive.catch_up().is_ok() && {
        let now = archive.view();
        before.manifest().runs.iter().any(|run| !now.manifest().runs.contains(run))
    }
}
