//! Cutting whole messages out of the bytes that a client sent.
//!
//! ```text
//! startup packet:  length i32 (counts itself) | code i32 | ...
//! any other:       tag u8 | length i32 (counts itself, not the tag) | body
//! ```
//!
//! Invariants:
//! 1. A body given out has exactly the length that its header announced.
//! 2. An unknown tag or an impossible length is an error as soon as its bytes are
//!    here, before the body arrives.
//! 3. Nothing is allocated for a body before its bytes arrive: [`room_wanted`]
//!    grows with what was received, at most doubling.

use bytes::{Buf, Bytes, BytesMut};

use super::ProtocolError;

/// Longest startup packet in bytes (`MAX_STARTUP_PACKET_LENGTH` in PostgreSQL).
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// Longest message of a kind that carries no user data (`PQ_SMALL_MESSAGE_LIMIT`).
pub const SMALL_BYTES_MAX: usize = 10_000;
/// Longest SASL response, its length word included (`PG_MAX_SASL_MESSAGE_LENGTH`).
pub const SASL_BYTES_MAX: usize = 1024;
/// Longest message of any kind (`PQ_LARGE_MESSAGE_LIMIT`, one byte below 1 GB).
pub const LARGE_BYTES_MAX: usize = 0x3fff_ffff;
/// Room asked for when nothing is known about the next message.
pub const READ_BYTES: usize = 8 * 1024;

/// A whole message: its tag and exactly its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub tag: u8,
    pub body: Bytes,
    /// There was no memory for its body, which was read and forgotten.
    pub refused: bool,
}

/// Longest body-with-length that a message with this tag may announce.
fn length_max(tag: u8, message_bytes_max: usize) -> Option<usize> {
    match tag {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Some(message_bytes_max.min(LARGE_BYTES_MAX)),
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => Some(SMALL_BYTES_MAX),
        // After the login: refused, whatever is in it.
        b'p' => Some(SASL_BYTES_MAX),
        _ => None,
    }
}

/// The tag and announced length of the next message, checked. `None`: too few bytes.
fn header(input: &BytesMut, message_bytes_max: usize) -> Result<Option<(u8, usize)>, ProtocolError> {
    let Some(&tag) = input.first() else { return Ok(None) };
    let Some(length_max) = length_max(tag, message_bytes_max) else {
        return Err(ProtocolError::violation(format!("invalid frontend message type {tag}")));
    };
    let Some(length) = input.get(1..5) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length < 4 {
        return Err(ProtocolError::violation(format!(
            "invalid message length {length} for message type {:?}",
            tag as char
        )));
    }
    if length > length_max {
        return Err(ProtocolError::violation(format!(
            "message of type {:?} with {length} bytes is longer than the limit of {length_max} bytes",
            tag as char
        )));
    }
    Ok(Some((tag, length)))
}

/// Takes the next whole message out of `input`; `None` when more bytes are needed.
///
/// `message_bytes_max` bounds the messages that carry user data.
pub fn take(input: &mut BytesMut, message_bytes_max: usize) -> Result<Option<Frame>, ProtocolError> {
    let Some((tag, length)) = header(input, message_bytes_max)? else { return Ok(None) };
    if input.len() < 1 + length {
        return Ok(None);
    }
    input.advance(5);
    // What has no body shares nothing with the input.
    let body = if length == 4 { Bytes::new() } else { input.split_to(length - 4).freeze() };
    Ok(Some(Frame { tag, body, refused: false }))
}

/// The tag of the next message and its length, tag and length word included, as soon as they are known.
pub fn announced(input: &BytesMut, message_bytes_max: usize) -> Result<Option<(u8, usize)>, ProtocolError> {
    Ok(header(input, message_bytes_max)?.map(|(tag, length)| (tag, length + 1)))
}

/// Takes a whole SASL response out of `input`; `None` when more bytes are needed. Any other message is an error as
/// soon as its first byte is here, as is one that announces more than [`SASL_BYTES_MAX`].
pub fn take_sasl(input: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
    let Some(&tag) = input.first() else { return Ok(None) };
    if tag != b'p' {
        return Err(ProtocolError::violation(format!("expected SASL response, got message type {tag}")));
    }
    let Some(length) = input.get(1..5) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if !(4..=SASL_BYTES_MAX).contains(&length) {
        return Err(ProtocolError::violation("invalid message length"));
    }
    if input.len() < 1 + length {
        return Ok(None);
    }
    input.advance(5);
    Ok(Some(input.split_to(length - 4).freeze()))
}

/// Bytes of free room worth having before the next read.
pub fn room_wanted(input: &BytesMut, message_bytes_max: usize) -> usize {
    match header(input, message_bytes_max) {
        Ok(Some((_, length))) => {
            let missing = (1 + length).saturating_sub(input.len());
            missing.clamp(READ_BYTES, input.len().max(READ_BYTES))
        }
        _ => READ_BYTES,
    }
}

/// Takes a startup packet (with its length word) out of `input`; `None` when more bytes are needed.
pub fn take_startup(input: &mut BytesMut) -> Result<Option<BytesMut>, ProtocolError> {
    let Some(length) = input.get(0..4) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(ProtocolError::violation("invalid length of startup packet"));
    }
    if input.len() < length {
        return Ok(None);
    }
    Ok(Some(input.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn takes_one_message_and_leaves_the_rest() {
        let mut input = buffer(b"Q\0\0\0\x06x\0S\0\0\0\x04S\0");
        let frame = take(&mut input, 100).unwrap().unwrap();
        assert_eq!((frame.tag, &frame.body[..]), (b'Q', &b"x\0"[..]));
        assert_eq!(take(&mut input, 100).unwrap().unwrap().tag, b'S');
        assert_eq!(take(&mut input, 100).unwrap(), None);
    }

    #[test]
    fn bad_headers_are_errors_before_the_body_arrives() {
        assert!(take(&mut buffer(b"\x07"), 100).is_err());
        assert!(take(&mut buffer(b"Q\0\0\0\x03"), 100).is_err());
        assert!(take(&mut buffer(b"Q\0\0\0\x65"), 100).is_err());
        assert!(take(&mut buffer(b"Q\xff\xff\xff\xff"), usize::MAX).is_err());
        assert!(take(&mut buffer(b"S\0\0\xff\xff"), usize::MAX).is_err());
        assert!(take_startup(&mut buffer(b"\0\0\0\x07")).is_err());
        assert!(take_startup(&mut buffer(b"\0\0\x27\x11")).is_err());
        assert!(take_sasl(&mut buffer(b"Q")).is_err());
        assert!(take_sasl(&mut buffer(b"p\0\0\x04\x01")).is_err());
        assert!(take_sasl(&mut buffer(b"p\0\0\0\x03")).is_err());
        assert_eq!(take_sasl(&mut buffer(b"p\0\0\0\x06x")), Ok(None));
        assert_eq!(take_sasl(&mut buffer(b"p\0\0\0\x06xyz")), Ok(Some(Bytes::from_static(b"xy"))));
    }

    #[test]
    fn room_grows_with_what_arrived() {
        let mut input = buffer(b"Q\x3f\xff\xff\xff");
        assert_eq!(room_wanted(&input, LARGE_BYTES_MAX), READ_BYTES);
        input.resize(100_000, 0);
        assert_eq!(room_wanted(&input, LARGE_BYTES_MAX), 100_000);
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_never_gives_a_wrong_length(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let mut input = buffer(&bytes);
            let before = input.len();
            if let Ok(Some(frame)) = take(&mut input, 1 << 20) {
                proptest::prop_assert_eq!(before, input.len() + frame.body.len() + 5);
            }
            let _ = take_startup(&mut buffer(&bytes));
            let _ = take_sasl(&mut buffer(&bytes));
            let _ = room_wanted(&buffer(&bytes), 1 << 20);
        }
    }
}
