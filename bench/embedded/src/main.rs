//! redb's benchmark over this engine and its peers: bulk load, small commits, reads, ranges, scans, removals, queues, space.
//! The stores are measured in turn, each time from an empty folder.

mod data;
mod lines;
mod report;
mod space;
mod store;
mod stores;

use std::path::PathBuf;
use std::process::Command;

use clap::Parser;

use crate::lines::{Line, Size};
use crate::report::Runs;
use crate::store::Outcome;

#[derive(Parser)]
struct Arguments {
    /// Rows of the bulk load, and of the sorted one.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Random reads of one thread; a half as many ranges.
    #[arg(long, default_value_t = 500_000)]
    reads: u64,
    /// Memory for pages; LMDB's is the system's.
    #[arg(long, default_value_t = 256)]
    cache_mb: usize,
    /// Runs of each store.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Only stores whose names have one of these in them, divided by commas.
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// Only lines whose names have one of these in them, divided by commas; bulk load is always done.
    #[arg(long, value_delimiter = ',')]
    lines: Vec<String>,
    /// Instead: what a row takes on the disk in the peers, by its length, with so many megabytes of text.
    #[arg(long)]
    bytes_per_row_mb: Option<u64>,
    /// Where the stores' files are made, on the device that is to be measured.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the table goes, beside standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit} with changes"),
        (None, _) => "unknown".to_owned(),
    }
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    let size = Size { rows: arguments.rows, reads: arguments.reads };
    let any = |words: &[String], name: &str| {
        let name = name.to_lowercase();
        words.is_empty() || words.iter().any(|word| name.contains(&word.to_lowercase()))
    };
    let mut stores: Vec<(Runs, stores::Open)> = stores::ALL
        .iter()
        .filter(|(name, _)| any(&arguments.stores, name))
        .map(|(name, open)| (Runs { name, runs: Vec::new() }, *open))
        .collect();
    if let Some(mb) = arguments.bytes_per_row_mb {
        println!("| text | store | full | every second one deleted | after compaction |\n|---|---|---|---|---|");
        // The engine's own example has its numbers, without the log.
        for (runs, open) in stores.iter().filter(|(runs, _)| runs.name != "Resurgam") {
            let dir = arguments.dir.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in)?;
            space::measure(runs.name, mb, dir.path(), &|path| open(path, arguments.cache_mb << 20))?;
        }
        return Ok(());
    }
    for turn in 0..arguments.repeat {
        for (runs, open) in &mut stores {
            let dir = match &arguments.dir {
                Some(dir) => tempfile::tempdir_in(dir)?,
                None => tempfile::tempdir()?,
            };
            let path = dir.path().join("store");
            std::fs::create_dir(&path)?;
            let mut store = open(&path, arguments.cache_mb << 20)?;
            let only = |line: Line| any(&arguments.lines, line.name());
            let numbers = lines::run(&mut *store, &path, size, &only)?;
            drop(store);
            for (line, number) in &numbers {
                eprintln!("{} {}: {}: {number:?}", turn + 1, runs.name, line.name());
            }
            runs.runs.push(numbers);
        }
    }
    let runs: Vec<Runs> = stores.into_iter().map(|(runs, _)| runs).collect();
    let table = report::markdown(&runs, size, arguments.cache_mb, &commit());
    print!("{table}");
    if let Some(out) = arguments.out {
        std::fs::write(out, table)?;
    }
    Ok(())
}
