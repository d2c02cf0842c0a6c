//! Looking after the rows that a statement writes: after each row, and at the end.
//!
//! What has to be looked at again is kept as keys, each once for a constraint and a side, in at
//! most [`QUEUE_BYTES_MAX`] bytes for a statement and as many for what a transaction defers;
//! beyond that the statement ends with `53200`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_engine::{
    ColumnType, Datum, DatumRef, Isolation, Presence, ReferentialAction, RowBuf, StatementKind, Table, Transaction,
};

use super::action::{Act, Work};
use super::unique::OwnKey;
use super::{Deferred, Reference, References, Side, Target, Unique, columns_of, is_acting, whole};
use crate::exec::wait::{Waiting, settle};
use crate::pg::datetime::Zone;
use crate::plan::planner::Names;
use crate::wire::SqlError;

/// Most bytes of keys that wait to be looked at again.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;
/// What an entry takes beside its key, about.
const ENTRY_BYTES: usize = 96;

/// Keys that are looked for before others get their turn.
const TAKEN_PER_TURN: usize = 256;

/// A key that has to be looked at again.
pub(super) struct Check {
    pub of: Of,
    pub key: Vec<u8>,
}

/// Of which constraint.
pub(super) enum Of {
    Reference {
        reference: Arc<Reference>,
        side: Side,
        /// That the key is there again is no excuse.
        restrict: bool,
    },
    Unique(Arc<Unique>),
}

/// A constraint: its table, its id there, and of a foreign key the side.
pub(super) type Id = (u32, u32, Option<Side>);

impl Of {
    pub(super) fn id(&self) -> Id {
        match self {
            Self::Reference { reference, side, .. } => (reference.child.id, reference.foreign.id, Some(*side)),
            Self::Unique(unique) => (unique.table.id, unique.id(), None),
        }
    }

    /// The table at the other end.
    pub(super) fn other(&self) -> u32 {
        match self {
            Self::Reference { reference, .. } => reference.parent.id,
            Self::Unique(unique) => unique.table.id,
        }
    }
}

/// A key of a row that is not in yet.
enum Taken {
    /// Of the constraint of that number.
    Parent(usize, Vec<u8>),
    Unique(usize, OwnKey),
    /// It can refer to nothing.
    Refused(SqlError),
}

/// Of each key that must be the only one: how many rows have it among those that were taken, from it on.
fn left_of_each(all: &[Taken]) -> Vec<usize> {
    let mut left = vec![1; all.len()];
    let mut counts: HashMap<(usize, &[u8]), usize> = HashMap::new();
    for (number, taken) in all.iter().enumerate().rev() {
        if let Taken::Unique(at, key) = taken {
            let count = counts.entry((*at, key.encoded())).or_default();
            *count += 1;
            left[number] = *count;
        }
    }
    left
}

/// What enforcing may have to do: wait, and plan what an action needs.
pub(crate) struct Help<'a> {
    pub names: Names<'a>,
    pub waiting: Waiting<'a>,
    pub zone: Zone,
}

/// Enforces the constraints that concern one statement.
pub(crate) struct Enforcer {
    pub(super) txn: Transaction,
    references: Arc<References>,
    deferred: Arc<Mutex<Deferred>>,
    pub(super) acts: VecDeque<Act>,
    checks: Vec<Check>,
    known: HashSet<(Id, Vec<u8>)>,
    bytes: usize,
    /// Of each constraint of the table, the key that an inserted row found last: it need not be
    /// looked for again. Whoever takes it away looks for that row, which stays until the end of the
    /// statement.
    last: Vec<Vec<u8>>,
    /// What is to be looked for of rows that are inserted together, when they are in.
    taken: Vec<Taken>,
    /// Of each constraint of the table, the key among those that was taken last.
    newest: Vec<Vec<u8>>,
    /// The first row that can refer to nothing, told when as many checks were made.
    refused: Option<(usize, SqlError)>,
    /// What is known of tables that actions write to.
    pub(super) work: HashMap<u32, Arc<Work>>,
}

/// `53200` when too much would be kept.
pub(super) fn bounded(bytes: usize) -> Result<(), SqlError> {
    if bytes <= QUEUE_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new("53200", "out of memory for constraints that are not yet satisfied").with_detail(format!(
        "The keys that have to be checked at the end take more than {} MB.",
        QUEUE_BYTES_MAX >> 20
    )))
}

pub(super) const fn entry_bytes(key: &[u8]) -> usize {
    2 * key.len() + ENTRY_BYTES
}

impl Enforcer {
    /// For one statement, before it writes anything: locks the tables at the other ends.
    pub(crate) async fn begin(
        txn: &Transaction,
        references: &Arc<References>,
        deferred: &Arc<Mutex<Deferred>>,
        waiting: &Waiting<'_>,
    ) -> Result<Self, SqlError> {
        lock(txn, references, waiting).await?;
        Ok(Self {
            txn: txn.clone(),
            references: Arc::clone(references),
            deferred: Arc::clone(deferred),
            acts: VecDeque::new(),
            checks: Vec::new(),
            known: HashSet::new(),
            bytes: 0,
            last: vec![Vec::new(); references.parents.len()],
            taken: Vec::new(),
            newest: vec![Vec::new(); references.parents.len()],
            refused: None,
            work: HashMap::new(),
        })
    }

    /// Whether anything is left for [`Enforcer::finish`].
    pub(crate) fn is_done(&self) -> bool {
        self.acts.is_empty() && self.checks.is_empty() && self.refused.is_none()
    }

    /// A row was inserted.
    pub(crate) async fn inserted(&mut self, row: &[DatumRef<'_>], waiting: &Waiting<'_>) -> Result<(), SqlError> {
        let references = Arc::clone(&self.references);
        for (at, reference) in references.parents.iter().enumerate() {
            if let Some(key) = key_referred_to(&self.txn, reference, row)?
                && self.last[at] != key
            {
                if self.is_there(reference, &key)? {
                    self.last[at] = key;
                } else {
                    self.remember(reference, Side::Child, key, false)?;
                }
            }
        }
        for unique in &references.uniques {
            self.written(unique, row, waiting).await?;
        }
        Ok(())
    }

    /// A row is taken that will be inserted with others; [`Enforcer::settle_taken`] is called when they are in.
    pub(crate) fn taken(&mut self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        let references = Arc::clone(&self.references);
        for (at, reference) in references.parents.iter().enumerate() {
            match key_referred_to(&self.txn, reference, row) {
                Ok(Some(key)) if self.newest[at] != key => {
                    self.newest[at].clone_from(&key);
                    self.taken.push(Taken::Parent(at, key));
                }
                Ok(_) => {}
                Err(error) if error.sqlstate == "23503" => self.taken.push(Taken::Refused(error)),
                Err(error) => return Err(error),
            }
        }
        for (at, unique) in references.uniques.iter().enumerate() {
            if let Some(key) = unique.own_key(&self.txn, row)? {
                self.taken.push(Taken::Unique(at, key));
            }
        }
        Ok(())
    }

    /// The rows that were taken are in.
    pub(crate) async fn settle_taken(&mut self, waiting: &Waiting<'_>) -> Result<(), SqlError> {
        let references = Arc::clone(&self.references);
        let all = std::mem::take(&mut self.taken);
        let left = left_of_each(&all);
        for (number, taken) in all.into_iter().enumerate() {
            if number % TAKEN_PER_TURN == TAKEN_PER_TURN - 1 {
                pause(waiting).await?;
            }
            match taken {
                Taken::Parent(at, key) if self.last[at] == key => {}
                Taken::Parent(at, key) => {
                    let reference = &references.parents[at];
                    if self.is_there(reference, &key)? {
                        self.last[at] = key;
                    } else {
                        self.remember(reference, Side::Child, key, false)?;
                    }
                }
                Taken::Refused(error) => {
                    self.refused.get_or_insert((self.checks.len(), error));
                }
                Taken::Unique(at, key) => {
                    let unique = &references.uniques[at];
                    if let Some(key) = unique.collides_with(&self.txn, key, left[number], waiting).await? {
                        self.queue(Check { of: Of::Unique(Arc::clone(unique)), key })?;
                    }
                }
            }
        }
        self.newest.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// A row was written with a new key.
    async fn written(
        &mut self,
        unique: &Arc<Unique>,
        row: &[DatumRef<'_>],
        waiting: &Waiting<'_>,
    ) -> Result<(), SqlError> {
        match unique.collides(&self.txn, row, waiting).await? {
            Some(key) => self.queue(Check { of: Of::Unique(Arc::clone(unique)), key }),
            None => Ok(()),
        }
    }

    /// A row was deleted; `old` is what it was.
    pub(crate) async fn deleted(&mut self, old: &RowBuf, waiting: &Waiting<'_>) -> Result<(), SqlError> {
        let references = Arc::clone(&self.references);
        self.gone(&references, old, waiting).await
    }

    /// A row was updated.
    pub(crate) async fn updated(
        &mut self,
        old: &RowBuf,
        new: &[DatumRef<'_>],
        waiting: &Waiting<'_>,
    ) -> Result<(), SqlError> {
        let references = Arc::clone(&self.references);
        self.changed(&references, old, new, waiting).await
    }

    pub(super) async fn gone(
        &mut self,
        references: &References,
        old: &RowBuf,
        waiting: &Waiting<'_>,
    ) -> Result<(), SqlError> {
        for reference in &references.children {
            let key = reference.key_of(&self.txn, &columns_of(&reference.parent, old)?)?;
            if let Some(key) = key {
                self.left(reference, key, None, waiting).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn changed(
        &mut self,
        references: &References,
        old: &RowBuf,
        new: &[DatumRef<'_>],
        waiting: &Waiting<'_>,
    ) -> Result<(), SqlError> {
        for reference in &references.parents {
            let mut columns = reference.foreign.columns.iter().chain(&reference.path);
            if columns.any(|at| differs(&reference.child, old, new, *at))
                && let Some(key) = key_referred_to(&self.txn, reference, new)?
                && !self.is_there(reference, &key)?
            {
                self.remember(reference, Side::Child, key, false)?;
            }
        }
        for unique in &references.uniques {
            if unique.concerns(|at| differs(&unique.table, old, new, at)) {
                self.written(unique, new, waiting).await?;
            }
        }
        for reference in &references.children {
            if !reference.referenced.iter().any(|at| differs(&reference.parent, old, new, *at)) {
                continue;
            }
            let before = reference.key_of(&self.txn, &columns_of(&reference.parent, old)?)?;
            let after = reference.key_of(&self.txn, new)?;
            if let Some(key) = before
                && (Some(&key) != after.as_ref() || self.looks_other(reference, old, new)?)
            {
                let columns = reference.referenced.iter();
                let now = columns.map(|at| whole(&self.txn, new.get(*at).copied().unwrap_or(DatumRef::Null)));
                self.left(reference, key, Some(now.collect::<Result<_, _>>()?), waiting).await?;
            }
        }
        Ok(())
    }

    /// Whether a key that is the same as before shows other digits or letters (or a zero another sign), and what is done with
    /// rows that refer to it asks for that: as in PostgreSQL, to actions and RESTRICT it is another then.
    fn looks_other(&self, reference: &Reference, old: &RowBuf, new: &[DatumRef<'_>]) -> Result<bool, SqlError> {
        if reference.foreign.on_update == ReferentialAction::NoAction {
            return Ok(false);
        }
        let parent = &reference.parent;
        for at in &reference.referenced {
            let ty = parent.columns[*at].ty;
            if matches!(ty, ColumnType::VarNumeric(_) | ColumnType::Folded | ColumnType::Float4 | ColumnType::Float8)
                && differs(parent, old, new, *at)
            {
                let before = whole(&self.txn, parent.column(old.raw(), *at)?)?;
                let after = whole(&self.txn, new.get(*at).copied().unwrap_or(DatumRef::Null))?;
                let is_bytes = matches!(before, Datum::Bytes(_));
                if !is_bytes || before != after {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a key is there for certain.
    fn is_there(&self, reference: &Reference, key: &[u8]) -> Result<bool, SqlError> {
        Ok(self.txn.key_presence(&reference.parent, reference.index, key)? == Presence::Yes)
    }

    /// A key of the parent is gone, or (`new`) another one has taken its place.
    async fn left(
        &mut self,
        reference: &Arc<Reference>,
        key: Vec<u8>,
        new: Option<Vec<Datum>>,
        waiting: &Waiting<'_>,
    ) -> Result<(), SqlError> {
        if !self.may_be_referred_to(reference, &key, waiting).await? {
            return Ok(());
        }
        let foreign = &reference.foreign;
        let action = if new.is_some() { foreign.on_update } else { foreign.on_delete };
        if !is_acting(action) {
            return self.remember(reference, Side::Parent, key, action == ReferentialAction::Restrict);
        }
        let act = Act { reference: Arc::clone(reference), key, new };
        self.bytes += act.bytes();
        bounded(self.bytes)?;
        self.acts.push_back(act);
        Ok(())
    }

    /// Whether some row refers to a key, or may when others have ended.
    async fn may_be_referred_to(
        &self,
        reference: &Reference,
        key: &[u8],
        waiting: &Waiting<'_>,
    ) -> Result<bool, SqlError> {
        let Some(values) = reference.child_values(key)? else { return Ok(false) };
        let (child, columns) = (&reference.child, &reference.foreign.columns);
        let mut search = self.txn.referencing(child, &reference.search, columns, values)?;
        while !search.is_over() {
            match search.step()? {
                Some(row) if search.judge(&row)?.presence != Presence::No => return Ok(true),
                Some(_) => {}
                None => pause(waiting).await?,
            }
        }
        Ok(false)
    }

    pub(super) fn remember(
        &mut self,
        reference: &Arc<Reference>,
        side: Side,
        key: Vec<u8>,
        restrict: bool,
    ) -> Result<(), SqlError> {
        self.queue(Check { of: Of::Reference { reference: Arc::clone(reference), side, restrict }, key })
    }

    fn queue(&mut self, check: Check) -> Result<(), SqlError> {
        if !self.known.insert((check.of.id(), check.key.clone())) {
            return Ok(());
        }
        self.bytes += entry_bytes(&check.key);
        bounded(self.bytes)?;
        self.checks.push(check);
        Ok(())
    }

    /// The end of the statement: actions, then what was not fine right away.
    pub(crate) async fn finish(&mut self, help: &Help<'_>) -> Result<(), SqlError> {
        self.act_all(help).await?;
        self.check_all(help).await
    }

    /// The actions. Of several that are one statement those of all go before what any of them checks.
    pub(crate) async fn act_all(&mut self, help: &Help<'_>) -> Result<(), SqlError> {
        if !self.acts.is_empty() {
            // They may change rows that the statement has changed.
            self.txn.begin_actions()?;
        }
        while let Some(act) = self.acts.pop_front() {
            pause(&help.waiting).await?;
            self.act(&act, help).await?;
            self.bytes -= act.bytes();
        }
        Ok(())
    }

    /// What was not fine right away, after the actions.
    pub(crate) async fn check_all(&mut self, help: &Help<'_>) -> Result<(), SqlError> {
        self.known.clear();
        let mut refused = self.refused.take();
        for (number, check) in std::mem::take(&mut self.checks).into_iter().enumerate() {
            if let Some((_, error)) = refused.take_if(|(before, _)| *before == number) {
                return Err(error);
            }
            let is_deferred = self.deferred.lock().is_deferred(&check.of);
            if is_deferred {
                self.deferred.lock().push(&check)?;
            } else {
                run_check(&self.txn, &check, &help.waiting).await?;
            }
        }
        self.bytes = 0;
        refused.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// The key that a row of the child refers to, if any.
fn key_referred_to(
    txn: &Transaction,
    reference: &Reference,
    row: &[DatumRef<'_>],
) -> Result<Option<Vec<u8>>, SqlError> {
    match reference.target(txn, row)? {
        Target::None => Ok(None),
        Target::Mixed => Err(reference.mixed()),
        Target::Nowhere => Err(reference.nowhere(row)),
        Target::Key(key) => Ok(Some(key)),
    }
}

/// Locks the tables at the other ends for rows.
pub(super) async fn lock(txn: &Transaction, references: &References, waiting: &Waiting<'_>) -> Result<(), SqlError> {
    for reference in &references.parents {
        settle(waiting, || txn.lock_rows(&reference.parent)).await?;
    }
    for reference in &references.children {
        settle(waiting, || txn.lock_rows(&reference.child)).await?;
    }
    Ok(())
}

/// Between two pieces of a long search.
pub(super) async fn pause(waiting: &Waiting<'_>) -> Result<(), SqlError> {
    waiting.stop.check()?;
    tokio::task::yield_now().await;
    Ok(())
}

/// Judges one key, waiting for those who may settle it.
pub(super) async fn run_check(txn: &Transaction, check: &Check, waiting: &Waiting<'_>) -> Result<(), SqlError> {
    let key = &check.key;
    let (reference, side, restrict) = match &check.of {
        Of::Reference { reference, side, restrict } => (reference, *side, *restrict),
        Of::Unique(unique) => return unique.check(txn, key, waiting).await,
    };
    if !restrict {
        loop {
            match txn.key_presence(&reference.parent, reference.index, key)? {
                Presence::Yes => return Ok(()),
                Presence::No => break,
                Presence::Undecided(holder) => waiting.wait(txn.wait_for_writer(holder)?).await?,
            }
        }
    }
    let Some(values) = reference.child_values(key)? else { return Ok(()) };
    let mut search = txn.referencing(&reference.child, &reference.search, &reference.foreign.columns, values)?;
    while !search.is_over() {
        let Some(row) = search.step()? else {
            pause(waiting).await?;
            continue;
        };
        loop {
            let found = search.judge(&row)?;
            match found.presence {
                // A row that others have written is theirs to look after.
                _ if side == Side::Child && !found.own => break,
                Presence::No => break,
                Presence::Yes => return Err(refused(txn, reference, side, key)),
                Presence::Undecided(holder) => waiting.wait(txn.wait_for_writer(holder)?).await?,
            }
        }
    }
    Ok(())
}

/// The error of a key that does not hold.
#[cold]
fn refused(txn: &Transaction, reference: &Reference, side: Side, key: &[u8]) -> SqlError {
    if side == Side::Child && txn.isolation() == Isolation::RepeatableRead {
        // What the snapshot still sees someone else has taken away.
        match sees(txn, reference, key) {
            Ok(false) => {}
            Ok(true) => {
                return SqlError::new("40001", "could not serialize access due to concurrent update")
                    .with_hint("Retry the transaction.");
            }
            Err(error) => return error,
        }
    }
    reference.violated(side, key)
}

fn sees(txn: &Transaction, reference: &Reference, key: &[u8]) -> Result<bool, SqlError> {
    let view = txn.statement(StatementKind::Read)?;
    let mut row = RowBuf::default();
    Ok(match reference.index {
        None => view.get(&reference.parent, key, &mut row)?,
        Some(at) => view.get_by_index(&reference.parent, &reference.parent.indexes[at], key, &mut row)?,
    })
}

/// Whether a column may have another value than before; a large value that was written anew
/// counts as one.
fn differs(table: &Table, old: &RowBuf, new: &[DatumRef<'_>], at: usize) -> bool {
    match (table.column(old.raw(), at), new.get(at)) {
        (Ok(DatumRef::Float4(before)), Some(DatumRef::Float4(after))) => before.to_bits() != after.to_bits(),
        (Ok(DatumRef::Float8(before)), Some(DatumRef::Float8(after))) => before.to_bits() != after.to_bits(),
        (Ok(before), Some(after)) => before != *after,
        _ => true,
    }
}
