//! Table definitions, and how rows become keys and values.
//!
//! A table is a tree clustered on its primary key, or on a hidden row id. The key holds the
//! primary-key columns in order-preserving form, the value holds the rest (and key columns
//! of type bytea, whose key form cannot be borrowed from).
//!
//! An index is a tree. Of a unique index whose columns are all set the key is just those
//! columns, so that two transactions that insert the same key meet at one record; otherwise
//! the clustered key follows the columns. The value is the clustered key, or empty when the
//! key ends with it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use resurgam_base::{Error, ErrorKind, ObjectId, PageId, Result, limits};
use resurgam_btree::Tree;
use resurgam_page::codec::{Reader, put_counted};
use resurgam_page::key::{self, KeyColumn};
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum, DatumRef};

/// Newest version of the definition's encoding. A definition is written in the oldest one that
/// can say all of it.
const ENCODING: u8 = 3;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub ty: ColumnType,
    pub nullable: bool,
    /// The DEFAULT expression as SQL text; its meaning is the SQL layer's.
    pub default_sql: Option<String>,
    pub(crate) place: Place,
    /// What rows have in it that were stored before it was added; NULL if none.
    pub(crate) missing: Option<Datum>,
}

/// Where a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Position in the key.
    Key(u16),
    /// Position in the value.
    Value(u16),
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    pub id: u32,
    pub name: String,
    /// Positions in [`Table::columns`].
    pub columns: Vec<usize>,
    pub unique: bool,
    /// It implements a UNIQUE constraint of that name.
    pub constraint: bool,
    pub(crate) tree: Tree,
}

/// A CHECK constraint. Its meaning is the SQL layer's: row operations do not evaluate it.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub id: u32,
    pub name: String,
    /// The condition as SQL text.
    pub sql: String,
    /// Positions in [`Table::columns`] of the columns that it mentions.
    pub columns: Vec<usize>,
    /// Rows that were there before it are known to satisfy it.
    pub validated: bool,
}

/// What a foreign key does to the rows that refer to a key that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// They must be none at the end of the statement, or of the transaction.
    NoAction,
    /// They must be none at the end of the statement.
    Restrict,
    /// They go with it.
    Cascade,
    SetNull,
    SetDefault,
}

impl ReferentialAction {
    const ALL: [Self; 5] = [Self::NoAction, Self::Restrict, Self::Cascade, Self::SetNull, Self::SetDefault];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).unwrap_or(0) as u8
    }
    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A FOREIGN KEY constraint, in the definition of the table that refers. Row operations do not
/// enforce it: they leave that to their caller, with what `reference.rs` offers.
///
/// The referenced key is named by what does not change when either table's columns are dropped
/// or renamed: an index's id, and positions in that index.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    pub id: u32,
    pub name: String,
    /// Positions in [`Table::columns`].
    pub columns: Vec<usize>,
    /// The referenced table; perhaps its own.
    pub parent: u32,
    /// Id of that table's unique index; `None` is its primary key.
    pub index: Option<u32>,
    /// For each column the position in that key of the one that it refers to: a permutation.
    pub key: Vec<usize>,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
    /// MATCH FULL: either all columns are NULL or none.
    pub match_full: bool,
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub deferred: bool,
    /// Rows that were there before it are known to satisfy it.
    pub validated: bool,
}

impl ForeignKey {
    /// Position of the referenced index in `parent` (`None`: the primary key), and for each
    /// column of the constraint the column of `parent` that it refers to. `None`: `parent` has
    /// no such key.
    pub fn referenced(&self, parent: &Table) -> Option<(Option<usize>, Vec<usize>)> {
        let (at, columns) = match self.index {
            None => (None, &parent.primary_key),
            Some(id) => {
                let at = parent.indexes.iter().position(|index| index.id == id)?;
                (Some(at), &parent.indexes[at].columns)
            }
        };
        let named = self.key.iter().map(|at| columns.get(*at).copied()).collect::<Option<Vec<_>>>()?;
        (named.len() == columns.len()).then_some((at, named))
    }
}

/// A table as a transaction sees it.
#[derive(Debug)]
pub struct Table {
    pub id: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// Positions in `columns`; empty = hidden row id.
    pub primary_key: Vec<usize>,
    pub primary_key_name: String,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    /// Those of its own columns; see [`crate::Transaction::referrers`] for those that refer to it.
    pub foreign_keys: Vec<ForeignKey>,
    pub(crate) tree: Tree,
    /// Raised by every change of the definition.
    pub(crate) generation: u64,
    /// Version of the catalog that this definition came with; 0 = older than the cache.
    pub(crate) valid_from: u64,
    /// Types of everything in the value, dropped columns included.
    pub(crate) value_types: Vec<ColumnType>,
    pub(crate) layout: RowLayout,
    pub(crate) key_columns: Vec<KeyColumn>,
    pub(crate) index_keys: Vec<Vec<KeyColumn>>,
    /// Next hidden row id; 0 = not known yet. Shared by all definitions of the same tree.
    pub(crate) next_row_id: Arc<AtomicU64>,
}

/// A clustered key and the encoded columns beside it.
#[derive(Clone, Copy, Debug)]
pub struct RawRow<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Room for one row.
#[derive(Clone, Debug, Default)]
pub struct RowBuf {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl RowBuf {
    pub fn raw(&self) -> RawRow<'_> {
        RawRow { key: &self.key, value: &self.value }
    }
    /// Takes a copy of a row.
    pub fn set(&mut self, row: RawRow<'_>) {
        self.key.clear();
        self.key.extend_from_slice(row.key);
        self.value.clear();
        self.value.extend_from_slice(row.value);
    }
}

/// A column to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    pub name: String,
    pub ty: ColumnType,
    pub nullable: bool,
    pub default_sql: Option<String>,
}

/// An index to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSpec {
    pub name: String,
    pub columns: Vec<usize>,
    pub unique: bool,
    pub constraint: bool,
}

/// A table to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    pub schema: String,
    pub name: String,
    pub columns: Vec<ColumnSpec>,
    /// Constraint name and columns.
    pub primary_key: Option<(String, Vec<usize>)>,
    pub indexes: Vec<IndexSpec>,
}

impl TableSpec {
    /// A table without columns yet.
    pub fn new(schema: &str, name: &str) -> Self {
        Self { schema: schema.into(), name: name.into(), columns: Vec::new(), primary_key: None, indexes: Vec::new() }
    }
    /// Adds a nullable column.
    pub fn column(mut self, name: &str, ty: ColumnType) -> Self {
        self.columns.push(ColumnSpec { name: name.into(), ty, nullable: true, default_sql: None });
        self
    }
    /// Sets the primary key by column names; unknown names are ignored.
    pub fn primary_key(mut self, names: &[&str]) -> Self {
        let at = names.iter().filter_map(|n| self.columns.iter().position(|c| c.name == *n)).collect();
        self.primary_key = Some((format!("{}_pkey", self.name), at));
        self
    }
    /// Adds an index by column names; unknown names are ignored.
    pub fn index(mut self, name: &str, names: &[&str], unique: bool) -> Self {
        let columns = names.iter().filter_map(|n| self.columns.iter().position(|c| c.name == *n)).collect();
        self.indexes.push(IndexSpec { name: name.into(), columns, unique, constraint: false });
        self
    }
}

/// The parts of a definition that are stored.
pub(crate) struct Parts {
    pub id: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    pub primary_key: Vec<usize>,
    pub primary_key_name: String,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
    pub tree: Tree,
    pub generation: u64,
    pub value_types: Vec<ColumnType>,
}

impl Parts {
    pub fn of(table: &Table) -> Self {
        Self {
            id: table.id,
            schema: table.schema.clone(),
            name: table.name.clone(),
            columns: table.columns.clone(),
            primary_key: table.primary_key.clone(),
            primary_key_name: table.primary_key_name.clone(),
            indexes: table.indexes.clone(),
            checks: table.checks.clone(),
            foreign_keys: table.foreign_keys.clone(),
            tree: table.tree,
            generation: table.generation,
            value_types: table.value_types.clone(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let encoding = if !self.foreign_keys.is_empty() {
            ENCODING
        } else if !self.checks.is_empty() || self.columns.iter().any(|c| c.missing.is_some()) {
            2
        } else {
            1
        };
        let mut out = vec![encoding];
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        put_counted(&mut out, self.schema.as_bytes());
        put_counted(&mut out, self.name.as_bytes());
        put_counted(&mut out, self.primary_key_name.as_bytes());
        put_tree(&mut out, self.tree);
        put_positions(&mut out, &self.primary_key);
        out.extend_from_slice(&(self.value_types.len() as u16).to_le_bytes());
        for ty in &self.value_types {
            ty.encode_into(&mut out);
        }
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        for column in &self.columns {
            put_counted(&mut out, column.name.as_bytes());
            column.ty.encode_into(&mut out);
            let (kind, at) = match column.place {
                Place::Key(at) => (0u8, at),
                Place::Value(at) => (1, at),
            };
            let missing = column.missing.as_ref().and_then(|value| encode_missing(column.ty, value));
            out.push(
                kind | u8::from(column.nullable) << 1
                    | u8::from(column.default_sql.is_some()) << 2
                    | u8::from(missing.is_some()) << 3,
            );
            out.extend_from_slice(&at.to_le_bytes());
            if let Some(sql) = &column.default_sql {
                put_counted(&mut out, sql.as_bytes());
            }
            if let Some(missing) = &missing {
                put_counted(&mut out, missing);
            }
        }
        out.extend_from_slice(&(self.indexes.len() as u16).to_le_bytes());
        for index in &self.indexes {
            out.extend_from_slice(&index.id.to_le_bytes());
            put_counted(&mut out, index.name.as_bytes());
            out.push(u8::from(index.unique) | u8::from(index.constraint) << 1);
            put_positions(&mut out, &index.columns);
            put_tree(&mut out, index.tree);
        }
        if encoding > 1 {
            out.extend_from_slice(&(self.checks.len() as u16).to_le_bytes());
            for check in &self.checks {
                out.extend_from_slice(&check.id.to_le_bytes());
                put_counted(&mut out, check.name.as_bytes());
                put_counted(&mut out, check.sql.as_bytes());
                out.push(u8::from(check.validated));
                put_positions(&mut out, &check.columns);
            }
        }
        if encoding > 2 {
            out.extend_from_slice(&(self.foreign_keys.len() as u16).to_le_bytes());
            for foreign in &self.foreign_keys {
                put_foreign(&mut out, foreign);
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "table definition");
        let encoding = r.u8()?;
        if !(1..=ENCODING).contains(&encoding) {
            return Err(Error::new(ErrorKind::NewerFormat, "a table definition was written by a newer version"));
        }
        let id = r.u32()?;
        let generation = r.u64()?;
        let schema = text(&mut r)?;
        let name = text(&mut r)?;
        let primary_key_name = text(&mut r)?;
        let tree = read_tree(&mut r)?;
        let primary_key = positions(&mut r)?;
        let mut value_types = Vec::new();
        for _ in 0..r.u16()? {
            value_types.push(ColumnType::decode(&mut r)?);
        }
        let mut columns = Vec::new();
        for _ in 0..r.u16()? {
            let name = text(&mut r)?;
            let ty = ColumnType::decode(&mut r)?;
            let flags = r.u8()?;
            let at = r.u16()?;
            let place = if flags & 1 == 0 { Place::Key(at) } else { Place::Value(at) };
            let default_sql = if flags & 4 != 0 { Some(text(&mut r)?) } else { None };
            let missing = if flags & 8 != 0 { Some(decode_missing(ty, r.counted()?)?) } else { None };
            columns.push(Column { name, ty, nullable: flags & 2 != 0, default_sql, place, missing });
        }
        let mut indexes = Vec::new();
        for _ in 0..r.u16()? {
            let id = r.u32()?;
            let name = text(&mut r)?;
            let flags = r.u8()?;
            let columns = positions(&mut r)?;
            indexes.push(Index {
                id,
                name,
                columns,
                unique: flags & 1 != 0,
                constraint: flags & 2 != 0,
                tree: read_tree(&mut r)?,
            });
        }
        let mut checks = Vec::new();
        for _ in 0..if encoding > 1 { r.u16()? } else { 0 } {
            let id = r.u32()?;
            let (name, sql) = (text(&mut r)?, text(&mut r)?);
            let validated = r.u8()? & 1 != 0;
            checks.push(Check { id, name, sql, columns: positions(&mut r)?, validated });
        }
        let mut foreign_keys = Vec::new();
        for _ in 0..if encoding > 2 { r.u16()? } else { 0 } {
            foreign_keys.push(read_foreign(&mut r)?);
        }
        let named = indexes.iter().map(|i| &i.columns).chain(checks.iter().map(|c| &c.columns));
        let named = named.chain(foreign_keys.iter().map(|f| &f.columns)).flatten();
        let fine = primary_key.iter().chain(named).all(|c| *c < columns.len())
            && columns.iter().all(|c| match c.place {
                Place::Key(at) => (at as usize) < primary_key.len(),
                Place::Value(at) => value_types.get(at as usize) == Some(&c.ty),
            });
        if !fine {
            return Err(r.bad("a column that does not exist"));
        }
        Ok(Self {
            id,
            schema,
            name,
            columns,
            primary_key,
            primary_key_name,
            indexes,
            checks,
            foreign_keys,
            tree,
            generation,
            value_types,
        })
    }

    /// Completes the definition.
    pub fn build(self, next_row_id: Arc<AtomicU64>, valid_from: u64) -> Table {
        let key_columns: Vec<KeyColumn> = if self.primary_key.is_empty() {
            vec![KeyColumn::ascending(ColumnType::Int8)]
        } else {
            self.primary_key.iter().map(|c| KeyColumn::ascending(self.columns[*c].ty)).collect()
        };
        let index_keys = self
            .indexes
            .iter()
            .map(|i| i.columns.iter().map(|c| KeyColumn::ascending(self.columns[*c].ty)).collect())
            .collect();
        Table {
            layout: RowLayout::new(&self.value_types),
            id: self.id,
            schema: self.schema,
            name: self.name,
            columns: self.columns,
            primary_key: self.primary_key,
            primary_key_name: self.primary_key_name,
            indexes: self.indexes,
            checks: self.checks,
            foreign_keys: self.foreign_keys,
            tree: self.tree,
            generation: self.generation,
            valid_from,
            value_types: self.value_types,
            key_columns,
            index_keys,
            next_row_id,
        }
    }
}

/// A value as a row of one column. `None`: it cannot be stored in the type.
pub(crate) fn encode_missing(ty: ColumnType, value: &Datum) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    RowLayout::new(&[ty]).encode(&[value.as_ref()], &mut bytes).ok()?;
    Some(bytes)
}
fn decode_missing(ty: ColumnType, bytes: &[u8]) -> Result<Datum> {
    match RowLayout::new(&[ty]).column(bytes, 0)? {
        DatumRef::External(_) => Err(Error::corrupt("the value of rows without a column is not in the definition")),
        datum => Ok(datum.to_owned()),
    }
}

fn put_tree(out: &mut Vec<u8>, tree: Tree) {
    out.extend_from_slice(&tree.root.0.to_le_bytes());
    out.extend_from_slice(&tree.object.0.to_le_bytes());
}
fn read_tree(r: &mut Reader<'_>) -> Result<Tree> {
    Ok(Tree { root: PageId(r.u64()?), object: ObjectId(r.u32()?) })
}
fn put_positions(out: &mut Vec<u8>, positions: &[usize]) {
    out.extend_from_slice(&(positions.len() as u16).to_le_bytes());
    for at in positions {
        out.extend_from_slice(&(*at as u16).to_le_bytes());
    }
}
fn positions(r: &mut Reader<'_>) -> Result<Vec<usize>> {
    let count = r.u16()?;
    (0..count).map(|_| r.u16().map(usize::from)).collect()
}
fn put_foreign(out: &mut Vec<u8>, foreign: &ForeignKey) {
    out.extend_from_slice(&foreign.id.to_le_bytes());
    put_counted(out, foreign.name.as_bytes());
    put_positions(out, &foreign.columns);
    out.extend_from_slice(&foreign.parent.to_le_bytes());
    // Ids of objects begin above 0.
    out.extend_from_slice(&foreign.index.unwrap_or(0).to_le_bytes());
    put_positions(out, &foreign.key);
    out.push(foreign.on_delete.code());
    out.push(foreign.on_update.code());
    out.push(
        u8::from(foreign.match_full)
            | u8::from(foreign.deferrable) << 1
            | u8::from(foreign.deferred) << 2
            | u8::from(foreign.validated) << 3,
    );
}
fn read_foreign(r: &mut Reader<'_>) -> Result<ForeignKey> {
    let (id, name, columns) = (r.u32()?, text(r)?, positions(r)?);
    let (parent, index, key) = (r.u32()?, r.u32()?, positions(r)?);
    let (on_delete, on_update) = (r.u8()?, r.u8()?);
    let (Some(on_delete), Some(on_update)) =
        (ReferentialAction::of_code(on_delete), ReferentialAction::of_code(on_update))
    else {
        return Err(r.bad("an unknown action of a foreign key"));
    };
    let flags = r.u8()?;
    let permutes = key.len() == columns.len() && (0..key.len()).all(|at| key.contains(&at));
    if columns.is_empty() || !permutes {
        return Err(r.bad("a foreign key whose columns are not those of a key"));
    }
    Ok(ForeignKey {
        id,
        name,
        columns,
        parent,
        index: (index != 0).then_some(index),
        key,
        on_delete,
        on_update,
        match_full: flags & 1 != 0,
        deferrable: flags & 2 != 0,
        deferred: flags & 4 != 0,
        validated: flags & 8 != 0,
    })
}
fn text(r: &mut Reader<'_>) -> Result<String> {
    let bytes = r.counted()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| r.bad("a name that is not UTF-8"))
}

impl Table {
    /// Decodes one column of a row. A large value comes as [`DatumRef::External`], to be
    /// read with [`crate::ReadView::read_external`].
    #[inline]
    pub fn column<'a>(&'a self, row: RawRow<'a>, i: usize) -> Result<DatumRef<'a>> {
        let Some(column) = self.columns.get(i) else {
            return Err(Error::internal(format!("table {} has no column {i}", self.name)));
        };
        match column.place {
            Place::Value(at) => {
                let datum = self.layout.column(row.value, at as usize)?;
                match &column.missing {
                    Some(missing)
                        if datum.is_null() && self.layout.view(row.value)?.stored_columns() <= at as usize =>
                    {
                        Ok(missing.as_ref())
                    }
                    _ => Ok(datum),
                }
            }
            Place::Key(at) => match key::decode_column(row.key, &self.key_columns, at as usize)? {
                key::KeyDatum::Ref(datum) => Ok(datum),
                key::KeyDatum::Owned(_) => {
                    Err(Error::corrupt(format!("the key of a row of table {} holds a zero byte in text", self.name)))
                }
            },
        }
    }

    /// Appends the clustered key of primary-key values; fewer values make a prefix.
    pub fn encode_key(&self, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        key::encode(values, &self.key_columns, out)
    }

    /// Appends the key prefix of an index's column values.
    pub fn encode_index_key(&self, index: usize, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        match self.index_keys.get(index) {
            Some(columns) => key::encode(values, columns, out),
            None => Err(Error::internal(format!("table {} has no index {index}", self.name))),
        }
    }

    /// The values of a full key of an index (`None`: the clustered key).
    pub fn decode_key(&self, index: Option<usize>, bytes: &[u8]) -> Result<Vec<Datum>> {
        let columns = match index {
            None => &self.key_columns,
            Some(at) => self
                .index_keys
                .get(at)
                .ok_or_else(|| Error::internal(format!("table {} has no index {at}", self.name)))?,
        };
        (0..columns.len()).map(|at| Ok(key::decode_column(bytes, columns, at)?.as_ref().to_owned())).collect()
    }

    /// The clustered key of a whole row; `row_id` when there is no primary key.
    pub(crate) fn key_of_row(
        &self,
        row: &[DatumRef<'_>],
        row_id: impl FnOnce() -> Result<u64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.primary_key.is_empty() {
            return self.encode_key(&[DatumRef::Int8(row_id()? as i64)], out);
        }
        let mut values = Vec::with_capacity(self.primary_key.len());
        for at in &self.primary_key {
            values.push(row[*at]);
        }
        self.encode_key(&values, out)
    }

    /// The columns of a row that go into its value, in their places; dropped ones NULL.
    pub(crate) fn value_datums<'d>(&self, row: &[DatumRef<'d>]) -> Vec<DatumRef<'d>> {
        let mut values = vec![DatumRef::Null; self.value_types.len()];
        for (column, datum) in self.columns.iter().zip(row) {
            if let Place::Value(at) = column.place {
                values[at as usize] = *datum;
            }
        }
        values
    }

    /// Key and value of an index entry for a row with clustered key `key`.
    pub(crate) fn index_entry(
        &self,
        index: usize,
        row: &[DatumRef<'_>],
        key: &[u8],
        out_key: &mut Vec<u8>,
        out_value: &mut Vec<u8>,
    ) -> Result<()> {
        let definition = &self.indexes[index];
        let values: Vec<DatumRef<'_>> = definition.columns.iter().map(|c| row[*c]).collect();
        self.encode_index_key(index, &values, out_key)?;
        if definition.unique && !values.iter().any(DatumRef::is_null) {
            out_value.extend_from_slice(key);
        } else {
            out_key.extend_from_slice(key);
            if out_key.len() > limits::KEY_BYTES_MAX {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "index row size {} exceeds maximum {} for index \"{}\"",
                        out_key.len(),
                        limits::KEY_BYTES_MAX,
                        definition.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The clustered key that an index entry leads to.
    pub(crate) fn clustered_key<'a>(
        &self,
        index: usize,
        entry_key: &'a [u8],
        entry_value: &'a [u8],
    ) -> Result<&'a [u8]> {
        if !entry_value.is_empty() {
            return Ok(entry_value);
        }
        let columns = &self.index_keys[index];
        let at = key::column_offset(entry_key, columns, columns.len())?;
        entry_key
            .get(at..)
            .ok_or_else(|| Error::corrupt(format!("an entry of index {} has no row key", self.indexes[index].name)))
    }

    /// Checks NOT NULL and the number of values.
    pub fn check_row(&self, row: &[DatumRef<'_>]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::internal(format!(
                "{} values for the {} columns of table {}",
                row.len(),
                self.columns.len(),
                self.name
            )));
        }
        for (column, datum) in self.columns.iter().zip(row) {
            if !column.nullable && datum.is_null() {
                return Err(Error::new(
                    ErrorKind::NotNullViolation,
                    format!(
                        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                        column.name, self.name
                    ),
                ));
            }
        }
        Ok(())
    }
}
