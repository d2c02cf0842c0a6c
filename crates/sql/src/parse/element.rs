//! `SET a[2] = x`, `SET d['k']['l'] = x`: assignments to an element, which the parser does not know.
//!
//! They are read as `SET a = resurgam$element(2, x)`, `SET d = resurgam$element('k', 'l', x)`: subscripts and value stay
//! expressions, which all that looks for parameters and subqueries finds. Each token has the place of what it is for.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::parse::merge::Clauses;
use crate::parse::words::is_word;
use crate::wire::SqlError;

/// The function that stands for an assignment to an element.
pub(crate) const ELEMENT: &str = "resurgam$element";

/// A SET clause that has not ended.
struct Set {
    /// Parentheses and brackets around it.
    depth: usize,
    /// A call is to be closed where its present value ends.
    open: bool,
}

/// See the module's head.
///
/// # Errors
/// `0A000` for an assignment to a slice.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    let concerns = tokens.iter().any(|token| token.token == Token::LBracket)
        && tokens.iter().any(|token| is_word(&token.token, "set"));
    if !concerns {
        return Ok(tokens);
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut sets: Vec<Set> = Vec::new();
    let (mut depth, mut at, mut is_target) = (0usize, 0, false);
    let mut clauses = Clauses::default();
    while let Some(token) = tokens.get(at) {
        if std::mem::take(&mut is_target)
            && let Some(after) = target(&tokens[at..], &mut out)?
        {
            at += after;
            if let Some(set) = sets.last_mut() {
                set.open = true;
            }
            continue;
        }
        let here = sets.last().is_some_and(|set| set.depth == depth);
        let begins = clauses.begins(&tokens, at);
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => {
                if here {
                    close(sets.pop(), &mut out);
                }
                depth = depth.saturating_sub(1);
            }
            Token::Comma if here => {
                if let Some(set) = sets.last_mut() {
                    let open = std::mem::take(&mut set.open);
                    close(Some(Set { depth, open }), &mut out);
                }
                is_target = true;
            }
            Token::SemiColon => {
                while let Some(set) = sets.pop() {
                    close(Some(set), &mut out);
                }
                depth = 0;
            }
            word if here && (ends(word, out.last()) || begins.is_some()) => close(sets.pop(), &mut out),
            word if is_word(word, "set") => {
                sets.push(Set { depth, open: false });
                is_target = true;
            }
            _ => {}
        }
        out.push(token.clone());
        at += 1;
    }
    while let Some(set) = sets.pop() {
        close(Some(set), &mut out);
    }
    Ok(out)
}

/// Whether a word ends a SET clause; `before` is the token before it.
fn ends(word: &Token, before: Option<&TokenWithSpan>) -> bool {
    let distinct = before.is_some_and(|before| is_word(&before.token, "distinct"));
    is_word(word, "where") || is_word(word, "returning") || is_word(word, "from") && !distinct
}

fn close(set: Option<Set>, out: &mut Vec<TokenWithSpan>) {
    if set.is_some_and(|set| set.open) {
        let span = out.last().map_or_else(Span::empty, |last| last.span);
        out.push(TokenWithSpan { token: Token::RParen, span });
    }
}

/// Puts out the target and the begin of the call, if `rest` begins with an assignment to an element; how many tokens
/// that takes.
fn target(rest: &[TokenWithSpan], out: &mut Vec<TokenWithSpan>) -> Result<Option<usize>, SqlError> {
    let is = |at: usize, token: &Token| rest.get(at).is_some_and(|next| next.token == *token);
    if !matches!(rest.first().map(|first| &first.token), Some(Token::Word(_))) || !is(1, &Token::LBracket) {
        return Ok(None);
    }
    // Where each subscript begins and ends.
    let mut subscripts: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut is_slice) = (1, false);
    while is(at, &Token::LBracket) {
        let begin = at + 1;
        let mut depth = 1;
        at = begin;
        while depth > 0 {
            match rest.get(at).map(|next| &next.token) {
                Some(Token::LBracket | Token::LParen) => depth += 1,
                Some(Token::RBracket | Token::RParen) => depth -= 1,
                Some(Token::Colon) if depth == 1 => is_slice = true,
                Some(Token::SemiColon) | None => return Ok(None),
                Some(_) => {}
            }
            at += 1;
        }
        if at - 1 == begin {
            return Ok(None);
        }
        subscripts.push((begin, at - 1));
    }
    if !is(at, &Token::Eq) {
        return Ok(None);
    }
    if is_slice {
        return Err(SqlError::unsupported("an assignment to a slice of an array is not supported"));
    }
    let span = rest[0].span;
    let new = |token: Token, span: Span| TokenWithSpan { token, span };
    out.extend([rest[0].clone(), rest[at].clone(), new(Token::make_word(ELEMENT, None), span)]);
    out.push(new(Token::LParen, span));
    for (begin, end) in subscripts {
        out.extend_from_slice(&rest[begin..end]);
        out.push(new(Token::Comma, rest[end].span));
    }
    Ok(Some(at + 1))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn assignments_to_elements() {
        for (text, wanted) in [
            ("UPDATE t SET a[2] = b[1], c = 1", "UPDATE t SET a = resurgam$element ( 2 , b [ 1 ] ) , c = 1"),
            (
                "UPDATE t SET d['k'][$1] = (x, 1) WHERE a[1] = 2",
                "UPDATE t SET d = resurgam$element ( 'k' , $1 , ( x , 1 ) ) WHERE a [ 1 ] = 2",
            ),
            (
                "UPDATE t SET a[1] = b IS DISTINCT FROM c FROM u",
                "UPDATE t SET a = resurgam$element ( 1 , b IS DISTINCT FROM c ) FROM u",
            ),
            (
                "WITH w AS (UPDATE t SET a[1] = 2) UPDATE t SET a[f(1)] = 3; SELECT a[1] = 2",
                "WITH w AS ( UPDATE t SET a = resurgam$element ( 1 , 2 ) ) UPDATE t SET a = resurgam$element ( f ( 1 ) , 3 ) ; SELECT a [ 1 ] = 2",
            ),
            ("UPDATE t SET a = ARRAY[1], b = 2", "UPDATE t SET a = ARRAY [ 1 ] , b = 2"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect(text);
            let read = known(tokens).expect(text);
            let words: Vec<String> = read
                .iter()
                .filter(|token| !matches!(token.token, Token::Whitespace(_)))
                .map(|token| token.token.to_string())
                .collect();
            assert_eq!(words.join(" "), wanted);
        }
    }
}
