//! What ON CONFLICT infers an index from: the parser knows names of columns only. Expressions and the predicate become
//! quoted names of what they say, which are read when an index is looked for ([`element`]).
//!
//! | written | read as |
//! |---|---|
//! | `ON CONFLICT (a, lower(b)) WHERE c > 0 DO …` | `ON CONFLICT (a, "␁klower ( b )", "␁pc > 0") DO …` |

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::words::is_word;
use crate::pg::definition::parse_expression;
use crate::wire::SqlError;

/// A character that begins no name that anybody wants.
const MARK: char = '\u{1}';

/// What a target of ON CONFLICT has.
pub(crate) enum Element {
    Column,
    Key(Expr),
    Predicate(Expr),
}

/// What a name in the target stands for.
///
/// # Errors
/// `42601`
pub(crate) fn element(ident: &Ident) -> Result<Element, SqlError> {
    let Some(rest) = ident.value.strip_prefix(MARK) else { return Ok(Element::Column) };
    Ok(match rest.split_at_checked(1) {
        Some(("k", text)) => Element::Key(parse_expression(text)?),
        Some(("p", text)) => Element::Predicate(parse_expression(text)?),
        _ => Element::Column,
    })
}

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "conflict")) {
        return tokens;
    }
    let mut tokens = tokens;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut at = 1;
    while at + 1 < tokens.len() {
        if is_word(&tokens[at].token, "conflict")
            && is_word(&tokens[at - 1].token, "on")
            && tokens[at + 1].token == Token::LParen
            && let Some((end, target)) = target(&tokens, at + 1)
        {
            tokens.splice(at + 1..end, target);
        }
        at += 1;
    }
    tokens
}

/// The target whose parenthesis opens at `open`, as names, and where what follows it begins; `None`: it has names only.
fn target(tokens: &[TokenWithSpan], open: usize) -> Option<(usize, Vec<TokenWithSpan>)> {
    let span = tokens[open].span;
    let mut depth = 0usize;
    let mut parts: Vec<&[TokenWithSpan]> = Vec::new();
    let mut from = open + 1;
    let mut close = None;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    parts.push(&tokens[from..at]);
                    close = Some(at);
                    break;
                }
            }
            Token::Comma if depth == 1 => {
                parts.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    let close = close?;
    let mut end = close + 1;
    let mut predicate = None;
    if tokens.get(end).is_some_and(|token| is_word(&token.token, "where")) {
        let found = tokens[end..].iter().position(|token| is_word(&token.token, "do"))?;
        predicate = Some(&tokens[end + 1..end + found]);
        end += found;
    }
    let is_name = |part: &&[TokenWithSpan]| matches!(part, [one] if matches!(one.token, Token::Word(_)));
    if predicate.is_none() && parts.iter().all(is_name) {
        return None;
    }
    let mut out = vec![tokens[open].clone()];
    for part in parts {
        if part.is_empty() {
            return None;
        }
        match is_name(&part) {
            true => out.push(part[0].clone()),
            false => out.push(marked('k', part)?),
        }
        out.push(TokenWithSpan { token: Token::Comma, span });
    }
    match predicate {
        Some([]) => return None,
        Some(predicate) => out.push(marked('p', predicate)?),
        None => drop(out.pop()),
    }
    out.push(tokens[close].clone());
    Some((end, out))
}

/// Tokens as one name; `None` for some that cannot be written again as they were.
fn marked(kind: char, part: &[TokenWithSpan]) -> Option<TokenWithSpan> {
    let mut value = format!("{MARK}{kind}");
    for (at, token) in part.iter().enumerate() {
        if at > 0 {
            value.push(' ');
        }
        match &token.token {
            Token::SingleQuotedString(text) => value.push_str(&format!("'{}'", text.replace('\'', "''"))),
            Token::Word(word) if word.quote_style.is_some() => {
                value.push_str(&format!("\"{}\"", word.value.replace('"', "\"\"")));
            }
            Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_) => return None,
            other => value.push_str(&other.to_string()),
        }
    }
    let word = Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword };
    Some(TokenWithSpan { token: Token::Word(word), span: part[0].span })
}
