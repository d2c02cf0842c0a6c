//! Grouping sets within each other, which the parser does not know.
//!
//! | written | read as |
//! |---|---|
//! | `GROUPING SETS (a, GROUPING SETS (b, ()))` | `GROUPING SETS (a, b, ())` |
//! | `GROUPING SETS (a, ROLLUP (b, (c, d)))` | `GROUPING SETS (a, (b, c, d), (b), ())` |
//! | `GROUPING SETS (CUBE (a, b))` | `GROUPING SETS ((a, b), (a), (b), ())` |
//! | `GROUPING SETS ((a, (b, c)))` | `GROUPING SETS ((a, b, c))` |
//!
//! So PostgreSQL has them as well (`expand_grouping_sets`): what is within is merged with what is around.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// Most elements of a CUBE, in PostgreSQL too.
const CUBE_MAX: usize = 12;

/// Most sets that lists within lists become; the analysis refuses as many.
const SETS_MAX: usize = 4096;

/// Levels of lists within lists.
const LEVELS_MAX: usize = 64;

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "grouping")) {
        return tokens;
    }
    let mut tokens = tokens;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut at = 0;
    while at < tokens.len() {
        if let Some((inner, behind)) = call(&tokens[at..], &["grouping", "sets"]) {
            let (begin, end) = (at + behind - inner.len() - 1, at + behind - 1);
            let mut sets = Vec::new();
            let mut changed = false;
            if flatten(inner, &mut sets, &mut changed, 0).is_some() && changed {
                let list = joined(sets, &tokens[begin - 1]);
                let length = list.len();
                tokens.splice(begin..end, list);
                at = begin + length;
                continue;
            }
        }
        at += 1;
    }
    tokens
}

/// What is in the parentheses behind these words, if `tokens` begin so, and where what follows begins.
fn call<'a>(tokens: &'a [TokenWithSpan], words: &[&str]) -> Option<(&'a [TokenWithSpan], usize)> {
    let begins = words.iter().enumerate().all(|(at, word)| tokens.get(at).is_some_and(|t| is_word(&t.token, word)));
    if !begins || tokens.get(words.len())?.token != Token::LParen {
        return None;
    }
    let inner = enclosed(&tokens[words.len()..])?;
    Some((inner, words.len() + inner.len() + 2))
}

/// What is between the parenthesis that `tokens` begin with and the one that closes it.
fn enclosed(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let mut open = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open += 1,
            Token::RParen => open = open.checked_sub(1)?,
            _ => {}
        }
        if open == 0 {
            return if at == 0 { None } else { Some(&tokens[1..at]) };
        }
    }
    None
}

/// The elements of a list; none of an empty one.
fn elements(list: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    if list.is_empty() {
        return Vec::new();
    }
    let (mut out, mut open, mut from) = (Vec::new(), 0usize, 0);
    for (at, token) in list.iter().enumerate() {
        match token.token {
            Token::LParen | Token::LBracket => open += 1,
            Token::RParen | Token::RBracket => open = open.saturating_sub(1),
            Token::Comma if open == 0 => {
                out.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(&list[from..]);
    out
}

/// What is in the parentheses that are all of an element.
fn whole(element: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    if element.first()?.token != Token::LParen {
        return None;
    }
    enclosed(element).filter(|inner| inner.len() + 2 == element.len())
}

/// The columns of a set: rows within it are their columns.
fn columns(
    element: &[TokenWithSpan],
    out: &mut Vec<Vec<TokenWithSpan>>,
    changed: &mut bool,
    level: usize,
) -> Option<()> {
    if level > LEVELS_MAX {
        return None;
    }
    let inner = whole(element).map(elements);
    match inner {
        Some(inner) if level == 0 || inner.len() > 1 => {
            *changed |= level > 0;
            inner.into_iter().try_for_each(|element| columns(element, out, changed, level + 1))
        }
        _ if element.is_empty() => None,
        _ => {
            out.push(element.to_vec());
            Some(())
        }
    }
}

/// The sets of a list, each a list of columns; `None`: too many, or no list.
fn flatten(
    list: &[TokenWithSpan],
    sets: &mut Vec<Vec<Vec<TokenWithSpan>>>,
    changed: &mut bool,
    level: usize,
) -> Option<()> {
    if level > LEVELS_MAX {
        return None;
    }
    for element in elements(list) {
        let all =
            |words: &[&str]| call(element, words).filter(|(_, end)| *end == element.len()).map(|(inner, _)| inner);
        let parts = |inner| -> Option<Vec<Vec<Vec<TokenWithSpan>>>> {
            let part = |element: &[TokenWithSpan]| {
                let mut out = Vec::new();
                columns(element, &mut out, &mut false, 0).map(|()| out)
            };
            elements(inner).into_iter().map(part).collect()
        };
        if let Some(inner) = all(&["grouping", "sets"]) {
            *changed = true;
            flatten(inner, sets, changed, level + 1)?;
        } else if let Some(inner) = all(&["rollup"]) {
            *changed = true;
            let parts = parts(inner)?;
            sets.extend((0..=parts.len()).rev().map(|count| parts[..count].concat()));
        } else if let Some(inner) = all(&["cube"]) {
            *changed = true;
            let parts = parts(inner)?;
            if parts.len() > CUBE_MAX {
                return None;
            }
            sets.extend((0..1usize << parts.len()).rev().map(|mask| {
                let chosen = parts.iter().enumerate().filter(|(at, _)| mask >> (parts.len() - 1 - at) & 1 == 1);
                chosen.flat_map(|(_, part)| part.clone()).collect::<Vec<_>>()
            }));
        } else {
            let mut set = Vec::new();
            columns(element, &mut set, changed, 0)?;
            sets.push(set);
        }
        if sets.len() > SETS_MAX {
            return None;
        }
    }
    Some(())
}

/// Sets as a list again; what is put in has the place of `at`.
fn joined(sets: Vec<Vec<Vec<TokenWithSpan>>>, at: &TokenWithSpan) -> Vec<TokenWithSpan> {
    let put = |token: Token| TokenWithSpan { token, span: at.span };
    let mut out = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        if number > 0 {
            out.push(put(Token::Comma));
        }
        out.push(put(Token::LParen));
        for (number, column) in set.into_iter().enumerate() {
            if number > 0 {
                out.push(put(Token::Comma));
            }
            out.extend(column);
        }
        out.push(put(Token::RParen));
    }
    out
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn lists_within_lists() {
        for (text, wanted) in [
            ("grouping sets(a, grouping sets(b, ()))", "( a ) , ( b ) , ( )"),
            ("grouping sets(a, rollup(b, (c, d + 1)))", "( a ) , ( b , c , d + 1 ) , ( b ) , ( )"),
            ("grouping sets(cube(a, f(b, c)))", "( a , f ( b , c ) ) , ( a ) , ( f ( b , c ) ) , ( )"),
            ("grouping sets((a, (b, c)), ((a)))", "( a , b , c ) , ( ( a ) )"),
            ("grouping sets(a, (b, (c)), ())", "a , ( b , ( c ) ) , ( )"),
            ("grouping sets(a[1], grouping sets(grouping sets((a, b))))", "( a [ 1 ] ) , ( a , b )"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let words: Vec<String> = known(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(words.join(" "), format!("grouping sets ( {wanted} )"), "{text}");
        }
    }
}
