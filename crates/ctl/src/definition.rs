//! Encoded table definitions, as the engine's `table.rs` writes them.
//!
//! ```text
//! encoding u8 = 1 to 3 | table id u32 | generation u64
//! schema, name, primary key name            counted text
//! tree                                      root page u64, object u32
//! primary key                               count u16, column positions u16 each
//! value types                               count u16, column types
//! columns                                   count u16, each: name, type, flags u8, place u16,
//!                                           [DEFAULT] SQL text, [missing] counted: a row of
//!                                           one column
//! indexes                                   count u16, each: id u32, name, flags u8,
//!                                           columns (count u16, positions u16), tree
//! checks (encoding 2, 3)                    count u16, each: id u32, name, SQL text, flags u8,
//!                                           columns (count u16, positions u16)
//! foreign keys (encoding 3)                 count u16, each: id u32, name, columns (count u16,
//!                                           positions u16), referenced table u32, its index u32
//!                                           (0 = primary key), positions in that key (count u16,
//!                                           u16 each), ON DELETE u8, ON UPDATE u8, flags u8
//! column flags                              1 in the value (else in the key), 2 nullable, 4 DEFAULT,
//!                                           8 rows stored before it have a value (missing)
//! check flags                               1 validated
//! foreign key actions                       0 NO ACTION, 1 RESTRICT, 2 CASCADE, 3 SET NULL, 4 SET DEFAULT
//! foreign key flags                         1 MATCH FULL, 2 deferrable, 4 initially deferred, 8 validated
//! index flags                               1 unique, 2 implements a constraint
//! ```

use resurgam_base::{Error, ErrorKind, ObjectId, PageId, Result};
use resurgam_page::codec::Reader;
use resurgam_page::key::KeyColumn;
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum};

use crate::walk::Tree;

const ENCODING_KNOWN: u8 = 3;

/// Where a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Key(u16),
    Value(u16),
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub ty: ColumnType,
    pub nullable: bool,
    pub default_sql: Option<String>,
    pub place: Place,
    /// What rows have in it that were stored before it was added.
    pub missing: Option<Datum>,
}

#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub id: u32,
    pub name: String,
    pub columns: Vec<usize>,
    pub unique: bool,
    pub constraint: bool,
    pub tree: Tree,
}

#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub name: String,
    pub sql: String,
    pub columns: Vec<usize>,
    pub validated: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub name: String,
    pub columns: Vec<usize>,
    /// The referenced table.
    pub parent: u32,
    /// Its index; 0 = primary key.
    pub index: u32,
    pub validated: bool,
}

/// A decoded definition.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub id: u32,
    pub generation: u64,
    pub schema: String,
    pub name: String,
    pub primary_key_name: String,
    pub tree: Tree,
    pub primary_key: Vec<usize>,
    pub value_types: Vec<ColumnType>,
    pub columns: Vec<Column>,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
}

impl Definition {
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "table definition");
        let encoding = r.u8()?;
        if !(1..=ENCODING_KNOWN).contains(&encoding) {
            return Err(Error::new(ErrorKind::NewerFormat, format!("table definition of unknown encoding {encoding}")));
        }
        let (id, generation) = (r.u32()?, r.u64()?);
        let (schema, name, primary_key_name) = (text(&mut r)?, text(&mut r)?, text(&mut r)?);
        let tree = tree(&mut r)?;
        let primary_key = positions(&mut r)?;
        let count = r.u16()?;
        let value_types = (0..count).map(|_| ColumnType::decode(&mut r)).collect::<Result<Vec<_>>>()?;
        let count = r.u16()?;
        let columns = (0..count).map(|_| column(&mut r)).collect::<Result<Vec<_>>>()?;
        let count = r.u16()?;
        let indexes = (0..count).map(|_| index(&mut r)).collect::<Result<Vec<_>>>()?;
        let count = if encoding > 1 { r.u16()? } else { 0 };
        let checks = (0..count).map(|_| check(&mut r)).collect::<Result<Vec<_>>>()?;
        let count = if encoding > 2 { r.u16()? } else { 0 };
        let foreign_keys = (0..count).map(|_| foreign_key(&mut r)).collect::<Result<Vec<_>>>()?;
        let of_checks = checks.iter().flat_map(|c| &c.columns).chain(foreign_keys.iter().flat_map(|f| &f.columns));
        let named = primary_key.iter().chain(indexes.iter().flat_map(|i| &i.columns)).chain(of_checks);
        let fine = named.copied().all(|c| c < columns.len())
            && columns.iter().all(|c| match c.place {
                Place::Key(at) => usize::from(at) < primary_key.len(),
                Place::Value(at) => value_types.get(usize::from(at)) == Some(&c.ty),
            });
        if !fine || !r.is_empty() {
            return Err(r.bad("it contradicts itself"));
        }
        Ok(Self {
            id,
            generation,
            schema,
            name,
            primary_key_name,
            tree,
            primary_key,
            value_types,
            columns,
            indexes,
            checks,
            foreign_keys,
        })
    }

    /// Types of the clustered key: the primary key's, or the hidden row id's.
    pub fn key_columns(&self) -> Vec<KeyColumn> {
        if self.primary_key.is_empty() {
            return vec![KeyColumn::ascending(ColumnType::Int8)];
        }
        self.columns_of(&self.primary_key)
    }

    /// Types of the columns at these positions.
    pub fn columns_of(&self, positions: &[usize]) -> Vec<KeyColumn> {
        positions.iter().filter_map(|at| self.columns.get(*at)).map(|c| KeyColumn::ascending(c.ty)).collect()
    }

    /// `schema.name`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

fn text(r: &mut Reader<'_>) -> Result<String> {
    let bytes = r.counted()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| r.bad("a name that is not UTF-8"))
}

fn tree(r: &mut Reader<'_>) -> Result<Tree> {
    Ok(Tree { root: PageId(r.u64()?), object: ObjectId(r.u32()?) })
}

fn positions(r: &mut Reader<'_>) -> Result<Vec<usize>> {
    let count = r.u16()?;
    (0..count).map(|_| r.u16().map(usize::from)).collect()
}

fn column(r: &mut Reader<'_>) -> Result<Column> {
    let (name, ty) = (text(r)?, ColumnType::decode(r)?);
    let (flags, at) = (r.u8()?, r.u16()?);
    let place = if flags & 1 == 0 { Place::Key(at) } else { Place::Value(at) };
    let default_sql = if flags & 4 != 0 { Some(text(r)?) } else { None };
    let missing = if flags & 8 != 0 { Some(RowLayout::new(&[ty]).column(r.counted()?, 0)?.to_owned()) } else { None };
    Ok(Column { name, ty, nullable: flags & 2 != 0, default_sql, place, missing })
}

fn check(r: &mut Reader<'_>) -> Result<Check> {
    let (_id, name, sql, flags) = (r.u32()?, text(r)?, text(r)?, r.u8()?);
    Ok(Check { name, sql, columns: positions(r)?, validated: flags & 1 != 0 })
}

fn foreign_key(r: &mut Reader<'_>) -> Result<ForeignKey> {
    let (_id, name, columns) = (r.u32()?, text(r)?, positions(r)?);
    let (parent, index, key) = (r.u32()?, r.u32()?, positions(r)?);
    let (on_delete, on_update, flags) = (r.u8()?, r.u8()?, r.u8()?);
    if key.len() != columns.len() || on_delete > 4 || on_update > 4 {
        return Err(r.bad("a foreign key contradicts itself"));
    }
    Ok(ForeignKey { name, columns, parent, index, validated: flags & 8 != 0 })
}

fn index(r: &mut Reader<'_>) -> Result<Index> {
    let (id, name, flags) = (r.u32()?, text(r)?, r.u8()?);
    let (columns, tree) = (positions(r)?, tree(r)?);
    Ok(Index { id, name, columns, unique: flags & 1 != 0, constraint: flags & 2 != 0, tree })
}
