//! CREATE, ALTER and DROP DOMAIN.
//!
//! The grammar of a domain is that of a column, so it is read as one: of the name `value`, which its conditions call it.

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, Expr, ObjectName, Statement, TableConstraint,
};

use crate::parse::names::{name_of, object_name, unsupported};
use crate::parse::own::Own;
use crate::parse::read::parse_known;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// CREATE DOMAIN as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateDomain {
    pub name: ObjectName,
    pub column: ColumnDef,
}

/// ALTER DOMAIN as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterDomain {
    pub name: ObjectName,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    SetDefault(Option<Expr>),
    SetNotNull(bool),
    AddCheck { name: Option<String>, expr: Expr, valid: bool },
    DropConstraint { name: String, if_exists: bool },
    RenameConstraint { from: String, to: String },
    Validate(String),
    Rename(String),
    SetSchema(String),
}

/// Reads CREATE DOMAIN, whose two words are taken already.
///
/// # Errors
/// `42601`.
pub(crate) fn parse_create(_: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = object_name(&mut words)?;
    words.take_word("as");
    if words.is_at_end() {
        return Err(words.unexpected());
    }
    let text = format!("CREATE TABLE d (value {})", words.rest_of_text());
    let column = match without_position(parse_known(&text))?.pop() {
        Some(Statement::CreateTable(create)) if create.constraints.is_empty() => match create.columns.as_slice() {
            [column] => column.clone(),
            _ => return Err(words.unexpected()),
        },
        _ => return Err(words.unexpected()),
    };
    Ok(Own::CreateDomain(Box::new(CreateDomain { name, column })))
}

/// Its place is in a text that nobody wrote.
pub(crate) fn without_position<T>(parsed: Result<T, SqlError>) -> Result<T, SqlError> {
    parsed.map_err(|mut error| {
        error.position = None;
        error
    })
}

/// Reads DROP DOMAIN, whose two words are taken already.
///
/// # Errors
/// `42601`.
pub(crate) fn parse_drop(mut words: Words<'_>) -> Result<Own, SqlError> {
    let if_exists = words.take_words(&["if", "exists"]);
    let mut names = vec![object_name(&mut words)?];
    while words.take(&datafusion::sql::sqlparser::tokenizer::Token::Comma) {
        names.push(object_name(&mut words)?);
    }
    let cascade = words.take_word("cascade");
    if !cascade {
        words.take_word("restrict");
    }
    words.expect_end()?;
    Ok(Own::DropDomain { if_exists, names, cascade })
}

/// Reads ALTER DOMAIN, whose two words are taken already.
///
/// # Errors
/// `42601`, `0A000`.
pub(crate) fn parse_alter(_: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = object_name(&mut words)?;
    let whole = |words: &Words<'_>, text: String| -> Result<AlterTableOperation, SqlError> {
        match without_position(parse_known(&text))?.pop() {
            Some(Statement::AlterTable(mut alter)) if alter.operations.len() == 1 => {
                alter.operations.pop().ok_or_else(|| words.unexpected())
            }
            _ => Err(words.unexpected()),
        }
    };
    let action = if words.take_words(&["set", "default"]) {
        let text = format!("ALTER TABLE d ALTER COLUMN value SET DEFAULT {}", words.rest_of_text());
        match whole(&words, text)? {
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDefault { value }, .. } => {
                return Ok(altered(name, Action::SetDefault(Some(value))));
            }
            _ => return Err(words.unexpected()),
        }
    } else if words.take_words(&["drop", "default"]) {
        Action::SetDefault(None)
    } else if words.take_words(&["set", "not", "null"]) {
        Action::SetNotNull(true)
    } else if words.take_words(&["drop", "not", "null"]) {
        Action::SetNotNull(false)
    } else if words.take_word("add") {
        let text = format!("ALTER TABLE d ADD {}", words.rest_of_text());
        match whole(&words, text)? {
            AlterTableOperation::AddConstraint { constraint: TableConstraint::Check(check), not_valid } => {
                refuse_not_enforced(&check)?;
                let (given, expr) = (check.name.as_ref().map(name_of), Expr::clone(&check.expr));
                return Ok(altered(name, Action::AddCheck { name: given, expr, valid: !not_valid }));
            }
            AlterTableOperation::AddConstraint { constraint, .. } => return Err(impossible(&constraint)),
            _ => return Err(words.unexpected()),
        }
    } else if words.take_words(&["drop", "constraint"]) {
        let if_exists = words.take_words(&["if", "exists"]);
        let constraint = words.name()?;
        if !words.take_word("cascade") {
            words.take_word("restrict");
        }
        Action::DropConstraint { name: constraint, if_exists }
    } else if words.take_words(&["rename", "constraint"]) {
        let from = words.name()?;
        if !words.take_word("to") {
            return Err(words.unexpected());
        }
        Action::RenameConstraint { from, to: words.name()? }
    } else if words.take_words(&["validate", "constraint"]) {
        Action::Validate(words.name()?)
    } else if words.take_words(&["rename", "to"]) {
        Action::Rename(words.name()?)
    } else if words.take_words(&["owner", "to"]) {
        return Err(unsupported("ALTER DOMAIN … OWNER TO"));
    } else if words.take_words(&["set", "schema"]) {
        Action::SetSchema(words.name()?)
    } else {
        return Err(words.unexpected());
    };
    words.expect_end()?;
    Ok(altered(name, action))
}

pub(crate) fn altered(name: ObjectName, action: Action) -> Own {
    Own::AlterDomain(Box::new(AlterDomain { name, action }))
}

/// Constraints that a domain cannot have.
pub(crate) fn impossible(constraint: &TableConstraint) -> SqlError {
    let what = match constraint {
        TableConstraint::PrimaryKey(_) => "primary key",
        TableConstraint::Unique(_) => "unique",
        TableConstraint::ForeignKey(_) => "foreign key",
        _ => return unsupported("this constraint of a domain"),
    };
    SqlError::syntax(format!("{what} constraints not possible for domains"))
}

/// A CHECK that the parser knows and PostgreSQL 15 does not.
pub(crate) fn refuse_not_enforced(check: &ast::CheckConstraint) -> Result<(), SqlError> {
    match check.enforced {
        Some(_) => Err(SqlError::syntax("syntax error at or near \"ENFORCED\"")),
        None => Ok(()),
    }
}
