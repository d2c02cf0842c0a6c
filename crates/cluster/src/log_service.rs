//! The log for who pulls it: durable blocks from a position on.
//!
//! Each consumer has a name. What it has not made durable is held in the log under that name, while it asks often enough; one that is
//! silent for longer than its lease is forgotten, lest the log grows for a machine that does not come back. After the database was
//! opened everything is held for a lease: consumers that the last process knew have yet to say where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{Log, LogBlock, LogFollower, LogHold};
use resurgam_pageserver::Partitions;
use resurgam_rbio::{Answer, Hello, PartOfBlocks, Request, Role, Service};

use crate::part;

/// Most bytes of blocks in an answer, whatever is asked for; one block is sent however long it is.
const BYTES_MAX: usize = 16 << 20;
/// Most bytes that are looked at for one that has few of them to get.
const LOOKED_AT_MAX: usize = 64 << 20;
/// Most blocks in an answer.
const BLOCKS_MAX: usize = 4096;
/// Longest wait on behalf of a request.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether the server still runs.
const LOOK: Duration = Duration::from_millis(50);
/// Consumers with a name at one time.
const CONSUMERS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct LogServiceConfig {
    /// A consumer that has not asked for so long is forgotten, and log is no longer held for it.
    pub lease: Duration,
    /// A mistake that tests make on purpose: of blocks that matter to who asks for a part of the log, every so many is left out.
    #[doc(hidden)]
    pub forgets: u32,
}

impl Default for LogServiceConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(600), forgets: 0 }
    }
}

/// A consumer, as an operator sees it.
#[derive(Clone, Debug)]
pub struct ConsumerStatus {
    pub name: String,
    /// It has asked for what is behind this.
    pub position: Lsn,
    /// It has everything below for good.
    pub durable: Lsn,
    /// When it has asked last.
    pub silent: Duration,
}

struct Consumer {
    hold: LogHold,
    position: Lsn,
    durable: Lsn,
    seen: Instant,
    /// None while a request is answered.
    follower: Option<LogFollower>,
}

#[derive(Default)]
struct Consumers {
    all: HashMap<String, Consumer>,
    /// For those that have not asked since the open, until then.
    unknown: Option<(LogHold, Instant)>,
}

/// See the module.
pub(crate) struct LogService {
    log: Arc<Log>,
    database: [u8; 16],
    first: Lsn,
    config: LogServiceConfig,
    consumers: Mutex<Consumers>,
    closed: AtomicBool,
    given: AtomicU32,
}

impl LogService {
    /// # Errors
    /// Those of holding the log.
    pub fn new(log: Arc<Log>, database: [u8; 16], first: Lsn, config: LogServiceConfig) -> Result<Self> {
        let hold = log.hold("page servers that have not asked yet", log.oldest_lsn())?;
        let unknown = Some((hold, Instant::now() + config.lease));
        let consumers = Mutex::new(Consumers { all: HashMap::new(), unknown });
        Ok(Self { log, database, first, config, consumers, closed: AtomicBool::new(false), given: AtomicU32::new(0) })
    }

    /// The database is closed: who waits is told.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub fn lease(&self) -> Duration {
        self.config.lease
    }

    /// Forgets consumers whose lease is over. To be called now and then.
    pub fn expire(&self) {
        let mut consumers = self.consumers.lock();
        let lease = self.config.lease;
        consumers.all.retain(|name, consumer| {
            let stays = consumer.seen.elapsed() <= lease;
            if !stays {
                tracing::warn!(
                    "{name} has not asked for the log for {lease:?}: the log behind LSN {} is no longer held for it, and it will begin \
                     anew when it comes back",
                    consumer.durable
                );
            }
            stays
        });
        consumers.unknown.take_if(|(_, until)| *until <= Instant::now());
    }

    pub fn status(&self) -> Vec<ConsumerStatus> {
        let consumers = self.consumers.lock();
        let mut all: Vec<_> = consumers
            .all
            .iter()
            .map(|(name, of)| ConsumerStatus {
                name: name.clone(),
                position: of.position,
                durable: of.durable,
                silent: of.seen.elapsed(),
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn check(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Stopped, "the database is closed"));
        }
        Ok(())
    }

    /// Notes where a consumer is, and takes its follower, from `from` on.
    fn begin(&self, name: &str, from: Lsn, durable: Lsn) -> Result<LogFollower> {
        let bad = |what: String| Err(Error::new(ErrorKind::InvalidParameter, what));
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return bad(format!("a consumer of the log has a name of 1 to {NAME_BYTES_MAX} bytes"));
        }
        if durable > from {
            return bad(format!("{name} has the log up to LSN {durable}, and asks for it from LSN {from} on"));
        }
        let flushed = self.log.flushed_lsn();
        if from > flushed {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                format!(
                    "{name} is at LSN {from}, behind the end of the log at LSN {flushed}: the log, or what {name} has, is of another history"
                ),
            ));
        }
        let mut consumers = self.consumers.lock();
        if !consumers.all.contains_key(name) {
            if consumers.all.len() >= CONSUMERS_MAX {
                let what = format!("there are {CONSUMERS_MAX} consumers of the log already");
                return Err(Error::new(ErrorKind::ConfigurationLimitExceeded, what));
            }
            // Fails when that is not kept any more.
            let hold = self.log.hold(name, durable.max(self.first))?;
            tracing::info!("{name} follows the log from LSN {from} on");
            let new = Consumer { hold, position: from, durable, seen: Instant::now(), follower: None };
            consumers.all.insert(name.to_owned(), new);
        }
        let Some(consumer) = consumers.all.get_mut(name) else { return bad("a consumer that is gone".into()) };
        if durable < consumer.durable {
            // It has lost what it had, and begins before what is held for it.
            consumer.hold = self.log.hold(name, durable.max(self.first))?;
        }
        consumer.hold.advance(durable);
        (consumer.position, consumer.durable, consumer.seen) = (from, durable, Instant::now());
        match consumer.follower.take().filter(|follower| follower.position() == from) {
            Some(follower) => Ok(follower),
            None => self.log.follow(from),
        }
    }

    fn pull(
        &self,
        (name, from, durable): (&str, Lsn, Lsn),
        bytes_max: usize,
        wait: Duration,
        part: Option<&Partitions>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PartOfBlocks> {
        let mut follower = self.begin(name, from, durable)?;
        let until = Instant::now() + wait;
        let (mut blocks, mut bytes, mut left_out, mut looked_at) = (Vec::new(), 0, 0, 0);
        while blocks.len() < BLOCKS_MAX && bytes < bytes_max && looked_at < LOOKED_AT_MAX {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            let next =
                follower.next(if blocks.is_empty() && left_out == 0 { left.min(LOOK) } else { Duration::ZERO })?;
            match next {
                Some(block) if part.is_some_and(|part| self.leaves_out(&block, part)) => {
                    left_out += 1;
                    looked_at += block.payload_bytes();
                }
                Some(block) => {
                    let mut out = Vec::new();
                    block.put_bytes(&mut out);
                    bytes += out.len();
                    blocks.push((block.lsn(), out));
                }
                None if blocks.is_empty() && left_out == 0 && !left.is_zero() && goes_on() => {}
                None => break,
            }
        }
        let (complete_to, durable) = (follower.position(), self.log.flushed_lsn());
        let answer = PartOfBlocks { blocks, complete_to, durable, left_out };
        if let Some(consumer) = self.consumers.lock().all.get_mut(name) {
            consumer.seen = Instant::now();
            consumer.follower = Some(follower);
        }
        Ok(answer)
    }
}

impl LogService {
    /// Whether a block has nothing for who has these pages.
    fn leaves_out(&self, block: &LogBlock, part: &Partitions) -> bool {
        if !part.matters(block.records()) {
            return true;
        }
        let forgets = self.config.forgets;
        forgets > 0 && self.given.fetch_add(1, Ordering::Relaxed) % forgets == forgets - 1
    }
}

impl Service for LogService {
    fn hello(&self, _: Role) -> Result<Hello> {
        self.check()?;
        Ok(Hello {
            version: 0,
            role: Role::Primary,
            database: self.database,
            first: self.first,
            segment_bytes: self.log.config().segment_bytes,
        })
    }

    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
        match request {
            Request::PullBlocks { consumer, from, durable, bytes_max, wait_ms } => {
                let bytes_max = (*bytes_max as usize).clamp(1, BYTES_MAX);
                let wait = Duration::from_millis(u64::from(*wait_ms)).min(WAIT_MAX);
                let answer = self.pull((consumer, *from, *durable), bytes_max, wait, None, goes_on)?;
                Ok(Answer::Blocks(part::whole(answer)))
            }
            Request::PullPart { consumer, from, durable, bytes_max, wait_ms, part } => {
                let bytes_max = (*bytes_max as usize).clamp(1, BYTES_MAX);
                let wait = Duration::from_millis(u64::from(*wait_ms)).min(WAIT_MAX);
                let part = part::of_message(part)?;
                self.pull((consumer, *from, *durable), bytes_max, wait, Some(&part), goes_on).map(Answer::PartOfBlocks)
            }
            Request::Position => {
                let flushed = self.log.flushed_lsn();
                Ok(Answer::Position { applied: flushed, durable: flushed })
            }
            Request::GetPage { .. }
            | Request::GetPages { .. }
            | Request::Coverage
            | Request::Keeping
            | Request::Disseminate { .. }
            | Request::Hello { .. } => {
                Err(Error::new(ErrorKind::NotSupported, "the primary gives no pages; page servers do"))
            }
        }
    }
}
