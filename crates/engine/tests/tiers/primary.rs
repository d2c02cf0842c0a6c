//! A primary's process: its lease, its blocks on their way to the landing zone and to the log services, its death.
//!
//! The engine takes the log with the real [`Holder`]; what stands between its files and who waits for them is [`Sink`], which sends blocks to the log
//! services before they are synced, and looks at the lease after they are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_log::LogReader;
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xlog::{Clock, Holder, HolderConfig, Kept, ProcessId, StoreControl};

use crate::history::pages_of;
use crate::machine::{Machine, Place, Undo};
use crate::pages::Given;
use crate::sim::{Event, LEASE, MS, Micros, Mistake, Node, Said, Sim, ZONE_LOG};

/// Longest wait for the log, of a primary that is started while another one has it.
const WAIT: Micros = 1500 * MS;

/// What others know of it.
pub struct Process {
    pub alive: bool,
    pub paused_until: Micros,
    pub holder: Option<Arc<Holder>>,
    pub epoch: u32,
    pub start: Lsn,
    pub hardened: Lsn,
    pub destaged: Lsn,
    /// Its disk.
    pub local: SimVfs,
    /// Something that it needs could not be reached, in its life.
    pub zone_failed: bool,
    pub store_failed: bool,
    pub pages_failed: bool,
    /// What it has written to the zone and not synced: how it was before.
    pub unsynced: Vec<Undo>,
    /// A page that has come and is of the history of another one who has taken the log: it must not be used.
    pub suspect: Option<String>,
    /// Its log, once that is open.
    pub log: Weak<Log>,
    pub asked: u64,
    pub answers: BTreeMap<u64, Arc<Given>>,
}

impl Sim {
    /// A process on a machine with this disk.
    pub fn new_primary(self: &Arc<Self>, local: SimVfs) -> usize {
        let mut state = self.state.lock();
        state.met.lives += 1;
        state.processes.push(Process {
            alive: true,
            paused_until: 0,
            holder: None,
            epoch: 0,
            start: Lsn::NONE,
            hardened: Lsn::NONE,
            destaged: Lsn::NONE,
            local,
            zone_failed: false,
            store_failed: false,
            pages_failed: false,
            unsynced: Vec::new(),
            suspect: None,
            log: Weak::new(),
            asked: 0,
            answers: BTreeMap::new(),
        });
        state.processes.len() - 1
    }

    pub fn is_alive(&self, p: usize) -> bool {
        self.state.lock().processes[p].alive
    }

    /// Whether a primary has lost the log to another one.
    pub fn is_overtaken(&self, p: usize) -> bool {
        let state = self.state.lock();
        let epoch = state.processes[p].epoch;
        epoch > 0 && state.processes.iter().any(|process| process.epoch > epoch)
    }

    /// A page of another history that came to a primary, and was used.
    pub fn look_at_suspect(&self, p: usize) {
        let suspect = self.state.lock().processes[p].suspect.take();
        if let Some(what) = suspect {
            self.fail(what);
        }
    }

    pub fn is_paused(&self, p: usize) -> bool {
        self.state.lock().processes[p].paused_until > self.now()
    }

    /// It dies, or its machine does.
    pub fn kill_primary(&self, p: usize) {
        let power = self.one_in(2);
        let mut state = self.state.lock();
        let process = &mut state.processes[p];
        if !process.alive {
            return;
        }
        let power = power || process.local.power_lost();
        process.alive = false;
        process.holder = None;
        process.local = if power { process.local.crash() } else { process.local.kill() };
        let unsynced = std::mem::take(&mut process.unsynced);
        state.met.kills += 1;
        drop(state);
        self.log(|| format!("primary {p} is killed, power lost: {power}"));
        if power {
            for undo in unsynced.into_iter().rev() {
                undo.lose(self);
            }
        }
    }

    /// A call of a primary to what all reach: its machine dies before that, if it is to.
    pub fn is_called(&self, p: usize) {
        let is_due = |(of, left): &mut (usize, u64)| {
            *left -= u64::from(*of == p);
            *left == 0
        };
        if self.dies.lock().take_if(is_due).is_some() {
            self.kill_primary(p);
        }
    }

    pub fn handle_primary(self: &Arc<Self>, event: Event) {
        match event {
            Event::Renew(p) => {
                let Some(holder) = self.holder(p) else { return };
                self.after(LEASE.as_micros() as u64 / 4, Event::Renew(p));
                let _ = holder.renew();
            }
            Event::Say(p) if self.holder(p).is_some() => {
                self.after(40 * MS, Event::Say(p));
                self.disseminate(p, Vec::new());
            }
            Event::Told { to, destaged } => {
                let mut state = self.state.lock();
                let process = &mut state.processes[to];
                process.destaged = process.destaged.max(destaged);
            }
            Event::Page { to, id, given } => {
                let mut state = self.state.lock();
                let process = &mut state.processes[to];
                if process.asked == id {
                    process.answers.insert(id, given);
                }
            }
            _ => {}
        }
    }

    fn holder(&self, p: usize) -> Option<Arc<Holder>> {
        self.state.lock().processes[p].holder.clone()
    }

    /// Blocks and what is hardened, to all log services.
    fn disseminate(&self, p: usize, blocks: Vec<(Lsn, Vec<u8>)>) {
        let (said, xlogs) = {
            let state = self.state.lock();
            let process = &state.processes[p];
            let Process { epoch, start, hardened, .. } = *process;
            (Arc::new(Said { epoch, start, hardened, blocks }), state.xlogs.len())
        };
        for to in 0..xlogs {
            let event = Event::Disseminate { to, from: p, said: Arc::clone(&said) };
            self.send(Node::Primary(p), Node::Xlog(to), event);
        }
    }
}

/// The landing zone, as one primary opens it.
pub struct Zone {
    pub sim: Arc<Sim>,
    pub p: usize,
    /// The hold of the log, for what is not destaged; given up below that by who runs the primary.
    pub hold: Mutex<Option<LogHold>>,
}

impl Zone {
    fn holder(&self) -> Result<Arc<Holder>> {
        let gone = || Error::new(ErrorKind::Stopped, "the landing zone was not taken, or the process is dead");
        self.sim.holder(self.p).ok_or_else(gone)
    }

    /// What is destaged need not be held any more.
    pub fn settle(&self) {
        let destaged = self.sim.state.lock().processes[self.p].destaged;
        if let Some(hold) = &*self.hold.lock() {
            hold.advance(destaged);
        }
    }
}

fn control(sim: &Arc<Sim>, p: usize) -> Result<StoreControl> {
    Ok(StoreControl::new(Arc::new(Place::zone(sim, Node::Primary(p))?), "control/"))
}

impl LogZone for Zone {
    fn take(&self, vfs: &Arc<dyn Vfs>, epoch_above: u32) -> Result<ZoneTaken> {
        let (sim, p) = (&self.sim, self.p);
        let clock: Clock = {
            let sim = Arc::clone(sim);
            Arc::new(move || sim.time())
        };
        let config = || HolderConfig {
            lease: LEASE,
            clock: Arc::clone(&clock),
            stamp: vfs.random_u64(),
            me: ProcessId { boot: "simulated".into(), pid: p as u32, started: 0 },
            epoch_above,
        };
        let control = Arc::new(control(sim, p)?);
        let begun = sim.now();
        let holder = loop {
            let mut wait = |_: &resurgam_xlog::Record, left: std::time::Duration| {
                sim.pass_for((left.as_micros() as u64).clamp(1, 30 * MS), Some(p));
                // Who has the log goes on to have it.
                let gives_up = sim.now() > begun + WAIT;
                sim.state.lock().processes[p].zone_failed |= gives_up;
                !gives_up && sim.is_alive(p) && sim.wrong().is_none()
            };
            match Holder::take(Arc::clone(&control) as Arc<dyn resurgam_xlog::Control>, config(), &mut wait) {
                // The zone is out of reach: an operator would start it again.
                Err(error) if error.kind() == ErrorKind::Io && sim.is_alive(p) && sim.wrong().is_none() => {
                    sim.pass_for(20 * MS, Some(p));
                }
                taken => break Arc::new(taken?),
            }
        };
        let (epoch, kept) = (holder.epoch(), holder.kept());
        {
            let mut state = sim.state.lock();
            let process = &mut state.processes[p];
            (process.holder, process.epoch) = (Some(holder), epoch);
        }
        sim.log(|| format!("primary {p} has the log, under epoch {epoch}"));
        sim.after(LEASE.as_micros() as u64 / 4, Event::Renew(p));
        let of = kept.map(|kept| {
            let Kept { database, checkpoint, epoch, segment_bytes, clean, traditional } = kept;
            (database, Control { checkpoint, epoch, segment_bytes, clean, traditional })
        });
        Ok(ZoneTaken { epoch, of })
    }

    fn keep(&self, database: [u8; 16], control: &Control) -> Result<()> {
        let Control { checkpoint, epoch, segment_bytes, clean, traditional } = *control;
        self.holder()?.keep(Kept { database, checkpoint, epoch, segment_bytes, clean, traditional })
    }

    fn attach(&self, database: [u8; 16], log: &Arc<Log>) -> Result<Arc<dyn LogSink>> {
        let (sim, p) = (&self.sim, self.p);
        let epoch = self.holder()?.epoch();
        let start = log.flushed_lsn();
        let found = {
            let mut state = sim.state.lock();
            state.database = Some((database, log.config().first_lsn()));
            let process = &mut state.processes[p];
            (process.start, process.hardened, process.log) = (start, start, Arc::downgrade(log));
            match state.history.begin(epoch, start) {
                Ok(known) => known,
                Err(what) => {
                    sim.fail(what);
                    return Err(Error::new(ErrorKind::Stopped, "a promise was broken"));
                }
            }
        };
        let from = if found.is_none() { log.config().first_lsn() } else { found };
        // As it is now: what its files have is no message.
        let mut reader =
            LogReader::open(Arc::new(sim.zone.clone()), Path::new(ZONE_LOG), log.config().segment_bytes, from, 0)?;
        while let Some(block) = reader.next_whole_block()? {
            if block.next() > start {
                break;
            }
            let known = (block.lsn(), block.next(), block.header().epoch);
            if found.is_some() && !sim.is_overtaken(p) {
                sim.fail(format!(
                    "epoch {epoch} begins at {start}, and nobody was seen to write the block at {}",
                    known.0
                ));
            }
            sim.state.lock().history.found(epoch, known, pages_of(block.records()));
        }
        *self.hold.lock() = Some(log.hold("the log service, which has not destaged it", log.oldest_lsn())?);
        sim.after(0, Event::Say(p));
        Ok(Arc::new(Sink { sim: Arc::clone(sim), p, epoch }))
    }

    fn check(&self) -> Result<()> {
        if self.sim.mistake == Mistake::NotFenced {
            return Ok(());
        }
        let outcome = self.holder()?.check();
        let mut state = self.sim.state.lock();
        let process = &mut state.processes[self.p];
        if outcome.is_err() {
            process.suspect = None;
            process.zone_failed = true;
        }
        outcome
    }

    fn release(&self) {
        if let Ok(holder) = self.holder() {
            let _ = holder.release();
        }
        self.sim.state.lock().processes[self.p].holder = None;
    }

    fn status(&self) -> Option<LogServiceStatus> {
        None
    }
}

struct Sink {
    sim: Arc<Sim>,
    p: usize,
    epoch: u32,
}

impl LogSink for Sink {
    fn writing(&self, blocks: &[LogBlock]) {
        let (sim, p) = (&self.sim, self.p);
        if !sim.is_alive(p) {
            return;
        }
        let mut sent = Vec::new();
        {
            let mut state = sim.state.lock();
            for block in blocks {
                let pages = pages_of(block.block().records());
                state.history.writes(self.epoch, block.lsn(), block.next(), pages);
                let mut bytes = Vec::new();
                block.put_bytes(&mut bytes);
                sent.push((block.lsn(), bytes));
            }
        }
        for block in sent {
            sim.disseminate(p, vec![block]);
        }
    }

    fn durable(&self, upto: Lsn) -> Result<()> {
        let (sim, p) = (&self.sim, self.p);
        if sim.mistake != Mistake::OldPrimaryAcknowledges {
            let checked = sim.holder(p).ok_or_else(|| Error::new(ErrorKind::Stopped, "the process is dead"));
            if let Err(error) = checked.and_then(|holder| holder.check()) {
                sim.log(|| format!("primary {p} may not acknowledge {upto}: {error}"));
                let mut state = sim.state.lock();
                state.met.refused += 1;
                state.processes[p].zone_failed = true;
                return Err(error);
            }
        }
        {
            let mut state = sim.state.lock();
            if let Err(what) = state.history.acknowledges(self.epoch, upto) {
                drop(state);
                sim.fail(what);
                return Err(Error::new(ErrorKind::Stopped, "a promise was broken"));
            }
            state.met.acknowledged += 1;
            state.processes[p].hardened = upto;
        }
        sim.disseminate(p, Vec::new());
        Ok(())
    }
}

/// What one primary sees of files: its own disk, and the zone.
pub fn machine(sim: &Arc<Sim>, p: usize) -> Arc<dyn Vfs> {
    let local = sim.state.lock().processes[p].local.clone();
    Arc::new(Machine::new(Arc::clone(sim), Node::Primary(p), local))
}

/// Whether a path is in the zone.
pub fn is_in_zone(path: &Path) -> bool {
    path.starts_with(crate::sim::ZONE)
}
