//! SQL without a server: run a text, get its rows as strings.

use crate::session::Session;
use crate::wire::{Execution, RowChunk, SqlError, Tag};

/// What a statement gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// Names of the result columns; empty for a statement without result rows.
    pub columns: Vec<String>,
    /// The rows in PostgreSQL's text format; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// For instance `SELECT 2`, `INSERT 0 1`, `CREATE TABLE`.
    pub tag: String,
}

impl Session {
    /// Runs one or more statements and returns the result of the last.
    ///
    /// # Errors
    /// The first statement's that fails. Outside of BEGIN nothing of the text then remains.
    pub async fn query(&mut self, sql: &str) -> Result<QueryResult, SqlError> {
        Ok(self.query_all(sql).await?.pop().unwrap_or_default())
    }

    /// Runs one or more statements and returns the result of each.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn query_all(&mut self, sql: &str) -> Result<Vec<QueryResult>, SqlError> {
        let _in_message = self.message();
        let statements = match self.split(sql) {
            Ok(statements) => statements,
            Err(error) => {
                self.error_occurred();
                return Err(error);
            }
        };
        let count = statements.len();
        let mut out = Vec::with_capacity(count);
        for (i, statement) in statements.into_iter().enumerate() {
            let executed = match self.execute_simple_at_once(&statement) {
                Some(executed) => executed,
                None => self.execute_simple(statement, i + 1 == count).await,
            };
            let result = match executed? {
                Execution::Empty => QueryResult::default(),
                Execution::Command { tag } => QueryResult { tag: tag.to_string(), ..QueryResult::default() },
                Execution::Rows { fields, first, rows, mut tag } => {
                    let mut result = QueryResult {
                        columns: fields.iter().map(|field| field.name.clone()).collect(),
                        ..QueryResult::default()
                    };
                    if let Some(chunk) = first {
                        append(&chunk, &mut result.rows);
                    }
                    if let Some(mut rows) = rows {
                        while let Some(chunk) = rows.next(self).await? {
                            append(&chunk, &mut result.rows);
                        }
                        tag = rows.tag();
                    }
                    result.tag = tag.to_string();
                    result
                }
                Execution::CopyIn(copy) => return Err(copy.fail(self, "COPY needs a client").await),
                Execution::CopyOut(mut copy) => {
                    let mut result = QueryResult { columns: vec!["copy".to_owned()], ..QueryResult::default() };
                    while let Some(data) = copy.next(self).await? {
                        for line in String::from_utf8_lossy(&data.into_data()).lines() {
                            result.rows.push(vec![Some(line.to_owned())]);
                        }
                    }
                    result.tag = copy.tag().to_string();
                    result
                }
            };
            out.push(result);
        }
        Ok(out)
    }

    /// Runs `COPY … FROM STDIN` with the given data.
    ///
    /// # Errors
    /// The statement's, or `42601` if it is not a COPY FROM STDIN.
    pub async fn copy_from(&mut self, sql: &str, data: &[u8]) -> Result<Tag, SqlError> {
        let _in_message = self.message();
        let mut statements = self.split(sql)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(SqlError::syntax("one COPY statement is wanted"));
        };
        match self.execute_simple(statement, true).await? {
            Execution::CopyIn(mut copy) => {
                for part in data.chunks(64 << 10) {
                    copy.data(self, part).await?;
                }
                copy.finish(self).await
            }
            _ => Err(SqlError::syntax("not a COPY FROM STDIN")),
        }
    }
}

fn append(chunk: &RowChunk, rows: &mut Vec<Vec<Option<String>>>) {
    for mut body in chunk.rows() {
        let mut row = Vec::with_capacity(chunk.fields as usize);
        while let Some((head, rest)) = body.split_first_chunk::<4>() {
            match usize::try_from(i32::from_be_bytes(*head)) {
                Ok(len) if len <= rest.len() => {
                    row.push(Some(String::from_utf8_lossy(&rest[..len]).into_owned()));
                    body = &rest[len..];
                }
                _ => {
                    row.push(None);
                    body = rest;
                }
            }
        }
        rows.push(row);
    }
}
