//! What a running statement carries: the view it reads through, its transaction,
//! and whether someone asked it to stop.
//!
//! Operators find it in the task context's session configuration, so that one kept
//! physical plan serves any transaction.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use resurgam_engine::{ReadView, RowBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::exec::memory::{Limits, Measured};
use crate::exec::once::Once;
use crate::pg::catalog::ReadAgain;
use crate::pg::memory;
use crate::pg::running::Stop;
use crate::pg::styles::Styles;
use crate::pg::user_types::{TypeSource, UserTypes};
use crate::wire::SqlError;

/// Why a statement has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StopReason {
    Cancel = 1,
    /// The session has to end.
    Terminate = 2,
}

/// What is called when a session has to end.
struct OnTerminate(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for OnTerminate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnTerminate")
    }
}

#[cold]
fn terminated() -> SqlError {
    SqlError::new("57P01", "terminating connection due to administrator command")
}

/// A flag with a bell; shared between a session and whoever may cancel it.
#[derive(Debug, Default)]
pub(crate) struct StopFlag {
    reason: AtomicU8,
    /// A statement is running, or a part of the work for one.
    running: AtomicBool,
    /// A message of the client is being answered, see [`Self::message`].
    in_message: AtomicBool,
    /// The session has to end: from now on no statement runs.
    terminated: AtomicBool,
    /// Tells whoever serves the session, once, that it has to end.
    on_terminate: Mutex<Option<OnTerminate>>,
    /// When the statement is out of time, for what does not return to whoever waits for it.
    deadline: Mutex<Option<Instant>>,
    /// There may be a `deadline`: few statements have one.
    has_deadline: AtomicBool,
    /// Who knows the types of users that its session's transaction sees.
    types: OnceLock<Weak<dyn TypeSource>>,
    /// A thread plans for the session, perhaps for a statement that did not wait for it.
    pub(crate) planning: AtomicBool,
    /// What the statement may take of memory and temporary files.
    pub(crate) limits: Limits,
    bell: Notify,
}

impl StopFlag {
    /// Work for a message begins, until the answer is dropped. A cancel that comes between messages is forgotten; one
    /// that comes within, be it between the parts of the work (parsing, planning, the statements of one string), ends
    /// the next part.
    pub(crate) fn message(self: &Arc<Self>) -> InMessage {
        self.reason.store(0, Ordering::Relaxed);
        self.in_message.store(true, Ordering::SeqCst);
        InMessage(Arc::clone(self))
    }
    /// A statement begins, or a part of the work for one.
    pub(crate) fn begin(&self) {
        if !self.in_message.load(Ordering::Relaxed) {
            self.reason.store(0, Ordering::Relaxed);
        }
        if self.has_deadline.load(Ordering::Relaxed) {
            self.has_deadline.store(false, Ordering::Relaxed);
            *self.deadline.lock() = None;
        }
        self.running.store(true, Ordering::SeqCst);
        if self.terminated.load(Ordering::SeqCst) {
            self.reason.store(StopReason::Terminate as u8, Ordering::SeqCst);
        }
    }
    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::Release);
    }
    /// Ends the session: its statement, if one runs, and any later one.
    pub(crate) fn terminate(&self) {
        self.terminated.store(true, Ordering::SeqCst);
        // First: a statement that has ended by it must not be answered as if the session went on.
        let tell = self.on_terminate.lock().take();
        if let Some(OnTerminate(tell)) = tell {
            tell();
        }
        self.stop(StopReason::Terminate);
    }
    /// Says, once, who knows the types of users that the session's statements mean.
    pub(crate) fn set_types(&self, source: Weak<dyn TypeSource>) {
        let _ = self.types.set(source);
    }
    /// See [`Self::terminate`].
    pub(crate) fn on_terminate(&self, tell: Box<dyn FnOnce() + Send>) {
        *self.on_terminate.lock() = Some(OnTerminate(tell));
    }
    pub(crate) fn stop(&self, reason: StopReason) {
        let at_work = self.running.load(Ordering::SeqCst) || self.in_message.load(Ordering::SeqCst);
        if at_work && self.reason.load(Ordering::Acquire) != StopReason::Terminate as u8 {
            self.reason.store(reason as u8, Ordering::Release);
            self.bell.notify_waiters();
            self.bell.notify_one();
        }
    }
    /// When the statement has to end, if it has a timeout.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
        self.has_deadline.store(true, Ordering::Release);
    }
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.has_deadline.load(Ordering::Acquire) { *self.deadline.lock() } else { None }
    }
    /// Whether a statement is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }
    /// The error that a stopped statement ends with.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        match self.reason.load(Ordering::Relaxed) {
            0 => Ok(()),
            reason if reason == StopReason::Terminate as u8 => Err(terminated()),
            _ => Err(SqlError::new("57014", "canceling statement due to user request")),
        }
    }
    /// As [`Self::check`], and whether the statement is out of time.
    pub(crate) fn check_time(&self) -> Result<(), SqlError> {
        self.check()?;
        match self.deadline() {
            Some(deadline) if Instant::now() >= deadline => Err(crate::exec::wait::out_of_time()),
            _ => Ok(()),
        }
    }
    /// Completes when the statement has to stop.
    pub(crate) async fn stopped(&self) -> SqlError {
        loop {
            let bell = self.bell.notified();
            if let Err(error) = self.check() {
                return error;
            }
            bell.await;
        }
    }
}

/// See [`StopFlag::message`].
#[derive(Debug)]
pub struct InMessage(Arc<StopFlag>);

impl Drop for InMessage {
    fn drop(&mut self) {
        self.0.in_message.store(false, Ordering::SeqCst);
    }
}

impl Stop for StopFlag {
    fn types(&self) -> Option<Arc<UserTypes>> {
        self.types.get()?.upgrade()?.user_types()
    }
    fn database(&self) -> Option<String> {
        self.types.get()?.upgrade()?.database()
    }
    fn styles(&self) -> Option<Styles> {
        Some(self.types.get()?.upgrade()?.styles())
    }
    fn transaction_start(&self) -> Option<i64> {
        self.types.get()?.upgrade()?.transaction_start()
    }
    fn check(&self) -> Result<(), SqlError> {
        self.check_time()
    }
    fn check_memory(&self, bytes: isize) -> Result<(), SqlError> {
        Measured::default().check(bytes)
    }
    /// This one is of parsing and planning. What is long is no constant of a plan, which is copied many times: an expression
    /// that cannot be computed now is left for when the plan runs.
    fn check_value(&self, _: isize, bytes: usize) -> Result<(), SqlError> {
        Err(memory::exhausted(format!("A constant of {bytes} bytes is too long for a plan.")))
    }
}

/// Raises a flag when it is dropped: the statement ended, perhaps by being cancelled.
#[derive(Default)]
pub(crate) struct Dropped(Arc<AtomicBool>);

impl Dropped {
    /// Whether it was dropped, as a question for the work.
    pub(crate) fn question(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let flag = Arc::clone(&self.0);
        move || flag.load(Ordering::Relaxed)
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The newest version of one row, in place of the target table's scan: a statement
/// of a READ COMMITTED transaction is run again on it after a concurrent change.
#[derive(Debug)]
pub(crate) struct TargetRow {
    pub table: u32,
    pub row: Mutex<Option<RowBuf>>,
    /// Rows of other tables that are targets, too.
    pub others: Vec<TargetRow>,
}

impl TargetRow {
    pub(crate) fn new(table: u32, row: Option<RowBuf>) -> Self {
        Self { table, row: Mutex::new(row), others: Vec::new() }
    }
    /// That of a table, if it is a target.
    pub(crate) fn of(&self, table: u32) -> Option<&Self> {
        if self.table == table { Some(self) } else { self.others.iter().find(|other| other.table == table) }
    }
}

/// The rows that a statement's queries with a locking clause gave, in their order; see `locking`.
#[derive(Debug)]
pub(crate) struct Locked {
    pub rows: Vec<Vec<RecordBatch>>,
    /// Counts them against the memory of queries.
    pub memory: Vec<MemoryReservation>,
}

impl Locked {
    /// Rows of the query of that number.
    pub(crate) fn get(&self, number: usize) -> Option<&[RecordBatch]> {
        self.rows.get(number).map(Vec::as_slice)
    }
}

/// See the module's head.
pub(crate) struct StatementContext {
    pub view: ReadView,
    pub stop: Arc<StopFlag>,
    pub target: Option<TargetRow>,
    /// Rows that were locked before, for the statement to read.
    pub locked: Option<Arc<Locked>>,
    /// Its WITH queries that are computed once, which whoever executes it holds.
    pub once: Weak<Once>,
}

/// What a statement has beside its own plan when it begins to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    pub locked: Option<Arc<Locked>>,
    pub once: Option<Arc<Once>>,
}

impl Beside {
    /// What a context refers to.
    pub(crate) fn once(&self) -> Weak<Once> {
        self.once.as_ref().map(Arc::downgrade).unwrap_or_default()
    }
}

impl std::fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StatementContext")
    }
}

impl StatementContext {
    /// The context that `task` runs in.
    pub(crate) fn of(task: &TaskContext) -> datafusion::common::Result<Arc<Self>> {
        task.session_config()
            .get_extension::<StatementContext>()
            .ok_or_else(|| DataFusionError::Internal("a scan outside a statement".to_owned()))
    }
}

/// Rows of a batch where a statement has met its limit of memory: they may be wide.
pub(crate) const LEAN_ROWS: usize = 128;

/// What operators of one execution share.
pub(crate) fn task_context(state: &SessionState, statement: Arc<StatementContext>) -> Arc<TaskContext> {
    task_of(state, state.config().clone(), statement)
}

/// The same with a configuration that has what operators look for.
pub(crate) fn task_of(
    state: &SessionState,
    mut config: SessionConfig,
    statement: Arc<StatementContext>,
) -> Arc<TaskContext> {
    let limits = &statement.stop.limits;
    let runtime = crate::exec::memory::statement(state.runtime_env(), limits);
    if limits.is_lean() {
        config = config.with_batch_size(LEAN_ROWS);
    }
    task_with(config, statement, runtime)
}

/// A task of that statement, as it is.
pub(crate) fn task_with(
    config: SessionConfig,
    statement: Arc<StatementContext>,
    runtime: Arc<RuntimeEnv>,
) -> Arc<TaskContext> {
    let config = config.with_extension(statement).with_extension(Arc::new(ReadAgain::default()));
    Arc::new(TaskContext::new(
        None,
        String::new(),
        config,
        Default::default(),
        Default::default(),
        Default::default(),
        Default::default(),
        runtime,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(stop: &StopFlag) -> Option<String> {
        stop.check().err().map(|error| error.sqlstate.to_string())
    }

    #[test]
    fn a_cancel_between_the_parts_of_a_message_ends_the_next_one() {
        let stop = Arc::new(StopFlag::default());
        let message = stop.message();
        stop.begin();
        stop.end();
        stop.stop(StopReason::Cancel);
        stop.begin();
        assert_eq!(state(&stop).as_deref(), Some("57014"));
        stop.end();
        drop(message);
        // The next message is another statement's.
        let _message = stop.message();
        stop.begin();
        assert_eq!(state(&stop), None);
    }

    #[test]
    fn a_cancel_between_messages_is_forgotten() {
        let stop = Arc::new(StopFlag::default());
        drop(stop.message());
        stop.stop(StopReason::Cancel);
        let _message = stop.message();
        stop.begin();
        assert_eq!(state(&stop), None);
        // An end is not.
        stop.terminate();
        stop.end();
        let _message = stop.message();
        stop.begin();
        assert_eq!(state(&stop).as_deref(), Some("57P01"));
    }
}
