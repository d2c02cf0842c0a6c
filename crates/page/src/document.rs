//! Documents (`jsonb`) as rows keep them: read in place, without parsing.
//!
//! ```text
//! document  version u8 = 1, value
//! value     0 null   1 false   2 true
//!           3 number: a numeric's key, then its display scale u16 (as a VarNumeric column keeps it)
//!           4 text: UTF-8
//!           5 list: count u32, count ends u32, values
//!           6 map:  count u32, 2 * count ends u32, keys (UTF-8) one after another, then their values
//! ```
//! Ends are counted from the end of their array; they say where a text or a number stops, so these carry no length.
//! Keys of a map are sorted by length, then bytes, and each is there once: that is PostgreSQL's normal form, and
//! a key is found by bisection. An element is found in constant time.
//!
//! # Invariants
//! 1. A byte from disk is never trusted: every offset is checked when it is used, and what lies deeper than
//!    [`DEPTH_MAX`] is `Corrupt`.
//! 2. Documents that are equal in PostgreSQL have one [`order_key`], and order keys compare as PostgreSQL's
//!    `compareJsonbContainers` does (text by its bytes).

use crate::types::DISPLAY_SCALE_BYTES;
use resurgam_base::{Error, Result};

/// Version of the form, its first byte.
const VERSION: u8 = 1;
/// Most levels of lists and maps.
pub const DEPTH_MAX: usize = 1000;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;
const LIST: u8 = 5;
const MAP: u8 = 6;

#[cold]
fn bad(what: &str) -> Error {
    Error::corrupt(format!("document: {what}"))
}

/// A value within a document, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node<'a> {
    Null,
    Bool(bool),
    /// A numeric with its display scale.
    Number(&'a [u8]),
    Text(&'a str),
    List(List<'a>),
    Map(Map<'a>),
}

/// The value that a document is.
///
/// # Errors
/// `Corrupt`: the bytes are no document as far as they were looked at.
pub fn read(document: &[u8]) -> Result<Node<'_>> {
    match document.split_first() {
        Some((&VERSION, value)) => Node::read(value),
        _ => Err(bad("unknown version")),
    }
}

impl<'a> Node<'a> {
    /// A value from its bytes, without the document's version.
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let Some((&tag, body)) = bytes.split_first() else { return Err(bad("empty value")) };
        Ok(match (tag, body.is_empty()) {
            (NULL, true) => Self::Null,
            (FALSE, true) => Self::Bool(false),
            (TRUE, true) => Self::Bool(true),
            (NUMBER, _) if body.len() > DISPLAY_SCALE_BYTES => Self::Number(body),
            (TEXT, _) => Self::Text(std::str::from_utf8(body).map_err(|_| bad("text is not UTF-8"))?),
            (LIST, _) => Self::List(List(Parts::read(body, 1)?)),
            (MAP, _) => Self::Map(Map(Parts::read(body, 2)?)),
            _ => return Err(bad("unknown value")),
        })
    }

    /// Appends the value's bytes, as a value within another document.
    pub fn copy_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(NULL),
            Self::Bool(v) => out.push(if *v { TRUE } else { FALSE }),
            Self::Number(v) => put_number(v, out),
            Self::Text(v) => put_text(v, out),
            Self::List(List(parts)) => {
                out.push(LIST);
                out.extend_from_slice(parts.whole);
            }
            Self::Map(Map(parts)) => {
                out.push(MAP);
                out.extend_from_slice(parts.whole);
            }
        }
    }

    /// Where a list or map lies: equal for the same part of the same bytes, for nothing else.
    pub fn place(&self) -> Option<usize> {
        match self {
            Self::List(List(parts)) | Self::Map(Map(parts)) => Some(parts.whole.as_ptr() as usize),
            _ => None,
        }
    }

    /// The value as a document of its own.
    pub fn to_document(&self) -> Vec<u8> {
        let mut out = begin();
        self.copy_into(&mut out);
        out
    }
}

/// Parts that lie one after another, and where each ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts<'a> {
    count: usize,
    whole: &'a [u8],
    ends: &'a [u8],
    area: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(body: &'a [u8], each: usize) -> Result<Self> {
        let (count, rest) = body.split_first_chunk::<4>().ok_or_else(|| bad("count cut off"))?;
        let count = u32::from_le_bytes(*count) as usize;
        let bytes = count.checked_mul(each * 4).filter(|bytes| *bytes <= rest.len());
        let (ends, area) = rest.split_at(bytes.ok_or_else(|| bad("ends cut off"))?);
        Ok(Self { count, whole: body, ends, area })
    }

    fn part(&self, at: usize) -> Result<&'a [u8]> {
        let end = |at: usize| {
            self.ends.get(at * 4..).and_then(|ends| ends.first_chunk()).map(|end| u32::from_le_bytes(*end) as usize)
        };
        let start = if at == 0 { Some(0) } else { end(at - 1) };
        match (start, end(at)) {
            (Some(start), Some(end)) => self.area.get(start..end).ok_or_else(|| bad("part lies outside")),
            _ => Err(bad("no such part")),
        }
    }
}

/// A list's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct List<'a>(Parts<'a>);

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        self.0.count
    }
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }
    /// Element `at`, from 0.
    pub fn get(&self, at: usize) -> Result<Node<'a>> {
        Node::read(self.0.part(at)?)
    }
    pub fn iter(&self) -> impl Iterator<Item = Result<Node<'a>>> + use<'a> {
        let list = *self;
        (0..list.len()).map(move |at| list.get(at))
    }
}

/// A map's keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map<'a>(Parts<'a>);

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        self.0.count
    }
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }
    /// Key `at`, in their order.
    pub fn key(&self, at: usize) -> Result<&'a str> {
        std::str::from_utf8(self.0.part(at)?).map_err(|_| bad("key is not UTF-8"))
    }
    /// The value of key `at`.
    pub fn value(&self, at: usize) -> Result<Node<'a>> {
        Node::read(self.0.part(self.0.count + at)?)
    }
    /// The value of a key, if it is there.
    pub fn find(&self, key: &str) -> Result<Option<Node<'a>>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.0.part(middle)?;
            match (found.len(), found).cmp(&(key.len(), key.as_bytes())) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.value(middle).map(Some),
            }
        }
        Ok(None)
    }
    pub fn iter(&self) -> impl Iterator<Item = Result<(&'a str, Node<'a>)>> + use<'a> {
        let map = *self;
        (0..map.len()).map(move |at| Ok((map.key(at)?, map.value(at)?)))
    }
}

// ---- writing ----------------------------------------------------------------------------

/// The begin of a document; its one value follows.
pub fn begin() -> Vec<u8> {
    vec![VERSION]
}

/// Appends `null`.
pub fn put_null(out: &mut Vec<u8>) {
    out.push(NULL);
}
/// Appends a boolean.
pub fn put_bool(value: bool, out: &mut Vec<u8>) {
    out.push(if value { TRUE } else { FALSE });
}
/// Appends a number: a numeric's key and display scale.
pub fn put_number(encoded: &[u8], out: &mut Vec<u8>) {
    out.push(NUMBER);
    out.extend_from_slice(encoded);
}
/// Appends a text.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    out.push(TEXT);
    out.extend_from_slice(text.as_bytes());
}

/// A list or map that is being written: after each part, [`Self::end`].
#[derive(Debug)]
pub struct Open {
    next: usize,
    area: usize,
}

/// Begins a list of so many elements.
pub fn put_list(count: usize, out: &mut Vec<u8>) -> Open {
    out.push(LIST);
    open(count, count, out)
}

/// Begins a map of so many keys: all keys follow, sorted by length and bytes (as they are, without a tag), then all values.
pub fn put_map(count: usize, out: &mut Vec<u8>) -> Open {
    out.push(MAP);
    open(count, count * 2, out)
}

fn open(count: usize, ends: usize, out: &mut Vec<u8>) -> Open {
    out.extend_from_slice(&(count as u32).to_le_bytes());
    let next = out.len();
    out.resize(next + ends * 4, 0);
    Open { next, area: out.len() }
}

impl Open {
    /// Says that a part ends where `out` does. (A document is far below 4 GB: rows are below 2.)
    pub fn end(&mut self, out: &mut [u8]) {
        let end = (out.len() - self.area) as u32;
        out[self.next..self.next + 4].copy_from_slice(&end.to_le_bytes());
        self.next += 4;
    }
}

// ---- order ------------------------------------------------------------------------------

/// Appends bytes that order documents as PostgreSQL does: empty list on the outside < null < text < number <
/// boolean < list < map; lists and maps by their count first, then part by part (a key, its value, the next key).
///
/// # Errors
/// `Corrupt`: the bytes are no document.
pub fn order_key(document: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match read(document)? {
        Node::List(list) if list.is_empty() => {
            out.push(1);
            Ok(())
        }
        node => put_order(&node, 0, out),
    }
}

fn put_order(node: &Node<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(bad("nested too deeply"));
    }
    match node {
        Node::Null => out.push(2),
        Node::Text(text) => {
            out.push(3);
            put_terminated(text.as_bytes(), out);
        }
        Node::Number(number) => {
            out.push(4);
            put_terminated(&number[..number.len().saturating_sub(DISPLAY_SCALE_BYTES)], out);
        }
        Node::Bool(value) => out.extend_from_slice(&[5, u8::from(*value)]),
        Node::List(list) => {
            out.push(6);
            out.extend_from_slice(&(list.len() as u32).to_be_bytes());
            for item in list.iter() {
                put_order(&item?, depth + 1, out)?;
            }
        }
        Node::Map(map) => {
            out.push(7);
            out.extend_from_slice(&(map.len() as u32).to_be_bytes());
            for entry in map.iter() {
                let (key, value) = entry?;
                put_terminated(key.as_bytes(), out);
                put_order(&value, depth + 1, out)?;
            }
        }
    }
    Ok(())
}

/// Bytes that end, and order as before.
fn put_terminated(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Looks at all of a document.
///
/// # Errors
/// `Corrupt`: some part of it cannot be read, or keys are not in their order.
pub fn check(document: &[u8]) -> Result<()> {
    fn walk(node: &Node<'_>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(bad("nested too deeply"));
        }
        match node {
            Node::List(list) => list.iter().try_for_each(|item| walk(&item?, depth + 1)),
            Node::Map(map) => {
                let mut last: Option<&str> = None;
                for entry in map.iter() {
                    let (key, value) = entry?;
                    if last.is_some_and(|last| (last.len(), last) >= (key.len(), key)) {
                        return Err(bad("keys are not in their order"));
                    }
                    last = Some(key);
                    walk(&value, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
    walk(&read(document)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut out = begin();
        let mut map = put_map(3, &mut out);
        for key in ["a", "b", "cc"] {
            out.extend_from_slice(key.as_bytes());
            map.end(&mut out);
        }
        put_number(&[0xc0, 1, 0, 2], &mut out);
        map.end(&mut out);
        let mut list = put_list(2, &mut out);
        put_null(&mut out);
        list.end(&mut out);
        put_text("x\0y", &mut out);
        list.end(&mut out);
        map.end(&mut out);
        put_bool(true, &mut out);
        map.end(&mut out);
        out
    }

    #[test]
    fn parts_are_found() {
        let bytes = sample();
        check(&bytes).unwrap();
        let Node::Map(map) = read(&bytes).unwrap() else { panic!("a map") };
        assert_eq!(map.find("cc").unwrap(), Some(Node::Bool(true)));
        assert_eq!(map.find("c").unwrap(), None);
        assert_eq!(map.find("a").unwrap(), Some(Node::Number(&[0xc0, 1, 0, 2])));
        let Some(Node::List(list)) = map.find("b").unwrap() else { panic!("a list") };
        assert_eq!(list.get(1).unwrap(), Node::Text("x\0y"));
        assert!(list.get(2).is_err());
        let alone = map.find("b").unwrap().unwrap().to_document();
        check(&alone).unwrap();
        assert_eq!(read(&alone).unwrap(), Node::List(list));
    }

    proptest! {
        #[test]
        fn damaged_documents_never_panic(at in 0usize..80, byte: u8, cut in 0usize..80) {
            let mut bytes = sample();
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = check(&bytes);
            let _ = order_key(&bytes, &mut Vec::new());
            if let Ok(Node::Map(map)) = read(&bytes) {
                let _ = map.find("cc");
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..60)) {
            let mut bytes = bytes;
            bytes.insert(0, VERSION);
            let _ = check(&bytes);
            let _ = order_key(&bytes, &mut Vec::new());
        }
    }

    #[test]
    fn too_deep_is_an_error() {
        let mut out = begin();
        for _ in 0..DEPTH_MAX + 2 {
            out.push(LIST);
            out.extend_from_slice(&1u32.to_le_bytes());
            let left = 0x00ff_ffffu32;
            out.extend_from_slice(&left.to_le_bytes());
        }
        assert!(check(&out).is_err());
    }
}
