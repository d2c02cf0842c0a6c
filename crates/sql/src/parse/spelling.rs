//! PostgreSQL's spellings that the parser does not know, in words that it knows.
//!
//! | written | read as |
//! |---|---|
//! | `TABLE t` | `SELECT * FROM t` |
//! | `trim(LEADING FROM a)` | `trim(LEADING ' ' FROM a)` |
//! | `EXCLUDE NO OTHERS` | nothing: it is the default |
//! | `FROM ONLY t`, `UPDATE ONLY t` | without ONLY: no table inherits |
//! | `ORDER BY a USING <` | `ORDER BY a ASC` |
//! | `f(a, VARIADIC b)` | `f(a, resurgam$variadic(b))` |
//! | `f(a := 1)` | `f(a => 1)` |
//! | `JOIN t USING (a) AS x` | `JOIN t USING (a, resurgam$alias.x)` |
//! | `FROM f(a) AS (b int)` | `FROM f(a) AS f (b int)` |
//! | `substring(a SIMILAR b ESCAPE c)` | `substring(a, b, c)` |
//! | `RANGE BETWEEN '1 day'::interval PRECEDING …` | `RANGE BETWEEN ('1 day'::interval) PRECEDING …` |
//! | `BEGIN … [NOT] DEFERRABLE` | without it: it concerns serializable transactions only |
//! | `SET SCHEMA 'a'` | `SET search_path = 'a'` |
//! | `ABORT` | `ROLLBACK` |
//! | `ROWS FROM (f(a), g(b))` | `resurgam$rows(f(a), g(b))` |
//! | `CREATE TABLE … AS … WITH DATA` | without it: it is the default |
//! | `a OPERATOR(pg_catalog.=) ANY (b)` | `a = ANY (b)` |
//! | `CREATE … TABLESPACE pg_default` | without it: it is the one |
//! | `FETCH FIRST (a) ROWS ONLY` | `LIMIT (a)` |
//! | `FETCH FIRST (1) ROWS WITH TIES` | `FETCH FIRST 1 ROWS WITH TIES` |
//! | `national character varying(3)`, `nchar(3)` as types | `character varying(3)`, `char(3)` |
//! | `int ARRAY`, `varchar(3) ARRAY[4]` | `int[]`, `varchar(3)[4]` |
//! | `CREATE INDEX ON ONLY t` | without ONLY |
//!
//! Clauses of CREATE TABLE and ALTER TABLE are in [`crate::parse::table`].
//!
//! What is put in has the place of what it is for, so positions in errors stay those of the text.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::parse::words::is_word;
use crate::wire::SqlError;

/// The function that stands for VARIADIC before the last argument of a call.
pub(crate) const VARIADIC: &str = "resurgam$variadic";

/// What stands before the alias of the columns of USING, as one of them.
pub(crate) const ALIAS: &str = "resurgam$alias";

/// The function that stands for ROWS FROM.
pub(crate) const ROWS: &str = "resurgam$rows";

/// The tokens with `resurgam$rows(f(), g())` in place of `ROWS FROM (f(), g())`; `None`: there is nothing of the kind. For
/// texts that are not parsed otherwise: `rows` is a name, too, as in `SELECT a, rows FROM (…) t`.
pub(crate) fn rows_from(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let solid: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let begins = |rest: &[&TokenWithSpan]| match rest {
        [rows, from, open, ..] => {
            is_word(&rows.token, "rows") && is_word(&from.token, "from") && open.token == Token::LParen
        }
        _ => false,
    };
    let mut out = Vec::with_capacity(solid.len());
    let (mut at, mut found) = (0, false);
    while let Some(token) = solid.get(at) {
        if begins(&solid[at..]) {
            out.push(word(ROWS, token.span));
            (at, found) = (at + 2, true);
        } else {
            out.push((*token).clone());
            at += 1;
        }
    }
    found.then_some(out)
}

/// Whether there may be anything to do: most texts have none of these words.
fn concerns(token: &Token) -> bool {
    let word = match token {
        Token::Word(word) => word,
        Token::Assignment => return true,
        _ => return false,
    };
    word.quote_style.is_none()
        && (matches!(
            word.keyword,
            Keyword::TABLE
                | Keyword::TRIM
                | Keyword::EXCLUDE
                | Keyword::ONLY
                | Keyword::USING
                | Keyword::VARIADIC
                | Keyword::DEFERRABLE
                | Keyword::SCHEMA
                | Keyword::ABORT
                | Keyword::DATA
                | Keyword::FETCH
                | Keyword::TABLESPACE
                | Keyword::OPERATOR
                | Keyword::ARRAY
                | Keyword::NATIONAL
                | Keyword::NCHAR
                | Keyword::SIMILAR
                | Keyword::PRECEDING
                | Keyword::FOLLOWING
        ) || ["variadic", "abort"].iter().any(|known| word.value.eq_ignore_ascii_case(known)))
}

/// See the module's head.
///
/// # Errors
/// `42883` for `==`, which the parser takes for `=`.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    if tokens.iter().any(|token| token.token == Token::DoubleEq) {
        return Err(SqlError::new("42883", "operator does not exist: =="));
    }
    if !tokens.iter().any(|token| concerns(&token.token)) && !has_list_of_definitions(&tokens) {
        return Ok(tokens);
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut out = Rewritten { tokens: Vec::with_capacity(tokens.len() + 4), first: 0, calls: Vec::new() };
    let mut at = 0;
    while at < tokens.len() {
        at += out.take(&tokens[at..]);
    }
    crate::parse::table::known(out.tokens)
}

struct Rewritten {
    tokens: Vec<TokenWithSpan>,
    /// Where the statement begins.
    first: usize,
    /// For each open parenthesis: whether one more is to be closed before it.
    calls: Vec<bool>,
}

fn of(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan { token, span }
}

/// Where the parenthesis closes that `tokens` begin with.
fn closing(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut open = 0usize;
    tokens.iter().position(|token| {
        match token.token {
            Token::LParen => open += 1,
            Token::RParen => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0
    })
}

/// What begins a statement in parentheses.
const STATEMENTS: [&str; 8] = ["delete", "insert", "merge", "select", "table", "update", "values", "with"];

/// Where the parenthesis closes that `tokens` begin with, if there are names in it and nothing else: columns of USING.
fn names_of_using(tokens: &[TokenWithSpan]) -> Option<usize> {
    if tokens.first()?.token != Token::LParen {
        return None;
    }
    for (at, token) in tokens.iter().enumerate().skip(1) {
        match &token.token {
            Token::Word(_) if at % 2 == 1 && !STATEMENTS.iter().any(|word| is_word(&token.token, word)) => {}
            Token::Comma if at % 2 == 0 => {}
            Token::RParen if at % 2 == 0 => return Some(at),
            _ => return None,
        }
    }
    None
}

/// Whether there may be a list of definitions behind a call that has no alias.
fn has_list_of_definitions(tokens: &[TokenWithSpan]) -> bool {
    let mut last = &Token::EOF;
    let mut is_behind = false;
    for token in tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))) {
        if is_behind && *token == Token::LParen {
            return true;
        }
        is_behind = *last == Token::RParen && is_word(token, "as");
        last = token;
    }
    false
}

/// Where SIMILAR and ESCAPE are among the arguments of `substring`, if that is what it is called with.
fn similar_of(arguments: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let (mut open, mut similar) = (0usize, None);
    for (at, token) in arguments.iter().enumerate() {
        match &token.token {
            Token::LParen => open += 1,
            Token::RParen => open = open.checked_sub(1)?,
            Token::Comma if open == 0 => return None,
            token if open == 0 && is_word(token, "similar") => {
                if arguments.get(at + 1).is_some_and(|next| is_word(&next.token, "to")) {
                    return None;
                }
                similar = Some(at);
            }
            token if open == 0 && is_word(token, "escape") => return similar.map(|similar| (similar, at)),
            _ => {}
        }
    }
    None
}

fn word(text: &str, span: Span) -> TokenWithSpan {
    of(Token::make_word(text, None), span)
}

impl Rewritten {
    /// The token `back` before the end of this statement.
    fn before(&self, back: usize) -> Option<&Token> {
        self.tokens[self.first..].iter().rev().nth(back).map(|token| &token.token)
    }

    fn is_before(&self, back: usize, words: &[&str]) -> bool {
        self.before(back).is_some_and(|token| words.iter().any(|word| is_word(token, word)))
    }

    /// The first word of the statement.
    fn begins_with(&self, words: &[&str]) -> bool {
        let first = self.tokens.get(self.first);
        first.is_some_and(|token| words.iter().any(|word| is_word(&token.token, word)))
    }

    /// Takes the next tokens of `rest`, which is not empty; returns how many.
    fn take(&mut self, rest: &[TokenWithSpan]) -> usize {
        let is = |at: usize, text: &str| rest.get(at).is_some_and(|token| is_word(&token.token, text));
        let has = |at: usize, token: &Token| rest.get(at).is_some_and(|next| next.token == *token);
        let (token, span) = (&rest[0].token, rest[0].span);
        match token {
            Token::SemiColon => {
                self.tokens.push(rest[0].clone());
                self.first = self.tokens.len();
                self.calls.clear();
                return 1;
            }
            Token::LParen => self.calls.push(false),
            Token::RParen if self.calls.pop() == Some(true) => self.tokens.push(of(Token::RParen, span)),
            _ => {}
        }
        let is_named = matches!(rest.get(1).map(|next| &next.token), Some(Token::Word(_)));
        if is(0, "table") && (self.before(0).is_none() || self.is_table_query(is_named)) {
            self.tokens.extend([word("SELECT", span), of(Token::Mul, span), word("FROM", span)]);
            return 1;
        }
        if (is(0, "leading") || is(0, "trailing") || is(0, "both"))
            && is(1, "from")
            && self.before(0) == Some(&Token::LParen)
            && self.is_before(1, &["trim"])
        {
            self.tokens.extend([rest[0].clone(), of(Token::SingleQuotedString(" ".to_owned()), span)]);
            return 1;
        }
        if is(0, "from") && self.before(0) == Some(&Token::LParen) && self.is_before(1, &["trim"]) {
            self.tokens.extend([word("BOTH", span), of(Token::SingleQuotedString(" ".to_owned()), span)]);
            self.tokens.push(rest[0].clone());
            return 1;
        }
        if is(0, "exclude") && is(1, "no") && is(2, "others") {
            return 3;
        }
        if is(0, "only")
            && (self.is_before(0, &["from", "join", "update", "using"])
                || self.is_before(0, &["on"]) && self.is_index())
            && matches!(rest.get(1).map(|next| &next.token), Some(Token::Word(_) | Token::LParen))
        {
            return 1;
        }
        if is(0, "using") && (has(1, &Token::Lt) || has(1, &Token::Gt)) {
            self.tokens.push(word(if has(1, &Token::Lt) { "ASC" } else { "DESC" }, span));
            return 2;
        }
        if is(0, "variadic")
            && matches!(self.before(0), Some(Token::LParen | Token::Comma))
            && let Some(open @ false) = self.calls.last_mut()
        {
            *open = true;
            self.tokens.extend([word(VARIADIC, span), of(Token::LParen, span)]);
            return 1;
        }
        if *token == Token::Assignment
            && !self.calls.is_empty()
            && matches!(self.before(0), Some(Token::Word(_)))
            && matches!(self.before(1), Some(Token::LParen | Token::Comma))
        {
            self.tokens.push(of(Token::RArrow, span));
            return 1;
        }
        // Not in definitions that are kept: their texts are shown.
        if is(0, "using")
            && !self.begins_with(&["create", "alter"])
            && let Some(close) = names_of_using(&rest[1..])
            && is(close + 2, "as")
            && matches!(rest.get(close + 3).map(|next| &next.token), Some(Token::Word(_)))
        {
            let alias = &rest[close + 3];
            self.tokens.extend_from_slice(&rest[..=close]);
            self.tokens.extend([of(Token::Comma, alias.span), word(ALIAS, alias.span), of(Token::Period, alias.span)]);
            self.tokens.extend([alias.clone(), rest[close + 1].clone()]);
            return close + 4;
        }
        if is(0, "as")
            && self.before(0) == Some(&Token::RParen)
            && has(1, &Token::LParen)
            && let (Some(Token::Word(column)), Some(Token::Word(_))) =
                (rest.get(2).map(|next| &next.token), rest.get(3).map(|next| &next.token))
            && (column.quote_style.is_some() || !STATEMENTS.iter().any(|word| is(2, word)))
            && let Some(function) = self.called()
        {
            // As PostgreSQL calls it, too.
            self.tokens.extend([rest[0].clone(), TokenWithSpan { token: function, span }]);
            return 1;
        }
        if is(0, "substring")
            && has(1, &Token::LParen)
            && let Some(close) = closing(&rest[1..])
            && let Some((similar, escape)) = similar_of(&rest[2..=close])
        {
            let mut call = rest[..=close + 1].to_vec();
            for at in [similar, escape] {
                call[2 + at].token = Token::Comma;
            }
            // What is within may have more to rewrite.
            self.tokens.push(call[0].clone());
            let mut at = 1;
            while at < call.len() {
                at += self.take(&call[at..]);
            }
            return close + 2;
        }
        if let Some(length) = self.offset_of_frame(rest) {
            // The parser takes a text there for an interval, and reads nothing behind it.
            self.tokens.push(of(Token::LParen, span));
            self.tokens.extend_from_slice(&rest[..length]);
            self.tokens.push(of(Token::RParen, span));
            return length;
        }
        let (skip, is_deferrable) = if is(0, "not") { (2, is(1, "deferrable")) } else { (1, is(0, "deferrable")) };
        if is_deferrable && self.is_transaction() {
            // The comma before it, or else the one behind it.
            if self.before(0) == Some(&Token::Comma) {
                self.tokens.pop();
                return skip;
            }
            return skip + usize::from(has(skip, &Token::Comma));
        }
        if is(0, "schema")
            && matches!(rest.get(1).map(|next| &next.token), Some(Token::SingleQuotedString(_)))
            && (self.is_before(0, &["set"]) || self.is_before(0, &["session", "local"]) && self.is_before(1, &["set"]))
            && self.begins_with(&["set"])
        {
            self.tokens.extend([word("search_path", span), of(Token::Eq, span)]);
            return 1;
        }
        if is(0, "abort") && self.before(0).is_none() {
            self.tokens.push(word("ROLLBACK", span));
            return 1;
        }
        if is(0, "with")
            && is(1, "data")
            && matches!(rest.get(2).map(|next| &next.token), None | Some(Token::SemiColon | Token::EOF))
            && self.begins_with(&["create"])
        {
            return 2;
        }
        if is(0, "national") && (is(1, "character") || is(1, "char")) {
            return 1;
        }
        if is(0, "nchar") && self.is_type_place() {
            self.tokens.push(word("char", span));
            return 1;
        }
        if is(0, "array") && self.is_type_before() {
            if !has(1, &Token::LBracket) {
                self.tokens.extend([of(Token::LBracket, span), of(Token::RBracket, span)]);
            }
            return 1;
        }
        if is(0, "operator")
            && has(1, &Token::LParen)
            && is(2, "pg_catalog")
            && has(3, &Token::Period)
            && has(5, &Token::RParen)
            && ["any", "some", "all"].iter().any(|quantifier| is(6, quantifier))
        {
            self.tokens.push(rest[4].clone());
            return 6;
        }
        if is(0, "tablespace")
            && is(1, "pg_default")
            && self.begins_with(&["create"])
            && !self.is_before(0, &["create"])
        {
            return 2;
        }
        if is(0, "fetch")
            && (is(1, "first") || is(1, "next"))
            && has(2, &Token::LParen)
            && let Some(close) = closing(&rest[2..])
        {
            let (count, behind) = (&rest[2..=2 + close], 2 + close + 1);
            let is_rows = is(behind, "row") || is(behind, "rows");
            if is_rows && is(behind + 1, "only") {
                self.tokens.push(word("LIMIT", span));
                self.tokens.extend_from_slice(count);
                return behind + 2;
            }
            if is_rows && is(behind + 1, "with") && count.len() == 3 {
                self.tokens.extend_from_slice(&rest[..2]);
                self.tokens.push(count[1].clone());
                return behind;
            }
        }
        self.tokens.push(rest[0].clone());
        1
    }

    /// How many tokens an offset of a window's frame has that begins with a text, if that is what `rest` begins with.
    fn offset_of_frame(&self, rest: &[TokenWithSpan]) -> Option<usize> {
        if !matches!(rest[0].token, Token::SingleQuotedString(_))
            || !self.is_before(0, &["between", "and", "range", "rows", "groups"])
        {
            return None;
        }
        let mut open = 0usize;
        for (at, token) in rest.iter().enumerate() {
            match &token.token {
                Token::LParen => open += 1,
                Token::RParen => open = open.checked_sub(1)?,
                Token::SemiColon | Token::Comma if open == 0 => return None,
                token if open == 0 && (is_word(token, "preceding") || is_word(token, "following")) => return Some(at),
                // It goes no further than the next bound, or what is no frame.
                token if open == 0 && ["and", "or", "then", "from"].iter().any(|word| is_word(token, word)) => {
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// The name of the function whose call ends here, if that is what ends here.
    fn called(&self) -> Option<Token> {
        let mut open = 0usize;
        for (at, token) in self.tokens[self.first..].iter().enumerate().rev() {
            match &token.token {
                Token::RParen => open += 1,
                Token::LParen => open = open.checked_sub(1)?,
                _ => {}
            }
            if open == 0 {
                let before = at.checked_sub(1).and_then(|at| self.tokens.get(self.first + at))?;
                let is_named = matches!(&before.token, Token::Word(word)
                    if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword);
                return is_named.then(|| before.token.clone());
            }
        }
        None
    }

    /// Whether the statement is CREATE INDEX.
    fn is_index(&self) -> bool {
        self.begins_with(&["create"])
            && self.tokens[self.first..].iter().skip(1).take(2).any(|token| is_word(&token.token, "index"))
    }

    /// Whether a type stands here: behind `::`, or behind the name of a column that is defined.
    fn is_type_place(&self) -> bool {
        // `ADD nchar int`, `DROP nchar`: the name of a column.
        const NO_NAMES: [&str; 8] = ["add", "alter", "as", "column", "drop", "exists", "rename", "select"];
        if self.before(0) == Some(&Token::DoubleColon) {
            return true;
        }
        self.begins_with(&["create", "alter"])
            && matches!(self.before(0), Some(Token::Word(_)))
            && !self.is_before(0, &NO_NAMES)
            && (matches!(self.before(1), Some(Token::LParen | Token::Comma))
                || self.is_before(1, &["add", "column", "exists"])
                || self.is_before(0, &["type"]))
    }

    /// Whether a type is what stands before: its name, and maybe its length.
    fn is_type_before(&self) -> bool {
        // A constructor, ARRAY[1], stands behind none of these.
        const TYPES: [&str; 34] = [
            "bigint",
            "bit",
            "bool",
            "boolean",
            "bpchar",
            "bytea",
            "char",
            "character",
            "cidr",
            "date",
            "decimal",
            "float",
            "float4",
            "float8",
            "inet",
            "int",
            "int2",
            "int4",
            "int8",
            "integer",
            "interval",
            "json",
            "jsonb",
            "numeric",
            "precision",
            "real",
            "smallint",
            "text",
            "time",
            "timestamp",
            "timestamptz",
            "uuid",
            "varchar",
            "varying",
        ];
        if self.is_before(0, &TYPES) || self.is_before(0, &["zone"]) && self.is_before(1, &["time"]) {
            return true;
        }
        let back = match (self.before(0), self.before(2), self.before(4)) {
            (Some(Token::RParen), Some(Token::LParen), _) => 3,
            (Some(Token::RParen), Some(Token::Comma), Some(Token::LParen)) => 5,
            _ => return false,
        };
        matches!(self.before(1), Some(Token::Number(..))) && self.is_before(back, &TYPES)
    }

    /// Whether TABLE here begins a query; `is_named`: a word is behind it. The word is reserved, but is a name behind AS and a
    /// point.
    fn is_table_query(&self, is_named: bool) -> bool {
        const BEFORE: [&str; 5] = ["union", "except", "intersect", "all", "explain"];
        if self.is_before(0, &BEFORE) || self.before(0) == Some(&Token::LParen) {
            return true;
        }
        if self.begins_with(&["create", "prepare"]) {
            // Behind the statement's own AS, or WITH queries behind that.
            let all = self.tokens[self.first..].iter().filter(|token| is_word(&token.token, "as")).count();
            let behind_with = self.before(0) == Some(&Token::RParen)
                && self.tokens[self.first..]
                    .windows(2)
                    .any(|two| is_word(&two[0].token, "as") && is_word(&two[1].token, "with"));
            return is_named && (all == 1 && self.is_before(0, &["as"]) || behind_with);
        }
        let is_name = self.is_before(0, &["as", "into"]) || self.before(0) == Some(&Token::Period);
        let behind_explain = self.before(0) == Some(&Token::RParen) || self.is_before(0, &["analyze", "verbose"]);
        is_named
            && !is_name
            && (self.begins_with(&["insert", "with"]) || self.begins_with(&["explain"]) && behind_explain)
    }

    /// Whether the statement is BEGIN, START TRANSACTION, or SET … TRANSACTION.
    fn is_transaction(&self) -> bool {
        self.begins_with(&["begin", "start"])
            || self.begins_with(&["set"])
                && self.tokens[self.first..].iter().any(|token| is_word(&token.token, "transaction"))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn known_text(text: &str) -> Option<Vec<TokenWithSpan>> {
        known(Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?).ok()
    }

    #[test]
    fn spellings() {
        for (text, wanted) in [
            ("SELECT f(a := 1, \"B\" := 2)", "SELECT f ( a => 1 , \"B\" => 2 )"),
            (
                "SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN '1 day'::interval PRECEDING AND '2' FOLLOWING)",
                "SELECT sum ( a ) OVER ( ORDER BY b RANGE BETWEEN ( '1 day' :: interval ) PRECEDING AND ( '2' ) FOLLOWING )",
            ),
            ("SELECT a BETWEEN 'x' AND 'y', preceding FROM t", "SELECT a BETWEEN 'x' AND 'y' , preceding FROM t"),
            ("SELECT * FROM t JOIN u USING (a, b) AS x", "SELECT * FROM t JOIN u USING ( a , b , resurgam$alias . x )"),
            (
                "DELETE FROM t USING (SELECT 1) AS x WHERE a USING (b) c",
                "DELETE FROM t USING ( SELECT 1 ) AS x WHERE a USING ( b ) c",
            ),
            ("SELECT * FROM f(g(1)) AS (a int, b text)", "SELECT * FROM f ( g ( 1 ) ) AS f ( a int , b text )"),
            (
                "WITH w (a) AS (SELECT b FROM t) SELECT * FROM f(1) AS x (a int)",
                "WITH w ( a ) AS ( SELECT b FROM t ) SELECT * FROM f ( 1 ) AS x ( a int )",
            ),
            (
                "SELECT f(1) x, rank() OVER w FROM t WINDOW w AS (PARTITION BY a)",
                "SELECT f ( 1 ) x , rank ( ) OVER w FROM t WINDOW w AS ( PARTITION BY a )",
            ),
            ("CREATE VIEW v (a) AS (TABLE t)", "CREATE VIEW v ( a ) AS ( SELECT * FROM t )"),
            ("SELECT substring(a SIMILAR b || 'c' ESCAPE '#')", "SELECT substring ( a , b || 'c' , '#' )"),
            (
                "SELECT substring(a FROM 2), b SIMILAR TO c ESCAPE d",
                "SELECT substring ( a FROM 2 ) , b SIMILAR TO c ESCAPE d",
            ),
            ("TABLE t; (table u)", "SELECT * FROM t ; ( SELECT * FROM u )"),
            ("CREATE TABLE t (a int)", "CREATE TABLE t ( a int )"),
            ("CREATE TABLE t AS TABLE u WITH DATA;", "CREATE TABLE t AS SELECT * FROM u ;"),
            (
                "CREATE VIEW v AS SELECT a AS table FROM t; PREPARE p AS TABLE t",
                "CREATE VIEW v AS SELECT a AS table FROM t ; PREPARE p AS SELECT * FROM t",
            ),
            (
                "CREATE TABLE t AS WITH w AS (SELECT 1) TABLE w; CREATE TABLE t (a int)",
                "CREATE TABLE t AS WITH w AS ( SELECT 1 ) SELECT * FROM w ; CREATE TABLE t ( a int )",
            ),
            (
                "INSERT INTO t (a) TABLE u; INSERT INTO t TABLE u; INSERT INTO t SELECT a AS table FROM u",
                "INSERT INTO t ( a ) SELECT * FROM u ; INSERT INTO t SELECT * FROM u ; \
                INSERT INTO t SELECT a AS table FROM u",
            ),
            (
                "EXPLAIN CREATE TABLE t AS SELECT 1; EXPLAIN (COSTS off) TABLE t",
                "EXPLAIN CREATE TABLE t AS SELECT 1 ; EXPLAIN ( COSTS off ) SELECT * FROM t",
            ),
            ("SELECT a INTO TABLE t FROM u; TRUNCATE TABLE t", "SELECT a INTO TABLE t FROM u ; TRUNCATE TABLE t"),
            (
                "SELECT trim(leading FROM a), trim(FROM b)",
                "SELECT trim ( leading ' ' FROM a ) , trim ( BOTH ' ' FROM b )",
            ),
            ("SELECT f(1, VARIADIC g(a, b)) FROM ONLY t", "SELECT f ( 1 , resurgam$variadic ( g ( a , b ) ) ) FROM t"),
            (
                "SELECT a FROM t JOIN u USING (a) ORDER BY a USING >",
                "SELECT a FROM t JOIN u USING ( a ) ORDER BY a DESC",
            ),
            ("BEGIN READ ONLY, NOT DEFERRABLE", "BEGIN READ ONLY"),
            ("BEGIN DEFERRABLE, READ ONLY", "BEGIN READ ONLY"),
            ("ADD UNIQUE (a) DEFERRABLE", "ADD UNIQUE ( a ) DEFERRABLE"),
            ("SET SCHEMA 'x'; abort", "SET search_path = 'x' ; ROLLBACK"),
            ("FETCH FIRST 1 ROW ONLY", "FETCH FIRST 1 ROW ONLY"),
            ("FETCH FIRST (1 + (2)) ROWS ONLY FOR UPDATE", "LIMIT ( 1 + ( 2 ) ) FOR UPDATE"),
            ("a OPERATOR(pg_catalog.=) ANY (b)", "a = ANY ( b )"),
            ("CREATE INDEX i ON t (a) TABLESPACE pg_default WHERE b", "CREATE INDEX i ON t ( a ) WHERE b"),
            ("FETCH NEXT (3) ROWS WITH TIES", "FETCH NEXT 3 ROWS WITH TIES"),
            (
                "CREATE TABLE t (a national character varying(3), nchar nchar(2), PRIMARY KEY (nchar))",
                "CREATE TABLE t ( a character varying ( 3 ) , nchar char ( 2 ) , PRIMARY KEY ( nchar ) )",
            ),
            (
                "ALTER TABLE t ADD nchar int, ADD b nchar, DROP nchar",
                "ALTER TABLE t ADD nchar int , ADD b char , DROP nchar",
            ),
            ("SELECT nchar, a::nchar(3) FROM t", "SELECT nchar , a :: char ( 3 ) FROM t"),
            (
                "SELECT a::int ARRAY, b::numeric(3,2) array[4], ARRAY[1], f(2) || ARRAY[3]",
                "SELECT a :: int [ ] , b :: numeric ( 3 , 2 ) [ 4 ] , ARRAY [ 1 ] , f ( 2 ) || ARRAY [ 3 ]",
            ),
            (
                "CREATE INDEX i ON ONLY t (a); CREATE TABLE t (a) AS SELECT 1",
                "CREATE INDEX i ON t ( a ) ; \
                CREATE TABLE t ( a resurgam$column ) AS SELECT 1",
            ),
        ] {
            let tokens = known_text(text).expect("tokens");
            let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            let shown: Vec<String> = tokens.map(|token| token.token.to_string()).collect();
            assert_eq!(shown.join(" "), wanted);
        }
        assert!(known_text("SELECT 1 == 1").is_none());
    }
}
