//! How deep a statement may be.
//!
//! The parser bounds what is nested (`NESTING_MAX`), but not chains: `1 + 1 + …`, `x::int::int…`, and set
//! operations are trees as deep as they are long, though no call was. Whatever follows such a tree
//! downwards (to copy it, to drop it) would overflow the stack, which ends the process.
//!
//! 1. Parsing has a stack in proportion to its tokens: what it drops when it fails may be that deep.
//! 2. Chains of AND and of OR, which programs write with thousands of terms, become trees of logarithmic
//!    depth with the same terms in the same order.
//! 3. Expressions of more than [`DEPTH_MAX`] levels are refused with PostgreSQL's `54001` (which says
//!    so at about 4000); so is a statement of more than [`TOKENS_MAX`] tokens, which would take gigabytes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, Statement, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use resurgam_ast::AstWalkMut;

use crate::wire::SqlError;

/// Stack of the threads that sessions run on, in bytes: what the deepest statements that are accepted
/// take, several times over. With less, as in a program of one's own, deep statements overflow it.
pub const STACK_BYTES: usize = 64 << 20;
/// Levels of expressions, one below the other. What programs follow downwards in the query engine, and
/// here, with the stack of a thread; and what it takes the query engine to plan a sum of terms grows with
/// a power of them.
const DEPTH_MAX: usize = 250;
/// Levels of a chain of set operations.
const SETS_MAX: usize = 500;
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
    match statement.walk_mut(&mut Walk::default()) {
        ControlFlow::Break(()) => Err(too_deep()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Where a walk is: for each expression above, the levels that it stands for, and its operator if that is
/// AND or OR.
#[derive(Default)]
struct Walk {
    above: Vec<(usize, Option<BinaryOperator>)>,
    depth: usize,
}

impl VisitorMut for Walk {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let op = match expr {
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => Some(op.clone()),
            _ => None,
        };
        let levels = match (&op, self.above.last()) {
            (Some(op), Some((_, Some(above)))) if above == op => 0,
            (Some(op), _) => {
                balance(expr, op);
                levels(expr, op)
            }
            (None, _) => 1,
        };
        self.depth += levels;
        self.above.push((levels, op));
        if self.depth > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.depth -= self.above.pop().map_or(0, |(levels, _)| levels);
        ControlFlow::Continue(())
    }
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let (mut set, mut depth) = (query.body.as_ref(), 0);
        while let SetExpr::SetOperation { left, .. } = set {
            (set, depth) = (left.as_ref(), depth + 1);
        }
        if depth > SETS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Levels that a balanced tree of AND or OR comes to: the query engine makes chains of such trees
/// again, but of alternatives that are equalities a list.
fn levels(expr: &Expr, op: &BinaryOperator) -> usize {
    let (mut terms, mut equalities) = (0, 0);
    let mut rest = vec![expr];
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryOp { left, op: found, right } if found == op => rest.extend([left.as_ref(), right.as_ref()]),
            Expr::BinaryOp { op: BinaryOperator::Eq, .. } => (terms, equalities) = (terms + 1, equalities + 1),
            _ => terms += 1,
        }
    }
    if *op == BinaryOperator::Or && terms == equalities { usize::BITS as usize } else { terms }
}

/// What a chain of AND or OR continues to its left.
fn left(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { left, .. } => Some(left),
        _ => None,
    }
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
    use crate::plan::statement::parse;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(statements) => statements.iter().map(ToString::to_string).collect(),
            Err(error) => error.into_fields().sqlstate,
        }
    }

    #[test]
    fn chains_stay_in_their_order() {
        let terms = |op: &str| (0..40).map(|i| format!("a = {i}")).collect::<Vec<_>>().join(op);
        for text in [terms(" OR "), terms(" AND "), format!("{} OR NOT b", terms(" AND "))] {
            assert!(shown(&format!("SELECT a WHERE {text}")).ends_with(&text), "{text}");
        }
    }

    #[test]
    fn deep_ones_are_refused_whole_or_broken() {
        for text in [
            "1 + ".repeat(100_000) + "1",
            "1 + ".repeat(100_000) + ")",
            format!("1{}", "::int".repeat(100_000)),
            format!("1{} +", " IS NULL".repeat(100_000)),
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
