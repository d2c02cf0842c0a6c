//! Frames: a message with its length and checksum.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `RBIO` |
//! | 4..8 | length of the message |
//! | 8..12 | CRC-32C of the message |
//! | 12..16 | CRC-32C of the header before it: a damaged length is noticed at once, and not when what it promises does not come |
//! | 16.. | the message |
//!
//! TCP's own checksum misses one damaged segment in some ten thousand; a page or a block of the log must not be wrong at all.

use std::io::IoSlice;

use resurgam_base::{Error, ErrorKind, Result, checksum};

use crate::deadline::{Stop, Timed};

pub(crate) const FRAME_HEADER_BYTES: usize = 16;
pub(crate) const MAGIC: [u8; 4] = *b"RBIO";
/// How a client with TLS begins: a record of the handshake, of whichever version.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];
const HEAD_SUM_AT: usize = 12;
/// The longest message with a page, pages, or blocks of the log in it: a block has 16 MB at most by default, and is never longer than
/// a segment, which may be set. Such a block alone may be this long.
pub(crate) const ANSWER_BYTES_MAX: usize = 80 << 20;
/// The longest request.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Memory is given in steps as bytes arrive: a length alone costs nothing.
const STEP: usize = 1 << 20;

/// Writes `message`, which begins with [`FRAME_HEADER_BYTES`] of room, as a frame.
///
/// # Errors
/// `Io`, also when it is not done in time; `Internal` for a message that is too long.
pub(crate) fn write(to: &mut Timed, message: &mut [u8]) -> Result<()> {
    let Some((head, body)) = message.split_first_chunk_mut::<FRAME_HEADER_BYTES>() else {
        return Err(Error::internal("a frame without room for its header"));
    };
    *head = header(body.len(), checksum(body))?;
    to.write_all(message)
}

/// Writes the message that consists of these parts, whose checksum is known, as a frame.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_parts(to: &mut Timed, parts: &[&[u8]], sum: u32) -> Result<()> {
    let head = header(parts.iter().map(|part| part.len()).sum(), sum)?;
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.push(IoSlice::new(&head));
    all.extend(parts.iter().map(|part| IoSlice::new(part)));
    to.write_all_parts(&mut all)
}

fn header(length: usize, sum: u32) -> Result<[u8; FRAME_HEADER_BYTES]> {
    let Some(short) = u32::try_from(length).ok().filter(|length| *length as usize <= ANSWER_BYTES_MAX) else {
        return Err(Error::internal(format!("a message of {length} bytes is too long to be sent")));
    };
    let mut head = [0; FRAME_HEADER_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&short.to_le_bytes());
    head[8..12].copy_from_slice(&sum.to_le_bytes());
    let of_head = checksum(&head[..HEAD_SUM_AT]);
    head[HEAD_SUM_AT..].copy_from_slice(&of_head.to_le_bytes());
    Ok(head)
}

/// Reads a frame's message, of at most `most` bytes, into `message`; false at the end of the connection.
///
/// # Errors
/// `Io`, also when it is not there in time, ends in the middle, or is told to stop; `Corrupt` for what is no frame, or too long a one.
pub(crate) fn read(from: &mut Timed, most: usize, message: &mut Vec<u8>, stop: Stop<'_>) -> Result<bool> {
    let mut head = [0; FRAME_HEADER_BYTES];
    if !from.read_first(&mut head, stop)? {
        return Ok(false);
    }
    let word = |at: usize| head[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if head[..2] == TLS_HANDSHAKE {
        return Err(Error::corrupt(
            "what came is TLS, and this side speaks without: start both with --tier-tls-cert, or both without",
        ));
    }
    if head[..4] != MAGIC {
        return Err(Error::corrupt("what came is no frame: something else is talking to this port"));
    }
    if checksum(&head[..HEAD_SUM_AT]) != word(HEAD_SUM_AT) {
        return Err(Error::corrupt("the checksum of a frame's header is wrong"));
    }
    let length = word(4);
    if length as usize > most {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("a frame says that its message has {length} bytes, and none may have more than {most}"),
        ));
    }
    // What is there of the message before is written over: it need not be cleared.
    let (length, mut at) = (length as usize, 0);
    while at < length {
        let next = (at + STEP).min(length);
        if message.len() < next {
            message.resize(next, 0);
        }
        from.read_all(&mut message[at..next], stop)?;
        at = next;
    }
    message.truncate(length);
    if checksum(message) != word(8) {
        return Err(Error::corrupt("the checksum of a frame is wrong"));
    }
    Ok(true)
}
