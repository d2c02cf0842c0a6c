//! Slotted pages: a slot array that grows upward from byte 64, and a record heap
//! that grows downward from byte 8192.
//!
//! ```text
//! 64            64+4n          heap_start                         8192
//! | slot 0..n-1 |  hole (zero) | records, fences and garbage        |
//!   {offset u16, len u16}
//! ```
//!
//! # Invariants
//! 1. Records and fences lie within `heap_start..8192` and do not overlap.
//! 2. `garbage` = heap bytes minus the bytes of records and fences.
//! 3. The hole is all zero, and freed bytes are zeroed: two pages that went
//!    through the same operations are equal byte by byte, and a page image may
//!    leave the hole out.
//! 4. Every operation is deterministic, compaction included: when the hole is too
//!    short, the heap is rebuilt from the top as lower fence, upper fence, slot 0, 1, …
//!
//! A full page is the caller's bug (it asks [`PageBuf::fits`] first) and answered with
//! an `Internal` error; bytes that contradict the invariants give `Corrupt`.

use crate::buf::{FENCE_INFINITE, HEADER_SIZE, PageBuf};
use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, Result, SlotId, region};

/// Bytes of one slot array entry.
pub const SLOT_SIZE: usize = 4;
/// Most slots that fit a page.
pub const SLOTS_MAX: u16 = ((PAGE_SIZE - HEADER_SIZE) / SLOT_SIZE) as u16;
/// Bytes for slots, records and fences on an empty page.
pub const SPACE: usize = PAGE_SIZE - HEADER_SIZE;

/// A stretch of the heap: offset and length.
type Extent = (usize, usize);

#[inline]
const fn slot_at(slot: usize) -> usize {
    HEADER_SIZE + SLOT_SIZE * slot
}

impl PageBuf {
    /// Number of slots (never more than [`SLOTS_MAX`], whatever the header says).
    #[inline]
    pub fn slot_count(&self) -> u16 {
        self.raw_slot_count().min(SLOTS_MAX)
    }

    #[inline]
    fn slots_end(&self) -> usize {
        slot_at(self.slot_count() as usize)
    }

    /// Entry of a slot below the slot count.
    #[inline]
    fn entry(&self, slot: usize) -> Extent {
        let at = slot_at(slot);
        match self.as_bytes().get(at..at + SLOT_SIZE) {
            Some(&[a, b, c, d]) => (u16::from_le_bytes([a, b]) as usize, u16::from_le_bytes([c, d]) as usize),
            _ => (0, 0),
        }
    }

    #[inline]
    fn set_entry(&mut self, slot: usize, (offset, len): Extent) {
        let (o, l) = ((offset as u16).to_le_bytes(), (len as u16).to_le_bytes());
        let at = slot_at(slot);
        self.as_bytes_mut()[at..at + SLOT_SIZE].copy_from_slice(&[o[0], o[1], l[0], l[1]]);
    }

    /// Offset and length of a slot's record as stored, unchecked; for printers.
    pub fn slot_entry(&self, slot: SlotId) -> (u16, u16) {
        let (offset, len) = self.entry(slot.0 as usize);
        (offset as u16, len as u16)
    }

    /// The record in `slot`; an empty slice if there is none or the entry is nonsense.
    #[inline]
    pub fn rec(&self, slot: SlotId) -> &[u8] {
        if slot.0 >= self.raw_slot_count() {
            return &[];
        }
        let (offset, len) = self.entry(slot.0 as usize);
        self.as_bytes().get(offset..offset + len).unwrap_or(&[])
    }

    /// Has the processor fetch the begin of the record in `slot`, which is about to be looked at.
    #[inline]
    pub(crate) fn prefetch(&self, slot: SlotId) {
        let (offset, _) = self.entry(slot.0 as usize);
        self.prefetch_at(offset);
    }

    /// Asks the memory for the header and the first slots.
    #[inline]
    pub fn prefetch_header(&self) {
        self.prefetch_at(0);
        self.prefetch_at(HEADER_SIZE);
    }

    /// Asks the memory for the begin of a record, if there is one in that slot.
    #[inline]
    pub fn prefetch_begin(&self, slot: SlotId) {
        if slot.0 < self.slot_count() {
            self.prefetch(slot);
        }
    }

    /// As [`PageBuf::prefetch`], of all that a record of usual length has: it is about to be copied.
    #[inline]
    pub fn prefetch_whole(&self, slot: SlotId) {
        /// Bytes of a line of the processor's cache.
        const LINE: usize = 64;
        const LINES_MAX: usize = 4;
        if slot.0 < self.slot_count() {
            let (offset, len) = self.entry(slot.0 as usize);
            (offset..offset + len.max(1)).step_by(LINE).take(LINES_MAX).for_each(|at| self.prefetch_at(at));
        }
    }

    #[inline]
    fn prefetch_at(&self, offset: usize) {
        if let Some(begin) = self.as_bytes().get(offset) {
            region::prefetch(std::ptr::from_ref(begin).addr());
        }
    }

    /// The record in `slot`. `Internal` if there is no such slot, `Corrupt` if its
    /// entry points outside the heap.
    #[inline]
    pub fn record(&self, slot: SlotId) -> Result<&[u8]> {
        let (offset, len) = self.checked_entry(slot)?;
        Ok(&self.as_bytes()[offset..offset + len])
    }

    #[inline]
    fn checked_entry(&self, slot: SlotId) -> Result<Extent> {
        if slot.0 >= self.slot_count() {
            return Err(self.no_slot(slot));
        }
        let entry = self.entry(slot.0 as usize);
        match self.check_extent(entry) {
            Some(extent) => Ok(extent),
            None => Err(self.bad_slot(slot, entry)),
        }
    }

    #[cold]
    fn bad_slot(&self, slot: SlotId, entry: Extent) -> Error {
        self.bad(format!("slot {} points to {entry:?}", slot.0))
    }

    #[inline]
    fn check_extent(&self, (offset, len): Extent) -> Option<Extent> {
        (offset >= self.slots_end() && offset + len <= PAGE_SIZE).then_some((offset, len))
    }

    #[cold]
    fn no_slot(&self, slot: SlotId) -> Error {
        Error::internal(format!("page {} has no slot {}: it has {}", self.page_id(), slot.0, self.slot_count()))
    }
    #[cold]
    fn bad(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("page {}: {what}", self.page_id()))
    }
    #[cold]
    fn full(&self, len: usize) -> Error {
        Error::internal(format!("page {} is full: {len} bytes wanted, {} are free", self.page_id(), self.free_total()))
    }

    /// Bytes between the slot array and the heap.
    #[inline]
    pub fn free_contiguous(&self) -> usize {
        (self.heap_start() as usize).min(PAGE_SIZE).saturating_sub(self.slots_end())
    }
    /// Free bytes, garbage included.
    #[inline]
    pub fn free_total(&self) -> usize {
        (self.free_contiguous() + self.garbage() as usize).min(SPACE)
    }
    /// Whether a record of `len` bytes can be inserted.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        len + SLOT_SIZE <= self.free_total()
    }
    /// Whether the record in `slot` can be replaced by one of `len` bytes.
    #[inline]
    pub fn fits_replace(&self, slot: SlotId, len: usize) -> bool {
        len <= self.free_total() + self.rec(slot).len()
    }
    /// Bytes that records, fences and slots use.
    #[inline]
    pub fn used(&self) -> usize {
        SPACE - self.free_total()
    }

    /// Takes `len` heap bytes, leaving room for `slots` more slots; compacts if it must.
    #[inline]
    fn take(&mut self, len: usize, slots: usize) -> Result<usize> {
        let want = len + slots * SLOT_SIZE;
        if self.heap_start() as usize > PAGE_SIZE {
            return Err(self.bad(format!("heap starts at {}", self.heap_start())));
        }
        if want > self.free_contiguous() {
            if want > self.free_total() {
                return Err(self.full(want));
            }
            self.compact()?;
            if want > self.free_contiguous() {
                return Err(self.bad("garbage count is wrong"));
            }
        }
        let offset = self.heap_start() as usize - len;
        self.set_heap_start(offset as u16);
        Ok(offset)
    }

    /// Gives heap bytes back and zeroes them.
    #[inline]
    fn release(&mut self, (offset, len): Extent) {
        self.as_bytes_mut()[offset..offset + len].fill(0);
        if offset == self.heap_start() as usize {
            self.set_heap_start((offset + len) as u16);
        } else {
            self.set_garbage(self.garbage().saturating_add(len as u16));
        }
    }

    #[inline]
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.as_bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Inserts `bytes` as slot `slot`; later slots move up by one.
    #[inline]
    pub fn insert(&mut self, slot: SlotId, bytes: &[u8]) -> Result<()> {
        self.insert_many(slot, std::iter::once(bytes))
    }

    /// Inserts `records` as slots `slot`, `slot`+1, …; later slots move up. On error
    /// nothing has been inserted.
    pub fn insert_many<'r, I>(&mut self, slot: SlotId, records: I) -> Result<()>
    where
        I: IntoIterator<Item = &'r [u8]>,
        I::IntoIter: Clone,
    {
        let records = records.into_iter();
        let (mut added, mut total) = (0usize, 0usize);
        for record in records.clone() {
            added += 1;
            total += record.len();
        }
        let (at, count) = (slot.0 as usize, self.slot_count() as usize);
        if at > count {
            return Err(self.no_slot(slot));
        }
        if total > SPACE || count + added > SLOTS_MAX as usize {
            return Err(self.full(total));
        }
        let mut offset = self.take(total, added)? + total;
        self.as_bytes_mut().copy_within(slot_at(at)..slot_at(count), slot_at(at + added));
        self.set_raw_slot_count((count + added) as u16);
        for (i, record) in records.take(added).enumerate() {
            offset -= record.len();
            self.put(offset, record);
            self.set_entry(at + i, (offset, record.len()));
        }
        Ok(())
    }

    /// Removes a slot; later slots move down by one.
    pub fn remove(&mut self, slot: SlotId) -> Result<()> {
        self.remove_many(slot, 1)
    }

    /// Removes `removed` slots from `slot` on; later slots move down.
    pub fn remove_many(&mut self, slot: SlotId, removed: u16) -> Result<()> {
        let (at, n, count) = (slot.0 as usize, removed as usize, self.slot_count() as usize);
        if at + n > count {
            return Err(self.no_slot(SlotId((at + n) as u16)));
        }
        for i in at..at + n {
            self.checked_entry(SlotId(i as u16))?;
        }
        for i in at..at + n {
            let entry = self.entry(i);
            self.release(entry);
        }
        let bytes = self.as_bytes_mut();
        bytes.copy_within(slot_at(at + n)..slot_at(count), slot_at(at));
        bytes[slot_at(count - n)..slot_at(count)].fill(0);
        self.set_raw_slot_count((count - n) as u16);
        Ok(())
    }

    /// Removes slot `from` and all after it.
    pub fn truncate_from(&mut self, from: SlotId) -> Result<()> {
        match self.slot_count().checked_sub(from.0) {
            Some(removed) => self.remove_many(from, removed),
            None => Err(self.no_slot(from)),
        }
    }

    /// Replaces the record in `slot`. A record that does not grow stays in place.
    pub fn replace(&mut self, slot: SlotId, bytes: &[u8]) -> Result<()> {
        let (offset, old) = self.checked_entry(slot)?;
        let new = bytes.len();
        let at = slot.0 as usize;
        if new <= old {
            self.put(offset, bytes);
            self.as_bytes_mut()[offset + new..offset + old].fill(0);
            self.set_garbage(self.garbage().saturating_add((old - new) as u16));
            self.set_entry(at, (offset, new));
            return Ok(());
        }
        if new > self.free_total() + old {
            return Err(self.full(new));
        }
        self.release((offset, old));
        self.set_entry(at, (PAGE_SIZE, 0));
        let offset = self.take(new, 0)?;
        self.put(offset, bytes);
        self.set_entry(at, (offset, new));
        Ok(())
    }

    /// The lower fence: no key of the page is below it. Empty = minus infinity.
    #[inline]
    pub fn lower_fence(&self) -> &[u8] {
        let (offset, len) = (self.lower_offset() as usize, self.lower_len() as usize);
        self.as_bytes().get(offset..offset + len).unwrap_or(&[])
    }

    /// The upper fence: every key of the page is below it. `None` = plus infinity.
    #[inline]
    pub fn upper_fence(&self) -> Option<&[u8]> {
        if self.upper_len() == FENCE_INFINITE {
            return None;
        }
        let (offset, len) = (self.upper_offset() as usize, self.upper_len() as usize);
        Some(self.as_bytes().get(offset..offset + len).unwrap_or(&[]))
    }

    fn fence_extents(&self) -> Result<(Extent, Option<Extent>)> {
        let check = |name, offset: u16, len: u16| {
            if len == 0 {
                return Ok((PAGE_SIZE, 0));
            }
            let extent = (offset as usize, len as usize);
            self.check_extent(extent).ok_or_else(|| self.bad(format!("{name} fence is at {extent:?}")))
        };
        let lower = check("lower", self.lower_offset(), self.lower_len())?;
        let upper = match self.upper_len() {
            FENCE_INFINITE => None,
            len => Some(check("upper", self.upper_offset(), len)?),
        };
        Ok((lower, upper))
    }

    /// Sets both fences. An empty `lower` is minus infinity, no `upper` plus infinity.
    pub fn set_fences(&mut self, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        let (old_lower, old_upper) = self.fence_extents()?;
        let old_upper = old_upper.unwrap_or((PAGE_SIZE, 0));
        let want = lower.len() + upper.map_or(0, <[u8]>::len);
        if want > self.free_total() + old_lower.1 + old_upper.1 {
            return Err(self.full(want));
        }
        self.store_lower(PAGE_SIZE, 0);
        self.store_upper(None);
        if old_lower.1 > 0 {
            self.release(old_lower);
        }
        if old_upper.1 > 0 {
            self.release(old_upper);
        }
        if !lower.is_empty() {
            let offset = self.take(lower.len(), 0)?;
            self.put(offset, lower);
            self.store_lower(offset, lower.len());
        }
        if let Some(upper) = upper {
            let offset = self.take(upper.len(), 0)?;
            self.put(offset, upper);
            self.store_upper(Some((offset, upper.len())));
        }
        Ok(())
    }

    /// Sets the upper fence alone.
    pub fn set_upper_fence(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let lower = self.lower_fence().to_vec();
        self.set_fences(&lower, upper)
    }

    fn store_lower(&mut self, offset: usize, len: usize) {
        self.set_lower_offset(if len == 0 { 0 } else { offset as u16 });
        self.set_lower_len(len as u16);
    }
    fn store_upper(&mut self, extent: Option<Extent>) {
        let (offset, len) = match extent {
            None => (0, FENCE_INFINITE),
            Some((_, 0)) => (0, 0),
            Some((offset, len)) => (offset as u16, len as u16),
        };
        self.set_upper_offset(offset);
        self.set_upper_len(len);
    }

    /// Rebuilds the page from what `make` appends for each record; false = its slot goes. The
    /// result is what a compaction of those records gives. On error the page is as it was.
    pub fn rebuild(&mut self, mut make: impl FnMut(SlotId, &[u8], &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let count = self.slot_count();
        let (lower, upper) = self.fence_extents()?;
        let mut fresh = [0u8; PAGE_SIZE];
        let (mut top, mut kept) = (PAGE_SIZE, 0usize);
        let mut place = |bytes: &[u8], slots: usize| -> Option<Extent> {
            let start = top.checked_sub(bytes.len()).filter(|&t| t >= slot_at(slots))?;
            fresh[start..top].copy_from_slice(bytes);
            top = start;
            Some((start, bytes.len()))
        };
        let full = || self.bad("the rebuilt page would be too full");
        let lower = place(&self.as_bytes()[lower.0..lower.0 + lower.1], 0).ok_or_else(full)?;
        let upper = match upper {
            Some((at, len)) => Some(place(&self.as_bytes()[at..at + len], 0).ok_or_else(full)?),
            None => None,
        };
        let mut slots = [(0u16, 0u16); SLOTS_MAX as usize];
        let mut made = Vec::with_capacity(512);
        for s in 0..count {
            made.clear();
            if make(SlotId(s), self.record(SlotId(s))?, &mut made)? {
                let (offset, len) = place(&made, kept + 1).ok_or_else(full)?;
                slots[kept] = (offset as u16, len as u16);
                kept += 1;
            }
        }
        self.as_bytes_mut()[HEADER_SIZE..].copy_from_slice(&fresh[HEADER_SIZE..]);
        self.set_raw_slot_count(kept as u16);
        for (i, &(offset, len)) in slots.iter().enumerate().take(kept) {
            self.set_entry(i, (offset as usize, len as usize));
        }
        self.store_lower(lower.0, lower.1);
        self.store_upper(upper);
        self.set_heap_start(top as u16);
        self.set_garbage(0);
        Ok(())
    }

    /// Rebuilds the heap without garbage. On error the page is as it was.
    pub fn compact(&mut self) -> Result<()> {
        let count = self.slot_count() as usize;
        let slots_end = self.slots_end();
        let (lower, upper) = self.fence_extents()?;
        let mut fresh = [0u8; PAGE_SIZE];
        let mut top = PAGE_SIZE;
        let mut place = |from: Extent| -> Option<Extent> {
            let start = top.checked_sub(from.1).filter(|&t| t >= slots_end)?;
            fresh[start..top].copy_from_slice(&self.as_bytes()[from.0..from.0 + from.1]);
            top = start;
            Some((start, from.1))
        };
        let overlap = || self.bad("records overlap");
        let lower = place(lower).ok_or_else(overlap)?;
        let upper = match upper {
            Some(upper) => Some(place(upper).ok_or_else(overlap)?),
            None => None,
        };
        let mut slots = [(0u16, 0u16); SLOTS_MAX as usize];
        for (i, slot) in slots.iter_mut().enumerate().take(count) {
            let from = self.checked_entry(SlotId(i as u16))?;
            let (offset, len) = place(from).ok_or_else(overlap)?;
            *slot = (offset as u16, len as u16);
        }
        self.as_bytes_mut()[slots_end..].copy_from_slice(&fresh[slots_end..]);
        for (i, &(offset, len)) in slots.iter().enumerate().take(count) {
            self.set_entry(i, (offset as usize, len as usize));
        }
        self.store_lower(lower.0, lower.1);
        self.store_upper(upper);
        self.set_heap_start(top as u16);
        self.set_garbage(0);
        Ok(())
    }
}
