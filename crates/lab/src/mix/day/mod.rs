//! A day's life in ten minutes: the TPC-C-like mix with a tenth of its transactions rolled back,
//! and beside it long snapshots, large loads that are rolled back, changes of definitions and
//! savepoints. Sizes are sampled every second. At the end the load stops, and everything that
//! versions and rollbacks take must return to its baseline by itself.
//!
//! | file | concept |
//! |---|---|
//! | `beside.rs` | what happens beside the mix; each checks its own results |
//! | `sizes.rs` | the samples, and what "returned to the baseline" means |
//!
//! What a table's own rows take is not among it: the mix inserts for good. That no page is
//! lost is proved after a clean stop, by `resurgam check`.

mod beside;
mod sizes;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;

use super::drive::{Running, Tally, drive, percentile};
use super::subject::Subject;
use super::tpcc::TpcC;
use super::{Mix, check, load, quiesce};
use crate::report::{self, table};
use crate::servers::{Server, Work};
use crate::setup::Setup;
use crate::timeline::{Panel, stack};
use crate::wire::Client;
use crate::{Common, Result};
use beside::Beside;
use sizes::{Probe, Sizes};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How long the load goes on, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Most seconds that everything may take to return to its baseline after that
    #[arg(long, default_value_t = 120.0)]
    quiesce: f64,
    /// Warehouses of the mix
    #[arg(long, default_value_t = 4)]
    warehouses: i64,
    /// Clients of the mix
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Share of the mix's writing transactions that are rolled back
    #[arg(long, default_value_t = 0.1)]
    aborts: f64,
    /// Rows of the loads that are rolled back
    #[arg(long, default_value_t = 500_000)]
    rows: u64,
    /// Longest time that a snapshot is held, in seconds
    #[arg(long, default_value_t = 60.0)]
    snapshot: f64,
    /// Versions in the version store only, never in the row
    #[arg(long)]
    off_row: bool,
    /// One more flag for Resurgam; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Little data and half a minute: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
    /// Hold a snapshot on purpose after the load, to see that it is found
    #[arg(long, hide = true)]
    canary: bool,
}

/// The samples of a run.
struct Day {
    baseline: Sizes,
    samples: Vec<(f64, Sizes)>,
    /// When the load stopped, and when everything was back, in seconds; `None`: never.
    stopped: f64,
    back: Option<f64>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut options = Options { common: options.common.clone(), server_flag: options.server_flag.clone(), ..*options };
    let mut mix = TpcC::new(options.warehouses, options.seed);
    if options.quick {
        options.common.buffer_mb = options.common.buffer_mb.min(256);
        (options.minutes, options.quiesce, options.rows) = (0.4, 20.0, 20_000);
        (options.snapshot, options.warehouses) = (4.0, 2);
        mix = TpcC::small(options.warehouses, options.seed);
    }
    mix.aborts = options.aborts;
    let options = &options;
    let mut setup = Setup::new(&options.common)?;
    let work = Work::new(&options.common)?;
    let subject = if options.off_row { Subject::OffRow } else { Subject::InRow };
    let mut server = subject.create(&options.common, &work, &options.server_flag)?;
    setup.saw(&server);
    eprintln!("loading");
    load(&mix, &server)?;
    let beside = Beside::new(&server, options.rows, Duration::from_secs_f64(options.snapshot), options.seed)?;
    quiesce(&server)?;
    let baseline = Probe::new(&server)?.sample()?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    let begun = Instant::now();
    let (stop, stopped) = mpsc::channel::<()>();
    let sampler = std::thread::spawn({
        let mut probe = Probe::new(&server)?;
        move || -> Result<Vec<(f64, Sizes)>> {
            let mut samples = vec![(0.0, probe.sample()?)];
            loop {
                // The last sample is taken after the end.
                let last = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                samples.push((begun.elapsed().as_secs_f64(), probe.sample()?));
                if last {
                    return Ok(samples);
                }
            }
        }
    });
    let worked = drive(server.port, &mix, &mut terminals, |run| {
        beside.work(run, Duration::from_secs_f64(options.minutes * 60.0));
        Ok(())
    });
    let held = if options.canary { Some(hold_snapshot(&server)?) } else { None };
    let load_end = begun.elapsed().as_secs_f64();
    let back = worked.as_ref().ok().map(|_| await_baseline(&server, &baseline, options, begun));
    drop((stop, held));
    let samples = sampler.join().map_err(|_| "the sampler ended early".to_owned())?;
    let ((), tally) = worked?;
    let day = Day { baseline, samples: samples?, stopped: load_end, back: back.transpose()?.flatten() };
    check(&mix, &server, &terminals)?;
    beside.check(&server)?;
    let text = report(options, &mix, &setup, &day, &tally, &beside);
    report::write(&options.common, "day", &text, &plot(&day, &mix, &tally))?;
    if day.back.is_none() {
        let last = day.samples.last().map(|(_, sizes)| sizes.above(&day.baseline)).unwrap_or_default();
        return Err(format!(
            "{} s after the load these are not back at their baseline: {}",
            options.quiesce,
            last.join("; ")
        ));
    }
    beside.drop_tables(&server)?;
    server.stop()?;
    server.check()
}

/// Waits until all sizes are back, without helping; when they were, in seconds since `begun`.
fn await_baseline(server: &Server, baseline: &Sizes, options: &Options, begun: Instant) -> Result<Option<f64>> {
    let mut probe = Probe::new(server)?;
    let waiting = Instant::now();
    loop {
        if probe.sample()?.above(baseline).is_empty() {
            return Ok(Some(begun.elapsed().as_secs_f64()));
        }
        if waiting.elapsed() > Duration::from_secs_f64(options.quiesce.max(0.0)) {
            return Ok(None);
        }
        std::thread::sleep(EVERY / 4);
    }
}

/// A session with a snapshot, which lives as long as the session.
fn hold_snapshot(server: &Server) -> Result<Client> {
    let mut client = server.client()?;
    client.query("begin transaction isolation level repeatable read")?;
    client.query("select count(*) from warehouse")?;
    Ok(client)
}

fn plot(day: &Day, mix: &dyn Mix, tally: &Tally) -> String {
    let end = day.stopped as u64;
    let by_second: Vec<(f64, Vec<f64>)> = (0..end)
        .map(|second| {
            let within = Duration::from_secs(second)..Duration::from_secs(second + 1);
            (second as f64 + 0.5, tally.latencies(mix.counted(), &within))
        })
        .collect();
    let mut panels = vec![
        Panel {
            title: "new orders a second".into(),
            lines: vec![by_second.iter().map(|(at, times)| (*at, times.len() as f64)).collect()],
        },
        Panel {
            title: "new orders: p99 of the second, ms".into(),
            lines: vec![by_second.iter().map(|(at, times)| (*at, percentile(times, 0.99))).collect()],
        },
    ];
    for (name, of) in sizes::MEASURES {
        panels.push(Panel {
            title: name.into(),
            lines: vec![day.samples.iter().map(|(at, sizes)| (*at, of(sizes))).collect()],
        });
    }
    let mut marks = vec![(day.stopped, "load stops")];
    marks.extend(day.back.map(|back| (back, "all is back")));
    stack("A day's life in ten minutes", &panels, &marks)
}

fn report(options: &Options, mix: &dyn Mix, setup: &Setup, day: &Day, tally: &Tally, beside: &Beside) -> String {
    let mut text = String::from("# A day's life in ten minutes\n\n");
    text += &report::provenance();
    text += &format!(
        "{} clients work for {} min on a TPC-C-like mix of {} warehouses, of whose writing transactions {:.0} % are rolled \
         back at their end. Beside it: snapshots (REPEATABLE READ) held up to {} s, which must not move; inserts, \
         updates and deletes of {} rows that are rolled back; tables and indexes that are created, truncated and \
         dropped, committed or rolled back; savepoints that are gone back to. Seed {}. Then the load stops, and \
         nothing is asked of the server but its views. In the end the mix's consistency conditions, the \
         other tables' sums, and after a clean stop the files (`resurgam check`) were checked.\n\n",
        options.clients,
        options.minutes,
        options.warehouses,
        options.aborts * 100.0,
        options.snapshot,
        options.rows,
        options.seed
    );
    text += &setup.text();
    text += &match day.back {
        Some(back) => format!("Everything was back at its baseline {:.0} s after the load.\n\n", back - day.stopped),
        None => format!("**Not everything was back at its baseline {} s after the load.**\n\n", options.quiesce),
    };
    let during = |of: fn(&Sizes) -> f64| {
        let load = day.samples.iter().filter(|(at, _)| *at <= day.stopped);
        load.map(|(_, sizes)| of(sizes)).fold(0.0, f64::max)
    };
    let last = day.samples.last().map_or(&day.baseline, |(_, sizes)| sizes);
    let rows: Vec<Vec<String>> = sizes::MEASURES
        .iter()
        .map(|(name, of)| {
            let mut row = vec![(*name).to_owned()];
            row.extend([of(&day.baseline), during(*of), of(last)].map(|value| format!("{value:.1}")));
            row
        })
        .collect();
    text += &table(&["size", "baseline", "most under load", "at the end"], &rows);
    text += "\n";
    let whole = Duration::ZERO..Duration::MAX;
    let mut counts = vec![
        vec!["transactions of the mix committed".to_owned(), tally.done.len().to_string()],
        vec!["new orders among them".to_owned(), tally.latencies(mix.counted(), &whole).len().to_string()],
        vec!["rolled back on purpose".to_owned(), tally.rolled_back.to_string()],
        vec!["conflicts".to_owned(), tally.conflicts.to_string()],
    ];
    counts.extend(beside.counts().into_iter().map(|(name, count)| vec![name.to_owned(), count.to_string()]));
    text += &table(&["what happened", "times"], &counts);
    text += "\n![plot](day.svg)\n";
    text
}

/// Lets a part of the load run until it fails or the run ends.
fn until_stopped(run: &Running, name: &str, mut step: impl FnMut() -> Result<()>) {
    while !run.stopped() {
        if let Err(message) = step() {
            run.fail(format!("{name}: {message}"));
        }
    }
}
