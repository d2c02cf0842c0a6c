//! What is free is learned from the space maps in time that grows with the file, not with its square.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_base::{Lsn, ObjectId, PageId, Result, limits::PAGE_SIZE};
use resurgam_buffer::{BufferPool, PoolConfig};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{PageBuf, PageType, op, space};
use resurgam_vfs::{OpenMode, RealVfs, Vfs};

/// A sparse file of which the space maps alone are there: every second interval is all free, in the others
/// one object owns every extent and uses no page.
fn sparse(dir: &Path, gigabytes: u64) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let pages = (gigabytes << 30) / PAGE_SIZE as u64;
    let file = vfs.open(&dir.join("data"), OpenMode::Create)?;
    file.set_len(pages * PAGE_SIZE as u64)?;
    let maps = pages / space::INTERVAL_PAGES;
    for number in 0..maps {
        let id = PageId(number * space::INTERVAL_PAGES + 1);
        let (mut page, mut body) = (PageBuf::zeroed(), Vec::new());
        op::format(&mut body, PageType::SpaceMap, 0, ObjectId::NONE, &[], None);
        op::set_bytes(&mut body, space::pfs_offset(id) as u16, &[space::PFS_ALLOCATED]);
        for extent in 0..if number % 2 == 0 { 0 } else { space::EXTENTS } {
            op::set_bytes(&mut body, space::owner_offset(extent) as u16, &77u32.to_le_bytes());
        }
        op::apply(&mut page, id, &body, Lsn(1))?;
        page.seal();
        file.write_at(page.as_bytes(), id.0 * PAGE_SIZE as u64)?;
    }
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), &dir.join("log"), config, 1)?;
    let config = PoolConfig { bytes: 4 << 20, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, &dir.join("data"), &dir.join("dw"), log, config)?;
    pool.space().restore(maps * space::INTERVAL_PAGES + 1);
    Ok(pool)
}

#[test]
fn a_hundred_gigabytes_of_free_space() -> Result<()> {
    for (gigabytes, within) in [(1, 1), (20, 3), (100, 15)] {
        let dir = tempfile::tempdir().expect("a folder");
        let pool = sparse(dir.path(), gigabytes)?;
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        for map in pool.space().all_map_pages() {
            let one = Instant::now();
            pool.space().discover(&pool, map)?;
            longest = longest.max(one.elapsed());
        }
        let (took, free) = (begun.elapsed(), pool.space().free_pages());
        eprintln!("{gigabytes} GB: {took:.2?} in all, one map at most {longest:.2?}; {free:?}");
        let pages = (gigabytes << 30) / PAGE_SIZE as u64;
        assert!(free.pages_in_owned_extents + free.extents * 8 > pages - 2 * space::INTERVAL_PAGES, "{free:?}");
        assert!(took < Duration::from_secs(within), "{gigabytes} GB took {took:?}");
    }
    Ok(())
}
