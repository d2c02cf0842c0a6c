//! Run-time parameters: what `SET`, `SHOW` and `pg_settings` know.
//!
//! A session keeps the values that differ from the defaults. `SET` in a transaction that rolls
//! back is undone; `SET LOCAL` is undone when the transaction ends. A statement outside of BEGIN
//! is a transaction as well, and so is a string of several: every change is noted until
//! [`Variables::end_transaction`].

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::exec::planning::Planning;
use crate::pg::context::Setting;
use crate::pg::datetime::Zone;
use crate::pg::roles::FIRST_ROLE;
use crate::pg::search_path;
use crate::pg::styles::{BadStyle, Styles};
use crate::wire::SqlError;

/// A setting of the server, fixed while it runs, as `SHOW` presents it.
#[derive(Clone, Debug)]
pub struct ServerSetting {
    pub name: &'static str,
    pub value: String,
    pub default: &'static str,
    /// `bool`, `integer`, `string` or `enum`.
    pub kind: &'static str,
    pub description: &'static str,
    /// Where the value came from: `default`, `configuration file`…
    pub source: &'static str,
}

/// Settings of the SQL layer.
#[derive(Clone, Debug)]
pub struct SqlSettings {
    /// Default of the session parameter; zero is no limit.
    pub statement_timeout: Duration,
    /// Default of the session parameter; zero is no limit.
    pub idle_in_transaction_session_timeout: Duration,
    /// Defaults of further session parameters, by name, as a user would write them.
    pub defaults: Vec<(&'static str, String)>,
    /// Default of the session parameter: whether a commit waits until it is durable.
    pub synchronous_commit: bool,
    /// Memory that all queries together may use before they spill.
    pub query_memory_bytes: u64,
    /// Bytes of notifications that listeners have not taken yet, all together.
    pub notify_queue_bytes: u64,
    /// Where the folder of temporary files is made; `None`: in the data folder.
    pub temp_directory: Option<PathBuf>,
    /// The server's own settings.
    pub server: Vec<ServerSetting>,
    /// How statements are planned.
    #[doc(hidden)]
    pub planning: Planning,
}

impl Default for SqlSettings {
    fn default() -> Self {
        Self {
            statement_timeout: Duration::ZERO,
            idle_in_transaction_session_timeout: Duration::ZERO,
            defaults: Vec::new(),
            synchronous_commit: true,
            query_memory_bytes: 1 << 30,
            notify_queue_bytes: 64 << 20,
            temp_directory: None,
            server: Vec::new(),
            planning: Planning::default(),
        }
    }
}

/// Session parameters that the protocol server goes by; `None` is off, or the system's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Longest wait for a statement outside of a transaction.
    pub idle_session_timeout: Option<Duration>,
    pub tcp_keepalives_idle: Option<Duration>,
    pub tcp_keepalives_interval: Option<Duration>,
    pub tcp_keepalives_count: Option<u32>,
    pub tcp_user_timeout: Option<Duration>,
    /// How often a running statement's client is looked after.
    pub client_connection_check_interval: Option<Duration>,
    /// Statements that take as long are logged.
    pub log_min_duration: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Integer,
    /// A whole number from and to so many.
    Between(i64, i64),
    Real,
    Text,
    /// Milliseconds unless a unit is written.
    Duration,
    /// As `Duration`; -1 is off.
    DurationOrOff,
    /// Kilobytes unless a unit is written; at least so many.
    Memory(u64),
    /// A number of that unit (`s`, `ms` or none), shown without it.
    Counted(&'static str),
    Enum(&'static [&'static str]),
    /// The default is the one value that is supported; this is another one of PostgreSQL's.
    Only(&'static str),
    /// An amount of memory in kilobytes unless a unit is written, from and to so many.
    Kilobytes(i64, i64),
    /// Cannot be changed.
    Fixed,
}

struct Definition {
    /// As `SHOW` spells it.
    name: &'static str,
    default: &'static str,
    kind: Kind,
    /// Clients are told of every change (`ParameterStatus`).
    reported: bool,
    description: &'static str,
}

const fn def(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    reported: bool,
    description: &'static str,
) -> Definition {
    Definition { name, default, kind, reported, description }
}

/// A setting that clients set to make a server faster, and that has no say here: setting it is answered with a warning.
const fn idle(name: &'static str, default: &'static str, kind: Kind) -> Definition {
    Definition { name, default, kind, reported: false, description: IDLE }
}

/// Description of settings without effect.
const IDLE: &str = "Has no effect.";

const ISOLATION: &[&str] = &["read committed", "repeatable read", "read uncommitted"];

/// Severities of messages in the server's log.
const MESSAGES: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic"];

/// Settings that say where something is in the server's file system.
const PLACES: [&str; 4] = ["config_file", "data", "data_directory", "hba_file"];

/// Whether a setting is for superusers, and those who may read all settings.
pub(crate) fn is_for_superusers(name: &str) -> bool {
    PLACES.iter().any(|place| place.eq_ignore_ascii_case(name))
}

static DEFINITIONS: &[Definition] = &[
    def("application_name", "", Kind::Text, true, "Name of the client program."),
    def("bytea_output", "hex", Kind::Only("escape"), false, "Output format of bytea."),
    def("check_function_bodies", "on", Kind::Bool, false, "Whether CREATE FUNCTION checks the body."),
    def(
        "client_connection_check_interval",
        "0",
        Kind::Duration,
        false,
        "Time between checks whether the client is still there while a statement runs; 0 for none.",
    ),
    def("client_encoding", "UTF8", Kind::Text, true, "Encoding of the client; UTF8 is the one supported."),
    def(
        "client_min_messages",
        "notice",
        Kind::Enum(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"]),
        false,
        "Least severity of messages sent to the client.",
    ),
    def(
        "DateStyle",
        "ISO, MDY",
        Kind::Text,
        true,
        "Display format of dates, and the order in which their numbers are read.",
    ),
    def(
        "default_table_access_method",
        "heap",
        Kind::Text,
        false,
        "Access method of new tables; heap stands for the one.",
    ),
    def("default_tablespace", "", Kind::Text, false, "Tablespace of new tables; pg_default is the one."),
    def(
        "default_transaction_deferrable",
        "off",
        Kind::Bool,
        false,
        "Concerns serializable transactions, which there are none of.",
    ),
    def(
        "default_transaction_isolation",
        "read committed",
        Kind::Enum(ISOLATION),
        false,
        "Isolation of new transactions.",
    ),
    def("default_transaction_read_only", "off", Kind::Bool, true, "Whether new transactions are read-only."),
    def(
        "extra_float_digits",
        "1",
        Kind::Between(-15, 3),
        false,
        "Digits of floating-point output; shortest exact is the one supported.",
    ),
    def("idle_in_transaction_session_timeout", "0", Kind::Duration, false, "Longest idle time within a transaction."),
    def("idle_session_timeout", "0", Kind::Duration, false, "Longest idle time outside of a transaction."),
    def("in_hot_standby", "off", Kind::Fixed, true, "Whether the server is a standby."),
    def("integer_datetimes", "on", Kind::Fixed, true, "Datetimes are 64-bit integers."),
    def("IntervalStyle", "postgres", Kind::Text, true, "Display format of intervals."),
    def("is_superuser", "on", Kind::Fixed, true, "Whether the user is a superuser."),
    idle("jit", "off", Kind::Bool),
    def("lc_collate", "C", Kind::Fixed, false, "Order of text: by its bytes."),
    def("lc_ctype", "C.UTF-8", Kind::Fixed, false, "Character classes."),
    def("lc_messages", "C", Kind::Text, false, "Language of messages; English is the one supported."),
    def("lc_monetary", "C", Kind::Text, false, "Language of formats; C is the one supported."),
    def("lc_numeric", "C", Kind::Text, false, "Language of formats; C is the one supported."),
    def("lc_time", "C", Kind::Text, false, "Language of formats; C is the one supported."),
    def("lock_timeout", "0", Kind::Duration, false, "Longest wait for a lock."),
    def(
        "log_min_duration_statement",
        "-1",
        Kind::DurationOrOff,
        false,
        "Statements that take at least so long are logged; 0 for all, -1 for none.",
    ),
    idle("maintenance_work_mem", "64MB", Kind::Memory(1024)),
    def("max_identifier_length", "63", Kind::Fixed, false, "Longest identifier in bytes."),
    def("max_index_keys", "32", Kind::Fixed, false, "Most columns of an index."),
    def("role", "none", Kind::Fixed, false, "The role that SET ROLE has made current."),
    def(
        "row_security",
        "on",
        Kind::Bool,
        false,
        "Whether policies leave rows out (on), or refuse a statement that they would (off).",
    ),
    def("search_path", "\"$user\", public", Kind::Text, false, "Schemas in which names are looked up."),
    def("server_encoding", "UTF8", Kind::Fixed, true, "Encoding of the database."),
    def(
        "server_version",
        concat!("15.0 (Resurgam ", env!("CARGO_PKG_VERSION"), ")"),
        Kind::Fixed,
        true,
        "Version of PostgreSQL whose dialect is spoken.",
    ),
    def("server_version_num", "150000", Kind::Fixed, false, "The same as a number."),
    def("session_authorization", "postgres", Kind::Fixed, true, "The user who logged in."),
    def(
        "session_replication_role",
        "origin",
        Kind::Enum(&["origin", "replica", "local"]),
        false,
        "Whether triggers and foreign keys act: they always do.",
    ),
    def("standard_conforming_strings", "on", Kind::Only("off"), true, "Backslashes in plain strings are ordinary."),
    def("statement_timeout", "0", Kind::Duration, false, "Longest time of a statement."),
    idle("synchronize_seqscans", "on", Kind::Bool),
    def(
        "synchronous_commit",
        "on",
        Kind::Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
        false,
        "Whether a commit waits until it is durable.",
    ),
    def(
        "tcp_keepalives_count",
        "0",
        Kind::Counted(""),
        false,
        "Keepalives that may be lost; 0 for the system's default.",
    ),
    def(
        "tcp_keepalives_idle",
        "0",
        Kind::Counted("s"),
        false,
        "Silence after which a keepalive is sent; 0 for the system's default.",
    ),
    def(
        "tcp_keepalives_interval",
        "0",
        Kind::Counted("s"),
        false,
        "Time between keepalives that are not answered; 0 for the system's default.",
    ),
    def(
        "tcp_user_timeout",
        "0",
        Kind::Counted("ms"),
        false,
        "Time after which data that is not acknowledged ends the connection; 0 for the system's default.",
    ),
    idle("temp_buffers", "8MB", Kind::Memory(800)),
    def(
        "temp_file_limit",
        "-1",
        Kind::Kilobytes(-1, i32::MAX as i64),
        false,
        "Temporary files of one session at a time; -1 for no limit.",
    ),
    def("TimeZone", "UTC", Kind::Text, true, "Time zone in which timestamps are shown."),
    def(
        "transaction_deferrable",
        "off",
        Kind::Bool,
        false,
        "Concerns serializable transactions, which there are none of.",
    ),
    def("transaction_isolation", "read committed", Kind::Enum(ISOLATION), false, "Isolation of the transaction."),
    def("transaction_read_only", "off", Kind::Bool, false, "Whether the transaction is read-only."),
    def(
        "work_mem",
        "65536",
        Kind::Kilobytes(64, i32::MAX as i64),
        false,
        "Memory of one sort or aggregate before it goes to temporary files.",
    ),
    def("xmloption", "content", Kind::Enum(&["content", "document"]), false, "How XML is read; there is no XML."),
    idle("enable_seqscan", "on", Kind::Bool),
    idle("enable_indexscan", "on", Kind::Bool),
    idle("enable_hashjoin", "on", Kind::Bool),
    idle("enable_mergejoin", "on", Kind::Bool),
    idle("enable_nestloop", "on", Kind::Bool),
    idle("geqo", "on", Kind::Bool),
    idle("geqo_threshold", "12", Kind::Between(2, i32::MAX as i64)),
    idle("effective_io_concurrency", "1", Kind::Between(0, 1000)),
    idle("random_page_cost", "4", Kind::Real),
    idle("seq_page_cost", "1", Kind::Real),
    idle("cpu_tuple_cost", "0.01", Kind::Real),
    idle("cpu_index_tuple_cost", "0.005", Kind::Real),
    idle("cpu_operator_cost", "0.0025", Kind::Real),
    idle("parallel_setup_cost", "1000", Kind::Real),
    idle("parallel_tuple_cost", "0.1", Kind::Real),
    idle("parallel_leader_participation", "on", Kind::Bool),
    idle("force_parallel_mode", "off", Kind::Enum(&["off", "on", "regress"])),
    idle("cursor_tuple_fraction", "0.1", Kind::Real),
    idle("effective_cache_size", "4GB", Kind::Memory(8)),
    idle("enable_bitmapscan", "on", Kind::Bool),
    idle("enable_hashagg", "on", Kind::Bool),
    idle("enable_indexonlyscan", "on", Kind::Bool),
    idle("enable_material", "on", Kind::Bool),
    idle("enable_memoize", "on", Kind::Bool),
    idle("enable_sort", "on", Kind::Bool),
    idle("enable_tidscan", "on", Kind::Bool),
    idle("from_collapse_limit", "8", Kind::Integer),
    idle("join_collapse_limit", "8", Kind::Integer),
    def(
        "max_parallel_workers_per_gather",
        "2",
        Kind::Between(0, 1024),
        false,
        "Threads that read a large table for a statement beside that of its plan; there are as many as processors, for all.",
    ),
    def(
        "default_statistics_target",
        "100",
        Kind::Between(1, 10_000),
        false,
        "Common values, and groups of the others, that ANALYZE keeps of each column; 300 times as many rows are read.",
    ),
    idle("plan_cache_mode", "auto", Kind::Enum(&["auto", "force_generic_plan", "force_custom_plan"])),
    idle("constraint_exclusion", "partition", Kind::Enum(&["partition", "on", "off"])),
    idle("escape_string_warning", "on", Kind::Bool),
    idle("vacuum_cost_delay", "0", Kind::Duration),
    idle("enable_async_append", "on", Kind::Bool),
    idle("enable_gathermerge", "on", Kind::Bool),
    idle("enable_incremental_sort", "on", Kind::Bool),
    idle("enable_parallel_append", "on", Kind::Bool),
    idle("enable_parallel_hash", "on", Kind::Bool),
    idle("enable_partition_pruning", "on", Kind::Bool),
    idle("enable_partitionwise_aggregate", "off", Kind::Bool),
    idle("enable_partitionwise_join", "off", Kind::Bool),
    idle("max_parallel_workers", "8", Kind::Integer),
    idle("max_parallel_maintenance_workers", "2", Kind::Integer),
    idle("hash_mem_multiplier", "2", Kind::Real),
    idle("jit_above_cost", "100000", Kind::Real),
    idle("jit_inline_above_cost", "500000", Kind::Real),
    idle("jit_optimize_above_cost", "500000", Kind::Real),
    idle("default_text_search_config", "pg_catalog.simple", Kind::Text),
    idle("deadlock_timeout", "1000", Kind::Duration),
    idle("log_duration", "off", Kind::Bool),
    idle("log_error_verbosity", "default", Kind::Enum(&["terse", "default", "verbose"])),
    idle("log_lock_waits", "off", Kind::Bool),
    idle("log_min_error_statement", "error", Kind::Enum(MESSAGES)),
    idle("log_min_messages", "warning", Kind::Enum(MESSAGES)),
    idle("log_statement", "none", Kind::Enum(&["none", "ddl", "mod", "all"])),
    idle("track_activities", "on", Kind::Bool),
    idle("track_counts", "on", Kind::Bool),
    idle("track_functions", "none", Kind::Enum(&["none", "pl", "all"])),
    idle("track_io_timing", "off", Kind::Bool),
    idle("wal_compression", "off", Kind::Enum(&["off", "on", "pglz", "lz4", "zstd"])),
    def("block_size", "8192", Kind::Fixed, false, "Size of a page."),
    def("fsync", "on", Kind::Fixed, false, "Whether what is to be durable is synced to the disk."),
    def("max_replication_slots", "0", Kind::Fixed, false, "There is no replication by the protocol."),
    def("max_wal_senders", "0", Kind::Fixed, false, "There is no replication by the protocol."),
    def("password_encryption", "scram-sha-256", Kind::Only("md5"), false, "How passwords are kept."),
    def("wal_level", "minimal", Kind::Fixed, false, "The log is for recovery, not for replication by the protocol."),
    def("array_nulls", "on", Kind::Only("off"), false, "NULL in the text of an array is NULL."),
    def("transform_null_equals", "off", Kind::Only("on"), false, "Whether `= NULL` is read as IS NULL."),
];

/// Who the session is, by oid: no name of a setting begins with a zero byte.
const ROLE: &str = "\0role";
const SESSION_ROLE: &str = "\0session_role";

/// Those that plans go by; custom ones besides.
const PLANNED_WITH: [&str; 5] = ["TimeZone", "DateStyle", "IntervalStyle", "search_path", "row_security"];

/// The styles that values of `DateStyle` and `IntervalStyle` say, as these are kept.
fn styles_of(dates: &str, intervals: &str) -> Styles {
    let styles = Styles::default();
    let styles = styles.with_dates(dates, styles).unwrap_or(styles);
    styles.with_intervals(intervals).unwrap_or(styles)
}

fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|d| d.name.eq_ignore_ascii_case(name))
}

/// What each statement goes by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hot {
    /// That of the settings which it is of; no settings have 0.
    generation: u64,
    pub statement_timeout: Duration,
    pub idle_timeout: Duration,
    pub lock_timeout: Duration,
    pub synchronous: bool,
    pub repeatable_read: bool,
    pub read_only: bool,
    pub zone: Zone,
    /// The role whose rights count, and the one that it falls back to.
    pub role: u32,
    pub session_role: u32,
    /// In bytes.
    pub(crate) work_mem: u64,
    /// In kilobytes; `None` for no limit.
    pub(crate) temp_file_limit: Option<u64>,
    /// `max_parallel_workers_per_gather`
    pub(crate) scan_workers: usize,
}

/// What is told of a session's values without their lock: whether there is anything to do.
///
/// Who changes them (under the lock) raises these afterwards, on whatever thread; the session looks when that
/// thread's work has come to its end.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    generation: AtomicU64,
    /// There may be changes to take back at the end of the transaction, or to tell the client.
    changed: AtomicBool,
    /// Of dates and intervals, as [`Styles::to_bits`] has them.
    styles: AtomicU32,
}

impl Signals {
    /// See [`Variables::generation`].
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
    /// Whether [`Variables::end_transaction`] or [`Variables::take_changes`] may have anything to do.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }
    /// In which form dates and intervals are shown and read.
    pub(crate) fn styles(&self) -> Styles {
        Styles::from_bits(self.styles.load(Ordering::Relaxed))
    }
    /// Whether `hot` is of the present values.
    pub(crate) fn is_current(&self, hot: &Hot) -> bool {
        hot.generation == self.generation()
    }
}

/// A session's values.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// Lower-case name to value, where it differs from `defaults`.
    values: HashMap<String, String>,
    /// What `RESET` goes back to, where that differs from the definition.
    defaults: HashMap<String, String>,
    server: Vec<ServerSetting>,
    /// Earlier values to restore: name, value, whether the change was LOCAL.
    undo: Vec<(String, Option<String>, bool)>,
    /// Changes that the client has to be told of.
    changed: Vec<(String, String)>,
    /// Raised by every change, also by one that is taken back: plans may have values in them.
    pub(crate) generation: u64,
    /// As `generation`, of those that a named statement's plan goes by.
    pub(crate) planned_with: u64,
    /// Read on every statement.
    hot: Hot,
    signals: Arc<Signals>,
}

impl Deref for Variables {
    type Target = Hot;
    fn deref(&self) -> &Hot {
        &self.hot
    }
}

/// The setting by which a transaction begins, of one that says what the present one is.
fn begun_with(key: &str) -> Option<&'static str> {
    match key {
        "transaction_isolation" => Some("default_transaction_isolation"),
        "transaction_read_only" => Some("default_transaction_read_only"),
        _ => None,
    }
}

impl Variables {
    pub(crate) fn new(settings: &SqlSettings) -> Self {
        let mut out = Self { server: settings.server.clone(), ..Self::default() };
        let mut default = |name: &str, value: String| out.defaults.insert(name.to_owned(), value);
        default("statement_timeout", format_ms(settings.statement_timeout));
        default("idle_in_transaction_session_timeout", format_ms(settings.idle_in_transaction_session_timeout));
        default("synchronous_commit", if settings.synchronous_commit { "on" } else { "off" }.to_owned());
        for (name, value) in settings.defaults.iter().filter(|(name, _)| *name != "synchronous_commit") {
            let checked = find(name).and_then(|definition| out.check(definition, value).ok());
            out.defaults.insert((*name).to_owned(), checked.unwrap_or_else(|| value.clone()));
        }
        out.refresh();
        out
    }

    /// The search path is another one, though its setting is not.
    pub(crate) fn path_changed(&mut self) {
        self.refresh();
    }

    fn refresh(&mut self) {
        self.generation += 1;
        let duration =
            |name: &str| parse_ms(&self.get(name).unwrap_or_default()).map_or(Duration::ZERO, Duration::from_millis);
        let (statement, idle, lock) =
            (duration("statement_timeout"), duration("idle_in_transaction_session_timeout"), duration("lock_timeout"));
        let own = |key: &str| self.values.get(key).or_else(|| self.defaults.get(key));
        let oid = |key: &str| own(key).and_then(|oid| oid.parse::<u32>().ok()).filter(|oid| *oid != 0);
        let kb = |name: &str| self.get(name).and_then(|value| value.parse::<i64>().ok());
        let kb = |name: &str| kb(name).and_then(|kb| u64::try_from(kb).ok());
        self.hot = Hot {
            generation: self.generation,
            statement_timeout: statement,
            idle_timeout: idle,
            lock_timeout: lock,
            synchronous: self.get("synchronous_commit").as_deref() != Some("off"),
            repeatable_read: self.get("default_transaction_isolation").as_deref() == Some("repeatable read"),
            work_mem: kb("work_mem").unwrap_or(1 << 16) << 10,
            temp_file_limit: kb("temp_file_limit"),
            scan_workers: kb("max_parallel_workers_per_gather").and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
            read_only: self.get("default_transaction_read_only").as_deref() == Some("on"),
            role: oid(ROLE).or_else(|| oid(SESSION_ROLE)).unwrap_or(FIRST_ROLE),
            session_role: oid(SESSION_ROLE).unwrap_or(FIRST_ROLE),
            zone: self.get("timezone").and_then(|zone| Zone::parse(&zone)).unwrap_or_default(),
        };
        self.signals.styles.store(self.styles().to_bits(), Ordering::Relaxed);
        self.signals.generation.store(self.generation, Ordering::Release);
    }

    /// In which form dates and intervals are shown and read.
    fn styles(&self) -> Styles {
        let of = |name: &str| self.get(name).unwrap_or_default();
        styles_of(&of("datestyle"), &of("intervalstyle"))
    }

    /// The same as RESET leaves it.
    fn default_styles(&self) -> Styles {
        let of = |name: &str| {
            let default = self.defaults.get(name).map(String::as_str);
            default.or_else(|| find(name).map(|definition| definition.default)).unwrap_or_default()
        };
        styles_of(of("datestyle"), of("intervalstyle"))
    }

    /// What each statement goes by.
    pub(crate) fn hot(&self) -> Hot {
        self.hot
    }

    pub(crate) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Value of a parameter; any case.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let key = name.to_ascii_lowercase();
        if let Some(value) = self.values.get(&key).or_else(|| self.defaults.get(&key)) {
            return Some(value.clone());
        }
        if let Some(begun_with) = begun_with(&key) {
            return self.get(begun_with);
        }
        if let Some(definition) = find(&key) {
            return Some(definition.default.to_owned());
        }
        self.server.iter().find(|s| s.name.eq_ignore_ascii_case(&key)).map(|s| s.value.clone())
    }

    /// Whether a setting differs from its default and has no effect.
    pub(crate) fn is_idle(&self, name: &str) -> bool {
        find(name).is_some_and(|known| known.description == IDLE && self.get(name).as_deref() != Some(known.default))
    }

    /// Whether a setting, by its name in small letters, has that value.
    pub(crate) fn is(&self, key: &str, value: &str) -> bool {
        match (self.values.get(key).or_else(|| self.defaults.get(key)), begun_with(key)) {
            (Some(set), _) => set == value,
            (None, Some(begun_with)) => self.is(begun_with, value),
            (None, None) => find(key).is_some_and(|definition| definition.default == value),
        }
    }

    /// The value that `SHOW` prints, or `42704`.
    pub(crate) fn show(&self, name: &str) -> Result<String, SqlError> {
        let Some(value) = self.get(name) else { return Err(unknown(name)) };
        Ok(match find(name).map(|d| d.kind) {
            Some(Kind::Duration) => show_ms(parse_ms(&value).unwrap_or(0)),
            Some(Kind::DurationOrOff) => parse_ms(&value).map_or(value, show_ms),
            Some(Kind::Kilobytes(..)) => show_kb(value.parse().unwrap_or(0)),
            _ => value,
        })
    }

    /// A name as `SHOW` prints it.
    pub(crate) fn spelling(name: &str) -> String {
        find(name).map_or_else(|| name.to_ascii_lowercase(), |d| d.name.to_owned())
    }

    /// `SET name = value`; `None` is `DEFAULT`. Returns what `SHOW` would print.
    ///
    /// # Errors
    /// `42704` unknown, `55P02` not changeable, `22023` bad value, `42501` for what only superusers change.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, SqlError> {
        self.may_set(name)?;
        self.set_anyway(name, value, local)
    }

    /// # Errors
    /// `42501`
    pub(crate) fn may_set(&self, name: &str) -> Result<(), SqlError> {
        match is_of_superusers(name) && self.is("is_superuser", "off") {
            true => Err(SqlError::new("42501", format!("permission denied to set parameter \"{name}\""))),
            false => Ok(()),
        }
    }

    /// As [`Variables::set`], whoever the session is.
    fn set_anyway(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, SqlError> {
        let key = name.to_ascii_lowercase();
        let value = match (value, find(&key)) {
            (_, None) if self.server.iter().any(|s| s.name.eq_ignore_ascii_case(&key)) => {
                return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed now")));
            }
            // Any name with a dot is a custom parameter, as in PostgreSQL, if its parts are names.
            (value, None) if key.contains('.') => {
                if !is_custom_name(&key) {
                    let text = format!("invalid configuration parameter name \"{name}\"");
                    let detail = "Custom parameter names must be two or more simple identifiers separated by dots.";
                    return Err(SqlError::new("42602", text).with_detail(detail));
                }
                value.map(str::to_owned)
            }
            (_, None) => return Err(unknown(name)),
            (None, Some(_)) => None,
            (Some(value), Some(definition)) => Some(self.check(definition, value)?),
        };
        let earlier = match &value {
            Some(value) => self.values.insert(key.clone(), value.clone()),
            None => self.values.remove(&key),
        };
        self.undo.push((key.clone(), earlier, local));
        self.after_change(&key);
        self.show(&key).or(Ok(String::new()))
    }

    fn after_change(&mut self, key: &str) {
        self.refresh();
        self.signals.changed.store(true, Ordering::Release);
        // A timeout, for instance, has no say in plans, and is often set for each transaction.
        if key.starts_with('\0') || key.contains('.') || PLANNED_WITH.iter().any(|name| name.eq_ignore_ascii_case(key))
        {
            self.planned_with += 1;
        }
        if let Some(definition) = find(key)
            && definition.reported
        {
            self.changed.push((definition.name.to_owned(), self.get(key).unwrap_or_default()));
        }
    }

    /// A value as it is kept.
    ///
    /// # Errors
    /// `22023`, `0A000`
    fn check(&self, definition: &Definition, value: &str) -> Result<String, SqlError> {
        check(definition, value, (self.styles(), self.default_styles()))
    }

    /// `RESET ALL` (also what `DISCARD ALL` does).
    pub(crate) fn reset_all(&mut self) {
        let keys: Vec<String> = self.values.keys().cloned().collect();
        for key in keys {
            // Who the session is goes by a word of its own.
            if key.starts_with('\0') || find(&key).is_some_and(|d| d.kind == Kind::Fixed) {
                continue;
            }
            let earlier = self.values.remove(&key);
            self.undo.push((key.clone(), earlier, false));
            self.after_change(&key);
        }
    }

    /// SET ROLE: to a role, by oid and name, or none.
    pub(crate) fn set_role(&mut self, role: Option<(u32, &str)>, is_superuser: bool, local: bool) {
        self.put(ROLE, role.map(|(oid, _)| oid.to_string()), local);
        self.put("role", role.map(|(_, name)| name.to_owned()), local);
        self.put("is_superuser", Some(if is_superuser { "on" } else { "off" }.to_owned()), local);
    }

    /// SET SESSION AUTHORIZATION; the role is none after it.
    pub(crate) fn set_session_user(&mut self, (oid, name): (u32, &str), is_superuser: bool, local: bool) {
        self.put(SESSION_ROLE, Some(oid.to_string()), local);
        self.put("session_authorization", Some(name.to_owned()), local);
        self.set_role(None, is_superuser, local);
    }

    /// A value of the session's own, of a setting that nobody changes by its name.
    fn put(&mut self, key: &str, value: Option<String>, local: bool) {
        let earlier = match value {
            Some(value) => self.values.insert(key.to_owned(), value),
            None => self.values.remove(key),
        };
        self.undo.push((key.to_owned(), earlier, local));
        self.after_change(key);
    }

    /// Who has logged in.
    pub(crate) fn logged_in(&mut self, role: u32, name: &str, is_superuser: bool) {
        self.set_default(SESSION_ROLE, role.to_string());
        self.set_default("session_authorization", name.to_owned());
        self.set_default("is_superuser", if is_superuser { "on" } else { "off" }.to_owned());
    }

    /// Whether sessions may begin with a value.
    ///
    /// # Errors
    /// `42704` unknown, `55P02` not changeable, `22023` bad value.
    pub(crate) fn checked(&self, name: &str, value: &str) -> Result<(), SqlError> {
        self.checked_name(name)?;
        match find(name) {
            Some(definition) => self.check(definition, value).map(|_| ()),
            None => Ok(()),
        }
    }

    /// # Errors
    /// `42704`, `55P02`, `42501`
    pub(crate) fn checked_name(&self, name: &str) -> Result<(), SqlError> {
        match find(name) {
            None if self.server.iter().any(|s| s.name.eq_ignore_ascii_case(name)) => {
                Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed now")))
            }
            None if !name.contains('.') => Err(unknown(name)),
            _ => self.may_set(name),
        }
    }

    /// A value that `RESET` goes back to: start-up options, the logged-in user.
    pub(crate) fn set_default(&mut self, name: &str, value: String) {
        self.defaults.insert(name.to_ascii_lowercase(), value);
        self.refresh();
    }

    /// A start-up option of the client.
    pub(crate) fn start(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.may_set(name)?;
        self.start_with(name, value)
    }

    /// What the role or the database has a session begin with: who put it there was asked then.
    pub(crate) fn start_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.set_anyway(name, Some(value), false)?;
        self.undo.clear();
        if let Some(value) = self.values.remove(&name.to_ascii_lowercase()) {
            self.set_default(name, value);
        }
        self.changed.clear();
        Ok(())
    }

    /// The transaction ended.
    pub(crate) fn end_transaction(&mut self, committed: bool) {
        if self.undo.is_empty() {
            return;
        }
        // What SET gave a value outlives a SET LOCAL before it.
        let mut kept = Vec::new();
        for (key, earlier, local) in std::mem::take(&mut self.undo).into_iter().rev() {
            if committed && !local {
                kept.push(key);
            } else if !kept.contains(&key) {
                self.restore(key, earlier);
            }
        }
    }

    /// Changes made in the open transaction so far; for [`Self::back_to`].
    pub(crate) fn changes(&self) -> usize {
        self.undo.len()
    }

    /// Takes back all but the first `changes`.
    pub(crate) fn back_to(&mut self, changes: usize) {
        while self.undo.len() > changes
            && let Some((key, earlier, _)) = self.undo.pop()
        {
            self.restore(key, earlier);
        }
    }

    fn restore(&mut self, key: String, earlier: Option<String>) {
        match earlier {
            Some(value) => self.values.insert(key.clone(), value),
            None => self.values.remove(&key),
        };
        self.after_change(&key);
    }

    /// What the protocol server goes by, and the generation of the settings that it is of.
    pub(crate) fn connection(&self) -> (u64, ConnectionSettings) {
        let number = |name: &str| self.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        let time = |name: &str| Some(number(name)).filter(|ms| *ms > 0).map(Duration::from_millis);
        let seconds = |name: &str| Some(number(name)).filter(|s| *s > 0).map(Duration::from_secs);
        let settings = ConnectionSettings {
            idle_session_timeout: time("idle_session_timeout"),
            tcp_keepalives_idle: seconds("tcp_keepalives_idle"),
            tcp_keepalives_interval: seconds("tcp_keepalives_interval"),
            tcp_keepalives_count: u32::try_from(number("tcp_keepalives_count")).ok().filter(|count| *count > 0),
            tcp_user_timeout: time("tcp_user_timeout"),
            client_connection_check_interval: time("client_connection_check_interval"),
            log_min_duration: self
                .get("log_min_duration_statement")
                .and_then(|value| value.parse().ok())
                .map(Duration::from_millis),
        };
        (self.generation, settings)
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(String, String)> {
        if self.undo.is_empty() {
            self.signals.changed.store(false, Ordering::Release);
        }
        std::mem::take(&mut self.changed)
    }

    /// What a client is told when it logs in.
    pub(crate) fn reported(&self) -> Vec<(String, String)> {
        DEFINITIONS
            .iter()
            .filter(|d| d.reported)
            .map(|d| (d.name.to_owned(), self.get(d.name).unwrap_or_default()))
            .collect()
    }

    /// All parameters, by name.
    pub(crate) fn all(&self) -> Vec<Setting> {
        let mut out: Vec<Setting> = DEFINITIONS
            .iter()
            .map(|d| Setting {
                name: d.name.to_owned(),
                value: self.get(d.name).unwrap_or_default(),
                unit: match d.kind {
                    Kind::Duration | Kind::DurationOrOff => Some("ms"),
                    Kind::Kilobytes(..) => Some("kB"),
                    Kind::Counted(unit) => Some(unit).filter(|unit| !unit.is_empty()),
                    _ => None,
                },
                category: "Client Connection Defaults",
                description: d.description,
                context: match d.kind {
                    Kind::Fixed => "internal",
                    _ if is_of_superusers(d.name) => "superuser",
                    _ => "user",
                },
                kind: match d.kind {
                    Kind::Bool => "bool",
                    Kind::Integer | Kind::Between(..) | Kind::Kilobytes(..) | Kind::Counted(_) => "integer",
                    Kind::Duration | Kind::DurationOrOff => "integer",
                    Kind::Real => "real",
                    Kind::Enum(_) | Kind::Only(_) => "enum",
                    Kind::Text | Kind::Fixed | Kind::Memory(_) => "string",
                },
                default: d.default.to_owned(),
            })
            .chain(self.server.iter().filter(|s| find(s.name).is_none()).map(|s| Setting {
                name: s.name.to_owned(),
                value: s.value.clone(),
                unit: None,
                category: "Server",
                description: s.description,
                context: "postmaster",
                kind: s.kind,
                default: s.default.to_owned(),
            }))
            .collect();
        out.sort_by_key(|s| s.name.to_ascii_lowercase());
        out
    }
}

/// Whether only superusers may change a parameter.
fn is_of_superusers(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "lc_messages",
        "log_min_duration_statement",
        "session_replication_role",
        "temp_file_limit",
        "deadlock_timeout",
        "log_duration",
        "log_error_verbosity",
        "log_lock_waits",
        "log_min_error_statement",
        "log_min_messages",
        "log_statement",
        "track_activities",
        "track_counts",
        "track_functions",
        "track_io_timing",
        "wal_compression",
    ];
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a name is one of a custom parameter: names without quotes, with dots between them (`valid_custom_variable_name`).
fn is_custom_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    name.contains('.')
        && name.split('.').all(|part| {
            part.starts_with(is_letter) && part.chars().all(|c| is_letter(c) || c.is_ascii_digit() || c == '$')
        })
}

fn unknown(name: &str) -> SqlError {
    SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}

fn invalid(definition: &Definition, value: &str) -> SqlError {
    SqlError::new("22023", format!("invalid value for parameter \"{}\": \"{value}\"", definition.name))
}

fn check(definition: &Definition, value: &str, styles: (Styles, Styles)) -> Result<String, SqlError> {
    let trimmed = value.trim();
    let lower = trimmed.to_ascii_lowercase();
    Ok(match definition.kind {
        Kind::Fixed => {
            return Err(SqlError::new("55P02", format!("parameter \"{}\" cannot be changed", definition.name)));
        }
        Kind::Bool => match lower.as_str() {
            "on" | "true" | "t" | "yes" | "1" => "on".to_owned(),
            "off" | "false" | "f" | "no" | "0" => "off".to_owned(),
            _ => {
                return Err(SqlError::new(
                    "22023",
                    format!("parameter \"{}\" requires a Boolean value", definition.name),
                ));
            }
        },
        Kind::Integer => trimmed.parse::<i64>().map_err(|_| invalid(definition, value))?.to_string(),
        Kind::Between(least, most) => {
            let number = trimmed.parse::<i64>().map_err(|_| invalid(definition, value))?;
            if !(least..=most).contains(&number) {
                let name = definition.name;
                let message =
                    format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
                return Err(SqlError::new("22023", message));
            }
            if definition.name == "extra_float_digits" && number < 1 {
                return Err(SqlError::unsupported("only the shortest exact digits of floats are supported")
                    .with_hint("Set \"extra_float_digits\" to 1 or more."));
            }
            number.to_string()
        }
        Kind::Real => {
            let number = trimmed.parse::<f64>().map_err(|_| invalid(definition, value))?;
            if number < 0.0 || !number.is_finite() {
                let range =
                    format!("is outside the valid range for parameter \"{}\" (0 .. 1.79769e+308)", definition.name);
                return Err(SqlError::new("22023", format!("{number} {range}")));
            }
            number.to_string()
        }
        Kind::Memory(least) => {
            let kilobytes = parse_kilobytes(trimmed).ok_or_else(|| invalid(definition, value))?;
            if !(least..=i32::MAX as u64).contains(&kilobytes) {
                let range =
                    format!("is outside the valid range for parameter \"{}\" ({least} .. 2147483647)", definition.name);
                return Err(SqlError::new("22023", format!("{kilobytes} kB {range}")));
            }
            show_kilobytes(kilobytes)
        }
        Kind::Only(other) => {
            let word = match lower.as_str() {
                "true" | "yes" | "1" => "on",
                "false" | "no" | "0" => "off",
                word => word,
            };
            if word == definition.default {
                word.to_owned()
            } else if word == other {
                let text = format!("\"{}\" set to \"{other}\" is not supported", definition.name);
                return Err(SqlError::unsupported(text));
            } else {
                return Err(invalid(definition, value));
            }
        }
        Kind::Enum(_) if definition.name == "session_replication_role" && lower == "replica" => {
            return Err(SqlError::unsupported("session_replication_role \"replica\" is not supported")
                .with_hint("Foreign keys are always enforced; NOT VALID or deferrable ones may help."));
        }
        Kind::Duration => parse_ms(&lower).ok_or_else(|| invalid(definition, value))?.to_string(),
        Kind::DurationOrOff if lower == "-1" => lower,
        Kind::DurationOrOff => parse_ms(&lower).ok_or_else(|| invalid(definition, value))?.to_string(),
        Kind::Kilobytes(least, most) => {
            let kb = parse_kb(trimmed).ok_or_else(|| {
                let hint = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
                invalid(definition, value).with_hint(hint)
            })?;
            if !(least..=most).contains(&kb) {
                let name = definition.name;
                let message =
                    format!("{kb} kB is outside the valid range for parameter \"{name}\" ({least} .. {most})");
                return Err(SqlError::new("22023", message));
            }
            kb.to_string()
        }
        Kind::Counted("") => match trimmed.parse::<i64>() {
            Ok(number) if (0..=i64::from(i32::MAX)).contains(&number) => number.to_string(),
            Ok(number) => {
                let range =
                    format!("is outside the valid range for parameter \"{}\" (0 .. 2147483647)", definition.name);
                return Err(SqlError::new("22023", format!("{number} {range}")));
            }
            Err(_) => return Err(invalid(definition, value)),
        },
        Kind::Counted(unit) => {
            let plain = lower.bytes().all(|byte| byte.is_ascii_digit());
            let factor = if unit == "s" { 1000 } else { 1 };
            let text = if plain { format!("{lower}{unit}") } else { lower };
            let ms = parse_ms(&text).ok_or_else(|| invalid(definition, value))?;
            ms.div_ceil(factor).to_string()
        }
        Kind::Enum(words) => match (words.iter().find(|word| **word == lower), lower.as_str()) {
            (Some(word), _) => (*word).to_owned(),
            (None, "true" | "yes" | "1") if words.contains(&"on") => "on".to_owned(),
            (None, "false" | "no" | "0") if words.contains(&"off") => "off".to_owned(),
            (None, "serializable") => {
                return Err(SqlError::unsupported("isolation level SERIALIZABLE is not supported")
                    .with_hint("REPEATABLE READ gives a consistent snapshot for the whole transaction."));
            }
            _ => return Err(invalid(definition, value)),
        },
        Kind::Text => match definition.name {
            "client_encoding" => match lower.replace(['-', '_'], "").as_str() {
                "utf8" | "unicode" => "UTF8".to_owned(),
                // Texts go as they are, which is what it asks for.
                "sqlascii" => "SQL_ASCII".to_owned(),
                _ => {
                    return Err(SqlError::unsupported(format!("client encoding \"{value}\" is not supported"))
                        .with_hint("UTF8 is."));
                }
            },
            "default_tablespace" if lower.is_empty() || lower == "pg_default" => lower,
            "default_table_access_method" if lower == "heap" => lower,
            "default_tablespace" | "default_table_access_method" => return Err(invalid(definition, value)),
            "lc_messages" if lower.starts_with("en") => value.to_owned(),
            "lc_messages" | "lc_monetary" | "lc_numeric" | "lc_time" => match lower.as_str() {
                "c" | "posix" | "c.utf-8" | "c.utf8" | "" => value.to_owned(),
                _ => {
                    let text = format!("\"{value}\" for parameter \"{}\" is not supported", definition.name);
                    return Err(SqlError::unsupported(text).with_hint("C is."));
                }
            },
            "DateStyle" => match styles.0.with_dates(value, styles.1) {
                Ok(styles) => styles.shown_dates(),
                Err(why) => {
                    return Err(invalid(definition, value).with_detail(match why {
                        BadStyle::Syntax => "List syntax is invalid.".to_owned(),
                        BadStyle::Word => "Unrecognized key word.".to_owned(),
                        BadStyle::Conflict => "Conflicting \"datestyle\" specifications.".to_owned(),
                    }));
                }
            },
            "IntervalStyle" => match styles.0.with_intervals(trimmed.trim_matches('\'')) {
                Some(styles) => styles.shown_intervals().to_owned(),
                None => {
                    let words = "Available values: postgres, postgres_verbose, sql_standard, iso_8601.";
                    return Err(invalid(definition, value).with_hint(words));
                }
            },
            "search_path" if search_path::split(value).is_none() => {
                return Err(invalid(definition, value).with_detail("List syntax is invalid."));
            }
            "TimeZone" => {
                let zone = trimmed.trim_matches('\'');
                Zone::of_setting(zone).ok_or_else(|| invalid(definition, value))?.1
            }
            _ => value.to_owned(),
        },
    })
}

/// Kilobytes of `1024`, `512kB`, `4MB`, `1GB`, `1TB`.
fn parse_kilobytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "kB" => 1.0,
        "B" => 1.0 / 1024.0,
        "MB" => 1024.0,
        "GB" => 1024.0 * 1024.0,
        "TB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let kilobytes = (number * unit).round();
    (0.0..=1e15).contains(&kilobytes).then_some(kilobytes as u64)
}

/// In the largest unit that it is a multiple of, as PostgreSQL shows it.
fn show_kilobytes(kilobytes: u64) -> String {
    for (unit, name) in [(1u64 << 30, "TB"), (1 << 20, "GB"), (1 << 10, "MB")] {
        if kilobytes > 0 && kilobytes.is_multiple_of(unit) {
            return format!("{}{name}", kilobytes / unit);
        }
    }
    format!("{kilobytes}kB")
}

fn format_ms(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Milliseconds of `1500`, `1500ms`, `2s`, `5min`, `1h`, `1d`.
fn parse_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit).filter(|ms| *ms <= i32::MAX as u64)
}

/// Kilobytes of `1500`, `1500kB`, `64MB`, `1GB`, `-1`.
fn parse_kb(text: &str) -> Option<i64> {
    let sign = usize::from(text.starts_with('-'));
    let digits = sign + text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" | "kB" => 1,
        "B" => return Some(number.checked_add(512)?.div_euclid(1024)),
        "MB" => 1 << 10,
        "GB" => 1 << 20,
        "TB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// As PostgreSQL shows it: in the largest unit of which it is a whole number.
fn show_kb(kb: i64) -> String {
    match kb {
        ..=0 => kb.to_string(),
        _ if kb % (1 << 30) == 0 => format!("{}TB", kb >> 30),
        _ if kb % (1 << 20) == 0 => format!("{}GB", kb >> 20),
        _ if kb % (1 << 10) == 0 => format!("{}MB", kb >> 10),
        _ => format!("{kb}kB"),
    }
}

fn show_ms(ms: u64) -> String {
    match ms {
        0 => "0".to_owned(),
        _ if ms.is_multiple_of(86_400_000) => format!("{}d", ms / 86_400_000),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}min", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}
