//! The SQL face of a database: what sessions share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use resurgam_engine::{Database, Options};

use crate::ddl::temporary::{Numbers, drop_left};
use crate::exec::context::{StopFlag, StopReason};
use crate::exec::memory::{self, ServerPool};
use crate::exec::spill::TempTotals;
use crate::pg::advisory::Advisory;
use crate::pg::context::HostRule;
use crate::pg::notify::{Hub, HubTotals};
use crate::pg::roles::Rights;
use crate::plan::plans::{PlanTotals, Plans};
use crate::session::Session;
use crate::session::cache::StatementCache;
use crate::session::kept::Room;
use crate::session::settings::SqlSettings;
use crate::session::shared::SessionShared;
use crate::session::types;
use crate::wire::SqlError;

/// Who connects, and with what settings.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub user: String,
    pub database: String,
    pub application_name: String,
    /// Where the client is; `None` for an embedded session.
    pub client_addr: Option<SocketAddr>,
    /// Number that a cancel request names; 0 lets the database choose one.
    pub process_id: i32,
    /// Settings of the start-up packet, in order.
    pub params: Vec<(String, String)>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            application_name: String::new(),
            client_addr: None,
            process_id: 0,
            params: Vec::new(),
        }
    }
}

/// A part of the memory of queries that somebody has; dropping it gives it back.
#[derive(Debug)]
pub struct Reserved {
    _memory: MemoryReservation,
}

/// The server around the database, as statements see it.
pub trait Host: Send + Sync {
    /// Reads its files again, in the background; whether it will.
    fn reload(&self) -> bool;
    /// What is in the file with the host rules.
    ///
    /// # Errors
    /// It cannot be read.
    fn host_rules(&self) -> Result<Vec<HostRule>, SqlError>;
}

/// A database that speaks SQL. Sessions come from [`SqlDatabase::session`].
pub struct SqlDatabase {
    pub(crate) engine: Database,
    pub(crate) settings: SqlSettings,
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) statements: StatementCache,
    /// For what sessions keep.
    pub(crate) kept: Arc<Room>,
    pub(crate) plans: Plans,
    pub(crate) sessions: Mutex<HashMap<i32, Weak<SessionShared>>>,
    next_pid: AtomicI32,
    pub(crate) started: i64,
    pub(crate) host: OnceLock<Arc<dyn Host>>,
    pub(crate) advisory: Arc<Advisory>,
    pub(crate) notifications: Arc<Hub>,
    pub(crate) types: types::Committed,
    /// Numbers of the temporary schemas of sessions.
    pub(crate) temporary: Numbers,
    /// What was left of such schemas has been looked for.
    looked_for_left: AtomicBool,
    /// Roles and rights of a version of the catalog.
    pub(crate) rights: Mutex<Option<(u64, Arc<Rights>)>>,
    pub(crate) rights_loads: AtomicU64,
}

impl SqlDatabase {
    /// SQL over an open database.
    pub fn new(engine: Database, settings: SqlSettings) -> Arc<Self> {
        let runtime = {
            let folder = settings.temp_directory.as_deref().unwrap_or_else(|| engine.dir());
            memory::server(settings.query_memory_bytes, folder)
        };
        let notify_queue_bytes = settings.notify_queue_bytes;
        Arc::new(Self {
            engine,
            runtime,
            kept: Room::of_database(settings.query_memory_bytes),
            settings,
            statements: StatementCache::new(),
            plans: Plans::default(),
            sessions: Mutex::default(),
            next_pid: AtomicI32::new(1 << 20),
            started: crate::session::shared::now(),
            host: OnceLock::new(),
            advisory: Arc::default(),
            notifications: Arc::new(Hub::new(notify_queue_bytes)),
            types: types::Committed::default(),
            temporary: Numbers::default(),
            looked_for_left: AtomicBool::new(false),
            rights: Mutex::default(),
            rights_loads: AtomicU64::new(0),
        })
    }

    /// Opens (or creates) a database folder with default settings.
    ///
    /// # Errors
    /// Whatever keeps the engine from opening it.
    pub fn open(dir: impl AsRef<std::path::Path>) -> Result<Arc<Self>, SqlError> {
        Ok(Self::new(Database::open(dir, Options::default())?, SqlSettings::default()))
    }

    /// The engine below.
    pub fn engine(&self) -> &Database {
        &self.engine
    }

    /// How statements were planned and run since the start.
    pub fn plan_totals(&self) -> PlanTotals {
        let (reserved_bytes, reserved_bytes_max) = self.query_memory();
        let totals = PlanTotals { reserved_bytes, reserved_bytes_max, temp: self.temp_totals(), ..self.plans.totals() };
        self.statements.totals(totals)
    }

    /// What LISTEN and NOTIFY have done since the start.
    pub fn notifications(&self) -> HubTotals {
        self.notifications.totals()
    }

    /// What statements have written to temporary files since the start.
    pub fn temp_totals(&self) -> TempTotals {
        ServerPool::of(&self.runtime).map(|pool| pool.folder.totals()).unwrap_or_default()
    }

    /// What statements have reserved of the memory of queries, and may, in bytes.
    pub fn query_memory(&self) -> (u64, u64) {
        let limit = match self.runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            _ => u64::MAX,
        };
        (self.runtime.memory_pool.reserved() as u64, limit)
    }

    /// Takes a part of the memory of queries, for what no statement counts.
    ///
    /// # Errors
    /// `53200`
    pub fn reserve(&self, what: &str, bytes: usize) -> Result<Reserved, SqlError> {
        let memory = MemoryConsumer::new(what).register(&self.runtime.memory_pool);
        memory.try_grow(bytes).map_err(|error| crate::pg::errors::from_datafusion(error, ""))?;
        Ok(Reserved { _memory: memory })
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `22023`, `42704`: a start-up setting is not acceptable.
    pub fn session(self: &Arc<Self>, options: SessionOptions) -> Result<Session, SqlError> {
        let pid = match options.process_id {
            0 => self.next_pid.fetch_add(1, Ordering::Relaxed),
            pid => pid,
        };
        if !self.looked_for_left.swap(true, Ordering::Relaxed) {
            drop_left(self);
        }
        let session = Session::new(Arc::clone(self), options, pid)?;
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| session.strong_count() > 0);
        sessions.insert(pid, Arc::downgrade(&session.shared));
        Ok(session)
    }

    /// The text of the statement that a session runs, or ran last.
    pub fn statement_of(&self, pid: i32) -> Option<Arc<str>> {
        let session = self.sessions.lock().get(&pid).and_then(Weak::upgrade)?;
        let text = Arc::clone(&session.query.lock());
        Some(text)
    }

    /// Stops the running statement of a session, or the session; whether there is such a session.
    pub(crate) fn signal(&self, pid: i32, terminate: bool) -> bool {
        let found = self.sessions.lock().get(&pid).and_then(Weak::upgrade);
        match found {
            Some(session) if terminate => session.stop.terminate(),
            Some(session) => session.stop.stop(StopReason::Cancel),
            None => return false,
        }
        true
    }

    /// Makes known who serves the database, once.
    pub fn served_by(&self, host: Arc<dyn Host>) {
        let _ = self.host.set(host);
    }
}

/// Stops a session's running statement from anywhere.
#[derive(Clone)]
pub struct CancelHandle(pub(crate) Arc<StopFlag>);

impl CancelHandle {
    /// The running statement, if any, ends with `57014`.
    pub fn cancel(&self) {
        self.0.stop(StopReason::Cancel);
    }

    /// The session ends: its running statement, if any, and each later one with `57P01`.
    pub fn terminate(&self) {
        self.0.terminate();
    }

    /// Has `tell` called, once, when somebody asks for the session's end (`pg_terminate_backend`).
    pub fn on_terminate(&self, tell: impl FnOnce() + Send + 'static) {
        self.0.on_terminate(Box::new(tell));
    }
}
