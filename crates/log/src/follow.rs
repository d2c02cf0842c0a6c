//! Following the log: the durable blocks from a position on, one after another, waiting for more.
//!
//! [`LogReader`](crate::LogReader) reads a log that nobody writes, to the end that a crash left. This one reads
//! the log that is open, and only what is durable: LSNs behind the durable position may be given out
//! again after a crash. Blocks come from memory where the follower is near the end, and otherwise from
//! segment files, each verified. No commit waits for it.
//!
//! # Invariants
//! 1. What is handed out ends at or below the durable position of the moment.
//! 2. Blocks are handed out in order and without a gap; [`LogFollower::position`] is where the next one starts.
//! 3. Below the durable position there is no end of the log: a block that is not whole there is damage, an error.
//!
//! The follower holds no log: who needs it to be kept has a [`LogHold`](crate::LogHold).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Lsn, Result};

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
use crate::core::Core;
use crate::decoded::Block;
use crate::record::{RecordRef, record_at};
use crate::sealed::Sealed;

/// Bytes read from a segment file at a time.
const READ_BYTES: u64 = 1 << 20;

/// A durable block.
#[derive(Clone)]
pub struct LogBlock {
    sealed: Arc<Sealed>,
    next: Lsn,
    segment_bytes: u64,
}

impl LogBlock {
    pub(crate) fn new(sealed: &Arc<Sealed>, segment_bytes: u64) -> Self {
        Self { next: sealed.header.next(segment_bytes), sealed: Arc::clone(sealed), segment_bytes }
    }

    /// Where it starts.
    pub fn lsn(&self) -> Lsn {
        self.sealed.header.lsn
    }

    /// Where the block after it starts.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Which opening of the log wrote it.
    pub fn epoch(&self) -> u32 {
        self.sealed.header.epoch
    }

    /// Bytes of its records.
    pub fn payload_bytes(&self) -> usize {
        self.sealed.bytes.len().saturating_sub(BLOCK_HEADER_BYTES)
    }

    /// The same as those who copy the log are given it. The durable position in its header is not filled in where it
    /// came from memory.
    pub fn block(&self) -> Block<'_> {
        Block::trusted(self.sealed.header, &self.sealed.bytes, self.segment_bytes)
    }

    /// Its header and its records, as a segment file has them: what goes to another process, which checks them there with
    /// [`Block::parse`]. The durable position in the header is that of when it was written.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.sealed.head(), self.sealed.payload()]
    }

    /// Appends its bytes, which [`LogBlock::parts`] has without a copy.
    pub fn put_bytes(&self, out: &mut Vec<u8>) {
        self.parts().into_iter().for_each(|part| out.extend_from_slice(part));
    }

    /// CRC-32C of bytes whose CRC-32C is `seed`, followed by the block's. That of the block is known, so that a message with it needs no other look at
    /// its records.
    pub fn checksum_after(&self, seed: u32) -> u32 {
        self.sealed.checksum_after(seed)
    }

    /// Its records in order; none in a block that only says that the next segment follows. After an
    /// error (`Corrupt`, naming the record) there are no more.
    pub fn records(&self) -> impl Iterator<Item = Result<RecordRef<'_>>> {
        let bytes = if self.sealed.header.skip { &[][..] } else { self.sealed.bytes.as_slice() };
        let mut at = BLOCK_HEADER_BYTES;
        std::iter::from_fn(move || {
            if at >= bytes.len() {
                return None;
            }
            let record = record_at(bytes, self.lsn(), at);
            at = record.as_ref().map_or(bytes.len(), |record| at + record.header.len as usize);
            Some(record)
        })
    }
}

/// See the module. From [`Log::follow`](crate::Log::follow).
pub struct LogFollower {
    core: Arc<Core>,
    /// Where the next block starts.
    at: Lsn,
    /// The block handed out last, and its epoch.
    last: Option<(Lsn, u32)>,
    /// Blocks found together with one that was handed out.
    ready: VecDeque<Arc<Sealed>>,
    from_memory: u64,
    from_files: u64,
}

impl LogFollower {
    pub(crate) fn new(core: Arc<Core>, from: Lsn) -> Result<Self> {
        let (oldest, durable) = (core.segments.oldest(), core.flushed());
        if from < oldest || from > durable || !from.0.is_multiple_of(BLOCK_ALIGN as u64) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the log cannot be followed from LSN {from} on: it is kept from LSN {oldest} to {durable}"),
            ));
        }
        core.tail.join();
        Ok(Self { core, at: from, last: None, ready: VecDeque::new(), from_memory: 0, from_files: 0 })
    }

    /// Everything below was handed out: where the next block starts.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Blocks that came from memory, and those that were read from segment files.
    pub fn sources(&self) -> (u64, u64) {
        (self.from_memory, self.from_files)
    }

    /// The next durable block; `None` when there was none for as long as `wait`.
    ///
    /// # Errors
    /// `Corrupt` when a block that had been durable is not whole, or the log was truncated behind the follower's
    /// back; `Io`, after which it may be asked again; `Stopped` when the log has stopped and everything durable
    /// was handed out.
    pub fn next(&mut self, wait: Duration) -> Result<Option<LogBlock>> {
        if self.ready.is_empty() && !self.fill(wait)? {
            return Ok(None);
        }
        let Some(sealed) = self.ready.pop_front() else { return Ok(None) };
        let header = &sealed.header;
        let (last, epoch) = self.last.unwrap_or((header.prev, header.epoch));
        if header.lsn != self.at || (header.prev.is_some() && header.prev != last) || header.epoch < epoch {
            self.ready.clear();
            return Err(self.damaged("a block is there that does not follow the one before it"));
        }
        self.last = Some((header.lsn, header.epoch));
        self.at = header.next(self.core.config.segment_bytes);
        Ok(Some(LogBlock { next: self.at, segment_bytes: self.core.config.segment_bytes, sealed }))
    }

    /// Finds further blocks; false when there is none in time.
    fn fill(&mut self, wait: Duration) -> Result<bool> {
        let until = Instant::now() + wait;
        let durable = loop {
            let durable = self.core.flushed();
            if durable > self.at {
                break durable;
            }
            self.core.check_running()?;
            if Instant::now() >= until {
                return Ok(false);
            }
            let (core, at) = (&self.core, self.at);
            core.tail.wait(until, || core.flushed() > at || core.check_running().is_err());
        };
        self.ready.extend(self.core.tail.from(self.at));
        if self.ready.is_empty() {
            self.read_files(durable)?;
            self.from_files += self.ready.len() as u64;
        } else {
            self.from_memory += self.ready.len() as u64;
        }
        Ok(!self.ready.is_empty())
    }

    /// Reads the blocks that are whole in the next stretch of the segment.
    fn read_files(&mut self, durable: Lsn) -> Result<()> {
        let segment_bytes = self.core.config.segment_bytes;
        let segment = self.at.0 / segment_bytes;
        let offset = self.at.0 % segment_bytes;
        let left = segment_bytes - offset;
        let file = self.core.segments.file(segment)?;
        let mut bytes = Vec::new();
        let mut want = READ_BYTES.min(left).min((durable.0 - self.at.0).max(BLOCK_ALIGN as u64));
        loop {
            bytes.resize(want as usize, 0);
            let read = file.read_at(&mut bytes, offset)?;
            bytes.truncate(read);
            let header = bytes.first_chunk().and_then(|head| BlockHeader::decode(head, self.at));
            match header {
                Some(header) if header.len() > left => return Err(self.damaged("its block leads past its segment")),
                // A block larger than what was read.
                Some(header) if header.len() > bytes.len() as u64 && want < header.len() => want = header.len(),
                _ => break,
            }
        }
        let (mut at, mut start) = (self.at, 0usize);
        while at < durable && at.0 / segment_bytes == segment {
            let rest = bytes.get(start..).unwrap_or_default();
            let header = rest.first_chunk().and_then(|head| BlockHeader::decode(head, at));
            let Some(header) = header else { break };
            let Some(block) = usize::try_from(header.len()).ok().and_then(|len| rest.get(..len)) else { break };
            if header.skip != header.is_empty() || !BlockHeader::verify(block)? {
                break;
            }
            let next = header.next(segment_bytes);
            self.ready.push_back(Arc::new(Sealed::of_file(header, block.to_vec())));
            start += (next.0 - at.0) as usize;
            at = next;
        }
        // What was read may have been reused meanwhile.
        let oldest = self.core.segments.oldest();
        if self.at < oldest {
            self.ready.clear();
            return Err(Error::corrupt(format!(
                "the log at LSN {} is not kept any more (kept is what is from LSN {oldest} on)",
                self.at
            )));
        }
        if self.ready.is_empty() {
            return Err(self.damaged("its block there is damaged, though it had been durable"));
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> Error {
        let segment = self.at.0 / self.core.config.segment_bytes;
        Error::corrupt(format!(
            "the log is damaged at LSN {} (file \"{}\"): {what}",
            self.at,
            self.core.segments.path(segment).display()
        ))
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.core.tail.leave();
    }
}
