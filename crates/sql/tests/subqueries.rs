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

/// What the analysis does to expressions it does within subqueries; what cannot be right is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_and_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    for (statement, expected) in [
        ("CREATE TABLE t (a int, b int)", ""),
        ("INSERT INTO t VALUES (3, 1)", ""),
        ("SELECT (SELECT t.a * 1000000000) FROM t", "ERROR:  22003: integer out of range"),
        ("SELECT (SELECT x.a * 1000000000 FROM t AS x WHERE x.b = t.b) FROM t", "ERROR:  22003: integer out of range"),
        ("SELECT (SELECT x.a * 1000000000 FROM t AS x)", "ERROR:  22003: integer out of range"),
        ("SELECT a FROM t WHERE a IN (SELECT x.a * 1000000000 FROM t AS x)", "ERROR:  22003: integer out of range"),
        (
            "SELECT (SELECT sum((SELECT t.b))) FROM t",
            "ERROR:  0A000: this aggregate function of an outer query is not supported in a subquery",
        ),
        ("SELECT a FROM t LIMIT (SELECT 1)", "3"),
    ] {
        assert_eq!(answer(&mut session, statement).await, expected, "{statement}");
    }
}

/// A subquery that runs for long ends with the statement's time, and at a cancel; so does a
/// recursion without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_in_time() {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    for statement in [
        "CREATE TABLE t (a int, b int)",
        "INSERT INTO t SELECT i, i % 100 FROM generate_series(1, 20000) AS g(i)",
        "SET statement_timeout = '400ms'",
    ] {
        assert_eq!(answer(&mut session, statement).await, "", "{statement}");
    }
    for statement in [
        "SELECT count(*) FROM t WHERE (SELECT count(*) FROM t AS x WHERE x.a < t.a) > 1",
        "SELECT a, (SELECT count(*) FROM t AS x WHERE x.a < t.a AND x.b <> t.b) FROM t",
        "SELECT CASE WHEN a > 5 THEN (SELECT count(*) FROM t AS x WHERE x.a < t.a) END FROM t",
        "SELECT t.a, q.k FROM t, LATERAL (SELECT count(*) AS k FROM t AS x WHERE x.a < t.a + x.b) AS q",
        "UPDATE t SET b = (SELECT count(*) FROM t AS x WHERE x.a < t.a)",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) SELECT count(*) FROM x",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION SELECT (n + 1) % 100000000 FROM x) SELECT max(n) FROM x",
    ] {
        let begun = std::time::Instant::now();
        let got = answer(&mut session, statement).await;
        assert_eq!(got, "ERROR:  57014: canceling statement due to statement timeout", "{statement}");
        assert!(begun.elapsed().as_millis() < 3000, "{statement}: {:?}", begun.elapsed());
    }
    assert_eq!(answer(&mut session, "SET statement_timeout = 0").await, "");
    let cancel = session.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        cancel.cancel();
    });
    let begun = std::time::Instant::now();
    let statement = "SELECT a, (SELECT count(*) FROM t AS x WHERE x.a < t.a AND x.b <> t.b) FROM t";
    let got = answer(&mut session, statement).await;
    assert_eq!(got, "ERROR:  57014: canceling statement due to user request");
    assert!(begun.elapsed().as_millis() < 2500, "{:?}", begun.elapsed());
    canceller.join().expect("a thread");
}

/// Subqueries within each other: as many as fit on a stack, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nesting() {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    let nested = |depth: usize| {
        let mut text = "1".to_owned();
        for level in (1..=depth).rev() {
            text = format!("(SELECT max(t{level}.a + {text}) FROM t AS t{level} WHERE t{level}.a <= t{}.a)", level - 1);
        }
        format!("SELECT {text} FROM t AS t0")
    };
    assert_eq!(answer(&mut session, "CREATE TABLE t (a int)").await, "");
    assert_eq!(answer(&mut session, "INSERT INTO t VALUES (1)").await, "");
    assert_eq!(answer(&mut session, &nested(3)).await, "4");
    assert_eq!(answer(&mut session, &nested(12)).await, "13");
    let got = answer(&mut session, &nested(40)).await;
    assert!(got.starts_with("ERROR:  54001: "), "{got}");
}

/// A subquery finds its rows by key: with the outer value as a bound, and with the value of
/// another subquery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_key() {
    let folder = tempfile::tempdir().expect("folder");
    let mut session = session(&folder);
    for statement in ["CREATE TABLE t (a int PRIMARY KEY, b int)", "CREATE TABLE s (x int)"] {
        assert_eq!(answer(&mut session, statement).await, "", "{statement}");
    }
    for (statement, wanted) in [
        ("EXPLAIN SELECT (SELECT b FROM t WHERE t.a = s.x) FROM s", "Index Cond: (t.a = "),
        ("EXPLAIN SELECT (SELECT max(b) FROM t WHERE t.a > s.x AND t.a < 10) FROM s", "Index Cond: ((t.a > "),
        ("EXPLAIN SELECT b FROM t WHERE a = (SELECT max(x) FROM s)", "Index Cond: (t.a = "),
    ] {
        let got = answer(&mut session, statement).await;
        assert!(got.contains(wanted), "{statement}\n{got}");
    }
}
