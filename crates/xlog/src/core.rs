//! The log service as a state machine: what comes in, and the time, decide what goes out. No I/O, no threads.
//!
//! ```text
//! block ──► pending area ──its epoch says it is hardened, and it is the next──► broker ──► who pulls
//!                              zone, from the broker's end, below what is hardened ──┘ │
//!                                                              what has gathered ──► destage ──► given up in the zone
//! ```
//!
//! # Invariants
//! 1. A block goes from the pending area to the broker only below what *its own epoch* has announced, and not below where that began; from the
//!    zone only below what any epoch has announced, or a block there says of those before it.
//! 2. What is in the broker follows what was there: LSN, predecessor, epoch.
//! 3. `destaged` moves only when the long-term log has said that it has everything below.
//! 4. Every wait has an end: a gap is filled from the zone after a moment, and the zone is looked at when nobody announces anything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, Result};

use crate::pending::Pending;
use crate::piece::Piece;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct CoreConfig {
    /// Of the pending area, and of the sequence map; of objects of the long-term log, about.
    pub pending_bytes: usize,
    pub sequence_bytes: usize,
    pub object_bytes: usize,
    /// What is gathered becomes an object after so long, however little it is; the more of the zone waits for it, the sooner.
    pub destage: Duration,
    /// A gap is filled from the zone after so long.
    pub gap: Duration,
    /// The zone is looked at when nothing was announced for so long.
    pub look: Duration,
    /// After an error, at first; it doubles up to 32 times that.
    pub again: Duration,
    /// Who asks for log behind the end that the primary announces is refused after so long.
    pub future: Duration,
    pub planted: Planted,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            pending_bytes: 64 << 20,
            sequence_bytes: 64 << 20,
            object_bytes: 8 << 20,
            destage: Duration::from_secs(10),
            gap: Duration::from_millis(5),
            look: Duration::from_millis(500),
            again: Duration::from_millis(50),
            future: Duration::from_secs(2),
            planted: Planted::Nothing,
        }
    }
}

/// Mistakes that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// Blocks are given out before they are hardened.
    BeforeHardened,
    /// The pending area does not look at epochs.
    ByLsnAlone,
    /// What was asked to be destaged counts as destaged.
    DestagedEarly,
    /// What is read from the zone is judged by what has become known since the read began.
    JudgedLate,
}

/// Whom log is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The broker: to go on from its end.
    Broker,
    Destage,
    Pull(u64),
}

/// A position in the log, and the block before it with its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub lsn: Lsn,
    /// None: any may be.
    pub before: Option<(Lsn, u32)>,
}

/// What comes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// A block from the primary; hardened or not.
    Block(Piece),
    /// Of the primary of `epoch`, whose log begins at `start`: everything below `hardened` is durable and may be acknowledged. The zone takes
    /// so many bytes at most; 0: not known.
    Announce {
        epoch: u32,
        start: Lsn,
        hardened: Lsn,
        zone_bound: u64,
    },
    /// Somebody wants the log from `from` on, within `wait`.
    Pull {
        id: u64,
        from: Lsn,
        bytes_max: usize,
        wait: Duration,
    },
    /// He does not want it any more.
    Forget {
        id: u64,
    },
    /// What was read, from `from` on: blocks in a row, checked each for itself; empty: none is there. None: it could not be read. `proven`: where
    /// they were read nothing below that is not hardened (the long-term log), or whoever wrote them has ended well; none: the zone, which has more.
    Read {
        reader: Reader,
        from: Lsn,
        pieces: Option<Vec<Piece>>,
        proven: Lsn,
    },
    /// The long-term log has everything below `end`. None: it is not known.
    Destaged {
        end: Option<Lsn>,
    },
    Tick,
}

/// What a primary says: blocks, in no order, and up to where its log is hardened.
#[derive(Clone, Copy, Debug)]
pub struct Disseminated<'a> {
    pub epoch: u32,
    pub start: Lsn,
    pub hardened: Lsn,
    pub zone_bound: u64,
    /// Each with its LSN.
    pub blocks: &'a [(Lsn, Vec<u8>)],
}

/// What goes out.
#[derive(Clone, Debug)]
pub enum Output {
    /// Blocks for who has pulled; none: there were none in time. All below `complete_to` is in them, or was asked for before.
    Answer { id: u64, pieces: Vec<Arc<Piece>>, complete_to: Lsn, hardened: Lsn },
    /// The log from there on is not kept any more, or never was there.
    Gone { id: u64, oldest: Lsn },
    /// He is behind the end of the log.
    Future { id: u64, hardened: Lsn },
    /// No block begins there, though the log around is there.
    NoBlock { id: u64 },
    /// The log is to be read from `from` on, from wherever it is: nothing that was looked up before may be used for it.
    Read { reader: Reader, from: Lsn },
    /// An object of the long-term log is to be made, from the end of the last one on.
    Destage { pieces: Vec<Arc<Piece>> },
    /// In the broker from now on: for the cache.
    Moved(Arc<Piece>),
}

/// What an operator can see.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreStatus {
    pub epoch: u32,
    pub hardened: Lsn,
    /// The end of the broker.
    pub disseminated: Lsn,
    pub destaged: Lsn,
    pub oldest: Lsn,
    pub pending_bytes: usize,
    pub sequence_bytes: usize,
    /// Blocks that came from the pending area, and from the zone.
    pub from_pending: u64,
    pub from_zone: u64,
    /// Pulls that were answered from memory, and that had to be read.
    pub from_memory: u64,
    pub from_below: u64,
}

struct Claim {
    start: Lsn,
    hardened: Lsn,
}

struct Waiting {
    from: Lsn,
    bytes_max: usize,
    since: Duration,
    until: Duration,
    /// It is being read for.
    reading: bool,
    again: Option<Duration>,
}

/// See the module.
pub struct Core {
    config: CoreConfig,
    /// Where the log that is kept begins.
    oldest: Lsn,
    /// The end of the broker.
    end: Position,
    claims: BTreeMap<u32, Claim>,
    zone_hardened: Lsn,
    zone_bound: u64,
    pending: Pending,
    sequence: VecDeque<Arc<Piece>>,
    sequence_bytes: usize,
    destaged: Lsn,
    destaging: bool,
    destage_read: bool,
    destage_again: Option<Duration>,
    destage_failures: u32,
    /// Since when something waits to be destaged.
    gathered_since: Option<Duration>,
    /// In order, so that what goes out is a function of what came in.
    pulls: BTreeMap<u64, Waiting>,
    /// Under way: with what was known to be hardened when it began.
    broker_reads: Option<Lsn>,
    broker_again: Option<Duration>,
    broker_failures: u32,
    gap_since: Option<Duration>,
    heard: Duration,
    looked: Duration,
    counts: [u64; 4],
}

impl Core {
    /// With a long-term log that reaches from `oldest` to `end`; empty where both are the same.
    pub fn new(config: CoreConfig, oldest: Lsn, end: Position) -> Self {
        Self {
            config,
            oldest,
            end,
            claims: BTreeMap::new(),
            zone_hardened: end.lsn,
            zone_bound: 0,
            pending: Pending::default(),
            sequence: VecDeque::new(),
            sequence_bytes: 0,
            destaged: end.lsn,
            destaging: false,
            destage_read: false,
            destage_again: None,
            destage_failures: 0,
            gathered_since: None,
            pulls: BTreeMap::new(),
            broker_reads: None,
            broker_again: None,
            broker_failures: 0,
            gap_since: None,
            heard: Duration::ZERO,
            looked: Duration::ZERO,
            counts: [0; 4],
        }
    }

    pub fn status(&self) -> CoreStatus {
        CoreStatus {
            epoch: self.claims.last_key_value().map_or(0, |(epoch, _)| *epoch),
            hardened: self.hardened(),
            disseminated: self.end.lsn,
            destaged: self.destaged,
            oldest: self.oldest,
            pending_bytes: self.pending.bytes(),
            sequence_bytes: self.sequence_bytes,
            from_pending: self.counts[0],
            from_zone: self.counts[1],
            from_memory: self.counts[2],
            from_below: self.counts[3],
        }
    }

    /// The long-term log begins later from now on.
    pub fn expired(&mut self, oldest: Lsn) {
        self.oldest = self.oldest.max(oldest);
    }

    fn hardened(&self) -> Lsn {
        self.claims.values().map(|claim| claim.hardened).max().unwrap_or(Lsn::NONE).max(self.zone_hardened)
    }

    /// Takes an input, and says what is to be done. `now` never goes back.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Block(piece) => self.block(piece),
            Input::Announce { epoch, start, hardened, zone_bound } => {
                self.announce(now, epoch, start, hardened, zone_bound);
            }
            Input::Pull { id, from, bytes_max, wait } => {
                let pull = Waiting { from, bytes_max, since: now, until: now + wait, reading: false, again: None };
                self.pulls.insert(id, pull);
            }
            Input::Forget { id } => {
                self.pulls.remove(&id);
            }
            Input::Read { reader, from, pieces, proven } => match reader {
                Reader::Broker => self.broker_read(now, from, pieces, proven, &mut out),
                Reader::Destage => self.destage_was_read(now, from, pieces, &mut out),
                Reader::Pull(id) => self.pull_was_read(now, id, from, pieces, &mut out),
            },
            Input::Destaged { end } => self.was_destaged(now, end),
            Input::Tick => {}
        }
        self.advance(now, &mut out);
        self.destage(now, &mut out);
        self.serve(now, &mut out);
        out
    }

    /// Takes what a primary says, looked at.
    ///
    /// # Errors
    /// `InvalidParameter`, `Corrupt` for what cannot be; `NotInPrerequisiteState` for a primary whose log another one has. Blocks before the one that
    /// is wrong are taken: what is to be done for them comes out of the next step.
    pub fn disseminate(&mut self, now: Duration, said: &Disseminated<'_>, segment_bytes: u64) -> Result<Vec<Output>> {
        let Disseminated { epoch, start, hardened, zone_bound, blocks } = *said;
        let bad = |what: &str| Err(Error::new(ErrorKind::InvalidParameter, what));
        if hardened < start || !start.0.is_multiple_of(512) || !hardened.0.is_multiple_of(512) {
            return bad("impossible positions of the log were announced");
        }
        let newest = self.status().epoch;
        if epoch < newest {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("a primary of epoch {epoch} has sent log, and another one has it under epoch {newest}"),
            ));
        }
        for (lsn, bytes) in blocks {
            let piece = Piece::parse(bytes.clone(), *lsn, segment_bytes)?;
            if piece.epoch != epoch || piece.lsn < start {
                return bad("a block of another epoch than its sender's, or from before that began");
            }
            self.block(piece);
        }
        Ok(self.step(now, Input::Announce { epoch, start, hardened, zone_bound }))
    }

    /// When a tick is due at the latest.
    pub fn next_tick(&self, now: Duration) -> Duration {
        let pulls = self.pulls.values().map(|pull| pull.again.map_or(pull.until, |again| again.min(pull.until)));
        let gap = self.gap_since.map(|since| since + self.config.gap);
        pulls.chain(gap).chain([now + self.config.look]).min().unwrap_or(now).max(now)
    }

    fn block(&mut self, piece: Piece) {
        let newest = self.claims.last_key_value().map_or(0, |(epoch, _)| *epoch);
        let is_of_now = piece.epoch >= newest || self.config.planted == Planted::ByLsnAlone;
        if piece.lsn >= self.end.lsn && is_of_now && piece.next > piece.lsn {
            self.pending.insert(piece, self.config.pending_bytes);
        }
    }

    fn announce(&mut self, now: Duration, epoch: u32, start: Lsn, hardened: Lsn, zone_bound: u64) {
        let newest = self.claims.last_key_value().map_or(0, |(epoch, _)| *epoch);
        if epoch < newest {
            // Of a life that is over. What it has acknowledged is in the zone.
            return;
        }
        self.heard = now;
        self.zone_bound = zone_bound;
        if epoch > newest {
            // What the lives before it have hardened and is not here comes from the zone: whether one lay between is not known.
            if self.config.planted != Planted::ByLsnAlone {
                self.pending.forget_epochs_below(epoch);
            }
            let before = self.hardened();
            self.claims.clear();
            self.zone_hardened = self.zone_hardened.max(before);
        }
        let claim = self.claims.entry(epoch).or_insert(Claim { start, hardened });
        claim.hardened = claim.hardened.max(hardened);
    }

    fn follows(&self, piece: &Piece) -> bool {
        piece.lsn == self.end.lsn
            && self.end.before.is_none_or(|(lsn, epoch)| piece.prev == lsn && piece.epoch >= epoch)
    }

    /// What can move to the broker does.
    fn advance(&mut self, now: Duration, out: &mut Vec<Output>) {
        while let Some(piece) = self.next_pending() {
            self.counts[0] += 1;
            self.move_to_broker(now, piece, out);
        }
        self.pending.forget_below(self.end.lsn);
        let is_behind = self.end.lsn < self.hardened();
        self.gap_since = if is_behind { self.gap_since.or(Some(now)) } else { None };
        let gap = self.gap_since.is_some_and(|since| since + self.config.gap <= now);
        let silent = self.heard.max(self.looked) + self.config.look <= now;
        if (gap || silent) && self.broker_reads.is_none() && self.broker_again.is_none_or(|again| again <= now) {
            self.broker_reads = Some(self.hardened());
            self.looked = now;
            out.push(Output::Read { reader: Reader::Broker, from: self.end.lsn });
        }
    }

    fn next_pending(&self) -> Option<Arc<Piece>> {
        let at = self.end.lsn;
        match self.config.planted {
            Planted::BeforeHardened => {
                let (epoch, _) = self.claims.last_key_value()?;
                return self.pending.get(*epoch, at).filter(|piece| self.follows(piece)).cloned();
            }
            Planted::ByLsnAlone => {
                let hardened = self.hardened();
                return self.pending.of_any_epoch(at).filter(|piece| piece.next <= hardened).cloned();
            }
            Planted::Nothing | Planted::DestagedEarly | Planted::JudgedLate => {}
        }
        let (epoch, claim) = self.claims.iter().find(|(_, claim)| claim.start <= at && at < claim.hardened)?;
        let piece = self.pending.get(*epoch, at)?;
        (piece.next <= claim.hardened && self.follows(piece)).then(|| Arc::clone(piece))
    }

    fn move_to_broker(&mut self, now: Duration, piece: Arc<Piece>, out: &mut Vec<Output>) {
        self.end = Position { lsn: piece.next, before: Some((piece.lsn, piece.epoch)) };
        self.gap_since = None;
        self.gathered_since = self.gathered_since.or(Some(now));
        self.sequence_bytes += piece.bytes.len();
        out.push(Output::Moved(Arc::clone(&piece)));
        self.sequence.push_back(piece);
        while self.sequence_bytes > self.config.sequence_bytes && self.sequence.len() > 1 {
            if let Some(oldest) = self.sequence.pop_front() {
                self.sequence_bytes -= oldest.bytes.len();
            }
        }
    }

    fn broker_read(
        &mut self,
        now: Duration,
        from: Lsn,
        pieces: Option<Vec<Piece>>,
        proven: Lsn,
        out: &mut Vec<Output>,
    ) {
        // What has become known since was not looked at by this read: the zone may have been another life's then.
        let mut known = self.broker_reads.take().unwrap_or(Lsn::NONE).max(proven);
        if self.config.planted == Planted::JudgedLate {
            known = self.hardened();
        }
        let before = self.end.lsn;
        if from == before {
            let pieces = pieces.unwrap_or_default();
            let mut at = self.end;
            for piece in &pieces {
                let follows = at.before.is_none_or(|(lsn, epoch)| piece.prev == lsn && piece.epoch >= epoch);
                if piece.lsn != at.lsn || !follows {
                    break;
                }
                known = known.max(piece.durable);
                at = Position { lsn: piece.next, before: Some((piece.lsn, piece.epoch)) };
            }
            self.zone_hardened = self.zone_hardened.max(known);
            for piece in pieces {
                if piece.next > known || !self.follows(&piece) {
                    break;
                }
                self.counts[1] += 1;
                self.move_to_broker(now, Arc::new(piece), out);
            }
        }
        let moved = self.end.lsn > before || from != before;
        self.broker_failures = if moved { 0 } else { (self.broker_failures + 1).min(5) };
        self.broker_again = (!moved).then(|| now + self.config.again * (1 << (self.broker_failures - 1)));
    }

    /// Blocks in the sequence map from `from` on; none: it is not in it.
    fn in_memory(&self, from: Lsn, bytes_max: usize) -> Option<Vec<Arc<Piece>>> {
        let at = self.sequence.partition_point(|piece| piece.lsn < from);
        self.sequence.get(at).filter(|piece| piece.lsn == from)?;
        let mut left = bytes_max.max(1);
        let fits = |piece: &&Arc<Piece>| {
            let go_on = left > 0;
            left = left.saturating_sub(piece.bytes.len());
            go_on
        };
        Some(self.sequence.range(at..).take_while(fits).cloned().collect())
    }

    /// Whether `from` is within the sequence map, or behind its begin at least.
    fn is_recent(&self, from: Lsn) -> bool {
        self.sequence.front().is_some_and(|piece| piece.lsn <= from)
    }

    /// For how long what has gathered may wait for more.
    fn patience(&self) -> Duration {
        if self.zone_bound == 0 {
            return self.config.destage;
        }
        // None is left when a quarter of the zone waits.
        let waits = self.end.lsn.0.saturating_sub(self.destaged.0);
        let left = self.zone_bound.saturating_sub(waits.saturating_mul(4));
        self.config.destage.mul_f64(left as f64 / self.zone_bound as f64)
    }

    fn destage(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.destaging || self.destage_read || self.destaged >= self.end.lsn {
            if self.destaged >= self.end.lsn {
                self.gathered_since = None;
            }
            return;
        }
        if self.destage_again.is_some_and(|again| again > now) {
            return;
        }
        let enough = self.end.lsn.0 - self.destaged.0 >= self.config.object_bytes as u64;
        let due = self.gathered_since.is_some_and(|since| since + self.patience() <= now);
        if !enough && !due {
            return;
        }
        match self.in_memory(self.destaged, self.config.object_bytes) {
            Some(pieces) => self.make_object(pieces, out),
            None => {
                self.destage_read = true;
                out.push(Output::Read { reader: Reader::Destage, from: self.destaged });
            }
        }
    }

    fn make_object(&mut self, pieces: Vec<Arc<Piece>>, out: &mut Vec<Output>) {
        if let (Planted::DestagedEarly, Some(last)) = (self.config.planted, pieces.last()) {
            self.destaged = last.next;
        }
        self.destaging = true;
        self.gathered_since = None;
        out.push(Output::Destage { pieces });
    }

    fn destage_was_read(&mut self, now: Duration, from: Lsn, pieces: Option<Vec<Piece>>, out: &mut Vec<Output>) {
        self.destage_read = false;
        if from != self.destaged {
            return;
        }
        let (pieces, _) = self.in_a_row(from, pieces.unwrap_or_default(), self.config.object_bytes);
        if pieces.is_empty() {
            return self.destage_failed(now);
        }
        self.make_object(pieces, out);
    }

    fn destage_failed(&mut self, now: Duration) {
        self.destage_failures = (self.destage_failures + 1).min(6);
        self.destage_again = Some(now + self.config.again * (1 << (self.destage_failures - 1)));
        self.gathered_since = self.gathered_since.or(Some(now));
    }

    fn was_destaged(&mut self, now: Duration, end: Option<Lsn>) {
        self.destaging = false;
        match end {
            Some(end) => {
                self.destaged = self.destaged.max(end);
                // Another log service may have made the object, and have heard of more.
                self.zone_hardened = self.zone_hardened.max(end);
                (self.destage_failures, self.destage_again) = (0, None);
                if self.destaged < self.end.lsn {
                    self.gathered_since = Some(now);
                }
            }
            None => {
                self.destage_failed(now);
                // What is there is due.
                self.gathered_since = Some(Duration::ZERO);
            }
        }
    }

    /// Those that are in a row from `from` on and below the broker's end, of about `bytes_max`, and where they end.
    fn in_a_row(&self, from: Lsn, pieces: Vec<Piece>, bytes_max: usize) -> (Vec<Arc<Piece>>, Lsn) {
        let (mut at, mut left, mut row) = (from, bytes_max.max(1), Vec::new());
        for piece in pieces {
            if piece.lsn != at || piece.next > self.end.lsn || left == 0 {
                break;
            }
            left = left.saturating_sub(piece.bytes.len());
            at = piece.next;
            row.push(Arc::new(piece));
        }
        (row, at)
    }

    fn pull_was_read(&mut self, now: Duration, id: u64, from: Lsn, pieces: Option<Vec<Piece>>, out: &mut Vec<Output>) {
        let Some(pull) = self.pulls.get_mut(&id).filter(|pull| pull.from == from) else { return };
        pull.reading = false;
        pull.again = Some(now + self.config.again);
        let bytes_max = pull.bytes_max;
        let (pieces, complete_to) = self.in_a_row(from, pieces.unwrap_or_default(), bytes_max);
        if !pieces.is_empty() {
            self.counts[3] += 1;
            self.pulls.remove(&id);
            out.push(Output::Answer { id, pieces, complete_to, hardened: self.hardened().max(complete_to) });
        }
    }

    /// Answers who can be answered, or has waited long enough.
    fn serve(&mut self, now: Duration, out: &mut Vec<Output>) {
        let hardened = self.hardened();
        let announced = !self.claims.is_empty() && self.heard + self.config.look > now;
        let ids: Vec<u64> = self.pulls.keys().copied().collect();
        for id in ids {
            let Some(pull) = self.pulls.get(&id) else { continue };
            let (from, bytes_max, over) = (pull.from, pull.bytes_max, pull.until <= now);
            let answer = if from < self.oldest {
                Some(Output::Gone { id, oldest: self.oldest })
            } else if from >= self.end.lsn {
                match announced && from > hardened && pull.since + self.config.future <= now {
                    true => Some(Output::Future { id, hardened }),
                    false if over => {
                        Some(Output::Answer { id, pieces: Vec::new(), complete_to: from, hardened: hardened.max(from) })
                    }
                    false => None,
                }
            } else if let Some(pieces) = self.in_memory(from, bytes_max) {
                self.counts[2] += 1;
                let complete_to = pieces.last().map_or(from, |piece| piece.next);
                Some(Output::Answer { id, pieces, complete_to, hardened })
            } else if self.is_recent(from) {
                Some(Output::NoBlock { id })
            } else if over {
                Some(Output::Answer { id, pieces: Vec::new(), complete_to: from, hardened: hardened.max(from) })
            } else {
                if !pull.reading && pull.again.is_none_or(|again| again <= now) {
                    if let Some(pull) = self.pulls.get_mut(&id) {
                        pull.reading = true;
                    }
                    out.push(Output::Read { reader: Reader::Pull(id), from });
                }
                None
            };
            if let Some(answer) = answer {
                self.pulls.remove(&id);
                out.push(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another log service over the same long-term log may have heard of more than this one.
    #[test]
    fn what_the_long_term_log_has_is_hardened() {
        let mut core = Core::new(CoreConfig::default(), Lsn(4096), Position { lsn: Lsn(4096), before: None });
        assert_eq!(core.status().hardened, Lsn(4096));
        core.step(Duration::from_secs(1), Input::Destaged { end: Some(Lsn(8192)) });
        assert_eq!((core.status().hardened, core.status().destaged), (Lsn(8192), Lsn(8192)));
    }
}
