//! What needs what: the views that go with a relation or a column, and what `DROP` says of them.
//!
//! As in PostgreSQL the dependents of a thing are told in the order of their age, each followed by its own.

use std::collections::HashSet;
use std::sync::Arc;

use resurgam_engine::{Table, Transaction};

use crate::pg::functions::quote_ident;
use crate::plan::lookup::Lookup;
use crate::session::Session;
use crate::wire::SqlError;

/// Something that is to go.
pub(crate) struct Needed {
    /// The relation.
    pub id: u32,
    /// A column of it alone, by position.
    pub column: Option<usize>,
    /// As errors call it.
    pub name: String,
}

impl Needed {
    pub(crate) fn view(lookup: &Lookup<'_>, view: &Table) -> Result<Self, SqlError> {
        Ok(Self { id: view.id, column: None, name: format!("view {}", lookup.shown(view)?) })
    }
    pub(crate) fn table(lookup: &Lookup<'_>, table: &Table) -> Result<Self, SqlError> {
        Ok(Self { id: table.id, column: None, name: format!("table {}", lookup.shown(table)?) })
    }
    pub(crate) fn column(lookup: &Lookup<'_>, table: &Table, at: usize) -> Result<Self, SqlError> {
        let name = format!("column {} of table {}", quote_ident(&table.columns[at].name), lookup.shown(table)?);
        Ok(Self { id: table.id, column: Some(at), name })
    }
}

/// As errors call a view, or a policy.
pub(super) fn called(lookup: &Lookup<'_>, entry: &Table) -> Result<String, SqlError> {
    let Some(table) = entry.policy_of() else { return Ok(format!("view {}", lookup.shown(entry)?)) };
    let table = match lookup.txn.table_by_id(table)? {
        Some(table) => lookup.shown(&table)?,
        None => table.to_string(),
    };
    Ok(format!("policy {} on table {table}", quote_ident(&entry.name)))
}

/// A view, or a policy, that needs something.
pub(crate) struct NeedingView {
    pub view: Arc<Table>,
    /// As errors call it.
    pub name: String,
    /// What it needs, as errors call it.
    pub needs: String,
    /// The oldest of those by which it was found that need the thing itself: where it stands among the others.
    pub age: u32,
}

/// The views that need one of `roots`, directly or by way of others; each once, and behind the one by which it was
/// found. Not those of `spared`, which go in any case.
pub(crate) fn needing_views(
    lookup: &Lookup<'_>,
    roots: &[Needed],
    spared: &[u32],
) -> Result<Vec<NeedingView>, SqlError> {
    let txn = lookup.txn;
    let mut found: Vec<NeedingView> = Vec::new();
    let mut known: HashSet<u32> = roots.iter().filter(|root| root.column.is_none()).map(|root| root.id).collect();
    known.extend(spared);
    for root in roots {
        let direct = |id: u32, column: Option<usize>| -> Result<Vec<Arc<Table>>, SqlError> {
            let mut views = txn.dependent_views(id)?;
            if let Some(at) = column {
                views.retain(|view| view.view.as_ref().is_some_and(|view| view.reads(id, at)));
            }
            Ok(views)
        };
        // Newest first on the stack, so that the oldest comes off it first.
        let mut left: Vec<(Arc<Table>, String, u32)> = Vec::new();
        for view in direct(root.id, root.column)?.into_iter().rev() {
            let age = view.id;
            left.push((view, root.name.clone(), age));
        }
        while let Some((view, needs, age)) = left.pop() {
            if !known.insert(view.id) {
                continue;
            }
            // A table's policies go with it, and no other thing needs one.
            if view.policy_of() == Some(root.id) && root.column.is_none() {
                continue;
            }
            let name = called(lookup, &view)?;
            for other in direct(view.id, None)?.into_iter().rev() {
                left.push((other, name.clone(), age));
            }
            found.push(NeedingView { view, name, needs, age });
        }
    }
    Ok(found)
}

impl Session {
    /// Makes way for `roots`: with `cascade` the views that need them go, and are told of.
    ///
    /// # Errors
    /// `2BP01` without `cascade`.
    pub(crate) async fn drop_needing_views(
        &mut self,
        txn: &Transaction,
        roots: &[Needed],
        cascade: bool,
        spared: &[u32],
    ) -> Result<(), SqlError> {
        let found = needing_views(&self.lookup(txn), roots, spared)?;
        if !cascade && !found.is_empty() {
            let lines = found.iter().map(|one| format!("{} depends on {}", one.name, one.needs)).collect();
            return Err(needed(roots, lines));
        }
        let names: Vec<String> = found.iter().map(|one| one.name.clone()).collect();
        self.tell_of_cascade(&names);
        self.drop_all_views(txn, found.into_iter().map(|one| one.view).collect()).await
    }

    /// What goes with something that is dropped.
    pub(crate) fn tell_of_cascade(&mut self, names: &[String]) {
        match names {
            [] => {}
            [one] => self.skip(format!("drop cascades to {one}")),
            many => {
                let lines: Vec<String> = many.iter().map(|one| format!("drop cascades to {one}")).collect();
                let mut notice = SqlError::new("00000", format!("drop cascades to {} other objects", lines.len()));
                notice.severity = "NOTICE";
                self.notice(notice.with_detail(told(lines)));
            }
        }
    }
}

/// What PostgreSQL tells of at most.
const TOLD_MAX: usize = 100;

/// The lines of a DETAIL.
fn told(mut lines: Vec<String>) -> String {
    let more = lines.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        lines.truncate(TOLD_MAX);
        let objects = if more == 1 { "object" } else { "objects" };
        lines.push(format!("and {more} other {objects} (see server log for list)"));
    }
    lines.join("\n")
}

/// HINT for a relation that is of another kind than the one that was to be dropped.
pub(super) fn drop_hint(txn: &Transaction, schema: &str, name: &str) -> Result<&'static str, SqlError> {
    Ok(match () {
        () if txn.table(schema, name)?.is_some() => "Use DROP TABLE to remove a table.",
        () if txn.view_named(schema, name)?.is_some() => "Use DROP VIEW to remove a view.",
        () if txn.sequence_named(schema, name)?.is_some() => "Use DROP SEQUENCE to remove a sequence.",
        () => "Use DROP INDEX to remove an index.",
    })
}

/// `2BP01`: what needs `roots`, line by line.
pub(crate) fn needed(roots: &[Needed], lines: Vec<String>) -> SqlError {
    needed_by(if let [one] = roots { Some(&one.name) } else { None }, lines)
}

/// The same, of what errors call `dropped`; `None`: several things.
pub(crate) fn needed_by(dropped: Option<&str>, lines: Vec<String>) -> SqlError {
    let message = match dropped {
        Some(one) => format!("cannot drop {one} because other objects depend on it"),
        None => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    SqlError::new("2BP01", message)
        .with_detail(told(lines))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
