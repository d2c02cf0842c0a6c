//! CASE that lacks one of its parts, which the parser takes for a name (`CASE END` is a column with another name to it).
//!
//! Contract: what is found is what PostgreSQL complains of, as long as nothing before that CASE is wrong. ([`Lacking::or`] compares its
//! place with what the parser has to say.) Where it is not clear whether the word is a name (`SELECT 1 case`) nothing is found.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::words::is_word;
use crate::pg::errors::character_position;
use crate::wire::SqlError;

/// The word before a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Case,
    When,
    Then,
    Else,
    End,
}

const WORDS: [(&str, Word); 5] =
    [("case", Word::Case), ("when", Word::When), ("then", Word::Then), ("else", Word::Else), ("end", Word::End)];

/// Words behind which an operand comes.
const BEFORE_OPERAND: [&str; 20] = [
    "select",
    "all",
    "distinct",
    "where",
    "on",
    "having",
    "limit",
    "offset",
    "returning",
    "when",
    "then",
    "else",
    "case",
    "and",
    "or",
    "not",
    "like",
    "ilike",
    "from",
    "default",
];

/// Whether an operand may begin behind that token; `None` if that is not known.
fn is_before_operand(before: Option<&Token>) -> Option<bool> {
    match before {
        None => Some(true),
        Some(Token::Word(word)) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword => Some(false),
        Some(word @ Token::Word(_)) => BEFORE_OPERAND.iter().any(|known| is_word(word, known)).then_some(true),
        Some(Token::RParen | Token::RBracket | Token::Number(..) | Token::SingleQuotedString(_)) => Some(false),
        Some(Token::LParen | Token::LBracket | Token::Comma | Token::SemiColon) => Some(true),
        Some(
            Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::StringConcat,
        ) => Some(true),
        _ => None,
    }
}

/// What is open at a token.
#[derive(Debug)]
enum Open {
    Bracket,
    Case {
        begin: Location,
        /// The last word of it.
        last: Word,
        /// Nothing has come behind that.
        is_empty: bool,
    },
}

/// A CASE that lacks a part.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// Where it begins.
    begin: Option<u32>,
    error: SqlError,
}

impl Lacking {
    /// What there is to tell of a text of which the parser says that.
    pub(crate) fn or<T>(self, parsed: Result<T, SqlError>) -> Result<T, SqlError> {
        match parsed {
            // Something before it, or something else than the syntax, is wrong.
            Err(error) if error.sqlstate != "42601" || error.position.is_some_and(|at| Some(at) <= self.begin) => {
                Err(error)
            }
            _ => Err(self.error),
        }
    }
}

/// The first such CASE.
pub(crate) fn lacking(tokens: &[TokenWithSpan], text: &str) -> Option<Lacking> {
    if !tokens.iter().any(|token| is_word(&token.token, "case")) {
        return None;
    }
    let mut open: Vec<Open> = Vec::new();
    let mut before: Option<&Token> = None;
    // Whether the token before is a name, although it may look like a word of the language.
    let mut was_name = false;
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let last = before.replace(&token.token);
        // Behind these any word is a name.
        let is_name = last.is_some_and(|last| *last == Token::Period || !was_name && is_word(last, "as"));
        let follows_name = std::mem::replace(&mut was_name, is_name);
        let mut word = WORDS.iter().find(|(word, _)| !is_name && is_word(&token.token, word)).map(|(_, word)| *word);
        if word == Some(Word::Case) && (follows_name || is_before_operand(last) == Some(false)) {
            word = None;
        } else if word == Some(Word::Case) && is_before_operand(last).is_none() {
            return None;
        }
        if let Some(Open::Case { begin, last, is_empty }) = open.last()
            && !fits(*last, *is_empty, word, &token.token)
        {
            let position = |at: Location| character_position(text, at.line, at.column);
            let mut error = SqlError::syntax(format!("syntax error at or near \"{}\"", token.token));
            error.position = position(token.span.start);
            return Some(Lacking { begin: position(*begin), error });
        }
        match (word, open.last_mut()) {
            (Some(Word::End), Some(Open::Case { .. })) => {
                open.pop();
                continue;
            }
            (Some(word @ (Word::When | Word::Then | Word::Else)), Some(Open::Case { last, is_empty, .. })) => {
                (*last, *is_empty) = (word, true);
                continue;
            }
            (_, Some(Open::Case { is_empty, .. })) => *is_empty = false,
            _ => {}
        }
        match &token.token {
            _ if word == Some(Word::Case) => {
                open.push(Open::Case { begin: token.span.start, last: Word::Case, is_empty: true });
            }
            Token::LParen | Token::LBracket => open.push(Open::Bracket),
            Token::RParen | Token::RBracket => drop(open.pop()),
            // Another statement.
            Token::SemiColon => open.clear(),
            _ => {}
        }
    }
    None
}

/// Whether a token may be where a CASE has come so far.
fn fits(last: Word, is_empty: bool, word: Option<Word>, token: &Token) -> bool {
    match word {
        Some(Word::When) => last == Word::Case || last == Word::Then && !is_empty,
        Some(Word::Then) => last == Word::When && !is_empty,
        Some(Word::Else) => last == Word::Then && !is_empty,
        Some(Word::End) => matches!(last, Word::Then | Word::Else) && !is_empty,
        Some(Word::Case) => true,
        None => !matches!(token, Token::RParen | Token::RBracket | Token::Comma),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::read::parse_known;

    /// Places as PostgreSQL 15 tells them.
    #[test]
    fn parts_that_lack() {
        for (sql, position) in [
            ("SELECT CASE END", 13),
            ("SELECT CASE WHEN true END", 23),
            ("SELECT CASE 1 END", 15),
            ("SELECT CASE WHEN END", 18),
            ("SELECT CASE ELSE 1 END", 13),
            ("SELECT CASE WHEN true THEN END", 28),
            ("SELECT CASE WHEN true THEN 1 ELSE END", 35),
            ("SELECT CASE 1 WHEN 2 END", 22),
            ("SELECT CASE a END FROM t", 15),
            ("SELECT 1 + CASE END FROM t", 17),
            ("SELECT (CASE END)", 14),
            ("SELECT (CASE WHEN a THEN b)", 27),
            ("SELECT CASE WHEN a THEN b, c", 26),
            ("SELECT CASE CASE END END", 18),
            ("SELECT CASE \"end\" END", 19),
            ("SELECT 'é', CASE\n/* x */ END", 26),
            ("SELECT END", 8),
            // What is wrong first is told.
            ("SELECT a b c, CASE END", 12),
        ] {
            let error = parse_known(sql).expect_err(sql);
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", Some(position)), "{sql}");
        }
        for sql in [
            "SELECT a FROM t WHERE CASE WHEN (SELECT b END) THEN c END",
            "SELECT 1 case, 2",
            "SELECT CASE WHEN true THEN 1 END case, 2",
            "SELECT CASE a WHEN b THEN c ELSE CASE WHEN (d) THEN e END END AS case",
            "SELECT t.case, t.end AS end, 1 AS case FROM t",
            "SELECT CASE WHEN t.end THEN t.then ELSE ARRAY[1, 2] END, \"case\" FROM t",
            "SELECT CASE WHEN a THEN b END; SELECT CASE WHEN f(a, b) THEN (c) ELSE d END",
            "MERGE INTO t USING s ON a = b WHEN MATCHED AND CASE WHEN c THEN d END THEN DELETE",
        ] {
            assert!(parse_known(sql).is_ok(), "{sql}");
        }
    }
}
