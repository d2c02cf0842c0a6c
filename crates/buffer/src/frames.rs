//! The frames of a pool, in chunks: those of one chunk are beside each other, and so are their pages. A chunk is made when one of its
//! frames is used first.
//!
//! So a frame's number says where its page is in memory, and who is led to a frame can have the processor fetch both at once
//! ([`Frames::prefetch`]). And a chunk of a pool that is not small can be of large pages of the system (`base/src/region.rs`): with small ones,
//! a read of a page that was not used for a while waits for the translation of its address before it waits for its bytes.

use std::sync::OnceLock;

use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{memory, region};
use resurgam_page::PageBuf;

use crate::frame::Frame;

/// Frames of a chunk, at least: a large page of the system.
const CHUNK_MIN: usize = region::LARGE_PAGE / PAGE_SIZE;
/// Chunks, at most about so many: a reader passes their list, which is to stay in the processor's nearest cache.
const CHUNKS: usize = 64;
/// A pool of fewer frames has no large pages: it may not come to use what they take.
const LARGE_FROM: usize = (64 << 20) / PAGE_SIZE;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;
/// Lines that a search in a page begins with: the header and the first slots.
const FIRST_LINES: usize = 4;
/// See [`Frames::prefetch_rest`].
const LAST_LINES: usize = 4;

/// See the module.
pub(crate) struct Frames {
    chunks: Box<[OnceLock<Chunk>]>,
    /// A chunk has two to the power of so many frames, but for the last one.
    shift: u32,
    len: usize,
}

struct Chunk {
    frames: Box<[Frame]>,
    /// The address of its first page; the others follow.
    pages: usize,
}

impl Frames {
    /// For a pool of so many frames.
    pub fn new(len: usize) -> Self {
        let shift = (len / CHUNKS).next_power_of_two().max(CHUNK_MIN).trailing_zeros();
        let mut chunks = Vec::new();
        chunks.resize_with(len.div_ceil(1 << shift), OnceLock::new);
        Self { chunks: chunks.into_boxed_slice(), shift, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The chunk of a frame, and its place there.
    #[inline]
    fn place(&self, index: u32) -> (usize, usize) {
        let index = index as usize;
        (index >> self.shift, index & ((1 << self.shift) - 1))
    }

    /// The frame with this number, if its chunk is made.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Frame> {
        let (chunk, at) = self.place(index);
        self.chunks.get(chunk)?.get()?.frames.get(at)
    }

    /// The frame with this number, which is one; its chunk is made if it is not there.
    pub fn get_or_make(&self, index: u32) -> &Frame {
        let (chunk, at) = self.place(index);
        &self.chunks[chunk].get_or_init(|| self.make(chunk)).frames[at]
    }

    /// It is the pool's, not of the statement that needs it first.
    #[cold]
    fn make(&self, chunk: usize) -> Chunk {
        memory::aside(|| {
            let first = chunk << self.shift;
            let count = (self.len - first).min(1 << self.shift);
            let pages = PageBuf::many_zeroed(count, self.len >= LARGE_FROM);
            let at = pages.first().map_or(0, |page| page.as_bytes().as_ptr().addr());
            let frames = pages.into_iter().zip(first..).map(|(page, index)| Frame::new(index as u32, page));
            Chunk { frames: frames.collect(), pages: at }
        })
    }

    /// The first so many, as far as their chunks are made.
    pub fn first(&self, count: usize) -> impl Iterator<Item = &Frame> {
        let chunks = self.chunks.iter().take(count.div_ceil(1 << self.shift));
        chunks.filter_map(|chunk| chunk.get()).flat_map(|chunk| chunk.frames.iter()).take_while(move |frame| {
            // The numbers ascend.
            (frame.index as usize) < count
        })
    }

    /// Has the processor fetch the begin of the page in a frame, any number, which is about to be looked at.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let (chunk, at) = self.place(index);
        if let Some(chunk) = self.chunks.get(chunk).and_then(OnceLock::get) {
            let page = chunk.pages + at * PAGE_SIZE;
            (0..FIRST_LINES).for_each(|line| region::prefetch(page + line * LINE));
        }
    }

    /// The same of the frame itself, and of the end of its page, where a page that was filled in order has its fences and first records.
    #[inline]
    pub fn prefetch_rest(&self, index: u32) {
        let (chunk, at) = self.place(index);
        let Some(chunk) = self.chunks.get(chunk).and_then(OnceLock::get) else { return };
        if let Some(frame) = chunk.frames.get(at) {
            region::prefetch(std::ptr::from_ref(frame).addr());
            let end = chunk.pages + (at + 1) * PAGE_SIZE;
            (1..=LAST_LINES).for_each(|line| region::prefetch(end - line * LINE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_frame_and_its_page() {
        for len in [1, 64, 255, 256, 257, 40_000] {
            let frames = Frames::new(len);
            assert_eq!((frames.len(), frames.first(len).count()), (len, 0));
            for index in [0, len / 2, len - 1] {
                let frame = frames.get_or_make(index as u32);
                assert_eq!(frame.index as usize, index);
                frame.latch.write().as_bytes_mut()[0] = 9;
                let (chunk, at) = frames.place(index as u32);
                let page = frames.chunks[chunk].get().map(|chunk| chunk.pages + at * PAGE_SIZE);
                assert_eq!(page, Some(frame.latch.read().as_bytes().as_ptr().addr()));
                frames.prefetch(index as u32);
            }
            assert!(frames.get(len as u32).is_none() && frames.get(u32::MAX).is_none());
            frames.prefetch(u32::MAX);
            let numbers: Vec<u32> = frames.first(len.min(300)).map(|frame| frame.index).collect();
            assert!(numbers.is_sorted() && numbers.iter().all(|index| (*index as usize) < len.min(300)));
            assert!((0..len as u32).all(|index| frames.get_or_make(index).index == index));
            assert_eq!(frames.first(len).count(), len);
        }
    }
}
