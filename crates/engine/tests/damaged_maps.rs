//! A space map that cannot be read: which pages of its interval have versions only their headers say. Aborted
//! transactions are reverted and forgotten all the same, before and after restarts; pages that cannot be read keep
//! those that can be on them; nothing is given out of the interval; and all is well when the map is.

#[path = "transactions/support.rs"]
#[allow(dead_code)]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use resurgam_buffer::Planted;
use resurgam_engine::*;
use resurgam_page::{PageBuf, PageType};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use support::*;

/// The first space map.
const MAP: u64 = 1;
/// The second one.
const NEXT_MAP: u64 = 5121;
const PAGE: u64 = limits::PAGE_SIZE as u64;

/// Planted mistakes are made by the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn data() -> std::path::PathBuf {
    Path::new(DIR).join("data")
}

fn open_in(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, Options { accelerated_database_recovery: !traditional, ..options() })
}

/// Damages a page of the data file, or mends it again.
fn flip(vfs: &SimVfs, page: u64) -> Result<()> {
    vfs.flip_bit(&data(), page * PAGE * 8 + 30_000)?;
    // From there it would be mended.
    let double_writes = Path::new(DIR).join("doublewrite");
    if vfs.exists(&double_writes)? {
        vfs.remove(&double_writes)?;
    }
    vfs.sync_dir(Path::new(DIR))
}

/// Power is lost; the map stays damaged.
fn crash(vfs: &SimVfs) -> Result<SimVfs> {
    let after = vfs.crash();
    if page_of(&after, MAP)?.verify(PageId(MAP)).is_ok() {
        flip(&after, MAP)?;
    }
    Ok(after)
}

fn page_of(vfs: &SimVfs, page: u64) -> Result<PageBuf> {
    let mut buf = PageBuf::zeroed();
    vfs.open(&data(), OpenMode::ReadOnly)?.read_at(buf.as_bytes_mut(), page * PAGE)?;
    Ok(buf)
}

fn set_page(vfs: &SimVfs, page: u64, content: &PageBuf) -> Result<()> {
    let file = vfs.open(&data(), OpenMode::ReadWrite)?;
    file.write_at(content.as_bytes(), page * PAGE)?;
    file.sync()
}

/// The leaf that has a row; every note is another one.
fn leaf_with(vfs: &SimVfs, note: &str) -> Result<u64> {
    let pages = vfs.open(&data(), OpenMode::ReadOnly)?.len()? / PAGE;
    for number in 1..pages {
        let page = page_of(vfs, number)?;
        let has = || page.as_bytes().windows(note.len()).any(|bytes| bytes == note.as_bytes());
        if page.is(PageType::Leaf) && has() {
            return Ok(number);
        }
    }
    Err(Error::internal("no page has that row"))
}

/// 1000 rows on some 100 leaves: more than memory holds.
fn filled(seed: u64, traditional: bool) -> Result<(SimVfs, Rows)> {
    let vfs = SimVfs::new(seed);
    let db = open_in(&vfs, traditional)?;
    create(&db)?;
    let rows: Rows = (0..1000).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| rows.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    for _ in 0..3 {
        db.clean()?;
        commit(&db, |tx| update(tx, 0, &note(0, 700)).map(|_| ()))?;
    }
    db.clean()?;
    db.close()?;
    Ok((vfs, rows))
}

/// Rows on several leaves are changed and that is taken back.
fn abort(db: &Database, ids: &[i64], what: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    for id in ids {
        assert_eq!(update(&tx, *id, what)?, Change::Done);
    }
    tx.savepoint()?;
    assert_eq!(update(&tx, ids[0], what)?, Change::Done);
    tx.rollback()
}

const SPREAD: [i64; 4] = [5, 60, 120, 190];

/// [`filled`], and then changes that were taken back, with what `more` does.
fn filled_with_aborted(seed: u64, more: impl FnOnce(&Database) -> Result<()>) -> Result<(SimVfs, Rows)> {
    let (vfs, rows) = filled(seed, false)?;
    let db = open(&vfs)?;
    abort(&db, &SPREAD, "before the damage")?;
    more(&db)?;
    db.close()?;
    Ok((vfs, rows))
}

fn all_forgotten(db: &Database, expected: &Rows, what: &str) -> Result<()> {
    let report = db.clean()?;
    assert_eq!(report.skipped.damaged_maps.count, 1, "{what}: {report:?}");
    assert_eq!((db.aborted_count(), report.kept, report.pages_skipped), (0, 0, 1), "{what}: {report:?}");
    assert!(report.unmapped > 30, "{what}: {report:?}");
    compare(&rows(db)?, expected, what);
    Ok(())
}

fn mended(vfs: &SimVfs, expected: &Rows, traditional: bool) -> Result<()> {
    let db = open_in(vfs, traditional)?;
    compare(&rows(&db)?, expected, "mended");
    db.finish_recovery()?;
    let report = db.clean()?;
    assert_eq!((report.pages_skipped, report.unmapped, db.aborted_count()), (0, 0, 0), "{report:?}");
    compare(&rows(&db)?, expected, "mended and cleaned");
    verify(&db, "mended and cleaned")
}

/// Aborted before the damage, after it, and across restarts and a power loss.
fn forgotten(traditional: bool) -> Result<()> {
    let (mut vfs, mut expected) = filled(1, traditional)?;
    let db = open_in(&vfs, traditional)?;
    abort(&db, &SPREAD, "before the damage")?;
    // So that it is a row's version as well when no transaction is taken back by the cleaner.
    let old = db.begin(Isolation::RepeatableRead);
    drop(old.statement(StatementKind::Read)?);
    commit(&db, |tx| SPREAD.iter().try_for_each(|id| update(tx, *id, &note(*id, 600)).map(|_| ())))?;
    SPREAD.iter().for_each(|id| drop(expected.insert(*id, note(*id, 600))));
    abort(&db, &SPREAD, "before the damage, too")?;
    if !traditional {
        assert!(db.aborted_count() > 0);
    }
    drop(old);
    db.close()?;
    drop(db);
    flip(&vfs, MAP)?;
    for life in 0..3 {
        let db = open_in(&vfs, traditional)?;
        // What has a mark keeps it, and takes more versions without its map.
        if life > 0 {
            abort(&db, &SPREAD, "before the first sweep")?;
        }
        for round in 0..3 {
            if traditional {
                db.finish_recovery().ok();
                db.clean()?;
                assert_eq!(db.aborted_count(), 0);
            } else if round > 0 || life > 0 || db.aborted_count() > 0 {
                all_forgotten(&db, &expected, &format!("life {life}, round {round}"))?;
            }
            compare(&rows(&db)?, &expected, "damaged");
            abort(&db, &SPREAD, "after the damage")?;
        }
        commit(&db, |tx| update(tx, 60, &note(life, 300)).map(|_| ()))?;
        expected.insert(60, note(life, 300));
        if life == 1 {
            vfs = crash(&vfs)?;
        } else {
            db.close()?;
        }
    }
    flip(&vfs, MAP)?;
    mended(&vfs, &expected, traditional)
}

#[test]
fn aborted_transactions_are_forgotten() -> Result<()> {
    let _alone = alone();
    forgotten(false)
}

#[test]
fn in_the_traditional_mode() -> Result<()> {
    let _alone = alone();
    forgotten(true)
}

fn fails(work: impl FnOnce() -> Result<()>) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed = !matches!(catch_unwind(AssertUnwindSafe(work)), Ok(Ok(())));
    std::panic::set_hook(hook);
    failed
}

#[test]
fn an_interval_that_is_not_visited_is_caught() {
    let _alone = alone();
    Planted::IntervalSkipped.plant();
    let caught = fails(|| forgotten(false));
    Planted::None.plant();
    assert!(caught);
}

/// A leaf of the interval cannot be read either: it keeps those that began before that was found. It comes back with
/// the map, and with rows of theirs.
fn with_a_leaf_that(damage: impl Fn(&SimVfs, u64) -> Result<()>) -> Result<()> {
    let (vfs, expected) = filled_with_aborted(2, |_| Ok(()))?;
    let leaf = leaf_with(&vfs, &note(121, 700))?;
    let content = page_of(&vfs, leaf)?;
    flip(&vfs, MAP)?;
    damage(&vfs, leaf)?;
    for life in 0..2 {
        let db = open(&vfs)?;
        let began_with = db.aborted_count();
        let report = db.clean()?;
        assert_eq!((report.skipped.damaged.count, report.skipped.damaged_maps.count), (1, 1), "{report:?}");
        assert_eq!(report.skipped.damaged.example, Some(PageId(leaf)), "{report:?}");
        assert_eq!((db.aborted_count(), report.kept), (began_with, began_with), "life {life}: {report:?}");
        for _ in 0..3 {
            abort(&db, &[5, 60, 190], "after the damage")?;
            assert!(db.aborted_count() > began_with);
            let report = db.clean()?;
            assert_eq!((db.aborted_count(), report.kept), (began_with, began_with), "life {life}: {report:?}");
        }
        db.close()?;
    }
    set_page(&vfs, leaf, &content)?;
    flip(&vfs, MAP)?;
    mended(&vfs, &expected, false)
}

#[test]
fn a_damaged_leaf_keeps_those_before() -> Result<()> {
    let _alone = alone();
    with_a_leaf_that(flip)
}

fn lost(vfs: &SimVfs, leaf: u64) -> Result<()> {
    set_page(vfs, leaf, &PageBuf::zeroed())
}

/// It reads as if it had never been written, as most pages of the interval do.
#[test]
fn a_lost_leaf_keeps_those_before() -> Result<()> {
    let _alone = alone();
    with_a_leaf_that(lost)
}

#[test]
fn a_lost_leaf_that_is_taken_for_an_unused_page_is_caught() {
    let _alone = alone();
    Planted::LostTakenForUnused.plant();
    let caught = fails(|| with_a_leaf_that(lost));
    Planted::None.plant();
    assert!(caught);
}

/// Aborted transactions, and neither the map nor the node above the leaves of their table can be read.
fn without_map_and_root() -> Result<SimVfs> {
    let (vfs, _) = filled_with_aborted(3, |_| Ok(()))?;
    let leaf = page_of(&vfs, leaf_with(&vfs, &note(121, 700))?)?;
    let pages = vfs.open(&data(), OpenMode::ReadOnly)?.len()? / PAGE;
    let root = (1..pages)
        .find(|at| page_of(&vfs, *at).is_ok_and(|page| page.is(PageType::Inner) && page.object() == leaf.object()));
    flip(&vfs, MAP)?;
    flip(&vfs, root.ok_or_else(|| Error::internal("no root"))?)?;
    Ok(vfs)
}

/// Where a node above the leaves cannot be read, a page that reads as never written may be one of its leaves.
#[test]
fn unused_pages_of_a_damaged_tree_keep_those_before() -> Result<()> {
    let _alone = alone();
    let vfs = without_map_and_root()?;
    let db = open(&vfs)?;
    let began_with = db.aborted_count();
    let report = db.clean()?;
    assert!(report.skipped.damaged.count > 1 && report.kept == began_with && began_with > 0, "{report:?}");
    Ok(())
}

/// Each of these pages is tried once, and then left alone for ten minutes: it counts as lost all the same. Nor is the map tried for each page that takes
/// versions and loses them.
#[test]
fn unused_pages_of_a_damaged_tree_are_tried_now_and_then() -> Result<()> {
    let _alone = alone();
    let vfs = without_map_and_root()?;
    let db = open(&vfs)?;
    let began_with = db.aborted_count();
    assert!(began_with > 0);
    let first = db.clean()?;
    let lost = first.skipped.damaged.count - 1;
    assert!(lost > 20 && first.not_tried == 0, "{first:?}");
    let kept = |report: &SweepReport, what: &str| {
        assert_eq!((report.skipped.damaged.count, report.kept), (lost + 1, began_with), "{what}: {report:?}");
        assert_eq!(db.aborted_count(), began_with, "{what}");
    };
    for round in 0..3 {
        let report = db.clean()?;
        kept(&report, &format!("round {round}"));
        assert_eq!(report.not_tried, lost, "round {round}: {report:?}");
        vfs.advance(Duration::from_secs(100));
    }
    vfs.advance(Duration::from_secs(300));
    let report = db.clean()?;
    kept(&report, "ten minutes later");
    assert_eq!(report.not_tried, 0, "{report:?}");
    assert_eq!(db.clean()?.not_tried, lost);
    Ok(())
}

/// Pages of the interval without versions keep their marks, and ask for its map no more: a sweep reads it as often with many of them as with few.
#[test]
fn marks_are_not_taken_off_without_the_map() -> Result<()> {
    let _alone = alone();
    let mut reads = Vec::new();
    for count in [4, 60] {
        let spread: Vec<i64> = (0..count).map(|at| at * 15).collect();
        let (vfs, expected) = filled(5, false)?;
        let db = open(&vfs)?;
        abort(&db, &spread, "before the damage")?;
        db.close()?;
        drop(db);
        flip(&vfs, MAP)?;
        let (watched, of_map) = (Watched::new(vfs.clone()), Arc::new(AtomicU64::new(0)));
        let counting = Arc::clone(&of_map);
        watched.on_read(Box::new(move |page| {
            counting.fetch_add(u64::from(page == MAP), Ordering::SeqCst);
            false
        }));
        let db = open_as(&watched, options())?;
        all_forgotten(&db, &expected, "damaged")?;
        abort(&db, &spread, "after the damage")?;
        let before = of_map.load(Ordering::SeqCst);
        all_forgotten(&db, &expected, "damaged still")?;
        reads.push(of_map.load(Ordering::SeqCst) - before);
    }
    assert!(reads[1] <= reads[0] + 4, "{reads:?}");
    Ok(())
}

/// A large value of an aborted writer cannot be freed: that keeps him, and nobody else.
#[test]
fn a_large_value_keeps_its_writer() -> Result<()> {
    let _alone = alone();
    let (vfs, expected) = filled_with_aborted(4, |db| {
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(update(&tx, 60, &note(1, 20_000))?, Change::Done);
        tx.rollback()?;
        abort(db, &SPREAD, "and after that")
    })?;
    flip(&vfs, MAP)?;
    for _ in 0..2 {
        let db = open(&vfs)?;
        for round in 0..2 {
            let report = db.clean()?;
            assert_eq!((db.aborted_count(), report.kept), (1, 1), "round {round}: {report:?}");
            compare(&rows(&db)?, &expected, "damaged");
            abort(&db, &SPREAD, "after the damage")?;
        }
        db.close()?;
    }
    flip(&vfs, MAP)?;
    mended(&vfs, &expected, false)
}

/// Pages that are nearly empty by now would be merged with neighbours that cannot be read: they are cleaned, and keep
/// nobody.
#[test]
fn a_neighbour_that_cannot_be_read_keeps_nobody() -> Result<()> {
    let _alone = alone();
    let (vfs, expected) = filled(7, false)?;
    let left: Rows = expected.iter().filter(|(id, _)| *id % 100 == 50).map(|(id, n)| (*id, n.clone())).collect();
    let damaged = [62, 338, 562, 938].map(|id| leaf_with(&vfs, &note(id, 700)));
    let db = open(&vfs)?;
    let gone = |tx: &Transaction, id: &i64| delete(tx, *id).map(|_| ());
    commit(&db, |tx| expected.keys().filter(|id| !left.contains_key(id)).try_for_each(|id| gone(tx, id)))?;
    abort(&db, &[50, 350, 550, 950], "before the damage")?;
    db.close()?;
    drop(db);
    damaged.into_iter().try_for_each(|leaf| flip(&vfs, leaf?))?;
    let db = open(&vfs)?;
    let began_with = db.aborted_count();
    db.clean()?;
    // Those with deleted rows are told of, and keep who was there before.
    assert_eq!(db.aborted_count(), began_with);
    for round in 0..3 {
        abort(&db, &[50, 350, 550, 950], "after the damage")?;
        let report = db.clean()?;
        assert_eq!((db.aborted_count(), report.skipped.damaged.count), (began_with, 4), "{round}: {report:?}");
    }
    Ok(())
}

/// The mode can be changed once all are forgotten.
#[test]
fn the_mode_can_be_changed() -> Result<()> {
    let _alone = alone();
    let (vfs, expected) = filled_with_aborted(5, |_| Ok(()))?;
    flip(&vfs, MAP)?;
    let db = open(&vfs)?;
    db.set_accelerated_recovery(false, &|| false)?;
    assert_eq!(db.aborted_count(), 0);
    compare(&rows(&db)?, &expected, "traditional");
    abort(&db, &SPREAD, "in the other mode")?;
    compare(&rows(&db)?, &expected, "traditional");
    Ok(())
}

/// Rows on new pages, whose map is damaged before it is read, or after that.
fn inserted(known: bool) -> Result<()> {
    let (vfs, mut expected) = filled(6, false)?;
    let db = open(&vfs)?;
    db.finish_recovery()?;
    // Marks the last leaf. Many others have been given back.
    abort(&db, &[999], "makes a mark")?;
    commit(&db, |tx| (20..100).try_for_each(|id| delete(tx, id).map(|_| ())))?;
    (20..100).for_each(|id| drop(expected.remove(&id)));
    commit(&db, |tx| update(tx, 999, &note(999, 700)).map(|_| ()))?;
    db.clean()?;
    db.clean()?;
    abort(&db, &[999], "makes a mark again")?;
    let db = if known {
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        flip(&vfs, MAP)?;
        // Out of memory with it.
        for id in expected.keys().chain(expected.keys()) {
            note_of(&db, *id)?;
        }
        db
    } else {
        db.close()?;
        drop(db);
        flip(&vfs, MAP)?;
        open(&vfs)?
    };
    let before: Vec<PageBuf> = (0..NEXT_MAP).map(|at| page_of(&vfs, at)).collect::<Result<_>>()?;
    commit(&db, |tx| (5000..5300).try_for_each(|id| insert(tx, id, &note(id, 700))))?;
    (5000..5300).for_each(|id| drop(expected.insert(id, note(id, 700))));
    compare(&rows(&db)?, &expected, "inserted");
    all_forgotten(&db, &expected, "inserted")?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    assert!(page_of(&vfs, NEXT_MAP)?.is(PageType::SpaceMap), "the file goes on with the next interval");
    for (at, before) in before.iter().enumerate().skip(1) {
        let used = |page: &PageBuf| !page.is_all_zero() && !page.is(PageType::Free);
        let now = page_of(&vfs, at as u64)?;
        assert_eq!(used(&now), used(before), "page {at} was given out, or taken back, without its map");
    }
    // A restart, and on.
    let vfs = crash(&vfs)?;
    drop(db);
    let db = open(&vfs)?;
    db.finish_recovery().ok();
    commit(&db, |tx| (5300..5350).try_for_each(|id| insert(tx, id, &note(id, 700))))?;
    (5300..5350).for_each(|id| drop(expected.insert(id, note(id, 700))));
    compare(&rows(&db)?, &expected, "after a restart");
    while db.write_back()? > 0 {}
    // Mended while it is open: what is free there is found again.
    flip(&vfs, MAP)?;
    let before = db.stats().space.extents;
    // (VACUUM would give what is free at the end back.)
    db.clean_now()?;
    assert!(db.stats().space.extents > before + 300, "{:?}", db.stats().space);
    compare(&rows(&db)?, &expected, "mended");
    db.clean()?;
    assert_eq!(db.aborted_count(), 0);
    verify(&db, "mended")?;
    db.close()?;
    mended(&vfs, &expected, false)
}

#[test]
fn nothing_is_given_out_of_an_interval_that_is_not_known() -> Result<()> {
    let _alone = alone();
    inserted(false)
}

#[test]
fn nothing_is_given_out_of_an_interval_that_was_known() -> Result<()> {
    let _alone = alone();
    inserted(true)
}

/// The map becomes unreadable while a sweep is under way, at any moment of it, and with it a leaf: what its units have noted of
/// pages that read as never written stays until the trees are asked.
#[test]
fn a_map_that_is_lost_in_the_middle_of_a_sweep() -> Result<()> {
    let _alone = alone();
    let (start, expected) = filled(2, false)?;
    let options = || Options { cleaner_unit_pages: 16, cleaner_threads: 1, ..options() };
    let db = open_as(&start, options())?;
    abort(&db, &SPREAD, "before the damage")?;
    db.close()?;
    drop(db);
    let leaf = leaf_with(&start, &note(121, 700))?;
    let content = page_of(&start, leaf)?;
    let (mut wrong, mut unmapped) = (Vec::new(), 0);
    for moment in 0..40 {
        let vfs = start.fork(moment);
        let db = open_as(&vfs, options())?;
        let questions = AtomicU64::new(0);
        let report = db.clean_unless(&|| {
            if questions.fetch_add(1, Ordering::SeqCst) == moment {
                flip(&vfs, MAP).expect("written");
                lost(&vfs, leaf).expect("written");
                // Out of memory with both.
                for _ in 0..2 {
                    expected.keys().filter(|id| **id > 200).for_each(|id| drop(note_of(&db, *id)));
                }
            }
            false
        })?;
        unmapped += u64::from(report.unmapped > 0);
        db.close()?;
        drop(db);
        if page_of(&vfs, MAP)?.verify(PageId(MAP)).is_err() {
            flip(&vfs, MAP)?;
        }
        if page_of(&vfs, leaf)?.is_all_zero() {
            set_page(&vfs, leaf, &content)?;
        }
        let db = open_as(&vfs, options())?;
        if rows(&db)? != expected {
            wrong.push(moment);
        }
    }
    assert!(unmapped > 0, "never in the middle");
    assert!(wrong.is_empty(), "aborted rows are seen after {wrong:?}");
    Ok(())
}

/// A leaf of a dropped table reads as never written, and comes back: its rows have large values of an aborted transaction, which
/// is not forgotten meanwhile, map or not.
#[test]
fn a_lost_leaf_of_a_dropped_table_keeps_who_wrote_to_it() -> Result<()> {
    let _alone = alone();
    for damages_map in [false, true] {
        let (vfs, _) = filled(2, false)?;
        let db = open(&vfs)?;
        commit(&db, |tx| update(tx, 120, &note(1, 20_000)).map(drop))?;
        db.clean()?;
        db.clean()?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(update(&tx, 120, "short")?, Change::Done);
        assert_eq!(update(&tx, 500, "short")?, Change::Done);
        tx.rollback()?;
        commit(&db, |tx| {
            let t = table(tx)?;
            tx.drop_table(&t)?.done()
        })?;
        db.close()?;
        drop(db);
        let leaf = leaf_with(&vfs, &note(121, 700))?;
        let content = page_of(&vfs, leaf)?;
        if damages_map {
            flip(&vfs, MAP)?;
        }
        lost(&vfs, leaf)?;
        // Nor is there a copy to mend it from.
        flip(&vfs, MAP)?;
        flip(&vfs, MAP)?;
        let db = open(&vfs)?;
        assert!(db.aborted_count() > 0);
        // What it cannot read it tells of.
        let _ = db.clean();
        assert!(db.aborted_count() > 0, "forgotten, map damaged: {damages_map}");
        db.close()?;
        drop(db);
        set_page(&vfs, leaf, &content)?;
        if damages_map {
            flip(&vfs, MAP)?;
        }
        let db = open(&vfs)?;
        db.finish_recovery()?;
        for _ in 0..4 {
            db.clean()?;
        }
        let problems = db.verify()?;
        assert!(problems.is_empty(), "{problems:?}");
    }
    Ok(())
}
