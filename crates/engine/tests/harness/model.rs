//! The reference: tables as ordered maps, and which states a crash may leave.
//!
//! A row is known by an integer of the harness's own (its *number*); the first column of
//! every table is made from it, so a row can be found by content whatever its storage key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use resurgam_engine::{ColumnOrder, ColumnType, Datum, TxId};

/// Columns that every table has: k, cnt, u, n, pay. Added ones come after.
pub const FIXED_COLUMNS: usize = 5;
pub const U: usize = 2;
pub const N: usize = 3;

/// What the first column is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// int8
    Int,
    /// long text, so that inner nodes split as well
    Text,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IndexModel {
    pub name: String,
    pub columns: Vec<usize>,
    pub orders: Vec<ColumnOrder>,
    pub unique: bool,
    /// Positions of columns that it includes.
    pub included: Vec<usize>,
}

/// A CHECK constraint; columns by name.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckModel {
    pub name: String,
    pub sql: String,
    pub columns: BTreeSet<String>,
    pub validated: bool,
}

/// A foreign key of a table to itself, from the columns of one of its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignModel {
    pub name: String,
    /// The unique index that is referred to; none = the primary key.
    pub key: Option<String>,
    pub columns: Vec<usize>,
    pub validated: bool,
}

pub type Row = Vec<Datum>;

#[derive(Clone, Debug, PartialEq)]
pub struct TableModel {
    pub kind: KeyKind,
    /// Clustered on the first column; else on a hidden row id.
    pub has_key: bool,
    pub columns: Vec<(String, ColumnType)>,
    pub indexes: Vec<IndexModel>,
    /// Columns that are NOT NULL, and those that have a default, by name.
    pub not_null: BTreeSet<String>,
    pub defaults: BTreeMap<String, String>,
    pub checks: Vec<CheckModel>,
    pub foreign: Vec<ForeignModel>,
    /// Rows by number. Two equal pointers are the same version.
    pub rows: BTreeMap<i64, Arc<Row>>,
    /// Changes of the definition so far; not part of what must be equal.
    pub generation: u64,
}

impl TableModel {
    pub fn unique_u(&self) -> bool {
        self.indexes.iter().any(|i| i.unique && i.columns == [U])
    }
    pub fn is_not_null(&self, column: usize) -> bool {
        self.not_null.contains(&self.columns[column].0)
    }
    /// Whether a row has a NULL where none may be.
    pub fn lacks_a_value(&self, row: &Row) -> bool {
        row.iter().enumerate().any(|(at, datum)| datum.is_null() && at < self.columns.len() && self.is_not_null(at))
    }
    /// Whether a foreign key refers to this index, or to the primary key.
    pub fn is_referenced(&self, index: Option<&str>) -> bool {
        self.foreign.iter().any(|foreign| foreign.key.as_deref() == index)
    }
    /// The live row with this value in its unique column, other than `except`.
    pub fn holder_of(&self, u: &Datum, except: Option<i64>) -> Option<i64> {
        if u.is_null() || !self.unique_u() {
            return None;
        }
        self.rows.iter().find(|(n, r)| Some(**n) != except && r[U] == *u).map(|(n, _)| *n)
    }
}

/// The first column of the row with this number.
pub fn key_datum(kind: KeyKind, number: i64) -> Datum {
    match kind {
        KeyKind::Int => Datum::Int8(number),
        KeyKind::Text => Datum::Text(format!("{number:06}{}", "k".repeat((number as usize * 37) % 380))),
    }
}

/// The number of a row by its first column.
pub fn number_of(key: &Datum) -> Option<i64> {
    match key {
        Datum::Int8(v) => Some(*v),
        Datum::Text(t) => t.get(..6)?.parse().ok(),
        _ => None,
    }
}

/// A view over the first column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewModel {
    /// Id of the table.
    pub base: u32,
    pub sql: String,
    /// The table's columns as the view knows them: their names when it was made, and where they are.
    pub columns: Vec<(String, usize)>,
}

/// An object that is no relation.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectModel {
    pub id: u32,
    /// Ids of those that it needs.
    pub needs: Vec<u32>,
    pub body: Vec<u8>,
}

/// All tables at one moment, and the transactions that are in doubt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub tables: BTreeMap<String, Arc<TableModel>>,
    pub views: BTreeMap<String, Arc<ViewModel>>,
    /// By kind and name.
    pub objects: BTreeMap<(u8, String), Arc<ObjectModel>>,
    /// By identifier.
    pub prepared: BTreeMap<String, Arc<InDoubt>>,
}

/// A prepared transaction: what it changed, and what others may have to wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct InDoubt {
    /// None: it had written nothing, and whether it was prepared was not known.
    pub id: TxId,
    pub own: Overlay,
    pub touched: BTreeSet<(String, i64)>,
    pub touched_values: BTreeSet<(String, String)>,
    /// Rows that it changed and took back: once it commits they are newer than snapshots from before, and unchanged.
    pub taken_back: BTreeSet<(String, i64)>,
    pub locked: BTreeSet<String>,
    pub wanted: BTreeSet<String>,
    pub changed_definitions: bool,
}

/// A transaction's own changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Tables whose definition it changed, dropped or made: it has them alone.
    pub tables: BTreeMap<String, Option<Arc<TableModel>>>,
    /// Rows of other tables.
    pub rows: BTreeMap<(String, i64), Option<Arc<Row>>>,
    /// Views that it changed, dropped or made.
    pub views: BTreeMap<String, Option<Arc<ViewModel>>>,
    /// Objects likewise.
    pub objects: BTreeMap<(u8, String), Option<Arc<ObjectModel>>>,
}

impl Overlay {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.rows.is_empty() && self.views.is_empty() && self.objects.is_empty()
    }
    /// `base` with these changes.
    pub fn over(&self, base: &State) -> State {
        let mut state = base.clone();
        for ((table, number), row) in &self.rows {
            if let Some(table) = state.tables.get_mut(table) {
                let table = Arc::make_mut(table);
                match row {
                    Some(row) => table.rows.insert(*number, Arc::clone(row)),
                    None => table.rows.remove(number),
                };
            }
        }
        for (name, table) in &self.tables {
            match table {
                Some(table) => state.tables.insert(name.clone(), Arc::clone(table)),
                None => state.tables.remove(name),
            };
        }
        for (name, view) in &self.views {
            match view {
                Some(view) => state.views.insert(name.clone(), Arc::clone(view)),
                None => state.views.remove(name),
            };
        }
        for (key, object) in &self.objects {
            match object {
                Some(object) => state.objects.insert(key.clone(), Arc::clone(object)),
                None => state.objects.remove(key),
            };
        }
        state
    }
    /// One table as seen over `base`.
    pub fn table(&self, base: &State, name: &str) -> Option<Arc<TableModel>> {
        if let Some(own) = self.tables.get(name) {
            return own.clone();
        }
        let base = base.tables.get(name)?;
        let low = (name.to_owned(), i64::MIN);
        let high = (name.to_owned(), i64::MAX);
        if self.rows.range(low.clone()..=high.clone()).next().is_none() {
            return Some(Arc::clone(base));
        }
        let mut table = TableModel::clone(base);
        for ((_, number), row) in self.rows.range(low..=high) {
            match row {
                Some(row) => table.rows.insert(*number, Arc::clone(row)),
                None => table.rows.remove(number),
            };
        }
        Some(Arc::new(table))
    }
}

/// The committed state, and what a crash now may leave.
#[derive(Clone, Debug)]
pub struct Model {
    /// What a new snapshot sees.
    pub committed: State,
    /// States that a crash may leave, oldest first: the last one that is known durable,
    /// and each later commit in log order.
    pub candidates: Vec<State>,
}

impl Model {
    pub fn new() -> Self {
        Self { committed: State::default(), candidates: vec![State::default()] }
    }
    /// A commit that was acknowledged as durable: everything before it is as well.
    pub fn durable(&mut self) {
        self.candidates = vec![self.committed.clone()];
    }
    /// A commit whose durability was not waited for.
    pub fn not_waited_for(&mut self) {
        self.candidates.push(self.committed.clone());
    }
    /// A change of the state whose acknowledgement failed: it may be there after a crash.
    pub fn uncertain(&mut self, change: impl FnOnce(&mut State)) {
        let mut last = self.candidates.last().cloned().unwrap_or_default();
        change(&mut last);
        self.candidates.push(last);
    }
    /// A commit that failed: it may be there after a crash.
    pub fn in_doubt(&mut self, overlay: &Overlay) {
        self.uncertain(|state| *state = overlay.over(state));
    }
    /// A change of the state that was acknowledged as durable.
    pub fn certain(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.committed);
        self.durable();
    }
}
