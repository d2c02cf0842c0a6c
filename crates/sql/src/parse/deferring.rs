//! Attributes of a constraint behind `NOT VALID`, where the parser wants it last: `NOT VALID DEFERRABLE INITIALLY DEFERRED` is
//! read as `DEFERRABLE INITIALLY DEFERRED NOT VALID`. And GROUP BY ALL and DISTINCT before what has no grouping sets, of which
//! neither says anything.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// See the module's head.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at].token, "valid")
            && let Some(not) = before(&tokens, at).filter(|not| is_word(&tokens[*not].token, "not"))
            && let Some(end) = attributes(&tokens, at + 1)
        {
            tokens[not..end].rotate_left(at + 1 - not);
            at = end;
        } else if is_word(&tokens[at].token, "by")
            && before(&tokens, at).is_some_and(|at| is_word(&tokens[at].token, "group"))
            && let Some(word) = next(&tokens, at + 1)
            && (is_word(&tokens[word].token, "all") && goes_on(&tokens, word + 1)
                || is_word(&tokens[word].token, "distinct") && !has_sets(&tokens[word..]))
        {
            tokens.remove(word);
        }
        at += 1;
    }
    tokens
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Position of the next token that is no blank, from `at` on.
fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !is_blank(&tokens[*at]))
}

/// Position of the last token before `at` that is no blank.
fn before(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (0..at).rev().find(|at| !is_blank(&tokens[*at]))
}

/// Where attributes of a constraint end that begin at `at`; `None`: none do.
fn attributes(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut end = None;
    let mut at = at;
    loop {
        let Some(first) = next(tokens, at) else { return end };
        let is = |at: usize, word: &str| is_word(&tokens[at].token, word);
        let second = next(tokens, first + 1);
        let last = match second {
            _ if is(first, "deferrable") => first,
            Some(second) if is(first, "not") && is(second, "deferrable") => second,
            Some(second) if is(first, "initially") && (is(second, "deferred") || is(second, "immediate")) => second,
            _ => return end,
        };
        (end, at) = (Some(last + 1), last + 1);
    }
}

/// Whether what is grouped by follows.
fn goes_on(tokens: &[TokenWithSpan], at: usize) -> bool {
    const ENDS: [&str; 11] =
        ["having", "order", "limit", "offset", "fetch", "for", "window", "union", "intersect", "except", "into"];
    next(tokens, at).is_some_and(|at| match &tokens[at].token {
        Token::EOF | Token::SemiColon | Token::RParen | Token::Comma => false,
        token => !ENDS.iter().any(|word| is_word(token, word)),
    })
}

/// Whether a part of a text may have grouping sets.
fn has_sets(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| ["rollup", "cube", "grouping"].iter().any(|word| is_word(&token.token, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let tokens = known(crate::pg::lexer::tokens(text).expect(text));
        let tokens = tokens.iter().filter(|token| !is_blank(token) && token.token != Token::EOF);
        tokens.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn attributes_come_first() {
        for (text, wanted) in [
            ("REFERENCES z NOT VALID DEFERRABLE", "REFERENCES z DEFERRABLE NOT VALID"),
            (
                "REFERENCES z NOT VALID NOT DEFERRABLE INITIALLY IMMEDIATE, x",
                "REFERENCES z NOT DEFERRABLE INITIALLY IMMEDIATE NOT VALID , x",
            ),
            ("CHECK (a) NOT VALID; NOT deferrable", "CHECK ( a ) NOT VALID ; NOT deferrable"),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn words_that_say_nothing_go() {
        for (text, wanted) in [
            ("GROUP BY DISTINCT a, b", "GROUP BY a , b"),
            ("GROUP BY DISTINCT ROLLUP (a)", "GROUP BY DISTINCT ROLLUP ( a )"),
            ("GROUP BY ALL a", "GROUP BY a"),
            ("GROUP BY ALL", "GROUP BY ALL"),
            ("GROUP BY ALL ORDER BY 1", "GROUP BY ALL ORDER BY 1"),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }
}
