//! The parser's PostgreSQL with PostgreSQL's grammar (`gram.y`) where the parser's is looser.
//!
//! - What follows `IS [NOT] DISTINCT FROM` ends where AND, OR and IS begin; the parser would take all of the rest.
//! - Comparisons do not associate (`a = b = c`), nor do LIKE, BETWEEN and what is read at their level, nor
//!   `IS DISTINCT FROM` and a following IS: 42601.
//! - `~`, `!~`, `~~` and kin, and `OPERATOR(…)`, bind as any operator that has no place of its own: stronger than
//!   LIKE, IN, BETWEEN and comparisons.
//! - `a < ANY (SELECT …)` ends with the parenthesis; what follows has it for an operand.
//! - A query that begins with one in parentheses is a value, too: `((SELECT 1) UNION (SELECT 2))`.
//! - `NOT EXISTS (…) < b` is `NOT (EXISTS (…) < b)`: NOT binds weaker than what follows.
//! - Words are keywords where they are PostgreSQL's ([`keywords`](crate::keywords)).
//! - `a ISNULL` is `a IS NULL`, and no name for a column of a select list.
//!
//! Everything else is the parser's own.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::keywords;

type Parsed<T> = Result<T, ParserError>;

/// See the module's head.
#[derive(Debug)]
pub struct Postgres;

const INNER: PostgreSqlDialect = PostgreSqlDialect {};

/// Methods that are those of the parser's PostgreSQL.
macro_rules! inherited {
    ($(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $result {
            INNER.$name($($arg),*)
        })*
    };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        INNER.dialect()
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Parsed<u8>> {
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(INNER.prec_value(Precedence::PgOther))),
            Token::Word(word) if word.quote_style.is_none() => {
                if word.keyword == Keyword::OPERATOR {
                    Some(Ok(INNER.prec_value(Precedence::PgOther)))
                } else if is_isnull(&word.value) {
                    Some(Ok(INNER.prec_value(Precedence::Is)))
                } else {
                    INNER.get_next_precedence(parser)
                }
            }
            _ => INNER.get_next_precedence(parser),
        }
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, precedence: u8) -> Option<Parsed<Expr>> {
        infix(parser, expr, precedence).transpose()
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser<'_>) -> bool {
        keywords::is_column_alias(*keyword)
    }

    fn is_table_alias(&self, keyword: &Keyword, _: &mut Parser<'_>) -> bool {
        keywords::is_table_alias(*keyword)
    }

    inherited! {
        fn identifier_quote_style(&self, identifier: &str) -> Option<char>;
        fn is_delimited_identifier_start(&self, ch: char) -> bool;
        fn is_identifier_start(&self, ch: char) -> bool;
        fn is_identifier_part(&self, ch: char) -> bool;
        fn supports_unicode_string_literal(&self) -> bool;
        fn is_reserved_for_identifier(&self, kw: Keyword) -> bool;
        fn is_custom_operator_part(&self, ch: char) -> bool;
        fn supports_filter_during_aggregation(&self) -> bool;
        fn supports_group_by_expr(&self) -> bool;
        fn prec_value(&self, prec: Precedence) -> u8;
        fn allow_extract_custom(&self) -> bool;
        fn allow_extract_single_quotes(&self) -> bool;
        fn supports_create_index_with_clause(&self) -> bool;
        fn supports_explain_with_utility_options(&self) -> bool;
        fn supports_listen_notify(&self) -> bool;
        fn supports_factorial_operator(&self) -> bool;
        fn supports_bitwise_shift_operators(&self) -> bool;
        fn supports_comment_on(&self) -> bool;
        fn supports_load_extension(&self) -> bool;
        fn supports_named_fn_args_with_colon_operator(&self) -> bool;
        fn supports_named_fn_args_with_expr_name(&self) -> bool;
        fn supports_empty_projections(&self) -> bool;
        fn supports_nested_comments(&self) -> bool;
        fn supports_string_escape_constant(&self) -> bool;
        fn supports_numeric_literal_underscores(&self) -> bool;
        fn supports_array_typedef_with_brackets(&self) -> bool;
        fn supports_geometric_types(&self) -> bool;
        fn supports_set_names(&self) -> bool;
        fn supports_alter_column_type_using(&self) -> bool;
        fn supports_notnull_operator(&self) -> bool;
        fn supports_interval_options(&self) -> bool;
        fn supports_insert_table_alias(&self) -> bool;
        fn supports_create_table_like_parenthesized(&self) -> bool;
        fn supports_select_wildcard_with_alias(&self) -> bool;
        fn supports_comma_separated_trim(&self) -> bool;
        fn supports_xml_expressions(&self) -> bool;
        fn supports_comment_optimizer_hint(&self) -> bool;
    }
}

/// Whether a list of values in parentheses is next, which the parser takes for the call of a function; no function has that
/// name without quotes.
pub(crate) fn is_values(parser: &Parser<'_>) -> bool {
    let is_word = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::VALUES && word.quote_style.is_none());
    let is_open = |at: usize| parser.peek_nth_token_ref(at).token == Token::LParen;
    is_open(0) && is_word(&parser.peek_nth_token_ref(1).token) && is_open(2)
}

/// Whether a query in parentheses that begins with another one in parentheses is next, behind so many tokens: what follows the
/// inner one tells it from an expression.
pub(crate) fn is_query_of_queries(parser: &Parser<'_>, behind: usize) -> bool {
    const BEGINS: [Keyword; 4] = [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::TABLE];
    const GOES_ON: [Keyword; 8] = [
        Keyword::UNION,
        Keyword::INTERSECT,
        Keyword::EXCEPT,
        Keyword::ORDER,
        Keyword::LIMIT,
        Keyword::OFFSET,
        Keyword::FETCH,
        Keyword::FOR,
    ];
    let is_word = |token: &Token, words: &[Keyword]| match token {
        Token::Word(word) => word.quote_style.is_none() && words.contains(&word.keyword),
        _ => false,
    };
    let first = parser.peek_nth_token_ref(behind);
    if first.token != Token::LParen || parser.peek_nth_token_ref(behind + 1).token != Token::LParen {
        return false;
    }
    let mut at = parser.get_current_index();
    while !std::ptr::eq(parser.token_at(at), first) {
        at += 1;
    }
    let (mut depth, mut leading, mut closed) = (0usize, true, false);
    loop {
        at += 1;
        match &parser.token_at(at).token {
            Token::Whitespace(_) => {}
            Token::EOF => return false,
            token if closed => return is_word(token, &GOES_ON),
            Token::LParen => depth += 1,
            token if leading => {
                if !is_word(token, &BEGINS) {
                    return false;
                }
                leading = false;
            }
            Token::RParen => {
                depth -= 1;
                closed = depth == 0;
            }
            _ => {}
        }
    }
}

/// `(VALUES …)` as a value, or another query in parentheses.
pub(crate) fn query(parser: &mut Parser<'_>) -> Parsed<Expr> {
    parser.expect_token(&Token::LParen)?;
    let subquery = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(subquery))
}

/// What comes behind `expr`, where the parser would go wrong; `None` leaves it to the parser.
fn infix(parser: &mut Parser<'_>, expr: &Expr, _: u8) -> Parsed<Option<Expr>> {
    let refused = match &parser.peek_token_ref().token {
        Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => is_comparison(expr),
        Token::Word(word) if word.quote_style.is_none() => match word.keyword {
            Keyword::IS => {
                if matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..)) {
                    true
                } else if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
                    let right = parser.parse_subexpr(INNER.prec_value(Precedence::Is))?;
                    return Ok(Some(Expr::IsDistinctFrom(Box::new(expr.clone()), Box::new(right))));
                } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
                    let right = parser.parse_subexpr(INNER.prec_value(Precedence::Is))?;
                    return Ok(Some(Expr::IsNotDistinctFrom(Box::new(expr.clone()), Box::new(right))));
                } else {
                    false
                }
            }
            // NOT is here only before one of the others.
            Keyword::LIKE | Keyword::ILIKE | Keyword::SIMILAR | Keyword::BETWEEN | Keyword::IN | Keyword::NOT => {
                matches!(expr, Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::Between { .. })
            }
            // Of anything, where the parser has it behind some expressions only.
            Keyword::COLLATE => {
                parser.next_token();
                let collation = parser.parse_object_name(false)?;
                return Ok(Some(Expr::Collate { expr: Box::new(expr.clone()), collation }));
            }
            _ if is_isnull(&word.value) => {
                if !matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..)) {
                    parser.next_token();
                    return Ok(Some(Expr::IsNull(Box::new(expr.clone()))));
                }
                true
            }
            Keyword::NOTNULL => matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..)),
            _ => false,
        },
        _ => false,
    };
    if refused {
        return parser.expected_ref("the end of an expression", parser.peek_token_ref());
    }
    quantified(parser, expr)
}

/// A comparison with what a subquery gives: `op ANY|SOME|ALL (SELECT …)`; without a subquery it is left to the parser.
fn quantified(parser: &mut Parser<'_>, expr: &Expr) -> Parsed<Option<Expr>> {
    let word = |at: usize, keywords: &[Keyword]| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => keywords.contains(&word.keyword),
        _ => false,
    };
    let Some(op) = quantifiable(&parser.peek_token_ref().token) else { return Ok(None) };
    let is_subquery = parser.peek_nth_token_ref(2).token == Token::LParen
        && (word(3, &[Keyword::SELECT, Keyword::WITH, Keyword::VALUES]) || is_query_of_queries(parser, 2));
    if !is_subquery || !word(1, &[Keyword::ANY, Keyword::SOME, Keyword::ALL]) {
        return Ok(None);
    }
    let (is_all, is_some) = (word(1, &[Keyword::ALL]), word(1, &[Keyword::SOME]));
    parser.next_token();
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let subquery = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    let (left, right) = (Box::new(expr.clone()), Box::new(Expr::Subquery(subquery)));
    Ok(Some(match is_all {
        true => Expr::AllOp { left, compare_op: op, right },
        false => Expr::AnyOp { left, compare_op: op, right, is_some },
    }))
}

/// The operator of a comparison that may be quantified.
fn quantifiable(token: &Token) -> Option<BinaryOperator> {
    use BinaryOperator as B;
    Some(match token {
        Token::Eq => B::Eq,
        Token::Neq => B::NotEq,
        Token::Lt => B::Lt,
        Token::LtEq => B::LtEq,
        Token::Gt => B::Gt,
        Token::GtEq => B::GtEq,
        Token::Tilde => B::PGRegexMatch,
        Token::TildeAsterisk => B::PGRegexIMatch,
        Token::ExclamationMarkTilde => B::PGRegexNotMatch,
        Token::ExclamationMarkTildeAsterisk => B::PGRegexNotIMatch,
        Token::DoubleTilde => B::PGLikeMatch,
        Token::DoubleTildeAsterisk => B::PGILikeMatch,
        Token::ExclamationMarkDoubleTilde => B::PGNotLikeMatch,
        Token::ExclamationMarkDoubleTildeAsterisk => B::PGNotILikeMatch,
        _ => return None,
    })
}

/// Whether `NOT EXISTS` comes next.
pub(crate) fn is_not_exists(parser: &Parser<'_>) -> bool {
    let word = |at: usize, keyword: Keyword| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => word.quote_style.is_none() && word.keyword == keyword,
        _ => false,
    };
    word(0, Keyword::NOT) && word(1, Keyword::EXISTS)
}

/// `NOT EXISTS (…)`, and what binds stronger than NOT behind it.
pub(crate) fn not_exists(parser: &mut Parser<'_>) -> Parsed<Expr> {
    parser.next_token();
    Ok(match parser.parse_subexpr(INNER.prec_value(Precedence::UnaryNot))? {
        Expr::Exists { subquery, negated: false } => Expr::Exists { subquery, negated: true },
        other => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(other) },
    })
}

/// The parser has no keyword for it.
fn is_isnull(word: &str) -> bool {
    word.eq_ignore_ascii_case("isnull")
}

fn is_comparison(expr: &Expr) -> bool {
    use BinaryOperator as B;
    matches!(expr, Expr::BinaryOp { op: B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq, .. })
}
