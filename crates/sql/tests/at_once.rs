//! What is answered at once is answered as by the ordinary way, and only that is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use resurgam_engine::{Database, Options};
use resurgam_sql::wire::{Execution, Format};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

type Shared = Arc<SqlDatabase>;

async fn database() -> (tempfile::TempDir, Shared, Session) {
    let dir = tempfile::tempdir().expect("folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let mut first = session(&database);
    for text in [
        "CREATE TABLE t (id int PRIMARY KEY, v int, w text, at timestamptz DEFAULT '2024-05-05 12:00+00')",
        "CREATE UNIQUE INDEX t_w ON t (w)",
        "INSERT INTO t VALUES (1, 10, 'one'), (2, NULL, 'two')",
    ] {
        first.query(text).await.expect(text);
    }
    (dir, database, first)
}

fn session(database: &Shared) -> Session {
    Arc::clone(database).session(SessionOptions::default()).expect("session")
}

/// Rows as text, an error as its SQLSTATE; whether they came at once.
async fn executed(session: &mut Session, portal: &str) -> (bool, String) {
    let (at_once, result) = match session.execute_at_once(portal) {
        Some(result) => (true, result),
        None => (false, session.execute(portal, 0).await),
    };
    let shown = match result {
        Ok(Execution::Rows { first, .. }) => {
            let chunk = first.unwrap_or_default();
            chunk.rows().map(|row| String::from_utf8_lossy(&row[4..]).into_owned()).collect::<Vec<_>>().join(",")
        }
        Ok(_) => "no rows".to_owned(),
        Err(error) => error.sqlstate.to_string(),
    };
    (at_once, shown)
}

async fn bound(session: &mut Session, name: &str, text: &str, value: &str) {
    session.parse(name, text, &[]).await.expect(text);
    again(session, name, value).await;
}

async fn again(session: &mut Session, name: &str, value: &str) {
    let value = Bytes::copy_from_slice(value.as_bytes());
    session.bind("", name, vec![Some(value)], &[Format::Text], &[]).await.expect("bind");
}

const BY_KEY: &str = "SELECT v FROM t WHERE id = $1";

#[tokio::test(flavor = "multi_thread")]
async fn a_row_by_its_key_comes_at_once_and_nothing_else_does() {
    let (_dir, _database, mut session) = database().await;
    bound(&mut session, "s", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "10".to_owned()));
    // Its rows have been given.
    assert_eq!(executed(&mut session, "").await, (false, String::new()));
    session.sync().await.expect("sync");
    for (value, rows) in [("2", ""), ("3", "")] {
        again(&mut session, "s", value).await;
        assert_eq!(executed(&mut session, "").await, (true, rows.to_owned()));
        session.sync().await.expect("sync");
    }
    bound(&mut session, "w", "SELECT id FROM t WHERE w = $1", "two").await;
    assert_eq!(executed(&mut session, "").await, (true, "2".to_owned()));
    session.sync().await.expect("sync");
    for text in [
        "SELECT v FROM t WHERE id = $1 AND v > 5",
        "SELECT v + 0 FROM t WHERE id = $1",
        "SELECT count(*) FROM t WHERE id = $1",
        "SELECT v FROM t WHERE id = $1 FOR UPDATE",
        "SELECT v FROM t WHERE id = $1 LIMIT 0",
        "SELECT v FROM t WHERE id <= $1 AND id > 0",
    ] {
        bound(&mut session, "", text, "1").await;
        assert!(!executed(&mut session, "").await.0, "{text}");
        session.sync().await.expect("sync");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_it_is_of_that_transaction() {
    let (_dir, database, mut session) = database().await;
    session.query("BEGIN").await.expect("begin");
    session.query("UPDATE t SET v = 11 WHERE id = 1").await.expect("update");
    bound(&mut session, "s", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, (false, "11".to_owned()));
    // Others see what is committed.
    let mut other = self::session(&database);
    bound(&mut other, "s", BY_KEY, "1").await;
    assert_eq!(executed(&mut other, "").await, (true, "10".to_owned()));
    other.sync().await.expect("sync");
    session.query("ROLLBACK").await.expect("rollback");
    // A failed one takes nothing but its end.
    session.query("BEGIN").await.expect("begin");
    session.query("SELECT 1 / 0").await.expect_err("division");
    session.parse("", BY_KEY, &[]).await.expect_err("aborted");
    assert_eq!(session.query("SELECT v FROM t WHERE id = 1").await.expect_err("aborted").sqlstate, "25P02");
    session.query("ROLLBACK").await.expect("rollback");
    // One snapshot for all its statements is more than a statement alone has.
    session.query("SET default_transaction_isolation = 'repeatable read'").await.expect("set");
    bound(&mut session, "", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, (false, "10".to_owned()));
    session.sync().await.expect("sync");
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_changed_are_noticed() {
    let (_dir, database, mut session) = database().await;
    bound(&mut session, "s", BY_KEY, "1").await;
    let mut other = self::session(&database);
    other.query("ALTER TABLE t ADD COLUMN z int DEFAULT 5").await.expect("alter");
    // Bound before the change.
    assert_eq!(executed(&mut session, "").await, (false, "10".to_owned()));
    session.sync().await.expect("sync");
    again(&mut session, "s", "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "10".to_owned()));
    session.sync().await.expect("sync");
    other.query("DROP TABLE t").await.expect("drop");
    let text = "SELECT v FROM t WHERE id = 1";
    assert_eq!(session.query(text).await.expect_err("dropped").sqlstate, "42P01");
}

/// The transaction that is not there has begun all the same.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_its_transaction_runs_from_it() {
    let (_dir, _database, mut session) = database().await;
    bound(&mut session, "s", BY_KEY, "1").await;
    assert!(executed(&mut session, "").await.0);
    std::thread::sleep(Duration::from_millis(20));
    let text = "SELECT (statement_timestamp() - now() > interval '10 ms')::text || $1";
    bound(&mut session, "", text, "").await;
    assert_eq!(executed(&mut session, "").await, (false, "true".to_owned()));
    session.sync().await.expect("sync");
    bound(&mut session, "", text, "").await;
    assert_eq!(executed(&mut session, "").await, (false, "false".to_owned()));
    session.sync().await.expect("sync");
}

/// It prints times in the session's zone, and notices that another one is set.
#[tokio::test(flavor = "multi_thread")]
async fn settings_count() {
    let (_dir, _database, mut session) = database().await;
    let text = "SELECT at FROM t WHERE id = 1";
    let shown = async |session: &mut Session| session.query(text).await.expect(text).rows[0][0].clone();
    assert_eq!(shown(&mut session).await.as_deref(), Some("2024-05-05 12:00:00+00"));
    session.query("SET timezone = 'Asia/Tokyo'").await.expect("set");
    assert_eq!(shown(&mut session).await.as_deref(), Some("2024-05-05 21:00:00+09"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_the_statements() {
    resurgam_sql::plant_panics();
    let (_dir, _database, mut session) = database().await;
    let text = format!("{BY_KEY} -- plant: running");
    bound(&mut session, "p", &text, "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "XX000".to_owned()));
    session.sync().await.expect("sync");
    bound(&mut session, "s", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "10".to_owned()));
    session.sync().await.expect("sync");
}
