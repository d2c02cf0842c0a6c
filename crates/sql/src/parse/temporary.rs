//! `SELECT … INTO [TEMP] [TABLE] name …`, which is CREATE TABLE AS; `CREATE UNLOGGED TABLE`, which is CREATE TABLE: every
//! table is logged.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{SelectInto, SetExpr, Statement};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// CREATE without the word UNLOGGED.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let (first, second) = (words.next(), words.next());
    if let (Some((_, create)), Some((at, unlogged))) = (first, second)
        && is_word(&create.token, "create")
        && is_word(&unlogged.token, "unlogged")
    {
        tokens.remove(at);
    }
    tokens
}

/// What the leftmost SELECT of a query puts its rows into.
fn into_of(body: &mut SetExpr) -> Option<SelectInto> {
    match body {
        SetExpr::Select(select) => select.into.take(),
        SetExpr::SetOperation { left, .. } => into_of(left),
        _ => None,
    }
}

/// SELECT INTO as CREATE TABLE AS.
pub(crate) fn made_by_select(statement: &mut Statement) {
    let Statement::Query(query) = statement else { return };
    let Some(into) = into_of(&mut query.body) else { return };
    let create = CreateTableBuilder::new(into.name).temporary(into.temporary).query(Some(query.clone()));
    *statement = Statement::CreateTable(create.build());
}
