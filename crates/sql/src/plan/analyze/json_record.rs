//! Functions of documents that return records: `json_each` and its kin, whose columns are known, and `json_to_record`,
//! `json_to_recordset` and their kin, whose columns a list behind the call says.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Unnest;
use datafusion::logical_expr::{Expr, when};
use datafusion::sql::sqlparser::ast::{TableAlias, TableAliasColumnDef};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::{Call, CastContext};

use super::bound::{Bound, Type};
use super::coerce::{catalog, sql_error};
use super::from::From;
use super::function_item::Column;
use super::scope::{Item, folded};
use super::{Analyzer, Result, unknown};
use crate::pg::types::{self, oid};
use crate::wire::SqlError;

/// Name and type of a column, and the function that lists its values.
type Listed = (&'static str, u32, &'static str);

/// The columns of a function that returns a set of records.
fn listed(function: &str) -> Option<[Listed; 2]> {
    Some(match function {
        "json_each" => [("key", oid::TEXT, "pg_json_each_key"), ("value", oid::JSON, "pg_json_each_value")],
        "json_each_text" => [("key", oid::TEXT, "pg_json_each_key"), ("value", oid::TEXT, "pg_json_each_text_value")],
        "jsonb_each" => [("key", oid::TEXT, "pg_jsonb_each_key"), ("value", oid::JSONB, "pg_jsonb_each_value")],
        "jsonb_each_text" => {
            [("key", oid::TEXT, "pg_jsonb_each_text_key"), ("value", oid::TEXT, "pg_jsonb_each_text_value")]
        }
        _ => return None,
    })
}

/// Whether a function's columns are what the statement says, and then whether it returns a set.
pub(super) fn by_definition_list(function: &str) -> Option<bool> {
    match function {
        "json_to_record" | "jsonb_to_record" => Some(false),
        "json_to_recordset" | "jsonb_to_recordset" => Some(true),
        _ => None,
    }
}

/// A record that is NULL where its set has ended before others beside it: its first column is the key, which never is NULL.
pub(super) fn while_there(record: Bound, columns: &[(String, Bound)]) -> Result<Bound> {
    let Some((_, key)) = columns.first() else { return Ok(record) };
    let there = Expr::IsNotNull(Box::new(key.expr.clone()));
    Ok(Bound { expr: when(there, record.expr.clone()).end()?, ..record })
}

impl Analyzer<'_> {
    /// The columns of a set of records, each a set; `None` if the function returns none.
    pub(super) fn columns_of_records(
        &mut self,
        function: &str,
        args: &[Bound],
    ) -> Result<Option<Vec<(String, Bound)>>> {
        let Some(listed) = listed(function) else { return Ok(None) };
        let mut columns = Vec::with_capacity(listed.len());
        for (name, ty, by) in listed {
            columns.push((name.to_owned(), self.set_by(by, args.to_vec(), Type::of(ty))?));
        }
        Ok(Some(columns))
    }

    /// The set of the values that a function lists.
    fn set_by(&mut self, function: &str, args: Vec<Bound>, ty: Type) -> Result<Bound> {
        let Some(udf) = self.names.state.scalar_functions().get(function).cloned() else {
            return unknown(function);
        };
        let (list, data) = self.call_udf(&udf, args)?;
        let DataType::List(item) = &data else { return unknown("this set-returning function") };
        let expr = Expr::Unnest(Unnest { expr: Box::new(list), outer: false });
        Ok(Bound::with_data(expr, ty, item.data_type().clone()))
    }

    /// `jsonb_to_record(d) AS x (a integer, b text)`
    pub(super) fn record_item(
        &mut self,
        function: &str,
        args: Vec<Bound>,
        ordinality: bool,
        alias: Option<&TableAlias>,
        before: &[Item],
        span: Span,
    ) -> Result<From> {
        let types: Vec<_> = args.iter().map(|arg| arg.ty.id()).collect();
        if let Err(error) = catalog().resolve_function(&Call::new(function, &types)) {
            return Err(self.at(sql_error(error), span));
        }
        let columns = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
        if columns.is_empty() || columns.iter().any(|column| column.data_type.is_none()) {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.at(SqlError::syntax(message), span));
        }
        if ordinality {
            let error = SqlError::syntax("WITH ORDINALITY cannot be used with a column definition list")
                .with_hint("Put the column definition list inside ROWS FROM().");
            let place = columns.first().map_or(span, |column| column.name.span);
            return Err(self.at(error, place));
        }
        let Some(document) = args.into_iter().next() else { return unknown(function) };
        let ty = Type::of(if function.starts_with("jsonb") { oid::JSONB } else { oid::JSON });
        let document = if document.ty.oid == ty.oid { document } else { self.implicit(document, ty)? };
        let document = self.or_text(document)?;
        let text = self.cast_as(document, Type::TEXT, CastContext::Explicit)?;
        let record = match by_definition_list(function) {
            Some(true) => {
                let name = self.text_constant(function);
                self.set_by("pg_json_records", vec![text, name], Type::TEXT)?
            }
            _ => text,
        };
        let mut targets: Vec<Column> = Vec::with_capacity(columns.len());
        for column in columns {
            let name = folded(&column.name);
            if targets.iter().any(|(known, _, _)| known.as_deref() == Some(name.as_str())) {
                let error = SqlError::new("42701", format!("column name \"{name}\" specified more than once"));
                return Err(self.at(error, column.name.span));
            }
            let bound = self.column_of_record(record.clone(), &name, column)?;
            targets.push((Some(name), function.to_owned(), bound));
        }
        self.sets_item(targets, false, alias, before)
    }

    /// A column of a record, by the input of its type.
    fn column_of_record(&mut self, record: Bound, name: &str, column: &TableAliasColumnDef) -> Result<Bound> {
        let Some(data_type) = &column.data_type else { return unknown("a column without a type") };
        let domain = types::domain_from_sql(data_type);
        let to = self.type_of(data_type)?;
        let element = catalog().element_type(to.id()).map(|element| element.0);
        let (function, ty) = match (to.oid, element) {
            (oid::JSON | oid::JSONB, _) => ("pg_json_record_json", oid::JSON),
            (_, Some(oid::JSON | oid::JSONB)) => ("pg_json_record_json_array", oid::TEXT),
            (_, Some(_)) => ("pg_json_record_array", oid::TEXT),
            (_, None) => ("pg_json_record_text", oid::TEXT),
        };
        let Some(udf) = self.names.state.scalar_functions().get(function).cloned() else { return unknown(function) };
        let mut args = vec![record, self.text_constant(name)];
        // A text that is too long is an error, as for a column of a table; a cast would cut it off.
        if matches!(to.oid, oid::VARCHAR | oid::BPCHAR) && to.typmod > 4 {
            let most = i64::from(to.typmod - 4);
            args.push(Bound::literal(ScalarValue::Int64(Some(most)), Type::INT8));
            args.push(self.text_constant(&to.name()));
        }
        let (expr, data) = self.call_udf(&udf, args)?;
        let value = Bound::with_data(expr, Type::of(ty), data);
        if let Some(domain) = domain {
            return self.cast_to_domain(value, domain, CastContext::Explicit);
        }
        self.cast_as(value, to, CastContext::Explicit)
    }
}
