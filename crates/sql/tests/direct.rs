//! Statements that run directly on a tree answer as their plans do, whoever writes beside them: source
//! against source, with CHECK constraints and foreign keys on the table.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use resurgam_engine::{Database, Options};
use resurgam_sql::{
    Execution, Format, Planning, QueryResult, Session, SessionOptions, SqlDatabase, SqlError, SqlSettings,
};

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
async fn beside(
    database: &Shared,
    isolation: &str,
    first: &[&str],
    end: &str,
    second: &str,
    pause: Duration,
) -> (String, String) {
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
    // It has to wait by then, or to have ended.
    tokio::time::sleep(pause).await;
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
                    let short = Duration::from_millis(20);
                    let mut wanted = beside(&general, isolation, first, end, second, short).await;
                    let mut got = beside(&direct, isolation, first, end, second, short).await;
                    if got != wanted {
                        // On a busy machine one may have begun after the other's end.
                        let long = Duration::from_secs(2);
                        wanted = beside(&general, isolation, first, end, second, long).await;
                        got = beside(&direct, isolation, first, end, second, long).await;
                    }
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
        ("SELECT c FROM t WHERE a BETWEEN 1 AND 100 ORDER BY c", true),
        ("SELECT DISTINCT c FROM t WHERE a BETWEEN 1 AND 100 ORDER BY c", true),
        ("SELECT b FROM t WHERE b = 10", false),
        ("UPDATE t SET b = 1 WHERE a IN (1, 2) RETURNING b", true),
        ("UPDATE t SET b = b + 1, c = 'two' WHERE c = 'one' AND b < 50", true),
        ("DELETE FROM t WHERE c = 'one' RETURNING a", true),
        ("DELETE FROM t WHERE c > 'one'", false),
        ("UPDATE t SET b = (SELECT max(b) FROM t) WHERE a = 1", false),
        ("INSERT INTO f VALUES (7, 1, 100)", true),
    ] {
        let plan = session.query(&format!("EXPLAIN {sql}")).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found = plan.rows.iter().flatten().flatten().any(|line| line.contains("Execution: Direct"));
        assert_eq!(found, direct, "{sql}");
        session.query(&format!("PREPARE p AS {sql}")).await.expect(sql);
        let executed = session.query("EXPLAIN EXECUTE p").await.expect(sql);
        let executed = executed.rows.iter().flatten().flatten().any(|line| line.contains("Execution: Direct"));
        assert_eq!(executed, direct, "{sql}, executed");
        session.query("DEALLOCATE p").await.expect(sql);
    }
}

/// How often a statement of that text ran, and how often without a physical plan.
async fn runs(session: &mut Session, text: &str) -> (String, String) {
    let sql = "SELECT sum(direct)::text, sum(direct + hits + misses + planned_each_time)::text FROM resurgam_plans \
               WHERE query = $$TEXT$$"
        .replace("TEXT", text);
    let rows = session.query(&sql).await.expect("plans").rows;
    let cell = |at: usize| rows[0][at].clone().unwrap_or_default();
    (cell(0), cell(1))
}

/// What is sorted, distinct or aggregated of a short range is so of the rows that were read directly, with the
/// answer of a plan; by any protocol.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_ranges_are_folded_as_by_a_plan() {
    let (_dir, _general, mut general) = database(Planning::OFF).await;
    let (_other_dir, _direct, mut direct) = database(Planning::default()).await;
    for sql in [
        "CREATE TABLE s (id int PRIMARY KEY, k int NOT NULL DEFAULT 0, c char(12) NOT NULL DEFAULT '', big bigint, \
         small smallint, n numeric(8, 2), f float8, d date, ts timestamp, tz timestamptz, u uuid, b bool, y bytea, x text, \
         tall text)",
        "CREATE INDEX ON s (k)",
        "CREATE INDEX ON s (x)",
        "INSERT INTO s SELECT i, i % 7, CASE i % 5 WHEN 0 THEN 'a' WHEN 1 THEN 'B  ' WHEN 2 THEN '' ELSE 'ab' || i % 3 END, \
         CASE WHEN i % 4 > 0 THEN 9000000000 - i % 6 END, CASE WHEN i % 3 > 0 THEN -(i % 5) END, \
         CASE WHEN i % 5 > 0 THEN (i % 9) / 4.0 END, CASE i % 4 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN -0.0::float8 WHEN 2 THEN 0 END, \
         CASE WHEN i % 6 > 0 THEN date '2020-02-28' + i % 5 END, CASE WHEN i % 2 > 0 THEN timestamp '1999-12-31 23:59' END, \
         CASE i % 3 WHEN 0 THEN timestamptz 'infinity' WHEN 1 THEN timestamptz '2024-01-01 00:00+00' END, \
         CASE i % 3 WHEN 0 THEN uuid 'ff000000-0000-0000-0000-000000000001' WHEN 1 THEN uuid '0f000000-0000-0000-0000-000000000000' END, \
         CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END, CASE WHEN i % 4 > 0 THEN decode(lpad(to_hex(i % 3), 2, '0'), 'hex') END, \
         CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'é' WHEN 2 THEN 'Z' ELSE 'z' || i % 2 END, 't' \
         FROM generate_series(1, 150) AS g(i)",
        "UPDATE s SET tall = repeat('tall ', 20000) || id % 2 WHERE id IN (140, 141, 142)",
    ] {
        general.query(sql).await.expect(sql);
        direct.query(sql).await.expect(sql);
    }
    let columns = ["k", "c", "big", "small", "n", "f", "d", "ts", "tz", "u", "b", "y", "x", "tall"];
    let mut asked: Vec<(String, bool)> = Vec::new();
    for column in columns {
        // Floating-point numbers and large values are compared by planned operators when they are told apart.
        let plain = !matches!(column, "f" | "tall");
        for (list, by) in [
            (format!("{column}, id"), format!("{column}, id DESC")),
            (format!("{column} AS it, id"), "it DESC, 2".to_owned()),
            ("id".to_owned(), format!("{column} NULLS FIRST, id")),
            ("id, k + 1".to_owned(), format!("{column} DESC NULLS LAST, id")),
        ] {
            asked.push((format!("SELECT {list} FROM s WHERE id BETWEEN $1 AND $2 ORDER BY {by}"), true));
        }
        asked.push((format!("SELECT DISTINCT {column} FROM s WHERE id BETWEEN $1 AND $2 ORDER BY {column}"), plain));
        asked
            .push((format!("SELECT DISTINCT {column}, k FROM s WHERE id BETWEEN $1 AND $2 ORDER BY k DESC, 1"), plain));
        asked.push((
            format!("SELECT {column}, count(*) FROM s WHERE id BETWEEN $1 AND $2 GROUP BY {column} ORDER BY {column}"),
            plain && !matches!(column, "u" | "y"),
        ));
        asked.push((format!("SELECT count({column}), count(*) FROM s WHERE id BETWEEN $1 AND $2"), true));
    }
    for (sql, is_direct) in [
        ("SELECT c FROM s WHERE id BETWEEN $1 AND $2 ORDER BY c, id", true),
        ("SELECT sum(k) FROM s WHERE id BETWEEN $1 AND $2", true),
        (
            "SELECT sum(k), avg(k), min(c), max(big), sum(big), sum(small), sum(n) FROM s WHERE id BETWEEN $1 AND $2",
            true,
        ),
        ("SELECT sum(k + 1), count(DISTINCT x) FROM s WHERE id BETWEEN $1 AND $2", true),
        ("SELECT k, sum(id) FROM s WHERE id BETWEEN $1 AND $2 GROUP BY k ORDER BY 2 DESC, 1 LIMIT 3", true),
        ("SELECT DISTINCT x, c FROM s WHERE id BETWEEN $1 AND $2 ORDER BY c DESC, x LIMIT 4 OFFSET 1", true),
        ("SELECT x FROM s WHERE id BETWEEN $1 AND $2 AND x > 'A' ORDER BY x, id", true),
        ("SELECT id FROM s WHERE id > $1 AND id <= $2 AND k < 5 ORDER BY k DESC, id LIMIT 7", true),
        // What the range says, and what it does not.
        ("SELECT id FROM s WHERE id >= $1 AND id > 3 AND id <= $2 AND id < 95 AND id <> 50 ORDER BY id DESC", true),
        ("SELECT id FROM s WHERE id > 7 AND id >= $1 AND id < 120 AND id <= $2", true),
        ("SELECT id FROM s WHERE id BETWEEN $1 AND $2 AND id BETWEEN 20 AND 92 AND k = 3", true),
        ("SELECT id FROM s WHERE $1 < id AND $2 > id AND id + 0 < 97", true),
        ("SELECT id FROM s WHERE id BETWEEN $1 AND $2 AND (id < 10 OR id > 93)", true),
        ("SELECT id FROM s WHERE k = 3 AND id > $1 AND id <= $2 ORDER BY id", true),
        ("SELECT s.c FROM s WHERE s.id >= $1 AND s.id < $2 ORDER BY s.c, s.id", true),
        ("SELECT a.c AS d FROM s AS a WHERE a.id BETWEEN $1 AND $2 ORDER BY d, a.id", true),
        ("SELECT DISTINCT upper(c) FROM s WHERE id BETWEEN $1 AND $2 ORDER BY 1", true),
    ] {
        asked.push((sql.to_owned(), is_direct));
    }
    for (sql, is_direct) in &asked {
        let mut before = "0".to_owned();
        for (low, high) in [(1, 100), (5, 5), (90, 160), (50, 49)] {
            let literal = sql.replace("$1", &low.to_string()).replace("$2", &high.to_string());
            let wanted = shown(general.query(&literal).await);
            assert!(wanted.starts_with("SELECT"), "{literal}: {wanted}");
            assert_eq!(shown(direct.query(&literal).await), wanted, "{literal}");
            let executed = format!("EXECUTE folded ({low}, {high})");
            // Drivers declare their integers as they please.
            for ty in ["int", "bigint", "smallint"] {
                direct.query(&format!("PREPARE folded ({ty}, {ty}) AS {sql}")).await.expect(sql);
                assert_eq!(shown(direct.query(&executed).await), wanted, "{sql}, {ty}, {low}, {high}");
                direct.query("DEALLOCATE folded").await.expect(sql);
            }
        }
        // Literals are lifted where they may be: then both texts are one.
        let (ran, all) = runs(&mut direct, sql).await;
        let grew = ran != before;
        before.clone_from(&all);
        assert!(!is_direct || (grew && ran == before), "{sql}: directly {ran} of {all}");
    }
}

/// Expressions over one row are computed without a batch, and assigned without an array: with the plan's answers,
/// types and errors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_one_row_are_those_of_a_plan() {
    let (_dir, _general, mut general) = database(Planning::OFF).await;
    let (_other_dir, _direct, mut direct) = database(Planning::default()).await;
    for sql in [
        "CREATE TABLE v (id int PRIMARY KEY, k int, n numeric(8, 2), w numeric(30, 10), q numeric(38, 0), c char(4), x varchar(4), \
         t text, d date, ts timestamp, tz timestamptz, s smallint, l bigint)",
        "INSERT INTO v VALUES (1, 7, 123.45, 12345678901234567890.0123456789, 99999999999999999999999999999999999999, 'ab', 'xyz', \
         'some Text', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02', -3, 9000000000)",
        "INSERT INTO v (id) VALUES (2)",
        "SET TIME ZONE 'Europe/Berlin'",
    ] {
        general.query(sql).await.expect(sql);
        direct.query(sql).await.expect(sql);
    }
    let values = [
        "n + 1.5",
        "n - 0.001",
        "n * 2.25",
        "n * n",
        "n * n * n",
        "n + k",
        "k * n - s",
        "l + n",
        "n - w",
        "w * w",
        "q + 1",
        "q * 2",
        "n + CAST($2 AS numeric(12, 2))",
        "n + $2",
        "CAST($2 AS numeric(5, 1)) - n",
        "- n",
        "n / 3",
        "n % 7",
        "round(n, 1)",
        "abs(n - 200)",
        "upper(t) || c",
        "length(c || x)",
        "substr(t, 2, 3)",
        "coalesce(x, t)",
        "nullif(k, 7)",
        "greatest(n, k)",
        "date_trunc('month', ts)",
        "md5(t)",
        "d + 1",
        "ts - d",
        "extract(year from tz)",
        "to_char(n, '999.9')",
        "k + CAST($2 AS int)",
        "power(k, 2)",
        "CAST(k AS numeric)",
        "CASE WHEN n > 100 THEN n ELSE k END",
        "CASE WHEN k = 0 THEN 1 ELSE 10 / k END",
        "concat(c, x, k)",
        "tz::text",
        "ts::timestamptz",
    ];
    for value in values {
        for id in [1, 2, 3] {
            let sql = format!("SELECT {value} FROM v WHERE id = $1");
            let literal = sql.replace("$1", &id.to_string()).replace("$2", "2.5");
            assert_eq!(shown(direct.query(&literal).await), shown(general.query(&literal).await), "{literal}");
            let arguments =
                if value.contains("$2") { format!("EXECUTE one ({id}, '2.5')") } else { format!("EXECUTE one ({id})") };
            let mut answers = Vec::new();
            for session in [&mut general, &mut direct] {
                let prepared = shown(session.query(&format!("PREPARE one AS {sql}")).await);
                answers.push((prepared, shown(session.query(&arguments).await)));
                let _ = session.query("DEALLOCATE one").await;
            }
            assert_eq!(answers[1], answers[0], "{sql}, {id}");
        }
    }
    for assignment in [
        "n = n + 1.555",
        "n = n * 1000",
        "n = k",
        "n = l",
        "n = w",
        "k = n",
        "s = l",
        "s = k",
        "l = s",
        "k = s",
        "w = n",
        "q = q + 1",
        "c = 'é'",
        "c = 'abcd  '",
        "c = 'abcde'",
        "x = 'abcd  '",
        "x = 'abcde'",
        "x = t",
        "t = c",
        "t = x",
        "c = x",
        "d = ts",
        "ts = d",
        "ts = tz",
        "tz = ts",
        "tz = d",
        "d = tz",
        "ts = 'infinity'",
        "d = '-infinity'",
        "n = '12.345'",
        "n = NULL",
        "k = '8'",
        "k = 'x'",
        "ts = current_date",
        "n = CAST($2 AS numeric(12, 2))",
        "n = n - $2",
        "k = $2",
        "c = $2",
        "l = k * 2",
        "n = 'NaN'",
    ] {
        for id in [1, 2] {
            let sql = format!("UPDATE v SET {assignment} WHERE id = $1 RETURNING *");
            let literal = sql.replace("$1", &id.to_string()).replace("$2", "2");
            let arguments = if assignment.contains("$2") {
                format!("EXECUTE one ({id}, '2')")
            } else {
                format!("EXECUTE one ({id})")
            };
            let mut answers = Vec::new();
            for session in [&mut general, &mut direct] {
                let mut all = Vec::new();
                for text in
                    ["BEGIN", &literal, "ROLLBACK", &format!("PREPARE one AS {sql}"), "BEGIN", &arguments, "ROLLBACK"]
                {
                    all.push(shown(session.query(text).await));
                }
                let _ = session.query("DEALLOCATE one").await;
                answers.push(all);
            }
            assert_eq!(answers[1], answers[0], "{sql}, {id}");
        }
    }
    let plan = direct.query("EXPLAIN SELECT n + k, upper(t), w * w FROM v WHERE id = 1").await.expect("explain");
    assert!(shown(Ok(plan)).contains("Execution: Direct"));
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

/// What calls a function that does something each time is not begun directly, and then done by the plan: it is called once for each row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volatile_functions_are_called_once_a_row() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    for sql in [
        "CREATE SEQUENCE s",
        "CREATE TABLE r (k int, n int, v int, PRIMARY KEY (k, n))",
        "INSERT INTO r SELECT 1, n, 0 FROM generate_series(1, 3000) AS n",
    ] {
        session.query(sql).await.expect(sql);
    }
    for (sql, rows, calls) in [
        ("SELECT nextval('s') FROM r WHERE k = 1 AND n <= 450", 450, 450),
        ("SELECT n, nextval('s') FROM r WHERE k = 1 AND n BETWEEN 1 AND 3", 3, 3),
        ("SELECT nextval('s') FROM r WHERE k = 1 AND n = 7", 1, 1),
        ("SELECT n FROM r WHERE k = 1 AND nextval('s') > 2990", 10, 3000),
        ("SELECT n FROM r WHERE k = 1 AND nextval('s') > 2990 ORDER BY n DESC", 10, 3000),
        ("SELECT count(*), nextval('s') FROM r WHERE k = 1 AND n < 450 GROUP BY n % 3", 3, 3),
        ("UPDATE r SET v = v + 1 WHERE k = 1 AND nextval('s') > 2990 RETURNING n", 10, 3000),
        ("UPDATE r SET v = nextval('s') WHERE k = 1 AND n <= 450 RETURNING n", 450, 450),
        ("DELETE FROM r WHERE k = 1 AND nextval('s') > 2990 RETURNING n", 10, 3000),
    ] {
        session.query("ALTER SEQUENCE s RESTART").await.expect("restart");
        let found = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let called = session.query("SELECT last_value FROM s").await.expect("last value").rows[0][0].clone();
        assert_eq!((found.rows.len(), called), (rows, Some(calls.to_string())), "{sql}");
    }
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

/// A result's column that is one of a table or a view says which; whatever PostgreSQL 15 says in RowDescription.
#[tokio::test(flavor = "multi_thread")]
async fn columns_say_where_they_are_from() {
    let (_dir, _database, mut session) = database(Planning::default()).await;
    let mut oids = std::collections::HashMap::new();
    for (name, sql) in [
        ("ot", "CREATE TABLE ot (a int PRIMARY KEY, b text, c varchar(5))"),
        ("ou", "CREATE TABLE ou (a int, d int)"),
        ("ov", "CREATE VIEW ov AS SELECT b, a, a + 1 AS n FROM ot"),
    ] {
        session.query(sql).await.expect(sql);
        let oid = shown(session.query(&format!("SELECT '{name}'::regclass::oid")).await);
        oids.insert(oid.rsplit(' ').next().and_then(|oid| oid.parse::<u32>().ok()).expect(name), name);
    }
    for (sql, wanted) in [
        ("SELECT a, b, c FROM ot", "ot.1 ot.2 ot.3"),
        ("SELECT b AS x, a + 1, c::text, c::varchar(5), c::varchar(3), a::int FROM ot", "ot.2 - - ot.3 - ot.1"),
        ("SELECT * FROM ot JOIN ou USING (a)", "ot.1 ot.2 ot.3 ou.2"),
        ("SELECT * FROM ot LEFT JOIN ou ON ot.a = ou.a", "ot.1 ot.2 ot.3 ou.1 ou.2"),
        ("SELECT s.a, s.z FROM (SELECT a, b AS z FROM ot ORDER BY a LIMIT 5) s", "ot.1 ot.2"),
        ("SELECT a, n, b FROM ov", "ov.2 ov.3 ov.1"),
        ("WITH w AS (SELECT b, a FROM ot) SELECT a, b FROM w", "ot.1 ot.2"),
        ("SELECT b FROM ot UNION SELECT b FROM ot", "-"),
        ("SELECT a, (SELECT d FROM ou LIMIT 1) FROM ot", "ot.1 -"),
        ("SELECT coalesce(b, 'x'), CASE WHEN a = 1 THEN b END, max(a) OVER () FROM ot", "- - -"),
        ("SELECT x.d, y.c FROM ou x, ot y", "ou.2 ot.3"),
        ("SELECT a FROM ot WHERE a = $1", "ot.1"),
        ("SELECT b, a FROM ot WHERE a BETWEEN 1 AND 3 ORDER BY a DESC LIMIT 2", "ot.2 ot.1"),
        ("SELECT l.d FROM ot, LATERAL (SELECT d FROM ou WHERE ou.a = ot.a) l", "ou.2"),
        ("VALUES (1)", "-"),
        ("INSERT INTO ot VALUES (2, 'p', 'q') RETURNING a, b, a + 1", "ot.1 ot.2 -"),
        ("UPDATE ot SET b = 'z' WHERE a = 2 RETURNING ot.*", "ot.1 ot.2 ot.3"),
        ("DELETE FROM ot WHERE a = 2 RETURNING c", "ot.3"),
    ] {
        session.parse("", sql, &[]).await.expect(sql);
        let (_, fields) = session.describe_statement("").expect(sql);
        let fields = fields.expect(sql);
        let origins = fields.iter().map(|field| match oids.get(&field.table_oid) {
            Some(name) => format!("{name}.{}", field.column),
            None => "-".to_owned(),
        });
        assert_eq!(origins.collect::<Vec<_>>().join(" "), wanted, "{sql}");
    }
}

/// What a SELECT without FROM gives, in text and in binary, its types and its errors, and what it leaves behind.
async fn lists(planning: Planning) -> (Vec<String>, u64) {
    let (_dir, database, mut session) = database(planning).await;
    for sql in [
        "CREATE SEQUENCE s",
        "CREATE SEQUENCE last MAXVALUE 2",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "SET timezone = 'America/New_York'",
        "SET datestyle = 'SQL, DMY'",
    ] {
        session.query(sql).await.expect(sql);
    }
    let mut out = Vec::new();
    let before = database.plan_totals().direct;
    for sql in [
        "SELECT 1",
        "SELECT 1, 'two', 3.50, true, NULL, 2::bigint, -3::smallint, 1.5::float8, 'NaN'::float4, E'\\\\x01'::bytea",
        "SELECT nextval('s'), nextval('s'), currval('s'), lastval()",
        "SELECT nextval('s') + nextval('s')",
        "SELECT CASE WHEN false THEN nextval('s') ELSE 0 END, currval('s')",
        "SELECT false AND nextval('s') > 0, currval('s')",
        "SELECT setval('s', 40), nextval('s'), setval('s', 50, false), nextval('s')",
        "SELECT nextval('s'), 1 / 0",
        "SELECT currval('s')",
        "SELECT nextval('last')",
        "SELECT nextval('last')",
        "SELECT nextval('last')",
        "SELECT nextval('none')",
        "SELECT nextval('t'::regclass)",
        "SELECT nextval(NULL)",
        "SELECT now() = now(), now() = transaction_timestamp(), clock_timestamp() >= now(), current_date = now()::date",
        "SELECT current_user, session_user, current_database(), pg_backend_pid() = pg_backend_pid()",
        "SELECT '2020-02-01 12:00+00'::timestamptz, '2020-02-01'::date, '2020-02-01'::date::text, 'sad'::mood, '1 day'::interval",
        "SELECT '2020-02-01 12:00+00'::timestamptz::text, 'ok'::mood > 'sad'::mood",
        "SELECT ARRAY[1, 2, NULL], '{a,b}'::text[], '10.0.0.1'::inet, '[1,5)'::int4range, '{\"a\": 1}'::jsonb, ROW(1, 'a')",
        "SELECT 2147483647 + 1",
        "SELECT 2147483647::int + 1::int",
        "SELECT 9223372036854775807 + 1",
        "SELECT 'x'::int",
        "SELECT 'happy'::mood",
        "SELECT 1 WHERE false",
        "SELECT 1 LIMIT 0",
        "SELECT 1 ORDER BY 1",
        "SELECT",
        "SELECT 1 UNION ALL SELECT 2",
        "SELECT (SELECT 5), EXISTS (SELECT 1)",
        "SELECT generate_series(1, 3)",
        "SELECT 'a' || 'b', upper('x'), length('abc'), 7 % 4, 7 / 2, 1 IN (1, 2), 3 BETWEEN 1 AND 5",
        "SELECT count(*)",
        "SELECT x FROM (SELECT nextval('s') AS x) q WHERE x > 0",
        "WITH w AS (INSERT INTO t VALUES (77, 1, 'w', 7700) RETURNING a) SELECT 1",
        "SELECT c FROM t WHERE a = 77",
        "WITH w AS MATERIALIZED (SELECT nextval('s')) SELECT 1",
        "SELECT currval('s')",
        "BEGIN TRANSACTION READ ONLY",
        "SELECT nextval('s')",
        "ROLLBACK",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "SELECT 1",
        "SELECT count(*) FROM t",
        "ROLLBACK",
        "BEGIN",
        "SELECT 1 / 0",
        "SELECT 1",
        "ROLLBACK",
    ] {
        out.push(format!("{sql}: {}", shown(session.query(sql).await)));
    }
    // By parameters, several times each.
    for (sql, given) in [
        ("SELECT $1::int + 1", vec![vec![Some("1")], vec![Some("2")], vec![None], vec![Some("2147483647")]]),
        (
            "SELECT $1::text, $2::bigint = 3",
            vec![vec![Some("a"), Some("3")], vec![None, None], vec![Some(""), Some("4")]],
        ),
        ("SELECT nextval($1::text::regclass)", vec![vec![Some("s")], vec![Some("s")], vec![Some("none")], vec![None]]),
        (
            "SELECT CASE WHEN $1::int > 1 THEN nextval('s') ELSE $1 END",
            vec![vec![Some("1")], vec![Some("2")], vec![None]],
        ),
        ("SELECT $1::numeric, $1::numeric * 2", vec![vec![Some("1.50")], vec![Some("2")], vec![None]]),
        ("SELECT $1::timestamptz, $1::timestamptz::date", vec![vec![Some("2020-02-01 01:00+00")], vec![None]]),
        ("SELECT $1::int[], $2::mood", vec![vec![Some("{1,2}"), Some("ok")], vec![None, None]]),
        ("SELECT $1::int / 0, $1::int IS NULL", vec![vec![None], vec![Some("1")]]),
    ] {
        session.parse("list", sql, &[]).await.expect(sql);
        for values in given {
            let values: Vec<_> =
                values.into_iter().map(|value| value.map(|text| Bytes::from(text.to_owned()))).collect();
            for (format, rows) in [(Format::Text, 0), (Format::Text, 1), (Format::Text, 2), (Format::Binary, 0)] {
                let answer = match session.bind("", "list", values.clone(), &[], &[format]).await {
                    Ok(()) => session.execute("", rows).await,
                    Err(error) => Err(error),
                };
                let answer = match answer {
                    Ok(Execution::Rows { first: Some(first), rows, tag, .. }) => {
                        let cells: Vec<_> = first.rows().map(|row| row.escape_ascii().to_string()).collect();
                        format!("{tag} {} {}", cells.join(" / "), rows.is_some())
                    }
                    Ok(_) => "no rows".to_owned(),
                    Err(error) => error.sqlstate.to_string(),
                };
                session.sync().await.expect("sync");
                out.push(format!("{sql} {values:?} {rows}: {answer}"));
            }
        }
        session.close_statement("list");
    }
    (out, database.plan_totals().direct - before)
}

/// A SELECT without FROM that is executed directly answers as its plan does, and calls as often what it calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_answer_as_their_plans_do() {
    let (planned, none) = lists(Planning { direct: false, ..Planning::default() }).await;
    let (direct, some) = lists(Planning::default()).await;
    for (planned, direct) in planned.iter().zip(&direct) {
        assert_eq!(planned, direct);
    }
    assert_eq!(planned.len(), direct.len());
    assert_eq!(none, 0);
    assert!(some > 50, "{some} of {} ran directly", direct.len());
}

/// What was planned as a list knows the definitions of the moment, and who runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_follow_definitions() {
    for direct in [false, true] {
        let (_dir, database, mut one) = database(Planning { direct, ..Planning::default() }).await;
        let mut two = session(&database);
        let mut run = async |of: usize, sql: &str| match of {
            1 => shown(one.query(sql).await),
            _ => shown(two.query(sql).await),
        };
        for (of, sql, answer) in [
            (1, "CREATE SEQUENCE s START 5", "CREATE SEQUENCE "),
            (1, "PREPARE p AS SELECT nextval('s')", "PREPARE "),
            (1, "EXECUTE p", "SELECT 1 5"),
            (2, "DROP SEQUENCE s", "DROP SEQUENCE "),
            (2, "CREATE SEQUENCE s START 9", "CREATE SEQUENCE "),
            (1, "EXECUTE p", "SELECT 1 9"),
            (2, "DROP SEQUENCE s", "DROP SEQUENCE "),
            (1, "EXECUTE p", "42P01"),
            (1, "CREATE SEQUENCE s", "CREATE SEQUENCE "),
            (1, "CREATE ROLE other", "CREATE ROLE "),
            (1, "SET ROLE other", "SET "),
            (1, "SELECT nextval('s')", "42501"),
        ] {
            assert_eq!(run(of, sql).await, answer, "{direct}: {sql}");
        }
    }
}
