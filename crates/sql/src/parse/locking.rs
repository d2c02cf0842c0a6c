//! Locking clauses that PostgreSQL knows and the parser does not, in words that it knows.
//!
//! | written | read as |
//! |---|---|
//! | `FOR NO KEY UPDATE` | `FOR UPDATE OF weaker` |
//! | `FOR KEY SHARE OF a` | `FOR SHARE OF weaker.a` |
//! | `FOR UPDATE OF a, b NOWAIT` | `FOR UPDATE OF a NOWAIT FOR UPDATE OF b NOWAIT` |
//! | `FOR UPDATE … LIMIT 1` | `LIMIT 1 FOR UPDATE …` |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::words::is_word;

/// What stands for the words that make a clause weaker, before the name of a relation or alone: no identifier that is written has a zero byte.
pub(crate) const WEAKER: &str = "\0weaker";

fn weaker(like: &TokenWithSpan) -> TokenWithSpan {
    let word = Word { value: WEAKER.into(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
    TokenWithSpan { token: Token::Word(word), span: like.span }
}

/// The tokens of a text that the parser refused, with its locking clauses rewritten; `None` if
/// there is nothing to rewrite. Every token keeps its place in the text.
pub(crate) fn known(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| is_word(&token.token, "for")) {
        return None;
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).cloned().collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut changed = false;
    let mut at = 0;
    // Where the clauses begin that end here: in `out`, and the place behind them in `tokens`.
    let mut run = (0, usize::MAX);
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    while at < tokens.len() {
        if !is(at, "for") {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let (strength, end) = if is(at + 1, "no") && is(at + 2, "key") && is(at + 3, "update") {
            (at + 3, at + 4)
        } else if is(at + 1, "key") && is(at + 2, "share") {
            (at + 2, at + 3)
        } else if is(at + 1, "update") || is(at + 1, "share") {
            (at + 1, at + 2)
        } else {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let is_weaker = strength > at + 1;
        changed |= is_weaker;
        if run.1 != at {
            run.0 = out.len();
        }
        let head = [tokens[at].clone(), tokens[strength].clone()];
        at = end;
        let mark = weaker(&head[1]);
        let of_mark = |of: Token| TokenWithSpan { token: of, span: mark.span };
        if !is(at, "of") {
            out.extend(head);
            if is_weaker {
                out.push(of_mark(Token::make_keyword("OF")));
                out.push(mark);
            }
            at = nonblocking(&tokens, at, &mut out);
            at = limit(&tokens, at, run.0, &mut out, &mut changed);
            run.1 = at;
            continue;
        }
        let of = tokens[at].clone();
        at += 1;
        // Names, perhaps with a schema, between commas.
        let mut names: Vec<Vec<TokenWithSpan>> = vec![vec![]];
        while let Some(token) = tokens.get(at) {
            match &token.token {
                Token::Comma => names.push(vec![]),
                Token::Word(_) | Token::Period
                    if !is(at, "nowait") && !is(at, "skip") && !is(at, "for") && !is(at, "limit") =>
                {
                    if let Some(name) = names.last_mut() {
                        name.push(token.clone());
                    }
                }
                _ => break,
            }
            at += 1;
        }
        changed |= names.len() > 1;
        let from = at;
        for name in names {
            out.extend(head.iter().cloned());
            out.push(of.clone());
            if is_weaker {
                out.push(mark.clone());
                out.push(of_mark(Token::Period));
            }
            out.extend(name);
            at = nonblocking(&tokens, from, &mut out);
        }
        at = limit(&tokens, at, run.0, &mut out, &mut changed);
        run.1 = at;
    }
    changed.then_some(out)
}

/// Takes NOWAIT or SKIP LOCKED; returns the place behind it.
fn nonblocking(tokens: &[TokenWithSpan], at: usize, out: &mut Vec<TokenWithSpan>) -> usize {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    let end = if is(at, "nowait") {
        at + 1
    } else if is(at, "skip") && is(at + 1, "locked") {
        at + 2
    } else {
        at
    };
    out.extend(tokens[at..end].iter().cloned());
    end
}

/// Takes a LIMIT, OFFSET or FETCH to its place before the clauses, which begin at `to`; returns
/// the place behind it.
fn limit(tokens: &[TokenWithSpan], at: usize, to: usize, out: &mut Vec<TokenWithSpan>, changed: &mut bool) -> usize {
    let is = |at: usize, words: &[&str]| {
        tokens.get(at).is_some_and(|token| words.iter().any(|word| is_word(&token.token, word)))
    };
    let mut end = at;
    if is(at, &["limit", "offset", "fetch"]) {
        let mut depth = 0;
        while let Some(token) = tokens.get(end) {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::SemiColon | Token::EOF => break,
                _ if depth == 0 && is(end, &["for", "returning", "on", "union", "intersect", "except"]) => break,
                _ => {}
            }
            end += 1;
        }
        *changed = true;
        out.splice(to..to, tokens[at..end].iter().cloned());
    }
    end
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn read(text: &str) -> Option<String> {
        let tokens = known(&Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens"))?;
        let words: Vec<String> =
            tokens.iter().map(|token| token.token.to_string()).filter(|word| word != "EOF").collect();
        Some(words.join(" ").replace("\"\0weaker\"", "weaker").replace("OF", "of"))
    }

    #[test]
    fn clauses() {
        let all = |clause: &str| read(&format!("select 1 from a , b {clause}"));
        let becomes = |clause: &str| Some(format!("select 1 from a , b {clause}"));
        assert_eq!(all("for no key update"), becomes("for update of weaker"));
        assert_eq!(all("for /* no */ key share skip locked"), becomes("for share of weaker skip locked"));
        assert_eq!(all("for update of a, b nowait"), becomes("for update of a nowait for update of b nowait"));
        assert_eq!(
            all("for share of a, b skip locked for no key update of a limit 1"),
            becomes("limit 1 for share of a skip locked for share of b skip locked for update of weaker . a")
        );
        assert_eq!(
            all("for update skip locked limit (2) offset $1 for share) for update; select 2 limit 3"),
            becomes("limit ( 2 ) offset $1 for update skip locked for share ) for update ; select 2 limit 3")
        );
        for same in [
            "for update",
            "limit 1 for update",
            "substring(x for 3) limit 1",
            "for share of a nowait",
            "where x = 'for no key update'",
        ] {
            assert_eq!(all(same), None, "{same}");
        }
    }
}
