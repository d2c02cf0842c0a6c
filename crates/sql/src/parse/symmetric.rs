//! BETWEEN SYMMETRIC and BETWEEN ASYMMETRIC, which the parser does not know.
//!
//! Before the parser sees them, ASYMMETRIC is dropped and SYMMETRIC becomes a sign before the first
//! bound ([`tokens`]); after it, `x BETWEEN SYMMETRIC a AND b` is, as in PostgreSQL,
//! `x >= a AND x <= b OR x >= b AND x <= a` ([`expand`]).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator, Value, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use resurgam_ast::AstWalkMut;

use crate::parse::words::{is_word, with_signs_apart};

/// The tokens of a text that has such words behind BETWEEN; `None` if it has none. Every token
/// keeps its place in the text.
pub(crate) fn tokens(text: &str) -> Option<Vec<TokenWithSpan>> {
    const WORD: &[u8] = b"symmetric";
    if !text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD)) {
        return None;
    }
    let mut tokens = match with_signs_apart(text) {
        Some(tokens) => tokens,
        None => crate::pg::lexer::tokens(text).ok()?,
    };
    let (mut changed, mut behind) = (false, false);
    tokens.retain_mut(|token| {
        if matches!(token.token, Token::Whitespace(_)) {
            return true;
        }
        let (symmetric, asymmetric) = (is_word(&token.token, "symmetric"), is_word(&token.token, "asymmetric"));
        let found = behind && (symmetric || asymmetric);
        behind = is_word(&token.token, "between");
        changed |= found;
        if found && symmetric {
            token.token = Token::DoubleExclamationMark;
        }
        !(found && asymmetric)
    });
    changed.then_some(tokens)
}

/// Writes the comparisons out, in a statement that was parsed from such tokens.
pub(crate) fn expand(statement: &mut Statement) {
    struct Walk;
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Between { expr: value, negated, low, high } = expr
                && unsign(low)
            {
                *expr = comparisons(value, low, high, *negated);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = statement.walk_mut(&mut Walk);
}

/// Takes the sign away from where the expression begins.
fn unsign(expr: &mut Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::PGPrefixFactorial, expr: inner } => {
            let null = Expr::Value(Value::Null.into());
            *expr = std::mem::replace(inner.as_mut(), null);
            true
        }
        Expr::BinaryOp { left, .. } => unsign(left),
        Expr::Cast { expr: inner, .. }
        | Expr::Collate { expr: inner, .. }
        | Expr::AtTimeZone { timestamp: inner, .. }
        | Expr::JsonAccess { value: inner, .. }
        | Expr::CompoundFieldAccess { root: inner, .. } => unsign(inner),
        _ => false,
    }
}

fn comparisons(value: &Expr, low: &Expr, high: &Expr, negated: bool) -> Expr {
    use BinaryOperator as B;
    let join = |left: Expr, op: BinaryOperator, right: Expr| {
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
    };
    let operand = |expr: &Expr| Expr::Nested(Box::new(expr.clone()));
    let (above, below, both, either) =
        if negated { (B::Lt, B::Gt, B::Or, B::And) } else { (B::GtEq, B::LtEq, B::And, B::Or) };
    let within = |low: &Expr, high: &Expr| {
        let first = join(operand(value), above.clone(), operand(low));
        let last = join(operand(value), below.clone(), operand(high));
        join(first, both.clone(), last)
    };
    join(within(low, high), either, within(high, low))
}

#[cfg(test)]
mod tests {
    use crate::parse::read::parse_known;

    #[test]
    fn written_out() {
        for (sql, wanted) in [
            (
                "SELECT a BETWEEN SYMMETRIC b + 1 AND c AS x FROM t",
                "SELECT ((((a) >= (b + 1)) AND ((a) <= (c))) OR (((a) >= (c)) AND ((a) <= (b + 1)))) AS x FROM t",
            ),
            (
                "SELECT 1 FROM t WHERE a NOT between /* x */ symmetric (b) AND -1",
                "SELECT 1 FROM t WHERE ((((a) < ((b))) OR ((a) > (-1))) AND (((a) < (-1)) OR ((a) > ((b)))))",
            ),
            ("SELECT 1 FROM t WHERE a BETWEEN ASYMMETRIC 1 AND 2", "SELECT 1 FROM t WHERE a BETWEEN 1 AND 2"),
        ] {
            let mut statements = parse_known(sql).expect(sql);
            let shown = statements.pop().expect(sql).to_string();
            assert_eq!(shown.replace("AS \"?column?\" ", ""), wanted);
        }
    }
}
