//! `pg_cast_TYPE(value[, typmod[, oid]])`: casts as PostgreSQL does them.
//!
//! Values of several types are of one Arrow form (`text`, `uuid` and `json`; `oid` and `regclass`; arrays of them), and what
//! is computed has no field that says which. So the analysis of a statement, which knows, says the oid of the value's type.
//! Where it is not said, the field is believed.
//!
//! Where DataFusion's own cast means the same, the call becomes that cast while the plan is
//! simplified, so that comparisons still reach indexes.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use resurgam_engine::ColumnType;

use crate::arrow::{cast_array, each_element, fit_text, local_us, must_be_read};
use crate::catalog::Model;
use crate::context::PgContext;
use crate::datetime::{Zone, round_seconds, us_from_engine, us_to_engine};
use crate::decode::interval_value;
use crate::encode::{RowEncoder, TextStyle};
use crate::errors::{from_arrow, to_datafusion};
use crate::types::{
    TEXT, TYPES, arrow_type_of_oid, element_oid, field_of_oid, field_oid, oid, type_by_oid, with_pg_type,
};
use crate::wire::SqlError;

/// A cast function for every type.
pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<ScalarUDF> {
    TYPES
        .iter()
        .filter(|ty| arrow_type_of_oid(ty.oid, -1).is_some() || ty.oid == oid::UNKNOWN)
        .filter_map(|ty| one(cx, ty.oid))
        .collect()
}

/// The one for a type.
pub(super) fn one(cx: &Arc<dyn PgContext>, ty: u32) -> Option<ScalarUDF> {
    // Of arrays as of their elements.
    let volatility = match element_oid(ty).unwrap_or(ty) {
        // words such as 'now', the session's zone
        oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => Volatility::Stable,
        oid::DATERANGE | oid::TSRANGE | oid::TSTZRANGE => Volatility::Stable,
        oid::TEXT | oid::VARCHAR => Volatility::Stable,
        oid::REGCLASS | oid::REGNAMESPACE | oid::REGROLE => Volatility::Stable,
        _ => Volatility::Immutable,
    };
    Some(ScalarUDF::new_from_impl(PgCast {
        name: format!("pg_cast_{}", type_by_oid(ty)?.name),
        oid: ty,
        signature: Signature::user_defined(volatility),
        cx: cx.clone(),
    }))
}

#[derive(Debug)]
struct PgCast {
    name: String,
    oid: u32,
    signature: Signature,
    cx: Arc<dyn PgContext>,
}

impl PartialEq for PgCast {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid
    }
}
impl Eq for PgCast {}
impl Hash for PgCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

/// Types whose values are a lookup.
fn is_reg(ty: u32) -> bool {
    matches!(ty, oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE | oid::REGPROC | oid::REGPROCEDURE)
}

impl PgCast {
    fn field(&self, typmod: i32) -> Field {
        field_of_oid(&self.name, self.oid, typmod)
            .unwrap_or_else(|| with_pg_type(Field::new(&self.name, TEXT, true), self.oid, typmod))
    }

    /// The result of casting a value of a type. A `numeric` without limits has the digits that the value has.
    fn field_from(&self, from: &DataType, typmod: i32) -> Field {
        let digits = match from {
            _ if self.oid != oid::NUMERIC || typmod >= 4 => return self.field(typmod),
            DataType::Null => super::numeric::DYNAMIC,
            DataType::Int16 => DataType::Decimal128(5, 0),
            DataType::Int32 => DataType::Decimal128(10, 0),
            DataType::Int64 => DataType::Decimal128(19, 0),
            DataType::Decimal128(..) => from.clone(),
            _ => super::numeric::DYNAMIC,
        };
        Field::new(&self.name, digits, true)
    }

    /// Whether DataFusion's cast from a type means the same.
    fn plain(&self, from_oid: u32, from: &DataType, typmod: i32) -> bool {
        let target = self.field_from(from, typmod);
        if typmod >= 0 && self.oid != oid::NUMERIC {
            return false;
        }
        if from == target.data_type() {
            return match self.oid {
                // not a change of type, only of name: but a uuid must be one
                oid::TEXT | oid::VARCHAR | oid::UNKNOWN => !is_reg(from_oid),
                oid::NAME | oid::CHAR | oid::BPCHAR | oid::UUID | oid::JSON | oid::JSONPATH => from_oid == self.oid,
                oid::BIT | oid::VARBIT => matches!(from_oid, oid::BIT | oid::VARBIT),
                oid::BIT_ARRAY | oid::VARBIT_ARRAY => matches!(from_oid, oid::BIT_ARRAY | oid::VARBIT_ARRAY),
                // As for their elements: of those that are kept as texts each has to be one of its type.
                ty if let Some(element) = element_oid(ty) => {
                    from_oid == ty || !must_be_read(element) && !matches!(element, oid::NAME | oid::CHAR)
                }
                // Of numerics whose digits are their own any limit is one.
                oid::NUMERIC => typmod < 4 || target.data_type() != &super::numeric::DYNAMIC,
                ty => !is_reg(ty) || from_oid == ty,
            };
        }
        use DataType as D;
        match (from, target.data_type()) {
            (D::Null, _) => true,
            (D::Utf8 | D::LargeUtf8, D::Utf8View) => matches!(self.oid, oid::TEXT | oid::VARCHAR),
            (D::Int16 | D::Int32 | D::Int64, D::Int16 | D::Int32 | D::Int64 | D::Float32 | D::Float64) => true,
            (D::Float32, D::Float64) => true,
            (D::Date32, D::Timestamp(_, None)) | (D::Timestamp(_, None), D::Date32 | D::Timestamp(_, None)) => true,
            _ => false,
        }
    }

    fn cast(&self, array: &ArrayRef, from_oid: u32, typmod: i32) -> Result<ArrayRef, SqlError> {
        let zone = self.cx.zone();
        let target = self.field_from(array.data_type(), typmod);
        let target = target.data_type();
        if matches!(array.data_type(), DataType::Null) {
            return Ok(new_null_array(target, array.len()));
        }
        let of_functions = |ty: u32| matches!(ty, oid::REGPROC | oid::REGPROCEDURE);
        if of_functions(self.oid) && of_functions(from_oid) && from_oid != self.oid {
            return super::reg_names::converted(&function_oids(array)?, array, self.oid == oid::REGPROCEDURE);
        }
        if is_reg(self.oid) {
            return self.lookup(array);
        }
        if matches!(from_oid, oid::REGPROC | oid::REGPROCEDURE) && self.oid == oid::OID {
            return function_oids(array);
        }
        let (from_element, element) = (element_oid(from_oid), element_oid(self.oid));
        if target == &TEXT && (is_reg(from_oid) || from_element.is_some_and(is_reg)) {
            return self.reg_text(array, from_oid);
        }
        if let Some(element) = element.filter(|element| is_reg(*element)) {
            return self.lookup_elements(array, element, target);
        }
        if self.oid == oid::INTERVAL && typmod >= 0 && array.data_type().is_string() {
            return interval_of(array, typmod);
        }
        let out = match (from_element, element, array.as_list_opt::<i32>(), target) {
            // Names as texts.
            (Some(from), Some(_), Some(list), DataType::List(item)) if is_reg(from) && item.data_type() == &TEXT => {
                each_element(list, item, |values| self.reg_text(values, from))?
            }
            _ => cast_array(array, target, self.oid, &zone)?,
        };
        let is_cut = matches!(self.oid, oid::NAME_ARRAY | oid::CHAR_ARRAY);
        if (typmod >= 0 || is_cut)
            && let Some(element) = element
        {
            return self.fit_elements(&out, element, typmod);
        }
        self.fit(out, array, target, typmod)
    }

    /// An array's elements, of the type already, within its modifier.
    fn fit_elements(&self, array: &ArrayRef, element: u32, typmod: i32) -> Result<ArrayRef, SqlError> {
        let (Some(list), DataType::List(item)) = (array.as_list_opt::<i32>(), array.data_type()) else {
            return Ok(Arc::clone(array));
        };
        each_element(list, item, |values| match values.data_type().is_nested() {
            true => self.fit_elements(values, element, typmod),
            false => self.of_element(element).fit(Arc::clone(values), values, values.data_type(), typmod),
        })
    }

    /// The cast of an array's elements.
    fn of_element(&self, element: u32) -> Self {
        let (name, signature) = (self.name.clone(), self.signature.clone());
        Self { oid: element, name, signature, cx: Arc::clone(&self.cx) }
    }

    /// Arrays of names, as [`Self::lookup`] has their elements.
    fn lookup_elements(&self, array: &ArrayRef, element: u32, target: &DataType) -> Result<ArrayRef, SqlError> {
        let zone = self.cx.zone();
        if array.data_type().is_string() {
            let texts = DataType::new_list(TEXT, true);
            let lists = cast_array(array, &texts, oid::TEXT_ARRAY, &zone)?;
            return self.lookup_elements(&lists, element, target);
        }
        match (array.as_list_opt::<i32>(), target) {
            (Some(list), DataType::List(item)) if !list.values().data_type().is_nested() => {
                each_element(list, item, |values| self.of_element(element).lookup(values))
            }
            _ => cast_array(array, target, self.oid, &zone),
        }
    }

    /// A value of the type already, from `array`, within its modifier.
    fn fit(&self, out: ArrayRef, array: &ArrayRef, target: &DataType, typmod: i32) -> Result<ArrayRef, SqlError> {
        let zone = self.cx.zone();
        match self.oid {
            oid::INTERVAL | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ if typmod >= 0 => {
                Ok(at_precision(&out, typmod))
            }
            oid::BIT | oid::VARBIT if typmod > 0 => {
                let (length, is_padded) = (typmod as usize, self.oid == oid::BIT);
                crate::memory::value(length)?;
                let texts = out.as_string_view().iter();
                let mut bytes = 0usize;
                let fitted = texts.map(|bits| {
                    let Some(bits) = bits else { return Ok(None) };
                    if is_padded {
                        bytes = bytes.saturating_add(length);
                        crate::memory::column(out.len(), bytes)?;
                    }
                    Ok::<_, SqlError>(Some(crate::bits::with_length(bits, length, is_padded)))
                });
                Ok(Arc::new(fitted.collect::<Result<StringViewArray, _>>()?))
            }
            oid::TIMETZ if typmod >= 0 => match crate::ordered::type_of(self.oid, typmod) {
                Some(ty) => crate::ordered::fitted(&out, ty),
                None => Ok(out),
            },
            // With more digits than a fixed one has.
            oid::NUMERIC if typmod >= 4 && target == &super::numeric::DYNAMIC => {
                let modifiers: ArrayRef = Arc::new(Int32Array::from(vec![typmod; out.len()]));
                super::numeric::apply("numeric", &[out, modifiers])
            }
            oid::VARCHAR | oid::BPCHAR => {
                let limit = if typmod >= 4 { (typmod - 4) as u32 } else { u32::MAX };
                let ty = if self.oid == oid::BPCHAR { ColumnType::Char(limit) } else { ColumnType::Varchar(limit) };
                let texts = out.as_string_view();
                let fitted: StringViewArray = texts
                    .iter()
                    .map(|text| text.map(|text| fit_text(text, &ty, true)).transpose())
                    .collect::<Result<_, _>>()?;
                Ok(Arc::new(fitted))
            }
            // Of no cast but by way of its text, which is a letter.
            oid::NAME if array.data_type() == &DataType::Boolean => {
                let letter = |value: Option<bool>| value.map(|value| if value { "t" } else { "f" });
                Ok(Arc::new(array.as_boolean().iter().map(letter).collect::<StringViewArray>()))
            }
            oid::NAME => Ok(Arc::new(
                out.as_string_view()
                    .iter()
                    .map(|text| text.map(|text| cut(text, NAME_BYTES)))
                    .collect::<StringViewArray>(),
            )),
            oid::CHAR if array.data_type().is_integer() => {
                let numbers = cast_array(array, &DataType::Int64, oid::INT8, &zone)?;
                let numbers = numbers.as_primitive::<datafusion::arrow::datatypes::Int64Type>();
                let byte = |number: i64| match i8::try_from(number) {
                    Ok(byte) => Ok(one_byte(byte as u8)),
                    Err(_) => Err(SqlError::new("22003", "\"char\" out of range")),
                };
                let out = numbers.iter().map(|number| number.map(byte).transpose());
                Ok(Arc::new(out.collect::<Result<StringViewArray, SqlError>>()?))
            }
            oid::CHAR => Ok(Arc::new(
                out.as_string_view()
                    .iter()
                    .map(|text| text.map(|text| one_byte(char_byte(text))))
                    .collect::<StringViewArray>(),
            )),
            _ => Ok(out),
        }
    }

    /// Names to oids; numbers stay what they are.
    fn lookup(&self, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
        let text = array.data_type().is_string();
        if matches!(self.oid, oid::REGPROC | oid::REGPROCEDURE) {
            let with_types = self.oid == oid::REGPROCEDURE;
            if !text {
                let oids = cast_array(array, &DataType::UInt32, oid::OID, &self.cx.zone())?;
                return super::reg_names::of_oids(&oids, with_types);
            }
            let texts = cast_array(array, &TEXT, oid::TEXT, &self.cx.zone())?;
            let shown = |name: Option<&str>| name.map(|name| super::reg_names::read(name, with_types)).transpose();
            let names: Result<StringViewArray, SqlError> = texts.as_string_view().iter().map(shown).collect();
            return Ok(Arc::new(names?));
        }
        if !text {
            return cast_array(array, &DataType::UInt32, oid::OID, &self.cx.zone());
        }
        let texts = cast_array(array, &TEXT, oid::TEXT, &self.cx.zone())?;
        let model = match self.oid {
            oid::REGCLASS | oid::REGNAMESPACE => Some(Model::load(self.cx.as_ref())?),
            _ => None,
        };
        let find = |name: &str| -> Result<u32, SqlError> {
            if name == "-" {
                return Ok(0);
            }
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
                return crate::decode::parse_oid(name);
            }
            match (self.oid, &model) {
                (oid::REGCLASS, Some(model)) => {
                    model.find(name).map(|relation| relation.oid).ok_or_else(|| model.undefined(name))
                }
                (oid::REGNAMESPACE, Some(model)) => {
                    let parts = crate::catalog::split_name(name).unwrap_or_default();
                    let [schema] = parts.as_slice() else { return Err(SqlError::new("42602", "invalid name syntax")) };
                    match model.schema_oid(schema) {
                        0 => Err(SqlError::new("3F000", format!("schema \"{schema}\" does not exist"))),
                        oid => Ok(oid),
                    }
                }
                (oid::REGTYPE, _) => crate::types::oid_of_text(name)?
                    .ok_or_else(|| SqlError::new("42704", format!("type \"{name}\" does not exist"))),
                _ => match crate::catalog::split_name(name).as_deref() {
                    Some([role]) => self.cx.rights()?.named(role).map(|role| role.oid),
                    _ => Err(SqlError::new("42602", "invalid name syntax")),
                },
            }
        };
        let oids: UInt32Array =
            texts.as_string_view().iter().map(|name| name.map(find).transpose()).collect::<Result<_, _>>()?;
        Ok(Arc::new(oids))
    }

    /// What a `reg…` value, or an array of them, prints as.
    fn reg_text(&self, array: &ArrayRef, from_oid: u32) -> Result<ArrayRef, SqlError> {
        let from = with_pg_type(Field::new("", array.data_type().clone(), true), from_oid, -1);
        let fields = datafusion::arrow::datatypes::Fields::from(vec![from]);
        let encoder = RowEncoder::new(&fields, &[], &TextStyle::of(&self.cx))?;
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
        let batch = RecordBatch::try_new(schema, vec![array.clone()]).map_err(|error| from_arrow(&error))?;
        let cells = encoder.cells(&batch)?;
        let mut builder = StringViewBuilder::new();
        for row in 0..array.len() {
            if cells[0].is_null(row) {
                builder.append_null();
                continue;
            }
            let mut text = bytes::BytesMut::new();
            cells[0].put_text(row, &mut text)?;
            builder.append_value(crate::decode::utf8(&text)?);
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// The oids of functions, which are kept by their names. A name that several have is the first one's.
fn function_oids(names: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let catalog = resurgam_dialect::Catalog::postgres();
    let find = |name: &str| {
        if name == "-" {
            return Ok(0);
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return crate::decode::parse_oid(name);
        }
        if let Some(function) = crate::catalog::function_named(name) {
            return Ok(function.oid());
        }
        if let Some(function) = crate::catalog::builtin_function(name) {
            return Ok(function.oid);
        }
        let bare = name.split('(').next().unwrap_or(name).trim_matches('"');
        let (schema, bare) = match bare.split_once('.') {
            Some(("information_schema", bare)) => (resurgam_dialect::Schema::InformationSchema, bare),
            Some((_, bare)) => (resurgam_dialect::Schema::PgCatalog, bare),
            None => (resurgam_dialect::Schema::PgCatalog, bare),
        };
        let found = catalog.functions_named(schema, bare).next().map(|function| function.oid);
        found.ok_or_else(|| SqlError::new("42883", format!("function \"{name}\" does not exist")))
    };
    let oids = names.as_string_view().iter().map(|name| name.map(find).transpose());
    Ok(Arc::new(oids.collect::<Result<UInt32Array, SqlError>>()?))
}

/// The byte that a text is as `"char"`: an octal escape, or its first.
pub(crate) fn char_byte(text: &str) -> u8 {
    match text.as_bytes() {
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'),
        bytes => bytes.first().copied().unwrap_or(0),
    }
}

/// A value of `"char"` as it is shown, which is how it is kept.
pub(crate) fn one_byte(byte: u8) -> String {
    match byte {
        0 => String::new(),
        0x80.. => format!("\\{byte:03o}"),
        byte => char::from(byte).to_string(),
    }
}

/// Intervals from texts, as a type with that modifier reads them.
fn interval_of(texts: &ArrayRef, typmod: i32) -> Result<ArrayRef, SqlError> {
    let texts = cast_array(texts, &TEXT, oid::TEXT, &Zone::Utc)?;
    let out: IntervalMonthDayNanoArray = texts
        .as_string_view()
        .iter()
        .map(|text| text.map(|text| interval_value(crate::decode::parse_interval_of(text, typmod)?)).transpose())
        .collect::<Result<_, SqlError>>()?;
    Ok(Arc::new(out))
}

/// Times with so many digits of seconds, rounded as PostgreSQL does, which counts from 2000.
pub(crate) fn at_precision(array: &ArrayRef, typmod: i32) -> ArrayRef {
    let digits = Some(typmod.clamp(0, 6) as u8);
    let round = |us: i64| round_seconds(us, digits);
    match array.data_type() {
        DataType::Interval(_) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            Arc::new(values.unary::<_, IntervalMonthDayNanoType>(|value| {
                let whole =
                    crate::decode::Interval { months: value.months, days: value.days, us: value.nanoseconds / 1000 };
                let cut = crate::decode::cut_interval(whole, typmod);
                IntervalMonthDayNano::new(cut.months, cut.days, cut.us.saturating_mul(1000))
            }))
        }
        DataType::Time64(_) => {
            Arc::new(array.as_primitive::<Time64MicrosecondType>().unary::<_, Time64MicrosecondType>(round))
        }
        DataType::Timestamp(_, zone) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            let out = values.unary::<_, TimestampMicrosecondType>(|us| us_from_engine(round(us_to_engine(us))));
            Arc::new(out.with_timezone_opt(zone.clone()))
        }
        _ => array.clone(),
    }
}

/// Bytes that a `name` has at most.
pub(crate) const NAME_BYTES: usize = 63;

/// At most so many bytes, whole characters.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The oid of the value's type, where it is said.
fn said_oid(value: Option<&ScalarValue>) -> Option<u32> {
    match value {
        Some(ScalarValue::UInt32(oid)) => *oid,
        _ => None,
    }
}

fn typmod_of(value: Option<&ScalarValue>) -> i32 {
    match value {
        Some(ScalarValue::Int64(Some(typmod))) => i32::try_from(*typmod).unwrap_or(-1),
        Some(ScalarValue::Int32(Some(typmod))) => *typmod,
        _ => -1,
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        &self.name
    }
    fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> DfResult<String> {
        Ok(crate::functions::call_name(self.name(), args))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        match types {
            [_] | [_, DataType::Int64] | [_, DataType::Int64, DataType::UInt32] => Ok(types.to_vec()),
            [first, _] => Ok(vec![first.clone(), DataType::Int64]),
            [first, _, _] => Ok(vec![first.clone(), DataType::Int64, DataType::UInt32]),
            _ => Err(to_datafusion(SqlError::new("42883", format!("function {} does not exist", self.name)))),
        }
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(self.field_from(types.first().unwrap_or(&DataType::Null), -1).data_type().clone())
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let typmod = typmod_of(args.scalar_arguments.get(1).copied().flatten());
        let from = args.arg_fields.first().map_or(&DataType::Null, |field| field.data_type());
        Ok(Arc::new(self.field_from(from, typmod)))
    }
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        use datafusion::logical_expr::ExprSchemable;
        let typmod = match args.get(1) {
            Some(Expr::Literal(value, _)) => typmod_of(Some(value)),
            Some(_) => return Ok(ExprSimplifyResult::Original(args)),
            None => -1,
        };
        let Some(value) = args.first() else { return Ok(ExprSimplifyResult::Original(args)) };
        let Ok((_, from)) = value.to_field(info.schema()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let from_oid = match args.get(2) {
            Some(Expr::Literal(said, _)) => said_oid(Some(said)),
            Some(_) => return Ok(ExprSimplifyResult::Original(args)),
            None => None,
        };
        if !self.plain(from_oid.unwrap_or_else(|| field_oid(&from)), from.data_type(), typmod) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let target = self.field_from(from.data_type(), typmod);
        let value = args.into_iter().next().unwrap_or_else(|| Expr::Literal(ScalarValue::Null, None));
        match (from.data_type(), target.data_type()) {
            (DataType::Date32, DataType::Timestamp(..)) => {
                return Ok(ExprSimplifyResult::Simplified(super::time::timestamp_of_date().call(vec![value])));
            }
            (DataType::Timestamp(..), DataType::Date32) => {
                return Ok(ExprSimplifyResult::Simplified(super::time::date_of_timestamp().call(vec![value])));
            }
            _ => {}
        }
        if from.data_type() == target.data_type() && field_oid(&from) == field_oid(&target) {
            return Ok(ExprSimplifyResult::Simplified(value));
        }
        Ok(ExprSimplifyResult::Simplified(Expr::Cast(Cast::new_from_field(
            Box::new(value),
            Arc::new(target.with_name("")),
        ))))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let typmod = match args.args.get(1) {
            Some(ColumnarValue::Scalar(value)) => typmod_of(Some(value)),
            _ => -1,
        };
        let said = match args.args.get(2) {
            Some(ColumnarValue::Scalar(value)) => said_oid(Some(value)),
            _ => None,
        };
        let Some(from) = said.or_else(|| args.arg_fields.first().map(|field| field_oid(field))) else {
            return Err(to_datafusion(SqlError::internal("a cast without a value")));
        };
        match args.args.into_iter().next() {
            // What an INSERT does with CURRENT_TIMESTAMP, without arrays of one value.
            Some(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(us, Some(_))))
                if self.oid == oid::TIMESTAMP && typmod < 0 =>
            {
                let local = us.map(|us| local_us(us, &self.cx.zone())).transpose().map_err(to_datafusion)?;
                Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(local, None)))
            }
            Some(ColumnarValue::Scalar(value)) => {
                let array = value.to_array()?;
                let out = self.cast(&array, from, typmod).map_err(to_datafusion)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?))
            }
            Some(ColumnarValue::Array(array)) => {
                Ok(ColumnarValue::Array(self.cast(&array, from, typmod).map_err(to_datafusion)?))
            }
            None => Err(to_datafusion(SqlError::internal("a cast without a value"))),
        }
    }
}
