//! Writing through a view: its rows are those of one table, by PostgreSQL's rules for views that are updatable as they
//! are (rewriteHandler.c).
//!
//! The target of the statement is the table, with the conditions of the views in its plan; what names of columns mean is
//! expressions over the table's columns, a column by itself where it can be written to.

use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{ObjectName, SetExpr, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_engine::{CheckOption, Table};

use super::bound::{Column, Type};
use super::expr::Clause;
use super::scope::{Item, Scope, folded};
use super::view::view_query;
use super::write::Target;
use super::{Analyzer, Result};
use crate::exec::row_rule::policy_mark;
use crate::parse::depth::too_deep;
use crate::pg::catalog::relation_oid;
use crate::pg::view::{base_of, why_read_only};
use crate::plan::analyze::Op;
use crate::plan::needs::access_of;
use crate::wire::SqlError;

/// Views on the way to a table.
const LEVELS_MAX: usize = 32;

/// What a statement writes to.
pub(super) struct Written {
    pub table: Arc<Table>,
    /// The views that lead to it, outermost first.
    pub views: Vec<Arc<Table>>,
}

/// What the columns of a view are to who writes through it.
pub(super) struct Through {
    /// The view that the statement names.
    pub name: String,
    pub columns: Vec<(String, Place)>,
    /// Conditions of views that new rows must satisfy, the innermost first, each with its view's name.
    pub checks: Vec<(String, Expr)>,
    /// Conditions of all views, the innermost first, each with its view's name: what a row satisfies that they show.
    pub shown: Vec<(String, Expr)>,
}

/// Where a view's column is stored.
#[derive(Clone)]
pub(super) enum Place {
    /// Position in the table.
    Column(usize),
    /// Nowhere: it is computed by the view of that name, in whose column of that name.
    Computed(String, String),
}

impl Through {
    /// Where the column of that name is stored.
    pub(super) fn place(&self, name: &str) -> Option<&Place> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, place)| place)
    }
}

/// The error of writing to a computed column.
pub(super) fn is_computed(view: &str, column: &str, op: Op) -> SqlError {
    let verb = if op == Op::Insert { "insert into" } else { "update" };
    SqlError::unsupported(format!("cannot {verb} column \"{column}\" of view \"{view}\""))
        .with_detail("View columns that are not columns of their base relation are not updatable.")
}

/// `0A000` of MERGE.
fn not_merged(relation: &str, kind: &str) -> SqlError {
    SqlError::unsupported(format!("cannot execute MERGE on relation \"{relation}\""))
        .with_detail(format!("This operation is not supported for {kind}."))
}

/// `55000`: no rows can be written through a view.
fn read_only(view: &str, op: Op, why: &str) -> SqlError {
    let (verb, how, rule) = match op {
        Op::Insert => ("insert into", "inserting into", "INSERT"),
        Op::Update => ("update", "updating", "UPDATE"),
        Op::Delete | Op::Merge => ("delete from", "deleting from", "DELETE"),
    };
    SqlError::new("55000", format!("cannot {verb} view \"{view}\"")).with_detail(why).with_hint(format!(
        "To enable {how} the view, provide an INSTEAD OF {rule} trigger or an unconditional ON {rule} DO INSTEAD rule."
    ))
}

impl Analyzer<'_> {
    /// What a name in a statement that writes means: never a query of WITH.
    ///
    /// # Errors
    /// `42P01`; `42501` for one of the system's; `55000` for a view that rows cannot be written through.
    pub(super) fn written(&self, name: &ObjectName, op: Op) -> Result<Written> {
        let error = match self.names.target(name) {
            Ok(table) => return Ok(Written { table, views: Vec::new() }),
            Err(error) => self.at(error, name.span()),
        };
        let (schema, wanted) = self.names.lookup().place(name)?;
        if self.names.txn.sequence_named(&schema, &wanted).map_err(SqlError::from)?.is_some() {
            if op == Op::Merge {
                return Err(not_merged(&wanted, "sequences").into());
            }
            return Err(SqlError::new("42809", format!("cannot change sequence \"{wanted}\"")).into());
        }
        let Some(first) = self.names.txn.view_named(&schema, &wanted).map_err(SqlError::from)? else {
            return Err(error);
        };
        if op == Op::Merge {
            return Err(not_merged(&wanted, "views").into());
        }
        let mut views = vec![first];
        loop {
            let Some(view) = views.last().cloned() else { return Err(error) };
            if views.len() > LEVELS_MAX {
                return Err(too_deep().into());
            }
            let Some(definition) = &view.view else { return Err(SqlError::internal("not a view").into()) };
            let query = view_query(&definition.sql)?;
            let mut why = why_read_only(&query);
            let named = base_of(&query).map(|(name, ..)| name.clone());
            let base = named.as_ref().and_then(|base| seen_under(definition, base));
            if base.is_none() {
                why.get_or_insert(
                    "Views that do not select from a single table or view are not automatically updatable.",
                );
            }
            if let Some(why) = why {
                return Err(read_only(&view.name, op, why).into());
            }
            let Some(base) = base else { return Err(error) };
            if let Some(table) = self.names.txn.table_by_id(base.id).map_err(SqlError::from)? {
                return Ok(Written { table, views });
            }
            match self.names.txn.view_by_id(base.id).map_err(SqlError::from)? {
                Some(next) => views.push(next),
                None => return Err(SqlError::internal(format!("view \"{}\" reads what is gone", view.name)).into()),
            }
        }
    }

    /// The target of a statement under a name, by way of its views; `keyed`: with the rows' keys, and only those rows
    /// that the views have.
    pub(super) fn target_of(
        &mut self,
        written: &Written,
        alias: Option<String>,
        keyed: bool,
        op: Op,
    ) -> Result<(Target, Option<Through>)> {
        let Some(outermost) = written.views.first() else {
            let mut target = self.target(&written.table, alias, keyed)?;
            target.sought = self.seek_target(written, Some(&target.qualifier));
            return Ok((target, None));
        };
        let schema = alias.is_none().then(|| outermost.schema.clone());
        let shown = alias.unwrap_or_else(|| outermost.name.clone());
        let mut target = self.target(&written.table, Some(shown.clone()), keyed)?;
        let base = target.base.clone();
        let mut columns = target.item.columns.clone();
        let mut places: Vec<Place> = (0..columns.len()).map(Place::Column).collect();
        let mut conditions: Vec<Option<Expr>> = Vec::with_capacity(written.views.len());
        let mut layers: Vec<Vec<Place>> = Vec::with_capacity(written.views.len());
        // The conditions of the views read the table with their owners' rights, whatever the statement does.
        target.sought = self.seek_target(written, Some(&target.qualifier));
        for (at, view) in written.views.iter().enumerate().rev() {
            let below = (at + 1 == written.views.len()).then(|| Arc::clone(&written.table));
            let condition;
            (columns, places, condition) = self.layer(view, columns, places, below)?;
            if let (true, Some(condition)) = (keyed, &condition) {
                let barrier = target.base.first().filter(|_| access_of(view).barrier);
                let mark = barrier.map(|column| policy_mark(column.bound.expr.clone()));
                let condition = mark.into_iter().fold(condition.clone(), Expr::and);
                target.plan = LogicalPlanBuilder::from(target.plan).filter(condition)?.build()?;
            }
            conditions.push(condition);
            layers.push(places.clone());
            let is_stored = |place: &Place| matches!(place, Place::Column(_));
            if op != Op::Delete && !places.iter().any(is_stored) {
                let why = "Views that have no updatable columns are not automatically updatable.";
                return Err(read_only(&view.name, op, why).into());
            }
        }
        conditions.reverse();
        layers.reverse();
        self.seek_layers(target.sought, &layers);
        let (mut checks, mut all, mut cascaded) = (Vec::new(), Vec::new(), false);
        for (view, condition) in written.views.iter().zip(conditions) {
            let option = view.view.as_ref().map_or(CheckOption::None, |view| view.check);
            let has = cascaded || option != CheckOption::None;
            cascaded |= option == CheckOption::Cascaded;
            let Some(condition) = condition else { continue };
            if has {
                checks.push((view.name.clone(), condition.clone()));
            }
            all.push((view.name.clone(), condition));
        }
        checks.reverse();
        all.reverse();
        let names = columns.iter().map(|column| column.name.clone()).zip(places).collect();
        super::bound::note_origin(&mut columns, relation_oid(outermost.id));
        target.item = Item {
            name: Some(shown),
            schema,
            columns,
            by_name: true,
            by_column: true,
            table: None,
            oid: relation_oid(outermost.id),
            of_join: false,
        };
        target.base = base;
        Ok((target, Some(Through { name: outermost.name.clone(), columns: names, checks, shown: all })))
    }

    /// The columns of a view over those of what it reads, where they are stored, and its condition.
    fn layer(
        &mut self,
        view: &Arc<Table>,
        below: Vec<Column>,
        below_places: Vec<Place>,
        table: Option<Arc<Table>>,
    ) -> Result<(Vec<Column>, Vec<Place>, Option<Expr>)> {
        let gone = || SqlError::internal(format!("view \"{}\" has another query than it was made with", view.name));
        let Some(definition) = &view.view else { return Err(gone().into()) };
        let query = view_query(&definition.sql)?;
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(gone().into()) };
        let Some((name, alias, _)) = base_of(&query) else { return Err(gone().into()) };
        let Some(relation) = seen_under(definition, name) else { return Err(gone().into()) };
        let mut seen = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            let Some(found) = below.get(column.at) else { return Err(gone().into()) };
            seen.push(Column { name: column.name.clone(), bound: found.bound.clone() });
        }
        let alike = relation.columns.iter().enumerate().all(|(at, column)| at == column.at);
        // Its places are in another text.
        let text = std::mem::take(&mut self.text);
        self.enter_view(view);
        let bound: Result<(Vec<Column>, Option<Expr>)> = (|| {
            if let Some(alias) = alias {
                self.rename(&mut seen, alias)?;
            }
            let item = Item {
                name: Some(alias.map_or_else(|| relation.name.clone(), |alias| folded(&alias.name))),
                schema: alias.is_none().then(|| relation.schema.clone()),
                columns: seen,
                by_name: true,
                by_column: true,
                table: table.filter(|_| alike),
                oid: relation_oid(relation.id),
                of_join: false,
            };
            let scope = Scope { items: vec![item], ..Scope::empty() };
            let mut entries = Vec::new();
            for item in &select.projection {
                self.select_item(item, &scope, Clause::SelectList, &mut entries)?;
            }
            let mut columns = Vec::with_capacity(entries.len());
            for (entry, named) in entries.into_iter().zip(&definition.columns) {
                let mut bound = self.or_text(entry.bound)?.at(Span::empty());
                bound.ty = Type { oid: named.oid, typmod: named.typmod };
                columns.push(Column { name: named.name.clone(), bound });
            }
            let condition = match &select.selection {
                Some(condition) => Some(self.condition(condition, &scope, Clause::Where)?.expr),
                None => None,
            };
            Ok((columns, condition))
        })();
        self.leave_view();
        self.text = text;
        let (columns, condition) = bound?;
        if columns.len() != definition.columns.len() {
            return Err(gone().into());
        }
        let place = |column: &Column| {
            let found = below
                .iter()
                .position(|known| matches!(known.bound.expr, Expr::Column(_)) && known.bound.expr == column.bound.expr);
            match found {
                Some(at) => below_places[at].clone(),
                // Of what the view below computes already, it is that view's.
                None => match below.iter().position(|known| known.bound.expr == column.bound.expr) {
                    Some(at) => below_places[at].clone(),
                    None => Place::Computed(view.name.clone(), column.name.clone()),
                },
            }
        };
        let places = columns.iter().map(place).collect();
        Ok((columns, places, condition))
    }
}

/// What the name of a relation in a view's query means.
fn seen_under<'v>(view: &'v resurgam_engine::View, name: &ObjectName) -> Option<&'v resurgam_engine::ViewRelation> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let (schema, name) = match parts.as_slice() {
        [name] => ("public", name),
        [.., schema, name] => (schema.as_str(), name),
        [] => return None,
    };
    view.relations.iter().find(|seen| seen.schema == schema && seen.name == *name)
}
