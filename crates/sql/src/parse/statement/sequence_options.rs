//! Options of sequences, and the definition that they make: of a new one, or of one that is there.
//!
//! As PostgreSQL's `init_params` (sequence.c): the same checks in the same order.

use std::mem::discriminant;

use datafusion::sql::sqlparser::ast::{Expr, SequenceOptions, UnaryOperator};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::{Sequence, SequenceState};

use crate::parse::words::Words;
use crate::pg::types::{oid, type_by_name};
use crate::wire::SqlError;

/// An option as it was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceOption {
    /// AS a type of so many bytes.
    As(u8),
    Increment(i64),
    /// `None`: NO MINVALUE.
    Min(Option<i64>),
    Max(Option<i64>),
    Start(i64),
    /// `None`: with what START says.
    Restart(Option<i64>),
    Cache(i64),
    Cycle(bool),
    /// Parts of the name of a column; `None`: NONE.
    OwnedBy(Option<Vec<String>>),
}

pub(crate) fn invalid(message: String) -> SqlError {
    SqlError::new("22023", message)
}

fn bounds(width: u8) -> (i64, i64) {
    match width {
        2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn type_name(width: u8) -> &'static str {
    match width {
        2 => "smallint",
        4 => "integer",
        _ => "bigint",
    }
}

/// Bytes of a type that sequences can have.
pub(crate) fn width_of(ty: u32) -> Option<u8> {
    match ty {
        oid::INT2 => Some(2),
        oid::INT4 => Some(4),
        oid::INT8 => Some(8),
        _ => None,
    }
}

pub(crate) fn no_type_of_sequences() -> SqlError {
    invalid("sequence type must be smallint, integer, or bigint".to_owned())
}

fn integer(text: &str) -> Result<i64, SqlError> {
    if !text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SqlError::new("22P02", format!("invalid input syntax for type bigint: \"{text}\"")));
    }
    text.parse().map_err(|_| SqlError::new("22003", format!("value \"{text}\" is out of range for type bigint")))
}

/// An integer of an option that the parser has read.
fn number(expr: &Expr) -> Result<i64, SqlError> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => integer(&format!("-{expr}")),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => integer(&expr.to_string()),
        other => integer(&other.to_string()),
    }
}

/// The same, of tokens.
fn read_number(words: &mut Words<'_>) -> Result<i64, SqlError> {
    let sign = if words.take(&Token::Minus) { "-" } else { "" };
    if sign.is_empty() {
        words.take(&Token::Plus);
    }
    let Some(Token::Number(digits, false)) = words.peek() else { return Err(words.unexpected()) };
    let text = format!("{sign}{digits}");
    words.next();
    integer(&text)
}

/// RESTART, whose word is taken already.
pub(crate) fn read_restart(words: &mut Words<'_>) -> Result<SequenceOption, SqlError> {
    let is_given =
        words.take_word("with") || matches!(words.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus));
    Ok(SequenceOption::Restart(is_given.then(|| read_number(words)).transpose()?))
}

/// The next option.
///
/// # Errors
/// `42601`; `22003`, `22P02` for its number; `42704`, `22023` for its type.
pub(crate) fn read_option(words: &mut Words<'_>) -> Result<SequenceOption, SqlError> {
    use SequenceOption as O;
    if words.take_word("as") {
        let name = words.name()?;
        let Some(ty) = type_by_name(&name) else {
            return Err(SqlError::new("42704", format!("type \"{name}\" does not exist")));
        };
        return width_of(ty.oid).map(O::As).ok_or_else(no_type_of_sequences);
    }
    if words.take_word("no") {
        return match () {
            () if words.take_word("minvalue") => Ok(O::Min(None)),
            () if words.take_word("maxvalue") => Ok(O::Max(None)),
            () if words.take_word("cycle") => Ok(O::Cycle(false)),
            () => Err(words.unexpected()),
        };
    }
    if words.take_word("owned") {
        if !words.take_word("by") {
            return Err(words.unexpected());
        }
        if words.take_word("none") {
            return Ok(O::OwnedBy(None));
        }
        let mut parts = vec![words.name()?];
        while words.take(&Token::Period) {
            parts.push(words.name()?);
        }
        return Ok(O::OwnedBy(Some(parts)));
    }
    if words.take_word("increment") {
        words.take_word("by");
        return read_number(words).map(O::Increment);
    }
    if words.take_word("start") {
        words.take_word("with");
        return read_number(words).map(O::Start);
    }
    match () {
        () if words.take_word("minvalue") => Ok(O::Min(Some(read_number(words)?))),
        () if words.take_word("maxvalue") => Ok(O::Max(Some(read_number(words)?))),
        () if words.take_word("cache") => read_number(words).map(O::Cache),
        () if words.take_word("cycle") => Ok(O::Cycle(true)),
        () if words.take_word("restart") => read_restart(words),
        () => Err(words.unexpected()),
    }
}

/// Options that the parser has read.
pub(crate) fn of_parser(options: &[SequenceOptions]) -> Result<Vec<SequenceOption>, SqlError> {
    use SequenceOption as O;
    let read = |option: &SequenceOptions| {
        Ok(match option {
            SequenceOptions::IncrementBy(value, _) => O::Increment(number(value)?),
            SequenceOptions::MinValue(value) => O::Min(value.as_ref().map(number).transpose()?),
            SequenceOptions::MaxValue(value) => O::Max(value.as_ref().map(number).transpose()?),
            SequenceOptions::StartWith(value, _) => O::Start(number(value)?),
            SequenceOptions::Cache(value) => O::Cache(number(value)?),
            // The parser takes CYCLE for `false`.
            SequenceOptions::Cycle(no) => O::Cycle(!no),
        })
    };
    options.iter().map(read).collect()
}

/// `42601` for an option that is given twice.
pub(crate) fn refuse_twice(options: &[SequenceOption]) -> Result<(), SqlError> {
    let twice = |at: usize| options[..at].iter().any(|before| discriminant(before) == discriminant(&options[at]));
    match (0..options.len()).any(twice) {
        true => Err(SqlError::syntax("conflicting or redundant options")),
        false => Ok(()),
    }
}

/// The definition that options ask for, of a new sequence of a type of so many bytes.
///
/// # Errors
/// `22023` for what contradicts itself, `42601`.
pub(crate) fn new(width: u8, options: &[SequenceOption]) -> Result<Sequence, SqlError> {
    let none = Sequence {
        width,
        start: 0,
        increment: 1,
        min: 0,
        max: 0,
        cache: 1,
        cycle: false,
        values: 0,
        begin: 0,
        begin_called: false,
        owner: None,
    };
    with_options(none, true, options)
}

/// The definition of a sequence that is there, and where it is, with other options; and whether its values begin anew.
///
/// # Errors
/// Those of [`new`].
pub(crate) fn altered(
    old: &Sequence,
    state: SequenceState,
    options: &[SequenceOption],
) -> Result<(Sequence, bool), SqlError> {
    let from = Sequence { begin: state.last, begin_called: state.called, ..old.clone() };
    let restarts = options.iter().any(|option| matches!(option, SequenceOption::Restart(_)));
    Ok((with_options(from, false, options)?, restarts))
}

fn with_options(from: Sequence, is_new: bool, options: &[SequenceOption]) -> Result<Sequence, SqlError> {
    use SequenceOption as O;
    refuse_twice(options)?;
    let mut to = from.clone();
    let (mut min, mut max, mut start, mut restart) = (None, None, None, None);
    for option in options {
        match option {
            O::As(width) => to.width = *width,
            O::Increment(by) => to.increment = *by,
            O::Min(value) => min = Some(*value),
            O::Max(value) => max = Some(*value),
            O::Start(value) => start = Some(*value),
            O::Restart(value) => restart = Some(*value),
            O::Cache(values) => to.cache = *values,
            O::Cycle(cycles) => to.cycle = *cycles,
            O::OwnedBy(_) => {}
        }
    }
    if to.increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    // Bounds that were those of the type are those of the other one.
    let (before, (lowest, highest)) = (bounds(from.width), bounds(to.width));
    let changes = !is_new && options.iter().any(|option| matches!(option, O::As(_)));
    let (resets_min, resets_max) = (changes && from.min == before.0, changes && from.max == before.1);
    let ty = type_name(to.width);
    match max {
        Some(Some(given)) => to.max = given,
        None if !is_new && !resets_max => {}
        _ => to.max = if to.increment > 0 || resets_max { highest } else { -1 },
    }
    if !(lowest..=highest).contains(&to.max) {
        return Err(invalid(format!("MAXVALUE ({}) is out of range for sequence data type {ty}", to.max)));
    }
    match min {
        Some(Some(given)) => to.min = given,
        None if !is_new && !resets_min => {}
        _ => to.min = if to.increment < 0 || resets_min { lowest } else { 1 },
    }
    if !(lowest..=highest).contains(&to.min) {
        return Err(invalid(format!("MINVALUE ({}) is out of range for sequence data type {ty}", to.min)));
    }
    let Sequence { min, max, .. } = to;
    if min >= max {
        return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
    }
    match start {
        Some(given) => to.start = given,
        None if is_new => to.start = if to.increment > 0 { min } else { max },
        None => {}
    }
    let within = |what: &str, value: i64| match value {
        value if value < min => Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})"))),
        value if value > max => Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})"))),
        _ => Ok(()),
    };
    within("START", to.start)?;
    if let Some(given) = restart {
        (to.begin, to.begin_called) = (given.unwrap_or(to.start), false);
    } else if is_new {
        (to.begin, to.begin_called) = (to.start, false);
    }
    within("RESTART", to.begin)?;
    if to.cache <= 0 {
        return Err(invalid(format!("CACHE ({}) must be greater than zero", to.cache)));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<SequenceOption>, SqlError> {
        let mut words = Words::of(text).expect("tokens");
        let mut options = Vec::new();
        while !words.is_at_end() {
            options.push(read_option(&mut words)?);
        }
        Ok(options)
    }

    #[test]
    fn options_are_read() {
        use SequenceOption as O;
        assert_eq!(
            read(
                "AS int INCREMENT BY -2 MINVALUE -5 NO MAXVALUE START 1 RESTART WITH 7 CACHE 3 NO CYCLE OWNED BY t.\"A\""
            )
            .ok(),
            Some(vec![
                O::As(4),
                O::Increment(-2),
                O::Min(Some(-5)),
                O::Max(None),
                O::Start(1),
                O::Restart(Some(7)),
                O::Cache(3),
                O::Cycle(false),
                O::OwnedBy(Some(vec!["t".to_owned(), "A".to_owned()])),
            ])
        );
        assert_eq!(
            read("restart restart 5 owned by none").ok(),
            Some(vec![O::Restart(None), O::Restart(Some(5)), O::OwnedBy(None)])
        );
        let state = |text: &str| read(text).expect_err(text).into_fields().sqlstate;
        assert_eq!(state("increment by x"), "42601");
        assert_eq!(state("no"), "42601");
        assert_eq!(state("start 99999999999999999999"), "22003");
        assert_eq!(state("start 1.5"), "22P02");
        assert_eq!(state("as text"), "22023");
        assert_eq!(state("as nosuch"), "42704");
    }
}
