//! A disk in memory that behaves as badly as the contract of this crate allows,
//! from a seed.
//!
//! - Unsynced writes survive a crash or not, sector by sector and independently:
//!   lost, torn and reordered writes all happen.
//! - Names (create, rename, remove) that were not synced with their folder
//!   survive or not, independently; but two changes of the same name keep their
//!   order: a later one survives only if the earlier ones did.
//! - A folder is durable once the folder that it is in was synced; until then it survives or not, and what is below it with it.
//! - A sync that failed is told to every handle of the file that was open, once.
//! - A device may not answer for a while, and do late what it was asked for (`late.rs`).
//! - The clock moves by a microsecond at each reading, and by [`SimVfs::advance`].
//!
//! One mutex guards everything, so calls from several threads are safe, and a
//! single-threaded test is a pure function of its seed.

mod content;
mod fault;
mod late;
mod rng;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use resurgam_base::{Error, ErrorKind, Result};

use crate::stats::Counters;
use crate::{File, FileLock, OpenMode, Vfs, VfsStats};
use content::{CHUNK_BYTES, Content};
pub use fault::{Failing, FaultPlan, Lie, LyingWrite, Silent};
use rng::Rng;

/// Settings of a [`SimVfs`].
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Where all randomness comes from.
    pub seed: u64,
    /// The unit in which the disk is atomic, in bytes: 512 or 4096.
    pub sector_bytes: usize,
}

/// The simulated disk. Clones share it.
#[derive(Clone)]
pub struct SimVfs {
    disk: Arc<Disk>,
}

struct Disk {
    sector_bytes: usize,
    counters: Counters,
    state: Mutex<State>,
    /// A device may answer again.
    answers: Condvar,
}

impl Disk {
    /// Its state, for a call about `path`: not before the device answers.
    fn enter(&self, path: &Path) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.hangs(path) {
            self.answers.wait(&mut state);
        }
        state
    }
}

/// One change of the names in a folder, not yet durable.
#[derive(Clone)]
struct NameChange {
    /// The folder whose sync makes it durable.
    folders: [PathBuf; 2],
    /// Names and what they lead to from now on.
    set: Vec<(PathBuf, Option<u64>)>,
}

struct State {
    rng: Rng,
    clock: Duration,
    power_lost: bool,
    faults: FaultPlan,
    /// Calls since the plan was set.
    ops: u64,
    reads: u64,
    writes: u64,
    syncs: u64,
    next_inode: u64,
    inodes: HashMap<u64, Content>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    changes: Vec<NameChange>,
    folders: BTreeSet<PathBuf>,
    durable_folders: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    /// Writes to files of which some lie, since the plan was set.
    writes_to: HashMap<PathBuf, u64>,
    /// Sectors that cannot be read until they are written, by inode. The medium's: a crash changes nothing.
    unreadable: HashMap<u64, BTreeSet<u64>>,
    /// Syncs that failed, by inode: each handle is told once of those since it was opened.
    failed_syncs: HashMap<u64, u64>,
    /// What was asked for and is still to be done.
    late: late::Late,
}

fn io(action: &str, path: &Path, source: std::io::Error) -> Error {
    Error::io(action, path.display(), &source)
}

fn not_found(action: &str, path: &Path) -> Error {
    io(action, path, std::io::ErrorKind::NotFound.into())
}

fn fault(action: &str, path: &Path) -> Error {
    io(action, path, std::io::Error::other("simulated input/output error")).of_device()
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_path_buf()
}

/// What a counted call is to do.
enum Step {
    Go,
    /// Power is lost in the middle: apply what may or may not survive, then fail.
    PowerLoss,
}

impl State {
    fn powered(&self, action: &str, path: &Path) -> Result<()> {
        if self.power_lost {
            return Err(io(action, path, std::io::Error::other("power lost")));
        }
        Ok(())
    }

    /// Counts a call that changes something.
    fn step(&mut self, action: &str, path: &Path) -> Result<Step> {
        self.powered(action, path)?;
        self.ops += 1;
        self.end_late_calls();
        let is_silent = self.is_silent_at(self.ops, path);
        if self.faults.crash_after_ops == Some(self.ops) {
            self.power_lost = true;
            if !is_silent {
                return Ok(Step::PowerLoss);
            }
        }
        if is_silent {
            return Err(late::unanswered(action, path));
        }
        Ok(Step::Go)
    }

    fn fails(&self, path: &Path, which: impl Fn(&Failing) -> bool) -> bool {
        let is_dead = self.faults.dies.as_ref().is_some_and(|(at, below)| self.ops >= *at && path.starts_with(below));
        is_dead || self.faults.failing.iter().any(|failing| which(failing) && path.starts_with(&failing.path))
    }

    /// Whether the next call about `path` does not end.
    fn hangs(&self, path: &Path) -> bool {
        let hangs = |(at, below): &(u64, PathBuf)| self.ops + 1 >= *at && path.starts_with(below);
        !self.power_lost && self.faults.hangs.as_ref().is_some_and(hangs)
    }

    fn used_bytes(&self, below: &Path) -> u64 {
        let inodes = self.names.iter().filter(|(path, _)| path.starts_with(below)).map(|(_, inode)| inode);
        inodes.filter_map(|inode| self.inodes.get(inode)).map(Content::len).sum()
    }

    /// The folders below which all files together have a bound, and `path` is: with that.
    fn limits<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, u64)> {
        let everywhere = self.faults.capacity_bytes.map(|capacity| (Path::new(""), capacity));
        let small = self.faults.small_disk.as_ref().map(|(folder, capacity)| (folder.as_path(), *capacity));
        everywhere.into_iter().chain(small.filter(|(folder, _)| path.starts_with(folder)))
    }

    fn check_capacity(&self, action: &str, path: &Path, inode: u64, new_len: u64) -> Result<()> {
        let old_len = self.inodes.get(&inode).map_or(0, Content::len);
        for (folder, capacity) in self.limits(path) {
            if new_len > old_len && self.used_bytes(folder) + (new_len - old_len) > capacity {
                return Err(io(action, path, std::io::ErrorKind::StorageFull.into()));
            }
        }
        Ok(())
    }

    /// Whether a sector of these bytes cannot be read.
    fn is_unreadable(&self, inode: u64, offset: u64, len: usize, sector_bytes: usize) -> bool {
        let size = sector_bytes as u64;
        let sectors = offset / size..(offset + len as u64).div_ceil(size);
        self.unreadable.get(&inode).is_some_and(|of| of.range(sectors).next().is_some())
    }

    /// Sectors that are written whole can be read again.
    fn written(&mut self, inode: u64, offset: u64, len: usize, sector_bytes: usize) {
        if let Some(unreadable) = self.unreadable.get_mut(&inode) {
            let size = sector_bytes as u64;
            let sectors = offset.div_ceil(size)..(offset + len as u64) / size;
            unreadable.retain(|sector| !sectors.contains(sector));
        }
    }

    /// Where a write to `path` at `offset` goes; none: nowhere.
    fn destination(&mut self, path: &Path, offset: u64) -> Option<u64> {
        if !self.faults.lying.iter().any(|lying| lying.path == path) {
            return Some(offset);
        }
        let count = self.writes_to.entry(path.to_path_buf()).or_default();
        *count += 1;
        let lying = self.faults.lying.iter().find(|lying| lying.path == path && lying.at == *count);
        match lying.map(|lying| lying.lie) {
            None => Some(offset),
            Some(Lie::Lost) => None,
            Some(Lie::Elsewhere(by)) => offset.checked_add_signed(by),
        }
    }

    fn change_names(&mut self, folders: [PathBuf; 2], set: Vec<(PathBuf, Option<u64>)>) {
        apply(&mut self.names, &set);
        self.changes.push(NameChange { folders, set });
    }

    /// Forgets the bytes of files that no name leads to, now or after a crash.
    /// Handles keep their content through the inode table, so this runs only
    /// when a new instance is made.
    fn collect_garbage(&mut self) {
        let live: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| live.contains(inode));
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, set: &[(PathBuf, Option<u64>)]) {
    for (path, inode) in set {
        match inode {
            Some(inode) => names.insert(path.clone(), *inode),
            None => names.remove(path),
        };
    }
}

impl SimVfs {
    /// An empty disk with 512-byte sectors.
    pub fn new(seed: u64) -> Self {
        Self::with_config(SimConfig { seed, sector_bytes: 512 })
    }

    /// An empty disk.
    ///
    /// # Panics
    /// When `sector_bytes` does not divide 4096.
    pub fn with_config(config: SimConfig) -> Self {
        assert!(
            config.sector_bytes > 0 && CHUNK_BYTES.is_multiple_of(config.sector_bytes),
            "sector size must divide {CHUNK_BYTES}"
        );
        Self::from_state(
            config.sector_bytes,
            State {
                rng: Rng::new(config.seed),
                clock: Duration::ZERO,
                power_lost: false,
                faults: FaultPlan::default(),
                ops: 0,
                reads: 0,
                writes: 0,
                syncs: 0,
                next_inode: 1,
                inodes: HashMap::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                changes: Vec::new(),
                folders: [PathBuf::from(""), PathBuf::from("/")].into(),
                durable_folders: [PathBuf::from(""), PathBuf::from("/")].into(),
                locks: BTreeSet::new(),
                writes_to: HashMap::new(),
                unreadable: HashMap::new(),
                failed_syncs: HashMap::new(),
                late: late::Late::default(),
            },
        )
    }

    fn from_state(sector_bytes: usize, state: State) -> Self {
        let (counters, answers) = (Counters::default(), Condvar::new());
        let disk = Disk { sector_bytes, counters, state: Mutex::new(state), answers };
        Self { disk: Arc::new(disk) }
    }

    /// A process that has closed its files ends: what it still waits for is done now or never.
    pub fn end_calls(&self) {
        self.disk.state.lock().settle_late_calls();
    }

    /// The disk after a power loss now: a new instance without faults, locks or
    /// open files. This instance refuses every later call.
    pub fn crash(&self) -> SimVfs {
        let seed = {
            let mut state = self.disk.state.lock();
            state.settle_late_calls();
            state.rng.next()
        };
        let after = self.crash_clone(seed);
        self.disk.state.lock().power_lost = true;
        self.disk.answers.notify_all();
        after
    }

    /// What [`SimVfs::crash`] would leave with the randomness of `seed`; this
    /// instance goes on undisturbed.
    pub fn crash_clone(&self, seed: u64) -> SimVfs {
        let state = self.disk.state.lock();
        let mut rng = Rng::new(seed);

        // Above first: what is below a folder that is lost is lost with it.
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for folder in &state.folders {
            let is_durable = state.durable_folders.contains(folder) || rng.coin();
            if is_durable && folder.parent().is_none_or(|above| folders.contains(above)) {
                folders.insert(folder.clone());
            }
        }

        let mut names = state.durable_names.clone();
        let mut lost: BTreeSet<&PathBuf> = BTreeSet::new();
        for change in &state.changes {
            let blocked = change.set.iter().any(|(path, _)| lost.contains(path));
            if blocked || rng.coin() {
                lost.extend(change.set.iter().map(|(path, _)| path));
            } else {
                apply(&mut names, &change.set);
            }
        }

        names.retain(|path, _| folders.contains(&parent(path)));

        // In order of inode, so that the seed decides everything.
        let survivors: BTreeSet<u64> = names.values().copied().collect();
        let inodes = survivors
            .into_iter()
            .filter_map(|inode| {
                let content = state.inodes.get(&inode)?;
                Some((inode, content.crashed(self.disk.sector_bytes, &mut rng)))
            })
            .collect();
        self.successor(&state, rng, names, folders, inodes)
    }

    /// The disk after the process was killed now: a new instance without faults,
    /// locks or open files, in which readers see everything written so far,
    /// although what was not synced can still be lost by a later power loss.
    /// This instance refuses every later call.
    pub fn kill(&self) -> SimVfs {
        let mut state = self.disk.state.lock();
        // A process ends when its calls have ended.
        state.settle_late_calls();
        let rng = Rng::new(state.rng.next());
        state.power_lost = true;
        self.disk.answers.notify_all();
        let inodes = state.inodes.clone();
        let next = self.successor(&state, rng, state.names.clone(), state.folders.clone(), inodes);
        {
            let mut next = next.disk.state.lock();
            next.durable_names.clone_from(&state.durable_names);
            next.durable_folders.clone_from(&state.durable_folders);
            next.changes.clone_from(&state.changes);
            // A removal that is not durable may still be undone.
            next.inodes.clone_from(&state.inodes);
        }
        next
    }

    /// An independent copy of everything that readers see now: a backup made by
    /// magic, for tests that compare.
    pub fn fork(&self, seed: u64) -> SimVfs {
        let state = self.disk.state.lock();
        let mut inodes = state.inodes.clone();
        for content in inodes.values_mut() {
            content.sync();
        }
        self.successor(&state, Rng::new(seed), state.names.clone(), state.folders.clone(), inodes)
    }

    fn successor(
        &self,
        state: &State,
        rng: Rng,
        names: BTreeMap<PathBuf, u64>,
        folders: BTreeSet<PathBuf>,
        inodes: HashMap<u64, Content>,
    ) -> SimVfs {
        let mut next = State {
            rng,
            clock: state.clock,
            power_lost: false,
            faults: FaultPlan::default(),
            ops: 0,
            reads: 0,
            writes: 0,
            syncs: 0,
            next_inode: state.next_inode,
            inodes,
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
            durable_folders: folders.clone(),
            folders,
            locks: BTreeSet::new(),
            writes_to: HashMap::new(),
            unreadable: state.unreadable.clone(),
            failed_syncs: HashMap::new(),
            late: late::Late::default(),
        };
        next.collect_garbage();
        Self::from_state(self.disk.sector_bytes, next)
    }

    /// Replaces the fault plan and starts counting calls from zero.
    pub fn set_faults(&self, plan: FaultPlan) {
        let mut state = self.disk.state.lock();
        state.late.begin(plan.silent.as_ref());
        state.faults = plan;
        (state.ops, state.reads, state.writes, state.syncs) = (0, 0, 0, 0);
        state.writes_to.clear();
        self.disk.answers.notify_all();
    }

    /// Calls that changed something since the plan was set: the range from which
    /// a test draws [`FaultPlan::crash_after_ops`].
    pub fn ops(&self) -> u64 {
        self.disk.state.lock().ops
    }

    /// Reads since the plan was set; with as many as [`FaultPlan::fail_read_at`], that one has failed.
    pub fn reads(&self) -> u64 {
        self.disk.state.lock().reads
    }

    /// Calls that were not answered and are still to be done, and those that were done late.
    pub fn late_calls(&self) -> (usize, u64) {
        let state = self.disk.state.lock();
        (state.late.pending(), state.late.ended())
    }

    /// Whether power was lost.
    pub fn power_lost(&self) -> bool {
        self.disk.state.lock().power_lost
    }

    /// Flips bit `bit` (counted from the start of the file) on the medium.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> Result<()> {
        let mut state = self.disk.state.lock();
        let inode = *state.names.get(path).ok_or_else(|| not_found("damage file", path))?;
        let content = state.inodes.get_mut(&inode).ok_or_else(|| not_found("damage file", path))?;
        if bit / 8 >= content.len() {
            return Err(Error::new(ErrorKind::InvalidParameter, "bit is past the end of the file"));
        }
        content.flip_bit(bit);
        Ok(())
    }

    /// The sectors of a file that hold these bytes cannot be read until they are written over, whole.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn make_unreadable(&self, path: &Path, bytes: std::ops::Range<u64>) -> Result<()> {
        let mut state = self.disk.state.lock();
        let inode = *state.names.get(path).ok_or_else(|| not_found("damage file", path))?;
        let size = self.disk.sector_bytes as u64;
        state.unreadable.entry(inode).or_default().extend(bytes.start / size..bytes.end.div_ceil(size));
        Ok(())
    }

    /// Sectors of a file that cannot be read now.
    pub fn unreadable_sectors(&self, path: &Path) -> usize {
        let state = self.disk.state.lock();
        state.names.get(path).and_then(|inode| state.unreadable.get(inode)).map_or(0, BTreeSet::len)
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.disk.state.lock().clock += by;
    }
}

struct SimFile {
    disk: Arc<Disk>,
    inode: u64,
    path: PathBuf,
    writable: bool,
    /// Failed syncs of the file that this handle knows of.
    told: AtomicU64,
}

impl SimFile {
    fn check_writable(&self, action: &str) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(io(action, &self.path, std::io::ErrorKind::PermissionDenied.into()))
    }

    fn content<'a>(&self, state: &'a mut State, action: &str) -> Result<&'a mut Content> {
        state.inodes.get_mut(&self.inode).ok_or_else(|| not_found(action, &self.path))
    }

    fn power_lost(&self, action: &str) -> Error {
        io(action, &self.path, std::io::Error::other("power lost"))
    }

    fn resize(&self, action: &str, len: impl FnOnce(u64) -> u64) -> Result<()> {
        self.check_writable(action)?;
        let mut state = self.disk.enter(&self.path);
        let old = self.content(&mut state, action)?.len();
        let len = len(old);
        if state.is_silent(&self.path) {
            return Err(state.do_late(action, &self.path, late::Call::SetLen { inode: self.inode, len }));
        }
        let step = state.step(action, &self.path)?;
        state.check_capacity(action, &self.path, self.inode, len)?;
        self.content(&mut state, action)?.set_len(len);
        match step {
            Step::Go => Ok(()),
            Step::PowerLoss => Err(self.power_lost(action)),
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        const ACTION: &str = "read file";
        let mut state = self.disk.enter(&self.path);
        state.answers(ACTION, &self.path)?;
        state.reads += 1;
        if state.faults.fail_read_at == Some(state.reads) || state.fails(&self.path, |f| f.reads) {
            return Err(fault(ACTION, &self.path));
        }
        if state.is_unreadable(self.inode, offset, buf.len(), self.disk.sector_bytes) {
            return Err(fault(ACTION, &self.path));
        }
        let read = self.content(&mut state, ACTION)?.read(buf, offset);
        self.disk.counters.read(read);
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        const ACTION: &str = "write file";
        self.check_writable(ACTION)?;
        let mut state = self.disk.enter(&self.path);
        if state.is_silent(&self.path) {
            let call = late::Call::Write { inode: self.inode, offset, bytes: buf.to_vec() };
            return Err(state.do_late(ACTION, &self.path, call));
        }
        let step = state.step(ACTION, &self.path)?;
        state.writes += 1;
        if state.faults.fail_write_at == Some(state.writes) || state.fails(&self.path, |f| f.writes) {
            let part = state.rng.below(buf.len() as u64 + 1) as usize;
            self.content(&mut state, ACTION)?.write(&buf[..part], offset);
            return Err(fault(ACTION, &self.path));
        }
        state.check_capacity(ACTION, &self.path, self.inode, offset + buf.len() as u64)?;
        if let Some(offset) = state.destination(&self.path, offset) {
            self.content(&mut state, ACTION)?.write(buf, offset);
            state.written(self.inode, offset, buf.len(), self.disk.sector_bytes);
        }
        self.disk.counters.write(buf.len());
        match step {
            Step::Go => Ok(()),
            Step::PowerLoss => Err(self.power_lost(ACTION)),
        }
    }

    fn write_parts(&self, bytes: &[u8], parts: &[(u64, std::ops::Range<usize>)]) -> Result<()> {
        let mut outcome = Ok(());
        for (offset, range) in parts {
            match self.write_at(&bytes[range.clone()], *offset) {
                // It was given all of them.
                Err(error) if error.is_unanswered() => outcome = Err(error),
                other => other?,
            }
        }
        outcome
    }

    fn sync(&self) -> Result<()> {
        const ACTION: &str = "sync file";
        let mut state = self.disk.enter(&self.path);
        if state.is_silent(&self.path) {
            return Err(state.do_late(ACTION, &self.path, late::Call::Sync { inode: self.inode }));
        }
        if let Step::PowerLoss = state.step(ACTION, &self.path)? {
            return Err(self.power_lost(ACTION));
        }
        state.syncs += 1;
        self.disk.counters.sync();
        if state.faults.fail_sync_at == Some(state.syncs) || state.fails(&self.path, |f| f.syncs) {
            let mut rng = Rng::new(state.rng.next());
            self.content(&mut state, ACTION)?.fail_sync(self.disk.sector_bytes, &mut rng);
            let failed = state.failed_syncs.entry(self.inode).or_default();
            *failed += 1;
            self.told.store(*failed, Ordering::Relaxed);
            return Err(fault(ACTION, &self.path));
        }
        let failed = state.failed_syncs.get(&self.inode).copied().unwrap_or(0);
        if self.told.swap(failed, Ordering::Relaxed) != failed {
            return Err(fault(ACTION, &self.path));
        }
        if !state.faults.skip_sync && state.faults.skip_sync_of.as_ref() != Some(&self.path) {
            self.content(&mut state, ACTION)?.sync();
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.resize("resize file", |_| len)
    }

    fn len(&self) -> Result<u64> {
        let mut state = self.disk.enter(&self.path);
        state.answers("stat file", &self.path)?;
        Ok(self.content(&mut state, "stat file")?.len())
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.resize("allocate file", |old| old.max(len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        const ACTION: &str = "punch a hole into file";
        self.check_writable(ACTION)?;
        if !offset.is_multiple_of(content::CHUNK_BYTES as u64) || !len.is_multiple_of(content::CHUNK_BYTES as u64) {
            return Ok(false);
        }
        let mut state = self.disk.enter(&self.path);
        if state.is_silent(&self.path) {
            let call = late::Call::Write { inode: self.inode, offset, bytes: vec![0; len as usize] };
            return Err(state.do_late(ACTION, &self.path, call));
        }
        let step = state.step(ACTION, &self.path)?;
        self.content(&mut state, ACTION)?.punch(offset, len);
        match step {
            Step::Go => Ok(true),
            Step::PowerLoss => Err(self.power_lost(ACTION)),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct SimLock {
    disk: Arc<Disk>,
    path: PathBuf,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state.lock().locks.remove(&self.path);
    }
}

impl SimVfs {
    /// Renames if the names are as they should be; whether it did.
    fn rename_if(&self, from: &Path, to: &Path, wanted: impl FnOnce(&State) -> bool) -> Result<bool> {
        const ACTION: &str = "rename file";
        let mut state = self.disk.enter(from);
        if state.is_silent(from) {
            return Err(match state.names.get(from).copied() {
                Some(inode) => {
                    let call = late::Call::Rename { inode, from: from.to_path_buf(), to: to.to_path_buf() };
                    state.do_late(ACTION, from, call)
                }
                None => late::unanswered(ACTION, from),
            });
        }
        let step = state.step(ACTION, from)?;
        let inode = *state.names.get(from).ok_or_else(|| not_found(ACTION, from))?;
        let folders = [parent(from), parent(to)];
        if !state.folders.contains(&folders[1]) {
            return Err(not_found(ACTION, to));
        }
        let wanted = wanted(&state);
        if wanted {
            let set = vec![(from.to_path_buf(), None), (to.to_path_buf(), Some(inode))];
            state.change_names(folders, set);
        }
        match step {
            Step::Go => Ok(wanted),
            Step::PowerLoss => Err(io(ACTION, from, std::io::Error::other("power lost"))),
        }
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        const ACTION: &str = "open file";
        let mut state = self.disk.enter(path);
        state.answers(ACTION, path)?;
        let inode = match (state.names.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(io(ACTION, path, std::io::ErrorKind::AlreadyExists.into()));
            }
            (Some(inode), _) => *inode,
            (None, OpenMode::ReadOnly | OpenMode::ReadWrite) => {
                return Err(not_found(ACTION, path));
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                let folder = parent(path);
                if !state.folders.contains(&folder) {
                    return Err(not_found(ACTION, path));
                }
                let step = state.step(ACTION, path)?;
                let inode = state.next_inode;
                state.next_inode += 1;
                state.inodes.insert(inode, Content::default());
                let set = vec![(path.to_path_buf(), Some(inode))];
                state.change_names([folder.clone(), folder], set);
                if let Step::PowerLoss = step {
                    return Err(io(ACTION, path, std::io::Error::other("power lost")));
                }
                inode
            }
        };
        Ok(Arc::new(SimFile {
            disk: Arc::clone(&self.disk),
            inode,
            path: path.to_path_buf(),
            writable: mode != OpenMode::ReadOnly,
            told: AtomicU64::new(state.failed_syncs.get(&inode).copied().unwrap_or(0)),
        }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.disk.enter(path);
        state.answers("stat file", path)?;
        Ok(state.names.contains_key(path) || state.folders.contains(path))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        const ACTION: &str = "remove file";
        let mut state = self.disk.enter(path);
        if state.is_silent(path) {
            return Err(match state.names.get(path).copied() {
                Some(inode) => state.do_late(ACTION, path, late::Call::Remove { inode, path: path.to_path_buf() }),
                None => late::unanswered(ACTION, path),
            });
        }
        let step = state.step(ACTION, path)?;
        if !state.names.contains_key(path) {
            return Err(not_found(ACTION, path));
        }
        let folder = parent(path);
        state.change_names([folder.clone(), folder], vec![(path.to_path_buf(), None)]);
        match step {
            Step::Go => Ok(()),
            Step::PowerLoss => Err(io(ACTION, path, std::io::Error::other("power lost"))),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.rename_if(from, to, |_| true).map(drop)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.rename_if(from, to, |state| !state.names.contains_key(to) && !state.folders.contains(to))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        const ACTION: &str = "create folder";
        let mut state = self.disk.enter(path);
        state.answers(ACTION, path)?;
        if state.folders.contains(path) {
            return Ok(());
        }
        let step = state.step(ACTION, path)?;
        state.folders.extend(path.ancestors().map(Path::to_path_buf));
        match step {
            Step::Go => Ok(()),
            Step::PowerLoss => Err(io(ACTION, path, std::io::Error::other("power lost"))),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.disk.enter(dir);
        state.answers("list folder", dir)?;
        if !state.folders.contains(dir) {
            return Err(not_found("list folder", dir));
        }
        let names: BTreeSet<String> = state
            .names
            .keys()
            .chain(&state.folders)
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        Ok(names.into_iter().collect())
    }

    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        let state = self.disk.enter(dir);
        state.answers("ask for the room in", dir)?;
        Ok(state.limits(dir).map(|(folder, capacity)| capacity.saturating_sub(state.used_bytes(folder))).min())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        const ACTION: &str = "sync folder";
        let mut state = self.disk.enter(dir);
        if let Step::PowerLoss = state.step(ACTION, dir)? {
            return Err(io(ACTION, dir, std::io::Error::other("power lost")));
        }
        if !state.folders.contains(dir) {
            return Err(not_found(ACTION, dir));
        }
        state.syncs += 1;
        self.disk.counters.sync();
        if state.faults.fail_sync_at == Some(state.syncs) {
            return Err(fault(ACTION, dir));
        }
        if !state.faults.skip_sync {
            let changes = std::mem::take(&mut state.changes);
            for change in changes {
                if change.folders.iter().any(|folder| folder == dir) {
                    apply(&mut state.durable_names, &change.set);
                } else {
                    state.changes.push(change);
                }
            }
            let inside: Vec<_> = state.folders.iter().filter(|path| path.parent() == Some(dir)).cloned().collect();
            state.durable_folders.extend(inside);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut state = self.disk.enter(path);
        state.answers("lock file", path)?;
        if !state.folders.contains(&parent(path)) {
            return Err(not_found("lock file", path));
        }
        if !state.locks.insert(path.to_path_buf()) {
            return Err(crate::real::in_use(path));
        }
        Ok(Box::new(SimLock { disk: Arc::clone(&self.disk), path: path.to_path_buf() }))
    }

    fn now(&self) -> Duration {
        let mut state = self.disk.state.lock();
        state.clock += Duration::from_micros(1);
        state.clock
    }

    fn wall_clock_us(&self) -> i64 {
        /// 2025-01-01 00:00 UTC.
        const START_US: i64 = 789_004_800_000_000;
        START_US + i64::try_from(self.now().as_micros()).unwrap_or(i64::MAX - START_US)
    }

    fn random_u64(&self) -> u64 {
        self.disk.state.lock().rng.next()
    }

    fn stats(&self) -> VfsStats {
        self.disk.counters.snapshot()
    }
}

#[cfg(test)]
mod tests;
