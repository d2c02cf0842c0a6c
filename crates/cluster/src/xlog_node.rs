//! The log service as a process: the state machine of the crate `xlog`, with its threads, files and sockets.
//!
//! | what happens | what it does |
//! |---|---|
//! | it is killed, or started on another machine | finds the end of the long-term log, and fetches the rest from the landing zone |
//! | its cache on disk is lost, or that disk fails | reads the landing zone and the long-term log instead |
//! | the primary is silent | looks at the landing zone, and gives out what blocks there say to be hardened |
//! | the long-term log cannot be reached | gives out all the same; the landing zone fills, and writers slow down |
//! | the landing zone cannot be reached | gives out what has come from the primary in order, and what is in the cache |

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{Block, LogReader, oldest_segment};
use resurgam_pageserver::Partitions;
use resurgam_rbio::{
    Answer, Consumer, Hello, PartOfBlocks, Request, Role, Server, ServerConfig, ServerStats, Service, Tls, TlsStats,
};
use resurgam_vfs::Vfs;
use resurgam_xlog::{
    Cache, Control, Core, CoreConfig, CoreStatus, Input, LongTerm, Output, Piece, Position, Reader, Record,
};
use resurgam_xstore::Store;

use crate::part;

/// Longest wait on behalf of a request.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Most bytes of blocks in an answer, and that are read at a time.
const BYTES_MAX: usize = 16 << 20;
const READ_BYTES: usize = 4 << 20;
/// A request with blocks is longer than others.
const REQUEST_BYTES_MAX: usize = 80 << 20;
const CONNECTIONS_MAX: usize = 200;
/// Blocks that wait to be written to the cache.
const KEEP_MAX: usize = 4096;
const EXPIRE_EACH: Duration = Duration::from_secs(3600);
const SAY_AGAIN: Duration = Duration::from_secs(60);
const CONSUMERS_MAX: usize = 1000;
/// Who has not asked for so long is not shown any more.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Settings.
#[derive(Clone)]
pub struct XlogConfig {
    /// Its folder, for its cache alone.
    pub dir: PathBuf,
    pub listen: String,
    /// The folder of the log in the landing zone.
    pub zone_log: PathBuf,
    pub control: Arc<dyn Control>,
    pub long_term: Arc<dyn Store>,
    /// The long-term log is kept for so long; zero: for ever.
    pub retention: Duration,
    pub cache_bytes: u64,
    pub core: CoreConfig,
    /// With which it is asked; none: nothing is encrypted, and whoever reaches it is answered.
    pub tls: Option<Arc<Tls>>,
}

/// One that pulls.
#[derive(Clone, Debug)]
pub struct Puller {
    pub name: String,
    pub position: Lsn,
    pub durable: Lsn,
    pub silent: Duration,
}

/// What an operator can see of it.
#[derive(Clone, Debug, Default)]
pub struct XlogStatus {
    /// None: the database is not made yet, or its long-term log cannot be reached.
    pub positions: Option<CoreStatus>,
    pub pullers: Vec<Puller>,
    /// Why something does not go on now.
    pub error: Option<String>,
    pub server: ServerStats,
    /// None: it has no TLS.
    pub tls: Option<TlsStats>,
}

/// The log of one database.
struct Open {
    database: [u8; 16],
    segment_bytes: u64,
    long_term: LongTerm,
    cache: Cache,
    core: Mutex<Core>,
    begun: Instant,
    next_id: AtomicU64,
    answers: Mutex<HashMap<u64, Output>>,
    answered: Condvar,
    broker: Queue<(Reader, Lsn)>,
    reads: Queue<(Reader, Lsn)>,
    destage: Queue<Vec<Arc<Piece>>>,
    moved: Queue<Arc<Piece>>,
    pullers: Mutex<HashMap<String, (Lsn, Lsn, Instant)>>,
}

struct Queue<T> {
    jobs: Mutex<VecDeque<T>>,
    woken: Condvar,
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self { jobs: Mutex::default(), woken: Condvar::new() }
    }

    fn push(&self, job: T) {
        self.jobs.lock().push_back(job);
        self.woken.notify_one();
    }

    fn pop(&self, wait: Duration) -> Option<T> {
        let mut jobs = self.jobs.lock();
        if jobs.is_empty() {
            self.woken.wait_for(&mut jobs, wait);
        }
        jobs.pop_front()
    }
}

struct Shared {
    vfs: Arc<dyn Vfs>,
    config: XlogConfig,
    now: RwLock<Option<Arc<Open>>>,
    stopping: AtomicBool,
    error: Mutex<Option<(String, Instant)>>,
}

/// A log service that runs until it is dropped.
pub struct XlogNode {
    shared: Arc<Shared>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
}

impl XlogNode {
    /// Begins to listen; the database need not be there yet.
    ///
    /// # Errors
    /// `InUse` for a port that is taken; `Io`.
    pub fn start(vfs: Arc<dyn Vfs>, config: XlogConfig) -> Result<Self> {
        vfs.make_folder(&config.dir)?;
        let listen = config.listen.clone();
        let shared = Arc::new(Shared {
            vfs,
            config,
            now: RwLock::default(),
            stopping: AtomicBool::new(false),
            error: Mutex::default(),
        });
        let server_config = ServerConfig {
            connections_max: CONNECTIONS_MAX,
            request_bytes_max: REQUEST_BYTES_MAX,
            ..ServerConfig::default()
        };
        let server =
            Server::start_with(&listen, server_config, shared.config.tls.clone(), Arc::new(Log(Arc::clone(&shared))))?;
        let mut this = Self { shared, server: Some(server), threads: Vec::new() };
        this.spawn("xlog-tick", |shared| shared.tick())?;
        this.spawn("xlog-broker", |shared| shared.work(|open| open.broker.pop(LOOK), Shared::read))?;
        for _ in 0..2 {
            this.spawn("xlog-read", |shared| shared.work(|open| open.reads.pop(LOOK), Shared::read))?;
        }
        this.spawn("xlog-destage", |shared| shared.work(|open| open.destage.pop(LOOK), Shared::put))?;
        this.spawn("xlog-cache", |shared| {
            shared.work(|open| open.moved.pop(LOOK), |_, open, piece| open.cache.put(&piece));
        })?;
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
    pub fn status(&self) -> XlogStatus {
        let open = self.shared.now.read().clone();
        XlogStatus {
            positions: open.as_ref().map(|open| open.core.lock().status()),
            pullers: open.as_ref().map(|open| open.pullers()).unwrap_or_default(),
            error: self.shared.error.lock().as_ref().map(|(error, _)| error.clone()),
            server: self.server.as_ref().map(Server::stats).unwrap_or_default(),
            tls: self.shared.config.tls.as_ref().map(|tls| tls.stats()),
        }
    }
}

impl Drop for XlogNode {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.server = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Open {
    /// Those that have asked of late.
    fn pullers(&self) -> Vec<Puller> {
        let mut all = self.pullers.lock();
        all.retain(|_, (_, _, seen)| seen.elapsed() < FORGOTTEN);
        let of = |(name, (position, durable, seen)): (&String, &(Lsn, Lsn, Instant))| Puller {
            name: name.clone(),
            position: *position,
            durable: *durable,
            silent: seen.elapsed(),
        };
        let mut pullers: Vec<Puller> = all.iter().map(of).collect();
        pullers.sort_by(|a, b| a.name.cmp(&b.name));
        pullers
    }

    /// One has asked.
    fn note(&self, consumer: &str, from: Lsn, durable: Lsn) {
        let mut pullers = self.pullers.lock();
        if pullers.len() < CONSUMERS_MAX || pullers.contains_key(consumer) {
            pullers.insert(consumer.to_owned(), (from, durable, Instant::now()));
        }
    }

    /// Whether a block has something for who has these pages.
    fn matters(&self, piece: &Piece, part: &Partitions) -> bool {
        match Block::parse(&piece.bytes, piece.lsn, self.segment_bytes) {
            Ok(block) => part::matters(block.records().map(Ok), part),
            // Who gets it finds out.
            Err(_) => true,
        }
    }

    fn step(&self, input: Input) {
        let outputs = self.core.lock().step(self.begun.elapsed(), input);
        for output in outputs {
            match output {
                Output::Answer { id, .. }
                | Output::Gone { id, .. }
                | Output::Future { id, .. }
                | Output::NoBlock { id } => {
                    self.answers.lock().insert(id, output);
                    self.answered.notify_all();
                }
                Output::Read { reader: Reader::Broker, from } => self.broker.push((Reader::Broker, from)),
                Output::Read { reader, from } => self.reads.push((reader, from)),
                Output::Destage { pieces } => self.destage.push(pieces),
                Output::Moved(piece) => {
                    let mut moved = self.moved.jobs.lock();
                    if moved.len() < KEEP_MAX {
                        moved.push_back(piece);
                        self.moved.woken.notify_one();
                    }
                }
            }
        }
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    fn failed(&self, what: &str, error: &Error) {
        let text = format!("{what}: {error}");
        let mut known = self.error.lock();
        if known.as_ref().is_none_or(|(old, at)| *old != text || at.elapsed() > SAY_AGAIN) {
            tracing::warn!("{text}");
            *known = Some((text, Instant::now()));
        }
    }

    fn well(&self) {
        self.error.lock().take();
    }

    /// Ticks; before, it waits for the database.
    fn tick(&self) {
        let mut expired = Instant::now();
        while self.goes_on() {
            let Some(open) = self.now.read().clone() else {
                match self.open() {
                    Ok(true) => {}
                    Ok(false) => std::thread::sleep(LOOK),
                    Err(error) => {
                        self.failed("the log cannot be given out yet", &error);
                        std::thread::sleep(LOOK * 4);
                    }
                }
                continue;
            };
            open.step(Input::Tick);
            if expired.elapsed() > EXPIRE_EACH && !self.config.retention.is_zero() {
                expired = Instant::now();
                self.expire(&open);
            }
            let now = open.begun.elapsed();
            let next = open.core.lock().next_tick(now);
            std::thread::sleep(next.saturating_sub(now).clamp(Duration::from_millis(1), LOOK));
        }
    }

    fn expire(&self, open: &Open) {
        let retention = i64::try_from(self.config.retention.as_micros()).unwrap_or(i64::MAX);
        match open.long_term.expire(self.vfs.wall_clock_us().saturating_sub(retention)) {
            Ok(Some(oldest)) => open.core.lock().expired(oldest),
            Ok(None) => {}
            Err(error) => self.failed("the long-term log is not shortened now", &error),
        }
    }

    /// Finds the log of the database; false: it is not made yet.
    fn open(&self) -> Result<bool> {
        let Some((_, bytes)) = self.config.control.read()? else { return Ok(false) };
        let Some(kept) = Record::decode(&bytes)?.kept else { return Ok(false) };
        let (database, segment_bytes) = (kept.database, kept.segment_bytes);
        let store = Arc::clone(&self.config.long_term);
        let (long_term, end) = LongTerm::open(store, database, segment_bytes)?;
        let position = match end {
            Some(end) => Position { lsn: end.end, before: Some((end.last_block, end.last_epoch)) },
            None => match oldest_segment(&*self.vfs, &self.config.zone_log)? {
                Some(number) => Position { lsn: Lsn(number.saturating_mul(segment_bytes)), before: None },
                None => return Ok(false),
            },
        };
        let oldest = long_term.oldest().unwrap_or(position.lsn);
        let cache = Cache::open(&*self.vfs, &self.config.dir.join("cache"), self.config.cache_bytes, segment_bytes);
        tracing::info!("the log is given out from LSN {oldest} on; the long-term log ends at LSN {}", position.lsn);
        *self.now.write() = Some(Arc::new(Open {
            database,
            segment_bytes,
            long_term,
            cache,
            core: Mutex::new(Core::new(self.config.core, oldest, position)),
            begun: Instant::now(),
            next_id: AtomicU64::new(1),
            answers: Mutex::default(),
            answered: Condvar::new(),
            broker: Queue::new(),
            reads: Queue::new(),
            destage: Queue::new(),
            moved: Queue::new(),
            pullers: Mutex::default(),
        }));
        self.well();
        Ok(true)
    }

    fn work<T>(&self, next: impl Fn(&Open) -> Option<T>, apply: impl Fn(&Self, &Open, T)) {
        while self.goes_on() {
            let Some(open) = self.now.read().clone() else {
                std::thread::sleep(LOOK);
                continue;
            };
            if let Some(job) = next(&open) {
                apply(self, &open, job);
            }
        }
    }

    /// Reads from wherever the log is: cache, zone, long-term log.
    fn read(&self, open: &Open, (reader, from): (Reader, Lsn)) {
        let cached = if reader == Reader::Broker { Vec::new() } else { open.cache.read(from, READ_BYTES) };
        let zone = if cached.is_empty() { self.read_zone(open, from) } else { Ok(cached) };
        let zone_failed = zone.as_ref().err().cloned();
        let (pieces, proven) = match zone {
            Ok(pieces) if !pieces.is_empty() => (Some(pieces), Lsn::NONE),
            _ => match open.long_term.read(from) {
                Ok(Some((pieces, end))) => (Some(pieces.iter().map(|piece| (**piece).clone()).collect()), end),
                Ok(None) => (zone_failed.is_none().then(Vec::new), Lsn::NONE),
                Err(error) => {
                    self.failed("the long-term log cannot be read now", &error);
                    (None, Lsn::NONE)
                }
            },
        };
        if let Some(error) = zone_failed {
            self.failed("the landing zone cannot be read now", &error);
        }
        open.step(Input::Read { reader, from, pieces, proven });
    }

    fn read_zone(&self, open: &Open, from: Lsn) -> Result<Vec<Piece>> {
        let dir = &self.config.zone_log;
        let mut reader = LogReader::open(Arc::clone(&self.vfs), dir, open.segment_bytes, from, 0)?;
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < READ_BYTES {
            match reader.next_whole_block() {
                Ok(Some(block)) => {
                    let piece = Piece::of(&block, block.bytes().to_vec());
                    bytes += piece.bytes.len();
                    pieces.push(piece);
                }
                Ok(None) => break,
                // What was read before it is good.
                Err(_) if !pieces.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(pieces)
    }

    fn put(&self, open: &Open, pieces: Vec<Arc<Piece>>) {
        let end = match open.long_term.put(&pieces, self.vfs.wall_clock_us()) {
            Ok(end) => {
                self.well();
                Some(end)
            }
            Err(error) => {
                self.failed("the log cannot be destaged now, and the landing zone fills", &error);
                None
            }
        };
        open.step(Input::Destaged { end });
    }
}

/// What it answers.
struct Log(Arc<Shared>);

impl Log {
    fn open(&self) -> Result<Arc<Open>> {
        self.0.now.read().clone().ok_or_else(|| {
            let why = self.0.error.lock().as_ref().map_or_else(String::new, |(error, _)| format!(": {error}"));
            Error::new(ErrorKind::Io, format!("the log service has no log yet{why}"))
        })
    }

    fn pull(
        &self,
        open: &Open,
        from: Lsn,
        bytes_max: usize,
        wait: Duration,
        part: Option<&Partitions>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PartOfBlocks> {
        let id = open.next_id.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + wait + LOOK * 4;
        open.step(Input::Pull { id, from, bytes_max, wait });
        let mut answers = open.answers.lock();
        let answer = loop {
            if let Some(answer) = answers.remove(&id) {
                break Some(answer);
            }
            if Instant::now() >= until || !goes_on() || !self.0.goes_on() {
                break None;
            }
            open.answered.wait_for(&mut answers, LOOK);
        };
        drop(answers);
        match answer {
            Some(Output::Answer { pieces, complete_to, hardened, .. }) => {
                let goes = |piece: &&Arc<Piece>| part.is_none_or(|part| open.matters(piece, part));
                let blocks: Vec<_> = pieces.iter().filter(goes).map(|piece| (piece.lsn, piece.bytes.clone())).collect();
                let left_out = (pieces.len() - blocks.len()) as u32;
                Ok(PartOfBlocks { blocks, complete_to, durable: hardened, left_out })
            }
            Some(Output::Gone { oldest, .. }) => Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("the log from LSN {from} on is not kept any more (kept is what is from LSN {oldest} on)"),
            )),
            Some(Output::Future { hardened, .. }) => Err(Error::new(
                ErrorKind::NotADatabase,
                format!(
                    "LSN {from} is behind the end of the log at LSN {hardened}: one of the two is of another history"
                ),
            )),
            Some(_) => Err(Error::corrupt(format!("no block of the log begins at LSN {from}"))),
            None => {
                open.step(Input::Forget { id });
                open.answers.lock().remove(&id);
                Ok(PartOfBlocks { complete_to: from, durable: from, ..PartOfBlocks::default() })
            }
        }
    }
}

impl Service for Log {
    fn hello(&self, _: Role) -> Result<Hello> {
        let open = self.open()?;
        Ok(Hello {
            version: 0,
            role: Role::Log,
            database: open.database,
            first: Lsn(open.segment_bytes),
            segment_bytes: open.segment_bytes,
        })
    }

    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
        let open = self.open()?;
        match request {
            Request::Disseminate { epoch, start, hardened, zone_bound, blocks } => {
                if hardened < start || !start.0.is_multiple_of(512) || !hardened.0.is_multiple_of(512) {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        "impossible positions of the log were announced",
                    ));
                }
                let newest = open.core.lock().status().epoch;
                if *epoch < newest {
                    return Err(Error::new(
                        ErrorKind::NotInPrerequisiteState,
                        format!("a primary of epoch {epoch} has sent log, and another one has it under epoch {newest}"),
                    ));
                }
                for (lsn, bytes) in blocks {
                    let piece = Piece::parse(bytes.clone(), *lsn, open.segment_bytes)?;
                    if piece.epoch != *epoch || piece.lsn < *start {
                        let what = "a block of another epoch than its sender's, or from before that began";
                        return Err(Error::new(ErrorKind::InvalidParameter, what));
                    }
                    open.step(Input::Block(piece));
                }
                open.step(Input::Announce {
                    epoch: *epoch,
                    start: *start,
                    hardened: *hardened,
                    zone_bound: *zone_bound,
                });
                let status = open.core.lock().status();
                Ok(Answer::Log {
                    disseminated: status.disseminated,
                    destaged: status.destaged,
                    consumers: open
                        .pullers()
                        .into_iter()
                        .map(|Puller { name, position, durable, silent }| Consumer {
                            name,
                            position,
                            durable,
                            silent_ms: u32::try_from(silent.as_millis()).unwrap_or(u32::MAX),
                        })
                        .collect(),
                })
            }
            Request::PullBlocks { consumer, from, durable, bytes_max, wait_ms } => {
                let bytes_max = (*bytes_max as usize).clamp(1, BYTES_MAX);
                let wait = Duration::from_millis(u64::from(*wait_ms)).min(WAIT_MAX);
                open.note(consumer, *from, *durable);
                let answer = self.pull(&open, *from, bytes_max, wait, None, goes_on)?;
                Ok(Answer::Blocks(part::whole(answer)))
            }
            Request::PullPart { consumer, from, durable, bytes_max, wait_ms, part } => {
                let bytes_max = (*bytes_max as usize).clamp(1, BYTES_MAX);
                let wait = Duration::from_millis(u64::from(*wait_ms)).min(WAIT_MAX);
                let part = part::of_message(part)?;
                open.note(consumer, *from, *durable);
                self.pull(&open, *from, bytes_max, wait, Some(&part), goes_on).map(Answer::PartOfBlocks)
            }
            Request::Position => {
                let status = open.core.lock().status();
                Ok(Answer::Position { applied: status.disseminated, durable: status.destaged })
            }
            Request::GetPage { .. } | Request::GetPages { .. } | Request::Coverage | Request::Hello { .. } => {
                Err(Error::new(ErrorKind::NotSupported, "the log service gives no pages; page servers do"))
            }
        }
    }
}
