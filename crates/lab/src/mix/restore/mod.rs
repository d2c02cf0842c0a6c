//! What a dead disk costs the transactions that go on (Instant Restore, section VI; shapes of its figures 9 to 13).
//!
//! The TPC-C-like mix runs on a server whose log and archive are elsewhere than its data. In the middle the data device is
//! declared dead, at several sizes of the buffer pool: latencies and throughput before, during and after the restore.
//! Then the same data without a running server: the data file is removed after a kill, and the server started again; or all of it
//! is made first, in a single pass and in the order of ARIES; beside it, where it is installed, PostgreSQL from a base backup and its
//! archived log, of the same work. And pages of the file are overwritten, and read.
//!
//! | file | concept |
//! |---|---|
//! | `samples.rs` | what the server says of itself over time |
//! | `outages.rs`, `postgres.rs` | servers that come back when all data was made again |
//! | `starts.rs` | starts without the data, copies as of a position |
//! | `repairs.rs` | damaged pages |
//! | `report.rs` | tables, goals |
//! | `figures.rs` | plots over time, distributions |

mod figures;
mod outages;
mod postgres;
mod repairs;
mod report;
mod samples;
mod starts;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use self::outages::{Outage, Scene};
use self::postgres::Beside;
use self::repairs::Repairs;
use self::samples::{Sample, watch};
use self::starts::{Copy, Restart, sequential_write};
use super::drive::{Running, Tally, drive};
use super::segments::Following;
use super::tpcc::TpcC;
use super::{Mix, check, load};
use crate::servers::{Kind, Server, Work};
use crate::setup::{Setup, bytes_of};
use crate::{Common, Result};

/// Between two looks at the restore.
const LOOK: Duration = Duration::from_millis(50);
/// A restore that takes longer has hung.
const RESTORE_MAX: Duration = Duration::from_secs(1800);
/// Throughput is back when it is this share of what it was.
const BACK: f64 = 0.9;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Warehouses of the mix; each has about 80 MB
    #[arg(long, default_value_t = 8)]
    warehouses: i64,
    /// Data in gigabytes, instead of a number of warehouses
    #[arg(long, conflicts_with = "warehouses")]
    gb: Option<f64>,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// The buffer pool as parts of the data: one run each
    #[arg(long, value_delimiter = ',', default_values_t = [1.5, 0.5, 0.25, 0.125])]
    buffers: Vec<f64>,
    /// Seconds of load before the failure that are not counted, and that are
    #[arg(long, default_value_t = 10.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Of these, those with which servers are killed as well, and started without their data or when all of it was made again: in a single
    /// pass, in order of LSN, and PostgreSQL's. [default: all]
    #[arg(long, value_delimiter = ',', value_name = "PARTS", conflicts_with_all = ["still", "no_restart"])]
    restarts_at: Vec<f64>,
    /// Kill no server
    #[arg(long, conflicts_with = "still")]
    no_restart: bool,
    /// Only starts without the data file, and copies: no device dies under load, nothing is restored in a single pass, no page is
    /// damaged, and no backup is made (the archive is begun with the database). For databases of which the disk has not room for several;
    /// the first part of `--buffers` counts
    #[arg(long)]
    still: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Little data and short runs: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

/// Folders of one server.
struct Places {
    log: PathBuf,
    archive: PathBuf,
    backups: PathBuf,
    spare: PathBuf,
}

impl Places {
    fn below(work: &Path) -> Self {
        let of = |name: &str| work.join(name);
        Self { log: of("log"), archive: of("archive"), backups: of("backups"), spare: of("spare") }
    }

    /// The data file that counts: the spare folder has become the data folder once it has one.
    fn data(&self, server: &Server) -> Result<PathBuf> {
        let both = [self.spare.join("data"), server.dir.join("data")];
        both.into_iter().find(|path| path.exists()).ok_or_else(|| "there is no data file".into())
    }

    fn flags(&self) -> Vec<String> {
        [("log-dir", &self.log), ("archive", &self.archive), ("backups", &self.backups), ("spare-data", &self.spare)]
            .into_iter()
            .map(|(name, path)| format!("--{name}={}", path.display()))
            .collect()
    }
}

/// A run with a failure in its middle.
struct Run {
    part: f64,
    buffer_mb: u64,
    /// Before the failure, from it until all is restored, and after that.
    phases: [Range<Duration>; 3],
    /// Of the file when all is restored.
    restored_mb: f64,
    tally: Tally,
    samples: Vec<Sample>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut options = Options {
        common: options.common.clone(),
        buffers: options.buffers.clone(),
        restarts_at: options.restarts_at.clone(),
        ..*options
    };
    if let Some(gb) = options.gb {
        options.warehouses = ((gb * 1000.0 / 80.0).round() as i64).max(1);
    }
    let mut mix = TpcC::new(options.warehouses, options.seed);
    if options.quick {
        (options.warm_up, options.seconds) = (1.0, 3.0);
        mix = TpcC::small(2, options.seed);
    }
    let options = &options;
    let mut setup = Setup::new(&options.common)?;
    let mut found = Found::default();
    if options.still {
        still(options, &mix, &mut setup, &mut found)?;
        return report::write(options, &mix, &setup, &found);
    }
    for (number, &part) in options.buffers.iter().enumerate() {
        let last = number + 1 == options.buffers.len();
        let run = one(options, &mix, part, last && !options.no_restart, &mut setup, &mut found)?;
        found.runs.push(run);
    }
    if !options.common.no_postgres && options.common.postgres.join("postgres").is_file() {
        let runs = found.runs.iter().filter(|run| options.restarts(run.part));
        let scenes: Vec<Scene<'_>> =
            runs.map(|run| Scene { options, mix: &mix, part: run.part, buffer_mb: run.buffer_mb }).collect();
        let mut beside = None;
        for scene in &scenes {
            let postgres = match &mut beside {
                Some(postgres) => postgres,
                None => beside.insert(Beside::new(options, &mix, &mut setup)?),
            };
            found.outages.push(postgres.outage(scene)?);
        }
    }
    report::write(options, &mix, &setup, &found)
}

/// All that was measured.
#[derive(Default)]
struct Found {
    runs: Vec<Run>,
    outages: Vec<Outage>,
    starts: Vec<Restart>,
    copies: Vec<Copy>,
    repairs: Option<Repairs>,
    /// What the disk takes in sequence, in megabytes a second.
    disk_mb_s: Option<f64>,
}

/// A loaded database, and the megabytes of its data.
fn loaded(options: &Options, mix: &TpcC, work: &Work, places: &Places, setup: &mut Setup) -> Result<(Server, f64)> {
    let server = Server::create_with(Kind::Resurgam, &options.common, work.path(), &places.flags())?;
    setup.saw(&server);
    eprintln!("loading");
    let begun = Instant::now();
    load(mix, &server)?;
    let data_mb = bytes_of(&server.dir.join("data")) as f64 / 1e6;
    eprintln!("loaded {data_mb:.0} MB in {:.0} s", begun.elapsed().as_secs_f64());
    Ok((server, data_mb))
}

/// Starts it again with a pool of a part of its data; that pool's size in megabytes.
fn with_pool(server: &mut Server, data_mb: f64, part: f64) -> Result<u64> {
    server.stop()?;
    let buffer_mb = ((data_mb * part) as u64).max(8);
    server.set_buffer_mb(buffer_mb);
    server.start()?;
    Ok(buffer_mb)
}

/// Copies of a database whose server is killed for it.
fn copies(options: &Options, server: &mut Server, work: &Work, places: &Places, found: &mut Found) -> Result<()> {
    let archived = server.client()?.query("select archived_lsn from resurgam_archive")?;
    let archived = archived.ok_or("nothing is archived")?;
    server.kill();
    for (what, name, goal_mb) in [("restore", "point in time", None), ("clone", "clone", Some(report::CLONE_MB))] {
        found.copies.push(starts::copy(options, work.path(), places, what, name, &archived, goal_mb)?);
    }
    Ok(())
}

/// Nothing but starts without the data, and copies.
fn still(options: &Options, mix: &TpcC, setup: &mut Setup, found: &mut Found) -> Result<()> {
    let work = Work::new(&options.common)?;
    let places = Places::below(work.path());
    let part = options.buffers.first().copied().unwrap_or(1.0);
    // There is no backup, and the tools want to look.
    std::fs::create_dir_all(&places.backups).map_err(|e| format!("could not make a folder: {e}"))?;
    let (mut server, data_mb) = loaded(options, mix, &work, &places, setup)?;
    let buffer_mb = with_pool(&mut server, data_mb, part)?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    found.disk_mb_s = Some(sequential_write(work.path(), bytes_of(&places.data(&server)?) as f64 / 1e6)?);
    let scene = Scene { options, mix, part, buffer_mb };
    found.starts.push(starts::without_data(&scene, &mut server, &places, &mut terminals, None)?);
    eprintln!("started without its data file");
    copies(options, &mut server, &work, &places, found)
}

/// A run at one size of the pool, and servers that are killed after it; `last`: then also what depends on no size.
fn one(options: &Options, mix: &TpcC, part: f64, last: bool, setup: &mut Setup, found: &mut Found) -> Result<Run> {
    let work = Work::new(&options.common)?;
    let places = Places::below(work.path());
    let (mut server, data_mb) = loaded(options, mix, &work, &places, setup)?;
    let restarts = options.restarts(part);
    // What the backup needs of the log may be older than the backup.
    let copies =
        restarts.then(|| Following::begin(&places.log, &work.path().join("copies"), server.port)).transpose()?;
    server.client()?.query("select resurgam_backup()")?;
    let buffer_mb = with_pool(&mut server, data_mb, part)?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    let client = server.client()?;
    let ((phases, samples), tally) = drive(server.port, mix, &mut terminals, |run| {
        std::thread::scope(|scope| {
            let watching = scope.spawn(move || watch(client, run));
            let phases = course(options, &server, &places, run);
            run.stop();
            let samples = watching.join().map_err(|_| "what looks at the server has panicked".to_owned())?;
            Ok((phases?, samples?))
        })
    })?;
    check(mix, &server, &terminals)?;
    let took = phases[1].end.saturating_sub(phases[1].start).as_secs_f64();
    eprintln!("buffer pool of {buffer_mb} MB ({part} of the data): restored in {took:.2} s");
    let restored_mb = bytes_of(&places.spare.join("data")) as f64 / 1e6;
    let scene = Scene { options, mix, part, buffer_mb };
    if let Some(copies) = &copies {
        let start = starts::without_data(&scene, &mut server, &places, &mut terminals, Some(copies))?;
        found.starts.push(start);
        found.outages.extend(outages::resurgam(&scene, work.path(), &places, &mut server, copies, &mut terminals)?);
        server.start()?;
    }
    if last {
        found.disk_mb_s = Some(sequential_write(work.path(), restored_mb)?);
        found.repairs = Some(repairs::repairs(options, mix, &mut server, &places, &terminals)?);
        self::copies(options, &mut server, &work, &places, found)?;
    }
    Ok(Run { part, buffer_mb, phases, restored_mb, tally, samples })
}

/// What happens beside the clients: when each phase was.
fn course(options: &Options, server: &Server, places: &Places, run: &Running) -> Result<[Range<Duration>; 3]> {
    let seconds = Duration::from_secs_f64(options.seconds.max(0.1));
    let mut client = server.client()?;
    run.pause(Duration::from_secs_f64(options.warm_up.max(0.0)));
    let begun = run.elapsed();
    run.pause(seconds);
    let failed = run.elapsed();
    client.query("select resurgam_fail_device('data')")?;
    // Written when the replacement is made, and the restore begun.
    while !places.log.join("data-place").exists() {
        if !run.pause(LOOK / 10) || run.elapsed() > failed + RESTORE_MAX {
            return Err("the dead device was not replaced".into());
        }
    }
    wait_until_restored(&mut client, &places.spare, || run.pause(LOOK / 10))?;
    let restored = run.elapsed();
    run.pause(seconds);
    Ok([begun..failed, failed..restored, restored..run.elapsed()])
}

/// Waits until the restore into `folder`, which has been begun, is finished; `pause` says whether to go on. Answers the bytes that
/// were restored by then, as far as was seen.
fn wait_until_restored(
    client: &mut crate::wire::Client,
    folder: &Path,
    mut pause: impl FnMut() -> bool,
) -> Result<f64> {
    let begun = Instant::now();
    let mut bytes = 0.0;
    // The view has no row either before it is begun; the folder's own file says that it is not finished.
    while folder.join("restore").exists() {
        if let Some(restored) = client.query("select max(bytes) from resurgam_restore")? {
            bytes = restored.parse().map_err(|_| format!("\"{restored}\" is not a number of bytes"))?;
        }
        if begun.elapsed() > RESTORE_MAX {
            return Err(format!("the restore is not done after {} s", RESTORE_MAX.as_secs()));
        }
        if !pause() {
            return Err("the clients ended while the disk was restored".into());
        }
    }
    Ok(bytes)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Transactions a second in a part of the run.
fn rate(tally: &Tally, within: &Range<Duration>) -> f64 {
    let seconds = within.end.saturating_sub(within.start).as_secs_f64();
    tally.latencies(None, within).len() as f64 / seconds.max(0.001)
}

/// Seconds from the failure until half a second's throughput is back to what it was before it.
fn back_after(tally: &Tally, before: &Range<Duration>, failed: Duration, end: Duration) -> Option<f64> {
    let wanted = rate(tally, before) * BACK;
    let (step, window) = (Duration::from_millis(100), Duration::from_millis(500));
    let mut at = failed;
    while at + window <= end {
        if rate(tally, &(at..at + window)) >= wanted {
            return Some((at + window).saturating_sub(failed).as_secs_f64());
        }
        at += step;
    }
    None
}

impl Run {
    /// Seconds from the failure until throughput is back.
    fn back_after(&self) -> Option<f64> {
        back_after(&self.tally, &self.phases[0], self.phases[1].start, self.phases[2].end)
    }
}

impl Options {
    /// Whether servers are killed with that pool.
    fn restarts(&self, part: f64) -> bool {
        !self.no_restart && (self.restarts_at.is_empty() || self.restarts_at.contains(&part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::drive::Done;

    #[test]
    fn throughput_is_back_when_half_a_second_has_it() {
        let seconds = Duration::from_secs_f64;
        let mut done = Vec::new();
        // 100 a second, none for a second after the failure at 10, then 100 again.
        for i in 0..2000 {
            let at = f64::from(i) / 100.0;
            if !(10.0..11.0).contains(&at) {
                done.push(Done { kind: 0, at: seconds(at), took: seconds(0.001) });
            }
        }
        let phases = [seconds(0.0)..seconds(10.0), seconds(10.0)..seconds(12.0), seconds(12.0)..seconds(20.0)];
        let tally = Tally { done, ..Tally::default() };
        let run = Run { part: 1.0, buffer_mb: 8, phases, restored_mb: 8.0, tally, samples: Vec::new() };
        let back = run.back_after().expect("it comes back");
        assert!((1.4..=1.6).contains(&back), "{back}");
        assert!((rate(&run.tally, &run.phases[0]) - 100.0).abs() < 1.0);
    }
}
