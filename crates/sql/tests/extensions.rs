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
