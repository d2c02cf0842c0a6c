//! What is run, and how the programs that run it are called and understood.

use std::process::Command;

use super::data::{Data, READER, Script, Tables};
use super::{Options, Sample};
use crate::mix::{self, Mix, Terminal};
use crate::servers::{Server, output};
use crate::{Common, Result};

/// One kind of transaction, asked for in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A built-in script of pgbench, in a query mode.
    Pgbench { script: &'static str, mode: &'static str },
    /// One statement of the lab's own, prepared.
    Own(Script),
    /// A script of sysbench, which prepares its statements.
    Sysbench(&'static str),
    /// All transactions of the mix.
    TpcC,
}

impl Workload {
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for script in ["select-only", "simple-update", "tpcb-like"] {
            for mode in ["simple", "extended", "prepared"] {
                all.push(Self::Pgbench { script, mode });
            }
        }
        all.extend(Script::ALL.map(Self::Own));
        all.extend(["oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index"].map(Self::Sysbench));
        all.push(Self::TpcC);
        // Last of its table: what it adds is there from then on.
        all.push(Self::Sysbench("oltp_insert"));
        all
    }

    pub fn name(&self) -> String {
        match self {
            Self::Pgbench { script, mode } => format!("pgbench {script}, {mode}"),
            Self::Own(script) => format!("{}, prepared", script.name()),
            Self::Sysbench(script) => format!("sysbench {script}"),
            Self::TpcC => "TPC-C-like".into(),
        }
    }

    /// The tables that it needs.
    pub fn tables(&self) -> Tables {
        match self {
            Self::Pgbench { .. } => Tables::Pgbench,
            Self::Own(_) => Tables::Own,
            Self::Sysbench(_) => Tables::Sysbench,
            Self::TpcC => Tables::TpcC,
        }
    }

    /// Whether its program is installed.
    pub fn is_possible(&self) -> bool {
        let program = match self {
            Self::Pgbench { .. } | Self::Own(_) => "pgbench",
            Self::Sysbench(_) => "sysbench",
            Self::TpcC => return true,
        };
        output(Command::new(program).arg("--version")).is_ok()
    }
}

/// A server and those who ask it.
pub struct Runner<'a> {
    options: &'a Options,
    data: &'a Data<'a>,
    pub server: Server,
    mix: Box<dyn Mix>,
    terminals: Vec<Box<dyn Terminal>>,
}

impl<'a> Runner<'a> {
    pub fn new(options: &'a Options, data: &'a Data<'a>, server: Server) -> Self {
        let mix: Box<dyn Mix> = Box::new(options.tpcc());
        let terminals = mix.terminals(options.clients as usize, options.seed);
        Self { options, data, server, mix, terminals }
    }

    /// Runs a workload once.
    ///
    /// # Errors
    /// In words: a transaction failed, or its program said nothing that is understood.
    pub fn run(&mut self, workload: &Workload, round: usize) -> Result<Sample> {
        let (processes, before) = (self.server.processes(), self.server.cpu_seconds()?);
        let (transactions, seconds) = match workload {
            Workload::Pgbench { script, mode } => self.pgbench(&["-b", script], mode, round)?,
            Workload::Own(script) => {
                let file = self.data.script(*script);
                let mut what = vec!["-f", &file];
                if *script == Script::SelectAsReader {
                    what.extend(["-U", READER]);
                }
                self.pgbench(&what, "prepared", round)?
            }
            Workload::Sysbench(script) => self.sysbench(script, round)?,
            Workload::TpcC => self.tpcc()?,
        };
        self.server.wait_for_processes(processes);
        let cpu = self.server.cpu_seconds()? - before;
        Sample::new(transactions, seconds, cpu).ok_or_else(|| format!("{}: no transaction", workload.name()))
    }

    fn pgbench(&self, script: &[&str], mode: &str, round: usize) -> Result<(u64, f64)> {
        let options = self.options;
        let mut command = pgbench(options, &self.server);
        command.arg("-n").args(script).args(["-M", mode]);
        command.args(["-c", &options.clients.to_string(), "-j", &options.threads.to_string()]);
        command.args(["-T", &options.seconds.to_string()]);
        command.arg(format!("--random-seed={}", options.seed + round as u64));
        let said = output(command.arg("postgres"))?;
        let done = pgbench_done(&said);
        done.ok_or_else(|| format!("pgbench did not say a rate, or transactions failed:\n{said}"))
    }

    fn sysbench(&self, script: &str, round: usize) -> Result<(u64, f64)> {
        let options = self.options;
        let mut command = sysbench(options, &self.server, script);
        command.arg(format!("--threads={}", options.clients)).arg(format!("--time={}", options.seconds));
        command.arg(format!("--rand-seed={}", options.seed + round as u64));
        let said = output(command.arg("run"))?;
        sysbench_done(&said).ok_or_else(|| format!("sysbench did not say a rate:\n{said}"))
    }

    fn tpcc(&mut self) -> Result<(u64, f64)> {
        let length = self.options.length();
        let (took, tally) = mix::drive(self.server.port, self.mix.as_ref(), &mut self.terminals, |run| {
            run.pause(length);
            Ok(run.elapsed())
        })?;
        Ok((tally.done.len() as u64, took.as_secs_f64()))
    }

    /// The mix's conditions: that what was measured was also right.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<()> {
        match self.data.has(Tables::TpcC) {
            true => mix::check(self.mix.as_ref(), &self.server, &self.terminals),
            false => Ok(()),
        }
    }
}

/// pgbench, told where the server is.
pub fn pgbench(options: &Options, server: &Server) -> Command {
    pgbench_at(&options.common, server.port)
}

/// The same of whatever listens on a port.
pub fn pgbench_at(common: &Common, port: u16) -> Command {
    let own = common.postgres.join("pgbench");
    let mut command = Command::new(if own.is_file() { own.into_os_string() } else { "pgbench".into() });
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command
}

/// A script of sysbench, told where the server is. Keys are the client's, on both.
pub fn sysbench(options: &Options, server: &Server, script: &str) -> Command {
    let mut command = Command::new("sysbench");
    command.args([script, "--db-driver=pgsql", "--auto_inc=off", "--tables=1"]);
    command.args(["--pgsql-host=127.0.0.1", "--pgsql-user=postgres", "--pgsql-db=postgres"]);
    command.arg(format!("--pgsql-port={}", server.port)).arg(format!("--table-size={}", options.rows));
    command
}

/// Transactions and seconds in pgbench's summary, if no transaction failed.
pub fn pgbench_done(said: &str) -> Option<(u64, f64)> {
    let number = |head: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(head))?;
        line.split([' ', '/']).next()?.parse::<f64>().ok()
    };
    let is_whole = number("number of failed transactions: ").is_none_or(|failed| failed == 0.0);
    let (count, rate) = (number("number of transactions actually processed: ")?, number("tps = ")?);
    (is_whole && !said.contains("aborted") && rate > 0.0).then(|| (count as u64, count / rate))
}

/// The same of sysbench, which tries transactions again that met others.
fn sysbench_done(said: &str) -> Option<(u64, f64)> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"))?;
    let mut words = line.split_whitespace();
    let count: u64 = words.next()?.parse().ok()?;
    let rate: f64 = words.next()?.trim_start_matches('(').parse().ok()?;
    (rate > 0.0).then(|| (count, count as f64 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_understood() {
        let said = "number of transactions actually processed: 100\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 0.4 ms\ntps = 12.5 (without initial connection time)";
        assert_eq!(pgbench_done(said), Some((100, 8.0)));
        assert_eq!(pgbench_done(&said.replace("transactions: 0 ", "transactions: 3 ")), None);
        assert_eq!(pgbench_done("nothing"), None);
        let said = "SQL statistics:\n    transactions:                        1200   (400.00 per sec.)\n    queries: 3";
        assert_eq!(sysbench_done(said), Some((1200, 3.0)));
        assert_eq!(sysbench_done("FATAL: error"), None);
    }

    #[test]
    fn names_are_different() {
        let mut names: Vec<String> = Workload::all().iter().map(Workload::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Workload::all().len());
    }
}
