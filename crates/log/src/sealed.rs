//! A block whose content is complete: its bytes, and its header, which is made once, with one look at the content.
//!
//! Whoever needs the block's header first makes it: the flush that writes the block, or who sends it elsewhere. Both take header and content as they
//! are, as two parts; nobody copies them together. The checksum of a message that the block is a part of follows from the header's own
//! ([`Sealed::checksum_after`]).
//!
//! # Invariants
//! 1. Content and header never change. What the header says of durability is set by the flush that takes the block
//!    ([`Sealed::is_taken`]), before anybody can ask for the header.
//! 2. Who drops a block last gives its memory to the next one ([`Spares`]): the flush, a follower, or who has sent it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use resurgam_base::{Lsn, checksum, checksum_append, checksum_shift};

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, Head};

/// Memory that waits to be used again, at most.
const SPARE_BYTES_MAX: usize = 4 << 20;
/// For content that is shorter than this a look at it takes less than to do without.
const SHIFTED_BYTES: usize = 16 << 10;

/// See the module.
pub(crate) struct Sealed {
    /// Its durable position is not filled in where the block was made here.
    pub(crate) header: BlockHeader,
    /// Begins with space for the header.
    pub(crate) bytes: Vec<u8>,
    durable: AtomicU64,
    head: OnceLock<Head>,
    spares: Option<Arc<Spares>>,
}

impl Sealed {
    /// `bytes` go there when nobody has the block any more.
    pub(crate) fn new(header: BlockHeader, bytes: Vec<u8>, spares: &Arc<Spares>) -> Self {
        let mut this = Self::of_file(header, bytes);
        this.spares = Some(Arc::clone(spares));
        this
    }

    /// One that was read, and checked.
    pub(crate) fn of_file(header: BlockHeader, bytes: Vec<u8>) -> Self {
        Self { durable: AtomicU64::new(header.durable.0), header, bytes, head: OnceLock::new(), spares: None }
    }

    /// A flush has taken it when everything below `durable` was.
    pub(crate) fn is_taken(&self, durable: Lsn) {
        self.durable.store(durable.0, Ordering::Release);
    }

    fn known_head(&self) -> &Head {
        self.head.get_or_init(|| {
            let durable = Lsn(self.durable.load(Ordering::Acquire));
            BlockHeader { durable, ..self.header }.head_of(self.payload())
        })
    }

    /// Its header as it is in files and messages.
    pub(crate) fn head(&self) -> &[u8; BLOCK_HEADER_BYTES] {
        &self.known_head().bytes
    }

    /// Its records.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default()
    }

    /// The checksum of what has the checksum `seed` and is followed by header and records.
    pub(crate) fn checksum_after(&self, seed: u32) -> u32 {
        let (head, payload) = (self.known_head(), self.payload());
        let seed = checksum_append(seed, &head.bytes);
        if payload.len() < SHIFTED_BYTES {
            return checksum_append(seed, payload);
        }
        // Of the header without its checksum and the records it is known.
        checksum_shift(seed ^ checksum(&head.unsealed()), payload.len()) ^ head.checksum()
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if let Some(spares) = self.spares.take() {
            spares.give(std::mem::take(&mut self.bytes));
        }
    }
}

/// Memory of blocks that are gone. A leaf: nothing is locked under its lock.
#[derive(Default)]
pub(crate) struct Spares(Mutex<(Vec<Vec<u8>>, usize)>);

impl Spares {
    fn give(&self, bytes: Vec<u8>) {
        let (all, kept) = &mut *self.0.lock();
        if bytes.capacity() > BLOCK_HEADER_BYTES && *kept + bytes.capacity() <= SPARE_BYTES_MAX {
            *kept += bytes.capacity();
            all.push(bytes);
        }
    }

    /// What was given last, empty; with no memory where there is none.
    pub(crate) fn take(&self) -> Vec<u8> {
        let (all, kept) = &mut *self.0.lock();
        let mut bytes = all.pop().unwrap_or_default();
        *kept -= bytes.capacity();
        bytes.clear();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::Block;

    fn header(payload_len: usize) -> BlockHeader {
        BlockHeader {
            lsn: Lsn(1 << 20),
            prev: Lsn(1 << 19),
            durable: Lsn::NONE,
            epoch: 3,
            payload_len: payload_len as u32,
            opening: 7,
            skip: payload_len == 0,
        }
    }

    #[test]
    fn one_checksum_is_enough() {
        for len in [0, 1, 500, SHIFTED_BYTES - 1, SHIFTED_BYTES, SHIFTED_BYTES + 1, 300_000] {
            let mut bytes = vec![0; BLOCK_HEADER_BYTES];
            bytes.extend((0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8));
            let sealed = Sealed::new(header(len), bytes, &Arc::default());
            sealed.is_taken(Lsn(77 * 512));
            let whole = [&sealed.head()[..], sealed.payload()].concat();
            assert!(BlockHeader::verify(&whole).unwrap());
            let read = BlockHeader::decode(sealed.head(), Lsn(1 << 20)).unwrap();
            assert_eq!(read, BlockHeader { durable: Lsn(77 * 512), ..header(len) });
            for seed in [0, 5, checksum(b"what is before it")] {
                assert_eq!(sealed.checksum_after(seed), checksum_append(seed, &whole), "{len} bytes after {seed:x}");
            }
            // It stays as it was made.
            sealed.is_taken(Lsn(78 * 512));
            assert_eq!(whole[..BLOCK_HEADER_BYTES], *sealed.head());
        }
        let skip = Sealed::of_file(header(0), vec![0; BLOCK_HEADER_BYTES]);
        assert!(Block::parse(&skip.head()[..], Lsn(1 << 20), 1 << 24).is_ok());
    }

    #[test]
    fn memory_is_used_again_whoever_drops_it_and_is_bounded() {
        let spares = Arc::<Spares>::default();
        let block = |bytes: usize| Arc::new(Sealed::new(header(1), vec![1; bytes], &spares));
        let (flushed, sent) = (block(5000), block(6000));
        let follower = Arc::clone(&sent);
        drop((flushed, sent));
        let first = spares.take();
        assert!(first.is_empty() && first.capacity() == 5000);
        assert_eq!(spares.take().capacity(), 0, "somebody has it still");
        drop(follower);
        assert_eq!(spares.take().capacity(), 6000);
        // Those of no content, and what would be too much, go.
        drop(block(BLOCK_HEADER_BYTES));
        drop([block(SPARE_BYTES_MAX / 2), block(SPARE_BYTES_MAX / 2), block(1000)]);
        let lens: Vec<_> = std::iter::repeat_with(|| spares.take().capacity()).take(3).collect();
        assert_eq!(lens, [SPARE_BYTES_MAX / 2, SPARE_BYTES_MAX / 2, 0]);
    }
}
