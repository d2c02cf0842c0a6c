//! Whether planning a statement may take so long that it has to be done on a thread of its own, which nobody waits for who was
//! told to stop: by the length of its text, and by what short texts can stand for.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator as B, Expr, GroupByExpr, Select, Statement, TableFactor, Visitor,
};
use resurgam_ast::AstWalk;

use super::scope::folded;
use crate::plan::planner::Names;

/// Bytes of a text that is planned on its session's thread.
const TEXT_BYTES_MAX: usize = 512;
/// Columns of all relations that one may name which is planned there: NATURAL JOIN compares each with each.
const COLUMNS_MAX: usize = 256;

/// Functions whose values are not longer than their arguments, in a time in proportion to these.
const QUICK: &[&str] = &[
    "abs",
    "avg",
    "ceil",
    "char_length",
    "coalesce",
    "count",
    "currval",
    "date_part",
    "date_trunc",
    "dense_rank",
    "first_value",
    "floor",
    "gen_random_uuid",
    "greatest",
    "lag",
    "last_value",
    "lastval",
    "lead",
    "least",
    "length",
    "lower",
    "max",
    "min",
    "mod",
    "nextval",
    "now",
    "nullif",
    "pg_backend_pid",
    "random",
    "rank",
    "round",
    "row_number",
    "sign",
    "sum",
    "trunc",
    "upper",
    "version",
];

fn is_quick(function: &str) -> bool {
    // Whoever looks after the server, and ends what is in the way, waits for no place among those that plan.
    function.starts_with("pg_") || function.starts_with("current_") || QUICK.contains(&function)
}

/// See the module's head.
pub(crate) fn is_heavy(text: &str, statement: &Statement, names: &Names<'_>) -> bool {
    text.len() > TEXT_BYTES_MAX || statement.walk(&mut Look { names, columns: 0 }).is_break()
}

struct Look<'a> {
    names: &'a Names<'a>,
    columns: usize,
}

impl Visitor for Look<'_> {
    type Break = ();
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        // What cannot be found now is nothing, or is the error of whoever needs it.
        let Ok((schema, relation)) = self.names.lookup().place(name) else { return ControlFlow::Continue(()) };
        let txn = self.names.txn;
        match txn.table(&schema, &relation) {
            Ok(Some(table)) => self.columns += table.columns.len(),
            // A view may stand for a thousand others.
            Ok(None) if matches!(txn.view_named(&schema, &relation), Ok(None)) => {}
            _ => return ControlFlow::Break(()),
        }
        if self.columns > COLUMNS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        // Of constants they are computed while planning, and a short text may ask for a long value, or for a long search.
        let is_quick = match expr {
            Expr::Function(call) => match call.name.0.as_slice() {
                [name] => name.as_ident().is_some_and(|name| is_quick(&folded(name))),
                _ => false,
            },
            Expr::BinaryOp { op, .. } => matches!(
                op,
                B::Plus
                    | B::Minus
                    | B::Multiply
                    | B::Divide
                    | B::Modulo
                    | B::StringConcat
                    | B::Gt
                    | B::Lt
                    | B::GtEq
                    | B::LtEq
                    | B::Eq
                    | B::NotEq
                    | B::And
                    | B::Or
            ),
            Expr::SimilarTo { .. } | Expr::RLike { .. } | Expr::Substring { .. } | Expr::Overlay { .. } => false,
            _ => true,
        };
        if is_quick { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        // CUBE of twelve columns is four thousand groupings.
        match &select.group_by {
            GroupByExpr::Expressions(list, modifiers) if modifiers.is_empty() => {
                let is_sets = |expr: &Expr| matches!(expr, Expr::Cube(_) | Expr::Rollup(_) | Expr::GroupingSets(_));
                if list.iter().any(is_sets) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            GroupByExpr::Expressions(..) | GroupByExpr::All(_) => ControlFlow::Break(()),
        }
    }
}
