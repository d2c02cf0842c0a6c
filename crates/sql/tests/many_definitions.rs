//! Many changes of definitions in one transaction: what a statement costs does not depend on how
//! many there were before it. Nothing here is timed: definitions that are read again are counted.

use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

const MANY: usize = 300;

async fn run(session: &mut Session, sql: &str) -> Vec<Vec<Option<String>>> {
    match session.query(sql).await {
        Ok(result) => result.rows,
        Err(error) => panic!("{sql}: {} {}", error.sqlstate, error.message),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_do_not_read_all_definitions_again() {
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
        let database = SqlDatabase::new(engine.clone(), SqlSettings::default());
        let mut session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
        run(&mut session, "CREATE TABLE parent (id int PRIMARY KEY)").await;
        run(&mut session, &format!("BEGIN ISOLATION LEVEL {isolation}")).await;
        let before = engine.definition_counts().read;
        for i in 0..MANY {
            let create = format!(
                "CREATE TABLE t{i} (a int PRIMARY KEY, b int UNIQUE DEFAULT 1 + 1, c int CHECK (c > 0) REFERENCES parent)"
            );
            run(&mut session, &create).await;
            run(&mut session, &format!("CREATE INDEX ON t{i} (c)")).await;
            run(&mut session, &format!("INSERT INTO t{i} VALUES (1)")).await;
            match i % 5 {
                0 => run(&mut session, &format!("ALTER TABLE t{i} ADD COLUMN d text DEFAULT 'x'")).await,
                1 => run(&mut session, &format!("DROP INDEX t{i}_c_idx")).await,
                2 => run(&mut session, &format!("ALTER TABLE t{i} RENAME TO u{i}")).await,
                3 => run(&mut session, &format!("DROP TABLE t{i}")).await,
                _ => {
                    run(&mut session, "SAVEPOINT s").await;
                    run(&mut session, &format!("TRUNCATE t{i}")).await;
                    run(&mut session, &format!("DROP TABLE t{i}")).await;
                    run(&mut session, "ROLLBACK TO s").await;
                    run(&mut session, &format!("SELECT b, c FROM t{i}")).await
                }
            };
        }
        let read = engine.definition_counts().read - before;
        assert!(read <= 20, "{isolation}: {read} definitions were read for {MANY} tables");
        // And nothing is forgotten.
        let names = |list: &[Vec<Option<String>>]| {
            let of = |row: &Vec<Option<String>>| row.iter().flatten().cloned().collect::<Vec<_>>().join(" ");
            list.iter().map(of).collect::<Vec<_>>()
        };
        let sql = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace ORDER BY 1";
        let inside = names(&run(&mut session, sql).await);
        run(&mut session, "COMMIT").await;
        assert_eq!(names(&run(&mut session, sql).await), inside, "{isolation}");
        let tables = 1 + MANY / 5 * 4;
        // A primary key and a unique key each, an index of all but those whose index was dropped.
        let indexes = 1 + MANY / 5 * (3 + 2 + 3 + 3);
        assert_eq!(inside.len(), tables + indexes, "{isolation}");
    }
}

/// Names that are made, and names that are taken: those of the transaction's own tables count, and
/// those that it has given back do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_own_tables() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let mut session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    for sql in [
        "CREATE TABLE a (x int, y int)",
        "BEGIN",
        "CREATE INDEX ON a (x)",
        "CREATE INDEX ON a (x)",
        "CREATE TABLE b_pkey (x int)",
        "CREATE TABLE b (x int PRIMARY KEY)",
        "SAVEPOINT s",
    ] {
        run(&mut session, sql).await;
    }
    for (sql, state) in [
        ("CREATE TABLE b (x int)", "42P07"),
        ("CREATE TABLE a_x_idx1 (x int)", "42P07"),
        ("CREATE INDEX b ON a (y)", "42P07"),
        ("DROP TABLE a_x_idx", "42809"),
        ("DROP INDEX a_y_idx", "42704"),
        ("DROP INDEX b", "42809"),
        ("ALTER TABLE a ADD CONSTRAINT b_pkey UNIQUE (x)", "42P07"),
    ] {
        let error = session.query(sql).await.err().map(|error| error.sqlstate.to_string());
        assert_eq!(error.as_deref(), Some(state), "{sql}");
        run(&mut session, "ROLLBACK TO s").await;
    }
    for sql in [
        "DROP INDEX a_x_idx",
        "CREATE TABLE a_x_idx (x int)",
        "ALTER TABLE b RENAME TO c",
        "CREATE TABLE b (x int PRIMARY KEY)",
        "ROLLBACK TO s",
        "ALTER INDEX a_x_idx RENAME TO i",
        "DROP TABLE b",
        "CREATE TABLE b (x int PRIMARY KEY)",
        "CREATE INDEX IF NOT EXISTS i ON a (y)",
        "COMMIT",
    ] {
        run(&mut session, sql).await;
    }
    let rows = run(&mut session, "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1").await;
    let found: Vec<String> = rows.into_iter().flatten().flatten().collect();
    assert_eq!(found, ["a_x_idx1", "b_pkey1", "i"]);
}
