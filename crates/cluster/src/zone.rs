//! The primary's side of a log that is a tier of its own: who may write it (the lease), and blocks on their way to the log service.
//!
//! ```text
//! flush: blocks ──► landing zone (files of this epoch), synced ──► lease looked at ──► acknowledged
//!           └─────► queue, bounded ──► log service      "hardened up to" ──┘
//!                                         └── "destaged up to": the zone is given up below
//! ```
//!
//! Blocks wait for the word that they are hardened and go with it, in one message: nobody gets them earlier than that anyhow. While one flush
//! comes after the other a message has what came within a millisecond, since each of them costs the primary two changes of threads.
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
    Control as ControlRecord, Log, LogHold, LogService, LogServiceStatus, LogSink, LogZone, ZoneTaken,
};
use resurgam_log::LogBlock;
use resurgam_rbio::{Answer, Connection, Consumer, Peer, Request, Role, Tls};
use resurgam_vfs::Vfs;
use resurgam_xlog::{Control, Holder, HolderConfig, Kept, ProcessId, boot_clock};

use crate::log_service::ConsumerStatus;

/// Blocks that wait to be sent to a log service, in bytes.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Of one message, about.
const MESSAGE_BYTES: usize = 1 << 20;
/// Between two messages, unless so many bytes wait.
const PACE: Duration = Duration::from_millis(1);
const ENOUGH_BYTES: usize = 256 << 10;
/// What is hardened is said again after so long.
const SAY_AGAIN: Duration = Duration::from_millis(200);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
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
    state: Mutex<LinkState>,
    woken: Condvar,
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
    woken_by: WokenBy,
    connected: bool,
    /// What the service has said.
    disseminated: Lsn,
    destaged: Lsn,
    consumers: Vec<ConsumerStatus>,
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
        links.iter().flat_map(|link| link.state.lock().consumers.clone()).collect()
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
            let link = Arc::new(Link {
                address: address.clone(),
                tls: self.config.tls.clone(),
                state: Mutex::default(),
                woken: Condvar::new(),
            });
            active.links.lock().push(Arc::clone(&link));
            let (active, log, hold) = (Arc::clone(&active), Arc::downgrade(log), Arc::clone(&hold));
            spawn("log-send", move || link.run(&active, database, &log, &hold))?;
        }
        Ok(Arc::new(Sink(active)))
    }

    fn release(&self) {
        if let Some(active) = self.now.lock().take() {
            active.end();
            if let Err(error) = active.holder.release() {
                tracing::warn!("the landing zone was not given back, the next primary waits for its lease: {error}");
            }
        }
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
    fn run(&self, active: &Active, database: [u8; 16], log: &Weak<Log>, hold: &LogHold) {
        let mut again = AGAIN_FIRST;
        let goes_on = || !active.ended.load(Ordering::SeqCst) && log.strong_count() > 0;
        while goes_on() {
            let outcome = self.send_all(active, database, log, hold, &mut again);
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
        self.state.lock().connected = true;
        let mut paced = Instant::now();
        loop {
            let blocks = self.next_batch(active, paced);
            paced = Instant::now() + PACE;
            let Some(log) = log.upgrade() else { return Ok(()) };
            if active.ended.load(Ordering::SeqCst) {
                return Ok(());
            }
            let count = blocks.len() as u64;
            let request = Request::Disseminate {
                epoch: active.epoch,
                start: Lsn(active.start.load(Ordering::SeqCst)),
                hardened: Lsn(active.hardened.load(Ordering::SeqCst)),
                zone_bound: active.log_bytes_max,
                blocks: blocks
                    .iter()
                    .map(|block| {
                        let mut bytes = Vec::new();
                        block.put_bytes(&mut bytes);
                        (block.lsn(), bytes)
                    })
                    .collect(),
            };
            drop(log);
            match service.call(&request, ANSWER)? {
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
                    state.blocks += count;
                    if state.error.take().is_some() {
                        tracing::info!("the log service at {} takes the log again", self.address);
                    }
                }
                other => return Err(service.unexpected(&other)),
            }
        }
    }

    /// Has the thread go on if it waits, once.
    fn wake(&self, state: &mut LinkState) {
        if std::mem::take(&mut state.woken_by) != WokenBy::Nothing {
            self.woken.notify_one();
        }
    }

    /// What waits to be sent, not before `paced` unless it is much; nothing after a while, or when there is only news.
    fn next_batch(&self, active: &Active, paced: Instant) -> Vec<LogBlock> {
        let until = paced.max(Instant::now() + SAY_AGAIN);
        let mut state = self.state.lock();
        while state.bytes < ENOUGH_BYTES && !active.ended.load(Ordering::SeqCst) {
            let is_paced = Instant::now() >= paced;
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
            blocks.push(block);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        // What was too much for this message may be hardened.
        state.news = !state.queue.is_empty();
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
