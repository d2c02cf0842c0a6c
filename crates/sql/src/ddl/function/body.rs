//! Bodies of functions: checked when they are made, and what is kept of them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Statement};
use resurgam_engine::{Access, Transaction, View};

use crate::ddl::view::{expand_stars, name_functions, name_schemas, refuse_in_query};
use crate::ddl::{qualify::qualify, unsupported};
use crate::parse::read::parse_known;
use crate::parse::shape::is_optimizable;
use crate::parse::statement::function::BodySyntax;
use crate::pg::user_functions::{Definition, Source, UserFunction};
use crate::plan::analyze::{check_body, standard_body, statements_of, view_query};
use crate::plan::planner::Names;
use crate::session::Session;
use crate::wire::SqlError;

impl Session {
    /// What is kept of a body, and the oids of the functions that it calls, if these are known.
    pub(super) async fn source_of(
        &mut self,
        txn: &Transaction,
        schema: &str,
        of: &Definition,
        body: &BodySyntax,
    ) -> Result<(Source, Vec<u32>), SqlError> {
        let sql = match body {
            BodySyntax::Text(text) => return Ok((Source::Text(text.clone()), Vec::new())),
            BodySyntax::Expression(expr) => format!("SELECT {expr}"),
            BodySyntax::Atomic(statements) => match statements.as_slice() {
                [one] => one.clone(),
                [] => return Err(unsupported("BEGIN ATOMIC without a statement")),
                _ => return Err(unsupported("BEGIN ATOMIC with several statements")),
            },
        };
        let mut statements = parse_known(&sql).map_err(without_position)?;
        let (Some(Statement::Query(mut query)), true) = (statements.pop(), statements.is_empty()) else {
            return Err(unsupported("BEGIN ATOMIC with other statements than SELECT"));
        };
        refuse_in_query(&query).map_err(|error| match error.sqlstate.as_str() {
            "0A000" => unsupported("BEGIN ATOMIC with a query that locks or writes"),
            _ => error,
        })?;
        let called = qualify(query.as_mut(), &self.lookup(txn))?;
        self.keep_called(txn, &called).await?;
        self.fix_times_of(&mut query).await?;
        let source = Source::Text(String::new());
        let function = Arc::new(UserFunction {
            id: 0,
            schema: schema.to_owned(),
            access: Access::of(self.role()),
            comment: None,
            definition: Definition { source, ..of.clone() },
        });
        let seen = self.analyzed_body(txn, &function, &query, false)?;
        name_schemas(&mut query, &seen.schemas);
        name_functions(&mut query, &seen.functions);
        let calls = seen.functions.values().copied().collect();
        expand_stars(&mut query, &seen.stars);
        let sql = query.to_string();
        let again = view_query(&sql)?;
        let seen = self.analyzed_body(txn, &function, &again, true)?;
        if again.to_string() != sql {
            return Err(unsupported("a standard body of this form of query"));
        }
        if !seen.relations.is_empty() {
            return Err(unsupported("a standard body that reads tables or views")
                .with_hint("Give the body as a text: AS $$ ... $$."));
        }
        let view = View { sql, ..View::default() };
        Ok(match body {
            BodySyntax::Expression(_) => (Source::Return(Box::new(view)), calls),
            _ => (Source::Atomic(Box::new(view)), calls),
        })
    }

    fn analyzed_body(
        &mut self,
        txn: &Transaction,
        function: &Arc<UserFunction>,
        query: &ast::Query,
        stored: bool,
    ) -> Result<crate::plan::analyze::Seen, SqlError> {
        let (state, cx) = (self.state()?, Arc::clone(&self.cx));
        self.planning(|| standard_body(&Names { state: &state, txn, cx: &cx }, function, query, stored))
    }

    /// Checks a body that is given as a text.
    pub(super) fn check_text_body(&mut self, txn: &Transaction, function: &UserFunction) -> Result<(), SqlError> {
        let statements = statements_of(&function.definition.source)?;
        for statement in &statements {
            if !is_optimizable(statement) {
                let text = statement.to_string();
                let word = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
                return Err(unsupported(&format!("{word} in the body of a function")));
            }
        }
        let (state, cx) = (self.state()?, Arc::clone(&self.cx));
        let function = Arc::new(function.clone());
        self.planning(|| check_body(&Names { state: &state, txn, cx: &cx }, &function, &statements))
    }
}

/// Its place is in a text that nobody wrote.
fn without_position(mut error: SqlError) -> SqlError {
    error.position = None;
    error
}
