//! Experiments: each subcommand measures one claim, beside PostgreSQL where it is
//! installed, and writes a Markdown table and an SVG plot with the machine, the settings,
//! the versions and the seeds.
//!
//! | file | concept |
//! |---|---|
//! | `servers.rs` | starting, stopping and killing the servers under test |
//! | `wire.rs` | a client of the PostgreSQL protocol that is just enough to time things |
//! | `session.rs` | a session with any server, MariaDB's included |
//! | `machine.rs`, `setup.rs` | what the numbers were measured on, and the space files take |
//! | `report.rs`, `svg.rs`, `lines.rs`, `timeline.rs`, `candles.rs` | tables, bar charts, line plots with logarithmic axes, and over time, distributions |
//! | `oltp/` | pgbench, sysbench and the TPC-C-like mix: transactions a second, and what one costs the server |
//! | `restart.rs`, `copy.rs`, `queue.rs`, `aborted_map.rs`, `flights.rs` | the experiments about everyday work |
//! | `size.rs`, `errors.rs` | what grows with the size of a database; devices that fail for a minute |
//! | `recovery/` | the experiments about rolling back and recovering, after the paper |
//! | `mix/` | mixes after TPC-C and TPC-E, and what is measured with them |
//! | `cluster/` | a database in parts (log service, page server, primary) beside one process |
//! | `answers/` | whether answers are right: a corpus, and PostgreSQL beside |
//! | `hostile/` | statements that would kill, freeze or fill the server, and who suffers from them |
//! | `limits.rs` | idle connections' memory, and how fast statements stop |
//! | `tpch/` | TPC-H's queries: answers and times beside PostgreSQL |
//! | `soak/` | a long test: kills and power losses under load, everything checked afterwards |
//!
//! Servers are child processes on free ports with data in a work folder that is removed
//! afterwards; nothing else of the machine is touched.

mod aborted_map;
mod answers;
mod candles;
mod cluster;
mod copy;
mod errors;
mod flights;
mod hostile;
mod limits;
mod lines;
mod machine;
mod mix;
mod oltp;
mod queue;
mod recovery;
mod report;
mod restart;
mod servers;
mod session;
mod setup;
mod size;
mod soak;
mod svg;
mod timeline;
mod tpch;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// What went wrong, in words.
type Result<T, E = String> = std::result::Result<T, E>;

#[derive(Parser)]
#[command(name = "lab", about = "Measures Resurgam, beside PostgreSQL where it is installed", version)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Transactions a second of pgbench, sysbench and the TPC-C-like mix, and the server's processor time for one
    Oltp(oltp::Options),
    /// What the network alone costs a server of small statements, beside Resurgam and PostgreSQL
    Floor(oltp::floor::Options),
    /// Time from process start to the first answered query, after kill -9 with a large open transaction
    Restart(restart::Options),
    /// Restart and a server at rest by the size of the data file, which is sparse
    Size(size::Options),
    /// Recovery of each background thread after a minute of errors, by file and call
    Errors(errors::Options),
    /// Speed and peak memory of COPY FROM STDIN
    Copy(copy::Options),
    /// A table as a queue: rows taken a second, over time, by one worker and by many, beside a snapshot that stays open
    Queue(queue::Options),
    /// TPC-H's 22 queries: answers compared, and times, beside PostgreSQL; the exit status says whether all is right
    Tpch(tpch::Options),
    /// Size and speed of the aborted-transaction map with millions of ids
    AbortedMap(aborted_map::Options),
    /// Commits a second by the time that the log's disk takes to answer, and by how many flushes may be under way at once
    Flights(flights::Options),
    /// Kills the server, or takes the power away, under a mixed load and checks that every commit is there
    Soak(soak::Options),
    /// Rollback and recovery times by rows and operation, both modes (the paper's figure 9)
    Figure9(recovery::figure9::Options),
    /// Time to clean up after an aborted transaction, by rows and operation (the paper's figure 10)
    Cleaner(recovery::figure10::Options),
    /// Size of the log and of the version store after one large transaction (the paper's table 1)
    Table1(recovery::table1::Options),
    /// Latency of retrying row operations over aborted versions (the paper's table 3)
    Table3(recovery::table3::Options),
    /// A practitioner's measurements of SQL Server: a restart, rollbacks, the cost of versions on insert
    Blog(recovery::blog::Options),
    /// Throughput of a TPC-C-like and a TPC-E-like mix by mode (the paper's table 2)
    Table2(mix::table2::Options),
    /// Latencies of the TPC-C-like mix while the cleaner works off a large aborted update
    Latency(mix::latency::Options),
    /// A disk that dies under a TPC-C-like load, by size of the buffer pool; starts without the data, beside PostgreSQL
    Restore(mix::restore::Options),
    /// What archiving the log and making backups cost the transactions beside them
    Backup(mix::backup::Options),
    /// A day's life in ten minutes: aborts, long snapshots, loads, DDL; everything must return to its baseline
    Day(mix::day::Options),
    /// Primary, log service and page server as processes, beside one process: throughput, cache, log, latencies, starts
    Cluster(cluster::Options),
    /// Random statements against PostgreSQL and Resurgam side by side; the exit status says whether they agree
    Fuzz(answers::fuzz::Options),
    /// Every cast, operator, function, use of a type and word by itself, PostgreSQL beside; the exit status says whether all agree
    Matrix(answers::matrix::Options),
    /// SQLite's corpus of queries by the simple and the extended protocol; the exit status says whether all passed
    Slt(answers::slt::Options),
    /// PostgreSQL's own regression SQL, statement by statement, compared with PostgreSQL's answers
    Regress(answers::regress::Options),
    /// Hostile statements of every family and size; the exit status says whether anybody was harmed
    Hostile(hostile::Options),
    /// Memory of idle connections, and how long statements go on that were told to stop
    Limits(limits::Options),
    /// The four about recovery, one after the other
    Recovery(recovery::Options),
}

/// What all experiments take.
#[derive(Args, Clone)]
pub struct Common {
    /// The server's binary
    #[arg(long, value_name = "PATH", default_value = "target/release/resurgam")]
    resurgam: PathBuf,
    /// Folder of PostgreSQL's programs; without it only Resurgam is measured
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/postgresql/15/bin")]
    postgres: PathBuf,
    /// Do not measure PostgreSQL
    #[arg(long)]
    no_postgres: bool,
    /// MariaDB's server; only the experiments about recovery measure it
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/mariadbd")]
    mariadb: PathBuf,
    /// Folder for the servers' data, on the disk to be measured; made, and removed afterwards
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Folder for the table and the plot
    #[arg(long, value_name = "DIR", default_value = "docs/measurements")]
    out: PathBuf,
    /// Memory for pages of each server, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    buffer_mb: u64,
}

fn main() -> ExitCode {
    let done = match Cli::parse().experiment {
        Experiment::Oltp(options) => oltp::run(&options),
        Experiment::Floor(options) => oltp::floor::run(&options),
        Experiment::Restart(options) => restart::run(&options),
        Experiment::Size(options) => size::run(&options),
        Experiment::Errors(options) => errors::run(&options),
        Experiment::Copy(options) => copy::run(&options),
        Experiment::Queue(options) => queue::run(&options),
        Experiment::Tpch(options) => tpch::run(&options),
        Experiment::AbortedMap(options) => aborted_map::run(&options),
        Experiment::Flights(options) => flights::run(&options),
        Experiment::Soak(options) => soak::run(&options),
        Experiment::Figure9(options) => recovery::figure9::run(&options),
        Experiment::Cleaner(options) => recovery::figure10::run(&options),
        Experiment::Table1(options) => recovery::table1::run(&options),
        Experiment::Table3(options) => recovery::table3::run(&options),
        Experiment::Blog(options) => recovery::blog::run(&options),
        Experiment::Table2(options) => mix::table2::run(&options),
        Experiment::Latency(options) => mix::latency::run(&options),
        Experiment::Restore(options) => mix::restore::run(&options),
        Experiment::Backup(options) => mix::backup::run(&options),
        Experiment::Day(options) => mix::day::run(&options),
        Experiment::Cluster(options) => cluster::run(&options),
        Experiment::Fuzz(options) => answers::fuzz::run(&options),
        Experiment::Matrix(options) => answers::matrix::run(&options),
        Experiment::Slt(options) => answers::slt::run(&options),
        Experiment::Regress(options) => answers::regress::run(&options),
        Experiment::Hostile(options) => hostile::run(&options),
        Experiment::Limits(options) => limits::run(&options),
        Experiment::Recovery(options) => recovery::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lab: {message}");
            ExitCode::FAILURE
        }
    }
}
