//! Which relation a name means.
//!
//! A name without a schema is that of the first schema of the search path that has a relation of the name, of whatever kind:
//! tables, views, sequences and indexes share their names.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use resurgam_engine::{ObjectKind, Table, Transaction};

use crate::parse::names::{no_schema, parts_of};
use crate::pg::catalog::{is_dropped, is_system_schema, system_relation};
use crate::pg::functions::quote_ident;
use crate::pg::search_path::{PUBLIC, SearchPath, is_temporary};
use crate::wire::SqlError;

/// Whether there is a schema of that name.
///
/// # Errors
/// Those of reading the catalog.
pub(crate) fn has_schema(txn: &Transaction, schema: &str) -> Result<bool, SqlError> {
    if is_system_schema(schema) {
        return Ok(true);
    }
    Ok(match txn.object_named(ObjectKind::SCHEMA, "", schema)? {
        Some(entry) => !is_dropped(&entry),
        None => schema == PUBLIC,
    })
}

/// Names as a transaction sees them, along a path.
pub(crate) struct Lookup<'t> {
    pub txn: &'t Transaction,
    pub path: Arc<SearchPath>,
}

impl Lookup<'_> {
    /// The first schema of the path that has a relation of that name.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn schema_of(&self, name: &str) -> Result<Option<String>, SqlError> {
        for schema in self.path.schemas() {
            let found = match is_system_schema(schema) {
                true => system_relation(schema, name).is_some(),
                false => self.txn.relation(schema, name)?.is_some(),
            };
            if found {
                return Ok(Some(schema.to_owned()));
            }
        }
        Ok(None)
    }

    /// The name of a relation, with its schema where that is needed to find it.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn shown(&self, relation: &Table) -> Result<String, SqlError> {
        let name = quote_ident(&relation.name);
        match self.schema_of(&relation.name)? {
            Some(schema) if schema == relation.schema => Ok(name),
            _ => Ok(format!("{}.{name}", quote_ident(&relation.schema))),
        }
    }

    /// The schema that a name's schema means: `pg_temp` is the session's own.
    ///
    /// # Errors
    /// `0A000` for the temporary schema of another session.
    pub(crate) fn reachable(&self, schema: &str) -> Result<String, SqlError> {
        let schema = self.path.meant(schema);
        // What is stored names its own session's.
        let is_stored = Arc::ptr_eq(&self.path, &SearchPath::stored());
        if is_temporary(schema) && self.path.temporary() != Some(schema) && !is_stored {
            return Err(SqlError::unsupported("cannot access temporary tables of other sessions"));
        }
        Ok(schema.to_owned())
    }

    /// Schema and name of the relation that a name means. If it has no schema and is found nowhere, the schema is empty,
    /// as no schema's name is.
    ///
    /// # Errors
    /// Those of [`parts_of`] and of reading the catalog.
    pub(crate) fn place(&self, name: &ObjectName) -> Result<(String, String), SqlError> {
        match parts_of(name)? {
            (Some(schema), name) => Ok((self.reachable(&schema)?, name)),
            (None, name) => Ok((self.schema_of(&name)?.unwrap_or_default(), name)),
        }
    }

    /// That there is no relation of a name: `42P01`, or `3F000` where there is no schema of the name that it has. `word` is
    /// what was expected.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn undefined(&self, name: &ObjectName, word: &str) -> Result<SqlError, SqlError> {
        let (schema, name) = parts_of(name)?;
        let shown = match schema {
            Some(schema) if !has_schema(self.txn, &schema)? => return Ok(no_schema(&schema)),
            Some(schema) => format!("{schema}.{name}"),
            None => name,
        };
        Ok(SqlError::new("42P01", format!("{word} \"{shown}\" does not exist")))
    }

    /// The table that a name means.
    ///
    /// # Errors
    /// `42P01`, `3F000`; `42501` for one of the system's, `42809` for what is no table.
    pub(crate) fn table(&self, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        let (schema, table) = self.place(name)?;
        if is_system_schema(&schema) && system_relation(&schema, &table).is_some() {
            return Err(SqlError::new("42501", format!("permission denied: \"{table}\" is a system catalog")));
        }
        if let Some(found) = self.txn.table(&schema, &table)? {
            return Ok(found);
        }
        if self.txn.view_named(&schema, &table)?.is_some() || self.txn.sequence_named(&schema, &table)?.is_some() {
            return Err(SqlError::new("42809", format!("\"{table}\" is not a table")));
        }
        Err(self.undefined(name, "relation")?)
    }
}

pub(crate) fn ident_text(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// Position of a column, or `42703`.
pub(crate) fn find_column(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    let name = ident_text(ident);
    table.columns.iter().position(|c| c.name == name).ok_or_else(|| {
        SqlError::new("42703", format!("column \"{name}\" of relation \"{}\" does not exist", table.name))
    })
}
