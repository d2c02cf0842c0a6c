//! Tables, and how rows become keys and values.
//!
//! A table is a tree clustered on its primary key, or on a hidden row id. The key holds the
//! primary-key columns in order-preserving form, the value holds the rest (and key columns
//! of type bytea, whose key form cannot be borrowed from).
//!
//! An index is a tree. Of a unique index whose columns are all set the key is just those
//! columns, so that two transactions that insert the same key meet at one record, also where NULLs are among them and
//! count as equal ([`Table::keeps_out`]); otherwise
//! the clustered key follows the columns, as it does in the index of a DEFERRABLE constraint, which takes equal keys until the
//! constraint is judged. The value is the clustered key, or empty when the
//! key ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_base::{Error, ErrorKind, ObjectId, Result, limits};
use resurgam_btree::Tree;
use resurgam_page::key::{self, ColumnOrder, KeyColumn};
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum, DatumRef};

use crate::access::Access;
use crate::catalog_object::CatalogObject;
use crate::databases::namespace_in;
use crate::definition::{Check, Column, CommentOn, Deferral, Definition, ForeignKey, Generated, Index, Place};
use crate::index_details::{self, IndexDetails};
use crate::sequence::{Identity, OwnedSequence, Sequence};
use crate::stored_view::View;

/// A table as a transaction sees it.
#[derive(Debug)]
pub struct Table {
    pub id: u32,
    /// The database that it is of, unless it is of the server (`databases.rs`).
    pub(crate) database: u32,
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
    /// It is a view, without columns and trees: whoever asks for a table never gets one.
    pub view: Option<Box<View>>,
    /// Columns whose values are computed from others, by column.
    pub generated: Vec<Generated>,
    /// Comments on it and its parts.
    pub comments: Vec<(CommentOn, String)>,
    /// It is a sequence, without columns and trees.
    pub sequence: Option<Box<Sequence>>,
    /// Sequences that go with columns, by serial types and identity.
    pub owned: Vec<OwnedSequence>,
    /// Columns of domain types, and these: their values are of what the domain is of.
    pub domains: Vec<(usize, u32)>,
    /// What indexes say beside their keys.
    pub index_details: Vec<IndexDetails>,
    /// Collations that columns have beside those of their types: numbers of the layer above.
    pub collations: Vec<(usize, u32)>,
    /// It is an object that is no relation, without columns and trees.
    pub object: Option<Box<CatalogObject>>,
    /// Its owner and the rights to it; `None`: the first user's, with those of its kind.
    pub access: Option<Box<Access>>,
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
    /// Shared by all definitions of the same tree.
    pub(crate) counters: Arc<RowCounters>,
}

/// What is counted of a tree's rows, in memory.
#[derive(Debug, Default)]
pub struct RowCounters {
    /// Next hidden row id; 0 = not known yet.
    pub(crate) next_id: AtomicU64,
    /// Rows that were inserted, changed and deleted since it was analysed, those of transactions that did not commit
    /// among them.
    pub(crate) changed: AtomicU64,
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
    /// Bytes that it has room for.
    pub fn bytes(&self) -> usize {
        self.key.capacity() + self.value.capacity()
    }
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
    /// Of the first of them; the rest ascend with NULLs last.
    pub orders: Vec<ColumnOrder>,
    pub unique: bool,
    pub constraint: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_alike: bool,
    /// When a constraint is judged.
    pub deferral: Deferral,
}

/// The position of a column that there is not.
pub(crate) const NO_COLUMN: usize = usize::MAX;

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
    /// Sets the primary key by column names; with a name that no column has, the table is refused when it is created.
    pub fn primary_key(mut self, names: &[&str]) -> Self {
        self.primary_key = Some((format!("{}_pkey", self.name), self.positions(names)));
        self
    }
    /// Positions of columns; of one that there is not, a position that there is not.
    fn positions(&self, names: &[&str]) -> Vec<usize> {
        let of = |name: &&str| self.columns.iter().position(|column| column.name == **name).unwrap_or(NO_COLUMN);
        names.iter().map(of).collect()
    }
    /// Adds an index by column names; with a name that no column has, the table is refused when it is created.
    pub fn index(mut self, name: &str, names: &[&str], unique: bool) -> Self {
        let columns = self.positions(names);
        self.indexes.push(IndexSpec {
            name: name.into(),
            columns,
            orders: Vec::new(),
            unique,
            constraint: false,
            nulls_alike: false,
            deferral: Deferral::Never,
        });
        self
    }
}

impl Table {
    /// Whether both are the same definition of the same table.
    pub fn is_definition_of(&self, other: &Self) -> bool {
        (self.id, self.generation) == (other.id, other.generation)
    }

    /// An entry that no catalog has, whose query's names mean what `view` says: a function's body is read as a view's query is.
    pub fn of_names(id: u32, schema: &str, name: &str, view: View, access: Access) -> Self {
        let (schema, name, view) = (schema.to_owned(), name.to_owned(), Some(Box::new(view)));
        let access = Some(Box::new(access));
        Definition { id, schema, name, view, access, ..Definition::without_rows() }.build(Arc::default(), 0)
    }

    /// Rows that were inserted, changed and deleted since the table was analysed, as far as memory goes back.
    pub fn rows_changed(&self) -> u64 {
        self.counters.changed.load(Ordering::Relaxed)
    }

    /// So many of them are known to statistics by now.
    pub fn forget_changed(&self, rows: u64) {
        let left = |changed: u64| Some(changed.saturating_sub(rows));
        let _ = self.counters.changed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    pub(crate) fn note_changed(&self) {
        self.note_rows_changed(1);
    }

    pub(crate) fn note_rows_changed(&self, rows: u64) {
        self.counters.changed.fetch_add(rows, Ordering::Relaxed);
    }

    /// Whether the keys of its rows are those of the other definition's: it was not written anew in between.
    pub fn is_stored_as(&self, other: &Self) -> bool {
        self.tree.object == other.tree.object
    }

    /// Whether it has rows: it is neither a view nor a sequence, nor an object of another kind.
    pub fn is_table(&self) -> bool {
        self.view.is_none() && self.sequence.is_none() && self.object.is_none()
    }

    /// Whether a column is GENERATED … AS IDENTITY.
    pub fn identity(&self, column: usize) -> Identity {
        self.owned.iter().find(|owned| owned.column == column).map_or(Identity::No, |owned| owned.identity)
    }

    /// Whether it has a column that is.
    pub fn has_identity(&self) -> bool {
        self.owned.iter().any(|owned| owned.identity != Identity::No)
    }

    /// The domain that a column is of.
    pub fn domain(&self, column: usize) -> Option<u32> {
        self.domains.iter().find(|(at, _)| *at == column).map(|(_, domain)| *domain)
    }

    /// The collation that a column has beside that of its type.
    pub fn collation(&self, column: usize) -> Option<u32> {
        self.collations.iter().find(|(at, _)| *at == column).map(|(_, collation)| *collation)
    }

    /// What an index says beside its key, `None`: the primary key's; `None` if it says nothing more.
    pub fn index_details(&self, index: Option<u32>) -> Option<&IndexDetails> {
        self.index_details.iter().find(|details| details.index == index)
    }

    /// The columns that an index includes beside its key, `None`: the primary key's. No rows of the index have them.
    pub fn included(&self, index: Option<u32>) -> &[usize] {
        index_details::included(&self.index_details, index)
    }

    /// Ids of what it needs: the relations of its foreign keys, those that it reads as a view, its columns' types, what it
    /// names as an object.
    pub(crate) fn needs(&self) -> impl Iterator<Item = u32> {
        let parents = self.foreign_keys.iter().map(|foreign| foreign.parent);
        let read = self.view.iter().flat_map(|view| &view.relations).map(|relation| relation.id);
        let types = self.columns.iter().filter_map(|column| column.ty.user_type());
        let types = types.chain(self.domains.iter().map(|(_, domain)| *domain));
        parents.chain(read).chain(types).chain(self.object.iter().flat_map(|object| object.needs.iter().copied()))
    }

    /// Among which names its own is one: a schema's relations, or the objects of a kind. In memory only.
    pub(crate) fn namespace(&self) -> String {
        let namespace = match &self.object {
            Some(object) => object.kind.namespace(&self.schema),
            None => self.schema.clone(),
        };
        namespace_in(self.database, namespace)
    }

    /// How the values of a column are computed from others, if they are.
    pub fn generated(&self, column: usize) -> Option<&Generated> {
        self.generated.iter().find(|generated| generated.column == column)
    }

    /// Positions of the columns that names can mean: all but the hidden ones.
    pub fn shown_columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns.len()).filter(|at| !self.columns[*at].is_hidden())
    }

    /// The comment on a column.
    pub fn comment_on_column(&self, column: usize) -> Option<&str> {
        self.comments.iter().find(|(on, _)| *on == CommentOn::Column(column)).map(|(_, text)| text.as_str())
    }

    /// The object that owns the pages of its rows; it changes when they are stored anew.
    pub fn rows_object(&self) -> ObjectId {
        self.tree.object
    }

    /// The object that owns the pages of an index, by its place in [`Table::indexes`].
    pub fn index_object(&self, at: usize) -> Option<ObjectId> {
        self.indexes.get(at).map(|index| index.tree.object)
    }

    /// Decodes one column of a row. A large value comes as [`DatumRef::External`], to be
    /// read with [`crate::ReadView::read_external`].
    #[inline]
    pub fn column<'a>(&'a self, row: RawRow<'a>, i: usize) -> Result<DatumRef<'a>> {
        let Some(column) = self.columns.get(i) else {
            return Err(Error::new(
                ErrorKind::UndefinedColumn,
                format!("table \"{}\" has no column number {i}", self.name),
            ));
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
        key::encode(values, &self.key_columns, out).map_err(|error| self.of_caller(error))
    }

    /// Values that are not of their columns' types, or are too many, are the caller's mistake here, not the engine's.
    #[cold]
    pub(crate) fn of_caller(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Internal => Error::new(
                ErrorKind::InvalidParameter,
                format!("wrong values for table \"{}\": {}", self.name, error.message()),
            ),
            _ => error,
        }
    }

    /// Appends the key prefix of an index's column values.
    pub fn encode_index_key(&self, index: usize, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        match self.index_keys.get(index) {
            Some(columns) => key::encode(values, columns, out).map_err(|error| self.of_caller(error)),
            None => Err(self.no_index(index)),
        }
    }

    #[cold]
    pub(crate) fn no_index(&self, index: usize) -> Error {
        Error::new(ErrorKind::UndefinedObject, format!("table \"{}\" has no index number {index}", self.name))
    }

    /// The values of a full key of an index (`None`: the clustered key).
    pub fn decode_key(&self, index: Option<usize>, bytes: &[u8]) -> Result<Vec<Datum>> {
        let columns = match index {
            None => &self.key_columns,
            Some(at) => self.index_keys.get(at).ok_or_else(|| self.no_index(at))?,
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
        // Mostly it is of few columns.
        let mut few = [DatumRef::Null; 4];
        if let Some(few) = few.get_mut(..self.primary_key.len()) {
            few.iter_mut().zip(&self.primary_key).for_each(|(value, at)| *value = row[*at]);
            return self.key_of_values(few, out);
        }
        let values: Vec<DatumRef<'_>> = self.primary_key.iter().map(|at| row[*at]).collect();
        self.key_of_values(&values, out)
    }

    /// The clustered key of the values of all columns of the primary key.
    pub(crate) fn key_of_values(&self, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        for (at, value) in self.primary_key.iter().zip(values) {
            // It could not be read again: a key is borrowed from as it is, and a zero byte is escaped in it.
            if let DatumRef::Text(text) = value
                && text.contains('\0')
            {
                return Err(Error::new(
                    ErrorKind::InvalidText,
                    format!(
                        "column \"{}\" of table \"{}\" was given text with a zero byte",
                        self.columns[*at].name, self.name
                    ),
                ));
            }
        }
        self.encode_key(values, out)
    }

    /// The columns of a row that go into its value, in their places; dropped ones NULL.
    pub(crate) fn value_datums<'d>(&self, row: &[DatumRef<'d>]) -> Vec<DatumRef<'d>> {
        let mut values = Vec::new();
        self.put_value_datums(row, &mut values);
        values
    }

    /// As [`Table::value_datums`], into a vector without any.
    pub(crate) fn put_value_datums<'d>(&self, row: &[DatumRef<'d>], values: &mut Vec<DatumRef<'d>>) {
        values.resize(self.value_types.len(), DatumRef::Null);
        for (column, datum) in self.columns.iter().zip(row) {
            if let Place::Value(at) = column.place {
                values[at as usize] = *datum;
            }
        }
    }

    /// Whether these are all columns in their order.
    pub(crate) fn is_all_value(&self) -> bool {
        let is_there =
            |(at, column): (usize, &Column)| matches!(column.place, Place::Value(place) if usize::from(place) == at);
        self.columns.len() == self.value_types.len() && self.columns.iter().enumerate().all(is_there)
    }

    /// Whether a row with these values in its key columns keeps other rows with the same ones out of an index (`None`: the
    /// clustered tree). A NULL does not, unless NULLs are equal in it; rows outside of its predicate never do.
    pub fn keeps_out(&self, index: Option<usize>, values: &[DatumRef<'_>]) -> bool {
        let Some(index) = index.and_then(|index| self.indexes.get(index)) else {
            return !values.iter().any(DatumRef::is_null);
        };
        index.keeps_unique() && self.counts(index, values)
    }

    /// Whether a row with these values in the key columns of a unique index is one that others must differ from, now or (of a
    /// DEFERRABLE constraint) when that is judged.
    pub fn must_differ(&self, index: usize, values: &[DatumRef<'_>]) -> bool {
        self.indexes.get(index).is_some_and(|index| index.unique && self.counts(index, values))
    }

    fn counts(&self, index: &Index, values: &[DatumRef<'_>]) -> bool {
        let counts = |(at, value): (&usize, &DatumRef<'_>)| {
            !value.is_null() || index.nulls_alike && self.columns.get(*at).is_some_and(|column| !column.is_predicate())
        };
        index.columns.iter().zip(values).all(counts)
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
        let values: Vec<DatumRef<'_>> = self.indexes[index].columns.iter().map(|c| row[*c]).collect();
        self.index_entry_of(index, &values, key, out_key, out_value)
    }

    /// The same of the values of the index's columns.
    pub(crate) fn index_entry_of(
        &self,
        index: usize,
        values: &[DatumRef<'_>],
        key: &[u8],
        out_key: &mut Vec<u8>,
        out_value: &mut Vec<u8>,
    ) -> Result<()> {
        let definition = &self.indexes[index];
        self.encode_index_key(index, values, out_key)?;
        if self.keeps_out(Some(index), values) {
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

    /// The part of an index entry's key that its columns are.
    pub(crate) fn key_columns_of<'a>(&self, index: usize, entry_key: &'a [u8]) -> Result<&'a [u8]> {
        let columns = &self.index_keys[index];
        let end = key::column_offset(entry_key, columns, columns.len())?;
        entry_key
            .get(..end)
            .ok_or_else(|| Error::corrupt(format!("an entry of index {} has no key", self.indexes[index].name)))
    }

    /// In which order an index (`None`: the clustered tree) has the values of its key column at that position.
    pub fn column_order(&self, index: Option<usize>, at: usize) -> ColumnOrder {
        let index = index.and_then(|index| self.indexes.get(index));
        index.map_or(ColumnOrder::ASCENDING, |index| index.order(at))
    }

    /// Checks NOT NULL and the number of values.
    pub fn check_row(&self, row: &[DatumRef<'_>]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{} values for the {} columns of table \"{}\"", row.len(), self.columns.len(), self.name),
            ));
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
