//! One seed, one schedule: lives of a primary, the log service, its landing zone, long-term log and consumers in one thread, over a network
//! that loses, delays, reorders and doubles, with pauses, crashes, and a clock of its own. A primary has several writes to its zone under way,
//! which become durable in any order, and a crash leaves holes.
//!
//! Two log services archive: each with a machine of its own (`archiving.rs`), which is killed and paused, over a store that fails, answers late,
//! or does what it reports as failed; old manifests are deleted, and old log of the long-term log (`schedules/archive.rs`). The one that archives merges as well, and
//! gives up what no backup and no lease needs, on another thread (`keeping.rs`, `schedules/keeping.rs`), beside readers that make leases.
//!
//! Checked: what is acknowledged is in every later life's log, and acknowledged once; nobody is given a block that is not of the
//! history; the zone is given up only below what the long-term log has, and the long-term log below what the archive has; who comes too late for the
//! log begins anew from backup and archive; what is archived stays so, whatever is merged; who has a lease that holds has what he needs; when all is well again everybody gets everything, the archive too, and no
//! runs wait to be merged.
//!
//! `RESURGAM_SEED=N` runs one schedule, `RESURGAM_SCHEDULES=N` so many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_base::Lsn;
use resurgam_xlog::{
    Core, CoreConfig, Decision, Done, Held, Input, Output, Piece, Planted, Position, Reader, TaskDone, Waiting,
};

#[path = "schedules/archive.rs"]
mod archive;
#[path = "schedules/keeping.rs"]
mod keeping;
use archive::{AGENTS, Agent, ArchiveStore, Edit, Effect, Who};
use keeping::{KeepEffect, READERS, ReaderStep};

const FIRST: Lsn = Lsn(4096);
/// Writes of a primary under way at once.
const FLIGHTS_MAX: usize = 3;
const LEASE: Duration = Duration::from_millis(400);
/// The world is bad until then, and good afterwards.
const BAD: Duration = Duration::from_secs(6);
const END: Duration = Duration::from_secs(13);
/// Nothing is appended in the last seconds: a read of the bad time may take until shortly before them, and all is to be caught up with then.
const REST: Duration = Duration::from_secs(4);

/// Mistakes of the world, beside those of the core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    Core(Planted),
    /// A primary does not look at its lease before it acknowledges.
    OldPrimaryAcknowledges,
    /// It acknowledges what is durable, whatever of what comes before is.
    OutOfOrder,
    /// A life takes over what is behind a hole.
    HolePassed,
    /// What was taken counts as archived.
    ArchivedEarly,
    /// Log goes from the long-term log whether it is archived or not.
    FreedUnarchived,
    /// Who has lost the archive publishes behind whatever is the newest manifest.
    ZombiePublishes,
    /// Who publishes does not look whether a number that it got was free again.
    NumberAgain,
    /// Who has lost the archive publishes a merged run behind whatever is the newest manifest.
    MergesAfterLoss,
    /// A merged run takes the place of what there was when the merge began.
    MergedOverAppended,
    /// What was merged is deleted before a manifest names the merged run.
    DeletesBeforeNamed,
    /// Leases are listed before it is said that something is about to go, and not after that.
    ExpiresLeased,
}

#[derive(Clone, Debug)]
enum Event {
    /// A primary starts, or looks again whether it may.
    Start,
    Append(u32),
    Written(u32, usize),
    Renew(u32),
    Announce(u32),
    CrashPrimary,
    PausePrimary,
    Resume(u32),
    ToXlog(u32, Box<Input>),
    /// The file is found, and then read.
    Find(u32, Reader, Lsn),
    ReadNow(u32, Reader, Lsn, Option<u32>),
    Destage(u32, Vec<Arc<Piece>>),
    Tick(u32),
    CrashXlog,
    StartXlog,
    ToPrimary(u32, Lsn),
    Ask(usize),
    Answered(usize, u64, Vec<Arc<Piece>>),
    CrashConsumer(usize),
    /// Of archiving: by which of them, in which of its lives, and for which of its steps.
    StartAgent(usize),
    CrashAgent(usize),
    PauseAgent(usize),
    Store(usize, u32, u64, Box<Effect>),
    Stepped(usize, u32, u64, Box<Done>),
    Expire(usize, u32),
    Lock(usize, u32, u64, Who, Box<Edit>),
    /// Of merging and giving up.
    Keep(usize, u32, u64, Box<KeepEffect>),
    Kept(usize, u32, u64, TaskDone),
    Backup,
    Read(usize, ReaderStep),
}

/// Blocks on their way to the zone.
struct Flight {
    from: usize,
    upto: usize,
    /// They are durable, and their primary knows.
    is_durable: bool,
}

/// Of one epoch: blocks by their places, with holes.
type File = BTreeMap<Lsn, Arc<Piece>>;

/// What a reader finds from `from` on: up to the first hole.
fn in_a_row(file: &File, from: Lsn) -> Vec<Arc<Piece>> {
    let (mut at, mut row) = (from, Vec::<Arc<Piece>>::new());
    while let Some(piece) = file.get(&at) {
        if row.last().is_some_and(|last| piece.prev != last.lsn || piece.epoch < last.epoch) {
            break;
        }
        at = piece.next;
        row.push(Arc::clone(piece));
    }
    row
}

/// One that writes.
struct Life {
    start: Lsn,
    held: Held,
    /// Of the record that it has written last.
    number: u64,
    /// Everything that it has appended, from the zone's begin on; acknowledged are the first `acked`.
    log: Vec<Arc<Piece>>,
    acked: usize,
    flights: VecDeque<Flight>,
    /// It knows that another one has the log.
    dead: bool,
    paused_until: Duration,
    /// What came while it was paused.
    late: Vec<Event>,
}

struct Xlog {
    incarnation: u32,
    core: Core,
}

#[derive(Default)]
struct Consumer {
    /// All that it was given.
    log: Vec<Arc<Piece>>,
    asked: u64,
}

struct World {
    rng: SmallRng,
    now: Duration,
    order: u64,
    queue: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    events: HashMap<usize, Event>,
    mistake: Mistake,
    /// The record: number, the epoch that has it.
    record: (u64, u32),
    waiting: Waiting,
    lives: BTreeMap<u32, Life>,
    /// The newest life that was started and has not crashed.
    current: Option<u32>,
    /// In the zone: by epoch, what is durable, copied from the life before at its start.
    zone: BTreeMap<u32, File>,
    freed: Lsn,
    long_term: BTreeMap<Lsn, Vec<Arc<Piece>>>,
    xlog: Option<Xlog>,
    incarnations: u32,
    consumers: Vec<Consumer>,
    asks: u64,
    acknowledged: BTreeMap<Lsn, Arc<Piece>>,
    wrong: Option<String>,
    lives_begun: u32,
    overtaken: u32,
    holes: u32,
    seeded: u32,
    agents: Vec<Agent>,
    archive: ArchiveStore,
}

fn config(planted: Planted) -> CoreConfig {
    CoreConfig {
        pending_bytes: 4000,
        sequence_bytes: 3000,
        object_bytes: 2000,
        destage: Duration::from_millis(300),
        gap: Duration::from_millis(3),
        look: Duration::from_millis(100),
        again: Duration::from_millis(20),
        future: Duration::from_secs(600),
        planted,
    }
}

fn ms(from: u64, to: u64, rng: &mut SmallRng) -> Duration {
    Duration::from_micros(rng.random_range(from * 1000..=to * 1000))
}

impl World {
    fn new(seed: u64, mistake: Mistake) -> Self {
        let mut this = Self {
            rng: SmallRng::seed_from_u64(seed),
            now: Duration::from_secs(1),
            order: 0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            mistake,
            record: (0, 0),
            waiting: Waiting::default(),
            lives: BTreeMap::new(),
            current: None,
            zone: BTreeMap::new(),
            freed: FIRST,
            long_term: BTreeMap::new(),
            xlog: None,
            incarnations: 0,
            consumers: (0..2).map(|_| Consumer::default()).collect(),
            asks: 0,
            acknowledged: BTreeMap::new(),
            wrong: None,
            lives_begun: 0,
            overtaken: 0,
            holes: 0,
            seeded: 0,
            agents: (0..AGENTS).map(|_| Agent::default()).collect(),
            archive: ArchiveStore::default(),
        };
        this.after(Duration::ZERO, Event::Start);
        this.after(Duration::ZERO, Event::StartXlog);
        for number in 0..this.consumers.len() {
            this.after(Duration::ZERO, Event::Ask(number));
        }
        for number in 0..AGENTS {
            this.after(Duration::ZERO, Event::StartAgent(number));
        }
        this.after(Duration::from_millis(500), Event::Backup);
        for reader in 0..READERS {
            this.after(Duration::from_millis(700), Event::Read(reader, ReaderStep::Choose));
        }
        let mut at = Duration::from_secs(1);
        while at < BAD {
            at += ms(50, 1500, &mut this.rng);
            let event = match this.rng.random_range(0..10) {
                0..3 => Event::CrashPrimary,
                3..7 => Event::PausePrimary,
                7..9 => Event::CrashXlog,
                _ => Event::CrashConsumer(this.rng.random_range(0..2)),
            };
            this.at(at, event);
            let number = this.rng.random_range(0..AGENTS);
            let event = if this.rng.random_bool(0.4) { Event::CrashAgent(number) } else { Event::PauseAgent(number) };
            let pause = ms(0, 300, &mut this.rng);
            this.at(at + pause, event);
        }
        this
    }

    fn is_bad(&self) -> bool {
        self.now < BAD
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, self.order as usize)));
        self.events.insert(self.order as usize, event);
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.at(self.now + time, event);
    }

    /// Over the network.
    fn send(&mut self, event: Event) {
        if self.is_bad() && self.rng.random_bool(0.25) {
            return;
        }
        for _ in 0..if self.is_bad() && self.rng.random_bool(0.1) { 2 } else { 1 } {
            let slow = self.is_bad() && self.rng.random_bool(0.05);
            let delay = ms(0, if slow { 1500 } else { 4 }, &mut self.rng);
            self.after(delay, event.clone());
        }
    }

    fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    fn run(mut self) -> Result<[u32; 9], String> {
        while let Some(Reverse((at, _, id))) = self.queue.pop() {
            if at > END || self.wrong.is_some() {
                break;
            }
            self.now = at;
            let Some(event) = self.events.remove(&id) else { continue };
            self.handle(event);
        }
        if self.wrong.is_none() {
            self.at_end();
        }
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => {
                let ArchiveStore { claims, lost, merges, passes, leased, .. } = self.archive;
                Ok([self.lives_begun, self.overtaken, self.holes, claims, lost, self.seeded, merges, passes, leased])
            }
        }
    }

    /// The newest life's log is the history.
    fn history(&self) -> BTreeMap<Lsn, Arc<Piece>> {
        let newest = self.lives.last_key_value().map(|(_, life)| life.log.clone()).unwrap_or_default();
        newest.into_iter().map(|piece| (piece.lsn, piece)).collect()
    }

    fn at_end(&mut self) {
        let history = self.history();
        let Some(life) = self.lives.last_key_value().map(|(_, life)| life) else { return };
        let acked = life.log.get(..life.acked).and_then(|log| log.last()).map_or(FIRST, |piece| piece.next);
        let mut wrong = Vec::new();
        for (number, consumer) in self.consumers.iter().enumerate() {
            let end = consumer.log.last().map_or(FIRST, |piece| piece.next);
            // The last ones may be on their way.
            if end.0 + 4096 < acked.0 {
                wrong.push(format!("consumer {number} is at {end}, acknowledged is {acked}"));
            }
            for piece in &consumer.log {
                if history.get(&piece.lsn) != Some(piece) {
                    wrong.push(format!(
                        "consumer {number} has a block at {} of epoch {} that is not of the history",
                        piece.lsn, piece.epoch
                    ));
                }
            }
        }
        let mut at = self.oldest();
        for piece in self.long_term.values().flatten() {
            if piece.lsn != at || history.get(&piece.lsn) != Some(piece) {
                wrong.push(format!("the long-term log has a wrong block at {}", piece.lsn));
            }
            at = piece.next;
        }
        for (lsn, piece) in &self.acknowledged {
            if history.get(lsn) != Some(piece) {
                wrong.push(format!("the acknowledged block at {lsn} of epoch {} is lost", piece.epoch));
            }
        }
        wrong.extend(self.archive_at_end(&history, acked));
        if self.freed > at {
            wrong.push(format!("the zone is given up below {}, the long-term log ends at {at}", self.freed));
        }
        if acked == FIRST {
            wrong.push("nothing was acknowledged".into());
        }
        if let Some(first) = wrong.into_iter().next() {
            self.fail(first);
        }
    }

    fn handle(&mut self, event: Event) {
        // A paused process does nothing.
        let of = match &event {
            Event::Append(epoch) | Event::Written(epoch, _) | Event::Renew(epoch) | Event::Announce(epoch) => {
                Some(*epoch)
            }
            Event::ToPrimary(epoch, _) => Some(*epoch),
            _ => None,
        };
        if let Some(epoch) = of {
            if let Event::Written(_, upto) = event {
                let flights = self.lives.get(&epoch).map(|life| &life.flights);
                let flight = flights.and_then(|flights| flights.iter().find(|flight| flight.upto == upto));
                if let Some(flight) = flight {
                    self.became_durable(epoch, flight.from, upto);
                }
            }
            let now = self.now;
            let Some(life) = self.lives.get_mut(&epoch) else { return };
            if life.dead {
                return;
            }
            if life.paused_until > now {
                life.late.push(event);
                return;
            }
        }
        match event {
            Event::Start => self.start_primary(),
            Event::Append(epoch) => self.append(epoch),
            Event::Written(epoch, upto) => self.written(epoch, upto),
            Event::Renew(epoch) => self.renew(epoch),
            Event::Announce(epoch) => self.announce(epoch, true),
            Event::CrashPrimary => {
                if let Some(epoch) = self.current.take() {
                    // What was being written may be durable, or the first of each flight.
                    let under_way: Vec<_> =
                        self.lives[&epoch].flights.iter().map(|flight| (flight.from, flight.upto)).collect();
                    for (from, upto) in under_way {
                        let end = self.rng.random_range(from..=upto);
                        self.became_durable(epoch, from, end);
                    }
                    self.lives.remove(&epoch);
                    let pause = ms(1, 300, &mut self.rng);
                    self.after(pause, Event::Start);
                }
            }
            Event::PausePrimary => {
                if let Some(epoch) = self.current {
                    let time = ms(10, 2500, &mut self.rng);
                    let until = self.now + time;
                    if let Some(life) = self.lives.get_mut(&epoch) {
                        life.paused_until = until;
                    }
                    self.at(until, Event::Resume(epoch));
                    // Somebody finds it silent, and starts another one.
                    if self.rng.random_bool(0.7) {
                        self.current = None;
                        let pause = ms(1, 500, &mut self.rng);
                        self.after(pause, Event::Start);
                    }
                }
            }
            Event::Resume(epoch) => {
                let Some(life) = self.lives.get_mut(&epoch) else { return };
                life.paused_until = Duration::ZERO;
                for event in std::mem::take(&mut life.late) {
                    // What was durable then is so already.
                    self.after(Duration::ZERO, event);
                }
            }
            Event::ToXlog(incarnation, input) => {
                // What comes from outside reaches whoever is there now.
                if incarnation == 0 || self.xlog.as_ref().is_some_and(|xlog| xlog.incarnation == incarnation) {
                    self.step(*input);
                }
            }
            Event::Find(incarnation, reader, from) => {
                let file = self.zone.last_key_value().map(|(epoch, _)| *epoch);
                let pause = self.disk();
                self.after(pause, Event::ReadNow(incarnation, reader, from, file));
            }
            Event::ReadNow(incarnation, reader, from, file) => {
                let (pieces, proven) = self.read(from, file);
                let rest = self.disk();
                self.after(rest, Event::ToXlog(incarnation, Box::new(Input::Read { reader, from, pieces, proven })));
            }
            Event::Destage(incarnation, pieces) => {
                let outcome = self.put(pieces);
                self.after(
                    Duration::from_millis(1),
                    Event::ToXlog(incarnation, Box::new(Input::Destaged { end: outcome })),
                );
            }
            Event::Tick(incarnation) => {
                if self.xlog.as_ref().is_some_and(|xlog| xlog.incarnation == incarnation) {
                    self.step(Input::Tick);
                    self.after(Duration::from_millis(10), Event::Tick(incarnation));
                }
            }
            Event::CrashXlog => {
                if self.xlog.take().is_some() {
                    // The same process.
                    self.handle(Event::CrashAgent(0));
                    let pause = ms(1, 500, &mut self.rng);
                    self.after(pause, Event::StartXlog);
                }
            }
            Event::StartXlog => self.start_xlog(),
            Event::ToPrimary(epoch, destaged) => {
                if self.lives.contains_key(&epoch) {
                    self.freed = self.freed.max(destaged);
                    let end = self.long_term.values().flatten().last().map_or(FIRST, |piece| piece.next);
                    if destaged > end {
                        self.fail(format!("the zone is given up below {destaged}, the long-term log ends at {end}"));
                    }
                }
            }
            Event::StartAgent(_)
            | Event::CrashAgent(_)
            | Event::PauseAgent(_)
            | Event::Store(..)
            | Event::Stepped(..)
            | Event::Lock(..)
            | Event::Expire(..) => self.archiving(event),
            Event::Keep(..) | Event::Kept(..) | Event::Backup | Event::Read(..) => self.keeping(event),
            Event::Ask(number) => self.ask(number),
            Event::Answered(number, asked, pieces) => {
                let consumer = &mut self.consumers[number];
                if consumer.asked != asked {
                    return;
                }
                for piece in pieces {
                    let (at, last) =
                        consumer.log.last().map_or((FIRST, None), |piece| (piece.next, Some((piece.lsn, piece.epoch))));
                    let follows = last.is_none_or(|(lsn, epoch)| piece.prev == lsn && piece.epoch >= epoch);
                    if piece.lsn != at || !follows {
                        let what = format!(
                            "consumer {number} is at {at} and was given a block at {} that does not follow",
                            piece.lsn
                        );
                        return self.fail(what);
                    }
                    consumer.log.push(piece);
                }
                consumer.asked = 0;
                self.after(Duration::from_millis(1), Event::Ask(number));
            }
            Event::CrashConsumer(number) => {
                let consumer = &mut self.consumers[number];
                let keep = self.rng.random_range(0..=consumer.log.len());
                consumer.log.truncate(keep);
                consumer.asked = 0;
                self.after(Duration::from_millis(5), Event::Ask(number));
            }
        }
    }

    /// How long a step of a read takes.
    fn disk(&mut self) -> Duration {
        let slow = match self.is_bad() {
            true if self.rng.random_bool(0.3) => 2500,
            true => 60,
            false => 2,
        };
        ms(0, slow, &mut self.rng)
    }

    fn became_durable(&mut self, epoch: u32, from: usize, upto: usize) {
        let Some(life) = self.lives.get(&epoch) else { return };
        let file = self.zone.entry(epoch).or_default();
        file.extend(life.log[from..upto].iter().map(|piece| (piece.lsn, Arc::clone(piece))));
    }

    fn start_primary(&mut self) {
        if self.current.is_some() {
            return;
        }
        let (number, _) = self.record;
        let decision = self.waiting.look(self.now, number, LEASE, number == 0);
        if let Decision::Wait(left) = decision {
            let pause = left.min(Duration::from_millis(30)).max(Duration::from_micros(1));
            return self.after(pause, Event::Start);
        }
        let epoch = self.record.1 + 2;
        self.record = (number + 1, epoch);
        self.waiting = Waiting::default();
        let before = self.zone.last_key_value().map(|(_, file)| file.clone()).unwrap_or_default();
        let log = match self.mistake {
            Mistake::HolePassed => before.values().cloned().collect(),
            _ => in_a_row(&before, FIRST),
        };
        self.holes +=
            u32::from(before.last_key_value().is_some_and(|(lsn, _)| log.last().is_none_or(|end| end.lsn < *lsn)));
        let start = log.last().map_or(FIRST, |piece| piece.next);
        let here: BTreeMap<Lsn, &Arc<Piece>> = log.iter().map(|piece| (piece.lsn, piece)).collect();
        if let Some((lsn, _)) = self.acknowledged.iter().find(|(lsn, piece)| here.get(lsn) != Some(piece)) {
            return self.fail(format!("the block at {lsn} was acknowledged, and is not in the log of epoch {epoch}"));
        }
        self.zone.insert(epoch, log.iter().map(|piece| (piece.lsn, Arc::clone(piece))).collect());
        let acked = log.len();
        let life = Life {
            start,
            held: Held::new(LEASE, self.now),
            number: number + 1,
            log,
            acked,
            flights: VecDeque::new(),
            dead: false,
            paused_until: Duration::ZERO,
            late: Vec::new(),
        };
        self.lives.insert(epoch, life);
        self.current = Some(epoch);
        self.lives_begun += 1;
        for piece in &self.lives[&epoch].log {
            self.acknowledged.entry(piece.lsn).or_insert_with(|| Arc::clone(piece));
        }
        self.after(Duration::ZERO, Event::Announce(epoch));
        self.after(Duration::ZERO, Event::Append(epoch));
        self.after(LEASE / 4, Event::Renew(epoch));
    }

    fn renew(&mut self, epoch: u32) {
        let now = self.now;
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        if self.record.0 != life.number {
            self.overtaken += 1;
            if self.mistake == Mistake::OldPrimaryAcknowledges {
                return;
            }
            life.dead = true;
            if self.current == Some(epoch) {
                self.current = None;
                self.after(Duration::ZERO, Event::Start);
            }
            // What it has under way becomes durable all the same.
            return;
        }
        self.record.0 += 1;
        life.number = self.record.0;
        life.held = life.held.renewed(now);
        self.after(LEASE / 4, Event::Renew(epoch));
    }

    /// A batch of blocks is written to the zone, and sent to the log service.
    fn append(&mut self, epoch: u32) {
        let pause = ms(1, 60, &mut self.rng);
        let stops = self.now + REST > END;
        if !stops {
            self.after(pause, Event::Append(epoch));
        }
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        if life.flights.len() >= FLIGHTS_MAX {
            return;
        }
        let from = life.log.len();
        let durable = life.log.get(..life.acked).and_then(|log| log.last()).map_or(FIRST, |piece| piece.next);
        for _ in 0..self.rng.random_range(1..4) {
            let (lsn, prev) = life.log.last().map_or((FIRST, Lsn::NONE), |piece| (piece.next, piece.lsn));
            let len = self.rng.random_range(1..4) * 100;
            // What a life writes at a position is no other's.
            let mut bytes = vec![0; len];
            self.rng.fill(&mut bytes[..]);
            let next = Lsn(lsn.0 + len as u64);
            life.log.push(Arc::new(Piece { lsn, next, prev, epoch, durable, bytes }));
        }
        let upto = life.log.len();
        life.flights.push_back(Flight { from, upto, is_durable: false });
        let sent: Vec<_> = life.log[from..upto].to_vec();
        let slow = if self.is_bad() { 40 } else { 4 };
        let took = ms(0, slow, &mut self.rng);
        self.after(took, Event::Written(epoch, upto));
        for piece in sent {
            self.send(Event::ToXlog(0, Box::new(Input::Block((*piece).clone()))));
        }
    }

    /// It is durable, and its primary is told.
    fn written(&mut self, epoch: u32, upto: usize) {
        let now = self.now;
        let number = self.record.0;
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        let Some(flight) = life.flights.iter_mut().find(|flight| flight.upto == upto) else { return };
        flight.is_durable = true;
        let mut row = life.acked;
        while let Some(flight) = life.flights.pop_front_if(|flight| flight.is_durable) {
            row = flight.upto;
        }
        let upto = if self.mistake == Mistake::OutOfOrder { upto.max(row) } else { row };
        if upto <= life.acked {
            return;
        }
        if !life.held.is_valid(now) && self.mistake != Mistake::OldPrimaryAcknowledges {
            // Nobody has come: it is renewed. Otherwise it is over.
            if number != life.number {
                return self.renew(epoch);
            }
            self.record.0 += 1;
            life.number = self.record.0;
            life.held = life.held.renewed(now);
        }
        let acked: Vec<_> = life.log[life.acked..upto].to_vec();
        life.acked = upto;
        for piece in acked {
            match self.acknowledged.get(&piece.lsn) {
                Some(other) if *other != piece => {
                    let what =
                        format!("the position {} was acknowledged by epochs {} and {epoch}", piece.lsn, other.epoch);
                    return self.fail(what);
                }
                _ => {
                    self.acknowledged.insert(piece.lsn, piece);
                }
            }
        }
        self.announce(epoch, false);
    }

    fn announce(&mut self, epoch: u32, again: bool) {
        let Some(life) = self.lives.get(&epoch) else { return };
        let hardened = life.log.get(..life.acked).and_then(|log| log.last()).map_or(FIRST, |piece| piece.next);
        let input = Input::Announce { epoch, start: life.start, hardened, zone_bound: 20_000 };
        self.send(Event::ToXlog(0, Box::new(input)));
        if let Some(xlog) = &self.xlog {
            let destaged = xlog.core.status().destaged;
            self.send(Event::ToPrimary(epoch, destaged));
        }
        if again {
            self.after(Duration::from_millis(40), Event::Announce(epoch));
        }
    }

    /// From the zone, or the long-term log.
    fn read(&mut self, from: Lsn, file: Option<u32>) -> (Option<Vec<Piece>>, Lsn) {
        if self.is_bad() && self.rng.random_bool(0.1) {
            return (None, Lsn::NONE);
        }
        let few = self.rng.random_range(1..12);
        let some = |log: &[Arc<Piece>]| -> Vec<Piece> {
            let at = log.partition_point(|piece| piece.lsn < from);
            log[at..].iter().take(few).map(|piece| (**piece).clone()).collect()
        };
        if from >= self.freed && self.rng.random_bool(0.8) {
            let log = file.and_then(|epoch| self.zone.get(&epoch)).map(|file| in_a_row(file, from)).unwrap_or_default();
            return (Some(some(&log)), Lsn::NONE);
        }
        match self.long_term.range(..=from).next_back() {
            Some((_, object)) => {
                let end = object.last().map_or(Lsn::NONE, |piece| piece.next);
                (Some(some(object)), if end > from { end } else { Lsn::NONE })
            }
            None => (Some(Vec::new()), Lsn::NONE),
        }
    }

    fn put(&mut self, pieces: Vec<Arc<Piece>>) -> Option<Lsn> {
        let start = pieces.first()?.lsn;
        if self.is_bad() && self.rng.random_bool(0.2) {
            return None;
        }
        let object = self.long_term.entry(start).or_insert(pieces);
        let end = object.last().map(|piece| piece.next);
        // It is there, and the answer is lost.
        if self.is_bad() && self.rng.random_bool(0.2) { None } else { end }
    }

    fn start_xlog(&mut self) {
        if self.xlog.is_some() {
            return;
        }
        self.incarnations += 1;
        let last = self.long_term.values().flatten().last();
        let end = match last {
            Some(piece) => Position { lsn: piece.next, before: Some((piece.lsn, piece.epoch)) },
            None => Position { lsn: FIRST, before: None },
        };
        let planted = match self.mistake {
            Mistake::Core(planted) => planted,
            _ => Planted::Nothing,
        };
        let core = Core::new(config(planted), self.oldest(), end);
        self.xlog = Some(Xlog { incarnation: self.incarnations, core });
        self.after(Duration::ZERO, Event::Tick(self.incarnations));
    }

    fn step(&mut self, input: Input) {
        let Some(xlog) = &mut self.xlog else { return };
        let incarnation = xlog.incarnation;
        for output in xlog.core.step(self.now, input) {
            match output {
                Output::Answer { id, pieces, .. } => match id % (2 + AGENTS as u64) {
                    number @ 0..2 => self.send(Event::Answered(number as usize, id, pieces)),
                    number => self.answered_to_agent(number as usize - 2, id, Done::Pulled(pieces)),
                },
                Output::Gone { id, oldest } if id % (2 + AGENTS as u64) < 2 => {
                    self.seed((id % (2 + AGENTS as u64)) as usize, id, oldest);
                }
                // Another one has archived it since, and it is gone.
                Output::Gone { id, .. } => {
                    let number = (id % (2 + AGENTS as u64)) as usize - 2;
                    self.answered_to_agent(number, id, Done::Refused);
                }
                Output::NoBlock { .. } | Output::Future { .. } => {
                    self.fail(format!("a consumer was refused: {output:?}"));
                }
                Output::Read { reader, from } => {
                    let before = ms(0, 8, &mut self.rng);
                    self.after(before, Event::Find(incarnation, reader, from));
                }
                Output::Destage { pieces } => {
                    let took = ms(1, 80, &mut self.rng);
                    self.after(took, Event::Destage(incarnation, pieces));
                }
                Output::Moved(_) => {}
            }
        }
    }

    /// Where the long-term log begins.
    fn oldest(&self) -> Lsn {
        self.long_term.first_key_value().map_or(FIRST, |(start, _)| *start)
    }

    /// A consumer has come too late for the log: it begins anew, from the archive.
    fn seed(&mut self, number: usize, id: u64, oldest: Lsn) {
        if self.consumers[number].asked != id {
            return;
        }
        let log = match self.archive.log() {
            Ok(log) => log,
            Err(what) => return self.fail(what),
        };
        let end = log.last().map_or(FIRST, |piece| piece.next);
        if end < oldest {
            return self.fail(format!("the archive ends at {end}, and the log is kept from {oldest} on"));
        }
        self.consumers[number].log = log;
        self.seeded += 1;
        self.after(Duration::from_millis(1), Event::Answered(number, id, Vec::new()));
    }

    fn ask(&mut self, number: usize) {
        self.asks += 1;
        let id = self.asks * (2 + AGENTS as u64) + number as u64;
        let consumer = &mut self.consumers[number];
        consumer.asked = id;
        let from = consumer.log.last().map_or(FIRST, |piece| piece.next);
        let pull = Input::Pull { id, from, bytes_max: 4000, wait: Duration::from_millis(100) };
        self.send(Event::ToXlog(0, Box::new(pull)));
        // It is asked again if nothing comes.
        self.after(Duration::from_millis(150), Event::Answered(number, id, Vec::new()));
    }
}

/// Those that failed; lives, those that were overtaken, and those that began before a hole; claims of the archive, those that were told of another
/// one's, and consumers that began anew; merges, passes that gave something up, and leases that held.
fn schedules(from: u64, count: u64, mistake: Mistake) -> (u64, [u64; 9]) {
    let (mut failed, mut met) = (0, [0; 9]);
    for seed in from..from + count {
        match World::new(seed, mistake).run() {
            Ok(one) => met.iter_mut().zip(one).for_each(|(sum, one)| *sum += u64::from(one)),
            Err(what) if mistake == Mistake::Core(Planted::Nothing) => panic!("RESURGAM_SEED={seed}: {what}"),
            Err(_) => failed += 1,
        }
    }
    (failed, met)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_and_nothing_is_given_out_too_early() {
    let (from, count) = match number("RESURGAM_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("RESURGAM_SCHEDULES").unwrap_or(10_000)),
    };
    let (_, met) = schedules(from, count, Mistake::Core(Planted::Nothing));
    let [lives, overtaken, holes, claims, lost, seeded, merges, passes, leased] = met;
    println!("{count} schedules, {lives} lives of primaries, {overtaken} overtaken, {holes} that began before a hole");
    println!("the archive was claimed {claims} times, lost {lost} times; {seeded} consumers began anew from it");
    assert!(count == 1 || (lives > 2 * count && overtaken > count / 4 && holes > count / 32));
    println!("{merges} merges, {passes} passes that gave something up beside {leased} leases");
    assert!(count == 1 || (claims > 2 * count && lost > count / 4 && seeded > count / 32));
    assert!(count == 1 || (merges > 4 * count && passes > 2 * count && leased > 2 * count));
}

#[test]
fn planted_mistakes_are_found() {
    let all = [
        ("before it is hardened", Mistake::Core(Planted::BeforeHardened)),
        ("by LSN alone", Mistake::Core(Planted::ByLsnAlone)),
        ("destaged early", Mistake::Core(Planted::DestagedEarly)),
        ("judged late", Mistake::Core(Planted::JudgedLate)),
        ("an old primary that acknowledges", Mistake::OldPrimaryAcknowledges),
        ("acknowledged out of order", Mistake::OutOfOrder),
        ("behind a hole", Mistake::HolePassed),
        ("archived before there is a run", Mistake::ArchivedEarly),
        ("freed before it is archived", Mistake::FreedUnarchived),
        ("who has lost the archive publishes", Mistake::ZombiePublishes),
        ("a number that was free again", Mistake::NumberAgain),
        ("who has lost the archive publishes what it merged", Mistake::MergesAfterLoss),
        ("merged over what was appended meanwhile", Mistake::MergedOverAppended),
        ("what was merged is deleted before it is named", Mistake::DeletesBeforeNamed),
        ("given up though a lease needs it", Mistake::ExpiresLeased),
    ];
    for (name, mistake) in all {
        let count = match mistake {
            Mistake::Core(Planted::JudgedLate) => 4000,
            Mistake::MergesAfterLoss | Mistake::ExpiresLeased => 1000,
            _ => 200,
        };
        let (failed, _) = schedules(1, count, mistake);
        println!("{name}: found in {failed} of {count} schedules");
        assert!(failed > 0, "{name}");
    }
}
