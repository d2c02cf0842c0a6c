//! The scheduler: one clock, one queue of what happens next, one network that loses, delays, reorders, doubles and is cut, and the state of all tiers.
//! Everything runs in one thread and is a pure function of the seed.
//!
//! The engine is no state machine: its calls block. What blocks it (a page that is missing, a write to the landing zone, the wait for a lease) runs
//! the scheduler from within, until that is over ([`Sim::pass`]): the other tiers go on, the primary may be killed, and another one may be
//! started, meanwhile. So nothing that happens here may call an engine, but what starts another one.
//!
//! Locks: `net` is held for a moment and nothing else is taken under it; `state` while an event is handled, in which stores may be used (which take
//! `net`), and never an engine, nor a holder of the lease.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_engine::{Lsn, PageId};
use resurgam_pageserver::Partitions;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};
use resurgam_xlog::{Piece, Reader};

use crate::harness::rng::Rng;
use crate::history::History;
use crate::pages::{Given, Server};
use crate::primary::Process;
use crate::xlog::{LogTier, PartOfLog};

/// Microseconds of the clock of all.
pub type Micros = u64;

pub const MS: Micros = 1000;
/// The world is bad until then, and good afterwards.
pub const BAD: Micros = 5000 * MS;
pub const LEASE: Duration = Duration::from_millis(240);
/// Where the log is, for all who reach the landing zone.
pub const ZONE: &str = "/zone";
pub const ZONE_LOG: &str = "/zone/log";

/// A mistake that has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    /// Of the log service.
    Core(resurgam_xlog::Planted),
    /// A primary does not look at its lease before it acknowledges.
    OldPrimaryAcknowledges,
    /// A primary that has lost the log uses pages that come nevertheless.
    NotFenced,
    /// A page is given without waiting for the log that it was asked for with, or a block short of it.
    NoWait,
    WaitShort,
    /// What is left out of the log for a page server that has some of the pages has blocks that matter.
    Drops,
    /// A page server's mark is written before its pages.
    EarlyMark,
    /// Of the primary's cache of pages.
    Cache(resurgam_rbpex::Planted),
}

/// Who sends and is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Primary(usize),
    Xlog(usize),
    Server(usize),
    Zone,
    Store,
}

/// What a primary sends with its blocks.
#[derive(Debug)]
pub struct Said {
    pub epoch: u32,
    pub start: Lsn,
    pub hardened: Lsn,
    pub blocks: Vec<(Lsn, Vec<u8>)>,
}

/// A page that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub primary: usize,
    pub id: u64,
    pub page: PageId,
    pub at_least: Lsn,
    pub have: Lsn,
}

/// What happens. `life`: of a process that may be over by then.
#[derive(Clone, Debug)]
pub enum Event {
    Renew(usize),
    Say(usize),
    Disseminate {
        to: usize,
        from: usize,
        said: Arc<Said>,
    },
    Told {
        to: usize,
        destaged: Lsn,
    },
    StartXlog(usize),
    Tick {
        xlog: usize,
        life: u32,
    },
    Read {
        xlog: usize,
        life: u32,
        reader: Reader,
        from: Lsn,
    },
    HasRead {
        xlog: usize,
        life: u32,
        reader: Reader,
        from: Lsn,
        pieces: Option<Arc<Vec<Piece>>>,
        proven: Lsn,
    },
    Put {
        xlog: usize,
        life: u32,
        pieces: Vec<Arc<Piece>>,
    },
    HasPut {
        xlog: usize,
        life: u32,
        end: Option<Lsn>,
    },
    Pull {
        to: usize,
        server: usize,
        life: u32,
        asked: u64,
        from: Lsn,
        part: Option<Partitions>,
    },
    Pulled {
        to: usize,
        life: u32,
        asked: u64,
        answer: Arc<Result<PartOfLog, String>>,
    },
    StartServer(usize),
    Ask {
        server: usize,
        life: u32,
        asked: u64,
    },
    Keep {
        server: usize,
        life: u32,
    },
    GetPage {
        to: usize,
        wanted: Wanted,
    },
    GaveUp {
        server: usize,
        life: u32,
        id: u64,
    },
    Page {
        to: usize,
        id: u64,
        given: Arc<Given>,
    },
    Trouble,
    /// The zone has room again.
    Room,
}

impl Event {
    /// Who does it: a paused one does it later.
    fn by(&self) -> Option<Node> {
        match self {
            Self::Renew(p) | Self::Say(p) | Self::Told { to: p, .. } | Self::Page { to: p, .. } => {
                Some(Node::Primary(*p))
            }
            Self::Disseminate { to, .. } | Self::Pull { to, .. } => Some(Node::Xlog(*to)),
            Self::Tick { xlog, .. } | Self::HasRead { xlog, .. } | Self::HasPut { xlog, .. } => Some(Node::Xlog(*xlog)),
            Self::Pulled { to, .. } | Self::GetPage { to, .. } => Some(Node::Server(*to)),
            Self::Ask { server, .. } | Self::Keep { server, .. } | Self::GaveUp { server, .. } => {
                Some(Node::Server(*server))
            }
            // A device works on for a process that is paused.
            Self::Read { .. } | Self::Put { .. } => None,
            Self::StartXlog(_) | Self::StartServer(_) | Self::Trouble | Self::Room => None,
        }
    }
}

/// No message between the two until then.
struct Cut {
    between: [Node; 2],
    /// Only what the first one sends is lost.
    one_way: bool,
    until: Micros,
}

/// See [`Sim`].
pub struct Net {
    pub rng: Rng,
    order: u64,
    queue: BinaryHeap<Reverse<(Micros, u64)>>,
    events: BTreeMap<u64, Event>,
    cuts: Vec<Cut>,
}

/// How often something was met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub lives: u64,
    /// Primaries that were started while another one was alive; of these from within a call of it.
    pub takeovers: u64,
    pub taken_within: u64,
    /// Acknowledgements; of these refused, since another one has the log.
    pub acknowledged: u64,
    pub refused: u64,
    /// Pages that came from page servers, and that had to be waited for; asked for again.
    pub pages: u64,
    pub waited: u64,
    pub asked_again: u64,
    pub from_pending: u64,
    pub from_zone: u64,
    pub kills: u64,
    pub pauses: u64,
    pub cuts: u64,
    pub full: u64,
    pub new_machines: u64,
    pub confirmed: u64,
    pub blocks: u64,
    pub compared: u64,
    /// Pages that came to a primary that had lost the log.
    pub late_pages: u64,
    /// And were of another history, which that one could not tell by their LSN.
    pub of_another: u64,
}

impl Met {
    pub fn add(&mut self, o: &Met) {
        self.lives += o.lives;
        self.takeovers += o.takeovers;
        self.taken_within += o.taken_within;
        self.acknowledged += o.acknowledged;
        self.refused += o.refused;
        self.pages += o.pages;
        self.waited += o.waited;
        self.asked_again += o.asked_again;
        self.from_pending += o.from_pending;
        self.from_zone += o.from_zone;
        self.kills += o.kills;
        self.pauses += o.pauses;
        self.cuts += o.cuts;
        self.full += o.full;
        self.new_machines += o.new_machines;
        self.confirmed += o.confirmed;
        self.blocks += o.blocks;
        self.compared += o.compared;
        self.late_pages += o.late_pages;
        self.of_another += o.of_another;
    }
}

/// The tiers.
pub struct State {
    pub processes: Vec<Process>,
    pub xlogs: Vec<LogTier>,
    pub servers: Vec<Server>,
    pub history: History,
    /// Whose pages they are, once that is known, and where its log begins.
    pub database: Option<([u8; 16], Lsn)>,
    /// Another primary is to be started from then on, whoever is believed to have died.
    pub takeover: Option<Micros>,
    pub met: Met,
}

/// Starts another primary while one is in a call; given back by [`Sim::opened`].
type Starter = Box<dyn Fn(&Arc<Sim>) + Send + Sync>;

/// See the module.
pub struct Sim {
    now: AtomicU64,
    pub seed: u64,
    pub mistake: Mistake,
    pub segment_bytes: u64,
    pub net: Mutex<Net>,
    pub state: Mutex<State>,
    pub zone: SimVfs,
    pub store: SimVfs,
    wrong: Mutex<Option<String>>,
    pub starter: OnceLock<Starter>,
    starting: AtomicBool,
    /// The machine of a primary dies at its so many-th call to the zone or a store.
    pub dies: Mutex<Option<(usize, u64)>>,
    pub trace: bool,
    calm: AtomicBool,
}

impl Sim {
    pub fn new(seed: u64, mistake: Mistake, segment_bytes: u64, trace: bool) -> Arc<Self> {
        let net = Net {
            rng: Rng::new(seed ^ 0x006e_6574),
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            cuts: Vec::new(),
        };
        let state = State {
            processes: Vec::new(),
            xlogs: Vec::new(),
            servers: Vec::new(),
            history: History::default(),
            database: None,
            takeover: None,
            met: Met::default(),
        };
        Arc::new(Self {
            now: AtomicU64::new(1000 * MS),
            seed,
            mistake,
            segment_bytes,
            net: Mutex::new(net),
            state: Mutex::new(state),
            zone: SimVfs::new(seed ^ 0x7a6f_6e65),
            store: SimVfs::new(seed ^ 0x0073_746f),
            wrong: Mutex::default(),
            starter: OnceLock::new(),
            starting: AtomicBool::new(false),
            dies: Mutex::default(),
            trace,
            calm: AtomicBool::new(false),
        })
    }

    pub fn now(&self) -> Micros {
        self.now.load(Ordering::Relaxed)
    }

    pub fn time(&self) -> Duration {
        Duration::from_micros(self.now())
    }

    pub fn log(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9} {}", self.now(), what());
        }
    }

    /// A promise was broken.
    pub fn fail(&self, what: String) {
        self.log(|| format!("broken: {what}"));
        self.wrong.lock().get_or_insert(what);
    }

    pub fn wrong(&self) -> Option<String> {
        self.wrong.lock().clone()
    }

    /// From now on all is well, and stays so.
    pub fn heal(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.net.lock().cuts.clear();
        self.zone.set_faults(FaultPlan::default());
        let mut state = self.state.lock();
        state.takeover = None;
        state.xlogs.iter_mut().for_each(|xlog| xlog.paused_until = 0);
        state.servers.iter_mut().for_each(|server| server.paused_until = 0);
        state.processes.iter_mut().for_each(|process| process.paused_until = 0);
    }

    pub fn is_bad(&self) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.now() < BAD
    }

    pub fn below(&self, n: u64) -> u64 {
        self.net.lock().rng.below(n)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.net.lock().rng.one_in(n)
    }

    pub fn range(&self, low: u64, high: u64) -> u64 {
        self.net.lock().rng.range(low, high)
    }

    pub fn at(&self, at: Micros, event: Event) {
        let mut net = self.net.lock();
        net.order += 1;
        let order = net.order;
        net.queue.push(Reverse((at, order)));
        net.events.insert(order, event);
    }

    pub fn after(&self, time: Micros, event: Event) {
        self.at(self.now() + time, event);
    }

    /// Whether what `from` sends reaches `to` now.
    pub fn reaches(&self, from: Node, to: Node) -> bool {
        let now = self.now();
        !self.net.lock().cuts.iter().any(|cut| {
            let (there, back) = (cut.between == [from, to], cut.between == [to, from]);
            cut.until > now && (there || back && !cut.one_way)
        })
    }

    /// Over the network.
    pub fn send(&self, from: Node, to: Node, event: Event) {
        if !self.reaches(from, to) {
            return;
        }
        let is_bad = self.is_bad();
        if is_bad && self.below(100) < 12 {
            return;
        }
        for _ in 0..if is_bad && self.one_in(10) { 2 } else { 1 } {
            let slow = is_bad && self.one_in(25);
            let delay = self.below(if slow { 1200 * MS } else { 3 * MS });
            self.after(delay, event.clone());
        }
    }

    pub fn cut(&self, between: [Node; 2], one_way: bool, time: Micros) {
        let until = self.now() + time;
        let mut net = self.net.lock();
        net.cuts.retain(|cut| cut.until + 1000 * MS > until);
        net.cuts.push(Cut { between, one_way, until });
    }

    /// Until when a node does nothing.
    fn paused_until(&self, node: Node) -> Micros {
        let state = self.state.lock();
        match node {
            Node::Primary(p) => state.processes[p].paused_until,
            Node::Xlog(x) => state.xlogs[x].paused_until,
            Node::Server(s) => state.servers[s].paused_until,
            Node::Zone | Node::Store => 0,
        }
    }

    /// Handles what happens next, if that is not after `until`.
    fn step(self: &Arc<Self>, until: Micros) -> bool {
        let event = {
            let mut net = self.net.lock();
            match net.queue.peek().copied() {
                Some(Reverse((at, order))) if at <= until => {
                    net.queue.pop();
                    net.events.remove(&order).map(|event| (at, event))
                }
                _ => return false,
            }
        };
        let Some((at, event)) = event else { return true };
        self.now.fetch_max(at, Ordering::Relaxed);
        let paused = event.by().map_or(0, |node| self.paused_until(node));
        if paused > self.now() {
            self.at(paused, event);
            return true;
        }
        self.handle(event);
        true
    }

    fn handle(self: &Arc<Self>, event: Event) {
        match event {
            Event::Renew(_) | Event::Say(_) | Event::Told { .. } | Event::Page { .. } => self.handle_primary(event),
            Event::Trouble => self.trouble(),
            Event::Room => self.zone.set_faults(FaultPlan::default()),
            Event::Disseminate { .. }
            | Event::Pull { .. }
            | Event::StartXlog(_)
            | Event::Tick { .. }
            | Event::Read { .. }
            | Event::HasRead { .. }
            | Event::Put { .. }
            | Event::HasPut { .. } => self.handle_xlog(event),
            Event::StartServer(_)
            | Event::Pulled { .. }
            | Event::Ask { .. }
            | Event::Keep { .. }
            | Event::GetPage { .. }
            | Event::GaveUp { .. } => self.handle_server(event),
        }
    }

    /// Time passes, for the calls of one primary (`me`) or for nobody: until then, and until `is_over` says so, or the primary is dead. One that is
    /// paused goes on when the pause is over.
    pub fn pass(self: &Arc<Self>, until: Micros, me: Option<usize>, is_over: &mut dyn FnMut(&Sim) -> bool) {
        loop {
            if self.wrong().is_some() || me.is_some_and(|p| !self.is_alive(p)) {
                return;
            }
            let paused = me.map_or(0, |p| self.paused_until(Node::Primary(p)));
            let is_paused = paused > self.now();
            if !is_paused && (is_over(self) || self.now() >= until) {
                return;
            }
            let upto = if is_paused { paused } else { until };
            if !self.step(upto) {
                self.now.fetch_max(upto, Ordering::Relaxed);
            }
            if let Some(p) = me {
                self.take_over_within(p, is_paused);
            }
        }
    }

    /// As [`Sim::pass`], for so long.
    pub fn pass_for(self: &Arc<Self>, time: Micros, me: Option<usize>) {
        self.pass(self.now() + time, me, &mut |_| false);
    }

    /// Starts another primary from within a call of this one, if somebody believes it to be dead and it does nothing just now.
    fn take_over_within(self: &Arc<Self>, me: usize, is_paused: bool) {
        let is_idle = is_paused || !self.reaches(Node::Primary(me), Node::Zone);
        if !is_idle || !self.is_takeover_due() || self.starting.swap(true, Ordering::Relaxed) {
            return;
        }
        {
            let mut state = self.state.lock();
            state.takeover = None;
            state.met.taken_within += 1;
        }
        self.log(|| format!("another primary is started within a call of primary {me}"));
        if let Some(starter) = self.starter.get() {
            starter(self);
        }
        self.starting.store(false, Ordering::Relaxed);
    }

    pub fn is_takeover_due(&self) -> bool {
        self.is_bad() && self.state.lock().takeover.is_some_and(|at| at <= self.now())
    }

    /// Of the zone's files together.
    pub fn zone_bytes(&self) -> u64 {
        let names = self.zone.list(std::path::Path::new(ZONE_LOG)).unwrap_or_default();
        let len = |name: &String| {
            let path = std::path::Path::new(ZONE_LOG).join(name);
            self.zone.open(&path, resurgam_vfs::OpenMode::ReadOnly).and_then(|file| file.len()).unwrap_or(0)
        };
        names.iter().map(len).sum()
    }

    /// Something goes wrong.
    fn trouble(self: &Arc<Self>) {
        if !self.is_bad() {
            return;
        }
        self.after(self.range(30 * MS, 700 * MS), Event::Trouble);
        let (primaries, xlogs, servers) = {
            let state = self.state.lock();
            let alive: Vec<usize> = (0..state.processes.len()).filter(|p| state.processes[*p].alive).collect();
            (alive, state.xlogs.len() as u64, state.servers.len() as u64)
        };
        let (xlog, server) = (self.below(xlogs) as usize, self.below(servers) as usize);
        let primary = match primaries.is_empty() {
            true => None,
            false => Some(primaries[self.below(primaries.len() as u64) as usize]),
        };
        let time = self.range(20 * MS, 700 * MS);
        let what = self.below(24);
        self.log(|| {
            format!("trouble {what} for {time}: primary {primary:?}, log service {xlog}, page server {server}")
        });
        match (what, primary) {
            (0..=2, Some(p)) => self.kill_primary(p),
            (3..=7, Some(p)) => {
                let soon = self.now() + self.below(300 * MS);
                let until = self.now() + time;
                let is_believed_dead = !self.one_in(4);
                let mut state = self.state.lock();
                state.met.pauses += 1;
                state.processes[p].paused_until = until;
                if is_believed_dead {
                    state.takeover = Some(soon);
                }
            }
            (8, Some(p)) => {
                self.cut([Node::Primary(p), Node::Zone], false, time);
                let soon = self.now() + self.below(300 * MS);
                let is_believed_dead = !self.one_in(3);
                let mut state = self.state.lock();
                state.met.cuts += 1;
                if is_believed_dead {
                    state.takeover = Some(soon);
                }
            }
            (9..=10, _) => self.kill_xlog(xlog),
            (11, _) => {
                let until = self.now() + time;
                let mut state = self.state.lock();
                state.met.pauses += 1;
                state.xlogs[xlog].paused_until = until;
            }
            (12..=13, _) => self.kill_server(server),
            (14, _) => {
                let until = self.now() + time;
                let mut state = self.state.lock();
                state.met.pauses += 1;
                state.servers[server].paused_until = until;
            }
            (15, _) => {
                // The store is away.
                let mut all = vec![Node::Xlog(xlog)];
                all.extend(primary.map(Node::Primary));
                all.extend((0..servers as usize).map(Node::Server));
                for node in all {
                    self.cut([node, Node::Store], false, time);
                }
                self.state.lock().met.cuts += 1;
            }
            (16, _) => {
                let capacity = self.zone_bytes() + self.below(600_000);
                self.zone.set_faults(FaultPlan { capacity_bytes: Some(capacity), ..FaultPlan::default() });
                self.after(time, Event::Room);
                self.state.lock().met.full += 1;
            }
            (17.., Some(p)) => {
                let one_way = self.one_in(3);
                let (p, x, s) = (Node::Primary(p), Node::Xlog(xlog), Node::Server(server));
                let between = [[p, x], [x, p], [p, s], [s, x], [x, Node::Zone], [x, Node::Store], [s, Node::Store]];
                let between = between[self.below(between.len() as u64) as usize];
                self.cut(between, one_way, time);
                self.state.lock().met.cuts += 1;
            }
            _ => {}
        }
    }
}
