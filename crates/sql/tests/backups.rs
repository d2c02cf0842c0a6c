//! `SELECT resurgam_backup()` and the view `resurgam_backups`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlError, SqlSettings};
use resurgam_vfs::RealVfs;

fn open(dir: &Path, bytes_per_second: u64) -> (Database, Arc<SqlDatabase>) {
    let options = Options {
        buffer_bytes: 16 << 20,
        archive: Some(dir.join("archive").display().to_string()),
        backups: Some(format!("file://{}", dir.join("backups").display())),
        backup_bytes_per_second: bytes_per_second,
        ..Options::default()
    };
    let engine = Database::open_with(Arc::new(RealVfs::new()), &dir.join("db"), options, |_| {}).expect("open");
    let sql = SqlDatabase::new(engine.clone(), SqlSettings::default());
    (engine, sql)
}

async fn rows(session: &mut Session, sql: &str) -> Vec<Vec<Option<String>>> {
    session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

async fn one(session: &mut Session, sql: &str) -> String {
    rows(session, sql).await.swap_remove(0).swap_remove(0).unwrap_or_default()
}

async fn error(session: &mut Session, sql: &str) -> SqlError {
    session.query(sql).await.expect_err(sql)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_by_a_statement() {
    let dir = tempfile::tempdir().expect("folder");
    let (engine, sql) = open(dir.path(), 0);
    let mut session = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    rows(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    rows(&mut session, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 5000) AS s(i)").await;
    let name = one(&mut session, "SELECT resurgam_backup()").await;
    assert!(name.len() == 24 && name.contains('T'), "{name}");
    let view = "SELECT name, state, begin_lsn <= end_lsn, bytes > 0, pages > 0, damaged_pages, from_archive, progress, error, \
                finished >= started FROM resurgam_backups ORDER BY name";
    let found = rows(&mut session, view).await.swap_remove(0);
    let found: Vec<&str> = found.iter().map(|value| value.as_deref().unwrap_or("null")).collect();
    assert_eq!(found, [&*name, "complete", "t", "t", "t", "0", "f", "1", "null", "t"]);
    // What the archive gives is as old as what it lacks; it had every page from the first on.
    let point = "SELECT newest_point_age_seconds >= 0, newest_point_at <= now() + interval '1 second', \
                 abs(newest_point_age_seconds - lag_seconds) < 60, newest_point_at > now() - interval '1 hour' FROM resurgam_archive";
    let found = rows(&mut session, point).await.swap_remove(0);
    assert_eq!(found, vec![Some("t".to_owned()); 4]);
    // In a transaction, in any expression, and by name; once for a statement with many rows.
    rows(&mut session, "BEGIN; INSERT INTO t VALUES (0, 'uncommitted')").await;
    let second = one(&mut session, "SELECT 'made ' || resurgam_backup(from_archive => true)").await;
    assert!(second.starts_with("made 2"), "{second}");
    rows(&mut session, "ROLLBACK").await;
    assert_eq!(one(&mut session, "SELECT count(*) FROM resurgam_backups WHERE from_archive").await, "1");
    assert_eq!(one(&mut session, "SELECT resurgam_backup(NULL) IS NULL").await, "t");
    rows(&mut session, "EXPLAIN SELECT resurgam_backup()").await;
    assert_eq!(one(&mut session, "SELECT count(*) FROM resurgam_backups").await, "2");
    // Who may.
    rows(&mut session, "CREATE ROLE somebody LOGIN").await;
    let options = SessionOptions { user: "somebody".to_owned(), ..SessionOptions::default() };
    let mut other = Arc::clone(&sql).session(options).expect("session");
    assert_eq!(error(&mut other, "SELECT resurgam_backup()").await.sqlstate.as_str(), "42501");
    drop((session, other));
    engine.close().expect("close");
}

/// The first one of the files, at once, and others of it and the archive; a restart goes by what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_made_when_they_are_due() {
    let dir = tempfile::tempdir().expect("folder");
    let open = |interval| {
        let options = Options {
            buffer_bytes: 16 << 20,
            archive: Some(dir.path().join("archive").display().to_string()),
            backups: Some(dir.path().join("backups").display().to_string()),
            backup_interval: interval,
            ..Options::default()
        };
        let engine =
            Database::open_with(Arc::new(RealVfs::new()), &dir.path().join("db"), options, |_| {}).expect("open");
        let sql = SqlDatabase::new(engine.clone(), SqlSettings::default());
        (engine, sql)
    };
    let complete = |engine: &Database| {
        let rows = engine.backups().into_iter().filter(|row| row.state == "complete");
        rows.map(|row| (row.name.unwrap_or_default(), row.from_archive == Some(true))).collect::<Vec<_>>()
    };
    let until = |engine: &Database, count: usize| {
        let begun = std::time::Instant::now();
        while complete(engine).len() < count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", engine.backups());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let (engine, sql) = open(Duration::from_millis(100));
    let mut session = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    rows(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    rows(&mut session, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 2000) AS s(i)").await;
    until(&engine, 3);
    drop((session, sql));
    engine.close().expect("close");
    let (engine, sql) = open(Duration::from_secs(3600));
    let before = complete(&engine);
    let kinds: Vec<bool> = before.iter().map(|(_, from_archive)| *from_archive).collect();
    assert!(!kinds[0] && kinds[1..].iter().all(|from_archive| *from_archive), "{before:?}");
    // One that is asked for is the newest one.
    let mut session = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    one(&mut session, "SELECT resurgam_backup()").await;
    assert_eq!(complete(&engine).len(), before.len() + 1, "none was due");
    drop((session, sql));
    engine.close().expect("close");
}

/// A cancel and a timeout end it, another session is told that one runs, and the next one goes on with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_cancelled() {
    let dir = tempfile::tempdir().expect("folder");
    let (engine, sql) = open(dir.path(), 1 << 20);
    let mut session = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    rows(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    rows(&mut session, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) AS s(i); CHECKPOINT")
        .await;
    let mut other = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    let cancel = other.cancel_handle();
    let running = tokio::spawn(async move { (error(&mut other, "SELECT resurgam_backup()").await, other) });
    let begun = std::time::Instant::now();
    while one(&mut session, "SELECT count(*) FROM resurgam_backups WHERE state = 'running' AND progress > 0").await
        != "1"
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for a backup to run");
    }
    assert_eq!(error(&mut session, "SELECT resurgam_backup()").await.sqlstate.as_str(), "55006");
    let cancelled = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            cancel.cancel();
            tokio::time::sleep(Duration::from_millis(5)).await;
            if running.is_finished() {
                return running.await.expect("no panic");
            }
        }
    });
    let (ended, _other) = cancelled.await.expect("it ends");
    assert_eq!((ended.sqlstate.as_str(), &*ended.message), ("57014", "canceling statement due to user request"));
    rows(&mut session, "SET statement_timeout = '100ms'").await;
    let begun = std::time::Instant::now();
    let ended = loop {
        let ended = error(&mut session, "SELECT resurgam_backup()").await;
        // The cancelled one may take a moment to see it.
        if ended.sqlstate.as_str() != "55006" || begun.elapsed() > Duration::from_secs(30) {
            break ended;
        }
    };
    assert_eq!(&*ended.message, "canceling statement due to statement timeout");
    rows(&mut session, "RESET statement_timeout").await;
    drop(session);
    engine.close().expect("close");
    let (engine, sql) = open(dir.path(), 0);
    let mut session = Arc::clone(&sql).session(SessionOptions::default()).expect("session");
    let left = one(&mut session, "SELECT name FROM resurgam_backups WHERE state = 'interrupted'").await;
    assert_eq!(one(&mut session, "SELECT resurgam_backup()").await, left);
    drop(session);
    engine.close().expect("close");
}
