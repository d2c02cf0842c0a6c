//! Appending and group commit.
//!
//! # Group commit
//! The obvious design, a sync for each commit, is limited by the disk's sync
//! rate. A timer that gathers commits makes every lone commit wait. Here, whoever
//! needs durability and finds a place for a flush becomes its leader: it seals the
//! open block, writes and syncs all blocks gathered so far, and wakes the others.
//! What is appended while all places ([`LogConfig::flights`]) are taken gathers for
//! the next leader. So a batch is as large as the disk is slow, and a lone commit
//! never waits for company. `flights.rs` has the rest.
//!
//! # States
//! ```text
//! running --failed write or sync--> stopped   (Core::stop; never left)
//! running --Log::close------------> stopped, all flushed before
//! ```
//! A segment that cannot be prepared for lack of space is an error of that
//! append alone: nothing of its group is in the log.
//!
//! # What nobody waits for
//! An asynchronous commit asks for no flush. The flusher thread makes it durable within
//! [`Core::set_writer_delay`]: it sleeps while there is nothing in memory, is woken by the first
//! append, and flushes when that is so old.
//!
//! # Proof
//! Each block says up to where the log was durable when it was written, which proves the batches
//! before. The last batch is proved by a marker, a block of its own, that the flusher writes when
//! nothing else has come for as long. So a batch is without proof for two such delays at most, and
//! only in a log that has gone idle; damage of it in that time looks like what a crash leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, Result, TxId};
use resurgam_vfs::Vfs;

use crate::block::BLOCK_HEADER_BYTES;
use crate::buffers::{Buffers, SegmentWanted};
use crate::config::LogConfig;
use crate::fetch::{BlockCache, read_block};
use crate::flights::{Flights, Shuffle};
use crate::group::Group;
use crate::log::Appended;
use crate::reader::{LogEnd, Opening};
use crate::record::{OwnedRecord, RecordKind, record_at};
use crate::segments::Segments;
use crate::sink::LogSink;
use crate::stats::Counters;
use crate::tail::Tail;
use crate::waiters::Waiters;

/// How long what nobody waits for stays in memory, unless told otherwise.
const WRITER_DELAY: Duration = Duration::from_millis(200);
/// What tells a log without space from other files without.
const LOG_FULL: &str = "no space for the next log segment";

/// Whether an error says that the log has no space: then nothing can be changed at all. Another file
/// that cannot grow stops only who needs it to.
pub fn is_log_full(error: &Error) -> bool {
    error.kind() == ErrorKind::DiskFull && error.detail() == Some(LOG_FULL)
}

pub(crate) type DurableHook = Arc<dyn Fn(Lsn) + Send + Sync>;
pub(crate) type StopHook = Arc<dyn Fn(&Error) + Send + Sync>;

#[derive(Default)]
pub(crate) struct FlusherControl {
    pub(crate) running: bool,
    shutdown: bool,
    wanted: Lsn,
    /// What has to be done by when though nobody asks, and the flushed position when that was found.
    due: Option<(Due, Lsn, Instant)>,
}

/// What the flusher does by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Somebody asked for it.
    Wanted,
    Flush,
    Confirm,
}

#[derive(Default)]
pub(crate) struct PreparerControl {
    pub(crate) running: bool,
    shutdown: bool,
    kicked: bool,
}

/// What the log's handle, its threads and its tickets share.
pub(crate) struct Core {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) config: LogConfig,
    pub(crate) opening: Opening,
    pub(crate) segments: Segments,
    pub(crate) buffers: Mutex<Buffers>,
    /// Copies of what the buffers and flights know, for reading without a lock.
    pub(crate) end: AtomicU64,
    pub(crate) flushed: AtomicU64,
    /// Everything below is in a flight, or durable.
    pub(crate) taken: AtomicU64,
    /// End of the last group that somebody appended, markers left out.
    appended: AtomicU64,
    /// A later block, durable itself, says that everything below was durable.
    pub(crate) proved: AtomicU64,
    /// In microseconds.
    writer_delay: AtomicU64,
    /// The flusher found nothing to be done and sleeps until an append wakes it. Read and set
    /// under `buffers`, so that one of the two sees the other.
    idle: AtomicBool,
    pub(crate) flights: Mutex<Flights>,
    pub(crate) flight_ended: Condvar,
    pub(crate) shuffle: Option<Shuffle>,
    stopped: AtomicBool,
    stop_error: Mutex<Option<Error>>,
    pub(crate) hook: RwLock<Option<DurableHook>>,
    pub(crate) stop_hook: RwLock<Option<StopHook>>,
    pub(crate) sink: RwLock<Option<Arc<dyn LogSink>>>,
    pub(crate) waiters: Waiters,
    pub(crate) tail: Tail,
    pub(crate) flusher: Mutex<FlusherControl>,
    flusher_woken: Condvar,
    pub(crate) preparer: Mutex<PreparerControl>,
    preparer_woken: Condvar,
    cache: BlockCache,
    pub(crate) counters: Counters,
}

impl Core {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        config: LogConfig,
        epoch: u32,
        end: LogEnd,
        segments: Segments,
        counters: Counters,
    ) -> Self {
        // Never 0, which says nothing.
        let opening = (vfs.random_u64() as u32).max(1);
        Core {
            vfs,
            segments,
            opening: Opening { epoch, number: opening, from: end.lsn },
            buffers: Mutex::new(Buffers::new(&config, epoch, opening, end.lsn, end.last_block)),
            end: AtomicU64::new(end.lsn.0),
            flushed: AtomicU64::new(end.lsn.0),
            taken: AtomicU64::new(end.lsn.0),
            appended: AtomicU64::new(end.lsn.0),
            proved: AtomicU64::new(end.durable.0),
            writer_delay: AtomicU64::new(WRITER_DELAY.as_micros() as u64),
            idle: AtomicBool::new(false),
            flights: Mutex::new(Flights::new(config.flights, end.lsn)),
            flight_ended: Condvar::new(),
            shuffle: Shuffle::new(config.shuffled),
            stopped: AtomicBool::new(false),
            stop_error: Mutex::default(),
            hook: RwLock::default(),
            stop_hook: RwLock::default(),
            sink: RwLock::default(),
            waiters: Waiters::default(),
            tail: Tail::default(),
            flusher: Mutex::default(),
            flusher_woken: Condvar::new(),
            preparer: Mutex::default(),
            preparer_woken: Condvar::new(),
            cache: BlockCache::default(),
            counters,
            config,
        }
    }

    pub(crate) fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::Acquire))
    }

    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Latches the stopped state and returns the error that every caller gets.
    pub(crate) fn stop(&self, message: &str, cause: Option<&Error>) -> Error {
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
        // Whoever has looked before waits by now.
        drop(self.flights.lock());
        self.flight_ended.notify_all();
        self.waiters.wake_all();
        self.tail.wake_all();
        let hook = self.stop_hook.read().clone();
        if let Some(hook) = hook {
            hook(&error);
        }
        error
    }

    pub(crate) fn stop_failed(&self, cause: &Error) -> Error {
        self.stop("the log stopped after a failed write; reopen the database", Some(cause))
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire)
            && let Some(error) = self.stop_error.lock().clone()
        {
            return Err(error);
        }
        Ok(())
    }

    /// The outcome for one who waits for `upto`, if it is known.
    pub(crate) fn outcome(&self, upto: Lsn) -> Option<Result<()>> {
        if upto <= self.flushed() {
            return Some(Ok(()));
        }
        if let Err(stopped) = self.check_running() {
            return Some(Err(stopped));
        }
        let end = self.end();
        (upto > end).then(|| Err(Error::corrupt(format!("LSN {upto} is behind the end of the log at LSN {end}"))))
    }

    pub(crate) fn append(&self, group: &Group, fresh: bool) -> Result<Appended> {
        self.append_group(group, fresh, true)
    }

    /// `counts`: it is somebody's work, and wants proof once it is durable.
    fn append_group(&self, group: &Group, fresh: bool, counts: bool) -> Result<Appended> {
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
        let fresh = fresh || self.shuffle.as_ref().is_some_and(|shuffle| shuffle.below(2) == 0);
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
            if counts && let Ok(appended) = &result {
                self.appended.store(appended.end.0, Ordering::Release);
            }
            let idle = self.idle.load(Ordering::Relaxed) && self.idle.swap(false, Ordering::Relaxed);
            drop(buffers);
            if idle {
                let _flusher = self.flusher.lock();
                self.flusher_woken.notify_one();
            }
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
        self.segments.prepare(segment, &self.counters).map_err(|error| match error.kind() {
            ErrorKind::DiskFull => error.with_detail(LOG_FULL),
            _ => self.stop_failed(&error),
        })
    }

    /// Whether all that was appended is durable, and the last of it without proof.
    fn wants_proof(&self) -> bool {
        let appended = self.appended.load(Ordering::Acquire);
        self.proved.load(Ordering::Acquire) < appended && appended <= self.flushed().0
    }

    pub(crate) fn confirm(&self) -> Result<()> {
        if !self.wants_proof() {
            return self.check_running();
        }
        let mut marker = Group::new();
        marker.record(RecordKind::Note, TxId::NONE, Lsn::NONE, &[]);
        let at = self.append_group(&marker, false, false)?;
        Counters::add(&self.counters.markers, 1);
        self.flush(at.end)
    }

    pub(crate) fn set_writer_delay(&self, delay: Duration) {
        self.writer_delay.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut flusher = self.flusher.lock();
        flusher.due = None;
        self.flusher_woken.notify_all();
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

    /// What is to be done without being asked, if anything; otherwise the flusher counts as idle, and
    /// the next append wakes it.
    fn undone(&self) -> Option<Due> {
        let buffers = self.buffers.lock();
        let due = if buffers.bytes() > 0 {
            Some(Due::Flush)
        } else if self.wants_proof() {
            Some(Due::Confirm)
        } else {
            None
        };
        self.idle.store(due.is_none(), Ordering::Relaxed);
        due
    }

    /// Waits until there is something to do: a flush up to a position that somebody wants, or what is
    /// due. `None`: the thread is to end.
    fn next_work(&self) -> Option<(Due, Lsn)> {
        let mut flusher = self.flusher.lock();
        loop {
            if flusher.shutdown {
                return None;
            }
            if flusher.wanted.0 > self.taken.load(Ordering::Acquire) {
                return Some((Due::Wanted, flusher.wanted));
            }
            let flushed = self.flushed();
            let Some(what) = self.undone() else {
                flusher.due = None;
                self.flusher_woken.wait(&mut flusher);
                continue;
            };
            let now = Instant::now();
            let due = match flusher.due {
                Some((same, since, due)) if same == what && since == flushed => due,
                _ => now + Duration::from_micros(self.writer_delay.load(Ordering::Relaxed)),
            };
            flusher.due = Some((what, flushed, due));
            if due <= now {
                flusher.due = None;
                return Some((what, self.end()));
            }
            self.flusher_woken.wait_until(&mut flusher, due);
        }
    }

    pub(crate) fn run_flusher(&self) {
        while let Some((what, upto)) = self.next_work() {
            let done = match what {
                Due::Wanted | Due::Flush => {
                    // Whoever is about to append may do so first: on a busy machine that makes larger
                    // groups, on an idle one it returns at once.
                    std::thread::yield_now();
                    // Not until it is acknowledged: others want something meanwhile.
                    self.fly(upto)
                }
                Due::Confirm => self.confirm(),
            };
            match done {
                Ok(()) => {}
                // No space for the marker: after the delay once more.
                Err(error) if is_log_full(&error) => {}
                Err(_) => {
                    // Stopped for good; every waiter was told.
                    self.flusher.lock().running = false;
                    return;
                }
            }
        }
    }

    pub(crate) fn kick_preparer(&self) {
        let mut preparer = self.preparer.lock();
        if preparer.running {
            preparer.kicked = true;
            self.preparer_woken.notify_one();
        }
    }

    pub(crate) fn run_preparer(&self) {
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

    pub(crate) fn shut_down_threads(&self) {
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

    pub(crate) fn forget_read_blocks(&self) {
        self.cache.clear();
    }

    pub(crate) fn read_record(&self, lsn: Lsn) -> Result<OwnedRecord> {
        let (oldest, end) = (self.segments.oldest(), self.end());
        if lsn < oldest || lsn >= end {
            return Err(Error::corrupt(format!("LSN {lsn} is not in the log (kept from LSN {oldest} to {end})")));
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
