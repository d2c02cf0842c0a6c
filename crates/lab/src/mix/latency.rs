//! Latencies of the TPC-C-like mix while the cleaner works off a large aborted update, against
//! the same without.
//!
//! The clients work all the time, on their own tables. Meanwhile, in each round: nothing else
//! for a while; one transaction updates every row of another table; it rolls back; the cleaner
//! begins by itself, and reverts rows until the last aborted transaction is forgotten.

use std::ops::Range;
use std::time::Duration;

use clap::Args;

use super::drive::{Running, Tally, drive, percentile};
use super::subject::Subject;
use super::tpcc::TpcC;
use super::{Mix, check, load, quiesce};
use crate::recovery::workload::{self, Op, left_of_aborted};
use crate::report::{self, median, table};
use crate::servers::{Server, Work};
use crate::session::Session;
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::timeline::{Panel, stack};
use crate::{Common, Result};

/// Between two looks at the cleaner.
const LOOK: Duration = Duration::from_millis(100);
/// A cleaning that takes longer has hung.
const CLEAN_MAX: Duration = Duration::from_secs(3600);
/// What happens beside the clients.
const PHASES: [&str; 3] = ["nothing", "the update", "cleaning"];
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rows of the update that is rolled back
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Warehouses of the mix
    #[arg(long, default_value_t = 4)]
    warehouses: i64,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seconds with nothing else, in each round
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Seconds before it that are not counted
    #[arg(long, default_value_t = 10.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One more flag for Resurgam; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Little data and short runs, in less than a minute: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

/// One round: when each phase was, and what the clients saw.
struct Round {
    phases: [Range<Duration>; 3],
    tally: Tally,
    /// Seconds of the rollback.
    rollback: f64,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut options = Options { common: options.common.clone(), server_flag: options.server_flag.clone(), ..*options };
    let mut mix = TpcC::new(options.warehouses, options.seed);
    if options.quick {
        options.common.buffer_mb = options.common.buffer_mb.min(256);
        (options.rows, options.seconds, options.warm_up, options.rounds) = (200_000, 3.0, 1.0, 2);
        mix = TpcC::small(2, options.seed);
    }
    let options = &options;
    let mut setup = Setup::new(&options.common)?;
    let work = Work::new(&options.common)?;
    let server = Subject::InRow.create(&options.common, &work, &options.server_flag)?;
    setup.saw(&server);
    eprintln!("loading");
    load(&mix, &server)?;
    workload::create_table(&server)?;
    workload::load(&server, options.rows)?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        quiesce(&server)?;
        let ((phases, rollback), tally) =
            drive(server.port, &mix, &mut terminals, |run| course(options, &server, run))?;
        check(&mix, &server, &terminals)?;
        unchanged(&server, options.rows)?;
        let took = (phases[2].end.saturating_sub(phases[2].start)).as_secs_f64();
        eprintln!("round {}: rolled back in {rollback:.3} s, cleaned in {took:.1} s", number + 1);
        rounds.push(Round { phases, tally, rollback });
    }
    let text = report(options, &mix, &setup, &rounds);
    let groups: Vec<String> = SHARES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let series: Vec<Series> = PHASES
        .iter()
        .enumerate()
        .map(|(phase, name)| Series {
            name: format!("beside {name}"),
            values: SHARES.iter().map(|(_, share)| Some(of_rounds(&rounds, phase, mix.counted(), *share))).collect(),
        })
        .collect();
    let svg = bars("Latency of new orders", "milliseconds, medians of the rounds", &groups, &series);
    report::write_svg(&options.common, "latency-time", &over_time(&rounds, mix.counted()))?;
    report::write(&options.common, "latency", &text, &svg)
}

/// What happens beside the clients in one round: when the phases were, and the seconds that the
/// rollback took.
fn course(options: &Options, server: &Server, run: &Running) -> Result<([Range<Duration>; 3], f64)> {
    let nothing = || [Duration::ZERO..Duration::ZERO, Duration::ZERO..Duration::ZERO, Duration::ZERO..Duration::ZERO];
    let (mut phases, mut session) = (nothing(), server.session()?);
    run.pause(Duration::from_secs_f64(options.warm_up.max(0.0)));
    let quiet = run.elapsed();
    run.pause(Duration::from_secs_f64(options.seconds.max(0.1)));
    phases[0] = quiet..run.elapsed();
    let updating = run.elapsed();
    session.query("begin")?;
    session.query(&Op::Update.statement(server.kind, options.rows))?;
    phases[1] = updating..run.elapsed();
    let reverted = |session: &mut Session| session.query("select rows_reverted from resurgam_cleaner");
    let before = reverted(&mut session)?;
    let rollback = workload::timed(|| session.query("rollback"))?;
    let rolled_back = run.elapsed();
    let mut cleaning = None;
    while left_of_aborted(&mut session)? > 0 {
        if cleaning.is_none() && reverted(&mut session)? != before {
            cleaning = Some(run.elapsed());
        }
        if run.elapsed().saturating_sub(rolled_back) > CLEAN_MAX {
            return Err(format!("the aborted update is not cleaned up after {} s", CLEAN_MAX.as_secs()));
        }
        if !run.pause(LOOK) {
            break;
        }
    }
    phases[2] = cleaning.unwrap_or(rolled_back)..run.elapsed();
    Ok((phases, rollback))
}

/// Whether the rows are as they were before the update.
fn unchanged(server: &Server, rows: u64) -> Result<()> {
    let found = server.client()?.rows("select count(*), sum(n) from t")?;
    let right = [Some((rows + workload::BASE).to_string()), Some("0".to_owned())];
    match found.first() {
        Some(row) if row[..] == right => Ok(()),
        other => Err(format!("after the rollback count and sum are {other:?}, not {right:?}")),
    }
}

/// The median over the rounds of a percentile, in milliseconds.
fn of_rounds(rounds: &[Round], phase: usize, kind: Option<usize>, share: f64) -> f64 {
    let all: Vec<f64> =
        rounds.iter().map(|round| percentile(&round.tally.latencies(kind, &round.phases[phase]), share)).collect();
    median(&all)
}

/// The first round by the second: new orders committed, and their 99th percentile.
fn over_time(rounds: &[Round], kind: Option<usize>) -> String {
    let Some(round) = rounds.first() else { return stack("", &[], &[]) };
    let end = round.phases[2].end.as_secs();
    let seconds: Vec<(f64, Vec<f64>)> = (0..end)
        .map(|second| {
            let within = Duration::from_secs(second)..Duration::from_secs(second + 1);
            (second as f64 + 0.5, round.tally.latencies(kind, &within))
        })
        .collect();
    let panels = [
        Panel {
            title: "new orders a second".into(),
            lines: vec![seconds.iter().map(|(at, times)| (*at, times.len() as f64)).collect()],
        },
        Panel {
            title: "p99 of the second, in milliseconds".into(),
            lines: vec![seconds.iter().map(|(at, times)| (*at, percentile(times, 0.99))).collect()],
        },
    ];
    let marks = [
        (round.phases[1].start.as_secs_f64(), "update"),
        (round.phases[1].end.as_secs_f64(), "rollback"),
        (round.phases[2].start.as_secs_f64(), "cleaner"),
        (round.phases[2].end.as_secs_f64(), "clean"),
    ];
    stack("New orders over time, first round", &panels, &marks)
}

fn report(options: &Options, mix: &dyn Mix, setup: &Setup, rounds: &[Round]) -> String {
    let mut rows = Vec::new();
    let kinds = (0..mix.kinds().len()).map(|kind| (mix.kinds()[kind], Some(kind)));
    for (name, kind) in std::iter::once(("all", None)).chain(kinds) {
        for (phase, beside) in PHASES.iter().enumerate() {
            let rates: Vec<f64> = rounds
                .iter()
                .map(|round| {
                    let within = &round.phases[phase];
                    let seconds = within.end.saturating_sub(within.start).as_secs_f64();
                    round.tally.latencies(kind, within).len() as f64 / seconds.max(0.001)
                })
                .collect();
            let mut row = vec![name.to_owned(), (*beside).to_owned(), format!("{:.1}", median(&rates))];
            row.extend(SHARES.iter().map(|(_, share)| format!("{:.2}", of_rounds(rounds, phase, kind, *share))));
            rows.push(row);
        }
    }
    let course: Vec<Vec<String>> = rounds
        .iter()
        .enumerate()
        .map(|(number, round)| {
            let seconds =
                |phase: &Range<Duration>| format!("{:.1}", phase.end.saturating_sub(phase.start).as_secs_f64());
            vec![
                (number + 1).to_string(),
                seconds(&round.phases[1]),
                format!("{:.4}", round.rollback),
                format!("{:.1}", round.phases[2].start.saturating_sub(round.phases[1].end).as_secs_f64()),
                seconds(&round.phases[2]),
            ]
        })
        .collect();
    let mut text = String::from("# Latency while a large aborted update is cleaned up\n\n");
    text += &report::provenance();
    text += &format!(
        "{} clients work on a TPC-C-like mix of {} warehouses without think times, all the time; seed {}; commits wait \
         for the disk. Beside them, {} times: nothing, for {} s; one transaction that updates an integer in each of {} \
         rows of 200 bytes of another table; its rollback; the cleaner's work on it, from the first row that it \
         reverts until the transaction is forgotten. Percentiles are medians over the rounds. After each round the mix's \
         consistency conditions and the sum over the updated table were checked. The plots are of new orders.\n\n",
        options.clients,
        mix_size(options),
        options.seed,
        options.rounds,
        options.seconds,
        options.rows
    );
    text += &setup.text();
    text += &table(&["transaction", "beside it", "a second", "p50 ms", "p99 ms", "p99.9 ms"], &rows);
    text += "\n";
    text += &table(&["round", "update s", "rollback s", "s until the cleaner began", "cleaning s"], &course);
    text += "\n![plot](latency.svg)\n\n![over time](latency-time.svg)\n";
    text
}

fn mix_size(options: &Options) -> i64 {
    if options.quick { 2 } else { options.warehouses }
}
