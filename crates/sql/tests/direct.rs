//! Statements that run directly on a tree answer as their plans do, whoever writes beside them: source
//! against source, with CHECK constraints and foreign keys on the table.

use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Planning, QueryResult, Session, SessionOptions, SqlDatabase, SqlError, SqlSettings};

const ROWS: &str = "INSERT INTO t VALUES (1, 10, 'one', 100), (2, 20, 'two', 200)";

type Shared = Arc<SqlDatabase>;

async fn database(planning: Planning) -> (tempfile::TempDir, Shared, Session) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
    let mut session = session(&database);
    for sql in [
        "CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b < 10000), c text, u int UNIQUE)",
        "CREATE INDEX ON t (c)",
        "CREATE TABLE f (id int PRIMARY KEY, a int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE, \
         u int REFERENCES t (u) ON DELETE SET NULL ON UPDATE CASCADE)",
        ROWS,
    ] {
        session.query(sql).await.expect("prepare");
    }
    (dir, database, session)
}

fn session(database: &Shared) -> Session {
    Arc::clone(database).session(SessionOptions::default()).expect("session")
}

fn shown(result: Result<QueryResult, SqlError>) -> String {
    match result {
        Ok(result) => {
            let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
            let rows: Vec<String> =
                result.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect();
            format!("{} {}", result.tag, rows.join(" / "))
        }
        Err(error) => error.sqlstate.to_string(),
    }
}

/// `first` runs in a block; `second` begins beside it and may wait for it; then the block ends.
async fn beside(database: &Shared, isolation: &str, first: &[&str], end: &str, second: &str) -> (String, String) {
    let mut one = session(database);
    for sql in ["DELETE FROM f", "DELETE FROM t", ROWS, "INSERT INTO f VALUES (1, 1, 100), (2, 2, NULL), (3, 1, 200)"] {
        one.query(sql).await.expect("prepare");
    }
    one.query("BEGIN").await.expect("begin");
    for sql in first {
        one.query(sql).await.expect("first");
    }
    let mut other = session(database);
    other.query(&format!("BEGIN ISOLATION LEVEL {isolation}")).await.expect("begin");
    other.query("SELECT count(*) FROM t").await.expect("a snapshot");
    let second = second.to_owned();
    let waiting = tokio::spawn(async move {
        let result = other.query(&second).await;
        let _ = other.query("COMMIT").await;
        result
    });
    // The answer is the same if it comes too early for the other to wait.
    tokio::time::sleep(Duration::from_millis(20)).await;
    one.query(end).await.expect("end");
    let answer = shown(waiting.await.expect("second"));
    let left = shown(one.query("SELECT * FROM t ORDER BY a").await);
    (answer, left + &shown(one.query("SELECT * FROM f ORDER BY id").await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_and_newer_rows_end_as_by_a_plan() {
    let firsts: &[&[&str]] = &[
        &["UPDATE t SET b = 11, c = 'other' WHERE a = 1"],
        &["UPDATE t SET b = 99 WHERE a = 1", "UPDATE t SET u = 300 WHERE a = 2"],
        &["DELETE FROM t WHERE a = 1"],
        &["INSERT INTO t VALUES (3, 30, 'three', 300)"],
        &["DELETE FROM t WHERE a = 1", "INSERT INTO t VALUES (1, 12, 'again', 100)"],
        &["UPDATE t SET a = 3 WHERE a = 1"],
        &["UPDATE t SET a = 5 WHERE a = 1", "UPDATE t SET a = 1 WHERE a = 2"],
        &["SELECT * FROM t WHERE a = 1 FOR UPDATE"],
    ];
    let seconds = [
        "UPDATE t SET b = b + 1, c = c || '!' WHERE a = 1 AND b < 50 RETURNING *",
        "UPDATE t SET b = CASE WHEN b = 11 THEN 0 ELSE b END WHERE u = 100 RETURNING a, b * 2 AS twice",
        "DELETE FROM t WHERE a = 1 RETURNING b, c",
        "UPDATE t SET b = b + 1, c = c || '!' WHERE c = 'one' AND b < 50 RETURNING *",
        "UPDATE t SET a = a + 10, c = 'two' WHERE c = 'one'",
        "DELETE FROM t WHERE c = 'one' RETURNING a, b",
        "UPDATE t SET b = b + 9985 WHERE a = 1",
        "UPDATE t SET b = b + 9985 WHERE c = 'one' RETURNING b",
        "UPDATE t SET b = b + 1 WHERE a IN (1, 2, 7) RETURNING *",
        "DELETE FROM t WHERE u = 100 OR u = 200",
        "INSERT INTO t VALUES (3, 10031, 'mine', 301)",
        "INSERT INTO t VALUES (3, 30, 'mine', 301), (5, 50, 'more', 302), (6, 10060, 'most', 303) RETURNING a",
        "INSERT INTO t VALUES (1, 30, 'mine', 301), (5, 50, 'more', 100), (6, 60, 'most', 303) ON CONFLICT DO NOTHING RETURNING a",
        "INSERT INTO t VALUES (1, 30, 'mine', 301), (5, 50, 'more', 302) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b RETURNING a, b",
        "INSERT INTO t VALUES (1, 30, 'mine', 301), (1, 50, 'more', 302) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b",
        "INSERT INTO t VALUES (1, 9990, 'mine', 301) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b",
        "INSERT INTO f VALUES (4, 1, 100) RETURNING *",
        "UPDATE f SET a = 2 WHERE id = 1",
        "SELECT a, b, c || 'x' FROM t WHERE a = 1 AND b < 50 FOR UPDATE",
        "INSERT INTO t VALUES (3, 31, 'mine', 301) RETURNING *",
        "INSERT INTO t VALUES (3, 31, 'mine', 301) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b, c = excluded.c RETURNING *",
        "INSERT INTO t VALUES (1, 31, 'mine', 301) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b WHERE t.b < 50 RETURNING *",
        "INSERT INTO t VALUES (1, 31, 'mine', 301) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT INTO t VALUES (4, 31, 'mine', 100) ON CONFLICT (u) DO UPDATE SET b = 1 RETURNING *",
        "INSERT INTO t VALUES (4, 31, 'mine', 200) ON CONFLICT (a) DO NOTHING",
        "INSERT INTO t VALUES (4, 31, 'mine', 300) ON CONFLICT (a) DO UPDATE SET b = 1",
    ];
    let (_dir, general, _session) = database(Planning::OFF).await;
    let (_other_dir, direct, _other_session) = database(Planning::default()).await;
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        for first in firsts {
            for end in ["COMMIT", "ROLLBACK"] {
                for second in seconds {
                    let wanted = beside(&general, isolation, first, end, second).await;
                    let got = beside(&direct, isolation, first, end, second).await;
                    assert_eq!(got, wanted, "{isolation}: {first:?}, {end}, beside {second}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn these_statements_run_directly() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    for (sql, direct) in [
        ("UPDATE t SET b = b + 1 WHERE a = 1 RETURNING *", true),
        ("UPDATE t SET b = CASE WHEN b > 5 THEN b - 5 ELSE b + 91 END WHERE a = 1", true),
        ("DELETE FROM t WHERE u = 100 RETURNING a + b", true),
        // What occurs several times in it is computed below it.
        ("UPDATE t SET b = CASE WHEN b - 3 >= 10 THEN b - 3 ELSE b - 3 + 91 END, u = b - 3 WHERE a = 1", true),
        ("SELECT (b + 1) * 2, (b + 1) * 3, (b + 1) * 4 FROM t WHERE a = 1", true),
        ("SELECT x, x + 1 FROM (SELECT random() AS x, a FROM t) AS s WHERE a = 1", false),
        ("INSERT INTO t VALUES (7, 7, 'x', 7), (8, 8, 'y', 8) RETURNING a", true),
        ("INSERT INTO t VALUES (7, 7, 'x', 7) ON CONFLICT DO NOTHING", true),
        ("INSERT INTO t VALUES (7, 7, 'x', 7) ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1 WHERE t.b = 1", true),
        ("INSERT INTO t VALUES (7, 7, 'x', 7), (8, 8, 'y', 8) ON CONFLICT DO NOTHING", true),
        ("SELECT b FROM t WHERE a >= 1 AND a < 3 ORDER BY a DESC", true),
        // Of pgbench and sysbench.
        ("SELECT b FROM t WHERE a = 1", true),
        ("SELECT t.b, b AS again FROM t WHERE t.a = 1", true),
        ("SELECT c FROM t WHERE a BETWEEN 1 AND 100", true),
        ("SELECT sum(b) FROM t WHERE a BETWEEN 1 AND 100", true),
        ("SELECT b FROM t WHERE b = 10", false),
        ("UPDATE t SET b = 1 WHERE a IN (1, 2) RETURNING b", true),
        ("UPDATE t SET b = b + 1, c = 'two' WHERE c = 'one' AND b < 50", true),
        ("DELETE FROM t WHERE c = 'one' RETURNING a", true),
        ("DELETE FROM t WHERE c > 'one'", false),
        ("UPDATE t SET b = (SELECT max(b) FROM t) WHERE a = 1", false),
        ("INSERT INTO f VALUES (7, 1, 100)", true),
    ] {
        let plan = session.query(&format!("EXPLAIN {sql}")).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found = plan.rows.iter().flatten().flatten().any(|line| line.contains("Direct "));
        assert_eq!(found, direct, "{sql}");
        session.query(&format!("PREPARE p AS {sql}")).await.expect(sql);
        let executed = session.query("EXPLAIN EXECUTE p").await.expect(sql);
        let executed = executed.rows.iter().flatten().flatten().any(|line| line.contains("Direct "));
        assert_eq!(executed, direct, "{sql}, executed");
        session.query("DEALLOCATE p").await.expect(sql);
    }
}

/// Many rows by the beginning of a key: more than are written directly, and none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_left_to_the_plan() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    for sql in [
        "CREATE TABLE r (k int, n int, v int, PRIMARY KEY (k, n))",
        "CREATE INDEX ON r (v)",
        "INSERT INTO r SELECT k, n, 0 FROM generate_series(1, 3) AS k, generate_series(1, 3000) AS n",
    ] {
        session.query(sql).await.expect(sql);
    }
    for (sql, tag) in [
        ("UPDATE r SET v = v + 1 WHERE k = 2 AND n <= 300", "UPDATE 300"),
        ("UPDATE r SET v = v + 1 WHERE k = 2", "UPDATE 3000"),
        ("UPDATE r SET n = n + 100 WHERE k = 3 AND n > 2990", "UPDATE 10"),
        // It moves rows behind those that it has yet to read.
        ("UPDATE r SET v = v + 1 WHERE v = 2", "UPDATE 300"),
        ("DELETE FROM r WHERE k = 1 AND n > 2900", "DELETE 100"),
        ("DELETE FROM r WHERE k = 1", "DELETE 2900"),
        ("DELETE FROM r WHERE k = 1", "DELETE 0"),
    ] {
        assert_eq!(session.query(sql).await.expect(sql).tag, tag, "{sql}");
    }
    let rows = session.query("SELECT k, v, count(*), min(n), max(n) FROM r GROUP BY k, v ORDER BY k, v").await;
    assert_eq!(shown(rows), "SELECT 3 2|1|2700|301|3000 / 2|3|300|1|300 / 3|0|3000|1|3100");
}

/// Sessions run the same text with other values at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_one_session_are_not_those_of_another() {
    for planning in [Planning::OFF, Planning::default()] {
        let (_dir, database, mut check) = database(planning).await;
        let work = (0..4).map(|who: i32| {
            let mut session = session(&database);
            tokio::spawn(async move {
                for i in 0..100 {
                    let (a, b) = (10 + who, who * 1000 + i);
                    let sql = format!(
                        "INSERT INTO t (a, b, u) VALUES ({a}, {b}, {a}) ON CONFLICT (a) DO UPDATE SET b = {b} RETURNING b, {who}"
                    );
                    let rows = session.query(&sql).await.expect("upsert").rows;
                    assert_eq!(rows, vec![vec![Some(b.to_string()), Some(who.to_string())]]);
                    let plain = sql.split(" RETURNING").next().unwrap_or_default();
                    session.query(plain).await.expect("upsert");
                    let kept = session.query(&format!("SELECT b FROM t WHERE a = {a}")).await.expect("select").rows;
                    assert_eq!(kept, vec![vec![Some(b.to_string())]]);
                }
            })
        });
        for task in work.collect::<Vec<_>>() {
            task.await.expect("session");
        }
        assert_eq!(check.query("SELECT count(*) FROM t").await.expect("count").rows, vec![vec![Some("6".to_owned())]]);
    }
}

/// Kept plans of joins must not keep the rows, nor the memory, of their last run.
#[tokio::test(flavor = "multi_thread")]
async fn idle_plans_hold_no_memory() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let settings = SqlSettings { query_memory_bytes: 16 << 20, ..SqlSettings::default() };
    let database = SqlDatabase::new(engine, settings);
    let mut session = session(&database);
    session.query("CREATE TABLE hj (id int PRIMARY KEY, a int, t text)").await.expect("create");
    let fill = "INSERT INTO hj SELECT i, i, 'some text of some length ' || i FROM generate_series(1, 20000) i(i)";
    session.query(fill).await.expect("fill");
    for n in 0..12 {
        // A different text each time: a plan of its own.
        let join = format!("SELECT count(x{n}.t) FROM hj x{n} FULL JOIN hj y ON x{n}.a = y.a");
        assert_eq!(shown(session.query(&join).await), "SELECT 1 20000", "join {n}");
    }
}

/// What a parameter is cast to, and the number of a LIMIT, is what it is told to be.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_casts_and_limits() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    for (sql, oids) in [
        ("SELECT $1::int", vec![23]),
        ("SELECT a FROM t WHERE b = $1::bigint", vec![20]),
        ("SELECT a FROM t ORDER BY a LIMIT $1 OFFSET $2", vec![20, 20]),
        ("SELECT a FROM t WHERE a = $1 ORDER BY a LIMIT $2", vec![23, 20]),
        ("SELECT $1", vec![25]),
    ] {
        session.parse("", sql, &[]).await.expect(sql);
        let (described, _) = session.describe_statement("").expect(sql);
        assert_eq!(described, oids, "{sql}");
    }
}

/// Parameters take the types of the columns that they are assigned to, and of what may come in
/// their place; whatever PostgreSQL 15 says in ParameterDescription.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_assignments_and_choices() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    session
        .query("CREATE TABLE p (id int PRIMARY KEY, n numeric(10,2), d date, tz timestamptz, f float8, u uuid, b bool)")
        .await
        .expect("create");
    for (sql, oids) in [
        ("INSERT INTO t VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = $3, c = $4", vec![23, 23, 23, 25]),
        ("INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = t.b + $2 WHERE t.u > $3", vec![23, 23, 23]),
        (
            "INSERT INTO p (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = coalesce($3, p.n), d = $4, u = $5",
            vec![23, 1700, 1700, 1082, 2950],
        ),
        (
            "INSERT INTO p (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET tz = $2 RETURNING CASE WHEN $3 THEN $4 ELSE f END",
            vec![23, 1184, 16, 701],
        ),
        ("INSERT INTO p (id, d, u) SELECT $1, $2, $3", vec![23, 1082, 2950]),
        ("SELECT CASE WHEN b > 1 THEN $1 ELSE b END FROM t", vec![23]),
        ("SELECT CASE WHEN $1 THEN $2 WHEN b = $3 THEN 1.5 ELSE $4 END FROM t", vec![16, 1700, 23, 1700]),
        ("SELECT CASE b WHEN $1 THEN 'x' ELSE $2 END FROM t", vec![23, 25]),
        ("SELECT coalesce($1, b), nullif($2, u), greatest(b, $3) FROM t", vec![23, 23, 23]),
        ("SELECT coalesce($1, $2)", vec![25, 25]),
        (
            "SELECT coalesce($1, tz, d), coalesce(d, $2, tz), coalesce(f, n, $3), coalesce($4, u) FROM p",
            vec![1184, 1184, 701, 2950],
        ),
        ("SELECT a FROM t WHERE coalesce($1, b) = 10 AND $2 BETWEEN a AND b AND $3 IN (a, b)", vec![23, 23, 23]),
        (
            "UPDATE p SET n = CASE WHEN id > $1 THEN $2 ELSE n END, d = coalesce($3, d) WHERE id = $4",
            vec![23, 1700, 1082, 23],
        ),
        ("SELECT CASE WHEN true THEN $1 ELSE 'x' END", vec![25]),
        (
            "INSERT INTO p (id, n, d, tz, f, u, b) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            vec![23, 1700, 1082, 1184, 701, 2950, 16],
        ),
        ("INSERT INTO p (id, f) SELECT $1, b + $2 FROM t WHERE $3", vec![23, 23, 16]),
        (
            "UPDATE t SET c = $1, b = b + $2, u = coalesce($3, u) WHERE a = $4 AND b < $5 RETURNING $6, a + $7",
            vec![25, 23, 23, 23, 23, 25, 23],
        ),
        ("UPDATE p SET (id, n) = ($1, $2) WHERE id = ANY ($3)", vec![23, 1700, 1007]),
        ("DELETE FROM p USING (VALUES (1)) AS v (x) WHERE id = v.x AND u = $1 AND d > $2", vec![2950, 1082]),
        // The first place that has a type decides.
        ("UPDATE p SET f = $1, d = $2::date + $1 WHERE id = $1", vec![23, 1082]),
    ] {
        session.parse("", sql, &[]).await.expect(sql);
        let (described, _) = session.describe_statement("").expect(sql);
        assert_eq!(described, oids, "{sql}");
    }
}

/// Columns are described as the types that they have after choices and unions.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_several_types() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    for (sql, wanted) in [
        (
            "SELECT CASE WHEN b > 1 THEN a ELSE 1.5 END, CASE WHEN a > 1 THEN current_date ELSE now() END FROM t",
            vec![1700, 1184],
        ),
        ("SELECT a FROM t UNION SELECT 1.5", vec![1700]),
        ("SELECT current_date UNION ALL SELECT now()", vec![1184]),
        ("INSERT INTO t (a) VALUES (7) RETURNING coalesce(b, 2.5), a, c", vec![1700, 23, 25]),
    ] {
        session.parse("", sql, &[]).await.expect(sql);
        let (_, fields) = session.describe_statement("").expect(sql);
        let types: Vec<u32> = fields.expect(sql).iter().map(|field| field.type_oid).collect();
        assert_eq!(types, wanted, "{sql}");
    }
}
