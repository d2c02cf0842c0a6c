//! The paths that are planned here (reads in key order, lookups instead of joins of whole tables,
//! direct execution) must answer exactly as DataFusion's plain plans do: random statements are run
//! by both, on databases with the same content.

use std::sync::Arc;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Planning, QueryResult, Session, SessionOptions, SqlDatabase, SqlError, SqlSettings};

/// A small generator, so that a seed is a test.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
    fn maybe(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

struct Subject {
    name: &'static str,
    session: Session,
    _dir: tempfile::TempDir,
}

impl Subject {
    fn new(name: &'static str, planning: Planning) -> Self {
        let dir = tempfile::tempdir().expect("temporary folder");
        let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
        let database = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
        let session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
        Self { name, session, _dir: dir }
    }
    async fn ok(&mut self, sql: &str) -> QueryResult {
        self.session.query(sql).await.unwrap_or_else(|error| panic!("{}: {error}\n{sql}", self.name))
    }
    async fn plan(&mut self, sql: &str) -> String {
        let lines = self.ok(&format!("EXPLAIN {sql}")).await.rows;
        lines.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n")
    }
}

/// The plain one first; lookups in tables however small, and with so few rows that most fall back.
fn subjects() -> Vec<Subject> {
    let always = Planning { read_small_tables: false, ..Planning::default() };
    let planned = Planning { direct: false, ..always };
    vec![
        Subject::new("plain", Planning::OFF),
        Subject::new("default", Planning::default()),
        // What would run directly, too.
        Subject::new("lookups", planned),
        Subject::new("few lookups", Planning { lookup_rows: 6, ..always }),
        // Tables in parts, however small.
        Subject::new("together", Planning { gather_rows: 48, ..planned }),
        // As a statement that has met its limit of memory is planned.
        Subject::new("merges", Planning { spilling_joins: true, direct: false, ..Planning::default() }),
    ]
}

fn shown(result: &Result<QueryResult, SqlError>, sorted: bool) -> Result<(String, Vec<String>), String> {
    match result {
        Ok(result) => {
            let mut rows: Vec<String> = result.rows.iter().map(|row| format!("{row:?}")).collect();
            if sorted {
                rows.sort();
            }
            Ok((result.tag.clone(), rows))
        }
        Err(error) => Err(error.sqlstate.to_string()),
    }
}

/// Runs the same in all, and compares; rows of no order are compared sorted.
async fn same(subjects: &mut [Subject], sql: &str, ordered: bool) {
    let mut wanted = None;
    for subject in subjects {
        let result = subject.session.query(sql).await;
        let got = shown(&result, !ordered);
        match &wanted {
            None => wanted = Some(got),
            Some(wanted) => assert_eq!(&got, wanted, "{} on: {sql}\n{result:?}", subject.name),
        }
    }
}

const TABLES: [&str; 11] = [
    "CREATE TABLE t (a int, b smallint, c text, d numeric(8,2), e bigint, f date, PRIMARY KEY (a, b), CHECK (e < 60), CHECK (c NOT LIKE '%rr' OR length(c) < 5))",
    "CREATE INDEX t_c ON t (c, e)",
    "CREATE INDEX t_c_down ON t (c DESC NULLS LAST, e)",
    "CREATE INDEX t_d ON t (d DESC)",
    "CREATE INDEX t_f ON t (a, f DESC, e NULLS FIRST)",
    "CREATE INDEX t_e ON t (e NULLS FIRST, b DESC)",
    "CREATE TABLE u (k bigint, m int, n text, v smallint, big text, PRIMARY KEY (k))",
    "CREATE INDEX u_m ON u (m DESC, v)",
    "CREATE UNIQUE INDEX u_n ON u (n DESC NULLS LAST)",
    "CREATE TABLE w (x int, y text, z numeric(10,3))",
    "CREATE INDEX w_x ON w (x NULLS FIRST, y DESC)",
];

fn number(random: &mut Random, most: u64) -> String {
    if random.maybe(10) { "NULL".to_owned() } else { random.below(most).to_string() }
}

fn text(random: &mut Random) -> String {
    match random.below(10) {
        0 => "NULL".to_owned(),
        1 => "''".to_owned(),
        2 => "repeat('long', 30)".to_owned(),
        _ => format!("'{}'", random.one(&["x", "y", "z", "xy", "X", "ä"])),
    }
}

fn row_of_t(random: &mut Random) -> String {
    let (a, b, e) = (random.below(6), random.below(8), number(random, 9));
    let (c, f) = (text(random), random.below(5));
    let d = if random.maybe(15) { "NULL".to_owned() } else { format!("{}.5", random.below(5)) };
    let f = if f == 0 { "NULL".to_owned() } else { format!("'2024-01-0{f}'") };
    format!("({a}, {b}, {c}, {d}, {e}, {f})")
}

fn row_of_u(random: &mut Random) -> String {
    let (k, m, v) = (random.below(20), number(random, 6), number(random, 4));
    let n = if random.maybe(20) { "NULL".to_owned() } else { format!("'n{}'", random.below(40)) };
    let big = if random.maybe(20) { "repeat('big', 5000)" } else { "'small'" };
    format!("({k}, {m}, {n}, {v}, {big})")
}

fn row_of_w(random: &mut Random) -> String {
    let (x, y) = (number(random, 6), text(random));
    let z = if random.maybe(20) { "NULL".to_owned() } else { format!("{}.{}", random.below(5), random.below(2) * 5) };
    format!("({x}, {y}, {z})")
}

async fn fill(subjects: &mut [Subject], random: &mut Random) {
    for sql in TABLES {
        same(subjects, sql, true).await;
    }
    for _ in 0..60 {
        let (t, u, w) = (row_of_t(random), row_of_u(random), row_of_w(random));
        same(subjects, &format!("INSERT INTO t VALUES {t} ON CONFLICT DO NOTHING"), true).await;
        same(subjects, &format!("INSERT INTO u VALUES {u} ON CONFLICT DO NOTHING"), true).await;
        same(subjects, &format!("INSERT INTO w VALUES {w}"), true).await;
    }
}

/// A condition on columns of `t`, often on the beginning of one of its keys.
fn condition_on_t(random: &mut Random) -> String {
    let mut all = Vec::new();
    let (a, b) = (random.below(7), random.below(9));
    match random.below(8) {
        0 => {}
        1 | 2 => all.push(format!("a = {a}")),
        3 => all.push(format!("a = {a} AND b {} {b}", random.one(&["<", "<=", ">", ">=", "="]))),
        4 => all.push(format!("a IN ({a}, {}, 3)", random.below(7))),
        5 => all.push(format!("c = '{}'", random.one(&["x", "y", "nothing"]))),
        6 => all.push(format!("d = {}.5", random.below(6))),
        _ => all.push(format!("a = {a} AND f = '2024-01-0{}'", 1 + random.below(5))),
    }
    if random.maybe(30) {
        all.push(format!("e {} {}", random.one(&["<", ">", "<>", "="]), random.below(9)));
    }
    if random.maybe(10) {
        all.push(random.one(&["c IS NULL", "e IS NOT NULL", "b + 1 > 3", "a = 2.5", "a = 99999999999"]).to_owned());
    }
    if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
}

fn limit(random: &mut Random) -> String {
    let mut out = String::new();
    if random.maybe(60) {
        out += &format!(" LIMIT {}", random.below(6));
    }
    if random.maybe(25) {
        out += &format!(" OFFSET {}", random.below(4));
    }
    out
}

/// Sorted reads: what is selected is what is sorted by, so that ties make no difference.
fn sorted_read(random: &mut Random) -> String {
    let columns = match random.below(12) {
        9 | 10 => vec!["e", "b"],
        11 => vec!["e", "b", "a"],
        0 => vec!["a", "b"],
        1 => vec!["b"],
        2 => vec!["c", "e"],
        3 => vec!["e"],
        4 => vec!["d"],
        5 => vec!["f", "e"],
        6 => vec!["c", "e", "a", "b"],
        7 => vec!["d", "a", "b"],
        _ => vec!["b", "a"],
    };
    let all_down = random.maybe(40);
    let mixed = random.maybe(40);
    let by: Vec<String> = columns
        .iter()
        .map(|column| {
            let down = if mixed { random.maybe(50) } else { all_down };
            let nulls = if random.maybe(35) { random.one(&[" NULLS FIRST", " NULLS LAST"]) } else { "" };
            format!("{column}{}{nulls}", if down { " DESC" } else { "" })
        })
        .collect();
    if random.maybe(15) {
        let (by, down) = (random.one(&["n", "m, v", "k", "v", "y, x"]), if all_down { " DESC" } else { "" });
        let (table, condition) = match by {
            "v" => ("u", format!(" WHERE m = {}", random.below(6))),
            "y, x" => ("w", String::new()),
            _ => ("u", random.one(&["", "", " WHERE n > 'n2'", " WHERE k > 5"]).to_owned()),
        };
        let list = by.replace(',', &format!("{down},"));
        return format!("SELECT {by} FROM {table}{condition} ORDER BY {list}{down}{}", limit(random));
    }
    let (condition, limit) = (condition_on_t(random), limit(random));
    if random.maybe(40) {
        // Just what a key gives.
        let (a, down) = (random.below(6), if all_down { " DESC" } else { "" });
        let (by, condition) = match random.below(6) {
            0 => ("b", format!(" WHERE a = {a}")),
            1 => ("b", format!(" WHERE a = {a} AND b > 2 AND e < 7")),
            2 => ("f", format!(" WHERE a = {a}")),
            3 => ("e", " WHERE c = 'x'".to_owned()),
            4 => ("e", format!(" WHERE a = {a} AND f = '2024-01-02'")),
            _ => ("d", String::new()),
        };
        let nulls = if random.maybe(50) { random.one(&[" NULLS FIRST", " NULLS LAST"]) } else { "" };
        return format!("SELECT {by} FROM t{condition} ORDER BY {by}{down}{nulls}{limit}");
    }
    format!("SELECT {} FROM t{condition} ORDER BY {}{limit}", columns.join(", "), by.join(", "))
}

fn extreme(random: &mut Random) -> String {
    let column = random.one(&["a", "b", "c", "d", "e", "f"]);
    let other = random.one(&["a", "b", "c", "d", "e", "f"]);
    let what = match random.below(8) {
        6 => format!("min({column}) AS low, max({column}) AS high"),
        7 => format!("max({column}) AS m, min({other}) AS n, max({other}) AS o"),
        0 | 1 => format!("min({column})"),
        2 | 3 => format!("max({column})"),
        4 => format!("max({column}) - 1 AS m, count(*)"),
        _ => format!("max({column}) FILTER (WHERE e > 3)"),
    };
    let what = if what.contains("- 1") { format!("max(e) - 1, count({column})") } else { what };
    format!("SELECT {what} FROM t{}", condition_on_t(random))
}

fn join(random: &mut Random) -> String {
    let kind = random.one(&["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let (left, right, on, more) = match random.below(9) {
        0 => ("t", "u", "t.e = u.k", "t.a, t.b, t.e, u.k, u.n"),
        1 => ("t", "u", "t.a = u.m AND t.b = u.v", "t.a, t.b, u.k, u.m"),
        2 => ("t", "w", "t.a = w.x AND t.c = w.y", "t.a, t.b, w.x, w.y, w.z"),
        3 => ("u", "t", "u.m = t.a", "u.k, u.big, t.a, t.b"),
        4 => ("u", "t", "u.m = t.a AND u.v = t.b", "u.k, t.a, t.b, t.c"),
        5 => ("w", "t", "w.z = t.d", "w.x, w.z, t.d, t.a, t.b"),
        6 => ("w", "u", "w.x = u.k AND w.y <> u.n", "w.x, w.y, u.k, u.n"),
        7 => ("t", "w", "t.e = w.z", "t.e, w.z, t.a, t.b"),
        _ => ("w", "u", "w.y = u.n", "w.y, u.n, u.k"),
    };
    let mut where_ = Vec::new();
    if random.maybe(50) {
        match left {
            "t" => where_.push(format!("t.a = {}", random.below(7))),
            "u" => where_.push(format!("u.k < {}", random.below(12))),
            _ => where_.push(format!("w.x = {}", random.below(6))),
        }
    }
    if random.maybe(35) {
        match right {
            "t" => where_.push(format!("t.a = {}", random.below(6))),
            "u" => where_.push(format!("u.v > {}", random.below(3))),
            _ => where_.push("w.z > 1".to_owned()),
        }
    }
    if random.maybe(15) {
        where_.push(format!(
            "{}.{} IS NULL",
            right,
            if right == "t" {
                "e"
            } else if right == "u" {
                "n"
            } else {
                "z"
            }
        ));
    }
    let where_ = if where_.is_empty() { String::new() } else { format!(" WHERE {}", where_.join(" AND ")) };
    match random.below(8) {
        0 => format!("SELECT count(*) FROM {left} {kind} {right} ON {on}{where_}"),
        1 => format!("SELECT {left}.* FROM {left} WHERE EXISTS (SELECT 1 FROM {right} WHERE {on})"),
        2 => format!("SELECT {left}.* FROM {left} WHERE NOT EXISTS (SELECT 1 FROM {right} WHERE {on})"),
        3 => {
            let limit = limit(random);
            format!("SELECT {more} FROM {left} {kind} {right} ON {on}{where_} ORDER BY {more}{limit}")
        }
        4 => format!(
            "SELECT u.k FROM u WHERE u.m {} (SELECT a FROM t WHERE a > {})",
            random.one(&["IN", "NOT IN"]),
            random.below(6)
        ),
        5 => format!(
            "SELECT t.a, t.b, u.k, w.x FROM t {kind} u ON t.e = u.k {kind} w ON u.m = w.x{}",
            if left == "t" { where_ } else { String::new() }
        ),
        _ => format!("SELECT {more} FROM {left} {kind} {right} ON {on}{where_}"),
    }
}

/// Several tables with commas, and inner joins in any order of FROM.
fn inner_joins(random: &mut Random) -> String {
    let mut tables = vec!["t", "u", "w"];
    let mut conditions = Vec::new();
    let keys =
        ["t.e = u.k", "u.m = w.x", "w.y = t.c", "t.a = u.v AND t.b = u.m", "w.z = t.d", "t.a + u.v = w.x", "u.k < w.x"];
    for _ in 0..random.below(4) {
        conditions.push(random.one(&keys).to_owned());
    }
    if random.maybe(50) {
        tables.push("t AS t2");
        conditions.push(random.one(&["t2.a = u.m AND t2.b = 3", "t2.a = t.a AND t2.b = t.b", "t2.a = 1"]).to_owned());
    }
    if random.maybe(40) {
        conditions.push("(u.k = t.e AND w.x = 2) OR (t.e = u.k AND w.x = 4)".to_owned());
    }
    if random.maybe(60) {
        let own = ["t.a = 2", "t.a = 1 AND t.b = 2", "u.k = 4", "u.n = 'n3'", "w.x = 3", "u.m > 2", "w.y IS NULL"];
        conditions.push(random.one(&own).to_owned());
    }
    for at in (1..tables.len()).rev() {
        tables.swap(at, random.below(at as u64 + 1) as usize);
    }
    let from = if random.maybe(30) {
        // What is not inner stays where it is.
        format!("{} LEFT JOIN u AS o ON o.k = {}", tables.join(", "), random.below(9))
    } else {
        tables.join(if random.maybe(50) { ", " } else { " CROSS JOIN " })
    };
    let conditions: Vec<String> = conditions.iter().map(|one| format!("({one})")).collect();
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    match random.below(3) {
        0 => format!("SELECT count(*), sum(u.k), min(w.y), max(t.c) FROM {from} WHERE {condition}"),
        1 => format!("SELECT t.a, t.b, u.k, w.x, w.y FROM {from} WHERE {condition} AND t.a < 2 AND u.k < 6"),
        _ => format!("SELECT * FROM {from} WHERE {condition} AND t.a = 3 AND t.b < 3 AND u.k < 9 AND w.x < 4"),
    }
}

/// A write, directly if it can be.
fn write(random: &mut Random) -> String {
    let returning = random.one(&[
        "",
        " RETURNING *",
        " RETURNING a + b, c, d * 2 AS dd",
        " RETURNING a, CASE WHEN e > 3 THEN 'many' END",
    ]);
    let on_u = random.one(&["", " RETURNING *", " RETURNING k, v + 1, length(big)"]);
    let (a, b, k) = (random.below(7), random.below(9), random.below(24));
    match random.below(16) {
        11 => format!("UPDATE t SET e = e + {k}, c = c || 'r' WHERE a = {a}{returning}"),
        12 => format!("UPDATE t SET d = d + 1 WHERE a = {a} AND b > {b} AND (e < 6 OR e IS NULL){returning}"),
        13 => format!("DELETE FROM t WHERE a = {a} AND b >= {b} AND b < {k}{returning}"),
        14 => format!("UPDATE u SET m = m + 1, v = v - 1 WHERE m = {a} AND v < {b}{on_u}"),
        15 => format!("UPDATE t SET c = NULL, e = {k} WHERE c = 'r' AND e >= {b}{returning}"),
        9 => format!("UPDATE t SET e = u.v, c = u.n FROM u WHERE u.k = t.e AND t.a = {a} RETURNING t.a, t.b"),
        10 => format!("DELETE FROM u USING t WHERE t.e = u.k AND t.a = {a} AND t.b < {b}"),
        0 => format!("UPDATE t SET e = e + {k}, d = d + 0.25 WHERE a = {a} AND b = {b}{returning}"),
        1 => format!(
            "UPDATE t SET e = CASE WHEN e > 4 THEN e - 4 ELSE e + {k} END, c = c || 'q' WHERE a = {a} AND b = {b} AND e < 9{returning}"
        ),
        2 => format!("DELETE FROM t WHERE a = {a} AND b = {b}{returning}"),
        3 => format!("INSERT INTO t VALUES {}{returning}", row_of_t(random)),
        4 => format!(
            "INSERT INTO t VALUES {} ON CONFLICT (a, b) DO UPDATE SET e = coalesce(t.e, 0) + excluded.e, c = excluded.c, d = {k} WHERE t.e IS NULL OR t.e < {b}{returning}",
            row_of_t(random)
        ),
        5 => {
            format!("INSERT INTO t VALUES {}, {} ON CONFLICT DO NOTHING{returning}", row_of_t(random), row_of_t(random))
        }
        6 => format!(
            "INSERT INTO u VALUES {} ON CONFLICT (k) DO UPDATE SET v = u.v + 1, big = u.big || 'x'{on_u}",
            row_of_u(random)
        ),
        7 => format!("INSERT INTO u VALUES {} ON CONFLICT (n) DO NOTHING{on_u}", row_of_u(random)),
        _ => format!("UPDATE u SET v = v + 1, m = {a} WHERE k = {k}{on_u}"),
    }
}

/// Aggregates, DISTINCT and sorts of a few rows.
fn few(random: &mut Random) -> String {
    let (a, more, e) = (random.below(6), random.below(4), random.below(8));
    let rows = match random.below(5) {
        0 => format!("a = {a}"),
        1 => format!("a BETWEEN {a} AND {}", a + more),
        2 => format!("a IN ({a}, {more}) AND b > 1"),
        3 => format!("c = 'x' AND e > {e}"),
        _ => format!("a > {more} AND a <= {a} AND (e < {e} OR e IS NULL)"),
    };
    match random.below(8) {
        0 => format!("SELECT sum(e), count(*), min(d), max(f), avg(e) FROM t WHERE {rows}"),
        1 => format!("SELECT DISTINCT c FROM t WHERE {rows} ORDER BY c"),
        2 => format!("SELECT c, count(*), sum(d), max(e) FROM t WHERE {rows} GROUP BY c ORDER BY c NULLS FIRST"),
        3 => format!("SELECT a, b, c, e FROM t WHERE {rows} ORDER BY c DESC NULLS LAST, a, b LIMIT 5 OFFSET 1"),
        4 => format!("SELECT count(DISTINCT c), sum(e + 1), count(e) FROM t WHERE {rows}"),
        5 => format!("SELECT e, d FROM t WHERE {rows} ORDER BY e * -1, d, a, b"),
        6 => format!("SELECT DISTINCT b, f FROM t WHERE {rows} ORDER BY f DESC, b LIMIT 3"),
        _ => format!("SELECT max(b), sum(d) * 2 FROM t WHERE {rows} AND b = {more}"),
    }
}

async fn reads(subjects: &mut [Subject], random: &mut Random, count: usize, used: &mut [usize; 3]) {
    for _ in 0..count {
        let sql = match random.below(5) {
            4 => inner_joins(random),
            3 => few(random),
            0 => sorted_read(random),
            1 => extreme(random),
            _ => join(random),
        };
        same(subjects, &sql, sql.contains("ORDER BY")).await;
        let plan = subjects[2].plan(&sql).await;
        used[0] += usize::from(sql.contains("ORDER BY") && !plan.contains("Sort Key"));
        used[1] += usize::from(plan.contains("Backward"));
        used[2] += usize::from(plan.contains("Lookup Join"));
    }
}

async fn differ(seed: u64) -> [usize; 3] {
    let mut random = Random(seed * 7919 + 17);
    let mut subjects = subjects();
    let mut used = [0; 3];
    fill(&mut subjects, &mut random).await;
    reads(&mut subjects, &mut random, 40, &mut used).await;
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        // Own changes, seen before they are committed.
        same(&mut subjects, &format!("BEGIN ISOLATION LEVEL {isolation}"), true).await;
        for step in 0..30 {
            let sql = write(&mut random);
            same(&mut subjects, "SAVEPOINT s", true).await;
            let failed = subjects[0].session.query(&sql).await;
            let wanted = shown(&failed, false);
            for subject in &mut subjects[1..] {
                let result = subject.session.query(&sql).await;
                assert_eq!(shown(&result, false), wanted, "{} on: {sql}", subject.name);
            }
            if failed.is_err() {
                same(&mut subjects, "ROLLBACK TO s", true).await;
            }
            if step % 6 == 5 {
                reads(&mut subjects, &mut random, 6, &mut used).await;
            }
        }
        same(&mut subjects, if random.maybe(70) { "COMMIT" } else { "ROLLBACK" }, true).await;
        same(&mut subjects, "SELECT * FROM t ORDER BY a, b", true).await;
        same(&mut subjects, "SELECT * FROM u ORDER BY k", true).await;
        reads(&mut subjects, &mut random, 10, &mut used).await;
    }
    used
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_paths_answer_as_plain_plans_do() {
    let first: u64 = std::env::var("RESURGAM_PLANS_FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("RESURGAM_PLANS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    let mut used = [0; 3];
    for seed in first..first + count {
        println!("seed {seed}");
        for (sum, more) in used.iter_mut().zip(differ(seed).await) {
            *sum += more;
        }
    }
    // Otherwise nothing was compared.
    assert!(used.iter().all(|&used| used > 5), "unsorted, backward, lookups: {used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analyze_says_whether_a_join_looked_rows_up() {
    let mut subject = Subject::new("default", Planning { lookup_rows: 50, ..Planning::default() });
    subject.ok("CREATE TABLE few (a int PRIMARY KEY, b int)").await;
    subject.ok("CREATE TABLE many (a int PRIMARY KEY, b int)").await;
    subject.ok("INSERT INTO few SELECT x, x * 3 FROM generate_series(1, 100) AS g(x)").await;
    subject.ok("INSERT INTO many SELECT x, x FROM generate_series(1, 5000) AS g(x)").await;
    for (below, rows, lookups, fell_back) in [(21, 20, 20, 0), (200, 100, 0, 1)] {
        let sql = format!("SELECT * FROM few JOIN many ON many.a = few.b WHERE few.a < {below}");
        let analyzed = subject.ok(&format!("EXPLAIN ANALYZE {sql}")).await.rows;
        let lines: Vec<String> = analyzed.into_iter().flatten().flatten().collect();
        let has = |wanted: String| lines.iter().any(|line| line.trim() == wanted);
        assert!(lines[0].starts_with("Lookup Join") && has(format!("Became Hash Join: {fell_back}")), "{lines:?}");
        assert!(fell_back == 1 || has(format!("Lookups: {lookups}")), "{lines:?}");
        // Whatever it became, what it gave is counted, and what it has read of either side.
        assert!(lines[0].contains(&format!(" rows={rows} loops=1)")), "{lines:?}");
        let few = lines.iter().find(|line| line.contains("on few")).expect("a scan");
        assert!(few.contains(&format!(" rows={rows} loops=1)")), "{few}");
        let many = lines.iter().find(|line| line.contains("on many")).expect("a scan");
        assert!(many.contains(&format!(" rows={} loops=1)", if fell_back == 1 { 5000 } else { lookups })), "{many}");
        assert_eq!(subject.ok(&sql).await.rows.len(), rows);
    }
}

/// Every order of two columns of an index, of every type that can be a key, with NULLs and extremes: what is
/// read in the order of keys is what a sort gives, forward and backward, between bounds and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_any_order_give_what_a_sort_gives() {
    const TYPES: [(&str, &[&str]); 15] = [
        ("bool", &["false", "true"]),
        ("int2", &["-32768", "-1", "0", "1", "32767"]),
        ("int4", &["-2147483648", "-1", "0", "256", "2147483647"]),
        ("int8", &["-9223372036854775808", "-1", "0", "65536", "9223372036854775807"]),
        ("real", &["'-Infinity'", "-1e30", "0", "1e-30", "'Infinity'", "'NaN'"]),
        ("float8", &["'-Infinity'", "-1e300", "0", "1e-300", "'Infinity'", "'NaN'"]),
        ("numeric(12,3)", &["-999999999.999", "-0.001", "0", "0.001", "999999999.999"]),
        ("text", &["''", "'a'", "'ab'", "'b'", "'\u{10ffff}'", "repeat('z', 300)"]),
        ("varchar(9)", &["''", "'a'", "'a b'", "'zzzzzzzzz'"]),
        ("bytea", &["''", "'\\x00'", "'\\x0000'", "'\\x00ff'", "'\\xff'", "'\\xffff'"]),
        ("date", &["'4713-01-01 BC'", "'-infinity'", "'2000-01-01'", "'infinity'"]),
        ("time", &["'00:00'", "'12:30:00.000001'", "'24:00'"]),
        ("timestamp", &["'4713-01-01 BC'", "'-infinity'", "'2000-01-01 00:00:00.000001'", "'infinity'"]),
        ("timestamptz", &["'4713-01-01 BC'", "'-infinity'", "'2000-01-01'", "'infinity'"]),
        ("uuid", &["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
    ];
    const ORDERS: [&str; 4] = ["", " NULLS FIRST", " DESC", " DESC NULLS LAST"];
    let mut random = Random(20_261_122);
    let planned = Planning { direct: false, read_small_tables: false, ..Planning::default() };
    let mut subjects = [
        Subject::new("plain", Planning::OFF),
        Subject::new("default", Planning::default()),
        Subject::new("planned", planned),
    ];
    let (mut unsorted, mut backward) = (0, 0);
    for (number, (ty, values)) in TYPES.iter().enumerate() {
        same(&mut subjects, &format!("CREATE TABLE k{number} (id int PRIMARY KEY, x {ty}, y int)"), true).await;
        let (x, y) = (ORDERS[number % 4], ORDERS[(number / 4 + number) % 4]);
        let unique = if number % 3 == 0 { "UNIQUE " } else { "" };
        let index = format!("CREATE {unique}INDEX ON k{number} (x{x}, y{y}, id)");
        // The plain one has no index: bounds of keys are not DataFusion's either.
        for subject in &mut subjects[1..] {
            subject.ok(&index).await;
        }
        let mut rows = Vec::new();
        for id in 0..40 {
            let value = |random: &mut Random| match random.maybe(20) {
                true => "NULL".to_owned(),
                false => random.one(values).to_owned(),
            };
            let y = number_or_null(&mut random);
            rows.push(format!("({id}, {}, {y})", value(&mut random)));
        }
        same(&mut subjects, &format!("INSERT INTO k{number} VALUES {}", rows.join(", ")), true).await;
        for (first, second) in (0..16).map(|at| (ORDERS[at / 4], ORDERS[at % 4])) {
            let value = random.one(values);
            let op = random.one(&["<", "<=", ">", ">=", "="]);
            let sql = match random.below(4) {
                0 | 1 => format!("SELECT x, y FROM k{number} ORDER BY x{first}, y{second} LIMIT 9"),
                2 => format!("SELECT x, y FROM k{number} WHERE x {op} {value} ORDER BY x{first}, y{second} LIMIT 9"),
                _ => format!("SELECT y FROM k{number} WHERE x = {value} ORDER BY y{second} LIMIT 5"),
            };
            same(&mut subjects, &sql, true).await;
            let plan = subjects[2].plan(&sql).await;
            unsorted += usize::from(!plan.contains("Sort Key"));
            backward += usize::from(plan.contains("Backward"));
            for (low, high) in [(value, random.one(values)), (random.one(values), value)] {
                let between = format!("SELECT id, x FROM k{number} WHERE x > {low} AND x <= {high}");
                same(&mut subjects, &between, false).await;
            }
        }
        let extremes = if *ty == "bool" || *ty == "uuid" || *ty == "bytea" { "y" } else { "x" };
        for what in ["min", "max"] {
            same(&mut subjects, &format!("SELECT {what}({extremes}) FROM k{number}"), true).await;
            let value = random.one(values);
            same(&mut subjects, &format!("SELECT {what}(y) FROM k{number} WHERE x = {value}"), true).await;
        }
        same(&mut subjects, &format!("UPDATE k{number} SET x = NULL, y = y + 1 WHERE x > {}", values[0]), false).await;
        same(&mut subjects, &format!("SELECT * FROM k{number} ORDER BY x DESC, y, id"), true).await;
    }
    assert!(unsorted > 40 && backward > 20, "{unsorted} unsorted, {backward} backward");
}

fn number_or_null(random: &mut Random) -> String {
    let extreme = ["NULL", "-2147483648", "-1", "0", "1", "7", "2147483646"];
    random.one(&extreme).to_owned()
}

/// Times with a zone beside times without: by keys and indexes as without them, and as with the
/// casts written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_read_in_the_zone_on_all_paths() {
    let mut random = Random(4711);
    let mut subjects = subjects();
    for sql in [
        "SET TimeZone = 'Asia/Tokyo'",
        "CREATE TABLE zt (tz timestamptz, k int, ts timestamp, d date, PRIMARY KEY (tz, k))",
        "CREATE INDEX zt_ts ON zt (ts, k)",
        "CREATE TABLE lt (ts timestamp PRIMARY KEY, tz timestamptz UNIQUE, d date)",
        "INSERT INTO zt SELECT '2024-01-01 00:00+09'::timestamptz + x * interval '3 hours', x, \
         '2024-01-01 00:00'::timestamp + (x % 20) * interval '3 hours', '2024-01-01'::date + x % 7 FROM generate_series(0, 39) g(x)",
        "INSERT INTO lt SELECT ts, min(tz), min(d) FROM zt GROUP BY ts",
    ] {
        same(&mut subjects, sql, true).await;
    }
    let mut narrowed = 0;
    for _ in 0..120 {
        let (day, hour) = (1 + random.below(4), 3 * random.below(8));
        let op = random.one(&["=", "<", "<=", ">", ">="]);
        let (value, cast) = match random.below(3) {
            0 => (format!("timestamp '2024-01-0{day} {hour:02}:00'"), "::timestamptz"),
            1 => (format!("date '2024-01-0{day}'"), "::timestamptz"),
            _ => (format!("timestamptz '2024-01-0{day} {hour:02}:00+00'"), ""),
        };
        let (implicit, explicit) = match random.below(6) {
            0 => (
                "SELECT k FROM zt WHERE tz [op] [v] ORDER BY tz, k LIMIT 5",
                "SELECT k FROM zt WHERE tz [op] [c] ORDER BY tz, k LIMIT 5",
            ),
            1 => (
                "SELECT k FROM zt WHERE ts [op] [v] ORDER BY ts, k",
                "SELECT k FROM zt WHERE ts::timestamptz [op] [c] ORDER BY ts, k",
            ),
            2 => (
                "SELECT k, d FROM zt WHERE d [op] [v] ORDER BY k",
                "SELECT k, d FROM zt WHERE d::timestamptz [op] [c] ORDER BY k",
            ),
            3 => (
                "SELECT tz FROM lt WHERE ts = [v] AND tz [op] [v]",
                "SELECT tz FROM lt WHERE ts::timestamptz = [c] AND tz [op] [c]",
            ),
            4 => (
                "SELECT k, lt.d FROM zt JOIN lt ON lt.ts = zt.tz WHERE zt.tz [op] [v] ORDER BY k",
                "SELECT k, lt.d FROM zt JOIN lt ON lt.ts::timestamptz = zt.tz WHERE zt.tz [op] [c] ORDER BY k",
            ),
            _ => (
                "SELECT k FROM zt LEFT JOIN lt ON lt.tz = zt.ts AND lt.d [op] [v] ORDER BY k, lt.tz",
                "SELECT k FROM zt LEFT JOIN lt ON lt.tz = zt.ts::timestamptz AND lt.d::timestamptz [op] [c] ORDER BY k, lt.tz",
            ),
        };
        let implicit = implicit.replace("[op]", op).replace("[v]", &value);
        let explicit = explicit.replace("[op]", op).replace("[c]", &format!("{value}{cast}"));
        same(&mut subjects, &implicit, true).await;
        let (implicit, explicit) =
            (subjects[1].session.query(&implicit).await, subjects[0].session.query(&explicit).await);
        assert_eq!(shown(&implicit, false), shown(&explicit, false), "{value} {op}");
        let plan = subjects[2].plan(&format!("SELECT k FROM zt WHERE tz > {value}")).await;
        narrowed += usize::from(plan.contains("using zt_pkey on zt") && plan.contains("Index Cond: (tz >"));
    }
    assert!(narrowed == 120, "only {narrowed} by a range");
}

const TABLES_OF_ALTERNATIVES: [&str; 12] = [
    "CREATE TABLE o (p int, q text, a int, b smallint, c text, d numeric(8,2), e bigint, f date, g numeric, PRIMARY KEY (p, q))",
    "CREATE INDEX ON o (a)",
    "CREATE INDEX ON o (b DESC, a)",
    "CREATE INDEX ON o (c NULLS FIRST, p)",
    "CREATE INDEX ON o (d DESC NULLS LAST, e)",
    "CREATE INDEX ON o (lower(c))",
    "CREATE INDEX ON o (e) WHERE f IS NOT NULL",
    "CREATE INDEX ON o (f)",
    "CREATE UNIQUE INDEX ON o (g, p, q)",
    "CREATE TABLE oo (k int PRIMARY KEY, a int)",
    "INSERT INTO oo SELECT x, x % 9 FROM generate_series(0, 19) g(x)",
    "PREPARE alternatives(int, int, text, numeric) AS \
     SELECT p, q FROM o WHERE a = $1 OR b > $2 AND b < $2 + 3 OR c = $3 OR (p = $1 AND q = 'q3') OR g = $4",
];

fn row_of_o(random: &mut Random, at: u64) -> String {
    let (c, f) = (text(random), random.below(6));
    let f = if f == 0 { "NULL".to_owned() } else { format!("'2024-01-0{f}'") };
    let d = if random.maybe(15) { "NULL".to_owned() } else { format!("{}.5", random.below(20)) };
    let g = if random.maybe(15) {
        "NULL".to_owned()
    } else {
        format!("{}.{}", random.below(20), "0".repeat(1 + random.below(3) as usize))
    };
    let (a, b, e) = (number(random, 20), number(random, 15), number(random, 40));
    format!("({}, 'q{}', {a}, {b}, {c}, {d}, {e}, {f}, {g})", at / 5, at % 5)
}

/// What one column of `o` is asked.
fn atom(random: &mut Random) -> String {
    let n = random.below(22);
    match random.below(30) {
        0..=3 => format!("a = {n}"),
        4 => format!("a IN ({n}, {}, NULL)", random.below(20)),
        5 | 6 => format!("b = {}", n % 16),
        7 => format!("b BETWEEN {} AND {}", n % 12, n % 12 + random.below(3)),
        8 => format!("b > {}", 8 + n % 8),
        9 | 10 => format!("c = '{}'", random.one(&["x", "y", "ä", "", "nothing"])),
        11 => format!("c LIKE '{}'", random.one(&["x%", "%y", "ä", "", "lo%g"])),
        12 => format!("lower(c) = '{}'", random.one(&["x", "xy"])),
        13 | 14 => format!("d = {}.5", n),
        15 => format!("d > {}.25 AND e = {}", n, random.below(40)),
        16 => format!("e < {}", n % 6),
        17 => format!("f = '2024-01-0{}'", 1 + n % 6),
        18 => format!("p = {n}"),
        19 => format!("p = {n} AND q = 'q{}'", n % 5),
        20 => format!("p BETWEEN {n} AND {}", n + 2),
        21 => random.one(&["a IS NULL", "c IS NULL", "a = NULL", "b IS NOT NULL AND a = 3"]).to_owned(),
        22 => format!("g = {}.000", n % 20),
        23 => random.one(&["a = 2.5", "b = 99999", "e = 99999999999", "a = 3.0", "b > 14.5"]).to_owned(),
        24 => random.one(&["c || '' = 'x'", "a = b", "e + 1 = 5"]).to_owned(),
        25 => random.one(&["a = (SELECT 3)", "a IN (SELECT a FROM oo WHERE k > 17)"]).to_owned(),
        26 => format!("a = ANY (ARRAY[{n}, {}])", random.below(20)),
        27 => format!("(b, a) IN (({}, {n}), ({}, {}))", n % 15, random.below(15), random.below(20)),
        28 => format!("NOT (a <> {n})"),
        _ => format!("{n} = a AND b < 12"),
    }
}

/// Alternatives, each of one or two terms, and sometimes others within.
fn alternatives(random: &mut Random, depth: u64) -> String {
    let count = 2 + random.below(3);
    let mut all = Vec::new();
    for _ in 0..count {
        let mut one = atom(random);
        if random.maybe(25) {
            one = format!("{one} AND {}", atom(random));
        }
        if depth > 0 && random.maybe(15) {
            one = format!(
                "{} AND ({})",
                random.one(&["e IS NOT NULL", "p > 3", "a < 15"]),
                alternatives(random, depth - 1)
            );
        }
        all.push(one);
    }
    all.join(" OR ")
}

fn asked_of_alternatives(random: &mut Random) -> String {
    let mut condition = format!("({})", alternatives(random, 2));
    if random.maybe(30) {
        condition =
            format!("{condition} AND {}", random.one(&["e > 3", "a < 12", "b IS NOT NULL", "c > 'w'", "p > 20"]));
    }
    if random.maybe(15) {
        condition = format!("{condition} AND ({})", alternatives(random, 0));
    }
    match random.below(16) {
        0..=3 => format!("SELECT * FROM o WHERE {condition}"),
        4 => format!("SELECT p, q, c FROM o WHERE {condition} ORDER BY p, q{}", limit(random)),
        5 => format!("SELECT p, q FROM o WHERE {condition} ORDER BY p DESC, q DESC{}", limit(random)),
        6 => format!("SELECT a, p, q FROM o WHERE {condition} ORDER BY a DESC, p, q{}", limit(random)),
        7 => format!("SELECT count(*), sum(e), min(p), max(q) FROM o WHERE {condition}"),
        8 => format!("SELECT min(p) FROM o WHERE {condition}"),
        9 => format!("SELECT max(a) FROM o WHERE {condition}"),
        10 => format!("SELECT DISTINCT b FROM o WHERE {condition}"),
        11 => format!("SELECT p, q FROM o WHERE {condition} FOR UPDATE"),
        12 => format!("SELECT x.p, x.q, k FROM (SELECT * FROM o WHERE {condition}) AS x JOIN oo ON oo.a = x.a"),
        13 => format!(
            "SELECT k, (SELECT count(*) FROM o WHERE o.a = oo.k OR o.b = oo.a) FROM oo WHERE k < {}",
            random.below(20)
        ),
        14 => format!("UPDATE o SET e = e + 1, a = a + 1 WHERE {condition} RETURNING p, q, a, e"),
        _ => format!("DELETE FROM o WHERE p > 30 AND ({condition}) RETURNING p, q"),
    }
}

/// Conditions with OR give by several indexes what they give without, whatever is asked with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alternatives_give_what_a_scan_gives() {
    let always = Planning { read_small_tables: false, direct: false, ..Planning::default() };
    let mut subjects = vec![
        Subject::new("plain", Planning::OFF),
        Subject::new("without", Planning { alternatives: false, ..Planning::default() }),
        Subject::new("default", Planning::default()),
        Subject::new("always", always),
        Subject::new("together", Planning { gather_rows: 48, direct: false, ..Planning::default() }),
    ];
    let seed: u64 = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    println!("seed {seed}");
    let mut random = Random(seed);
    for sql in TABLES_OF_ALTERNATIVES {
        same(&mut subjects, sql, true).await;
    }
    let rows: Vec<String> = (0..220).map(|number| row_of_o(&mut random, number)).collect();
    same(&mut subjects, &format!("INSERT INTO o VALUES {}", rows.join(", ")), true).await;
    let (mut by_ways, mut reads) = (0, 0);
    for step in 0..300 {
        if step == 150 {
            // By what is known of columns from here on.
            for subject in &mut subjects {
                subject.ok("ANALYZE o").await;
            }
        }
        let sql = asked_of_alternatives(&mut random);
        // Of writes some do not count: they would leave nothing.
        let is_write = sql.starts_with("UPDATE") || sql.starts_with("DELETE");
        let sorted = sql.contains("ORDER BY");
        if is_write {
            same(&mut subjects, "BEGIN", true).await;
        }
        same(&mut subjects, &sql, sorted).await;
        if is_write {
            same(&mut subjects, "SELECT * FROM o ORDER BY p, q", true).await;
            same(&mut subjects, if random.maybe(30) { "COMMIT" } else { "ROLLBACK" }, true).await;
        }
        by_ways += usize::from(subjects[3].plan(&sql).await.contains("BitmapOr"));
        reads += 1;
        if step % 10 == 0 {
            let values = [number(&mut random, 20), number(&mut random, 15), text(&mut random), number(&mut random, 20)];
            same(&mut subjects, &format!("EXECUTE alternatives({})", values.join(", ")), false).await;
        }
    }
    println!("{by_ways} of {reads} by several ways");
    assert!(by_ways > 80, "{by_ways} of {reads}");
}

/// The keys that are held are bounded: beyond the statement's memory, or where they are those of many rows, the table is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_alternatives_are_bounded() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let engine = Database::open(dir.path().join("data"), Options::default()).expect("open");
    let planning = Planning { read_small_tables: false, ..Planning::default() };
    let settings = SqlSettings { planning, query_memory_bytes: 16 << 20, ..SqlSettings::default() };
    let database = SqlDatabase::new(engine, settings);
    let mut session = Arc::clone(&database).session(SessionOptions::default()).expect("session");
    for sql in [
        "CREATE TABLE wide (k text PRIMARY KEY, a int, b int)",
        "CREATE INDEX ON wide (a)",
        "CREATE INDEX ON wide (b)",
        "INSERT INTO wide SELECT repeat('k', 300) || x, x % 2, x FROM generate_series(1, 80000) g(x)",
    ] {
        session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (sql, count, whole) in [
        ("SELECT count(*) FROM wide WHERE a = 1 OR b = 2", "40001", true),
        ("SELECT count(*) FROM wide WHERE a = 7 OR b = 2", "1", false),
        ("SELECT count(*) FROM wide WHERE b = 7 OR b BETWEEN 2 AND 3 OR a IN (8, 9)", "3", false),
    ] {
        let rows = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).rows;
        assert_eq!(rows, [[Some(count.to_owned())]], "{sql}");
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}");
        let lines = session.query(&explain).await.unwrap_or_else(|error| panic!("{sql}: {error}")).rows;
        let plan = lines.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n");
        assert!(plan.contains("BitmapOr"), "{plan}");
        assert_eq!(plan.contains("Became Seq Scan: 1"), whole, "{plan}");
    }
    drop(session);
    assert_eq!(database.query_memory().0, 0);
}

/// What one side of a join is ordered by is no order of the join where rows of the other side are alike in what that one is ordered by.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_is_not_in_the_order_of_both_sides() {
    let mut subjects = subjects();
    for subject in &mut subjects {
        for sql in [
            "CREATE TABLE big (x int, id int, k int, PRIMARY KEY (x, id))",
            "CREATE TABLE small (k int, y int, PRIMARY KEY (k, y))",
            "INSERT INTO big SELECT g % 3, g, g % 2 FROM generate_series(1, 6000) AS g",
            "INSERT INTO small SELECT g % 2, g FROM generate_series(1, 6) AS g",
            "ANALYZE",
        ] {
            subject.ok(sql).await;
        }
        for from in [
            "small JOIN big ON big.k = small.k",
            "big JOIN small ON big.k = small.k",
            "big LEFT JOIN small ON big.k = small.k",
            "small RIGHT JOIN big ON big.k = small.k",
            "(SELECT * FROM small ORDER BY k, y OFFSET 0) AS small JOIN big ON big.k = small.k",
        ] {
            let select = format!("big.x, small.k, small.y FROM {from}");
            let rows = subject.ok(&format!("SELECT {select} ORDER BY big.x, small.k, small.y")).await.rows;
            let mut sorted = rows.clone();
            sorted.sort();
            assert_eq!((rows.len(), rows == sorted), (18_000, true), "{}: {from}", subject.name);
            let first = subject.ok(&format!("SELECT {select} ORDER BY 1, 2, 3 LIMIT 4000")).await.rows;
            assert!(first == sorted[..4000], "{}: {from}", subject.name);
            for sql in [
                format!("SELECT DISTINCT {select}"),
                format!("SELECT DISTINCT ON (big.x, small.k, small.y) {select}"),
                format!("SELECT {select} GROUP BY big.x, small.k, small.y"),
                format!(
                    "SELECT DISTINCT big.x, count(*) OVER (PARTITION BY big.x, small.k, small.y), small.y FROM {from}"
                ),
            ] {
                assert_eq!(subject.ok(&sql).await.rows.len(), 18, "{}: {sql}", subject.name);
            }
        }
    }
    // They are looked up as before.
    let sql = "SELECT big.x, small.y FROM small JOIN big ON big.k = small.k ORDER BY big.x";
    let plan = subjects[1].plan(sql).await;
    assert!(plan.contains("Lookup Join") && !plan.contains("Sort"), "{plan}");
}

/// What else is held for an order and is none; the answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_order() {
    let asked = [
        // A window's order comes after the sides of the join are chosen.
        (
            "SELECT count(*) FROM (SELECT DISTINCT big.x, s.y, s.rn FROM \
             (SELECT k, y, row_number() OVER (ORDER BY y) AS rn FROM small) AS s JOIN big ON big.k = s.k) AS d",
            "18",
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT big.x, s.y, s.n FROM \
             (SELECT k, y, count(*) OVER (PARTITION BY k) AS n FROM small) AS s JOIN big ON big.k = s.k) AS d",
            "18",
        ),
        // What is constant on the side that may be missing is not so of the join, however its rows are found.
        (
            "SELECT count(*) FROM (SELECT a.x, count(*) FROM b LEFT JOIN a ON a.k = b.k AND a.x = 7 GROUP BY a.x) AS g",
            "2",
        ),
        (
            "SELECT string_agg(coalesce(x::text, 'n'), ' ' ORDER BY n) FROM (SELECT x, row_number() OVER () AS n FROM \
             (SELECT a.x FROM a RIGHT JOIN b ON a.k = b.k AND a.x = 7 AND b.id < 300 ORDER BY a.x OFFSET 0) AS o) AS r WHERE n IN (1, 60, 61, 500)",
            "7 7 n n",
        ),
        // The NULLs of a running extreme come first.
        (
            "SELECT string_agg(coalesce(m::text, 'n'), ' ' ORDER BY n) FROM (SELECT m, row_number() OVER (ORDER BY m) AS n FROM \
             (SELECT max(v) OVER (ORDER BY id) AS m FROM w) AS s) AS r",
            "3 5 n n",
        ),
        (
            "SELECT string_agg(coalesce(m::text, 'n'), ' ' ORDER BY n) FROM (SELECT m, row_number() OVER (ORDER BY m) AS n FROM \
             (SELECT max(v::float8) OVER (ORDER BY id) AS m FROM w) AS s) AS r",
            "3 5 n n",
        ),
        // Two columns that are one value each are not one value.
        (
            "SELECT string_agg(r::text, ' ' ORDER BY z) FROM (SELECT z, row_number() OVER (ORDER BY x * z), row_number() OVER (ORDER BY y * z) AS r \
             FROM p WHERE x = 1 AND y = -1) AS s",
            "5 4 3 2 1",
        ),
        // Groups of several sets may be alike.
        (
            "SELECT string_agg(n::text, ' ' ORDER BY r) FROM (SELECT *, row_number() OVER (ORDER BY a, b, c, n DESC) AS r FROM \
             (SELECT a, b, c, count(*) AS n, row_number() OVER (ORDER BY a, b, c) FROM gs GROUP BY GROUPING SETS ((a, b, c), (a, c))) AS s) AS t",
            "2 1 3 1 2 1",
        ),
        // Groups of several sets come set by set, not as the rows that they are made of.
        (
            "SELECT string_agg(n::text, ' ' ORDER BY k, e, n) FROM (SELECT count(*) AS n, k, e FROM \
             (SELECT k, e FROM z GROUP BY k, ROLLUP (e)) AS s GROUP BY k, ROLLUP (e)) AS t",
            "1 1 1 3 1 1 2",
        ),
        (
            "SELECT string_agg(k::text, ' ' ORDER BY n) FROM (SELECT k, row_number() OVER () AS n FROM \
             (SELECT k, count(*) FROM z GROUP BY GROUPING SETS ((k, e), (k)) ORDER BY k) AS s) AS t",
            "1 1 1 2 2",
        ),
    ];
    let mut subjects = subjects();
    for subject in &mut subjects {
        for sql in [
            "CREATE TABLE big (x int, id int, k int, PRIMARY KEY (x, id))",
            "CREATE TABLE small (id int PRIMARY KEY, k int, y int)",
            "INSERT INTO big SELECT g % 3, g, g % 2 FROM generate_series(1, 6000) AS g",
            "INSERT INTO small SELECT g, g % 2, (g * 7) % 13 FROM generate_series(1, 6) AS g",
            "CREATE TABLE a (id int PRIMARY KEY, k int, x int)",
            "CREATE INDEX ON a (k)",
            "CREATE TABLE b (id int PRIMARY KEY, k int)",
            "INSERT INTO a SELECT g, g % 100, g % 50 FROM generate_series(1, 1000) AS g",
            "INSERT INTO b SELECT g, g % 100 FROM generate_series(1, 500) AS g",
            "CREATE TABLE w (id int PRIMARY KEY, v int)",
            "INSERT INTO w VALUES (1, NULL), (2, NULL), (3, 3), (4, 5)",
            "CREATE TABLE p (x int, y int, z int, PRIMARY KEY (x, y, z))",
            "INSERT INTO p SELECT 1, -1, g FROM generate_series(1, 5) AS g",
            "CREATE TABLE gs (a int NOT NULL, b int, c int NOT NULL)",
            "INSERT INTO gs VALUES (1, NULL, 1), (1, 2, 1), (1, 2, 1), (1, NULL, 2), (1, 3, 2)",
            "CREATE TABLE z (k int, e int, PRIMARY KEY (k, e))",
            "INSERT INTO z VALUES (1, 1), (1, 2), (2, 3)",
            "ANALYZE",
        ] {
            subject.ok(sql).await;
        }
        for (sql, answer) in asked {
            let rows = subject.ok(sql).await.rows;
            assert_eq!(rows, [[Some(answer.to_owned())]], "{}: {sql}", subject.name);
        }
    }
}

/// A subquery that is run for each row of `u` or `w`: a value of a few rows of `t`, or whether there is one.
fn correlated(random: &mut Random) -> String {
    let outer = random.one(&["u", "w"]);
    let (x, y) = if outer == "u" { ("u.m", "u.n") } else { ("w.x", "w.y") };
    let n = random.below(8);
    let which = match random.below(7) {
        0 => format!("t.a = {x}"),
        1 => format!("t.a = {x} AND t.b > {n}"),
        2 => format!("t.a = {x} AND t.b = {n}"),
        3 => format!("t.c = {y} AND (t.e < {n} OR t.e IS NULL)"),
        4 => format!("t.a = {x} AND t.f >= '2024-01-02' AND t.e + 1 > {n}"),
        5 => format!("t.a BETWEEN {x} AND {x} + 1 AND t.e > 2"),
        _ => format!("t.a = {x} + 1 AND t.c LIKE 'x%'"),
    };
    let value = match random.below(13) {
        0 => format!("(SELECT count(*) FROM t WHERE {which})"),
        1 => format!("(SELECT sum(t.e) FROM t WHERE {which})"),
        2 => format!("(SELECT 0.5 * sum(t.d) FROM t WHERE {which})"),
        3 => format!("(SELECT max(t.b) - min(t.b) + {x} FROM t WHERE {which})"),
        4 => format!("(SELECT avg(t.e) FROM t WHERE {which})"),
        5 => format!("(SELECT t.c FROM t WHERE {which} ORDER BY t.a, t.b LIMIT 1)"),
        6 => format!("(SELECT t.d FROM t WHERE {which} ORDER BY t.e DESC NULLS LAST, t.a, t.b LIMIT 1 OFFSET 1)"),
        // More than one row is an error; often there is one, or none.
        7 => format!("(SELECT t.e FROM t WHERE {which} AND t.a = 3 AND t.b = {n})"),
        8 => format!("(SELECT t.b FROM t WHERE {which} AND t.b > 4)"),
        9 => format!("(SELECT DISTINCT t.a FROM t WHERE {which})"),
        10 => format!("(EXISTS (SELECT 1 FROM t WHERE {which}) OR {x} IS NULL)"),
        11 => format!("CASE WHEN EXISTS (SELECT t.a / 0 FROM t WHERE {which}) THEN 1 ELSE {n} END"),
        _ => format!(
            "(SELECT (SELECT count(*) FROM w AS i WHERE i.x = t.a) FROM t WHERE {which} ORDER BY t.a, t.b LIMIT 1)"
        ),
    };
    match random.below(3) {
        0 => format!("SELECT {outer}.*, {value} FROM {outer}"),
        1 => format!("SELECT {x}, {y} FROM {outer} WHERE ({value})::text > '0'"),
        _ => format!("SELECT {value} AS v, count(*) FROM {outer} GROUP BY 1"),
    }
}

/// Subqueries that are run for each row read their few rows without a plan, and find what the plan finds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_of_few_rows_find_what_their_plans_find() {
    let first: u64 = std::env::var("RESURGAM_PLANS_FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut random = Random(first * 104_729 + 5);
    let mut subjects = subjects();
    fill(&mut subjects, &mut random).await;
    let mut direct = 0;
    for round in 0..120 {
        let sql = correlated(&mut random);
        same(&mut subjects, &sql, false).await;
        let is_direct = |plan: String| plan.contains("Execution: Direct");
        direct += usize::from(is_direct(subjects[1].plan(&sql).await));
        assert!(!is_direct(subjects[0].plan(&sql).await), "{sql}");
        if round % 10 == 9 {
            let sql = write(&mut random);
            for subject in &mut subjects {
                let _ = subject.session.query(&sql).await;
            }
        }
    }
    assert!(direct > 50, "{direct}");
    // Zeroes are one value; what is large is the plan's; and nothing is called again by the plan.
    for sql in [
        "CREATE TABLE z (a int, id int, f float8, b int, big text, PRIMARY KEY (a, id))",
        "INSERT INTO z VALUES (1, 1, '0', 1, 'x'), (1, 2, '-0', 2, repeat('y', 300000))",
        "INSERT INTO z SELECT 2, x, x, x, repeat('z', 20000) FROM generate_series(1, 300) AS g(x)",
        "CREATE SEQUENCE s",
    ] {
        same(&mut subjects, sql, true).await;
    }
    for sql in [
        "SELECT x, (SELECT count(DISTINCT f) * 10 + count(DISTINCT b) FROM z WHERE z.a = x) FROM (VALUES (1), (2)) AS o(x)",
        "SELECT x, (SELECT sum(length(big)) FROM z WHERE z.a = x) FROM (VALUES (1), (2), (3)) AS o(x)",
        "SELECT x, (SELECT max(big) FROM z WHERE z.a = x) FROM (VALUES (1), (2), (3)) AS o(x)",
        "SELECT x, (SELECT id FROM z WHERE z.a = x ORDER BY big DESC, id LIMIT 1) FROM (VALUES (1), (2), (3)) AS o(x)",
        "SELECT x, (SELECT count(*) FROM z WHERE z.a = x AND nextval('s') > 0) FROM (VALUES (1), (2), (3)) AS o(x)",
        "SELECT nextval('s')",
    ] {
        same(&mut subjects, sql, false).await;
    }
    let subject = &mut subjects[1];
    subject.ok("CREATE TABLE volatile (a int, id int, PRIMARY KEY (a, id))").await;
    subject.ok("INSERT INTO volatile SELECT 1, x FROM generate_series(1, 3000) AS g(x)").await;
    subject
        .ok("SELECT (SELECT count(*) FROM volatile WHERE a = x AND nextval('s') > 0) FROM (VALUES (1)) AS o(x)")
        .await;
    let rows = subject.ok("SELECT currval('s')").await.rows;
    assert_eq!(rows[0][0].as_deref(), Some("3303"), "{rows:?}");
    // What was run without the plan is counted, and what is too much for that is the plan's.
    subject.ok("CREATE TABLE many (a int, b int, PRIMARY KEY (a, b))").await;
    subject.ok("INSERT INTO many SELECT x / 5000, x FROM generate_series(1, 5000) AS g(x)").await;
    subject.ok("INSERT INTO many SELECT x, x FROM generate_series(10, 40) AS g(x)").await;
    subject.ok("CREATE TABLE outer_rows (x int)").await;
    subject.ok("INSERT INTO outer_rows SELECT x FROM generate_series(0, 19) AS g(x)").await;
    let sql = "SELECT x, (SELECT sum(b) FROM many WHERE a = x) FROM outer_rows ORDER BY x";
    let rows = subject.ok(sql).await.rows;
    assert_eq!(rows[0][1].as_deref(), Some("12497500"), "{rows:?}");
    assert_eq!(rows[1][1].as_deref(), Some("5000"), "{rows:?}");
    assert_eq!(rows[2][1], None, "{rows:?}");
    assert_eq!(rows[12][1].as_deref(), Some("12"), "{rows:?}");
    let analyzed = subject.ok(&format!("EXPLAIN ANALYZE {sql}")).await.rows;
    let lines: Vec<String> = analyzed.into_iter().flatten().flatten().collect();
    assert!(lines.iter().any(|line| line.contains("Aggregate") && line.contains(" loops=20)")), "{lines:?}");
}

/// Of the rows of a key that a semi-join looks up the first one does, where it says as much as all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_read_one_row_of_each_key() {
    let always = Planning { read_small_tables: false, ..Planning::default() };
    let mut subjects = [Subject::new("plain", Planning::OFF), Subject::new("lookups", always)];
    for sql in [
        "CREATE TABLE c (id int PRIMARY KEY, n numeric, f float8)",
        "INSERT INTO c SELECT x, x / 10.0, x FROM generate_series(1, 40) AS g(x)",
        "CREATE TABLE o (id int PRIMARY KEY, c int, d int, n numeric, f float8)",
        "INSERT INTO o SELECT x, x % 50 / 2, x % 7, (x % 90) / 20.0, x % 30 FROM generate_series(1, 2000) AS g(x)",
        "INSERT INTO o VALUES (3001, NULL, 1, NULL, '-0'), (3002, 99, NULL, 4.00, '0')",
        "INSERT INTO c VALUES (99, 4.000, '-0'), (100, NULL, 'NaN')",
        "CREATE INDEX o_c ON o (c, d)",
        "CREATE INDEX o_n ON o (n)",
        "CREATE INDEX o_f ON o (f)",
    ] {
        same(&mut subjects, sql, true).await;
    }
    for on in [
        "o.c = c.id",
        "o.c = c.id AND o.d = 3",
        "o.c = c.id AND o.d > 5",
        "o.c = c.id AND o.d = c.id",
        "o.c = c.id AND o.n > c.n",
        "o.n = c.n",
        "o.f = c.f",
    ] {
        for not in ["", "NOT "] {
            let sql = format!("SELECT c.id FROM c WHERE {not}EXISTS (SELECT 1 FROM o WHERE {on}) ORDER BY id");
            same(&mut subjects, &sql, true).await;
        }
    }
    let sql = "SELECT id FROM c WHERE id < 20 AND NOT EXISTS (SELECT 1 FROM o WHERE o.c = c.id)";
    let analyzed = subjects[1].ok(&format!("EXPLAIN ANALYZE {sql}")).await.rows;
    let lines: Vec<String> = analyzed.into_iter().flatten().flatten().collect();
    let scan = lines.iter().find(|line| line.contains("on o ")).expect("a scan");
    assert!(scan.contains(" rows=19 loops=1)"), "{lines:?}");
}
