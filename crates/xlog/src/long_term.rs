//! The long-term log: objects that are made once, each with the blocks from where the one before it ends.
//!
//! ```text
//! log-START        (START: 16 hexadecimal digits; nobody can make two of one start)
//! 0   magic "RSLT" | version u16 | 0 u16 | database 16 bytes
//! 24  start u64 | end u64 | last block u64 | its epoch u32 | blocks u32
//! 56  microseconds since 2000 i64 | bytes of the blocks u64 | CRC-32C of bytes 0..72 | CRC-32C of the blocks
//! 80  blocks: length u32, bytes
//! ```
//!
//! Only hardened log is put here. So two log services that make it at one time make the same log, cut otherwise at most: the name decides which
//! of their objects counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_xstore::{Store, StoreErrorKind};

use crate::piece::Piece;

const MAGIC: [u8; 4] = *b"RSLT";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 80;
/// Longest object: a block is never longer than a segment, which is 1 GB at most.
const OBJECT_BYTES_MAX: u64 = 2 << 30;
const PREFIX: &str = "log-";

/// Where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongTermEnd {
    pub end: Lsn,
    pub last_block: Lsn,
    pub last_epoch: u32,
}

struct Header {
    start: Lsn,
    end: LongTermEnd,
    blocks: u32,
    made_us: i64,
    payload: u64,
    sum: u32,
}

/// See the module.
pub struct LongTerm {
    store: Arc<dyn Store>,
    database: [u8; 16],
    segment_bytes: u64,
    /// Where objects begin.
    starts: Mutex<BTreeMap<Lsn, Option<Lsn>>>,
    /// What was read last: who reads on asks for it again.
    last: Mutex<Option<(Lsn, Vec<Arc<Piece>>)>>,
}

impl LongTerm {
    /// The long-term log in a store, and where it ends; none: it is empty.
    ///
    /// # Errors
    /// `NotADatabase` when it is another one's; `Corrupt`; those of the store.
    pub fn open(store: Arc<dyn Store>, database: [u8; 16], segment_bytes: u64) -> Result<(Self, Option<LongTermEnd>)> {
        let this = Self { store, database, segment_bytes, starts: Mutex::default(), last: Mutex::default() };
        this.list()?;
        let newest = this.starts.lock().last_key_value().map(|(start, _)| *start);
        let end = newest.map(|start| this.header(start)).transpose()?.map(|header| header.end);
        Ok((this, end))
    }

    fn list(&self) -> Result<()> {
        let names = self.store.list(PREFIX)?;
        let start = |name: &String| {
            let digits = name.strip_prefix(PREFIX)?;
            let start = u64::from_str_radix(digits, 16).ok()?;
            (name_of(Lsn(start)) == *name).then_some(Lsn(start))
        };
        let found: BTreeMap<Lsn, _> = names.iter().filter_map(start).map(|start| (start, None)).collect();
        let mut starts = self.starts.lock();
        starts.retain(|start, _| found.contains_key(start));
        for (start, end) in found {
            starts.entry(start).or_insert(end);
        }
        Ok(())
    }

    /// Where the kept log begins; none: it is empty.
    pub fn oldest(&self) -> Option<Lsn> {
        self.starts.lock().first_key_value().map(|(start, _)| *start)
    }

    fn header(&self, start: Lsn) -> Result<Header> {
        let bytes = self.store.read(&name_of(start), 0, HEADER_BYTES)?;
        self.decode(start, &bytes)
    }

    fn decode(&self, start: Lsn, bytes: &[u8]) -> Result<Header> {
        let bad = |what: &str| {
            Error::corrupt(format!(
                "object \"{}\" of the long-term log in {}: {what}",
                name_of(start),
                self.store.place()
            ))
        };
        let Some(b) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(bad("it is too short")) };
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        if b[..4] != MAGIC {
            return Err(bad("it is something else"));
        }
        if u32_at(72) != checksum(&b[..72]) {
            return Err(bad("the checksum of its header is wrong"));
        }
        let version = u16::from_le_bytes([b[4], b[5]]);
        if version > VERSION {
            let what = format!("the long-term log has format version {version}; this program knows up to {VERSION}");
            return Err(Error::new(ErrorKind::NewerFormat, what));
        }
        if b[8..24] != self.database {
            let what = format!("{} has the long-term log of another database", self.store.place());
            return Err(Error::new(ErrorKind::NotADatabase, what));
        }
        let end = LongTermEnd { end: Lsn(u64_at(32)), last_block: Lsn(u64_at(40)), last_epoch: u32_at(48) };
        let header = Header {
            start: Lsn(u64_at(24)),
            end,
            blocks: u32_at(52),
            made_us: u64_at(56) as i64,
            payload: u64_at(64),
            sum: u32_at(76),
        };
        if header.start != start || end.end <= start || end.last_block >= end.end || end.last_block < start {
            return Err(bad("its positions are impossible"));
        }
        Ok(header)
    }

    /// Makes an object of these blocks, which are in a row, and says where the one of this start ends: it may have been made before.
    ///
    /// # Errors
    /// Those of the store: it may have been made. `InvalidParameter` for no blocks.
    pub fn put(&self, pieces: &[Arc<Piece>], now_us: i64) -> Result<Lsn> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Err(Error::new(ErrorKind::InvalidParameter, "an object of the long-term log without blocks"));
        };
        let payload: usize = pieces.iter().map(|piece| 4 + piece.bytes.len()).sum();
        let mut out = Vec::with_capacity(HEADER_BYTES + payload);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.database);
        for position in [first.lsn, last.next, last.lsn] {
            out.extend_from_slice(&position.0.to_le_bytes());
        }
        out.extend_from_slice(&last.epoch.to_le_bytes());
        out.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
        out.extend_from_slice(&now_us.to_le_bytes());
        out.extend_from_slice(&(payload as u64).to_le_bytes());
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for piece in pieces {
            out.extend_from_slice(&(piece.bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&piece.bytes);
        }
        let sum = checksum(&out[HEADER_BYTES..]);
        out[76..80].copy_from_slice(&sum.to_le_bytes());
        let end = match self.store.put(&name_of(first.lsn), &out) {
            Ok(()) => last.next,
            Err(error) if error.kind() == StoreErrorKind::Exists => self.header(first.lsn)?.end.end,
            Err(error) => return Err(error.into()),
        };
        self.starts.lock().insert(first.lsn, Some(end));
        Ok(end)
    }

    /// The blocks from the one at `from` on, of one object, and where that ends; none: it is in none.
    ///
    /// # Errors
    /// `Corrupt`; those of the store.
    pub fn read(&self, from: Lsn) -> Result<Option<(Vec<Arc<Piece>>, Lsn)>> {
        let find = || self.starts.lock().range(..=from).next_back().map(|(start, end)| (*start, *end));
        let mut found = find();
        if found.is_none_or(|(_, end)| end.is_none_or(|end| end <= from)) {
            // Another log service may have made more.
            self.list()?;
            found = find();
        }
        let Some((start, _)) = found else { return Ok(None) };
        let known = self.last.lock().as_ref().filter(|(of, _)| *of == start).map(|(_, pieces)| pieces.clone());
        let pieces = match known {
            Some(pieces) => pieces,
            None => {
                let pieces = self.object(start)?;
                *self.last.lock() = Some((start, pieces.clone()));
                pieces
            }
        };
        let end = pieces.last().map_or(start, |piece| piece.next);
        self.starts.lock().insert(start, Some(end));
        if end <= from {
            return Ok(None);
        }
        let at = pieces.partition_point(|piece| piece.lsn < from);
        match pieces.get(at..) {
            Some(rest @ [first, ..]) if first.lsn == from => Ok(Some((rest.to_vec(), end))),
            _ => Err(Error::corrupt(format!("no block of the log begins at LSN {from}"))),
        }
    }

    fn object(&self, start: Lsn) -> Result<Vec<Arc<Piece>>> {
        let bad = |what: &str| {
            Error::corrupt(format!(
                "object \"{}\" of the long-term log in {}: {what}",
                name_of(start),
                self.store.place()
            ))
        };
        let bytes = self.store.get(&name_of(start), OBJECT_BYTES_MAX)?;
        let header = self.decode(start, &bytes)?;
        let mut rest = &bytes[HEADER_BYTES..];
        if rest.len() as u64 != header.payload || checksum(rest) != header.sum {
            return Err(bad("the checksum of its blocks is wrong"));
        }
        let (mut at, mut pieces) = (start, Vec::new());
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (block, tail) = tail.split_at_checked(length).ok_or_else(|| bad("a block leads past its end"))?;
            let piece = Piece::parse(block.to_vec(), at, self.segment_bytes)?;
            at = piece.next;
            pieces.push(Arc::new(piece));
            rest = tail;
        }
        if !rest.is_empty() || at != header.end.end || pieces.len() != header.blocks as usize {
            return Err(bad("its blocks are not what its header says"));
        }
        Ok(pieces)
    }

    /// Deletes the objects, oldest first, that were made before `made_before_us` and have nothing from `keep_from` on, but never the newest
    /// one, and says where the log begins then.
    ///
    /// # Errors
    /// Those of the store.
    pub fn expire(&self, made_before_us: i64, keep_from: Lsn) -> Result<Option<Lsn>> {
        let starts: Vec<Lsn> = self.starts.lock().keys().copied().collect();
        for start in starts.iter().take(starts.len().saturating_sub(1)) {
            let header = self.header(*start)?;
            if header.made_us >= made_before_us || header.end.end > keep_from {
                break;
            }
            self.store.delete(&name_of(*start))?;
            self.starts.lock().remove(start);
        }
        Ok(self.oldest())
    }
}

fn name_of(start: Lsn) -> String {
    format!("{PREFIX}{:016x}", start.0)
}
