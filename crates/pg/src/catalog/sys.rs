//! Schema `sys`: what scripts for SQL Server ask about accelerated database recovery, with the
//! original column names and units. Columns without a meaning here are null; `docs/operations.md`
//! says which. Types that PostgreSQL does not have are the nearest ones: `bit` is `smallint`
//! (0 or 1), `datetime` is `timestamp` (in UTC), `numeric(25,0)` is `bigint`.

use resurgam_engine::{Database, limits::PAGE_SIZE};

use super::DATABASE_OID;
use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::types::EPOCH_US;

/// Microseconds since 2000 as a time; 0 is unknown.
fn time(us: i64) -> V {
    if us == 0 { V::Null } else { V::Time(us + EPOCH_US) }
}

fn bit(on: bool) -> V {
    i16::from(on).into()
}

/// Fills a view; false if it is not one of these.
pub(super) fn fill(name: &str, cx: &dyn PgContext, rows: &mut Rows<'_>) -> bool {
    let Some(db) = cx.engine() else { return true };
    match name {
        "databases" => {
            let Ok(rights) = cx.rights() else { return true };
            for database in &rights.databases {
                rows.add([
                    ("name", database.name.as_str().into()),
                    ("database_id", database.oid.into()),
                    ("state_desc", "ONLINE".into()),
                    ("is_accelerated_database_recovery_on", bit(db.is_recovery_accelerated())),
                ]);
            }
        }
        "dm_tran_persistent_version_store_stats" => version_store(&db, rows),
        "dm_tran_aborted_transactions" => {
            for tx in db.aborted_transactions() {
                rows.add([
                    ("transaction_id", tx.id.0.into()),
                    ("database_id", DATABASE_OID.into()),
                    ("begin_xact_lsn", V::Null),
                    ("end_xact_lsn", if tx.lsn.is_some() { tx.lsn.0.into() } else { V::Null }),
                    ("begin_time", time(tx.began_us)),
                    ("nest_aborted", bit(false)),
                ]);
            }
        }
        _ => return false,
    }
    true
}

fn version_store(db: &Database, rows: &mut Rows<'_>) {
    let (stats, status, holders) = (db.stats(), db.cleaner_status(), db.version_store_holders());
    let took = |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let (last_start, last_end) =
        status.last.map_or((0, 0), |last| (last.began_us, last.began_us.saturating_add(took(last.took))));
    // While a sweep runs its start is later than the end of the last one, as there.
    let start = status.current.map_or(last_start, |current| current.began_us);
    rows.add([
        ("database_id", DATABASE_OID.into()),
        ("pvs_filegroup_id", (if stats.version_store_file.is_some() { 2i16 } else { 1 }).into()),
        ("persistent_version_store_size_kb", (stats.versions.pages * PAGE_SIZE as u64 / 1024).into()),
        ("online_index_version_store_size_kb", 0.into()),
        ("current_aborted_transaction_count", db.aborted_count().into()),
        ("oldest_active_transaction_id", holders.transaction.map(|tx| tx.id.0).into()),
        ("oldest_aborted_transaction_id", holders.aborted.map(|aborted| aborted.oldest.0).into()),
        ("min_transaction_timestamp", holders.snapshot.map(|snapshot| snapshot.ts.0).into()),
        ("offrow_version_cleaner_start_time", time(start)),
        ("offrow_version_cleaner_end_time", time(last_end)),
        ("aborted_version_cleaner_start_time", time(start)),
        ("aborted_version_cleaner_end_time", time(last_end)),
        ("pvs_off_row_page_skipped_oldest_aborted_xdesid", holders.aborted.map(|aborted| aborted.pages).into()),
    ]);
}
