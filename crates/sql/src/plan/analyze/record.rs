//! Rows as values: `ROW(a, b)`, `(a, b)`, the whole row of a FROM item.
//!
//! A record can be selected, counted and looked at column by column; what would compare, sort, group or convert it is
//! refused, but for comparisons of rows that are written out (`condition`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::logical_expr::{Expr, Operator, binary_expr, lit, when};
use datafusion::sql::sqlparser::ast::{self, AccessExpr, Ident};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Column, Type};
use super::condition::{bare, row};
use super::expr::Clause;
use super::function::CallForm;
use super::scope::{Item, Scope, folded, from_outside};
use super::{Analyzer, Result, unknown};
use resurgam_dialect::CastContext;
use resurgam_engine::is_hidden;

use crate::pg::types::{self, oid};
use crate::wire::SqlError;

/// The type of records.
pub(super) const RECORD: Type = Type::of(oid::RECORD);

/// The function of `information_schema` that numbers an array's elements.
pub(super) const EXPANDED: &str = "_pg_expandarray";

/// Most columns of a record, as of a table in PostgreSQL.
const COLUMNS_MAX: usize = 1664;

/// Refuses records in `what`.
pub(super) fn refuse_record(bound: &Bound, what: &str) -> Result<()> {
    match bound.ty.oid == oid::RECORD {
        true => unknown(format!("{what} of a record")),
        false => Ok(()),
    }
}

impl Analyzer<'_> {
    /// `ROW(a, b)`, `(a, b)`
    pub(super) fn row_value(
        &mut self,
        expr: &ast::Expr,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let Some(items) = row(expr) else { return unknown("this form of ROW") };
        let mut fields = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            fields.push((format!("f{}", at + 1), self.expr(item, scope, clause)?));
        }
        self.record(fields, span)
    }

    /// `ROW(a, t.*)`: the columns of items in place of their wildcards.
    pub(super) fn row_with_wildcards(
        &mut self,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
        let mut values = Vec::with_capacity(list.args.len());
        for arg in &list.args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) if is_plain => {
                    values.push(self.expr(expr, scope, clause)?);
                }
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) if is_plain => {
                    values.extend(self.columns_of_wildcard(scope, name)?);
                }
                _ => return unknown("this form of ROW"),
            }
        }
        let named = values.into_iter().enumerate().map(|(at, bound)| (format!("f{}", at + 1), bound)).collect();
        self.record(named, span)
    }

    /// The columns that `t.*` is among the values of a row.
    pub(super) fn columns_of_wildcard(&mut self, scope: &Scope<'_>, name: &ast::ObjectName) -> Result<Vec<Bound>> {
        let [part] = name.0.as_slice() else { return unknown("a whole row as an argument by its schema") };
        let Some(ident) = part.as_ident() else { return unknown("this kind of wildcard") };
        let Some((item, level, _)) = self.named_item(scope, &folded(ident)) else {
            let message = format!("missing FROM-clause entry for table \"{}\"", folded(ident));
            return Err(self.at(SqlError::new("42P01", message), ident.span));
        };
        let mut columns = Vec::with_capacity(item.columns.len());
        for column in item.columns.iter().filter(|column| !is_hidden(&column.name)) {
            self.mark(&column.bound.expr);
            columns.push(from_outside(&column.bound, level)?);
        }
        Ok(columns)
    }

    /// `information_schema._pg_expandarray(a)`: each element with its number, counted from 1. Drivers look for keys with it.
    pub(super) fn expanded_array(
        &mut self,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] = list.args.as_slice() else {
            return unknown("this call of _pg_expandarray");
        };
        let mut fields = Vec::with_capacity(2);
        for (name, text) in
            [("x", format!("unnest({array})")), ("n", format!("generate_series(1, cardinality({array}))"))]
        {
            let expr = crate::pg::definition::parse_expression(&text)?;
            fields.push((name.to_owned(), self.expr(&expr, scope, clause)?));
        }
        self.record(fields, span)
    }

    /// The same in FROM: its columns.
    pub(super) fn expanded_columns(&mut self, array: Bound, span: Span) -> Result<Vec<(String, Bound)>> {
        let form = CallForm::default();
        let one = Bound::new(lit(1i32), Type::INT4);
        let count = self.called(None, "cardinality", vec![array.clone()], &form, span)?.bound;
        let elements = self.called(None, "unnest", vec![array], &form, span)?.bound;
        let numbers = self.called(None, "generate_series", vec![one, count], &form, span)?.bound;
        Ok(vec![("x".to_owned(), elements), ("n".to_owned(), numbers)])
    }

    /// A record of these fields.
    pub(super) fn record(&mut self, given: Vec<(String, Bound)>, span: Span) -> Result<Bound> {
        if given.len() > COLUMNS_MAX {
            let text = format!("ROW expressions can have at most {COLUMNS_MAX} entries");
            return Err(self.at(SqlError::new("54011", text), span));
        }
        let (mut fields, mut values): (Vec<FieldRef>, Vec<Bound>) = (Vec::new(), Vec::new());
        for (name, bound) in given {
            let bound = self.or_text(bound)?;
            let bound = self.by_name(bound)?;
            fields.push(Arc::new(bound.ty.field(&name, &bound.data)));
            values.push(bound);
        }
        let function = crate::exec::record::make_record(Fields::from(fields));
        let (expr, data) = self.call_udf(&function, values)?;
        Ok(Bound::with_data(expr, RECORD, data).at(span))
    }

    /// A text that is the same for equal rows, and for no others; never NULL, as a row is not.
    ///
    /// # Errors
    /// `0A000` for columns of types of which equal values may have several texts.
    pub(super) fn record_key(
        &mut self,
        items: Vec<&ast::Expr>,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let mut parts = vec![self.text_constant("")];
        for item in items {
            let bound = self.expr(item, scope, clause)?;
            let bound = match crate::pg::user_types::base_type(bound.ty.oid, -1).0 {
                oid::NUMERIC => self.call("trim_scale", vec![bound], span)?,
                // The two zeros are equal.
                oid::FLOAT4 | oid::FLOAT8 => {
                    let bound = self.cast_as(bound, Type::of(oid::FLOAT8), CastContext::Explicit)?;
                    let sum = binary_expr(bound.expr, Operator::Plus, lit(0.0f64));
                    Bound::new(sum, Type::of(oid::FLOAT8))
                }
                // Not by what clocks show, which may be the same twice.
                oid::TIMESTAMPTZ => {
                    let utc = self.text_constant("UTC");
                    self.call("timezone", vec![utc, bound], span)?
                }
                oid::BOOL
                | oid::INT2
                | oid::INT4
                | oid::INT8
                | oid::OID
                | oid::TEXT
                | oid::VARCHAR
                | oid::BPCHAR
                | oid::NAME
                | oid::UUID
                | oid::BYTEA
                | oid::DATE
                | oid::TIME
                | oid::TIMESTAMP => bound,
                ty if crate::pg::user_types::by_oid(ty).is_some_and(|ty| ty.as_enum().is_some()) => bound,
                oid::UNKNOWN => {
                    let error = SqlError::new("42883", "could not identify a comparison function for type unknown");
                    return Err(self.at(error, span));
                }
                _ => return unknown(format!("count(DISTINCT …) of rows with a column of type {}", bound.ty.name())),
            };
            let text = self.cast_as(bound, Type::TEXT, CastContext::Explicit)?;
            let quoted = self.call("quote_nullable", vec![text], span)?;
            parts.extend([quoted, self.text_constant(",")]);
        }
        self.call("concat", parts, span)
    }

    /// The FROM item that a name without a qualifier means if no column has it, and how many queries further out it is.
    fn named_item<'s>(&self, scope: &'s Scope<'s>, name: &str) -> Option<(&'s Item, usize, bool)> {
        let (mut level, mut next) = (0, Some(scope));
        while let Some(scope) = next {
            let found = scope.items.iter().find(|item| item.by_name && item.name.as_deref() == Some(name));
            if let Some(item) = found {
                return Some((item, level, scope.items.len() == 1));
            }
            level += 1;
            next = scope.outer;
        }
        None
    }

    /// The columns of the whole row that an expression is: `t`, where no column has that name, or `t.*`.
    pub(super) fn whole_row(&self, expr: &ast::Expr, scope: &Scope<'_>) -> Result<Option<Vec<Column>>> {
        let ident = match bare(expr) {
            ast::Expr::Identifier(ident) => ident.clone(),
            ast::Expr::QualifiedWildcard(name, _) => match name.0.as_slice() {
                [part] => match part.as_ident() {
                    Some(ident) => ident.clone(),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if matches!(bare(expr), ast::Expr::Identifier(_)) && self.is_column(scope, &ident)? {
            return Ok(None);
        }
        let Some((item, level, _)) = self.named_item(scope, &folded(&ident)) else { return Ok(None) };
        let mut columns = Vec::with_capacity(item.columns.len());
        for column in item.columns.iter().filter(|column| !is_hidden(&column.name)) {
            self.mark(&column.bound.expr);
            columns.push(Column { name: column.name.clone(), bound: from_outside(&column.bound, level)? });
        }
        Ok(Some(columns))
    }

    /// The whole row of the FROM item of that name as a value, if there is one; NULL where an outer join has none.
    pub(super) fn whole_row_value(&mut self, scope: &Scope<'_>, ident: &Ident) -> Result<Option<Bound>> {
        let Some((item, level, is_alone)) = self.named_item(scope, &folded(ident)) else { return Ok(None) };
        let key = item.table.as_ref().and_then(|table| table.primary_key.first().copied());
        let present = match key.and_then(|key| item.columns.get(key)) {
            Some(key) => Some(from_outside(&key.bound, level)?),
            None if is_alone => None,
            None => return unknown(format!("a whole row of a join as a value (\"{}\")", folded(ident))),
        };
        let mut fields = Vec::with_capacity(item.columns.len());
        for (at, column) in item.columns.iter().enumerate().filter(|(_, column)| !is_hidden(&column.name)) {
            // Of a table its type's names, whatever names FROM gives to them.
            let named = item.table.as_ref().filter(|table| table.columns.len() == item.columns.len());
            let named = named.and_then(|table| table.columns.get(at));
            let name = named.map_or_else(|| column.name.clone(), |column| column.name.clone());
            self.mark(&column.bound.expr);
            fields.push((name, from_outside(&column.bound, level)?));
        }
        let record = self.record(fields, ident.span)?;
        let Some(present) = present.filter(|_| !is_alone) else { return Ok(Some(record)) };
        let expr = when(Expr::IsNotNull(Box::new(present.expr)), record.expr).end()?;
        Ok(Some(Bound::with_data(expr, RECORD, record.data).at(ident.span)))
    }

    /// `t.*` as an argument: the whole row, also where a column is called as the item is.
    pub(super) fn wildcard_value(&mut self, scope: &Scope<'_>, name: &ast::ObjectName) -> Result<Bound> {
        let [part] = name.0.as_slice() else { return unknown("a whole row as an argument by its schema") };
        let Some(item) = part.as_ident() else { return unknown("this kind of wildcard") };
        match self.whole_row_value(scope, item)? {
            Some(row) => Ok(row),
            None => {
                let message = format!("missing FROM-clause entry for table \"{}\"", folded(item));
                Err(self.at(SqlError::new("42P01", message), item.span))
            }
        }
    }

    /// The column of `t.a[1]`, and what follows it: names that are not in parentheses.
    pub(super) fn qualified<'c>(
        &mut self,
        root: &ast::Expr,
        chain: &'c [AccessExpr],
        scope: &Scope<'_>,
    ) -> Result<Option<(Bound, &'c [AccessExpr])>> {
        let mut names = match root {
            ast::Expr::Identifier(ident) => vec![ident.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => return Ok(None),
        };
        let mut rest = chain;
        while let [AccessExpr::Dot(ast::Expr::Identifier(name)), others @ ..] = rest {
            names.push(name.clone());
            rest = others;
        }
        if names.len() == 1 { Ok(None) } else { Ok(Some((self.column(scope, &names)?, rest))) }
    }

    /// A field of a record.
    pub(super) fn field_of(&mut self, bound: Bound, field: &Ident) -> Result<Bound> {
        let name = folded(field);
        let DataType::Struct(fields) = &bound.data else {
            let message =
                format!("column notation .{name} applied to type {}, which is not a composite type", bound.ty.name());
            return Err(self.at(SqlError::new("42809", message), field.span));
        };
        let Some((at, found)) = fields.iter().enumerate().find(|(_, known)| known.name() == &name) else {
            let message = format!("could not identify column \"{name}\" in record data type");
            return Err(self.at(SqlError::new("42703", message), field.span));
        };
        let ty = Type { oid: types::field_oid(found), typmod: types::field_typmod(found) };
        let data = found.data_type().clone();
        let function = crate::exec::record::field_of_record(at, Arc::clone(found));
        let span = bound.span;
        let (expr, _) = self.call_udf(&function, vec![bound])?;
        Ok(Bound::with_data(expr, ty, data).at(span))
    }

    /// `(t).a`
    pub(super) fn field_of_item(
        &mut self,
        root: &ast::Expr,
        chain: &[AccessExpr],
        scope: &Scope<'_>,
    ) -> Result<Option<Bound>> {
        let (ast::Expr::Identifier(item), [AccessExpr::Dot(ast::Expr::Identifier(field))]) = (bare(root), chain) else {
            return Ok(None);
        };
        if self.is_column(scope, item)? || self.named_item(scope, &folded(item)).is_none() {
            return Ok(None);
        }
        self.column(scope, &[item.clone(), field.clone()]).map(Some)
    }
}
