//! The table of all these experiments and what is done to it: rows of 200 bytes, clustered
//! by a `bigint` key, an integer of 4 bytes to update. Keys below [`BASE`] are committed
//! before and never touched; a transaction touches the keys from [`BASE`] on, all of them.

use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::Result;
use crate::servers::{Kind, Server};
use crate::session::Session;

/// The first key that a measured transaction touches.
pub const BASE: u64 = 1000;
/// With 8 bytes of key and 4 of number: 200 bytes.
const FILLER: u64 = 188;
/// The last trace has to be gone after this long.
const TRACE_MAX: Duration = Duration::from_secs(3600);

/// What a transaction does to each of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Op {
    Insert,
    Update,
    Delete,
}

impl Op {
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The statement that does it to `rows` rows from [`BASE`] on.
    pub fn statement(self, kind: Kind, rows: u64) -> String {
        match self {
            Self::Insert => insert(kind, BASE, rows),
            Self::Update => format!("update t set n = n + 1 where id >= {BASE}"),
            Self::Delete => format!("delete from t where id >= {BASE}"),
        }
    }
}

/// One statement that inserts `rows` rows from the key `first` on.
pub fn insert(kind: Kind, first: u64, rows: u64) -> String {
    let last = first + rows.max(1) - 1;
    match kind {
        Kind::MariaDb => format!("insert into t select seq, 0, repeat('x', {FILLER}) from seq_{first}_to_{last}"),
        _ => format!("insert into t select i, 0, repeat('x', {FILLER}) from generate_series({first}, {last}) as s(i)"),
    }
}

/// An insert of one row, whose key is a parameter.
pub fn insert_one() -> String {
    format!("insert into t values ($1, 0, '{}')", "x".repeat(FILLER as usize))
}

/// A row as a line of COPY's input.
pub fn copy_line(key: u64) -> String {
    format!("{key}\t0\t{}\n", "x".repeat(FILLER as usize))
}

/// Makes the table, with the rows that are never touched.
pub fn create_table(server: &Server) -> Result<()> {
    let mut session = server.session()?;
    let filler = if server.kind == Kind::MariaDb { "varchar(200)" } else { "text" };
    session.query(&format!("create table t (id bigint primary key, n integer not null, filler {filler} not null)"))?;
    session.query(&insert(server.kind, 0, BASE)).map(drop)
}

/// Loads the rows that updates and deletes touch, committed.
pub fn load(server: &Server, rows: u64) -> Result<()> {
    server.session()?.query(&insert(server.kind, BASE, rows)).map(drop)
}

/// Reads a touched row by its key, in the middle of them, and checks that it is as it was
/// before the transaction that did `op`.
pub fn read_touched(session: &mut Session, op: Op, rows: u64) -> Result<()> {
    let key = BASE + rows / 2;
    let found = session.query(&format!("select n from t where id = {key}"))?;
    let right = match op {
        Op::Insert => found.is_none(),
        Op::Update | Op::Delete => found.as_deref() == Some("0"),
    };
    if right { Ok(()) } else { Err(format!("row {key} is wrong after the {} was undone: {found:?}", op.name())) }
}

/// Writes to the row of [`read_touched`], committed. May wait for an undo.
pub fn write_touched(session: &mut Session, op: Op, rows: u64) -> Result<()> {
    let key = BASE + rows / 2;
    let sql = match op {
        Op::Insert => format!("insert into t values ({key}, 5, 'again')"),
        Op::Update | Op::Delete => format!("update t set n = n + 5 where id = {key}"),
    };
    session.query(&sql).map(drop)
}

/// Takes back what [`write_touched`] wrote, and checks that it was there.
pub fn unwrite_touched(session: &mut Session, op: Op, rows: u64) -> Result<()> {
    let key = BASE + rows / 2;
    if session.query(&format!("select n from t where id = {key}"))?.as_deref() != Some("5") {
        return Err(format!("the committed write to row {key} is lost"));
    }
    let sql = match op {
        Op::Insert => format!("delete from t where id = {key}"),
        Op::Update | Op::Delete => format!("update t set n = 0 where id = {key}"),
    };
    session.query(&sql).map(drop)
}

/// Cleans up (VACUUM; InnoDB does it by itself) until no trace of aborted work is left.
pub fn clean(server: &Server) -> Result<()> {
    let mut session = server.session()?;
    match server.kind {
        Kind::Postgres => session.query("vacuum t").map(drop),
        Kind::Resurgam | Kind::Traditional => {
            session.query("vacuum")?;
            until(PACE, || Ok(left_of_aborted(&mut session)? == 0))
        }
        Kind::MariaDb => until(INNODB_PACE, || Ok(left_of_aborted(&mut session)? == 0)),
    }
}

/// Aborted transactions of which the server keeps something: Resurgam's list of them;
/// InnoDB's transactions that roll back and its history list. 0 of PostgreSQL, which does
/// not know.
pub fn left_of_aborted(session: &mut Session) -> Result<u64> {
    let sql = match session {
        Session::Wire(_) => "select count(*) from resurgam_aborted_transactions",
        Session::MariaDb(_) => {
            "select (select count(*) from information_schema.innodb_trx) + (select variable_value from \
             information_schema.global_status where variable_name = 'INNODB_HISTORY_LIST_LENGTH')"
        }
    };
    let text = session.query(sql)?.unwrap_or_default();
    // MariaDB adds a number and a text to a float.
    text.parse::<f64>().map(|left| left as u64).map_err(|_| format!("not a number: {text:?}"))
}

/// Between two questions.
pub const PACE: Duration = Duration::from_millis(5);

/// What InnoDB says of its transactions is read anew only where nobody has asked for a tenth of a second
/// (`CACHE_MIN_IDLE_TIME_NS` in trx0i_s.cc): who asks more often is told the first answer for ever.
const INNODB_PACE: Duration = Duration::from_millis(150);

/// Asks again until it is so.
pub fn until(pace: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !done()? {
        if begun.elapsed() > TRACE_MAX {
            return Err(format!("traces of aborted work are left after {} s", TRACE_MAX.as_secs()));
        }
        std::thread::sleep(pace);
    }
    Ok(())
}

/// Seconds that something takes.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_touch_the_rows_from_the_base_on() {
        assert!(Op::Insert.statement(Kind::Resurgam, 10).contains("generate_series(1000, 1009)"));
        assert!(Op::Insert.statement(Kind::MariaDb, 10).contains("seq_1000_to_1009"));
        assert!(Op::Delete.statement(Kind::Postgres, 10).ends_with("id >= 1000"));
    }
}
