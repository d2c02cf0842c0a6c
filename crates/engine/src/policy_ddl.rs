//! Policies of row security: objects of the catalog that have a query, as views do.
//!
//! What a policy is (for whom, of which command) is the body of a [`CatalogObject`]; its conditions are the query of a
//! [`View`] over its table. So what a policy reads is known as it is of a view: by id and position, whatever is renamed,
//! and none of it goes before the policy ([`Transaction::dependent_views`]).
//!
//! # Invariants
//! 1. The entry's schema is the table's id in decimal digits: names of policies are by table, and stay when the table gets another
//!    name or schema.
//! 2. A policy reads its table, so the table is not dropped before it.

use std::sync::Arc;

use resurgam_base::Result;

use crate::catalog_object::{CatalogObject, ObjectKind, object_of};
use crate::definition::Definition;
use crate::stored_view::View;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, attempt};
use crate::view_ddl::check_parts;

/// What stands in the place of a schema in the names of a table's policies.
fn namespace(table: u32) -> String {
    table.to_string()
}

impl Table {
    /// Of a policy, the table's id.
    pub fn policy_of(&self) -> Option<u32> {
        self.object.as_ref().filter(|object| object.kind == ObjectKind::POLICY).and_then(|_| self.schema.parse().ok())
    }
}

impl Transaction {
    /// The policies of a table, by name.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn policies_of(&self, table: u32) -> Result<Vec<Arc<Table>>> {
        let mut all = self.dependent_views(table)?;
        all.retain(|entry| entry.policy_of() == Some(table));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The policy of that name of a table.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn policy_named(&self, table: u32, name: &str) -> Result<Option<Arc<Table>>> {
        self.object_named(ObjectKind::POLICY, &namespace(table), name)
    }

    /// Makes a policy of a table.
    ///
    /// # Errors
    /// `DuplicateObject`, `LimitExceeded`; `DefinitionChanged` when what it reads or needs was changed meanwhile.
    pub fn create_policy(
        &self,
        table: u32,
        name: &str,
        object: CatalogObject,
        view: View,
    ) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        object.check()?;
        check_parts(&view)?;
        attempt!(self.keep_needed(&object));
        attempt!(self.lock_relations(&view));
        let id = self.next_object()?;
        attempt!(self.claim_object(ObjectKind::POLICY, &namespace(table), name, id));
        let parts = Definition {
            id,
            database: self.database(),
            schema: namespace(table),
            name: name.to_owned(),
            object: Some(Box::new(object)),
            view: Some(Box::new(view)),
            ..Definition::without_rows()
        };
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Gives a policy another body and other conditions.
    ///
    /// # Errors
    /// Those of [`Transaction::lock_for_change`] and [`Transaction::create_policy`].
    pub fn replace_policy(&self, old: &Arc<Table>, object: CatalogObject, view: View) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        object_of(old)?;
        object.check()?;
        check_parts(&view)?;
        attempt!(self.lock_exclusive(old));
        attempt!(self.keep_needed(&object));
        attempt!(self.lock_relations(&view));
        let mut parts = Definition::of(old);
        parts.object = Some(Box::new(object));
        parts.view = Some(Box::new(view));
        parts.generation += 1;
        self.store_definition(&parts, Some(old)).map(Attempt::Done)
    }
}
