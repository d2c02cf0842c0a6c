//! COMMENT ON CONSTRAINT and POLICY, which the parser does not know, as one on a column.
//!
//! | written | read as |
//! |---|---|
//! | `COMMENT ON CONSTRAINT c ON s.t IS 'x'` | `COMMENT ON COLUMN resurgam$constraint.s.t.c IS 'x'` |
//! | `COMMENT ON POLICY p ON s.t IS 'x'` | `COMMENT ON COLUMN resurgam$policy.s.t.p IS 'x'` |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// The first part of the name that stands for a constraint's.
pub(crate) const CONSTRAINT: &str = "resurgam$constraint";
/// The same of a policy's.
pub(crate) const POLICY: &str = "resurgam$policy";

/// What comments are on that has a name by its table, and the first part of the name that stands for it.
const OF_TABLES: [(&str, &str); 2] = [("constraint", CONSTRAINT), ("policy", POLICY)];

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, word))
}

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    if !has("comment") || !OF_TABLES.iter().any(|(word, _)| has(word)) {
        return tokens;
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 4);
    let mut at = 0;
    while at < tokens.len() {
        let begins = at == 0 || tokens[at - 1].token == Token::SemiColon;
        let is_one = begins && is(&tokens, at, "comment") && is(&tokens, at + 1, "on") && is(&tokens, at + 4, "on");
        let kind = OF_TABLES.iter().find(|(word, _)| is_one && is(&tokens, at + 2, word));
        // The table's name, as far as the word behind it.
        let end = tokens[at..].iter().position(|token| is_word(&token.token, "is")).map(|end| at + end);
        match kind.zip(end.filter(|end| *end > at + 5)) {
            Some(((_, first), end)) => {
                let span = tokens[at + 2].span;
                let of = |token| TokenWithSpan { token, span };
                let word = |text: &str| of(Token::make_word(text, None));
                out.extend_from_slice(&tokens[at..at + 2]);
                out.extend([word("COLUMN"), word(first), of(Token::Period)]);
                out.extend_from_slice(&tokens[at + 5..end]);
                out.extend([of(Token::Period), tokens[at + 3].clone()]);
                at = end;
            }
            None => {
                out.push(tokens[at].clone());
                at += 1;
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
    fn parts_of_tables_are_named_as_columns() {
        for (text, wanted) in [
            (
                "x; COMMENT ON CONSTRAINT \"C\" ON s.t IS 'on t is'; COMMENT ON TABLE t IS NULL",
                "x ; COMMENT ON COLUMN resurgam$constraint . s . t . \"C\" IS 'on t is' ; COMMENT ON TABLE t IS NULL",
            ),
            ("COMMENT ON POLICY p ON t IS NULL", "COMMENT ON COLUMN resurgam$policy . t . p IS NULL"),
            ("COMMENT ON COLUMN t.constraint IS 'x'", "COMMENT ON COLUMN t . constraint IS 'x'"),
            ("COMMENT ON CONSTRAINT c ON IS 'x'", "COMMENT ON CONSTRAINT c ON IS 'x'"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let tokens = known(tokens);
            let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            let shown: Vec<String> = tokens.map(|token| token.token.to_string()).collect();
            assert_eq!(shown.join(" "), wanted);
        }
    }
}
