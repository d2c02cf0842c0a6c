//! Which copies stay: S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: *FIFO queues are all you need for cache eviction*, SOSP 2023).
//!
//! What comes for the first time joins the *small* queue, a tenth of the cache. Whoever has been asked for again when it comes to its end moves to
//! the *main* queue, all others go, and their names into the *ghost* queue; who comes back while its name is there joins the main queue at
//! once. At the end of the main queue, who was asked for since it was there last goes round once more. So pages that a scan brought, and nobody
//! asks for again, push each other out of a tenth of the cache.
//!
//! Where hardly anybody is asked for again in the small queue, as with keys at random over much more than the cache holds, most of what comes for
//! the first time is not taken at all: writing it would be for nothing. Its name goes into the ghost queue at once, and one of a few is taken
//! still, which shows when that changes.
//!
//! (In the paper one has to be asked for twice in the small queue. Here once is enough: memory above has taken the other uses.)
//!
//! Slots are taken out of the middle of a queue when their copy is forgotten: what is left of them there is skipped by its turn.

use std::collections::VecDeque;
use std::hash::Hash;

use hashbrown::HashSet;

/// Uses that are counted.
pub const USES_MAX: u8 = 3;
/// The share of the small queue: one of so many.
const SMALL_SHARE: usize = 10;

/// While fewer than one of so many that came for the first time are asked for before they leave the small queue, one of [`TAKEN_OF`] is taken.
const USED_SHARE: u32 = 8;
const TAKEN_OF: u32 = 4;
/// Those that left the small queue of late and say so: at least, and most.
const JUDGED: u32 = 256;

/// Where a slot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    None,
    Small,
    Main,
}

/// A slot in a queue, and its turn when it joined.
type Entry = (u32, u32);

/// What the queues know of a slot.
pub trait Slots {
    /// The slot's turn, if it is in a queue as of that turn and its copy may go; and whether it goes at all now.
    fn turn(&self, slot: u32) -> u32;
    fn uses(&self, slot: u32) -> u8;
    fn set_uses(&mut self, slot: u32, uses: u8);
    fn set_place(&mut self, slot: u32, place: Place);
    /// It is being written, and cannot go now.
    fn is_busy(&self, slot: u32) -> bool;
}

/// The queues over slots with names of the type `N`.
pub struct Fifo<N> {
    capacity: usize,
    small: Queue,
    main: Queue,
    ghosts: VecDeque<N>,
    is_ghost: HashSet<N>,
    /// Of those that left the small queue of late: how many, and how many of them had been asked for.
    left: u32,
    left_used: u32,
    /// Those that came for the first time while few were taken.
    newcomers: u32,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Those that count.
    len: usize,
}

impl Queue {
    fn push(&mut self, slot: u32, turn: u32) {
        self.entries.push_back((slot, turn));
        self.len += 1;
    }
    /// The oldest that counts.
    fn pop(&mut self, slots: &impl Slots) -> Option<u32> {
        while let Some((slot, turn)) = self.entries.pop_front() {
            if slots.turn(slot) == turn {
                self.len -= 1;
                return Some(slot);
            }
        }
        None
    }
    /// Forgets what does not count, before it becomes more than what does.
    fn tidy(&mut self, slots: &impl Slots) {
        if self.entries.len() > 2 * self.len + 64 {
            self.entries.retain(|(slot, turn)| slots.turn(*slot) == *turn);
        }
    }
}

impl<N: Copy + Eq + Hash> Fifo<N> {
    /// Over so many slots.
    pub fn new(capacity: usize) -> Self {
        let (small, main) = (Queue::default(), Queue::default());
        let (ghosts, is_ghost) = (VecDeque::new(), HashSet::new());
        Self { capacity, small, main, ghosts, is_ghost, left: 0, left_used: 0, newcomers: 0 }
    }

    fn small_share(&self) -> usize {
        (self.capacity / SMALL_SHARE).max(1)
    }

    /// Whether this one was here not long ago: it is worth more than one that comes for the first time.
    pub fn knows(&self, name: N) -> bool {
        self.is_ghost.contains(&name)
    }

    /// Whether this one, which is nowhere here, is to be taken while the cache is full; if not, its name is remembered.
    pub fn takes(&mut self, name: N) -> bool {
        if self.knows(name) || self.left < JUDGED || self.left_used * USED_SHARE >= self.left {
            return true;
        }
        self.newcomers = self.newcomers.wrapping_add(1);
        if self.newcomers.is_multiple_of(TAKEN_OF) {
            return true;
        }
        self.remember(name);
        false
    }

    /// One has come to the end of the small queue.
    fn judge(&mut self, is_used: bool) {
        self.left += 1;
        self.left_used += u32::from(is_used);
        if self.left >= 2 * JUDGED {
            (self.left, self.left_used) = (self.left / 2, self.left_used / 2);
        }
    }

    /// The slot, whose turn is new, has this one's copy from now on. `known`: it has been used before.
    pub fn join(&mut self, slot: u32, name: N, known: bool, slots: &mut impl Slots) {
        let place = if self.is_ghost.remove(&name) || known { Place::Main } else { Place::Small };
        slots.set_place(slot, place);
        let turn = slots.turn(slot);
        let queue = if place == Place::Main { &mut self.main } else { &mut self.small };
        queue.push(slot, turn);
        queue.tidy(slots);
    }

    /// A slot in that place does not count any more: its turn has changed.
    pub fn left(&mut self, place: Place) {
        match place {
            Place::Small => self.small.len -= 1,
            Place::Main => self.main.len -= 1,
            Place::None => {}
        }
    }

    /// The slot whose copy goes; it is in no queue any more. `name` says whose copy a slot has.
    pub fn evict<S: Slots>(&mut self, slots: &mut S, name: impl Fn(&S, u32) -> N) -> Option<u32> {
        // Everybody is met at most once for each use that is counted, and once more.
        for _ in 0..(self.small.len + self.main.len) * (USES_MAX as usize + 2) {
            let from_small = self.small.len > 0 && (self.small.len >= self.small_share() || self.main.len == 0);
            let queue = if from_small { &mut self.small } else { &mut self.main };
            let slot = queue.pop(slots)?;
            let (turn, uses) = (slots.turn(slot), slots.uses(slot));
            if slots.is_busy(slot) {
                queue.push(slot, turn);
            } else if uses == 0 {
                slots.set_place(slot, Place::None);
                if from_small {
                    self.judge(false);
                    self.remember(name(slots, slot));
                }
                return Some(slot);
            } else if from_small {
                self.judge(true);
                slots.set_place(slot, Place::Main);
                slots.set_uses(slot, 0);
                self.main.push(slot, turn);
            } else {
                slots.set_uses(slot, uses - 1);
                self.main.push(slot, turn);
            }
        }
        None
    }

    fn remember(&mut self, name: N) {
        if self.is_ghost.insert(name) {
            self.ghosts.push_back(name);
        }
        // As many as the main queue has slots.
        while self.ghosts.len() > self.capacity - self.small_share() + 1 {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.is_ghost.remove(&oldest);
            }
        }
    }

    /// Slots in the small queue, and in the main queue.
    pub fn lens(&self) -> (usize, usize) {
        (self.small.len, self.main.len)
    }
}
