//! What a program's types say of a table, and whether the table that is there is that one.
//!
//! # Invariants
//! 1. A table is used only if its columns are the program's: same names, types, NULLs and order, and the same primary key.
//! 2. It is written only if no rule applies to its rows that SQL alone enforces.

use std::fmt::Write;
use std::sync::Arc;

use resurgam_engine::key::ColumnOrder;
use resurgam_engine::{
    ColumnSpec, ColumnType, Deferral, ErrorKind, Identity, Index, IndexSpec, ObjectKind, Table, TableSpec, Transaction,
    limits,
};

use crate::error::{Error, Result};
use crate::fields::Fields;
use crate::tx::Core;

/// The schema of tables that name none.
pub(crate) const PUBLIC: &str = "public";

/// A table as the program's types have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    schema: String,
    name: String,
    columns: Vec<(String, ColumnType, bool)>,
    key: Vec<String>,
    indexes: Vec<IndexShape>,
}

#[derive(Clone, Debug, PartialEq)]
struct IndexShape {
    /// As the program calls it.
    name: String,
    columns: Vec<String>,
    unique: bool,
}

impl Shape {
    #[doc(hidden)]
    pub fn new(schema: &str, name: &str) -> Self {
        let (columns, key, indexes) = (Vec::new(), Vec::new(), Vec::new());
        Self { schema: schema.to_owned(), name: name.to_owned(), columns, key, indexes }
    }
    #[doc(hidden)]
    #[must_use]
    pub fn column<C: crate::Column>(mut self, name: &str) -> Self {
        self.columns.push((name.to_owned(), C::TYPE, C::NULLABLE));
        self
    }
    #[doc(hidden)]
    #[must_use]
    pub fn key(mut self, columns: &[&str]) -> Self {
        self.key = columns.iter().map(|name| (*name).to_owned()).collect();
        self
    }
    #[doc(hidden)]
    #[must_use]
    pub fn index(mut self, name: &str, columns: &[&str], unique: bool) -> Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        self.indexes.push(IndexShape { name: name.to_owned(), columns, unique });
        self
    }

    /// That of a key/value table: columns `key` and `value`, with numbers where there are several.
    pub(crate) fn of_pair<K: Fields, V: Fields>(schema: &str, name: &str) -> Self {
        let mut shape = Self::new(schema, name);
        for (what, types) in [("key", K::types()), ("value", V::types())] {
            let several = types.len() > 1;
            for (at, (ty, nullable)) in types.into_iter().enumerate() {
                let column = if several { format!("{what}{}", at + 1) } else { what.to_owned() };
                if what == "key" {
                    shape.key.push(column.clone());
                }
                shape.columns.push((column, ty, nullable));
            }
        }
        shape
    }

    /// Its name for errors.
    fn full_name(&self) -> String {
        full_name(&self.schema, &self.name)
    }

    fn position(&self, column: &str) -> Result<usize> {
        self.columns.iter().position(|(name, ..)| name == column).ok_or_else(|| {
            let there_are: Vec<&str> = self.columns.iter().map(|(name, ..)| name.as_str()).collect();
            self.impossible(format!("it has no column \"{column}\", only \"{}\"", there_are.join("\", \"")))
        })
    }

    fn positions(&self, columns: &[String]) -> Result<Vec<usize>> {
        columns.iter().map(|column| self.position(column)).collect()
    }

    fn impossible(&self, what: impl Into<String>) -> Error {
        Error::Definition { table: self.full_name(), what: what.into() }
    }

    /// Refuses what can be no table.
    fn check(&self) -> Result<()> {
        let names = self.columns.iter().map(|(name, ..)| name).chain([&self.schema, &self.name]);
        let stored: Vec<String> = self.indexes.iter().map(|index| self.stored_name(index)).collect();
        let own = [format!("{}_pkey", self.name)];
        for name in names.chain(&stored).chain(&own) {
            if name.is_empty() || name.contains('\0') {
                return Err(self.impossible("a name in it is empty, or has a zero byte"));
            }
            if name.len() > limits::IDENTIFIER_BYTES_MAX {
                let most = limits::IDENTIFIER_BYTES_MAX;
                return Err(
                    self.impossible(format!("the name \"{name}\" has {} bytes, the most is {most}", name.len()))
                );
            }
        }
        if let Some((at, (name, ..))) = self
            .columns
            .iter()
            .enumerate()
            .find(|(at, (name, ..))| self.columns[..*at].iter().any(|(before, ..)| before == name))
        {
            return Err(self.impossible(format!("column number {} is called \"{name}\", as another one", at + 1)));
        }
        if self.key.is_empty() {
            return Err(self.impossible("it has no key"));
        }
        for (what, columns) in std::iter::once(("the key", &self.key))
            .chain(self.indexes.iter().map(|index| (index.name.as_str(), &index.columns)))
        {
            if columns.len() > limits::INDEX_COLUMNS_MAX || columns.is_empty() {
                let most = limits::INDEX_COLUMNS_MAX;
                return Err(self.impossible(format!("{what} has {} columns, 1 to {most} can be", columns.len())));
            }
            let positions = self.positions(columns)?;
            if positions.iter().enumerate().any(|(at, column)| positions[..at].contains(column)) {
                return Err(self.impossible(format!("{what} has a column twice")));
            }
        }
        if let Some(name) = self.positions(&self.key)?.into_iter().map(|at| &self.columns[at]).find(|column| column.2) {
            return Err(
                self.impossible(format!("column \"{}\" of its key is an Option, and a key has no NULLs", name.0))
            );
        }
        if let Some((at, _)) =
            stored.iter().enumerate().find(|(at, name)| stored[..*at].contains(name) || **name == own[0])
        {
            return Err(self.impossible(format!("two indexes are called \"{}\"", self.indexes[at].name)));
        }
        Ok(())
    }

    /// The name of an index in the database, where it is one among those of all tables.
    fn stored_name(&self, index: &IndexShape) -> String {
        format!("{}_{}_{}", self.name, index.name, if index.unique { "key" } else { "idx" })
    }

    fn index_spec(&self, index: &IndexShape) -> Result<IndexSpec> {
        Ok(IndexSpec {
            name: self.stored_name(index),
            columns: self.positions(&index.columns)?,
            orders: Vec::new(),
            unique: index.unique,
            constraint: index.unique,
            nulls_alike: false,
            deferral: Deferral::Never,
        })
    }

    fn spec(&self) -> Result<TableSpec> {
        let column = |(name, ty, nullable): &(String, ColumnType, bool)| ColumnSpec {
            name: name.clone(),
            ty: *ty,
            nullable: *nullable,
            default_sql: None,
        };
        Ok(TableSpec {
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: self.columns.iter().map(column).collect(),
            primary_key: Some((format!("{}_pkey", self.name), self.positions(&self.key)?)),
            indexes: self.indexes.iter().map(|index| self.index_spec(index)).collect::<Result<_>>()?,
        })
    }

    /// Columns and key in SQL's words.
    fn describe(&self) -> String {
        describe(self.columns.iter().map(|(name, ty, nullable)| (name.as_str(), *ty, *nullable)), &self.key)
    }
}

/// A table's name as errors say it.
fn full_name(schema: &str, name: &str) -> String {
    if schema == PUBLIC { format!("\"{name}\"") } else { format!("\"{schema}\".\"{name}\"") }
}

fn describe<'n>(columns: impl Iterator<Item = (&'n str, ColumnType, bool)>, key: &[String]) -> String {
    let mut out = String::from("(");
    for (name, ty, nullable) in columns {
        let _ = write!(out, "{name} {ty}{}, ", if nullable { "" } else { " not null" });
    }
    match key.is_empty() {
        true => out.push_str("no primary key)"),
        false => {
            let _ = write!(out, "primary key ({}))", key.join(", "));
        }
    }
    out
}

fn describe_index(unique: bool, columns: &str) -> String {
    format!("{}index ({columns})", if unique { "unique " } else { "" })
}

/// A table that was found to be the program's.
#[derive(Debug)]
pub(crate) struct Known {
    pub table: Arc<Table>,
    /// Its name for errors.
    pub name: String,
    /// Positions of the program's columns among the table's.
    pub columns: Vec<usize>,
    /// Names by which the program knows indexes, and their positions.
    pub indexes: Vec<(String, usize)>,
    /// Whether it has all indexes that the program names.
    pub is_whole: bool,
    /// Why it is not written here.
    pub read_only: Option<String>,
}

/// The table that `shape` describes, as the transaction sees it; made, with its indexes, if it is missing and `make` says so.
pub(crate) fn find(core: &Core, shape: &Shape, make: bool) -> Result<Known> {
    shape.check()?;
    let tx = &core.tx;
    let mut table = match tx.table(&shape.schema, &shape.name)? {
        Some(table) => table,
        None if make => create(core, shape)?,
        None => return Err(Error::NoTable { table: shape.full_name() }),
    };
    compare_columns(shape, &table)?;
    let mut missing = Vec::new();
    for index in &shape.indexes {
        match table.indexes.iter().find(|there| there.name == shape.stored_name(index)) {
            Some(there) => compare_index(shape, index, &table, there)?,
            None => missing.push(index),
        }
    }
    let is_whole = make || missing.is_empty();
    if make {
        for index in missing {
            let spec = shape.index_spec(index)?;
            table = core.settle(&shape.full_name(), None, || tx.create_index(&table, spec.clone()))?;
        }
    }
    let position = |name: &str| table.indexes.iter().position(|there| there.name == name);
    let own = shape.indexes.iter().map(|index| (index.name.clone(), position(&shape.stored_name(index))));
    let own = own.filter_map(|(name, at)| at.map(|at| (name, at)));
    // Those that SQL made are known by their whole names, unless the program calls one of its own so, which may be missing.
    let is_own = |name: &str| shape.indexes.iter().any(|own| own.name == name);
    let others = table.indexes.iter().enumerate().filter(|(_, index)| index.valid && !is_own(&index.name));
    let others = others.map(|(at, index)| (index.name.clone(), at));
    let indexes = own.chain(others).collect();
    Ok(Known {
        name: shape.full_name(),
        columns: table.shown_columns().collect(),
        indexes,
        is_whole,
        read_only: rules_of_sql(tx, &table)?,
        table,
    })
}

fn create(core: &Core, shape: &Shape) -> Result<Arc<Table>> {
    let tx = &core.tx;
    let name = shape.full_name();
    let no_schema = || Error::NoSchema { schema: shape.schema.clone() };
    if shape.schema == PUBLIC {
        core.settle(&name, None, || tx.keep_public())?;
    }
    // Of `public` it says at most that it was dropped: that is the first bit of what SQL keeps of a schema.
    match tx.object_named(ObjectKind::SCHEMA, "", &shape.schema)? {
        Some(entry) => {
            let body = entry.object.as_ref().map_or(&[][..], |object| &object.body);
            if body.first().is_some_and(|flags| flags & 1 != 0) {
                return Err(no_schema());
            }
            core.settle(&name, None, || tx.keep(&entry))?;
        }
        None if shape.schema == PUBLIC => {}
        None => return Err(no_schema()),
    }
    let spec = shape.spec()?;
    core.settle_engine(&name, None, || tx.create_table(spec.clone())).map_err(|error| match error {
        Error::Engine(error) if error.kind() == ErrorKind::DuplicateTable => match core.is_taken(&spec) {
            // Somebody made it since the transaction began: the next one sees it.
            false => core.conflict(&name, error.message()),
            true => Error::Mismatch {
                table: name.clone(),
                expected: shape.describe(),
                found: format!("another thing of that name: {}", error.message()),
            },
        },
        other => other,
    })
}

fn compare_columns(shape: &Shape, table: &Table) -> Result<()> {
    let shown = |at: usize| table.columns.get(at).map(|column| (column.name.as_str(), column.ty, column.nullable));
    let there: Vec<_> = table.shown_columns().filter_map(shown).collect();
    let key: Vec<String> =
        table.primary_key.iter().filter_map(|at| shown(*at)).map(|(name, ..)| name.to_owned()).collect();
    let same = there.len() == shape.columns.len()
        && there.iter().zip(&shape.columns).all(|(a, b)| (a.0, a.1, a.2) == (b.0.as_str(), b.1, b.2))
        && key == shape.key;
    if same {
        return Ok(());
    }
    Err(Error::Mismatch {
        table: shape.full_name(),
        expected: shape.describe(),
        found: describe(there.into_iter(), &key),
    })
}

fn compare_index(shape: &Shape, index: &IndexShape, table: &Table, there: &Index) -> Result<()> {
    let columns: Vec<&str> =
        there.columns.iter().filter_map(|at| table.columns.get(*at)).map(|column| column.name.as_str()).collect();
    let is_unique = there.keeps_unique();
    if columns == index.columns && is_unique == index.unique && is_plain(there) && !there.nulls_alike && there.valid {
        return Ok(());
    }
    let text = |unique, columns: String| describe_index(unique, &columns);
    Err(Error::Mismatch {
        table: shape.full_name(),
        expected: format!("\"{}\", {}", there.name, text(index.unique, index.columns.join(", "))),
        found: format!(
            "{}{}",
            text(is_unique, columns.join(", ").replace('\0', "an expression ")),
            match (is_plain(there), there.valid) {
                (_, false) => ", not valid",
                (true, true) => "",
                (false, true) => ", not ascending",
            }
        ),
    })
}

/// Whether all columns of an index ascend, NULLs last.
pub(crate) fn is_plain(index: &Index) -> bool {
    (0..index.columns.len()).all(|at| index.order(at) == ColumnOrder::ASCENDING)
}

/// Why rows of the table must not be written here, if so: the engine stores what it is given.
fn rules_of_sql(tx: &Transaction, table: &Table) -> Result<Option<String>> {
    let of = |what: &str, name: &str| Some(format!("{what} \"{name}\" is kept by SQL"));
    if let Some(check) = table.checks.first() {
        return Ok(of("its CHECK constraint", &check.name));
    }
    if let Some(foreign) = table.foreign_keys.first() {
        return Ok(of("its FOREIGN KEY", &foreign.name));
    }
    if let Some(other) = tx.referrers(table.id)?.first() {
        return Ok(of("a FOREIGN KEY that refers to it, of table", &other.name));
    }
    if let Some(index) = table.indexes.iter().find(|index| index.is_deferrable()) {
        return Ok(of("its DEFERRABLE constraint", &index.name));
    }
    let name_of = |at: usize| table.columns.get(at).map_or("?", |column| column.name.as_str());
    if let Some(generated) = table.generated.first() {
        return Ok(of("its generated column", name_of(generated.column)));
    }
    if let Some((at, _)) = table.domains.first() {
        return Ok(of("the domain of its column", name_of(*at)));
    }
    if let Some(at) = (0..table.columns.len()).find(|at| table.identity(*at) == Identity::Always) {
        return Ok(of("its column GENERATED ALWAYS", name_of(at)));
    }
    if table.columns.iter().any(resurgam_engine::Column::is_hidden) {
        return Ok(Some("it has an index on an expression, or a partial one".to_owned()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(shape: &Shape, part: &str) {
        let error = shape.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_can_be_no_table_is_refused_by_name() {
        let shape = || Shape::new(PUBLIC, "t").column::<i64>("id").column::<Option<String>>("name");
        shape().key(&["id"]).index("by_name", &["name"], true).check().unwrap();
        refused(&shape(), "it has no key");
        refused(&shape().key(&["ident"]), "it has no column \"ident\", only \"id\", \"name\"");
        refused(&shape().key(&["name"]), "column \"name\" of its key is an Option");
        refused(&shape().key(&["id", "id"]), "the key has a column twice");
        refused(&shape().column::<i32>("id").key(&["id"]), "column number 3 is called \"id\"");
        refused(&shape().key(&["id"]).index("x", &["y"], false), "no column \"y\"");
        refused(&shape().key(&["id"]).index("x", &[], false), "x has 0 columns");
        refused(
            &shape().key(&["id"]).index("x", &["id"], true).index("x", &["name"], true),
            "two indexes are called \"x\"",
        );
        refused(&Shape::new(PUBLIC, "").column::<i64>("id").key(&["id"]), "empty");
        refused(&Shape::new(PUBLIC, &"t".repeat(64)).column::<i64>("id").key(&["id"]), "the most is 63");
        refused(&shape().key(&["id"]).index(&"x".repeat(60), &["id"], false), "the most is 63");
    }

    #[test]
    fn pairs_have_numbered_columns_where_there_are_several() {
        let of = |shape: Shape| shape.describe();
        assert_eq!(
            of(Shape::of_pair::<u64, String>(PUBLIC, "t")),
            "(key numeric(20,0) not null, value text not null, primary key (key))"
        );
        assert_eq!(
            of(Shape::of_pair::<(i32, Vec<u8>), ()>(PUBLIC, "t")),
            "(key1 integer not null, key2 bytea not null, primary key (key1, key2))"
        );
        assert_eq!(
            of(Shape::of_pair::<i16, (Option<f64>, bool)>(PUBLIC, "t")),
            "(key smallint not null, value1 double precision, value2 boolean not null, primary key (key))"
        );
    }
}
