//! SELECT … FOR UPDATE beside others who lock and change the same rows.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Db, accelerated, ok};
use resurgam_base::pauses::{Pause, Pauses};
use resurgam_engine::{Database, Options};
use resurgam_sql::Session;

fn open(dir: &Path) -> Db {
    let options = Options { accelerated_database_recovery: accelerated(), ..Options::default() };
    Db::of(Database::open(dir.join("db"), options).expect("open"))
}

/// Starts a statement in `session` and waits until it waits for another transaction.
async fn waiting(
    db: &Db,
    mut session: Session,
    sql: &str,
) -> tokio::task::JoinHandle<(Session, Result<Vec<String>, String>)> {
    let before = db.engine.stats().transactions.lock_waits;
    let shown = sql.to_owned();
    let sql = sql.to_owned();
    let running = tokio::spawn(async move {
        let result = session.query(&sql).await;
        let rows = result.map_err(|error| error.into_fields().sqlstate).map(|result| {
            let shown =
                |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("|");
            result.rows.into_iter().map(shown).collect()
        });
        (session, rows)
    });
    while db.engine.stats().transactions.lock_waits == before {
        assert!(!running.is_finished(), "it did not wait: {shown}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    running
}

/// Eight workers take jobs: each is done exactly once, and nobody waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_job_is_done_once() {
    for taking in ["select", "subquery"] {
        let dir = tempfile::tempdir().expect("folder");
        let db = open(dir.path());
        let mut session = db.session();
        ok(&mut session, "CREATE TABLE jobs (id int PRIMARY KEY, payload text)").await;
        ok(&mut session, "CREATE TABLE done (id int, worker int)").await;
        ok(&mut session, "INSERT INTO jobs SELECT i, repeat('p', 50) FROM generate_series(1, 240) AS s(i)").await;
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let mut session = db.session();
                tokio::spawn(async move {
                    ok(&mut session, "SET lock_timeout = '60s'").await;
                    let mut jobs = 0;
                    loop {
                        ok(&mut session, "BEGIN").await;
                        let taken = if taking == "select" {
                            let take = "SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
                            let taken = ok(&mut session, take).await;
                            if let Some(id) = taken.first() {
                                let gone =
                                    ok(&mut session, &format!("DELETE FROM jobs WHERE id = {id} RETURNING id")).await;
                                assert_eq!(gone, taken);
                            }
                            taken
                        } else {
                            let take = "DELETE FROM jobs WHERE id = (SELECT id FROM jobs WHERE payload LIKE 'p%' \
                                        ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id";
                            ok(&mut session, take).await
                        };
                        let Some(id) = taken.first() else {
                            ok(&mut session, "ROLLBACK").await;
                            // Those that others have taken and may give back.
                            if ok(&mut session, "SELECT count(*) FROM jobs").await == ["0"] {
                                return;
                            }
                            tokio::task::yield_now().await;
                            continue;
                        };
                        ok(&mut session, &format!("INSERT INTO done VALUES ({id}, {worker})")).await;
                        jobs += 1;
                        // Now and then a worker fails, and its job is free again.
                        if jobs % 7 == 0 {
                            ok(&mut session, "ROLLBACK").await;
                            jobs += 1;
                        } else {
                            ok(&mut session, "COMMIT").await;
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.expect("no panic");
        }
        assert_eq!(ok(&mut session, "SELECT count(*), count(DISTINCT id), max(id) FROM done").await, ["240|240|240"]);
    }
}

/// READ COMMITTED: who has waited gets the newest values, if the row still qualifies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_version_is_judged_and_returned() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut writer = db.session();
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int, c text, code text UNIQUE, d int UNIQUE)").await;
    ok(&mut writer, "CREATE TABLE u (id int PRIMARY KEY, a int)").await;
    ok(&mut writer, "INSERT INTO u VALUES (1, 1), (2, 1), (3, 2)").await;
    for (query, rows) in [
        ("SELECT a, b FROM t WHERE a = 1 FOR UPDATE", vec!["1|100"]),
        ("SELECT b, a FROM t WHERE a = 1 AND c = 'x' FOR UPDATE", vec![]),
        ("SELECT b, a FROM t WHERE a = 1 AND c LIKE 'x%' FOR UPDATE", vec![]),
        ("SELECT b, a + 1 FROM t WHERE code = 'c1' AND a = 1 LIMIT 5 FOR UPDATE", vec!["100|2"]),
        ("SELECT b FROM t WHERE code = 'c1' FOR UPDATE", vec!["100"]),
        ("SELECT b FROM t WHERE d = 1 FOR UPDATE", vec![]),
        ("SELECT c || b AS s FROM t WHERE b > 0 ORDER BY a FOR UPDATE", vec!["new100", "y2"]),
        ("SELECT a FROM t WHERE b < 50 ORDER BY a FOR UPDATE", vec!["2"]),
        ("SELECT a FROM t WHERE b < 50 ORDER BY a FOR UPDATE LIMIT 1", vec!["2"]),
        ("SELECT id, b FROM t JOIN u ON t.a = u.a ORDER BY id FOR UPDATE", vec!["1|100", "2|100", "3|2"]),
        ("SELECT id, b FROM t JOIN u ON t.a = u.a ORDER BY id FOR UPDATE OF t", vec!["1|100", "2|100", "3|2"]),
        ("SELECT id, b FROM t JOIN u ON t.a = u.a AND b < 50 ORDER BY id FOR UPDATE", vec!["3|2"]),
        // Each row of the join by itself, as in PostgreSQL.
        (
            "SELECT b, id FROM t LEFT JOIN u ON u.a = b ORDER BY t.a FOR UPDATE OF t",
            vec!["100|NULL", "100|NULL", "2|3"],
        ),
        ("UPDATE t SET c = 'u' WHERE a IN (SELECT a FROM t WHERE b < 50 FOR UPDATE) RETURNING a", vec!["2"]),
    ] {
        ok(&mut writer, "DELETE FROM t").await;
        ok(&mut writer, "INSERT INTO t VALUES (1, 1, 'x', 'c1', 1), (2, 2, 'y', 'c2', 2)").await;
        ok(&mut writer, "UPDATE u SET a = a").await;
        ok(&mut writer, "BEGIN; UPDATE t SET b = 100, c = 'new', d = 100 WHERE a = 1").await;
        let running = waiting(&db, db.session(), query).await;
        ok(&mut writer, "COMMIT").await;
        let (_, found) = running.await.expect("no panic");
        let found = found.map(|rows| rows.into_iter().map(|row| row.replace("|NULL", "|")).collect::<Vec<_>>());
        let rows: Vec<String> = rows.into_iter().map(|row| row.replace("|NULL", "|")).collect();
        assert_eq!(found, Ok(rows), "{query}");
        // Deleted: it is not there.
        ok(&mut writer, "BEGIN; DELETE FROM t WHERE a = 1").await;
        let all = "SELECT a FROM t ORDER BY a FOR UPDATE";
        let running = waiting(&db, db.session(), all).await;
        ok(&mut writer, "COMMIT").await;
        assert_eq!(running.await.expect("no panic").1, Ok(vec!["2".to_owned()]));
    }
    // Given back: as it was.
    ok(&mut writer, "BEGIN; UPDATE t SET b = 7").await;
    let running = waiting(&db, db.session(), "SELECT b FROM t FOR UPDATE").await;
    ok(&mut writer, "ROLLBACK").await;
    assert_eq!(running.await.expect("no panic").1, Ok(vec!["2".to_owned()]));
    // REPEATABLE READ.
    let mut reader = db.session();
    ok(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").await;
    ok(&mut writer, "BEGIN; UPDATE t SET b = 8").await;
    let running = waiting(&db, reader, "SELECT b FROM t FOR UPDATE").await;
    ok(&mut writer, "COMMIT").await;
    assert_eq!(running.await.expect("no panic").1, Err("40001".to_owned()));
}

/// Changes of a locked row wait for it, and deadlocks are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_keeps_others_and_is_part_of_deadlocks() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let (mut first, mut second) = (db.session(), db.session());
    ok(&mut first, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    ok(&mut first, "INSERT INTO t VALUES (1, 0), (2, 0)").await;
    // Read, add one, write: nothing is lost.
    let adders: Vec<_> = (0..4)
        .map(|_| {
            let mut session = db.session();
            tokio::spawn(async move {
                for _ in 0..25 {
                    ok(&mut session, "BEGIN").await;
                    let read = ok(&mut session, "SELECT b FROM t WHERE a = 1 FOR UPDATE").await;
                    let next = read[0].parse::<i64>().expect("a number") + 1;
                    ok(&mut session, &format!("UPDATE t SET b = {next} WHERE a = 1")).await;
                    ok(&mut session, "COMMIT").await;
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.expect("no panic");
    }
    assert_eq!(ok(&mut first, "SELECT b FROM t WHERE a = 1").await, ["100"]);
    ok(&mut first, "BEGIN; SELECT a FROM t WHERE a = 1 FOR UPDATE").await;
    ok(&mut second, "BEGIN; SELECT a FROM t WHERE a = 2 FOR UPDATE").await;
    let running = waiting(&db, first, "SELECT a FROM t WHERE a = 2 FOR UPDATE").await;
    // Who does not wait is in no deadlock.
    assert_eq!(ok(&mut second, "SELECT a FROM t ORDER BY a FOR UPDATE SKIP LOCKED").await, ["2"]);
    let refused = second.query("SELECT a FROM t WHERE a = 1 FOR UPDATE").await.expect_err("a deadlock");
    assert_eq!(refused.sqlstate, "40P01");
    ok(&mut second, "ROLLBACK").await;
    let (mut first, found) = running.await.expect("no panic");
    assert_eq!(found, Ok(vec!["2".to_owned()]));
    ok(&mut first, "COMMIT").await;
}

/// A circle of waits of which one is for an advisory lock, the other for a row, ends as any deadlock does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_through_an_advisory_lock_is_noticed() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let (mut first, mut second) = (db.session(), db.session());
    ok(&mut first, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    ok(&mut first, "INSERT INTO t VALUES (1, 0), (2, 0)").await;
    for lock in ["pg_advisory_lock", "pg_advisory_xact_lock"] {
        ok(&mut first, &format!("BEGIN; SELECT {lock}(7); UPDATE t SET b = b + 1 WHERE a = 1")).await;
        ok(&mut second, "BEGIN; UPDATE t SET b = b + 10 WHERE a = 2").await;
        let running = waiting(&db, first, "UPDATE t SET b = b + 1 WHERE a = 2").await;
        ok(&mut second, "SET LOCAL statement_timeout = '30s'").await;
        let refused = second.query(&format!("SELECT {lock}(7)")).await.expect_err("a deadlock");
        assert_eq!(refused.sqlstate, "40P01");
        ok(&mut second, "ROLLBACK").await;
        let (back, found) = running.await.expect("no panic");
        first = back;
        assert_eq!(found, Ok(Vec::new()));
        ok(&mut first, "COMMIT; SELECT pg_advisory_unlock_all()").await;
    }
    assert_eq!(ok(&mut first, "SELECT a, b FROM t ORDER BY a").await, ["1|2", "2|2"]);
}

/// A lock ends with its transaction, however that ends: also with the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    ok(&mut session, "INSERT INTO t VALUES (1, repeat('long ', 5000)), (2, 'x')").await;
    ok(&mut session, "BEGIN; SELECT a FROM t FOR UPDATE").await;
    drop(session);
    let mut session = db.session();
    ok(&mut session, "BEGIN; SELECT a FROM t FOR UPDATE NOWAIT").await;
    ok(&mut session, "UPDATE t SET b = 'y' WHERE a = 2; COMMIT").await;
    // While others change what is locked and let go of, content stays.
    let stop = Arc::new(AtomicBool::new(false));
    let lockers: Vec<_> = (0..3)
        .map(|i| {
            let (mut session, stop) = (db.session(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    ok(&mut session, "BEGIN; SELECT a FROM t ORDER BY a FOR UPDATE").await;
                    ok(&mut session, if i == 0 { "ROLLBACK" } else { "COMMIT" }).await;
                }
            })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(ok(&mut session, "SELECT length(b) FROM t ORDER BY a").await, ["25000", "1"]);
        ok(&mut session, "VACUUM").await;
    }
    stop.store(true, Ordering::Relaxed);
    for locker in lockers {
        locker.await.expect("no panic");
    }
    ok(&mut session, "BEGIN; SELECT a FROM t FOR UPDATE").await;
    drop(session);
    db.engine.close().expect("close");
    drop(db);
    let db = open(dir.path());
    let mut session = db.session();
    assert_eq!(ok(&mut session, "SELECT length(b) FROM t ORDER BY a FOR UPDATE NOWAIT").await, ["25000", "1"]);
}

/// Unique indexes on an expression and with a predicate between two sessions: whoever comes second waits, and gets an
/// error or goes on as the first one ends. In both recovery modes, and again after the database was opened anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unique_expressions_and_predicates_hold_between_sessions() {
    async fn end(
        running: tokio::task::JoinHandle<(Session, Result<Vec<String>, String>)>,
    ) -> (Session, Result<Vec<String>, String>) {
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        ended.expect("the statement that waited ends within a minute").expect("it does not panic")
    }
    for mode in [true, false] {
        let dir = tempfile::tempdir().expect("folder");
        let options = Options { accelerated_database_recovery: mode, ..Options::default() };
        let engine = Database::open(dir.path().join("db"), options.clone()).expect("open");
        let db = Db::of(engine);
        let mut one = db.session();
        ok(&mut one, "CREATE TABLE u (id int PRIMARY KEY, email text, gone boolean DEFAULT false)").await;
        ok(&mut one, "INSERT INTO u VALUES (1, 'First')").await;
        ok(&mut one, "CREATE UNIQUE INDEX u_email ON u (lower(email)) WHERE NOT gone").await;

        // The first one commits.
        ok(&mut one, "BEGIN").await;
        ok(&mut one, "INSERT INTO u VALUES (2, 'Two')").await;
        let running = waiting(&db, db.session(), "INSERT INTO u VALUES (3, 'tWO')").await;
        ok(&mut one, "COMMIT").await;
        let (two, answer) = end(running).await;
        assert_eq!(answer, Err("23505".to_owned()));

        // It rolls back, and back to a savepoint.
        ok(&mut one, "BEGIN").await;
        ok(&mut one, "SAVEPOINT s").await;
        ok(&mut one, "INSERT INTO u VALUES (4, 'Four')").await;
        ok(&mut one, "ROLLBACK TO s").await;
        ok(&mut one, "INSERT INTO u VALUES (5, 'Five')").await;
        let running = waiting(&db, two, "INSERT INTO u VALUES (6, 'FOUR'), (7, 'FIVE')").await;
        ok(&mut one, "ROLLBACK").await;
        let (two, answer) = end(running).await;
        assert_eq!(answer, Ok(Vec::new()));

        // A row leaves the predicate: its place is free for who waited for that.
        ok(&mut one, "BEGIN").await;
        ok(&mut one, "UPDATE u SET gone = true WHERE id = 1").await;
        let running = waiting(&db, two, "INSERT INTO u VALUES (8, 'fIRST')").await;
        ok(&mut one, "COMMIT").await;
        let (two, answer) = end(running).await;
        assert_eq!(answer, Ok(Vec::new()));
        // And cannot come back.
        let error = one.query("UPDATE u SET gone = false WHERE id = 1").await.err().map(|e| e.into_fields().sqlstate);
        assert_eq!(error.as_deref(), Some("23505"));

        // ON CONFLICT meets the row of a transaction that it waited for.
        ok(&mut one, "BEGIN").await;
        ok(&mut one, "INSERT INTO u VALUES (9, 'Nine')").await;
        let upsert = "INSERT INTO u VALUES (10, 'NINE') ON CONFLICT (lower(email)) WHERE NOT gone
                      DO UPDATE SET email = excluded.email || '!' RETURNING id, email";
        let running = waiting(&db, two, upsert).await;
        ok(&mut one, "COMMIT").await;
        let (two, answer) = end(running).await;
        assert_eq!(answer, Ok(vec!["9|NINE!".to_owned()]));

        let all = "SELECT id, email, gone FROM u ORDER BY id";
        let before = ok(&mut one, all).await;
        assert_eq!(before, ["1|First|t", "2|Two|f", "6|FOUR|f", "7|FIVE|f", "8|fIRST|f", "9|NINE!|f"]);
        drop((one, two));
        db.engine.close().expect("close");
        drop(db);
        let engine = Database::open(dir.path().join("db"), options).expect("open again");
        let db = Db::of(engine);
        let mut one = db.session();
        assert_eq!(ok(&mut one, all).await, before);
        assert_eq!(ok(&mut one, "SELECT id FROM u WHERE lower(email) = 'five'").await, ["7"]);
        let error = one.query("INSERT INTO u VALUES (11, 'Five')").await.err().map(|e| e.into_fields().sqlstate);
        assert_eq!(error.as_deref(), Some("23505"));
        ok(&mut one, "INSERT INTO u VALUES (11, 'Five', true)").await;
    }
}

/// LOCK TABLE: who waits goes on when the holder has ended, later writers do not pass who waits before them, a reader sees
/// what was committed while it waited, and two who wait for each other are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tables_are_locked_by_name() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let (mut one, mut two, three, four) = (db.session(), db.session(), db.session(), db.session());
    ok(&mut one, "CREATE TABLE t (a int PRIMARY KEY)").await;
    ok(&mut one, "BEGIN").await;
    ok(&mut one, "INSERT INTO t VALUES (1)").await;
    ok(&mut two, "BEGIN").await;
    let share = waiting(&db, two, "LOCK TABLE t IN SHARE MODE").await;
    let writer = waiting(&db, three, "INSERT INTO t VALUES (2)").await;
    ok(&mut one, "LOCK t IN ROW SHARE MODE").await;
    ok(&mut one, "COMMIT").await;
    let (mut two, locked) = share.await.expect("done");
    assert_eq!(locked, Ok(vec![]));
    assert_eq!(ok(&mut two, "SELECT a FROM t").await, ["1"]);
    assert!(!writer.is_finished(), "who came later writes later");
    ok(&mut two, "COMMIT").await;
    let (mut three, written) = writer.await.expect("done");
    assert_eq!(written, Ok(vec![]));

    // A reader, also one that has a transaction, waits for ACCESS EXCLUSIVE.
    ok(&mut one, "BEGIN").await;
    ok(&mut one, "LOCK t").await;
    let reader = waiting(&db, four, "SELECT count(*) FROM t").await;
    ok(&mut one, "INSERT INTO t VALUES (3)").await;
    ok(&mut one, "COMMIT").await;
    let (four, read) = reader.await.expect("done");
    assert_eq!(read, Ok(vec!["3".to_owned()]));

    // Whoever closes the circle is told.
    ok(&mut one, "CREATE TABLE u (a int)").await;
    ok(&mut one, "BEGIN").await;
    ok(&mut one, "LOCK t IN EXCLUSIVE MODE").await;
    ok(&mut two, "BEGIN").await;
    ok(&mut two, "LOCK u IN EXCLUSIVE MODE").await;
    let first = waiting(&db, one, "LOCK u IN SHARE MODE").await;
    let refused = two.query("INSERT INTO t VALUES (4)").await.expect_err("a deadlock");
    assert_eq!(refused.sqlstate, "40P01");
    let (mut one, locked) = first.await.expect("done");
    assert_eq!(locked, Ok(vec![]));
    ok(&mut one, "ROLLBACK").await;
    ok(&mut two, "ROLLBACK").await;

    // What is withdrawn keeps nobody out.
    ok(&mut one, "BEGIN").await;
    ok(&mut one, "LOCK t IN ROW EXCLUSIVE MODE").await;
    ok(&mut two, "SET lock_timeout = 30").await;
    ok(&mut two, "BEGIN").await;
    ok(&mut two, "SAVEPOINT x").await;
    assert_eq!(two.query("LOCK t IN SHARE MODE").await.expect_err("late").sqlstate, "55P03");
    ok(&mut three, "SET lock_timeout = 30").await;
    ok(&mut three, "INSERT INTO t VALUES (4)").await;
    ok(&mut one, "COMMIT").await;
    ok(&mut two, "ROLLBACK").await;
    drop(four);

    // One that is prepared keeps its locks, also over a restart.
    ok(&mut one, "BEGIN").await;
    ok(&mut one, "LOCK t IN SHARE MODE").await;
    ok(&mut one, "LOCK u").await;
    ok(&mut one, "PREPARE TRANSACTION 'p'").await;
    drop((one, two, three));
    db.close();
    let db = open(dir.path());
    let mut one = db.session();
    ok(&mut one, "SET lock_timeout = 30").await;
    assert_eq!(one.query("INSERT INTO t VALUES (5)").await.expect_err("locked").sqlstate, "55P03");
    assert_eq!(one.query("SELECT * FROM u").await.expect_err("locked").sqlstate, "55P03");
    assert_eq!(ok(&mut one, "SELECT count(*) FROM t").await, ["4"]);
    let held = "SELECT relation::regclass, mode FROM pg_locks WHERE locktype = 'relation' AND pid IS NULL ORDER BY 1";
    assert_eq!(ok(&mut one, held).await, ["t|ShareLock", "u|AccessExclusiveLock"]);
    ok(&mut one, "COMMIT PREPARED 'p'").await;
    ok(&mut one, "INSERT INTO t VALUES (5)").await;
    ok(&mut one, "SELECT * FROM u").await;
}

/// MERGE in READ COMMITTED: of a row that others changed meanwhile the clauses are judged anew, for the same row of the
/// source; one that is gone, or does not match any more, does not match. As PostgreSQL 15 has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_judges_the_newest_version() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut writer = db.session();
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int, c text)").await;
    ok(&mut writer, "CREATE TABLE s (a int, b int)").await;
    ok(&mut writer, "INSERT INTO s VALUES (1, 10)").await;
    ok(&mut writer, "CREATE TABLE two AS SELECT b FROM (VALUES (1), (2)) AS v (b)").await;
    let merge = "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND t.b > 50 THEN DELETE \
                 WHEN MATCHED AND t.b < 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET b = t.b + s.b, c = c || '+' \
                 WHEN NOT MATCHED AND s.b = 0 THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b, 'new')";
    let deletes = "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND t.b = 1 THEN DELETE \
                   WHEN MATCHED THEN UPDATE SET b = -t.b";
    let by_value = "MERGE INTO t USING two AS s ON t.b = s.b \
                    WHEN MATCHED THEN UPDATE SET c = s.b::text WHEN NOT MATCHED THEN INSERT VALUES (s.b + 100, s.b, 'no')";
    let subquery = "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND t.b = (SELECT max(b) FROM s) THEN DELETE \
                    WHEN MATCHED THEN UPDATE SET b = (SELECT count(*) FROM s AS o WHERE o.b < t.b)";
    for (change, statement, rows) in [
        ("UPDATE t SET b = 5 WHERE a = 1", merge, vec!["1|15|x+", "2|2|y"]),
        ("UPDATE t SET b = 100 WHERE a = 1", merge, vec!["2|2|y"]),
        ("UPDATE t SET b = -1 WHERE a = 1", merge, vec!["1|-1|x", "2|2|y"]),
        // Its key is another: the row of the source matches nothing.
        ("UPDATE t SET a = 7 WHERE a = 1", merge, vec!["1|10|new", "2|2|y", "7|1|x"]),
        // It is there again under the same key: moved away and back.
        ("UPDATE t SET a = 7 WHERE a = 1; UPDATE t SET a = 1, b = 3 WHERE a = 7", merge, vec!["1|13|x+", "2|2|y"]),
        ("DELETE FROM t WHERE a = 1", merge, vec!["1|10|new", "2|2|y"]),
        ("UPDATE t SET b = 8 WHERE a = 1", deletes, vec!["1|-8|x", "2|2|y"]),
        ("UPDATE t SET c = 'z' WHERE a = 1", deletes, vec!["2|2|y"]),
        ("DELETE FROM t WHERE a = 1", deletes, vec!["2|2|y"]),
        ("UPDATE t SET a = 9 WHERE a = 1", deletes, vec!["2|2|y", "9|1|x"]),
        // The newest version matches another row of the source, which is not this one's business.
        ("UPDATE t SET b = 2 WHERE a = 1", by_value, vec!["101|1|no", "1|2|x", "2|2|2"]),
        ("UPDATE t SET b = 10 WHERE a = 1", subquery, vec!["2|2|y"]),
        ("UPDATE t SET b = 11 WHERE a = 1", subquery, vec!["1|1|x", "2|2|y"]),
    ] {
        ok(&mut writer, "DELETE FROM t").await;
        ok(&mut writer, "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')").await;
        ok(&mut writer, &format!("BEGIN; {change}")).await;
        let running = waiting(&db, db.session(), statement).await;
        ok(&mut writer, "COMMIT").await;
        assert_eq!(running.await.expect("no panic").1, Ok(vec![]), "{change}, {statement}");
        let mut found = ok(&mut writer, "SELECT a, b, c FROM t").await;
        found.sort();
        assert_eq!(found, rows, "{change}, {statement}");
        // Given back: as if it had not been.
        ok(&mut writer, "DELETE FROM t").await;
        ok(&mut writer, "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')").await;
        ok(&mut writer, &format!("BEGIN; {change}")).await;
        let running = waiting(&db, db.session(), merge).await;
        ok(&mut writer, "ROLLBACK").await;
        assert_eq!(running.await.expect("no panic").1, Ok(vec![]), "{change}");
        assert_eq!(ok(&mut writer, "SELECT a, b, c FROM t ORDER BY a").await, ["1|11|x+", "2|2|y"], "{change}");
        // REPEATABLE READ.
        let mut reader = db.session();
        ok(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").await;
        ok(&mut writer, "BEGIN; UPDATE t SET b = 1, c = 'again' WHERE a = 1").await;
        let running = waiting(&db, reader, merge).await;
        ok(&mut writer, "COMMIT").await;
        assert_eq!(running.await.expect("no panic").1, Err("40001".to_owned()));
    }
}

/// Two who insert the same row: one of them fails, as in PostgreSQL, and leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_inserts_does_not_see_who_inserts_beside_it() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut writer = db.session();
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    ok(&mut writer, "BEGIN; INSERT INTO t VALUES (2, 0)").await;
    let merge = "MERGE INTO t USING generate_series(1, 3) AS s (i) ON t.a = i WHEN MATCHED THEN UPDATE SET b = b + 1 \
                 WHEN NOT MATCHED THEN INSERT VALUES (i, i)";
    let running = waiting(&db, db.session(), merge).await;
    ok(&mut writer, "COMMIT").await;
    let (mut session, result) = running.await.expect("no panic");
    assert_eq!(result, Err("23505".to_owned()));
    assert_eq!(ok(&mut session, "SELECT * FROM t").await, ["2|0"]);
    ok(&mut session, merge).await;
    assert_eq!(ok(&mut session, "SELECT * FROM t ORDER BY a").await, ["1|1", "2|1", "3|3"]);
}

/// Statements that write within WITH, in READ COMMITTED: a row that others changed meanwhile is judged anew, and what is read of
/// RETURNING is what was written. As PostgreSQL 15 has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_writes_within_with_judges_the_newest_version() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut writer = db.session();
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    ok(&mut writer, "CREATE TABLE log (a int, b int)").await;
    let plain = "WITH d AS (UPDATE t SET b = b + 10 WHERE a = 1 AND b < 50 RETURNING a, b) SELECT a, b FROM d";
    let joined = "WITH x AS (SELECT a, random() AS r FROM t), d AS (UPDATE t SET b = b + 10 FROM x p, x q \
                  WHERE p.r = q.r AND p.a = t.a AND t.a = 1 AND b < 50 RETURNING t.a, t.b) SELECT a, b FROM d";
    let logged = "WITH d AS (UPDATE t SET b = b + 10 WHERE a = 1 AND b < 50 RETURNING a, b) \
                  INSERT INTO log SELECT a, b FROM d RETURNING a, b";
    let target = "WITH x AS (INSERT INTO log SELECT a, b FROM t), y AS (SELECT 10 AS n) \
                  UPDATE t SET b = b + n FROM y WHERE a = 1 AND b < 50 RETURNING a, b";
    for statement in [plain, joined, logged, target] {
        for (change, rows) in [
            ("UPDATE t SET b = 5 WHERE a = 1", vec!["1|15"]),
            ("UPDATE t SET b = 100 WHERE a = 1", vec![]),
            ("DELETE FROM t WHERE a = 1", vec![]),
        ] {
            ok(&mut writer, "DELETE FROM t").await;
            ok(&mut writer, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
            ok(&mut writer, &format!("BEGIN; {change}")).await;
            let running = waiting(&db, db.session(), statement).await;
            ok(&mut writer, "COMMIT").await;
            let rows: Vec<String> = rows.into_iter().map(str::to_owned).collect();
            assert_eq!(running.await.expect("no panic").1, Ok(rows), "{change}, {statement}");
        }
        ok(&mut writer, "DELETE FROM t").await;
        ok(&mut writer, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
        ok(&mut writer, "BEGIN; UPDATE t SET b = 5 WHERE a = 1").await;
        let running = waiting(&db, db.session(), statement).await;
        ok(&mut writer, "ROLLBACK").await;
        assert_eq!(running.await.expect("no panic").1, Ok(vec!["1|11".to_owned()]), "{statement}");
        let mut reader = db.session();
        ok(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").await;
        ok(&mut writer, "BEGIN; UPDATE t SET b = 1 WHERE a = 1").await;
        let running = waiting(&db, reader, statement).await;
        ok(&mut writer, "COMMIT").await;
        assert_eq!(running.await.expect("no panic").1, Err("40001".to_owned()), "{statement}");
    }
}

/// Who waits for a row, or for a table, goes on with the policies that there are by then.
#[tokio::test(flavor = "multi_thread")]
async fn the_policies_of_the_one_waited_for_count() {
    let dir = tempfile::tempdir().expect("a folder");
    let db = open(dir.path());
    let mut admin = db.session();
    for sql in [
        "CREATE ROLE watched",
        "CREATE TABLE t (a int PRIMARY KEY, who text, n int)",
        "INSERT INTO t VALUES (1, 'other', 1), (2, 'watched', 2), (3, 'watched', 3)",
        "GRANT ALL ON t TO watched",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t USING (who = current_user)",
    ] {
        ok(&mut admin, sql).await;
    }
    for (change, statement, rows) in [
        ("ALTER POLICY p ON t USING (who = 'other')", "UPDATE t SET n = 99 WHERE a = 2 RETURNING a", vec![]),
        ("ALTER POLICY p ON t USING (who = 'other')", "DELETE FROM t RETURNING a", vec!["1"]),
        ("DROP POLICY p ON t", "DELETE FROM t RETURNING a", vec![]),
        ("CREATE POLICY q ON t AS RESTRICTIVE USING (a > 2)", "DELETE FROM t RETURNING a", vec!["3"]),
        ("ALTER TABLE t DISABLE ROW LEVEL SECURITY", "UPDATE t SET n = 0 WHERE a < 3 RETURNING a", vec!["1", "2"]),
    ] {
        let mut user = db.session();
        ok(&mut user, "SET ROLE watched").await;
        // Its plan is kept.
        ok(&mut user, "BEGIN").await;
        ok(&mut user, statement).await;
        ok(&mut user, "ROLLBACK").await;
        ok(&mut admin, "BEGIN").await;
        ok(&mut admin, "UPDATE t SET n = n + 1 WHERE a = 2").await;
        ok(&mut admin, change).await;
        let running = waiting(&db, user, statement).await;
        ok(&mut admin, "COMMIT").await;
        let (_, found) = running.await.expect("the statement ends");
        assert_eq!(found.expect("rows"), rows, "{change}; {statement}");
        for sql in [
            "DROP POLICY IF EXISTS p ON t",
            "DROP POLICY IF EXISTS q ON t",
            "CREATE POLICY p ON t USING (who = current_user)",
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "DELETE FROM t",
            "INSERT INTO t VALUES (1, 'other', 1), (2, 'watched', 2), (3, 'watched', 3)",
        ] {
            ok(&mut admin, sql).await;
        }
    }
}

/// What one of the writers does next, with all that it may change.
fn change_of(random: &mut u64, writer: u64, serial: &mut u64) -> String {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let (what, id, v) = (*random >> 60, (*random >> 20) % 3000, (*random >> 40) % 40);
    *serial += 1;
    let own = writer * 1_000_000 + *serial;
    match what {
        0..4 => format!("UPDATE c SET v = {v} WHERE id = {id}"),
        4 | 5 => format!("UPDATE c SET note = repeat('n', {v}) WHERE id = {id}"),
        6 | 7 => format!("UPDATE c SET u = {own} WHERE id = {id}"),
        8 | 9 => format!("DELETE FROM c WHERE id = {id}"),
        10..13 => format!("INSERT INTO c VALUES ({id}, {v}, {own}, 'new') ON CONFLICT DO NOTHING"),
        13 => format!("UPDATE c SET id = {own} WHERE id = {id}"),
        14 => format!("UPDATE c SET v = v + 1 WHERE id BETWEEN {id} AND {id} + 20 AND v < 39"),
        _ => format!("SAVEPOINT s; UPDATE c SET v = {v}, u = {own} WHERE id = {id}; ROLLBACK TO s"),
    }
}

/// Indexes are made again and again while three sessions write whatever can be written, of which some is rolled back. Each time the index
/// finds what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn indexes_are_made_while_others_write() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "CREATE TABLE c (id int PRIMARY KEY, v int, u int, note text)").await;
    ok(&mut session, "INSERT INTO c SELECT i, i % 40, i, 'old' FROM generate_series(0, 2999) AS s(i)").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..4)
        .map(|writer| {
            let (mut session, stop) = (db.session(), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut random, mut serial, mut committed) = (writer * 77, 0, 0);
                ok(&mut session, "SET lock_timeout = '60s'").await;
                while !stop.load(Ordering::Relaxed) {
                    let mut text = "BEGIN".to_owned();
                    for _ in 0..1 + random % 4 {
                        text = format!("{text}; {}", change_of(&mut random, writer, &mut serial));
                    }
                    let end = if random.is_multiple_of(5) { "ROLLBACK" } else { "COMMIT" };
                    match session.query(&format!("{text}; {end}")).await {
                        Ok(_) => committed += 1,
                        // Two that change rows of each other.
                        Err(error) if error.sqlstate == "40P01" => drop(session.query("ROLLBACK").await),
                        Err(error) => panic!("{text}: {error}"),
                    }
                }
                committed
            })
        })
        .collect();
    for round in 0..8 {
        let (unique, column) = if round % 2 == 0 { ("", "v") } else { ("UNIQUE", "u") };
        ok(&mut session, &format!("CREATE {unique} INDEX CONCURRENTLY c_i ON c ({column})")).await;
        let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'c_i'::regclass";
        assert_eq!(ok(&mut session, valid).await, ["t"]);
        for _ in 0..3 {
            ok(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            let rows = ok(&mut session, &format!("SELECT {column}, id FROM c ORDER BY {column} + 0, id")).await;
            let plan = ok(&mut session, &format!("EXPLAIN SELECT id FROM c WHERE {column} = 7")).await.join("\n");
            assert!(plan.contains("c_i"), "{plan}");
            for value in (0..40).chain([700, 1900, 1_000_007, 2_000_003]) {
                let by_index = format!("SELECT {column}, id FROM c WHERE {column} = {value} ORDER BY id");
                let begins = format!("{value}|");
                let expected: Vec<&String> = rows.iter().filter(|row| row.starts_with(&begins)).collect();
                let found = ok(&mut session, &by_index).await;
                assert!(found.iter().eq(expected.iter().copied()), "{by_index}: {found:?}, and there are {expected:?}");
            }
            ok(&mut session, "COMMIT").await;
        }
        ok(&mut session, "DROP INDEX c_i").await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.expect("no panic") > 10, "hardly anything was written");
    }
    drop(session);
    assert_eq!(db.engine.verify().expect("verify"), Vec::<String>::new());
}

/// Who has written, or locked a row, and not ended is waited for; whoever comes meanwhile does not wait. A cancel ends the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_waiting_and_writers_are_not() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let [mut making, mut idle, mut other] = [db.session(), db.session(), db.session()];
    ok(&mut other, "CREATE TABLE c (id int PRIMARY KEY, v int)").await;
    ok(&mut other, "INSERT INTO c SELECT i, i FROM generate_series(0, 999) AS s(i)").await;
    ok(&mut other, "SET lock_timeout = '20s'").await;
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = 'c_v')";
    ok(&mut idle, "BEGIN; UPDATE c SET v = -1 WHERE id = 500").await;
    let cancel = making.cancel_handle();
    let running = waiting(&db, making, "CREATE INDEX CONCURRENTLY c_v ON c (v)").await;
    for id in 2000..2100 {
        ok(&mut other, &format!("INSERT INTO c VALUES ({id}, {id})")).await;
    }
    cancel.cancel();
    let (back, ended) = running.await.expect("no panic");
    making = back;
    assert_eq!(ended, Err("57014".to_owned()));
    assert_eq!(ok(&mut other, valid).await, Vec::<String>::new());
    ok(&mut idle, "COMMIT").await;
    ok(&mut idle, "BEGIN; UPDATE c SET v = -2 WHERE id = 501").await;
    let running = waiting(&db, making, "CREATE INDEX CONCURRENTLY c_v ON c (v)").await;
    ok(&mut idle, "COMMIT; BEGIN").await;
    let (back, ended) = running.await.expect("no panic");
    making = back;
    assert_eq!(ended, Ok(Vec::new()));
    assert_eq!(ok(&mut other, valid).await, ["t"]);
    ok(&mut idle, "COMMIT").await;
    ok(&mut making, "DROP INDEX c_v").await;
    let cancel = making.cancel_handle();
    ok(&mut idle, "BEGIN; SELECT 1 FROM c WHERE id = 900 FOR UPDATE").await;
    let running = waiting(&db, making, "CREATE UNIQUE INDEX CONCURRENTLY c_v ON c (v)").await;
    for id in 3000..3100 {
        ok(&mut other, &format!("INSERT INTO c VALUES ({id}, {id})")).await;
    }
    cancel.cancel();
    let (back, ended) = running.await.expect("no panic");
    making = back;
    assert_eq!(ended, Err("57014".to_owned()));
    assert_eq!(ok(&mut other, valid).await, Vec::<String>::new());
    ok(&mut idle, "ROLLBACK").await;
    for id in 4000..4010 {
        ok(&mut other, &format!("INSERT INTO c VALUES ({id}, {id})")).await;
    }
    assert_eq!(ok(&mut other, "SELECT count(*) FROM c WHERE v >= 0").await, ["1208"]);
    ok(&mut making, "CREATE UNIQUE INDEX CONCURRENTLY c_v ON c (v)").await;
    assert_eq!(ok(&mut other, valid).await, ["t"]);
    assert_eq!(ok(&mut other, "SELECT count(*) FROM c WHERE v >= 0").await, ["1208"]);
    drop((making, idle, other));
    assert_eq!(db.engine.verify().expect("verify"), Vec::<String>::new());
}

/// Windows that chance alone opens for a microsecond are open for longer until this is dropped, for the whole process: one test at a time
/// has it.
struct Open(#[allow(dead_code)] tokio::sync::MutexGuard<'static, ()>);

impl Open {
    async fn at(places: &[Pause]) -> Self {
        static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let alone = ALONE.lock().await;
        Pauses::at(places).plant(7);
        Self(alone)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        Pauses::end();
    }
}

/// Runs a statement again and again in a session of its own, until it is told to end.
fn repeated(db: &Db, ends: &Arc<AtomicBool>, statements: &'static [&'static str]) -> tokio::task::JoinHandle<u64> {
    let (mut session, ends) = (db.session(), Arc::clone(ends));
    tokio::spawn(async move {
        let mut count = 0;
        while !ends.load(Ordering::Relaxed) {
            for statement in statements {
                // The key may be another row's.
                if let Err(error) = session.query(statement).await {
                    assert_eq!(error.into_fields().sqlstate, "23505", "{statement}");
                }
            }
            count += 1;
            tokio::task::yield_now().await;
        }
        count
    })
}

/// The row that an index led to has another key by the time at which it is read: it is not in the way, and is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_gets_out_of_the_way_is_not_updated() {
    let _open = Open::at(&[Pause::EntryRead]).await;
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "SET synchronous_commit = off").await;
    ok(&mut session, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, n int)").await;
    ok(&mut session, "INSERT INTO t VALUES (1, 5, 0)").await;
    let ends = Arc::new(AtomicBool::new(false));
    let moving = repeated(&db, &ends, &["SET synchronous_commit = off", "UPDATE t SET u = 11 - u WHERE id = 1"]);
    let mut updated = 0;
    for id in 10..3000 {
        let insert =
            format!("INSERT INTO t VALUES ({id}, 5, 0) ON CONFLICT (u) DO UPDATE SET n = t.n + 1 RETURNING id, u");
        let got = ok(&mut session, &insert).await;
        updated += u32::from(got == ["1|5"]);
        assert!(got == ["1|5"] || got == [format!("{id}|5")], "{got:?}");
        ok(&mut session, &format!("DELETE FROM t WHERE id = {id}")).await;
    }
    ends.store(true, Ordering::Relaxed);
    assert!(moving.await.expect("no panic") > 0 && updated > 0);
}

/// Nor is a row a duplicate that is gone when it is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_gone_is_no_duplicate() {
    let _open = Open::at(&[Pause::RowRead]).await;
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "SET synchronous_commit = off").await;
    ok(&mut session, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, n int)").await;
    let ends = Arc::new(AtomicBool::new(false));
    let statements = &[
        "SET synchronous_commit = off",
        "INSERT INTO t VALUES (1, 5, 0) ON CONFLICT DO NOTHING",
        "DELETE FROM t WHERE id = 1",
    ];
    let going = repeated(&db, &ends, statements);
    for id in 10..3000 {
        // None of these may fail.
        ok(&mut session, &format!("INSERT INTO t VALUES ({id}, 5, 0) ON CONFLICT (u) DO NOTHING")).await;
        ok(&mut session, &format!("DELETE FROM t WHERE id = {id}")).await;
    }
    ends.store(true, Ordering::Relaxed);
    assert!(going.await.expect("no panic") > 0);
}

/// A row of the target that others have changed meanwhile is judged with the row that it was joined with, and no other: PostgreSQL's answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_changed_row_is_judged_with_the_row_it_was_joined_with() {
    let update = "UPDATE t SET v = s.v FROM s WHERE t.k = s.k AND t.id < 9";
    let returning = "UPDATE t SET v = s.v FROM s WHERE t.k = s.k AND t.id < 9 RETURNING t.id, s.note";
    let subquery = "UPDATE t SET v = (SELECT max(a.v) FROM s AS a WHERE a.k <= s.k) FROM s WHERE t.k = s.k";
    let delete = "DELETE FROM t USING s WHERE t.k = s.k AND t.id < 9";
    // What changes the row, what waits, what that gives, and what there is then.
    let cases: [(&str, &str, &[&str], &[&str]); 12] = [
        ("UPDATE t SET k = 2 WHERE id = 1", update, &[], &["1|2|0", "2|5|0"]),
        ("UPDATE t SET k = 2 WHERE id = 1", returning, &[], &["1|2|0", "2|5|0"]),
        ("UPDATE t SET k = 2 WHERE id = 1", subquery, &[], &["1|2|0", "2|5|0"]),
        ("UPDATE t SET k = 2 WHERE id = 1", delete, &[], &["1|2|0", "2|5|0"]),
        ("UPDATE t SET k = 7 WHERE id = 1", update, &[], &["1|7|0", "2|5|0"]),
        ("UPDATE t SET id = 3, k = 2 WHERE id = 1", update, &[], &["2|5|0", "3|2|0"]),
        ("UPDATE t SET id = 3 WHERE id = 1", update, &[], &["2|5|0", "3|1|10"]),
        ("UPDATE t SET v = 1 WHERE id = 1", update, &[], &["1|1|10", "2|5|0"]),
        ("UPDATE t SET v = 1 WHERE id = 1", returning, &["1|one"], &["1|1|10", "2|5|0"]),
        ("UPDATE t SET v = 1 WHERE id = 1", subquery, &[], &["1|1|10", "2|5|0"]),
        ("UPDATE t SET v = 1 WHERE id = 1", delete, &[], &["2|5|0"]),
        ("DELETE FROM t WHERE id = 1", update, &[], &["2|5|0"]),
    ];
    for (change, statement, given, left) in cases {
        let dir = tempfile::tempdir().expect("folder");
        let db = open(dir.path());
        let mut session = db.session();
        ok(&mut session, "CREATE TABLE t (id int PRIMARY KEY, k int, v int)").await;
        ok(&mut session, "CREATE TABLE s (k int, v int, note text)").await;
        ok(&mut session, "INSERT INTO t VALUES (1, 1, 0), (2, 5, 0)").await;
        ok(&mut session, "INSERT INTO s VALUES (1, 10, 'one'), (2, 20, 'two'), (NULL, 30, NULL)").await;
        ok(&mut session, "BEGIN").await;
        ok(&mut session, change).await;
        let waits = waiting(&db, db.session(), statement).await;
        ok(&mut session, "COMMIT").await;
        let (_, result) = waits.await.expect("no panic");
        assert_eq!(
            result.as_deref(),
            Ok(&given.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()[..]),
            "{change}; {statement}"
        );
        assert_eq!(ok(&mut session, "SELECT * FROM t ORDER BY id").await, left, "{change}; {statement}");
    }
}

/// A row that a younger transaction has changed since the statement began is none of the statement's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_of_a_younger_transaction_is_updated() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let (mut holder, mut younger) = (db.session(), db.session());
    ok(&mut holder, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    ok(&mut holder, "INSERT INTO t VALUES (3, 0), (4, 0)").await;
    ok(&mut holder, "BEGIN").await;
    ok(&mut holder, "UPDATE t SET n = 5 WHERE k = 3").await;
    let insert = "INSERT INTO t VALUES (3, 0), (4, 0) ON CONFLICT (k) DO UPDATE SET n = t.n + 1 RETURNING k, n";
    let waits = waiting(&db, db.session(), insert).await;
    ok(&mut younger, "UPDATE t SET n = 10 WHERE k = 4").await;
    ok(&mut holder, "COMMIT").await;
    let (_, result) = waits.await.expect("no panic");
    assert_eq!(result.as_deref(), Ok(&["3|6".to_owned(), "4|11".to_owned()][..]));
}
