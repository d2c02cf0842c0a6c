//! Reading a DO statement and its block.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::{Own, Parsed};
use crate::parse::read;
use crate::parse::words::{Words, first_word, is_word};
use crate::pg::conditions;
use crate::wire::SqlError;

/// Blocks and IFs within each other.
const DEPTH_MAX: u32 = 64;

/// Statements of PL/pgSQL that are not there, by their first words.
const REFUSED: &[&str] = &[
    "declare", "case", "loop", "while", "for", "foreach", "exit", "continue", "open", "fetch", "move", "close", "get",
    "assert", "commit", "rollback",
];

/// `DO [LANGUAGE name] 'block'`, behind DO.
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let (mut code, mut language): (Option<String>, Option<String>) = (None, None);
    while !words.is_at_end() {
        if language.is_none() && words.take_word("language") {
            language = Some(match words.peek() {
                Some(Token::SingleQuotedString(name)) => {
                    let name = name.clone();
                    words.next();
                    name
                }
                _ => words.name()?,
            });
            continue;
        }
        let text = match words.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(words.unexpected()),
        };
        if code.is_some() {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
        words.next();
        code = Some(text);
    }
    let Some(code) = code else { return Err(SqlError::syntax("no inline code specified")) };
    match language.as_deref() {
        None | Some("plpgsql") => {}
        Some(name @ ("sql" | "internal" | "c")) => {
            let text = format!("language \"{name}\" does not support inline code execution");
            return Err(SqlError::unsupported(text));
        }
        Some(name) => return Err(SqlError::new("42704", format!("language \"{name}\" does not exist"))),
    }
    // Places are those of the block, which is not the text that the client has sent.
    let block = read(&code).map_err(|mut error| {
        error.position = None;
        error
    })?;
    Ok(Own::Do(Box::new(DoBlock(block))))
}

fn read(code: &str) -> Result<Block, SqlError> {
    let Some(words) = Words::of_block(code) else { return Err(SqlError::syntax("the block cannot be read")) };
    let mut reader = Reader { words, depth: 0 };
    if reader.words.peek() == Some(&Token::ShiftLeft) {
        return Err(SqlError::unsupported("labels of blocks are not supported"));
    }
    if reader.words.peek().is_some_and(|token| is_word(token, "declare")) {
        return Err(SqlError::unsupported("DECLARE in DO is not supported"));
    }
    if !reader.words.take_word("begin") {
        return Err(reader.words.unexpected());
    }
    let block = reader.block()?;
    reader.words.take(&Token::SemiColon);
    reader.words.expect_end()?;
    Ok(block)
}

struct Reader<'t> {
    words: Words<'t>,
    depth: u32,
}

impl Reader<'_> {
    /// Behind BEGIN.
    fn block(&mut self) -> Result<Block, SqlError> {
        let steps = self.steps(&["exception", "end"])?;
        let mut handlers = Vec::new();
        if self.words.take_word("exception") {
            while self.words.take_word("when") {
                let mut conditions = self.condition()?;
                while self.words.take_word("or") {
                    conditions.extend(self.condition()?);
                }
                if !self.words.take_word("then") {
                    return Err(self.words.unexpected());
                }
                handlers.push(Handler { conditions, steps: self.steps(&["when", "end"])? });
            }
            if handlers.is_empty() {
                return Err(self.words.unexpected());
            }
        }
        if !self.words.take_word("end") {
            return Err(self.words.unexpected());
        }
        Ok(Block { steps, handlers })
    }

    fn condition(&mut self) -> Result<Vec<Condition>, SqlError> {
        if self.words.take_word("sqlstate") {
            let code = match self.words.peek() {
                Some(Token::SingleQuotedString(code))
                    if code.len() == 5 && code.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()) =>
                {
                    code.clone()
                }
                _ => return Err(SqlError::syntax("invalid SQLSTATE code")),
            };
            if matches!(code.as_str(), "57014" | "57000") {
                return Err(SqlError::unsupported("handling query_canceled is not supported"));
            }
            self.words.next();
            return Ok(vec![Condition::Code(code)]);
        }
        let name = self.words.name()?;
        if name == "others" {
            return Ok(vec![Condition::Others]);
        }
        if matches!(name.as_str(), "query_canceled" | "operator_intervention") {
            return Err(SqlError::unsupported(format!("handling {name} is not supported")));
        }
        let codes: Vec<_> = conditions::by_name(&name).map(|code| Condition::Code(code.to_owned())).collect();
        if codes.is_empty() {
            return Err(SqlError::new("42704", format!("unrecognized exception condition \"{name}\"")));
        }
        Ok(codes)
    }

    /// Statements up to one of these words, which stays.
    fn steps(&mut self, until: &[&str]) -> Result<Vec<Step>, SqlError> {
        let mut steps = Vec::new();
        loop {
            match self.words.peek() {
                None => return Err(self.words.unexpected()),
                Some(token) if until.iter().any(|word| is_word(token, word)) => return Ok(steps),
                Some(_) => {
                    let line = self.words.line();
                    steps.push(Step { line, what: self.step()? });
                }
            }
        }
    }

    fn step(&mut self) -> Result<What, SqlError> {
        let words = &mut self.words;
        if words.peek() == Some(&Token::ShiftLeft) {
            return Err(SqlError::unsupported("labels of blocks are not supported"));
        }
        let refused = REFUSED.iter().find(|word| words.peek().is_some_and(|token| is_word(token, word)));
        if let Some(word) = refused {
            return Err(SqlError::unsupported(format!("{} in DO is not supported", word.to_ascii_uppercase())));
        }
        if words.take_word("null") {
            return self.ended(What::Null);
        }
        if words.take_word("return") {
            return self.ended(What::Return);
        }
        if words.take_word("begin") {
            let block = self.deeper(Self::block)?;
            return self.ended(What::Block(block));
        }
        if words.take_word("if") {
            return self.deeper(Self::cases);
        }
        if words.take_word("perform") {
            let text = format!("SELECT {}", self.until(&[])?);
            read::parse_one(&text)?;
            return self.ended(What::Perform(text));
        }
        if words.take_word("execute") {
            let text = self.until(&["into", "using"])?;
            self.refuse_words("EXECUTE", &["into", "using"])?;
            return self.ended(What::Execute(expression(&text)?));
        }
        if words.take_word("raise") {
            return self.raise();
        }
        let text = self.until(&[])?;
        check(&text)?;
        self.ended(What::Sql(text))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, SqlError>) -> Result<T, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new("54001", format!("more than {DEPTH_MAX} blocks are within each other")));
        }
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn ended(&mut self, what: What) -> Result<What, SqlError> {
        if self.words.take(&Token::SemiColon) { Ok(what) } else { Err(self.words.unexpected()) }
    }

    /// Behind IF.
    fn cases(&mut self) -> Result<What, SqlError> {
        let mut cases = Vec::new();
        loop {
            let condition = expression(&self.until(&["then"])?)?;
            if !self.words.take_word("then") {
                return Err(self.words.unexpected());
            }
            cases.push((condition, self.steps(&["elsif", "elseif", "else", "end"])?));
            if !(self.words.take_word("elsif") || self.words.take_word("elseif")) {
                break;
            }
        }
        let other = if self.words.take_word("else") { self.steps(&["end"])? } else { Vec::new() };
        if !self.words.take_words(&["end", "if"]) {
            return Err(self.words.unexpected());
        }
        self.ended(What::If(cases, other))
    }

    /// Behind RAISE.
    fn raise(&mut self) -> Result<What, SqlError> {
        const LEVELS: [&str; 6] = ["DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "EXCEPTION"];
        let level = LEVELS.into_iter().find(|level| self.words.take_word(level)).unwrap_or("EXCEPTION");
        let format = match self.words.peek() {
            Some(Token::SingleQuotedString(format) | Token::EscapedStringLiteral(format)) => format.clone(),
            Some(Token::DollarQuotedString(format)) => format.value.clone(),
            _ => return Err(SqlError::unsupported("RAISE without a text is not supported")),
        };
        self.words.next();
        let mut values = Vec::new();
        while self.words.take(&Token::Comma) {
            values.push(expression(&self.until(&[",", "using"])?)?);
        }
        self.refuse_words("RAISE", &["using"])?;
        let places = format.replace("%%", "").matches('%').count();
        if places != values.len() {
            let few = if places > values.len() { "few" } else { "many" };
            return Err(SqlError::syntax(format!("too {few} parameters specified for RAISE")));
        }
        self.ended(What::Raise(level, format, values))
    }

    fn refuse_words(&self, of: &str, words: &[&str]) -> Result<(), SqlError> {
        match words.iter().find(|word| self.words.peek().is_some_and(|token| is_word(token, word))) {
            Some(word) => {
                let text = format!("{of} … {} in DO is not supported", word.to_ascii_uppercase());
                Err(SqlError::unsupported(text))
            }
            None => Ok(()),
        }
    }

    /// The text up to the semicolon, or to one of these words (or a comma) outside of parentheses.
    fn until(&mut self, ends: &[&str]) -> Result<String, SqlError> {
        let begin = self.words.mark();
        let (mut open, mut cases, mut is_atomic, mut before_was_begin) = (0usize, 0usize, false, false);
        while let Some(token) = self.words.peek() {
            match token {
                Token::LParen | Token::LBracket => open += 1,
                Token::RParen | Token::RBracket => open = open.saturating_sub(1),
                Token::SemiColon if open == 0 && !is_atomic => break,
                Token::Comma if open == 0 && cases == 0 && ends.contains(&",") => break,
                token if is_word(token, "case") => cases += 1,
                token if is_word(token, "end") && cases > 0 => cases -= 1,
                token if is_word(token, "end") => is_atomic = false,
                token if before_was_begin && is_word(token, "atomic") => is_atomic = true,
                token if open == 0 && cases == 0 && ends.iter().any(|end| is_word(token, end)) => break,
                _ => {}
            }
            before_was_begin = is_word(token, "begin");
            self.words.next();
        }
        match self.words.between(begin, self.words.mark()) {
            "" => Err(self.words.unexpected()),
            text => Ok(text.to_owned()),
        }
    }
}

/// An expression, as a query of one column.
fn expression(text: &str) -> Result<String, SqlError> {
    const VARIABLES: [&str; 3] = ["found", "sqlerrm", "sqlstate"];
    let words = Words::of_block(text);
    let named = |name: &&str| words.as_ref().is_some_and(|words| words.rest().any(|token| is_word(token, name)));
    if let Some(name) = VARIABLES.iter().find(|name| named(name)) {
        return Err(SqlError::unsupported(format!("{} in DO is not supported", name.to_ascii_uppercase())));
    }
    let query = format!("SELECT ({text})");
    read::parse_one(&query)?;
    Ok(query)
}

/// Refuses what is no statement, and what PL/pgSQL does not let a block do.
pub(crate) fn check(text: &str) -> Result<(), SqlError> {
    let first = first_word(text);
    let parsed = read::parse_one(text)?;
    // (The parser takes it for a table that is made.)
    if let Some(Parsed::Known(Statement::CreateTable(_))) = &parsed
        && first != "create"
    {
        return Err(SqlError::unsupported("SELECT … INTO a variable in DO is not supported"));
    }
    match parsed {
        None => Err(SqlError::syntax("a statement is missing")),
        Some(Parsed::Known(
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. },
        )) => Err(SqlError::unsupported("unsupported transaction command in PL/pgSQL")),
        Some(Parsed::Known(Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. })) => {
            Err(SqlError::unsupported("prepared statements in DO are not supported"))
        }
        Some(Parsed::Own(own)) if is_refused(&own) => {
            Err(SqlError::unsupported(format!("{} in DO is not supported", first.to_ascii_uppercase())))
        }
        Some(_) => Ok(()),
    }
}

/// Whether it is a statement that a block cannot run: of the protocol, of cursors, or about the end of transactions.
pub(crate) fn is_refused(own: &Own) -> bool {
    matches!(
        own,
        Own::Copy(_)
            | Own::Do(_)
            | Own::Declare(_)
            | Own::Fetch(_)
            | Own::Close(_)
            | Own::PrepareTransaction { .. }
            | Own::CommitPrepared { .. }
            | Own::RollbackPrepared { .. }
    )
}

/// A block that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DoBlock(pub Block);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
    pub handlers: Vec<Handler>,
}

/// `WHEN conditions THEN steps`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handler {
    pub conditions: Vec<Condition>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Others,
    /// Of that SQLSTATE, or of its class.
    Code(String),
}

/// A statement, and the line of the block that it begins in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub line: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Null,
    Return,
    Block(Block),
    /// Conditions with what is done, in order; ELSE.
    If(Vec<(String, Vec<Step>)>, Vec<Step>),
    Sql(String),
    /// A query whose rows nobody wants.
    Perform(String),
    /// An expression that is the text of a statement.
    Execute(String),
    /// Severity, text with `%` for each of the expressions.
    Raise(&'static str, String, Vec<String>),
}

impl What {
    /// What PostgreSQL calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Return => "RETURN",
            Self::Block(_) => "statement block",
            Self::If(..) => "IF",
            Self::Sql(_) => "SQL statement",
            Self::Perform(_) => "PERFORM",
            Self::Execute(_) => "EXECUTE",
            Self::Raise(..) => "RAISE",
        }
    }
}
