//! The part of a session that functions, catalog tables and other sessions see.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_engine::{FIRST_DATABASE, Isolation, ObjectKind, Table, TableStatistics, Transaction};

use crate::command::alter_database;
use crate::exec::context::StopFlag;
use crate::parse::statement::recovery;
use crate::pg::advisory::Advisory;
use crate::pg::context::{
    Activity, CursorRow, Encryption, HostRule, PgContext, PlanRow, SequenceCall, Setting, Sizes, StatementCalls,
    StatementRow, StatementsInfo,
};
use crate::pg::datetime::Zone;
use crate::pg::notify::{Listener, Pending};
use crate::pg::roles::{PG_READ_ALL_SETTINGS, Rights};
use crate::pg::search_path::{self, SearchPath};
use crate::session::database::SqlDatabase;
use crate::session::listed::Lists;
use crate::session::settings::{Signals, Variables, is_for_superusers};
use crate::session::types;
use crate::wire::SqlError;

pub(crate) use crate::pg::datetime::now;

/// See the module's head.
pub(crate) struct SessionShared {
    pub database: Weak<SqlDatabase>,
    pub database_name: String,
    pub database_oid: u32,
    /// The name under which it logged in.
    pub user: String,
    /// The role of that name.
    pub login: u32,
    pub pid: i32,
    pub client_addr: Option<SocketAddr>,
    pub server_addr: Option<SocketAddr>,
    pub encryption: Option<Encryption>,
    pub started: i64,
    pub stop: Arc<StopFlag>,
    pub variables: Mutex<Variables>,
    /// What it has prepared, and its cursors.
    pub lists: Arc<Lists>,
    /// Of `variables`, without their lock.
    pub signals: Arc<Signals>,
    pub txn: Mutex<Option<Transaction>>,
    pub transaction_start: AtomicI64,
    pub statement_start: AtomicI64,
    /// Text of the statement that changes definitions, or did so last.
    pub query: Mutex<Arc<str>>,
    /// What functions have to tell the client, beside their results.
    pub notices: Mutex<Vec<SqlError>>,
    /// There may be some.
    pub has_notices: AtomicBool,
    /// The last value that this session got of each sequence, and of which sequence it was the last time.
    pub sequence_values: Mutex<(HashMap<u32, i64>, Option<u32>)>,
    /// What its open transaction will tell when it commits; there may be something.
    pub pending: Mutex<Pending>,
    pub has_pending: AtomicBool,
    /// What it listens to; there is something.
    pub listener: Mutex<Option<Arc<Listener>>>,
    pub listens: AtomicBool,
    /// It may have advisory locks.
    pub has_advisory: AtomicBool,
    /// The types of users that it saw last.
    pub types: Mutex<types::Seen>,
    pub path: Mutex<Path>,
    /// Its temporary schema, once it has one.
    pub temporary: Mutex<Option<String>>,
}

/// The search path of a session, read.
#[derive(Default)]
pub(crate) struct Path {
    /// What it was read of.
    of: PathOf,
    path: Option<Arc<SearchPath>>,
    /// In its place, as long as a statement runs.
    for_now: Option<Arc<SearchPath>>,
}

/// What a search path goes by: the settings, and for whom rights count the definitions, of which schemas' rights are a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathOf {
    pub generation: u64,
    /// The version of the catalog, and the transaction's own changes of it.
    pub definitions: Option<(u64, u64)>,
}

impl Drop for SessionShared {
    fn drop(&mut self) {
        self.release();
    }
}

impl std::fmt::Debug for SessionShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session {}", self.pid)
    }
}

impl PgContext for SessionShared {
    fn database(&self) -> String {
        self.database_name.clone()
    }
    fn database_oid(&self) -> u32 {
        self.database_oid
    }
    fn user(&self) -> String {
        self.user.clone()
    }
    fn backend_pid(&self) -> i32 {
        self.pid
    }
    fn tables(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        let txn = self.txn.lock().clone();
        match txn {
            Some(txn) => Ok(txn.tables()?),
            None => Ok(Vec::new()),
        }
    }
    fn views(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        let txn = self.txn.lock().clone();
        match txn {
            Some(txn) => Ok(txn.views()?),
            None => Ok(Vec::new()),
        }
    }
    fn policies(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        match self.txn.lock().clone() {
            Some(txn) => Ok(txn.objects(ObjectKind::POLICY)?),
            None => Ok(Vec::new()),
        }
    }
    fn sequences(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        match self.txn.lock().clone() {
            Some(txn) => Ok(txn.sequences()?),
            None => Ok(Vec::new()),
        }
    }
    fn schemas(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        match self.txn.lock().clone() {
            Some(txn) => Ok(txn.objects(ObjectKind::SCHEMA)?),
            None => Ok(Vec::new()),
        }
    }
    fn search_path(&self) -> Arc<SearchPath> {
        let of = self.path_of(self.role_now());
        {
            let known = self.path.lock();
            if let Some(path) = &known.for_now {
                return Arc::clone(path);
            }
            if let Some(path) = known.path.as_ref().filter(|_| known.of == of) {
                return Arc::clone(path);
            }
        }
        let rights = of.definitions.and_then(|_| self.rights_now().ok());
        // Read under the lock: what is put there is never older than its generation.
        let mut known = self.path.lock();
        let variables = self.variables.lock();
        let setting = variables.get("search_path");
        let mut path = SearchPath::of(setting.as_deref().unwrap_or(search_path::DEFAULT), &self.user);
        if let Some(rights) = rights {
            // What is not there stays: so most roles have the same path, and share plans.
            path = path.only(|schema| !rights.is_hidden(variables.role, schema));
        }
        if let Some(schema) = &*self.temporary.lock() {
            path = path.with_temporary(schema);
        }
        let path = Arc::new(path);
        if variables.generation == of.generation {
            *known = Path { of, path: Some(Arc::clone(&path)), for_now: None };
        }
        path
    }
    fn sequence_value(&self, sequence: u32, what: SequenceCall) -> Result<i64, SqlError> {
        self.sequence_call(sequence, what)
    }
    fn sequence_state(&self, sequence: u32) -> Result<resurgam_engine::SequenceState, SqlError> {
        self.sequence_place(sequence)
    }
    fn sequence_state_asked(&self, sequence: u32) -> Result<resurgam_engine::SequenceState, SqlError> {
        self.sequence_place_asked(sequence)
    }
    fn setting(&self, name: &str) -> Option<String> {
        self.show(name).ok()
    }
    fn may_read_setting(&self, name: &str) -> Result<(), SqlError> {
        if is_for_superusers(name) && !self.rights_now()?.has_rights_of(self.role_now(), PG_READ_ALL_SETTINGS) {
            let message = format!("must be superuser or have privileges of pg_read_all_settings to examine \"{name}\"");
            return Err(SqlError::new("42501", message));
        }
        Ok(())
    }
    fn set_setting(&self, name: &str, value: &str, is_local: bool) -> Result<String, SqlError> {
        if matches!(name.to_ascii_lowercase().as_str(), "role" | "session_authorization") {
            return Err(SqlError::unsupported(format!("set_config of \"{name}\" is not supported"))
                .with_hint("Use SET ROLE or SET SESSION AUTHORIZATION."));
        }
        self.variables.lock().set(name, Some(value), is_local)
    }
    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.variables.lock().all();
        settings.retain(|setting| self.may_read_setting(&setting.name).is_ok());
        if let Some(database) = self.database.upgrade() {
            for setting in settings.iter_mut().filter(|setting| setting.name == recovery::SETTING) {
                setting.value = alter_database::shown(database.engine()).to_owned();
            }
        }
        settings
    }
    fn zone(&self) -> Zone {
        self.variables.lock().zone
    }
    fn transaction_start(&self) -> i64 {
        self.transaction_start.load(Ordering::Relaxed)
    }
    fn statement_start(&self) -> i64 {
        self.statement_start.load(Ordering::Relaxed)
    }
    fn transaction_id(&self, assign: bool) -> Result<Option<u64>, SqlError> {
        let Some(txn) = self.txn.lock().clone() else { return Ok(None) };
        let id = if assign { Some(txn.assigned_id()?) } else { txn.id() };
        Ok(id.map(|id| id.0))
    }
    fn export_snapshot(&self) -> Result<String, SqlError> {
        let txn = self.txn.lock().clone();
        let (Some(txn), Some(database)) = (txn, self.database.upgrade()) else {
            return Err(SqlError::internal("a snapshot without a transaction"));
        };
        if txn.isolation() != Isolation::RepeatableRead {
            let error = SqlError::unsupported("pg_export_snapshot() in a READ COMMITTED transaction is not supported");
            return Err(error.with_hint("Begin the transaction with ISOLATION LEVEL REPEATABLE READ."));
        }
        let shared = txn.share_snapshot()?;
        Ok(database.exported.add(self.pid, database.oid(), shared))
    }
    fn sizes(&self) -> Result<Sizes, SqlError> {
        let Some(database) = self.database.upgrade() else { return Ok(Sizes::default()) };
        let engine = database.engine();
        let (all, others) = (engine.bytes_by_object()?, engine.databases_of_pages()?);
        // And the page that the file begins with.
        let mut by_database = HashMap::from([(FIRST_DATABASE, resurgam_engine::limits::PAGE_SIZE as u64)]);
        let rights = self.rights_now()?;
        for (object, bytes) in &all {
            // What is left of one that was dropped is said to be the first one's, too.
            let database = others.get(object).copied().filter(|oid| rights.database_by_oid(*oid).is_some());
            *by_database.entry(database.unwrap_or(FIRST_DATABASE)).or_default() += bytes;
        }
        Ok(Sizes { by_object: all.into_iter().map(|(object, bytes)| (object.0, bytes)).collect(), by_database })
    }
    fn row_estimate(&self, table: &Table) -> Option<u64> {
        // Without a view: in REPEATABLE READ its snapshot would be the transaction's.
        Some(self.database.upgrade()?.engine().row_count_estimate(table).unwrap_or(1000))
    }
    fn statistics(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let txn = self.txn.lock().clone()?;
        // What cannot be read is none, and was said.
        txn.statistics(table).ok().flatten()
    }
    fn newest_statistics(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let committed = self.database.upgrade()?.engine().statistics(table).ok().flatten();
        // Of those that are equally new the committed ones, which are there for others, too.
        [self.statistics(table), committed].into_iter().flatten().max_by_key(|known| known.last())
    }
    fn activity(&self) -> Vec<Activity> {
        let Some(database) = self.database.upgrade() else { return Vec::new() };
        let sessions: Vec<Arc<Self>> = database.sessions.lock().values().filter_map(Weak::upgrade).collect();
        let mut out: Vec<Activity> = sessions.iter().map(|session| session.describe()).collect();
        out.sort_by_key(|activity| activity.pid);
        out
    }
    fn engine(&self) -> Option<resurgam_engine::Database> {
        self.database.upgrade().map(|database| database.engine().clone())
    }
    fn plans(&self) -> Vec<PlanRow> {
        self.database.upgrade().map(|database| database.plans.rows()).unwrap_or_default()
    }
    fn statement_calls(&self) -> Vec<StatementCalls> {
        self.database.upgrade().map(|database| database.tallies.rows()).unwrap_or_default()
    }
    fn statements_info(&self) -> StatementsInfo {
        self.database.upgrade().map(|database| database.tallies.info(database.started)).unwrap_or_default()
    }
    fn reset_statements(&self, role: u32, database: u32, id: i64) {
        if let Some(server) = self.database.upgrade() {
            server.tallies.reset(role, database, id, now());
        }
    }
    fn temp_files(&self) -> (u64, u64) {
        let totals = self.database.upgrade().map(|database| database.temp_totals()).unwrap_or_default();
        (totals.files, totals.bytes)
    }
    fn server_addr(&self) -> Option<(String, u16)> {
        self.server_addr.map(|addr| (addr.ip().to_canonical().to_string(), addr.port()))
    }
    fn server_start(&self) -> i64 {
        self.database.upgrade().map_or(0, |database| database.started)
    }
    fn signal_backend(&self, pid: i32, terminate: bool) -> Result<bool, SqlError> {
        let Some(database) = self.database.upgrade() else { return Ok(false) };
        let found = database.sessions.lock().get(&pid).and_then(Weak::upgrade);
        let Some(found) = found else { return Ok(false) };
        let role = found.variables.lock().session_role;
        drop(found);
        self.may_signal(role, terminate)?;
        Ok(database.signal(pid, terminate))
    }
    fn is_backend(&self, pid: i32) -> bool {
        let Some(database) = self.database.upgrade() else { return false };
        let sessions = database.sessions.lock();
        sessions.get(&pid).is_some_and(|session| session.strong_count() > 0)
    }
    fn notice(&self, notice: SqlError) {
        self.notices.lock().push(notice);
        self.has_notices.store(true, Ordering::Release);
    }
    fn reload_conf(&self) -> bool {
        self.database.upgrade().is_some_and(|database| database.host.get().is_some_and(|host| host.reload()))
    }
    fn prepared_statements(&self) -> Vec<StatementRow> {
        self.lists.statements()
    }
    fn cursors(&self) -> Vec<CursorRow> {
        self.lists.cursors()
    }
    fn host_rules(&self) -> Result<Vec<HostRule>, SqlError> {
        let database = self.database.upgrade();
        database.as_ref().and_then(|database| database.host.get()).map_or(Ok(Vec::new()), |host| host.host_rules())
    }
    fn role(&self) -> u32 {
        self.role_now()
    }
    fn session_role(&self) -> u32 {
        self.variables.lock().session_role
    }
    fn rights(&self) -> Result<Arc<Rights>, SqlError> {
        self.rights_now()
    }
    fn is_superuser(&self) -> bool {
        let role = self.role_now();
        self.rights_now().is_ok_and(|rights| rights.is_superuser(role))
    }
    fn sees_sessions_of(&self, role: u32) -> bool {
        self.may_see_sessions_of(role)
    }
    fn advisory(&self) -> Option<Arc<Advisory>> {
        self.has_advisory.store(true, Ordering::Relaxed);
        self.database.upgrade().map(|database| Arc::clone(&database.advisory))
    }
    fn notify(&self, channel: &str, payload: &str) -> Result<(), SqlError> {
        let bytes_max = self.database.upgrade().map_or(0, |database| database.notifications.bytes_max());
        self.pending(|pending| pending.tell(channel, payload, bytes_max))
    }
    fn listening_channels(&self) -> Vec<String> {
        self.listener.lock().as_ref().map(|listener| listener.channels()).unwrap_or_default()
    }
    fn notification_queue_usage(&self) -> f64 {
        self.database.upgrade().map_or(0.0, |database| database.notifications.usage())
    }
    fn lock_timeout(&self) -> Duration {
        self.variables.lock().lock_timeout
    }
    fn check_cancelled(&self) -> Result<(), SqlError> {
        self.stop.check()
    }
}

impl SessionShared {
    /// It has a temporary schema from here on, which its search path begins with.
    pub(crate) fn has_temporary(&self, schema: &str) {
        *self.temporary.lock() = Some(schema.to_owned());
        self.variables.lock().path_changed();
    }

    /// Another search path for as long as a statement runs; `None`: its own again.
    pub(crate) fn set_path_for_now(&self, path: Option<Arc<SearchPath>>) {
        self.path.lock().for_now = path;
    }

    /// The session is gone, although a thread may have this still: one that plans for a statement that was stopped.
    pub(crate) fn gone(&self) {
        self.release();
        if let Some(database) = self.database.upgrade() {
            let mut sessions = database.sessions.lock();
            if sessions.get(&self.pid).is_some_and(|known| std::ptr::eq(known.as_ptr(), self)) {
                sessions.remove(&self.pid);
            }
        }
    }
    fn release(&self) {
        if let Some(locks) = self.advisory_used() {
            self.has_advisory.store(false, Ordering::Relaxed);
            locks.back_to(self.pid, 0);
            locks.release_session(self.pid);
        }
        let listener = self.listener.lock().take();
        if let (Some(listener), Some(database)) = (listener, self.database.upgrade()) {
            database.notifications.leave(&listener);
        }
    }
    /// The advisory locks, if the session may have some.
    pub(crate) fn advisory_used(&self) -> Option<Arc<Advisory>> {
        if !self.has_advisory.load(Ordering::Relaxed) {
            return None;
        }
        self.database.upgrade().map(|database| Arc::clone(&database.advisory))
    }
    /// What SHOW prints of a parameter.
    ///
    /// # Errors
    /// `42704`: there is none of that name.
    pub(crate) fn show(&self, name: &str) -> Result<String, SqlError> {
        self.may_read_setting(name)?;
        if name.eq_ignore_ascii_case(recovery::SETTING)
            && let Some(database) = self.database.upgrade()
        {
            return Ok(alter_database::shown(database.engine()).to_owned());
        }
        self.variables.lock().show(name)
    }
    fn describe(&self) -> Activity {
        let query = Arc::clone(&self.query.lock());
        let role = self.variables.lock().session_role;
        let time = |value: i64| (value != 0).then_some(value);
        let txn = self.txn.lock().clone();
        let (is_running, in_transaction) = (self.stop.is_running(), txn.is_some());
        let state = match (is_running, in_transaction) {
            (true, _) => "active",
            (false, true) => "idle in transaction",
            (false, false) => "idle",
        };
        Activity {
            pid: self.pid,
            database_oid: self.database_oid,
            database: self.database_name.clone(),
            user: self.session_name(),
            role,
            application_name: self.variables.lock().get("application_name").unwrap_or_default(),
            client_addr: self.client_addr.map(|addr| addr.ip().to_string()),
            client_port: self.client_addr.map(|addr| i32::from(addr.port())),
            encryption: self.encryption.clone(),
            backend_start: time(self.started),
            xact_start: if in_transaction || is_running { time(self.transaction_start()) } else { None },
            query_start: time(self.statement_start()),
            state_change: time(self.statement_start()),
            state: state.to_owned(),
            query: query.to_string(),
            waits_for_page: txn.as_ref().is_some_and(Transaction::waits_for_page),
            snapshot: txn.as_ref().and_then(Transaction::snapshot_if_free).map(|ts| ts.0),
            backend_xid: txn.as_ref().and_then(Transaction::id_if_free).map(|id| id.0),
        }
    }
}
