//! The primary's part: what an open of a database over page servers asks for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_engine::{Had, Log, PageCache, PageServerStatus, PageService, RemotePages};
use resurgam_page::PageBuf;
use resurgam_pageserver::Partitions;
use resurgam_rbio::{Server, ServerConfig, ServerStats, Tls};
use resurgam_rbpex::Rbpex;
use resurgam_vfs::Vfs;

use crate::log_service::{ConsumerStatus, LogService, LogServiceConfig};
use crate::page_client::{PageClient, PageClientConfig, ReplicaStatus};
use crate::zone::LandingZone;

/// Ranges of pages of a page server that are shown.
const RANGES_SHOWN: usize = 8;

/// Settings of a primary.
#[derive(Clone)]
pub struct PrimaryConfig {
    /// Where the log is given to page servers: `host:port`; none: a log service gives it to them.
    pub listen: Option<String>,
    /// Then it knows who they are.
    pub zone: Option<Arc<LandingZone>>,
    /// Where the page servers are.
    pub page_servers: Vec<String>,
    pub log: LogServiceConfig,
    pub pages: PageClientConfig,
    /// Copies of pages on a local disk, below memory; none: there are none.
    pub cache: Option<(Arc<dyn Vfs>, resurgam_rbpex::Config)>,
    /// With which page servers are asked, and ask; none: nothing is encrypted.
    pub tls: Option<Arc<Tls>>,
}

/// What a primary has to do with its page servers.
#[derive(Clone, Debug, Default)]
pub struct PrimaryStatus {
    pub consumers: Vec<ConsumerStatus>,
    pub replicas: Vec<ReplicaStatus>,
    pub server: ServerStats,
    /// The database has so many pages at least.
    pub end: u64,
}

/// The page service of one database: to be given to its options.
pub struct Primary {
    config: PrimaryConfig,
    /// Of the database that is open.
    now: Mutex<Weak<Remote>>,
}

/// While the database is open.
struct Remote {
    pages: PageClient,
    /// Where page servers get the log from; none: from this process.
    zone: Option<Arc<LandingZone>>,
    log: Option<(Arc<LogService>, Server)>,
}

impl Primary {
    /// Nothing is connected, and nothing listens, until the database is opened.
    pub fn new(config: PrimaryConfig) -> Self {
        Self { config, now: Mutex::default() }
    }

    /// What it does now; none: the database is not open.
    pub fn status(&self) -> Option<PrimaryStatus> {
        let remote = self.now.lock().upgrade()?;
        Some(PrimaryStatus {
            consumers: match &self.config.zone {
                Some(zone) => zone.consumers(),
                None => remote.log.iter().flat_map(|(log, _)| log.status()).collect(),
            },
            replicas: remote.pages.status(),
            end: remote.pages.end(),
            server: remote.log.as_ref().map(|(_, server)| server.stats()).unwrap_or_default(),
        })
    }

    /// Where page servers find the log; none: the database is not open.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.now.lock().upgrade().and_then(|remote| remote.log.as_ref().map(|(_, server)| server.address()))
    }
}

impl PageService for Primary {
    fn open(&self, database: [u8; 16], log: &Arc<Log>, first: Lsn) -> Result<Arc<dyn RemotePages>> {
        if self.config.page_servers.is_empty() {
            return Err(Error::new(ErrorKind::InvalidParameter, "no page server is named"));
        }
        let durable = Arc::downgrade(log);
        let durable = move || durable.upgrade().map_or(Lsn(u64::MAX), |log| log.flushed_lsn());
        let log = match &self.config.listen {
            Some(listen) => {
                let service = Arc::new(LogService::new(Arc::clone(log), database, first, self.config.log)?);
                let server = Server::start_with(
                    listen,
                    ServerConfig::default(),
                    self.config.tls.clone(),
                    Arc::clone(&service) as _,
                )?;
                expire_leases(&service)?;
                Some((service, server))
            }
            None => None,
        };
        let Self { config, .. } = self;
        let (tls, durable) = (config.tls.as_ref(), Some(Box::new(durable) as Box<dyn Fn() -> Lsn + Send + Sync>));
        let pages = PageClient::with_log(&config.page_servers, database, config.pages, tls, durable);
        let remote = Arc::new(Remote { pages, zone: config.zone.clone(), log });
        *self.now.lock() = Arc::downgrade(&remote);
        Ok(remote)
    }

    fn cache(&self, database: [u8; 16]) -> Option<Arc<dyn PageCache>> {
        let (vfs, config) = self.config.cache.as_ref()?;
        Some(Rbpex::open(Arc::clone(vfs), config.clone(), database))
    }

    fn status(&self) -> Vec<PageServerStatus> {
        let Some(PrimaryStatus { mut consumers, replicas, end: remote_end, .. }) = Primary::status(self) else {
            return Vec::new();
        };
        let mut all: Vec<PageServerStatus> = replicas
            .into_iter()
            .map(|replica| PageServerStatus {
                pages: replica.pages,
                missing_pages: replica.partitions.as_ref().map(|_| replica.missing),
                page_ranges: replica.partitions.as_ref().map(|of| ranges(of, remote_end)),
                partition_pages: replica.partitions.as_ref().filter(|of| !of.is_all()).map(Partitions::pages),
                partitions: replica.partitions.map(|of| of.to_string()),
                refused: replica.refused,
                gaps: replica.gaps,
                elsewhere: replica.elsewhere,
                failures: replica.failures,
                latency: (replica.pages > 0).then_some(replica.latency),
                load: Some(replica.load.into()),
                applied: replica.applied,
                tried_again: replica.tried_again,
                passed_over: replica.passed_over,
                error: replica.error,
                address: Some(replica.address),
                ..PageServerStatus::default()
            })
            .collect();
        // One that listens where it is asked has that in its name.
        let named = |consumer: &ConsumerStatus, server: &PageServerStatus| {
            server.address.as_ref().is_some_and(|address| consumer.name.ends_with(address.as_str()))
        };
        for server in &mut all {
            if let Some(at) = consumers.iter().position(|consumer| named(consumer, server)) {
                of_consumer(server, consumers.swap_remove(at));
            }
        }
        for consumer in consumers {
            let mut server = PageServerStatus::default();
            of_consumer(&mut server, consumer);
            all.push(server);
        }
        all
    }
}

/// The first ranges of pages, in a database of so many pages; it may grow, and they with it.
fn ranges(of: &Partitions, end: u64) -> String {
    if of.is_all() {
        return "all".into();
    }
    let (ranges, _) = of.ranges(end, RANGES_SHOWN);
    let mut text: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    text.push("…".into());
    text.join(",")
}

fn of_consumer(server: &mut PageServerStatus, consumer: ConsumerStatus) {
    server.name = Some(consumer.name);
    // What it has said itself, with a page, may be newer.
    server.applied = server.applied.max(Some(consumer.position));
    server.durable = Some(consumer.durable);
    server.silent = Some(consumer.silent);
}

/// A thread that forgets consumers, while the database is open.
fn expire_leases(log: &Arc<LogService>) -> Result<()> {
    let each = Duration::from_secs(1).min(log.lease() / 4).max(Duration::from_millis(10));
    let log = Arc::downgrade(log);
    let body = move || {
        while let Some(log) = log.upgrade() {
            log.expire();
            drop(log);
            std::thread::sleep(each);
        }
    };
    std::thread::Builder::new()
        .name("resurgam-leases".into())
        .spawn(body)
        .map(drop)
        .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {e}")))
}

impl Remote {
    /// Page servers are about to be asked for what has this record.
    fn wants(&self, at_least: Lsn) {
        if let Some(zone) = &self.zone {
            zone.wanted(at_least);
        }
    }
}

impl RemotePages for Remote {
    fn get_page(&self, page: PageId, at_least: Lsn, stop: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
        self.wants(at_least);
        self.pages.get_page(page, at_least, stop, buf)
    }

    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        stop: &dyn Fn() -> Result<()>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        self.wants(at_least);
        self.pages.get_page_unless(page, at_least, have, stop, buf)
    }

    fn most_at_once(&self) -> usize {
        self.pages.most_at_once()
    }

    fn get_pages(&self, wanted: &[(PageId, Lsn)], stop: &dyn Fn() -> Result<()>, got: &mut dyn FnMut(usize, &[u8])) {
        self.wants(wanted.iter().map(|(_, at_least)| *at_least).max().unwrap_or_default());
        self.pages.get_pages(wanted, stop, got);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some((log, _)) = &self.log {
            log.close();
        }
    }
}
