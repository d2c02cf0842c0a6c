//! Deleting several rows of one leaf in one record of its log.
//!
//! Where rows that follow each other are deleted, most of what each costs is not its own: finding and latching the leaf, a group of
//! the log, the latch's release. A *run* is as many of the next keys as one leaf has, each an ordinary case: its newest version is
//! not aborted, nothing is in the way of its deletion, and the version before goes into the row. Whatever is out of the ordinary ends
//! the run, and is deleted by itself ([`RowWriter::delete`]), which also tells what is in its way.
//!
//! # Invariants
//! 1. A run leaves the leaf, byte for byte, as the same deletions one after the other would: the changes are those of
//!    [`RowWriter::delete`], in one body. (The page counts one record in place of several.)
//! 2. It is not done where undo goes through the log: there each record says how its one row is undone.

use std::sync::atomic::{AtomicU8, Ordering};

use resurgam_base::limits::RECORD_BYTES_MAX;
use resurgam_base::{ErrorKind, PageId, Result, SlotId, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{Mtr, PageRef, WriteGuard};
use resurgam_page::{Earlier, EarlierTag, LeafBuilder, LeafRecord, PageBuf, leaf, op};
use resurgam_txn::{Status, WrittenRow};

use crate::read::Seen;
use crate::write::{RowWriter, Versioning};

/// Rows of one run at most.
const RUN_MAX: usize = 256;

/// Deleted rows that who takes the first row passes over; more are a cursor's to note, and to have cleaned.
const PASSED_MAX: u16 = 16;

/// Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedRun {
    None,
    /// Rows are deleted that the statement does not see.
    Unseen,
    /// And those that another transaction holds.
    Held,
    /// What was there before is taken to be seen by all.
    Untagged,
    /// The transaction does not know what it deleted.
    Unnoted,
    /// A version in the row that somebody may need goes for the one that is put over it.
    OverInner,
    /// Of rows that are inserted only the first is looked for: those behind it may be there.
    Unlooked,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

impl PlantedRun {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u8
    }
}

/// The rows of a run, and what becomes of the leaf.
pub(crate) struct Run {
    pub rows: usize,
    pub ops: Vec<u8>,
}

impl RowWriter<'_> {
    /// Deletes the rows under the first of `keys`, which ascend, as far as they are a run; returns how many. `is_plain` says of the
    /// value of each row whether nothing but the row has to go. `hint` as in [`RowWriter::insert`].
    ///
    /// # Errors
    /// Those of reading and writing the first; nothing of the run is done then. What cannot be read further on ends the run.
    pub fn delete_run(
        &self,
        tree: Tree,
        keys: &[&[u8]],
        seen: Seen,
        hint: &mut Option<PageId>,
        is_plain: &dyn Fn(&[u8]) -> Result<bool>,
    ) -> Result<usize> {
        let Some(first) = keys.first().filter(|_| self.makes_runs(tree)) else { return Ok(0) };
        let (page, found) = tree.find_to_write(self.pool, first, *hint)?;
        *hint = Some(page.id());
        let Ok(slot) = found else { return Ok(0) };
        let run = self.plan_run(tree, &page, slot, keys, seen, is_plain)?;
        if run.rows == 0 {
            return Ok(0);
        }
        match self.do_run(tree, page, &keys[..run.rows], &run.ops) {
            Ok(()) => Ok(run.rows),
            // A row by itself looks for space.
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Deletes the first row from `from` on that is seen and within the range, if it is on the leaf where that is, a few deleted rows
    /// behind it, and `take`, which is shown its key and value, wants it. False: none was deleted. `is_plain` and `hint` as in
    /// [`RowWriter::delete_run`]. Nothing is latched while `take` runs; who changes the row meanwhile comes first, and none is deleted then.
    ///
    /// # Errors
    /// Those of reading and writing; none is deleted then.
    pub fn delete_first(
        &self,
        tree: Tree,
        from: &[u8],
        is_within: &dyn Fn(&[u8]) -> bool,
        hint: &mut Option<PageId>,
        is_plain: &dyn Fn(&[u8]) -> Result<bool>,
        take: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        if !self.makes_runs(tree) {
            return Ok(false);
        }
        let (page, found) = tree.find_to_write(self.pool, from, *hint)?;
        *hint = Some(page.id());
        let (Ok(first) | Err(first)) = found;
        for slot in first.0..page.slot_count().min(first.0.saturating_add(PASSED_MAX)) {
            let slot = SlotId(slot);
            let record = LeafRecord::parse(page.record(slot)?)?;
            if !self.view.sees(record.xid) || !is_within(record.key) {
                return Ok(false);
            }
            if record.is_ghost() {
                continue;
            }
            if !self.is_ordinary(&record, Seen::Snapshot) || !is_plain(record.value)? {
                return Ok(false);
            }
            let (key, value) = (record.key.to_vec(), record.value.to_vec());
            // Whoever decides may take its time, and look at other rows.
            drop(page);
            if !take(&key, &value) {
                return Ok(false);
            }
            return Ok(self.delete_run(tree, &[&key], Seen::Snapshot, hint, is_plain)? == 1);
        }
        Ok(false)
    }

    /// What a run of rows under the first of `keys`, whose first is in slot `first`, does to the leaf.
    pub(crate) fn plan_run(
        &self,
        tree: Tree,
        page: &PageBuf,
        first: SlotId,
        keys: &[&[u8]],
        seen: Seen,
        is_plain: &dyn Fn(&[u8]) -> Result<bool>,
    ) -> Result<Run> {
        let mut run = Run { rows: 0, ops: Vec::new() };
        if !self.makes_runs(tree) {
            return Ok(run);
        }
        let (mut room, mut slot) = (page.free_total(), first);
        // Rows of one leaf are often of one transaction.
        let mut for_all: Option<(TxId, bool)> = None;
        for (at, key) in keys.iter().take(RUN_MAX).enumerate() {
            if at > 0 {
                if *key <= keys[at - 1] || page.upper_fence().is_some_and(|upper| *key >= upper) {
                    break;
                }
                let Ok(next) = leaf::search_from(page, key, slot.0 + 1) else { break };
                slot = next;
            }
            let read = || {
                let old = page.record(slot)?;
                let record = LeafRecord::parse(old)?;
                let goes = self.is_ordinary(&record, seen) && is_plain(record.value)?;
                Ok(goes.then_some((old, record)))
            };
            let (old, record) = match read() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // Its own deletion tells; those before it are none of its.
                Err(_) if at > 0 => break,
                Err(error) => return Err(error),
            };
            let is_for_all = match for_all {
                Some((xid, is)) if xid == record.xid => is,
                _ => {
                    let is = self.is_seen_by_all(record.xid);
                    for_all = Some((record.xid, is));
                    is
                }
            };
            // The row has place for one: the other goes to the version store.
            if !is_for_all && matches!(record.earlier(), Earlier::InRow(..)) && !PlantedRun::OverInner.is_planted() {
                break;
            }
            let tag = EarlierTag {
                ghost: false,
                xid: if is_for_all || PlantedRun::Untagged.is_planted() { TxId::NONE } else { record.xid },
                offrow: record.offrow.filter(|_| !is_for_all && !PlantedRun::Untagged.is_planted()),
            };
            let builder =
                LeafBuilder { ghost: true, xid: self.xid, key, value: record.value, earlier: Earlier::InRow(tag, &[]) };
            let len = builder.encoded_len();
            let Some(left) = (room + old.len()).checked_sub(len) else { break };
            if len > self.caps.record_bytes_max.min(RECORD_BYTES_MAX) {
                break;
            }
            op::delete_row(&mut run.ops, slot, self.xid, tag.xid.is_some());
            room = left;
            run.rows += 1;
        }
        Ok(run)
    }

    fn makes_runs(&self, tree: Tree) -> bool {
        // Rows that others share are looked at one by one. (Asked under the leaf's latch, under which they are taken.)
        self.versioning == Versioning::Persistent
            && self.caps.in_row
            && self.view.txs.row_locks().has_none_of((tree.object, tree.root))
    }

    /// Whether a row can be deleted, and its version is one that another can be put over as it is.
    fn is_ordinary(&self, record: &LeafRecord<'_>, seen: Seen) -> bool {
        if record.is_ghost() || record.xid == self.xid {
            return false;
        }
        if record.xid.is_some() {
            match self.view.txs.status(record.xid) {
                Status::Committed(_) => {}
                Status::Active(top) if top != self.tx.id && PlantedRun::Held.is_planted() => return true,
                // Of an earlier part of this transaction it is one case more than is worth it.
                Status::Active(_) | Status::Aborted | Status::Unknown => return false,
            }
        }
        match seen {
            Seen::Snapshot => self.trust || self.view.sees(record.xid) || PlantedRun::Unseen.is_planted(),
            Seen::Version(xid) => xid == record.xid,
        }
    }

    /// Does what was planned of the rows under `keys`.
    pub(crate) fn do_run(&self, tree: Tree, page: WriteGuard<'_>, keys: &[&[u8]], changes: &[u8]) -> Result<()> {
        let (id, first_version) = (page.id(), !page.has_versions());
        let mut mtr = Mtr::new(self.pool);
        let at = mtr.add(page);
        mtr.ops(at).extend_from_slice(changes);
        if first_version {
            self.mark_versions(&mut mtr, at, id)?;
        }
        self.finish_run(mtr, at, tree, keys.iter().copied())
    }

    /// Logs and applies the change of the leaf `at`, and notes its rows for a rollback.
    pub(crate) fn finish_run<'k>(
        &self,
        mut mtr: Mtr<'_>,
        at: PageRef,
        tree: Tree,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<()> {
        mtr.attribute(at, self.xid, self.tx.last_lsn());
        let (lsn, end) = mtr.commit()?;
        self.tx.logged(lsn);
        if PlantedRun::Unnoted.is_planted() {
            return Ok(());
        }
        let mut written = self.tx.write_set.lock();
        // The log of all of it counts with the first.
        let mut bytes = end.0.saturating_sub(lsn.0);
        for key in keys {
            written.note(WrittenRow { root: tree.root, object: tree.object, key }, std::mem::take(&mut bytes));
        }
        Ok(())
    }
}
