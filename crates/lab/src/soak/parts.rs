//! Page servers beside the server, which has no pages of its own then, and a log service, if that is asked for: the server has no log of its own
//! then, either, and loses its folder now and then. Under the load they are killed, stopped for a while, and lose their folders.
//!
//! Nothing of it may fail a statement (`round.rs`): what needs a page waits for one of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;

use crate::Result;
use crate::servers::{free_port, output};

/// What was done, for the last lines.
#[derive(Default)]
pub struct Counts {
    pub killed: u64,
    pub paused: u64,
    pub emptied: u64,
}

enum State {
    Up,
    /// Killed; started again then.
    Down(Instant),
    /// SIGSTOP; goes on then.
    Paused(Instant),
}

struct PageServer {
    /// It is the log service.
    gives_log: bool,
    dir: PathBuf,
    port: u16,
    child: Option<Child>,
    state: State,
    /// When the next thing happens to it.
    next: Instant,
}

/// See the module.
pub struct Parts {
    binary: PathBuf,
    base: PathBuf,
    log: PathBuf,
    log_port: u16,
    log_service: bool,
    /// Each page server has every so many of the pages' partitions; 1: all pages.
    partitions: usize,
    servers: Vec<PageServer>,
    pub counts: Counts,
}

impl Parts {
    /// `count` page servers below `base`, which share the pages by so many `partitions`, and a log service; what they say goes to `log`.
    pub fn new(
        binary: &Path,
        base: &Path,
        log: PathBuf,
        (count, partitions): (usize, usize),
        log_service: bool,
    ) -> Result<Self> {
        if !(1..=count).contains(&partitions) {
            return Err(format!("{partitions} partitions need as many page servers"));
        }
        let log_port = free_port()?;
        let server = |number: usize| {
            let gives_log = number == 0;
            let dir = base.join(if gives_log { "xlog-1".to_owned() } else { format!("pageserver-{number}") });
            let port = if gives_log { log_port } else { free_port()? };
            Ok(PageServer { gives_log, dir, port, child: None, state: State::Up, next: Instant::now() })
        };
        Ok(Self {
            binary: binary.to_owned(),
            base: base.to_owned(),
            log,
            log_port,
            log_service,
            partitions,
            servers: (usize::from(!log_service)..=count).map(server).collect::<Result<_>>()?,
            counts: Counts::default(),
        })
    }

    fn path(&self, name: &str) -> String {
        self.base.join(name).display().to_string()
    }

    /// Whether the server has nothing that it needs in its folder.
    pub fn has_log_service(&self) -> bool {
        self.log_service
    }

    fn common(&self) -> [String; 3] {
        let path = |name: &str| self.path(name);
        [
            format!("--archive={}", path("archive")),
            format!("--backups={}", path("backups")),
            // Many of them, with a small database.
            "--partition-bytes=1MB".to_owned(),
        ]
    }

    /// What the primary is started with.
    pub fn flags(&self) -> Vec<String> {
        let pages = self.servers.iter().filter(|server| !server.gives_log);
        let places: Vec<String> = pages.map(|server| format!("127.0.0.1:{}", server.port)).collect();
        let log = match self.log_service {
            true => vec![
                format!("--log-services=127.0.0.1:{}", self.log_port),
                format!("--landing-zone={}", self.path("zone")),
            ],
            false => vec![format!("--log-listen=127.0.0.1:{}", self.log_port)],
        };
        let own = [
            format!("--page-servers={}", places.join(",")),
            // Now and then one returns too late.
            "--page-server-lease=2s".to_owned(),
            // It outlives the server, and whatever happens to its folder.
            format!("--page-cache={}", self.path("page-cache")),
            "--page-cache-bytes=32MB".to_owned(),
        ];
        own.into_iter().chain(log).chain(self.common()).collect()
    }

    /// All of them run from here on.
    pub fn start_all(&mut self) -> Result<()> {
        for number in 0..self.servers.len() {
            self.start(number)?;
        }
        Ok(())
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let mut flags = self.common().to_vec();
        match (self.servers[number].gives_log, self.log_service) {
            (true, _) => {
                flags = vec![
                    "--role=xlog".to_owned(),
                    format!("--landing-zone={}", self.path("zone")),
                    format!("--long-term-log={}", self.path("long-term")),
                    // So that old log is read from further below, too.
                    "--log-cache-bytes=4MB".to_owned(),
                ];
            }
            (false, with_service) => {
                let from = if with_service { "log-services" } else { "primary" };
                flags.push(format!("--{from}=127.0.0.1:{}", self.log_port));
                flags.extend(["--role=pageserver".to_owned(), "--buffer-bytes=4MB".to_owned()]);
                flags.push(format!("--partitions={}/{}", number % self.partitions, self.partitions));
            }
        }
        let server = &mut self.servers[number];
        match server.state {
            State::Paused(_) => signal(server, "CONT")?,
            State::Up if server.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) => {
                return Ok(());
            }
            State::Up | State::Down(_) => {
                let log = File::options().create(true).append(true).open(&self.log).map_err(|e| e.to_string())?;
                let err = log.try_clone().map_err(|e| e.to_string())?;
                let mut command = Command::new(&self.binary);
                command.arg("serve").args(flags);
                command.arg("--data").arg(&server.dir).arg(format!("--listen=127.0.0.1:{}", server.port));
                let child = command.stdin(Stdio::null()).stdout(log).stderr(err).spawn();
                server.child = Some(child.map_err(|e| format!("could not start a part: {e}"))?);
            }
        }
        server.state = State::Up;
        Ok(())
    }

    /// Ends all of them at once.
    pub fn kill_all(&mut self) {
        self.servers.iter_mut().for_each(kill);
    }

    /// Does what is due; to be called all the time while the server lives.
    pub fn step(&mut self, rng: &mut SmallRng) -> Result<()> {
        let now = Instant::now();
        for number in 0..self.servers.len() {
            match self.servers[number].state {
                State::Down(until) | State::Paused(until) if until <= now => self.start(number)?,
                State::Up if self.servers[number].next <= now => self.happen(number, rng)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn happen(&mut self, number: usize, rng: &mut SmallRng) -> Result<()> {
        let server = &mut self.servers[number];
        let mut soon = |most_ms| Instant::now() + Duration::from_millis(rng.random_range(0..most_ms));
        (server.next, server.state) = (soon(5000), State::Down(soon(1000)));
        match rng.random_range(0..6) {
            0 => {
                signal(server, "STOP")?;
                server.state = State::Paused(Instant::now() + Duration::from_millis(rng.random_range(0..3000)));
                self.counts.paused += 1;
            }
            1 => {
                kill(server);
                let _ = fs::remove_dir_all(&server.dir);
                self.counts.emptied += 1;
            }
            2 => {
                kill(server);
                // Longer than its lease.
                server.state = State::Down(Instant::now() + Duration::from_millis(3000));
                self.counts.killed += 1;
            }
            _ => {
                kill(server);
                self.counts.killed += 1;
            }
        }
        Ok(())
    }

    /// What they said that they should not have.
    pub fn complaints(&self) -> Vec<String> {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let bad = |line: &&str| line.contains(" ERROR ") || line.contains("panicked at");
        text.lines().filter(bad).map(|line| format!("a part: {line}")).collect()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn kill(server: &mut PageServer) {
    if let Some(mut child) = server.child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
    server.state = State::Down(Instant::now());
}

fn signal(server: &PageServer, name: &str) -> Result<()> {
    let Some(child) = &server.child else { return Ok(()) };
    output(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string())).map(drop)
}
