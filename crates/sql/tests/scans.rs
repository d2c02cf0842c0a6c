//! Large tables are read by several threads, and conditions are asked before all columns are decoded: the answers are
//! those of plans without either, in the same order.

use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::{
    Planning, QueryResult, Session, SessionOptions, SqlDatabase, SqlError, SqlSettings, scan_workers_begun,
};

const ROWS: u32 = 30_000;

/// One database, and sessions of two ways to plan.
struct Both {
    together: Arc<SqlDatabase>,
    plain: Session,
    session: Session,
    _dirs: [tempfile::TempDir; 2],
}

async fn filled(planning: Planning) -> (Arc<SqlDatabase>, Session, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let database = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
    let mut session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    for text in [
        "CREATE TABLE t (id int PRIMARY KEY, g int, n numeric(12,2), v numeric, f float8, c text, d date, b boolean)"
            .to_owned(),
        // Some texts are too long for their rows.
        format!(
            "INSERT INTO t SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 100 END, (i % 1000) / 4.0, i / 3.0, sin(i), \
             CASE WHEN i % 3000 = 0 THEN repeat('long', 5000) ELSE 'text ' || i % 50 END, date '2020-01-01' + i % 1000, i % 3 = 0 \
             FROM generate_series(1, {ROWS}) AS s(i)"
        ),
        "CREATE TABLE small (k int PRIMARY KEY, name text)".to_owned(),
        "INSERT INTO small SELECT i, 'name ' || i FROM generate_series(0, 99) AS s(i)".to_owned(),
    ] {
        session.query(&text).await.unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    (database, session, dir)
}

impl Both {
    async fn new() -> Self {
        let (together, session, first) = filled(Planning { gather_rows: 3_000, ..Planning::default() }).await;
        let (_, plain, second) = filled(Planning::OFF).await;
        Self { together, plain, session, _dirs: [first, second] }
    }

    async fn same(&mut self, text: &str) {
        let (wanted, got) = (self.plain.query(text).await, self.session.query(text).await);
        assert!(
            shown(&got) == shown(&wanted),
            "{text}: {:.300}\n{:.300}",
            format!("{:?}", shown(&got)),
            format!("{:?}", shown(&wanted))
        );
    }
}

fn shown(result: &Result<QueryResult, SqlError>) -> Result<(&str, Vec<String>), String> {
    match result {
        Ok(result) => Ok((&result.tag, result.rows.iter().map(|row| format!("{row:?}")).collect())),
        Err(error) => Err(format!("{} {}", error.sqlstate, error.message)),
    }
}

/// Whether there are several processors: with one, scans have one thread.
fn are_several() -> bool {
    std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_one_thread() {
    let mut both = Both::new().await;
    let before = scan_workers_begun();
    for text in [
        // Without ORDER BY: the order of the tree is that of one thread.
        "SELECT id, g, c FROM t WHERE g = 5",
        "SELECT * FROM t WHERE g BETWEEN 10 AND 12 AND n > 100 AND d < '2021-01-01'",
        "SELECT id, length(c) FROM t WHERE c LIKE 'long%'",
        "SELECT c FROM t WHERE id % 3000 = 0 AND g IS NOT NULL",
        "SELECT id FROM t WHERE c = 'text 7' AND b",
        "SELECT id FROM t WHERE g IS NULL AND n = 1.75",
        "SELECT id FROM t WHERE v > 9990 AND v <> 9999 AND f > 0",
        "SELECT id FROM t WHERE f < -0.999 OR g = 3 AND d = '2020-02-02'",
        "SELECT id FROM t WHERE NOT (g <> 4) AND id IN (4, 104, 20004, 29904, 5)",
        "SELECT id FROM t WHERE g = 1 AND NULL",
        // The last digits depend on the order of the rows.
        "SELECT sum(f), avg(f), count(*), sum(n), min(c), max(d) FROM t",
        "SELECT g, sum(f), stddev(f) FROM t WHERE b GROUP BY g ORDER BY g",
        "SELECT string_agg(id::text, ',') FROM t WHERE g = 7",
        "SELECT t.id, small.name FROM t JOIN small ON small.k = t.g WHERE t.n < 3 ORDER BY 1",
        "SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.g < b.g",
        "SELECT id FROM t WHERE id > 25000 AND g = 50",
        "SELECT id FROM t WHERE id < 300 AND g = 50",
        "SELECT id FROM t WHERE g = 5 ORDER BY id DESC",
        "SELECT id FROM t WHERE g = 5 LIMIT 3",
        "SELECT id FROM t WHERE g = 5 OFFSET 200 LIMIT 3",
        "SELECT id, row_number() OVER () FROM t WHERE g = 99",
        // The first row that fails is that of one thread; what a term before it drops does not.
        "SELECT 1 / (id - 20000) FROM t",
        "SELECT id FROM t WHERE 10 / (id - 20000) > 1",
        "SELECT id FROM t WHERE id <> 20000 AND 10 / (id - 20000) = 1",
        "SELECT id, CASE WHEN id = 17777 THEN 'x'::int WHEN id = 28888 THEN (1 / 0) END FROM t WHERE id > 100 AND g = 77",
        "SELECT EXISTS (SELECT 1 FROM t WHERE g = 42)",
        "SELECT k, (SELECT count(*) FROM t WHERE g = k) FROM small WHERE k < 4 ORDER BY k",
        "UPDATE t SET n = n + 1 WHERE g = 9 AND b",
        "DELETE FROM t WHERE g = 11 AND n > 50",
        "SELECT sum(n), count(*) FROM t WHERE g IN (9, 11)",
        "CREATE TABLE copy AS SELECT id, f FROM t WHERE g < 30",
        "SELECT sum(f), count(*) FROM copy",
    ] {
        both.same(text).await;
    }
    if are_several() {
        assert!(scan_workers_begun() > before, "no scan was read by several threads");
    }
    // The setting turns it off.
    both.session.query("SET max_parallel_workers_per_gather = 0").await.expect("set");
    both.same("SELECT count(*) FROM t WHERE g = 5").await;
    let error = both.session.query("SET max_parallel_workers_per_gather = -1").await.expect_err("refused");
    assert_eq!(error.sqlstate, "22023");
}

/// What others commit while a table is read, in whatever part, is not seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_of_one_snapshot() {
    let mut both = Both::new().await;
    let mut writer = Arc::clone(&both.together).session(SessionOptions::default()).expect("session");
    both.session.query("CREATE TABLE sums AS SELECT id, 1000 AS n FROM t").await.expect("made");
    both.session.query("ALTER TABLE sums ADD PRIMARY KEY (id)").await.expect("keyed");
    let writing = tokio::spawn(async move {
        for round in 0..400 {
            let (from, to) = (round * 71 % ROWS + 1, round * 7919 % ROWS + 1);
            let text =
                format!("UPDATE sums SET n = n + CASE WHEN id = {from} THEN -5 ELSE 5 END WHERE id IN ({from}, {to})");
            if from != to {
                writer.query(&text).await.expect("moved");
            }
        }
    });
    let mut looks = 0;
    while !writing.is_finished() || looks < 20 {
        let rows = both.session.query("SELECT sum(n), count(*) FROM sums WHERE id + n > 0").await.expect("sums").rows;
        let wanted = [Some((u64::from(ROWS) * 1000).to_string()), Some(ROWS.to_string())];
        assert_eq!(rows, [wanted.to_vec()]);
        looks += 1;
    }
    writing.await.expect("written");
}

/// Who stops reading, or is told to, leaves nothing behind that would keep the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_early_ends() {
    let mut both = Both::new().await;
    let mut holders = Vec::new();
    for _ in 0..20 {
        both.session.query("SELECT id FROM t WHERE g > 3 LIMIT 12000").await.expect("rows");
    }
    // Cursors whose rows nobody takes keep no threads from others.
    for number in 0..3 {
        let mut holder = Arc::clone(&both.together).session(SessionOptions::default()).expect("session");
        holder.query("BEGIN").await.expect("begun");
        holder.query("DECLARE c CURSOR FOR SELECT * FROM t").await.expect("declared");
        holder.query("FETCH 15000 FROM c").await.expect("rows");
        let before = scan_workers_begun();
        both.session.query("SELECT count(*) FROM t WHERE g > 3").await.expect("rows");
        assert!(!are_several() || scan_workers_begun() > before, "{number} cursors are open");
        holders.push(holder);
    }
    drop(holders);
    both.session.query("SET statement_timeout = '300ms'").await.expect("set");
    let error =
        both.session.query("SELECT count(*) FROM t a JOIN t b ON a.g < b.g OR a.f < b.f").await.expect_err("late");
    assert_eq!(error.sqlstate, "57014");
    both.session.query("RESET statement_timeout").await.expect("reset");
    let dropped = tokio::time::timeout(Duration::from_secs(20), both.session.query("DROP TABLE t")).await;
    dropped.expect("in time").expect("dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_counts_what_is_dropped_early() {
    let mut both = Both::new().await;
    let text = "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) SELECT n FROM t WHERE g = 5 AND d > '2020-01-01'";
    let mut lines = Vec::new();
    for session in [&mut both.session, &mut both.plain] {
        let rows = session.query(text).await.expect("explained").rows;
        let shown: Vec<String> = rows.into_iter().flatten().flatten().collect();
        lines.push(shown.into_iter().find(|line| line.contains("Rows Removed")).expect("a line"));
    }
    assert_eq!(lines[0].trim(), lines[1].trim());
}
