//! A soak test of the real server on a real file system: under a mixed load it is killed, or
//! its disk loses power, at random moments; after each restart everything is checked.
//!
//! | file | concept |
//! |---|---|
//! | `round.rs` | what the clients of one life of the server share; sessions; which failures count |
//! | `model.rs`, `writer.rs` | writers that know row by row what must be there |
//! | `bulk.rs` | large transactions: rolled back, committed, left open |
//! | `reader.rs` | a snapshot that must not move |
//! | `schema.rs` | tables and indexes that come and go |
//! | `faults.rs` | devices that fail for a while |
//! | `image.rs` | a file system that can be stopped |
//! | `disk.rs` | the data folder's file system, and how it loses power |
//! | `devices.rs`, `deaths.rs` | the data's device dies under the load, and another one takes its place |
//! | `parts.rs` | page servers that come and go |
//! | `target.rs` | the server's process and its log |
//! | `check.rs` | what must hold after a restart |
//! | `summary.rs` | what a run did |
//!
//! Contract checked: an acknowledged commit is there whole; what was rolled back or never
//! committed is not; a commit in doubt is there whole or not at all; sums, indexes and
//! definitions agree; a snapshot does not move; nothing but a conflict fails while the server
//! lives; its log has no complaint; after a clean stop `resurgam check` finds nothing.
//!
//! Everything that is chosen comes from the seed; when what happens depends on the machine.

mod bulk;
mod check;
mod deaths;
mod devices;
mod disk;
mod faults;
mod image;
mod model;
mod parts;
mod reader;
mod round;
mod schema;
mod summary;
mod target;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Result;
use crate::servers::{free_port, output};
use crate::wire::Client;
use bulk::Bulk;
use devices::Devices;
use disk::Disk;
use faults::Faults;
use parts::Parts;
use round::{PATIENCE, Phase, Round};
use schema::Schema;
use summary::Summary;
use target::Target;
use writer::Writer;

/// What to do, and for how long.
#[derive(Args)]
pub struct Options {
    /// How long to go on, in minutes
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Where all choices come from [default: the clock's]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Folder for the data and the server's log; made, removed if all was well, else kept [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Lose what was not synced, too: the data is on an ext4 image that is cut off (Linux, as root; skipped elsewhere)
    #[arg(long)]
    power_loss: bool,
    /// Let the devices fail for a while in each life of the server, too (Linux, with a C compiler; skipped elsewhere)
    #[arg(long)]
    io_errors: bool,
    /// Let the data's device die under the load: the server goes on in a spare folder (Linux, as root; skipped elsewhere)
    #[arg(long, conflicts_with_all = ["power_loss", "io_errors"])]
    dead_device: bool,
    /// With --dead-device: devices hang, too, and are given up after four seconds.
    #[arg(long, requires = "dead_device")]
    hangs: bool,
    /// The pages are with so many page servers, which are killed, stopped, and lose their folders under the load
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["io_errors", "dead_device"])]
    page_servers: usize,
    /// Each of them has every so many of the partitions of the pages (of 1 MB); 1: all pages
    #[arg(long, value_name = "P", default_value_t = 1, requires = "page_servers")]
    partitions: usize,
    /// The log goes through a landing zone and a log service, which the same happens to; the server loses its folder between its lives
    #[arg(long, requires = "page_servers")]
    log_service: bool,
    /// The links between them are slow, silent and cut now and then, the landing zone is full, and the stores are away for --away-seconds
    #[arg(long, requires = "page_servers")]
    troubles: bool,
    /// With --troubles: how long archive, backups and long-term log are away
    #[arg(long, value_name = "S", default_value_t = 60)]
    away_seconds: u64,
    /// The server's binary
    #[arg(long, value_name = "PATH", default_value = "target/release/resurgam")]
    server: PathBuf,
    /// Clients that write rows of their own
    #[arg(long, value_name = "N", default_value_t = 4)]
    writers: i32,
    /// off: the data folder is switched to traditional recovery
    #[arg(long, value_name = "on|off", default_value = "on")]
    mode: Mode,
    /// Leave out indexes that come and go on a table in use
    #[arg(long, hide = true)]
    no_shared_ddl: bool,
    /// Do something wrong on purpose, to see that it is found
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "sync-off")]
    canary: Option<Canary>,
}

/// `accelerated_database_recovery`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    On,
    Off,
}

/// What goes wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Canary {
    /// The server acknowledges commits before they are durable
    SyncOff,
    /// A row of a writer is deleted behind its back
    LostRow,
    /// A row appears that was never committed
    Phantom,
    /// An account's balance changes
    Balance,
    /// A row of the large transaction that was left open is there
    LeftOpen,
    /// One row of a change of all rows is missing it
    Half,
    /// A table is gone
    Table,
    /// Pages of the data file are overwritten after a clean stop
    Page,
    /// After a clean stop segments of a restored file are as they were when the restore ended (with `--dead-device`)
    StaleSegment,
}

impl Canary {
    /// A statement that spoils the database before a check.
    fn statement(self) -> Option<&'static str> {
        Some(match self {
            Self::SyncOff | Self::Page | Self::StaleSegment => return None,
            Self::LostRow => "delete from item where seq = (select max(seq) from item)",
            Self::Phantom => "insert into item values (0, 1000000000, 1, 1, '')",
            Self::Balance => "update account set balance = balance + 1 where id = 1",
            Self::LeftOpen => "insert into left_open values (5, 's')",
            Self::Half => "update bulk set grp = grp - 1 where id = 77",
            Self::Table => "create table d99 (id bigint primary key, v bigint)",
        })
    }
}

/// How a life of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerLoss,
    CleanStop,
}

/// Everything of one run.
struct Soak<'a> {
    options: &'a Options,
    rng: SmallRng,
    // Goes before the disk that it has files open on.
    target: Target,
    disk: Disk,
    devices: Option<Devices>,
    parts: Option<Parts>,
    writers: Vec<Writer>,
    bulk: Bulk,
    schema: Schema,
    sum: Summary,
}

/// Runs the test.
///
/// # Errors
/// What was found, with the seed and where the data and the log are kept.
pub fn run(options: &Options) -> Result<()> {
    if !options.server.is_file() {
        return Err(format!("there is no server at \"{}\"", options.server.display()));
    }
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    let seed = options.seed.unwrap_or(clock % 1_000_000_000);
    println!("seed {seed}");
    let name = || std::env::temp_dir().join(format!("resurgam-soak-{}", std::process::id()));
    let dir = options.dir.clone().unwrap_or_else(name);
    if dir.exists() {
        return Err(format!("the folder \"{}\" exists already", dir.display()));
    }
    fs::create_dir_all(&dir).map_err(|e| format!("could not make \"{}\": {e}", dir.display()))?;
    let dir = dir.canonicalize().map_err(|e| e.to_string())?;
    let disk = if options.power_loss {
        match Disk::image(&dir) {
            Ok(disk) => disk,
            Err(why) => {
                println!("skipped: power losses cannot be tried here: {why}");
                let _ = fs::remove_dir_all(&dir);
                return Ok(());
            }
        }
    } else {
        Disk::folder(&dir)
    };
    let devices = match options.dead_device.then(|| Devices::make(&dir, options.hangs)).transpose() {
        Ok(devices) => devices,
        Err(why) => {
            println!("skipped: devices cannot be made to die here: {why}");
            let _ = fs::remove_dir_all(&dir);
            return Ok(());
        }
    };
    let done = soak(options, seed, &dir, disk, devices);
    match done {
        Ok(()) => {
            fs::remove_dir_all(&dir).map_err(|e| format!("could not remove \"{}\": {e}", dir.display()))?;
            Ok(())
        }
        Err(found) => Err(format!("{found}\nseed {seed}; all is kept in {}", dir.display())),
    }
}

fn soak(options: &Options, seed: u64, dir: &Path, disk: Disk, devices: Option<Devices>) -> Result<()> {
    let durable = options.canary != Some(Canary::SyncOff);
    let mut target = Target::new(options.server.clone(), disk.data(), dir.join("server.log"), free_port()?, durable);
    if options.io_errors {
        match Faults::new(dir) {
            Ok(faults) => target.faults = Some(faults),
            Err(why) => {
                println!("skipped: devices cannot be made to fail here: {why}");
                return Ok(());
            }
        }
    }
    let parts = match options.page_servers {
        0 => None,
        count => {
            let data = disk.data();
            let base = data.parent().ok_or("the data folder is nowhere")?;
            Some(Parts::new(
                &options.server,
                base,
                dir.join("parts.log"),
                (count, options.partitions),
                options.log_service,
                options.troubles.then(|| Duration::from_secs(options.away_seconds)),
            )?)
        }
    };
    (target.parts, target.troubles) = (parts.is_some(), options.troubles);
    let mut soak = Soak {
        options,
        rng: SmallRng::seed_from_u64(seed),
        disk,
        devices,
        parts,
        target,
        writers: (0..options.writers.max(1)).map(|id| Writer::new(id, seed)).collect(),
        bulk: Bulk::new(seed),
        schema: Schema::new(seed, !options.no_shared_ddl),
        sum: Summary::default(),
    };
    let begun = Instant::now();
    let mut found = soak.go().err().unwrap_or_default();
    soak.sum.lasted = begun.elapsed();
    if found.is_empty()
        && let Some(parts) = &soak.parts
    {
        found.extend(parts.missed(soak.sum.lasted));
    }
    soak.sum.slowed = soak.target.slowed;
    // The server first: it holds the file system.
    soak.target.kill();
    if let Some(parts) = &mut soak.parts {
        parts.kill_all();
    }
    println!("{}", soak.sum.show(soak.devices.as_ref(), soak.parts.as_ref(), found.len()));
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("{}\ndata: {}\nserver's log: {}", found.join("\n"), soak.disk.described(), soak.target.log.display()))
}

/// Fails with what was found, if anything.
fn verdict(found: Vec<String>) -> Result<(), Vec<String>> {
    if found.is_empty() { Ok(()) } else { Err(found) }
}

impl Soak<'_> {
    fn go(&mut self) -> Result<(), Vec<String>> {
        let one = |e: String| vec![e];
        self.set_folders();
        if let Some(parts) = &mut self.parts {
            parts.start_all().map_err(one)?;
        }
        let begun = Instant::now();
        self.target.spawn().map_err(one)?;
        self.target.answered(begun).map_err(one)?;
        let mut client = self.client().map_err(one)?;
        if self.options.mode == Mode::Off {
            let sql = "alter database postgres set accelerated_database_recovery = off";
            client
                .query(sql)
                .map_err(|e| vec![format!("this server cannot be switched to traditional recovery: {e}")])?;
        }
        check::create(&mut client).map_err(one)?;
        drop(client);
        let lasts = Duration::from_secs_f64(self.options.minutes.max(0.0) * 60.0);
        loop {
            let last = begun.elapsed() >= lasts;
            let end = if last { End::CleanStop } else { self.choose_end() };
            self.round(end)?;
            if end == End::CleanStop {
                self.check_folder()?;
                if last {
                    self.check_archive().map_err(one)?;
                    return Ok(());
                }
            }
            self.restart()?;
        }
    }

    fn client(&self) -> Result<Client> {
        Client::connect_within(self.target.port, Some(PATIENCE))
    }

    /// What the server is started with.
    fn set_folders(&mut self) {
        if let Some(devices) = &self.devices {
            self.target.data = devices.asked.clone();
            self.target.flags = devices.flags();
        }
        if let Some(parts) = &self.parts {
            self.target.flags = parts.flags();
        }
    }

    fn choose_end(&mut self) -> End {
        if self.options.canary == Some(Canary::StaleSegment) {
            return End::CleanStop;
        }
        let choice = self.rng.random_range(0..20);
        match (self.disk.can_lose_power(), choice) {
            (_, 0) => End::CleanStop,
            (false, _) | (true, ..5) => End::Kill,
            (true, _) => End::PowerLoss,
        }
    }

    /// One life of the server: load, and its end.
    fn round(&mut self, end: End) -> Result<(), Vec<String>> {
        self.sum.rounds += 1;
        let round = Round::new(self.target.port);
        let mut run_for = Duration::from_millis(self.rng.random_range(1000..8000));
        let left_open = if self.rng.random_ratio(2, 3) { self.rng.random_range(20_000..400_000) } else { 0 };
        let reader_seed = self.rng.random();
        let busy = [None, None, Some("checkpoint"), Some("vacuum")][self.rng.random_range(0..4)];
        let mut end = end;
        let mut old = None;
        let mut found = thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(|| writer.work(&round));
            }
            scope.spawn(|| self.bulk.work(&round));
            scope.spawn(|| self.schema.work(&round));
            scope.spawn(|| reader::read(&round, reader_seed));
            if left_open > 0 {
                scope.spawn(|| bulk::leave_open(&round, left_open));
            }
            let mut found = Vec::new();
            let mut begun = Instant::now();
            if let Some(devices) = &mut self.devices {
                let lives = end == End::CleanStop;
                let happened = deaths::happen(devices, &round, &mut self.sum.deaths, &mut self.rng, lives);
                let done = happened.and_then(|goes_on| {
                    if goes_on && lives {
                        deaths::wait_until_restored(devices, &round)?;
                    }
                    Ok(goes_on)
                });
                match done {
                    Ok(true) => begun = Instant::now(),
                    Ok(false) => (run_for, end) = (Duration::ZERO, End::Kill),
                    Err(why) => round.violation(why),
                }
                if self.options.canary == Some(Canary::StaleSegment) && devices.is_replaced() {
                    old = Some(fs::read(devices.folder().join("data")).unwrap_or_default());
                }
            }
            if let Some(faults) = &self.target.faults {
                match fail_for_a_while(faults, &round, &mut self.rng) {
                    Ok(stall) => {
                        self.sum.faults += 1;
                        self.sum.longest_stall_s = self.sum.longest_stall_s.max(stall.as_secs_f64());
                    }
                    Err(why) => round.violation(why),
                }
            }
            let lasts = |parts: &Option<Parts>| parts.as_ref().is_some_and(Parts::is_in_trouble);
            while (begun.elapsed() < run_for || lasts(&self.parts)) && round.violations().is_empty() {
                if let Some(Err(why)) = self.parts.as_mut().map(|parts| parts.step(&mut self.rng)) {
                    round.violation(why);
                }
                thread::sleep(Duration::from_millis(1));
            }
            if let Some(Err(why)) = self.parts.as_mut().filter(|_| end == End::CleanStop).map(Parts::start_all) {
                round.violation(why);
            }
            if let Some(sql) = busy.filter(|_| end != End::CleanStop) {
                scope.spawn(|| {
                    let _ = round::Session::open(&round, "maintenance").and_then(|mut session| session.run(sql));
                });
                thread::sleep(Duration::from_micros(self.rng.random_range(0..30_000)));
            }
            if end == End::CleanStop {
                round.enter(Phase::Finishing);
            } else {
                round.enter(Phase::Dying);
                // Sometimes the log's device goes first.
                if let Some(faults) = self.target.faults.as_ref().filter(|_| self.rng.random_ratio(1, 3)) {
                    found.extend(faults.set(faults::LOG).err());
                    thread::sleep(Duration::from_millis(self.rng.random_range(1..500)));
                }
                found.extend(self.target.ended().map(|status| format!("the server ended by itself: {status}")));
                found.extend(end_now(&self.disk, &mut self.target, &mut self.rng, end));
            }
            found
        });
        if let Some(faults) = &self.target.faults {
            found.extend(faults.set(0).err());
        }
        self.sum.add(&round);
        found.extend(round.violations());
        if !found.is_empty() {
            return Err(found);
        }
        match end {
            End::Kill => self.sum.kills += 1,
            End::PowerLoss => {
                self.sum.power_losses += 1;
                self.power_is_back().map_err(|e| vec![e])?;
            }
            End::CleanStop => {
                self.sum.clean_stops += 1;
                if let Err(e) = self.target.stop() {
                    found.push(e);
                }
                found.extend(self.target.complaints(self.target.log_len()));
                if let (Some(old), Some(devices)) = (old, &self.devices) {
                    found.extend(put_back(&devices.folder(), &old).err());
                }
            }
        }
        verdict(found)
    }

    /// The disk is there again, and so are the page servers that are on it.
    fn power_is_back(&mut self) -> Result<()> {
        if let Some(parts) = &mut self.parts {
            parts.kill_all();
        }
        self.disk.back(&mut self.rng)?;
        self.parts.as_mut().map_or(Ok(()), Parts::start_all)
    }

    /// The folder of a server that was stopped.
    fn check_folder(&mut self) -> Result<(), Vec<String>> {
        if let Some(parts) = &self.parts {
            // There are no pages in it.
            return verdict(parts.complaints());
        }
        if self.options.canary == Some(Canary::Page) {
            spoil_pages(&self.target.data).map_err(|e| vec![e])?;
        }
        let folder = self.devices.as_ref().map_or_else(|| self.target.data.clone(), Devices::folder);
        self.target.check(&folder).map_err(|e| vec![e])
    }

    /// The archive, which makes the same pages as are in the folder; of a database in parts, that it is whole, whoever of those who write it was killed.
    fn check_archive(&self) -> Result<()> {
        let mut command = Command::new(&self.target.binary);
        if let Some(archive) = self.parts.as_ref().and_then(Parts::archive) {
            command.args(["archive", "verify"]).arg(archive);
            println!("archive verify: {}", output(&mut command)?);
        }
        let Some(devices) = &self.devices else { return Ok(()) };
        command.args(["archive", "verify"]).arg(devices.archive()).arg("--against").arg(devices.folder());
        println!("archive verify: {}", output(&mut command)?);
        Ok(())
    }

    /// Starts the server, sometimes in several attempts that are cut short, and checks everything.
    fn restart(&mut self) -> Result<(), Vec<String>> {
        let one = |e: String| vec![e];
        if let Some(devices) = &mut self.devices {
            devices.next_life(&mut self.rng).map_err(one)?;
        }
        self.set_folders();
        if self.parts.as_ref().is_some_and(Parts::has_log_service) && self.rng.random_ratio(1, 2) {
            // An empty machine.
            match fs::remove_dir_all(&self.target.data) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(vec![format!("the folder cannot be emptied: {error}")]);
                }
                _ => {}
            }
            self.sum.emptied += 1;
        }
        while self.rng.random_ratio(1, 3) {
            self.target.spawn().map_err(one)?;
            // Early moments more often than late ones.
            let longest_us = self.rng.random_range(1..150_000);
            thread::sleep(Duration::from_micros(self.rng.random_range(0..longest_us)));
            // It may be up already, or have refused to start, which the start below will show.
            let end = if self.disk.can_lose_power() && self.rng.random() { End::PowerLoss } else { End::Kill };
            verdict(end_now(&self.disk, &mut self.target, &mut self.rng, end))?;
            self.sum.in_recovery += 1;
            if end == End::PowerLoss {
                self.sum.power_losses += 1;
                self.power_is_back().map_err(one)?;
            }
        }
        if let Some(parts) = &mut self.parts {
            parts.start_all().map_err(one)?;
        }
        let begun = Instant::now();
        self.target.spawn().map_err(one)?;
        let took = self.target.answered(begun).map_err(one)?;
        self.sum.answers_s.push(took.as_secs_f64());
        let mut client = self.client().map_err(one)?;
        if let Some(sql) = self.options.canary.and_then(Canary::statement) {
            client.query(sql).map_err(one)?;
        }
        let out = check::check(&mut client, &mut self.writers, &mut self.bulk, &mut self.schema);
        self.sum.rows += out.rows;
        self.sum.doubts += out.doubts;
        self.sum.happened += out.happened;
        let mut found = out.violations;
        found.extend(self.target.complaints(self.target.log_len()));
        verdict(found)
    }
}

/// Commits have to go on so soon after a device does.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Lets devices fail in ways that the server has to outlive; how long it was then until the next commit.
fn fail_for_a_while(faults: &Faults, round: &Round, rng: &mut SmallRng) -> Result<Duration> {
    thread::sleep(Duration::from_millis(rng.random_range(100..2000)));
    let kinds = [
        faults::WRITES,
        faults::SYNCS,
        faults::WRITES | faults::SYNCS,
        faults::READS,
        faults::READS | faults::WRITES | faults::SYNCS,
    ];
    let kinds = kinds[rng.random_range(0..kinds.len())];
    round.failing.store(kinds, Ordering::SeqCst);
    faults.set(kinds)?;
    thread::sleep(Duration::from_millis(rng.random_range(50..3000)));
    faults.set(0)?;
    let (well, before) = (Instant::now(), round.commits.load(Ordering::Relaxed));
    while round.commits.load(Ordering::Relaxed) == before {
        if well.elapsed() > STALL_MAX {
            return Err(format!("no commit in {STALL_MAX:?} after the devices were well again (of kinds {kinds})"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let stall = well.elapsed();
    // What failed before may answer still.
    thread::sleep(Duration::from_millis(500));
    round.failing.store(0, Ordering::SeqCst);
    Ok(stall)
}

/// Ends the process, and with it what was not synced if the power is lost. Answers complaints
/// of the server from before.
fn end_now(disk: &Disk, target: &mut Target, rng: &mut SmallRng, end: End) -> Vec<String> {
    if end != End::PowerLoss {
        target.kill();
        return target.complaints(target.log_len());
    }
    disk.scatter(rng);
    let log_end = target.log_len();
    let stopped = disk.stop();
    // Mostly at once; now and then the server gets to see that nothing can be written any more.
    if rng.random_ratio(1, 4) {
        thread::sleep(Duration::from_millis(rng.random_range(1..100)));
    }
    target.kill();
    let mut found = target.complaints(log_end);
    found.extend(stopped.err());
    found
}

/// Overwrites parts of pages here and there in the data file.
fn spoil_pages(data: &Path) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let failed = |e: std::io::Error| e.to_string();
    let file = fs::File::options().write(true).open(data.join("data")).map_err(failed)?;
    // Many, since a damaged page that is free is no damage.
    (10..400).step_by(10).try_for_each(|page| file.write_all_at(&[0x5a; 512], 8192 * page + 4096)).map_err(failed)
}

/// Puts back every second segment (1 MB) of the data file as it was.
fn put_back(data: &Path, old: &[u8]) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let failed = |e: std::io::Error| e.to_string();
    let file = fs::File::options().write(true).open(data.join("data")).map_err(failed)?;
    let mut segments = old.chunks(1 << 20).enumerate().skip(1).step_by(2);
    segments.try_for_each(|(at, bytes)| file.write_all_at(bytes, (at as u64) << 20).map_err(failed))
}
