//! A leaf of which a walk has handed out a part before a merge, passed as a whole on purpose: rows are counted twice.

mod common;

use common::{new_tree, pool, put};
use resurgam_base::Result;
use resurgam_btree::{LeafWalk, MergeOutcome, Tree};
use resurgam_buffer::{BufferPool, Mtr, Planted};
use resurgam_page::{leaf, op};

fn key(n: usize) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// Takes all keys but a few off the leaves that hold `keys`.
fn thin_out(pool: &BufferPool, tree: Tree, keys: std::ops::Range<usize>) -> Result<usize> {
    let mut gone = 0;
    for n in keys.filter(|n| n % 10 != 0) {
        let page = tree.write_leaf(pool, &key(n))?;
        let Ok(slot) = leaf::search(&page, &key(n)) else { continue };
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        op::remove(mtr.ops(at), slot);
        mtr.commit()?;
        gone += 1;
    }
    Ok(gone)
}

/// Records that a walk comes by which hands out the first leaf, has the next one joined with it, and passes the others.
fn counted(planted: Planted) -> Result<(usize, usize)> {
    let pool = pool(1)?;
    let tree = new_tree(&pool)?;
    for n in 0..2000 {
        put(&pool, tree, &key(n), &[7; 50])?;
    }
    let left = 2000 - thin_out(&pool, tree, 0..400)?;
    let mut walk = LeafWalk::ascending(tree, Vec::new());
    let first = walk.next(&pool)?.expect("a leaf");
    let mut records = usize::from(first.slot_count());
    let next = first.upper_fence().expect("it is not the only one").to_vec();
    drop(first);
    assert_eq!(tree.merge_leaf(&pool, &next, |_| false, |_| {})?, MergeOutcome::Merged);
    planted.plant();
    loop {
        let passed = walk.pass_leaves(&pool, None, |page| {
            records += usize::from(page.slot_count());
            Ok(true)
        });
        if passed? > 0 {
            continue;
        }
        let Some(page) = walk.next(&pool)? else { break };
        records += walk.new_slots(&page).len();
    }
    Planted::None.plant();
    Ok((records, left))
}

#[test]
fn a_leaf_that_was_begun_is_not_passed() -> Result<()> {
    let (records, left) = counted(Planted::PartPassed)?;
    assert!(records > left, "the mistake is not noticed");
    let (records, left) = counted(Planted::None)?;
    assert_eq!(records, left);
    Ok(())
}
