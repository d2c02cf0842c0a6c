//! WITH queries that are computed once for the statement, and those that write.
//!
//! A WITH query is either put wherever it is named, so that what is asked of it there reaches its tables, or computed once
//! ([`crate::exec::once`]), with a scan of its rows wherever it is named. Once:
//!
//! 1. one that writes, which is analysed as the statement that it is and gives the rows of its RETURNING;
//! 2. one `AS MATERIALIZED`, and one that calls a volatile function, unless the statement itself names it once in FROM;
//! 3. one that is named more than once and may give other rows each time (LIMIT, say), or is worth to be kept (groups, sorts,
//!    recursion), unless it is `AS NOT MATERIALIZED`.
//!
//! What reads rows of the queries around it, or of a recursive term, is not once: it is another one for each of them.
//! (PostgreSQL computes once whatever is named more than once; the answers are the same.)

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Cte as AstCte, CteAsMaterialized, ObjectName, Query, Select, SetExpr, Statement, TableFactor, Visitor, With,
};
use resurgam_ast::AstWalk;

use super::bound::{Relation, Type};
use super::from::refers_to;
use super::scope::{Cte, Scope, folded};
use super::write::{Write, has_volatile};
use super::{Analyzer, Result};
use crate::exec::once::once_rows;
use crate::wire::SqlError;

/// The WITH queries of a statement that are computed once, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct OnceQueries {
    pub queries: Vec<OnceQuery>,
    /// Those that the statement itself names.
    pub read: BTreeSet<usize>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct OnceQuery {
    pub name: String,
    pub done: OnceDone,
    /// Its columns, `c0` and so on.
    pub schema: SchemaRef,
    /// Those that it names.
    pub reads: BTreeSet<usize>,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum OnceDone {
    Read(Box<LogicalPlan>),
    Write(Box<Write>),
}

/// What analysis has met of them.
#[derive(Default)]
pub(super) struct OnceSeen {
    queries: Vec<OnceQuery>,
    /// Those that were named by what is analysed now.
    reads: BTreeSet<usize>,
    /// What is analysed next is the statement itself, where WITH may have what writes.
    pub at_top: bool,
    /// Recursive terms around.
    pub recursive_terms: usize,
}

impl OnceSeen {
    pub(super) fn take(&mut self) -> OnceQueries {
        OnceQueries { queries: std::mem::take(&mut self.queries), read: std::mem::take(&mut self.reads) }
    }

    /// One of them is named.
    pub(super) fn note(&mut self, cte: &Cte) {
        self.reads.extend(&cte.reads);
    }
}

/// How often names stand for relations in what a WITH belongs to; more often than they mean its queries, perhaps.
#[derive(Default)]
pub(super) struct Uses {
    counts: HashMap<String, usize>,
    /// Items of the FROM of the query itself.
    direct: HashSet<String>,
}

impl Uses {
    /// In a query, its WITH included.
    pub(super) fn of_query(query: &Query) -> Self {
        let mut uses = Self::default();
        let _ = query.walk(&mut uses);
        if let SetExpr::Select(select) = query.body.as_ref() {
            uses.direct(select);
        }
        uses
    }

    /// In a statement that writes and the WITH before it.
    pub(super) fn of(with: &With, statement: &Statement) -> Self {
        let mut uses = Self::default();
        for cte in &with.cte_tables {
            let _ = cte.query.walk(&mut uses);
        }
        let _ = statement.walk(&mut uses);
        if let Statement::Insert(insert) = statement
            && let Some(source) = &insert.source
            && let SetExpr::Select(select) = source.body.as_ref()
        {
            uses.direct(select);
        }
        uses
    }

    fn direct(&mut self, select: &Select) {
        for item in &select.from {
            for factor in std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation)) {
                if let TableFactor::Table { name, args: None, .. } = factor {
                    self.direct.extend(bare(name));
                }
            }
        }
    }

    pub(super) fn is_unused(&self, name: &str) -> bool {
        self.count(name) == 0
    }

    fn count(&self, name: &str) -> usize {
        self.counts.get(name).copied().unwrap_or(0)
    }

    fn add(&mut self, name: String) {
        *self.counts.entry(name).or_default() += 1;
    }

    fn tables(&mut self, set: &SetExpr) {
        match set {
            SetExpr::Table(table) if table.schema_name.is_none() => {
                if let Some(name) = &table.table_name {
                    self.add(name.to_lowercase());
                    self.add(name.clone());
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.tables(left);
                self.tables(right);
            }
            _ => {}
        }
    }
}

impl Visitor for Uses {
    type Break = ();
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let Some(name) = bare(name)
        {
            self.add(name);
        }
        ControlFlow::Continue(())
    }
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.tables(&query.body);
        ControlFlow::Continue(())
    }
}

fn bare(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(folded),
        _ => None,
    }
}

/// Whether the rows of a plan may be others when it is run again on the same snapshot, or are worth to be kept.
fn is_kept(plan: &LogicalPlan) -> Result<bool> {
    Ok(plan.exists(|node| {
        Ok(!matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Union(_)
        ))
    })?)
}

impl Analyzer<'_> {
    /// A query of WITH that reads, as it was analysed, for those who name it; `top`: of the statement itself.
    pub(super) fn kept_or_not(
        &mut self,
        cte: &AstCte,
        relation: Relation,
        uses: &Uses,
        top: bool,
        scope: &Scope<'_>,
        reads: BTreeSet<usize>,
    ) -> Result<Cte> {
        let name = folded(&cte.alias.name);
        let count = uses.count(&name);
        let volatile = has_volatile(&relation.plan);
        let recursive = relation.plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))?;
        let once = match &cte.materialized {
            _ if count == 0 => false,
            _ if volatile => !(top && count == 1 && uses.direct.contains(&name) && cte.materialized.is_none()),
            Some(CteAsMaterialized::Materialized) => true,
            Some(CteAsMaterialized::NotMaterialized) => recursive && count > 1,
            None => count > 1 && is_kept(&relation.plan)?,
        };
        let once = once && self.once.recursive_terms == 0 && !reads_around(&relation.plan, scope)?;
        if !once {
            return Ok(Cte { name, relation, reads, is_silent: false });
        }
        let (mut exprs, mut fields, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (at, column) in relation.columns.into_iter().enumerate() {
            let shown = format!("c{at}");
            fields.push(Arc::new(column.bound.ty.field(&shown, &column.bound.data)) as FieldRef);
            exprs.push(column.bound.expr.alias(shown));
            columns.push((column.name, column.bound.ty));
        }
        let plan = LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?;
        self.numbered(name, OnceDone::Read(Box::new(plan)), fields, columns, reads)
    }

    /// A query of WITH that writes.
    pub(super) fn writing(&mut self, cte: &AstCte, write: Write, reads: BTreeSet<usize>) -> Result<Cte> {
        let name = folded(&cte.alias.name);
        let is_silent = write.returning.is_none();
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        if let Some(list) = &write.returning {
            for (at, ((column, _), data)) in list.columns.iter().zip(&list.data).enumerate() {
                fields.push(Arc::new(column.ty.field(&format!("c{at}"), data)) as FieldRef);
                columns.push((column.name.clone(), column.ty));
            }
        }
        let cte = self.numbered(name, OnceDone::Write(Box::new(write)), fields, columns, reads)?;
        Ok(Cte { is_silent, ..cte })
    }

    fn numbered(
        &mut self,
        name: String,
        done: OnceDone,
        fields: Vec<FieldRef>,
        columns: Vec<(String, Type)>,
        reads: BTreeSet<usize>,
    ) -> Result<Cte> {
        let number = self.once.queries.len();
        let schema = Arc::new(Schema::new(fields));
        let source = provider_as_source(once_rows(number, &name, Arc::clone(&schema)));
        let under = self.qualifier("with");
        self.collations.once.insert(under.clone(), number);
        let under = TableReference::bare(under);
        let rows = LogicalPlanBuilder::scan(under, source, None)?.build()?;
        self.once.queries.push(OnceQuery { name: name.clone(), done, schema, reads });
        let relation = Relation::of_plan(rows, columns);
        Ok(Cte { name, relation, reads: BTreeSet::from([number]), is_silent: false })
    }

    /// Analyses a part, and tells which of those that are computed once it names.
    pub(super) fn reading<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, BTreeSet<usize>)> {
        let before = std::mem::take(&mut self.once.reads);
        let done = go(self);
        let reads = std::mem::replace(&mut self.once.reads, before);
        Ok((done?, reads))
    }

    /// Refuses to read what gives no rows.
    pub(super) fn refuse_silent(&self, cte: &Cte, name: &ObjectName) -> Result<()> {
        use datafusion::sql::sqlparser::ast::Spanned;
        if !cte.is_silent {
            return Ok(());
        }
        let text = format!("WITH query \"{}\" does not have a RETURNING clause", cte.name);
        Err(self.at(SqlError::unsupported(text), name.span()))
    }
}

/// Whether a plan reads rows of the queries around.
fn reads_around(plan: &LogicalPlan, scope: &Scope<'_>) -> Result<bool> {
    let mut next = Some(scope);
    while let Some(scope) = next {
        if refers_to(plan, &scope.items)? {
            return Ok(true);
        }
        next = scope.outer;
    }
    // Of a recursive term.
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= datafusion::datasource::source_as_provider(&scan.source).is_ok_and(|provider| {
                provider.downcast_ref::<datafusion::datasource::cte_worktable::CteWorkTable>().is_some()
            });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let recursive = plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))?;
    Ok(found && !recursive)
}
