//! Resurgam's own views: what recovery, versions, log and cleaner do.
//! `docs/operations.md` says what each column means.

use resurgam_engine::{Database, SweepPhase, SweepReport, limits::PAGE_SIZE};

use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::types::EPOCH_US;

fn lsn(lsn: resurgam_engine::Lsn) -> V {
    if lsn.is_some() { lsn.0.into() } else { V::Null }
}

fn plans(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for plan in cx.plans() {
        let query =
            if cx.sees_sessions_of(super::SUPERUSER_OID) { plan.query } else { "<insufficient privilege>".to_owned() };
        rows.add([
            ("query", query.into()),
            ("shape", plan.shape.into()),
            ("shared", plan.is_shared.into()),
            ("direct", plan.direct.into()),
            ("hits", plan.hits.into()),
            ("misses", plan.misses.into()),
            ("planned_each_time", plan.each_time.into()),
            ("plan_ms", plan.plan_ms.into()),
            ("run_ms", plan.run_ms.into()),
            ("bytes", plan.bytes.into()),
        ]);
    }
}

fn statements(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for calls in cx.statement_calls() {
        let sees = cx.sees_sessions_of(calls.role);
        let query = if sees { calls.query } else { "<insufficient privilege>".to_owned() };
        rows.add([
            ("userid", calls.role.into()),
            ("dbid", calls.database.into()),
            ("toplevel", true.into()),
            ("queryid", if sees { calls.id.into() } else { V::Null }),
            ("query", query.into()),
            ("calls", calls.calls.into()),
            ("total_exec_time", calls.total_ms.into()),
            ("min_exec_time", calls.min_ms.into()),
            ("max_exec_time", calls.max_ms.into()),
            ("mean_exec_time", calls.mean_ms.into()),
            ("stddev_exec_time", calls.stddev_ms.into()),
            ("rows", calls.rows.into()),
        ]);
        // As with PostgreSQL's pg_stat_statements.track_planning at its default; there is no JIT.
        for none in ["plans", "jit_functions", "jit_inlining_count", "jit_optimization_count", "jit_emission_count"] {
            rows.put(none, 0i64.into());
        }
        for none in [
            "total_plan_time",
            "min_plan_time",
            "max_plan_time",
            "mean_plan_time",
            "stddev_plan_time",
            "jit_generation_time",
            "jit_inlining_time",
            "jit_optimization_time",
            "jit_emission_time",
        ] {
            rows.put(none, 0f64.into());
        }
    }
}

/// The table or index whose pages are this object's, if there is one that the session sees.
fn relation_of(cx: &dyn PgContext, object: resurgam_engine::ObjectId) -> Option<String> {
    cx.tables().ok()?.into_iter().find_map(|table| {
        let index = (0..table.indexes.len()).find(|at| table.index_object(*at) == Some(object));
        match index {
            Some(at) => Some(format!("{}.{}", table.schema, table.indexes[at].name)),
            None if table.rows_object() == object => Some(format!("{}.{}", table.schema, table.name)),
            None => None,
        }
    })
}

/// Fills a view; false if it is not one of these.
pub(super) fn fill(name: &str, cx: &dyn PgContext, rows: &mut Rows<'_>) -> bool {
    if !name.starts_with("resurgam_") {
        return false;
    }
    let engine = cx.engine();
    let Some(db) = engine.as_ref() else { return true };
    match name {
        "resurgam_aborted_transactions" => {
            for tx in db.aborted_transactions() {
                // 0: cut off by a crash, at a time that nobody knows.
                let at = (tx.aborted_us != 0).then(|| V::Time(tx.aborted_us + EPOCH_US));
                let began = (tx.began_us != 0).then(|| V::Time(tx.began_us + EPOCH_US));
                rows.add([
                    ("xid", tx.id.0.into()),
                    ("lsn", lsn(tx.lsn)),
                    ("began_at", began.unwrap_or(V::Null)),
                    ("aborted_at", at.unwrap_or(V::Null)),
                ]);
            }
        }
        "resurgam_archive" => {
            let durable = db.log_status().flushed;
            if let Some(status) = db.archive_status() {
                let (age, at) = db.newest_point(&status).unzip();
                let silent = status.archiver.as_ref().map(|of| of.silent);
                // This server, or a log service, where one has said that it archives.
                let archiver = match (status.elsewhere, &status.archiver) {
                    (false, _) => Some("this server".to_owned()),
                    (true, of) => of.as_ref().map(|of| format!("log service {}", of.service)),
                };
                // As long as none has said so, nothing has to be merged: none archives.
                let merger = match (status.elsewhere, &status.archiver) {
                    (true, Some(of)) if !status.merged_elsewhere => {
                        Some(format!("this server, for log service {} does not", of.service))
                    }
                    _ => archiver.clone(),
                };
                rows.add([
                    ("place", status.place.into()),
                    ("state", status.state.into()),
                    ("archived_lsn", status.archived.map(|lsn| lsn.0).into()),
                    ("durable_lsn", durable.0.into()),
                    ("lag_bytes", status.lag_bytes.into()),
                    ("lag_seconds", status.lag.as_secs_f64().into()),
                    ("newest_point_at", at.map_or(V::Null, |us| V::Time(us.saturating_add(EPOCH_US)))),
                    ("newest_point_age_seconds", age.map(|age| age.as_secs_f64()).into()),
                    ("runs", status.runs.into()),
                    ("bytes", status.bytes.into()),
                    ("runs_written", status.runs_written.into()),
                    ("log_bytes_written", status.log_bytes_written.into()),
                    ("blocks_from_memory", status.blocks_from_memory.into()),
                    ("blocks_from_files", status.blocks_from_files.into()),
                    ("runs_waiting", status.runs_waiting.into()),
                    ("rested_seconds", status.rested.as_secs_f64().into()),
                    ("merger", merger.into()),
                    ("merges", status.merges.into()),
                    ("merged_bytes", status.merged_bytes.into()),
                    ("merge_progress", status.merge_progress.into()),
                    ("merge_error", status.merge_error.into()),
                    ("archiver", archiver.into()),
                    ("archiver_silent_seconds", silent.map(|silent| silent.as_secs_f64()).into()),
                    ("error", status.error.into()),
                ]);
            }
        }
        "resurgam_page_cache" => {
            let confirmed = db.stats().pool.confirmed_pages;
            if let Some(status) = db.page_cache() {
                rows.add([
                    ("state", status.state.name().into()),
                    ("pages", status.pages.into()),
                    ("bytes", (status.pages * PAGE_SIZE as u64).into()),
                    ("bytes_max", status.bytes_max.into()),
                    ("used_again", status.pages_used_again.into()),
                    ("waiting", status.waiting.into()),
                    ("hits", status.hits.into()),
                    ("misses", status.misses.into()),
                    ("admitted", status.admitted.into()),
                    ("known", status.known.into()),
                    ("rejected", status.rejected.into()),
                    ("recovered", status.recovered.into()),
                    ("confirmed", confirmed.into()),
                    ("out_of_date", status.out_of_date.into()),
                    ("damaged", status.damaged.into()),
                    ("read_ms", (status.read_latency.as_secs_f64() * 1e3).into()),
                    ("error", status.error.into()),
                ]);
            }
        }
        "resurgam_page_servers" => {
            let flushed = db.log_status().flushed;
            for server in db.page_servers() {
                let state = match (&server.error, &server.name, &server.address) {
                    (Some(_), ..) => "failing",
                    (None, None, _) => "unknown",
                    (None, Some(_), None) => "following",
                    (None, Some(_), Some(_)) => "serving",
                };
                let lag = server.applied.map(|applied| flushed.0.saturating_sub(applied.0));
                rows.add([
                    ("address", server.address.into()),
                    ("name", server.name.into()),
                    ("state", state.into()),
                    ("pages", server.pages.into()),
                    ("failures", server.failures.into()),
                    ("latency_ms", server.latency.map(|time| time.as_secs_f64() * 1e3).into()),
                    ("applied_lsn", server.applied.map(|lsn| lsn.0).into()),
                    ("durable_lsn", server.durable.map(|lsn| lsn.0).into()),
                    ("lag_bytes", lag.into()),
                    ("silent_seconds", server.silent.map(|time| time.as_secs_f64()).into()),
                    ("error", server.error.into()),
                    ("partitions", server.partitions.into()),
                    ("partition_bytes", server.partition_pages.map(|pages| pages * PAGE_SIZE as u64).into()),
                    ("page_ranges", server.page_ranges.into()),
                    ("missing_bytes", server.missing_pages.map(|pages| pages * PAGE_SIZE as u64).into()),
                    ("refused", server.refused.into()),
                    ("elsewhere", server.elsewhere.into()),
                    ("gaps", server.gaps.into()),
                    ("load", server.load.into()),
                    ("tried_again", server.tried_again.into()),
                    ("passed_over", server.passed_over.into()),
                ]);
            }
        }
        "resurgam_log_service" => {
            if let Some(status) = db.log_service() {
                for service in status.services {
                    rows.add([
                        ("address", service.address.into()),
                        ("epoch", u64::from(status.epoch).into()),
                        ("epoch_start_lsn", status.start.0.into()),
                        ("appended_lsn", db.log_status().end.0.into()),
                        ("hardened_lsn", status.hardened.0.into()),
                        ("disseminated_lsn", service.disseminated.0.into()),
                        ("destaged_lsn", service.destaged.0.into()),
                        ("lag_bytes", status.hardened.0.saturating_sub(service.disseminated.0).into()),
                        ("lease_seconds", status.lease_left.as_secs_f64().into()),
                        ("blocks_sent", service.blocks.into()),
                        ("blocks_dropped", service.dropped.into()),
                        ("error", service.error.into()),
                    ]);
                }
            }
        }
        "resurgam_backups" => {
            let at = |us: Option<i64>| us.map_or(V::Null, |us| V::Time(us + EPOCH_US));
            for row in db.backups() {
                rows.add([
                    ("name", row.name.into()),
                    ("state", row.state.into()),
                    ("begin_lsn", row.begin.map(|lsn| lsn.0).into()),
                    ("end_lsn", row.end.map(|lsn| lsn.0).into()),
                    ("started", at(row.started_us)),
                    ("finished", at(row.finished_us)),
                    ("bytes", row.bytes.into()),
                    ("pages", row.pages.into()),
                    ("damaged_pages", row.damaged.into()),
                    ("from_archive", row.from_archive.map_or(V::Null, V::from)),
                    ("progress", row.progress.into()),
                    ("error", row.error.into()),
                ]);
            }
        }
        "resurgam_recoverable_points" => {
            let at = |us: Option<i64>| us.map_or(V::Null, |us| V::Time(us + EPOCH_US));
            if let Some(points) = db.recoverable_points() {
                let held_by = Some(points.held_by.join("; ")).filter(|text| !text.is_empty());
                rows.add([
                    ("earliest_lsn", points.earliest.map(|lsn| lsn.0).into()),
                    ("earliest_time", at(points.earliest_us)),
                    ("latest_lsn", points.latest.map(|lsn| lsn.0).into()),
                    ("latest_time", at(points.latest_us)),
                    ("recovery_window_seconds", points.window.map(|window| window.as_secs_f64()).into()),
                    ("promised_lsn", points.promised.map(|lsn| lsn.0).into()),
                    ("kept_from_lsn", points.kept_from.map(|lsn| lsn.0).into()),
                    ("checked_at", at(points.looked_us)),
                    ("runs_expired", points.given_up.runs.into()),
                    ("backups_expired", points.given_up.backups.into()),
                    ("bytes_expired", points.given_up.bytes.into()),
                    ("held_by", held_by.into()),
                    ("error", points.error.into()),
                ]);
            }
        }
        "resurgam_buffer" => {
            let stats = db.stats();
            rows.add([
                ("pages", stats.pool_pages.into()),
                ("dirty_pages", stats.dirty_pages.into()),
                ("hits", stats.pool.hits.into()),
                ("misses", stats.pool.misses.into()),
                ("evictions", stats.pool.evictions.into()),
                ("pages_written", stats.pool.pages_written.into()),
                ("write_batches", stats.pool.write_batches.into()),
                ("foreground_cleans", stats.pool.foreground_cleans.into()),
                ("pages_allocated", stats.pool.pages_allocated.into()),
                ("pages_freed", stats.pool.pages_freed.into()),
            ]);
        }
        "resurgam_cleaner" => cleaner(db, rows),
        "resurgam_version_store_holders" => holders(db, cx, rows),
        "resurgam_log" => {
            let (status, stats) = (db.log_status(), db.stats());
            let log = &stats.log;
            let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
            rows.add([
                ("end_lsn", status.end.0.into()),
                ("flushed_lsn", status.flushed.0.into()),
                ("oldest_lsn", status.oldest.0.into()),
                ("checkpoint_lsn", status.checkpoint.0.into()),
                ("bytes_in_use", status.bytes_in_use.into()),
                ("bytes_max", status.bytes_max.into()),
                ("held_by", status.held_by.into()),
                ("writers_slowed", status.writers_slowed.into()),
                ("groups", log.groups.into()),
                ("flushes", log.flushes.into()),
                ("syncs", log.syncs.into()),
                ("sync_us_average", (us(log.sync_time_total) / log.syncs.max(1) as f64).into()),
                ("sync_us_max", us(log.sync_time_max).into()),
                ("flights", log.flying.into()),
                ("flights_most", log.flying_most.into()),
                ("flights_max", status.flights_max.into()),
                ("flights_held", log.flights_held.into()),
                ("buffer_full_waits", log.buffer_full_waits.into()),
                ("segments_created", log.segments_created.into()),
                ("segments_recycled", log.segments_recycled.into()),
                ("markers", log.markers.into()),
                ("rows_inserted_in_runs", stats.rows_inserted_in_runs.into()),
                ("rows_deleted_in_runs", stats.rows_deleted_in_runs.into()),
            ]);
        }
        "resurgam_damaged_pages" => {
            for page in db.damaged_page_list() {
                rows.add([
                    ("page", page.page.0.into()),
                    ("object", page.object.map(|object| u64::from(object.0)).into()),
                    ("relation", page.object.and_then(|object| relation_of(cx, object)).into()),
                    ("since_lsn", lsn(page.since)),
                    ("set_aside", page.set_aside.into()),
                    ("error", page.error.into()),
                ]);
            }
        }
        "resurgam_restore" => {
            if let Some(status) = db.restore_status() {
                rows.add([
                    ("device", status.device.into()),
                    ("state", status.state.into()),
                    ("kind", format!("{:?}", status.kind).to_lowercase().into()),
                    ("segments", status.segments.into()),
                    ("restored", status.restored.into()),
                    ("on_demand", status.on_demand.into()),
                    ("in_background", status.in_background.into()),
                    ("bytes", status.bytes.into()),
                    ("bytes_per_second", status.bytes_per_second.into()),
                    ("seconds_left", status.left.map(|left| left.as_secs_f64()).into()),
                    ("rested_seconds", status.rested.as_secs_f64().into()),
                    ("since", V::Time(status.since_us + EPOCH_US)),
                    ("as_of_lsn", status.as_of.0.into()),
                    ("error", status.error.into()),
                ]);
            }
        }
        "resurgam_repairs" => {
            for of in db.repairs() {
                rows.add([
                    ("page", of.repair.page.0.into()),
                    ("object", of.object.map(|object| u64::from(object.0)).into()),
                    ("relation", of.object.and_then(|object| relation_of(cx, object)).into()),
                    ("file", of.repair.path.display().to_string().into()),
                    ("repaired_at", V::Time(of.at_us + EPOCH_US)),
                    ("fault", of.repair.fault.into()),
                    ("base_lsn", lsn(of.repair.base)),
                    ("lsn", lsn(of.repair.lsn)),
                    ("records", of.repair.records.into()),
                    ("ms", (of.repair.took.as_secs_f64() * 1e3).into()),
                ]);
            }
        }
        "resurgam_troubles" => {
            for trouble in db.troubles() {
                rows.add([
                    ("what", trouble.what.trim_end_matches(',').into()),
                    ("error", trouble.error.into()),
                    ("seconds", trouble.since.as_secs_f64().into()),
                    ("times", trouble.times.into()),
                    ("keeps_log", trouble.keeps_log.into()),
                ]);
            }
        }
        "resurgam_plans" => plans(cx, rows),
        "resurgam_statements" => statements(cx, rows),
        "resurgam_statements_info" => {
            let info = cx.statements_info();
            rows.add([("dealloc", info.deallocations.into()), ("stats_reset", V::Time(info.reset_at))]);
        }
        "resurgam_recovery" => {
            let (report, stats) = (db.recovery(), db.stats());
            let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            rows.add([
                ("was_clean", report.was_clean.into()),
                ("analysis_ms", ms(report.analysis).into()),
                ("total_ms", ms(report.total).into()),
                ("redo_ms", stats.redo_time.map(ms).into()),
                ("undo_ms", stats.undo_time.map(ms).into()),
                ("undo_records", stats.undo_records.into()),
                ("transactions_to_undo", stats.undo_queue.into()),
                ("log_records", report.log_records.into()),
                ("log_bytes", report.log_bytes.into()),
                ("log_end", report.log_end.clone().into()),
                ("pages_to_redo", report.pages_to_redo.into()),
                ("pages_awaiting_redo", stats.pages_awaiting_redo.into()),
                ("pages_damaged", db.damaged_pages().into()),
                ("pages_restored", report.pages_restored.into()),
                ("transactions_cut_off", report.transactions_aborted.into()),
                ("aborted_in_map", report.aborted_in_map.into()),
                ("transactions_in_doubt", report.transactions_in_doubt.into()),
            ]);
        }
        "resurgam_transactions" => {
            for tx in db.active_transactions() {
                let subs: u64 = tx.subs.iter().map(|(first, last)| last.0 - first.0 + 1).sum();
                rows.add([
                    ("xid", tx.id.0.into()),
                    ("seconds", tx.age.as_secs_f64().into()),
                    ("first_lsn", lsn(tx.first_lsn)),
                    ("last_lsn", lsn(tx.last_lsn)),
                    ("subtransactions", subs.into()),
                ]);
            }
        }
        "resurgam_version_store" => {
            let stats = db.stats();
            let aborted = db.aborted_transactions();
            let active = db.active_transactions();
            rows.add([
                ("pushed", stats.versions.pushed.into()),
                ("pages", stats.versions.pages.into()),
                ("bytes", (stats.versions.pages * resurgam_engine::limits::PAGE_SIZE as u64).into()),
                ("pages_freed", stats.versions.freed.into()),
                ("aborted_transactions", db.aborted_count().into()),
                ("oldest_aborted_xid", aborted.first().map(|tx| tx.id.0).into()),
                ("oldest_active_xid", active.first().map(|tx| tx.id.0).into()),
                ("snapshots", stats.transactions.snapshots.into()),
                ("file", stats.version_store_file.as_ref().map(|path| path.display().to_string()).into()),
                ("file_bytes", stats.versions.file_bytes.into()),
                ("pages_ready", stats.versions.pages_ready.into()),
                ("found_none_ready", stats.versions.found_none.into()),
                ("held_by", stats.versions_held_by.clone().into()),
                ("temporary_versions", stats.temporary.pushed.into()),
                ("temporary_bytes", stats.temporary.bytes.into()),
                ("temporary_bytes_max", stats.temporary.bytes_max.into()),
                ("prepared_transactions", stats.prepared.into()),
                ("rolled_back_by_undo", stats.transactions.undone.into()),
                ("rolled_back_by_marking", stats.transactions.aborts.into()),
            ]);
        }
        _ => {}
    }
    true
}

/// Microseconds since 2000 as a time; 0 is unknown.
fn time(us: i64) -> V {
    if us == 0 { V::Null } else { V::Time(us + EPOCH_US) }
}

fn cleaner(db: &Database, rows: &mut Rows<'_>) {
    let status = db.cleaner_status();
    let (totals, current) = (&status.totals, status.current);
    let last = status.last;
    let of = |f: fn(&SweepReport) -> u64| last.as_ref().map(|last| f(&last.report));
    let phase = match current {
        _ if status.waits_for_redo => "waiting for recovery to finish",
        Some(current) => current.phase.name(),
        None => SweepPhase::Idle.name(),
    };
    let skipped = last.map(|last| last.report.skipped).unwrap_or_default();
    let examples = [skipped.damaged, skipped.damaged_maps, skipped.unreadable, skipped.no_room, skipped.object_unknown];
    let example = examples.into_iter().find_map(|s| s.example);
    let pace = status.pace;
    rows.add([
        ("phase", phase.into()),
        ("began_at", current.map(|current| time(current.began_us)).unwrap_or(V::Null)),
        ("pages_total", current.map(|current| current.pages_total).into()),
        ("pages_visited", current.map(|current| current.pages_visited).into()),
        ("percent", current.map(|current| current.percent).into()),
        ("seconds_left", current.and_then(|current| current.left).map(|left| left.as_secs_f64()).into()),
        ("threads", current.map_or(0, |current| current.threads).into()),
        ("threads_max", status.threads_max.into()),
        ("pace_pages_per_second", (pace.pages_per_second != 0).then_some(pace.pages_per_second).into()),
        ("pace_cpu_percent", pace.cpu_percent.into()),
        ("pace_reason", pace.reason.name().into()),
        ("sweeps", totals.sweeps.into()),
        ("rows_reverted", totals.report.reverted.into()),
        ("rows_stripped", totals.report.stripped.into()),
        ("rows_removed", totals.report.removed.into()),
        ("rows_removed_by_readers", totals.removed_by_readers.into()),
        ("reader_jumps", status.reader_jumps.into()),
        ("version_pages_freed", totals.version_pages_freed.into()),
        ("last_began_at", last.map(|last| time(last.began_us)).unwrap_or(V::Null)),
        ("last_seconds", last.map(|last| last.took.as_secs_f64()).into()),
        ("last_sweep_seconds_ago", last.map(|last| last.ended.elapsed().as_secs_f64()).into()),
        ("last_complete", last.map(|last| last.complete).into()),
        ("last_pages", of(|r| r.pages).into()),
        ("last_transactions_forgotten", of(|r| r.forgotten).into()),
        ("last_transactions_kept", of(|r| r.kept).into()),
        ("last_pages_unmapped", of(|r| r.unmapped).into()),
        ("last_pages_not_tried", of(|r| r.not_tried).into()),
        ("last_version_pages_freed", of(|r| r.version_pages_freed).into()),
        ("last_value_pages_freed", of(|r| r.value_pages_freed).into()),
        ("last_pages_merged", of(|r| r.merged).into()),
        ("last_pages_skipped", of(|r| r.pages_skipped).into()),
        ("last_skipped_damaged", of(|r| r.skipped.damaged.count).into()),
        ("last_skipped_object_unknown", of(|r| r.skipped.object_unknown.count).into()),
        ("last_skipped_damaged_maps", of(|r| r.skipped.damaged_maps.count).into()),
        ("last_skipped_pending_frees", of(|r| r.skipped.pending_frees.count).into()),
        ("last_skipped_unreadable", of(|r| r.skipped.unreadable.count).into()),
        ("last_skipped_no_room", of(|r| r.skipped.no_room.count).into()),
        ("last_skipped_example", example.map(|page| page.0).into()),
    ]);
}

/// A row for each that keeps row versions from being freed, those that have done so for longest first.
fn holders(db: &Database, cx: &dyn PgContext, rows: &mut Rows<'_>) {
    let holders = db.version_store_holders();
    let prepared = db.prepared();
    let activity = cx.activity();
    let now = crate::datetime::now() - EPOCH_US;
    let seconds = |us: i64| (now.saturating_sub(us) as f64 / 1e6).max(0.0);
    if let Some(tx) = holders.transaction
        && !prepared.iter().any(|prepared| prepared.id == tx.id)
    {
        let pid = activity.iter().find(|session| session.backend_xid == Some(tx.id.0)).map(|session| session.pid);
        rows.add([
            ("kind", "transaction".into()),
            ("xid", tx.id.0.into()),
            ("pid", pid.into()),
            ("since", time(tx.began_us)),
            ("seconds", tx.age.as_secs_f64().into()),
            ("how_many", tx.active.into()),
        ]);
    }
    for one in &prepared {
        rows.add([
            ("kind", "prepared transaction".into()),
            ("xid", one.id.0.into()),
            ("gid", one.gid.clone().into()),
            ("since", time(one.prepared_us)),
            ("seconds", seconds(one.prepared_us).into()),
            ("how_many", prepared.len().into()),
        ]);
    }
    if let Some(snapshot) = holders.snapshot {
        let pid = activity.iter().find(|session| session.snapshot == Some(snapshot.ts.0)).map(|session| session.pid);
        rows.add([
            ("kind", "snapshot".into()),
            ("pid", pid.into()),
            ("since", time(snapshot.began_us)),
            ("seconds", snapshot.age.as_secs_f64().into()),
            ("commits_behind", snapshot.commits_behind.into()),
            ("how_many", snapshot.in_use.into()),
        ]);
    }
    if let Some(aborted) = holders.aborted {
        rows.add([
            ("kind", "aborted transactions".into()),
            ("xid", aborted.oldest.0.into()),
            ("since", time(aborted.aborted_us)),
            ("seconds", aborted.age.as_secs_f64().into()),
            ("version_pages", aborted.pages.into()),
            ("how_many", aborted.ids.into()),
        ]);
    }
}
