//! Extensions over a crash, and between sessions.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Db, ok};
use resurgam_engine::{Database, Options};
use resurgam_sql::Session;
use resurgam_vfs::{SimVfs, Vfs};

fn open(vfs: &SimVfs, accelerated: bool) -> Db {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options { accelerated_database_recovery: accelerated, background: false, ..Options::default() };
    Db::of(Database::open_with(shared, Path::new("/db"), options, |_| {}).expect("open"))
}

async fn state(session: &mut Session, sql: &str) -> String {
    session.query(sql).await.map_or_else(|error| error.sqlstate.clone(), |_| "done".to_owned())
}

const SHOWN: &str = "SELECT e.extname, n.nspname, e.extversion, e.extowner::regrole, obj_description(e.oid, 'pg_extension') \
     FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace ORDER BY 1";

/// What is committed is there after a crash, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn extensions_survive_a_crash() {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(41);
        let db = open(&vfs, accelerated);
        let mut main = db.session();
        for sql in [
            "CREATE SCHEMA s",
            "CREATE ROLE a",
            "CREATE EXTENSION pgcrypto SCHEMA s",
            "CREATE EXTENSION \"uuid-ossp\"",
            "COMMENT ON EXTENSION pgcrypto IS 'ours'",
            "CREATE TABLE t (id uuid DEFAULT uuid_generate_v4(), d bytea DEFAULT s.digest('a', 'md5'))",
        ] {
            ok(&mut main, sql).await;
        }
        let before = ok(&mut main, SHOWN).await;
        assert_eq!(
            before,
            [
                "pgcrypto|s|1.3|postgres|ours",
                "uuid-ossp|public|1.1|postgres|generate universally unique identifiers (UUIDs)"
            ]
        );
        let mut other = db.session();
        for sql in ["BEGIN", "DROP EXTENSION pgcrypto CASCADE", "COMMENT ON EXTENSION \"uuid-ossp\" IS NULL"] {
            ok(&mut other, sql).await;
        }
        // What the crash cuts off is in the log.
        ok(&mut main, "CREATE TABLE beside (x int)").await;
        let db = open(&vfs.crash_clone(7), accelerated);
        let mut main = db.session();
        assert_eq!(ok(&mut main, SHOWN).await, before, "accelerated {accelerated}");
        ok(&mut main, "INSERT INTO t DEFAULT VALUES").await;
        assert_eq!(ok(&mut main, "SELECT d FROM t").await, ["\\x0cc175b9c0f1b6a831c399e269772661"]);
        assert_eq!(state(&mut main, "DROP EXTENSION pgcrypto").await, "2BP01");
        assert_eq!(db.engine.verify().expect("verify"), Vec::<String>::new());
    }
}

/// Who makes something that calls a function and who drops the extension find each other, whoever comes first; and kept plans
/// notice.
#[tokio::test(flavor = "multi_thread")]
async fn who_drops_one_finds_who_uses_it() {
    let db = open(&SimVfs::new(42), true);
    let (mut a, mut b) = (db.session(), db.session());
    ok(&mut a, "CREATE EXTENSION pgcrypto").await;
    assert_eq!(ok(&mut b, "SELECT digest('a', 'md5')").await, ["\\x0cc175b9c0f1b6a831c399e269772661"]);
    ok(&mut a, "BEGIN").await;
    ok(&mut a, "CREATE TABLE t (x bytea DEFAULT digest('a', 'md5'))").await;
    let dropping = tokio::spawn(async move {
        let ended = state(&mut b, "DROP EXTENSION pgcrypto").await;
        (b, ended)
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!dropping.is_finished(), "it waits for who makes something");
    ok(&mut a, "COMMIT").await;
    let (mut b, ended) = dropping.await.expect("it ends");
    assert_eq!(ended, "2BP01");

    // The other way round.
    ok(&mut a, "DROP TABLE t").await;
    ok(&mut b, "BEGIN").await;
    ok(&mut b, "DROP EXTENSION pgcrypto").await;
    let making = tokio::spawn(async move {
        let ended = state(&mut a, "CREATE TABLE t (x bytea DEFAULT digest('a', 'md5'))").await;
        (a, ended)
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!making.is_finished(), "it waits for who drops the extension");
    ok(&mut b, "COMMIT").await;
    let (mut a, ended) = making.await.expect("it ends");
    assert_ne!(ended, "done");
    assert_eq!(state(&mut a, "SELECT digest('a', 'md5')").await, "42883");
    assert_eq!(state(&mut a, "SELECT * FROM t").await, "42P01");
}

/// The type of `citext`, columns of it and their keys are there after a crash; who makes a column of it and who drops the
/// extension find each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_type_of_an_extension_survives_a_crash() {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(47);
        let db = open(&vfs, accelerated);
        let mut main = db.session();
        for sql in [
            "CREATE EXTENSION citext",
            "CREATE DOMAIN mail AS citext CHECK (VALUE LIKE '%@%')",
            "CREATE TABLE t (email mail PRIMARY KEY, name citext DEFAULT 'Nobody', tail citext)",
            "CREATE INDEX t_name ON t (name)",
            "INSERT INTO t SELECT 'User' || n || '@X.org', 'Name' || n % 7, repeat('Long ', 2000) FROM generate_series(1, 50) AS s(n)",
        ] {
            ok(&mut main, sql).await;
        }
        let mut other = db.session();
        for sql in ["BEGIN", "UPDATE t SET email = lower(email), name = 'Other'", "DROP EXTENSION citext"] {
            let _ = state(&mut other, sql).await;
        }
        ok(&mut main, "CREATE TABLE beside (x int)").await;
        let db = open(&vfs.crash_clone(11), accelerated);
        let mut main = db.session();
        assert_eq!(ok(&mut main, "SELECT email, name FROM t WHERE email = 'USER7@x.ORG'").await, ["User7@X.org|Name0"]);
        assert_eq!(ok(&mut main, "SELECT count(*), count(DISTINCT tail) FROM t WHERE name = 'nAME3'").await, ["7|1"]);
        assert_eq!(
            ok(&mut main, "SELECT count(*) FROM t WHERE tail LIKE 'LONG%' AND length(tail) = 10000").await,
            ["50"]
        );
        assert_eq!(state(&mut main, "INSERT INTO t VALUES ('USER50@x.org')").await, "23505");
        assert_eq!(state(&mut main, "INSERT INTO t VALUES ('nothing')").await, "23514");
        assert_eq!(ok(&mut main, "INSERT INTO t VALUES ('New@x') RETURNING name").await, ["Nobody"]);
        assert_eq!(db.engine.verify().expect("verify"), Vec::<String>::new());
    }
    let db = open(&SimVfs::new(48), true);
    let (mut a, mut b) = (db.session(), db.session());
    for sql in ["CREATE EXTENSION citext", "BEGIN", "CREATE TABLE t (x citext)"] {
        ok(&mut a, sql).await;
    }
    let dropping = tokio::spawn(async move { state(&mut b, "DROP EXTENSION citext").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!dropping.is_finished(), "it waits for who makes something");
    ok(&mut a, "COMMIT").await;
    assert_eq!(dropping.await.expect("it ends"), "2BP01");
}

/// What `pg_stat_statements` shows, who sees it, and what becomes of its views.
#[tokio::test(flavor = "multi_thread")]
async fn statements_are_counted() {
    let db = open(&SimVfs::new(44), true);
    let (mut main, mut other) = (db.session(), db.session());
    assert_eq!(state(&mut main, "SELECT * FROM pg_stat_statements").await, "42P01");
    for sql in [
        "CREATE ROLE a",
        "CREATE SCHEMA s",
        "CREATE TABLE t (x int PRIMARY KEY, y text)",
        "CREATE EXTENSION pg_stat_statements SCHEMA s",
        "SET search_path = public, s",
        "SELECT pg_stat_statements_reset()",
        "INSERT INTO t SELECT n, 'n' || n FROM generate_series(1, 100) AS s(n)",
    ] {
        ok(&mut main, sql).await;
    }
    for n in 1..=5 {
        ok(&mut main, &format!("SELECT y FROM t WHERE x = {n}")).await;
        ok(&mut main, &format!("SELECT x FROM t WHERE x <= {n} AND y <> 'q' ORDER BY y")).await;
        ok(&mut other, &format!("UPDATE t SET y = 'z{n}' WHERE x = {n}")).await;
    }
    assert_eq!(state(&mut main, "SELECT 1 / (x - x) FROM t").await, "22012");
    let counted = "SELECT query, calls, rows FROM pg_stat_statements WHERE query LIKE '% t %' AND query NOT LIKE '%pg_stat%' \
         ORDER BY query";
    let before = ok(&mut main, counted).await;
    assert_eq!(
        before,
        [
            "INSERT INTO t SELECT n, $1 || n FROM generate_series($2, $3) AS s(n)|1|100",
            "SELECT x FROM t WHERE x <= $1 AND y <> $2 ORDER BY y|5|15",
            "SELECT y FROM t WHERE x = $1|5|5",
            "UPDATE t SET y = $1 WHERE x = $2|5|5",
        ]
    );
    // Plans are made anew, the counters stay.
    ok(&mut main, "ALTER TABLE t ADD COLUMN z int").await;
    ok(&mut main, "SELECT y FROM t WHERE x = 1").await;
    let of_one = "FROM pg_stat_statements WHERE query = 'SELECT y FROM t WHERE x = $1'";
    assert_eq!(ok(&mut main, &format!("SELECT calls {of_one}")).await, ["6"]);
    let sane = "total_exec_time >= max_exec_time AND max_exec_time >= mean_exec_time AND mean_exec_time >= min_exec_time \
        AND stddev_exec_time >= 0 AND userid = 'postgres'::regrole AND toplevel AND plans = 0 \
        AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(ok(&mut main, &format!("SELECT {sane} {of_one}")).await, ["t"]);
    // Others see that there is something.
    ok(&mut main, "GRANT USAGE ON SCHEMA s TO a").await;
    ok(&mut main, "SET ROLE a").await;
    let hidden = "SELECT DISTINCT query, queryid FROM s.pg_stat_statements WHERE userid = 'postgres'::regrole";
    assert_eq!(ok(&mut main, hidden).await, ["<insufficient privilege>|NULL"]);
    assert_eq!(state(&mut main, "SELECT s.pg_stat_statements_reset()").await, "42501");
    assert_eq!(state(&mut main, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await, "done");
    ok(&mut main, "RESET ROLE").await;
    let id = ok(&mut main, &format!("SELECT queryid {of_one}")).await;
    ok(&mut main, &format!("SELECT pg_stat_statements_reset(0, 0, '{}'::bigint)", id[0])).await;
    assert_eq!(ok(&mut main, &format!("SELECT count(*) {of_one}")).await, ["0"]);
    assert_eq!(ok(&mut main, counted).await, [&before[..2], &before[3..]].concat());
    ok(&mut main, "SELECT pg_stat_statements_reset()").await;
    assert_eq!(ok(&mut main, counted).await, Vec::<String>::new());
    assert_eq!(
        ok(&mut main, "SELECT dealloc, stats_reset > now() - interval '1 day' FROM pg_stat_statements_info").await,
        ["0|t"]
    );
    // They are the extension's.
    let parts = "SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass \
         WHERE d.deptype = 'e' ORDER BY 1";
    assert_eq!(ok(&mut main, parts).await, ["pg_stat_statements", "pg_stat_statements_info"]);
    assert_eq!(state(&mut main, "DROP VIEW pg_stat_statements").await, "2BP01");
    assert_eq!(state(&mut main, "ALTER VIEW pg_stat_statements RENAME TO p").await, "0A000");
    assert_eq!(state(&mut main, "ALTER EXTENSION pg_stat_statements SET SCHEMA public").await, "0A000");
    ok(&mut main, "CREATE VIEW v AS SELECT query FROM pg_stat_statements").await;
    assert_eq!(state(&mut main, "DROP EXTENSION pg_stat_statements").await, "2BP01");
    ok(&mut main, "DROP EXTENSION pg_stat_statements CASCADE").await;
    assert_eq!(state(&mut main, "SELECT * FROM v").await, "42P01");
    assert_eq!(state(&mut main, "SELECT pg_stat_statements_reset()").await, "42883");
    ok(&mut main, "CREATE EXTENSION pg_stat_statements SCHEMA s").await;
    ok(&mut main, "DROP SCHEMA s CASCADE").await;
    assert_eq!(ok(&mut main, "SELECT count(*) FROM pg_extension").await, ["0"]);
}
