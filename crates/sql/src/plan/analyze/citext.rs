//! `citext`, the type of the extension of that name: what its operators and functions are computed by, and what is not known
//! to take such texts.
//!
//! Values are of an Arrow type of their own ([`crate::pg::citext`]). Comparisons, sorts and groups go by keys, as those of
//! documents do (`NumericKeys`), which puts them into the finished plan. Patterns are matched as texts, without case; all else
//! takes the text that a value shows, by a cast that the tables of the dialect ask for. A function that would see such a value as it is
//! is refused, unless it hands values on and looks into none ([`TAKES`]).

use std::ops::ControlFlow;

use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{self, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_ast::AstWalkMut;
use resurgam_dialect::{CastContext, Function};

use super::bound::{Bound, Column, Type};
use super::domains::only_columns;
use super::expr::Clause;
use super::scope::Scope;
use super::{Analyzer, Result, unknown};
use crate::pg::citext::{is_citext, is_within};
use crate::pg::types::oid;
use crate::pg::user_types;
use crate::plan::expression::parse_expression;
use crate::wire::SqlError;

/// Functions that take such values as they are. (`greatest` and `least` become others, which go by keys.)
const TAKES: [&str; 12] = [
    "order_key",
    "pg_cast_text",
    "cast_to_citext",
    "coalesce",
    "greatest",
    "least",
    "domain_check",
    "num_nulls",
    "num_nonnulls",
    "pg_typeof",
    "pg_column_size",
    "pg_nullable",
];

/// The operator of texts that an operator of a pattern is.
fn without_case(name: &str) -> Option<&'static str> {
    Some(match name {
        "~~" | "~~*" => "~~*",
        "!~~" | "!~~*" => "!~~*",
        "~" | "~*" => "~*",
        "!~" | "!~*" => "!~*",
        _ => return None,
    })
}

/// What stands in the place of an argument in a function's text.
fn argument(number: usize) -> String {
    format!("argument_{number}")
}

/// `0A000` where a function does not know such texts.
///
/// # Errors
/// `0A000`
pub(super) fn check_function(name: &str, args: &[Bound]) -> Result<()> {
    let is_such = |arg: &Bound| is_citext(&arg.data) || is_within(&arg.data);
    match TAKES.contains(&name) || !args.iter().any(is_such) {
        true => Ok(()),
        false => unknown(format!("{name} of citext")),
    }
}

impl Analyzer<'_> {
    /// Whether the operators of the type are found: names without a schema are looked for where they are.
    ///
    /// # Errors
    /// `0A000`: PostgreSQL would take those of texts in their place.
    pub(super) fn check_citext_operator(&mut self, left: Type, right: Type) -> Result<()> {
        if ![left.oid, right.oid].contains(&oid::CITEXT) || self.stored || self.is_within_view() {
            return Ok(());
        }
        let types = user_types::current();
        let found = types.as_ref().and_then(|types| Some((types, types.by_oid(oid::CITEXT)?)));
        match found.is_some_and(|(types, ty)| types.looks_for_functions_in(&ty.schema)) {
            true => Ok(()),
            false => unknown("an operator of citext, whose schema is not in search_path,"),
        }
    }

    /// `left name right` of a text and a pattern, if the operator is one of those.
    pub(super) fn citext_pattern(
        &mut self,
        name: &str,
        left: &Bound,
        right: &Bound,
        span: Span,
    ) -> Result<Option<Bound>> {
        let Some(name) = without_case(name) else { return Ok(None) };
        let (left, right) = (self.citext_text(left.clone())?, self.citext_text(right.clone())?);
        Ok(Some(self.binary(name, left, right, span)?))
    }

    /// A value of the type as a text, any other as it is.
    pub(super) fn citext_text(&mut self, bound: Bound) -> Result<Bound> {
        match bound.ty.oid {
            oid::CITEXT => self.converted(bound, Type::TEXT),
            _ => Ok(bound),
        }
    }

    /// A call of a function of the extension; `None`: it is of another one.
    pub(super) fn citext_call(
        &mut self,
        function: &Function,
        args: &[Bound],
        result: Type,
        returns_set: bool,
        span: Span,
    ) -> Result<Option<Bound>> {
        let of = |text: &'static str| Some(text);
        let text = match (function.language, function.source) {
            ("sql", text) => Some(text),
            (_, "citext_eq") => of("$1 = $2"),
            (_, "citext_ne") => of("$1 <> $2"),
            (_, "citext_lt") => of("$1 < $2"),
            (_, "citext_le") => of("$1 <= $2"),
            (_, "citext_gt") => of("$1 > $2"),
            (_, "citext_ge") => of("$1 >= $2"),
            (_, "texticlike") => of("$1 ~~ $2"),
            (_, "texticnlike") => of("$1 !~~ $2"),
            (_, "texticregexeq") => of("$1 ~ $2"),
            (_, "texticregexne") => of("$1 !~ $2"),
            (_, "rtrim1" | "booltext" | "network_show") => of("$1"),
            _ => None,
        };
        let is_of_it = function.args.first().is_some_and(|ty| ty.0 == oid::CITEXT) || result.oid == oid::CITEXT;
        let Some(text) = text.filter(|_| is_of_it) else { return Ok(None) };
        if returns_set {
            return unknown(format!("{}(citext, …) with its set", function.name));
        }
        let has_subquery =
            |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
        for arg in args {
            // Written several times, it would be computed as often.
            use datafusion::common::tree_node::TreeNode;
            if arg.expr.is_volatile() || arg.expr.exists(|expr| Ok(has_subquery(expr)))? {
                return unknown(format!("{} of citext that is computed anew each time", function.name));
            }
        }
        let mut expr = parse_expression(text)?;
        let _ = expr.walk_mut(&mut Arguments);
        let columns = args.iter().zip(1..).map(|(arg, number)| Column { name: argument(number), bound: arg.clone() });
        let scope = Scope { items: vec![only_columns(columns.collect())], ..Scope::empty() };
        // Its places are in another text.
        let own = std::mem::take(&mut self.text);
        let bound = self.expr(&expr, &scope, Clause::Values);
        self.text = own;
        let bound = self.cast_as(bound?, result, CastContext::Explicit)?;
        Ok(Some(bound.at(span)))
    }

    /// An argument of an aggregate that does not compare it.
    ///
    /// # Errors
    /// `0A000`
    pub(super) fn citext_in_aggregate(&mut self, name: &str, arg: Bound) -> Result<Bound> {
        let is_json = super::json::is_json_aggregate(name);
        match () {
            () if is_json && arg.ty.oid == oid::CITEXT => self.citext_text(arg),
            () if is_within(&arg.data) => unknown(format!("{name} of records with citext")),
            () if is_citext(&arg.data) && !matches!(name, "count" | "min" | "max") => {
                unknown(format!("{name} of citext"))
            }
            () => Ok(arg),
        }
    }

    /// `0A000`: such texts go by no collation but the default one here.
    pub(super) fn refuse_collated_citext(&self, bound: &Bound, span: Span) -> Result<()> {
        match bound.ty.oid {
            oid::CITEXT => Err(self.at(SqlError::unsupported("COLLATE of citext is not supported"), span)),
            _ => Ok(()),
        }
    }
}

/// Puts names in the places of `$1` and its kin.
struct Arguments;

impl VisitorMut for Arguments {
    type Break = ();
    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
        {
            *expr = ast::Expr::Identifier(ast::Ident::new(argument(number)));
        }
        ControlFlow::Continue(())
    }
}
