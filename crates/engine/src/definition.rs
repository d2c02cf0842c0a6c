//! What a table's definition says, and its stored form. It is encoded and decoded here only: the
//! checker reads definitions with the same code.
//!
//! ```text
//! encoding u8 = 1 to 5 | table id u32 | generation u64
//! schema, name, primary key name            counted text
//! tree                                      root page u64, object u32
//! primary key                               count u16, column positions u16 each
//! value types                               count u16, column types
//! columns                                   count u16, each: name, type, flags u8, place u16,
//!                                           [DEFAULT] SQL text, [missing] counted: a row of
//!                                           one column
//! indexes                                   count u16, each: id u32, name, flags u8,
//!                                           columns (count u16, positions u16), [orders: u8 for
//!                                           each column], tree
//! checks (encoding 2 and up)                count u16, each: id u32, name, SQL text, flags u8,
//!                                           columns (count u16, positions u16)
//! foreign keys (encoding 3 and up)          count u16, each: id u32, name, columns (count u16,
//!                                           positions u16), referenced table u32, its index u32
//!                                           (0 = primary key), positions in that key (count u16,
//!                                           u16 each), ON DELETE u8, ON UPDATE u8, flags u8
//! parts (encoding 5)                    count u16, each: kind u8, counted: 1 = it is a view (stored_view.rs);
//!                                           2 = generated columns: count u16, each: position u16, SQL text,
//!                                           columns that it reads (count u16, positions u16);
//!                                           3 = comments: count u16, each: kind u8 (0 relation, 1 column, 2 index,
//!                                           3 constraint), u32 (position, or id, 0 = primary key), text
//!                                           4 = it is a sequence: type's bytes u8, flags u8 (1 CYCLE, 2 the first
//!                                           value is given out), START, INCREMENT, MINVALUE, MAXVALUE, CACHE, first
//!                                           value i64 each, row of its values u32, owning table u32 (0 = none);
//!                                           5 = sequences that go with columns: each position u16, sequence u32,
//!                                           identity u8 (0 no, 1 ALWAYS, 2 BY DEFAULT)
//!                                           7 = columns of domain types: each position u16, the type's id u32;
//!                                           6 = owner and rights (access.rs);
//!                                           9 = the database that it is of (databases.rs): u32; none: the first, or all;
//!                                           8 = it is an object that is no relation (catalog_object.rs): kind u8,
//!                                           needed count u16, ids u32 each, counted: what it is
//!                                           10 = what indexes say beside their keys (index_details.rs)
//!                                           11 = collations of columns that were named: each position u16, u32
//!                                           12 = unique indexes of which NULLs are equal: ids u32
//!                                           13 = DEFERRABLE ones: each id u32, when it is judged u8 (1 end of the statement,
//!                                           2 end of the transaction)
//!                                           14 = indexes that are not valid: ids u32
//! A column whose name begins with a zero byte is hidden: it belongs to one index, which reads it ([`is_hidden`]).
//! column flags                              1 in the value (else in the key), 2 nullable, 4 DEFAULT,
//!                                           8 rows stored before it have a value (missing)
//! check flags                               1 validated
//! foreign key actions                       0 NO ACTION, 1 RESTRICT, 2 CASCADE, 3 SET NULL, 4 SET DEFAULT
//! foreign key flags                         1 MATCH FULL, 2 deferrable, 4 initially deferred, 8 validated
//! index flags                               1 unique, 2 implements a constraint, 4 orders of columns
//!                                           (encoding 4; else all ascend with NULLs last)
//! order of an index column                  1 descending, 2 NULLs first
//! ```

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, ObjectId, PageId, Result};
use resurgam_btree::Tree;
use resurgam_page::codec::{Reader, put_counted};
use resurgam_page::key::{ColumnOrder, KeyColumn};
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum, DatumRef};

use crate::access::Access;
use crate::catalog_object::CatalogObject;
use crate::databases::FIRST_DATABASE;
use crate::index_details::IndexDetails;
use crate::sequence::{Identity, OwnedSequence, Sequence};
use crate::stored_view::View;
use crate::table::{RowCounters, Table};

/// Newest version of the definition's encoding. A definition is written in the oldest one that
/// can say all of it.
const ENCODING: u8 = 5;

/// Kinds of parts that definitions of encoding 5 have behind the others, each by itself.
const PART_VIEW: u8 = 1;
const PART_GENERATED: u8 = 2;
const PART_COMMENTS: u8 = 3;
const PART_SEQUENCE: u8 = 4;
const PART_OWNED: u8 = 5;
const PART_DOMAINS: u8 = 7;
const PART_ACCESS: u8 = 6;
const PART_OBJECT: u8 = 8;
const PART_DATABASE: u8 = 9;
const PART_INDEX_DETAILS: u8 = 10;
const PART_COLLATIONS: u8 = 11;
const PART_NULLS_ALIKE: u8 = 12;
const PART_DEFERRABLE: u8 = 13;
const PART_INVALID_INDEXES: u8 = 14;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub ty: ColumnType,
    pub nullable: bool,
    /// The DEFAULT expression as SQL text; its meaning is the SQL layer's.
    pub default_sql: Option<String>,
    #[doc(hidden)]
    pub place: Place,
    /// What rows have in it that were stored before it was added; NULL if none.
    #[doc(hidden)]
    pub missing: Option<Datum>,
}

/// First character of the names of columns that only indexes read: the values of their expressions, and whether their
/// predicates hold. No identifier can hold it, so no statement names such a column.
const HIDDEN: char = '\0';

/// The name of a hidden column that holds the values of an index's expression, by a number of its own.
pub fn expression_column(number: usize) -> String {
    format!("{HIDDEN}k{number}")
}

/// The name of a hidden column that is true in rows that fulfil an index's predicate, else NULL.
pub fn predicate_column(number: usize) -> String {
    format!("{HIDDEN}p{number}")
}

/// Whether a column of that name is one that only an index reads: nothing shows it.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(HIDDEN)
}

impl Column {
    /// See [`is_hidden`].
    pub fn is_hidden(&self) -> bool {
        is_hidden(&self.name)
    }
    /// Whether it is of a partial index: true in the rows that fulfil the predicate, else NULL.
    pub fn is_predicate(&self) -> bool {
        self.name.strip_prefix(HIDDEN).is_some_and(|rest| rest.starts_with('p'))
    }
}

/// Where a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Position in the key.
    Key(u16),
    /// Position in the value.
    Value(u16),
}

/// When it is judged whether the keys of a unique index are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// Not DEFERRABLE: as each row is written, by the tree.
    #[default]
    Never,
    /// DEFERRABLE: at the end of the statement, unless it is deferred. Row operations do not enforce it: the tree takes
    /// equal keys, and their caller looks for them with what `reference.rs` offers.
    Statement,
    /// DEFERRABLE INITIALLY DEFERRED: at the end of the transaction, unless it is set to be judged at once.
    Transaction,
}

impl Deferral {
    fn code(self) -> u8 {
        match self {
            Self::Never => 0,
            Self::Statement => 1,
            Self::Transaction => 2,
        }
    }
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    pub id: u32,
    pub name: String,
    /// Positions in [`Table::columns`].
    pub columns: Vec<usize>,
    /// Of each of them.
    pub orders: Vec<ColumnOrder>,
    pub unique: bool,
    /// It implements a UNIQUE constraint of that name.
    pub constraint: bool,
    /// NULLS NOT DISTINCT: if it is unique, of rows with the same values, NULLs among them, there is one.
    pub nulls_alike: bool,
    /// Of a unique one that implements a constraint: when that is judged.
    pub deferral: Deferral,
    /// Whether it has an entry of every row, so that rows are found by it. Writers maintain one that has not as well, as far as
    /// it goes ([`crate::IndexBuild`]); nothing is read by it.
    pub valid: bool,
    #[doc(hidden)]
    pub tree: Tree,
}

impl Index {
    /// Whether it implements a DEFERRABLE constraint: its tree may have equal keys for a while.
    pub fn is_deferrable(&self) -> bool {
        self.unique && self.deferral != Deferral::Never
    }

    /// Whether its tree has each key once, so that a key leads to one row.
    pub fn keeps_unique(&self) -> bool {
        self.unique && self.deferral == Deferral::Never
    }

    /// In which order it has the values of its column at that position.
    pub fn order(&self, at: usize) -> ColumnOrder {
        self.orders.get(at).copied().unwrap_or_default()
    }

    /// Whether any column is not ascending with NULLs last.
    fn has_orders(&self) -> bool {
        (0..self.columns.len()).any(|at| self.order(at) != ColumnOrder::ASCENDING)
    }
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

/// A column whose values are computed from others when a row is written. Its meaning is the SQL layer's: row operations
/// store what they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Position in [`Table::columns`].
    pub column: usize,
    /// The expression as SQL text.
    pub sql: String,
    /// Positions of the columns that it reads.
    pub reads: Vec<usize>,
}

/// What a comment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommentOn {
    /// The table or view itself.
    Relation,
    /// A column, by position.
    Column(usize),
    /// An index, by id; `None`: the primary key's.
    Index(Option<u32>),
    /// A constraint: the id of a CHECK, a foreign key, or of the index that implements it; `None`: the primary key.
    Constraint(Option<u32>),
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

/// The parts of a definition that are stored.
#[derive(Clone, Debug)]
pub struct Definition {
    pub id: u32,
    /// The database that it is of; objects of the server have the first one's.
    pub database: u32,
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
    /// It is a view, without columns and trees.
    pub view: Option<Box<View>>,
    /// By column.
    pub generated: Vec<Generated>,
    /// Comments on it and its parts, in the order of these.
    pub comments: Vec<(CommentOn, String)>,
    /// It is a sequence, without columns and trees.
    pub sequence: Option<Box<Sequence>>,
    /// Sequences that go with columns.
    pub owned: Vec<OwnedSequence>,
    /// Columns of domain types, and these: values are of what the domain is of.
    pub domains: Vec<(usize, u32)>,
    /// What indexes say beside their keys.
    pub index_details: Vec<IndexDetails>,
    /// Collations that columns have beside those of their types: numbers of the layer above.
    pub collations: Vec<(usize, u32)>,
    /// It is an object that is no relation.
    pub object: Option<Box<CatalogObject>>,
    /// Its owner and the rights to it, where they are not the first user's.
    pub access: Option<Box<Access>>,
}

impl Definition {
    /// Those of a table.
    pub fn of(table: &Table) -> Self {
        Self {
            id: table.id,
            database: table.database,
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
            view: table.view.clone(),
            generated: table.generated.clone(),
            comments: table.comments.clone(),
            sequence: table.sequence.clone(),
            owned: table.owned.clone(),
            domains: table.domains.clone(),
            index_details: table.index_details.clone(),
            collations: table.collations.clone(),
            object: table.object.clone(),
            access: table.access.clone(),
        }
    }

    /// A definition of the first generation that has no rows.
    pub(crate) fn without_rows() -> Self {
        Self {
            id: 0,
            database: FIRST_DATABASE,
            schema: String::new(),
            name: String::new(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            primary_key_name: String::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            tree: Tree { root: PageId(0), object: ObjectId(0) },
            generation: 1,
            value_types: Vec::new(),
            view: None,
            generated: Vec::new(),
            comments: Vec::new(),
            sequence: None,
            owned: Vec::new(),
            domains: Vec::new(),
            index_details: Vec::new(),
            collations: Vec::new(),
            object: None,
            access: None,
        }
    }

    /// Their stored form.
    pub fn encode(&self) -> Vec<u8> {
        let parts = self.parts();
        let encoding = if !parts.is_empty() {
            5
        } else if self.indexes.iter().any(Index::has_orders) {
            4
        } else if !self.foreign_keys.is_empty() {
            3
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
            let has_orders = index.has_orders();
            out.push(u8::from(index.unique) | u8::from(index.constraint) << 1 | u8::from(has_orders) << 2);
            put_positions(&mut out, &index.columns);
            if has_orders {
                out.extend(index.columns.iter().enumerate().map(|(at, _)| order_byte(index.order(at))));
            }
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
        if encoding > 4 {
            out.extend_from_slice(&(parts.len() as u16).to_le_bytes());
            for (kind, bytes) in &parts {
                out.push(*kind);
                put_counted(&mut out, bytes);
            }
        }
        out
    }

    /// Whether a constraint other than the primary key has that id.
    fn has_constraint(&self, id: u32) -> bool {
        self.checks.iter().any(|check| check.id == id)
            || self.foreign_keys.iter().any(|foreign| foreign.id == id)
            || self.indexes.iter().any(|index| index.constraint && index.id == id)
    }

    /// Whether it has that index; `None`: a primary key.
    pub(crate) fn has_index(&self, id: Option<u32>) -> bool {
        match id {
            Some(id) => self.indexes.iter().any(|index| index.id == id),
            None => !self.primary_key.is_empty(),
        }
    }

    /// Whether what a comment is on is there. Columns that go take theirs along.
    fn has_commented(&self, on: CommentOn) -> bool {
        match on {
            CommentOn::Index(id) => self.has_index(id),
            CommentOn::Constraint(Some(id)) => self.has_constraint(id),
            CommentOn::Constraint(None) => self.has_index(None),
            CommentOn::Relation | CommentOn::Column(_) => true,
        }
    }

    /// What is behind the others, each with its kind.
    fn parts(&self) -> Vec<(u8, Vec<u8>)> {
        let mut parts = Vec::new();
        if let Some(view) = &self.view {
            let mut bytes = Vec::new();
            view.encode_into(&mut bytes);
            parts.push((PART_VIEW, bytes));
        }
        if !self.generated.is_empty() {
            let mut bytes = (self.generated.len() as u16).to_le_bytes().to_vec();
            for generated in &self.generated {
                bytes.extend_from_slice(&(generated.column as u16).to_le_bytes());
                put_counted(&mut bytes, generated.sql.as_bytes());
                put_positions(&mut bytes, &generated.reads);
            }
            parts.push((PART_GENERATED, bytes));
        }
        let comments: Vec<_> = self.comments.iter().filter(|(on, _)| self.has_commented(*on)).collect();
        if !comments.is_empty() {
            let mut bytes = (comments.len() as u16).to_le_bytes().to_vec();
            for (on, text) in comments {
                let (kind, at) = match on {
                    CommentOn::Relation => (0u8, 0),
                    CommentOn::Column(at) => (1, *at as u32),
                    // Ids of objects begin above 0.
                    CommentOn::Index(id) => (2, id.unwrap_or(0)),
                    CommentOn::Constraint(id) => (3, id.unwrap_or(0)),
                };
                bytes.push(kind);
                bytes.extend_from_slice(&at.to_le_bytes());
                put_counted(&mut bytes, text.as_bytes());
            }
            parts.push((PART_COMMENTS, bytes));
        }
        if let Some(sequence) = &self.sequence {
            parts.push((PART_SEQUENCE, sequence.encode()));
        }
        if !self.owned.is_empty() {
            let mut bytes = Vec::new();
            for owned in &self.owned {
                bytes.extend_from_slice(&(owned.column as u16).to_le_bytes());
                bytes.extend_from_slice(&owned.sequence.to_le_bytes());
                bytes.push(owned.identity as u8);
            }
            parts.push((PART_OWNED, bytes));
        }
        if !self.domains.is_empty() {
            parts.push((PART_DOMAINS, numbered(&self.domains)));
        }
        if !self.collations.is_empty() {
            parts.push((PART_COLLATIONS, numbered(&self.collations)));
        }
        let mut details = Vec::new();
        for one in self.index_details.iter().filter(|one| self.has_index(one.index)) {
            one.encode_into(&mut details);
        }
        if !details.is_empty() {
            parts.push((PART_INDEX_DETAILS, details));
        }
        let alike = self.indexes.iter().filter(|index| index.nulls_alike);
        let alike: Vec<u8> = alike.flat_map(|index| index.id.to_le_bytes()).collect();
        if !alike.is_empty() {
            parts.push((PART_NULLS_ALIKE, alike));
        }
        let mut deferrable = Vec::new();
        for index in self.indexes.iter().filter(|index| index.is_deferrable()) {
            deferrable.extend_from_slice(&index.id.to_le_bytes());
            deferrable.push(index.deferral.code());
        }
        if !deferrable.is_empty() {
            parts.push((PART_DEFERRABLE, deferrable));
        }
        let invalid = self.indexes.iter().filter(|index| !index.valid);
        let invalid: Vec<u8> = invalid.flat_map(|index| index.id.to_le_bytes()).collect();
        if !invalid.is_empty() {
            parts.push((PART_INVALID_INDEXES, invalid));
        }
        if let Some(access) = &self.access {
            parts.push((PART_ACCESS, access.encode()));
        }
        if let Some(object) = &self.object {
            parts.push((PART_OBJECT, object.encode()));
        }
        if self.database != FIRST_DATABASE {
            parts.push((PART_DATABASE, self.database.to_le_bytes().to_vec()));
        }
        parts
    }

    /// Reads what [`Definition::encode`] wrote, and refuses what contradicts itself.
    ///
    /// # Errors
    /// `NewerFormat`, `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "table definition");
        let encoding = r.u8()?;
        if !(1..=ENCODING).contains(&encoding) {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("a table definition of unknown encoding {encoding}"),
            ));
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
        let mut indexes: Vec<Index> = Vec::new();
        for _ in 0..r.u16()? {
            let id = r.u32()?;
            let name = text(&mut r)?;
            let flags = r.u8()?;
            let columns = positions(&mut r)?;
            let orders = if flags & 4 != 0 {
                columns.iter().map(|_| read_order(&mut r)).collect::<Result<_>>()?
            } else {
                vec![ColumnOrder::ASCENDING; columns.len()]
            };
            indexes.push(Index {
                id,
                name,
                columns,
                orders,
                unique: flags & 1 != 0,
                constraint: flags & 2 != 0,
                nulls_alike: false,
                deferral: Deferral::Never,
                valid: true,
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
        let (mut view, mut generated, mut comments) = (None, Vec::new(), Vec::new());
        let (mut sequence, mut owned, mut object, mut access) = (None, Vec::new(), None, None);
        let mut database = FIRST_DATABASE;
        let (mut domains, mut collations, mut index_details) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..if encoding > 4 { r.u16()? } else { 0 } {
            let kind = r.u8()?;
            let mut part = Reader::new(r.counted()?, "table definition");
            match kind {
                PART_VIEW => view = Some(Box::new(View::decode(&mut part)?)),
                PART_GENERATED => {
                    for _ in 0..part.u16()? {
                        let (column, sql) = (usize::from(part.u16()?), text(&mut part)?);
                        generated.push(Generated { column, sql, reads: positions(&mut part)? });
                    }
                }
                PART_COMMENTS => {
                    for _ in 0..part.u16()? {
                        let (kind, at) = (part.u8()?, part.u32()?);
                        let on = match kind {
                            0 => CommentOn::Relation,
                            1 => CommentOn::Column(at as usize),
                            2 => CommentOn::Index((at != 0).then_some(at)),
                            3 => CommentOn::Constraint((at != 0).then_some(at)),
                            _ => return Err(r.bad("a comment on nothing that is known")),
                        };
                        comments.push((on, text(&mut part)?));
                    }
                }
                PART_SEQUENCE => sequence = Some(Box::new(Sequence::decode(&mut part)?)),
                PART_DOMAINS => domains = read_numbered(&mut part)?,
                PART_NULLS_ALIKE => {
                    while !part.is_empty() {
                        let id = part.u32()?;
                        let Some(index) = indexes.iter_mut().find(|index| index.id == id) else {
                            return Err(r.bad("an index that does not exist"));
                        };
                        index.nulls_alike = true;
                    }
                }
                PART_DEFERRABLE => {
                    while !part.is_empty() {
                        let (id, code) = (part.u32()?, part.u8()?);
                        let found = indexes.iter_mut().find(|index| index.id == id && index.unique && index.constraint);
                        let Some(index) = found else {
                            return Err(r.bad("a deferrable constraint that does not exist"));
                        };
                        index.deferral = match code {
                            1 => Deferral::Statement,
                            2 => Deferral::Transaction,
                            _ => return Err(r.bad("a constraint that is judged at an unknown time")),
                        };
                    }
                }
                PART_INVALID_INDEXES => {
                    while !part.is_empty() {
                        let id = part.u32()?;
                        // What implements a constraint has all rows.
                        let found = indexes.iter_mut().find(|index| index.id == id && !index.constraint);
                        let Some(index) = found else {
                            return Err(r.bad("an index that is not valid and does not exist"));
                        };
                        index.valid = false;
                    }
                }
                PART_COLLATIONS => collations = read_numbered(&mut part)?,
                PART_INDEX_DETAILS => {
                    while !part.is_empty() {
                        index_details.push(IndexDetails::decode(&mut part)?);
                    }
                }
                PART_ACCESS => access = Some(Box::new(Access::decode(&mut part)?)),
                PART_DATABASE => database = part.u32()?,
                PART_OBJECT => object = Some(Box::new(CatalogObject::decode(&mut part)?)),
                PART_OWNED => {
                    while !part.is_empty() {
                        let (column, sequence) = (usize::from(part.u16()?), part.u32()?);
                        let identity = match part.u8()? {
                            0 => Identity::No,
                            1 => Identity::Always,
                            2 => Identity::ByDefault,
                            _ => return Err(r.bad("an unknown identity of a column")),
                        };
                        owned.push(OwnedSequence { column, sequence, identity });
                    }
                }
                other => {
                    let what = format!("a table definition with a part of unknown kind {other}");
                    return Err(Error::new(ErrorKind::NewerFormat, what));
                }
            }
            if !part.is_empty() {
                return Err(r.bad("more than a part of a definition"));
            }
        }
        let owning: Vec<usize> = owned.iter().map(|owned: &OwnedSequence| owned.column).collect();
        let named = indexes.iter().map(|i| &i.columns).chain(checks.iter().map(|c| &c.columns));
        let named = named.chain(foreign_keys.iter().map(|f| &f.columns)).flatten();
        let named = named.chain(generated.iter().flat_map(|g| g.reads.iter().chain([&g.column])));
        let fine = primary_key
            .iter()
            .chain(named)
            .chain(&owning)
            .chain(domains.iter().chain(&collations).map(|(c, _)| c))
            .chain(index_details.iter().flat_map(|details| &details.included))
            .all(|c| *c < columns.len())
            && columns.iter().all(|c| match c.place {
                Place::Key(at) => (at as usize) < primary_key.len(),
                Place::Value(at) => value_types.get(at as usize) == Some(&c.ty),
            });
        if !fine {
            return Err(r.bad("a column that does not exist"));
        }
        if !r.is_empty() {
            return Err(r.bad("more than a definition"));
        }
        Ok(Self {
            id,
            database,
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
            view,
            generated,
            comments,
            sequence,
            owned,
            domains,
            index_details,
            collations,
            object,
            access,
        })
    }

    /// Whether it has trees: it is neither a view nor a sequence, nor an object of another kind.
    pub fn has_rows(&self) -> bool {
        self.view.is_none() && self.sequence.is_none() && self.object.is_none()
    }

    /// Types of the clustered key: the primary key's, or the hidden row id's.
    pub fn key_columns(&self) -> Vec<KeyColumn> {
        if self.primary_key.is_empty() {
            return vec![KeyColumn::ascending(ColumnType::Int8)];
        }
        self.columns_of(&self.primary_key)
    }

    /// Types of the columns at these positions, which [`Definition::decode`] has checked.
    fn columns_of(&self, positions: &[usize]) -> Vec<KeyColumn> {
        positions.iter().filter_map(|at| self.columns.get(*at)).map(|c| KeyColumn::ascending(c.ty)).collect()
    }

    /// Types and orders of an index's columns, without the clustered key that may follow.
    pub fn index_key(&self, index: &Index) -> Vec<KeyColumn> {
        let columns = index.columns.iter().enumerate();
        columns
            .filter_map(|(at, column)| {
                let ty = self.columns.get(*column)?.ty;
                Some(KeyColumn { ty, order: index.order(at) })
            })
            .collect()
    }

    /// `schema.name`, with the number of its database before it if that is not the first.
    pub fn full_name(&self) -> String {
        match self.database {
            FIRST_DATABASE => format!("{}.{}", self.schema, self.name),
            database => format!("{database}.{}.{}", self.schema, self.name),
        }
    }

    /// Completes the definition.
    pub fn build(mut self, counters: Arc<RowCounters>, valid_from: u64) -> Table {
        // Those of what is gone are gone, also for what takes its place in this transaction.
        let comments = std::mem::take(&mut self.comments);
        self.comments = comments.into_iter().filter(|(on, _)| self.has_commented(*on)).collect();
        let details = std::mem::take(&mut self.index_details);
        self.index_details = details.into_iter().filter(|details| self.has_index(details.index)).collect();
        let key_columns = self.key_columns();
        let index_keys = self.indexes.iter().map(|index| self.index_key(index)).collect();
        Table {
            layout: RowLayout::new(&self.value_types),
            id: self.id,
            database: self.database,
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
            view: self.view,
            generated: self.generated,
            comments: self.comments,
            sequence: self.sequence,
            owned: self.owned,
            domains: self.domains,
            index_details: self.index_details,
            collations: self.collations,
            object: self.object,
            access: self.access,
            key_columns,
            index_keys,
            counters,
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
pub(crate) fn put_positions(out: &mut Vec<u8>, positions: &[usize]) {
    out.extend_from_slice(&(positions.len() as u16).to_le_bytes());
    for at in positions {
        out.extend_from_slice(&(*at as u16).to_le_bytes());
    }
}
pub(crate) fn positions(r: &mut Reader<'_>) -> Result<Vec<usize>> {
    let count = r.u16()?;
    (0..count).map(|_| r.u16().map(usize::from)).collect()
}
/// Numbers that columns have, by position.
fn numbered(columns: &[(usize, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (column, number) in columns {
        out.extend_from_slice(&(*column as u16).to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}
fn read_numbered(r: &mut Reader<'_>) -> Result<Vec<(usize, u32)>> {
    let mut out = Vec::new();
    while !r.is_empty() {
        out.push((usize::from(r.u16()?), r.u32()?));
    }
    Ok(out)
}
fn order_byte(order: ColumnOrder) -> u8 {
    u8::from(order.descending) | u8::from(order.nulls_first) << 1
}
fn read_order(r: &mut Reader<'_>) -> Result<ColumnOrder> {
    match r.u8()? {
        order @ 0..4 => Ok(ColumnOrder { descending: order & 1 != 0, nulls_first: order & 2 != 0 }),
        _ => Err(r.bad("an unknown order of an index column")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_details::Declared;

    /// A definition with something of everything.
    fn full() -> Definition {
        let tree = |n: u32| Tree { root: PageId(u64::from(n) + 7), object: ObjectId(n) };
        let column = |name: &str, place, missing| Column {
            name: name.into(),
            ty: ColumnType::Int8,
            nullable: true,
            default_sql: Some("7".into()),
            place,
            missing,
        };
        let foreign = ForeignKey {
            id: 24,
            name: "f".into(),
            columns: vec![1, 0],
            parent: 20,
            index: Some(21),
            key: vec![1, 0],
            on_delete: ReferentialAction::SetDefault,
            on_update: ReferentialAction::Cascade,
            match_full: true,
            deferrable: true,
            deferred: false,
            validated: true,
        };
        Definition {
            id: 20,
            database: 16_400,
            schema: "public".into(),
            name: "t".into(),
            columns: vec![column("a", Place::Key(0), None), column("b", Place::Value(0), Some(Datum::Int8(9)))],
            primary_key: vec![0],
            primary_key_name: "t_pkey".into(),
            indexes: vec![
                Index {
                    id: 21,
                    name: "i".into(),
                    columns: vec![1, 0],
                    orders: vec![ColumnOrder::DESCENDING, ColumnOrder { descending: false, nulls_first: true }],
                    unique: true,
                    constraint: true,
                    nulls_alike: true,
                    deferral: Deferral::Transaction,
                    valid: true,
                    tree: tree(21),
                },
                Index {
                    id: 22,
                    name: "j".into(),
                    columns: vec![0],
                    orders: vec![ColumnOrder::ASCENDING],
                    unique: true,
                    constraint: false,
                    nulls_alike: false,
                    deferral: Deferral::Never,
                    valid: false,
                    tree: tree(22),
                },
            ],
            checks: vec![Check { id: 23, name: "c".into(), sql: "a > 0".into(), columns: vec![0], validated: false }],
            foreign_keys: vec![foreign],
            tree: tree(20),
            generation: 3,
            value_types: vec![ColumnType::Int8],
            view: None,
            generated: vec![Generated { column: 1, sql: "a * 2".into(), reads: vec![0] }],
            comments: vec![
                (CommentOn::Column(1), "b".into()),
                (CommentOn::Index(Some(21)), "i".into()),
                (CommentOn::Constraint(None), "p".into()),
                (CommentOn::Constraint(Some(21)), "u".into()),
                (CommentOn::Constraint(Some(23)), "c".into()),
            ],
            sequence: None,
            owned: Vec::new(),
            object: None,
            domains: vec![(1, 30)],
            collations: vec![(0, 951)],
            index_details: vec![
                IndexDetails { index: None, included: vec![1], declared: Vec::new() },
                IndexDetails {
                    index: Some(21),
                    included: vec![0, 1],
                    declared: vec![Declared::default(), Declared { class: 4217, collation: 950 }],
                },
            ],
            access: Some(Box::new(Access { columns: vec![(1, Vec::new())], ..Access::of(7) })),
        }
    }

    #[test]
    fn a_definition_comes_back_whole_or_not_at_all() {
        let bytes = full().encode();
        let again = Definition::decode(&bytes).expect("definition");
        assert_eq!(format!("{again:?}"), format!("{:?}", full()));
        for len in 0..bytes.len() {
            assert!(Definition::decode(&bytes[..len]).is_err(), "{len} bytes of {}", bytes.len());
        }
        assert!(Definition::decode(&[bytes.as_slice(), &[0]].concat()).is_err(), "a byte too many");
        let newer = [&[ENCODING + 1], &bytes[1..]].concat();
        assert!(Definition::decode(&newer).is_err_and(|error| error.kind() == ErrorKind::NewerFormat));
    }

    #[test]
    fn what_an_index_says_goes_with_it() {
        let mut definition = full();
        definition.indexes.clear();
        let again = Definition::decode(&definition.encode()).expect("definition");
        assert_eq!(again.index_details, full().index_details[..1]);
        definition.primary_key.clear();
        assert!(definition.build(Arc::default(), 0).index_details.is_empty());
    }

    /// What older programs can read is written as they wrote it.
    #[test]
    fn a_definition_is_written_in_the_oldest_encoding_that_says_it() {
        let mut definition = full();
        let mut encodings = vec![definition.encode()[0]];
        definition.generated.clear();
        definition.comments.clear();
        definition.domains.clear();
        definition.collations.clear();
        definition.indexes[0].nulls_alike = false;
        definition.indexes[0].deferral = Deferral::Never;
        let invalid = definition.encode().len();
        definition.indexes[1].valid = true;
        assert_eq!(definition.encode().len(), invalid - 6, "kind, length and id");
        definition.index_details.clear();
        definition.access = None;
        definition.database = FIRST_DATABASE;
        encodings.push(definition.encode()[0]);
        let ordered = definition.encode().len();
        definition.indexes[0].orders.fill(ColumnOrder::ASCENDING);
        assert_eq!(definition.encode().len(), ordered - 2);
        encodings.push(definition.encode()[0]);
        definition.foreign_keys.clear();
        encodings.push(definition.encode()[0]);
        definition.checks.clear();
        definition.columns[1].missing = None;
        encodings.push(definition.encode()[0]);
        assert_eq!(encodings, [5, 4, 3, 2, 1]);
        let again = Definition::decode(&definition.encode()).expect("definition");
        assert_eq!(format!("{again:?}"), format!("{definition:?}"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |what: &str, spoil: fn(&mut Definition)| {
            let mut definition = full();
            spoil(&mut definition);
            let error = Definition::decode(&definition.encode()).expect_err(what);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}");
        };
        refused("a key of no column", |d| d.primary_key = vec![2]);
        refused("an index of no column", |d| d.indexes[0].columns = vec![5]);
        refused("a deferrable index of no constraint", |d| d.indexes[0].constraint = false);
        refused("a constraint whose index is not valid", |d| d.indexes[1].constraint = true);
        refused("a check of no column", |d| d.checks[0].columns = vec![2]);
        refused("a place outside the key", |d| d.columns[0].place = Place::Key(1));
        refused("a place outside the value", |d| d.columns[1].place = Place::Value(1));
        refused("another type in the value", |d| d.value_types = vec![ColumnType::Int4]);
        refused("a generated column that is none", |d| d.generated[0].column = 2);
        refused("a generated column of no column", |d| d.generated[0].reads = vec![2]);
        refused("an index that includes no column", |d| d.index_details[1].included = vec![2]);
        refused("a collation of no column", |d| d.collations[0].0 = 2);
        refused("a domain of no column", |d| d.domains[0].0 = 2);
        refused("a foreign key of other columns", |d| d.foreign_keys[0].key = vec![0]);
        refused("a foreign key to one column twice", |d| d.foreign_keys[0].key = vec![0, 0]);
        refused("a foreign key of no columns", |d| {
            (d.foreign_keys[0].columns, d.foreign_keys[0].key) = (Vec::new(), Vec::new());
        });
    }
}
