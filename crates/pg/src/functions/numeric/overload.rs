//! Functions that have a form for `numeric` beside others: which one a call means, by its arguments' types.
//!
//! For planning by DataFusion's names, where a function is looked up before the types of its arguments are known.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::column::DYNAMIC;
use super::{by_proc_name, is_exact_number};
use crate::errors::to_datafusion;
use crate::types::{arrow_oid, format_type};
use crate::wire::SqlError;

/// Which arguments make a call one of the numeric form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Any `numeric` among exact numbers.
    Numeric,
    /// The same, with at least two arguments, the second being of another kind.
    Digits,
    /// Only a dynamic one among exact numbers: the other form keeps the digits of the fixed ones.
    Dynamic,
    /// Exact numbers of any kind: there is no other form.
    Exact,
}

/// SQL name, the numeric form's name, and when that is meant.
const FORMS: [(&str, &str, Takes); 28] = [
    ("abs", "numeric_abs", Takes::Dynamic),
    ("sign", "numeric_sign", Takes::Numeric),
    ("signum", "numeric_sign", Takes::Numeric),
    ("ceil", "numeric_ceil", Takes::Dynamic),
    ("ceiling", "numeric_ceil", Takes::Dynamic),
    ("floor", "numeric_floor", Takes::Dynamic),
    ("round", "numeric_round", Takes::Digits),
    ("trunc", "numeric_trunc", Takes::Digits),
    ("sqrt", "numeric_sqrt", Takes::Numeric),
    ("exp", "numeric_exp", Takes::Numeric),
    ("ln", "numeric_ln", Takes::Numeric),
    ("log", "numeric_log", Takes::Numeric),
    ("log10", "numeric_log", Takes::Numeric),
    ("power", "numeric_power", Takes::Numeric),
    ("pow", "numeric_power", Takes::Numeric),
    ("mod", "numeric_mod", Takes::Numeric),
    ("div", "numeric_div_trunc", Takes::Exact),
    ("gcd", "numeric_gcd", Takes::Numeric),
    ("lcm", "numeric_lcm", Takes::Numeric),
    ("factorial", "numeric_fac", Takes::Exact),
    ("width_bucket", "width_bucket_numeric", Takes::Numeric),
    ("scale", "numeric_scale", Takes::Exact),
    ("min_scale", "numeric_min_scale", Takes::Exact),
    ("trim_scale", "numeric_trim_scale", Takes::Exact),
    ("greatest", "numeric_greatest", Takes::Dynamic),
    ("least", "numeric_least", Takes::Dynamic),
    ("nullif", "numeric_nullif", Takes::Dynamic),
    ("coalesce", "numeric_coalesce", Takes::Dynamic),
];

/// All of them; `known` says what a name means already.
pub fn overloads(known: impl Fn(&str) -> Option<Arc<ScalarUDF>>) -> Vec<ScalarUDF> {
    let mut out = Vec::new();
    for (name, numeric, takes) in FORMS {
        let Some(numeric) = by_proc_name(numeric) else { continue };
        let signature = Signature::user_defined(Volatility::Immutable);
        let form = Overloaded { name, numeric, other: known(name), takes, signature };
        out.push(ScalarUDF::new_from_impl(form));
    }
    out
}

struct Overloaded {
    name: &'static str,
    numeric: Arc<ScalarUDF>,
    other: Option<Arc<ScalarUDF>>,
    takes: Takes,
    signature: Signature,
}

impl fmt::Debug for Overloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for Overloaded {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Overloaded {}
impl Hash for Overloaded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// `coalesce` as a CASE: what comes behind a value that is not null is not computed.
fn coalesced(args: Vec<Expr>, types: &[DataType]) -> DfResult<ExprSimplifyResult> {
    let Some(dynamic) = by_proc_name("numeric_dynamic") else { return Ok(ExprSimplifyResult::Original(args)) };
    let mut result = Expr::Literal(datafusion::common::ScalarValue::LargeBinary(None), None);
    for (arg, ty) in args.into_iter().zip(types).rev() {
        if ty.is_null() {
            continue;
        }
        let value = if ty == &DYNAMIC { arg.clone() } else { dynamic.call(vec![arg.clone()]) };
        result = datafusion::logical_expr::when(arg.is_not_null(), value).otherwise(result)?;
    }
    Ok(ExprSimplifyResult::Simplified(result))
}

fn is_numeric(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::LargeBinary)
}

impl Overloaded {
    fn is_numeric(&self, types: &[DataType]) -> bool {
        let fits = |ty: &DataType| is_exact_number(ty) || ty.is_null();
        let all = types.iter().all(|ty| fits(ty) || ty.is_string());
        match self.takes {
            Takes::Numeric => all && types.iter().any(is_numeric),
            Takes::Digits => {
                let [first, _] = types else { return types.first() == Some(&DYNAMIC) };
                fits(first)
            }
            Takes::Dynamic => all && types.contains(&DYNAMIC),
            Takes::Exact => all,
        }
    }

    fn other(&self, types: &[DataType]) -> DfResult<&Arc<ScalarUDF>> {
        self.other.as_ref().ok_or_else(|| {
            let types: Vec<String> = types.iter().map(|ty| format_type(arrow_oid(ty), None)).collect();
            to_datafusion(
                SqlError::new("42883", format!("function {}({}) does not exist", self.name, types.join(", "))).with_hint(
                    "No function matches the given name and argument types. You might need to add explicit type casts.",
                ),
            )
        })
    }

    /// What a call with such arguments means, beside dynamic numerics as floats where there is no other way.
    fn form(&self, types: &[DataType]) -> DfResult<&Arc<ScalarUDF>> {
        if self.is_numeric(types) { Ok(&self.numeric) } else { self.other(types) }
    }
}

impl ScalarUDFImpl for Overloaded {
    fn name(&self) -> &str {
        self.name
    }
    fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> DfResult<String> {
        Ok(crate::functions::call_name(self.name(), args))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        let form = self.form(types)?;
        if Arc::ptr_eq(form, &self.numeric) && !matches!(self.name, "factorial") {
            let texts = |ty: &DataType| if ty.is_string() { DataType::Utf8View } else { ty.clone() };
            form.coerce_types(types)?;
            return Ok(types.iter().map(texts).collect());
        }
        let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, form.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.form(types)?.return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.form(&types)?.return_field_from_args(args)
    }
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        use datafusion::logical_expr::ExprSchemable;
        let types = args.iter().map(|arg| arg.get_type(info.schema().as_ref())).collect::<DfResult<Vec<_>>>();
        if self.name == "coalesce"
            && let Ok(types) = &types
            && self.is_numeric(types)
        {
            return coalesced(args, types);
        }
        // The call itself is of the form that is meant from here on.
        match types.and_then(|types| Ok(Arc::clone(self.form(&types)?))) {
            Ok(form) => match form.simplify(args, info)? {
                ExprSimplifyResult::Original(args) => Ok(ExprSimplifyResult::Simplified(form.call(args))),
                simplified => Ok(simplified),
            },
            Err(_) => Ok(ExprSimplifyResult::Original(args)),
        }
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.form(&types)?.invoke_with_args(args)
    }
}

/// An exact number that is certain: its digits and its scale; `None` for dynamic ones.
fn digits(ty: &DataType) -> Option<(i32, i32)> {
    Some(match ty {
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            ((*precision).into(), (*scale).into())
        }
        _ => return None,
    })
}

/// Whether `left op right` of exact numbers has to be dynamic: one of them is, or the result might not fit.
pub fn is_dynamic_result(left: &DataType, op: char, right: &DataType) -> bool {
    let (Some((p1, s1)), Some((p2, s2))) = (digits(left), digits(right)) else {
        return left == &DYNAMIC || right == &DYNAMIC;
    };
    let bare = |ty: &DataType| matches!(ty, DataType::Decimal128(38, 10));
    match op {
        _ if bare(left) || bare(right) => true,
        '*' => p1 + p2 + 1 > 38,
        '/' => true,
        _ => (p1 - s1).max(p2 - s2) + s1.max(s2) + 1 > 38,
    }
}
