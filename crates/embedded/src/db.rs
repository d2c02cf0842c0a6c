//! An open database, and transactions that run as closures.

use std::any::TypeId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_engine::{Database, Durability, ErrorKind};

use crate::error::{Error, Result};
use crate::fields::Fields;
use crate::kv::Table;
use crate::options::{Options, Settings};
use crate::retry::{Lane, Writing, pause};
use crate::rows::Row;
use crate::shape::Known;
use crate::tx::{Doom, ReadTx, WriteTx};

/// Most tables that are remembered to be the program's; what is forgotten is compared anew.
const KNOWN_MAX: usize = 4096;

/// A database that is open. Clones share it; when the last one goes it is closed.
#[derive(Clone)]
pub struct Db(Arc<Shared>);

struct Shared {
    engine: Database,
    /// Somebody else's to close.
    borrowed: bool,
    settings: Settings,
    lock_timeout: Mutex<Option<Duration>>,
    lane: Lane,
    known: RwLock<HashMap<TypeId, HashMap<String, Arc<Known>>>>,
    counters: Counters,
    /// Until it is closed.
    folder: Mutex<Option<OpenFolder>>,
}

#[derive(Default)]
struct Counters {
    committed: AtomicU64,
    rolled_back: AtomicU64,
    conflicts: AtomicU64,
    given_up: AtomicU64,
}

/// What became of writing transactions since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Closures that were committed.
    pub committed: u64,
    /// Closures that returned an error.
    pub rolled_back: u64,
    /// Attempts that met others, and were tried again.
    pub conflicts: u64,
    /// Closures that were given up after so many of them.
    pub given_up: u64,
}

/// Folders that this process has open: the error of a second opening says so.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

struct OpenFolder(PathBuf);

impl OpenFolder {
    /// `None`: it is open here.
    fn take(path: PathBuf) -> Option<Self> {
        let mut open = OPEN.lock();
        if open.contains(&path) {
            return None;
        }
        open.push(path.clone());
        Some(Self(path))
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        OPEN.lock().retain(|path| *path != self.0);
    }
}

/// Whether the engine would make a database in a folder: it is missing, has nothing of one, or one was being made when that was cut off.
/// What cannot be read is the engine's to say.
fn would_be_made(path: &Path, options: &resurgam_engine::Options) -> bool {
    const OF_NONE: [&str; 3] = ["lock", "lost+found", "control.new"];
    match std::fs::read_dir(path) {
        // (Where the log is on a device of its own, it is there that a database is known to be made.)
        Ok(_) if options.log_zone.is_none() && path.join("creating").exists() => true,
        Ok(mut entries) => {
            entries.all(|entry| entry.is_ok_and(|entry| OF_NONE.iter().any(|name| entry.file_name() == *name)))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

impl Db {
    /// Opens the database in a folder, with the settings that are good for most; made, if there is none.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::default().open(path)
    }

    /// Settings, to open a database with.
    pub fn options() -> Options {
        Options::default()
    }

    /// A database that the program has opened itself, for SQL beside this crate for instance. Dropping this does not close it.
    pub fn over(engine: Database) -> Self {
        let settings = Settings { create: true, durability: Durability::Sync, attempts: 100, lock_timeout: None };
        Self::of(engine, settings, true, None)
    }

    fn of(engine: Database, settings: Settings, borrowed: bool, folder: Option<OpenFolder>) -> Self {
        Self(Arc::new(Shared {
            engine,
            borrowed,
            lock_timeout: Mutex::new(settings.lock_timeout),
            settings,
            lane: Lane::default(),
            known: RwLock::default(),
            counters: Counters::default(),
            folder: Mutex::new(folder),
        }))
    }

    pub(crate) fn open_checked(path: &Path, options: resurgam_engine::Options, settings: Settings) -> Result<Self> {
        if !settings.create && would_be_made(path, &options) {
            return Err(Error::NoDatabase { path: path.to_path_buf() });
        }
        if !path.exists() {
            // Its real name can be asked for once it is there.
            std::fs::create_dir_all(path).map_err(|error| {
                Error::Engine(resurgam_engine::Error::io("make the folder", path.display(), &error))
            })?;
        }
        let real = std::fs::canonicalize(path)
            .map_err(|error| Error::Engine(resurgam_engine::Error::io("find the folder", path.display(), &error)))?;
        let Some(folder) = OpenFolder::take(real) else {
            return Err(Error::InUse { path: path.to_path_buf(), here: true, holder: None });
        };
        let engine = Database::open(path, options).map_err(|error| match error.kind() {
            ErrorKind::InUse => {
                Error::InUse { path: path.to_path_buf(), here: false, holder: error.detail().map(str::to_owned) }
            }
            _ => Error::Engine(error),
        })?;
        Ok(Self::of(engine, settings, false, Some(folder)))
    }

    /// Runs a closure that reads. All of it sees one state of the database: that when it began, with everything that was
    /// acknowledged by then.
    ///
    /// # Errors
    /// The closure's.
    pub fn read<T>(&self, read: impl FnOnce(&ReadTx) -> Result<T>) -> Result<T> {
        read(&ReadTx::begin(self))
    }

    /// Runs a closure as one transaction: all of what it writes, or, if it returns an error or panics, nothing. Durable when
    /// this returns, unless [`Options::durability`] says otherwise.
    ///
    /// What meets other transactions (both write one row, or each waits for the other) is run again, up to
    /// [`Options::attempts`] times: the closure should do nothing outside of the database.
    ///
    /// # Errors
    /// The closure's; [`Error::Conflict`]; [`Error::Nested`]; [`Error::LockTimeout`]; [`Error::Engine`] of the commit, whose outcome is then known when the
    /// database is opened again.
    pub fn write<T>(&self, write: impl FnMut(&WriteTx) -> Result<T>) -> Result<T> {
        self.run(self.0.settings.durability, write)
    }

    /// As [`Db::write`], with its own word on whether the commit waits for the disk.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with<T>(&self, durability: Durability, write: impl FnMut(&WriteTx) -> Result<T>) -> Result<T> {
        self.run(durability, write)
    }

    /// As [`Db::write`], for closures with an error type of their own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn try_write<T, E: From<Error>>(&self, write: impl FnMut(&WriteTx) -> Result<T, E>) -> Result<T, E> {
        self.run(self.0.settings.durability, write)
    }

    fn run<T, E: From<Error>>(
        &self,
        durability: Durability,
        mut write: impl FnMut(&WriteTx) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(_writing) = Writing::begin(self.engine().address()) else { return Err(Error::Nested.into()) };
        let counters = &self.0.counters;
        let mut attempt = 1;
        loop {
            let turn = self.0.lane.turn(attempt);
            let tx = WriteTx::begin(self);
            // A panic drops the transaction, which rolls it back.
            let result = write(&tx);
            let doomed = match (result, tx.take_doom()) {
                // Not what others did: it would fail again.
                (_, Some(Doom::Failed(error))) => {
                    tx.rollback();
                    counters.rolled_back.fetch_add(1, Ordering::Relaxed);
                    return Err(Error::Engine(error).into());
                }
                (_, Some(Doom::Met(table, cause))) => {
                    tx.take_back();
                    (table, cause)
                }
                (Err(error), None) => {
                    tx.rollback();
                    counters.rolled_back.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
                (Ok(done), None) => match tx.commit_with(durability) {
                    Ok(()) => {
                        counters.committed.fetch_add(1, Ordering::Relaxed);
                        return Ok(done);
                    }
                    Err(Error::Conflict { table, cause, .. }) => (table, cause),
                    Err(error) => return Err(error.into()),
                },
            };
            // Who runs alone makes way before it pauses.
            drop(turn);
            if attempt >= self.0.settings.attempts {
                counters.given_up.fetch_add(1, Ordering::Relaxed);
                let (table, cause) = doomed;
                return Err(Error::Conflict { table, attempts: attempt, cause }.into());
            }
            counters.conflicts.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(pause(attempt));
            attempt += 1;
        }
    }

    /// A writing transaction that the caller ends, and tries again after an [`Error::Conflict`]. [`Db::write`] does both.
    ///
    /// A thread that has one and writes the same row, or makes the same table, in another transaction waits for itself: for ever,
    /// unless there is a [lock timeout](Options::lock_timeout).
    pub fn begin(&self) -> WriteTx {
        WriteTx::begin(self)
    }

    /// A reading transaction that lasts as long as the caller keeps it. While it does, so do the row versions that it may read.
    pub fn begin_read(&self) -> ReadTx {
        ReadTx::begin(self)
    }

    /// Makes a struct's table, and indexes that it lacks, if they are not there.
    ///
    /// # Errors
    /// As [`WriteTx::rows`].
    pub fn create<R: Row>(&self) -> Result<()> {
        self.write(|tx| tx.rows::<R>().map(drop))
    }

    /// Makes a key/value table, if it is not there.
    ///
    /// # Errors
    /// As [`WriteTx::table`].
    pub fn create_table<K: Fields, V: Fields>(&self, table: &Table<K, V>) -> Result<()> {
        self.write(|tx| tx.table(table).map(drop))
    }

    /// Has everything durable that was committed with [`Durability::Async`] by now.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn sync(&self) -> Result<()> {
        Ok(self.engine().sync_log()?)
    }

    /// Cleans up what nobody needs any more, and gives free space back to the file system: rows of pages that have room are put together on
    /// fewer, pages move from the end of the data file to free places in it, it is cut, and holes are made in what is left where the file system can. Returns how many bytes it has back.
    /// Beside everything else; in the background the end of the file is cut as well, where much of it is free.
    ///
    /// What old read transactions see stays, and what the log needs, so a file shrinks when they have ended.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn compact(&self) -> Result<u64> {
        Ok(self.engine().clean()?.bytes_given_back())
    }

    /// What became of writing closures.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0.counters;
        Counts {
            committed: of(&counters.committed),
            rolled_back: of(&counters.rolled_back),
            conflicts: of(&counters.conflicts),
            given_up: of(&counters.given_up),
        }
    }

    /// Changes [`Options::lock_timeout`], from the next wait on, for all clones. `None`: until the other transaction ends; zero: not at all.
    pub fn set_lock_timeout(&self, timeout: Option<Duration>) {
        *self.0.lock_timeout.lock() = timeout;
    }

    /// The engine below, for what this crate does not have: its status, checkpoints, backups, or SQL on top of it.
    pub fn engine(&self) -> &Database {
        &self.0.engine
    }

    /// Writes everything to the data file and closes. Transactions and clones that are still there fail from here on. What is
    /// not closed (a crash, an exit) is recovered when it is opened next: nothing that was committed is lost either way.
    ///
    /// Of [`Db::over`] the engine is its owner's to close, and stays open.
    ///
    /// # Errors
    /// Those of the disk; the database is closed all the same.
    pub fn close(self) -> Result<()> {
        if self.0.borrowed {
            return Ok(());
        }
        let closed = self.engine().close();
        *self.0.folder.lock() = None;
        Ok(closed?)
    }

    pub(crate) fn durability(&self) -> Durability {
        self.0.settings.durability
    }

    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        *self.0.lock_timeout.lock()
    }

    pub(crate) fn known(&self, of: TypeId, name: &str) -> Option<Arc<Known>> {
        self.0.known.read().get(&of)?.get(name).map(Arc::clone)
    }

    pub(crate) fn note_known(&self, of: TypeId, name: &str, known: &Arc<Known>) {
        let mut all = self.0.known.write();
        if all.values().map(HashMap::len).sum::<usize>() >= KNOWN_MAX {
            all.clear();
        }
        all.entry(of).or_default().insert(name.to_owned(), Arc::clone(known));
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("dir", &self.engine().dir()).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.borrowed {
            return;
        }
        // Nobody is told of an error here, and nothing is lost: the next open recovers.
        if let Err(error) = self.engine.close() {
            tracing::warn!("the database was not closed cleanly, its next open recovers: {error}");
        }
    }
}
