//! A log service: the state machine of the crate `xlog`, what it reads from and puts into below it, and its messages.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Error, ErrorKind, Lsn, Result};
use resurgam_log::Block;
use resurgam_pageserver::Partitions;
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xlog::{Below, Core, CoreConfig, Disseminated, Found, Input, Output, Piece, Planted, StoreControl};

use crate::machine::{Machine, Place};
use crate::sim::{Event, MS, Micros, Mistake, Node, Sim, State};

pub const LONG_TERM: &str = "/long-term";
const CACHE: &str = "/cache/blocks";

/// See the module.
pub struct LogTier {
    pub life: u32,
    pub paused_until: Micros,
    disk: SimVfs,
    /// None: it is dead, or has found no log yet.
    open: Option<Open>,
}

struct Open {
    below: Arc<Below>,
    core: Core,
    /// Who asked: page server, its life, its number of what it asked; which pages matter to it.
    asks: BTreeMap<u64, (usize, u32, u64, Option<Partitions>)>,
    next: u64,
}

/// What a page server is given of the log.
#[derive(Clone, Debug, Default)]
pub struct PartOfLog {
    pub blocks: Vec<(Lsn, Vec<u8>)>,
    pub complete_to: Lsn,
    pub durable: Lsn,
    pub is_part: bool,
}

impl LogTier {
    pub fn new(seed: u64) -> Self {
        Self { life: 0, paused_until: 0, disk: SimVfs::new(seed), open: None }
    }

    /// It gives out the log up to there, and the long-term log has it up to there.
    pub fn positions(&self) -> Option<(Lsn, Lsn)> {
        let status = self.open.as_ref()?.core.status();
        Some((status.disseminated, status.destaged))
    }
}

fn config(planted: Planted) -> CoreConfig {
    CoreConfig {
        pending_bytes: 40_000,
        sequence_bytes: 30_000,
        object_bytes: 60_000,
        destage: Duration::from_millis(250),
        gap: Duration::from_millis(3),
        look: Duration::from_millis(100),
        again: Duration::from_millis(20),
        future: Duration::from_secs(600),
        planted,
    }
}

impl Sim {
    /// It dies, and its cache with it, or not.
    pub fn kill_xlog(self: &Arc<Self>, x: usize) {
        let how = self.below(3);
        let wait = self.range(MS, 400 * MS);
        let mut state = self.state.lock();
        state.met.kills += 1;
        self.count(&mut state, x);
        let xlog = &mut state.xlogs[x];
        xlog.life += 1;
        xlog.open = None;
        xlog.disk = match how {
            0 => xlog.disk.crash(),
            1 => xlog.disk.kill(),
            _ => SimVfs::new(self.seed ^ u64::from(xlog.life)),
        };
        drop(state);
        self.after(wait, Event::StartXlog(x));
    }

    /// Before it is forgotten: what it has met.
    pub fn count(&self, state: &mut State, x: usize) {
        if let Some(open) = &state.xlogs[x].open {
            let status = open.core.status();
            state.met.from_pending += status.from_pending;
            state.met.from_zone += status.from_zone;
        }
    }

    pub fn handle_xlog(self: &Arc<Self>, event: Event) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        match event {
            Event::StartXlog(x) => {
                if state.xlogs[x].open.is_some() {
                    return;
                }
                match self.open_xlog(x, &state.xlogs[x].disk) {
                    Ok(Some(open)) => {
                        self.log(|| format!("log service {x} begins: {:?}", open.core.status()));
                        state.xlogs[x].open = Some(open);
                        self.after(0, Event::Tick { xlog: x, life: state.xlogs[x].life });
                    }
                    Ok(None) | Err(_) => self.after(25 * MS, Event::StartXlog(x)),
                }
            }
            Event::Disseminate { to, from, said } => {
                let Some(open) = &mut state.xlogs[to].open else { return };
                let said = Disseminated {
                    epoch: said.epoch,
                    start: said.start,
                    hardened: said.hardened,
                    zone_bound: 4 << 20,
                    blocks: &said.blocks,
                };
                let outputs = match open.core.disseminate(self.time(), &said, self.segment_bytes) {
                    Ok(outputs) => outputs,
                    Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => return,
                    Err(error) => return self.fail(format!("log service {to} refuses a message: {error}")),
                };
                let destaged = open.core.status().destaged;
                self.send(Node::Xlog(to), Node::Primary(from), Event::Told { to: from, destaged });
                self.give(state, to, outputs);
            }
            Event::Pull { to, server, life, asked, from, part } => {
                let Some(open) = &mut state.xlogs[to].open else { return };
                open.next += 1;
                let id = open.next;
                open.asks.insert(id, (server, life, asked, part));
                let pull = Input::Pull { id, from, bytes_max: 20_000, wait: Duration::from_millis(100) };
                self.step_xlog(state, to, pull);
            }
            Event::Tick { xlog, life } if state.xlogs[xlog].life == life => {
                self.step_xlog(state, xlog, Input::Tick);
                self.after(10 * MS, Event::Tick { xlog, life });
            }
            Event::Read { xlog, life, reader, from } if state.xlogs[xlog].life == life => {
                let Some(below) = state.xlogs[xlog].open.as_ref().map(|open| Arc::clone(&open.below)) else { return };
                // It opens files, which concerns those who have written them.
                drop(guard);
                let Found { pieces, proven, .. } = below.read(reader, from);
                let pieces = pieces.map(Arc::new);
                let slow = self.is_bad() && self.one_in(4);
                let took = self.below(if slow { 1500 * MS } else { 3 * MS });
                self.after(took, Event::HasRead { xlog, life, reader, from, pieces, proven });
            }
            Event::HasRead { xlog, life, reader, from, pieces, proven } if state.xlogs[xlog].life == life => {
                let pieces = pieces.map(|pieces| (*pieces).clone());
                self.step_xlog(state, xlog, Input::Read { reader, from, pieces, proven });
            }
            Event::Put { xlog, life, pieces } if state.xlogs[xlog].life == life => {
                let Some(open) = &state.xlogs[xlog].open else { return };
                let now = i64::try_from(self.now()).unwrap_or(i64::MAX);
                let end = open.below.long_term().put(&pieces, now).ok();
                self.after(MS, Event::HasPut { xlog, life, end });
            }
            Event::HasPut { xlog, life, end } if state.xlogs[xlog].life == life => {
                self.step_xlog(state, xlog, Input::Destaged { end });
            }
            _ => {}
        }
    }

    fn open_xlog(self: &Arc<Self>, x: usize, disk: &SimVfs) -> Result<Option<Open>> {
        disk.make_folder(Path::new("/cache"))?;
        let node = Node::Xlog(x);
        let vfs: Arc<dyn Vfs> = Arc::new(Machine::new(Arc::clone(self), node, disk.clone()));
        let control = Arc::new(StoreControl::new(Arc::new(Place::zone(self, node)?), "control/"));
        let store = Arc::new(Place::store(self, node, LONG_TERM)?);
        let zone_log = Path::new(crate::sim::ZONE_LOG);
        let opened = Below::open(vfs, control, store, zone_log, (Path::new(CACHE), 60_000))?;
        let planted = match self.mistake {
            Mistake::Core(planted) => planted,
            _ => Planted::Nothing,
        };
        Ok(opened.map(|(below, oldest, position)| Open {
            below: Arc::new(below),
            core: Core::new(config(planted), oldest, position),
            asks: BTreeMap::new(),
            next: 0,
        }))
    }

    fn step_xlog(self: &Arc<Self>, state: &mut State, x: usize, input: Input) {
        let Some(open) = &mut state.xlogs[x].open else { return };
        let outputs = open.core.step(self.time(), input);
        self.give(state, x, outputs);
    }

    fn give(self: &Arc<Self>, state: &mut State, xlog: usize, outputs: Vec<Output>) {
        let life = state.xlogs[xlog].life;
        let Some(open) = &mut state.xlogs[xlog].open else { return };
        for output in outputs {
            let (id, answer) = match output {
                Output::Read { reader, from } => {
                    self.after(self.below(4 * MS), Event::Read { xlog, life, reader, from });
                    continue;
                }
                Output::Destage { pieces } => {
                    self.after(self.range(MS, 60 * MS), Event::Put { xlog, life, pieces });
                    continue;
                }
                Output::Moved(piece) => {
                    open.below.keep(&piece);
                    continue;
                }
                Output::Answer { id, pieces, complete_to, hardened } => {
                    let part = open.asks.get(&id).and_then(|(_, _, _, part)| part.clone());
                    let goes = |piece: &&Arc<Piece>| self.goes(piece, part.as_ref());
                    let blocks = pieces.iter().filter(goes).map(|piece| (piece.lsn, piece.bytes.clone())).collect();
                    (id, Ok(PartOfLog { blocks, complete_to, durable: hardened, is_part: part.is_some() }))
                }
                Output::Gone { id, .. } | Output::NoBlock { id } | Output::Future { id, .. } => {
                    (id, Err(format!("{output:?}")))
                }
            };
            let Some((server, of, asked, _)) = open.asks.remove(&id) else { continue };
            let event = Event::Pulled { to: server, life: of, asked, answer: Arc::new(answer) };
            self.send(Node::Xlog(xlog), Node::Server(server), event);
        }
    }

    /// Whether a block goes to who has these pages.
    fn goes(&self, piece: &Piece, part: Option<&Partitions>) -> bool {
        let Some(part) = part else { return true };
        let matters = match Block::parse(&piece.bytes, piece.lsn, self.segment_bytes) {
            Ok(block) => part.matters(block.records().map(Ok::<_, Error>)),
            Err(_) => true,
        };
        let dropped = self.mistake == Mistake::Drops && piece.lsn.0 / 512 % 23 == 22;
        matters && !dropped
    }
}
