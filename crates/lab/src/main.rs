//! Experiments: each subcommand measures one claim, beside PostgreSQL where it is
//! installed, and writes a Markdown table and an SVG plot with the machine, the settings,
//! the versions and the seeds.
//!
//! | file | concept |
//! |---|---|
//! | `servers.rs` | starting, stopping and killing the servers under test |
//! | `wire.rs` | a client of the PostgreSQL protocol that is just enough to time things |
//! | `machine.rs` | what the numbers were measured on |
//! | `report.rs`, `svg.rs` | tables and plots |
//! | `pgbench.rs`, `restart.rs`, `copy.rs`, `aborted_map.rs` | the experiments |
//! | `soak/` | a long test: kills and power losses under load, everything checked afterwards |
//!
//! Servers are child processes on free ports with data in a work folder that is removed
//! afterwards; nothing else of the machine is touched.

mod aborted_map;
mod copy;
mod machine;
mod pgbench;
mod report;
mod restart;
mod servers;
mod soak;
mod svg;
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
    /// Throughput of pgbench's select-only and tpcb-like scripts
    Pgbench(pgbench::Options),
    /// Time from process start to the first answered query, after kill -9 with a large open transaction
    Restart(restart::Options),
    /// Speed and peak memory of COPY FROM STDIN
    Copy(copy::Options),
    /// Size and speed of the aborted-transaction map with millions of ids
    AbortedMap(aborted_map::Options),
    /// Kills the server, or takes the power away, under a mixed load and checks that every commit is there
    Soak(soak::Options),
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
        Experiment::Pgbench(options) => pgbench::run(&options),
        Experiment::Restart(options) => restart::run(&options),
        Experiment::Copy(options) => copy::run(&options),
        Experiment::AbortedMap(options) => aborted_map::run(&options),
        Experiment::Soak(options) => soak::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lab: {message}");
            ExitCode::FAILURE
        }
    }
}
