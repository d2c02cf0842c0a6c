//! How deep a statement may be.
//!
//! The parser bounds what is nested (`NESTING_MAX`), but not chains: `1 + 1 + …`, `x::int::int…`, and set
//! operations are trees as deep as they are long, though no call was. Whatever follows such a tree
//! downwards (to copy it, to drop it) would overflow the stack, which ends the process.
//!
//! 1. Parsing has a stack in proportion to its tokens: what it drops when it fails may be that deep.
//! 2. Chains of AND and of OR, which programs write with thousands of terms, become trees of logarithmic
//!    depth with the same terms in the same order.
//! 3. Any other chain that is deeper than [`DEPTH_MAX`] is refused with PostgreSQL's `54001`; so is a
//!    statement of more than [`TOKENS_MAX`] tokens, which would take gigabytes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, Statement, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use resurgam_ast::AstWalkMut;

use crate::wire::SqlError;

/// Levels of one chain.
const DEPTH_MAX: usize = 500;
/// Levels of a chain of set operations.
const SETS_MAX: usize = 2000;
/// Terms from which on a chain of AND or OR is made a tree.
const TERMS_FEW: usize = 16;
/// Tokens of a text.
const TOKENS_MAX: usize = 4 << 20;
/// Stack for each token, in bytes: a level of a chain takes one at least, as `ISNULL` does.
const STACK_PER_TOKEN: usize = 1 << 10;

fn too_deep() -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
}

/// Runs `parse`, and [`bound`] on what it gives, with a stack that is large enough for these tokens.
///
/// # Errors
/// `54001`; those of `parse`.
pub(crate) fn parsed(
    tokens: Vec<TokenWithSpan>,
    parse: impl FnOnce(Vec<TokenWithSpan>) -> Result<Vec<Statement>, SqlError>,
) -> Result<Vec<Statement>, SqlError> {
    let count = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count();
    if count > TOKENS_MAX {
        return Err(too_deep().with_detail(format!("The statement has more than {TOKENS_MAX} tokens.")));
    }
    let stack = count * STACK_PER_TOKEN + (256 << 10);
    stacker::maybe_grow(stack, stack + (1 << 20), || {
        let mut statements = parse(tokens)?;
        statements.iter_mut().try_for_each(bound)?;
        Ok(statements)
    })
}

/// Makes chains shallow, or refuses them.
fn bound(statement: &mut Statement) -> Result<(), SqlError> {
    struct Walk;
    impl VisitorMut for Walk {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
                let op = op.clone();
                balance(expr, &op);
            }
            if depth(expr) > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let (mut set, mut depth) = (query.body.as_ref(), 0);
            while let SetExpr::SetOperation { left, .. } = set {
                (set, depth) = (left.as_ref(), depth + 1);
            }
            if depth > SETS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    match statement.walk_mut(&mut Walk) {
        ControlFlow::Break(()) => Err(too_deep()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What an expression continues to its left.
fn left(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => Some(left),
        Expr::Cast { expr, .. }
        | Expr::Collate { expr, .. }
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::IsTrue(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotUnknown(expr)
        | Expr::IsDistinctFrom(expr, _)
        | Expr::IsNotDistinctFrom(expr, _)
        | Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::Like { expr, .. }
        | Expr::ILike { expr, .. }
        | Expr::SimilarTo { expr, .. }
        | Expr::UnaryOp { expr, .. }
        | Expr::AtTimeZone { timestamp: expr, .. }
        | Expr::CompoundFieldAccess { root: expr, .. } => Some(expr),
        _ => None,
    }
}

fn depth(expr: &Expr) -> usize {
    std::iter::successors(Some(expr), |expr| left(expr)).take(DEPTH_MAX + 2).count()
}

/// A chain of one of AND and OR as a tree.
fn balance(expr: &mut Expr, op: &BinaryOperator) {
    let same = |expr: &Expr| matches!(expr, Expr::BinaryOp { op: found, .. } if found == op);
    let terms = std::iter::successors(Some(&*expr), |expr| if same(expr) { left(expr) } else { None }).count();
    if terms < TERMS_FEW {
        return;
    }
    let nothing = || Expr::Tuple(Vec::new());
    let mut list = Vec::with_capacity(terms);
    let mut rest = std::mem::replace(expr, nothing());
    while same(&rest)
        && let Expr::BinaryOp { left, right, .. } = rest
    {
        list.push(*right);
        rest = *left;
    }
    list.push(rest);
    list.reverse();
    // Neighbours are put together until one is left.
    while list.len() > 1 {
        let mut pairs = Vec::with_capacity(list.len().div_ceil(2));
        let mut terms = list.into_iter();
        while let Some(left) = terms.next() {
            pairs.push(match terms.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        list = pairs;
    }
    if let Some(tree) = list.pop() {
        *expr = tree;
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::parse;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(statements) => statements.iter().map(ToString::to_string).collect(),
            Err(error) => error.sqlstate,
        }
    }

    #[test]
    fn chains_stay_in_their_order() {
        let terms = |op: &str| (0..40).map(|i| format!("a = {i}")).collect::<Vec<_>>().join(op);
        for text in [terms(" OR "), terms(" AND "), format!("{} OR NOT b", terms(" AND "))] {
            let text = format!("SELECT 1 WHERE {text}");
            assert_eq!(shown(&text), text);
        }
    }

    #[test]
    fn deep_ones_are_refused_whole_or_broken() {
        for text in [
            "1 + ".repeat(100_000) + "1",
            "1 + ".repeat(100_000) + ")",
            format!("1{}", "::int".repeat(100_000)),
            format!("1{} +", " IS NULL".repeat(100_000)),
            format!("a{}", "[1]".repeat(50_000)),
            format!("1{}", " UNION ALL SELECT 1".repeat(50_000)),
            format!("1{} UNION", " EXCEPT SELECT 1".repeat(50_000)),
        ] {
            let found = shown(&format!("SELECT {text}"));
            assert!(found == "54001" || found == "42601", "{found}");
        }
        assert_eq!(shown(&format!("SELECT {}1", "1, ".repeat(3 << 20))), "54001");
        assert_eq!(shown(&format!("SELECT '{}'", "x".repeat(20 << 20))).len(), (20 << 20) + 9);
    }
}
