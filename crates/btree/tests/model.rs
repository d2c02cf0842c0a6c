//! Trees against a model: random inserts, removals, merges and walks on a pool far smaller
//! than the tree; the tree is verified after every round. Then the same with threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use resurgam_base::{Result, SlotId};
use resurgam_btree::{LeafWalk, Tree, free_tree_step, verify};
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::{LeafRecord, leaf, op};

mod common;

use common::{new_tree, pool, put};

fn remove(pool: &BufferPool, tree: Tree, key: &[u8]) -> Result<()> {
    let page = tree.write_leaf(pool, key)?;
    if let Ok(slot) = leaf::search(&page, key) {
        let used = page.used();
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        op::remove(mtr.ops(at), slot);
        mtr.commit()?;
        if used < 2048 {
            tree.merge_leaf(pool, key, |page| page.slot_count() == 0, |_| {})?;
        }
    }
    Ok(())
}

fn walk(pool: &BufferPool, mut walk: LeafWalk, backward: bool) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    while let Some(page) = walk.next(pool)? {
        let mut rows = Vec::new();
        for s in 0..page.slot_count() {
            let record = LeafRecord::parse(page.record(SlotId(s))?)?;
            if walk.is_new(record.key) {
                rows.push((record.key.to_vec(), record.value.to_vec()));
            }
        }
        if backward {
            rows.reverse();
        }
        all.extend(rows);
    }
    Ok(all)
}

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

/// The records that a walk comes by which passes leaves where it may, up to `until`; some it does not take, so that they are handed out.
fn passing(pool: &BufferPool, tree: Tree, until: Option<&[u8]>, rng: &mut StdRng) -> Result<(Vec<Vec<u8>>, usize)> {
    let mut keys = Vec::new();
    let mut passed = 0;
    let mut walk = LeafWalk::ascending(tree, Vec::new());
    loop {
        passed += walk.pass_leaves(pool, until, |page| {
            if rng.random_ratio(1, 20) {
                return Ok(false);
            }
            keys.extend((0..page.slot_count()).map(|slot| leaf::key_of(page.rec(SlotId(slot))).to_vec()));
            Ok(true)
        })?;
        let Some(page) = walk.next(pool)? else { break };
        keys.extend(walk.new_slots(&page).map(|slot| leaf::key_of(page.rec(SlotId(slot))).to_vec()));
        if until.is_some_and(|until| keys.last().is_some_and(|last| last.as_slice() >= until)) {
            break;
        }
    }
    keys.retain(|key| until.is_none_or(|until| key.as_slice() < until));
    Ok((keys, passed))
}

fn random_key(rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..10) {
        0 => vec![rng.random(); rng.random_range(1..1500)],
        1..4 => rng.random_range(0u32..5000).to_be_bytes().to_vec(),
        _ => format!("key {:06}", rng.random_range(0..20_000)).into_bytes(),
    }
}

#[test]
fn random_work_agrees_with_a_map() -> Result<()> {
    let seed = std::env::var("RESURGAM_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("RESURGAM_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = pool(seed)?;
    let tree = new_tree(&pool)?;
    let mut model = BTreeMap::new();
    let mut packed = 0;
    for round in 0..12 {
        // Rounds grow and shrink the tree in turn.
        let inserts = if round % 3 == 2 { 10 } else { 80 };
        for _ in 0..1500 {
            let key = random_key(&mut rng);
            if rng.random_range(0..100) < inserts {
                let len = rng.random_range(0..(1900 - key.len()).min(400));
                let value = vec![rng.random::<u8>(); len];
                put(&pool, tree, &key, &value)?;
                model.insert(key, value);
            } else {
                let key = model.range(key.clone()..).next().map_or(key, |(k, _)| k.clone());
                remove(&pool, tree, &key)?;
                model.remove(&key);
            }
        }
        let report = verify(&pool, tree)?;
        assert!(report.problems.is_empty(), "seed {seed}: {:?}", report.problems);
        assert_eq!(report.records as usize, model.len(), "seed {seed}");
        let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(walk(&pool, LeafWalk::ascending(tree, Vec::new()), false)?, expected, "seed {seed}");
        let until = random_key(&mut rng);
        for until in [None, Some(until.as_slice())] {
            let (found, _) = passing(&pool, tree, until, &mut rng)?;
            let keys = expected.iter().map(|(key, _)| key.clone());
            let expected: Vec<_> = keys.filter(|key| until.is_none_or(|until| key.as_slice() < until)).collect();
            assert_eq!(found, expected, "seed {seed}, until {until:?}");
        }
        let mut backward = walk(&pool, LeafWalk::descending(tree, None), true)?;
        backward.reverse();
        assert_eq!(backward, expected, "seed {seed}");
        if round % 2 == 0 {
            packed += pack(&pool, tree)?;
            let packed = verify(&pool, tree)?;
            assert!(packed.problems.is_empty(), "seed {seed}: {:?}", packed.problems);
            assert!(packed.leaves <= report.leaves, "seed {seed}");
            assert_eq!(walk(&pool, LeafWalk::ascending(tree, Vec::new()), false)?, expected, "seed {seed}, packed");
        }
    }
    assert!(packed > 10, "seed {seed}: {packed} leaves were packed");
    let depth = verify(&pool, tree)?.depth;
    assert!(depth >= 2, "the test made a real tree");
    while free_tree_step(&pool, tree)? {}
    // Everything but the space map is free again.
    let free = pool.space().free_pages();
    assert_eq!(free.pages_in_owned_extents, 0, "{free:?}");
    Ok(())
}

#[test]
fn ascending_keys_fill_their_pages() -> Result<()> {
    let pool = pool(1)?;
    let tree = new_tree(&pool)?;
    for i in 0u64..20_000 {
        put(&pool, tree, &i.to_be_bytes(), &[1; 100])?;
    }
    let report = verify(&pool, tree)?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let per_leaf = report.records / report.leaves;
    assert!(per_leaf > 65, "ascending inserts leave full leaves, not half full ones: {per_leaf}");
    Ok(())
}

#[test]
fn leaves_in_memory_are_passed() -> Result<()> {
    let pool = pool(3)?;
    let tree = new_tree(&pool)?;
    let mut rng = StdRng::seed_from_u64(3);
    assert_eq!(passing(&pool, tree, None, &mut rng)?, (Vec::new(), 0), "the root is a leaf");
    for i in 0u64..2000 {
        put(&pool, tree, &i.to_be_bytes(), &[1; 10])?;
    }
    let leaves = verify(&pool, tree)?.leaves as usize;
    let (keys, passed) = passing(&pool, tree, None, &mut rng)?;
    assert_eq!(keys.len(), 2000);
    assert!(passed > leaves / 2, "{passed} of {leaves}");
    Ok(())
}

#[test]
fn threads_write_and_walk_together() -> Result<()> {
    let pool = Arc::new(pool(2)?);
    let tree = new_tree(&pool)?;
    std::thread::scope(|scope| {
        for t in 0u32..4 {
            let pool = Arc::clone(&pool);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(u64::from(t));
                for i in 0..4000 {
                    let key = [&rng.random_range(0u32..3000).to_be_bytes()[..], &t.to_be_bytes()].concat();
                    if rng.random_bool(0.7) {
                        put(&pool, tree, &key, &vec![t as u8; rng.random_range(0..300)]).expect("put");
                    } else {
                        remove(&pool, tree, &key).expect("remove");
                    }
                    if i % 500 == 0 {
                        let rows = walk(&pool, LeafWalk::ascending(tree, Vec::new()), false).expect("walk");
                        assert!(rows.windows(2).all(|w| w[0].0 < w[1].0), "a walk sees each key once, in order");
                        let (keys, _) = passing(&pool, tree, None, &mut rng).expect("walk");
                        assert!(keys.windows(2).all(|w| w[0] < w[1]), "so does one that passes leaves");
                    }
                }
            });
        }
    });
    let report = verify(&pool, tree)?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    Ok(())
}

/// Rows that come in the order of their keys leave the last nodes of each level nearly empty, others do not.
#[test]
fn estimates_are_near() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(7);
    for in_order in [true, false] {
        let pool = pool(11)?;
        let tree = new_tree(&pool)?;
        assert_eq!(tree.estimate(&pool)?, 0);
        let mut keys: Vec<u32> = (0..40_000).collect();
        if !in_order {
            for at in (1..keys.len()).rev() {
                keys.swap(at, rng.random_range(0..=at));
            }
        }
        for (at, key) in keys.iter().enumerate() {
            put(&pool, tree, &key.to_be_bytes(), &[7; 40])?;
            let rows = at as u64 + 1;
            if rows == 10 {
                assert_eq!(tree.estimate(&pool)?, rows);
            }
            if rows.is_multiple_of(1000) {
                let estimate = tree.estimate(&pool)?;
                assert!(estimate.abs_diff(rows) * 4 <= rows, "{estimate} for {rows}, in order: {in_order}");
            }
        }
    }
    Ok(())
}
