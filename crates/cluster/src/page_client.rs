//! Pages from whichever page server answers best.
//!
//! Every page server has all pages. The one that has answered fastest of late is asked; one that fails is left alone for a moment, which
//! doubles while it fails. When none answers, the reader waits: a page server that dies is started again, or another one in its
//! place, and statements do not fail meanwhile.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_engine::RemotePages;
use resurgam_page::PageBuf;
use resurgam_rbio::{Answer, Client, Peer, Request, Role};

/// An answer is waited for for so long, before it is asked for again: the page server may have yet to apply log, or to fetch the page.
const ANSWER: Duration = Duration::from_secs(2);
/// Where there is another one to be asked, for so many times what an answer takes of late, but so long at least.
const SLOW: u32 = 50;
const ANSWER_LEAST: Duration = Duration::from_millis(100);
/// A server that has failed is left alone for so long at first, and at most.
const ALONE_FIRST: Duration = Duration::from_millis(20);
const ALONE_MAX: Duration = Duration::from_secs(1);
/// Between two looks for a server that may be asked again.
const LOOK: Duration = Duration::from_millis(10);
/// Every so many requests another server is asked than the best one: it may have become better.
const EXPLORE: u64 = 64;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct PageClientConfig {
    /// A reader waits for a page for so long when no page server answers; then its statement fails.
    pub patience: Duration,
}

impl Default for PageClientConfig {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60) }
    }
}

/// A page server, as the primary sees it.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    pub address: String,
    /// Pages that it has given, and requests that have failed.
    pub pages: u64,
    pub failures: u64,
    /// A moving mean of what an answer took.
    pub latency: Duration,
    /// Why it is left alone now.
    pub error: Option<String>,
}

#[derive(Default)]
struct Health {
    pages: u64,
    failures: u64,
    latency: Duration,
    /// In a row.
    failed: u32,
    alone_until: Option<Instant>,
    error: Option<Error>,
}

struct Replica {
    client: Client,
    health: Mutex<Health>,
}

/// See the module.
pub(crate) struct PageClient {
    replicas: Vec<Replica>,
    config: PageClientConfig,
    asked: std::sync::atomic::AtomicU64,
}

impl PageClient {
    /// Nothing is connected yet.
    pub fn new(addresses: &[String], database: [u8; 16], config: PageClientConfig) -> Self {
        let me = Peer { role: Role::Primary, database };
        let replicas =
            addresses.iter().map(|address| Replica { client: Client::new(address, me), health: Mutex::default() });
        Self { replicas: replicas.collect(), config, asked: Default::default() }
    }

    pub fn status(&self) -> Vec<ReplicaStatus> {
        self.replicas
            .iter()
            .map(|replica| {
                let health = replica.health.lock();
                ReplicaStatus {
                    address: replica.client.address().to_owned(),
                    pages: health.pages,
                    failures: health.failures,
                    latency: health.latency,
                    error: health.error.as_ref().map(ToString::to_string),
                }
            })
            .collect()
    }

    /// The best one of those that are not left alone, and how long to wait for its answer.
    fn choose(&self) -> Option<(&Replica, Duration)> {
        let now = Instant::now();
        let others = self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut up: Vec<_> = self
            .replicas
            .iter()
            .filter_map(|replica| {
                let health = replica.health.lock();
                let alone = health.alone_until.is_some_and(|until| until > now);
                (!alone).then_some((health.latency, replica))
            })
            .collect();
        let explored = (others % EXPLORE == EXPLORE - 1 && !up.is_empty())
            .then(|| up.swap_remove((others / EXPLORE) as usize % up.len()));
        let is_one_of_many = up.len() + usize::from(explored.is_some()) > 1;
        let (latency, replica) = explored.or_else(|| up.into_iter().min_by_key(|(latency, _)| *latency))?;
        let time = if is_one_of_many { (latency * SLOW).clamp(ANSWER_LEAST, ANSWER) } else { ANSWER };
        Some((replica, time))
    }
}

impl Replica {
    fn ask(&self, page: PageId, at_least: Lsn, time: Duration, buf: &mut PageBuf) -> Result<()> {
        // It says that it has not applied enough before it is given up on.
        let wait_ms = (time / 2).as_millis() as u32;
        let request = Request::GetPage { page, at_least, have: Lsn::NONE, wait_ms };
        let begun = Instant::now();
        let outcome = match self.client.call(&request, time) {
            Ok(Answer::Page(bytes)) if bytes.len() == PAGE_SIZE => {
                buf.as_bytes_mut().copy_from_slice(&bytes);
                // The reader looks at it once more. Here it is so that another server is asked for a good one.
                buf.verify(page).map_err(|fault| Error::corrupt(format!("page {page}: {fault}")))
            }
            Ok(_) => Err(Error::corrupt("an answer that is no page")),
            Err(error) => Err(error),
        };
        let mut health = self.health.lock();
        match &outcome {
            Ok(()) => {
                if health.failed > 0 {
                    tracing::info!("the page server at {} answers again", self.client.address());
                }
                let took = begun.elapsed();
                let mean = if health.pages == 0 { took } else { (health.latency * 7 + took) / 8 };
                (health.failed, health.alone_until, health.error) = (0, None, None);
                (health.latency, health.pages) = (mean, health.pages + 1);
            }
            Err(error) => {
                if health.failed == 0 {
                    tracing::warn!("the page server at {} does not give page {page}: {error}", self.client.address());
                }
                let alone = ALONE_FIRST.saturating_mul(1 << health.failed.min(10)).min(ALONE_MAX);
                health.alone_until = Some(Instant::now() + alone);
                health.failed += 1;
                health.failures += 1;
                health.error = Some(error.clone());
            }
        }
        outcome
    }
}

impl RemotePages for PageClient {
    fn get_page(&self, page: PageId, at_least: Lsn, buf: &mut PageBuf) -> Result<()> {
        let until = Instant::now() + self.config.patience;
        let mut corrupt = 0;
        loop {
            let outcome = match self.choose() {
                Some((replica, time)) => replica.ask(page, at_least, time, buf).map_err(|error| {
                    let what = format!(
                        "page {page} was not had from the page server at {}: {}",
                        replica.client.address(),
                        error.message()
                    );
                    Error::new(error.kind(), what)
                }),
                None => {
                    std::thread::sleep(LOOK);
                    if Instant::now() < until {
                        continue;
                    }
                    let last = self.replicas.iter().find_map(|replica| replica.health.lock().error.clone());
                    let last = last.map_or_else(String::new, |error| format!(": {}", error.message()));
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!("page {page} was not had within {:?} from any of {} page servers{last}", self.config.patience, self.replicas.len()),
                    )
                    .with_hint("See that a page server runs, and that it can reach this server; the statement can be tried again."));
                }
            };
            match outcome {
                Ok(()) => return Ok(()),
                // A page that none of them has sound.
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    corrupt += 1;
                    if corrupt > self.replicas.len() {
                        return Err(error);
                    }
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => {}
            }
        }
    }
}
