//! Sequences: run, compare. A value that somebody was given is not given out again in the same life, and one that was
//! committed never, whatever is rolled back or lost. They are drawn from a generator of their own, in transactions of their
//! own, so that seeds mean what they meant.

use resurgam_engine::*;

use super::Found;
use super::rng::Rng;
use super::schedule::World;
use crate::broken;

/// How many there are at a time.
const MOST: usize = 2;
/// Steps from one use to the next, about.
const EVERY: u64 = 6;

/// From 1 on.
fn ascending() -> Sequence {
    Sequence {
        width: 8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        values: 0,
        begin: 1,
        begin_called: false,
        owner: None,
    }
}

/// The sequences of a schedule.
pub struct Sequences {
    rng: Rng,
    known: Vec<Known>,
    made: u32,
    used: bool,
}

struct Known {
    name: String,
    /// The last value that was given out in this life, or whose commit is durable.
    given: i64,
    /// The highest value of a transaction whose commit was waited for.
    durable: i64,
    /// Whether it is there: not known while a commit of its definition has failed.
    is_certain: bool,
}

impl Sequences {
    pub fn new(seed: u64, used: bool) -> Self {
        Self { rng: Rng::new(seed ^ 0x5e90_e4ce), known: Vec::new(), made: 0, used }
    }
}

impl World {
    /// Perhaps makes a sequence, takes some of its values, or drops it.
    pub fn step_of_sequences(&mut self) -> Found<()> {
        let sequences = &mut self.sequences;
        if !sequences.used || !sequences.rng.one_in(EVERY) {
            return Ok(());
        }
        if sequences.known.len() < MOST && sequences.rng.one_in(3) {
            return self.make_sequence();
        }
        let at = sequences.rng.below(sequences.known.len() as u64) as usize;
        let Some(known) = sequences.known.get(at) else { return Ok(()) };
        let (name, is_certain) = (known.name.clone(), known.is_certain);
        let tx = self.db.begin(Isolation::ReadCommitted);
        let sequence = match tx.sequence_named("public", &name) {
            Ok(Some(sequence)) => sequence,
            Ok(None) if is_certain => broken!("sequence {name} is not there"),
            Ok(None) => return Ok(()),
            Err(error) => return self.judge_any(error, "looking a sequence up"),
        };
        if self.sequences.rng.one_in(20) {
            self.log(|| format!("sequence {name}: dropped"));
            match tx.drop_sequence(&sequence) {
                Ok(Attempt::Done(())) => {}
                Ok(Attempt::Wait(_)) => return Ok(()),
                Err(error) => return self.judge_any(error, "dropping a sequence"),
            }
            self.sequences.known[at].is_certain = false;
            self.commit_sequence(tx, Durability::Sync)?;
            if !self.dead {
                self.sequences.known.remove(at);
            }
            return Ok(());
        }
        let count = 1 + self.sequences.rng.below(40);
        for _ in 0..count {
            match tx.next_value(&sequence) {
                Ok(value) if value <= self.sequences.known[at].given => {
                    broken!("sequence {name} gives {value} after {}", self.sequences.known[at].given)
                }
                Ok(value) => self.sequences.known[at].given = value,
                Err(error) => return self.judge_any(error, "taking a value"),
            }
        }
        self.met.sequence_values += count;
        let given = self.sequences.known[at].given;
        self.log(|| format!("sequence {name}: {count} values, to {given}"));
        match self.sequences.rng.below(4) {
            0 => tx.rollback().or_else(|error| self.judge_any(error, "rollback")),
            1 => self.commit_sequence(tx, Durability::Async).map(drop),
            _ => {
                if self.commit_sequence(tx, Durability::Sync)? {
                    self.sequences.known[at].durable = given;
                }
                Ok(())
            }
        }
    }

    fn make_sequence(&mut self) -> Found<()> {
        self.sequences.made += 1;
        let name = format!("s{}", self.sequences.made);
        self.log(|| format!("sequence {name}: made"));
        let tx = self.db.begin(Isolation::ReadCommitted);
        match tx.create_sequence("public", &name, ascending()) {
            Ok(Attempt::Done(_)) => {}
            Ok(Attempt::Wait(_)) => return Ok(()),
            Err(error) => return self.judge_any(error, "making a sequence"),
        }
        let is_certain = self.commit_sequence(tx, Durability::Sync)?;
        // Where its commit failed for want of room it is not there, and that is noticed after a restart.
        self.sequences.known.push(Known { name, given: 0, durable: 0, is_certain });
        Ok(())
    }

    /// Whether it was acknowledged.
    fn commit_sequence(&mut self, tx: Transaction, durability: Durability) -> Found<bool> {
        match tx.commit(durability).and_then(CommitTicket::wait) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.dead |= error.kind() != ErrorKind::DiskFull;
                self.judge_any(error, "commit")?;
                Ok(false)
            }
        }
    }

    /// After a restart: what was committed is there. False: power was lost again.
    pub fn look_at_sequences(&mut self) -> Found<bool> {
        let tx = self.db.begin(Isolation::ReadCommitted);
        let mut at = 0;
        while let Some(known) = self.sequences.known.get_mut(at) {
            let state = match tx.sequence_named("public", &known.name) {
                Ok(Some(sequence)) => tx.sequence_state(&sequence).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match state {
                Ok(Some(state)) if state.last < known.durable => {
                    broken!("sequence {} is at {state:?}, {} was committed", known.name, known.durable)
                }
                Ok(Some(_)) => (known.given, known.is_certain, at) = (known.durable, true, at + 1),
                Ok(None) if known.is_certain => broken!("sequence {} is not there", known.name),
                Ok(None) => drop(self.sequences.known.remove(at)),
                Err(_) if self.vfs.power_lost() => return Ok(false),
                Err(error) => broken!("sequences after recovery: {error:?}"),
            }
        }
        Ok(true)
    }
}
