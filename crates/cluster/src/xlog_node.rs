//! The log service as a process: the state machine of the crate `xlog`, with its threads, files and sockets.
//!
//! | what happens | what it does |
//! |---|---|
//! | it is killed, or started on another machine | finds the end of the long-term log, and fetches the rest from the landing zone |
//! | its cache on disk is lost, or that disk fails | reads the landing zone and the long-term log instead |
//! | the primary is silent | looks at the landing zone, and gives out what blocks there say to be hardened |
//! | the long-term log cannot be reached | gives out all the same; the landing zone fills, and writers slow down |
//! | it has an archive to write | does so as one more consumer (`archiving.rs`), merges it (`keeping.rs`), and keeps the long-term log until it is archived |
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
use resurgam_log::Block;
use resurgam_pageserver::Partitions;
use resurgam_rbio::{
    Answer, Consumer, Hello, PartOfBlocks, Request, Role, Server, ServerConfig, ServerStats, Service, Tls, TlsStats,
};
use resurgam_vfs::Vfs;
use resurgam_xlog::{
    Below, Control, Core, CoreConfig, CoreStatus, Disseminated, Done, Found, Input, Keeping, Output, Piece, Reader,
    Step, Task, TaskDone,
};
use resurgam_xstore::Store;

use crate::archiving::{self, ArchiveTarget, ArchivingShown};
use crate::keeping::{self, Keeper};
use crate::part;

/// Longest wait on behalf of a request.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of the log that the archive gathers at a time.
const READ_BYTES: usize = 4 << 20;
/// Most bytes of blocks in an answer.
const BYTES_MAX: usize = 16 << 20;
/// A request with blocks is longer than others.
const REQUEST_BYTES_MAX: usize = 80 << 20;
const CONNECTIONS_MAX: usize = 200;
/// Blocks that wait to be written to the cache.
const KEEP_MAX: usize = 4096;
/// Between two looks at what is too old; more often where little is kept.
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
    /// The archive that it writes; none: the primary does.
    pub archive: Option<ArchiveTarget>,
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
    /// None: it has no archive to write.
    pub archive: Option<ArchivingShown>,
    /// Why something does not go on now.
    pub error: Option<String>,
    pub server: ServerStats,
    /// None: it has no TLS.
    pub tls: Option<TlsStats>,
}

/// The log of one database.
struct Open {
    below: Below,
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
    archiving: Mutex<ArchivingNow>,
    keeper: Arc<Keeper>,
}

/// What is known of the archive.
#[derive(Default)]
struct ArchivingNow {
    shown: ArchivingShown,
    /// The long-term log has to be kept from there on.
    keep_from: Lsn,
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
        let keeper = Keeper::new(config.archive.as_ref().and_then(|target| target.keep.clone()));
        let shared = Arc::new(Shared {
            vfs,
            config,
            now: RwLock::default(),
            stopping: AtomicBool::new(false),
            error: Mutex::default(),
            archiving: Mutex::default(),
            keeper: Arc::new(keeper),
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
            shared.work(|open| open.moved.pop(LOOK), |_, open, piece| open.below.keep(&piece));
        })?;
        if this.shared.config.archive.is_some() {
            this.spawn("xlog-archive", |shared| shared.archive())?;
            if this.shared.keeper.keeps() {
                this.spawn("xlog-merge", |shared| shared.keep())?;
            }
        }
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
            archive: self.shared.config.archive.is_some().then(|| {
                let shown = self.shared.archiving.lock().shown.clone();
                ArchivingShown { kept: self.shared.keeper.kept(), ..shown }
            }),
            error: self.shared.error.lock().as_ref().map(|(error, _)| error.clone()),
            server: self.server.as_ref().map(Server::stats).unwrap_or_default(),
            tls: self.shared.config.tls.as_ref().map(|tls| tls.stats()),
        }
    }
}

impl Drop for XlogNode {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.keeper.ends();
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
        match Block::parse(&piece.bytes, piece.lsn, self.below.segment_bytes()) {
            Ok(block) => part.matters(block.records().map(Ok)),
            // Who gets it finds out.
            Err(_) => true,
        }
    }

    fn step(&self, input: Input) {
        let outputs = self.core.lock().step(self.begun.elapsed(), input);
        self.give(outputs);
    }

    fn give(&self, outputs: Vec<Output>) {
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
            if expired.elapsed() > EXPIRE_EACH.min(self.config.retention / 4) && !self.config.retention.is_zero() {
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
        // What is not archived yet is kept, however old it is.
        let keep_from = match self.config.archive {
            Some(_) => self.archiving.lock().keep_from,
            None => Lsn(u64::MAX),
        };
        match open.below.long_term().expire(self.vfs.wall_clock_us().saturating_sub(retention), keep_from) {
            Ok(Some(oldest)) => open.core.lock().expired(oldest),
            Ok(None) => {}
            Err(error) => self.failed("the long-term log is not shortened now", &error),
        }
    }

    /// Finds the log of the database; false: it is not made yet.
    fn open(&self) -> Result<bool> {
        let opened = Below::open(
            Arc::clone(&self.vfs),
            Arc::clone(&self.config.control),
            Arc::clone(&self.config.long_term),
            &self.config.zone_log,
            (&self.config.dir.join("cache"), self.config.cache_bytes),
        )?;
        let Some((below, oldest, position)) = opened else { return Ok(false) };
        tracing::info!("the log is given out from LSN {oldest} on; the long-term log ends at LSN {}", position.lsn);
        *self.now.write() = Some(Arc::new(Open {
            below,
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

    fn read(&self, open: &Open, (reader, from): (Reader, Lsn)) {
        let Found { pieces, proven, zone_failed, long_term_failed } = open.below.read(reader, from);
        if let Some(error) = long_term_failed {
            self.failed("the long-term log cannot be read now", &error);
        }
        if let Some(error) = zone_failed {
            self.failed("the landing zone cannot be read now", &error);
        }
        open.step(Input::Read { reader, from, pieces, proven });
    }

    /// Archives, until it is to stop. What was gathered and is in no run then is pulled again by the next one.
    fn archive(&self) {
        let Some(target) = self.config.archive.clone() else { return };
        resurgam_vfs::lower_priority();
        let mut consumer = archiving::Consumer::new(target, Arc::clone(&self.keeper));
        let begun = Instant::now();
        let mut done = Done::Nothing;
        while self.goes_on() {
            let Some(open) = self.now.read().clone() else {
                std::thread::sleep(LOOK);
                continue;
            };
            let status = open.core.lock().status();
            let step = consumer.next(begun.elapsed(), status.disseminated, done);
            *self.archiving.lock() = ArchivingNow { shown: consumer.shown(), keep_from: consumer.keep_from() };
            if let Some((gathered, archived)) = consumer.position() {
                open.note(archiving::CONSUMER, gathered, archived);
            }
            if let Step::Wait(time) = step {
                self.wait(time);
            }
            let source = archiving::Source {
                database: open.below.database(),
                segment_bytes: open.below.segment_bytes(),
                oldest: status.oldest,
                random: &|| self.vfs.random_u64(),
                pull: &|from, wait| self.pull(&open, from, READ_BYTES, wait, &|| true).map(|(pieces, _, _)| pieces),
            };
            done = consumer.perform(&source, step);
        }
        // It may have been claimed as it was to stop.
        self.keeper.ends();
    }

    /// Merges what it archives, and gives up what is not promised, until it is to stop.
    fn keep(&self) {
        resurgam_vfs::lower_priority();
        let mut machine = Keeping::new(self.keeper.config());
        let begun = Instant::now();
        let mut done = TaskDone::Nothing;
        while self.goes_on() {
            done = match machine.next(begun.elapsed(), self.keeper.is_own(), done) {
                Task::Wait(time) => {
                    self.wait(time);
                    TaskDone::Nothing
                }
                task => self.keeper.perform(task),
            };
        }
    }

    /// Or until it is to stop.
    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            std::thread::sleep(LOOK.min(time));
        }
    }

    /// Blocks from there on, up to where that is complete, and how far the log is hardened; none: they did not come in time.
    fn pull(
        &self,
        open: &Open,
        from: Lsn,
        bytes_max: usize,
        wait: Duration,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(Vec<Arc<Piece>>, Lsn, Lsn)> {
        let id = open.next_id.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + wait + LOOK * 4;
        open.step(Input::Pull { id, from, bytes_max, wait });
        let mut answers = open.answers.lock();
        let answer = loop {
            if let Some(answer) = answers.remove(&id) {
                break Some(answer);
            }
            if Instant::now() >= until || !goes_on() || !self.goes_on() {
                break None;
            }
            open.answered.wait_for(&mut answers, LOOK);
        };
        drop(answers);
        match answer {
            Some(Output::Answer { pieces, complete_to, hardened, .. }) => Ok((pieces, complete_to, hardened)),
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
                Ok((Vec::new(), from, from))
            }
        }
    }

    fn put(&self, open: &Open, pieces: Vec<Arc<Piece>>) {
        let end = match open.below.long_term().put(&pieces, self.vfs.wall_clock_us()) {
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
        let (pieces, complete_to, durable) = self.0.pull(open, from, bytes_max, wait, goes_on)?;
        let goes = |piece: &&Arc<Piece>| part.is_none_or(|part| open.matters(piece, part));
        let blocks: Vec<_> = pieces.iter().filter(goes).map(|piece| (piece.lsn, piece.bytes.clone())).collect();
        let left_out = (pieces.len() - blocks.len()) as u32;
        Ok(PartOfBlocks { blocks, complete_to, durable, left_out })
    }
}

impl Service for Log {
    fn hello(&self, _: Role) -> Result<Hello> {
        let open = self.open()?;
        Ok(Hello {
            version: 0,
            role: Role::Log,
            database: open.below.database(),
            first: Lsn(open.below.segment_bytes()),
            segment_bytes: open.below.segment_bytes(),
        })
    }

    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
        let open = self.open()?;
        match request {
            Request::Disseminate { epoch, start, hardened, zone_bound, blocks } => {
                let (epoch, start, hardened, zone_bound) = (*epoch, *start, *hardened, *zone_bound);
                let said = Disseminated { epoch, start, hardened, zone_bound, blocks };
                let outputs = open.core.lock().disseminate(open.begun.elapsed(), &said, open.below.segment_bytes())?;
                open.give(outputs);
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
            Request::Keeping => Ok(Answer::Keeping(keeping::to_message(self.0.keeper.kept()))),
            Request::GetPage { .. } | Request::GetPages { .. } | Request::Coverage | Request::Hello { .. } => {
                Err(Error::new(ErrorKind::NotSupported, "the log service gives no pages; page servers do"))
            }
        }
    }
}
