//! Resurgam's own views: what recovery, versions, log and cleaner do.
//! `docs/operations.md` says what each column means.

use resurgam_engine::Database;

use super::rows::{Rows, V};
use crate::pg::types::EPOCH_US;

fn lsn(lsn: resurgam_engine::Lsn) -> V {
    if lsn.is_some() { lsn.0.into() } else { V::Null }
}

/// Fills a view; false if it is not one of these.
pub(super) fn fill(name: &str, database: Option<&Database>, rows: &mut Rows<'_>) -> bool {
    if !name.starts_with("resurgam_") {
        return false;
    }
    let Some(db) = database else { return true };
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
        "resurgam_cleaner" => {
            let stats = db.stats();
            let last = db.last_sweep();
            let of = |f: fn(&resurgam_engine::SweepReport) -> u64| last.as_ref().map(|(report, _)| f(report));
            rows.add([
                ("sweeps", stats.sweeps.into()),
                ("rows_reverted", stats.rows_reverted.into()),
                ("rows_stripped", stats.rows_stripped.into()),
                ("rows_removed", stats.rows_removed.into()),
                ("last_sweep_seconds_ago", last.as_ref().map(|(_, ago)| ago.as_secs_f64()).into()),
                ("last_pages", of(|r| r.pages).into()),
                ("last_pages_skipped", of(|r| r.pages_skipped).into()),
                ("last_transactions_forgotten", of(|r| r.forgotten).into()),
                ("last_version_pages_freed", of(|r| r.version_pages_freed).into()),
                ("last_value_pages_freed", of(|r| r.value_pages_freed).into()),
                ("last_pages_merged", of(|r| r.merged).into()),
            ]);
        }
        "resurgam_log" => {
            let (status, log) = (db.log_status(), db.stats().log);
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
                ("buffer_full_waits", log.buffer_full_waits.into()),
                ("segments_created", log.segments_created.into()),
                ("segments_recycled", log.segments_recycled.into()),
            ]);
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
                ("rolled_back_by_undo", stats.transactions.undone.into()),
                ("rolled_back_by_marking", stats.transactions.aborts.into()),
            ]);
        }
        _ => {}
    }
    true
}
