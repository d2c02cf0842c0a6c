//! CREATE, ALTER, DROP and COMMENT ON DATABASE, from their words.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::statement::user_type::quoted;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// The statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DatabaseStatement {
    Create { name: String, options: Options },
    Alter { name: String, options: Options },
    Rename { name: String, to: String },
    Drop { name: String, if_exists: bool, force: bool },
    Comment { name: String, comment: Option<String> },
}

/// What is said of a database. Within `Some`, `None` is DEFAULT.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub owner: Option<Option<String>>,
    pub template: Option<Option<String>>,
    pub encoding: Option<Option<Value>>,
    pub strategy: Option<Option<String>>,
    pub locale: Option<Option<String>>,
    pub collate: Option<Option<String>>,
    pub ctype: Option<Option<String>>,
    pub icu_locale: Option<Option<String>>,
    pub provider: Option<Option<String>>,
    pub collation_version: Option<Option<String>>,
    pub tablespace: Option<Option<String>>,
    pub oid: Option<Option<i64>>,
    pub allow_connections: Option<Option<bool>>,
    pub connection_limit: Option<Option<i64>>,
    pub is_template: Option<Option<bool>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(i64),
    Text(String),
}

/// Reads one, whose first two words (three of COMMENT) are taken. `None`: it is something else.
pub(crate) fn parse(first: &str, words: &mut Words<'_>) -> Option<Result<Own, SqlError>> {
    let statement = match first {
        "create" => create(words),
        "drop" => drop_(words),
        "comment" => comment(words),
        _ => alter(words)?,
    };
    Some(statement.and_then(|statement| words.expect_end().map(|()| Own::Database(Box::new(statement)))))
}

fn create(words: &mut Words<'_>) -> Result<DatabaseStatement, SqlError> {
    let name = words.name()?;
    words.take_word("with");
    let mut options = Options::default();
    while !words.is_at_end() {
        options.take(words, true)?;
    }
    Ok(DatabaseStatement::Create { name, options })
}

fn drop_(words: &mut Words<'_>) -> Result<DatabaseStatement, SqlError> {
    let if_exists = words.take_words(&["if", "exists"]);
    let name = words.name()?;
    words.take_word("with");
    let mut force = false;
    if words.take(&Token::LParen) {
        loop {
            if !words.take_word("force") {
                return Err(words.unexpected());
            }
            force = true;
            if !words.take(&Token::Comma) {
                break;
            }
        }
        if !words.take(&Token::RParen) {
            return Err(words.unexpected());
        }
    }
    Ok(DatabaseStatement::Drop { name, if_exists, force })
}

fn comment(words: &mut Words<'_>) -> Result<DatabaseStatement, SqlError> {
    let name = words.name()?;
    if !words.take_word("is") {
        return Err(words.unexpected());
    }
    let comment = if words.take_word("null") { None } else { Some(quoted(words)?) };
    Ok(DatabaseStatement::Comment { name, comment })
}

/// Settings and the owner are read elsewhere.
fn alter(words: &mut Words<'_>) -> Option<Result<DatabaseStatement, SqlError>> {
    let name = words.name().ok()?;
    if words.take_words(&["rename", "to"]) {
        return Some(words.name().map(|to| DatabaseStatement::Rename { name, to }));
    }
    if words.take_words(&["refresh", "collation", "version"]) {
        return Some(Err(SqlError::unsupported("ALTER DATABASE … REFRESH COLLATION VERSION is not supported")));
    }
    if words.take_words(&["set", "tablespace"]) {
        return Some(Err(SqlError::unsupported("ALTER DATABASE … SET TABLESPACE is not supported")));
    }
    let with = words.take_word("with");
    let starts = |word: &&str| words.peek().is_some_and(|token| crate::parse::words::is_word(token, word));
    let known = ["connection", "allow_connections", "is_template", "tablespace"];
    if !with && !known.iter().any(starts) {
        return None;
    }
    let mut options = Options::default();
    while !words.is_at_end() {
        if let Err(error) = options.take(words, false) {
            return Some(Err(error));
        }
    }
    Some(Ok(DatabaseStatement::Alter { name, options }))
}

/// Sets what may be said once.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match slot {
        Some(_) => Err(SqlError::syntax("conflicting or redundant options")),
        None => {
            *slot = Some(value);
            Ok(())
        }
    }
}

impl Options {
    /// Reads one option.
    fn take(&mut self, words: &mut Words<'_>, is_create: bool) -> Result<(), SqlError> {
        let position = words.position();
        let name = match words.take_words(&["connection", "limit"]) {
            true => "connection_limit".to_owned(),
            false => words.name()?,
        };
        words.take(&Token::Eq);
        let value = value(words)?;
        let text = |value: Option<Value>| value.map(Value::text);
        match name.as_str() {
            "allow_connections" => once(&mut self.allow_connections, boolean(&name, value)?),
            "is_template" => once(&mut self.is_template, boolean(&name, value)?),
            "connection_limit" => once(&mut self.connection_limit, number(&name, value)?),
            "tablespace" => once(&mut self.tablespace, text(value)),
            "owner" if is_create => once(&mut self.owner, text(value)),
            "template" if is_create => once(&mut self.template, text(value)),
            "encoding" if is_create => once(&mut self.encoding, value),
            "strategy" if is_create => once(&mut self.strategy, text(value)),
            "locale" if is_create => once(&mut self.locale, text(value)),
            "lc_collate" if is_create => once(&mut self.collate, text(value)),
            "lc_ctype" if is_create => once(&mut self.ctype, text(value)),
            "icu_locale" if is_create => once(&mut self.icu_locale, text(value)),
            "locale_provider" if is_create => once(&mut self.provider, text(value)),
            "collation_version" if is_create => once(&mut self.collation_version, text(value)),
            "oid" if is_create => once(&mut self.oid, number(&name, value)?),
            // PostgreSQL warns of it, and has no use for it.
            "location" if is_create => Ok(()),
            _ => {
                let error = SqlError::syntax(format!("option \"{name}\" not recognized"));
                Err(match position {
                    Some(position) => error.with_position(position),
                    None => error,
                })
            }
        }
    }
}

impl Value {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// A number, a word or a text; `None`: DEFAULT.
fn value(words: &mut Words<'_>) -> Result<Option<Value>, SqlError> {
    if words.take_word("default") {
        return Ok(None);
    }
    let minus = words.take(&Token::Minus);
    if !minus {
        words.take(&Token::Plus);
    }
    match words.peek() {
        Some(Token::Number(digits, _)) => {
            let number: i64 = digits.parse().map_err(|_| words.unexpected())?;
            words.next();
            Ok(Some(Value::Number(if minus { -number } else { number })))
        }
        Some(Token::Word(_)) if !minus => words.name().map(|name| Some(Value::Text(name))),
        _ if !minus => quoted(words).map(|text| Some(Value::Text(text))),
        _ => Err(words.unexpected()),
    }
}

fn boolean(name: &str, value: Option<Value>) -> Result<Option<bool>, SqlError> {
    let Some(value) = value else { return Ok(None) };
    match value.text().to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(Some(true)),
        "false" | "off" | "0" => Ok(Some(false)),
        _ => Err(SqlError::syntax(format!("{name} requires a Boolean value"))),
    }
}

fn number(name: &str, value: Option<Value>) -> Result<Option<i64>, SqlError> {
    match value {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number)),
        Some(Value::Text(_)) => Err(SqlError::syntax(format!("{name} requires an integer value"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Result<DatabaseStatement, String>> {
        let mut words = Words::of(text)?;
        let first = words.name().ok()?;
        words.take_word("on");
        assert!(words.take_word("database"), "{text}");
        Some(match parse(&first, &mut words)? {
            Ok(Own::Database(statement)) => Ok(*statement),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(format!("{} {}", error.sqlstate, error.message)),
        })
    }

    #[test]
    fn forms() {
        let options = Options {
            owner: Some(Some("Me".into())),
            template: Some(Some("template0".into())),
            encoding: Some(Some(Value::Text("UTF8".into()))),
            connection_limit: Some(Some(-1)),
            tablespace: Some(None),
            is_template: Some(Some(true)),
            ..Options::default()
        };
        let text = "create database \"A b\" with owner \"Me\" template = template0 encoding 'UTF8' \
                    connection limit = -1 tablespace default is_template on";
        assert_eq!(read(text), Some(Ok(DatabaseStatement::Create { name: "A b".into(), options })));
        let plain = DatabaseStatement::Create { name: "a".into(), options: Options::default() };
        assert_eq!(read("CREATE DATABASE A"), Some(Ok(plain)));
        let dropped = DatabaseStatement::Drop { name: "a".into(), if_exists: true, force: true };
        assert_eq!(read("DROP DATABASE IF EXISTS a WITH (FORCE)"), Some(Ok(dropped)));
        let renamed = DatabaseStatement::Rename { name: "a".into(), to: "b".into() };
        assert_eq!(read("ALTER DATABASE a RENAME TO b"), Some(Ok(renamed)));
        let comment = DatabaseStatement::Comment { name: "a".into(), comment: Some("it's".into()) };
        assert_eq!(read("COMMENT ON DATABASE a IS 'it''s'"), Some(Ok(comment)));
        let error = |text: &str| read(text).and_then(Result::err).unwrap_or_default();
        assert_eq!(error("create database a owner b owner c"), "42601 conflicting or redundant options");
        assert_eq!(error("create database a colour = red"), "42601 option \"colour\" not recognized");
        assert_eq!(error("alter database a with owner x"), "42601 option \"owner\" not recognized");
        assert_eq!(error("create database a is_template 7"), "42601 is_template requires a Boolean value");
        assert_eq!(read("ALTER DATABASE a SET x = 1"), None);
    }
}
