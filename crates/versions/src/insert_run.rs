//! Inserting several rows into one leaf in one record of its log.
//!
//! Where rows that follow each other are inserted, most of what each costs is not its own: finding and latching the leaf, a group of
//! the log, the latch's release. A *run* is as many of the next rows as belong on one leaf, have no record there, and have room.
//! Whatever is out of the ordinary (a key that has a record, of whatever state; a row too long) ends the run, and is inserted by itself
//! ([`RowWriter::insert`]), which also tells what is in its way.
//!
//! # Invariants
//! 1. A run leaves on the leaf the records that the same insertions one after the other would. (The page counts one record in place
//!    of several, and may have moved its records together at another moment.)
//! 2. A key without a record on the leaf that covers it is one that nobody holds, has, or had as long as anybody needs that: so one
//!    look for each row, under the latch, is all that a row by itself is looked after.
//! 3. It is not done where undo goes through the log: there each record says how its one row is undone.
//!
//! An image of the page would never be shorter: it has these records as well, and a slot for each.

use resurgam_base::limits::RECORD_BYTES_MAX;
use resurgam_base::{ErrorKind, PageId, Result, SlotId};
use resurgam_btree::Tree;
use resurgam_buffer::{Mtr, WriteGuard};
use resurgam_page::{LeafBuilder, PageBuf, leaf, op};

use crate::delete_run::PlantedRun;
use crate::write::{RowWriter, Step, Versioning, append_reserve};

/// Bytes of a page's slot.
const SLOT: usize = 4;

/// A row that is to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRow<'r> {
    pub key: &'r [u8],
    pub value: &'r [u8],
}

/// Rows of a run that come side by side: their first slot once those before them are there, and how many they are.
struct Piece {
    slot: SlotId,
    rows: usize,
}

impl RowWriter<'_> {
    /// Inserts the first of `rows`, whose keys ascend, as far as they are a run; returns how many. `hint` as in [`RowWriter::insert`].
    ///
    /// # Errors
    /// Those of reading and writing; nothing of the run is done then.
    pub fn insert_run(&self, tree: Tree, rows: &[NewRow<'_>], hint: &mut Option<PageId>) -> Result<usize> {
        let Some(first) = rows.first().filter(|_| self.versioning == Versioning::Persistent) else { return Ok(0) };
        let len = self.built(first).encoded_len();
        if len > RECORD_BYTES_MAX {
            return Ok(0);
        }
        match self.insert_some(tree, rows, first, len, hint) {
            // A row by itself looks for space.
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(0),
            done => done,
        }
    }

    fn built<'r>(&self, row: &NewRow<'r>) -> LeafBuilder<'r> {
        LeafBuilder::inserted(self.xid, row.key, row.value)
    }

    fn insert_some(
        &self,
        tree: Tree,
        rows: &[NewRow<'_>],
        first: &NewRow<'_>,
        len: usize,
        hint: &mut Option<PageId>,
    ) -> Result<usize> {
        loop {
            let (page, found) = tree.find_to_write(self.pool, first.key, *hint)?;
            *hint = Some(page.id());
            let Err(slot) = found else { return Ok(0) };
            match self.with_room(page, slot, None, len)? {
                Ok(page) => {
                    let (pieces, count) = self.plan_insertions(&page, slot, rows);
                    return self.do_insertions(tree, page, &rows[..count], &pieces).map(|()| count);
                }
                Err(Step::NeedsRoom(wanted)) => *hint = Some(tree.make_room(self.pool, first.key, wanted)?),
                Err(_) => {}
            }
        }
    }

    /// Where rows go of which the first, which fits, is to be slot `first`; how many fit.
    fn plan_insertions(&self, page: &PageBuf, first: SlotId, rows: &[NewRow<'_>]) -> (Vec<Piece>, usize) {
        let (there, upper) = (page.slot_count(), page.upper_fence());
        let mut room = page.free_total();
        let mut pieces: Vec<Piece> = Vec::new();
        // Where the row would be were none of those before it.
        let mut slot = first;
        let mut count = 0;
        for row in rows {
            let before = slot;
            if count > 0 {
                if row.key <= rows[count - 1].key {
                    break;
                }
                match leaf::search_from(page, row.key, slot.0) {
                    Err(next) => slot = next,
                    Ok(same) if PlantedRun::Unlooked.is_planted() => slot = same,
                    Ok(_) => break,
                }
                if slot.0 == there && upper.is_some_and(|upper| row.key >= upper) {
                    break;
                }
            }
            let len = self.built(row).encoded_len();
            // As for a row by itself: those at the end of the tree leave room for later versions.
            let appended = slot.0 == there && upper.is_none() && usize::from(there) + count > 0;
            let wanted = if appended { len + append_reserve(len) } else { len };
            if len > RECORD_BYTES_MAX || wanted + SLOT > room {
                break;
            }
            room -= len + SLOT;
            match pieces.last_mut().filter(|_| slot == before) {
                Some(piece) => piece.rows += 1,
                None => pieces.push(Piece { slot: SlotId(slot.0 + count as u16), rows: 1 }),
            }
            count += 1;
        }
        (pieces, count)
    }

    fn do_insertions(&self, tree: Tree, page: WriteGuard<'_>, rows: &[NewRow<'_>], pieces: &[Piece]) -> Result<()> {
        for row in rows {
            // Under the leaf's latch, as for a row by itself.
            self.spans.insert(tree.object, row.key);
        }
        let (id, first_version) = (page.id(), !page.has_versions());
        let mut mtr = Mtr::new(self.pool);
        let at = mtr.add(page);
        let mut rest = rows;
        for piece in pieces {
            let (these, behind) = rest.split_at(piece.rows);
            op::insert_rows(mtr.ops(at), piece.slot, these.iter().map(|row| self.built(row)))?;
            rest = behind;
        }
        if first_version {
            self.mark_versions(&mut mtr, at, id)?;
        }
        self.finish_run(mtr, at, tree, rows.iter().map(|row| row.key))
    }
}
