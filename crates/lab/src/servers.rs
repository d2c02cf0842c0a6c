//! The servers under test as child processes: Resurgam (in both of its modes), and
//! PostgreSQL and MariaDB of the installed versions. All commit to disk and have the same
//! memory for pages; everything else is at its default unless an experiment says so.
//!
//! A server that is dropped is killed. Only processes that were started here, and
//! PostgreSQL's own children of them, are ever signalled, by their id.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::session::{Program, Session};
use crate::wire::Client;
use crate::{Common, Result};

/// How long a server may take to answer: an undo of many millions of rows comes before that.
const START_MAX: Duration = Duration::from_secs(3600);

/// A clean stop that takes longer has hung.
const STOP_MAX: Duration = Duration::from_secs(120);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Resurgam,
    /// Resurgam with `accelerated_database_recovery = off`: undo through the log.
    Traditional,
    Postgres,
    MariaDb,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Resurgam => "Resurgam",
            Self::Traditional => "Resurgam, traditional",
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB (InnoDB)",
        }
    }

    /// Whether it is this project's server, in either mode.
    pub fn is_resurgam(self) -> bool {
        matches!(self, Self::Resurgam | Self::Traditional)
    }

    /// Its name in the names of files.
    fn slug(self) -> &'static str {
        match self {
            Self::Resurgam => "resurgam",
            Self::Traditional => "traditional",
            Self::Postgres => "postgresql",
            Self::MariaDb => "mariadb",
        }
    }
}

/// A folder that goes away.
pub struct Work(PathBuf);

impl Work {
    /// The folder that the user named, or a new one for temporary files.
    pub fn new(common: &Common) -> Result<Self> {
        Self::at(Self::place(common))
    }

    /// One of several at a time: the folder of [`Work::new`] with `name` added to its own.
    pub fn with_name(common: &Common, name: &str) -> Result<Self> {
        let mut dir = Self::place(common).into_os_string();
        dir.push(format!("-{name}"));
        Self::at(dir.into())
    }

    fn place(common: &Common) -> PathBuf {
        common.work.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("resurgam-lab-{}", std::process::id())))
    }

    fn at(dir: PathBuf) -> Result<Self> {
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
    /// More flags of Resurgam, or settings of PostgreSQL.
    flags: Vec<String>,
    /// A mistake that it is to make, if it was built to be able to (`resurgam-sql`'s feature `planted`).
    planted: Option<&'static str>,
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

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))? == "0")
}

/// A program of PostgreSQL or MariaDB; as their own user when this process is root's, since
/// they refuse to run as root.
fn as_user(user: &str, path: PathBuf) -> Result<Command> {
    if !is_root()? {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]);
    command.arg(path).current_dir("/");
    Ok(command)
}

/// Whether the server's `serve` has this flag (`--name`).
pub fn has_flag(common: &Common, flag: &str) -> bool {
    let help = output(Command::new(&common.resurgam).args(["serve", "--help"])).unwrap_or_default();
    help.split_whitespace()
        .any(|word| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('[')))
}

/// A port that nobody listens on at the moment, another one each time: below those that the system gives to connections (32768 and above on Linux), one of
/// which may have a port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new(rand::random_range(0..PORTS.end - PORTS.start)));
    let of = || PORTS.start + next.fetch_add(1, Ordering::Relaxed) % (PORTS.end - PORTS.start);
    let free = (0..PORTS.len()).map(|_| of()).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.ok_or_else(|| "no port is free".to_owned())
}

impl Server {
    /// Makes a new database in `work` and starts the server.
    pub fn create(kind: Kind, common: &Common, work: &Path) -> Result<Self> {
        Self::create_with(kind, common, work, &[])
    }

    /// The same with more flags, which only Resurgam gets.
    pub fn create_with(kind: Kind, common: &Common, work: &Path, flags: &[String]) -> Result<Self> {
        Self::create_planted(kind, common, work, flags, None)
    }

    /// The same of a server that makes a mistake.
    pub fn create_planted(
        kind: Kind,
        common: &Common,
        work: &Path,
        flags: &[String],
        planted: Option<&'static str>,
    ) -> Result<Self> {
        let mut server = Self {
            planted,
            kind,
            port: free_port()?,
            dir: work.join(kind.slug()),
            common: common.clone(),
            flags: flags.to_vec(),
            log: work.join(format!("{}.log", kind.slug())),
            child: None,
        };
        match kind {
            Kind::Resurgam | Kind::Traditional => {}
            Kind::Postgres => {
                let mut initdb = server.installer("postgres", common.postgres.join("initdb"))?;
                initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-D"]).arg(&server.dir);
                output(&mut initdb)?;
            }
            Kind::MariaDb => {
                let mut install = server.installer("mysql", "mariadb-install-db".into())?;
                install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                output(install.arg(format!("--datadir={}", server.dir.display())))?;
            }
        }
        server.start()?;
        match kind {
            Kind::Traditional => {
                server.session()?.query("alter database postgres set accelerated_database_recovery = off")?;
            }
            Kind::Resurgam | Kind::Postgres | Kind::MariaDb => {}
        }
        Ok(server)
    }

    /// A standby of PostgreSQL that follows `primary`, with a copy of its files and as much memory as `common` says.
    pub fn replica(primary: &Self, common: &Common, work: &Path) -> Result<Self> {
        let mut server = Self {
            kind: Kind::Postgres,
            port: free_port()?,
            dir: work.join(Kind::Postgres.slug()),
            common: common.clone(),
            flags: Vec::new(),
            planted: None,
            log: work.join(format!("{}.log", Kind::Postgres.slug())),
            child: None,
        };
        let mut copy = server.installer("postgres", common.postgres.join("pg_basebackup"))?;
        copy.args(["-h", "127.0.0.1", "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-p"]);
        copy.arg(primary.port.to_string()).arg("-D").arg(&server.dir);
        output(&mut copy)?;
        // It leaves those of a folder that was there; the server wants it to be its own.
        output(Command::new("chmod").arg("0700").arg(&server.dir))?;
        server.start()?;
        Ok(server)
    }

    /// Another size of its memory for pages, in megabytes, from the next start on.
    pub fn set_buffer_mb(&mut self, buffer_mb: u64) {
        self.common.buffer_mb = buffer_mb;
    }

    /// Other flags, or settings (`name=value`) of PostgreSQL, from the next start on.
    pub fn set_flags(&mut self, flags: Vec<String>) {
        self.flags = flags;
    }

    /// Makes the data folder, the user's own, and answers the program that fills it.
    fn installer(&self, user: &str, program: PathBuf) -> Result<Command> {
        fs::create_dir_all(&self.dir).map_err(|e| e.to_string())?;
        if is_root()? {
            output(Command::new("chown").arg(format!("{user}:{user}")).arg(&self.dir))?;
        }
        as_user(user, program)
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("lab.sock")
    }

    fn command(&self) -> Result<Command> {
        let (port, buffers) = (self.port, self.common.buffer_mb);
        Ok(match self.kind {
            Kind::Resurgam | Kind::Traditional => {
                let mut command = Command::new(&self.common.resurgam);
                command.arg("serve").arg("--data").arg(&self.dir);
                command.arg("--listen").arg(format!("127.0.0.1:{port}"));
                command.arg("--buffer-bytes").arg(format!("{buffers}MB"));
                command.args(["--synchronous-commit=on", "--log-level", "warn"]).args(&self.flags);
                command.envs(self.planted.map(|name| ("RESURGAM_PLANT", name)));
                command
            }
            Kind::MariaDb => {
                let mut command = as_user("mysql", self.common.mariadb.clone())?;
                command.arg("--no-defaults").arg("--datadir").arg(&self.dir);
                command.arg("--socket").arg(self.socket()).arg("--skip-networking");
                command.arg(format!("--innodb-buffer-pool-size={buffers}M"));
                // A write that waits for a rollback after a restart is what is measured.
                command.args(["--innodb-flush-log-at-trx-commit=1", "--innodb-lock-wait-timeout=100000"]);
                command
            }
            Kind::Postgres => {
                let mut command = as_user("postgres", self.common.postgres.join("postgres"))?;
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
                // Of a server that was made with flags they are Resurgam's.
                for setting in self.flags.iter().filter(|flag| !flag.starts_with('-')) {
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
            let answered = self.connect().and_then(|mut session| session.query("select 1"));
            if answered.is_ok() {
                return Ok(begun.elapsed());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || begun.elapsed() > START_MAX {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                let lines: Vec<&str> = said.lines().collect();
                let said = lines[lines.len().saturating_sub(20)..].join("\n");
                let why = answered.err().unwrap_or_default();
                return Err(format!("{} did not start: {why}\n{said}", self.kind.name()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn connect(&self) -> Result<Session> {
        if self.kind != Kind::MariaDb {
            return Ok(Session::Wire(Client::connect(self.port)?));
        }
        // Cheaper than a client that fails; nobody listens before InnoDB has redone its log.
        drop(UnixStream::connect(self.socket()).map_err(|e| e.to_string())?);
        Ok(Session::MariaDb(Program::connect(&self.socket())?))
    }

    /// A session in the database where experiments have their tables.
    pub fn session(&self) -> Result<Session> {
        let mut session = self.connect().map_err(|e| format!("could not connect to {}: {e}", self.kind.name()))?;
        if self.kind == Kind::MariaDb {
            session.query("create database if not exists lab")?;
            session.query("use lab")?;
        }
        Ok(session)
    }

    /// A session of the PostgreSQL protocol.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port).map_err(|e| format!("could not connect to {}: {e}", self.kind.name()))
    }

    /// The id of its process, if it was started.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
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

    /// Stops the server as an operator does.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Err("the server does not run".into()) };
        output(Command::new("kill").arg("-TERM").arg(child.id().to_string()))?;
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if begun.elapsed() < STOP_MAX => std::thread::sleep(Duration::from_millis(20)),
                ended => {
                    self.child = Some(child);
                    self.kill();
                    return Err(format!("{} did not stop cleanly: {ended:?}", self.kind.name()));
                }
            }
        }
    }

    /// Bytes of rows that are there for versions, by `resurgam check` of the data of a server that does not run.
    pub fn version_bytes_in_rows(&self) -> Result<u64> {
        let said = output(Command::new(&self.common.resurgam).arg("check").arg(&self.dir))?;
        let before = said.split(" bytes of such in rows").next().unwrap_or_default();
        let digits = before.rsplit('(').next().unwrap_or_default();
        digits.parse().map_err(|_| format!("`resurgam check` says nothing of versions in rows:\n{said}"))
    }

    /// `resurgam check` of the data of a server that was stopped cleanly: no damage, no leaked page.
    pub fn check(&self) -> Result<()> {
        let said = output(Command::new(&self.common.resurgam).arg("check").arg(&self.dir))?;
        if said.contains("no problems") && !said.contains("LEAK") { Ok(()) } else { Err(said) }
    }

    /// The most memory that the server's process ever held, in bytes (the main process).
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        let id = self.child.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    }

    /// Processor time, user and system, that its processes have taken since it was started, in seconds; those
    /// that have ended are among them.
    ///
    /// # Errors
    /// It does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let gone = || format!("{} does not run", self.kind.name());
        let id = self.process().ok_or_else(gone)?;
        let ticks = ticks_of(id).ok_or_else(gone)?;
        // One that ends meanwhile is counted by its parent from then on.
        let children: u64 = children_of(id).into_iter().filter_map(ticks_of).sum();
        Ok((ticks + children) as f64 / TICKS_A_SECOND)
    }

    /// Its processes: the first one, and PostgreSQL's others.
    pub fn all_processes(&self) -> Vec<u32> {
        self.process().map_or_else(Vec::new, |id| std::iter::once(id).chain(children_of(id)).collect())
    }

    /// Processes that it has besides its first one: PostgreSQL's sessions, and those in its background.
    pub fn processes(&self) -> usize {
        self.process().map_or(0, |id| children_of(id).len())
    }

    /// Waits until there are no more of them than `most`: those of sessions whose clients have gone go a little later, and what
    /// they took is told by nobody between their end and their parent's look at it.
    pub fn wait_for_processes(&self, most: usize) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.processes() > most && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Of that, what those of its own threads have taken whose names begin with one of `names`, in seconds. Threads that have ended are
    /// not among them.
    ///
    /// # Errors
    /// It does not run.
    pub fn cpu_seconds_of(&self, names: &[&str]) -> Result<f64> {
        let gone = || format!("{} does not run", self.kind.name());
        let id = self.process().ok_or_else(gone)?;
        let threads = fs::read_dir(format!("/proc/{id}/task")).map_err(|_| gone())?;
        let ticks: u64 = threads
            .flatten()
            .filter(|thread| {
                // The name of a thread is cut off after 15 letters.
                let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
                names.iter().any(|wanted| name.trim_end().starts_with(&wanted[..wanted.len().min(15)]))
            })
            .filter_map(|thread| ticks_in(&thread.path().join("stat"), 2))
            .sum();
        Ok(ticks as f64 / TICKS_A_SECOND)
    }

    /// Its version, as it says itself.
    pub fn version(&self) -> String {
        let shown = match self.kind {
            Kind::Resurgam | Kind::Traditional => output(Command::new(&self.common.resurgam).arg("--version")),
            Kind::MariaDb => output(Command::new(&self.common.mariadb).arg("--version")),
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
        let text = arguments.unwrap_or_default().replace(&folder, "DIR").replace(&self.port.to_string(), "PORT");
        // Folders beside it, of the log for instance, are named without the place of this machine where they are.
        match self.dir.parent().filter(|work| work.parent().is_some()) {
            Some(work) => text.replace(&work.display().to_string(), "WORK"),
            None => text,
        }
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

/// Units of processor time in `/proc`, on every Linux of the last decades.
const TICKS_A_SECOND: f64 = 100.0;

/// The same of a process that was started here.
pub fn cpu_seconds_of_process(id: u32) -> Option<f64> {
    ticks_of(id).map(|ticks| ticks as f64 / TICKS_A_SECOND)
}

/// Processor time of a process and of its children that it has waited for.
fn ticks_of(id: u32) -> Option<u64> {
    // utime, stime, cutime, cstime
    ticks_in(Path::new(&format!("/proc/{id}/stat")), 4)
}

/// The first `count` of the times that such a file tells.
fn ticks_in(stat: &Path, count: usize) -> Option<u64> {
    let stat = fs::read_to_string(stat).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // They are the fields 14 to 17, with the id and the name before.
    fields.get(11..11 + count)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

fn parent_of(id: u32) -> Option<u32> {
    stat(id).map(|(_, parent)| parent)
}

fn is_running(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != "Z")
}

#[cfg(test)]
mod tests {
    use super::ticks_of;

    #[test]
    fn processor_time_is_counted() {
        let own = std::process::id();
        let before = ticks_of(own).expect("this process runs");
        let begun = std::time::Instant::now();
        let mut sum = 0u64;
        while ticks_of(own) <= Some(before + 2) && begun.elapsed().as_secs() < 20 {
            sum = (0..100_000).fold(sum, |sum, i| std::hint::black_box(sum ^ i));
        }
        assert!(ticks_of(own) > Some(before + 2), "{sum}");
        assert_eq!(ticks_of(0), None);
    }
}
