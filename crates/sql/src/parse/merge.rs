//! Clauses of MERGE that the parser does not know, in words that it knows.
//!
//! | written | read as |
//! |---|---|
//! | `WHEN MATCHED … THEN DO NOTHING` | `WHEN MATCHED … THEN UPDATE SET resurgam$nothing = NULL` |
//! | `WHEN NOT MATCHED … THEN DO NOTHING` | `WHEN NOT MATCHED … THEN INSERT (resurgam$nothing) VALUES (NULL)` |
//! | `… THEN INSERT DEFAULT VALUES` | `… THEN INSERT (resurgam$default_values) VALUES (NULL)` |
//! | `MERGE INTO ONLY t` | `MERGE INTO t`: no table has others below it |
//! | `USING a JOIN b ON … ON …` | `USING (a JOIN b ON …) ON …` |
//!
//! OVERRIDING is read as in INSERT ([`identity`](super::identity)).

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// The column that stands for DO NOTHING.
pub(crate) const NOTHING: &str = "resurgam$nothing";
/// The column that stands for DEFAULT VALUES.
pub(crate) const DEFAULT_VALUES: &str = "resurgam$default_values";

fn is(tokens: &[TokenWithSpan], at: usize, words: &[&str]) -> bool {
    let word = |(nth, word): (usize, &&str)| tokens.get(at + nth).is_some_and(|token| is_word(&token.token, word));
    words.iter().enumerate().all(word)
}

/// Where clauses of MERGE begin: behind its INTO, and in no CASE, whose WHEN may ask a column of that name.
#[derive(Default)]
pub(crate) struct Clauses {
    merging: bool,
    cases: usize,
}

impl Clauses {
    /// Whether one begins at that token, and whether it is for rows that match. To be asked of each token, in their order.
    pub(crate) fn begins(&mut self, tokens: &[TokenWithSpan], at: usize) -> Option<bool> {
        if tokens.get(at).is_some_and(|token| token.token == Token::SemiColon) {
            *self = Self::default();
        } else if is(tokens, at, &["merge", "into"]) {
            *self = Self { merging: true, cases: 0 };
        } else if is(tokens, at, &["case"]) {
            self.cases += 1;
        } else if is(tokens, at, &["end"]) {
            self.cases = self.cases.saturating_sub(1);
        } else if self.merging && self.cases == 0 {
            let is_matched = is(tokens, at, &["when", "matched"]);
            return (is_matched || is(tokens, at, &["when", "not", "matched"])).then_some(is_matched);
        }
        None
    }
}

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    if !has("merge") || !has("matched") {
        return tokens;
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 16);
    // Whether the last WHEN of a MERGE was MATCHED.
    let (mut clauses, mut matched) = (Clauses::default(), None);
    let (mut open, mut close) = (None, None);
    let mut at = 0;
    while at < tokens.len() {
        let span = tokens[at].span;
        let of = |token| TokenWithSpan { token, span };
        let word = |text: &str| of(Token::make_word(text, None));
        let stand_in = |column: &str| [of(Token::LParen), word(column), of(Token::RParen)];
        let no_value = || [word("VALUES"), of(Token::LParen), word("NULL"), of(Token::RParen)];
        if close == Some(at) {
            out.push(of(Token::RParen));
        }
        if open == Some(at) {
            out.push(of(Token::LParen));
        }
        let begins = clauses.begins(&tokens, at);
        if tokens[at].token == Token::SemiColon {
            (matched, open, close) = (None, None, None);
        } else if is(&tokens, at, &["merge", "into"]) {
            (open, close) = joined_source(&tokens, at + 2).unzip();
            out.extend_from_slice(&tokens[at..at + 2]);
            at += 2;
            if is(&tokens, at, &["only"]) {
                at += 1;
                let is_name = matches!(tokens.get(at + 1).map(|token| &token.token), Some(Token::Word(_)));
                let is_closed = tokens.get(at + 2).is_some_and(|token| token.token == Token::RParen);
                if tokens.get(at).is_some_and(|token| token.token == Token::LParen) && is_name && is_closed {
                    out.push(tokens[at + 1].clone());
                    at += 3;
                }
            }
            continue;
        } else if begins.is_some() {
            matched = begins;
        } else if let Some(matched) = matched.filter(|_| is(&tokens, at, &["then", "do", "nothing"])) {
            out.push(tokens[at].clone());
            if matched {
                out.extend([word("UPDATE"), word("SET"), word(NOTHING), of(Token::Eq), word("NULL")]);
            } else {
                out.push(word("INSERT"));
                out.extend(stand_in(NOTHING));
                out.extend(no_value());
            }
            at += 3;
            continue;
        } else if matched.is_some() && is(&tokens, at, &["then", "insert", "default", "values"]) {
            out.extend_from_slice(&tokens[at..at + 2]);
            out.extend(stand_in(DEFAULT_VALUES));
            out.extend(no_value());
            at += 4;
            continue;
        }
        out.push(tokens[at].clone());
        at += 1;
    }
    out
}

/// Where the source of a MERGE begins and ends, if it is a join without parentheses.
fn joined_source(tokens: &[TokenWithSpan], from: usize) -> Option<(usize, usize)> {
    let (mut depth, mut first, mut end, mut has_join) = (0usize, None, None, false);
    let mut clauses = Clauses { merging: true, cases: 0 };
    for at in from..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            Token::SemiColon | Token::EOF => break,
            _ if depth > 0 => {}
            _ if clauses.begins(tokens, at).is_some() => break,
            _ if first.is_none() && is(tokens, at, &["using"]) => first = Some(at + 1),
            _ if is(tokens, at, &["join"]) && end.is_none() => has_join = true,
            _ if is(tokens, at, &["on"]) => end = Some(at),
            _ => {}
        }
    }
    Some((first?, end?)).filter(|_| has_join)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn clauses_are_put_into_words_that_are_known() {
        for (text, wanted) in [
            (
                "MERGE INTO ONLY t USING s ON t.a = s.a WHEN MATCHED AND x THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING",
                "MERGE INTO t USING s ON t . a = s . a WHEN MATCHED AND x THEN UPDATE SET resurgam$nothing = NULL \
                 WHEN NOT MATCHED THEN INSERT ( resurgam$nothing ) VALUES ( NULL )",
            ),
            (
                "MERGE INTO ONLY (t) AS u USING s ON true WHEN NOT MATCHED THEN INSERT DEFAULT VALUES; THEN DO NOTHING",
                "MERGE INTO t AS u USING s ON true WHEN NOT MATCHED THEN INSERT ( resurgam$default_values ) \
                 VALUES ( NULL ) ; THEN DO NOTHING",
            ),
            (
                "MERGE INTO t USING a JOIN b ON a.x = b.x ON t.x = a.x WHEN MATCHED THEN DELETE",
                "MERGE INTO t USING ( a JOIN b ON a . x = b . x ) ON t . x = a . x WHEN MATCHED THEN DELETE",
            ),
            ("SELECT merge, matched", "SELECT merge , matched"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let tokens = known(tokens);
            let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            let shown: Vec<String> = tokens.map(|token| token.token.to_string()).collect();
            assert_eq!(shown.join(" "), wanted);
        }
    }
}
