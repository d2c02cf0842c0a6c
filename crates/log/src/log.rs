//! The handle of the log: what the crates above call. The work is done in
//! [`Core`], which the handle shares with its threads and tickets.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;

use crate::block::BLOCK_ALIGN;
use crate::config::LogConfig;
use crate::core::Core;
use crate::follow::LogFollower;
use crate::group::Group;
use crate::holds::{LogHold, LogHolder};
use crate::reader::{LogEnd, Opening};
use crate::record::OwnedRecord;
use crate::segments::Segments;
use crate::sink::LogSink;
use crate::stats::{Counters, LogStats};
use crate::waiters::FlushTicket;

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

/// The log, open for appending. Dropping it without [`Log::close`] loses what was
/// not flushed, as a crash would.
pub struct Log {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The outcome of [`Log::close`].
    closed: OnceLock<Result<()>>,
}

impl Log {
    /// Makes a new, empty log in `dir`; the folder is made if needed. `epoch` is
    /// the opener's first epoch, 1 or more.
    ///
    /// # Errors
    /// `InvalidParameter` when the folder holds a log already, or the settings
    /// do not fit together; `Io`; `DiskFull`.
    pub fn create(vfs: Arc<dyn Vfs>, dir: &Path, config: LogConfig, epoch: u32) -> Result<Arc<Log>> {
        let first = config.first_lsn();
        Self::create_at(vfs, dir, config, epoch, first)
    }

    /// As [`Log::create`], of a log that goes on where another one was cut off at `cut`: it begins with the first segment
    /// above it. `epoch` must be above every one of that log.
    ///
    /// # Errors
    /// Those of [`Log::create`].
    pub fn create_at(vfs: Arc<dyn Vfs>, dir: &Path, config: LogConfig, epoch: u32, cut: Lsn) -> Result<Arc<Log>> {
        config.check()?;
        let number = cut.0.div_ceil(config.segment_bytes).max(1);
        if number > u64::MAX / 4 / config.segment_bytes {
            return Err(Error::new(ErrorKind::InvalidParameter, format!("a log cannot begin behind LSN {cut}")));
        }
        let counters = Counters::default();
        let of = (config.segment_bytes, if config.own_files { epoch } else { 0 });
        let segments = Segments::create(Arc::clone(&vfs), dir, of, number, &counters)?;
        let first = Lsn(number * config.segment_bytes);
        let end = LogEnd { lsn: first, epoch, last_block: Lsn::NONE, durable: first };
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
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, config: LogConfig, epoch: u32, end: LogEnd) -> Result<Arc<Log>> {
        config.check()?;
        if epoch <= end.epoch {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("log epoch {epoch} is not above the last one, {}", end.epoch),
            ));
        }
        if end.lsn < config.first_lsn() || !end.lsn.0.is_multiple_of(BLOCK_ALIGN as u64) {
            return Err(Error::new(ErrorKind::InvalidParameter, format!("the log cannot end at LSN {}", end.lsn)));
        }
        let counters = Counters::default();
        let of = (config.segment_bytes, if config.own_files { epoch } else { 0 });
        let segments = Segments::open(Arc::clone(&vfs), dir, of, end, &counters)?;
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
        let core = Core::new(vfs, config, epoch, end, segments, counters);
        Arc::new(Log { core: Arc::new(core), threads: Mutex::default(), closed: OnceLock::new() })
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &LogConfig {
        &self.core.config
    }

    /// This opening of it.
    pub fn opening(&self) -> Opening {
        self.core.opening
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

    /// Fails with `Stopped` once the log accepts nothing any more: a write or sync failed, or it
    /// is closed.
    pub fn check_running(&self) -> Result<()> {
        self.core.check_running()
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

    /// Makes the last batch provable: a marker behind it says that it was durable, so that damage of
    /// it is told from an end that a crash has left. Does nothing where that is so already. The
    /// threads do it by themselves once nothing else has come for [`Log::set_writer_delay`].
    ///
    /// # Errors
    /// `DiskFull` when there is no space for the next segment; `Stopped`.
    pub fn confirm(&self) -> Result<()> {
        self.core.confirm()
    }

    /// How long what was appended may stay in memory, with nobody waiting for it, before the flusher
    /// thread makes it durable.
    pub fn set_writer_delay(&self, delay: Duration) {
        self.core.set_writer_delay(delay);
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
                .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start thread: {e}")))
        };
        for _ in 0..self.core.config.flights {
            threads.push(spawn("log-flush", Core::run_flusher)?);
        }
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

    /// Calls `hook` with the error that everybody gets when the log has stopped, for good, or is closed; perhaps more than once. It must be short, and must
    /// not call the log.
    pub fn set_stop_hook(&self, hook: Box<dyn Fn(&Error) + Send + Sync>) {
        *self.core.stop_hook.write() = Some(Arc::from(hook));
    }

    /// From now on `sink` stands between the files and those who wait for them. To be set before anything is appended.
    pub fn set_sink(&self, sink: Arc<dyn LogSink>) {
        *self.core.sink.write() = Some(sink);
    }

    /// The record at `lsn`, from memory or disk.
    ///
    /// # Errors
    /// `Corrupt` when no record that is still kept starts there, or its block is
    /// damaged; `Io`.
    pub fn read_record(&self, lsn: Lsn) -> Result<OwnedRecord> {
        self.core.read_record(lsn)
    }

    /// Gives back the memory of blocks that were read for [`Log::read_record`].
    pub fn forget_read_blocks(&self) {
        self.core.forget_read_blocks();
    }

    /// Keeps the log from `lsn` on, for `name`, until the hold is dropped or advanced.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when what is at `lsn` is not kept any more.
    pub fn hold(&self, name: &str, lsn: Lsn) -> Result<LogHold> {
        LogHold::new(Arc::clone(&self.core), name, lsn)
    }

    /// Who holds the log from the lowest position on, if anybody does.
    pub fn lowest_holder(&self) -> Option<LogHolder> {
        self.core.segments.lowest_holder()
    }

    /// All who hold the log.
    pub fn holders(&self) -> Vec<LogHolder> {
        self.core.segments.holders()
    }

    /// Follows the log from the block at `from` on: its durable blocks, one after another. Does not
    /// keep the log; that a [`Log::hold`] does.
    ///
    /// # Errors
    /// `InvalidParameter` when no durable block can start at `from`.
    pub fn follow(&self, from: Lsn) -> Result<LogFollower> {
        LogFollower::new(Arc::clone(&self.core), from)
    }

    /// Gives up the segments wholly below `lsn` that nobody holds, and returns how many bytes. The
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

    /// Flushes everything, ends the threads and refuses further work. A second
    /// call returns the outcome of the first.
    ///
    /// # Errors
    /// `Stopped` when the log had stopped before, even if nothing was left to be
    /// flushed; the threads are ended all the same.
    pub fn close(&self) -> Result<()> {
        let close = || {
            let flushed = self.flush_all();
            self.end_threads();
            // What was appended since the threads were told to end.
            let flushed = flushed.and_then(|()| self.flush_all());
            let running = self.core.check_running();
            self.core.stop("the log is closed", None);
            // Threads of clients may be in the middle of a write.
            self.core.wait_for_makers();
            flushed.and(running)?;
            // One of theirs may have failed meanwhile, of which the last look at the log knew nothing.
            match self.core.taken.load(Ordering::Acquire) > self.core.flushed().0 {
                true => Err(Error::new(ErrorKind::Stopped, "a write of the log failed while it was being closed")),
                false => Ok(()),
            }
        };
        self.closed.get_or_init(close).clone()
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
        self.core.wait_for_makers();
    }
}
