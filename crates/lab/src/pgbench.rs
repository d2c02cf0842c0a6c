//! pgbench, unmodified: select-only and tpcb-like, prepared, with commits synced to disk.
//! Runs of the servers take turns, so that a machine that slows down slows them all.

use std::process::Command;

use clap::Args;

use crate::report::{self, median, table};
use crate::servers::{Kind, Server, Work, kinds, output};
use crate::svg::{Series, bars};
use crate::{Common, Result, machine};

const SCRIPTS: [&str; 2] = ["select-only", "tpcb-like"];

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Scale factor: so many times 100,000 accounts
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Threads of pgbench
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Runs of each script on each server
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Query mode: simple, extended or prepared
    #[arg(long, default_value = "prepared")]
    mode: String,
    /// Random seed of the first run; each later run has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Transactions a second of one run.
fn one(options: &Options, server: &Server, script: &str, run: u32) -> Result<f64> {
    let mut command = pgbench(options, server);
    command.args(["-n", "-b", script, "-M", &options.mode]);
    command.args(["-c", &options.clients.to_string(), "-j", &options.threads.to_string()]);
    command.args(["-T", &options.seconds.to_string()]);
    command.arg(format!("--random-seed={}", options.seed + u64::from(run)));
    let said = output(command.arg("postgres"))?;
    tps(&said).ok_or_else(|| format!("pgbench did not say a rate, or transactions failed:\n{said}"))
}

/// The rate in pgbench's summary, if no transaction failed.
fn tps(said: &str) -> Option<f64> {
    let failed = said.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
    if failed.is_some_and(|text| !text.starts_with("0 ")) || said.contains("aborted") {
        return None;
    }
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn pgbench(options: &Options, server: &Server) -> Command {
    let own = options.common.postgres.join("pgbench");
    let mut command = Command::new(if own.is_file() { own.into_os_string() } else { "pgbench".into() });
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &server.port.to_string()]);
    command
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let machine = machine::describe(work.path());
    let mut servers = Vec::new();
    for kind in kinds(&options.common)? {
        eprintln!("{}: initialising at scale {}", kind.name(), options.scale);
        let server = Server::create(kind, &options.common, work.path())?;
        output(pgbench(options, &server).args(["-i", "-q", "-s", &options.scale.to_string(), "postgres"]))?;
        servers.push(server);
    }
    // rates[script][server]
    let mut rates = vec![vec![Vec::new(); servers.len()]; SCRIPTS.len()];
    for run in 0..options.runs {
        for (s, script) in SCRIPTS.iter().enumerate() {
            for (at, server) in servers.iter().enumerate() {
                let rate = one(options, server, script, run)?;
                eprintln!("run {}, {script}, {}: {rate:.0} tps", run + 1, server.kind.name());
                rates[s][at].push(rate);
            }
        }
    }
    let (text, svg) = report(options, &servers, &rates, &machine);
    report::write(&options.common, "pgbench", &text, &svg)
}

fn report(options: &Options, servers: &[Server], rates: &[Vec<Vec<f64>>], machine: &str) -> (String, String) {
    let peer = servers.iter().position(|server| server.kind == Kind::Postgres);
    let mut rows = Vec::new();
    for (script, of_script) in SCRIPTS.iter().zip(rates) {
        for (server, runs) in servers.iter().zip(of_script) {
            let all: Vec<String> = runs.iter().map(|rate| format!("{rate:.0}")).collect();
            let ratio = peer.map_or_else(String::new, |peer| format!("{:.2}", median(runs) / median(&of_script[peer])));
            rows.push(vec![
                (*script).to_owned(),
                server.kind.name().to_owned(),
                format!("{:.0}", median(runs)),
                ratio,
                all.join(", "),
            ]);
        }
    }
    let mut text = format!("# pgbench, {} clients, {} queries\n\n", options.clients, options.mode);
    text += &report::provenance();
    text += &format!(
        "Scale {}, {} runs of {} s each, taking turns; seeds {} and up; commits wait for the disk on both.\n\n",
        options.scale, options.runs, options.seconds, options.seed
    );
    text += machine;
    for server in servers {
        text += &format!("- {}: `{}`\n", server.version(), server.settings());
    }
    text += "\n";
    text += &table(&["script", "server", "median tps", "of PostgreSQL", "runs"], &rows);
    text += "\n![plot](pgbench.svg)\n";
    let groups: Vec<String> = SCRIPTS.iter().map(|script| (*script).to_owned()).collect();
    let series: Vec<Series> = servers
        .iter()
        .enumerate()
        .map(|(at, server)| Series {
            name: server.kind.name().to_owned(),
            values: rates.iter().map(|of_script| Some(median(&of_script[at]))).collect(),
        })
        .collect();
    let svg = bars("pgbench, median of interleaved runs", "transactions a second", &groups, &series);
    (text, svg)
}

#[cfg(test)]
mod tests {
    use super::tps;

    #[test]
    fn the_rate_is_found() {
        let said = "number of transactions actually processed: 100\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 0.4 ms\ntps = 1234.5 (without initial connection time)";
        assert_eq!(tps(said), Some(1234.5));
        assert_eq!(tps(&said.replace("transactions: 0 ", "transactions: 3 ")), None);
        assert_eq!(tps("nothing"), None);
    }
}
