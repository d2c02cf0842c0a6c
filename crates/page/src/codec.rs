//! Checked reading of little-endian fields, and varints.
//!
//! A varint is LEB128: seven bits a byte, least significant first, the high bit
//! set on every byte but the last; at most five bytes (32 bits).

use resurgam_base::{Error, Result};

/// A cursor over untrusted bytes. Every read is checked; an early end is a
/// `Corrupt` error that names `what` is being read and the position.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start; `what` names them in errors.
    #[inline]
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, pos: 0, what }
    }

    #[cold]
    fn short(&self, want: usize) -> Error {
        Error::corrupt(format!(
            "{}: {want} bytes wanted at byte {}, only {} are there",
            self.what,
            self.pos,
            self.remaining()
        ))
    }

    /// A `Corrupt` error that names what is being read and the position.
    #[cold]
    pub fn bad(&self, problem: &str) -> Error {
        Error::corrupt(format!("{}: {problem} at byte {}", self.what, self.pos))
    }

    /// Bytes already read.
    #[inline]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Bytes not yet read.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.bytes[self.pos..].get(..len) {
            Some(out) => {
                self.pos += len;
                Ok(out)
            }
            None => Err(self.short(len)),
        }
    }

    /// All bytes that are left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        let out = &self.bytes[self.pos..];
        self.pos = self.bytes.len();
        out
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes[self.pos..].first_chunk::<N>() {
            Some(out) => {
                self.pos += N;
                Ok(*out)
            }
            None => Err(self.short(N)),
        }
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A varint of at most 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<usize> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return match u32::try_from(value) {
                    Ok(v) => Ok(v as usize),
                    Err(_) => Err(self.bad("varint over 32 bits")),
                };
            }
        }
        Err(self.bad("varint longer than five bytes"))
    }

    /// A varint of up to 64 bits, in at most ten bytes.
    #[inline]
    pub fn varint64(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(self.bad("varint over 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.bad("varint longer than ten bytes"))
    }

    /// A varint length, then that many bytes.
    #[inline]
    pub fn counted(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        self.take(len)
    }
}

/// Appends a varint. Values of this crate are page offsets, lengths and counts;
/// a value over 32 bits is cut (none can occur: inputs are below 4 GiB).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: usize) {
    debug_assert!(value <= u32::MAX as usize);
    let mut value = value as u32;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint of up to 64 bits, for [`Reader::varint64`].
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] appends for `value`.
#[inline]
pub const fn varint_len(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_have_the_announced_length() {
        for v in [0, 1, 127, 128, 16383, 16384, 0x1f_ffff, 0x20_0000, 0xfff_ffff, 0x1000_0000, u32::MAX as usize] {
            let mut out = Vec::new();
            put_varint(&mut out, v);
            assert_eq!(out.len(), varint_len(v), "{v}");
            let mut r = Reader::new(&out, "test");
            assert_eq!(r.varint().unwrap(), v);
            assert!(r.is_empty());
        }
    }

    #[test]
    fn long_varints_round_trip() {
        for v in [0, 127, 128, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 63, u64::MAX] {
            let mut out = Vec::new();
            put_varint64(&mut out, v);
            let mut r = Reader::new(&out, "test");
            assert_eq!(r.varint64().unwrap(), v);
            assert!(r.is_empty());
        }
        assert!(Reader::new(&[0xff; 10], "t").varint64().is_err());
        assert!(Reader::new(&[0x80; 11], "t").varint64().is_err());
    }

    #[test]
    fn bad_varints_are_errors() {
        assert!(Reader::new(&[0x80], "t").varint().is_err());
        assert!(Reader::new(&[0xff; 5], "t").varint().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f], "t").varint().is_err());
        assert!(Reader::new(&[5, 1, 2], "t").counted().is_err());
    }
}
