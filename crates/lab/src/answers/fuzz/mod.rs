//! `lab fuzz`: seeded random statements against PostgreSQL 15 and Resurgam side by side.
//!
//! A *round* has tables of its own, their rows, and a number of texts; everything in it comes
//! from the seed and the round's number. Each text is run seven times, each time with other
//! constants: three times by the simple protocol, where they are literals, and four times as one
//! prepared statement, where they are parameters, with each pair of formats of parameters and
//! results. Compared are rows (in order, where ORDER BY says one), types and names of columns,
//! types of parameters, tags, SQLSTATEs; after a statement that writes, the tables.
//!
//! | file | concept |
//! |---|---|
//! | `types.rs`, `values.rs` | types and constants |
//! | `tree.rs` | a statement as a tree with holes |
//! | `schema.rs` | tables and rows |
//! | `generator.rs` | names in scope, and what keeps answers determined |
//! | `expr.rs`, `scalar.rs`, `aggregate.rs` | expressions |
//! | `query.rs`, `dml.rs`, `invalid.rs` | statements |
//! | `rare.rs` | statements that those never make |
//! | `typed.rs`, `objects.rs` | types with operators of their own, and what has to be made for them |
//! | `limited.rs` | limits, orders and windows within each other |
//! | `orders/` | rounds of statements that find false orders |
//! | `case.rs` | a text with its constants, and its runs |
//! | `sides.rs`, `compare.rs` | running it on both servers, and what differs |
//! | `minimise.rs` | making a finding small |
//! | `known.rs` | differences that are known, with reasons |
//! | `canary.rs` | planted bugs |
//! | `summary.rs` | what a run came to |

mod aggregate;
mod canary;
pub(super) mod case;
pub(super) mod compare;
mod dml;
mod expr;
mod generator;
mod invalid;
mod known;
mod limited;
mod minimise;
mod objects;
mod orders;
mod query;
mod rare;
mod scalar;
mod schema;
pub(super) mod sides;
mod summary;
mod tree;
mod typed;
mod types;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::servers::{Kind, Server, Work};
use crate::{Common, Result};
use canary::{Canary, Planted};
use case::Case;
use minimise::{Finding, minimise};
use schema::Schema;
use sides::{Side, Sides};
use summary::Summary;

/// Texts of a round.
const TEXTS: usize = 50;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How many texts, rounded up to whole rounds of 50
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    statements: usize,
    /// Where all choices come from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Only this round of the seed
    #[arg(long, value_name = "R")]
    round: Option<usize>,
    /// Make findings small
    #[arg(long)]
    minimise: bool,
    /// Findings of the same kind that are shown, and made small
    #[arg(long, value_name = "N", default_value_t = 5)]
    shown: usize,
    /// Begin no round after so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Pairs of servers that work side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_once: usize,
    /// A planted bug, between two PostgreSQLs: it is a failure if it is not found
    #[arg(long, value_name = "NAME")]
    canary: Option<Canary>,
    /// A mistake that the server makes (one that was built with `--features resurgam-sql/planted`): it is a failure if it is not found
    #[arg(long, value_name = "NAME", conflicts_with = "canary")]
    planted: Option<Planted>,
    /// All planted bugs one after the other, those of the server, too, and first none, when nothing may differ
    #[arg(long)]
    canaries: bool,
    /// The server under test; PostgreSQL with other plans shows that answers are determined
    #[arg(long, default_value = "resurgam")]
    against: Against,
    /// A file for the findings
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Per cent of the texts that may differ: what is open today, to be lowered as findings are mended
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    open: f64,
    /// Only rounds of statements about orders, which are one in six otherwise
    #[arg(long)]
    orders: bool,
    /// Print the texts of the round instead of running them
    #[arg(long)]
    print: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Against {
    Resurgam,
    Postgres,
}

/// Runs the statements.
///
/// # Errors
/// In words: something differed that is not known, a planted bug was not found, or a server
/// could not be run.
pub fn run(options: &Options) -> Result<()> {
    if options.print {
        print_round(options, options.round.unwrap_or(0));
        return Ok(());
    }
    if options.canaries {
        return run_canaries(options);
    }
    let summary = run_all(options, Wrong::of(options), options.against)?;
    let text = summary.text(options.shown);
    print!("{text}");
    if let Some(file) = &options.report {
        std::fs::write(file, &text).map_err(|e| format!("could not write \"{}\": {e}", file.display()))?;
    }
    match (Wrong::of(options), summary.findings()) {
        (Wrong::Nothing, 0) => Ok(()),
        (Wrong::Nothing, found) if (found as f64) * 100.0 <= options.open * (summary.texts() as f64) => Ok(()),
        (Wrong::Nothing, found) => Err(format!("{found} texts of seed {} differ", options.seed)),
        (wrong, 0) => Err(format!("the planted bug was not found: {wrong:?}")),
        _ => Ok(()),
    }
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Between two PostgreSQLs.
    Between(Canary),
    /// In the server.
    Within(Planted),
}

impl Wrong {
    fn of(options: &Options) -> Self {
        match (options.canary, options.planted) {
            (Some(canary), _) => Self::Between(canary),
            (None, Some(planted)) => Self::Within(planted),
            (None, None) => Self::Nothing,
        }
    }
}

fn run_canaries(options: &Options) -> Result<()> {
    for (against, who) in [(Against::Postgres, "two PostgreSQLs"), (Against::Resurgam, "PostgreSQL and Resurgam")] {
        let clean = run_all(options, Wrong::Nothing, against)?;
        println!("none, {who}: {} of {} texts differ", clean.findings(), clean.texts());
        if clean.findings() > 0 {
            return Err(format!("{who} differ:\n{}", clean.text(options.shown)));
        }
    }
    let between = Canary::value_variants().iter().map(|canary| Wrong::Between(*canary));
    let within = Planted::value_variants().iter().map(|planted| Wrong::Within(*planted));
    let mut missed = Vec::new();
    for wrong in between.chain(within) {
        let summary = run_all(options, wrong, Against::Resurgam)?;
        println!("{wrong:?}: {} of {} texts differ", summary.findings(), summary.texts());
        if summary.findings() == 0 {
            missed.push(format!("{wrong:?}"));
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

fn run_all(options: &Options, wrong: Wrong, against: Against) -> Result<Summary> {
    let (against, canary, planted) = match wrong {
        Wrong::Nothing => (against, None, None),
        Wrong::Between(canary) => (Against::Postgres, Some(canary), None),
        Wrong::Within(planted) => (Against::Resurgam, None, Some(planted.name())),
    };
    let rounds: Vec<usize> = match options.round {
        Some(round) => vec![round],
        None => (0..options.statements.div_ceil(TEXTS)).collect(),
    };
    let begun = Instant::now();
    let late = || options.minutes.is_some_and(|minutes| begun.elapsed().as_secs_f64() > minutes * 60.0);
    let work = Work::new(&options.common)?;
    let postgres = Server::create(Kind::Postgres, &options.common, work.path())?;
    let workers = options.at_once.clamp(1, rounds.len().max(1));
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Summary::default());
    let failed = Mutex::new(None);
    let budget = Budget { most: options.shown, taken: Mutex::default() };
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (work, postgres, next, total, failed, rounds) = (&work, &postgres, &next, &total, &failed, &rounds);
            let (budget, late) = (&budget, &late);
            scope.spawn(move || {
                let done = (|| {
                    let dir = work.path().join(format!("{worker}"));
                    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
                    let server = match against {
                        Against::Resurgam => {
                            Some(Server::create_planted(Kind::Resurgam, &options.common, &dir, &[], planted)?)
                        }
                        Against::Postgres => None,
                    };
                    let mut sides = sides(postgres, server.as_ref(), worker, canary)?;
                    while !late()
                        && let Some(round) = rounds.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let summary = run_round(&mut sides, options, budget, *round)?;
                        total.lock().map_err(|_| "a thread panicked")?.add(summary);
                    }
                    Ok::<(), String>(())
                })();
                if let (Err(why), Ok(mut failed)) = (done, failed.lock()) {
                    *failed = Some(why);
                }
            });
        }
    });
    let total = total.into_inner().map_err(|_| "a thread panicked")?;
    match failed.into_inner().map_err(|_| "a thread panicked")? {
        Some(why) => Err(format!("{}\n{why}", total.text(options.shown))),
        None => Ok(total),
    }
}

/// A pair of sessions, in databases of their own.
fn sides(postgres: &Server, resurgam: Option<&Server>, worker: usize, canary: Option<Canary>) -> Result<Sides> {
    // Texts are compared byte by byte, and letters are those of Unicode, as in Resurgam.
    let make = |name: &str| {
        let text = format!("CREATE DATABASE {name} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'");
        postgres.client()?.query(&text).map(drop)
    };
    let both = ["SET synchronous_commit = off", "SET timezone = 'UTC'"];
    let name = format!("lab{worker}");
    make(&name)?;
    let theirs = Side::connect(postgres.port, &name, &[both[0], both[1], "SET jit = off"])?;
    let ours = match resurgam {
        Some(server) => Side::connect(server.port, "postgres", &both)?,
        None => {
            let name = format!("lab{worker}b");
            make(&name)?;
            // Other plans: what depends on them shows.
            let plans = [
                "SET enable_hashjoin = off",
                "SET enable_hashagg = off",
                "SET enable_seqscan = off",
                "SET enable_nestloop = off",
                "SET enable_memoize = off",
            ];
            let settings: Vec<&str> = both.into_iter().chain(plans).chain(["SET jit = off"]).collect();
            Side::connect(postgres.port, &name, &settings)?
        }
    };
    Sides::new(theirs, ours, canary)
}

/// How many findings of each kind are still to be made small.
struct Budget {
    most: usize,
    taken: Mutex<BTreeMap<String, usize>>,
}

impl Budget {
    fn take(&self, finding: &Finding) -> Result<bool> {
        let mut taken = self.taken.lock().map_err(|_| "a thread panicked")?;
        let count = taken.entry(finding.signature()).or_default();
        *count += 1;
        // What is wrong with rows has many causes.
        let many = if finding.differs.what <= compare::Difference::Rows { 4 } else { 1 };
        Ok(*count <= self.most * many)
    }
}

/// What the choices of something come from: the seed and its number.
fn seed_of(seed: u64, round: usize, text: usize) -> u64 {
    // SplitMix64's mixing; neighbours have nothing in common.
    let mut x =
        seed ^ (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (text as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The tables of a round, and their rows.
fn tables_of(options: &Options, round: usize) -> (Schema, Vec<schema::Row>) {
    let mut rng = StdRng::seed_from_u64(seed_of(options.seed, round, TEXTS));
    if options.orders || orders::is_round(round) {
        let schema = Schema::for_orders(&mut rng);
        let rows = schema.rows_for_orders(&mut rng);
        return (schema, rows);
    }
    let schema = Schema::random(&mut rng);
    let rows = schema.rows(&mut rng);
    (schema, rows)
}

fn run_round(sides: &mut Sides, options: &Options, budget: &Budget, round: usize) -> Result<Summary> {
    let (schema, rows) = tables_of(options, round);
    let mut summary = Summary::default();
    let (rows, found) = sides.fill(&schema, &rows)?;
    found.iter().for_each(|(text, differs)| summary.setup(round, text, differs));
    let Some(rows) = rows else { return Ok(summary) };
    let mut before = Vec::new();
    for text in 0..TEXTS {
        let case = Case::random(seed_of(options.seed, round, text), &schema);
        let verdict = sides.run(&case, &schema)?;
        summary.count(&verdict);
        if schema.is_for_orders() {
            let text = case.text(Some(0), false).0;
            summary.plans.count(&text, &sides.ours.query(&format!("EXPLAIN {text}"))?);
        }
        if let Some((step, differs)) = verdict.found {
            let finding = Finding {
                schema: schema.clone(),
                rows: rows.clone(),
                before: before.clone(),
                case: case.clone(),
                step,
                differs,
            };
            let new = summary.find(round, text, &finding);
            if new && options.minimise && budget.take(&finding)? {
                let small = minimise(sides, &finding)?;
                summary.minimised(&finding, small);
            }
            // Whatever the minimiser did, and what the statement did on one side only.
            if let Err((text, differs)) = sides.build(&schema, &rows)? {
                summary.setup(round, &text, &differs);
                return Ok(summary);
            }
            before.clear();
        } else if verdict.apart {
            if sides.build(&schema, &rows)?.is_err() {
                return Ok(summary);
            }
            before.clear();
        } else if matches!(case.kind, case::Kind::Dml { .. }) && verdict.refused.is_none() {
            before.push(case);
        }
    }
    for text in schema.drop() {
        sides.theirs.query(&text)?;
        if sides.ours.query(&text).is_err() {
            sides.ours.reconnect()?;
        }
    }
    Ok(summary)
}

fn print_round(options: &Options, round: usize) {
    let (schema, rows) = tables_of(options, round);
    for text in schema.create(true) {
        println!("{text};");
    }
    for insert in schema.inserts(&rows) {
        println!("{insert};");
    }
    for text in 0..TEXTS {
        let case = Case::random(seed_of(options.seed, round, text), &schema);
        println!("-- {text}: {:?}", case.kind);
        println!("{}", case.script(case.steps[0]));
    }
}
