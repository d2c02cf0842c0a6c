//! Values across the three representations that a statement meets: engine datums,
//! Arrow arrays and DataFusion scalars; and errors across the three layers.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::ArrayRef;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, Volatility};
use resurgam_engine::{ColumnType, DISPLAY_SCALE_BYTES, Datum, DatumRef, ExternalRef, RawRow, ReadView, Table};
use resurgam_numeric::key::write_scaled;

use crate::exec::clean_function::PgClean;
use crate::pg::arrow::ColumnBuilder;
use crate::pg::citext;
use crate::pg::context::PgContext;
use crate::pg::datetime::{Zone, days_to_engine, us_to_engine};
use crate::pg::encode::encode_datum;
use crate::pg::errors;
use crate::pg::ordered;
use crate::wire::{Format, SqlError};

/// An engine error on its way through DataFusion.
#[cold]
pub(crate) fn storage(error: resurgam_base::Error) -> DataFusionError {
    errors::storage(error)
}

/// An SQL error on its way through DataFusion.
#[cold]
pub(crate) fn failure(error: SqlError) -> DataFusionError {
    errors::to_datafusion(error)
}

/// A large value's bytes.
pub(crate) fn external(view: &ReadView, reference: ExternalRef) -> Result<Datum> {
    let bytes = view.read_external(reference).map_err(storage)?;
    if reference.is_text {
        let text = String::from_utf8(bytes)
            .map_err(|_| storage(resurgam_base::Error::corrupt("a large text value is not UTF-8")))?;
        Ok(Datum::Text(text))
    } else {
        Ok(Datum::Bytes(bytes))
    }
}

/// Bytes of large values that rows are gathered with at most, beside one row of more; about as many rows have in their
/// pages together. A sort that spills holds several batches of each of its files.
pub(crate) const BATCH_BYTES: usize = 2 << 20;

/// Decodes columns of rows into Arrow arrays.
pub(crate) struct RowColumns<'a> {
    table: &'a Table,
    view: &'a ReadView,
}

impl<'a> RowColumns<'a> {
    pub(crate) fn new(table: &'a Table, view: &'a ReadView) -> Self {
        Self { table, view }
    }

    /// Column `column` of `rows`.
    pub(crate) fn array<'r>(
        &mut self,
        column: usize,
        rows: impl ExactSizeIterator<Item = RawRow<'r>>,
    ) -> Result<ArrayRef> {
        match self.built(column, rows, true)? {
            Some(array) => Ok(array),
            None => Err(failure(SqlError::internal("a large value was not read"))),
        }
    }

    /// As [`RowColumns::array`] if all values are in their rows; `None` if there is a large one.
    pub(crate) fn array_in_rows<'r>(
        &mut self,
        column: usize,
        rows: impl ExactSizeIterator<Item = RawRow<'r>>,
    ) -> Result<Option<ArrayRef>> {
        self.built(column, rows, false)
    }

    fn built<'r>(
        &mut self,
        column: usize,
        rows: impl ExactSizeIterator<Item = RawRow<'r>>,
        large: bool,
    ) -> Result<Option<ArrayRef>> {
        let mut builder = ColumnBuilder::new(&self.table.columns[column].ty, rows.len());
        for row in rows {
            let datum = self.table.column(row, column).map_err(storage)?;
            match datum {
                DatumRef::Null => builder.append_null(),
                DatumRef::External(reference) if large => {
                    builder.append(external(self.view, reference)?.as_ref()).map_err(failure)?;
                }
                DatumRef::External(_) => return Ok(None),
                datum => builder.append(datum).map_err(failure)?,
            }
        }
        Ok(Some(builder.finish()))
    }

    /// How many of the rows have up to [`BATCH_BYTES`] of large values in these columns together; at
    /// least one, if there is any.
    pub(crate) fn fitting<'r>(&self, columns: &[usize], rows: impl Iterator<Item = RawRow<'r>>) -> Result<usize> {
        let (mut fitting, mut bytes) = (0, 0u64);
        for row in rows {
            for &column in columns.iter().filter(|column| **column < self.table.columns.len()) {
                if let DatumRef::External(reference) = self.table.column(row, column).map_err(storage)? {
                    bytes = bytes.saturating_add(reference.len);
                }
            }
            if bytes > BATCH_BYTES as u64 && fitting > 0 {
                break;
            }
            fitting += 1;
        }
        Ok(fitting)
    }
}

/// A comparison value as a key column sees it.
#[derive(Debug)]
pub(crate) enum KeyValue {
    Exact(Datum),
    Null,
    /// Below every value that the column can hold.
    BelowAll,
    AboveAll,
    /// Cannot be turned into the column's type without loss.
    Unknown,
}

/// `value` as a bound on a column of type `ty`.
pub(crate) fn key_value(value: &ScalarValue, ty: &ColumnType) -> Result<KeyValue> {
    if value.is_null() {
        return Ok(KeyValue::Null);
    }
    if matches!(ty, ColumnType::VarNumeric(_)) {
        return Ok(var_numeric_value(value));
    }
    let integer = match value {
        ScalarValue::Int8(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int16(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int32(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int64(Some(v)) => Some(*v),
        _ => None,
    };
    if let Some(v) = integer {
        let beyond = if v < 0 { KeyValue::BelowAll } else { KeyValue::AboveAll };
        return Ok(match ty {
            ColumnType::Int2 => i16::try_from(v).map_or(beyond, |v| KeyValue::Exact(Datum::Int2(v))),
            ColumnType::Int4 => i32::try_from(v).map_or(beyond, |v| KeyValue::Exact(Datum::Int4(v))),
            ColumnType::Int8 => KeyValue::Exact(Datum::Int8(v)),
            _ => KeyValue::Unknown,
        });
    }
    Ok(match (value, ty) {
        (ScalarValue::Boolean(Some(v)), ColumnType::Bool) => KeyValue::Exact(Datum::Bool(*v)),
        (ScalarValue::Float32(Some(v)), ColumnType::Float4) => KeyValue::Exact(Datum::Float4(*v)),
        (ScalarValue::Float64(Some(v)), ColumnType::Float8) => KeyValue::Exact(Datum::Float8(*v)),
        (ScalarValue::Decimal128(Some(v), _, scale), ColumnType::Numeric { scale: to, .. }) => {
            // One with digits that the column has not is no key of it, nor a bound by itself.
            let more = *to as i32 - i32::from(*scale);
            let power = 10i128.checked_pow(more.unsigned_abs());
            let stored = match power {
                Some(power) if more >= 0 => v.checked_mul(power),
                Some(power) => (v % power == 0).then(|| v / power),
                None => None,
            };
            stored.map_or(KeyValue::Unknown, |v| KeyValue::Exact(Datum::Numeric(v)))
        }
        (ScalarValue::LargeBinary(Some(v)), ColumnType::Numeric { scale, .. }) => {
            numeric_key_value(v.get(..v.len().saturating_sub(2)).unwrap_or_default(), *scale)
        }
        // What it is compared by.
        (ScalarValue::BinaryView(Some(v)), ColumnType::Folded) => {
            KeyValue::Exact(Datum::Bytes(citext::stored_of_key(v)))
        }
        (value, ColumnType::Folded) => match citext::text_of(value) {
            Some(text) => KeyValue::Exact(Datum::Bytes(citext::stored(&text))),
            None => KeyValue::Unknown,
        },
        (ScalarValue::BinaryView(Some(v)), ColumnType::Numeric { scale, .. }) => numeric_key_value(v, *scale),
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_),
        ) => KeyValue::Exact(Datum::Text(v.clone())),
        (ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)), ColumnType::Bytes) => {
            KeyValue::Exact(Datum::Bytes(v.clone()))
        }
        (value, ColumnType::Ordered(ty)) => match ordered::stored_of_scalar(*ty, value) {
            Some(stored) => KeyValue::Exact(Datum::Bytes(stored)),
            None => KeyValue::Unknown,
        },
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
            ColumnType::Uuid,
        ) => parse_uuid(v).map_or(KeyValue::Unknown, |v| KeyValue::Exact(Datum::Uuid(v))),
        // The infinities are the same ends of the range with either epoch.
        (ScalarValue::Date32(Some(v)), ColumnType::Date) => KeyValue::Exact(Datum::Date(days_to_engine(*v))),
        (ScalarValue::Time64Microsecond(Some(v)), ColumnType::Time(_)) => KeyValue::Exact(Datum::Time(*v)),
        (ScalarValue::TimestampSecond(Some(v), Some(_)), ColumnType::Enum(ty))
            if crate::pg::user_types::enum_of_data(&value.data_type()) == Some(*ty) =>
        {
            KeyValue::Exact(Datum::Int8(*v))
        }
        (ScalarValue::TimestampMicrosecond(Some(v), None), ColumnType::Timestamp(_)) => {
            KeyValue::Exact(Datum::Timestamp(us_to_engine(*v)))
        }
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), ColumnType::TimestampTz(_)) => {
            KeyValue::Exact(Datum::TimestampTz(us_to_engine(*v)))
        }
        _ => KeyValue::Unknown,
    })
}

/// The same on a column of numerics that show digits of their own; their keys have none.
fn var_numeric_value(value: &ScalarValue) -> KeyValue {
    let mut out = Vec::with_capacity(12);
    match value {
        ScalarValue::Int16(Some(v)) => write_scaled((*v).into(), 0, &mut out),
        ScalarValue::Int32(Some(v)) => write_scaled((*v).into(), 0, &mut out),
        ScalarValue::Int64(Some(v)) => write_scaled((*v).into(), 0, &mut out),
        ScalarValue::Decimal128(Some(v), _, scale @ 0..) => write_scaled(*v, *scale as u16, &mut out),
        ScalarValue::LargeBinary(Some(v)) => out.extend_from_slice(v),
        // A key.
        ScalarValue::BinaryView(Some(v)) => {
            out.extend_from_slice(v);
            out.extend_from_slice(&[0; DISPLAY_SCALE_BYTES]);
        }
        _ => return KeyValue::Unknown,
    }
    KeyValue::Exact(Datum::Bytes(out))
}

/// The value of which that is the key, in a column with so many digits after the point.
fn numeric_key_value(key: &[u8], scale: i8) -> KeyValue {
    use resurgam_numeric::{Numeric, coef::Coef, key::read_key};
    let Ok(value) = read_key(key, scale.max(0) as u16) else { return KeyValue::Unknown };
    let mut again = Vec::with_capacity(key.len());
    value.write_key(&mut again);
    match value {
        // One with more digits than the column has is no key of it.
        Numeric::Finite(value) if again == key => match value.coef {
            Coef::Small(v) => KeyValue::Exact(Datum::Numeric(v)),
            Coef::Big(_) => KeyValue::Unknown,
        },
        _ => KeyValue::Unknown,
    }
}

/// The 16 bytes of a uuid in canonical lower-case text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    if digits.len() != 32 || text.len() != 36 {
        return None;
    }
    for (i, pair) in digits.chunks_exact(2).enumerate() {
        let pair = std::str::from_utf8(pair).ok()?;
        if pair.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        out[i] = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}

/// The error of a row operator, with the names that a client wants to know.
#[cold]
pub(crate) fn named(mut error: SqlError, table: &Table, row: &[DatumRef<'_>]) -> SqlError {
    if matches!(error.sqlstate.as_str(), "23505" | "23502") {
        error.schema = Some(table.schema.clone());
        error.table = Some(table.name.clone());
        let name = error.message.split('"').nth(1).map(str::to_owned);
        if error.sqlstate == "23505" {
            if let Some(columns) = name.as_deref().and_then(|name| constraint_columns(table, name))
                && row.len() == table.columns.len()
            {
                let columns = columns.iter().filter(|at| !table.columns[**at].is_predicate());
                let names: Vec<String> = columns.clone().map(|c| key_name(table, *c)).collect();
                let values: Vec<String> = columns.map(|c| shown(&row[*c], &table.columns[*c].ty)).collect();
                error.detail = Some(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")));
            }
            error.constraint = name;
        } else {
            error.column = name;
            if error.detail.is_none() {
                error.detail = Some(failing_row(table, row));
            }
        }
    }
    error
}

/// A column of a key as errors name it.
pub(crate) fn key_name(table: &Table, at: usize) -> String {
    let column = &table.columns[at];
    if column.is_hidden() { crate::pg::catalog::index_expression(table, at, true) } else { column.name.clone() }
}

/// The DETAIL that shows a row.
#[cold]
pub(crate) fn failing_row(table: &Table, row: &[DatumRef<'_>]) -> String {
    let columns = row.iter().zip(&table.columns).filter(|(_, column)| !column.is_hidden());
    let values: Vec<String> = columns.map(|(datum, c)| shown(datum, &c.ty)).collect();
    format!("Failing row contains ({}).", values.join(", "))
}

fn constraint_columns<'t>(table: &'t Table, name: &str) -> Option<&'t [usize]> {
    if table.primary_key_name == name {
        return Some(&table.primary_key);
    }
    table.indexes.iter().find(|index| index.name == name).map(|index| index.columns.as_slice())
}

/// A value as an error shows it: PostgreSQL's text form, in UTC, cut short when long.
fn shown(datum: &DatumRef<'_>, ty: &ColumnType) -> String {
    const CHARS_MAX: usize = 64;
    let text = shown_whole(datum, ty);
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// As [`shown`], not cut.
pub(crate) fn shown_whole(datum: &DatumRef<'_>, ty: &ColumnType) -> String {
    match datum {
        DatumRef::Null => return "null".to_owned(),
        DatumRef::External(_) => return "(large value)".to_owned(),
        _ => {}
    }
    let mut bytes = BytesMut::new();
    if encode_datum(*datum, ty, Format::Text, &Zone::default(), &mut bytes).is_err() {
        return "(value)".to_owned();
    }
    String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()).into_owned()
}

/// Adds PostgreSQL's functions to a session's state.
pub(crate) fn register_functions(state: &mut SessionState, cx: &Arc<dyn PgContext>) -> Result<()> {
    crate::pg::functions::register(state, cx)?;
    state.register_udtf("resurgam_clean", Arc::new(PgClean(Arc::clone(cx))));
    Ok(())
}

/// What the analyzer makes of arithmetic, for an expression that is in no plan.
pub(crate) fn checked_arithmetic(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    crate::pg::functions::checked_arithmetic(expr, schema)
}

/// Whether a function's answer depends on the session.
pub(crate) fn is_session_function(_: &SessionState, name: &str) -> bool {
    crate::pg::functions::is_session_function(name)
}

/// Whether the value of an expression, as it is written, depends on the session: not to be
/// asked after constants were folded.
pub(crate) fn is_of_session(state: &SessionState, expr: &Expr) -> bool {
    expr.exists(|node| Ok(is_of_session_itself(state, node))).unwrap_or(true)
}

/// The same, of a node without what it is computed from.
fn is_of_session_itself(state: &SessionState, node: &Expr) -> bool {
    match node {
        Expr::ScalarFunction(call) => {
            // Of the casts, those that a zone or the like has a say in.
            let fixed = call.func.signature().volatility == Volatility::Immutable;
            is_session_function(state, call.name()) && !(fixed && call.name().starts_with("pg_cast_"))
        }
        _ => false,
    }
}

/// A table of `pg_catalog` or `information_schema`.
pub(crate) fn catalog_table(
    cx: &Arc<dyn PgContext>,
    schema: &str,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    Ok(crate::pg::catalog::table(cx, schema, name))
}
