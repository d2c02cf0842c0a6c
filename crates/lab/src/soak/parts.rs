//! Page servers beside the server, which has no pages of its own then, and a log service, if that is asked for: the server has no log of its own
//! then, either, and loses its folder now and then. Under the load they are killed, stopped for a while, and lose their folders.
//!
//! With troubles all that they say to each other goes over links (`cluster/link.rs`), each of which is slow, silent or cut now and then; the log service
//! is away until the landing zone is full, and archive, backups and long-term log are away for a while, as an object store is. While one of the
//! latter two lasts no page server is emptied, and the round goes on until it is over.
//!
//! Nothing of it may fail a statement (`round.rs`): what needs a page waits for one of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;

use crate::Result;
use crate::cluster::link::{Link, State as LinkState};
use crate::servers::{free_port, output};

/// What was done, for the last lines.
#[derive(Default)]
pub struct Counts {
    pub killed: u64,
    pub paused: u64,
    pub emptied: u64,
    /// That have ended by themselves, and were started again.
    pub ended: u64,
    /// Links that were slow, and that were silent or cut.
    pub slowed: u64,
    pub cut: u64,
    /// Times that the log service was away for long, and that the stores were.
    pub log_away: u64,
    pub store_away: u64,
}

impl Counts {
    /// What should have happened in so long a run with troubles, and has not.
    fn missed(&self, lasted: Duration, log_service: bool) -> Option<String> {
        let long = [self.log_away, self.store_away];
        let missed = match lasted.as_secs() {
            0..20 => false,
            20..300 => self.cut + self.slowed == 0 || long == [0, 0],
            _ => self.cut == 0 || self.slowed == 0 || self.store_away == 0 || (log_service && self.log_away == 0),
        };
        missed.then(|| {
            format!(
                "not all troubles have happened: links slow: {}, cut or silent: {}; log service away: {}, stores away: {}",
                self.slowed, self.cut, self.log_away, self.store_away
            )
        })
    }
}

/// The stores, as folders.
const STORES: [&str; 3] = ["archive", "backups", "long-term"];
/// With only pauses of up to three seconds the zone would hardly be full.
const LOG_AWAY: Duration = Duration::from_secs(15);

/// What lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    Log,
    Stores,
}

/// All that happens between the parts.
struct Troubles {
    /// To the log for page servers, to the log for the primary, and to each page server.
    links: Vec<Link>,
    /// Of each link: until when it is bad, and when it is the next time.
    bad: Vec<(Option<Instant>, Instant)>,
    /// How long the stores are away.
    away: Duration,
    long: Option<(Long, Instant)>,
    next_long: Instant,
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
    troubles: Option<Troubles>,
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
        away: Option<Duration>,
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
        let servers = (usize::from(!log_service)..=count).map(server).collect::<Result<Vec<_>>>()?;
        let troubles = away.map(|away| {
            let ports = [log_port, log_port].into_iter().chain(servers.iter().filter(|s| !s.gives_log).map(|s| s.port));
            let links = ports.map(|port| Link::new(port, Duration::ZERO)).collect::<Result<Vec<_>>>()?;
            let now = Instant::now();
            let bad = links.iter().map(|_| (None, now)).collect();
            Ok::<_, String>(Troubles { links, bad, away, long: None, next_long: now + Duration::from_secs(3) })
        });
        Ok(Self {
            binary: binary.to_owned(),
            base: base.to_owned(),
            log,
            log_port,
            log_service,
            partitions,
            servers,
            troubles: troubles.transpose()?,
            counts: Counts::default(),
        })
    }

    fn path(&self, name: &str) -> String {
        self.base.join(name).display().to_string()
    }

    /// With troubles: which of them should have happened in so long a run, and have not.
    pub fn missed(&self, lasted: Duration) -> Option<String> {
        self.troubles.as_ref().and_then(|_| self.counts.missed(lasted, self.log_service))
    }

    /// The archive that the log service writes, where its place is not away now.
    pub fn archive(&self) -> Option<String> {
        (self.log_service && self.troubles.is_none()).then(|| self.path("archive"))
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

    /// The port of the log, and of a page server, as others see it.
    fn log_port_for(&self, primary: bool) -> u16 {
        self.troubles.as_ref().map_or(self.log_port, |troubles| troubles.links[usize::from(primary)].port)
    }

    fn page_ports(&self) -> Vec<u16> {
        match &self.troubles {
            Some(troubles) => troubles.links.iter().skip(2).map(|link| link.port).collect(),
            None => self.servers.iter().filter(|server| !server.gives_log).map(|server| server.port).collect(),
        }
    }

    /// What the primary is started with.
    pub fn flags(&self) -> Vec<String> {
        let places: Vec<String> = self.page_ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let log = match self.log_service {
            true => vec![
                format!("--log-services=127.0.0.1:{}", self.log_port_for(true)),
                format!("--landing-zone={}", self.path("zone")),
                "--log-service-archives=on".to_owned(),
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
        // Stores may be away for so long, and pages with them.
        let patience = self.troubles.as_ref().map(|_| "--page-server-patience=115s".to_owned());
        own.into_iter().chain(log).chain(patience).chain(self.common()).collect()
    }

    /// All of them run from here on, and reach each other.
    pub fn start_all(&mut self) -> Result<()> {
        self.mend()?;
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
                    format!("--archive={}", self.path("archive")),
                    // So that old log is read from further below, too.
                    "--log-cache-bytes=4MB".to_owned(),
                ];
            }
            (false, with_service) => {
                let from = if with_service { "log-services" } else { "primary" };
                flags.push(format!("--{from}=127.0.0.1:{}", self.log_port_for(false)));
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
        self.trouble(now, rng)?;
        for number in 0..self.servers.len() {
            let server = &mut self.servers[number];
            let ended = match server.child.as_mut().map(Child::try_wait) {
                None | Some(Ok(None)) => None,
                Some(Ok(Some(status))) => Some(status.to_string()),
                Some(Err(error)) => Some(error.to_string()),
            };
            if matches!(server.state, State::Up)
                && let Some(how) = ended
            {
                // It has ended by itself, as one does that finds no store: whoever runs it starts it again.
                println!("a part has ended by itself ({how}): {}", server.dir.display());
                self.counts.ended += 1;
                server.child = None;
                server.state = State::Down(now + Duration::from_millis(300));
            }
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
        let calm = self.troubles.as_ref().is_some_and(|troubles| troubles.long.is_some());
        match if calm { 0 } else { rng.random_range(0..6) } {
            0 => {
                signal(server, "STOP")?;
                let most = if self.troubles.is_some() { 10_000 } else { 3000 };
                server.state = State::Paused(Instant::now() + Duration::from_millis(rng.random_range(0..most)));
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

    /// What happens between them is due, or over.
    fn trouble(&mut self, now: Instant, rng: &mut SmallRng) -> Result<()> {
        let Some(troubles) = &mut self.troubles else { return Ok(()) };
        let mut ms = |most| Duration::from_millis(rng.random_range(0..most));
        for (link, (until, next)) in troubles.links.iter().zip(&mut troubles.bad) {
            if until.is_some_and(|until| until <= now) {
                link.set(LinkState::Whole, Duration::ZERO);
                *until = None;
            } else if until.is_none() && *next <= now {
                (*until, *next) = (Some(now + ms(2500)), now + ms(8000));
                let (kind, late) = (ms(4).as_millis(), ms(60));
                let (state, late) = match kind {
                    0 => (LinkState::Cut, Duration::ZERO),
                    1 => (LinkState::Silent, Duration::ZERO),
                    _ => (LinkState::Whole, late),
                };
                let count = if state == LinkState::Whole { &mut self.counts.slowed } else { &mut self.counts.cut };
                *count += 1;
                link.set(state, late);
            }
        }
        match troubles.long {
            Some((_, until)) if until > now => return Ok(()),
            Some(_) => return self.mend_long(),
            None if troubles.next_long > now => return Ok(()),
            None => {}
        }
        // Each of both is to happen in a run of some minutes.
        let stores = match (self.log_service, self.counts.log_away, self.counts.store_away) {
            (false, ..) | (_, 1.., 0) => true,
            (_, 0, 1..) => false,
            _ => rng.random(),
        };
        troubles.next_long = now + troubles.away + Duration::from_secs(rng.random_range(10..40));
        if stores {
            troubles.long = Some((Long::Stores, now + troubles.away));
            self.counts.store_away += 1;
            return self.stores_go();
        }
        troubles.long = Some((Long::Log, now + LOG_AWAY));
        self.counts.log_away += 1;
        let log = &mut self.servers[0];
        kill(log);
        log.state = State::Down(now + LOG_AWAY);
        Ok(())
    }

    /// Whether something lasts that the round is to wait for.
    pub fn is_in_trouble(&self) -> bool {
        self.troubles.as_ref().is_some_and(|troubles| troubles.long.is_some())
    }

    /// All links are whole, and what was away is back.
    fn mend(&mut self) -> Result<()> {
        let Some(troubles) = &mut self.troubles else { return Ok(()) };
        troubles.links.iter().for_each(|link| link.set(LinkState::Whole, Duration::ZERO));
        troubles.bad.iter_mut().for_each(|(until, _)| *until = None);
        self.mend_long()
    }

    fn mend_long(&mut self) -> Result<()> {
        if let Some(troubles) = &mut self.troubles {
            troubles.long = None;
        }
        self.stores_come_back()
    }

    /// A file is where the folder was: nothing can be read or written there, whoever tries.
    fn stores_go(&self) -> Result<()> {
        for name in STORES {
            let (here, away) = (self.base.join(name), self.base.join(format!("{name}.away")));
            if here.is_dir() {
                fs::rename(&here, &away).and_then(|()| fs::write(&here, b"away")).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    /// Also after a power loss in the middle of that.
    fn stores_come_back(&self) -> Result<()> {
        for name in STORES {
            let (here, away) = (self.base.join(name), self.base.join(format!("{name}.away")));
            if away.is_dir() {
                let _ = fs::remove_file(&here);
                fs::rename(&away, &here).map_err(|e| format!("{} cannot come back: {e}", here.display()))?;
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
