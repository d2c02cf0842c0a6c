//! A page server as a process: it pulls the log from the primary, applies it, makes it durable now and then, fetches what it does not
//! have yet, and answers.
//!
//! | what happens | what it does |
//! |---|---|
//! | whoever gives the log cannot be reached | answers with what it has, and tries again, or the next one |
//! | the log behind its position is not kept any more | begins anew, from archive and backup |
//! | a sync of its file fails | the same: what the file has is not known |
//! | it has some partitions only, and a record shows that one before it was left out of what it was given | applies all log since its last checkpoint again, and asks for whole log from there on |
//! | archive or disk fail | applies no more until they do not; says why |
//! | it is ahead of the primary's log | says so, and waits for an operator: one of the two is an old copy |

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_pageserver::{Gap, PageServer, PageServerConfig, PageServerStats, Partitions, Pulled, PulledConfig, Seed};
use resurgam_rbio::{
    Answer, Connection, Coverage, Hello, Peer, Request, Role, Server, ServerConfig, ServerStats, Service, Tls, TlsStats,
};
use resurgam_vfs::Vfs;

use crate::part;

/// The version of the messages that has parts of the pages.
const PARTS_SINCE: u16 = 4;
/// Longest wait for the log in one request.
const PULL_WAIT: Duration = Duration::from_secs(1);
/// Most of it in an answer, in bytes (one block, however long it is). After a failure it is asked for less at a time: over a network that
/// spoils much, little arrives.
const PULL_BYTES_MAX: u32 = 4 << 20;
const PULL_BYTES_MIN: u32 = 64 << 10;
/// So much log is worth a second thread: what it takes to begin one is a hundredth of what it takes to apply it.
const BATCH_BYTES: usize = 256 << 10;
/// Longest wait on behalf of who asks for a page.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// Segments that nobody has asked for are fetched from so long after the open on, and not before it is where the log was, up to this: the log and
/// whoever asks go first.
const FILL_AFTER: Duration = Duration::from_millis(250);
const FILL_AFTER_MAX: Duration = Duration::from_secs(2);
/// After an error it is tried again after so long, which doubles up to the second.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// An error that stays is said again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Where a page server gets what it does not have; given the database, and where its log begins.
pub type SeedSource = Box<dyn Fn([u8; 16], Lsn) -> Result<Option<Arc<dyn Seed>>> + Send + Sync>;

/// Settings.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its folder, for it alone.
    pub dir: PathBuf,
    /// Where it is asked for pages: `host:port`.
    pub listen: String,
    /// Where the log is given, by log services, or by the primary where there are none: `host:port` each. The next one is asked when one fails.
    pub logs: Vec<String>,
    /// Under which the primary holds the log for it: of its own among the page servers of a database.
    pub name: String,
    /// Memory for pages, in bytes.
    pub memory_bytes: usize,
    /// What is applied is made durable so often.
    pub checkpoint: Duration,
    /// Between two segments that nobody has asked for and that are fetched.
    pub fill_pause: Duration,
    /// Which pages it has.
    pub partitions: Partitions,
    /// Threads that apply the log where it is behind by `batch_bytes` of it; what comes bit by bit is applied by one.
    pub apply_workers: usize,
    pub batch_bytes: usize,
    /// Only what matters to it of the log is asked for, where it does not have all pages.
    pub filters_log: bool,
    /// With which it asks and is asked; none: nothing is encrypted, and whoever reaches it is answered.
    pub tls: Option<Arc<Tls>>,
}

impl NodeConfig {
    /// With the defaults for the rest.
    pub fn new(dir: PathBuf, listen: &str, logs: Vec<String>, name: &str) -> Self {
        Self {
            dir,
            listen: listen.to_owned(),
            logs,
            name: name.to_owned(),
            memory_bytes: PageServerConfig::default().memory_bytes,
            checkpoint: Duration::from_secs(5),
            fill_pause: Duration::from_millis(5),
            partitions: Partitions::all(),
            // More have not been faster where they were measured (docs/page-servers.md).
            apply_workers: 1,
            batch_bytes: BATCH_BYTES,
            filters_log: true,
            tls: None,
        }
    }
}

/// What an operator can see of it.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// Of the pages; none while it has none: the primary was not reached yet, or it begins anew.
    pub pages: Option<PageServerStats>,
    /// All log below was durable at the primary when it was asked last.
    pub primary_durable: Lsn,
    /// Times that it has begun anew since the start.
    pub made_anew: u64,
    /// Blocks of the log that it was given, and that were left out for it.
    pub blocks: u64,
    pub blocks_left_out: u64,
    /// Why it applies nothing now.
    pub error: Option<String>,
    pub server: ServerStats,
    /// None: it has no TLS.
    pub tls: Option<TlsStats>,
}

struct Shared {
    vfs: Arc<dyn Vfs>,
    config: NodeConfig,
    seeds: SeedSource,
    /// The pages, and what the primary has said of itself.
    now: RwLock<Option<(Arc<PageServer>, Hello)>>,
    stopping: AtomicBool,
    primary_durable: AtomicU64,
    /// Which of those that give the log is asked.
    log: AtomicUsize,
    made_anew: AtomicU64,
    blocks: AtomicU64,
    left_out: AtomicU64,
    /// What is left out for it is not relied upon any more.
    wants_all: AtomicBool,
    error: Mutex<Option<(Error, Instant)>>,
}

/// A page server that runs until it is dropped.
pub struct PageServerNode {
    shared: Arc<Shared>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
}

impl PageServerNode {
    /// Begins to listen, and to follow the primary, which need not run yet.
    ///
    /// # Errors
    /// `InUse` for a port that is taken; `Io`.
    pub fn start(vfs: Arc<dyn Vfs>, config: NodeConfig, seeds: SeedSource) -> Result<Self> {
        let listen = config.listen.clone();
        let shared = Arc::new(Shared {
            vfs,
            config,
            seeds,
            now: RwLock::default(),
            stopping: AtomicBool::new(false),
            primary_durable: AtomicU64::new(0),
            log: AtomicUsize::new(0),
            made_anew: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            wants_all: AtomicBool::new(false),
            error: Mutex::default(),
        });
        let mut server_config = ServerConfig::default();
        if !shared.config.partitions.is_all() {
            // One that does not know of parts would ask it for any page.
            server_config.oldest = PARTS_SINCE;
        }
        let server = Server::start_with(
            &listen,
            server_config,
            shared.config.tls.clone(),
            Arc::new(Pages(Arc::clone(&shared))),
        )?;
        let mut this = Self { shared, server: Some(server), threads: Vec::new() };
        this.spawn("pull", |shared| shared.follow())?;
        this.spawn("keep", |shared| shared.keep())?;
        Ok(this)
    }

    fn spawn(&mut self, name: &str, body: fn(&Shared)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("resurgam-{name}"))
            .spawn(move || body(&shared))
            .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {e}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// What can be seen of it.
    pub fn status(&self) -> NodeStatus {
        let shared = &self.shared;
        NodeStatus {
            pages: shared.pages().map(|pages| pages.stats()),
            primary_durable: Lsn(shared.primary_durable.load(Ordering::SeqCst)),
            made_anew: shared.made_anew.load(Ordering::SeqCst),
            blocks: shared.blocks.load(Ordering::SeqCst),
            blocks_left_out: shared.left_out.load(Ordering::SeqCst),
            error: shared.error.lock().as_ref().map(|(error, _)| error.to_string()),
            server: self.server.as_ref().map(Server::stats).unwrap_or_default(),
            tls: shared.config.tls.as_ref().map(|tls| tls.stats()),
        }
    }

    /// Of its partitions those of which pages are missing, and how many at most; none where it has all pages.
    pub fn missing_by_partition(&self) -> Vec<(u64, u64)> {
        self.shared.pages().map(|pages| pages.missing_by_partition()).unwrap_or_default()
    }

    fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.server = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    /// Ends it in good order: what is applied is made durable.
    ///
    /// # Errors
    /// Those of making it durable; it has ended all the same.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        match self.shared.pages() {
            Some(pages) => pages.checkpoint().map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for PageServerNode {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    fn pages(&self) -> Option<Arc<PageServer>> {
        self.now.read().as_ref().map(|(pages, _)| Arc::clone(pages))
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Follows the primary until it is stopped.
    fn follow(&self) {
        let (mut again, mut bytes_max) = (AGAIN_FIRST, PULL_BYTES_MAX);
        while self.goes_on() {
            let before = self.pages().map(|pages| pages.position());
            let Err(error) = self.follow_once(&mut bytes_max) else { return };
            if before < self.pages().map(|pages| pages.position()) {
                again = AGAIN_FIRST;
            }
            bytes_max = (bytes_max / 4).max(PULL_BYTES_MIN);
            self.failed(&error);
            self.log.fetch_add(1, Ordering::SeqCst);
            if self.pages().is_some_and(|pages| pages.has_failed()) {
                self.begin_anew("a sync of its file has failed");
            } else if error.kind() == ErrorKind::NotInPrerequisiteState && self.pages().is_some() {
                self.begin_anew("the log that it needs next is not kept any more");
            }
            self.pause(again);
            again = (again * 2).min(AGAIN_MAX);
        }
    }

    /// Remembers why it applies nothing, and says it, but not again and again.
    fn failed(&self, error: &Error) {
        let mut known = self.error.lock();
        let said = known.as_ref().filter(|(old, at)| {
            old.kind() == error.kind() && old.message() == error.message() && at.elapsed() < SAY_AGAIN
        });
        if said.is_none() {
            tracing::warn!("the log is not applied now, and it is tried again: {error}");
            *known = Some((error.clone(), Instant::now()));
        }
    }

    /// Forgets all pages: the next open is that of a new server.
    fn begin_anew(&self, why: &str) {
        tracing::warn!("the page server begins anew, from archive and backup: {why}");
        *self.now.write() = None;
        self.made_anew.fetch_add(1, Ordering::SeqCst);
        if let Err(error) = PageServer::forget(&self.vfs, &self.config.dir) {
            self.failed(&error);
        }
    }

    /// Pulls and applies until something fails, or it is stopped. Each time that goes well it asks for more than `bytes_max`.
    fn follow_once(&self, bytes_max: &mut u32) -> Result<()> {
        let known = match self.now.read().as_ref() {
            Some((_, hello)) => Some(hello.database),
            None => PageServer::database_of(&self.vfs, &self.config.dir)?,
        };
        let me = Peer { role: Role::PageServer, database: known.unwrap_or([0; 16]) };
        let logs = &self.config.logs;
        let address = logs
            .get(self.log.load(Ordering::SeqCst) % logs.len().max(1))
            .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, "nobody is named who gives the log"))?;
        let mut primary = Connection::open_with(address, me, self.config.tls.as_deref(), PULL_WAIT * 3)?;
        let hello = primary.hello().clone();
        if !matches!(hello.role, Role::Primary | Role::Log) {
            let what = format!("{} is neither a primary nor a log service", primary.peer());
            return Err(Error::new(ErrorKind::InvalidParameter, what));
        }
        let pages = match self.pages() {
            Some(pages) => pages,
            None => self.open(&hello)?,
        };
        let mut pulled = Pulled::new(PulledConfig {
            segment_bytes: hello.segment_bytes,
            workers: self.config.apply_workers,
            batch_bytes: self.config.batch_bytes,
        });
        while self.goes_on() {
            let (from, durable) = (pages.position(), pages.durable());
            let request = self.pull(&hello, from, durable, *bytes_max);
            let durable = match primary.call(&request, PULL_WAIT * 10)? {
                Answer::Blocks(answer) => {
                    let outcome = pulled.whole(&pages, &answer.blocks, answer.complete_to, answer.durable);
                    self.blocks.fetch_add(pulled.take_count(), Ordering::SeqCst);
                    outcome?;
                    answer.durable
                }
                Answer::PartOfBlocks(answer) => {
                    let outcome = pulled.part(&pages, &answer.blocks, answer.complete_to, answer.durable);
                    self.blocks.fetch_add(pulled.take_count(), Ordering::SeqCst);
                    if let Some(gap) = outcome? {
                        self.want_all(&pages, &gap);
                        continue;
                    }
                    self.left_out.fetch_add(answer.left_out.into(), Ordering::SeqCst);
                    answer.durable
                }
                other => return Err(primary.unexpected(&other)),
            };
            self.primary_durable.fetch_max(durable.0, Ordering::SeqCst);
            *bytes_max = bytes_max.saturating_mul(2).min(PULL_BYTES_MAX);
            if self.error.lock().take().is_some() {
                tracing::info!("the log is applied again, from LSN {from} on");
            }
        }
        Ok(())
    }

    /// What is asked for next: whole log, or what matters.
    fn pull(&self, hello: &Hello, from: Lsn, durable: Lsn, bytes_max: u32) -> Request {
        let (consumer, wait_ms) = (self.config.name.clone(), PULL_WAIT.as_millis() as u32);
        let is_part = !self.config.partitions.is_all() && self.config.filters_log && hello.version >= PARTS_SINCE;
        if is_part && !self.wants_all.load(Ordering::SeqCst) {
            let part = part::to_message(&self.config.partitions);
            return Request::PullPart { consumer, from, durable, bytes_max, wait_ms, part };
        }
        Request::PullBlocks { consumer, from, durable, bytes_max, wait_ms }
    }

    /// A record was left out that should not have been, or the device has lost a write.
    fn want_all(&self, pages: &PageServer, gap: &Gap) {
        self.wants_all.store(true, Ordering::SeqCst);
        let from = pages.go_back();
        tracing::error!(
            "the record of page {} at LSN {} follows one at LSN {}, and what there is of the page is as of LSN {}: it was left out of the \
             log that was asked for. All log from LSN {from} on is applied again, and from here on whole log is asked for",
            gap.page,
            gap.record,
            gap.previous,
            gap.have
        );
    }

    fn open(&self, hello: &Hello) -> Result<Arc<PageServer>> {
        let seed = (self.seeds)(hello.database, hello.first)?;
        let config = PageServerConfig {
            memory_bytes: self.config.memory_bytes,
            partitions: self.config.partitions.clone(),
            ..PageServerConfig::default()
        };
        let pages =
            PageServer::open(Arc::clone(&self.vfs), &self.config.dir, hello.database, hello.first, seed, config)?;
        let (position, missing) = (pages.position(), pages.stats().segments_missing);
        tracing::info!(
            "the log is applied from LSN {position} on; {missing} segments of pages are fetched when they are asked for, or in the background"
        );
        let pages = Arc::new(pages);
        *self.now.write() = Some((Arc::clone(&pages), hello.clone()));
        Ok(pages)
    }

    /// Makes durable what is applied, and fetches what nobody has asked for.
    fn keep(&self) {
        let (mut last, mut said) = (Instant::now(), None::<String>);
        let mut opened = None;
        while self.goes_on() {
            let Some(pages) = self.pages() else {
                opened = None;
                self.pause(LOOK);
                continue;
            };
            let opened = opened.get_or_insert_with(Instant::now).elapsed();
            let durable = self.primary_durable.load(Ordering::SeqCst);
            let is_behind = durable == 0 || pages.position().0 < durable;
            let fills = opened >= if is_behind { FILL_AFTER_MAX } else { FILL_AFTER };
            let due = last.elapsed() >= self.config.checkpoint;
            let outcome = if due { pages.checkpoint().map(drop) } else { Ok(()) };
            if due {
                last = Instant::now();
            }
            let outcome = outcome.and_then(|()| if fills { pages.fill(1) } else { Ok(0) });
            drop(pages);
            match outcome {
                Ok(0) => self.pause(LOOK),
                Ok(_) => std::thread::sleep(self.config.fill_pause),
                Err(error) => {
                    let text = error.to_string();
                    if said.as_ref() != Some(&text) {
                        tracing::warn!("what is applied cannot be made durable, or pages not be fetched, now: {text}");
                        said = Some(text);
                    }
                    self.pause(AGAIN_MAX);
                    continue;
                }
            }
            said = None;
        }
    }
}

/// What it answers.
struct Pages(Arc<Shared>);

impl Pages {
    fn open(&self) -> Result<(Arc<PageServer>, Hello)> {
        self.0.now.read().clone().ok_or_else(|| {
            let why =
                self.0.error.lock().as_ref().map_or_else(String::new, |(error, _)| format!(": {}", error.message()));
            Error::new(ErrorKind::Io, format!("the page server has no pages yet{why}"))
        })
    }
}

impl Service for Pages {
    fn hello(&self, _: Role) -> Result<Hello> {
        let (_, hello) = self.open()?;
        Ok(Hello { role: Role::PageServer, ..hello })
    }

    fn begins(&self) {
        // A reader waits for each page, and a page is some ten microseconds' work.
        resurgam_vfs::ask_for_short_slices();
    }

    fn applied(&self) -> Lsn {
        self.0.pages().map_or(Lsn::NONE, |pages| pages.position())
    }

    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
        let (pages, _) = self.open()?;
        let refused = match request {
            Request::GetPage { page, .. } => !pages.has(*page),
            // Each that it does not have is counted.
            Request::GetPages { pages: wanted, .. } => {
                wanted.iter().fold(false, |refused, (page, _)| !pages.has(*page) || refused)
            }
            _ => false,
        };
        if refused {
            return Ok(Answer::Elsewhere(part::to_message(pages.partitions())));
        }
        match request {
            Request::Coverage => {
                let PageServerStats { pages_missing, refused, gaps, .. } = pages.stats();
                let part = part::to_message(pages.partitions());
                Ok(Answer::Coverage(Coverage { part, missing: pages_missing, refused, gaps }))
            }
            Request::GetPage { page, at_least, have, wait_ms } => {
                let wait = Duration::from_millis(u64::from(*wait_ms)).min(WAIT_MAX);
                get_page(&pages, *page, *at_least, *have, wait, goes_on)
            }
            Request::GetPages { pages: wanted, wait_ms } => {
                let until = Instant::now() + Duration::from_millis(u64::from(*wait_ms)).min(LOOK);
                Ok(Answer::Pages(
                    wanted.iter().map(|(page, at_least)| page_now(&pages, *page, *at_least, until)).collect(),
                ))
            }
            Request::Position => Ok(Answer::Position { applied: pages.position(), durable: pages.durable() }),
            Request::PullBlocks { .. }
            | Request::PullPart { .. }
            | Request::Disseminate { .. }
            | Request::Keeping
            | Request::Hello { .. } => {
                Err(Error::new(ErrorKind::NotSupported, "a page server has no log to give, and takes none"))
            }
        }
    }
}

/// One page of many, if it can be had until then; else nothing.
fn page_now(pages: &PageServer, page: PageId, at_least: Lsn, until: Instant) -> Vec<u8> {
    let left = until.saturating_duration_since(Instant::now());
    pages.show_page(page, at_least, left, |page| page.as_bytes().to_vec()).unwrap_or_default()
}

fn get_page(
    pages: &PageServer,
    page: PageId,
    at_least: Lsn,
    have: Lsn,
    wait: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Answer> {
    let until = Instant::now() + wait;
    let answer = |page: &PageBuf| match have.is_some() && page.lsn() == have {
        true => Answer::NotModified,
        false => Answer::Page(page.as_bytes().to_vec()),
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match pages.show_page(page, at_least, left.min(LOOK), answer) {
            Ok(answer) => return Ok(answer),
            // Not applied yet.
            Err(_) if pages.position() <= at_least && !left.is_zero() && goes_on() => {}
            Err(error) => return Err(error),
        }
    }
}
