//! `lab slt`: files of sqllogictest, run against a freshly started server.
//!
//! The corpus is SQLite's (`select1.test` to `select5.test`): its expected answers come from
//! several databases that agreed, and PostgreSQL passes it whole, which `--server postgres`
//! shows of this program. Each file runs in one session by each protocol asked for; files
//! drop nothing, so every (file, protocol) begins with an empty database.
//!
//! | file | concept |
//! |---|---|
//! | `session.rs` | a session as the `sqllogictest` crate wants it: how values are written |

mod session;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use sqllogictest::{Control, DefaultColumnType, QueryExpect, Record, ResultMode, Runner};

use crate::answers::client::{Client, Target};
use crate::cluster::roles::Tiers;
use crate::servers::{Kind, Server, Work};
use crate::{Common, Result};
use session::{Session, Types};

/// Failures of a file that are shown whole.
const SHOWN_MAX: usize = 5;

/// No query of the corpus takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Folder with the files (*.test)
    #[arg(long, value_name = "DIR")]
    corpus: PathBuf,
    /// Which way statements go
    #[arg(long, default_value = "both")]
    protocol: Which,
    /// Which server: PostgreSQL's 100 % shows that failures are not this program's
    #[arg(long, default_value = "resurgam")]
    server: Subject,
    /// Only files whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// (File, protocol) pairs that run at once, each on a server of its own
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_once: usize,
    /// Print every failure, not the first few of each file
    #[arg(long)]
    all: bool,
    /// Records that may fail: what is open today, to be lowered as findings are mended
    #[arg(long, value_name = "N", default_value_t = 0)]
    open: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Simple,
    Extended,
    Both,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    Resurgam,
    /// Resurgam whose log is in a landing zone and whose pages are with a page server
    Tiers,
    Postgres,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Resurgam => Kind::Resurgam.name(),
            Self::Tiers => "Resurgam's tiers",
            Self::Postgres => Kind::Postgres.name(),
        }
    }
}

/// A server with an empty database; dropping it ends all of its processes.
enum Running {
    One(Box<Server>),
    Tiers(Box<Tiers>),
}

impl Running {
    fn start(subject: Subject, common: &Common, dir: &Path) -> Result<Self> {
        Ok(match subject {
            Subject::Resurgam => Self::One(Box::new(Server::create(Kind::Resurgam, common, dir)?)),
            Subject::Postgres => Self::One(Box::new(Server::create(Kind::Postgres, common, dir)?)),
            Subject::Tiers => Self::Tiers(Box::new(Tiers::create(common, dir, Duration::ZERO)?)),
        })
    }

    fn port(&self) -> u16 {
        match self {
            Self::One(server) => server.port,
            Self::Tiers(tiers) => tiers.primary.port,
        }
    }
}

/// How statements get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Simple,
    /// Parse, Bind, Describe, Execute; integers of queries as literals, results as text.
    Extended,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
        }
    }
}

/// What one file came to.
struct Score {
    file: String,
    protocol: Protocol,
    passed: usize,
    failed: usize,
    took: Duration,
    /// The failures in words.
    failures: Vec<String>,
}

/// Runs the corpus.
///
/// # Errors
/// In words: something failed, or could not be run.
pub fn run(options: &Options) -> Result<()> {
    let files = files(&options.corpus, options.only.as_deref())?;
    let protocols: &[Protocol] = match options.protocol {
        Which::Simple => &[Protocol::Simple],
        Which::Extended => &[Protocol::Extended],
        Which::Both => &[Protocol::Simple, Protocol::Extended],
    };
    let jobs: Vec<(&Path, Protocol)> =
        files.iter().flat_map(|file| protocols.iter().map(move |p| (file.as_path(), *p))).collect();
    let work = Work::new(&options.common)?;
    let next = AtomicUsize::new(0);
    let scores: Mutex<Vec<Result<Score>>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.at_once.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((file, protocol)) = jobs.get(at) else { break };
                    let dir = work.path().join(format!("{at}"));
                    let score = run_file(options, &dir, file, *protocol);
                    if let Ok(scores) = &mut scores.lock() {
                        scores.push(score);
                    }
                }
            });
        }
    });
    let scores = scores.into_inner().map_err(|_| "a thread panicked")?;
    if scores.len() != jobs.len() {
        return Err("a thread panicked".into());
    }
    let mut scores = scores.into_iter().collect::<Result<Vec<Score>>>()?;
    scores.sort_by(|a, b| (&a.file, a.protocol.name()).cmp(&(&b.file, b.protocol.name())));
    print!("{}", report(&scores, options.server, if options.all { usize::MAX } else { SHOWN_MAX }));
    let failed: usize = scores.iter().map(|score| score.failed).sum();
    if failed > options.open { Err(format!("{failed} records of the corpus failed")) } else { Ok(()) }
}

/// The files of the corpus, in order.
fn files(corpus: &Path, only: Option<&str>) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(corpus).map_err(|e| format!("could not read \"{}\": {e}", corpus.display()))?;
    let wanted = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".test") && only.is_none_or(|text| name.contains(text))
    };
    let mut files: Vec<PathBuf> = listing.filter_map(|e| Some(e.ok()?.path())).filter(|path| wanted(path)).collect();
    files.sort();
    if files.is_empty() {
        return Err(format!("no files to run in \"{}\"", corpus.display()));
    }
    Ok(files)
}

fn run_file(options: &Options, dir: &Path, file: &Path, protocol: Protocol) -> Result<Score> {
    let common = &options.common;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
    let records = sqllogictest::parse_with_name::<DefaultColumnType>(&text, name.clone()).map_err(|e| e.to_string())?;
    std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
    let server = Running::start(options.server, common, dir)?;
    let target = Target { patience: Some(PATIENCE), ..Target::new(server.port()) };
    // What the record at hand expects its columns to be: values are written accordingly.
    let types = Types::default();
    let mut runner = Runner::new(|| {
        let session = Client::connect(&target).map(|client| Session::new(client, protocol, types.clone()));
        std::future::ready(session.map_err(session::Failure::connection))
    });
    // SQLite's own form: a value a line; more than 8 values as a hash, unless the file says otherwise.
    runner.with_hash_threshold(8);
    runner.run(Record::Control(Control::ResultMode(ResultMode::ValueWise))).map_err(|e| e.to_string())?;
    let mut score = Score { file: name, protocol, passed: 0, failed: 0, took: Duration::ZERO, failures: Vec::new() };
    let begun = Instant::now();
    for record in records {
        let expected = match &record {
            Record::Halt { .. } => break,
            Record::Statement { .. } => Vec::new(),
            Record::Query { expected: QueryExpect::Results { types, .. }, .. } => types.clone(),
            Record::Query { .. } => Vec::new(),
            other => {
                let other = other.clone();
                runner.run(other).map_err(|e| e.to_string())?;
                continue;
            }
        };
        types.expect(expected);
        match runner.run(record) {
            Ok(_) => score.passed += 1,
            Err(error) => {
                score.failed += 1;
                score.failures.push(error.to_string());
            }
        }
    }
    score.took = begun.elapsed();
    drop(server);
    let _ = std::fs::remove_dir_all(dir);
    Ok(score)
}

fn report(scores: &[Score], subject: Subject, shown: usize) -> String {
    let mut text = String::new();
    for score in scores {
        for failure in score.failures.iter().take(shown) {
            let _ = writeln!(text, "-- {} ({}): {}", score.file, score.protocol.name(), failure.trim_end());
        }
    }
    let _ = writeln!(text, "{}: records of the corpus", subject.name());
    let _ = writeln!(text, "{:<16} {:<9} {:>7} {:>7} {:>8}", "file", "protocol", "passed", "failed", "seconds");
    for score in scores {
        let (protocol, took) = (score.protocol.name(), score.took.as_secs_f64());
        let _ = writeln!(text, "{:<16} {protocol:<9} {:>7} {:>7} {took:>8.1}", score.file, score.passed, score.failed);
    }
    let sum = |f: fn(&Score) -> usize| scores.iter().map(f).sum::<usize>();
    let _ = writeln!(text, "{:<26} {:>7} {:>7}", "all", sum(|s| s.passed), sum(|s| s.failed));
    text
}
