//! Background threads: write-back, checkpoints, what recovery left to do, cleaning. They
//! hold the database for a step at a time and do not count as its users: one that nobody uses any more goes away.
//!
//! A failure that stops the database shows itself to every user of it; the threads just end. Any
//! other is tried again, and said: see `troubles.rs`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_buffer::{Patience, WriteGoal};

use crate::backup_schedule::{BACKUP, BackupSchedule};
use crate::cleaner_events::CleanerEvents;
use crate::database::{Database, Inner, TICK};
use crate::statistics::Analyzer;

pub(crate) struct Background {
    threads: Vec<JoinHandle<()>>,
    /// Of one that makes backups: it may be in a call to a store that is slow, or does not answer, and needs nothing of a database that is closed.
    backups: Option<JoinHandle<()>>,
}

/// A backup that is to end is waited for so long.
const BACKUP_ENDS: Duration = Duration::from_secs(5);

impl Background {
    pub fn start(inner: &Arc<Inner>) -> Result<Self> {
        let mut threads = Vec::new();
        let start = |name: &str, body: fn(&Weak<Inner>)| {
            let weak = Arc::downgrade(inner);
            std::thread::Builder::new()
                .name(format!("resurgam-{name}"))
                .spawn(move || body(&weak))
                .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {e}")))
        };
        let mut spawn = |name: &str, body: fn(&Weak<Inner>)| -> Result<()> {
            threads.push(start(name, body)?);
            Ok(())
        };
        spawn("writer", writer)?;
        spawn("checkpoint", checkpointer)?;
        spawn("redo", redo)?;
        spawn("cleaner", cleaner)?;
        spawn("free-versions", free_versions)?;
        spawn("undo", undo)?;
        spawn("rebuild", rebuild)?;
        spawn("versions", version_pages)?;
        spawn("restore", restore)?;
        if inner.options.analyze_interval_s > 0.0 {
            spawn("analyze", analyze)?;
        }
        if inner.pool.reads_ahead() > 0 {
            for _ in 0..READ_AHEAD_THREADS {
                spawn("read-ahead", read_ahead)?;
            }
        }
        if inner.archiver.is_some() {
            spawn("archive", archive)?;
            spawn("merge", merge_archive)?;
            if inner.lineage.is_some() {
                spawn("parent", look_at_parent)?;
            }
        }
        let is_wanted = inner.archiver.is_some() && inner.backups.is_some() && !inner.options.backup_interval.is_zero();
        let backups = is_wanted.then(|| start("backup", make_backups)).transpose()?;
        Ok(Self { threads, backups })
    }

    pub fn join(self) {
        let me = std::thread::current().id();
        for thread in self.threads {
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
        let until = Instant::now() + BACKUP_ENDS;
        if let Some(thread) = self.backups.filter(|thread| thread.thread().id() != me) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(TICK);
            }
        }
    }
}

/// The database, while it is wanted.
fn alive(weak: &Weak<Inner>) -> Option<Database> {
    let inner = weak.upgrade()?;
    (!inner.stopping.load(Ordering::SeqCst)).then(|| Database::of_thread(inner))
}

/// What became of a step in the background.
enum Step {
    Done,
    /// It failed; the next try after this pause.
    Pause(Duration),
    /// The database has stopped.
    Stop,
}

impl Database {
    fn judge<T>(&self, what: &'static str, outcome: Result<T>) -> Step {
        match outcome {
            Ok(_) => {
                self.inner().troubles.over(what);
                Step::Done
            }
            Err(error) if error.kind() == ErrorKind::Stopped => Step::Stop,
            Err(error) => Step::Pause(self.inner().troubles.failed(what, &error)),
        }
    }
}

pub(crate) const ARCHIVE: &str = "archiving the log";
pub(crate) const MERGE: &str = "merging runs of the archive";
pub(crate) const PARENT: &str = "seeing to the database that this one was made of";
pub(crate) const EXPIRE: &str = "giving up what no promised point needs of the archive and the backups";
pub(crate) const RESTORE: &str = "restoring files";
pub(crate) const DEVICE: &str = "waiting for a device of pages";
pub(crate) const WRITE_BACK: &str = "writing changed pages";
pub(crate) const CHECKPOINT: &str = "taking a checkpoint";

fn writer(weak: &Weak<Inner>) {
    while let Some(db) = alive(weak) {
        let wanted = db.inner().pool.wait_for_work(TICK);
        let step = match write_pages(&db, wanted) {
            Step::Done => checkpoint_for_space(&db),
            other => other,
        };
        drop(db);
        match step {
            Step::Done => {}
            Step::Pause(length) => {
                pause(weak, length);
            }
            Step::Stop => return,
        }
    }
}

/// Requests for pages ahead that are on their way at the same time.
const READ_AHEAD_THREADS: usize = 2;

/// Asks for the pages that scans will need.
fn read_ahead(weak: &Weak<Inner>) {
    let Some(db) = alive(weak) else { return };
    db.inner().pool.add_ahead_thread();
    drop(db);
    let stopping = Weak::clone(weak);
    let patience = Patience::new(move || match alive(&stopping) {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorKind::Stopped, "the database is being closed")),
    });
    while let Some(db) = alive(weak) {
        patience.during(|| db.inner().pool.work_ahead(TICK));
    }
}

/// Writes pages that would be evicted next, if they are `wanted`, and those that keep the log long.
fn write_pages(db: &Database, wanted: bool) -> Step {
    let inner = db.inner();
    let mut goals = Vec::new();
    inner.repairs.forget_idle();
    if inner.pool.has_repaired_pages() {
        goals.push(WriteGoal::Repaired);
    }
    if wanted {
        goals.push(WriteGoal::Victims);
    }
    // Pages whose changes are older than half of what the log should hold.
    let end = inner.log.end_lsn().0;
    let oldest_allowed = end.saturating_sub(db.log_wanted() / 2);
    if inner.pool.oldest_rec_lsn().is_some_and(|lsn| lsn.0 < oldest_allowed) {
        goals.push(WriteGoal::OlderThan(Lsn(oldest_allowed)));
    }
    for goal in goals {
        match db.judge(WRITE_BACK, inner.pool.write_back(goal)) {
            Step::Done => {}
            other => return other,
        }
    }
    Step::Done
}

/// What was written lets the log go only after a checkpoint; one that is due by volume may come too
/// late for a small bound.
fn checkpoint_for_space(db: &Database) -> Step {
    let log = &db.inner().log;
    let since = log.end_lsn().0.saturating_sub(db.last_checkpoint().0);
    let step = db.log_wanted() / 8;
    // Writers that are slowed down write too little for one to come due by volume.
    if log.bytes_in_use() > db.log_wanted() && (since > step || db.log_releasable() > step) {
        return db.judge(CHECKPOINT, db.checkpoint());
    }
    Step::Done
}

fn checkpointer(weak: &Weak<Inner>) {
    while let Some(db) = alive(weak) {
        let inner = db.inner();
        inner.moves.sweep(&inner.txs);
        let since = inner.log.end_lsn().0.saturating_sub(db.last_checkpoint().0);
        let mut length = TICK;
        if since >= inner.options.checkpoint_log_bytes {
            let started = Instant::now();
            match db.judge(CHECKPOINT, db.checkpoint()) {
                Step::Done => {
                    tracing::debug!("checkpoint after {} MB of log took {:?}", since >> 20, started.elapsed())
                }
                Step::Pause(longer) => length = longer,
                Step::Stop => return,
            }
        }
        drop(db);
        pause(weak, length);
    }
}

/// How often pages are tried again that recovery could not read.
const RETRY_UNREAD: Duration = Duration::from_secs(5);

pub(crate) const REDO: &str = "bringing pages up to date";

/// Sleeps, but not while the database is to go away; false if it is.
fn pause(weak: &Weak<Inner>, length: Duration) -> bool {
    let until = Instant::now() + length;
    while Instant::now() < until {
        if alive(weak).is_none() {
            return false;
        }
        std::thread::sleep(TICK);
    }
    true
}

fn redo(weak: &Weak<Inner>) {
    let Some(db) = alive(weak) else { return };
    let total = db.inner().pool.pending_redo().len();
    let started = Instant::now();
    let mut said = Instant::now();
    drop(db);
    while let Some(db) = alive(weak) {
        let damaged = |_, error: &Error| tracing::error!("recovery passes over a page: {error}");
        match db.inner().pool.redo_some(32, damaged) {
            Ok(0) => {
                db.inner().troubles.over(REDO);
                let first = db.inner().redo_time.lock().replace(started.elapsed()).is_none();
                let pending = db.inner().pool.pending_redo();
                let stuck = pending.stuck();
                if stuck > 0 && first {
                    tracing::error!(
                        "recovery finished but for {stuck} pages that are damaged or cannot be read, whose log is \
                         kept; run \"resurgam check\""
                    );
                } else if stuck == 0 && total > 0 {
                    tracing::info!("recovery finished: {total} pages brought up to date in {:.1?}", started.elapsed());
                }
                db.inner().log.forget_read_blocks();
                let discovered = db.discover_space();
                if let Err(error) = &discovered {
                    tracing::error!("could not read the space maps: {error}");
                }
                // Nobody waits for these. But a device may be well again.
                if pending.unread() == 0 && !discovered.is_err_and(|error| error.kind() == ErrorKind::Io) {
                    return;
                }
                drop(db);
                if !pause(weak, RETRY_UNREAD) {
                    return;
                }
                if let Some(db) = alive(weak) {
                    db.inner().pool.pending_redo().try_unread();
                }
            }
            Ok(left) => {
                db.inner().troubles.over(REDO);
                if said.elapsed() > Duration::from_secs(2) {
                    said = Instant::now();
                    tracing::info!("recovering in the background: {left} of {total} pages to go; the database is open");
                }
            }
            Err(error) if error.kind() == ErrorKind::Stopped => return,
            Err(error) => {
                let length = db.inner().troubles.failed(REDO, &error);
                drop(db);
                pause(weak, length);
            }
        }
    }
}

fn undo(weak: &Weak<Inner>) {
    let started = Instant::now();
    while let Some(db) = alive(weak) {
        match db.judge("undoing a transaction, whose rows stay locked,", db.undo_queued()) {
            Step::Done => db.note_undo_finished(started.elapsed()),
            Step::Stop => return,
            Step::Pause(length) => {
                drop(db);
                pause(weak, length);
                continue;
            }
        }
        db.inner().mode.undo.wait(TICK * 4);
    }
}

/// Makes rows of transactions in doubt readable, until there are no more; what cannot be read is
/// tried again after longer and longer pauses.
fn rebuild(weak: &Weak<Inner>) {
    let mut length = TICK;
    while let Some(db) = alive(weak) {
        db.rebuild_lost();
        if db.inner().prepared.lost.is_empty() {
            return;
        }
        drop(db);
        length = (length * 2).min(Duration::from_secs(60));
        pause(weak, length);
    }
}

/// Keeps version pages ready, so that writers need not allocate them.
fn version_pages(weak: &Weak<Inner>) {
    while let Some(db) = alive(weak) {
        db.inner().versions.wait_for_work(TICK);
        match db.judge("making version pages ready", db.make_version_pages_ready()) {
            Step::Done => {}
            Step::Pause(length) => {
                drop(db);
                pause(weak, length);
            }
            Step::Stop => return,
        }
    }
}

/// Archives what becomes durable.
fn archive(weak: &Weak<Inner>) {
    // It takes a few hundredths of a processor, and lags little without being the first.
    resurgam_vfs::lower_priority();
    while let Some(db) = alive(weak) {
        match db.judge(ARCHIVE, db.archive_step(TICK, false)) {
            Step::Done => {}
            Step::Pause(length) => {
                drop(db);
                pause(weak, length);
            }
            Step::Stop => return,
        }
    }
}

/// Sees to what the database was made of, whose place may take long to answer, or never do so.
fn look_at_parent(weak: &Weak<Inner>) {
    resurgam_vfs::lower_priority();
    const EVERY: Duration = Duration::from_secs(30);
    // At once: until then pages are written twice.
    while let Some(db) = alive(weak) {
        if let Step::Stop = db.judge(PARENT, db.look_at_parent()) {
            return;
        }
        drop(db);
        if !pause(weak, EVERY) {
            return;
        }
    }
}

/// Merges what was archived, and gives up what nobody needs any more, or tells what the log service says that does so; looks for backups.
fn merge_archive(weak: &Weak<Inner>) {
    resurgam_vfs::lower_priority();
    const EVERY: Duration = Duration::from_millis(500);
    let mut expired = Instant::now();
    while let Some(db) = alive(weak) {
        // First: a merge may take long.
        db.look_for_backups();
        let is_due = db.expire_every().is_some_and(|every| expired.elapsed() >= every);
        if is_due {
            expired = Instant::now();
        }
        let (given_up, merged) = db.keep_archive_step(is_due);
        if let Some(given_up) = given_up
            && let Step::Stop = db.judge(EXPIRE, given_up)
        {
            return;
        }
        let length = match db.judge(MERGE, merged) {
            Step::Done => EVERY,
            Step::Pause(length) => length,
            Step::Stop => return,
        };
        drop(db);
        pause(weak, length);
    }
}

/// Makes backups when they are due.
fn make_backups(weak: &Weak<Inner>) {
    if let Some(db) = alive(weak)
        && db.options().recovery_window.is_zero()
    {
        let interval = db.options().backup_interval;
        tracing::warn!("a backup is made every {interval:?}, and all of them stay: there is no recovery window");
    }
    // As do the threads that it starts.
    resurgam_vfs::lower_priority();
    const LOOK: Duration = Duration::from_secs(1);
    let mut schedule = BackupSchedule::default();
    while let Some(db) = alive(weak) {
        let made = db.backup_if_due(&mut schedule);
        let length = match made.map(|outcome| db.judge(BACKUP, outcome)) {
            None | Some(Step::Done) => LOOK,
            Some(Step::Pause(length)) => length.max(LOOK),
            Some(Step::Stop) => return,
        };
        drop(db);
        pause(weak, length);
    }
}

/// Restores what nobody has asked for yet, while a restore is under way. Where processors are short, those come first who ask.
fn restore(weak: &Weak<Inner>) {
    resurgam_vfs::lower_priority();
    const LOOK: Duration = Duration::from_secs(5);
    let mut looked = Instant::now();
    while let Some(db) = alive(weak) {
        let mut length = TICK;
        if !db.inner().pool.is_replaceable() && looked.elapsed() >= LOOK {
            // The archive may be reachable by now, or there may be a backup.
            db.look_at_replaceable();
            looked = Instant::now();
        }
        match db.slow_device() {
            Some(error) => drop(db.inner().troubles.failed(DEVICE, &error)),
            None => db.inner().troubles.over(DEVICE),
        }
        let replaced = db.replace_dead_devices();
        if replaced.is_err() || db.restore_under_way().is_some() {
            let outcome = replaced.and_then(|()| db.restore_step());
            let more = matches!(outcome, Ok(true));
            match db.judge(RESTORE, outcome) {
                Step::Done if more => length = db.restore_rest(),
                Step::Done => {}
                Step::Pause(longer) => length = longer,
                Step::Stop => return,
            }
        }
        drop(db);
        pause(weak, length);
    }
}

fn cleaner(weak: &Weak<Inner>) {
    let mut last = Instant::now();
    let mut first = true;
    while let Some(db) = alive(weak) {
        // A temporary store that is filling up cannot wait.
        let temporary = db.inner().txs.temporary().stats();
        let pressed = temporary.bytes > temporary.bytes_max / 2;
        // Nor what a crash has left, once pages are as they should be.
        let left_over = first && db.recovery().aborted_in_map > 0;
        let interval = if pressed || left_over { 0.05 } else { db.inner().options.cleaner_interval_s.max(0.05) };
        let interval = Duration::from_secs_f64(interval);
        if last.elapsed() >= interval && db.inner().pool.pending_redo().is_caught_up() {
            first = false;
            if let Step::Stop = db.judge("a sweep of the cleaner", db.sweep(false, &|| false)) {
                return;
            }
            if let Step::Stop = db.judge("giving space back", db.cut_if_much()) {
                return;
            }
            last = Instant::now();
        }
        drop(db);
        std::thread::sleep(TICK);
    }
}

pub(crate) const ANALYZE: &str = "analysing tables";

/// Analyses tables that have changed.
fn analyze(weak: &Weak<Inner>) {
    resurgam_vfs::lower_priority();
    let mut again = None;
    while let Some(db) = alive(weak) {
        let interval = Duration::from_secs_f64(db.inner().options.analyze_interval_s.clamp(0.05, 1e6));
        drop(db);
        // What failed is tried again soon: else it would be told of as failing for long after it does.
        if !pause(weak, again.take().unwrap_or(interval)) {
            return;
        }
        let Some(db) = alive(weak) else { return };
        if db.inner().pool.pending_redo().is_caught_up() {
            let is_stopped = || db.inner().stopping.load(Ordering::SeqCst);
            match db.judge(ANALYZE, Analyzer::look(&db, &is_stopped)) {
                Step::Stop => return,
                Step::Pause(pause) => again = Some(pause),
                Step::Done => {}
            }
        }
    }
}

/// Frees off-row versions between (and beside) sweeps, and says what is worth saying about the
/// cleaner.
fn free_versions(weak: &Weak<Inner>) {
    const EVERY: Duration = Duration::from_secs(1);
    let mut events = CleanerEvents::default();
    let mut last = Instant::now();
    while let Some(db) = alive(weak) {
        if last.elapsed() >= EVERY {
            if let Step::Stop = db.judge("freeing version pages", db.free_versions()) {
                return;
            }
            events.look(&db);
            last = Instant::now();
        }
        drop(db);
        std::thread::sleep(TICK);
    }
}
