//! Settings of the engine.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use resurgam_versions::VersionCaps;
use resurgam_xstore::Store;

use crate::log_zone::LogZoneHandle;
use crate::met_ghosts::GhostLimits;
use crate::page_service::PageServiceHandle;

/// A store, as an option.
#[doc(hidden)]
#[derive(Clone)]
pub struct StoreHandle(pub Arc<dyn Store>);

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.place())
    }
}

/// See [`Options::double_writes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoubleWrites {
    /// As long as there is no other protection: off while there is an archive that can be written and that has every page from its
    /// first record on, or the newest backup has an image of it, and [`Options::page_repair`] is on. A page that a power loss
    /// tears is then rebuilt when it is read, from backup, archive and log.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: the file system, or the device, tears no write of a page.
    Off,
}

/// How a database is opened. `Options::default()` suits most.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for pages, in bytes.
    pub buffer_bytes: usize,
    /// The folder of the log, on another disk for instance; of a new database it is made if missing, and must be
    /// empty. A relative path is relative to the data folder. `None`: the one that the database has, or
    /// `log` in the data folder. A database keeps its log; given the folder that it was moved to, it
    /// notes the new place.
    pub log_dir: Option<PathBuf>,
    /// Where the log is archived, as a URL: a plain path (a relative one is relative to the data folder) or
    /// `file://` and an absolute one. The folder is made if missing. `None`: nowhere. The log that is not archived
    /// yet is kept, and counts as log in use.
    pub archive: Option<String>,
    /// What stands in for the place that [`Options::archive`] names: for tests of stores that fail.
    #[doc(hidden)]
    pub archive_store: Option<StoreHandle>,
    /// Where backups are, as a URL like [`Options::archive`]. `None`: nowhere, and none can be made.
    pub backups: Option<String>,
    /// As [`Options::archive_store`].
    #[doc(hidden)]
    pub backups_store: Option<StoreHandle>,
    /// A backup is made by itself when the newest one is so old, or there is none. Zero: only when it is asked for.
    pub backup_interval: Duration,
    /// Most bytes that a backup reads in a second; 0 = unlimited.
    pub backup_bytes_per_second: u64,
    /// How far back points in time are promised: what neither a point of this time, nor a lease, nor a restore needs of the
    /// archive and the backups is given up. Zero: everything is kept.
    pub recovery_window: Duration,
    /// No more records of a page than these make it from the archive, however often it was changed: before there are more its
    /// image is logged, with an archive. Of log without such images (of earlier versions) merged runs get them. 0: none is.
    pub archive_records_per_page_max: u64,
    /// A folder on another device, where the data is restored to if its own one dies while the database is open. It becomes
    /// the data folder then. It must be empty, and the log needs a folder of its own. A relative path is relative to the data
    /// folder. `None`: a dead device's files are made anew in their place.
    pub spare_data: Option<PathBuf>,
    /// A device of pages that does not answer a call for so long is given up and replaced, where there is an archive and
    /// [`Options::spare_data`]. Zero: it is waited for, whatever happens.
    pub device_timeout: Duration,
    /// Most of all processors' time, in per cent, that the background pass of a restore takes while others want them; at
    /// 100 it never rests. What is asked for is restored at once in any case.
    pub restore_cpu_percent: u32,
    /// Most of all processors' time, in per cent, that merging the archive's runs takes while others want them, unless too many
    /// runs wait; at 100 it never rests.
    pub archive_cpu_percent: u32,
    /// Page servers, which have the pages in place of the data file. `None`: the data file has them.
    #[doc(hidden)]
    pub pages: Option<PageServiceHandle>,
    /// Where other machines reach the log, which is in [`Options::log_dir`] then. `None`: it is this process's alone.
    #[doc(hidden)]
    pub log_zone: Option<LogZoneHandle>,
    /// With a log in a landing zone: log services write the archive, merge its runs and give up what is not promised; this process does what they say that they do not.
    pub archive_elsewhere: bool,
    /// Bytes of a part of a backup; 0: as is good. For tests.
    #[doc(hidden)]
    pub backup_part_bytes: usize,
    /// Flushes of the log that are under way at once, at most (16); they are acknowledged in order. 0: 4 in a landing zone, 1 in files of its own.
    pub log_flights: usize,
    /// Where it is not 0, flushes are made in pieces, whose steps are done in an order that follows from this number. For tests.
    #[doc(hidden)]
    pub log_flights_shuffled: u64,
    /// Size of a log segment file, in bytes; fixed when the database is created.
    pub log_segment_bytes: u64,
    /// A checkpoint is taken when this much log was written since the last one, in bytes.
    /// Bounds the time to open after a crash.
    pub checkpoint_log_bytes: u64,
    /// Most log, in bytes: writers are slowed down when it comes near, and wait at seven eighths of it. At
    /// least six segments count. On the disk are besides the segments made ready (three
    /// at most), and in the traditional mode the log that unfinished transactions need, which is not counted.
    pub log_bytes_max: u64,
    /// Longest wait of one write for the log to become shorter; then it fails.
    pub log_wait_max: Duration,
    /// Log on disk that background work aims at, in bytes: changed pages are written out early
    /// enough, and checkpoints taken. More of it means fewer page writes and slower
    /// background redo after a crash. At most five eighths of
    /// [`Options::log_bytes_max`] count.
    pub log_bytes_wanted: u64,
    /// Longest time that an asynchronous commit stays in memory alone, where nothing makes the log
    /// durable sooner. [`Database::set_wal_writer_delay`](crate::Database::set_wal_writer_delay)
    /// changes it.
    pub wal_writer_delay: Duration,
    /// Seconds between sweeps of the cleaner when there is anything to clean.
    pub cleaner_interval_s: f64,
    /// Seconds between looks whether tables have changed so much that they should be analysed; 0: that is left to statements.
    pub analyze_interval_s: f64,
    /// Threads of a sweep of the cleaner; 0 = as many as there are cores, at most 4.
    pub cleaner_threads: usize,
    /// Whether holes are made in the data file where extents are free, when space is given back
    /// ([`Database::clean`](crate::Database::clean)).
    pub punch_holes: bool,
    /// Most pages that the cleaner visits in a second, all threads together; 0 = unlimited. It goes
    /// faster by itself when it falls behind
    /// ([`Database::cleaner_status`](crate::Database::cleaner_status) says so).
    pub cleaner_pages_per_second: u64,
    /// Share of its time that each thread of the cleaner works, 1 to 100, in percent. Rises by
    /// itself as well.
    pub cleaner_cpu_percent: u32,
    /// Limits of in-row versions.
    pub versions: VersionCaps,
    /// A transaction that wrote at most this many rows, and at most
    /// [`Options::short_rollback_bytes`] of log, is undone when it rolls back and leaves nothing
    /// behind; a longer one is marked as aborted. 0 = all are (Constant Time Recovery, section
    /// 3.3.3).
    pub short_rollback_operations: u64,
    /// See [`Options::short_rollback_operations`]; in bytes.
    pub short_rollback_bytes: u64,
    /// Recovery in constant time, when the database is *created*; false = the traditional mode
    /// (undo through the log). Later: [`Database::set_accelerated_recovery`](crate::Database::set_accelerated_recovery).
    pub accelerated_database_recovery: bool,
    /// Most memory for earlier row versions in the traditional mode, in bytes.
    pub temporary_version_bytes_max: u64,
    /// Runs what may block the thread for long (an undo, waiting for one). An async server
    /// passes what tells its runtime.
    pub blocking: fn(&mut dyn FnMut()),
    /// The file for earlier row versions that do not fit in the row, on another disk for
    /// instance; made if it does not exist, its folder is not. A relative path is relative to
    /// the data folder. `None`: the one that the database has, or the data file. A database
    /// that has one keeps it; given the path of that file moved, it notes the new place.
    pub version_store_path: Option<PathBuf>,
    /// Most bytes that off-row versions may take; 0 = as the disk allows. A write that needs
    /// more fails.
    pub version_store_bytes_max: u64,
    /// The version-store file is lost for good: if it cannot be used, go on without it. Rows
    /// under aborted transactions whose earlier version was in it cannot be read any more.
    pub version_store_lost: bool,
    /// From how many deleted rows on a reader does something about those that it passes over: for tests with small tables.
    #[doc(hidden)]
    pub met_ghosts: GhostLimits,
    /// Version pages kept allocated in advance once there are off-row versions, and up to 1024
    /// when writers find them used up; 0 = none.
    pub version_pages_ready: usize,
    /// A page that is damaged in its file, or older than it was written, is rebuilt from the log while it is being read,
    /// where the log has what that takes. Off: reading it is an error, as it is where the log has not.
    pub page_repair: bool,
    /// With an archive and [`Options::page_repair`]: a page that is read and that this process has not written is compared with the last
    /// LSN that the archive knows of it, so that a write which the device lost before a restart is noticed and the page rebuilt.
    pub compare_first_reads: bool,
    /// Whether changed pages are written twice, against writes that a power loss tears.
    pub double_writes: DoubleWrites,
    /// Most transactions that may be prepared and not yet resolved at the same time; 0 = none
    /// can be prepared. Those that a restart finds are kept, however many.
    pub max_prepared_transactions: usize,
    /// Most rows that transactions may lock FOR SHARE or FOR KEY SHARE together; who locks more has them for itself alone. Each takes some
    /// hundred bytes of memory and its key.
    pub shared_row_locks_max: usize,
    /// Where pages come from page servers: most of them that a scan asks for at once, before it comes to them; 0 = it asks for one when it needs
    /// it.
    pub read_ahead_pages: usize,
    /// Run the background threads. Off: everything runs inline and only when asked, for
    /// simulation, but for the threads of a sweep if [`Options::cleaner_threads`] says how many.
    pub background: bool,
    /// Pages that a thread of a sweep takes at a time, about. For tests of small databases, whose
    /// sweeps would use one thread.
    #[doc(hidden)]
    pub cleaner_unit_pages: u64,
    /// Bytes of rows that are gathered in memory when an index or a table is built; 0: as is good. For tests.
    #[doc(hidden)]
    pub build_bytes: usize,
    /// How long a statement waits for the replacement of a dead device. For tests.
    #[doc(hidden)]
    pub replacement_patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            buffer_bytes: 128 << 20,
            log_dir: None,
            archive: None,
            archive_store: None,
            backups: None,
            backups_store: None,
            pages: None,
            log_zone: None,
            archive_elsewhere: false,
            backup_interval: Duration::ZERO,
            backup_bytes_per_second: 0,
            recovery_window: Duration::ZERO,
            archive_records_per_page_max: 256,
            spare_data: None,
            device_timeout: Duration::ZERO,
            restore_cpu_percent: 5,
            archive_cpu_percent: 1,
            backup_part_bytes: 0,
            log_flights: 0,
            log_flights_shuffled: 0,
            log_segment_bytes: 16 << 20,
            checkpoint_log_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            log_wait_max: Duration::from_secs(60),
            log_bytes_wanted: 160 << 20,
            wal_writer_delay: Duration::from_millis(200),
            cleaner_interval_s: 10.0,
            analyze_interval_s: 60.0,
            cleaner_threads: 0,
            punch_holes: true,
            cleaner_pages_per_second: 10_000,
            cleaner_cpu_percent: 50,
            versions: VersionCaps::default(),
            short_rollback_operations: 200,
            short_rollback_bytes: 256 << 10,
            accelerated_database_recovery: true,
            temporary_version_bytes_max: 4 << 30,
            blocking: |work| work(),
            version_store_path: None,
            version_store_bytes_max: 0,
            version_store_lost: false,
            met_ghosts: GhostLimits::default(),
            version_pages_ready: 64,
            page_repair: true,
            compare_first_reads: true,
            double_writes: DoubleWrites::Auto,
            max_prepared_transactions: 1000,
            shared_row_locks_max: 100_000,
            read_ahead_pages: 128,
            background: true,
            cleaner_unit_pages: resurgam_versions::UNIT_PAGES,
            build_bytes: 0,
            replacement_patience: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// The same with paths that are not relative to the data folder, which is `dir`.
    pub(crate) fn relative_to(mut self, dir: &std::path::Path) -> Self {
        // It may itself be relative, and another folder may take its place.
        let dir = &std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        for path in [&mut self.log_dir, &mut self.version_store_path, &mut self.spare_data].into_iter().flatten() {
            *path = dir.join(&*path);
        }
        for url in [&mut self.archive, &mut self.backups].into_iter().flatten().filter(|url| !url.contains("://")) {
            if let Some(full) = dir.join(&*url).to_str() {
                *url = full.to_owned();
            }
        }
        self
    }

    /// Flushes of the log at once.
    pub(crate) fn flights(&self) -> usize {
        /// A zone is behind a link, which several keep busy (docs/measurements/flights.md). What they are worth on a disk in this machine was
        /// not measured on a quiet one.
        const IN_A_ZONE: usize = 4;
        match self.log_flights {
            // Elsewhere an error of one of them may be told to another ([`resurgam_vfs`], promise 5).
            _ if cfg!(not(target_os = "linux")) => 1,
            0 if self.log_zone.is_some() => IN_A_ZONE,
            0 => 1,
            flights => flights,
        }
    }

    /// Threads of a sweep, at least one.
    pub fn cleaner_threads(&self) -> usize {
        const MOST_BY_DEFAULT: usize = 4;
        match self.cleaner_threads {
            0 if !self.background => 1,
            0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_BY_DEFAULT)),
            threads => threads,
        }
    }
}
