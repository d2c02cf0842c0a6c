//! CREATE, ALTER, DROP and COMMENT ON FUNCTION, as they are read.

use datafusion::sql::sqlparser::ast::{DataType, Expr, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_dialect::ArgMode;

use crate::parse::names::{object_name, unsupported};
use crate::parse::own::Own;
use crate::parse::statement::role::{Spec, spec};
use crate::parse::statement::user_type::quoted;
use crate::parse::words::{Words, is_word};
use crate::pg::definition::parse_expression;
use crate::wire::SqlError;

/// A statement about functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionStatement {
    Create(Create),
    Alter { target: Target, action: Action },
    Drop { targets: Vec<Target>, if_exists: bool, cascade: bool },
    Comment { target: Target, comment: Option<String> },
}

/// A function by its name, and the types of its arguments if they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub name: ObjectName,
    pub args: Option<Vec<DataType>>,
}

/// CREATE FUNCTION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Create {
    pub or_replace: bool,
    pub name: ObjectName,
    pub params: Vec<ParamSyntax>,
    pub returns: Option<Returns>,
    pub language: Option<String>,
    pub options: Options,
    pub body: Option<BodySyntax>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParamSyntax {
    pub mode: ArgMode,
    pub name: Option<String>,
    pub ty: DataType,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    One(DataType),
    Set(DataType),
    Table(Vec<(String, DataType)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodySyntax {
    Text(String),
    /// RETURN
    Expression(String),
    /// BEGIN ATOMIC … END, statement by statement.
    Atomic(Vec<String>),
}

/// What CREATE and ALTER say of a function beside its body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub volatility: Option<char>,
    pub strict: Option<bool>,
    pub leakproof: Option<bool>,
    pub parallel: Option<String>,
    pub cost: Option<f32>,
    pub rows: Option<f32>,
}

/// What ALTER FUNCTION does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Rename(String),
    SetSchema(String),
    Owner(Spec),
    Options(Options),
}

/// Words behind a type.
const STOPS: [&str; 22] = [
    "language",
    "as",
    "immutable",
    "stable",
    "volatile",
    "strict",
    "called",
    "returns",
    "security",
    "external",
    "parallel",
    "cost",
    "rows",
    "leakproof",
    "not",
    "window",
    "support",
    "set",
    "transform",
    "return",
    "begin",
    "default",
];

/// Reads a statement whose first words up to FUNCTION are taken.
pub(crate) fn parse(first: &str, or_replace: bool, mut words: Words<'_>) -> Result<Own, SqlError> {
    let words = &mut words;
    let statement = match first {
        "create" => FunctionStatement::Create(create(or_replace, words)?),
        "drop" => {
            let if_exists = words.take_words(&["if", "exists"]);
            let mut targets = vec![target(words)?];
            while words.take(&Token::Comma) {
                targets.push(target(words)?);
            }
            let cascade = words.take_word("cascade");
            if !cascade {
                words.take_word("restrict");
            }
            FunctionStatement::Drop { targets, if_exists, cascade }
        }
        "comment" => {
            let target = target(words)?;
            if !words.take_word("is") {
                return Err(words.unexpected());
            }
            let comment = match words.take_word("null") {
                true => None,
                false => Some(quoted(words)?),
            };
            FunctionStatement::Comment { target, comment }
        }
        _ => {
            let target = target(words)?;
            FunctionStatement::Alter { target, action: action(words)? }
        }
    };
    words.expect_end()?;
    Ok(Own::Function(Box::new(statement)))
}

fn action(words: &mut Words<'_>) -> Result<Action, SqlError> {
    if words.take_words(&["rename", "to"]) {
        return Ok(Action::Rename(words.name()?));
    }
    if words.take_words(&["set", "schema"]) {
        return Ok(Action::SetSchema(words.name()?));
    }
    if words.take_words(&["owner", "to"]) {
        return Ok(Action::Owner(spec(words)?));
    }
    if words.take_word("depends") || words.take_words(&["no", "depends"]) {
        return Err(unsupported("ALTER FUNCTION … DEPENDS ON EXTENSION"));
    }
    let mut options = Options::default();
    let mut some = false;
    while options.take(words)? {
        some = true;
    }
    words.take_word("restrict");
    if some { Ok(Action::Options(options)) } else { Err(words.unexpected()) }
}

/// A function, as GRANT, DROP and others name it.
pub(crate) fn target(words: &mut Words<'_>) -> Result<Target, SqlError> {
    let name = object_name(words)?;
    if !words.take(&Token::LParen) {
        return Ok(Target { name, args: None });
    }
    let mut args = Vec::new();
    if !words.take(&Token::RParen) {
        loop {
            let param = param(words)?;
            // What is only given back does not tell functions apart.
            if param.mode != ArgMode::Out {
                args.push(param.ty);
            }
            if words.take(&Token::RParen) {
                break;
            }
            if !words.take(&Token::Comma) {
                return Err(words.unexpected());
            }
        }
    }
    Ok(Target { name, args: Some(args) })
}

fn create(or_replace: bool, words: &mut Words<'_>) -> Result<Create, SqlError> {
    let name = object_name(words)?;
    if !words.take(&Token::LParen) {
        return Err(words.unexpected());
    }
    let mut params = Vec::new();
    if !words.take(&Token::RParen) {
        loop {
            params.push(param(words)?);
            if words.take(&Token::RParen) {
                break;
            }
            if !words.take(&Token::Comma) {
                return Err(words.unexpected());
            }
        }
    }
    let returns = match words.take_word("returns") {
        true => Some(returns(words)?),
        false => None,
    };
    let mut create =
        Create { or_replace, name, params, returns, language: None, options: Options::default(), body: None };
    while !words.is_at_end() {
        let position = words.position();
        let twice = || redundant(position);
        if words.take_word("language") {
            let language = match words.peek() {
                Some(Token::SingleQuotedString(text)) => {
                    let text = text.to_lowercase();
                    words.next();
                    text
                }
                _ => words.name()?,
            };
            if create.language.replace(language).is_some() {
                return Err(twice());
            }
        } else if words.take_word("as") {
            let text = quoted(words)?;
            if words.take(&Token::Comma) {
                return Err(unsupported("a function in an object file"));
            }
            if create.body.replace(BodySyntax::Text(text)).is_some() {
                return Err(twice());
            }
        } else if words.take_word("return") {
            if create.body.is_some() {
                return Err(SqlError::new("42P13", "duplicate function body specified"));
            }
            let text = words.rest_of_text().to_owned();
            if text.is_empty() {
                return Err(words.unexpected());
            }
            while words.next().is_some() {}
            create.body = Some(BodySyntax::Expression(text));
        } else if words.take_words(&["begin", "atomic"]) {
            if create.body.is_some() {
                return Err(SqlError::new("42P13", "duplicate function body specified"));
            }
            create.body = Some(BodySyntax::Atomic(atomic(words)?));
        } else if !create.options.take(words)? {
            return Err(words.unexpected());
        }
    }
    Ok(create)
}

fn redundant(position: Option<u32>) -> SqlError {
    let error = SqlError::syntax("conflicting or redundant options");
    match position {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// The statements of a body, whose end is taken as well.
fn atomic(words: &mut Words<'_>) -> Result<Vec<String>, SqlError> {
    let (mut out, mut from, mut depth) = (Vec::new(), words.mark(), 0usize);
    loop {
        let here = words.mark();
        match words.peek() {
            None => return Err(words.unexpected()),
            Some(Token::SemiColon) => {
                if here > from {
                    out.push(words.between(from, here).to_owned());
                }
                from = here + 1;
            }
            Some(token) if is_word(token, "case") => depth += 1,
            Some(token) if is_word(token, "end") && depth > 0 => depth -= 1,
            Some(token) if is_word(token, "end") => {
                if here > from {
                    return Err(words.unexpected());
                }
                words.next();
                return Ok(out);
            }
            Some(_) => {}
        }
        words.next();
    }
}

impl Options {
    /// Takes one of them if it is next.
    fn take(&mut self, words: &mut Words<'_>) -> Result<bool, SqlError> {
        let position = words.position();
        fn put<T>(place: &mut Option<T>, value: T, position: Option<u32>) -> Result<(), SqlError> {
            match place.replace(value) {
                None => Ok(()),
                Some(_) => Err(redundant(position)),
            }
        }
        for (word, letter) in [("immutable", 'i'), ("stable", 's'), ("volatile", 'v')] {
            if words.take_word(word) {
                put(&mut self.volatility, letter, position)?;
                return Ok(true);
            }
        }
        if words.take_word("strict") || words.take_words(&["returns", "null", "on", "null", "input"]) {
            put(&mut self.strict, true, position)?;
        } else if words.take_words(&["called", "on", "null", "input"]) {
            put(&mut self.strict, false, position)?;
        } else if words.take_words(&["not", "leakproof"]) {
            put(&mut self.leakproof, false, position)?;
        } else if words.take_word("leakproof") {
            put(&mut self.leakproof, true, position)?;
        } else if words.take_word("parallel") {
            let word = words.name()?;
            put(&mut self.parallel, word, position)?;
        } else if words.take_word("cost") {
            let value = number(words)?;
            put(&mut self.cost, value, position)?;
        } else if words.take_word("rows") {
            let value = number(words)?;
            put(&mut self.rows, value, position)?;
        } else if words.take_words(&["security", "invoker"]) || words.take_words(&["external", "security", "invoker"]) {
            // As each is.
        } else if words.take_word("security") || words.take_word("external") {
            return Err(unsupported("SECURITY DEFINER"));
        } else if words.take_word("window") {
            return Err(unsupported("a window function of one's own"));
        } else if words.take_word("support") {
            return Err(unsupported("SUPPORT of a function"));
        } else if words.take_word("transform") {
            return Err(unsupported("TRANSFORM of a function"));
        } else if words.take_word("set") || words.take_word("reset") {
            return Err(unsupported("SET of a function"));
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

fn number(words: &mut Words<'_>) -> Result<f32, SqlError> {
    let negative = words.take(&Token::Minus);
    let value = match words.peek() {
        Some(Token::Number(digits, _)) => digits.parse::<f32>().ok(),
        _ => None,
    };
    let Some(value) = value else { return Err(words.unexpected()) };
    words.next();
    Ok(if negative { -value } else { value })
}

fn returns(words: &mut Words<'_>) -> Result<Returns, SqlError> {
    if words.take_word("setof") {
        return Ok(Returns::Set(data_type(words)?));
    }
    let mark = words.mark();
    if words.take_word("table") && words.take(&Token::LParen) {
        let mut columns = Vec::new();
        loop {
            let name = words.name()?;
            columns.push((name, data_type(words)?));
            if words.take(&Token::RParen) {
                return Ok(Returns::Table(columns));
            }
            if !words.take(&Token::Comma) {
                return Err(words.unexpected());
            }
        }
    }
    words.back_to(mark);
    Ok(Returns::One(data_type(words)?))
}

/// The tokens up to what stands behind a type or an expression, taken; as text.
fn run<'t>(words: &mut Words<'t>, is_end: &dyn Fn(&Token) -> bool) -> (usize, &'t str) {
    let (from, mut depth) = (words.mark(), 0usize);
    while let Some(token) = words.peek() {
        match token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth > 0 => depth -= 1,
            token if depth == 0 && is_end(token) => break,
            _ => {}
        }
        words.next();
    }
    (words.mark() - from, words.between(from, words.mark()))
}

fn is_end_of_type(token: &Token) -> bool {
    matches!(token, Token::Comma | Token::RParen | Token::Eq) || STOPS.iter().any(|word| is_word(token, word))
}

/// A text as a type; `None` if it is none.
fn read_type(text: &str) -> Option<DataType> {
    match parse_expression(&format!("NULL::{text}")).ok()? {
        Expr::Cast { data_type, .. } => Some(data_type),
        _ => None,
    }
}

fn data_type(words: &mut Words<'_>) -> Result<DataType, SqlError> {
    let at = words.mark();
    let (tokens, text) = run(words, &is_end_of_type);
    let ty = read_type(text).filter(|_| tokens > 0);
    ty.ok_or_else(|| {
        words.back_to(at);
        words.unexpected()
    })
}

fn param(words: &mut Words<'_>) -> Result<ParamSyntax, SqlError> {
    let mut given = mode(words)?;
    let from = words.mark();
    let (tokens, text) = run(words, &is_end_of_type);
    let (name, ty) = match read_type(text).filter(|_| tokens > 0) {
        Some(ty) => (None, ty),
        None => {
            // The first word is the parameter's name.
            words.back_to(from);
            let name = words.name()?;
            if given.is_none() {
                given = mode(words)?;
            }
            (Some(name), data_type(words)?)
        }
    };
    let mut default = None;
    if words.take_word("default") || words.take(&Token::Eq) {
        let at = words.mark();
        let (tokens, text) = run(words, &|token| matches!(token, Token::Comma | Token::RParen));
        if tokens == 0 {
            return Err(words.unexpected());
        }
        let expr = parse_expression(text).map_err(|mut error| {
            words.back_to(at);
            error.position = words.position();
            error
        })?;
        default = Some(expr);
    }
    Ok(ParamSyntax { mode: given.unwrap_or(ArgMode::In), name, ty, default })
}

/// The mode of a parameter, if one is written.
fn mode(words: &mut Words<'_>) -> Result<Option<ArgMode>, SqlError> {
    if words.take_word("in") {
        return Ok(Some(if words.take_word("out") { ArgMode::InOut } else { ArgMode::In }));
    }
    if words.take_word("out") {
        return Ok(Some(ArgMode::Out));
    }
    if words.take_word("inout") {
        return Ok(Some(ArgMode::InOut));
    }
    if words.take_word("variadic") {
        return Ok(Some(ArgMode::Variadic));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FunctionStatement, SqlError> {
        match crate::parse::own::parse(text) {
            Some(Ok(crate::parse::own::Parsed::Own(Own::Function(statement)))) => Ok(*statement),
            Some(Err(error)) => Err(error),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn created(text: &str) -> Create {
        match read(text) {
            Ok(FunctionStatement::Create(create)) => create,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn parameters_have_names_or_not() {
        let create = created(
            "create function f(a int, double precision, b character varying(3) = 'x,)', timestamp with time zone default now(), c numeric(3, 1)[]) returns int language sql as 'select 1'",
        );
        let names: Vec<Option<&str>> = create.params.iter().map(|param| param.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), None, Some("b"), None, Some("c")]);
        let defaults: Vec<bool> = create.params.iter().map(|param| param.default.is_some()).collect();
        assert_eq!(defaults, [false, false, true, true, false]);
        assert!(matches!(create.returns, Some(Returns::One(_))));
    }

    #[test]
    fn bodies() {
        assert_eq!(
            created("create or replace function f() returns int as $$ select ';' $$ language sql").body,
            Some(BodySyntax::Text(" select ';' ".into()))
        );
        assert_eq!(
            created("create function f() returns int return 1 + 2;").body,
            Some(BodySyntax::Expression("1 + 2".into()))
        );
        assert_eq!(
            created("create function f() returns int begin atomic select case when true then 1 end; select 2; end")
                .body,
            Some(BodySyntax::Atomic(vec!["select case when true then 1 end".into(), "select 2".into()]))
        );
        assert!(matches!(
            created("create function f() returns table (a int, b text) stable as 'x' language sql").returns,
            Some(Returns::Table(columns)) if columns.len() == 2
        ));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (text, code) in [
            ("create function f() returns int language sql security definer as 'x'", "0A000"),
            ("create function f() returns int language sql volatile stable as 'x'", "42601"),
            ("create function f() returns int language sql as 'x' as 'y'", "42601"),
            ("create function f() returns int nope", "42601"),
            ("create function f(a) returns", "42601"),
            ("create function f( returns int", "42601"),
            ("create function f() returns int begin atomic select 1; ", "42601"),
            ("drop function f(", "42601"),
            ("alter function f()", "42601"),
        ] {
            assert_eq!(read(text).expect_err(text).sqlstate, code, "{text}");
        }
    }
}
