//! A session: its state, and how statements run on it.
//!
//! | file | concept |
//! |---|---|
//! | `mod.rs` | the state of a session |
//! | `client.rs` | what the server asks of it beside statements |
//! | `simple.rs`, `extended.rs` | the two forms of the protocol |
//! | `prepare.rs` | from a text to a plan that is current |
//! | `direct.rs`, `direct_canary.rs` | queries about few rows, without a plan; their answers compared with a plan's |
//! | `run.rs` | running a prepared statement by its kind |
//! | `again.rs` | running it again when definitions have changed, or rows |
//! | `at_once.rs` | answers of one row, without a future |
//! | `transaction.rs` | the open transaction, and how it ends |
//! | `portals.rs`, `scroll.rs` | portals and cursors; rows that are kept to go back |
//! | `stream.rs`, `execution.rs` | rows on their way to the client; what an execution comes to |
//! | `call.rs` | calls of functions that are run as statements |
//! | `settings.rs` | settings, their bounds and who may set them |
//! | `shared.rs`, `listed.rs` | what other sessions and functions see of a session |
//! | `sort_files.rs` | temporary files of the engine's sorts |
//! | `sequences.rs`, `types.rs` | what its functions ask of sequences and types |
//! | `cache.rs` | plans that sessions share |
//! | `database.rs` | a database and the server, with what sessions share |
//! | `embedded.rs` | a session without a server |
//!
//! Results of an autocommitted statement are handed out only after its commit is durable (or at once with
//! `synchronous_commit = off`).

pub(crate) mod again;
mod at_once;
pub(crate) mod cache;
mod call;
mod client;
pub(crate) mod database;
mod direct;
mod direct_canary;
pub(crate) mod embedded;
pub(crate) mod execution;
pub(crate) mod exported;
mod extended;
pub(crate) mod listed;
pub(crate) mod portals;
pub(crate) mod prepare;
pub(crate) mod run;
pub(crate) mod scroll;
mod sequences;
pub(crate) mod settings;
pub(crate) mod shared;
mod simple;
mod sort_files;
pub(crate) mod stream;
pub(crate) mod transaction;
pub(crate) mod types;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::session_state::SessionState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_engine::{RowBuf, SortFiles};
use tokio::time::Instant;

use crate::ddl::database::Closing;
use crate::ddl::temporary::Temporary;
use crate::dml::foreign::Deferred;
use crate::exec::context::StopFlag;
use crate::pg::context::PgContext;
use crate::plan::kept::Room;
use crate::plan::statement::{PathId, Prepared};
use crate::session::again::Again;
use crate::session::database::{SessionOptions, SqlDatabase};
use crate::session::extended::Named;
use crate::session::portals::Portals;
use crate::session::settings::{Hot, Variables};
use crate::session::shared::{PathOf, SessionShared, now};
use crate::session::sort_files::SessionFiles;
use crate::session::transaction::Open;
use crate::wire::{RowChunk, SqlError};

pub use crate::session::simple::SimpleStatement;

/// One connection's state; see the module's head.
pub struct Session {
    pub(crate) db: Arc<SqlDatabase>,
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) cx: Arc<dyn PgContext>,
    /// For its transactions.
    pub(crate) sort_files: Arc<dyn SortFiles>,
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
    /// A transaction of it that was rolled back had met commits which may not be seen yet: what comes next has to see them.
    pub(crate) met: bool,
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
            server_addr: options.server_addr,
            encryption: options.encryption,
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
        let sort_files = Arc::new(SessionFiles(Arc::downgrade(&shared)));
        Ok(Self {
            db,
            shared,
            cx,
            sort_files,
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
            met: false,
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
