//! What a practitioner measured of the same mechanism in SQL Server: a restart with a large
//! uncommitted transaction, rollbacks of rows inserted by many small statements and by one
//! large one, and what row versions cost an insert.
//!
//! The two modes take turns within a round, and the one that begins changes from round to
//! round: a machine that slows down slows both.

use clap::Args;

use super::figure9::{ANSWER_MS, ROLLBACK_MS, ms, restart_cells};
use super::table3::singles;
use super::watch::{Recovered, crash};
use super::workload::{BASE, Op, clean, create_table, insert, insert_one, read_touched, timed};
use super::{Notes, Subjects, verdict};
use crate::report::{self, median, table};
use crate::servers::{Kind, Server, Work};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// Goal: row versions make an insert at most so much slower.
const COST: f64 = 0.03;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    subjects: Subjects,
    /// Rows that the open transaction inserted before the restart
    #[arg(long, default_value_t = 20_000_000)]
    restart_rows: u64,
    /// Rows that are inserted and rolled back
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Rounds of the inserts and rollbacks; the peers take part in the first
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

impl Options {
    pub(super) fn sized(common: &Common, subjects: &Subjects, quick: bool) -> Self {
        let (restart_rows, rows, runs) = if quick { (200_000, 50_000, 3) } else { (20_000_000, 2_000_000, 5) };
        Self { common: common.clone(), subjects: subjects.clone(), restart_rows, rows, runs }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Small,
    One,
}

const WAYS: [Way; 2] = [Way::Small, Way::One];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Small => "many small statements",
            Self::One => "one statement",
        }
    }
}

/// Seconds to insert, and to roll back.
type Times = (f64, f64);

fn insert_and_roll_back(server: &Server, way: Way, rows: u64) -> Result<Times> {
    let mut session = server.session()?;
    if server.kind != Kind::MariaDb {
        // What went before, on either server, does not write during this one.
        session.query("checkpoint")?;
    }
    let times = if way == Way::Small && server.kind != Kind::MariaDb {
        let mut client = server.client()?;
        client.prepare("insert", &insert_one())?;
        client.query("begin")?;
        let inserted = timed(|| singles(&mut client, "insert", BASE, rows))?;
        (inserted, timed(|| client.query("rollback"))?)
    } else {
        session.query("begin")?;
        let inserted = timed(|| session.query(&insert(server.kind, BASE, rows)))?;
        (inserted, timed(|| session.query("rollback"))?)
    };
    read_touched(&mut session, Op::Insert, rows)?;
    clean(server)?;
    Ok(times)
}

/// What was measured of one server.
struct Measured {
    kind: Kind,
    rows: u64,
    /// By way, by round.
    times: [Vec<Times>; 2],
}

fn rollbacks(kinds: &[Kind], options: &Options, setup: &mut Setup, notes: &mut Notes) -> Result<Vec<Measured>> {
    let work = Work::new(&options.common)?;
    let mut servers = Vec::new();
    for &kind in kinds {
        let server = options.subjects.create(kind, &options.common, &work)?;
        setup.saw(&server);
        create_table(&server)?;
        let rows = options.subjects.rows(kind, options.rows);
        servers.push((server, Measured { kind, rows, times: [Vec::new(), Vec::new()] }));
    }
    for run in 0..options.runs {
        for (at, way) in WAYS.into_iter().enumerate() {
            for (server, measured) in &mut servers {
                let peer = !server.kind.is_resurgam();
                if peer && (run > 0 || (server.kind == Kind::MariaDb && way == Way::Small)) {
                    continue;
                }
                match insert_and_roll_back(server, way, measured.rows) {
                    Ok(times) => {
                        let (name, rows) = (server.kind.name(), measured.rows);
                        let (inserted, back) = (times.0, times.1 * 1e3);
                        eprintln!(
                            "round {}, {name}, {rows} rows by {}: {inserted:.2} s, rolled back in {back:.2} ms",
                            run + 1,
                            way.name()
                        );
                        measured.times[at].push(times);
                    }
                    Err(error) => notes.add(format!("{}, {}: {error}", server.kind.name(), way.name())),
                }
            }
        }
        servers.reverse();
    }
    servers.sort_by_key(|(server, _)| kinds.iter().position(|kind| *kind == server.kind));
    Ok(servers.into_iter().map(|(_, measured)| measured).collect())
}

/// A restart of each server, with the rows that its transaction had inserted.
fn restarts(
    kinds: &[Kind],
    options: &Options,
    setup: &mut Setup,
    notes: &mut Notes,
) -> Result<Vec<(Kind, u64, Recovered)>> {
    let mut found = Vec::new();
    for &kind in kinds {
        let rows = options.subjects.rows(kind, options.restart_rows);
        let work = Work::new(&options.common)?;
        let restart = options.subjects.create(kind, &options.common, &work).and_then(|mut server| {
            setup.saw(&server);
            create_table(&server)?;
            crash(&mut server, Op::Insert, rows)
        });
        match restart {
            Ok(recovered) => {
                eprintln!("{}: answered {:.3} s after a crash with {rows} rows", kind.name(), recovered.answer);
                found.push((kind, rows, recovered));
            }
            Err(error) => notes.add(format!("{}, restart with {rows} rows: {error}", kind.name())),
        }
    }
    Ok(found)
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut notes = Notes::default();
    let kinds = options.subjects.kinds(&options.common, &mut notes)?;
    if kinds.contains(&Kind::MariaDb) {
        notes.add(format!("{}, {}: its client program would be measured", Kind::MariaDb.name(), Way::Small.name()));
    }
    let mut setup = Setup::new(&options.common)?;
    let measured = rollbacks(&kinds, options, &mut setup, &mut notes)?;
    let restarts = restarts(&kinds, options, &mut setup, &mut notes)?;
    let (text, svg) = report(options, &setup, &notes, &measured, &restarts);
    report::write(&options.common, "blog", &text, &svg)
}

/// What the blog found for SQL Server: seconds to insert, to roll back.
fn of_sql_server(kind: Kind, way: Way) -> &'static str {
    match (kind, way) {
        (Kind::Resurgam, Way::Small) => "324 / 0",
        (Kind::Traditional, Way::Small) => "88 / 18",
        (Kind::Resurgam, Way::One) => "19 / 0",
        (Kind::Traditional, Way::One) => "14 / 15",
        _ => "-",
    }
}

fn report(
    options: &Options,
    setup: &Setup,
    notes: &Notes,
    measured: &[Measured],
    restarts: &[(Kind, u64, Recovered)],
) -> (String, String) {
    let mut text = String::from("# A restart, rollbacks, and what row versions cost an insert\n\n");
    text += &report::provenance();
    text += &format!(
        "After a practitioner's test of SQL Server's accelerated database recovery. Rows of 200 bytes are inserted into a \
         clustered table, keys ascending, in one transaction: by one statement, or by many small ones (a prepared \
         statement for each row, 256 sent before the answers are read). {} rounds in which the servers take turns, the \
         order reversed from round to round; medians; the peers take part in the first round only. Everything is \
         cleaned up, and a checkpoint taken, before the next insert. For the restart one statement inserts the rows, and the server is killed \
         with kill -9 and started again. Commits wait for the disk. No random numbers are involved.\n\n",
        options.runs
    );
    text += &setup.text();
    text += &notes.text();
    text += "## Restart with uncommitted rows\n\nTimes since the start of the process. SQL Server, 20 million rows: 1 s \
             with, 365 s without.\n\n";
    let rows: Vec<Vec<String>> = restarts.iter().map(restart_row).collect();
    text += &table(
        &[
            "server",
            "uncommitted rows",
            "first answer, ms",
            "first read of the table, ms",
            "first write to it, ms",
            "analysis, ms",
            "redo done, ms",
            "undo done, ms",
            "last trace gone, ms",
        ],
        &rows,
    );
    text += "\n## Insert and rollback\n\n";
    text += &table(
        &[
            "rows inserted by",
            "server",
            "rows",
            "insert, s",
            "rollback, ms",
            "inserts of all rounds, s",
            "SQL Server, s / s",
        ],
        &insert_rows(measured),
    );
    text += "\n## Goals\n\n";
    text += &goals(measured, restarts);
    text += "\n![plot](blog.svg)\n";
    (text, plot(measured))
}

fn restart_row((kind, rows, recovered): &(Kind, u64, Recovered)) -> Vec<String> {
    let mut cells = vec![kind.name().into(), rows.to_string()];
    cells.extend(restart_cells(recovered));
    cells
}

fn insert_rows(measured: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (at, way) in WAYS.into_iter().enumerate() {
        for server in measured.iter().filter(|server| !server.times[at].is_empty()) {
            let inserts: Vec<f64> = server.times[at].iter().map(|times| times.0).collect();
            let backs: Vec<f64> = server.times[at].iter().map(|times| times.1).collect();
            let all: Vec<String> = inserts.iter().map(|seconds| format!("{seconds:.2}")).collect();
            rows.push(vec![
                way.name().into(),
                server.kind.name().into(),
                server.rows.to_string(),
                format!("{:.2}", median(&inserts)),
                ms(median(&backs)),
                all.join(", "),
                of_sql_server(server.kind, way).into(),
            ]);
        }
    }
    rows
}

/// How much longer inserts take with versions: the median over the rounds, and all of them.
fn cost(measured: &[Measured], way: usize) -> Option<(f64, Vec<f64>)> {
    let of = |kind| measured.iter().find(|server| server.kind == kind).map(|server| &server.times[way]);
    let (on, off) = (of(Kind::Resurgam)?, of(Kind::Traditional)?);
    if on.is_empty() || on.len() != off.len() {
        return None;
    }
    let all: Vec<f64> = on.iter().zip(off).map(|(on, off)| on.0 / off.0 - 1.0).collect();
    Some((median(&all), all))
}

fn goals(measured: &[Measured], restarts: &[(Kind, u64, Recovered)]) -> String {
    let mut rows = Vec::new();
    for (at, way) in WAYS.into_iter().enumerate() {
        let what = format!("cost of row versions on insert, {}", way.name());
        let goal = format!("under {:.0} %", COST * 100.0);
        rows.push(match cost(measured, at) {
            Some((cost, all)) => {
                let all: Vec<String> = all.iter().map(|cost| format!("{:+.1}", cost * 100.0)).collect();
                let value = format!("{:+.1} % (rounds: {})", cost * 100.0, all.join(", "));
                vec![what, goal, value, verdict(cost < COST)]
            }
            None => vec![what, goal, "not available".into(), "-".into()],
        });
        let own = measured.iter().find(|server| server.kind == Kind::Resurgam);
        let worst = own.map_or(0.0, |own| own.times[at].iter().map(|times| times.1 * 1e3).fold(0.0, f64::max));
        if worst > 0.0 {
            let what = format!("rollback with row versions, {}", way.name());
            let goal = format!("under {ROLLBACK_MS:.0} ms");
            rows.push(vec![what, goal, format!("{worst:.2} ms at worst"), verdict(worst < ROLLBACK_MS)]);
        }
    }
    if let Some((_, _, own)) = restarts.iter().find(|(kind, ..)| *kind == Kind::Resurgam) {
        let answer = own.answer * 1e3;
        let what = "restart to first answer with row versions".to_owned();
        rows.push(vec![
            what,
            format!("under {ANSWER_MS:.0} ms"),
            format!("{answer:.0} ms"),
            verdict(answer < ANSWER_MS),
        ]);
    }
    table(&["what", "goal", "measured", "met"], &rows)
}

fn plot(measured: &[Measured]) -> String {
    let value = |server: &Measured, at: usize, back: bool| {
        let times: Vec<f64> = server.times[at].iter().map(|times| if back { times.1 } else { times.0 }).collect();
        if times.is_empty() { None } else { Some(median(&times)) }
    };
    let groups: Vec<String> =
        ["insert, small", "rollback, small", "insert, one", "rollback, one"].map(str::to_owned).into();
    let series: Vec<Series> = measured
        .iter()
        .map(|server| Series {
            name: server.kind.name().to_owned(),
            values: [(0, false), (0, true), (1, false), (1, true)]
                .into_iter()
                .map(|(at, back)| value(server, at, back))
                .collect(),
        })
        .collect();
    bars("Insert and rollback, by many small statements and by one", "seconds", &groups, &series)
}
