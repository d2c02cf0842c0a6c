//! The SQL face of a server's databases: what sessions share.
//!
//! [`SqlDatabase`] is one database, as its sessions see it; [`Server`] is what all of them have together. What is derived
//! of definitions by their names is a database's own, so that none of it is ever found from another: roles and rights, types,
//! listeners, temporary schemas. Kept statements are of a path, and paths are numbered by database (`cache.rs`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use resurgam_engine::{Database, Options};

use crate::ddl::database::{Closed, drop_contents_left};
use crate::ddl::temporary::{Numbers, drop_left};
use crate::exec::context::{StopFlag, StopReason};
use crate::exec::memory::{self, ServerPool};
use crate::exec::spill::TempTotals;
use crate::pg::advisory::Advisory;
use crate::pg::context::{Encryption, HostRule};
use crate::pg::notify::{Hub, HubTotals};
use crate::pg::roles::{FIRST_DATABASE_NAME, Rights, no_database};
use crate::plan::kept::Room;
use crate::plan::plans::{PlanTotals, Plans};
use crate::plan::tally::Tallies;
use crate::session::cache::StatementCache;
use crate::session::exported::Exported;
use crate::session::settings::SqlSettings;
use crate::session::shared::SessionShared;
use crate::session::{Session, types};
use crate::wire::SqlError;

/// Who connects, and with what settings.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub user: String,
    pub database: String,
    pub application_name: String,
    /// Where the client is; `None` for an embedded session.
    pub client_addr: Option<SocketAddr>,
    /// Where the client has come to.
    pub server_addr: Option<SocketAddr>,
    /// How the connection is encrypted, if it is.
    pub encryption: Option<Encryption>,
    /// Number that a cancel request names; 0 lets the database choose one.
    pub process_id: i32,
    /// Settings of the start-up packet, in order.
    pub params: Vec<(String, String)>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            user: "postgres".to_owned(),
            database: FIRST_DATABASE_NAME.to_owned(),
            application_name: String::new(),
            client_addr: None,
            server_addr: None,
            encryption: None,
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

/// What the databases of a server have together.
pub struct Server {
    pub(crate) settings: SqlSettings,
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) statements: StatementCache,
    /// For what sessions keep.
    pub(crate) kept: Arc<Room>,
    pub(crate) plans: Plans,
    pub(crate) tallies: Tallies,
    /// Of all databases.
    pub(crate) sessions: Mutex<HashMap<i32, Weak<SessionShared>>>,
    next_pid: AtomicI32,
    pub(crate) started: i64,
    pub(crate) host: OnceLock<Arc<dyn Host>>,
    pub(crate) advisory: Arc<Advisory>,
    /// Snapshots that transactions show to others.
    pub(crate) exported: Exported,
    pub(crate) rights_loads: AtomicU64,
    /// Those that somebody uses, by oid.
    databases: Mutex<HashMap<u32, Weak<SqlDatabase>>>,
    /// Those that nobody gets into at this moment: they are being dropped, or renamed. Locked before `sessions`.
    pub(crate) closed: Closed,
    /// What was left of dropped databases has been looked for.
    looked_for_dropped: AtomicBool,
}

/// A database that speaks SQL; any of them stands for the server. Sessions come from [`SqlDatabase::session`].
pub struct SqlDatabase {
    /// With transactions that are in this database.
    pub(crate) engine: Database,
    server: Arc<Server>,
    pub(crate) notifications: Arc<Hub>,
    pub(crate) types: types::Committed,
    /// Numbers of the temporary schemas of sessions.
    pub(crate) temporary: Numbers,
    /// What was left of such schemas has been looked for.
    looked_for_left: AtomicBool,
    /// Roles and rights of a version of the catalog.
    pub(crate) rights: Mutex<Option<(u64, Arc<Rights>)>>,
}

impl std::ops::Deref for SqlDatabase {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl SqlDatabase {
    /// SQL over an open database.
    pub fn new(engine: Database, settings: SqlSettings) -> Arc<Self> {
        let runtime = {
            let folder = settings.temp_directory.as_deref().unwrap_or_else(|| engine.dir());
            memory::server(settings.query_memory_bytes, folder)
        };
        let notify_queue_bytes = settings.notify_queue_bytes;
        let server = Arc::new(Server {
            runtime,
            kept: Room::of_database(settings.query_memory_bytes),
            settings,
            statements: StatementCache::new(),
            plans: Plans::default(),
            tallies: Tallies::default(),
            sessions: Mutex::default(),
            next_pid: AtomicI32::new(1 << 20),
            started: crate::session::shared::now(),
            host: OnceLock::new(),
            advisory: Arc::default(),
            exported: Exported::default(),
            rights_loads: AtomicU64::new(0),
            databases: Mutex::default(),
            closed: Closed::default(),
            looked_for_dropped: AtomicBool::new(false),
        });
        let first = Arc::new(Self::of(server, engine, Hub::new(notify_queue_bytes)));
        first.databases.lock().insert(first.oid(), Arc::downgrade(&first));
        first
    }

    fn of(server: Arc<Server>, engine: Database, notifications: Hub) -> Self {
        Self {
            engine,
            server,
            notifications: Arc::new(notifications),
            types: types::Committed::default(),
            temporary: Numbers::default(),
            looked_for_left: AtomicBool::new(false),
            rights: Mutex::default(),
        }
    }

    /// The oid of the database.
    pub fn oid(&self) -> u32 {
        self.engine.database()
    }

    /// Another database of the server. Whether there is one is the caller's care.
    pub(crate) fn beside(&self, oid: u32) -> Arc<Self> {
        let mut databases = self.databases.lock();
        if let Some(known) = databases.get(&oid).and_then(Weak::upgrade) {
            return known;
        }
        databases.retain(|_, known| known.strong_count() > 0);
        let made = Self::of(Arc::clone(&self.server), self.engine.in_database(oid), self.notifications.beside());
        let made = Arc::new(made);
        databases.insert(oid, Arc::downgrade(&made));
        made
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

    /// Begins a session in the database that `options` name.
    ///
    /// # Errors
    /// `22023`, `42704`: a start-up setting is not acceptable; `3D000`: there is no such database, or no longer.
    pub fn session(self: &Arc<Self>, options: SessionOptions) -> Result<Session, SqlError> {
        let name = options.database.clone();
        let oid = self.rights(None)?.database_named(&name)?.oid;
        if oid == self.oid() { Arc::clone(self) } else { self.beside(oid) }.session_here(options)
    }

    /// Begins a session in this database, whose present name the options have.
    pub(crate) fn session_here(self: &Arc<Self>, options: SessionOptions) -> Result<Session, SqlError> {
        let name = options.database.clone();
        let pid = match options.process_id {
            0 => self.next_pid.fetch_add(1, Ordering::Relaxed),
            pid => pid,
        };
        if !self.looked_for_left.swap(true, Ordering::Relaxed) {
            drop_left(self);
        }
        if !self.looked_for_dropped.swap(true, Ordering::Relaxed) {
            drop_contents_left(self);
        }
        let session = Session::new(Arc::clone(self), options, pid)?;
        {
            let closed = self.closed.lock();
            if closed.contains(&self.oid()) {
                return Err(SqlError::new("57P03", format!("database \"{name}\" is being dropped or renamed")));
            }
            let mut sessions = self.sessions.lock();
            sessions.retain(|_, session| session.strong_count() > 0);
            sessions.insert(pid, Arc::downgrade(&session.shared));
        }
        // It may have been dropped, or renamed, before the session was among those that keep it from that.
        if self.rights(None)?.database_named(&name).is_ok_and(|found| found.oid == self.oid()) {
            return Ok(session);
        }
        Err(no_database(&name))
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
