//! Running a block.

use datafusion::sql::sqlparser::ast::Statement;
use futures::future::BoxFuture;

use crate::exec::panics;
use crate::parse::statement::do_block::{self, Block, Condition, DoBlock, Step, What};
use crate::pg::conditions;
use crate::plan::statement::Kind;
use crate::session::Session;
use crate::wire::{Execution, SqlError, Tag};

/// How statements were left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    AtTheirEnd,
    ByReturn,
}

/// What no EXCEPTION handles, not even OTHERS (but by its name): the end of the statement or of the session.
fn is_for_nobody(error: &SqlError) -> bool {
    error.definition_changed || error.sqlstate.starts_with("57P") || error.severity != "ERROR"
}

fn handles(condition: &Condition, code: &str) -> bool {
    match condition {
        Condition::Others => code != "57014" && code != "P0004",
        Condition::Code(wanted) => conditions::matches(wanted, code),
    }
}

impl Session {
    /// Runs one. Whatever it does is the statement's: a failure takes all of it back.
    pub(crate) async fn run_do(&mut self, block: &DoBlock) -> Result<Execution, SqlError> {
        // It is not run again where a definition changes meanwhile (40001): settings, locks and cursors of the session would stay as its
        // first run has left them.
        self.keep_undo(true);
        let open = self.transaction();
        open.used = true;
        let savepoints = open.savepoints.len();
        // What it does is a transaction, or a part of one, as a string of several statements is.
        let in_string = std::mem::replace(&mut self.in_string, true);
        // A panic must not leave a savepoint of ours behind, to which the statement would go back.
        let done = panics::caught_in(self.run_block(&block.0)).await;
        if let Some(open) = &mut self.open {
            open.savepoints.truncate(savepoints);
        }
        self.keep_undo(false);
        self.in_string = in_string;
        done?;
        Ok(Execution::Command { tag: Tag::Fixed("DO") })
    }

    fn run_block<'a>(&'a mut self, block: &'a Block) -> BoxFuture<'a, Result<Left, SqlError>> {
        Box::pin(async move {
            if block.handlers.is_empty() {
                return self.run_steps(&block.steps).await;
            }
            let at = self.begin_block()?;
            let done = self.run_steps(&block.steps).await;
            let handler = match &done {
                Ok(_) => None,
                Err(error) if is_for_nobody(error) => None,
                Err(error) => block
                    .handlers
                    .iter()
                    .find(|handler| handler.conditions.iter().any(|condition| handles(condition, &error.sqlstate))),
            };
            if handler.is_some() {
                self.shared.stop.end();
                self.go_back(at)?;
            }
            if let Some(open) = &mut self.open {
                open.savepoints.truncate(at);
            }
            match handler {
                Some(handler) => self.run_steps(&handler.steps).await,
                None => done,
            }
        })
    }

    /// Sets the savepoint of a block; where it is among the transaction's.
    fn begin_block(&mut self) -> Result<usize, SqlError> {
        let mark = self.savepoint_mark(String::new())?;
        let open = self.transaction();
        open.savepoints.push(mark);
        Ok(open.savepoints.len() - 1)
    }

    fn run_steps<'a>(&'a mut self, steps: &'a [Step]) -> BoxFuture<'a, Result<Left, SqlError>> {
        Box::pin(async move {
            for step in steps {
                match self.run_step(&step.what).await {
                    Ok(Left::AtTheirEnd) => {}
                    Ok(Left::ByReturn) => return Ok(Left::ByReturn),
                    Err(error) => return Err(within(error, step)),
                }
            }
            Ok(Left::AtTheirEnd)
        })
    }

    async fn run_step(&mut self, what: &What) -> Result<Left, SqlError> {
        match what {
            What::Null => {}
            What::Return => return Ok(Left::ByReturn),
            What::Block(block) => return self.run_block(block).await,
            What::If(cases, other) => {
                for (condition, steps) in cases {
                    if self.is_true(condition).await? {
                        return self.run_steps(steps).await;
                    }
                }
                return self.run_steps(other).await;
            }
            What::Sql(text) => self.run_sql(text).await?,
            What::Perform(text) => _ = self.rows_of(text, false).await.map_err(|error| of_text(error, text))?,
            What::Execute(text) => {
                let Some(Some(text)) = self.rows_of(text, true).await?.pop() else {
                    return Err(SqlError::new("22004", "query string argument of EXECUTE is null"));
                };
                do_block::check(&text)?;
                // EXECUTE gives rows to nobody, either, and does not mind.
                self.run_text(&text, true).await?;
            }
            What::Raise(level, format, values) => {
                let mut shown = Vec::with_capacity(values.len());
                for value in values {
                    let value = self.rows_of(value, true).await?.pop().flatten();
                    shown.push(value.unwrap_or_else(|| "<NULL>".to_owned()));
                }
                let text = filled(format, &shown);
                if *level == "EXCEPTION" {
                    return Err(SqlError::new("P0001", text));
                }
                let code = if *level == "WARNING" { "01000" } else { "00000" };
                self.notice(SqlError::notice(level, code, text));
            }
        }
        Ok(Left::AtTheirEnd)
    }

    /// A statement of SQL, whose rows would have to go somewhere.
    async fn run_sql(&mut self, text: &str) -> Result<(), SqlError> {
        self.run_text(text, false).await
    }

    async fn run_text(&mut self, text: &str, may_give_rows: bool) -> Result<(), SqlError> {
        let prepared = self.prepare_text(text, &[]).map_err(|error| of_text(error, text))?;
        if prepared.fields.is_some() && !may_give_rows {
            let error = SqlError::syntax("query has no destination for result data");
            return Err(match &prepared.kind {
                Kind::Query(_) | Kind::Call(_) => {
                    error.with_hint("If you want to discard the results of a SELECT, use PERFORM instead.")
                }
                _ => error,
            });
        }
        match &prepared.kind {
            Kind::Utility(statement)
                if matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. }) =>
            {
                return Err(SqlError::unsupported("unsupported transaction command in PL/pgSQL"));
            }
            Kind::Own(own) if do_block::is_refused(own) => {
                return Err(SqlError::unsupported("this statement in DO is not supported"));
            }
            _ => {}
        }
        let run = async {
            let execution = self.run_uncounted(&prepared, &[], &[], 0, None, false).await?;
            self.all_rows(execution, false).await.map(drop)
        };
        run.await.map_err(|error| of_text(error, text))
    }

    async fn is_true(&mut self, condition: &str) -> Result<bool, SqlError> {
        // A value of another type is cast as it would be assigned.
        let text = format!("{condition}::boolean");
        Ok(self.rows_of(&text, true).await?.pop().flatten().as_deref() == Some("t"))
    }

    /// The first column of the first row as text (`keep`), or nothing of any.
    async fn rows_of(&mut self, text: &str, keep: bool) -> Result<Vec<Option<String>>, SqlError> {
        let prepared = self.prepare_text(text, &[])?;
        let execution = self.run_uncounted(&prepared, &[], &[], 0, None, false).await?;
        let rows = self.all_rows(execution, keep).await?;
        let mut found = Vec::new();
        if keep && rows.len() > 1 {
            return Err(SqlError::new("21000", format!("query \"{text}\" returned more than one row")));
        }
        if keep && let Some(row) = rows.rows().next() {
            let (length, bytes) =
                row.split_at_checked(4).ok_or_else(|| SqlError::internal("a row without a column"))?;
            let length = i32::from_be_bytes(length.try_into().unwrap_or_default());
            let value = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
            found.push(value.map(|value| String::from_utf8_lossy(value).into_owned()));
        }
        Ok(found)
    }
}

/// An error of a step: places are those of its own text, which the client has not sent by itself.
fn within(mut error: SqlError, step: &Step) -> SqlError {
    error.position = None;
    if !error.definition_changed {
        let of = format!("PL/pgSQL function inline_code_block line {} at {}", step.line, step.what.name());
        let is_told = error.context.as_ref().is_some_and(|context| context.contains("inline_code_block"));
        if !is_told {
            error.context = Some(match error.context.take() {
                Some(context) => format!("{context}\n{of}"),
                None => of,
            });
        }
    }
    error
}

/// An error of a statement of the block.
fn of_text(mut error: SqlError, text: &str) -> SqlError {
    if !error.definition_changed {
        let of = format!("SQL statement \"{text}\"");
        error.context = Some(match error.context.take() {
            Some(context) => format!("{context}\n{of}"),
            None => of,
        });
    }
    error
}

/// A format of RAISE with its values.
fn filled(format: &str, values: &[String]) -> String {
    let (mut out, mut values) = (String::new(), values.iter());
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '%' if rest.next_if_eq(&'%').is_some() => out.push('%'),
            '%' => out.push_str(values.next().map_or("", String::as_str)),
            c => out.push(c),
        }
    }
    out
}
