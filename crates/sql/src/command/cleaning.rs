//! Cleaning up now, and giving space back: VACUUM, and what SQL Server's users call for the same
//! (`EXEC sys.sp_persistent_version_cleanup`). `resurgam_clean()` is in `clean_function.rs`.

use resurgam_engine::SweepReport;

use crate::command::apart::Ending;
use crate::exec::clean_function::denied;
use crate::parse::own::Own;
use crate::parse::statement::cleaning::Named;
use crate::pg::catalog::{is_system_schema, system_relation};
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

/// A sweep's report in a sentence.
fn in_words(report: &SweepReport) -> String {
    format!(
        "{} pages visited, {} skipped; rows: {} reverted, {} stripped, {} removed; {} aborted transactions forgotten; \
         pages freed: {} of the version store, {} of large values, {} by merging; {} pages moved, {} bytes given back to the \
         file system, {} of them in holes",
        report.pages,
        report.pages_skipped,
        report.reverted,
        report.stripped,
        report.removed,
        report.forgotten,
        report.version_pages_freed,
        report.value_pages_freed,
        report.merged,
        report.pages_moved,
        report.bytes_given_back(),
        report.bytes_punched
    )
}

impl Session {
    /// Whether tables that VACUUM names are there.
    ///
    /// # Errors
    /// `42P01`
    fn check_tables(&mut self, tables: &[Named]) -> Result<(), SqlError> {
        let used = self.open.as_ref().is_some_and(|open| open.used);
        for Named { table: name, .. } in tables {
            // Names of system relations are fine.
            let txn = self.transaction().txn.clone();
            let lookup = self.lookup(&txn);
            let (schema, name_alone) = lookup.place(name)?;
            if !is_system_schema(&schema) || system_relation(&schema, &name_alone).is_none() {
                lookup.table(name)?;
            }
        }
        if let Some(open) = &mut self.open {
            open.used = used;
        }
        Ok(())
    }

    /// A complete sweep of the cleaner now, rather than when it is due.
    pub(crate) async fn vacuum(&mut self, statement: &Own) -> Result<Execution, SqlError> {
        let called = matches!(statement, Own::CleanupProcedure { .. });
        let shown = if called { "sp_persistent_version_cleanup" } else { "VACUUM" };
        self.refuse_in_transaction(shown)?;
        if !self.rights()?.is_superuser(self.role()) {
            return Err(denied());
        }
        match statement {
            Own::Vacuum { tables, .. } => self.check_tables(tables)?,
            // Versions are those of all databases together.
            Own::CleanupProcedure { database: Some(name) } => {
                let rights = self.rights()?;
                if !rights.databases.iter().any(|known| known.name.eq_ignore_ascii_case(name)) {
                    return Err(crate::pg::roles::no_database(name));
                }
            }
            _ => {}
        }
        let gives_back = matches!(statement, Own::Vacuum { truncate: true, .. });
        let report = self
            .apart_until_stopped(Ending::Abandoned, move |engine, cancelled| match gives_back {
                true => engine.vacuum_unless(cancelled),
                false => engine.clean_unless(cancelled),
            })
            .await?;
        if matches!(statement, Own::Vacuum { verbose: true, .. }) {
            let detail = self.db.engine.stats().versions_held_by;
            let notice = SqlError::notice("INFO", "00000", in_words(&report));
            self.notice(notice.with_detail(format!("Row versions are held by: {detail}.")));
        } else if report.pages_skipped > 0 {
            let notice = SqlError::notice("WARNING", "01000", in_words(&report));
            self.notice(notice.with_hint("\"resurgam check\" and the view resurgam_cleaner say which pages."));
        }
        if let Own::Vacuum { verbose, analyze: true, tables, .. } = statement {
            self.analyze_tables(*verbose, tables).await?;
        }
        command(if called { "CALL" } else { "VACUUM" })
    }
}
