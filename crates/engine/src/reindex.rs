//! Writing indexes of a table anew from its rows, into new trees, in one transaction: what was wrong with an old tree, or
//! sparse in it, is gone with it; and one that was not valid is.
//!
//! A primary key is no tree of its own: it is the order of the rows. To write it anew is to rewrite the table
//! (`rewrite.rs`), and with the rows all of its indexes.
//!
//! Old trees go once the transaction is committed for all, as those of a dropped index do; so who reads by the definition
//! from before goes on in them.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};

use crate::definition::Definition;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, attempt};

impl Transaction {
    /// Writes an index of a table anew, by its name, or all of them. The result is the new definition. A table that has
    /// none stays as it is.
    ///
    /// # Errors
    /// `UndefinedObject`; `UniqueViolation` when rows that exist are not unique, which no index that was right lets in: the
    /// transaction must then be rolled back. Those of [`Transaction::lock_for_change`].
    pub fn reindex(&self, table: &Arc<Table>, only: Option<&str>) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let of_key = match only {
            Some(name) => !name.is_empty() && table.primary_key_name == name,
            None => !table.primary_key.is_empty(),
        };
        if of_key {
            return match self.rewrite_table(table, &[], &[])? {
                Attempt::Done(rewrite) => rewrite.copy().map(Attempt::Done),
                Attempt::Wait(wait) => Ok(Attempt::Wait(wait)),
            };
        }
        let is_meant = |name: &str| only.is_none_or(|only| only == name);
        let meant: Vec<usize> = (0..table.indexes.len()).filter(|at| is_meant(&table.indexes[*at].name)).collect();
        match (meant.is_empty(), only) {
            (true, Some(name)) => {
                return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{name}\" does not exist")));
            }
            (true, None) => return Ok(Attempt::Done(Arc::clone(table))),
            (false, _) => {}
        }
        let xid = self.write_context()?.xid;
        // The old trees are noted as going, or the definition has an index that is not full: not to be committed so.
        self.filled_anew(table, &meant).map(Attempt::Done).inspect_err(|_| self.broken_off(xid))
    }

    fn filled_anew(&self, table: &Arc<Table>, meant: &[usize]) -> Result<Arc<Table>> {
        let mut parts = Definition::of(table);
        parts.generation += 1;
        for at in meant {
            self.drop_tree(parts.indexes[*at].tree)?;
            parts.indexes[*at].tree = self.new_tree()?;
            parts.indexes[*at].valid = true;
        }
        let new = self.store_definition(&parts, Some(table))?;
        for at in meant {
            self.fill_index(&new, *at)?;
        }
        Ok(new)
    }
}
