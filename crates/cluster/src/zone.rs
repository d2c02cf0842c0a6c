//! The primary's side of a log that is a tier of its own: who may write it (the lease), and blocks on their way to the log service.
//!
//! ```text
//! flush: blocks ──► landing zone (files of this epoch), synced ──► lease looked at ──► acknowledged
//!           └─────► queue, bounded ──► log service      "hardened up to" ──┘
//!                                         └── "destaged up to": the zone is given up below
//! ```
//!
//! Blocks wait for the word that they are hardened and go with it, in one message: nobody gets them earlier than that anyhow. While one flush
//! comes after the other a message has what came within some milliseconds, since each of them costs the primary two changes of threads, and log
//! service and page servers several. Whoever needs a page with a record that was not announced yet does not wait for that ([`LandingZone::wanted`]).
//! Blocks are sent from where they are, and with the checksums that they have: nothing of them is copied or looked at here.
//!
//! # Invariants
//! 1. Nothing is acknowledged unless the lease was valid after it was durable.
//! 2. No commit waits for the log service: what does not fit into the queue is let go, and the service fetches it from the zone.
//! 3. The log is held in the zone from where the log service says that the long-term log ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_engine::{
    ArchiveKept, Control as ControlRecord, Log, LogArchiver, LogHold, LogService, LogServiceStatus, LogSink, LogZone,
    ZoneTaken,
};
use resurgam_log::LogBlock;
use resurgam_rbio::{Announced, Answer, Connection, Consumer, Peer, Request, Role, SentBlock, Tls};
use resurgam_vfs::Vfs;
use resurgam_xlog::{Control, Holder, HolderConfig, Kept, ProcessId, boot_clock};

use crate::archiving;
use crate::keeping;
use crate::log_service::ConsumerStatus;

/// Blocks that wait to be sent to a log service, in bytes.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Of one message, about.
const MESSAGE_BYTES: usize = 1 << 20;
/// Between two messages, unless so many bytes wait, or somebody does.
const PACE: Duration = Duration::from_millis(4);
const ENOUGH_BYTES: usize = 256 << 10;
/// What is hardened is said again after so long.
const SAY_AGAIN: Duration = Duration::from_millis(200);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Between two questions what it does for the archive.
const ASK: Duration = Duration::from_secs(1);
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(1);
const WAITING_SAID: Duration = Duration::from_secs(5);

/// Settings.
#[derive(Clone)]
pub struct ZoneConfig {
    /// The record that says who has the log.
    pub control: Arc<dyn Control>,
    pub lease: Duration,
    /// Where log services are: `host:port`.
    pub log_services: Vec<String>,
    /// Most log in the zone, in bytes: for the pace of destaging.
    pub log_bytes_max: u64,
    /// With which they are spoken to; none: nothing is encrypted.
    pub tls: Option<Arc<Tls>>,
    /// Called once when another process has taken over the log.
    pub lost: Arc<dyn Fn(&Error) + Send + Sync>,
}

/// See the module.
pub struct LandingZone {
    config: ZoneConfig,
    now: Mutex<Option<Arc<Active>>>,
}

/// While this process has the log.
struct Active {
    holder: Holder,
    lost: Arc<dyn Fn(&Error) + Send + Sync>,
    told: AtomicBool,
    ended: AtomicBool,
    epoch: u32,
    start: AtomicU64,
    hardened: AtomicU64,
    links: Mutex<Vec<Arc<Link>>>,
    log_bytes_max: u64,
}

/// To one log service.
struct Link {
    address: String,
    tls: Option<Arc<Tls>>,
    /// That all below is hardened was said, or is being said.
    announced: AtomicU64,
    state: Mutex<LinkState>,
    woken: Condvar,
}

/// A block on its way.
struct Sent(LogBlock);

impl SentBlock for Sent {
    fn lsn(&self) -> Lsn {
        self.0.lsn()
    }
    fn parts(&self) -> [&[u8]; 2] {
        self.0.parts()
    }
    fn checksum_after(&self, seed: u32) -> u32 {
        self.0.checksum_after(seed)
    }
}

/// What its thread is woken for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WokenBy {
    /// It is at work, and looks by itself.
    #[default]
    Nothing,
    /// Much to be sent; for what is little it wakes up in time.
    Much,
    /// That something is hardened, too.
    News,
}

#[derive(Default)]
struct LinkState {
    queue: VecDeque<LogBlock>,
    bytes: usize,
    /// Something was hardened since the last message.
    news: bool,
    /// That is not to wait for more.
    hurries: bool,
    woken_by: WokenBy,
    connected: bool,
    /// What the service has said.
    disseminated: Lsn,
    destaged: Lsn,
    consumers: Vec<ConsumerStatus>,
    /// When it said so.
    heard: Option<Instant>,
    /// What it does for the archive beside adding runs, where it is the one that archives; none: nothing, as one of before.
    keeps: Option<ArchiveKept>,
    blocks: u64,
    dropped: u64,
    error: Option<String>,
}

impl LandingZone {
    /// Nothing is taken yet.
    pub fn new(config: ZoneConfig) -> Self {
        Self { config, now: Mutex::default() }
    }

    /// Who pulls from the log services, as they have said last.
    pub fn consumers(&self) -> Vec<ConsumerStatus> {
        let Some(active) = self.now.lock().clone() else { return Vec::new() };
        let links = active.links.lock();
        let all = links.iter().flat_map(|link| link.state.lock().consumers.clone());
        all.filter(|consumer| consumer.name != archiving::CONSUMER).collect()
    }

    /// Somebody waits for log service or page servers to have the record at `at_least`, which is durable. Cheap where it was announced already.
    pub fn wanted(&self, at_least: Lsn) {
        let Some(active) = self.now.lock().clone() else { return };
        for link in active.links.lock().iter() {
            link.hurry(at_least);
        }
    }

    fn active(&self) -> Result<Arc<Active>> {
        self.now.lock().clone().ok_or_else(|| Error::internal("the landing zone was not taken"))
    }
}

impl LogZone for LandingZone {
    fn take(&self, vfs: &Arc<dyn Vfs>, epoch_above: u32) -> Result<ZoneTaken> {
        let config = HolderConfig {
            lease: self.config.lease,
            clock: boot_clock(),
            stamp: vfs.random_u64(),
            me: ProcessId::own(),
            epoch_above,
        };
        let mut said: Option<Instant> = None;
        let holder = Holder::take(Arc::clone(&self.config.control), config, &mut |record, left| {
            if said.is_none_or(|said| said.elapsed() > WAITING_SAID) {
                let (pid, epoch) = (record.holder.pid, record.epoch);
                tracing::warn!(
                    "process {pid} has the log, under epoch {epoch}: its lease of {:?} is waited out",
                    record.lease
                );
                said = Some(Instant::now());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
            true
        })?;
        let (epoch, kept) = (holder.epoch(), holder.kept());
        let active = Arc::new(Active {
            holder,
            lost: Arc::clone(&self.config.lost),
            told: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            epoch,
            start: AtomicU64::new(0),
            hardened: AtomicU64::new(0),
            links: Mutex::default(),
            log_bytes_max: self.config.log_bytes_max,
        });
        spawn("lease", {
            let (active, each) = (Arc::downgrade(&active), self.config.lease / 4);
            move || renew(&active, each)
        })?;
        *self.now.lock() = Some(active);
        let of = kept.map(|kept| {
            let Kept { database, checkpoint, epoch, segment_bytes, clean, traditional } = kept;
            (database, ControlRecord { checkpoint, epoch, segment_bytes, clean, traditional })
        });
        Ok(ZoneTaken { epoch, of })
    }

    fn keep(&self, database: [u8; 16], control: &ControlRecord) -> Result<()> {
        let ControlRecord { checkpoint, epoch, segment_bytes, clean, traditional } = *control;
        let active = self.active()?;
        let kept = Kept { database, checkpoint, epoch, segment_bytes, clean, traditional };
        active.holder.keep(kept).inspect_err(|error| active.tell(error))
    }

    fn attach(&self, database: [u8; 16], log: &Arc<Log>) -> Result<Arc<dyn LogSink>> {
        let active = self.active()?;
        let start = log.flushed_lsn();
        active.start.store(start.0, Ordering::SeqCst);
        active.hardened.store(start.0, Ordering::SeqCst);
        let hold = Arc::new(log.hold("the log service, which has not destaged it", log.oldest_lsn())?);
        for address in &self.config.log_services {
            let link = Arc::new(Link::new(address, self.config.tls.clone()));
            active.links.lock().push(Arc::clone(&link));
            let (active, log, hold) = (Arc::clone(&active), Arc::downgrade(log), Arc::clone(&hold));
            spawn("log-send", move || link.run(&active, database, &log, &hold))?;
        }
        Ok(Arc::new(Sink(active)))
    }

    fn check(&self) -> Result<()> {
        let active = self.active()?;
        active.holder.check().inspect_err(|error| active.tell(error))
    }

    fn release(&self) {
        if let Some(active) = self.now.lock().take() {
            active.end();
            if let Err(error) = active.holder.release() {
                tracing::warn!("the landing zone was not given back, the next primary waits for its lease: {error}");
            }
        }
    }

    fn archiver(&self) -> Option<LogArchiver> {
        let active = self.now.lock().clone()?;
        let links = active.links.lock();
        let of = |link: &Arc<Link>| {
            let state = link.state.lock();
            let consumer = state.consumers.iter().find(|consumer| consumer.name == archiving::CONSUMER)?;
            Some(LogArchiver {
                service: link.address.clone(),
                gathered: consumer.position,
                archived: consumer.durable,
                silent: consumer.silent + state.heard.map_or(Duration::ZERO, |at| at.elapsed()),
                keeps: state.keeps.clone(),
            })
        };
        // Another one may have archived before it.
        links.iter().filter_map(of).min_by_key(|archiver| archiver.silent)
    }

    fn status(&self) -> Option<LogServiceStatus> {
        let active = self.now.lock().clone()?;
        let links = active.links.lock();
        let services = links.iter().map(|link| {
            let state = link.state.lock();
            LogService {
                address: link.address.clone(),
                disseminated: state.disseminated,
                destaged: state.destaged,
                blocks: state.blocks,
                dropped: state.dropped,
                error: state.error.clone(),
            }
        });
        Some(LogServiceStatus {
            epoch: active.epoch,
            start: Lsn(active.start.load(Ordering::SeqCst)),
            hardened: Lsn(active.hardened.load(Ordering::SeqCst)),
            lease_left: active.holder.left(),
            services: services.collect(),
        })
    }
}

impl Drop for LandingZone {
    fn drop(&mut self) {
        if let Some(active) = self.now.lock().take() {
            active.end();
        }
    }
}

impl Active {
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for link in self.links.lock().iter() {
            link.woken.notify_all();
        }
    }

    /// Another one has the log: whoever runs this process wants to know, once.
    fn tell(&self, error: &Error) {
        if self.holder.is_lost() && !self.ended.load(Ordering::SeqCst) && !self.told.swap(true, Ordering::SeqCst) {
            (self.lost)(error);
        }
    }
}

/// Renews the lease while it is held.
fn renew(active: &Weak<Active>, each: Duration) {
    let mut said = false;
    loop {
        std::thread::sleep(each);
        let Some(active) = active.upgrade() else { return };
        if active.ended.load(Ordering::SeqCst) {
            return;
        }
        match active.holder.renew() {
            Ok(()) => said = false,
            Err(error) => {
                if active.holder.is_lost() {
                    active.tell(&error);
                    return;
                }
                if !said {
                    tracing::warn!("the lease on the landing zone is not renewed now: {error}");
                    said = true;
                }
            }
        }
    }
}

struct Sink(Arc<Active>);

impl LogSink for Sink {
    fn writing(&self, blocks: &[LogBlock]) {
        for link in self.0.links.lock().iter() {
            let mut state = link.state.lock();
            if !state.connected {
                // It fetches them from the zone.
                state.dropped += blocks.len() as u64;
                continue;
            }
            for block in blocks {
                let bytes = block.payload_bytes();
                if state.bytes + bytes > QUEUE_BYTES_MAX {
                    state.dropped += 1;
                    continue;
                }
                state.bytes += bytes;
                state.queue.push_back(block.clone());
            }
            if state.bytes >= ENOUGH_BYTES {
                link.wake(&mut state);
            }
        }
    }

    fn durable(&self, upto: Lsn) -> Result<()> {
        let active = &self.0;
        active.holder.check().inspect_err(|error| active.tell(error))?;
        active.hardened.fetch_max(upto.0, Ordering::SeqCst);
        for link in active.links.lock().iter() {
            let mut state = link.state.lock();
            state.news = true;
            if state.woken_by == WokenBy::News {
                link.wake(&mut state);
            }
        }
        Ok(())
    }
}

impl Link {
    fn new(address: &str, tls: Option<Arc<Tls>>) -> Self {
        let (announced, state) = (AtomicU64::new(0), Mutex::default());
        Self { address: address.to_owned(), tls, announced, state, woken: Condvar::new() }
    }

    fn run(&self, active: &Active, database: [u8; 16], log: &Weak<Log>, hold: &LogHold) {
        let mut again = AGAIN_FIRST;
        let goes_on = || !active.ended.load(Ordering::SeqCst) && log.strong_count() > 0;
        while goes_on() {
            let outcome = self.send_all(active, database, log, hold, &mut again);
            // The next one begins with nothing.
            self.announced.store(0, Ordering::SeqCst);
            let mut state = self.state.lock();
            (state.connected, state.bytes) = (false, 0);
            state.dropped += state.queue.len() as u64;
            state.queue.clear();
            if let Err(error) = outcome {
                if state.error.is_none() {
                    tracing::warn!("the log service at {} does not take the log now: {error}", self.address);
                }
                state.error = Some(error.to_string());
                let until = Instant::now() + again;
                while goes_on() && !self.woken.wait_until(&mut state, until).timed_out() {}
                again = (again * 2).min(AGAIN_MAX);
            }
        }
    }

    /// Sends until something fails, or all is over.
    fn send_all(
        &self,
        active: &Active,
        database: [u8; 16],
        log: &Weak<Log>,
        hold: &LogHold,
        again: &mut Duration,
    ) -> Result<()> {
        let me = Peer { role: Role::Primary, database };
        let mut service = Connection::open_with(&self.address, me, self.tls.as_deref(), ANSWER)?;
        if service.hello().role != Role::Log {
            let what = format!("{} is not a log service", service.peer());
            return Err(Error::new(ErrorKind::InvalidParameter, what));
        }
        // Before it is known that it archives: else one that merges would be taken for one of before.
        self.ask_what_it_keeps(&mut service)?;
        {
            let mut state = self.state.lock();
            // What the last connection may have taken along is to be said again.
            (state.connected, state.news) = (true, true);
        }
        let (mut paced, mut asked) = (Instant::now(), Instant::now());
        loop {
            if asked.elapsed() >= ASK {
                self.ask_what_it_keeps(&mut service)?;
                asked = Instant::now();
            }
            let blocks = self.next_batch(&active.ended, paced);
            paced = Instant::now() + PACE;
            let Some(log) = log.upgrade() else { return Ok(()) };
            if active.ended.load(Ordering::SeqCst) {
                return Ok(());
            }
            let count = blocks.len() as u64;
            let said = Announced {
                epoch: active.epoch,
                start: Lsn(active.start.load(Ordering::SeqCst)),
                hardened: Lsn(active.hardened.load(Ordering::SeqCst)),
                zone_bound: active.log_bytes_max,
            };
            self.announced.store(said.hardened.0, Ordering::SeqCst);
            drop(log);
            let answer = service.disseminate(&said, &blocks, ANSWER)?;
            // Their memory is used again.
            drop(blocks);
            match answer {
                Answer::Log { disseminated, destaged, consumers } => {
                    hold.advance(destaged);
                    *again = AGAIN_FIRST;
                    let mut state = self.state.lock();
                    (state.disseminated, state.destaged) = (disseminated, destaged);
                    let of = |consumer: Consumer| ConsumerStatus {
                        name: consumer.name,
                        position: consumer.position,
                        durable: consumer.durable,
                        silent: Duration::from_millis(consumer.silent_ms.into()),
                    };
                    state.consumers = consumers.into_iter().map(of).collect();
                    state.heard = Some(Instant::now());
                    state.blocks += count;
                    if state.error.take().is_some() {
                        tracing::info!("the log service at {} takes the log again", self.address);
                    }
                }
                other => return Err(service.unexpected(&other)),
            }
        }
    }

    fn ask_what_it_keeps(&self, service: &mut Connection) -> Result<()> {
        let keeps = match service.call(&Request::Keeping, ANSWER) {
            Ok(Answer::Keeping(said)) => keeping::of_message(&said),
            Ok(Answer::Error(_)) => return Ok(()),
            Ok(other) => return Err(service.unexpected(&other)),
            // It is of before.
            Err(error) if error.kind() == ErrorKind::NotSupported => None,
            Err(error) => return Err(error),
        };
        self.state.lock().keeps = keeps;
        Ok(())
    }

    /// Has the thread go on if it waits, once.
    fn wake(&self, state: &mut LinkState) {
        if std::mem::take(&mut state.woken_by) != WokenBy::Nothing {
            self.woken.notify_one();
        }
    }

    /// What is not announced does not wait for more, if that record is among it.
    fn hurry(&self, at_least: Lsn) {
        if self.announced.load(Ordering::SeqCst) > at_least.0 {
            return;
        }
        let mut state = self.state.lock();
        if state.connected && !std::mem::replace(&mut state.hurries, true) {
            self.wake(&mut state);
        }
    }

    /// What waits to be sent, not before `paced` unless it is much or wanted; nothing after a while, or when there is only news.
    fn next_batch(&self, ended: &AtomicBool, paced: Instant) -> Vec<Sent> {
        let until = paced.max(Instant::now() + SAY_AGAIN);
        let mut state = self.state.lock();
        while state.bytes < ENOUGH_BYTES && !ended.load(Ordering::SeqCst) {
            let is_paced = state.hurries || Instant::now() >= paced;
            if is_paced && state.news {
                break;
            }
            state.woken_by = if is_paced { WokenBy::News } else { WokenBy::Much };
            let late = self.woken.wait_until(&mut state, if is_paced { until } else { paced }).timed_out();
            state.woken_by = WokenBy::Nothing;
            if late && is_paced {
                break;
            }
        }
        let (mut bytes, mut blocks) = (0, Vec::new());
        while bytes < MESSAGE_BYTES {
            let Some(block) = state.queue.pop_front() else { break };
            bytes += block.payload_bytes();
            blocks.push(Sent(block));
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        // What was too much for this message may be hardened, and announced with it: the log service looks for it elsewhere before long.
        state.news = !state.queue.is_empty();
        state.hurries = state.news;
        blocks
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(format!("resurgam-{name}"))
        .spawn(body)
        .map(drop)
        .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {e}")))
}

#[cfg(test)]
mod tests {
    use resurgam_rbio::{Hello, Request, ServerConfig, Service};

    use super::*;

    /// What is hardened waits for the pace, unless somebody waits for it.
    #[test]
    fn who_waits_for_a_record_has_it_announced() {
        let (link, never) = (Arc::new(Link::new("nobody", None)), AtomicBool::new(false));
        {
            let mut state = link.state.lock();
            (state.connected, state.news) = (true, true);
        }
        let (later, long) = (Instant::now() + Duration::from_secs(3600), Duration::from_secs(60));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let begun = Instant::now();
                link.next_batch(&never, later);
                begun.elapsed()
            });
            while link.state.lock().woken_by != WokenBy::Much {
                std::thread::sleep(Duration::from_millis(1));
            }
            // It is announced already.
            link.announced.store(2048, Ordering::SeqCst);
            link.hurry(Lsn(2047));
            assert!(!link.state.lock().hurries && !thread.is_finished());
            link.hurry(Lsn(2048));
            assert!(thread.join().is_ok_and(|took| took < long));
        });
        let state = link.state.lock();
        assert!(!state.hurries && !state.news, "the next one waits again");
    }

    /// Who asks before the thread waits, or while nothing is connected.
    #[test]
    fn nobody_is_forgotten_and_nobody_is_remembered_for_nothing() {
        let (link, never) = (Link::new("nobody", None), AtomicBool::new(false));
        link.hurry(Lsn(5));
        assert!(!link.state.lock().hurries, "there is nobody to be told");
        {
            let mut state = link.state.lock();
            (state.connected, state.news) = (true, true);
        }
        link.hurry(Lsn(5));
        let begun = Instant::now();
        link.next_batch(&never, begun + Duration::from_secs(3600));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    /// Takes whatever comes.
    struct Takes;

    impl Service for Takes {
        fn hello(&self, _: Role) -> Result<Hello> {
            Ok(Hello { version: 0, role: Role::Log, database: [1; 16], first: Lsn(1 << 20), segment_bytes: 1 << 24 })
        }
        fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
            if *request == Request::Keeping {
                return Err(Error::new(ErrorKind::NotSupported, "it archives nothing"));
            }
            Ok(Answer::Log { disseminated: Lsn::NONE, destaged: Lsn::NONE, consumers: Vec::new() })
        }
    }

    /// What a log service does for the archive is asked when it is connected to; one of the version before is asked nothing that it does not know, and does nothing.
    #[test]
    fn one_of_before_does_not_merge() -> Result<()> {
        struct Keeps;
        impl Service for Keeps {
            fn hello(&self, role: Role) -> Result<Hello> {
                Takes.hello(role)
            }
            fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
                if *request == Request::Keeping {
                    let kept = ArchiveKept { merges: 3, ..ArchiveKept::default() };
                    return Ok(Answer::Keeping(keeping::to_message(Some(kept))));
                }
                Takes.answer(request, goes_on)
            }
        }
        let me = Peer { role: Role::Primary, database: [1; 16] };
        for (newest, service, merges) in [
            (resurgam_rbio::VERSION, Arc::new(Keeps) as Arc<dyn Service>, Some(3)),
            (5, Arc::new(Keeps), None),
            (resurgam_rbio::VERSION, Arc::new(Takes), Some(7)),
        ] {
            let config = ServerConfig { newest, ..ServerConfig::default() };
            let server = resurgam_rbio::Server::start("127.0.0.1:0", config, service)?;
            let address = server.address().to_string();
            let link = Link::new(&address, None);
            // It may have been another one before; who cannot say stays what it was.
            link.state.lock().keeps = Some(ArchiveKept { merges: 7, ..ArchiveKept::default() });
            let mut connection = Connection::open(&address, me, ANSWER)?;
            link.ask_what_it_keeps(&mut connection)?;
            assert_eq!(link.state.lock().keeps.as_ref().map(|kept| kept.merges), merges);
            // The connection is as good as before.
            assert!(matches!(connection.call(&Request::Position, ANSWER)?, Answer::Log { .. }));
        }
        Ok(())
    }

    /// Keeps the blocks that are written.
    #[derive(Default)]
    struct Written(Mutex<Vec<LogBlock>>);

    impl LogSink for Written {
        fn writing(&self, blocks: &[LogBlock]) {
            self.0.lock().extend(blocks.iter().cloned());
        }
        fn durable(&self, _: Lsn) -> Result<()> {
            Ok(())
        }
    }

    /// What a message costs the thread that sends it, as it is sent and as it was before: each block copied out and summed up, copied into the
    /// message, and that summed up.
    #[test]
    #[ignore = "a measurement"]
    fn sending_measured() -> Result<()> {
        let dir = tempfile::tempdir().expect("a folder");
        let vfs: Arc<dyn Vfs> = Arc::new(resurgam_vfs::RealVfs::new());
        let config = resurgam_log::LogConfig { segment_bytes: 64 << 20, ..Default::default() };
        let log = Log::create(vfs, &dir.path().join("log"), config, 1)?;
        let written = Arc::<Written>::default();
        log.set_sink(Arc::clone(&written) as Arc<dyn LogSink>);
        let config = ServerConfig { request_bytes_max: 80 << 20, ..ServerConfig::default() };
        let server = resurgam_rbio::Server::start("127.0.0.1:0", config, Arc::new(Takes))?;
        let me = Peer { role: Role::Primary, database: [1; 16] };
        let mut service = Connection::open(&server.address().to_string(), me, ANSWER)?;
        let said = Announced { epoch: 1, start: Lsn(512), hardened: Lsn(512), zone_bound: 0 };
        let mut group = resurgam_log::Group::new();
        // Of one message, of a block, and how many groups that takes.
        for (groups, messages, name) in
            [(256, 64, "1 MB"), (64, 256, "256 kB"), (2, 2000, "8 kB"), (0, 4000, "no block")]
        {
            group.clear();
            group.record(resurgam_log::RecordKind::Note, Default::default(), Lsn::NONE, &[7; 4000]);
            let mut micros = [Vec::new(), Vec::new()];
            for round in 0..10 {
                let mut spent = Duration::ZERO;
                for _ in 0..messages {
                    for _ in 0..groups {
                        log.append(&group)?;
                    }
                    log.flush_all()?;
                    let blocks: Vec<Sent> = std::mem::take(&mut *written.0.lock()).into_iter().map(Sent).collect();
                    let begun = resurgam_vfs::thread_time();
                    if round % 2 == 0 {
                        let of = |block: &Sent| {
                            let mut bytes = Vec::new();
                            block.0.put_bytes(&mut bytes);
                            std::hint::black_box(resurgam_base::checksum(&bytes));
                            (block.0.lsn(), bytes)
                        };
                        let Announced { epoch, start, hardened, zone_bound } = said;
                        let blocks = blocks.iter().map(of).collect();
                        service.call(&Request::Disseminate { epoch, start, hardened, zone_bound, blocks }, ANSWER)?;
                    } else {
                        service.disseminate(&said, &blocks, ANSWER)?;
                    }
                    spent += resurgam_vfs::thread_time().saturating_sub(begun);
                }
                micros[round % 2].push(spent.as_secs_f64() * 1e6 / f64::from(messages));
            }
            let [before, now] = micros.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            });
            println!("a message with {name}: {now:.1} µs of the sender's processor, {before:.1} as before");
        }
        log.close()
    }
}
