//! Overflow pages: a chain that keeps one long value.
//!
//! ```text
//! 64 next u64     next page of the chain; 0 = last
//! 72 writer u64   the transaction that wrote the value
//! 80 len u16      bytes of the value on this page
//! 82 bytes
//! ```
//! A page is written by a `Format` operation and one `SetBytes` of [`payload`].

use crate::buf::{HEADER_SIZE, PageBuf, PageType};
use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, PageId, Result, TxId};

const PREFIX: usize = 8 + 8 + 2;
/// Bytes of a value that one page holds.
pub const CHUNK_MAX: usize = PAGE_SIZE - HEADER_SIZE - PREFIX;

/// Bytes to be set at offset 64 of an overflow page. `chunk` is at most [`CHUNK_MAX`] bytes.
pub fn payload(next: PageId, writer: TxId, chunk: &[u8]) -> Result<Vec<u8>> {
    if chunk.len() > CHUNK_MAX {
        return Err(Error::internal(format!("overflow chunk of {} bytes", chunk.len())));
    }
    let mut out = Vec::with_capacity(PREFIX + chunk.len());
    out.extend_from_slice(&next.0.to_le_bytes());
    out.extend_from_slice(&writer.0.to_le_bytes());
    out.extend_from_slice(&(chunk.len() as u16).to_le_bytes());
    out.extend_from_slice(chunk);
    Ok(out)
}

/// The next page of the chain (`PageId::NONE` at its end) and this page's part of the value.
pub fn read(page: &PageBuf) -> Result<(PageId, &[u8])> {
    if !page.is(PageType::Overflow) {
        return Err(Error::corrupt(format!(
            "page {}: an overflow page is wanted, its type is {}",
            page.page_id(),
            page.type_byte()
        )));
    }
    let mut r = crate::codec::Reader::new(&page.as_bytes()[HEADER_SIZE..], "overflow page");
    let next = PageId(r.u64()?);
    let _writer = r.u64()?;
    let len = r.u16()? as usize;
    Ok((next, r.take(len)?))
}

/// The transaction that wrote the value of which the page is part.
pub fn writer(page: &PageBuf) -> Result<TxId> {
    let mut r = crate::codec::Reader::new(&page.as_bytes()[HEADER_SIZE..], "overflow page");
    let _next = r.u64()?;
    Ok(TxId(r.u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use resurgam_base::ObjectId;

    #[test]
    fn round_trip_and_bad_length() {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Overflow, PageId(5), 0, ObjectId(1));
        let bytes = payload(PageId(6), TxId(9), &[7; CHUNK_MAX]).unwrap();
        page.as_bytes_mut()[HEADER_SIZE..].copy_from_slice(&bytes);
        assert_eq!(read(&page).unwrap(), (PageId(6), &[7; CHUNK_MAX][..]));
        page.as_bytes_mut()[HEADER_SIZE + 16] = 0xff;
        page.as_bytes_mut()[HEADER_SIZE + 17] = 0xff;
        assert!(read(&page).is_err());
        assert!(payload(PageId(6), TxId(9), &[0; CHUNK_MAX + 1]).is_err());
    }
}
