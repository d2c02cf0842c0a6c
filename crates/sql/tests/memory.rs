//! What statements may take of memory and temporary files: beyond it they spill, or end with 53200, 53400 or 54000, and
//! the session goes on.

use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::wire::{Execution, SqlError};
use resurgam_sql::{Session, SessionOptions, SimpleStatement, SqlDatabase, SqlSettings};

fn open(query_memory_bytes: u64) -> (tempfile::TempDir, Arc<SqlDatabase>) {
    let dir = tempfile::tempdir().expect("folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let settings = SqlSettings { query_memory_bytes, ..SqlSettings::default() };
    (dir, SqlDatabase::new(engine, settings))
}

fn session(database: &Arc<SqlDatabase>) -> Session {
    Arc::clone(database).session(SessionOptions::default()).expect("session")
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let result = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail));
    result.rows.into_iter().map(|mut row| row.swap_remove(0).unwrap_or_default()).collect()
}

async fn code(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => panic!("{sql}: {} rows", result.rows.len()),
        Err(error) => error.sqlstate.clone(),
    }
}

/// Wide rows, 4 kB each, in no order.
async fn wide(session: &mut Session, count: usize) {
    rows(session, "CREATE TABLE w (id int PRIMARY KEY, k text, t text)").await;
    let fill = format!(
        "INSERT INTO w SELECT i, md5(i::text), repeat(md5(i::text), 125) FROM generate_series(1, {count}) AS s(i)"
    );
    rows(session, &fill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sorts_aggregates_and_windows_spill() {
    let (dir, database) = open(64 << 20);
    let mut session = session(&database);
    wide(&mut session, 30_000).await;
    rows(&mut session, "SET work_mem = '8MB'").await;
    let spilling = [
        ("SELECT count(*), min(length(t)) FROM (SELECT t FROM w ORDER BY t DESC, id OFFSET 1) AS q", "29999"),
        ("SELECT count(*), min(k), min(length(t)) FROM (SELECT k, t FROM w ORDER BY k, t OFFSET 20000) AS q", "10000"),
        ("SELECT count(*) FROM (SELECT t || 'x', count(*) FROM w GROUP BY 1) AS q", "30000"),
        ("SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY t DESC) AS n, t FROM w) AS q WHERE t > ''", "30000"),
        ("SELECT count(*) FROM (SELECT DISTINCT t || 'y' FROM w) AS q", "30000"),
        // The rows of a LIMIT are many, too.
        ("SELECT count(*), min(length(t)) FROM (SELECT t FROM w ORDER BY t DESC LIMIT 25000) AS q", "25000"),
        ("SELECT count(t) FROM (SELECT t FROM w ORDER BY k OFFSET 20000 LIMIT 1) AS q", "1"),
    ];
    for (sql, wanted) in spilling {
        let before = database.temp_totals();
        let answer = rows(&mut session, sql).await;
        let after = database.temp_totals();
        assert_eq!(answer, [wanted], "{sql}");
        assert!(after.bytes > before.bytes + (50 << 20), "{sql}: it wrote {before:?} to {after:?}");
    }
    // In the order of their first bytes, whichever these are.
    let all = rows(&mut session, "SELECT t FROM w ORDER BY t").await;
    assert!(all.len() == 30_000 && all.is_sorted());
    let totals = database.temp_totals();
    assert_eq!(totals.bytes_now, 0, "nothing is left behind");
    let shown = rows(
        &mut session,
        "SELECT temp_files || ' ' || temp_bytes FROM pg_stat_database WHERE datname = current_database()",
    )
    .await;
    assert_eq!(shown, [format!("{} {}", totals.files, totals.bytes)]);
    let folder = dir.path().join("data").join("resurgam_tmp");
    assert_eq!(std::fs::read_dir(folder).expect("the folder").count(), 0);

    rows(&mut session, "SET temp_file_limit = '1MB'").await;
    assert_eq!(code(&mut session, spilling[0].0).await, "53400");
    rows(&mut session, "SET temp_file_limit = -1").await;
    assert_eq!(rows(&mut session, spilling[0].0).await, ["29999"]);
}

/// CREATE INDEX, ADD PRIMARY KEY and REINDEX put what they sort where all temporary files are, count it, and keep to the limit.
#[tokio::test(flavor = "multi_thread")]
async fn sorts_of_indexes_are_temporary_files() {
    let dir = tempfile::tempdir().expect("folder");
    let (data, temp) = (dir.path().join("data"), dir.path().join("temp"));
    std::fs::create_dir(&temp).expect("folder");
    std::fs::create_dir(temp.join("resurgam_tmp")).expect("folder");
    std::fs::write(temp.join("resurgam_tmp").join("spill-1.7"), "of a power loss").expect("file");
    let options = Options { build_bytes: 64 << 10, ..Options::default() };
    let engine = Database::open(&data, options).expect("open");
    let settings = SqlSettings { temp_directory: Some(temp.clone()), ..SqlSettings::default() };
    let database = SqlDatabase::new(engine, settings);
    let mut session = session(&database);
    rows(&mut session, "CREATE TABLE r (id int, k text)").await;
    let fill = "INSERT INTO r SELECT (i * 7919) % 40009, md5(i::text) FROM generate_series(1, 40000) AS s(i)";
    rows(&mut session, fill).await;
    for (sql, bytes) in [
        ("CREATE INDEX r_k ON r (k)", 1_500_000),
        ("ALTER TABLE r ADD PRIMARY KEY (id)", 3_000_000),
        ("REINDEX INDEX r_k", 1_500_000),
        ("ALTER TABLE r ALTER COLUMN id TYPE bigint USING -id", 3_000_000),
    ] {
        rows(&mut session, "SET temp_file_limit = '1MB'").await;
        let before = database.temp_totals();
        let error = session.query(sql).await.map(|_| ()).expect_err("more than there may be");
        assert_eq!(
            (error.sqlstate.as_str(), error.message.as_str()),
            ("53400", "temporary file size exceeds temp_file_limit (1024kB)"),
            "{sql}"
        );
        let after = database.temp_totals();
        assert!(after.files > before.files && after.bytes_now == 0, "{sql}: {before:?} to {after:?}");
        assert_eq!(database.engine().builds(), []);
        // Nothing of it stays.
        let problems = database.engine().verify().expect("it can be read");
        assert!(problems.is_empty(), "{sql}: {problems:?}");
        rows(&mut session, "SET temp_file_limit = -1").await;
        let before = database.temp_totals();
        rows(&mut session, sql).await;
        let after = database.temp_totals();
        assert!(after.bytes > before.bytes + bytes && after.bytes_now == 0, "{sql}: {before:?} to {after:?}");
    }
    let found = "SELECT id || ' ' || (SELECT count(*) FROM r) FROM r WHERE k = md5('777')";
    assert_eq!(rows(&mut session, found).await, [format!("{} 40000", -(777 * 7919 % 40009))]);
    let totals = database.temp_totals();
    let shown = "SELECT temp_files || ' ' || temp_bytes FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(rows(&mut session, shown).await, [format!("{} {}", totals.files, totals.bytes)]);
    assert_eq!(std::fs::read_dir(temp.join("resurgam_tmp")).expect("the folder").count(), 0, "what was left is gone");
    assert!(!data.join("resurgam_tmp").exists());
}

/// Joins of tables that do not fit.
const JOINS: [&str; 6] = [
    "SELECT count(*) || ' ' || sum(length(a.t)) || ' ' || sum(b.id) FROM w a JOIN w b ON a.k || '' = b.k || ''",
    "SELECT count(*) || ' ' || count(b.t) FROM w a LEFT JOIN w b ON a.k || '' = b.k || '' AND b.id % 3 = 0",
    "SELECT count(*) || ' ' || count(b.t) FROM w a FULL JOIN w b ON a.id + 7 = b.id + 0 AND a.t || '' < b.t",
    "SELECT count(*) FROM w a WHERE EXISTS (SELECT FROM w b WHERE a.t || '' = b.t || '' AND b.id > 100)",
    "SELECT count(*) FROM w a WHERE NOT EXISTS (SELECT FROM w b WHERE a.t || '' = b.t || '' AND b.id > 100)",
    // Rows without a partner have no values of columns that are NOT NULL.
    "SELECT count(*) || ' ' || sum(length(b.t)) || ' ' || count(c.t) FROM w b \
     LEFT JOIN w c ON c.id + 0 = nullif(b.id % 200, 7) AND c.id + b.id <> 26",
];

/// What sorts lay by follows the memory that there is: a join has two of them.
#[tokio::test(flavor = "multi_thread")]
async fn joins_spill_in_little_memory() {
    let (_dir, database) = open(32 << 20);
    let mut session = session(&database);
    rows(&mut session, "SET work_mem = '1MB'").await;
    rows(&mut session, "CREATE TABLE n (id int PRIMARY KEY, k text, t text)").await;
    let fill = "INSERT INTO n SELECT i, 'k' || i, repeat(chr(97 + i % 26), 300) || i FROM generate_series(1, 60000) i";
    rows(&mut session, fill).await;
    // What a join has of each side is more than the half of these 32 MB that a statement has.
    let queries = [
        (
            "SELECT count(*) || ' ' || sum(a.id) || ' ' || min(length(b.t)) FROM n a JOIN n b ON a.t || '' = b.t || ''",
            "60000 1800030000 301",
        ),
        (
            "SELECT count(*) || ' ' || count(b.t) FROM n a LEFT JOIN n b ON a.t || '' = b.t || '' AND b.id % 3 = 0",
            "60000 20000",
        ),
        ("SELECT count(*) FROM n a WHERE EXISTS (SELECT FROM n b WHERE a.t || '' = b.t || '' AND b.id > 100)", "59900"),
    ];
    for (sql, wanted) in queries {
        let before = database.temp_totals().bytes;
        assert_eq!(rows(&mut session, sql).await, [wanted], "{sql}");
        assert!(database.temp_totals().bytes > before, "{sql}: nothing spilled");
    }
}

/// A hash join whose side is more than there is becomes a merge of sorts; answers are those of more memory.
#[tokio::test(flavor = "multi_thread")]
async fn joins_that_do_not_fit_spill() {
    let (_dir, large) = open(2 << 30);
    let mut wanted = session(&large);
    wide(&mut wanted, 40_000).await;
    let (_dir, small) = open(256 << 20);
    let mut got = session(&small);
    wide(&mut got, 40_000).await;
    rows(&mut got, "SET work_mem = '8MB'").await;
    let mut spilled = 0;
    for sql in JOINS {
        let before = small.temp_totals().bytes;
        assert_eq!(rows(&mut got, sql).await, rows(&mut wanted, sql).await, "{sql}");
        spilled += usize::from(small.temp_totals().bytes > before);
    }
    assert!(spilled >= 3, "{spilled} of {} spilled", JOINS.len());
    assert_eq!(large.temp_totals().files, 0);
    // So is the query of a statement that writes.
    rows(&mut got, "CREATE TABLE s (id int, n int)").await;
    let insert = "INSERT INTO s SELECT a.id, length(b.t) FROM w a JOIN w b ON a.t || '' = b.t || ''";
    rows(&mut got, insert).await;
    assert_eq!(rows(&mut got, "SELECT count(*) || ' ' || sum(n) FROM s").await, ["40000 160000000"]);
    rows(&mut got, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(rows(&mut got, JOINS[0]).await, rows(&mut wanted, JOINS[0]).await);
    rows(&mut got, "COMMIT").await;
    // The next statement of the session begins as any other.
    assert_eq!(rows(&mut got, "SELECT count(*) FROM w a JOIN w b USING (id)").await, ["40000"]);
    // So is that of a MERGE: half of its rows match, and half are inserted.
    let before = small.temp_totals().bytes;
    let merge = "MERGE INTO w USING (SELECT id + 40000 AS id, CASE id % 2 WHEN 0 THEN t ELSE '-' || t END AS t FROM w) \
                 AS s ON w.t || '' = s.t || '' WHEN MATCHED THEN UPDATE SET k = 'found' \
                 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new', s.t)";
    rows(&mut got, merge).await;
    let counted = "SELECT count(*) || ' ' || count(*) FILTER (WHERE k = 'found') FROM w";
    assert_eq!(rows(&mut got, counted).await, ["60000 20000"]);
    assert!(small.temp_totals().bytes > before, "it did not spill");
}

/// Each ends with that error, and leaves nothing reserved.
#[tokio::test(flavor = "multi_thread")]
async fn bombs_end_with_an_error() {
    let (_dir, database) = open(32 << 20);
    let mut session = session(&database);
    rows(&mut session, "CREATE TABLE s (id int PRIMARY KEY, t text)").await;
    let literal = format!("SELECT length('{}')", "x".repeat(20 << 20));
    let list = format!("SELECT 1 WHERE 5 IN ({}0)", "1,".repeat(1 << 20));
    let bombs = [
        ("SELECT repeat('x', 2000000000)", "54000"),
        ("SELECT length(repeat('xy', i)) FROM generate_series(1000000000, 1000000001) AS s(i)", "54000"),
        ("SELECT lpad('x', 1000000000)", "54000"),
        ("SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 9000)))", "54000"),
        ("SELECT length(repeat(repeat('x', 1000000), 1000))", "53200"),
        ("SELECT length(rpad('x', 100000000, 'y'))", "53200"),
        ("INSERT INTO s SELECT i, repeat('x', 100000) FROM generate_series(1, 1000) AS s(i) RETURNING t", "53200"),
        (literal.as_str(), "53200"),
        (list.as_str(), "53200"),
    ];
    for (sql, wanted) in bombs {
        let shown: String = sql.chars().take(80).collect();
        assert_eq!(code(&mut session, sql).await, wanted, "{shown}");
        assert_eq!(rows(&mut session, "SELECT 1").await, ["1"], "{shown}");
        assert_eq!(database.query_memory().0, 0, "{shown}");
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM s").await, ["0"]);
}

/// Columns that would be gigabytes are made a few rows at a time.
#[tokio::test(flavor = "multi_thread")]
async fn long_columns_are_made_in_pieces() {
    let (_dir, database) = open(32 << 20);
    let mut session = session(&database);
    let answers = [
        (
            "SELECT max(length(x)) FROM (SELECT repeat('x', 1000000) || i AS x FROM generate_series(1, 3000) AS s(i)) AS q",
            "1000004",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 3000) AS s(i) WHERE length(repeat('x', 1000000) || i) > 1000003",
            "2001",
        ),
        ("SELECT sum(length(repeat('xy', i))) FROM generate_series(1, 10000) AS s(i)", "100010000"),
        ("SELECT count(DISTINCT length(lpad('x', 100000, 'y' || i))) FROM generate_series(1, 3000) AS s(i)", "1"),
        (
            "SELECT sum(length(replace(repeat('a', i), 'a', repeat('b', 1000)))) FROM generate_series(1, 2000) AS s(i)",
            "2001000000",
        ),
        (
            "SELECT max(length(concat(repeat('x', 100000), i, repeat('y', 100000)))) FROM generate_series(1, 9000) AS s(i)",
            "200004",
        ),
    ];
    for (sql, wanted) in answers {
        assert_eq!(rows(&mut session, sql).await, [wanted], "{sql}");
    }
    // Their order and their number stay, at the borders of pieces, too.
    let sql = "SELECT i || ':' || length(repeat('z', i % 7 * 1000000) || i) FROM generate_series(1, 100) AS s(i)";
    let wanted: Vec<String> =
        (1..=100).map(|i: usize| format!("{i}:{}", i % 7 * 1_000_000 + i.to_string().len())).collect();
    assert_eq!(rows(&mut session, sql).await, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_postgresqls() {
    let (_dir, database) = open(64 << 20);
    let mut session = session(&database);
    for (value, shown) in
        [("'1MB'", "1MB"), ("1000000", "1000000kB"), ("'2GB'", "2GB"), ("65", "65kB"), ("DEFAULT", "64MB")]
    {
        rows(&mut session, &format!("SET work_mem = {value}")).await;
        assert_eq!(rows(&mut session, "SHOW work_mem").await, [shown]);
    }
    for value in ["'1kB'", "'1XB'", "'x'", "-1"] {
        assert_eq!(code(&mut session, &format!("SET work_mem = {value}")).await, "22023", "{value}");
    }
    assert_eq!(rows(&mut session, "SHOW temp_file_limit").await, ["-1"]);
    rows(&mut session, "CREATE ROLE somebody LOGIN").await;
    let mut other = Arc::clone(&database)
        .session(SessionOptions { user: "somebody".to_owned(), ..SessionOptions::default() })
        .expect("session");
    assert_eq!(code(&mut other, "SET temp_file_limit = 1").await, "42501");
}

/// The next rows of an answer, or of a copy, and how many these are.
async fn part(session: &mut Session, execution: &mut Execution) -> Result<Option<usize>, SqlError> {
    match execution {
        Execution::Rows { rows: Some(rows), .. } => Ok(rows.next(session).await?.map(|chunk| chunk.len())),
        Execution::CopyOut(copy) => {
            Ok(copy.next(session).await?.map(|data| data.into_data().iter().filter(|byte| **byte == b'\n').count()))
        }
        _ => panic!("other rows than those of a stream"),
    }
}

/// A statement that was begun, and the rows of the first parts of its answer.
async fn begun(session: &mut Session, statement: SimpleStatement) -> Result<(Execution, usize), SqlError> {
    let mut execution = session.execute_simple(statement, true).await?;
    let mut got = match &execution {
        Execution::Rows { first: Some(chunk), .. } => chunk.len(),
        _ => 0,
    };
    for _ in 0..20 {
        got += part(session, &mut execution).await?.expect("there is more");
    }
    Ok((execution, got))
}

/// What was computed for clients that do not read it is of the memory of queries too, whether they ask for rows or copy them;
/// another statement ends when there is none left, and all of it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_read_is_counted() {
    let (_dir, database) = open(48 << 20);
    let mut first = session(&database);
    wide(&mut first, 8000).await;
    let before = database.query_memory().0;
    let (mut waiting, mut refused) = (Vec::new(), 0);
    for at in 0..40 {
        let mut session = session(&database);
        let sql = if at % 2 == 0 { "SELECT * FROM w" } else { "COPY w TO STDOUT" };
        let statement = session.split(sql).expect("one").pop().expect("one");
        match begun(&mut session, statement).await {
            Ok(begun) => waiting.push((session, begun)),
            Err(error) => {
                assert_eq!(error.sqlstate, "53200", "{error}");
                refused += 1;
            }
        }
    }
    let counted = database.query_memory().0 - before;
    println!("{} wait, {refused} were refused, {counted} bytes are counted", waiting.len());
    assert!(refused > 0 && waiting.len() > 2);
    assert!(counted > 20 << 20, "{counted} bytes for {} clients", waiting.len());
    // Who goes on gets all of it.
    waiting.truncate(2);
    for (session, (execution, got)) in &mut waiting {
        while let Some(rows) = part(session, execution).await.expect("more") {
            *got += rows;
        }
        assert_eq!(*got, 8000);
    }
    drop(waiting);
    assert_eq!(database.query_memory().0, before, "all of it comes back");
}

/// What a session had given a name to, and let go of, is free for others, whether a cache still has it or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deallocated_is_free_for_others() {
    let (_dir, database) = open(64 << 20);
    let (mut sessions, mut counts) = (Vec::new(), Vec::new());
    let long = "x".repeat(200_000);
    for turn in 0..4 {
        let mut session = session(&database);
        let mut count = 0;
        let refused = loop {
            let sql = format!("SELECT length('{long}') + {turn} + {count}");
            match session.parse(&format!("s{count}"), &sql, &[]).await {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 2000, "there is no bound");
        };
        assert_eq!(refused.sqlstate, "53200", "{refused:?}");
        rows(&mut session, "DEALLOCATE ALL").await;
        counts.push(count);
        sessions.push(session);
    }
    println!("{counts:?}");
    assert!(counts[0] > 10 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

/// Rows of a WITH query that is computed once go to temporary files beyond `work_mem`, and are the same for all who read.
#[tokio::test(flavor = "multi_thread")]
async fn with_queries_that_are_kept_spill() {
    let (_dir, database) = open(64 << 20);
    let mut session = session(&database);
    rows(&mut session, "SET work_mem = '4MB'").await;
    let before = database.temp_totals();
    let sql = "WITH x AS (SELECT g, random() AS r, repeat(md5(g::text), 20) AS t FROM generate_series(1, 100000) AS s(g)) \
               SELECT concat((SELECT count(*) FROM x), ' ', (SELECT count(*) FROM x WHERE length(t) = 640), ' ', \
               (SELECT sum(r) FROM x) = (SELECT sum(r) FROM x), ' ', (SELECT count(*) FROM x AS a JOIN x AS b USING (g) \
               WHERE a.r <> b.r))";
    assert_eq!(rows(&mut session, sql).await, ["100000 100000 t 0"]);
    let after = database.temp_totals();
    assert!(after.bytes > before.bytes + (40 << 20), "it wrote {before:?} to {after:?}");
    assert_eq!(after.bytes_now, 0, "nothing is left behind");
    // What RETURNING gives to the statement around, too.
    rows(&mut session, "CREATE TABLE w (id int PRIMARY KEY, t text)").await;
    let sql = "WITH i AS (INSERT INTO w SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 4000) AS s(g) RETURNING *) \
               SELECT count(*) || ' ' || (SELECT count(*) FROM i WHERE length(t) = 320) FROM i";
    assert_eq!(rows(&mut session, sql).await, ["4000 4000"]);
    assert_eq!(database.temp_totals().bytes_now, 0);
    // It is left while it is read: what it has goes with it.
    let sql = "WITH x AS (SELECT g, random() AS r, repeat(md5(g::text), 20) AS t FROM generate_series(1, 100000) AS s(g)) \
               SELECT 1 / (g - 99000) FROM x WHERE g = 99000 AND r IN (SELECT r FROM x)";
    assert_eq!(code(&mut session, sql).await, "22012");
    assert_eq!(database.temp_totals().bytes_now, 0);
    assert_eq!(rows(&mut session, "SELECT 1").await, ["1"]);
}
