//! Bytes of the bodies of catalog objects. Who reads them trusts nothing in them.

use crate::wire::SqlError;

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front; what is missing or malformed is `XX001`.
pub(super) struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn bad() -> SqlError {
        SqlError::new("XX001", "an object of the catalog is damaged: a role, or rights")
    }
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(Self::bad)?;
        self.0 = rest;
        Ok(*first)
    }
    pub(super) fn u8(&mut self) -> Result<u8, SqlError> {
        Ok(self.take::<1>()?[0])
    }
    pub(super) fn u16(&mut self) -> Result<u16, SqlError> {
        self.take().map(u16::from_le_bytes)
    }
    pub(super) fn u32(&mut self) -> Result<u32, SqlError> {
        self.take().map(u32::from_le_bytes)
    }
    pub(super) fn i32(&mut self) -> Result<i32, SqlError> {
        self.take().map(i32::from_le_bytes)
    }
    pub(super) fn i64(&mut self) -> Result<i64, SqlError> {
        self.take().map(i64::from_le_bytes)
    }
    pub(super) fn text(&mut self) -> Result<String, SqlError> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or_else(Self::bad)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Self::bad())
    }
    /// All was read.
    pub(super) fn end(self) -> Result<(), SqlError> {
        if self.0.is_empty() { Ok(()) } else { Err(Self::bad()) }
    }
}
