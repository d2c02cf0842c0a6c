//! A pool whose pages come from afar: from a page server that is always as far behind as it may be.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, PoolConfig, RemotePages};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{SimVfs, Vfs};

/// Makes pages from the log, and is always as far behind as it may be.
pub struct Behind {
    log: Arc<Log>,
    first: Lsn,
    /// Nothing is answered while it is set.
    pub silent: AtomicBool,
    /// Every other page that is asked for with others is not had.
    pub forgets: AtomicBool,
    pub one_by_one: AtomicU64,
    pub requests: AtomicU64,
}

impl Behind {
    fn make(&self, page: PageId, at_least: Lsn, buf: &mut PageBuf) -> Result<()> {
        buf.as_bytes_mut().fill(0);
        let mut follower = self.log.follow(self.first)?;
        while follower.position() <= at_least {
            let Some(block) = follower.next(Duration::ZERO)? else {
                return Err(Error::new(ErrorKind::Internal, format!("LSN {at_least} is not durable")));
            };
            for record in block.records() {
                let record = record?;
                if record.header.page == page && record.header.kind.is_of_page() {
                    op::apply(buf, page, record.body, record.lsn)?;
                }
            }
        }
        if buf.is_all_zero() {
            return Err(Error::corrupt(format!("page {page} does not exist")));
        }
        buf.seal();
        Ok(())
    }

    fn wait(&self, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        while self.silent.load(Ordering::SeqCst) {
            stop()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl RemotePages for Behind {
    fn get_page(&self, page: PageId, at_least: Lsn, stop: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
        self.one_by_one.fetch_add(1, Ordering::SeqCst);
        self.wait(stop)?;
        self.make(page, at_least, buf)
    }
    fn most_at_once(&self) -> usize {
        128
    }
    fn get_pages(&self, wanted: &[(PageId, Lsn)], stop: &dyn Fn() -> Result<()>, got: &mut dyn FnMut(usize, &[u8])) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if self.wait(stop).is_err() {
            return;
        }
        let mut buf = PageBuf::zeroed();
        for (at, (page, at_least)) in wanted.iter().enumerate() {
            if !(self.forgets.load(Ordering::SeqCst) && at % 2 == 1) && self.make(*page, *at_least, &mut buf).is_ok() {
                got(at, buf.as_bytes());
            }
        }
    }
}

pub struct Afar {
    pub pool: BufferPool,
    pub server: Arc<Behind>,
    pub ids: Vec<PageId>,
}

pub const FRAMES: usize = 128;
pub fn afar() -> Result<Afar> {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    vfs.make_folder(Path::new("/db"))?;
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), config, 1)?;
    let first = log.end_lsn();
    let config = PoolConfig { bytes: FRAMES * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new("/db/data"), Path::new("/db/dw"), Arc::clone(&log), config)?;
    let server = Arc::new(Behind {
        log,
        first,
        silent: AtomicBool::new(false),
        forgets: AtomicBool::new(false),
        one_by_one: AtomicU64::new(0),
        requests: AtomicU64::new(0),
    });
    pool.set_remote(Arc::clone(&server) as Arc<dyn RemotePages>, |work| work(), first, &[]);
    pool.set_read_ahead(128);
    pool.space().restore(1);
    let ids = (0..400u32).map(|n| new_page(&pool, n)).collect::<Result<_>>()?;
    pool.write_all()?;
    Ok(Afar { pool, server, ids })
}

pub fn new_page(pool: &BufferPool, content: u32) -> Result<PageId> {
    let mut mtr = Mtr::new(pool);
    let (id, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
    let ops = mtr.ops(at);
    op::format(ops, PageType::Version, 0, ObjectId(9), &[], None);
    let mut record = vec![0; 12];
    record[4] = 1;
    record.extend_from_slice(&resurgam_page::LeafBuilder::plain(b"k", &content.to_le_bytes()).encode()?);
    op::insert(ops, SlotId(0), &record);
    mtr.commit()?;
    Ok(id)
}

impl Afar {
    pub fn content(&self, n: usize) -> Result<u32> {
        let page = self.pool.read(self.ids[n], Access::Scan)?;
        let record = resurgam_page::version::VersionRecord::parse(page.record(SlotId(0))?)?;
        Ok(u32::from_le_bytes(record.record.value.try_into().expect("four bytes")))
    }
    /// The flag of a page that [`Afar::mark`] sets.
    pub fn is_marked(&self, n: usize) -> Result<bool> {
        Ok(self.pool.read(self.ids[n], Access::Scan)?.has_versions())
    }
    pub fn mark(&self, n: usize) -> Result<Lsn> {
        let mut mtr = Mtr::new(&self.pool);
        let at = mtr.add(self.pool.write(self.ids[n], Access::Point)?);
        op::set_flags(mtr.ops(at), resurgam_page::buf::HAS_VERSIONS, 0);
        mtr.commit().map(|_| self.pool.log().end_lsn())
    }
    /// Has other pages take the place of these.
    pub fn evict(&self, ids: std::ops::Range<usize>) -> Result<()> {
        self.pool.write_all()?;
        for _ in 0..20 {
            for n in (0..self.ids.len()).filter(|n| !ids.contains(n)) {
                drop(self.pool.read(self.ids[n], Access::Point)?);
            }
            if self.ids[ids.clone()].iter().all(|id| !self.pool.is_resident(*id)) {
                return Ok(());
            }
        }
        panic!("they stay");
    }
    pub fn ask(&self, ids: std::ops::Range<usize>) {
        self.pool.ask_ahead(self.ids[ids].to_vec());
    }
}
