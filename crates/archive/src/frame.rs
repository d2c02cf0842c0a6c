//! Frames: compressed pieces of a run, each with its checksum.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind: 1 page records, 2 transaction stream, 3 page table, 4 index, 5 summary; of a backup: 6 segment, 7 index |
//! | 1 | 0 = as it is, 1 = Zstandard |
//! | 2..4 | zero |
//! | 4..8 | length of the content |
//! | 8..12 | length as it is stored, after this header |
//! | 12..16 | number of items |
//! | 16..20 | CRC-32C over the run's own checksum, the frame's offset in the file, this header (this field zero), the content as stored |
//! | 20.. | the content |
//!
//! The run's checksum is that of its header, which holds database, range and generation: a frame that was written to
//! another place, or to another run, is as wrong as one with a flipped bit.
//!
//! # Trust
//! Nothing is taken from a header before the checksum over all of the frame is right, but for its stored length, and that
//! only within the file. Memory for the content is given up to what Zstandard can make of so many bytes.

use std::cell::RefCell;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result, checksum_append};
use resurgam_xstore::{Store, Upload};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

pub(crate) const FRAME_HEADER_BYTES: usize = 20;
const CRC_AT: usize = 16;
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// How hard it is tried to make content shorter: a record is compressed once for each level of runs that it goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Next to none: of what is merged soon, and made while transactions want the processors.
    Least = -5,
    /// Little. Speed counts.
    Little = 1,
}

/// Longest content. A record is at most a block of the log, and that at most a segment (1 GB).
const CONTENT_BYTES_MAX: u64 = (1 << 30) + (1 << 20);
/// More than what Zstandard makes of a byte at most (a block of 128 KB out of a few bytes).
const RATIO_MAX: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Pages = 1,
    Stream = 2,
    Table = 3,
    Index = 4,
    Summary = 5,
    Segment = 6,
    Segments = 7,
}

/// Writes a run's bytes in order.
pub(crate) struct FrameWriter {
    upload: Box<dyn Upload>,
    pub offset: u64,
    seed: u32,
    compressor: zstd::bulk::Compressor<'static>,
    buf: Vec<u8>,
}

impl FrameWriter {
    /// After `header`, which has been given its checksum `seed`.
    pub fn new(mut upload: Box<dyn Upload>, header: &[u8], seed: u32, effort: Effort) -> Result<Self> {
        upload.append(header)?;
        Ok(Self { upload, offset: header.len() as u64, seed, compressor: compressor(effort)?, buf: Vec::new() })
    }

    /// Appends a frame; returns where it is.
    pub fn put(&mut self, kind: FrameKind, items: u32, content: &[u8]) -> Result<u64> {
        encode(&mut self.compressor, self.seed, self.offset, kind, items, content, &mut self.buf)?;
        self.upload.append(&self.buf)?;
        let at = self.offset;
        self.offset += self.buf.len() as u64;
        Ok(at)
    }

    /// Appends the trailer and publishes the run.
    pub fn publish(mut self, trailer: &[u8]) -> Result<(), resurgam_xstore::StoreError> {
        self.upload.append(trailer)?;
        self.upload.publish()
    }
}

/// What frames are compressed with.
pub(crate) fn compressor(effort: Effort) -> Result<zstd::bulk::Compressor<'static>> {
    zstd::bulk::Compressor::new(effort as i32).map_err(|e| Error::internal(format!("could not make a compressor: {e}")))
}

/// Makes a frame for `offset` of a file whose own checksum is `seed`, in `buf`.
pub(crate) fn encode(
    compressor: &mut zstd::bulk::Compressor<'static>,
    seed: u32,
    offset: u64,
    kind: FrameKind,
    items: u32,
    content: &[u8],
    buf: &mut Vec<u8>,
) -> Result<()> {
    let Ok(content_len) = u32::try_from(content.len()) else {
        return Err(Error::internal("a frame of the archive is too long"));
    };
    // What is in it from the frame before is overwritten.
    buf.resize(FRAME_HEADER_BYTES + content.len(), 0);
    buf[..FRAME_HEADER_BYTES].fill(0);
    // Into a buffer of the content's length: what does not get shorter does not fit, and is stored as it is.
    let stored = compressor.compress_to_buffer(content, &mut buf[FRAME_HEADER_BYTES..]);
    let (codec, stored) = match stored {
        Ok(len) if len < content.len() => (ZSTD, len),
        _ => {
            buf[FRAME_HEADER_BYTES..].copy_from_slice(content);
            (PLAIN, content.len())
        }
    };
    buf.truncate(FRAME_HEADER_BYTES + stored);
    buf[0] = kind as u8;
    buf[1] = codec;
    buf[4..8].copy_from_slice(&content_len.to_le_bytes());
    buf[8..12].copy_from_slice(&(stored as u32).to_le_bytes());
    buf[12..16].copy_from_slice(&items.to_le_bytes());
    let crc = checksum_append(checksum_append(seed, &offset.to_le_bytes()), buf);
    buf[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// A frame that was read and is intact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub offset: u64,
    pub items: u32,
    pub content: Vec<u8>,
    /// Where the next one begins.
    pub next: u64,
}

/// What the header of an intact frame says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    codec: u8,
    content_len: u32,
    stored_len: u32,
    pub items: u32,
    /// Where the next frame begins.
    pub next: u64,
}

/// Reads frames of one run through a window.
pub(crate) struct FrameReader {
    store: Arc<dyn Store>,
    name: String,
    seed: u32,
    /// Frames end here.
    end: u64,
    /// The window's length: at most, at first and after a jump, next.
    ahead: usize,
    first: usize,
    step: usize,
    window: Vec<u8>,
    window_at: u64,
}

impl FrameReader {
    /// A reader of the frames below `end`, which reads up to `ahead` bytes at a time.
    pub fn new(store: Arc<dyn Store>, name: &str, seed: u32, end: u64, ahead: usize) -> Self {
        let (first, step) = (ahead, ahead);
        Self { store, name: name.to_owned(), seed, end, ahead, first, step, window: Vec::new(), window_at: 0 }
    }

    /// One that reads less at first, and after a jump: of what is read in order it is not known how much that will be. It doubles while
    /// frames follow each other.
    pub fn growing_from(self, first: usize) -> Self {
        let first = self.ahead.min(first);
        Self { first, step: first, ..self }
    }

    /// One that reads into memory that was used before.
    pub fn reading_into(mut self, mut window: Vec<u8>) -> Self {
        window.clear();
        self.window = window;
        self
    }

    /// That memory, to be used once more.
    pub fn into_window(self) -> Vec<u8> {
        self.window
    }

    /// An error that names the file and an offset.
    #[cold]
    pub fn bad(&self, offset: u64, what: &str) -> Error {
        damaged(&*self.store, &self.name, offset, what)
    }

    /// Gives `error` the file's name and the offset, if it says that bytes are wrong.
    #[cold]
    pub fn located(&self, offset: u64, error: Error) -> Error {
        if error.kind() == ErrorKind::Corrupt { self.bad(offset, error.message()) } else { error }
    }

    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.end);
        if end.is_none() {
            return Err(self.bad(offset, "a frame leads past the end of its part of the file"));
        }
        let inside = offset >= self.window_at && offset + len as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            let window_end = self.window_at + self.window.len() as u64;
            let in_order = !self.window.is_empty() && offset >= self.window_at && offset <= window_end;
            self.step = if in_order { self.step.saturating_mul(2).min(self.ahead) } else { self.first };
            let want = (len.max(self.step) as u64).min(self.end - offset) as usize;
            if let Err(error) = self.store.read_into(&self.name, offset, want, &mut self.window) {
                self.window.clear();
                return Err(error.into());
            }
            self.window_at = offset;
        }
        let at = (offset - self.window_at) as usize;
        self.window
            .get(at..at + len)
            .ok_or_else(|| damaged(&*self.store, &self.name, offset, "fewer bytes were read than asked for"))
    }

    /// What the frame at `offset` says that it is; not checked.
    pub fn kind_at(&mut self, offset: u64) -> Result<FrameKind> {
        let kind = self.bytes(offset, FRAME_HEADER_BYTES)?[0];
        use FrameKind::{Index, Pages, Segment, Segments, Stream, Summary, Table};
        let kinds = [Pages, Stream, Table, Index, Summary, Segment, Segments];
        let found = kinds.into_iter().find(|known| *known as u8 == kind);
        found.ok_or_else(|| self.bad(offset, &format!("a frame of the unknown kind {kind}")))
    }

    /// The first frame of that kind at `offset` or behind it, into `frame`; false when there is none before the end.
    ///
    /// # Errors
    /// As [`FrameReader::read`].
    pub fn read_next(&mut self, mut offset: u64, kind: FrameKind, frame: &mut Frame) -> Result<bool> {
        while offset < self.end {
            let found = self.kind_at(offset)?;
            if found == kind {
                self.read(offset, found, frame)?;
                return Ok(true);
            }
            // Checked where it is passed over: a flipped bit of its kind must not hide a frame.
            offset = self.check(offset, found)?.next;
        }
        Ok(false)
    }

    /// The frame at `offset`, into `frame`.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset; those of reading.
    pub fn read(&mut self, offset: u64, kind: FrameKind, frame: &mut Frame) -> Result<()> {
        self.read_prefix(offset, kind, usize::MAX, frame).map(drop)
    }

    /// That the frame at `offset` is of that kind and intact as it is stored; its content is not looked at.
    ///
    /// # Errors
    /// As [`FrameReader::read`].
    pub fn check(&mut self, offset: u64, kind: FrameKind) -> Result<Checked> {
        let seed = self.seed;
        let head = self.bytes(offset, FRAME_HEADER_BYTES)?;
        let field = |at: usize| head[at..].first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        let (content_len, stored_len, items, crc) = (field(4), field(8), field(12), field(CRC_AT));
        let (found_kind, codec) = (head[0], head[1]);
        let whole = self.bytes(offset, FRAME_HEADER_BYTES + stored_len as usize)?;
        let (head, stored) = whole.split_at(FRAME_HEADER_BYTES);
        let mut sum = checksum_append(checksum_append(seed, &offset.to_le_bytes()), &head[..CRC_AT]);
        sum = checksum_append(checksum_append(sum, &[0; 4]), stored);
        if sum != crc {
            return Err(self.bad(offset, "the checksum of a frame is wrong"));
        }
        if found_kind != kind as u8 {
            return Err(self.bad(offset, &format!("a frame of kind {found_kind} where {kind:?} is expected")));
        }
        let possible = u64::from(stored_len).saturating_mul(RATIO_MAX).min(CONTENT_BYTES_MAX);
        if u64::from(content_len) > possible {
            return Err(self.bad(offset, "the content of a frame cannot be so long"));
        }
        let next = offset + FRAME_HEADER_BYTES as u64 + u64::from(stored_len);
        Ok(Checked { codec, content_len, stored_len, items, next })
    }

    /// The first `most` bytes of the content of the frame at `offset`, into `frame`; returns how long the whole content is. What is stored is
    /// checked as a whole.
    ///
    /// # Errors
    /// As [`FrameReader::read`].
    pub fn read_prefix(&mut self, offset: u64, kind: FrameKind, most: usize, frame: &mut Frame) -> Result<usize> {
        let Checked { codec, content_len, stored_len, items, next } = self.check(offset, kind)?;
        let stored = &self.bytes(offset, FRAME_HEADER_BYTES + stored_len as usize)?[FRAME_HEADER_BYTES..];
        frame.content.clear();
        let wanted = most.min(content_len as usize);
        match codec {
            PLAIN if stored.len() == content_len as usize => frame.content.extend_from_slice(&stored[..wanted]),
            PLAIN => return Err(self.bad(offset, "the content of a frame is not as long as it says")),
            ZSTD => {
                frame.content.resize(wanted, 0);
                let whole = wanted == content_len as usize;
                let len = match whole {
                    true => decompress(stored, &mut frame.content),
                    false => decompress_prefix(stored, &mut frame.content),
                };
                match len {
                    Some(len) => frame.content.truncate(len),
                    None => return Err(self.bad(offset, "a frame cannot be decompressed")),
                }
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::NewerFormat,
                    format!("archive file \"{}\" is compressed in a way that this program does not know", self.name),
                ));
            }
        }
        if frame.content.len() != wanted {
            return Err(self.bad(offset, "the content of a frame is not as long as it says"));
        }
        frame.offset = offset;
        frame.items = items;
        frame.next = next;
        Ok(content_len as usize)
    }
}

thread_local! {
    /// Its working memory costs more to make than a frame to read.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    static PREFIX_DECOMPRESSOR: RefCell<Option<Decoder<'static>>> = const { RefCell::new(None) };
}

/// Fills `content` from what is stored; how much of it. None: these bytes cannot be decompressed, or to no more than that.
fn decompress(stored: &[u8], content: &mut [u8]) -> Option<usize> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let mut decompressor = kept.take().or_else(|| zstd::bulk::Decompressor::new().ok())?;
        let len = decompressor.decompress_to_buffer(stored, content).ok()?;
        // One that has failed is not used again.
        *kept = Some(decompressor);
        Some(len)
    })
}

/// Fills `content` with the beginning of what is stored; how much of it. None: these bytes cannot be decompressed.
fn decompress_prefix(stored: &[u8], content: &mut [u8]) -> Option<usize> {
    PREFIX_DECOMPRESSOR.with_borrow_mut(|kept| {
        let mut decoder = kept.take().or_else(|| Decoder::new().ok())?;
        decoder.reinit().ok()?;
        let (mut from, mut onto) = (InBuffer::around(stored), OutBuffer::around(content));
        while onto.pos() < onto.capacity() {
            let before = (from.pos(), onto.pos());
            let hint = decoder.run(&mut from, &mut onto).ok()?;
            if hint == 0 || before == (from.pos(), onto.pos()) {
                break;
            }
        }
        let len = onto.pos();
        *kept = Some(decoder);
        Some(len)
    })
}

/// Damage of an object of the archive.
#[cold]
pub(crate) fn damaged(store: &dyn Store, name: &str, offset: u64, what: &str) -> Error {
    let of = if name.starts_with("backups/") { "backup" } else { "archive" };
    Error::corrupt(format!("{of} file \"{name}\" is damaged at offset {offset}: {what}"))
        .with_detail(format!("It is in {}.", store.place()))
}
