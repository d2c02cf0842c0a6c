//! A session with a mix's statements prepared. A failure is a conflict, after which the
//! transaction is given up, or it ends the experiment.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::Result;
use crate::wire::{Answer, Client, Row, is_conflict};

/// A statement that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a transaction ended early.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// It met another one; the session goes on after a rollback.
    Conflict,
    /// Anything else: the server or the experiment is at fault.
    Failed(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// See the module's head.
pub struct Db {
    client: Client,
    times: Times,
}

/// Of each statement, by its name or text: round trips, and their time together.
pub type Times = BTreeMap<String, (u64, Duration)>;

impl Db {
    /// Connects and prepares the statements.
    ///
    /// # Errors
    /// The server's message, with the statement that it refuses.
    pub fn connect(port: u16, statements: &[(String, String)]) -> Result<Self> {
        let mut client = Client::connect_within(port, Some(PATIENCE))?;
        for (name, sql) in statements {
            client.prepare(name, sql).map_err(|message| format!("preparing \"{sql}\": {message}"))?;
        }
        Ok(Self { client, times: Times::new() })
    }

    /// Runs a prepared statement.
    pub fn run(&mut self, name: &str, parameters: &[&dyn Display]) -> Result<Answer, Stop> {
        self.run_all(name, &[parameters])
    }

    /// Runs a prepared statement for each set of parameters; they are sent together.
    pub fn run_all(&mut self, name: &str, sets: &[&[&dyn Display]]) -> Result<Answer, Stop> {
        let begun = Instant::now();
        let done = self.client.execute(name, sets).map_err(|message| judge(name, message));
        self.note(name, begun.elapsed());
        done
    }

    /// Runs a query that answers one row at most.
    pub fn row(&mut self, name: &str, parameters: &[&dyn Display]) -> Result<Option<Row>, Stop> {
        self.run(name, parameters).map(|answer| answer.rows.into_iter().next())
    }

    /// Runs a query that must answer one row.
    pub fn one(&mut self, name: &str, parameters: &[&dyn Display]) -> Result<Row, Stop> {
        let row = self.row(name, parameters)?;
        row.ok_or_else(|| {
            let given: Vec<String> = parameters.iter().map(ToString::to_string).collect();
            Stop::Failed(format!("{name} ({}): no row, but there must be one", given.join(", ")))
        })
    }

    /// Runs a statement that must change exactly one row.
    pub fn change(&mut self, name: &str, parameters: &[&dyn Display]) -> Result<(), Stop> {
        let changed = self.run(name, parameters)?.count;
        if changed == 1 {
            return Ok(());
        }
        let given: Vec<String> = parameters.iter().map(ToString::to_string).collect();
        Err(Stop::Failed(format!("{name} ({}): {changed} rows changed, not 1", given.join(", "))))
    }

    /// Runs a text as it is.
    pub fn query(&mut self, sql: &str) -> Result<Option<String>, Stop> {
        let begun = Instant::now();
        let done = self.client.query(sql).map_err(|message| judge(sql, message));
        self.note(sql, begun.elapsed());
        done
    }

    /// Runs a text for its rows.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Stop> {
        self.client.rows(sql).map_err(|message| judge(sql, message))
    }

    fn note(&mut self, name: &str, took: Duration) {
        match self.times.get_mut(name) {
            Some((count, time)) => (*count, *time) = (*count + 1, *time + took),
            None => drop(self.times.insert(name.to_owned(), (1, took))),
        }
    }

    /// What each statement took so far.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// Runs a transaction; whether it committed, which it does if `body` answers true.
    /// After a conflict it is rolled back.
    pub fn transaction(&mut self, body: impl FnOnce(&mut Self) -> Result<bool, Stop>) -> Result<bool, Stop> {
        self.query("begin")?;
        let done = body(self).and_then(|commit| if commit { self.query("commit").map(|_| true) } else { Ok(false) });
        match done {
            Ok(true) => Ok(true),
            Ok(false) | Err(Stop::Conflict) => {
                // After a commit that failed there is no transaction; rolling back is a warning then.
                self.query("rollback")?;
                done
            }
            failed => failed,
        }
    }
}

fn judge(what: &str, message: String) -> Stop {
    if is_conflict(&message) {
        return Stop::Conflict;
    }
    let what: String = what.chars().take(200).collect();
    Stop::Failed(format!("\"{what}\": {message}"))
}

/// A column as a number.
pub fn integer(row: &Row, column: usize) -> Result<i64, Stop> {
    let text = text(row, column)?;
    text.parse().map_err(|_| Stop::Failed(format!("\"{text}\" is not a whole number")))
}

/// A column that is not null.
pub fn text(row: &Row, column: usize) -> Result<&str, Stop> {
    let value = row.get(column).and_then(Option::as_deref);
    value.ok_or_else(|| Stop::Failed(format!("column {column} of a row is null or not there")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conflicts_are_forgiven() {
        assert_eq!(judge("x", "ERROR 40001: could not serialize".into()), Stop::Conflict);
        assert_eq!(judge("x", "ERROR 40P01: deadlock detected".into()), Stop::Conflict);
        assert!(matches!(judge("x", "ERROR 53200: out of memory".into()), Stop::Failed(_)));
    }

    #[test]
    fn columns_are_read() {
        let row: Row = vec![Some("7".into()), None];
        assert_eq!(integer(&row, 0), Ok(7));
        assert!(integer(&row, 1).is_err() && text(&row, 2).is_err());
    }
}
