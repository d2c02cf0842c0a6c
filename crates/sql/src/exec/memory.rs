//! What statements may take of memory and of temporary files.
//!
//! ```text
//! query_memory_bytes   all statements together: what they reserve (ServerPool)
//!   └ half of it       one statement (StatementPool)
//!       └ work_mem     one sort or aggregate before it spills; never refused, it goes to temporary files
//! ```
//! Operators reserve what they keep. What they allocate without a reservation is measured on the threads that run
//! them ([`Measured`]): one statement may have [`SLACK_BYTES`] more than all may reserve, and so may all together.
//! Beyond that a statement ends with `53200`.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool, human_readable_size,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use crate::exec::bridge::BATCH_BYTES;
use crate::exec::spill::{TempFiles, TempFolder, TempUse};
use crate::pg::memory;
use crate::wire::SqlError;

/// Least that all statements together have.
const LEAST_BYTES: usize = 16 << 20;
/// What a statement may have allocated beyond what may be reserved.
pub(crate) const SLACK_BYTES: usize = 64 << 20;
/// The share of a statement's memory that a sort lays by for the merge of what it has spilled, and the most of it.
const MERGE_SHARE: usize = 16;
const MERGE_MOST: usize = 10 << 20;
/// The share of a statement's memory that the longest value, or the column of one function, may have.
const VALUE_SHARE: usize = 4;
/// What it may have in any case.
const VALUE_LEAST: usize = 32 << 20;
/// What a sort or aggregate has in any case: two batches of spilled rows at a time, and a batch that comes, each twice.
const WORK_MEM_MIN: usize = 8 * BATCH_BYTES;
/// What one has to have had for its memory to be given back to the system at once.
const MUCH_BYTES: isize = 8 << 20;
/// Consumers that an error names.
const NAMED: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// The pool of all statements of a database.
#[derive(Debug)]
pub(crate) struct ServerPool {
    pool: TrackConsumersPool<FairSpillPool>,
    statement_bytes: usize,
    pub(crate) folder: Arc<TempFolder>,
}

/// Resources that all statements of a database share.
pub(crate) fn server(query_memory_bytes: u64, temp_directory: &Path) -> Arc<RuntimeEnv> {
    let bytes = usize::try_from(query_memory_bytes).unwrap_or(usize::MAX).max(LEAST_BYTES);
    let statement_bytes = (bytes / 2).max(LEAST_BYTES);
    // It is copied where it becomes an argument, or a row.
    memory::set_room((statement_bytes / VALUE_SHARE).max(VALUE_LEAST));
    MEASURED_MAX.store(bytes.saturating_add(SLACK_BYTES), Ordering::Relaxed);
    let pool = TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED);
    let folder = Arc::new(TempFolder::new(temp_directory));
    let pool = ServerPool { pool, statement_bytes, folder };
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc().unwrap_or_default()
}

impl ServerPool {
    /// That of a runtime which [`server`] made.
    pub(crate) fn of(runtime: &RuntimeEnv) -> Option<&Self> {
        runtime.memory_pool.downcast_ref()
    }

    /// What a sort that may spill lays by before it has a row. A join that spills has two of them.
    pub(crate) fn merge_bytes(&self) -> usize {
        (self.statement_bytes / MERGE_SHARE).min(MERGE_MOST)
    }
}

impl fmt::Display for ServerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, f)
    }
}

impl MemoryPool for ServerPool {
    fn name(&self) -> &str {
        "server"
    }
    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }
    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }
    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }
    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)
    }
    fn reserved(&self) -> usize {
        self.pool.reserved()
    }
    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

/// What a session's settings say of its statements.
#[derive(Debug)]
pub(crate) struct Limits {
    /// In bytes.
    work_mem: AtomicU64,
    /// The statement has met its limit: it is run in small batches, with joins that spill.
    lean: AtomicBool,
    /// Threads that may read for one scan, beside that of its plan.
    scan_workers: AtomicUsize,
    pub(crate) temp: Arc<TempUse>,
}

impl Default for Limits {
    fn default() -> Self {
        let (lean, scan_workers) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { work_mem: AtomicU64::new(u64::MAX), lean, scan_workers, temp: Arc::default() }
    }
}

impl Limits {
    /// `work_mem` in bytes, `temp_file_limit` in kilobytes, `max_parallel_workers_per_gather`.
    pub(crate) fn set(&self, work_mem: u64, temp_file_limit: Option<u64>, scan_workers: usize) {
        self.scan_workers.store(scan_workers, Ordering::Relaxed);
        self.work_mem.store(work_mem, Ordering::Relaxed);
        self.temp.set_limit(temp_file_limit);
    }
    pub(crate) fn set_lean(&self, lean: bool) {
        self.lean.store(lean, Ordering::Relaxed);
    }
    pub(crate) fn is_lean(&self) -> bool {
        self.lean.load(Ordering::Relaxed)
    }
    /// See the field; none where the statement has met its limit of memory.
    pub(crate) fn scan_workers(&self) -> usize {
        if self.is_lean() { 0 } else { self.scan_workers.load(Ordering::Relaxed) }
    }
}

/// The resources of one statement of the session with these limits.
pub(crate) fn statement(server: &Arc<RuntimeEnv>, limits: &Limits) -> Arc<RuntimeEnv> {
    let Some(shared) = ServerPool::of(server) else { return Arc::clone(server) };
    let files = TempFiles { folder: Arc::clone(&shared.folder), used: Arc::clone(&limits.temp) };
    let Ok(disk) = DiskManager::builder().with_temp_file_factory(Arc::new(files)).build() else {
        return Arc::clone(server);
    };
    // One that is run once more, because it had too little, has more where it helps.
    let least = if limits.is_lean() { (shared.statement_bytes / 4).max(WORK_MEM_MIN) } else { WORK_MEM_MIN };
    let pool = StatementPool {
        server: Arc::clone(server),
        limit: shared.statement_bytes,
        work_mem: usize::try_from(limits.work_mem.load(Ordering::Relaxed)).unwrap_or(usize::MAX).max(least),
        reserved: AtomicUsize::new(0),
    };
    Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), disk_manager: Arc::new(disk), ..server.as_ref().clone() })
}

/// The part of a [`ServerPool`] that one statement may have.
#[derive(Debug)]
struct StatementPool {
    server: Arc<RuntimeEnv>,
    limit: usize,
    work_mem: usize,
    reserved: AtomicUsize,
}

impl StatementPool {
    fn pool(&self) -> &dyn MemoryPool {
        self.server.memory_pool.as_ref()
    }
    #[cold]
    fn refused(&self, reservation: &MemoryReservation, additional: usize, limit: usize, what: &str) -> DataFusionError {
        DataFusionError::ResourcesExhausted(format!(
            "{} has {} and asks for {} more; {what} is {}.",
            reservation.consumer().name(),
            human_readable_size(reservation.size()),
            human_readable_size(additional),
            human_readable_size(limit)
        ))
    }
}

impl fmt::Display for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statement(limit: {}) of {}", human_readable_size(self.limit), self.server.memory_pool)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "statement"
    }
    fn register(&self, consumer: &MemoryConsumer) {
        self.pool().register(consumer);
    }
    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool().unregister(consumer);
    }
    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        self.pool().grow(reservation, additional);
    }
    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        self.pool().shrink(reservation, shrink);
    }
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (size, work_mem) = (reservation.size(), self.work_mem);
        // One that has nothing to spill gets what it asks for: a row may be longer.
        if reservation.consumer().can_spill() && size > 0 && size.saturating_add(additional) > work_mem {
            return Err(self.refused(reservation, additional, work_mem, "work_mem"));
        }
        let before = self.reserved.fetch_add(additional, Ordering::Relaxed);
        let grown = match before.saturating_add(additional) > self.limit {
            true => Err(self.refused(reservation, additional, self.limit, "the limit of a statement")),
            false => self.pool().try_grow(reservation, additional),
        };
        if grown.is_err() {
            self.reserved.fetch_sub(additional, Ordering::Relaxed);
        }
        grown
    }
    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }
    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

/// What all statements that run have allocated, as far as it is known, and may have.
static MEASURED: AtomicIsize = AtomicIsize::new(0);
static MEASURED_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes that the plans which run have allocated; for metrics. 0 without an allocator that counts.
pub fn measured_bytes() -> u64 {
    u64::try_from(MEASURED.load(Ordering::Relaxed)).unwrap_or(0)
}

/// What the plan of a running statement has allocated and not freed, on whichever thread.
#[derive(Debug, Default)]
pub(crate) struct Measured(AtomicIsize, AtomicBool);

impl Measured {
    /// Allocated, or freed.
    pub(crate) fn add(&self, bytes: isize) {
        // More may be freed than was counted: what another thread allocated for it.
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        let counted = if after < 0 {
            self.0.fetch_sub(after, Ordering::Relaxed);
            -before
        } else {
            bytes
        };
        MEASURED.fetch_add(counted, Ordering::Relaxed);
        if after > MUCH_BYTES {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    /// What is counted now.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> isize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it ever had as much as is worth giving back to the system.
    pub(crate) fn was_much(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    /// Whether it may have `more` than is counted.
    ///
    /// # Errors
    /// `53200`
    pub(crate) fn check(&self, more: isize) -> std::result::Result<(), SqlError> {
        let own = self.0.load(Ordering::Relaxed).saturating_add(more);
        // Who has little is not who takes it from the others.
        if own < SLACK_BYTES as isize {
            return Ok(());
        }
        let all = MEASURED.load(Ordering::Relaxed).saturating_add(more);
        let max = isize::try_from(MEASURED_MAX.load(Ordering::Relaxed)).unwrap_or(isize::MAX);
        if own.max(all) <= max {
            return Ok(());
        }
        let shown = |bytes: isize| human_readable_size(usize::try_from(bytes).unwrap_or(0));
        Err(memory::exhausted(format!(
            "The statement has allocated {}, all together {}; query_memory_bytes lets them have {}.",
            shown(own),
            shown(all.max(own)),
            shown(max)
        )))
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        MEASURED.fetch_sub(*self.0.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(bytes: u64, work_mem: u64) -> (tempfile::TempDir, Arc<RuntimeEnv>) {
        let dir = tempfile::tempdir().expect("a folder");
        let server = server(bytes, dir.path());
        let limits = Limits::default();
        limits.set(work_mem, None, 0);
        let env = statement(&server, &limits);
        (dir, env)
    }

    #[test]
    fn a_statement_has_half_and_a_sort_its_work_mem() {
        let (_dir, env) = env(64 << 20, 17 << 20);
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&env.memory_pool);
        sort.try_grow(20 << 20).expect("one row of any length");
        assert!(sort.try_grow(1).is_err(), "more than work_mem");
        sort.free();
        sort.try_grow(1 << 20).expect("less than work_mem");
        let join = MemoryConsumer::new("join").register(&env.memory_pool);
        join.try_grow(31 << 20).expect("half of all");
        let error = join.try_grow(1).expect_err("more than half of all");
        let error = crate::pg::errors::from_datafusion(error, "");
        assert_eq!(error.sqlstate, "53200");
        assert!(error.detail.as_ref().is_some_and(|detail| detail.contains("the limit of a statement")));
        drop((sort, join));
        assert_eq!(env.memory_pool.reserved(), 0);
    }

    #[test]
    fn what_is_freed_elsewhere_is_not_counted_twice() {
        let measured = Measured::default();
        measured.add(100);
        measured.add(-300);
        measured.add(50);
        assert_eq!(measured.0.load(Ordering::Relaxed), 50);
        assert!(measured.check(1000).is_ok());
        assert_eq!(measured.check(isize::MAX).unwrap_err().sqlstate, "53200");
    }
}
