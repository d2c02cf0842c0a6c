//! Scripts of statements with what PostgreSQL 15 answers, run through a session.
//!
//! A script is a file in `tests/fixtures` of `resurgam-pg`: a head, then blocks. A block is a line with `#` and
//! a statement, and below it the rows (`|` between fields, `∅` for null) or the error. All
//! statements of a script run in one session on a fresh database.

use std::fmt::Write as _;

use resurgam_engine::{Database, Options};
use resurgam_sql::{SessionOptions, SqlDatabase, SqlSettings};

/// Runs the statements and gives the script back with the answers that were got.
async fn answers(statements: &[&str], accelerated: bool) -> Vec<String> {
    let folder = tempfile::tempdir().expect("folder");
    let engine =
        Database::open(folder.path(), Options { accelerated_database_recovery: accelerated, ..Options::default() })
            .expect("database");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let mut session = database.session(SessionOptions::default()).expect("session");
    let mut out = Vec::new();
    for statement in statements {
        out.push(match session.query(statement).await {
            Ok(result) => {
                let rows: Vec<String> = result
                    .rows
                    .iter()
                    .map(|row| row.iter().map(|f| f.as_deref().unwrap_or("∅")).collect::<Vec<_>>().join("|"))
                    .collect();
                rows.join("\n")
            }
            Err(error) => format!("ERROR:  {}: {}", error.sqlstate, error.message),
        });
    }
    out
}

async fn check(script: &str) {
    let blocks: Vec<(&str, &str)> = script
        .split("\n#")
        .skip(1)
        .map(|block| block.split_once('\n').unwrap_or((block, "")))
        .map(|(statement, expected)| (statement, expected.trim_end_matches('\n')))
        .collect();
    let statements: Vec<&str> = blocks.iter().map(|(statement, _)| *statement).collect();
    let mut failures = String::new();
    for accelerated in [true, false] {
        for ((statement, expected), got) in blocks.iter().zip(answers(&statements, accelerated).await) {
            if got != *expected {
                let _ = writeln!(failures, "{statement}\n--- expected\n{expected}\n--- got\n{got}\n");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(!blocks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions() {
    check(include_str!("../../pg/tests/fixtures/expressions.txt")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables() {
    check(include_str!("../../pg/tests/fixtures/tables.txt")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enums() {
    check(include_str!("../../pg/tests/fixtures/enums.txt")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn domains() {
    check(include_str!("../../pg/tests/fixtures/domains.txt")).await;
}

/// Every query that psql 15 sends for its backslash commands runs.
#[tokio::test(flavor = "multi_thread")]
async fn psql() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../pg/tests/fixtures/psql");
    let texts: Vec<String> = std::fs::read_dir(folder)
        .expect("fixtures")
        .flatten()
        .map(|file| std::fs::read_to_string(file.path()).expect("fixture"))
        .collect();
    let statements: Vec<&str> =
        texts.iter().flat_map(|text| text.split(";\n")).filter(|query| !query.trim().is_empty()).collect();
    for (statement, answer) in statements.iter().zip(answers(&statements, true).await) {
        assert!(!answer.starts_with("ERROR:"), "{statement}\n{answer}");
    }
}
