//! Numbers, times and series with PostgreSQL 15's digits: `crates/pg/tests/fixtures/numeric.txt` has what it answers.
//!
//! Each line is a query, the types of its columns, and its rows (columns divided by `|`, rows by ` / `) or `!` and
//! an SQLSTATE, divided by tabs. Types are compared by the server's tests. A line that begins with `#` is a query
//! that is known to differ, with the reason in its last field.

use std::sync::Arc;

use resurgam_engine::{ColumnType, Database, DatumRef, Durability, Isolation, Options, TableSpec};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

const SETUP: [&str; 2] = [
    "CREATE TABLE t (i int PRIMARY KEY, n numeric(12,2), b bigint, s smallint, f float8, f4 real)",
    "INSERT INTO t VALUES (1, 1.5, 10, 1, 0.1, 0.1), (2, 100, 20, 2, 0.2, 0.2), (3, 1.50, 30, 3, 0.3, 0.3), \
     (4, NULL, NULL, NULL, NULL, NULL), (5, -2.25, 9223372036854775807, 32767, 10000000000, 16777216)",
];

fn session() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings::default());
    let session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    (dir, session)
}

async fn answer(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => {
            let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
            let row = |row: &Vec<Option<String>>| row.iter().map(cell).collect::<Vec<_>>().join("|");
            result.rows.iter().map(row).collect::<Vec<_>>().join(" / ")
        }
        Err(error) => format!("!{}", error.sqlstate),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digits_are_postgresqls() {
    let (_dir, mut session) = session();
    for sql in SETUP {
        session.query(sql).await.expect("prepare");
    }
    let (mut queries, mut wrong) = (0, Vec::new());
    // Twice: a plan that is kept answers as one that is made.
    for _ in 0..2 {
        for line in include_str!("../../pg/tests/fixtures/numeric.txt").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [sql, _, wanted] = fields.as_slice() else { panic!("{line}") };
            queries += 1;
            let ours = answer(&mut session, sql).await;
            if ours != *wanted {
                wrong.push(format!("{sql}\n  {ours}\n  {wanted}"));
            }
        }
    }
    assert!(queries > 100);
    assert!(wrong.is_empty(), "{} of {queries} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Columns of `numeric` without precision as they were once: ten digits after the point, printed without zeros at
/// the end. Such tables read and write as they did, meet the columns of today, and become such by ALTER.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_earlier_versions() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let once = ColumnType::Numeric { precision: 38, scale: 10 };
    let spec = TableSpec::new("public", "once").column("id", once).column("v", once).primary_key(&["id"]).index(
        "once_v",
        &["v"],
        false,
    );
    let transaction = engine.begin(Isolation::ReadCommitted);
    let table = transaction.create_table(spec).expect("create").done().expect("no wait");
    for id in 1..=3i128 {
        let row = [DatumRef::Numeric(id * 10i128.pow(10)), DatumRef::Numeric(id * 12_000_000_000)];
        transaction.insert(&table, &row).expect("insert").done().expect("no wait");
    }
    transaction.commit(Durability::Sync).expect("commit").wait().expect("durable");

    let database = SqlDatabase::new(engine, SqlSettings::default());
    let mut session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    let session = &mut session;
    for (sql, wanted) in [
        ("SELECT * FROM once ORDER BY id", "1|1.2 / 2|2.4 / 3|3.6"),
        ("SELECT id FROM once WHERE v = 2.400 AND id = 2.0", "2"),
        ("SELECT min(v), max(v), sum(v) FROM once", "1.2|3.6|7.2"),
        ("INSERT INTO once VALUES (4.0, 1.20000000005) RETURNING *", "4|1.2000000001"),
        ("INSERT INTO once VALUES (4.00, 1)", "!23505"),
        ("UPDATE once SET v = v + 0.50 WHERE id = 4 RETURNING v", "1.7000000001"),
        ("CREATE TABLE now AS SELECT * FROM once WHERE id < 4", ""),
        ("INSERT INTO now VALUES (1.00, 1.20)", ""),
        (
            "SELECT a.id, b.v FROM once a JOIN now b ON a.v = b.v ORDER BY a.id, b.v::text",
            "1|1.2 / 1|1.20 / 2|2.4 / 3|3.6",
        ),
        ("SELECT count(*) FROM (SELECT v FROM once UNION SELECT v FROM now) u", "4"),
        ("ALTER TABLE now ADD FOREIGN KEY (id) REFERENCES once", ""),
        ("DELETE FROM once WHERE id = 1", "!23503"),
        ("INSERT INTO now VALUES (1.5, 0)", "!23503"),
        ("DELETE FROM once WHERE id = 4 RETURNING id", "4"),
        ("ALTER TABLE now DROP CONSTRAINT now_id_fkey", ""),
        ("ALTER TABLE once ALTER COLUMN v TYPE numeric", ""),
        ("ALTER TABLE once ALTER COLUMN id TYPE numeric", ""),
        ("UPDATE once SET v = 1.20, id = 1.0 WHERE id = 1", ""),
        ("SELECT * FROM once WHERE v = 1.2", "1.0|1.20"),
        ("SELECT * FROM once ORDER BY v DESC", "3|3.6 / 2|2.4 / 1.0|1.20"),
    ] {
        assert_eq!(answer(session, sql).await, wanted, "{sql}");
    }
}
