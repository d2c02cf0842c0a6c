//! EXCLUDE in the frame of a window, which the parser does not know.
//!
//! | written | read as |
//! |---|---|
//! | `(ORDER BY a ROWS … EXCLUDE TIES)` | `(PARTITION BY "resurgam$exclude_ties" ORDER BY a ROWS …)` |
//! | `(w PARTITION BY b ROWS … EXCLUDE GROUP)` | `(w PARTITION BY "resurgam$exclude_group", b ROWS …)` |
//!
//! In definitions that are kept (statements that begin with CREATE or ALTER) it is not known: their texts are shown.

use datafusion::sql::sqlparser::ast::{Expr, WindowSpec};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;
use crate::pg::functions::Excluded;

const CURRENT_ROW: &str = "resurgam$exclude_current_row";
const GROUP: &str = "resurgam$exclude_group";
const TIES: &str = "resurgam$exclude_ties";

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "exclude")) {
        return tokens;
    }
    // Places of what is no white space.
    let places: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let is = |at: usize, word: &str| places.get(at).is_some_and(|at| is_word(&tokens[*at].token, word));
    let has = |at: usize, token: &Token| places.get(at).is_some_and(|at| tokens[*at].token == *token);
    // Before which tokens something is put in, and which are left out.
    let (mut put, mut left_out) = (Vec::new(), Vec::new());
    // Where parentheses opened.
    let mut open = Vec::new();
    let (mut begins, mut is_kept) = (true, false);
    for at in 0..places.len() {
        if begins {
            is_kept = is(at, "create") || is(at, "alter");
        }
        begins = has(at, &Token::SemiColon);
        if has(at, &Token::LParen) {
            open.push(at);
        } else if has(at, &Token::RParen) {
            open.pop();
        }
        let behind_frame = at > 0 && ["row", "preceding", "following"].iter().any(|word| is(at - 1, word));
        if is_kept || !behind_frame || !is(at, "exclude") {
            continue;
        }
        let (marker, end) = match () {
            () if is(at + 1, "current") && is(at + 2, "row") => (CURRENT_ROW, at + 3),
            () if is(at + 1, "group") => (GROUP, at + 2),
            () if is(at + 1, "ties") => (TIES, at + 2),
            () => continue,
        };
        let (true, Some(&begin)) = (has(end, &Token::RParen), open.last()) else { continue };
        let mut first = begin + 1;
        if !["partition", "order", "rows", "range", "groups"].iter().any(|word| is(first, word)) {
            // It goes on from a window of that name.
            first += 1;
        }
        let marker = Token::make_word(marker, Some('"'));
        match is(first, "partition") && is(first + 1, "by") {
            true => put.push((first + 2, vec![marker, Token::Comma])),
            false => put.push((first, vec![Token::make_word("PARTITION", None), Token::make_word("BY", None), marker])),
        }
        left_out.push(at..end);
    }
    if put.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 4 * put.len());
    for (at, place) in places.iter().enumerate() {
        let token = &tokens[*place];
        for (_, more) in put.iter().filter(|(before, _)| *before == at) {
            out.extend(more.iter().map(|more| TokenWithSpan { token: more.clone(), span: token.span }));
        }
        if !left_out.iter().any(|range| range.contains(&at)) {
            out.push(token.clone());
        }
    }
    out
}

/// Takes what stands for EXCLUDE out of a window's definition.
pub(crate) fn taken(spec: &mut WindowSpec) -> Option<(Excluded, Expr)> {
    let excluded = |expr: &Expr| match expr {
        Expr::Identifier(ident) if ident.quote_style.is_some() => match ident.value.as_str() {
            CURRENT_ROW => Some(Excluded::CurrentRow),
            GROUP => Some(Excluded::Group),
            TIES => Some(Excluded::Ties),
            _ => None,
        },
        _ => None,
    };
    let at = spec.partition_by.iter().position(|expr| excluded(expr).is_some())?;
    let marker = spec.partition_by.remove(at);
    Some((excluded(&marker)?, marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let tokens = known(crate::pg::lexer::tokens(text).expect("tokens"));
        let shown = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        shown.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn forms() {
        for (text, expected) in [
            (
                "sum(a) OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)",
                "sum ( a ) OVER ( PARTITION BY \"resurgam$exclude_ties\" ORDER BY a ROWS 1 PRECEDING )",
            ),
            (
                "(w PARTITION BY (b), c GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING EXCLUDE GROUP)",
                "( w PARTITION BY \"resurgam$exclude_group\" , ( b ) , c GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING )",
            ),
            (
                "(ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
                "( PARTITION BY \"resurgam$exclude_current_row\" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW )",
            ),
            ("(w ROWS 1 PRECEDING EXCLUDE TIES)", "( w PARTITION BY \"resurgam$exclude_ties\" ROWS 1 PRECEDING )"),
            ("(ORDER BY a EXCLUDE TIES)", "( ORDER BY a EXCLUDE TIES )"),
            ("(ROWS 1 PRECEDING EXCLUDE TIES, a)", "( ROWS 1 PRECEDING EXCLUDE TIES , a )"),
            (
                "CREATE VIEW v AS SELECT (ROWS 1 PRECEDING EXCLUDE TIES)",
                "CREATE VIEW v AS SELECT ( ROWS 1 PRECEDING EXCLUDE TIES )",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
