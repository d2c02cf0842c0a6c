//! What is free is learned from the space maps in time that grows with the file, not with its square.
//!
//! What is bounded does not depend on the machine, nor on what else it does: pages that are looked at are counted, and processor time is
//! compared with that of a control that does the least that there is to do, in the same process.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_base::{Lsn, ObjectId, PageId, Result, limits::EXTENT_PAGES, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, PoolConfig};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{PageBuf, PageType, op, space};
use resurgam_vfs::{OpenMode, RealVfs, Vfs};

/// What a tenth takes at least where tenths are compared.
const TENTHS_MIN: Duration = Duration::from_millis(50);

/// Processor time of this thread. (Elsewhere than on Linux: time.)
fn processor_time() -> Duration {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let begun = BEGUN.get_or_init(Instant::now);
    let of_thread = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = of_thread.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| begun.elapsed(), Duration::from_nanos)
}

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

/// Processor time of reading the maps and noting what is free in ordered sets, no more.
fn control(pool: &BufferPool) -> Result<Duration> {
    let begun = processor_time();
    let (mut extents, mut pages) = (BTreeSet::new(), BTreeSet::new());
    for map in pool.space().all_map_pages() {
        let page = pool.read(map, Access::Scan)?;
        for extent in 0..space::EXTENTS {
            let first = space::first_page_of_extent(map, extent).0;
            if space::owner(&page, extent).is_none() {
                extents.insert(first);
                continue;
            }
            let free = |id: &u64| space::pfs(&page, PageId(*id)) & space::PFS_ALLOCATED == 0;
            pages.extend((first..first + EXTENT_PAGES).filter(free));
        }
    }
    assert!(extents.len() + pages.len() > 0);
    Ok(processor_time().saturating_sub(begun))
}

#[test]
fn a_hundred_gigabytes_of_free_space() -> Result<()> {
    for gigabytes in [1, 20, 100] {
        let dir = tempfile::tempdir().expect("a folder");
        let pool = sparse(dir.path(), gigabytes)?;
        let maps = pool.space().all_map_pages();
        let least = control(&pool)?;
        let (before, begun) = (pool.stats(), processor_time());
        // Of each tenth of the maps: of a few the clock is too coarse.
        let mut tenths = Vec::new();
        for tenth in maps.chunks(maps.len().div_ceil(10)) {
            let one = processor_time();
            for map in tenth {
                pool.space().discover(&pool, *map)?;
            }
            tenths.push(processor_time().saturating_sub(one));
        }
        let took = processor_time().saturating_sub(begun);
        let looked_at = pool.stats().hits + pool.stats().misses - before.hits - before.misses;
        let free = pool.space().free_pages();
        eprintln!("{gigabytes} GB: {took:.2?}, the least is {least:.2?}; {looked_at} pages looked at; {free:?}");
        let pages = (gigabytes << 30) / PAGE_SIZE as u64;
        assert!(free.pages_in_owned_extents + free.extents * 8 > pages - 2 * space::INTERVAL_PAGES, "{free:?}");
        // From the disk before allocation is locked out, and then from memory.
        assert_eq!(looked_at, 2 * maps.len() as u64, "{gigabytes} GB");
        assert!(took < least * 3, "{gigabytes} GB took {took:?}, the least is {least:?}");
        // However much is known by then.
        if least > TENTHS_MIN * 10 {
            let (first, last) = (tenths[0], tenths[tenths.len() - 1]);
            assert!(last < first * 3, "{gigabytes} GB: the first tenth of the maps took {first:?}, the last {last:?}");
        }
    }
    Ok(())
}
