//! PostgreSQL's dialect for the parser, with an end.
//!
//! The parser follows what is nested down to a limit, but where something fails inside it tries another
//! reading, at each level: a text of a hundred bytes would take it years (`cast(cast(…`). And nothing
//! stops it while it works. Each expression passes here ([`Dialect::parse_prefix`]), so here is counted:
//!
//! 1. how deep expressions are: more than [`DEPTH_MAX`] levels are refused with `54001`;
//! 2. how many were begun: more than in proportion to the tokens is a text that is read again and again, refused
//!    with `54001`;
//! 3. whether the statement was told to stop.
//!
//! What is refused stays refused: from then on every expression fails at once, whatever is tried. So the parser
//! comes back in a time in proportion to the depth.

use std::any::TypeId;
use std::cell::{Cell, RefCell};

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::grammar::{self, Postgres};
use crate::keywords;
use crate::running;
use crate::wire::SqlError;

/// Levels of expressions, one below the other. What programs follow downwards in the query engine, and
/// here, with the stack of a thread; and what it takes the query engine to plan a nest grows with a power of them.
pub const DEPTH_MAX: usize = 250;
/// Levels of what the parser nests: statements, queries, tables and expressions.
pub const PARSER_LEVELS_MAX: usize = 4 * DEPTH_MAX;

/// Expressions that may be begun for each token; a text that is read once begins less than one.
const BEGUN_PER_TOKEN: usize = 32;
/// Expressions that may be begun anyhow.
const BEGUN_FREE: usize = 20_000;
/// Expressions between two questions whether to stop.
const ASK_EVERY: usize = 256;

/// See the module's head. One serves one text.
#[derive(Debug)]
pub struct Bounded {
    postgresql: Postgres,
    /// Whether arguments may be `name: value`, where the name is an expression: each argument is read twice then.
    labels: bool,
    begun_max: usize,
    begun: Cell<usize>,
    depth: Cell<usize>,
    /// The next call is the one from within this one.
    within: Cell<bool>,
    refused: RefCell<Option<SqlError>>,
}

/// PostgreSQL's error for what is too deep.
pub fn too_deep() -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
}

impl Bounded {
    /// For a text of these tokens.
    pub fn new(tokens: &[TokenWithSpan]) -> Self {
        Self {
            postgresql: Postgres,
            labels: tokens.iter().any(|token| matches!(token.token, Token::Colon)),
            begun_max: tokens.len() * BEGUN_PER_TOKEN + BEGUN_FREE,
            begun: Cell::new(0),
            depth: Cell::new(0),
            within: Cell::new(false),
            refused: RefCell::new(None),
        }
    }

    /// Why the text was refused, if that was here: whatever error came of it is none of the text's.
    pub fn refused(&self) -> Option<SqlError> {
        self.refused.borrow().clone()
    }

    /// Counts one more expression at this depth.
    fn admit(&self, depth: usize) -> Result<(), ParserError> {
        let mut refused = self.refused.borrow_mut();
        let begun = self.begun.get() + 1;
        self.begun.set(begun);
        if refused.is_none() {
            *refused = if depth > DEPTH_MAX || begun > self.begun_max {
                Some(too_deep())
            } else if begun.is_multiple_of(ASK_EVERY) {
                running::check().err()
            } else {
                None
            };
        }
        // The one error that the parser does not answer with another attempt, in most places.
        if refused.is_some() { Err(ParserError::RecursionLimitExceeded) } else { Ok(()) }
    }
}

/// An operator before its operand, but for NOT, and how strongly it binds: signs do so more strongly than `^`, all
/// others as an operator between operands that has no place of its own, so weaker than `+`.
fn prefix_operator(token: &Token) -> Option<(UnaryOperator, u8)> {
    let dialect = PostgreSqlDialect {};
    // That of COLLATE, which is stronger than AT TIME ZONE; subscripts and casts are stronger still.
    let sign = dialect.prec_value(Precedence::AtTz) + 10;
    let other = dialect.prec_value(Precedence::PgOther);
    match token {
        Token::Minus => Some((UnaryOperator::Minus, sign)),
        Token::Plus => Some((UnaryOperator::Plus, sign)),
        Token::Tilde => Some((UnaryOperator::BitwiseNot, other)),
        Token::PGSquareRoot => Some((UnaryOperator::PGSquareRoot, other)),
        Token::PGCubeRoot => Some((UnaryOperator::PGCubeRoot, other)),
        Token::AtSign => Some((UnaryOperator::PGAbs, other)),
        _ => None,
    }
}

impl Dialect for Bounded {
    /// For the parser it is PostgreSQL's.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if self.within.replace(false) {
            return None;
        }
        let depth = self.depth.get() + 1;
        if let Err(error) = self.admit(depth) {
            return Some(Err(error));
        }
        self.depth.set(depth);
        self.within.set(true);
        let parsed = match prefix_operator(&parser.peek_token_ref().token) {
            Some((op, precedence)) => {
                self.within.set(false);
                parser.next_token();
                parser.parse_subexpr(precedence).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) })
            }
            None if grammar::is_not_exists(parser) => {
                self.within.set(false);
                grammar::not_exists(parser)
            }
            None if grammar::is_values(parser) || grammar::is_query_of_queries(parser, 0) => {
                self.within.set(false);
                grammar::query(parser)
            }
            None if keywords::is_name(parser) => {
                self.within.set(false);
                keywords::name(parser)
            }
            None => parser.parse_prefix(),
        };
        self.within.set(false);
        self.depth.set(depth - 1);
        Some(parsed)
    }
    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        self.postgresql.parse_infix(parser, expr, precedence)
    }
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        self.labels
    }
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        self.postgresql.is_column_alias(keyword, parser)
    }
    fn is_table_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        self.postgresql.is_table_alias(keyword, parser)
    }
    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.postgresql.identifier_quote_style(identifier)
    }
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.postgresql.is_delimited_identifier_start(ch)
    }
    fn is_identifier_start(&self, ch: char) -> bool {
        self.postgresql.is_identifier_start(ch)
    }
    fn is_identifier_part(&self, ch: char) -> bool {
        self.postgresql.is_identifier_part(ch)
    }
    fn supports_unicode_string_literal(&self) -> bool {
        self.postgresql.supports_unicode_string_literal()
    }
    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        self.postgresql.is_reserved_for_identifier(kw)
    }
    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.postgresql.is_custom_operator_part(ch)
    }
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        self.postgresql.get_next_precedence(parser)
    }
    fn supports_filter_during_aggregation(&self) -> bool {
        self.postgresql.supports_filter_during_aggregation()
    }
    fn supports_group_by_expr(&self) -> bool {
        self.postgresql.supports_group_by_expr()
    }
    fn prec_value(&self, prec: Precedence) -> u8 {
        self.postgresql.prec_value(prec)
    }
    fn allow_extract_custom(&self) -> bool {
        self.postgresql.allow_extract_custom()
    }
    fn allow_extract_single_quotes(&self) -> bool {
        self.postgresql.allow_extract_single_quotes()
    }
    fn supports_create_index_with_clause(&self) -> bool {
        self.postgresql.supports_create_index_with_clause()
    }
    fn supports_explain_with_utility_options(&self) -> bool {
        self.postgresql.supports_explain_with_utility_options()
    }
    fn supports_listen_notify(&self) -> bool {
        self.postgresql.supports_listen_notify()
    }
    fn supports_factorial_operator(&self) -> bool {
        self.postgresql.supports_factorial_operator()
    }
    fn supports_bitwise_shift_operators(&self) -> bool {
        self.postgresql.supports_bitwise_shift_operators()
    }
    fn supports_comment_on(&self) -> bool {
        self.postgresql.supports_comment_on()
    }
    fn supports_load_extension(&self) -> bool {
        self.postgresql.supports_load_extension()
    }
    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        self.postgresql.supports_named_fn_args_with_colon_operator()
    }
    fn supports_empty_projections(&self) -> bool {
        self.postgresql.supports_empty_projections()
    }
    fn supports_nested_comments(&self) -> bool {
        self.postgresql.supports_nested_comments()
    }
    fn supports_string_escape_constant(&self) -> bool {
        self.postgresql.supports_string_escape_constant()
    }
    fn supports_numeric_literal_underscores(&self) -> bool {
        self.postgresql.supports_numeric_literal_underscores()
    }
    fn supports_array_typedef_with_brackets(&self) -> bool {
        self.postgresql.supports_array_typedef_with_brackets()
    }
    fn supports_geometric_types(&self) -> bool {
        self.postgresql.supports_geometric_types()
    }
    fn supports_set_names(&self) -> bool {
        self.postgresql.supports_set_names()
    }
    fn supports_alter_column_type_using(&self) -> bool {
        self.postgresql.supports_alter_column_type_using()
    }
    fn supports_notnull_operator(&self) -> bool {
        self.postgresql.supports_notnull_operator()
    }
    fn supports_interval_options(&self) -> bool {
        self.postgresql.supports_interval_options()
    }
    fn supports_insert_table_alias(&self) -> bool {
        self.postgresql.supports_insert_table_alias()
    }
    fn supports_create_table_like_parenthesized(&self) -> bool {
        self.postgresql.supports_create_table_like_parenthesized()
    }
    fn supports_select_wildcard_with_alias(&self) -> bool {
        self.postgresql.supports_select_wildcard_with_alias()
    }
    fn supports_comma_separated_trim(&self) -> bool {
        self.postgresql.supports_comma_separated_trim()
    }
    fn supports_xml_expressions(&self) -> bool {
        self.postgresql.supports_xml_expressions()
    }
    fn supports_comment_optimizer_hint(&self) -> bool {
        self.postgresql.supports_comment_optimizer_hint()
    }
}
