//! Runs every `tests/slt/*.slt`: statements with what PostgreSQL answers.
//!
//! ```text
//! statement ok
//! CREATE TABLE t (a int)
//!
//! statement error 23505
//! INSERT INTO t VALUES (1)
//!
//! tag INSERT 0 2
//! INSERT INTO t VALUES (1), (2)
//!
//! query
//! SELECT a, b FROM t
//! ----
//! 1|x
//! 2|NULL
//!
//! told
//! SELECT nam FROM t
//! ----
//! ERROR:  42703: column "nam" does not exist
//! HINT:  Perhaps you meant to reference the column "t.name".
//! ```
//! A record ends at an empty line. Rows compare in order (`query rowsort`: sorted).
//! EXPLAIN is compared without the costs that are expected, and without the rows, unless it says COSTS.
//! `session NAME` switches to another session of the same database; `session NAME USER` to one of
//! that user.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Planning, Session, SessionOptions, SqlDatabase, SqlSettings};

struct Record<'a> {
    line: usize,
    head: &'a str,
    sql: String,
    expected: Vec<String>,
}

fn records(text: &str) -> Vec<Record<'_>> {
    let mut out = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, head)) = lines.next() {
        if head.trim().is_empty() || head.starts_with('#') {
            continue;
        }
        let mut record = Record { line: at + 1, head, sql: String::new(), expected: Vec::new() };
        let mut rows = false;
        for (_, line) in lines.by_ref() {
            if line.is_empty() {
                break;
            }
            if line == "----" {
                rows = true;
            } else if rows {
                record.expected.push(line.to_owned());
            } else {
                record.sql.push_str(line);
                record.sql.push('\n');
            }
        }
        out.push(record);
    }
    out
}

/// Statements before those of the file, and whether statements may run without a plan: the same must come out
/// in both recovery modes, and from both sources of rows.
const MODES: [(&str, bool); 3] = [
    ("SELECT 1", true),
    ("ALTER DATABASE postgres SET accelerated_database_recovery = off", true),
    ("SELECT 'plans only'", false),
];

async fn run(path: &Path, (mode, direct): (&str, bool)) -> Vec<String> {
    let dir = tempfile::tempdir().expect("temporary folder");
    // Sweeps only when a file asks for one: what a sweep would change is asked for, too.
    let options = Options { cleaner_interval_s: 86_400.0, ..Options::default() };
    let engine = Database::open(dir.path().join("data"), options).expect("open");
    let planning = Planning { direct, ..Planning::default() };
    let database = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
    let mut first = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    first.query(mode).await.expect("mode");
    drop(first);
    let text = std::fs::read_to_string(path).expect("read");
    let mut sessions: HashMap<String, Session> = HashMap::new();
    let (mut current, mut user) = ("main".to_owned(), "postgres".to_owned());
    let mut failures = Vec::new();
    for record in records(&text) {
        let mut words = record.head.split_whitespace();
        let kind = words.next().unwrap_or_default();
        if kind == "session" {
            current = words.next().unwrap_or("main").to_owned();
            user = words.next().unwrap_or("postgres").to_owned();
            if user != "postgres" && !sessions.contains_key(&current) {
                let mut first = Arc::clone(&database).session(SessionOptions::default()).expect("session");
                // It may be there.
                let _ = first.query(&format!("CREATE ROLE {user} LOGIN")).await;
            }
            continue;
        }
        if !direct && (record.sql.starts_with("EXPLAIN") || record.sql.contains("FROM resurgam_plans")) {
            continue; // tells what runs
        }
        let session = sessions.entry(current.clone()).or_insert_with(|| {
            let options = SessionOptions { user: user.clone(), ..SessionOptions::default() };
            Arc::clone(&database).session(options).expect("session")
        });
        let mut complain = |what: String| {
            failures.push(format!(
                "{}:{} after {mode}: {what}\n    {}",
                path.display(),
                record.line,
                record.sql.trim()
            ));
        };
        let result = session.query(&record.sql).await;
        match (kind, words.next(), result) {
            ("statement", Some("ok"), Ok(_)) => {}
            ("statement", Some("ok"), Err(error)) => complain(error.to_string()),
            ("statement", Some("error"), Err(error)) => {
                let wanted = words.next().unwrap_or("");
                if error.sqlstate != wanted {
                    complain(format!("expected {wanted}, got {error}"));
                }
                let words: Vec<&str> = words.collect();
                if !words.is_empty() && !error.message.contains(&words.join(" ")) {
                    complain(format!("expected \"{}\", got {error}", words.join(" ")));
                }
            }
            ("told", _, Err(error)) => {
                let mut told = vec![format!("ERROR:  {}: {}", error.sqlstate, error.message)];
                told.extend(error.detail.iter().map(|detail| format!("DETAIL:  {detail}")));
                told.extend(error.hint.iter().map(|hint| format!("HINT:  {hint}")));
                if told != record.expected {
                    let (expected, told) = (record.expected.join("\n        "), told.join("\n        "));
                    complain(format!("expected\n        {expected}\n    got\n        {told}"));
                }
            }
            ("told", _, Ok(result)) => complain(format!("expected an error, got {result:?}")),
            ("statement", Some("error"), Ok(result)) => complain(format!("expected an error, got {result:?}")),
            ("tag", Some(first), result) => {
                let wanted = std::iter::once(first).chain(words).collect::<Vec<_>>().join(" ");
                match result {
                    Ok(result) if result.tag == wanted => {}
                    Ok(result) => complain(format!("expected tag {wanted}, got {}", result.tag)),
                    Err(error) => complain(error.to_string()),
                }
            }
            ("query", mode, Ok(result)) => {
                let mut rows: Vec<String> = result
                    .rows
                    .iter()
                    .map(|row| row.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join("|"))
                    .collect();
                // Estimates change with what is known of tables: rows are compared where they are asked for.
                if record.sql.starts_with("EXPLAIN") {
                    let has_rows = record.sql.contains("COSTS");
                    rows.iter_mut().for_each(|line| without_estimate(line, has_rows));
                    // Other formats than TEXT are one value.
                    rows = rows.iter().flat_map(|row| row.split('\n')).map(str::to_owned).collect();
                }
                let mut expected = record.expected.clone();
                if mode == Some("names") {
                    rows = vec![result.columns.join("|")];
                }
                if mode == Some("rowsort") {
                    rows.sort();
                    expected.sort();
                }
                if rows != expected {
                    complain(format!(
                        "expected\n        {}\n    got\n        {}",
                        expected.join("\n        "),
                        rows.join("\n        ")
                    ));
                }
            }
            ("query", _, Err(error)) => complain(error.to_string()),
            (other, _, _) => complain(format!("unknown record {other}")),
        }
    }
    failures
}

/// A line of EXPLAIN without what is expected of the operator, or with the rows alone.
fn without_estimate(line: &mut String, has_rows: bool) {
    let Some(at) = line.find("  (cost=") else { return };
    let end = line[at..].find(')').map_or(line.len(), |end| at + end + 1);
    let rows = line[at..end].split(' ').find(|word| word.starts_with("rows="));
    let kept = rows.filter(|_| has_rows).map(|rows| format!(" ({rows})")).unwrap_or_default();
    line.replace_range(at..end, &kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_answer_as_postgresql_does() {
    let mut paths: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt"))
        .expect("folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let filter = std::env::var("SLT").unwrap_or_default();
    let mut failures = Vec::new();
    for path in paths {
        if path.to_string_lossy().contains(&filter) {
            for mode in MODES {
                failures.extend(run(&path, mode).await);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
