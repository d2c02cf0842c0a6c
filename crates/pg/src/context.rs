//! What functions and catalog tables need to know about the session they run in.
//!
//! The session implements [`PgContext`]; functions and catalog tables hold it in
//! an `Arc` and ask at execution time, so a kept plan never answers with stale
//! facts as long as it is kept for that one session.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{FIRST_DATABASE, SequenceState, Table, TableStatistics};

use crate::advisory::Advisory;
use crate::datetime::Zone;
use crate::roles::{FIRST_ROLE, Rights};
use crate::search_path::{self, SearchPath};
use crate::wire::SqlError;

/// One row of `pg_settings`.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// For instance `ms`, `8kB`.
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub description: &'static str,
    /// `user`, `superuser`, `sighup`, `postmaster`, `internal`.
    pub context: &'static str,
    /// `bool`, `integer`, `real`, `string`, `enum`.
    pub kind: &'static str,
    pub default: String,
}

/// How a connection is encrypted, as OpenSSL names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    pub version: String,
    pub cipher: String,
    /// Of the cipher's key.
    pub bits: i32,
}

/// One row of `pg_stat_activity`. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub pid: i32,
    pub database_oid: u32,
    pub database: String,
    pub user: String,
    /// The role of the session, who logged in or SET SESSION AUTHORIZATION.
    pub role: u32,
    pub application_name: String,
    pub client_addr: Option<String>,
    pub client_port: Option<i32>,
    pub encryption: Option<Encryption>,
    pub backend_start: Option<i64>,
    pub xact_start: Option<i64>,
    pub query_start: Option<i64>,
    pub state_change: Option<i64>,
    /// `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: String,
    pub query: String,
    /// It waits for a page.
    pub waits_for_page: bool,
    pub backend_xid: Option<u64>,
    /// The newest commit that the snapshot that it holds sees.
    pub snapshot: Option<u64>,
}

/// One row of `pg_hba_file_rules`: a line of the file with the host rules, or what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct HostRule {
    pub line_number: i32,
    /// `local`, `host`, `hostssl`…
    pub kind: Option<String>,
    pub database: Option<Vec<String>>,
    pub user_name: Option<Vec<String>>,
    pub address: Option<String>,
    pub netmask: Option<String>,
    pub auth_method: Option<String>,
    pub options: Option<Vec<String>>,
    pub error: Option<String>,
}

/// One row of `pg_prepared_statements`. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, Default)]
pub struct StatementRow {
    pub name: String,
    pub statement: Arc<str>,
    pub prepare_time: i64,
    pub parameter_types: Arc<[u32]>,
    /// By PREPARE, not by the protocol.
    pub from_sql: bool,
}

/// One row of `pg_cursors`. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, Default)]
pub struct CursorRow {
    pub name: String,
    pub statement: Arc<str>,
    pub is_holdable: bool,
    pub is_binary: bool,
    pub is_scrollable: bool,
    pub creation_time: i64,
}

/// What calls of one statement by one role in one database have cost. Times are milliseconds.
#[derive(Clone, Debug, Default)]
pub struct StatementCalls {
    pub role: u32,
    pub database: u32,
    /// A number of its text.
    pub id: i64,
    pub query: String,
    pub calls: u64,
    /// What these gave or wrote.
    pub rows: u64,
    pub total_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub mean_ms: f64,
    pub stddev_ms: f64,
}

/// What is known of the counters of statements themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatementsInfo {
    /// How often some made room for others.
    pub deallocations: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub reset_at: i64,
}

/// One row of `resurgam_plans`. Times are milliseconds.
#[derive(Clone, Debug, Default)]
pub struct PlanRow {
    pub query: String,
    /// What it is planned for, for instance `one row`, `range`, `query`.
    pub shape: String,
    /// All sessions use it.
    pub is_shared: bool,
    /// Runs without a physical plan, with one that was there, with one that was made and kept, with one
    /// that cannot be kept.
    pub direct: u64,
    pub hits: u64,
    pub misses: u64,
    pub each_time: u64,
    pub plan_ms: f64,
    pub run_ms: f64,
    pub bytes: u64,
}

/// Bytes in use.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// By object.
    pub by_object: HashMap<u32, u64>,
    /// By database: of what is stored for all of them (definitions, row versions) the first one is said to have it.
    pub by_database: HashMap<u32, u64>,
}

/// A function of sequences.
#[derive(Clone, Copy, Debug)]
pub enum SequenceCall {
    /// `nextval`
    Next,
    /// `currval`
    Current,
    /// `setval`, and whether the value has been given out.
    Set(i64, bool),
    /// `lastval`; of any sequence
    Last,
}

/// What is known about the session and the database; every method is cheap.
pub trait PgContext: Debug + Send + Sync {
    /// Name of the database that the session is connected to.
    fn database(&self) -> String;
    /// Its oid.
    fn database_oid(&self) -> u32 {
        FIRST_DATABASE
    }
    /// Name of the user who logged in.
    fn user(&self) -> String;
    /// The role whose rights count now: `current_user`.
    fn role(&self) -> u32 {
        FIRST_ROLE
    }
    /// The role that it falls back to: `session_user`.
    fn session_role(&self) -> u32 {
        FIRST_ROLE
    }
    /// The roles that the session's transaction sees, and what they may do.
    ///
    /// # Errors
    /// Those of reading the catalog.
    fn rights(&self) -> Result<Arc<Rights>, SqlError> {
        Ok(Arc::new(Rights::first()))
    }
    /// A role's name.
    fn role_name(&self, role: u32) -> String {
        self.rights().map_or_else(|_| format!("unknown (OID={role})"), |rights| rights.name(role))
    }
    /// Whether the role whose rights count now may do everything.
    fn is_superuser(&self) -> bool {
        true
    }
    /// Whether that role may see what sessions of another do.
    fn sees_sessions_of(&self, _role: u32) -> bool {
        true
    }
    /// The number that a cancel request names.
    fn backend_pid(&self) -> i32;
    /// Every table that the session's transaction sees.
    fn tables(&self) -> Result<Vec<Arc<Table>>, SqlError>;
    /// Every view that the session's transaction sees.
    fn views(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        Ok(Vec::new())
    }
    /// Every policy of row security.
    fn policies(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        Ok(Vec::new())
    }
    /// Every sequence.
    fn sequences(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        Ok(Vec::new())
    }
    /// Every schema that was made, changed or dropped ([`crate::catalog::namespaces`] has those of the system as well).
    fn schemas(&self) -> Result<Vec<Arc<Table>>, SqlError> {
        Ok(Vec::new())
    }
    /// The schemas in which names are looked for.
    fn search_path(&self) -> Arc<SearchPath> {
        let setting = self.setting("search_path");
        Arc::new(SearchPath::of(setting.as_deref().unwrap_or(search_path::DEFAULT), &self.user()))
    }
    /// What a function of sequences gives, for the sequence with that oid.
    ///
    /// # Errors
    /// `55000`, `2200H`, `42809`; `0A000` where there are none.
    fn sequence_value(&self, _sequence: u32, _what: SequenceCall) -> Result<i64, SqlError> {
        Err(SqlError::unsupported("sequences are not supported here"))
    }
    /// Where the sequence with that oid is.
    ///
    /// # Errors
    /// `42809`; `0A000` where there are none.
    fn sequence_state(&self, _sequence: u32) -> Result<SequenceState, SqlError> {
        Err(SqlError::unsupported("sequences are not supported here"))
    }
    /// The same for whoever asks by `pg_sequence_last_value`.
    ///
    /// # Errors
    /// `42501` for a sequence that the role may neither use nor read; `42809`; `0A000` where there are none.
    fn sequence_state_asked(&self, sequence: u32) -> Result<SequenceState, SqlError> {
        self.sequence_state(sequence)
    }
    /// Present value of a run-time parameter, lower-case name; `None` if there is none.
    fn setting(&self, name: &str) -> Option<String>;
    /// Whether the role may see its value.
    ///
    /// # Errors
    /// `42501`
    fn may_read_setting(&self, _name: &str) -> Result<(), SqlError> {
        Ok(())
    }
    /// Changes a parameter (`set_config`); returns the new value as shown.
    fn set_setting(&self, name: &str, value: &str, is_local: bool) -> Result<String, SqlError>;
    /// All parameters, sorted by name.
    fn settings(&self) -> Vec<Setting>;
    /// The session's `TimeZone`.
    fn zone(&self) -> Zone;
    /// Start of the current transaction, microseconds since 1970-01-01 UTC (`now()`).
    fn transaction_start(&self) -> i64;
    /// Start of the current statement, same unit.
    fn statement_start(&self) -> i64;
    /// Id of the current transaction, if it has one; `assign` asks for one to be given.
    ///
    /// # Errors
    /// Those of a transaction that has ended.
    fn transaction_id(&self, assign: bool) -> Result<Option<u64>, SqlError>;
    /// Shows the transaction's snapshot to others, by the name that is returned.
    ///
    /// # Errors
    /// `0A000` of READ COMMITTED.
    fn export_snapshot(&self) -> Result<String, SqlError> {
        Err(SqlError::unsupported("pg_export_snapshot() without a session is not supported"))
    }
    /// Bytes that the objects of the database occupy, tables' rows and indexes among them
    /// ([`Database::bytes_by_object`](resurgam_engine::Database::bytes_by_object)), and in all.
    fn sizes(&self) -> Result<Sizes, SqlError>;
    /// Estimated rows of a table; `None` if unknown.
    fn row_estimate(&self, table: &Table) -> Option<u64>;
    /// What was found out of a table by analysing it; `None` if nothing was.
    fn statistics(&self, _table: &Table) -> Option<Arc<TableStatistics>> {
        None
    }
    /// The same for whoever plans: what was found out last, whatever the transaction's snapshot.
    fn newest_statistics(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        self.statistics(table)
    }
    /// All sessions.
    fn activity(&self) -> Vec<Activity>;
    /// Temporary files that statements made since the start, and the bytes that were written to them.
    fn temp_files(&self) -> (u64, u64) {
        (0, 0)
    }
    /// When the server started, microseconds since 1970-01-01 UTC.
    fn server_start(&self) -> i64;
    /// Address and port of the server's end of the connection, if it is TCP.
    fn server_addr(&self) -> Option<(String, u16)> {
        None
    }
    /// The engine behind the session.
    fn engine(&self) -> Option<resurgam_engine::Database> {
        None
    }
    /// The planned statements of all sessions.
    fn plans(&self) -> Vec<PlanRow> {
        Vec::new()
    }
    /// What the calls of statements have cost.
    fn statement_calls(&self) -> Vec<StatementCalls> {
        Vec::new()
    }
    fn statements_info(&self) -> StatementsInfo {
        StatementsInfo::default()
    }
    /// Counts anew, for those of that role, database and number; 0: of all.
    fn reset_statements(&self, role: u32, database: u32, id: i64) {
        let _ = (role, database, id);
    }
    /// Cancels (`terminate` = false) or ends the session with that pid; whether it was found.
    ///
    /// # Errors
    /// `42501`
    fn signal_backend(&self, pid: i32, terminate: bool) -> Result<bool, SqlError>;
    /// Whether there is a session with that pid.
    fn is_backend(&self, pid: i32) -> bool {
        self.activity().iter().any(|session| session.pid == pid)
    }
    /// Tells the client something that is no error.
    fn notice(&self, notice: SqlError) {
        drop(notice);
    }
    /// Asks the server to read its files again (`pg_reload_conf`); whether it will.
    fn reload_conf(&self) -> bool {
        false
    }
    /// The statements that the session has prepared under a name.
    fn prepared_statements(&self) -> Vec<StatementRow> {
        Vec::new()
    }
    /// The session's cursors that have a name.
    fn cursors(&self) -> Vec<CursorRow> {
        Vec::new()
    }
    /// What is in the file with the host rules; nothing where there is no server.
    ///
    /// # Errors
    /// It cannot be read.
    fn host_rules(&self) -> Result<Vec<HostRule>, SqlError> {
        Ok(Vec::new())
    }
    /// The advisory locks, which the session may take from now on; `None` where there are none.
    fn advisory(&self) -> Option<Arc<Advisory>> {
        None
    }
    /// Tells those who listen to a channel, when the session's transaction commits (`pg_notify`).
    ///
    /// # Errors
    /// `22023`, `54000`; `0A000` where nobody can be told anything.
    fn notify(&self, _channel: &str, _payload: &str) -> Result<(), SqlError> {
        Err(SqlError::unsupported("notifications are not supported here"))
    }
    /// The channels that the session listens to.
    fn listening_channels(&self) -> Vec<String> {
        Vec::new()
    }
    /// How much of the queues of notifications is in use, from 0 to 1.
    fn notification_queue_usage(&self) -> f64 {
        0.0
    }
    /// How long a statement waits for a lock; zero is for ever.
    fn lock_timeout(&self) -> Duration {
        Duration::ZERO
    }
    /// Fails with `57014` when the running statement has been cancelled (polled by `pg_sleep`).
    fn check_cancelled(&self) -> Result<(), SqlError> {
        Ok(())
    }
}
