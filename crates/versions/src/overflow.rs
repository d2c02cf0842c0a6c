//! Values too large for a row's page, kept on a chain of overflow pages.
//!
//! A chain is written before the row version that refers to it, last page first, each
//! page in a system transaction and marked potentially unused, with the writer's id in
//! the page header. If the writer aborts, the sweep frees the pages by that mark; once
//! the writer is committed for all, the mark goes. A value that a committed version no
//! longer refers to is freed as a pending free.

use resurgam_base::{Error, ObjectId, PageId, Result, TxId, limits::VALUE_BYTES_MAX};
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_page::types::ExternalRef;
use resurgam_page::{PageType, buf::HEADER_SIZE, op, overflow};
use resurgam_txn::ActiveTx;

/// Owner of overflow pages.
pub const OVERFLOW_OBJECT: ObjectId = ObjectId(3);

/// Pages written between two looks for room in the log.
const ROOM_EVERY: usize = 64;

/// Writes a value for `tx` under `writer`, one of its ids; the returned reference goes into
/// the row. `room` is called now and then, with nothing latched: it waits while the log is full.
pub fn write_external(
    pool: &BufferPool,
    tx: &ActiveTx,
    writer: TxId,
    value: &[u8],
    is_text: bool,
    room: &dyn Fn() -> Result<()>,
) -> Result<ExternalRef> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::new(
            resurgam_base::ErrorKind::LimitExceeded,
            format!("a value of {} bytes is longer than {VALUE_BYTES_MAX}", value.len()),
        ));
    }
    let mut next = PageId::NONE;
    for (number, chunk) in value.chunks(overflow::CHUNK_MAX).rev().enumerate() {
        if number % ROOM_EVERY == ROOM_EVERY - 1 {
            room()?;
        }
        let mut mtr = Mtr::new(pool);
        let (id, at) = pool.space().allocate(&mut mtr, OVERFLOW_OBJECT, 0)?;
        mtr.attribute(at, writer, resurgam_base::Lsn::NONE);
        let payload = overflow::payload(next, writer, chunk)?;
        let ops = mtr.ops(at);
        op::format(ops, PageType::Overflow, 0, OVERFLOW_OBJECT, &[], None);
        op::set_bytes(ops, HEADER_SIZE as u16, &payload);
        // The transaction has written: it must not end as one that has not.
        tx.logged_aside(mtr.commit()?.0);
        next = id;
    }
    Ok(ExternalRef { len: value.len() as u64, page: next, is_text })
}

/// Reads a value. The length in the reference bounds what is allocated and followed.
pub fn read_external(pool: &BufferPool, value: ExternalRef) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::corrupt(format!("large value at page {}: {what}", value.page));
    if value.len as usize > VALUE_BYTES_MAX {
        return Err(wrong("impossible length"));
    }
    let mut out = Vec::new();
    let mut at = value.page;
    while (out.len() as u64) < value.len {
        if at.is_none() {
            return Err(wrong("its chain of pages ends early"));
        }
        let page = pool.read(at, Access::Scan)?;
        if !page.is(PageType::Overflow) {
            return Err(wrong("its chain leads to a page of another kind"));
        }
        let (next, chunk) = overflow::read(&page)?;
        if chunk.is_empty() || out.len() as u64 + chunk.len() as u64 > value.len {
            return Err(wrong("its pages do not add up to its length"));
        }
        out.extend_from_slice(chunk);
        at = next;
    }
    Ok(out)
}

/// Whether a value is `data`. Its pages are read up to the first difference.
///
/// # Errors
/// Those of reading the pages.
pub fn is_external(pool: &BufferPool, value: ExternalRef, data: &[u8], is_text: bool) -> Result<bool> {
    if value.len != data.len() as u64 || value.is_text != is_text {
        return Ok(false);
    }
    let (mut at, mut left) = (value.page, data);
    while !left.is_empty() {
        let page = pool.read(at, Access::Scan)?;
        let (next, chunk) = overflow::read(&page)?;
        match left.strip_prefix(chunk) {
            Some(rest) if rest.len() < left.len() => left = rest,
            _ => return Ok(false),
        }
        at = next;
    }
    Ok(true)
}

/// Frees the first page of a chain as part of `mtr`; returns the rest of the chain.
/// `None` when `first` is not an overflow page (any more).
pub fn free_external(mtr: &mut Mtr<'_>, first: PageId) -> Result<Option<PageId>> {
    let pool = mtr.pool();
    let page = pool.write(first, Access::Scan)?;
    if !page.is(PageType::Overflow) {
        return Ok(None);
    }
    let (next, _) = overflow::read(&page)?;
    let at = mtr.add(page);
    pool.space().free(mtr, first, OVERFLOW_OBJECT, at)?;
    Ok(Some(next))
}
