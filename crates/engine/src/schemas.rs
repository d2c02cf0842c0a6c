//! Schemas, as far as the engine has to do with them: what is in one, how it moves, and who may drop one.
//!
//! A schema is an object of the catalog ([`ObjectKind::SCHEMA`](crate::ObjectKind::SCHEMA)); definitions name theirs by its
//! name. Whoever makes something in a schema keeps it ([`Transaction::keep`]) until the transaction has ended; whoever drops
//! or renames one locks it and looks afterwards for what is in it, in what is committed by now and in what is its own. So either
//! finds the other. `public` may be there without an object: it has a lock of its own instead.

use std::sync::Arc;

use resurgam_base::Result;
use resurgam_txn::Lock;

use crate::catalog::check_name;
use crate::databases::public_lock;
use crate::definition::Definition;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction};

impl Transaction {
    /// Everything that a schema has, in what is committed by now and in its own changes, in the order of their making.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn in_schema(&self, schema: &str) -> Result<Vec<Arc<Table>>> {
        let newest = self.0.db.inner().catalog.committed(&self.0.db)?;
        let mut all = self.0.state.lock().catalog.tables(&newest);
        all.retain(|entry| entry.schema == schema && self.is_here(entry));
        all.sort_by_key(|entry| entry.id);
        Ok(all)
    }

    /// Keeps `public` from being dropped until this transaction has ended; that it is there has to be looked up afterwards.
    ///
    /// # Errors
    /// The transaction is not open.
    pub fn keep_public(&self) -> Result<Attempt<()>> {
        self.lock_public(Lock::ROWS)
    }

    /// Keeps everybody else from making something in `public`.
    ///
    /// # Errors
    /// Those of [`Transaction::keep_public`].
    pub fn lock_public_alone(&self) -> Result<Attempt<()>> {
        self.lock_public(Lock::DEFINITION)
    }

    fn lock_public(&self, lock: Lock) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        match self.lock_table(public_lock(self.database()), lock)? {
            Some(wait) => Ok(Attempt::Wait(wait)),
            None => Ok(Attempt::Done(())),
        }
    }

    /// Moves a table with its indexes, a view or a sequence to another schema. That it is there, and kept, is the caller's
    /// care, as are texts of definitions that name the relation.
    ///
    /// # Errors
    /// `DuplicateTable`, and those of [`Transaction::lock_for_change`].
    pub fn set_schema(&self, relation: &Arc<Table>, schema: &str) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        check_name("schema", schema)?;
        if let Attempt::Wait(wait) = self.lock_exclusive(relation)? {
            return Ok(Attempt::Wait(wait));
        }
        if relation.schema == schema {
            return Ok(Attempt::Done(Arc::clone(relation)));
        }
        let mut names = vec![(relation.name.as_str(), false)];
        let key = relation.primary_key_name.as_str();
        names.extend((!key.is_empty()).then_some((key, true)));
        names.extend(relation.indexes.iter().map(|index| (index.name.as_str(), true)));
        if let Attempt::Wait(wait) = self.claim_names(schema, &names, relation.id)? {
            return Ok(Attempt::Wait(wait));
        }
        for (name, _) in &names {
            self.release_name(&relation.schema, name)?;
        }
        let mut parts = Definition::of(relation);
        schema.clone_into(&mut parts.schema);
        parts.generation += 1;
        self.store_definition(&parts, Some(relation)).map(Attempt::Done)
    }
}
