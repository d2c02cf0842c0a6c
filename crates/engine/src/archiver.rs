//! The archiver: follows the log and has an archive write what is durable into runs, in the background.
//!
//! ```text
//! log (durable) --follower--> archive's workspace, sorted in memory --seal--> a durable run --> the hold moves up
//! ```
//!
//! # Invariants
//! 1. The log is held from the last block of the last durable run on, from before the first checkpoint of an open
//!    until the database is closed: what is not archived is not truncated.
//! 2. There is no state but the runs: after a crash the work goes on from the end of the last run that is
//!    durable. So it does after any failure but one of the store that may pass, which leaves what was gathered
//!    in memory to be tried again.
//! 3. Nobody waits for it but writers at the log's bound (`throttle.rs`).
//! 4. Of the archives that were opened one after the other, one at most is changed at a time: while it is opened anew no
//!    merge is under way.
//! 5. Memory: one run's records ([`RUN_BYTES`] of log, about three times that at most), and a step of a merge.
//!
//! The archive of a database that was made of another one says so, before its first run is written (`restore/lineage.rs`).
//!
//! # Where log services write it
//! (`Options::archive_elsewhere`.) Then no log is held for it and nothing is taken here: what they have made is looked at now and then. The one that archives
//! merges as well, and gives up what its recovery window does not promise. Where it says that it does not, because it is of an earlier version or has no window,
//! that is done here, beside it ([`Archive::open_beside`]). When another one of them has claimed the archive it is opened anew.
//!
//! An archive that is not this log's (of another database, with a gap, ahead of the log, of another history: `history.rs`) is refused at the open.
//! One that cannot be reached, or is damaged, is tried again, with the database open: what it lacks is in the log. One that
//! another process takes over is left to it until a restart.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{Archive, Archiver as Runs, BackupSummary, DatabaseId, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{Log, LogBlock, LogFollower, LogHold};
use resurgam_xstore::Store;

use crate::backup_places::Backups;
use crate::database::Database;
use crate::history;
use crate::keeper::ArchiveKept;
use crate::log_zone::{LogArchiver, LogZone};
use crate::merging::{Merger, config};
use crate::options::DoubleWrites;
use crate::restore::Lineage;

/// The name under which it holds the log.
pub(crate) const HOLDER: &str = "the archive";
/// Longest time that a durable block waits for company before a run is made.
const DELAY: Duration = Duration::from_millis(700);
/// Between two looks for more while a run is gathered: where much comes, before the log forgets it (it keeps some megabytes in memory), and
/// where little does.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_SELDOM: Duration = Duration::from_millis(100);
/// So much between two looks is little, in bytes.
const LITTLE: u64 = 256 << 10;
/// Log in one run, about, in bytes: it is sorted in memory.
const RUN_BYTES: u64 = 16 << 20;
/// A step ends after so long, so that a close need not wait for it.
const STEP: Duration = Duration::from_millis(250);
/// At a close, most time for what is not archived yet. The rest is archived after the next open.
const CLOSE: Duration = Duration::from_secs(10);
/// Least time between two samples of the durable position, and most samples.
const SAMPLE: Duration = Duration::from_millis(100);
const SAMPLES_MAX: usize = 4096;

/// Between two looks at an archive that others write: while they say that it has grown, and otherwise.
const NEWS: Duration = Duration::from_secs(1);
const NO_NEWS: Duration = Duration::from_secs(10);
/// None of them has said for so long that it archives, though there is log for it.
const SILENT: Duration = Duration::from_secs(30);

/// Opens the store anew; draws a number for the opening of the archive in it.
pub(crate) type OpenStore = Box<dyn Fn() -> Result<(Arc<dyn Store>, u64)> + Send + Sync>;

/// What an operator can see of the archive.
#[derive(Clone, Debug)]
pub struct ArchiveStatus {
    /// Where it is.
    pub place: String,
    /// In a word: `archiving` (behind the log, at work), `current` (all that is durable is in it), `failing` (tried
    /// again; see `error`), `refused` (it is not this log's, or another process writes to it: only a restart helps).
    pub state: &'static str,
    /// All log below is in durable runs; none: not known yet.
    pub archived: Option<Lsn>,
    /// Durable log that is not in them, in bytes.
    pub lag_bytes: u64,
    /// How long the oldest of that has been durable.
    pub lag: Duration,
    /// How long ago all that was durable was archived at the latest: as of then everything is there.
    pub point_age: Duration,
    /// Durable runs, and their bytes.
    pub runs: u64,
    pub bytes: u64,
    /// Runs that were made since the open, and the log in them, in bytes.
    pub runs_written: u64,
    pub log_bytes_written: u64,
    /// Blocks that came from memory, and that were read from the log's files, since the open.
    pub blocks_from_memory: u64,
    pub blocks_from_files: u64,
    /// Runs that wait to be merged, and how long merging has rested for others who want the processors, since the start of who merges.
    pub runs_waiting: u64,
    pub rested: Duration,
    /// A log service merges them, and says so; else this process does.
    pub merged_elsewhere: bool,
    /// Merges since the start of who makes them, and bytes of what they have made.
    pub merges: u64,
    pub merged_bytes: u64,
    /// How far the one is that is under way, 0 to 1; none: there is none.
    pub merge_progress: Option<f64>,
    /// Why runs are not merged now; they wait, and nothing else does.
    pub merge_error: Option<String>,
    /// Log services write it; which of them does, as far as is known.
    pub elsewhere: bool,
    pub archiver: Option<LogArchiver>,
    /// The last error, while it fails.
    pub error: Option<String>,
}

/// What is under way: dropped at any error but one that may pass.
struct Work {
    runs: Runs,
    follower: LogFollower,
    /// The block that was taken last.
    last: Lsn,
    /// A block that was not taken yet.
    pending: Option<LogBlock>,
    /// When the first block was taken that is in no run.
    since: Option<Instant>,
    /// Log in those blocks; how much that was at the last look for more.
    bytes: u64,
    looked_at: u64,
    counted: (u64, u64),
}

#[derive(Default)]
struct Seen {
    archived: Option<Lsn>,
    totals: (u64, u64),
    runs_written: u64,
    log_bytes_written: u64,
    sources: (u64, u64),
    error: Option<String>,
    refused: bool,
    /// Another process writes to it: only a restart goes on.
    taken_over: Option<Error>,
    /// The one that is open.
    archive: Option<Weak<Archive>>,
    /// When the durable position was first seen to be beyond what.
    samples: VecDeque<(Instant, Lsn)>,
    /// When all that was durable is known to be archived by now.
    complete_at: Option<Instant>,
}

/// An archive that log services write.
struct Elsewhere {
    zone: Arc<dyn LogZone>,
    /// Open, beside them.
    open: Mutex<Option<Arc<Archive>>>,
    /// Held while it is looked at, which several threads do: one that was slow must not put what it has found over what is newer.
    looking: Mutex<()>,
    /// When it was looked at last, and what was wrong then.
    looked: Mutex<Option<(Instant, Option<Error>)>>,
    /// When one of them was last known to be at work, or there was nothing to do.
    heard: Mutex<Instant>,
    /// Merges and what was given up, as it was said when the archive was looked at last: a view of before may name runs that are gone.
    steps: Mutex<(u64, u64)>,
}

pub(crate) struct Archiver {
    place: String,
    database: DatabaseId,
    open: OpenStore,
    work: Mutex<Option<Work>>,
    /// Held by whoever changes the archive but for adding runs to it, and while it is opened anew: a step of the one that
    /// was open before would look like another process's.
    changing: Mutex<()>,
    /// None: others write it.
    hold: Option<LogHold>,
    elsewhere: Option<Elsewhere>,
    seen: Mutex<Seen>,
    merger: Merger,
    /// Of the database that this one was made of, which the archive is to name.
    lineage: Option<Arc<Lineage>>,
}

impl Archiver {
    /// Holds the log, and looks for where to go on.
    ///
    /// # Errors
    /// That the archive is not this log's. (One that cannot be reached is none.)
    pub fn start(
        log: &Log,
        database: DatabaseId,
        place: String,
        open: OpenStore,
        lineage: Option<Arc<Lineage>>,
        cpu_percent: u32,
    ) -> Result<Self> {
        let hold = log.hold(HOLDER, log.oldest_lsn())?;
        let this = Self {
            place,
            database,
            open,
            work: Mutex::default(),
            changing: Mutex::default(),
            hold: Some(hold),
            elsewhere: None,
            seen: Mutex::default(),
            merger: Merger::new(cpu_percent),
            lineage,
        };
        match this.connect(log) {
            Ok(work) => *this.work.lock() = Some(work),
            Err(error) if !is_refusal(&error) => {
                tracing::warn!("{} cannot be used now, and is tried again: {error}", this.place);
                this.seen.lock().error = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(this)
    }

    /// Of an archive that log services write.
    pub fn beside(
        database: DatabaseId,
        place: String,
        open: OpenStore,
        cpu_percent: u32,
        zone: &Arc<dyn LogZone>,
    ) -> Self {
        let elsewhere = Elsewhere {
            zone: Arc::clone(zone),
            open: Mutex::default(),
            looking: Mutex::default(),
            looked: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            steps: Mutex::default(),
        };
        Self {
            place,
            database,
            open,
            work: Mutex::default(),
            changing: Mutex::default(),
            hold: None,
            elsewhere: Some(elsewhere),
            seen: Mutex::default(),
            merger: Merger::new(cpu_percent),
            lineage: None,
        }
    }

    /// Looks at what log services have made, where it is time, and waits.
    ///
    /// # Errors
    /// Those of the store; that none of them archives.
    fn follow(&self, log: &Log, elsewhere: &Elsewhere, wait: Duration) -> Result<()> {
        let archiver = elsewhere.zone.archiver();
        let has_grown = {
            let archived = self.seen.lock().archived;
            archiver.as_ref().is_some_and(|told| archived.is_none_or(|archived| archived < told.archived))
        };
        let keeps = archiver.as_ref().and_then(|told| told.keeps.as_ref());
        let steps = keeps.map_or((0, 0), |keeps| (keeps.merges, keeps.given_up.runs));
        let has_changed = steps != *elsewhere.steps.lock();
        let each = if has_grown || has_changed || self.archive().is_none() { NEWS } else { NO_NEWS };
        let last = elsewhere.looked.lock().clone().filter(|(at, _)| at.elapsed() < each);
        let looked = match last {
            Some((_, Some(error))) if !wait.is_zero() => Err(error),
            Some((_, None)) => Ok(()),
            _ => {
                *elsewhere.steps.lock() = steps;
                let looked = self.look_beside(elsewhere);
                *elsewhere.looked.lock() = Some((Instant::now(), looked.as_ref().err().cloned()));
                looked
            }
        };
        let mut seen = self.seen.lock();
        let durable = log.flushed_lsn();
        seen.sample(durable);
        let outcome = looked.and_then(|()| {
            let is_heard = archiver.as_ref().is_some_and(|told| told.silent < SILENT);
            let mut heard = elsewhere.heard.lock();
            if is_heard || seen.archived.is_some_and(|archived| archived >= durable) {
                *heard = Instant::now();
            }
            if heard.elapsed() < SILENT {
                return Ok(());
            }
            let what = "no log service archives the log: it waits in the long-term log";
            Err(Error::new(ErrorKind::Io, what).with_hint("Start the log services with the archive (--archive)."))
        });
        seen.refused = outcome.as_ref().is_err_and(is_refusal);
        seen.error = outcome.as_ref().err().map(Error::to_string);
        drop(seen);
        std::thread::sleep(if wait.is_zero() { LOOK } else { wait });
        outcome
    }

    /// Opens it beside who writes it, or catches up with that.
    fn look_beside(&self, elsewhere: &Elsewhere) -> Result<()> {
        let _looking = elsewhere.looking.lock();
        let known = elsewhere.open.lock().clone();
        let archive = match known.map(|archive| archive.catch_up().map(|()| archive)) {
            Some(Ok(archive)) => archive,
            Some(Err(error)) if error.kind() != ErrorKind::InUse => return Err(error),
            // None yet, or another log service has claimed it.
            _ => {
                let (store, nonce) = (self.open)()?;
                let Some(archive) = Archive::open_beside(store, nonce)? else { return Ok(()) };
                if archive.database() != self.database {
                    return Err(Error::new(
                        ErrorKind::NotADatabase,
                        format!("{} is that of another database", self.place),
                    ));
                }
                *elsewhere.open.lock() = Some(Arc::clone(&archive));
                archive
            }
        };
        let mut seen = self.seen.lock();
        seen.archive = Some(Arc::downgrade(&archive));
        seen.totals = totals(&archive);
        let end = archive.view().end();
        if end.is_some() {
            seen.archived_up_to(end);
        }
        Ok(())
    }

    /// Whether log services write it.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Which of them does, as far as is known.
    pub fn archiver(&self) -> Option<LogArchiver> {
        self.elsewhere.as_ref()?.zone.archiver()
    }

    /// The log service that merges, and what it says of that; none: runs are merged here, or by nobody while none has said that it archives.
    pub fn kept_elsewhere(&self) -> Option<(String, ArchiveKept)> {
        let told = self.archiver()?;
        Some((told.service, told.keeps?))
    }

    /// Whether runs are merged here: they are this process's own, or a log service archives that says that it does not merge.
    pub fn merges_here(&self) -> bool {
        !self.is_elsewhere() || self.archiver().is_some_and(|told| told.keeps.is_none())
    }

    /// The same of giving up what is not promised.
    pub fn gives_up_here(&self) -> bool {
        let keeps_all = |told: LogArchiver| told.keeps.is_none_or(|keeps| keeps.recovery_window.is_none());
        !self.is_elsewhere() || self.archiver().is_some_and(keeps_all)
    }

    /// A run was gone that a reader wanted: others may have merged it, or given it up. Looks at the archive as it is now; false: that is never so here.
    ///
    /// # Errors
    /// Those of looking.
    pub fn look_again(&self) -> Result<bool> {
        let Some(elsewhere) = &self.elsewhere else { return Ok(false) };
        self.look_beside(elsewhere).map(|()| true)
    }

    fn connect(&self, log: &Log) -> Result<Work> {
        self.stop_merging();
        let _changing = self.changing.lock();
        let (store, owner) = (self.open)()?;
        // Looked at before it is taken over: a copy of this database that was started by mistake leaves it alone.
        if let Some(view) = Archive::open_view(Arc::clone(&store), Some(self.database))?
            && view.end().is_some()
        {
            self.check(log, &view)?;
        }
        let runs = Runs::new(Archive::open(store, self.database, owner)?, config());
        let view = runs.archive().view();
        let from = runs.resume_lsn().unwrap_or_else(|| log.oldest_lsn());
        if view.end().is_some() {
            self.check(log, &view)?;
        }
        // Before the first run is written.
        if let Some(lineage) = &self.lineage {
            lineage.name_parent(runs.archive().store(), &view, log.oldest_lsn())?;
        }
        let last = view.last_block()?.map_or(from, |last| last.lsn);
        self.advance(last);
        let follower = log.follow(from)?;
        let mut seen = self.seen.lock();
        seen.archived = Some(from);
        seen.archive = Some(Arc::downgrade(runs.archive()));
        seen.totals = totals(runs.archive());
        Ok(Work { runs, follower, last, pending: None, since: None, bytes: 0, looked_at: 0, counted: (0, 0) })
    }

    /// Whether an archive that is not empty can go on with this log.
    fn check(&self, log: &Log, view: &Arc<View>) -> Result<()> {
        check_positions(view, &self.place, log.oldest_lsn(), log.flushed_lsn())?;
        history::is_of_log(view, &self.place, log)
    }

    /// Takes what is durable, waits for more for as long as `wait`, makes a run when it is time, or at once
    /// if `all`. Returns after [`STEP`] at most.
    ///
    /// # Errors
    /// Those of the store and of the log; what was gathered is then taken again the next time. `Stopped`.
    pub fn step(&self, log: &Log, wait: Duration, all: bool) -> Result<()> {
        if let Some(elsewhere) = &self.elsewhere {
            return self.follow(log, elsewhere, wait);
        }
        if let Some(error) = &self.seen.lock().taken_over {
            // Two that take it from each other again and again would ruin it.
            return Err(error.clone());
        }
        let mut slot = self.work.lock();
        let mut outcome = match &mut *slot {
            Some(work) => self.go_on(log, work, wait, all),
            None => self.connect(log).and_then(|work| self.go_on(log, slot.insert(work), wait, all)),
        };
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::SerializationFailure) {
            // An earlier step of its own was made late: what was gathered is gathered again, from the archive's end of now.
            *slot = None;
            outcome = self.connect(log).and_then(|work| self.go_on(log, slot.insert(work), wait, all));
        }
        let mut seen = self.seen.lock();
        match &outcome {
            Ok(()) => {
                seen.error = None;
                seen.refused = false;
            }
            Err(error) => {
                if !may_pass(error) {
                    *slot = None;
                }
                seen.error = Some(error.to_string());
                seen.refused = is_refusal(error);
                if error.kind() == ErrorKind::InUse {
                    seen.taken_over = Some(error.clone());
                }
            }
        }
        outcome
    }

    fn go_on(&self, log: &Log, work: &mut Work, wait: Duration, all: bool) -> Result<()> {
        let begun = Instant::now();
        let mut none_left = false;
        loop {
            let due = |since: Instant| work.bytes >= RUN_BYTES || since.elapsed() >= DELAY || (all && none_left);
            if work.since.is_some_and(due) {
                self.seal(work)?;
            }
            if none_left || begun.elapsed() >= STEP {
                return Ok(());
            }
            if work.pending.is_none() {
                let gathering = work.since.is_some();
                let mut next = work.follower.next(if all || gathering { Duration::ZERO } else { wait });
                if gathering && !all && matches!(next, Ok(None)) {
                    // Woken by each flush, it would cost every one of them.
                    std::thread::sleep(work.until_next_look(wait));
                    next = work.follower.next(Duration::ZERO);
                }
                self.count(log, work);
                work.pending = next?;
            }
            let Some(block) = &work.pending else {
                none_left = true;
                continue;
            };
            work.runs.take(&block.block())?;
            work.last = block.lsn();
            work.since.get_or_insert_with(Instant::now);
            work.bytes += block.next().0 - block.lsn().0;
            work.pending = None;
        }
    }

    fn seal(&self, work: &mut Work) -> Result<()> {
        let end = work.runs.seal()?;
        let bytes = std::mem::take(&mut work.bytes);
        (work.since, work.looked_at) = (None, 0);
        // The run is durable. Its last block tells the next open that the log is the one that was archived.
        self.advance(work.last);
        let mut seen = self.seen.lock();
        seen.totals = totals(work.runs.archive());
        seen.runs_written += 1;
        seen.log_bytes_written += bytes;
        seen.archived_up_to(end);
        Ok(())
    }

    /// Log below is not needed for it.
    fn advance(&self, lsn: Lsn) {
        if let Some(hold) = &self.hold {
            hold.advance(lsn);
        }
    }

    /// Merges runs, one step; false when there is nothing to merge. Beside [`Archiver::step`], on a thread of its own.
    ///
    /// # Errors
    /// Those of the store; `Corrupt` for a run that is damaged: nothing was changed.
    #[cfg(test)]
    pub fn merge(&self) -> Result<bool> {
        let merged = self.change(|archive| archive.merge(&config(), &mut resurgam_archive::MergePolicy::keep_all()))?;
        Ok(merged.flatten().is_some())
    }

    /// Changes the archive that is open, as the only one beside [`Archiver::step`]; none: it cannot be reached now.
    ///
    /// # Errors
    /// Those of `what`; `InUse` when another process has taken the archive over.
    pub fn change<T>(&self, what: impl FnOnce(&Arc<Archive>) -> Result<T>) -> Result<Option<T>> {
        // Before it is looked which one is open.
        let _changing = self.changing.lock();
        let Some(archive) = self.archive() else { return Ok(None) };
        // Beside others that is done every second (`follow`), and each step finds out whether it was made of the newest manifest.
        let caught_up = if self.is_elsewhere() { Ok(()) } else { archive.catch_up() };
        match caught_up.and_then(|()| what(&archive)) {
            Ok(changed) => {
                self.seen.lock().totals = totals(&archive);
                Ok(Some(changed))
            }
            // Another log service has claimed it: it is opened anew at the next look.
            Err(error) => match &self.elsewhere {
                Some(elsewhere) if error.kind() == ErrorKind::InUse => {
                    *elsewhere.looked.lock() = None;
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// What runs are merged with here.
    pub fn merger(&self) -> &Merger {
        &self.merger
    }

    /// Has a merge that is under way end soon, until the archive is opened anew.
    pub fn stop_merging(&self) {
        if let Some(archive) = self.archive() {
            archive.stop_merges();
        }
    }

    /// The one that is open; none while it cannot be reached.
    pub fn archive(&self) -> Option<Arc<Archive>> {
        self.seen.lock().archive.as_ref().and_then(Weak::upgrade)
    }

    /// Why it takes no more log until somebody does something about it, if that is so.
    pub fn refusal(&self) -> Option<String> {
        let seen = self.seen.lock();
        seen.error.clone().filter(|_| seen.refused)
    }

    /// Whether every page can be made from it: from its first record on (now, or once the log is archived), from where the database was made of another
    /// one, whose archive has what was before, or from its image in the newest of `backups`, which lacks none. And there is nothing wrong with either, as far as is known.
    pub fn has_every_page(&self, log: &Log, backups: Option<&Backups>) -> bool {
        self.seen.lock().error.is_none() && self.reaches_back(log, backups)
    }

    /// The same of what it has by now, whether there is something wrong with it or not.
    fn reaches_back(&self, log: &Log, backups: Option<&Backups>) -> bool {
        let Some(view) = self.view() else { return false };
        let start = if view.start().is_some() { view.start() } else { log.oldest_lsn() };
        if start <= log.config().first_lsn() || self.lineage.as_ref().is_some_and(|lineage| lineage.has_the_rest(start))
        {
            return true;
        }
        // What a repair asks of it as well.
        let covers = |summary: &BackupSummary| {
            view.start().is_some() && view.start() <= summary.begin && summary.end <= view.end() && summary.damaged == 0
        };
        // The archiver asks, which must not wait for the place of the backups.
        backups.and_then(Backups::known).is_some_and(|backup| covers(backup.summary()))
    }

    /// Where it is, in words.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Notes how far the log is, and where blocks came from.
    fn count(&self, log: &Log, work: &mut Work) {
        let sources = work.follower.sources();
        let mut seen = self.seen.lock();
        seen.sources.0 += sources.0 - work.counted.0;
        seen.sources.1 += sources.1 - work.counted.1;
        work.counted = sources;
        seen.sample(log.flushed_lsn());
    }

    /// What is in it now; none while it cannot be reached.
    pub fn view(&self) -> Option<Arc<View>> {
        self.archive().map(|archive| archive.view())
    }

    /// What who merges says of that.
    fn kept(&self, archive: Option<&Archive>, archiver: Option<&LogArchiver>) -> ArchiveKept {
        if let Some(kept) = archiver.and_then(|told| told.keeps.clone()) {
            return kept;
        }
        self.merger.kept(archive, ArchiveKept::default())
    }

    /// What an operator can see of it; `log` is the one that it follows.
    pub fn status(&self, log: &Log) -> ArchiveStatus {
        let archive = self.archive();
        let runs_waiting = archive.as_ref().map_or(0, |archive| archive.runs_waiting(&config()) as u64);
        let archiver = self.archiver();
        let kept = self.kept(archive.as_deref(), archiver.as_ref());
        let durable = log.flushed_lsn();
        let mut seen = self.seen.lock();
        seen.sample(durable);
        let lag_bytes = seen.archived.map_or_else(
            || durable.0 - log.oldest_lsn().0.min(durable.0),
            |archived| durable.0.saturating_sub(archived.0),
        );
        ArchiveStatus {
            place: self.place.clone(),
            state: match (&seen.error, seen.refused) {
                (_, true) => "refused",
                (Some(_), _) => "failing",
                (None, _) if lag_bytes == 0 => "current",
                (None, _) => "archiving",
            },
            archived: seen.archived,
            lag_bytes,
            lag: match seen.samples.front() {
                Some((at, _)) if lag_bytes > 0 => at.elapsed(),
                _ => Duration::ZERO,
            },
            point_age: match seen.complete_at.or(seen.samples.front().map(|(at, _)| *at)) {
                Some(at) if lag_bytes > 0 => at.elapsed(),
                _ => Duration::ZERO,
            },
            runs: seen.totals.0,
            bytes: seen.totals.1,
            runs_written: seen.runs_written,
            log_bytes_written: seen.log_bytes_written,
            blocks_from_memory: seen.sources.0,
            blocks_from_files: seen.sources.1,
            runs_waiting,
            rested: kept.rested,
            merged_elsewhere: archiver.as_ref().is_some_and(|told| told.keeps.is_some()),
            merges: kept.merges,
            merged_bytes: kept.merged_bytes,
            merge_progress: kept.merging.map(|(done, of)| done as f64 / of.max(1) as f64),
            merge_error: kept.merge_error,
            elsewhere: self.is_elsewhere(),
            archiver,
            error: seen.error.clone(),
        }
    }
}

impl Seen {
    /// All below is in durable runs. That is never less than it was.
    fn archived_up_to(&mut self, end: Lsn) {
        let end = self.archived.map_or(end, |archived| archived.max(end));
        self.archived = Some(end);
        while let Some((at, _)) = self.samples.front().filter(|(_, durable)| *durable <= end).copied() {
            self.complete_at = Some(at);
            self.samples.pop_front();
        }
    }

    fn sample(&mut self, durable: Lsn) {
        let is_new = self.archived.is_none_or(|archived| archived < durable)
            && self.samples.back().is_none_or(|(at, last)| *last < durable && at.elapsed() >= SAMPLE);
        if self.archived.is_some_and(|archived| archived >= durable) {
            self.complete_at = Some(Instant::now());
        }
        if is_new {
            // The first stays, which the lag is told by; of the others every second does where there are too many.
            if self.samples.len() >= SAMPLES_MAX {
                let mut keep = false;
                self.samples.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
            self.samples.push_back((Instant::now(), durable));
        }
    }
}

impl Work {
    /// How long to wait for more of a run that is being gathered; no longer than `wait` if that is nothing, or than until it is due.
    fn until_next_look(&mut self, wait: Duration) -> Duration {
        let new = self.bytes - self.looked_at;
        self.looked_at = self.bytes;
        let look = if new > LITTLE { LOOK } else { LOOK_SELDOM };
        let left = DELAY.saturating_sub(self.since.map_or(Duration::ZERO, |since| since.elapsed()));
        if wait.is_zero() { wait } else { look.min(left) }
    }
}

/// Runs, and their bytes.
fn totals(archive: &Archive) -> (u64, u64) {
    let view = archive.view();
    let runs = &view.manifest().runs;
    (runs.len() as u64, runs.iter().map(|run| run.len).sum())
}

/// Whether the archive is not one for this log, or not for this process.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{InUse, InvalidParameter, NewerFormat, NotADatabase, NotInPrerequisiteState, NotSupported};
    let kinds = [InUse, InvalidParameter, NewerFormat, NotADatabase, NotInPrerequisiteState, NotSupported];
    kinds.contains(&error.kind())
}

/// Whether the next try may succeed with what was gathered.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::OutOfMemory)
}

impl Database {
    /// What is seen of the archive; `None` without one.
    pub fn archive_status(&self) -> Option<ArchiveStatus> {
        let inner = self.inner();
        inner.archiver.as_ref().map(|archiver| archiver.status(&inner.log))
    }

    /// How old the newest state is that archive and backups alone give, were data and log lost now; `None`: they give none, because there is no archive,
    /// or one that was begun later than the database, without a backup that it goes on from.
    pub fn recoverable_point_age(&self) -> Option<Duration> {
        let inner = self.inner();
        self.point_age(&inner.archiver.as_ref()?.status(&inner.log))
    }

    fn point_age(&self, status: &ArchiveStatus) -> Option<Duration> {
        let inner = self.inner();
        let archiver = inner.archiver.as_ref()?;
        (status.archived.is_some() && archiver.reaches_back(&inner.log, inner.backups.as_deref()))
            .then_some(status.point_age)
    }

    /// That age as `status` has it, and when it was so: in microseconds since 2000-01-01 UTC, by the clock that commits are stamped with.
    pub fn newest_point(&self, status: &ArchiveStatus) -> Option<(Duration, i64)> {
        let age = self.point_age(status)?;
        let before = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        Some((age, self.inner().vfs.wall_clock_us().saturating_sub(before)))
    }

    /// Archives everything that is durable now: for databases without background threads. Without an archive
    /// nothing happens.
    ///
    /// # Errors
    /// Those of the archive's store, which may be tried again; `Stopped`.
    pub fn archive_now(&self) -> Result<()> {
        let upto = self.inner().log.flushed_lsn();
        while self.archive_status().is_some_and(|status| status.archived.is_none_or(|archived| archived < upto)) {
            self.archive_step(Duration::ZERO, true)?;
        }
        Ok(())
    }

    pub(crate) fn archive_step(&self, wait: Duration, all: bool) -> Result<()> {
        let inner = self.inner();
        let outcome = inner.archiver.as_ref().map_or(Ok(()), |archiver| archiver.step(&inner.log, wait, all));
        self.decide_double_writes();
        outcome
    }

    /// Whether pages are written twice from now on; see [`DoubleWrites`].
    pub(crate) fn decide_double_writes(&self) {
        let inner = self.inner();
        let on = match inner.options.double_writes {
            DoubleWrites::On => true,
            DoubleWrites::Off => false,
            DoubleWrites::Auto => {
                let archiver = inner.archiver.as_ref().filter(|_| inner.options.page_repair);
                !archiver.is_some_and(|archiver| archiver.has_every_page(&inner.log, inner.backups.as_deref()))
            }
        };
        if on != inner.pool.double_writes() {
            inner.pool.set_double_writes(on);
            tracing::info!("pages are written {} from now on", if on { "twice" } else { "once" });
        }
    }

    /// Looks for the newest backup, where it is one that can protect pages.
    pub(crate) fn look_for_backups(&self) {
        let inner = self.inner();
        if let (Some(backups), true) = (&inner.backups, inner.options.double_writes == DoubleWrites::Auto)
            && inner.archiver.is_some()
            && backups.newest().is_ok_and(|newest| newest.is_some())
            && inner.pool.double_writes()
        {
            self.decide_double_writes();
        }
    }

    /// Merges the archive's runs until there is nothing to merge: for databases without background threads.
    ///
    /// # Errors
    /// Those of the archive's store; `Corrupt` for a damaged run.
    pub fn merge_archive(&self) -> Result<()> {
        while self.merge_archive_step()? {}
        Ok(())
    }

    /// At a close: what is left, if that goes well and soon.
    pub(crate) fn archive_the_rest(&self) {
        if self.inner().archiver.as_ref().is_some_and(|archiver| archiver.is_elsewhere()) {
            // It needs nothing of this process.
            return;
        }
        let begun = Instant::now();
        loop {
            let lag = self.archive_status().map_or(0, |status| status.lag_bytes);
            if lag == 0 {
                return;
            }
            let outcome = if begun.elapsed() > CLOSE {
                Err(Error::new(ErrorKind::Io, "it took too long"))
            } else {
                self.archive_step(Duration::ZERO, true)
            };
            if let Err(error) = outcome {
                tracing::warn!("{lag} bytes of log are not archived yet, and will be after the next open: {error}");
                return;
            }
        }
    }
}

/// Whether an archive that is not empty can go on with a log that is kept from `oldest` to `durable`, as far as positions say.
pub(crate) fn check_positions(view: &View, place: &str, oldest: Lsn, durable: Lsn) -> Result<()> {
    let from = view.end();
    if from < oldest {
        return Err(Error::new(
            ErrorKind::NotInPrerequisiteState,
            format!("{place} ends at LSN {from}, and the log is kept from LSN {oldest} on only: what is in between is lost to it"),
        )
        .with_hint("The database ran without it. Name an empty place for a new archive; the old one is good up to there."));
    }
    if from > durable {
        return Err(Error::new(
            ErrorKind::NotInPrerequisiteState,
            format!(
                "{place} ends at LSN {from}, behind the end of the log at LSN {durable}: the log, or the data folder with it, is an old copy"
            ),
        )
        .with_hint("Put the right log there, or name an empty place for a new archive."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use resurgam_archive::MergePolicy;
    use resurgam_base::TxId;
    use resurgam_log::{Group, LogConfig, RecordKind};
    use resurgam_vfs::{SimVfs, Vfs};
    use resurgam_xstore::{FolderStore, StoreResult, Upload};

    use super::*;

    /// Stops at its first read of a run until it is let go.
    struct Gate {
        below: FolderStore,
        armed: AtomicBool,
        reached: AtomicBool,
        open: AtomicBool,
    }

    fn wait(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited for: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    impl Store for Gate {
        fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
            self.below.create(name)
        }
        fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
            if name.starts_with("runs/") && self.armed.swap(false, Ordering::SeqCst) {
                self.reached.store(true, Ordering::SeqCst);
                wait("the gate", || self.open.load(Ordering::SeqCst));
            }
            self.below.read(name, offset, len)
        }
        fn len(&self, name: &str) -> StoreResult<u64> {
            self.below.len(name)
        }
        fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
            self.below.list(prefix)
        }
        fn delete(&self, name: &str) -> StoreResult<()> {
            self.below.delete(name)
        }
        fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
            self.below.sync_deletes(folder)
        }
        fn tidy(&self, folder: &str) -> StoreResult<()> {
            self.below.tidy(folder)
        }
        fn place(&self) -> String {
            self.below.place()
        }
    }

    /// A log, and an archiver of it whose place stops at the first read of a run.
    fn gated(cpu_percent: u32) -> Result<(Arc<Log>, Arc<Gate>, Arc<Archiver>)> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        vfs.make_folder(Path::new("/archive"))?;
        let log = Log::create(Arc::clone(&vfs), Path::new("/log"), LogConfig::default(), 1)?;
        let below = FolderStore::open(Arc::clone(&vfs), Path::new("/archive")).map_err(Error::from)?;
        let gate = Arc::new(Gate {
            below,
            armed: AtomicBool::new(false),
            reached: AtomicBool::new(false),
            open: AtomicBool::new(false),
        });
        let (store, owner) = (Arc::clone(&gate), AtomicU64::new(1));
        let open: OpenStore =
            Box::new(move || Ok((Arc::clone(&store) as Arc<dyn Store>, owner.fetch_add(1, Ordering::SeqCst))));
        let archiver = Archiver::start(&log, [7; 16], "the archive".to_owned(), open, None, cpu_percent)?;
        Ok((log, gate, Arc::new(archiver)))
    }

    /// One more run.
    fn write(log: &Log, archiver: &Archiver) -> Result<()> {
        let mut group = Group::new();
        group.record(RecordKind::Note, TxId::NONE, Lsn::NONE, b"something");
        log.append(&group)?;
        log.flush_all()?;
        archiver.step(log, Duration::ZERO, true)
    }

    /// Runs that come while a merge is under way count for its share of the processors at once, and not when the next one begins.
    #[test]
    fn a_long_merge_has_a_growing_share_of_the_processors() -> Result<()> {
        let (log, gate, archiver) = gated(1)?;
        let write = || write(&log, &archiver);
        for _ in 0..12 {
            write()?;
        }
        let archive = archiver.archive().expect("it is open");
        let least = archiver.merger().how(&archive);
        assert_eq!((least.fan_in, archiver.merger().share()), (32, 0.01), "as on a busy machine, at first");
        gate.armed.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| -> Result<()> {
            let merging = scope.spawn(|| {
                let rest = archiver.merger().rests(&archive);
                let mut policy = MergePolicy { rest: Some(&rest), ..MergePolicy::keep_all() };
                archive.merge(&config(), &mut policy)
            });
            wait("the merge", || gate.reached.load(Ordering::SeqCst));
            for _ in 0..140 {
                write()?;
            }
            // Longer than a piece of a merge is.
            std::thread::sleep(Duration::from_millis(20));
            gate.open.store(true, Ordering::SeqCst);
            let merged = merging.join().expect("the merge")?.expect("it merges");
            assert_eq!(merged.inputs, 12);
            Ok(())
        })?;
        assert_eq!(archiver.merger().share(), 1.0, "it does not rest any more");
        Ok(())
    }

    /// The archive is opened anew after an error while a merge of the one before is under way: neither takes the other
    /// for another process.
    #[test]
    fn it_is_opened_anew_while_a_merge_is_under_way() -> Result<()> {
        let (log, gate, archiver) = gated(100)?;
        let write = || write(&log, &archiver);
        for _ in 0..12 {
            write()?;
        }
        gate.armed.store(true, Ordering::SeqCst);
        let merging = std::thread::spawn({
            let archiver = Arc::clone(&archiver);
            move || archiver.merge()
        });
        wait("the merge", || gate.reached.load(Ordering::SeqCst));
        // As after an error that may not pass.
        *archiver.work.lock() = None;
        std::thread::scope(|scope| -> Result<()> {
            let opening = scope.spawn(write);
            std::thread::sleep(Duration::from_millis(300));
            gate.open.store(true, Ordering::SeqCst);
            merging.join().expect("the merge")?;
            opening.join().expect("the opening")
        })?;
        assert_eq!(archiver.status(&log).state, "current");
        while archiver.merge()? {}
        assert!(archiver.status(&log).runs < 8, "{:?}", archiver.status(&log));
        write()
    }
}
