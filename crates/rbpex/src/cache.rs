//! The cache: directory, files, and whoever writes.
//!
//! # Locking
//! `writing` -> `directory` -> `notes`. The directory's is never held over a call to the disk. Who evicts a page holds locks of the pool and takes the
//! directory's; nobody takes locks of the pool under it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_buffer::{Copied, PageCache, PageCacheState as State, PageCacheStatus};
use resurgam_page::PageBuf;
use resurgam_vfs::{File, FileLock, Gate, OpenMode, Vfs};

use crate::directory::{Directory, Found, Taken};
use crate::format::{HEADER_BYTES, Header, RECORD_BYTES, Record};

const LOCK: &str = "lock";
const DIRECTORY: &str = "directory";
const PAGES: &str = "pages";
const FILES: [&str; 3] = [LOCK, DIRECTORY, PAGES];
/// Records that are read, or written, at once: 128 KB.
const CHUNK: u32 = 4096;
/// What a checkpoint, and a close, wait for at most.
const NOTE_MAX: Duration = Duration::from_secs(1);
const CLOSE_MAX: Duration = Duration::from_secs(3);
/// Pages that are written at once, at most, and for how long the first of them waits for others: a call to the disk by another thread (the gate)
/// costs as much as the writing. All of them have to be done within [`Config::patience`]. What waits can be found meanwhile.
const AT_ONCE: usize = 64;
const GATHERING: Duration = Duration::from_millis(12);
/// Reads after which what one takes on the average says something.
const READS_TO_JUDGE: u64 = 32;

/// Settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder, made if missing; nothing else is in it.
    pub dir: PathBuf,
    /// What its files take at most; at least 16 pages are kept.
    pub bytes: u64,
    /// Pages that wait to be written at most: those that come when there are so many are not kept.
    pub queue_pages: usize,
    /// The disk counts as dead when it does not answer a call for so long. Zero: it is waited for, whatever happens.
    pub patience: Duration,
    /// And as too slow when a read takes so long on the average.
    pub slow: Duration,
    /// A thread of its own opens, reads and writes. Off: opening reads all, and [`Rbpex::work`] writes; for simulation.
    pub background: bool,
    /// For tests.
    #[doc(hidden)]
    pub planted: Planted,
}

impl Config {
    /// With the defaults for the rest.
    pub fn new(dir: PathBuf, bytes: u64) -> Self {
        Self {
            dir,
            bytes,
            queue_pages: 512,
            patience: Duration::from_secs(2),
            slow: Duration::from_millis(100),
            background: true,
            planted: Planted::Nothing,
        }
    }

    fn slots(&self) -> usize {
        let each = (PAGE_SIZE + RECORD_BYTES) as u64;
        (self.bytes.saturating_sub(HEADER_BYTES as u64) / each).clamp(16, u64::from(u32::MAX >> 1)) as usize
    }
}

/// Mistakes that tests make on purpose.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    #[default]
    Nothing,
    /// What is in a slot is not compared with what its record says.
    SlotNotCompared,
    /// A page that is changed and finds no room keeps its older copy.
    StaleKept,
}

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    admitted: AtomicU64,
    known: AtomicU64,
    rejected: AtomicU64,
    recovered: AtomicU64,
    out_of_date: AtomicU64,
    damaged: AtomicU64,
    reads: AtomicU64,
    read_nanos: AtomicU64,
}

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Files {
    pages: Arc<dyn File>,
    directory: Arc<dyn File>,
    /// See [`Header::number`].
    number: u64,
    /// Until it is closed.
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

struct Shared {
    vfs: Arc<dyn Vfs>,
    gate: Option<Arc<Gate>>,
    config: Config,
    database: [u8; 16],
    files: OnceLock<Files>,
    state: AtomicU8,
    error: Mutex<Option<String>>,
    directory: Mutex<Directory>,
    /// Chunks of records that are to be written, and how many have been asked for and written so far.
    notes: Mutex<Notes>,
    noted: Condvar,
    /// With the directory's lock.
    wake: Condvar,
    /// Held by who writes: memory of what was written last, to be used again.
    writing: Mutex<Buffers>,
    stopping: AtomicBool,
    counters: Counters,
}

/// Of pages that are written at once, and of what is said of them.
#[derive(Default)]
struct Buffers {
    pages: Vec<u8>,
    records: Vec<u8>,
}

#[derive(Default)]
struct Notes {
    chunks: Vec<u32>,
    asked: u64,
    done: u64,
}

/// See the crate.
pub struct Rbpex {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Rbpex {
    /// Begins to use the folder for the database: what was kept there of it, if anything. Does not wait for the disk, with
    /// [`Config::background`], and never fails: where the folder cannot be used the cache is off.
    pub fn open(vfs: Arc<dyn Vfs>, config: Config, database: [u8; 16]) -> Arc<Self> {
        let gate = (!config.patience.is_zero()).then(|| {
            let gate = Gate::new(config.dir.display().to_string(), config.patience);
            gate.set_may_give_up(true);
            gate
        });
        let mut directory = Directory::new(config.slots(), config.queue_pages);
        directory.keeps_stale = config.planted == Planted::StaleKept;
        let shared = Arc::new(Shared {
            vfs: gate.as_ref().map_or_else(|| Arc::clone(&vfs), |gate| gate.vfs(&vfs)),
            gate,
            config,
            database,
            files: OnceLock::new(),
            state: AtomicU8::new(State::Reading as u8),
            error: Mutex::default(),
            directory: Mutex::new(directory),
            notes: Mutex::default(),
            noted: Condvar::new(),
            wake: Condvar::new(),
            writing: Mutex::default(),
            stopping: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let this = Self { shared: Arc::clone(&shared), thread: Mutex::default() };
        if this.shared.config.background {
            let spawned = std::thread::Builder::new().name("resurgam-rbpex".into()).spawn(move || shared.run());
            match spawned {
                Ok(thread) => *this.thread.lock() = Some(thread),
                Err(error) => this.shared.switch_off(&format!("could not start a thread: {error}")),
            }
        } else {
            shared.begin();
        }
        Arc::new(this)
    }

    /// Writes what waits, at most so many pages, where there is no thread that does. Returns how many were.
    pub fn work(&self, most: usize) -> usize {
        let mut written = 0;
        while written < most {
            match self.shared.write_next(most - written) {
                0 => break,
                count => written += count,
            }
        }
        written
    }

    /// Waits until what the folder has is read.
    pub fn wait_until_read(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        while self.shared.state() == State::Reading && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.state() == State::On
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.wake_up();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Rbpex {
    fn drop(&mut self) {
        self.stop();
    }
}

impl PageCache for Rbpex {
    fn find(&self, page: PageId, buf: &mut PageBuf) -> Option<Copied> {
        let found = self.shared.find(page, buf);
        bump(if found.is_some() { &self.shared.counters.hits } else { &self.shared.counters.misses });
        found
    }

    fn evicted(&self, page: PageId, content: &PageBuf, as_of: Lsn, used: bool) {
        let shared = &self.shared;
        if shared.state() == State::Off {
            return;
        }
        let (taken, wakes) = {
            let mut directory = shared.directory.lock();
            let taken = directory.evicted(page, content, as_of, used);
            // Where the thread gathers it comes to them by itself, unless there are enough.
            let wakes = directory.queued() == AT_ONCE || directory.is_idle;
            directory.is_idle &= taken != Taken::Queued;
            (taken, wakes && taken == Taken::Queued)
        };
        match taken {
            Taken::Known => bump(&shared.counters.known),
            Taken::No => bump(&shared.counters.rejected),
            Taken::Queued => {}
        }
        if wakes {
            shared.wake.notify_one();
        }
    }

    fn confirmed(&self, page: PageId, lsn: Lsn) {
        self.shared.directory.lock().confirm(page, lsn);
    }

    fn refuted(&self, page: PageId) {
        bump(&self.shared.counters.out_of_date);
        self.shared.directory.lock().forget(page);
    }

    fn note_current(&self, as_of: Lsn, is_current: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool) {
        self.shared.note_current(as_of, is_current);
    }

    fn status(&self) -> PageCacheStatus {
        let (shared, counters) = (&self.shared, &self.shared.counters);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let directory = shared.directory.lock();
        PageCacheStatus {
            state: shared.state(),
            error: shared.error.lock().clone(),
            bytes_max: shared.config.bytes,
            pages: directory.len() as u64,
            pages_used_again: directory.shares().1 as u64,
            waiting: directory.waiting() as u64,
            hits: read(&counters.hits),
            misses: read(&counters.misses),
            admitted: read(&counters.admitted),
            known: read(&counters.known),
            rejected: read(&counters.rejected),
            recovered: read(&counters.recovered),
            out_of_date: read(&counters.out_of_date),
            damaged: read(&counters.damaged),
            read_latency: Duration::from_nanos(read(&counters.read_nanos)),
        }
    }

    fn close(&self) {
        let until = Instant::now() + CLOSE_MAX;
        while self.shared.state() == State::On && Instant::now() < until && self.shared.write_next(AT_ONCE) > 0 {}
        self.stop();
        // Another one may use the folder from here on.
        let _writing = self.shared.writing.lock();
        self.shared.state.store(State::Off as u8, Ordering::SeqCst);
        self.shared.directory.lock().clear();
        if let Some(files) = self.shared.files.get() {
            *files.lock.lock() = None;
        }
    }
}

impl Shared {
    fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::Reading,
            1 => State::On,
            _ => State::Off,
        }
    }

    /// From now on there is no cache.
    fn switch_off(&self, why: &str) {
        if self.state.swap(State::Off as u8, Ordering::SeqCst) == State::Off as u8 {
            return;
        }
        tracing::warn!(
            "the page cache in \"{}\" is switched off until the next start: {why}",
            self.config.dir.display()
        );
        *self.error.lock() = Some(why.to_owned());
        if let Some(gate) = &self.gate {
            gate.give_up();
        }
        self.directory.lock().clear();
        self.wake_up();
        let _notes = self.notes.lock();
        self.noted.notify_all();
    }

    /// Runs what uses the disk; where that fails there is no cache any more.
    fn or_off<T>(&self, outcome: Result<T>) -> Option<T> {
        outcome.inspect_err(|error| self.switch_off(&error.to_string())).ok()
    }

    /// Opens the files and reads what they have.
    fn begin(&self) {
        let Some(files) = self.or_off(self.open()) else { return };
        let files = self.files.get_or_init(|| files);
        if self.or_off(self.read(files)).is_some() {
            let (from, to) = (State::Reading as u8, State::On as u8);
            let _ = self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    fn open(&self) -> Result<Files> {
        let dir = &self.config.dir;
        self.vfs.make_folder(dir)?;
        let there = self.vfs.list(dir)?;
        self.vfs.keep_private(dir, there.is_empty())?;
        // Whatever else is somebody's data.
        if let Some(other) = there.iter().find(|name| !FILES.contains(&name.as_str())) {
            let what = format!("\"{}\" has \"{other}\" in it, and is no folder of a page cache", dir.display());
            return Err(Error::new(ErrorKind::NotInPrerequisiteState, what));
        }
        let lock = self.vfs.lock(&dir.join(LOCK))?;
        let directory = self.vfs.open(&dir.join(DIRECTORY), OpenMode::Create)?;
        let pages = self.vfs.open(&dir.join(PAGES), OpenMode::Create)?;
        let mut head = vec![0; HEADER_BYTES];
        let read = directory.read_at(&mut head, 0)?;
        let is_none = there.iter().any(|name| name == PAGES) && !there.iter().any(|name| name == DIRECTORY);
        if is_none || !Header::is_ours(&head[..read]) {
            let what = format!("what is in \"{}\" is no page cache", dir.display());
            return Err(Error::new(ErrorKind::NotInPrerequisiteState, what));
        }
        let header = Header::decode(&head[..read]).filter(|header| header.database == self.database);
        let number = match header {
            Some(header) => header.number,
            None => {
                // What was there is of another database, or of none. Its number is drawn anew: nothing that is left counts.
                let number = self.vfs.random_u64();
                directory.set_len(0)?;
                pages.set_len(0)?;
                directory.write_at(&Header { database: self.database, number }.encode(), 0)?;
                number
            }
        };
        let slots = self.config.slots() as u64;
        if pages.len()? > slots * PAGE_SIZE as u64 {
            pages.set_len(slots * PAGE_SIZE as u64)?;
            directory.set_len(directory.len()?.min(record_at(slots as u32)))?;
        }
        Ok(Files { pages, directory, number, lock: Mutex::new(Some(lock)) })
    }

    fn read(&self, files: &Files) -> Result<()> {
        let mut bytes = vec![0; CHUNK as usize * RECORD_BYTES];
        for chunk in 0..(self.config.slots() as u32).div_ceil(CHUNK) {
            let read = files.directory.read_at(&mut bytes, record_at(chunk * CHUNK))?;
            if read < RECORD_BYTES || self.stopping.load(Ordering::SeqCst) {
                break;
            }
            let records = bytes[..read].chunks_exact(RECORD_BYTES).map(|bytes| Record::decode(bytes, files.number));
            let count = {
                let mut directory = self.directory.lock();
                if self.state() == State::Off {
                    break;
                }
                directory.read(records)
            };
            self.counters.recovered.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The thread.
    fn run(&self) {
        self.begin();
        while !self.stopping.load(Ordering::SeqCst) && self.state() == State::On {
            if self.write_notes() {
                continue;
            }
            let mut directory = self.directory.lock();
            let is_called = || !self.notes.lock().chunks.is_empty() || self.stopping.load(Ordering::SeqCst);
            // It looks once more after a pause before it sleeps until it is woken: pages leave memory one after the other.
            if directory.queued() < AT_ONCE && !is_called() {
                self.wake.wait_for(&mut directory, GATHERING);
            }
            if directory.queued() == 0 && !is_called() {
                directory.is_idle = true;
                self.wake.wait(&mut directory);
                directory.is_idle = false;
                continue;
            }
            drop(directory);
            self.write_next(AT_ONCE);
        }
    }

    /// There is something to do for the thread.
    fn wake_up(&self) {
        // Under the lock: it does not begin to wait in between.
        drop(self.directory.lock());
        self.wake.notify_all();
    }

    fn find(&self, page: PageId, buf: &mut PageBuf) -> Option<Copied> {
        if self.state() == State::Off {
            return None;
        }
        let found = self.directory.lock().find(page)?;
        let (index, copied) = match found {
            Found::Waiting(content, copied) => {
                buf.copy_from(&content);
                buf.seal();
                return Some(copied);
            }
            Found::In(index, copied) => (index, copied),
        };
        let files = self.files.get()?;
        let begun = self.vfs.now();
        self.or_off(files.pages.read_at(buf.as_bytes_mut(), page_at(index)))
            .filter(|read| *read == PAGE_SIZE)
            .or_else(|| {
                self.damaged(page, index, copied.lsn);
                None
            })?;
        self.took(self.vfs.now().saturating_sub(begun));
        let compares = self.config.planted != Planted::SlotNotCompared;
        if buf.verify(page).is_err() || compares && buf.lsn() != copied.lsn {
            self.damaged(page, index, copied.lsn);
            return None;
        }
        // Its slot may have become another page's meanwhile; what was read is this page's all the same, but no more than that is known.
        self.directory.lock().is_in(page, index, copied.lsn).then_some(copied)
    }

    /// What is in the slot is not what it should be, unless the slot is another page's by now.
    fn damaged(&self, page: PageId, index: u32, lsn: Lsn) {
        let mut directory = self.directory.lock();
        if directory.is_in(page, index, lsn) {
            bump(&self.counters.damaged);
            directory.forget(page);
        }
    }

    /// A read took so long.
    fn took(&self, time: Duration) {
        // One alone says nothing: the process may have been stopped meanwhile.
        let (counters, now) = (&self.counters, time.min(self.config.slow * 4).as_nanos() as u64);
        let before = counters.read_nanos.load(Ordering::Relaxed);
        let mean = if before == 0 { now } else { (before * 7 + now) / 8 };
        counters.read_nanos.store(mean, Ordering::Relaxed);
        let reads = counters.reads.fetch_add(1, Ordering::Relaxed);
        if reads >= READS_TO_JUDGE && Duration::from_nanos(mean) > self.config.slow {
            self.switch_off(&format!("its disk is too slow: a read takes {:?}", Duration::from_nanos(mean)));
        }
    }

    /// Writes pages that wait, so many at most. Returns how many were taken for that; 0: none waits, or there is no cache any more.
    fn write_next(&self, most: usize) -> usize {
        let mut writing = self.writing.lock();
        let Some(files) = self.files.get().filter(|_| self.state() == State::On) else { return 0 };
        let jobs: Vec<_> = {
            let mut directory = self.directory.lock();
            std::iter::from_fn(|| directory.next()).take(most.min(AT_ONCE)).collect()
        };
        if jobs.is_empty() {
            return 0;
        }
        let Buffers { mut pages, mut records } = std::mem::take(&mut *writing);
        pages.clear();
        records.clear();
        // Once, so that they are as long as they ever will be.
        pages.reserve(AT_ONCE * PAGE_SIZE);
        let (mut page_parts, mut record_parts) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in &jobs {
            let from = pages.len();
            job.content.put_sealed(&mut pages);
            add_part(&mut page_parts, page_at(job.slot), from..pages.len());
            let from = records.len();
            records.extend_from_slice(&job.record.encode(files.number));
            add_part(&mut record_parts, record_at(job.slot), from..records.len());
        }
        // In whichever order they reach the disk: what a record says is compared with what is in the slot.
        let written = files.pages.write_own_parts(pages, &page_parts).and_then(|pages| {
            let records = files.directory.write_own_parts(records, &record_parts)?;
            Ok(Buffers { pages, records })
        });
        let Some(buffers) = self.or_off(written) else { return 0 };
        *writing = buffers;
        let mut directory = self.directory.lock();
        if self.state() == State::On {
            let admitted = jobs.iter().filter(|job| directory.written(job)).count();
            self.counters.admitted.fetch_add(admitted as u64, Ordering::Relaxed);
        }
        jobs.len()
    }

    fn note_current(&self, as_of: Lsn, is_current: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool) {
        if self.state() != State::On {
            return;
        }
        let slots = self.directory.lock().slots();
        for chunk in 0..slots.div_ceil(CHUNK) {
            let mut seen = self.directory.lock().seen(chunk * CHUNK, CHUNK);
            // Without the directory's lock: this asks the pool. What is forgotten, or replaced, meanwhile is noticed below.
            seen.retain(|copy| is_current(copy.page, copy.lsn, copy.as_of));
            let mut directory = self.directory.lock();
            if self.state() != State::On {
                return;
            }
            seen.iter().for_each(|copy| directory.set_current(copy, as_of));
            drop(directory);
            let mut notes = self.notes.lock();
            notes.chunks.push(chunk);
            notes.asked += 1;
        }
        if !self.config.background {
            self.write_notes();
            return;
        }
        self.wake_up();
        let until = Instant::now() + NOTE_MAX;
        let mut notes = self.notes.lock();
        let asked = notes.asked;
        while notes.done < asked && self.state() == State::On && !self.stopping.load(Ordering::SeqCst) {
            if self.noted.wait_until(&mut notes, until).timed_out() {
                return;
            }
        }
    }

    /// Writes the chunks of records that are to be. False: there was none.
    fn write_notes(&self) -> bool {
        let mut any = false;
        loop {
            let _writing = self.writing.lock();
            let Some(files) = self.files.get().filter(|_| self.state() == State::On) else { return any };
            let next = self.notes.lock().chunks.pop();
            let Some(chunk) = next else { return any };
            let records = self.directory.lock().records(chunk * CHUNK, CHUNK);
            let none = [0; RECORD_BYTES];
            let bytes: Vec<u8> = records
                .iter()
                .flat_map(|record| record.as_ref().map_or(none, |record| record.encode(files.number)))
                .collect();
            if self.or_off(files.directory.write_at(&bytes, record_at(chunk * CHUNK))).is_none() {
                return any;
            }
            any = true;
            self.notes.lock().done += 1;
            self.noted.notify_all();
        }
    }
}

/// One more part to be written at `offset`; together with the one before it where that ends there.
fn add_part(parts: &mut Vec<(u64, Range<usize>)>, offset: u64, part: Range<usize>) {
    match parts.last_mut() {
        Some((at, range)) if *at + range.len() as u64 == offset => range.end = part.end,
        _ => parts.push((offset, part)),
    }
}

fn record_at(slot: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(slot) * RECORD_BYTES as u64
}

fn page_at(slot: u32) -> u64 {
    u64::from(slot) * PAGE_SIZE as u64
}

const _: () = assert!(State::Reading as u8 == 0 && State::On as u8 == 1);
