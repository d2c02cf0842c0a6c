//! `bpchar 'x'`: constants with a type before them, of types that the parser has no word for.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Types that are no words of SQL. Others (`date '…'`) the parser knows.
const TYPES: [&str; 8] = ["bpchar", "name", "oid", "regclass", "regtype", "regproc", "regnamespace", "regrole"];

/// The tokens with `CAST ('x' AS bpchar)` in place of such constants; each has the place of what it is for.
pub(crate) fn as_casts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_type = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && TYPES.iter().any(|ty| word.value.eq_ignore_ascii_case(ty)))
    };
    if !tokens.iter().any(is_type) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        if !is_type(&token) {
            out.push(token);
            continue;
        }
        let mut between = Vec::new();
        while let Some(blank) = rest.next_if(|next| matches!(next.token, Token::Whitespace(_))) {
            between.push(blank);
        }
        match rest.next_if(|next| matches!(next.token, Token::SingleQuotedString(_))) {
            Some(text) => {
                let at = |token: Token, span| TokenWithSpan { token, span };
                let word = |text: &str| Token::make_word(text, None);
                let blank = || Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
                let (first, last) = (token.span, text.span);
                out.extend([at(word("CAST"), first), at(Token::LParen, first), text]);
                out.extend([
                    at(blank(), last),
                    at(word("AS"), last),
                    at(blank(), last),
                    token,
                    at(Token::RParen, last),
                ]);
            }
            None => {
                out.push(token);
                out.append(&mut between);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn constants_become_casts() {
        for (text, wanted) in [
            ("SELECT bpchar 'x', a", "SELECT CAST('x' AS bpchar), a"),
            ("a IN ((oid\n'1'))", "a IN ((CAST('1' AS oid)))"),
            ("SELECT name, date '2020-01-01'", "SELECT name, date '2020-01-01'"),
            ("SELECT oid AS name FROM t", "SELECT oid AS name FROM t"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: String = as_casts(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
