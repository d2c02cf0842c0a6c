//! What INSERT, UPDATE, DELETE and MERGE have in common: their targets, assignments, defaults and RETURNING.
//!
//! A value is brought to its column's type here, by the dialect's assignment casts; the column's length
//! (`varchar(3)`, `numeric(10,2)`) is applied when the row is written, for all writers alike.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchemaRef, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Assignment, AssignmentTarget, Ident, ObjectName, SelectItem, Spanned};
use resurgam_dialect::CastContext;
use resurgam_engine::{ColumnType, Table};

use super::bound::{Bound, Column, Relation, Type};
use super::coerce::{catalog, sql_error};
use super::condition::bare;
use super::element::of_element;
use super::expr::{Clause, as_subquery};
use super::identity::refuse_update;
use super::lock::Locking;
use super::merge::Merged;
use super::once::OnceQueries;
use super::row_security::{RowRule, UpsertRules};
use super::scope::{Item, Scope, WRITTEN, XMAX, folded, is_system_column};
use super::select::{Target as Entry, project};
use super::through_view::{Place, Through, is_computed};
use super::{Analyzer, OutputColumn, Result, unknown};
use crate::exec::cell::placeholder_index;
use crate::exec::table::{EngineTable, KEY_COLUMN};
use crate::pg::catalog::relation_oid;
use crate::pg::definition::parse_expression;
use crate::pg::types;
use crate::pg::user_types::domain_default;

use crate::plan::needs::Needs;
use crate::wire::SqlError;

/// An analysed INSERT, UPDATE, DELETE or MERGE.
#[derive(Debug)]
pub(crate) struct Write {
    pub op: Op,
    pub table: Arc<Table>,
    /// Its rows. INSERT: a value for every column. UPDATE: the same, and the row's key. DELETE: the key. Before the key come the columns of other
    /// relations that RETURNING reads, and then `sources`.
    /// MERGE: see `merge.rs`.
    pub plan: LogicalPlan,
    /// How many columns say which row of FROM or USING it is that a row of the target was joined with.
    pub sources: usize,
    /// The rows of an INSERT that are written out.
    pub rows: Option<Vec<Vec<Expr>>>,
    /// The columns that SET assigns.
    pub assigned: Vec<usize>,
    pub returning: Option<List>,
    pub conflict: Option<OnConflict>,
    /// What there is more of a MERGE.
    pub merge: Option<Merged>,
    /// Queries of it that lock their rows.
    pub locks: Vec<Locking>,
    /// WITH queries that are computed once.
    pub once: OnceQueries,
    /// Conditions over the target's columns that new rows must satisfy (WITH CHECK OPTION), each with its view's name.
    pub checks: Vec<(String, Expr)>,
    /// Conditions over the target's columns that its policies make of new rows.
    pub rules: Vec<RowRule>,
    /// What whoever runs it has to be allowed.
    pub needs: Needs,
    /// The cursor whose row it writes, and no other.
    pub current_of: Option<String>,
}

impl Write {
    /// One of nothing but its rows.
    pub(super) fn of_rows(op: Op, table: Arc<Table>, plan: LogicalPlan) -> Self {
        Self {
            op,
            table,
            plan,
            sources: 0,
            rows: None,
            assigned: Vec::new(),
            returning: None,
            conflict: None,
            merge: None,
            locks: Vec::new(),
            once: OnceQueries::default(),
            checks: Vec::new(),
            rules: Vec::new(),
            needs: Needs::default(),
            current_of: None,
        }
    }
}

/// A RETURNING list, over the target's columns.
#[derive(Debug)]
pub(crate) struct List {
    pub columns: Vec<(OutputColumn, Expr)>,
    /// Their types in plans.
    pub data: Vec<DataType>,
    pub input: DFSchemaRef,
    /// Columns of FROM and USING items, which the plan of the rows gives behind the new values.
    pub others: Vec<(Option<TableReference>, FieldRef)>,
    /// The last one is [`XMAX`], of INSERT.
    pub xmax: bool,
}

/// ON CONFLICT.
#[derive(Debug)]
pub(crate) struct OnConflict {
    pub target: Option<ast::ConflictTarget>,
    /// `None`: DO NOTHING.
    pub update: Option<OnConflictUpdate>,
}

/// DO UPDATE, over the columns of the row that is there and then those of the proposed one.
#[derive(Debug)]
pub(crate) struct OnConflictUpdate {
    pub set: Vec<(usize, Expr)>,
    pub condition: Option<Expr>,
    pub joined: DFSchemaRef,
    /// What the table's policies demand.
    pub rules: Option<UpsertRules>,
    /// Conditions over the target's columns of the views that lead to it, each with its view's name: a row that one of them
    /// does not show is not updated through it.
    pub shown: Vec<(String, Expr)>,
}

/// The table that a statement writes to.
pub(super) struct Target {
    pub plan: LogicalPlan,
    pub item: Item,
    /// The column with the rows' keys.
    pub key: Option<Expr>,
    /// What qualifies its columns in the plan.
    pub qualifier: TableReference,
    /// The table's columns, which the item's are unless it is a view.
    pub base: Vec<Column>,
    /// The table in the plan, below the conditions of views.
    pub scan: LogicalPlan,
    /// What it needs; see `access.rs`.
    pub sought: usize,
}

/// A value that an assignment gives.
enum Given<'a> {
    Default,
    Expr(&'a ast::Expr),
    /// Of an element: subscripts and the value.
    Element(Vec<&'a ast::Expr>, &'a ast::Expr),
    /// It was analysed with others.
    Bound(Bound),
}

/// Whether `expr` is the keyword DEFAULT.
pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The type of a column.
pub(super) fn column_type(ty: &ColumnType) -> Type {
    Type { oid: types::column_oid(ty), typmod: types::column_typmod(ty) }
}

/// The type that an untyped constant for a column is read as: what fields an interval has changes what its text means.
pub(super) fn constant_type(ty: &ColumnType) -> Type {
    match ty {
        ColumnType::Interval(_) => column_type(ty),
        _ => Type::of(types::column_oid(ty)),
    }
}

impl Analyzer<'_> {
    /// The target as a FROM item; `keyed`: with the rows' keys.
    pub(super) fn target(&mut self, table: &Arc<Table>, alias: Option<String>, keyed: bool) -> Result<Target> {
        let schema = alias.is_none().then(|| table.schema.clone());
        let shown = alias.unwrap_or_else(|| table.name.clone());
        self.see_table(table);
        let source = provider_as_source(Arc::new(EngineTable::new(Arc::clone(table), keyed)));
        let fields: Vec<(String, Type)> = source
            .schema()
            .fields()
            .iter()
            .map(|f| (f.name().clone(), Type { oid: types::field_oid(f), typmod: types::field_typmod(f) }))
            .collect();
        let qualifier = TableReference::bare(self.qualifier(&shown));
        let own = TableReference::bare(table.name.clone());
        let scan = LogicalPlanBuilder::scan(own.clone(), source, None)?;
        let plan = if qualifier == own { scan.build()? } else { scan.alias(qualifier.clone())?.build()? };
        let mut relation = Relation::of_plan(plan, fields);
        let key = match keyed {
            true => relation.columns.pop().map(|column| column.bound.expr),
            false => None,
        };
        relation.note_origin(relation_oid(table.id));
        let base = relation.columns.clone();
        let item = Item {
            name: Some(shown),
            schema,
            columns: relation.columns,
            by_name: true,
            by_column: true,
            table: Some(Arc::clone(table)),
            oid: relation_oid(table.id),
            of_join: false,
        };
        let scan = relation.plan.clone();
        Ok(Target { plan: relation.plan, item, key, qualifier, base, scan, sought: 0 })
    }

    /// The column that a name in a list of columns, or left of an assignment, means.
    pub(super) fn written_column(
        &self,
        table: &Table,
        through: Option<&Through>,
        name: &ObjectName,
        op: Op,
    ) -> Result<usize> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let Some(first) = parts.first() else { return unknown("this kind of column name") };
        let column = folded(first);
        let found = match through {
            None => table.columns.iter().position(|known| known.name == column),
            Some(through) => match through.place(&column) {
                Some(Place::Column(at)) => Some(*at),
                Some(Place::Computed(view, column)) => return Err(is_computed(view, column, op).into()),
                None => None,
            },
        };
        let Some(at) = found else {
            if op == Op::Update && is_system_column(&column) {
                let message = format!("cannot assign to system column \"{column}\"");
                return Err(self.at(SqlError::unsupported(message), first.span));
            }
            let relation = through.map_or(&table.name, |through| &through.name);
            let message = format!("column \"{column}\" of relation \"{relation}\" does not exist");
            return Err(self.at(SqlError::new("42703", message), first.span));
        };
        if let Some(field) = parts.get(1) {
            let message = format!(
                "cannot assign to field \"{}\" of column \"{column}\" because its type {} is not a composite type",
                folded(field),
                types::column_type_name(&table.columns[at].ty)
            );
            return Err(self.at(SqlError::new("42804", message), first.span));
        }
        Ok(at)
    }

    /// A value as one of the type of a table's column, of any length. A parameter without a type becomes one of the column's domain.
    ///
    /// # Errors
    /// `42804`; those of reading a constant; `42P08` for a parameter that was given another type.
    pub(super) fn assigned(&mut self, bound: Bound, table: &Table, at: usize) -> Result<Bound> {
        let (column, ty) = (table.columns[at].name.as_str(), &table.columns[at].ty);
        let (to, span) = (column_type(ty), bound.span);
        if bound.ty.oid == to.oid {
            return Ok(bound);
        }
        if bound.ty.is_unknown() {
            let domain = table.domain(at).unwrap_or(0);
            self.refuse_other_type(&bound, to, domain)?;
            return Ok(self.of_domain(domain, |this| this.read(bound, constant_type(ty)))?.at(span));
        }
        if let Err(error) = catalog().assign(column, bound.ty.id(), bound.ty.typmod, to.id(), to.typmod) {
            return Err(self.at(sql_error(error), span));
        }
        self.cast_without_length(bound, to)
    }

    /// The cast of an assignment that is known to be there, without the length.
    pub(super) fn cast_without_length(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        self.cast_as(bound, Type::of(to.oid), CastContext::Assignment)
    }

    /// A parameter that had no type when it was met and has one by now cannot take another.
    fn refuse_other_type(&self, bound: &Bound, to: Type, domain: u32) -> Result<()> {
        let Expr::Placeholder(placeholder) = &bound.expr else { return Ok(()) };
        let Some(index) = placeholder_index(&placeholder.id) else { return Ok(()) };
        let Some(Some(field)) = self.params.known.get(index) else { return Ok(()) };
        let whole = |ty: u32, domain: u32| Type::of(if domain == 0 { ty } else { domain });
        let before = whole(types::field_oid(field), self.params.domains.get(index).copied().unwrap_or(0));
        let now = whole(to.oid, domain);
        if before.oid == now.oid {
            return Ok(());
        }
        let error = SqlError::new("42P08", format!("inconsistent types deduced for parameter {}", placeholder.id))
            .with_detail(format!("{} versus {}", before.name(), now.name()));
        Err(self.at(error, bound.span))
    }

    /// What a column has if no value is given for it.
    pub(super) fn default_of(&mut self, table: &Table, at: usize) -> Result<Bound> {
        let column = &table.columns[at];
        // Of a generated column it is computed when the row is written.
        let own = column.default_sql.clone().filter(|_| table.generated(at).is_none());
        match own {
            Some(sql) => {
                let expr = parse_expression(&sql)?;
                self.default_value(&expr, &column.name, &column.ty)
            }
            None => self.default_of_type(table, at),
        }
    }

    /// What a column has that says no default: its domain's.
    fn default_of_type(&mut self, table: &Table, at: usize) -> Result<Bound> {
        let column = &table.columns[at];
        match table.domain(at).and_then(domain_default) {
            Some(sql) => {
                let expr = parse_expression(&sql)?;
                self.default_value(&expr, &column.name, &column.ty)
            }
            None => self.null(Type::of(types::column_oid(&column.ty))),
        }
    }

    /// A DEFAULT expression as a value of its column.
    ///
    /// # Errors
    /// `0A000` for columns in it, `42804` for another type.
    pub(super) fn default_value(&mut self, expr: &ast::Expr, column: &str, ty: &ColumnType) -> Result<Bound> {
        // Its places are in another text.
        let text = std::mem::take(&mut self.text);
        let bound = self.as_stored(|this| this.expr(expr, &Scope::empty(), Clause::Default));
        self.text = text;
        let bound = match bound {
            Err(super::Refusal::Error(error)) if matches!(error.sqlstate.as_str(), "42703" | "42P01") => {
                return Err(SqlError::unsupported("cannot use column reference in DEFAULT expression").into());
            }
            bound => bound?,
        };
        self.made_of(bound, column, ty)
    }

    /// The value of an expression of a definition as one of its column.
    pub(super) fn made_of(&mut self, bound: Bound, column: &str, ty: &ColumnType) -> Result<Bound> {
        let mut bound = bound.at(datafusion::sql::sqlparser::tokenizer::Span::empty());
        let given = bound.ty;
        if given.is_unknown() {
            bound = self.read(bound, constant_type(ty))?;
            return Ok(bound);
        }
        let to = column_type(ty);
        if catalog().assign(column, given.id(), given.typmod, to.id(), to.typmod).is_err() {
            let message = format!(
                "column \"{column}\" is of type {} but default expression is of type {}",
                to.name(),
                given.name()
            );
            let error = SqlError::new("42804", message).with_hint("You will need to rewrite or cast the expression.");
            return Err(error.into());
        }
        if given.oid == to.oid { Ok(bound) } else { self.cast_without_length(bound, to) }
    }

    /// SET: columns and their values, in the order of PostgreSQL's work: all values, then the columns.
    pub(super) fn set_clause(
        &mut self,
        table: &Table,
        through: Option<&Through>,
        op: Op,
        assignments: &[Assignment],
        scope: &Scope<'_>,
    ) -> Result<Vec<(usize, Bound)>> {
        let mut given: Vec<(&ObjectName, Given<'_>)> = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            match &assignment.target {
                AssignmentTarget::ColumnName(name) => match of_element(&assignment.value) {
                    Some((subscripts, value)) => given.push((name, Given::Element(subscripts, value))),
                    None => given.push((name, single(&assignment.value))),
                },
                AssignmentTarget::Tuple(names) => {
                    let values = self.row_source(&assignment.value, scope)?;
                    if values.len() != names.len() {
                        let error = SqlError::syntax("number of columns does not match number of values");
                        return Err(self.at(error, assignment.value.span()));
                    }
                    given.extend(names.iter().zip(values));
                }
            }
        }
        let mut bound: Vec<(&ObjectName, Vec<Bound>, Option<Bound>)> = Vec::with_capacity(given.len());
        for (name, value) in given {
            let mut within = Vec::new();
            let value = match value {
                Given::Element(_, value) if is_default(value) => {
                    let error = SqlError::unsupported("cannot set an array element to DEFAULT");
                    return Err(self.at(error, value.span()));
                }
                Given::Element(subscripts, value) => {
                    let value = self.expr(value, scope, Clause::Set)?;
                    for subscript in subscripts {
                        within.push(self.expr(subscript, scope, Clause::Set)?);
                    }
                    Some(value)
                }
                Given::Default => None,
                Given::Expr(expr) => Some(self.expr(expr, scope, Clause::Set)?),
                Given::Bound(bound) => Some(bound),
            };
            bound.push((name, within, value));
        }
        // Of UPDATE the target is the first item, of ON CONFLICT behind the proposed row.
        let target = if op == Op::Insert { scope.items.last() } else { scope.items.first() };
        let mut set: Vec<(usize, Bound)> = Vec::with_capacity(bound.len());
        let mut changed: Vec<usize> = Vec::new();
        for (name, subscripts, value) in bound {
            let at = self.written_column(table, through, name, op)?;
            let column = &table.columns[at];
            // DEFAULT of a view's column is its type's: the table's default is not the view's.
            if value.is_some() || through.is_some() {
                refuse_update(table, at)?;
            }
            if let Some(value) = value.clone().filter(|_| !subscripts.is_empty()) {
                let before = set.iter().position(|(other, _)| *other == at && changed.contains(&at));
                let base = match before {
                    Some(nth) => Some(set.swap_remove(nth).1),
                    None => {
                        let seen = name.0.first().and_then(|part| part.as_ident()).map(folded);
                        let columns = target.map_or(&[][..], |item| item.columns.as_slice());
                        let found = columns.iter().find(|column| Some(&column.name) == seen.as_ref());
                        found.map(|column| column.bound.clone())
                    }
                };
                let Some(base) = base else { return unknown("an assignment to an element of this column") };
                let value = self.with_element(base, subscripts, value, &column.name)?;
                changed.push(at);
                set.push((at, value));
                continue;
            }
            let value = match value {
                Some(value) => self.assigned(value, table, at)?,
                None if through.is_some() => self.default_of_type(table, at)?,
                None => self.default_of(table, at)?,
            };
            set.push((at, value));
        }
        for (nth, (at, _)) in set.iter().enumerate() {
            if set[..nth].iter().any(|(before, _)| before == at) {
                let name = &table.columns[*at].name;
                return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")).into());
            }
        }
        Ok(set)
    }

    /// What `(a, b) = …` takes its values from.
    fn row_source<'e>(&mut self, value: &'e ast::Expr, scope: &Scope<'_>) -> Result<Vec<Given<'e>>> {
        match bare(value) {
            ast::Expr::Tuple(values) => Ok(values.iter().map(single).collect()),
            ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
                let Some(list) = super::expr::arguments(call) else { return unknown("this form of ROW") };
                let mut values = Vec::with_capacity(list.args.len());
                for arg in &list.args {
                    match arg {
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => values.push(single(expr)),
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) => {
                            let columns = self.columns_of_wildcard(scope, name)?;
                            values.extend(columns.into_iter().map(Given::Bound));
                        }
                        _ => return unknown("this form of ROW"),
                    }
                }
                Ok(values)
            }
            ast::Expr::Subquery(query) => {
                let relation = self.subquery(query, scope, Clause::Set)?;
                let values = self.one_by_one(&relation, value.span())?;
                Ok(values.into_iter().map(Given::Bound).collect())
            }
            other => {
                let text = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Err(self.at(SqlError::unsupported(text), other.span()))
            }
        }
    }

    /// The columns of a subquery of one row as values: one subquery for each; they read the same snapshot.
    pub(super) fn one_by_one(
        &mut self,
        relation: &Relation,
        span: datafusion::sql::sqlparser::tokenizer::Span,
    ) -> Result<Vec<Bound>> {
        if has_volatile(&relation.plan) && relation.columns.len() > 1 {
            return unknown("a volatile subquery of several columns");
        }
        let mut values = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            let entry = Entry { name: column.name.clone(), bound: column.bound.clone(), is_hidden: false };
            let one = project(relation.plan.clone(), &[entry])?;
            let (ty, data) = (column.bound.ty, column.bound.data.clone());
            let expr = Expr::ScalarSubquery(as_subquery(one));
            values.push(Bound::with_data(expr, ty, data).at(span));
        }
        Ok(values)
    }

    /// RETURNING, of a row of the target.
    pub(super) fn returning(
        &mut self,
        items: Option<&Vec<SelectItem>>,
        target: &Target,
        scope: &Scope<'_>,
        rows: &LogicalPlan,
    ) -> Result<Option<List>> {
        let Some(items) = items else { return Ok(None) };
        let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
        for item in items {
            self.select_item(item, scope, Clause::Returning, &mut entries)?;
        }
        let mut columns = Vec::with_capacity(entries.len());
        let mut data = Vec::with_capacity(entries.len());
        for entry in entries {
            let bound = self.or_text(entry.bound)?;
            if super::sets::has_set(&bound.expr) {
                let message = "set-returning functions are not allowed in RETURNING";
                return Err(self.at(SqlError::unsupported(message), bound.span));
            }
            let origin = bound.as_it_is();
            data.push(bound.data);
            columns.push((OutputColumn { name: entry.name, ty: bound.ty, origin, collation: 0 }, bound.expr));
        }
        // A subquery may read any of them.
        let all = columns.iter().any(|(_, expr)| crate::plan::expression::has_subquery(expr));
        let is_read = |qualifier: Option<&TableReference>, name: &str| {
            let is_it = |c: &&datafusion::common::Column| c.relation.as_ref() == qualifier && c.name == name;
            all || columns.iter().any(|(_, expr)| expr.column_refs().iter().any(is_it))
        };
        let mut others: Vec<(Option<TableReference>, FieldRef)> = rows
            .schema()
            .iter()
            .filter(|(qualifier, field)| *qualifier != Some(&target.qualifier) && is_read(*qualifier, field.name()))
            .map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
            .collect();
        let of_row = TableReference::bare(WRITTEN);
        let xmax = self.returned.as_ref() == Some(&target.qualifier) && is_read(Some(&of_row), XMAX);
        if xmax {
            let ty = Type::of(types::oid::XID);
            others.push((Some(of_row), Arc::new(ty.field(XMAX, &ty.data()))));
        }
        Ok(Some(List { columns, data, input: Arc::clone(target.plan.schema()), others, xmax }))
    }

    /// One of INSERT, UPDATE, DELETE and MERGE, which sees the WITH queries of `outer`.
    pub(super) fn one_write(&mut self, statement: &ast::Statement, outer: &Scope<'_>) -> Result<Write> {
        match statement {
            ast::Statement::Insert(insert) => self.insert(insert, outer),
            ast::Statement::Update(update) => self.update(update, outer),
            ast::Statement::Delete(delete) => self.delete(delete, outer),
            ast::Statement::Merge(merge) => self.merge(merge, outer),
            _ => Err(SqlError::internal("not a write").into()),
        }
    }

    /// The statement that is analysed, with what is to be done beside it.
    pub(super) fn whole(&mut self, write: Write) -> Write {
        Write { locks: std::mem::take(&mut self.locks), once: self.once.take(), needs: self.needs(), ..write }
    }
}

fn single(expr: &ast::Expr) -> Given<'_> {
    if is_default(expr) { Given::Default } else { Given::Expr(expr) }
}

/// Whether two runs of a plan on one snapshot may give different rows.
pub(super) fn has_volatile(plan: &LogicalPlan) -> bool {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            expr.apply(|_| Ok(TreeNodeRecursion::Continue))
        })
    });
    found || walked.is_err()
}

/// The columns of a target, each with the value that a statement gives it, named as they are.
pub(super) fn named_columns(table: &Table, values: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
    values.into_iter().zip(&table.columns).map(|(value, column)| value.alias(&column.name)).collect()
}

/// The columns of other relations that RETURNING reads, as columns of a written row.
pub(super) fn named_others(returning: Option<&List>) -> Vec<Expr> {
    let others = returning.map(|list| list.others.as_slice()).unwrap_or_default();
    let named = others.iter().enumerate().map(|(at, (qualifier, field))| {
        Expr::Column(datafusion::common::Column::new(qualifier.clone(), field.name()))
            .alias(format!("resurgam$other{at}"))
    });
    named.collect()
}

/// The key column of a written row.
pub(super) fn named_key(key: Expr) -> Expr {
    key.alias(KEY_COLUMN)
}

/// What kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Insert,
    Update,
    Delete,
    Merge,
}

impl Op {
    /// The statement's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Merge => "MERGE",
        }
    }
}
