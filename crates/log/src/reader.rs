//! Reading the log from a block to its end, in order.
//!
//! The reader trusts nothing: a block counts when its header is of the expected
//! position, its epoch not below the one before, its link to the block before
//! right, and its checksum right. The first position where that fails is the end
//! of the log; [`LogReader::why_stopped`] says what was found there, and
//! [`LogReader::check_end`] whether it was the end or a hole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
use crate::decoded::Block;
use crate::planted::PlantedInLog;
use crate::record::{RecordRef, record_at};
use crate::segments::{list_segments, segment_path};

/// Bytes read at a time.
const READ_AHEAD_BYTES: u64 = 1 << 20;
/// How much of a segment behind that of the end [`LogReader::check_end`] looks at, unless it holds a
/// block of its own position: one that was made ready and not reached by the log holds none.
const PROBE_BYTES: u64 = 1 << 20;

/// Where the log ends: what [`Log::open`](crate::Log::open) continues from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Where the next block goes.
    pub lsn: Lsn,
    /// The highest epoch read, or the one the reader was opened with.
    pub epoch: u32,
    /// The last block read, or none.
    pub last_block: Lsn,
    /// Everything below was durable when the last block was written. What follows may be in
    /// the system's cache only, and a later sync may not write it (after a failed one it
    /// counts as written): an open writes it again.
    pub durable: Lsn,
}

/// A process that opened the log for writing, and where its blocks begin: whatever others wrote before, to any file, is of
/// what lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    pub epoch: u32,
    /// The random number that it drew; 0: not known.
    pub number: u32,
    /// No block of it lies before.
    pub from: Lsn,
}

/// What the reader found instead of a further block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyStopped {
    /// Zeros: nothing was ever written there.
    Zeros,
    /// No block, or one of another position: a recycled segment.
    OtherPosition,
    /// A block of an earlier epoch: from before a crash.
    StaleEpoch,
    /// A block that follows another one than the last read.
    OtherPredecessor,
    /// A block of this position, torn or damaged.
    BadChecksum,
    /// The segment file does not exist.
    MissingSegment,
    /// The segment file ends before its time.
    ShortSegment,
}

/// The bytes of segment files through a window.
struct Window {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    segment_bytes: u64,
    file: Option<(u64, Arc<dyn File>)>,
    buf: Vec<u8>,
    start: Lsn,
    len: usize,
}

enum Bytes {
    There,
    MissingSegment,
    ShortSegment,
}

impl Window {
    /// Makes `len` bytes at `lsn` (which are of one segment) available.
    fn load(&mut self, lsn: Lsn, len: u64) -> Result<Bytes> {
        if lsn >= self.start && lsn.0 + len <= self.start.0 + self.len as u64 {
            return Ok(Bytes::There);
        }
        let segment = lsn.0 / self.segment_bytes;
        let offset = lsn.0 % self.segment_bytes;
        let file = match &self.file {
            Some((number, file)) if *number == segment => file,
            _ => {
                let path = segment_path(&*self.vfs, &self.dir, segment)?;
                if !self.vfs.exists(&path)? {
                    return Ok(Bytes::MissingSegment);
                }
                let file = self.vfs.open(&path, OpenMode::ReadOnly)?;
                &self.file.insert((segment, file)).1
            }
        };
        let want = len.max(READ_AHEAD_BYTES).min(self.segment_bytes - offset) as usize;
        if self.buf.len() < want {
            self.buf.resize(want, 0);
        }
        self.len = 0;
        self.len = file.read_at(&mut self.buf[..want], offset)?;
        self.start = lsn;
        Ok(if (self.len as u64) < len { Bytes::ShortSegment } else { Bytes::There })
    }

    /// Bytes made available by [`Window::load`].
    fn get(&self, lsn: Lsn, len: usize) -> &[u8] {
        let at = (lsn.0 - self.start.0) as usize;
        &self.buf[at..at + len]
    }

    /// The header at `lsn`, if the bytes there are one of this position.
    fn header(&self, lsn: Lsn) -> Option<BlockHeader> {
        BlockHeader::decode(self.get(lsn, BLOCK_HEADER_BYTES).first_chunk()?, lsn)
    }
}

/// A sequential reader of the log.
pub struct LogReader {
    window: Window,
    end: LogEnd,
    why: Option<WhyStopped>,
    /// The block whose records are handed out.
    block: Option<BlockHeader>,
    /// Offset in it of the next record.
    at: usize,
    in_group: bool,
    /// The last block says that the log goes on in the next segment.
    after_skip: bool,
    openings: Vec<Opening>,
}

impl LogReader {
    /// A reader of the log in `dir` that starts with the block at `from`, which
    /// must be of `min_epoch` or later.
    ///
    /// # Errors
    /// `InvalidParameter` when `from` cannot be the start of a block.
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, segment_bytes: u64, from: Lsn, min_epoch: u32) -> Result<LogReader> {
        let aligned = segment_bytes.is_multiple_of(BLOCK_ALIGN as u64) && from.0.is_multiple_of(BLOCK_ALIGN as u64);
        if segment_bytes == 0 || !aligned || from.0 > u64::MAX / 2 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("LSN {from} cannot be the start of a log block (segments of {segment_bytes} bytes)"),
            ));
        }
        Ok(LogReader {
            window: Window {
                vfs,
                dir: dir.to_path_buf(),
                segment_bytes,
                file: None,
                buf: Vec::new(),
                start: Lsn::NONE,
                len: 0,
            },
            end: LogEnd { lsn: from, epoch: min_epoch, last_block: Lsn::NONE, durable: from },
            why: None,
            block: None,
            at: 0,
            in_group: false,
            after_skip: false,
            openings: Vec::new(),
        })
    }

    /// The next record, or `None` at the end of the log.
    ///
    /// # Errors
    /// `Io`; `Corrupt` when a block with a right checksum holds malformed
    /// records; `NewerFormat`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        let Some(block) = self.block_with_records()? else {
            return Ok(None);
        };
        let bytes = self.window.get(block.lsn, block.len() as usize);
        let record = record_at(bytes, block.lsn, self.at)?;
        let next = self.at + record.header.len as usize;
        if record.header.first_of_group == self.in_group || (next == bytes.len() && !record.header.last_of_group) {
            return Err(Error::corrupt(format!(
                "log record at LSN {}: the group in the block at LSN {} is not whole",
                record.lsn, block.lsn
            )));
        }
        self.at = next;
        self.in_group = !record.header.last_of_group;
        Ok(Some(record))
    }

    /// The next group, or `None` at the end of the log. After [`LogReader::next`]
    /// stopped inside a group, the rest of that group.
    ///
    /// # Errors
    /// As [`LogReader::next`].
    pub fn next_group(&mut self) -> Result<Option<GroupRef<'_>>> {
        let Some(first) = self.next()? else {
            return Ok(None);
        };
        let (from, mut last) = (first.lsn, first.header.last_of_group);
        while !last {
            match self.next()? {
                Some(record) => last = record.header.last_of_group,
                None => return Err(Error::internal("a log group ended without its last record")),
            }
        }
        let Some(block) = self.block else {
            return Ok(None);
        };
        Ok(Some(GroupRef {
            block: block.lsn,
            bytes: &self.window.get(block.lsn, block.len() as usize)[..self.at],
            at: (from.0 - block.lsn.0) as usize,
        }))
    }

    /// The next block as a whole (SKIP blocks included), or `None` at the end of the log. Of a block that was begun
    /// record by record the rest is passed over.
    ///
    /// # Errors
    /// As [`LogReader::next`].
    pub fn next_whole_block(&mut self) -> Result<Option<Block<'_>>> {
        if self.why.is_some() || !self.advance()? {
            return Ok(None);
        }
        let Some(header) = self.block else { return Ok(None) };
        self.at = header.len() as usize;
        let bytes = self.window.get(header.lsn, header.len() as usize);
        Block::parse(bytes, header.lsn, self.window.segment_bytes).map(Some)
    }

    /// The block of the record read last.
    pub fn block(&self) -> Option<BlockHeader> {
        self.block
    }

    /// Where the log ends as far as it was read; final once `next` returned `None`.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Who wrote what was read so far, in order. Of the first one earlier blocks may lie before where the reader began.
    pub fn openings(&self) -> &[Opening] {
        &self.openings
    }

    /// What stands at the end; `None` before the end is reached.
    pub fn why_stopped(&self) -> Option<WhyStopped> {
        self.why
    }

    /// Moves on to a block with unread records.
    fn block_with_records(&mut self) -> Result<Option<BlockHeader>> {
        loop {
            if let Some(block) = self.block
                && self.at < block.len() as usize
                && !block.skip
            {
                return Ok(Some(block));
            }
            if self.why.is_some() {
                return Ok(None);
            }
            self.advance()?;
        }
    }

    /// Moves on to the next block; false at the end.
    fn advance(&mut self) -> Result<bool> {
        match self.next_block()? {
            Ok(block) => {
                self.end = LogEnd {
                    lsn: block.next(self.window.segment_bytes),
                    epoch: block.epoch,
                    last_block: block.lsn,
                    durable: block.durable.min(block.lsn),
                };
                self.after_skip = block.skip;
                if self.openings.last().is_none_or(|last| last.epoch != block.epoch) {
                    self.openings.push(Opening { epoch: block.epoch, number: block.opening, from: block.lsn });
                }
                self.block = Some(block);
                self.at = BLOCK_HEADER_BYTES;
                self.in_group = false;
                Ok(true)
            }
            Err(why) => {
                self.why = Some(why);
                self.block = None;
                Ok(false)
            }
        }
    }

    fn next_block(&mut self) -> Result<Result<BlockHeader, WhyStopped>> {
        let lsn = self.end.lsn;
        match self.window.load(lsn, BLOCK_HEADER_BYTES as u64)? {
            Bytes::There => {}
            Bytes::MissingSegment => return Ok(Err(WhyStopped::MissingSegment)),
            Bytes::ShortSegment => return Ok(Err(WhyStopped::ShortSegment)),
        }
        let Some(header) = self.window.header(lsn) else {
            let zeros = self.window.get(lsn, BLOCK_HEADER_BYTES).iter().all(|b| *b == 0);
            return Ok(Err(if zeros { WhyStopped::Zeros } else { WhyStopped::OtherPosition }));
        };
        // The checksum comes first: nothing is concluded from damaged fields.
        if !self.intact(&header)? {
            return Ok(Err(WhyStopped::BadChecksum));
        }
        if header.epoch < self.end.epoch && !PlantedInLog::StaleBlock.is_planted() {
            return Ok(Err(WhyStopped::StaleEpoch));
        }
        if self.end.last_block.is_some() && header.prev.is_some() && header.prev != self.end.last_block {
            return Ok(Err(WhyStopped::OtherPredecessor));
        }
        Ok(Ok(header))
    }

    /// Loads the block of `header` and checks length and checksum.
    fn intact(&mut self, header: &BlockHeader) -> Result<bool> {
        let segment_bytes = self.window.segment_bytes;
        let left = segment_bytes - header.lsn.0 % segment_bytes;
        if header.len() > left || header.skip != header.is_empty() {
            return Ok(false);
        }
        match self.window.load(header.lsn, header.len())? {
            Bytes::There => BlockHeader::verify(self.window.get(header.lsn, header.len() as usize)),
            Bytes::MissingSegment | Bytes::ShortSegment => Ok(false),
        }
    }

    /// Looks behind the end for a block which proves that what stood at the end
    /// had been durable, that is: committed work is missing. A crash alone never
    /// leaves such a block.
    ///
    /// Where one block is damaged the proof is in the same segment or in the next one, where the first flushes may not have become durable
    /// though others behind them did. So the segment of the end and the next one are read whole, of the others the begin, and all where that holds blocks.
    ///
    /// # Errors
    /// `Corrupt`, naming the damaged position and the proof.
    pub fn check_end(&mut self) -> Result<()> {
        self.check_segment_of_end()?;
        let segment_bytes = self.window.segment_bytes;
        let first = self.end.lsn.0 / segment_bytes;
        for number in list_segments(&*self.window.vfs, &self.window.dir)? {
            if number >= first && number <= u64::MAX / 2 / segment_bytes {
                self.check_segment(number)?;
            }
        }
        Ok(())
    }

    /// Looks for the proof in one segment.
    fn check_segment(&mut self, number: u64) -> Result<()> {
        let (end, segment_bytes) = (self.end, self.window.segment_bytes);
        let first = end.lsn.0 / segment_bytes;
        let mut lsn = Lsn((number * segment_bytes).max(end.lsn.0));
        // The first flights of the next segment may be holes, and the proof behind them.
        let mut until = if number <= first + 1 { u64::MAX } else { lsn.0 + PROBE_BYTES };
        while lsn.0 < ((number + 1) * segment_bytes).min(until) {
            match self.window.load(lsn, BLOCK_HEADER_BYTES as u64)? {
                Bytes::There => {}
                Bytes::MissingSegment | Bytes::ShortSegment => break,
            }
            if let Some(header) = self.window.header(lsn) {
                until = u64::MAX;
                if header.epoch >= end.epoch && header.durable > end.lsn && self.intact(&header)? {
                    return Err(Error::corrupt(format!(
                        "the log is damaged at LSN {} (file \"{}\", {:?}): the later block at LSN {lsn} \
                         shows that it had been durable up to LSN {}",
                        end.lsn,
                        segment_path(&*self.window.vfs, &self.window.dir, first)?.display(),
                        self.why,
                        header.durable,
                    ))
                    .with_hint("Restore from a backup, or accept the loss of later transactions."));
                }
            }
            lsn.0 += BLOCK_ALIGN as u64;
        }
        Ok(())
    }
}

impl LogReader {
    /// A segment is written to only after its name and its full length are durable, and those
    /// of the next one before a block ends exactly at its end. So the one in which the log
    /// ends cannot be missing or short after any crash: the file was removed or cut.
    fn check_segment_of_end(&self) -> Result<()> {
        let (lsn, segment_bytes) = (self.end.lsn, self.window.segment_bytes);
        if !self.after_skip && self.end.last_block.is_none() {
            return Ok(());
        }
        let number = lsn.0 / segment_bytes;
        let path = segment_path(&*self.window.vfs, &self.window.dir, number)?;
        let what = if self.window.vfs.exists(&path)? {
            let len = self.window.vfs.open(&path, OpenMode::ReadOnly)?.len()?;
            if len >= segment_bytes {
                return Ok(());
            }
            format!("is cut short: {len} of {segment_bytes} bytes are there")
        } else {
            "is missing".to_owned()
        };
        Err(Error::corrupt(format!(
            "log segment \"{}\" {what}; it holds the log from LSN {} to {}, of which everything from LSN {lsn} on is needed",
            path.display(),
            number * segment_bytes,
            (number + 1) * segment_bytes,
        ))
        .with_hint("Put the file back if it was moved away; otherwise restore the data folder from a backup."))
    }
}

/// The records of one group in the reader's buffer.
#[derive(Clone, Copy)]
pub struct GroupRef<'a> {
    block: Lsn,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> GroupRef<'a> {
    /// Start of the block that holds the group.
    pub fn block(&self) -> Lsn {
        self.block
    }

    /// The records, in order.
    pub fn records(self) -> impl Iterator<Item = RecordRef<'a>> {
        let mut at = self.at;
        std::iter::from_fn(move || {
            // Checked when the group was read; a failure here would end the group.
            let record = record_at(self.bytes, self.block, at).ok()?;
            at += record.header.len as usize;
            Some(record)
        })
    }
}
