//! The stored form of a [`Folded`](crate::types::ColumnType::Folded) text: what it is compared by, and what it shows.
//!
//! ```text
//! text | 0                                  it is compared as it is
//! folded | text | length of folded u32 | 1  it is compared by `folded`
//! ```
//!
//! How a text is folded is the SQL layer's; what counts is kept with the value, so that keys stay what they are when that
//! changes. Keys have the folded text alone: texts that are equal have one key.

use resurgam_base::{Error, Result};

/// The end of a text that is compared as it is.
pub const AS_IT_IS: u8 = 0;
const OTHERWISE: u8 = 1;
/// Bytes of the length, and of what says that there is one.
const TAIL: usize = 5;

/// A stored text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded<'a> {
    /// What it is compared by.
    pub key: &'a [u8],
    /// What it shows.
    pub text: &'a [u8],
}

/// Appends the stored form of a text.
pub fn encode(folded: &[u8], text: &[u8], out: &mut Vec<u8>) {
    if folded == text {
        out.extend_from_slice(text);
        out.push(AS_IT_IS);
        return;
    }
    out.reserve(folded.len() + text.len() + TAIL);
    out.extend_from_slice(folded);
    out.extend_from_slice(text);
    out.extend_from_slice(&(folded.len() as u32).to_le_bytes());
    out.push(OTHERWISE);
}

/// Reads a stored form.
///
/// # Errors
/// `Corrupt`
pub fn decode(stored: &[u8]) -> Result<Folded<'_>> {
    let bad = || Error::corrupt("a folded text that is none");
    match stored.split_last() {
        Some((&AS_IT_IS, text)) => Ok(Folded { key: text, text }),
        Some((&OTHERWISE, rest)) => {
            let (both, length) = rest.split_last_chunk::<4>().ok_or_else(bad)?;
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| bad())?;
            let (key, text) = both.split_at_checked(length).ok_or_else(bad)?;
            Ok(Folded { key, text })
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_both() {
        for (folded, text) in [("abc", "ABC"), ("abc", "abc"), ("", ""), ("i", "İ"), ("ab\u{0}", "AB\u{0}"), ("", "x")]
        {
            let mut stored = Vec::new();
            encode(folded.as_bytes(), text.as_bytes(), &mut stored);
            assert_eq!(decode(&stored).unwrap(), Folded { key: folded.as_bytes(), text: text.as_bytes() });
        }
    }

    #[test]
    fn bytes_that_are_none() {
        for stored in [&b""[..], b"abc\x02", b"\x01", b"a\x01", b"a\x02\0\0\0\x01"] {
            assert!(decode(stored).is_err(), "{stored:?}");
        }
    }
}
