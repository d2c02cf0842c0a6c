//! Rows of partly free leaves are put together on fewer: how many, what walks see that are under way, beside writers, and mistakes made on purpose.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resurgam_base::{PageId, Result, SlotId, TxId};
use resurgam_btree::{LeafWalk, Tree, verify};
use resurgam_buffer::{BufferPool, Mtr, PlantedInGiveBack};
use resurgam_page::{LeafBuilder, leaf, op, space};

mod common;

use common::{new_tree, pool, put};

/// Packs all leaves; returns how many went.
fn pack(pool: &BufferPool, tree: Tree) -> Result<u64> {
    let (mut from, mut leaves) = (Vec::new(), 0);
    loop {
        let packed = tree.pack_node(pool, &from, &|| false, |_| {})?;
        leaves += packed.leaves;
        match packed.next {
            Some(next) => from = next,
            None => return Ok(leaves),
        }
    }
}

/// Takes a record off its leaf, and leaves that as it is.
fn remove(pool: &BufferPool, tree: Tree, key: &[u8]) -> Result<()> {
    let page = tree.write_leaf(pool, key)?;
    if let Ok(slot) = leaf::search(&page, key) {
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        op::remove(mtr.ops(at), slot);
        mtr.commit()?;
    }
    Ok(())
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A tree of so many records, of which those stay that `stays` says.
fn thinned(pool: &BufferPool, count: u32, len: usize, stays: impl Fn(u32) -> bool) -> Result<(Tree, Vec<u32>)> {
    let tree = new_tree(pool)?;
    for n in 0..count {
        put(pool, tree, &key(n), &vec![n as u8; len])?;
    }
    for n in (0..count).filter(|n| !stays(*n)) {
        remove(pool, tree, &key(n))?;
    }
    Ok((tree, (0..count).filter(|n| stays(*n)).collect()))
}

fn keys_of(pool: &BufferPool, walk: &mut LeafWalk, at_most: usize, keys: &mut Vec<u32>) -> Result<bool> {
    for _ in 0..at_most {
        let Some(page) = walk.next(pool)? else { return Ok(false) };
        for slot in walk.new_slots(&page) {
            let key = leaf::key_of(page.rec(SlotId(slot)));
            keys.push(u32::from_be_bytes(key.try_into().expect("four bytes")));
        }
    }
    Ok(true)
}

fn all_keys(pool: &BufferPool, tree: Tree) -> Result<Vec<u32>> {
    let mut keys = Vec::new();
    keys_of(pool, &mut LeafWalk::ascending(tree, Vec::new()), usize::MAX, &mut keys)?;
    Ok(keys)
}

/// What is left of the leaves, in percent, where every second record went, and where two of three did.
#[test]
fn leaves_go_where_rows_went() -> Result<()> {
    for (len, step, percent) in [(20, 2, 60), (100, 2, 60), (900, 2, 70), (1900, 2, 52), (100, 3, 43), (900, 3, 50)] {
        let pool = pool(1)?;
        let (tree, kept) = thinned(&pool, (2_000_000 / (len as u32 + 40)).min(20_000), len, |n| n % step == 0)?;
        let before = verify(&pool, tree)?.leaves;
        let gone = pack(&pool, tree)?;
        let report = verify(&pool, tree)?;
        assert!(report.problems.is_empty(), "{len} bytes: {:?}", report.problems);
        // The node above the leaves may have its first ones merged as well.
        assert!(
            before - report.leaves >= gone,
            "{len} bytes: {before} leaves, {gone} went, {} are left",
            report.leaves
        );
        let left = report.leaves * 100 / before;
        assert!(left <= percent, "{len} bytes, each {step}th stays: {left} % of {before} leaves are left");
        assert_eq!(all_keys(&pool, tree)?, kept);
        let more = pack(&pool, tree)?;
        assert!(more * 20 <= report.leaves, "{len} bytes: {more} of {} leaves go the second time", report.leaves);
        assert_eq!(pool.stats().leaves_packed, gone + more);
    }
    Ok(())
}

/// A tree of which nothing was deleted stays as it is.
#[test]
fn full_leaves_stay() -> Result<()> {
    let pool = pool(2)?;
    let (tree, _) = thinned(&pool, 10_000, 100, |_| true)?;
    let before = verify(&pool, tree)?;
    assert!(pack(&pool, tree)? <= 1, "but the last one, perhaps");
    assert!(verify(&pool, tree)?.leaves + 1 >= before.leaves);
    Ok(())
}

/// Levels go, down to a root that is a leaf.
#[test]
fn a_tree_becomes_lower() -> Result<()> {
    let pool = pool(3)?;
    let (tree, kept) = thinned(&pool, 40_000, 100, |n| n % 1000 == 0)?;
    let before = verify(&pool, tree)?;
    while pack(&pool, tree)? > 0 {}
    let report = verify(&pool, tree)?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(before.leaves > 400 && report.leaves <= 3, "{} leaves, then {}", before.leaves, report.leaves);
    assert_eq!(all_keys(&pool, tree)?, kept);
    Ok(())
}

/// Wherever a walk is meanwhile, and whichever way it goes: it sees each record once.
#[test]
fn walks_that_are_under_way_see_each_record_once() -> Result<()> {
    for (stays, ascending) in [(2, true), (2, false), (3, true), (3, false)] {
        for done in 0..14 {
            let pool = pool(4)?;
            let (tree, kept) = thinned(&pool, 800, 100, |n| n % stays == 0)?;
            let mut walk =
                if ascending { LeafWalk::ascending(tree, Vec::new()) } else { LeafWalk::descending(tree, None) };
            let mut keys = Vec::new();
            keys_of(&pool, &mut walk, done, &mut keys)?;
            let went = pack(&pool, tree)?;
            assert!(went > 2, "{went} leaves went");
            keys_of(&pool, &mut walk, usize::MAX, &mut keys)?;
            keys.sort_unstable();
            assert_eq!(keys, kept, "{done} leaves before, each {stays}th, ascending: {ascending}");
        }
    }
    Ok(())
}

/// Walks, writers and two who pack: what nobody writes is seen once by each walk, and at last the tree has what was written.
#[test]
fn beside_walks_and_writers() -> Result<()> {
    const STEP: u32 = 5;
    const COUNT: u32 = 6000;
    let pool = pool(5)?;
    let (tree, stable) = thinned(&pool, COUNT, 100, |n| n % STEP == 0)?;
    // How long a packer waits for its turn nobody knows: the writers go on until some are packed, within reason.
    const WANTED: u64 = 20;
    const ROUNDS_MAX: u32 = 2000;
    let (done, so_far) = (AtomicBool::new(false), AtomicU64::new(0));
    let (written, packed) = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..3)
            .map(|class| {
                let (pool, done, so_far) = (&pool, &done, &so_far);
                scope.spawn(move || -> Result<BTreeSet<u32>> {
                    let mut own = BTreeSet::new();
                    for round in 0..ROUNDS_MAX {
                        if round >= 6 && so_far.load(Ordering::Relaxed) > WANTED {
                            break;
                        }
                        let ids = (0..COUNT).filter(|n| n % STEP == class);
                        for n in ids {
                            if (n / STEP + round).is_multiple_of(3) {
                                put(pool, tree, &key(n), &vec![round as u8; (n as usize * 7) % 300])?;
                                own.insert(n);
                            } else {
                                remove(pool, tree, &key(n))?;
                                own.remove(&n);
                            }
                        }
                    }
                    done.store(true, Ordering::Relaxed);
                    Ok(own)
                })
            })
            .collect();
        let packers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> Result<u64> {
                    let mut packed = 0;
                    while !done.load(Ordering::Relaxed) {
                        let leaves = pack(&pool, tree)?;
                        packed += leaves;
                        so_far.fetch_add(leaves, Ordering::Relaxed);
                    }
                    Ok(packed)
                })
            })
            .collect();
        let walks: Vec<_> = [true, false]
            .map(|ascending| {
                let (pool, done, stable) = (&pool, &done, &stable);
                scope.spawn(move || -> Result<()> {
                    while !done.load(Ordering::Relaxed) {
                        let mut walk = if ascending {
                            LeafWalk::ascending(tree, Vec::new())
                        } else {
                            LeafWalk::descending(tree, None)
                        };
                        let mut keys = Vec::new();
                        keys_of(pool, &mut walk, usize::MAX, &mut keys)?;
                        keys.retain(|n| n % STEP == 0);
                        keys.sort_unstable();
                        assert_eq!(keys, *stable, "ascending: {ascending}");
                    }
                    Ok(())
                })
            })
            .into_iter()
            .collect();
        for walk in walks {
            walk.join().expect("no panic")?;
        }
        let mut packed = 0;
        for packer in packers {
            packed += packer.join().expect("no panic")?;
        }
        let mut written = BTreeSet::new();
        for writer in writers {
            written.extend(writer.join().expect("no panic")?);
        }
        Ok::<_, resurgam_base::Error>((written, packed))
    })?;
    assert!(packed > WANTED, "{packed} leaves were packed");
    let report = verify(&pool, tree)?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let mut expected = written;
    expected.extend(stable);
    assert_eq!(all_keys(&pool, tree)?, expected.into_iter().collect::<Vec<_>>());
    Ok(())
}

/// Leaves, of which some have versions, and those that are not marked in a space map though they have some, once they are packed.
fn unmarked(planted: PlantedInGiveBack) -> Result<(u64, Vec<PageId>)> {
    let pool = pool(6)?;
    let (tree, kept) = thinned(&pool, 4000, 100, |n| n % 2 == 0)?;
    for n in kept.iter().copied().filter(|n| n % 200 == 0) {
        let record = LeafBuilder::inserted(TxId(7), &key(n), &[1; 100]).encode()?;
        let page = tree.write_leaf(&pool, &key(n))?;
        let slot = leaf::search(&page, &key(n)).expect("it is there");
        let id = page.id();
        let mut mtr = Mtr::new(&pool);
        let at = mtr.add(page);
        op::replace(mtr.ops(at), slot, &record);
        pool.space().set_flags(&mut mtr, id, space::PFS_HAS_VERSIONS, 0)?;
        mtr.commit()?;
    }
    planted.plant_here();
    let told = std::cell::RefCell::new(BTreeSet::new());
    let packed = tree.pack_node(&pool, &[], &|| false, |page| {
        told.borrow_mut().insert(page);
    });
    PlantedInGiveBack::None.plant_here();
    let packed = packed?.leaves;
    let mut marked = BTreeSet::new();
    for map in pool.space().map_pages() {
        marked.extend(pool.space().flagged(&pool, map, space::PFS_HAS_VERSIONS)?.into_iter().map(|(page, ..)| page));
    }
    let mut walk = LeafWalk::ascending(tree, Vec::new());
    let (mut unmarked, mut versions) = (Vec::new(), 0);
    while let Some(page) = walk.next(&pool)? {
        versions += usize::from(page.has_versions());
        if page.has_versions() && !marked.contains(&page.id()) {
            unmarked.push(page.id());
        }
    }
    assert!(versions > 10, "{versions} leaves have versions");
    assert!(told.borrow().len() > 10, "who watches is told of pages that receive rows");
    Ok((packed, unmarked))
}

#[test]
fn leaves_that_get_versions_are_marked() -> Result<()> {
    let (packed, missing) = unmarked(PlantedInGiveBack::None)?;
    assert!(packed > 10, "{packed}");
    assert_eq!(missing, []);
    let (_, missing) = unmarked(PlantedInGiveBack::MarkForgotten)?;
    assert!(!missing.is_empty(), "the mistake is not noticed");
    Ok(())
}

#[test]
fn a_row_that_is_forgotten_is_missed() -> Result<()> {
    let pool = pool(7)?;
    let (tree, kept) = thinned(&pool, 4000, 100, |n| n % 2 == 0)?;
    PlantedInGiveBack::RowForgotten.plant_here();
    let packed = pack(&pool, tree);
    PlantedInGiveBack::None.plant_here();
    assert!(packed? > 10);
    assert_ne!(all_keys(&pool, tree)?, kept, "the mistake is not noticed");
    Ok(())
}
