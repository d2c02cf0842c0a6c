//! Giving space back to the file system, when somebody asks for it (VACUUM) and, where much is free at the end of the data file, by
//! itself after a sweep.
//!
//! Who asks has pages moved: the last ones of the file go to free places below, one logged move at a time, until there is none. Some pages
//! stay where they are: the root of a tree (definitions name it), large values and off-row versions (rows name them). Extents with one
//! of those, or of a tree for whose pages there is no place, are passed over, for what is free below them becomes holes. Then the files are cut, and holes are made. `buffer/src/give_back.rs` says in which order, and why no
//! crash matters.
//!
//! With page servers there is nothing to give back here: their files have a place for each page, and keep it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use resurgam_base::limits::{EXTENT_PAGES, PAGE_SIZE};
use resurgam_base::{ErrorKind, ObjectId, PageId, Result};
use resurgam_btree::{Move, Tree};
use resurgam_buffer::PlantedInGiveBack;
use resurgam_page::space;

use crate::database::Database;

/// Pages behind what is used of the data file from which it is cut without being asked: four times what it grows by. And no less than
/// one part in so many of it.
const CUT_FROM_PAGES: u64 = 4096;
const CUT_FROM_SHARE: u64 = 8;

/// Extents that are looked at before others get their turn: a sweep, or who frees trees.
const EXTENTS_A_TURN: usize = 256;
/// How often it begins at the end again where there was no free place for a tree's pages, and others have moved.
const PASSES: usize = 4;
/// How often it is asked whether to go on waiting.
const ASKED_EACH: Duration = Duration::from_millis(20);

/// How far moving pages from the end has come.
#[derive(Default)]
struct Moves {
    moved: u64,
    /// The lowest page looked at.
    below: u64,
    /// Trees for whose pages there was no free place below, in this pass: they stay.
    without_place: HashSet<ObjectId>,
}

/// What was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// Pages that moved from the end of a file to free places below.
    pub pages_moved: u64,
    /// By which files are shorter, in bytes.
    pub bytes_cut: u64,
    /// Of holes that were made in them, in bytes.
    pub bytes_punched: u64,
}

impl Database {
    /// Moves pages from the end of the data file to free places below, cuts the files behind what is used of them, and makes
    /// holes of what is free in between ([`Options::punch_holes`](crate::Options::punch_holes)). Ended early, between two pages, once
    /// `cancelled`: what was moved stays so. It works beside readers and writers, and waits where the log is at its bound, as a sweep does.
    ///
    /// Nothing is done while recovery or a restore has not come to its end, and where page servers have the pages.
    ///
    /// # Errors
    /// Those of reading and writing pages and the log, and of changing the files.
    pub fn give_back_unless(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<GivenBack> {
        let inner = self.inner();
        let mut given = GivenBack::default();
        let ended = || inner.stopping.load(Ordering::Relaxed) || cancelled();
        let _one = loop {
            match inner.giving_back.try_lock_for(ASKED_EACH) {
                Some(one) => break one,
                None if ended() => return Ok(given),
                None => {}
            }
        };
        if !self.can_give_back() {
            return Ok(given);
        }
        let stop = || {
            self.cleaner_waits(&ended);
            ended()
        };
        given.pages_moved = self.move_from_end(&stop)?;
        if stop() {
            return Ok(given);
        }
        given.bytes_cut = self.cut()?;
        if inner.options.punch_holes {
            given.bytes_punched = inner.pool.punch_holes(&stop)?;
        }
        if given != GivenBack::default() {
            tracing::info!(
                "{} MB given back to the file system, {} of them in holes; {} pages moved for it",
                (given.bytes_cut + given.bytes_punched) >> 20,
                given.bytes_punched >> 20,
                given.pages_moved
            );
        }
        Ok(given)
    }

    /// As [`Database::give_back_unless`], to the end.
    ///
    /// # Errors
    /// The same.
    pub fn give_back(&self) -> Result<GivenBack> {
        self.give_back_unless(&|| false)
    }

    /// Cuts the data file where much at its end is free; no page is moved. For a thread in the background.
    pub(crate) fn cut_if_much(&self) -> Result<()> {
        let inner = self.inner();
        let Some(_one) = inner.giving_back.try_lock() else { return Ok(()) };
        if !self.can_give_back() {
            return Ok(());
        }
        let pool = &inner.pool;
        pool.space().lower_ends();
        let behind = pool.pages_behind_end()?;
        if behind < CUT_FROM_PAGES || behind < pool.space().high_water() / CUT_FROM_SHARE {
            return Ok(());
        }
        let bytes = self.cut()?;
        if bytes > 0 {
            tracing::info!("{} MB at the ends of files given back to the file system", bytes >> 20);
        }
        Ok(())
    }

    fn can_give_back(&self) -> bool {
        let pool = &self.inner().pool;
        pool.can_give_back() && pool.space().is_all_discovered()
    }

    /// Cuts the files behind what is used of them; returns by how much.
    fn cut(&self) -> Result<u64> {
        let inner = self.inner();
        // Also where the end is as it was: the file may be longer, and what a crash has left may be behind it.
        inner.pool.space().lower_ends();
        if PlantedInGiveBack::CutEarly.is_planted() {
            return inner.pool.cut_files();
        }
        self.checkpoint()?;
        inner.pool.cut_files()
    }

    /// Moves the last pages of the data file down, as long as there are free places below. Returns how many.
    fn move_from_end(&self, stop: &dyn Fn() -> bool) -> Result<u64> {
        let mut moves = Moves::default();
        // What a tree has freed is a free place for those that had none.
        for _ in 0..PASSES {
            let before = moves.moved;
            moves.below = u64::MAX;
            moves.without_place.clear();
            // Between two turns others sweep, or free trees.
            while self.some_moves(&mut moves, stop)? {}
            let space = self.inner().pool.space();
            if moves.without_place.is_empty() || moves.moved == before || space.free_pages().extents == 0 || stop() {
                break;
            }
        }
        Ok(moves.moved)
    }

    /// The trees of tables and indexes of which nothing is being freed; to be asked for while the cleaner is held. `None`: pending frees
    /// cannot all be read, so nobody says which they are.
    pub(crate) fn whole_trees(&self) -> Result<Option<HashMap<ObjectId, Tree>>> {
        let inner = self.inner();
        let mut trees: HashMap<ObjectId, Tree> = inner.known_trees();
        trees.extend(self.defined_trees()?.into_iter().map(|tree| (tree.object, tree)));
        let (whole, due, all) = inner.pending_frees.trees(&inner.pool, &inner.txs)?;
        if !all {
            return Ok(None);
        }
        trees.extend(whole.into_iter().map(|tree| (tree.object, tree)));
        trees.retain(|object, _| !due.contains(object));
        Ok(Some(trees))
    }

    /// One turn of it. True: there is more to look at.
    fn some_moves(&self, moves: &mut Moves, stop: &dyn Fn() -> bool) -> Result<bool> {
        let inner = self.inner();
        let (pool, ends) = (&inner.pool, inner.pool.space());
        // Nobody frees trees meanwhile.
        let Some(_held) = inner.cleaner.hold(stop) else { return Ok(false) };
        let Some(mut trees) = self.whole_trees()? else { return Ok(false) };
        let own = inner.pending_frees.tree();
        trees.insert(own.object, own);
        let stays = |page: PageId, owner: ObjectId| trees.get(&owner).is_none_or(|tree| tree.root == page);
        for _ in 0..EXTENTS_A_TURN {
            ends.lower_ends();
            let end = ends.high_water().min(moves.below);
            let Some(last) = end.checked_sub(EXTENT_PAGES).filter(|last| *last > 1) else { return Ok(false) };
            moves.below = last;
            let (map, extent) = space::extent_of(PageId(last));
            let in_use = ends.select(pool, map, extent..extent + 1, |_, byte| byte & space::PFS_ALLOCATED != 0)?;
            if stop() {
                return Ok(false);
            }
            let has_place =
                |page: PageId, owner: ObjectId| !stays(page, owner) && !moves.without_place.contains(&owner);
            if in_use.iter().all(|(page, owner, _)| has_place(*page, *owner)) {
                for (page, owner, _) in in_use {
                    if stop() {
                        return Ok(false);
                    }
                    let Some(tree) = trees.get(&owner) else { continue };
                    match tree.move_down(pool, page) {
                        Ok(Move::Moved) => moves.moved += 1,
                        // A merge was first, perhaps: it is free by now, or it is somebody else's.
                        Ok(Move::Gone | Move::Root) => {}
                        // Others may have free pages of their own.
                        Ok(Move::NoPlace) => {
                            moves.without_place.insert(owner);
                            break;
                        }
                        // Other ways tell of damage; and the tree may be one that was dropped just now.
                        Err(error) if error.kind() == ErrorKind::Corrupt => {
                            tracing::debug!("page {page} stays where it is: {error}");
                            return Ok(false);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            ends.lower_ends();
            if ends.high_water() > last && !inner.options.punch_holes && moves.without_place.is_empty() {
                // It stays in use: nothing is gained by what is below it.
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of the data file, by its length; 0 where page servers have the pages or nobody says.
    pub fn data_file_bytes(&self) -> u64 {
        let pool = &self.inner().pool;
        if pool.is_remote() { 0 } else { pool.file().len().unwrap_or(0) / PAGE_SIZE as u64 * PAGE_SIZE as u64 }
    }
}
