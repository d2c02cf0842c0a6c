//! Blocks in memory: one open block that groups are appended to, and sealed ones
//! that wait to be written and synced.
//!
//! # Invariants
//! 1. Blocks in `sealed`, then `open`, follow each other in the stream without a
//!    gap, starting at the flushed position.
//! 2. A sealed block's payload no longer changes; its header is made when it
//!    is written (`sealed.rs`).
//! 3. A block is only opened in a segment that is prepared, so an appended group
//!    never lacks a place on disk.
//! 4. A block that ends exactly where its segment does has the next segment prepared:
//!    where the log ends there, a missing next segment was taken away.

use std::collections::VecDeque;
use std::sync::Arc;

use resurgam_base::Lsn;

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
use crate::config::LogConfig;
use crate::group::Group;
use crate::log::Appended;
use crate::sealed::{Sealed, Spares};

struct Open {
    lsn: Lsn,
    bytes: Vec<u8>,
}

/// Why a group could not be appended: this segment is not prepared yet.
pub(crate) struct SegmentWanted(pub(crate) u64);

pub(crate) struct Buffers {
    segment_bytes: u64,
    payload_max: usize,
    epoch: u32,
    opening: u32,
    open: Option<Open>,
    sealed: VecDeque<Arc<Sealed>>,
    /// So many of them, the first ones, are being written.
    taken: usize,
    /// Bytes of the sealed blocks.
    sealed_bytes: usize,
    /// Where the next block starts, when none is open.
    next: Lsn,
    last_block: Lsn,
    spares: Arc<Spares>,
}

impl Buffers {
    pub(crate) fn new(config: &LogConfig, epoch: u32, opening: u32, next: Lsn, last_block: Lsn) -> Self {
        Self {
            segment_bytes: config.segment_bytes,
            payload_max: config.block_payload_bytes_max,
            epoch,
            opening,
            open: None,
            sealed: VecDeque::new(),
            taken: 0,
            sealed_bytes: 0,
            next,
            last_block,
            spares: Arc::default(),
        }
    }

    /// Bytes not durable yet.
    pub(crate) fn bytes(&self) -> usize {
        self.sealed_bytes + self.open.as_ref().map_or(0, |open| open.bytes.len())
    }

    /// Where the stream ends: the next byte to be assigned.
    pub(crate) fn end(&self) -> Lsn {
        match &self.open {
            Some(open) => Lsn(open.lsn.0 + open.bytes.len() as u64),
            None => self.next,
        }
    }

    /// Appends a group; `fresh` puts it at the start of a block of its own.
    /// `prepared_end` is the end of the last prepared segment.
    pub(crate) fn append(&mut self, group: &Group, fresh: bool, prepared_end: Lsn) -> Result<Appended, SegmentWanted> {
        if let Some(open) = &self.open {
            let len = open.bytes.len() + group.len();
            let segment_left = self.segment_bytes - open.lsn.0 % self.segment_bytes;
            if fresh || len > BLOCK_HEADER_BYTES + self.payload_max || len as u64 > segment_left {
                self.seal();
            } else {
                self.check_next_segment(open.lsn, len, prepared_end)?;
            }
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.new_block(group.len(), prepared_end)?,
        };
        let base = group.place(&mut open.bytes, open.lsn);
        let block = open.lsn;
        self.open = Some(open);
        Ok(Appended { base, end: self.end(), block })
    }

    fn new_block(&mut self, payload_len: usize, prepared_end: Lsn) -> Result<Open, SegmentWanted> {
        let segment = self.next.0 / self.segment_bytes;
        let segment_end = Lsn((segment + 1) * self.segment_bytes);
        let skip = self.next.0 + (BLOCK_HEADER_BYTES + payload_len) as u64 > segment_end.0;
        let lsn = if skip { segment_end } else { self.next };
        if lsn >= prepared_end {
            return Err(SegmentWanted(lsn.0 / self.segment_bytes));
        }
        self.check_next_segment(lsn, BLOCK_HEADER_BYTES + payload_len, prepared_end)?;
        if skip {
            self.push_sealed(self.next, vec![0; BLOCK_HEADER_BYTES], true);
        }
        let mut bytes = self.spares.take();
        bytes.resize(BLOCK_HEADER_BYTES, 0);
        Ok(Open { lsn, bytes })
    }

    /// Invariant 4 for a block of `len` bytes, header included, at `lsn`.
    fn check_next_segment(&self, lsn: Lsn, len: usize, prepared_end: Lsn) -> Result<(), SegmentWanted> {
        let next = lsn.0 + len.next_multiple_of(BLOCK_ALIGN) as u64;
        if next.is_multiple_of(self.segment_bytes) && next >= prepared_end.0 {
            return Err(SegmentWanted(next / self.segment_bytes));
        }
        Ok(())
    }

    /// Closes the open block, if there is one.
    pub(crate) fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            self.push_sealed(open.lsn, open.bytes, false);
        }
    }

    fn push_sealed(&mut self, lsn: Lsn, bytes: Vec<u8>, skip: bool) {
        let header = BlockHeader {
            lsn,
            prev: self.last_block,
            durable: Lsn::NONE,
            epoch: self.epoch,
            payload_len: (bytes.len() - BLOCK_HEADER_BYTES) as u32,
            opening: self.opening,
            skip,
        };
        self.next = header.next(self.segment_bytes);
        self.last_block = lsn;
        self.sealed_bytes += bytes.len();
        self.sealed.push_back(Arc::new(Sealed::new(header, bytes, &self.spares)));
    }

    /// Takes the next blocks to be written, all of one segment and of about `bytes_max`, one at least; the open block is sealed where it is
    /// among them. None: all that is here was taken. They stay readable here until [`Buffers::written`].
    pub(crate) fn take(&mut self, bytes_max: usize) -> Vec<Arc<Sealed>> {
        let (mut blocks, mut bytes) = (Vec::new(), 0usize);
        let mut segment = None;
        loop {
            let at = self.taken + blocks.len();
            let (lsn, len) = match (self.sealed.get(at), &self.open) {
                (Some(sealed), _) => (sealed.header.lsn, sealed.bytes.len()),
                (None, Some(open)) => (open.lsn, open.bytes.len()),
                (None, None) => break,
            };
            let of = lsn.0 / self.segment_bytes;
            if segment.is_some_and(|segment| segment != of) || bytes > 0 && bytes.saturating_add(len) > bytes_max {
                break;
            }
            if at == self.sealed.len() {
                self.seal();
            }
            segment = Some(of);
            bytes += len;
            blocks.extend(self.sealed.get(at).cloned());
        }
        self.taken += blocks.len();
        blocks
    }

    /// Forgets the first `count` sealed blocks: they are durable.
    pub(crate) fn written(&mut self, count: usize) {
        self.taken = self.taken.saturating_sub(count);
        for sealed in self.sealed.drain(..count.min(self.sealed.len())) {
            self.sealed_bytes -= sealed.bytes.len();
        }
    }

    /// The block in memory that `lsn` falls into: its start and bytes (header
    /// not filled in).
    pub(crate) fn find(&self, lsn: Lsn) -> Option<(Lsn, &[u8])> {
        if let Some(open) = &self.open
            && lsn >= open.lsn
        {
            return Some((open.lsn, &open.bytes));
        }
        let after = self.sealed.partition_point(|sealed| sealed.header.lsn <= lsn);
        let sealed = self.sealed.get(after.checked_sub(1)?)?;
        // Behind the last sealed block nothing is in memory.
        (lsn < sealed.header.next(self.segment_bytes)).then_some((sealed.header.lsn, sealed.bytes.as_slice()))
    }
}
