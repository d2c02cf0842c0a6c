//! A session: its transaction, prepared statements and portals, and how statements run.
//!
//! Transaction states, as PostgreSQL has them:
//! ```text
//! Idle --statement--> implicit --end of Query / Sync--> Idle
//! Idle --BEGIN--> block --COMMIT/ROLLBACK--> Idle
//! block --error--> failed --COMMIT/ROLLBACK--> Idle
//! ```
//! A failed block has given its locks back already: the engine's transaction is rolled back
//! at the error. Results of an autocommitted statement are handed out only after its commit is
//! durable (or at once with `synchronous_commit = off`).

pub(crate) mod again;
mod at_once;
pub(crate) mod cache;
mod call;
pub(crate) mod database;
pub(crate) mod embedded;
pub(crate) mod execution;
pub(crate) mod kept;
pub(crate) mod listed;
pub(crate) mod panics;
pub(crate) mod scroll;
mod sequences;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod stream;
pub(crate) mod types;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::Statement;
use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_engine::{
    Durability, ErrorKind, Interrupt, Isolation, ReadView, RowBuf, Savepoint, StatementKind, Table, Transaction,
};
use tokio::time::Instant;

use crate::command::cursor::Fetch;
use crate::ddl::database::Closing;
use crate::ddl::temporary::Temporary;
use crate::dml::foreign::{Deferred, Modes};
use crate::dml::{Around, CurrentRow, Op, WritePlan};
use crate::exec::compute::aside;
use crate::exec::context::{Beside, InMessage, StatementContext, StopFlag};
use crate::exec::direct::Touched;
use crate::exec::planners::plan_apart;
use crate::exec::wait::guarded;
use crate::exec::weight;
use crate::parse::lexer::{self, Literal};
use crate::parse::own::{Own, Parsed};
use crate::parse::shape::is_optimizable;
use crate::pg::context::{CursorRow, PgContext, StatementRow};
use crate::pg::decode::decode_param;
use crate::pg::encode::TextStyle;
use crate::pg::errors;
use crate::pg::memory;
use crate::pg::notify;
use crate::pg::running::{self, Stop};
use crate::pg::types::oid::BPCHAR_ARRAY;
use crate::pg::user_types;
use crate::plan::analyze::is_heavy;
use crate::plan::lookup::Lookup;
use crate::plan::planner::{self, Names, task_context};
use crate::plan::planning::Planning;
use crate::plan::plans::RunBy;
use crate::plan::statement::{self, Kind, Prepared, Query};
use crate::plan::tally::Tally;
use crate::session::again::Again;
use crate::session::cache::PathId;
use crate::session::database::{CancelHandle, SessionOptions, SqlDatabase};
use crate::session::kept::{Kept, Room};
use crate::session::listed::Listed;
use crate::session::scroll::{Count, Place, Scroll, key_of_kept};
use crate::session::settings::{ConnectionSettings, Hot, Variables};
use crate::session::shared::{PathOf, SessionShared, now};
use crate::session::stream::{ActiveRows, RowStream};
use crate::wire::{Execution, Field, Format, RowChunk, SqlError, Tag, TransactionStatus};

/// Statements that belong to one session, kept by text.
const LOCAL_MAX: usize = 256;

/// Bytes that these have together, about.
const LOCAL_BYTES_MAX: usize = 8 << 20;

/// Longest text of a BEGIN or COMMIT that is kept.
const FRAME_TEXT_MAX: usize = 64;

/// The open transaction.
pub(crate) struct Open {
    pub txn: Transaction,
    /// Begun by BEGIN.
    pub block: bool,
    pub read_only: bool,
    /// A statement has run: its isolation is fixed.
    pub used: bool,
    /// Innermost last.
    pub savepoints: Vec<NamedSavepoint>,
    /// Foreign keys that have to hold at its end.
    pub deferred: Arc<Mutex<Deferred>>,
}

/// A savepoint as SQL knows it. Names may be taken again; the newest counts.
pub(crate) struct NamedSavepoint {
    pub name: String,
    pub savepoint: Savepoint,
    /// Changes of settings before it.
    pub settings: usize,
    /// What SET CONSTRAINTS had said.
    pub constraints: Modes,
    /// Portals that there had been in the session: later ones go with it.
    pub portals: u64,
    /// Advisory locks that the transaction had taken.
    pub advisory: usize,
    /// What it was going to tell.
    pub notifications: notify::Mark,
}

/// Bytes of a text that is parsed on its session's thread; a longer one may take so long that a stop does not wait for it.
const PARSED_HERE_MAX: usize = 8 << 10;
/// How often a statement is planned again whose planning failed while definitions changed.
const PLANS_MAX: u32 = 100;

/// One connection's state; see the module's head.
pub struct Session {
    pub(crate) db: Arc<SqlDatabase>,
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) cx: Arc<dyn PgContext>,
    state: Option<Arc<SessionState>>,
    /// As `state`, for queries of which few rows may be wanted.
    few: Option<Arc<SessionState>>,
    pub(crate) open: Option<Open>,
    /// A block that failed and waits for its end.
    pub(crate) failed: bool,
    /// The running statement is one of several of a string, which are one transaction: as if
    /// there were a BEGIN before them and a COMMIT behind, as PostgreSQL has it.
    pub(crate) in_string: bool,
    pub(crate) statements: HashMap<String, Named>,
    portals: Portals,
    /// For these.
    kept: Arc<Room>,
    /// Portals that were ever made.
    pub(crate) portals_made: u64,
    /// Plans that are this session's alone, and the generation of the settings that they were
    /// made with.
    local: HashMap<(String, Vec<u32>), Arc<Prepared>>,
    local_generation: u64,
    /// About what these take in memory.
    local_bytes: usize,
    /// Counts a long text, and what is made of it, against the memory of queries.
    text_memory: Option<MemoryReservation>,
    pub(crate) notices: Vec<SqlError>,
    /// The runs of the running statement.
    pub(crate) again: Again,
    /// When its first run began.
    began: Instant,
    /// When it was begun to be read, if it has a time to end in: reading, planning and running are of one time.
    read_since: Option<Instant>,
    /// When the statement that changes definitions is out of time.
    pub(crate) ddl_deadline: Option<Instant>,
    /// The settings that each statement goes by, as they were when one began; see [`Session::hot`].
    hot: Hot,
    /// The number of the search path, and what it is of.
    path_known: Mutex<(PathOf, PathId)>,
    /// A statement has run by [`Session::select_plainly`]: the transaction that it is of has begun, though none is open.
    begun_plainly: bool,
    /// For the next row that is answered at once.
    pub(crate) row_unused: RowBuf,
    /// For its answer, as the server has given it back.
    pub(crate) chunk_unused: RowChunk,
    /// For the next transaction.
    deferred_unused: Option<Arc<Mutex<Deferred>>>,
    /// It has changed what rights new objects have, maybe in its open transaction.
    pub(crate) has_changed_defaults: bool,
    /// Databases that its open transaction keeps others out of.
    pub(crate) closing: Vec<Closing>,
    /// Where its temporary tables are; last of all, so that it goes when nothing of the session is left.
    pub(crate) temporary: Option<Temporary>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.gone();
    }
}

/// A prepared statement by name.
pub(crate) struct Named {
    pub prepared: Arc<Prepared>,
    pub declared: Vec<u32>,
    /// Its part of what the session may keep, and of what the database may; the one without a name has none.
    _kept: Option<(Kept, Arc<Kept>)>,
    _listed: Option<Listed>,
}

struct Portal {
    prepared: Arc<Prepared>,
    values: Vec<ScalarValue>,
    formats: Vec<Format>,
    running: Option<Box<ActiveRows>>,
    done: bool,
    /// It ended with an error.
    failed: bool,
    /// Which one of the session it is.
    number: u64,
    /// Definitions that it was planned with.
    planned_at: PlannedAt,
    /// Its part of what the session may keep; the one without a name has none.
    kept: Vec<Kept>,
    _listed: Option<Listed>,
    /// Its rows outlive its transaction.
    hold: Hold,
    /// Where FETCH goes on.
    place: Place,
    /// Rows that it keeps, with what is still to be computed in `running`.
    scroll: Option<Box<Scroll>>,
    /// It may go back.
    is_scrollable: bool,
    /// What its rows were read by, if it says which rows of tables they are.
    view: Option<ReadView>,
    /// Of a FETCH that is executed with a row limit: its rows, and how many of them were given.
    fetched: Option<Fetched>,
}

/// Rows of a FETCH that go to the client in several executions.
pub(crate) struct Fetched {
    pub rows: Box<Scroll>,
    pub given: u64,
    pub formats: Vec<Format>,
}

/// Whether a portal stays when its transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Not,
    /// If that is committed.
    Declared,
    /// It was.
    Committed,
}

/// What FETCH takes of a portal.
pub(crate) struct TakenRows {
    pub fields: Arc<[Field]>,
    /// Of a cursor that is BINARY; none: those that are asked for.
    pub formats: Vec<Format>,
    /// None: all rows are computed.
    pub active: Option<ActiveRows>,
    pub place: Place,
    pub scroll: Option<Box<Scroll>>,
    pub is_scrollable: bool,
    pub prepared: Arc<Prepared>,
}

/// A cursor that is declared.
pub(crate) struct NewCursor<'a> {
    pub name: &'a str,
    pub text: &'a Arc<str>,
    pub prepared: Arc<Prepared>,
    pub formats: Vec<Format>,
    /// None: all rows are in `scroll`.
    pub active: Option<ActiveRows>,
    pub scroll: Option<Box<Scroll>>,
    pub hold: bool,
    pub is_scrollable: bool,
    /// What its rows are read by, if it says which rows of tables they are.
    pub view: Option<ReadView>,
}

/// Portals by their names. The one without a name, which most clients use alone, is there without a search.
#[derive(Default)]
struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

impl Portals {
    fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }
    }

    /// Whether that portal must not be made again: the unnamed one may.
    fn is_taken(&self, name: &str) -> bool {
        !name.is_empty() && self.named.contains_key(name)
    }

    fn insert(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.to_owned(), portal);
        }
    }

    fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    /// Whether there is one that has rows to give yet.
    fn any_running(&self) -> bool {
        self.unnamed.iter().chain(self.named.values()).any(|portal| portal.running.is_some())
    }

    fn retain(&mut self, keep: impl Fn(&Portal) -> bool) {
        self.unnamed.take_if(|portal| !keep(portal));
        self.named.retain(|_, portal| keep(portal));
    }

    fn clear(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named.clear();
        }
    }

    /// Their transaction has come to its end: those stay whose rows are held.
    fn end_transaction(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named.retain(|_, portal| portal.hold != Hold::Not);
        }
    }

    /// And it was committed, or not.
    fn decide(&mut self, committed: bool) {
        if self.named.is_empty() {
            return;
        }
        if committed {
            let held = self.named.values_mut().filter(|portal| portal.hold == Hold::Declared);
            held.for_each(|portal| {
                portal.hold = Hold::Committed;
                portal.view = None;
            });
        } else {
            self.named.retain(|_, portal| portal.hold != Hold::Declared);
        }
    }
}

/// Version of the catalog, and number of the open transaction's own changes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PlannedAt(u64, u64);

/// One statement of a simple query.
pub struct SimpleStatement {
    simple: Simple,
    /// There are others in the same string.
    in_string: bool,
}

impl SimpleStatement {
    fn alone(simple: Simple) -> Self {
        Self { simple, in_string: false }
    }

    /// Its plan and its literals, if it stands alone and was planned before.
    fn ready(&self) -> Option<(&Arc<Prepared>, &[Literal])> {
        match &self.simple {
            Simple::Ready { prepared, literals } => Some((prepared, literals)),
            _ => None,
        }
    }
}

enum Simple {
    /// Planned before; literals as parameters.
    Ready { prepared: Arc<Prepared>, literals: Vec<Literal> },
    /// To be planned with its literals lifted, or as it is if that fails.
    Lifted { text: String, oids: Vec<u32>, literals: Vec<Literal>, original: String },
    /// To be planned as it is.
    Text(String),
    /// Part of a string of several statements.
    Parsed { statement: Box<Parsed>, text: Arc<str> },
}

/// Whether a client that has set `client_min_messages` to `least` is told of a message of that severity.
fn is_told(severity: &str, least: &str) -> bool {
    const WARNINGS: u8 = 2;
    let rank = match severity {
        "INFO" => return true,
        "WARNING" => WARNINGS,
        "NOTICE" => 1,
        _ => 0,
    };
    let wanted = match least {
        "error" => WARNINGS + 1,
        "warning" => WARNINGS,
        "notice" => 1,
        _ => 0,
    };
    rank >= wanted
}

/// Whether the plan of a text whose literals were lifted is that of the text with these.
fn stands_for(prepared: &Prepared, literals: &[Literal]) -> bool {
    // Parameters have no blanks at the ends of elements.
    let loses_blanks = |(literal, oid): (&Literal, &u32)| *oid == BPCHAR_ARRAY && literal.text.contains(' ');
    prepared.param_oids.len() == literals.len()
        && !prepared.typed_by_literals
        && !literals.iter().zip(prepared.param_oids.iter()).any(loses_blanks)
}

impl Session {
    pub(crate) fn new(db: Arc<SqlDatabase>, options: SessionOptions, pid: i32) -> Result<Self, SqlError> {
        let mut variables = Variables::new(&db.settings);
        let login = db.login(&options.user)?;
        // Who may begin one is the server's to ask; embedded sessions are of the roles that there are.
        let login = login.ok_or_else(|| crate::pg::roles::no_role(&options.user))?;
        variables.logged_in(login.role, &options.user, login.is_superuser);
        for (name, value) in &login.settings {
            // What is no longer acceptable keeps nobody out.
            if let Err(error) = variables.start_with(name, value) {
                tracing::warn!(%name, %error, "a setting of the role or the database is left out");
            }
        }
        if !options.application_name.is_empty() {
            variables.start("application_name", &options.application_name)?;
        }
        for (name, value) in &options.params {
            variables.start(name, value)?;
        }
        let kept = db.kept.of_session();
        let shared = Arc::new(SessionShared {
            database: Arc::downgrade(&db),
            database_name: options.database,
            database_oid: db.oid(),
            user: options.user,
            login: login.role,
            pid,
            client_addr: options.client_addr,
            started: now(),
            stop: Arc::<StopFlag>::default(),
            signals: variables.signals(),
            variables: Mutex::new(variables),
            lists: Arc::default(),
            txn: Mutex::new(None),
            transaction_start: Default::default(),
            statement_start: Default::default(),
            query: Mutex::new(Arc::from("")),
            notices: Mutex::default(),
            has_notices: AtomicBool::new(false),
            sequence_values: Mutex::default(),
            pending: Mutex::default(),
            has_pending: AtomicBool::new(false),
            listener: Mutex::default(),
            listens: AtomicBool::new(false),
            has_advisory: AtomicBool::new(false),
            types: Mutex::default(),
            path: Mutex::default(),
            temporary: Mutex::default(),
        });
        let types: Weak<SessionShared> = Arc::downgrade(&shared);
        shared.stop.set_types(types);
        let cx: Arc<dyn PgContext> = Arc::clone(&shared) as _;
        Ok(Self {
            db,
            shared,
            cx,
            state: None,
            few: None,
            open: None,
            failed: false,
            in_string: false,
            statements: HashMap::new(),
            portals: Portals::default(),
            kept,
            portals_made: 0,
            local: HashMap::new(),
            local_generation: 0,
            local_bytes: 0,
            text_memory: None,
            notices: Vec::new(),
            again: Again::default(),
            began: Instant::now(),
            read_since: None,
            ddl_deadline: None,
            hot: Hot::default(),
            path_known: Mutex::new((PathOf { generation: u64::MAX, definitions: None }, PathId::default())),
            begun_plainly: false,
            row_unused: RowBuf::default(),
            chunk_unused: RowChunk::default(),
            deferred_unused: None,
            has_changed_defaults: false,
            closing: Vec::new(),
            temporary: None,
        })
    }

    /// `I`, `T` or `E` of `ReadyForQuery`.
    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.open {
            _ if self.failed => TransactionStatus::Failed,
            Some(open) if open.block => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    /// Stops this session's running statement from another task.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::clone(&self.shared.stop))
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        let mut notices = Vec::new();
        // Raised after a notice was put there, so that none is passed over for good.
        if self.shared.has_notices.load(Ordering::Acquire) {
            self.shared.has_notices.store(false, Ordering::Release);
            notices = std::mem::take(&mut *self.shared.notices.lock());
        }
        if !self.notices.is_empty() {
            notices.append(&mut self.notices);
        }
        if !notices.is_empty() {
            let least = self.shared.variables.lock().get("client_min_messages");
            notices.retain(|notice| is_told(notice.severity, least.as_deref().unwrap_or_default()));
        }
        notices
    }

    /// Reported parameters that changed since the last call.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        if !self.shared.signals.is_changed() {
            return Vec::new();
        }
        self.shared.variables.lock().take_changes()
    }

    /// Reported parameters and their values, for the start of a connection.
    pub fn reported_parameters(&self) -> Vec<(String, String)> {
        self.shared.variables.lock().reported()
    }

    /// The client is gone or has to go: whatever the session holds is given back now.
    pub fn end(&mut self) {
        self.shared.stop.end();
        self.roll_back();
    }

    /// Longest time that the session may sit idle inside a transaction.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        let timeout = self.hot().idle_timeout;
        (!timeout.is_zero()).then_some(timeout)
    }

    /// What the server of the connection goes by, if a parameter has changed since `generation`, with the new one.
    pub fn connection_settings(&self, generation: u64) -> Option<(u64, ConnectionSettings)> {
        (self.shared.signals.generation() != generation).then(|| self.shared.variables.lock().connection())
    }

    /// Text of the statement that a portal runs, or of a named statement; for the log.
    pub fn statement_text(&self, portal: &str) -> Option<Arc<str>> {
        self.portals.get(portal).map(|portal| Arc::clone(&portal.prepared.text))
    }

    /// Waits for what the running statement needs of its client, unless the statement is stopped or out of time.
    ///
    /// # Errors
    /// `57014`, `57P01`. The caller has to say so by [`Session::error_occurred`].
    pub fn stoppable<T, W: Future<Output = T>>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T, SqlError>> + use<T, W> {
        let stop = Arc::clone(&self.shared.stop);
        let deadline = stop.deadline();
        async move { guarded(&stop, deadline, async { Ok(work.await) }).await }
    }

    /// A message of the client comes in. Until the answer is dropped a cancel is kept, whatever part of the work it meets;
    /// without it one that comes between two parts is lost.
    pub fn message(&self) -> InMessage {
        self.shared.stop.message()
    }

    pub(crate) fn notice(&mut self, notice: SqlError) {
        self.notices.push(notice);
    }

    pub(crate) fn state(&mut self) -> Result<Arc<SessionState>, SqlError> {
        {
            let variables = self.shared.variables.lock();
            self.shared.stop.limits.set(variables.work_mem, variables.temp_file_limit);
        }
        if self.shared.stop.limits.is_lean() {
            // Joins that spill (`merge_join.rs`) wait for a test that shows their answers.
            let planning = Planning { spilling_joins: true, ..self.db.settings.planning };
            let state = planner::session_state(&self.db.runtime, &self.cx, planning, &self.shared.stop);
            return state.map(Arc::new).map_err(|error| errors::from_datafusion(error, ""));
        }
        if let Some(state) = &self.state {
            return Ok(Arc::clone(state));
        }
        let state = planner::session_state(&self.db.runtime, &self.cx, self.db.settings.planning, &self.shared.stop)
            .map_err(|error| errors::from_datafusion(error, ""))?;
        let state = Arc::new(state);
        self.state = Some(Arc::clone(&state));
        Ok(state)
    }

    /// As [`Session::state`], with small batches: whoever wants a few rows does not wait for
    /// thousands.
    pub(crate) fn state_for_few(&mut self) -> Result<Arc<SessionState>, SqlError> {
        const BATCH_ROWS: usize = 64;
        if let Some(state) = &self.few {
            return Ok(Arc::clone(state));
        }
        let mut state = self.state()?.as_ref().clone();
        *state.config_mut() = state.config().clone().with_batch_size(BATCH_ROWS);
        let state = Arc::new(state);
        self.few = Some(Arc::clone(&state));
        Ok(state)
    }

    /// Names of relations along the session's path, as a transaction sees them.
    pub(crate) fn lookup<'t>(&self, txn: &'t Transaction) -> Lookup<'t> {
        Lookup { txn, path: self.cx.search_path() }
    }

    // ---- transactions ----

    /// The open transaction, begun if there is none.
    #[inline]
    pub(crate) fn transaction(&mut self) -> &mut Open {
        if self.open.is_none() {
            let Hot { repeatable_read, read_only, .. } = self.hot();
            let isolation = if repeatable_read { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            self.begin(isolation, read_only, false);
        }
        match &mut self.open {
            Some(open) => open,
            None => unreachable!("just begun"),
        }
    }

    /// A transaction of the engine, whose long work and waits see that the statement has to stop: it is cancelled, out of
    /// time, or the session ends. Between statements (a rollback) nothing stops it.
    pub(crate) fn engine_transaction(&self, isolation: Isolation) -> Transaction {
        let txn = self.db.engine.begin(isolation);
        txn.set_interrupt(Some(self.interrupt()));
        txn
    }

    /// What long work and waits of the engine ask whether the statement has to stop.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let stop = Arc::clone(&self.shared.stop);
        Arc::new(move || {
            if !stop.is_running() {
                return Ok(());
            }
            stop.check_time().map_err(|error| {
                let kind = if error.sqlstate == "57P01" { ErrorKind::Stopped } else { ErrorKind::Cancelled };
                resurgam_base::Error::new(kind, error.into_fields().message)
            })
        })
    }

    /// The statement is of a transaction that need not be there; see [`Session::select_plainly`].
    pub(crate) fn begin_plainly(&mut self) {
        if !self.begun_plainly {
            self.begun_plainly = true;
            self.shared.transaction_start.store(self.shared.statement_start(), Ordering::Relaxed);
        }
    }

    /// It ends, if that is all there was of it.
    fn end_plainly(&mut self) {
        self.begun_plainly = false;
        self.close_portals();
        self.ended(true);
    }

    pub(crate) fn begin(&mut self, isolation: Isolation, read_only: bool, block: bool) {
        let txn = self.engine_transaction(isolation);
        *self.shared.txn.lock() = Some(txn.clone());
        // That of the statement that begins it, as in PostgreSQL.
        if !self.begun_plainly {
            let start = if self.shared.stop.is_running() { self.shared.statement_start() } else { now() };
            self.shared.transaction_start.store(start, Ordering::Relaxed);
        }
        let deferred = self.deferred_unused.take().unwrap_or_default();
        self.open = Some(Open { txn, block, read_only, used: false, savepoints: Vec::new(), deferred });
    }

    /// Commits what is open, if anything, and waits until it is durable. Settings are part of it:
    /// those of a transaction that cannot be committed are taken back.
    pub(crate) async fn commit(&mut self) -> Result<(), SqlError> {
        self.begun_plainly = false;
        if self.open.as_ref().is_some_and(|open| !open.deferred.lock().is_empty()) {
            self.shared.stop.begin();
            let types = self.type_source();
            let checked = Box::pin(user_types::scope(types, self.check_deferred(false))).await;
            self.shared.stop.end();
            if let Err(error) = checked {
                // Takes the settings back as well.
                self.roll_back();
                return Err(error);
            }
        }
        if self.has_work_at_commit() {
            self.shared.stop.begin();
            let types = self.type_source();
            let done = Box::pin(user_types::scope(types, self.work_at_commit())).await;
            self.shared.stop.end();
            if let Err(error) = done {
                self.roll_back();
                return Err(error);
            }
        }
        if self.shared.has_pending() {
            return Box::pin(self.commit_telling()).await;
        }
        let committed = match self.open.take() {
            None => Ok(()),
            Some(open) => {
                *self.shared.txn.lock() = None;
                let durability = if self.hot().synchronous { Durability::Sync } else { Durability::Async };
                self.close_portals();
                match open.txn.commit(durability) {
                    Ok(ticket) => {
                        let Open { txn, deferred, .. } = open;
                        drop(txn);
                        self.keep_for_next(deferred);
                        if ticket.is_done() { Ok(()) } else { ticket.await }
                    }
                    Err(error) => Err(error),
                }
            }
        };
        self.ended(committed.is_ok());
        Ok(committed?)
    }

    /// The transaction has ended: what of the session goes by how.
    pub(crate) fn ended(&mut self, committed: bool) {
        self.portals.decide(committed);
        self.end_settings(committed);
    }

    /// The open transaction is no longer the session's.
    pub(crate) fn leave_transaction(&mut self, done: bool) {
        self.begun_plainly = false;
        *self.shared.txn.lock() = None;
        self.open = None;
        self.end_settings(done);
        self.close_portals();
        self.portals.decide(done);
    }

    /// Rolls back what is open, if anything.
    pub(crate) fn roll_back(&mut self) {
        self.drop_transaction();
        self.end_settings(false);
    }

    /// Settings when a transaction has ended: those that it has set stay, or not. Its advisory locks end.
    fn end_settings(&mut self, committed: bool) {
        self.closing.clear();
        if let Some(locks) = self.shared.advisory_used() {
            locks.back_to(self.shared.pid, 0);
        }
        if self.shared.signals.is_changed() {
            self.shared.variables.lock().end_transaction(committed);
        }
    }

    /// What no transaction has used is the next one's.
    fn keep_for_next(&mut self, mut deferred: Arc<Mutex<Deferred>>) {
        if Arc::get_mut(&mut deferred).is_some_and(|deferred| deferred.get_mut().is_unused()) {
            self.deferred_unused = Some(deferred);
        }
    }

    /// A statement begins: what it goes by.
    #[inline]
    pub(crate) fn look_at_settings(&mut self) {
        if !self.shared.signals.is_current(&self.hot) {
            self.hot = self.shared.variables.lock().hot();
        }
    }

    /// What each statement goes by, of the session's settings.
    #[inline]
    pub(crate) fn hot(&self) -> Hot {
        if self.shared.signals.is_current(&self.hot) { self.hot } else { self.shared.variables.lock().hot() }
    }

    /// As [`Session::roll_back`], without the settings.
    pub(crate) fn drop_transaction(&mut self) {
        if self.shared.has_pending() {
            self.shared.take_pending();
        }
        self.begun_plainly = false;
        *self.shared.txn.lock() = None;
        if let Some(open) = self.open.take()
            && let Err(error) = open.txn.rollback()
        {
            tracing::error!(%error, "rollback failed");
        }
        self.close_portals();
        self.portals.decide(false);
    }

    /// The transaction ends: its portals go, but for what is held.
    pub(crate) fn close_portals(&mut self) {
        self.portals.end_transaction();
    }

    /// All of them, held ones too.
    pub(crate) fn close_all_portals(&mut self) {
        self.portals.clear();
    }

    /// A statement failed: the transaction is rolled back, at once as far as nothing can bring
    /// it back (its newest savepoint, if it has any); a block waits for its end.
    pub(crate) fn statement_failed(&mut self) {
        self.shared.stop.end();
        let block = self.open.as_ref().is_some_and(|open| open.block);
        let newest = self.open.as_ref().map_or(0, |open| open.savepoints.len());
        if newest > 0 {
            if !self.failed
                && let Err(error) = self.go_back(newest - 1)
            {
                tracing::error!(%error, "going back to a savepoint failed");
                self.roll_back();
            }
        } else {
            self.roll_back();
        }
        self.failed |= block;
        self.end_statement();
    }

    /// No statement runs any more: while the transaction is idle it keeps no row versions for one.
    fn end_statement(&self) {
        let Some(open) = &self.open else { return };
        match self.portals.any_running() {
            true => open.txn.end_statement(),
            // A plan that was left lets go of its view on its own thread.
            false => open.txn.leave_statement(),
        }
    }

    /// Takes back everything since the savepoint at `at`, which stays; those after it go.
    ///
    /// Portals that were made before it stay, as PostgreSQL has it: what they read is not what is
    /// taken back.
    pub(crate) fn go_back(&mut self, at: usize) -> Result<(), SqlError> {
        // Plans may name tables that are no more.
        self.forget_local();
        let Some(open) = &mut self.open else { return Err(SqlError::internal("no transaction")) };
        open.savepoints.truncate(at + 1);
        let Some(to) = open.savepoints.last() else { return Err(SqlError::internal("no savepoint")) };
        let until = to.portals;
        if let Some(locks) = self.shared.advisory_used() {
            locks.back_to(self.shared.pid, to.advisory);
        }
        if self.shared.has_pending() {
            self.shared.pending.lock().back_to(to.notifications);
        }
        self.portals.retain(|portal| portal.number <= until);
        open.txn.rollback_to(to.savepoint)?;
        open.deferred.lock().back_to(to.constraints.clone());
        self.shared.variables.lock().back_to(to.settings);
        Ok(())
    }

    /// A statement succeeded; commits if it was a transaction of its own.
    pub(crate) async fn statement_done(&mut self, autocommit: bool) -> Result<(), SqlError> {
        self.shared.stop.end();
        if autocommit && !self.in_block() {
            self.commit().await?;
        }
        self.end_statement();
        Ok(())
    }

    /// The server tells of a failure that this layer did not see.
    pub fn error_occurred(&mut self) {
        self.statement_failed();
    }

    fn refuse_if_failed(&self, kind: &Kind) -> Result<(), SqlError> {
        if !self.failed {
            return Ok(());
        }
        match kind {
            Kind::Utility(statement)
                if matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. }) =>
            {
                Ok(())
            }
            Kind::Own(own) if own.is_allowed_when_failed() => Ok(()),
            _ => Err(aborted()),
        }
    }

    // ---- planning ----

    /// Parses or plans, which may take long: others go on meanwhile, and a cancel and `statement_timeout` end it. A bug in
    /// it is an error of the statement.
    pub(crate) fn planning<T>(&self, work: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let stop = &self.shared.stop;
        // Within a statement that runs (EXECUTE, another run) it is a part of that.
        let alone = !stop.is_running();
        if alone {
            stop.begin();
            if let Some(deadline) = self.deadline() {
                stop.set_deadline(deadline);
            }
        }
        let running = Arc::clone(stop) as Arc<dyn Stop>;
        let done = running::with(&running, || aside(|| panics::caught(work)));
        // A stop that came after the last question must not be lost.
        let stopped = if alone { stop.check_time() } else { Ok(()) };
        if alone {
            stop.end();
        }
        let done = done??;
        stopped?;
        Ok(done)
    }

    /// Parses a text as [`Session::planning`] plans.
    fn parsed<T: Send + 'static>(
        &self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        if text.len() <= PARSED_HERE_MAX {
            return self.planning(|| parse(text));
        }
        let (stop, text) = (Arc::clone(&self.shared.stop), text.to_owned());
        self.planning(move || plan_apart(&stop, move || parse(&text))?)
    }

    /// The statement of that text, planned now or before.
    pub(crate) fn prepare_text(&mut self, text: &str, declared: &[u32]) -> Result<Arc<Prepared>, SqlError> {
        if let Some(found) = self.kept(text, declared) {
            self.refuse_if_failed(&found.kind)?;
            return Ok(found);
        }
        let statement = self.parsed(text, statement::parse_one)?;
        self.plan(statement, text, declared, true)
    }

    /// Settings changed: plans that were made with them go.
    pub(crate) fn forget_local(&mut self) {
        self.local.clear();
        self.local_bytes = 0;
    }

    /// The number of the session's search path, and of the styles of dates and intervals.
    fn path_id(&self) -> PathId {
        let of = self.shared.path_of(self.hot().role);
        let mut known = self.path_known.lock();
        if known.0 != of {
            let styles = self.shared.signals.styles();
            *known = (of, self.db.statements.path_id(self.db.oid(), styles, &self.cx.search_path()));
        }
        known.1
    }

    fn own_catalog(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.txn.has_catalog_changes())
    }

    /// Version of the catalog that statements are planned with now: in REPEATABLE READ that of the
    /// snapshot.
    fn catalog_version(&self) -> u64 {
        match &self.open {
            Some(open) if open.txn.isolation() == Isolation::RepeatableRead => open.txn.catalog_version(),
            _ => self.db.engine.catalog_version(),
        }
    }

    /// A text is about to be read: if it is long, what it will take is counted, until the next one comes.
    ///
    /// # Errors
    /// `53200`
    fn count_text(&mut self, text: &str) -> Result<(), SqlError> {
        let bytes = if text.len() > PARSED_HERE_MAX { aside(|| weight::of_text(text)) } else { weight::of_text(text) };
        if bytes == 0 {
            self.text_memory = None;
            return Ok(());
        }
        let pool = &self.db.runtime.memory_pool;
        let memory = self.text_memory.get_or_insert_with(|| MemoryConsumer::new("text of a statement").register(pool));
        memory.try_resize(bytes).map_err(|error| errors::from_datafusion(error, ""))
    }

    fn kept(&self, text: &str, declared: &[u32]) -> Option<Arc<Prepared>> {
        if self.own_catalog() || self.is_run_again() {
            return None;
        }
        let version = self.catalog_version();
        if let Some(found) = self.db.statements.get(text, self.path_id(), declared, version) {
            return (!found.is_outgrown(&self.db.engine)).then_some(found);
        }
        if self.local.is_empty() || self.local_generation != self.shared.variables.lock().generation {
            return None;
        }
        let found = self.local.get(&(text.to_owned(), declared.to_vec()))?;
        let is_current = found.catalog_version == version && !found.is_outgrown(&self.db.engine);
        is_current.then(|| Arc::clone(found))
    }

    fn plan(
        &mut self,
        statement: Option<Parsed>,
        text: &str,
        declared: &[u32],
        keep: bool,
    ) -> Result<Arc<Prepared>, SqlError> {
        self.plan_by(statement, text, declared, keep, statement::prepare)
    }

    /// The same, planned in that way.
    fn plan_by(
        &mut self,
        statement: Option<Parsed>,
        text: &str,
        declared: &[u32],
        keep: bool,
        prepare: statement::Prepare,
    ) -> Result<Arc<Prepared>, SqlError> {
        if self.failed && !statement.as_ref().is_some_and(Parsed::is_allowed_when_failed) {
            return Err(aborted());
        }
        if let Some(Parsed::Own(Own::Declare(declare))) = &statement {
            return self.plan_cursor(declare, text, declared);
        }
        let planned = matches!(
            &statement,
            Some(Parsed::Known(known)) if is_optimizable(known) || matches!(known, Statement::Explain { .. })
        );
        if !planned {
            let mut prepared = Prepared::new(text, Kind::Empty, self.db.engine.catalog_version());
            match statement {
                Some(Parsed::Known(statement)) => {
                    prepared.fields = self.utility_fields(&statement)?;
                    prepared.kind = Kind::Utility(Box::new(statement));
                }
                Some(Parsed::Own(own)) => {
                    prepared.fields = match &own {
                        Own::Fetch(fetch) if !fetch.is_move => {
                            self.portals.get(&fetch.name).and_then(|portal| portal.prepared.fields.clone())
                        }
                        other => crate::command::own::fields(other),
                    };
                    prepared.kind = Kind::Own(Box::new(own));
                }
                None => {}
            }
            let is_frequent = matches!(
                &prepared.kind,
                Kind::Utility(statement) if matches!(
                    **statement,
                    Statement::StartTransaction { .. } | Statement::Commit { .. } | Statement::Rollback { .. }
                )
            );
            prepared.bytes = crate::plan::plans::bytes_of(&prepared);
            let prepared = Arc::new(prepared);
            // What frames each transaction is not parsed each time.
            if is_frequent && keep && text.len() <= FRAME_TEXT_MAX && !self.own_catalog() {
                self.db.statements.put(text, self.path_id(), declared, &prepared);
            }
            return Ok(prepared);
        }
        let statement = match statement {
            Some(Parsed::Known(statement)) => Some(statement),
            _ => None,
        };
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        let path = self.path_id();
        let txn = self.transaction().txn.clone();
        let mut tries = 0;
        let begun = std::time::Instant::now();
        let is_heavy = statement.as_ref().is_some_and(|statement| {
            let names = Names { state: &state, txn: &txn, cx: &cx };
            is_heavy(text, statement, &names)
        });
        let (version, mut prepared) = loop {
            // Behind that of others in REPEATABLE READ: then the plan is nobody else's.
            let version = txn.catalog_version();
            // Made with definitions that nobody else has, and that may be taken back: never current.
            let made_at = if txn.has_catalog_changes() { 0 } else { version };
            let planned = match is_heavy {
                false => self.planning(|| {
                    panics::planted("planning", text);
                    let names = Names { state: &state, txn: &txn, cx: &cx };
                    weighed(|| prepare(&names, statement.clone(), text, declared, made_at))
                }),
                true => {
                    let stop = Arc::clone(&self.shared.stop);
                    let (state, txn, cx) = (Arc::clone(&state), txn.clone(), Arc::clone(&cx));
                    let (statement, text, declared) = (statement.clone(), text.to_owned(), declared.to_vec());
                    self.planning(move || {
                        plan_apart(&stop, move || {
                            panics::planted("planning", &text);
                            let names = Names { state: &state, txn: &txn, cx: &cx };
                            weighed(|| prepare(&names, statement, &text, &declared, made_at))
                        })?
                    })
                }
            };
            match planned {
                Ok(prepared) => break (version, prepared),
                // It looks at definitions more than once; one may have changed in between.
                Err(error) if tries < PLANS_MAX && !ends(&error) && txn.catalog_version() != version => tries += 1,
                Err(error) => return Err(error),
            }
        };
        prepared.path = path;
        if !prepared.shareable {
            prepared.settings = Some(self.shared.variables.lock().planned_with);
        }
        if let Some(counts) = &prepared.counts {
            counts.planned(begun.elapsed());
        }
        let prepared = Arc::new(prepared);
        self.db.plans.add(&prepared);
        if keep && !txn.has_catalog_changes() && self.db.engine.catalog_version() == version {
            if prepared.shareable {
                self.db.statements.put(text, prepared.path, declared, &prepared);
            } else if !matches!(prepared.kind, Kind::Explain { .. }) {
                let generation = self.shared.variables.lock().generation;
                if self.local.len() >= LOCAL_MAX
                    || self.local_bytes.saturating_add(prepared.bytes) > LOCAL_BYTES_MAX
                    || self.local_generation != generation
                {
                    self.forget_local();
                    self.local_generation = generation;
                }
                if prepared.bytes <= LOCAL_BYTES_MAX / 2 {
                    self.local_bytes += prepared.bytes;
                    self.local.insert((text.to_owned(), declared.to_vec()), Arc::clone(&prepared));
                }
            }
        }
        Ok(prepared)
    }

    /// Whether a statement was planned with the definitions of this moment, with the settings if it has to do with
    /// them, and for tables of about the size that they have.
    fn is_current(&self, prepared: &Prepared) -> bool {
        !self.own_catalog()
            && prepared.catalog_version == self.catalog_version()
            && prepared.path == self.path_id()
            && prepared.settings.is_none_or(|made_with| made_with == self.shared.variables.lock().planned_with)
            && !prepared.is_outgrown(&self.db.engine)
    }

    /// The statement planned against the present catalog.
    fn current(&mut self, prepared: Arc<Prepared>, declared: &[u32]) -> Result<Arc<Prepared>, SqlError> {
        let planned = !matches!(prepared.kind, Kind::Utility(_) | Kind::Own(_) | Kind::Empty);
        if planned && (self.is_run_again() || !self.is_current(&prepared)) {
            let text = Arc::clone(&prepared.text);
            return self.prepare_text(&text, declared);
        }
        Ok(prepared)
    }

    fn definitions_now(&self) -> PlannedAt {
        let own = self.open.as_ref().map_or(0, |open| open.txn.catalog_changes());
        PlannedAt(self.catalog_version(), own)
    }

    /// The statement of a portal, planned anew after a change of definitions. Its values are
    /// there already, and its columns are known.
    fn planned_again(&mut self, prepared: Arc<Prepared>) -> Result<Arc<Prepared>, SqlError> {
        let oids = Arc::clone(&prepared.param_oids);
        let planned = !matches!(prepared.kind, Kind::Utility(_) | Kind::Own(_) | Kind::Empty);
        if planned && prepared.path != self.path_id() {
            return Err(SqlError::unsupported("a portal that was made with another search path and other definitions"));
        }
        let newer = self.current(Arc::clone(&prepared), &oids)?;
        same_result(&prepared, &newer)?;
        if newer.param_oids != oids {
            return Err(SqlError::unsupported("cached plan must not change parameter types"));
        }
        Ok(newer)
    }

    // ---- simple protocol ----

    /// Splits a simple query into statements; nothing runs yet. A text whose form is known
    /// is not parsed.
    ///
    /// # Errors
    /// `42601` with a position.
    pub fn split(&mut self, sql: &str) -> Result<Vec<SimpleStatement>, SqlError> {
        self.read_since = None;
        self.time_runs();
        self.count_text(sql)?;
        statement::refuse_markers(sql)?;
        let lifted = lexer::lift(sql).filter(|lifted| !lifted.literals.is_empty());
        if let Some(lifted) = lifted {
            let kept = self.kept(&lifted.text, &lifted.oids);
            if let Some(prepared) = kept.filter(|prepared| stands_for(prepared, &lifted.literals)) {
                return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: lifted.literals })]);
            }
            if let Some(prepared) = self.kept(sql, &[]) {
                return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: vec![] })]);
            }
            return Ok(vec![SimpleStatement::alone(Simple::Lifted {
                text: lifted.text,
                oids: lifted.oids,
                literals: lifted.literals,
                original: sql.to_owned(),
            })]);
        }
        if let Some(prepared) = self.kept(sql, &[]) {
            return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: vec![] })]);
        }
        if lexer::is_single(sql) {
            return Ok(vec![SimpleStatement::alone(Simple::Text(sql.to_owned()))]);
        }
        let text: Arc<str> = Arc::from(sql);
        let statements = self.parsed(sql, statement::parse)?;
        let in_string = statements.len() > 1;
        Ok(statements
            .into_iter()
            .map(|statement| {
                let simple = Simple::Parsed { statement: Box::new(statement), text: Arc::clone(&text) };
                SimpleStatement { simple, in_string }
            })
            .collect())
    }

    /// Runs one statement of a simple query. `last`: it is the last of its string, so what
    /// it and its predecessors did outside of BEGIN is committed.
    ///
    /// # Errors
    /// The statement's; the transaction has then failed and the rest must not run.
    pub async fn execute_simple(&mut self, simple: SimpleStatement, last: bool) -> Result<Execution, SqlError> {
        user_types::scope(self.type_source(), self.execute_one(simple, last)).await
    }

    async fn execute_one(&mut self, simple: SimpleStatement, last: bool) -> Result<Execution, SqlError> {
        self.in_string = simple.in_string;
        self.first_run();
        self.time_runs();
        let result = loop {
            match panics::caught_in(self.run_simple(&simple.simple, last)).await {
                Err(error) if self.runs_again(&error) => {}
                result => break result,
            }
        };
        self.first_run();
        self.read_since = None;
        if result.is_err() {
            self.statement_failed();
        }
        result
    }

    async fn run_simple(&mut self, simple: &Simple, last: bool) -> Result<Execution, SqlError> {
        let (prepared, literals): (_, &[Literal]) = match simple {
            Simple::Ready { prepared, literals } => (Arc::clone(prepared), literals),
            Simple::Lifted { text, oids, literals, original } => match self.prepare_text(text, oids) {
                Ok(prepared) if stands_for(&prepared, literals) => (prepared, literals),
                Err(error) if ends(&error) => return Err(error),
                _ => {
                    // Any failure is told in terms of the text that the user wrote.
                    let statement = self.parsed(original, statement::parse)?;
                    if statement.len() != 1 {
                        return Err(SqlError::syntax("cannot run several statements here"));
                    }
                    let prepared = self.plan(statement.into_iter().next(), original, &[], true)?;
                    (prepared, &[])
                }
            },
            Simple::Text(text) => (self.prepare_text(text, &[])?, &[]),
            Simple::Parsed { statement, text } => {
                // Planned this moment, and its text is that of the whole string.
                let prepared = self.plan(Some((**statement).clone()), text, &[], false)?;
                return self.run(&prepared, &[], &[], 0, None, last).await;
            }
        };
        let prepared = if self.is_run_again() && matches!(simple, Simple::Lifted { .. } | Simple::Text(_)) {
            prepared // planned this moment
        } else {
            self.current_lifted(prepared, literals)?
        };
        let values = self.values_of(&prepared, literals)?;
        self.run(&prepared, &values, &[], 0, None, last).await
    }

    /// Literals as the parameters that they stand for.
    fn values_of(&self, prepared: &Prepared, literals: &[Literal]) -> Result<Vec<ScalarValue>, SqlError> {
        let zone = self.zone_if_needed(prepared);
        let mut values = Vec::with_capacity(literals.len());
        for (literal, &oid) in literals.iter().zip(prepared.param_oids.iter()) {
            let value = decode_param(oid, Format::Text, Some(literal.text.as_bytes()), &zone);
            values.push(value.map_err(|error| match error.position {
                None => error.with_position(literal.position),
                Some(_) => error,
            })?);
        }
        if values.len() < prepared.param_oids.len() {
            return Err(SqlError::new("42P02", format!("there is no parameter ${}", values.len() + 1)));
        }
        Ok(values)
    }

    fn current_lifted(&mut self, prepared: Arc<Prepared>, literals: &[Literal]) -> Result<Arc<Prepared>, SqlError> {
        if !self.is_run_again() && self.is_current(&prepared) {
            return Ok(prepared);
        }
        let oids: Vec<u32> = literals.iter().map(|literal| literal.oid).collect();
        self.current(prepared, &oids)
    }

    fn zone_if_needed(&self, prepared: &Prepared) -> crate::pg::datetime::Zone {
        if prepared.param_oids.is_empty() { Default::default() } else { self.hot().zone }
    }

    // ---- extended protocol ----

    /// Parse: plans a statement and keeps it under `name` (empty: until the next).
    ///
    /// # Errors
    /// As the statement deserves; `42P05` for a name in use.
    pub async fn parse(&mut self, name: &str, sql: &str, param_types: &[u32]) -> Result<(), SqlError> {
        if !name.is_empty() && self.statements.contains_key(name) {
            self.statement_failed();
            return Err(SqlError::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        self.time_runs();
        let counted = self.count_text(sql);
        let types = self.type_source();
        let prepared = counted
            .and_then(|()| statement::refuse_markers(sql))
            .and_then(|()| user_types::with(&types, || self.prepare_text(sql, param_types)));
        match prepared.and_then(|prepared| self.keep(name, prepared, param_types.to_vec(), None)) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.statement_failed();
                Err(error)
            }
        }
    }

    /// Gives a statement its name in the session. `text`: of PREPARE, where it is one's.
    ///
    /// # Errors
    /// `53200`
    pub(crate) fn keep(
        &mut self,
        name: &str,
        prepared: Arc<Prepared>,
        declared: Vec<u32>,
        text: Option<&Arc<str>>,
    ) -> Result<(), SqlError> {
        let (kept, listed) = match name.is_empty() {
            true => (None, None),
            false => {
                let shared = prepared.keep(&self.db.kept)?;
                let kept = (self.kept.take(prepared.bytes)?, shared);
                let listed = self.shared.lists.statement(StatementRow {
                    name: name.to_owned(),
                    statement: Arc::clone(text.unwrap_or(&prepared.text)),
                    prepare_time: self.shared.statement_start(),
                    parameter_types: prepared.param_oids.iter().copied().collect(),
                    from_sql: text.is_some(),
                });
                (Some(kept), Some(listed))
            }
        };
        self.statements.insert(name.to_owned(), Named { prepared, declared, _kept: kept, _listed: listed });
        Ok(())
    }

    fn named(&self, name: &str) -> Result<&Named, SqlError> {
        self.statements.get(name).ok_or_else(|| {
            if name.is_empty() {
                SqlError::new("26000", "unnamed prepared statement does not exist")
            } else {
                SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"))
            }
        })
    }

    /// Describe of a statement: parameter types and result columns.
    ///
    /// # Errors
    /// `26000`.
    pub fn describe_statement(&mut self, name: &str) -> Result<(Vec<u32>, Option<Arc<[Field]>>), SqlError> {
        let named = self.named(name)?;
        let (prepared, declared) = (Arc::clone(&named.prepared), named.declared.clone());
        if self.failed && prepared.fields.is_some() {
            return Err(aborted());
        }
        let newer = self.current(Arc::clone(&prepared), &declared)?;
        same_result(&prepared, &newer)?;
        Ok((newer.param_oids.to_vec(), newer.fields.clone()))
    }

    /// Bind: a portal from a statement and values.
    ///
    /// # Errors
    /// `26000`, `08P01` for a wrong number of values, `22P02`… for bad ones, `25P02`.
    pub async fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        params: Vec<Option<Bytes>>,
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> Result<(), SqlError> {
        let types = self.type_source();
        let mut bound = user_types::with(&types, || self.make_portal(statement, params, param_formats, result_formats));
        if !portal.is_empty() {
            bound = bound.and_then(|mut bound| {
                bound.kept.push(self.kept.take(kept::bytes_of(&bound.values))?);
                bound._listed = Some(self.shared.lists.cursor(CursorRow {
                    name: portal.to_owned(),
                    statement: Arc::clone(&bound.prepared.text),
                    creation_time: self.shared.statement_start(),
                    ..CursorRow::default()
                }));
                Ok(bound)
            });
        }
        match bound {
            Ok(mut bound) if !self.portals.is_taken(portal) => {
                self.portals_made += 1;
                bound.number = self.portals_made;
                self.portals.insert(portal, bound);
                Ok(())
            }
            Ok(_) => {
                self.statement_failed();
                Err(SqlError::new("42P03", format!("cursor \"{portal}\" already exists")))
            }
            Err(error) => {
                self.statement_failed();
                Err(error)
            }
        }
    }

    fn make_portal(
        &mut self,
        statement: &str,
        params: Vec<Option<Bytes>>,
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> Result<Portal, SqlError> {
        let named = self.named(statement)?;
        let mut prepared = Arc::clone(&named.prepared);
        if !self.is_current(&prepared) {
            let declared = named.declared.clone();
            let newer = self.current(Arc::clone(&prepared), &declared)?;
            same_result(&prepared, &newer)?;
            if !statement.is_empty() {
                // The earlier plan gives its part back.
                newer.keep(&self.db.kept)?;
            }
            prepared = newer;
            if let Some(named) = self.statements.get_mut(statement) {
                named.prepared = Arc::clone(&prepared);
            }
        }
        let takes_others_columns = match &prepared.kind {
            Kind::Own(own) => matches!(**own, Own::Fetch(_)),
            Kind::Utility(statement) => matches!(**statement, Statement::Execute { .. }),
            _ => false,
        };
        if takes_others_columns {
            // Those of the cursor or statement that is there now, which need not be that of Parse.
            prepared = self.prepare_text(&Arc::clone(&prepared.text), &[])?;
        }
        self.refuse_if_failed(&prepared.kind)?;
        let wanted = prepared.param_oids.len();
        if params.len() != wanted {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {wanted}",
                    params.len()
                ),
            ));
        }
        if param_formats.len() > 1 && param_formats.len() != params.len() {
            return Err(SqlError::new(
                "08P01",
                format!("bind message has {} parameter formats but {} parameters", param_formats.len(), params.len()),
            ));
        }
        let zone = self.zone_if_needed(&prepared);
        let mut values = Vec::with_capacity(wanted);
        for (i, (value, &oid)) in params.iter().zip(prepared.param_oids.iter()).enumerate() {
            let format = match param_formats {
                [] => Format::Text,
                [one] => *one,
                many => many[i],
            };
            values.push(decode_param(oid, format, value.as_deref(), &zone)?);
        }
        let formats = result_formats.to_vec();
        let planned_at = self.definitions_now();
        Ok(Portal {
            prepared,
            values,
            formats,
            running: None,
            done: false,
            failed: false,
            number: 0,
            planned_at,
            kept: Vec::new(),
            _listed: None,
            hold: Hold::Not,
            place: Place::default(),
            scroll: None,
            is_scrollable: false,
            view: None,
            fetched: None,
        })
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal, SqlError> {
        self.portals.get_mut(name).ok_or_else(|| SqlError::new("34000", format!("portal \"{name}\" does not exist")))
    }

    /// Describe of a portal: result columns and the formats that Bind asked for.
    ///
    /// # Errors
    /// `34000`.
    pub fn describe_portal(&mut self, portal: &str) -> Result<(Option<Arc<[Field]>>, &[Format]), SqlError> {
        let portal = self.portal(portal)?;
        Ok((portal.prepared.fields.clone(), &portal.formats))
    }

    /// Execute: runs a portal, for at most `max_rows` rows (0: all).
    ///
    /// # Errors
    /// The statement's; the transaction has then failed.
    pub async fn execute(&mut self, portal: &str, max_rows: usize) -> Result<Execution, SqlError> {
        self.in_string = false;
        self.first_run();
        self.time_runs();
        let types = self.type_source();
        let result = user_types::scope(types, panics::caught_in(self.run_portal(portal, max_rows))).await;
        self.first_run();
        self.read_since = None;
        if result.is_err() {
            self.statement_failed();
        }
        result
    }

    /// A portal ended with an error: should it be left, it cannot go on.
    pub(crate) fn portal_failed(&mut self, name: &str) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.failed = true;
        }
    }

    async fn run_portal(&mut self, name: &str, max_rows: usize) -> Result<Execution, SqlError> {
        let portal = self.portal(name)?;
        let (prepared, failed) = (Arc::clone(&portal.prepared), portal.failed);
        self.refuse_if_failed(&prepared.kind)?;
        if failed {
            return Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run")));
        }
        let result = self.go_on(name, max_rows).await;
        if result.is_err() {
            self.portal_failed(name);
        }
        result
    }

    async fn go_on(&mut self, name: &str, max_rows: usize) -> Result<Execution, SqlError> {
        let portal = self.portal(name)?;
        let prepared = Arc::clone(&portal.prepared);
        if portal.scroll.is_some() {
            self.shared.stop.begin();
            let count =
                if max_rows == 0 { Count::All } else { Count::Rows(i64::try_from(max_rows).unwrap_or(i64::MAX)) };
            let fetch = Fetch { name: name.to_owned(), count, is_move: false };
            let taken = self.take_rows(name).unwrap_or_else(|| Err(SqlError::internal("a portal that is gone")))?;
            return Box::pin(self.fetch_kept(&fetch, taken, &[], false, "SELECT")).await;
        }
        if portal.fetched.is_some() {
            self.shared.stop.begin();
            return Box::pin(self.rest_of_fetch(name, max_rows)).await;
        }
        if let Some(active) = portal.running.take() {
            let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
            self.shared.stop.begin();
            return Box::pin(self.rows(*active, fields, max_rows, Some(name.to_owned()), false)).await;
        }
        if portal.done {
            if prepared.fields.is_none() {
                return Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run")));
            }
            let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
            return Ok(Execution::Rows { fields, first: None, rows: None, tag: Tag::Count("SELECT", 0) });
        }
        portal.done = true;
        let values = std::mem::take(&mut portal.values);
        let formats = std::mem::take(&mut portal.formats);
        let planned_at = portal.planned_at;
        let mut prepared = if planned_at == self.definitions_now() { prepared } else { self.planned_again(prepared)? };
        let result = loop {
            match self.run(&prepared, &values, &formats, max_rows, Some(name.to_owned()), false).await {
                Err(error) if self.runs_again(&error) => prepared = self.planned_again(prepared)?,
                result => break result,
            }
        };
        // It may be described again.
        if let Some(portal) = self.portals.get_mut(name) {
            portal.formats = formats;
        }
        result
    }

    /// Keeps the rest of a portal's rows for its next execution.
    pub(crate) fn suspend(&mut self, portal: &str, active: ActiveRows) {
        self.shared.stop.end();
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.running = Some(Box::new(active));
        }
    }

    pub(crate) fn has_portal(&self, name: &str) -> bool {
        self.portals.get(name).is_some()
    }

    /// What the session may keep.
    pub(crate) fn room(&self) -> Arc<Room> {
        Arc::clone(&self.kept)
    }

    /// A cursor that was declared and has given no row yet.
    pub(crate) fn add_cursor(&mut self, new: NewCursor<'_>) {
        self.portals_made += 1;
        let listed = self.shared.lists.cursor(CursorRow {
            name: new.name.to_owned(),
            statement: Arc::clone(new.text),
            is_holdable: new.hold,
            is_binary: new.formats.contains(&Format::Binary),
            is_scrollable: new.is_scrollable,
            creation_time: self.shared.statement_start(),
        });
        let portal = Portal {
            prepared: new.prepared,
            values: Vec::new(),
            formats: new.formats,
            running: new.active.map(Box::new),
            done: true,
            failed: false,
            number: self.portals_made,
            planned_at: self.definitions_now(),
            kept: Vec::new(),
            _listed: Some(listed),
            hold: if new.hold { Hold::Declared } else { Hold::Not },
            place: Place::default(),
            scroll: new.scroll,
            is_scrollable: new.is_scrollable,
            view: new.view,
            fetched: None,
        };
        self.portals.insert(new.name, portal);
    }

    /// The rows of a portal, for FETCH; `None` if there is none of that name. They go back by [`Self::put_rows`].
    pub(crate) fn take_rows(&mut self, name: &str) -> Option<Result<TakenRows, SqlError>> {
        let portal = self.portals.get_mut(name)?;
        if portal.failed || portal.prepared.fields.is_none() {
            return Some(Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run"))));
        }
        if !portal.done {
            return Some(Err(SqlError::unsupported("FETCH from a portal that was not executed yet is not supported")));
        }
        let prepared = Arc::clone(&portal.prepared);
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        let active = portal.running.take().map(|active| *active);
        let (formats, scroll, is_scrollable) = (portal.formats.clone(), portal.scroll.take(), portal.is_scrollable);
        let mut place = portal.place;
        place.ended |= active.is_none() && scroll.is_none();
        Some(Ok(TakenRows { fields, formats, active, place, scroll, is_scrollable, prepared }))
    }

    /// What is left of a cursor's rows, and where it stands now.
    pub(crate) fn put_rows(
        &mut self,
        name: &str,
        active: Option<ActiveRows>,
        scroll: Option<Box<Scroll>>,
        place: Place,
    ) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.running = active.map(Box::new);
            portal.scroll = scroll;
            portal.place = place;
        }
    }

    /// What a FETCH with a row limit has given and keeps, with its statement. It goes back by [`Self::put_fetched`].
    pub(crate) fn take_fetched(&mut self, portal: &str) -> Result<(Arc<Prepared>, Fetched), SqlError> {
        let portal = self.portal(portal)?;
        let fetched = portal.fetched.take().ok_or_else(|| SqlError::internal("a FETCH without its rows"))?;
        Ok((Arc::clone(&portal.prepared), fetched))
    }

    pub(crate) fn put_fetched(&mut self, portal: &str, fetched: Fetched) {
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.fetched = Some(fetched);
        }
    }

    /// The row that a cursor is on, of a table whose rows its rows are.
    ///
    /// # Errors
    /// `34000` for a name that is none, `24000` for another cursor or another place.
    pub(crate) async fn place_of(&mut self, name: &str, table: &Arc<Table>) -> Result<CurrentRow, SqlError> {
        let invalid = |what: String| Err(SqlError::new("24000", format!("cursor \"{name}\" {what}")));
        let portal = self.portals.named.get(name);
        let portal = portal.ok_or_else(|| SqlError::new("34000", format!("cursor \"{name}\" does not exist")))?;
        let Kind::Query(query) = &portal.prepared.kind else { return invalid("is not a SELECT query".to_owned()) };
        if portal.hold == Hold::Committed {
            return invalid("is held from a previous transaction".to_owned());
        }
        let shown = &table.name;
        let any_locked = query.keys.iter().any(|key| key.is_locked);
        let found = query.keys.iter().position(|key| key.table.id == table.id && key.is_locked == any_locked);
        let Some(number) = found else {
            return invalid(match any_locked {
                true => format!("does not have a FOR UPDATE/SHARE reference to table \"{shown}\""),
                false => format!("is not a simply updatable scan of table \"{shown}\""),
            });
        };
        let (before, known) = (portal.view.clone(), Arc::clone(&query.keys[number].table));
        let width = query.schema.fields().len();
        let kept = portal.scroll.as_ref().map(|scroll| {
            let row = portal.place.on().filter(|row| *row < scroll.rows());
            row.map(|row| scroll.read(row..row + 1, false))
        });
        let last = portal.running.as_ref().and_then(|active| active.key_of_last(number));
        let key = match kept {
            Some(Some(row)) => key_of_kept(row, width, number).await?,
            Some(None) => None,
            None => last,
        };
        let (Some(key), Some(before)) = (key, before) else {
            return invalid("is not positioned on a row".to_owned());
        };
        Ok(CurrentRow { key, before, table: known })
    }

    /// A portal has given so many rows more.
    pub(crate) fn advance(&mut self, name: &str, rows: u64, ended: bool) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.place.row += rows;
            portal.place.ended |= ended;
            if ended && portal.scroll.is_none() {
                // It is on no row any more.
                portal.view = None;
            }
        }
    }

    /// Plans the query of a cursor.
    pub(crate) fn plan_query_of_cursor(
        &mut self,
        query: Statement,
        text: &str,
        declared: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        self.plan_by(Some(Parsed::Known(query)), text, declared, false, statement::prepare_cursor)
    }

    /// Sync: ends what ran outside of BEGIN, by committing it.
    ///
    /// # Errors
    /// That of the commit.
    pub async fn sync(&mut self) -> Result<(), SqlError> {
        self.read_since = None;
        match &self.open {
            Some(open) if open.block => {
                // A portal that had not come to its end may have been closed, a statement planned.
                self.end_statement();
                Ok(())
            }
            // Without a transaction there may be settings to keep.
            _ => {
                self.close_portals();
                self.commit().await
            }
        }
    }

    /// Close of a statement; unknown names are no error.
    pub fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Close of a portal; unknown names are no error.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    // ---- running ----

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.hot().statement_timeout;
        if timeout.is_zero() {
            return None;
        }
        let run_since = || if self.is_run_again() { self.began } else { Instant::now() };
        Some(self.read_since.unwrap_or_else(run_since) + timeout)
    }

    /// From now on the time of the statement runs, unless it does already.
    fn time_runs(&mut self) {
        if self.read_since.is_none() && !self.hot().statement_timeout.is_zero() {
            self.read_since = Some(Instant::now());
        }
    }

    pub(crate) fn style(&self) -> TextStyle {
        TextStyle { zone: self.hot().zone, names: Some(Arc::clone(&self.cx)) }
    }

    /// Runs a statement, and counts how long it takes until its first rows are there.
    pub(crate) async fn run(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let begun = std::time::Instant::now();
        if !self.is_run_again() {
            self.began = Instant::from_std(begun);
        }
        let mut result = self.run_uncounted(prepared, values, formats, max_rows, portal, autocommit).await;
        if let Some(counts) = &prepared.counts {
            let time = begun.elapsed();
            counts.ran(time);
            match &mut result {
                Ok(Execution::Rows { rows: Some(rows), .. }) => rows.counted(self.tally(prepared), time),
                Ok(Execution::Rows { tag, .. } | Execution::Command { tag }) => self.count_call(prepared, time, tag),
                _ => {}
            }
        }
        result
    }

    /// A statement was run to its end.
    pub(crate) fn count_call(&self, prepared: &Prepared, time: Duration, tag: &Tag) {
        match prepared.tally.first(self.db.oid(), self.hot().role) {
            Some(tally) => tally.called(time, tag.rows()),
            None => self.tally(prepared).called(time, tag.rows()),
        }
    }

    /// The counters of the calls of a statement by the session's role.
    fn tally(&self, prepared: &Prepared) -> Arc<Tally> {
        let (database, role) = (self.db.oid(), self.hot().role);
        prepared.tally.of(database, role, || self.db.tallies.of(database, role, &prepared.text))
    }

    /// What others see of the session says from here on that this statement runs, and it can be stopped.
    fn statement_begins(&mut self, prepared: &Prepared) {
        if !self.is_run_again() {
            self.shared.stop.begin();
        }
        // For what does not return to whoever waits for it.
        if let Some(deadline) = self.deadline() {
            self.shared.stop.set_deadline(deadline);
        }
        self.shared.statement_start.store(now(), Ordering::Relaxed);
        {
            let mut query = self.shared.query.lock();
            if !Arc::ptr_eq(&query, &prepared.text) {
                *query = Arc::clone(&prepared.text);
            }
        }
        panics::planted("running", &prepared.text);
    }

    pub(crate) async fn run_uncounted(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        self.refuse_if_failed(&prepared.kind)?;
        self.statement_begins(prepared);
        self.check_allowed(prepared)?;
        if let Kind::Declare { inner, .. } = &prepared.kind {
            self.check_allowed(inner)?;
        }
        if self.db.engine.is_any_table_closed() {
            Box::pin(self.until_readable(prepared)).await?;
        }
        match &prepared.kind {
            Kind::Empty => Ok(Execution::Empty),
            // What runs often is in this future, which is moved about with all that is in it; what is larger or
            // rarer is boxed, and made only when it is its turn.
            Kind::Query(query) => {
                let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
                self.note_undo(false)?;
                if let Some(lock) = &query.direct_lock
                    && let Some(chunk) = Box::pin(self.lock_directly(lock, values, formats)).await?
                {
                    query.plan.counts.run(RunBy::Direct);
                    return self.whole(fields, chunk, autocommit).await;
                }
                if prepared.once.any_writes() {
                    let chunk = Box::pin(self.query_and_modify(prepared, query, values, formats)).await?;
                    return self.whole(fields, chunk, autocommit).await;
                }
                let beside = match prepared.locks.is_empty() && prepared.once.plans.is_empty() {
                    true => Beside::default(),
                    false => Box::pin(self.beside(Around::of(prepared), values, &prepared.text)).await?,
                };
                if let Some(select) = &query.direct
                    && !query.plan.leaves_out(values)
                    && let Some((chunk, view)) =
                        self.select_directly(select, values, formats, max_rows, &mut Touched::default())?
                {
                    query.plan.counts.run(RunBy::Direct);
                    if self.db.settings.planning.canary {
                        self.compare_with_plan((prepared, query, select), values, formats, view, &chunk)?;
                    } else {
                        drop(view);
                    }
                    return self.whole(fields, chunk, autocommit).await;
                }
                Box::pin(self.run_plan(prepared, query, beside, values, formats, max_rows, portal, autocommit)).await
            }
            Kind::Write(plan) => Box::pin(self.write(prepared, plan, values, formats, autocommit)).await,
            Kind::Call(call) => self.run_call(call, values, formats, autocommit).await,
            Kind::Explain { how, planned, inner } => {
                self.note_undo(how.analyze)?;
                let lines = Box::pin(self.explain(inner, values, *how, *planned)).await?;
                let chunk = text_rows(&lines);
                self.statement_done(autocommit).await?;
                let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
                Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag: Tag::Fixed("EXPLAIN") })
            }
            Kind::Declare { cursor, inner } => {
                Box::pin(self.declare(cursor, inner, values, &prepared.text)).await?;
                self.statement_done(autocommit).await?;
                Ok(Execution::Command { tag: Tag::Fixed("DECLARE CURSOR") })
            }
            Kind::Own(own) => {
                if let Own::Fetch(fetch) = &**own {
                    if let (1.., Some(portal), false) = (max_rows, portal, fetch.is_move) {
                        return Box::pin(self.fetch_in_parts(fetch, formats, max_rows, portal)).await;
                    }
                    return Box::pin(self.fetch(fetch, formats, autocommit)).await;
                }
                if let Own::Copy(copy) = &**own {
                    // It goes by definitions, and is at its end when the data is.
                    self.note_undo(true)?;
                    return Box::pin(self.copy(copy, autocommit)).await;
                }
                let execution = Box::pin(self.run_own(own)).await?;
                self.statement_done(autocommit).await?;
                Ok(execution)
            }
            Kind::Utility(statement) => {
                if crate::command::utility::may_run_again(statement) {
                    self.note_undo(true)?;
                }
                let execution = self.utility(statement, &prepared.text, formats, autocommit).await?;
                if !matches!(execution, Execution::Rows { rows: Some(_), .. }) {
                    self.statement_done(autocommit).await?;
                }
                Ok(execution)
            }
        }
    }

    /// Runs a query by its plan.
    #[allow(clippy::too_many_arguments)] // of `run_uncounted`, and what that has found
    async fn run_plan(
        &mut self,
        prepared: &Arc<Prepared>,
        query: &Query,
        beside: Beside,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        // A portal reads on while the transaction may write.
        let kind = if max_rows > 0 { StatementKind::Cursor } else { StatementKind::Read };
        let active = self.start_plan(prepared, query, beside, values, formats, kind).await?;
        self.rows(active, fields, max_rows, portal, autocommit).await
    }

    /// Begins to run a query by its plan, as of now.
    pub(crate) async fn start_plan(
        &mut self,
        prepared: &Arc<Prepared>,
        query: &Query,
        beside: Beside,
        values: &[ScalarValue],
        formats: &[Format],
        kind: StatementKind,
    ) -> Result<ActiveRows, SqlError> {
        let state = self.state()?;
        let deadline = self.deadline();
        let style = self.style();
        let stop = Arc::clone(&self.shared.stop);
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(kind)?;
        self.refuse_older_plan(prepared, &view)?;
        let failed = |error| errors::from_datafusion(error, &prepared.text);
        let instance = query.plan.instance(&state, values).await.map_err(failed)?;
        let once = beside.once();
        let keyed = (!query.keys.is_empty()).then(|| view.clone());
        let context = StatementContext { view, stop: Arc::clone(&stop), target: None, locked: beside.locked, once };
        let stream = instance.start(task_context(&state, Arc::new(context))).map_err(failed)?;
        let (once, prepared) = (beside.once, Arc::clone(prepared));
        let active = ActiveRows::new(stream, instance, once, prepared, &query.schema, formats, &style, stop, deadline)?;
        Ok(match keyed {
            Some(view) => active.keyed(view),
            None => active,
        })
    }

    /// The answer of a query whose rows are all there.
    async fn whole(&mut self, fields: Arc<[Field]>, chunk: RowChunk, autocommit: bool) -> Result<Execution, SqlError> {
        self.statement_done(autocommit).await?;
        let tag = Tag::Count("SELECT", chunk.len() as u64);
        Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag })
    }

    /// The first rows of a running query, and the rest as a stream.
    pub(crate) async fn rows(
        &mut self,
        mut active: ActiveRows,
        fields: Arc<[Field]>,
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let limit = if max_rows == 0 { usize::MAX } else { max_rows };
        let mut first = RowChunk { fields: fields.len() as i16, ..RowChunk::default() };
        let more = active.fill(&self.db, &mut first, limit).await?;
        let count = first.len() as u64;
        if !more {
            active.finish();
            self.statement_done(autocommit).await?;
            return Ok(Execution::Rows { fields, first: Some(first), rows: None, tag: Tag::Count("SELECT", count) });
        }
        let rows = RowStream {
            active: Some(active),
            portal,
            left: limit - first.len(),
            count,
            suspended: false,
            autocommit,
            verb: "SELECT",
            of_fetch: false,
            call: None,
        };
        let (rows, tag) = (Some(Box::new(rows)), Tag::Count("SELECT", count));
        Ok(Execution::Rows { fields, first: Some(first), rows, tag })
    }

    pub(crate) fn refuse_if_read_only(&mut self, what: &str) -> Result<(), SqlError> {
        if self.transaction().read_only {
            return Err(SqlError::new("25006", format!("cannot execute {what} in a read-only transaction")));
        }
        Ok(())
    }

    async fn write(
        &mut self,
        prepared: &Arc<Prepared>,
        plan: &WritePlan,
        values: &[ScalarValue],
        formats: &[Format],
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let modified = self.modify(prepared, plan, values, formats, None).await?;
        // What was deferred until here.
        self.statement_done(autocommit).await.map_err(|error| self.discreet(error, prepared.needs.written()))?;
        let tag = write_tag(plan.op, modified.rows);
        Ok(match &plan.returning {
            Some(returning) => {
                let fields = Arc::clone(&returning.fields);
                Execution::Rows { fields, first: Some(modified.returned), rows: None, tag }
            }
            None => Execution::Command { tag },
        })
    }
}

pub(crate) fn write_tag(op: Op, rows: u64) -> Tag {
    match op {
        Op::Insert => Tag::Insert(rows),
        Op::Update => Tag::Count("UPDATE", rows),
        Op::Delete => Tag::Count("DELETE", rows),
        Op::Merge => Tag::Count("MERGE", rows),
    }
}

/// A client that has prepared a statement knows the columns of its result: they must not be
/// others after a change of a definition.
pub(crate) fn same_result(before: &Prepared, now: &Prepared) -> Result<(), SqlError> {
    let alike = match (&before.fields, &now.fields) {
        (None, None) => true,
        (Some(before), Some(now)) => {
            before.len() == now.len()
                && before
                    .iter()
                    .zip(now.iter())
                    .all(|(a, b)| (&a.name, a.type_oid, a.typmod) == (&b.name, b.type_oid, b.typmod))
        }
        _ => false,
    };
    if alike {
        return Ok(());
    }
    let mut error = SqlError::unsupported("cached plan must not change result type");
    // By this asyncpg and JDBC's driver know that they only have to prepare the statement anew.
    error.routine = Some("RevalidateCachedQuery");
    Err(error)
}

/// Whether a statement is at its end by that: it was told to stop, or has taken too much, and would once more.
fn ends(error: &SqlError) -> bool {
    matches!(error.sqlstate.as_str(), "57014" | "57P01" | "53200" | "53400")
}

pub(crate) fn aborted() -> SqlError {
    SqlError::new("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

/// One-column rows of text.
pub(crate) fn text_rows(lines: &[String]) -> RowChunk {
    use bytes::BufMut;
    let mut chunk = RowChunk { fields: 1, ..RowChunk::default() };
    for line in lines {
        chunk.bytes.put_i32(line.len() as i32);
        chunk.bytes.put_slice(line.as_bytes());
        chunk.ends.push(chunk.bytes.len() as u32);
    }
    chunk
}

/// A statement that `plan` makes, with what it weighs.
fn weighed(plan: impl FnOnce() -> Result<Prepared, SqlError>) -> Result<Prepared, SqlError> {
    let (prepared, bytes) = memory::measured(plan);
    let mut prepared = prepared?;
    prepared.weighs(bytes);
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;

    use resurgam_engine::{Database, Options};

    use super::*;
    use crate::SqlSettings;

    /// A future is moved whole into the one that awaits it: what is in it costs every statement.
    #[test]
    fn futures_of_ordinary_statements_stay_small() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Database::open(folder.path().join("db"), Options::default()).expect("a database");
        let db = SqlDatabase::new(engine, SqlSettings::default());
        let mut session = db.session(SessionOptions::default()).expect("a session");
        let execute = size_of_val(&session.execute("", 0));
        let sync = size_of_val(&session.sync());
        let bind = size_of_val(&session.bind("", "", Vec::new(), &[], &[]));
        let parse = size_of_val(&session.parse("", "", &[]));
        let sizes = [("Execute", execute), ("Sync", sync), ("Bind", bind), ("Parse", parse)];
        println!("{sizes:?}");
        for (of, bytes) in sizes {
            assert!(bytes <= 4096, "the future of {of} has {bytes} bytes");
        }
    }
}
