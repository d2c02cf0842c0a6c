//! The pool against its invariants: eviction, the WAL rule, torn writes, failed syncs.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, Openings, PoolConfig, WriteGoal, restore_double_writes};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{PageType, op};
use resurgam_vfs::{Failing, FaultPlan, OpenMode, SimVfs, Vfs};

const DATA: &str = "/db/data";
const SIDE: &str = "/db/dw";

fn open(sim: &SimVfs, pages: usize) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    vfs.make_folder(Path::new("/db"))?;
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), config, 1)?;
    let config = PoolConfig { bytes: pages * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new(SIDE), log, config)?;
    pool.space().restore(1);
    Ok(pool)
}

fn new_page(pool: &BufferPool, content: &[u8]) -> Result<PageId> {
    let mut mtr = Mtr::new(pool);
    let (id, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
    let ops = mtr.ops(at);
    op::format(ops, PageType::Version, 0, ObjectId(9), &[], None);
    let mut record = vec![0; 12];
    record[4] = 1;
    record.extend_from_slice(&resurgam_page::LeafBuilder::plain(b"k", content).encode()?);
    op::insert(ops, SlotId(0), &record);
    mtr.commit()?;
    Ok(id)
}

/// Changes a page without changing its content.
fn change(pool: &BufferPool, id: PageId) -> Result<()> {
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(pool.write(id, Access::Point)?);
    op::set_flags(mtr.ops(at), resurgam_page::buf::HAS_VERSIONS, 0);
    mtr.commit().map(|_| ())
}

fn content(pool: &BufferPool, id: PageId) -> Result<Vec<u8>> {
    let page = pool.read(id, Access::Point)?;
    let record = resurgam_page::version::VersionRecord::parse(page.record(SlotId(0))?)?;
    Ok(record.record.value.to_vec())
}

#[test]
fn a_working_set_ten_times_memory() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let ids: Vec<PageId> = (0..700u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    for (i, id) in ids.iter().enumerate().rev() {
        assert_eq!(content(&pool, *id)?, (i as u32).to_le_bytes());
    }
    let stats = pool.stats();
    assert!(stats.evictions > 600 && stats.pages_written > 600 && stats.foreground_cleans > 0, "{stats:?}");
    Ok(())
}

#[test]
fn a_scan_leaves_the_working_set_alone() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 128)?;
    let ids: Vec<PageId> = (0..600u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    pool.write_all()?;
    let hot = &ids[..40];
    for _ in 0..4 {
        for id in hot {
            drop(pool.read(*id, Access::Point)?);
        }
    }
    for id in &ids[40..] {
        drop(pool.read(*id, Access::Scan)?);
    }
    let resident = hot.iter().filter(|id| pool.is_resident(**id)).count();
    assert!(resident >= 36, "{resident} of 40 hot pages survived a scan of 560");
    Ok(())
}

#[test]
fn no_page_is_written_before_its_log() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let id = new_page(&pool, b"x")?;
    let lsn = pool.read(id, Access::Point)?.lsn();
    assert!(pool.log().flushed_lsn() <= lsn, "nothing asked for a flush yet");
    pool.write_all()?;
    assert!(pool.log().flushed_lsn() > lsn);
    Ok(())
}

#[test]
fn a_torn_page_comes_back_from_the_double_write_area() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let id = new_page(&pool, b"precious")?;
    pool.write_all()?;
    // New pages pass the area by; this one is no longer new.
    change(&pool, id)?;
    pool.write_all()?;
    assert_eq!(pool.stats().fresh_pages_written, pool.stats().pages_written - 1, "{:?}", pool.stats());
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let file = vfs.open(Path::new(DATA), OpenMode::ReadWrite)?;
    file.write_at(&[0xEE; 512], id.0 * PAGE_SIZE as u64 + 4096)?;
    file.sync()?;
    drop(pool);
    let report =
        restore_double_writes(&vfs, Path::new(DATA), None, Path::new(SIDE), true, Lsn(u64::MAX), &Openings::default())?;
    assert_eq!(report.restored, 1, "{report:?}");
    assert_eq!(
        restore_double_writes(&vfs, Path::new(DATA), None, Path::new(SIDE), true, Lsn(u64::MAX), &Openings::default())?
            .restored,
        0,
        "once is enough"
    );
    let mut bytes = vec![0; PAGE_SIZE];
    file.read_exact_at(&mut bytes, id.0 * PAGE_SIZE as u64)?;
    assert!(bytes.windows(8).any(|w| w == b"precious"));
    Ok(())
}

#[test]
fn a_torn_new_page_is_made_anew_from_its_log() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let id = new_page(&pool, b"precious")?;
    let last_lsn = pool.read(id, Access::Point)?.lsn();
    let rec_lsn = pool.oldest_rec_lsn().unwrap_or_default();
    pool.write_all()?;
    let log = Arc::clone(pool.log());
    drop(pool);
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let file = vfs.open(Path::new(DATA), OpenMode::ReadWrite)?;
    file.write_at(&[0xEE; 512], id.0 * PAGE_SIZE as u64 + 4096)?;
    let report =
        restore_double_writes(&vfs, Path::new(DATA), None, Path::new(SIDE), true, Lsn(u64::MAX), &Openings::default())?;
    assert_eq!(report.images, 0, "it was written once: {report:?}");
    let config = PoolConfig { bytes: 64 * PAGE_SIZE, batch_pages: 16 };
    let pool = BufferPool::open(&vfs, Path::new(DATA), Path::new(SIDE), log, config)?;
    assert_eq!(content(&pool, id).unwrap_err().kind(), ErrorKind::Corrupt, "torn");
    pool.pending_redo().note(id, rec_lsn, last_lsn);
    assert_eq!(content(&pool, id)?, b"precious");
    Ok(())
}

#[test]
fn new_pages_are_durable_before_a_checkpoint_counts() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let id = new_page(&pool, b"precious")?;
    while pool.write_back(WriteGoal::All)? > 0 {}
    assert!(pool.oldest_rec_lsn().is_none(), "clean, so no checkpoint lists it");
    pool.sync_fresh_pages()?;
    sim.sync_dir(Path::new("/db"))?;
    // What is not synced may be lost, torn or there, by the seed.
    for seed in 0..20 {
        let vfs: Arc<dyn Vfs> = Arc::new(sim.crash_clone(seed));
        let mut bytes = vec![0; PAGE_SIZE];
        let read = vfs.open(Path::new(DATA), OpenMode::ReadWrite)?.read_at(&mut bytes, id.0 * PAGE_SIZE as u64)?;
        assert!(read == PAGE_SIZE && bytes.windows(8).any(|w| w == b"precious"), "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_dropped_mini_transaction_changes_nothing() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let first = new_page(&pool, b"a")?;
    let before = pool.space().free_pages();
    let end = pool.log().end_lsn();
    {
        let mut mtr = Mtr::new(&pool);
        let (_, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
        op::format(mtr.ops(at), PageType::Version, 0, ObjectId(9), &[], None);
        let page = pool.write(first, Access::Point)?;
        let at = mtr.add(page);
        op::remove(mtr.ops(at), SlotId(0));
    }
    assert_eq!(pool.log().end_lsn(), end);
    assert_eq!(pool.space().free_pages(), before);
    assert_eq!(content(&pool, first)?, b"a");
    Ok(())
}

#[test]
fn freed_pages_are_used_again() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let ids: Vec<PageId> = (0..40u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    let high = pool.space().high_water();
    for id in &ids {
        let page = pool.write(*id, Access::Point)?;
        let mut mtr = Mtr::new(&pool);
        let at = mtr.add(page);
        pool.space().free(&mut mtr, *id, ObjectId(9), at)?;
        mtr.commit()?;
    }
    assert!(pool.space().free_pages().extents >= 4, "{:?}", pool.space().free_pages());
    for i in 0..40u32 {
        new_page(&pool, &i.to_le_bytes())?;
    }
    assert_eq!(pool.space().high_water(), high, "the file did not grow");
    Ok(())
}

fn free(pool: &BufferPool, id: PageId) -> Result<()> {
    let page = pool.write(id, Access::Point)?;
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    pool.space().free(&mut mtr, id, ObjectId(9), at)?;
    mtr.commit().map(drop)
}

/// The file ends where it did: its map there is as it was.
#[test]
fn a_free_extent_at_the_end_is_free_again_when_its_mini_transaction_is_dropped() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    // The last one is alone in its extent.
    let ids: Vec<PageId> = (0..40u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    free(&pool, ids[39])?;
    let before = pool.space().free_pages();
    assert_eq!((before.extents, before.high_water), (1, 49), "{before:?}");
    let mut mtr = Mtr::new(&pool);
    let (page, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
    assert_eq!(page, ids[39]);
    op::format(mtr.ops(at), PageType::Version, 0, ObjectId(9), &[], None);
    drop(mtr);
    assert_eq!(pool.space().free_pages(), before);
    Ok(())
}

/// Records behind the begin may be of pages that were taken off the end since.
#[test]
fn a_checkpoint_counts_what_was_taken_off_the_end_since_it_began() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let ids: Vec<PageId> = (0..40u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    pool.note_space_ends()?;
    free(&pool, ids[39])?;
    assert!(pool.space().lower_ends());
    assert_eq!((pool.space().high_water(), pool.space_ends()?.0), (41, 49));
    pool.note_space_ends()?;
    assert_eq!(pool.space_ends()?.0, 41, "the next one");
    Ok(())
}

/// What the file holds in its place is what it was before it was freed.
#[test]
fn a_free_page_that_left_memory_for_a_hole_is_read_as_free() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let ids: Vec<PageId> = (0..40u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    pool.write_all()?;
    // An extent in the middle.
    let freed = &ids[15..23];
    assert_eq!(freed[0].0 % 8, 1);
    freed.iter().try_for_each(|id| free(&pool, *id))?;
    let looks = pool.read(freed[7], Access::Point)?;
    assert_eq!(pool.punch_holes(&|| false)?, 0, "one of them is in use");
    drop(looks);
    for id in freed {
        assert!(pool.read(*id, Access::Point)?.is(PageType::Free), "page {id}");
    }
    assert_eq!(pool.punch_holes(&|| false)?, 8 * PAGE_SIZE as u64, "now none is");
    assert_eq!(pool.punch_holes(&|| false)?, 0, "it is there");
    for id in freed {
        assert!(pool.read(*id, Access::Point)?.is(PageType::Free), "page {id}");
    }
    Ok(())
}

/// Its place in the file holds nothing: who still has its number finds a free page all the same, and the hole is made again.
#[test]
fn a_page_of_a_hole_that_was_not_given_out_after_all_is_read_as_free() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    // No other extent has free pages.
    let ids: Vec<PageId> = (0..39u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    pool.write_all()?;
    let freed = &ids[15..23];
    freed.iter().try_for_each(|id| free(&pool, *id))?;
    let hole = 8 * PAGE_SIZE as u64;
    assert_eq!(pool.punch_holes(&|| false)?, hole);
    // Once while it is in memory, as who read it has left it, and once while it is not; formatted, and not; more than one.
    for (is_read, formatted) in [(false, false), (false, true), (true, false), (true, true)] {
        if is_read {
            assert!(pool.read(freed[0], Access::Point)?.is(PageType::Free));
        }
        let mut mtr = Mtr::new(&pool);
        for expected in &freed[..2] {
            let (page, at) = pool.space().allocate(&mut mtr, ObjectId(9), 0)?;
            assert_eq!(page, *expected);
            if formatted {
                op::format(mtr.ops(at), PageType::Version, 0, ObjectId(9), &[], None);
            }
        }
        drop(mtr);
        for id in freed {
            assert!(pool.read(*id, Access::Point)?.is(PageType::Free), "page {id}, read before: {is_read}");
        }
        assert_eq!(pool.punch_holes(&|| false)?, hole, "its extent may have got space");
    }
    // It is given out as ever.
    let id = new_page(&pool, b"new")?;
    assert_eq!(id, freed[0]);
    assert_eq!(content(&pool, id)?, b"new");
    assert!(pool.read(freed[1], Access::Point)?.is(PageType::Free));
    Ok(())
}

#[test]
fn reading_a_page_that_never_was_is_a_clear_error() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    assert!(pool.read(PageId(4000), Access::Point)?.is(PageType::Free), "behind the end there is nothing");
    let pool = open(&SimVfs::new(2), 64)?;
    pool.space().restore(5000);
    for _ in 0..3 {
        let error = pool.read(PageId(4000), Access::Point).err().expect("no such page");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("page 4000"), "{error}");
    }
    assert_eq!(pool.write_back(WriteGoal::All)?, 0);
    Ok(())
}

/// Memory is full of pages that cannot be written now: that is no fault of the pages that await redo, which would be set
/// aside for it in the end, and their log with them.
#[test]
fn a_page_is_not_passed_over_because_others_cannot_be_written() -> Result<()> {
    let sim = SimVfs::new(1);
    let pool = open(&sim, 64)?;
    let ids: Vec<PageId> = (0..200u32).map(|i| new_page(&pool, &i.to_le_bytes())).collect::<Result<_>>()?;
    pool.write_all()?;
    let awaits = ids[0];
    let last = pool.read(awaits, Access::Point)?.lsn();
    for id in &ids[1..] {
        drop(pool.read(*id, Access::Point)?);
    }
    assert!(!pool.is_resident(awaits));
    pool.pending_redo().note(awaits, last, last);
    let failing = Failing { path: SIDE.into(), reads: false, writes: true, syncs: false };
    sim.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
    let full = ids[1..].iter().find_map(|id| change(&pool, *id).err()).expect("there is no room for all of them");
    assert_eq!(full.kind(), ErrorKind::Io, "{full}");
    for _ in 0..5 {
        let error = pool.redo_some(64, |page, error| panic!("{page}: {error}")).expect_err("there is no room for it");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
    assert_eq!((pool.pending_redo().stuck(), pool.pending_redo().unread(), pool.pending_redo().len()), (0, 0, 1));
    sim.set_faults(FaultPlan::default());
    assert_eq!(pool.redo_some(64, |page, error| panic!("{page}: {error}"))?, 0);
    assert!(pool.pending_redo().is_empty());
    assert_eq!(content(&pool, awaits)?, 0u32.to_le_bytes());
    Ok(())
}
