//! `ALTER DATABASE name SET accelerated_database_recovery = on | off`, which changes how the
//! database rolls back and recovers, for good. Both PostgreSQL's spelling and that of SQL
//! Server (`ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY = ON`) are understood.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::sql::sqlparser::ast::Statement;
use resurgam_engine::Database;

use crate::utility::marker;
use crate::wire::SqlError;

/// Name of the setting.
pub(crate) const SETTING: &str = "accelerated_database_recovery";
/// Names of the two statements for [`marker`].
pub(crate) const ON: &str = "ALTER DATABASE ON";
pub(crate) const OFF: &str = "ALTER DATABASE OFF";
/// The one database.
const DATABASE: &str = "postgres";

/// What SHOW says.
pub(crate) fn shown(engine: &Database) -> &'static str {
    if engine.is_recovery_accelerated() { "on" } else { "off" }
}

/// Reads the statement, whose first two words are known.
pub(crate) fn parse(text: &str) -> Result<Statement, SqlError> {
    let spaced = text.replace('=', " = ");
    let words: Vec<&str> = spaced.split_ascii_whitespace().skip(2).collect();
    let unsupported = || {
        Err(SqlError::new("0A000", "ALTER DATABASE can only set accelerated_database_recovery")
            .with_hint("ALTER DATABASE postgres SET accelerated_database_recovery = on"))
    };
    let [name, set, setting, to, value] = words.as_slice() else { return unsupported() };
    if !set.eq_ignore_ascii_case("set") || !setting.eq_ignore_ascii_case(SETTING) {
        return unsupported();
    }
    if *to != "=" && !to.eq_ignore_ascii_case("to") {
        return Err(SqlError::new("42601", format!("syntax error at or near \"{to}\"")));
    }
    let quoted = name.strip_prefix('"').and_then(|n| n.strip_suffix('"'));
    let bracketed = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let is_this = match quoted.or(bracketed) {
        Some(exact) => exact == DATABASE,
        None => name.eq_ignore_ascii_case(DATABASE) || name.eq_ignore_ascii_case("current"),
    };
    if !is_this {
        return Err(SqlError::new("3D000", format!("database \"{name}\" does not exist"))
            .with_hint("The one database is postgres."));
    }
    match value.trim_matches('\'').to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(marker(ON)),
        "off" | "false" | "no" | "0" => Ok(marker(OFF)),
        _ => Err(SqlError::new("22023", format!("parameter \"{SETTING}\" requires a Boolean value"))),
    }
}

/// Raises a flag when it is dropped: the statement ended, perhaps by being cancelled.
#[derive(Default)]
pub(crate) struct Dropped(Arc<AtomicBool>);

impl Dropped {
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for text in [
            "ALTER DATABASE postgres SET accelerated_database_recovery = off",
            "alter database postgres set accelerated_database_recovery to 'off'",
            "ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY=OFF",
            "ALTER DATABASE [postgres] SET ACCELERATED_DATABASE_RECOVERY = OFF",
        ] {
            assert_eq!(parse(text).ok(), Some(marker(OFF)), "{text}");
        }
        let code = |text| parse(text).err().map(|e| e.sqlstate);
        assert_eq!(code("ALTER DATABASE other SET accelerated_database_recovery = off").as_deref(), Some("3D000"));
        assert_eq!(code("ALTER DATABASE postgres SET accelerated_database_recovery = 7").as_deref(), Some("22023"));
        assert_eq!(code("ALTER DATABASE postgres SET work_mem = 7").as_deref(), Some("0A000"));
        assert_eq!(code("ALTER DATABASE postgres RENAME TO x").as_deref(), Some("0A000"));
    }
}
