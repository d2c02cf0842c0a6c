//! Decoding the messages of a client.
//!
//! Contract: a decoder reads only the body it was given, checks every count and
//! length against the bytes that are there before it uses them, and accepts no
//! leftover bytes. Texts and parameter values share the input's memory.
//!
//! | tag | message | body |
//! |---|---|---|
//! | `Q` | Query | text\0 |
//! | `P` | Parse | name\0 text\0 count u16, type oid u32 × count |
//! | `B` | Bind | portal\0 statement\0 formats, count u16, (length i32, bytes) × count, result formats |
//! | `D`, `C` | Describe, Close | kind (`S` or `P`), name\0 |
//! | `E` | Execute | portal\0 rows i32 |
//! | `d` | CopyData | bytes |
//! | `f` | CopyFail | text\0 |
//! | `H` `S` `X` `c` | Flush, Sync, Terminate, CopyDone | |
//!
//! "formats" is a count u16 and then that many u16, 0 for text and 1 for binary.

use std::ops::Deref;

use bytes::Bytes;
use resurgam_sql::wire::Format;

use super::ProtocolError;
use super::frame::Frame;

/// UTF-8 text that shares the input's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(Bytes);

impl Deref for Text {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        // Checked at construction; a second check costs less than unsafe code would need proof.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// What Describe and Close are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Statement,
    Portal,
}

/// A client's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frontend {
    Query(Text),
    Parse {
        name: Text,
        query: Text,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        target: Target,
        name: Text,
    },
    Close {
        target: Target,
        name: Text,
    },
    Execute {
        portal: Text,
        rows_max: i32,
    },
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(Text),
    /// Any of the password family; only startup knows which.
    Password(Bytes),
    /// The obsolete function-call message.
    FunctionCall,
}

/// The Bind message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub portal: Text,
    pub statement: Text,
    pub params: Vec<Option<Bytes>>,
    pub param_formats: Vec<Format>,
    pub result_formats: Vec<Format>,
}

/// Why a whole message could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// The message's structure is broken: the connection ends.
    Malformed(ProtocolError),
    /// A text is not UTF-8 or a format code is unknown: this message fails, the connection goes on.
    Value { sqlstate: &'static str, message: String },
}

impl From<ProtocolError> for DecodeError {
    fn from(error: ProtocolError) -> Self {
        Self::Malformed(error)
    }
}

#[cold]
fn short(what: &str) -> DecodeError {
    ProtocolError::violation(format!("insufficient data left in {what} message")).into()
}

/// Reads one body from front to back.
struct Reader<'a> {
    body: &'a Bytes,
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    fn new(body: &'a Bytes, what: &'static str) -> Self {
        Self { body, at: 0, what }
    }
    fn left(&self) -> usize {
        self.body.len() - self.at
    }
    fn bytes(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.left() {
            return Err(short(self.what));
        }
        let start = self.at;
        self.at += length;
        Ok(self.body.slice(start..self.at))
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.body.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| short(self.what))?;
        self.at += N;
        Ok(bytes)
    }
    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }
    fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }
    fn text(&mut self) -> Result<Text, DecodeError> {
        let rest = &self.body[self.at..];
        let end = rest.iter().position(|&byte| byte == 0).ok_or_else(|| {
            DecodeError::from(ProtocolError::violation(format!("unterminated string in {} message", self.what)))
        })?;
        if let Err(error) = std::str::from_utf8(&rest[..end]) {
            let at = error.valid_up_to();
            let shown: Vec<String> = rest[at..end].iter().take(4).map(|byte| format!("0x{byte:02x}")).collect();
            return Err(DecodeError::Value {
                sqlstate: "22021",
                message: format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
            });
        }
        let text = self.body.slice(self.at..self.at + end);
        self.at += end + 1;
        Ok(Text(text))
    }
    /// None, one for all, or one each. One for all that is text is none.
    fn formats(&mut self) -> Result<Vec<Format>, DecodeError> {
        let count = self.u16()? as usize;
        if count * 2 > self.left() {
            return Err(short(self.what));
        }
        if count == 1 && self.body[self.at..].starts_with(&[0, 0]) {
            self.at += 2;
            return Ok(Vec::new());
        }
        let mut formats = Vec::with_capacity(count);
        for _ in 0..count {
            formats.push(match self.u16()? {
                0 => Format::Text,
                1 => Format::Binary,
                code => {
                    return Err(DecodeError::Value {
                        sqlstate: "22023",
                        message: format!("unsupported format code: {code}"),
                    });
                }
            });
        }
        Ok(formats)
    }
    fn target(&mut self) -> Result<Target, DecodeError> {
        match self.array::<1>()?[0] {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            other => Err(ProtocolError::violation(format!("invalid {} message subtype {other}", self.what)).into()),
        }
    }
    fn end(self) -> Result<(), DecodeError> {
        if self.left() == 0 {
            return Ok(());
        }
        Err(ProtocolError::violation(format!(
            "invalid message format: {} bytes left in {} message",
            self.left(),
            self.what
        ))
        .into())
    }
}

/// Decodes a whole message.
pub fn decode(frame: &Frame) -> Result<Frontend, DecodeError> {
    if frame.refused {
        return Err(DecodeError::Value { sqlstate: "53200", message: "out of memory".into() });
    }
    let body = &frame.body;
    let empty = |what, message| Reader::new(body, what).end().map(|()| message);
    match frame.tag {
        b'Q' => {
            let mut reader = Reader::new(body, "Query");
            let text = reader.text()?;
            reader.end()?;
            Ok(Frontend::Query(text))
        }
        b'P' => {
            let mut reader = Reader::new(body, "Parse");
            let (name, query) = (reader.text()?, reader.text()?);
            let count = reader.u16()? as usize;
            if count * 4 > reader.left() {
                return Err(short("Parse"));
            }
            let mut types = Vec::with_capacity(count);
            for _ in 0..count {
                types.push(reader.array().map(u32::from_be_bytes)?);
            }
            reader.end()?;
            Ok(Frontend::Parse { name, query, types })
        }
        b'B' => bind(body).map(Frontend::Bind),
        b'D' => {
            let mut reader = Reader::new(body, "Describe");
            let (target, name) = (reader.target()?, reader.text()?);
            reader.end()?;
            Ok(Frontend::Describe { target, name })
        }
        b'C' => {
            let mut reader = Reader::new(body, "Close");
            let (target, name) = (reader.target()?, reader.text()?);
            reader.end()?;
            Ok(Frontend::Close { target, name })
        }
        b'E' => {
            let mut reader = Reader::new(body, "Execute");
            let (portal, rows_max) = (reader.text()?, reader.i32()?);
            reader.end()?;
            Ok(Frontend::Execute { portal, rows_max })
        }
        b'f' => {
            let mut reader = Reader::new(body, "CopyFail");
            let text = reader.text()?;
            reader.end()?;
            Ok(Frontend::CopyFail(text))
        }
        b'd' => Ok(Frontend::CopyData(body.clone())),
        b'H' => empty("Flush", Frontend::Flush),
        b'S' => empty("Sync", Frontend::Sync),
        b'X' => Ok(Frontend::Terminate),
        b'c' => empty("CopyDone", Frontend::CopyDone),
        b'p' => Ok(Frontend::Password(body.clone())),
        b'F' => Ok(Frontend::FunctionCall),
        tag => Err(ProtocolError::violation(format!("invalid frontend message type {tag}")).into()),
    }
}

fn bind(body: &Bytes) -> Result<Bind, DecodeError> {
    let mut reader = Reader::new(body, "Bind");
    let (portal, statement) = (reader.text()?, reader.text()?);
    let param_formats = reader.formats()?;
    let count = reader.u16()? as usize;
    if count * 4 > reader.left() {
        return Err(short("Bind"));
    }
    let mut params = Vec::with_capacity(count);
    for _ in 0..count {
        params.push(match reader.i32()? {
            -1 => None,
            length => Some(reader.bytes(usize::try_from(length).map_err(|_| short("Bind"))?)?),
        });
    }
    let result_formats = reader.formats()?;
    reader.end()?;
    if param_formats.len() > 1 && param_formats.len() != params.len() {
        return Err(ProtocolError::violation(format!(
            "bind message has {} parameter formats but {} parameters",
            param_formats.len(),
            params.len()
        ))
        .into());
    }
    Ok(Bind { portal, statement, params, param_formats, result_formats })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u8, body: &[u8]) -> Frame {
        Frame { tag, body: Bytes::copy_from_slice(body), refused: false }
    }

    #[test]
    fn bind_reads_every_part() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\0";
        let Ok(Frontend::Bind(bind)) = decode(&frame(b'B', body)) else { panic!("not decoded") };
        assert_eq!((&*bind.portal, &*bind.statement), ("p", "s"));
        assert_eq!(bind.params, vec![Some(Bytes::from_static(b"ab")), None]);
        assert_eq!(bind.param_formats, vec![Format::Binary]);
        assert!(bind.result_formats.is_empty(), "text for all is what there is without any");
    }

    #[test]
    fn every_truncation_is_malformed() {
        let messages: [(u8, &[u8]); 5] = [
            (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\0"),
            (b'P', b"n\0select 1\0\0\x01\0\0\0\x17"),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\0"),
            (b'Q', b"select 1\0"),
        ];
        for (tag, body) in messages {
            assert!(decode(&frame(tag, body)).is_ok(), "{}", tag as char);
            for length in 0..body.len() {
                let got = decode(&frame(tag, &body[..length]));
                assert!(matches!(got, Err(DecodeError::Malformed(_))), "{} cut to {length}: {got:?}", tag as char);
            }
            let mut longer = body.to_vec();
            longer.push(0);
            assert!(matches!(decode(&frame(tag, &longer)), Err(DecodeError::Malformed(_))));
        }
    }

    #[test]
    fn bad_utf8_fails_the_message_only() {
        assert!(matches!(decode(&frame(b'Q', b"\xff\0")), Err(DecodeError::Value { sqlstate: "22021", .. })));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(tag in proptest::num::u8::ANY, body in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = decode(&frame(tag, &body));
        }
        #[test]
        fn mutated_binds_never_panic(at in 0usize..25, byte in proptest::num::u8::ANY) {
            let mut body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\0".to_vec();
            if let Some(slot) = body.get_mut(at) { *slot = byte; }
            let _ = decode(&frame(b'B', &body));
        }
    }
}
