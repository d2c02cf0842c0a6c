//! A leaf that a stale guide leads to, taken for the right one on purpose: rows that have moved are not found.

mod common;

use common::{new_tree, pool, put};
use resurgam_base::Result;
use resurgam_buffer::{Access, Planted};

#[test]
fn a_stale_guide_is_asked() -> Result<()> {
    let pool = pool(1)?;
    let tree = new_tree(&pool)?;
    let keys: Vec<Vec<u8>> = (0..1000).map(|n| format!("key {n:06}").into_bytes()).collect();
    for key in &keys {
        put(&pool, tree, key, &[7; 50])?;
    }
    let missed = || -> Result<usize> {
        let mut missed = 0;
        for key in &keys {
            missed += usize::from(tree.find(&pool, key, Access::Point)?.1.is_err());
        }
        Ok(missed)
    };
    assert_eq!(missed()?, 0);
    // A leaf is divided, and nobody passes its parent afterwards.
    tree.make_room(&pool, b"key 000500x", 3000)?;
    Planted::GuideTrusted.plant();
    let trusted = missed();
    Planted::None.plant();
    assert!(trusted? > 0, "the mistake is not noticed");
    assert_eq!(missed()?, 0);
    Ok(())
}
