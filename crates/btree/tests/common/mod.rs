//! A small pool, and trees in it.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{ObjectId, Result};
use resurgam_btree::{Tree, create};
use resurgam_buffer::{BufferPool, Mtr, PoolConfig};
use resurgam_log::{Log, LogConfig};
use resurgam_page::{LeafBuilder, leaf, op};
use resurgam_vfs::{SimVfs, Vfs};

pub fn pool(seed: u64) -> Result<BufferPool> {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(seed));
    vfs.make_folder(Path::new("/db"))?;
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), config, 1)?;
    let config = PoolConfig { bytes: 64 * 8192, ..PoolConfig::default() };
    let pool = BufferPool::open(&vfs, Path::new("/db/data"), Path::new("/db/dw"), log, config)?;
    pool.space().restore(1);
    Ok(pool)
}

pub fn new_tree(pool: &BufferPool) -> Result<Tree> {
    let mut mtr = Mtr::new(pool);
    let tree = create(&mut mtr, ObjectId(100))?;
    mtr.commit()?;
    Ok(tree)
}

pub fn put(pool: &BufferPool, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
    let bytes = LeafBuilder::plain(key, value).encode()?;
    loop {
        let page = tree.write_leaf(pool, key)?;
        let found = leaf::search(&page, key);
        let fits = match found {
            Ok(slot) => page.fits_replace(slot, bytes.len()),
            Err(_) => page.fits(bytes.len()),
        };
        if !fits {
            drop(page);
            tree.make_room(pool, key, bytes.len())?;
            continue;
        }
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        match found {
            Ok(slot) => op::replace(mtr.ops(at), slot, &bytes),
            Err(slot) => op::insert(mtr.ops(at), slot, &bytes),
        }
        mtr.commit()?;
        return Ok(());
    }
}
