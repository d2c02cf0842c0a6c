//! What archiving and backups cost the transactions that run beside them (docs/archive.md, docs/backups.md).
//!
//! The same TPC-C-like load runs without an archive, with one, and with the log's segments copied as files by a
//! program beside the server, which is the least that keeping the log elsewhere can cost; then with an archive and double writes
//! always and never. Each has a database of its own, loaded once; they take turns, so that what else the machine does meets them all
//! alike, and shares are those within a round. With the archive two backups are made under load in the last round: from the device, and from
//! the archive.
//!
//! | file | concept |
//! |---|---|
//! | `backup/spread.rs` | throughput second by second; bytes written with double writes and without |

mod spread;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::drive::{Running, Tally, drive, percentile};
use super::tpcc::TpcC;
use super::{Mix, Terminal, check, load};
use crate::report::{self, median, table};
use crate::servers::{Kind, Server, Work};
use crate::setup::{Setup, bytes_of};
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// Between two looks at the log's segments.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at the archive's lag: a query each, also where there is no archive, so that it is a part of no difference.
const LAG_LOOK: Duration = Duration::from_millis(100);
/// The server's threads that sort the log into runs, and that merge these, by the beginnings of their names.
const SORTING_THREADS: [&str; 1] = ["resurgam-archive"];
const MERGING_THREADS: [&str; 1] = ["resurgam-merge"];
/// Before a turn the archive merges what waits from the turn before: it is done when its threads did nothing between so many looks, this far apart.
const CALM_LOOKS: usize = 3;
const CALM_LOOK: Duration = Duration::from_secs(1);
/// It is not waited for longer.
const CALM_MAX: Duration = Duration::from_secs(300);
/// Throughput and processor time are looked at second by second.
const SECOND: Duration = Duration::from_secs(1);
/// The archive lags this much at most, in seconds, at 99 of 100 looks.
const LAG_GOAL: f64 = 1.0;
/// Throughput with an archive, as a share of that without.
const SHARE_GOAL: f64 = 0.99;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Data in gigabytes, from which the number of warehouses follows
    #[arg(long, default_value_t = 1.0)]
    gb: f64,
    /// Clients at one time
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seconds of load before what is counted, and of what is counted
    #[arg(long, default_value_t = 10.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Times that each load takes its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these loads: none, archive, copy, double, single
    #[arg(long, value_delimiter = ',', value_parser = ["none", "archive", "copy", "double", "single"])]
    only: Vec<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Little data and short runs: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

/// What is done with the log, and with pages that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    None,
    Archive,
    Copy,
    DoubleWrites,
    SingleWrites,
}

const WAYS: [Way; 5] = [Way::None, Way::Copy, Way::Archive, Way::DoubleWrites, Way::SingleWrites];

impl Way {
    fn slug(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Archive => "archive",
            Self::Copy => "copy",
            Self::DoubleWrites => "double",
            Self::SingleWrites => "single",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "no archive",
            Self::Archive => "archive",
            Self::Copy => "log files copied",
            Self::DoubleWrites => "archive, double writes on",
            Self::SingleWrites => "archive, double writes off",
        }
    }

    fn archives(self) -> bool {
        !matches!(self, Self::None | Self::Copy)
    }
}

/// What a load of `seconds` took.
struct Load {
    seconds: f64,
    transactions: usize,
    mean_ms: f64,
    p99_ms: f64,
    cpu: f64,
    /// Of that, the archive's own threads: those that sort, and that merge.
    sorting_cpu: f64,
    merging_cpu: f64,
    written: u64,
    log: u64,
    /// Seconds that merging has rested for the load; runs that waited to be merged at the end.
    rested: f64,
    waiting: f64,
    /// Seconds that the archive was behind, ascending.
    lags: Vec<f64>,
    /// Second by second: transactions, and processors that the server used.
    rates: Vec<f64>,
    cpus: Vec<f64>,
    backups: Vec<Backup>,
}

/// What loading the data took.
struct Loading {
    seconds: f64,
    written: u64,
}

impl Load {
    fn rate(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// Seconds of processor time for a gigabyte of log, where `cpu` was taken.
    fn a_gb(&self, cpu: f64) -> f64 {
        cpu / (self.log.max(1) as f64 / 1e9)
    }

    /// Milliseconds of processor time for a transaction.
    fn cpu_each(&self) -> f64 {
        self.cpu * 1e3 / self.transactions.max(1) as f64
    }
}

/// A backup under load.
struct Backup {
    what: &'static str,
    seconds: f64,
    data_mb: f64,
    cpu: f64,
    mean_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
}

/// What is known at the begin and at the end of what is counted.
struct Mark {
    at: Duration,
    cpu: f64,
    sorting_cpu: f64,
    merging_cpu: f64,
    written: u64,
    log: u64,
    rested: f64,
    waiting: f64,
}

/// What happened beside the clients.
struct Course {
    begun: Mark,
    ended: Mark,
    lags: Vec<f64>,
    cpus: Vec<f64>,
    /// What each was, when it was made, and the processor time of the server meanwhile.
    backups: Vec<(&'static str, Range<Duration>, f64)>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut options = Options { common: options.common.clone(), only: options.only.clone(), ..*options };
    // A warehouse has about 80 MB.
    let mut mix = TpcC::new((options.gb * 1000.0 / 80.0).round() as i64, options.seed);
    if options.quick {
        (options.warm_up, options.seconds, options.rounds) = (1.0, 2.0, 2);
        mix = TpcC::small(2, options.seed);
    }
    let options = &options;
    let mut setup = Setup::new(&options.common)?;
    let mut subjects = Vec::new();
    for way in WAYS {
        if options.only.is_empty() || options.only.iter().any(|only| only == way.slug()) {
            subjects.push(Subject::new(options, &mix, way, &mut setup)?);
        }
    }
    let rounds = options.rounds.max(1);
    for round in 0..rounds {
        // Every other round backwards: nobody always follows the same one.
        let count = subjects.len();
        for turn in 0..count {
            let number = if round % 2 == 0 { turn } else { count - 1 - turn };
            subjects[number].turn(options, &mix, round + 1 == rounds)?;
        }
    }
    let text = report(options, &mix, &setup, &subjects);
    let groups: Vec<String> = subjects.iter().map(|subject| subject.way.name().to_owned()).collect();
    let values = subjects.iter().map(|subject| Some(subject.median(Load::rate))).collect();
    let series = [Series { name: "transactions a second".into(), values }];
    let svg = bars("Throughput by what is done with the log", "transactions a second", &groups, &series);
    report::write_svg(&options.common, "backup-spread", &spread::plot(&subjects))?;
    report::write(&options.common, "backup", &text, &svg)
}

/// A database, and what its turns have shown.
struct Subject {
    way: Way,
    server: Server,
    terminals: Vec<Box<dyn Terminal>>,
    log: PathBuf,
    copies: PathBuf,
    loading: Loading,
    loads: Vec<Load>,
    // Removed when the server has ended.
    _work: Work,
}

impl Subject {
    /// Loads a database, and stops its server.
    fn new(options: &Options, mix: &TpcC, way: Way, setup: &mut Setup) -> Result<Self> {
        let work = Work::with_name(&options.common, way.slug())?;
        let of = |name: &str| work.path().join(name);
        let (log, copies) = (of("log"), of("copies"));
        fs::create_dir_all(&copies).map_err(|e| format!("could not make a folder: {e}"))?;
        let mut flags = vec![format!("--log-dir={}", log.display())];
        if way.archives() {
            flags.push(format!("--archive={}", of("archive").display()));
            flags.push(format!("--backups={}", of("backups").display()));
        }
        match way {
            Way::DoubleWrites => flags.push("--double-writes=on".into()),
            Way::SingleWrites => flags.push("--double-writes=off".into()),
            Way::None | Way::Archive | Way::Copy => {}
        }
        let mut server = Server::create_with(Kind::Resurgam, &options.common, work.path(), &flags)?;
        setup.saw(&server);
        eprintln!("loading: {}", way.name());
        let (begun, before) = (Instant::now(), written_by(&server)?);
        load(mix, &server)?;
        let seconds = begun.elapsed().as_secs_f64();
        let loading = Loading { seconds, written: written_by(&server)?.saturating_sub(before) };
        server.stop()?;
        let terminals = mix.terminals(options.clients, options.seed);
        Ok(Self { way, server, terminals, log, copies, loading, loads: Vec::new(), _work: work })
    }

    /// The server is started, works under the load, and is stopped.
    fn turn(&mut self, options: &Options, mix: &TpcC, backups: bool) -> Result<()> {
        self.server.start()?;
        let data_mb = bytes_of(&self.server.dir.join("data")) as f64 / 1e6;
        let (way, server, log, copies) = (self.way, &self.server, &self.log, &self.copies);
        wait_for_calm(server)?;
        let (course, tally) = drive(server.port, mix, &mut self.terminals, |run| match way {
            Way::Copy => std::thread::scope(|scope| {
                scope.spawn(|| copy_segments(log, copies, run));
                let course = course(options, server, way, backups, run);
                // The copier ends with the run, and the scope with it.
                run.stop();
                course
            }),
            _ => course(options, server, way, backups, run),
        })?;
        check(mix, server, &self.terminals)?;
        let load = load_of(course, &tally, data_mb);
        eprintln!("{}: {:.0} transactions a second", way.name(), load.rate());
        self.loads.push(load);
        self.server.stop()
    }

    /// Of its turns.
    fn median(&self, of: impl Fn(&Load) -> f64) -> f64 {
        median(&self.loads.iter().map(of).collect::<Vec<_>>())
    }

    /// Its share of what `other` did in the same round: in the middle, the least and the most.
    fn share_of(&self, other: &Self) -> Option<[f64; 3]> {
        let mut shares: Vec<f64> =
            self.loads.iter().zip(&other.loads).map(|(mine, its)| mine.rate() / its.rate().max(0.001)).collect();
        shares.sort_by(f64::total_cmp);
        Some([median(&shares), *shares.first()?, *shares.last()?])
    }
}

fn load_of(course: Course, tally: &Tally, data_mb: f64) -> Load {
    let Course { begun, ended, mut lags, cpus, backups } = course;
    lags.sort_by(f64::total_cmp);
    let whole = |number: u32| begun.at + SECOND * number..begun.at + SECOND * (number + 1);
    let rates = (0..).map(whole).take_while(|second| second.end <= ended.at);
    let rates = rates.map(|second| tally.latencies(None, &second).len() as f64).collect();
    let times = tally.latencies(None, &(begun.at..ended.at));
    let backups = backups.into_iter().map(|(what, when, cpu)| {
        let times = tally.latencies(None, &when);
        Backup {
            what,
            seconds: when.end.saturating_sub(when.start).as_secs_f64(),
            data_mb,
            cpu,
            mean_ms: mean(&times),
            p99_ms: percentile(&times, 0.99),
            worst_ms: times.last().copied().unwrap_or(0.0),
        }
    });
    Load {
        seconds: ended.at.saturating_sub(begun.at).as_secs_f64().max(0.001),
        transactions: times.len(),
        mean_ms: mean(&times),
        p99_ms: percentile(&times, 0.99),
        cpu: ended.cpu - begun.cpu,
        sorting_cpu: ended.sorting_cpu - begun.sorting_cpu,
        merging_cpu: ended.merging_cpu - begun.merging_cpu,
        written: ended.written.saturating_sub(begun.written),
        log: ended.log.saturating_sub(begun.log),
        rested: ended.rested - begun.rested,
        waiting: ended.waiting,
        lags,
        rates,
        cpus,
        backups: backups.collect(),
    }
}

/// What happens beside the clients.
fn course(options: &Options, server: &Server, way: Way, backups: bool, run: &Running) -> Result<Course> {
    let mut client = server.client()?;
    run.pause(Duration::from_secs_f64(options.warm_up.max(0.0)));
    let mark = |client: &mut crate::wire::Client| -> Result<Mark> {
        let mut of_archive = |column: &str| -> Result<f64> {
            let found = client.query(&format!("select {column} from resurgam_archive"))?;
            if way.archives() { number(found) } else { Ok(0.0) }
        };
        let (rested, waiting) = (of_archive("rested_seconds")?, of_archive("runs_waiting")?);
        Ok(Mark {
            at: run.elapsed(),
            cpu: server.cpu_seconds()?,
            sorting_cpu: server.cpu_seconds_of(&SORTING_THREADS)?,
            merging_cpu: server.cpu_seconds_of(&MERGING_THREADS)?,
            written: written_by(server)?,
            log: number(client.query("select flushed_lsn from resurgam_log")?)? as u64,
            rested,
            waiting,
        })
    };
    let begun = mark(&mut client)?;
    let end = begun.at + Duration::from_secs_f64(options.seconds.max(0.1));
    let (mut lags, mut cpus) = (Vec::new(), Vec::new());
    let mut looked = (begun.at, begun.cpu);
    while run.elapsed() < end && run.pause(LAG_LOOK.min(end.saturating_sub(run.elapsed()))) {
        let lag = client.query("select lag_seconds from resurgam_archive")?;
        if way.archives() {
            lags.push(number(lag)?);
        }
        let now = run.elapsed();
        if now >= looked.0 + SECOND {
            let cpu = server.cpu_seconds()?;
            cpus.push((cpu - looked.1) / (now - looked.0).as_secs_f64());
            looked = (now, cpu);
        }
    }
    let ended = mark(&mut client)?;
    let with_backups = backups && way == Way::Archive;
    let mut backups = Vec::new();
    if with_backups {
        for (what, sql) in
            [("from the device", "select resurgam_backup()"), ("from the archive", "select resurgam_backup(true)")]
        {
            let (at, cpu) = (run.elapsed(), server.cpu_seconds()?);
            client.query(sql)?;
            backups.push((what, at..run.elapsed(), server.cpu_seconds()? - cpu));
        }
    }
    Ok(Course { begun, ended, lags, cpus, backups })
}

/// Waits until the archive's threads have nothing to do: a turn is not to pay for the one before, nor for the load of the data.
fn wait_for_calm(server: &Server) -> Result<()> {
    let archiving =
        || Ok::<_, String>(server.cpu_seconds_of(&SORTING_THREADS)? + server.cpu_seconds_of(&MERGING_THREADS)?);
    let until = Instant::now() + CALM_MAX;
    let (mut seen, mut calm) = (archiving()?, 0);
    while calm < CALM_LOOKS {
        if Instant::now() > until {
            return Err(format!("the archive was at work for {} s after the load had ended", CALM_MAX.as_secs()));
        }
        std::thread::sleep(CALM_LOOK);
        let now = archiving()?;
        // The clock of a thread is in hundredths of a second, and looking for work is work.
        calm = if now - seen < 0.02 { calm + 1 } else { 0 };
        seen = now;
    }
    Ok(())
}

fn number(text: Option<String>) -> Result<f64> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| format!("\"{text}\" is not a number"))
}

/// Bytes that the server's process has caused to be written to devices.
fn written_by(server: &Server) -> Result<u64> {
    let id = server.process().ok_or("the server does not run")?;
    let text =
        fs::read_to_string(format!("/proc/{id}/io")).map_err(|e| format!("could not read what was written: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|count| count.parse().ok()).ok_or_else(|| "what was written is not said".into())
}

/// Copies the log's segments as they are finished, until the run ends: those that were changed before another one was.
fn copy_segments(log: &Path, copies: &Path, run: &Running) {
    let mut done = BTreeSet::new();
    while run.pause(LOOK) {
        for name in finished(log) {
            if done.contains(&name) {
                continue;
            }
            // A segment that was given up meanwhile is not there any more; nothing is lost by that here.
            let copied = fs::copy(log.join(&name), copies.join(&name));
            if copied.and_then(|_| fs::File::open(copies.join(&name))?.sync_all()).is_ok() {
                done.insert(name);
            }
        }
    }
}

/// Names of the segments before the one that was changed last. (Those behind it are ready to be used, maybe again.)
fn finished(log: &Path) -> Vec<String> {
    let Ok(entries) = log.read_dir() else { return Vec::new() };
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".log"))?;
            Some((entry.metadata().ok()?.modified().ok()?, name))
        })
        .collect();
    let Some(last) = all.iter().max().map(|(_, name)| name.clone()) else { return Vec::new() };
    all.retain(|(_, name)| *name < last);
    all.into_iter().map(|(_, name)| name).collect()
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn report(options: &Options, mix: &TpcC, setup: &Setup, subjects: &[Subject]) -> String {
    let none = subjects.iter().find(|subject| subject.way == Way::None);
    let rows: Vec<Vec<String>> = subjects
        .iter()
        .map(|subject| {
            let share = none.and_then(|none| subject.share_of(none)).map_or(String::new(), |[middle, least, most]| {
                let judged = if subject.way == Way::Archive { met(middle >= SHARE_GOAL) } else { "" };
                let colon = if judged.is_empty() { "" } else { ": " };
                format!("{middle:.3} ({least:.3} to {most:.3}){colon}{judged}")
            });
            let cpu = subject.median(Load::cpu_each);
            let lag = |share: f64| subject.median(|load| percentile(&load.lags, share));
            let of_archive = |text: String| if subject.way.archives() { text } else { String::new() };
            let sorting = subject.median(|load| load.a_gb(load.sorting_cpu));
            let merging = subject.median(|load| load.a_gb(load.merging_cpu));
            let both = subject.median(|load| load.a_gb(load.sorting_cpu + load.merging_cpu));
            let (rested, waiting) = (subject.median(|load| load.rested), subject.median(|load| load.waiting));
            vec![
                subject.way.name().to_owned(),
                format!("{:.0}", subject.median(Load::rate)),
                share,
                format!("{:.2}", subject.median(|load| load.mean_ms)),
                format!("{:.1}", subject.median(|load| load.p99_ms)),
                format!("{cpu:.3}"),
                format!("{:.1}", subject.median(|load| load.log as f64 / 1e6 / load.seconds)),
                of_archive(format!("{both:.1} ({sorting:.1} + {merging:.1})")),
                of_archive(format!("{rested:.1}")),
                of_archive(format!("{waiting:.0}")),
                format!("{:.1}", subject.median(|load| load.written as f64 / 1e3 / load.transactions.max(1) as f64)),
                of_archive(format!("{:.2}, {:.2}, {:.2}", lag(0.5), lag(0.99), lag(1.0))),
                of_archive(met(lag(0.99) <= LAG_GOAL).to_owned()),
            ]
        })
        .collect();
    let mut text = String::from("# What archiving and backups cost\n\n");
    text += &report::provenance();
    text += &format!(
        "{} clients work on a TPC-C-like mix of {} warehouses without think times; seed {}; commits wait for the disk; {} \
         turns of {} s each, after {} s that are not counted; medians, and shares within a round (least to most). Log, archive, backups and data are in folders on the same disk. \
         \"Log files copied\": the lab copies finished segments, as files, beside the server; its processor time is not in \
         the server's. Processor time for a GB archived is that of the server's threads that sort and that merge; these rest while the load wants the processors, unless too many runs wait. What waits to be merged at the end of a turn is merged after it, and no turn begins before (\"runs waiting\"). The lag is looked at every tenth of a second. The mix's consistency conditions held after each run.\n\n",
        options.clients, mix.warehouses, options.seed, options.rounds, options.seconds, options.warm_up
    );
    text += &setup.text();
    let head = [
        "load",
        "tx/s",
        "of no archive (goal: archive >= 0.99)",
        "mean ms",
        "p99 ms",
        "CPU ms/tx",
        "log MB/s",
        "CPU s/GB archived (sorting + merging)",
        "merging rested s",
        "runs waiting at the end",
        "written KB/tx",
        "lag p50, p99, max s",
        "goal: lag p99 <= 1 s",
    ];
    text += &table(&head, &rows);
    let mut backups = Vec::new();
    let all = subjects.iter().flat_map(|subject| &subject.loads);
    for (load, backup) in all.flat_map(|load| load.backups.iter().map(move |backup| (load, backup))) {
        backups.push(vec![
            backup.what.to_owned(),
            format!("{:.0}", backup.data_mb),
            format!("{:.2}", backup.seconds),
            format!("{:.0}", backup.data_mb / backup.seconds.max(0.001)),
            format!("{:.2}", backup.cpu),
            format!("{:.2} ({:.2})", backup.mean_ms, load.mean_ms),
            format!("{:.1} ({:.1})", backup.p99_ms, load.p99_ms),
            format!("{:.1}", backup.worst_ms),
        ]);
    }
    if !backups.is_empty() {
        text += "\nFull backups under that load, the wait for the archive included (processor time: the load's too); in \
                 parentheses the latency without a backup.\n\n";
        let head = ["backup", "data MB", "seconds", "MB/s", "server CPU s", "mean ms", "p99 ms", "worst ms"];
        text += &table(&head, &backups);
    }
    text += &spread::double_writes(subjects);
    text += &spread::text(subjects);
    text += "\n![plot](backup.svg)\n\n![second by second](backup-spread.svg)\n";
    text
}

fn met(is: bool) -> &'static str {
    if is { "met" } else { "**missed**" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_that_is_written_is_not_copied() {
        let dir = std::env::temp_dir().join(format!("resurgam-lab-segments-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for temporary files");
        for (age, name) in [(20, "1.log"), (10, "2.log"), (30, "3.log"), (0, "control")] {
            let file = fs::File::create(dir.join(name)).expect("a file");
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).expect("its time");
        }
        // The third one was made ready, and is not begun.
        assert_eq!(finished(&dir), ["1.log"]);
        assert!(finished(&dir.join("gone")).is_empty());
        fs::remove_dir_all(dir).expect("the folder goes");
    }
}
