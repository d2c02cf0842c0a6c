//! How deep a statement may be: the one place that says so.
//!
//! Chains (`1 + 1 + …`, `a OR b OR …`, `SELECT … UNION ALL SELECT …`) are trees as deep as they are long when they come
//! from the parser. Whatever follows such a tree downwards, to copy it, to drop it, to walk over it, would
//! overflow the stack, which ends the process.
//!
//! 1. The parser is bounded while it parses (`bounded.rs` of `crates/pg`), and has a stack in proportion to the tokens: what it
//!    drops when it fails may be that deep.
//! 2. A chain of operators of one precedence, or of one set operation, becomes a tree of logarithmic depth with
//!    the same terms in the same order. The parser never makes such a tree (what stands to the right of an
//!    operator of the same precedence is in parentheses, which are a node), so its meaning is clear:
//!    [`Links`] reads the chain from either form. As text it is what it was.
//! 3. Expressions of more than [`DEPTH_MAX`] levels are refused with PostgreSQL's `54001` (which says
//!    so at about 4000); so is a statement of more than [`TOKENS_MAX`] tokens, which would take gigabytes.
//! 4. Analysis makes what is flat of chains (`plan/analyze/chain.rs`), and refuses what it cannot, by the same numbers.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Statement, Values, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use resurgam_ast::AstWalkMut;

use super::shape::is_optimizable;
pub(crate) use crate::pg::bounded::{DEPTH_MAX, too_deep};
use crate::wire::SqlError;

/// Stack of the threads that sessions run on, in bytes: what the deepest statements that are accepted
/// take, several times over. With less, as in a program of one's own, deep statements overflow it.
pub const STACK_BYTES: usize = 64 << 20;
/// Steps of analysis, one below the other: queries and clauses between expressions count there, too.
pub(crate) const STEPS_MAX: usize = 6 * DEPTH_MAX;
/// Terms of a chain that become one level.
pub(crate) const TERMS_TOGETHER: usize = 256;
/// Levels of a chain of EXCEPT or INTERSECT, and of UNION between others.
pub(crate) const SETS_MAX: usize = 500;
/// Terms from which on a chain is made a tree.
const TERMS_FEW: usize = 16;
/// Tokens of a text.
const TOKENS_MAX: usize = 4 << 20;
/// Stack for each token, in bytes: a level of a chain takes one at least, as `ISNULL` does.
const STACK_PER_TOKEN: usize = 1 << 10;

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
    if brackets(&tokens) > DEPTH_MAX {
        return Err(too_deep());
    }
    let stack = count * STACK_PER_TOKEN + (256 << 10);
    stacker::maybe_grow(stack, stack + (1 << 20), || {
        let mut statements = parse(tokens)?;
        statements.iter_mut().try_for_each(bound)?;
        Ok(statements)
    })
}

/// The longest row of brackets with nothing, or a number, in them: `int[][]` is a type within a type.
fn brackets(tokens: &[TokenWithSpan]) -> usize {
    let (mut most, mut pairs, mut open) = (0, 0, false);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::LBracket if !open => open = true,
            Token::Number(..) if open => {}
            Token::RBracket if open => (pairs, open) = (pairs + 1, false),
            _ => (pairs, open) = (0, false),
        }
        most = most.max(pairs);
    }
    most
}

/// Makes chains shallow, or refuses them.
fn bound(statement: &mut Statement) -> Result<(), SqlError> {
    let mut walk = Walk { is_kept: !is_planned(statement), ..Walk::default() };
    match statement.walk_mut(&mut walk) {
        ControlFlow::Break(()) => Err(too_deep()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether it goes by analysis, which makes chains flat. What definitions keep is text that is parsed for each who
/// reads them, and prints as trees.
fn is_planned(statement: &Statement) -> bool {
    match statement {
        known if is_optimizable(known) => true,
        Statement::Copy { .. } | Statement::Declare { .. } | Statement::Execute { .. } => true,
        Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } => is_planned(statement),
        _ => false,
    }
}

/// What chains of operators are of; those of one kind are of one precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    And,
    Or,
    Sum,
    Product,
    Concat,
    Bits,
}

impl Chain {
    pub(crate) fn of(op: &BinaryOperator) -> Option<Self> {
        use BinaryOperator as B;
        Some(match op {
            B::And => Self::And,
            B::Or => Self::Or,
            B::Plus | B::Minus => Self::Sum,
            B::Multiply | B::Divide | B::Modulo => Self::Product,
            B::StringConcat => Self::Concat,
            B::BitwiseAnd | B::BitwiseOr => Self::Bits,
            _ => return None,
        })
    }

    /// Levels that so many terms come to.
    fn levels(self, terms: usize) -> usize {
        match self {
            // Tried again in analysis, which knows more: a list of equalities is no level at all.
            Self::And | Self::Or => terms.min(TERMS_FEW) + terms / TERMS_TOGETHER / TERMS_FEW,
            _ if terms < TERMS_FEW => terms,
            _ => TERMS_FEW + terms / TERMS_TOGETHER,
        }
    }
}

fn chain_of(expr: &Expr) -> Option<Chain> {
    match expr {
        Expr::BinaryOp { op, .. } => Chain::of(op),
        _ => None,
    }
}

/// The terms of a chain of operators from left to right, each behind its operator: the first of them, with the second
/// the operator's value, which is the left operand of the next.
pub(crate) struct Links<'a> {
    /// What is still to come, the last first.
    rest: Vec<Rest<'a>>,
}

enum Rest<'a> {
    /// An expression, and what of it belongs to the chain.
    Expr(&'a Expr, Follow),
    Op(&'a BinaryOperator),
}

/// Which operators of an expression belong to the chain around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    /// It is the first: whatever is computed there is the left operand of the rest.
    Any,
    /// It is within what was balanced.
    Only(Chain),
    /// It is a term.
    None,
}

impl<'a> Links<'a> {
    pub(crate) fn of(expr: &'a Expr) -> Self {
        Self { rest: vec![Rest::Expr(expr, Follow::Any)] }
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = (Option<&'a BinaryOperator>, &'a Expr);

    fn next(&mut self) -> Option<Self::Item> {
        let mut before = None;
        loop {
            match self.rest.pop()? {
                Rest::Op(op) => before = Some(op),
                Rest::Expr(expr, follow) => match expr {
                    Expr::BinaryOp { left, op, right }
                        if follow == Follow::Any
                            || Chain::of(op).is_some_and(|chain| follow == Follow::Only(chain)) =>
                    {
                        // To the right there is more of the chain only where it was balanced.
                        let to_right = match Chain::of(op) {
                            Some(chain) if chain_of(right) == Some(chain) => Follow::Only(chain),
                            _ => Follow::None,
                        };
                        self.rest.extend([Rest::Expr(right, to_right), Rest::Op(op), Rest::Expr(left, follow)]);
                    }
                    term => return Some((before, term)),
                },
            }
        }
    }
}

/// Where a walk is: for each expression above, the levels that it stands for, and of what chain it is.
#[derive(Default)]
struct Walk {
    above: Vec<(usize, Option<Chain>)>,
    depth: usize,
    /// The statement is a definition: its chains are as deep as they are long.
    is_kept: bool,
}

impl VisitorMut for Walk {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let chain = chain_of(expr);
        let levels = match (chain, self.above.last()) {
            (Some(chain), Some((_, Some(above)))) if chain == *above => 0,
            (Some(chain), _) => match (balance(expr, chain), self.is_kept) {
                (terms, true) => terms,
                (terms, false) => chain.levels(terms),
            },
            (None, _) => 1,
        };
        self.depth += levels;
        self.above.push((levels, chain));
        if self.depth > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.depth -= self.above.pop().map_or(0, |(levels, _)| levels);
        ControlFlow::Continue(())
    }
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match bound_sets(&mut query.body, 0) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// Makes chains of UNION shallow; whether there are no more than [`SETS_MAX`] levels, with those above.
fn bound_sets(set: &mut SetExpr, above: usize) -> bool {
    let SetExpr::SetOperation { op, set_quantifier, .. } = set else { return true };
    let kind = (*op, *set_quantifier);
    let mut list = Vec::new();
    let nothing = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
    let mut rest = std::mem::replace(set, nothing);
    loop {
        rest = match rest {
            SetExpr::SetOperation { op, set_quantifier, left, right } if (op, set_quantifier) == kind => {
                list.push(((), *right));
                *left
            }
            first => {
                rest = first;
                break;
            }
        }
    }
    list.reverse();
    let is_tree = kind.0 == SetOperator::Union && list.len() >= TERMS_FEW;
    let levels = above + if is_tree { 1 } else { list.len() };
    if levels > SETS_MAX || !bound_sets(&mut rest, levels) || !list.iter_mut().all(|(_, term)| bound_sets(term, levels))
    {
        return false;
    }
    let join = |left, (), right| SetExpr::SetOperation {
        op: kind.0,
        set_quantifier: kind.1,
        left: Box::new(left),
        right: Box::new(right),
    };
    *set = match is_tree {
        true => tree(rest, list, join),
        false => list.into_iter().fold(rest, |left, (op, right)| join(left, op, right)),
    };
    true
}

/// The terms of a chain of one set operation, from left to right, in either form.
pub(crate) fn set_terms(set: &SetExpr, op: SetOperator, quantifier: SetQuantifier) -> Vec<&SetExpr> {
    let mut terms = Vec::new();
    let mut rest = vec![set];
    while let Some(set) = rest.pop() {
        match set {
            SetExpr::SetOperation { op: o, set_quantifier, left, right }
                if (*o, *set_quantifier) == (op, quantifier) =>
            {
                rest.extend([right.as_ref(), left.as_ref()]);
            }
            term => terms.push(term),
        }
    }
    terms
}

/// Neighbours are put together until one is left.
fn tree<T, O>(first: T, rest: Vec<(O, T)>, join: impl Fn(T, O, T) -> T) -> T {
    let mut list: Vec<(Option<O>, T)> = Vec::with_capacity(rest.len() + 1);
    list.push((None, first));
    list.extend(rest.into_iter().map(|(op, term)| (Some(op), term)));
    while list.len() > 1 {
        let mut pairs = Vec::with_capacity(list.len().div_ceil(2));
        let mut terms = list.into_iter();
        while let Some((before, left)) = terms.next() {
            pairs.push(match terms.next() {
                Some((Some(op), right)) => (before, join(left, op, right)),
                // The last one; each but the first has an operator.
                Some((None, _)) | None => (before, left),
            });
        }
        list = pairs;
    }
    match list.pop() {
        Some((_, tree)) => tree,
        None => unreachable!("the first term is there"),
    }
}

/// A chain as a tree, if it is long; how many terms it has.
fn balance(expr: &mut Expr, chain: Chain) -> usize {
    let mut terms = 1;
    let mut next = &*expr;
    while chain_of(next) == Some(chain)
        && let Expr::BinaryOp { left, .. } = next
    {
        (terms, next) = (terms + 1, left);
    }
    if terms < TERMS_FEW {
        return terms;
    }
    let mut list = Vec::with_capacity(terms);
    let mut rest = std::mem::replace(expr, Expr::Tuple(Vec::new()));
    while chain_of(&rest) == Some(chain)
        && let Expr::BinaryOp { left, op, right } = rest
    {
        list.push((op, *right));
        rest = *left;
    }
    list.reverse();
    *expr = tree(rest, list, |left, op, right| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) });
    terms
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::parse::read::parse;

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
            "1 + ".repeat(100_000) + ")",
            format!("1{}", "::int".repeat(100_000)),
            format!("1{} +", " IS NULL".repeat(100_000)),
            format!("1{}", " EXCEPT SELECT 1".repeat(50_000)),
            format!("1{}", " UNION ALL SELECT 1 UNION SELECT 1".repeat(50_000)),
            format!("1{} UNION", " EXCEPT SELECT 1".repeat(50_000)),
            format!("null::int{}", "[]".repeat(50_000)),
            format!("null::int{}", " [ 3 ]".repeat(50_000)),
        ] {
            let found = shown(&format!("SELECT {text}"));
            assert!(found == "54001" || found == "42601", "{found}");
        }
        assert_eq!(shown(&format!("SELECT {}1", "1, ".repeat(3 << 20))), "54001");
        assert_eq!(shown(&format!("SELECT '{}'", "x".repeat(20 << 20))).len(), (20 << 20) + 9);
    }

    #[test]
    fn what_is_nested_is_read_once_or_refused_at_once() {
        for (open, close) in [
            ("cast(", " as int)"),
            ("abs(", ")"),
            ("substring(", " from 1 for 1)"),
            ("array[", "]"),
            ("(array[", "])[1]"),
            ("case when ", " then 1 end"),
            ("not ", ""),
            ("coalesce(1, ", ")"),
            ("position('a' in ", ")::text"),
            ("extract(epoch from ", ")"),
            ("trim(", ")"),
            ("interval ", ""),
            ("(select ", ")"),
            ("f(a: ", ")"),
        ] {
            for (levels, ends) in [(40, true), (100, true), (100, false), (5000, true), (5000, false)] {
                let close = if ends { close.repeat(levels) } else { String::new() };
                let text = format!("select {}1{close}", open.repeat(levels));
                let begun = Instant::now();
                let parsed = parse(&text);
                let took = begun.elapsed();
                assert!(took.as_secs() < 5, "{open} {levels} deep took {took:?}");
                if levels > 1000 && ends && !open.contains("interval") {
                    assert_eq!(parsed.err().map(|error| error.sqlstate.clone()).as_deref(), Some("54001"), "{open}");
                }
            }
        }
    }
}
