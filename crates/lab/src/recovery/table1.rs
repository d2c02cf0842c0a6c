//! Size of the log and of the version store after one large transaction of each kind (the
//! paper's table 1).
//!
//! The rows are inserted in one transaction into an empty table and committed; all are
//! deleted in one transaction, which a crash ends, and cleaned up; all are updated in one, which a crash ends as well.
//! Log and pages are measured before each ends. Row versions are counted as bytes in pages: off-row versions by the server's
//! count of their pages; those in rows, once the server was killed, by `resurgam check`, which counts the bytes of every row that
//! are neither key nor value (an insert's are the writers' tags). It does not matter whether pages had room for them.

use std::path::PathBuf;

use clap::Args;

use super::watch::{Peaks, number};
use super::workload::{BASE, Op, PACE, clean, create_table, timed, until};
use super::{Notes, Subjects, verdict};
use crate::report::{self, table};
use crate::servers::{Kind, Server, Work};
use crate::session::Session;
use crate::setup::{Setup, bytes_of};
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// Goal for the log with row versions on, in megabytes.
const LOG_MB: f64 = 200.0;
/// Bytes of a page of Resurgam.
const PAGE_BYTES: u64 = 8192;
/// The order that leaves full pages to be measured.
const ORDER: [Op; 3] = [Op::Insert, Op::Delete, Op::Update];

/// The paper's, of 10 million rows: log with and without, version store, in megabytes.
fn paper(op: Op) -> (f64, f64, f64) {
    match op {
        Op::Insert => (99.0, 5101.0, 0.0),
        Op::Update => (162.0, 3110.0, 173.0),
        Op::Delete => (341.0, 7771.0, 0.0),
    }
}

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    subjects: Subjects,
    /// Rows that each transaction touches
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
}

impl Options {
    pub(super) fn sized(common: &Common, subjects: &Subjects, quick: bool) -> Self {
        let rows = if quick { 200_000 } else { 10_000_000 };
        Self { common: common.clone(), subjects: subjects.clone(), rows }
    }
}

/// One transaction; sizes in bytes.
struct Case {
    kind: Kind,
    op: Op,
    rows: u64,
    seconds: f64,
    /// Log in use: before, the most that was seen, and at the end. Of the peers, their log's
    /// files.
    log_before: u64,
    log_peak: u64,
    log_end: u64,
    /// Log written.
    written: u64,
    /// Most bytes of the log's files.
    files_peak: u64,
    /// Off-row versions (InnoDB: its undo log).
    off_row: u64,
    /// Bytes of rows that are there for versions; of Resurgam only.
    in_rows: Option<u64>,
    /// Growth of the table (of Resurgam: of all pages but the off-row versions').
    growth: i64,
}

/// What is read off before and after.
struct Sizes {
    written: u64,
    off_row: u64,
    table: u64,
}

/// Where a server's log files are.
fn log_files(server: &Server) -> PathBuf {
    match server.kind {
        Kind::Resurgam | Kind::Traditional => server.dir.join("log"),
        Kind::Postgres => server.dir.join("pg_wal"),
        Kind::MariaDb => server.dir.join("ib_logfile0"),
    }
}

fn sizes(server: &Server, session: &mut Session) -> Result<Sizes> {
    let mut ask = |view: &str, column: &str| {
        number(session, view, column).map(|value| value as u64).ok_or_else(|| format!("no {column} in {view}"))
    };
    Ok(match server.kind {
        Kind::Resurgam | Kind::Traditional => {
            let off_row = ask("resurgam_version_store", "bytes")?;
            let pages = ask("resurgam_buffer", "pages_allocated - pages_freed")?;
            let table = (pages * PAGE_BYTES).saturating_sub(off_row);
            Sizes { written: ask("resurgam_log", "end_lsn")?, off_row, table }
        }
        Kind::Postgres => Sizes {
            written: ask("(select 1) as s", "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")?,
            off_row: 0,
            table: ask("(select 1) as s", "pg_table_size('t')")?,
        },
        Kind::MariaDb => Sizes {
            written: ask(
                "information_schema.global_status where variable_name = 'INNODB_LSN_CURRENT'",
                "variable_value",
            )?,
            off_row: bytes_of(&server.dir.join("ibdata1")),
            table: bytes_of(&server.dir.join("lab").join("t.ibd")),
        },
    })
}

/// Bytes of log that the server needs now.
fn log_in_use(server: &Server, session: &mut Session) -> u64 {
    match server.kind {
        Kind::Resurgam | Kind::Traditional => number(session, "resurgam_log", "bytes_in_use").unwrap_or(0.0) as u64,
        _ => bytes_of(&log_files(server)),
    }
}

/// Runs a statement in a transaction that is left open, and measures until it ends.
fn measured(server: &Server, session: &mut Session, op: Op, rows: u64) -> Result<Case> {
    let kind = server.kind;
    let before = sizes(server, session)?;
    let log_before = log_in_use(server, session);
    let files = log_files(server);
    // MariaDB's figures come from files alone.
    let mut sampler = if kind.is_resurgam() { Some(server.session()?) } else { None };
    let peaks = Peaks::<2>::start(move || {
        let on_disk = bytes_of(&files);
        let used = match &mut sampler {
            Some(session) => number(session, "resurgam_log", "bytes_in_use")? as u64,
            None => on_disk,
        };
        Some([used, on_disk])
    });
    session.query("begin")?;
    let seconds = timed(|| session.query(&op.statement(kind, rows)));
    let [log_peak, files_peak] = peaks.stop()?;
    let seconds = seconds?;
    let log_end = log_in_use(server, session);
    let after = sizes(server, session)?;
    let case = Case {
        kind,
        op,
        rows,
        seconds,
        log_before,
        log_peak: log_peak.max(log_end).max(log_before),
        log_end,
        written: after.written.saturating_sub(before.written),
        files_peak,
        off_row: after.off_row.saturating_sub(before.off_row),
        in_rows: None,
        growth: after.table as i64 - before.table as i64,
    };
    eprintln!("{}, {} of {rows} rows: {seconds:.1} s, log {:.0} MB at most", kind.name(), op.name(), mb(case.log_peak));
    Ok(case)
}

fn one(kind: Kind, options: &Options, setup: &mut Setup, cases: &mut Vec<Case>) -> Result<()> {
    let rows = options.subjects.rows(kind, options.rows);
    let work = Work::new(&options.common)?;
    let mut server = options.subjects.create(kind, &options.common, &work)?;
    setup.saw(&server);
    create_table(&server)?;
    for op in ORDER {
        // Each begins with an empty log: what was before it is written out, and given up.
        if kind.is_resurgam() {
            server.stop()?;
            server.start()?;
        }
        let mut session = server.session()?;
        let mut case = measured(&server, &mut session, op, rows)?;
        if op == Op::Insert {
            session.query("commit")?;
        }
        if kind.is_resurgam() {
            // Before the cleaner takes away what nobody needs.
            server.kill();
            case.in_rows = Some(server.version_bytes_in_rows()?);
            server.start()?;
            session = server.session()?;
            // What awaits redo keeps its log.
            until(PACE, || Ok(number(&mut session, "resurgam_recovery", "pages_awaiting_redo") == Some(0.0)))?;
        }
        cases.push(case);
        match op {
            Op::Insert => {
                // So that as little as may be of this one's log is in use when the next begins.
                if kind != Kind::MariaDb {
                    session.query("checkpoint")?;
                }
            }
            Op::Delete => {
                if !kind.is_resurgam() {
                    session.query("rollback")?;
                }
                clean(&server)?;
                let found = session.query(&format!("select count(*) from t where id >= {BASE}"))?;
                if found != Some(rows.to_string()) {
                    return Err(format!("{found:?} rows are there after the rollback, not {rows}"));
                }
                if kind != Kind::MariaDb {
                    session.query("checkpoint")?;
                }
            }
            Op::Update => server.kill(),
        }
    }
    Ok(())
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut notes = Notes::default();
    let kinds = options.subjects.kinds(&options.common, &mut notes)?;
    let mut setup = Setup::new(&options.common)?;
    let mut cases = Vec::new();
    for kind in kinds {
        if let Err(error) = one(kind, options, &mut setup, &mut cases) {
            notes.add(format!("{}: {error}", kind.name()));
        }
    }
    let (text, svg) = report(options, &setup, &notes, &cases);
    report::write(&options.common, "table1", &text, &svg)
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn find(cases: &[Case], kind: Kind, op: Op) -> Option<&Case> {
    cases.iter().find(|case| case.kind == kind && case.op == op)
}

/// What versions take, in rows and in pages of their own, in megabytes.
fn versions_mb(case: &Case) -> Option<f64> {
    case.in_rows.map(|bytes| mb(bytes) + mb(case.off_row))
}

fn report(options: &Options, setup: &Setup, notes: &Notes, cases: &[Case]) -> (String, String) {
    let mut text = String::from("# Log and version store after one large transaction\n\n");
    text += &report::provenance();
    text += &format!(
        "After table 1 of the paper. {} rows of 200 bytes in a clustered table: inserted in one transaction into an \
         empty table (committed afterwards), deleted in one (rolled back afterwards), a 4-byte integer updated in \
         one; each measured before it ends, one statement each, \
         from an empty log (Resurgam is stopped and started before each). Commits wait for the disk. MB are 10^6 bytes.\n\n\
         - log in use: sampled every 100 ms (Resurgam: `resurgam_log.bytes_in_use`; the peers: their log's files)\n\
         - off-row: pages of the version store (InnoDB: growth of its system tablespace, where the undo log is)\n\
         - versions in rows: bytes of the rows that are neither key nor value, by `resurgam check` after a kill (of an \
         insert, just after its commit: the writers' tags, 8 bytes a row, in both modes, until the cleaner has been there)\n\
         - growth of the table: of updates and deletes what did not fit into the room that pages had (PostgreSQL: new \
         versions of rows); of inserts the rows themselves\n\
         - the traditional mode needs all log of an active transaction: its bound is raised, else it would refuse these\n\n",
        options.rows
    );
    text += &setup.text();
    text += &notes.text();
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    text += &table(
        &[
            "server",
            "operation",
            "rows",
            "s",
            "log in use before, MB",
            "at most, MB",
            "at the end, MB",
            "log files at most, MB",
            "log written, MB",
            "log written, bytes a row",
            "off-row versions, MB",
            "versions in rows, MB",
            "growth of the table, MB",
        ],
        &rows,
    );
    text += "\n## Beside the paper\n\nThe paper's figures are of 10 million rows. Its ratio: log and version store with \
             row versions, to the log without.\n\n";
    text += &beside(cases);
    if options.rows != 10_000_000 {
        text += &format!(
            "\nWith {} rows instead of the paper's 10 million the ratio is not comparable: what does not grow with the \
             rows weighs more.\n",
            options.rows
        );
    }
    text += "\n![plot](table1.svg)\n";
    (text, plot(cases))
}

fn row(case: &Case) -> Vec<String> {
    vec![
        case.kind.name().into(),
        case.op.name().into(),
        case.rows.to_string(),
        format!("{:.1}", case.seconds),
        format!("{:.0}", mb(case.log_before)),
        format!("{:.0}", mb(case.log_peak)),
        format!("{:.0}", mb(case.log_end)),
        format!("{:.0}", mb(case.files_peak)),
        format!("{:.0}", mb(case.written)),
        format!("{:.0}", case.written as f64 / case.rows.max(1) as f64),
        format!("{:.1}", mb(case.off_row)),
        case.in_rows.map_or_else(|| "-".into(), |bytes| format!("{:.1}", mb(bytes))),
        format!("{:.1}", case.growth as f64 / 1e6),
    ]
}

fn beside(cases: &[Case]) -> String {
    let mut rows = Vec::new();
    for op in [Op::Insert, Op::Update, Op::Delete] {
        let Some(on) = find(cases, Kind::Resurgam, op) else { continue };
        let (paper_on, paper_off, paper_versions) = paper(op);
        let versions = versions_mb(on);
        let log = mb(on.log_peak);
        rows.push(vec![
            format!("{}: log, MB", op.name()),
            format!("{paper_on:.0}"),
            format!("at most {LOG_MB:.0}"),
            format!("{log:.0}"),
            verdict(log <= LOG_MB),
        ]);
        rows.push(vec![
            format!("{}: versions, MB", op.name()),
            format!("{paper_versions:.0}"),
            "-".into(),
            versions.map_or_else(|| "not available".into(), |versions| format!("{versions:.1}")),
            "-".into(),
        ]);
        let off = find(cases, Kind::Traditional, op);
        let goal = (paper_on + paper_versions) / paper_off;
        let ratio = off.zip(versions).map(|(off, versions)| (log + versions) / mb(off.log_peak).max(1e-6));
        rows.push(vec![
            format!("{}: log without versions, MB", op.name()),
            format!("{paper_off:.0}"),
            "-".into(),
            off.map_or_else(|| "not available".into(), |off| format!("{:.0}", mb(off.log_peak))),
            "-".into(),
        ]);
        rows.push(vec![
            format!("{}: ratio", op.name()),
            format!("{:.1} %", goal * 100.0),
            format!("at most {:.1} %", goal * 100.0),
            ratio.map_or_else(|| "not available".into(), |ratio| format!("{:.1} %", ratio * 100.0)),
            ratio.map_or_else(|| "-".into(), |ratio| verdict(ratio <= goal)),
        ]);
    }
    table(&["what", "paper", "goal", "measured", "met"], &rows)
}

fn plot(cases: &[Case]) -> String {
    let ops = [Op::Insert, Op::Update, Op::Delete];
    let series = |name: &str, kind: Kind, value: &dyn Fn(&Case) -> f64| Series {
        name: name.to_owned(),
        values: ops.iter().map(|op| find(cases, kind, *op).map(value)).collect(),
    };
    let shown = [
        series("log, versions on", Kind::Resurgam, &|case| mb(case.log_peak)),
        series("row versions", Kind::Resurgam, &|case| versions_mb(case).unwrap_or(0.0)),
        series("log, traditional", Kind::Traditional, &|case| mb(case.log_peak)),
    ];
    let groups: Vec<String> =
        ops.iter().map(|op| format!("{} of {} rows", op.name(), cases.first().map_or(0, |case| case.rows))).collect();
    bars("Space of one large transaction of Resurgam", "MB, the most that was in use", &groups, &shown)
}
