//! One schedule: lives of a database, each ended by a crash, a kill or a clean close, with
//! faults planted in between, and what must hold after each.
//!
//! ```text
//! open (crash, open again, ...) -> compare with what may be there -> workload -> end
//!   ... -> at last: open, redo, compare, verify, clean, verify again: nothing may leak
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use resurgam_engine::*;
use resurgam_pageserver::Partitions;
use resurgam_vfs::{Failing, FaultPlan, OpenMode, SimConfig, SimVfs, Vfs};
use resurgam_xstore::FolderStore;

use super::Found;
use super::check::{Trouble, check_all, check_table};
use super::client::Client;
use super::model::*;
use super::remote::{Beside, PlantedInPages, folder};
use super::rng::Rng;
use super::sequences::Sequences;
use super::temporary::{PlantedInTemporary, Temporaries};
use super::troubles::{Besides, SPARE, Troubles};
use crate::broken;

/// Where the database lives on the simulated disk.
pub const DIR: &str = "/db";
/// Where a version-store file is, on disks of its own; it is moved from one to the other.
pub const VERSION_FILES: [&str; 2] = ["/disk2/versions", "/disk3/elsewhere"];
/// Where the log is in some schedules: on a disk of its own.
pub const LOG_DIR: &str = "/disk4/log";
/// Where the archive is in some schedules.
pub const ARCHIVE: &str = "/disk5/archive";
/// And where backups are then.
pub const BACKUPS: &str = "/disk6/backups";
/// Where a page server keeps its pages in schedules that have one.
pub const PAGES: &str = "/disk7/pages";
/// Of page servers that have some of the pages each.
const PARTITION_PAGES: u64 = 8;
/// Where a cache of pages is in schedules that have one.
pub const CACHE: &str = "/disk8/cache";
/// Steps from one backup to the next.
const BACKUP_EVERY: u64 = 41;
/// The same where the database's own threads run: a backup then waits for the archive's, which takes its time.
const BACKUP_EVERY_BESIDE: u64 = 97;
/// Steps from one look for something to archive to the next.
const ARCHIVE_EVERY: u64 = 7;
/// Steps from one time that all pages leave memory to the next, where there is a cache that they go to.
const EVICT_EVERY: u64 = 3;
const CLIENTS_MAX: usize = 5;
/// What is under way where a replacement of a dead device fails.
const REPLACING: &str = "replacing a dead device";
/// See [`Met::hardly`].
const FULL_DISKS: f64 = 0.01;

/// What a schedule does, besides its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Lives before the last one.
    pub lives: u64,
    /// Steps of a life.
    pub steps: u64,
    /// Every sync reports success and does nothing: the harness must notice.
    pub skip_sync: bool,
    /// The double-write area is emptied before each recovery: the harness must notice.
    pub skip_double_write: bool,
    /// Once the database is open, syncs of the version-store file do nothing: the harness must
    /// notice.
    pub skip_version_sync: bool,
    /// Every schedule has an archive, which names its objects before they are durable: the harness must notice.
    pub early_names: bool,
    /// The first disk of the version store holds this many bytes, always.
    pub small_disk: Option<u64>,
    /// Sweeps on threads of their own beside the clients' steps, in some schedules. Such a schedule is
    /// not a function of its seed alone.
    pub sweeps_beside: bool,
    /// The database's own threads run. Such a schedule is not a function of its seed alone, either.
    pub background: bool,
    /// A page server has the pages, and no file of the database does.
    pub page_server: bool,
    /// There are so many of them, and each has some of the pages; 0: it is decided by the seed.
    pub page_servers: u32,
    /// And it makes this mistake.
    pub planted: PlantedInPages,
    /// Every schedule with a page server has a cache of pages, which makes this mistake; none: every other one has one, which makes none.
    pub cache: Option<resurgam_rbpex::Planted>,
    /// What goes wrong besides, from a generator of its own.
    pub besides: Besides,
    /// Every schedule has temporary tables, with this mistake; none: a share of the seeds has them, without one.
    pub temporary: Option<PlantedInTemporary>,
    /// Says every step on stderr.
    pub trace: bool,
}

impl Plan {
    /// What goes wrong all the time.
    fn faults(&self) -> FaultPlan {
        FaultPlan {
            skip_sync: self.skip_sync,
            small_disk: self.small_disk.map(|bytes| ("/disk2".into(), bytes)),
            skip_sync_of: self.skip_version_sync.then(|| VERSION_FILES[0].into()),
            ..FaultPlan::default()
        }
    }
    /// Of each page server.
    fn partitions(&self) -> Vec<Partitions> {
        let of = |number| Partitions::new(PARTITION_PAGES, self.page_servers, &[number]).expect("partitions");
        (0..self.page_servers).map(of).collect()
    }
    pub fn is_broken(&self) -> bool {
        self.skip_sync || self.skip_double_write || self.skip_version_sync
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            lives: 3,
            steps: 70,
            skip_sync: false,
            skip_double_write: false,
            skip_version_sync: false,
            early_names: false,
            small_disk: None,
            sweeps_beside: true,
            background: false,
            page_server: false,
            page_servers: 0,
            planted: PlantedInPages::None,
            cache: None,
            besides: Besides::BySeed,
            temporary: None,
            trace: false,
        }
    }
}

/// What a schedule met, to know that schedules meet something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub opens: u64,
    pub crashes: u64,
    pub crashes_in_recovery: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pub went_back: u64,
    pub waits: u64,
    pub in_doubt: u64,
    pub disk_full: u64,
    pub device_errors: u64,
    pub stopped: u64,
    pub pages_redone: u64,
    pub pages_restored: u64,
    pub definitions: u64,
    /// Views made, changed and dropped.
    pub views: u64,
    pub objects: u64,
    /// Values that sequences gave.
    pub sequence_values: u64,
    /// Temporary tables made, and rows written to them; schemas of them that a session dropped at its end, and that a restart left.
    pub temporary_made: u64,
    pub temporary_rows: u64,
    pub temporary_ended: u64,
    pub temporary_left: u64,
    pub held_views_read: u64,
    pub version_pages: u64,
    pub removed_by_readers: u64,
    pub jumps: u64,
    /// Rows that were deleted several to a record.
    pub in_runs: u64,
    /// And inserted so.
    pub in_insert_runs: u64,
    /// Temporary files of sorts.
    pub sort_files: u64,
    pub undone: u64,
    pub undo_records: u64,
    pub undone_at_open: u64,
    pub mode_changes: u64,
    /// Transactions prepared; of them committed and rolled back; found in doubt by an open.
    pub prepared: u64,
    pub prepared_committed: u64,
    pub prepared_rolled_back: u64,
    pub found_in_doubt: u64,
    /// Preparing or resolving one whose outcome was not known.
    pub prepared_uncertain: u64,
    /// Lives with a version-store file, and moves of it.
    pub version_files: u64,
    pub version_files_moved: u64,
    pub version_disk_full: u64,
    /// Pushes that needed a page and found none ready.
    pub found_none: u64,
    /// Version pages freed without a sweep.
    pub freed_apart: u64,
    /// Sweeps that ran beside clients' steps; crashes while one ran.
    pub sweeps_beside: u64,
    pub crashes_in_sweeps: u64,
    /// Runs that were archived, and archives compared with the log.
    pub runs: u64,
    pub archives: u64,
    /// Images that were logged since their pages had many records, in archives.
    pub images: u64,
    /// Backups that were made and compared with the database at the end.
    pub backups: u64,
    /// Pages that could not be read after a crash, and pages that were rebuilt.
    pub spoilt: u64,
    pub rebuilt: u64,
    /// Pages of page servers that were compared with what archive and backups make.
    pub pages_compared: u64,
    /// Pages that came from the cache, and those that a page server had to be asked about.
    pub cached: u64,
    pub confirmed: u64,
    /// Copies that were there after a restart, and those that were out of date.
    pub copies_recovered: u64,
    pub copies_out_of_date: u64,
    /// Times that a store began to do something wrong, or did while a database was opened; opens that this kept from their end.
    pub store_troubles: u64,
    pub opens_in_vain: u64,
    /// Writes that were to be lost or misdirected; those that were noticed.
    pub lies: u64,
    pub lies_noticed: u64,
    /// Lives with a device that was to die; schedules whose data was on a spare one at last.
    pub deaths: u64,
    pub moved: u64,
    /// Lives with a device that was to hang; calls to it that were done late, and those of them for which another file was in use by
    /// then; calls to stores that were done late.
    pub hangs: u64,
    pub late_writes: u64,
    pub late_elsewhere: u64,
    pub late_objects: u64,
    /// Times that space was given back, that files became shorter by it, that holes were made, and pages that moved for it.
    pub gave_back: u64,
    pub cut: u64,
    pub punched: u64,
    pub moved_down: u64,
    /// Leaves whose rows were put on others before that.
    pub packed: u64,
    /// Transactions that gave rows their entries in indexes that were made beside the clients, and indexes that were finished.
    pub index_steps: u64,
    pub indexes_finished: u64,
}

impl Met {
    /// What was met so much more seldom than when this was written that the schedules have become blind to it.
    /// (How often a schedule met each then, in whichever mode it is more seldom.)
    pub fn hardly(&self, schedules: u64) -> Vec<String> {
        [
            ("crashes", self.crashes, 2.3),
            ("crashes in recovery", self.crashes_in_recovery, 2.0),
            ("commits", self.commits, 12.0),
            ("rollbacks", self.rollbacks, 13.0),
            ("savepoints gone back to", self.went_back, 0.6),
            ("waits", self.waits, 2.4),
            ("outcomes in doubt", self.in_doubt, 0.025),
            ("full disks", self.disk_full, FULL_DISKS),
            ("device errors", self.device_errors, 0.11),
            ("stops", self.stopped, 0.03),
            ("pages redone", self.pages_redone, 32.0),
            ("pages restored", self.pages_restored, 4.2),
            ("definitions changed", self.definitions, 1.5),
            ("views changed", self.views, 0.21),
            ("objects changed", self.objects, 0.2),
            ("values of sequences", self.sequence_values, 40.0),
            ("temporary tables made", self.temporary_made, 8.0),
            ("temporary rows", self.temporary_rows, 50.0),
            ("sessions with temporary tables ended", self.temporary_ended, 1.8),
            ("temporary schemas left by a restart", self.temporary_left, 1.8),
            ("old views read", self.held_views_read, 0.45),
            ("version pages", self.version_pages, 0.8),
            ("rows removed by readers", self.removed_by_readers, 1.0),
            ("jumps over deleted rows", self.jumps, 0.02),
            ("rows deleted in runs", self.in_runs, 0.065),
            ("rows inserted in runs", self.in_insert_runs, 15.0),
            ("undone", self.undone, 2.5),
            ("changes of the mode", self.mode_changes, 0.45),
            ("prepared and committed", self.prepared_committed, 2.3),
            ("prepared and rolled back", self.prepared_rolled_back, 2.3),
            ("found in doubt", self.found_in_doubt, 1.0),
            ("version-store files moved", self.version_files_moved, 0.38),
            ("crashes in sweeps", self.crashes_in_sweeps, 0.35),
            ("backups", self.backups, 0.5),
            ("images logged", self.images, 13.0),
            ("pages that cannot be read", self.spoilt, 2.2),
            ("pages rebuilt", self.rebuilt, 0.12),
        ]
        .into_iter()
        // By chance none of forty that are expected is met less than ten times.
        .filter(|(_, met, rate)| rate * schedules as f64 > 40.0 && (*met as f64) < rate * schedules as f64 / 4.0)
        .map(|(what, met, rate)| {
            format!("{what}: {met} in {schedules} schedules, {:.0} expected", rate * schedules as f64)
        })
        .collect()
    }

    pub fn add(&mut self, o: &Met) {
        self.opens += o.opens;
        self.crashes += o.crashes;
        self.crashes_in_recovery += o.crashes_in_recovery;
        self.commits += o.commits;
        self.rollbacks += o.rollbacks;
        self.went_back += o.went_back;
        self.waits += o.waits;
        self.in_doubt += o.in_doubt;
        self.disk_full += o.disk_full;
        self.device_errors += o.device_errors;
        self.stopped += o.stopped;
        self.pages_redone += o.pages_redone;
        self.pages_restored += o.pages_restored;
        self.definitions += o.definitions;
        self.views += o.views;
        self.objects += o.objects;
        self.sequence_values += o.sequence_values;
        self.temporary_made += o.temporary_made;
        self.temporary_rows += o.temporary_rows;
        self.temporary_ended += o.temporary_ended;
        self.temporary_left += o.temporary_left;
        self.held_views_read += o.held_views_read;
        self.version_pages += o.version_pages;
        self.removed_by_readers += o.removed_by_readers;
        self.jumps += o.jumps;
        self.in_runs += o.in_runs;
        self.in_insert_runs += o.in_insert_runs;
        self.sort_files += o.sort_files;
        self.undone += o.undone;
        self.undo_records += o.undo_records;
        self.undone_at_open += o.undone_at_open;
        self.mode_changes += o.mode_changes;
        self.prepared += o.prepared;
        self.prepared_committed += o.prepared_committed;
        self.prepared_rolled_back += o.prepared_rolled_back;
        self.found_in_doubt += o.found_in_doubt;
        self.prepared_uncertain += o.prepared_uncertain;
        self.version_files += o.version_files;
        self.version_files_moved += o.version_files_moved;
        self.version_disk_full += o.version_disk_full;
        self.found_none += o.found_none;
        self.freed_apart += o.freed_apart;
        self.sweeps_beside += o.sweeps_beside;
        self.crashes_in_sweeps += o.crashes_in_sweeps;
        self.runs += o.runs;
        self.archives += o.archives;
        self.images += o.images;
        self.backups += o.backups;
        self.spoilt += o.spoilt;
        self.rebuilt += o.rebuilt;
        self.pages_compared += o.pages_compared;
        self.cached += o.cached;
        self.confirmed += o.confirmed;
        self.copies_recovered += o.copies_recovered;
        self.copies_out_of_date += o.copies_out_of_date;
        self.store_troubles += o.store_troubles;
        self.opens_in_vain += o.opens_in_vain;
        self.lies += o.lies;
        self.lies_noticed += o.lies_noticed;
        self.deaths += o.deaths;
        self.moved += o.moved;
        self.hangs += o.hangs;
        self.late_writes += o.late_writes;
        self.late_elsewhere += o.late_elsewhere;
        self.late_objects += o.late_objects;
        self.gave_back += o.gave_back;
        self.cut += o.cut;
        self.punched += o.punched;
        self.index_steps += o.index_steps;
        self.indexes_finished += o.indexes_finished;
        self.moved_down += o.moved_down;
        self.packed += o.packed;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    PowerLoss,
    Sync,
    Write,
    Read,
    DiskFull,
    /// The disk of the version store only.
    VersionDiskFull,
    /// A file cannot be read, or written, for a while. Nothing of it may stop the database.
    Device,
}

/// What is around a database of which the schedule has more than the database itself: other tiers, a network.
pub trait Beyond: Send + Sync {
    /// Whether an error of `what` is explained by it. `Some(true)`: the database has stopped for it.
    fn explains(&self, error: &Error, what: &str) -> Option<bool>;
}

pub struct World {
    pub db: Database,
    pub beside: Option<Arc<Beside>>,
    /// There is more around the database.
    pub beyond: Option<Arc<dyn Beyond>>,
    pub page_servers: u32,
    pub vfs: SimVfs,
    pub model: Model,
    pub clients: Vec<Client>,
    /// Rows that a write changed and took back.
    pub taken_back: BTreeSet<(String, i64)>,
    pub held_views: Vec<(ReadView, Arc<Table>, Arc<TableModel>)>,
    /// Indexes that are made beside the clients, by id.
    pub builds: Vec<(u32, IndexBuild)>,
    pub rng: Rng,
    pub serial: i64,
    pub generation: u64,
    /// Row numbers are mostly below this.
    pub numbers: u64,
    pub waits: u64,
    pub fault: Fault,
    /// What goes wrong besides, all the time.
    pub always: FaultPlan,
    /// What goes wrong besides, from a generator of its own.
    pub troubles: Troubles,
    /// From a generator of their own, too.
    pub sequences: Sequences,
    pub temporaries: Temporaries,
    /// With an archive nothing of the log goes, so that all of it can be compared at the end.
    pub hold: Option<LogHold>,
    /// Steps of this life.
    pub turn: u64,
    /// Sweeps that run beside the clients.
    pub sweeper: Option<Sweeper>,
    /// The database answers no more; only a restart helps.
    pub dead: bool,
    pub trace: bool,
    pub met: Met,
}

/// A thread that sweeps again and again until it is dropped or stopped, or meets an error.
pub struct Sweeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Sweeper {
    fn start(db: &Database) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (db, told) = (db.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut sweeps = 0;
            while !told.load(Ordering::Relaxed) {
                match db.clean_unless(&|| told.load(Ordering::Relaxed)) {
                    Ok(_) => sweeps += 1,
                    Err(error) if error.kind() == ErrorKind::Cancelled => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(sweeps)
        });
        Self { stop, thread: Some(thread) }
    }
    fn is_at_work(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
    /// How many sweeps it made. A panic in one is a finding.
    fn stop(&mut self) -> Found<Result<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Ok(0)) };
        thread.join().map_err(|panic| {
            let what = panic.downcast_ref::<String>().cloned();
            format!("a sweep panicked: {}", what.unwrap_or_default())
        })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

pub fn options(rng: &mut Rng) -> Options {
    let versions = match rng.below(4) {
        0 => VersionCaps { in_row: false, ..VersionCaps::default() },
        1 => VersionCaps { diff_bytes_max: 24, record_bytes_max: 200, ..VersionCaps::default() },
        _ => VersionCaps::default(),
    };
    Options {
        buffer_bytes: 64 * limits::PAGE_SIZE,
        // The smallest that a block of the default size fits.
        log_segment_bytes: 264 << 10,
        versions,
        accelerated_database_recovery: match std::env::var("RESURGAM_MODE").as_deref() {
            Ok("traditional") => false,
            Ok("accelerated") => true,
            _ => !rng.one_in(3),
        },
        short_rollback_operations: [0, 3, 200, 200][rng.below(4) as usize],
        temporary_version_bytes_max: if rng.one_in(4) { 128 << 10 } else { 1 << 30 },
        version_store_path: rng.one_in(2).then(|| VERSION_FILES[0].into()),
        version_store_bytes_max: if rng.one_in(8) { rng.range(4, 24) * limits::PAGE_SIZE as u64 } else { 0 },
        version_pages_ready: [0, 1, 4, 16][rng.below(4) as usize],
        // Tables are small here.
        met_ghosts: GhostLimits { cleaned_from: 2, noted_from: 2, range_from: 1 },
        background: false,
        cleaner_unit_pages: 16,
        ..Options::default()
    }
}

fn open(vfs: &SimVfs, options: &Options, plan: &Plan) -> Result<(Database, Option<Arc<Beside>>)> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut options = options.clone();
    let cache = plan.cache.map(|planted| {
        // Hardly as many pages as there are: some have to go.
        let mut cache = resurgam_rbpex::Config::new(CACHE.into(), 20 * (limits::PAGE_SIZE as u64 + 32));
        (cache.queue_pages, cache.background, cache.patience) = (12, false, std::time::Duration::ZERO);
        cache.planted = planted;
        cache
    });
    let beside =
        plan.page_server.then(|| Arc::new(Beside::new(Arc::clone(&vfs), plan.planted, plan.partitions(), cache)));
    if let Some(beside) = &beside {
        options.pages = Some(PageServiceHandle(Arc::clone(beside) as Arc<dyn PageService>));
    }
    if plan.early_names {
        let store = FolderStore::open(Arc::clone(&vfs), Path::new(ARCHIVE)).map_err(Error::from)?;
        options.archive_store = Some(StoreHandle(Arc::new(store.rename_before_sync())));
    }
    let in_another = options.page_repair;
    let db = Database::open_with(vfs, Path::new(DIR), options, |_| {})?;
    // As long as a schedule lasts, and without a draw: the seeds stay what they were.
    Ok((if in_another { db.in_database(70_000) } else { db }, beside))
}

impl World {
    /// A life of a database that was just opened, on this disk; nothing goes wrong yet.
    pub fn new(db: Database, vfs: SimVfs, model: Model, carried: Carried, rng: Rng) -> Self {
        let Carried { met, serial, generation, troubles, sequences, temporaries } = carried;
        Self {
            db,
            beside: None,
            beyond: None,
            page_servers: 0,
            vfs,
            model,
            clients: Vec::new(),
            taken_back: BTreeSet::new(),
            held_views: Vec::new(),
            builds: Vec::new(),
            rng,
            serial,
            generation,
            numbers: 60,
            waits: 0,
            fault: Fault::None,
            always: FaultPlan::default(),
            troubles,
            sequences,
            temporaries,
            hold: None,
            turn: 0,
            sweeper: None,
            dead: false,
            trace: false,
            met,
        }
    }

    pub fn log(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("  {}", what());
        }
    }

    /// The page server of this life.
    fn pages(&self) -> Option<Arc<super::remote::Pages>> {
        self.beside.as_ref()?.now.lock().clone()
    }

    /// Whether an error is explained by the faults of this schedule. Marks the client as
    /// good for rolling back only, and the database as dead where it is.
    pub fn judge(&mut self, at: usize, error: Error, what: &str) -> Found<()> {
        if let Some(client) = self.clients.get_mut(at) {
            client.failed = true;
        }
        self.judge_any(error, what)
    }

    pub fn judge_any(&mut self, error: Error, what: &str) -> Found<()> {
        self.log(|| format!("{what}: {error:?}"));
        if self.vfs.power_lost() {
            self.dead = true;
            return Ok(());
        }
        if let Some(stopped) = self.beyond.as_ref().and_then(|beyond| beyond.explains(&error, what)) {
            self.dead |= stopped;
            self.met.stopped += u64::from(stopped);
            return Ok(());
        }
        if let Some(stopped) = self.troubles.explains(&error, what) {
            self.dead |= stopped;
            self.met.stopped += u64::from(stopped);
            // The background would.
            if error.kind() == ErrorKind::Io && !stopped && self.troubles.spare && what != REPLACING {
                return self.db.replace_dead_devices().or_else(|error| self.judge_any(error, REPLACING));
            }
            return Ok(());
        }
        match (error.kind(), self.fault) {
            (ErrorKind::Stopped, Fault::Sync | Fault::Write) => {
                self.dead = true;
                self.met.stopped += 1;
                Ok(())
            }
            (ErrorKind::Io, Fault::Sync | Fault::Write | Fault::Read) => Ok(()),
            (ErrorKind::Io, Fault::Device) => {
                self.met.device_errors += 1;
                Ok(())
            }
            // It is well again, and not replaced yet: the background would do that, and has to succeed. Ending a
            // transaction needs no page.
            (ErrorKind::Io, _)
                if error.message().contains("a device is dead")
                    && !["commit", "rollback", REPLACING].iter().any(|never| what.starts_with(never)) =>
            {
                self.met.device_errors += 1;
                self.db.replace_dead_devices().or_else(|error| self.judge_any(error, REPLACING))
            }
            // The one read that fails was of what says whose the log is; the next try is to succeed.
            (ErrorKind::NotInPrerequisiteState, Fault::Read)
                if error.message().contains("its folder cannot be read")
                    && !["commit", "rollback"].iter().any(|never| what.starts_with(never)) =>
            {
                self.met.device_errors += 1;
                Ok(())
            }
            (ErrorKind::DiskFull, Fault::DiskFull) => {
                self.met.disk_full += 1;
                Ok(())
            }
            // Of the temporary version store.
            (ErrorKind::OutOfMemory, _) if !self.db.is_recovery_accelerated() => Ok(()),
            // The version file's disk has room for it once, and its device is dead: there is none for what replaces it.
            (ErrorKind::DiskFull, Fault::Sync | Fault::Write | Fault::Read | Fault::Device)
                if self.always.small_disk.is_some() && error.message().contains("no replacement could be made") =>
            {
                self.met.device_errors += 1;
                Ok(())
            }
            // Nothing but a write that needs an off-row version may meet it; ending a
            // transaction, reading and maintenance go on.
            (ErrorKind::DiskFull, fault)
                if (fault == Fault::VersionDiskFull
                    || self.always.small_disk.is_some()
                    || self.db.options().version_store_bytes_max > 0)
                    && ![
                        "commit",
                        "rollback",
                        "going back",
                        "check",
                        "sweep",
                        "read",
                        "finish",
                        "write back",
                        "start",
                    ]
                    .iter()
                    .any(|never| what.starts_with(never)) =>
            {
                if error.hint().is_none() || error.detail().is_none() || !error.message().contains("version store") {
                    broken!("{what}: says too little: {error:?}");
                }
                self.met.version_disk_full += 1;
                Ok(())
            }
            (ErrorKind::DeadlockDetected, _) if self.clients.iter().any(|c| c.parked.is_some()) => Ok(()),
            _ => broken!("{what}: {error:?} (planted: {:?})", self.fault),
        }
    }

    fn commit(&mut self, at: usize) -> Found<()> {
        let client = self.clients.swap_remove(at);
        let durability = if self.rng.one_in(4) { Durability::Async } else { Durability::Sync };
        self.log(|| format!("client {at}: commit {durability:?} as {:?}", client.tx.id()));
        let result = client.tx.commit(durability).and_then(CommitTicket::wait);
        let (own, ddl) = (client.own.clone(), client.changed_definitions);
        drop(client);
        match result {
            Ok(()) => {
                self.met.commits += 1;
                if !own.is_empty() {
                    self.model.committed = own.over(&self.model.committed);
                    self.met.definitions += u64::from(ddl);
                    if durability == Durability::Sync || ddl {
                        self.model.durable()
                    } else {
                        self.model.not_waited_for()
                    }
                }
                Ok(())
            }
            // It could not go back to a savepoint on a full disk, and is rolled back.
            Err(error)
                if error.kind() == ErrorKind::InvalidTransactionState
                    && self.fault == Fault::DiskFull
                    && error.message().contains("went back to a savepoint") =>
            {
                self.met.disk_full += 1;
                Ok(())
            }
            Err(error) => {
                // A full disk is found out before anything is written.
                if error.kind() != ErrorKind::DiskFull {
                    self.model.in_doubt(&own);
                    self.met.in_doubt += 1;
                    self.dead = true;
                }
                self.judge_any(error, "commit")
            }
        }
    }

    fn roll_back(&mut self, at: usize) -> Found<()> {
        let client = self.clients.swap_remove(at);
        self.log(|| format!("client {at}: rollback of {:?}", client.tx.id()));
        self.met.rollbacks += 1;
        if self.rng.one_in(3) {
            drop(client); // dropping it is rolling back
            return Ok(());
        }
        match client.tx.rollback() {
            Ok(()) => Ok(()),
            Err(error) => self.judge_any(error, "rollback"),
        }
    }

    fn set_savepoint(&mut self, at: usize) -> Found<()> {
        self.log(|| format!("client {at}: savepoint"));
        let client = &mut self.clients[at];
        client.bulk = None;
        match client.tx.savepoint() {
            Ok(savepoint) => {
                // Sometimes the one before is released.
                if self.rng.one_in(4) {
                    client.savepoints.pop();
                }
                client.savepoints.push((savepoint, client.own.clone(), client.inserted.clone()));
                Ok(())
            }
            Err(error) => self.judge(at, error, "savepoint"),
        }
    }

    /// Back to one of its savepoints; those after it are gone.
    fn back_to_savepoint(&mut self, at: usize) -> Found<()> {
        let count = self.clients[at].savepoints.len() as u64;
        let to = if self.rng.one_in(2) { count - 1 } else { self.rng.below(count) } as usize;
        self.log(|| format!("client {at}: back to savepoint {to} of {count}"));
        let client = &mut self.clients[at];
        client.savepoints.truncate(to + 1);
        let (savepoint, own, inserted) = client.savepoints[to].clone();
        client.bulk = None;
        client.parked = None;
        client.retry = None;
        client.failed = false;
        client.own = own;
        client.inserted = inserted;
        self.met.went_back += 1;
        match client.tx.rollback_to(savepoint) {
            Ok(()) => Ok(()),
            Err(error) => self.judge(at, error, "going back to a savepoint"),
        }
    }

    fn read_held(&mut self) -> Found<()> {
        if self.held_views.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(self.held_views.len() as u64) as usize;
        self.log(|| "read through a view held".into());
        let (view, table, expected) = &self.held_views[at];
        let outcome = check_table(view, table, expected, false);
        if self.rng.one_in(2) {
            self.held_views.swap_remove(at);
        }
        self.met.held_views_read += 1;
        match outcome {
            Ok(()) => Ok(()),
            Err(Trouble::Broken(what)) => broken!("through an old view: {what}"),
            // A definition that was changed since may be refused.
            Err(Trouble::Failed(error)) if error.kind() == ErrorKind::DefinitionChanged => {
                self.held_views.clear();
                Ok(())
            }
            Err(Trouble::Failed(error)) => self.judge_any(error, "reading through an old view"),
        }
    }

    /// Changes the mode, or tries to: writers and old views keep it waiting.
    fn change_mode(&mut self) -> Found<()> {
        let on = !self.db.is_recovery_accelerated();
        if self.db.options().pages.is_some() {
            return match self.db.set_accelerated_recovery(false, &|| true) {
                Err(error) if error.kind() == ErrorKind::NotSupported => Ok(()),
                other => broken!("the traditional mode with page servers: {other:?}"),
            };
        }
        let looks = std::sync::atomic::AtomicU32::new(0);
        let patience = if self.rng.one_in(2) { 0 } else { 6 };
        self.log(|| format!("change of the mode: accelerated {on}"));
        let cancelled = || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= patience;
        let result = self.db.set_accelerated_recovery(on, &cancelled);
        match result {
            Ok(()) if !self.db.prepared().is_empty() => broken!("the mode was changed with transactions in doubt"),
            Ok(()) => {
                self.met.mode_changes += 1;
                self.model.durable();
                Ok(())
            }
            Err(error)
                if error.kind() == ErrorKind::NotInPrerequisiteState
                    && self.clients.iter().any(|c| c.gid.is_some()) =>
            {
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
            Err(error) => self.judge_any(error, "change of the mode"),
        }
    }

    fn give_back(&mut self) -> Result<()> {
        let packed = self.db.pack()?;
        self.log(|| format!("packed {packed} leaves"));
        self.met.packed += packed;
        let given = self.db.give_back()?;
        self.log(|| format!("gave back: {given:?}"));
        self.met.gave_back += 1;
        self.met.cut += u64::from(given.bytes_cut > 0);
        self.met.punched += u64::from(given.bytes_punched > 0);
        self.met.moved_down += given.pages_moved;
        Ok(())
    }

    pub fn step(&mut self) -> Found<()> {
        self.turn += 1;
        self.troubles.step(&mut self.met);
        self.troubles.count_late(&self.vfs, &mut self.met);
        self.step_of_sequences()?;
        if self.dead {
            return Ok(());
        }
        self.step_of_temporaries()?;
        if self.dead {
            return Ok(());
        }
        self.step_of_indexes()?;
        if self.dead {
            return Ok(());
        }
        let archives = self.hold.is_some() || self.beyond.is_some();
        if archives && self.turn.is_multiple_of(ARCHIVE_EVERY) {
            let merge = self.turn.is_multiple_of(3 * ARCHIVE_EVERY);
            let outcome = self.db.archive_now().and_then(|()| if merge { self.db.merge_archive() } else { Ok(()) });
            self.log(|| format!("archive: {:?}", self.db.archive_status()));
            if let Err(error) = outcome {
                return self.judge_any(error, "archive");
            }
        }
        if self.troubles.gives_back(8)
            && let Err(error) = self.give_back()
        {
            return self.judge_any(error, "giving space back");
        }
        let is_cached = self.beside.as_ref().is_some_and(|beside| beside.cached.lock().is_some());
        if (is_cached || self.beyond.is_some() || self.troubles.reads_again()) && self.turn.is_multiple_of(EVICT_EVERY)
        {
            // All fits in memory: nothing would leave it, and come back.
            if let Err(error) = self.db.write_back() {
                return self.judge_any(error, "write back");
            }
            self.db.evict_pages();
        }
        let every = if self.db.options().background { BACKUP_EVERY_BESIDE } else { BACKUP_EVERY };
        if archives && self.turn.is_multiple_of(every) {
            let outcome = self.db.backup(self.turn.is_multiple_of(3 * every), &|| false);
            self.log(|| format!("backup: {outcome:?}"));
            // What it needs of the archive may be out of reach with the rest.
            match outcome {
                Err(error)
                    if error.kind() == ErrorKind::NotInPrerequisiteState
                        && (self.fault != Fault::None || self.beyond.is_some() || self.troubles.is_out_of_reach()) => {}
                Err(error) => return self.judge_any(error, "backup"),
                Ok(_) => {}
            }
        }
        if self.db.stats().undo_queue > 0
            && self.rng.one_in(3)
            && let Err(error) = self.db.finish_recovery()
        {
            return self.judge_any(error, "undo of what could not be undone");
        }
        // Who waited and waits no more tries again.
        for at in 0..self.clients.len() {
            if self.clients[at].retry.is_some()
                && !self.clients[at].is_parked()?
                && let Some(op) = self.clients[at].retry.take()
            {
                return self.write(at, op, StatementKind::PointWrite);
            }
        }
        // Statements have mostly ended before anything else happens: then writers that are idle
        // hold no snapshot, and versions go that others pushed. (Not those that go on, whose views
        // are held here.)
        if !self.rng.one_in(4) {
            self.clients.iter().for_each(|client| client.tx.end_statement());
        }
        let choice = self.rng.below(100);
        if choice < 9 {
            let what = self.rng.below(9);
            if self.rng.one_in(12) {
                return self.change_mode();
            }
            self.log(|| format!("maintenance {what}"));
            let (name, result) = match what {
                0 | 1 => ("checkpoint", self.db.checkpoint()),
                2 | 3 => ("write back", self.db.write_back().map(|_| ())),
                4 | 5 if self.sweeper.is_some() => return self.stop_sweeper(),
                4 | 5 if self.sweeps_beside() && self.rng.one_in(2) => {
                    self.sweeper = Some(Sweeper::start(&self.db));
                    return Ok(());
                }
                4 | 5 => ("sweep", self.db.clean_now().map(|report| self.log(|| format!("{report:?}")))),
                // Once to let go of pages being filled, once to learn whose pages a restart has found,
                // once to free.
                6 | 7 => {
                    let freed = (0..4).try_fold(0, |sum, _| self.db.free_versions().map(|freed| sum + freed));
                    ("sweep of version pages only", freed.map(|freed| self.met.freed_apart += freed))
                }
                _ => ("finishing recovery", self.db.finish_recovery().and_then(|()| self.db.restore_step().map(drop))),
            };
            if let Err(error) = result {
                return self.judge_any(error, name);
            }
            if what < 2 {
                self.model.durable();
            }
            return Ok(());
        }
        if choice < 12 {
            return self.read_held();
        }
        if self.clients.is_empty() || (self.clients.len() < CLIENTS_MAX && self.rng.one_in(8)) {
            let isolation = if self.rng.one_in(2) { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
            self.clients.push(Client::begin(&self.db, isolation));
        }
        let at = self.rng.below(self.clients.len() as u64) as usize;
        if self.clients[at].gid.is_some() {
            return if self.rng.one_in(6) { self.resolve(at) } else { Ok(()) };
        }
        if self.clients[at].failed {
            let back = !self.dead && !self.clients[at].savepoints.is_empty() && self.rng.one_in(2);
            return if back { self.back_to_savepoint(at) } else { self.roll_back(at) };
        }
        if self.clients[at].parked.is_some() {
            // Mostly patient.
            return if self.rng.one_in(12) { self.roll_back(at) } else { Ok(()) };
        }
        match self.rng.below(100) {
            0..=59 => self.random_write(at),
            60..=72 => self.random_read(at),
            73..=79 => self.random_ddl(at),
            80..=82 => self.set_savepoint(at),
            83..=84 if !self.clients[at].savepoints.is_empty() => self.back_to_savepoint(at),
            83..=90 => self.commit(at),
            91..=93 => self.prepare(at),
            _ => self.roll_back(at),
        }
    }

    fn is_explained(&self, error: &Error, what: &str) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| beyond.explains(error, what).is_some())
    }

    /// Compares what recovery left with the states that it may leave, and takes the one
    /// that it is. False: power was lost again.
    pub fn adopt(&mut self, thorough: bool) -> Found<bool> {
        let mut first = None;
        for candidate in self.model.candidates.clone().into_iter().rev() {
            match check_all(&self.db, &candidate, thorough) {
                Ok(()) => {
                    if !self.look_at_sequences()? || !self.look_at_temporaries()? {
                        return Ok(false);
                    }
                    self.model = Model { candidates: vec![candidate.clone()], committed: candidate };
                    self.take_up_prepared();
                    return Ok(true);
                }
                Err(Trouble::Broken(what)) => {
                    first.get_or_insert(what);
                }
                Err(Trouble::Failed(_)) if self.vfs.power_lost() => return Ok(false),
                Err(Trouble::Failed(error)) if self.is_explained(&error, "read") => return Ok(false),
                Err(Trouble::Failed(error)) => broken!("after recovery: {error:?}"),
            }
        }
        broken!("after recovery ({} states possible): {}", self.model.candidates.len(), first.unwrap_or_default())
    }

    /// Whether sweeps may run beside the clients in this schedule.
    fn sweeps_beside(&self) -> bool {
        self.db.options().cleaner_threads > 0
    }

    fn stop_sweeper(&mut self) -> Found<()> {
        let Some(mut sweeper) = self.sweeper.take() else { return Ok(()) };
        match sweeper.stop()? {
            Ok(sweeps) => {
                self.met.sweeps_beside += sweeps;
                Ok(())
            }
            Err(error) => self.judge_any(error, "sweep beside the clients"),
        }
    }

    pub fn verify(&mut self, when: &str) -> Found<()> {
        self.stop_sweeper()?;
        match self.db.verify() {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => broken!("{when}: {}", problems.join("; ")),
            Err(error) => broken!("{when}: verify failed: {error:?}"),
        }
    }

    fn plant(&mut self) {
        let mut plan = self.always.clone();
        let version_file = self.db.stats().version_store_file;
        self.fault = match self.rng.below(15) {
            0..=6 => {
                plan.crash_after_ops = Some(self.rng.range(1, 160));
                Fault::PowerLoss
            }
            7 => {
                plan.fail_sync_at = Some(self.rng.range(1, 60));
                Fault::Sync
            }
            8 => {
                plan.fail_write_at = Some(self.rng.range(1, 90));
                Fault::Write
            }
            9 => {
                plan.fail_read_at = Some(self.rng.range(1, 40));
                Fault::Read
            }
            10 => {
                // Mostly so little that a page or a segment does not fit any more.
                let room = if self.rng.one_in(4) { 300_000 } else { 12_000 };
                plan.capacity_bytes = Some(self.used_bytes() + self.rng.below(room));
                Fault::DiskFull
            }
            // A disk never shrinks.
            11 if version_file.is_some() && self.always.small_disk.is_none() && !self.troubles.spare => {
                let more = self.rng.below(60_000);
                plan.small_disk = version_file.as_deref().and_then(Path::parent).map(|disk| {
                    let used = self.vfs.open(&version_file.clone().unwrap_or_default(), OpenMode::ReadOnly);
                    (disk.to_path_buf(), used.and_then(|file| file.len()).unwrap_or(0) + more)
                });
                Fault::VersionDiskFull
            }
            12 | 13 => {
                let (file, reads, writes, syncs) = [
                    ("doublewrite", false, true, false),
                    ("doublewrite", false, false, true),
                    ("data", false, true, false),
                    ("data", true, false, false),
                    ("control", false, true, false),
                ][self.rng.below(5) as usize];
                plan.failing = vec![Failing { path: Path::new(DIR).join(file), reads, writes, syncs }];
                Fault::Device
            }
            _ => Fault::None,
        };
        self.set_faults(plan);
    }

    /// Those of this life, and what goes wrong besides.
    fn set_faults(&mut self, mut plan: FaultPlan) {
        let with_archive = self.db.options().archive.is_some();
        self.troubles.plant(&mut plan, &self.vfs, with_archive, &mut self.met);
        self.log(|| format!("faults: {plan:?}"));
        self.vfs.set_faults(plan);
    }

    /// Some pages of the data file cannot be read any more.
    fn spoil(&mut self) -> Result<()> {
        let path = match self.db.options().pages {
            Some(_) => {
                // Of several page servers one of the files.
                let count = self.page_servers as usize;
                let dir = folder(self.turn as usize % count, count);
                let mut names = self.vfs.fork(1).list(Path::new(&dir))?;
                names.retain(|name| name.starts_with("pages"));
                let Some(name) = names.get(self.turn as usize / count % names.len().max(1)) else { return Ok(()) };
                Path::new(&dir).join(name)
            }
            None => self.troubles.data(&self.vfs),
        };
        let file = self.vfs.fork(1).open(&path, resurgam_vfs::OpenMode::ReadOnly)?;
        let mut page = vec![0; limits::PAGE_SIZE];
        let mut used = Vec::new();
        for at in 1..file.len()? / limits::PAGE_SIZE as u64 {
            let read = file.read_at(&mut page, at * limits::PAGE_SIZE as u64);
            if read.is_ok() && page.iter().any(|byte| *byte != 0) {
                used.push(at * limits::PAGE_SIZE as u64);
            }
        }
        // A number of the schedule's own, without a draw from it: the seeds stay what they were.
        let mut at = self.turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for _ in 0..(at >> 60) {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if let Some(from) = used.get((at >> 33) as usize % used.len().max(1)) {
                self.vfs.make_unreadable(&path, *from..from + 1 + (at >> 20) % limits::PAGE_SIZE as u64)?;
                self.met.spoilt += 1;
            }
        }
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        let mut total = 0;
        let mut archive: Vec<String> = ["runs", "manifests"].map(|folder| format!("{ARCHIVE}/{folder}")).into();
        let backups = format!("{BACKUPS}/backups");
        for name in self.vfs.list(Path::new(&backups)).unwrap_or_default() {
            archive.push(format!("{backups}/{name}"));
        }
        archive.push(backups);
        let own = [DIR, &format!("{DIR}/log"), LOG_DIR, "/disk2", "/disk3", PAGES].map(str::to_owned);
        let own = own.into_iter().chain((0..self.page_servers as usize).map(|number| folder(number, 2)));
        for dir in own.chain(archive) {
            for name in self.vfs.list(Path::new(&dir)).unwrap_or_default() {
                let path = format!("{dir}/{name}");
                if let Ok(file) = self.vfs.open(Path::new(&path), resurgam_vfs::OpenMode::ReadOnly) {
                    total += file.len().unwrap_or(0);
                }
            }
        }
        total
    }

    pub fn carry(self) -> Carried {
        let Self { met, serial, generation, troubles, sequences, temporaries, .. } = self;
        Carried { met, serial, generation, troubles, sequences, temporaries }
    }

    pub fn forget_everyone(&mut self) {
        self.forget_temporaries();
        self.troubles.restart();
        self.sweeper = None;
        self.hold = None;
        self.clients.clear();
        self.held_views.clear();
        self.builds.clear();
    }
}

/// What goes on from one life to the next besides the disk and the model.
pub struct Carried {
    pub met: Met,
    pub serial: i64,
    pub generation: u64,
    pub troubles: Troubles,
    pub sequences: Sequences,
    pub temporaries: Temporaries,
}

/// Opens, with crashes in the middle of it, until it is open and compared.
fn open_again(
    carried: Carried,
    mut vfs: SimVfs,
    model: Model,
    options: &Options,
    plan: &Plan,
    rng: &mut Rng,
    calm: bool,
) -> Found<World> {
    let Carried { mut met, mut serial, mut generation, mut troubles, mut sequences, mut temporaries } = carried;
    let mut model = model;
    for attempt in 0.. {
        let planted = !calm && attempt < 12 && rng.one_in(2);
        let mut faults = FaultPlan { skip_sync_of: None, ..plan.faults() };
        if planted {
            faults.crash_after_ops = Some(rng.range(1, 50));
        }
        vfs.set_faults(faults.clone());
        if plan.trace {
            eprintln!("open, attempt {attempt}, {faults:?}");
        }
        if plan.skip_double_write {
            let path = Path::new(DIR).join("doublewrite");
            if let Ok(file) = vfs.open(&path, resurgam_vfs::OpenMode::ReadWrite) {
                let _ = file.write_at(&[0; 4096], 0);
            }
        }
        met.opens += 1;
        let crashed = |vfs: &SimVfs, met: &mut Met| {
            met.crashes_in_recovery += 1;
            vfs.crash()
        };
        let mut options = options.clone();
        match troubles.open(&vfs, &mut options) {
            Ok(()) => {}
            Err(_) if vfs.power_lost() => {
                vfs = crashed(&vfs, &mut met);
                continue;
            }
            Err(error) => broken!("opening the stores: {error:?}"),
        }
        if !calm {
            troubles.before_open();
        }
        let (db, beside) = match open(&vfs, &options, plan) {
            Ok(opened) => opened,
            Err(_) if vfs.power_lost() => {
                troubles.restart();
                vfs = crashed(&vfs, &mut met);
                continue;
            }
            Err(error) if troubles.explains(&error, "open") == Some(false) => {
                met.opens_in_vain += 1;
                troubles.restart();
                vfs = vfs.kill();
                continue;
            }
            Err(error) => broken!("open: {error:?}"),
        };
        troubles.heal();
        let hold = match options.archive {
            None => None,
            Some(_) => match db.hold_log("the test", db.log_status().oldest) {
                Ok(hold) => Some(hold),
                Err(error) => broken!("holding the log: {error:?}"),
            },
        };
        met.pages_redone += db.recovery().pages_to_redo;
        met.undone_at_open += db.recovery().transactions_to_undo;
        met.pages_restored += db.recovery().pages_restored;
        let carried = Carried { met, serial, generation, troubles, sequences, temporaries };
        let mut world = World::new(db, vfs.clone(), model, carried, Rng::new(rng.next()));
        (world.beside, world.page_servers, world.hold) = (beside, plan.page_servers, hold);
        (world.always, world.trace) = (plan.faults(), plan.trace);
        world.fault = if planted { Fault::PowerLoss } else { Fault::None };
        // Trap 3: checkpoints, sweeps and writes while redo is unfinished, then a crash.
        let mut alive = true;
        if world.sweeps_beside() && rng.one_in(3) {
            world.sweeper = Some(Sweeper::start(&world.db));
        }
        for _ in 0..rng.below(if planted { 12 } else { 3 }) {
            let outcome = match rng.below(7) {
                6 => (0..3).try_for_each(|_| world.db.free_versions().map(drop)),
                0 | 1 => world.db.checkpoint(),
                2 => world.db.write_back().map(|_| ()),
                3 => world.db.clean_now().map(|_| ()),
                4 if world.troubles.gives_back(2) => world.db.finish_recovery().and_then(|()| world.give_back()),
                4 => world.db.finish_recovery(),
                _ => match world.adopt(false) {
                    Ok(true) => Ok(()),
                    Ok(false) => {
                        alive = false;
                        break;
                    }
                    Err(what) => return Err(what),
                },
            };
            if let Err(error) = outcome {
                if world.vfs.power_lost() {
                    alive = false;
                    break;
                }
                broken!("just after recovery: {error:?}");
            }
        }
        // Half of the planted crashes hit now, whatever is left to be done.
        if alive && planted && rng.one_in(2) {
            alive = false;
        }
        if alive && world.adopt(rng.one_in(4))? {
            // What sweeps meet from here on must be explained by the faults of this life.
            world.stop_sweeper()?;
            if !world.vfs.power_lost() {
                world.vfs.set_faults(plan.faults());
                world.fault = Fault::None;
                return Ok(world);
            }
        }
        model = world.model.clone();
        (met, serial, generation) = (world.met, world.serial, world.generation);
        (troubles, sequences, temporaries) = (world.troubles, world.sequences, world.temporaries);
        troubles.restart();
        met.crashes_in_sweeps += u64::from(world.sweeper.as_ref().is_some_and(Sweeper::is_at_work));
        vfs = crashed(&vfs, &mut met);
    }
    broken!("unreachable")
}

/// Runs one schedule. The error says what was broken.
pub fn run(seed: u64, plan: &Plan) -> Found<Met> {
    let mut rng = Rng::new(seed);
    let small_disk = (!plan.is_broken() && rng.one_in(6)).then(|| rng.range(5, 40) * limits::PAGE_SIZE as u64);
    // No draw: the seeds stay what they were.
    let page_servers = if plan.page_servers == 0 { [1, 3, 1, 2][seed as usize % 4] } else { plan.page_servers };
    let cache = plan.cache.or_else(|| (seed % 3 != 1).then(Default::default)).filter(|_| plan.page_server);
    let plan = &Plan { small_disk, page_servers, cache, ..plan.clone() };
    let mut options = options(&mut rng);
    if plan.sweeps_beside && !plan.is_broken() && rng.one_in(3) {
        options.cleaner_threads = 3;
    }
    options.background = plan.background;
    // No draw: the seeds stay what they were.
    options.log_dir = (seed.is_multiple_of(3) || plan.besides.has_log_folder()).then(|| LOG_DIR.into());
    options.archive =
        (plan.early_names || plan.besides.has_archive() || seed % 4 == 1 && !plan.is_broken()).then(|| ARCHIVE.into());
    if plan.page_server {
        options.archive = Some(ARCHIVE.into());
        options.accelerated_database_recovery = true;
        options.version_store_path = None;
    }
    // Few pages have many records here.
    options.archive_records_per_page_max = [256, 5, 2, 12][(seed / 4) as usize % 4];
    options.backups = options.archive.is_some().then(|| BACKUPS.into());
    options.backup_part_bytes = 40_000;
    // Indexes and tables are made by merging runs of a few rows.
    if seed % 4 < 2 && !plan.is_broken() && plan.besides != Besides::Nothing {
        options.build_bytes = 60;
    }
    // Several flushes at once, which become durable in any order.
    if seed % 5 < 2 && !plan.is_broken() && plan.besides != Besides::Nothing {
        // Threads make them themselves where there are any.
        let shuffled = if plan.background { 0 } else { seed };
        (options.log_flights, options.log_flights_shuffled) = (2 + (seed / 5) as usize % 4, shuffled);
    }
    options.replacement_patience = std::time::Duration::from_millis(100);
    options.log_wait_max =
        if options.archive.is_some() { std::time::Duration::from_secs(5) } else { options.log_wait_max };
    // Calls to the devices of pages go through threads of their own.
    if seed % 7 == 3 {
        options.device_timeout = std::time::Duration::from_secs(120);
    }
    // What is planted there it would mend. With an archive besides nothing is written twice.
    options.page_repair = !plan.is_broken() && (seed.is_multiple_of(2) || seed % 8 == 5);
    match plan.besides {
        Besides::LiesUnnoticed => options.page_repair = true,
        Besides::StaleDevice | Besides::LateInUse => options.page_repair = false,
        _ => {}
    }
    let mut vfs =
        SimVfs::with_config(SimConfig { seed: rng.next(), sector_bytes: if rng.one_in(2) { 512 } else { 4096 } });
    for disk in VERSION_FILES.iter().filter_map(|file| Path::new(file).parent()).chain([
        Path::new("/disk4"),
        Path::new("/disk5"),
        Path::new("/disk6"),
        Path::new("/disk7"),
        Path::new("/disk8"),
    ]) {
        vfs.make_folder(disk).map_err(|e| e.to_string())?;
    }
    if plan.skip_version_sync {
        options.version_store_path = Some(VERSION_FILES[0].into());
        options.versions.in_row = false;
        options.version_store_bytes_max = 0;
    }
    let mut model = Model::new();
    let troubles = Troubles::of(seed, plan, &mut options);
    if troubles.spare {
        vfs.make_folder(Path::new(SPARE)).map_err(|e| e.to_string())?;
    }
    let sequences = Sequences::new(seed, !plan.is_broken());
    // Without a draw, and not in the schedules whose seeds are known by what they once found: they stay what they were.
    let has_temporaries = !plan.is_broken() && plan.besides != Besides::Nothing && seed % 4 != 3;
    let temporaries =
        Temporaries::new(seed, plan.temporary.is_some() || has_temporaries, plan.temporary.unwrap_or_default());
    let mut carried = Carried { met: Met::default(), serial: 1000, generation: 0, troubles, sequences, temporaries };
    for life in 0..plan.lives {
        let mut world = open_again(carried, vfs.clone(), model, &options, plan, &mut rng, false)?;
        if rng.one_in(5) {
            if let Err(error) = world.db.finish_recovery() {
                broken!("finishing recovery: {error:?}");
            }
            world.verify("after recovery")?;
        }
        world.numbers = [8, 60, 400][rng.below(3) as usize];
        if plan.besides == Besides::GivesBack {
            // Tables of several leaves, of which rows go here and there.
            world.numbers = 600;
        }
        if world.sweeps_beside() && rng.one_in(2) {
            world.sweeper = Some(Sweeper::start(&world.db));
        }
        if !plan.is_broken() && life > 0 || rng.one_in(3) {
            world.plant();
        } else if !plan.is_broken() {
            world.set_faults(world.always.clone());
        }
        if plan.is_broken() {
            world.vfs.set_faults(plan.faults());
            world.fault = Fault::None;
        }
        let steps = rng.range(plan.steps / 4, plan.steps * 2);
        for _ in 0..steps {
            if world.dead {
                break;
            }
            world.step()?;
            if world.vfs.power_lost() {
                world.dead = true;
            }
            if matches!(world.fault, Fault::DiskFull | Fault::VersionDiskFull | Fault::Device) && world.rng.one_in(25) {
                // Space is found, or the device is well again: everything must go on.
                world.stop_sweeper()?;
                world.vfs.set_faults(world.troubles.stays(&world.vfs, world.always.clone()));
                world.fault = Fault::None;
            }
        }
        if !world.dead && world.troubles.ends_with_checkpoint() {
            let archives = world.troubles.archives_before();
            let all = || -> Result<()> {
                while world.db.write_back()? > 0 {}
                if archives {
                    world.db.archive_now()?;
                }
                world.db.checkpoint()
            };
            if let Err(error) = all() {
                world.judge_any(error, "checkpoint at the end")?;
            } else {
                world.model.durable();
            }
        }
        if world.troubles.is_restored_at_once() && !world.dead {
            let _ = world.db.finish_restore().and_then(|()| world.db.write_back());
            if world.troubles.ends_as_checkpointed() {
                let _ = world.db.checkpoint();
            }
        }
        world.met.lies_noticed += world.db.stats().pool.lost_writes;
        world.met.waits += world.waits;
        world.met.runs += world.db.archive_status().map_or(0, |status| status.runs_written);
        let stats = world.db.stats();
        world.met.rebuilt += stats.pool.repaired_pages;
        world.met.cached += stats.pool.cached_pages;
        world.met.confirmed += stats.pool.confirmed_pages;
        let cache = world.beside.as_ref().and_then(|beside| beside.cached.lock().clone());
        if let Some(cache) = cache {
            let status = cache.status();
            world.met.copies_recovered += status.recovered;
            world.met.copies_out_of_date += status.out_of_date;
        }
        world.met.undone += stats.transactions.undone;
        world.met.undo_records += stats.undo_records;
        world.met.version_pages += stats.versions.pages;
        let cleaner = world.db.cleaner_status();
        world.met.removed_by_readers += cleaner.totals.removed_by_readers;
        world.met.jumps += cleaner.reader_jumps;
        world.met.in_runs += world.db.stats().rows_deleted_in_runs;
        world.met.in_insert_runs += world.db.stats().rows_inserted_in_runs;
        world.met.sort_files += world.db.stats().sort_files;
        world.met.found_none += stats.versions.found_none;
        world.met.version_files += u64::from(stats.version_store_file.is_some());
        let versions_died = world.troubles.dies(&["/disk2", "/disk3"]);
        let end = rng.below(8);
        world.log(|| format!("end of life {life}: {end}, dead {}", world.dead));
        vfs = if !world.dead && end == 0 && world.fault != Fault::DiskFull {
            world.stop_sweeper()?;
            world.vfs.set_faults(world.troubles.stays(&world.vfs, plan.faults()));
            // A thread of the background, or what was not asked after, may have met the end of the power behind the last step.
            let lost = world.vfs.power_lost();
            if let Err(error) = world.db.close() {
                if !lost
                    && !matches!(world.fault, Fault::Sync | Fault::Write | Fault::Read)
                    && world.troubles.explains(&error, "close").is_none()
                {
                    broken!("close: {error:?}");
                }
            } else if !lost {
                world.model.durable();
            }
            world.forget_everyone();
            world.vfs.end_calls();
            let crashes = rng.one_in(2);
            if lost || crashes { world.vfs.crash() } else { world.vfs.clone() }
        } else if end == 1 && !world.vfs.power_lost() {
            world.vfs.kill()
        } else {
            world.met.crashes += 1;
            // Then the medium has sectors that cannot be read. (A page server has what was on them from the archive, or, as long as that has
            // nothing, from the log.)
            let spoilt = options.archive.is_some() && options.page_repair && !plan.is_broken();
            if spoilt && let Err(error) = world.spoil() {
                broken!("spoiling sectors: {error:?}");
            }
            world.met.crashes_in_sweeps += u64::from(world.sweeper.as_ref().is_some_and(Sweeper::is_at_work));
            world.vfs.crash()
        };
        world.forget_everyone();
        model = world.model.clone();
        // Recorded: it need not be given again.
        if seed.is_multiple_of(2) {
            options.log_dir = None;
        }
        options.versions = if rng.one_in(3) { self::options(&mut rng).versions } else { options.versions };
        // Nor is a file moved to a disk that is too small for it, or one whose device died: another may have been about to take its place, and
        // what is put elsewhere then is refused as an old copy.
        let may_move = plan.small_disk.is_none() && !versions_died;
        if !plan.is_broken() && may_move && !plan.page_server && !world.troubles.spare {
            next_place(&mut options, stats.version_store_file.as_deref(), &vfs, &mut rng, &mut world.met)
                .map_err(|e| format!("moving the version store: {e:?}"))?;
        }
        if plan.trace {
            eprintln!("version store: {:?}, then {:?}", stats.version_store_file, options.version_store_path);
        }
        carried = world.carry();
        carried.troubles.mistake(&vfs)?;
    }
    let mut world = open_again(carried, vfs, model, &options, plan, &mut rng, true)?;
    let pages = world.pages();
    let versions = finish(&mut world)?;
    world.met.lies_noticed += world.db.stats().pool.lost_writes;
    let (data, lied) = (world.troubles.data(&world.vfs), world.troubles.lied);
    // In the background, after a sweep, the ends of what is used are lowered.
    let gave_back = world.troubles.gave_back || plan.background;
    world.met.moved += u64::from(data != Path::new(DIR).join("data"));
    if let Some(pages) = pages {
        let vfs: Arc<dyn Vfs> = Arc::new(world.vfs.clone());
        world.met.pages_compared += super::remote::compare(&vfs, &pages, Lsn(options.log_segment_bytes))?;
        world.met.archives += 1;
        return Ok(world.met);
    }
    if options.archive.is_some() {
        let World { vfs, met, .. } = &mut world;
        let own = vfs.exists(Path::new(LOG_DIR)).unwrap_or(false).then(|| Path::new(LOG_DIR));
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let compared =
            super::archived::compare(&vfs, Path::new(DIR), own, options.log_segment_bytes, Path::new(ARCHIVE))?;
        let (_, runs, chains) = match compared {
            Some(compared) => compared,
            // A thread can have taken a checkpoint after the open, before the test held the log.
            None if plan.background => return Ok(world.met),
            None => broken!("the beginning of the log is gone"),
        };
        let max = options.archive_records_per_page_max;
        if chains.longest >= max {
            broken!(
                "{} records of a page follow each other and none makes it anew, with {max} at most",
                chains.longest
            );
        }
        met.archives += 1;
        met.images += chains.images;
        met.runs += runs as u64;
        let places = super::backed_up::Places {
            data: &data,
            gave_back,
            lied,
            versions: versions.as_deref(),
            archive: Path::new(ARCHIVE),
            backups: Path::new(BACKUPS),
        };
        for name in super::backed_up::complete(&vfs, places.backups)? {
            super::backed_up::compare(&vfs, &places, &name)?;
            met.backups += 1;
        }
    }
    Ok(world.met)
}

/// Where the next life has its version store: as recorded, at a new place (then the file is
/// moved there), or, if there was none, perhaps in a file from now on.
fn next_place(options: &mut Options, file: Option<&Path>, vfs: &SimVfs, rng: &mut Rng, met: &mut Met) -> Result<()> {
    options.version_store_path = match file {
        None => rng.one_in(4).then(|| VERSION_FILES[0].into()),
        Some(file) if rng.one_in(4) => {
            let to = Path::new(VERSION_FILES[usize::from(file == Path::new(VERSION_FILES[0]))]);
            vfs.rename(file, to)?;
            for path in [file, to] {
                vfs.sync_dir(path.parent().unwrap_or(path))?;
            }
            met.version_files_moved += 1;
            Some(to.to_path_buf())
        }
        Some(file) => rng.one_in(2).then(|| file.to_path_buf()),
    };
    Ok(())
}

/// At last: everything redone, compared, verified, cleaned; nothing may leak. Returns where the version store is.
pub fn finish(world: &mut World) -> Found<Option<PathBuf>> {
    let failed = |what: &str, error: Error| format!("at last, {what}: {error:?}");
    world.db.finish_recovery().map_err(|e| failed("finishing recovery", e))?;
    world.adopt(true)?;
    world.verify("at last")?;
    world.resolve_all()?;
    world.drop_temporaries()?;
    for _ in 0..5 {
        world.db.clean_now().map_err(|e| failed("cleaning", e))?;
        // Something must move for the horizon to be seen to move.
        let tx = world.db.begin(Isolation::ReadCommitted);
        tx.commit(Durability::Sync).map_err(|e| failed("commit", e))?.wait().map_err(|e| failed("commit", e))?;
    }
    world.verify("after cleaning")?;
    // A device that could not be read has been replaced: what is left of it is made now.
    world.db.finish_restore().map_err(|e| failed("restoring files", e))?;
    world.adopt(true)?;
    if world.troubles.gives_back(1) {
        // All of it twice: what is free by now is given back, and the rest stays as it is.
        for _ in 0..2 {
            world.give_back().map_err(|e| failed("giving space back", e))?;
            world.verify("after giving space back")?;
            world.db.write_back().map_err(|e| failed("writing back", e))?;
            world.db.evict_pages();
            world.adopt(true)?;
        }
    }
    let stats = world.db.stats();
    if stats.versions.pages != 0 {
        broken!("after cleaning, {} version pages are left", stats.versions.pages);
    }
    if stats.transactions.aborted_in_map != 0 {
        broken!("after cleaning, {} aborted transactions are not forgotten", stats.transactions.aborted_in_map);
    }
    // What an entry names counts as owned: one that is never carried out is a leak that nothing else shows.
    let entries = world.db.pending_frees_len().map_err(|e| failed("reading the pending frees", e))?;
    if entries != 0 {
        broken!("after cleaning, {entries} pending frees are left");
    }
    // What could not be read may have been replaced until now.
    let versions = world.db.stats().version_store_file;
    world.db.close().map_err(|e| failed("close", e))?;
    Ok(versions)
}
