//! The set as bytes, in the bodies of CheckpointData and FORGET records.
//!
//! ```text
//! body:   chunk ...                  at least one, ascending; each body stands for itself
//! chunk:  number varint              id / 65536; after the first: the distance to the
//!                                    chunk before it, minus 1
//!         runs varint                how many; 0 = bits
//!         runs x { gap varint, more varint }
//!                                    gap: values left out since the end of the run before
//!                                    (one is implied), from 0 for the first; more: values
//!                                    of the run after its first
//!         or 8192 bytes              a bit for each value, lowest first
//! ```
//! Whichever is shorter is written. Varints are LEB128.
//!
//! Bytes are not trusted: a body that says anything else is `Corrupt`, and decoding takes
//! memory in proportion to the bytes that are there.

use std::sync::Arc;

use resurgam_base::{Error, Result};

use super::chunk::{Bits, Chunk, WORDS};
use super::{CHUNK_BITS, TxIdSet};

/// A body is closed when it is this long, in bytes; one more chunk has no room in it then.
const BODY_FULL: usize = 40_000;
const BITS_BYTES: usize = WORDS * 8;
const NUMBER_MAX: u64 = u64::MAX >> CHUNK_BITS;

/// The longest body of [`TxIdSet::encode`], in bytes.
pub const ID_SET_BODY_MAX: usize = BODY_FULL + BITS_BYTES + 11;

impl TxIdSet {
    /// The set in bodies of at most [`ID_SET_BODY_MAX`] bytes; none when it is empty.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        let mut before = None;
        for (number, chunk) in &self.chunks {
            if bodies.last().is_none_or(|body| body.len() >= BODY_FULL) {
                bodies.push(Vec::new());
                before = None;
            }
            if let Some(body) = bodies.last_mut() {
                put(body, before.map_or(*number, |before| number - before - 1));
                put_chunk(body, chunk);
            }
            before = Some(*number);
        }
        bodies
    }

    /// Reads one body.
    ///
    /// # Errors
    /// `Corrupt` when it is not one that [`TxIdSet::encode`] writes.
    pub fn decode(mut body: &[u8]) -> Result<Self> {
        let mut set = Self::default();
        let mut before = None;
        loop {
            let read = take(&mut body)?;
            let number = match before {
                None => Some(read),
                Some(before) => read.checked_add(1).and_then(|distance| distance.checked_add(before)),
            };
            let number = number.filter(|number| *number <= NUMBER_MAX).ok_or_else(bad)?;
            let chunk = take_chunk(&mut body)?;
            set.len += u64::from(chunk.len());
            set.chunks.insert(number, Arc::new(chunk));
            before = Some(number);
            if body.is_empty() {
                return Ok(set);
            }
        }
    }
}

fn bad() -> Error {
    Error::corrupt("a set of transaction ids cannot be read")
}

fn put_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    let start = out.len();
    put(out, chunk.runs().count() as u64);
    let mut next = 0u32;
    for (low, high) in chunk.runs() {
        put(out, u64::from(u32::from(low) - next));
        put(out, u64::from(high - low));
        next = u32::from(high) + 2;
        if out.len() - start > BITS_BYTES {
            break;
        }
    }
    if out.len() - start > BITS_BYTES {
        out.truncate(start);
        put(out, 0);
        match chunk {
            Chunk::Bits(bits) => bits.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes())),
            Chunk::Runs(runs) => {
                let from = out.len();
                out.resize(from + BITS_BYTES, 0);
                for (low, high) in runs {
                    for value in usize::from(*low)..=usize::from(*high) {
                        out[from + value / 8] |= 1 << (value % 8);
                    }
                }
            }
        }
    }
}

fn take_chunk(body: &mut &[u8]) -> Result<Chunk> {
    let runs = take(body)?;
    if runs == 0 {
        let (bytes, rest) = body.split_first_chunk::<BITS_BYTES>().ok_or_else(bad)?;
        *body = rest;
        let mut bits = Box::new(Bits { words: [0; WORDS], len: 0 });
        for (word, bytes) in bits.words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
            bits.len += word.count_ones();
        }
        // Bits are never the shorter form of nothing or of everything.
        return if bits.len == 0 || bits.len == 1 << 16 { Err(bad()) } else { Ok(Chunk::Bits(bits)) };
    }
    // Each run takes two bytes or more: a count that is a lie reserves no more than there is.
    let mut list = Vec::with_capacity((body.len() as u64 / 2).min(runs) as usize);
    let mut next = 0u64;
    for _ in 0..runs {
        let low = take(body)?.checked_add(next).ok_or_else(bad)?;
        let high = take(body)?.checked_add(low).filter(|high| *high <= u64::from(u16::MAX)).ok_or_else(bad)?;
        list.push((low as u16, high as u16));
        next = high + 2;
    }
    Ok(Chunk::of(list))
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(body: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = body.split_first().ok_or_else(bad)?;
        *body = rest;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            return Err(bad());
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            // One way to write each number.
            return if bits == 0 && shift > 0 { Err(bad()) } else { Ok(value) };
        }
    }
    Err(bad())
}
