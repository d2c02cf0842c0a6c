//! Everything that the operator's views have as numbers, as Prometheus metrics.
//!
//! Names begin with `resurgam_`; counters end in `_total`, sizes in `_bytes`, times in
//! `_seconds` (the base unit, whatever the view uses). `docs/operations.md` lists them by what
//! they are good for; a test compares the list. Counters start at 0 with the process.

mod exposition;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam_engine::limits::PAGE_SIZE;
use resurgam_engine::{CheckpointStats, Database, LogStats, LogStatus, PaceReason, PageCacheState, Stats, Waits};
use resurgam_sql::PlanTotals;
use resurgam_sql::pg::notify::HubTotals;

pub use exposition::{Exposition, Kind, Value};

use crate::monitor::{Monitor, Phase};

/// From 1970 to 2000, the beginning of the engine's time.
const SECONDS_TO_2000: f64 = 946_684_800.0;

fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// All metrics, now. Takes short locks of the database; before it is open, tells of the start.
pub fn gather(monitor: &Monitor) -> String {
    let mut out = Exposition::default();
    process(&mut out, monitor);
    connections(&mut out, monitor);
    tier_tls(&mut out, monitor);
    if let Some(database) = monitor.database() {
        let stats = database.stats();
        let log_status = database.log_status();
        transactions(&mut out, &database, &stats);
        prepared(&mut out, &database, &stats);
        recovery(&mut out, &database, &stats);
        versions(&mut out, &database, &stats);
        holders(&mut out, &database);
        cleaner(&mut out, &database);
        log(&mut out, &log_status, &stats.log);
        checkpoints(&mut out, &log_status, &stats.checkpoints);
        buffers(&mut out, &stats);
        troubles(&mut out, &database);
        archive(&mut out, &database);
        backups(&mut out, &database);
        log_service(&mut out, &database);
        page_servers(&mut out, &database);
        page_cache(&mut out, &database);
        restore(&mut out, &database);
    }
    if let Some(totals) = monitor.plans() {
        plans(&mut out, &totals);
    }
    if let Some(told) = monitor.notifications() {
        notifications(&mut out, &told);
    }
    out.finish()
}

fn process(out: &mut Exposition, monitor: &Monitor) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    out.family(Kind::Gauge, "resurgam_build_info", "The version, as a label; always 1.", &[(&version, 1u64.into())]);
    out.gauge(
        "resurgam_start_time_seconds",
        "When the process started, in seconds since 1970.",
        monitor.started_seconds(),
    );
    out.gauge("resurgam_ready", "1 when statements are accepted, as /ready says.", monitor.readiness().is_ok());
    out.counter(
        "resurgam_panics_total",
        "Bugs that made a statement, a session or a thread panic; the log has the place of each.",
        resurgam_sql::panics(),
    );
    let read = match monitor.phase() {
        Phase::Recovering { log_bytes, .. } => Some(log_bytes),
        _ => None,
    };
    out.gauge_if("resurgam_recovery_read_bytes", "Log read so far, while recovery reads it.", read);
}

fn connections(out: &mut Exposition, monitor: &Monitor) {
    let registry = monitor.registry();
    out.gauge("resurgam_connections", "Clients logged in.", registry.sessions());
    out.gauge("resurgam_connections_max", "Clients at one time, at most (max_connections).", registry.sessions_max());
    out.counter("resurgam_connections_accepted_total", "Connections accepted.", registry.accepted());
    out.gauge(
        "resurgam_connections_unauthenticated",
        "Connections that have not logged in yet.",
        registry.unauthenticated() as u64,
    );
    let pulse = &registry.pulse;
    out.gauge(
        "resurgam_sessions_silence_seconds",
        "For how long the threads that serve sessions have not answered.",
        pulse.silence(),
    );
    out.gauge(
        "resurgam_sessions_silence_max_seconds",
        "The longest time that they have not, since the start.",
        pulse.longest(),
    );
    let failed = registry.logins_failed().map(|(reason, count)| ([("reason", reason)], Value::from(count)));
    let samples: Vec<(&[(&str, &str)], Value)> = failed.iter().map(|(label, count)| (&label[..], *count)).collect();
    out.family(Kind::Counter, "resurgam_logins_failed_total", "Logins that failed.", &samples);
    let [half_open, full] = registry.refused();
    out.family(
        Kind::Counter,
        "resurgam_connections_refused_total",
        "Connections closed because there were too many: those not logged in, or clients logged in.",
        &[(&[("reason", "half_open")], half_open.into()), (&[("reason", "max_connections")], full.into())],
    );
}

fn transactions(out: &mut Exposition, db: &Database, stats: &Stats) {
    let stats = &stats.transactions;
    out.counter(
        "resurgam_transactions_committed_total",
        "Transactions that wrote something and were committed.",
        stats.commits,
    );
    out.family(
        Kind::Counter,
        "resurgam_transactions_rolled_back_total",
        "Transactions that wrote something and were rolled back: row by row, or by marking them as aborted.",
        &[(&[("by", "undo")], stats.undone.into()), (&[("by", "marking")], stats.aborts.into())],
    );
    let active = db.active_transactions();
    out.gauge("resurgam_transactions_active", "Transactions that have written and not ended.", active.len() as u64);
    out.gauge(
        "resurgam_transactions_oldest_age_seconds",
        "Time since the first write of the oldest of them; 0 if there is none.",
        active.iter().map(|tx| tx.age).max().unwrap_or_default(),
    );
    out.gauge("resurgam_snapshots", "Snapshots in use by statements and transactions.", stats.snapshots);
    out.counter("resurgam_lock_waits_total", "Waits of one transaction for another.", stats.lock_waits);
    out.counter("resurgam_deadlocks_total", "Waits that were refused because they would never end.", stats.deadlocks);
    out.gauge(
        "resurgam_shared_row_locks",
        "Rows locked FOR SHARE or FOR KEY SHARE, by each transaction.",
        stats.shared_row_locks,
    );
    out.counter(
        "resurgam_shared_row_locks_refused_total",
        "Rows that were locked for one transaction alone, since shared_row_locks_max was reached.",
        stats.row_locks_refused,
    );
}

fn prepared(out: &mut Exposition, db: &Database, stats: &Stats) {
    out.gauge("resurgam_prepared_transactions", "Transactions prepared and not yet resolved.", stats.prepared);
    out.family(
        Kind::Counter,
        "resurgam_prepared_transactions_resolved_total",
        "Prepared transactions that were resolved.",
        &[
            (&[("as", "committed")], stats.prepared_committed.into()),
            (&[("as", "rolled_back")], stats.prepared_rolled_back.into()),
        ],
    );
    let oldest = db.prepared().iter().map(|prepared| prepared.prepared_us).min();
    out.gauge(
        "resurgam_prepared_transactions_oldest_age_seconds",
        "Time since the oldest of those not yet resolved was prepared; 0 if there is none.",
        oldest.map_or(0.0, |us| (now_seconds() - (us as f64 / 1e6 + SECONDS_TO_2000)).max(0.0)),
    );
}

fn plans(out: &mut Exposition, totals: &PlanTotals) {
    out.family(
        Kind::Counter,
        "resurgam_plan_runs_total",
        "Runs of planned statements: without a physical plan, with one that was kept, with one made to be kept, with one made for that run alone.",
        &[
            (&[("by", "direct")], totals.direct.into()),
            (&[("by", "hit")], totals.hits.into()),
            (&[("by", "miss")], totals.misses.into()),
            (&[("by", "each_time")], totals.each_time.into()),
        ],
    );
    out.counter(
        "resurgam_plans_beside_total",
        "Plans that ran, or went on, on threads of their own, beside those that serve connections.",
        resurgam_sql::plans_moved(),
    );
    out.counter(
        "resurgam_scan_workers_total",
        "Threads that have read a large table for a statement, beside that of its plan.",
        resurgam_sql::scan_workers_begun(),
    );
    out.gauge(
        "resurgam_plans_beside",
        "Plans that run on such threads now, those that were told to stop and have not yet among them.",
        resurgam_sql::plans_running(),
    );
    let (plannings, left) = resurgam_sql::plannings();
    out.gauge(
        "resurgam_plannings_beside",
        "Statements that are planned on threads of their own now, those that were told to stop and whose threads compute on among them.",
        plannings,
    );
    out.gauge(
        "resurgam_plannings_left",
        "Those among them that were told to stop: they keep one of a bounded number of threads until they end.",
        left,
    );
    out.counter(
        "resurgam_plannings_beside_total",
        "Statements that were planned on threads of their own, since they may take long to plan.",
        resurgam_sql::plannings_ever(),
    );
    out.counter(
        "resurgam_plannings_left_total",
        "Statements that were told to stop while they were planned on threads of their own.",
        resurgam_sql::plannings_left(),
    );
    out.gauge("resurgam_query_memory_bytes", "Memory that statements have reserved.", totals.reserved_bytes);
    out.gauge(
        "resurgam_query_memory_max_bytes",
        "What they may reserve (query_memory_bytes).",
        totals.reserved_bytes_max,
    );
    out.gauge(
        "resurgam_plans_allocated_bytes",
        "What the plans that run have allocated, reserved or not, as far as it was measured.",
        resurgam_sql::measured_bytes(),
    );
    let temp = &totals.temp;
    out.counter("resurgam_temp_files_total", "Temporary files that statements made.", temp.files);
    out.counter("resurgam_temp_written_bytes_total", "Bytes that were written to them.", temp.bytes);
    out.gauge("resurgam_temp_bytes", "Bytes in temporary files now.", temp.bytes_now);
    out.counter("resurgam_planning_seconds_total", "Time spent planning statements.", totals.planning);
    out.counter("resurgam_running_seconds_total", "Time spent running planned statements.", totals.running);
    out.family(
        Kind::Counter,
        "resurgam_statement_lookups_total",
        "Statements looked for among those that are kept for all sessions.",
        &[(&[("result", "hit")], totals.found.into()), (&[("result", "miss")], totals.not_found.into())],
    );
    out.gauge("resurgam_statements_kept", "Statements kept for all sessions.", totals.kept);
    out.gauge("resurgam_statements_kept_bytes", "About what these take in memory.", totals.kept_bytes);
    out.gauge("resurgam_statements_kept_max_bytes", "What they may take.", totals.kept_bytes_max);
    out.counter("resurgam_statements_evicted_total", "Kept statements that went to make room.", totals.evicted);
}

fn notifications(out: &mut Exposition, told: &HubTotals) {
    out.counter("resurgam_notifications_total", "Notifications of committed transactions.", told.told);
    out.counter("resurgam_notifications_given_total", "Notifications that listeners were given.", told.given);
    out.counter(
        "resurgam_notifications_refused_total",
        "Transactions that failed because there was no room for their notifications.",
        told.refused,
    );
    out.gauge("resurgam_notify_queue_bytes", "Bytes of notifications that listeners have not taken.", told.bytes);
    out.gauge("resurgam_notify_queue_max_bytes", "Most bytes of them.", told.bytes_max);
}

fn recovery(out: &mut Exposition, db: &Database, stats: &Stats) {
    let report = db.recovery();
    out.gauge(
        "resurgam_accelerated_recovery",
        "1 with accelerated recovery, 0 in the traditional mode.",
        db.is_recovery_accelerated(),
    );
    out.gauge("resurgam_recovery_clean", "1 if the last run had closed the folder cleanly.", report.was_clean);
    out.gauge("resurgam_recovery_analysis_seconds", "Time that the start spent reading the log.", report.analysis);
    out.gauge("resurgam_recovery_open_seconds", "Time until the database was open.", report.total);
    out.gauge_if(
        "resurgam_recovery_redo_seconds",
        "Time until all pages were up to date, in the background; none while that runs.",
        stats.redo_time,
    );
    out.gauge_if(
        "resurgam_recovery_undo_seconds",
        "Time until unfinished transactions were undone (traditional mode); none while that runs.",
        stats.undo_time,
    );
    out.counter("resurgam_undo_records_total", "Log records undone.", stats.undo_records);
    out.gauge("resurgam_undo_queue", "Transactions that are being undone in the background.", stats.undo_queue);
    out.gauge("resurgam_recovery_log_records", "Log records that the start read.", report.log_records);
    out.gauge("resurgam_recovery_log_bytes", "Log that the start read.", report.log_bytes);
    out.gauge("resurgam_recovery_pages", "Pages that the start found to be redone.", report.pages_to_redo);
    out.gauge("resurgam_recovery_pages_pending", "Those that still await it.", stats.pages_awaiting_redo);
    out.gauge("resurgam_recovery_pages_damaged", "Pages too damaged to be redone.", db.damaged_pages());
    out.gauge(
        "resurgam_recovery_pages_set_aside",
        "Those of them whose log is given up.",
        db.damaged_page_list().iter().filter(|page| page.set_aside).count() as u64,
    );
    out.gauge(
        "resurgam_recovery_pages_restored",
        "Torn or lost pages restored from the double-write area.",
        report.pages_restored,
    );
    let pool = stats.pool;
    out.counter(
        "resurgam_pages_repaired_total",
        "Damaged pages that were rebuilt from the log while they were read.",
        pool.repaired_pages,
    );
    out.counter(
        "resurgam_unreadable_pages_total",
        "Times that a page could not be read from its device.",
        pool.unreadable_pages,
    );
    out.counter(
        "resurgam_lost_writes_total",
        "Pages that were found older in their file than they had been written.",
        pool.lost_writes,
    );
    out.counter(
        "resurgam_first_reads_compared_total",
        "Pages that were compared, when first read, with what the archive knows of how new they must be.",
        pool.first_reads_compared,
    );
    out.counter(
        "resurgam_first_reads_not_compared_total",
        "Pages that were first read while the archive could not be asked, or lagged.",
        pool.first_reads_not_compared,
    );
    out.gauge(
        "resurgam_recovery_transactions_cut_off",
        "Transactions that the crash cut off.",
        report.transactions_aborted,
    );
    out.gauge(
        "resurgam_recovery_transactions_in_doubt",
        "Prepared transactions that the start found.",
        report.transactions_in_doubt,
    );
}

fn versions(out: &mut Exposition, db: &Database, stats: &Stats) {
    let versions = &stats.versions;
    out.gauge(
        "resurgam_aborted_transactions",
        "Aborted transactions of which row versions remain, those of savepoints included.",
        db.aborted_count(),
    );
    out.counter("resurgam_version_store_pushed_total", "Row versions moved to the version store.", versions.pushed);
    out.gauge("resurgam_version_store_pages", "Pages of the version store in use.", versions.pages);
    out.gauge("resurgam_version_store_bytes", "Size of the version store in use.", versions.pages * PAGE_SIZE as u64);
    out.gauge(
        "resurgam_version_store_max_bytes",
        "Most that it may take (version_store_bytes_max); 0: as the disk allows.",
        db.options().version_store_bytes_max,
    );
    out.counter("resurgam_version_store_pages_freed_total", "Pages of it that were freed.", versions.freed);
    out.gauge(
        "resurgam_version_store_file_bytes",
        "Size of the version-store file; 0: versions are in the data file.",
        versions.file_bytes,
    );
    out.gauge("resurgam_version_store_pages_ready", "Pages allocated in advance.", versions.pages_ready);
    out.counter("resurgam_version_store_none_ready_total", "Times a writer found none of those.", versions.found_none);
    let temporary = &stats.temporary;
    out.counter(
        "resurgam_temporary_versions_total",
        "Row versions put into memory (traditional mode).",
        temporary.pushed,
    );
    out.gauge("resurgam_temporary_versions_bytes", "Memory that they take.", temporary.bytes);
    out.gauge("resurgam_temporary_versions_max_bytes", "Most that they may take.", temporary.bytes_max);
}

/// What keeps row versions from being freed.
fn holders(out: &mut Exposition, db: &Database) {
    let holders = db.version_store_holders();
    let age = |age: Option<std::time::Duration>| Value::from(age.unwrap_or_default());
    out.family(
        Kind::Gauge,
        "resurgam_version_store_holder_age_seconds",
        "Age of the oldest of those who keep row versions: transactions, snapshots behind the last commit, aborted \
         transactions that await the cleaner; 0 if there is none.",
        &[
            (&[("kind", "transaction")], age(holders.transaction.map(|holder| holder.age))),
            (&[("kind", "snapshot")], age(holders.snapshot.map(|holder| holder.age))),
            (&[("kind", "aborted")], age(holders.aborted.map(|holder| holder.age))),
        ],
    );
}

fn cleaner(out: &mut Exposition, db: &Database) {
    let status = db.cleaner_status();
    let totals = &status.totals;
    out.counter("resurgam_cleaner_sweeps_total", "Sweeps of the cleaner.", totals.sweeps);
    out.counter("resurgam_cleaner_sweep_seconds_total", "Time in which a sweep ran.", totals.sweeping);
    out.counter("resurgam_cleaner_pages_total", "Pages visited.", totals.report.pages);
    out.family(
        Kind::Counter,
        "resurgam_cleaner_rows_total",
        "Rows cleaned: aborted versions reverted, old versions stripped, deleted rows removed.",
        &[
            (&[("done", "reverted")], totals.report.reverted.into()),
            (&[("done", "stripped")], totals.report.stripped.into()),
            (&[("done", "removed")], totals.report.removed.into()),
            (&[("done", "removed_by_readers")], totals.removed_by_readers.into()),
        ],
    );
    out.counter(
        "resurgam_reader_jumps_total",
        "Reads that began behind a range of deleted rows, which they would have walked over.",
        status.reader_jumps,
    );
    out.counter(
        "resurgam_cleaner_transactions_forgotten_total",
        "Aborted transactions of which nothing remained.",
        totals.report.forgotten,
    );
    out.counter(
        "resurgam_cleaner_version_pages_freed_total",
        "Pages of the version store freed, by sweeps and between them.",
        totals.version_pages_freed,
    );
    out.gauge("resurgam_cleaner_running", "1 while a sweep runs.", status.current.is_some());
    out.gauge(
        "resurgam_cleaner_waits_for_redo",
        "1 while it waits for all pages to be brought up to date after a crash.",
        status.waits_for_redo,
    );
    let current = status.current;
    out.gauge_if(
        "resurgam_cleaner_progress_ratio",
        "How much of the sweep that runs is done, 0 to 1.",
        current.map(|sweep| sweep.percent / 100.0),
    );
    out.gauge_if(
        "resurgam_cleaner_left_seconds",
        "Time that it will still take, estimated.",
        current.and_then(|sweep| sweep.left),
    );
    out.gauge("resurgam_cleaner_threads", "Threads that work on it.", current.map_or(0, |sweep| sweep.threads));
    out.gauge("resurgam_cleaner_threads_max", "Threads of a sweep, at most (cleaner_threads).", status.threads_max);
    let pace = status.pace;
    out.gauge(
        "resurgam_cleaner_pace_pages_per_second",
        "Most pages that a sweep visits in a second now; 0 for no limit.",
        pace.pages_per_second,
    );
    out.gauge(
        "resurgam_cleaner_pace_cpu_ratio",
        "Share of its time that each thread works now, 0 to 1.",
        f64::from(pace.cpu_percent) / 100.0,
    );
    let reasons = [
        ("settings", PaceReason::Settings),
        ("asked", PaceReason::Asked),
        ("version_store", PaceReason::VersionStore),
        ("aborted_map", PaceReason::AbortedMap),
        ("aborted_age", PaceReason::AbortedAge),
    ];
    let labels = reasons.map(|(word, reason)| ([("reason", word)], Value::from(reason == pace.reason)));
    let samples: Vec<(&[(&str, &str)], Value)> = labels.iter().map(|(label, value)| (&label[..], *value)).collect();
    out.family(Kind::Gauge, "resurgam_cleaner_pace_reason", "1 for the reason of the present pace.", &samples);
    let last = status.last;
    let of = |f: fn(&resurgam_engine::SweepReport) -> u64| last.as_ref().map(|last| f(&last.report));
    let age = last.map(|last| last.ended.elapsed());
    out.gauge_if("resurgam_cleaner_last_sweep_age_seconds", "Time since the last sweep ended.", age);
    out.gauge_if("resurgam_cleaner_last_sweep_seconds", "Time that it took.", last.map(|last| last.took));
    out.gauge_if(
        "resurgam_cleaner_last_sweep_complete",
        "1 if it visited everything; 0 if it was stopped or passed over pages.",
        last.map(|last| last.complete),
    );
    out.gauge_if("resurgam_cleaner_last_sweep_pages", "Pages that it visited.", of(|report| report.pages));
    let skipped = last.map(|last| last.report.skipped).unwrap_or_default();
    out.family(
        Kind::Gauge,
        "resurgam_cleaner_last_sweep_pages_skipped",
        "Pages that it could not clean, by cause; they may keep aborted transactions from being forgotten.",
        &[
            (&[("cause", "damaged")], skipped.damaged.count.into()),
            (&[("cause", "object_unknown")], skipped.object_unknown.count.into()),
            (&[("cause", "damaged_map")], skipped.damaged_maps.count.into()),
            (&[("cause", "pending_frees")], skipped.pending_frees.count.into()),
            (&[("cause", "unreadable")], skipped.unreadable.count.into()),
            (&[("cause", "no_room")], skipped.no_room.count.into()),
        ],
    );
    out.gauge_if(
        "resurgam_cleaner_last_sweep_pages_unmapped",
        "Pages that it looked at one by one because their space map cannot be read.",
        of(|report| report.unmapped),
    );
    out.gauge_if(
        "resurgam_cleaner_last_sweep_pages_not_tried",
        "Of these, pages that may be lost and were not tried again, since that was in vain some minutes ago at most.",
        of(|report| report.not_tried),
    );
    out.gauge_if(
        "resurgam_cleaner_last_sweep_transactions_kept",
        "Aborted transactions that it began with and could not forget.",
        of(|report| report.kept),
    );
}

fn troubles(out: &mut Exposition, db: &Database) {
    let all = db.troubles();
    out.gauge(
        "resurgam_troubles",
        "What fails in the background and is tried again (resurgam_troubles).",
        all.len() as u64,
    );
    out.gauge(
        "resurgam_troubles_age_seconds",
        "How long the oldest of these has been failing; 0 if nothing does.",
        all.first().map(|trouble| trouble.since).unwrap_or_default(),
    );
    out.gauge("resurgam_writers_wait", "1 while writers wait because the log is at its bound.", db.writers_wait());
}

/// Nothing without an archive.
fn archive(out: &mut Exposition, db: &Database) {
    let Some(status) = db.archive_status() else { return };
    out.gauge(
        "resurgam_archive_failing",
        "1 while the log cannot be archived (resurgam_archive.error).",
        status.error.is_some(),
    );
    if let Some(archived) = status.archived {
        out.gauge("resurgam_archive_lsn", "All log before this position is archived.", archived.0);
    }
    out.gauge("resurgam_archive_lag_bytes", "Durable log that is not archived.", status.lag_bytes);
    out.gauge("resurgam_archive_lag_seconds", "How long the oldest of it has been durable.", status.lag);
    out.gauge_if(
        "resurgam_recoverable_point_age_seconds",
        "Age of the newest state that archive and backups alone give; no value: they give none.",
        db.recoverable_point_age(),
    );
    let silent = match status.elsewhere {
        true => status.archiver.as_ref().map(|of| of.silent),
        false => Some(std::time::Duration::ZERO),
    };
    out.gauge_if(
        "resurgam_archive_archiver_silent_seconds",
        "How long ago the log service that archives was last at work; 0 where this server archives, no value: none has said that it does.",
        silent,
    );
    out.gauge("resurgam_archive_runs", "Runs of the archive.", status.runs);
    out.gauge("resurgam_archive_bytes", "Size of the archive.", status.bytes);
    out.counter("resurgam_archive_runs_written_total", "Runs written.", status.runs_written);
    out.counter("resurgam_archive_log_bytes_total", "Log that was archived.", status.log_bytes_written);
    out.gauge("resurgam_archive_runs_waiting", "Runs that wait to be merged.", status.runs_waiting);
    out.counter(
        "resurgam_archive_rested_seconds_total",
        "How long merging has rested for others who wanted the processors.",
        status.rested,
    );
    out.gauge(
        "resurgam_archive_merging_failing",
        "1 while runs cannot be merged, here or by the log service that archives (resurgam_archive.merge_error).",
        status.merge_error.is_some(),
    );
    out.counter("resurgam_archive_merges_total", "Merges of runs, since the start of who makes them.", status.merges);
    out.counter("resurgam_archive_merged_bytes_total", "Size of what they have made.", status.merged_bytes);
    let given_up = db.given_up();
    out.counter(
        "resurgam_expired_runs_total",
        "Runs that no promised point needed and that are given up.",
        given_up.runs,
    );
    out.counter("resurgam_expired_backups_total", "Backups that are given up for the same reason.", given_up.backups);
    out.counter("resurgam_expired_bytes_total", "Size of both.", given_up.bytes);
}

/// Always there, so that an alarm can be set before anything is restored.
fn restore(out: &mut Exposition, db: &Database) {
    let status = db.restore_status();
    out.gauge("resurgam_restore_running", "1 while files are being restored (resurgam_restore).", status.is_some());
    let (segments, restored, on_demand, bytes, failing) = status
        .as_ref()
        .map_or((0, 0, 0, 0, false), |s| (s.segments, s.restored, s.on_demand, s.bytes, s.error.is_some()));
    out.gauge("resurgam_restore_segments", "Segments (1 MB) of these files.", segments);
    out.gauge("resurgam_restore_segments_restored", "Of these, restored.", restored);
    out.gauge(
        "resurgam_restore_segments_on_demand",
        "Of these since the start, because a page was asked for.",
        on_demand,
    );
    out.gauge("resurgam_restore_bytes", "Bytes written for it since the start.", bytes);
    out.gauge(
        "resurgam_restore_pages_damaged",
        "Pages that archive and backup do not give: who reads one is told why.",
        status.map_or(0, |s| s.damaged_pages),
    );
    out.gauge("resurgam_restore_failing", "1 while segments cannot be restored (resurgam_restore.error).", failing);
}

/// Nothing without a place for backups.
fn backups(out: &mut Exposition, db: &Database) {
    let Some(totals) = db.backup_totals() else { return };
    out.gauge("resurgam_backup_running", "1 while a backup is being made.", totals.running.is_some());
    out.gauge("resurgam_backup_progress", "Share of its pages that were looked at.", totals.running.unwrap_or(0.0));
    out.counter("resurgam_backups_made_total", "Backups that were made.", totals.made);
    out.counter("resurgam_backups_failed_total", "Backups that failed or were cancelled.", totals.failed);
    out.counter("resurgam_backup_pages_total", "Pages that backups have read.", totals.pages_read);
    out.counter("resurgam_backup_bytes_total", "Bytes that backups have written.", totals.bytes_written);
    out.gauge(
        "resurgam_backup_end_lsn",
        "End of the newest backup that was made since the start; 0: none was.",
        totals.newest_end.map_or(0, |end| end.0),
    );
    out.gauge_if(
        "resurgam_backup_age_seconds",
        "How long ago the newest backup was finished that the server knows; no value: it knows none.",
        totals.newest_age,
    );
}

/// Nothing without a cache of pages.
fn page_cache(out: &mut Exposition, db: &Database) {
    let Some(status) = db.page_cache() else { return };
    let is_on = u64::from(status.state != PageCacheState::Off);
    out.gauge("resurgam_page_cache_on", "Whether the cache of pages is used: 0 after its disk has failed.", is_on);
    let bytes = status.pages * PAGE_SIZE as u64;
    out.gauge("resurgam_page_cache_bytes", "Pages in its file, in bytes.", bytes);
    out.gauge("resurgam_page_cache_max_bytes", "What its files take at most.", status.bytes_max);
    out.gauge("resurgam_page_cache_waiting_pages", "Pages that wait to be written into it.", status.waiting);
    for (name, help, count) in [
        ("hits", "Pages not in memory of which it had a copy.", status.hits),
        ("misses", "Pages not in memory of which it had none.", status.misses),
        ("admitted", "Pages that were written into it as they left memory.", status.admitted),
        ("known", "Pages that left memory and were in it already.", status.known),
        ("rejected", "Pages that left memory and were not kept.", status.rejected),
        ("recovered", "Copies that were there at the start.", status.recovered),
        ("out_of_date", "Copies that turned out to be out of date.", status.out_of_date),
        ("damaged", "Copies that were not what they should be.", status.damaged),
    ] {
        out.counter(&format!("resurgam_page_cache_{name}_total"), help, count);
    }
    out.gauge("resurgam_page_cache_read_seconds", "A moving mean of what a read of it takes.", status.read_latency);
}

/// Nothing without TLS between the parts of a database.
fn tier_tls(out: &mut Exposition, monitor: &Monitor) {
    let Some(stats) = monitor.tier_tls() else { return };
    out.counter(
        "resurgam_tier_tls_handshakes_total",
        "Connections to and from other parts of the database on which both certificates were in order.",
        stats.handshakes,
    );
    out.counter(
        "resurgam_tier_tls_refused_total",
        "Connections to and from other parts of the database that either side has refused: certificate, TLS on one side only, damage.",
        stats.refused,
    );
    out.counter("resurgam_tier_tls_reloads_total", "Times that changed certificates were put in force.", stats.reloads);
    out.counter(
        "resurgam_tier_tls_reload_failures_total",
        "Times that changed certificates were wrong; those before stay in force.",
        stats.reload_failures,
    );
    out.gauge_if(
        "resurgam_tier_tls_certificate_expiry_timestamp_seconds",
        "Until when the certificate for the other parts of the database is valid.",
        stats.expires,
    );
}

/// Nothing without page servers.
fn page_servers(out: &mut Exposition, db: &Database) {
    let servers = db.page_servers();
    if servers.is_empty() {
        return;
    }
    let failing = servers.iter().filter(|server| server.error.is_some()).count();
    let missing: u64 = servers.iter().filter_map(|server| server.missing_pages).sum();
    out.gauge("resurgam_page_servers_failing", "Page servers that are not asked for pages now.", failing as u64);
    out.gauge(
        "resurgam_page_servers_missing_bytes",
        "Pages that page servers have yet to fetch from archive and backups, as they have said last.",
        missing * PAGE_SIZE as u64,
    );
    out.counter(
        "resurgam_page_servers_elsewhere_total",
        "Requests for pages of a partition that the page server had no more; another one was asked then.",
        servers.iter().map(|server| server.elsewhere).sum::<u64>(),
    );
    out.gauge(
        "resurgam_page_servers_refused",
        "Requests for pages of other partitions that page servers have refused since their start, as they have said last.",
        servers.iter().map(|server| server.refused).sum::<u64>(),
    );
    out.gauge(
        "resurgam_page_servers_gaps",
        "Times that page servers met a record before which one had been left out of the log that they were given, as they have said last.",
        servers.iter().map(|server| server.gaps).sum::<u64>(),
    );
    out.gauge(
        "resurgam_page_servers_load",
        "Requests that page servers work on, as they have said last.",
        servers.iter().filter_map(|server| server.load).sum::<u64>(),
    );
    out.counter(
        "resurgam_page_servers_tried_again_total",
        "Times that a page server was asked though it was not the best, to see whether it is now.",
        servers.iter().map(|server| server.tried_again).sum::<u64>(),
    );
    out.counter(
        "resurgam_page_servers_passed_over_total",
        "Times that the page server that answers fastest was not asked because it had not applied enough of the log.",
        servers.iter().map(|server| server.passed_over).sum::<u64>(),
    );
}

/// Nothing without a landing zone.
fn log_service(out: &mut Exposition, db: &Database) {
    let Some(status) = db.log_service() else { return };
    out.gauge("resurgam_landing_zone_epoch", "Epoch under which this primary has the log.", u64::from(status.epoch));
    out.gauge("resurgam_landing_zone_lease_seconds", "The lease on the log is valid for so long.", status.lease_left);
    out.gauge("resurgam_log_hardened_lsn", "The log below is durable in the landing zone.", status.hardened.0);
    let most = |of: fn(&resurgam_engine::LogService) -> u64| status.services.iter().map(of).max().unwrap_or(0);
    out.gauge(
        "resurgam_log_disseminated_lsn",
        "The log below is given out by the log service that is furthest.",
        most(|service| service.disseminated.0),
    );
    out.gauge(
        "resurgam_log_destaged_lsn",
        "The log below is in the long-term log; the landing zone is given up below it.",
        most(|service| service.destaged.0),
    );
    let failing = status.services.iter().filter(|service| service.error.is_some()).count();
    out.gauge("resurgam_log_services_failing", "Log services that do not take the log now.", failing as u64);
}

fn log(out: &mut Exposition, status: &LogStatus, stats: &LogStats) {
    out.gauge("resurgam_log_end_lsn", "Position of the log's end, in bytes since the beginning.", status.end.0);
    out.gauge("resurgam_log_flushed_lsn", "Everything before this position is durable.", status.flushed.0);
    out.gauge("resurgam_log_oldest_lsn", "The oldest position kept.", status.oldest.0);
    out.gauge("resurgam_log_checkpoint_lsn", "Where the last checkpoint begins.", status.checkpoint.0);
    out.gauge("resurgam_log_used_bytes", "Log kept on disk.", status.bytes_in_use);
    out.gauge("resurgam_log_max_bytes", "Bound of the log kept on disk (log_bytes_max).", status.bytes_max);
    out.counter(
        "resurgam_log_writers_slowed_total",
        "Times a writer was slowed down because the log was above its bound.",
        status.writers_slowed,
    );
    out.counter("resurgam_log_records_total", "Log records appended.", stats.records);
    out.counter("resurgam_log_groups_total", "Atomic groups of log records appended.", stats.groups);
    out.counter("resurgam_log_record_bytes_total", "Bytes of log records appended.", stats.record_bytes);
    out.counter("resurgam_log_blocks_total", "Log blocks written.", stats.blocks);
    out.counter("resurgam_log_written_bytes_total", "Bytes written to the log, padding included.", stats.written_bytes);
    out.counter("resurgam_log_flushes_total", "Batches made durable.", stats.flushes);
    out.counter("resurgam_log_syncs_total", "Syncs of log files.", stats.syncs);
    out.counter(
        "resurgam_log_sync_seconds_total",
        "Time spent in them, summed where several were at once.",
        stats.sync_time_total,
    );
    out.gauge("resurgam_log_sync_max_seconds", "The longest of them since the start.", stats.sync_time_max);
    out.gauge("resurgam_log_flights", "Flushes under way now.", stats.flying);
    out.gauge("resurgam_log_flights_most", "The most that were at once since the start.", stats.flying_most);
    out.gauge("resurgam_log_flights_max", "As many are at once at most.", status.flights_max);
    out.counter(
        "resurgam_log_flights_held_total",
        "Flushes that were durable before one ahead of them, and waited for it.",
        stats.flights_held,
    );
    out.counter("resurgam_log_waits_total", "Waits for a flush.", stats.waits);
    out.counter(
        "resurgam_log_buffer_full_waits_total",
        "Appends that waited because the log buffers were full.",
        stats.buffer_full_waits,
    );
    out.counter("resurgam_log_segments_created_total", "Log files made anew.", stats.segments_created);
    out.counter(
        "resurgam_log_markers_total",
        "Blocks that only say that those before them are durable.",
        stats.markers,
    );
    out.counter("resurgam_log_segments_recycled_total", "Log files used again.", stats.segments_recycled);
    out.counter(
        "resurgam_log_segments_late_total",
        "Appends that had to prepare a log file themselves.",
        stats.segments_prepared_late,
    );
}

fn checkpoints(out: &mut Exposition, status: &LogStatus, stats: &CheckpointStats) {
    out.counter("resurgam_checkpoints_total", "Checkpoints taken.", stats.taken);
    out.counter("resurgam_checkpoints_failed_total", "Checkpoints that failed.", stats.failed);
    out.counter("resurgam_checkpoint_seconds_total", "Time spent on those taken.", stats.time_total);
    out.gauge("resurgam_checkpoint_max_seconds", "The longest of them since the start.", stats.time_max);
    out.gauge_if("resurgam_checkpoint_age_seconds", "Time since the last one ended.", stats.last_ago);
    out.gauge(
        "resurgam_checkpoint_distance_bytes",
        "Log since the last checkpoint: what a start after a crash now would read.",
        status.end.0.saturating_sub(status.checkpoint.0),
    );
}

fn buffers(out: &mut Exposition, stats: &Stats) {
    let pool = &stats.pool;
    out.gauge("resurgam_buffer_pages", "Pages that fit in memory.", stats.pool_pages);
    out.gauge("resurgam_buffer_bytes", "Memory for pages.", stats.pool_pages * PAGE_SIZE as u64);
    out.gauge("resurgam_buffer_dirty_pages", "Changed pages that are not written yet.", stats.dirty_pages);
    out.counter("resurgam_buffer_hits_total", "Pages found in memory.", pool.hits);
    out.counter("resurgam_buffer_misses_total", "Pages read from disk.", pool.misses);
    out.counter("resurgam_buffer_evictions_total", "Pages that made room for others.", pool.evictions);
    out.counter("resurgam_buffer_pages_written_total", "Pages written to disk.", pool.pages_written);
    out.counter("resurgam_buffer_write_batches_total", "Batches in which they were written.", pool.write_batches);
    out.counter(
        "resurgam_buffer_foreground_cleans_total",
        "Times a reader or writer had to write pages itself because no clean one was left to make room.",
        pool.foreground_cleans,
    );
    out.counter(
        "resurgam_remote_pages_total",
        "Pages that were had from page servers when they were needed.",
        pool.remote_pages,
    );
    out.counter(
        "resurgam_confirmed_pages_total",
        "Copies in the page cache of which a page server has said that they are current.",
        pool.confirmed_pages,
    );
    let waits = pool.remote_waits;
    out.histogram(
        "resurgam_remote_wait_seconds",
        "How long those who needed them waited for each, and for word that a copy is current.",
        &Waits::BOUNDS.map(Duration::from_micros),
        &waits.counts,
        Duration::from_micros(waits.micros),
    );
    out.counter(
        "resurgam_page_waits_given_up_total",
        "Waits for a page that ended because their statement had to stop.",
        pool.page_waits_given_up,
    );
    out.counter(
        "resurgam_read_ahead_pages_total",
        "Pages that scans have asked page servers for before they needed them.",
        pool.ahead_asked,
    );
    out.counter("resurgam_read_ahead_used_total", "Of these, those that were used.", pool.ahead_used);
    out.counter("resurgam_read_ahead_wasted_total", "Those that left memory unused.", pool.ahead_wasted);
    out.counter("resurgam_read_ahead_not_had_total", "Those that did not come.", pool.ahead_not_had);
    out.counter("resurgam_log_images_total", "Images of pages with many records that were logged.", pool.images_logged);
    out.counter("resurgam_log_image_bytes_total", "Their bytes.", pool.image_bytes_logged);
    out.counter("resurgam_redo_pages_total", "Pages brought up to date from the log.", pool.redone_pages);
    out.counter("resurgam_redo_records_total", "Log records applied in doing so.", pool.redone_records);
    out.counter("resurgam_space_pages_allocated_total", "Pages allocated.", pool.pages_allocated);
    out.counter("resurgam_space_pages_freed_total", "Pages freed.", pool.pages_freed);
    out.counter("resurgam_space_extents_allocated_total", "Extents allocated.", pool.extents_allocated);
    out.counter(
        "resurgam_space_pages_moved_total",
        "Pages moved from the end of the data file to free places.",
        pool.pages_moved,
    );
    out.counter(
        "resurgam_space_bytes_cut_total",
        "Bytes by which the files of pages were cut at their ends.",
        pool.bytes_cut,
    );
    out.counter(
        "resurgam_space_bytes_punched_total",
        "Bytes of holes that were made in the data file.",
        pool.bytes_punched,
    );
    out.gauge("resurgam_data_file_bytes", "The length of the data file.", stats.data_file_bytes);
    out.gauge(
        "resurgam_space_used_bytes",
        "The part of the data file that was ever given out.",
        stats.space.high_water * PAGE_SIZE as u64,
    );
    out.gauge("resurgam_space_free_extents", "Extents of it that are free.", stats.space.extents);
    out.gauge(
        "resurgam_space_free_pages",
        "Free pages in extents that belong to a table or index.",
        stats.space.pages_in_owned_extents,
    );
}
