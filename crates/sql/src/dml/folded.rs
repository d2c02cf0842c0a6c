//! Values that hang on constants although columns are written in them: `CASE` whose conditions constants decide, `coalesce` that begins
//! with one. PostgreSQL has these when it plans (`eval_const_expressions`); here they are known once the parameters are.
//!
//! What is folded: branches that are not taken; AND and OR that one side decides; what is NULL since an operand is. Not what a branch has
//! that is not known to be taken, although PostgreSQL computes constants in it (docs/known-issues.md).

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::exec::direct::{Input, RowExpr};
use crate::wire::SqlError;

/// What names of functions that cast begin with.
const CAST: &str = "pg_cast_";
/// What takes the blanks off a `character`.
const BLANKS: &str = "rtrim";

/// See the module's head.
#[derive(Debug)]
pub(super) enum Folded {
    Given(RowExpr),
    /// Conditions with their values, and the value if none is true.
    Case(Vec<(Folded, Folded)>, Box<Folded>),
    /// The first that is not NULL.
    First(Vec<Folded>),
    /// NULL, if one of these is.
    Strict(Vec<Folded>),
    /// AND (`false`) and OR (`true`), with the value that decides.
    Joined(bool, Vec<Folded>),
    Not(Box<Folded>),
    /// IS NULL (`true`) and IS NOT NULL.
    IsNull(bool, Box<Folded>),
    /// IS TRUE and its kin.
    Is(fn(Option<bool>) -> bool, Box<Folded>),
    Unknown,
}

impl Folded {
    /// `constant` gives what is a constant to PostgreSQL as what computes it.
    pub(super) fn new(expr: &Expr, constant: &dyn Fn(&Expr) -> Option<RowExpr>) -> Self {
        if let Some(given) = constant(expr) {
            return Self::Given(given);
        }
        let of = |expr: &Expr| Self::new(expr, constant);
        let all = |exprs: &[Expr]| exprs.iter().map(of).collect::<Vec<_>>();
        let folded = match expr {
            Expr::Alias(alias) => of(&alias.expr),
            Expr::Case(case) => {
                let condition = |when: &Expr| match &case.expr {
                    None => of(when),
                    Some(operand) => of(&operand.as_ref().clone().eq(when.clone())),
                };
                let branches = case.when_then_expr.iter().map(|(when, then)| (condition(when), of(then)));
                let otherwise = case.else_expr.as_deref().map(of);
                Self::Case(
                    branches.collect(),
                    Box::new(otherwise.unwrap_or(Self::Given(RowExpr::Literal(ScalarValue::Null)))),
                )
            }
            Expr::ScalarFunction(call) if call.name() == "coalesce" => Self::First(all(&call.args)),
            Expr::Cast(cast) => over(&cast.expr, true, &to(cast)).map_or(Self::Unknown, |expr| of(&expr)),
            // Of one value and constants.
            Expr::ScalarFunction(call) => {
                let mut values = (0..call.args.len()).filter(|at| constant(&call.args[*at]).is_none());
                let (Some(at), None) = (values.next(), values.next()) else { return Self::Unknown };
                over(&call.args[at], is_cast(call), &of_argument(call, at)).map_or(Self::Unknown, |expr| of(&expr))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                Self::Joined(*op == Operator::Or, vec![of(left), of(right)])
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let op = *op;
                let with = |left: Expr, right: Expr| {
                    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
                };
                let brought = match (constant(left).is_some(), constant(right).is_some()) {
                    (true, false) => over(right, false, &|branch| with(left.as_ref().clone(), branch)),
                    (false, true) => over(left, false, &|branch| with(branch, right.as_ref().clone())),
                    _ => None,
                };
                match brought {
                    Some(brought) => of(&brought),
                    None if op.returns_null_on_null() => Self::Strict(vec![of(left), of(right)]),
                    None => Self::Unknown,
                }
            }
            Expr::Like(like) => Self::Strict(vec![of(&like.expr), of(&like.pattern)]),
            // Elements of which some are no constants are compared one by one; so is one alone.
            Expr::InList(list)
                if list.list.len() == 1 || list.list.iter().any(|element| constant(element).is_none()) =>
            {
                let compared = |element: &Expr| {
                    let (value, element) = (list.expr.as_ref().clone(), element.clone());
                    of(&if list.negated { value.not_eq(element) } else { value.eq(element) })
                };
                Self::Joined(!list.negated, list.list.iter().map(compared).collect())
            }
            Expr::Not(inner) => Self::Not(Box::new(of(inner))),
            Expr::IsNull(inner) => Self::IsNull(true, Box::new(of(inner))),
            Expr::IsNotNull(inner) => Self::IsNull(false, Box::new(of(inner))),
            Expr::IsTrue(inner) => Self::Is(|value| value == Some(true), Box::new(of(inner))),
            Expr::IsNotTrue(inner) => Self::Is(|value| value != Some(true), Box::new(of(inner))),
            Expr::IsFalse(inner) => Self::Is(|value| value == Some(false), Box::new(of(inner))),
            Expr::IsNotFalse(inner) => Self::Is(|value| value != Some(false), Box::new(of(inner))),
            Expr::IsUnknown(inner) => Self::Is(|value| value.is_none(), Box::new(of(inner))),
            Expr::IsNotUnknown(inner) => Self::Is(|value| value.is_some(), Box::new(of(inner))),
            _ => Self::Unknown,
        };
        if folded.is_unknown() { Self::Unknown } else { folded }
    }

    /// Whether it is known in no run.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Given(_) => false,
            Self::Case(branches, otherwise) => match branches.first() {
                Some((when, _)) => when.is_unknown(),
                None => otherwise.is_unknown(),
            },
            Self::First(values) => values.first().is_none_or(Self::is_unknown),
            Self::Strict(values) | Self::Joined(_, values) => values.iter().all(Self::is_unknown),
            Self::Not(inner) | Self::IsNull(_, inner) | Self::Is(_, inner) => inner.is_unknown(),
            Self::Unknown => true,
        }
    }

    /// The value with these parameters; `None` where it hangs on rows.
    ///
    /// # Errors
    /// Those of computing the constants.
    pub(super) fn value(&self, params: &[ScalarValue]) -> Result<Option<ScalarValue>, SqlError> {
        match self {
            Self::Given(expr) => expr.evaluate(Input { params, row: None }).map(Some),
            Self::Case(branches, otherwise) => {
                for (when, then) in branches {
                    match when.value(params)? {
                        None => return Ok(None),
                        Some(ScalarValue::Boolean(Some(true))) => return then.value(params),
                        Some(_) => {}
                    }
                }
                otherwise.value(params)
            }
            Self::First(values) => {
                for value in values {
                    match value.value(params)? {
                        Some(value) if value.is_null() => {}
                        found => return Ok(found),
                    }
                }
                Ok(Some(ScalarValue::Null))
            }
            Self::Strict(values) => {
                for value in values {
                    if value.value(params)?.is_some_and(|value| value.is_null()) {
                        return Ok(Some(ScalarValue::Null));
                    }
                }
                Ok(None)
            }
            Self::Joined(decides, values) => {
                let (mut is_known, mut is_null) = (true, false);
                for value in values {
                    match value.value(params)? {
                        Some(ScalarValue::Boolean(Some(value))) if value == *decides => {
                            return Ok(Some(ScalarValue::Boolean(Some(value))));
                        }
                        Some(value) => is_null |= value.is_null(),
                        None => is_known = false,
                    }
                }
                Ok(is_known.then_some(ScalarValue::Boolean((!is_null).then_some(!decides))))
            }
            Self::Not(inner) => Ok(inner.value(params)?.map(|value| match value {
                ScalarValue::Boolean(value) => ScalarValue::Boolean(value.map(|value| !value)),
                other => other,
            })),
            Self::IsNull(is_null, inner) => {
                let value = inner.value(params)?;
                Ok(value.map(|value| ScalarValue::Boolean(Some(value.is_null() == *is_null))))
            }
            Self::Is(test, inner) => Ok(inner.value(params)?.map(|value| {
                let value = if let ScalarValue::Boolean(value) = value { value } else { None };
                ScalarValue::Boolean(Some(test(value)))
            })),
            Self::Unknown => Ok(None),
        }
    }
}

/// Whether it gives NULL for NULL, and is called for a value that is brought to another type.
fn is_cast(call: &ScalarFunction) -> bool {
    call.name().starts_with(CAST) || call.name() == BLANKS
}

/// The same call with another argument there.
fn of_argument(call: &ScalarFunction, at: usize) -> impl Fn(Expr) -> Expr {
    move |value| {
        let mut args = call.args.clone();
        args[at] = value;
        Expr::ScalarFunction(ScalarFunction { args, ..call.clone() })
    }
}

/// The same cast of another value.
fn to(cast: &Cast) -> impl Fn(Expr) -> Expr {
    let field = Arc::clone(&cast.field);
    move |value| Expr::Cast(Cast { expr: Box::new(value), field: Arc::clone(&field) })
}

/// What `call` makes of a value, brought into the branches of that: it is called for the one that is taken. `None`: it has none. `is_cast`: of
/// NULL it makes NULL.
fn over(value: &Expr, is_cast: bool, call: &dyn Fn(Expr) -> Expr) -> Option<Expr> {
    match value {
        Expr::Alias(alias) => over(&alias.expr, is_cast, call),
        Expr::Case(case) => {
            let branch = |branch: &Expr| Box::new(call(branch.clone()));
            let branches = case.when_then_expr.iter().map(|(when, then)| (when.clone(), branch(then)));
            Some(Expr::Case(Case {
                expr: case.expr.clone(),
                when_then_expr: branches.collect(),
                else_expr: case.else_expr.as_deref().map(branch),
            }))
        }
        Expr::ScalarFunction(first) if first.name() == "coalesce" && is_cast => {
            let args = first.args.iter().cloned().map(call).collect();
            Some(Expr::ScalarFunction(ScalarFunction { args, ..first.clone() }))
        }
        Expr::Cast(cast) => over(&over(&cast.expr, true, &to(cast))?, is_cast, call),
        // Of one value and constants that are written out: blanks that are taken off, say.
        Expr::ScalarFunction(inner) => {
            let mut values = (0..inner.args.len()).filter(|at| inner.args[*at].as_literal().is_none());
            let (Some(at), None) = (values.next(), values.next()) else { return None };
            over(&over(&inner.args[at], self::is_cast(inner), &of_argument(inner, at))?, is_cast, call)
        }
        _ => None,
    }
}
