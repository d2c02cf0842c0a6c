//! What a dead disk costs the transactions that go on (Instant Restore, section VI; shapes of its figures 9 to 13).
//!
//! The TPC-C-like mix runs on a server whose log and archive are elsewhere than its data. In the middle the data device is
//! declared dead, at several sizes of the buffer pool: latencies and throughput before, during and after the restore.
//! Then the same data without a running server: the data file is removed after a kill, and the server started again; beside
//! it, where it is installed, PostgreSQL from a base backup and its archived log, of the same work.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use super::drive::{Running, Tally, drive, percentile};
use super::tpcc::TpcC;
use super::{Mix, Terminal, check, load};
use crate::report::{self, table};
use crate::servers::{Kind, Server, Work, output};
use crate::setup::{Setup, bytes_of};
use crate::svg::{Series, bars};
use crate::timeline::{Panel, stack};
use crate::{Common, Result};

/// Between two looks at the restore.
const LOOK: Duration = Duration::from_millis(50);
/// A restore that takes longer has hung.
const RESTORE_MAX: Duration = Duration::from_secs(1800);
/// Throughput is back when it is this share of what it was.
const BACK: f64 = 0.95;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Warehouses of the mix; each has about 80 MB
    #[arg(long, default_value_t = 8)]
    warehouses: i64,
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
    /// Do not start a server without its data file
    #[arg(long)]
    no_restart: bool,
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
    tally: Tally,
}

/// A start without the data file.
struct Restart {
    name: String,
    data_mb: f64,
    answer: f64,
    transaction: f64,
    whole: Option<f64>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut options = Options { common: options.common.clone(), buffers: options.buffers.clone(), ..*options };
    let mut mix = TpcC::new(options.warehouses, options.seed);
    if options.quick {
        (options.warm_up, options.seconds) = (1.0, 3.0);
        mix = TpcC::small(2, options.seed);
    }
    let options = &options;
    let mut setup = Setup::new(&options.common)?;
    let (mut runs, mut restarts) = (Vec::new(), Vec::new());
    for (number, &part) in options.buffers.iter().enumerate() {
        let last = number + 1 == options.buffers.len();
        let (run, restart) = one(options, &mix, part, last && !options.no_restart, &mut setup)?;
        runs.push(run);
        restarts.extend(restart);
    }
    if !options.no_restart && !options.common.no_postgres && options.common.postgres.join("postgres").is_file() {
        restarts.push(postgres(options, &mix, &mut setup)?);
    }
    let text = report(options, &setup, &runs, &restarts);
    let groups: Vec<String> = runs.iter().map(|run| format!("{} of the data", run.part)).collect();
    let mean = |phase: usize| {
        runs.iter().map(|run| Some(mean(&run.tally.latencies(None, &run.phases[phase])))).collect::<Vec<_>>()
    };
    let series = [("before", 0), ("while it is restored", 1), ("after", 2)]
        .map(|(name, phase)| Series { name: name.into(), values: mean(phase) });
    let svg = bars("Mean latency of a transaction by size of the buffer pool", "milliseconds", &groups, &series);
    for run in &runs {
        report::write_svg(&options.common, &format!("restore-time-{}", run.buffer_mb), &over_time(run))?;
    }
    report::write(&options.common, "restore", &text, &svg)
}

/// A run at one size of the pool, and a start without the data file after it.
fn one(options: &Options, mix: &TpcC, part: f64, restart: bool, setup: &mut Setup) -> Result<(Run, Option<Restart>)> {
    let work = Work::new(&options.common)?;
    let places = Places::below(work.path());
    let mut server = Server::create_with(Kind::Resurgam, &options.common, work.path(), &places.flags())?;
    setup.saw(&server);
    eprintln!("loading");
    load(mix, &server)?;
    let data_mb = bytes_of(&server.dir.join("data")) as f64 / 1e6;
    server.client()?.query("select resurgam_backup()")?;
    server.stop()?;
    let buffer_mb = ((data_mb * part) as u64).max(8);
    server.set_buffer_mb(buffer_mb);
    server.start()?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    let (phases, tally) = drive(server.port, mix, &mut terminals, |run| course(options, &server, &places.spare, run))?;
    check(mix, &server, &terminals)?;
    let took = phases[1].end.saturating_sub(phases[1].start).as_secs_f64();
    eprintln!("buffer pool of {buffer_mb} MB ({part} of the data): restored in {took:.2} s");
    let run = Run { part, buffer_mb, phases, tally };
    let restart = restart.then(|| without_data(options, mix, &mut server, &places, &mut terminals)).transpose()?;
    Ok((run, restart))
}

/// What happens beside the clients: when each phase was.
fn course(options: &Options, server: &Server, spare: &Path, run: &Running) -> Result<[Range<Duration>; 3]> {
    let seconds = Duration::from_secs_f64(options.seconds.max(0.1));
    let mut client = server.client()?;
    run.pause(Duration::from_secs_f64(options.warm_up.max(0.0)));
    let begun = run.elapsed();
    run.pause(seconds);
    let failed = run.elapsed();
    client.query("select resurgam_fail_device('data')")?;
    while !spare.join("restored-segments").exists() && !spare.join("data").exists() {
        if !run.pause(LOOK / 10) || run.elapsed() > failed + RESTORE_MAX {
            return Err("the dead device was not replaced".into());
        }
    }
    wait_until_restored(&mut client, || run.pause(LOOK))?;
    let restored = run.elapsed();
    run.pause(seconds);
    Ok([begun..failed, failed..restored, restored..run.elapsed()])
}

/// Waits until nothing is being restored any more; `pause` says whether to go on.
fn wait_until_restored(client: &mut crate::wire::Client, mut pause: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left = client.query("select count(*) from resurgam_restore")?;
        if left.as_deref() == Some("0") {
            return Ok(());
        }
        if begun.elapsed() > RESTORE_MAX {
            return Err(format!("the restore is not done after {} s", RESTORE_MAX.as_secs()));
        }
        if !pause() {
            return Err("the clients ended while the disk was restored".into());
        }
    }
}

/// Kills the server, takes its data file away and starts it again.
fn without_data(
    options: &Options,
    mix: &TpcC,
    server: &mut Server,
    places: &Places,
    terminals: &mut [Box<dyn Terminal>],
) -> Result<Restart> {
    let seconds = Duration::from_secs_f64(options.seconds.max(0.1));
    drive(server.port, mix, terminals, |run| Ok(run.pause(seconds)))?;
    server.kill();
    // The spare folder has become the data folder.
    let data = [places.spare.join("data"), server.dir.join("data")].into_iter().find(|path| path.exists());
    let data = data.ok_or("there is no data file")?;
    let data_mb = bytes_of(&data) as f64 / 1e6;
    fs::remove_file(&data).map_err(|e| format!("could not remove \"{}\": {e}", data.display()))?;
    let answer = server.start()?;
    let begun = Instant::now();
    let mut client = server.client()?;
    client.query("update warehouse set w_ytd = w_ytd where w_id = 1")?;
    let transaction = answer + begun.elapsed();
    wait_until_restored(&mut client, || {
        std::thread::sleep(LOOK);
        true
    })?;
    let whole = answer + begun.elapsed();
    check(mix, server, terminals)?;
    let seconds = |time: Duration| time.as_secs_f64();
    let name = "Resurgam, its data file removed".into();
    Ok(Restart {
        name,
        data_mb,
        answer: seconds(answer),
        transaction: seconds(transaction),
        whole: Some(seconds(whole)),
    })
}

/// PostgreSQL: base backup, the same work, a kill, its folder made again from the backup and the archived log.
fn postgres(options: &Options, mix: &TpcC, setup: &mut Setup) -> Result<Restart> {
    let work = Work::new(&options.common)?;
    let archive = work.path().join("archive");
    fs::create_dir_all(&archive).map_err(|e| e.to_string())?;
    output(Command::new("chmod").arg("777").arg(&archive))?;
    let mut server = Server::create(Kind::Postgres, &options.common, work.path())?;
    setup.saw(&server);
    let settings = format!(
        "\narchive_mode = on\narchive_command = 'cp %p {0}/%f'\nrestore_command = 'cp {0}/%f %p'\nwal_level = replica\n",
        archive.display()
    );
    let conf = server.dir.join("postgresql.conf");
    let text = fs::read_to_string(&conf).map_err(|e| e.to_string())? + &settings;
    fs::write(&conf, text).map_err(|e| e.to_string())?;
    server.stop()?;
    server.start()?;
    load(mix, &server)?;
    let base = work.path().join("base");
    let mut backup = Command::new(options.common.postgres.join("pg_basebackup"));
    backup.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "none", "-c", "fast", "-p"]);
    output(backup.arg(server.port.to_string()).arg("-D").arg(&base))?;
    let mut terminals = mix.terminals(options.clients, options.seed);
    let seconds = Duration::from_secs_f64(options.seconds.max(0.1) * 2.0 + options.warm_up.max(0.0));
    drive(server.port, mix, &mut terminals, |run| Ok(run.pause(seconds)))?;
    let mut client = server.client()?;
    client.query("select pg_switch_wal()")?;
    drop(client);
    // As with Resurgam the log is on another disk: it is there.
    server.kill();
    let data_mb = bytes_of(&server.dir.join("base")) as f64 / 1e6;
    let wal = server.dir.join("pg_wal");
    let begun = Instant::now();
    let aside = work.path().join("pg_wal");
    fs::rename(&wal, &aside).map_err(|e| e.to_string())?;
    output(Command::new("rm").arg("-rf").arg(&server.dir))?;
    output(Command::new("cp").arg("-a").arg(&base).arg(&server.dir))?;
    output(Command::new("rm").arg("-rf").arg(&wal))?;
    fs::rename(&aside, &wal).map_err(|e| e.to_string())?;
    fs::write(server.dir.join("recovery.signal"), "").map_err(|e| e.to_string())?;
    output(Command::new("sh").arg("-c").arg(format!("chown -R $(stat -c %U {0}/.) {0} || true", base.display())))?;
    output(
        Command::new("sh")
            .arg("-c")
            .arg(format!("if [ \"$(id -u)\" = 0 ]; then chown -R postgres:postgres {}; fi", server.dir.display())),
    )?;
    server.start()?;
    let answer = begun.elapsed();
    loop {
        let mut client = server.client()?;
        if client.query("update warehouse set w_ytd = w_ytd where w_id = 1").is_ok() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let transaction = begun.elapsed();
    check(mix, &server, &terminals)?;
    Ok(Restart {
        name: "PostgreSQL, base backup and archived log".into(),
        data_mb,
        answer: answer.as_secs_f64(),
        transaction: transaction.as_secs_f64(),
        whole: Some(transaction.as_secs_f64()),
    })
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Transactions a second in a part of the run.
fn rate(tally: &Tally, within: &Range<Duration>) -> f64 {
    let seconds = within.end.saturating_sub(within.start).as_secs_f64();
    tally.latencies(None, within).len() as f64 / seconds.max(0.001)
}

/// Seconds from the failure until half a second's throughput is back to what it was.
fn back_after(run: &Run) -> Option<f64> {
    let wanted = rate(&run.tally, &run.phases[0]) * BACK;
    let (step, window) = (Duration::from_millis(100), Duration::from_millis(500));
    let (mut at, end) = (run.phases[1].start, run.phases[2].end);
    while at + window <= end {
        if rate(&run.tally, &(at..at + window)) >= wanted {
            return Some((at + window).saturating_sub(run.phases[1].start).as_secs_f64());
        }
        at += step;
    }
    None
}

/// Transactions and latencies by the half second.
fn over_time(run: &Run) -> String {
    let step = Duration::from_millis(500);
    let parts: Vec<(f64, Vec<f64>)> = (0..)
        .map(|number| step * number)
        .take_while(|at| *at < run.phases[2].end)
        .map(|at| ((at + step / 2).as_secs_f64(), run.tally.latencies(None, &(at..at + step))))
        .collect();
    let line = |of: &dyn Fn(&[f64]) -> f64| vec![parts.iter().map(|(at, times)| (*at, of(times))).collect()];
    let panels = [
        Panel { title: "transactions a second".into(), lines: line(&|times| times.len() as f64 / step.as_secs_f64()) },
        Panel { title: "mean latency, ms".into(), lines: line(&mean) },
        Panel { title: "worst latency, ms".into(), lines: line(&|times| times.last().copied().unwrap_or(0.0)) },
    ];
    let marks = [(run.phases[1].start.as_secs_f64(), "disk dies"), (run.phases[1].end.as_secs_f64(), "restored")];
    stack(&format!("A dead disk under load, buffer pool of {} MB", run.buffer_mb), &panels, &marks)
}

fn report(options: &Options, setup: &Setup, runs: &[Run], restarts: &[Restart]) -> String {
    let mut rows = Vec::new();
    for run in runs {
        for (phase, name) in ["before", "while it is restored", "after"].into_iter().enumerate() {
            let times = run.tally.latencies(None, &run.phases[phase]);
            let seconds = run.phases[phase].end.saturating_sub(run.phases[phase].start).as_secs_f64();
            rows.push(vec![
                format!("{} MB ({})", run.buffer_mb, run.part),
                name.to_owned(),
                format!("{seconds:.2}"),
                format!("{:.0}", rate(&run.tally, &run.phases[phase])),
                format!("{:.2}", mean(&times)),
                format!("{:.2}", percentile(&times, 0.5)),
                format!("{:.2}", percentile(&times, 0.99)),
                format!("{:.1}", times.last().copied().unwrap_or(0.0)),
                match phase {
                    1 => back_after(run).map_or("not".into(), |seconds| format!("{seconds:.1}")),
                    _ => String::new(),
                },
            ]);
        }
    }
    let starts: Vec<Vec<String>> = restarts
        .iter()
        .map(|restart| {
            vec![
                restart.name.clone(),
                format!("{:.0}", restart.data_mb),
                format!("{:.3}", restart.answer),
                format!("{:.3}", restart.transaction),
                restart.whole.map_or(String::new(), |seconds| format!("{seconds:.2}")),
            ]
        })
        .collect();
    let mut text = String::from("# A dead disk under load\n\n");
    text += &report::provenance();
    text += &format!(
        "{} clients work on a TPC-C-like mix of {} warehouses without think times; seed {}; commits wait for the disk. The \
         database was backed up after it was loaded; its log, archive and backups are in other folders (on the same disk \
         here, so restoring and working share it). After {} s its data device is declared dead, and the data is made again in \
         the spare folder while the clients go on. No transaction failed, and the mix's consistency conditions held after each \
         run. \"Back\": seconds from the failure until half a second has {} % of the throughput before.\n\n",
        options.clients,
        options.warehouses,
        options.seed,
        options.seconds,
        BACK * 100.0
    );
    text += &setup.text();
    let head = ["buffer pool", "phase", "seconds", "tx/s", "mean ms", "p50 ms", "p99 ms", "worst ms", "back after s"];
    text += &table(&head, &rows);
    if !starts.is_empty() {
        text += "\nA start without the data: seconds from the start (with PostgreSQL: from the copy of the base backup) to the \
                 first answer, to the first transaction that writes, and until all is restored.\n\n";
        text += &table(&["server", "data MB", "first answer", "first write", "all restored"], &starts);
    }
    text += "\n![plot](restore.svg)\n";
    for run in runs {
        text += &format!("\n![over time](restore-time-{}.svg)\n", run.buffer_mb);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::drive::Done;
    use super::*;

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
        let run = Run { part: 1.0, buffer_mb: 8, phases, tally: Tally { done, ..Tally::default() } };
        let back = back_after(&run).expect("it comes back");
        assert!((1.4..=1.6).contains(&back), "{back}");
        assert!((rate(&run.tally, &run.phases[0]) - 100.0).abs() < 1.0);
    }
}
