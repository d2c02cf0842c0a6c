//! The tokens of a text.
//!
//! They are the parser's own, but for one operator: where `&>` is followed by anything but a blank, the parser's tokenizer loses
//! the next character (`a&>bb` is `a &> b` to it). So outside of what is in quotes and of comments it is given `&<` there, which it
//! reads well, and the token is put right afterwards.

use std::collections::HashSet;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

/// The tokens of a text, with their places.
///
/// # Errors
/// Those of the tokenizer: quotes and comments without an end.
pub fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let Some((other, places)) = replaced(text) else {
        return Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    };
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, &other).tokenize_with_location()?;
    for token in &mut tokens {
        if places.contains(&(token.span.start.line, token.span.start.column)) {
            match &mut token.token {
                it @ Token::AmpersandLeftAngleBracket => *it = Token::AmpersandRightAngleBracket,
                Token::CustomBinaryOperator(name) => name.replace_range(..2, "&>"),
                _ => {}
            }
        }
    }
    Ok(tokens)
}

/// The text with `&<` for each `&>`, and the lines and columns of these; `None`: there is none.
fn replaced(text: &str) -> Option<(String, HashSet<(u64, u64)>)> {
    if !text.contains("&>") {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut places) = (String::with_capacity(text.len()), HashSet::new());
    let (mut line, mut column, mut at) = (1, 1, 0);
    // What is copied up to a place.
    let mut end = 0;
    while at < chars.len() {
        if at >= end {
            end = at + opaque(&chars, at).max(1);
            let starts_operator = at == 0 || !"+-*/<>=~!@#%^&|`?".contains(chars[at - 1]);
            if end == at + 1 && starts_operator && chars[at] == '&' && chars.get(at + 1) == Some(&'>') {
                places.insert((line, column));
                out.push_str("&<");
                (column, at, end) = (column + 2, at + 2, at + 2);
                continue;
            }
        }
        out.push(chars[at]);
        (line, column) = if chars[at] == '\n' { (line + 1, 1) } else { (line, column + 1) };
        at += 1;
    }
    Some((out, places))
}

/// How many characters from here are in quotes, or in a comment.
fn opaque(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let until = |from: usize, is_end: &dyn Fn(usize) -> bool| {
        (from..rest.len()).find(|at| is_end(*at)).map_or(rest.len(), |at| at + 1)
    };
    match rest {
        ['\'' | '"', ..] => {
            let (quote, mut next) = (rest[0], 1);
            let escapes = quote == '\'' && at > 0 && matches!(chars[at - 1], 'e' | 'E');
            while next < rest.len() {
                match rest[next] {
                    '\\' if escapes => next += 2,
                    c if c == quote && rest.get(next + 1) == Some(&quote) => next += 2,
                    c if c == quote => return next + 1,
                    _ => next += 1,
                }
            }
            rest.len()
        }
        ['-', '-', ..] => until(2, &|at| rest[at] == '\n'),
        ['/', '*', ..] => {
            let (mut depth, mut next) = (1, 2);
            while next < rest.len() && depth > 0 {
                match (rest[next], rest.get(next + 1)) {
                    ('/', Some('*')) => (depth, next) = (depth + 1, next + 2),
                    ('*', Some('/')) => (depth, next) = (depth - 1, next + 2),
                    _ => next += 1,
                }
            }
            next
        }
        ['$', ..] if at == 0 || !(chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') => {
            let Some(close) = (1..rest.len()).find(|at| !(rest[*at].is_alphanumeric() || rest[*at] == '_')) else {
                return 1;
            };
            if rest[close] != '$' || rest[1].is_ascii_digit() {
                return 1;
            }
            let tag = &rest[..=close];
            let body = close + 1;
            let found = (body..rest.len()).find(|at| rest[*at..].starts_with(tag));
            found.map_or(rest.len(), |at| at + tag.len())
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let tokens = tokens(text).expect(text);
        let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        tokens.map(|token| format!("{}@{}", token.token, token.span.start.column)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn no_character_is_lost() {
        assert_eq!(shown("a&>bb &> c"), "a@1 &>@2 bb@4 &>@7 c@10");
        assert_eq!(shown("a &>'x'"), "a@1 &>@3 'x'@5");
        assert_eq!(shown("'&>x' &>\"a&>b\"&<c"), "'&>x'@1 &>@7 \"a&>b\"@9 &<@15 c@17");
        assert_eq!(shown("$$a&>b$$||$q$&>$q$"), "$$a&>b$$@1 ||@9 $q$&>$q$@11");
        assert!(shown("E'\\'&>' /* &>x /* &>y */ &> */ &>z").ends_with("&>@32 z@34"));
        assert_eq!(shown("a &>> b"), "a@1 &>>@3 b@7");
        assert_eq!(shown("$1&>$2"), "$1@1 &>@3 $2@5");
        assert_eq!(shown("a && b > c"), "a@1 &&@3 b@6 >@8 c@10");
    }
}
