//! Views: making, changing and dropping their definitions; and what needs what.
//!
//! Whoever makes a view locks what it reads in the mode of writers, so that nobody changes those definitions until it
//! has ended; and whoever changes or drops a relation locks it alone and then looks for the views that need it, in
//! what is committed by now and in what is its own, whatever its snapshot sees. So either finds the other.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};

use crate::catalog::check_name;
use crate::definition::Definition;
use crate::stored_view::View;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, attempt};

/// Columns and relations of a view are counted in 16 bits.
const PARTS_MAX: usize = u16::MAX as usize;

impl Transaction {
    /// The view of that name.
    pub fn view_named(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.entry(schema, name)?.filter(|entry| entry.view.is_some()))
    }

    /// The view with that id.
    pub fn view_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        Ok(self.entry_by_id(id)?.filter(|entry| entry.view.is_some()))
    }

    /// All views, by schema and name.
    pub fn views(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries()?;
        // A policy has a query, too.
        all.retain(|entry| entry.view.is_some() && entry.object.is_none());
        Ok(all)
    }

    /// The views that need the relation with that id, and policies with such a query, in the order in which they were made.
    pub fn dependent_views(&self, id: u32) -> Result<Vec<Arc<Table>>> {
        let newest = self.0.db.inner().catalog.committed(&self.0.db)?;
        let mut all = self.0.state.lock().catalog.referrers(&newest, id);
        all.retain(|entry| entry.view.is_some());
        all.sort_by_key(|view| view.id);
        Ok(all)
    }

    /// Makes a view.
    ///
    /// # Errors
    /// `DuplicateTable`, `LimitExceeded`; `DefinitionChanged` when what it reads was changed meanwhile.
    pub fn create_view(&self, schema: &str, name: &str, view: View) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        check_name("schema", schema)?;
        check_parts(&view)?;
        attempt!(self.lock_relations(&view));
        let id = self.next_object()?;
        attempt!(self.claim_name(schema, name, id, false));
        let parts = Definition {
            id,
            database: self.database(),
            schema: schema.to_owned(),
            name: name.to_owned(),
            view: Some(Box::new(view)),
            ..Definition::without_rows()
        };
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Gives a view another definition. That what needs it can go on is the caller's care.
    ///
    /// # Errors
    /// Those of [`Transaction::lock_for_change`] and [`Transaction::create_view`].
    pub fn replace_view(&self, old: &Arc<Table>, view: View) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        check_parts(&view)?;
        attempt!(self.lock_exclusive(old));
        attempt!(self.lock_relations(&view));
        let mut parts = Definition::of(old);
        parts.view = Some(Box::new(view));
        parts.generation += 1;
        self.store_definition(&parts, Some(old)).map(Attempt::Done)
    }

    /// Gives a view another name.
    pub fn rename_view(&self, view: &Arc<Table>, name: &str) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(view));
        attempt!(self.claim_name(&view.schema, name, view.id, false));
        self.release_name(&view.schema, &view.name)?;
        let mut parts = Definition::of(view);
        parts.name = name.to_owned();
        parts.generation += 1;
        self.store_definition(&parts, Some(view)).map(Attempt::Done)
    }

    /// Drops a view.
    ///
    /// # Errors
    /// `DependentObjects` when another view needs it.
    pub fn drop_view(&self, view: &Arc<Table>) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(view));
        self.refuse_if_seen(view)?;
        self.release_name(&view.schema, &view.name)?;
        self.remove_definition(view)?;
        Ok(Attempt::Done(()))
    }

    /// `DependentObjects` when a view needs a relation.
    pub(crate) fn refuse_if_seen(&self, relation: &Table) -> Result<()> {
        match self.dependent_views(relation.id)?.first() {
            Some(view) => Err(Error::new(
                ErrorKind::DependentObjects,
                format!("cannot drop {} because view {} depends on it", relation.name, view.name),
            )),
            None => Ok(()),
        }
    }

    /// A column of a relation goes: views that do not read it forget it.
    ///
    /// # Errors
    /// `DependentObjects` when a view reads it.
    pub(crate) fn column_goes(&self, relation: &Table, at: usize) -> Result<Attempt<()>> {
        for entry in self.dependent_views(relation.id)? {
            let Some(view) = &entry.view else { continue };
            if view.reads(relation.id, at) {
                return Err(Error::new(
                    ErrorKind::DependentObjects,
                    format!("cannot drop a column of {} because view {} depends on it", relation.name, entry.name),
                ));
            }
            attempt!(self.lock_exclusive(&entry));
        }
        // Only when all are locked: an attempt that has to wait has changed nothing.
        for entry in self.dependent_views(relation.id)? {
            let mut parts = Definition::of(&entry);
            if let Some(view) = &mut parts.view {
                view.forget_column(relation.id, at);
            }
            parts.generation += 1;
            self.store_definition(&parts, Some(&entry))?;
        }
        Ok(Attempt::Done(()))
    }

    /// Locks what a view that is being made reads against changes of definitions: what it is analysed with from here on
    /// is what it is made with.
    ///
    /// # Errors
    /// `DefinitionChanged` when one of them is another by now.
    pub fn lock_for_view(&self, view: &View) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        self.lock_relations(view)
    }

    /// Locks what a view reads against changes of definitions, and makes sure that it is what the view takes it for.
    pub(crate) fn lock_relations(&self, view: &View) -> Result<Attempt<()>> {
        let mut ids: Vec<u32> = view.relations.iter().map(|relation| relation.id).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let gone = || {
                Error::new(ErrorKind::DefinitionChanged, "a relation that the view reads was changed at the same time")
                    .with_hint("Retry the transaction.")
            };
            let entry = self.entry_by_id(id)?.ok_or_else(gone)?;
            if let Some(wait) = self.lock_for_rows(&entry)? {
                return Ok(Attempt::Wait(wait));
            }
            // What it was analysed with: whoever changed it meanwhile may have moved its columns.
            let name_at = |at: usize| match &entry.view {
                Some(of) => of.columns.get(at).map(|column| column.name.as_str()),
                None => entry.columns.get(at).map(|column| column.name.as_str()),
            };
            let mut seen = view.relations.iter().filter(|seen| seen.id == id).flat_map(|seen| &seen.columns);
            if seen.any(|column| name_at(column.at) != Some(&column.name)) {
                return Err(gone());
            }
        }
        Ok(Attempt::Done(()))
    }
}

pub(crate) fn check_parts(view: &View) -> Result<()> {
    let most = view.relations.iter().map(|relation| relation.columns.len());
    match most.chain([view.columns.len(), view.relations.len()]).any(|count| count > PARTS_MAX) {
        true => Err(Error::new(ErrorKind::LimitExceeded, "the view has too many parts")),
        false => Ok(()),
    }
}
