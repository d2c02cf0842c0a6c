//! Statements whose definitions others change while they wait are planned and run again, and
//! statements that wait for a row find it under another primary key.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

struct Db {
    engine: Database,
    sql: Arc<SqlDatabase>,
}

fn open(dir: &Path) -> Db {
    let options = Options {
        accelerated_database_recovery: std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional"),
        ..Options::default()
    };
    let engine = Database::open(dir.join("db"), options).expect("open");
    let sql = SqlDatabase::new(engine.clone(), SqlSettings::default());
    Db { engine, sql }
}

impl Db {
    fn session(&self) -> Session {
        Arc::clone(&self.sql).session(SessionOptions::default()).expect("session")
    }
}

type Answer = Result<Vec<String>, String>;

/// The rows of the last statement, then its tag; or the error's SQLSTATE.
async fn answer(session: &mut Session, sql: &str) -> Answer {
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned())).collect::<Vec<_>>().join("|")
    };
    let result = session.query(sql).await.map_err(|error| error.into_fields().sqlstate)?;
    Ok(result.rows.into_iter().map(shown).chain([result.tag]).collect())
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let mut rows = answer(session, sql).await.unwrap_or_else(|state| panic!("{sql}: {state}"));
    rows.pop();
    rows
}

/// Starts a statement in `session` and waits until it waits for another transaction.
async fn waiting(db: &Db, mut session: Session, sql: &str) -> tokio::task::JoinHandle<(Session, Answer)> {
    let before = db.engine.stats().transactions.lock_waits;
    let (shown, sql) = (sql.to_owned(), sql.to_owned());
    let running = tokio::spawn(async move {
        let found = answer(&mut session, &sql).await;
        (session, found)
    });
    while db.engine.stats().transactions.lock_waits == before {
        assert!(!running.is_finished(), "it did not wait: {shown}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    running
}

fn ok(lines: &[&str]) -> Answer {
    Ok(lines.iter().map(|line| (*line).to_owned()).collect())
}

/// What a session has done before the statement that waits.
const BEFORE: [&str; 4] = ["", "BEGIN", "BEGIN; UPDATE other SET n = n + 1", "BEGIN; SAVEPOINT s"];

/// READ COMMITTED: who waits for a change of a definition goes by the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_follow_a_change_that_they_waited_for() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut ddl = db.session();
    rows(&mut ddl, "CREATE TABLE other (n int); INSERT INTO other VALUES (0)").await;
    let changes = [
        (
            "ALTER TABLE t ADD COLUMN d int DEFAULT 7",
            vec![
                ("INSERT INTO t VALUES (5, 50)", ok(&["INSERT 0 1"]), "5|50|7"),
                ("INSERT INTO t SELECT 5, 50 UNION ALL SELECT 6, 60", ok(&["INSERT 0 2"]), "5|50|7 6|60|7"),
                ("INSERT INTO t VALUES (5, 50) RETURNING *", ok(&["5|50|7", "INSERT 0 1"]), "5|50|7"),
                ("INSERT INTO t VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET v = 11", ok(&["INSERT 0 1"]), ""),
                ("UPDATE t SET v = v + 1 WHERE id = 1", ok(&["UPDATE 1"]), ""),
                ("UPDATE t SET v = v + 1 WHERE v < 25", ok(&["UPDATE 2"]), ""),
                ("DELETE FROM t WHERE id = 1", ok(&["DELETE 1"]), ""),
                ("DELETE FROM t WHERE v < 25 RETURNING *", ok(&["1|10|7", "2|20|7", "DELETE 2"]), ""),
                ("SELECT * FROM t WHERE id = 1 FOR UPDATE", ok(&["1|10|7", "SELECT 1"]), ""),
                ("SELECT * FROM t WHERE v < 25 ORDER BY 1 FOR UPDATE", ok(&["1|10|7", "2|20|7", "SELECT 2"]), ""),
                ("SELECT 1; INSERT INTO t VALUES (5, 50); SELECT count(*) FROM t", ok(&["4", "SELECT 1"]), "5|50|7"),
                ("CREATE TABLE made AS SELECT * FROM t WHERE id = 1", ok(&["SELECT 1"]), ""),
                ("ALTER TABLE t ADD COLUMN e int DEFAULT 8", ok(&["ALTER TABLE"]), ""),
                ("TRUNCATE t", ok(&["TRUNCATE TABLE"]), ""),
            ],
        ),
        (
            "ALTER TABLE t ALTER COLUMN v TYPE text USING v || 'x'",
            vec![
                ("INSERT INTO t VALUES (5, 50)", ok(&["INSERT 0 1"]), "5|50"),
                ("UPDATE t SET v = '9' WHERE id = 1 RETURNING v", ok(&["9", "UPDATE 1"]), ""),
                ("UPDATE t SET v = 9 WHERE id = 2 RETURNING *", ok(&["2|9", "UPDATE 1"]), ""),
                ("DELETE FROM t WHERE id < 3 RETURNING *", ok(&["1|10x", "2|20x", "DELETE 2"]), ""),
            ],
        ),
        (
            "ALTER TABLE t RENAME COLUMN v TO w",
            vec![
                ("UPDATE t SET v = 9 WHERE id = 1", Err("42703".to_owned()), ""),
                ("INSERT INTO t VALUES (5, 50)", ok(&["INSERT 0 1"]), "5|50"),
            ],
        ),
        ("DROP TABLE t", vec![("UPDATE t SET v = 9 WHERE id = 1", Err("42P01".to_owned()), "")]),
    ];
    for (change, statements) in changes {
        for (statement, expected, inserted) in statements {
            for before in BEFORE {
                let what = format!("{change}: {before}; {statement}");
                rows(&mut ddl, "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS made").await;
                rows(&mut ddl, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
                rows(&mut ddl, "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30); UPDATE other SET n = 0").await;
                let mut session = db.session();
                // Its plan is kept from before.
                let _ = session.query("BEGIN").await;
                let _ = session.query(statement).await;
                rows(&mut session, "ROLLBACK").await;
                rows(&mut session, before).await;
                rows(&mut ddl, &format!("BEGIN; {change}")).await;
                // CREATE TABLE AS reads only, and waits for nobody.
                let running = if statement.starts_with("CREATE") {
                    rows(&mut ddl, "COMMIT").await;
                    tokio::spawn(async move {
                        let found = answer(&mut session, statement).await;
                        (session, found)
                    })
                } else {
                    let running = waiting(&db, session, statement).await;
                    rows(&mut ddl, "COMMIT").await;
                    running
                };
                let (mut session, found) = running.await.expect("no panic");
                assert_eq!(found, expected, "{what}");
                if !before.is_empty() {
                    let end = if found.is_ok() { "COMMIT" } else { "ROLLBACK" };
                    assert_eq!(answer(&mut session, "COMMIT").await, ok(&[end]), "{what}");
                    let n = if before.contains("UPDATE other") && found.is_ok() { "1" } else { "0" };
                    assert_eq!(rows(&mut ddl, "SELECT n FROM other").await, [n], "{what}");
                }
                if found.is_ok() && !inserted.is_empty() {
                    let found = rows(&mut ddl, "SELECT * FROM t WHERE id > 4 ORDER BY id").await;
                    assert_eq!(found.join(" "), inserted, "{what}");
                }
            }
        }
    }
    // COPY has its data but once.
    rows(&mut ddl, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    rows(&mut ddl, "BEGIN; ALTER TABLE t ADD COLUMN d int DEFAULT 7").await;
    let before = db.engine.stats().transactions.lock_waits;
    let mut session = db.session();
    let copying = tokio::spawn(async move { session.copy_from("COPY t (id, v) FROM STDIN", b"1\t2\n3\t4\n").await });
    while db.engine.stats().transactions.lock_waits == before {
        assert!(!copying.is_finished(), "COPY did not wait");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    rows(&mut ddl, "COMMIT").await;
    assert_eq!(copying.await.expect("no panic").expect("COPY").to_string(), "COPY 2");
    assert_eq!(rows(&mut ddl, "SELECT * FROM t ORDER BY id").await, ["1|2|7", "3|4|7"]);
}

/// What a statement has done when it meets a changed definition is taken back, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_statement_did_is_done_once() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut ddl = db.session();
    rows(&mut ddl, "CREATE TABLE other (n int); INSERT INTO other VALUES (0)").await;
    for statement in [
        // Directly and by a plan.
        "UPDATE p SET id = id + 10, n = n + 1 WHERE id = 1 RETURNING id, n",
        "UPDATE p SET id = id + 10, n = n + 1 WHERE id < 2 RETURNING id, n",
        "DELETE FROM p WHERE id = 1 RETURNING id + 10, n + 1",
        "DELETE FROM p WHERE id < 2 RETURNING id + 10, n + 1",
    ] {
        for before in BEFORE {
            rows(&mut ddl, "DROP TABLE IF EXISTS g, c, p").await;
            rows(&mut ddl, "CREATE TABLE p (id int PRIMARY KEY, n int)").await;
            let cascade = "ON DELETE CASCADE ON UPDATE CASCADE";
            rows(&mut ddl, &format!("CREATE TABLE c (id int PRIMARY KEY REFERENCES p {cascade}, n int)")).await;
            rows(&mut ddl, &format!("CREATE TABLE g (id int PRIMARY KEY REFERENCES c {cascade}, n int)")).await;
            rows(&mut ddl, "INSERT INTO p VALUES (1, 0), (2, 0)").await;
            rows(&mut ddl, "INSERT INTO c VALUES (1, 0), (2, 0)").await;
            rows(&mut ddl, "INSERT INTO g VALUES (1, 0), (2, 0); UPDATE other SET n = 0").await;
            let mut session = db.session();
            rows(&mut session, before).await;
            // A table that the statement does not name, nor those that it names.
            rows(&mut ddl, "BEGIN; ALTER TABLE g ADD COLUMN d int DEFAULT 7").await;
            let running = waiting(&db, session, statement).await;
            rows(&mut ddl, "COMMIT").await;
            let (mut session, found) = running.await.expect("no panic");
            let tag = if statement.starts_with("UPDATE") { "UPDATE 1" } else { "DELETE 1" };
            assert_eq!(found, ok(&["11|1", tag]), "{before}; {statement}");
            if !before.is_empty() {
                assert_eq!(answer(&mut session, "COMMIT").await, ok(&["COMMIT"]));
                let n = if before.contains("UPDATE") { "1" } else { "0" };
                assert_eq!(rows(&mut ddl, "SELECT n FROM other").await, [n]);
            }
            let left: &[&str] = if tag == "UPDATE 1" { &["2|0|7", "11|0|7"] } else { &["2|0|7"] };
            assert_eq!(rows(&mut ddl, "SELECT * FROM g ORDER BY id").await, left);
        }
    }
}

/// REPEATABLE READ gets 40001, and its older plans are nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_keeps_its_definitions() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut ddl = db.session();
    rows(&mut ddl, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10)").await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t";
    let mut behind = db.session();
    rows(&mut behind, begin).await;
    rows(&mut ddl, "BEGIN; ALTER TABLE t ADD COLUMN d int DEFAULT 7").await;
    let running = waiting(&db, behind, "UPDATE t SET v = 11 WHERE id = 1").await;
    rows(&mut ddl, "COMMIT").await;
    let (mut behind, found) = running.await.expect("no panic");
    assert_eq!(found, Err("40001".to_owned()));
    rows(&mut behind, &format!("ROLLBACK; {begin}")).await;
    rows(&mut ddl, "ALTER TABLE t ADD COLUMN e int DEFAULT 8").await;
    let all = "SELECT * FROM t ORDER BY v, id";
    for _ in 0..2 {
        assert_eq!(rows(&mut behind, all).await, ["1|10|7"]);
    }
    let mut later = db.session();
    rows(&mut later, begin).await;
    assert_eq!(rows(&mut later, all).await, ["1|10|7|8"]);
    assert_eq!(rows(&mut behind, all).await, ["1|10|7"]);
}

/// Whatever is changed beside them, READ COMMITTED statements meet no conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nobody_meets_a_conflict_of_definitions() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut ddl = db.session();
    rows(&mut ddl, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v int)").await;
    rows(&mut ddl, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) AS s(i)").await;
    rows(&mut ddl, "INSERT INTO u SELECT i, 0 FROM generate_series(1, 50) AS s(i)").await;
    let done = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (mut session, done, turns) = (db.session(), Arc::clone(&done), Arc::clone(&turns));
            tokio::spawn(async move {
                let mut added = 0;
                while !done.load(Ordering::Relaxed) {
                    let id = worker + 1;
                    for text in [
                        format!("UPDATE t SET v = v + 1 WHERE id = {id}"),
                        "SELECT id FROM u UNION ALL SELECT id FROM t".to_owned(),
                        format!(
                            "BEGIN; UPDATE u SET v = v + 1 WHERE id = {id}; UPDATE t SET v = v + 1 WHERE id = {id}"
                        ),
                        "COMMIT".to_owned(),
                        format!("UPDATE t SET v = v + 1 WHERE id + 0 = {id}"),
                    ] {
                        let found = answer(&mut session, &text).await;
                        assert!(found.is_ok(), "{text}: {found:?}");
                    }
                    added += 3;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                added
            })
        })
        .collect();
    for i in 0..40 {
        let before = turns.load(Ordering::Relaxed);
        rows(&mut ddl, if i % 2 == 0 { "ALTER TABLE t ADD COLUMN d int" } else { "ALTER TABLE t DROP COLUMN d" }).await;
        while turns.load(Ordering::Relaxed) == before {
            assert!(!workers.iter().any(tokio::task::JoinHandle::is_finished), "a worker failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    for (worker, running) in workers.into_iter().enumerate() {
        let added: i32 = running.await.expect("no panic");
        let v = rows(&mut ddl, &format!("SELECT v FROM t WHERE id = {}", worker + 1)).await;
        assert_eq!(v, [added.to_string()]);
    }
}

/// READ COMMITTED: a row that gets another primary key while a statement waits for it is followed, whether the
/// statement runs directly or by a plan. Each answer is PostgreSQL 15's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_followed_to_another_primary_key() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut writer = db.session();
    rows(&mut writer, "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, v int)").await;
    rows(&mut writer, "CREATE TABLE u (id int PRIMARY KEY, code text); INSERT INTO u VALUES (1, 'a')").await;
    let moved = "UPDATE t SET id = 10, v = v + 5 WHERE id = 1";
    // In the old row's place there is another one.
    let swapped = "UPDATE t SET id = 10 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2";
    let cycle =
        "UPDATE t SET id = 99 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 99";
    let home = "UPDATE t SET id = 99 WHERE id = 1; UPDATE t SET id = 1, v = 11 WHERE id = 99";
    // The row under its key is not the one that was.
    let reborn = "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'a', 12)";
    let deleted_there =
        "UPDATE t SET id = 10 WHERE id = 1; DELETE FROM t WHERE id = 10; INSERT INTO t VALUES (10, 'z', 7)";
    let taken_back = "SAVEPOINT s; UPDATE t SET id = 10 WHERE id = 1; ROLLBACK TO s; UPDATE t SET id = 20 WHERE id = 1";
    for (change, statement, expected) in [
        (moved, "UPDATE t SET v = v + 1 WHERE code = 'a' RETURNING *", ok(&["10|a|16", "UPDATE 1"])),
        (moved, "UPDATE t SET v = v + 1 WHERE code = 'a' AND v = 10 RETURNING *", ok(&["UPDATE 0"])),
        (moved, "DELETE FROM t WHERE code = 'a' RETURNING *", ok(&["10|a|15", "DELETE 1"])),
        (moved, "SELECT * FROM t WHERE code = 'a' FOR UPDATE", ok(&["10|a|15", "SELECT 1"])),
        (moved, "UPDATE t SET v = 0 WHERE id = 1", ok(&["UPDATE 0"])),
        (
            moved,
            "INSERT INTO t VALUES (7, 'a', 7) ON CONFLICT (code) DO UPDATE SET v = t.v + 1 RETURNING *",
            ok(&["10|a|16", "INSERT 0 1"]),
        ),
        ("UPDATE t SET id = 10, code = 'c' WHERE id = 1", "UPDATE t SET v = 0 WHERE code = 'a'", ok(&["UPDATE 0"])),
        (swapped, "UPDATE t SET v = v + 1 WHERE code = 'a' RETURNING *", ok(&["10|a|11", "UPDATE 1"])),
        ("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 0 WHERE code = 'a'", ok(&["UPDATE 0"])),
        (moved, "UPDATE t SET v = v + 1 WHERE code LIKE 'a%' RETURNING *", ok(&["10|a|16", "UPDATE 1"])),
        (moved, "UPDATE t SET v = v + 1 WHERE code LIKE 'a%' AND v = 10", ok(&["UPDATE 0"])),
        (moved, "UPDATE t SET v = v + 1 RETURNING *", ok(&["10|a|16", "2|b|21", "3|c3|31", "UPDATE 3"])),
        (moved, "UPDATE t SET id = id + 100 RETURNING *", ok(&["110|a|15", "102|b|20", "103|c3|30", "UPDATE 3"])),
        (moved, "UPDATE t SET v = v + 1 FROM u WHERE t.code = u.code RETURNING t.*", ok(&["10|a|16", "UPDATE 1"])),
        (moved, "DELETE FROM t WHERE v > 0 RETURNING *", ok(&["10|a|15", "2|b|20", "3|c3|30", "DELETE 3"])),
        (moved, "SELECT * FROM t WHERE v > 0 FOR UPDATE", ok(&["10|a|15", "2|b|20", "3|c3|30", "SELECT 3"])),
        (moved, "SELECT * FROM t WHERE v > 0 OFFSET 2 LIMIT 1 FOR UPDATE", ok(&["3|c3|30", "SELECT 1"])),
        (moved, "SELECT t.*, u.id FROM t JOIN u USING (code) FOR UPDATE OF t", ok(&["10|a|15|1", "SELECT 1"])),
        (
            moved,
            "UPDATE t SET v = 0 WHERE code IN (SELECT code FROM t WHERE v < 20 FOR UPDATE) RETURNING *",
            ok(&["10|a|0", "UPDATE 1"]),
        ),
        ("DELETE FROM t WHERE id = 1", "UPDATE t SET v = v + 1 RETURNING *", ok(&["2|b|21", "3|c3|31", "UPDATE 2"])),
        (swapped, "UPDATE t SET v = v + 1 RETURNING *", ok(&["10|a|11", "1|b|21", "3|c3|31", "UPDATE 3"])),
        (swapped, "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING *", ok(&["UPDATE 0"])),
        (swapped, "UPDATE t SET v = v + 1 WHERE id = 2 RETURNING *", ok(&["UPDATE 0"])),
        (swapped, "DELETE FROM t WHERE code = 'b' RETURNING *", ok(&["1|b|20", "DELETE 1"])),
        (cycle, "UPDATE t SET v = v + 1 RETURNING *", ok(&["2|a|11", "1|b|21", "3|c3|31", "UPDATE 3"])),
        (home, "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING *", ok(&["1|a|12", "UPDATE 1"])),
        (reborn, "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING *", ok(&["UPDATE 0"])),
        (reborn, "UPDATE t SET v = v + 1 WHERE code = 'a' RETURNING *", ok(&["UPDATE 0"])),
        (reborn, "DELETE FROM t RETURNING *", ok(&["2|b|20", "3|c3|30", "DELETE 2"])),
        (reborn, "SELECT * FROM t WHERE id = 1 FOR UPDATE", ok(&["SELECT 0"])),
        (deleted_there, "UPDATE t SET v = v + 1 RETURNING *", ok(&["2|b|21", "3|c3|31", "UPDATE 2"])),
        (taken_back, "UPDATE t SET v = v + 1 WHERE code = 'a' RETURNING *", ok(&["20|a|11", "UPDATE 1"])),
    ] {
        for end in ["COMMIT", "ROLLBACK"] {
            for before in ["", "BEGIN; UPDATE t SET v = v WHERE id = 3"] {
                rows(&mut writer, "DELETE FROM t").await;
                rows(&mut writer, "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c3', 30)").await;
                let mut session = db.session();
                rows(&mut session, before).await;
                rows(&mut writer, &format!("BEGIN; {change}")).await;
                let running = waiting(&db, session, statement).await;
                rows(&mut writer, end).await;
                let (mut session, found) = running.await.expect("no panic");
                let what = format!("{before}; {statement} behind {change}; {end}");
                if end == "COMMIT" {
                    assert_eq!(found, expected, "{what}");
                } else {
                    assert!(found.is_ok(), "{what}: {found:?}");
                }
                if !before.is_empty() {
                    rows(&mut session, "COMMIT").await;
                }
            }
        }
    }
    // REPEATABLE READ does not follow.
    rows(&mut writer, "DELETE FROM t; INSERT INTO t VALUES (1, 'a', 10)").await;
    for statement in ["UPDATE t SET v = 0 WHERE code = 'a'", "SELECT * FROM t WHERE v > 0 FOR UPDATE"] {
        let mut session = db.session();
        rows(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").await;
        rows(&mut writer, "BEGIN; UPDATE t SET id = id + 10").await;
        let running = waiting(&db, session, statement).await;
        rows(&mut writer, "COMMIT").await;
        assert_eq!(running.await.expect("no panic").1, Err("40001".to_owned()), "{statement}");
    }
}

/// ON CONFLICT in REPEATABLE READ: a row in the way that the snapshot does not see as it is now is an error.
/// NOT NULL and CHECK come before conflicts. Each answer is PostgreSQL 15's, from both sources of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_of_a_snapshot() {
    for direct in [true, false] {
        let dir = tempfile::tempdir().expect("folder");
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        let planning = resurgam_sql::Planning { direct, ..resurgam_sql::Planning::default() };
        let sql = SqlDatabase::new(engine.clone(), SqlSettings { planning, ..SqlSettings::default() });
        let db = Db { engine, sql };
        let mut writer = db.session();
        rows(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b < 100), c text NOT NULL, u int UNIQUE)")
            .await;
        let (failed, none, one) = (Err("40001".to_owned()), ok(&["INSERT 0 0"]), ok(&["INSERT 0 1"]));
        let (nothing, never) = ("DO NOTHING", "(a) DO UPDATE SET b = 1 WHERE t.b > 90");
        for (change, new, action, expected) in [
            ("INSERT INTO t VALUES (3, 30, 'x', 300)", "(3, 31, 'm', 301)", nothing, &failed),
            ("INSERT INTO t VALUES (3, 30, 'x', 300)", "(3, 31, 'm', 301)", never, &failed),
            ("INSERT INTO t VALUES (3, 30, 'x', 300)", "(1, 31, 'm', 301)", never, &none),
            ("INSERT INTO t VALUES (3, 30, 'x', 300)", "(1, 31, 'm', 301)", nothing, &none),
            ("UPDATE t SET b = 11 WHERE a = 1", "(3, 31, 'm', 301)", nothing, &one),
            ("UPDATE t SET b = 11 WHERE a = 1", "(1, 31, 'm', 301)", nothing, &failed),
            ("UPDATE t SET b = 11 WHERE a = 1", "(1, 31, 'm', 301)", never, &failed),
            ("UPDATE t SET b = 11 WHERE a = 2", "(1, 31, NULL, 301)", nothing, &Err("23502".to_owned())),
            ("UPDATE t SET b = 11 WHERE a = 2", "(1, 131, 'm', 301)", nothing, &Err("23514".to_owned())),
            ("UPDATE t SET b = 11 WHERE a = 2", "(1, 131, NULL, 301)", never, &Err("23502".to_owned())),
        ] {
            rows(&mut writer, "DELETE FROM t; INSERT INTO t VALUES (1, 10, 'one', 100), (2, 20, 'two', 200)").await;
            let mut session = db.session();
            rows(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").await;
            rows(&mut writer, change).await;
            let found = answer(&mut session, &format!("INSERT INTO t VALUES {new} ON CONFLICT {action}")).await;
            assert_eq!(&found, expected, "{change}; {new} {action}, directly: {direct}");
        }
    }
}

/// ON CONFLICT waits for whoever is changing the row in its way. Each answer is PostgreSQL 15's, from both
/// sources of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_wait_for_the_row_in_the_way() {
    let (nothing, update) = ("DO NOTHING", "(a) DO UPDATE SET b = t.b + 1 WHERE t.b > 50");
    let inserted = ok(&["1|31|m|301", "INSERT 0 1"]);
    for direct in [true, false] {
        let dir = tempfile::tempdir().expect("folder");
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        let planning = resurgam_sql::Planning { direct, ..resurgam_sql::Planning::default() };
        let sql = SqlDatabase::new(engine.clone(), SqlSettings { planning, ..SqlSettings::default() });
        let db = Db { engine, sql };
        let mut writer = db.session();
        rows(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int, c text, u int UNIQUE)").await;
        for (change, action, expected) in [
            ("UPDATE t SET a = 3 WHERE a = 1", nothing, &inserted),
            ("UPDATE t SET a = 3 WHERE a = 1", update, &inserted),
            ("DELETE FROM t WHERE a = 1", nothing, &inserted),
            ("DELETE FROM t WHERE a = 1", update, &inserted),
            ("UPDATE t SET b = 99 WHERE a = 1", update, &ok(&["1|100|one|100", "INSERT 0 1"])),
        ] {
            rows(&mut writer, "DELETE FROM t; INSERT INTO t VALUES (1, 10, 'one', 100), (2, 20, 'two', 200)").await;
            rows(&mut writer, &format!("BEGIN; {change}")).await;
            let insert = format!("INSERT INTO t VALUES (1, 31, 'm', 301) ON CONFLICT {action} RETURNING *");
            let running = waiting(&db, db.session(), &insert).await;
            rows(&mut writer, "COMMIT").await;
            assert_eq!(&running.await.expect("no panic").1, expected, "{change}; {action}, directly: {direct}");
        }
    }
}

/// What RETURNING and ON CONFLICT compute by a plan goes by the newest version of a row that was waited for; subqueries
/// see what was there when the statement began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_expressions_follow_a_row_that_they_waited_for() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut first = db.session();
    let tables = "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 10), (2, 20); \
                  CREATE TABLE u (id int PRIMARY KEY, t_id int, name text); INSERT INTO u VALUES (1, 1, 'p'), (2, 2, 'q')";
    rows(&mut first, tables).await;
    for (sql, wanted) in [
        (
            "UPDATE t SET a = a + 1 FROM u WHERE u.t_id = t.id RETURNING t.id, t.a, u.name, (SELECT sum(a) FROM t)",
            ok(&["1|101|p|30", "2|21|q|30", "UPDATE 2"]),
        ),
        (
            "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET a = t.a + (SELECT count(*) FROM u) \
             RETURNING *, (SELECT max(a) FROM t)",
            ok(&["1|102|20", "INSERT 0 1"]),
        ),
        (
            "DELETE FROM t USING u WHERE u.t_id = t.id AND u.id = 1 RETURNING t.a, u.name, (SELECT max(a) FROM t)",
            ok(&["100|p|20", "DELETE 1"]),
        ),
    ] {
        rows(&mut first, "BEGIN; UPDATE t SET a = 100 WHERE id = 1").await;
        let mut second = db.session();
        rows(&mut second, "BEGIN").await;
        let running = waiting(&db, second, sql).await;
        rows(&mut first, "COMMIT").await;
        let (mut second, found) = running.await.expect("ran");
        assert_eq!(found, wanted, "{sql}");
        rows(&mut second, "ROLLBACK").await;
        rows(&mut first, "UPDATE t SET a = 10 WHERE id = 1").await;
    }
}

/// A constant that its type refuses is pointed at, in the text that the user wrote, also where the plan is one that is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_constant_says_where_it_stands() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    rows(&mut session, "CREATE TABLE t (id int PRIMARY KEY, u uuid, d date, j json)").await;
    for (right, wrong) in [
        ("INSERT INTO t (id, u) VALUES (1, '00000000-0000-0000-0000-000000000001')", "'zé'"),
        ("UPDATE t SET d = '2020-01-01' WHERE id = 1", "'2020-01-41'"),
        ("SELECT 'é', id FROM t WHERE id = '7'", "'seven'"),
        ("DELETE FROM t WHERE j::text = 'x' AND d < '2020-01-01'", "'long ago'"),
        ("UPDATE t SET j = '{}' WHERE id = 9", "'{'"),
    ] {
        let from = right.rfind('\'').and_then(|end| right[..end].rfind('\'').map(|from| (from, end + 1)));
        let (from, end) = from.expect("a constant");
        let text = format!("{}{wrong}{}", &right[..from], &right[end..]);
        for sql in [&text, right, &text, &format!("  {text}")] {
            let blanks = (sql.len() - sql.trim_start().len()) as u32;
            let wanted = right[..from].chars().count() as u32 + 1 + blanks;
            match session.query(sql).await {
                Ok(_) => assert_eq!(sql, right),
                Err(error) => assert_eq!(error.into_fields().position, Some(wanted), "{sql}"),
            }
        }
    }
}

/// Constants are looked at before a sequence goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constant_that_does_not_fit_takes_no_number() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut session = db.session();
    rows(&mut session, "CREATE TABLE t (a text, b serial, c smallint, d serial)").await;
    for wrong in ["99999", "'99999'", "-99999"] {
        let sql = format!("INSERT INTO t (a, c) VALUES ('x', {wrong})");
        assert_eq!(answer(&mut session, &sql).await, Err("22003".to_owned()), "{sql}");
    }
    assert_eq!(rows(&mut session, "INSERT INTO t (a, c) VALUES ('x', 9) RETURNING b, c, d").await, ["1|9|1"]);
}

/// A row that one alternative of a condition with OR has found is asked the whole condition again, of its newest version, and one that
/// two have found is written once. PostgreSQL's answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alternatives_follow_a_row_that_they_waited_for() {
    let dir = tempfile::tempdir().expect("folder");
    let db = open(dir.path());
    let mut first = db.session();
    for sql in [
        "CREATE TABLE o (id int PRIMARY KEY, a int, b int, n int)",
        "CREATE INDEX ON o (a)",
        "CREATE INDEX ON o (b)",
        "INSERT INTO o SELECT x, x % 100, x % 150, 0 FROM generate_series(1, 600) g(x)",
    ] {
        rows(&mut first, sql).await;
    }
    let plan = rows(&mut first, "EXPLAIN UPDATE o SET n = n + 1 WHERE a = 1 OR b = 2").await;
    assert!(plan.iter().any(|line| line.contains("BitmapOr")), "{plan:?}");
    for (change, sql, wanted) in [
        // It was found by a, and is none any more.
        ("UPDATE o SET a = 50 WHERE id = 101", "UPDATE o SET n = n + 1 WHERE a = 1 OR b = 2 RETURNING id", 9),
        // Nor by a, but by b.
        ("UPDATE o SET a = 50, b = 2 WHERE id = 101", "UPDATE o SET n = n + 1 WHERE a = 1 OR b = 2 RETURNING id", 10),
        // By both.
        ("UPDATE o SET b = 2 WHERE id = 101", "UPDATE o SET n = n + 1 WHERE a = 1 OR b = 2 RETURNING id", 10),
        ("UPDATE o SET a = 50 WHERE id = 101", "DELETE FROM o WHERE a = 1 OR b = 2 RETURNING id", 9),
        ("DELETE FROM o WHERE id = 101", "DELETE FROM o WHERE a = 1 OR b = 2 RETURNING id", 9),
        ("UPDATE o SET a = 50 WHERE id = 101", "SELECT id FROM o WHERE a = 1 OR b = 2 FOR UPDATE", 9),
        ("UPDATE o SET n = 7 WHERE id = 101", "SELECT id FROM o WHERE a = 1 OR b = 2 FOR UPDATE", 10),
    ] {
        rows(&mut first, "BEGIN").await;
        rows(&mut first, change).await;
        let mut second = db.session();
        rows(&mut second, "BEGIN").await;
        let running = waiting(&db, second, sql).await;
        rows(&mut first, "COMMIT").await;
        let (mut second, answer) = running.await.expect("it ran");
        let mut found = answer.unwrap_or_else(|state| panic!("{sql}: {state}"));
        found.pop();
        let all = found.len();
        found.sort();
        found.dedup();
        assert_eq!((found.len(), all), (wanted, wanted), "{change}: {sql}: {found:?}");
        assert_eq!(found.contains(&"101".to_owned()), wanted == 10, "{change}: {sql}");
        rows(&mut second, "ROLLBACK").await;
        for sql in ["DELETE FROM o WHERE id = 101", "INSERT INTO o VALUES (101, 1, 101, 0)"] {
            rows(&mut first, sql).await;
        }
    }
}
