//! `ALTER DATABASE name SET accelerated_database_recovery = on | off`, which changes how the
//! database rolls back and recovers, for good. Both PostgreSQL's spelling and that of SQL
//! Server (`ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY = ON`) are understood.

use resurgam_engine::Database;

/// What SHOW says.
pub(crate) fn shown(engine: &Database) -> &'static str {
    if engine.is_recovery_accelerated() { "on" } else { "off" }
}
