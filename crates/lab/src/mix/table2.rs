//! Throughput of both mixes by mode (the paper's table 2): row versions in the row and off the
//! row, against the traditional mode.
//!
//! All servers of a mix run at the same time, each with its own data; runs take turns, and
//! who begins changes from round to round. Clients work with one server at a time; before each run it takes
//! a checkpoint, and the cleaner keeps its pace. Rates are compared within a round, and the ratio has its
//! confidence interval. After each run the mix's conditions are checked.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::db::Times;
use super::drive::{Tally, drive, percentile};
use super::subject::{Subject, subjects};
use super::tpcc::TpcC;
use super::tpce::TpcE;
use super::{Mix, Terminal, check, check_the_check, load, write_out};
use crate::report::{self, median, table};
use crate::servers::{Server, Work};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// Which mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Order entry, after TPC-C
    C,
    /// A brokerage, after TPC-E
    E,
}

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// The mixes
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Which::C, Which::E])]
    mix: Vec<Which>,
    /// Warehouses of the TPC-C-like mix
    #[arg(long, default_value_t = 4)]
    warehouses: i64,
    /// Customers of the TPC-E-like mix
    #[arg(long, default_value_t = 5000)]
    customers: i64,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Seconds before it that are not counted
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Rounds, in each of which every server runs once
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Measure PostgreSQL as well, where it is installed
    #[arg(long)]
    peers: bool,
    /// Report the time of each statement too, as clients see it
    #[arg(long)]
    statements: bool,
    /// One more flag for Resurgam, as `--server-flag=--checkpoint-log-bytes=1GB`; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Little data and short runs, in less than a minute: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
    /// Spoil the data on purpose after each server's first run, and take it back, to see that the checks find it
    #[arg(long, hide = true)]
    canary: bool,
}

impl Options {
    fn sized(&self) -> Self {
        let mut sized =
            Self { common: self.common.clone(), mix: self.mix.clone(), server_flag: self.server_flag.clone(), ..*self };
        if self.quick {
            sized.common.buffer_mb = self.common.buffer_mb.min(256);
            (sized.warehouses, sized.customers) = (2, 200);
            (sized.seconds, sized.warm_up, sized.rounds) = (1.0, 0.3, 2);
        }
        sized
    }

    fn mix(&self, which: Which) -> Box<dyn Mix> {
        match which {
            Which::C => {
                let all = TpcC::new(self.warehouses, self.seed);
                let sized = if self.quick { TpcC::small(self.warehouses, self.seed) } else { all };
                // With the 1 % of new orders that end so anyway, 1 % of all transactions.
                Box::new(TpcC { aborts: 0.006, ..sized })
            }
            Which::E => Box::new(TpcE::new(self.customers, self.seed)),
        }
    }
}

/// A server with a mix's data, its clients, and its runs.
struct Contender {
    subject: Subject,
    server: Server,
    terminals: Vec<Box<dyn Terminal>>,
    runs: Vec<Tally>,
    /// Processor time of the server in each run, in seconds.
    cpu: Vec<f64>,
}

/// The counted part of a run.
fn counted(options: &Options) -> std::ops::Range<Duration> {
    let start = Duration::from_secs_f64(options.warm_up.max(0.0));
    start..start + Duration::from_secs_f64(options.seconds.max(0.1))
}

impl Contender {
    fn rates(&self, options: &Options, kind: Option<usize>) -> Vec<f64> {
        let within = counted(options);
        let minutes = (within.end - within.start).as_secs_f64() / 60.0;
        self.runs.iter().map(|run| run.latencies(kind, &within).len() as f64 / minutes).collect()
    }
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let options = &options.sized();
    let all = subjects(&options.common, options.peers)?;
    let mut setup = Setup::new(&options.common)?;
    let (mut results, mut details, mut statements) = (Vec::new(), Vec::new(), Vec::new());
    let mut series: Vec<Series> =
        all.iter().map(|subject| Series { name: subject.name().into(), values: Vec::new() }).collect();
    let mut groups = Vec::new();
    for which in &options.mix {
        let mix = options.mix(*which);
        let contenders = compete(options, mix.as_ref(), &all, &mut setup)?;
        groups.push(mix.name().to_owned());
        rows(options, mix.as_ref(), &contenders, &mut results, &mut details);
        statements.extend(contenders.iter().flat_map(|contender| statement_rows(mix.as_ref(), contender)));
        for (contender, series) in contenders.iter().zip(&mut series) {
            series.values.push(Some(median(&contender.rates(options, mix.counted()))));
        }
    }
    let mut text = report(options, &setup, &results, &details);
    if options.statements {
        text += "\nStatements, by their time in all rounds together:\n\n";
        text += &table(&["mix", "mode", "statement", "times", "mean µs", "share of the time"], &statements);
    }
    let svg = bars("Throughput by mode, median of interleaved runs", "committed a minute", &groups, &series);
    report::write(&options.common, "table2", &text, &svg)
}

fn compete(options: &Options, mix: &dyn Mix, all: &[Subject], setup: &mut Setup) -> Result<Vec<Contender>> {
    let work = Work::new(&options.common)?;
    let mut contenders = Vec::new();
    for &subject in all {
        eprintln!("{}, {}: loading", mix.name(), subject.name());
        let server = subject.create(&options.common, &work, &options.server_flag)?;
        setup.saw(&server);
        load(mix, &server)?;
        let terminals = mix.terminals(options.clients, options.seed);
        contenders.push(Contender { subject, server, terminals, runs: Vec::new(), cpu: Vec::new() });
    }
    for round in 0..options.rounds {
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            let Contender { subject, server, terminals, runs, cpu } = &mut contenders[at];
            write_out(server)?;
            let until = counted(options).end;
            let before = server.cpu_seconds()?;
            let ((), tally) = drive(server.port, mix, terminals, |run| {
                run.pause(until);
                Ok(())
            })?;
            cpu.push(server.cpu_seconds()? - before);
            check(mix, server, terminals)?;
            if options.canary && round == 0 {
                check_the_check(mix, server, terminals)?;
            }
            let done = tally.latencies(mix.counted(), &counted(options)).len();
            let (name, subject) = (mix.name(), subject.name());
            eprintln!("round {}, {name}, {subject}: {:.0} a minute", round + 1, done as f64 * 60.0 / options.seconds);
            runs.push(tally);
        }
    }
    Ok(contenders)
}

/// The rows of both tables.
fn rows(
    options: &Options,
    mix: &dyn Mix,
    contenders: &[Contender],
    results: &mut Vec<Vec<String>>,
    details: &mut Vec<Vec<String>>,
) {
    let base = contenders.iter().find(|contender| contender.subject == Subject::Traditional);
    for contender in contenders {
        let rates = contender.rates(options, mix.counted());
        // Rounds are compared with each other, so that what slows a whole round does not count.
        let ratios: Vec<f64> = base
            .map(|base| base.rates(options, mix.counted()))
            .unwrap_or_default()
            .iter()
            .zip(&rates)
            .map(|(base, rate)| rate / base.max(1.0))
            .collect();
        // The whole run, warm-up included, as the processor time is.
        let done: usize = contender.runs.iter().map(|run| run.done.len()).sum();
        let cpu_us = contender.cpu.iter().sum::<f64>() * 1e6 / done.max(1) as f64;
        let all: usize = contender.runs.iter().map(|run| run.done.len()).sum();
        let gone: u64 = contender.runs.iter().map(|run| run.rolled_back).sum();
        let conflicts: u64 = contender.runs.iter().map(|run| run.conflicts).sum();
        let share = |count: u64| {
            format!("{:.2} %", count as f64 * 100.0 / (all as f64 + gone as f64 + conflicts as f64).max(1.0))
        };
        results.push(vec![
            mix.name().to_owned(),
            contender.subject.name().to_owned(),
            format!("{:.0}", median(&rates)),
            report::paired_text(&ratios),
            format!("{cpu_us:.0}"),
            rates.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(", "),
            share(gone),
            share(conflicts),
        ]);
        let within = counted(options);
        for (kind, name) in mix.kinds().iter().enumerate() {
            let mut times: Vec<f64> =
                contender.runs.iter().flat_map(|run| run.latencies(Some(kind), &within)).collect();
            times.sort_by(f64::total_cmp);
            let at = |share| format!("{:.2}", percentile(&times, share));
            let mean = times.iter().fold(0.0, |sum, time| sum + time) / times.len().max(1) as f64;
            details.push(vec![
                (*name).to_owned(),
                contender.subject.name().to_owned(),
                times.len().to_string(),
                format!("{mean:.2}"),
                at(0.5),
                at(0.9),
                at(0.99),
                at(0.999),
            ]);
        }
    }
}

/// What each statement took, those first that took most in all.
fn statement_rows(mix: &dyn Mix, contender: &Contender) -> Vec<Vec<String>> {
    let mut sums = Times::new();
    for (name, (count, time)) in contender.runs.iter().flat_map(|run| &run.statements) {
        let sum = sums.entry(name.clone()).or_default();
        *sum = (sum.0 + count, sum.1 + *time);
    }
    let whole = sums.values().map(|(_, time)| time.as_secs_f64()).sum::<f64>().max(1e-9);
    let mut sums: Vec<(String, (u64, Duration))> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    sums.into_iter()
        .map(|(name, (count, time))| {
            let seconds = time.as_secs_f64();
            vec![
                mix.name().to_owned(),
                contender.subject.name().to_owned(),
                name,
                count.to_string(),
                format!("{:.0}", seconds * 1e6 / count as f64),
                format!("{:.1} %", seconds * 100.0 / whole),
            ]
        })
        .collect()
}

fn report(options: &Options, setup: &Setup, results: &[Vec<String>], details: &[Vec<String>]) -> String {
    let mut text = String::from("# Throughput by mode\n\n");
    text += &report::provenance();
    text += &format!(
        "After table 2 of the paper, which found 13.8 % less throughput on TPC-C with row versions than without \
         (28 % with off-row versions only) and 2.4 % less on TPC-E. The mixes are written after TPC-C and TPC-E, \
         without think times, and 1 % of all transactions are rolled back at their end; these are no TPC results. \
         {} clients, {} rounds of {} s each after {} s that are not \
         counted, taking turns; seed {}; commits wait for the disk. TPC-C-like: {} warehouses; counted are committed \
         new orders. TPC-E-like: {} customers; all committed transactions are counted. The cleaner \
         keeps its pace. Ratios are geometric means over the rounds, each against the traditional mode in the same \
         round, with their 95 % confidence interval. Processor time is the server's (its clients' is not in it), per committed \
         transaction of any kind. After each run the mix's consistency \
         conditions were checked, and that exactly what was committed is there.\n\n",
        options.clients,
        options.rounds,
        options.seconds,
        options.warm_up,
        options.seed,
        options.warehouses,
        options.customers
    );
    text += &setup.text();
    text += &table(
        &[
            "mix",
            "mode",
            "median a minute",
            "of traditional (95 %)",
            "CPU, µs a transaction",
            "all rounds",
            "rolled back on purpose",
            "conflicts",
        ],
        results,
    );
    text += "\nLatencies in milliseconds, all rounds together:\n\n";
    text += &table(&["transaction", "mode", "committed", "mean", "p50", "p90", "p99", "p99.9"], details);
    text += "\n![plot](table2.svg)\n";
    text
}
