//! Mini-transactions: changes to several pages as one atomic log group.
//!
//! The caller latches pages, writes page operations for each, and commits: the group is
//! appended to the log, then the very same bytes are applied to the pages with the
//! function that redo uses, and the latches are released. So what is in memory is what
//! redo would make of the log, by construction. Nothing is changed when a
//! mini-transaction is dropped without commit.
//!
//! Where the log is archived, a page whose records since it was last made anew reach a number gets an image in front of the next
//! one, in the same group ([`BufferPool::set_records_per_page_max`]): it is the page as it is before the group, so nothing of it
//! depends on what the group does. The page itself counts (`page/src/op.rs`), so neither eviction nor a restart forgets any.
//!
//! A group carries no undo of its own: it is a *system transaction* (Constant Time
//! Recovery, section 3.4.2) or carries row changes of a user transaction, whose undo is
//! each row's earlier version: one change, or the deletions or insertions of several rows of one
//! leaf (`versions/src/delete_run.rs`, `insert_run.rs`), which belong to the same transaction.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_log::{Group, RecordKind};
use resurgam_page::{PageBuf, PageOp, op};

use crate::frame::WriteGuard;
use crate::planted::Planted;
use crate::pool::BufferPool;
use crate::source;
use crate::space::AllocState;
use crate::stats::bump;

/// A page of a mini-transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef(usize);

struct Entry<'p> {
    guard: WriteGuard<'p>,
    body: Vec<u8>,
    kind: RecordKind,
    tx: TxId,
    prev_tx: Lsn,
    /// Formats the page from nothing: no earlier record matters.
    fresh: bool,
    /// Bytes of the image that is logged in front of its record.
    image: Option<usize>,
}

impl Entry<'_> {
    /// Whether the page gets an image, so that no more than `max` records make it.
    fn wants_image(&self, max: u32) -> bool {
        max > 0
            && !self.fresh
            && self.guard.records_since_anew().saturating_add(1) >= max
            && !source::replaces_whole_page(&self.body)
    }

    fn put_image(&mut self, group: &mut Group) {
        let page = &*self.guard;
        group.begin(RecordKind::Page, TxId::NONE, Lsn::NONE, self.guard.id(), page.lsn(), page.object());
        let before = group.body().len();
        op::image_anew(group.body(), page);
        self.image = Some(group.body().len() - before);
        group.end();
    }
}

/// Room that a thread's mini-transactions use one after the other: each row that is written is one.
#[derive(Default)]
struct Scratch {
    group: Group,
    bodies: Vec<Vec<u8>>,
    /// Of the group's records, by entry.
    indexes: Vec<Option<usize>>,
}

/// Bodies that are kept, and the most bytes of each.
const BODIES_KEPT: usize = 4;
const BODY_KEPT: usize = 8 << 10;

thread_local! {
    static SPARE: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// A mini-transaction under construction.
pub struct Mtr<'p> {
    pool: &'p BufferPool,
    entries: Vec<Entry<'p>>,
    extra: Vec<(RecordKind, TxId, Lsn, Vec<u8>)>,
    scratch: Scratch,
    /// Serialises allocation; released last.
    pub(crate) alloc: Option<MutexGuard<'p, AllocState>>,
    pub(crate) on_commit: Vec<crate::space::AllocEvent>,
}

impl<'p> Mtr<'p> {
    pub fn new(pool: &'p BufferPool) -> Self {
        // A thread that is ending has none any more.
        let scratch = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        Self { pool, entries: Vec::with_capacity(2), extra: Vec::new(), scratch, alloc: None, on_commit: Vec::new() }
    }
    pub fn pool(&self) -> &'p BufferPool {
        self.pool
    }
    /// Takes part of a latched page.
    pub fn add(&mut self, guard: WriteGuard<'p>) -> PageRef {
        debug_assert!(self.entries.iter().all(|e| e.guard.id() != guard.id()));
        let body = self.scratch.bodies.pop().unwrap_or_default();
        self.entries.push(Entry {
            guard,
            body,
            kind: RecordKind::Page,
            tx: TxId::NONE,
            prev_tx: Lsn::NONE,
            fresh: false,
            image: None,
        });
        PageRef(self.entries.len() - 1)
    }
    /// Like [`Mtr::add`] for a page that this group formats.
    pub fn add_fresh(&mut self, guard: WriteGuard<'p>) -> PageRef {
        let at = self.add(guard);
        self.entries[at.0].fresh = true;
        at
    }
    /// The page's record belongs to `tx`, whose previous record is at `prev_tx`.
    pub fn attribute(&mut self, page: PageRef, tx: TxId, prev_tx: Lsn) {
        self.entries[page.0].tx = tx;
        self.entries[page.0].prev_tx = prev_tx;
    }
    /// As [`Mtr::attribute`], and the record says how it is undone: with this,
    /// as the next of the transaction's chain.
    pub fn undone_by(&mut self, page: PageRef, tx: TxId, prev_tx: Lsn, undo: &[u8]) {
        self.attribute(page, tx, prev_tx);
        self.entries[page.0].kind = RecordKind::PageUndo;
        op::undo(&mut self.entries[page.0].body, undo);
    }
    /// The page as it is before this mini-transaction.
    pub fn page(&self, page: PageRef) -> &PageBuf {
        &self.entries[page.0].guard
    }
    /// Where to append operations (see [`resurgam_page::op`]).
    pub fn ops(&mut self, page: PageRef) -> &mut Vec<u8> {
        &mut self.entries[page.0].body
    }
    /// The page before this mini-transaction, and where to append its operations.
    pub fn page_and_ops(&mut self, page: PageRef) -> (&PageBuf, &mut Vec<u8>) {
        let entry = &mut self.entries[page.0];
        (&entry.guard, &mut entry.body)
    }
    /// The reference of `id`, if it takes part already.
    pub fn find(&self, id: PageId) -> Option<PageRef> {
        self.entries.iter().position(|e| e.guard.id() == id).map(PageRef)
    }
    /// Adds a record that is not about a page.
    pub fn record(&mut self, kind: RecordKind, tx: TxId, prev_tx: Lsn, body: Vec<u8>) {
        self.extra.push((kind, tx, prev_tx, body));
    }

    /// Takes pages out of sight that were to be formatted and were not: their frames hold
    /// nothing that may be read or written out.
    pub(crate) fn discard_fresh(&mut self) {
        for entry in self.entries.iter().filter(|e| e.fresh) {
            if entry.guard.page_type().is_none() || entry.guard.page_id() != entry.guard.id() {
                self.pool.discard(&entry.guard);
            }
        }
    }

    /// Logs, applies, releases. Returns the LSN of the first page's record and the end
    /// of the group.
    ///
    /// # Errors
    /// When the log refuses the group nothing was changed; when an operation does not
    /// apply (a bug) the pool is poisoned and the database must be reopened.
    pub fn commit(mut self) -> Result<(Lsn, Lsn)> {
        self.pool.check_poisoned()?;
        let Scratch { group, indexes, .. } = &mut self.scratch;
        let max = self.pool.records_per_page_max.load(Ordering::Relaxed);
        let behind = Planted::ImageBehindRecord.is_planted();
        for entry in &mut self.entries {
            if entry.body.is_empty() {
                indexes.push(None);
                continue;
            }
            let imaged = entry.wants_image(max);
            if imaged && !behind {
                // The group links the page's record to it.
                entry.put_image(group);
            }
            let previous = if entry.fresh { Lsn::NONE } else { entry.guard.lsn() };
            // A fresh page gets its owner by this very record. Analysis learns from the owners
            // it sees which object ids were given out.
            let formats = if entry.fresh { op::decode(&entry.body).next() } else { None };
            let object = match formats {
                Some(Ok(PageOp::Format { object, .. })) => object,
                _ => entry.guard.object(),
            };
            group.begin(entry.kind, entry.tx, entry.prev_tx, entry.guard.id(), previous, object);
            group.body().extend_from_slice(&entry.body);
            indexes.push(Some(group.end()));
            if imaged && behind {
                entry.put_image(group);
            }
        }
        for (kind, tx, prev, body) in &self.extra {
            group.record(*kind, *tx, *prev, body);
        }
        if group.is_empty() {
            return Ok((Lsn::NONE, Lsn::NONE));
        }
        let log_end = self.pool.log.end_lsn();
        for (entry, index) in self.entries.iter().zip(&*indexes) {
            if index.is_some() {
                entry.guard.mark_dirty(log_end);
            }
        }
        let appended = self.pool.log.append(group)?;
        let mut first = Lsn::NONE;
        for (entry, index) in self.entries.iter_mut().zip(&*indexes) {
            let Some(index) = index else { continue };
            let mut lsn = group.lsn_of(appended.base, *index);
            if first.is_none() {
                first = lsn;
            }
            if let Some(bytes) = entry.image {
                bump(&self.pool.counters.images_logged, 1);
                bump(&self.pool.counters.image_bytes_logged, bytes as u64);
                // All else of the image is what the page is.
                entry.guard.latch.set_records_since_anew(0);
                if behind {
                    lsn = group.lsn_of(appended.base, *index + 1);
                }
            }
            let id = entry.guard.id();
            if entry.fresh {
                self.pool.sources.pending.done(id);
                entry.guard.pin.0.fresh.store(source::replaces_whole_page(&entry.body), Ordering::Relaxed);
            }
            if let Err(error) = op::apply(&mut entry.guard.latch, id, &entry.body, lsn) {
                self.pool.poison();
                return Err(Error::internal(format!(
                    "a logged operation does not apply to page {id}; the database must be restarted: {error}"
                )));
            }
        }
        let events = std::mem::take(&mut self.on_commit);
        if let Some(alloc) = self.alloc.as_mut() {
            alloc.committed(events);
        }
        Ok((first, appended.end))
    }

    /// What the thread's next mini-transaction uses again.
    pub(crate) fn leave_scratch(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { group, bodies, indexes } = &mut scratch;
        for entry in &mut self.entries {
            let mut body = std::mem::take(&mut entry.body);
            if bodies.len() < BODIES_KEPT && body.capacity() <= BODY_KEPT {
                body.clear();
                bodies.push(body);
            }
        }
        if group.len() > 4 * BODY_KEPT {
            *group = Group::default();
        }
        group.clear();
        indexes.clear();
        let _ = SPARE.try_with(|spare| spare.set(Some(scratch)));
    }
}
