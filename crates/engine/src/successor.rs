//! Where a row is that got another primary key.
//!
//! Such an update deletes the row under its old key and inserts it under the new one, and nothing in the pages
//! tells it from a deletion. But a READ COMMITTED statement that waited for it follows the row, as in
//! PostgreSQL. So moves are remembered here, in memory, as long as a snapshot may be in use that saw the row
//! under its old key: until the horizon is past the commit of whoever moved it. A restart ends all snapshots,
//! so nothing is missed then (but of a transaction that was prepared before it: what that moved is deleted to
//! those who waited for it after the restart).
//!
//! An insert under a key whose row was deleted a short while ago is remembered as well: the row that is there
//! now is not the one that was.
//!
//! # Invariants
//! 1. What happened to the rows under one key is remembered in the order in which it happened: who changes a
//!    row waits for whoever changed it before, and remembers before he ends.
//! 2. What an aborted id did counts for nothing.
//! 3. At most [`BYTES_MAX`] bytes are remembered; of ids that moved more it is known that something is
//!    missing, and a statement that would have to know it gets `40001` rather than a wrong answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::pauses::Pause;
use resurgam_base::{CommitTs, Error, ErrorKind, ObjectId, Result, TxId};
use resurgam_txn::{Status, TxManager};
use resurgam_versions::{Seen, View};

use crate::table::{RowBuf, Table};
use crate::transaction::Transaction;
use crate::view::ReadView;

/// Most bytes that are remembered.
const BYTES_MAX: usize = 64 << 20;
/// What an entry takes beside its keys, about.
const ENTRY_BYTES: usize = 128;
/// Entries after which it is first looked whether some can be forgotten.
const SWEEP_AFTER: usize = 1024;
/// Moves of one row that are followed.
const HOPS_MAX: usize = 100_000;

/// How far a row was followed: the number of its last move.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail(u64);

/// Something that ended a row's stay under a key.
#[derive(Debug)]
struct Event {
    /// Later ones have higher numbers.
    number: u64,
    xid: TxId,
    /// The key that the row has now; `None`: it was deleted, and another one is there.
    to: Option<Box<[u8]>>,
}

#[derive(Default)]
struct Events {
    by_key: HashMap<(ObjectId, Box<[u8]>), Vec<Event>>,
    /// Keys to which rows were moved, and who did.
    arrivals: HashMap<(ObjectId, Box<[u8]>), TxId>,
    last: u64,
    entries: usize,
    bytes: usize,
    /// So many entries before the next sweep.
    sweep_at: usize,
    /// Ids of which not everything is remembered.
    partly: HashSet<TxId>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Moves {
    events: Mutex<Events>,
    /// There is something.
    any: AtomicBool,
}

impl Moves {
    /// The row under `from` has another key now, or (`None`) was deleted before another one came there.
    /// To be called before the transaction of `xid` can end.
    pub(crate) fn note(&self, txs: &TxManager, object: ObjectId, xid: TxId, from: &[u8], to: Option<&[u8]>) {
        let mut events = self.events.lock();
        self.any.store(true, Ordering::SeqCst);
        if events.entries >= events.sweep_at.max(SWEEP_AFTER) {
            sweep(&mut events, txs);
            // What stays is not looked at again at once.
            events.sweep_at = events.entries * 2;
        }
        let bytes = ENTRY_BYTES + from.len() + to.map_or(0, |to| ENTRY_BYTES + 2 * to.len());
        if events.bytes + bytes > BYTES_MAX {
            events.partly.insert(xid);
            return;
        }
        events.last += 1;
        events.entries += 1;
        events.bytes += bytes;
        if let Some(to) = to {
            events.arrivals.insert((object, Box::from(to)), xid);
        }
        let event = Event { number: events.last, xid, to: to.map(Box::from) };
        events.by_key.entry((object, Box::from(from))).or_default().push(event);
    }

    /// A row is deleted under `key`: should it have been moved there, whatever comes there next is another.
    /// (Of one that was moved by the same transaction nothing may be left in the pages.)
    pub(crate) fn note_deleted(&self, txs: &TxManager, object: ObjectId, xid: TxId, key: &[u8]) {
        if self.any.load(Ordering::SeqCst) {
            let moved_here = self.events.lock().arrivals.contains_key(&(object, Box::from(key)));
            if moved_here {
                self.note(txs, object, xid, key, None);
            }
        }
    }

    /// Forgets what nobody may ask for any more.
    pub(crate) fn sweep(&self, txs: &TxManager) {
        if self.any.load(Ordering::SeqCst) {
            let mut events = self.events.lock();
            sweep(&mut events, txs);
            let any = events.entries > 0 || !events.partly.is_empty();
            self.any.store(any, Ordering::SeqCst);
        }
    }

    /// The first event under `key` behind number `after` that is by somebody who `counts`.
    fn next(
        &self,
        object: ObjectId,
        key: &[u8],
        after: u64,
        counts: &dyn Fn(TxId) -> bool,
    ) -> Option<(u64, Option<Vec<u8>>)> {
        let events = self.events.lock();
        let of_key = events.by_key.get(&(object, Box::from(key)))?;
        let found = of_key.iter().find(|event| event.number > after && counts(event.xid))?;
        Some((found.number, found.to.as_ref().map(|to| to.to_vec())))
    }

    fn is_partly_known(&self, counts: &dyn Fn(TxId) -> bool) -> bool {
        self.events.lock().partly.iter().any(|xid| counts(*xid))
    }

    /// Entries that are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.events.lock().entries
    }
}

fn sweep(events: &mut Events, txs: &TxManager) {
    let horizon = txs.horizon();
    let is_wanted = |xid: TxId| match txs.status(xid) {
        Status::Active(_) => true,
        Status::Committed(ts) => ts > horizon,
        Status::Aborted | Status::Unknown => false,
    };
    let (mut entries, mut bytes) = (0, 0);
    events.by_key.retain(|(_, from), list| {
        list.retain(|event| is_wanted(event.xid));
        entries += list.len();
        let to = |event: &Event| event.to.as_ref().map_or(0, |to| ENTRY_BYTES + 2 * to.len());
        bytes += list.iter().map(|event| ENTRY_BYTES + from.len() + to(event)).sum::<usize>();
        !list.is_empty()
    });
    events.arrivals.retain(|_, xid| is_wanted(*xid));
    if events.by_key.is_empty() {
        events.by_key.shrink_to(SWEEP_AFTER);
        events.arrivals.shrink_to(SWEEP_AFTER);
    }
    (events.entries, events.bytes) = (entries, bytes);
    events.partly.retain(|xid| is_wanted(*xid));
}

impl Transaction {
    /// The newest committed (or own) version of the row that the statement's snapshot saw under `key`, after
    /// [`Change::Changed`](crate::Change) or [`Change::Gone`](crate::Change); `row` has the key that it has
    /// now. `None`: it is deleted, whatever row has its key by now. Called again about the same row, `key` is
    /// the one that the last call found, and `trail` as that left it. `table` must be known to be the newest
    /// definition ([`Transaction::lock_rows`]).
    ///
    /// # Errors
    /// `SerializationFailure` when too many rows were moved to tell.
    pub fn successor(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        trail: &mut Trail,
        row: &mut RowBuf,
    ) -> Result<Option<Seen>> {
        let moves = &self.0.db.inner().moves;
        let mut found = self.latest(table, key, row)?;
        Pause::RowRead.here();
        if !moves.any.load(Ordering::SeqCst) {
            return Ok(found);
        }
        let context = self.write_context()?;
        let txs = &self.0.db.inner().txs;
        let view = View { txs, ts: context.snapshot.ts(), own: context.active.id, hidden_from: TxId(u64::MAX) };
        let is_decided = |xid: TxId| match txs.status(xid) {
            // What the statement follows is newer than its snapshot, whatever comes first, and is told with a time. Without one is also
            // what a rollback has left nothing of, and is remembered nowhere else.
            Status::Committed(ts) => ts != CommitTs::NONE,
            Status::Active(top) => top == context.active.id,
            Status::Aborted | Status::Unknown => false,
        };
        // The snapshot saw what was there after what it sees had happened.
        let is_new = |xid: TxId| is_decided(xid) && !view.sees(xid);
        let object = table.tree.object;
        let mut at = key.to_vec();
        for _ in 0..HOPS_MAX {
            let next = match trail.0 {
                0 => moves.next(object, &at, 0, &is_new),
                after => moves.next(object, &at, after, &is_decided),
            };
            match next {
                Some((_, None)) => return Ok(None),
                Some((number, Some(to))) => {
                    (at, trail.0) = (to, number);
                    found = self.latest(table, &at, row)?;
                }
                None if moves.is_partly_known(&is_new) => break,
                None => return Ok(found),
            }
        }
        Err(lost())
    }

    /// The row that `before` saw under `key`, as `now` sees it, a view of a later statement of this transaction: under the key
    /// that it has got meanwhile. False: it is deleted, whatever row has its key by now. What is newer than `now` is for
    /// [`Transaction::successor`].
    ///
    /// # Errors
    /// `SerializationFailure` when too many rows were moved to tell.
    pub fn followed(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        (before, now): (&ReadView, &ReadView),
        row: &mut RowBuf,
    ) -> Result<bool> {
        let (moves, txs) = (&self.0.db.inner().moves, &self.0.db.inner().txs);
        let mut at = key.to_vec();
        if moves.any.load(Ordering::SeqCst) {
            let is_since = |xid: TxId| now.view().sees(xid) && !before.view().sees(xid);
            // As above; in this order, since a state may be forgotten in between.
            let is_seen = |xid: TxId| now.view().sees(xid) && txs.status(xid) != Status::Committed(CommitTs::NONE);
            let (object, mut after, mut hops) = (table.tree.object, 0, 0);
            loop {
                let next = match after {
                    0 => moves.next(object, &at, 0, &is_since),
                    after => moves.next(object, &at, after, &is_seen),
                };
                match next {
                    Some((_, None)) => return Ok(false),
                    Some((number, Some(to))) => (at, after) = (to, number),
                    None => break,
                }
                hops += 1;
                if hops > HOPS_MAX {
                    return Err(lost());
                }
            }
            if moves.is_partly_known(&is_since) {
                return Err(lost());
            }
        }
        now.get(table, &at, row)
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::SerializationFailure, "could not serialize access due to concurrent update")
        .with_detail("Too many rows got another primary key to tell where this one is.")
        .with_hint("Retry the transaction.")
}

#[cfg(test)]
mod tests {
    use resurgam_base::Lsn;
    use resurgam_txn::Visible;

    use super::*;

    const TABLE: ObjectId = ObjectId(1);

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let txs = TxManager::new(TxId(10));
        let moves = Moves::default();
        let any = |_: TxId| true;
        for commits in [true, false] {
            let tx = txs.begin();
            for at in 0..70u8 {
                moves.note(&txs, TABLE, tx.id, &vec![at; 1 << 20], Some(&[at]));
            }
            assert!(moves.is_partly_known(&any) && moves.len() < 70);
            moves.sweep(&txs);
            assert!(moves.len() > 50, "still wanted: {}", moves.len());
            if commits {
                txs.commit(&tx, Visible::AtOnce, || Ok(Lsn(1))).expect("committed");
            } else {
                txs.end_undone(&tx);
            }
            moves.sweep(&txs);
            assert_eq!(moves.len(), 0);
            assert!(!moves.is_partly_known(&any) && !moves.any.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn events_of_a_key_come_in_their_order() {
        let txs = TxManager::new(TxId(10));
        let moves = Moves::default();
        let (one, two) = (txs.begin(), txs.begin());
        moves.note(&txs, TABLE, one.id, b"a", Some(b"b"));
        moves.note(&txs, TABLE, two.id, b"a", None);
        moves.note(&txs, TABLE, one.id, b"a", Some(b"c"));
        let mine = |xid: TxId| xid == one.id;
        let (first, to) = moves.next(TABLE, b"a", 0, &mine).expect("the first");
        assert_eq!(to.as_deref(), Some(&b"b"[..]));
        let (second, to) = moves.next(TABLE, b"a", first, &mine).expect("the second");
        assert_eq!(to.as_deref(), Some(&b"c"[..]));
        assert!(moves.next(TABLE, b"a", second, &mine).is_none());
        assert!(moves.next(ObjectId(2), b"a", 0, &mine).is_none());
    }
}
