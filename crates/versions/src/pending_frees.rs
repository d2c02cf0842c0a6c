//! Pending frees: storage that is to be freed once a transaction's outcome is past changing.
//!
//! A dropped table's pages must stay until its dropper is committed and no snapshot needs
//! them; a created table's pages must go if its creator aborts; a large value that no
//! committed row refers to any more must go. None of this may happen inside the user
//! transaction (it could not be taken back), so the transaction notes it here, in a small
//! tree of its own, and the cleaner acts (deferred deallocation, Constant Time Recovery,
//! section 3.4.2). An entry survives crashes and is removed with the last step it asks for.
//!
//! ```text
//! key    transaction id u64 BE | sequence u64 BE
//! value  1 | root u64 LE | object u32 LE              a tree, freed if committed
//!        2 | root u64 LE | object u32 LE              a tree, freed if aborted
//!        3 | first page u64 LE, once or more          large values, freed if committed
//!        4 | root u64 LE | object u32 LE | columns u16 LE | widths, a nibble each
//!                                                     a table's rows with their large
//!                                                     values, freed if committed
//! ```

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashSet;
use parking_lot::Mutex;
use resurgam_base::{CommitTs, Error, ErrorKind, Lsn, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_btree::{LeafWalk, Tree, free_tree_step, is_there};
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::types::ColumnType;
use resurgam_page::{LeafBuilder, LeafRecord, RowLayout, leaf, op};
use resurgam_txn::{Status, TxIdSet, TxManager};

use crate::overflow::free_external;
use crate::read::values_in_use;
use crate::store::VersionStore;

thread_local! {
    static PLANTED: Cell<PlantedFree> = const { Cell::new(PlantedFree::None) };
}

/// Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFree {
    None,
    /// What is to be freed is not noted.
    Unnoted,
}

impl PlantedFree {
    /// For this thread, from now on.
    pub fn plant_here(self) {
        PLANTED.set(self);
    }
    fn is_planted(self) -> bool {
        PLANTED.get() == self
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingFree {
    /// Free a whole tree if the transaction commits.
    TreeIfCommitted(Tree),
    /// Free a whole tree if the transaction aborts.
    TreeIfAborted(Tree),
    /// Free large values, named by their first pages, if the transaction commits. At most
    /// [`PendingFree::VALUES_MAX`].
    ValuesIfCommitted(Vec<PageId>),
    /// Free the tree of a table's rows, with the large values that they refer to, if the
    /// transaction commits. The second field has the width in bytes of each column of the
    /// rows' values (0 = variable): what it takes to find the values.
    RowsIfCommitted(Tree, Vec<u8>),
}

impl PendingFree {
    /// Encoded length of an action on a tree.
    pub const TREE_BYTES: usize = 13;
    /// Most values in one entry: more than any one row refers to.
    pub const VALUES_MAX: usize = 200;
    /// Most columns of a row that can be noted.
    pub const COLUMNS_MAX: usize = 3200;

    /// A layout that finds the large values in rows of columns of these widths.
    pub fn layout(widths: &[u8]) -> RowLayout {
        let types: Vec<ColumnType> = widths.iter().filter_map(|w| column_of_width(*w)).collect();
        RowLayout::new(&types)
    }

    fn encode(&self) -> Vec<u8> {
        let tree = |kind: u8, tree: &Tree| {
            let mut out = vec![kind];
            out.extend_from_slice(&tree.root.0.to_le_bytes());
            out.extend_from_slice(&tree.object.0.to_le_bytes());
            out
        };
        match self {
            Self::TreeIfCommitted(t) => tree(1, t),
            Self::TreeIfAborted(t) => tree(2, t),
            Self::ValuesIfCommitted(pages) => {
                let mut out = vec![3];
                pages.iter().for_each(|page| out.extend_from_slice(&page.0.to_le_bytes()));
                out
            }
            Self::RowsIfCommitted(t, widths) => {
                let mut out = tree(4, t);
                out.extend_from_slice(&(widths.len() as u16).to_le_bytes());
                for pair in widths.chunks(2) {
                    // 16 is the widest; it is written as 15.
                    let nibble = |at: usize| pair.get(at).map_or(0, |w| (*w).min(15));
                    out.push(nibble(0) | nibble(1) << 4);
                }
                out
            }
        }
    }

    /// Reads the value of an entry.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or_else(|| Error::corrupt("a pending free cannot be read"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let page = |bytes: &[u8; 8]| PageId(u64::from_le_bytes(*bytes));
        if *kind == 3 {
            let (pages, left) = rest.as_chunks::<8>();
            return (!pages.is_empty() && left.is_empty())
                .then(|| Self::ValuesIfCommitted(pages.iter().map(page).collect()));
        }
        let (root, rest) = rest.split_first_chunk::<8>()?;
        let (object, rest) = rest.split_first_chunk::<4>()?;
        let tree = Tree { root: page(root), object: ObjectId(u32::from_le_bytes(*object)) };
        match kind {
            1 if rest.is_empty() => Some(Self::TreeIfCommitted(tree)),
            2 if rest.is_empty() => Some(Self::TreeIfAborted(tree)),
            4 => {
                let (count, nibbles) = rest.split_first_chunk::<2>()?;
                let count = u16::from_le_bytes(*count) as usize;
                if nibbles.len() != count.div_ceil(2) {
                    return None;
                }
                let width = |nibble: u8| if nibble == 15 { 16 } else { nibble };
                let mut widths: Vec<u8> = nibbles.iter().flat_map(|b| [width(b & 15), width(b >> 4)]).collect();
                widths.truncate(count);
                widths.iter().all(|w| column_of_width(*w).is_some()).then_some(Self::RowsIfCommitted(tree, widths))
            }
            _ => None,
        }
    }
}

/// A column type of a width; only its width matters here.
fn column_of_width(width: u8) -> Option<ColumnType> {
    match width {
        0 => Some(ColumnType::Bytes),
        1 => Some(ColumnType::Bool),
        2 => Some(ColumnType::Int2),
        4 => Some(ColumnType::Int4),
        8 => Some(ColumnType::Int8),
        16 => Some(ColumnType::Uuid),
        _ => None,
    }
}

/// What freeing works on.
pub struct FreeWork<'a> {
    pub pool: &'a BufferPool,
    pub txs: &'a TxManager,
    pub store: &'a VersionStore,
    /// Asked before each page that is freed; true ends it.
    pub stop: &'a dyn Fn() -> bool,
    /// Called after each page that was freed, with nothing latched.
    pub page_freed: &'a dyn Fn(),
    /// A tree is no more, and nothing leads to it.
    pub tree_freed: &'a dyn Fn(ObjectId),
}

/// What freeing did.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    /// Entries that are done.
    pub entries: u64,
    /// Entries that could not be acted on, and parts of their own tree that could not be read, for
    /// damaged pages.
    pub skipped: u64,
    /// So many of these because something cannot be read now: the device says so.
    pub unreadable: u64,
    /// The transactions whose entries these may be: none of them may be forgotten.
    pub kept: TxIdSet,
    /// It was told to stop: there may be more that are due.
    pub stopped: bool,
}

/// Entries that are looked up together.
const BATCH: usize = 1000;

/// An entry's key, what it asks for, and whether its transaction committed.
type Due = (Vec<u8>, PendingFree, bool);

/// Whether an error concerns what was to be read and not the whole database.
fn concerns_pages(pool: &BufferPool, error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Corrupt => true,
        ErrorKind::Io => pool.check_poisoned().is_ok() && pool.log().check_running().is_ok(),
        _ => false,
    }
}

fn id_of(key: &[u8]) -> TxId {
    key.first_chunk::<8>().map_or(TxId::NONE, |id| TxId(u64::from_be_bytes(*id)))
}

/// See the module.
pub struct PendingFrees {
    tree: Tree,
    sequence: AtomicU64,
    /// The entry of a table's rows that was being acted on when it was told to stop, and the key
    /// that its walk had come to. A restart forgets it and walks from the begin.
    left_at: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
}

impl PendingFrees {
    /// Those kept in `tree`; `start` is above every sequence number used so far
    /// (the log's end at open will do).
    pub fn new(tree: Tree, start: u64) -> Self {
        Self { tree, sequence: AtomicU64::new(start), left_at: Mutex::default() }
    }

    /// Notes an action for `tx`. Must follow the change that it belongs to.
    /// Returns the record's LSN: the transaction has written, and must not end as one that
    /// has not.
    pub fn add(&self, pool: &BufferPool, tx: TxId, action: &PendingFree) -> Result<Lsn> {
        self.add_with(pool, tx, action.encode().len(), |_| Ok(action.clone()))
    }

    /// As [`PendingFrees::add`], with a change that must not be without its entry, nor the entry
    /// without it: `make` adds the change to the entry's log group and says what is to be
    /// noted, in `len` bytes.
    pub fn add_with(
        &self,
        pool: &BufferPool,
        tx: TxId,
        len: usize,
        make: impl FnOnce(&mut Mtr<'_>) -> Result<PendingFree>,
    ) -> Result<Lsn> {
        // The entry may be the transaction's first record: it must name it, or analysis
        // would not know of the transaction and take it for committed.
        Ok(self.insert(pool, tx, tx, len, make)?.1)
    }

    /// Inserts an entry under `tx`; its log record is `logged_as`'s. Returns its key too.
    fn insert(
        &self,
        pool: &BufferPool,
        tx: TxId,
        logged_as: TxId,
        len: usize,
        make: impl FnOnce(&mut Mtr<'_>) -> Result<PendingFree>,
    ) -> Result<(Vec<u8>, Lsn)> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut key = tx.0.to_be_bytes().to_vec();
        key.extend_from_slice(&sequence.to_be_bytes());
        let room = LeafBuilder::plain(&key, &vec![0; len]).encoded_len();
        loop {
            let page = self.tree.write_leaf(pool, &key)?;
            if !page.fits(room) {
                drop(page);
                self.tree.make_room(pool, &key, room)?;
                continue;
            }
            let Err(slot) = leaf::search(&page, &key) else {
                return Err(Error::internal("the key of a pending free is taken"));
            };
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            mtr.attribute(at, logged_as, Lsn::NONE);
            let action = make(&mut mtr)?.encode();
            if action.len() > len {
                return Err(Error::internal("a pending free is longer than was said"));
            }
            op::insert(mtr.ops(at), slot, &LeafBuilder::plain(&key, &action).encode()?);
            if PlantedFree::Unnoted.is_planted() {
                op::remove(mtr.ops(at), slot);
            }
            let lsn = mtr.commit()?.0;
            return Ok((key, lsn));
        }
    }

    /// The tree that it is kept in.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// Every entry: whose outcome it waits for, and what is to be done.
    pub fn entries(&self, pool: &BufferPool) -> Result<Vec<(TxId, PendingFree)>> {
        let mut entries = Vec::new();
        let mut walk = LeafWalk::ascending(self.tree, Vec::new());
        while let Some(page) = walk.next(pool)? {
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                let Some(id) = record.key.first_chunk::<8>() else { continue };
                entries.push((TxId(u64::from_be_bytes(*id)), PendingFree::decode(record.value)?));
            }
        }
        Ok(entries)
    }

    /// The trees that entries name and that nobody can have begun to free: their entries wait for
    /// an outcome, or for snapshots that still see a dropped tree's rows. Definitions may name
    /// them or not: what a prepared transaction has made no cache knows after a restart, nor what
    /// was dropped before.
    ///
    /// Second, the objects of those that somebody may have begun to free. Third, whether all entries could be read.
    ///
    /// A tree that any entry has come to free, or may have begun to, is none of them. (One that is
    /// dropped was made before, and if its making is taken back so is its dropping: entries that
    /// wait say that it is whole unless another one is due.)
    pub fn trees(&self, pool: &BufferPool, txs: &TxManager) -> Result<(Vec<Tree>, HashSet<ObjectId>, bool)> {
        let horizon = txs.horizon();
        let (mut whole, mut due, mut all) = (Vec::new(), HashSet::new(), true);
        let mut walk = LeafWalk::ascending(self.tree, Vec::new());
        loop {
            let page = match walk.next(pool) {
                Ok(Some(page)) => page,
                Ok(None) => break,
                // What can be read says more than nothing.
                Err(error) if concerns_pages(pool, &error) => {
                    all &= walk.pass_over(pool)?.is_none();
                    continue;
                }
                Err(error) => return Err(error),
            };
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                let Some(id) = record.key.first_chunk::<8>() else { continue };
                let (tree, if_committed) = match PendingFree::decode(record.value)? {
                    PendingFree::TreeIfCommitted(tree) | PendingFree::RowsIfCommitted(tree, _) => (tree, true),
                    PendingFree::TreeIfAborted(tree) => (tree, false),
                    PendingFree::ValuesIfCommitted(_) => continue,
                };
                match txs.status(TxId(u64::from_be_bytes(*id))) {
                    Status::Committed(ts) if ts <= horizon => {
                        if if_committed {
                            due.insert(tree.object);
                        }
                    }
                    Status::Aborted => {
                        if !if_committed {
                            due.insert(tree.object);
                        }
                    }
                    Status::Committed(_) | Status::Active(_) | Status::Unknown => whole.push(tree),
                }
            }
        }
        whole.retain(|tree| !due.contains(&tree.object));
        Ok((whole, due, all))
    }

    /// Acts on every entry whose transaction's outcome is known to all now. It knows of a
    /// thousand entries at a time, however many there are, and ends within a page of being told to;
    /// what it has begun goes on with the next call.
    pub fn free_due(&self, on: &FreeWork<'_>) -> Result<Freed> {
        let horizon = on.txs.horizon();
        // Nothing of those that begin from here on is due: the walk has an end whatever they add.
        let end = on.txs.next_id().0.to_be_bytes();
        let mut from = Some(Vec::new());
        let mut done = Freed::default();
        while let Some(first) = from {
            let (due, next) = self.due(on, horizon, &first, &end, &mut done)?;
            for (key, action, committed) in due {
                if (on.stop)() {
                    done.stopped = true;
                    return Ok(done);
                }
                match self.free_one(on, &key, action, committed) {
                    Ok(true) => done.entries += 1,
                    Ok(false) => {
                        done.stopped = true;
                        return Ok(done);
                    }
                    // What cannot be read now does not keep the rest from being freed.
                    Err(error) if concerns_pages(on.pool, &error) => {
                        done.skipped += 1;
                        done.unreadable += u64::from(error.kind() == ErrorKind::Io);
                        done.kept.insert(id_of(&key));
                    }
                    Err(error) => return Err(error),
                }
            }
            from = next;
        }
        Ok(done)
    }

    /// The next entries that are due, from a key on, and where to go on behind them.
    fn due(
        &self,
        on: &FreeWork<'_>,
        horizon: CommitTs,
        from: &[u8],
        end: &[u8],
        done: &mut Freed,
    ) -> Result<(Vec<Due>, Option<Vec<u8>>)> {
        let mut due = Vec::new();
        let mut walk = LeafWalk::ascending(self.tree, from.to_vec());
        loop {
            let page = match walk.next(on.pool) {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) if concerns_pages(on.pool, &error) => {
                    // Keys begin with the transaction, so what is missed are those of a range.
                    if let Some((lower, upper)) = walk.pass_over(on.pool)? {
                        let last = upper.map_or(TxId(on.txs.next_id().0 - 1), |upper| id_of(&upper));
                        done.skipped += 1;
                        done.unreadable += u64::from(error.kind() == ErrorKind::Io);
                        done.kept.insert_range(id_of(&lower).max(TxId(1)), last);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                if record.key < from {
                    continue;
                }
                if record.key >= end {
                    return Ok((due, None));
                }
                if due.len() >= BATCH {
                    return Ok((due, Some(record.key.to_vec())));
                }
                let Some(id) = record.key.first_chunk::<8>() else { continue };
                let outcome = match on.txs.status(TxId(u64::from_be_bytes(*id))) {
                    Status::Committed(ts) if ts <= horizon => true,
                    Status::Aborted => false,
                    _ => continue,
                };
                due.push((record.key.to_vec(), PendingFree::decode(record.value)?, outcome));
            }
        }
        Ok((due, None))
    }

    /// False: it was told to stop, and the entry is there still.
    fn free_one(&self, on: &FreeWork<'_>, key: &[u8], action: PendingFree, committed: bool) -> Result<bool> {
        match (action, committed) {
            (PendingFree::TreeIfCommitted(tree), true) | (PendingFree::TreeIfAborted(tree), false) => {
                self.free_tree(on, key, tree)
            }
            (PendingFree::RowsIfCommitted(tree, widths), true) => {
                if !self.free_values_of(on, key, tree, &widths)? {
                    return Ok(false);
                }
                // From here on the tree is not whole, and must not be walked again.
                self.replace(on.pool, key, &PendingFree::TreeIfCommitted(tree))?;
                self.free_tree(on, key, tree)
            }
            (PendingFree::ValuesIfCommitted(pages), true) => self.free_values(on, key, pages),
            _ => self.remove(on.pool, key).map(|()| true),
        }
    }

    fn free_tree(&self, on: &FreeWork<'_>, key: &[u8], tree: Tree) -> Result<bool> {
        while free_tree_step(on.pool, tree)? {
            (on.page_freed)();
            if (on.stop)() {
                return Ok(false);
            }
        }
        (on.page_freed)();
        self.remove(on.pool, key)?;
        (on.tree_freed)(tree.object);
        Ok(true)
    }

    fn replace(&self, pool: &BufferPool, key: &[u8], action: &PendingFree) -> Result<()> {
        let page = self.tree.write_leaf(pool, key)?;
        if let Ok(slot) = leaf::search(&page, key) {
            let bytes = LeafBuilder::plain(key, &action.encode()).encode()?;
            if !page.fits_replace(slot, bytes.len()) {
                return Err(Error::internal("a pending free grew"));
            }
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::replace(mtr.ops(at), slot, &bytes);
            mtr.commit()?;
        }
        Ok(())
    }

    /// Frees the large values of the rows of a dropped tree, row by row: the row goes in the
    /// log group that notes its values, so that a crash leaves one of the two. False: it was told
    /// to stop.
    fn free_values_of(&self, on: &FreeWork<'_>, key: &[u8], tree: Tree, widths: &[u8]) -> Result<bool> {
        let FreeWork { pool, txs, store, .. } = *on;
        if !is_there(pool, tree)? {
            return Ok(true); // gone, but for its entry
        }
        let tx = key.first_chunk::<8>().map_or(TxId::NONE, |id| TxId(u64::from_be_bytes(*id)));
        let layout = PendingFree::layout(widths);
        // Rows may have moved to other leaves since; those before the key have no values left.
        let mut from = self.left_at.lock().take_if(|(entry, _)| entry == key).map_or_else(Vec::new, |(_, from)| from);
        let stopped = |from: Vec<u8>| {
            *self.left_at.lock() = Some((key.to_vec(), from));
            Ok(false)
        };
        let mut walk = LeafWalk::ascending(tree, from.clone());
        loop {
            if (on.stop)() {
                return stopped(from);
            }
            // Before the leaf: earlier versions are looked at, and no snapshot protects them.
            let held = store.hold_pages();
            let Some(page) = walk.next(pool)? else { return Ok(true) };
            let next = page.upper_fence().map(<[u8]>::to_vec);
            let mut rows = Vec::new();
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                let mut values = Vec::new();
                values_in_use(pool, txs, &record, &layout, false, &mut |value| values.push(value))?;
                if !values.is_empty() {
                    rows.push((record.key.to_vec(), values));
                }
            }
            drop(page);
            drop(held);
            for (row, values) in rows {
                let action = PendingFree::ValuesIfCommitted(values.clone());
                let (entry, _) = self.insert(pool, tx, TxId::NONE, action.encode().len(), |mtr| {
                    let page = tree.write_leaf(mtr.pool(), &row)?;
                    let Ok(slot) = leaf::search(&page, &row) else {
                        return Err(Error::internal("a row of a dropped table is gone"));
                    };
                    let at = mtr.add(page);
                    op::remove(mtr.ops(at), slot);
                    Ok(action)
                })?;
                if !self.free_values(on, &entry, values)? {
                    return stopped(from);
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(true),
            }
        }
    }

    /// Frees values page by page; the entry moves on with each page in one group, so a
    /// crash leaves neither a leak nor a page freed twice. False: it was told to stop.
    fn free_values(&self, on: &FreeWork<'_>, key: &[u8], mut left: Vec<PageId>) -> Result<bool> {
        while let Some(first) = left.pop() {
            let leaf_page = self.tree.write_leaf(on.pool, key)?;
            let Ok(slot) = leaf::search(&leaf_page, key) else { return Ok(true) };
            let mut mtr = Mtr::new(on.pool);
            let entry = mtr.add(leaf_page);
            if let Some(next) = free_external(&mut mtr, first)?.filter(|next| next.is_some()) {
                left.push(next);
            }
            if left.is_empty() {
                op::remove(mtr.ops(entry), slot);
            } else {
                let action = PendingFree::ValuesIfCommitted(left.clone());
                op::replace(mtr.ops(entry), slot, &LeafBuilder::plain(key, &action.encode()).encode()?);
            }
            mtr.commit()?;
            (on.page_freed)();
            if !left.is_empty() && (on.stop)() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn remove(&self, pool: &BufferPool, key: &[u8]) -> Result<()> {
        let page = self.tree.write_leaf(pool, key)?;
        if let Ok(slot) = leaf::search(&page, key) {
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::remove(mtr.ops(at), slot);
            mtr.commit()?;
        }
        Ok(())
    }
}
