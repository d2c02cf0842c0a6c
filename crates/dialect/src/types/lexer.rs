//! The words of a type's name: identifiers, quoted identifiers, whole numbers, single signs.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::error::{ResolveError, Result};

/// PostgreSQL 15's keywords that cannot stand for any name without quotes (all but the unreserved
/// ones), sorted.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization",
    "between", "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check",
    "coalesce", "collate", "collation", "column", "concurrently", "constraint", "create", "cross",
    "current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp",
    "current_user", "dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end",
    "except", "exists", "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full",
    "grant", "greatest", "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int",
    "integer", "intersect", "interval", "into", "is", "isnull", "join", "lateral", "leading", "least",
    "left", "like", "limit", "localtime", "localtimestamp", "national", "natural", "nchar", "none",
    "normalize", "not", "notnull", "null", "nullif", "numeric", "offset", "on", "only", "or", "order", "out",
    "outer", "overlaps", "overlay", "placing", "position", "precision", "primary", "real", "references",
    "returning", "right", "row", "select", "session_user", "setof", "similar", "smallint", "some",
    "substring", "symmetric", "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat",
    "trim", "true", "union", "unique", "user", "using", "values", "varchar", "variadic", "verbose", "when",
    "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest",
    "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable",
];

/// Must be quoted to be a name.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&word).is_ok()
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// In lower case, as SQL reads it.
    Word(String),
    /// Without its quotes.
    Quoted(String),
    Number(i64),
    Sign(char),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Word(word) => word.clone(),
            Token::Quoted(word) => format!("\"{word}\""),
            Token::Number(n) => n.to_string(),
            Token::Sign(c) => c.to_string(),
        }
    }
}

/// 42601 as PostgreSQL words it; `None`: the text ended.
pub(super) fn syntax_error(at: Option<&Token>) -> ResolveError {
    let message = match at {
        Some(token) => format!("syntax error at or near \"{}\"", token.shown()),
        None => "syntax error at end of input".to_string(),
    };
    ResolveError::new("42601", message)
}

/// Longest name; the rest is cut off, as in PostgreSQL.
const MAX_NAME: usize = 63;

fn cut(mut name: String) -> String {
    if name.len() > MAX_NAME {
        let end = (0..=MAX_NAME).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut all = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        match c {
            _ if c.is_ascii_whitespace() => {}
            '"' => all.push(Token::Quoted(cut(quoted(text, start, &mut chars)?))),
            '0'..='9' => {
                let end = skip(&mut chars, text.len(), |c| c.is_ascii_digit());
                let digits = &text[start..end];
                let number = digits.parse::<i32>().map_err(|_| {
                    ResolveError::new("22003", format!("value \"{digits}\" is out of range for type integer"))
                })?;
                all.push(Token::Number(i64::from(number)));
            }
            _ if c.is_alphabetic() || c == '_' => {
                let end = skip(&mut chars, text.len(), |c| c.is_alphanumeric() || c == '_' || c == '$');
                all.push(Token::Word(cut(text[start..end].to_ascii_lowercase())));
            }
            _ => all.push(Token::Sign(c)),
        }
    }
    Ok(all)
}

fn skip(chars: &mut Peekable<CharIndices<'_>>, len: usize, part: impl Fn(char) -> bool) -> usize {
    while let Some(&(at, c)) = chars.peek() {
        if !part(c) {
            return at;
        }
        chars.next();
    }
    len
}

fn quoted(text: &str, start: usize, chars: &mut Peekable<CharIndices<'_>>) -> Result<String> {
    let mut name = String::new();
    while let Some((_, c)) = chars.next() {
        match c {
            '"' if chars.next_if(|(_, c)| *c == '"').is_some() => name.push('"'),
            '"' if name.is_empty() => {
                return Err(ResolveError::new("42601", "zero-length delimited identifier at or near \"\"\"\""));
            }
            '"' => return Ok(name),
            c => name.push(c),
        }
    }
    Err(ResolveError::new("42601", format!("unterminated quoted identifier at or near \"{}\"", &text[start..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
        assert!(is_keyword("char") && !is_keyword("text"));
    }
}
