//! In memory: which copy is in which slot, and what waits to be written.
//!
//! # Invariants
//! 1. A page is in one place at most: a slot that can be read, or the queue of what is to be written. In the queue it may have a slot, which
//!    nobody can find then.
//! 2. What is in the queue, and whatever is known to be current, is the page as it left memory last.
//! 3. The queue is bounded. What finds no room in it is not kept, and an older copy is not either.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use resurgam_base::{Lsn, PageId};
use resurgam_buffer::Copied;
use resurgam_page::PageBuf;

use crate::fifo::{Fifo, Place, Slots, USES_MAX};
use crate::format::Record;

/// A slot of the file.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Whose copy can be read there; none: nobody's.
    page: PageId,
    lsn: Lsn,
    as_of: Lsn,
    /// The copy is the page: it was made in this life, or found to be right.
    is_current: bool,
    /// It is being written, or is to be.
    is_busy: bool,
    uses: u8,
    place: Place,
    turn: u32,
}

impl Slots for Vec<Slot> {
    fn turn(&self, slot: u32) -> u32 {
        self[slot as usize].turn
    }
    fn uses(&self, slot: u32) -> u8 {
        self[slot as usize].uses
    }
    fn set_uses(&mut self, slot: u32, uses: u8) {
        self[slot as usize].uses = uses;
    }
    fn set_place(&mut self, slot: u32, place: Place) {
        self[slot as usize].place = place;
    }
    fn is_busy(&self, slot: u32) -> bool {
        self[slot as usize].is_busy
    }
}

/// A page that is to be written.
struct Waiting {
    content: Arc<PageBuf>,
    lsn: Lsn,
    as_of: Lsn,
    /// Where it was before it was changed, or is being written to.
    slot: Option<u32>,
    /// Drawn for each content.
    number: u64,
}

/// A page to be written now.
pub struct Job {
    pub page: PageId,
    pub content: Arc<PageBuf>,
    pub slot: u32,
    pub record: Record,
    number: u64,
}

/// Where a copy is.
pub enum Found {
    Waiting(Arc<PageBuf>, Copied),
    In(u32, Copied),
}

/// What became of a page that left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is there already.
    Known,
    /// It waits to be written.
    Queued,
    /// It is not kept.
    No,
}

/// Of a slot, for [`Directory::set_current`].
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub slot: u32,
    pub page: PageId,
    pub lsn: Lsn,
    /// As [`Copied::as_of`].
    pub as_of: Option<Lsn>,
    turn: u32,
}

/// See the module.
pub struct Directory {
    capacity: usize,
    queue_max: usize,
    /// Those that were ever used, from the first on.
    slots: Vec<Slot>,
    free: Vec<u32>,
    map: HashMap<PageId, u32>,
    fifo: Fifo<PageId>,
    waiting: HashMap<PageId, Waiting>,
    order: VecDeque<(PageId, u64)>,
    numbers: u64,
    /// Who writes sleeps until he is woken.
    pub is_idle: bool,
    /// A page that is changed and not taken keeps its copy: a mistake, for tests.
    pub keeps_stale: bool,
}

impl Directory {
    pub fn new(capacity: usize, queue_max: usize) -> Self {
        // Memory that is not touched costs nothing, and growing would hold up whoever needs a page. (Up to 64 GB of pages.)
        let reserved = capacity.min(8 << 20);
        Self {
            capacity,
            queue_max,
            slots: Vec::with_capacity(reserved),
            free: Vec::new(),
            map: HashMap::with_capacity(reserved),
            fifo: Fifo::new(capacity),
            waiting: HashMap::new(),
            order: VecDeque::new(),
            numbers: 0,
            is_idle: false,
            keeps_stale: false,
        }
    }

    /// Copies in slots.
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Slots that were ever used.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }
    /// How much is to be written, at most: pages that were changed again meanwhile count twice.
    pub fn queued(&self) -> usize {
        self.order.len()
    }
    /// Pages that wait to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
    /// Copies that came for the first time, and those that were used again.
    pub fn shares(&self) -> (usize, usize) {
        self.fifo.lens()
    }

    /// Where the page's copy is; it counts as asked for.
    pub fn find(&mut self, page: PageId) -> Option<Found> {
        if let Some(waiting) = self.waiting.get(&page) {
            if let Some(slot) = waiting.slot {
                self.slots[slot as usize].use_once();
            }
            return Some(Found::Waiting(Arc::clone(&waiting.content), Copied { lsn: waiting.lsn, as_of: None }));
        }
        let index = *self.map.get(&page)?;
        let slot = &mut self.slots[index as usize];
        slot.use_once();
        Some(Found::In(index, slot.copied()))
    }

    /// Whether the copy is still there, and how new it is known to be.
    pub fn is_in(&self, page: PageId, index: u32, lsn: Lsn) -> bool {
        self.map.get(&page) == Some(&index) && self.slots[index as usize].lsn == lsn
    }

    /// The page leaves memory. `worth`: it may be new here.
    pub fn evicted(&mut self, page: PageId, content: &PageBuf, as_of: Lsn, worth: bool) -> Taken {
        let lsn = content.lsn();
        if let Some(waiting) = self.waiting.get_mut(&page) {
            waiting.as_of = as_of.max(waiting.as_of);
            if waiting.lsn == lsn {
                return Taken::Known;
            }
            self.numbers += 1;
            // Who writes the one before finds that it does not count.
            (waiting.lsn, waiting.number, waiting.content) = (lsn, self.numbers, Arc::new(content.clone()));
            self.order.push_back((page, self.numbers));
            return Taken::Queued;
        }
        let known = self.map.get(&page).copied();
        if let Some(index) = known {
            let slot = &mut self.slots[index as usize];
            if slot.lsn == lsn {
                (slot.is_current, slot.as_of) = (true, as_of.max(slot.as_of));
                return Taken::Known;
            }
        }
        if self.waiting.len() >= self.queue_max || known.is_none() && !worth {
            if known.is_some() && !self.keeps_stale {
                self.forget(page);
            }
            return Taken::No;
        }
        let is_full = self.free.is_empty() && self.slots.len() >= self.capacity;
        if known.is_none() && is_full && !self.fifo.takes(page) {
            return Taken::No;
        }
        if let Some(index) = known {
            self.map.remove(&page);
            self.slots[index as usize].is_busy = true;
        }
        self.numbers += 1;
        let waiting = Waiting { content: Arc::new(content.clone()), lsn, as_of, slot: known, number: self.numbers };
        self.waiting.insert(page, waiting);
        self.order.push_back((page, self.numbers));
        Taken::Queued
    }

    /// The copy is the page.
    pub fn confirm(&mut self, page: PageId, lsn: Lsn) {
        if let Some(index) = self.map.get(&page) {
            let slot = &mut self.slots[*index as usize];
            slot.is_current |= slot.lsn == lsn;
        }
    }

    /// The copy in a slot is of no use. (What waits to be written is the page.)
    pub fn forget(&mut self, page: PageId) {
        if let Some(index) = self.map.remove(&page) {
            self.give_back(index);
        }
    }

    fn give_back(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        self.fifo.left(slot.place);
        *slot = Slot { turn: slot.turn.wrapping_add(1), ..Slot::default() };
        self.free.push(index);
    }

    /// What is to be written next, with the slot that it gets.
    pub fn next(&mut self) -> Option<Job> {
        while let Some((page, number)) = self.order.pop_front() {
            let Some(waiting) = self.waiting.get(&page).filter(|waiting| waiting.number == number) else { continue };
            let slot = match waiting.slot {
                Some(slot) => slot,
                None => match self.slot() {
                    Some(slot) => slot,
                    None => {
                        self.waiting.remove(&page);
                        continue;
                    }
                },
            };
            let is_main = self.slots[slot as usize].place == Place::Main || self.fifo.knows(page);
            self.slots[slot as usize].is_busy = true;
            let Some(waiting) = self.waiting.get_mut(&page) else { continue };
            waiting.slot = Some(slot);
            let record = Record { page, lsn: waiting.lsn, as_of: waiting.as_of, used_again: is_main };
            return Some(Job { page, content: Arc::clone(&waiting.content), slot, record, number });
        }
        None
    }

    /// A slot that nobody has; if need be one whose copy goes.
    fn slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.slots.len() < self.capacity {
            self.slots.push(Slot::default());
            return Some(self.slots.len() as u32 - 1);
        }
        let index = self.fifo.evict(&mut self.slots, |slots, slot| slots[slot as usize].page)?;
        let slot = &mut self.slots[index as usize];
        self.map.remove(&slot.page);
        *slot = Slot { turn: slot.turn.wrapping_add(1), ..Slot::default() };
        Some(index)
    }

    /// It is written, and can be found in its slot; false: it was changed meanwhile.
    pub fn written(&mut self, job: &Job) -> bool {
        if self.waiting.get(&job.page).is_none_or(|waiting| waiting.number != job.number) {
            // It is written there again.
            return false;
        }
        // What it is as of may have become later.
        let as_of = self.waiting.remove(&job.page).map_or(job.record.as_of, |waiting| waiting.as_of);
        let slot = &mut self.slots[job.slot as usize];
        (slot.page, slot.lsn, slot.as_of) = (job.page, job.record.lsn, as_of);
        (slot.is_current, slot.is_busy) = (true, false);
        if slot.place == Place::None {
            self.fifo.join(job.slot, job.page, false, &mut self.slots);
        }
        self.map.insert(job.page, job.slot);
        true
    }

    /// What the file says of the next slots, in their order; before anything is written. Returns how many are copies.
    pub fn read(&mut self, records: impl Iterator<Item = Option<Record>>) -> usize {
        let mut read = 0;
        for record in records {
            let index = self.slots.len() as u32;
            if self.slots.len() >= self.capacity {
                break;
            }
            self.slots.push(Slot::default());
            // Who waits to be written is newer, or the same.
            let Some(record) = record.filter(|record| !self.waiting.contains_key(&record.page)) else {
                self.free.push(index);
                continue;
            };
            if let Some(other) = self.map.get(&record.page) {
                let other = &self.slots[*other as usize];
                if other.is_current || (other.lsn, other.as_of) >= (record.lsn, record.as_of) {
                    self.free.push(index);
                    continue;
                }
                self.forget(record.page);
                read -= 1;
            }
            let slot = &mut self.slots[index as usize];
            (slot.page, slot.lsn, slot.as_of) = (record.page, record.lsn, record.as_of);
            self.map.insert(record.page, index);
            self.fifo.join(index, record.page, record.used_again, &mut self.slots);
            read += 1;
        }
        read
    }

    /// The copies in these slots.
    pub fn seen(&self, from: u32, count: u32) -> Vec<Seen> {
        let to = self.slots().min(from.saturating_add(count));
        (from..to)
            .filter_map(|index| {
                let slot = &self.slots[index as usize];
                let is_copy = slot.page.is_some() && !slot.is_busy;
                is_copy.then(|| Seen {
                    slot: index,
                    page: slot.page,
                    lsn: slot.lsn,
                    as_of: slot.copied().as_of,
                    turn: slot.turn,
                })
            })
            .collect()
    }

    /// This copy, if it is still there, has all records of its page below `as_of`.
    pub fn set_current(&mut self, seen: &Seen, as_of: Lsn) {
        let slot = &mut self.slots[seen.slot as usize];
        if slot.turn == seen.turn && slot.page == seen.page && slot.lsn == seen.lsn && !slot.is_busy {
            (slot.is_current, slot.as_of) = (true, as_of.max(slot.as_of));
        }
    }

    /// What is to be said of these slots.
    pub fn records(&self, from: u32, count: u32) -> Vec<Option<Record>> {
        let to = self.slots().min(from.saturating_add(count));
        (from..to)
            .map(|index| {
                let slot = &self.slots[index as usize];
                (slot.page.is_some() && !slot.is_busy).then_some(Record {
                    page: slot.page,
                    lsn: slot.lsn,
                    as_of: slot.as_of,
                    used_again: slot.place == Place::Main,
                })
            })
            .collect()
    }

    /// Nothing is there any more.
    pub fn clear(&mut self) {
        *self = Self::new(1, 0);
    }
}

impl Slot {
    fn use_once(&mut self) {
        self.uses = (self.uses + 1).min(USES_MAX);
    }
    fn copied(&self) -> Copied {
        Copied { lsn: self.lsn, as_of: (!self.is_current).then_some(self.as_of) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which share of so many accesses finds a copy, and which is written: of a memory above that has nothing.
    fn play(directory: &mut Directory, accesses: u64, next: &mut dyn FnMut() -> u64) -> (f64, f64) {
        let (mut found, mut written, mut content) = (0, 0, PageBuf::zeroed());
        content.set_lsn(Lsn(7));
        for _ in 0..accesses {
            let page = PageId(next());
            if directory.find(page).is_some() {
                found += 1;
                continue;
            }
            if directory.evicted(page, &content, Lsn(9), true) == Taken::Queued {
                let job = directory.next().expect("it was queued");
                assert!(directory.written(&job));
                written += 1;
            }
        }
        (found as f64 / accesses as f64, written as f64 / accesses as f64)
    }

    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    /// Keys at random: as many are found as there is room for, and most that comes is not written. Then some that come again soon, of ever other
    /// keys: they are taken again.
    #[test]
    fn what_is_hardly_used_again_is_hardly_written() {
        let (mut directory, mut seed) = (Directory::new(2000, 64), 1);
        play(&mut directory, 30_000, &mut || 1 + random(&mut seed) % 20_000);
        let (found, written) = play(&mut directory, 30_000, &mut || 1 + random(&mut seed) % 20_000);
        assert!((0.07..0.13).contains(&found), "{found}");
        assert!(written < 0.45, "{written}");
        // Each page twice, with fifty others in between.
        let mut at = 0;
        let mut soon = || {
            at += 1;
            100_000 + if at % 2 == 0 { at / 2 } else { at / 2 + 50 }
        };
        play(&mut directory, 20_000, &mut soon);
        let (found, _) = play(&mut directory, 20_000, &mut soon);
        assert!(found > 0.45, "{found}");
    }
}
