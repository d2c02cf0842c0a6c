//! Every cast, operator and function by the types of its arguments, every type in every place where a value may stand, and every word as a name:
//! each by itself on PostgreSQL and on Resurgam, whose answers have to be the same (texts, types and names of columns), or errors.
//!
//! Random statements (`lab fuzz`) reach deep shapes of what is common; these reach all of what is shallow. What is
//! refused (0A000) is counted; so are errors with another SQLSTATE. Known differences are in `known.txt`.
//!
//! | file | concept |
//! |---|---|
//! | `types.rs` | types, and values at the ends of each |
//! | `texts.rs` | the families of statements |
//! | `known.txt` | differences that have a reason |

mod texts;
mod types;

use std::collections::{BTreeMap, HashSet};

use clap::{Args, ValueEnum};

use super::client::Reply;
use super::fuzz::case::Kind as CaseKind;
use super::fuzz::compare::{Difference, compare};
use super::fuzz::sides::Side;
use super::known::Known;
use crate::servers::{Kind, Server, Work};
use crate::{Common, Result};

/// What a server refuses by name.
const REFUSED: &str = "0A000";

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Only these families
    #[arg(long, value_delimiter = ',')]
    only: Vec<Family>,
    /// One in so many statements of casts, operators and functions
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Which ones these are
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The zone of both sessions
    #[arg(long, default_value = "UTC")]
    timezone: String,
    /// Differences that are shown
    #[arg(long, default_value_t = 60)]
    shown: usize,
    /// A planted bug: Resurgam gets other constants. It is a failure if nothing differs
    #[arg(long)]
    canary: bool,
}

/// A family of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Family {
    /// From each type to each
    Casts,
    /// Each operator between each two types
    Operators,
    /// Each function of one and two arguments
    Functions,
    /// Each type in each place where a value may stand: orders, groups, keys, windows, joins, writes
    Uses,
    /// Each keyword of PostgreSQL's, and of other dialects, as a name
    Words,
}

/// Both servers, and what was found.
struct Run<'o> {
    options: &'o Options,
    theirs: Side,
    ours: Side,
    known: Known,
    family: Family,
    /// The family, and in `uses` the type: how `known.txt` names it.
    label: String,
    labels: Vec<String>,
    statements: u64,
    counts: BTreeMap<(Family, &'static str), u64>,
    seen: HashSet<String>,
    /// Differences without a reason.
    found: u64,
}

/// Runs the statements.
///
/// # Errors
/// In words: something differed that has no reason, or a server could not be run.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let postgres = Server::create(Kind::Postgres, &options.common, work.path())?;
    let resurgam = Server::create(Kind::Resurgam, &options.common, work.path())?;
    let make = "CREATE DATABASE matrix TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'";
    postgres.client()?.query(make)?;
    let zone = format!("SET timezone = '{}'", options.timezone);
    let settings = ["SET synchronous_commit = off", zone.as_str()];
    let mut run = Run {
        options,
        theirs: Side::connect(postgres.port, "matrix", &[settings[0], settings[1], "SET jit = off"])?,
        ours: Side::connect(resurgam.port, "postgres", &settings)?,
        known: Known::read(include_str!("known.txt"))?,
        family: Family::Casts,
        label: String::new(),
        labels: Vec::new(),
        statements: 0,
        counts: BTreeMap::new(),
        seen: HashSet::new(),
        found: 0,
    };
    for text in types::OWN {
        run.both(text)?;
    }
    let all = Family::value_variants();
    for family in all.iter().filter(|family| options.only.is_empty() || options.only.contains(family)) {
        run.family = *family;
        run.named(format!("{family:?}").to_lowercase());
        match family {
            Family::Casts => texts::casts(&mut run)?,
            Family::Operators => texts::operators(&mut run)?,
            Family::Functions => texts::functions(&mut run)?,
            Family::Uses => texts::uses(&mut run)?,
            Family::Words => texts::words(&mut run)?,
        }
    }
    run.report()
}

impl Run<'_> {
    /// One statement on both sides, whatever it answers.
    fn both(&mut self, text: &str) -> Result<(Reply, Reply)> {
        let theirs = self.theirs.query(text)?;
        let altered = if self.options.canary { text.replace("'1'", "'2'") } else { text.to_owned() };
        Ok((theirs, self.ours.query(&altered)?))
    }

    /// PostgreSQL's rows, as texts.
    fn asked(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>> {
        let reply = self.theirs.query(text)?;
        match reply.outcomes.last() {
            Some(outcome) if outcome.error.is_none() => {
                Ok(outcome.rows.iter().map(|row| super::client::Outcome::texts(row)).collect())
            }
            _ => Err(format!("{text}: {:?}", reply.error())),
        }
    }

    /// The same, if the statement is among those that are run.
    fn sampled(&mut self, text: &str) -> Result<()> {
        // FNV-1a: which ones are run depends on nothing else.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ self.options.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        if (hash >> 20).is_multiple_of(self.options.every.max(1)) { self.judged(text).map(drop) } else { Ok(()) }
    }

    /// Runs a statement, and counts what differs. Returns whether it was refused.
    fn judged(&mut self, text: &str) -> Result<bool> {
        let (theirs, ours) = self.both(text)?;
        self.statements += 1;
        if self.statements.is_multiple_of(50_000) {
            eprintln!("{} statements, {} differ", self.statements, self.found);
        }
        let refused = |reply: &Reply| reply.error().is_some_and(|error| error.code == REFUSED);
        if refused(&ours) && !refused(&theirs) {
            self.count("refused");
            return Ok(true);
        }
        // The simple protocol gives texts, so the order of rows is compared as it is.
        let differs = compare(&theirs, &ours, CaseKind::Query { ordered: true });
        let Some(differs) = differs else { return Ok(false) };
        if differs.what == Difference::Code {
            self.count("another SQLSTATE");
            return Ok(false);
        }
        // Reserved words that are taken for names do no harm.
        if self.family == Family::Words && differs.what == Difference::ErrorMissing {
            self.count("accepted beyond PostgreSQL");
            return Ok(false);
        }
        if self.known.reason(&self.label, text).is_some() {
            self.count("known");
            return Ok(false);
        }
        self.count("differ");
        self.found += 1;
        let about = format!("{:?} {}", differs.what, super::fuzz::compare::shape(text));
        if self.seen.len() < self.options.shown && self.seen.insert(about) {
            println!(
                "{:?}: {text}\n    PostgreSQL: {}\n    Resurgam:   {}",
                differs.what, differs.theirs, differs.ours
            );
        }
        Ok(false)
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry((self.family, what)).or_default() += 1;
    }

    /// What follows is known by this name.
    fn named(&mut self, label: String) {
        self.labels.push(label.clone());
        self.label = label;
    }

    fn report(&self) -> Result<()> {
        for ((family, what), count) in &self.counts {
            println!("{family:?}: {count} {what}");
        }
        println!("{} statements", self.statements);
        if self.options.every == 1 && self.options.only.is_empty() {
            for entry in self.known.unused(&self.labels) {
                println!("known, and does not differ: {entry}");
            }
        }
        match (self.options.canary, self.found) {
            (false, 0) => Ok(()),
            (false, found) => Err(format!("{found} statements differ")),
            (true, 0) => Err("the planted bug was not found".into()),
            (true, _) => Ok(()),
        }
    }
}
