//! Several databases in one: namespaces of definitions, for sessions that see one each.
//!
//! There is one log, one catalog, one recovery, whatever the number of databases; each definition says which one it is
//! of. A handle ([`Database::in_database`]) gives transactions that find, list and make definitions of one of them only:
//! a name is a key of that database, an id of another one's is not found. What databases there are, and what they are
//! called, is said by objects of kind [`ObjectKind::DATABASE`], which like roles all of them see; their bodies are the
//! business of the layer above.
//!
//! # Invariants
//! 1. *No definition is of two databases.* It gets that of the transaction that makes it and keeps it; objects of shared
//!    kinds ([`ObjectKind::is_shared`]) are stored as if they were the first one's.
//! 2. *Ids are unique over all of them*, those of databases among them, and are not used again: what a transaction, a
//!    plan, or a lock knows by an id is of one database for ever.
//! 3. *What is left of a dropped database is in nobody's way.* Its object goes first, in one commit; its definitions go
//!    afterwards, some at a time ([`Transaction::drop_contents`]), which a crash may interrupt: nobody can get into it.

use std::collections::BTreeSet;
use std::sync::Arc;

use resurgam_base::{ObjectId, Result};

use crate::catalog_object::ObjectKind;
use crate::catalog_row::{name_key, object_name_key};
use crate::database::Database;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, attempt};

/// The database that there is from the start, by PostgreSQL's oid for it. What was stored before there were others is its.
pub const FIRST_DATABASE: u32 = 5;

/// In the id that stands among the locks for the schema `public` of a database.
const PUBLIC_OF: u32 = 1 << 31;

/// What stands for `public` of a database among the locks: in the first one its oid in PostgreSQL, below all ids that are
/// given to objects; in others what is above all of them.
pub(crate) fn public_lock(database: u32) -> ObjectId {
    const PUBLIC: ObjectId = ObjectId(2200);
    if database == FIRST_DATABASE { PUBLIC } else { ObjectId(PUBLIC_OF | database) }
}

/// The database whose `public` an id among the locks stands for ([`Database::locks`]).
pub fn public_of(object: ObjectId) -> Option<u32> {
    match object.0 & PUBLIC_OF {
        0 => (object == public_lock(FIRST_DATABASE)).then_some(FIRST_DATABASE),
        _ => Some(object.0 & !PUBLIC_OF),
    }
}

/// Among which names one is, of those of all databases. In memory only; no name of a schema holds a zero byte.
pub(crate) fn namespace_in(database: u32, namespace: String) -> String {
    if database == FIRST_DATABASE { namespace } else { format!("\0d{database}\0{namespace}") }
}

impl Database {
    /// The same, with transactions that are in another of its databases. Whether there is one is the caller's care.
    pub fn in_database(&self, database: u32) -> Self {
        let mut other = self.clone();
        other.2 = database;
        other
    }

    /// The database that its transactions are in.
    pub fn database(&self) -> u32 {
        self.2
    }

    /// The databases that have something, by what is committed now: those that were dropped and are not emptied yet among
    /// them.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn databases_with_contents(&self) -> Result<BTreeSet<u32>> {
        self.databases_with(|_| true)
    }

    /// Databases with something in them that counts, committed, in order of their ids.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn databases_with(&self, counts: impl Fn(&Table) -> bool) -> Result<BTreeSet<u32>> {
        let definitions = self.inner().catalog.committed(self)?;
        let found = definitions.by_id.values().filter(|entry| !entry.is_shared() && counts(entry));
        Ok(found.map(|entry| entry.database).collect())
    }

    /// The database that something is of, by its id, if it is committed and no object of the server.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn database_of(&self, id: u32) -> Result<Option<u32>> {
        let definitions = self.inner().catalog.committed(self)?;
        Ok(definitions.by_id.get(&id).filter(|entry| !entry.is_shared()).map(|entry| entry.database))
    }

    /// Whether that is the id of an object that all databases see, if it is committed.
    pub fn is_shared(&self, id: u32) -> bool {
        let definitions = self.inner().catalog.committed(self);
        definitions.is_ok_and(|definitions| definitions.by_id.get(&id).is_some_and(|entry| entry.is_shared()))
    }

    /// The database of each object that owns pages of a table or an index, if it is another than the first.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn databases_of_pages(&self) -> Result<hashbrown::HashMap<ObjectId, u32>> {
        let definitions = self.inner().catalog.committed(self)?;
        let others = definitions.by_id.values().filter(|entry| entry.is_table() && entry.database != FIRST_DATABASE);
        Ok(others
            .flat_map(|entry| {
                let indexes = entry.indexes.iter().map(|index| index.tree.object);
                indexes.chain([entry.tree.object]).map(|object| (object, entry.database))
            })
            .collect())
    }
}

impl Table {
    /// Whether all databases see it.
    pub fn is_shared(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.kind.is_shared())
    }

    /// The database that it is of; `None`: all databases see it.
    pub fn database(&self) -> Option<u32> {
        (!self.is_shared()).then_some(self.database)
    }
}

impl Transaction {
    /// The database that it is in.
    pub fn database(&self) -> u32 {
        self.0.db.database()
    }

    /// The database that an object of a kind is stored under.
    pub(crate) fn database_of(&self, kind: ObjectKind) -> u32 {
        if kind.is_shared() { FIRST_DATABASE } else { self.database() }
    }

    /// Whether its database has that entry.
    pub(crate) fn is_here(&self, entry: &Table) -> bool {
        entry.database == self.database() || entry.is_shared()
    }

    /// The entries of all databases, in what it sees, by id.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn entries_everywhere(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries_in_no_order()?;
        all.sort_by_key(|entry| entry.id);
        Ok(all)
    }

    pub(crate) fn entries_in_no_order(&self) -> Result<Vec<Arc<Table>>> {
        let others = self.others()?;
        Ok(self.0.state.lock().catalog.tables(&others))
    }

    /// Drops up to `most` entries of a database that nobody is in any more, whatever depends on what, and gives back how
    /// many these were: fewer than `most` are the last.
    ///
    /// # Errors
    /// Those of [`Transaction::lock_for_change`], and of writing.
    pub fn drop_contents(&self, database: u32, most: usize) -> Result<Attempt<usize>> {
        let _operation = self.operation()?;
        let mut all = self.entries_in_no_order()?;
        all.retain(|entry| entry.database() == Some(database));
        all.truncate(most);
        for entry in &all {
            attempt!(self.lock_exclusive(entry));
        }
        for entry in &all {
            match &entry.object {
                Some(object) => {
                    let schema = object.kind.naming_schema(&entry.schema);
                    self.release_key(&object_name_key(database, object.kind.0, schema, &entry.name))?;
                }
                None => {
                    let key = Some(&entry.primary_key_name).filter(|name| !name.is_empty());
                    let names = entry.indexes.iter().map(|index| &index.name).chain(key).chain([&entry.name]);
                    for name in names {
                        self.release_key(&name_key(database, &entry.schema, name))?;
                    }
                }
            }
            if entry.is_table() {
                self.drop_rows(entry)?;
                for index in &entry.indexes {
                    self.drop_tree(index.tree)?;
                }
            }
            self.remove_definition(entry)?;
        }
        Ok(Attempt::Done(all.len()))
    }
}
