//! Page servers, which pull the log from log services and give pages; and the primary's side of asking for them: a miss runs the scheduler until the
//! page is there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_log::Block;
use resurgam_page::PageBuf;
use resurgam_pageserver::{ArchiveSeed, PageServer, PageServerConfig, Partitions, Pulled, PulledConfig, Seed};
use resurgam_rbpex::{Config, Rbpex};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use crate::harness::schedule::{ARCHIVE, BACKUPS, CACHE};
use crate::machine::Place;
use crate::sim::{Event, MS, Micros, Mistake, Node, Sim, State, Wanted};
use crate::xlog::PartOfLog;

const PAGES: &str = "/pages";
/// Longest wait for a page, of a primary that is alive: longer than anything is wrong.
const PATIENCE: Micros = 6000 * MS;
/// Another page server is asked after so long.
const AGAIN: Micros = 60 * MS;
/// A page server keeps who waits for log so long.
const KEPT: Micros = 100 * MS;

/// An answer.
#[derive(Debug)]
pub enum Given {
    Page(Box<[u8]>),
    NotModified,
    /// It cannot be had there now.
    Not,
    /// It does not exist there, or is damaged.
    Corrupt(Error),
}

/// See the module.
pub struct Server {
    pub life: u32,
    pub paused_until: Micros,
    pub partitions: Partitions,
    disk: SimVfs,
    now: Option<Now>,
}

struct Now {
    pages: Arc<PageServer>,
    pulled: Pulled,
    wants_all: bool,
    /// The number of what was asked for; the log service that was asked.
    asked: u64,
    xlog: usize,
    waiting: Vec<Wanted>,
}

impl Server {
    pub fn new(seed: u64, partitions: Partitions) -> Self {
        Self { life: 0, paused_until: 0, partitions, disk: SimVfs::new(seed), now: None }
    }

    pub fn pages(&self) -> Option<Arc<PageServer>> {
        self.now.as_ref().map(|now| Arc::clone(&now.pages))
    }
}

impl Sim {
    /// It dies; its disk stays, loses what was not synced, or is lost.
    pub fn kill_server(self: &Arc<Self>, s: usize) {
        let how = self.below(5);
        let wait = self.range(MS, 300 * MS);
        let mut state = self.state.lock();
        state.met.kills += 1;
        let server = &mut state.servers[s];
        server.life += 1;
        server.now = None;
        server.disk = match how {
            0..=1 => server.disk.crash(),
            2..=3 => server.disk.kill(),
            _ => SimVfs::new(self.seed ^ u64::from(server.life) << 20 ^ s as u64),
        };
        drop(state);
        self.after(wait, Event::StartServer(s));
    }

    pub fn handle_server(self: &Arc<Self>, event: Event) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        match event {
            Event::StartServer(s) => {
                if state.servers[s].now.is_some() {
                    return;
                }
                match self.open_server(state, s) {
                    Some(now) => {
                        self.log(|| {
                            let stats = now.pages.stats();
                            let (at, missing) = (stats.applied, stats.segments_missing);
                            format!("page server {s} has the log up to {at}, and {missing} segments are missing")
                        });
                        let life = state.servers[s].life;
                        state.servers[s].now = Some(now);
                        self.after(0, Event::Ask { server: s, life, asked: 0 });
                        self.after(self.below(200 * MS), Event::Keep { server: s, life });
                    }
                    None => self.after(25 * MS, Event::StartServer(s)),
                }
            }
            Event::Ask { server, life, asked } if state.servers[server].life == life => self.ask(state, server, asked),
            Event::Pulled { to, life, asked, answer } if state.servers[to].life == life => {
                let Some(now) = &mut state.servers[to].now else { return };
                if now.asked != asked {
                    return;
                }
                // What the network has doubled is of no use.
                now.asked += 1;
                let asked = now.asked;
                self.log(|| match &*answer {
                    Ok(part) => {
                        let (at, count) = (now.pages.position(), part.blocks.len());
                        format!("page server {to}, at {at}, is given {count} blocks up to {}", part.complete_to)
                    }
                    Err(what) => format!("page server {to} is refused log: {what}"),
                });
                let pause = match &*answer {
                    Ok(part) => self.apply(state, to, part),
                    Err(what) => return self.fail(format!("page server {to} was refused log: {what}")),
                };
                self.answer_all(state, to);
                self.after(pause, Event::Ask { server: to, life, asked });
            }
            Event::Keep { server, life } if state.servers[server].life == life => {
                let Some(now) = &state.servers[server].now else { return };
                let outcome = now.pages.checkpoint().and_then(|_| now.pages.fill(1));
                if let Err(error) = outcome
                    && error.kind() != ErrorKind::Io
                {
                    return self.fail(format!("page server {server} cannot keep what it has: {error}"));
                }
                self.after(self.range(50 * MS, 400 * MS), Event::Keep { server, life });
            }
            Event::GetPage { to, wanted } => {
                let life = state.servers[to].life;
                let Some(now) = &mut state.servers[to].now else { return };
                let id = wanted.id;
                now.waiting.push(wanted);
                self.answer_all(state, to);
                self.after(KEPT, Event::GaveUp { server: to, life, id });
            }
            Event::GaveUp { server, life, id } if state.servers[server].life == life => {
                let Some(now) = &mut state.servers[server].now else { return };
                now.waiting.retain(|wanted| wanted.id != id);
            }
            _ => {}
        }
    }

    fn open_server(self: &Arc<Self>, state: &State, s: usize) -> Option<Now> {
        let (database, first) = state.database?;
        let server = &state.servers[s];
        let open = || -> Result<PageServer> {
            let node = Node::Server(s);
            let archive = Arc::new(Place::store(self, node, ARCHIVE)?);
            let backups = Arc::new(Place::store(self, node, BACKUPS)?);
            let seed: Arc<dyn Seed> = Arc::new(ArchiveSeed::new(archive, Some(backups), database, first));
            let config = PageServerConfig {
                memory_bytes: 0,
                partitions: server.partitions.clone(),
                early_mark: self.mistake == Mistake::EarlyMark,
                ..PageServerConfig::default()
            };
            let vfs: Arc<dyn Vfs> = Arc::new(server.disk.clone());
            PageServer::open(vfs, Path::new(PAGES), database, first, Some(seed), config)
        };
        match open() {
            Ok(pages) => {
                let config = PulledConfig { segment_bytes: self.segment_bytes, workers: 1, batch_bytes: 0 };
                let (pages, pulled) = (Arc::new(pages), Pulled::new(config));
                let xlog = self.below(state.xlogs.len() as u64) as usize;
                Some(Now { pages, pulled, wants_all: false, asked: 0, xlog, waiting: Vec::new() })
            }
            Err(error) if error.kind() == ErrorKind::Io => None,
            Err(error) => {
                self.fail(format!("page server {s} cannot be opened: {error}"));
                None
            }
        }
    }

    /// Asks for log, if `asked` was its last question.
    fn ask(self: &Arc<Self>, state: &mut State, s: usize, asked: u64) {
        let xlogs = state.xlogs.len() as u64;
        let Server { now: Some(now), life, partitions, .. } = &mut state.servers[s] else { return };
        if now.asked != asked {
            return;
        }
        now.asked += 1;
        if self.one_in(6) {
            now.xlog = self.below(xlogs) as usize;
        }
        let config = PulledConfig { segment_bytes: self.segment_bytes, workers: 1, batch_bytes: 0 };
        if self.one_in(12) {
            // Another connection.
            now.pulled = Pulled::new(config);
        }
        let part = (!partitions.is_all() && !now.wants_all).then(|| partitions.clone());
        let (from, asked, life) = (now.pages.position(), now.asked, *life);
        let pull = Event::Pull { to: now.xlog, server: s, life, asked, from, part };
        self.send(Node::Server(s), Node::Xlog(now.xlog), pull);
        // Again if nothing comes.
        self.after(160 * MS, Event::Ask { server: s, life, asked });
    }

    /// Applies what has come; gives how long it waits until it asks again.
    fn apply(&self, state: &mut State, s: usize, part: &PartOfLog) -> Micros {
        let Some(now) = &mut state.servers[s].now else { return MS };
        let from = now.pages.position();
        for (lsn, bytes) in &part.blocks {
            match Block::parse(bytes, *lsn, self.segment_bytes) {
                Ok(block) => {
                    state.met.blocks += 1;
                    if let Err(what) = state.history.check(*lsn, block.next(), block.header().epoch) {
                        self.fail(format!("page server {s}: {what}"));
                        return MS;
                    }
                }
                Err(error) => self.fail(format!("page server {s}, at {from}: {error}")),
            }
        }
        let outcome = if part.is_part {
            now.pulled.part(&now.pages, &part.blocks, part.complete_to, part.durable)
        } else {
            let blocks: Vec<Vec<u8>> = part.blocks.iter().map(|(_, bytes)| bytes.clone()).collect();
            now.pulled.whole(&now.pages, &blocks, part.complete_to, part.durable).map(|()| None)
        };
        match outcome {
            Ok(None) => self.below(2 * MS),
            Ok(Some(gap)) => {
                now.wants_all = true;
                now.pages.go_back();
                self.fail(format!("page server {s}: a record of page {} was left out", gap.page));
                MS
            }
            // What it needs of the archive is out of reach.
            Err(error) if error.kind() == ErrorKind::Io => 20 * MS,
            Err(error) => {
                self.fail(format!("page server {s}, at {from}, cannot apply what it was given: {error}"));
                MS
            }
        }
    }

    /// Answers who need not wait any more.
    fn answer_all(&self, state: &mut State, s: usize) {
        let Some(now) = &mut state.servers[s].now else { return };
        let mut buf = PageBuf::zeroed();
        let (mistake, pages) = (self.mistake, Arc::clone(&now.pages));
        now.waiting.retain(|wanted| {
            let at_least = match mistake {
                Mistake::NoWait => Lsn::NONE,
                Mistake::WaitShort => Lsn(wanted.at_least.0.saturating_sub(512)),
                _ => wanted.at_least,
            };
            if pages.position() <= at_least {
                return true;
            }
            let given = match pages.get_page(wanted.page, at_least, Duration::ZERO, &mut buf) {
                Ok(()) if wanted.have.is_some() && buf.lsn() == wanted.have => Given::NotModified,
                Ok(()) => Given::Page(buf.as_bytes()[..].into()),
                // What it is made of is out of reach.
                Err(error) if error.kind() == ErrorKind::Io => Given::Not,
                Err(error) => {
                    self.log(|| format!("page server {s}: page {}: {error}", wanted.page));
                    Given::Corrupt(error)
                }
            };
            let event = Event::Page { to: wanted.primary, id: wanted.id, given: Arc::new(given) };
            self.send(Node::Server(s), Node::Primary(wanted.primary), event);
            false
        });
    }
}

/// What a primary asks for its pages.
pub struct Service {
    pub sim: Arc<Sim>,
    pub p: usize,
    pub cached: Arc<Mutex<Option<Arc<Rbpex>>>>,
}

impl PageService for Service {
    fn open(&self, _: [u8; 16], _: &Arc<Log>, _: Lsn) -> Result<Arc<dyn RemotePages>> {
        Ok(Arc::new(Client { sim: Arc::clone(&self.sim), p: self.p, cached: Arc::clone(&self.cached) }))
    }

    fn cache(&self, database: [u8; 16]) -> Option<Arc<dyn PageCache>> {
        let mut config = Config::new(CACHE.into(), 20 * (limits::PAGE_SIZE as u64 + 32));
        (config.queue_pages, config.background, config.patience) = (12, false, Duration::ZERO);
        config.slow = Duration::from_secs(3600);
        if let Mistake::Cache(planted) = self.sim.mistake {
            config.planted = planted;
        }
        let is_there = self.sim.seed % 3 != 1 || matches!(self.sim.mistake, Mistake::Cache(_));
        let local = self.sim.state.lock().processes[self.p].local.clone();
        let cache = is_there.then(|| Rbpex::open(Arc::new(local), config, database))?;
        *self.cached.lock() = Some(Arc::clone(&cache));
        Some(cache)
    }
}

struct Client {
    sim: Arc<Sim>,
    p: usize,
    cached: Arc<Mutex<Option<Arc<Rbpex>>>>,
}

impl Client {
    /// What waits to be written into the cache is written now and then, and reaches the disk.
    fn work(&self) {
        let Some(cache) = self.cached.lock().clone() else { return };
        cache.work([0, 1, 3, 20][self.sim.below(4) as usize]);
        if self.sim.one_in(6) {
            let local = self.sim.state.lock().processes[self.p].local.clone();
            for name in ["pages", "directory"] {
                let _ = local.open(&Path::new(CACHE).join(name), OpenMode::ReadWrite).and_then(|file| file.sync());
            }
        }
    }

    fn get(&self, page: PageId, at_least: Lsn, have: Lsn, buf: &mut PageBuf, patience: Micros) -> Result<Had> {
        let (sim, p) = (&self.sim, self.p);
        sim.look_at_suspect(p);
        self.work();
        let until = sim.now() + patience;
        let (mut tries, mut corrupt) = (0, 0);
        while sim.is_alive(p) && sim.wrong().is_none() && sim.now() < until {
            let (id, to, servers) = {
                let mut state = sim.state.lock();
                let all = 0..state.servers.len();
                let having: Vec<usize> = all.filter(|s| state.servers[*s].partitions.covers(page)).collect();
                let process = &mut state.processes[p];
                process.asked += 1;
                process.answers.clear();
                (process.asked, having[sim.below(having.len() as u64) as usize], having.len())
            };
            let wanted = Wanted { primary: p, id, page, at_least, have };
            sim.send(Node::Primary(p), Node::Server(to), Event::GetPage { to, wanted });
            let again = (sim.now() + AGAIN).min(until);
            let is_there = |sim: &Sim| sim.state.lock().processes[p].answers.contains_key(&id);
            sim.pass(again, Some(p), &mut |sim| is_there(sim));
            let mut state = sim.state.lock();
            let Some(given) = state.processes[p].answers.remove(&id) else {
                state.met.asked_again += 1;
                tries += 1;
                continue;
            };
            drop(state);
            match &*given {
                Given::Page(bytes) => {
                    buf.as_bytes_mut().copy_from_slice(bytes);
                    self.came(page, at_least, buf.lsn(), tries)?;
                    return Ok(Had::Page);
                }
                Given::NotModified => {
                    self.came(page, at_least, have, tries)?;
                    sim.state.lock().met.confirmed += 1;
                    return Ok(Had::NotModified);
                }
                Given::Not => {
                    tries += 1;
                    sim.pass_for(5 * MS, Some(p));
                }
                // With a mistake planted it is asked for until it is found out: a primary that goes on without pages may wait for itself.
                Given::Corrupt(_) if sim.mistake != Mistake::None => {
                    tries += 1;
                    sim.pass_for(5 * MS, Some(p));
                }
                // As the real one: a page that none of them has sound. While a space map cannot be read, all pages of its interval are asked for, and of
                // some there never was anything.
                Given::Corrupt(error) => {
                    (tries, corrupt) = (tries + 1, corrupt + 1);
                    if corrupt > servers {
                        let mut state = sim.state.lock();
                        let process = &mut state.processes[p];
                        process.pages_failed = true;
                        let epoch = process.epoch;
                        if state.history.has(epoch, page) {
                            drop(state);
                            sim.fail(format!("no page server has page {page}, asked for with {at_least}: {error}"));
                        }
                        return Err(error.clone());
                    }
                    sim.pass_for(5 * MS, Some(p));
                }
            }
        }
        if patience == PATIENCE && sim.is_alive(p) && !sim.is_overtaken(p) {
            sim.fail(format!("no page server gives page {page} with {at_least}"));
        }
        sim.state.lock().processes[p].pages_failed = true;
        Err(Error::new(ErrorKind::Io, format!("simulated: no page server gives page {page}")))
    }

    /// A page has come: whether it is one that may be given.
    fn came(&self, page: PageId, at_least: Lsn, lsn: Lsn, tries: u32) -> Result<()> {
        let mut state = self.sim.state.lock();
        let epoch = state.processes[self.p].epoch;
        state.met.pages += 1;
        state.met.waited += u64::from(tries > 0);
        if state.history.newest().is_some_and(|newest| newest.epoch > epoch) {
            state.met.late_pages += 1;
            let end = state.processes[self.p].log.upgrade().map_or(Lsn::NONE, |log| log.end_lsn());
            if state.history.is_of_another(epoch, page, lsn, end) {
                state.met.of_another += 1;
                let what = format!("page {page} as of {lsn}, of another history, was used under epoch {epoch}");
                state.processes[self.p].suspect = Some(what);
            }
            return Ok(());
        }
        let checked = state.history.check_page(epoch, page, at_least, lsn);
        drop(state);
        if let Err(what) = checked {
            self.sim.fail(what.clone());
            // A primary that went on with such a page might wait for itself: by an older space map it gives out a page that it has latched.
            if self.sim.mistake != Mistake::None {
                return Err(Error::new(ErrorKind::Io, what));
            }
        }
        Ok(())
    }
}

impl RemotePages for Client {
    fn get_page(&self, page: PageId, at_least: Lsn, _: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
        self.get(page, at_least, Lsn::NONE, buf, PATIENCE).map(drop)
    }

    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        _: &dyn Fn() -> Result<()>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        self.get(page, at_least, have, buf, PATIENCE)
    }

    fn most_at_once(&self) -> usize {
        128
    }

    fn get_pages(&self, wanted: &[(PageId, Lsn)], _: &dyn Fn() -> Result<()>, got: &mut dyn FnMut(usize, &[u8])) {
        let mut buf = PageBuf::zeroed();
        for (at, (page, at_least)) in wanted.iter().enumerate() {
            if matches!(self.get(*page, *at_least, Lsn::NONE, &mut buf, AGAIN), Ok(Had::Page)) {
                got(at, buf.as_bytes());
            }
        }
    }
}
