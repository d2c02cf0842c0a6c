//! Subqueries of every kind in every clause, against what PostgreSQL 15 answers.
//!
//! `tests/fixtures/subqueries` has the statements with PostgreSQL's answers (see `pg_scripts.rs` for
//! the form). Each file asks the same questions twice, of other rows: the second time the plans
//! are those that were kept.

use std::fmt::Write as _;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

fn session(folder: &tempfile::TempDir) -> Session {
    let engine = Database::open(folder.path(), Options::default()).expect("database");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    database.session(SessionOptions::default()).expect("session")
}

async fn answer(session: &mut Session, statement: &str) -> String {
    match session.query(statement).await {
        Ok(result) => {
            let field = |field: &Option<String>| field.as_deref().unwrap_or("∅").to_owned();
            let row = |row: &Vec<Option<String>>| row.iter().map(field).collect::<Vec<_>>().join("|");
            result.rows.iter().map(row).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("ERROR:  {}: {}", error.sqlstate, error.message),
    }
}

async fn check(script: &str) {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    let mut failures = String::new();
    let mut count = 0;
    for block in script.split("\n#").skip(1) {
        let (statement, expected) = block.split_once('\n').unwrap_or((block, ""));
        let expected = expected.trim_end_matches('\n');
        let got = answer(&mut session, statement).await;
        count += 1;
        if got != expected {
            let _ = writeln!(failures, "{statement}\n--- expected\n{expected}\n--- got\n{got}\n");
        }
    }
    assert!(count > 0);
    assert!(failures.is_empty(), "\n{failures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values() {
    check(include_str!("fixtures/subqueries/values.txt")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions() {
    check(include_str!("fixtures/subqueries/conditions.txt")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes() {
    check(include_str!("fixtures/subqueries/writes.txt")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lateral() {
    check(include_str!("fixtures/subqueries/lateral.txt")).await;
}

/// WITH RECURSIVE, what PostgreSQL refuses of it, and BETWEEN SYMMETRIC.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recursive() {
    check(include_str!("fixtures/subqueries/recursive.txt")).await;
}

/// A runtime with one thread, which may not wait for itself.
#[tokio::test]
async fn on_one_thread() {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    for (statement, expected) in [
        ("CREATE TABLE t (a int, b int)", ""),
        ("INSERT INTO t SELECT i, i % 5 FROM generate_series(1, 50) AS g(i)", ""),
        ("SELECT sum((SELECT count(*) FROM t AS x WHERE x.b < t.b)) FROM t", "1000"),
        ("SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM t AS x WHERE x.a > t.a AND (SELECT x.b) = t.b)", "45"),
    ] {
        assert_eq!(answer(&mut session, statement).await, expected, "{statement}");
    }
}
