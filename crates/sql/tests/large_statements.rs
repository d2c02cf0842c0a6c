//! Statements that are large or deep: bounded in stack and memory, with PostgreSQL's answer or its
//! SQLSTATE.

use bytes::Bytes;
use resurgam_engine::{Database, Options};
use resurgam_sql::{Execution, Format, Session, SessionOptions, SqlDatabase, SqlSettings};

async fn session() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let mut session = database.session(SessionOptions::default()).expect("session");
    for sql in [
        "CREATE TABLE l (a int PRIMARY KEY, b int)",
        "INSERT INTO l SELECT i, i % 7 FROM generate_series(1, 1000) AS g(i)",
    ] {
        session.query(sql).await.expect("prepare");
    }
    (dir, session)
}

/// The first value of the answer, or the SQLSTATE.
async fn answer(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => match result.rows.first().and_then(|row| row.first()) {
            Some(value) => value.clone().unwrap_or_else(|| "NULL".to_owned()),
            None => result.tag,
        },
        Err(error) => error.into_fields().sqlstate,
    }
}

fn list(from: usize, to: usize, with: &str, item: impl Fn(usize) -> String) -> String {
    (from..to).map(item).collect::<Vec<_>>().join(with)
}

/// With the stack that the server gives its threads.
#[test]
fn large_statements_are_answered_or_refused() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.thread_stack_size(resurgam_sql::STACK_BYTES).enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::spawn(large_statements()).await.expect("answers") });
}

async fn large_statements() {
    let (_dir, mut session) = session().await;
    const N: usize = 20_000;
    let number = |i: usize| i.to_string();
    let cases = [
        // What PostgreSQL answers, and what is allowed here.
        (format!("SELECT count(*) FROM l WHERE a IN ({})", list(0, 100_000, ",", number)), "1000", ""),
        (format!("SELECT count(*) FROM l WHERE a NOT IN ({})", list(5, 100_000, ",", number)), "4", ""),
        (format!("SELECT count(*) FROM l WHERE b IN ({})", list(3, 3000, ", ", number)), "572", ""),
        (format!("SELECT count(*) FROM l WHERE {}", list(0, N, " OR ", |i| format!("a = {i}"))), "1000", ""),
        (format!("SELECT count(*) FROM l WHERE {}", list(5, N, " AND ", |i| format!("a <> {i}"))), "4", ""),
        // PostgreSQL gives up at about 7000 terms; here is no reason to.
        (format!("SELECT {}", list(0, N, " + ", |_| "1".to_owned())), "54001", "20000"),
        (format!("SELECT length({})", list(0, N, " || ", |_| "'x'".to_owned())), "54001", "20000"),
        (format!("SELECT {}", list(0, 200_000, " + ", |_| "1".to_owned())), "54001", ""),
        (format!("SELECT {}1{}", "(".repeat(N), ")".repeat(N)), "42601", "54001"),
        (format!("SELECT {}true", "NOT ".repeat(N)), "42601", "54001"),
        (format!("SELECT {}1", "- ".repeat(N)), "42601", "54001"),
        (format!("SELECT 1{}", "::int".repeat(N)), "54001", ""),
        (
            format!("SELECT count(*) FROM ({}) AS s", list(0, 2000, " UNION ALL ", |_| "SELECT 1".to_owned())),
            "2000",
            "",
        ),
        (format!("SELECT 1{}", " EXCEPT SELECT 2".repeat(400)), "1", ""),
        (format!("SELECT sum(a{}) FROM l", " + b".repeat(150)), "950950", ""),
        (format!("SELECT count(*) FROM ({}) AS s", list(0, 500, " UNION ALL ", |_| "SELECT 1".to_owned())), "500", ""),
        (format!("SELECT {}", list(0, 200, " + ", |_| "1".to_owned())), "200", ""),
        (format!("SELECT count(*) FROM l WHERE {}", list(5, 205, " AND ", |i| format!("a <> {i}"))), "800", ""),
        (format!("SELECT count(*) FROM l WHERE {}", list(0, 200, " OR ", |i| format!("a = {i} AND b < 9"))), "199", ""),
        (
            format!("SELECT count(*) FROM l WHERE {}", list(0, 200, " OR ", |i| format!("a > {i} AND b = {i}"))),
            "994",
            "",
        ),
        (
            format!("SELECT CASE {} END FROM l WHERE a = 3", list(0, 5000, " ", |i| format!("WHEN a = {i} THEN {i}"))),
            "3",
            "",
        ),
        (format!("SELECT count(*) FROM (VALUES {}) AS v(x)", list(0, N, ",", |i| format!("({i})"))), "20000", ""),
        (format!("SELECT length('{}')", "x".repeat(50_000_000)), "50000000", ""),
    ];
    for (sql, postgresql, allowed) in cases {
        let begun = std::time::Instant::now();
        let got = answer(&mut session, &sql).await;
        let shown: String = sql.chars().take(60).collect();
        println!("{shown}: {got} in {:?}", begun.elapsed());
        assert!(got == postgresql || got == allowed, "{shown}: {got}, not {postgresql}");
        // The session goes on.
        assert_eq!(answer(&mut session, "SELECT 1").await, "1");
    }
}

/// As many parameters as the protocol has, and one more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_parameters_as_there_can_be() {
    let (_dir, mut session) = session().await;
    let texts = [
        ("SELECT a FROM l WHERE a IN", 1000),
        ("SELECT a FROM l WHERE a NOT IN", 0),
        ("SELECT a FROM l WHERE b IN", 1000),
        ("DELETE FROM l WHERE a IN", 1000),
    ];
    for (text, rows) in texts {
        let sql = format!("{text} ({})", list(1, 65_536, ",", |i| format!("${i}")));
        session.parse("p", &sql, &[]).await.expect("parse");
        for run in 0..3 {
            let begun = std::time::Instant::now();
            // Other values each time: of the third, half are there.
            let from = if run == 2 { 500 } else { 0 };
            let params = (from..from + 65_535).map(|i| Some(Bytes::from(i.to_string()))).collect();
            session.bind("", "p", params, &[], &[Format::Text]).await.expect("bind");
            let mut count = match session.execute("", 0).await.expect("execute") {
                Execution::Rows { first, mut rows, .. } => {
                    let mut count = first.map_or(0, |chunk| chunk.len());
                    while let Some(rows) = &mut rows
                        && let Some(chunk) = rows.next(&mut session).await.expect("rows")
                    {
                        count += chunk.len();
                    }
                    count
                }
                Execution::Command { tag } => tag.to_string().split(' ').nth(1).map_or(0, |n| n.parse().expect("rows")),
                _ => panic!("no rows"),
            };
            session.sync().await.expect("sync");
            println!("{text}: {count} rows in {:?}", begun.elapsed());
            if text.starts_with("DELETE") {
                let left = answer(&mut session, "SELECT count(*) FROM l").await;
                count = if run == 0 { count } else { 1000 };
                assert_eq!(left, "0");
            }
            let wanted = match (run, text.contains(" a NOT")) {
                (2, true) => 499,
                (2, false) if text.contains(" a IN") && !text.starts_with("DELETE") => 501,
                (2, false) if text.contains(" b IN") => 0,
                _ => rows,
            };
            assert_eq!(count, wanted, "{text}, run {run}");
        }
        session.close_statement("p");
    }
    let sql = format!("SELECT 1 WHERE 1 IN ({})", list(1, 65_537, ",", |i| format!("${i}")));
    let error = session.parse("q", &sql, &[]).await.expect_err("too many");
    assert_eq!(error.sqlstate, "42P02");
}
