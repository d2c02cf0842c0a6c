//! Inserting many rows of one table: gathered, sorted, and put into the table and its indexes leaf by leaf.
//!
//! Rows are encoded as they come, and kept until there are some. Then each tree takes them in the order of its keys, those of one
//! leaf by one latch and one record of the log (`versions/src/insert_run.rs`). They carry their writer's id as any row does, so that
//! a rollback of any size costs nothing. Few are kept at first, and more where they come in no order, since then more of them belong
//! on each leaf.
//!
//! # Invariants
//! 1. What comes of it is what inserting the rows one after the other, as they were given, comes to: those before the first that cannot
//!    be inserted are in, it is not, nor is any behind it. Where rows were put in that are behind it in the order in which they were
//!    given, they are taken back.
//! 2. Where a tree has no record of a row's key, the row goes with others, and is taken back without a trace. Rows and entries that meet
//!    a record (of whatever state) go by themselves when all others are in, in the order in which they were given: so none of them has to
//!    be taken back for one that was given before it.
//! 3. The first that cannot be inserted beside the others is inserted once more when what is behind it is gone. What is in its way, and how
//!    that is said, is that of [`Transaction::insert`]. Who began to wait for what was taken back is woken.
//! 4. Nothing is kept that has large values, or is refused before it is written: such a row is inserted by itself, behind those
//!    that came before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_btree::Tree;
use resurgam_page::types::DatumRef;
use resurgam_versions::{NewRow, Outcome, RowWriter};

use crate::cursor::RowBatch;
use crate::near::Near;
use crate::rows::value_in_row_max;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, WriteContext, attempt};

/// Bytes of rows that are kept at first, …
const KEPT_MIN: usize = 128 << 10;
/// … and at most, where they come in no order.
pub(crate) const KEPT_MAX: usize = 16 << 20;
/// What a row takes in memory besides its bytes, in each tree: where it is, and its place in the order.
const BESIDES: usize = 96;
/// The key of a row's id.
const ID_KEY_BYTES: usize = 9;
/// Rows between two looks whether the statement is to stop, …
const UNASKED: usize = 256;
/// … and bytes that are written between two looks at how much log there is.
const UNTHROTTLED: usize = 256 << 10;
/// So often a wait is begun again that would be a deadlock with one who waits for what is there no more.
const WAIT_TRIES: usize = 4;

/// Rows of one table on their way in; see [`Transaction::load`].
pub struct Load {
    tx: Transaction,
    table: Arc<Table>,
    /// Its own: the transaction may write elsewhere between its rows.
    near: Near,
    /// Clustered keys and values of the rows that are kept, as they were given.
    rows: RowBatch,
    /// Their entries of each index.
    entries: Vec<RowBatch>,
    /// How many of those are inserted.
    at: usize,
    /// Whether the one behind them was refused.
    refused: bool,
    kept: usize,
    kept_max: usize,
    /// Who gives the rows says when they are inserted.
    by_hand: bool,
    inserted: u64,
    /// Whether a row as it is given is what its value is encoded of.
    is_value: bool,
    /// Room for the row that is taken.
    room: Room,
}

/// See [`Load`].
#[derive(Default)]
struct Room {
    values: Vec<DatumRef<'static>>,
    key: Vec<u8>,
    value: Vec<u8>,
    entry_key: Vec<u8>,
    entry_value: Vec<u8>,
}

/// What became of a row in one tree, when it went with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    Not,
    /// Of its leaf it was the only one.
    Single,
    InRun,
}

/// Rows in the order of a tree's keys.
struct Sorted<'b> {
    rows: Vec<NewRow<'b>>,
    /// Which each is of those that were given.
    of: Vec<u32>,
    put: Vec<Put>,
}

/// A row or an entry that goes by itself.
struct Alone<'b> {
    /// Which it is of the rows that were given, …
    of: u32,
    /// … and of the trees.
    tree: usize,
    row: NewRow<'b>,
}

/// What came of rows that were kept.
struct Inserted {
    /// Those that are in: all, or those before one that is not.
    rows: usize,
    /// Others may have met one that is in no more.
    taken_back: bool,
}

/// Asks now and then whether to go on, and how much log there is.
#[derive(Default)]
struct Pace {
    rows: usize,
    bytes: usize,
}

impl Pace {
    /// Called after each change. Other rows are in by then: whoever is stopped can only roll back.
    fn went(&mut self, tx: &Transaction, context: &WriteContext<'_>, rows: &[NewRow<'_>]) -> Result<()> {
        self.rows += rows.len();
        self.bytes += rows.iter().map(|row| row.key.len() + row.value.len() + BESIDES).sum::<usize>();
        let mut ask = || {
            if self.rows >= UNASKED {
                self.rows = 0;
                tx.check_interrupt()?;
            }
            if self.bytes >= UNTHROTTLED {
                self.bytes = 0;
                tx.0.db.throttle(tx)?;
            }
            Ok(())
        };
        ask().inspect_err(|_| tx.broken_off(context.xid))
    }
}

/// Whether an error is of the one row that was to be written: it is told when that is inserted by itself.
fn is_of_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::DiskFull)
}

impl<'b> Sorted<'b> {
    fn of(batch: &'b RowBatch, from: usize) -> Self {
        let row = |at: usize| {
            let row = batch.row(at);
            NewRow { key: row.key, value: row.value }
        };
        let rows: Vec<NewRow<'b>> = (from..batch.len()).map(row).collect();
        if rows.windows(2).all(|pair| pair[0].key < pair[1].key) {
            let of = (from as u32..batch.len() as u32).collect();
            return Self { put: vec![Put::Not; rows.len()], rows, of };
        }
        // Mostly the begin of a key tells.
        let head = |key: &[u8]| {
            let mut head = [0; 8];
            let len = key.len().min(8);
            head[..len].copy_from_slice(&key[..len]);
            u64::from_be_bytes(head)
        };
        let mut order: Vec<(u64, u32)> = rows.iter().zip(0..).map(|(row, at)| (head(row.key), at)).collect();
        let key = |at: u32| rows[at as usize].key;
        // Of one key the one that was given first comes first.
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))).then(a.1.cmp(&b.1)));
        let sorted: Vec<NewRow<'b>> = order.iter().map(|(_, at)| rows[*at as usize]).collect();
        let of = order.iter().map(|(_, at)| from as u32 + at).collect();
        Self { put: vec![Put::Not; sorted.len()], rows: sorted, of }
    }

    /// Leaves out the rows of which `is_out` says so, and gives them away.
    fn leave_out(&mut self, is_out: impl Fn(u32) -> bool, mut give: impl FnMut(u32, NewRow<'b>)) {
        let Self { rows, of, put } = self;
        let mut kept = 0;
        for at in 0..rows.len() {
            if is_out(of[at]) {
                give(of[at], rows[at]);
            } else {
                (rows[kept], of[kept]) = (rows[at], of[at]);
                kept += 1;
            }
        }
        rows.truncate(kept);
        of.truncate(kept);
        put.truncate(kept);
    }
}

impl Transaction {
    /// A way in for many rows of one table.
    pub fn load(&self, table: &Arc<Table>) -> Load {
        Load {
            tx: self.clone(),
            table: Arc::clone(table),
            near: Near::default(),
            rows: RowBatch::default(),
            entries: table.indexes.iter().map(|_| RowBatch::default()).collect(),
            at: 0,
            refused: false,
            kept: KEPT_MIN,
            kept_max: KEPT_MAX,
            by_hand: false,
            inserted: 0,
            is_value: table.is_all_value(),
            room: Room::default(),
        }
    }

    /// Inserts rows from `*done` on as [`Transaction::insert`] does one after the other; those that are close to each other cheaper.
    /// Counts in `done` those that are inserted: all, or up to the one that could not be, of which an error or a wait is.
    ///
    /// # Errors
    /// As [`Transaction::insert`], of the row at `*done`; [`Load::flush`] has others.
    pub fn insert_many(&self, table: &Arc<Table>, rows: &[&[DatumRef<'_>]], done: &mut usize) -> Result<Attempt<()>> {
        let mut load = self.load(table);
        let first = *done;
        let mut insert = || {
            for row in &rows[first..] {
                attempt!(load.push(row));
            }
            load.flush()
        };
        let outcome = insert();
        *done = first + load.inserted as usize;
        outcome
    }

    /// Inserts the rows that `load` keeps from `load.at` on.
    fn insert_kept(&self, context: &WriteContext<'_>, load: &Load) -> Result<Inserted> {
        let table = &*load.table;
        let inner = self.0.db.inner();
        let trees: Vec<Tree> =
            std::iter::once(table.tree).chain(table.indexes.iter().map(|index| index.tree)).collect();
        // An entry is of a row that is this transaction's by then.
        let (of_rows, of_entries) = (self.writer(context, false), self.writer(context, true));
        let mut pace = Pace::default();
        let mut put: Vec<Sorted<'_>> = Vec::with_capacity(trees.len());
        let mut alone: Vec<Alone<'_>> = Vec::new();
        // Of rows that are not in the table yet, entries have to wait.
        let mut is_out = vec![false; load.rows.len() - load.at];
        for (number, batch) in std::iter::once(&load.rows).chain(&load.entries).enumerate() {
            let mut sorted = Sorted::of(batch, load.at);
            let (writer, near) = match number {
                0 => (&of_rows, Some(&load.near)),
                _ => (&of_entries, None),
            };
            if number > 0 && !alone.is_empty() {
                let give = |of, row| alone.push(Alone { of, tree: number, row });
                sorted.leave_out(|of| is_out[of as usize - load.at], give);
            }
            self.put_runs(context, writer, trees[number], &mut sorted, near, &mut pace)?;
            for at in (0..sorted.rows.len()).filter(|at| sorted.put[*at] == Put::Not) {
                let of = sorted.of[at];
                alone.push(Alone { of, tree: number, row: sorted.rows[at] });
                is_out[of as usize - load.at] |= number == 0;
            }
            put.push(sorted);
        }
        let mut limit = load.rows.len() as u32;
        let mut done = 0;
        alone.sort_unstable_by_key(|alone| (alone.of, alone.tree));
        for Alone { of, tree, row } in &alone {
            let is_in = match tree {
                0 => self.put_alone(context, &of_rows, trees[0], row, Some((table, &load.near)))?,
                _ => self.put_alone(context, &of_entries, trees[*tree], row, None)?,
            };
            if !is_in {
                limit = *of;
                break;
            }
            done += 1;
            pace.went(self, context, std::slice::from_ref(row))?;
        }
        // Entries first, and then rows.
        let mut taken_back = false;
        let mut take_back = |tree: Tree, row: &NewRow<'_>| {
            taken_back = true;
            self.take_back(context, tree, row.key).inspect_err(|_| self.broken_off(context.xid))?;
            pace.went(self, context, std::slice::from_ref(row))
        };
        let mut in_runs = 0;
        for alone in alone[..done].iter().rev().take_while(|alone| alone.of >= limit) {
            take_back(trees[alone.tree], &alone.row)?;
        }
        for (tree, sorted) in trees.iter().zip(&put).rev() {
            for (at, row) in sorted.rows.iter().enumerate().filter(|(at, _)| sorted.put[*at] != Put::Not) {
                if sorted.of[at] >= limit {
                    take_back(*tree, row)?;
                } else {
                    in_runs += u64::from(sorted.put[at] == Put::InRun);
                }
            }
        }
        inner.inserted_in_runs.fetch_add(in_runs, Ordering::Relaxed);
        if taken_back {
            // Nothing of it is left that they would wait for.
            inner.txs.ended(context.active.id);
        }
        Ok(Inserted { rows: limit as usize - load.at, taken_back })
    }

    /// Puts rows into one tree, as far as it has no record of their keys.
    fn put_runs(
        &self,
        context: &WriteContext<'_>,
        writer: &RowWriter<'_>,
        tree: Tree,
        sorted: &mut Sorted<'_>,
        near: Option<&Near>,
        pace: &mut Pace,
    ) -> Result<()> {
        let mut at = 0;
        while at < sorted.rows.len() {
            let mut hint = near.and_then(|near| near.hint(tree.object));
            let run = match writer.insert_run(tree, &sorted.rows[at..], &mut hint) {
                Err(error) if is_of_row(&error) => 0,
                run => run.inspect_err(|_| self.broken_off(context.xid))?,
            };
            if let Some(near) = near {
                near.note(tree.object, hint);
            }
            // One row of a leaf costs what it costs by itself.
            let put = if run > 1 { Put::InRun } else { Put::Single };
            sorted.put[at..at + run].fill(put);
            let next = at + run.max(1);
            pace.went(self, context, &sorted.rows[at..next])?;
            at = next;
        }
        Ok(())
    }

    /// Puts one row or entry in. False: it cannot be. Of a row, `of` says which table it is of, and where rows were put before.
    fn put_alone(
        &self,
        context: &WriteContext<'_>,
        writer: &RowWriter<'_>,
        tree: Tree,
        row: &NewRow<'_>,
        of: Option<(&Table, &Near)>,
    ) -> Result<bool> {
        let mut hint = of.and_then(|(_, near)| near.hint(tree.object));
        writer.over_deleted.set(false);
        let is_in = match writer.insert(tree, row.key, row.value, &mut hint) {
            Ok(outcome) => outcome == Outcome::Done,
            Err(error) if is_of_row(&error) => false,
            Err(error) => {
                self.broken_off(context.xid);
                return Err(error);
            }
        };
        if let Some((table, near)) = of {
            near.note(tree.object, hint);
            if is_in {
                self.note_stay(table, context, writer, row.key);
            }
        }
        Ok(is_in)
    }
}

impl Load {
    /// Keeps so many bytes of rows (what they take besides counts as well) before they are inserted, at first, and at most where they
    /// come in no order.
    pub fn keeping(mut self, least: usize, most: usize) -> Self {
        (self.kept, self.kept_max) = (least, most);
        self
    }

    /// Has rows inserted by [`Load::flush`] only, however many there are; one that cannot be kept still comes in at once, and those
    /// before it. Who gives them asks [`Load::is_full`].
    pub fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// Whether as many rows are kept as are to be.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.kept
    }

    /// Rows that are kept: that are not, or not all, in.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether all rows that were taken are in.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets the rows that are kept behind the first `rows`, none of which is in.
    pub fn forget_behind(&mut self, rows: usize) {
        let rows = rows.max(self.at);
        self.rows.truncate(rows);
        self.entries.iter_mut().for_each(|entries| entries.truncate(rows));
    }

    /// Takes a row; it is inserted then or later, at the latest by [`Load::flush`]. [`Attempt::Wait`]: it was not taken.
    ///
    /// # Errors
    /// As [`Transaction::insert`], of this row, or of one that was taken before and which [`Load::refused`] has then. All before that
    /// one are in, and none behind it. Nothing more can be taken.
    pub fn push(&mut self, row: &[DatumRef<'_>]) -> Result<Attempt<()>> {
        if !self.by_hand && self.is_full() {
            attempt!(self.flush());
        }
        if self.rows.is_empty() {
            // What comes first of a row comes before it is kept.
            attempt!(self.tx.row_context(&self.table, || Ok(())));
        }
        if !self.keep(row) {
            attempt!(self.flush());
            attempt!(self.tx.insert_near(&self.table, row, &self.near));
            self.inserted += 1;
        }
        Ok(Attempt::Done(()))
    }

    /// Takes a row that needs nothing but to be kept. False: it was not taken, and [`Load::push`] says why. So no row is the first one.
    pub fn keep_more(&mut self, row: &[DatumRef<'_>]) -> bool {
        !self.rows.is_empty() && (self.by_hand || !self.is_full()) && self.keep(row)
    }

    /// What the rows that are kept take in memory.
    pub fn bytes(&self) -> usize {
        let bytes = |rows: &RowBatch| rows.bytes() + rows.len() * BESIDES;
        bytes(&self.rows) + self.entries.iter().map(bytes).sum::<usize>()
    }

    /// Keeps a row. False: it is to be inserted by itself.
    fn keep(&mut self, row: &[DatumRef<'_>]) -> bool {
        let is_large = |datum: &DatumRef<'_>| matches!(datum, DatumRef::External(_));
        if self.table.check_row(row).is_err() || row.iter().any(is_large) {
            return false;
        }
        let mut room = DatumRef::room(std::mem::take(&mut self.room.values));
        let values = if self.is_value {
            row
        } else {
            self.table.put_value_datums(row, &mut room);
            &room
        };
        let len = self.table.layout.encoded_len(values);
        // Before an id is taken for it.
        if len > value_in_row_max(if self.table.primary_key.is_empty() { ID_KEY_BYTES } else { 0 }) {
            return false;
        }
        let Self { tx, table, rows, entries, room: Room { key, value, entry_key, entry_value, .. }, .. } = self;
        key.clear();
        value.clear();
        let encoded = table.key_of_row(row, || tx.next_row_id(table), key);
        if encoded.is_err() || len > value_in_row_max(key.len()) || table.layout.encode(values, value).is_err() {
            return false;
        }
        let before = rows.len();
        let made = entries.iter_mut().enumerate().try_for_each(|(at, entries)| {
            entry_key.clear();
            entry_value.clear();
            table.index_entry(at, row, key, entry_key, entry_value)?;
            entries.push(entry_key, entry_value);
            Ok::<_, Error>(())
        });
        if made.is_err() {
            entries.iter_mut().for_each(|entries| entries.truncate(before));
            return false;
        }
        rows.push(key, value);
        self.room.values = DatumRef::room(room);
        true
    }

    /// Inserts all that was taken. [`Attempt::Wait`]: a part of it is in; wait, and call it again.
    ///
    /// # Errors
    /// As [`Load::push`]. Where the log has no room for the rest of many rows, the transaction's interrupt says so between them, or what is
    /// there cannot be read or written, a part may be in, and the transaction (or the savepoint it is under) can only be rolled back.
    pub fn flush(&mut self) -> Result<Attempt<()>> {
        while self.at < self.rows.len() {
            self.refused = false;
            self.tx.0.db.throttle(&self.tx)?;
            let tx = self.tx.clone();
            let context = attempt!(tx.row_context(&self.table, || Ok(())));
            let Inserted { rows, taken_back } = tx.insert_kept(&context, self)?;
            self.note_inserted(rows);
            if self.at < self.rows.len() {
                self.refused = true;
                let row = self.rows.row(self.at);
                let columns = self.table.all_columns(row)?;
                let by_itself = || {
                    let steps = tx.insert_steps(&self.table, &context, &columns, row.key, row.value, &self.near)?;
                    tx.inserted(&self.table, &context, steps, &columns)
                };
                let mut outcome = by_itself();
                for _ in 0..if taken_back { WAIT_TRIES } else { 0 } {
                    // Who met a row that was taken back may have begun to wait for it only after that.
                    tx.0.db.inner().txs.ended(context.active.id);
                    match &outcome {
                        Err(error) if error.kind() == ErrorKind::DeadlockDetected => outcome = by_itself(),
                        _ => break,
                    }
                }
                attempt!(outcome);
                self.note_inserted(1);
            }
        }
        if !self.rows.is_empty() {
            // Rows in no order: the more there are the more belong on each leaf.
            if !self.is_ascending() {
                self.kept = (self.kept * 2).min(self.kept_max);
            }
            self.rows.clear();
            self.entries.iter_mut().for_each(RowBatch::clear);
            self.at = 0;
            self.refused = false;
        }
        Ok(Attempt::Done(()))
    }

    fn note_inserted(&mut self, rows: usize) {
        self.at += rows;
        self.inserted += rows as u64;
        if rows > 0 {
            self.table.note_rows_changed(rows as u64);
        }
    }

    fn is_ascending(&self) -> bool {
        (1..self.rows.len()).all(|at| self.rows.row(at - 1).key < self.rows.row(at).key)
    }

    /// Rows that are inserted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// After an error, which of the rows that are kept it is of, if it is of one of those.
    pub fn refused_at(&self) -> Option<usize> {
        (self.refused && self.at < self.rows.len()).then_some(self.at)
    }

    /// After an error, the columns of the row that it is of, if it was taken before: not the one that was being given.
    pub fn refused(&self) -> Option<Vec<DatumRef<'_>>> {
        self.table.all_columns(self.rows.row(self.refused_at()?)).ok()
    }
}
