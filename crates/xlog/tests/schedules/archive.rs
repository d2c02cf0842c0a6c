//! The archive in the schedules: who archives, and a store with manifests that are created once. Who archives merges as well, and gives up (`keeping.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use resurgam_base::Lsn;
use resurgam_xlog::{ArchiveEnd, Archiving, ArchivingConfig, Done, Input, Keeping, Piece, PlantedInArchiving, Step};

use super::keeping::{self, Backup, Lease, Task};
use super::{Event, FIRST, Mistake, World, ms};

/// Log services that archive. The first one is the one that gives out the log; they die apart, and share store and long-term log.
pub const AGENTS: usize = 2;
/// Manifests that are kept beside the newest.
const KEPT: u64 = 2;

fn config(planted: PlantedInArchiving) -> ArchivingConfig {
    ArchivingConfig {
        lease: Duration::from_millis(250),
        delay: Duration::from_millis(40),
        run_bytes: 2500,
        idle: Duration::from_millis(50),
        again: Duration::from_millis(10),
        planted,
    }
}

/// An object of the store: some log.
#[derive(Clone, Debug)]
pub struct RunOf {
    pub name: u64,
    pub level: u32,
    pub pieces: Vec<Arc<Piece>>,
}

pub type Run = Arc<RunOf>;

impl RunOf {
    pub fn start(&self) -> Lsn {
        self.pieces.first().map_or(Lsn::NONE, |piece| piece.lsn)
    }

    pub fn end(&self) -> Lsn {
        self.pieces.last().map_or(Lsn::NONE, |piece| piece.next)
    }
}

#[derive(Clone, Debug)]
pub struct Manifest {
    pub owner: u64,
    /// All before was given up.
    pub start: Lsn,
    pub runs: Vec<Run>,
}

impl Manifest {
    pub fn end(&self) -> ArchiveEnd {
        let last = self.runs.last().and_then(|run| run.pieces.last());
        let (end, last_block) = last.map_or((Lsn::NONE, Lsn::NONE), |piece| (piece.next, piece.lsn));
        ArchiveEnd { owner: self.owner, end, last_block }
    }
}

/// A step from one manifest to the next.
#[derive(Clone, Debug)]
pub enum Edit {
    Append(Run),
    /// `stale`: all runs when it was begun.
    Replace {
        inputs: Vec<Run>,
        run: Run,
        stale: Vec<Run>,
    },
    GiveUp {
        before: Lsn,
    },
}

impl Edit {
    /// None: nothing is to be done any more. An error: it does not fit.
    fn of(&self, now: &Manifest) -> Result<Option<Manifest>, ()> {
        let mut next = now.clone();
        match self {
            Self::Append(run) => {
                let end = now.end().end;
                if end >= run.end() {
                    return Ok(None);
                }
                if end.is_some() && end != run.start() {
                    return Err(());
                }
                next.runs.push(Arc::clone(run));
            }
            Self::Replace { inputs, run, .. } => {
                let is_it = |window: &[Run]| window.iter().zip(inputs).all(|(a, b)| a.name == b.name);
                let at = now.runs.windows(inputs.len()).position(is_it);
                let Some(at) = at else { return Ok(None) };
                next.runs.splice(at..at + inputs.len(), [Arc::clone(run)]);
            }
            Self::GiveUp { before } => {
                let gone = now.runs.iter().take_while(|run| run.end() <= *before).count();
                // The last one says where the archive ends.
                let gone = gone.min(now.runs.len().saturating_sub(1));
                if gone == 0 {
                    return Ok(None);
                }
                next.start = now.runs[gone - 1].end();
                next.runs.drain(..gone);
            }
        }
        Ok(Some(next))
    }
}

/// Which thread of a log service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Archives,
    Keeps,
}

/// What has become of a step to the next manifest.
pub enum Published {
    /// Which one is the newest now, and whether it was this step that made it.
    Is(Mine, bool),
    Lost,
    /// It does not fit to what is there by now.
    Broken,
}

/// Owner, number, and what that manifest says.
pub type Mine = (u64, u64, Manifest);

#[derive(Default)]
pub struct ArchiveStore {
    pub manifests: BTreeMap<u64, Manifest>,
    owners: u64,
    /// Runs that are there, with the number of the manifest that their maker knew; names that were given.
    pub objects: BTreeMap<u64, u64>,
    names: u64,
    pub marks: BTreeMap<u64, Lsn>,
    pub leases: BTreeMap<u64, Lease>,
    /// The oldest first.
    pub backups: Vec<Backup>,
    /// All below was archived once.
    pub reached: Lsn,
    pub claims: u32,
    /// Times that somebody was told that another one has it.
    pub lost: u32,
    /// Merges, passes that gave something up, and leases that were relied on.
    pub merges: u32,
    pub passes: u32,
    pub leased: u32,
}

impl ArchiveStore {
    pub fn newest(&self) -> Option<(u64, &Manifest)> {
        self.manifests.last_key_value().map(|(number, manifest)| (*number, manifest))
    }

    pub fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// All that is archived, with the newest backup as its beginning where that was given up. An error: what is missing.
    pub fn log(&self) -> Result<Vec<Arc<Piece>>, String> {
        let Some((_, manifest)) = self.newest() else { return Ok(Vec::new()) };
        let mut log = if manifest.start.is_some() {
            self.backups.last().map(|backup| backup.log.clone()).unwrap_or_default()
        } else {
            Vec::new()
        };
        let end = log.last().map_or(FIRST, |piece| piece.next);
        if manifest.start > end {
            return Err(format!("the archive begins at {}, and the newest backup ends at {end}", manifest.start));
        }
        for run in &manifest.runs {
            if !self.objects.contains_key(&run.name) {
                return Err(format!("the run {} of the newest manifest is gone", run.name));
            }
            log.extend(run.pieces.iter().filter(|piece| piece.lsn >= end).cloned());
        }
        Ok(log)
    }
}

/// One life of one that archives.
#[derive(Default)]
pub struct Agent {
    life: u32,
    machine: Option<Archiving>,
    /// The step that is under way.
    step: u64,
    paused_until: Duration,
    /// The claim: its owner, and the manifest that it knows.
    mine: Option<Mine>,
    gathered: Vec<Arc<Piece>>,
    asked: u64,
    /// Its other thread, and the task of that which is under way.
    pub keeping: Option<Keeping>,
    pub task: u64,
    /// The mark of the pass that is under way.
    pub mark: u64,
    /// Who makes a manifest: one at a time.
    pub publishes: Option<Who>,
}

impl Agent {
    pub fn life(&self) -> u32 {
        self.life
    }

    pub fn mine(&self) -> Option<&Mine> {
        self.mine.as_ref()
    }

    /// A manifest that its own step made, or that it found to be the newest of its own.
    pub fn knows(&mut self, mine: Mine) {
        if self.mine.as_ref().is_some_and(|(owner, ..)| *owner == mine.0) {
            self.mine = Some(mine);
        }
    }

    pub fn paused_until(&self) -> Duration {
        self.paused_until
    }
}

/// What is done to the store, at some moment after it was asked for.
#[derive(Clone, Debug)]
pub enum Effect {
    Look,
    FindNewest,
    Claim {
        number: u64,
        found: Option<Manifest>,
        owner: u64,
    },
    /// A run is there, and is to be named by the manifest behind the one that is known.
    Name(Mine, Edit),
    /// What no manifest of before the claim can name any more goes.
    Tidy {
        number: u64,
        named: Vec<u64>,
    },
}

impl World {
    pub fn archiving(&mut self, event: Event) {
        match event {
            Event::StartAgent(number) => {
                let planted = match self.mistake {
                    Mistake::ArchivedEarly => PlantedInArchiving::PositionBeforeObject,
                    _ => PlantedInArchiving::Nothing,
                };
                let life = self.agents[number].life + 1;
                let machine = Some(Archiving::new(config(planted)));
                let keeping = Some(Keeping::new(keeping::config()));
                self.agents[number] = Agent { life, machine, keeping, ..Agent::default() };
                self.after(Duration::ZERO, Event::Stepped(number, life, 0, Box::new(Done::Nothing)));
                self.after(Duration::ZERO, Event::Kept(number, life, 0, Task::Nothing));
                self.after(Duration::from_millis(100), Event::Expire(number, life));
            }
            Event::CrashAgent(number) => {
                let agent = &mut self.agents[number];
                agent.keeping = None;
                if agent.machine.take().is_some() {
                    // What is on its way reaches the store, or not; nobody hears of it.
                    agent.paused_until = Duration::ZERO;
                    let pause = ms(1, 700, &mut self.rng);
                    self.after(pause, Event::StartAgent(number));
                }
            }
            Event::PauseAgent(number) => {
                let until = self.now + ms(10, 2500, &mut self.rng);
                self.agents[number].paused_until = until;
            }
            Event::Store(number, life, step, effect) => {
                let agent = &self.agents[number];
                if agent.life == life && agent.paused_until > self.now {
                    // It was about to be asked for, or is on its way.
                    if self.rng.random_bool(0.8) {
                        let until = agent.paused_until;
                        return self.at(until, Event::Store(number, life, step, effect));
                    }
                }
                if agent.life != life && self.rng.random_bool(0.5) {
                    return;
                }
                self.effect(number, life, step, *effect);
            }
            Event::Stepped(number, life, step, done) => {
                let agent = &mut self.agents[number];
                if agent.life != life || agent.step != step || agent.machine.is_none() {
                    return;
                }
                if agent.paused_until > self.now {
                    let until = agent.paused_until;
                    return self.at(until, Event::Stepped(number, life, step, done));
                }
                self.next_step(number, *done);
            }
            Event::Lock(number, life, step, who, edit) => self.lock(number, life, step, who, edit),
            Event::Expire(number, life) => {
                let agent = &self.agents[number];
                if agent.life != life {
                    return;
                }
                self.after(Duration::from_millis(150), Event::Expire(number, life));
                let agent = &self.agents[number];
                if let Some(machine) = agent.machine.as_ref().filter(|_| agent.paused_until <= self.now) {
                    let keep =
                        if self.mistake == Mistake::FreedUnarchived { Lsn(u64::MAX) } else { machine.keep_from() };
                    self.expire(keep);
                }
            }
            _ => {}
        }
    }

    /// Some of what is old in the long-term log goes, below `keep`; never the newest object.
    fn expire(&mut self, keep: Lsn) {
        let starts: Vec<Lsn> = self.long_term.keys().copied().collect();
        for start in starts.iter().take(starts.len().saturating_sub(1)) {
            let end = self.long_term[start].last().map_or(Lsn::NONE, |piece| piece.next);
            if end > keep || self.rng.random_bool(0.4) {
                break;
            }
            self.long_term.remove(start);
        }
        let oldest = self.oldest();
        let archived = self.archive.newest().map_or(FIRST, |(_, manifest)| manifest.end().end.max(FIRST));
        if oldest > archived {
            self.fail(format!("the long-term log is given up below {oldest}, and the archive ends at {archived}"));
        }
        if let Some(xlog) = &mut self.xlog {
            xlog.core.expired(oldest);
        }
    }

    fn next_step(&mut self, number: usize, done: Done) {
        let hardened = self.xlog.as_ref().map_or(Lsn::NONE, |xlog| xlog.core.status().disseminated);
        let now = self.now;
        let agent = &mut self.agents[number];
        match done {
            Done::Lost | Done::Broken | Done::Refused => (agent.mine, agent.gathered) = (None, Vec::new()),
            Done::Sealed(_) | Done::Claimed { .. } => agent.gathered.clear(),
            _ => {}
        }
        agent.publishes.take_if(|who| *who == Who::Archives);
        let Some(machine) = &mut agent.machine else { return };
        let step = machine.next(now, hardened, done);
        agent.step += 1;
        let (life, id) = (agent.life, agent.step);
        let stepped = |done| Event::Stepped(number, life, id, Box::new(done));
        let store = |effect| Event::Store(number, life, id, Box::new(effect));
        let late = self.disk();
        match step {
            Step::Wait(time) => self.after(time, stepped(Done::Nothing)),
            Step::Look => self.after(late, store(Effect::Look)),
            Step::Claim => self.after(late, store(Effect::FindNewest)),
            Step::Pull { from, wait } => {
                self.asks += 1;
                let asked = self.asks * (2 + AGENTS as u64) + 2 + number as u64;
                let pull = Input::Pull { id: asked, from, bytes_max: 1500, wait };
                self.agents[number].asked = asked;
                self.after(Duration::from_micros(100), Event::ToXlog(0, Box::new(pull)));
                // Nothing comes from one that has died.
                self.after(wait + Duration::from_millis(100), stepped(Done::Pulled(Vec::new())));
            }
            Step::Take(pieces) => {
                self.agents[number].gathered.extend(pieces);
                self.after(Duration::ZERO, stepped(Done::Taken));
            }
            Step::Seal => {
                let agent = &self.agents[number];
                let Some((_, generation, _)) = agent.mine else {
                    return self.fail(format!("{number} seals an archive that it has not claimed"));
                };
                let (name, pieces) = (self.archive.name(), agent.gathered.clone());
                // The object is there before anybody names it.
                self.archive.objects.insert(name, generation);
                let run = Arc::new(RunOf { name, level: 0, pieces });
                self.after(late, Event::Lock(number, life, id, Who::Archives, Box::new(Edit::Append(run))));
            }
        }
    }

    /// What the log service has answered.
    pub fn answered_to_agent(&mut self, number: usize, id: u64, done: Done) {
        let agent = &self.agents[number];
        if agent.asked == id {
            let event = Event::Stepped(number, agent.life, agent.step, Box::new(done));
            self.after(Duration::from_micros(100), event);
        }
    }

    /// One thread of a log service at a time makes a manifest, of the one that the process knows then.
    fn lock(&mut self, number: usize, life: u32, step: u64, who: Who, edit: Box<Edit>) {
        let agent = &mut self.agents[number];
        if agent.life != life || agent.machine.is_none() {
            return;
        }
        if agent.paused_until > self.now || agent.publishes.is_some() {
            let until = agent.paused_until.max(self.now + Duration::from_millis(1));
            return self.at(until, Event::Lock(number, life, step, who, edit));
        }
        let late = self.disk();
        let agent = &mut self.agents[number];
        let Some(mine) = agent.mine.clone() else {
            // It was lost meanwhile.
            return match who {
                Who::Archives => {
                    self.after(Duration::ZERO, Event::Stepped(number, life, step, Box::new(Done::Lost)));
                }
                Who::Keeps => self.after(Duration::ZERO, Event::Kept(number, life, step, Task::Lost)),
            };
        };
        agent.publishes = Some(who);
        match who {
            Who::Archives => self.after(late, Event::Store(number, life, step, Box::new(Effect::Name(mine, *edit)))),
            Who::Keeps => self.keep_publishes(number, life, step, mine, *edit, late),
        }
    }

    /// The store does it, or not, and answers, or not.
    fn effect(&mut self, number: usize, life: u32, step: u64, effect: Effect) {
        if let Effect::Tidy { number: claimed, named } = effect {
            self.archive.objects.retain(|name, generation| *generation >= claimed || named.contains(name));
            return;
        }
        let agent = &self.agents[number];
        if matches!(effect, Effect::FindNewest) && agent.life == life && agent.publishes.is_some() {
            // A step of the claim before would look like another process's.
            return self.after(Duration::from_millis(1), Event::Store(number, life, step, Box::new(effect)));
        }
        let (fails, unheard) = match self.is_bad() {
            true => (self.rng.random_bool(0.1), self.rng.random_bool(0.1)),
            false => (false, false),
        };
        let done = if fails { Some((Done::Failed, None)) } else { self.apply(number, life, step, effect) };
        let Some((done, mine)) = done else { return };
        // It was done, and that is not known.
        let done = if unheard { Done::Failed } else { done };
        if let Some(agent) = self.agents.get_mut(number).filter(|agent| agent.life == life && !unheard) {
            match (&done, mine) {
                (Done::Claimed { .. }, mine) => agent.mine = mine,
                (_, Some(mine)) => agent.knows(mine),
                _ => {}
            }
        }
        let late = self.disk();
        self.after(late, Event::Stepped(number, life, step, Box::new(done)));
    }

    /// What has become of it, and what whoever hears of it knows then as its own. None: it goes on with another one.
    fn apply(&mut self, number: usize, life: u32, step: u64, effect: Effect) -> Option<(Done, Option<Mine>)> {
        match effect {
            Effect::Look => Some((Done::Looked(self.archive.newest().map(|(_, manifest)| manifest.end())), None)),
            Effect::FindNewest => {
                self.archive.owners += 1;
                let owner = self.archive.owners;
                let found = self.archive.newest().map(|(number, manifest)| (number, manifest.clone()));
                let (known, found) = found.map_or((0, None), |(number, found)| (number, Some(found)));
                let late = self.disk();
                let claim = Effect::Claim { number: known, found, owner };
                self.after(late, Event::Store(number, life, step, Box::new(claim)));
                None
            }
            Effect::Claim { number: known, found, owner } => {
                let (start, runs) = found.map(|found| (found.start, found.runs)).unwrap_or_default();
                let manifest = Manifest { owner, start, runs };
                let end = manifest.end();
                self.archive.claims += 1;
                match self.create(known, &manifest) {
                    true => {
                        let from = if end.end.is_some() { end.end } else { FIRST };
                        let oldest = self.oldest();
                        if from < oldest {
                            self.fail(format!("the archive ends at {from}, and the log is kept from {oldest} on"));
                        }
                        let named = manifest.runs.iter().map(|run| run.name).collect();
                        let late = self.disk();
                        let tidy = Effect::Tidy { number: known + 1, named };
                        self.after(late, Event::Store(number, life, step, Box::new(tidy)));
                        Some((Done::Claimed { end, from }, Some((owner, known + 1, manifest))))
                    }
                    false => {
                        self.archive.lost += 1;
                        Some((Done::Lost, None))
                    }
                }
            }
            Effect::Name(mine, edit) => Some(self.named(mine, edit)),
            // No answer is waited for.
            Effect::Tidy { .. } => None,
        }
    }

    fn named(&mut self, mut mine: Mine, edit: Edit) -> (Done, Option<Mine>) {
        if let (Mistake::ZombiePublishes, Edit::Append(run)) = (self.mistake, &edit) {
            let (known, found) = self.archive.newest().map(|(n, m)| (n, m.clone())).unwrap_or((0, mine.2.clone()));
            let runs = [found.runs, vec![Arc::clone(run)]].concat();
            mine = (mine.0, known + 1, Manifest { owner: mine.0, start: found.start, runs });
            self.create(known, &mine.2);
            return (Done::Sealed(mine.2.end()), Some(mine));
        }
        match self.publish(mine, &edit) {
            Published::Lost => (Done::Lost, None),
            Published::Broken => (Done::Broken, None),
            Published::Is(mine, _) => (Done::Sealed(mine.2.end()), Some(mine)),
        }
    }

    /// The step from the manifest that is known to the next one, or from whatever is the newest of the same owner.
    pub fn publish(&mut self, mine: Mine, edit: &Edit) -> Published {
        let (owner, mut known, mut manifest) = mine;
        let mut is_made = false;
        loop {
            let next = match edit.of(&manifest) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(()) => return Published::Broken,
            };
            let next = Manifest { owner, ..next };
            if self.create(known, &next) {
                (known, manifest, is_made) = (known + 1, next, true);
                break;
            }
            // Its own, of a step whose outcome it did not hear of?
            let newest = self.archive.newest().map(|(number, manifest)| (number, manifest.clone()));
            let Some(found) = newest.filter(|(number, found)| found.owner == owner && *number > known) else {
                self.archive.lost += 1;
                return Published::Lost;
            };
            (known, manifest) = found;
        }
        let there = self.archive.newest().map_or(Lsn::NONE, |(_, manifest)| manifest.end().end);
        if manifest.end().end > there {
            self.fail(format!(
                "the log is said to be archived up to {}, and the newest manifest ends at {there}",
                manifest.end().end
            ));
        }
        // Old ones go, the oldest first.
        if self.rng.random_bool(0.5) {
            let newest = self.archive.newest().map_or(0, |(number, _)| number);
            self.archive.manifests.retain(|number, _| number + KEPT >= newest);
        }
        Published::Is((owner, known, manifest), is_made)
    }

    /// The manifest behind `known` is created, if none is there; whether it counts.
    pub fn create(&mut self, known: u64, manifest: &Manifest) -> bool {
        let manifests = &mut self.archive.manifests;
        if manifests.contains_key(&(known + 1)) {
            return false;
        }
        manifests.insert(known + 1, manifest.clone());
        let counts = manifests.last_key_value().is_some_and(|(newest, _)| *newest == known + 1);
        if counts {
            self.is_kept();
        }
        counts || self.mistake == Mistake::NumberAgain
    }

    /// What is wrong with the archive.
    pub fn archive_at_end(&self, history: &BTreeMap<Lsn, Arc<Piece>>, acked: Lsn) -> Option<String> {
        let mut at = FIRST;
        let log = match self.archive.log() {
            Ok(log) => log,
            Err(what) => return Some(what),
        };
        for piece in log {
            if piece.lsn != at {
                return Some(format!("the archive goes on at {} where it is at {at}", piece.lsn));
            }
            if history.get(&piece.lsn) != Some(&piece) {
                return Some(format!(
                    "the archive has a block at {} of epoch {} that is not of the history",
                    at, piece.epoch
                ));
            }
            at = piece.next;
        }
        if at.0 + 4096 < acked.0 {
            return Some(format!("the archive ends at {at}, acknowledged is {acked}"));
        }
        if self.oldest() > at {
            return Some(format!("the archive ends at {at}, the long-term log begins at {}", self.oldest()));
        }
        self.archive.newest().and_then(|(_, manifest)| keeping::piled_up(&manifest.runs))
    }
}
