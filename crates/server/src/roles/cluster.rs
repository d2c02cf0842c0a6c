//! `resurgam cluster dev`: primary, log service and page servers on one machine, each a process of its own that is started again when it dies.
//!
//! ```text
//! resurgam cluster dev --data DIR --listen ADDR
//!   ├── resurgam serve --role primary    --data DIR/primary-1    --listen ADDR  --page-servers …  --log-services …  --landing-zone DIR/zone
//!   ├── resurgam serve --role xlog       --data DIR/xlog-1       --listen …     --landing-zone DIR/zone  --long-term-log DIR/long-term  --archive DIR/archive
//!   └── resurgam serve --role pageserver --data DIR/pageserver-N --listen …     --log-services …
//!         DIR/archive, DIR/backups: of all of them
//! ```

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::serve::say;

/// Between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// A process that dies soon after its start is started again after so long, which doubles up to the second.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// One that has run for so long was no failure at its start.
const STARTED: Duration = Duration::from_secs(10);
/// Longest time for a process to stop in good order.
const STOP: Duration = Duration::from_secs(30);
const PAGE_SERVERS_MAX: u16 = 16;
/// Of the primary, unless its settings say otherwise: flag, environment variable, value.
const BACKUPS: [(&str, &str, &str); 2] =
    [("--backup-interval", "RESURGAM_BACKUP_INTERVAL", "1d"), ("--recovery-window", "RESURGAM_RECOVERY_WINDOW", "7d")];
const WINDOW: &str = "--recovery-window";
/// Settings of the command line that are for who archives as well, which merges and gives up.
const KEEPING: [&str; 3] = [WINDOW, "--archive-cpu-percent", "--archive-records-per-page-max"];
/// Certificates for what the parts say to each other: all three or none, the same for each part.
const TIER_TLS: [(&str, &str); 3] = [
    ("tier-tls-cert", "Certificate of all parts, for 127.0.0.1: they speak to each other with TLS then"),
    ("tier-tls-key", "Its private key"),
    ("tier-tls-ca", "The authority that has signed it"),
];

/// The command-line definition.
pub fn command() -> Command {
    let dev = Command::new("dev")
        .about("Run a primary, a log service and page servers on this machine, each as a process of its own")
        .arg(
            Arg::new("data")
                .long("data")
                .value_name("DIR")
                .default_value("./resurgam-cluster")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Folder of all of them: primary-1, xlog-1, pageserver-1, …, zone, long-term, archive, backups"),
        )
        .arg(
            Arg::new("listen").long("listen").value_name("ADDR").default_value("127.0.0.1:5433").help(
                "Address and port for PostgreSQL clients; the ports behind it are for the parts among themselves",
            ),
        )
        .arg(
            Arg::new("page-servers")
                .long("page-servers")
                .value_name("N")
                .default_value("1")
                .value_parser(clap::value_parser!(u16).range(1..=i64::from(PAGE_SERVERS_MAX)))
                .help("How many page servers"),
        )
        .arg(
            Arg::new("partitions")
                .long("partitions")
                .value_name("P")
                .default_value("1")
                .value_parser(clap::value_parser!(u16).range(1..=i64::from(PAGE_SERVERS_MAX)))
                .help(
                    "Page servers have every P-th partition of the pages each, and where there are more of them than P several \
                     have the same; 1: each has all pages",
                ),
        )
        .arg(
            Arg::new("partition-bytes")
                .long("partition-bytes")
                .value_name("BYTES")
                .default_value("64MB")
                .help("Size of a partition, where there are several"),
        )
        .args(TIER_TLS.map(|(name, help)| {
            Arg::new(name).long(name).value_name("FILE").value_parser(clap::value_parser!(PathBuf)).help(help)
        }))
        .arg(
            Arg::new("settings")
                .value_name("SETTINGS")
                .last(true)
                .num_args(0..)
                .help("Further settings of the primary, after --: as for serve"),
        );
    Command::new("cluster")
        .about("A database in parts: primary, log service and page servers")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(dev)
}

/// Runs `resurgam cluster …`.
///
/// # Errors
/// A sentence for the terminal.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, String> {
    match matches.subcommand() {
        Some(("dev", matches)) => dev(matches),
        _ => Err("no such command".into()),
    }
}

/// A process to be kept running.
struct Part {
    name: String,
    arguments: Vec<String>,
    child: Option<Child>,
    started: Instant,
    again: Duration,
    due: Instant,
}

fn dev(matches: &ArgMatches) -> Result<ExitCode, String> {
    let data = matches.get_one::<PathBuf>("data").cloned().unwrap_or_default();
    let data = std::path::absolute(&data).map_err(|error| format!("the folder is not usable: {error}"))?;
    std::fs::create_dir_all(&data).map_err(|error| format!("could not make the folder {}: {error}", data.display()))?;
    let listen = matches.get_one::<String>("listen").cloned().unwrap_or_default();
    let count = matches.get_one::<u16>("page-servers").copied().unwrap_or(1);
    let partitions = Layout {
        count,
        partitions: matches.get_one::<u16>("partitions").copied().unwrap_or(1),
        bytes: matches.get_one::<String>("partition-bytes").cloned().unwrap_or_default(),
    };
    let more: Vec<String> = matches.get_many::<String>("settings").into_iter().flatten().cloned().collect();
    let tls = tier_tls(matches)?;
    let mut parts = parts(&data, &listen, &partitions, &tls, &more)?;
    let stopping = Arc::new(AtomicBool::new(false));
    watch_signals(&stopping)?;
    say(&format!(
        "A primary, a log service and {count} page server{} in {}. Each is started again when it dies; Ctrl-C stops all of them.",
        if count == 1 { "" } else { "s" },
        data.display()
    ));
    while !stopping.load(Ordering::SeqCst) {
        for part in &mut parts {
            part.keep_running();
        }
        std::thread::sleep(LOOK);
    }
    // The primary first: it writes its last checkpoint, and may need pages for it.
    for part in parts.iter_mut().rev() {
        part.stop();
    }
    say("Stopped.");
    Ok(ExitCode::SUCCESS)
}

/// The flags for certificates, as each part gets them.
fn tier_tls(matches: &ArgMatches) -> Result<Vec<String>, String> {
    let mut flags = Vec::new();
    for (name, _) in TIER_TLS {
        let Some(path) = matches.get_one::<PathBuf>(name) else { continue };
        let path = std::path::absolute(path).map_err(|error| format!("--{name} is not usable: {error}"))?;
        flags.extend([format!("--{name}"), path.display().to_string()]);
    }
    match flags.len() / 2 {
        0 | 3 => Ok(flags),
        _ => Err("--tier-tls-cert, --tier-tls-key and --tier-tls-ca belong together: give all three or none".into()),
    }
}

/// Page servers, and what each of them has.
struct Layout {
    count: u16,
    partitions: u16,
    bytes: String,
}

/// The log service first, then page servers, the primary last.
fn parts(data: &Path, listen: &str, layout: &Layout, tls: &[String], more: &[String]) -> Result<Vec<Part>, String> {
    let address = listen
        .to_socket_addrs()
        .map_err(|error| format!("the address to listen on, {listen:?}, is not usable: {error}"))?
        .next()
        .ok_or_else(|| format!("the address to listen on, {listen:?}, names no address"))?;
    // Among themselves on this machine only.
    let port = |behind: u16| {
        let port = address.port().checked_add(behind).ok_or("there are no ports behind that of --listen")?;
        Ok::<_, String>(SocketAddr::from(([127, 0, 0, 1], port)).to_string())
    };
    let path = |name: &str| data.join(name).display().to_string();
    let log = port(1)?;
    if layout.partitions > layout.count {
        return Err(format!(
            "{} partitions need as many page servers, and there are {}: give --page-servers",
            layout.partitions, layout.count
        ));
    }
    let pages = (0..layout.count).map(|number| port(2 + number)).collect::<Result<Vec<_>, _>>()?;
    let mut common = vec!["--archive".to_owned(), path("archive"), "--backups".to_owned(), path("backups")];
    common.extend(tls.iter().cloned());
    if layout.partitions > 1 {
        common.extend(["--partition-bytes".to_owned(), layout.bytes.clone()]);
    }
    // One that was made before there was a log service has its log with the primary, and keeps it there.
    let has_zone = data.join("zone").exists() || !data.join("primary-1").join("control").exists();
    // What page servers begin with: without backups it would be all log that there ever was; and not all backups that there ever were.
    let is_set = |flag: &str, variable: &str| {
        let on_line = more
            .iter()
            .any(|given| given.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')));
        on_line || std::env::var_os(variable).is_some()
    };
    // Settings of a file would lose against those of the command line.
    let has_file = is_set("--config", "RESURGAM_CONFIG");
    let backups = BACKUPS.iter().filter(|(flag, variable, _)| !has_file && !is_set(flag, variable));
    let backups: Vec<String> = backups.map(|(flag, _, value)| format!("{flag}={value}")).collect();
    let mut parts = Vec::new();
    let zone = ["--landing-zone".to_owned(), path("zone")];
    if has_zone {
        let name = "xlog-1".to_owned();
        let own = ["--role", "xlog", "--data", &path(&name), "--listen", &log, "--long-term-log", &path("long-term")];
        let own = own.into_iter().map(str::to_owned);
        // It archives, whichever primary there is, and keeps the archive.
        let archive = ["--archive".to_owned(), path("archive"), "--backups".to_owned(), path("backups")];
        let window = backups.iter().filter(|flag| flag.starts_with(WINDOW)).cloned();
        let own = own.chain(zone.clone()).chain(archive).chain(window).chain(of_those(more, &KEEPING));
        parts.push(Part::new(name, own.chain(tls.iter().cloned()).collect()));
    }
    for (number, address) in (1u16..).zip(&pages) {
        let name = format!("pageserver-{number}");
        let from = if has_zone { "--log-services" } else { "--primary" };
        let own = ["--role", "pageserver", "--data", &path(&name), "--listen", address, from, &log];
        let own = own.into_iter().chain(["--buffer-bytes", "256MB"]).map(str::to_owned);
        let which = match layout.partitions {
            1 => Vec::new(),
            // One behind the other: those behind the first P have the same once more.
            of => vec!["--partitions".to_owned(), format!("{}/{of}", (number - 1) % of)],
        };
        parts.push(Part::new(name, own.chain(common.clone()).chain(which).collect()));
    }
    let name = "primary-1".to_owned();
    let to = if has_zone { "--log-services" } else { "--log-listen" };
    let own = ["--role", "primary", "--data", &path(&name), "--listen", listen, to, &log];
    let zone = if has_zone { [&zone[..], &["--log-service-archives=on".to_owned()]].concat() } else { Vec::new() };
    let own = own.into_iter().map(str::to_owned).chain(zone).chain(["--page-servers".to_owned(), pages.join(",")]);
    parts.push(Part::new(name, own.chain(common).chain(backups).chain(more.iter().cloned()).collect()));
    Ok(parts)
}

/// What `given` says of these settings, as `--name=value` or `--name value`.
fn of_those(given: &[String], flags: &[&str]) -> Vec<String> {
    let is_of = |text: &String| flags.iter().any(|flag| text == flag);
    let is_with_value =
        |text: &String| flags.iter().any(|flag| text.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')));
    let mut found = Vec::new();
    for (at, text) in given.iter().enumerate() {
        if is_with_value(text) {
            found.push(text.clone());
        } else if is_of(text) {
            found.extend(given.get(at..at + 2).unwrap_or_default().iter().cloned());
        }
    }
    found
}

impl Part {
    fn new(name: String, mut arguments: Vec<String>) -> Self {
        arguments.insert(0, "serve".into());
        Self { name, arguments, child: None, started: Instant::now(), again: AGAIN_FIRST, due: Instant::now() }
    }

    /// Starts it if it does not run.
    fn keep_running(&mut self) {
        if let Some(child) = &mut self.child {
            let how = match child.try_wait() {
                Ok(None) => return,
                Ok(Some(how)) => how.to_string(),
                Err(error) => error.to_string(),
            };
            self.child = None;
            self.again = if self.started.elapsed() > STARTED { AGAIN_FIRST } else { (self.again * 2).min(AGAIN_MAX) };
            self.due = Instant::now() + self.again;
            say(&format!("{} has ended ({how}), and is started again in {:?}.", self.name, self.again));
        }
        if Instant::now() < self.due {
            return;
        }
        self.started = Instant::now();
        match self.start() {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                say(&format!("{} cannot be started: {error}", self.name));
                self.again = (self.again * 2).min(AGAIN_MAX);
                self.due = Instant::now() + self.again;
            }
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let program = std::env::current_exe()?;
        let mut command = std::process::Command::new(program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A signal of the terminal is for this process, which tells them in order.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: only system calls that may be made between fork and exec, and nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                // It ends when this process does, however that ends.
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::getppid() as u32 != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let tell = |pipe: Option<Box<dyn Read + Send>>| {
            let (name, Some(pipe)) = (self.name.clone(), pipe) else { return };
            std::thread::spawn(move || {
                let mut lines = BufReader::new(pipe);
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    say(&format!("[{name}] {}", String::from_utf8_lossy(&line).trim_end()));
                    line.clear();
                }
            });
        };
        tell(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        tell(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        Ok(child)
    }

    /// Stops it in good order, or kills it when that takes too long.
    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // SAFETY: the process is a child that was not waited for yet: its number is no other's.
        unsafe {
            libc::kill(child.id() as i32, libc::SIGTERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        say(&format!("{} does not stop in {STOP:?}, and is killed.", self.name));
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The first signal stops all parts, the second this process at once, and them with it.
fn watch_signals(stopping: &Arc<AtomicBool>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("could not watch for signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let signals = runtime.block_on(async {
        Ok::<_, std::io::Error>((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = signals.map_err(failed)?;
    let stopping = Arc::clone(stopping);
    std::thread::spawn(move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if stopping.swap(true, Ordering::SeqCst) {
                    std::process::exit(130);
                }
                say("Stopping the primary, then the others. Signal again to stop at once.");
            }
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_given_whole_or_not_at_all() {
        let given = |arguments: &[&str]| {
            let all = [&["cluster", "dev"], arguments].concat();
            let matches = command().try_get_matches_from(all).unwrap();
            tier_tls(matches.subcommand_matches("dev").unwrap())
        };
        let all = ["--tier-tls-cert", "/c", "--tier-tls-key", "/k", "--tier-tls-ca", "/a"];
        assert_eq!(given(&all).unwrap(), all);
        assert!(given(&[]).unwrap().is_empty());
        assert!(given(&all[..4]).unwrap_err().contains("all three or none"));
    }

    #[test]
    fn parts_have_ports_and_folders_of_their_own() {
        let layout = |count, partitions| Layout { count, partitions, bytes: "16MB".into() };
        let parts =
            parts(Path::new("/d"), "0.0.0.0:6000", &layout(2, 1), &[], &["--work-mem".into(), "1MB".into()]).unwrap();
        let lines: Vec<String> = parts.iter().map(|part| part.arguments.join(" ")).collect();
        assert_eq!(
            parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(),
            ["xlog-1", "pageserver-1", "pageserver-2", "primary-1"]
        );
        assert!(lines[2].contains(
            "--role pageserver --data /d/pageserver-2 --listen 127.0.0.1:6003 --log-services 127.0.0.1:6001"
        ));
        assert!(lines[0].contains("--role xlog --data /d/xlog-1 --listen 127.0.0.1:6001"), "{}", lines[0]);
        // It merges what it archives, and gives up what is not promised.
        assert!(lines[0].contains("--archive /d/archive --backups /d/backups --recovery-window=7d"), "{}", lines[0]);
        let more: Vec<String> =
            ["--archive-cpu-percent=5", "--recovery-window", "1h", "--work-mem", "1MB"].map(Into::into).into();
        let of_more = super::parts(Path::new("/d"), "127.0.0.1:6000", &layout(1, 1), &[], &more).unwrap();
        let line = of_more[0].arguments.join(" ");
        assert!(line.ends_with("--backups /d/backups --archive-cpu-percent=5 --recovery-window 1h"), "{line}");
        assert!(lines[3].contains(
            "--listen 0.0.0.0:6000 --log-services 127.0.0.1:6001 --landing-zone /d/zone --log-service-archives=on --page-servers \
             127.0.0.1:6002,127.0.0.1:6003"
        ));
        assert!(lines[3].ends_with("--work-mem 1MB"), "{}", lines[3]);
        assert!(!lines.iter().any(|line| line.contains("partition")), "{lines:?}");
        assert!(super::parts(Path::new("/d"), "127.0.0.1:65535", &layout(1, 1), &[], &[]).is_err());
        let parts = super::parts(Path::new("/d"), "127.0.0.1:6000", &layout(3, 2), &[], &[]).unwrap();
        let lines: Vec<String> = parts.iter().map(|part| part.arguments.join(" ")).collect();
        for (line, ends) in [(1, "0/2"), (2, "1/2"), (3, "0/2")] {
            let expected = format!("--partition-bytes 16MB --partitions {ends}");
            assert!(lines[line].ends_with(&expected), "{}", lines[line]);
        }
        assert!(lines[4].contains("--partition-bytes 16MB") && !lines[4].contains("--partitions"), "{}", lines[4]);
        assert!(super::parts(Path::new("/d"), "127.0.0.1:6000", &layout(1, 2), &[], &[]).is_err());
        // All of them have the same certificates.
        let tls: Vec<String> =
            ["--tier-tls-cert", "/c", "--tier-tls-key", "/k", "--tier-tls-ca", "/a"].map(Into::into).into();
        let parts = super::parts(Path::new("/d"), "127.0.0.1:6000", &layout(2, 1), &tls, &[]).unwrap();
        assert!(parts.iter().all(|part| part.arguments.join(" ").contains(&tls.join(" "))));
    }
}
