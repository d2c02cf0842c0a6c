//! Cleaning the rows of one leaf: reverting aborted versions (logical revert), stripping
//! tags and earlier versions that nobody needs, removing ghosts that everybody has seen.
//! One mini-transaction for the page (a system transaction, never undone), and in it one
//! operation for all rows that hold what they become ([`resurgam_page::clean`]).
//!
//! Used by the sweep, by writers whose page is full, before they split it, and by readers who have passed over
//! many ghosts before the first row that they see ([`remove_ghosts`]).
//!
//! # Versions between snapshots
//! A row may have been inserted and changed, or inserted and deleted, after the oldest snapshot
//! and before every other one. Then nobody can see the version in between: the oldest snapshot
//! sees no row at all, the others see the newest version. Such a version in the row goes (and
//! with a deletion the whole row), though neither is seen by all yet. That needs the row only.
//! A version with something before it stays, as does everything off-row: the oldest snapshot
//! finds its own version through it.

use std::cell::Cell;

use resurgam_base::{CommitTs, ErrorKind, PageId, Result, SlotId, TxId};
use resurgam_btree::{MergeOutcome, Tree};
use resurgam_buffer::{BufferPool, Mtr, WriteGuard};
use resurgam_page::{Earlier, EarlierTag, LeafBuilder, LeafRecord, PageBuf, Treatment, buf, op, space};
use resurgam_txn::{Status, TxManager};

use crate::read;

/// Leaves this empty are offered for merging.
pub(crate) const MERGE_BELOW_BYTES: usize = 2 * 1024;

/// What [`clean_leaf`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageCleaning {
    /// Rows whose aborted version gave way to the committed one.
    pub reverted: u32,
    /// Rows that lost tag and earlier version, or the earlier version.
    pub stripped: u32,
    /// Rows removed (ghosts).
    pub removed: u32,
    /// Rows that keep versions.
    pub remaining: u32,
    /// A row could not be reverted for lack of room: split the page at this key for this
    /// many bytes and clean again.
    pub needs_room: Option<(Vec<u8>, usize)>,
    /// Slots left on the page, and bytes used.
    pub slots_left: u32,
    pub used_left: usize,
}

impl PageCleaning {
    /// Whether the page was changed.
    pub fn changed(&self) -> bool {
        self.reverted + self.stripped + self.removed > 0
    }
}

/// Whether everyone sees what `xid` wrote, now and from now on.
pub fn is_for_all(txs: &TxManager, xid: TxId) -> bool {
    xid.is_none() || matches!(txs.status(xid), Status::Committed(ts) if ts <= txs.horizon())
}

/// What transactions' states mean for the rows of one page. Rows of one page are often of one
/// transaction: the last answer is kept. (An answer can only become less than what is true:
/// an active transaction may have ended, the horizon may have moved.)
struct Judge<'a> {
    txs: &'a TxManager,
    horizon: CommitTs,
    last: (TxId, Status),
    /// The newest commit that snapshots see, and those of the snapshots in use, ascending; read
    /// when first needed.
    held: Option<(CommitTs, Vec<CommitTs>)>,
}

impl<'a> Judge<'a> {
    fn new(txs: &'a TxManager) -> Self {
        let horizon = txs.horizon();
        Self { txs, horizon, last: (TxId::NONE, Status::Committed(CommitTs::NONE)), held: None }
    }
    fn status(&mut self, xid: TxId) -> Status {
        if self.last.0 != xid {
            let status = if xid.is_none() { Status::Committed(CommitTs::NONE) } else { self.txs.status(xid) };
            self.last = (xid, status);
        }
        self.last.1
    }
    fn is_for_all(&mut self, xid: TxId) -> bool {
        matches!(self.status(xid), Status::Committed(ts) if ts <= self.horizon)
    }
    /// Whether no snapshot, present or future, sees what was committed at `from` and does not
    /// see what was committed at `to`. A snapshot that is not found in use was taken after the
    /// newest visible commit was read, and sees at least that.
    fn nobody_between(&mut self, from: CommitTs, to: CommitTs) -> bool {
        let (visible, held) = self.held.get_or_insert_with(|| self.txs.snapshots().held());
        let at = held.partition_point(|ts| *ts < from);
        to <= *visible && held.get(at).is_none_or(|ts| *ts >= to)
    }
}

/// What is to be done with the rows of a page.
#[derive(Default)]
struct Plan {
    /// By what they hold themselves, ascending by slot.
    treated: Vec<(SlotId, Treatment)>,
    /// By what is elsewhere: slot, new record, length of the old one.
    replaced: Vec<(SlotId, Vec<u8>, usize)>,
    removes: u32,
    /// Bytes that removed rows and their slots give back.
    removed_bytes: usize,
    /// Bytes that rows which shrink give back, and those which grow take.
    shrinks: usize,
    grows: usize,
    report: PageCleaning,
}

impl Plan {
    fn of(pool: &BufferPool, txs: &TxManager, page: &PageBuf) -> Result<Self> {
        let mut judge = Judge::new(txs);
        let mut plan = Self::default();
        // What reverts in place may take, growing rows one after the other.
        let mut room = page.free_total() as isize;
        for s in 0..page.slot_count() {
            let slot = SlotId(s);
            let bytes = page.record(slot)?;
            let record = LeafRecord::parse(bytes)?;
            if !record.is_tagged() {
                continue;
            }
            let treatment = match judge.status(record.xid) {
                Status::Aborted => {
                    plan.report.reverted += 1;
                    match record.earlier() {
                        Earlier::None => Treatment::Remove,
                        Earlier::InRow(tag, _) if judge.status(tag.xid) != Status::Aborted => {
                            match (judge.is_for_all(tag.xid), tag.ghost) {
                                (true, true) => Treatment::Remove,
                                (true, false) => Treatment::Revert,
                                (false, _) => Treatment::RevertTagged,
                            }
                        }
                        Earlier::InRow(..) | Earlier::OffRow(_) => {
                            plan.revert_from_elsewhere(pool, txs, &mut judge, slot, &record, bytes.len())?;
                            continue;
                        }
                    }
                }
                Status::Committed(ts) if ts <= judge.horizon => {
                    if record.is_ghost() {
                        plan.report.removed += 1;
                        Treatment::Remove
                    } else {
                        plan.report.stripped += 1;
                        Treatment::Strip
                    }
                }
                Status::Committed(ts) => match record.earlier() {
                    Earlier::InRow(EarlierTag { xid, offrow: None, .. }, _) if matches!(judge.status(xid), Status::Committed(from) if judge.nobody_between(from, ts)) => {
                        if record.is_ghost() {
                            plan.report.removed += 1;
                            Treatment::Remove
                        } else {
                            plan.report.stripped += 1;
                            plan.report.remaining += 1;
                            Treatment::Shorten
                        }
                    }
                    _ => {
                        plan.report.remaining += 1;
                        continue;
                    }
                },
                Status::Active(_) => {
                    plan.report.remaining += 1;
                    continue;
                }
                // The page is passed over as a damaged one.
                Status::Unknown => {
                    txs.check_known(record.xid)?;
                    plan.report.remaining += 1;
                    continue;
                }
            };
            if treatment == Treatment::RevertTagged {
                plan.report.remaining += 1;
            }
            if treatment == Treatment::Remove {
                plan.removes += 1;
                plan.removed_bytes += bytes.len() + 4;
                room += bytes.len() as isize;
            } else {
                let len = treatment.len_after(&record)?;
                let grows = len as isize - bytes.len() as isize;
                if grows > 0 {
                    plan.grows += grows as usize;
                } else {
                    plan.shrinks += (-grows) as usize;
                }
                room -= grows;
            }
            plan.treated.push((slot, treatment));
        }
        if room < 0 {
            plan.leave_those_that_grow(page)?;
        }
        Ok(plan)
    }

    /// The version that comes back is off-row, or under another aborted one.
    fn revert_from_elsewhere(
        &mut self,
        pool: &BufferPool,
        txs: &TxManager,
        judge: &mut Judge<'_>,
        slot: SlotId,
        record: &LeafRecord<'_>,
        len: usize,
    ) -> Result<()> {
        let bytes = match read::newest_not_aborted(pool, txs, record)? {
            None => None,
            Some(v) if judge.is_for_all(v.xid) && v.ghost => None,
            Some(v) if judge.is_for_all(v.xid) => Some(LeafBuilder::plain(record.key, &v.value).encode()?),
            Some(v) => {
                self.report.remaining += 1;
                let earlier = v.earlier.borrow();
                Some(LeafBuilder { ghost: v.ghost, xid: v.xid, key: record.key, value: &v.value, earlier }.encode()?)
            }
        };
        match bytes {
            None => {
                self.removes += 1;
                self.removed_bytes += len + 4;
                self.treated.push((slot, Treatment::Remove));
            }
            Some(bytes) => self.replaced.push((slot, bytes, len)),
        }
        Ok(())
    }

    /// The page has no room for all: rows that grow in place are replaced one by one, as far as
    /// there is room.
    fn leave_those_that_grow(&mut self, page: &PageBuf) -> Result<()> {
        let mut replaced = Vec::new();
        let mut kept = Vec::new();
        let mut value = Vec::new();
        for (slot, treatment) in self.treated.drain(..) {
            let bytes = page.record(slot)?;
            let record = LeafRecord::parse(bytes)?;
            if treatment != Treatment::Remove && treatment.len_after(&record)? > bytes.len() {
                let mut new = Vec::new();
                treatment.apply(&record, &mut value, &mut new)?;
                replaced.push((slot, new, bytes.len()));
            } else {
                kept.push((slot, treatment));
            }
        }
        self.grows = 0;
        self.treated = kept;
        self.replaced.extend(replaced);
        self.replaced.sort_by_key(|(slot, ..)| *slot);
        Ok(())
    }

    /// Whether nothing is left of the page.
    fn empties(&self, page: &PageBuf) -> bool {
        self.removes == u32::from(page.slot_count())
    }
}

/// Whether nobody needs anything that is on `page`, a latched leaf, and how many of its rows
/// are reverted and removed if it goes. Errors count as a no.
fn emptied(pool: &BufferPool, txs: &TxManager, page: &PageBuf) -> Option<(u32, u32)> {
    let plan = Plan::of(pool, txs, page).ok()?;
    plan.empties(page).then_some((plan.report.reverted, plan.report.removed))
}

/// Takes the leaf `id` out of its tree if it still covers `key` and nobody needs anything that is on it, its rows
/// with it, and returns how many of them were reverted and removed. Or it is merged, as the tree is then.
/// `watch` is told of a page that receives rows ([`Tree::merge_leaf`]).
pub(crate) fn unlink_emptied(
    pool: &BufferPool,
    txs: &TxManager,
    tree: Tree,
    id: PageId,
    key: &[u8],
    watch: impl FnMut(PageId),
) -> Result<Option<(u32, u32)>> {
    let gone = Cell::new((0, 0));
    let is_empty = |page: &PageBuf| {
        // Not another page, should the key be on another one by now.
        let rows = (page.page_id() == id).then(|| emptied(pool, txs, page)).flatten();
        if let Some(rows) = rows {
            gone.set(rows);
        }
        rows.is_some() || page.slot_count() == 0
    };
    let outcome = tree.merge_leaf(pool, key, is_empty, watch)?;
    Ok((outcome == MergeOutcome::Unlinked).then(|| gone.get()))
}

/// Cleans the leaf that covers `key`, or takes it out of its tree when nobody needs anything that is on it: for who
/// has met many ghosts there. `hint`: the leaf's page, when it was met. Returns how many rows went.
pub fn remove_ghosts(pool: &BufferPool, txs: &TxManager, tree: Tree, key: &[u8], hint: PageId) -> Result<u32> {
    let page = tree.write_leaf_hinted(pool, key, Some(hint))?;
    if !page.has_versions() {
        return Ok(0);
    }
    let (id, lower) = (page.id(), page.lower_fence().to_vec());
    let planned = Planned::of(pool, txs, page)?;
    let watch = |receiver| pool.space().watch_page(receiver, tree.object);
    if !planned.empties() || tree.root == id {
        let done = planned.apply(pool)?;
        // No sweep comes by here any more.
        if done.removed > 0 && done.used_left < MERGE_BELOW_BYTES && done.needs_room.is_none() {
            tree.merge_leaf(pool, &lower, |page| page.slot_count() == 0, watch)?;
        }
        return Ok(done.removed);
    }
    drop(planned);
    match unlink_emptied(pool, txs, tree, id, &lower, watch)? {
        Some((_, removed)) => Ok(removed),
        // No neighbour under the same parent can take its range: it stays, without rows.
        None => Ok(clean_leaf(pool, txs, tree.write_leaf(pool, &lower)?)?.removed),
    }
}

/// Cleans `page`, an exclusively latched leaf, and releases it.
pub fn clean_leaf(pool: &BufferPool, txs: &TxManager, page: WriteGuard<'_>) -> Result<PageCleaning> {
    Planned::of(pool, txs, page)?.apply(pool)
}

/// What becomes of the marks of a page that has no versions any more, its own and the one in its space map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Go,
    /// Its space map cannot be read, as is known.
    Stay,
}

/// A latched leaf, and what is to be done with its rows.
pub(crate) struct Planned<'p> {
    page: WriteGuard<'p>,
    plan: Plan,
    marks: Marks,
}

impl<'p> Planned<'p> {
    pub fn of(pool: &BufferPool, txs: &TxManager, page: WriteGuard<'p>) -> Result<Self> {
        let plan = Plan::of(pool, txs, &page)?;
        Ok(Self { page, plan, marks: Marks::Go })
    }
    /// Its marks go only if `marks` says so.
    pub fn with(self, marks: Marks) -> Self {
        Self { marks, ..self }
    }
    /// Whether nothing is left of the page.
    pub fn empties(&self) -> bool {
        self.plan.empties(&self.page)
    }
    /// Does it, and releases the page.
    pub fn apply(self, pool: &BufferPool) -> Result<PageCleaning> {
        apply(pool, self.page, self.plan, self.marks)
    }
}

fn apply(pool: &BufferPool, page: WriteGuard<'_>, plan: Plan, marks: Marks) -> Result<PageCleaning> {
    let Plan { treated, mut replaced, removes, removed_bytes, shrinks, grows, mut report } = plan;
    // Rows that grow must find room; those that do not are left for after a split.
    let mut room = page.free_total() + (removed_bytes - 4 * removes as usize) + shrinks - grows;
    room += replaced.iter().map(|(_, new, old)| old.saturating_sub(new.len())).sum::<usize>();
    replaced.retain(|(slot, new, old)| {
        let more = new.len().saturating_sub(*old);
        if more <= room {
            room -= more;
            return true;
        }
        report.reverted -= 1;
        report.remaining += 1;
        report.needs_room = Some((resurgam_page::leaf::key_of(page.rec(*slot)).to_vec(), new.len()));
        false
    });
    let flag_goes = marks == Marks::Go && report.remaining == 0 && page.has_versions();
    report.slots_left = u32::from(page.slot_count()) - removes;
    report.used_left = (page.used() + grows).saturating_sub(removed_bytes + shrinks);
    for (_, new, old) in &replaced {
        report.used_left = (report.used_left + new.len()).saturating_sub(*old);
    }
    if treated.is_empty() && replaced.is_empty() && !flag_goes {
        return Ok(report);
    }
    let id = page.id();
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    let (page, ops) = mtr.page_and_ops(at);
    // First what needs no more room, while slots are as they were; then rows go, and those that
    // stay move down; then what grows.
    let grow = |new: &[u8], old: usize| new.len() > old;
    for (slot, new, _) in replaced.iter().filter(|(_, new, old)| !grow(new, *old)) {
        op::change_row(ops, *slot, page.rec(*slot), new);
    }
    if !treated.is_empty() {
        op::clean_rows(ops, &treated);
    }
    let mut removed = treated.iter().filter(|(_, t)| *t == Treatment::Remove).map(|(slot, _)| slot.0).peekable();
    let mut gone = 0;
    for (slot, new, _) in replaced.iter().filter(|(_, new, old)| grow(new, *old)) {
        while removed.next_if(|r| *r < slot.0).is_some() {
            gone += 1;
        }
        op::replace(ops, SlotId(slot.0 - gone), new);
    }
    if flag_goes && unmark(&mut mtr, id)? {
        op::set_flags(mtr.ops(at), 0, buf::HAS_VERSIONS);
    }
    mtr.commit()?;
    Ok(report)
}

/// Takes the mark of a page without versions from its space map. False: the map cannot be read, so both marks stay.
pub(crate) fn unmark(mtr: &mut Mtr<'_>, id: PageId) -> Result<bool> {
    match mtr.pool().space().set_flags(mtr, id, 0, space::PFS_HAS_VERSIONS) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => Ok(false),
        Err(error) => Err(error),
    }
}
