//! The servers under test as child processes: Resurgam, and PostgreSQL of the installed
//! version. Both commit to disk and have the same memory for pages; everything else is at
//! its default.
//!
//! A server that is dropped is killed. Only processes that were started here, and
//! PostgreSQL's own children of them, are ever signalled, by their id.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::wire::Client;
use crate::{Common, Result};

/// How long a server may take to answer.
const START_MAX: Duration = Duration::from_secs(600);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Resurgam,
    Postgres,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Resurgam => "Resurgam",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// A folder that goes away.
pub struct Work(PathBuf);

impl Work {
    /// The folder that the user named, or a new one for temporary files.
    pub fn new(common: &Common) -> Result<Self> {
        let dir = common
            .work
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("resurgam-lab-{}", std::process::id())));
        if dir.exists() {
            return Err(format!("the work folder \"{}\" exists already", dir.display()));
        }
        fs::create_dir_all(&dir).map_err(|e| format!("could not make \"{}\": {e}", dir.display()))?;
        Ok(Self(dir))
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server and its data.
pub struct Server {
    pub kind: Kind,
    pub port: u16,
    pub dir: PathBuf,
    common: Common,
    log: PathBuf,
    child: Option<Child>,
}

/// The servers to be measured: Resurgam, and PostgreSQL if it is there and wanted.
pub fn kinds(common: &Common) -> Result<Vec<Kind>> {
    if !common.resurgam.is_file() {
        return Err(format!(
            "there is no server at \"{}\"; build it with `cargo build --release`",
            common.resurgam.display()
        ));
    }
    let mut kinds = vec![Kind::Resurgam];
    if !common.no_postgres {
        if common.postgres.join("postgres").is_file() {
            kinds.push(Kind::Postgres);
        } else {
            eprintln!("PostgreSQL is not at \"{}\": not measured", common.postgres.display());
        }
    }
    Ok(kinds)
}

/// Runs a program to its end; its output if it succeeds.
pub fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("could not run {name}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    }
    Err(format!(
        "{name} failed ({}):\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    ))
}

/// A program of PostgreSQL; as the user `postgres` when this process is root's, since
/// PostgreSQL refuses to run as root.
fn postgres_command(common: &Common, program: &str) -> Result<Command> {
    let path = common.postgres.join(program);
    if output(Command::new("id").arg("-u"))? != "0" {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path).current_dir("/");
    Ok(command)
}

/// A port that nobody listens on at the moment.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}

impl Server {
    /// Makes a new database in `work` and starts the server.
    pub fn create(kind: Kind, common: &Common, work: &Path) -> Result<Self> {
        let name = kind.name().to_lowercase();
        let dir = work.join(&name);
        let mut server = Self {
            kind,
            port: free_port()?,
            dir,
            common: common.clone(),
            log: work.join(format!("{name}.log")),
            child: None,
        };
        if kind == Kind::Postgres {
            server.initdb()?;
        }
        server.start()?;
        Ok(server)
    }

    fn initdb(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(|e| e.to_string())?;
        if output(Command::new("id").arg("-u"))? == "0" {
            output(Command::new("chown").arg("postgres:postgres").arg(&self.dir))?;
        }
        let mut initdb = postgres_command(&self.common, "initdb")?;
        output(initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-D"]).arg(&self.dir))
            .map(drop)
    }

    fn command(&self) -> Result<Command> {
        let (port, buffers) = (self.port, self.common.buffer_mb);
        Ok(match self.kind {
            Kind::Resurgam => {
                let mut command = Command::new(&self.common.resurgam);
                command.arg("serve").arg("--data").arg(&self.dir);
                command.arg("--listen").arg(format!("127.0.0.1:{port}"));
                command.arg("--buffer-bytes").arg(format!("{buffers}MB"));
                command.args(["--synchronous-commit=on", "--log-level", "warn"]);
                command
            }
            Kind::Postgres => {
                let mut command = postgres_command(&self.common, "postgres")?;
                command.arg("-D").arg(&self.dir).arg("-p").arg(port.to_string());
                for setting in [
                    format!("shared_buffers={buffers}MB"),
                    "listen_addresses=127.0.0.1".into(),
                    "unix_socket_directories=".into(),
                    "synchronous_commit=on".into(),
                    "fsync=on".into(),
                ] {
                    command.arg("-c").arg(setting);
                }
                command
            }
        })
    }

    /// Starts the server; answers how long it took until it answered a query.
    pub fn start(&mut self) -> Result<Duration> {
        let log = File::options().create(true).append(true).open(&self.log).map_err(|e| e.to_string())?;
        let mut command = self.command()?;
        let err = log.try_clone().map_err(|e| e.to_string())?;
        command.stdin(Stdio::null()).stdout(log).stderr(err);
        let begun = Instant::now();
        self.child = Some(command.spawn().map_err(|e| format!("could not start {}: {e}", self.kind.name()))?);
        loop {
            let answered = Client::connect(self.port).and_then(|mut client| client.query("select 1"));
            if answered.is_ok() {
                return Ok(begun.elapsed());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || begun.elapsed() > START_MAX {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                let why = answered.err().unwrap_or_default();
                return Err(format!("{} did not start: {why}\n{said}", self.kind.name()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port).map_err(|e| format!("could not connect to {}: {e}", self.kind.name()))
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let id = child.id();
        let mut ids = if self.kind == Kind::Postgres { children_of(id) } else { Vec::new() };
        ids.insert(0, id);
        let mut kill = Command::new("kill");
        kill.arg("-KILL").args(ids.iter().map(u32::to_string));
        let _ = kill.stderr(Stdio::null()).status();
        let _ = child.wait();
        // Until the orphans are gone PostgreSQL refuses to start on the same data.
        let begun = Instant::now();
        while ids.iter().any(|id| is_running(*id)) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The most memory that the server's process ever held, in bytes (the main process).
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        let id = self.child.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    }

    /// Its version, as it says itself.
    pub fn version(&self) -> String {
        let shown = match self.kind {
            Kind::Resurgam => output(Command::new(&self.common.resurgam).arg("--version")),
            Kind::Postgres => output(Command::new(self.common.postgres.join("postgres")).arg("--version")),
        };
        shown.unwrap_or_else(|_| self.kind.name().to_owned())
    }

    /// The command line that started it, for the record.
    pub fn settings(&self) -> String {
        let arguments = self.command().map(|command| {
            let all: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
            all.join(" ")
        });
        let folder = self.dir.display().to_string();
        arguments.unwrap_or_default().replace(&folder, "DIR").replace(&self.port.to_string(), "PORT")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn children_of(id: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(id))
        .collect()
}

/// State and parent, from the fields after the name in parentheses.
fn stat(id: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn parent_of(id: u32) -> Option<u32> {
    stat(id).map(|(_, parent)| parent)
}

fn is_running(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != "Z")
}
