//! Comparisons of row values, written out.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use super::bare;
use crate::wire::SqlError;

/// Longest row value, so that writing it out cannot explode.
const COLUMNS_MAX: usize = 64;

fn tuple(expr: &Expr) -> Option<&[Expr]> {
    match bare(expr) {
        Expr::Tuple(items) => Some(items),
        Expr::Function(function) if super::last_name(&function.name) == "row" => None,
        _ => None,
    }
}

fn check(left: &[Expr], right: &[Expr]) -> Result<(), SqlError> {
    if left.len() != right.len() {
        return Err(SqlError::syntax("unequal number of entries in row expressions"));
    }
    if left.len() > COLUMNS_MAX {
        return Err(SqlError::new("54000", "row expression has too many entries"));
    }
    Ok(())
}

fn binary(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right.clone()) }
}

fn join(op: BinaryOperator, parts: Vec<Expr>) -> Option<Expr> {
    let several = parts.len() > 1;
    let joined = parts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })?;
    Some(if several { Expr::Nested(Box::new(joined)) } else { joined })
}

fn equal(left: &[Expr], right: &[Expr]) -> Option<Expr> {
    join(BinaryOperator::And, left.iter().zip(right).map(|(l, r)| binary(l, BinaryOperator::Eq, r)).collect())
}

/// `(a, b) op (c, d)`; `None` if it is not one of rows.
pub(super) fn comparison(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Expr>, SqlError> {
    let (Some(l), Some(r)) = (tuple(left), tuple(right)) else { return Ok(None) };
    use BinaryOperator as B;
    let strict = match op {
        B::Eq => {
            check(l, r)?;
            return Ok(equal(l, r));
        }
        B::NotEq => {
            check(l, r)?;
            let parts = l.iter().zip(r).map(|(l, r)| binary(l, B::NotEq, r)).collect();
            return Ok(join(B::Or, parts));
        }
        B::Lt | B::LtEq => B::Lt,
        B::Gt | B::GtEq => B::Gt,
        _ => return Ok(None),
    };
    check(l, r)?;
    // from the last column outwards: a < c OR (a = c AND rest)
    let mut out: Option<Expr> = None;
    for (l, r) in l.iter().zip(r).rev() {
        out = Some(match out {
            None => binary(l, op.clone(), r),
            Some(rest) => Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(binary(l, strict.clone(), r)),
                op: B::Or,
                right: Box::new(Expr::Nested(Box::new(Expr::BinaryOp {
                    left: Box::new(binary(l, B::Eq, r)),
                    op: B::And,
                    right: Box::new(rest),
                }))),
            })),
        });
    }
    Ok(out)
}

/// `(a, b) IN ((1, 2), (3, 4))`; `None` if it is not one of rows.
pub(super) fn in_list(expr: &Expr, list: &[Expr], negated: bool) -> Result<Option<Expr>, SqlError> {
    let Some(left) = tuple(expr) else { return Ok(None) };
    let mut parts = Vec::with_capacity(list.len());
    for item in list {
        let Some(right) = tuple(item) else { return Ok(None) };
        check(left, right)?;
        parts.extend(equal(left, right));
    }
    let joined = join(BinaryOperator::Or, parts);
    Ok(if negated {
        joined.map(|inner| Expr::UnaryOp {
            op: datafusion::sql::sqlparser::ast::UnaryOperator::Not,
            expr: Box::new(inner),
        })
    } else {
        joined
    })
}
