//! The parts of a backup: objects of many segments, each with an index of its own.
//!
//! ```text
//! header | a frame for each segment that has pages | a frame with the index | trailer
//! ```
//! Frames are those of runs (`frame.rs`): each under a CRC-32C that begins with the header's own checksum and the frame's
//! offset. All numbers little-endian; *v* is a varint.
//!
//! | header, 64 bytes | |
//! |---|---|
//! | 0..8 | magic `RSABPT01` |
//! | 8..10 | format version |
//! | 10..16 | zero |
//! | 16..32 | database |
//! | 32..40 | the backup's number (random, drawn when it was begun) |
//! | 40..44, 44..48 | number of the part in the backup; zero |
//! | 48..56 | key of the first segment that the part covers |
//! | 56..60 | CRC-32C of the bytes before |
//! | 60..64 | zero |
//!
//! | trailer, 64 bytes | |
//! |---|---|
//! | 0..8 | magic `RSABPE01` |
//! | 8..16 | offset of the index's frame |
//! | 16..24 | offset of the trailer |
//! | 24..32 | key of the first segment behind those that the part covers |
//! | 32..40 | the least LSN of the segments that it covers, those that were all zero included |
//! | 40..44 | the header's CRC |
//! | 44..48 | segments in it |
//! | 48..52 | pages in it |
//! | 52..56 | zero |
//! | 56..60 | CRC-32C of the bytes before |
//! | 60..64 | zero |
//!
//! | frame of a segment | |
//! |---|---|
//! | *v* key; *v* LSN; 32 bytes | two bits for each of its 128 pages: 0 = all zero, 1 = an image follows, 2 = damaged when the backup was made |
//! | images | 8192 bytes each, sealed |
//!
//! The key of a segment is the id of its first page, divided by 128. A segment that the part covers and has no frame is all zero.
//! The index: for each segment *v* key − the one before, *v* offset − the one before, *v* LSN.

use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum};
use resurgam_page::PageBuf;
use resurgam_page::codec::{Reader, put_varint64};

use crate::format::DatabaseId;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 64;
const HEADER_MAGIC: [u8; 8] = *b"RSABPT01";
const TRAILER_MAGIC: [u8; 8] = *b"RSABPE01";
const VERSION: u16 = 1;
const CRC_AT: usize = 56;
const KINDS_BYTES: usize = SEGMENT_PAGES / 4;

/// Pages of a segment.
pub const SEGMENT_PAGES: usize = 128;

/// The key of the segment that a page is in: pages of one file that are next to each other, in order over all files.
pub fn segment_key(page: PageId) -> u64 {
    page.0 / SEGMENT_PAGES as u64
}

/// The first page of a segment.
pub fn segment_page(key: u64) -> PageId {
    PageId(key.saturating_mul(SEGMENT_PAGES as u64))
}

/// What is known of a page of a backup's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// It was all zero in the file: never written.
    Zero = 0,
    /// There is an image of it.
    Image = 1,
    /// It was damaged in the file, and could not be rebuilt, when the backup was made.
    Damaged = 2,
}

/// What a page of which the backup has no image looks like, though there was one: nothing that passes for a page.
pub(crate) fn fill_damaged(page: &mut PageBuf) {
    page.as_bytes_mut().fill(0xff);
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartId {
    pub database: DatabaseId,
    pub backup: u64,
    pub number: u32,
    /// Key of the first segment that it covers.
    pub from: u64,
}

/// What a summary says of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartMeta {
    /// From 0 on, without a gap.
    pub number: u32,
    /// Drawn for each attempt to write it.
    pub nonce: u64,
    /// Keys of the segments that it covers: from this one to before the other.
    pub from: u64,
    pub to: u64,
    /// The least LSN of the segments that it covers, those that were all zero included.
    pub least: Lsn,
    /// Segments and pages in it.
    pub segments: u32,
    pub images: u32,
    /// Bytes of the object.
    pub len: u64,
    pub(crate) trailer_crc: u32,
}

/// The name of a part.
pub(crate) fn part_name(backup: &str, number: u32, nonce: u64) -> String {
    format!("{}{number:08}-{nonce:016X}.part", part_folder(backup))
}

pub(crate) fn part_folder(backup: &str) -> String {
    format!("backups/{backup}/")
}

/// Number and nonce in a part's name.
pub(crate) fn part_of_name(backup: &str, name: &str) -> Option<(u32, u64)> {
    let (number, nonce) = name.strip_prefix(&part_folder(backup))?.strip_suffix(".part")?.split_once('-')?;
    let (number, nonce) = (number.parse().ok()?, u64::from_str_radix(nonce, 16).ok()?);
    (part_name(backup, number, nonce) == name).then_some((number, nonce))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn seal(out: &mut [u8; 64]) -> u32 {
    let crc = checksum(&out[..CRC_AT]);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

fn check(bytes: &[u8; 64], magic: [u8; 8], zero: &[std::ops::Range<usize>], what: &str) -> Result<u32> {
    if bytes[0..8] != magic {
        return Err(Error::corrupt(format!("there is no {what} of a part of a backup")));
    }
    let crc = checksum(&bytes[..CRC_AT]);
    if u32_at(bytes, CRC_AT) != crc || bytes[CRC_AT + 4..] != [0; 4] {
        return Err(Error::corrupt(format!("the checksum of its {what} is wrong")));
    }
    if zero.iter().any(|range| bytes[range.clone()].iter().any(|byte| *byte != 0)) {
        return Err(Error::corrupt(format!("its {what} has something where nothing is expected")));
    }
    Ok(crc)
}

impl PartId {
    /// The header, and its checksum.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&HEADER_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.database);
        out[32..40].copy_from_slice(&self.backup.to_le_bytes());
        out[40..44].copy_from_slice(&self.number.to_le_bytes());
        out[48..56].copy_from_slice(&self.from.to_le_bytes());
        let crc = seal(&mut out);
        (out, crc)
    }

    /// Decodes a header; with it its checksum.
    ///
    /// # Errors
    /// `Corrupt` without a place; `NewerFormat`.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, u32)> {
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        let crc = check(bytes, HEADER_MAGIC, if version > VERSION { &[] } else { &[10..16, 44..48] }, "header")?;
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("it has format version {version}; this program knows up to {VERSION}"),
            ));
        }
        let mut database = [0; 16];
        database.copy_from_slice(&bytes[16..32]);
        Ok((Self { database, backup: u64_at(bytes, 32), number: u32_at(bytes, 40), from: u64_at(bytes, 48) }, crc))
    }
}

/// The end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartTrailer {
    pub index_at: u64,
    pub at: u64,
    pub to: u64,
    pub least: Lsn,
    pub seed: u32,
    pub segments: u32,
    pub images: u32,
}

impl PartTrailer {
    /// The trailer, and its checksum.
    pub fn encode(&self) -> ([u8; TRAILER_BYTES], u32) {
        let mut out = [0; TRAILER_BYTES];
        out[0..8].copy_from_slice(&TRAILER_MAGIC);
        for (i, number) in [self.index_at, self.at, self.to, self.least.0].iter().enumerate() {
            out[8 + i * 8..16 + i * 8].copy_from_slice(&number.to_le_bytes());
        }
        for (i, number) in [self.seed, self.segments, self.images].iter().enumerate() {
            out[40 + i * 4..44 + i * 4].copy_from_slice(&number.to_le_bytes());
        }
        let crc = seal(&mut out);
        (out, crc)
    }

    /// Decodes the trailer of an object of `len` bytes; with it its checksum.
    ///
    /// # Errors
    /// `Corrupt` without a place.
    pub fn decode(bytes: &[u8; TRAILER_BYTES], len: u64) -> Result<(Self, u32)> {
        #[allow(clippy::single_range_in_vec_init)] // the one range of bytes that is zero
        let zero = [52..56];
        let crc = check(bytes, TRAILER_MAGIC, &zero, "trailer")?;
        let trailer = Self {
            index_at: u64_at(bytes, 8),
            at: u64_at(bytes, 16),
            to: u64_at(bytes, 24),
            least: Lsn(u64_at(bytes, 32)),
            seed: u32_at(bytes, 40),
            segments: u32_at(bytes, 44),
            images: u32_at(bytes, 48),
        };
        let order = [HEADER_BYTES as u64, trailer.index_at, trailer.at];
        if !order.is_sorted() || trailer.at.checked_add(TRAILER_BYTES as u64) != Some(len) {
            return Err(Error::corrupt("its parts are not where its trailer says"));
        }
        Ok((trailer, crc))
    }
}

/// Where a segment is in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentPlace {
    pub key: u64,
    pub at: u64,
    pub lsn: Lsn,
}

pub(crate) fn encode_index(places: &[SegmentPlace]) -> Vec<u8> {
    let mut out = Vec::with_capacity(places.len() * 12);
    let (mut key, mut at) = (0, 0);
    for place in places {
        put_varint64(&mut out, place.key - key);
        put_varint64(&mut out, place.at - at);
        put_varint64(&mut out, place.lsn.0);
        (key, at) = (place.key, place.at);
    }
    out
}

/// Decodes the index of a part with that trailer, which covers segments from `from` on.
///
/// # Errors
/// `Corrupt` without a place.
pub(crate) fn decode_index(content: &[u8], from: u64, trailer: &PartTrailer) -> Result<Vec<SegmentPlace>> {
    let mut r = Reader::new(content, "index of a part of a backup");
    let mut places: Vec<SegmentPlace> = Vec::new();
    let (mut key, mut at) = (0u64, 0u64);
    while !r.is_empty() {
        let first = places.is_empty();
        let (more_key, more_at) = (r.varint64()?, r.varint64()?);
        let (next_key, next_at) = (key.checked_add(more_key), at.checked_add(more_at));
        let (Some(next_key), Some(next_at)) = (next_key, next_at) else { return Err(r.bad("too large a number")) };
        let in_order = first || (more_key > 0 && more_at > 0);
        let inside = next_key >= from && next_key < trailer.to && next_at >= HEADER_BYTES as u64;
        if !in_order || !inside || next_at >= trailer.index_at {
            return Err(r.bad("a segment that cannot be there"));
        }
        (key, at) = (next_key, next_at);
        places.push(SegmentPlace { key, at, lsn: Lsn(r.varint64()?) });
    }
    if places.len() != trailer.segments as usize {
        return Err(r.bad("not as many segments as the part has"));
    }
    Ok(places)
}

/// Encodes a segment; false: it is all zero, and costs nothing.
pub(crate) fn encode_segment(
    key: u64,
    lsn: Lsn,
    pages: &[PageBuf],
    kinds: &[PageKind],
    out: &mut Vec<u8>,
) -> Result<bool> {
    if pages.len() != kinds.len() || pages.len() > SEGMENT_PAGES {
        return Err(Error::internal("a segment of a backup has the wrong number of pages"));
    }
    if kinds.iter().all(|kind| *kind == PageKind::Zero) {
        return Ok(false);
    }
    out.clear();
    put_varint64(out, key);
    put_varint64(out, lsn.0);
    let mut bits = [0u8; KINDS_BYTES];
    for (i, kind) in kinds.iter().enumerate() {
        bits[i / 4] |= (*kind as u8) << (i % 4 * 2);
    }
    out.extend_from_slice(&bits);
    for (page, kind) in pages.iter().zip(kinds) {
        if *kind == PageKind::Image {
            out.extend_from_slice(page.as_bytes());
        }
    }
    Ok(true)
}

/// Bytes of a segment's content that are enough for its first `pages` pages.
pub(crate) fn prefix_bytes(pages: usize) -> usize {
    // Key and LSN are varints of ten bytes at most.
    20 + KINDS_BYTES + pages * PAGE_SIZE
}

/// A decoded segment.
pub(crate) struct Segment<'a> {
    pub lsn: Lsn,
    kinds: [u8; KINDS_BYTES],
    images: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Decodes the segment with that key, whose content is `len` bytes long: all of it, or its beginning ([`prefix_bytes`]).
    ///
    /// # Errors
    /// `Corrupt` without a place.
    pub fn decode(content: &'a [u8], key: u64, len: usize) -> Result<Self> {
        let mut r = Reader::new(content, "segment of a backup");
        let found = r.varint64()?;
        if found != key {
            return Err(r.bad(&format!("segment {found} where segment {key} is expected")));
        }
        let lsn = Lsn(r.varint64()?);
        let kinds = r.array::<KINDS_BYTES>()?;
        let segment = Self { lsn, kinds, images: r.rest() };
        let (mut images, mut known) = (0, true);
        for i in 0..SEGMENT_PAGES {
            match segment.bits(i) {
                1 => images += 1,
                3 => known = false,
                _ => {}
            }
        }
        let head = content.len() - segment.images.len();
        if !known || len != head + images * PAGE_SIZE {
            return Err(Error::corrupt("a segment of a backup does not have the pages that it says"));
        }
        Ok(segment)
    }

    fn bits(&self, i: usize) -> u8 {
        self.kinds.get(i / 4).map_or(0, |byte| byte >> (i % 4 * 2) & 3)
    }

    /// What is known of its `i`th page.
    pub fn kind(&self, i: usize) -> PageKind {
        match self.bits(i) {
            0 => PageKind::Zero,
            1 => PageKind::Image,
            _ => PageKind::Damaged,
        }
    }

    /// Fills `pages` with its pages from number `skip` on.
    pub fn fill(&self, skip: usize, pages: &mut [PageBuf]) {
        let mut images = self.images.chunks_exact(PAGE_SIZE);
        for i in 0..(skip + pages.len()).min(SEGMENT_PAGES) {
            let kind = self.kind(i);
            let image = if kind == PageKind::Image { images.next() } else { None };
            let Some(page) = i.checked_sub(skip).and_then(|i| pages.get_mut(i)) else { continue };
            match (kind, image) {
                (PageKind::Image, Some(image)) => page.as_bytes_mut().copy_from_slice(image),
                (PageKind::Zero, _) => page.as_bytes_mut().fill(0),
                _ => fill_damaged(page),
            }
        }
    }
}
