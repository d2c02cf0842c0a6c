//! Images of pages with many records: a page's chain in the log is bounded, over evictions and restarts, and leads to the page.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, PoolConfig, replaces_whole_page};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{LeafBuilder, PageBuf, PageType, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const DATA: &str = "/db/data";
const SIDE: &str = "/db/dw";

fn pool_on(sim: &SimVfs, log: Arc<Log>, max: u32) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let config = PoolConfig { bytes: 64 * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new(SIDE), log, config)?;
    pool.set_records_per_page_max(max);
    Ok(pool)
}

fn open(sim: &SimVfs, max: u32) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    vfs.make_folder(Path::new("/db"))?;
    let config = LogConfig { segment_bytes: 4 << 20, ..LogConfig::default() };
    let pool = pool_on(sim, Log::create(Arc::clone(&vfs), Path::new("/db/log"), config, 1)?, max)?;
    pool.space().restore(1);
    Ok(pool)
}

fn row(content: u32) -> Result<Vec<u8>> {
    LeafBuilder::plain(b"k", &content.to_le_bytes()).encode()
}

fn new_page(pool: &BufferPool) -> Result<PageId> {
    let mut mtr = Mtr::new(pool);
    let (id, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
    op::format(mtr.ops(at), PageType::Leaf, 0, ObjectId(9), &[], None);
    op::insert(mtr.ops(at), SlotId(0), &row(0)?);
    mtr.commit()?;
    Ok(id)
}

/// Returns the LSN of the record.
fn change(pool: &BufferPool, ids: &[PageId], content: u32) -> Result<Lsn> {
    let mut mtr = Mtr::new(pool);
    for id in ids {
        let at = mtr.add(pool.write(*id, Access::Point)?);
        op::replace(mtr.ops(at), SlotId(0), &row(content)?);
    }
    mtr.commit().map(|(first, _)| first)
}

fn evict(pool: &BufferPool, id: PageId) -> Result<()> {
    pool.write_all()?;
    while pool.is_resident(id) {
        pool.evict_all();
    }
    Ok(())
}

/// The chain of a page from its last record back to one that makes it anew; and the page that it makes.
fn chain(pool: &BufferPool, id: PageId, last: Lsn) -> Result<(usize, PageBuf)> {
    pool.log().flush_all()?;
    let (mut records, mut lsn) = (Vec::new(), last);
    loop {
        let record = pool.log().read_record(lsn)?;
        assert_eq!(record.header.page, id);
        let previous = record.header.prev_page;
        assert!(previous < lsn);
        let whole = replaces_whole_page(&record.body);
        records.push((lsn, record.body));
        if whole {
            break;
        }
        lsn = previous;
    }
    let mut made = PageBuf::zeroed();
    records.iter().rev().try_for_each(|(lsn, body)| op::apply(&mut made, id, body, *lsn))?;
    Ok((records.len(), made))
}

#[test]
fn a_chain_is_no_longer_than_the_cap() -> Result<()> {
    for max in [2, 3, 7, 256] {
        let sim = SimVfs::new(1);
        let mut pool = open(&sim, max)?;
        let id = new_page(&pool)?;
        let (mut longest, mut images) = (0, 0);
        for i in 1..=3 * max {
            let last = change(&pool, &[id], i)?;
            assert_eq!(pool.read(id, Access::Point)?.lsn(), last, "the record is the last of its group");
            match i % 5 {
                0 => evict(&pool, id)?,
                // A restart without a crash: nothing but the file has the count.
                3 if i % 3 == 0 => {
                    pool.write_all()?;
                    images += pool.stats().images_logged;
                    let log = Arc::clone(pool.log());
                    drop(pool);
                    pool = pool_on(&sim, log, max)?;
                }
                _ => {}
            }
            let (records, made) = chain(&pool, id, last)?;
            longest = longest.max(records);
            assert!(made.same_content(&*pool.read(id, Access::Point)?), "after {i} changes, with {max}");
        }
        images += pool.stats().images_logged;
        assert_eq!(longest, max as usize);
        assert!(images >= 3 && images <= 3 * u64::from(max), "{images}");
    }
    Ok(())
}

#[test]
fn without_a_cap_there_are_no_images() -> Result<()> {
    let pool = open(&SimVfs::new(1), 0)?;
    let id = new_page(&pool)?;
    let mut last = Lsn::NONE;
    for i in 1..=300 {
        last = change(&pool, &[id], i)?;
    }
    assert_eq!((chain(&pool, id, last)?.0, pool.stats().images_logged), (301, 0));
    // They were counted all the same: with a cap from now on the chain ends with the next change.
    pool.set_records_per_page_max(256);
    let last = change(&pool, &[id], 301)?;
    assert_eq!((chain(&pool, id, last)?.0, pool.stats().images_logged), (2, 1));
    assert!(pool.stats().image_bytes_logged > 64);
    Ok(())
}

/// One group with several pages, of which some get an image.
#[test]
fn pages_of_one_group() -> Result<()> {
    let pool = open(&SimVfs::new(1), 5)?;
    let ids = [new_page(&pool)?, new_page(&pool)?, new_page(&pool)?];
    for i in 0..40 {
        let some: Vec<PageId> =
            ids.iter().enumerate().filter(|(at, _)| i % (*at as u32 + 1) == 0).map(|(_, id)| *id).collect();
        change(&pool, &some, i)?;
        for id in ids {
            let last = pool.read(id, Access::Point)?.lsn();
            let (records, made) = chain(&pool, id, last)?;
            assert!(records <= 5 && made.same_content(&*pool.read(id, Access::Point)?), "{id} has {records}");
        }
    }
    Ok(())
}

/// The image is in the middle of what has to be redone, whatever the base in the file is.
#[test]
fn redo_begins_at_the_image() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 8)?;
    let id = new_page(&pool)?;
    for i in 1..4 {
        change(&pool, &[id], i)?;
    }
    pool.write_all()?;
    let rec_lsn = pool.log().end_lsn();
    let mut last = Lsn::NONE;
    for i in 4..=30 {
        last = change(&pool, &[id], i)?;
    }
    let want = pool.read(id, Access::Point)?.clone();
    pool.log().flush_all()?;
    let log = Arc::clone(pool.log());
    drop(pool);
    for damaged in [false, true] {
        if damaged {
            let file = (Arc::new(sim.clone()) as Arc<dyn Vfs>).open(Path::new(DATA), OpenMode::ReadWrite)?;
            file.write_at(&[0xEE; 512], id.0 * PAGE_SIZE as u64 + 4096)?;
        }
        let pool = pool_on(&sim, Arc::clone(&log), 8)?;
        pool.pending_redo().note(id, rec_lsn, last);
        assert!(pool.read(id, Access::Point)?.same_content(&want));
        let stats = pool.stats();
        assert!(stats.redone_pages == 1 && stats.redone_records <= 8, "{stats:?}");
    }
    Ok(())
}
