//! Merging and giving up in the schedules, beside archiving: by the other thread of who archives, of a store with runs, backups, marks and leases; and readers,
//! who make a lease, look at marks after that, and rely on it then.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use resurgam_base::Lsn;
pub use resurgam_xlog::TaskDone as Task;
use resurgam_xlog::{KeepingConfig, Piece, Task as Next};

use super::archive::{Edit, Mine, Published, Run, RunOf, Who};
use super::{Event, Mistake, World, ms};

pub const READERS: usize = 2;
/// So many runs of a level are merged, up to that level.
const FAN_IN: usize = 2;
const LEVELS: u32 = 2;

pub fn config() -> KeepingConfig {
    KeepingConfig {
        idle: Duration::from_millis(30),
        expire: Some(Duration::from_millis(120)),
        again: Duration::from_millis(10),
        again_max: Duration::from_millis(300),
    }
}

/// All log below its end.
#[derive(Clone, Debug)]
pub struct Backup {
    pub end: Lsn,
    pub log: Vec<Arc<Piece>>,
}

/// The archive is needed from there on.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub from: Lsn,
    /// Its maker has seen that it holds.
    pub is_relied_on: bool,
}

/// What is done to the store, one after the other.
#[derive(Clone, Debug)]
pub enum KeepEffect {
    /// Of a merge.
    ReadInputs(Vec<Run>, Vec<Run>),
    MakeRun(Vec<Run>, Vec<Run>),
    /// Of a pass: what may go, by the backups and leases that there are.
    Plan,
    Mark(Lsn),
    PlanAgain(Lsn, u64),
    /// Of both.
    Publish(Box<(Mine, Edit)>),
    Delete(Vec<u64>),
    Unmark(u64),
}

/// What comes after it.
enum Then {
    Go(KeepEffect),
    Lock(Edit),
    Ends(Task),
}

/// The oldest runs of the lowest level of which there are enough.
fn pick(runs: &[Run]) -> Option<Vec<Run>> {
    (0..LEVELS)
        .find_map(|level| runs.windows(FAN_IN).find(|some| some.iter().all(|run| run.level == level)))
        .map(<[Run]>::to_vec)
}

/// Whether runs wait that could have been merged.
pub fn piled_up(runs: &[Run]) -> Option<String> {
    let levels: Vec<u32> = runs.iter().map(|run| run.level).collect();
    pick(runs).map(|_| format!("runs of these levels wait to be merged: {levels:?}"))
}

impl World {
    pub fn keeping(&mut self, event: Event) {
        match event {
            Event::Kept(number, life, task, done) => {
                let agent = &self.agents[number];
                if agent.life() != life || agent.task != task || agent.keeping.is_none() {
                    return;
                }
                if agent.paused_until() > self.now {
                    let until = agent.paused_until();
                    return self.at(until, Event::Kept(number, life, task, done));
                }
                self.next_task(number, done);
            }
            Event::Keep(number, life, task, effect) => {
                let agent = &self.agents[number];
                if agent.life() == life && agent.paused_until() > self.now && self.rng.random_bool(0.8) {
                    let until = self.agents[number].paused_until();
                    return self.at(until, Event::Keep(number, life, task, effect));
                }
                if self.agents[number].life() != life && self.rng.random_bool(0.5) {
                    return;
                }
                self.keep_effect(number, life, task, *effect);
            }
            Event::Backup => self.back_up(),
            Event::Read(reader, step) => self.reader(reader, step),
            _ => {}
        }
    }

    fn next_task(&mut self, number: usize, done: Task) {
        let now = self.now;
        let agent = &mut self.agents[number];
        agent.publishes.take_if(|who| *who == Who::Keeps);
        let is_own = agent.mine().is_some();
        let Some(machine) = &mut agent.keeping else { return };
        let next = machine.next(now, is_own, done);
        agent.task += 1;
        let (life, id) = (agent.life(), agent.task);
        let runs = agent.mine().map(|(_, _, manifest)| manifest.runs.clone()).unwrap_or_default();
        let late = self.disk();
        let go = |effect| Event::Keep(number, life, id, Box::new(effect));
        match next {
            Next::Wait(time) => self.after(time, Event::Kept(number, life, id, Task::Nothing)),
            Next::Merge => match pick(&runs) {
                Some(inputs) => self.after(late, go(KeepEffect::ReadInputs(inputs, runs))),
                None => self.after(Duration::ZERO, Event::Kept(number, life, id, Task::Nothing)),
            },
            Next::GiveUp => self.after(late, go(KeepEffect::Plan)),
        }
    }

    /// As `Archive::publish` begins: of what the process knows when it is its turn.
    pub fn keep_publishes(&mut self, number: usize, life: u32, task: u64, mut mine: Mine, edit: Edit, late: Duration) {
        if let (Mistake::MergedOverAppended, Edit::Replace { stale, .. }) = (self.mistake, &edit) {
            mine.2.runs.clone_from(stale);
        }
        let publish = KeepEffect::Publish(Box::new((mine, edit)));
        self.after(late, Event::Keep(number, life, task, Box::new(publish)));
    }

    fn keep_effect(&mut self, number: usize, life: u32, task: u64, effect: KeepEffect) {
        let (fails, unheard) = match self.is_bad() {
            true => (self.rng.random_bool(0.1), self.rng.random_bool(0.1)),
            false => (false, false),
        };
        let known = self.agents[number].mine().cloned();
        let mut then = if fails { Then::Ends(Task::Failed) } else { self.kept(number, life, effect) };
        if unheard {
            // It was done, and that is not known.
            then = Then::Ends(Task::Failed);
            known.into_iter().for_each(|known| self.agents[number].knows(known));
        }
        let late = self.disk();
        if self.agents[number].life() == life && !matches!(then, Then::Lock(_)) {
            self.agents[number].publishes.take_if(|who| *who == Who::Keeps);
        }
        match then {
            Then::Go(effect) => self.after(late, Event::Keep(number, life, task, Box::new(effect))),
            Then::Lock(edit) => self.after(late, Event::Lock(number, life, task, Who::Keeps, Box::new(edit))),
            Then::Ends(done) => self.after(late, Event::Kept(number, life, task, done)),
        }
    }

    /// It is done to the store.
    fn kept(&mut self, number: usize, life: u32, effect: KeepEffect) -> Then {
        let is_there = |this: &Self, runs: &[Run]| runs.iter().all(|run| this.archive.objects.contains_key(&run.name));
        match effect {
            KeepEffect::ReadInputs(inputs, all) => match is_there(self, &inputs) {
                true => Then::Go(KeepEffect::MakeRun(inputs, all)),
                false => Then::Ends(Task::ByAnother),
            },
            KeepEffect::MakeRun(inputs, stale) => {
                let agent = &self.agents[number];
                let Some((_, generation, _)) = agent.mine().filter(|_| agent.life() == life) else {
                    return Then::Ends(Task::Lost);
                };
                let (generation, name) = (*generation, self.archive.name());
                let level = inputs.iter().map(|run| run.level).max().unwrap_or(0) + 1;
                let pieces = inputs.iter().flat_map(|run| run.pieces.iter().cloned()).collect();
                self.archive.objects.insert(name, generation);
                if self.mistake == Mistake::DeletesBeforeNamed {
                    self.archive.objects.retain(|name, _| inputs.iter().all(|run| run.name != *name));
                }
                Then::Lock(Edit::Replace { inputs, run: Arc::new(RunOf { name, level, pieces }), stale })
            }
            KeepEffect::Plan => match self.may_go() {
                Some(keep) => Then::Go(KeepEffect::Mark(keep)),
                None => Then::Ends(Task::Done),
            },
            KeepEffect::Mark(keep) => {
                let mark = self.archive.name();
                self.archive.marks.insert(mark, keep);
                Then::Go(KeepEffect::PlanAgain(keep, mark))
            }
            KeepEffect::PlanAgain(keep, mark) => {
                let leased = self.archive.leases.values().map(|lease| lease.from).min();
                let before = match self.mistake {
                    Mistake::ExpiresLeased => keep,
                    _ => leased.map_or(keep, |leased| leased.min(keep)),
                };
                if self.agents[number].life() == life {
                    self.agents[number].mark = mark;
                }
                Then::Lock(Edit::GiveUp { before })
            }
            KeepEffect::Publish(step) => {
                let (mine, edit) = *step;
                if let (Mistake::MergesAfterLoss, Edit::Replace { .. }) = (self.mistake, &edit) {
                    // Behind whatever is the newest one, as its own.
                    let known = self.archive.newest().map_or(0, |(number, _)| number);
                    return self.named_by_keeper(number, life, (mine.0, known, mine.2), &edit);
                }
                self.named_by_keeper(number, life, mine, &edit)
            }
            KeepEffect::Delete(names) => {
                self.archive.objects.retain(|name, _| !names.contains(name));
                Then::Ends(Task::Done)
            }
            KeepEffect::Unmark(mark) => {
                self.archive.marks.remove(&mark);
                Then::Ends(Task::Done)
            }
        }
    }

    fn named_by_keeper(&mut self, number: usize, life: u32, mine: Mine, edit: &Edit) -> Then {
        let before = mine.2.clone();
        match self.publish(mine, edit) {
            Published::Lost => Then::Ends(Task::Lost),
            Published::Broken => Then::Ends(Task::Failed),
            Published::Is(mine, is_made) => {
                let gone = match edit {
                    Edit::Replace { inputs, run, .. } => {
                        let has_run = mine.2.runs.iter().any(|there| there.name == run.name);
                        self.archive.merges += u32::from(is_made);
                        if has_run { inputs.iter().map(|run| run.name).collect() } else { vec![run.name] }
                    }
                    _ => {
                        self.archive.passes += u32::from(is_made);
                        let is_gone = |run: &&Run| run.end() <= mine.2.start;
                        before.runs.iter().filter(is_gone).map(|run| run.name).collect()
                    }
                };
                let agent = &mut self.agents[number];
                let mark = std::mem::take(&mut agent.mark);
                if agent.life() == life {
                    agent.knows(mine);
                }
                if mark != 0 && matches!(edit, Edit::GiveUp { .. }) {
                    self.archive.objects.retain(|name, _| !gone.contains(name));
                    return Then::Go(KeepEffect::Unmark(mark));
                }
                Then::Go(KeepEffect::Delete(gone))
            }
        }
    }

    /// Up to where runs may go, if any may: before the last backup but one, and what leases need.
    fn may_go(&self) -> Option<Lsn> {
        let base = self.archive.backups.iter().rev().nth(1)?;
        let leased = self.archive.leases.values().map(|lease| lease.from).min();
        let keep = leased.map_or(base.end, |leased| leased.min(base.end));
        let (_, manifest) = self.archive.newest()?;
        manifest.runs.first().is_some_and(|run| run.end() <= keep).then_some(keep)
    }

    /// A manifest counts from now on: nothing is lost that was archived, and whoever relies on a lease has what he needs.
    pub fn is_kept(&mut self) {
        let ends = self.archive.newest().map(|(_, manifest)| (manifest.start, manifest.end().end));
        let (start, end) = ends.unwrap_or_default();
        if end < self.archive.reached {
            let what = format!("the archive ends at {end}, and ended at {} before", self.archive.reached);
            return self.fail(what);
        }
        self.archive.reached = end;
        let lost = self.archive.leases.values().find(|lease| lease.is_relied_on && lease.from < start);
        if let Some(lease) = lost {
            let what = format!("the archive begins at {start}, and a lease needs it from {} on", lease.from);
            self.fail(what);
        }
    }

    fn back_up(&mut self) {
        let pause = ms(200, 700, &mut self.rng);
        self.after(pause, Event::Backup);
        match self.archive.log() {
            Ok(log) => {
                let end = log.last().map_or(Lsn::NONE, |piece| piece.next);
                if self.archive.backups.last().is_none_or(|backup| backup.end < end) && end.is_some() {
                    self.archive.backups.push(Backup { end, log });
                }
            }
            Err(what) => self.fail(what),
        }
    }

    /// One makes a lease of one of the last backups, be it promised or not, looks whether it holds, and gives it back after a while.
    fn reader(&mut self, reader: usize, step: ReaderStep) {
        let late = self.disk();
        match step {
            ReaderStep::Choose => {
                let few = self.archive.backups.len().min(3);
                if few == 0 {
                    return self.after(Duration::from_millis(100), Event::Read(reader, ReaderStep::Choose));
                }
                let at = self.archive.backups.len() - 1 - self.rng.random_range(0..few);
                let from = self.archive.backups[at].end;
                self.after(late, Event::Read(reader, ReaderStep::Lease(from)));
            }
            ReaderStep::Lease(from) => {
                let name = self.archive.name();
                self.archive.leases.insert(name, Lease { from, is_relied_on: false });
                self.after(late, Event::Read(reader, ReaderStep::Check(name)));
            }
            ReaderStep::Check(name) => {
                let Some(lease) = self.archive.leases.get(&name).copied() else { return };
                let mark = self.archive.marks.values().copied().max().unwrap_or_default();
                let start = self.archive.newest().map_or(Lsn::NONE, |(_, manifest)| manifest.start);
                let holds = mark <= lease.from && start <= lease.from;
                if holds {
                    self.archive.leased += 1;
                    self.archive.leases.insert(name, Lease { is_relied_on: true, ..lease });
                }
                let time = if holds { ms(20, 900, &mut self.rng) } else { Duration::ZERO };
                self.after(time, Event::Read(reader, ReaderStep::Release(name)));
            }
            ReaderStep::Release(name) => {
                self.archive.leases.remove(&name);
                self.after(late, Event::Read(reader, ReaderStep::Choose));
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum ReaderStep {
    Choose,
    Lease(Lsn),
    Check(u64),
    Release(u64),
}
