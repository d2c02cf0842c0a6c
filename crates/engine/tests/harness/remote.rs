//! A page server beside the database, or several with some of the pages each, on a disk of their own: they die and come back with it, and
//! their pages are compared with what archive and backups make.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_archive::{Archive, PageBase, PageMaker};
use resurgam_engine::{Error, ErrorKind, Had, Log, Lsn, PageCache, PageId, PageService, RemotePages, Result};
use resurgam_page::PageBuf;
use resurgam_pageserver::{ArchiveSeed, LogTail, PageServer, PageServerConfig, Partitions, Seed};
use resurgam_rbpex::{Config, Rbpex};
use resurgam_vfs::{OpenMode, Vfs};
use resurgam_xstore::{FolderStore, Store};

use super::schedule::{ARCHIVE, BACKUPS, PAGES};

/// A mistake that must be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedInPages {
    #[default]
    None,
    /// A page is given without waiting for the log that it was asked for with.
    NoWait,
    /// A block short of it.
    WaitShort,
    /// The mark is written, and the pages are not.
    EarlyMark,
    /// Of several: what is left out for one has blocks that matter to it.
    Drops,
    /// Of several: a page is given by one that does not have it.
    Elsewhere,
}

/// What an open of the database asks for its pages.
pub struct Beside {
    vfs: Arc<dyn Vfs>,
    planted: PlantedInPages,
    /// What each server has.
    partitions: Vec<Partitions>,
    /// What is between it and memory, if anything is.
    cache: Option<Config>,
    /// Of the last open.
    pub now: Mutex<Option<Arc<Pages>>>,
    pub cached: Cached,
}

/// The cache of the last open.
type Cached = Arc<Mutex<Option<Arc<Rbpex>>>>;

/// Page servers and the log that they follow, driven by who asks for pages. One whose file has failed is made anew.
pub struct Pages {
    servers: Vec<Server>,
    planted: PlantedInPages,
    cached: Cached,
    /// Writes the cache's files out, as a system does sooner or later.
    write_out: Box<dyn Fn() + Send + Sync>,
    asked: AtomicU64,
    /// Pages that were given before anybody needed them.
    pub ahead: AtomicU64,
}

struct Server {
    partitions: Partitions,
    open: Box<dyn Fn() -> Result<(Arc<PageServer>, LogTail)> + Send + Sync>,
    now: Mutex<Option<(Arc<PageServer>, LogTail)>>,
}

/// The folder of one of so many servers.
pub fn folder(number: usize, count: usize) -> String {
    if count == 1 { PAGES.to_owned() } else { format!("{PAGES}-{number}") }
}

fn store(vfs: &Arc<dyn Vfs>, place: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(FolderStore::open(Arc::clone(vfs), Path::new(place)).map_err(Error::from)?))
}

impl Beside {
    pub fn new(vfs: Arc<dyn Vfs>, planted: PlantedInPages, partitions: Vec<Partitions>, cache: Option<Config>) -> Self {
        Self { vfs, planted, partitions, cache, now: Mutex::default(), cached: Cached::default() }
    }
}

impl PageService for Beside {
    fn open(&self, database: [u8; 16], log: &Arc<Log>, first: Lsn) -> Result<Arc<dyn RemotePages>> {
        let (vfs, dir) = (Arc::clone(&self.vfs), self.cache.as_ref().map(|cache| cache.dir.clone()));
        let write_out = move || {
            for path in dir.iter().flat_map(|dir| [dir.join("pages"), dir.join("directory")]) {
                let _ = vfs.open(&path, OpenMode::ReadWrite).and_then(|file| file.sync());
            }
        };
        let mut servers = Vec::new();
        let count = self.partitions.len();
        // They are others at some opens: a number of the schedule's own, without a draw from it.
        let turn = (log.flushed_lsn().0 / 512).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let turn = if turn.is_multiple_of(2) { 0 } else { turn as usize / 2 };
        for number in 0..count {
            let partitions = &self.partitions[(number + turn) % count];
            let (vfs, log, planted) = (Arc::clone(&self.vfs), Arc::clone(log), self.planted);
            let (place, of) = (folder(number, count), partitions.clone());
            let open = move || {
                let seed = ArchiveSeed::new(store(&vfs, ARCHIVE)?, Some(store(&vfs, BACKUPS)?), database, first);
                let config = PageServerConfig {
                    memory_bytes: 0,
                    partitions: of.clone(),
                    gives_any: planted == PlantedInPages::Elsewhere,
                    early_mark: planted == PlantedInPages::EarlyMark,
                };
                let seed: Arc<dyn Seed> = Arc::new(seed);
                let (vfs, place) = (Arc::clone(&vfs), Path::new(&place));
                let server = Arc::new(PageServer::open(vfs, place, database, first, Some(seed), config)?);
                let mut tail = LogTail::new(Arc::clone(&server), Arc::clone(&log))?;
                if !of.is_all() {
                    tail.filter((planted == PlantedInPages::Drops).then_some(23));
                }
                Ok((server, tail))
            };
            let now = Mutex::new(Some(open()?));
            servers.push(Server { partitions: partitions.clone(), open: Box::new(open), now });
        }
        let pages = Arc::new(Pages {
            servers,
            planted: self.planted,
            cached: Arc::clone(&self.cached),
            write_out: Box::new(write_out),
            asked: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
        });
        *self.now.lock() = Some(Arc::clone(&pages));
        Ok(pages)
    }

    fn cache(&self, database: [u8; 16]) -> Option<Arc<dyn PageCache>> {
        let cache = Rbpex::open(Arc::clone(&self.vfs), self.cache.clone()?, database);
        *self.cached.lock() = Some(Arc::clone(&cache));
        Some(cache)
    }
}

impl Server {
    /// The server of now, which is made anew if its file has failed.
    fn with<T>(&self, call: impl FnOnce(&PageServer, &mut LogTail) -> Result<T>) -> Result<T> {
        let mut now = self.now.lock();
        if now.as_ref().is_some_and(|(server, _)| server.has_failed()) {
            *now = None;
        }
        if now.is_none() {
            *now = Some((self.open)()?);
        }
        match &mut *now {
            Some((server, tail)) => call(server, tail),
            None => Err(Error::new(ErrorKind::Internal, "no page server")),
        }
    }

    /// Applies what is durable.
    pub fn catch_up(&self) -> Result<()> {
        self.with(|_, tail| {
            loop {
                match tail.step(Duration::ZERO) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) if error.kind() == ErrorKind::Stopped => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// The server, to be looked at.
    fn server(&self) -> Result<Arc<PageServer>> {
        self.catch_up()?;
        let now = self.now.lock();
        now.as_ref()
            .map(|(server, _)| Arc::clone(server))
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no page server"))
    }
}

impl Pages {
    /// Applies what is durable.
    pub fn catch_up(&self) -> Result<()> {
        self.servers.iter().try_for_each(Server::catch_up)
    }

    /// Who has the page.
    fn of(&self, page: PageId) -> Result<&Server> {
        let has = |server: &&Server| server.partitions.covers(page);
        self.servers.iter().find(has).ok_or_else(|| Error::new(ErrorKind::Internal, "nobody has the page"))
    }
}

impl RemotePages for Pages {
    fn get_page(&self, page: PageId, at_least: Lsn, _: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
        self.get(page, at_least, buf)
    }

    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        _: &dyn Fn() -> Result<()>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        self.get(page, at_least, buf)?;
        if buf.lsn() == have {
            // Nothing comes with that answer.
            buf.as_bytes_mut().fill(0);
            return Ok(Had::NotModified);
        }
        Ok(Had::Page)
    }

    fn most_at_once(&self) -> usize {
        128
    }

    fn get_pages(&self, wanted: &[(PageId, Lsn)], _: &dyn Fn() -> Result<()>, got: &mut dyn FnMut(usize, &[u8])) {
        let mut buf = PageBuf::zeroed();
        for (at, (page, at_least)) in wanted.iter().enumerate() {
            // Some do not come.
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            if asked % 7 != 5 && self.get(*page, *at_least, &mut buf).is_ok() {
                self.ahead.fetch_add(1, Ordering::Relaxed);
                got(at, buf.as_bytes());
            }
        }
    }
}

impl Pages {
    fn get(&self, page: PageId, at_least: Lsn, buf: &mut PageBuf) -> Result<()> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        // What waits to be written into the cache is written now and then, and finds no room otherwise.
        let cache = self.cached.lock().clone();
        if let Some(cache) = cache {
            cache.work([0, 1, 3, 20][asked as usize % 4]);
            if asked % 6 == 1 {
                (self.write_out)();
            }
        }
        let wanted = match self.planted {
            PlantedInPages::NoWait => Lsn::NONE,
            PlantedInPages::WaitShort => Lsn(at_least.0.saturating_sub(512)),
            _ => at_least,
        };
        // One that does not have it, now and then.
        let other =
            (self.planted == PlantedInPages::Elsewhere && asked % 9 == 4).then(|| self.servers.last()).flatten();
        let of = other.map_or_else(|| self.of(page), Ok)?;
        of.with(|server, tail| {
            if asked % 5 == 2 {
                tail.checkpoint()?;
            }
            if asked % 11 == 3 {
                server.fill(1)?;
            }
            // A server that is behind as far as it may be.
            while server.position() <= wanted {
                if !tail.step(Duration::ZERO)? {
                    let what = format!("page {page} is asked for with LSN {at_least}, which is not durable");
                    return Err(Error::new(ErrorKind::Internal, what));
                }
            }
            server.get_page(page, wanted, Duration::ZERO, buf)
        })
    }
}

/// That the page server has what archive and backups make, page by page. Returns how many were compared.
pub fn compare(vfs: &Arc<dyn Vfs>, pages: &Pages, first: Lsn) -> std::result::Result<u64, String> {
    let told = |e: Error| format!("the page server at last: {e}");
    let mut servers = Vec::new();
    for of in &pages.servers {
        let server = of.server().map_err(told)?;
        while server.fill(4).map_err(told)? > 0 {}
        if pages.planted == PlantedInPages::Drops && server.stats().gaps > 0 {
            return Err("a record that was left out was noticed".into());
        }
        servers.push(server);
    }
    let view = Archive::open_view(store(vfs, ARCHIVE).map_err(told)?, None).map_err(told)?.ok_or("no archive")?;
    if let Some(server) = servers.iter().find(|server| server.position() < view.end()) {
        return Err(format!("a page server is at LSN {}, the archive at {}", server.position(), view.end()));
    }
    let backups = store(vfs, BACKUPS).map_err(told)?;
    let base = PageBase::newest(Some(&backups), &view, view.end(), first).map_err(told)?;
    let maker = PageMaker::new(base, Arc::clone(&view), Lsn(view.end().0 - 1)).map_err(told)?;
    let mut made: Vec<PageBuf> = (0..1024).map(|_| PageBuf::zeroed()).collect();
    maker.make(PageId(1), &mut made).map_err(told)?;
    let mut compared = 0;
    for (i, made) in made.iter().enumerate() {
        let (id, mut page) = (PageId(1 + i as u64), PageBuf::zeroed());
        let mut having = servers.iter().filter(|server| server.partitions().covers(id));
        let (Some(server), None) = (having.next(), having.next()) else {
            return Err(format!("page {id} is not with one page server"));
        };
        match server.get_page(id, Lsn::NONE, Duration::ZERO, &mut page) {
            // It has log that the archive does not have yet.
            Ok(()) if page.lsn() >= view.end() => {}
            Ok(()) if page.as_bytes() == made.as_bytes() => compared += 1,
            Ok(()) => return Err(format!("page {id} is as of LSN {}, it is made as of {}", page.lsn(), made.lsn())),
            Err(_) if made.is_all_zero() => {}
            Err(error) => return Err(format!("page {id}: {error}")),
        }
    }
    Ok(compared)
}
