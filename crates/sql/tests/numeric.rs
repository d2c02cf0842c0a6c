//! Numbers, times and series with PostgreSQL 15's digits: `crates/pg/tests/fixtures/numeric.txt` has what it answers.
//!
//! Each line is a query, the types of its columns, and its rows (columns divided by `|`, rows by ` / `) or `!` and
//! an SQLSTATE, divided by tabs. Types are compared by the server's tests. A line that begins with `#` is a query
//! that is known to differ, with the reason in its last field.

use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

const SETUP: [&str; 2] = [
    "CREATE TABLE t (i int PRIMARY KEY, n numeric(12,2), b bigint, s smallint, f float8, f4 real)",
    "INSERT INTO t VALUES (1, 1.5, 10, 1, 0.1, 0.1), (2, 100, 20, 2, 0.2, 0.2), (3, 1.50, 30, 3, 0.3, 0.3), \
     (4, NULL, NULL, NULL, NULL, NULL), (5, -2.25, 9223372036854775807, 32767, 10000000000, 16777216)",
];

fn session() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    (dir, session)
}

async fn answer(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => {
            let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
            let row = |row: &Vec<Option<String>>| row.iter().map(cell).collect::<Vec<_>>().join("|");
            result.rows.iter().map(row).collect::<Vec<_>>().join(" / ")
        }
        Err(error) => format!("!{}", error.sqlstate),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digits_are_postgresqls() {
    let (_dir, mut session) = session();
    for sql in SETUP {
        session.query(sql).await.expect("prepare");
    }
    let (mut queries, mut wrong) = (0, Vec::new());
    // Twice: a plan that is kept answers as one that is made.
    for _ in 0..2 {
        for line in include_str!("../../pg/tests/fixtures/numeric.txt").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [sql, _, wanted] = fields.as_slice() else { panic!("{line}") };
            queries += 1;
            let ours = answer(&mut session, sql).await;
            if ours != *wanted {
                wrong.push(format!("{sql}\n  {ours}\n  {wanted}"));
            }
        }
    }
    assert!(queries > 100);
    assert!(wrong.is_empty(), "{} of {queries} differ:\n{}", wrong.len(), wrong.join("\n"));
}
