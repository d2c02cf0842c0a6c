//! Functions that plans have for collations.
//!
//! | function | what it is |
//! |---|---|
//! | [`Said`] | the value itself, of which it is said which collation it has, or what it must have; analysis takes it away again (`analyze/collate.rs`) |
//! | [`KeyFunction`] | the bytes that a text is ordered by |
//! | [`CaseFunction`] | `upper` and `lower` by the rules of a language |
//! | [`TextFunction`] | the text that such bytes are of |
//!
//! Nobody else knows of them: to an access path or a proof they are functions of a column as any other.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringArrayType, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::exec::bridge;
use crate::pg::collation::{Order, in_case as pg_in_case, name_of, text_of_key};
use crate::pg::types::PADDED;
use crate::pg::{memory, running};
use crate::wire::SqlError;

/// What is said of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Says {
    /// COLLATE gives it that collation.
    Explicit(u32),
    /// It has that one.
    Implicit(u32),
    /// It has that of the arguments behind it as well as its own, by the rules for functions.
    Together,
    /// It must have the default one: it is an argument of a function that was analysed so.
    Default,
}

/// A value, unchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Said {
    pub says: Says,
    signature: Signature,
}

impl Said {
    pub(crate) fn call(says: Says, args: Vec<Expr>) -> Expr {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { says, signature }).call(args)
    }

    /// What is said by a function, if it is one.
    pub(crate) fn of(function: &ScalarUDF) -> Option<Says> {
        function.inner().downcast_ref::<Self>().map(|said| said.says)
    }
}

impl ScalarUDFImpl for Said {
    fn name(&self) -> &str {
        "collate"
    }
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let Some(value) = args.first() else { return internal_err!("a collation of nothing") };
        Ok(match self.says {
            Says::Explicit(oid) => format!("{value} COLLATE \"{}\"", name_of(oid).unwrap_or_default()),
            _ => value.to_string(),
        })
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("collate({:?}, {})", self.says, args.join(", ")))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(ty) => Ok(ty.clone()),
            None => internal_err!("a collation of nothing"),
        }
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(field) => Ok(Arc::clone(field)),
            None => internal_err!("a collation of nothing"),
        }
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("a collation of nothing"),
        }
    }
}

/// See the module's head.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KeyFunction {
    locale: String,
    signature: Signature,
}

/// The key of a text by the order of a locale.
pub(crate) fn key(locale: &str, text: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(KeyFunction { locale: locale.to_owned(), signature }).call(vec![text])
}

impl ScalarUDFImpl for KeyFunction {
    fn name(&self) -> &str {
        "collation_key"
    }
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let Some(text) = args.first() else { return internal_err!("a key of nothing") };
        Ok(format!("collation_key('{}', {text})", self.locale))
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(text) = args.first() else { return internal_err!("a key of nothing") };
        Ok(format!("collation_key('{}', {})", self.locale, text.schema_name()))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_each(args, |array| {
            let order = Order::of(&self.locale)?;
            match array.data_type() {
                DataType::Utf8View => keys(&order, array.as_string_view(), false),
                DataType::Utf8 => keys(&order, array.as_string::<i32>(), false),
                // Blanks at the end of a `character` are no part of it.
                ty if *ty == PADDED => keys(&order, array.as_string::<i64>(), true),
                DataType::Null => Ok(datafusion::arrow::array::new_null_array(&DataType::BinaryView, array.len())),
                other => Err(SqlError::internal(format!("a key of {other}"))),
            }
        })
    }
}

fn keys<'a>(order: &Order, texts: impl StringArrayType<'a>, padded: bool) -> Result<ArrayRef, SqlError> {
    let mut out = BinaryViewBuilder::with_capacity(texts.len());
    let mut key = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        if row % 1024 == 0 {
            running::check()?;
        }
        let Some(text) = text else {
            out.append_null();
            continue;
        };
        key.clear();
        order.put_key(if padded { text.trim_end_matches(' ') } else { text }, &mut key);
        memory::column(1, key.len())?;
        out.append_value(&key);
    }
    Ok(Arc::new(out.finish()))
}

/// See the module's head.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextFunction {
    signature: Signature,
}

/// `upper` and `lower` by the rules of a language.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CaseFunction {
    locale: String,
    upper: bool,
    signature: Signature,
}

/// A text in the letters of one case, by the rules of a locale.
pub(crate) fn in_case(locale: &str, upper: bool, text: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(CaseFunction { locale: locale.to_owned(), upper, signature }).call(vec![text])
}

impl ScalarUDFImpl for CaseFunction {
    fn name(&self) -> &str {
        if self.upper { "upper_of_locale" } else { "lower_of_locale" }
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(text) = args.first() else { return internal_err!("a case of nothing") };
        Ok(format!("{}('{}', {})", self.name(), self.locale, text.schema_name()))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_each(args, |array| {
            let texts = cast(array, &DataType::Utf8View).map_err(|error| crate::pg::errors::from_arrow(&error))?;
            let mut out = StringViewBuilder::with_capacity(texts.len());
            for (row, text) in texts.as_string_view().iter().enumerate() {
                if row % 1024 == 0 {
                    running::check()?;
                }
                match text {
                    Some(text) => {
                        // Letters become three at most.
                        memory::column(1, text.len().saturating_mul(3))?;
                        out.append_value(pg_in_case(&self.locale, self.upper, text)?);
                    }
                    None => out.append_null(),
                }
            }
            Ok(Arc::new(out.finish()))
        })
    }
}

/// The text of a key.
pub(crate) fn text_of(key: Expr) -> Expr {
    ScalarUDF::new_from_impl(TextFunction { signature: Signature::any(1, Volatility::Immutable) }).call(vec![key])
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        "text_of_collation_key"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_each(args, |array| {
            let Some(keys) = array.as_binary_view_opt() else {
                return Err(SqlError::internal(format!("a text of {}", array.data_type())));
            };
            let mut out = StringViewBuilder::with_capacity(keys.len());
            for key in keys {
                match key.map(text_of_key) {
                    None => out.append_null(),
                    Some(Some(text)) => out.append_value(text),
                    Some(None) => return Err(SqlError::internal("a collation's key without its text")),
                }
            }
            Ok(Arc::new(out.finish()))
        })
    }
}

/// A function of one argument, of which a constant is computed once.
fn of_each(
    args: ScalarFunctionArgs,
    of: impl FnOnce(&dyn Array) -> Result<ArrayRef, SqlError>,
) -> Result<ColumnarValue> {
    match args.args.into_iter().next() {
        Some(ColumnarValue::Scalar(value)) => {
            let made = of(value.to_array()?.as_ref()).map_err(bridge::failure)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
        }
        Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(of(array.as_ref()).map_err(bridge::failure)?)),
        None => internal_err!("a function without its argument"),
    }
}
