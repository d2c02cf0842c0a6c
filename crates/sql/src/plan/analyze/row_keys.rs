//! Queries of cursors whose rows are rows of tables: behind their columns come the keys of these, for `WHERE CURRENT OF`.
//!
//! As in PostgreSQL these are queries with a locking clause (of the tables that it locks), and scans of one table with nothing
//! above them but conditions, expressions and LIMIT. Nothing is seen of the keys in the result.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{
    Expr, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias, TableScan,
};
use datafusion::sql::sqlparser::ast;
use resurgam_engine::Table;

use super::{Analyzed, Analyzer, Result};
use crate::exec::table::{EngineTable, engine_table};

/// A table whose rows a query's rows are made of.
#[derive(Clone, Debug)]
pub(crate) struct RowKey {
    pub table: Arc<Table>,
    /// The query locks them.
    pub is_locked: bool,
}

impl Analyzer<'_> {
    /// Analyses the query of a cursor.
    ///
    /// # Errors
    /// Those of the query.
    pub(crate) fn cursor_query(&mut self, query: &ast::Query) -> Result<Analyzed> {
        self.keeps_keys = !query.locks.is_empty();
        let mut analyzed = self.query(query)?;
        self.keeps_keys = false;
        let mut keys = Vec::new();
        let found = match analyzed.locks.last().filter(|locking| locking.keyed) {
            Some(locking) => {
                let key = |found: &crate::plan::locking::Locked| RowKey {
                    table: Arc::clone(&found.table),
                    is_locked: found.lock.is_some(),
                };
                keys.extend(locking.tables.iter().map(key));
                let width = locking.schema.fields().len();
                with_keys(&analyzed.plan, keys.len(), &mut |scan| {
                    // That of the locked rows has them already.
                    let whole = scan.projection.is_none() && scan.source.schema().fields().len() == width;
                    Ok(whole.then(|| LogicalPlan::TableScan(scan.clone())))
                })?
            }
            None => with_keys(&analyzed.plan, 1, &mut |scan| {
                let Some((table, false)) = engine_table(&scan.source) else { return Ok(None) };
                keys.push(RowKey { table: Arc::clone(&table), is_locked: false });
                let source = provider_as_source(Arc::new(EngineTable::new(table, true)));
                Ok(Some(LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?))
            })?,
        };
        if let Some(plan) = found {
            analyzed.plan = plan;
            analyzed.keys = keys;
        }
        Ok(analyzed)
    }
}

/// The plan with the last `count` columns of what it reads behind its own; `None` for one that has other rows than that.
fn with_keys(
    plan: &LogicalPlan,
    count: usize,
    read: &mut dyn FnMut(&TableScan) -> Result<Option<LogicalPlan>>,
) -> Result<Option<LogicalPlan>> {
    let mut below = |input: &Arc<LogicalPlan>| with_keys(input, count, read).map(|found| found.map(Arc::new));
    Ok(match plan {
        LogicalPlan::TableScan(scan) => read(scan)?,
        LogicalPlan::SubqueryAlias(alias) => match below(&alias.input)? {
            Some(input) => Some(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)),
            None => None,
        },
        LogicalPlan::Filter(filter) => match below(&filter.input)? {
            Some(input) => Some(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?)),
            None => None,
        },
        LogicalPlan::Limit(limit) => below(&limit.input)?
            .map(|input| LogicalPlan::Limit(Limit { skip: limit.skip.clone(), fetch: limit.fetch.clone(), input })),
        LogicalPlan::Projection(projection) => match below(&projection.input)? {
            Some(input) => {
                let schema = input.schema();
                let from = schema.fields().len().saturating_sub(count);
                let keys = (from..schema.fields().len()).map(|at| {
                    let (qualifier, field) = schema.qualified_field(at);
                    Expr::Column(Column::from((qualifier, field)))
                });
                let exprs = projection.expr.iter().cloned().chain(keys).collect();
                Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&input))?))
            }
            None => None,
        },
        _ => None,
    })
}
