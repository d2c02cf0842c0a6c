//! Patterns of LIKE that end with their escape character.
//!
//! PostgreSQL refuses such a pattern when a comparison comes to its end and there is text left (`like_match.c`); before
//! that it does not match, like any other. The query engine takes the character for itself.
//!
//! `pg_like_pattern(pattern, text)` stands in place of a pattern: it is the pattern, once it was looked whether the
//! comparison with the text is an error. `pg_like_pattern_ci` is that of ILIKE. Patterns that are known when the statement
//! is planned, and do not end so, stand for themselves.

use std::hash::{Hash, Hasher};

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::letters::lower;
use crate::errors::to_datafusion;
use crate::running;
use crate::wire::SqlError;

/// Names of the functions; the second one is that of ILIKE.
const NAMES: [&str; 2] = ["pg_like_pattern", "pg_like_pattern_ci"];

/// The name of the function that stands in place of a pattern.
pub fn like_pattern_name(insensitive: bool) -> &'static str {
    NAMES[usize::from(insensitive)]
}

/// The pattern for which `expr` stands.
pub fn like_pattern(expr: &Expr) -> &Expr {
    match expr {
        Expr::ScalarFunction(call) if NAMES.contains(&call.name()) => call.args.first().unwrap_or(expr),
        _ => expr,
    }
}

/// Whether a pattern ends with an escape character that escapes nothing.
pub fn ends_with_escape(pattern: &str) -> bool {
    pattern.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Compares a text with a pattern as PostgreSQL does, as far as to find the error. Only the last `%` that was met is
/// gone back to: what is before it has found its place.
fn compare(text: &str, pattern: &str) -> Result<bool, SqlError> {
    let wrong = || SqlError::new("22025", "LIKE pattern must not end with escape character");
    let first = |at: &str| at.chars().next().map_or(0, char::len_utf8);
    let (mut text, mut pattern) = (text, pattern);
    // What is behind that `%`, and the text from where it was tried last.
    let mut again: Option<(&str, &str)> = None;
    loop {
        let mut next = pattern.chars();
        let differs = match (text.chars().next(), next.next()) {
            (None, _) => return Ok(pattern.bytes().all(|byte| byte == b'%')),
            (Some(_), None) => true,
            (Some(_), Some('%')) => {
                pattern = next.as_str();
                loop {
                    match pattern.as_bytes().first() {
                        None => return Ok(true),
                        Some(b'%') => {}
                        Some(b'_') if text.is_empty() => return Ok(false),
                        Some(b'_') => text = &text[first(text)..],
                        Some(_) => break,
                    }
                    pattern = &pattern[1..];
                }
                if pattern == "\\" {
                    return Err(wrong());
                }
                again = Some((pattern, text));
                continue;
            }
            (Some(_), Some('_')) => false,
            (Some(c), Some('\\')) => {
                pattern = next.as_str();
                c != pattern.chars().next().ok_or_else(wrong)?
            }
            (Some(c), Some(wanted)) => c != wanted,
        };
        match &mut again {
            _ if !differs => {
                text = &text[first(text)..];
                pattern = &pattern[first(pattern)..];
            }
            Some((behind, from)) => {
                running::check()?;
                *from = &from[first(from)..];
                (text, pattern) = (*from, *behind);
            }
            None => return Ok(false),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct LikePattern {
    insensitive: bool,
    signature: Signature,
}

impl Hash for LikePattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.insensitive.hash(state);
    }
}

impl LikePattern {
    /// # Errors
    /// 22025, and those of a statement that has to stop.
    fn check(&self, text: &str, pattern: &str) -> Result<(), SqlError> {
        running::check()?;
        match self.insensitive {
            false => compare(text, pattern),
            true => {
                let small = |text: &str| text.chars().map(lower).collect::<String>();
                compare(&small(text), &small(pattern))
            }
        }
        .map(|_| ())
    }
}

/// A constant text.
fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

impl ScalarUDFImpl for LikePattern {
    fn name(&self) -> &str {
        like_pattern_name(self.insensitive)
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        match types {
            [_, _] => Ok(vec![DataType::Utf8View; 2]),
            _ => Err(to_datafusion(SqlError::internal("a pattern without a text"))),
        }
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        let stands = match args.first() {
            Some(Expr::Literal(value, _)) => !text_of(value).is_some_and(ends_with_escape),
            _ => false,
        };
        match (stands, args.first()) {
            (true, Some(pattern)) => Ok(ExprSimplifyResult::Simplified(pattern.clone())),
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let mut given = args.args.into_iter();
        let (Some(pattern), Some(text)) = (given.next(), given.next()) else {
            return Err(to_datafusion(SqlError::internal("a pattern without a text")));
        };
        // Nearly all: nothing is looked at.
        match &pattern {
            ColumnarValue::Scalar(value) if !text_of(value).is_some_and(ends_with_escape) => return Ok(pattern),
            ColumnarValue::Array(array) => {
                let patterns = array.as_string_view();
                if !patterns.iter().flatten().any(ends_with_escape) {
                    return Ok(pattern);
                }
            }
            ColumnarValue::Scalar(_) => {}
        }
        let texts = text.to_array(rows)?;
        let texts = texts.as_string_view();
        match &pattern {
            ColumnarValue::Scalar(value) => {
                for (text, pattern) in texts.iter().flatten().zip(std::iter::repeat(text_of(value).unwrap_or_default()))
                {
                    self.check(text, pattern).map_err(to_datafusion)?;
                }
            }
            ColumnarValue::Array(array) => {
                for (text, pattern) in texts.iter().zip(array.as_string_view()) {
                    if let (Some(text), Some(pattern)) = (text, pattern)
                        && ends_with_escape(pattern)
                    {
                        self.check(text, pattern).map_err(to_datafusion)?;
                    }
                }
            }
        }
        Ok(pattern)
    }
}

/// The functions.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [false, true].map(|insensitive| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(LikePattern { insensitive, signature })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_at_ends() {
        for (pattern, ends) in
            [("", false), ("a", false), ("\\", true), ("a\\\\", false), ("\\\\\\", true), ("\\a", false)]
        {
            assert_eq!(ends_with_escape(pattern), ends, "{pattern}");
        }
    }

    /// As PostgreSQL answers them; `None` is 22025.
    #[test]
    fn comparisons() {
        for (text, pattern, is) in [
            ("x\\", "x\\", None),
            ("x", "x\\", Some(false)),
            ("xy", "x\\", None),
            ("xy", "z\\", Some(false)),
            ("", "\\", Some(false)),
            ("a", "\\", None),
            ("", "%\\", Some(false)),
            ("a", "a%\\", Some(false)),
            ("ab", "a%\\", None),
            ("ab", "a_\\", Some(false)),
            ("abc", "a_\\", None),
            ("a\\b", "a\\\\\\", None),
            ("a\\", "a\\\\\\", Some(false)),
            ("a\\", "a\\\\", Some(true)),
            ("abc", "b%\\", Some(false)),
            ("abc", "%b\\", None),
            ("abc", "%c\\", Some(false)),
            ("abc", "%___\\", None),
            ("abc", "%____\\", Some(false)),
            ("äöü", "_ö%", Some(true)),
            ("aab", "%ab", Some(true)),
            ("abab", "%ab", Some(true)),
            ("abac", "a%b%c", Some(true)),
            ("abac", "a%b%d", Some(false)),
            ("a%", "a\\%", Some(true)),
            ("", "", Some(true)),
            ("", "%%", Some(true)),
            ("a", "", Some(false)),
        ] {
            assert_eq!(compare(text, pattern).ok(), is, "{text} LIKE {pattern}");
        }
    }

    /// Many wildcards take no stack, and no more time than the lengths' product.
    #[test]
    fn long_patterns() {
        let (text, pattern) = ("a".repeat(2000), format!("{}b\\", "%a".repeat(1000)));
        assert_eq!(compare(&text, &pattern).ok(), Some(false));
    }
}
