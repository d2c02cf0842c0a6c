//! Latency of row operations the first time, and retried over the versions that the first
//! time left when it was rolled back (the paper's table 3).
//!
//! The cleaner is held off (its interval is an hour) and rollbacks of short transactions are
//! not undone through the log, so what the retry meets are aborted versions; that they are
//! there is checked before it, and after it that the cleaner reverted none meanwhile. After
//! every pair all is cleaned up (VACUUM), so that each first time meets clean rows. Rounds
//! of all operations take turns; the ratio is the median over the rounds.

use std::time::Instant;

use clap::Args;

use super::verdict;
use super::watch::number;
use super::workload::{BASE, Op, clean, copy_line, create_table, insert, insert_one, left_of_aborted, load, timed};
use crate::report::{self, median, table};
use crate::servers::{Kind, Server, Work, has_flag};
use crate::session::Session;
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::wire::Client;
use crate::{Common, Result};

/// Goal: a retry takes at most so much longer.
const GOAL: f64 = 0.10;
/// Statements that are sent before their answers are read.
const BATCH: u64 = 256;
/// Bytes of COPY's input that are sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rows that each transaction touches
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Rounds of all operations
    #[arg(long, default_value_t = 7)]
    rounds: u32,
}

impl Options {
    pub(super) fn sized(common: &Common, _: &super::Subjects, quick: bool) -> Self {
        let (rows, rounds) = if quick { (20_000, 3) } else { (200_000, 7) };
        Self { common: common.clone(), rows, rounds }
    }
}

/// How an operation is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A prepared statement for each row.
    Single,
    /// One statement for all.
    Bulk,
    /// COPY FROM STDIN.
    Copy,
}

/// Operation, way, and what the paper found.
const CASES: [(Op, Way, &str); 7] = [
    (Op::Insert, Way::Single, "-5 %"),
    (Op::Update, Way::Single, "+22 %"),
    (Op::Delete, Way::Single, "+16 %"),
    (Op::Insert, Way::Bulk, "+50 %"),
    (Op::Update, Way::Bulk, "-"),
    (Op::Delete, Way::Bulk, "-"),
    (Op::Insert, Way::Copy, "+50 %"),
];

fn title(op: Op, way: Way) -> String {
    match way {
        Way::Single => op.name().to_owned(),
        Way::Bulk => format!("bulk {}", op.name()),
        Way::Copy => "COPY".to_owned(),
    }
}

/// Prepares the statements of [`Way::Single`]: each takes a key.
fn prepare(client: &mut Client) -> Result<()> {
    client.prepare("insert", &insert_one())?;
    client.prepare("update", "update t set n = n + 1 where id = $1")?;
    client.prepare("delete", "delete from t where id = $1")
}

/// Runs a prepared statement for `rows` keys from `first` on.
pub fn singles(client: &mut Client, name: &str, first: u64, rows: u64) -> Result<()> {
    let mut next = first;
    while next < first + rows {
        let end = (next + BATCH).min(first + rows);
        client.execute_batch(name, next..end)?;
        next = end;
    }
    Ok(())
}

/// Does the operation in a transaction and rolls back; the seconds of the operation.
fn once(client: &mut Client, op: Op, way: Way, rows: u64) -> Result<f64> {
    // The rows that exist are the first `rows`; inserted are as many after them.
    let (first, new) = (BASE, BASE + rows);
    // Log of what went before brings no checkpoint into one of the two sooner than the other.
    client.query("checkpoint")?;
    client.query("begin")?;
    let begun = Instant::now();
    match (way, op) {
        (Way::Single, Op::Insert) => singles(client, "insert", new, rows)?,
        (Way::Single, _) => singles(client, op.name(), first, rows)?,
        (Way::Bulk, Op::Insert) => drop(client.query(&insert(Kind::Resurgam, new, rows))?),
        (Way::Bulk, _) => drop(client.query(&op.statement(Kind::Resurgam, rows))?),
        (Way::Copy, _) => {
            let mut next = new;
            client.copy_in("copy t from stdin", |chunk| {
                while next < new + rows && chunk.len() < CHUNK_BYTES {
                    chunk.extend_from_slice(copy_line(next).as_bytes());
                    next += 1;
                }
                next < new + rows
            })?;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    client.query("rollback")?;
    Ok(seconds)
}

fn reverted(session: &mut Session) -> f64 {
    number(session, "resurgam_cleaner", "rows_reverted").unwrap_or(0.0)
}

/// The first time and the retry, in seconds.
fn pair(server: &Server, client: &mut Client, op: Op, way: Way, rows: u64) -> Result<(f64, f64)> {
    let mut session = server.session()?;
    let before = reverted(&mut session);
    let first = once(client, op, way, rows)?;
    if left_of_aborted(&mut session)? == 0 {
        return Err(format!("{}: the rollback left no aborted versions to retry over", title(op, way)));
    }
    let retry = once(client, op, way, rows)?;
    if reverted(&mut session) != before {
        return Err(format!("{}: the cleaner ran in between", title(op, way)));
    }
    clean(server)?;
    Ok((first, retry))
}

/// Flags that keep aborted versions: of those that this server has.
fn flags(common: &Common) -> Vec<String> {
    let wanted = [("--cleaner-interval", "1h"), ("--short-rollback-operations", "0"), ("--short-rollback-bytes", "0")];
    let known = wanted.iter().filter(|(flag, _)| has_flag(common, flag));
    known.map(|(flag, value)| format!("{flag}={value}")).collect()
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut setup = Setup::new(&options.common)?;
    let work = Work::new(&options.common)?;
    let server = Server::create_with(Kind::Resurgam, &options.common, work.path(), &flags(&options.common))?;
    setup.saw(&server);
    create_table(&server)?;
    load(&server, options.rows)?;
    let mut client = server.client()?;
    prepare(&mut client)?;
    // times[case][round]: first, retry
    let mut times = vec![Vec::new(); CASES.len()];
    for round in 0..options.rounds {
        for ((op, way, _), times) in CASES.iter().zip(&mut times) {
            let (first, retry) = pair(&server, &mut client, *op, *way, options.rows)?;
            let percent = (retry / first - 1.0) * 100.0;
            eprintln!(
                "round {}, {}: {first:.2} s, retried {retry:.2} s ({percent:+.0} %)",
                round + 1,
                title(*op, *way)
            );
            times.push((first, retry));
        }
    }
    let mut session = server.session()?;
    let sum = timed(|| match session.query("select count(*) + sum(n) from t")? {
        Some(found) if found == (BASE + options.rows).to_string() => Ok(()),
        found => Err(format!("the table is not as it was loaded: {found:?}")),
    })?;
    eprintln!("the table is as it was loaded (read in {sum:.1} s)");
    let (text, svg) = report(options, &setup, &times);
    report::write(&options.common, "table3", &text, &svg)
}

fn report(options: &Options, setup: &Setup, times: &[Vec<(f64, f64)>]) -> (String, String) {
    let mut text = String::from("# Retrying row operations over aborted versions\n\n");
    text += &report::provenance();
    text += &format!(
        "After table 3 of the paper. A transaction does the operation on {} rows of 200 bytes in a clustered table, keys \
         ascending, and rolls back; then the same again, over the aborted versions of the first. The cleaner is held \
         off until the pair is done, then everything is cleaned up; a checkpoint is taken before each of the two. *Insert*, *update*, *delete*: a prepared statement \
         for each row, {BATCH} sent before the answers are read; *bulk*: one statement for all. Time of the statements \
         alone, parsing of messages and finding of the row included (the paper leaves that out), begin and rollback \
         excluded. {} rounds of all operations, taking turns; medians; the difference is the median of the rounds' own. \
         No random numbers are involved.\n\n",
        options.rows, options.rounds
    );
    text += &setup.text();
    let us = |seconds: f64| seconds * 1e6 / options.rows.max(1) as f64;
    let mut rows = Vec::new();
    let mut series = [
        Series { name: "first time".into(), values: Vec::new() },
        Series { name: "retried".into(), values: Vec::new() },
    ];
    for ((op, way, paper), times) in CASES.iter().zip(times) {
        let first = median(&times.iter().map(|t| us(t.0)).collect::<Vec<_>>());
        let retry = median(&times.iter().map(|t| us(t.1)).collect::<Vec<_>>());
        let ratios: Vec<f64> = times.iter().map(|(first, retry)| retry / first - 1.0).collect();
        let all: Vec<String> = ratios.iter().map(|ratio| format!("{:+.0}", ratio * 100.0)).collect();
        let ratio = median(&ratios);
        rows.push(vec![
            title(*op, *way),
            format!("{first:.2}"),
            format!("{retry:.2}"),
            format!("{:+.1} %", ratio * 100.0),
            all.join(", "),
            (*paper).to_owned(),
            format!("at most +{:.0} %", GOAL * 100.0),
            verdict(ratio <= GOAL),
        ]);
        series[0].values.push(Some(first));
        series[1].values.push(Some(retry));
    }
    text += &table(
        &[
            "operation",
            "first, µs a row",
            "retried, µs a row",
            "difference",
            "of all rounds, %",
            "paper",
            "goal",
            "met",
        ],
        &rows,
    );
    text += "\n![plot](table3.svg)\n";
    let groups: Vec<String> = CASES.iter().map(|(op, way, _)| title(*op, *way)).collect();
    (text, bars("Retrying over aborted versions", "µs a row", &groups, &series))
}
