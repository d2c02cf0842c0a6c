//! Which words are keywords: PostgreSQL's (`src/include/parser/kwlist.h`), not those of all the dialects that the parser knows.
//!
//! - Words that PostgreSQL has no use for (`top`, `minus`, `sort`, `qualify`, …) are names everywhere.
//! - Behind a dot every word is a name: `t.user`, `t.true`.
//! - `exists`, `trim`, `interval`, `cube`, `rollup` and `unnest` are names unless what makes them more follows.
//! - An alias without AS may be any word but PostgreSQL's few that need it (of a column), or that are reserved (of a table).

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::keywords::{self, Keyword};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Keywords of other dialects, which the parser would act upon.
const FOREIGN: &[Keyword] = &[
    Keyword::ANTI,
    Keyword::ASOF,
    Keyword::DIRECTORY,
    Keyword::DISTRIBUTE,
    Keyword::DIV,
    Keyword::MATCH_CONDITION,
    Keyword::MATCH_RECOGNIZE,
    Keyword::MEMBER,
    Keyword::MINUS,
    Keyword::OPEN,
    Keyword::OUTPUT,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::QUALIFY,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::SORT,
    Keyword::TOP,
    Keyword::UNPIVOT,
    Keyword::XOR,
];

/// PostgreSQL's words that are no alias of a column without AS (`AS_LABEL` in its list).
const NEED_AS: &[Keyword] = &[
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::CREATE,
    Keyword::DAY,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FILTER,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::HOUR,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::NOTNULL,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::OVER,
    Keyword::OVERLAPS,
    Keyword::PRECISION,
    Keyword::RETURNING,
    Keyword::SECOND,
    Keyword::TO,
    Keyword::UNION,
    Keyword::VARYING,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];

/// Words that the parser takes for no alias of a table, and PostgreSQL does. (SET and VALUES are not among them: in UPDATE and INSERT they begin
/// something else, of which the parser knows nothing here.)
const TABLE_ALIASES: &[Keyword] = &[
    Keyword::CLUSTER,
    Keyword::CONNECT,
    Keyword::EXPLAIN,
    Keyword::FORMAT,
    Keyword::GLOBAL,
    Keyword::PARTITION,
    Keyword::START,
    Keyword::VIEW,
];

/// The tokens with the words that are names as such.
pub fn as_postgresql(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut behind_dot = false;
    for at in 0..tokens.len() {
        if is_blank(&tokens[at]) {
            continue;
        }
        let dot = std::mem::replace(&mut behind_dot, tokens[at].token == Token::Period);
        let Token::Word(Word { keyword, quote_style: None, .. }) = tokens[at].token else { continue };
        let name = dot
            || FOREIGN.contains(&keyword)
            || matches!(keyword, Keyword::CUBE | Keyword::ROLLUP | Keyword::UNNEST)
                && tokens[at + 1..]
                    .iter()
                    .find(|token| !is_blank(token))
                    .is_none_or(|next| next.token != Token::LParen);
        if name && let Token::Word(word) = &mut tokens[at].token {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// Whether an expression begins with a word that is a name there, which the parser takes for more.
pub(crate) fn is_name(parser: &Parser<'_>) -> bool {
    let Token::Word(word) = &parser.peek_token_ref().token else { return false };
    let next = &parser.peek_nth_token_ref(1).token;
    word.quote_style.is_none()
        && match word.keyword {
            Keyword::EXISTS | Keyword::TRIM => *next != Token::LParen,
            Keyword::INTERVAL => !matches!(
                next,
                Token::LParen
                    | Token::SingleQuotedString(_)
                    | Token::EscapedStringLiteral(_)
                    | Token::UnicodeStringLiteral(_)
                    | Token::DollarQuotedString(_)
                    | Token::Placeholder(_)
                    | Token::Number(..)
            ),
            _ => false,
        }
}

/// That name.
pub(crate) fn name(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::Word(Word { value, .. }) => Ok(Expr::Identifier(Ident::with_span(token.span, value))),
        _ => parser.expected("a name", token),
    }
}

/// Whether a word is an alias of a column without AS.
pub(crate) fn is_column_alias(keyword: Keyword) -> bool {
    !NEED_AS.contains(&keyword)
}

/// Whether a word is an alias of a table without AS.
pub(crate) fn is_table_alias(keyword: Keyword) -> bool {
    TABLE_ALIASES.contains(&keyword) || !keywords::RESERVED_FOR_TABLE_ALIAS.contains(&keyword)
}
