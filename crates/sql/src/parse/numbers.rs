//! What the parser reads otherwise than PostgreSQL: numbers with letters behind them, `123abc`, which are mistakes there
//! and a number and a name here.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::pg::errors;
use crate::wire::SqlError;

/// Refuses such numbers.
///
/// # Errors
/// 42601.
pub(crate) fn refuse_junk(tokens: &[TokenWithSpan], text: &str) -> Result<(), SqlError> {
    for (at, token) in tokens.iter().enumerate() {
        let start = token.span.start;
        let next = tokens.get(at + 1).filter(|next| next.span.start == token.span.end);
        let junk = match (&token.token, next.map(|next| &next.token)) {
            (Token::Number(digits, true), _) => format!("{digits}L"),
            (Token::Number(digits, _), _) if digits.contains('_') => digits.clone(),
            (Token::Number(digits, _), Some(Token::Word(word))) if word.quote_style.is_none() => {
                format!("{digits}{}", word.value)
            }
            // Not X'…', which is written with a quote.
            (Token::HexStringLiteral(digits), _) if is_zero(text, start.line, start.column) => format!("0x{digits}"),
            _ => continue,
        };
        let mut error = SqlError::new("42601", format!("trailing junk after numeric literal at or near \"{junk}\""));
        error.position = errors::character_position(text, start.line, start.column);
        return Err(error);
    }
    Ok(())
}

/// Whether there is a zero at that place.
fn is_zero(text: &str, line: u64, column: u64) -> bool {
    let line = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
    line.chars().nth(column.saturating_sub(1) as usize) == Some('0')
}

#[cfg(test)]
mod tests {
    use crate::parse::read;

    #[test]
    fn letters_behind_numbers() {
        for text in ["select 123abc", "select 0x1F", "select 1_000", "select 0.5e", "select 1.a", "select 1as x"] {
            let error = read::parse(text).expect_err(text);
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", Some(8)), "{text}");
        }
        for text in ["select 1 as x", "select 1e5", "select x'1f'", "select '0x1'", "select a1, b_2 from t1"] {
            assert!(read::parse(text).is_ok(), "{text}");
        }
    }
}
