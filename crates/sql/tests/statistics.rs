//! Plans by what is known of tables: which table is large, what ANALYZE has found out, plans that are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::{Database, Options};
use resurgam_sql::{QueryResult, Session, SessionOptions, SqlDatabase, SqlSettings};

fn open(dir: &tempfile::TempDir) -> (Database, Arc<SqlDatabase>) {
    let options = Options { analyze_interval_s: 0.0, ..Options::default() };
    let engine = Database::open(dir.path().join("data"), options).expect("open");
    (engine.clone(), SqlDatabase::new(engine, SqlSettings::default()))
}

fn session(database: &Arc<SqlDatabase>) -> Session {
    Arc::clone(database).session(SessionOptions::default()).expect("session")
}

async fn ok(session: &mut Session, sql: &str) -> QueryResult {
    session.query(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

async fn lines(session: &mut Session, sql: &str) -> Vec<String> {
    ok(session, sql).await.rows.into_iter().flatten().flatten().collect()
}

/// The tables of a plan, from its last line: what is held comes before what is read beside it.
async fn scans(session: &mut Session, sql: &str) -> Vec<String> {
    let scans = lines(session, &format!("EXPLAIN (COSTS OFF) {sql}")).await.into_iter();
    let name = |line: String| line.split_once(" Scan on ").map(|(_, rest)| rest.to_owned());
    scans.rev().filter_map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_small_table_is_held_whatever_the_order_of_from() {
    let dir = tempfile::tempdir().expect("folder");
    let (_engine, database) = open(&dir);
    let mut s = session(&database);
    for table in ["big", "middle", "small"] {
        ok(&mut s, &format!("CREATE TABLE {table} (id int, x int, y int)")).await;
    }
    for (table, rows) in [("big", 60_000), ("middle", 8_000), ("small", 100)] {
        let fill = format!("INSERT INTO {table} SELECT i, i % 100, i % 1000 FROM generate_series(1, {rows}) AS g(i)");
        ok(&mut s, &fill).await;
    }
    for analyzed in [false, true] {
        if analyzed {
            ok(&mut s, "ANALYZE").await;
        }
        for from in ["big, small", "small, big"] {
            let sql = format!("SELECT count(*) FROM {from} WHERE big.x = small.id");
            assert_eq!(scans(&mut s, &sql).await, ["small", "big"], "{sql}");
        }
        for join in ["LEFT JOIN", "FULL JOIN"] {
            for (a, b) in [("big", "small"), ("small", "big")] {
                let sql = format!("SELECT count(*) FROM {a} {join} {b} ON big.x = small.id");
                assert_eq!(scans(&mut s, &sql).await, ["small", "big"], "{sql}");
            }
        }
        for word in ["IN", "EXISTS"] {
            let sql = match word {
                "IN" => "SELECT count(*) FROM big WHERE x IN (SELECT id FROM small)",
                _ => "SELECT count(*) FROM big WHERE EXISTS (SELECT FROM small WHERE small.id = big.x)",
            };
            assert_eq!(scans(&mut s, sql).await, ["small", "big"], "{sql}");
        }
        for from in ["big, middle, small", "small, middle, big", "middle, big, small"] {
            let sql = format!("SELECT count(*) FROM {from} WHERE big.y = middle.id AND middle.x = small.id");
            assert_eq!(scans(&mut s, &sql).await.last().map(String::as_str), Some("big"), "{sql}");
            assert_eq!(ok(&mut s, &sql).await.rows[0][0].as_deref(), Some("59400"), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_plan_is_made_anew_when_its_tables_have_grown() {
    let dir = tempfile::tempdir().expect("folder");
    let (_engine, database) = open(&dir);
    let mut s = session(&database);
    ok(&mut s, "CREATE TABLE a (id int, x int)").await;
    ok(&mut s, "CREATE TABLE b (id int, x int)").await;
    ok(&mut s, "PREPARE p (int) AS SELECT count(*) FROM a JOIN b ON a.x = b.x WHERE a.id > $1").await;
    ok(&mut s, "EXECUTE p (0)").await;
    for (table, expected) in [("b", ["a", "b"]), ("a", ["b", "a"])] {
        let rows = if table == "a" { 40_000 } else { 5_000 };
        let fill = format!("INSERT INTO {table} SELECT i, i FROM generate_series(1, {rows}) AS g(i)");
        ok(&mut s, &fill).await;
        let until = Instant::now() + Duration::from_secs(20);
        while scans(&mut s, "EXECUTE p (0)").await != expected {
            assert!(Instant::now() < until, "{table}: {:?}", lines(&mut s, "EXPLAIN EXECUTE p (0)").await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(ok(&mut s, "EXECUTE p (10)").await.rows[0][0].as_deref(), Some("4990"));
    // What ANALYZE finds out counts at once.
    ok(&mut s, "CREATE TABLE f (id int PRIMARY KEY, few int, many int)").await;
    ok(&mut s, "INSERT INTO f SELECT i, i % 2, i FROM generate_series(1, 20000) AS g(i)").await;
    ok(&mut s, "CREATE INDEX f_few ON f (few)").await;
    ok(&mut s, "CREATE INDEX f_many ON f (many)").await;
    ok(&mut s, "PREPARE q AS SELECT a.id FROM f JOIN a ON a.id = f.id WHERE f.few = $1 AND f.many = $2").await;
    let index = |lines: Vec<String>| lines.iter().any(|line| line.contains("using f_many"));
    ok(&mut s, "ANALYZE f").await;
    assert!(index(lines(&mut s, "EXPLAIN EXECUTE q (1, 3)").await));
    assert_eq!(ok(&mut s, "EXECUTE q (1, 3)").await.rows.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_survive_a_restart_in_both_recovery_modes() {
    for mode in ["on", "off"] {
        let dir = tempfile::tempdir().expect("folder");
        let shown = "SELECT attname, n_distinct, most_common_vals, histogram_bounds FROM pg_stats ORDER BY attname";
        let known = {
            let (engine, database) = open(&dir);
            let mut s = session(&database);
            ok(&mut s, &format!("ALTER DATABASE postgres SET accelerated_database_recovery = {mode}")).await;
            ok(&mut s, "CREATE TABLE t (a int, b text)").await;
            ok(&mut s, "INSERT INTO t SELECT i, 'x' || i % 7 FROM generate_series(1, 5000) AS g(i)").await;
            ok(&mut s, "ANALYZE t").await;
            let known = ok(&mut s, shown).await.rows;
            ok(&mut s, "BEGIN").await;
            ok(&mut s, "UPDATE t SET b = 'y'").await;
            ok(&mut s, "ANALYZE t").await;
            assert_ne!(ok(&mut s, shown).await.rows, known);
            drop(s);
            drop(database);
            engine.close().expect("closed");
            known
        };
        assert_eq!(known.len(), 2);
        let (_engine, database) = open(&dir);
        let mut s = session(&database);
        assert_eq!(ok(&mut s, shown).await.rows, known, "{mode}");
        assert_eq!(lines(&mut s, "SELECT reltuples FROM pg_class WHERE relname = 't'").await, ["5000"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_analyze() {
    let dir = tempfile::tempdir().expect("folder");
    let (_engine, database) = open(&dir);
    let (mut a, mut b) = (session(&database), session(&database));
    ok(&mut a, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    ok(&mut a, "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 100) AS g(i)").await;
    ok(&mut a, "BEGIN").await;
    ok(&mut a, "UPDATE t SET b = 'y' WHERE a <= 50").await;
    ok(&mut b, "SET lock_timeout = '5s'").await;
    // It sees what is committed.
    ok(&mut b, "ANALYZE t").await;
    let common = "SELECT most_common_vals FROM pg_stats WHERE attname = 'b'";
    assert_eq!(lines(&mut b, common).await, ["{x}"]);
    ok(&mut a, "ANALYZE t").await;
    assert_eq!(lines(&mut a, common).await, ["{x,y}"]);
    ok(&mut b, "INSERT INTO t VALUES (1000, 'z')").await;
    assert_eq!(lines(&mut b, "SELECT count(*) FROM t").await, ["101"]);
    ok(&mut a, "COMMIT").await;
    assert_eq!(lines(&mut b, common).await, ["{x,y}"]);
}
