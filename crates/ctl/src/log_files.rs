//! Blocks and records of the log by position, damaged ones included.
//!
//! The reader of the log stops at the first doubt, as recovery must. A printer goes on:
//! here a block is handed out together with what is wrong about it. What the bytes mean is the
//! log crate's to say (`block.rs`, `record.rs`).
//!
//! # Invariants
//! 1. What is read and allocated is bounded by the segment file's real length.
//! 2. Verified blocks are kept in two generations of [`GENERATION_BYTES`] each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use resurgam_base::{Lsn, Result};
use resurgam_log::{
    BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader, RECORD_HEADER_BYTES, RecordHeader, segment_file_name,
    segment_number_of, segment_path,
};
use resurgam_vfs::File;

use crate::folder::Folder;

const GENERATION_BYTES: usize = 32 << 20;

/// A block as read from disk.
#[derive(Debug)]
pub(crate) struct Block {
    pub header: BlockHeader,
    /// Header and payload.
    bytes: Vec<u8>,
}

/// Why there is no trustworthy block at a position.
#[derive(Debug)]
pub(crate) enum BlockFault {
    MissingSegment,
    /// The segment file ends before the block does.
    ShortSegment,
    Zeros,
    NotABlock,
    /// A block of another position: of a recycled segment.
    OtherPosition(Lsn),
    /// Of a later version, in words.
    Newer(String),
    BadLength(u64),
    /// Torn or damaged; its bytes are handed out for what they are worth.
    BadChecksum(Box<Block>),
    Unreadable(String),
}

impl fmt::Display for BlockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingSegment => f.write_str("the segment file does not exist"),
            Self::ShortSegment => f.write_str("the segment file ends too early"),
            Self::Zeros => f.write_str("zeros, nothing was written here"),
            Self::NotABlock => f.write_str("no block starts here"),
            Self::OtherPosition(lsn) => write!(f, "a block of LSN {lsn} (the segment was recycled)"),
            Self::Newer(why) => f.write_str(why),
            Self::BadLength(len) => write!(f, "a block of {len} bytes, which does not fit its segment"),
            Self::BadChecksum(_) => f.write_str("a block with a wrong checksum"),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

/// A record of a block.
pub(crate) struct Record<'a> {
    pub lsn: Lsn,
    pub header: RecordHeader,
    pub body: &'a [u8],
}

impl Block {
    /// Its records in order; ends after the first that cannot be read.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>, String>> {
        let mut at = BLOCK_HEADER_BYTES;
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed || at >= self.bytes.len() {
                return None;
            }
            let record = self.record(at);
            match &record {
                Ok(record) => at += record.header.len as usize,
                Err(_) => failed = true,
            }
            Some(record)
        })
    }

    /// The record `offset` bytes into the block.
    pub fn record(&self, offset: usize) -> Result<Record<'_>, String> {
        let lsn = Lsn(self.header.lsn.0.saturating_add(offset as u64));
        let bad = |what: String| format!("record at LSN {lsn}: {what}");
        let rest = self.bytes.get(offset..).unwrap_or(&[]);
        let Some((head, _)) = rest.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(bad(format!("{} bytes are left, too few for a header", rest.len())));
        };
        let header = RecordHeader::decode_head(head).map_err(bad)?;
        if header.offset_in_block as usize != offset {
            return Err(bad(format!(
                "it claims to be {} bytes into its block and is {offset}",
                header.offset_in_block
            )));
        }
        match rest.get(RECORD_HEADER_BYTES..header.len as usize) {
            Some(body) => Ok(Record { lsn, header, body }),
            None => Err(bad(format!("its length {} leads past the end of its block", header.len))),
        }
    }
}

#[derive(Default)]
struct Cache {
    young: HashMap<Lsn, Rc<Block>>,
    old: HashMap<Lsn, Rc<Block>>,
    young_bytes: usize,
}

impl Cache {
    fn get(&mut self, lsn: Lsn) -> Option<Rc<Block>> {
        if let Some(block) = self.young.get(&lsn) {
            return Some(Rc::clone(block));
        }
        let block = self.old.remove(&lsn)?;
        self.put(Rc::clone(&block));
        Some(block)
    }
    fn put(&mut self, block: Rc<Block>) {
        self.young_bytes += block.bytes.len();
        self.young.insert(block.header.lsn, block);
        if self.young_bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

/// The segment files of a log.
pub(crate) struct LogFiles {
    folder: Folder,
    dir: PathBuf,
    pub segment_bytes: u64,
    /// Numbers of the segment files, ascending.
    pub segments: Vec<u64>,
    open: RefCell<Option<(u64, Arc<dyn File>)>>,
    cache: RefCell<Cache>,
}

fn path_of(folder: &Folder, dir: &Path, number: u64) -> Result<PathBuf, String> {
    segment_path(&*folder.vfs, dir, number).map_err(|error| error.to_string())
}

impl LogFiles {
    /// The log of `folder`. Without a control file to say so, `segment_bytes` is taken from
    /// the first segment file.
    ///
    /// # Errors
    /// In words, when there is no usable segment size or folder.
    pub fn open(folder: &Folder, segment_bytes: Option<u64>) -> Result<Self, String> {
        let dir = folder.log();
        let names = folder.vfs.list(&dir).map_err(|e| e.to_string())?;
        let mut segments: Vec<u64> = names.iter().filter_map(|name| segment_number_of(name)).collect();
        segments.sort_unstable();
        segments.dedup();
        let usable = |bytes: &u64| (4096..=1 << 30).contains(bytes) && bytes.is_multiple_of(BLOCK_ALIGN as u64);
        let segment_bytes = match segment_bytes.filter(usable) {
            Some(bytes) => bytes,
            None => {
                let first = segments.first().ok_or("there are no log segments")?;
                let file = folder.file(&path_of(folder, &dir, *first)?).map_err(|e| e.to_string())?;
                let len = file.map(|file| file.len()).transpose().map_err(|e| e.to_string())?;
                len.filter(usable).ok_or("the size of log segments is not known")?
            }
        };
        // A segment whose positions pass 64 bits cannot be.
        segments.retain(|number| *number < u64::MAX / 2 / segment_bytes);
        Ok(Self {
            folder: folder.clone(),
            dir,
            segment_bytes,
            segments,
            open: RefCell::default(),
            cache: RefCell::default(),
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Name of the file that holds `lsn`.
    pub fn file_name(&self, lsn: Lsn) -> String {
        segment_file_name(lsn.0 / self.segment_bytes)
    }

    fn file(&self, number: u64) -> Result<Arc<dyn File>, BlockFault> {
        let mut open = self.open.borrow_mut();
        if let Some((at, file)) = &*open
            && *at == number
        {
            return Ok(Arc::clone(file));
        }
        let path = path_of(&self.folder, &self.dir, number).map_err(BlockFault::Unreadable)?;
        match self.folder.file(&path) {
            Ok(Some(file)) => Ok(Arc::clone(&open.insert((number, file)).1)),
            Ok(None) => Err(BlockFault::MissingSegment),
            Err(error) => Err(BlockFault::Unreadable(error.to_string())),
        }
    }

    /// The block that starts at `lsn`.
    pub fn block(&self, lsn: Lsn) -> Result<Rc<Block>, BlockFault> {
        if let Some(block) = self.cache.borrow_mut().get(lsn) {
            return Ok(block);
        }
        let block = Rc::new(self.read_block(lsn)?);
        self.cache.borrow_mut().put(Rc::clone(&block));
        Ok(block)
    }

    fn read_block(&self, lsn: Lsn) -> Result<Block, BlockFault> {
        let unreadable = |e: resurgam_base::Error| BlockFault::Unreadable(e.to_string());
        let file = self.file(lsn.0 / self.segment_bytes)?;
        let at = lsn.0 % self.segment_bytes;
        let in_file = file.len().map_err(unreadable)?.min(self.segment_bytes).saturating_sub(at);
        let mut head = [0; BLOCK_HEADER_BYTES];
        if in_file < head.len() as u64 || file.read_at(&mut head, at).map_err(unreadable)? < head.len() {
            return Err(BlockFault::ShortSegment);
        }
        let Some(header) = BlockHeader::read(&head) else {
            let zeros = head.iter().all(|byte| *byte == 0);
            return Err(if zeros { BlockFault::Zeros } else { BlockFault::NotABlock });
        };
        if header.lsn != lsn {
            return Err(BlockFault::OtherPosition(header.lsn));
        }
        let len = header.len();
        let complete = len <= in_file;
        if len > self.segment_bytes - at {
            return Err(BlockFault::BadLength(len));
        }
        let mut bytes = vec![0; len.min(in_file) as usize];
        let read = file.read_at(&mut bytes, at).map_err(unreadable)?;
        bytes.truncate(read);
        let whole = complete && read as u64 == len && header.skip == header.is_empty();
        let verified = BlockHeader::verify(&bytes);
        let block = Block { header, bytes };
        match verified {
            Ok(true) if whole => Ok(block),
            Err(error) if whole => Err(BlockFault::Newer(error.message().to_owned())),
            _ => Err(BlockFault::BadChecksum(Box::new(block))),
        }
    }

    /// The block with the record at `lsn`, and the record's offset in it.
    ///
    /// # Errors
    /// In words, why there is no intact one.
    pub fn block_of(&self, lsn: Lsn) -> Result<(Rc<Block>, usize), String> {
        let file = self.file(lsn.0 / self.segment_bytes).map_err(|fault| fault.to_string())?;
        let mut offset = [0; 4];
        let at = (lsn.0 % self.segment_bytes).saturating_add(4);
        if file.read_at(&mut offset, at).map_err(|e| e.to_string())? < offset.len() {
            return Err("the segment file ends too early".into());
        }
        let offset = u32::from_le_bytes(offset);
        let start = lsn.0.checked_sub(u64::from(offset)).filter(|start| {
            start.is_multiple_of(BLOCK_ALIGN as u64) && start / self.segment_bytes == lsn.0 / self.segment_bytes
        });
        let Some(start) = start else { return Err("it does not lead to the start of a block".into()) };
        match self.block(Lsn(start)) {
            Ok(block) => Ok((block, offset as usize)),
            Err(fault) => Err(format!("its block at LSN {start}: {fault}")),
        }
    }

    /// The first position from `from` on, in the same segment, at which the header of a
    /// block of that position stands.
    pub fn find_block(&self, from: Lsn) -> Option<Lsn> {
        const STEP: u64 = 1 << 20;
        let file = self.file(from.0 / self.segment_bytes).ok()?;
        let end = (from.0 / self.segment_bytes + 1) * self.segment_bytes;
        let mut at = from.0.next_multiple_of(BLOCK_ALIGN as u64);
        let mut buf = vec![0; STEP.min(self.segment_bytes) as usize];
        while at < end {
            let want = (end - at).min(buf.len() as u64) as usize;
            let read = file.read_at(&mut buf[..want], at % self.segment_bytes).ok()?;
            for (i, head) in buf[..read].chunks(BLOCK_ALIGN).enumerate() {
                let lsn = at + (i * BLOCK_ALIGN) as u64;
                let header = head.first_chunk().and_then(BlockHeader::read);
                if header.is_some_and(|header| header.lsn == Lsn(lsn)) {
                    return Some(Lsn(lsn));
                }
            }
            if read < want {
                return None;
            }
            at += want as u64;
        }
        None
    }
}
