//! WITH before INSERT, UPDATE, DELETE and MERGE.
//!
//! The queries of WITH become subqueries in FROM, where they are named: planning knows them there.
//! One that is named several times is run several times, as everywhere; one that locks rows, or calls what is volatile, may
//! therefore be named once.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, MergeAction, MergeInsertExpr, MergeInsertKind, ObjectName, Query, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, UpdateTableFromKind, Visitor, VisitorMut,
};
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_dialect::{Catalog, Schema, Volatility};

use crate::exec::locking::is_locking;
use crate::naming;
use crate::wire::SqlError;

/// Rewrites a statement that writes and has WITH before it; leaves others alone.
///
/// # Errors
/// `0A000` for WITH RECURSIVE and for WITH queries that write.
pub(crate) fn inline(statement: &mut Statement) -> Result<(), SqlError> {
    let query = match statement {
        Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } => return inline(statement),
        Statement::Query(query) => query,
        _ => return Ok(()),
    };
    if !matches!(query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
    {
        return Ok(());
    }
    if query.order_by.is_some() || query.limit_clause.is_some() || !query.locks.is_empty() {
        return Err(SqlError::syntax("a statement that writes has no ORDER BY, LIMIT or FOR"));
    }
    let Some(with) = query.with.take() else { return Ok(()) };
    if with.recursive && matches!(query.body.as_ref(), SetExpr::Merge(_)) {
        return Err(SqlError::syntax("WITH RECURSIVE is not supported for MERGE statement"));
    }
    if with.recursive {
        return Err(SqlError::unsupported("WITH RECURSIVE before INSERT, UPDATE, DELETE or MERGE is not supported"));
    }
    let mut inlining = Inline { ctes: Vec::new() };
    match query.body.as_mut() {
        SetExpr::Insert(Statement::Insert(insert)) => match &mut insert.source {
            Some(source) if source.with.is_none() => source.with = Some(with),
            Some(_) => return Err(SqlError::unsupported("WITH twice in one INSERT is not supported")),
            None => {}
        },
        SetExpr::Update(Statement::Update(update)) => {
            inlining.define(with.cte_tables)?;
            if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = &mut update.from {
                inlining.within(from)?;
            }
            inlining.within(&mut update.assignments)?;
            inlining.within(&mut update.selection)?;
            inlining.within(&mut update.returning)?;
        }
        SetExpr::Delete(Statement::Delete(delete)) => {
            inlining.define(with.cte_tables)?;
            inlining.within(&mut delete.using)?;
            inlining.within(&mut delete.selection)?;
            inlining.within(&mut delete.returning)?;
        }
        SetExpr::Merge(Statement::Merge(merge)) => {
            inlining.define(with.cte_tables)?;
            let mut source = TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
            inlining.within(&mut source)?;
            merge.source = source.relation;
            inlining.within(merge.on.as_mut())?;
            for clause in &mut merge.clauses {
                inlining.within(&mut clause.predicate)?;
                match &mut clause.action {
                    MergeAction::Update(update) => inlining.within(&mut update.assignments)?,
                    MergeAction::Insert(MergeInsertExpr { kind: MergeInsertKind::Values(values), .. }) => {
                        for row in &mut values.rows {
                            inlining.within(&mut row.content)?;
                        }
                    }
                    _ => {}
                }
            }
        }
        _ => return Err(SqlError::unsupported("WITH before this statement is not supported")),
    }
    inlining.check()?;
    let body = match query.body.as_mut() {
        SetExpr::Insert(body) | SetExpr::Update(body) | SetExpr::Delete(body) | SetExpr::Merge(body) => body.clone(),
        _ => return Ok(()),
    };
    *statement = body;
    Ok(())
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// Whether a query calls a function whose value may be another one each time, by the name of it.
fn calls_volatile(query: &Query) -> bool {
    struct Find;
    impl Find {
        fn look(name: &ObjectName) -> ControlFlow<()> {
            let Some(name) = name.0.last().and_then(|part| part.as_ident()).map(folded) else {
                return ControlFlow::Continue(());
            };
            let mut known = Catalog::postgres().functions_named(Schema::PgCatalog, &name);
            match known.any(|function| function.volatility == Volatility::Volatile) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr { Self::look(&call.name) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => Self::look(name),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.walk(&mut Find).is_break()
}

/// A query of WITH.
struct Defined {
    name: String,
    cte: Cte,
    uses: usize,
}

struct Inline {
    ctes: Vec<Defined>,
}

impl Inline {
    /// Takes the queries, each of which may name those before it.
    fn define(&mut self, ctes: Vec<Cte>) -> Result<(), SqlError> {
        for mut cte in ctes {
            if matches!(cte.query.body.as_ref(), SetExpr::Merge(_)) {
                return Err(SqlError::unsupported("MERGE not supported in WITH query"));
            }
            if matches!(cte.query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_)) {
                return Err(SqlError::unsupported("statements that write are not supported in WITH"));
            }
            let name = folded(&cte.alias.name);
            if self.ctes.iter().any(|before| before.name == name) {
                return Err(SqlError::new("42712", format!("WITH query name \"{name}\" specified more than once")));
            }
            self.within(&mut cte.query)?;
            naming::name_columns(&mut cte.query);
            self.ctes.push(Defined { name, cte, uses: 0 });
        }
        Ok(())
    }

    fn within<T: AstWalkMut>(&mut self, part: &mut T) -> Result<(), SqlError> {
        match part.walk_mut(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn check(&self) -> Result<(), SqlError> {
        for cte in self.ctes.iter().filter(|cte| cte.uses > 1) {
            let does = match (is_locking(&cte.cte.query), calls_volatile(&cte.cte.query)) {
                (true, _) => "locks rows",
                (false, true) => "may have other rows each time",
                (false, false) => continue,
            };
            return Err(SqlError::unsupported(format!(
                "the WITH query \"{}\" {does}, and can be named once only before INSERT, UPDATE, DELETE or MERGE",
                cte.name
            )));
        }
        Ok(())
    }
}

impl VisitorMut for Inline {
    type Break = SqlError;
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables);
        match own.map(|cte| folded(&cte.alias.name)).find(|name| self.ctes.iter().any(|cte| cte.name == *name)) {
            None => ControlFlow::Continue(()),
            Some(name) => ControlFlow::Break(SqlError::unsupported(format!(
                "two WITH queries called \"{name}\" are not supported before INSERT, UPDATE, DELETE or MERGE"
            ))),
        }
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident().map(folded)
            && let Some(found) = self.ctes.iter_mut().find(|cte| cte.name == name)
        {
            found.uses += 1;
            let own = &found.cte.alias;
            let mut alias = alias.take().unwrap_or_else(|| TableAlias { columns: Vec::new(), ..own.clone() });
            if alias.columns.is_empty() {
                alias.columns = own.columns.clone();
            }
            *factor = TableFactor::Derived {
                lateral: false,
                subquery: found.cte.query.clone(),
                alias: Some(alias),
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }
}
