//! Tables that have changed are analysed in the background.
//!
//! As PostgreSQL's autovacuum: when more rows than [`ROWS_MIN`] and [`SHARE`] of the table were written since. The numbers are in
//! memory: after a restart they begin at nothing.

use std::sync::Arc;

use resurgam_base::{ErrorKind, Result};

use super::{Analysis, Sampled};
use crate::database::Database;
use crate::table::Table;
use crate::transaction::{Attempt, Durability, Isolation};

/// PostgreSQL's autovacuum_analyze_threshold and autovacuum_analyze_scale_factor.
const ROWS_MIN: u64 = 50;
const SHARE: f64 = 0.1;
/// PostgreSQL's default_statistics_target.
const TARGET: usize = 100;

/// Analyses what has changed, on a thread of its own.
pub(crate) struct Analyzer;

impl Analyzer {
    /// Looks at all tables once.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub(crate) fn look(db: &Database, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let definitions = db.inner().catalog.committed(db)?;
        for table in definitions.by_id.values().filter(|table| table.is_table()) {
            if is_stopped() {
                return Ok(());
            }
            let changed = table.rows_changed();
            if !worth_it(changed, 0) {
                continue;
            }
            let known = db.statistics(table)?.map_or(0, |known| known.rows);
            if worth_it(changed, known) {
                db.analyze_itself(table, is_stopped)?;
            }
        }
        Ok(())
    }
}

/// Whether so many rows make a difference in a table of so many.
fn worth_it(changed: u64, rows: u64) -> bool {
    changed as f64 > ROWS_MIN as f64 + SHARE * rows as f64
}

impl Database {
    /// Analyses a table; one that somebody is changing is left for later.
    fn analyze_itself(&self, table: &Arc<Table>, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let changed = table.rows_changed();
        let columns: Vec<usize> = table.shown_columns().collect();
        let what = Analysis { columns: &columns, target: TARGET, is_automatic: true, is_stopped };
        let txn = self.begin(Isolation::ReadCommitted);
        let view = txn.view()?;
        let (found, Sampled { read, rows, .. }) = match view.analyze(table, &what) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::DefinitionChanged || is_stopped() => return txn.rollback(),
            Err(error) => return Err(error),
        };
        drop(view);
        // Rows that are not seen, of a transaction that goes on perhaps. With most of them it would be taken for a table
        // without these: the next look tells, or one after a sweep.
        let unseen = found.records.saturating_sub(rows);
        if unseen > rows + ROWS_MIN {
            return txn.rollback();
        }
        let before = self.statistics(table)?.map(|known| known.rows);
        match txn.store_statistics(table, &found) {
            Ok(Attempt::Done(())) => {}
            Ok(Attempt::Wait(_)) => return txn.rollback(),
            Err(error) if error.kind() == ErrorKind::DefinitionChanged => return txn.rollback(),
            Err(error) => return Err(error),
        }
        drop(txn.commit(Durability::Async)?);
        // Those that were not seen are news when they are committed. (The number of records is not exact: what was found once
        // more without any difference is known.)
        let left = if before == Some(found.rows) { 0 } else { unseen };
        if unseen <= rows / 4 + ROWS_MIN {
            table.forget_changed(changed.saturating_sub(left));
        }
        self.note_statistics();
        tracing::debug!("table {} was analysed: {read} rows read of about {rows}", table.name);
        Ok(())
    }
}
