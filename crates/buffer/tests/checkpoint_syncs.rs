//! What is written once, whether it is new or double writes are off, is in its file for certain before a checkpoint counts that does not list it. A
//! program of its own: what is planted is planted for the whole process.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, Openings, Planted, PoolConfig, WriteGoal, restore_double_writes};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{LeafBuilder, PageType, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const DATA: &str = "/db/data";

fn record_of(content: &[u8]) -> Result<Vec<u8>> {
    let mut record = vec![0; 12];
    record[4] = 1;
    record.extend_from_slice(&LeafBuilder::plain(b"k", content).encode()?);
    Ok(record)
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

/// A page that was in its file before is changed and written, and a checkpoint is about to count: after how many of some power losses the file has
/// the page as it was written.
fn kept(double_writes: bool) -> Result<usize> {
    let sim = SimVfs::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    vfs.make_folder(Path::new("/db"))?;
    let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), LogConfig::default(), 1)?;
    let config = PoolConfig { bytes: 64 * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new("/db/dw"), log, config)?;
    pool.space().restore(1);
    pool.set_double_writes(double_writes);
    let id = new_page(&pool, b"the first")?;
    while pool.write_back(WriteGoal::All)? > 0 {}
    sim.open(Path::new(DATA), OpenMode::ReadWrite)?.sync()?;
    sim.sync_dir(Path::new("/db"))?;
    pool.sync_fresh_pages()?;
    let mut mtr = Mtr::new(&pool);
    let at = mtr.add(pool.write(id, Access::Point)?);
    op::replace(mtr.ops(at), SlotId(0), &record_of(b"precious")?);
    mtr.commit()?;
    while pool.write_back(WriteGoal::All)? > 0 {}
    assert!(pool.oldest_rec_lsn().is_none(), "clean, so no checkpoint lists it");
    pool.sync_fresh_pages()?;
    let mut kept = 0;
    for seed in 0..LOSSES {
        let vfs: Arc<dyn Vfs> = Arc::new(sim.crash_clone(seed));
        if double_writes {
            // As a start does.
            let (data, area) = (Path::new(DATA), Path::new("/db/dw"));
            restore_double_writes(&vfs, data, None, area, true, Lsn(u64::MAX), &Openings::default())?;
        }
        let mut bytes = vec![0; PAGE_SIZE];
        let read = vfs.open(Path::new(DATA), OpenMode::ReadWrite)?.read_at(&mut bytes, id.0 * PAGE_SIZE as u64)?;
        kept += usize::from(read == PAGE_SIZE && bytes.windows(8).any(|w| w == b"precious"));
    }
    Ok(kept)
}

const LOSSES: u64 = 40;

#[test]
fn what_is_written_once_is_synced_before_a_checkpoint_counts() -> Result<()> {
    assert_eq!(kept(false)?, LOSSES as usize);
    // One that is written twice is in the other place.
    assert_eq!(kept(true)?, LOSSES as usize);
    Planted::FreshUnsynced.plant();
    let lost = LOSSES as usize - kept(false)?;
    Planted::None.plant();
    assert!(lost > 5, "{lost} of {LOSSES} power losses show that it was not synced");
    Ok(())
}
