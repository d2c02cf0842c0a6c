//! What the network alone costs a server of small statements: the floor under every comparison on one machine.
//!
//! Two servers that read messages and send the same row each time, whatever is asked, one on a thread for each connection
//! (`read` and `write`, no other system call) and one on the runtime that Resurgam has (`epoll` besides). pgbench asks them,
//! Resurgam and PostgreSQL the same: one row by its key, prepared.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Sample;
use super::workload::{pgbench_at, pgbench_done};
use crate::report::{self, median, table};
use crate::servers::{Server, Work, cpu_seconds_of_process, free_port, kinds, output};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// What pgbench asks; its built-in script without the look at the tables before.
const SCRIPT: &str = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
const MODES: [&str; 2] = ["simple", "prepared"];

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Threads of pgbench
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Rounds, in each of which every server runs once in each mode
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Be one of the servers, on a port
    #[arg(long, hide = true, requires = "port")]
    serve: Option<Model>,
    #[arg(long, hide = true)]
    port: Option<u16>,
}

/// How a server that does nothing waits for its clients.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// A thread for each connection.
    Threads,
    /// Tasks of a runtime.
    Runtime,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Threads => "nothing but read and write",
            Self::Runtime => "nothing, on the runtime",
        }
    }
    fn word(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Runtime => "runtime",
        }
    }
}

/// What a connection has sent and was not answered yet.
#[derive(Default)]
struct Talk {
    input: Vec<u8>,
    output: Vec<u8>,
    started: bool,
}

const READY: &[u8] = b"Z\0\0\0\x05I";
const DESCRIPTION: &[u8] = b"T\0\0\0\x21\0\x01abalance\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x010C\0\0\0\x0dSELECT 1\0";

impl Talk {
    /// Answers what is whole of the input; false: the client has said that it goes.
    fn answer(&mut self) -> bool {
        let mut at = 0;
        while let Some(length) = self.message(at) {
            let tag = if self.started { self.input[at] } else { 0 };
            let named = self.input.get(at + 5).copied();
            at += length;
            match tag {
                0 if length == 8 => self.output.push(b'N'), // no TLS
                0 => {
                    self.started = true;
                    self.output.extend_from_slice(b"R\0\0\0\x08\0\0\0\0");
                    for (name, value) in [("server_version", "15.0"), ("client_encoding", "UTF8")] {
                        self.output.push(b'S');
                        self.output.extend_from_slice(&((name.len() + value.len() + 6) as u32).to_be_bytes());
                        self.output.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
                    }
                    self.output.extend_from_slice(READY);
                }
                b'Q' => [DESCRIPTION, ROW, READY].iter().for_each(|part| self.output.extend_from_slice(part)),
                b'P' => self.output.extend_from_slice(b"1\0\0\0\x04"),
                b'B' => self.output.extend_from_slice(b"2\0\0\0\x04"),
                b'D' => {
                    if named == Some(b'S') {
                        self.output.extend_from_slice(b"t\0\0\0\x0a\0\x01\0\0\0\x17");
                    }
                    self.output.extend_from_slice(DESCRIPTION);
                }
                b'E' => self.output.extend_from_slice(ROW),
                b'S' => self.output.extend_from_slice(READY),
                b'X' => return false,
                _ => {}
            }
        }
        self.input.drain(..at);
        true
    }

    /// Bytes of the message at `at`, if all of it is here.
    fn message(&self, at: usize) -> Option<usize> {
        let tag = usize::from(self.started);
        let length = self.input.get(at + tag..at + tag + 4)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize + tag;
        (self.input.len() >= at + length).then_some(length)
    }
}

/// Serves one client, until it goes.
fn serve_on_thread(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut talk, mut room) = (Talk::default(), [0; 8192]);
    loop {
        let count = stream.read(&mut room)?;
        talk.input.extend_from_slice(&room[..count]);
        if count == 0 || !talk.answer() {
            return Ok(());
        }
        stream.write_all(&talk.output)?;
        talk.output.clear();
    }
}

async fn serve_on_runtime(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let (mut talk, mut room) = (Talk::default(), [0; 8192]);
    loop {
        let count = stream.read(&mut room).await?;
        talk.input.extend_from_slice(&room[..count]);
        if count == 0 || !talk.answer() {
            return Ok(());
        }
        stream.write_all(&talk.output).await?;
        talk.output.clear();
    }
}

/// Is such a server, until it is killed.
fn serve(model: Model, port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    match model {
        Model::Threads => loop {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            thread::spawn(move || serve_on_thread(stream));
        },
        Model::Runtime => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                loop {
                    let (stream, _) = listener.accept().await?;
                    stream.set_nodelay(true)?;
                    tokio::spawn(serve_on_runtime(stream));
                }
            })
        }
    }
}

/// One that runs.
enum Subject {
    Nothing { model: Model, port: u16, child: Child },
    Server(Box<Server>),
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Self::Nothing { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Subject {
    fn nothing(model: Model) -> Result<Self> {
        let port = free_port()?;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let child = Command::new(own)
            .args(["floor", "--serve", model.word(), "--port", &port.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| format!("could not start a server that does nothing: {e}"))?;
        let subject = Self::Nothing { model, port, child };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                return Err("a server that does nothing did not start".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(subject)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Nothing { model, .. } => model.name(),
            Self::Server(server) => server.kind.name(),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Nothing { port, .. } => *port,
            Self::Server(server) => server.port,
        }
    }

    fn cpu_seconds(&self) -> Result<f64> {
        match self {
            Self::Nothing { child, .. } => cpu_seconds_of_process(child.id()).ok_or_else(|| "it does not run".into()),
            Self::Server(server) => server.cpu_seconds(),
        }
    }

    fn processes(&self) -> usize {
        match self {
            Self::Nothing { .. } => 0,
            Self::Server(server) => server.processes(),
        }
    }

    fn run(&self, options: &Options, script: &str, mode: &str) -> Result<Sample> {
        let processes = self.processes();
        let before = self.cpu_seconds()?;
        let mut command = pgbench_at(&options.common, self.port());
        command.args(["-n", "-f", script, "-M", mode, "-c", &options.clients.to_string()]);
        command.args(["-j", &options.threads.to_string(), "-T", &options.seconds.to_string(), "postgres"]);
        let said = output(&mut command)?;
        let (transactions, seconds) =
            pgbench_done(&said).ok_or_else(|| format!("pgbench did not say a rate:\n{said}"))?;
        if let Self::Server(server) = self {
            server.wait_for_processes(processes);
        }
        Sample::new(transactions, seconds, self.cpu_seconds()? - before).ok_or_else(|| "no transaction".into())
    }
}

/// Runs the experiment.
///
/// # Errors
/// In words.
pub fn run(options: &Options) -> Result<()> {
    if let (Some(model), Some(port)) = (options.serve, options.port) {
        return serve(model, port).map_err(|e| e.to_string());
    }
    let work = Work::new(&options.common)?;
    let mut setup = Setup::here(work.path());
    let script = work.path().join("select.sql").display().to_string();
    std::fs::write(&script, SCRIPT).map_err(|e| format!("could not write a script: {e}"))?;
    let mut subjects = vec![Subject::nothing(Model::Threads)?, Subject::nothing(Model::Runtime)?];
    for kind in kinds(&options.common)? {
        let server = Server::create(kind, &options.common, work.path())?;
        setup.saw(&server);
        output(pgbench_at(&options.common, server.port).args(["-i", "-q", "-s", "1", "postgres"]))?;
        subjects.push(Subject::Server(Box::new(server)));
    }
    let mut samples = vec![vec![Vec::new(); subjects.len()]; MODES.len()];
    for round in 0..options.rounds as usize {
        for (mode, samples) in MODES.iter().zip(&mut samples) {
            for turn in 0..subjects.len() {
                let at = (round + turn) % subjects.len();
                let sample = subjects[at].run(options, &script, mode)?;
                eprintln!("{mode}, {}: {:.0}/s, {:.2} µs", subjects[at].name(), sample.rate, sample.cpu_us);
                samples[at].push(sample);
            }
        }
    }
    let names: Vec<&str> = subjects.iter().map(Subject::name).collect();
    let mut text = String::from("# What the network alone costs\n\n");
    text += &report::provenance();
    text += &format!(
        "pgbench asks for one row by its key, {} clients, {} rounds of {} s, taking turns. *CPU*: user and system time of the \
         server for one transaction, medians. The first two servers read what comes and send the same row each time; nearly all that they take \
         is the system's, for the messages: with a thread for each client, as PostgreSQL has a process, and with few threads for all, as Resurgam has.\n\n",
        options.clients, options.rounds, options.seconds
    );
    text += &setup.text();
    text.push('\n');
    let cpu = |samples: &[Sample]| median(&samples.iter().map(|sample| sample.cpu_us).collect::<Vec<f64>>());
    let rate = |samples: &[Sample]| median(&samples.iter().map(|sample| sample.rate).collect::<Vec<f64>>());
    let mut rows = Vec::new();
    for (mode, samples) in MODES.iter().zip(&samples) {
        let postgres = names.iter().position(|name| *name == "PostgreSQL").map(|at| cpu(&samples[at]));
        for (name, samples) in names.iter().zip(samples) {
            let of = postgres.map_or_else(String::new, |postgres| format!("{:.2}", cpu(samples) / postgres));
            rows.push(vec![
                (*mode).into(),
                (*name).into(),
                format!("{:.0}", rate(samples)),
                format!("{:.2}", cpu(samples)),
                of,
            ]);
        }
    }
    text += &table(&["mode", "server", "transactions/s", "CPU µs", "of PostgreSQL's"], &rows);
    let groups: Vec<String> = MODES.iter().map(|mode| (*mode).to_owned()).collect();
    let of = |at: usize| samples.iter().map(|of| Some(cpu(&of[at]))).collect();
    let series: Vec<Series> =
        names.iter().enumerate().map(|(at, name)| Series { name: (*name).to_owned(), values: of(at) }).collect();
    text += "\n![plot](floor.svg)\n";
    report::write(
        &options.common,
        "floor",
        &text,
        &bars("Processor time of one row by its key", "µs", &groups, &series),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_answered() {
        let mut talk = Talk { input: b"\0\0\0\x08\0\x03\0\0\0\0\0\x09\0\x03\0\0\0".to_vec(), ..Talk::default() };
        assert!(talk.answer());
        assert!(talk.started && talk.output.starts_with(b"N") && talk.output.ends_with(READY));
        talk.output.clear();
        talk.input = b"B\0\0\0\x05xE\0\0\0\x04S\0\0\0\x04P\0\0".to_vec();
        assert!(talk.answer());
        assert_eq!(talk.output, [b"2\0\0\0\x04", ROW, READY].concat());
        assert_eq!(talk.input, b"P\0\0");
        talk.input = b"X\0\0\0\x04".to_vec();
        assert!(!talk.answer());
    }

    #[test]
    fn its_messages_have_the_lengths_that_they_say() {
        for whole in [DESCRIPTION, ROW, READY] {
            let mut at = 0;
            while at < whole.len() {
                let length = u32::from_be_bytes([whole[at + 1], whole[at + 2], whole[at + 3], whole[at + 4]]);
                at += 1 + length as usize;
            }
            assert_eq!(at, whole.len());
        }
    }
}
