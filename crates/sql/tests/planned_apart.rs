//! Statements that are planned on threads of their own: they mean what others mean, and need the same rights; one that was told
//! to stop is not planned again, and what it left behind is seen until it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings, plannings, plannings_ever, plannings_left};
use tokio::sync::Mutex;

/// The counts are the process's.
static ALONE: Mutex<()> = Mutex::const_new(());

fn open() -> (tempfile::TempDir, Arc<SqlDatabase>) {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Database::open(folder.path(), Options::default()).expect("database");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    (folder, database)
}

fn session(database: &Arc<SqlDatabase>, user: &str) -> Session {
    database.session(SessionOptions { user: user.to_owned(), ..SessionOptions::default() }).expect("session")
}

async fn done(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// The one value of a query, or the error's SQLSTATE.
async fn value(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => result.rows.first().and_then(|row| row[0].clone()).unwrap_or_else(|| "∅".to_owned()),
        Err(error) => error.into_fields().sqlstate,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_rights_are_those_of_the_session() {
    let _alone = ALONE.lock().await;
    let (_folder, database) = open();
    let (mut owner, mut reader) = (session(&database, "postgres"), session(&database, "postgres"));
    done(
        &mut owner,
        &[
            "CREATE SCHEMA x",
            "CREATE SCHEMA y",
            "CREATE TABLE x.t (a int PRIMARY KEY, secret int)",
            "CREATE TABLE y.t (a int PRIMARY KEY, secret int)",
            "INSERT INTO x.t VALUES (1, 1)",
            "INSERT INTO y.t VALUES (1, 1), (2, 2)",
            "CREATE VIEW y.v AS SELECT a, secret FROM y.t",
            "CREATE ROLE reader",
            "GRANT USAGE ON SCHEMA x, y TO reader",
            "GRANT SELECT ON x.t, y.v TO reader",
        ],
    )
    .await;
    done(&mut reader, &["SET ROLE reader"]).await;
    // By the length of its text, and by a view: a short text that may stand for much.
    let long = format!("SELECT count(*) FROM t WHERE a > 0{}", " OR a = -1".repeat(60));
    let column = long.replace("count(*)", "count(secret)");
    let before = plannings_ever();
    for _ in 0..2 {
        for (path, rows, of_reader) in
            [("x", "1", "1"), ("y", "2", "42501"), ("x, y", "1", "1"), ("y, x", "2", "42501")]
        {
            let path = format!("SET search_path = {path}");
            done(&mut owner, &[&path]).await;
            done(&mut reader, &[&path]).await;
            assert_eq!(value(&mut owner, &long).await, rows, "{path}");
            assert_eq!(value(&mut reader, &long).await, of_reader, "{path}");
        }
    }
    assert_eq!(value(&mut reader, "SELECT count(secret) FROM v").await, "2");
    done(&mut owner, &["GRANT SELECT (a) ON y.t TO reader"]).await;
    assert_eq!(value(&mut reader, &long).await, "2");
    assert_eq!(value(&mut reader, &column).await, "42501");
    done(&mut owner, &["REVOKE SELECT (a) ON y.t FROM reader"]).await;
    assert_eq!(value(&mut reader, &long).await, "42501", "though it is planned");
    done(&mut owner, &["REVOKE USAGE ON SCHEMA y FROM reader"]).await;
    assert_eq!(value(&mut reader, &long).await, "1", "the other one, without the right (docs/roles.md)");
    done(&mut owner, &["REVOKE USAGE ON SCHEMA x FROM reader"]).await;
    assert_eq!(value(&mut reader, &long).await, "42P01", "not found");
    done(&mut owner, &["SET search_path = public"]).await;
    assert_eq!(value(&mut owner, &long).await, "42P01");
    assert!(plannings_ever() > before + 4, "{before} {}", plannings_ever());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_told_to_stop_is_not_planned_again_and_what_it_left_ends() {
    let _alone = ALONE.lock().await;
    let (_folder, database) = open();
    let mut session = session(&database, "postgres");
    let columns = |count: usize| (0..count).map(|n| format!("c{n} int")).collect::<Vec<_>>().join(", ");
    done(
        &mut session,
        &["CREATE SCHEMA x", &format!("CREATE TABLE x.wide ({})", columns(1200)), "SET search_path = x"],
    )
    .await;
    let joined: Vec<String> = (0..8).map(|n| format!("wide w{n}")).collect();
    // A constant is lifted out of the text; a failure is told in terms of the text that was written.
    let text = format!("SELECT 1 FROM {} WHERE 1 = 1", joined.join(" NATURAL JOIN "));
    done(&mut session, &["SET statement_timeout = '200ms'"]).await;
    let (before, left) = (plannings_ever(), plannings_left());
    let begun = Instant::now();
    assert_eq!(value(&mut session, &text).await, "57014");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(plannings_ever(), before + 1);
    // It was left behind, or met the stop between two rules of its own.
    assert!((left..=left + 1).contains(&plannings_left()), "{left}, then {}", plannings_left());
    // What does not take long goes on beside it; what does has the session's one thread, once that is free.
    assert_eq!(value(&mut session, "SELECT 7").await, "7");
    assert_eq!(value(&mut session, &text).await, "57014");
    assert!(plannings().0 <= 1, "{:?}", plannings());
    let begun = Instant::now();
    while plannings() != (0, 0) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", plannings());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("what was left ended after {:?}", begun.elapsed());
}
