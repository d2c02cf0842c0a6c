//! What it takes to make indexes and to rewrite a table: of a table like TPC-H's lineitem, the time and the processor time of loading,
//! ADD PRIMARY KEY and CREATE INDEX, those of the thread that asks and of all others (log, write-back, helpers) apart.
//!
//! `cargo run --release -p resurgam-engine --example builds -- DIR 1500000 1024`: a folder that is made anew, rows, megabytes of memory
//! for pages. A fourth word, `traditional`, is that mode; others leave only what is named: `ordered`, `shuffled`.

use std::collections::HashMap;
use std::time::Instant;

use resurgam_engine::*;

/// Processor time of the threads of this process so far, in seconds, by name; those that ended are missed.
fn by_thread() -> HashMap<(u64, String), f64> {
    let mut threads = HashMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let nanos = read("schedstat").split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        let id = task.file_name().to_string_lossy().parse().unwrap_or(0);
        threads.insert((id, read("comm").trim().to_owned()), nanos / 1e9);
    }
    threads
}

/// Processor time of the whole process, ended threads included.
fn of_process() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    // After the name: utime and stime are the 12th and 13th; a tick is 10 ms on all Linux.
    (ticks(11) + ticks(12)) / 100.0
}

struct Phase {
    wall: Instant,
    process: f64,
    threads: HashMap<(u64, String), f64>,
    log: u64,
}

impl Phase {
    fn begin(db: &Database) -> Self {
        let log = db.stats().log.written_bytes;
        Self { wall: Instant::now(), process: of_process(), threads: by_thread(), log }
    }

    fn end(self, db: &Database, what: &str) {
        let (wall, process) = (self.wall.elapsed().as_secs_f64(), of_process() - self.process);
        let own = u64::from(std::process::id());
        let mut asking = 0.0;
        let mut others: HashMap<String, f64> = HashMap::new();
        for ((id, name), now) in by_thread() {
            let before = self.threads.get(&(id, name.clone())).copied().unwrap_or(0.0);
            if id == own {
                asking = now - before;
            } else {
                *others.entry(name).or_default() += now - before;
            }
        }
        let mut others: Vec<(String, f64)> = others.into_iter().filter(|(_, s)| *s >= 0.02).collect();
        others.sort_by(|a, b| b.1.total_cmp(&a.1));
        let others: Vec<String> = others.iter().map(|(name, s)| format!("{name} {s:.2}")).collect();
        let log = (db.stats().log.written_bytes - self.log) as f64 / 1e6;
        println!("{what:<34} {wall:>7.2} {process:>7.2} {asking:>7.2} {log:>8.0}   {}", others.join(", "));
    }
}

/// Columns as lineitem has them, and some 120 bytes a row.
fn columns(name: &str) -> TableSpec {
    use ColumnType as T;
    let price = T::Numeric { precision: 15, scale: 2 };
    let mut spec = TableSpec::new("public", name);
    for (column, ty) in [
        ("orderkey", T::Int8),
        ("partkey", T::Int8),
        ("suppkey", T::Int8),
        ("linenumber", T::Int4),
        ("quantity", price),
        ("extendedprice", price),
        ("discount", price),
        ("tax", price),
        ("returnflag", T::Char(1)),
        ("linestatus", T::Char(1)),
        ("shipdate", T::Date),
        ("commitdate", T::Date),
        ("receiptdate", T::Date),
        ("shipinstruct", T::Char(25)),
        ("shipmode", T::Char(10)),
        ("comment", T::Varchar(44)),
    ] {
        spec = spec.column(column, ty);
    }
    spec
}

fn mixed(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn load(db: &Database, table: &std::sync::Arc<Table>, rows: u64, shuffled: bool) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let mut load = tx.load(table);
    let mut comment = String::new();
    for n in 0..rows {
        // A prime that no number of rows here is a multiple of: each row once, in no order.
        let n = if shuffled { (n * 1_000_000_007) % rows } else { n };
        let order = n / 4;
        // Eight of 32 numbers are in use, as there.
        let order = (order / 8 * 32 + order % 8 + 1) as i64;
        let random = mixed(n);
        let part = |bits: u64, of: u64| (random >> bits) % of;
        let date = 8036 + part(8, 2500) as i32;
        comment.clear();
        for at in 0..2 + part(3, 4) {
            comment.push_str(
                ["carefully ", "quickly ", "furious deposits ", "ironic ", "sleep "][mixed(random + at) as usize % 5],
            );
        }
        comment.truncate(43);
        load.push(&[
            DatumRef::Int8(order),
            DatumRef::Int8(1 + part(20, 200_000) as i64),
            DatumRef::Int8(1 + part(30, 10_000) as i64),
            DatumRef::Int4((n % 4) as i32 + 1),
            DatumRef::Numeric(100 * i128::from(1 + part(12, 50))),
            DatumRef::Numeric(i128::from(90_000 + part(16, 10_000_000))),
            DatumRef::Numeric(i128::from(part(40, 11))),
            DatumRef::Numeric(i128::from(part(44, 9))),
            DatumRef::Text(["A", "N", "R"][part(48, 3) as usize]),
            DatumRef::Text(["F", "O"][part(50, 2) as usize]),
            DatumRef::Date(date),
            DatumRef::Date(date + 30),
            DatumRef::Date(date + 7),
            DatumRef::Text(["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"][part(52, 4) as usize]),
            DatumRef::Text(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"][part(54, 7) as usize]),
            DatumRef::Text(&comment),
        ])?
        .done()?;
    }
    load.flush()?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    let dir = args.first().cloned().unwrap_or_else(|| "./builds-demo".into());
    let (rows, memory) = (number(1, 1_500_000), number(2, 1024));
    let said = |word: &str| args.iter().skip(3).any(|arg| arg == word);
    let all = !said("ordered") && !said("shuffled");
    let options = Options {
        buffer_bytes: (memory << 20) as usize,
        accelerated_database_recovery: !said("traditional"),
        ..Options::default()
    };
    let db = Database::open(&dir, options)?;
    println!("{:<34} {:>7} {:>7} {:>7} {:>8}   others", "", "wall s", "cpu s", "own s", "log MB");
    for (name, shuffled) in [("ordered", false), ("shuffled", true)] {
        if !all && !said(name) {
            continue;
        }
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(columns(name))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let phase = Phase::begin(&db);
        load(&db, &table, rows, shuffled)?;
        phase.end(&db, &format!("{name}: load"));

        let change = |what: &str, change: &dyn Fn(&Transaction, &std::sync::Arc<Table>) -> Result<()>| -> Result<()> {
            let phase = Phase::begin(&db);
            let tx = db.begin(Isolation::ReadCommitted);
            let table = tx.table("public", name)?.expect("it was created");
            change(&tx, &table)?;
            tx.commit(Durability::Sync)?.wait()?;
            phase.end(&db, &format!("{name}: {what}"));
            Ok(())
        };
        let scan = |tx: &Transaction, table: &std::sync::Arc<Table>| {
            let view = tx.statement(StatementKind::Read)?;
            let mut cursor = view.scan(table, KeyRange::all(), Direction::Forward);
            let mut batch = RowBatch::default();
            while cursor.next_batch(&mut batch, 1000)? {
                batch.clear();
            }
            Ok(())
        };
        change("scan", &scan)?;
        change("primary key", &|tx, table| {
            let key = TableChange::AddPrimaryKey { name: format!("{name}_pkey"), columns: vec![0, 3] };
            tx.alter_table(table, key)?.done().map(|_| ())
        })?;
        for column in ["partkey", "shipdate", "orderkey", "comment"] {
            let spec = columns(name).index(&format!("{name}_{column}"), &[column], false).indexes.remove(0);
            change(&format!("index on {column}"), &|tx, table| {
                tx.create_index(table, spec.clone())?.done().map(|_| ())
            })?;
            change("drop it", &|tx, table| tx.drop_index(table, &spec.name)?.done().map(|_| ()))?;
        }
    }
    db.close()
}
