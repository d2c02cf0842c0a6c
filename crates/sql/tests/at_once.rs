//! What is answered at once is answered as by the ordinary way, and only that is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use resurgam_engine::{Database, Options};
use resurgam_sql::wire::{Execution, Format, SqlError, TransactionStatus};
use resurgam_sql::{Planning, Session, SessionOptions, SqlDatabase, SqlSettings, plans_compared};

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
    (at_once, shown(result))
}

fn shown(result: Result<Execution, SqlError>) -> String {
    match result {
        Ok(Execution::Rows { first, .. }) => {
            let chunk = first.unwrap_or_default();
            chunk.rows().map(|row| String::from_utf8_lossy(&row[4..]).into_owned()).collect::<Vec<_>>().join(",")
        }
        Ok(_) => "no rows".to_owned(),
        Err(error) => error.sqlstate.to_string(),
    }
}

async fn bound(session: &mut Session, name: &str, text: &str, value: &str) {
    session.parse(name, text, &[]).await.expect(text);
    // Planning is done in a transaction.
    if session.transaction_status() == TransactionStatus::Idle {
        session.sync().await.expect("sync");
    }
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
    // Planned again, which is done in a transaction, then kept.
    assert_eq!(run(&mut session, "s", "1").await, (false, "10".to_owned()));
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
    other.query("DROP TABLE t").await.expect("drop");
    let text = "SELECT v FROM t WHERE id = 1";
    assert_eq!(session.query(text).await.expect_err("dropped").sqlstate, "42P01");
}

/// The transaction that is not there has begun all the same.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_its_transaction_runs_from_it() {
    let (_dir, _database, mut session) = database().await;
    let text = "SELECT (statement_timestamp() - now() > interval '10 ms')::text || $1";
    session.parse("clock", text, &[]).await.expect("parse");
    bound(&mut session, "s", BY_KEY, "1").await;
    assert!(executed(&mut session, "").await.0);
    std::thread::sleep(Duration::from_millis(20));
    again(&mut session, "clock", "").await;
    assert_eq!(executed(&mut session, "").await, (false, "true".to_owned()));
    session.sync().await.expect("sync");
    again(&mut session, "clock", "").await;
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

/// A statement of the simple protocol, alone; whether it came at once.
async fn simple(session: &mut Session, text: &str) -> (bool, String) {
    let mut statements = session.split(text).expect(text);
    assert_eq!(statements.len(), 1, "{text}");
    let statement = statements.remove(0);
    let (at_once, result) = match session.execute_simple_at_once(&statement) {
        Some(result) => (true, result),
        None => (false, session.execute_simple(statement, true).await),
    };
    (at_once, shown(result))
}

async fn all(session: &mut Session, texts: &[&str]) {
    for text in texts {
        session.query(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// Runs it bound to that value, and ends its transaction.
async fn run(session: &mut Session, name: &str, value: &str) -> (bool, String) {
    again(session, name, value).await;
    let answer = executed(session, "").await;
    session.sync().await.expect("sync");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_asked_for() {
    let (_dir, database, mut owner) = database().await;
    let at_once = |rows: &str| (true, rows.to_owned());
    all(
        &mut owner,
        &[
            "CREATE ROLE reader",
            "CREATE ROLE stranger",
            "GRANT SELECT (id, v) ON t TO reader",
            "CREATE SCHEMA s",
            "CREATE TABLE s.u (id int PRIMARY KEY, v int)",
            "INSERT INTO s.u VALUES (1, 7)",
            "GRANT SELECT ON s.u TO reader",
        ],
    )
    .await;
    let mut session = self::session(&database);
    bound(&mut session, "v", BY_KEY, "1").await;
    bound(&mut session, "w", "SELECT w FROM t WHERE id = $1", "1").await;
    bound(&mut session, "u", "SELECT v FROM s.u WHERE id = $1", "1").await;
    assert_eq!(run(&mut session, "v", "1").await, at_once("10"));
    assert_eq!(run(&mut session, "w", "1").await, at_once("one"));
    // The plans that the superuser has used are another role's now: columns, tables, and schemas are its own.
    all(&mut session, &["SET ROLE reader"]).await;
    assert_eq!(run(&mut session, "v", "1").await, at_once("10"));
    assert_eq!(run(&mut session, "w", "1").await, at_once("42501"));
    assert_eq!(run(&mut session, "u", "1").await, at_once("42501"));
    for _ in 0..2 {
        let (_, refused) = simple(&mut session, "SELECT w FROM t WHERE id = 1").await;
        assert_eq!(refused, "42501");
        let (_, given) = simple(&mut session, "SELECT v FROM t WHERE id = 1").await;
        assert_eq!(given, "10");
    }
    all(&mut owner, &["GRANT USAGE ON SCHEMA s TO reader"]).await;
    assert_eq!(run(&mut session, "u", "1").await.1, "7");
    assert_eq!(run(&mut session, "u", "1").await, at_once("7"));
    // Bound while it was allowed.
    again(&mut session, "u", "1").await;
    all(&mut owner, &["REVOKE SELECT ON s.u FROM reader"]).await;
    assert_eq!(executed(&mut session, "").await.1, "42501");
    session.sync().await.expect("sync");
    // Bound as one, executed as another.
    again(&mut session, "v", "1").await;
    all(&mut session, &["SET SESSION AUTHORIZATION stranger"]).await;
    bound(&mut session, "x", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, at_once("42501"));
    session.sync().await.expect("sync");
    all(&mut session, &["RESET SESSION AUTHORIZATION"]).await;
    assert_eq!(run(&mut session, "x", "1").await, at_once("10"));
}

/// A role that is set within a transaction goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_a_transaction_counts_there() {
    let (_dir, _database, mut session) = database().await;
    all(&mut session, &["CREATE ROLE nobody_special"]).await;
    bound(&mut session, "s", BY_KEY, "1").await;
    session.sync().await.expect("sync");
    all(&mut session, &["BEGIN", "SET LOCAL ROLE nobody_special"]).await;
    again(&mut session, "s", "1").await;
    assert_eq!(executed(&mut session, "").await, (false, "42501".to_owned()));
    all(&mut session, &["ROLLBACK"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_of_the_path_of_their_moment() {
    let (_dir, _database, mut session) = database().await;
    all(
        &mut session,
        &[
            "CREATE SCHEMA other",
            "CREATE TABLE other.t (id int PRIMARY KEY, v int)",
            "INSERT INTO other.t VALUES (1, 77)",
        ],
    )
    .await;
    bound(&mut session, "s", BY_KEY, "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "10".to_owned()));
    session.sync().await.expect("sync");
    let text = "SELECT v FROM t WHERE id = 1";
    assert_eq!(simple(&mut session, text).await.1, "10");
    assert_eq!(simple(&mut session, text).await, (true, "10".to_owned()));
    all(&mut session, &["SET search_path = other"]).await;
    assert_eq!(simple(&mut session, text).await.1, "77");
    assert_eq!(simple(&mut session, text).await, (true, "77".to_owned()));
    // The text was planned along that path, for the simple protocol, with other types of its parameter.
    assert_eq!(run(&mut session, "s", "1").await.1, "77");
    assert_eq!(run(&mut session, "s", "1").await, (true, "77".to_owned()));
    // What was bound is planned, as in PostgreSQL.
    again(&mut session, "s", "1").await;
    session.parse("path", "SET search_path = public", &[]).await.expect("parse");
    session.bind("path", "path", vec![], &[], &[]).await.expect("bind");
    session.execute("path", 0).await.expect("set");
    assert_eq!(executed(&mut session, "").await.1, "77");
    session.sync().await.expect("sync");
    assert_eq!(run(&mut session, "s", "1").await.1, "10");
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
}

/// Labels and domains are of the types that the session sees.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_types_of_users() {
    let (_dir, database, mut session) = database().await;
    all(
        &mut session,
        &[
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE DOMAIN small AS int CHECK (value < 100)",
            "CREATE TABLE m (mood mood PRIMARY KEY, n small, moods mood[])",
            "CREATE TABLE n (n small PRIMARY KEY, mood mood)",
            "INSERT INTO m VALUES ('sad', 1, '{ok,sad}'), ('ok', 2, NULL)",
            "INSERT INTO n VALUES (1, 'sad'), (2, 'ok')",
        ],
    )
    .await;
    let mut other = self::session(&database);
    for session in [&mut session, &mut other] {
        for (text, values) in [
            ("SELECT n FROM m WHERE mood = $1", [("ok", "2"), ("sad", "1")]),
            ("SELECT mood FROM m WHERE mood = $1", [("ok", "ok"), ("sad", "sad")]),
            ("SELECT moods FROM m WHERE mood = $1", [("ok", ""), ("sad", "{ok,sad}")]),
            ("SELECT mood FROM n WHERE n = $1", [("2", "ok"), ("1", "sad")]),
            ("SELECT n FROM n WHERE n = $1", [("2", "2"), ("1", "1")]),
        ] {
            session.parse("", text, &[]).await.expect(text);
            for (value, rows) in values {
                assert_eq!(run(session, "", value).await.1, rows, "{text} of {value}");
                let literal = text.replace("$1", &format!("'{value}'"));
                assert_eq!(simple(session, &literal).await.1, rows, "{literal}");
                assert_eq!(simple(session, &literal).await.1, rows, "{literal} again");
            }
        }
        session.parse("", "SELECT n FROM m WHERE mood = $1", &[]).await.expect("parse");
        let bad = session.bind("", "", vec![Some(Bytes::from_static(b"glad"))], &[Format::Text], &[]).await;
        assert_eq!(bad.expect_err("no such label").sqlstate, "22P02");
        session.sync().await.expect("sync");
    }
    bound(&mut session, "e", "SELECT mood FROM n WHERE n = $1", "2").await;
    assert_eq!(executed(&mut session, "").await, (true, "ok".to_owned()));
    session.sync().await.expect("sync");
    all(&mut other, &["ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'"]).await;
    assert_eq!(run(&mut session, "e", "2").await.1, "fine");
}

/// A parameter of a domain is described as one, and its value is held against the domain by Bind, whether or not a row will be written.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_domains_are_checked_when_they_are_bound() {
    let (_dir, _database, mut session) = database().await;
    all(
        &mut session,
        &[
            "CREATE DOMAIN few AS varchar(3) CHECK (VALUE <> 'bad')",
            "CREATE DOMAIN much AS int NOT NULL CHECK (VALUE > 0)",
            "CREATE TABLE d (k int PRIMARY KEY, few few, much much)",
        ],
    )
    .await;
    let oid = async |session: &mut Session, name: &str| {
        let found = session.query(&format!("SELECT '{name}'::regtype::oid")).await.expect("oid");
        found.rows[0][0].as_ref().expect("it is there").parse::<u32>().expect("a number")
    };
    let (few, much) = (oid(&mut session, "few").await, oid(&mut session, "much").await);
    let text = "UPDATE d SET few = $1, much = $2 WHERE k = $3 AND much = $4";
    session.parse("u", text, &[]).await.expect("parse");
    assert_eq!(session.describe_statement("u").expect("describe").0, [few, much, 23, 23]);
    // The same where the client says it, and what it says otherwise counts.
    session.parse("said", text, &[few, much]).await.expect("parse");
    assert_eq!(session.describe_statement("said").expect("describe").0, [few, much, 23, 23]);
    session.parse("other", text, &[25, 23]).await.expect("parse");
    assert_eq!(session.describe_statement("other").expect("describe").0, [25, 23, 23, 23]);
    let values = |few: &'static str, much: Option<&'static str>| {
        let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        vec![bytes(few), much.and_then(bytes), bytes("1"), bytes("-1")]
    };
    session.sync().await.expect("sync");
    for name in ["u", "said"] {
        for (few, much, state) in [
            ("bad", Some("1"), "23514"),
            ("long", Some("1"), "22001"),
            ("ok", Some("0"), "23514"),
            ("ok", None, "23502"),
        ] {
            let error =
                session.bind("", name, values(few, much), &[Format::Text], &[]).await.expect_err("no such value");
            assert_eq!(error.sqlstate, state, "{name}: {few}, {much:?}");
            session.sync().await.expect("sync");
        }
        session.bind("", name, values("ok", Some("1")), &[Format::Text], &[]).await.expect("bind");
        session.sync().await.expect("sync");
    }
    // A value of another type becomes one of the domain where a row is written, and there is none.
    session.bind("", "other", values("bad", Some("0")), &[Format::Text], &[]).await.expect("bind");
    assert_eq!(shown(session.execute("", 0).await), "no rows");
    session.sync().await.expect("sync");
}

/// A transaction that only reads, or one snapshot for all of it, is there as ever; what others do meanwhile counts or not.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_all_kinds() {
    let (_dir, database, mut session) = database().await;
    let mut other = self::session(&database);
    bound(&mut session, "s", BY_KEY, "1").await;
    session.sync().await.expect("sync");
    all(&mut session, &["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (false, "10".to_owned()));
    all(&mut other, &["UPDATE t SET v = 20 WHERE id = 1"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (false, "10".to_owned()));
    all(&mut session, &["COMMIT"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "20".to_owned()));
    // Not committed yet, then committed.
    all(&mut other, &["BEGIN", "UPDATE t SET v = 30 WHERE id = 1"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "20".to_owned()));
    all(&mut other, &["COMMIT"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "30".to_owned()));
    // Two statements before one Sync each see what is committed when they begin, and a block may follow.
    again(&mut session, "s", "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "30".to_owned()));
    all(&mut other, &["UPDATE t SET v = 40 WHERE id = 1"]).await;
    again(&mut session, "s", "1").await;
    assert_eq!(executed(&mut session, "").await, (true, "40".to_owned()));
    all(&mut session, &["BEGIN", "UPDATE t SET v = 50 WHERE id = 1"]).await;
    again(&mut session, "s", "1").await;
    assert_eq!(executed(&mut session, "").await, (false, "50".to_owned()));
    all(&mut session, &["ROLLBACK"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "40".to_owned()));
    // A deleted row, a new one of its key.
    all(&mut other, &["DELETE FROM t WHERE id = 1"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, String::new()));
    all(&mut other, &["INSERT INTO t VALUES (1, 60)"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "60".to_owned()));
}

/// A statement that was told to stop before it began is not stopped; time that is out for one is not for the next.
#[tokio::test(flavor = "multi_thread")]
async fn stops_are_those_of_their_statements() {
    let (_dir, _database, mut session) = database().await;
    bound(&mut session, "s", BY_KEY, "1").await;
    session.sync().await.expect("sync");
    session.cancel_handle().cancel();
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
    all(&mut session, &["SET statement_timeout = '50ms'"]).await;
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
    assert_eq!(session.query("SELECT pg_sleep(5)").await.expect_err("too long").sqlstate, "57014");
    assert_eq!(run(&mut session, "s", "1").await, (true, "10".to_owned()));
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(session.query("SELECT 1 + length(w) FROM t WHERE id = 1").await.expect("in time").rows.len(), 1);
}

/// What others see of the session, and the counters of the statement, are as of any other.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_seen_and_counted() {
    let (_dir, database, mut session) = database().await;
    let mut other = self::session(&database);
    bound(&mut session, "s", BY_KEY, "1").await;
    session.sync().await.expect("sync");
    let runs = "SELECT direct FROM resurgam_plans WHERE query = 'SELECT v FROM t WHERE id = $1'";
    for _ in 0..3 {
        assert!(run(&mut session, "s", "1").await.0);
    }
    let counted = other.query(runs).await.expect(runs);
    assert_eq!(counted.rows[0][0].as_deref(), Some("3"));
    let text = "SELECT query, state, xact_start IS NULL AS idle, query_start = state_change, backend_xid IS NULL \
                FROM pg_stat_activity WHERE query LIKE '%id = $1'";
    let seen = other.query(text).await.expect(text).rows;
    let seen: Vec<_> = seen[0].iter().map(|field| field.clone().unwrap_or_default()).collect();
    assert_eq!(seen, [BY_KEY, "idle", "t", "t", "t"]);
}

/// Where the canary of kept plans is wanted it answers as ever, and is compared with a plan.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_compared_with_a_plan() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let planning = Planning { canary: true, ..Planning::default() };
    let database = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
    let mut session = session(&database);
    all(
        &mut session,
        &[
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE t (id int PRIMARY KEY, v mood, w text)",
            "INSERT INTO t VALUES (1, 'ok', repeat('long ', 20000)), (2, NULL, NULL)",
        ],
    )
    .await;
    bound(&mut session, "s", BY_KEY, "1").await;
    bound(&mut session, "w", "SELECT w FROM t WHERE id = $1", "1").await;
    session.sync().await.expect("sync");
    let before = plans_compared();
    for (value, rows) in [("1", "ok"), ("2", ""), ("3", "")] {
        assert_eq!(run(&mut session, "s", value).await, (true, rows.to_owned()));
    }
    let (at_once, long) = run(&mut session, "w", "1").await;
    assert_eq!((at_once, long.len()), (true, 100_000));
    assert!(plans_compared() >= before + 4);
}

/// A table that is locked by name against readers is waited for, by who can wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_is_waited_for() {
    let (_dir, database, mut session) = database().await;
    bound(&mut session, "s", BY_KEY, "1").await;
    let mut other = self::session(&database);
    all(&mut other, &["BEGIN", "LOCK TABLE t", "UPDATE t SET v = 12 WHERE id = 1"]).await;
    assert!(session.execute_at_once("").is_none());
    let waiting = tokio::spawn(async move {
        let answer = executed(&mut session, "").await;
        session.sync().await.expect("sync");
        (session, answer)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    all(&mut other, &["COMMIT"]).await;
    let (mut session, answer) = waiting.await.expect("joined");
    assert_eq!(answer, (false, "12".to_owned()));
    assert_eq!(run(&mut session, "s", "1").await, (true, "12".to_owned()));
}
