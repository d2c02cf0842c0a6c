//! The tiers measured (*Socrates*, tables 2 to 7, figure 4): primary, log service and page server, each a process, beside the
//! one-process server with the same data and memory.
//!
//! Both have the same rows, an archive, and take turns; who begins changes from round to round, and medians are reported. After
//! each run the sums over the tables are compared with what the clients have committed: a wrong database is no measurement.
//! The server that is measured has one core for itself where `taskset` is there; everything else, the clients and the other
//! parts, share another one.
//!
//! | file | concept |
//! |---|---|
//! | `roles.rs`, `link.rs` | the parts as processes; a network with a round trip between them |
//! | `standbys.rs` | PostgreSQL with two synchronous standbys, beside them |
//! | `workload.rs` | six tables, nine transactions, mixes of them |
//! | `views.rs` | what the primary says of itself |
//! | `runs.rs` | one run: rate, latencies, processor time, positions |
//! | `pages.rs` | what a page from the page server costs |
//! | `starts.rs` | first answers after a kill |
//! | `warmth.rs` | how soon a primary is as fast as before a kill, with its page cache and without |
//! | `report.rs` | tables, goals, plots |

pub mod link;
mod pages;
mod report;
pub(crate) mod roles;
mod runs;
mod standbys;
mod starts;
mod views;
mod warmth;
mod workload;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use self::pages::Pages;
use self::roles::{Tiers, pin};
use self::runs::{Length, Run, Side};
use self::standbys::Standbys;
use self::starts::PrimaryStart;
use self::warmth::Restart;
use self::workload::{Cdb, Profile};
use crate::mix::{Mix, Terminal, check, check_the_check, load};
use crate::report::median;
use crate::servers::{Kind, Server, Work, kinds};
use crate::setup::{Setup, bytes_of};
use crate::{Common, Result};

/// Of the cached data a quarter is in memory, as in the paper; the rest in the page cache.
const IN_MEMORY: f64 = 0.25;
/// Less memory than this a server does not take.
const MEMORY_MIN_MB: u64 = 8;
/// While the tables are filled.
const LOADING_MB: u64 = 256;
/// Share of the data that is cached, in tables 2, 3 and 4.
const CACHED: f64 = 0.15;
const CACHED_SKEWED: f64 = 0.01;
/// Keys of each scaled table that commits are measured on: their pages are in memory.
const COMMIT_KEYS: i64 = 2000;
/// Warm-up and run of wide rows, each.
const WIDE_MAX: Duration = Duration::from_secs(5);
/// A page server that lags for longer has hung.
const FOLLOW_MAX: Duration = Duration::from_secs(600);
/// The core of the server that is measured, and that of all others.
const CORES: [&str; 2] = ["0", "1"];
/// What a process is started with has it from here; a start is measured with both.
const BOTH: &str = "0,1";

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Data in gigabytes, about
    #[arg(long, default_value_t = 1.0)]
    gb: f64,
    /// Clients at one time, where their number is not what is measured
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Clients of the runs that measure commits
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    commit_clients: Vec<usize>,
    /// Length of a run, in seconds, and seconds before it that are not counted
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Rounds, in each of which both run once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Reads a second of rows whose pages the page server has to give
    #[arg(long, default_value_t = 5000.0)]
    page_rate: f64,
    /// A round trip between the parts that is added, in milliseconds
    #[arg(long, default_value_t = 0.0)]
    round_trip_ms: f64,
    /// Bind no process to a core
    #[arg(long)]
    no_pin: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure these parts only, and not for the record
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Little data and short runs, in about a minute: to see that everything works, not for the record
    #[arg(long)]
    quick: bool,
}

/// A part of what is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Throughput,
    Restarts,
    Log,
    Starts,
    Commits,
    Skewed,
    Pages,
}

impl Options {
    fn sized(&self) -> Self {
        let (common, commit_clients, only) = (self.common.clone(), self.commit_clients.clone(), self.only.clone());
        let mut sized = Self { common, commit_clients, only, ..*self };
        if self.quick {
            (sized.gb, sized.seconds, sized.warm_up, sized.rounds) = (0.1, 1.5, 0.5, 1);
            sized.commit_clients = vec![1, 4];
            (sized.clients, sized.page_rate) = (4, 500.0);
        }
        sized.common.buffer_mb = LOADING_MB;
        sized
    }

    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn length(&self) -> Length {
        Length {
            warm_up: Duration::from_secs_f64(self.warm_up.max(0.0)),
            counted: Duration::from_secs_f64(self.seconds.max(0.1)),
        }
    }

    fn most_clients(&self) -> usize {
        self.commit_clients.iter().copied().chain([self.clients, 1]).max().unwrap_or(1)
    }
}

/// Both runs of each round: one process, and the tiers.
#[derive(Default)]
struct Beside {
    one: Vec<Run>,
    tiers: Vec<Run>,
}

/// How much of the data the primary had.
#[derive(Clone, Copy, Default)]
struct Cached {
    memory_mb: u64,
    cache_mb: u64,
}

/// All that was measured.
#[derive(Default)]
struct Found {
    data_mb: f64,
    pinned: bool,
    /// Megabytes a second of log and seconds, of loading by COPY into the tiers.
    loading: Option<(f64, f64)>,
    throughput: Beside,
    standbys: Vec<Run>,
    cached: Cached,
    /// Reads of single rows alone, of both kinds of keys.
    uniform_reads: Option<Run>,
    skewed: Option<(Cached, Run, Run)>,
    restarts: Vec<Restart>,
    log: Vec<Run>,
    /// The same by one process.
    log_of_one: Vec<Run>,
    wide: Option<Run>,
    /// By number of clients.
    commits: Vec<(usize, Beside)>,
    sync_us: Vec<f64>,
    pages: Option<Pages>,
    primary_starts: Vec<PrimaryStart>,
    one_starts: Vec<f64>,
    page_server_starts: Vec<Option<f64>>,
}

/// Both contenders, and what their clients have committed.
struct Arena<'a> {
    options: &'a Options,
    mix: Cdb,
    one: Server,
    tiers: Tiers,
    standbys: Option<Standbys>,
    one_clients: Vec<Box<dyn Terminal>>,
    tiers_clients: Vec<Box<dyn Terminal>>,
    standbys_clients: Vec<Box<dyn Terminal>>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let options = &options.sized();
    let work = Work::new(&options.common)?;
    let mut setup = Setup::here(work.path());
    let mut found = Found::default();
    let mut arena = arena(options, work.path(), &mut found)?;
    (found.cached, found.pinned) = arena.resize(CACHED, &found)?;
    if options.has(Part::Throughput) {
        arena.throughput(work.path(), &mut found)?;
    }
    setup.saw(&arena.one);
    setup.saw(&arena.tiers.primary);
    if let Some(standbys) = arena.standbys.take() {
        setup.saw(&standbys.primary);
    }
    let parts = arena.tiers.settings();
    if options.has(Part::Restarts) {
        arena.restarts(&mut found)?;
    }
    if options.has(Part::Log) {
        arena.log(&mut found)?;
    }
    if options.has(Part::Starts) {
        arena.starts(&mut found)?;
    }
    if options.has(Part::Commits) {
        arena.commits(work.path(), &mut found)?;
    }
    if options.has(Part::Skewed) {
        arena.skewed(&mut found)?;
    }
    if options.has(Part::Pages) {
        arena.pages(&mut found)?;
    }
    let complaints = arena.tiers.complaints();
    if !complaints.is_empty() {
        return Err(format!("the parts said:\n{}", complaints.join("\n")));
    }
    report::write(options, &arena.mix, &(setup.text() + &parts), &found)
}

/// Makes and loads both.
fn arena<'a>(options: &'a Options, work: &Path, found: &mut Found) -> Result<Arena<'a>> {
    let mix = Cdb::new(options.gb, options.seed);
    let folder = work.join("one");
    std::fs::create_dir_all(&folder).map_err(|e| format!("could not make \"{}\": {e}", folder.display()))?;
    let flags = ["archive", "backups"].map(|name| format!("--{name}={}", folder.join(name).display()));
    let one = Server::create_with(Kind::Resurgam, &options.common, &folder, &flags)?;
    let round_trip = Duration::from_secs_f64(options.round_trip_ms.max(0.0) / 1e3);
    let tiers = Tiers::create(&options.common, &work.join("tiers"), round_trip)?;
    eprintln!("loading one process");
    load(&mix, &one)?;
    found.data_mb = bytes_of(&one.dir.join("data")) as f64 / 1e6;
    eprintln!("loading the tiers");
    let mut client = tiers.primary.client()?;
    let (before, begun) = (views::Look::at(&mut client)?, Instant::now());
    load(&mix, &tiers.primary)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = views::Look::at(&mut client)?;
    found.loading = Some(((after.log_end - before.log_end) / 1e6 / seconds, seconds));
    let most = options.most_clients();
    let [one_clients, tiers_clients, standbys_clients] = [(); 3].map(|()| mix.terminals(most, options.seed));
    let standbys = match kinds(&options.common)?.contains(&Kind::Postgres) {
        true => {
            eprintln!("loading PostgreSQL");
            let standbys = Standbys::create(&options.common, &work.join("standbys"))?;
            load(&mix, &standbys.primary)?;
            Some(standbys)
        }
        false => None,
    };
    let arena = Arena { options, mix, one, tiers, standbys, one_clients, tiers_clients, standbys_clients };
    check_the_check(&arena.mix, &arena.tiers.primary, &arena.tiers_clients)?;
    arena.followed()?;
    Ok(arena)
}

impl Arena<'_> {
    /// Waits until the page server has applied the log.
    fn followed(&self) -> Result<()> {
        let (mut client, begun) = (self.tiers.primary.client()?, Instant::now());
        while views::Look::at(&mut client)?.lag > 0.0 {
            if begun.elapsed() > FOLLOW_MAX {
                return Err("the page server does not come to the end of the log".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Binds the servers that are measured to the first core and all others to the second; whether it could be done.
    fn pin(&self) -> bool {
        if self.options.no_pin {
            return false;
        }
        let [own, others] = CORES;
        let measured = [self.one.process(), self.tiers.primary.process()].map(|id| pin(id, own));
        let parts = [self.tiers.log_service.process(), self.tiers.page_server.process(), Some(std::process::id())];
        let others = parts.map(|id| pin(id, others));
        measured.into_iter().chain(others).all(|done| done)
    }

    /// Starts both with caches for a part of the data.
    fn resize(&mut self, share: f64, found: &Found) -> Result<(Cached, bool)> {
        let cached_mb = found.data_mb * share;
        let memory_mb = ((cached_mb * IN_MEMORY) as u64).max(MEMORY_MIN_MB);
        let cache_mb = (cached_mb as u64).saturating_sub(memory_mb);
        self.one.stop()?;
        self.one.set_buffer_mb(memory_mb);
        self.one.start()?;
        self.tiers.resize(memory_mb, cache_mb)?;
        Ok((Cached { memory_mb, cache_mb }, self.pin()))
    }

    fn one_run(&mut self, clients: usize) -> Result<Run> {
        runs::run(&Side::One(&self.one), &self.mix, &mut self.one_clients, clients, self.options.length())
    }

    fn tiers_run(&mut self, clients: usize) -> Result<Run> {
        self.run_of_tiers(clients, self.options.length())
    }

    fn run_of_tiers(&mut self, clients: usize, length: Length) -> Result<Run> {
        let run = runs::run(&Side::Tiers(&self.tiers), &self.mix, &mut self.tiers_clients, clients, length)?;
        self.followed()?;
        Ok(run)
    }

    /// None: PostgreSQL is not measured.
    fn standbys_run(&mut self, clients: usize) -> Result<Option<Run>> {
        let Some(standbys) = &self.standbys else { return Ok(None) };
        let side = Side::Standbys(standbys);
        runs::run(&side, &self.mix, &mut self.standbys_clients, clients, self.options.length()).map(Some)
    }

    /// Both, one after the other; who begins alternates.
    fn beside(&mut self, round: usize, clients: usize, into: &mut Beside) -> Result<()> {
        for turn in [round, round + 1] {
            match turn % 2 {
                0 => into.one.push(self.one_run(clients)?),
                _ => into.tiers.push(self.tiers_run(clients)?),
            }
        }
        Ok(())
    }

    /// Tables 2 and 3.
    fn throughput(&mut self, work: &Path, found: &mut Found) -> Result<()> {
        let clients = self.options.clients;
        let cores = (!self.options.no_pin).then_some(CORES);
        if let Some(standbys) = &mut self.standbys {
            // It has no page cache: all of the share is its memory.
            let memory_mb = found.cached.memory_mb + found.cached.cache_mb;
            standbys.resize(&self.options.common, &work.join("standbys"), memory_mb, cores)?;
        }
        self.mix.play(Profile::Default, false, 0);
        // Caches are empty after the start: these runs fill them, and do not count.
        self.one_run(clients)?;
        self.tiers_run(clients)?;
        self.standbys_run(clients)?;
        for round in 0..self.options.rounds {
            eprintln!("default mix, round {}", round + 1);
            if round % 2 == 1 {
                found.standbys.extend(self.standbys_run(clients)?);
            }
            self.beside(round, clients, &mut found.throughput)?;
            if round % 2 == 0 {
                found.standbys.extend(self.standbys_run(clients)?);
            }
        }
        self.mix.play(Profile::ReadLite, false, 0);
        found.uniform_reads = Some(self.tiers_run(clients)?);
        Ok(())
    }

    /// Restarts with what the page cache has, and without.
    fn restarts(&mut self, found: &mut Found) -> Result<()> {
        // Of uniform keys a small cache has so few that it is not missed.
        self.mix.play(Profile::Default, true, 0);
        self.tiers_run(self.options.clients)?;
        let (clients, pinned) = (self.options.clients, !self.options.no_pin);
        let time = self.options.length();
        let time = (time.warm_up + time.counted) * 2;
        for round in 0..self.options.rounds {
            for turn in [round, round + 1] {
                eprintln!("restarts, round {}", round + 1);
                let before = self.tiers_run(clients)?.rate();
                let pin = |tiers: &Tiers| {
                    if pinned {
                        pin(tiers.primary.process(), CORES[0]);
                    }
                };
                let work = ((clients, before), (turn % 2 == 0, time));
                let restart =
                    warmth::restart(&mut self.tiers, &self.mix, &mut self.tiers_clients, work.0, work.1, pin)?;
                found.restarts.push(restart);
                self.followed()?;
            }
        }
        Ok(())
    }

    /// Table 5.
    fn log(&mut self, found: &mut Found) -> Result<()> {
        self.mix.play(Profile::UpdateHeavy, false, 0);
        for round in 0..self.options.rounds {
            eprintln!("log, round {}", round + 1);
            let run = self.tiers_run(self.options.clients)?;
            found.log.push(run);
            found.log_of_one.push(self.one_run(self.options.clients)?);
        }
        // Once, and not for long: these rows stay.
        self.mix.play(Profile::InsertWide, false, 0);
        let whole = self.options.length();
        let length = Length { warm_up: whole.warm_up.min(WIDE_MAX), counted: whole.counted.min(WIDE_MAX) };
        found.wide = Some(self.run_of_tiers(self.options.clients, length)?);
        Ok(())
    }

    /// First answers after kills.
    fn starts(&mut self, found: &mut Found) -> Result<()> {
        let mut rng = SmallRng::seed_from_u64(self.options.seed);
        if !self.options.no_pin {
            pin(Some(std::process::id()), BOTH);
        }
        for round in 0..self.options.rounds {
            eprintln!("kills, round {}", round + 1);
            found.primary_starts.push(starts::primary(&mut self.tiers, &self.mix, &self.tiers_clients, &mut rng)?);
            self.one.kill();
            let begun = Instant::now();
            self.one.start()?;
            self.one
                .client()?
                .query("select n from scaled_b where id = 7")?
                .ok_or("a row is not there after the kill")?;
            found.one_starts.push(begun.elapsed().as_secs_f64());
            check(&self.mix, &self.one, &self.one_clients)?;
            let again = starts::page_server(&mut self.tiers, &self.mix, &self.tiers_clients, &mut rng)?;
            found.page_server_starts.push(again);
        }
        self.pin();
        Ok(())
    }

    /// Tables 6 and 7, figure 4.
    fn commits(&mut self, work: &Path, found: &mut Found) -> Result<()> {
        self.mix.play(Profile::UpdateLite, false, COMMIT_KEYS);
        found.commits = self.options.commit_clients.iter().map(|count| (*count, Beside::default())).collect();
        for round in 0..self.options.rounds {
            for (clients, beside) in &mut found.commits {
                eprintln!("commits of {clients} clients, round {}", round + 1);
                found.sync_us.extend(sync_us(work));
                self.beside(round, *clients, beside)?;
            }
        }
        Ok(())
    }

    /// Table 4.
    fn skewed(&mut self, found: &mut Found) -> Result<()> {
        eprintln!("skewed keys");
        let (cached, _) = self.resize(CACHED_SKEWED, found)?;
        self.mix.play(Profile::Default, true, 0);
        self.tiers_run(self.options.clients)?;
        let run = self.tiers_run(self.options.clients)?;
        self.mix.play(Profile::ReadLite, true, 0);
        let reads = self.tiers_run(self.options.clients)?;
        found.skewed = Some((cached, run, reads));
        Ok(())
    }

    /// What a page costs.
    fn pages(&mut self, found: &mut Found) -> Result<()> {
        eprintln!("pages");
        self.tiers.resize(MEMORY_MIN_MB, 0)?;
        self.pin();
        let (clients, rate) = (self.options.clients, self.options.page_rate);
        let time = Duration::from_secs_f64(self.options.seconds);
        found.pages = Some(pages::measure(&self.tiers, &self.mix, &mut self.tiers_clients, clients, rate, time)?);
        Ok(())
    }
}

/// Medians of appends of a page to a file beside the servers' own, each made durable, in microseconds: what a commit cannot be
/// faster than.
fn sync_us(work: &Path) -> Option<f64> {
    let path = work.join("sync-probe");
    let mut file = File::create(&path).ok()?;
    let mut times = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        file.write_all(&[7; 4096]).ok()?;
        file.sync_data().ok()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let _ = std::fs::remove_file(path);
    Some(median(&times))
}
