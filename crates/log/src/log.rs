//! Appending and group commit.
//!
//! # Group commit
//! The obvious design, a sync for each commit, is limited by the disk's sync
//! rate. A timer that gathers commits makes every lone commit wait. Here, whoever
//! needs durability and finds no flush under way becomes the leader: it seals the
//! open block, writes and syncs all blocks gathered so far, and wakes the others.
//! What is appended meanwhile gathers for the next leader. So a batch is as large
//! as the disk is slow, and a lone commit never waits for company.
//!
//! # States
//! ```text
//! running --failed write or sync--> stopped   (Core::stop; never left)
//! running --Log::close------------> stopped, all flushed before
//! ```
//! A segment that cannot be prepared for lack of space is an error of that
//! append alone: nothing of its group is in the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES};
use crate::buffers::{Buffers, Sealed, SegmentWanted};
use crate::config::LogConfig;
use crate::fetch::{BlockCache, read_block};
use crate::group::Group;
use crate::reader::LogEnd;
use crate::record::{OwnedRecord, record_at};
use crate::segments::Segments;
use crate::stats::{Counters, LogStats};
use crate::waiters::{FlushTicket, Waiters};

/// Most bytes handed to one write call.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// Where a group went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// LSN of its first record; the others by [`Group::lsn_of`].
    pub base: Lsn,
    /// Flush up to here to make the group durable.
    pub end: Lsn,
    /// Start of the block that holds it: where a [`LogReader`](crate::LogReader)
    /// can start.
    pub block: Lsn,
}

type DurableHook = Arc<dyn Fn(Lsn) + Send + Sync>;

#[derive(Default)]
struct FlusherControl {
    running: bool,
    shutdown: bool,
    wanted: Lsn,
}

#[derive(Default)]
struct PreparerControl {
    running: bool,
    shutdown: bool,
    kicked: bool,
}

/// What the log's handle, its threads and its tickets share.
pub(crate) struct Core {
    vfs: Arc<dyn Vfs>,
    config: LogConfig,
    segments: Segments,
    buffers: Mutex<Buffers>,
    /// Copies of what the buffers and flushes know, for reading without a lock.
    end: AtomicU64,
    flushed: AtomicU64,
    /// Flush leadership: whether a flush is under way.
    flushing: Mutex<bool>,
    flush_ended: Condvar,
    /// The leader's scratch space.
    write_buf: Mutex<Vec<u8>>,
    stopped: AtomicBool,
    stop_error: Mutex<Option<Error>>,
    hook: RwLock<Option<DurableHook>>,
    pub(crate) waiters: Waiters,
    flusher: Mutex<FlusherControl>,
    flusher_woken: Condvar,
    preparer: Mutex<PreparerControl>,
    preparer_woken: Condvar,
    cache: BlockCache,
    counters: Counters,
}

/// Gives up flush leadership, also when the hook panics.
struct Leadership<'a>(&'a Core);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        *self.0.flushing.lock() = false;
        self.0.flush_ended.notify_all();
    }
}

impl Core {
    fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::Acquire))
    }

    fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Latches the stopped state and returns the error that every caller gets.
    fn stop(&self, message: &str, cause: Option<&Error>) -> Error {
        let error = {
            let mut slot = self.stop_error.lock();
            let error = slot.get_or_insert_with(|| {
                let error = Error::new(ErrorKind::Stopped, message);
                match cause {
                    Some(cause) => error.with_detail(cause.to_string()),
                    None => error,
                }
            });
            error.clone()
        };
        self.stopped.store(true, Ordering::Release);
        self.flush_ended.notify_all();
        self.waiters.wake_all();
        error
    }

    fn stop_failed(&self, cause: &Error) -> Error {
        self.stop(
            "the log stopped after a failed write; reopen the database",
            Some(cause),
        )
    }

    fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire)
            && let Some(error) = self.stop_error.lock().clone()
        {
            return Err(error);
        }
        Ok(())
    }

    /// The outcome for one who waits for `upto`, if it is known.
    pub(crate) fn settled(&self, upto: Lsn) -> Option<Result<()>> {
        if upto <= self.flushed() {
            return Some(Ok(()));
        }
        if let Err(stopped) = self.check_running() {
            return Some(Err(stopped));
        }
        let end = self.end();
        (upto > end).then(|| {
            Err(Error::corrupt(format!(
                "LSN {upto} is behind the end of the log at LSN {end}"
            )))
        })
    }

    fn append(&self, group: &Group, fresh: bool) -> Result<Appended> {
        if group.is_empty() || group.is_open() {
            return Err(Error::internal("a log group must have records, all ended"));
        }
        if group.len() > self.config.block_payload_bytes_max {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "a log group of {} bytes is larger than a log block may be ({} bytes)",
                    group.len(),
                    self.config.block_payload_bytes_max
                ),
            ));
        }
        let (appended, buffered) = loop {
            self.check_running()?;
            let mut buffers = self.buffers.lock();
            let buffered = buffers.bytes();
            if buffered > 0 && buffered + group.len() > self.config.buffer_bytes_max {
                let upto = buffers.end();
                drop(buffers);
                Counters::add(&self.counters.buffer_full_waits, 1);
                self.flush(upto)?;
                continue;
            }
            let result = buffers.append(group, fresh, self.segments.prepared_end());
            self.end.store(buffers.end().0, Ordering::Release);
            drop(buffers);
            match result {
                Ok(appended) => break (appended, buffered + group.len()),
                Err(SegmentWanted(number)) => {
                    Counters::add(&self.counters.segments_prepared_late, 1);
                    self.prepare(number)?;
                }
            }
        };
        Counters::add(&self.counters.groups, 1);
        Counters::add(&self.counters.records, group.records() as u64);
        Counters::add(&self.counters.record_bytes, group.len() as u64);
        if buffered > self.config.buffer_bytes_max / 4 {
            self.request_flush(appended.end);
        }
        // The first group of a segment: time to think of the next one.
        let first_in_block = appended.base.0 - appended.block.0 == BLOCK_HEADER_BYTES as u64;
        if first_in_block && appended.block.0.is_multiple_of(self.config.segment_bytes) {
            self.kick_preparer();
        }
        Ok(appended)
    }

    fn prepare(&self, segment: u64) -> Result<()> {
        self.segments
            .prepare(segment, &self.counters)
            .map_err(|error| match error.kind() {
                ErrorKind::DiskFull => error.with_detail("no space for the next log segment"),
                _ => self.stop_failed(&error),
            })
    }

    /// Blocks until everything below `upto` is durable.
    pub(crate) fn flush(&self, upto: Lsn) -> Result<()> {
        if let Some(settled) = self.settled(upto) {
            return settled;
        }
        Counters::add(&self.counters.waits, 1);
        loop {
            let mut flushing = self.flushing.lock();
            if let Some(settled) = self.settled(upto) {
                return settled;
            }
            if *flushing {
                self.flush_ended.wait(&mut flushing);
                continue;
            }
            *flushing = true;
            drop(flushing);
            let _leadership = Leadership(self);
            self.flush_batch()
                .map_err(|error| self.stop_failed(&error))?;
        }
    }

    /// Writes and syncs all that was appended so far. Only for the leader.
    fn flush_batch(&self) -> Result<()> {
        let (batch, batch_end) = {
            let mut buffers = self.buffers.lock();
            let batch = buffers.batch();
            self.end.store(buffers.end().0, Ordering::Release);
            batch
        };
        if batch.is_empty() {
            return Ok(());
        }
        self.write_and_sync(&batch)?;
        let count = batch.len();
        drop(batch);
        self.flushed.store(batch_end.0, Ordering::Release);
        Counters::add(&self.counters.flushes, 1);
        self.buffers.lock().written(count);
        let hook = self.hook.read().clone();
        if let Some(hook) = hook {
            hook(batch_end);
        }
        self.waiters.wake(batch_end);
        Ok(())
    }

    fn write_and_sync(&self, batch: &[Arc<Sealed>]) -> Result<()> {
        let durable = self.flushed();
        let segment_of = |sealed: &Sealed| sealed.header.lsn.0 / self.config.segment_bytes;
        let mut buf = self.write_buf.lock();
        for in_segment in batch.chunk_by(|a, b| segment_of(a) == segment_of(b)) {
            let Some(first) = in_segment.first() else {
                continue;
            };
            let file = self.segments.file(segment_of(first))?;
            let mut start = first.header.lsn;
            buf.clear();
            for sealed in in_segment {
                if !buf.is_empty() && buf.len() + sealed.bytes.len() > WRITE_BYTES_MAX {
                    file.write_at(&buf, start.0 % self.config.segment_bytes)?;
                    start = sealed.header.lsn;
                    buf.clear();
                }
                let at = buf.len();
                buf.extend_from_slice(&sealed.bytes);
                let mut header = sealed.header;
                header.durable = durable;
                header.seal(&mut buf[at..]);
                let padded = buf.len().next_multiple_of(BLOCK_ALIGN);
                buf.resize(padded, 0);
                Counters::add(&self.counters.blocks, 1);
                Counters::add(&self.counters.written_bytes, (padded - at) as u64);
            }
            file.write_at(&buf, start.0 % self.config.segment_bytes)?;
            let sync_start = self.vfs.now();
            file.sync()?;
            self.counters
                .synced(self.vfs.now().saturating_sub(sync_start));
        }
        Ok(())
    }

    /// Asks the flusher thread to flush up to `upto`; false when there is none.
    pub(crate) fn request_flush(&self, upto: Lsn) -> bool {
        let mut flusher = self.flusher.lock();
        if !flusher.running {
            return false;
        }
        if upto > flusher.wanted && upto <= self.end() {
            flusher.wanted = upto;
            self.flusher_woken.notify_one();
        }
        true
    }

    fn run_flusher(&self) {
        loop {
            let wanted = {
                let mut flusher = self.flusher.lock();
                loop {
                    if flusher.shutdown {
                        return;
                    }
                    if flusher.wanted > self.flushed() {
                        break flusher.wanted;
                    }
                    self.flusher_woken.wait(&mut flusher);
                }
            };
            if self.flush(wanted).is_err() {
                // Stopped for good; every waiter was told.
                self.flusher.lock().running = false;
                return;
            }
        }
    }

    fn kick_preparer(&self) {
        let mut preparer = self.preparer.lock();
        if preparer.running {
            preparer.kicked = true;
            self.preparer_woken.notify_one();
        }
    }

    fn run_preparer(&self) {
        loop {
            {
                let mut preparer = self.preparer.lock();
                while !preparer.kicked && !preparer.shutdown {
                    self.preparer_woken.wait(&mut preparer);
                }
                if preparer.shutdown {
                    return;
                }
                preparer.kicked = false;
            }
            let current = self.end().0 / self.config.segment_bytes;
            for number in current + 1..=current + self.config.spare_segments.max(1) {
                // Lack of space is reported to the append that needs the segment.
                if self.prepare(number).is_err() || self.preparer.lock().shutdown {
                    break;
                }
            }
        }
    }

    fn shut_down_threads(&self) {
        {
            let mut flusher = self.flusher.lock();
            flusher.shutdown = true;
            flusher.running = false;
            self.flusher_woken.notify_all();
        }
        let mut preparer = self.preparer.lock();
        preparer.shutdown = true;
        preparer.running = false;
        self.preparer_woken.notify_all();
    }

    fn read_record(&self, lsn: Lsn) -> Result<OwnedRecord> {
        let (oldest, end) = (self.segments.oldest(), self.end());
        if lsn < oldest || lsn >= end {
            return Err(Error::corrupt(format!(
                "LSN {lsn} is not in the log (kept from LSN {oldest} to {end})"
            )));
        }
        {
            let buffers = self.buffers.lock();
            if let Some((start, bytes)) = buffers.find(lsn) {
                return Ok(record_at(bytes, start, (lsn.0 - start.0) as usize)?.to_owned());
            }
        }
        if let Some(block) = self.cache.get(lsn) {
            return block.record(lsn);
        }
        let file = self.segments.file(lsn.0 / self.config.segment_bytes)?;
        let block = Arc::new(read_block(&*file, lsn, self.config.segment_bytes)?);
        self.cache.put(Arc::clone(&block));
        block.record(lsn)
    }
}

/// The log, open for appending. Dropping it without [`Log::close`] loses what was
/// not flushed, as a crash would.
pub struct Log {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Log {
    /// Makes a new, empty log in `dir`; the folder is made if needed. `epoch` is
    /// the opener's first epoch, 1 or more.
    ///
    /// # Errors
    /// `InvalidParameter` when the folder holds a log already, or the settings
    /// do not fit together; `Io`; `DiskFull`.
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        config: LogConfig,
        epoch: u32,
    ) -> Result<Arc<Log>> {
        config.check()?;
        let counters = Counters::default();
        let segments = Segments::create(Arc::clone(&vfs), dir, config.segment_bytes, &counters)?;
        let end = LogEnd {
            lsn: config.first_lsn(),
            epoch,
            last_block: Lsn::NONE,
        };
        Ok(Self::start(vfs, config, epoch, end, segments, counters))
    }

    /// Opens an existing log for appending behind `end`, which a
    /// [`LogReader`](crate::LogReader) found. Makes durable what the reader saw,
    /// so that nothing that recovery relies on can still be lost.
    ///
    /// `epoch` must be higher than every epoch used before, and recorded durably
    /// by the caller before the first append.
    ///
    /// # Errors
    /// `InvalidParameter` when `epoch` is not above the last one; `Corrupt` when
    /// the segment of the end is missing; `Io`; `DiskFull`.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        config: LogConfig,
        epoch: u32,
        end: LogEnd,
    ) -> Result<Arc<Log>> {
        config.check()?;
        if epoch <= end.epoch {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("log epoch {epoch} is not above the last one, {}", end.epoch),
            ));
        }
        if end.lsn < config.first_lsn() || !end.lsn.0.is_multiple_of(BLOCK_ALIGN as u64) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the log cannot end at LSN {}", end.lsn),
            ));
        }
        let counters = Counters::default();
        let segments = Segments::open(
            Arc::clone(&vfs),
            dir,
            config.segment_bytes,
            end.lsn,
            &counters,
        )?;
        Ok(Self::start(vfs, config, epoch, end, segments, counters))
    }

    fn start(
        vfs: Arc<dyn Vfs>,
        config: LogConfig,
        epoch: u32,
        end: LogEnd,
        segments: Segments,
        counters: Counters,
    ) -> Arc<Log> {
        let core = Core {
            vfs,
            segments,
            buffers: Mutex::new(Buffers::new(&config, epoch, end.lsn, end.last_block)),
            end: AtomicU64::new(end.lsn.0),
            flushed: AtomicU64::new(end.lsn.0),
            flushing: Mutex::new(false),
            flush_ended: Condvar::new(),
            write_buf: Mutex::default(),
            stopped: AtomicBool::new(false),
            stop_error: Mutex::default(),
            hook: RwLock::default(),
            waiters: Waiters::default(),
            flusher: Mutex::default(),
            flusher_woken: Condvar::new(),
            preparer: Mutex::default(),
            preparer_woken: Condvar::new(),
            cache: BlockCache::default(),
            counters,
            config,
        };
        Arc::new(Log {
            core: Arc::new(core),
            threads: Mutex::default(),
        })
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &LogConfig {
        &self.core.config
    }

    /// Appends a group: a copy into memory under a short lock. Waits for the
    /// disk only when the buffers are full or the next segment is not prepared.
    ///
    /// # Errors
    /// `LimitExceeded` when the group is larger than a block may be; `DiskFull`
    /// when there is no space for the next segment: nothing of the group is in
    /// the log then, and the log goes on; `Stopped`.
    pub fn append(&self, group: &Group) -> Result<Appended> {
        self.core.append(group, false)
    }

    /// As [`Log::append`], at the start of a new block: what a checkpoint needs to
    /// be found again by a reader.
    pub fn append_at_block_start(&self, group: &Group) -> Result<Appended> {
        self.core.append(group, true)
    }

    /// The end of the stream: no LSN at or above it was assigned.
    pub fn end_lsn(&self) -> Lsn {
        self.core.end()
    }

    /// Everything below is durable.
    pub fn flushed_lsn(&self) -> Lsn {
        self.core.flushed()
    }

    /// Blocks until everything below `upto` is durable. To make one record
    /// durable (the write-ahead rule of a page), pass its LSN plus one: a block
    /// becomes durable as a whole.
    ///
    /// # Errors
    /// `Corrupt` when `upto` is behind the end of the log; `Stopped`.
    pub fn flush(&self, upto: Lsn) -> Result<()> {
        self.core.flush(upto)
    }

    /// Flushes everything appended so far.
    pub fn flush_all(&self) -> Result<()> {
        self.core.flush(self.core.end())
    }

    /// Like [`Log::flush`], to be awaited. Asks the flusher thread; without one,
    /// the first poll does the flush.
    pub fn flushed(&self, upto: Lsn) -> FlushTicket {
        FlushTicket::new(Arc::clone(&self.core), upto)
    }

    /// Starts the threads that flush on request and prepare segments ahead.
    /// Without them everything happens in the caller's thread, deterministically.
    ///
    /// # Errors
    /// `OutOfMemory` when the system gives no thread.
    pub fn start_flusher(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        if !threads.is_empty() {
            return Ok(());
        }
        self.core.check_running()?;
        let spawn = |name: &str, run: fn(&Core)| {
            let core = Arc::clone(&self.core);
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&core))
                .map_err(|e| {
                    Error::new(
                        ErrorKind::OutOfMemory,
                        format!("could not start thread: {e}"),
                    )
                })
        };
        threads.push(spawn("log-flush", Core::run_flusher)?);
        self.core.flusher.lock().running = true;
        threads.push(spawn("log-prepare", Core::run_preparer)?);
        self.core.preparer.lock().running = true;
        self.core.kick_preparer();
        Ok(())
    }

    /// Calls `hook` with the new flushed position each time it moved, before the
    /// waiters are woken. It runs inside a flush: it must be short, and must not
    /// call the log.
    pub fn set_durable_hook(&self, hook: Box<dyn Fn(Lsn) + Send + Sync>) {
        *self.core.hook.write() = Some(Arc::from(hook));
    }

    /// The record at `lsn`, from memory or disk.
    ///
    /// # Errors
    /// `Corrupt` when no record that is still kept starts there, or its block is
    /// damaged; `Io`.
    pub fn read_record(&self, lsn: Lsn) -> Result<OwnedRecord> {
        self.core.read_record(lsn)
    }

    /// Gives up the segments wholly below `lsn`, and returns how many bytes. The
    /// segment of the flushed end is always kept.
    ///
    /// # Errors
    /// `Stopped`: a failure here leaves the names of segments uncertain, which
    /// stops the log.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<u64> {
        self.core.check_running()?;
        let core = &self.core;
        let upto = lsn.min(core.flushed());
        let current = core.end().0 / core.config.segment_bytes;
        core.segments
            .truncate(upto, current, core.config.spare_segments, &core.counters)
            .map_err(|error| core.stop_failed(&error))
    }

    /// The oldest position still kept.
    pub fn oldest_lsn(&self) -> Lsn {
        self.core.segments.oldest()
    }

    /// Bytes from the oldest position to the end.
    pub fn bytes_in_use(&self) -> u64 {
        self.core.end().0 - self.core.segments.oldest().0
    }

    /// The counters since it was opened.
    pub fn stats(&self) -> LogStats {
        self.core.counters.snapshot()
    }

    /// Flushes everything, ends the threads and refuses further work.
    ///
    /// # Errors
    /// `Stopped` when the log had stopped before; the threads are ended even so.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush_all();
        self.end_threads();
        // What was appended since the threads were told to end.
        let flushed = flushed.and_then(|()| self.flush_all());
        self.core.stop("the log is closed", None);
        flushed
    }

    fn end_threads(&self) {
        self.core.shut_down_threads();
        let this_thread = std::thread::current().id();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has nothing more to end.
            if thread.thread().id() != this_thread {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.core.stop("the log is closed", None);
        self.end_threads();
    }
}
