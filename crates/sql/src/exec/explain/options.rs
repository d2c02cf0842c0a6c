//! What EXPLAIN is asked for, with PostgreSQL's errors for what it cannot be.

use datafusion::sql::sqlparser::ast::{Expr, UtilityOption, Value};

use super::node::Shown;
use crate::pg::errors::character_position;
use crate::pg::types::oid;
use crate::wire::{Field, SqlError};

/// `xml` in PostgreSQL's catalog; there are no values of it but these answers.
const XML: u32 = 142;

/// How the answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
    Xml,
    Yaml,
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub analyze: bool,
    pub verbose: bool,
    pub costs: bool,
    /// Whether clocks are read for each operator.
    pub timing: bool,
    pub summary: bool,
    pub format: Format,
}

impl Format {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "json" => Self::Json,
            "xml" => Self::Xml,
            "yaml" => Self::Yaml,
            _ => return None,
        })
    }

    /// The column of the answer.
    pub(crate) fn field(self) -> Field {
        let type_oid = match self {
            Self::Text | Self::Yaml => oid::TEXT,
            Self::Json => oid::JSON,
            Self::Xml => XML,
        };
        Field { name: "QUERY PLAN".to_owned(), type_oid, type_len: -1, typmod: -1, table_oid: 0, column: 0 }
    }
}

impl Options {
    /// Those of a statement: its words (`is_word`: FORMAT is among them), or its list in parentheses.
    ///
    /// # Errors
    /// `42601` for an option that there is not, or a value that is none; `22023` for those that go with ANALYZE only, and for
    /// an unknown format.
    pub(crate) fn new(
        analyze: bool,
        verbose: bool,
        is_word: bool,
        list: &[UtilityOption],
        text: &str,
    ) -> Result<Self, SqlError> {
        let mut out = Self { analyze, verbose, costs: true, timing: false, summary: false, format: Format::Text };
        // Without parentheses it is none of PostgreSQL's.
        if is_word {
            return Err(SqlError::syntax("syntax error at or near \"format\""));
        }
        let (mut timing, mut summary, mut wal) = (None, None, false);
        for option in list {
            let name = match option.name.quote_style {
                Some(_) => option.name.value.clone(),
                None => option.name.value.to_ascii_lowercase(),
            };
            let on = || is_on(&name, option.arg.as_ref());
            let start = option.name.span.start;
            let here = |error: SqlError| match character_position(text, start.line, start.column) {
                Some(position) => error.with_position(position),
                None => error,
            };
            match name.as_str() {
                "analyze" => out.analyze = on()?,
                "verbose" => out.verbose = on()?,
                "costs" => out.costs = on()?,
                "timing" => timing = Some(on()?),
                "summary" => summary = Some(on()?),
                "wal" => wal = on()?,
                // Nothing is counted by statement of pages, and no setting that plans go by is told from another.
                "buffers" | "settings" => {
                    on()?;
                }
                "format" => {
                    let Some(value) = &option.arg else { return Err(SqlError::syntax("format requires a parameter")) };
                    let value = word(value);
                    out.format = Format::named(&value).ok_or_else(|| {
                        let text = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                        here(SqlError::new("22023", text))
                    })?;
                }
                other => return Err(here(SqlError::syntax(format!("unrecognized EXPLAIN option \"{other}\"")))),
            }
        }
        let needs = |name: &str| SqlError::new("22023", format!("EXPLAIN option {name} requires ANALYZE"));
        if wal && !out.analyze {
            return Err(needs("WAL"));
        }
        if timing == Some(true) && !out.analyze {
            return Err(needs("TIMING"));
        }
        out.timing = timing.unwrap_or(out.analyze);
        out.summary = summary.unwrap_or(out.analyze);
        Ok(out)
    }

    pub(crate) fn shown(self) -> Shown {
        Shown { verbose: self.verbose, costs: self.costs }
    }
}

/// What an option is given, as a word.
fn word(value: &Expr) -> String {
    match value {
        Expr::Identifier(ident) if ident.quote_style.is_some() => ident.value.clone(),
        Expr::Identifier(ident) => ident.value.to_ascii_lowercase(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string().to_ascii_lowercase(),
    }
}

/// PostgreSQL's `defGetBoolean`.
fn is_on(name: &str, value: Option<&Expr>) -> Result<bool, SqlError> {
    let Some(value) = value else { return Ok(true) };
    match word(value).to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::syntax(format!("{name} requires a Boolean value"))),
    }
}
