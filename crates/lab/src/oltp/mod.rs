//! Everyday transactions, as fast as clients can ask: pgbench in its modes, sysbench, the TPC-C-like mix.
//! Of each, transactions a second, and the processor time that the *server* spends on one: where clients
//! and server share a machine, the clients' own cost hides the server's in the throughput.
//!
//! | file | concept |
//! |---|---|
//! | `workload.rs` | what is run, and how its programs are called |
//! | `data.rs` | its tables, made before the first run |
//! | `floor.rs` | what the network alone costs, beside it |
//! | `report.rs` | ratios, round by round, and what became of the statements |
//!
//! Servers take turns within a round and who begins changes from round to round, so that a machine that
//! slows down slows them all; a round's ratio is of runs side by side, and the result is the median of
//! rounds. Checkpoints and clean-up come when the servers want them, and are part of what is measured.

mod data;
pub mod floor;
mod report;
mod workload;

use std::time::Duration;

use clap::Args;

use crate::mix::TpcC;
use crate::servers::{Server, Work, kinds};
use crate::{Common, Result, machine, report as files};
use data::Data;
use workload::{Runner, Workload};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Only workloads whose names contain one of these
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Scale factor of pgbench: so many times 100,000 accounts
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Rows of sysbench's table
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    /// Warehouses of the TPC-C-like mix
    #[arg(long, default_value_t = 2)]
    warehouses: i64,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Threads of pgbench
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 6)]
    seconds: u32,
    /// Rounds, in each of which every workload runs once on each server
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// One more flag for Resurgam; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Random seed of the first round; each later round has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Options {
    fn length(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds.max(1)))
    }

    fn tpcc(&self) -> TpcC {
        TpcC::new(self.warehouses, self.seed)
    }

    fn wants(&self, workload: &Workload) -> bool {
        let name = workload.name();
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }
}

/// What one run did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Transactions that committed, a second.
    pub rate: f64,
    /// Processor time of all processes of the server, user and system, per transaction, in microseconds.
    pub cpu_us: f64,
}

impl Sample {
    /// `cpu`: processor time in seconds, of the whole run.
    fn new(transactions: u64, seconds: f64, cpu: f64) -> Option<Self> {
        let count = transactions as f64;
        (transactions > 0 && seconds > 0.0).then(|| Self { rate: count / seconds, cpu_us: cpu * 1e6 / count })
    }
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let (workloads, skipped): (Vec<_>, Vec<_>) =
        Workload::all().into_iter().filter(|workload| options.wants(workload)).partition(Workload::is_possible);
    for workload in &skipped {
        eprintln!("{}: its program is not installed, not measured", workload.name());
    }
    if workloads.is_empty() {
        return Err("no workload has such a name".into());
    }
    let work = Work::new(&options.common)?;
    let machine = machine::describe(work.path());
    let data = Data::new(options, work.path(), &workloads)?;
    let mut runners = Vec::new();
    for kind in kinds(&options.common)? {
        eprintln!("{}: making the data", kind.name());
        let server = Server::create_with(kind, &options.common, work.path(), &options.server_flag)?;
        data.make(&server)?;
        runners.push(Runner::new(options, &data, server));
    }
    // samples[workload][server], a value for each round
    let mut samples = vec![vec![Vec::new(); runners.len()]; workloads.len()];
    for round in 0..options.rounds as usize {
        for (workload, samples) in workloads.iter().zip(&mut samples) {
            for turn in 0..runners.len() {
                let at = (round + turn) % runners.len();
                let sample = runners[at].run(workload, round)?;
                let (name, server) = (workload.name(), runners[at].server.kind.name());
                eprintln!("round {}, {name}, {server}: {:.0}/s, {:.1} µs", round + 1, sample.rate, sample.cpu_us);
                samples[at].push(sample);
            }
        }
    }
    for runner in &runners {
        runner.check()?;
    }
    let servers: Vec<&Server> = runners.iter().map(|runner| &runner.server).collect();
    let (text, svg) = report::report(options, &servers, &workloads, &samples, &machine)?;
    files::write(&options.common, "oltp", &text, &svg)
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn processor_time_is_per_transaction() {
        assert_eq!(Sample::new(2000, 4.0, 0.5), Some(Sample { rate: 500.0, cpu_us: 250.0 }));
        assert_eq!(Sample::new(0, 4.0, 0.5), None);
    }
}
