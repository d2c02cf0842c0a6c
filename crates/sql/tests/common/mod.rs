//! Sessions of one database, whose statements run beside one another.

use std::sync::Arc;

use resurgam_engine::Database;
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

pub struct Db {
    pub engine: Database,
    sql: Arc<SqlDatabase>,
}

impl Db {
    pub fn of(engine: Database) -> Self {
        let sql = SqlDatabase::new(engine.clone(), SqlSettings::default());
        Self { engine, sql }
    }

    pub fn session(&self) -> Session {
        Arc::clone(&self.sql).session(SessionOptions::default()).expect("session")
    }

    /// Closes the database, once all sessions are gone.
    #[allow(dead_code)]
    pub fn close(self) {
        let Self { engine, sql } = self;
        drop(sql);
        engine.close().expect("close");
    }
}

/// Whether the mode that `RESURGAM_MODE` names is the accelerated one.
#[allow(dead_code)]
pub fn accelerated() -> bool {
    std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional")
}

/// The rows of a statement that succeeds, their values with `|` between them.
pub async fn ok(session: &mut Session, sql: &str) -> Vec<String> {
    let result = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned())).collect::<Vec<_>>().join("|")
    };
    result.rows.into_iter().map(shown).collect()
}
