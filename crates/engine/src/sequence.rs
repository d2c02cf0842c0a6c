//! Sequences: what a definition says of one, and its values, which no transaction rolls back.
//!
//! The definition is an entry of the catalog like a table's, versioned and transactional. Its values are a row of the
//! catalog's tree under a number of their own (`'s' number`): a definition that begins anew (RESTART) names another
//! number, so that this commits and rolls back with the definition.
//!
//! # Invariants
//! 1. *No value is given out before a commit that says so is in the log.* The row says how far values may have been given
//!    out, [`LOGGED_AHEAD`] ahead: a small transaction of its own that commits without waiting for the disk. Whoever
//!    commits a value has his COMMIT behind it in the log, so the one is never durable without the other; a
//!    transaction that wrote nothing waits for that place of the log when it ends
//!    ([`Transaction::commit`](crate::Transaction::commit)). Who has to write to the log waits at its bound before the sequence
//!    is locked: others read where it is meanwhile, and take what is logged already. A sequence *in a hurry* has as many values in a
//!    record as it gives out in some syncs of a disk, up to [`LOGGED_AHEAD_MAX`], and the next record is written when half of them are left:
//!    by the time that its values come it is durable, and nobody waits.
//! 2. *One at a time.* Values are given out under the sequence's own mutex, which also orders the writes of its row.
//! 3. A restart goes on behind what the row says: after a crash it may lose values of a stride, and it never repeats one. A clean close writes
//!    back what was given out, so that nothing is lost by it.
//! 4. A definition that changes without beginning anew (ALTER SEQUENCE … INCREMENT) goes on with the same row, for those who
//!    see it and those who do not see it yet: none gives out what the other has. How far the log is ahead counts for the
//!    definition that it was reckoned with, and for no other.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_page::codec::Reader;
use resurgam_versions::Outcome;

use crate::catalog_row::values_key;
use crate::database::Database;
use crate::table::{RowBuf, Table};
use crate::transaction::{Attempt, Durability, Isolation, StatementKind, Transaction};

/// Values that are logged ahead: PostgreSQL's SEQ_LOG_VALS. A crash loses up to so many, and 33 values cost one record.
pub const LOGGED_AHEAD: i64 = 32;
/// As many at most of a sequence in a hurry; of two records, so that a crash loses up to half as many again.
pub const LOGGED_AHEAD_MAX: i64 = 1024;
/// How long the values of one record are to last, in microseconds: several syncs of a disk.
const HURRY_US: i64 = 20_000;
/// A sequence that gives out as many in that time is in a hurry.
const HURRIES: i64 = 4 * LOGGED_AHEAD;
/// How long a close waits for who is giving out a value.
const IN_USE_MAX: Duration = Duration::from_secs(1);
/// Times that the row of a sequence's values is read again before what meets it is a mistake.
const CHANGED_MAX: u32 = 1000;

/// The definition of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Bytes of its type: 2, 4 or 8.
    pub width: u8,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
    /// The row of its values; set by the engine.
    #[doc(hidden)]
    pub values: u32,
    /// Where these begin: the last value, and whether it has been given out.
    pub begin: i64,
    pub begin_called: bool,
    /// The table that it goes with, which says of which of its columns.
    pub owner: Option<u32>,
}

/// Where a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    pub last: i64,
    /// `last` has been given out.
    pub called: bool,
    /// Values that may be given out before the log is written to.
    pub ahead: i64,
}

/// How a column makes use of the sequence that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedSequence {
    /// Position of the column.
    pub column: usize,
    /// Id of the sequence.
    pub sequence: u32,
    pub identity: Identity,
}

/// GENERATED … AS IDENTITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A sequence that goes with the column, no more.
    No,
    Always,
    ByDefault,
}

impl Sequence {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.width, u8::from(self.cycle) | u8::from(self.begin_called) << 1];
        for value in [self.start, self.increment, self.min, self.max, self.cache, self.begin] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.values.to_le_bytes());
        // Ids of objects begin above 0.
        out.extend_from_slice(&self.owner.unwrap_or(0).to_le_bytes());
        out
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (width, flags) = (r.u8()?, r.u8()?);
        let mut next = || r.u64().map(u64::cast_signed);
        let (start, increment, min, max, cache, begin) = (next()?, next()?, next()?, next()?, next()?, next()?);
        let (values, owner) = (r.u32()?, r.u32()?);
        if increment == 0 || min >= max || !(min..=max).contains(&begin) {
            return Err(r.bad("a sequence that contradicts itself"));
        }
        Ok(Self {
            width,
            start,
            increment,
            min,
            max,
            cache,
            cycle: flags & 1 != 0,
            values,
            begin,
            begin_called: flags & 2 != 0,
            owner: (owner != 0).then_some(owner),
        })
    }

    fn stride(&self) -> Stride {
        Stride { increment: self.increment, min: self.min, max: self.max, cycle: self.cycle }
    }

    /// The value after `last`; `None` at the end of one that does not cycle.
    fn after(&self, last: i64) -> Option<i64> {
        let next = last.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        match next {
            Some(next) => Some(next),
            None if self.cycle => Some(if self.increment > 0 { self.min } else { self.max }),
            None => None,
        }
    }

    /// The value that comes `count` values behind `last`, or the last one there is, and how many there are.
    fn further(&self, last: i64, count: i64) -> (i64, i64) {
        let (mut furthest, mut steps) = (last, 0);
        while steps < count
            && let Some(further) = self.after(furthest)
        {
            furthest = further;
            steps += 1;
        }
        (furthest, steps)
    }
}

impl SequenceState {
    /// Whether the next value is not given out before the log is written to.
    fn is_to_be_logged(&self) -> bool {
        self.ahead == 0 || !self.called
    }

    /// The stored form: what a restart goes on from.
    pub(crate) fn encode(last: i64, called: bool) -> Vec<u8> {
        let mut out = last.to_le_bytes().to_vec();
        out.push(u8::from(called));
        out
    }
    /// Reads it; `None` if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(i64, bool)> {
        match bytes.split_first_chunk::<8>()? {
            (last, [called]) => Some((i64::from_le_bytes(*last), *called != 0)),
            _ => None,
        }
    }
}

/// What of a definition says which values come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stride {
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
}

/// A sequence in memory.
#[derive(Debug, Default)]
struct Live {
    state: Option<SequenceState>,
    /// What the values that are logged ahead were reckoned with.
    stride: Option<Stride>,
    /// The log that whoever commits a value needs durable.
    end: Lsn,
    /// The record that was written early, if its values have not come yet.
    early: Option<Early>,
    /// The newest record.
    newest: Option<Newest>,
}

/// A record of a sequence that is written before it is needed.
#[derive(Clone, Copy, Debug)]
struct Early {
    /// Its values: those that leave fewer than so many.
    values: i64,
    end: Lsn,
}

/// The newest record of a sequence.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// When, by the clock of the files' system, which a simulation has, too; in microseconds.
    at_us: i64,
    /// Its values.
    values: i64,
    /// And all that were logged and not given out then, with them.
    ahead: i64,
}

impl Live {
    /// How many values the record that is written now is for, of whose predecessors `ahead` are left: as many as are given out in [`HURRY_US`] if it goes on
    /// as since the last record, and twice as many as that had at most.
    fn values_to_log(&self, ahead: i64, now_us: i64) -> i64 {
        let Some(newest) = self.newest else { return LOGGED_AHEAD };
        let took_us = now_us.saturating_sub(newest.at_us).max(1);
        let given = newest.ahead.saturating_sub(ahead).clamp(0, 2 * LOGGED_AHEAD_MAX);
        // Who has asked for few has few to lose.
        let most = (newest.values * 2).min(LOGGED_AHEAD_MAX);
        match given * HURRY_US / took_us {
            // It is in no hurry to speak of.
            ..HURRIES => LOGGED_AHEAD,
            wanted => wanted.min(most),
        }
    }

    /// Whether it is time to write a record for later values, `ahead` being left.
    fn is_to_be_early(&self, ahead: i64) -> bool {
        let is_time = |newest: Newest| newest.values > LOGGED_AHEAD && ahead <= newest.values / 2;
        self.early.is_none() && self.newest.is_some_and(is_time)
    }
}

/// The sequences whose values were asked for since the open.
#[derive(Default)]
pub(crate) struct Sequences(RwLock<HashMap<u32, Arc<Mutex<Live>>>>);

impl Sequences {
    fn of(&self, values: u32) -> Arc<Mutex<Live>> {
        if let Some(live) = self.0.read().get(&values) {
            return Arc::clone(live);
        }
        Arc::clone(self.0.write().entry(values).or_default())
    }
}

impl Database {
    /// Where a sequence is, read at its first use.
    fn sequence_state(&self, sequence: &Sequence, live: &mut Live) -> Result<SequenceState> {
        if let Some(state) = live.state {
            // What is logged ahead are values of another definition.
            let ahead = if live.stride == Some(sequence.stride()) { state.ahead } else { 0 };
            return Ok(SequenceState { ahead, ..state });
        }
        let (mut bytes, tree) = (Vec::new(), self.inner().catalog.tree);
        let stored = match self.plain_view().read_value(tree, &values_key(sequence.values), &mut bytes)? {
            true => {
                SequenceState::decode(&bytes).ok_or_else(|| Error::corrupt("a sequence's values cannot be read"))?
            }
            false => (sequence.begin, sequence.begin_called),
        };
        let state = SequenceState { last: stored.0, called: stored.1, ahead: 0 };
        live.state = Some(state);
        Ok(state)
    }

    /// Has the next open go on behind the values that were given out, not behind those that are logged ahead.
    pub(crate) fn write_back_sequences(&self) -> Result<()> {
        let inner = self.inner();
        // All rows are seen.
        let end = inner.log.end_lsn();
        inner.log.flush(end)?;
        inner.txs.on_durable(end);
        let all: Vec<(u32, Arc<Mutex<Live>>)> =
            inner.sequences.0.read().iter().map(|(values, live)| (*values, Arc::clone(live))).collect();
        for (values, live) in all {
            // Who holds it still waits for something that may not come any more: its values are skipped.
            let Some(mut live) = live.try_lock_for(IN_USE_MAX) else { continue };
            if let Some(state) = live.state.filter(|state| state.ahead > 0)
                && self.plain_view().read_value(inner.catalog.tree, &values_key(values), &mut Vec::new())?
            {
                live.end = self.log_sequence(values, state.last, state.called)?;
                live.state = Some(SequenceState { ahead: 0, ..state });
                (live.early, live.newest) = (None, None);
            }
        }
        Ok(())
    }

    /// Logs how far values are given out; see the invariants.
    fn log_sequence(&self, values: u32, last: i64, called: bool) -> Result<Lsn> {
        let inner = self.inner();
        let (key, value) = (values_key(values), SequenceState::encode(last, called));
        let txn = self.begin(Isolation::ReadCommitted);
        if txn.enter()?.is_some() {
            // Whoever changes the recovery mode waits for this one's transaction.
            let error = Error::new(ErrorKind::SerializationFailure, "the recovery mode is being changed");
            return Err(error.with_hint("Retry the transaction."));
        }
        txn.statement(StatementKind::PointWrite)?;
        let carrier = Arc::new(inner.catalog.carrier());
        let mut row = RowBuf::default();
        let mut tries = 0;
        loop {
            let seen = txn.latest(&carrier, &key, &mut row)?;
            let outcome = txn.with_catalog_writer_at_once(|writer, tree| match seen {
                Some(seen) => writer.update(tree, &key, &value, seen),
                None => writer.insert(tree, &key, &value, &mut None),
            })?;
            match outcome {
                Outcome::Done => break,
                // An undo after a crash has not come to it yet.
                Outcome::Wait(holder) => {
                    if !inner.options.background {
                        // Nobody else would.
                        self.finish_recovery()?;
                    }
                    let own = txn.write_context()?.active.id;
                    inner.txs.wait_for(own, holder)?.wait()?;
                }
                // Nobody else writes these values, but the cleaner may have taken what was behind the row since it was read.
                Outcome::Changed | Outcome::Gone if tries < CHANGED_MAX => tries += 1,
                other => return Err(Error::internal(format!("the values of a sequence: {other:?}"))),
            }
        }
        drop(txn.commit(Durability::Async)?);
        Ok(inner.log.end_lsn())
    }
}

impl Transaction {
    /// The next value of a sequence. It is given to nobody else, whatever becomes of this transaction.
    ///
    /// # Errors
    /// `SequenceLimit` at its end; those of writing the log.
    pub fn next_value(&self, sequence: &Table) -> Result<i64> {
        let definition = definition(sequence)?;
        let db = &self.0.db;
        let live = db.inner().sequences.of(definition.values);
        let mut has_waited = false;
        let (mut live, state) = loop {
            let mut locked = live.lock();
            let state = db.sequence_state(definition, &mut locked)?;
            if has_waited || !state.is_to_be_logged() {
                break (locked, state);
            }
            drop(locked);
            db.throttle(self)?;
            has_waited = true;
        };
        let next = match state.called {
            false => state.last,
            true => definition.after(state.last).ok_or_else(|| at_end(sequence, definition))?,
        };
        let mut ahead = state.ahead;
        if state.is_to_be_logged() {
            let now_us = db.inner().vfs.wall_clock_us();
            // (Of another definition, or from its beginning, nothing was given out yet.)
            let goes_on = state.called && live.stride == Some(definition.stride());
            let values = if goes_on { live.values_to_log(0, now_us) } else { LOGGED_AHEAD };
            let (furthest, count) = definition.further(next, values);
            ahead = count;
            live.end = db.log_sequence(definition.values, furthest, true)?;
            live.early = None;
            live.newest = Some(Newest { at_us: now_us, values, ahead });
        } else {
            ahead -= 1;
            if let Some(early) = live.early.take_if(|early| ahead < early.values) {
                live.end = early.end;
            }
        }
        live.state = Some(SequenceState { last: next, called: true, ahead });
        live.stride = Some(definition.stride());
        self.0.needs_durable(live.end);
        // Where there is little room for log, it is written when it has to be, by who has waited for it.
        if live.is_to_be_early(ahead) && db.has_log_room() {
            let now_us = db.inner().vfs.wall_clock_us();
            let values = live.values_to_log(ahead, now_us);
            let (logged, left) = definition.further(next, ahead);
            let (furthest, count) = definition.further(logged, values);
            // Who cannot write it has its value all the same, and the next one tries again.
            if left == ahead
                && count > 0
                && let Ok(end) = db.log_sequence(definition.values, furthest, true)
            {
                live.early = Some(Early { values: count, end });
                let ahead = ahead + count;
                live.newest = Some(Newest { at_us: now_us, values, ahead });
                live.state = Some(SequenceState { last: next, called: true, ahead });
            }
        }
        Ok(next)
    }

    /// Sets a sequence to go on behind `last` (or with it, if it is not `called`), whatever becomes of this transaction.
    ///
    /// # Errors
    /// `NumericOutOfRange`; those of writing the log.
    pub fn set_value(&self, sequence: &Table, last: i64, called: bool) -> Result<()> {
        let definition = definition(sequence)?;
        if !(definition.min..=definition.max).contains(&last) {
            return Err(Error::new(
                ErrorKind::NumericOutOfRange,
                format!(
                    "setval: value {last} is out of bounds for sequence \"{}\" ({}..{})",
                    sequence.name, definition.min, definition.max
                ),
            ));
        }
        let db = &self.0.db;
        db.throttle(self)?;
        let live = db.inner().sequences.of(definition.values);
        let mut live = live.lock();
        live.end = db.log_sequence(definition.values, last, called)?;
        live.state = Some(SequenceState { last, called, ahead: 0 });
        (live.stride, live.early, live.newest) = (None, None, None);
        self.0.needs_durable(live.end);
        Ok(())
    }

    /// Where a sequence is.
    pub fn sequence_state(&self, sequence: &Table) -> Result<SequenceState> {
        let definition = definition(sequence)?;
        let live = self.0.db.inner().sequences.of(definition.values);
        let mut live = live.lock();
        self.0.db.sequence_state(definition, &mut live)
    }

    /// The sequence of that name.
    pub fn sequence_named(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.entry(schema, name)?.filter(|entry| entry.sequence.is_some()))
    }

    /// The sequence with that id.
    pub fn sequence_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        Ok(self.entry_by_id(id)?.filter(|entry| entry.sequence.is_some()))
    }

    /// All sequences, by schema and name.
    pub fn sequences(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries()?;
        all.retain(|entry| entry.sequence.is_some());
        Ok(all)
    }
}

fn definition(sequence: &Table) -> Result<&Sequence> {
    sequence.sequence.as_deref().ok_or_else(|| Error::internal(format!("\"{}\" is not a sequence", sequence.name)))
}

fn at_end(sequence: &Table, definition: &Sequence) -> Error {
    let (word, bound) =
        if definition.increment > 0 { ("maximum", definition.max) } else { ("minimum", definition.min) };
    let text = format!("nextval: reached {word} value of sequence \"{}\" ({bound})", sequence.name);
    Error::new(ErrorKind::SequenceLimit, text)
}

/// Making, changing and dropping them.
impl Transaction {
    /// Makes a sequence. `values` of the definition is filled in.
    ///
    /// # Errors
    /// `DuplicateTable`, `LimitExceeded`.
    pub fn create_sequence(&self, schema: &str, name: &str, sequence: Sequence) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        let id = self.next_object()?;
        if let Attempt::Wait(wait) = self.claim_name(schema, name, id, false)? {
            return Ok(Attempt::Wait(wait));
        }
        let parts = crate::definition::Definition {
            id,
            database: self.database(),
            schema: schema.to_owned(),
            name: name.to_owned(),
            sequence: Some(Box::new(Sequence { values: self.unused_values()?, ..sequence })),
            ..crate::definition::Definition::without_rows()
        };
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Gives a sequence another definition; `anew`: its values begin as that says, not where they are.
    ///
    /// # Errors
    /// Those of [`Transaction::lock_for_change`].
    pub fn replace_sequence(&self, old: &Arc<Table>, to: Sequence, anew: bool) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Attempt::Wait(wait) = self.lock_exclusive(old)? {
            return Ok(Attempt::Wait(wait));
        }
        let mut parts = crate::definition::Definition::of(old);
        let values = if anew { self.unused_values()? } else { definition(old)?.values };
        parts.sequence = Some(Box::new(Sequence { values, ..to }));
        parts.generation += 1;
        self.store_definition(&parts, Some(old)).map(Attempt::Done)
    }

    /// A number for values that has none. (Those of a definition that was never committed stay behind, and a crash forgets
    /// which numbers were given.)
    fn unused_values(&self) -> Result<u32> {
        let db = &self.0.db;
        loop {
            let number = self.next_object()?;
            if !db.plain_view().read_value(db.inner().catalog.tree, &values_key(number), &mut Vec::new())? {
                return Ok(number);
            }
        }
    }

    /// Gives a sequence another name.
    pub fn rename_sequence(&self, sequence: &Arc<Table>, name: &str) -> Result<Attempt<Arc<Table>>> {
        self.rename_view(sequence, name)
    }

    /// Drops a sequence. That no column needs it is the caller's care.
    pub fn drop_sequence(&self, sequence: &Arc<Table>) -> Result<Attempt<()>> {
        self.drop_view(sequence)
    }

    /// Says which sequences go with the columns of a table.
    pub fn set_owned(&self, table: &Arc<Table>, owned: Vec<OwnedSequence>) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Attempt::Wait(wait) = self.lock_exclusive(table)? {
            return Ok(Attempt::Wait(wait));
        }
        let mut parts = crate::definition::Definition::of(table);
        parts.owned = owned;
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }
}
