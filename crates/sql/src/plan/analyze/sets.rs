//! Functions that return sets, in SELECT and in GROUP BY (`ProjectSet` of PostgreSQL's planner).
//!
//! While an expression is bound such a call is an [`Expr::Unnest`] of a list or of a series. It becomes a column of
//! a [`ProjectSet`] below the expression: the innermost calls first, all of one level side by side.

use datafusion::common::Column as PlanColumn;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::expr::Clause;
use super::group::Rebase;
use super::{Analyzer, Result};
use crate::exec::sets::ProjectSet;
use crate::naming;
use crate::wire::SqlError;

/// Whether a set is in it.
pub(super) fn has_set(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::Unnest(_)))).unwrap_or(true)
}

/// The sets in it that have none within.
fn innermost(expr: &Expr, found: &mut Vec<Expr>) -> Result<()> {
    expr.apply(|expr| {
        if let Expr::Unnest(unnest) = expr
            && !has_set(&unnest.expr)
        {
            if !found.contains(expr) {
                found.push(expr.clone());
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// How many functions that return sets were bound, and where the last one is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetsSeen {
    count: usize,
    last: Span,
}

impl Default for SetsSeen {
    fn default() -> Self {
        Self { count: 0, last: Span::empty() }
    }
}

impl Clause {
    /// Why sets cannot be here.
    fn refuses_sets(self) -> Option<String> {
        match self {
            // What contains them is refused by whoever has bound it.
            Self::SelectList | Self::OrderBy | Self::GroupBy | Self::Aggregate | Self::Window => None,
            Self::From => Some("set-returning functions must appear at top level of FROM".to_owned()),
            // Where there is no place for a window, there is none for a set.
            other => {
                let place = other.refuses_windows().and_then(|why| why.strip_prefix("window functions are "));
                Some(format!("set-returning functions are {}", place.unwrap_or("not allowed here")))
            }
        }
    }
}

impl Analyzer<'_> {
    /// A function that returns a set stands there.
    pub(super) fn see_set(&mut self, clause: Clause, span: Span) -> Result<()> {
        if let Some(message) = clause.refuses_sets() {
            return Err(self.at(SqlError::unsupported(message), span));
        }
        self.sets.count += 1;
        self.sets.last = span;
        Ok(())
    }

    /// Refuses sets that were bound since then.
    ///
    /// # Errors
    /// `0A000` with this message.
    pub(super) fn no_sets_since(&self, then: SetsSeen, message: impl Into<String>) -> Result<()> {
        if self.sets.count == then.count {
            return Ok(());
        }
        let error = SqlError::unsupported(message)
            .with_hint("You might be able to move the set-returning function into a LATERAL FROM item.");
        Err(self.at(error, self.sets.last))
    }

    /// `plan` with its rows repeated for the sets in `exprs`, which become columns of it; what does so to other
    /// expressions; and the column that counts the rows, if one is wanted. (There is one level of sets then.)
    /// `in_from`: they are functions in FROM.
    pub(super) fn sets_of(
        &mut self,
        mut plan: LogicalPlan,
        exprs: &mut [&mut Expr],
        ordinality: bool,
        in_from: bool,
    ) -> Result<(LogicalPlan, Vec<Rebase>, Option<Expr>)> {
        let mut rebases = Vec::new();
        let mut number = None;
        loop {
            let mut found = Vec::new();
            for expr in exprs.iter() {
                innermost(expr, &mut found)?;
            }
            if found.is_empty() {
                return Ok((plan, rebases, number));
            }
            let mut name = |what: &str| self.qualifier(&format!("{}{what}", naming::MARK));
            let mut sets = Vec::with_capacity(found.len());
            let mut pairs = Vec::with_capacity(found.len());
            for set in found {
                let name = name("set");
                pairs.push((set.clone(), Expr::Column(PlanColumn::from_name(&name))));
                if let Expr::Unnest(unnest) = set {
                    sets.push((*unnest.expr, name));
                }
            }
            let counted = ordinality.then(|| name("ordinality"));
            number = counted.as_ref().map(|name| Expr::Column(PlanColumn::from_name(name)));
            plan = ProjectSet::plan(plan, sets, counted, in_from)?;
            let rebase = Rebase::pairs(pairs);
            for expr in exprs.iter_mut() {
                rebase.apply(expr)?;
            }
            rebases.push(rebase);
        }
    }
}
