//! Statements without an end: each ends at a cancel and at `statement_timeout`, whatever it is busy with, and all of
//! them together keep no other session from its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlError, SqlSettings};
use resurgam_vfs::RealVfs;

/// One for each way to be busy.
const ENDLESS: &[&str] = &[
    "SELECT pg_sleep(100000)",
    "SELECT pg_sleep(1000) FROM generate_series(1, 1000)",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT * FROM generate_series(1, 1000000000000) AS s(i) WHERE i < 0",
    "SELECT i % 10, sum(i) FROM generate_series(1, 1000000000000) AS s(i) GROUP BY 1",
    "SELECT max(x) FROM (SELECT sum(i) OVER (PARTITION BY i) AS x FROM (SELECT i / 1000 AS i FROM \
     generate_series(1, 1000000000000) AS s(i)) AS t) AS u",
    "SELECT count(*) FROM t AS a, t AS b, t AS c",
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.i + b.i > 0 JOIN t AS c ON c.i > a.i + b.i + 1000000",
    "SELECT count(*) FROM t AS a WHERE EXISTS (SELECT FROM t AS b, t AS c WHERE b.i + c.i + a.i < 0)",
    "SELECT a.i FROM t AS a, t AS b, t AS c ORDER BY a.i + b.i + c.i LIMIT 1",
    "SELECT count(DISTINCT a.i % 7) FROM t AS a, t AS b, t AS c",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n % 10 + 1 FROM x) SELECT max(n) FROM x",
    "SELECT count(*) FROM t AS a, t AS b WHERE repeat('ab', 1000 + a.i) LIKE '%a%a%a%a%a%a%a%a%' || b.i",
    "UPDATE t SET i = i WHERE i IN (SELECT a.i + b.i + c.i + 10000000 FROM t AS a, t AS b, t AS c)",
    "DELETE FROM t USING t AS b, t AS c WHERE t.i + b.i + c.i < 0",
    "INSERT INTO t SELECT -a.i FROM t AS a, t AS b, t AS c WHERE a.i + b.i + c.i < 0",
];

fn open() -> (tempfile::TempDir, Arc<SqlDatabase>) {
    let dir = tempfile::tempdir().expect("folder");
    let options = Options {
        accelerated_database_recovery: std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional"),
        ..Options::default()
    };
    let engine = Database::open_with(Arc::new(RealVfs::new()), &dir.path().join("db"), options, |_| {}).expect("open");
    (dir, SqlDatabase::new(engine, SqlSettings::default()))
}

fn session(sql: &Arc<SqlDatabase>) -> Session {
    Arc::clone(sql).session(SessionOptions::default()).expect("session")
}

async fn ok(session: &mut Session, sql: &str) -> Vec<String> {
    let result = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    result.rows.into_iter().map(|mut row| row.swap_remove(0).unwrap_or_default()).collect()
}

async fn filled(sql: &Arc<SqlDatabase>) -> Session {
    let mut first = session(sql);
    ok(&mut first, "CREATE TABLE t (i int PRIMARY KEY)").await;
    ok(&mut first, "INSERT INTO t SELECT i FROM generate_series(1, 20000) AS s(i)").await;
    first
}

/// Far above what it takes, far below the statements' own time.
const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

/// The tests count the plans of the process: one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What was stopped does not go on computing for nobody.
async fn nothing_runs_on() {
    soon("the last plan", async {
        while resurgam_sql::plans_running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn stopped(sql: &str, error: &SqlError) {
    // A window or a hash table that is full is an end, too.
    assert!(matches!(error.sqlstate.as_str(), "57014" | "53200"), "{sql}: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_ends_when_its_time_is_up() {
    let _alone = ALONE.lock().await;
    let (_dir, sql) = open();
    let mut first = filled(&sql).await;
    ok(&mut first, "SET statement_timeout = '50ms'").await;
    for statement in ENDLESS {
        let error = soon(statement, first.query(statement)).await.expect_err(statement);
        stopped(statement, &error);
    }
    ok(&mut first, "SET statement_timeout = 0").await;
    nothing_runs_on().await;
    assert_eq!(soon("the table", ok(&mut first, "SELECT count(*) FROM t WHERE i > 0")).await, ["20000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_them_are_cancelled_and_keep_nobody_waiting() {
    let _alone = ALONE.lock().await;
    let (_dir, sql) = open();
    let mut first = filled(&sql).await;
    let mut running = Vec::new();
    for statement in ENDLESS {
        let mut session = session(&sql);
        let cancel = session.cancel_handle();
        let task = tokio::spawn(async move { session.query(statement).await.expect_err(statement) });
        running.push((*statement, cancel, task));
    }
    // Statements that were met before and that were not, direct ones and plans, and the first of a new session.
    for round in 0..20 {
        let begun = Instant::now();
        ok(&mut first, "SELECT 1").await;
        soon("a row", ok(&mut first, &format!("SELECT i FROM t WHERE i = {}", round + 1))).await;
        soon("a plan", ok(&mut first, &format!("SELECT count(*) + {round} AS c{round} FROM t WHERE i < 10"))).await;
        let mut other = session(&sql);
        soon("another session", ok(&mut other, "SELECT sum(i) FROM t WHERE i < 100")).await;
        soon("a write", ok(&mut other, &format!("UPDATE t SET i = i WHERE i = {}", 100 + round))).await;
        println!("round {round}: {:?}", begun.elapsed());
    }
    for (statement, cancel, mut task) in running {
        let error = soon(statement, async {
            loop {
                cancel.cancel();
                tokio::select! {
                    ended = &mut task => break ended.expect("no panic"),
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        });
        stopped(statement, &error.await);
    }
    nothing_runs_on().await;
}
