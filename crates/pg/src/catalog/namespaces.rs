//! Schemas as the catalogs show them, and how their entries in the engine's catalog are read.
//!
//! `public` is there from the beginning, without an entry. It gets one when it is changed for the first time: it has a comment,
//! for instance, or was dropped, which the entry says then.
//!
//! ```text
//! body of a schema's entry    flags u8: 1 = it was dropped (`public` only)
//! ```

use std::sync::Arc;

use resurgam_engine::{CommentOn, Table};

use super::{INFORMATION_SCHEMA_OID, Model, PG_CATALOG_OID, PUBLIC_OID, relation_oid};
use crate::search_path::{PG_CATALOG, PUBLIC};

/// Oid of `pg_namespace`.
pub const CLASS_SCHEMA: u32 = 2615;

const DROPPED: u8 = 1;

/// The body of a schema's entry.
pub fn schema_body(is_dropped: bool) -> Vec<u8> {
    vec![if is_dropped { DROPPED } else { 0 }]
}

/// Whether an entry says that the schema is no more.
pub fn is_dropped(entry: &Table) -> bool {
    entry.object.as_ref().is_some_and(|object| object.body.first().is_some_and(|flags| flags & DROPPED != 0))
}

/// A schema that is the system's: `pg_catalog`, `information_schema`, and what has no PostgreSQL name.
pub fn is_system_schema(name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema" | "sys")
}

/// Oid of a schema that types are in.
pub(super) fn schema_oid(name: &str) -> u32 {
    match name {
        PG_CATALOG => PG_CATALOG_OID,
        PUBLIC => PUBLIC_OID,
        _ => 0,
    }
}

/// A row of `pg_namespace`.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub oid: u32,
    pub name: String,
    /// Its entry in the engine's catalog, if it has one.
    pub entry: Option<Arc<Table>>,
}

impl Namespace {
    fn system(oid: u32, name: &str) -> Self {
        Self { oid, name: name.to_owned(), entry: None }
    }
    /// What COMMENT said of it.
    pub fn comment(&self) -> Option<&str> {
        let comments = self.entry.as_ref().map(|entry| entry.comments.as_slice()).unwrap_or_default();
        // As it is there from the beginning.
        let first = (self.entry.is_none() && self.name == PUBLIC).then_some("standard public schema");
        first.or_else(|| comments.iter().find(|(on, _)| *on == CommentOn::Relation).map(|(_, text)| text.as_str()))
    }
}

/// All schemas, of their entries.
pub(super) fn namespaces_of(entries: &[Arc<Table>]) -> Vec<Namespace> {
    let mut all = vec![
        Namespace::system(99, "pg_toast"),
        Namespace::system(PG_CATALOG_OID, PG_CATALOG),
        Namespace::system(INFORMATION_SCHEMA_OID, "information_schema"),
    ];
    if !entries.iter().any(|entry| entry.name == PUBLIC) {
        all.push(Namespace::system(PUBLIC_OID, PUBLIC));
    }
    all.extend(entries.iter().filter(|entry| !is_dropped(entry)).map(|entry| Namespace {
        oid: if entry.name == PUBLIC { PUBLIC_OID } else { relation_oid(entry.id) },
        name: entry.name.clone(),
        entry: Some(Arc::clone(entry)),
    }));
    all
}

impl Model {
    /// Whether there is a schema of that name.
    pub fn has_schema(&self, name: &str) -> bool {
        self.namespaces.iter().any(|known| known.name == name)
    }
    /// Oid of a schema; 0 if there is none.
    pub fn schema_oid(&self, name: &str) -> u32 {
        self.namespaces.iter().find(|known| known.name == name).map_or(0, |known| known.oid)
    }
    /// The schemas of the search path that exist; the first of them is where things are made.
    pub fn current_schemas(&self, implied: bool) -> Vec<String> {
        let exists = |name: &&str| self.has_schema(name);
        match implied {
            true => self.path.schemas().filter(exists).map(str::to_owned).collect(),
            false => self.path.listed().filter(exists).map(str::to_owned).collect(),
        }
    }
}
