//! Time to clean up after one aborted transaction, by operation and rows, and that it does not
//! depend on the size of the database (the paper's figure 10). The embedded engine, in this
//! process: sweeps are timed without a server around them.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use resurgam_engine::{
    BulkInserter, Change, ColumnType, Database, DatumRef, Durability, Isolation, Seen, StatementKind, SweepReport,
    Table, TableSpec, Transaction,
};

use super::verdict;
use super::workload::Op;
use crate::lines::{Line, Panel, log_log};
use crate::report::{self, table};
use crate::servers::Work;
use crate::{Common, Result, machine};

/// Goals: rows a second on one core, from memory.
const INSERTS_AND_DELETES: f64 = 2e6;
const UPDATES: f64 = 0.7e6;
/// Bytes of text beside key and number: rows of 200 bytes.
const FILLER: usize = 188;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rows that the aborted transaction touched
    #[arg(long, value_delimiter = ',', default_values_t = [100_000u64, 1_000_000, 5_000_000, 10_000_000])]
    rows: Vec<u64>,
    /// What it did to them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Op::Insert, Op::Update, Op::Delete])]
    ops: Vec<Op>,
    /// Measure again in a database that holds an unrelated table of so many gigabytes; 0 = do not
    #[arg(long, value_name = "GB", default_value_t = 0)]
    unrelated_gb: u64,
    /// Runs of each, of which the median is told, with the least and the most
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Threads of the sweep
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Small sizes: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

#[derive(Clone)]
struct Case {
    unrelated_gb: u64,
    op: Op,
    rows: u64,
    seconds: f64,
    /// The least and the most of all runs, of which this one is the median.
    range: (f64, f64),
    log_bytes: u64,
    report: SweepReport,
}

impl Case {
    fn rate(&self, threads: usize) -> f64 {
        self.rows as f64 / self.seconds / threads.max(1) as f64
    }
}

fn said<T>(result: resurgam_engine::Result<T>) -> Result<T> {
    result.map_err(|e| e.to_string())
}

fn row(id: u64, number: i32, filler: &str) -> [DatumRef<'_>; 3] {
    [DatumRef::Int8(id as i64), DatumRef::Int4(number), DatumRef::Text(filler)]
}

fn commit(tx: &Transaction) -> Result<()> {
    said(said(tx.commit(Durability::Sync))?.wait())
}

fn create(db: &Database, name: &str) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("n", ColumnType::Int4)
        .column("filler", ColumnType::Text)
        .primary_key(&["id"]);
    let table = said(said(tx.create_table(spec))?.done())?;
    commit(&tx)?;
    Ok(table)
}

fn insert(tx: &Transaction, table: &Arc<Table>, rows: u64) -> Result<()> {
    let filler = "x".repeat(FILLER);
    said(tx.statement(StatementKind::BulkWrite))?;
    let mut bulk: BulkInserter = tx.bulk_insert(table);
    (0..rows).try_for_each(|id| said(said(bulk.push(&row(id, 0, &filler)))?.done()))
}

fn change(tx: &Transaction, table: &Arc<Table>, op: Op, rows: u64) -> Result<()> {
    let filler = "x".repeat(FILLER);
    said(tx.statement(StatementKind::BulkWrite))?;
    let mut key = Vec::new();
    for id in 0..rows {
        key.clear();
        said(table.encode_key(&[DatumRef::Int8(id as i64)], &mut key))?;
        let outcome = if op == Op::Update {
            said(tx.update(table, &key, Seen::Snapshot, &row(id, 1, &filler)))?
        } else {
            said(tx.delete(table, &key, Seen::Snapshot))?
        };
        if said(outcome.done())? != Change::Done {
            return Err(format!("row {id} could not be changed"));
        }
    }
    Ok(())
}

/// Rolls `tx` back and times the sweep that cleans up after it.
fn measure(db: &Database, tx: &Transaction, unrelated_gb: u64, op: Op, rows: u64) -> Result<Case> {
    said(tx.rollback())?;
    let log = db.log_status().end.0;
    let begun = Instant::now();
    let report = said(db.clean_now())?;
    let seconds = begun.elapsed().as_secs_f64();
    if report.reverted != rows || report.forgotten == 0 {
        return Err(format!("{rows} rows were to be reverted: {report:?}"));
    }
    let range = (seconds, seconds);
    let case = Case { unrelated_gb, op, rows, seconds, range, log_bytes: db.log_status().end.0 - log, report };
    eprintln!(
        "{} of {rows} rows, {unrelated_gb} GB beside: {seconds:.3} s, {:.0} rows/s, {:.1} bytes of log a row",
        op.name(),
        rows as f64 / seconds,
        case.log_bytes as f64 / rows as f64
    );
    Ok(case)
}

/// All sizes in one database.
fn one(options: &Options, sizes: &[u64], unrelated_gb: u64, cases: &mut Vec<Case>) -> Result<()> {
    let work = Work::new(&options.common)?;
    let most = sizes.iter().max().copied().unwrap_or_default();
    let settings = resurgam_engine::Options {
        // "From memory": twice what the largest table takes.
        buffer_bytes: (options.common.buffer_mb << 20).max(most * 2 * 256) as usize,
        log_bytes_max: 32 << 30,
        cleaner_interval_s: 1e6,
        cleaner_threads: options.threads,
        ..resurgam_engine::Options::default()
    };
    let db = said(Database::open(work.path().join("data"), settings))?;
    if unrelated_gb > 0 {
        let table = create(&db, "unrelated")?;
        let tx = db.begin(Isolation::ReadCommitted);
        insert(&tx, &table, (unrelated_gb << 30) / 225)?;
        commit(&tx)?;
        // Until nothing of it is left to clean.
        while said(db.clean_now())?.pages > 0 {}
        // Nor to write out: a checkpoint names all pages that are changed, 5 bytes each, and that is not the sweep's log.
        said(db.write_back())?;
        said(db.checkpoint())?;
    }
    for (rows, run) in sizes.iter().flat_map(|rows| (0..options.runs.max(1)).map(|run| (*rows, run))) {
        let table = create(&db, &format!("rows_{rows}_{run}"))?;
        if options.ops.contains(&Op::Insert) {
            let tx = db.begin(Isolation::ReadCommitted);
            insert(&tx, &table, rows)?;
            cases.push(measure(&db, &tx, unrelated_gb, Op::Insert, rows)?);
        }
        let tx = db.begin(Isolation::ReadCommitted);
        insert(&tx, &table, rows)?;
        commit(&tx)?;
        while said(db.clean_now())?.pages > 0 {}
        for op in [Op::Update, Op::Delete] {
            if options.ops.contains(&op) {
                let tx = db.begin(Isolation::ReadCommitted);
                change(&tx, &table, op, rows)?;
                cases.push(measure(&db, &tx, unrelated_gb, op, rows)?);
            }
        }
    }
    said(db.close())
}

/// Of all runs of one case the median.
fn medians(cases: &[Case]) -> Vec<Case> {
    let is_like = |a: &Case, b: &Case| (a.unrelated_gb, a.op, a.rows) == (b.unrelated_gb, b.op, b.rows);
    let firsts = cases.iter().enumerate().filter(|(at, case)| !cases[..*at].iter().any(|other| is_like(other, case)));
    firsts
        .map(|(_, first)| {
            let mut runs: Vec<&Case> = cases.iter().filter(|case| is_like(case, first)).collect();
            runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let range = (runs[0].seconds, runs[runs.len() - 1].seconds);
            Case { range, ..runs[runs.len() / 2].clone() }
        })
        .collect()
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut sizes = if options.quick { vec![10_000, 100_000] } else { options.rows.clone() };
    sizes.sort_unstable();
    sizes.dedup();
    let mut cases = Vec::new();
    one(options, &sizes, 0, &mut cases)?;
    if options.unrelated_gb > 0 {
        one(options, &sizes, options.unrelated_gb, &mut cases)?;
    }
    let (text, svg) = report(options, &medians(&cases))?;
    report::write(&options.common, "figure10", &text, &svg)
}

fn goal(op: Op) -> f64 {
    if op == Op::Update { UPDATES } else { INSERTS_AND_DELETES }
}

fn report(options: &Options, cases: &[Case]) -> Result<(String, String)> {
    let work = Work::new(&options.common)?;
    let mut text = String::from("# Cleaning up after an aborted transaction\n\n");
    text += &report::provenance();
    text += "After figure 10 of the paper. A table of 200-byte rows, clustered by a `bigint` key; one transaction inserts \
             the rows, updates a 4-byte integer in them, or deletes them, and is rolled back, which takes no time; then \
             a sweep of the cleaner is run, without a pace, and timed. The embedded engine, all pages in memory, \
             write-back and checkpoints in the background as always. No random numbers are involved. With other data the \
             pool of pages is full of it.\n\n";
    text += &format!(
        "Threads of the sweep: {}. Runs: {}; the median, the least and the most.\n\n{}\n",
        options.threads,
        options.runs.max(1),
        machine::describe(work.path())
    );
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let rate = case.rate(options.threads);
            vec![
                case.op.name().into(),
                case.rows.to_string(),
                case.unrelated_gb.to_string(),
                format!("{:.3}", case.seconds),
                format!("{:.3} to {:.3}", case.range.0, case.range.1),
                format!("{:.2}", rate / 1e6),
                format!("{:.1}", case.log_bytes as f64 / case.rows as f64),
                case.report.pages.to_string(),
                verdict(rate >= goal(case.op)),
            ]
        })
        .collect();
    let header = [
        "operation",
        "rows",
        "other data, GB",
        "clean-up, s",
        "in all runs",
        "million rows/s a core",
        "log, bytes a row",
        "pages visited",
        "goal met",
    ];
    text += &table(&header, &rows);
    text += &format!(
        "\nGoals: {:.1} million rows/s a core of inserts and deletes, {:.1} million of updates; the time does not depend on \
         the size of the database.\n\n![plot](figure10.svg)\n",
        INSERTS_AND_DELETES / 1e6,
        UPDATES / 1e6
    );
    let mut beside: Vec<u64> = cases.iter().map(|case| case.unrelated_gb).collect();
    beside.dedup();
    let panels: Vec<Panel> = options
        .ops
        .iter()
        .map(|op| Panel {
            title: op.name().to_owned(),
            lines: beside
                .iter()
                .enumerate()
                .map(|(entry, gb)| Line {
                    entry,
                    points: cases
                        .iter()
                        .filter(|case| case.op == *op && case.unrelated_gb == *gb)
                        .map(|case| (case.rows as f64, case.seconds))
                        .collect(),
                })
                .collect(),
        })
        .collect();
    let legend: Vec<(usize, String)> =
        beside.iter().enumerate().map(|(entry, gb)| (entry, format!("{gb} GB of other data"))).collect();
    let svg = log_log(
        "Cleaning up after one aborted transaction",
        "rows of 200 bytes that the transaction touched",
        "seconds",
        &legend,
        options.ops.len(),
        &panels,
        &[None],
    );
    Ok((text, svg))
}
