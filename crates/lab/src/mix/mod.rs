//! Mixes of transactions after TPC-C and TPC-E, written anew for this project, and what is
//! measured with them. They follow the specifications' schemas, inputs and shares, but have no
//! think times, no terminals and no audit: results compare modes and servers on one
//! machine and are no TPC results.
//!
//! | file | concept |
//! |---|---|
//! | `db.rs` | a session with prepared statements; transactions; which failures count |
//! | `drive.rs` | client threads that work off a mix, and the latencies that they saw |
//! | `values.rs` | random inputs, amounts, times, loading by COPY |
//! | `tpcc/` | order entry after TPC-C: schema, population, five transactions, its consistency conditions |
//! | `tpce/` | a brokerage after TPC-E, on a smaller schema: ten transactions, 77 % of them reading |
//! | `subject.rs` | the modes and servers that are compared |
//! | `table2.rs` | throughput of both mixes by mode (the paper's table 2) |
//! | `latency.rs` | latencies while the cleaner works off a large aborted update |
//! | `restore.rs` | a disk that dies under load, and starts without the data |
//! | `backup.rs` | what archiving and backups cost |
//! | `day.rs` | ten minutes with aborts, long snapshots, loads, DDL: does everything return to its baseline? |
//!
//! Every statement may fail for a conflict with another transaction (SQLSTATE 40001, 40P01)
//! and for nothing else. After every run the sums must be right: each experiment is a
//! correctness test too, and a wrong sum fails the program.

pub mod backup;
pub mod day;
mod db;
mod drive;
pub mod latency;
pub mod restore;
mod segments;
mod subject;
pub mod table2;
mod tpcc;
mod tpce;
pub mod values;

pub use db::{Db, Stop};
pub use drive::{drive, percentile};
pub use tpcc::TpcC;

use crate::Result;
use crate::servers::Server;
use crate::wire::Client;

/// A mix: its tables, and its clients.
pub trait Mix: Sync {
    fn name(&self) -> &'static str;
    /// The transaction that is counted for the throughput, by its place in [`Mix::kinds`];
    /// `None`: all are.
    fn counted(&self) -> Option<usize>;
    /// The kinds of transactions.
    fn kinds(&self) -> &'static [&'static str];
    /// Statements that every client prepares: name and text.
    fn statements(&self) -> Vec<(String, String)>;
    /// Makes the tables and fills them.
    fn load(&self, client: &mut Client) -> Result<()>;
    /// Clients of one server.
    fn terminals(&self, count: usize, seed: u64) -> Vec<Box<dyn Terminal>>;
    /// What must hold when nobody writes, after what these clients have committed.
    fn expectations(&self, terminals: &[Box<dyn Terminal>]) -> Vec<Expectation>;
    /// Statements that spoil the data, so that each expectation fails after at least one of them.
    fn spoils(&self) -> &'static [&'static str];
}

/// One client of a mix: its random numbers, and what it has committed.
pub trait Terminal: Send {
    /// Chooses the next transaction, by its place in [`Mix::kinds`].
    fn choose(&mut self) -> usize;
    /// Runs one; whether it committed. What is not committed is rolled back already.
    fn run(&mut self, kind: usize, db: &mut Db) -> Result<bool, Stop>;
    /// What was committed by this client so far, for the check; what the numbers mean is the mix's.
    fn committed(&self) -> &[i64];
}

/// Makes the mix's tables on a server and readies it to be measured.
pub fn load(mix: &dyn Mix, server: &Server) -> Result<()> {
    let mut client = server.client()?;
    mix.load(&mut client)?;
    quiesce(server)
}

/// Writes everything out, so that a run does not pay for what was before it. The cleaner goes on at its pace: what a
/// run leaves to it is a part of the cost, of the next one if need be.
pub fn write_out(server: &Server) -> Result<()> {
    server.client()?.query("checkpoint").map(drop)
}

/// Writes everything out, cleans up, so that a run does not pay for what was before it.
pub fn quiesce(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    client.query(if server.kind.is_resurgam() { "vacuum" } else { "vacuum analyze" })?;
    client.query("checkpoint").map(drop)
}

/// A query that answers one value, and the right one.
pub struct Expectation {
    pub what: &'static str,
    pub sql: String,
    pub right: String,
}

impl Expectation {
    /// `sql` answers `right` as a text.
    pub fn new(what: &'static str, sql: impl Into<String>, right: impl ToString) -> Self {
        Self { what, sql: sql.into(), right: right.to_string() }
    }

    /// What is wrong with it, if anything.
    fn judge(&self, client: &mut Client) -> Result<Option<String>> {
        let Self { what, sql, right } = self;
        let found = client.query(sql).map_err(|message| format!("{what}: {message} ({sql})"))?;
        let found = found.unwrap_or_else(|| "nothing".into());
        Ok((found != *right).then(|| format!("{what}: {found}, and {right} is right ({sql})")))
    }
}

/// Checks the mix's expectations; an error that lists what is wrong.
pub fn check(mix: &dyn Mix, server: &Server, terminals: &[Box<dyn Terminal>]) -> Result<()> {
    let mut client = server.client()?;
    let mut wrong = Vec::new();
    for expectation in mix.expectations(terminals) {
        wrong.extend(expectation.judge(&mut client)?);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}, {}: wrong results:\n- {}", mix.name(), server.kind.name(), wrong.join("\n- ")))
}

/// Spoils the data in transactions that are rolled back: an error if an expectation never fails.
pub fn check_the_check(mix: &dyn Mix, server: &Server, terminals: &[Box<dyn Terminal>]) -> Result<()> {
    let mut client = server.client()?;
    let mut blind = mix.expectations(terminals);
    for sql in mix.spoils() {
        client.query("begin")?;
        client.query(sql).map_err(|message| format!("\"{sql}\": {message}"))?;
        let mut found = false;
        for expectation in mix.expectations(terminals) {
            if expectation.judge(&mut client)?.is_some() {
                found = true;
                blind.retain(|other| other.what != expectation.what);
            }
        }
        client.query("rollback")?;
        if !found {
            return Err(format!("nothing was found wrong after \"{sql}\""));
        }
    }
    if blind.is_empty() {
        return check(mix, server, terminals);
    }
    let blind: Vec<&str> = blind.iter().map(|expectation| expectation.what).collect();
    Err(format!("{}: never failed on spoilt data: {}", mix.name(), blind.join("; ")))
}
