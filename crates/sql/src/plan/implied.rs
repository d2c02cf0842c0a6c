//! Whether conditions that hold for a row imply another one, as far as PostgreSQL proves it (`predicate_implied_by`): what an
//! ON CONFLICT's condition says of a partial index.
//!
//! What is proved: terms that are the same; AND and OR taken apart; comparisons of one expression with constants
//! (`b > 5` implies `b > 1`); `IS NOT NULL` of what is compared.

use std::cmp::Ordering;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// Terms of an AND or OR that are looked at.
const TERMS_MAX: usize = 200;

/// Whether a row for which all of `known` are true has `needed` true, too.
pub(crate) fn implies(known: &[&Expr], needed: &Expr) -> bool {
    let Some(needed) = terms(needed, Operator::And) else { return false };
    let mut all = Vec::new();
    for one in known {
        let Some(terms) = terms(one, Operator::And) else { return false };
        all.extend(terms);
    }
    needed.iter().all(|needed| all.iter().any(|known| term_implies(known, needed)))
}

fn term_implies(known: &Expr, needed: &Expr) -> bool {
    if known == needed {
        return true;
    }
    let (Some(known), Some(needed)) = (terms(known, Operator::Or), terms(needed, Operator::Or)) else { return false };
    match (known.as_slice(), needed.as_slice()) {
        ([known], [needed]) => one_implies(known, needed),
        // Each way in which it can be true has to be one of the others.
        (known, needed) => {
            known.iter().all(|known| needed.iter().any(|needed| known == needed || whole(known, needed)))
        }
    }
}

/// Of a term of an OR, which may be an AND.
fn whole(known: &Expr, needed: &Expr) -> bool {
    let (Some(known), Some(needed)) = (terms(known, Operator::And), terms(needed, Operator::And)) else { return false };
    needed.iter().all(|needed| known.iter().any(|known| known == needed || one_implies(known, needed)))
}

fn one_implies(known: &Expr, needed: &Expr) -> bool {
    if let Expr::InList(list) = known
        && !list.negated
    {
        return !list.list.is_empty()
            && list.list.iter().all(|item| match item {
                Expr::Literal(with, _) if !with.is_null() => {
                    comparison_implies(Some(Comparison { of: &list.expr, by: Operator::Eq, with }), needed)
                }
                _ => false,
            });
    }
    comparison_implies(comparison(known), needed)
}

fn comparison_implies(known: Option<Comparison<'_>>, needed: &Expr) -> bool {
    if let Expr::IsNotNull(of) = needed {
        // A comparison with NULL is not true.
        return known.is_some_and(|known| known.of == of.as_ref());
    }
    let (Some(known), Some(needed)) = (known, comparison(needed)) else { return false };
    known.of == needed.of && follows(known.by, needed.by, known.with, needed.with)
}

/// `expression operator constant`.
struct Comparison<'e> {
    of: &'e Expr,
    by: Operator,
    with: &'e ScalarValue,
}

fn comparison(expr: &Expr) -> Option<Comparison<'_>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    use Operator as O;
    if !matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq) {
        return None;
    }
    match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(..), Expr::Literal(..)) => None,
        (of, Expr::Literal(with, _)) if !with.is_null() => Some(Comparison { of, by: *op, with }),
        (Expr::Literal(with, _), of) if !with.is_null() => Some(Comparison { of, by: op.swap()?, with }),
        _ => None,
    }
}

/// Whether `x known a` implies `x needed b`.
fn follows(known: Operator, needed: Operator, a: &ScalarValue, b: &ScalarValue) -> bool {
    use Operator as O;
    // PostgreSQL's order of NaN is another one than the value's own.
    let is_ordered = |value: &ScalarValue| !matches!(value, ScalarValue::Float32(_) | ScalarValue::Float64(_));
    if a.data_type() != b.data_type() || !is_ordered(a) {
        return false;
    }
    let Some(order) = a.partial_cmp(b) else { return false };
    match (known, needed) {
        (O::Eq, O::Eq) | (O::NotEq, O::NotEq) => order == Ordering::Equal,
        (O::Eq, O::Lt) | (O::LtEq, O::Lt) => order == Ordering::Less,
        (O::Eq | O::Lt | O::LtEq, O::LtEq) | (O::Lt, O::Lt) => order != Ordering::Greater,
        (O::Eq, O::Gt) | (O::GtEq, O::Gt) => order == Ordering::Greater,
        (O::Eq | O::Gt | O::GtEq, O::GtEq) | (O::Gt, O::Gt) => order != Ordering::Less,
        (O::Eq, O::NotEq) => order != Ordering::Equal,
        (O::Lt, O::NotEq) => order != Ordering::Greater,
        (O::LtEq, O::NotEq) => order == Ordering::Less,
        (O::Gt, O::NotEq) => order != Ordering::Less,
        (O::GtEq, O::NotEq) => order == Ordering::Greater,
        _ => false,
    }
}

/// The terms of a chain of one operator; `None`: there are too many.
fn terms(expr: &Expr, by: Operator) -> Option<Vec<&Expr>> {
    let (mut found, mut left) = (Vec::new(), vec![expr]);
    while let Some(expr) = left.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == by => left.extend([binary.right.as_ref(), binary.left.as_ref()]),
            term => found.push(term),
        }
        if found.len() + left.len() > TERMS_MAX {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    fn holds(x: i64, by: Operator, with: i64) -> bool {
        match by {
            Operator::Eq => x == with,
            Operator::NotEq => x != with,
            Operator::Lt => x < with,
            Operator::LtEq => x <= with,
            Operator::Gt => x > with,
            _ => x >= with,
        }
    }

    fn compare(by: Operator, with: i64) -> Expr {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(col("b")), by, Box::new(lit(with))))
    }

    /// Never what is not so, and whatever PostgreSQL's table proves: between numbers there are others.
    #[test]
    fn comparisons_with_constants() {
        for known in OPERATORS {
            for needed in OPERATORS {
                for a in [-2, 0, 2] {
                    for b in [-2, 0, 2] {
                        let is_so = (-5..=5).all(|x| !holds(x, known, a) || holds(x, needed, b));
                        let found = implies(&[&compare(known, a)], &compare(needed, b));
                        assert_eq!(found, is_so, "b {known} {a} => b {needed} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn lists_are_ors() {
        let list = |items: [i64; 2]| {
            Expr::InList(datafusion::logical_expr::expr::InList::new(
                Box::new(col("b")),
                items.map(lit).to_vec(),
                false,
            ))
        };
        assert!(implies(&[&list([7, 8])], &compare(Operator::Gt, 1)));
        assert!(!implies(&[&list([7, 0])], &compare(Operator::Gt, 1)));
        assert!(implies(&[&list([7, 8])], &Expr::IsNotNull(Box::new(col("b")))));
    }

    #[test]
    fn terms_of_several() {
        let b = |by, with| compare(by, with);
        let (gt5, gt1, lt9) = (b(Operator::Gt, 5), b(Operator::Gt, 1), b(Operator::Lt, 9));
        let not_null = Expr::IsNotNull(Box::new(col("b")));
        assert!(implies(&[&gt5.clone().and(lt9.clone())], &gt1));
        assert!(implies(&[&gt5, &lt9], &gt1.clone().and(lt9.clone())));
        assert!(!implies(&[&gt5], &gt1.clone().and(lt9.clone())));
        assert!(implies(&[&gt5], &gt1.clone().or(lt9.clone())));
        assert!(!implies(&[&gt1.clone().or(lt9.clone())], &gt1));
        assert!(implies(&[&b(Operator::Eq, 7).or(b(Operator::Eq, 8))], &gt1));
        assert!(implies(&[&b(Operator::Eq, 7).or(b(Operator::Eq, 8))], &gt1.clone().and(lt9)));
        assert!(implies(&[&gt5], &not_null) && !implies(&[&not_null], &gt5));
        let other = Expr::BinaryExpr(BinaryExpr::new(Box::new(col("c")), Operator::Gt, Box::new(lit(5i64))));
        assert!(!implies(&[&other], &gt1) && !implies(&[&other], &not_null));
        assert!(!implies(&[], &gt1));
        let swapped = Expr::BinaryExpr(BinaryExpr::new(Box::new(lit(5i64)), Operator::Lt, Box::new(col("b"))));
        assert!(implies(&[&swapped], &gt1));
    }
}
