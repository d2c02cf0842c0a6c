//! From a text to its statements.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::names::no_schema;
use crate::parse::own::Parsed;
use crate::pg::bounded::{Bounded, PARSER_LEVELS_MAX};
use crate::pg::errors;
use crate::pg::user_types::is_marker;
use crate::wire::SqlError;

/// Parses a string of statements.
///
/// # Errors
/// `42601` with a position.
pub(crate) fn parse(text: &str) -> Result<Vec<Parsed>, SqlError> {
    if let Some(special) = crate::parse::own::parse(text) {
        return special.map(|statement| vec![statement]);
    }
    if let Some(statements) = crate::parse::script::parse(text, parse_clients) {
        return statements;
    }
    parse_clients(text).map(|statements| statements.into_iter().map(Parsed::Known).collect())
}

/// Statements of a client, which are not in definitions yet.
fn parse_clients(text: &str) -> Result<Vec<Statement>, SqlError> {
    let statements = parse_known(text)?;
    crate::parse::subscripts::refuse(&statements, text)?;
    Ok(statements)
}

/// `3F000` for what stands in the place of a schema in definitions that are kept, and in no statement of a client.
pub(crate) fn refuse_markers(text: &str) -> Result<(), SqlError> {
    // As they are written here: in small letters.
    if !text.contains("pg_type_") && !text.contains("pg_function_") {
        return Ok(());
    }
    let Ok(tokens) = crate::pg::lexer::tokens(text) else { return Ok(()) };
    let tokens: Vec<_> = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    for pair in tokens.windows(2) {
        if let (Token::Word(word), Token::Period) = (&pair[0].token, &pair[1].token)
            && is_marker(&word.value)
        {
            return Err(no_schema(&word.value));
        }
    }
    Ok(())
}

/// As [`parse`], of what the parser knows.
pub(crate) fn parse_known(text: &str) -> Result<Vec<Statement>, SqlError> {
    let failed = |error: &_| errors::from_parser(error, text);
    let read = |mut parser: Parser<'_>| {
        let statements = parser.parse_statements()?;
        // It stops at some words without a complaint.
        parser.expect_token(&Token::EOF)?;
        Ok(statements)
    };
    let symmetric = crate::parse::symmetric::tokens(text);
    let tokens = match symmetric.clone().or_else(|| crate::parse::words::with_signs_apart(text)) {
        Some(tokens) => tokens,
        None => crate::pg::lexer::tokens(text).map_err(|error| failed(&ParserError::from(error)))?,
    };
    let tokens = crate::parse::adjacent::joined(tokens);
    crate::parse::numbers::refuse_junk(&tokens, text)?;
    crate::parse::reserved::refuse_empty_distinct(&tokens, text)?;
    let case = crate::parse::case::lacking(&tokens, text);
    let tokens = crate::parse::spelling::known(crate::parse::typed_literal::as_casts(tokens))?;
    let tokens = crate::parse::view::known(crate::parse::like::known(crate::parse::exclude::known(tokens)));
    let tokens = crate::parse::temporary::known(crate::parse::nulls::known(crate::parse::include::known(tokens)));
    let tokens = crate::parse::comment::known(crate::parse::identity::known(tokens));
    let tokens = crate::parse::grouping::known(crate::parse::deferring::known(tokens));
    let tokens = crate::parse::conflict::known(crate::parse::sequence::known(tokens));
    let tokens = crate::parse::element::known(crate::parse::merge::known(crate::parse::explain::known(tokens)))?;
    let (tokens, of_cursor) = crate::parse::current_of::known(tokens, text)?;
    let parsed = |tokens: Vec<TokenWithSpan>| {
        let tokens = crate::pg::keywords::as_postgresql(tokens);
        let nested = crate::parse::joins::in_parentheses(&tokens);
        let rows = crate::parse::spelling::rows_from(&tokens);
        let locking = crate::parse::locking::known(&tokens);
        let dialect = Bounded::new(&tokens);
        let parser = || Parser::new(&dialect).with_recursion_limit(PARSER_LEVELS_MAX);
        read(parser().with_tokens_with_locations(tokens))
            .or_else(|error| match nested {
                Some(tokens) if dialect.refused().is_none() => {
                    read(parser().with_tokens_with_locations(tokens)).map_err(|_| error)
                }
                _ => Err(error),
            })
            .or_else(|error| match rows {
                Some(tokens) if dialect.refused().is_none() => {
                    read(parser().with_tokens_with_locations(tokens)).map_err(|_| error)
                }
                _ => Err(error),
            })
            .or_else(|error| match locking {
                Some(tokens) if dialect.refused().is_none() => read(parser().with_tokens_with_locations(tokens)),
                _ => Err(error),
            })
            .map_err(|error| match dialect.refused() {
                Some(refused) => refused,
                None => crate::parse::unsupported::found(text).unwrap_or_else(|| failed(&error)),
            })
    };
    let statements = crate::parse::depth::parsed(tokens, parsed);
    let mut statements = match case {
        Some(case) => case.or(statements)?,
        None => statements?,
    };
    for statement in &mut statements {
        if symmetric.is_some() {
            crate::parse::symmetric::expand(statement);
        }
        crate::parse::temporary::made_by_select(statement);
        crate::parse::with_write::check(statement)?;
        crate::parse::reserved::refuse(statement, text)?;
        if of_cursor {
            crate::parse::current_of::check(statement, text)?;
        }
    }
    Ok(statements)
}

/// Parses one statement; `None` for an empty string.
pub(crate) fn parse_one(text: &str) -> Result<Option<Parsed>, SqlError> {
    let mut statements = parse(text)?;
    if statements.len() > 1 {
        return Err(SqlError::syntax("cannot insert multiple commands into a prepared statement"));
    }
    Ok(statements.pop())
}
