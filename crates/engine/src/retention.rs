//! Retention: how far back points in time are promised, giving up what nobody needs for them, and which points there are.
//!
//! The oldest promised point is the state a *recovery window* ago; every later one is promised as well. A pass finds it in the
//! archive, lists backups and leases, and has the archive give up the rest: the rule and the order of the steps are in
//! `archive/src/retain.rs`. Passes are made by the thread that merges, and by `resurgam archive expire`, which may run beside a
//! server. What a pass has found also bounds what merges may leave out. Where a log service archives it merges and makes passes (`keeper.rs`), if it is given a
//! window; what this server does that needs the archive it says by leases there.
//!
//! While files are being restored nothing is given up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_archive::{
    Archive, ArchiveConfig, Backup, BackupEntry, GivenUp, Lease, Marks, ParentRecord, Promise, Retention,
    RetentionPlan, View, list_backups,
};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::database::Database;
use crate::keeper::{ArchiveKept, has_lost_runs};
use crate::merging::MergeStep;
use crate::points::{Promised, ends, oldest_promised};

/// Least and most time between two passes; in between, a twentieth of the window.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// Reasons for keeping more than is promised that are listed.
const LISTED_MAX: usize = 20;

/// Points in time that can be restored, and what retention does.
#[derive(Clone, Debug, Default)]
pub struct RecoverablePoints {
    /// The oldest point that archive and backups have; none: there is none yet.
    pub earliest: Option<Lsn>,
    /// The time of the first COMMIT behind it, and of the last one that is archived; microseconds since 2000-01-01 UTC.
    pub earliest_us: Option<i64>,
    pub latest: Option<Lsn>,
    pub latest_us: Option<i64>,
    /// How far back points are promised; none: everything is kept.
    pub window: Option<Duration>,
    /// What the last pass since the open has found: the oldest promised point, and from where on the archive is kept.
    pub promised: Option<Lsn>,
    pub kept_from: Option<Lsn>,
    /// When that was, in microseconds since 2000-01-01 UTC.
    pub looked_us: Option<i64>,
    /// Given up since the open.
    pub given_up: GivenUp,
    /// What keeps more than is promised.
    pub held_by: Vec<String>,
    /// Why the points, or the last pass, could not be had.
    pub error: Option<String>,
}

#[derive(Default)]
struct Seen {
    promised: Option<Lsn>,
    kept_from: Option<Lsn>,
    looked_us: Option<i64>,
    given_up: GivenUp,
    held_by: Vec<String>,
    error: Option<String>,
    /// Merges may leave out what only states below need.
    leave_out_below: Lsn,
}

/// What is known of retention.
#[derive(Default)]
pub(crate) struct Retained {
    seen: Mutex<Seen>,
}

/// A pass over an archive and its backups.
pub(crate) struct Pass<'a> {
    pub archive: &'a Arc<Archive>,
    pub store: &'a Arc<dyn Store>,
    pub backups: Option<&'a Arc<dyn Store>>,
    /// The oldest promised point is the state at this time.
    pub since_us: i64,
    pub now_us: i64,
    pub nonce: u64,
    pub dry_run: bool,
}

/// What this process is at that keeps something.
#[derive(Default)]
pub(crate) struct InUse {
    /// What needs the archive from an LSN on, in words.
    needs: Vec<(String, Lsn)>,
    /// Name of the backup that is being made.
    running: Option<String>,
}

impl Pass<'_> {
    pub fn run(&self, in_use: &dyn Fn() -> InUse) -> Result<(Option<Promised>, RetentionPlan, GivenUp)> {
        let view = self.archive.view();
        let promised = oldest_promised(&view, self.since_us)?;
        let entries = self.backups.map_or(Ok(Vec::new()), list_backups)?;
        let (leases, over) = Lease::in_force(&**self.store, self.now_us)?;
        for name in over.iter().filter(|_| !self.dry_run) {
            tracing::info!("the lease \"{name}\" of a folder that was not made to the end is over");
            Lease::remove(&**self.store, name)?;
        }
        let plan = self.plan(&view, promised.as_ref(), &entries, &leases, &in_use())?;
        if self.dry_run || (plan.runs.is_empty() && plan.backups.is_empty()) {
            return Ok((promised, plan, GivenUp::default()));
        }
        let marks = Marks::announce(self.store, &plan, self.nonce)?;
        let done = (|| -> Result<(RetentionPlan, GivenUp)> {
            // Of the same backups: one that is complete by now must not let more go than the mark says.
            let (leases, _) = Lease::in_force(&**self.store, self.now_us)?;
            let plan = self.plan(&view, promised.as_ref(), &entries, &leases, &in_use())?;
            let given_up = self.archive.give_up(&plan, self.backups)?;
            Ok((plan, given_up))
        })();
        marks.remove();
        let (plan, given_up) = done?;
        Ok((promised, plan, given_up))
    }

    fn plan(
        &self,
        view: &Arc<View>,
        promised: Option<&Promised>,
        backups: &[BackupEntry],
        leases: &[Lease],
        in_use: &InUse,
    ) -> Result<RetentionPlan> {
        let is_whole = |name: &str| match self.backups {
            Some(store) => Backup::open(store, name)?.open_parts(),
            None => Err(Error::internal("a backup without a place")),
        };
        let retention = Retention {
            view,
            first_lsn: promised.map_or(Lsn::NONE, |promised| promised.first_lsn),
            backups,
            leases,
            promise: promised.map(|found| Promise {
                point: found.cut,
                from: found.from.min(found.undo_from),
                undo_from: found.undo_from,
            }),
            in_use: &in_use.needs,
            running: in_use.running.as_deref(),
            now_us: self.now_us,
            is_whole: &is_whole,
        };
        retention.plan()
    }
}

/// Between two passes.
pub(crate) fn expire_every(window: Duration) -> Duration {
    (window / 20).clamp(EVERY.0, EVERY.1)
}

/// Says what a pass has given up, if anything.
pub(crate) fn say_given_up(promised: Option<&Promised>, plan: &RetentionPlan, given_up: GivenUp) {
    if given_up != GivenUp::default() {
        tracing::info!(
            "{} runs of the archive and {} backups, {} bytes, are given up: points are promised from LSN {} on, \
             log is kept from LSN {} on",
            given_up.runs,
            given_up.backups,
            given_up.bytes,
            plan_point(promised),
            plan.keep_from
        );
    }
}

/// The time that a window reaches back to.
pub(crate) fn since(now_us: i64, window: Duration) -> i64 {
    now_us.saturating_sub(i64::try_from(window.as_micros()).unwrap_or(i64::MAX))
}

/// The earliest and latest points that an archive and its backups have.
fn points_of(
    view: &Arc<View>,
    backups: &[BackupEntry],
    made_of: Option<&ParentRecord>,
    found: &mut RecoverablePoints,
) -> Result<()> {
    if view.end() <= view.start() {
        return Ok(());
    }
    let database = view.manifest().database;
    let usable = backups.iter().filter(|entry| entry.complete).filter_map(|entry| entry.summary.as_ref().ok());
    let oldest = usable
        .filter(|summary| summary.database == database && summary.begin >= view.start() && summary.end <= view.end())
        .map(|summary| summary.end)
        .min();
    let (earliest, latest) = ends(view, oldest, made_of)?;
    if let Some((lsn, us)) = earliest {
        (found.earliest, found.earliest_us) = (Some(lsn), us);
        (found.latest, found.latest_us) = (Some(latest.0), latest.1);
    }
    Ok(())
}

impl Database {
    /// Which points in time can be restored, and what retention does; `None` without an archive. Reads the places.
    pub fn recoverable_points(&self) -> Option<RecoverablePoints> {
        let inner = self.inner();
        let archiver = inner.archiver.as_ref()?;
        let mut found = RecoverablePoints { window: self.recovery_window(), ..RecoverablePoints::default() };
        {
            let seen = inner.retained.seen.lock();
            (found.promised, found.kept_from, found.looked_us) = (seen.promised, seen.kept_from, seen.looked_us);
            found.error = seen.error.clone();
            found.held_by.clone_from(&seen.held_by);
        }
        found.given_up = self.given_up();
        if let Some((_, kept)) = archiver.kept_elsewhere().filter(|_| !archiver.gives_up_here()) {
            (found.promised, found.kept_from, found.looked_us) = (kept.promised, kept.kept_from, kept.looked_us);
            (found.window, found.held_by, found.error) = (kept.recovery_window, kept.held_by, kept.expire_error);
        }
        let look = |found: &mut RecoverablePoints| -> Result<()> {
            let view = archiver.view().ok_or_else(|| Error::new(ErrorKind::Io, "the archive cannot be reached now"))?;
            let backups = match &inner.backups {
                Some(backups) => list_backups(&backups.store()?)?,
                None => Vec::new(),
            };
            let made_of = inner.lineage.as_ref().filter(|lineage| lineage.is_needed()).map(|lineage| &lineage.record);
            points_of(&view, &backups, made_of, found)
        };
        let looked = match look(&mut found) {
            // Who merges elsewhere has replaced what was being read.
            Err(error) if error.kind() == ErrorKind::Io => match archiver.look_again() {
                Ok(true) => look(&mut found),
                _ => Err(error),
            },
            looked => looked,
        };
        if let Err(error) = looked {
            found.error.get_or_insert(error.to_string());
        }
        Some(found)
    }

    /// What passes have given up, here and by the log service that archives, since their starts; without a look at the places.
    pub fn given_up(&self) -> GivenUp {
        let inner = self.inner();
        let here = inner.retained.seen.lock().given_up;
        let elsewhere = inner.archiver.as_ref().and_then(|archiver| archiver.kept_elsewhere());
        let there = elsewhere.map(|(_, kept)| kept.given_up).unwrap_or_default();
        GivenUp { runs: here.runs + there.runs, backups: here.backups + there.backups, bytes: here.bytes + there.bytes }
    }

    fn recovery_window(&self) -> Option<Duration> {
        Some(self.options().recovery_window).filter(|window| !window.is_zero())
    }

    /// How long to wait before the next pass; none: there are none.
    pub(crate) fn expire_every(&self) -> Option<Duration> {
        self.recovery_window().map(expire_every)
    }

    /// Gives up what nobody needs for the points that the recovery window promises. Nothing without a window or an archive, and
    /// while files are being restored.
    ///
    /// # Errors
    /// Those of the places; `Corrupt` for an object that is damaged: nothing was given up.
    pub fn expire_archive(&self) -> Result<GivenUp> {
        let outcome = self.expire();
        self.inner().retained.seen.lock().error = outcome.as_ref().err().map(Error::to_string);
        outcome
    }

    fn expire(&self) -> Result<GivenUp> {
        let inner = self.inner();
        let (Some(window), Some(archiver)) = (self.recovery_window(), &inner.archiver) else {
            return Ok(GivenUp::default());
        };
        if self.restore_under_way().is_some() || !inner.pool.dead_devices().is_empty() {
            let mut seen = inner.retained.seen.lock();
            seen.held_by = vec!["files are being restored: nothing is given up meanwhile".to_owned()];
            seen.leave_out_below = Lsn::NONE;
            return Ok(GivenUp::default());
        }
        let backups = inner.backups.as_ref().map(|backups| backups.store()).transpose()?;
        let now_us = inner.vfs.wall_clock_us();
        let in_use = || {
            let needs = self.backup_needs_log_from().map(|lsn| ("the backup that is being made".to_owned(), lsn));
            let running = inner.backups.as_ref().and_then(|backups| backups.running_name());
            InUse { needs: needs.into_iter().collect(), running }
        };
        let done = archiver.change(|archive| {
            let pass = Pass {
                archive,
                store: archive.store(),
                backups: backups.as_ref(),
                since_us: since(now_us, window),
                now_us,
                nonce: inner.vfs.random_u64(),
                dry_run: false,
            };
            pass.run(&in_use)
        })?;
        let Some((promised, plan, given_up)) = done else { return Ok(GivenUp::default()) };
        say_given_up(promised.as_ref(), &plan, given_up);
        if given_up != GivenUp::default() {
            self.decide_double_writes();
        }
        // What this one was made of is needed no more, perhaps.
        if let Err(error) = self.see_to_parent(false) {
            tracing::warn!("what the database keeps that this one was made of: {error}");
        }
        let mut seen = inner.retained.seen.lock();
        seen.promised = promised.map(|promised| promised.cut);
        seen.kept_from = Some(plan.keep_from).filter(|lsn| lsn.is_some());
        seen.looked_us = Some(now_us);
        seen.leave_out_below = plan.leave_out_below;
        seen.given_up.runs += given_up.runs;
        seen.given_up.backups += given_up.backups;
        seen.given_up.bytes += given_up.bytes;
        if seen.held_by != plan.held_by {
            plan.held_by.iter().take(LISTED_MAX).for_each(|what| tracing::warn!("retention: {what}"));
        }
        seen.held_by = plan.held_by;
        seen.held_by.truncate(LISTED_MAX);
        Ok(given_up)
    }

    /// Of a database that was made of another one: sees that the archive names that one while it needs it, and that this one answers, which decides
    /// how pages are written; and gives back what is kept for it afterwards. The
    /// background does so twice a minute.
    ///
    /// # Errors
    /// Why one of the two could not be done, to be tried again; or that it keeps something for an archive that this one had before, which an operator has to
    /// give back.
    pub fn look_at_parent(&self) -> Result<()> {
        self.see_to_parent(true)
    }

    /// The same; `looks`: also whether it answers, which takes as long as its place takes to do so.
    fn see_to_parent(&self, looks: bool) -> Result<()> {
        let inner = self.inner();
        let (Some(lineage), Some(archiver)) = (&inner.lineage, &inner.archiver) else { return Ok(()) };
        let Some(archive) = archiver.archive() else { return Ok(()) };
        // One at a time; whoever is at it sees to the rest as well.
        let seeing =
            if looks { Some(lineage.seeing.lock()) } else { lineage.seeing.try_lock_for(Duration::from_secs(1)) };
        let Some(_one) = seeing else { return Ok(()) };
        let view = archive.view();
        if lineage.trouble().is_some() {
            lineage.name_parent(archive.store(), &view, inner.log.oldest_lsn())?;
        }
        if let Some(why) = lineage.trouble()
            && !archiver.has_every_page(&inner.log, inner.backups.as_deref())
        {
            let what =
                format!("the archive alone makes no pages of this database, which was made of another one: {why}");
            return Err(Error::new(ErrorKind::Io, what)
                .with_hint("Make a backup of this database, or make that one's archive reachable."));
        }
        let dir = inner.data_dir.lock().clone();
        if looks && lineage.is_needed() {
            let looked = lineage.look(&dir);
            self.decide_double_writes();
            // A backup of its own does without.
            if looked.is_err() && !archiver.has_every_page(&inner.log, inner.backups.as_deref()) {
                return looked;
            }
        }
        lineage.end(archive.store(), &view, &dir)
    }

    /// Merges runs of the archive, one step; false when there is nothing to merge.
    pub(crate) fn merge_archive_step(&self) -> Result<bool> {
        let inner = self.inner();
        let Some(archiver) = &inner.archiver else { return Ok(false) };
        let merged = archiver.change(|archive| {
            // A simulated schedule depends on nothing that is not in its seed.
            let background = inner.options.background;
            let merger = archiver.merger();
            let config = if background { merger.how(archive) } else { ArchiveConfig::default() };
            let rest = merger.rests(archive);
            let is_restoring = self.restore_under_way().is_some();
            let step = MergeStep {
                archive,
                config: &config,
                leave_out_below: if is_restoring { Lsn::NONE } else { inner.retained.seen.lock().leave_out_below },
                now_us: inner.vfs.wall_clock_us(),
                records_per_page_max: inner.options.archive_records_per_page_max,
                backups: &|| inner.backups.as_ref().map(|backups| backups.store()).transpose(),
                rest: if background { Some(&rest) } else { None },
                vfs: &inner.vfs,
            };
            let known = archive.view();
            let merged = step.run();
            if archiver.is_elsewhere() && merged.is_err() && has_lost_runs(archive, &known) {
                return Ok(false);
            }
            merger.ended(&merged, archive.merges_are_stopped());
            Ok(merged?.is_some())
        })?;
        Ok(merged.unwrap_or(false))
    }

    /// Has the archive kept, one step of the background: merges runs, and gives up what is not promised if a pass `is_due`, where that is done here.
    /// Where the log service that archives does it, the outcomes are what it says of its own. First what was given up (none: no pass was due), then
    /// what was merged.
    pub(crate) fn keep_archive_step(&self, is_due: bool) -> (Option<Result<()>>, Result<()>) {
        let Some(archiver) = &self.inner().archiver else { return (None, Ok(())) };
        let kept = archiver.kept_elsewhere();
        let told = |error: &dyn Fn(&ArchiveKept) -> Option<String>| match &kept {
            Some((service, kept)) => match error(kept) {
                Some(what) => Err(Error::new(ErrorKind::Io, format!("the log service at {service}: {what}"))),
                None => Ok(()),
            },
            None => Ok(()),
        };
        let given_up = match archiver.gives_up_here() {
            // What a log service has told of giving up counts no longer, and nothing else would say so.
            true if self.recovery_window().is_none() => Some(Ok(())),
            true => is_due.then(|| self.expire_archive().map(drop)),
            false => Some(told(&|kept| kept.expire_error.clone()).and_then(|()| self.is_of_its_window(kept.as_ref()))),
        };
        let merged = match archiver.merges_here() {
            true => self.merge_archive_step().map(drop),
            false => told(&|kept| kept.merge_error.clone()),
        };
        (given_up, merged)
    }
}

impl Database {
    /// That a log service that gives up promises as much as this server is to.
    fn is_of_its_window(&self, kept: Option<&(String, ArchiveKept)>) -> Result<()> {
        let Some((service, kept)) = kept else { return Ok(()) };
        match (self.recovery_window(), kept.recovery_window) {
            (Some(here), Some(there)) if here != there => Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "the log service at {service} gives up by a recovery window of {there:?}, which counts, and this server was given one of {here:?}"
                ),
            )
            .with_hint("Start both with the same --recovery-window.")),
            _ => Ok(()),
        }
    }
}

fn plan_point(promised: Option<&Promised>) -> Lsn {
    promised.map_or(Lsn::NONE, |promised| promised.cut)
}

/// What `resurgam archive expire` is to do.
#[derive(Clone, Debug)]
pub struct ExpireRequest {
    /// URL of the archive: a path, or `file://` and one.
    pub archive: String,
    /// URL of the backups; none: there are none.
    pub backups: Option<String>,
    pub window: Duration,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What a pass found and did.
#[derive(Clone, Debug)]
pub struct Expired {
    /// The oldest promised point; none: the archive has none so old, and all of it is kept.
    pub promised: Option<Lsn>,
    pub plan: RetentionPlan,
    /// Nothing in a dry run.
    pub given_up: GivenUp,
}

/// Gives up what nobody needs for points in time within the window, beside a server or without one.
///
/// # Errors
/// `NotADatabase` when there is no archive; `InUse` when its writer changes at this moment; those of the places.
pub fn expire_archive(vfs: &Arc<dyn Vfs>, request: &ExpireRequest) -> Result<Expired> {
    let open =
        |url: &str| -> Result<Arc<dyn Store>> { Ok(Place::of(Path::new(""), url)?.open(vfs, Access::Existing)?) };
    if request.window.is_zero() {
        return Err(Error::new(ErrorKind::InvalidParameter, "the recovery window must be longer than nothing"));
    }
    let store = open(&request.archive)?;
    let backups = request.backups.as_deref().map(open).transpose()?;
    let archive = Archive::open_beside(Arc::clone(&store), vfs.random_u64())?.ok_or_else(|| {
        Error::new(ErrorKind::NotADatabase, format!("there is no archive in {}: no manifest was found", store.place()))
    })?;
    let now_us = vfs.wall_clock_us();
    let pass = Pass {
        archive: &archive,
        store: &store,
        backups: backups.as_ref(),
        since_us: since(now_us, request.window),
        now_us,
        nonce: vfs.random_u64(),
        dry_run: request.dry_run,
    };
    let (promised, plan, given_up) = pass.run(&InUse::default)?;
    if !request.dry_run {
        archive.delete_expired()?;
    }
    Ok(Expired { promised: promised.map(|promised| promised.cut), plan, given_up })
}
