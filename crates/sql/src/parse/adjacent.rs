//! String constants that go on in the next line: `'a'`, a line's end, `'b'` is `'ab'`, as SQL has it.
//!
//! Between the parts are blanks with at least one line's end, and comments to the ends of lines; on one line, or around
//! another comment, it is a syntax error, which is the parser's to tell. Parts behind `E'…'` are read by its
//! rules in PostgreSQL: those with a backslash are left to the parser as well, which refuses them.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with such constants in one.
pub(crate) fn joined(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().zip(tokens.iter().skip(1)).any(|(a, b)| is_string(&a.token) && is_blank(&b.token)) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        if let Token::SingleQuotedString(part) = &token.token {
            // Back over what lies between, to the constant that goes on here.
            let blanks = out.iter().rev().take_while(|before| is_blank(&before.token)).count();
            let between = out.len() - blanks;
            let ends = out[between..].iter().any(|blank| ends_line(&blank.token));
            if let Some(first) = between.checked_sub(1).and_then(|at| out.get_mut(at))
                && ends
                && goes_on(&mut first.token, part)
            {
                first.span.end = token.span.end;
                // Moved, not copied: a text of many parts is joined in one pass.
                out.truncate(between);
                token = out.pop().unwrap_or(token);
            }
        }
        out.push(token);
    }
    out
}

/// Adds the next part, if the token is a constant that it can be added to.
fn goes_on(token: &mut Token, part: &str) -> bool {
    match token {
        Token::SingleQuotedString(text) | Token::NationalStringLiteral(text) => text.push_str(part),
        Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) if !part.contains('\\') => {
            text.push_str(part);
        }
        Token::HexStringLiteral(text) | Token::SingleQuotedByteStringLiteral(text) => text.push_str(part),
        _ => return false,
    }
    true
}

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(blank) if !matches!(blank, Whitespace::MultiLineComment(_)))
}

fn ends_line(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn lines_go_on() {
        for (text, wanted) in [
            ("SELECT 'a'\n'b' , 'c'", "SELECT 'ab' , 'c'"),
            ("'a' \n\t -- x\n  'b'\n'c'", "'abc'"),
            ("'a' 'b'", "'a' 'b'"),
            ("'a' /* x\n */ 'b'", "'a' /* x\n */ 'b'"),
            ("E'a'\n'b'", "E'ab'"),
            ("'a'\n, 'b'", "'a'\n, 'b'"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: String = joined(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
