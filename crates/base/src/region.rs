//! Memory that is taken from the system in one piece: that of many pages which stay.
//!
//! The system gives it zeroed when it is first touched, so taking it costs nothing. Asked for it, the system backs it by large pages:
//! who reads it all over, as a pool is read, then finds what translates its addresses in the processor instead of in memory.

use std::ptr::NonNull;

/// Bytes of a large page, where the system has such.
pub const LARGE_PAGE: usize = 2 << 20;
/// No page of the system is smaller, and what a region begins at is a multiple of it.
pub const SMALL_PAGE: usize = 4096;

/// See the module. Whoever has it says who may read and write which part.
#[derive(Debug)]
pub struct Region {
    begin: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory, bound to no thread, and gives nobody access by itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Takes `len` bytes from the system.
fn map(len: usize) -> NonNull<u8> {
    // SAFETY: new memory, at no address that anybody has, of no file.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    let at = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) };
    at.unwrap_or_else(|| {
        let layout = std::alloc::Layout::from_size_align(len, SMALL_PAGE);
        std::alloc::handle_alloc_error(layout.unwrap_or(std::alloc::Layout::new::<u8>()))
    })
}

/// Gives `len` bytes back.
///
/// # Safety
/// They are of a mapping of [`map`], whole pages of the system, and nobody uses them any more.
unsafe fn unmap(at: NonNull<u8>, len: usize) {
    // SAFETY: the caller's word. It fails for arguments that are none only.
    let _ = unsafe { libc::munmap(at.as_ptr().cast(), len) };
}

impl Region {
    /// `len` bytes, all zero; not none, and a multiple of [`SMALL_PAGE`]. `large`: the system is asked for large pages, as far as it has
    /// any; for who will use most of it.
    pub fn zeroed(len: usize, large: bool) -> Self {
        assert!(len > 0 && len.is_multiple_of(SMALL_PAGE), "{len} bytes are no whole pages");
        if !large || !len.is_multiple_of(LARGE_PAGE) {
            return Self { begin: map(len), len };
        }
        let mapped = map(len + LARGE_PAGE);
        let before = mapped.as_ptr().align_offset(LARGE_PAGE);
        let behind = LARGE_PAGE - before;
        // SAFETY: `before` is less than a large page, so `len` bytes follow it in the mapping, and `behind` bytes those.
        let (begin, end) = unsafe { (mapped.add(before), mapped.add(before + len)) };
        if before > 0 {
            // SAFETY: the mapping's begin, which nobody has; whole pages, since mappings begin with one.
            unsafe { unmap(mapped, before) };
        }
        // SAFETY: as above, its end; at least a page, since `before` is less than a large one.
        unsafe { unmap(end, behind) };
        #[cfg(target_os = "linux")]
        // SAFETY: advice, of this region only; it changes no content.
        let _ = unsafe { libc::madvise(begin.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        Self { begin, len }
    }

    /// Where it begins: a multiple of [`SMALL_PAGE`].
    #[inline]
    pub fn begin(&self) -> NonNull<u8> {
        self.begin
    }

    /// Its bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: see [`Region::zeroed`].
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: what was kept of the mapping. Who has a part of it keeps the region.
        unsafe { unmap(self.begin, self.len) };
    }
}

/// Has the processor fetch a line of its cache that is about to be read. Any address will do.
#[inline]
pub fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing and cannot fail, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zero_and_whole() {
        for (len, large) in [(SMALL_PAGE, false), (3 * SMALL_PAGE, true), (LARGE_PAGE, true), (4 * LARGE_PAGE, true)] {
            let region = Region::zeroed(len, large);
            let at = region.begin().as_ptr();
            assert!(region.len() == len && at.addr().is_multiple_of(SMALL_PAGE));
            assert!(!large || !len.is_multiple_of(LARGE_PAGE) || at.addr().is_multiple_of(LARGE_PAGE));
            // SAFETY: the region's bytes, which nobody else has.
            let bytes = unsafe { std::slice::from_raw_parts_mut(at, len) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            prefetch(at.addr() + len);
        }
    }
}
