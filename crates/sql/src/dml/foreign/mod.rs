//! FOREIGN KEY constraints, and DEFERRABLE UNIQUE ones: what a write does about them.
//!
//! The engine stores a constraint in the definition of the referring table (the *child*) and gives it no
//! meaning; this module does. Two transactions that touch both ends at the same time meet because each
//! writes first and then reads the newest state of the other end (the engine's `reference.rs`).
//!
//! | file | concept |
//! |---|---|
//! | `mod.rs` | a constraint, ready to be looked after; which of them concern a statement |
//! | `value.rs` | values of the one side as values of the other |
//! | `enforce.rs` | looking after each row, and again at the end of the statement |
//! | `action.rs` | CASCADE, SET NULL, SET DEFAULT |
//! | `unique.rs` | UNIQUE constraints that are DEFERRABLE |
//! | `deferred.rs` | what waits for the end of the transaction; SET CONSTRAINTS |
//! | `definition.rs` | from syntax to the definition; what depends on a key |
//!
//! # When a key is checked
//! As in PostgreSQL, a constraint is judged at the end of the statement, not row by row:
//!
//! 1. Right after each row is written, one look-up that never waits tells whether the referenced key
//!    is there (child written) or whether rows still refer to the old key (parent written). What is
//!    certainly fine needs no further check; the rest is queued by its key.
//! 2. At the end of the statement the referential actions (CASCADE, SET NULL, SET DEFAULT) run over the
//!    queue. The rows that they write are checked as in step 1, into the same queue, so actions never
//!    recurse.
//! 3. What is still queued is checked again. It may have to wait for transactions that are about to
//!    make it valid; then it passes, fails with `23503`, or, if the constraint is deferred, goes to
//!    the queue of the transaction.
//!
//! A key that passed once needs no second check: whoever invalidates it later checks it himself, and
//! a transaction undoes its own writes in the reverse order of writing them.
//!
//! # Definitions
//! A statement locks the tables at the other ends of its constraints with ROW SHARE, and the tables that
//! it writes to as usual. With the lock it knows their newest definitions. Adding or dropping a
//! constraint gives both tables a new generation, so no statement writes without knowing of it.

mod action;
mod deferred;
mod enforce;
mod unique;
pub(crate) mod value;

use std::sync::Arc;

use resurgam_engine::{
    ColumnType, Datum, DatumRef, ErrorKind, ForeignKey, ReferentialAction, RowBuf, Search, Table, Transaction,
};
use resurgam_numeric::key as numeric_key;

use crate::exec::bridge::shown_whole;
use crate::pg::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

pub(crate) use deferred::{Deferred, Modes};
pub(crate) use enforce::{Enforcer, Help};
pub(crate) use unique::Unique;

/// A constraint with both its tables.
#[derive(Debug)]
pub(crate) struct Reference {
    pub child: Arc<Table>,
    pub parent: Arc<Table>,
    pub foreign: ForeignKey,
    /// Position of the referenced key among the parent's indexes; `None`: its primary key.
    pub index: Option<usize>,
    /// The parent's columns that the constraint's refer to, in the same order.
    pub referenced: Vec<usize>,
    /// How rows that refer to a key are found.
    pub search: Search,
    /// The child's columns of which a change must look for the key again, besides the
    /// constraint's own; see the engine's `reference.rs`.
    pub path: Vec<usize>,
}

/// What a child's row refers to.
pub(crate) enum Target {
    /// Nothing: there are NULLs.
    None,
    /// Some of the columns are NULL and some are not, with MATCH FULL.
    Mixed,
    /// This key, encoded as the parent's index has it.
    Key(Vec<u8>),
    /// What no key of the parent can be.
    Nowhere,
}

/// Which end of a constraint a violation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Child,
    Parent,
}

impl Reference {
    pub(crate) fn new(child: &Arc<Table>, parent: &Arc<Table>, foreign: &ForeignKey) -> Result<Self, SqlError> {
        let Some((index, referenced)) = foreign.referenced(parent) else {
            return Err(SqlError::internal(format!("foreign key \"{}\" refers to no key", foreign.name)));
        };
        let search = Search::new(child, &foreign.columns);
        let path = search.path(child);
        Ok(Self {
            child: Arc::clone(child),
            parent: Arc::clone(parent),
            foreign: foreign.clone(),
            index,
            referenced,
            search,
            path,
        })
    }

    /// Encodes a key of the parent from values in the order of the constraint's columns, of the
    /// parent's types. `None`: too long to be one.
    fn encode(&self, values: &[DatumRef<'_>]) -> Result<Option<Vec<u8>>, SqlError> {
        let mut ordered = vec![DatumRef::Null; values.len()];
        for (value, at) in values.iter().zip(&self.foreign.key) {
            if let Some(slot) = ordered.get_mut(*at) {
                *slot = *value;
            }
        }
        let mut key = Vec::with_capacity(16);
        let encoded = match self.index {
            None => self.parent.encode_key(&ordered, &mut key),
            Some(at) => self.parent.encode_index_key(at, &ordered, &mut key),
        };
        match encoded {
            Ok(()) => Ok(Some(key)),
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What a row of the child refers to. Large values are read.
    pub(crate) fn target(&self, txn: &Transaction, row: &[DatumRef<'_>]) -> Result<Target, SqlError> {
        let mut values: Vec<Datum> = Vec::with_capacity(self.foreign.columns.len());
        let mut nulls = 0;
        for (&column, &to) in self.foreign.columns.iter().zip(&self.referenced) {
            let given = row.get(column).copied().unwrap_or(DatumRef::Null);
            if given.is_null() {
                nulls += 1;
                continue;
            }
            let whole = whole(txn, given)?;
            match value::convert(whole.as_ref(), &self.child.columns[column].ty, &self.parent.columns[to].ty) {
                Some(value) => values.push(value),
                None => return Ok(Target::Nowhere),
            }
        }
        if nulls > 0 {
            let mixed = self.foreign.match_full && nulls < self.foreign.columns.len();
            return Ok(if mixed { Target::Mixed } else { Target::None });
        }
        let refs: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
        Ok(self.encode(&refs)?.map_or(Target::Nowhere, Target::Key))
    }

    /// The key that a row of the parent has; `None`: it has NULLs.
    pub(crate) fn key_of(&self, txn: &Transaction, row: &[DatumRef<'_>]) -> Result<Option<Vec<u8>>, SqlError> {
        let mut values: Vec<Datum> = Vec::with_capacity(self.referenced.len());
        for &column in &self.referenced {
            let given = row.get(column).copied().unwrap_or(DatumRef::Null);
            if given.is_null() {
                return Ok(None);
            }
            values.push(whole(txn, given)?);
        }
        let refs: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
        self.encode(&refs)
    }

    /// A key's values in the order of the constraint's columns.
    fn values(&self, key: &[u8]) -> Result<Vec<Datum>, SqlError> {
        let mut decoded = self.parent.decode_key(self.index, key)?;
        let columns = self.index.map_or(&self.parent.primary_key, |index| &self.parent.indexes[index].columns);
        for (datum, column) in decoded.iter_mut().zip(columns) {
            // A key says nothing of how many digits a numeric shows: those that it has.
            if let Datum::Bytes(encoded) = datum
                && matches!(self.parent.columns[*column].ty, ColumnType::VarNumeric(_))
            {
                let value = numeric_key::read_whole(numeric_key::key_of(encoded)).map_err(numeric_error)?;
                *encoded = value.encoded();
            }
        }
        Ok(self.foreign.key.iter().map(|at| decoded.get(*at).cloned().unwrap_or(Datum::Null)).collect())
    }

    /// A key's values as the child's columns have them; `None`: they cannot.
    pub(crate) fn child_values(&self, key: &[u8]) -> Result<Option<Vec<Datum>>, SqlError> {
        let values = self.values(key)?;
        let columns = self.foreign.columns.iter().zip(&self.referenced);
        Ok(columns
            .zip(&values)
            .map(|((&to, &from), value)| {
                value::convert(value.as_ref(), &self.parent.columns[from].ty, &self.child.columns[to].ty)
            })
            .collect())
    }

    /// `(a, b)=(1, 2)` of the child's columns or the parent's.
    fn key_text(&self, side: Side, key: &[u8]) -> Result<String, SqlError> {
        let (table, columns) = match side {
            Side::Child => (&self.child, &self.foreign.columns),
            Side::Parent => (&self.parent, &self.referenced),
        };
        let names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name.as_str()).collect();
        let of_child = if side == Side::Child { self.child_values(key)? } else { None };
        let (typed, values) = match of_child {
            Some(values) => ((&self.child, &self.foreign.columns), values),
            None => ((&self.parent, &self.referenced), self.values(key)?),
        };
        let texts: Vec<String> = values
            .iter()
            .zip(typed.1)
            .map(|(value, at)| shown_whole(&value.as_ref(), &typed.0.columns[*at].ty))
            .collect();
        Ok(format!("({})=({})", names.join(", "), texts.join(", ")))
    }

    fn error(&self, message: String, detail: String) -> SqlError {
        let mut error = SqlError::new("23503", message).with_detail(detail);
        error.schema = Some(self.child.schema.clone());
        error.table = Some(self.child.name.clone());
        error.constraint = Some(self.foreign.name.clone());
        error
    }

    fn child_message(&self) -> String {
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.child.name, self.foreign.name
        )
    }

    /// The error of a key that is not there, or that is still referred to.
    #[cold]
    pub(crate) fn violated(&self, side: Side, key: &[u8]) -> SqlError {
        let key = match self.key_text(side, key) {
            Ok(key) => key,
            Err(error) => return error,
        };
        match side {
            Side::Child => {
                self.error(self.child_message(), format!("Key {key} is not present in table \"{}\".", self.parent.name))
            }
            Side::Parent => self.error(
                format!(
                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                    self.parent.name, self.foreign.name, self.child.name
                ),
                format!("Key {key} is still referenced from table \"{}\".", self.child.name),
            ),
        }
    }

    /// The error of a row that refers to what cannot be a key.
    #[cold]
    pub(crate) fn nowhere(&self, row: &[DatumRef<'_>]) -> SqlError {
        let columns = &self.foreign.columns;
        let names: Vec<&str> = columns.iter().map(|at| self.child.columns[*at].name.as_str()).collect();
        let texts: Vec<String> = columns
            .iter()
            .map(|at| shown_whole(row.get(*at).unwrap_or(&DatumRef::Null), &self.child.columns[*at].ty))
            .collect();
        let key = format!("({})=({})", names.join(", "), texts.join(", "));
        self.error(self.child_message(), format!("Key {key} is not present in table \"{}\".", self.parent.name))
    }

    /// The error of a row that is half NULL, with MATCH FULL.
    #[cold]
    pub(crate) fn mixed(&self) -> SqlError {
        self.error(self.child_message(), "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned())
    }
}

/// A value, read if it is a large one.
pub(crate) fn whole(txn: &Transaction, datum: DatumRef<'_>) -> Result<Datum, SqlError> {
    let DatumRef::External(reference) = datum else { return Ok(datum.to_owned()) };
    let bytes = txn.read_large(reference)?;
    if !reference.is_text {
        return Ok(Datum::Bytes(bytes));
    }
    let text = String::from_utf8(bytes).map_err(|_| resurgam_base::Error::corrupt("a large text is not UTF-8"))?;
    Ok(Datum::Text(text))
}

/// All columns of a stored row.
pub(crate) fn columns_of<'r>(table: &'r Table, row: &'r RowBuf) -> Result<Vec<DatumRef<'r>>, SqlError> {
    Ok((0..table.columns.len()).map(|at| table.column(row.raw(), at)).collect::<Result<_, _>>()?)
}

/// The constraints that a statement on one table has to look after.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// Of the table itself: its new rows must find what they refer to.
    pub parents: Vec<Arc<Reference>>,
    /// That refer to the table: of its old rows.
    pub children: Vec<Arc<Reference>>,
    /// DEFERRABLE UNIQUE constraints of the table: of its new rows.
    pub uniques: Vec<Arc<Unique>>,
}

impl References {
    /// All those of `table`.
    pub(crate) fn of(txn: &Transaction, table: &Arc<Table>) -> Result<Self, SqlError> {
        let mut all = Self { uniques: Unique::of(table).collect(), ..Self::default() };
        for foreign in &table.foreign_keys {
            let parent = if foreign.parent == table.id {
                Arc::clone(table)
            } else {
                txn.table_by_id(foreign.parent)?
                    .ok_or_else(|| SqlError::internal(format!("foreign key \"{}\" has no table", foreign.name)))?
            };
            all.parents.push(Arc::new(Reference::new(table, &parent, foreign)?));
        }
        for child in txn.referrers(table.id)? {
            let child = if child.id == table.id { Arc::clone(table) } else { child };
            for foreign in child.foreign_keys.iter().filter(|foreign| foreign.parent == table.id) {
                all.children.push(Arc::new(Reference::new(&child, table, foreign)?));
            }
        }
        Ok(all)
    }

    /// Those that an INSERT concerns; `updated`: what its ON CONFLICT DO UPDATE assigns.
    pub(crate) fn of_insert(txn: &Transaction, table: &Arc<Table>, updated: &[usize]) -> Result<Self, SqlError> {
        let mut all = Self::of(txn, table)?;
        all.children.retain(|reference| reference.referenced.iter().any(|at| updated.contains(at)));
        Ok(all)
    }

    /// Those that an UPDATE of these columns concerns.
    pub(crate) fn of_update(txn: &Transaction, table: &Arc<Table>, assigned: &[usize]) -> Result<Self, SqlError> {
        let mut all = Self::of_insert(txn, table, assigned)?;
        all.parents.retain(|reference| {
            reference.foreign.columns.iter().chain(&reference.path).any(|at| assigned.contains(at))
        });
        all.uniques.retain(|unique| unique.concerns(|at| assigned.contains(&at)));
        Ok(all)
    }

    /// Those that a DELETE concerns.
    pub(crate) fn of_delete(txn: &Transaction, table: &Arc<Table>) -> Result<Self, SqlError> {
        let mut all = Self::of(txn, table)?;
        all.parents.clear();
        all.uniques.clear();
        Ok(all)
    }

    /// Those of another part of the statement as well.
    pub(crate) fn add(&mut self, other: Self) {
        let is_same = |a: &Reference, b: &Reference| a.child.id == b.child.id && a.foreign.name == b.foreign.name;
        let add = |all: &mut Vec<Arc<Reference>>, more: Vec<Arc<Reference>>| {
            for one in more {
                if !all.iter().any(|known| is_same(known, &one)) {
                    all.push(one);
                }
            }
        };
        add(&mut self.parents, other.parents);
        add(&mut self.children, other.children);
        for unique in other.uniques {
            if !self.uniques.iter().any(|known| known.table.id == unique.table.id && known.id() == unique.id()) {
                self.uniques.push(unique);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.children.is_empty() && self.uniques.is_empty()
    }

    /// Whether rows of other tables may be changed.
    pub(crate) fn are_acting(&self) -> bool {
        let mut children = self.children.iter().map(|reference| &reference.foreign);
        children.any(|foreign| is_acting(foreign.on_delete) || is_acting(foreign.on_update))
    }
}

/// Whether an action changes rows of the child.
fn is_acting(action: ReferentialAction) -> bool {
    !matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict)
}
