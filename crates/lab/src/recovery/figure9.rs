//! Times to roll back and to recover, by operation and rows (the paper's figure 9).
//!
//! One server per size serves all three operations: each is done and rolled back, cleaned
//! up, done again and cut off by kill -9. The inserts come first, before the rows are loaded
//! that the updates and deletes touch.

use clap::Args;

use super::watch::{Recovered, RolledBack, crash, roll_back};
use super::workload::{Op, create_table, load};
use super::{Notes, Subjects, verdict};
use crate::lines::{Line, Panel, log_log};
use crate::report::{self, table};
use crate::servers::{Kind, Work};
use crate::setup::Setup;
use crate::{Common, Result};

/// Goals: milliseconds to roll back, and from the process's start to the first answer.
pub const ROLLBACK_MS: f64 = 1.0;
pub const ANSWER_MS: f64 = 150.0;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    subjects: Subjects,
    /// Rows that the transaction touches
    #[arg(long, value_delimiter = ',', default_values_t = [100_000u64, 1_000_000, 5_000_000, 10_000_000])]
    rows: Vec<u64>,
    /// What it does to them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Op::Insert, Op::Update, Op::Delete])]
    ops: Vec<Op>,
}

impl Options {
    pub(super) fn sized(common: &Common, subjects: &Subjects, quick: bool) -> Self {
        let rows = if quick { vec![10_000, 30_000, 100_000] } else { vec![100_000, 1_000_000, 5_000_000, 10_000_000] };
        let ops = vec![Op::Insert, Op::Update, Op::Delete];
        Self { common: common.clone(), subjects: subjects.clone(), rows, ops }
    }
}

/// One operation at one size on one server.
struct Case {
    kind: Kind,
    op: Op,
    rows: u64,
    live: RolledBack,
    crash: Recovered,
}

fn one(kind: Kind, rows: u64, options: &Options, setup: &mut Setup, cases: &mut Vec<Case>) -> Result<()> {
    let work = Work::new(&options.common)?;
    let mut server = options.subjects.create(kind, &options.common, &work)?;
    setup.saw(&server);
    create_table(&server)?;
    let mut ops = options.ops.clone();
    ops.sort();
    ops.dedup();
    let mut loaded = false;
    for op in ops {
        if op != Op::Insert && !loaded {
            load(&server, rows)?;
            loaded = true;
        }
        let live = roll_back(&server, op, rows)?;
        let crash = crash(&mut server, op, rows)?;
        eprintln!(
            "{}, {} of {rows} rows: {:.1} s, rolled back in {:.2} ms, answered {:.0} ms after the restart, \
             last trace gone after {:.1} s",
            kind.name(),
            op.name(),
            live.work,
            live.rollback * 1e3,
            crash.answer * 1e3,
            crash.gone
        );
        cases.push(Case { kind, op, rows, live, crash });
    }
    Ok(())
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut notes = Notes::default();
    let kinds = options.subjects.kinds(&options.common, &mut notes)?;
    let mut setup = Setup::new(&options.common)?;
    let mut cases = Vec::new();
    let mut sizes = options.rows.clone();
    sizes.sort_unstable();
    sizes.dedup();
    for &rows in &sizes {
        for &kind in &kinds {
            if options.subjects.rows(kind, rows) < rows {
                let most = options.subjects.peer_rows_max;
                notes.add(format!("{}: only up to {most} rows", kind.name()));
            } else if let Err(error) = one(kind, rows, options, &mut setup, &mut cases) {
                notes.add(format!("{}, {rows} rows: {error}", kind.name()));
            }
        }
    }
    let (text, svg) = report(&kinds, options, &setup, &notes, &cases);
    report::write_csv(&options.common, "figure9", &CSV, &cases.iter().map(csv).collect::<Vec<_>>())?;
    report::write(&options.common, "figure9", &text, &svg)
}

const CSV: [&str; 15] = [
    "server",
    "operation",
    "rows",
    "statement_s",
    "rollback_ms",
    "clean_s",
    "answer_ms",
    "read_ms",
    "write_ms",
    "analysis_ms",
    "open_ms",
    "redo_ms",
    "undo_ms",
    "undo_records",
    "gone_ms",
];

fn csv(case: &Case) -> Vec<String> {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let maybe = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let (live, crash) = (&case.live, &case.crash);
    vec![
        case.kind.name().replace(',', ""),
        case.op.name().into(),
        case.rows.to_string(),
        format!("{:.3}", live.work),
        ms(live.rollback),
        format!("{:.3}", live.clean),
        ms(crash.answer),
        ms(crash.read),
        ms(crash.write),
        maybe(crash.analysis_ms),
        maybe(crash.open_ms),
        maybe(crash.redo.map(|s| s * 1e3)),
        maybe(crash.undo.map(|s| s * 1e3)),
        crash.undo_records.map_or_else(String::new, |records| format!("{records:.0}")),
        ms(crash.gone),
    ]
}

/// Milliseconds, with as many digits as they deserve.
pub fn ms(seconds: f64) -> String {
    match seconds * 1e3 {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

fn report(kinds: &[Kind], options: &Options, setup: &Setup, notes: &Notes, cases: &[Case]) -> (String, String) {
    let mut text = String::from("# Rolling back and recovering, by operation and rows\n\n");
    text += &report::provenance();
    text += "After figure 9 of the paper. A table of 200-byte rows, clustered by a `bigint` key; one statement in one \
             transaction inserts the rows, updates a 4-byte integer in them, or deletes them. *Live*: the \
             transaction is rolled back. *Crash*: it is done again, left open, and the server is killed with \
             kill -9 and started again. Commits wait for the disk on all servers. One run of each; no random \
             numbers are involved. Times of a restart count from the start of the process:\n\n\
             - first answer: `select 1`; first read and first write: of a touched row by its key, the write \
             committed\n\
             - analysis: as the server says; redo: no page awaits redo any more (PostgreSQL: its first answer); undo: \
             only the traditional mode has one\n\
             - last trace gone: Resurgam: after the write above, and the undo if there is one, a `VACUUM` is run (the cleaner would do the same \
             within its interval) and no aborted transaction is known any more; PostgreSQL: \
             `VACUUM` of the table is done; InnoDB: no transaction is rolling back and the history list is empty, \
             by itself\n\n";
    text += &setup.text();
    text += &notes.text();
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    text += &table(
        &[
            "operation",
            "rows",
            "server",
            "statement, s",
            "live: rollback, ms",
            "live: clean up, s",
            "crash: first answer, ms",
            "first read, ms",
            "first write, ms",
            "analysis, ms",
            "redo done, ms",
            "undo done, ms",
            "last trace gone, ms",
        ],
        &rows,
    );
    text += "\n## Goals\n\n";
    text += &goals(cases);
    text += "\n![plot](figure9.svg)\n\nThe numbers: [figure9.csv](figure9.csv).\n";
    (text, plot(kinds, options, cases))
}

fn row(case: &Case) -> Vec<String> {
    let live = &case.live;
    let mut cells = vec![
        case.op.name().into(),
        case.rows.to_string(),
        case.kind.name().into(),
        format!("{:.1}", live.work),
        ms(live.rollback),
        format!("{:.2}", live.clean),
    ];
    cells.extend(restart_cells(&case.crash));
    cells
}

/// The columns of a restart: first answer, read and write, analysis, redo, undo, last trace.
pub fn restart_cells(recovered: &Recovered) -> [String; 7] {
    let none = || "-".to_owned();
    [
        ms(recovered.answer),
        ms(recovered.read),
        ms(recovered.write),
        recovered.analysis_ms.map_or_else(none, |value| ms(value / 1e3)),
        recovered.redo.map_or_else(none, ms),
        recovered.undo.map_or_else(none, ms),
        ms(recovered.gone),
    ]
}

fn goals(cases: &[Case]) -> String {
    let of = |value: fn(&Case) -> f64| {
        let own = cases.iter().filter(|case| case.kind == Kind::Resurgam);
        own.map(|case| (value(case) * 1e3, case)).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let mut rows = Vec::new();
    for (what, goal, worst) in [
        ("rollback, row versions on", ROLLBACK_MS, of(|case| case.live.rollback)),
        ("first answer after the crash, row versions on", ANSWER_MS, of(|case| case.crash.answer)),
    ] {
        let Some((worst, case)) = worst else { continue };
        rows.push(vec![
            what.to_owned(),
            format!("under {goal:.0} ms at every size"),
            format!("{worst:.2} ms at worst ({} of {} rows)", case.op.name(), case.rows),
            verdict(worst < goal),
        ]);
    }
    table(&["what", "goal", "measured", "met"], &rows)
}

/// The same colour for a server in every plot.
fn entry(kind: Kind) -> usize {
    match kind {
        Kind::Resurgam => 0,
        Kind::Postgres => 1,
        Kind::Traditional => 2,
        Kind::MariaDb => 3,
    }
}

fn plot(kinds: &[Kind], options: &Options, cases: &[Case]) -> String {
    let measures: [(&str, fn(&Case) -> f64); 4] = [
        ("rollback", |case| case.live.rollback),
        ("first answer after crash", |case| case.crash.answer),
        ("first write of a touched row", |case| case.crash.write),
        ("last trace gone after crash", |case| case.crash.gone),
    ];
    let mut ops = options.ops.clone();
    ops.sort();
    ops.dedup();
    let mut panels = Vec::new();
    for (measure, value) in measures {
        for op in &ops {
            let lines = kinds.iter().map(|kind| {
                let own = cases.iter().filter(|case| case.kind == *kind && case.op == *op);
                Line { entry: entry(*kind), points: own.map(|case| (case.rows as f64, value(case) * 1e3)).collect() }
            });
            panels.push(Panel { title: format!("{}: {measure}", op.name()), lines: lines.collect() });
        }
    }
    let legend: Vec<(usize, String)> = kinds.iter().map(|kind| (entry(*kind), kind.name().to_owned())).collect();
    log_log(
        "Rolling back and recovering one transaction",
        "rows of 200 bytes that the transaction touched",
        "milliseconds",
        &legend,
        ops.len(),
        &panels,
        &[Some(ROLLBACK_MS), Some(ANSWER_MS), None, None],
    )
}
