//! Rolling back and recovering, measured after the paper's section 4 (figure 9, tables 1 and
//! 3) and after a practitioner's test of the same mechanism in SQL Server.
//!
//! | file | concept |
//! |---|---|
//! | `workload.rs` | the table, its three operations in each dialect, waiting for the last trace |
//! | `watch.rs` | what runs beside a statement: sampling sizes, following a recovery |
//! | `figure9.rs`, `table1.rs`, `table3.rs`, `blog.rs` | the experiments |
//! | `figure10.rs` | the cleaner, without a server |
//!
//! A server or a size that fails is reported as such, with its error, and the rest goes on.

pub mod blog;
pub mod figure10;
pub mod figure9;
pub mod table1;
pub mod table3;
pub mod watch;
pub mod workload;

use clap::{Args, ValueEnum};

use crate::servers::{Kind, Server, Work};
use crate::{Common, Result};

/// Log that Resurgam may keep in its traditional mode, which cannot roll back without it;
/// its default bounds it below what ten million rows need.
const TRADITIONAL_LOG: &str = "--log-bytes-max=64GB";

/// Resurgam's two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Accelerated database recovery: row versions
    On,
    /// Traditional: undo through the log
    Off,
}

/// Which servers are measured.
#[derive(Args, Clone)]
struct Subjects {
    /// Modes of Resurgam
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::On, Mode::Off])]
    mode: Vec<Mode>,
    /// Measure PostgreSQL and MariaDB as well, where they are installed
    #[arg(long)]
    peers: bool,
    /// Most rows that the peers are measured with
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    peer_rows_max: u64,
    /// One more flag for Resurgam, as `--server-flag=--log-bytes-max=200MB`; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
}

impl Subjects {
    /// The servers that can be measured; what cannot is noted, with the reason.
    fn kinds(&self, common: &Common, notes: &mut Notes) -> Result<Vec<Kind>> {
        if !common.resurgam.is_file() {
            let path = common.resurgam.display();
            return Err(format!("there is no server at \"{path}\"; build it with `cargo build --release`"));
        }
        let mut kinds = Vec::new();
        if self.mode.contains(&Mode::On) {
            kinds.push(Kind::Resurgam);
        }
        if self.mode.contains(&Mode::Off) {
            let work = Work::new(common)?;
            match self.create(Kind::Traditional, common, &work) {
                Ok(_) => kinds.push(Kind::Traditional),
                Err(error) => notes.add(format!("{}: not available: {error}", Kind::Traditional.name())),
            }
        }
        if self.peers {
            for (kind, path) in
                [(Kind::Postgres, common.postgres.join("postgres")), (Kind::MariaDb, common.mariadb.clone())]
            {
                if path.is_file() {
                    kinds.push(kind);
                } else {
                    notes.add(format!("{}: not installed at {}: left out", kind.name(), path.display()));
                }
            }
        }
        Ok(kinds)
    }

    /// Makes a database and starts its server.
    fn create(&self, kind: Kind, common: &Common, work: &Work) -> Result<Server> {
        let mut flags = self.server_flag.clone();
        if kind == Kind::Traditional {
            flags.retain(|flag| !flag.starts_with("--log-bytes-max"));
            flags.push(TRADITIONAL_LOG.into());
        }
        Server::create_with(kind, common, work.path(), &flags)
    }

    /// How many of so many rows this server is measured with.
    fn rows(&self, kind: Kind, rows: u64) -> u64 {
        if kind.is_resurgam() { rows } else { rows.min(self.peer_rows_max) }
    }
}

/// Lines of a report about what could not be measured.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, note: String) {
        eprintln!("{note}");
        // What a server logged before it ended is for the screen only.
        let note = note.lines().next().unwrap_or_default().to_owned();
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    fn text(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("Not measured:\n\n- {}\n\n", self.0.join("\n- "))
    }
}

/// Whether a goal was met, for a table.
fn verdict(met: bool) -> String {
    if met { "pass".into() } else { "**not met**".into() }
}

/// All four, for the record or to try them.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    subjects: Subjects,
    /// Small sizes, in about two minutes: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

/// Runs all four; one that fails does not keep the others from running.
pub fn run(options: &Options) -> Result<()> {
    let (common, subjects) = (&options.common, &options.subjects);
    let failures: Vec<String> = [
        ("figure9", figure9::run(&figure9::Options::sized(common, subjects, options.quick))),
        ("table1", table1::run(&table1::Options::sized(common, subjects, options.quick))),
        ("table3", table3::run(&table3::Options::sized(common, subjects, options.quick))),
        ("blog", blog::run(&blog::Options::sized(common, subjects, options.quick))),
    ]
    .into_iter()
    .filter_map(|(name, result)| result.err().map(|error| format!("{name}: {error}")))
    .collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
