//! A database in parts, each a process of the real binary on this machine: log service, page server, and the primary, which is a
//! [`Server`] like any other. All but the clients' connections go over links where a round trip was asked for.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::link::Link;
use crate::servers::{Kind, Server, cpu_seconds_of_process, free_port, output};
use crate::{Common, Result};

/// Memory for pages of a page server, as `cluster dev` gives it.
const PAGE_SERVER_MB: u64 = 256;

/// A part beside the primary.
pub struct Part {
    pub name: &'static str,
    pub dir: PathBuf,
    port: u16,
    child: Option<Child>,
}

/// Processor time of each process of a run, in seconds.
pub type Cpu = Vec<(&'static str, f64)>;

/// See the module.
pub struct Tiers {
    pub primary: Server,
    pub log_service: Part,
    pub page_server: Part,
    pub metrics_port: u16,
    base: PathBuf,
    binary: PathBuf,
    places: Places,
    /// Goes last.
    _links: Vec<Link>,
}

/// Where parts find each other: ports that lead to them, over links or not.
struct Places {
    log_for_primary: u16,
    log_for_page_server: u16,
    pages: u16,
}

impl Tiers {
    /// Makes a new database in `base`; its parts run from here on.
    pub fn create(common: &Common, base: &Path, round_trip: Duration) -> Result<Self> {
        fs::create_dir_all(base).map_err(|e| format!("could not make \"{}\": {e}", base.display()))?;
        let (log_port, page_port, metrics_port) = (free_port()?, free_port()?, free_port()?);
        let mut links = Vec::new();
        let mut to = |port: u16| match round_trip.is_zero() {
            true => Ok(port),
            false => {
                let link = Link::new(port, round_trip / 2)?;
                let port = link.port;
                links.push(link);
                Ok::<_, String>(port)
            }
        };
        let places =
            Places { log_for_primary: to(log_port)?, log_for_page_server: to(log_port)?, pages: to(page_port)? };
        let part = |name, port| Part { name, dir: base.join(name), port, child: None };
        let (mut log_service, mut page_server) = (part("log service", log_port), part("page server", page_port));
        log_service.start(&common.resurgam, base, &log_flags(base))?;
        page_server.start(&common.resurgam, base, &page_flags(base, &places))?;
        let flags = primary_flags(base, &places, metrics_port, 0);
        let primary = Server::create_with(Kind::Resurgam, common, base, &flags)?;
        Ok(Self {
            primary,
            log_service,
            page_server,
            metrics_port,
            base: base.to_owned(),
            binary: common.resurgam.clone(),
            places,
            _links: links,
        })
    }

    /// Stops the primary and starts it with other sizes of memory and page cache; what the cache had is gone.
    pub fn resize(&mut self, buffer_mb: u64, cache_mb: u64) -> Result<()> {
        self.primary.stop()?;
        self.forget_page_cache()?;
        self.primary.set_buffer_mb(buffer_mb);
        self.primary.set_flags(primary_flags(&self.base, &self.places, self.metrics_port, cache_mb));
        self.primary.start().map(drop)
    }

    /// Empties the page cache of a primary that does not run.
    pub fn forget_page_cache(&self) -> Result<()> {
        match fs::remove_dir_all(self.base.join("page-cache")) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(format!("could not empty the page cache: {e}")),
            _ => Ok(()),
        }
    }

    /// Kills the page server and starts another one with nothing: when that was.
    pub fn new_page_server(&mut self) -> Result<Instant> {
        self.page_server.kill();
        fs::remove_dir_all(&self.page_server.dir).map_err(|e| format!("could not empty the page server: {e}"))?;
        // What there was takes its time to be removed.
        let begun = Instant::now();
        self.page_server.start(&self.binary, &self.base, &page_flags(&self.base, &self.places))?;
        Ok(begun)
    }

    /// What each process has taken since it was started.
    pub fn cpu(&self) -> Result<Cpu> {
        Ok(vec![
            ("primary", self.primary.cpu_seconds()?),
            (self.log_service.name, self.log_service.cpu()?),
            (self.page_server.name, self.page_server.cpu()?),
        ])
    }

    /// The command lines of the parts, for the record.
    pub fn settings(&self) -> String {
        let of = |flags: Vec<String>| flags.join(" ").replace(&self.base.display().to_string(), "WORK");
        format!(
            "- log service: `serve {}`\n- page server: `serve {}`\n",
            of(log_flags(&self.base)),
            of(page_flags(&self.base, &self.places))
        )
    }

    /// What the parts said that they should not have.
    pub fn complaints(&self) -> Vec<String> {
        let text = fs::read(self.base.join("parts.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.contains("panicked at")).map(str::to_owned).collect()
    }
}

fn primary_flags(base: &Path, places: &Places, metrics_port: u16, cache_mb: u64) -> Vec<String> {
    let path = |name: &str| base.join(name).display().to_string();
    let mut flags = vec![
        format!("--landing-zone={}", path("zone")),
        "--log-service-archives=on".to_owned(),
        format!("--log-services=127.0.0.1:{}", places.log_for_primary),
        format!("--page-servers=127.0.0.1:{}", places.pages),
        format!("--archive={}", path("archive")),
        format!("--backups={}", path("backups")),
        format!("--metrics-listen=127.0.0.1:{metrics_port}"),
    ];
    // A folder for a page cache without room is refused.
    if cache_mb > 0 {
        flags.extend([format!("--page-cache={}", path("page-cache")), format!("--page-cache-bytes={cache_mb}MB")]);
    }
    flags
}

fn log_flags(base: &Path) -> Vec<String> {
    let path = |name: &str| base.join(name).display().to_string();
    vec![
        "--role=xlog".to_owned(),
        format!("--landing-zone={}", path("zone")),
        format!("--long-term-log={}", path("long-term")),
        format!("--archive={}", path("archive")),
        format!("--backups={}", path("backups")),
    ]
}

fn page_flags(base: &Path, places: &Places) -> Vec<String> {
    let path = |name: &str| base.join(name).display().to_string();
    vec![
        "--role=pageserver".to_owned(),
        format!("--log-services=127.0.0.1:{}", places.log_for_page_server),
        format!("--archive={}", path("archive")),
        format!("--backups={}", path("backups")),
        format!("--buffer-bytes={PAGE_SERVER_MB}MB"),
    ]
}

impl Part {
    fn start(&mut self, binary: &Path, base: &Path, flags: &[String]) -> Result<()> {
        let failed = |e: std::io::Error| format!("could not start a part: {e}");
        let log = File::options().create(true).append(true).open(base.join("parts.log")).map_err(failed)?;
        let err = log.try_clone().map_err(failed)?;
        let mut command = Command::new(binary);
        command.arg("serve").args(flags).arg("--data").arg(&self.dir).arg(format!("--listen=127.0.0.1:{}", self.port));
        self.child = Some(command.stdin(Stdio::null()).stdout(log).stderr(err).spawn().map_err(failed)?);
        Ok(())
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn cpu(&self) -> Result<f64> {
        let cpu = self.process().and_then(cpu_seconds_of_process);
        cpu.ok_or_else(|| format!("the {} does not run", self.name))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Binds all threads of a process to some cores (`0`, `0,1`); those that they make stay there. Whether it could be done.
pub fn pin(process: Option<u32>, cores: &str) -> bool {
    let Some(process) = process else { return false };
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", cores, &process.to_string()]);
    // A second time for those that a thread has made while the first one was at work.
    output(&mut command).is_ok() && output(&mut command).is_ok()
}
