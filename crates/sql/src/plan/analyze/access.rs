//! What a statement needs to be allowed to do, as analysis meets relations and their columns.
//!
//! A relation of FROM, or a target, is noted under its qualifier in the plan, which is unique in the statement; a column that a
//! name means is then known by the qualifier of the plan's column. (So it does not matter under what names FROM shows it.)

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as PlanColumn, TableReference};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use resurgam_engine::Table;

use super::bound::Column;
use super::through_view::{Place, Written};
use super::{Analyzer, Result};
use crate::pg::roles::acl::{hidden_relation, privilege as p};
use crate::pg::user_functions::UserFunction;
use crate::plan::needs::{Need, Needs, access_of};
use crate::wire::SqlError;

/// See the module's head.
#[derive(Default)]
pub(super) struct Sought(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    found: Vec<Found>,
    by_qualifier: HashMap<TableReference, usize>,
    system: Vec<(&'static str, Option<u32>)>,
    functions: Vec<Arc<UserFunction>>,
    /// The columns that the last INSERT gives.
    fitted: Vec<usize>,
    /// Policies have a say in it, or would for another role.
    of_role: bool,
}

struct Found {
    need: Need,
    /// Names of its columns in the plan.
    columns: Vec<String>,
    /// Views that the statement writes through to it: their needs, and where their columns are stored in it.
    layers: Vec<(usize, Vec<Option<usize>>)>,
}

impl Inner {
    fn note(&mut self, found: Found, qualifier: Option<TableReference>) -> usize {
        let at = self.found.len();
        self.found.push(found);
        if let Some(qualifier) = qualifier {
            self.by_qualifier.insert(qualifier, at);
        }
        at
    }

    /// Columns of a relation, and of the views through which it is written, are read or written.
    fn columns(&mut self, at: usize, privilege: u32, columns: &[usize]) {
        let put = |need: &mut Need, columns: &mut dyn Iterator<Item = usize>| {
            need.privileges |= privilege;
            match privilege {
                p::SELECT => need.selected.extend(columns),
                p::INSERT => need.inserted.extend(columns),
                p::UPDATE => need.updated.extend(columns),
                _ => {}
            }
        };
        put(&mut self.found[at].need, &mut columns.iter().copied());
        let layers = std::mem::take(&mut self.found[at].layers);
        for (layer, places) in &layers {
            let of_view = |(column, place): (usize, &Option<usize>)| {
                place.is_some_and(|place| columns.contains(&place)).then_some(column)
            };
            put(&mut self.found[*layer].need, &mut places.iter().enumerate().filter_map(of_view));
        }
        self.found[at].layers = layers;
    }
}

fn need(entry: &Arc<Table>, role: Option<u32>, privileges: u32, named: Option<bool>) -> Need {
    Need {
        entry: Arc::clone(entry),
        role,
        privileges,
        selected: BTreeSet::new(),
        inserted: BTreeSet::new(),
        updated: BTreeSet::new(),
        named,
    }
}

/// Whose rights count for what a view reads.
fn reader_of(view: &Table) -> Option<u32> {
    let access = access_of(view);
    (!access.invoker).then_some(access.owner)
}

impl Analyzer<'_> {
    /// Whose rights count here; `None`: of whoever runs the statement.
    pub(super) fn reader(&self) -> Option<u32> {
        self.innermost_view().and_then(|view| reader_of(view))
    }

    /// A relation that is read is in the plan under a qualifier, with these columns. `qualified`: named with its schema.
    pub(super) fn seek(&self, entry: &Arc<Table>, qualifier: &str, columns: Vec<String>, qualified: bool) {
        let named = self.innermost_view().is_none().then_some(qualified);
        let need = need(entry, self.reader(), p::SELECT, named);
        let found = Found { need, columns, layers: Vec::new() };
        self.sought.0.borrow_mut().note(found, Some(TableReference::bare(qualifier)));
    }

    /// A view is read, whose query was analysed since `place`: what is looked at first is the view.
    pub(super) fn seek_view(&self, view: &Arc<Table>, qualifier: &str, columns: Vec<String>, place: usize) {
        self.seek(view, qualifier, columns, false);
        let mut inner = self.sought.0.borrow_mut();
        inner.found[place..].rotate_right(1);
        let last = inner.found.len() - 1;
        for at in inner.by_qualifier.values_mut().filter(|at| **at >= place) {
            *at = if *at == last { place } else { *at + 1 };
        }
        for found in &mut inner.found[place..] {
            found.layers.iter_mut().filter(|(at, _)| *at >= place).for_each(|(at, _)| *at += 1);
        }
    }

    /// Something that is no table is read: a sequence, or a relation of the system.
    pub(super) fn seek_other(
        &self,
        parts: &[String],
        qualifier: &str,
        is_sequence: bool,
        qualified: bool,
    ) -> Result<()> {
        let Some(last) = parts.last() else { return Ok(()) };
        if !is_sequence {
            self.seek_system(last);
            return Ok(());
        }
        let name = parts.iter().map(|part| Ident::with_quote('"', part.as_str())).collect::<Vec<_>>();
        let (schema, name) = self.lookup().place(&ObjectName::from(name))?;
        if let Some(sequence) = self.names.txn.sequence_named(&schema, &name).map_err(SqlError::from)? {
            self.seek(&sequence, qualifier, Vec::new(), qualified);
        }
        Ok(())
    }

    /// A relation of the system is read.
    fn seek_system(&self, name: &str) {
        if let Some((hidden, _)) = hidden_relation(name) {
            self.sought.0.borrow_mut().system.push((hidden, self.reader()));
        }
    }

    /// The target of a statement that writes, maybe by way of views. What the statement reads of it is noted from here on.
    pub(super) fn seek_target(&self, written: &Written, qualifier: Option<&TableReference>) -> usize {
        let mut inner = self.sought.0.borrow_mut();
        // What a name without a schema finds is in a schema that may be looked into.
        let (mut role, mut named) = (None, Some(true));
        let mut layers = Vec::with_capacity(written.views.len());
        for view in &written.views {
            let columns = view.view.iter().flat_map(|view| &view.columns).map(|column| column.name.clone());
            let found = Found { need: need(view, role, 0, named), columns: columns.collect(), layers: Vec::new() };
            layers.push((inner.note(found, None), Vec::new()));
            (role, named) = (reader_of(view), None);
        }
        let columns = written.table.columns.iter().map(|column| column.name.clone()).collect();
        let found = Found { need: need(&written.table, role, 0, named), columns, layers };
        inner.note(found, qualifier.cloned())
    }

    /// A target is in the plan under that qualifier.
    pub(super) fn seek_under(&self, target: usize, qualifier: &TableReference) {
        self.sought.0.borrow_mut().by_qualifier.insert(qualifier.clone(), target);
    }

    /// Where the columns of the views of a target are stored in it.
    pub(super) fn seek_layers(&self, target: usize, places: &[Vec<Place>]) {
        let mut inner = self.sought.0.borrow_mut();
        for ((_, stored), places) in inner.found[target].layers.iter_mut().zip(places) {
            let place = |place: &Place| match place {
                Place::Column(at) => Some(*at),
                Place::Computed(..) => None,
            };
            *stored = places.iter().map(place).collect();
        }
    }

    /// What is done to the target: INSERT, UPDATE or DELETE, of these columns.
    pub(super) fn seek_write(&self, target: usize, privilege: u32, columns: &[usize]) {
        self.sought.0.borrow_mut().columns(target, privilege, columns);
    }

    /// The columns that an INSERT gives.
    pub(super) fn note_fitted(&self, columns: &[usize]) {
        self.sought.0.borrow_mut().fitted = columns.to_vec();
    }

    /// Those of the last one that was met.
    pub(super) fn fitted(&self) -> Vec<usize> {
        std::mem::take(&mut self.sought.0.borrow_mut().fitted)
    }

    /// A name means this expression: the columns that it reads.
    pub(super) fn mark(&self, expr: &Expr) {
        let mut inner = self.sought.0.borrow_mut();
        if inner.by_qualifier.is_empty() {
            return;
        }
        let mut read = |column: &PlanColumn| {
            let at = column.relation.as_ref().and_then(|relation| inner.by_qualifier.get(relation)).copied();
            if let Some(at) = at
                && let Some(position) = inner.found[at].columns.iter().position(|name| *name == column.name)
            {
                inner.columns(at, p::SELECT, &[position]);
            }
        };
        match expr {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => read(column),
            // No error comes of it.
            expr => drop(expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                    read(column);
                }
                Ok(TreeNodeRecursion::Continue)
            })),
        }
    }

    /// How many relations were met so far; for [`Analyzer::seek_lock`].
    pub(super) fn sought_so_far(&self) -> usize {
        self.sought.0.borrow().found.len()
    }

    /// Those that were met since then.
    pub(super) fn sought_since(&self, since: usize) -> Vec<u32> {
        self.sought.0.borrow().found.iter().skip(since).map(|found| found.need.entry.id).collect()
    }

    /// Rows of a table that was met since then are locked.
    pub(super) fn seek_lock(&self, since: usize, table: u32) {
        let mut inner = self.sought.0.borrow_mut();
        for found in inner.found.iter_mut().skip(since).filter(|found| found.need.entry.id == table) {
            found.need.privileges |= p::UPDATE;
        }
    }

    /// What is planned depends on who runs it.
    pub(super) fn note_role(&self) {
        self.sought.0.borrow_mut().of_role = true;
    }

    /// Whose rights count for a target (`None`: of whoever runs the statement), and whether columns of it are read.
    pub(super) fn target_reader(&self, target: usize) -> (Option<u32>, bool) {
        let inner = self.sought.0.borrow();
        let found = &inner.found[target];
        let reads = match found.layers.first() {
            None => found.need.privileges & p::SELECT != 0 || !found.need.selected.is_empty(),
            // By way of a view it reads what it names of the view; what the view itself reads is not its business.
            Some((outermost, _)) => !inner.found[*outermost].need.selected.is_empty(),
        };
        (found.need.role, reads)
    }

    /// From here on these columns need no privilege; what is told to [`Analyzer::note_again`].
    pub(super) fn unnote(&self, columns: &[Column]) -> Vec<(TableReference, usize)> {
        let mut inner = self.sought.0.borrow_mut();
        let mut unnoted = Vec::new();
        for column in columns {
            if let Expr::Column(column) = &column.bound.expr
                && let Some(qualifier) = &column.relation
                && let Some(at) = inner.by_qualifier.remove(qualifier)
            {
                unnoted.push((qualifier.clone(), at));
            }
        }
        unnoted
    }
    pub(super) fn note_again(&self, unnoted: Vec<(TableReference, usize)>) {
        self.sought.0.borrow_mut().by_qualifier.extend(unnoted);
    }

    /// A function of users is called.
    pub(super) fn needs_function(&self, function: &Arc<UserFunction>) {
        let functions = &mut self.sought.0.borrow_mut().functions;
        if !functions.iter().any(|known| known.id == function.id) {
            functions.push(Arc::clone(function));
        }
    }

    /// All of it.
    pub(super) fn needs(&self) -> Needs {
        let Inner { found, system, functions, of_role, .. } = std::mem::take(&mut *self.sought.0.borrow_mut());
        let relations = found.into_iter().map(|found| found.need).filter(|need| need.privileges != 0).collect();
        Needs { relations, system, functions, of_role }
    }
}
