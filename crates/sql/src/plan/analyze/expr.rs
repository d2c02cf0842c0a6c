//! Expressions.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Spans;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier, Sort};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, cast, lit};
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, CastKind, FunctionArgumentList, FunctionArguments, Spanned, Subscript,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::CastContext;

use super::bound::{Bound, Relation, Type};
use super::coerce::catalog;
use super::condition::is_row;
use super::scope::{Scope, folded};
use super::{Analyzer, Result, unknown};
use crate::pg::citext::is_citext;
use crate::pg::functions::{interval_key, numeric, order_key};
use crate::pg::types::{self, oid};
use crate::wire::SqlError;

/// Where an expression stands: some places have no aggregates, no window functions, no sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    SelectList,
    From,
    JoinOn,
    Where,
    Having,
    GroupBy,
    OrderBy,
    Limit,
    Values,
    /// The argument of an aggregate, or its FILTER.
    Aggregate,
    /// The arguments and the definition of a window.
    Window,
    /// SET of UPDATE and of ON CONFLICT.
    Set,
    Returning,
    /// AND of a WHEN of MERGE.
    MergeWhen,
    /// A CHECK condition.
    Check,
    Default,
    /// The expression of a generated column.
    Generated,
    /// The expression of an index's column.
    Index,
    /// WHERE of CREATE INDEX.
    Predicate,
    CopyWhere,
    /// USING of ALTER COLUMN TYPE.
    Transform,
    /// An argument of EXECUTE.
    Execute,
}

impl Clause {
    /// Why aggregates cannot be here.
    pub(super) fn refuses_aggregates(self) -> Option<&'static str> {
        Some(match self {
            Self::SelectList | Self::Having | Self::OrderBy | Self::Window => return None,
            Self::From => "aggregate functions are not allowed in functions in FROM",
            Self::JoinOn => "aggregate functions are not allowed in JOIN conditions",
            Self::Where => "aggregate functions are not allowed in WHERE",
            Self::GroupBy => "aggregate functions are not allowed in GROUP BY",
            Self::Limit => "aggregate functions are not allowed in LIMIT",
            Self::Values => "aggregate functions are not allowed in VALUES",
            Self::Aggregate => "aggregate function calls cannot be nested",
            Self::Set => "aggregate functions are not allowed in UPDATE",
            Self::Returning => "aggregate functions are not allowed in RETURNING",
            Self::MergeWhen => "aggregate functions are not allowed in MERGE WHEN conditions",
            Self::Check => "aggregate functions are not allowed in check constraints",
            Self::Default => "aggregate functions are not allowed in DEFAULT expressions",
            Self::Generated => "aggregate functions are not allowed in column generation expressions",
            Self::Index => "aggregate functions are not allowed in index expressions",
            Self::Predicate => "aggregate functions are not allowed in index predicates",
            Self::CopyWhere => "aggregate functions are not allowed in COPY FROM WHERE conditions",
            Self::Transform => "aggregate functions are not allowed in transform expressions",
            Self::Execute => "aggregate functions are not allowed in EXECUTE parameters",
        })
    }
    /// Why window functions cannot be here.
    pub(super) fn refuses_windows(self) -> Option<&'static str> {
        Some(match self {
            Self::SelectList | Self::OrderBy => return None,
            Self::From => "window functions are not allowed in functions in FROM",
            Self::JoinOn => "window functions are not allowed in JOIN conditions",
            Self::Where => "window functions are not allowed in WHERE",
            Self::Having => "window functions are not allowed in HAVING",
            Self::GroupBy => "window functions are not allowed in GROUP BY",
            Self::Limit => "window functions are not allowed in LIMIT",
            Self::Values => "window functions are not allowed in VALUES",
            Self::Aggregate => "aggregate function calls cannot contain window function calls",
            Self::Window => "window function calls cannot be nested",
            Self::Set => "window functions are not allowed in UPDATE",
            Self::Returning => "window functions are not allowed in RETURNING",
            Self::MergeWhen => "window functions are not allowed in MERGE WHEN conditions",
            Self::Check => "window functions are not allowed in check constraints",
            Self::Default => "window functions are not allowed in DEFAULT expressions",
            Self::Generated => "window functions are not allowed in column generation expressions",
            Self::Index => "window functions are not allowed in index expressions",
            Self::Predicate => "window functions are not allowed in index predicates",
            Self::CopyWhere => "window functions are not allowed in COPY FROM WHERE conditions",
            Self::Transform => "window functions are not allowed in transform expressions",
            Self::Execute => "window functions are not allowed in EXECUTE parameters",
        })
    }
    /// What a condition is called in `argument of X must be type boolean`.
    fn name(self) -> &'static str {
        match self {
            Self::JoinOn => "JOIN/ON",
            Self::Having => "HAVING",
            Self::Aggregate => "FILTER",
            Self::Check => "CHECK",
            Self::MergeWhen => "WHEN",
            _ => "WHERE",
        }
    }
}

/// Commas in the text of an array up to which its elements become a list of expressions.
const ELEMENTS_LISTED: usize = 256;

/// Name of an operator as `pg_operator` has it.
pub(super) fn operator_name(op: &BinaryOperator) -> Option<&str> {
    use BinaryOperator as B;
    Some(match op {
        B::Plus => "+",
        B::Minus => "-",
        B::Multiply => "*",
        B::Divide => "/",
        B::Modulo => "%",
        B::StringConcat => "||",
        B::Gt => ">",
        B::Lt => "<",
        B::GtEq => ">=",
        B::LtEq => "<=",
        B::Eq => "=",
        B::NotEq => "<>",
        B::BitwiseOr => "|",
        B::BitwiseAnd => "&",
        B::BitwiseXor | B::PGExp => "^",
        B::PGBitwiseXor => "#",
        B::PGBitwiseShiftLeft => "<<",
        B::PGBitwiseShiftRight => ">>",
        B::PGOverlap => "&&",
        B::AndLt => "&<",
        B::AndGt => "&>",
        B::PGRegexMatch => "~",
        B::PGRegexIMatch => "~*",
        B::PGRegexNotMatch => "!~",
        B::PGRegexNotIMatch => "!~*",
        B::PGLikeMatch => "~~",
        B::PGILikeMatch => "~~*",
        B::PGNotLikeMatch => "!~~",
        B::PGNotILikeMatch => "!~~*",
        B::PGStartsWith => "^@",
        B::Arrow => "->",
        B::LongArrow => "->>",
        B::HashArrow => "#>",
        B::HashLongArrow => "#>>",
        B::AtArrow => "@>",
        B::ArrowAt => "<@",
        B::AtAt => "@@",
        B::AtQuestion => "@?",
        B::Question => "?",
        B::QuestionAnd => "?&",
        B::QuestionPipe => "?|",
        B::HashMinus => "#-",
        B::Custom(name) => name,
        B::PGCustomBinaryOperator(parts) => match parts.last()?.as_str() {
            "!=" => "<>",
            name => name,
        },
        _ => return None,
    })
}

/// The column of a subquery that is compared, where it is not one that the subquery names.
const COMPARED: &str = "resurgam$compared";

impl Analyzer<'_> {
    /// An expression that has to be boolean.
    pub(super) fn condition(&mut self, expr: &ast::Expr, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        let bound = self.expr(expr, scope, clause)?;
        self.boolean(bound, clause.name())
    }

    /// A bound expression as a boolean; `construct` is what wants it.
    pub(super) fn boolean(&mut self, bound: Bound, construct: &str) -> Result<Bound> {
        let bound = self.assigned_to(bound, Type::BOOL, &format!("argument of {construct} must be type boolean"))?;
        match super::sets::has_set(&bound.expr) {
            true => {
                let message = format!("argument of {construct} must not return a set");
                Err(self.at(SqlError::new("42804", message), bound.span))
            }
            false => Ok(bound),
        }
    }

    /// An expression.
    pub(super) fn expr(&mut self, expr: &ast::Expr, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        // Long chains of one operator are deep on the left: they are followed without recursion.
        if let ast::Expr::BinaryOp { .. } = expr {
            return self.chain(expr, scope, clause);
        }
        self.nested(|this| this.expr_inner(expr, scope, clause))
    }

    /// `(a, b) OVERLAPS (c, d)`, which is a function of four values.
    pub(super) fn overlaps(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = left.span().union(&right.span());
        let mut args = Vec::with_capacity(4);
        for (side, row) in [("left", left), ("right", right)] {
            let Some(values) = super::condition::row(row) else {
                return Err(self.at(SqlError::syntax("syntax error at or near \"OVERLAPS\""), row.span()));
            };
            if values.len() != 2 {
                let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                return Err(self.at(SqlError::syntax(message), row.span()));
            }
            for value in values {
                args.push(self.expr(value, scope, clause)?);
            }
        }
        self.call("overlaps", args, span)
    }

    fn expr_inner(&mut self, expr: &ast::Expr, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        use ast::Expr as E;
        let span = || expr.span();
        match expr {
            E::Nested(inner) => self.expr(inner, scope, clause),
            E::Value(value) => self.literal(&value.value, value.span, false),
            E::Identifier(ident) if ident.quote_style.is_none() && is_keyword(&ident.value) => {
                self.keyword(&ident.value.to_ascii_lowercase(), ident.span)
            }
            E::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") => {
                Err(self.at(SqlError::syntax("DEFAULT is not allowed in this context"), ident.span))
            }
            E::Identifier(ident) => self.column(scope, std::slice::from_ref(ident)),
            E::CompoundIdentifier(parts) => self.column(scope, parts),
            E::UnaryOp { op, expr: inner } => self.unary_op(op, inner, scope, clause, span()),
            E::IsNull(inner) => self.is_null(inner, false, scope, clause),
            E::IsNotNull(inner) => self.is_null(inner, true, scope, clause),
            E::IsTrue(inner) => self.truth(inner, "IS TRUE", Expr::IsTrue, scope, clause),
            E::IsNotTrue(inner) => self.truth(inner, "IS NOT TRUE", Expr::IsNotTrue, scope, clause),
            E::IsFalse(inner) => self.truth(inner, "IS FALSE", Expr::IsFalse, scope, clause),
            E::IsNotFalse(inner) => self.truth(inner, "IS NOT FALSE", Expr::IsNotFalse, scope, clause),
            E::IsUnknown(inner) => self.truth(inner, "IS UNKNOWN", Expr::IsUnknown, scope, clause),
            E::IsNotUnknown(inner) => self.truth(inner, "IS NOT UNKNOWN", Expr::IsNotUnknown, scope, clause),
            E::IsDistinctFrom(left, right) => self.distinct_from(left, right, false, scope, clause),
            E::IsNotDistinctFrom(left, right) => self.distinct_from(left, right, true, scope, clause),
            E::InList { expr: left, list, negated } => self.in_list(left, list, *negated, scope, clause),
            E::InSubquery { expr: left, subquery, negated } => {
                self.in_subquery(left, subquery, *negated, scope, clause)
            }
            E::Between { expr: value, negated, low, high } => self.between(value, low, high, *negated, scope, clause),
            E::Like { negated, any: false, expr: text, pattern, escape_char: None }
                if let Some((any, array)) = quantified(pattern) =>
            {
                let op = if *negated { BinaryOperator::PGNotLikeMatch } else { BinaryOperator::PGLikeMatch };
                self.any_all(text, &op, array, any, scope, clause)
            }
            E::ILike { negated, any: false, expr: text, pattern, escape_char: None }
                if let Some((any, array)) = quantified(pattern) =>
            {
                let op = if *negated { BinaryOperator::PGNotILikeMatch } else { BinaryOperator::PGILikeMatch };
                self.any_all(text, &op, array, any, scope, clause)
            }
            E::Like { negated, any: false, expr: text, pattern, escape_char } => self.like(
                text,
                pattern,
                escape_char.as_ref(),
                if *negated { "!~~" } else { "~~" },
                scope,
                clause,
                span(),
            ),
            E::ILike { negated, any: false, expr: text, pattern, escape_char } => self.like(
                text,
                pattern,
                escape_char.as_ref(),
                if *negated { "!~~*" } else { "~~*" },
                scope,
                clause,
                span(),
            ),
            E::Like { negated, any: true, expr: text, pattern, escape_char: None } => {
                let op = if *negated { BinaryOperator::PGNotLikeMatch } else { BinaryOperator::PGLikeMatch };
                self.any_all(text, &op, pattern, true, scope, clause)
            }
            E::ILike { negated, any: true, expr: text, pattern, escape_char: None } => {
                let op = if *negated { BinaryOperator::PGNotILikeMatch } else { BinaryOperator::PGILikeMatch };
                self.any_all(text, &op, pattern, true, scope, clause)
            }
            E::SimilarTo { negated, expr: text, pattern, escape_char } => {
                let text = self.expr(text, scope, clause)?;
                let mut args = vec![self.expr(pattern, scope, clause)?];
                if let Some(escape) = escape_char {
                    if matches!(escape.value, ast::Value::Null) {
                        return Ok(self.null(Type::BOOL)?.at(span()));
                    }
                    args.push(self.literal(&escape.value, escape.span, false)?);
                }
                let pattern = self.call("similar_to_escape", args, span())?;
                self.binary(if *negated { "!~" } else { "~" }, text, pattern, span())
            }
            E::AnyOp { left, compare_op, right, .. } => self.any_all(left, compare_op, right, true, scope, clause),
            E::AllOp { left, compare_op, right } => self.any_all(left, compare_op, right, false, scope, clause),
            E::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                array: false,
                format: None,
            } => {
                if let Some(domain) = types::domain_from_sql(data_type) {
                    let bound = self.expr(inner, scope, clause)?;
                    return self.cast_to_domain(bound, domain, CastContext::Explicit);
                }
                let to = self.type_of(data_type)?;
                let bound = self.cast_operand(inner, to, scope, clause)?;
                let source = bound.span;
                Ok(self.cast_as(bound, to, CastContext::Explicit)?.at(source))
            }
            E::TypedString(typed) => {
                let domain = types::domain_from_sql(&typed.data_type);
                let to = match &typed.data_type {
                    // Before a constant it is of any length.
                    ast::DataType::Bit(None) => Type::of(oid::BIT),
                    ty => self.type_of(ty)?,
                };
                let bound = self.literal(&typed.value.value, typed.value.span, false)?;
                if let Some(domain) = domain {
                    return self.cast_to_domain(bound, domain, CastContext::Explicit);
                }
                self.cast_as(bound, to, CastContext::Explicit)
            }
            E::Interval(interval) => {
                // Fields go with a constant only.
                let is_text = matches!(interval.value.as_ref(), ast::Expr::Value(value)
                    if matches!(value.value, Value::SingleQuotedString(_)));
                let ty = types::interval_type(interval).filter(|_| is_text || interval.leading_field.is_none());
                let Some(ty) = ty else {
                    return Err(self.at(SqlError::syntax(format!("syntax error in \"{interval}\"")), span()));
                };
                let to = self.type_of(&ty)?;
                let bound = self.expr(&interval.value, scope, clause)?;
                self.cast_as(bound, to, CastContext::Explicit)
            }
            E::AtTimeZone { timestamp, time_zone } => {
                let value = self.expr(timestamp, scope, clause)?;
                let zone = self.expr(time_zone, scope, clause)?;
                self.call("timezone", vec![zone, value], span())
            }
            E::Extract { field, expr: inner, .. } => {
                let name = field.to_string().to_ascii_lowercase();
                let field = self.text_constant(name.trim_matches(['\'', '"']));
                let value = self.expr(inner, scope, clause)?;
                self.call("extract", vec![field, value], span())
            }
            E::Ceil { expr: inner, field } => {
                self.refuse_unit(field, span())?;
                self.call_of("ceil", &[inner], scope, clause, span())
            }
            E::Floor { expr: inner, field } => {
                self.refuse_unit(field, span())?;
                self.call_of("floor", &[inner], scope, clause, span())
            }
            E::Position { expr: part, r#in } => {
                let (part, whole) = (self.expr(part, scope, clause)?, self.expr(r#in, scope, clause)?);
                self.call("position", vec![whole, part], span())
            }
            E::Substring { expr: text, substring_from, substring_for, shorthand, .. } => {
                let mut args = vec![self.expr(text, scope, clause)?];
                match (substring_from, substring_for) {
                    (Some(from), length) => {
                        args.push(self.expr(from, scope, clause)?);
                        if let Some(length) = length {
                            args.push(self.expr(length, scope, clause)?);
                        }
                    }
                    (None, Some(length)) => {
                        args.push(Bound::new(lit(1i32), Type::INT4));
                        args.push(self.expr(length, scope, clause)?);
                    }
                    (None, None) => {}
                }
                // Of bits, and by patterns, there is no substr.
                self.call(if *shorthand { "substr" } else { "substring" }, args, span())
            }
            E::Trim { trim_where, trim_what, expr: text, trim_characters } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![self.expr(text, scope, clause)?];
                if let Some(what) = trim_what {
                    args.push(self.expr(what, scope, clause)?);
                }
                for what in trim_characters.iter().flatten() {
                    args.push(self.expr(what, scope, clause)?);
                }
                self.call(name, args, span())
            }
            E::Overlay { expr: text, overlay_what, overlay_from, overlay_for } => {
                let mut args: Vec<&ast::Expr> = vec![text, overlay_what, overlay_from];
                args.extend(overlay_for.as_deref());
                self.call_of("overlay", &args, scope, clause, span())
            }
            E::Collate { expr: inner, collation } => {
                let bound = self.expr(inner, scope, clause)?;
                let collation = match crate::pg::collation::find(collation) {
                    Ok(collation) => collation,
                    Err(error) => return Err(self.at(error, span())),
                };
                self.refuse_collated_citext(&bound, span())?;
                let (base, _) = crate::pg::user_types::base_type(bound.ty.oid, -1);
                if !bound.ty.is_unknown() && crate::pg::collation::of_type(base) == 0 {
                    let text = format!("collations are not supported by type {}", bound.ty.name());
                    return Err(self.at(SqlError::new("42804", text), span()));
                }
                self.collations.seen |= collation.icu;
                let bound = match self.collations.on {
                    true => {
                        let bound = self.or_text(bound)?;
                        let says = crate::exec::collate::Says::Explicit(collation.oid);
                        let expr = crate::exec::collate::Said::call(says, vec![bound.expr]);
                        Bound { expr, origin: None, ..bound }
                    }
                    false => bound,
                };
                Ok(Bound { collation: Some(collation.name), ..bound })
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), scope, clause)
            }
            E::Tuple(_) | E::Function(_) if is_row(expr) => self.row_value(expr, scope, clause, span()),
            E::Function(function) => self.function(function, scope, clause),
            E::Exists { subquery, negated } => {
                let relation = self.subquery(subquery, scope, clause)?;
                let expr = Expr::Exists(Exists { subquery: as_subquery(relation), negated: *negated });
                Ok(Bound::new(expr, Type::BOOL).at(span()))
            }
            E::Subquery(query) => {
                if matches!(clause, Clause::Having | Clause::OrderBy | Clause::GroupBy) && !self.listed.is_empty() {
                    let text = query.to_string();
                    if let Some((_, bound)) = self.listed.iter().find(|(known, _)| *known == text) {
                        return Ok(bound.clone().at(span()));
                    }
                }
                let relation = self.subquery(query, scope, clause)?;
                let bound = self.only_column(&relation, span())?;
                let name = relation.columns.first().map(|column| column.name.clone()).unwrap_or_default();
                self.subqueries.insert(std::ptr::from_ref::<ast::Query>(query) as usize, name);
                let expr = Expr::ScalarSubquery(as_subquery(relation));
                let bound = Bound::with_data(expr, bound.ty, bound.data).at(span());
                if clause == Clause::SelectList {
                    self.listed.push((query.to_string(), bound.clone()));
                }
                Ok(bound)
            }
            E::Array(array) if !array.named => Err(self.at(SqlError::syntax("syntax error at or near \"[\""), span())),
            E::Array(array) => self.array(&array.elem, scope, clause, span()),
            E::CompoundFieldAccess { root, access_chain } => {
                if let Some(bound) = self.field_of_item(root, access_chain, scope)? {
                    return Ok(bound.at(span()));
                }
                let (mut bound, rest) = match self.qualified(root, access_chain, scope)? {
                    Some(found) => found,
                    None => (self.expr(root, scope, clause)?, access_chain.as_slice()),
                };
                let is_slice = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
                if rest.len() > 1 && rest.iter().any(is_slice) {
                    return unknown("a slice beside other subscripts");
                }
                for access in rest {
                    bound = match access {
                        AccessExpr::Subscript(subscript) => self.subscript(bound, subscript, scope, clause)?,
                        AccessExpr::Dot(ast::Expr::Identifier(field)) => self.field_of(bound, field)?,
                        AccessExpr::Dot(_) => return unknown("this field of a composite value"),
                    };
                }
                Ok(bound)
            }
            _ => unknown(format!("the expression {expr}")),
        }
    }

    /// `ceil(a TO day)`, `floor(a, 2)`: other databases'.
    fn refuse_unit(&self, field: &ast::CeilFloorKind, span: Span) -> Result<()> {
        match field {
            ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) => Ok(()),
            ast::CeilFloorKind::DateTimeField(_) => {
                Err(self.at(SqlError::syntax("syntax error at or near \"to\""), span))
            }
            ast::CeilFloorKind::Scale(_) => {
                let text = "function with a number of digits does not exist; round takes one";
                Err(self.at(SqlError::new("42883", text), span))
            }
        }
    }

    /// The operand of a cast: an ARRAY takes its type from it.
    fn cast_operand(&mut self, expr: &ast::Expr, to: Type, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        if let ast::Expr::Array(array) = super::condition::bare(expr)
            && let Some(element) = catalog().element_type(to.id())
        {
            if array.elem.is_empty() {
                return Ok(self.text_constant("{}"));
            }
            let elements = self.elements_of(&array.elem, Type { oid: element.0, typmod: to.typmod }, scope, clause)?;
            return self.array_from(elements, Type { oid: element.0, typmod: to.typmod }, expr.span());
        }
        self.expr(expr, scope, clause)
    }

    /// The elements of an ARRAY that is cast to an array of that type.
    fn elements_of(
        &mut self,
        elements: &[ast::Expr],
        ty: Type,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Vec<Bound>> {
        if elements.iter().any(|e| matches!(super::condition::bare(e), ast::Expr::Array(_))) {
            return unknown("an array of arrays");
        }
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            let element = self.expr(element, scope, clause)?;
            let span = element.span;
            bound.push(self.cast_as(element, ty, CastContext::Explicit)?.at(span));
        }
        Ok(bound)
    }

    /// An untyped text.
    pub(super) fn text_constant(&self, text: &str) -> Bound {
        Bound::literal(datafusion::common::ScalarValue::Utf8View(Some(text.to_owned())), Type::UNKNOWN)
    }

    /// The type that SQL names.
    pub(super) fn type_of(&self, ty: &ast::DataType) -> Result<Type> {
        let field = types::arrow_field_from_sql(ty)?;
        Ok(Type { oid: types::field_oid(&field), typmod: types::field_typmod(&field) })
    }

    /// Words that are calls.
    fn keyword(&mut self, word: &str, span: Span) -> Result<Bound> {
        match word {
            "current_role" | "user" => self.call("current_user", vec![], span),
            "current_catalog" => self.call("current_database", vec![], span),
            "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp" => {
                self.call_special(word, span)
            }
            word => self.call(word, vec![], span),
        }
    }

    fn unary_op(
        &mut self,
        op: &UnaryOperator,
        inner: &ast::Expr,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let name = match op {
            UnaryOperator::Not => {
                let bound = self.expr(inner, scope, clause)?;
                let bound = self.boolean(bound, "NOT")?;
                return Ok(Bound::new(Expr::Not(Box::new(bound.expr)), Type::BOOL).at(span));
            }
            UnaryOperator::Minus => {
                // The sign belongs to the number.
                if let ast::Expr::Value(value) = inner
                    && let Value::Number(..) = &value.value
                {
                    return self.literal(&value.value, span, true);
                }
                "-"
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            _ => return Err(SqlError::new("42883", format!("operator does not exist: {op}")).into()),
        };
        let bound = self.expr(inner, scope, clause)?;
        self.unary(name, bound, span)
    }

    fn is_null(&mut self, inner: &ast::Expr, negated: bool, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        if is_row(inner) || self.whole_row(inner, scope)?.is_some() {
            return self.row_is_null(inner, negated, scope, clause);
        }
        let bound = self.expr(inner, scope, clause)?;
        let bound = self.or_text(bound)?;
        super::record::refuse_record(&bound, "IS NULL")?;
        let span = bound.span;
        let inner = Box::new(bound.expr);
        let expr = if negated { Expr::IsNotNull(inner) } else { Expr::IsNull(inner) };
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    fn truth(
        &mut self,
        inner: &ast::Expr,
        construct: &str,
        make: fn(Box<Expr>) -> Expr,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let bound = self.expr(inner, scope, clause)?;
        let bound = self.boolean(bound, construct)?;
        Ok(Bound::new(make(Box::new(bound.expr)), Type::BOOL).at(bound.span))
    }

    /// A subquery inside an expression over `scope`.
    pub(super) fn subquery(&mut self, query: &ast::Query, scope: &Scope<'_>, clause: Clause) -> Result<Relation> {
        // Rows of its own select list are none of the expression around it.
        let sets = self.sets;
        let bound = self.inside(clause, |this| this.bind_query(query, &scope.inner(), None));
        self.sets = sets;
        bound
    }

    /// Binds a query that stands in that clause of the one around it.
    pub(super) fn inside<T>(&mut self, clause: Clause, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.within.push(clause);
        let bound = bind(self);
        self.within.pop();
        bound
    }

    /// The one column of a subquery that is a value.
    pub(super) fn only_column(&self, relation: &Relation, span: Span) -> Result<Bound> {
        match relation.columns.as_slice() {
            [column] => Ok(Bound { collation: None, ..column.bound.clone() }),
            _ => Err(self.at(SqlError::syntax("subquery must return only one column"), span)),
        }
    }

    fn in_subquery(
        &mut self,
        left: &ast::Expr,
        query: &ast::Query,
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        if is_row(left) {
            return self.row_in_subquery(left, query, negated, scope, clause);
        }
        let left = self.expr(left, scope, clause)?;
        let (left, relation) = self.beside_rows(left, "=", query, false, scope, clause)?;
        let span = left.span;
        let expr = Expr::InSubquery(InSubquery::new(Box::new(left.expr), as_subquery(relation), negated));
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    /// A value and the rows that it is compared with, both of the operator's types. `one_by_one`: it is not looked for among them as in a set.
    fn beside_rows(
        &mut self,
        left: Bound,
        op: &str,
        query: &ast::Query,
        one_by_one: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<(Bound, Relation)> {
        let relation = self.subquery(query, scope, clause)?;
        let span = left.span;
        if relation.columns.len() != 1 {
            let error = match relation.columns.len() {
                0 => SqlError::syntax("subquery has too few columns"),
                _ => SqlError::syntax("subquery has too many columns"),
            };
            return Err(self.at(error, span));
        }
        let right = self.only_column(&relation, span)?;
        let (left, right) = self.operands(op, left, right, span)?;
        let (left, right) = if one_by_one { self.by_order_keys(left, right)? } else { (left, right) };
        let (left, right) = self.by_keys(left, right)?;
        let left = left.at(span);
        let relation = match right.expr == relation.columns[0].bound.expr {
            true => relation,
            false => {
                // A name of its own: the column may come out of the subquery beside it, where the outer row has a say in that.
                let name = COMPARED.to_owned();
                super::select::project(
                    relation.plan,
                    &[super::select::Target { name, bound: right, is_hidden: false }],
                )?
            }
        };
        Ok((left, relation))
    }

    /// Numerics that show different digits may be equal, and texts of other letters: they are compared by their keys.
    pub(super) fn by_keys(&mut self, left: Bound, right: Bound) -> Result<(Bound, Bound)> {
        let is_citext = is_citext(&left.data) && is_citext(&right.data);
        if !is_citext && ![&left.data, &right.data].contains(&&numeric::DYNAMIC) {
            return Ok((left, right));
        }
        let key = Type::of(oid::BYTEA);
        let function = match is_citext {
            true => Some(std::sync::Arc::new(order_key())),
            false => numeric::by_proc_name(numeric::KEY),
        };
        let mut by_key = |bound: Bound| -> Result<Bound> {
            let Some(function) = function.clone() else { return unknown("numeric_key") };
            let (expr, data) = self.call_udf(&function, vec![bound])?;
            Ok(Bound::with_data(expr, key, data))
        };
        Ok((by_key(left)?, by_key(right)?))
    }

    /// Documents, arrays and intervals, whose bytes are in another order, by their keys: operators of plans have these put in by a
    /// rule, which does not see what ANY and ALL of a subquery compare.
    fn by_order_keys(&mut self, left: Bound, right: Bound) -> Result<(Bound, Bound)> {
        let function = match (&left.data, &right.data) {
            (DataType::Interval(_), DataType::Interval(_)) => interval_key(),
            (DataType::Binary, DataType::Binary) => order_key(),
            (a, b) if a.is_list() && b.is_list() => order_key(),
            _ => return Ok((left, right)),
        };
        let function = std::sync::Arc::new(function);
        let mut by_key = |bound: Bound| -> Result<Bound> {
            let (expr, data) = self.call_udf(&function, vec![bound])?;
            Ok(Bound::with_data(expr, Type::of(oid::BYTEA), data))
        };
        Ok((by_key(left)?, by_key(right)?))
    }

    fn any_all(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        any: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let Some(name) = operator_name(op).map(str::to_owned) else {
            return unknown(format!("ANY or ALL with {op}"));
        };
        let span = left.span();
        if is_row(left) {
            return match (super::condition::bare(right), name.as_str(), any) {
                (ast::Expr::Subquery(query), "=", true) => self.row_in_subquery(left, query, false, scope, clause),
                (ast::Expr::Subquery(query), "<>", false) => self.row_in_subquery(left, query, true, scope, clause),
                _ => unknown("this comparison of a row with ANY or ALL"),
            };
        }
        let left = self.expr(left, scope, clause)?;
        if let ast::Expr::Subquery(query) = super::condition::bare(right) {
            let is_set = matches!((name.as_str(), any), ("=", true) | ("<>", false));
            let (left, relation) = self.beside_rows(left, &name, query, !is_set, scope, clause)?;
            let expr = match (name.as_str(), any) {
                ("=", true) => Expr::InSubquery(InSubquery::new(Box::new(left.expr), as_subquery(relation), false)),
                ("<>", false) => Expr::InSubquery(InSubquery::new(Box::new(left.expr), as_subquery(relation), true)),
                (name, any) => {
                    let op = match name {
                        "=" => Operator::Eq,
                        "<>" => Operator::NotEq,
                        "<" => Operator::Lt,
                        "<=" => Operator::LtEq,
                        ">" => Operator::Gt,
                        ">=" => Operator::GtEq,
                        _ => return unknown("ANY or ALL of a subquery with this operator"),
                    };
                    let quantifier = if any { SetQuantifier::Any } else { SetQuantifier::All };
                    Expr::SetComparison(SetComparison::new(Box::new(left.expr), as_subquery(relation), op, quantifier))
                }
            };
            return Ok(Bound::new(expr, Type::BOOL).at(span));
        }
        // The elements of an array that is written out are compared one by one.
        if let ast::Expr::Array(array) = super::condition::bare(right)
            && !array.elem.iter().any(|e| matches!(super::condition::bare(e), ast::Expr::Array(_)))
            && !array.elem.is_empty()
        {
            let elements = array.elem.iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
            let refs: Vec<&Bound> = elements.iter().collect();
            let common = self.common_type(&refs, "ARRAY")?;
            let elements = match common.is_unknown() || elements.iter().all(|e| e.ty.is_unknown()) {
                true => elements,
                false => elements.into_iter().map(|e| self.implicit(e, common)).collect::<Result<_>>()?,
            };
            return self.compared_with_each(&name, left, elements, any, span);
        }
        if let ast::Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } =
            super::condition::bare(right)
            && let ast::Expr::Array(array) = super::condition::bare(inner)
            && !array.elem.is_empty()
        {
            let to = self.type_of(data_type)?;
            if let Some(element) = catalog().element_type(to.id()) {
                let ty = Type { oid: element.0, typmod: to.typmod };
                let elements = self.elements_of(&array.elem, ty, scope, clause)?;
                return self.compared_with_each(&name, left, elements, any, span);
            }
        }
        let right = self.expr(right, scope, clause)?;
        // Of very many elements no list is made where they are looked through as a set.
        let is_set = matches!((name.as_str(), any), ("=", true) | ("<>", false));
        let is_long = |text: &str| text.bytes().filter(|byte| *byte == b',').count() > ELEMENTS_LISTED;
        if let Some(text) = right.untyped_text()
            && !(is_set && is_long(text))
            && let Ok(items) = crate::pg::decode::parse_array(text)
        {
            if items.is_empty() {
                return Ok(Bound::new(lit(!any), Type::BOOL).at(span));
            }
            let elements = items.into_iter().map(|item| match item {
                Some(text) => self.text_constant(&text),
                None => {
                    let null = datafusion::common::ScalarValue::Utf8View(None);
                    Bound::literal(null, Type::UNKNOWN)
                }
            });
            let elements: Vec<Bound> = elements.collect();
            return self.compared_with_each(&name, left, elements, any, span);
        }
        self.compared_with_array(&name, left, right, any, span)
    }

    /// `ARRAY[…]`
    fn array(&mut self, elements: &[ast::Expr], scope: &Scope<'_>, clause: Clause, span: Span) -> Result<Bound> {
        if elements.is_empty() {
            let error = SqlError::new("42P18", "cannot determine type of empty array")
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].");
            return Err(self.at(error, span));
        }
        if elements.iter().any(|e| matches!(super::condition::bare(e), ast::Expr::Array(_))) {
            return self.array_of_arrays(elements, scope, clause, span);
        }
        let bound = elements.iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        let refs: Vec<&Bound> = bound.iter().collect();
        let common = self.common_type(&refs, "ARRAY")?;
        let bound = bound.into_iter().map(|e| self.implicit(e, common)).collect::<Result<Vec<_>>>()?;
        self.array_from(bound, common, span)
    }

    /// `ARRAY[[1, 2], [3, 4]]`: of two dimensions, whose type is that of one.
    fn array_of_arrays(
        &mut self,
        elements: &[ast::Expr],
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let mut rows: Vec<Bound> = Vec::with_capacity(elements.len());
        let mut width = None;
        for element in elements {
            let ast::Expr::Array(array) = super::condition::bare(element) else {
                return unknown("an array of arrays and others");
            };
            if *width.get_or_insert(array.elem.len()) != array.elem.len() {
                let text = "multidimensional arrays must have array expressions with matching dimensions";
                return Err(self.at(SqlError::new("2202E", text), span));
            }
            if array.elem.iter().any(|e| matches!(super::condition::bare(e), ast::Expr::Array(_))) {
                return match depth_of(element, 6) {
                    0..=5 => unknown("an array of more than two dimensions"),
                    _ => Err(self.at(crate::pg::decode::too_many_dimensions(), span)),
                };
            }
            rows.push(self.array(&array.elem, scope, clause, span)?);
        }
        if rows.iter().any(Bound::has_padded_elements) {
            return unknown("an array of arrays of character(n)");
        }
        let Some(first) = rows.first().map(|row| (row.ty, row.data.clone())) else {
            return unknown("an array of nothing");
        };
        if rows.iter().any(|row| row.ty.oid != first.0.oid || row.data != first.1) {
            return unknown("an array of arrays of several types");
        }
        let Some(make) = self.names.state.scalar_functions().get("make_array").cloned() else {
            return unknown("make_array");
        };
        let (expr, data) = self.call_udf(&make, rows)?;
        Ok(Bound::with_data(expr, first.0, data).at(span))
    }

    /// An array of elements of that type.
    fn array_from(&mut self, elements: Vec<Bound>, element: Type, span: Span) -> Result<Bound> {
        let Some(row) = types::type_by_oid(element.oid).filter(|row| row.array != 0) else {
            return unknown(format!("an array of {}", element.name()));
        };
        let elements = if element.oid == oid::BPCHAR { self.mixed_elements(elements)? } else { elements };
        let bound = self.one_form(elements, element)?;
        let Some(make) = self.names.state.scalar_functions().get("make_array").cloned() else {
            return unknown("make_array");
        };
        let (expr, data) = self.call_udf(&make, bound)?;
        Ok(Bound::with_data(expr, Type::of(row.array), data).at(span))
    }

    fn subscript(&mut self, bound: Bound, subscript: &Subscript, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        if bound.ty.oid == oid::JSONB {
            return self.document_subscript(bound, subscript, scope, clause);
        }
        if bound.ty.oid == oid::NAME
            && let Subscript::Index { index } = subscript
        {
            // Its characters, from 0.
            let index = self.expr(index, scope, clause)?;
            let span = bound.span;
            let index = self.assigned_to(index, Type::INT4, "array subscript must have type integer")?;
            let from = Bound::new(cast(index.expr, DataType::Int64) + lit(1i64), Type::INT8);
            let text = Bound::with_data(bound.expr, Type::TEXT, bound.data);
            let args = vec![text, from, Bound::new(lit(1i64), Type::INT8)];
            return Ok(self.call_named("substr", args, Type::of(oid::CHAR))?.at(span));
        }
        let Some(element) = catalog().element_type(bound.ty.id()) else {
            let message = format!("cannot subscript type {} because it does not support subscripting", bound.ty.name());
            return Err(self.at(SqlError::new("42804", message), bound.span));
        };
        let index = match subscript {
            Subscript::Index { index } => index,
            Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                return self.slice(bound, lower_bound.as_ref(), upper_bound.as_ref(), scope, clause);
            }
            Subscript::Slice { .. } => return Err(SqlError::syntax("syntax error at or near \":\"").into()),
        };
        if matches!(&bound.data, DataType::List(item) if item.data_type().is_nested()) {
            return unknown("an element of an array of arrays");
        }
        let index = self.expr(index, scope, clause)?;
        let span = bound.span;
        let index = self.assigned_to(index, Type::INT4, "array subscript must have type integer")?;
        let Some(function) = self.names.state.scalar_functions().get("array_element").cloned() else {
            return unknown("array_element");
        };
        let mut index = cast(index.expr, DataType::Int64);
        if super::function::is_vector(bound.ty) {
            index = index + lit(1i64);
        }
        let index = Bound::new(index, Type::INT8);
        let (expr, data) = self.call_udf(&function, vec![bound, index])?;
        Ok(Bound::with_data(expr, Type::of(element.0), data).at(span))
    }

    /// `array[from:to]`
    fn slice(
        &mut self,
        bound: Bound,
        from: Option<&ast::Expr>,
        to: Option<&ast::Expr>,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        if super::function::is_vector(bound.ty) {
            return unknown("a slice of a vector");
        }
        let (ty, span) = (bound.ty, bound.span);
        let mut args = vec![bound];
        for (given, otherwise) in [(from, 1i64), (to, i64::from(i32::MAX))] {
            args.push(match given {
                Some(expr) => {
                    let index = self.expr(expr, scope, clause)?;
                    let index = self.assigned_to(index, Type::INT4, "array subscript must have type integer")?;
                    Bound::new(cast(index.expr, DataType::Int64), Type::INT8)
                }
                None => Bound::new(lit(otherwise), Type::INT8),
            });
        }
        Ok(self.call_named("pg_array_slice", args, ty)?.at(span))
    }

    /// `document[key]`, `document[number]`: as a path of one step.
    fn document_subscript(
        &mut self,
        bound: Bound,
        subscript: &Subscript,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = bound.span;
        let Subscript::Index { index } = subscript else {
            return Err(self.at(SqlError::new("42804", "jsonb subscript does not support slices"), span));
        };
        let index = self.expr(index, scope, clause)?;
        let index = self.or_text(index)?;
        let step = match index.ty.oid {
            oid::INT2 | oid::INT4 | oid::TEXT | oid::VARCHAR => {
                self.cast_as(index, Type::TEXT, resurgam_dialect::CastContext::Explicit)?
            }
            _ => return unknown("a jsonb subscript of this type"),
        };
        let path = self.call_named("make_array", vec![step], Type::of(oid::TEXT_ARRAY))?;
        Ok(self.call_named("jsonb_extract_path", vec![bound, path], Type::of(oid::JSONB))?.at(span))
    }

    /// `ARRAY(SELECT …)`
    pub(super) fn array_of_rows(
        &mut self,
        query: &ast::Query,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let relation = self.subquery(query, scope, clause)?;
        let column = self.only_column(&relation, span)?;
        let Some(row) = types::type_by_oid(column.ty.oid).filter(|row| row.array != 0) else {
            return unknown(format!("an array of {}", column.ty.name()));
        };
        let list = self.rows_as_list(relation)?;
        let data = list.columns[0].bound.data.clone();
        let list = Bound::with_data(Expr::ScalarSubquery(as_subquery(list)), Type::of(row.array), data);
        Ok(self.or_empty(list)?.at(span))
    }

    /// A relation of one row, of which the only column has all values of the given one's, in their order; NULL if that has
    /// no rows.
    pub(super) fn rows_as_list(&mut self, relation: Relation) -> Result<Relation> {
        let Some(column) = relation.columns.first() else { return unknown("ARRAY of a subquery without columns") };
        let name = column.name.clone();
        let column = self.mixed_elements(vec![column.bound.clone()])?.remove(0);
        let Some(array_agg) = self.names.state.aggregate_functions().get("array_agg").cloned() else {
            return unknown("ARRAY of a subquery");
        };
        // The elements come in the order of the subquery.
        let (input, order) = sorted_input(relation.plan);
        let call = AggregateFunction::new_udf(array_agg, vec![column.expr], false, None, order, None);
        let plan = LogicalPlanBuilder::from(input)
            .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(call)])?
            .build()?;
        Ok(Relation::of_plan(plan, [(name, column.ty)]))
    }

    /// A list, which is empty where it would be NULL.
    pub(super) fn or_empty(&mut self, list: Bound) -> Result<Bound> {
        let Some(or_empty) = self.names.state.scalar_functions().get("pg_array_or_empty").cloned() else {
            return unknown("ARRAY of a subquery");
        };
        let ty = list.ty;
        let (expr, data) = self.call_udf(&or_empty, vec![list])?;
        Ok(Bound::with_data(expr, ty, data))
    }

    fn call_of(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let args = args.iter().map(|arg| self.expr(arg, scope, clause)).collect::<Result<Vec<_>>>()?;
        self.call(name, args, span)
    }
}

/// A plan whose order matters, without its sort, and the sort.
fn sorted_input(plan: LogicalPlan) -> (LogicalPlan, Vec<Sort>) {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.input.as_ref().clone(), sort.expr),
        // What is sorted by is not selected.
        LogicalPlan::Projection(projection) if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
            match projection.input.as_ref() {
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.input.as_ref().clone(), sort.expr.clone()),
                _ => (LogicalPlan::Projection(projection), Vec::new()),
            }
        }
        other => (other, Vec::new()),
    }
}

/// A plan as the subquery of an expression.
pub(super) fn as_subquery(relation: Relation) -> Subquery {
    let outer_ref_columns = relation.plan.all_out_ref_exprs();
    Subquery { subquery: std::sync::Arc::new(relation.plan), outer_ref_columns, spans: Spans::new() }
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "current_schema"
            | "current_catalog"
            | "current_role"
            | "current_user"
            | "session_user"
            | "user"
            | "current_date"
            | "current_time"
            | "current_timestamp"
            | "localtimestamp"
            | "localtime"
    )
}

/// The arguments of a call that are plain expressions.
pub(super) fn plain_args(list: &FunctionArgumentList) -> Option<Vec<&ast::Expr>> {
    list.args
        .iter()
        .map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

/// What is in the parentheses of `ALL (…)` and `SOME (…)` as a pattern, which the parser takes for calls, and whether one suffices.
fn quantified(pattern: &ast::Expr) -> Option<(bool, &ast::Expr)> {
    let ast::Expr::Function(call) = pattern else { return None };
    let [part] = call.name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_none())?;
    let any = match name.value.to_ascii_lowercase().as_str() {
        "all" => false,
        "some" => true,
        _ => return None,
    };
    match arguments(call).and_then(plain_args)?.as_slice() {
        [array] => Some((any, array)),
        _ => None,
    }
}

/// The name of a function as PostgreSQL folds it, and its schema.
pub(super) fn function_name(name: &ast::ObjectName) -> Option<(Option<String>, String)> {
    let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(folded)).collect::<Option<_>>()?;
    match parts.as_slice() {
        [name] => Some((None, name.clone())),
        [schema, name] => Some((Some(schema.clone()), name.clone())),
        _ => None,
    }
}

/// The argument list of a call.
pub(super) fn arguments(function: &ast::Function) -> Option<&FunctionArgumentList> {
    match &function.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    }
}

/// How many ARRAYs are within each other, as far as `most`.
fn depth_of(expr: &ast::Expr, most: usize) -> usize {
    match super::condition::bare(expr) {
        ast::Expr::Array(array) if most > 0 => {
            1 + array.elem.iter().map(|element| depth_of(element, most - 1)).max().unwrap_or(0)
        }
        _ => 0,
    }
}
