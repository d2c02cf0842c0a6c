//! One schedule: lives of primaries, one after another and sometimes two at a time, with the workload and the model of the crash schedules, among
//! what goes wrong; then all is well, and everything is compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_log::Block;
use resurgam_page::{PageBuf, op};
use resurgam_pageserver::Partitions;
use resurgam_vfs::{FaultPlan, SimConfig, SimVfs, Vfs};
use resurgam_xlog::{LongTerm, Piece};

use crate::broken;
use crate::harness::Found;
use crate::harness::model::Model;
use crate::harness::rng::Rng;
use crate::harness::schedule::{self, ARCHIVE, BACKUPS, Beyond, Carried, DIR, Plan, World};
use crate::harness::sequences::Sequences;
use crate::harness::temporary::{PlantedInTemporary, Temporaries};
use crate::harness::troubles::{Besides, Troubles};
use crate::machine::Place;
use crate::pages::{Server, Service};
use crate::primary::{Zone, machine};
use crate::sim::{BAD, Event, MS, Met, Mistake, Node, Sim, ZONE_LOG};
use crate::xlog::{LONG_TERM, LogTier};

/// Steps that a primary makes that was believed to be dead and is not.
const LATE_STEPS: u64 = 40;
/// Pages of a partition.
const PARTITION_PAGES: u64 = 8;

/// A primary that is open.
struct Opened {
    p: usize,
    db: Database,
    zone: Arc<Zone>,
}

struct Primary {
    p: usize,
    zone: Arc<Zone>,
    world: World,
    steps: u64,
}

/// What explains the errors of one.
struct Around {
    sim: Arc<Sim>,
    p: usize,
}

impl Beyond for Around {
    fn explains(&self, error: &Error, what: &str) -> Option<bool> {
        let (sim, p) = (&self.sim, self.p);
        if sim.wrong().is_some() || !sim.is_alive(p) {
            return Some(true);
        }
        let is_overtaken = sim.is_overtaken(p);
        let state = sim.state.lock();
        let process = &state.processes[p];
        match error.kind() {
            ErrorKind::Stopped if is_overtaken || process.zone_failed => Some(true),
            // Its pages are another one's by now.
            ErrorKind::Io | ErrorKind::NotInPrerequisiteState if is_overtaken => Some(false),
            // Of two primaries one writes to the archive.
            ErrorKind::InUse if state.met.takeovers > 0 => Some(false),
            ErrorKind::Io if process.pages_failed || process.store_failed || process.zone_failed => Some(false),
            ErrorKind::DiskFull if state.met.full > 0 && what != "rollback" => Some(false),
            _ => None,
        }
    }
}

/// What all primaries of a schedule have in common.
struct Setup {
    options: Options,
    opened: Mutex<Option<Opened>>,
}

fn disk(rng: &mut Rng) -> SimVfs {
    let config = SimConfig { seed: rng.next(), sector_bytes: if rng.one_in(2) { 512 } else { 4096 } };
    let vfs = SimVfs::with_config(config);
    for folder in ["/disk2", "/disk3", "/disk4", "/disk8"] {
        let _ = vfs.make_folder(Path::new(folder));
    }
    vfs
}

/// Opens the database as process `p`.
fn open(sim: &Arc<Sim>, setup: &Setup, p: usize) -> Result<Opened> {
    let zone = Arc::new(Zone { sim: Arc::clone(sim), p, hold: Mutex::default() });
    let store =
        |place: &str| -> Result<StoreHandle> { Ok(StoreHandle(Arc::new(Place::store(sim, Node::Primary(p), place)?))) };
    let pages = Service { sim: Arc::clone(sim), p, cached: Arc::default() };
    let options = Options {
        log_dir: Some(ZONE_LOG.into()),
        log_zone: Some(LogZoneHandle(Arc::clone(&zone) as Arc<dyn LogZone>)),
        pages: Some(PageServiceHandle(Arc::new(pages))),
        archive_store: Some(store(ARCHIVE)?),
        backups_store: Some(store(BACKUPS)?),
        ..setup.options.clone()
    };
    let db = Database::open_with(machine(sim, p), Path::new(DIR), options, |_| {})?;
    Ok(Opened { p, db, zone })
}

/// Another primary, within a call of one that does nothing: opened, and put to work that needs no model.
fn start_within(sim: &Arc<Sim>, setup: &Setup) {
    if setup.opened.lock().is_some() {
        return;
    }
    let local = {
        let mut net = sim.net.lock();
        disk(&mut net.rng)
    };
    let p = sim.new_primary(local);
    {
        let mut state = sim.state.lock();
        state.met.takeovers += 1;
        state.met.new_machines += 1;
    }
    match open(sim, setup, p) {
        Ok(opened) => {
            for _ in 0..sim.below(6) {
                sim.pass_for(sim.below(40 * MS), Some(p));
                let outcome = match sim.below(4) {
                    0 => opened.db.checkpoint(),
                    1 => opened.db.write_back().map(drop),
                    2 => opened.db.clean().map(drop),
                    _ => opened.db.archive_now(),
                };
                sim.log(|| format!("primary {p}, opened within a call, works: {outcome:?}"));
                if !sim.is_alive(p) {
                    break;
                }
            }
            *setup.opened.lock() = Some(opened);
        }
        Err(error) => {
            sim.log(|| format!("primary {p} could not be opened within a call: {error}"));
            sim.kill_primary(p);
        }
    }
}

/// What all primaries of a schedule are opened with.
fn options_of(rng: &mut Rng) -> Options {
    let mut options = schedule::options(rng);
    options.archive = Some(ARCHIVE.into());
    options.backups = Some(BACKUPS.into());
    options.backup_part_bytes = 40_000;
    options.accelerated_database_recovery = true;
    options.version_store_path = None;
    options.page_repair = true;
    options.archive_records_per_page_max = [256, 5, 2, 12][rng.below(4) as usize];
    if rng.one_in(2) {
        (options.log_flights, options.log_flights_shuffled) = (2 + rng.below(3) as usize, rng.next() | 1);
    } else {
        options.log_flights = 1;
    }
    options
}

/// Where the machine dies that makes the database.
#[derive(Clone, Copy, Debug)]
pub enum Dies {
    /// At its so many-th call to the zone or a store.
    Afar(u64),
    /// At its so many-th change of its own disk.
    AtHome(u64),
}

const MADE: i64 = 20;

fn make(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx
        .create_table(TableSpec::new("public", "made").column("id", ColumnType::Int8).primary_key(&["id"]))?
        .done()?;
    (0..MADE).try_for_each(|id| tx.insert(&table, &[DatumRef::Int8(id)])?.done())?;
    tx.commit(Durability::Sync)?.wait()
}

fn made(db: &Database) -> Result<usize> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "made")?.ok_or_else(|| Error::internal("the table is gone"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut rows) = (RowBatch::default(), 0);
    while cursor.next_batch(&mut batch, 100)? {
        rows += batch.len();
        batch.clear();
    }
    Ok(rows)
}

/// A world in which nothing goes wrong but that the machine dies which makes the database. The next one, the same or an empty one (`same`), makes it, or
/// goes on with it, and one that is empty finds what was committed. False: the first one came to its end.
pub fn first_open_dies(seed: u64, dies: Dies, same: bool) -> Found<bool> {
    let mut rng = Rng::new(seed);
    let options = options_of(&mut rng);
    let sim = Sim::new(seed, Mistake::None, options.log_segment_bytes, false);
    begin(&sim, &mut rng)?;
    sim.heal();
    let setup = Setup { options, opened: Mutex::default() };
    let local = disk(&mut rng);
    match dies {
        Dies::AtHome(at) => local.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() }),
        Dies::Afar(at) => *sim.dies.lock() = Some((0, at)),
    }
    let first = sim.new_primary(local.clone());
    let outcome = open(&sim, &setup, first);
    let has_died = local.power_lost() || !sim.is_alive(first);
    *sim.dies.lock() = None;
    if let (Err(error), false) = (&outcome, has_died) {
        broken!("the first open: {error}");
    }
    sim.kill_primary(first);
    drop(outcome);
    let mut local = if same { sim.state.lock().processes[first].local.clone() } else { disk(&mut rng) };
    for round in 0..2 {
        let p = sim.new_primary(local);
        let opened = open(&sim, &setup, p).map_err(|error| format!("{dies:?}, open {round}: {error:?}"))?;
        let told = |e: Error| format!("{dies:?}, at work {round}: {e}");
        match round {
            0 => make(&opened.db).map_err(told)?,
            _ if made(&opened.db).map_err(told)? == MADE as usize => {}
            _ => broken!("{dies:?}: rows are missing"),
        }
        opened.db.close().map_err(told)?;
        sim.state.lock().processes[p].alive = false;
        local = disk(&mut rng);
    }
    compare(&sim)?;
    match sim.wrong() {
        Some(wrong) => Err(wrong),
        None => Ok(has_died),
    }
}

/// Runs one schedule. The error says what was broken.
pub fn run(seed: u64, mistake: Mistake, trace: bool) -> Found<Met> {
    let mut rng = Rng::new(seed);
    let mut options = options_of(&mut rng);
    let plan = Plan { besides: Besides::Nothing, page_server: true, trace, ..Plan::default() };
    let troubles = Troubles::of(seed, &plan, &mut options);
    let sim = Sim::new(seed, mistake, options.log_segment_bytes, trace);
    begin(&sim, &mut rng)?;
    let setup = Arc::new(Setup { options, opened: Mutex::default() });
    let starter = Arc::clone(&setup);
    let _ = sim.starter.set(Box::new(move |sim| start_within(sim, &starter)));
    let mut lives = Lives {
        carried: Some(Carried {
            met: schedule::Met::default(),
            serial: 1000,
            generation: 0,
            troubles,
            sequences: Sequences::new(seed, false),
            temporaries: Temporaries::new(0, false, PlantedInTemporary::None),
        }),
        serial: 1000,
        model: Model::new(),
        last: None,
        old: None,
        seed,
        sim: Arc::clone(&sim),
        setup: Arc::clone(&setup),
        rng,
        trace,
    };
    let outcome = lives.run();
    let wrong = sim.wrong();
    // Nothing refers to itself any more.
    drop(lives);
    *setup.opened.lock() = None;
    let mut state = sim.state.lock();
    let met = state.met;
    let (processes, xlogs, servers) =
        (std::mem::take(&mut state.processes), std::mem::take(&mut state.xlogs), std::mem::take(&mut state.servers));
    drop(state);
    drop((processes, xlogs, servers));
    match wrong {
        Some(wrong) => Err(wrong),
        None => outcome.map(|()| met),
    }
}

/// The tiers that are no primaries.
fn begin(sim: &Arc<Sim>, rng: &mut Rng) -> Found<()> {
    let told = |e: Error| e.to_string();
    sim.zone.make_folder(Path::new(crate::sim::ZONE)).map_err(told)?;
    for place in [ARCHIVE, BACKUPS, LONG_TERM] {
        sim.store.make_folder(Path::new(place)).map_err(told)?;
    }
    let all = Partitions::all();
    let part = |number| Partitions::new(PARTITION_PAGES, 2, &[number]).map_err(told);
    let filters = sim.mistake == Mistake::Drops;
    let partitions = match rng.below(4) {
        0 if !filters => vec![all],
        1 if !filters => vec![all.clone(), all],
        2 => vec![part(0)?, part(1)?],
        _ => vec![part(0)?, part(1)?, part(0)?, part(1)?],
    };
    {
        let mut state = sim.state.lock();
        for (number, partitions) in partitions.into_iter().enumerate() {
            state.servers.push(Server::new(rng.next(), partitions));
            sim.after(0, Event::StartServer(number));
        }
        for number in 0..1 + rng.below(2) as usize {
            state.xlogs.push(LogTier::new(rng.next()));
            sim.after(0, Event::StartXlog(number));
        }
    }
    sim.after(300 * MS, Event::Trouble);
    Ok(())
}

struct Lives {
    carried: Option<Carried>,
    serial: i64,
    model: Model,
    /// The disk of the machine that had the last life.
    last: Option<SimVfs>,
    /// One that was believed to be dead and is not.
    old: Option<Primary>,
    seed: u64,
    sim: Arc<Sim>,
    setup: Arc<Setup>,
    rng: Rng,
    trace: bool,
}

impl Lives {
    fn run(&mut self) -> Found<()> {
        let sim = Arc::clone(&self.sim);
        let mut current: Option<Primary> = None;
        while sim.now() < BAD && sim.wrong().is_none() {
            let Some(primary) = &mut current else {
                current = self.start()?;
                continue;
            };
            sim.pass_for(sim.below(8 * MS), None);
            if sim.is_takeover_due() && self.old.is_none() {
                // Somebody believes it to be dead.
                let mut state = sim.state.lock();
                (state.takeover, state.met.takeovers) = (None, state.met.takeovers + 1);
                drop(state);
                sim.log(|| format!("another primary is started beside primary {}", primary.p));
                self.model = primary.world.model.clone();
                self.old = current.take();
                continue;
            }
            self.step_old()?;
            primary.step(&sim)?;
            let is_over = primary.world.dead || !sim.is_alive(primary.p);
            if self.setup.opened.lock().is_some() && !is_over && self.old.is_none() {
                self.model = primary.world.model.clone();
                self.old = current.take();
            } else if is_over || self.setup.opened.lock().is_some() {
                if let Some(primary) = current.take() {
                    self.end(primary);
                }
            } else if self.rng.one_in(150) {
                self.close(&mut current)?;
            }
        }
        // All is well from here on.
        sim.heal();
        if let Some(old) = self.old.take() {
            sim.kill_primary(old.p);
        }
        if let Some(primary) = current.take() {
            self.end(primary);
        }
        // One that was opened within a call, and whose log may have stopped since: its operator starts another one.
        let opened = self.setup.opened.lock().take();
        let (stopped, sound): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|opened| sim.state.lock().processes[opened.p].zone_failed);
        for opened in stopped {
            sim.kill_primary(opened.p);
        }
        *self.setup.opened.lock() = sound.into_iter().next();
        let mut primary = loop {
            if sim.wrong().is_some() {
                return Ok(());
            }
            match self.start()? {
                Some(primary) if sim.is_overtaken(primary.p) => self.end(primary),
                Some(primary) => break primary,
                None => {}
            }
        };
        schedule::finish(&mut primary.world)?;
        primary.zone.settle();
        let p = primary.p;
        primary.world.forget_everyone();
        sim.state.lock().processes[p].alive = false;
        compare(&sim)
    }

    /// A primary, on the machine of the last one or an empty one; none: it did not get far.
    fn start(&mut self) -> Found<Option<Primary>> {
        let sim = &self.sim;
        let opened = self.setup.opened.lock().take();
        let opened = opened.filter(|opened| sim.is_alive(opened.p) && !sim.is_overtaken(opened.p));
        let opened = match opened {
            Some(opened) => opened,
            None => {
                sim.pass_for(sim.below(100 * MS), None);
                let local = match self.last.take().filter(|_| !self.rng.one_in(3)) {
                    Some(local) => local,
                    None => {
                        sim.state.lock().met.new_machines += 1;
                        disk(&mut self.rng)
                    }
                };
                let p = sim.new_primary(local);
                match open(sim, &self.setup, p) {
                    Ok(opened) => opened,
                    Err(error) => {
                        let around = Around { sim: Arc::clone(sim), p };
                        sim.log(|| format!("primary {p} could not be opened: {error}"));
                        if around.explains(&error, "open").is_none() && !sim.is_overtaken(p) {
                            broken!("open: {error:?}");
                        }
                        sim.kill_primary(p);
                        self.last = Some(sim.state.lock().processes[p].local.clone());
                        // It was not dead, and is now.
                        if let Some(old) = self.old.take() {
                            sim.kill_primary(old.p);
                        }
                        return Ok(None);
                    }
                }
            }
        };
        let Opened { p, db, zone } = opened;
        // One who is old keeps its own.
        let carried = match self.carried.take() {
            Some(carried) => carried,
            None => {
                let plan = Plan { besides: Besides::Nothing, page_server: true, ..Plan::default() };
                let troubles = Troubles::of(self.seed, &plan, &mut self.setup.options.clone());
                // Nor are names given twice.
                self.serial += 100_000;
                let (serial, met, generation) = (self.serial, schedule::Met::default(), self.serial as u64);
                let (sequences, temporaries) =
                    (Sequences::new(0, false), Temporaries::new(0, false, PlantedInTemporary::None));
                Carried { met, serial, generation, troubles, sequences, temporaries }
            }
        };
        let local = sim.state.lock().processes[p].local.clone();
        let mut world = World::new(db, local, self.model.clone(), carried, Rng::new(self.rng.next()));
        world.beyond = Some(Arc::new(Around { sim: Arc::clone(sim), p }));
        world.trace = self.trace;
        world.numbers = [8, 60, 400][self.rng.below(3) as usize];
        let is_adopted = world.adopt(self.rng.one_in(3))?;
        let primary = Primary { p, zone, world, steps: 0 };
        if !is_adopted || !sim.is_alive(p) {
            self.end(primary);
            return Ok(None);
        }
        Ok(Some(primary))
    }

    /// The one who was believed to be dead goes on for a while.
    fn step_old(&mut self) -> Found<()> {
        let Some(old) = &mut self.old else { return Ok(()) };
        let sim = &self.sim;
        old.steps += 1;
        let is_over = old.world.dead || !sim.is_alive(old.p) || old.steps > LATE_STEPS && !sim.is_paused(old.p);
        if is_over {
            let old = self.old.take();
            if let Some(old) = old {
                sim.kill_primary(old.p);
            }
            return Ok(());
        }
        if !sim.is_paused(old.p) && self.rng.one_in(2) {
            sim.log(|| format!("primary {}, which was believed to be dead, goes on", old.p));
            old.world.step()?;
            if sim.is_alive(old.p) && !old.world.dead {
                sim.look_at_suspect(old.p);
            }
        } else {
            old.steps -= u64::from(sim.is_paused(old.p));
        }
        Ok(())
    }

    /// A life is over.
    fn end(&mut self, primary: Primary) {
        let Primary { p, mut world, .. } = primary;
        self.sim.kill_primary(p);
        world.forget_everyone();
        self.last = Some(self.sim.state.lock().processes[p].local.clone());
        self.model = world.model.clone();
        self.carried = Some(world.carry());
    }

    /// In good order.
    fn close(&mut self, current: &mut Option<Primary>) -> Found<()> {
        let Some(mut primary) = current.take() else { return Ok(()) };
        self.sim.log(|| format!("primary {} is closed", primary.p));
        match primary.world.db.close() {
            Ok(()) => primary.world.model.durable(),
            Err(error) => primary.world.judge_any(error, "close")?,
        }
        self.end(primary);
        Ok(())
    }
}

impl Primary {
    fn step(&mut self, sim: &Arc<Sim>) -> Found<()> {
        if sim.is_paused(self.p) {
            return Ok(());
        }
        self.zone.settle();
        self.world.step()?;
        if sim.is_alive(self.p) && !self.world.dead {
            sim.look_at_suspect(self.p);
        }
        Ok(())
    }
}

/// At last: everybody has everything, and every page is what redo makes of the log.
fn compare(sim: &Arc<Sim>) -> Found<()> {
    let (end, count) = {
        let state = sim.state.lock();
        let Some(line) = state.history.newest() else { broken!("there is no log") };
        if line.hardened != line.end() {
            broken!("the log ends at {}, and is acknowledged to {}", line.end(), line.hardened);
        }
        (line.end(), line.blocks())
    };
    let is_over = |sim: &Sim| {
        let state = sim.state.lock();
        // Also one that was started after the primary had said its last word (docs/xlog.md).
        let xlogs = state.xlogs.iter().all(|xlog| xlog.positions() == Some((end, end)));
        let at_end = |server: &Server| server.pages().is_some_and(|pages| pages.position() == end);
        xlogs && state.servers.iter().all(at_end)
    };
    sim.pass(sim.now() + 8000 * MS, None, &mut |sim| is_over(sim));
    if let Some(wrong) = sim.wrong() {
        return Err(wrong);
    }
    let mut state = sim.state.lock();
    let positions: Vec<_> = state.xlogs.iter().map(LogTier::positions).collect();
    let servers: Vec<_> = state.servers.iter().map(|server| server.pages().map(|pages| pages.position())).collect();
    if positions.iter().any(|at| *at != Some((end, end))) || servers.iter().any(|at| *at != Some(end)) {
        broken!("the log ends at {end}; log services are at {positions:?}, page servers at {servers:?}");
    }
    for x in 0..state.xlogs.len() {
        sim.count(&mut state, x);
    }
    let Some((database, first)) = state.database else { broken!("there is no database") };
    let pieces = whole_log(sim, database, first)?;
    let mut made: BTreeMap<PageId, PageBuf> = BTreeMap::new();
    if pieces.len() != count {
        broken!("the long-term log has {} blocks, and there are {count}", pieces.len());
    }
    for piece in &pieces {
        state.history.check(piece.lsn, piece.next, piece.epoch).map_err(|what| format!("the long-term log: {what}"))?;
        let block = Block::parse(&piece.bytes, piece.lsn, sim.segment_bytes).map_err(|e| e.to_string())?;
        for record in block.records().filter(|record| record.header.page.is_some() && record.header.kind.is_of_page()) {
            let page = made.entry(record.header.page).or_insert_with(PageBuf::zeroed);
            if anew(record.body) {
                page.as_bytes_mut().fill(0);
            } else if page.lsn() != record.header.prev_page {
                broken!("the record at {} does not follow the last one of page {}", record.lsn, record.header.page);
            }
            op::apply(page, record.header.page, record.body, record.lsn).map_err(|e| e.to_string())?;
        }
    }
    let (mut buf, mut compared) = (PageBuf::zeroed(), 0);
    for (s, server) in state.servers.iter().enumerate() {
        let Some(pages) = server.pages() else { continue };
        for (id, page) in made.iter_mut().filter(|(id, _)| server.partitions.covers(**id)) {
            page.seal();
            if let Err(error) = pages.get_page(*id, Lsn::NONE, std::time::Duration::ZERO, &mut buf) {
                broken!("page server {s}, page {id} at last: {error}");
            }
            if buf.as_bytes() != page.as_bytes() {
                broken!(
                    "page {id} of page server {s} is as of {}, redo of the log makes it as of {}",
                    buf.lsn(),
                    page.lsn()
                );
            }
            compared += 1;
        }
    }
    state.met.compared += compared;
    Ok(())
}

/// Whether a record makes its page anew.
fn anew(body: &[u8]) -> bool {
    use resurgam_page::op::PageOp;
    matches!(op::decode(body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image(_))))
}

/// All blocks from `first` on, as the long-term log has them.
fn whole_log(sim: &Arc<Sim>, database: [u8; 16], first: Lsn) -> Found<Vec<Arc<Piece>>> {
    let told = |e: Error| format!("the long-term log at last: {e}");
    let store = Place::store(sim, Node::Store, LONG_TERM).map_err(told)?;
    let (log, _) = LongTerm::open(Arc::new(store), database, sim.segment_bytes).map_err(told)?;
    let (mut at, mut all) = (first, Vec::new());
    while let Some((pieces, end)) = log.read(at).map_err(told)? {
        all.extend(pieces);
        at = end;
    }
    Ok(all)
}
