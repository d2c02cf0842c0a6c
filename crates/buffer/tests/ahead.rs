//! Pages from afar: asked for ahead, and waits for them that are given up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{
    Access, BufferPool, Copied, Mtr, PageCache, PageCacheStatus, Patience, Planted, PoolConfig, RemotePages,
};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{SimVfs, Vfs};

/// Makes pages from the log, and is always as far behind as it may be.
struct Behind {
    log: Arc<Log>,
    first: Lsn,
    /// Nothing is answered while it is set.
    silent: AtomicBool,
    /// Every other page that is asked for with others is not had.
    forgets: AtomicBool,
    one_by_one: AtomicU64,
    requests: AtomicU64,
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

struct Afar {
    pool: BufferPool,
    server: Arc<Behind>,
    ids: Vec<PageId>,
}

const FRAMES: usize = 128;
/// Half of an eighth.
const AHEAD_MAX: u64 = FRAMES as u64 / 16;

fn afar() -> Result<Afar> {
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

fn new_page(pool: &BufferPool, content: u32) -> Result<PageId> {
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
    fn content(&self, n: usize) -> Result<u32> {
        let page = self.pool.read(self.ids[n], Access::Scan)?;
        let record = resurgam_page::version::VersionRecord::parse(page.record(SlotId(0))?)?;
        Ok(u32::from_le_bytes(record.record.value.try_into().expect("four bytes")))
    }
    /// The flag of a page that [`Afar::mark`] sets.
    fn is_marked(&self, n: usize) -> Result<bool> {
        Ok(self.pool.read(self.ids[n], Access::Scan)?.has_versions())
    }
    fn mark(&self, n: usize) -> Result<Lsn> {
        let mut mtr = Mtr::new(&self.pool);
        let at = mtr.add(self.pool.write(self.ids[n], Access::Point)?);
        op::set_flags(mtr.ops(at), resurgam_page::buf::HAS_VERSIONS, 0);
        mtr.commit().map(|_| self.pool.log().end_lsn())
    }
    /// Has other pages take the place of these.
    fn evict(&self, ids: std::ops::Range<usize>) -> Result<()> {
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
    fn ask(&self, ids: std::ops::Range<usize>) {
        self.pool.ask_ahead(self.ids[ids].to_vec());
    }
}

fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not come to that");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn pages_that_came_ahead_are_used() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..8)?;
    let before = afar.server.one_by_one.load(Ordering::SeqCst);
    afar.ask(0..4);
    assert_eq!(afar.server.requests.load(Ordering::SeqCst), 1, "all in one");
    for n in 0..4 {
        assert!(afar.pool.is_resident(afar.ids[n]));
        assert_eq!(afar.content(n)?, n as u32);
    }
    assert_eq!(afar.server.one_by_one.load(Ordering::SeqCst), before);
    // What is there is not asked for again, and what was used is not counted twice.
    afar.ask(0..4);
    assert_eq!(afar.content(1)?, 1);
    let stats = afar.pool.stats();
    assert_eq!((stats.ahead_asked, stats.ahead_used, stats.ahead_wasted, stats.ahead_not_had), (4, 4, 0, 0));
    Ok(())
}

#[test]
fn what_is_asked_for_ahead_is_bounded_and_goes_first() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..100)?;
    let hot: Vec<_> = afar.ids.iter().filter(|id| afar.pool.is_resident(**id)).copied().take(60).collect();
    for _ in 0..3 {
        hot.iter().try_for_each(|id| afar.pool.read(*id, Access::Point).map(drop))?;
    }
    afar.ask(0..100);
    afar.ask(50..100);
    assert_eq!(afar.pool.stats().ahead_asked, AHEAD_MAX);
    // Scans take the place of those that nobody used.
    for n in 20..100 {
        assert_eq!(afar.content(n)?, n as u32);
    }
    let stats = afar.pool.stats();
    assert_eq!((stats.ahead_used, stats.ahead_wasted), (0, AHEAD_MAX), "{stats:?}");
    let stay = hot.iter().filter(|id| afar.pool.is_resident(**id)).count();
    assert!(stay > 55, "{stay} of 60 that are used stay");
    afar.ask(0..4);
    assert_eq!(afar.pool.stats().ahead_asked, AHEAD_MAX + 4, "there is room again");
    Ok(())
}

#[test]
fn they_are_as_new_as_others() -> Result<()> {
    let afar = afar()?;
    for round in 0..3 {
        for n in 0..4 {
            afar.mark(n)?;
        }
        // In memory, and newer than what the server has.
        afar.ask(0..4);
        assert!(afar.is_marked(2)?, "round {round}");
        afar.evict(0..4)?;
        afar.ask(0..4);
        for n in 0..4 {
            assert!(afar.pool.is_resident(afar.ids[n]) && afar.is_marked(n)?, "round {round}, page {n}");
        }
        afar.evict(0..4)?;
    }
    assert!(afar.pool.stats().ahead_used >= 12);
    Ok(())
}

#[test]
fn what_does_not_come_is_no_error() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..8)?;
    afar.server.forgets.store(true, Ordering::SeqCst);
    afar.ask(0..4);
    // A page that nobody has, none, and one that is no page's number.
    afar.pool.ask_ahead(vec![PageId(1 << 30), PageId::NONE, afar.ids[4]]);
    assert!(!afar.pool.is_resident(PageId(1 << 30)) && !afar.pool.is_resident(afar.ids[1]));
    for n in 0..8 {
        assert_eq!(afar.content(n)?, n as u32);
    }
    let stats = afar.pool.stats();
    assert_eq!(stats.ahead_asked, stats.ahead_used + stats.ahead_not_had, "{stats:?}");
    assert!(stats.ahead_not_had >= 3, "{stats:?}");
    Ok(())
}

#[test]
fn who_needs_a_page_that_is_on_its_way_waits_for_it() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..4)?;
    let before = afar.server.one_by_one.load(Ordering::SeqCst);
    afar.server.silent.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| afar.ask(0..4));
        until(|| afar.pool.is_resident(afar.ids[3]));
        let reader = scope.spawn(|| afar.content(3));
        // One that is told to stop does.
        let stopped = Patience::new(|| Err(Error::new(ErrorKind::Cancelled, "stop")));
        let begun = Instant::now();
        let error = stopped.during(|| afar.content(2)).expect_err("it was stopped");
        assert!(error.kind() == ErrorKind::Cancelled && begun.elapsed() < Duration::from_secs(5), "{error}");
        assert!(!reader.is_finished());
        afar.server.silent.store(false, Ordering::SeqCst);
        assert_eq!(reader.join().expect("no panic")?, 3);
        Ok(())
    })?;
    assert_eq!(afar.content(2)?, 2);
    assert_eq!(afar.server.one_by_one.load(Ordering::SeqCst), before);
    assert_eq!(afar.pool.stats().page_waits_given_up, 1);
    Ok(())
}

/// Who loads a page, and who waits for him, give up; who may not waits on, and has it in the end.
#[test]
fn waits_are_given_up() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..4)?;
    let stop = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let patience: Vec<_> = (0..2)
        .map(|n| {
            let stop = Arc::clone(&stop);
            Patience::new(move || match stop[n].load(Ordering::SeqCst) {
                true => Err(Error::new(ErrorKind::Cancelled, "stop")),
                false => Ok(()),
            })
        })
        .collect();
    for round in 0..3 {
        afar.evict(0..4)?;
        stop.iter().for_each(|stop| stop.store(false, Ordering::SeqCst));
        afar.server.silent.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let (afar, patience) = (&afar, &patience);
            let loader = scope.spawn(move || patience[0].during(|| afar.content(0)));
            until(|| afar.pool.is_resident(afar.ids[0]));
            let waiter = scope.spawn(move || patience[1].during(|| afar.content(0)));
            let to_the_end = scope.spawn(|| afar.content(0));
            until(|| patience.iter().all(|patience| patience.waiting() == 1));
            // In both orders.
            let (first, second) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            let mut threads = [Some(loader), Some(waiter)];
            for n in [first, second] {
                stop[n].store(true, Ordering::SeqCst);
                let outcome = threads[n].take().expect("one each").join().expect("no panic");
                assert_eq!(outcome.expect_err("it was stopped").kind(), ErrorKind::Cancelled);
                assert!(!to_the_end.is_finished());
            }
            afar.server.silent.store(false, Ordering::SeqCst);
            assert_eq!(to_the_end.join().expect("no panic").expect("the page"), 0);
        });
        assert_eq!(patience[0].waiting() + patience[1].waiting(), 0);
        assert!(afar.pool.failing_since(afar.ids[0]).is_none(), "nothing is known of that");
    }
    assert_eq!(afar.pool.stats().page_waits_given_up, 6);
    // Changes are not stopped.
    stop[0].store(true, Ordering::SeqCst);
    afar.evict(0..4)?;
    patience[0].during(|| afar.mark(0))?;
    assert!(afar.is_marked(0)?);
    Ok(())
}

/// Says how new the copies are that it is told of.
#[derive(Default)]
struct Told(parking_lot::Mutex<Vec<Lsn>>);

impl PageCache for Told {
    fn find(&self, _: PageId, _: &mut PageBuf) -> Option<Copied> {
        None
    }
    fn evicted(&self, _: PageId, content: &PageBuf, as_of: Lsn, _: bool) {
        assert!(content.lsn() < as_of);
        self.0.lock().push(as_of);
    }
    fn confirmed(&self, _: PageId, _: Lsn) {}
    fn refuted(&self, _: PageId) {}
    fn note_current(&self, as_of: Lsn, is_current: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool) {
        assert!(is_current(PageId(1 << 20), Lsn(1), None), "it is not in memory");
        self.0.lock().push(as_of);
    }
    fn status(&self) -> PageCacheStatus {
        unimplemented!("nobody looks")
    }
    fn close(&self) {}
}

/// What is said of a copy is true whatever a power loss takes: it goes as far as the log is durable.
#[test]
fn copies_are_as_of_what_is_durable() -> Result<()> {
    for planted in [Planted::None, Planted::CopyBeyondDurable] {
        let afar = afar()?;
        let told = Arc::new(Told::default());
        afar.pool.set_page_cache(Arc::clone(&told) as Arc<dyn PageCache>);
        // A change that is not durable yet.
        let changed = new_page(&afar.pool, 9)?;
        let (durable, end) = (afar.pool.log().flushed_lsn(), afar.pool.log().end_lsn());
        assert!(durable < end);
        planted.plant();
        afar.pool.evict_all();
        afar.pool.note_cached();
        Planted::None.plant();
        assert!(afar.pool.is_resident(changed), "it may not leave memory");
        let told = told.0.lock();
        assert!(told.len() > 10, "{} copies", told.len());
        let is_true = told.iter().all(|as_of| *as_of <= durable);
        assert_eq!(is_true, planted == Planted::None, "{planted:?}");
    }
    Ok(())
}
