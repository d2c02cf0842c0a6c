//! What a process sees of files and stores: the disk of its own machine, the landing zone, and the stores of objects, as long as it lives and
//! reaches them.
//!
//! A primary's writes to the zone and syncs of it take time, in which all others go on: the process may be killed before, in the middle and after. What
//! it has written and not synced may be lost with its machine, sector by sector, until somebody else has opened the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Error, ErrorKind, Result};
use resurgam_vfs::{File, FileLock, OpenMode, SimVfs, Vfs, VfsStats};
use resurgam_xstore::{FolderStore, Store, StoreError, StoreErrorKind, StoreResult, Upload};

use crate::primary::is_in_zone;
use crate::sim::{MS, Micros, Node, Sim, ZONE};

const SECTOR: usize = 512;

/// What bytes of a file of the zone were before a write.
pub struct Undo {
    path: PathBuf,
    offset: u64,
    before: Vec<u8>,
}

impl Undo {
    /// Any of its sectors were not written.
    pub fn lose(self, sim: &Sim) {
        let Ok(file) = sim.zone.open(&self.path, OpenMode::ReadWrite) else { return };
        for (number, sector) in self.before.chunks(SECTOR).enumerate() {
            if sim.one_in(2) {
                let _ = file.write_at(sector, self.offset + (number * SECTOR) as u64);
            }
        }
        let _ = file.sync();
    }
}

/// See the module.
pub struct Machine {
    sim: Arc<Sim>,
    node: Node,
    local: SimVfs,
}

fn io(what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("simulated: {what}")).of_device()
}

impl Machine {
    pub fn new(sim: Arc<Sim>, node: Node, local: SimVfs) -> Self {
        Self { sim, node, local }
    }

    fn primary(&self) -> Option<usize> {
        match self.node {
            Node::Primary(p) => Some(p),
            _ => None,
        }
    }

    fn is_dead(&self) -> bool {
        self.primary().is_some_and(|p| !self.sim.is_alive(p)) || self.sim.wrong().is_some()
    }

    /// The zone, once it is reached. A primary waits for that, in the call.
    fn zone(&self) -> Result<&SimVfs> {
        let Some(p) = self.primary() else {
            return match self.sim.reaches(self.node, Node::Zone) {
                true => Ok(&self.sim.zone),
                false => Err(io("the landing zone is out of reach")),
            };
        };
        self.sim.is_called(p);
        let node = self.node;
        let far = self.sim.now() + 60_000 * MS;
        if !self.is_dead() && !self.sim.reaches(node, Node::Zone) {
            self.sim.pass(far, Some(p), &mut |sim| sim.reaches(node, Node::Zone));
        }
        if self.is_dead() {
            return Err(io("the process is dead"));
        }
        Ok(&self.sim.zone)
    }

    fn of(&self, path: &Path) -> Result<&SimVfs> {
        if is_in_zone(path) { self.zone() } else { Ok(&self.local) }
    }

    /// Time that a call to the zone takes.
    fn takes(&self, most: Micros) {
        let Some(p) = self.primary() else { return };
        let slow = self.sim.is_bad() && self.sim.one_in(40);
        let time = self.sim.below(if slow { 500 * MS } else { most });
        self.sim.pass_for(time, Some(p));
    }
}

struct ZoneFile {
    machine: Machine,
    file: Arc<dyn File>,
}

impl ZoneFile {
    /// Any of the sectors are written.
    fn torn(&self, buf: &[u8], offset: u64) {
        for (number, sector) in buf.chunks(SECTOR).enumerate() {
            if self.machine.sim.one_in(2) {
                let _ = self.file.write_at(sector, offset + (number * SECTOR) as u64);
            }
        }
    }
}

impl File for ZoneFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.machine.zone()?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.machine.zone()?;
        let Some(p) = self.machine.primary() else { return self.file.write_at(buf, offset) };
        // The device is done before or after the time has passed.
        let is_early = self.machine.sim.one_in(2);
        if !is_early {
            self.machine.takes(2 * MS);
            if self.machine.is_dead() {
                self.torn(buf, offset);
                return Err(io("the process is dead"));
            }
        }
        let mut before = vec![0; buf.len()];
        let read = self.file.read_at(&mut before, offset)?;
        before.truncate(read);
        self.file.write_at(buf, offset)?;
        let path = self.file.path().to_path_buf();
        self.machine.sim.state.lock().processes[p].unsynced.push(Undo { path, offset, before });
        if is_early {
            self.machine.takes(2 * MS);
        }
        if self.machine.is_dead() { Err(io("the process is dead")) } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.machine.zone()?;
        let Some(p) = self.machine.primary() else { return self.file.sync() };
        let path = self.file.path();
        let sync = || -> Result<()> {
            self.file.sync()?;
            self.machine.sim.state.lock().processes[p].unsynced.retain(|undo| undo.path != path);
            Ok(())
        };
        let is_early = self.machine.sim.one_in(2);
        if is_early {
            sync()?;
        }
        self.machine.takes(12 * MS);
        if self.machine.is_dead() {
            return Err(io("the process is dead"));
        }
        if is_early { Ok(()) } else { sync() }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.machine.zone()?;
        self.file.set_len(len)
    }

    fn len(&self) -> Result<u64> {
        self.machine.zone()?;
        self.file.len()
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.machine.zone()?;
        self.file.preallocate(len)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Vfs for Machine {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        if !is_in_zone(path) {
            return self.local.open(path, mode);
        }
        let file = self.zone()?.open(path, mode)?;
        {
            // What one machine reads has left the memory of the other.
            let me = self.primary();
            let mut state = self.sim.state.lock();
            for (p, process) in state.processes.iter_mut().enumerate() {
                if Some(p) != me {
                    process.unsynced.retain(|undo| undo.path != path);
                }
            }
        }
        let machine = Machine::new(Arc::clone(&self.sim), self.node, self.local.clone());
        Ok(Arc::new(ZoneFile { machine, file }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.of(path)?.exists(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.of(path)?.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.of(from)?.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.of(from)?.rename_new(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.of(path)?.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.of(dir)?.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.of(dir)?.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        self.of(dir)?.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.of(path)?.lock(path)
    }

    fn now(&self) -> Duration {
        self.local.now()
    }

    fn wall_clock_us(&self) -> i64 {
        self.local.wall_clock_us()
    }

    fn random_u64(&self) -> u64 {
        self.local.random_u64()
    }

    fn stats(&self) -> VfsStats {
        self.local.stats()
    }
}

/// A place of objects, as a process reaches it: in the landing zone, or in the store. What is published there may be published although
/// nobody is told.
pub struct Place {
    sim: Arc<Sim>,
    node: Node,
    at: Node,
    inner: FolderStore,
}

impl Place {
    /// The landing zone's.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn zone(sim: &Arc<Sim>, node: Node) -> Result<Self> {
        let inner = FolderStore::open(Arc::new(sim.zone.clone()), Path::new(ZONE)).map_err(Error::from)?;
        Ok(Self { sim: Arc::clone(sim), node, at: Node::Zone, inner })
    }

    /// One of the store's.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn store(sim: &Arc<Sim>, node: Node, place: &str) -> Result<Self> {
        let inner = FolderStore::open(Arc::new(sim.store.clone()), Path::new(place)).map_err(Error::from)?;
        Ok(Self { sim: Arc::clone(sim), node, at: Node::Store, inner })
    }

    fn enter(&self) -> StoreResult<()> {
        let away = |what: &str| Err(StoreError::new(StoreErrorKind::Unavailable, format!("simulated: {what}")));
        if let Node::Primary(p) = self.node {
            self.sim.is_called(p);
        }
        if let Node::Primary(p) = self.node
            && !self.sim.is_alive(p)
        {
            return away("the process is dead");
        }
        if !self.sim.reaches(self.node, self.at) {
            self.failed();
            return away("the store is out of reach");
        }
        Ok(())
    }

    fn failed(&self) {
        failed(&self.sim, self.node, self.at);
    }

    /// Whether a publication goes on, and is told of.
    fn luck(sim: &Sim) -> (bool, bool) {
        match sim.is_bad() {
            true => [(true, true), (true, false), (false, false)]
                [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2][sim.below(12) as usize]],
            false => (true, true),
        }
    }
}

/// A primary's errors are explained by it. (Who handles an event of another tier has the state.)
fn failed(sim: &Sim, node: Node, at: Node) {
    if let Node::Primary(p) = node {
        let mut state = sim.state.lock();
        let process = &mut state.processes[p];
        match at {
            Node::Zone => process.zone_failed = true,
            _ => process.store_failed = true,
        }
    }
}

struct Put {
    sim: Arc<Sim>,
    node: Node,
    at: Node,
    inner: Box<dyn Upload>,
}

impl Upload for Put {
    fn append(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.inner.append(bytes)
    }

    fn publish(self: Box<Self>) -> StoreResult<()> {
        let (is_done, is_told) = Place::luck(&self.sim);
        if is_done {
            self.inner.publish()?;
        }
        if is_told {
            return Ok(());
        }
        failed(&self.sim, self.node, self.at);
        Err(StoreError::new(StoreErrorKind::Uncertain, "simulated: no answer to a publication"))
    }
}

impl Store for Place {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        self.enter()?;
        let inner = self.inner.create(name)?;
        Ok(Box::new(Put { sim: Arc::clone(&self.sim), node: self.node, at: self.at, inner }))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        self.enter()?;
        self.inner.read(name, offset, len)
    }

    fn len(&self, name: &str) -> StoreResult<u64> {
        self.enter()?;
        self.inner.len(name)
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        self.enter()?;
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        self.enter()?;
        self.inner.delete(name)
    }

    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.enter()?;
        self.inner.sync_deletes(folder)
    }

    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.enter()?;
        self.inner.tidy(folder)
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}
