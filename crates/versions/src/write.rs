//! Writing one row: insert, update, delete as versions.
//!
//! A writer looks at the newest version that is not aborted (the *prior*):
//! - an aborted version above it is simply overwritten; the new version is linked to the
//!   prior, no revert first (Constant Time Recovery, section 3.3.1, figure 6);
//! - if the prior's writer is active, the caller waits for that transaction;
//! - if it is committed and not seen by the statement, the row has changed;
//! - if others share the row ([`resurgam_txn::RowLocks`]) in a way that excludes the change, the caller waits for one of them.
//!
//! Where the prior goes: nowhere if it is the writer's own under the same id, or if the
//! writer inserts over a deletion that all have seen; else into the row as a diff if it
//! has no in-row version of its own that is still needed and the caps allow; else off-row
//! as a full image, its own chain included. When the prior was off-row under an aborted
//! version it is pushed again, under the new writer's id, so that it lives as long as the
//! new version needs it.

use resurgam_base::pauses::{Mistake, Pause};
use resurgam_base::{Error, ErrorKind, PageId, Result, SlotId, TxId, limits::RECORD_BYTES_MAX};
use resurgam_btree::{Found, Tree};
use resurgam_buffer::{BufferPool, Mtr, PageRef, WriteGuard};
use resurgam_page::{Earlier, EarlierTag, LeafBuilder, LeafRecord, VersionPtr, buf, diff, leaf, op, space, version};
use resurgam_txn::{ActiveTx, RowLockMode, Status, WrittenRow};

use crate::empty_spans::EmptySpans;
use crate::prune;
use crate::read::{self, OwnedEarlier, Seen, Version};
use crate::row_undo;
use crate::store::VersionStore;
use crate::view::View;

/// Limits of in-row versions (Constant Time Recovery, section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionCaps {
    /// Keep earlier versions in the row at all.
    pub in_row: bool,
    /// Longest diff kept in the row, in bytes.
    pub diff_bytes_max: usize,
    /// Longest record (version included) that keeps one, in bytes.
    pub record_bytes_max: usize,
}

impl Default for VersionCaps {
    fn default() -> Self {
        Self { in_row: true, diff_bytes_max: 256, record_bytes_max: RECORD_BYTES_MAX }
    }
}

/// Where earlier versions are kept, and what undoes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// In the row and in the version store, both on disk: they are the undo (Constant Time
    /// Recovery, section 3.1).
    Persistent,
    /// In memory, for snapshots; undo goes through the log (the traditional mode, section 2).
    Temporary,
    /// On disk, and undo goes through the log: definitions in the traditional mode. They can be
    /// read after a restart while, or before, the transaction that changed them is undone.
    Logged,
}

impl Versioning {
    /// Whether earlier versions survive a restart.
    fn is_on_disk(self) -> bool {
        self != Self::Temporary
    }
    /// Whether each change logs how to take it back.
    fn logs_undo(self) -> bool {
        self != Self::Persistent
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// This transaction must end first.
    Wait(TxId),
    /// A live row has the key.
    Duplicate,
    /// The newest committed version is not the one the statement saw.
    Changed,
    /// The row is deleted, or was never there.
    Gone,
    /// This very statement wrote it already.
    SelfModified,
}

/// What to do to a row.
#[derive(Clone, Copy)]
enum Action<'v> {
    Insert(&'v [u8]),
    Update(&'v [u8]),
    Delete,
}

/// Writes rows for one statement.
pub struct RowWriter<'a> {
    pub pool: &'a BufferPool,
    pub store: &'a VersionStore,
    /// Told of rows that are put in.
    pub spans: &'a EmptySpans,
    pub view: View<'a>,
    pub tx: &'a ActiveTx,
    /// The id that versions are tagged with: the transaction's or its statement's own.
    pub xid: TxId,
    pub caps: VersionCaps,
    pub versioning: Versioning,
    /// The caller knows the row to be its to change (index entries of a row that it holds,
    /// taking back its own writes): no check against the view.
    pub trust: bool,
    /// The view stays the same for the whole transaction: inserting over a row that it still
    /// sees and that is deleted is a conflict, since it can show one version of a key only.
    pub frozen: bool,
    /// A row of its own that is deleted stays, as a ghost, also where nothing was before it: it may have to come back, and nobody else may
    /// have its key by then.
    pub keeps_ghosts: bool,
    /// How an update locks its row: whether the columns of the row's keys stay. (A deletion locks it as [`RowLockMode::Update`].)
    pub update_locks: RowLockMode,
    /// After [`Outcome::Done`] of an update or delete: the value that was there before.
    pub prior: std::cell::RefCell<Vec<u8>>,
    /// The last insert that was done is over a deletion that not everyone has seen.
    pub over_deleted: std::cell::Cell<bool>,
}

pub(crate) enum Step {
    Finished(Outcome),
    /// Make room for this many bytes and try again.
    NeedsRoom(usize),
    Again,
}

impl RowWriter<'_> {
    /// Inserts a row. `hint` is a leaf to try first; it is set to the leaf used.
    pub fn insert(&self, tree: Tree, key: &[u8], value: &[u8], hint: &mut Option<PageId>) -> Result<Outcome> {
        self.apply(tree, key, Action::Insert(value), Seen::Snapshot, hint)
    }
    /// Gives a row a new value.
    pub fn update(&self, tree: Tree, key: &[u8], value: &[u8], seen: Seen) -> Result<Outcome> {
        self.apply(tree, key, Action::Update(value), seen, &mut None)
    }
    /// Deletes a row: it stays as a ghost with its content as the earlier version.
    pub fn delete(&self, tree: Tree, key: &[u8], seen: Seen) -> Result<Outcome> {
        self.delete_hinted(tree, key, seen, &mut None)
    }
    /// As [`RowWriter::delete`]; `hint` as in [`RowWriter::insert`].
    pub fn delete_hinted(&self, tree: Tree, key: &[u8], seen: Seen, hint: &mut Option<PageId>) -> Result<Outcome> {
        self.apply(tree, key, Action::Delete, seen, hint)
    }

    /// What a delete would meet, without doing it.
    pub fn delete_check(&self, tree: Tree, key: &[u8], seen: Seen) -> Result<Outcome> {
        let (page, Ok(slot)) = tree.find(self.pool, key, resurgam_buffer::Access::Point)? else {
            return Ok(Outcome::Gone);
        };
        let record = LeafRecord::parse(page.record(slot)?)?;
        Ok(match self.prior_of(&record)? {
            None => Outcome::Gone,
            Some((prior, status)) => {
                self.conflict(tree, key, &prior, status, Action::Delete, seen).unwrap_or(Outcome::Done)
            }
        })
    }

    /// The prior, and the state of its writer: never aborted. Both come from one look; a writer that was active when its version was found, and
    /// aborts before it is asked for once more, would have its version taken for a committed one.
    fn prior_of(&self, record: &LeafRecord<'_>) -> Result<Option<(Version, Status)>> {
        loop {
            let Some(prior) = read::newest_not_aborted(self.pool, self.view.txs, record)? else { return Ok(None) };
            Pause::VersionFound.here();
            let status = if prior.xid.is_none() {
                Status::Committed(resurgam_base::CommitTs::NONE)
            } else {
                self.view.txs.status(prior.xid)
            };
            if matches!(status, Status::Committed(ts) if ts > self.view.ts) {
                self.tx.has_met();
            }
            // It is so for good: the next look passes it over.
            if status != Status::Aborted || Mistake::AskedTwice.is_planted() {
                return Ok(Some((prior, status)));
            }
        }
    }

    fn apply(
        &self,
        tree: Tree,
        key: &[u8],
        action: Action<'_>,
        seen: Seen,
        hint: &mut Option<PageId>,
    ) -> Result<Outcome> {
        let mut tried = false;
        loop {
            let (page, found) = tree.find_to_write(self.pool, key, *hint)?;
            *hint = Some(page.id());
            let step = match self.attempt(tree, page, found, key, action, seen) {
                Err(error) if error.kind() == ErrorKind::DiskFull && !std::mem::replace(&mut tried, true) => {
                    self.store.find_space(self.pool, self.view.txs)?;
                    continue;
                }
                step => step?,
            };
            match step {
                Step::Finished(outcome) => return Ok(outcome),
                Step::Again => {}
                Step::NeedsRoom(len) => *hint = Some(tree.make_room(self.pool, key, len)?),
            }
        }
    }

    fn attempt(
        &self,
        tree: Tree,
        page: WriteGuard<'_>,
        found: Found,
        key: &[u8],
        action: Action<'_>,
        seen: Seen,
    ) -> Result<Step> {
        if matches!(action, Action::Insert(_)) {
            // Under the leaf's latch, and whether or not it comes to it: a row too many divides a range for nothing.
            self.spans.insert(tree.object, key);
        }
        match found {
            Err(at) => match action {
                Action::Insert(value) => self.put_new(tree, page, at, key, value),
                Action::Update(_) | Action::Delete => Ok(Step::Finished(Outcome::Gone)),
            },
            Ok(slot) => {
                if matches!(action, Action::Delete) {
                    // An ordinary deletion is a run of one row.
                    let note = |value: &[u8]| {
                        let mut prior = self.prior.borrow_mut();
                        prior.clear();
                        prior.extend_from_slice(value);
                        Ok(true)
                    };
                    let run = self.plan_run(tree, &page, slot, &[key], seen, &note)?;
                    if run.rows > 0 {
                        return self.do_run(tree, page, &[key], &run.ops).map(|()| Step::Finished(Outcome::Done));
                    }
                }
                self.over(tree, page, slot, key, action, seen)
            }
        }
    }

    /// The key has a record.
    fn over(
        &self,
        tree: Tree,
        page: WriteGuard<'_>,
        slot: SlotId,
        key: &[u8],
        action: Action<'_>,
        seen: Seen,
    ) -> Result<Step> {
        let record = LeafRecord::parse(page.record(slot)?)?;
        let Some((prior, status)) = self.prior_of(&record)? else {
            // Only aborted work lies here.
            return match action {
                Action::Insert(value) => {
                    let bytes = LeafBuilder::inserted(self.xid, key, value).encode()?;
                    check_size(bytes.len())?;
                    self.put(tree, page, slot, Some(slot), &bytes, None)
                }
                Action::Update(_) | Action::Delete => Ok(Step::Finished(Outcome::Gone)),
            };
        };
        if self.frozen
            && prior.ghost
            && matches!(action, Action::Insert(_))
            && matches!(status, Status::Committed(ts) if ts > self.view.ts)
            && read::visible(self.pool, &record, &self.view, &mut Vec::new())? != read::Visible::No
        {
            return Ok(Step::Finished(Outcome::Changed));
        }
        if let Some(outcome) = self.conflict(tree, key, &prior, status, action, seen) {
            return Ok(Step::Finished(outcome));
        }
        if matches!(action, Action::Insert(_)) && prior.ghost && prior.xid == self.xid {
            self.tx.locks_keys.store(true, std::sync::atomic::Ordering::Release);
        }
        let step = self.replace(tree, page, slot, key, action, &prior)?;
        if matches!(step, Step::Finished(Outcome::Done)) {
            let is_insert = matches!(action, Action::Insert(_));
            self.over_deleted.set(is_insert && prior.ghost && !self.is_seen_by_all(prior.xid));
            *self.prior.borrow_mut() = prior.value;
        }
        Ok(step)
    }

    /// Why the action cannot go ahead on `prior` now.
    fn conflict(
        &self,
        tree: Tree,
        key: &[u8],
        prior: &Version,
        status: Status,
        action: Action<'_>,
        seen: Seen,
    ) -> Option<Outcome> {
        self.conflict_of_versions(prior, status, action, seen).or_else(|| {
            let mode = match action {
                Action::Insert(_) => return None,
                Action::Update(_) => self.update_locks,
                Action::Delete => RowLockMode::Update,
            };
            if self.trust {
                return None;
            }
            self.view.txs.row_lock_conflict((tree.object, tree.root), key, self.tx.id, mode).map(Outcome::Wait)
        })
    }

    fn conflict_of_versions(&self, prior: &Version, status: Status, action: Action<'_>, seen: Seen) -> Option<Outcome> {
        match status {
            Status::Active(top) if top != self.tx.id => return Some(Outcome::Wait(prior.xid)),
            Status::Active(_) => {
                // Own work. This statement's own is left alone (a row is changed once a statement).
                let this_statement = prior.xid >= self.view.hidden_from;
                match action {
                    Action::Insert(_) => return (!prior.ghost).then_some(Outcome::Duplicate),
                    _ if this_statement && !self.trust => return Some(Outcome::SelfModified),
                    _ if prior.ghost => return Some(Outcome::Gone),
                    _ => return None,
                }
            }
            // (The newest version is none of a transaction that never was: that is an error.)
            Status::Committed(_) | Status::Aborted | Status::Unknown => {}
        }
        match action {
            Action::Insert(_) if !prior.ghost => Some(Outcome::Duplicate),
            Action::Insert(_) => None,
            Action::Update(_) | Action::Delete => {
                let expected = match seen {
                    Seen::Snapshot => self.trust || self.view.sees(prior.xid),
                    Seen::Version(xid) => xid == prior.xid,
                };
                match (prior.ghost, expected) {
                    (true, _) => Some(Outcome::Gone),
                    (false, true) => None,
                    (false, false) => Some(Outcome::Changed),
                }
            }
        }
    }

    pub(crate) fn is_seen_by_all(&self, xid: TxId) -> bool {
        let txs = self.view.txs;
        xid.is_none() || matches!(txs.status(xid), Status::Committed(ts) if ts <= txs.horizon())
    }

    /// Builds the new record over `prior` and puts it in place.
    fn replace(
        &self,
        tree: Tree,
        page: WriteGuard<'_>,
        slot: SlotId,
        key: &[u8],
        action: Action<'_>,
        prior: &Version,
    ) -> Result<Step> {
        let (ghost, value): (bool, &[u8]) = match action {
            Action::Insert(v) | Action::Update(v) => (false, v),
            Action::Delete => (true, &prior.value),
        };
        if prior.xid == self.xid {
            return self.replace_own(tree, page, slot, key, ghost, value, prior);
        }
        let prior_for_all = self.is_seen_by_all(prior.xid);
        if prior_for_all && prior.ghost {
            // Inserting over a deletion that everyone has seen: nothing earlier matters.
            let bytes = LeafBuilder::inserted(self.xid, key, value).encode()?;
            check_size(bytes.len())?;
            return self.put(tree, page, slot, Some(slot), &bytes, None);
        }
        let tag = EarlierTag {
            ghost: prior.ghost,
            xid: if prior_for_all { TxId::NONE } else { prior.xid },
            offrow: match prior.earlier {
                OwnedEarlier::OffRow(pointer) if !prior_for_all => Some(pointer),
                _ => None,
            },
        };
        let holds_inner = matches!(prior.earlier, OwnedEarlier::InRow(..)) && !prior_for_all;
        if self.caps.in_row && !holds_inner && self.versioning.is_on_disk() {
            let mut delta = Vec::new();
            diff::diff(value, &prior.value, &mut delta);
            let builder = LeafBuilder { ghost, xid: self.xid, key, value, earlier: Earlier::InRow(tag, &delta) };
            if delta.len() <= self.caps.diff_bytes_max
                && builder.encoded_len() <= self.caps.record_bytes_max.min(RECORD_BYTES_MAX)
            {
                return self.put(tree, page, slot, Some(slot), &builder.encode()?, None);
            }
        }
        // Off-row: the prior as a full record with its own chain.
        let image = LeafBuilder {
            ghost: prior.ghost,
            xid: tag.xid,
            key,
            value: &prior.value,
            earlier: if prior_for_all { Earlier::None } else { prior.earlier.borrow() },
        }
        .encode()?;
        // A deletion whose content is off-row needs none of it here; but what is taken away undo
        // through the log would have to log.
        let value = if ghost && !self.versioning.logs_undo() { &[][..] } else { value };
        self.put(tree, page, slot, Some(slot), value, Some((ghost, key.to_vec(), image)))
    }

    /// The same transaction id wrote the prior: it is replaced, its own earlier version stays.
    fn replace_own(
        &self,
        tree: Tree,
        page: WriteGuard<'_>,
        slot: SlotId,
        key: &[u8],
        ghost: bool,
        value: &[u8],
        prior: &Version,
    ) -> Result<Step> {
        let mut older = Vec::new();
        let mut delta = Vec::new();
        let earlier = match &prior.earlier {
            OwnedEarlier::None => {
                // Undo through the log finds rows by their keys: a key that it will come back to
                // stays this transaction's, as a ghost.
                if ghost && !self.versioning.logs_undo() && (!self.keeps_ghosts || Mistake::KeyFreed.is_planted()) {
                    return self.remove(tree, page, slot, key);
                }
                Earlier::None
            }
            OwnedEarlier::OffRow(pointer) => Earlier::OffRow(*pointer),
            OwnedEarlier::InRow(tag, old_delta) => {
                leaf::rebuild_earlier(&prior.value, old_delta, &mut older)?;
                diff::diff(value, &older, &mut delta);
                Earlier::InRow(*tag, &delta)
            }
        };
        let builder = LeafBuilder { ghost, xid: self.xid, key, value, earlier };
        if let (Earlier::InRow(tag, _), true) =
            (earlier, builder.encoded_len() > self.caps.record_bytes_max.min(RECORD_BYTES_MAX))
        {
            let image = LeafBuilder {
                ghost: tag.ghost,
                xid: tag.xid,
                key,
                value: &older,
                earlier: tag.offrow.filter(|_| tag.xid.is_some()).map_or(Earlier::None, Earlier::OffRow),
            }
            .encode()?;
            return self.put(tree, page, slot, Some(slot), value, Some((ghost, key.to_vec(), image)));
        }
        check_size(builder.encoded_len())?;
        self.put(tree, page, slot, Some(slot), &builder.encode()?, None)
    }

    /// A row that this transaction inserted and deletes again, with nothing before it.
    fn remove(&self, tree: Tree, page: WriteGuard<'_>, slot: SlotId, key: &[u8]) -> Result<Step> {
        let mut mtr = Mtr::new(self.pool);
        let at = mtr.add(page);
        op::remove(mtr.ops(at), slot);
        self.finish(mtr, at, tree, key, &[])
    }

    /// Puts a record into the leaf: `bytes` is the record itself, or, with `offrow`
    /// (ghost, key, image of the earlier version), the new value.
    fn put(
        &self,
        tree: Tree,
        page: WriteGuard<'_>,
        slot: SlotId,
        replaces: Option<SlotId>,
        bytes: &[u8],
        offrow: Option<(bool, Vec<u8>, Vec<u8>)>,
    ) -> Result<Step> {
        // The length is known before the off-row version has its address.
        let len = match &offrow {
            None => bytes.len(),
            Some((ghost, key, _)) => {
                let pointer = VersionPtr { page: PageId(1), slot: SlotId(0) };
                LeafBuilder { ghost: *ghost, xid: self.xid, key, value: bytes, earlier: Earlier::OffRow(pointer) }
                    .encoded_len()
            }
        };
        check_size(len)?;
        let page = match self.with_room(page, slot, replaces, len)? {
            Ok(page) => page,
            Err(step) => return Ok(step),
        };
        let first_version = !page.has_versions();
        let id = page.id();
        let mut mtr = Mtr::new(self.pool);
        let at = mtr.add(page);
        let built;
        let record: &[u8] = match offrow {
            None => bytes,
            Some((ghost, key, image)) => {
                let pointer = self.push(&mut mtr, tree, &image)?;
                built =
                    LeafBuilder { ghost, xid: self.xid, key: &key, value: bytes, earlier: Earlier::OffRow(pointer) }
                        .encode()?;
                &built
            }
        };
        let (page, ops) = mtr.page_and_ops(at);
        let mut undo = Vec::new();
        match replaces {
            Some(slot) => {
                let old = page.record(slot)?;
                op::change_row(ops, slot, old, record);
                if self.versioning.logs_undo() {
                    undo = row_undo::of_change(self.xid, tree, leaf::key_of(record), old, record);
                }
            }
            None => {
                op::insert(ops, slot, record);
                if self.versioning.logs_undo() {
                    undo = row_undo::of_insert(self.xid, tree);
                }
            }
        }
        if first_version {
            self.mark_versions(&mut mtr, at, id)?;
        }
        let key = leaf::key_of(record);
        self.finish(mtr, at, tree, key, &undo)
    }

    /// Puts a record into the leaf for a key that has none.
    fn put_new(&self, tree: Tree, page: WriteGuard<'_>, slot: SlotId, key: &[u8], value: &[u8]) -> Result<Step> {
        let record = LeafBuilder::inserted(self.xid, key, value);
        let len = record.encoded_len();
        check_size(len)?;
        let page = match self.with_room(page, slot, None, len)? {
            Ok(page) => page,
            Err(step) => return Ok(step),
        };
        let (id, first_version) = (page.id(), !page.has_versions());
        let mut mtr = Mtr::new(self.pool);
        let at = mtr.add(page);
        op::insert_row(mtr.ops(at), slot, &record)?;
        if first_version {
            self.mark_versions(&mut mtr, at, id)?;
        }
        let undo = if self.versioning.logs_undo() { row_undo::of_insert(self.xid, tree) } else { Vec::new() };
        self.finish(mtr, at, tree, key, &undo)
    }

    /// The leaf, if it has room for a record of `len` bytes; else what is to be done about that.
    pub(crate) fn with_room<'p>(
        &self,
        page: WriteGuard<'p>,
        slot: SlotId,
        replaces: Option<SlotId>,
        len: usize,
    ) -> Result<Result<WriteGuard<'p>, Step>> {
        // Rows appended at the end of the tree leave room for later versions.
        let appended = replaces.is_none() && slot.0 == page.slot_count() && page.upper_fence().is_none();
        let wanted = if appended && slot.0 > 0 { len + append_reserve(len) } else { len };
        let fits = match replaces {
            Some(slot) => page.fits_replace(slot, len),
            None => page.fits(wanted),
        };
        if fits {
            return Ok(Ok(page));
        }
        if page.has_versions() && prune::clean_leaf(self.pool, self.view.txs, page)?.changed() {
            return Ok(Err(Step::Again));
        }
        Ok(Err(Step::NeedsRoom(wanted)))
    }

    /// The page at `at`, whose id is `id`, gets its first version.
    pub(crate) fn mark_versions(&self, mtr: &mut Mtr<'_>, at: PageRef, id: PageId) -> Result<()> {
        op::set_flags(mtr.ops(at), buf::HAS_VERSIONS, 0);
        self.pool.space().set_flags(mtr, id, space::PFS_HAS_VERSIONS, 0)
    }

    /// Keeps an earlier version outside the row.
    fn push(&self, mtr: &mut Mtr<'_>, tree: Tree, image: &[u8]) -> Result<VersionPtr> {
        match self.versioning {
            Versioning::Persistent | Versioning::Logged => {
                let pushed = self.store.push(mtr, tree.object, self.xid, image);
                pushed.map_err(|e| crate::version_holders::explain(e, self.view.txs))
            }
            Versioning::Temporary => {
                let mut bytes = Vec::with_capacity(image.len() + version::OVERHEAD);
                version::encode_into(tree.object, self.xid, image, &mut bytes);
                let (page, slot) = self.view.txs.temporary().push(self.xid, &bytes)?;
                Ok(VersionPtr { page, slot })
            }
        }
    }

    /// Logs and applies the change of the leaf `at`, and notes it for a rollback. `undo`: what the log says
    /// about taking it back, where it does (`row_undo.rs`).
    fn finish(&self, mut mtr: Mtr<'_>, at: PageRef, tree: Tree, key: &[u8], undo: &[u8]) -> Result<Step> {
        match self.versioning {
            Versioning::Persistent => {
                mtr.attribute(at, self.xid, self.tx.last_lsn());
                let (lsn, end) = mtr.commit()?;
                self.tx.logged(lsn);
                let row = WrittenRow { root: tree.root, object: tree.object, key };
                self.tx.write_set.lock().note(row, end.0.saturating_sub(lsn.0));
            }
            Versioning::Temporary | Versioning::Logged => {
                let mut chain = self.tx.undo.lock();
                mtr.undone_by(at, self.tx.id, chain.last, undo);
                let (lsn, _) = mtr.commit()?;
                chain.push(lsn);
                drop(chain);
                self.tx.logged(lsn);
            }
        }
        Ok(Step::Finished(Outcome::Done))
    }
}

/// Bytes left free on a leaf that is filled in ascending order: a tenth of the page, as long
/// as several rows of this length fit beside it.
pub(crate) fn append_reserve(len: usize) -> usize {
    let tenth = resurgam_base::limits::PAGE_SIZE / 10;
    if len > tenth { 0 } else { tenth }
}

fn check_size(len: usize) -> Result<()> {
    if len > RECORD_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a row needs {len} bytes in its page, the most is {RECORD_BYTES_MAX}"),
        ));
    }
    Ok(())
}
