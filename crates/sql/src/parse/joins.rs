//! Joins whose right side is a join without parentheses: `a JOIN b JOIN c ON … ON …`.
//!
//! The parser knows them in parentheses only. Here they get them: an ON or USING belongs to the innermost JOIN that
//! waits for one, and a JOIN that has met others by then has a join as its right side.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A JOIN that waits for its ON or USING.
struct Waiting {
    /// The place of the first token of its right side.
    first: usize,
    /// Other joins stand in its right side.
    holds_joins: bool,
}

/// The tokens with parentheses around such joins; `None` if there are none.
pub(crate) fn in_parentheses(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    // Those of each level of parentheses, outermost first.
    let mut levels: Vec<Vec<Waiting>> = vec![Vec::new()];
    // Where a parenthesis opens, and before which token one closes.
    let (mut opens, mut closes) = (Vec::new(), Vec::new());
    // The last words say what kind of a join it is.
    let mut before = [Keyword::NoKeyword; 2];
    for (at, token) in tokens.iter().enumerate() {
        let keyword = match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let level = levels.last_mut()?;
        match (&token.token, keyword) {
            (Token::LParen, _) => levels.push(Vec::new()),
            (Token::RParen, _) => {
                levels.pop();
            }
            (Token::Comma | Token::SemiColon, _) => level.clear(),
            (_, Keyword::JOIN) => {
                if let Some(outer) = level.last_mut() {
                    outer.holds_joins = true;
                }
                let is_natural = before.contains(&Keyword::NATURAL) || is_natural_outer(tokens, at);
                if !is_natural && before[1] != Keyword::CROSS {
                    level.push(Waiting { first: at + 1, holds_joins: false });
                }
            }
            (_, Keyword::ON | Keyword::USING) => {
                if let Some(join) = level.pop()
                    && join.holds_joins
                {
                    opens.push(join.first);
                    closes.push(at);
                }
            }
            (_, Keyword::WHERE | Keyword::SELECT | Keyword::UNION | Keyword::RETURNING | Keyword::SET) => level.clear(),
            _ => {}
        }
        before = [before[1], keyword];
    }
    if opens.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(tokens.len() + 2 * opens.len());
    for (at, token) in tokens.iter().enumerate() {
        let of = |token_of: Token| TokenWithSpan { token: token_of, span: token.span };
        out.extend(opens.iter().filter(|open| **open == at).map(|_| of(Token::LParen)));
        out.extend(closes.iter().filter(|close| **close == at).map(|_| of(Token::RParen)));
        out.push(token.clone());
    }
    Some(out)
}

/// `NATURAL LEFT OUTER JOIN`: the word is three before.
fn is_natural_outer(tokens: &[TokenWithSpan], join: usize) -> bool {
    let mut words = tokens[..join].iter().rev().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    matches!(words.nth(2).map(|token| &token.token), Some(Token::Word(word)) if word.keyword == Keyword::NATURAL)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
        let tokens = in_parentheses(&tokens)?;
        Some(tokens.iter().map(|token| token.token.to_string()).collect())
    }

    #[test]
    fn each_on_belongs_to_the_innermost_join() {
        for (text, expected) in [
            ("a JOIN b JOIN c ON x ON y", Some("a JOIN( b JOIN c ON x )ON y")),
            ("a LEFT JOIN b JOIN c JOIN d ON x ON y ON z", Some("a LEFT JOIN( b JOIN( c JOIN d ON x )ON y )ON z")),
            ("a JOIN b JOIN c USING (x) JOIN d ON z ON y", Some("a JOIN( b JOIN c USING (x) JOIN d ON z )ON y")),
            ("a JOIN b CROSS JOIN c ON x", Some("a JOIN( b CROSS JOIN c )ON x")),
            ("a JOIN b NATURAL LEFT OUTER JOIN c ON x", Some("a JOIN( b NATURAL LEFT OUTER JOIN c )ON x")),
            ("a JOIN b ON x JOIN c ON y", None),
            ("a JOIN (b JOIN c ON x) ON y", None),
            ("a NATURAL JOIN b JOIN c ON y", None),
            ("a CROSS JOIN b JOIN c ON y", None),
            ("a JOIN b ON x, c JOIN d ON y", None),
        ] {
            assert_eq!(rewritten(text).as_deref(), expected, "{text}");
        }
    }
}
