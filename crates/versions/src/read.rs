//! The version of a row that a view sees.
//!
//! The row's leaf stays latched while its chain is followed: an off-row version that a
//! latched row points to cannot be re-homed and freed meanwhile.

use std::cell::Cell;
use std::ops::Range;

use resurgam_base::pauses::{Mistake, Pause};
use resurgam_base::{CommitTs, Error, ErrorKind, PageId, Result, SlotId, TxId};
use resurgam_buffer::{Access, BufferPool, Planted, ReadGuard};
use resurgam_page::{DatumRef, Earlier, LeafRecord, PageBuf, RowLayout, VersionPtr, leaf, version::VersionRecord};
use resurgam_txn::{Status, TxManager};

use crate::view::{KnownSeen, View};

/// Records that the processor is asked to fetch while those before them are looked at.
const AHEAD: u16 = 12;
/// More versions than any chain has; beyond it the chain is taken to be damaged.
const CHAIN_MAX: usize = 100_000_000;

/// How the caller knows the row version that it wants to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It read the row through its statement's view.
    Snapshot,
    /// It read this version with [`newest`] after being told that the row had changed.
    Version(TxId),
}

/// What [`visible`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// The view does not see the row.
    No,
    /// The record's own value.
    Current,
    /// The value is in the caller's buffer.
    Rebuilt,
}

/// Finds what `view` sees of `record`; an earlier version's value goes to `out`.
pub fn visible(pool: &BufferPool, record: &LeafRecord<'_>, view: &View<'_>, out: &mut Vec<u8>) -> Result<Visible> {
    visible_known(pool, record, view, &mut KnownSeen::default(), out)
}

/// As [`visible`], for one row of several of the same view.
#[inline]
pub fn visible_known(
    pool: &BufferPool,
    record: &LeafRecord<'_>,
    view: &View<'_>,
    known: &mut KnownSeen,
    out: &mut Vec<u8>,
) -> Result<Visible> {
    if known.includes(record.xid) || view.sees_and_notes(record.xid, known) {
        return Ok(if record.is_ghost() { Visible::No } else { Visible::Current });
    }
    earlier_seen(pool, record, view, out)
}

/// What a view sees on a part of a leaf, where each record says so by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtSight {
    pub rows: u64,
    /// Records that delete their row, as the view sees it.
    pub ghosts: u64,
}

/// Counts what `view` sees in some slots of a leaf, without reading more of the records than their begins. `None`: there is one
/// whose own version it does not see, and what was before it decides.
///
/// # Errors
/// `Corrupt` where a slot leads outside the page.
pub fn seen_at_sight(
    page: &PageBuf,
    slots: Range<u16>,
    view: &View<'_>,
    known: &mut KnownSeen,
) -> Result<Option<AtSight>> {
    if !page.has_versions() {
        return Ok(Some(AtSight { rows: slots.len() as u64, ghosts: 0 }));
    }
    let mut found = AtSight::default();
    slots.clone().take(usize::from(AHEAD)).for_each(|slot| page.prefetch_begin(SlotId(slot)));
    for slot in slots.clone() {
        if slot + AHEAD < slots.end {
            page.prefetch_begin(SlotId(slot + AHEAD));
        }
        let record = page.record(SlotId(slot))?;
        let xid = leaf::xid_of(record);
        if !known.includes(xid) && !view.sees_and_notes(xid, known) && !Planted::UnseenCounted.is_planted() {
            return Ok(None);
        }
        let ghost = leaf::flags_of(record) & leaf::GHOST != 0;
        found.ghosts += u64::from(ghost);
        found.rows += u64::from(!ghost);
    }
    Ok(Some(found))
}

/// As [`seen_at_sight`], of a whole leaf: what was found of it before need not be found again while it is the same.
///
/// # Errors
/// As there.
pub fn leaf_seen_at_sight(leaf: &ReadGuard<'_>, view: &View<'_>, known: &mut KnownSeen) -> Result<Option<AtSight>> {
    let count = leaf.slot_count();
    if leaf.has_versions()
        && let Some((ts, ghosts)) = leaf.sight()
        && (ts <= view.ts || Planted::UnseenCounted.is_planted())
    {
        let rows = u64::from(count.saturating_sub(ghosts));
        return Ok(Some(AtSight { rows, ghosts: ghosts.into() }));
    }
    let seen = seen_at_sight(leaf, 0..count, view, known)?;
    if let Some(seen) = seen
        // (Of a leaf without versions it is told by a look at its head.)
        && leaf.has_versions()
        // A view of its own writes, or of the newest state, sees more than its time says.
        && view.own.is_none()
        && view.ts < CommitTs(u64::MAX)
        && !Planted::UnseenCounted.is_planted()
    {
        leaf.note_sight(view.ts, seen.ghosts as u16);
    }
    Ok(seen)
}

/// What the view sees of a record whose own version it does not.
///
/// # Errors
/// `Corrupt` also where a version is of a transaction that never was: it is neither committed nor aborted.
fn earlier_seen(pool: &BufferPool, record: &LeafRecord<'_>, view: &View<'_>, out: &mut Vec<u8>) -> Result<Visible> {
    view.txs.check_known(record.xid)?;
    let mut next = match step(record, view, out)? {
        Step::Found(found) => return Ok(found),
        Step::Follow(pointer) => pointer,
    };
    let mut of = record.xid;
    for _ in 0..CHAIN_MAX {
        let bytes = fetch(pool, view.txs, next, of)?;
        let earlier = VersionRecord::parse(&bytes).map_err(|e| at(next, &e))?.record;
        of = earlier.xid;
        if view.sees(earlier.xid) {
            if earlier.is_ghost() {
                return Ok(Visible::No);
            }
            out.clear();
            out.extend_from_slice(earlier.value);
            return Ok(Visible::Rebuilt);
        }
        view.txs.check_known(earlier.xid)?;
        match step(&earlier, view, out)? {
            Step::Found(found) => return Ok(found),
            Step::Follow(pointer) => next = pointer,
        }
    }
    Err(Error::corrupt("a chain of row versions does not end"))
}

enum Step {
    Found(Visible),
    Follow(VersionPtr),
}

/// Looks at what is before `record`, whose own version is not seen.
fn step(record: &LeafRecord<'_>, view: &View<'_>, out: &mut Vec<u8>) -> Result<Step> {
    Ok(match record.earlier() {
        Earlier::None => Step::Found(Visible::No),
        Earlier::OffRow(pointer) => Step::Follow(pointer),
        Earlier::InRow(tag, diff) => {
            if view.sees(tag.xid) {
                if tag.ghost {
                    return Ok(Step::Found(Visible::No));
                }
                leaf::rebuild_earlier(record.value, diff, out)?;
                Step::Found(Visible::Rebuilt)
            } else {
                view.txs.check_known(tag.xid)?;
                tag.offrow.map_or(Step::Found(Visible::No), Step::Follow)
            }
        }
    })
}

/// A copy of the version record at `pointer`, which a version of the transaction `of` has.
///
/// # Errors
/// `AwaitsUndo` when it was in memory before a restart; why it cannot be rebuilt, if that is so.
pub(crate) fn fetch(pool: &BufferPool, txs: &TxManager, pointer: VersionPtr, of: TxId) -> Result<Vec<u8>> {
    if pointer.page.is_temporary() {
        return txs.temporary().get(pointer.page, pointer.slot).ok_or_else(|| {
            txs.temporary().why_unreadable(of).unwrap_or_else(|| {
                Error::new(ErrorKind::AwaitsUndo, "a row awaits the undo of a transaction that a crash cut off")
            })
        });
    }
    let page = pool.read(pointer.page, Access::Point)?;
    if !page.is(resurgam_page::PageType::Version) {
        return Err(Error::corrupt(format!(
            "a row version is said to be on page {}, which is no version page",
            pointer.page
        )));
    }
    Ok(page.record(pointer.slot)?.to_vec())
}

fn at(pointer: VersionPtr, error: &Error) -> Error {
    Error::corrupt(format!("row version on page {}, slot {}: {}", pointer.page, pointer.slot.0, error.message()))
}

/// The newest version of a row that is not aborted. Owned: it may come from anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub ghost: bool,
    /// Its writer; NONE = seen by all.
    pub xid: TxId,
    pub value: Vec<u8>,
    pub earlier: OwnedEarlier,
}

#[derive(Clone, Debug)]
pub(crate) enum OwnedEarlier {
    None,
    InRow(resurgam_page::EarlierTag, Vec<u8>),
    OffRow(VersionPtr),
}

impl OwnedEarlier {
    pub fn of(earlier: Earlier<'_>) -> Self {
        match earlier {
            Earlier::None => Self::None,
            Earlier::InRow(tag, diff) => Self::InRow(tag, diff.to_vec()),
            Earlier::OffRow(pointer) => Self::OffRow(pointer),
        }
    }
    pub fn borrow(&self) -> Earlier<'_> {
        match self {
            Self::None => Earlier::None,
            Self::InRow(tag, diff) => Earlier::InRow(*tag, diff),
            Self::OffRow(pointer) => Earlier::OffRow(*pointer),
        }
    }
}

fn owned(record: &LeafRecord<'_>) -> Version {
    Version {
        ghost: record.is_ghost(),
        xid: record.xid,
        value: record.value.to_vec(),
        earlier: OwnedEarlier::of(record.earlier()),
    }
}

/// Walks down from `record` past aborted versions. `None`: everything is aborted, the
/// row was never there.
pub(crate) fn newest_not_aborted(
    pool: &BufferPool,
    txs: &TxManager,
    record: &LeafRecord<'_>,
) -> Result<Option<Version>> {
    newest_but(pool, txs, record, &|_| false)
}

/// As [`newest_not_aborted`], past versions of which `is_undone` is true as well.
pub(crate) fn newest_but(
    pool: &BufferPool,
    txs: &TxManager,
    record: &LeafRecord<'_>,
    is_undone: &dyn Fn(TxId) -> bool,
) -> Result<Option<Version>> {
    let newest = walk_past(pool, txs, record, is_undone)?;
    if let Some(version) = &newest {
        txs.check_known(version.xid)?;
    }
    Ok(newest)
}

fn walk_past(
    pool: &BufferPool,
    txs: &TxManager,
    record: &LeafRecord<'_>,
    is_undone: &dyn Fn(TxId) -> bool,
) -> Result<Option<Version>> {
    let aborted = |xid: TxId| xid.is_some() && (txs.status(xid) == Status::Aborted || is_undone(xid));
    if !aborted(record.xid) {
        return Ok(Some(owned(record)));
    }
    let mut next = match past_aborted(record, aborted)? {
        Past::Version(version) => return Ok(Some(version)),
        Past::Nothing => return Ok(None),
        Past::Follow(pointer) => pointer,
    };
    let mut of = record.xid;
    for _ in 0..CHAIN_MAX {
        let bytes = fetch(pool, txs, next, of)?;
        let earlier = VersionRecord::parse(&bytes).map_err(|e| at(next, &e))?.record;
        of = earlier.xid;
        if !aborted(earlier.xid) {
            return Ok(Some(owned(&earlier)));
        }
        match past_aborted(&earlier, aborted)? {
            Past::Version(version) => return Ok(Some(version)),
            Past::Nothing => return Ok(None),
            Past::Follow(pointer) => next = pointer,
        }
    }
    Err(Error::corrupt("a chain of row versions does not end"))
}

enum Past {
    Version(Version),
    Nothing,
    Follow(VersionPtr),
}

fn past_aborted(record: &LeafRecord<'_>, aborted: impl Fn(TxId) -> bool) -> Result<Past> {
    Ok(match record.earlier() {
        Earlier::None => Past::Nothing,
        Earlier::OffRow(pointer) => Past::Follow(pointer),
        Earlier::InRow(tag, diff) => {
            if aborted(tag.xid) {
                return Ok(tag.offrow.map_or(Past::Nothing, Past::Follow));
            }
            let mut value = Vec::new();
            leaf::rebuild_earlier(record.value, diff, &mut value)?;
            Past::Version(Version {
                ghost: tag.ghost,
                xid: tag.xid,
                value,
                earlier: tag.offrow.map_or(OwnedEarlier::None, OwnedEarlier::OffRow),
            })
        }
    })
}

/// Calls `each` with the first page of every large value of the versions of a row that
/// someone may still read: from the newest one down to the first that is seen by all,
/// aborted ones left out. `passes_wider`: also those left out that store more columns than `layout` has;
/// otherwise they are damage.
pub fn values_in_use(
    pool: &BufferPool,
    txs: &TxManager,
    record: &LeafRecord<'_>,
    layout: &RowLayout,
    passes_wider: bool,
    each: &mut dyn FnMut(PageId),
) -> Result<()> {
    let horizon = txs.horizon();
    let mut note = |ghost: bool, xid: TxId, value: &[u8]| -> Result<bool> {
        let status = if xid.is_none() { Status::Committed(CommitTs::NONE) } else { txs.status(xid) };
        if status == Status::Unknown {
            txs.check_known(xid)?;
        }
        let wider = |value| Ok::<_, Error>(passes_wider && RowLayout::stored_columns(value)? > layout.len());
        if status != Status::Aborted && !ghost && !wider(value)? {
            for i in 0..layout.len() {
                if let DatumRef::External(reference) = layout.column(value, i)? {
                    each(reference.page);
                }
            }
        }
        Ok(matches!(status, Status::Committed(ts) if ts <= horizon))
    };
    let mut bytes = record.to_builder().encode()?;
    let mut value = Vec::new();
    for _ in 0..CHAIN_MAX {
        let record = LeafRecord::parse(&bytes)?;
        if note(record.is_ghost(), record.xid, record.value)? {
            return Ok(());
        }
        let pointer = match record.earlier() {
            Earlier::None => return Ok(()),
            Earlier::OffRow(pointer) => pointer,
            Earlier::InRow(tag, diff) => {
                leaf::rebuild_earlier(record.value, diff, &mut value)?;
                match tag.offrow {
                    _ if note(tag.ghost, tag.xid, &value)? => return Ok(()),
                    None => return Ok(()),
                    Some(pointer) => pointer,
                }
            }
        };
        let fetched = fetch(pool, txs, pointer, record.xid)?;
        bytes = VersionRecord::parse(&fetched).map_err(|e| at(pointer, &e))?.record.to_builder().encode()?;
    }
    Err(Error::corrupt("a chain of row versions does not end"))
}

/// The newest version of a row that is committed (or own), for a READ COMMITTED writer
/// that was told that the row has changed: its value goes to `out`. `None` if it is gone.
pub fn newest(pool: &BufferPool, record: &LeafRecord<'_>, view: &View<'_>, out: &mut Vec<u8>) -> Result<Option<TxId>> {
    loop {
        let passed = Cell::new(TxId::NONE);
        let version = newest_once(pool, record, view, &passed)?;
        // Who was active when a version of his was passed over may have ended by the time at which the one before it was looked at: that
        // one may be his as well, and is committed then, but never was what others see of the row.
        let has_ended = |xid: TxId| xid.is_some() && !matches!(view.txs.status(xid), Status::Active(_));
        if has_ended(passed.get()) && !Mistake::Intermediate.is_planted() {
            continue;
        }
        return Ok(version.filter(|v| !v.ghost).map(|v| {
            out.clear();
            out.extend_from_slice(&v.value);
            v.xid
        }));
    }
}

/// One walk for [`newest`]; `passed`: the newest version of somebody active that was passed over, if there was one.
fn newest_once(
    pool: &BufferPool,
    record: &LeafRecord<'_>,
    view: &View<'_>,
    passed: &Cell<TxId>,
) -> Result<Option<Version>> {
    // Past aborted versions and past versions of others that are still active.
    let foreign = |xid: TxId| match view.txs.status(xid) {
        Status::Aborted => true,
        Status::Active(top) if top != view.own => {
            if passed.get().is_none() {
                passed.set(xid);
            }
            Pause::VersionPassed.here();
            true
        }
        Status::Active(_) | Status::Committed(_) | Status::Unknown => false,
    };
    let skip = |xid: TxId| xid.is_some() && foreign(xid);
    let version = if !skip(record.xid) {
        Some(owned(record))
    } else {
        let mut at = past_aborted(record, skip)?;
        let mut of = record.xid;
        loop {
            match at {
                Past::Version(version) => break Some(version),
                Past::Nothing => break None,
                Past::Follow(pointer) => {
                    let bytes = fetch(pool, view.txs, pointer, of)?;
                    let earlier = VersionRecord::parse(&bytes)?.record;
                    of = earlier.xid;
                    at = if skip(earlier.xid) { past_aborted(&earlier, skip)? } else { Past::Version(owned(&earlier)) };
                }
            }
        }
    };
    if let Some(version) = &version {
        view.txs.check_known(version.xid)?;
    }
    Ok(version)
}

/// One content that a row may come to have; see [`possible`].
#[derive(Clone, Copy, Debug)]
pub struct Possible<'r> {
    /// Who wrote it; none = seen by all.
    pub xid: TxId,
    /// Its writer has not ended, and is another transaction.
    pub pending: bool,
    /// `None`: there is no such row.
    pub value: Option<&'r [u8]>,
}

/// Calls `each` with every content that a row may have once all others who are changing it now
/// have ended: their versions, newest first, and then the newest one that is committed or the
/// view's own (whatever the view's snapshot sees; in any case nothing when there was no row).
/// A transaction that changed the row several times, with savepoints between, may come to any
/// of its versions. Aborted versions are none. Returns one of those who have not ended.
pub fn possible(
    pool: &BufferPool,
    record: &LeafRecord<'_>,
    view: &View<'_>,
    each: &mut dyn FnMut(Possible<'_>) -> Result<()>,
) -> Result<Option<TxId>> {
    let mut holder = None;
    // Whether it is the last one that counts.
    let mut look = |ghost: bool, xid: TxId, value: &[u8]| -> Result<bool> {
        let status = if xid.is_none() { Status::Committed(CommitTs::NONE) } else { view.txs.status(xid) };
        let pending = match status {
            Status::Aborted => return Ok(false),
            Status::Active(top) => top != view.own || view.own.is_none(),
            Status::Committed(_) => false,
            Status::Unknown => return view.txs.check_known(xid).map(|()| true),
        };
        if pending {
            holder.get_or_insert(xid);
        }
        each(Possible { xid, pending, value: (!ghost).then_some(value) })?;
        Ok(!pending)
    };
    if look(record.is_ghost(), record.xid, record.value)? {
        return Ok(holder);
    }
    let mut fetched: Vec<u8>;
    let mut earlier_value = Vec::new();
    let mut record = *record;
    for _ in 0..CHAIN_MAX {
        let pointer = match record.earlier() {
            Earlier::None => break,
            Earlier::OffRow(pointer) => pointer,
            Earlier::InRow(tag, diff) => {
                leaf::rebuild_earlier(record.value, diff, &mut earlier_value)?;
                if look(tag.ghost, tag.xid, &earlier_value)? {
                    return Ok(holder);
                }
                match tag.offrow {
                    Some(pointer) => pointer,
                    None => break,
                }
            }
        };
        fetched = fetch(pool, view.txs, pointer, record.xid)?;
        record = VersionRecord::parse(&fetched).map_err(|e| at(pointer, &e))?.record;
        if look(record.is_ghost(), record.xid, record.value)? {
            return Ok(holder);
        }
    }
    each(Possible { xid: TxId::NONE, pending: false, value: None })?;
    Ok(holder)
}
