//! Functions of users over a crash, between sessions, in kept plans, and with rights.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Db, ok};
use resurgam_engine::{Database, Options};
use resurgam_sql::Session;
use resurgam_sql::wire::{Execution, Format};
use resurgam_vfs::{SimVfs, Vfs};

fn open(vfs: &SimVfs, accelerated: bool) -> Db {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options { accelerated_database_recovery: accelerated, background: false, ..Options::default() };
    Db::of(Database::open_with(shared, Path::new("/db"), options, |_| {}).expect("open"))
}

async fn state(session: &mut Session, sql: &str) -> String {
    session.query(sql).await.map_or_else(|error| error.sqlstate.clone(), |_| "done".to_owned())
}

const SHOWN: &str = "SELECT p.oid::regprocedure, p.provolatile, p.proowner::regrole, obj_description(p.oid, 'pg_proc'), \
     pg_get_function_result(p.oid) FROM pg_proc p WHERE pronamespace IN ('public'::regnamespace, 's'::regnamespace) ORDER BY 1";

/// What is committed is there after a crash, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn functions_survive_a_crash() {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(51);
        let db = open(&vfs, accelerated);
        let mut main = db.session();
        for sql in [
            "CREATE SCHEMA s",
            "CREATE TABLE t (id int PRIMARY KEY, v int)",
            "INSERT INTO t VALUES (1, 10), (2, 20)",
            "CREATE FUNCTION v_of(want int) RETURNS int LANGUAGE sql STABLE AS 'SELECT v FROM t WHERE id = want'",
            "CREATE FUNCTION s.plus(a int, b int DEFAULT 1) RETURNS int IMMUTABLE RETURN a + b",
            "CREATE FUNCTION all_of() RETURNS TABLE (id int, v int) LANGUAGE sql AS 'SELECT * FROM t ORDER BY id'",
            "COMMENT ON FUNCTION v_of(int) IS 'ours'",
            "CREATE VIEW w AS SELECT id, s.plus(v) AS p FROM t",
            "CREATE TABLE d (x int DEFAULT s.plus(1), y int GENERATED ALWAYS AS (s.plus(x, 10)) STORED)",
        ] {
            ok(&mut main, sql).await;
        }
        let before = ok(&mut main, SHOWN).await;
        assert_eq!(before.len(), 3);
        let mut other = db.session();
        for sql in [
            "BEGIN",
            "DROP FUNCTION s.plus(int, int) CASCADE",
            "CREATE OR REPLACE FUNCTION v_of(want int) RETURNS int LANGUAGE sql AS 'SELECT 0'",
            "CREATE FUNCTION gone() RETURNS int LANGUAGE sql AS 'SELECT 0'",
        ] {
            ok(&mut other, sql).await;
        }
        // What the crash cuts off is in the log.
        ok(&mut main, "CREATE TABLE beside (x int)").await;
        let db = open(&vfs.crash_clone(7), accelerated);
        let mut main = db.session();
        assert_eq!(ok(&mut main, SHOWN).await, before, "accelerated {accelerated}");
        assert_eq!(ok(&mut main, "SELECT v_of(2), s.plus(5)").await, ["20|6"]);
        assert_eq!(ok(&mut main, "SELECT * FROM w ORDER BY id").await, ["1|11", "2|21"]);
        ok(&mut main, "INSERT INTO d DEFAULT VALUES").await;
        assert_eq!(ok(&mut main, "SELECT * FROM d").await, ["2|12"]);
        assert_eq!(state(&mut main, "DROP FUNCTION s.plus(int, int)").await, "2BP01");
        assert_eq!(state(&mut main, "SELECT gone()").await, "42883");
        assert_eq!(db.engine.verify().expect("verify"), Vec::<String>::new());
    }
}

/// Who makes something that calls a function and who drops it find each other, whoever comes first.
#[tokio::test(flavor = "multi_thread")]
async fn who_drops_one_finds_who_calls_it() {
    let db = open(&SimVfs::new(52), true);
    let (mut a, mut b) = (db.session(), db.session());
    ok(&mut a, "CREATE FUNCTION f() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'").await;
    ok(&mut a, "BEGIN").await;
    ok(&mut a, "CREATE VIEW v AS SELECT f() AS x").await;
    let dropping = tokio::spawn(async move {
        let ended = state(&mut b, "DROP FUNCTION f()").await;
        (b, ended)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!dropping.is_finished());
    ok(&mut a, "COMMIT").await;
    let (mut b, ended) = dropping.await.expect("no panic");
    assert_eq!(ended, "2BP01");
    ok(&mut a, "BEGIN").await;
    ok(&mut a, "DROP FUNCTION f() CASCADE").await;
    let making = tokio::spawn(async move {
        let ended = state(&mut b, "CREATE VIEW v AS SELECT f() AS x").await;
        (b, ended)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    ok(&mut a, "COMMIT").await;
    let (mut b, ended) = making.await.expect("no panic");
    assert_eq!(ended, "42883");
    // Two who make the same one.
    ok(&mut a, "BEGIN").await;
    ok(&mut a, "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1'").await;
    let making = tokio::spawn(async move {
        let ended = state(&mut b, "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 2'").await;
        (b, ended)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    ok(&mut a, "COMMIT").await;
    let (_, ended) = making.await.expect("no panic");
    assert_eq!(ended, "42723");
    assert_eq!(ok(&mut a, "SELECT g()").await, ["1"]);
}

/// Kept plans notice when a function of theirs is replaced or dropped, and prepared statements too.
#[tokio::test(flavor = "multi_thread")]
async fn kept_plans_notice_another_body() {
    let db = open(&SimVfs::new(53), true);
    let (mut a, mut b) = (db.session(), db.session());
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    ok(&mut a, "INSERT INTO t VALUES (1, 10)").await;
    ok(&mut a, "CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql AS 'SELECT v + x FROM t WHERE id = 1'").await;
    ok(&mut b, "PREPARE p(int) AS SELECT f($1)").await;
    for _ in 0..3 {
        assert_eq!(ok(&mut b, "SELECT f(1)").await, ["11"]);
        assert_eq!(ok(&mut b, "EXECUTE p(2)").await, ["12"]);
    }
    ok(&mut a, "CREATE OR REPLACE FUNCTION f(x int) RETURNS int LANGUAGE sql AS 'SELECT v * x FROM t WHERE id = 1'")
        .await;
    assert_eq!(ok(&mut b, "SELECT f(3)").await, ["30"]);
    assert_eq!(ok(&mut b, "EXECUTE p(4)").await, ["40"]);
    ok(&mut a, "DROP FUNCTION f(int)").await;
    assert_eq!(state(&mut b, "SELECT f(1)").await, "42883");
    assert_eq!(state(&mut b, "EXECUTE p(1)").await, "42883");
    // By the transaction's own changes, until they are taken back.
    ok(&mut b, "CREATE FUNCTION own() RETURNS int LANGUAGE sql AS 'SELECT 1'").await;
    for sql in ["BEGIN", "CREATE OR REPLACE FUNCTION own() RETURNS int LANGUAGE sql AS 'SELECT 2'"] {
        ok(&mut b, sql).await;
    }
    assert_eq!(ok(&mut b, "SELECT own()").await, ["2"]);
    assert_eq!(ok(&mut a, "SELECT own()").await, ["1"]);
    ok(&mut b, "ROLLBACK").await;
    assert_eq!(ok(&mut b, "SELECT own()").await, ["1"]);
}

/// A body is read with the rights of who calls, and functions are changed by who owns them.
#[tokio::test(flavor = "multi_thread")]
async fn rights() {
    let db = open(&SimVfs::new(54), true);
    let mut main = db.session();
    for sql in [
        "CREATE ROLE alice",
        "CREATE TABLE secret (x int)",
        "INSERT INTO secret VALUES (7)",
        "CREATE FUNCTION peek() RETURNS int LANGUAGE sql AS 'SELECT x FROM secret'",
        "CREATE FUNCTION put(v int) RETURNS void LANGUAGE sql AS 'INSERT INTO secret VALUES (v)'",
        "CREATE VIEW v AS SELECT peek() AS x",
        "GRANT SELECT ON v TO alice",
        "GRANT CREATE ON SCHEMA public TO alice",
        "SET ROLE alice",
    ] {
        ok(&mut main, sql).await;
    }
    assert_eq!(state(&mut main, "SELECT peek()").await, "42501");
    assert_eq!(state(&mut main, "SELECT put(1)").await, "42501");
    // As in PostgreSQL, also within a view of somebody else.
    assert_eq!(state(&mut main, "SELECT * FROM v").await, "42501");
    assert_eq!(state(&mut main, "DROP FUNCTION peek()").await, "42501");
    assert_eq!(state(&mut main, "ALTER FUNCTION peek() STABLE").await, "42501");
    let replaced = "CREATE OR REPLACE FUNCTION peek() RETURNS int LANGUAGE sql AS 'SELECT 1'";
    assert_eq!(state(&mut main, replaced).await, "42501");
    ok(&mut main, "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'").await;
    for sql in ["RESET ROLE", "GRANT SELECT ON secret TO alice", "SET ROLE alice"] {
        ok(&mut main, sql).await;
    }
    assert_eq!(ok(&mut main, "SELECT peek(), (SELECT x FROM v)").await, ["7|7"]);
    ok(&mut main, "RESET ROLE").await;
    assert_eq!(state(&mut main, "DROP ROLE alice").await, "2BP01");
    ok(&mut main, "ALTER FUNCTION mine() OWNER TO postgres").await;
    let owner = "SELECT proowner::regrole FROM pg_proc WHERE proname = 'mine'";
    assert_eq!(ok(&mut main, owner).await, ["postgres"]);
}

/// A function that calls itself, or calls others without end, is an error of its statement.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_refused() {
    let db = open(&SimVfs::new(55), true);
    let mut main = db.session();
    let body = "SELECT CASE WHEN n <= 1 THEN 1 ELSE n * fact(n - 1) END";
    ok(&mut main, &format!("CREATE FUNCTION fact(n int) RETURNS int LANGUAGE sql AS '{body}'")).await;
    assert_eq!(state(&mut main, "SELECT fact(3)").await, "54001");
    ok(&mut main, "CREATE FUNCTION a(n int) RETURNS int LANGUAGE sql AS 'SELECT 1'").await;
    ok(&mut main, "CREATE FUNCTION b(n int) RETURNS int LANGUAGE sql AS 'SELECT a(n) + a(n + 1)'").await;
    ok(&mut main, "CREATE OR REPLACE FUNCTION a(n int) RETURNS int LANGUAGE sql AS 'SELECT b(n) + (SELECT b(n + 1))'")
        .await;
    assert_eq!(state(&mut main, "SELECT a(1)").await, "54001");
    ok(&mut main, "CREATE FUNCTION r() RETURNS SETOF int LANGUAGE sql AS 'SELECT 1'").await;
    ok(&mut main, "CREATE OR REPLACE FUNCTION r() RETURNS SETOF int LANGUAGE sql AS 'SELECT * FROM r()'").await;
    assert_eq!(state(&mut main, "SELECT * FROM r()").await, "54001");
    // Each doubles what it is given.
    ok(&mut main, "CREATE FUNCTION d0(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x'").await;
    for n in 1..25 {
        let sql = format!(
            "CREATE FUNCTION d{n}(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT d{m}(x) + d{m}(x)'",
            m = n - 1
        );
        ok(&mut main, &sql).await;
    }
    assert_eq!(ok(&mut main, "SELECT d5(1)").await, ["32"]);
    let ended = state(&mut main, "SELECT d24(1)").await;
    assert!(ended == "54001" || ended == "done", "{ended}");
    assert_eq!(ok(&mut main, "SELECT 1").await, ["1"]);
}

/// What a statement writes is not read by a volatile function of it as PostgreSQL would.
#[tokio::test(flavor = "multi_thread")]
async fn volatile_readers_of_what_is_written_are_refused() {
    let db = open(&SimVfs::new(56), true);
    let mut main = db.session();
    ok(&mut main, "CREATE TABLE t (x bigint)").await;
    ok(&mut main, "CREATE FUNCTION n() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'").await;
    assert_eq!(state(&mut main, "INSERT INTO t SELECT n() FROM generate_series(1, 3)").await, "0A000");
    assert_eq!(state(&mut main, "WITH w AS (INSERT INTO t VALUES (1) RETURNING x) SELECT n() FROM w").await, "0A000");
    ok(&mut main, "ALTER FUNCTION n() STABLE").await;
    ok(&mut main, "INSERT INTO t SELECT n() FROM generate_series(1, 3)").await;
    assert_eq!(ok(&mut main, "SELECT x FROM t").await, ["0", "0", "0"]);
}

/// JDBC's `{? = call f(?)}` sends a parameter of type `void` for the result, which is no argument.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_type_void_are_no_arguments() {
    const VOID: u32 = 2278;
    let db = open(&SimVfs::new(57), true);
    let mut main = db.session();
    ok(&mut main, "CREATE FUNCTION twice(a int) RETURNS int LANGUAGE sql AS 'SELECT a * 2'").await;
    ok(&mut main, "CREATE TABLE t (x int)").await;
    ok(&mut main, "CREATE FUNCTION put(a int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (a) RETURNING x + 1'")
        .await;
    for (sql, types, expected) in [
        ("SELECT * FROM twice($1, $2) AS result", [VOID, 23], Ok("10")),
        ("SELECT twice($1, $2)", [VOID, 23], Ok("10")),
        ("SELECT * FROM put($1, $2) AS result", [VOID, 23], Ok("6")),
        ("SELECT chr($2, $1)", [VOID, 23], Ok("\u{5}")),
        ("SELECT twice($1, $2)", [25, 23], Err("42883")),
        ("SELECT twice(a => $1)", [VOID, 23], Err("42883")),
    ] {
        let found = match main.parse("", sql, &types).await {
            Ok(()) => {
                let values = vec![None, Some(Bytes::from_static(b"5"))];
                main.bind("", "", values, &[Format::Text], &[]).await.expect(sql);
                let Execution::Rows { first, .. } = main.execute("", 0).await.expect(sql) else {
                    panic!("{sql}: no rows")
                };
                let chunk = first.unwrap_or_default();
                // Of one column, behind its length.
                Ok(chunk
                    .rows()
                    .map(|row| String::from_utf8_lossy(&row[4..]).into_owned())
                    .collect::<Vec<_>>()
                    .join(","))
            }
            Err(error) => {
                main.error_occurred();
                Err(error.sqlstate.to_string())
            }
        };
        main.sync().await.expect(sql);
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{sql}");
    }
}
