//! Opening, creating and closing a database.
//!
//! ```text
//! DIR/lock           held while a process has the database open
//! DIR/control        where the last checkpoint is
//! DIR/data           pages; page 0 is the boot page
//! DIR/doublewrite    torn-write protection
//! DIR/log/           log segments, if they have no folder of their own
//! DIR/log-place      where that is, if they have (`log_folder.rs`)
//! DIR/version-store  where the version-store file is, if there is one (`version_file.rs`)
//! DIR/creating       present while the folder is being made
//! DIR/restoring      the same of one that is made as of a point of another database (`points/`)
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId, limits::PAGE_SIZE};
use resurgam_btree::{self as btree, Tree};
use resurgam_buffer::{
    BufferPool, DoubleWriteReport, Mtr, Openings, PageHistory, Patience, PendingRedo, PoolConfig, VersionFile,
    restore_double_writes, restore_version_double_writes,
};
use resurgam_log::{Log, LogConfig};
use resurgam_page::boot::{self, Boot};
use resurgam_recovery::{Control, ControlFile, Identity, Parent, Progress, VersionRecord, analyse, take_checkpoint};
use resurgam_txn::{ObjectLocks, SnapshotHold, TxManager};
use resurgam_versions::{Cleaner, EmptySpans, PendingFrees, VersionStore, VersionStoreConfig};
use resurgam_vfs::{FileLock, OpenMode, RealVfs, Vfs};

use crate::archive_place::open_archiver;
use crate::archiver::Archiver;
use crate::background::Background;
use crate::backup_places::Backups;
use crate::catalog::{Catalog, FIRST_USER_OBJECT};
use crate::catalog_row::CATALOG_OBJECT;
use crate::checkpoint_stats::CheckpointCounter;
use crate::data_file::{self, DataFile};
use crate::databases::FIRST_DATABASE;
use crate::log_folder::{LOG, LogFolder, id_of_marker};
use crate::log_zone::{self, LogZoneHandle, ZoneTaken};
use crate::mode::Mode;
use crate::options::Options;
use crate::page_service;
use crate::points::RESTORING;
use crate::prepared::Prepared;
use crate::progress::Builds;
use crate::repair::Repairs;
use crate::restore::gates::Gates;
use crate::restore::unusable;
use crate::restore::{
    Attach, Later, Lineage, Origin, OriginKind, ParentSource, Restore, again_of_parent, attach, begin, device,
};
use crate::retention::Retained;
use crate::sequence::Sequences;
use crate::sort_files;
use crate::statistics::StatisticsCache;
use crate::status::RecoveryReport;
use crate::successor::Moves;
use crate::throttle::Throttle;
use crate::transaction::{Interrupt, Isolation, Transaction};
use crate::troubles::Troubles;
use crate::version_file::{REPLACEMENT, Search};
use crate::view::{Known, ReadView};

/// Owner of the pages that list the pending frees.
const PENDING_FREES_OBJECT: ObjectId = ObjectId(5);
/// How often pages that are to be written, and that others have latched, are come back to, and after how long.
const LATCHED_TRIES: u32 = 5;
const LATCHED_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Inner {
    pub vfs: Arc<dyn Vfs>,
    pub dir: PathBuf,
    pub options: Options,
    pub log: Arc<Log>,
    pub pool: BufferPool,
    pub repairs: Arc<Repairs>,
    pub txs: Arc<TxManager>,
    pub locks: ObjectLocks,
    pub versions: VersionStore,
    pub pending_frees: PendingFrees,
    pub catalog: Catalog,
    pub cleaner: Cleaner,
    pub empty_spans: EmptySpans,
    /// Rows that were deleted several to a record of the log.
    pub deleted_in_runs: AtomicU64,
    /// And inserted.
    pub inserted_in_runs: AtomicU64,
    /// Temporary files of sorts that were made.
    pub sort_files: AtomicU64,
    pub recovery: RecoveryReport,
    /// How long the redo of all pages took.
    pub redo_time: Mutex<Option<Duration>>,
    pub control: Mutex<(ControlFile, Control)>,
    /// Held by who makes replacements for devices; taken before `control`.
    pub replacing: Mutex<()>,
    /// The data folder in use, and the log's.
    pub data_dir: Mutex<PathBuf>,
    pub log_dir: PathBuf,
    pub boot: Boot,
    /// Of what it was made, if it is a restored database or a clone.
    pub parent: Option<Parent>,
    /// What is known of that one, while the archive may need it.
    pub lineage: Option<Arc<Lineage>>,
    /// What is noted of the version store; for checkpoints.
    pub version_record: Mutex<Option<VersionRecord>>,
    /// The last checkpoint, for those who must not wait for one that is being taken.
    checkpoint: AtomicU64,
    pub checkpoints: CheckpointCounter,
    /// Space is given back by one thread at a time.
    pub giving_back: Mutex<()>,
    /// Rows that had gone when all trees were packed last (`pack.rs`).
    pub packed_at: Mutex<Option<u64>>,
    pub troubles: Troubles,
    next_object: AtomicU32,
    /// Trees that were made since the open, until they are freed: those among them that no
    /// committed definition names (yet) are known from here alone.
    trees: RwLock<HashMap<ObjectId, Tree>>,
    pub mode: Mode,
    pub prepared: Prepared,
    /// Rows that got other primary keys.
    pub moves: Moves,
    /// Values of sequences.
    pub sequences: Sequences,
    /// Statistics of tables that were read.
    pub statistics: StatisticsCache,
    pub throttle: Throttle,
    pub archiver: Option<Arc<Archiver>>,
    pub backups: Option<Arc<Backups>>,
    pub retained: Retained,
    /// While files are being restored.
    pub restore: Mutex<Option<Arc<Restore>>>,
    /// Calls to the devices of pages.
    pub gates: Gates,
    pub stopping: AtomicBool,
    pub opened: Instant,
    pub background: Mutex<Option<Background>>,
    closed: AtomicBool,
    /// Indexes and tables that are being built.
    pub builds: Builds,
    /// Given back by a clean close, even while clones are still around.
    pub locks_held: Mutex<Vec<Box<dyn FileLock>>>,
}

impl Inner {
    /// An id above `known` and above all that were given.
    ///
    /// # Errors
    /// `LimitExceeded` when there is none left: one that came again would be another's.
    pub fn next_object(&self, known: u32) -> Result<u32> {
        let least = known.saturating_add(1);
        let after = |next: u32| next.max(least).checked_add(1);
        match self.next_object.fetch_update(Ordering::SeqCst, Ordering::SeqCst, after) {
            Ok(next) => Ok(next.max(least)),
            Err(_) => Err(Error::new(
                ErrorKind::LimitExceeded,
                "no more tables, indexes or constraints can be made: every object id has been used",
            )
            .with_hint("Copy the data to a new database; reading and writing go on.")),
        }
    }
    /// Above every id of an object that was given out.
    pub fn object_ids_below(&self) -> u32 {
        self.next_object.load(Ordering::SeqCst)
    }
    /// The file system, for calls about the data folder in use, whose device may hang.
    pub fn data_vfs(&self) -> Arc<dyn Vfs> {
        self.gates.of(0).map_or_else(|| Arc::clone(&self.vfs), |gate| gate.vfs(&self.vfs))
    }
    pub fn note_tree(&self, tree: Tree) {
        self.trees.write().insert(tree.object, tree);
    }
    /// A tree was freed.
    pub fn forget_tree(&self, object: ObjectId) {
        self.trees.write().remove(&object);
    }
    /// Trees that were noted since the open.
    pub fn known_trees(&self) -> HashMap<ObjectId, Tree> {
        self.trees.read().clone()
    }
}

/// An open database. Clones share it; it closes when the last clone and the last
/// transaction are gone, or by [`Database::close`].
#[derive(Clone)]
pub struct Database(
    pub(crate) Arc<Inner>,
    #[expect(dead_code, reason = "it counts, and acts when the last one is dropped")] Option<Arc<Handles>>,
    /// The database of the server that its transactions are in (`databases.rs`).
    pub(crate) u32,
);

/// What all handles of users share, and background threads do not have: references to [`Inner`] never come to an end while
/// some thread or other is just looking for work.
struct Handles(Weak<Inner>);

impl Drop for Handles {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            // Not a clean close. The threads see it and end; the last of them drops the rest.
            inner.stop();
        }
    }
}

struct Paths {
    lock: PathBuf,
    control: PathBuf,
    data: PathBuf,
    double_write: PathBuf,
    creating: PathBuf,
}

impl Paths {
    fn new(dir: &Path) -> Self {
        Self {
            lock: dir.join("lock"),
            control: dir.join("control"),
            data: dir.join("data"),
            double_write: dir.join("doublewrite"),
            creating: dir.join("creating"),
        }
    }
}

impl Database {
    /// Opens the database in `dir`, creating it when the folder is missing or empty.
    /// After a crash this is where recovery happens.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when others can enter it; `InUse` when another process has it; `NotADatabase` when the folder holds something
    /// else; `NewerFormat`; `Corrupt`; `Io`; `DiskFull`.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(RealVfs::new()), dir.as_ref(), options, |_| {})
    }

    /// As [`Database::open`], on any file system, with a callback for progress.
    pub fn open_with(vfs: Arc<dyn Vfs>, dir: &Path, options: Options, progress: impl FnMut(Progress)) -> Result<Self> {
        let asked = dir;
        let replaced = device::data_folder(&vfs, dir, options.log_dir.as_deref())?;
        let options = match &replaced {
            Some(_) => options.relative_to(dir),
            None => options,
        };
        let dir = replaced.as_deref().inspect(|now| {
            tracing::warn!(
                "the data folder \"{}\" was replaced by \"{}\", which is opened",
                dir.display(),
                now.display()
            );
        });
        let dir = dir.unwrap_or(asked);
        let dead = dir;
        let spare = unusable::leave_dead_folder(&vfs, dead, &options)?;
        let options = match &spare {
            Some(_) => options.relative_to(dead),
            None => options,
        };
        let dir = spare.as_deref().unwrap_or(dead);
        let instead_of = spare.as_ref().map(|_| dead);
        let paths = Paths::new(dir);
        if !vfs.exists(dir)? {
            vfs.make_folder(dir)?;
        }
        let mut entries = vfs.list(dir)?;
        entries.retain(|name| name != "lock" && name != "lost+found" && name != "control.new");
        if entries.iter().any(|name| name == RESTORING) {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                format!("\"{}\" is no database yet: a restore into it was not finished", dir.display()),
            )
            .with_hint("Restore again; it starts over."));
        }
        if instead_of.is_some() {
            // The version store's device may have died before this one.
            entries.retain(|name| name != REPLACEMENT);
        }
        let mut has_control = entries.iter().any(|n| n == "control");
        let creating = entries.iter().any(|n| n == "creating");
        let was_set_aside = !creating && unusable::control_was_set_aside(&entries);
        if !has_control && !creating && !was_set_aside && !entries.is_empty() {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                format!("\"{}\" is not a Resurgam data folder: it is not empty and has no control file", dir.display()),
            )
            .with_hint("Name an empty or new folder to create a database, or the right one."));
        }
        vfs.keep_private(dir, entries.is_empty())?;
        let lock = vfs.lock(&paths.lock).map_err(|e| match e.kind() {
            ErrorKind::InUse => {
                let in_use = Error::new(
                    ErrorKind::InUse,
                    format!("the data folder \"{}\" is in use by another process", dir.display()),
                )
                .with_hint("Stop the other server, or use another folder.");
                match e.detail() {
                    Some(holder) => in_use.with_detail(holder),
                    None => in_use,
                }
            }
            _ => e,
        })?;
        // Of sorts that a power loss has cut off.
        for left in entries.iter().filter(|name| sort_files::is_left(name)) {
            vfs.remove(&dir.join(left))?;
        }
        // One that is being made may have any.
        let taken = log_zone::take(&vfs, dir, &paths.control, &options, has_control && !creating)?;
        let give_back = |zone: &Option<LogZoneHandle>| {
            if let Some(LogZoneHandle(zone)) = zone {
                zone.release();
            }
        };
        let zone = options.log_zone.clone();
        let taken = match taken {
            Some((taken, there)) => {
                has_control = there;
                Some(taken)
            }
            None => None,
        };
        let is_made = taken.is_some_and(|taken| taken.of.is_some());
        if is_made && creating {
            // What is here of an attempt of its own is of no use, whichever database the zone has by now.
            for path in [&paths.data, &paths.double_write] {
                if vfs.exists(path)? {
                    vfs.remove(path)?;
                }
            }
            LogFolder::forget(&vfs, dir)?;
            vfs.sync_dir(dir)?;
            vfs.remove(&paths.creating)?;
            vfs.sync_dir(dir)?;
        }
        let creating = creating && !is_made;
        if !creating && !has_control && !was_set_aside && taken.is_none() {
            has_control = begin::control_from_log_folder(&vfs, dir, &paths.control, &options)?;
        }
        if !creating && (has_control || was_set_aside) && taken.is_none() && options.pages.is_none() {
            has_control = unusable::control_again(&vfs, dir, &paths.control, &paths.data, &options)?;
        }
        if was_set_aside && !has_control {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                format!(
                    "\"{}\" has no control file: it was damaged and set aside, and cannot be made again",
                    dir.display()
                ),
            )
            .with_hint("Give the folder of the log and the archive that were there then, or restore a backup."));
        }
        if creating || !has_control {
            // One that is there may be of an open that did not get far.
            vfs.make_folder(dir)?;
            create(&vfs, dir, &paths, &options, creating, taken).inspect_err(|_| give_back(&zone))?;
        }
        Self::recover(vfs, dir, &paths, options, lock, taken, instead_of, progress).inspect_err(|_| give_back(&zone))
    }

    fn recover(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        paths: &Paths,
        mut options: Options,
        lock: Box<dyn FileLock>,
        taken: Option<ZoneTaken>,
        instead_of: Option<&Path>,
        progress: impl FnMut(Progress),
    ) -> Result<Self> {
        let started = vfs.now();
        // What is used for as long as the database is open: its device may hang.
        let gates = Gates::new(options.device_timeout);
        let gated = gates.begin(0, &dir.join("data"), &vfs);
        let (mut control_file, mut control) = ControlFile::open(&gated, &paths.control, false)?;
        let origin = Origin::read(&vfs, dir)?;
        if let Some(origin) = origin.as_ref().filter(|origin| origin.kind == OriginKind::Media) {
            // It goes on from there until it is finished.
            options.archive.get_or_insert_with(|| origin.archive.clone());
            options.backups = options.backups.take().or(origin.backups.clone());
        }
        let mut unusable_data = None;
        let known = match vfs.exists(&paths.data)? {
            true => match unusable::read_patiently(|| DataFile::read(&vfs, &paths.data)) {
                Err(error)
                    if options.archive.is_some() && options.pages.is_none() && unusable::is_of_no_use(&error) =>
                {
                    unusable_data = Some(error);
                    None
                }
                read => Some(read?),
            },
            false if options.archive.is_none() && options.pages.is_none() => {
                return Err(begin::data_is_missing(&paths.data));
            }
            false => None,
        };
        let mut log_folder = LogFolder::find(
            &vfs,
            dir,
            options.log_dir.as_deref(),
            known.as_ref().map(|known| &known.boot),
            &control,
            taken.is_some(),
        )?;
        let pending = PendingRedo::default();
        let analysis = analyse(&vfs, &log_folder.path, &control, &pending, progress)?;
        let analysed = vfs.now();
        let next_epoch = control.epoch.max(analysis.end.epoch) + 1;
        let next_epoch = match taken {
            Some(taken) if taken.epoch < next_epoch => {
                return Err(Error::corrupt(format!(
                    "the landing zone gives out epoch {}, and its log has epoch {} already",
                    taken.epoch, analysis.end.epoch
                )));
            }
            Some(taken) => taken.epoch,
            None => next_epoch,
        };
        // One that is restored is of no time yet, and one that stands for page servers' of none.
        if let Some(known) = known.as_ref().filter(|_| origin.is_none() && options.pages.is_none()) {
            known.check(&paths.data, control.epoch, next_epoch)?;
        }
        let of_data = known.map(|known| known.boot);
        let boot = of_data.or(analysis.identity.as_ref().map(|identity| identity.boot.clone())).ok_or_else(|| {
            unusable_data.clone().unwrap_or_else(|| Error::corrupt(format!(
                "the data file, \"{}\", is missing, and the log was written by a version that does not say what it held",
                paths.data.display()
            )))
        })?;
        log_folder.is_of(boot.database_id);
        if analysis.identity.as_ref().is_some_and(|identity| identity.boot.database_id != boot.database_id) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("\"{}\" holds the log of another database", log_folder.path.display()),
            )
            .with_hint("Put this one's log there, or name its folder with log_dir."));
        }
        let parent = analysis.identity.as_ref().and_then(|identity| identity.parent);
        let id = boot.database_id;
        let lineage = parent.and_then(|parent| Lineage::find(&vfs, dir, &options, id, &parent));
        let missing = begin::Missing {
            vfs: &vfs,
            dir,
            data: &paths.data,
            log: &log_folder.path,
            options: &options,
            boot: &boot,
            control: &control,
            high_water: analysis.high_water,
            version_high_water: analysis.version_high_water,
            version_store: analysis.version_store.as_ref(),
            made_of: lineage.as_ref().and_then(|lineage| lineage.source()),
            next_epoch,
            unusable_data: unusable_data.as_ref(),
            log_end: analysis.end.lsn,
            instead_of,
        };
        page_service::check(&vfs, dir, &options, &control, origin.is_some())?;
        let makes_data = options.pages.is_none() && missing.makes_data()?;
        let origin = match &options.pages {
            Some(_) => {
                page_service::make_boot_page(&vfs, dir, &paths.data, &boot)?;
                None
            }
            None => {
                let under_way = match origin {
                    Some(origin) if origin.is_over() => {
                        origin.end(&vfs, dir, &boot.database_id)?;
                        None
                    }
                    other => other,
                };
                missing.make(under_way).map_err(|error| match &unusable_data {
                    // What is wrong with the file comes first.
                    Some(damage) => damage.clone().with_detail(format!("It cannot be made again: {}", error.message())),
                    None => error,
                })?
            }
        };
        let search = Search {
            vfs: &vfs,
            dir,
            boot: &boot,
            epoch: control.epoch,
            next_epoch,
            high_water: analysis.version_high_water,
            options: &options,
        };
        let mut attached = search.run()?;
        let version_record = VersionRecord::read(&vfs, dir)?;
        let version = attached.as_ref().map(|a| (u64::from(a.header.number), a.path.as_path()));
        // Only now: an open that fails for its log changes nothing.
        let openings = Openings::new(&analysis.openings, next_epoch - 1);
        let (area, unclean, log_end) = (&paths.double_write, !control.clean, analysis.end.lsn);
        let restored = match (makes_data, version) {
            (false, _) => restore_double_writes(&vfs, &paths.data, version, area, unclean, log_end, &openings)?,
            (true, Some(version)) => restore_version_double_writes(&vfs, version, area, unclean, log_end, &openings)?,
            (true, None) => DoubleWriteReport::default(),
        };
        if makes_data && vfs.exists(area)? {
            // What is left in it protected writes to a file that is gone.
            let side = vfs.open(area, OpenMode::ReadWrite)?;
            side.set_len(0)?;
            side.sync()?;
        }
        let was_clean = control.clean;
        // The new epoch is durable before anything is appended under it.
        if let Some(attached) = &mut attached {
            attached.set_epoch(next_epoch)?;
        }
        data_file::set_epoch(&gated, &paths.data, next_epoch)?;
        log_folder.take(&vfs, dir, next_epoch)?;
        if let Some(LogZoneHandle(zone)) = &options.log_zone {
            let (zone, id) = (Arc::downgrade(zone), boot.database_id);
            control_file.keep_with(Box::new(move |control| match zone.upgrade() {
                Some(zone) => zone.keep(id, control),
                None => Err(Error::new(ErrorKind::Stopped, "the database is closed")),
            }));
        } else if log_folder.is_own() {
            control_file.keep_copy(&vfs, &log_folder.path.join(begin::CONTROL_COPY))?;
        }
        control.epoch = next_epoch;
        control.clean = false;
        control_file.write(control)?;
        log_folder.is_opened(&vfs, next_epoch)?;
        if taken.is_some() && vfs.exists(&paths.creating)? {
            is_no_longer_made(&vfs, dir, paths)?;
        }
        let config = LogConfig {
            segment_bytes: control.segment_bytes,
            own_files: options.log_zone.is_some(),
            flights: options.flights(),
            shuffled: options.log_flights_shuffled,
            ..LogConfig::default()
        };
        let log = Log::open(Arc::clone(&vfs), &log_folder.path, config, control.epoch, analysis.end)?;
        if let Some(LogZoneHandle(zone)) = &options.log_zone {
            log.set_sink(zone.attach(boot.database_id, &log)?);
        }
        // It holds the log before any checkpoint can be taken.
        let archiver = open_archiver(&vfs, dir, &options, &boot, &log, lineage.as_ref())?.map(Arc::new);
        let mut pool = open_pool(&gated, paths, &log, &options)?.with_openings(&openings);
        let mut locks_held = vec![lock];
        if let Some(attached) = attached {
            let (number, bytes_max) = (attached.header.number, options.version_store_bytes_max);
            let file = gates.begin_file(number.into(), &attached.path, attached.file);
            pool = pool.with_version_file(VersionFile::new(number, file, bytes_max));
            locks_held.push(attached.lock);
        }
        let log_dir = log_folder.path.clone();
        locks_held.extend(log_folder.into_lock());
        let version_file = pool.version_file().map(VersionFile::number);
        let is_remote = page_service::attach(&options, &pool, &log, boot.database_id, control.checkpoint, &pending)?;
        let restore = match origin {
            _ if is_remote => None,
            Some(origin) => {
                let (options, archiver) = (&options, archiver.as_ref());
                let (vfs, log, pool, pending) = (&vfs, &log, &pool, &pending);
                let at = Attach { vfs, dir, database_id: id, options, log, pool, archiver, pending };
                Some(attach(&at, origin)?)
            }
            None => {
                for (page, entry) in pending.snapshot() {
                    // Of a version-store file that was given up nothing is brought up to date.
                    if page.file() == 0 || Some(page.file()) == version_file {
                        pool.pending_redo().add(page, entry);
                    }
                }
                None
            }
        };
        pool.space().restore(analysis.high_water);
        pool.space().restore_version_file(analysis.version_high_water);
        // A crash can have taken back space that was not synced. Where there is none now, the
        // pages concerned wait for it in memory.
        if let Err(error) = pool.reserve_version_file() {
            tracing::warn!("{error}");
        }
        let versions =
            VersionStoreConfig { pages_ready: options.version_pages_ready, bytes_max: options.version_store_bytes_max };
        let txs = Arc::new(TxManager::with_epoch(analysis.next_id, control.epoch));
        txs.set_short(options.short_rollback_operations, options.short_rollback_bytes);
        txs.temporary().set_bound(options.temporary_version_bytes_max);
        let losers: Vec<_> =
            analysis.losers.into_iter().map(|(id, loser)| txs.restore_active(id, loser.subs, loser.chain)).collect();
        txs.restore_aborted(&analysis.aborted, &analysis.aborted_details);
        let (locks, prepared, mode) = (ObjectLocks::default(), Prepared::default(), Mode::new(control.traditional));
        let transactions_in_doubt = analysis.prepared.len() as u64;
        analysis.prepared.iter().for_each(|_| mode.enter_restored());
        let of_prepared = analysis.prepared.iter().map(|tx| tx.head.next_object).max().unwrap_or(0);
        prepared.restore(analysis.prepared, &txs, &locks)?;
        let recovery = RecoveryReport {
            was_clean,
            analysis: analysed.saturating_sub(started),
            total: vfs.now().saturating_sub(started),
            log_records: analysis.records,
            log_bytes: analysis.bytes,
            pages_to_redo: pool.pending_redo().len(),
            transactions_aborted: analysis.cut_off,
            transactions_to_undo: losers.len() as u64,
            transactions_in_doubt,
            aborted_in_map: analysis.aborted.len(),
            pages_restored: restored.restored as u64,
            log_end: analysis.end_reason,
        };
        let pending_start = log.end_lsn().0;
        let backups = Backups::of(&vfs, dir, &options, boot.database_id)?.map(Arc::new);
        let repairs = Repairs::of(&log, &vfs, archiver.clone(), backups.clone(), &options, control.checkpoint);
        let under_way = restore.as_ref().and_then(|restore| ParentSource::of(&restore.origin));
        if let Some(parent) = under_way.or_else(|| lineage.as_ref().and_then(|lineage| lineage.source())) {
            let maker = Later::new(again_of_parent(&vfs, dir, &parent, id));
            repairs.set_parent(Some((parent.log_begins(control.segment_bytes), Arc::new(maker))));
        }
        if options.page_repair {
            pool.set_history(Arc::clone(&repairs) as Arc<dyn PageHistory>);
        }
        let inner = Inner {
            repairs,
            pending_frees: PendingFrees::new(
                Tree { root: boot.pending_frees_root, object: boot.pending_frees_object },
                pending_start,
            ),
            catalog: Catalog::new(Tree { root: boot.catalog_root, object: boot.catalog_object }),
            vfs,
            dir: dir.to_path_buf(),
            options,
            log: Arc::clone(&log),
            pool,
            txs: Arc::clone(&txs),
            locks,
            versions: VersionStore::new(versions),
            cleaner: Cleaner::default(),
            empty_spans: EmptySpans::default(),
            deleted_in_runs: AtomicU64::new(0),
            inserted_in_runs: AtomicU64::new(0),
            sort_files: AtomicU64::new(0),
            recovery,
            redo_time: Mutex::new(None),
            checkpoint: AtomicU64::new(control.checkpoint.0),
            checkpoints: CheckpointCounter::default(),
            giving_back: Mutex::new(()),
            packed_at: Mutex::new(None),
            troubles: Troubles::default(),
            control: Mutex::new((control_file, control)),
            replacing: Mutex::new(()),
            version_record: Mutex::new(version_record),
            data_dir: Mutex::new(dir.to_path_buf()),
            log_dir,
            boot,
            parent,
            lineage,
            next_object: AtomicU32::new(analysis.next_object.max(of_prepared).max(FIRST_USER_OBJECT)),
            trees: RwLock::default(),
            mode,
            prepared,
            moves: Moves::default(),
            sequences: Sequences::default(),
            statistics: StatisticsCache::default(),
            throttle: Throttle::default(),
            archiver,
            backups,
            retained: Retained::default(),
            restore: Mutex::new(restore),
            gates,
            stopping: AtomicBool::new(false),
            opened: Instant::now(),
            background: Mutex::new(None),
            closed: AtomicBool::new(false),
            builds: Builds::default(),
            locks_held: Mutex::new(locks_held),
        };
        let waits = Arc::clone(txs.waits());
        log.set_stop_hook(Box::new(move |error| waits.stop(error)));
        let waits = Arc::clone(inner.txs.waits());
        inner.pool.set_stop_hook(Box::new(move |error| waits.stop(error)));
        log.set_durable_hook(Box::new(move |lsn| txs.note_durable(lsn)));
        let db = Self::of_user(inner);
        db.look_at_replaceable();
        db.look_for_backups();
        db.decide_double_writes();
        db.queue_losers(losers);
        if !db.0.options.background {
            db.rebuild_lost();
            db.undo_queued()?;
        }
        log.set_writer_delay(db.0.options.wal_writer_delay);
        if db.0.options.background {
            log.start_flusher()?;
            *db.0.background.lock() = Some(Background::start(&db.0)?);
        }
        Ok(db)
    }

    /// A user's first handle.
    fn of_user(inner: Inner) -> Self {
        let inner = Arc::new(inner);
        let handles = Arc::new(Handles(Arc::downgrade(&inner)));
        Self(inner, Some(handles), FIRST_DATABASE)
    }

    /// For a step of a background thread: it does not keep the database open.
    pub(crate) fn of_thread(inner: Arc<Inner>) -> Self {
        Self(inner, None, FIRST_DATABASE)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Allocates version pages in advance, as many as are wanted.
    pub(crate) fn make_version_pages_ready(&self) -> Result<()> {
        let inner = self.inner();
        let highest = TxId(inner.txs.next_id().0.saturating_sub(1));
        inner.versions.make_ready(&inner.pool, highest).map(|_| ())
    }

    /// Log since the last checkpoint or the oldest change that is not written out, in bytes;
    /// as of the writer's last look.
    pub(crate) fn log_held_by_pages(&self) -> u64 {
        let inner = self.inner();
        let checkpoint = self.last_checkpoint();
        let oldest = inner.pool.oldest_rec_lsn_seen().map_or(checkpoint, |lsn| lsn.min(checkpoint));
        inner.log.end_lsn().0.saturating_sub(oldest.0)
    }

    /// Log that a checkpoint taken now would let go, in bytes.
    pub(crate) fn log_releasable(&self) -> u64 {
        let inner = self.inner();
        let pages = inner.pool.oldest_rec_lsn().unwrap_or_else(|| inner.log.end_lsn());
        let needed = self.oldest_undo().map_or(pages, |(_, lsn)| lsn.min(pages));
        let needed = inner.log.lowest_holder().map_or(needed, |holder| holder.lsn.min(needed));
        needed.0.saturating_sub(inner.log.oldest_lsn().0)
    }

    /// Begins a transaction.
    pub fn begin(&self, isolation: Isolation) -> Transaction {
        Transaction::begin(self, isolation)
    }

    /// Raised by every commit that changed definitions.
    pub fn catalog_version(&self) -> u64 {
        self.0.catalog.version()
    }
    /// The settings it was opened with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }
    /// Tells handles of one database from those of others, for as long as one of them is there.
    pub fn address(&self) -> (usize, u32) {
        (Arc::as_ptr(&self.0).addr(), self.2)
    }
    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }
    /// Changes [`Options::wal_writer_delay`], from now on.
    pub fn set_wal_writer_delay(&self, delay: Duration) {
        self.0.log.set_writer_delay(delay);
    }
    /// What recovery did at open.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.0.recovery
    }

    /// A snapshot, and the version of the catalog that goes with it: a snapshot either sees a
    /// change of definitions and has its version, or neither.
    pub(crate) fn snapshot(&self) -> (SnapshotHold, u64) {
        self.snapshot_by(|| self.0.txs.snapshot())
    }

    /// The same for a transaction that has written, or has tried to.
    pub(crate) fn snapshot_for_writer(&self) -> (SnapshotHold, u64) {
        self.snapshot_by(|| self.0.txs.snapshot_for_writer())
    }

    fn snapshot_by(&self, take: impl Fn() -> SnapshotHold) -> (SnapshotHold, u64) {
        loop {
            let version = self.0.catalog.version();
            let hold = take();
            if !self.0.catalog.is_changing() && self.0.catalog.version() == version {
                return (hold, version);
            }
            drop(hold);
            std::thread::yield_now();
        }
    }

    /// A view of everything committed now, outside any transaction: what a READ COMMITTED transaction that has written
    /// nothing gets for one statement, without that transaction.
    pub fn plain_view(&self) -> ReadView {
        let (snapshot, catalog_version) = self.snapshot();
        ReadView {
            db: self.clone(),
            snapshot: Arc::new(snapshot),
            own: TxId::NONE,
            hidden_from: TxId(u64::MAX),
            catalog_version,
            own_changes: None,
            unchecked: false,
            newest: false,
            statement: 0,
            known: Known::default(),
            patience: None,
        }
    }

    /// How long reads wait for pages that `interrupt` may end; none: they are not long in coming.
    pub(crate) fn patience(&self, interrupt: Option<&Interrupt>) -> Option<Arc<Patience>> {
        let interrupt = Arc::clone(interrupt?);
        self.inner().pool.is_remote().then(|| Patience::new(move || interrupt()))
    }

    /// Takes a checkpoint and truncates the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_with(None, || {})
    }

    /// Writes out all pages that are changed by now, or still wait for redo, and takes a checkpoint: the log is then as short as it gets,
    /// the segment in use and those made ready. For who wants the space; background work keeps the log within its bound without it.
    ///
    /// What else needs the log keeps it: who reads it, transactions in the traditional mode, a page that cannot be read, and one that
    /// is latched however often it is come back to.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn shorten_log(&self) -> Result<()> {
        self.replace_dead_devices()?;
        let mut result = self.write_changed();
        if result.is_err() && !self.inner().pool.dead_devices().is_empty() {
            // It died just now.
            self.replace_dead_devices()?;
            result = self.write_changed();
        }
        result?;
        self.checkpoint()
    }

    /// Brings all pages up to date, and writes those that are changed by now.
    fn write_changed(&self) -> Result<()> {
        let pool = &self.inner().pool;
        self.redo_pending()?;
        let now = self.inner().log.end_lsn();
        let mut latched = 0;
        while latched < LATCHED_TRIES {
            if pool.write_back(resurgam_buffer::WriteGoal::OlderThan(now))? > 0 {
                latched = 0;
                continue;
            }
            if pool.oldest_rec_lsn().is_none_or(|oldest| oldest >= now) {
                break;
            }
            latched += 1;
            std::thread::sleep(LATCHED_PAUSE);
        }
        Ok(())
    }

    /// Takes a checkpoint that changes the mode; `then` runs once that is durable, before
    /// anyone can take another one.
    pub(crate) fn checkpoint_as(&self, traditional: bool, then: impl FnOnce()) -> Result<()> {
        self.checkpoint_with(Some(traditional), then)
    }

    fn checkpoint_with(&self, traditional: Option<bool>, then: impl FnOnce()) -> Result<()> {
        // With a dead device none can be taken.
        self.replace_dead_devices()?;
        let begun = Instant::now();
        let mut then = Some(then);
        let mut then = || {
            if let Some(then) = then.take() {
                then();
            }
        };
        let mut result = self.take_checkpoint(traditional, &mut then);
        if result.is_err() && !self.inner().pool.dead_devices().is_empty() {
            // It died just now.
            self.replace_dead_devices()?;
            result = self.take_checkpoint(traditional, &mut then);
        }
        self.inner().checkpoints.note(begun, result.is_ok());
        result
    }

    fn take_checkpoint(&self, traditional: Option<bool>, then: &mut dyn FnMut()) -> Result<()> {
        let inner = self.inner();
        let mut control = inner.control.lock();
        self.set_pages_aside();
        let next = Control { traditional: traditional.unwrap_or(control.1.traditional), ..control.1 };
        let (begin, keep) = take_checkpoint(
            &inner.log,
            &inner.pool,
            &inner.txs,
            || inner.object_ids_below(),
            || inner.prepared.all(),
            Identity::new(inner.boot.clone(), &next, inner.parent),
            inner.version_record.lock().clone(),
        )?;
        // Pages written in place but not synced are not in the dirty list; the double-write
        // area still has them, so the checkpoint may rely on it. (It has synced those that are
        // not there.)
        let restore = self.restore_under_way();
        if let Some(restore) = &restore {
            restore.before_checkpoint_counts(&inner.data_vfs(), &inner.pool)?;
        }
        inner.pool.note_cached();
        let next = Control { checkpoint: begin, ..next };
        // It is beside the data.
        control.0.write(next).inspect_err(|error| {
            inner.pool.device_failed(0, error);
        })?;
        if let Some(restore) = &restore {
            restore.checkpoint_counts();
        }
        control.1 = next;
        inner.checkpoint.store(begin.0, Ordering::Relaxed);
        then();
        inner.log.truncate_before(keep)?;
        Ok(())
    }

    /// Pages that cannot be brought up to date do not hold the log when it has become too long.
    fn set_pages_aside(&self) {
        let inner = self.inner();
        if inner.log.bytes_in_use() <= self.log_wanted() {
            return;
        }
        let needed = Lsn(inner.log.end_lsn().0.saturating_sub(self.log_wanted() / 2));
        // What others hold is there all the same: giving up a page would shorten nothing.
        let needed = inner.log.lowest_holder().map_or(needed, |holder| holder.lsn.min(needed));
        for stuck in inner.pool.set_aside(needed) {
            tracing::error!("page {} is set aside, its log is kept no longer: {}", stuck.page, stuck.error);
        }
    }

    /// What no record of a page holds, as a checkpoint that were taken now would say it.
    pub(crate) fn identity(&self) -> Identity {
        let inner = self.inner();
        let control = inner.control.lock();
        Identity::new(inner.boot.clone(), &control.1, inner.parent)
    }

    /// Where the last finished checkpoint begins.
    pub(crate) fn last_checkpoint(&self) -> Lsn {
        Lsn(self.inner().checkpoint.load(Ordering::Relaxed))
    }

    /// Finishes what recovery left: redo of all pages, knowledge of free space. For
    /// databases without background threads.
    pub fn finish_recovery(&self) -> Result<()> {
        self.rebuild_lost();
        self.undo_queued()?;
        self.redo_pending()?;
        self.discover_space()
    }

    /// Redo of all pages that can be read.
    fn redo_pending(&self) -> Result<()> {
        let pool = &self.inner().pool;
        pool.pending_redo().try_unread();
        while pool.redo_some(64, |_, error| tracing::error!("a page is passed over: {error}"))? > 0 {}
        Ok(())
    }

    /// Reads the space maps: what is free, and which pages are version pages.
    ///
    /// # Errors
    /// The first of a map that cannot be read, when the others are done.
    pub(crate) fn discover_space(&self) -> Result<()> {
        let inner = self.inner();
        // The highest id that can have pushed a version before now.
        let highest = TxId(inner.txs.next_id().0.saturating_sub(1));
        let mut failed = None;
        for map in inner.pool.space().all_map_pages() {
            if inner.stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.discover_interval(map, highest) {
                // The others know nothing of it.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => {
                    failed.get_or_insert(error);
                }
                done => done?,
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn discover_interval(&self, map: PageId, highest: TxId) -> Result<()> {
        let inner = self.inner();
        inner.versions.adopt_all(&inner.pool, map, highest).inspect_err(|_| inner.pool.space().note_lost(map))?;
        inner.pool.space().discover(&inner.pool, map)
    }

    /// Space maps that could not be read, where they can be by now.
    pub(crate) fn regain_space(&self) -> Result<()> {
        let inner = self.inner();
        for map in inner.pool.space().lost_maps() {
            let highest = TxId(inner.txs.next_id().0.saturating_sub(1));
            match self.discover_interval(map, highest) {
                Ok(()) => tracing::info!("space map {map} can be read again: space of its interval is given out"),
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes dirty pages: for databases without background threads.
    pub fn write_back(&self) -> Result<usize> {
        self.replace_dead_devices()?;
        self.inner().pool.write_back(resurgam_buffer::WriteGoal::Victims)
    }

    /// Has all pages leave memory that may: for tests with few pages.
    #[doc(hidden)]
    pub fn evict_pages(&self) {
        self.inner().pool.evict_all();
    }

    /// Stops background work, writes everything, and marks the folder as cleanly closed.
    /// Transactions still open fail from here on.
    pub fn close(&self) -> Result<()> {
        let inner = self.inner();
        if inner.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.stop_background();
        let closed = (|| {
            self.replace_dead_devices()?;
            if let Err(error) = self.write_back_sequences() {
                tracing::warn!("sequences will skip values that were logged ahead: {error}");
            }
            inner.pool.write_all()?;
            self.checkpoint()?;
            let mut control = inner.control.lock();
            let next = Control { clean: true, ..control.1 };
            control.0.write(next)?;
            control.1 = next;
            Ok(())
        })();
        if closed.is_ok() {
            self.archive_the_rest();
        }
        inner.pool.close_cache();
        let log_closed = inner.log.close();
        if let Some(LogZoneHandle(zone)) = &inner.options.log_zone {
            // Who finds the log given back after a clean end takes it for durable to its end.
            let is_said = log_closed.is_ok() || {
                let mut control = inner.control.lock();
                let next = Control { clean: false, ..control.1 };
                control.0.write(next).is_ok()
            };
            if is_said {
                zone.release();
            }
        }
        inner.locks_held.lock().clear();
        closed.and(log_closed)
    }

    pub(crate) fn stop_background(&self) {
        let inner = self.inner();
        inner.stop();
        let background = inner.background.lock().take();
        if let Some(background) = background {
            background.join();
        }
    }
}

impl Inner {
    /// Tells background threads to end.
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(archiver) = &self.archiver {
            archiver.stop_merging();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Not a clean close: the next open recovers. No thread is left that works on it.
        self.stopping.store(true, Ordering::SeqCst);
        let _ = self.log.close();
    }
}

fn open_pool(vfs: &Arc<dyn Vfs>, paths: &Paths, log: &Arc<Log>, options: &Options) -> Result<BufferPool> {
    let config = PoolConfig { bytes: options.buffer_bytes, ..PoolConfig::default() };
    let pool = BufferPool::open(vfs, &paths.data, &paths.double_write, Arc::clone(log), config)?;
    // Before the first change: nothing else bounds what is read of the log to make a page.
    if options.archive.is_some() {
        pool.set_records_per_page_max(u32::try_from(options.archive_records_per_page_max).unwrap_or(u32::MAX));
    }
    Ok(pool)
}

/// Makes a new database. A crash in between leaves the marker, and the next open starts over.
fn create(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    paths: &Paths,
    options: &Options,
    again: bool,
    taken: Option<ZoneTaken>,
) -> Result<()> {
    let made_before = if again { id_of_marker(vfs, &paths.creating)? } else { None };
    let id = made_before.unwrap_or_else(|| {
        let mut id = [0u8; 16];
        id[..8].copy_from_slice(&vfs.random_u64().to_le_bytes());
        id[8..].copy_from_slice(&vfs.random_u64().to_le_bytes());
        id
    });
    if again {
        for path in [&paths.control, &paths.data, &paths.double_write] {
            if vfs.exists(path)? {
                vfs.remove(path)?;
            }
        }
        let log = dir.join(LOG);
        if vfs.exists(&log)? {
            for name in vfs.list(&log)? {
                vfs.remove(&log.join(name))?;
            }
        }
        LogFolder::forget(vfs, dir)?;
    } else {
        vfs.open(&paths.creating, OpenMode::Create)?;
    }
    if options.log_dir.is_some() {
        // A next attempt knows by it what of this one is in the other folder.
        let marker = vfs.open(&paths.creating, OpenMode::ReadWrite)?;
        marker.write_at(&id, 0)?;
        marker.sync()?;
    }
    // Also when the marker was found: a process that was killed may not have synced it.
    vfs.sync_dir(dir)?;
    let epoch = taken.map_or(1, |taken| taken.epoch - 1);
    let config =
        LogConfig { segment_bytes: options.log_segment_bytes, own_files: taken.is_some(), ..LogConfig::default() };
    let zone = options.log_zone.as_ref().filter(|_| taken.is_some()).map(|LogZoneHandle(zone)| &**zone);
    let (log_dir, _locked) = LogFolder::create(vfs, dir, options.log_dir.as_deref(), id, made_before, zone)?;
    let log = Log::create(Arc::clone(vfs), &log_dir, config, epoch)?;
    let pool = open_pool(vfs, paths, &log, options)?;
    let now = vfs.wall_clock_us();
    pool.space().restore(1);
    let mut mtr = Mtr::new(&pool);
    let catalog = btree::create(&mut mtr, CATALOG_OBJECT)?;
    let pending_frees = btree::create(&mut mtr, PENDING_FREES_OBJECT)?;
    mtr.commit()?;
    let boot = Boot {
        catalog_root: catalog.root,
        catalog_object: catalog.object,
        pending_frees_root: pending_frees.root,
        pending_frees_object: pending_frees.object,
        ..Boot::new(id, now)
    };
    let page = boot::page(&boot, log.end_lsn())?;
    debug_assert_eq!(page.as_bytes().len(), PAGE_SIZE);
    pool.file().write_at(page.as_bytes(), 0)?;
    pool.file().sync()?;
    pool.write_all()?;
    let txs = TxManager::new(TxId(1));
    let mut control = Control {
        checkpoint: Lsn::NONE,
        epoch,
        segment_bytes: options.log_segment_bytes,
        clean: true,
        traditional: !options.accelerated_database_recovery,
    };
    let identity = Identity::new(boot, &control, None);
    (control.checkpoint, _) = take_checkpoint(&log, &pool, &txs, || FIRST_USER_OBJECT, Vec::new, identity, None)?;
    log.close()?;
    ControlFile::create(vfs, &paths.control, control)?;
    vfs.sync_dir(&log_dir)?;
    vfs.sync_dir(dir)?;
    // In a landing zone it is made when the record there has it: until then another machine may make one instead.
    if taken.is_none() {
        is_no_longer_made(vfs, dir, paths)?;
    }
    Ok(())
}

/// The database is made: the marker goes that it is being made.
fn is_no_longer_made(vfs: &Arc<dyn Vfs>, dir: &Path, paths: &Paths) -> Result<()> {
    vfs.remove(&paths.creating)?;
    vfs.sync_dir(dir)
}

/// How long a background thread sleeps between looks.
pub(crate) const TICK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use resurgam_page::types::ColumnType;
    use resurgam_vfs::SimVfs;

    use resurgam_page::DatumRef;

    use super::*;
    use crate::table::{Table, TableSpec};
    use crate::transaction::{Durability, StatementKind};

    /// An object's id that no page tells a restart comes again while its transaction is not undone: it is passed over.
    #[test]
    fn ids_of_the_cut_off_are_passed_over() -> Result<()> {
        use crate::catalog_object::{CatalogObject, ObjectKind};
        let options = Options {
            buffer_bytes: 1 << 20,
            background: false,
            accelerated_database_recovery: false,
            ..Options::default()
        };
        let db = Database::open_with(Arc::new(SimVfs::new(1)), Path::new("/db"), options, |_| {})?;
        let create = |name: &str| -> Result<(Transaction, Arc<Table>)> {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.statement(StatementKind::PointWrite)?;
            let made = tx.create_object("", name, CatalogObject::new(ObjectKind::SCHEMA, Vec::new()))?.done()?;
            Ok((tx, made))
        };
        let (cut_off, first) = create("first")?;
        // As a restart finds it.
        db.inner().next_object.store(first.id, Ordering::SeqCst);
        let (other, second) = create("second")?;
        assert!(second.id > first.id);
        other.commit(Durability::Sync)?.wait()?;
        cut_off.rollback()?;
        let (tx, third) = create("third")?;
        assert!(third.id > second.id);
        tx.rollback()
    }

    /// What is to be freed may be gone: its entry is as of before, and its root's place a hole that a restart knows nothing of.
    #[test]
    fn a_dropped_tree_that_is_a_hole_by_now_is_gone() -> Result<()> {
        let options = || Options { buffer_bytes: 1 << 20, background: false, ..Options::default() };
        let sim = SimVfs::new(1);
        let open = || Database::open_with(Arc::new(sim.clone()), Path::new("/db"), options(), |_| {});
        let db = open()?;
        db.finish_recovery()?;
        for name in ["dropped", "kept"] {
            let tx = db.begin(Isolation::ReadCommitted);
            let spec = TableSpec::new("public", name).column("id", ColumnType::Int8).column("a", ColumnType::Text);
            let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
            for id in 0..600 {
                tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&"x".repeat(900))])?.done()?;
            }
            tx.commit(Durability::Sync)?.wait()?;
        }
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "dropped")?.expect("it is there");
        let tree = table.tree;
        tx.drop_table(&table)?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        db.clean_now()?;
        assert!(!resurgam_btree::is_there(&db.inner().pool, tree)?);
        assert!(db.inner().pool.punch_holes(&|| false)? > 0);
        db.checkpoint()?;
        db.close()?;
        drop(db);
        let db = open()?;
        let is_hole = |page: &u64| db.inner().pool.read(PageId(*page), resurgam_buffer::Access::Scan).is_err();
        let root = (1..db.inner().pool.space().high_water()).find(is_hole).expect("there is one");
        let tx = db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::PointWrite)?;
        tx.drop_tree(Tree { root: PageId(root), ..tree })?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.clean_now()?;
        assert!(db.inner().pending_frees.entries(&db.inner().pool)?.is_empty());
        db.close()
    }

    /// Object ids never come again: the last one is followed by an error, also after a restart.
    #[test]
    fn object_ids_end() -> Result<()> {
        let options = || Options { buffer_bytes: 1 << 20, background: false, ..Options::default() };
        let vfs = SimVfs::new(1);
        let open = || Database::open_with(Arc::new(vfs.clone()), Path::new("/db"), options(), |_| {});
        let create = |db: &Database, name: &str| -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.create_table(TableSpec::new("public", name).column("id", ColumnType::Int8).primary_key(&["id"]))?
                .done()?;
            tx.commit(Durability::Sync)?.wait()
        };
        let refused = |outcome: Result<()>| {
            outcome.is_err_and(|error| error.kind() == ErrorKind::LimitExceeded && error.hint().is_some())
        };
        let db = open()?;
        assert_eq!(db.inner().next_object(40_000)?, 40_001, "above what is known");
        assert_eq!(db.inner().next_object(0)?, 40_002);
        // One for the table, one for its tree.
        db.inner().next_object.store(u32::MAX - 3, Ordering::SeqCst);
        create(&db, "last")?;
        assert!(refused(create(&db, "beyond")), "one is left, and it takes two");
        assert!(refused(create(&db, "beyond")));
        assert!(db.inner().next_object(u32::MAX).is_err() && db.inner().next_object(0).is_err());
        db.close()?;
        drop(db);
        let db = open()?;
        assert!(refused(create(&db, "beyond")), "after a restart");
        let tx = db.begin(Isolation::ReadCommitted);
        assert!(tx.table("public", "last")?.is_some() && tx.table("public", "beyond")?.is_none());
        drop(tx);
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()
    }
}
