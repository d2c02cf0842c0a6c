//! Constants.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Value;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Type};
use super::{Analyzer, Result, unknown};
use crate::pg::types::{TEXT, oid};
use crate::wire::SqlError;

/// A number with the digits that are written, with an exponent or without; `None` if that is not all
/// that the text is, or if it has more than 38 digits.
pub(super) fn decimal(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if scale < 0 {
        if scale < -38 {
            return None;
        }
        digits.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        scale = 0;
    }
    let significant = digits.trim_start_matches('0').len();
    let precision = significant.max(scale as usize).max(1);
    if precision > 38 {
        return None;
    }
    let value: i128 = if significant == 0 { 0 } else { digits.trim_start_matches('0').parse().ok()? };
    let value = if mantissa.starts_with('-') { -value } else { value };
    Some(ScalarValue::Decimal128(Some(value), precision as u8, scale as i8))
}

impl Analyzer<'_> {
    /// A literal. `negative`: there is a minus before it.
    pub(super) fn literal(&mut self, value: &Value, span: Span, negative: bool) -> Result<Bound> {
        Ok(match value {
            Value::Number(text, _) => {
                let signed = if negative { format!("-{text}") } else { text.clone() };
                if let Ok(v) = signed.parse::<i32>() {
                    Bound::literal(ScalarValue::Int32(Some(v)), Type::INT4)
                } else if let Ok(v) = signed.parse::<i64>() {
                    Bound::literal(ScalarValue::Int64(Some(v)), Type::INT8)
                } else {
                    match decimal(&signed) {
                        Some(value) => Bound::literal(value, Type::of(oid::NUMERIC)),
                        None => {
                            let text = self.text_constant(&signed).at(span);
                            self.read(text, Type::of(oid::NUMERIC))?
                        }
                    }
                }
            }
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => self.text_literal(text)?,
            Value::DollarQuotedString(text) => self.text_literal(&text.value)?,
            Value::SingleQuotedByteStringLiteral(text) => self.bits_literal('b', text, span)?,
            Value::HexStringLiteral(text) => self.bits_literal('x', text, span)?,
            Value::Boolean(value) => Bound::literal(ScalarValue::Boolean(Some(*value)), Type::BOOL),
            Value::Null => {
                Bound::with_data(datafusion::logical_expr::lit(ScalarValue::Utf8View(None)), Type::UNKNOWN, TEXT)
                    .at(span)
            }
            Value::Placeholder(id) => match self.numbered_param(id)? {
                Some(param) => param,
                None => self.parameter(id)?,
            },
            _ => return unknown("this kind of literal"),
        }
        .at(span))
    }

    /// `B'101'`, `X'1F'`
    fn bits_literal(&mut self, base: char, digits: &str, span: Span) -> Result<Bound> {
        let text = self.text_literal(&format!("{base}{digits}"))?.at(span);
        self.read(text, Type::of(oid::BIT))
    }

    fn text_literal(&self, text: &str) -> Result<Bound> {
        if text.contains('\0') {
            return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00").into());
        }
        Ok(Bound::literal(ScalarValue::Utf8View(Some(text.to_owned())), Type::UNKNOWN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_kept() {
        for (text, value, precision, scale) in [
            ("1.50", 150, 3, 2),
            ("-12.5", -125, 3, 1),
            ("0.001", 1, 3, 3),
            ("1e5", 100_000, 6, 0),
            ("1.5e-3", 15, 4, 4),
            (".5", 5, 1, 1),
            ("99999999999999999999", 99_999_999_999_999_999_999, 20, 0),
        ] {
            assert_eq!(decimal(text), Some(ScalarValue::Decimal128(Some(value), precision, scale)), "{text}");
        }
        for text in ["", "x", "1.2.3", "--1", "1e", "1e99", "123456789012345678901234567890123456789"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
