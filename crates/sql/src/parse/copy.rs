//! COPY as it is written: what is copied, where to, options in both of their forms, WHERE.

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::names::object_name;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::pg::copy::{GivenOption, GivenValue};
use crate::pg::definition::parse_expression;
use crate::wire::SqlError;

/// A COPY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    pub source: Source,
    pub from: bool,
    /// It is a file or a program of the server.
    pub of_server: bool,
    pub options: Vec<GivenOption>,
    pub condition: Option<Condition>,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Table(ObjectName, Vec<Ident>),
    /// A query, behind as many blanks as there are characters before it in the statement: its places are those of the
    /// statement.
    Query(String),
}

/// WHERE of COPY FROM, whose places are those of the statement as well.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub text: String,
    pub expr: Box<Expr>,
}

/// A part of a statement, with blanks in place of what is before it.
fn in_place(position: Option<u32>, text: &str) -> String {
    let before = position.map_or(0, |position| position.saturating_sub(1) as usize);
    format!("{}{text}", " ".repeat(before))
}

/// COPY, whose first word is taken already.
///
/// # Errors
/// `42601`
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let words = &mut words;
    let mut options = Vec::new();
    let position = words.position();
    if words.take_word("binary") {
        options.push(given("format", text("binary"), position));
    }
    let source = match words.peek() {
        Some(Token::LParen) if options.is_empty() => query(words)?,
        _ => {
            let name = object_name(words)?;
            let mut columns = Vec::new();
            if words.take(&Token::LParen) {
                columns = names(words)?.into_iter().map(|name| Ident::with_quote('"', name)).collect();
                if !words.take(&Token::RParen) {
                    return Err(words.unexpected());
                }
            }
            Source::Table(name, columns)
        }
    };
    let is_query = matches!(source, Source::Query(_));
    let from = !is_query && words.take_word("from");
    if !from && !words.take_word("to") {
        return Err(words.unexpected());
    }
    let is_program = words.take_word("program");
    let is_client = words.take_word("stdin") || words.take_word("stdout");
    if !is_client {
        string(words)?;
    } else if is_program {
        return Err(SqlError::syntax("STDIN/STDOUT not allowed with PROGRAM"));
    }
    if !is_query {
        let position = words.position();
        let using = words.take_word("using");
        if words.take_word("delimiters") {
            options.push(given("delimiter", GivenValue::Text(string(words)?), position));
        } else if using {
            return Err(words.unexpected());
        }
    }
    words.take_word("with");
    match words.take(&Token::LParen) {
        true => generic(words, &mut options)?,
        false => while old(words, &mut options)? {},
    }
    let at = words.position();
    let condition = match !is_query && words.take_word("where") {
        false => None,
        true => {
            let text = in_place(words.position(), words.rest_of_text());
            if text.trim().is_empty() {
                return Err(words.unexpected());
            }
            while words.next().is_some() {}
            if !from {
                return Err(placed(SqlError::syntax("WHERE clause not allowed with COPY TO"), at));
            }
            Some(Condition { expr: Box::new(parse_expression(&text)?), text })
        }
    };
    words.expect_end()?;
    Ok(Own::Copy(Box::new(Copy { source, from, of_server: !is_client, options, condition })))
}

fn placed(error: SqlError, position: Option<u32>) -> SqlError {
    match position {
        Some(position) => error.with_position(position),
        None => error,
    }
}

fn given(name: &str, value: GivenValue, position: Option<u32>) -> GivenOption {
    GivenOption { name: name.to_owned(), value, position }
}

fn text(text: &str) -> GivenValue {
    GivenValue::Text(text.to_owned())
}

/// A query in parentheses.
fn query(words: &mut Words<'_>) -> Result<Source, SqlError> {
    words.next();
    let (from, position, mut depth) = (words.mark(), words.position(), 0usize);
    loop {
        match words.peek() {
            None => return Err(words.unexpected()),
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) if depth == 0 => break,
            Some(Token::RParen) => depth -= 1,
            Some(_) => {}
        }
        words.next();
    }
    if words.mark() == from {
        return Err(words.unexpected());
    }
    let text = in_place(position, words.between(from, words.mark()));
    words.next();
    Ok(Source::Query(text))
}

/// Names with commas between them.
fn names(words: &mut Words<'_>) -> Result<Vec<String>, SqlError> {
    let mut names = vec![words.name()?];
    while words.take(&Token::Comma) {
        names.push(words.name()?);
    }
    Ok(names)
}

/// A string as the next token.
fn string(words: &mut Words<'_>) -> Result<String, SqlError> {
    let text = match words.peek() {
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return Err(words.unexpected()),
    };
    words.next();
    Ok(text)
}

/// Options in parentheses, of which the first is taken; the last is taken as well.
fn generic(words: &mut Words<'_>, options: &mut Vec<GivenOption>) -> Result<(), SqlError> {
    loop {
        let position = words.position();
        let name = words.name()?;
        let value = match words.peek() {
            Some(Token::Comma | Token::RParen) => GivenValue::Nothing,
            Some(Token::Mul) => {
                words.next();
                GivenValue::Star
            }
            Some(Token::LParen) => {
                words.next();
                let mut items = vec![word_or_string(words)?];
                while words.take(&Token::Comma) {
                    items.push(word_or_string(words)?);
                }
                if !words.take(&Token::RParen) {
                    return Err(words.unexpected());
                }
                GivenValue::List(items)
            }
            Some(Token::Number(..) | Token::Minus | Token::Plus) => number(words)?,
            _ => GivenValue::Text(word_or_string(words)?),
        };
        options.push(GivenOption { name, value, position });
        if words.take(&Token::RParen) {
            return Ok(());
        }
        if !words.take(&Token::Comma) {
            return Err(words.unexpected());
        }
    }
}

fn number(words: &mut Words<'_>) -> Result<GivenValue, SqlError> {
    let negative = words.take(&Token::Minus);
    if !negative {
        words.take(&Token::Plus);
    }
    let Some(Token::Number(digits, _)) = words.peek() else { return Err(words.unexpected()) };
    let digits = digits.clone();
    words.next();
    Ok(GivenValue::Number(if negative { format!("-{digits}") } else { digits }))
}

fn word_or_string(words: &mut Words<'_>) -> Result<String, SqlError> {
    match words.peek() {
        Some(Token::Word(_)) => words.name(),
        _ => string(words),
    }
}

/// An option of the form before PostgreSQL 9.0, if one is next.
fn old(words: &mut Words<'_>, options: &mut Vec<GivenOption>) -> Result<bool, SqlError> {
    let position = words.position();
    let Some(Token::Word(word)) = words.peek() else { return Ok(false) };
    let is_plain = word.quote_style.is_none();
    let name = word.value.to_ascii_lowercase();
    let (name, value) = match name.as_str() {
        _ if !is_plain => return Ok(false),
        "binary" | "csv" => {
            words.next();
            ("format", text(&name))
        }
        "freeze" | "header" => {
            words.next();
            (name.as_str(), text("true"))
        }
        "delimiter" | "null" | "quote" | "escape" => {
            words.next();
            words.take_word("as");
            (name.as_str(), GivenValue::Text(string(words)?))
        }
        "encoding" => {
            words.next();
            ("encoding", GivenValue::Text(string(words)?))
        }
        "force" => {
            words.next();
            if words.take_word("quote") {
                match words.take(&Token::Mul) {
                    true => ("force_quote", GivenValue::Star),
                    false => ("force_quote", GivenValue::List(names(words)?)),
                }
            } else if words.take_words(&["not", "null"]) {
                ("force_not_null", GivenValue::List(names(words)?))
            } else if words.take_word("null") {
                ("force_null", GivenValue::List(names(words)?))
            } else {
                return Err(words.unexpected());
            }
        }
        _ => return Ok(false),
    };
    options.push(given(name, value, position));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::words::is_word;

    fn copy(text: &str) -> Result<Copy, SqlError> {
        let mut words = Words::of(text).expect("one statement");
        assert!(words.peek().is_some_and(|word| is_word(word, "copy")));
        words.next();
        match parse(words)? {
            Own::Copy(copy) => Ok(*copy),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_forms_of_options() {
        let new = copy(
            "COPY t (a, \"B\") FROM stdin WITH (FORMAT csv, DELIMITER E'\\t', HEADER match, FORCE_NULL (a), freeze)",
        );
        let new = new.expect("new");
        let shown: Vec<_> = new.options.iter().map(|option| (option.name.as_str(), &option.value)).collect();
        assert_eq!(
            shown,
            [
                ("format", &text("csv")),
                ("delimiter", &text("\t")),
                ("header", &text("match")),
                ("force_null", &GivenValue::List(vec!["a".to_owned()])),
                ("freeze", &GivenValue::Nothing),
            ]
        );
        assert!(matches!(&new.source, Source::Table(_, columns) if columns.len() == 2));
        let old =
            copy("copy t to stdout using delimiters ';' with null as '' csv header force quote a, b").expect("old");
        let shown: Vec<_> = old.options.iter().map(|option| (option.name.as_str(), option.value.clone())).collect();
        let columns = GivenValue::List(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            shown,
            [
                ("delimiter", text(";")),
                ("null", text("")),
                ("format", text("csv")),
                ("header", text("true")),
                ("force_quote", columns),
            ]
        );
        assert_eq!(copy("copy binary t from stdin").expect("old").options.len(), 1);
    }

    #[test]
    fn places_are_those_of_the_statement() {
        let found = copy("COPY (SELECT (1), 2) TO STDOUT").expect("a query");
        assert_eq!(found.source, Source::Query("      SELECT (1), 2".to_owned()));
        let found = copy("COPY t FROM STDIN WHERE a > 1").expect("a condition");
        assert_eq!(found.condition.map(|condition| condition.text), Some(format!("{}a > 1", " ".repeat(24))));
        for (wrong, position) in [
            ("COPY t TO STDOUT WHERE a > 1", Some(18)),
            ("COPY t FROM PROGRAM STDIN", None),
            ("COPY (SELECT 1) FROM STDIN", Some(17)),
            ("COPY t FROM STDIN nothing", Some(19)),
            ("COPY t FROM STDIN USING ';'", Some(25)),
            ("COPY t FROM STDIN WHERE", None),
            ("COPY (SELECT 1", None),
            ("COPY () TO STDOUT", Some(7)),
        ] {
            let error = copy(wrong).expect_err(wrong);
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", position), "{wrong}");
        }
    }
}
