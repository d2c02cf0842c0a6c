//! The archive in the schedules: who archives, and a store with manifests that are created once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use resurgam_base::Lsn;
use resurgam_xlog::{ArchiveEnd, Archiving, ArchivingConfig, Done, Input, Piece, PlantedInArchiving, Step};

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

type Run = Arc<Vec<Arc<Piece>>>;

#[derive(Clone, Debug, PartialEq)]
struct Manifest {
    owner: u64,
    runs: Vec<Run>,
}

impl Manifest {
    fn end(&self) -> ArchiveEnd {
        let last = self.runs.last().and_then(|run| run.last());
        let (end, last_block) = last.map_or((Lsn::NONE, Lsn::NONE), |piece| (piece.next, piece.lsn));
        ArchiveEnd { owner: self.owner, end, last_block }
    }
}

/// Owner, number, and what that manifest says.
type Mine = (u64, u64, Manifest);

#[derive(Default)]
pub struct ArchiveStore {
    manifests: BTreeMap<u64, Manifest>,
    owners: u64,
    pub claims: u32,
    /// Times that somebody was told that another one has it.
    pub lost: u32,
}

impl ArchiveStore {
    fn newest(&self) -> Option<(u64, &Manifest)> {
        self.manifests.last_key_value().map(|(number, manifest)| (*number, manifest))
    }

    /// All that is archived.
    pub fn log(&self) -> Vec<Arc<Piece>> {
        self.newest()
            .map(|(_, manifest)| manifest.runs.iter().flat_map(|run| run.iter().cloned()).collect())
            .unwrap_or_default()
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
}

/// What is done to the store, at some moment after it was asked for.
#[derive(Clone, Debug)]
pub enum Effect {
    Look,
    FindNewest,
    Claim {
        number: u64,
        found: Option<ArchivedRuns>,
        owner: u64,
    },
    /// A run is there, and is to be named by the manifest behind `number`.
    Name {
        number: u64,
        owner: u64,
        before: ArchivedRuns,
        run: ArchivedRuns,
    },
}

/// Runs on their way.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedRuns(Vec<Run>);

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
                self.agents[number] = Agent { life, machine, ..Agent::default() };
                self.after(Duration::ZERO, Event::Stepped(number, life, 0, Box::new(Done::Nothing)));
                self.after(Duration::from_millis(100), Event::Expire(number, life));
            }
            Event::CrashAgent(number) => {
                let agent = &mut self.agents[number];
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
                let Some((owner, known, manifest)) = agent.mine.clone() else {
                    return self.fail(format!("{number} seals an archive that it has not claimed"));
                };
                let run = ArchivedRuns(vec![Arc::new(agent.gathered.clone())]);
                let before = ArchivedRuns(manifest.runs);
                self.after(late, store(Effect::Name { number: known, owner, before, run }));
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

    /// The store does it, or not, and answers, or not.
    fn effect(&mut self, number: usize, life: u32, step: u64, effect: Effect) {
        let (fails, unheard) = match self.is_bad() {
            true => (self.rng.random_bool(0.1), self.rng.random_bool(0.1)),
            false => (false, false),
        };
        let done = if fails { Some((Done::Failed, None)) } else { self.apply(number, life, step, effect) };
        let Some((done, mine)) = done else { return };
        // It was done, and that is not known.
        let done = if unheard { Done::Failed } else { done };
        if let Some(agent) = self.agents.get_mut(number).filter(|agent| agent.life == life && !unheard)
            && mine.is_some()
        {
            agent.mine = mine;
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
                let found =
                    self.archive.newest().map(|(number, manifest)| (number, ArchivedRuns(manifest.runs.clone())));
                let (known, found) = found.map_or((0, None), |(number, runs)| (number, Some(runs)));
                let late = self.disk();
                let claim = Effect::Claim { number: known, found, owner };
                self.after(late, Event::Store(number, life, step, Box::new(claim)));
                None
            }
            Effect::Claim { number: known, found, owner } => {
                let manifest = Manifest { owner, runs: found.map(|runs| runs.0).unwrap_or_default() };
                let end = manifest.end();
                self.archive.claims += 1;
                match self.publish(known, &manifest) {
                    true => {
                        let from = if end.end.is_some() { end.end } else { FIRST };
                        let oldest = self.oldest();
                        if from < oldest {
                            self.fail(format!("the archive ends at {from}, and the log is kept from {oldest} on"));
                        }
                        Some((Done::Claimed { end, from }, Some((owner, known + 1, manifest))))
                    }
                    false => {
                        self.archive.lost += 1;
                        Some((Done::Lost, None))
                    }
                }
            }
            Effect::Name { number: known, owner, before, run } => {
                if self.mistake == Mistake::ZombiePublishes {
                    let (known, runs) = self.archive.newest().map_or((0, Vec::new()), |(n, m)| (n, m.runs.clone()));
                    return Some(self.named(known, Manifest { owner, runs: [runs, run.0].concat() }));
                }
                Some(self.named(known, Manifest { owner, runs: [before.0, run.0].concat() }))
            }
        }
    }

    fn named(&mut self, known: u64, manifest: Manifest) -> (Done, Option<Mine>) {
        let end = manifest.end();
        if !self.publish(known, &manifest) {
            // Its own, of a step whose outcome it did not hear of?
            let newest = self.archive.newest().map(|(number, manifest)| (number, manifest.clone()));
            let Some((_, found)) = newest.filter(|(_, found)| found.owner == manifest.owner) else {
                self.archive.lost += 1;
                return (Done::Lost, None);
            };
            if found != manifest {
                return (Done::Broken, None);
            }
        }
        let there = self.archive.newest().map_or(Lsn::NONE, |(_, manifest)| manifest.end().end);
        if end.end > there {
            self.fail(format!(
                "the log is said to be archived up to {}, and the newest manifest ends at {there}",
                end.end
            ));
        }
        // Old ones go, the oldest first.
        if self.rng.random_bool(0.5) {
            let newest = self.archive.newest().map_or(0, |(number, _)| number);
            self.archive.manifests.retain(|number, _| number + KEPT >= newest);
        }
        (Done::Sealed(end), Some((manifest.owner, known + 1, manifest)))
    }

    /// The manifest behind `known` is created, if none is there; whether it counts.
    fn publish(&mut self, known: u64, manifest: &Manifest) -> bool {
        let manifests = &mut self.archive.manifests;
        if manifests.contains_key(&(known + 1)) {
            return false;
        }
        manifests.insert(known + 1, manifest.clone());
        let counts = manifests.last_key_value().is_some_and(|(newest, _)| *newest == known + 1);
        counts || self.mistake == Mistake::NumberAgain
    }

    /// What is wrong with the archive.
    pub fn archive_at_end(&self, history: &BTreeMap<Lsn, Arc<Piece>>, acked: Lsn) -> Option<String> {
        let mut at = FIRST;
        for piece in self.archive.log() {
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
        (self.oldest() > at).then(|| format!("the archive ends at {at}, the long-term log begins at {}", self.oldest()))
    }
}
