//! `lab hostile`: statements that would kill, freeze or fill a server, and who suffers from them.
//!
//! | file | concept |
//! |---|---|
//! | `texts.rs`, `lists.rs`, `bombs.rs` | the texts, by family and size |
//! | `mix.rs` | mixtures of them, by seed |
//! | `beside.rs` | a session beside, new logins, the server's memory |
//! | `judge.rs` | what a statement came to, and whether that is harm |
//!
//! Each text runs in a session of its own under `statement_timeout`. It has to come to an answer or an
//! SQLSTATE in its time, the process has to live within its memory, and whoever is beside has to be
//! answered meanwhile. With PostgreSQL installed its outcome stands next to ours, for the record.

mod beside;
mod bombs;
mod judge;
mod lists;
mod mix;
mod texts;

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use clap::Args;

use crate::answers::client::{Client, Target};
use crate::servers::{Kind, Server, Work};
use crate::setup::Setup;
use crate::{Common, Result};
use beside::{Beside, percentile};
use judge::{Bounds, Got, Run, harm};

/// What to run, and what is allowed.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Sizes of the texts
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10,100,1000,10000,100000")]
    sizes: Vec<usize>,
    /// Only families whose name or kind (chain, nest, list, bomb, mix) has one of these in it
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Mixtures, each of a seed
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Every so many texts only, beginning with the seed's
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Ends after this time, whatever is left
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// statement_timeout of the sessions, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout_ms: u64,
    /// What an answer may take beyond it, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    grace_ms: u64,
    /// Resident memory of the server, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 2048)]
    memory_mb: u64,
    /// Longest time in which a session beside has to be answered, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    beside_ms: u64,
    /// Runs this text instead (`{}` is its size)
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

/// One text.
struct Case {
    kind: &'static str,
    name: String,
    n: usize,
    text: Box<dyn Fn() -> String>,
}

/// What a text came to at both servers.
struct Finding {
    case: Case,
    run: Run,
    postgres: Option<Run>,
    memory_bytes: u64,
    /// Of the answers beside it: at the 99th percentile, and the slowest.
    p99: Duration,
    slowest: Duration,
    harm: Vec<String>,
}

/// Runs all and writes `hostile.md`.
///
/// # Errors
/// In words: a server that does not start, or harm.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let mut setup = Setup::here(work.path());
    let mut subject = Subject::start(options, &work)?;
    setup.saw(&subject.server);
    let mut postgres = match options.common.no_postgres || !options.common.postgres.join("postgres").is_file() {
        true => None,
        false => Some(made(Kind::Postgres, &options.common, &work, &[])?),
    };
    if let Some(server) = &postgres {
        setup.saw(server);
    }
    let begun = Instant::now();
    let (mut findings, mut latencies) = (Vec::new(), Vec::new());
    let mut left = 0;
    for case in cases(options) {
        if options.minutes.is_some_and(|minutes| begun.elapsed().as_secs_f64() > minutes * 60.0) {
            left += 1;
            continue;
        }
        let finding = subject.judge(case, postgres.as_mut(), &mut latencies)?;
        show(&finding);
        findings.push(finding);
    }
    let bad = findings.iter().filter(|finding| !finding.harm.is_empty()).count();
    let [p50, p99, max] = [50.0, 99.0, 100.0].map(|per_cent| percentile(&mut latencies, per_cent));
    let summary = format!(
        "{} texts, {bad} of them harm, {left} not run; `select 1` and logins beside them ({}): p50 {p50:.1?}, \
         p99 {p99:.1?}, max {max:.1?}; the server was started {} times",
        findings.len(),
        latencies.len(),
        subject.starts
    );
    println!("{summary}");
    fs::create_dir_all(&options.common.out).map_err(|e| e.to_string())?;
    let path = options.common.out.join("hostile.md");
    fs::write(&path, report(&findings, &setup, &summary)).map_err(|e| format!("could not write the report: {e}"))?;
    if bad > 0 { Err(format!("{bad} texts harmed somebody")) } else { Ok(()) }
}

fn cases(options: &Options) -> Vec<Case> {
    if let Some(text) = &options.text {
        let case = |&n: &usize| {
            let text = text.replace("{}", &n.to_string());
            Case { kind: "text", name: "text".to_owned(), n, text: Box::new(move || text.clone()) }
        };
        return options.sizes.iter().map(case).collect();
    }
    let mut all = Vec::new();
    let families = texts::deep().into_iter().chain(lists::wide()).chain(bombs::bombs());
    for family in families.map(std::rc::Rc::new) {
        for &n in &options.sizes {
            let of = std::rc::Rc::clone(&family);
            let text = Box::new(move || of.text(n));
            all.push(Case { kind: family.kind.name(), name: family.name.to_owned(), n, text });
        }
    }
    for seed in options.seed..options.seed + options.seeds {
        let n = options.sizes[seed as usize % options.sizes.len()];
        let text = Box::new(move || mix::text(seed, n));
        all.push(Case { kind: "mix", name: format!("seed {seed}"), n, text });
    }
    let wanted = |case: &Case| {
        options.only.is_empty() || options.only.iter().any(|only| case.name.contains(only) || case.kind == *only)
    };
    all.retain(wanted);
    let every = options.every.max(1);
    let first = options.seed as usize % every;
    all.into_iter().enumerate().filter(|(at, _)| at % every == first).map(|(_, case)| case).collect()
}

/// A server with the tables that the texts read.
fn made(kind: Kind, common: &Common, work: &Work, flags: &[String]) -> Result<Server> {
    let server = Server::create_with(kind, common, work.path(), flags)?;
    let mut client = server.client()?;
    for text in texts::SETUP {
        client.query(text)?;
    }
    Ok(server)
}

/// The server that is judged.
struct Subject<'a> {
    options: &'a Options,
    server: Server,
    beside: Beside,
    bounds: Bounds,
    starts: usize,
}

impl<'a> Subject<'a> {
    fn start(options: &'a Options, work: &Work) -> Result<Self> {
        let flags = [format!("--query-memory-bytes={}MB", options.memory_mb / 4)];
        let server = made(Kind::Resurgam, &options.common, work, &flags)?;
        let bounds = Bounds {
            time: Duration::from_millis(options.timeout_ms + options.grace_ms),
            memory_bytes: options.memory_mb << 20,
            beside: Duration::from_millis(options.beside_ms),
        };
        let beside = Beside::begin(2 * bounds.memory_bytes);
        beside.look(server.port, server.process());
        Ok(Self { options, server, beside, bounds, starts: 1 })
    }

    fn judge(&mut self, case: Case, postgres: Option<&mut Server>, latencies: &mut Vec<Duration>) -> Result<Finding> {
        let text = (case.text)();
        let _ = self.beside.take();
        let run = self.run(&text)?;
        let seen = self.beside.take();
        let harm = harm(&run, &seen, &self.bounds);
        let slowest = seen.latencies.iter().max().copied().unwrap_or_default();
        let p99 = percentile(&mut seen.latencies.clone(), 99.0);
        latencies.extend(seen.latencies);
        // Whoever got nothing has left a server of which nothing is known.
        if matches!(run.got, Got::Nothing(_) | Got::Dead) || seen.memory_bytes > self.bounds.memory_bytes {
            self.restart()?;
        }
        self.tidy(&text)?;
        let postgres = match postgres {
            Some(server) => {
                let run = attempt(server, &text, self.options.timeout_ms, 2 * self.bounds.time);
                if server.client().is_err() {
                    server.kill();
                    server.start()?;
                }
                Some(run)
            }
            None => None,
        };
        Ok(Finding { case, run, postgres, memory_bytes: seen.memory_bytes, p99, slowest, harm })
    }

    fn run(&mut self, text: &str) -> Result<Run> {
        let mut run = attempt(&self.server, text, self.options.timeout_ms, 2 * self.bounds.time);
        if matches!(run.got, Got::Nothing(_)) {
            // A process that aborts takes a moment to be gone.
            std::thread::sleep(Duration::from_millis(200));
        }
        if self.server.has_ended() {
            run.got = Got::Dead;
        }
        Ok(run)
    }

    fn restart(&mut self) -> Result<()> {
        self.beside.look(0, None);
        // What is asked at this moment fails.
        std::thread::sleep(Duration::from_millis(20));
        self.server.kill();
        self.server.start()?;
        self.starts += 1;
        self.beside.look(self.server.port, self.server.process());
        Ok(())
    }

    /// Takes back what a text has changed, if it may have.
    fn tidy(&mut self, text: &str) -> Result<()> {
        let word = text.split_whitespace().next().unwrap_or_default();
        if !["create", "alter", "insert", "update", "delete", "drop", "begin", "copy"].contains(&word) {
            return Ok(());
        }
        let mut client = self.server.client()?;
        client.set_patience(Some(Duration::from_secs(60)))?;
        client.query("drop table if exists c")?;
        client.query("drop table if exists o")?;
        client.query("drop table if exists h")?;
        texts::SETUP.iter().try_for_each(|text| client.query(text).map(drop))
    }
}

/// Runs a text in a session of its own.
fn attempt(server: &Server, text: &str, timeout_ms: u64, patience: Duration) -> Run {
    let connected = Client::connect(&Target { patience: Some(patience), ..Target::new(server.port) });
    let mut client = match connected {
        Ok(client) => client,
        Err(why) => return Run { got: Got::Nothing(format!("no session: {why}")), time: Duration::ZERO },
    };
    client.set_rows_max(10);
    if let Err(why) = client.query(&format!("set statement_timeout = {timeout_ms}")) {
        return Run { got: Got::Nothing(format!("no session: {why}")), time: Duration::ZERO };
    }
    let begun = Instant::now();
    let reply = client.query(text);
    let time = begun.elapsed();
    if reply.is_err()
        && let Some(key) = client.key()
    {
        let _ = crate::answers::client::cancel(server.port, key);
    }
    Run { got: Got::of(&reply), time }
}

fn show(finding: &Finding) {
    let postgres = finding
        .postgres
        .as_ref()
        .map_or(String::new(), |run| format!("  [PostgreSQL {} {:.2} s]", run.got.word(), run.time.as_secs_f64()));
    println!(
        "{:5} {:32} {:6}  {:7} {:6.2} s  {:5} MB  beside {:4} ms{postgres}{}",
        finding.case.kind,
        finding.case.name,
        finding.case.n,
        finding.run.got.word(),
        finding.run.time.as_secs_f64(),
        finding.memory_bytes >> 20,
        finding.slowest.as_millis(),
        if finding.harm.is_empty() { String::new() } else { format!("  HARM: {}", finding.harm.join("; ")) }
    );
}

fn report(findings: &[Finding], setup: &Setup, summary: &str) -> String {
    let mut out = String::from("# Hostile statements\n\n");
    let _ = writeln!(out, "{}\n\n{summary}\n", setup.text());
    out.push_str("| kind | family | n | Resurgam | s | MB | beside: p99, ms | most, ms | PostgreSQL 15 | s | harm |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for finding in findings {
        let (word, time) = match &finding.postgres {
            Some(run) => (run.got.word(), format!("{:.2}", run.time.as_secs_f64())),
            None => ("", String::new()),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} | {} | {:.1} | {} | {word} | {time} | {} |",
            finding.case.kind,
            finding.case.name.replace('|', "\\|"),
            finding.case.n,
            finding.run.got.word(),
            finding.run.time.as_secs_f64(),
            finding.memory_bytes >> 20,
            finding.p99.as_secs_f64() * 1e3,
            finding.slowest.as_millis(),
            finding.harm.join("; ").replace('|', "\\|").replace('\n', " ")
        );
    }
    out
}
