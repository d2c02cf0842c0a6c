//! Comparisons of rows, IN, BETWEEN, CASE, COALESCE and their kin.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Case, InList, InSubquery};
use datafusion::logical_expr::{Expr, Operator, binary_expr, lit};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, CaseWhen, Spanned, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Type};
use super::expr::{Clause, operator_name};
use super::scope::{Scope, folded};
use super::{Analyzer, Result, unknown};
use crate::exec::collate::{Said, Says};
use crate::exec::fold::{self, Fold};
use crate::parse::depth::too_deep;
use crate::planted::Planted;
use crate::wire::SqlError;

/// An expression without its parentheses.
pub(super) fn bare(expr: &ast::Expr) -> &ast::Expr {
    let mut expr = expr;
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The values of a row that is written out: `(a, b)`, `ROW(a, b)`.
pub(super) fn row(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match bare(expr) {
        ast::Expr::Tuple(items) => Some(items.iter().collect()),
        ast::Expr::Function(function) => match (function.name.0.as_slice(), super::expr::arguments(function)) {
            ([part], Some(list)) if part.as_ident().is_some_and(|i| folded(i) == "row" && i.quote_style.is_none()) => {
                super::expr::plain_args(list)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression is a row that is written out.
pub(super) fn is_row(expr: &ast::Expr) -> bool {
    row(expr).is_some()
}

fn all(parts: Vec<Expr>, op: Operator) -> Expr {
    let mut parts = parts.into_iter();
    match parts.next() {
        None => lit(op == Operator::And),
        Some(first) => parts.fold(first, |left, right| binary_expr(left, op, right)),
    }
}

/// Elements of an array, all of which decide on the collation of each comparison.
const ELEMENTS_COLLATED: usize = 64;

impl Analyzer<'_> {
    /// `(a, b) op (c, d)`
    pub(super) fn row_comparison(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        if *op == BinaryOperator::Overlaps {
            return self.overlaps(left, right, scope, clause);
        }
        let span = left.span();
        let (Some(l), Some(r)) = (row(left), row(right)) else {
            return self.row_beside_value(left, op, right, scope, clause);
        };
        if l.len() != r.len() {
            return Err(self.at(SqlError::syntax("unequal number of entries in row expressions"), span));
        }
        if l.is_empty() {
            return Err(self.at(SqlError::unsupported("cannot compare rows of zero length"), span));
        }
        if l.len() > 1664 {
            return Err(self.at(SqlError::new("54011", "ROW expressions can have at most 1664 entries"), span));
        }
        let l = l.into_iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        let r = r.into_iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        self.compared_rows(l, op, r, span)
    }

    /// The same of as many values on either side.
    fn compared_rows(&mut self, l: Vec<Bound>, op: &BinaryOperator, r: Vec<Bound>, span: Span) -> Result<Bound> {
        let Some(name) = operator_name(op).map(str::to_owned) else { return unknown("this operator of rows") };
        let compared = |this: &mut Self, op: &str, at: usize| -> Result<Expr> {
            Ok(this.binary(op, l[at].clone(), r[at].clone(), span)?.expr)
        };
        let width = l.len();
        let expr = match name.as_str() {
            "=" => all((0..width).map(|at| compared(self, "=", at)).collect::<Result<_>>()?, Operator::And),
            "<>" => all((0..width).map(|at| compared(self, "<>", at)).collect::<Result<_>>()?, Operator::Or),
            "<" | "<=" | ">" | ">=" => {
                // From the last column outwards: a < c OR (a = c AND rest).
                let strict = &name[..1];
                let mut out: Option<Expr> = None;
                for at in (0..width).rev() {
                    out = Some(match out {
                        None => compared(self, &name, at)?,
                        Some(rest) => {
                            let same = binary_expr(compared(self, "=", at)?, Operator::And, rest);
                            binary_expr(compared(self, strict, at)?, Operator::Or, same)
                        }
                    });
                }
                match out {
                    Some(expr) => expr,
                    None => return unknown("rows without columns"),
                }
            }
            _ => {
                let message = format!("could not determine interpretation of row comparison operator {name}");
                return Err(self.at(SqlError::unsupported(message), span));
            }
        };
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    /// `(a, b) = (SELECT x, y …)`: a subquery of at most one row.
    fn row_beside_subquery(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        query: &ast::Query,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = left.span();
        let items = row(left).unwrap_or_default();
        let items = items.into_iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        let relation = self.subquery(query, scope, clause)?;
        if relation.columns.len() != items.len() {
            let many = if relation.columns.len() > items.len() { "many" } else { "few" };
            return Err(self.at(SqlError::syntax(format!("subquery has too {many} columns")), span));
        }
        let columns = self.one_by_one(&relation, span)?;
        self.compared_rows(items, op, columns, span)
    }

    /// A row beside something else: there is hardly an operator for it.
    fn row_beside_value(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = left.span();
        match (bare(left), bare(right)) {
            (_, ast::Expr::Subquery(query)) if is_row(left) => {
                return self.row_beside_subquery(left, op, query, scope, clause);
            }
            (ast::Expr::Subquery(_), _) => {
                // A row is to the left of a subquery only.
                let text = "subquery must return only one column";
                return Err(self.at(SqlError::syntax(text), span));
            }
            _ => {}
        }
        let record = Type::of(crate::pg::types::oid::RECORD).id();
        let mut types = [record; 2];
        for (side, ty) in [left, right].into_iter().zip(&mut types) {
            if !is_row(side) {
                *ty = self.expr(side, scope, clause)?.ty.id();
            }
        }
        if let Some(name) = operator_name(op)
            && let Err(error) = super::coerce::catalog().resolve_operator(name, Some(types[0]), types[1])
        {
            return Err(self.at(super::coerce::sql_error(error), span));
        }
        unknown("a row as a value")
    }

    /// `(a, b) IN (SELECT x, y …)`: rows are compared as structures; see [`crate::exec::apply`].
    pub(super) fn row_in_subquery(
        &mut self,
        left: &ast::Expr,
        query: &ast::Query,
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = left.span();
        let items = row(left).unwrap_or_default();
        let items = items.into_iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        let relation = self.subquery(query, scope, clause)?;
        if relation.columns.len() != items.len() {
            let many = if relation.columns.len() > items.len() { "many" } else { "few" };
            return Err(self.at(SqlError::syntax(format!("subquery has too {many} columns")), span));
        }
        let Some(structure) = self.names.state.scalar_functions().get("struct").cloned() else {
            return unknown("rows in a subquery");
        };
        let (mut left, mut right) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (item, column) in items.into_iter().zip(&relation.columns) {
            let (l, r) = self.operands("=", item, column.bound.clone(), span)?;
            let (l, r) = self.by_keys(l, r)?;
            left.push(l);
            right.push(r);
        }
        let record = Type::of(crate::pg::types::oid::RECORD);
        let (left, _) = self.call_udf(&structure, left)?;
        let (right, data) = self.call_udf(&structure, right)?;
        let bound = Bound::with_data(right, record, data);
        let target = super::select::Target { name: "row".to_owned(), bound, is_hidden: false };
        let relation = super::select::project(relation.plan, &[target])?;
        let subquery = super::expr::as_subquery(relation);
        let expr = Expr::InSubquery(InSubquery::new(Box::new(left), subquery, negated));
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    /// `(a, b) IS [NOT] NULL`
    pub(super) fn row_is_null(
        &mut self,
        expr: &ast::Expr,
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let mut values = Vec::new();
        match self.whole_row(expr, scope)? {
            Some(columns) => values.extend(columns.into_iter().map(|column| column.bound)),
            None => {
                for item in row(expr).unwrap_or_default() {
                    values.push(self.expr(item, scope, clause)?);
                }
            }
        }
        let mut parts = Vec::with_capacity(values.len());
        for bound in values {
            let inner = Box::new(self.or_text(bound)?.expr);
            parts.push(if negated { Expr::IsNotNull(inner) } else { Expr::IsNull(inner) });
        }
        Ok(Bound::new(all(parts, Operator::And), Type::BOOL).at(expr.span()))
    }

    pub(super) fn distinct_from(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        if let (Some(l), Some(r)) = (row(left), row(right)) {
            if l.len() != r.len() {
                return Err(self.at(SqlError::syntax("unequal number of entries in row expressions"), left.span()));
            }
            let mut parts = Vec::with_capacity(l.len());
            for (l, r) in l.into_iter().zip(r) {
                parts.push(self.distinct_from(l, r, negated, scope, clause)?.expr);
            }
            let op = if negated { Operator::And } else { Operator::Or };
            return Ok(Bound::new(all(parts, op), Type::BOOL).at(left.span()));
        }
        let span = left.span();
        let (l, r) = (self.expr(left, scope, clause)?, self.expr(right, scope, clause)?);
        let (l, r) = self.operands("=", l, r, span)?;
        let op = if negated { Operator::IsNotDistinctFrom } else { Operator::IsDistinctFrom };
        Ok(Bound::new(binary_expr(l.expr, op, r.expr), Type::BOOL).at(span))
    }

    /// `x IN (…)`. As in PostgreSQL, the items that are no columns take one type together, if there is
    /// one; otherwise each is compared by itself.
    pub(super) fn in_list(
        &mut self,
        left: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = left.span();
        if row(left).is_some() {
            let mut parts = Vec::with_capacity(list.len());
            for item in list {
                parts.push(self.row_comparison(left, &BinaryOperator::Eq, item, scope, clause)?.expr);
            }
            let any = all(parts, Operator::Or);
            let expr = if negated { Expr::Not(Box::new(any)) } else { any };
            return Ok(Bound::new(expr, Type::BOOL).at(span));
        }
        let left = self.expr(left, scope, clause)?;
        let mut items = list.iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
        if negated && Planted::NullInNotIn.is_planted() {
            items.retain(|item| !item.is_null());
        }
        if let [_] = items.as_slice() {
            let op = if negated { "<>" } else { "=" };
            let item = items.into_iter().next().unwrap_or_else(|| left.clone());
            return self.binary(op, left, item, span);
        }
        // Those that read a column are compared each by itself.
        let of_row = |item: &Bound| item.expr.exists(|expr| Ok(matches!(expr, Expr::Column(_)))).unwrap_or(true);
        let types: Vec<_> = items.iter().filter(|item| !of_row(item)).map(|item| item.ty.id()).collect();
        let common = match types.len() {
            0 | 1 => None,
            _ => super::coerce::catalog().in_list_type(left.ty.id(), &types).map(|ty| Type::of(ty.0)),
        };
        let mut compared = Vec::with_capacity(items.len());
        let mut first: Option<Bound> = None;
        let mut alike = true;
        for item in items {
            let item = match common {
                Some(common) if !common.is_unknown() && !of_row(&item) => self.implicit(item, common)?,
                _ => item,
            };
            let (l, r) = self.operands("=", left.clone(), item, span)?;
            alike &= first.as_ref().is_none_or(|first| first.expr == l.expr) && l.data == r.data;
            first.get_or_insert_with(|| l.clone());
            compared.push((l, r));
        }
        let Some(first) = first else { return unknown("an empty list") };
        let mut parts = Vec::new();
        if alike {
            // Read off one by one: a list may have a million elements, and a second copy of all of them is much.
            let mut others = Vec::new();
            let listed = compared.into_iter().filter_map(|(l, r)| match is_listable(&r.expr) {
                true => Some(r),
                false => {
                    others.push((l, r));
                    None
                }
            });
            let list = self.list_of(listed)?;
            if !list.is_empty() {
                parts.push(Expr::InList(InList::new(Box::new(first.expr), list, negated)));
            }
            compared = others;
        }
        let op = if negated { Operator::NotEq } else { Operator::Eq };
        for (l, r) in compared {
            parts.push(self.compare(op, l, r)?.expr);
        }
        let expr = all(parts, if negated { Operator::And } else { Operator::Or });
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    /// The items of a list of IN. A set of floats goes by their bits: zero is in it with either sign.
    fn list_of(&mut self, items: impl Iterator<Item = Bound>) -> Result<Vec<Expr>> {
        let mut list = Vec::new();
        for item in items {
            if !matches!(item.data, DataType::Float32 | DataType::Float64) {
                list.push(item.expr);
                continue;
            }
            // What is read when it runs (a cast that fails, say) stays so.
            let folded = crate::plan::planner::simplified(
                self.names.state,
                item.expr.clone(),
                &datafusion::common::DFSchema::empty(),
            );
            match folded {
                Ok(value @ Expr::Literal(..)) => list.extend(crate::exec::any_of::items(value)),
                _ => list.push(item.expr),
            }
        }
        Ok(list)
    }

    /// `left op ANY/ALL` of elements that are written out.
    pub(super) fn compared_with_each(
        &mut self,
        op: &str,
        left: Bound,
        elements: Vec<Bound>,
        any: bool,
        span: Span,
    ) -> Result<Bound> {
        let mut parts = Vec::with_capacity(elements.len());
        let mut pairs = Vec::with_capacity(elements.len());
        let is_equality = matches!((op, any), ("=", true) | ("<>", false));
        let is_text = |bound: &Bound| crate::pg::collation::of_type(bound.ty.oid) != 0;
        let is_collated = self.collations.on && !is_equality && elements.iter().chain([&left]).any(is_text);
        let left = if is_collated { self.or_text(left)? } else { left };
        let left = match is_collated {
            // An array has one collation, and so have all comparisons with its elements.
            true if elements.len() <= ELEMENTS_COLLATED => {
                let elements = elements.iter().map(|element| element.expr.clone());
                let args = std::iter::once(left.expr.clone()).chain(elements).collect();
                Bound { expr: Said::call(Says::Together, args), ..left }
            }
            true => return unknown(format!("{op} of so many elements in a statement with collations of ICU")),
            false => left,
        };
        for element in elements {
            if matches!((op, any), ("=", true) | ("<>", false)) {
                pairs.push(self.operands("=", left.clone(), element, span)?);
            } else {
                parts.push(self.binary(op, left.clone(), element, span)?.expr);
            }
        }
        if let Some((first, _)) = pairs.first() {
            let first = first.expr.clone();
            if pairs.iter().all(|(l, r)| l.expr == first && l.data == r.data && is_listable(&r.expr)) {
                let list = self.list_of(pairs.into_iter().map(|(_, r)| r))?;
                let expr = Expr::InList(InList::new(Box::new(first), list, !any));
                return Ok(Bound::new(expr, Type::BOOL).at(span));
            }
            let op = if any { Operator::Eq } else { Operator::NotEq };
            for (l, r) in pairs {
                parts.push(self.compare(op, l, r)?.expr);
            }
        }
        let expr = all(parts, if any { Operator::Or } else { Operator::And });
        Ok(Bound::new(expr, Type::BOOL).at(span))
    }

    pub(super) fn between(
        &mut self,
        value: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = value.span();
        if is_row(value) {
            let (first, second, op) = match negated {
                true => (BinaryOperator::Lt, BinaryOperator::Gt, Operator::Or),
                false => (BinaryOperator::GtEq, BinaryOperator::LtEq, Operator::And),
            };
            let low = self.row_comparison(value, &first, low, scope, clause)?;
            let high = self.row_comparison(value, &second, high, scope, clause)?;
            return Ok(Bound::new(binary_expr(low.expr, op, high.expr), Type::BOOL).at(span));
        }
        let value = self.expr(value, scope, clause)?;
        let low = self.expr(low, scope, clause)?;
        self.copied(&value)?;
        let (first, second, op) = if negated { ("<", ">", Operator::Or) } else { (">=", "<=", Operator::And) };
        // One after the other, as PostgreSQL does: a parameter whose type the first says has it in the second.
        let low = self.binary(first, value.clone(), low, span)?;
        let high = self.expr(high, scope, clause)?;
        let value = match &value.expr {
            Expr::Placeholder(parameter) if value.ty == Type::UNKNOWN => self.parameter(&parameter.id)?.at(value.span),
            _ => value,
        };
        let high = self.binary(second, value, high, span)?;
        let word = if negated { "OR" } else { "AND" };
        let (low, high) = (self.boolean(low, word)?, self.boolean(high, word)?);
        Ok(Bound::new(binary_expr(low.expr, op, high.expr), Type::BOOL).at(span))
    }

    pub(super) fn like(
        &mut self,
        text: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ValueWithSpan>,
        op: &str,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let text = self.expr(text, scope, clause)?;
        let mut pattern = self.expr(pattern, scope, clause)?;
        if let Some(escape) = escape {
            let escape = self.literal(&escape.value, escape.span, false)?;
            pattern = self.call("like_escape", vec![pattern, escape], span)?;
        }
        self.binary(op, text, pattern, span)
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&ast::Expr>,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = conditions.first().map_or_else(Span::empty, |when| when.condition.span());
        let seen = self.sets;
        let operand = match operand {
            Some(operand) => {
                let bound = self.expr(operand, scope, clause)?;
                Some(self.or_text(bound)?)
            }
            None => None,
        };
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            let condition = self.expr(&when.condition, scope, clause)?;
            whens.push(match &operand {
                Some(operand) => self.binary("=", operand.clone(), condition, when.condition.span())?,
                None => self.boolean(condition, "CASE/WHEN")?,
            });
            results.push(self.expr(&when.result, scope, clause)?);
        }
        let otherwise = match otherwise {
            Some(otherwise) => Some(self.expr(otherwise, scope, clause)?),
            None => None,
        };
        self.no_sets_since(seen, "set-returning functions are not allowed in CASE")?;
        // The default counts first.
        let all: Vec<&Bound> = otherwise.iter().chain(&results).collect();
        let common = self.common_type(&all, "CASE")?;
        let mut all = Vec::with_capacity(results.len() + 1);
        for result in results {
            all.push(self.implicit(result, common)?);
        }
        let has_default = otherwise.is_some();
        if let Some(otherwise) = otherwise {
            all.push(self.implicit(otherwise, common)?);
        }
        let mut all = self.one_form(all, common)?;
        let default = if has_default { all.pop() } else { None };
        let data = all.first().map_or_else(|| common.data(), |bound| bound.data.clone());
        let expr = Expr::Case(Case::new(
            None,
            whens.into_iter().zip(all).map(|(when, then)| (Box::new(when.expr), Box::new(then.expr))).collect(),
            default.map(|bound| Box::new(bound.expr)),
        ));
        Ok(Bound::with_data(expr, common, data).at(span))
    }

    /// COALESCE of values that can be brought to a type.
    pub(super) fn coalesce(&mut self, values: Vec<Bound>, common: Type) -> Result<Bound> {
        self.of_one_type("coalesce", values, common)
    }

    /// COALESCE, GREATEST, LEAST.
    pub(super) fn of_one_type(&mut self, function: &str, values: Vec<Bound>, common: Type) -> Result<Bound> {
        let values = values.into_iter().map(|value| self.implicit(value, common)).collect::<Result<Vec<_>>>()?;
        let values = self.one_form(values, common)?;
        if let [_] = values.as_slice() {
            let mut values = values;
            return Ok(values.remove(0));
        }
        let Some(function) = self.names.state.scalar_functions().get(function).cloned() else {
            return unknown(function.to_owned());
        };
        let span = values.first().map_or_else(Span::empty, |value| value.span);
        let (expr, data) = self.call_udf(&function, values)?;
        Ok(Bound::with_data(expr, common, data).at(span))
    }

    /// NULLIF(a, b): a, unless it equals b.
    pub(super) fn nullif(&mut self, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let second = args.get(1).map(|arg| (arg.expr.clone(), arg.ty));
        let bound = self.nullif_of(args, span)?;
        // Its collation is that of both.
        match second.filter(|(_, ty)| self.collations.on && crate::pg::collation::of_type(ty.oid) != 0) {
            Some((second, _)) if crate::pg::collation::of_type(bound.ty.oid) != 0 => {
                let expr = Said::call(Says::Together, vec![bound.expr, second]);
                Ok(Bound { expr, ..bound })
            }
            _ => Ok(bound),
        }
    }

    fn nullif_of(&mut self, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let mut args = args.into_iter();
        let (Some(first), Some(second), None) = (args.next(), args.next(), args.next()) else {
            return Err(self.at(SqlError::syntax("NULLIF needs two arguments"), span));
        };
        // Its type is that of the comparison's left operand.
        let tables = super::coerce::catalog();
        let resolved = tables.resolve_operator("=", Some(first.ty.id()), second.ty.id());
        let (to, beside) = match resolved {
            Ok(resolved) => (resolved.left.map_or(first.ty.oid, |ty| ty.0), Type::of(resolved.right.0)),
            Err(error) => return Err(self.at(super::coerce::sql_error(error), span)),
        };
        let first = if first.ty.oid == to { first } else { self.implicit(first, Type::of(to))? };
        // A parameter gets its type here: below, something else may stand for it.
        let second = if second.ty.is_unknown() { self.operand(second, beside)? } else { second };
        let null = self.null(first.ty)?;
        let null = match null.data == first.data {
            true => null.expr,
            false => lit(datafusion::common::ScalarValue::try_from(&first.data)?),
        };
        let case = |equal: Expr, first: Expr| {
            Expr::Case(Case::new(None, vec![(Box::new(equal), Box::new(null))], Some(Box::new(first))))
        };
        if matches!(first.expr, Expr::Column(_) | Expr::Literal(..) | Expr::Placeholder(_)) {
            let equal = self.binary("=", first.clone(), second, span)?;
            return Ok(Bound { expr: case(equal.expr, first.expr.clone()), ..first }.at(span));
        }
        // Written twice it would be computed twice, and a nest of it would double with each level.
        let (beside, argument) = match second.expr {
            Expr::Literal(..) => (second, lit(true)),
            _ => (Bound { expr: fold::next(), ..second.clone() }, second.expr),
        };
        let equal = self.binary("=", Bound { expr: fold::so_far(), ..first.clone() }, beside.clone(), span)?;
        if !fold::is_step(&equal.expr)? {
            self.copied(&first)?;
            let second =
                if matches!(beside.expr, Expr::Literal(..)) { beside } else { Bound { expr: argument, ..beside } };
            let equal = self.binary("=", first.clone(), second, span)?;
            return Ok(Bound { expr: case(equal.expr, first.expr.clone()), ..first }.at(span));
        }
        let step = case(equal.expr, fold::so_far());
        let expr = Fold::call(first.expr, vec![(step, argument)], first.data.clone());
        Ok(Bound::with_data(expr, first.ty, first.data).at(span))
    }

    /// An expression is written more than once, as PostgreSQL does it: a nest of such grows with a power of its depth.
    ///
    /// # Errors
    /// `54001` if it is too large for that.
    pub(super) fn copied(&self, bound: &Bound) -> Result<()> {
        const COPIED_MAX: usize = 20_000;
        let mut nodes = 0;
        bound.expr.apply(|_| {
            nodes += 1;
            Ok(if nodes > COPIED_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if nodes > COPIED_MAX { Err(too_deep().into()) } else { Ok(()) }
    }
}

/// Whether an element may stand in a list of the query engine's IN. That one takes for a constant what gives one value for a batch without rows, and CASE (and what becomes
/// one) does so, whatever it reads: with such an element no row would be found. So does `now()`, which would keep the value of the first run.
fn is_listable(element: &Expr) -> bool {
    let is_other = |expr: &Expr| match expr {
        expr if expr.is_volatile_node() => true,
        Expr::Case(_) | Expr::Column(_) | Expr::OuterReferenceColumn(..) => true,
        Expr::ScalarFunction(call) => matches!(call.name(), "coalesce" | "nullif" | "greatest" | "least"),
        _ => false,
    };
    !element.exists(|expr| Ok(is_other(expr))).unwrap_or(true)
}
