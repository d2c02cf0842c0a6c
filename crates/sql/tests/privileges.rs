//! Roles over a crash, between sessions, and what privileges cost a kept plan.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};
use resurgam_vfs::{SimVfs, Vfs};

fn open(vfs: &SimVfs, accelerated: bool) -> Arc<SqlDatabase> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options { accelerated_database_recovery: accelerated, background: false, ..Options::default() };
    let engine = Database::open_with(shared, Path::new("/db"), options, |_| {}).expect("open");
    SqlDatabase::new(engine, SqlSettings::default())
}

fn session(database: &Arc<SqlDatabase>, user: &str) -> Session {
    database.session(SessionOptions { user: user.to_owned(), ..SessionOptions::default() }).expect("session")
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let result = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown =
        |row: &Vec<Option<String>>| row.iter().map(|f| f.as_deref().unwrap_or("∅")).collect::<Vec<_>>().join("|");
    result.rows.iter().map(shown).collect()
}

async fn code(session: &mut Session, sql: &str) -> String {
    session.query(sql).await.map_or_else(|error| error.sqlstate.clone(), |_| "done".to_owned())
}

const SHOWN: &str = "SELECT rolname, rolcanlogin, rolconfig, relname, relacl, pg_get_userbyid(relowner) FROM pg_roles, pg_class WHERE relname IN ('t', 'v') AND rolname IN ('a', 'b', 'c') ORDER BY 1, 4";

/// What is committed is there after a crash, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn roles_and_rights_survive_a_crash() {
    for accelerated in [true, false] {
        let vfs = SimVfs::new(31);
        let database = open(&vfs, accelerated);
        let mut main = session(&database, "postgres");
        for sql in [
            "CREATE ROLE a LOGIN",
            "CREATE ROLE b IN ROLE a",
            "CREATE TABLE t (x int PRIMARY KEY, y int)",
            "CREATE VIEW v AS SELECT x FROM t",
            "GRANT SELECT, INSERT (y) ON t TO a WITH GRANT OPTION",
            "ALTER VIEW v OWNER TO b",
            "ALTER ROLE a SET work_mem = '1MB'",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO b",
            "GRANT CREATE ON SCHEMA public TO a",
        ] {
            assert_eq!(code(&mut main, sql).await, "done", "{sql}");
        }
        let before = rows(&mut main, SHOWN).await;
        assert_eq!(before.len(), 4);
        // Cut off.
        rows(&mut main, "BEGIN").await;
        for sql in [
            "CREATE ROLE c",
            "GRANT b TO c",
            "REVOKE SELECT ON t FROM a CASCADE",
            "ALTER TABLE t OWNER TO b",
            "ALTER ROLE a NOLOGIN RESET",
            "DROP OWNED BY b CASCADE",
        ] {
            let _ = code(&mut main, sql).await;
            if main.transaction_status() == resurgam_sql::wire::TransactionStatus::Failed {
                break;
            }
        }
        // Its log is durable with that of somebody else.
        let mut other = session(&database, "postgres");
        assert_eq!(code(&mut other, "CREATE TABLE other (x int)").await, "done");
        let vfs = vfs.crash_clone(7);
        let database = open(&vfs, accelerated);
        let mut main = session(&database, "postgres");
        assert_eq!(rows(&mut main, SHOWN).await, before);
        assert_eq!(rows(&mut main, "SELECT count(*) FROM pg_default_acl").await, ["1"]);
        let mut a = session(&database, "a");
        assert_eq!(rows(&mut a, "SHOW work_mem").await, ["1MB"]);
        assert_eq!(rows(&mut a, "SELECT count(*) FROM t").await, ["0"]);
        assert_eq!(code(&mut a, "UPDATE t SET y = 1").await, "42501");
        assert_eq!(code(&mut a, "CREATE TABLE made (x int)").await, "done");
        assert_eq!(database.engine().verify().expect("verify"), Vec::<String>::new());
    }
}

/// What one session takes away another one no longer has, with a statement that was planned and allowed before.
#[tokio::test(flavor = "multi_thread")]
async fn kept_plans_are_asked_again_when_rights_change() {
    let database = open(&SimVfs::new(32), true);
    let mut main = session(&database, "postgres");
    for sql in ["CREATE ROLE a LOGIN", "CREATE ROLE b LOGIN", "CREATE ROLE g", "CREATE TABLE t (x int PRIMARY KEY)"] {
        assert_eq!(code(&mut main, sql).await, "done");
    }
    let (mut a, mut b) = (session(&database, "a"), session(&database, "b"));
    let read = "SELECT x FROM t WHERE x = 1";
    assert_eq!(code(&mut a, read).await, "42501");
    for (change, of_a, of_b) in [
        ("GRANT SELECT ON t TO a", "done", "42501"),
        ("GRANT g TO b", "done", "42501"),
        ("GRANT SELECT ON t TO g", "done", "done"),
        ("REVOKE SELECT ON t FROM a", "42501", "done"),
        ("REVOKE g FROM b", "42501", "42501"),
        ("ALTER ROLE b SUPERUSER", "42501", "done"),
        ("ALTER ROLE b NOSUPERUSER", "42501", "42501"),
        ("ALTER TABLE t OWNER TO b", "42501", "done"),
        ("REVOKE USAGE ON SCHEMA public FROM PUBLIC", "42P01", "42P01"),
    ] {
        assert_eq!(code(&mut main, change).await, "done", "{change}");
        for _ in 0..2 {
            assert_eq!(code(&mut main, read).await, "done", "{change}");
            assert_eq!(code(&mut a, read).await, of_a, "{change}");
            assert_eq!(code(&mut b, read).await, of_b, "{change}");
        }
    }
    // A prepared statement is asked when it runs, as whoever runs it.
    assert_eq!(code(&mut main, "PREPARE p AS SELECT x FROM t").await, "done");
    assert_eq!(code(&mut main, "SET ROLE a").await, "done");
    assert_eq!(code(&mut main, "EXECUTE p").await, "42P01");
    assert_eq!(code(&mut main, "RESET ROLE").await, "done");
    assert_eq!(code(&mut main, "EXECUTE p").await, "done");
    // Roles are read once for a version of the catalog, not once for a statement.
    let before = database.rights_loaded();
    for _ in 0..20 {
        assert_eq!(code(&mut b, "SELECT 1").await, "done");
    }
    assert_eq!(database.rights_loaded(), before);
}

/// Who waits for a role that is being dropped finds it gone; who was given something keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_not_dropped_while_it_is_given_something() {
    let database = open(&SimVfs::new(33), true);
    let (mut one, mut two) = (session(&database, "postgres"), session(&database, "postgres"));
    for sql in ["CREATE ROLE a", "CREATE TABLE t (x int)", "BEGIN", "GRANT SELECT ON t TO a"] {
        assert_eq!(code(&mut one, sql).await, "done");
    }
    assert_eq!(code(&mut two, "SET lock_timeout = '100ms'").await, "done");
    assert_eq!(code(&mut two, "DROP ROLE a").await, "55P03");
    assert_eq!(code(&mut one, "COMMIT").await, "done");
    assert_eq!(code(&mut two, "DROP ROLE a").await, "2BP01");
    assert_eq!(code(&mut two, "DROP OWNED BY a").await, "done");
    assert_eq!(code(&mut two, "BEGIN").await, "done");
    assert_eq!(code(&mut two, "DROP ROLE a").await, "done");
    assert_eq!(code(&mut one, "SET lock_timeout = '100ms'").await, "done");
    assert_eq!(code(&mut one, "GRANT SELECT ON t TO a").await, "55P03");
    assert_eq!(code(&mut two, "COMMIT").await, "done");
    assert_eq!(code(&mut one, "GRANT SELECT ON t TO a").await, "42704");
}
