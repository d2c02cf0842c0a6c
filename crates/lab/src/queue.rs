//! A table as a queue: rows are added at one end and taken from the other, by one worker and by many, with and without a
//! snapshot beside them that stays open. What matters is that the speed stays what it was.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::report::{self, table};
use crate::servers::{Kind, Server, Work, kinds};
use crate::setup::Setup;
use crate::timeline::{Panel, stack};
use crate::{Common, Result};

/// Takes the next row that nobody else is taking.
const TAKE: &str =
    "delete from q where id = (select id from q order by id limit 1 for update skip locked) returning id";
/// Adds one.
const ADD: &str = "insert into q (note) values (repeat('n', 100))";

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Seconds of each run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..))]
    seconds: u64,
    /// Workers, one run for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1usize, 50])]
    workers: Vec<usize>,
    /// Rows in the queue
    #[arg(long, default_value_t = 1000)]
    depth: u64,
    /// Commits do not wait for the disk: what the table costs, not the disk
    #[arg(long)]
    asynchronous: bool,
    /// Another name for the results
    #[arg(long, default_value = "queue")]
    name: String,
}

/// Rows taken in each second.
fn one(kind: Kind, options: &Options, workers: usize, snapshot: bool, setup: &mut Setup) -> Result<Vec<f64>> {
    let work = Work::new(&options.common)?;
    let server = Server::create(kind, &options.common, work.path())?;
    let mut client = server.client()?;
    client.query("create table q (id bigint generated always as identity primary key, note text)")?;
    client
        .query(&format!("insert into q (note) select repeat('n', 100) from generate_series(1, {})", options.depth))?;
    let mut reader = server.client()?;
    if snapshot {
        reader.query("begin isolation level repeatable read")?;
        reader.query("select count(*) from q")?;
    }
    let (taken, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut seconds = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let (server, taken, stop) = (&server, &taken, &stop);
                scope.spawn(move || -> Result<()> {
                    let mut client = server.client()?;
                    if options.asynchronous {
                        client.query("set synchronous_commit = off")?;
                    }
                    while !stop.load(Ordering::Relaxed) {
                        // Nothing, when the others are taking all that there is.
                        if client.query(TAKE)?.is_some() {
                            taken.fetch_add(1, Ordering::Relaxed);
                            client.query(ADD)?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let begun = Instant::now();
        let mut before = (0.0, 0);
        for second in 1..=options.seconds {
            std::thread::sleep(Duration::from_secs(second).saturating_sub(begun.elapsed()));
            let now = (begun.elapsed().as_secs_f64(), taken.load(Ordering::Relaxed));
            seconds.push((now.1 - before.1) as f64 / (now.0 - before.0));
            before = now;
            if threads.iter().any(|thread| thread.is_finished()) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a worker has panicked")?)
    })?;
    let left = client.query("select count(*) from q")?;
    if left != Some(options.depth.to_string()) {
        return Err(format!("{}: {left:?} rows are left of {}", kind.name(), options.depth));
    }
    setup.saw(&server);
    Ok(seconds)
}

/// Mean of the first and of the last tenth.
fn ends(seconds: &[f64]) -> (f64, f64) {
    let tenth = (seconds.len() / 10).max(1).min(seconds.len());
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    (mean(&seconds[..tenth]), mean(&seconds[seconds.len() - tenth..]))
}

/// Runs the experiment.
///
/// # Errors
/// In words; also that a row was taken twice, or lost.
pub fn run(options: &Options) -> Result<()> {
    let kinds = kinds(&options.common)?;
    let mut setup = Setup::new(&options.common)?;
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for &workers in &options.workers {
        for snapshot in [false, true] {
            let beside = if snapshot { "one that stays open" } else { "none" };
            let mut lines = Vec::new();
            for kind in &kinds {
                let seconds = one(*kind, options, workers, snapshot, &mut setup)?;
                let (first, last) = ends(&seconds);
                let all = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
                eprintln!(
                    "{workers} workers, snapshot: {beside}, {}: {first:.0} at first, {last:.0} at last",
                    kind.name()
                );
                rows.push(vec![
                    workers.to_string(),
                    beside.to_owned(),
                    kind.name().to_owned(),
                    format!("{all:.0}"),
                    format!("{first:.0}"),
                    format!("{last:.0}"),
                    format!("{:.2}", last / first.max(1e-9)),
                ]);
                lines.push(seconds.iter().enumerate().map(|(at, rate)| ((at + 1) as f64, *rate)).collect());
            }
            let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
            let title = format!("{workers} workers; snapshot beside: {beside}; rows/s of {}", names.join(", then "));
            panels.push(Panel { title, lines });
        }
    }
    let mut text = "# A table as a queue\n\n".to_owned();
    text += &report::provenance();
    text += &format!(
        "Each worker takes the first row that nobody else is taking (`{TAKE}`) and adds one at the end (`{ADD}`), each in a \
         transaction of its own, so that the table always has {} rows. Commits {}. Where a snapshot stays open, it is one of a \
         REPEATABLE READ transaction from before the first row was taken: no deleted row may go until it ends. \
         *At first* and *at last* are the means of the first and the last tenth of {} seconds.\n\n",
        options.depth,
        if options.asynchronous { "do not wait for the disk" } else { "wait for the disk" },
        options.seconds
    );
    text += &setup.text();
    let header = ["workers", "snapshot beside", "server", "rows/s", "at first", "at last", "last to first"];
    text += &table(&header, &rows);
    text += &format!("\n![plot]({}.svg)\n", options.name);
    let svg = stack("Rows taken from a queue, a second", &panels, &[]);
    report::write(&options.common, &options.name, &text, &svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_tenths() {
        let seconds: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(ends(&seconds), (1.5, 19.5));
        assert_eq!(ends(&[3.0]), (3.0, 3.0));
    }
}
