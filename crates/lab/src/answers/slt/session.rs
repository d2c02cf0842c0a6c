//! A session as the `sqllogictest` crate wants it.
//!
//! Values are written as SQLite's own runner does, by the type that the *record* expects of the
//! column (`T`, `I`, `R`): NULL as `NULL`, an empty text as `(empty)`, `R` with three digits
//! after the point, `I` and `T` as the server wrote them. An `I` with digits after the point
//! is therefore a failure, as it should be.

use std::sync::{Arc, Mutex};

use sqllogictest::{DB, DBOutput, DefaultColumnType};

use super::Protocol;
use crate::answers::client::{Client, Complaint, Outcome, Reply, Value};

/// The types that the record at hand expects; shared with the session.
#[derive(Clone, Default)]
pub struct Types(Arc<Mutex<Vec<DefaultColumnType>>>);

impl Types {
    pub fn expect(&self, types: Vec<DefaultColumnType>) {
        if let Ok(mut now) = self.0.lock() {
            *now = types;
        }
    }

    fn get(&self) -> Vec<DefaultColumnType> {
        self.0.lock().map(|now| now.clone()).unwrap_or_default()
    }
}

/// An error of the server, or the end of the connection.
#[derive(Debug)]
pub struct Failure {
    code: Option<String>,
    text: String,
}

impl Failure {
    pub fn connection(text: String) -> Self {
        Self { code: None, text }
    }
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Self { text: complaint.to_string(), code: Some(complaint.code) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

pub struct Session {
    client: Client,
    protocol: Protocol,
    types: Types,
}

impl Session {
    pub fn new(client: Client, protocol: Protocol, types: Types) -> Self {
        Self { client, protocol, types }
    }

    fn reply(&mut self, sql: &str) -> Result<Reply, Failure> {
        if self.protocol == Protocol::Simple {
            return self.client.query(sql).map_err(Failure::connection);
        }
        // The nameless statement, so nothing has to be closed.
        self.client.prepare("", sql, &[]).map_err(Failure::connection)??;
        self.client.execute("", &[], &[], 0).map_err(Failure::connection)
    }
}

impl DB for Session {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut reply = self.reply(sql)?;
        let outcome = reply.outcomes.pop().unwrap_or_default();
        if let Some(error) = outcome.error {
            return Err(error.into());
        }
        let Some(columns) = outcome.columns else {
            return Ok(DBOutput::StatementComplete(count(&outcome)));
        };
        let mut types = self.types.get();
        types.resize(columns.len(), DefaultColumnType::Any);
        let write = |row: &Vec<Value>| row.iter().zip(&types).map(|(value, kind)| written(value, kind)).collect();
        let rows = outcome.rows.iter().map(write).collect();
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &str {
        "postgresql"
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        error.code.clone()
    }
}

/// The number at the end of the tag.
fn count(outcome: &Outcome) -> u64 {
    let tag = outcome.tag.as_deref().unwrap_or_default();
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn written(value: &Value, kind: &DefaultColumnType) -> String {
    let Some(bytes) = value else { return "NULL".into() };
    let text = String::from_utf8_lossy(bytes);
    match kind {
        DefaultColumnType::FloatingPoint => {
            text.parse::<f64>().map_or_else(|_| text.clone().into_owned(), |number| format!("{number:.3}"))
        }
        _ if text.is_empty() => "(empty)".into(),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_sqlite_does() {
        let value = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(written(&None, &DefaultColumnType::Integer), "NULL");
        assert_eq!(written(&value(""), &DefaultColumnType::Text), "(empty)");
        assert_eq!(written(&value("182.5000000000000000"), &DefaultColumnType::FloatingPoint), "182.500");
        assert_eq!(written(&value("182.5"), &DefaultColumnType::Integer), "182.5");
        assert_eq!(written(&value("7"), &DefaultColumnType::Integer), "7");
    }
}
