//! `lab regress`: PostgreSQL's own regression SQL, statement by statement, against a PostgreSQL
//! and a Resurgam that run beside each other, both fresh.
//!
//! | file | concept |
//! |---|---|
//! | `script.rs` | psql's scripts: where statements end, backslash commands, variables |
//! | `words.rs` | what a statement is and which names it makes or changes |
//! | `pair.rs` | both servers and a session with each, in the same state of transaction |
//! | `play.rs` | a script, played to both |
//! | `judge.rs`, `feature.rs` | how two answers compare; what a refused statement is about |
//! | `taint.rs`, `contents.rs` | which differences follow from others |
//! | `stand_in.rs` | tables that were refused, made for queries all the same |
//! | `known.rs`, `known.txt` | differences that have a reason |
//! | `tally.rs` | counts and findings |
//! | `report.rs`, `details.rs` | the tables, and each finding with both answers |
//!
//! All scripts of PostgreSQL's own schedule run one after the other in one database, as they
//! use each other's tables. What is compared and what not: `judge.rs`.

mod contents;
mod details;
mod feature;
mod judge;
mod pair;
mod play;
mod report;
mod script;
mod stand_in;
mod taint;
mod tally;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::known::Known;
use crate::servers::{Work, output};
use crate::setup::Setup;
use crate::{Common, Result};
use pair::{Limits, Pair};
use play::{Environment, Player};
use taint::Taint;
use tally::Tally;

/// What to play, and what to say of it.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Folder of the scripts: src/test/regress/sql of PostgreSQL's source (Debian: apt-get source postgresql-15)
    #[arg(long, value_name = "DIR")]
    sql: PathBuf,
    /// Play only these scripts, after test_setup, in the order of the schedule
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Fail if a statement gives other rows without a reason in the list, if the server hung or died, or (with
    /// --stand-ins and all scripts) if an entry of the list excuses nothing
    #[arg(long)]
    strict: bool,
    /// Write each finding with both answers to this file
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Make tables that Resurgam refuses as plain ones with PostgreSQL's rows, so that queries of them are compared
    #[arg(long)]
    stand_ins: bool,
    /// How long a statement may run, in seconds
    #[arg(long, value_name = "S", default_value_t = 15)]
    timeout_s: u64,
    /// Memory that Resurgam may take, in megabytes, before it is killed
    #[arg(long, value_name = "MB", default_value_t = 5000)]
    memory_mb: u64,
}

/// Plays all and writes `regress.md`.
///
/// # Errors
/// In words: no scripts, a server that does not start, and with `--strict` bad findings.
pub fn run(options: &Options) -> Result<()> {
    let scripts = scripts(options)?;
    let known = Known::read(include_str!("known.txt"))?;
    let work = Work::new(&options.common)?;
    let environment = environment(options, work.path())?;
    let limits = Limits {
        statement: Duration::from_secs(options.timeout_s),
        memory_bytes: options.memory_mb.saturating_mul(1 << 20),
    };
    let mut setup = Setup::here(work.path());
    let mut pair = Pair::start(&options.common, &work, limits)?;
    for server in pair.servers() {
        setup.saw(server);
    }
    let (mut taint, mut tally) = (Taint::default(), Tally::default());
    for name in &scripts {
        let begun = Instant::now();
        let path = options.sql.join(format!("{name}.sql"));
        let text = fs::read(&path).map_err(|e| format!("could not read \"{}\": {e}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        tally.file(name);
        let player =
            Player::new(&mut pair, &mut taint, &mut tally, &known, &environment, options.stand_ins, name, &text);
        player.play()?;
        eprintln!("{}", report::progress(&tally, name, begun.elapsed()));
    }
    let restarts = pair.restarts;
    drop(pair);
    if let Some(path) = &options.details {
        fs::write(path, details::text(&tally)).map_err(|e| format!("could not write the details: {e}"))?;
    }
    let text = report::text(&tally, &setup, restarts, &known.unused(&scripts));
    fs::create_dir_all(&options.common.out).map_err(|e| e.to_string())?;
    let path = options.common.out.join("regress.md");
    fs::write(&path, text).map_err(|e| format!("could not write the report: {e}"))?;
    println!("{}written to {}", report::summary(&tally), path.display());
    if !options.strict {
        return Ok(());
    }
    // What excuses nothing any more has to go from the list.
    let stale = if options.only.is_empty() && options.stand_ins { known.unused(&scripts) } else { Vec::new() };
    match (tally.bad(), stale.as_slice()) {
        (0, []) => Ok(()),
        (0, stale) => Err(format!("entries of known.txt that excuse nothing: {}", stale.join("; "))),
        (bad, _) => {
            Err(format!("{bad} statements give other rows without a reason in the list, hang or kill the server"))
        }
    }
}

/// Names of the scripts in the order of PostgreSQL's schedule, which is beside their folder.
fn scripts(options: &Options) -> Result<Vec<String>> {
    let schedule = options.sql.join("../parallel_schedule");
    let text = fs::read_to_string(&schedule).map_err(|e| format!("could not read \"{}\": {e}", schedule.display()))?;
    let all = schedule_names(&text);
    let is_there = |name: &String| options.sql.join(format!("{name}.sql")).is_file();
    if let Some(name) = options.only.iter().find(|name| !all.contains(name)) {
        return Err(format!("the schedule has no script \"{name}\""));
    }
    let wanted = |name: &String| options.only.is_empty() || name == "test_setup" || options.only.contains(name);
    let names: Vec<String> = all.into_iter().filter(|name| wanted(name) && is_there(name)).collect();
    if names.is_empty() { Err("there are no scripts".into()) } else { Ok(names) }
}

fn schedule_names(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("test:"));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The folders that scripts look for; PostgreSQL writes below `work`.
fn environment(options: &Options, work: &Path) -> Result<Environment> {
    let sql = options.sql.canonicalize().map_err(|e| format!("\"{}\": {e}", options.sql.display()))?;
    let source = sql.parent().unwrap_or(&sql).to_owned();
    let results = work.join("results");
    fs::create_dir_all(&results).map_err(|e| e.to_string())?;
    output(std::process::Command::new("chmod").arg("777").arg(&results))?;
    let library = output(std::process::Command::new(options.common.postgres.join("pg_config")).arg("--pkglibdir"));
    Ok(Environment { source, build: work.to_owned(), library: library.unwrap_or_default().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read() {
        let text = "# test: none\ntest: test_setup\n\ntest: boolean  char\nignore: random\n";
        assert_eq!(schedule_names(text), ["test_setup", "boolean", "char"]);
    }
}
