//! Cleaning up now: VACUUM, and what SQL Server's users call for the same
//! (`EXEC sys.sp_persistent_version_cleanup`). `resurgam_clean()` is in `pg/functions/clean.rs`.

use datafusion::sql::sqlparser::ast::Statement;
use resurgam_engine::SweepReport;

use crate::session::Session;
use crate::utility::{command, marker};
use crate::wire::{Execution, SqlError};

/// Names of the statements for [`marker`].
pub(crate) const VACUUM: &str = "VACUUM";
pub(crate) const VERBOSE: &str = "VACUUM VERBOSE";
pub(crate) const PROCEDURE: &str = "CALL";

/// VACUUM in all its forms: the sweep is always one of the whole database.
pub(crate) fn parse_vacuum(text: &str) -> Statement {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    marker(if words.any(|word| word.eq_ignore_ascii_case("verbose")) { VERBOSE } else { VACUUM })
}

/// A call of SQL Server's procedure; `None` if the text calls something else.
///
/// ```text
/// EXEC sys.sp_persistent_version_cleanup [ [@dbname =] [N]'postgres' | [postgres] ]
/// CALL sys.sp_persistent_version_cleanup( ['postgres'] )
/// ```
pub(crate) fn parse_call(text: &str) -> Option<Result<Statement, SqlError>> {
    let (first, rest) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    let rest = rest.trim();
    let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '(').unwrap_or(rest.len());
    let name = rest[..end].replace(['[', ']', '"'], "").to_ascii_lowercase();
    if !matches!(name.as_str(), "sys.sp_persistent_version_cleanup" | "sp_persistent_version_cleanup") {
        return None;
    }
    let mut arguments = rest[end..].trim();
    if first.eq_ignore_ascii_case("call") {
        match arguments.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) => arguments = inner.trim(),
            None => return Some(Err(SqlError::syntax("CALL needs parentheses behind the procedure's name"))),
        }
    }
    let value = match arguments.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("@dbname") => value.trim(),
        Some(_) => arguments,
        None => arguments,
    };
    let value = value.strip_prefix(['N', 'n']).filter(|quoted| quoted.starts_with('\'')).unwrap_or(value);
    let bare = value.trim_matches(['\'', '"']).trim_start_matches('[').trim_end_matches(']');
    Some(if value.is_empty() || bare.eq_ignore_ascii_case("postgres") {
        Ok(marker(PROCEDURE))
    } else if bare.contains([',', '@', '=']) {
        Err(SqlError::unsupported("sp_persistent_version_cleanup takes the name of the database only"))
    } else {
        Err(SqlError::new("3D000", format!("database \"{bare}\" does not exist"))
            .with_hint("The one database is postgres."))
    })
}

/// Who may not clean up.
pub(crate) fn denied() -> SqlError {
    SqlError::new("42501", "permission denied to clean up row versions").with_hint("Must be superuser.")
}

/// A sweep's report in a sentence.
fn in_words(report: &SweepReport) -> String {
    format!(
        "{} pages visited, {} skipped; rows: {} reverted, {} stripped, {} removed; {} aborted transactions forgotten; \
         pages freed: {} of the version store, {} of large values, {} by merging",
        report.pages,
        report.pages_skipped,
        report.reverted,
        report.stripped,
        report.removed,
        report.forgotten,
        report.version_pages_freed,
        report.value_pages_freed,
        report.merged
    )
}

impl Session {
    /// A complete sweep of the cleaner now, rather than when it is due.
    pub(crate) async fn vacuum(&mut self, name: &str) -> Result<Execution, SqlError> {
        let shown = if name == PROCEDURE { "sp_persistent_version_cleanup" } else { "VACUUM" };
        self.refuse_in_transaction(shown)?;
        if !self.cx.is_superuser() {
            return Err(denied());
        }
        let report = self.apart(|engine| engine.clean_now()).await?;
        if name == VERBOSE {
            let detail = self.db.engine.stats().versions_held_by;
            let notice = SqlError::notice("INFO", "00000", in_words(&report));
            self.notice(notice.with_detail(format!("Row versions are held by: {detail}.")));
        } else if report.pages_skipped > 0 {
            let notice = SqlError::notice("WARNING", "01000", in_words(&report));
            self.notice(notice.with_hint("\"resurgam check\" and the view resurgam_cleaner say which pages."));
        }
        command(if name == PROCEDURE { "CALL" } else { "VACUUM" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls() {
        for text in [
            "EXEC sys.sp_persistent_version_cleanup",
            "exec [sys].[sp_persistent_version_cleanup] [postgres]",
            "EXECUTE sp_persistent_version_cleanup N'postgres'",
            "EXEC sys.sp_persistent_version_cleanup @dbname = N'postgres'",
            "CALL sys.sp_persistent_version_cleanup()",
            "call sys.sp_persistent_version_cleanup('postgres')",
        ] {
            assert_eq!(parse_call(text).and_then(Result::ok), Some(marker(PROCEDURE)), "{text}");
        }
        let code = |text| parse_call(text).and_then(Result::err).map(|error| error.sqlstate);
        assert_eq!(code("EXEC sys.sp_persistent_version_cleanup other").as_deref(), Some("3D000"));
        assert_eq!(code("EXEC sys.sp_persistent_version_cleanup 'postgres', 1").as_deref(), Some("0A000"));
        assert_eq!(code("EXEC sys.sp_persistent_version_cleanup @scanallpages = 1").as_deref(), Some("0A000"));
        assert_eq!(code("CALL sys.sp_persistent_version_cleanup").as_deref(), Some("42601"));
        assert!(parse_call("EXECUTE p(1)").is_none());
        assert!(parse_call("EXEC sp_who").is_none());
    }

    #[test]
    fn vacuums() {
        assert_eq!(parse_vacuum("vacuum (analyze, Verbose) t"), marker(VERBOSE));
        assert_eq!(parse_vacuum("VACUUM FULL t"), marker(VACUUM));
    }
}
