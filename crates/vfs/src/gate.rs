//! Calls to one device, none of which has to be waited for for ever.
//!
//! A call to the system cannot be taken back. Where a device stops answering, whoever has called it hangs, with all that it holds. So
//! the calls that may have to wait for the device are made by threads of the gate, with memory of their own, and who wants them done
//! waits for a bounded time. Then the device counts as one that hangs, and it is *given up*: who waits is told an error, every later
//! call is refused at once, and the calls that are under way are left to themselves, whenever they end.
//!
//! # Invariants
//! 1. A device that was given up is never called again through this gate. A call of its that ends late, a write above all, can so
//!    undo nothing that was done after it: whoever goes on does so with other files.
//! 2. A call under way uses memory that nobody else has.
//! 3. What is given up has something to take its place ([`Gate::may_give_up`]); otherwise it is waited for, as ever, and
//!    [`Gate::waiting`] says for how long.
//!
//! A system that loses patience itself (ETIMEDOUT: of a disk that answers no command any more, of a network's file system that is mounted
//! softly) has taken nothing back, either. So a call that changes something and ends like that gives the device up as well.
//!
//! # What it costs
//! Reads that the system can answer from its cache are made by the caller ([`File::read_now`]): they do not wait for the device. All
//! others cost two changes of threads, some ten microseconds, where the device takes more; writes go in as few calls as there are
//! ([`File::write_parts`]), each with a copy of its bytes where these are not given away ([`File::write_own_parts`]).
//!
//! Time is counted in steps, each of them seen by who waits: a process that was stopped for a minute does not take that for a device
//! that has not answered.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Result};

use crate::{File, FileLock, OpenMode, Vfs, VfsStats, in_one_piece};

/// Whoever waits looks up so often in the time that is allowed.
const STEPS: u32 = 20;
/// Threads that make calls, at most: as many calls are under way. They are made as they are needed.
const THREADS_MAX: usize = 64;
/// One that had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

struct Shared {
    name: String,
    queue: Mutex<Queue>,
    wake: Condvar,
    step: Duration,
    may_give_up: AtomicBool,
    given_up: AtomicBool,
    /// The most steps that a call under way was waited for, and who found that: forgotten when that call ends.
    waiting: AtomicU32,
}

/// See the module.
pub struct Gate {
    shared: Arc<Shared>,
}

/// The outcome of a call.
struct Slot<R> {
    outcome: Mutex<Option<Result<R>>>,
    done: Condvar,
}

impl Gate {
    /// A gate to the device of that name, which is given up when a call takes longer than `patience`.
    pub fn new(name: impl Into<String>, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Shared {
                name: name.into(),
                queue: Mutex::default(),
                wake: Condvar::new(),
                step: (patience / STEPS).max(Duration::from_millis(1)),
                may_give_up: AtomicBool::new(false),
                given_up: AtomicBool::new(false),
                waiting: AtomicU32::new(0),
            }),
        })
    }

    /// Whether the device may be given up, as there is something to take its place.
    pub fn set_may_give_up(&self, may: bool) {
        self.shared.may_give_up.store(may, Ordering::SeqCst);
    }

    /// See [`Gate::set_may_give_up`].
    pub fn may_give_up(&self) -> bool {
        self.shared.may_give_up.load(Ordering::SeqCst)
    }

    /// Gives the device up at once, if that may be.
    pub fn give_up(&self) {
        if self.may_give_up() {
            self.shared.given_up.store(true, Ordering::SeqCst);
            self.shared.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// The name that it was given.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether the device was given up: no call reaches it any more.
    pub fn is_given_up(&self) -> bool {
        self.shared.given_up.load(Ordering::SeqCst)
    }

    /// For how long a call is being waited for that has not ended, if that is long.
    pub fn waiting(&self) -> Option<Duration> {
        let steps = self.shared.waiting.load(Ordering::Relaxed);
        (steps > 0).then(|| self.shared.step * steps)
    }

    /// The file with its calls through this gate.
    pub fn file(self: &Arc<Self>, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(GatedFile { gate: Arc::clone(self), path: file.path().to_path_buf(), file: Some(file) })
    }

    /// The file system with all calls about paths, and about files that are opened there, through this gate.
    pub fn vfs(self: &Arc<Self>, vfs: &Arc<dyn Vfs>) -> Arc<dyn Vfs> {
        Arc::new(GatedVfs { gate: Arc::clone(self), vfs: Arc::clone(vfs) })
    }

    fn refused(&self) -> Error {
        Error::new(
            ErrorKind::Io,
            format!("the device of \"{}\" did not answer for {:?}, and is given up", self.shared.name, self.patience()),
        )
    }

    fn patience(&self) -> Duration {
        self.shared.step * STEPS
    }

    fn call<R: Send + 'static>(&self, what: impl FnOnce() -> Result<R> + Send + 'static) -> Result<R> {
        if self.is_given_up() {
            return Err(self.refused());
        }
        let slot = Arc::new(Slot { outcome: Mutex::new(None), done: Condvar::new() });
        let theirs = Arc::clone(&slot);
        self.give(Box::new(move || {
            let outcome = what();
            *theirs.outcome.lock() = Some(outcome);
            theirs.done.notify_one();
        }))?;
        let mut steps = 0;
        let mut outcome = slot.outcome.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                if steps > 0 {
                    self.shared.waiting.store(0, Ordering::Relaxed);
                }
                return outcome;
            }
            if self.is_given_up() {
                return Err(self.refused());
            }
            if slot.done.wait_for(&mut outcome, self.shared.step).timed_out() && outcome.is_none() {
                steps += 1;
                self.shared.waiting.fetch_max(steps, Ordering::Relaxed);
                if steps >= STEPS {
                    self.give_up();
                }
            }
        }
    }

    /// As [`Gate::call`], where the call changes something: see the module for one that the system gives up.
    fn change<R: Send + 'static>(&self, what: impl FnOnce() -> Result<R> + Send + 'static) -> Result<R> {
        let outcome = self.call(what);
        if outcome.as_ref().is_err_and(Error::is_unanswered) {
            self.give_up();
        }
        outcome
    }

    fn give(&self, job: Job) -> Result<()> {
        let mut queue = self.shared.queue.lock();
        if queue.idle <= queue.jobs.len() && queue.threads < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().name("resurgam-device".to_owned()).spawn(move || shared.work());
            match spawned {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    return Err(Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {error}")));
                }
                // The others will come to it.
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Nobody can ask for anything any more: its threads end.
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(self: Arc<Self>) {
        let mut queue = self.queue.lock();
        loop {
            if self.given_up.load(Ordering::SeqCst) {
                // What has not begun never does.
                queue.jobs.clear();
            }
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job();
                    queue = self.queue.lock();
                }
                None => {
                    queue.idle += 1;
                    // One of the references is this thread's own, another that of the gate.
                    let timed_out = self.wake.wait_for(&mut queue, IDLE).timed_out();
                    queue.idle -= 1;
                    if queue.jobs.is_empty() && (timed_out || Arc::strong_count(&self) <= queue.threads) {
                        queue.threads -= 1;
                        return;
                    }
                }
            }
        }
    }
}

/// A file behind a gate.
struct GatedFile {
    gate: Arc<Gate>,
    path: PathBuf,
    /// None: it is being dropped.
    file: Option<Arc<dyn File>>,
}

impl GatedFile {
    fn inner(&self) -> Result<Arc<dyn File>> {
        self.file.clone().ok_or_else(|| Error::internal("a file is used that is closed"))
    }
}

impl Drop for GatedFile {
    fn drop(&mut self) {
        if self.gate.is_given_up() {
            // Closing it may hang as well.
            std::mem::forget(self.file.take());
        }
    }
}

impl File for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.inner()?;
        if self.gate.is_given_up() {
            return Err(self.gate.refused());
        }
        if let Some(read) = file.read_now(buf, offset) {
            return read;
        }
        let mut bytes = vec![0; buf.len()];
        let (bytes, read) = self.gate.call(move || {
            let read = file.read_at(&mut bytes, offset)?;
            Ok((bytes, read))
        })?;
        let read = read.min(buf.len());
        buf[..read].copy_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn read_now(&self, buf: &mut [u8], offset: u64) -> Option<Result<usize>> {
        match self.gate.is_given_up() {
            true => Some(Err(self.gate.refused())),
            false => self.file.as_ref()?.read_now(buf, offset),
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let (file, bytes) = (self.inner()?, buf.to_vec());
        self.gate.change(move || file.write_at(&bytes, offset))
    }

    fn write_parts(&self, bytes: &[u8], parts: &[(u64, Range<usize>)]) -> Result<()> {
        let file = self.inner()?;
        let mut own = Vec::with_capacity(parts.iter().map(|(_, range)| range.len()).sum());
        let mut of_own = Vec::with_capacity(parts.len());
        for (offset, range) in parts {
            let from = own.len();
            own.extend_from_slice(&bytes[range.clone()]);
            of_own.push((*offset, from..own.len()));
        }
        self.gate.change(move || file.write_parts(&own, &of_own))
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let (file, bytes) = (self.inner()?, in_one_piece(parts));
        self.gate.change(move || file.write_at(&bytes, offset))
    }

    fn write_own_parts(&self, bytes: Vec<u8>, parts: &[(u64, Range<usize>)]) -> Result<Vec<u8>> {
        let (file, parts) = (self.inner()?, parts.to_vec());
        self.gate.change(move || file.write_parts(&bytes, &parts).map(|()| bytes))
    }

    fn start_writing(&self, offset: u64, len: u64) {
        if let Ok(file) = self.inner() {
            // It may wait for the device after all.
            let _ = self.gate.call(move || {
                file.start_writing(offset, len);
                Ok(())
            });
        }
    }

    fn forget_read(&self, offset: u64, len: u64) {
        if let Ok(file) = self.inner() {
            let _ = self.gate.call(move || {
                file.forget_read(offset, len);
                Ok(())
            });
        }
    }

    fn sync(&self) -> Result<()> {
        let file = self.inner()?;
        self.gate.change(move || file.sync())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let file = self.inner()?;
        self.gate.change(move || file.set_len(len))
    }

    fn len(&self) -> Result<u64> {
        let file = self.inner()?;
        self.gate.call(move || file.len())
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        let file = self.inner()?;
        self.gate.change(move || file.preallocate(len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        let file = self.inner()?;
        self.gate.change(move || file.punch_hole(offset, len))
    }

    fn fill_hole(&self, offset: u64, len: u64) -> Result<()> {
        let file = self.inner()?;
        self.gate.change(move || file.fill_hole(offset, len))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file system behind a gate.
struct GatedVfs {
    gate: Arc<Gate>,
    vfs: Arc<dyn Vfs>,
}

impl GatedVfs {
    fn call<R: Send + 'static>(
        &self,
        path: &Path,
        what: impl FnOnce(&dyn Vfs, &Path) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (vfs, path) = (Arc::clone(&self.vfs), path.to_path_buf());
        self.gate.call(move || what(&*vfs, &path))
    }

    /// As [`GatedVfs::call`], for those that change something.
    fn change<R: Send + 'static>(
        &self,
        path: &Path,
        what: impl FnOnce(&dyn Vfs, &Path) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (vfs, path) = (Arc::clone(&self.vfs), path.to_path_buf());
        self.gate.change(move || what(&*vfs, &path))
    }
}

impl Vfs for GatedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let open = move |vfs: &dyn Vfs, path: &Path| vfs.open(path, mode);
        let file = match mode {
            OpenMode::Create | OpenMode::CreateNew => self.change(path, open)?,
            _ => self.call(path, open)?,
        };
        Ok(self.gate.file(file))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.call(path, |vfs, path| vfs.exists(path))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.change(path, |vfs, path| vfs.remove(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let to = to.to_path_buf();
        self.change(from, move |vfs, from| vfs.rename(from, &to))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        let to = to.to_path_buf();
        self.change(from, move |vfs, from| vfs.rename_new(from, &to))
    }
    fn make_folder(&self, dir: &Path) -> Result<()> {
        self.change(dir, |vfs, dir| vfs.make_folder(dir))
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.change(path, |vfs, path| vfs.create_dir_all(path))
    }
    fn keep_private(&self, dir: &Path, fresh: bool) -> Result<()> {
        self.call(dir, move |vfs, dir| vfs.keep_private(dir, fresh))
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.call(dir, |vfs, dir| vfs.list(dir))
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.change(dir, |vfs, dir| vfs.sync_dir(dir))
    }
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        self.call(dir, |vfs, dir| vfs.free_bytes(dir))
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.call(path, |vfs, path| vfs.lock(path))
    }
    fn now(&self) -> Duration {
        self.vfs.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.vfs.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.vfs.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.vfs.stats()
    }
}

#[cfg(test)]
mod tests;
