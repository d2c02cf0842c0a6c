//! `resurgam serve`: open the data folder, serve it, close it.
//!
//! ```text
//! bind ──► open (create | open | recover) ──► serve ──SIGINT or SIGTERM──► end sessions ──► checkpoint ──► exit 0
//!                                               └──── a second signal at any time: exit at once; the log has everything
//! ```

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_cluster::Tls;
use resurgam_engine::{Database, DoubleWrites, LogZoneHandle, Options, RecoveryReport};
use resurgam_sql::{ServerSetting, SqlDatabase, SqlSettings};
use resurgam_vfs::RealVfs;
use tokio::signal::unix::{SignalKind, signal};

use crate::access::Gate;
use crate::monitor::Monitor;
use crate::roles::{page_server, tls as tier_tls, xlog};
use crate::server::{Server, Stopper, stopper};
use crate::settings::{DoubleWriting, LogFormat, ServerRole, Settings};
use crate::{files, network};

/// How often a long recovery says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Serves until told to stop. Errors are sentences for the terminal.
pub fn run(settings: Settings) -> Result<ExitCode, String> {
    files::close_to_others();
    start_log(&settings);
    if settings.role == ServerRole::PageServer {
        return page_server::run(&settings);
    }
    if settings.role == ServerRole::Xlog {
        return xlog::run(&settings);
    }
    page_server::refuse_strangers(&settings)?;
    let runtime = runtime(&settings)?;
    runtime.block_on(async {
        let server = Server::bind(settings.clone()).await?;
        let address = server.address().map_err(|error| format!("the listener has no address: {error}"))?;
        let monitor = server.monitor();
        // Kept until the process ends: it tells that the server is stopping, too.
        let endpoint = server.endpoint();
        if let Some(endpoint) = &endpoint {
            say(&format!("Metrics on http://{}/metrics; beside it /health and /ready.", endpoint.address()));
        }
        let (stop, stopped) = stopper();
        {
            let _there = server.front().enter();
            watch_signals(stop, server.gate()).map_err(|error| format!("could not watch for signals: {error}"))?;
        }

        let created = is_new(&settings.data);
        let begun = Instant::now();
        let database = {
            let (settings, tls) = (settings.clone(), server.gate().tier_tls());
            tokio::task::spawn_blocking(move || open_watched(&settings, tls, Some(&monitor)))
                .await
                .map_err(|error| error.to_string())??
        };
        let verb = if created { "created" } else { "opened" };
        say(&format!("Data folder {} {verb} in {:.3} s.", settings.data.display(), begun.elapsed().as_secs_f64()));
        if !created {
            say_recovery(database.recovery());
        }
        say(&format!("Listening on {address}. Connect with:"));
        let host = match address.ip() {
            ip if ip.is_unspecified() => "127.0.0.1".into(),
            ip => ip.to_string(),
        };
        say(&format!("    psql -h {host} -p {} -U postgres", address.port()));
        let sql = SqlDatabase::new(database.clone(), sql_settings(&settings));
        server.run(sql, stopped).await;
        say("Stopping: writing a checkpoint.");
        tokio::task::spawn_blocking(move || database.close()).await.map_err(|error| error.to_string())?.map_err(
            |error| format!("the last checkpoint failed: {error}; the log has everything that was committed"),
        )?;
        drop(endpoint);
        say("Stopped.");
        Ok(ExitCode::SUCCESS)
    })
}

/// A runtime with as many threads as the settings say, or one more than there are processors: a processor is not idle while one of them is being woken up
/// by another (docs/measurements/oltp.md: sysbench's reads, whose clients each wait on a thread of their own, are 2 to 5 % faster).
pub fn runtime(settings: &Settings) -> Result<tokio::runtime::Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let of_processors = || std::thread::available_parallelism().map_or(2, |processors| processors.get() + 1);
    builder.worker_threads(match settings.worker_threads {
        0 => of_processors(),
        threads => threads as usize,
    });
    // As deep as statements may be; memory is taken as it is used.
    builder.thread_stack_size(resurgam_sql::STACK_BYTES);
    builder.thread_name("session").enable_all().build().map_err(|error| format!("could not start threads: {error}"))
}

/// Opens the data folder as the settings say.
pub fn open(settings: &Settings) -> Result<Database, String> {
    open_watched(settings, tier_tls::open(settings)?, None)
}

fn open_watched(settings: &Settings, tls: Option<Arc<Tls>>, monitor: Option<&Monitor>) -> Result<Database, String> {
    let begun = Instant::now();
    let mut said = begun;
    let vfs = Arc::new(RealVfs::new());
    Database::open_with(vfs, &settings.data, engine_options(settings, tls)?, |progress| {
        if let Some(monitor) = monitor {
            monitor.recovering(progress.bytes, progress.records);
        }
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            say(&format!(
                "Recovering: read {} MB of log ({} records) in {:.0} s.",
                progress.bytes >> 20,
                progress.records,
                begun.elapsed().as_secs_f64()
            ));
        }
    })
    .map_err(|error| {
        let hint = error.hint().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
        format!("could not open the data folder {}: {error}{hint}", settings.data.display())
    })
}

/// What recovery found, when there was something to recover.
fn say_recovery(report: &RecoveryReport) {
    if report.was_clean {
        return;
    }
    say(&format!(
        "It was not closed cleanly: {} MB of log were read in {:.3} s; {} transactions were cut off and are undone; \
         {} pages are brought up to date in the background.",
        report.log_bytes >> 20,
        report.analysis.as_secs_f64(),
        report.transactions_aborted,
        report.pages_to_redo
    ));
}

/// A folder that was named; relative to the current one, as the data folder is.
pub(crate) fn folder(path: &Path) -> Option<PathBuf> {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    (!path.as_os_str().is_empty()).then(absolute)
}

/// The same of a URL; a plain path is one.
pub(crate) fn place(url: &str) -> Option<String> {
    match url.contains("://") {
        true => Some(url.to_owned()),
        false => folder(Path::new(url)).map(|path| path.to_str().map_or_else(|| url.to_owned(), str::to_owned)),
    }
}

/// Fewer records than these make an image of every change, or nearly so.
const RECORDS_PER_PAGE_LEAST: u32 = 16;

/// The cap that is asked for, or the least that there is; 0 stays none.
pub fn records_per_page_max(asked: u32) -> u64 {
    match asked {
        0 => 0,
        asked => asked.max(RECORDS_PER_PAGE_LEAST).into(),
    }
}

/// How long a device of pages may take for a call. Where nothing could take its place, calls are made directly, and waited for.
fn device_timeout(settings: &Settings) -> Duration {
    let replaceable = !settings.archive.is_empty() && !settings.spare_data.as_os_str().is_empty();
    if replaceable { settings.device_timeout } else { Duration::ZERO }
}

fn engine_options(settings: &Settings, tls: Option<Arc<Tls>>) -> Result<Options, String> {
    let zone = xlog::zone_of(settings, tls.clone())?;
    Ok(Options {
        buffer_bytes: usize::try_from(settings.buffer_bytes.0).unwrap_or(usize::MAX),
        log_dir: xlog::log_dir(settings).or_else(|| folder(&settings.log_dir)),
        archive: place(&settings.archive),
        double_writes: match settings.double_writes {
            DoubleWriting::Auto => DoubleWrites::Auto,
            DoubleWriting::On => DoubleWrites::On,
            DoubleWriting::Off => DoubleWrites::Off,
        },
        spare_data: folder(&settings.spare_data),
        device_timeout: device_timeout(settings),
        restore_cpu_percent: settings.restore_cpu_percent,
        archive_cpu_percent: settings.archive_cpu_percent,
        backups: place(&settings.backups),
        recovery_window: settings.recovery_window,
        archive_records_per_page_max: records_per_page_max(settings.archive_records_per_page_max),
        backup_interval: settings.backup_interval,
        backup_bytes_per_second: settings.backup_bytes_per_second.0,
        log_flights: settings.log_flights as usize,
        log_segment_bytes: settings.log_segment_bytes.0,
        checkpoint_log_bytes: settings.checkpoint_log_bytes.0,
        log_bytes_max: settings.log_bytes_max.0,
        log_bytes_wanted: settings.log_bytes_wanted.0,
        cleaner_threads: settings.cleaner_threads as usize,
        punch_holes: settings.punch_holes,
        cleaner_pages_per_second: settings.cleaner_pages_per_second.into(),
        cleaner_cpu_percent: settings.cleaner_cpu_percent,
        max_prepared_transactions: settings.max_prepared_transactions as usize,
        shared_row_locks_max: settings.shared_row_locks_max as usize,
        wal_writer_delay: settings.wal_writer_delay,
        cleaner_interval_s: settings.cleaner_interval.as_secs_f64(),
        read_ahead_pages: settings.read_ahead_pages as usize,
        analyze_interval_s: settings.analyze_interval.as_secs_f64(),
        versions: resurgam_engine::VersionCaps {
            in_row: settings.in_row_versioning,
            diff_bytes_max: usize::try_from(settings.in_row_diff_bytes_max.0).unwrap_or(usize::MAX),
            record_bytes_max: usize::try_from(settings.in_row_record_bytes_max.0).unwrap_or(usize::MAX),
        },
        version_store_path: Some(settings.version_store_path.clone()).filter(|path| !path.as_os_str().is_empty()),
        version_store_bytes_max: settings.version_store_bytes_max.0,
        version_store_lost: settings.version_store_lost,
        version_pages_ready: settings.version_pages_ready as usize,
        short_rollback_operations: settings.short_rollback_operations.into(),
        short_rollback_bytes: settings.short_rollback_bytes.0,
        accelerated_database_recovery: settings.accelerated_database_recovery,
        temporary_version_bytes_max: settings.temporary_version_bytes_max.0,
        pages: page_server::pages_of(settings, zone.as_ref(), tls),
        archive_elsewhere: settings.log_service_archives,
        log_zone: zone.map(|zone| LogZoneHandle(zone)),
        blocking: |work| tokio::task::block_in_place(work),
        ..Options::default()
    })
}

/// The SQL layer's settings, with the whole table for `SHOW` and `pg_settings`.
pub fn sql_settings(settings: &Settings) -> SqlSettings {
    SqlSettings {
        statement_timeout: settings.statement_timeout,
        idle_in_transaction_session_timeout: settings.idle_in_transaction_session_timeout,
        synchronous_commit: settings.synchronous_commit,
        defaults: network::session_defaults(settings),
        query_memory_bytes: settings.query_memory_bytes.0,
        notify_queue_bytes: settings.notify_queue_bytes.0,
        temp_directory: Some(settings.temp_directory.clone()).filter(|path| !path.as_os_str().is_empty()),
        server: settings
            .rows()
            .into_iter()
            .map(|row| ServerSetting {
                name: row.definition.name,
                value: row.value,
                default: row.definition.default,
                kind: row.definition.kind,
                description: row.definition.help.trim(),
                source: row.source.word(),
            })
            .chain(as_in_postgresql(settings))
            .collect(),
        ..SqlSettings::default()
    }
}

/// What PostgreSQL has settings for that are called otherwise here, or are more than one value.
fn as_in_postgresql(settings: &Settings) -> Vec<ServerSetting> {
    let setting = |name: &'static str, value: String, kind: &'static str, description: &'static str| ServerSetting {
        name,
        value,
        default: "",
        kind,
        description,
        source: "default",
    };
    let full = |path: &Path| match path.as_os_str().is_empty() {
        true => String::new(),
        false => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string(),
    };
    let (address, port) = settings.listen.rsplit_once(':').unwrap_or((&settings.listen, ""));
    let buffers = settings.rows().into_iter().find(|row| row.definition.name == "buffer_bytes");
    let buffers = buffers.map(|row| row.value).unwrap_or_default();
    let ssl = if settings.tls_cert.as_os_str().is_empty() { "off" } else { "on" };
    vec![
        setting("config_file", full(&settings.config_file), "string", "The setting --config."),
        setting("data_directory", full(&settings.data), "string", "The setting data."),
        setting("listen_addresses", address.to_owned(), "string", "The address of the setting listen."),
        setting("port", port.to_owned(), "integer", "The port of the setting listen."),
        setting("shared_buffers", buffers, "string", "The setting buffer_bytes."),
        setting("ssl", ssl.to_owned(), "bool", "Whether the settings tls_cert and tls_key turn TLS on."),
    ]
}

fn is_new(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true,
    }
}

/// The first signal stops cleanly, the second at once; SIGHUP has the host rules, password and certificates read again, those for the tiers too.
fn watch_signals(stop: Stopper, gate: Arc<Gate>) -> std::io::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            tracing::info!("received SIGHUP: reading files again");
            gate.read_again();
        }
    });
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        let mut signals = 0;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            signals += 1;
            if signals == 1 {
                say("Stopping: running statements may finish. Signal again to stop at once.");
                stop.stop();
            } else {
                say("Stopping at once; the next start recovers from the log.");
                std::process::exit(130);
            }
        }
    });
    Ok(())
}

fn start_log(settings: &Settings) {
    use crate::settings::Value;
    let filter = tracing_subscriber::EnvFilter::try_from_env("RESURGAM_LOG_FILTER")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("warn,resurgam={}", settings.log_level.show())));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start in one process (a test) keeps the first log.
    let _ = match settings.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Compact => builder.compact().with_target(false).try_init(),
    };
    resurgam_sql::watch_panics();
}

/// One line for the person at the terminal; a closed terminal is no reason to stop.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Keeps a database handle beside its SQL layer; for embedding the server in another program.
pub fn sql_database(settings: &Settings) -> Result<(Database, Arc<SqlDatabase>), String> {
    let database = open(settings)?;
    let sql = SqlDatabase::new(database.clone(), sql_settings(settings));
    Ok((database, sql))
}
