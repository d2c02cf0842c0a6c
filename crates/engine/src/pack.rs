//! Putting rows together on fewer pages, when somebody asks for it (VACUUM): where many rows were deleted, and some of each page are
//! left, all of its pages stay in use; see `btree/src/pack.rs`. What that frees is used again, or goes back to the file system
//! (`give_back.rs`).
//!
//! Sweeps wait meanwhile, for some nodes of a tree at a time; nobody else does, but for a page's latch. Rows move with all their versions, and
//! keys are what readers go by, so old snapshots and cursors find them. A leaf that gets rows of one that has versions is marked as having some, in
//! the same mini-transaction: the next sweep visits it.

use std::sync::atomic::Ordering;

use hashbrown::HashSet;
use resurgam_base::{ErrorKind, ObjectId, Result};

use crate::database::Database;

/// Nodes above leaves, of a few hundred leaves each, that are looked at before a sweep gets its turn.
const NODES_A_TURN: usize = 32;

/// How far it has come.
#[derive(Default)]
struct Packing {
    leaves: u64,
    /// Trees that were begun.
    begun: HashSet<ObjectId>,
    /// The tree that is gone on with, and from where.
    at: Option<(ObjectId, Vec<u8>)>,
    /// A part of a tree could not be read.
    passed_over: bool,
    /// All trees were looked at, to their ends.
    is_whole: bool,
}

impl Database {
    /// Puts the rows of partly free leaves of all tables and indexes together on fewer, where that makes pages free. Returns how many leaves
    /// went. Ended early, between two steps, once `cancelled`: what was packed stays so. It works beside readers and writers, and waits
    /// where the log is at its bound, as a sweep does. Nothing is done before recovery has come to its end.
    ///
    /// # Errors
    /// Those of the log. Trees that are damaged or cannot be read are passed over.
    pub fn pack_unless(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<u64> {
        Ok(self.pack_all(cancelled)?.leaves)
    }

    fn pack_all(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<Packing> {
        let inner = self.inner();
        let ended = || inner.stopping.load(Ordering::Relaxed) || cancelled();
        let stop = || {
            self.cleaner_waits(&ended);
            ended()
        };
        let mut packing = Packing::default();
        if !inner.pool.pending_redo().is_caught_up() {
            return Ok(packing);
        }
        while self.pack_some(&mut packing, &stop)? {}
        if packing.leaves > 0 {
            tracing::info!("rows of {} pages were put on others that had room", packing.leaves);
        }
        Ok(packing)
    }

    /// As [`Database::pack_unless`], unless no row has gone since that was done last: a database at rest is not read for it.
    pub(crate) fn pack_if_any_went(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<u64> {
        let inner = self.inner();
        let totals = inner.cleaner.totals();
        // Versions that are taken off rows leave room as well.
        let swept = totals.report.removed + totals.report.reverted + totals.report.stripped + totals.report.merged;
        let gone = swept + totals.removed_by_readers;
        if *inner.packed_at.lock() == Some(gone) {
            return Ok(0);
        }
        let packing = self.pack_all(cancelled)?;
        if packing.is_whole {
            *inner.packed_at.lock() = Some(gone);
        }
        Ok(packing.leaves)
    }

    /// As [`Database::pack_unless`], to the end.
    ///
    /// # Errors
    /// The same.
    pub fn pack(&self) -> Result<u64> {
        self.pack_unless(&|| false)
    }

    /// One turn of it. True: there is more to look at.
    fn pack_some(&self, packing: &mut Packing, stop: &dyn Fn() -> bool) -> Result<bool> {
        let inner = self.inner();
        let pool = &inner.pool;
        // Nobody frees trees meanwhile.
        let Some(_held) = inner.cleaner.hold(stop) else { return Ok(false) };
        let Some(trees) = self.whole_trees()? else { return Ok(false) };
        for _ in 0..NODES_A_TURN {
            if stop() {
                return Ok(false);
            }
            let (tree, from) = match packing.at.take().and_then(|(object, from)| Some((*trees.get(&object)?, from))) {
                Some(at) => at,
                None => {
                    let next = trees.values().filter(|tree| !packing.begun.contains(&tree.object));
                    let Some(tree) = next.min_by_key(|tree| tree.object) else {
                        packing.is_whole = !packing.passed_over;
                        return Ok(false);
                    };
                    packing.begun.insert(tree.object);
                    (*tree, Vec::new())
                }
            };
            let watch = |receiver| pool.space().watch_page(receiver, tree.object);
            match tree.pack_node(pool, &from, stop, watch) {
                Ok(packed) => {
                    packing.leaves += packed.leaves;
                    packing.at = packed.next.map(|next| (tree.object, next));
                }
                // Other ways tell of damage; and the tree may be one that was dropped just now.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => {
                    tracing::debug!("the rest of tree {} is not packed: {error}", tree.object);
                    packing.passed_over = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
