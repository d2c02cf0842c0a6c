//! Pages whose place in the file is of no use: rebuilt from their history, or refused, never served.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, PageHistory, PoolConfig, Rebuild, Repair, WriteGoal};
use resurgam_log::{Log, LogConfig, LogHold};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const DATA: &str = "/db/data";

fn open(sim: &SimVfs) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    vfs.make_folder(Path::new("/db"))?;
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), config, 1)?;
    let config = PoolConfig { bytes: 64 * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new("/db/dw"), log, config)?;
    pool.space().restore(1);
    Ok(pool)
}

fn new_page(pool: &BufferPool, content: &[u8]) -> Result<PageId> {
    let mut mtr = Mtr::new(pool);
    let (id, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
    let ops = mtr.ops(at);
    op::format(ops, PageType::Version, 0, ObjectId(9), &[], None);
    op::insert(ops, SlotId(0), &record_of(content)?);
    mtr.commit()?;
    Ok(id)
}

fn record_of(content: &[u8]) -> Result<Vec<u8>> {
    let mut record = vec![0; 12];
    record[4] = 1;
    record.extend_from_slice(&resurgam_page::LeafBuilder::plain(b"k", content).encode()?);
    Ok(record)
}

fn change(pool: &BufferPool, id: PageId, content: &[u8]) -> Result<()> {
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(pool.write(id, Access::Point)?);
    op::replace(mtr.ops(at), SlotId(0), &record_of(content)?);
    mtr.commit().map(|_| ())
}

fn content(pool: &BufferPool, id: PageId) -> Result<Vec<u8>> {
    let page = pool.read(id, Access::Point)?;
    let record = resurgam_page::version::VersionRecord::parse(page.record(SlotId(0))?)?;
    Ok(record.record.value.to_vec())
}

/// Has every other page go through memory.
fn evict(pool: &BufferPool, id: PageId) -> Result<()> {
    pool.write_all()?;
    for i in 0..200u32 {
        if !pool.is_resident(id) {
            return Ok(());
        }
        new_page(pool, &i.to_le_bytes())?;
    }
    Err(Error::internal("the page does not leave memory"))
}

fn in_file(sim: &SimVfs, id: PageId) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE_SIZE];
    sim.open(Path::new(DATA), OpenMode::ReadOnly)?.read_at(&mut bytes, id.0 * PAGE_SIZE as u64)?;
    Ok(bytes)
}

fn overwrite(sim: &SimVfs, id: PageId, bytes: &[u8]) -> Result<()> {
    sim.open(Path::new(DATA), OpenMode::ReadWrite)?.write_at(bytes, id.0 * PAGE_SIZE as u64)
}

fn lsn_of(bytes: &[u8]) -> Lsn {
    let mut page = PageBuf::zeroed();
    page.as_bytes_mut().copy_from_slice(bytes);
    page.lsn()
}

/// The log as history, with what a test has it lack.
#[derive(Default)]
struct History {
    log: Option<Arc<Log>>,
    /// Records before that are gone.
    from: Mutex<Lsn>,
    base: Mutex<Option<Vec<u8>>>,
    /// The record that is missing, counted from the last one.
    missing: Mutex<Option<usize>>,
    unreadable: AtomicBool,
    repairs: Mutex<Vec<Repair>>,
}

impl PageHistory for History {
    fn base(&self, _: PageId, buf: &mut PageBuf) -> Result<Option<Lsn>> {
        let base = self.base.lock();
        if let Some(bytes) = &*base {
            buf.as_bytes_mut().copy_from_slice(bytes);
        }
        Ok(base.is_some().then_some(Lsn::NONE))
    }
    fn records(&self, page: PageId, after: Lsn, onto: &mut Rebuild<'_>) -> Result<Option<LogHold>> {
        if self.unreadable.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Io, "the archive cannot be reached"));
        }
        let Some(log) = &self.log else { return Ok(None) };
        let after = after.max(*self.from.lock());
        let mut records = Vec::new();
        let mut follower = log.follow(log.oldest_lsn())?;
        while let Some(block) = follower.next(Duration::ZERO)? {
            for record in block.records() {
                let record = record?;
                if record.header.kind.is_of_page() && record.header.page == page && record.lsn > after {
                    records.push(record.to_owned());
                }
            }
        }
        if let Some(missing) = *self.missing.lock() {
            records.remove(records.len() - 1 - missing);
        }
        for record in &records {
            onto.apply(record.lsn, record.header.prev_page, &record.body);
        }
        log.hold("the repair", log.oldest_lsn()).map(Some)
    }
    fn repaired(&self, repair: &Repair) {
        self.repairs.lock().push(repair.clone());
    }
}

/// A page with three values one after the other, out of memory; and what the file held of it as of the first.
fn page_with_a_past(sim: &SimVfs, history: bool) -> Result<(BufferPool, Arc<History>, PageId, Vec<u8>)> {
    let pool = open(sim)?;
    let history_of = Arc::new(History { log: Some(Arc::clone(pool.log())), ..History::default() });
    if history {
        pool.set_history(Arc::clone(&history_of) as Arc<dyn PageHistory>);
    }
    let id = new_page(&pool, b"one")?;
    pool.write_all()?;
    let old = in_file(sim, id)?;
    change(&pool, id, b"two")?;
    change(&pool, id, b"three")?;
    evict(&pool, id)?;
    Ok((pool, history_of, id, old))
}

#[test]
fn a_damaged_page_is_rebuilt_from_its_records() -> Result<()> {
    for damage in [vec![0xEE; PAGE_SIZE], vec![0; PAGE_SIZE]] {
        let sim = SimVfs::new(1);
        let (pool, history, id, _) = page_with_a_past(&sim, true)?;
        overwrite(&sim, id, &damage)?;
        assert_eq!(content(&pool, id)?, b"three");
        assert_eq!(pool.stats().repaired_pages, 1);
        let repairs = history.repairs.lock();
        assert_eq!((repairs.len(), repairs[0].page, repairs[0].records), (1, id, 3));
        assert_eq!(repairs[0].path, Path::new(DATA));
        // It counts as dirty, and reaches the file again.
        pool.write_all()?;
        drop(repairs);
        evict(&pool, id)?;
        assert_eq!(content(&pool, id)?, b"three");
        assert_eq!(pool.stats().repaired_pages, 1);
    }
    Ok(())
}

#[test]
fn a_lost_write_is_noticed_and_made_good() -> Result<()> {
    let sim = SimVfs::new(1);
    let (pool, history, id, old) = page_with_a_past(&sim, true)?;
    overwrite(&sim, id, &old)?;
    // What is in the file is the base: its own making is not needed.
    *history.from.lock() = lsn_of(&old);
    assert_eq!(content(&pool, id)?, b"three");
    assert_eq!((pool.stats().repaired_pages, pool.stats().lost_writes), (1, 1));
    assert!(history.repairs.lock()[0].fault.contains("lost a write"), "{:?}", history.repairs.lock());
    Ok(())
}

#[test]
fn a_misdirected_write_is_two_damaged_pages() -> Result<()> {
    let sim = SimVfs::new(1);
    let (pool, _, id, old) = page_with_a_past(&sim, true)?;
    let other = new_page(&pool, b"other")?;
    evict(&pool, other)?;
    overwrite(&sim, other, &in_file(&sim, id)?)?;
    overwrite(&sim, id, &old)?;
    assert_eq!(content(&pool, id)?, b"three");
    assert_eq!(content(&pool, other)?, b"other");
    assert_eq!((pool.stats().repaired_pages, pool.stats().lost_writes), (2, 1));
    Ok(())
}

#[test]
fn without_a_history_it_is_an_error() -> Result<()> {
    let sim = SimVfs::new(1);
    let (pool, _, id, old) = page_with_a_past(&sim, false)?;
    let right = in_file(&sim, id)?;
    for (bytes, what) in [(old, "lost a write"), (vec![7; PAGE_SIZE], "checksum")] {
        overwrite(&sim, id, &bytes)?;
        let error = content(&pool, id).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(what) && error.message().contains(DATA), "{error}");
    }
    overwrite(&sim, id, &right)?;
    assert_eq!(content(&pool, id)?, b"three", "the error is not kept");
    Ok(())
}

#[test]
fn an_image_from_elsewhere_is_the_base() -> Result<()> {
    let sim = SimVfs::new(1);
    let (pool, history, id, old) = page_with_a_past(&sim, true)?;
    let as_of = lsn_of(&old);
    overwrite(&sim, id, &[0xEE; PAGE_SIZE])?;
    // Of the log only what is behind the image is left: without the image that is not enough.
    *history.from.lock() = as_of;
    let error = content(&pool, id).expect_err("there is no base");
    assert!(error.message().contains("there is no image of it"), "{error}");
    let mut torn = old.clone();
    torn[PAGE_SIZE - 1] ^= 1;
    *history.base.lock() = Some(torn);
    let error = content(&pool, id).expect_err("the base is damaged");
    assert!(error.message().contains("damaged as well"), "{error}");
    *history.base.lock() = Some(old);
    assert_eq!(content(&pool, id)?, b"three");
    let repairs = history.repairs.lock();
    assert_eq!((repairs[0].base, repairs[0].records), (as_of, 2));
    Ok(())
}

/// A record that the history misses: the first, one between, the last (which is known from what was written).
#[test]
fn a_gap_is_an_error() -> Result<()> {
    for missing in 0..3 {
        let sim = SimVfs::new(1);
        let (pool, history, id, _) = page_with_a_past(&sim, true)?;
        overwrite(&sim, id, &[0xEE; PAGE_SIZE])?;
        *history.missing.lock() = Some(missing);
        let error = content(&pool, id).expect_err("a record is missing");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("could not be rebuilt"), "{error}");
        *history.missing.lock() = None;
        history.unreadable.store(true, Ordering::SeqCst);
        let error = content(&pool, id).expect_err("the records cannot be read");
        assert_eq!(error.kind(), ErrorKind::Io, "may be well again: {error}");
        history.unreadable.store(false, Ordering::SeqCst);
        assert_eq!(content(&pool, id)?, b"three");
    }
    Ok(())
}

/// What a page was rebuilt from stays in the log, whoever truncates it, until the page is written; a checkpoint
/// lists it from its first record on. Of what the file has of it that looks sound nothing is left to a crash.
#[test]
fn the_log_of_a_rebuilt_page_is_kept_until_it_is_written() -> Result<()> {
    for lost_write in [false, true] {
        let sim = SimVfs::new(1);
        let (pool, _, id, old) = page_with_a_past(&sim, true)?;
        let log = Arc::clone(pool.log());
        let other = new_page(&pool, b"other")?;
        let fill = || -> Result<()> {
            let end = log.end_lsn();
            while log.end_lsn().0 - end.0 < 3 << 20 {
                change(&pool, other, &[7; 4000])?;
            }
            log.flush_all()
        };
        // So that its records are not in the first segment.
        fill()?;
        overwrite(&sim, id, &if lost_write { old } else { vec![0xEE; PAGE_SIZE] })?;
        assert_eq!(content(&pool, id)?, b"three");
        let listed = pool.dirty_pages().into_iter().find(|dirty| dirty.page == id);
        assert_eq!(listed.is_none(), lost_write, "{listed:?}");
        if let Some(listed) = listed {
            assert!(listed.rec_lsn < listed.last_lsn && listed.rec_lsn >= log.oldest_lsn(), "{listed:?}");
            // One that has not seen it yet.
            log.truncate_before(log.end_lsn())?;
            assert!(log.oldest_lsn() <= listed.rec_lsn, "its log went to {}", log.oldest_lsn());
            assert!(pool.write_back(WriteGoal::Repaired)? == 1 && !pool.has_repaired_pages());
        }
        assert!(log.holders().is_empty(), "{:?}", log.holders());
        log.truncate_before(log.end_lsn())?;
        assert!(log.oldest_lsn() > Lsn(2 << 20), "it goes once the page is written");
        let mut page = PageBuf::zeroed();
        page.as_bytes_mut().copy_from_slice(&in_file(&sim, id)?);
        page.verify(id).map_err(|fault| Error::internal(fault.to_string()))?;
    }
    Ok(())
}

/// After a crash a record is applied to the page that it was made for only: one that looks sound, and is as of an LSN at
/// which the page never was, is refused, or rebuilt where there is a history.
#[test]
fn redo_does_not_apply_a_record_to_another_page_than_its_own() -> Result<()> {
    let sim = SimVfs::new(1);
    let (pool, history, id, old) = page_with_a_past(&sim, false)?;
    let log = Arc::clone(pool.log());
    let last = lsn_of(&in_file(&sim, id)?);
    drop(pool);
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let reopen = || {
        let config = PoolConfig { bytes: 64 * PAGE_SIZE, batch_pages: 16 };
        let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new("/db/dw"), Arc::clone(&log), config)?;
        pool.pending_redo().note(id, lsn_of(&old), last);
        Ok::<_, Error>(pool)
    };
    let mut page = PageBuf::zeroed();
    page.as_bytes_mut().copy_from_slice(&old);
    overwrite(&sim, id, &old)?;
    assert_eq!(content(&reopen()?, id)?, b"three", "its own");
    for lsn in [lsn_of(&old).0 + 1, last.0 - 1] {
        page.set_lsn(Lsn(lsn));
        page.seal();
        overwrite(&sim, id, page.as_bytes())?;
        let error = content(&reopen()?, id).expect_err("it was never as of this LSN");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("not of this log") && error.message().contains(DATA), "{error}");
        let pool = reopen()?;
        pool.set_history(Arc::clone(&history) as Arc<dyn PageHistory>);
        assert_eq!(content(&pool, id)?, b"three");
        assert_eq!(pool.stats().repaired_pages, 1);
    }
    // A record that makes the page anew needs none before it.
    page.set_lsn(Lsn(lsn_of(&old).0 - 1));
    page.seal();
    overwrite(&sim, id, page.as_bytes())?;
    assert_eq!(content(&reopen()?, id)?, b"three");
    Ok(())
}
