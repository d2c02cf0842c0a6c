//! `bpchar 'x'`, `mood 'sad'`, `interval(2) '…'`: constants with a type before them that the parser has no word for, or of which
//! it drops the digits.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Types that are no words of SQL. Others (`date '…'`) the parser knows.
const TYPES: [&str; 8] = ["bpchar", "name", "oid", "regclass", "regtype", "regproc", "regnamespace", "regrole"];

/// The tokens with `CAST ('x' AS bpchar)` in place of such constants; each has the place of what it is for.
pub(crate) fn as_casts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = intervals_as_casts(tokens);
    // A name that is no word of SQL can be that of a type of users.
    let is_type = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word) if word.keyword == Keyword::NoKeyword
            || word.quote_style.is_none() && TYPES.iter().any(|ty| word.value.eq_ignore_ascii_case(ty)))
    };
    let mut before = None;
    let has_any = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).any(|token| {
        let is_text = matches!(token.token, Token::SingleQuotedString(_));
        before.replace(token).is_some_and(|before| is_text && is_type(before))
    });
    if !has_any {
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

/// `CAST ('…' AS interval(2))` in place of `interval(2) '…'`.
fn intervals_as_casts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_interval = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("interval"))
    };
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(is_interval) {
        let first = at + found;
        at = first + 1;
        // Places of what is not blank, from the word on.
        let mut dense = (first..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_)));
        let places: [Option<usize>; 5] = std::array::from_fn(|_| dense.next());
        let [Some(_), Some(open), Some(digits), Some(close), Some(text)] = places else { continue };
        let shape = (&tokens[open].token, &tokens[digits].token, &tokens[close].token, &tokens[text].token);
        if !matches!(shape, (Token::LParen, Token::Number(..), Token::RParen, Token::SingleQuotedString(_))) {
            continue;
        }
        let word = |text: &str| Token::make_word(text, None);
        let blank = || Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
        let (span, last) = (tokens[first].span, tokens[text].span);
        let of = |token: Token, span| TokenWithSpan { token, span };
        let mut cast = vec![of(word("CAST"), span), of(Token::LParen, span), tokens[text].clone()];
        cast.extend([of(blank(), last), of(word("AS"), last), of(blank(), last)]);
        cast.extend([first, open, digits, close].map(|i| tokens[i].clone()));
        cast.push(of(Token::RParen, last));
        at = first + cast.len();
        tokens.splice(first..=text, cast);
    }
    tokens
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
            (
                "SELECT interval(0) '1.6', Interval ( 2 )\n'1 s'",
                "SELECT CAST('1.6' AS interval(0)), CAST('1 s' AS Interval(2))",
            ),
            ("SELECT interval '1 s', interval(3)", "SELECT interval '1 s', interval(3)"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: String = as_casts(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
