//! Flushes under way: blocks are taken in order, made durable in any order, and acknowledged in order.
//!
//! ```text
//!            oldest                                      newest
//! flying:   [durable]  [durable]  [under way]  [durable]  [under way]  <-- take -- buffers
//!            \__ land: acknowledged ________/      \_ waits for the one before it
//! ```
//!
//! With one flight at a time a commit that comes while one is under way waits for that and then for its own, and a slow link to the
//! disk is idle while the next batch is put together. With several, who comes finds a place at once, unless all are taken.
//!
//! # Invariants
//! 1. Flights are taken in the order of the log, without a gap; each lies within one segment.
//! 2. What is acknowledged is the longest row of durable flights from the oldest on; the sink is asked about its end after all of it is
//!    durable. One thread at a time does that.
//! 3. A flight that failed never lands, so none behind it does: the log stops.
//! 4. Each flight under way has a handle of the file to itself, so that it is told of the loss of its own bytes
//!    ([`resurgam_vfs`], promise 5): two that sync through one handle may be told of each other's.
//! 5. All that flies is in the buffers, which are bounded; a flight writes it from there, and copies nothing.
//!
//! # Holes
//! After a crash a flight may be whole in the file although one before it is not. That one's place is where the log ends: nothing
//! behind it was acknowledged (invariant 2), and no block says that it was durable, for a header says what was acknowledged when it
//! was written. The next opening writes its own blocks there. These may end exactly where a block behind the hole begins, which then
//! has the right position, the right predecessor and a right checksum; but it is of an earlier epoch than the block before it, and no
//! reader takes it (invariant 3 of the crate). Nor does a hole look like damage: see [`LogReader::check_end`](crate::LogReader::check_end).

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};
use resurgam_base::{Error, Lsn, Result};
use resurgam_vfs::File;

use crate::block::BLOCK_ALIGN;
use crate::core::Core;
use crate::follow::LogBlock;
use crate::planted::PlantedInLog;
use crate::sealed::Sealed;
use crate::stats::Counters;

/// Most flights at once.
pub(crate) const FLIGHTS_MAX: usize = 16;
/// Most bytes handed to one write call, about, and parts: the system takes that many.
const WRITE_BYTES_MAX: usize = 4 << 20;
const PARTS_MAX: usize = 1023;
/// What is behind a block up to where the next one begins.
const PADDING: [u8; BLOCK_ALIGN] = [0; BLOCK_ALIGN];
/// Where there may be several: a flight is full then, and what follows goes with the next one, beside it.
const FLIGHT_BYTES: usize = 1 << 20;

/// What one flight at a time uses.
#[derive(Default)]
struct Place {
    /// A segment and a handle that no other place has; none in the first place, which uses the handle that all read through.
    own: Option<(u64, Arc<dyn File>)>,
    is_first: bool,
}

/// A flight under way: of whoever makes it.
pub(crate) struct Flight {
    number: u64,
    blocks: Vec<Arc<Sealed>>,
    place: Place,
    file: Option<Arc<dyn File>>,
    /// Everything below was durable when it was taken: its blocks say so.
    proved: Lsn,
}

/// A flight that is not acknowledged yet, as all see it.
struct Flying {
    end: Lsn,
    /// Once it is durable: its blocks, and what they prove.
    durable: Option<(Vec<Arc<Sealed>>, Lsn)>,
}

/// See the module.
pub(crate) struct Flights {
    /// The oldest first.
    flying: VecDeque<Flying>,
    /// The number of the first one.
    first: u64,
    /// Those that are being acknowledged now; they are not among `flying` any more.
    landing: usize,
    /// Everything below was taken.
    taken: Lsn,
    free: Vec<Place>,
    most: usize,
    /// Threads that make one: they may still write when the log has stopped.
    making: usize,
    /// Blocks are being taken; where that was broken off, some are in no flight.
    taking: bool,
}

impl Flights {
    pub(crate) fn new(most: usize, end: Lsn) -> Self {
        let most = most.clamp(1, FLIGHTS_MAX);
        let place = |number| Place { is_first: number == 0, ..Place::default() };
        let free = (0..most).rev().map(place).collect();
        let flying = VecDeque::new();
        Self { flying, first: 0, landing: 0, taken: end, free, most, making: 0, taking: false }
    }

    fn under_way(&self) -> usize {
        self.flying.len() + self.landing
    }

    fn is_full(&self) -> bool {
        self.under_way() >= self.most
    }
}

/// While flights are acknowledged.
struct Landing<'a> {
    core: &'a Core,
    published: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.published {
            // Refused, or a panic: what was taken from the row is not acknowledged, so nothing behind it may be.
            self.core.stop("the log stopped while a flush was acknowledged; reopen the database", None);
        }
        self.core.flights.lock().landing = 0;
        self.core.flight_ended.notify_all();
    }
}

/// While a flight is made: it ends, or the log does.
struct UnderWay<'a> {
    core: &'a Core,
    ended: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.core.stop("the log stopped in the middle of a flush; reopen the database", None);
        }
        self.core.flights.lock().making -= 1;
        self.core.flight_ended.notify_all();
    }
}

/// Several flights that are made by one thread, in an order that follows from a number: for tests.
pub(crate) struct Shuffle {
    random: Mutex<u64>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// With whether it is written.
    under_way: Vec<(Flight, bool)>,
    /// Of a step whose failure nobody has noticed yet.
    failed: Option<Error>,
}

impl Shuffle {
    /// None for 0.
    pub(crate) fn new(seed: u64) -> Option<Self> {
        let random = Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (seed != 0).then(|| Self { random, made: Mutex::default() })
    }

    pub(crate) fn below(&self, n: usize) -> usize {
        let mut state = self.random.lock();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        ((*state >> 11) % n.max(1) as u64) as usize
    }
}

impl Core {
    /// Blocks until everything below `upto` is durable.
    pub(crate) fn flush(&self, upto: Lsn) -> Result<()> {
        if let Some(shuffle) = &self.shuffle {
            return self.flush_shuffled(upto, shuffle);
        }
        if let Some(outcome) = self.outcome(upto) {
            return outcome;
        }
        Counters::add(&self.counters.waits, 1);
        loop {
            let mut flights = self.flights.lock();
            if let Some(outcome) = self.outcome(upto) {
                return outcome;
            }
            if flights.taken >= upto || flights.is_full() {
                self.flight_ended.wait(&mut flights);
                continue;
            }
            let taken = self.take(&mut flights, self.flight_bytes());
            flights.making += usize::from(taken.is_ok());
            drop(flights);
            self.make(taken.map_err(|error| self.stop_failed(&error))?)?;
        }
    }

    /// Waits until nobody writes any more: the log has stopped, and its files may be another one's afterwards.
    pub(crate) fn wait_for_makers(&self) {
        let mut flights = self.flights.lock();
        while flights.making > 0 {
            self.flight_ended.wait(&mut flights);
        }
    }

    /// Makes a flight if something below `upto` is in none, and does not wait until it is acknowledged.
    pub(crate) fn fly(&self, upto: Lsn) -> Result<()> {
        if self.shuffle.is_some() {
            return self.flush(upto);
        }
        let mut flights = self.flights.lock();
        let taken = loop {
            if let Some(outcome) = self.outcome(upto) {
                return outcome;
            }
            if flights.taken >= upto {
                return Ok(());
            }
            if !flights.is_full() {
                break self.take(&mut flights, self.flight_bytes());
            }
            self.flight_ended.wait(&mut flights);
        };
        flights.making += usize::from(taken.is_ok());
        drop(flights);
        self.make(taken.map_err(|error| self.stop_failed(&error))?)
    }

    fn flight_bytes(&self) -> usize {
        if self.config.flights > 1 { FLIGHT_BYTES } else { usize::MAX }
    }

    /// The next flight: there are blocks for it, and a place. Whoever gets an error stops the log, once the lock is given up: blocks may be in no flight.
    fn take(&self, flights: &mut Flights, bytes_max: usize) -> Result<Flight> {
        if std::mem::replace(&mut flights.taking, true) {
            return Err(Error::internal("blocks were taken to be flushed, and were not"));
        }
        let place = flights.free.pop();
        let blocks = {
            let mut buffers = self.buffers.lock();
            let blocks = buffers.take(bytes_max);
            self.end.store(buffers.end().0, Ordering::Release);
            blocks
        };
        let (Some(last), Some(place)) = (blocks.last(), place) else {
            return Err(Error::internal("there is nothing to be flushed, or no place for it"));
        };
        let end = last.header.next(self.config.segment_bytes);
        let proved = self.flushed();
        blocks.iter().for_each(|sealed| sealed.is_taken(proved));
        let segment = last.header.lsn.0 / self.config.segment_bytes;
        for place in &mut flights.free {
            // The file of a segment that was given up would keep its space for as long as it is open.
            drop(place.own.take_if(|(of, _)| *of < segment));
        }
        if let Some(sink) = &*self.sink.read() {
            let blocks: Vec<_> = blocks.iter().map(|of| LogBlock::new(of, self.config.segment_bytes)).collect();
            sink.writing(&blocks);
        }
        let number = flights.first + flights.flying.len() as u64;
        flights.flying.push_back(Flying { end, durable: None });
        flights.taken = end;
        self.taken.store(end.0, Ordering::Release);
        let under_way = flights.under_way() as u64;
        self.counters.flying.store(under_way, Ordering::Relaxed);
        self.counters.flying_most.fetch_max(under_way, Ordering::Relaxed);
        flights.taking = false;
        Ok(Flight { number, blocks, place, file: None, proved })
    }

    /// Makes a flight, which its caller has counted as being made.
    fn make(&self, mut flight: Flight) -> Result<()> {
        let mut under_way = UnderWay { core: self, ended: false };
        let written = self.write(&mut flight).and_then(|()| self.sync(&flight));
        // What follows looks after itself.
        under_way.ended = true;
        written.and_then(|()| self.landed(flight)).map_err(|error| self.stop_failed(&error))
    }

    fn write(&self, flight: &mut Flight) -> Result<()> {
        let Some(first) = flight.blocks.first() else { return Ok(()) };
        let segment_bytes = self.config.segment_bytes;
        let segment = first.header.lsn.0 / segment_bytes;
        let file = self.file_of(&mut flight.place, segment)?;
        let mut parts = Vec::with_capacity((3 * flight.blocks.len()).min(PARTS_MAX));
        let (mut start, mut bytes) = (first.header.lsn, 0);
        for sealed in &flight.blocks {
            let (head, payload) = (sealed.head(), sealed.payload());
            let len = head.len() + payload.len();
            let padded = len.next_multiple_of(BLOCK_ALIGN);
            if !parts.is_empty() && (bytes + padded > WRITE_BYTES_MAX || parts.len() + 3 > PARTS_MAX) {
                file.write_all_at(&parts, start.0 % segment_bytes)?;
                (start, bytes) = (sealed.header.lsn, 0);
                parts.clear();
            }
            let padding = &PADDING[..padded - len];
            parts.extend([&head[..], payload, padding].map(IoSlice::new));
            bytes += padded;
            Counters::add(&self.counters.blocks, 1);
            Counters::add(&self.counters.written_bytes, padded as u64);
        }
        file.write_all_at(&parts, start.0 % segment_bytes)?;
        flight.file = Some(file);
        Ok(())
    }

    /// The handle through which who has this place writes and syncs.
    fn file_of(&self, place: &mut Place, segment: u64) -> Result<Arc<dyn File>> {
        if place.is_first || PlantedInLog::SharedHandle.is_planted() {
            return self.segments.file(segment);
        }
        if let Some((of, file)) = &place.own
            && *of == segment
        {
            return Ok(Arc::clone(file));
        }
        let file = self.segments.another_handle(segment)?;
        place.own = Some((segment, Arc::clone(&file)));
        Ok(file)
    }

    fn sync(&self, flight: &Flight) -> Result<()> {
        let Some(file) = &flight.file else { return Ok(()) };
        let start = self.vfs.now();
        file.sync()?;
        self.counters.synced(self.vfs.now().saturating_sub(start));
        Ok(())
    }

    /// The flight is durable.
    fn landed(&self, flight: Flight) -> Result<()> {
        let Flight { number, blocks, place, proved, .. } = flight;
        let mut flights = self.flights.lock();
        flights.free.push(place);
        let at = number.saturating_sub(flights.first) as usize;
        let is_late = at > 0;
        if let Some(flying) = flights.flying.get_mut(at) {
            flying.durable = Some((blocks, proved));
            if PlantedInLog::OutOfOrder.is_planted() {
                self.flushed.fetch_max(flying.end.0, Ordering::AcqRel);
                self.flight_ended.notify_all();
                self.waiters.wake(flying.end);
            }
        }
        if is_late {
            Counters::add(&self.counters.flights_held, 1);
        }
        self.land(flights)
    }

    /// Acknowledges what can be.
    fn land<'a>(&'a self, mut flights: MutexGuard<'a, Flights>) -> Result<()> {
        // Who does that now looks again afterwards.
        while flights.landing == 0 && flights.flying.front().is_some_and(|flying| flying.durable.is_some()) {
            self.check_running()?;
            let (mut all, mut proved, mut end, mut count) = (Vec::new(), Lsn::NONE, Lsn::NONE, 0);
            while let Some((blocks, of)) = flights.flying.front_mut().and_then(|flying| flying.durable.take()) {
                if all.is_empty() {
                    all = blocks;
                } else {
                    all.extend(blocks);
                }
                proved = proved.max(of);
                end = flights.flying.pop_front().map_or(end, |flying| flying.end);
                count += 1;
            }
            flights.first += count;
            flights.landing = count as usize;
            drop(flights);
            let mut landing = Landing { core: self, published: false };
            self.acknowledge(all, end, proved, count, &mut landing)?;
            drop(landing);
            flights = self.flights.lock();
            self.counters.flying.store(flights.under_way() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn acknowledge(
        &self,
        blocks: Vec<Arc<Sealed>>,
        end: Lsn,
        proved: Lsn,
        flights: u64,
        landing: &mut Landing<'_>,
    ) -> Result<()> {
        let sink = self.sink.read().clone();
        if let Some(sink) = sink {
            sink.durable(end).inspect_err(|error| drop(self.stop_failed(error)))?;
        }
        let count = blocks.len();
        self.proved.fetch_max(proved.0, Ordering::AcqRel);
        self.flushed.fetch_max(end.0, Ordering::AcqRel);
        self.tail.push(&blocks);
        drop(blocks);
        Counters::add(&self.counters.flushes, flights);
        self.buffers.lock().written(count);
        landing.published = true;
        let hook = self.hook.read().clone();
        if let Some(hook) = hook {
            hook(end);
        }
        self.waiters.wake(end);
        Ok(())
    }

    /// As [`Core::flush`], by flights of few blocks each, the steps of which are made one after the other in any order; some are left for later
    /// calls. A step that fails is noticed late: others may go on meanwhile, as on threads of their own.
    fn flush_shuffled(&self, upto: Lsn, shuffle: &Shuffle) -> Result<()> {
        let mut made = shuffle.made.lock();
        let Made { under_way, failed } = &mut *made;
        let outcome = loop {
            if let Some(outcome) = self.outcome(upto)
                && (under_way.is_empty() || shuffle.below(4) > 0)
            {
                break outcome;
            }
            if let Some(error) = failed.as_ref().filter(|_| under_way.is_empty() || shuffle.below(4) == 0) {
                break Err(self.stop_failed(error));
            }
            let mut flights = self.flights.lock();
            while failed.is_none()
                && flights.taken < self.end()
                && !flights.is_full()
                && (under_way.is_empty() || shuffle.below(2) == 0)
            {
                let bytes_max = 1 << (6 + shuffle.below(8));
                under_way.push((self.take(&mut flights, bytes_max)?, false));
            }
            drop(flights);
            if under_way.is_empty() {
                break Err(Error::internal("nothing is left to be flushed, and something is not durable"));
            }
            let (mut flight, is_written) = under_way.swap_remove(shuffle.below(under_way.len()));
            let step = if is_written {
                self.sync(&flight).and_then(|()| self.landed(flight))
            } else {
                self.write(&mut flight).map(|()| under_way.push((flight, true)))
            };
            *failed = failed.take().or(step.err());
        };
        if let Some(error) = failed {
            self.stop_failed(error);
        }
        outcome
    }
}
