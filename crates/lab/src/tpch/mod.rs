//! TPC-H's queries (version 3 of the specification), beside PostgreSQL: the same data in both, answers compared, medians
//! of times. Not a TPC result: one stream of queries with their validation parameters, no refresh functions, and data
//! of our own generator.
//!
//! | file | concept |
//! |---|---|
//! | `words.rs`, `text.rs`, `random.rs`, `population.rs` | the data, row by row |
//! | `schema.rs`, `queries.rs` | tables, keys, indexes; the 22 queries |
//! | `side.rs` | a server with the data |
//! | `compare.rs` | whether two answers are the same |
//! | `report.rs` | what is written of it |

mod compare;
mod population;
mod queries;
mod random;
mod report;
mod schema;
mod side;
mod text;
mod words;

use clap::Args;

use crate::report as files;
use crate::servers::{Work, kinds};
use crate::{Common, Result, machine};
use population::Population;
use queries::Query;
use side::{End, Side};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Scale of the data: 1 is about a gigabyte of text; 0.01 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Runs of each query on each server, taking turns, after one that is not counted
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// A query that takes longer than this is ended, and not run again
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit_seconds: u64,
    /// Only these queries
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    only: Vec<usize>,
    /// Declare primary keys with the tables; otherwise they are made once the rows are there
    #[arg(long)]
    keys_first: bool,
    /// Declare foreign keys as well
    #[arg(long)]
    foreign_keys: bool,
    /// One more flag for Resurgam; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// A setting of PostgreSQL's session, for instance `work_mem = '64MB'`; may be repeated
    #[arg(long, value_name = "SETTING")]
    postgres_set: Vec<String>,
    /// Random seed of the data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Another name for the results, so that they stand beside those of a run before
    #[arg(long, default_value = "tpch")]
    name: String,
}

/// What became of a query on a server.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Seconds of the counted runs.
    Times(Vec<f64>),
    TooLong,
    Failed(String),
}

impl Outcome {
    fn median(&self) -> Option<f64> {
        match self {
            Self::Times(times) => Some(files::median(times)),
            Self::TooLong | Self::Failed(_) => None,
        }
    }
}

/// A query on all servers, in their order.
pub struct Measured {
    query: Query,
    outcomes: Vec<Outcome>,
    /// Rows of the first server's answer.
    rows: Option<usize>,
    /// What differs between the answers; nothing if they are the same, or could not be compared.
    difference: Option<String>,
}

/// Runs the experiment.
///
/// # Errors
/// In words; also, once everything is written, that answers differ, or that a query failed, or took too long where
/// PostgreSQL's did not.
pub fn run(options: &Options) -> Result<()> {
    let population = Population::new(options.scale, options.seed)?;
    let mut queries = queries::all(options.scale);
    queries.retain(|query| options.only.is_empty() || options.only.contains(&query.number));
    if queries.is_empty() {
        return Err("no query has such a number".into());
    }
    let work = Work::new(&options.common)?;
    let machine = machine::describe(work.path());
    let mut sides = Vec::new();
    for kind in kinds(&options.common)? {
        sides.push(Side::new(options, kind, work.path(), &population)?);
    }
    let mut measured = Vec::new();
    for query in queries {
        measured.push(measure(options, query, &mut sides)?);
    }
    let (text, svg) = report::report(options, &sides, &measured, &machine);
    files::write(&options.common, &options.name, &text, &svg)?;
    let wrong: Vec<String> = measured.iter().filter_map(complaint).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Runs a query once on each side for its answer, then, taking turns, for its times.
fn measure(options: &Options, query: Query, sides: &mut [Side<'_>]) -> Result<Measured> {
    let (mut answers, mut outcomes) = (Vec::new(), Vec::new());
    for side in sides.iter_mut() {
        let (end, seconds) = side.run(&query.sql)?;
        eprintln!("query {}, {}, first: {seconds:.3} s", query.number, side.server.kind.name());
        let (answer, outcome) = match end {
            End::Rows(rows) => (Some(rows), Outcome::Times(Vec::new())),
            End::TooLong => (None, Outcome::TooLong),
            End::Failed(message) => (None, Outcome::Failed(message)),
        };
        answers.push(answer);
        outcomes.push(outcome);
    }
    let difference = match &answers[..] {
        [Some(ours), Some(theirs)] => compare::difference(&query, ours, theirs),
        _ => None,
    };
    for run in 0..options.runs as usize {
        for turn in 0..sides.len() {
            let at = (run + turn) % sides.len();
            let Outcome::Times(times) = &mut outcomes[at] else { continue };
            match sides[at].run(&query.sql)? {
                (End::Rows(_), seconds) => times.push(seconds),
                (End::TooLong, _) => outcomes[at] = Outcome::TooLong,
                (End::Failed(message), _) => outcomes[at] = Outcome::Failed(message),
            }
        }
    }
    let rows = answers.first().and_then(|answer| answer.as_ref()).map(Vec::len);
    for (side, outcome) in sides.iter().zip(&outcomes) {
        eprintln!("query {}, {}: {}", query.number, side.server.kind.name(), report::shown(outcome, options));
    }
    if let Some(difference) = &difference {
        eprintln!("query {}: ANSWERS DIFFER: {difference}", query.number);
    }
    Ok(Measured { query, outcomes, rows, difference })
}

/// What is wrong with the first server's part, if anything.
fn complaint(measured: &Measured) -> Option<String> {
    let number = measured.query.number;
    if let Some(difference) = &measured.difference {
        return Some(format!("query {number}: the answers differ: {difference}"));
    }
    let is_theirs_in_time = measured.outcomes.get(1).is_none_or(|theirs| theirs.median().is_some());
    match measured.outcomes.first() {
        Some(Outcome::Failed(message)) => Some(format!("query {number}: {message}")),
        Some(Outcome::TooLong) if is_theirs_in_time => Some(format!("query {number} took too long")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_about_resurgam() {
        let about = |ours: Outcome, theirs: Outcome, difference: Option<&str>| {
            let query = queries::all(1.0).remove(0);
            let difference = difference.map(str::to_owned);
            complaint(&Measured { query, outcomes: vec![ours, theirs], rows: None, difference })
        };
        let times = || Outcome::Times(vec![1.0]);
        assert_eq!(about(times(), times(), None), None);
        assert!(about(times(), times(), Some("row 1")).is_some());
        assert!(about(Outcome::TooLong, times(), None).is_some());
        assert_eq!(about(Outcome::TooLong, Outcome::TooLong, None), None);
        assert!(about(Outcome::Failed("ERROR".into()), Outcome::TooLong, None).is_some());
        assert_eq!(about(times(), Outcome::TooLong, None), None);
    }
}
