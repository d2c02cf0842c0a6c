//! Every setting of the server, in one table.
//!
//! The table below defines, for each setting, its config-file key (the name), its
//! environment variable, its command-line flag (the name with hyphens), its
//! default and its help. `--help`, the config file, the environment, `SHOW` and
//! `pg_settings` all read this table, so none of them can know a setting that
//! the others do not.
//!
//! Precedence: command line, then environment, then config file, then default.

pub mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use resurgam_engine::limits::PAGE_SIZE;
use resurgam_pageserver::Partitions;

use crate::files;
pub use value::{
    Authentication, Bytes, DoubleWriting, Kilobytes, Least, LogFormat, LogLevel, Seconds, ServerRole, Value,
};

/// A page cache smaller than this is not worth its disk's trouble.
const PAGE_CACHE_LEAST: u64 = 1 << 20;

/// What is known of a setting besides its value.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Config-file key and name in `SHOW`.
    pub name: &'static str,
    /// Command-line flag without the two hyphens.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// Default, as a user would write it.
    pub default: &'static str,
    /// One or two sentences.
    pub help: &'static str,
    /// `bool`, `integer`, `string` or `enum`.
    pub kind: &'static str,
    placeholder: &'static str,
    /// Never shown, and not accepted on the command line, which other users can read.
    pub secret: bool,
}

/// Where a setting's value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    Environment,
    CommandLine,
}

impl Source {
    /// The word in `pg_settings.source`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "configuration file",
            Self::Environment => "environment variable",
            Self::CommandLine => "command line",
        }
    }
}

/// One row for `SHOW ALL` and `pg_settings`.
#[derive(Debug, Clone)]
pub struct Row {
    pub definition: &'static Definition,
    pub value: String,
    pub source: Source,
}

macro_rules! settings {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:ty, $flag:literal, $env:literal, $default:literal $(, $secret:ident)?;)+) => {
        /// The server's settings; the fields are described where the table is.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $name: $kind,)+
            /// The file that settings were read from; empty: none.
            pub config_file: PathBuf,
            sources: BTreeMap<&'static str, Source>,
        }

        /// The table itself, in the order of `--help`.
        pub const DEFINITIONS: &[Definition] = &[$(Definition {
            name: stringify!($name),
            flag: $flag,
            env: $env,
            default: $default,
            help: concat!($($help),+),
            kind: <$kind as Value>::KIND,
            placeholder: <$kind as Value>::PLACEHOLDER,
            secret: false $(|| settings!(@$secret))?,
        }),+];

        impl Settings {
            /// Every setting at its default.
            pub fn defaults() -> Result<Self, String> {
                Ok(Self { $($name: <$kind as Value>::read($default)?,)+ config_file: PathBuf::new(), sources: BTreeMap::new() })
            }
            /// Sets `name` from what a user wrote; the error is about the value only.
            fn set(&mut self, name: &str, text: &str, source: Source) -> Result<(), String> {
                match name {
                    $(stringify!($name) => self.$name = <$kind as Value>::read(text)?,)+
                    _ => return Err("there is no such setting".into()),
                }
                if let Some(definition) = DEFINITIONS.iter().find(|definition| definition.name == name) {
                    self.sources.insert(definition.name, source);
                }
                Ok(())
            }
            fn shown(&self, name: &str) -> String {
                match name {
                    $(stringify!($name) => self.$name.show(),)+
                    _ => String::new(),
                }
            }
        }
    };
    (@secret) => { true };
}

settings! {
    /// Folder with the database's files; created when it is missing or empty.
    data: PathBuf, "data", "RESURGAM_DATA", "./resurgam-data";
    /// Address and port to listen on.
    listen: String, "listen", "RESURGAM_LISTEN", "127.0.0.1:5433";
    /// What this process is: primary, which runs the database; pageserver, which has pages of another process's database and gives them to it at --listen; or xlog, the log service, which gives out the log that a primary writes to a landing zone.
    role: ServerRole, "role", "RESURGAM_ROLE", "primary";
    /// For the role primary: addresses and ports of the page servers that have the pages, separated by commas. It needs an archive then. Empty: the pages are in the data folder.
    page_servers: String, "page-servers", "RESURGAM_PAGE_SERVERS", "";
    /// For the roles primary and xlog: folder of the landing zone, on a disk that all machines reach which may run the primary or the log service. The primary writes its log there, and nowhere else. Empty: the log is in the data folder (or log_dir).
    landing_zone: PathBuf, "landing-zone", "RESURGAM_LANDING_ZONE", "";
    /// For the role primary with a landing zone: a primary that is silent for so long loses the log to the next one.
    landing_zone_lease: Duration, "landing-zone-lease", "RESURGAM_LANDING_ZONE_LEASE", "5s";
    /// Flushes of the log that are under way at once, at most, from 1 to 16. They are acknowledged in order, whichever is durable first. 0: 4 in a landing zone, 1 in files of its own.
    log_flights: u32, "log-flights", "RESURGAM_LOG_FLIGHTS", "0";
    /// For the roles primary (with a landing zone) and pageserver: addresses and ports of the log services, separated by commas.
    log_services: String, "log-services", "RESURGAM_LOG_SERVICES", "";
    /// For the role primary with a landing zone: log services write the archive, which they are given as well (--archive), and merge it; the one that does gives up what is not promised, if it is given a recovery window and the backups (--recovery-window, --backups). off: this process does all of that.
    log_service_archives: bool, "log-service-archives", "RESURGAM_LOG_SERVICE_ARCHIVES", "off";
    /// For the role xlog: where the long-term log is kept, a folder or an object store as for the archive, and a place of its own.
    long_term_log: String, "long-term-log", "RESURGAM_LONG_TERM_LOG", "";
    /// For the role xlog: for how long. 0: for ever.
    long_term_retention: Duration, "long-term-retention", "RESURGAM_LONG_TERM_RETENTION", "30d";
    /// For the role xlog: disk space for the newest log, in its data folder. 0: none.
    log_cache_bytes: Bytes, "log-cache-bytes", "RESURGAM_LOG_CACHE_BYTES", "1GB";
    /// For the role primary with page servers and without a landing zone: address and port where they get the log.
    log_listen: String, "log-listen", "RESURGAM_LOG_LISTEN", "127.0.0.1:5434";
    /// A page server that has not asked for the log for so long is forgotten: log is no longer kept for it.
    page_server_lease: Duration, "page-server-lease", "RESURGAM_PAGE_SERVER_LEASE", "10min";
    /// How long a statement waits for a page that no page server gives.
    page_server_patience: Duration, "page-server-patience", "RESURGAM_PAGE_SERVER_PATIENCE", "1min";
    /// For a database over page servers, the same for all of its parts: bytes of a partition, whole megabytes. Page servers have some partitions each, or all pages.
    partition_bytes: Bytes, "partition-bytes", "RESURGAM_PARTITION_BYTES", "128GB";
    /// For the role pageserver: which partitions it has. Partitions are counted from the first page on, and as many as the database needs: 0/2 is every other one, 0,2-3/8 those whose number modulo 8 is 0, 2 or 3. all: all pages.
    partitions: String, "partitions", "RESURGAM_PARTITIONS", "all";
    /// For the role pageserver: threads that apply the log where it is behind, each to pages of its own. What comes bit by bit is applied by one. 0: as many as there are processors.
    apply_workers: u32, "apply-workers", "RESURGAM_APPLY_WORKERS", "1";
    /// For the role primary with page servers: folder of the page cache, on a fast local disk: copies of pages that have left memory, which are asked for there before a page server is. Nothing in it is ever needed. Empty: the folder page-cache in the data folder.
    page_cache: PathBuf, "page-cache", "RESURGAM_PAGE_CACHE", "";
    /// For the role primary with page servers: most disk space for the page cache. 0: there is none.
    page_cache_bytes: Bytes, "page-cache-bytes", "RESURGAM_PAGE_CACHE_BYTES", "0";
    /// For the role primary with page servers: most pages that a scan asks them for at once, before it comes to them; 0: each when it is needed.
    read_ahead_pages: u32, "read-ahead-pages", "RESURGAM_READ_AHEAD_PAGES", "128";
    /// For the role pageserver without log services: address and port where the primary gives the log (its --log-listen).
    primary: String, "primary", "RESURGAM_PRIMARY", "127.0.0.1:5434";
    /// Address and port of the HTTP endpoint with /metrics (Prometheus), /health and /ready, for instance 127.0.0.1:9187. It asks for no password: give it an address that only your monitoring reaches. Empty: none.
    metrics_listen: String, "metrics-listen", "RESURGAM_METRICS_LISTEN", "";
    /// Memory for pages of tables and indexes.
    buffer_bytes: Bytes, "buffer-bytes", "RESURGAM_BUFFER_BYTES", "1GB";
    /// Memory for sorts, hashes and aggregates of all queries together; beyond it they spill to disk.
    query_memory_bytes: Bytes, "query-memory-bytes", "RESURGAM_QUERY_MEMORY_BYTES", "1GB";
    /// Memory for notifications (NOTIFY) that listeners have not taken yet, all together; beyond it who tells more fails.
    notify_queue_bytes: Bytes, "notify-queue-bytes", "RESURGAM_NOTIFY_QUEUE_BYTES", "64MB";
    /// Folder in which the folder of temporary files (resurgam_tmp) is made, on another disk for instance. Empty: the data folder.
    temp_directory: PathBuf, "temp-directory", "RESURGAM_TEMP_DIRECTORY", "";
    /// Temporary files of one session at a time, in kilobytes; -1 for no limit. A superuser can change it with SET.
    temp_file_limit: Kilobytes, "temp-file-limit", "RESURGAM_TEMP_FILE_LIMIT", "-1";
    /// Memory of one sort or aggregate before it goes to temporary files, in kilobytes or with a unit. A session can change it with SET.
    work_mem: Kilobytes, "work-mem", "RESURGAM_WORK_MEM", "64MB";
    /// Clients at one time.
    max_connections: u32, "max-connections", "RESURGAM_MAX_CONNECTIONS", "100";
    /// Of these, places that only a superuser gets.
    superuser_reserved_connections: u32, "superuser-reserved-connections", "RESURGAM_SUPERUSER_RESERVED_CONNECTIONS", "3";
    /// Connections that have not logged in, at one time; a new one takes the place of one of the address that has most.
    unauthenticated_connections_max: u32, "unauthenticated-connections-max", "RESURGAM_UNAUTHENTICATED_CONNECTIONS_MAX", "400";
    /// Of these, connections of one address (of an IPv6 network of 64 bits); a new one takes the place of one of them.
    unauthenticated_connections_per_address_max: u32, "unauthenticated-connections-per-address-max", "RESURGAM_UNAUTHENTICATED_CONNECTIONS_PER_ADDRESS_MAX", "200";
    /// Whether a commit waits until it is on disk. Off: a crash can lose the last moments' commits, never consistency.
    synchronous_commit: bool, "synchronous-commit", "RESURGAM_SYNCHRONOUS_COMMIT", "on";
    /// Longest time that a commit which did not wait for the disk (synchronous_commit off) stays in memory only; from 1ms to 10s.
    wal_writer_delay: Duration, "wal-writer-delay", "RESURGAM_WAL_WRITER_DELAY", "200ms";
    /// Log written between two checkpoints; it bounds the work, and so the time, to open after a crash.
    checkpoint_log_bytes: Bytes, "checkpoint-log-bytes", "RESURGAM_CHECKPOINT_LOG_BYTES", "64MB";
    /// Log on disk that the server aims at: changed pages are written out early enough. More of it means fewer writes of pages that change often, and a longer recovery in the background.
    log_bytes_wanted: Bytes, "log-bytes-wanted", "RESURGAM_LOG_BYTES_WANTED", "160MB";
    /// Log on disk, at most: writers are slowed down when it comes near.
    log_bytes_max: Bytes, "log-bytes-max", "RESURGAM_LOG_BYTES_MAX", "1GB";
    /// Folder of the log, on another disk for instance; of a new database it is made if missing, and must be empty. Empty: the one that the database has, or log in its data folder.
    log_dir: PathBuf, "log-dir", "RESURGAM_LOG_DIR", "";
    /// Where the log is archived, sorted by page (for the role xlog: by this log service, see log_service_archives): a folder, made if it is missing, or s3://, gs://, az:// and a bucket. Empty: nowhere.
    archive: String, "archive", "RESURGAM_ARCHIVE", "";
    /// Where backups are (SELECT resurgam_backup(); for the role xlog: those that it gives up when no promised point needs them): a folder, made if it is missing, or s3://, gs://, az:// and a bucket. They need an archive. Empty: nowhere.
    backups: String, "backups", "RESURGAM_BACKUPS", "";
    /// A backup is made by itself when the newest one is so old (1d, 12h), or there is none; after the first from the one before and the archive. 0: only when it is asked for.
    backup_interval: Duration, "backup-interval", "RESURGAM_BACKUP_INTERVAL", "0";
    /// Most bytes that a backup reads in a second; 0 for no limit.
    backup_bytes_per_second: Bytes, "backup-bytes-per-second", "RESURGAM_BACKUP_BYTES_PER_SECOND", "0";
    /// How far back points in time are promised (7d, 12h; the same for the primary and for log services that archive): what no point of this time, no clone and no restore needs of the archive and the backups is given up. 0: everything is kept.
    recovery_window: Duration, "recovery-window", "RESURGAM_RECOVERY_WINDOW", "0";
    /// Most log records of a page that make it from the archive: with an archive the page's image is logged before there are more; 1 to 15 count as 16; 0: never.
    archive_records_per_page_max: u32, "archive-records-per-page-max", "RESURGAM_ARCHIVE_RECORDS_PER_PAGE_MAX", "256";
    /// Most of all processors' time that merging the archive's runs takes while others want them, in percent, unless too many runs wait; at 100 it does not step back.
    archive_cpu_percent: u32, "archive-cpu-percent", "RESURGAM_ARCHIVE_CPU_PERCENT", "1";
    /// A folder on another device, where the data is restored to if its own one dies while the server runs, which goes on; it becomes the data folder then. Empty: its files are made anew in their place.
    spare_data: PathBuf, "spare-data", "RESURGAM_SPARE_DATA", "";
    /// A device of pages that does not answer a call for so long is given up and replaced like a dead one, where there are an archive and a spare-data folder on another device; without these it is waited for. 0: always.
    device_timeout: Duration, "device-timeout", "RESURGAM_DEVICE_TIMEOUT", "1min";
    /// Most of all processors' time that a restore takes, while others want them, for what nobody has asked for yet, in percent; at 100 it does not step back.
    restore_cpu_percent: u32, "restore-cpu-percent", "RESURGAM_RESTORE_CPU_PERCENT", "5";
    /// Whether changed pages are written twice, against writes that a power loss tears. auto: unless archive (and backups) have every page, so that a torn one is rebuilt; off: never, where file system and device tear no write of 8 kB.
    double_writes: DoubleWriting, "double-writes", "RESURGAM_DOUBLE_WRITES", "auto";
    /// Size of one log file; fixed when the database is created.
    log_segment_bytes: Bytes, "log-segment-bytes", "RESURGAM_LOG_SEGMENT_BYTES", "16MB";
    /// Time between two sweeps for row versions that nobody needs any more.
    cleaner_interval: Duration, "cleaner-interval", "RESURGAM_CLEANER_INTERVAL", "10s";
    /// Time between two looks whether tables have changed so much that what is known of their values should be found out anew; 0: that is left to ANALYZE.
    analyze_interval: Duration, "analyze-interval", "RESURGAM_ANALYZE_INTERVAL", "1min";
    /// Threads of a sweep; 0 for one per processor, at most 4.
    cleaner_threads: u32, "cleaner-threads", "RESURGAM_CLEANER_THREADS", "0";
    /// Most pages that a sweep visits in a second; 0 for no limit. It goes faster by itself when it falls behind.
    cleaner_pages_per_second: u32, "cleaner-pages-per-second", "RESURGAM_CLEANER_PAGES_PER_SECOND", "10000";
    /// Share of its time that each thread of a sweep works, in percent. It works more by itself when it falls behind.
    cleaner_cpu_percent: u32, "cleaner-cpu-percent", "RESURGAM_CLEANER_CPU_PERCENT", "50";
    /// Whether VACUUM makes holes in the data file where nothing is, besides cutting its end off, so that the file system has that space back.
    punch_holes: bool, "punch-holes", "RESURGAM_PUNCH_HOLES", "on";
    /// Transactions that may be prepared (PREPARE TRANSACTION) and not yet resolved at one time; 0: none can be prepared.
    max_prepared_transactions: u32, "max-prepared-transactions", "RESURGAM_MAX_PREPARED_TRANSACTIONS", "1000";
    /// Rows that transactions may lock FOR SHARE or FOR KEY SHARE together; who locks more has them for itself alone. Each takes some hundred bytes and its key.
    shared_row_locks_max: u32, "shared-row-locks-max", "RESURGAM_SHARED_ROW_LOCKS_MAX", "100000";
    /// Keep the version before a change in the row itself, as a difference. Off: always in the version store; for measurements.
    in_row_versioning: bool, "in-row-versioning", "RESURGAM_IN_ROW_VERSIONING", "on";
    /// Longest difference that is kept in the row; longer ones go to the version store.
    in_row_diff_bytes_max: Bytes, "in-row-diff-bytes-max", "RESURGAM_IN_ROW_DIFF_BYTES_MAX", "256";
    /// Longest row, its difference included, that keeps one.
    in_row_record_bytes_max: Bytes, "in-row-record-bytes-max", "RESURGAM_IN_ROW_RECORD_BYTES_MAX", "2000";
    /// File for earlier row versions that do not fit in the row, on another disk for instance; made if it does not exist. Empty: the one that the database has, or its data file.
    version_store_path: PathBuf, "version-store-path", "RESURGAM_VERSION_STORE_PATH", "";
    /// Most that off-row versions may take; 0 for as much as the disk has.
    version_store_bytes_max: Bytes, "version-store-bytes-max", "RESURGAM_VERSION_STORE_BYTES_MAX", "0";
    /// The version-store file is lost for good: go on without it. Rows under aborted transactions whose earlier version was in it cannot be read any more.
    version_store_lost: bool, "version-store-lost", "RESURGAM_VERSION_STORE_LOST", "off";
    /// Version pages kept ready in advance, so that writers need not allocate them.
    version_pages_ready: u32, "version-pages-ready", "RESURGAM_VERSION_PAGES_READY", "64";
    /// A transaction that changed at most so many rows (and wrote at most short_rollback_bytes of log) is undone at once when it rolls back; a longer one is marked as aborted. 0: all are.
    short_rollback_operations: u32, "short-rollback-operations", "RESURGAM_SHORT_ROLLBACK_OPERATIONS", "200";
    /// See short_rollback_operations.
    short_rollback_bytes: Bytes, "short-rollback-bytes", "RESURGAM_SHORT_ROLLBACK_BYTES", "256kB";
    /// Recovery and rollback in constant time, for a database that is being created; later: ALTER DATABASE postgres SET accelerated_database_recovery = on | off. Off is the traditional mode: undo through the log.
    accelerated_database_recovery: bool, "accelerated-database-recovery", "RESURGAM_ACCELERATED_DATABASE_RECOVERY", "on";
    /// Memory for earlier row versions in the traditional mode.
    temporary_version_bytes_max: Bytes, "temporary-version-bytes-max", "RESURGAM_TEMPORARY_VERSION_BYTES_MAX", "4GB";
    /// Longest run of one statement; 0 for no limit. A session can change it with SET.
    statement_timeout: Duration, "statement-timeout", "RESURGAM_STATEMENT_TIMEOUT", "0";
    /// Longest pause of a client inside a transaction before it is disconnected; 0 for no limit. A session can change it with SET.
    idle_in_transaction_session_timeout: Duration, "idle-in-transaction-session-timeout", "RESURGAM_IDLE_IN_TRANSACTION_SESSION_TIMEOUT", "0";
    /// Longest pause of a client outside of a transaction before it is disconnected; 0 for no limit. A session can change it with SET.
    idle_session_timeout: Duration, "idle-session-timeout", "RESURGAM_IDLE_SESSION_TIMEOUT", "0";
    /// Silence after which a client is asked whether it is still there, in seconds; 0 for the system's default. A session can change this and the following four with SET.
    tcp_keepalives_idle: Seconds, "tcp-keepalives-idle", "RESURGAM_TCP_KEEPALIVES_IDLE", "60";
    /// Time after which it is asked again, in seconds; 0 for the system's default.
    tcp_keepalives_interval: Seconds, "tcp-keepalives-interval", "RESURGAM_TCP_KEEPALIVES_INTERVAL", "10";
    /// How often it is asked before the connection counts as lost; 0 for the system's default.
    tcp_keepalives_count: u32, "tcp-keepalives-count", "RESURGAM_TCP_KEEPALIVES_COUNT", "0";
    /// Time after which a connection is lost whose client's machine does not acknowledge what was sent; 0 for the system's default.
    tcp_user_timeout: Duration, "tcp-user-timeout", "RESURGAM_TCP_USER_TIMEOUT", "0";
    /// How often it is looked whether the client of a running statement is still there; 0 for never.
    client_connection_check_interval: Duration, "client-connection-check-interval", "RESURGAM_CLIENT_CONNECTION_CHECK_INTERVAL", "0";
    /// Longest time that a client may take to log in, encryption included.
    authentication_timeout: Duration, "authentication-timeout", "RESURGAM_AUTHENTICATION_TIMEOUT", "1min";
    /// After so long without an answer of the threads that serve sessions /health says 503, and who is in the way; 0: never.
    stall_timeout: Duration, "stall-timeout", "RESURGAM_STALL_TIMEOUT", "10s";
    /// Time that running statements get to finish when the server stops.
    shutdown_timeout: Duration, "shutdown-timeout", "RESURGAM_SHUTDOWN_TIMEOUT", "10s";
    /// How clients prove who they are: trust (no password; only for addresses of this machine) or scram-sha-256.
    authentication: Authentication, "authentication", "RESURGAM_AUTHENTICATION", "trust";
    /// File with the host rules (who may come in from where, and how they prove who they are), in the format of PostgreSQL's pg_hba.conf; it replaces the setting authentication. Read again at SIGHUP and by pg_reload_conf(). Empty: no file.
    hba_file: PathBuf, "hba-file", "RESURGAM_HBA_FILE", "";
    /// File whose first line is the password of the user postgres, or its SCRAM-SHA-256 verifier.
    password_file: PathBuf, "password-file", "RESURGAM_PASSWORD_FILE", "";
    /// The password itself, or its SCRAM-SHA-256 verifier; only in the environment or the config file.
    password: String, "password", "RESURGAM_PASSWORD", "", secret;
    /// Allow trust authentication on an address that other machines can reach.
    insecure_trust: bool, "insecure-trust", "RESURGAM_INSECURE_TRUST", "off";
    /// Certificate chain in PEM form; with tls-key it turns TLS on.
    tls_cert: PathBuf, "tls-cert", "RESURGAM_TLS_CERT", "";
    /// Private key in PEM form.
    tls_key: PathBuf, "tls-key", "RESURGAM_TLS_KEY", "";
    /// Certificates of the authorities whose clients' certificates count, in PEM form; for the host rules' method cert and option clientcert. Empty: none.
    tls_ca: PathBuf, "tls-ca", "RESURGAM_TLS_CA", "";
    /// Refuse clients without TLS, whatever the host rules say.
    tls_required: bool, "tls-required", "RESURGAM_TLS_REQUIRED", "off";
    /// For a database in parts: this part's certificate chain in PEM form, which it shows to the others as client and as server. With tier-tls-key and tier-tls-ca it turns TLS between the parts on: who has no certificate of that authority is refused. All three are read again when they change. Empty: nothing is encrypted.
    tier_tls_cert: PathBuf, "tier-tls-cert", "RESURGAM_TIER_TLS_CERT", "";
    /// Its private key in PEM form.
    tier_tls_key: PathBuf, "tier-tls-key", "RESURGAM_TIER_TLS_KEY", "";
    /// Certificates of the authority of all parts, and of nobody else, in PEM form.
    tier_tls_ca: PathBuf, "tier-tls-ca", "RESURGAM_TIER_TLS_CA", "";
    /// Longest message from a client (a statement, a parameter set, a COPY chunk).
    message_bytes_max: Bytes, "message-bytes-max", "RESURGAM_MESSAGE_BYTES_MAX", "1GB";
    /// Threads that run statements; 0 for one per processor and one more.
    worker_threads: u32, "worker-threads", "RESURGAM_WORKER_THREADS", "0";
    /// Write a line to the log for each connection that comes, proves who it is, and gets in. Failed logins always have one.
    log_connections: bool, "log-connections", "RESURGAM_LOG_CONNECTIONS", "off";
    /// Write a line to the log for each session that ends.
    log_disconnections: bool, "log-disconnections", "RESURGAM_LOG_DISCONNECTIONS", "off";
    /// Write statements to the log that take at least so long; 0 for all, -1 for none. A session can change it with SET.
    log_min_duration_statement: Least, "log-min-duration-statement", "RESURGAM_LOG_MIN_DURATION_STATEMENT", "-1";
    /// How much the server says: error, warn, info, debug or trace.
    log_level: LogLevel, "log-level", "RESURGAM_LOG_LEVEL", "info";
    /// Shape of the server's log lines: text or compact.
    log_format: LogFormat, "log-format", "RESURGAM_LOG_FORMAT", "text";
}

/// Environment variable that names the config file, as `--config` does.
const CONFIG_ENV: &str = "RESURGAM_CONFIG";

/// Adds a flag for each setting, and `--config`, to a command.
pub fn add_flags(mut command: Command) -> Command {
    command = command.arg(
        Arg::new("config")
            .long("config")
            .env(CONFIG_ENV)
            .value_name("FILE")
            .help("Config file (TOML), one key per setting"),
    );
    for definition in DEFINITIONS.iter().filter(|definition| !definition.secret) {
        let mut help = definition.help.trim().to_owned();
        help.push_str(&format!(" [config key: {}]", definition.name));
        if !definition.default.is_empty() {
            help.push_str(&format!(" [default: {}]", definition.default));
        }
        let mut arg = Arg::new(definition.name)
            .long(definition.flag)
            .env(definition.env)
            .value_name(definition.placeholder.trim_start_matches('|'))
            .help(help);
        if definition.kind == "bool" {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value("on");
        }
        command = command.arg(arg);
    }
    command
}

impl Settings {
    /// Reads every source in order of precedence.
    ///
    /// Errors are complete sentences for the terminal, naming the flag, variable
    /// or file key that is wrong.
    pub fn from_matches(matches: &ArgMatches) -> Result<Self, String> {
        let mut settings = Self::defaults()?;
        if let Some(path) = matches.get_one::<String>("config") {
            settings.read_file(Path::new(path))?;
        }
        for definition in DEFINITIONS {
            if definition.secret {
                if let Some(text) = std::env::var_os(definition.env) {
                    let text = text.to_str().ok_or_else(|| format!("{} is not UTF-8 text", definition.env))?;
                    settings
                        .set(definition.name, text, Source::Environment)
                        .map_err(|error| format!("{}: {error}", definition.env))?;
                }
                continue;
            }
            let Some(text) = matches.get_one::<String>(definition.name) else { continue };
            let (source, place) = match matches.value_source(definition.name) {
                Some(ValueSource::EnvVariable) => (Source::Environment, definition.env.to_owned()),
                _ => (Source::CommandLine, format!("--{}", definition.flag)),
            };
            settings.set(definition.name, text, source).map_err(|error| format!("{place}: {error}"))?;
        }
        settings.check()?;
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), String> {
        self.config_file = path.to_owned();
        let place = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("could not read the config file {place}: {error}"))?;
        self.read_toml(&text).map_err(|error| format!("config file {place}: {error}"))?;
        // With the password in it, it is a secret.
        if self.password.is_empty() { Ok(()) } else { files::check_secret("config file with a password", path) }
    }

    fn read_toml(&mut self, text: &str) -> Result<(), String> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        for (name, value) in table {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => on.show(),
                other => return Err(format!("{name}: a {} is not expected here", other.type_str())),
            };
            self.set(&name, &text, Source::File).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// What only several settings together can get wrong.
    fn check(&self) -> Result<(), String> {
        if self.tls_cert.as_os_str().is_empty() != self.tls_key.as_os_str().is_empty() {
            return Err("tls_cert and tls_key belong together: give both or neither".into());
        }
        let no_tls = self.tls_cert.as_os_str().is_empty();
        if no_tls && self.tls_required {
            return Err("tls_required needs tls_cert and tls_key".into());
        }
        if no_tls && !self.tls_ca.as_os_str().is_empty() {
            return Err("tls_ca needs tls_cert and tls_key".into());
        }
        if !self.password.is_empty() && !self.password_file.as_os_str().is_empty() {
            return Err("give either password or password_file, not both".into());
        }
        if !(1..=100).contains(&self.cleaner_cpu_percent) {
            return Err("cleaner_cpu_percent must be from 1 to 100".into());
        }
        if !(1..=100).contains(&self.archive_cpu_percent) {
            return Err("archive_cpu_percent must be from 1 to 100".into());
        }
        if !(1..=100).contains(&self.restore_cpu_percent) {
            return Err("restore_cpu_percent must be from 1 to 100".into());
        }
        self.check_roles()?;
        // PostgreSQL's range.
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&self.wal_writer_delay) {
            return Err("wal_writer_delay must be from 1ms to 10s".into());
        }
        if self.max_connections == 0 {
            return Err("max_connections must be at least 1".into());
        }
        if self.superuser_reserved_connections >= self.max_connections {
            return Err(format!(
                "superuser_reserved_connections ({}) must be less than max_connections ({})",
                self.superuser_reserved_connections, self.max_connections
            ));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&self.authentication_timeout) {
            return Err("authentication_timeout must be from 1s to 10min".into());
        }
        if self.unauthenticated_connections_max == 0 || self.unauthenticated_connections_per_address_max == 0 {
            return Err("unauthenticated_connections_max and unauthenticated_connections_per_address_max must be at \
                        least 1"
                .into());
        }
        let has_places = !self.backups.trim().is_empty() && !self.archive.trim().is_empty();
        if !self.backup_interval.is_zero() && !has_places {
            return Err("backup_interval needs a place for backups (backups), and an archive (archive)".into());
        }
        Ok(())
    }

    fn check_roles(&self) -> Result<(), String> {
        let has_pages_elsewhere = !self.page_servers.trim().is_empty();
        if self.role == ServerRole::PageServer && has_pages_elsewhere {
            return Err("page_servers is for the role primary: a page server has the pages itself".into());
        }
        let partitions = self.partitions().map_err(|error| format!("partitions: {error}"))?;
        if self.role != ServerRole::PageServer && !partitions.is_all() {
            return Err("partitions is for the role pageserver: a primary asks page servers which they have".into());
        }
        let has_cache = self.page_cache_bytes.0 > 0 || !self.page_cache.as_os_str().is_empty();
        if has_cache && !(self.role == ServerRole::Primary && has_pages_elsewhere) {
            return Err(
                "a page cache (page_cache, page_cache_bytes) is for a primary with page servers (--page-servers)"
                    .into(),
            );
        }
        if has_cache && self.page_cache_bytes.0 < PAGE_CACHE_LEAST {
            return Err(format!("page_cache_bytes must be at least {} MB for a page cache", PAGE_CACHE_LEAST >> 20));
        }
        let tier_tls = [&self.tier_tls_cert, &self.tier_tls_key, &self.tier_tls_ca];
        let given = tier_tls.iter().filter(|path| !path.as_os_str().is_empty()).count();
        if given != 0 && given != tier_tls.len() {
            return Err("tier_tls_cert, tier_tls_key and tier_tls_ca belong together: give all three or none".into());
        }
        if given != 0 && self.role == ServerRole::Primary && !has_pages_elsewhere {
            return Err(
                "tier_tls_cert, tier_tls_key and tier_tls_ca are for a database in parts (--page-servers, --role); \
                        for PostgreSQL clients give tls_cert and tls_key"
                    .into(),
            );
        }
        let has_zone = !self.landing_zone.as_os_str().is_empty();
        match self.role {
            ServerRole::Xlog if !has_zone || self.long_term_log.trim().is_empty() => {
                return Err("a log service needs the landing zone (--landing-zone) and a place for the long-term log \
                            (--long-term-log)"
                    .into());
            }
            ServerRole::Primary if has_zone && !has_pages_elsewhere => {
                return Err("a landing zone goes with page servers only (--page-servers)".into());
            }
            ServerRole::Primary if has_zone && self.log_service_addresses().is_empty() => {
                return Err("a landing zone needs a log service (--log-services), which frees it".into());
            }
            ServerRole::Primary if self.log_service_archives && (!has_zone || self.archive.trim().is_empty()) => {
                return Err(
                    "log_service_archives goes with a landing zone (--landing-zone) and an archive (--archive)".into(),
                );
            }
            ServerRole::Primary if has_zone && !self.log_dir.as_os_str().is_empty() => {
                return Err("log_dir and landing_zone both say where the log is: give one of them".into());
            }
            _ => {}
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&self.landing_zone_lease) {
            return Err("landing_zone_lease must be from 1s to 10min".into());
        }
        if self.log_flights > 16 {
            return Err("log_flights must be from 0 to 16".into());
        }
        if (self.role == ServerRole::PageServer || has_pages_elsewhere) && self.archive.is_empty() {
            return Err(
                "a database over page servers needs an archive (--archive): a new page server begins with it".into()
            );
        }
        for (of, address) in self
            .page_server_addresses()
            .into_iter()
            .map(|address| ("page_servers", address))
            .chain(self.log_service_addresses().into_iter().map(|address| ("log_services", address)))
        {
            let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
            if port.is_none_or(|port| port.parse::<u16>().is_err()) {
                return Err(format!("{of}: {address:?} is not an address and port; write for instance 10.0.0.7:5440"));
            }
        }
        Ok(())
    }

    /// The single addresses of `page_servers`.
    pub fn page_server_addresses(&self) -> Vec<String> {
        addresses(&self.page_servers)
    }

    /// Whether what the parts say to each other is encrypted.
    pub fn has_tier_tls(&self) -> bool {
        !self.tier_tls_cert.as_os_str().is_empty()
    }

    /// Pages of a partition.
    pub fn partition_pages(&self) -> u64 {
        self.partition_bytes.0 / PAGE_SIZE as u64
    }

    /// Which partitions a page server has.
    ///
    /// # Errors
    /// A sentence for the terminal.
    pub fn partitions(&self) -> Result<Partitions, String> {
        if !self.partition_bytes.0.is_multiple_of(1 << 20) || self.partition_bytes.0 == 0 {
            return Err(format!("partition_bytes must be whole megabytes, not {}", self.partition_bytes.show()));
        }
        Partitions::parse(&self.partitions, self.partition_pages()).map_err(|error| error.message().to_owned())
    }

    /// The single addresses of `log_services`.
    pub fn log_service_addresses(&self) -> Vec<String> {
        addresses(&self.log_services)
    }

    /// Every setting with its value, for `SHOW ALL` and `pg_settings`.
    pub fn rows(&self) -> Vec<Row> {
        DEFINITIONS
            .iter()
            .map(|definition| Row {
                definition,
                value: match definition.secret {
                    true if self.shown(definition.name).is_empty() => String::new(),
                    true => "********".into(),
                    false => self.shown(definition.name),
                },
                source: self.sources.get(definition.name).copied().unwrap_or(Source::Default),
            })
            .collect()
    }
}

fn addresses(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Settings, String> {
        let mut full = vec!["serve"];
        full.extend(args);
        let matches = add_flags(Command::new("serve")).try_get_matches_from(full).map_err(|error| error.to_string())?;
        Settings::from_matches(&matches)
    }

    #[test]
    fn names_flags_and_variables_agree() {
        for definition in DEFINITIONS {
            assert_eq!(definition.flag, definition.name.replace('_', "-"));
            assert_eq!(definition.env, format!("RESURGAM_{}", definition.name.to_uppercase()));
        }
        Settings::defaults().unwrap();
        add_flags(Command::new("serve")).debug_assert();
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "max_connections = 7\nbuffer_bytes = \"2GB\"\nsynchronous_commit = false\n")
            .unwrap();
        let path = file.path().to_str().unwrap();
        let settings = parse(&["--config", path, "--max-connections", "9", "--insecure-trust"]).unwrap();
        assert_eq!(settings.max_connections, 9);
        assert_eq!(settings.buffer_bytes, Bytes(2 << 30));
        assert!(!settings.synchronous_commit);
        assert!(settings.insecure_trust);
        let row = |name: &str| settings.rows().into_iter().find(|row| row.definition.name == name).unwrap();
        assert_eq!(row("max_connections").source, Source::CommandLine);
        assert_eq!(row("buffer_bytes").source, Source::File);
        assert_eq!(row("listen").source, Source::Default);
    }

    #[test]
    fn mistakes_name_their_place() {
        assert!(parse(&["--buffer-bytes", "lots"]).unwrap_err().contains("--buffer-bytes"));
        assert!(parse(&["--tls-cert", "x"]).unwrap_err().contains("tls_key"));
        for (text, is_good) in [("0", false), ("999us", false), ("1", true), ("10s", true), ("10001", false)] {
            let outcome = parse(&["--wal-writer-delay", text]);
            assert_eq!(outcome.is_ok(), is_good, "{text}");
            assert!(is_good || outcome.unwrap_err().contains("wal_writer_delay"), "{text}");
        }
        let mut settings = Settings::defaults().unwrap();
        assert!(settings.read_toml("no_such = 1").unwrap_err().contains("no_such"));
        assert!(settings.read_toml("listen = [1]").unwrap_err().contains("listen"));
    }

    #[test]
    fn the_password_is_never_shown() {
        let mut settings = Settings::defaults().unwrap();
        settings.read_toml("password = \"hunter2\"").unwrap();
        assert!(settings.rows().iter().all(|row| !row.value.contains("hunter2")));
    }
}
